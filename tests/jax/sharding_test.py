"""Tokens sharded over meshes of eight devices: the same bits forward, weight gradients summed once,
nothing gathered."""

import functools
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from support import SPECS, assert_close, assert_equal, count_ops, gradients, loss, make, site

SPEC = SPECS["permutation"]
KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
# Mesh, its axes, and how batch and sequence are divided.
MESHES = {
    "8": ((8,), ("a",), ("a",)),
    "4x2_batch_and_sequence": ((4, 2), ("a", "b"), ("a", "b")),
    "4x2_batch_over_both": ((4, 2), ("a", "b"), (("a", "b"),)),
    "4x2_sequence": ((4, 2), ("a", "b"), (None, ("a", "b"))),
    "4x2_one_axis_idle": ((4, 2), ("a", "b"), ("a",)),
}
x, params, w, g = make(SPEC, (8, 8), 16, seed=1)


@pytest.fixture(scope="module")
def one_device():
    return jax.jit(lambda: site(x, params, w, SPEC))(), gradients(x, params, w, g, SPEC)


def mesh_of(name, kind):
    shape, axes, lead = MESHES[name]
    return jax.make_mesh(shape, axes, axis_types=(KINDS[kind],) * len(axes)), axes, lead


def put(mesh, value, *spec):
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


def reductions_of_phi(text):
    """All-reduces that carry the gradient of phi."""
    shape = "f32[" + ",".join(map(str, params.phi.shape)) + "]"
    return sum(
        shape in line and (" all-reduce(" in line or " all-reduce-start(" in line)
        for line in text.splitlines()
    )


def moves_activations(text):
    return any(count_ops(text, op) for op in ("all-gather", "all-to-all", "collective-permute"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MESHES)
def test_plain_jit(name, kind, one_device):
    """No shard_map by the user."""
    mesh, _, lead = mesh_of(name, kind)
    with jax.set_mesh(mesh):
        xs, gs, ps, ws = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, params), put(mesh, w)
        forward = jax.jit(lambda x, p, w: site(x, p, w, SPEC)).lower(xs, ps, ws).compile()
        out = forward(xs, ps, ws)
        assert_equal(out, one_device[0])
        assert out.sharding.is_equivalent_to(xs.sharding, x.ndim)
        text = forward.as_text()
        assert not moves_activations(text) and count_ops(text, "all-reduce") == 0
        backward = (
            jax.jit(lambda x, p, w, g: jax.grad(loss, (0, 1, 2))(x, p, w, g, SPEC))
            .lower(xs, ps, ws, gs)
            .compile()
        )
        got = backward(xs, ps, ws, gs)
        assert_equal(got[0], one_device[1][0], "d_x")
        assert_close(got, one_device[1], 1e-6)
        assert not moves_activations(backward.as_text())
        assert reductions_of_phi(backward.as_text()) == 1


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["8", "4x2_batch_and_sequence", "4x2_one_axis_idle"])
def test_shard_map_around_the_loss(name, kind, check_vma, one_device):
    mesh, axes, lead = mesh_of(name, kind)
    over = tuple(
        a for entry in lead for a in (entry if isinstance(entry, tuple) else (entry,)) if a
    )

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(*lead), P(), P(), P(*lead)),
        out_specs=P(),
        check_vma=check_vma,
    )
    def total(x, p, w, g):
        return jax.lax.psum(loss(x, p, w, g, SPEC), over)

    args = put(mesh, x, *lead), put(mesh, params), put(mesh, w), put(mesh, g, *lead)
    compiled = jax.jit(jax.grad(total, (0, 1, 2))).lower(*args).compile()
    got = compiled(*args)
    assert_equal(got[0], one_device[1][0], "d_x")
    assert_close(got, one_device[1], 1e-6)
    text = compiled.as_text()
    assert reductions_of_phi(text) == 1 and not moves_activations(text)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", ["8", "4x2_batch_and_sequence"])
