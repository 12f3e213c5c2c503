"""What public implementations computed, through both implementations here
(tests/golden/README.md)."""

import re

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from support import GOLDEN, IMPLEMENTATIONS, Golden, relative, wide

STEMS = sorted(p.stem for p in GOLDEN.glob("*.json"))


def spec_of(stem):
    number = lambda key: float(re.search(rf"_{key}([0-9.e-]+?)(?=_|$)", stem)[1])
    n = int(m[1]) if (m := re.search(r"_n(\d)", stem)) else 4
    if stem.startswith("maxtext_lite_kernel"):
        return mhc.Spec.preset("maxtext_lite")
    if stem.startswith("maxtext_lite_layer"):
        return mhc.Spec.preset("maxtext_lite", phi_precision="float32", h_res_precision="float32")
    if stem.startswith("maxtext_sinkhorn"):
        iterations = int(re.search(r"sinkhorn(\d+)", stem)[1])
        return mhc.Spec.preset(
            "maxtext_sinkhorn", streams=n, manifold=mhc.Sinkhorn(iterations=iterations)
        )
    iterations = int(number("it"))
    if stem.startswith("liger"):
        return mhc.Spec.preset(
            "liger",
            manifold=mhc.Sinkhorn(iterations, number("seps")),
            norm_eps=number("neps"),
            pre_eps=number("peps"),
        )
    eps = number("eps")
    return mhc.Spec.preset(
        "hf_deepseek_v4",
        streams=n,
        manifold=mhc.Sinkhorn(iterations, eps),
        pre_eps=eps,
        norm_eps=number("neps"),
    )


def maxtext_params(file, prefix=""):
    """[K, n], [K, n], [K, L] beside each other become [m, n, D]; three scales are alpha."""
    n, d = file["x"].shape[-2:]
    parts = ("pre", "post", "res")
    phi = np.concatenate([file[f"{prefix}{p}_alpha"].T for p in parts]).reshape(-1, n, d)
    bias = np.concatenate([file[f"{prefix}{p}_bias"].reshape(-1) for p in parts])
    alpha = np.concatenate([file[f"{prefix}{p}_scale"].reshape(-1) for p in parts])
    return mj.Params(phi, alpha, bias, file[f"{prefix}norm_scale"].reshape(n, d))


def params_of(file, prefix=""):
    if file.stem.startswith("maxtext"):
        return maxtext_params(file, prefix)
    phi = file[f"{prefix}phi"].T if file.stem.startswith("liger") else file[f"{prefix}phi"]
    return mj.Params(
        phi.reshape(-1, *file["x"].shape[-2:]), file[f"{prefix}alpha"], file[f"{prefix}bias"]
    )


def run(file, spec, implementation):
    """Every result that a file may hold, by its name there."""
    x, f, w, g = (jnp.asarray(file[k]) for k in ("x", "f", "w", "g"))
    params = jax.tree.map(jnp.asarray, params_of(file))

    def loss(x, f, w, params):
        layer_input, state = mj.pre(x, params, spec, implementation=implementation)
        x_next = mj.post(w * layer_input + f, state)
        return jnp.sum(x_next.astype(jnp.float32) * g.astype(jnp.float32)), (layer_input, x_next)

    d, (layer_input, x_next) = jax.jit(jax.grad(loss, (0, 1, 2, 3), has_aux=True))(x, f, w, params)
    h_pre, h_post, h_res = jax.jit(
        mj.coefficients, static_argnums=2, static_argnames="implementation"
    )(x, params, spec, implementation=implementation)
    return {
        "layer_input": layer_input,
        "x_next": x_next,
        "h_pre": h_pre,
        "h_post": h_post,
        "h_res": h_res,
        "d_x": d[0],
        "d_f": d[1],
        "d_w": d[2],
        "params": d[3],
    }


def judge(file, name, got, want):
    """f32: 1e-5 of the largest, 1e-4 for tensors of a few sums that cancel. bf16: the file's maker
    and this each round to 2^-9 a few times on the way."""
    if file["x"].dtype == np.float32:
        worst = np.abs(wide(got) - wide(want)).max()
        assert worst <= (1e-4 if want.size < 16 else 1e-5) * max(np.abs(wide(want)).max(), 1e-30), (
            f"{name}: {worst}"
        )
        return
    assert relative(got, want) <= 2.0**-6, f"{name}: {relative(got, want)}"
    assert np.abs(wide(got) - wide(want)).max() <= 2.0**-5 * np.abs(wide(want)).max(), name


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("stem", STEMS)
def test_site(stem, implementation):
    file, spec = Golden(stem), spec_of(stem)
    results = run(file, spec, implementation)
    judged = 0
    for name, got in results.items():
        if name in file:
            want = file[name]
            if name == "h_res" and stem.startswith("liger"):
                want = np.swapaxes(want, -1, -2)
            judge(file, name, got, want)
            judged += 1
    assert judged >= 5
    d_params = params_of(file, "d_")
    for name in ("phi", "alpha", "bias", "norm_weight"):
        if getattr(d_params, name) is not None:
            got = getattr(results["params"], name)
            assert got.dtype == getattr(params_of(file), name).dtype
            judge(file, f"d_{name}", got, getattr(d_params, name))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("stem", [s for s in STEMS if s.startswith("hf")])
def test_head(stem, implementation):
    file, spec = Golden(stem), spec_of(stem)
    x, g = jnp.asarray(file["x"]), jnp.asarray(file["g_head"])
    phi = file["head_phi"].reshape(spec.streams, *x.shape[-2:])
    params = mj.HeadParams(
        jnp.asarray(phi), jnp.asarray(file["head_alpha"]), jnp.asarray(file["head_bias"])
    )

    def run_head(x, p):
        out, backward = jax.vjp(
            lambda x, p: mj.head(x, p, spec, implementation=implementation), x, p
        )
        return out, backward(g)

    out, (d_x, d) = jax.jit(run_head)(x, params)
    for name, got in {
        "head": out,
        "head_d_x": d_x,
        "d_head_phi": d.phi.reshape(spec.streams, -1),
        "d_head_alpha": d.alpha,
        "d_head_bias": d.bias,
    }.items():
        judge(file, name, got, file[name])


@pytest.mark.parametrize("stem", [s for s in STEMS if "bf16" in s])
def test_roundings_are_where_the_maker_has_them(stem):
    """Outputs that both round once agree in nearly all bits."""
    file, spec = Golden(stem), spec_of(stem)
    got = run(file, spec, "kernel")
    for name in ("layer_input", "x_next"):
        if name == "x_next" and stem.startswith("hf"):
            continue  # torch rounds products and sums of it separately
        if name in file:
            same = np.mean(wide(got[name]) == wide(file[name]))
            assert same >= 0.97, f"{name}: {same}"
