"""The MaxText seam, called exactly as MaxText's layer calls it, without and with that package."""

import dataclasses
import importlib.util
import inspect
import itertools
import re
import textwrap
import types
from pathlib import Path

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
    which has no rms_epsilon."""
    config = seam.MhcKernelConfig(
        block_size=256, bwd_block_size=128, bwd_feature_block_size=1024, rms_epsilon=1e-3
    )
    rest = (jnp.asarray(permutation_matrices(x.shape[2]), x.dtype),) if permutations else ()
    layer_input, context = seam.pre(x, weights, *rest, config=config, implementation=implementation)
    output = jnp.tanh(layer_input * w)
    return seam.post(
        output, context, config=seam.MhcKernelConfig(block_size=256, bwd_block_size=128)
    )


def output_and_gradients(layer, x, weights, w, g):
    """Of layer(x, weights, w), for the cotangent g."""

    @jax.jit
    def run(x, weights, w, g):
        output, backward = jax.vjp(layer, x, weights, w)
        return output, backward(g)

    return run(x, weights, w, g)


def gradients(implementation, *args, **kwargs):
    layer = lambda *a: as_the_layer_calls_it(*a, implementation, **kwargs)
    return output_and_gradients(layer, *args)


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


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_permutations_inside_a_program(implementation):
    """Values that are not known when traced: the right set changes nothing, a wrong one is seen."""
    x, weights, w, g = make()
    run = jax.jit(
        lambda x, weights, perms: seam.pre(x, weights, perms, implementation=implementation)
    )
    right = permutation_matrices(4)
    got, want = (run(x, weights, p) for p in (jnp.asarray(right, x.dtype), None))
    assert_equal(got, want)
    swapped = right[[1, 0, *range(2, 24)]]
    for wrong in (right[::-1], swapped, right + 1e-2, np.full_like(right, np.nan)):
        layer_input, context = run(x, weights, jnp.asarray(wrong, jnp.float32))
        for value in (layer_input, context.h_post, context.residual):
            assert np.isnan(np.asarray(value, np.float32)).all()

    def loss(x, weights, perms):
        layer_input, context = seam.pre(x, weights, perms, implementation=implementation)
        return jnp.sum((seam.post(layer_input, context) * g).astype(jnp.float32))

    f = jax.jit(jax.grad(loss, (0, 1)))
    assert_equal(f(x, weights, jnp.asarray(right, x.dtype)), f(x, weights, None))
    assert np.isnan(np.asarray(f(x, weights, jnp.asarray(swapped, x.dtype))[0], np.float32)).all()


def bad_calls():
    x, weights, _, _ = make()
    perms = permutation_matrices(4)
    context = seam.pre(x, weights)[1]
    u = x[:, :, 0]
    names = '"mosaic", "mosaic_tpu" or "xla"'
    pre = lambda *a, **k: lambda: seam.pre(*a, **k)
    post = lambda *a, **k: lambda: seam.post(*a, **k)
    config = lambda **k: lambda: seam.MhcKernelConfig(**k)
    with_weight = lambda **k: pre(x, dataclasses.replace(weights, **k))
    with_context = lambda **k: post(u, dataclasses.replace(context, **k))
    shape = "expected shape [B, S, n, D] with n from 1 to 5 and D of at least 1"
    return {
        f"pre: implementation: expected {names}, got 'triton'": pre(
            x, weights, implementation="triton"
        ),
        f"pre: implementation: expected {names}, got 'triton-2'": pre(
            x, weights, implementation=("mosaic", "triton-2")
        ),
        f"pre: implementation: expected {names}, got 'triton-3'": pre(
            x, weights, implementation=["triton-3", "xla"]
        ),
        f"pre: implementation: expected {names} or a sequence of them, got ()": pre(
            x, weights, implementation=()
        ),
        f"pre: implementation: expected {names} or a sequence of them, got 3": pre(
            x, weights, implementation=3
        ),
        "pre: permutations: expected all of them in lexicographic order, got others": pre(
            x, weights, perms[::-1]
        ),
        "pre: permutations: expected shape [24, 4, 4], got [6, 3, 3]": pre(
            x, weights, permutation_matrices(3)
        ),
        "pre: permutations: expected shape [24, 4, 4], got str": pre(x, weights, "lexicographic"),
        f"pre: x: {shape}, got [5, 4, 16]": pre(x[0], weights),
        f"pre: x: {shape}, got [2, 5, 6, 16]": pre(jnp.ones((2, 5, 6, 16)), weights),
        f"pre: x: {shape}, got [2, 5, 4, 0]": pre(x[..., :0], weights),
        "pre: x: expected a float type, got int32": pre(x.astype(jnp.int32), weights),
        "pre: x: expected an array, got list": pre([1.0], weights),
        "pre: weights.pre_bias: expected shape [4], got [3]": with_weight(
            pre_bias=weights.pre_bias[:3]
        ),
        "pre: weights.res_alpha: expected a float type, got int32": with_weight(
            res_alpha=weights.res_alpha.astype(jnp.int32)
        ),
        "pre: weights.norm_scale: expected an array, got NoneType": with_weight(norm_scale=None),
        "pre: config: expected a MhcKernelConfig, got dict": pre(x, weights, config={}),
        "post: config: expected a MhcKernelConfig, got NoneType": post(u, context, config=None),
        f"post: context.implementation: expected {names}, got 'triton'": with_context(
            implementation="triton"
        ),
        "post: context: expected what pre returned, got tuple": post(u, (x,)),
        "post: layer_output: expected shape [2, 5, D=16], got [2, 5, 4, 16]": post(x, context),
        "post: layer_output: expected a float type, got int32": post(u.astype(jnp.int32), context),
        f"post: context.x: {shape}, got [2, 5, 16]": with_context(x=u),
        "post: context.h_post: expected shape [2, 5, n=4], got [2, 5, 3]": with_context(
            h_post=context.h_post[..., :3]
        ),
        "post: context.residual: expected shape [2, 5, n=4, n_out=4], got [2, 5, 4]": with_context(
            residual=context.residual[..., 0]
        ),
        "MhcKernelConfig: block_size: expected a positive integer, got 0": config(block_size=0),
        "MhcKernelConfig: block_size: expected a positive integer, got True": config(
            block_size=True
        ),
        "MhcKernelConfig: bwd_block_size: expected a positive integer, got 1.5": config(
            bwd_block_size=1.5
        ),
        "MhcKernelConfig: vmem_limit_bytes: expected a positive integer, got '1'": config(
            vmem_limit_bytes="1"
        ),
        "MhcKernelConfig: rms_epsilon: expected a finite number of at least 1.2e-38, got 0.0": config(
            rms_epsilon=0.0
        ),
        "MhcKernelConfig: rms_epsilon: expected a finite number of at least 1.2e-38, got nan": config(
            rms_epsilon=float("nan")
        ),
        "MhcKernelConfig: rms_epsilon: expected a finite number of at least 1.2e-38, got '1e-5'": config(
            rms_epsilon="1e-5"
        ),
        "MhcKernelConfig: pre_mapping_epsilon: expected a finite number of at least 0, got -1.0": config(
            pre_mapping_epsilon=-1.0
        ),
        "MhcKernelConfig: rms_epsilon: expected a finite number of at least 1.2e-38, got 1e-40": (
            config(rms_epsilon=1e-40)
        ),
        "MhcKernelConfig: interpret: expected True or False, got 'no'": config(interpret="no"),
    }


def test_numbers_of_numpy():
    given = seam.MhcKernelConfig(block_size=np.int64(64), rms_epsilon=np.float32(1e-6))
    assert given == seam.MhcKernelConfig(block_size=64, rms_epsilon=float(np.float32(1e-6)))
    x, weights, *_ = make()
    seam.pre(x, weights, config=given)


@pytest.mark.parametrize("message", list(bad_calls()))
def test_errors(message):
    """All name operation, argument, wanted and got; what concerns inputs has a type of its own."""
    with pytest.raises(ValueError) as raised:
        bad_calls()[message]()
    assert str(raised.value) == message
    names = ("implementation", "config", "Config")
    assert isinstance(raised.value, seam.UnsupportedInputError) == (
        not any(n in message.split(" expected ")[0] for n in names)
    )


def test_names_that_are_accepted():
    x, weights, _, _ = make()
    assert issubclass(seam.UnsupportedInputError, ValueError)
    for good, used in (
        ("mosaic", "mosaic"),
        ("mosaic_tpu", "mosaic_tpu"),
        ("xla", "xla"),
        (("xla", "mosaic"), "xla"),
        (["mosaic", "xla"], "mosaic"),
        (None, "mosaic"),
    ):
        assert seam.pre(x, weights, implementation=good)[1].implementation == used


def test_a_config_of_another_class_serves():
    x, weights, _, _ = make()
    other = types.SimpleNamespace(rms_epsilon=1e-3, pre_mapping_epsilon=0.25)
    ours = seam.MhcKernelConfig(rms_epsilon=1e-3, pre_mapping_epsilon=0.25)
    assert_equal(seam.pre(x, weights, config=other), seam.pre(x, weights, config=ours))


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
    assert len(seam.hbm_specs("a", "b")) == 2 and len(seam.hbm_specs(3)) == 3
    assert set(seam.hbm_specs({"a": 1.0, "b": 2.0})) == {"a", "b"}


def test_sigmoid_gate():
    """In float32 whatever the types, with the gates' own formula."""
    rng = np.random.default_rng(1)
    logits, bias = (jnp.asarray(rng.standard_normal(s), jnp.bfloat16) for s in ((3, 4), (4,)))
    scale = jnp.asarray([0.7], jnp.bfloat16)
    got = seam.compute_sigmoid_gate(logits, scale, bias, multiplier=2.0, epsilon=0.125)
    v = lambda a: np.asarray(a, np.float64)
    want = 2 / (1 + np.exp(-(v(scale) * v(logits) + v(bias)))) + 0.125
    assert got.dtype == jnp.float32 and relative(got, want) < 1e-6


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