def test_pre_and_post_each_in_a_shard_map_of_its_own(name, check_vma, one_device):
    mesh, axes, lead = mesh_of(name, "auto")
    wrap = functools.partial(jax.shard_map, mesh=mesh, check_vma=check_vma)
    pre = wrap(lambda x, p: mj.pre(x, p, SPEC), in_specs=(P(*lead), P()), out_specs=P(*lead))
    post = wrap(mj.post, in_specs=(P(*lead), P(*lead)), out_specs=P(*lead))

    def total(x, p, w, g):
        u, state = pre(x, p)
        return jnp.sum(post(jnp.tanh(u * w), state) * g)

    args = put(mesh, x, *lead), put(mesh, params), put(mesh, w), put(mesh, g, *lead)
    got = jax.jit(jax.grad(total, (0, 1, 2)))(*args)
    assert_equal(got[0], one_device[1][0], "d_x")
    assert_close(got, one_device[1], 1e-6)


def test_bf16_weight_gradients_are_summed_in_f32():
    """Eight shares that bf16 could not add: the sum is rounded once."""
    mesh, _, lead = mesh_of("8", "auto")
    x, p, w, g = make(SPEC, (8, 8), 16, param_dtype=jnp.bfloat16, seed=3)
    want = gradients(x, p, w, g, SPEC)[1]

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("a"), P(), P(), P("a")), out_specs=P())
    def total(x, p, w, g):
        return jax.lax.psum(loss(x, p, w, g, SPEC), "a")

    got = jax.jit(jax.grad(total, 1))(x, p, w, g)
    different = np.mean(np.asarray(got.phi != want.phi))
    assert got.phi.dtype == jnp.bfloat16 and different < 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_sharded_over_the_token_axis(kind, one_device):
    """FSDP under plain jit: gathered for the call, gradients come back sharded."""
    mesh, _, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        ps = mj.Params(
            put(mesh, params.phi, "a"),
            put(mesh, params.alpha),
            put(mesh, params.bias, "a"),
            put(mesh, params.norm_weight, None, "a"),
        )
        shardings = jax.tree.map(lambda p: p.sharding, ps)
        xs, gs, ws = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, w)
        step = lambda p, x, w, g: jax.tree.map(
            lambda p, d: p - 0.1 * d, p, jax.grad(loss, 1)(x, p, w, g, SPEC)
        )
        new = jax.jit(step, out_shardings=shardings if kind == "auto" else None)(ps, xs, ws, gs)
        want = jax.tree.map(lambda p, d: p - 0.1 * d, params, one_device[1][1])
        assert_close(new, want, 1e-6)
        assert all(
            n.sharding.is_equivalent_to(p.sharding, n.ndim)
            for n, p in zip(jax.tree.leaves(new), jax.tree.leaves(ps))
        )


def test_scan_and_remat_on_sharded_tokens(one_device):
    mesh, _, lead = mesh_of("8", "auto")
    layers = jax.tree.map(lambda p: jnp.stack([p, 0.5 * p]), params)

    def total(layers, x, g):
        body = jax.checkpoint(lambda x, p: (site(x, p, w, SPEC), None))
        return jnp.sum(jax.lax.scan(body, x, layers)[0] * g)

    want = jax.jit(jax.grad(total))(layers, x, g)
    xs, gs, ls = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, layers)
    compiled = jax.jit(jax.grad(total)).lower(ls, xs, gs).compile()
    assert_close(compiled(ls, xs, gs), want, 1e-6)
    assert not count_ops(compiled.as_text(), "all-gather")


def test_vmap_on_sharded_tokens():
    mesh, _, lead = mesh_of("8", "auto")
    f = lambda x, g: jax.vmap(jax.grad(lambda x, p, g: loss(x, p, w, g, SPEC), 1), (0, None, 0))(
        x, params, g
    )
    assert_close(jax.jit(f)(put(mesh, x, *lead), put(mesh, g, *lead)), jax.jit(f)(x, g), 1e-6)


def test_tokens_that_the_devices_do_not_divide():
    mesh, _, _ = mesh_of("8", "auto")
    with pytest.raises(ValueError, match="evenly divid"):
        put(mesh, x[:7], "a")
    step = jax.shard_map(
        lambda x: mj.pre(x, params, SPEC)[0], mesh=mesh, in_specs=P("a"), out_specs=P("a")
    )
    with pytest.raises(ValueError, match="evenly divid"):
        jax.jit(step)(x[:7])
    # Left to XLA, they are padded inside and come out right.
    whole = jax.jit(lambda x: site(x[:7] * 1, params, w, SPEC))(put(mesh, x, "a"))
    assert_equal(whole, jax.jit(lambda: site(x[:7], params, w, SPEC))())


