"""Kernels inside of a shard_map: JAX adds the sum of the parameters' gradients, once."""

import functools

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from meshes import (
    KINDS,
    MESHES,
    SPEC,
    assert_rounded_once,
    assert_same_bits,
    backward,
    collectives,
    forward,
    g,
    mesh_of,
    params,
    put,
    run,
    shapes_of,
    w,
    x,
)
from support import assert_close, gradients, loss, make, site, wide

KINDS_OF_A_AND_B = {
    "auto": ("auto",),
    "explicit": ("explicit",),
    "explicit_auto": ("explicit", "auto"),
    "auto_explicit": ("auto", "explicit"),
}


@pytest.fixture(params=[True, False], ids=["vma", "no_vma"])
def check_vma(request):
    return request.param


def one_map(mesh, lead, check_vma, implementation="kernel", **options):
    """The site in a shard_map."""
    return jax.shard_map(
        lambda x, p: site(x, p, w, SPEC, implementation),
        mesh=mesh,
        in_specs=(P(*lead), P()),
        out_specs=P(*lead),
        check_vma=check_vma,
        **options,
    )


def two_maps(mesh, lead, check_vma):
    """pre and post each in a shard_map of its own; the branch between them is plain."""
    wrap = functools.partial(jax.shard_map, mesh=mesh, out_specs=P(*lead), check_vma=check_vma)
    pre = wrap(lambda x, p: mj.pre(x, p, SPEC), in_specs=(P(*lead), P()))
    post = wrap(mj.post, in_specs=P(*lead))

    def f(x, p):
        layer_input, state = pre(x, p)
        return post(jnp.tanh(layer_input * w), state)

    return f


def test_without_jit(check_vma, one_device):
    """Each operation by itself, as in a notebook."""
    mesh, lead = mesh_of("8", "auto")
    f = one_map(mesh, lead, check_vma)
    with jax.set_mesh(mesh):
        assert_close(f(put(mesh, x, *lead), params), one_device[0], 1e-6)
        got = jax.grad(lambda p: jnp.sum(f(x, p) * g))(params)
    assert_close(got, one_device[1][1], 1e-5)


def gradients_of(f):
    return lambda x, p, g: jax.vjp(f, x, p)[1](g)


@pytest.mark.parametrize(
    "maps, name",
    [(one_map, name) for name in MESHES]
    + [(two_maps, name) for name in ("8", "4x2_batch_and_sequence", "4x2_one_axis_idle")],
)
def test_one_sum_per_backward(maps, name, kind, check_vma, one_device):
    mesh, lead = mesh_of(name, kind)
    with jax.set_mesh(mesh):
        f = maps(mesh, lead, check_vma)
        xs, ps, gs = put(mesh, x, *lead), put(mesh, params), put(mesh, g, *lead)
        got, text = run(f, xs, ps)
        assert_same_bits(got, one_device[0])
        assert collectives(text) == {}
        got, text = run(gradients_of(f), xs, ps, gs)
    assert_same_bits(got[0], one_device[1][0])
    assert_close(got, one_device[1], 1e-6)
    if name == "4x2_one_axis_idle" and not check_vma:
        # JAX does not know then that values are alike along b, and adds all of them up over it.
        summed = shapes_of(text, "all-reduce")
        assert summed.count(params.phi.shape) == 1 and (2, *x.shape[1:]) in summed
        assert collectives(text).keys() == {"all-reduce"}
    else:
        assert collectives(text) == {"all-reduce": 1}


@pytest.mark.parametrize("lead", [("a", "b"), (("a", "b"),), ("a",)])
@pytest.mark.parametrize("kinds", KINDS_OF_A_AND_B)
def test_some_axes_manual(kinds, lead, check_vma, one_device):
    """axis_names={"a"}: b is left to the types, or to XLA."""
    mesh, _ = mesh_of("4x2_batch_and_sequence", *KINDS_OF_A_AND_B[kinds])
    with jax.set_mesh(mesh):
        f = one_map(mesh, ("a",), check_vma, axis_names={"a"})
        xs, ps, gs = put(mesh, x, *lead), put(mesh, params), put(mesh, g, *lead)
        got, text = run(f, xs, ps)
        assert_same_bits(got, one_device[0])
        border = kinds.endswith("explicit")
        if border:  # JAX may gather there, whatever is in the map
            plain = one_map(mesh, ("a",), check_vma, "reference", axis_names={"a"})
            assert collectives(text) == collectives(run(plain, xs, ps)[1])
        else:
            assert collectives(text) == {}
        got, text = run(gradients_of(f), xs, ps, gs)
    assert_same_bits(got[0], one_device[1][0])
    assert_close(got, one_device[1], 1e-6)
    assert border or collectives(text).keys() == {"all-reduce"}