def test_as_newer_layers_call_it():
    """pre and post each in a shard_map of its own without check_vma, the context taken apart and
    put together between them, permutations made inside."""
    x, weights, w, g = make(b=8, s=4, dtype=jnp.float32)
    want = gradients(None, x, weights, w, g)
    kinds = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("data", "length"), axis_types=kinds)
    token = lambda rank: P("data", "length", *(None,) * (rank - 2))
    mapped = lambda f, ins, outs: jax.shard_map(
        f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False
    )
    config = seam.MhcKernelConfig(rms_epsilon=1e-3)

    def pre(x, weights):
        perms = jnp.asarray(permutation_matrices(4), x.dtype)
        layer_input, c = seam.pre(x, weights, perms, config=config)
        return layer_input, c.x, c.h_post, c.residual

    def post(layer_output, *fields):
        return seam.post(layer_output, seam.MhcContext(*fields, implementation="mosaic"))

    def layer(x, weights, w):
        ranks = token(3), token(4), token(3), token(4)
        layer_input, *fields = mapped(pre, (token(4), P()), ranks)(x, weights)
        return mapped(post, ranks, token(4))(jnp.tanh(layer_input * w), *fields)

    assert_close(output_and_gradients(layer, x, weights, w, g), want, 1e-5)


HAVE_MAXTEXT = importlib.util.find_spec("maxtext") is not None


