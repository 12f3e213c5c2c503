"""The MaxText seam, called exactly as MaxText's layer calls it, without and with that package."""

import dataclasses
import importlib.util
import itertools
import types

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import mhc_kernels.maxtext as seam
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from support import Golden, assert_close, assert_equal, relative

IMPLEMENTATIONS = ("mosaic_tpu", "xla")


def permutation_matrices(n):
    return np.eye(n)[np.array(list(itertools.permutations(range(n))))]


def make(b=2, s=5, n=4, d=16, dtype=jnp.bfloat16, seed=0):
    rng = np.random.default_rng(seed)
    k, p = n * d, len(permutation_matrices(n))
    value = lambda *shape, scale=1.0: jnp.asarray(scale * rng.standard_normal(shape), dtype)
    weights = seam.MhcWeights(
        1 + value(k, scale=0.1),
        value(k, n, scale=k**-0.5),
        value(n),
        value(1),
        value(k, n, scale=k**-0.5),
        value(n),
        value(1),
        value(k, p, scale=k**-0.5),
        value(p),
        value(1),
    )
    return value(b, s, n, d), weights, value(d), value(b, s, n, d)


def as_the_layer_calls_it(x, weights, w, implementation=None, permutations=True):
    """pre with the permutations in the activation type and a config; post with a config of its own,
    which has no
    rms_epsilon."""
    config = seam.MhcKernelConfig(
        block_size=256, bwd_block_size=128, bwd_feature_block_size=1024, rms_epsilon=1e-3
    )
    rest = (jnp.asarray(permutation_matrices(x.shape[2]), x.dtype),) if permutations else ()
    layer_input, context = seam.pre(x, weights, *rest, config=config, implementation=implementation)
    output = jnp.tanh(layer_input * w)
    return seam.post(
        output, context, config=seam.MhcKernelConfig(block_size=256, bwd_block_size=128)
    )


def gradients(implementation, x, weights, w, g, **kwargs):
    f = lambda x, weights, w: jnp.sum(
        (as_the_layer_calls_it(x, weights, w, implementation, **kwargs) * g).astype(jnp.float32)
    )
    return jax.jit(jax.value_and_grad(f, (0, 1, 2)))(x, weights, w)


@pytest.mark.parametrize("permutations", [True, False])
def test_layer(permutations):
    args = make()
    got, want = (gradients(i, *args, permutations=permutations) for i in IMPLEMENTATIONS)
    assert_close(got, want, 2e-2)
    exact = jax.tree.map(lambda v: v.astype(jnp.float32), args)
    assert_close(*(gradients(i, *exact, permutations=permutations) for i in IMPLEMENTATIONS), 1e-4)


@pytest.mark.parametrize(
    "shape", [dict(n=2), dict(n=3, d=7), dict(b=1, s=1, d=1), dict(dtype=jnp.float16), dict(s=0)]
)
def test_none_of_the_published_limits(shape):
    args = make(**shape)
    assert_close(*(gradients(i, *args) for i in IMPLEMENTATIONS), 2e-2)


def test_golden_kernel():
    file = Golden("maxtext_lite_kernel_bf16_B1_S16_D128")
    names = [f.name for f in dataclasses.fields(seam.MhcWeights)]
    weights = seam.MhcWeights(*(jnp.asarray(file[n]) for n in names))
    x, f, w, g = (jnp.asarray(file[k]) for k in ("x", "f", "w", "g"))

    def loss(x, weights):
        layer_input, context = seam.pre(x, weights, config=seam.MhcKernelConfig())
        out = seam.post(w * layer_input + f, context)
        return jnp.sum(out.astype(jnp.float32) * g.astype(jnp.float32)), (layer_input, context, out)

    (d_x, d_weights), (layer_input, context, out) = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(
        x, weights
    )
    for name, got in {
        "layer_input": layer_input,
        "x_next": out,
        "h_post": context.h_post,
        "h_res": context.residual,
        "d_x": d_x,
        **{f"d_{n}": getattr(d_weights, n) for n in names},
    }.items():
        assert got.shape == file[name].shape, name
        assert relative(got, file[name]) < 2.0**-6, f"{name}: {relative(got, file[name])}"


def test_fields_of_the_context_have_true_gradients():
    x, weights, w, g = jax.tree.map(lambda v: v.astype(jnp.float32), make())

    def f(i, x, weights):
        layer_input, c = seam.pre(x, weights, implementation=i)
        out = seam.post(jnp.tanh(layer_input), c)
        return (
            jnp.sum(out * g)
            + jnp.sum(jnp.sin(c.x))
            + jnp.sum(c.h_post**2)
            + jnp.sum(jnp.cos(c.residual) * 3)
        )

    assert_close(
        *(jax.jit(jax.grad(f, (1, 2)), static_argnums=0)(i, x, weights) for i in IMPLEMENTATIONS),
        1e-4,
    )


def test_any_object_with_the_attributes_serves():
    x, weights, w, _ = make()
    other = types.SimpleNamespace(**vars(weights))
    np.testing.assert_array_equal(
        *(np.asarray(as_the_layer_calls_it(x, v, w).astype(jnp.float32)) for v in (weights, other))
    )