_LEADS = [
    ("a", ("b", "c")),
    ("a", ("c", "b")),
    (("a", "c"), "b"),
    ("a", "c"),
    (("a", "b"),),
    ("a",),
]


@pytest.mark.parametrize(
    "shape, lead",
    [((2, 2, 2), lead) for lead in _LEADS]
    + [((2, 4, 1), ("a", "b")), ((1, 4, 2), ("a", ("c", "b"))), ((4, 1, 1), ("a",))],
)
def test_two_axes_left_to_XLA(shape, lead, one_device):
    """Which of them a sharding means cannot be told from within: the sum must be right anyhow."""
    mesh = jax.make_mesh(shape, ("a", "b", "c"), axis_types=(KINDS["auto"],) * 3)
    with jax.set_mesh(mesh):
        f = one_map(mesh, ("a",), True, axis_names={"a"})
        got = jax.jit(gradients_of(f))(put(mesh, x, *lead), put(mesh, params), put(mesh, g, *lead))
    assert_same_bits(got[0], one_device[1][0])
    assert_close(got, one_device[1], 1e-6)


@pytest.mark.parametrize("lead", [("a", "b", "c"), ("a", None, "b"), (("a", "c"), "b")])
def test_gradients_per_example_with_axes_left_to_XLA(lead):
    """A shard_map over a of a vmap over examples; b and c divide examples or tokens."""
    x, p, _, g = make(SPEC, (8, 4, 4), 16, seed=2)
    f = jax.vmap(jax.vmap(backward, (0, None, 0)), (0, None, 0))
    want = jax.jit(f)(x, p, g)
    mesh = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(KINDS["auto"],) * 3)
    inner = jax.shard_map(
        f,
        mesh=mesh,
        in_specs=(P("a"), P(), P("a")),
        out_specs=P("a"),
        axis_names={"a"},
        check_vma=False,
    )
    got = jax.jit(inner)(put(mesh, x, *lead), put(mesh, p), put(mesh, g, *lead))
    assert_same_bits(got[0], want[0])
    assert_close(got, want, 1e-6)


def test_vmap_inside(kind, check_vma, one_device):
    mesh, lead = mesh_of("8", kind)
    f = jax.shard_map(
        jax.vmap(forward, (0, None)),
        mesh=mesh,
        in_specs=(P(*lead), P()),
        out_specs=P(*lead),
        check_vma=check_vma,
    )
    args = put(mesh, x, *lead), put(mesh, params), put(mesh, g, *lead)
    got, text = run(gradients_of(f), *args)
    assert_same_bits(got[0], one_device[1][0])
    assert_close(got, one_device[1], 1e-6)
    assert collectives(text) == {"all-reduce": 1}


# ---- bf16 parameters
# ------------------------------------------------------------------------------


def bf16_case(check_vma):
    """d_params of bf16 parameters over eight devices, of one device, and of each share in f32."""
    mesh, lead = mesh_of("8", "auto")
    x, p, w, g = make(SPEC, (8, 8), 16, param_dtype=jnp.bfloat16, seed=3)
    f = jax.shard_map(
        lambda x, p, g: jax.lax.psum(loss(x, p, w, g, SPEC), "a"),
        mesh=mesh,
        in_specs=(P("a"), P(), P("a")),
        out_specs=P(),
        check_vma=check_vma,
    )
    got = jax.jit(jax.grad(f, 1))(x, p, g)
    exact = jax.tree.map(lambda v: v.astype(jnp.float32), p)
    shares = [gradients(x[k : k + 1], exact, w, g[k : k + 1], SPEC)[1] for k in range(8)]
    return got, gradients(x, p, w, g, SPEC)[1], shares


def test_bf16_gradients_are_summed_in_f32():
    """With check_vma=True: eight shares that bf16 could not add are rounded once."""
    got, want, _ = bf16_case(True)
    assert_rounded_once(got, want)


def test_bf16_gradients_without_vma():
    """JAX adds shares that are rounded already: eight roundings of a share, eight of a sum."""
    got, _, shares = bf16_case(False)
    for a, *parts in zip(*map(jax.tree.leaves, (got, *shares)), strict=True):
        assert a.dtype == jnp.bfloat16
        parts = np.stack([wide(v) for v in parts])
        bound = 9 * 2.0**-9 * np.abs(parts).sum(0)
        assert np.all(np.abs(wide(a) - parts.sum(0)) <= bound)


# ---- Refusals, and pmap
# ---------------------------------------------------------------------------


def test_tokens_that_the_devices_do_not_divide(kind, check_vma):
    """shard_map refuses them."""
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh), pytest.raises(ValueError, match="evenly divid"):
        jax.jit(one_map(mesh, lead, check_vma)).trace(x[:7], params)


def test_pmap(one_device):
    got = jax.pmap(forward, in_axes=(0, None))(x, params)
    assert_same_bits(got, one_device[0])