needs_maxtext = pytest.mark.skipif(
    not HAVE_MAXTEXT, reason="maxtext==0.2.5 is not installed: it needs Python 3.12"
)
MESHES = pytest.mark.parametrize("shape", [(1, 1), (8, 1), (4, 2)])


@needs_maxtext
@MESHES
def test_maxtexts_own_layer(shape, monkeypatch):
    """One assignment, and the layer with use_mhc_pallas_kernel=True runs here and agrees with its
    native path."""
    from maxtext_layer import import_layer, make_layer, run_layer

    monkeypatch.setattr(import_layer(), "mhc_kernel", seam)
    native, fast = (run_layer(make_layer(kernel, shape)) for kernel in (False, True))
    assert_close(fast, native, 1e-4)


@needs_maxtext
@MESHES
def test_maxtexts_sinkhorn_layer(shape):
    """The subclass of docs/jax_maxtext.md, as it stands there, against MaxText's native layer."""
    from maxtext_layer import import_layer, make_layer, run_layer

    import_layer()
    page = Path(__file__).resolve().parents[2] / "docs/jax_maxtext.md"
    after = page.read_text().split("## The Sinkhorn layer")[1]
    code = textwrap.dedent("\n".join(re.findall(r"^(?: {4}.*)?$", after, re.M)))
    names = {}
    exec(compile(code, str(page), "exec"), names)
    native = run_layer(make_layer(False, shape, lite=False))
    ours = run_layer(make_layer(False, shape, lite=False, make=names["SinkhornLayer"]))
    assert_close(ours, native, 1e-4)