def test_errors():
    x, weights, _, _ = make()
    perms = permutation_matrices(4)
    assert issubclass(seam.UnsupportedInputError, ValueError)
    for bad in ("triton", ("mosaic", "triton"), ()):
        with pytest.raises(ValueError, match="implementation"):
            seam.pre(x, weights, implementation=bad)
    for good in ("mosaic", "mosaic_tpu", "xla", ("xla", "mosaic"), None):
        seam.pre(x, weights, implementation=good)
    with pytest.raises(
        seam.UnsupportedInputError,
        match=r"permutations: expected all of them in lexicographic order",
    ):
        seam.pre(x, weights, perms[::-1])
    with pytest.raises(
        seam.UnsupportedInputError,
        match=r"permutations: expected shape \[24, 4, 4\], got \[6, 3, 3\]",
    ):
        seam.pre(x, weights, permutation_matrices(3))
    with pytest.raises(seam.UnsupportedInputError, match=r"x: expected shape \[B, S, n, D\]"):
        seam.pre(x[0], weights)
    with pytest.raises(
        seam.UnsupportedInputError, match=r"weights.pre_bias: expected shape \[4\], got \[3\]"
    ):
        seam.pre(x, dataclasses.replace(weights, pre_bias=weights.pre_bias[:3]))
    context = seam.pre(x, weights)[1]
    with pytest.raises(ValueError, match="context.implementation"):
        seam.post(x[:, :, 0], dataclasses.replace(context, implementation="triton"))
    with pytest.raises(ValueError, match="layer_output: expected shape"):
        seam.post(x, context)
    for bad in (
        dict(block_size=0),
        dict(rms_epsilon=0.0),
        dict(pre_mapping_epsilon=-1.0),
        dict(vmem_limit_bytes="1"),
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            seam.MhcKernelConfig(**bad)


def test_dims_and_costs():
    dims = seam.MhcDims(tokens=8192, streams=4, embedding=3072)
    assert (dims.flattened_size, dims.phi_cols, dims.num_permutations) == (12288, 32, 24)
    assert (dims.pre_slice, dims.post_slice, dims.res_slice) == (
        slice(0, 4),
        slice(4, 8),
        slice(8, 32),
    )
    half = seam.MhcDims(tokens=4096, streams=4, embedding=3072)
    for name in (
        "coeff_fwd_cost",
        "pre_apply_fwd_cost",
        "post_apply_fwd_cost",
        "coeff_bwd_cost",
        "pre_apply_bwd_cost",
        "post_apply_bwd_cost",
    ):
        cost, less = getattr(dims, name)(), getattr(half, name)()
        assert all(
            isinstance(v, int) and v >= 0
            for v in (cost.flops, cost.transcendentals, cost.bytes_accessed)
        )
        assert cost.flops == 2 * less.flops and cost.bytes_accessed > less.bytes_accessed
    # One read and one write of the streams, one read of the branch's output, in bf16, beside the
    # gates.
    assert dims.post_apply_fwd_cost().bytes_accessed == 8192 * ((2 * 12288 + 3072) * 2 + 20 * 4)


def test_other_names():
    _, weights, _, _ = make()
    params = weights.to_coeff_params()
    assert params.phi.shape == (64, 32) and isinstance(params, seam.MhcCoeffParams)
    assert len(jax.tree.leaves(seam.MhcCoeffGradients(*jax.tree.leaves(params)))) == 7
    assert len(seam.hbm_specs(1, 2)) == 2 and not isinstance(seam.hbm_specs(1), tuple)


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_inside_a_mesh(kind):
    x, weights, w, g = make(b=8, dtype=jnp.float32)
    want = gradients(None, x, weights, w, g)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
        assert_close(
            gradients(None, put(x, "data"), put(weights), put(w), put(g, "data")), want, 1e-6
        )


HAVE_MAXTEXT = importlib.util.find_spec("maxtext") is not None


@pytest.mark.skipif(
    not HAVE_MAXTEXT, reason="maxtext==0.2.5 is not installed: it needs Python 3.12"
)
@pytest.mark.parametrize("devices", [1, 8])
def test_maxtexts_own_layer(devices, monkeypatch):
    """One assignment, and the layer with use_mhc_pallas_kernel=True runs here and agrees with its
    native path."""
    from maxtext_layer import import_layer, make_layer, run_layer

    monkeypatch.setattr(import_layer(), "mhc_kernel", seam)
    native, fast = (run_layer(make_layer(kernel, devices), devices) for kernel in (False, True))
    assert_close(fast, native, 1e-4)


def test_export_takes_the_seams_pytrees():
    x, weights, _, _ = make()
    made = jax.export.export(jax.jit(seam.pre), disabled_checks=mj.export_checks())(x, weights)
    u, context = jax.export.deserialize(made.serialize(vjp_order=1)).call(x, weights)
    want = jax.jit(seam.pre)(x, weights)
    assert jax.tree.structure((u, context)) == jax.tree.structure(want)
    assert_equal((u, context), want)
    post = jax.export.export(jax.jit(seam.post), disabled_checks=mj.export_checks())(u, context)
    again = jax.export.deserialize(post.serialize()).call(u, context)
    assert_equal(again, jax.jit(seam.post)(u, context))