def test_pmap(one_device):
    got = jax.pmap(lambda x, p: site(x, p, w, SPEC), in_axes=(0, None))(x, params)
    assert_equal(got, one_device[0])


# ---- Features sharded
# -----------------------------------------------------------------------------


def tensor_parallel(mesh, check_vma, implementation):
    """Gradients of a site on a mesh of tokens by features; the branch is elementwise."""

    def step(x, p, w, g):
        q, sum_squares = mj.project_partial(x, p, SPEC, embedding=16, implementation=implementation)
        q, sum_squares = jax.lax.psum((q, sum_squares), "features")
        h_pre, h_post, h_res = mj.coefficients_from_partials(
            q, sum_squares, p, SPEC, implementation=implementation
        )
        u = mj.apply_pre(x, h_pre, SPEC, implementation=implementation)
        x_next = mj.apply_post(
            x, jnp.tanh(u * w), h_post, h_res, SPEC, implementation=implementation
        )
        return jax.lax.psum(jnp.sum(x_next * g), ("tokens", "features"))

    streams, features = P("tokens", None, None, "features"), P(None, None, "features")
    param_specs = mj.Params(features, P(), P(), P(None, "features"))
    total = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(streams, param_specs, P("features"), streams),
        out_specs=P(),
        check_vma=check_vma,
    )
    put_all = lambda tree, specs: jax.tree.map(
        lambda v, s: put(mesh, v, *s), tree, specs, is_leaf=lambda v: isinstance(v, P)
    )
    args = (
        put(mesh, x, *streams),
        put_all(params, param_specs),
        put(mesh, w, "features"),
        put(mesh, g, *streams),
    )
    compiled = jax.jit(jax.grad(total, (0, 1, 2))).lower(*args).compile()
    return compiled(*args), compiled.as_text()


@pytest.mark.parametrize("implementation", ["kernel", "reference"])
@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_features_sharded(kind, check_vma, implementation, one_device):
    mesh = jax.make_mesh((2, 4), ("tokens", "features"), axis_types=(KINDS[kind],) * 2)
    got, text = tensor_parallel(mesh, check_vma, implementation)
    assert_close(got, one_device[1], 1e-5)
    assert not moves_activations(text)


def test_partials_add_up_on_one_device(one_device):
    def f(x, p, w):
        parts = [
            mj.project_partial(
                x[..., s],
                mj.Params(p.phi[..., s], p.alpha, p.bias, p.norm_weight[..., s]),
                SPEC,
                embedding=16,
            )
            for s in (slice(0, 5), slice(5, 16))
        ]
        q, sum_squares = jax.tree.map(lambda a, b: a + b, *parts)
        h_pre, h_post, h_res = mj.coefficients_from_partials(q, sum_squares, p, SPEC)
        y = jnp.tanh(mj.apply_pre(x, h_pre, SPEC) * w)
        return jnp.sum(mj.apply_post(x, y, h_post, h_res, SPEC) * g)

    assert_close(jax.jit(jax.grad(f, (0, 1, 2)))(x, params, w), one_device[1], 1e-5)


# ---- Two processes
# --------------------------------------------------------------------------------


def test_two_processes_train_as_one():
    """jax.distributed with gloo: three steps on four devices in two processes equal those of one
    process."""
    program = Path(__file__).with_name("two_processes.py")
    run = lambda *args: subprocess.Popen(
        [sys.executable, program, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    workers = [run(port, 2, k) for k in range(2)]
    outputs = [p.communicate(timeout=240)[0] for p in workers]
    alone = run(port, 1, 0).communicate(timeout=240)[0]
    of = lambda text: np.array([float(v) for v in text.split("RESULT")[1].split()])
    assert all("RESULT" in o for o in (*outputs, alone)), "\n".join([*outputs, alone])
    np.testing.assert_allclose(of(outputs[0]), of(alone), rtol=1e-6)
    np.testing.assert_array_equal(of(outputs[0]), of(outputs[1]))