@needs_maxtext
def test_names_and_defaults_are_maxtexts():
    """What callers can see of the installed kernel module is here too, with the same defaults."""
    from maxtext_layer import names_of_the_kernel_module

    theirs, parts = names_of_the_kernel_module()
    assert set(theirs.__all__) <= set(seam.__all__)
    for name in ("MhcKernelConfig", "MhcDims"):
        fields = lambda module: [
            (f.name, f.default) for f in dataclasses.fields(getattr(module, name))
        ]
        assert fields(seam) == fields(theirs), name
    for name in (
        "MhcWeights",
        "MhcContext",
        "MhcCoeffParams",
        "MhcCoeffOutputs",
        "MhcCoeffGradients",
    ):
        ours, its = getattr(seam, name), getattr(theirs, name)
        count = len(dataclasses.fields(its))
        assert [f.name for f in dataclasses.fields(ours)] == [
            f.name for f in dataclasses.fields(its)
        ]
        values = [jnp.full((), k) for k in range(count)]
        if name == "MhcContext":
            values[-1] = "mosaic"
        leaves = lambda kind: [float(v) for v in jax.tree.leaves(kind(*values))]
        assert leaves(ours) == leaves(its), name
    public = lambda kind: {n for n in vars(kind) if not n.startswith("_")}
    assert public(theirs.MhcDims) <= public(seam.MhcDims)
    assert public(theirs.MhcWeights) <= public(seam.MhcWeights)
    ours, its = seam.MhcDims(6, 4, 128), theirs.MhcDims(6, 4, 128)
    for name in ("flattened_size", "phi_cols", "pre_slice", "post_slice", "res_slice"):
        assert getattr(ours, name) == getattr(its, name)
    for name in public(theirs.MhcDims):
        if name.endswith("_cost"):
            got, want = getattr(ours, name)(), getattr(its, name)()
            for field in ("flops", "transcendentals", "bytes_accessed"):
                assert isinstance(getattr(want, field), int) and hasattr(got, field)
    for name in ("pre", "post"):
        parameters = lambda module: {
            k: (v.kind, v.default)
            for k, v in inspect.signature(getattr(module, name)).parameters.items()
        }
        got, want = parameters(seam), parameters(theirs)
        assert list(got) == list(want), name
        for k, (kind, default) in want.items():
            assert got[k][0] == kind
            if k == "config":
                assert dataclasses.asdict(got[k][1]) == dataclasses.asdict(default)
            elif k != "permutations":  # which newer callers leave out
                assert got[k][1] == default
    gate = inspect.signature(parts.compute_sigmoid_gate).parameters
    ours = inspect.signature(seam.compute_sigmoid_gate).parameters
    assert {k: (v.kind, v.default) for k, v in ours.items()} == {
        k: (v.kind, v.default) for k, v in gate.items()
    }
    assert len(seam.hbm_specs(3)) == len(theirs.hbm_specs(3))
    assert seam.hbm_specs(3)[0].memory_space == theirs.hbm_specs(3)[0].memory_space
    _, weights, _, _ = make(d=4)
    folded = theirs.MhcWeights(**vars(weights)).fold_norm_scale()
    np.testing.assert_array_equal(weights.fold_norm_scale(), folded)


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
