"""Sharded tokens under plain jit, Auto and Explicit axes, without a shard_map by the user: the bits
of one device, one sum per backward, nothing gathered."""

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import pytest
from jax.sharding import PartitionSpec as P
from meshes import (
    MESHES,
    SPEC,
    assert_same_bits,
    backward,
    collectives,
    forward,
    g,
    gates,
    mesh_of,
    params,
    put,
    row,
    run,
    same_shardings,
    shapes_of,
    x,
)
from support import assert_close


def check(mesh, lead, one_device, stays=True):
    """The site on a mesh: forward bits and gradients, and where tokens stay on their device, also
    shardings and a forward without collectives. Returns the backward's collectives."""
    with jax.set_mesh(mesh):
        xs, gs, ps = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, params)
        out, text = run(forward, xs, ps)
        assert_same_bits(out, one_device[0])
        assert not stays or (same_shardings(out, xs) and collectives(text) == {})
        got, text = run(backward, xs, ps, gs)
        assert_same_bits(got[0], one_device[1][0])
        assert_close(got, one_device[1], 1e-6)
        assert not stays or same_shardings(got, (xs, ps))
    return collectives(text)


@pytest.mark.parametrize("name", MESHES)
def test_one_sum_per_backward(name, kind, one_device):
    assert check(*mesh_of(name, kind), one_device) == {"all-reduce": 1}


@pytest.mark.parametrize("lead", [("a", "b"), ("a",), ("b",), ()])
@pytest.mark.parametrize("kinds", [("explicit", "auto"), ("auto", "explicit")])
def test_explicit_and_auto_axes_in_one_mesh(kinds, lead, one_device):
    """One sum over the explicit axes, one over those of XLA; nothing is gathered."""
    mesh, _ = mesh_of("4x2_batch_and_sequence", *kinds)
    found = check(mesh, lead, one_device)
    assert found.keys() == ({"all-reduce"} if lead else set())


@pytest.mark.parametrize("kinds", [("explicit", "auto"), ("auto", "explicit")])
def test_one_extent_over_an_explicit_and_an_auto_axis(kinds, one_device):
    """Where the explicit axis comes second, tokens move: a shard_map's own axes come first."""
    mesh, _ = mesh_of("4x2_batch_and_sequence", *kinds)
    found = check(mesh, (("a", "b"),), one_device, stays=kinds[0] == "explicit")
    assert (found.keys() == {"all-reduce"}) == (kinds[0] == "explicit")


def test_explicit_axes_without_a_mesh_in_context(one_device):
    mesh, lead = mesh_of("8", "explicit")
    ps = mj.Params(put(mesh, params.phi, None, None, "a"), *put(mesh, (params.alpha, params.bias)))
    ps = mj.Params(ps.phi, ps.alpha, ps.bias, put(mesh, params.norm_weight))
    got = jax.jit(backward)(put(mesh, x, *lead), ps, put(mesh, g, *lead))
    assert_close(got, one_device[1], 1e-6)


def test_parameters_sharded_over_the_token_axis(kind, one_device):
    """FSDP: parameters are gathered, nothing else; gradients come back with their sharding."""
    mesh, lead = mesh_of("8", kind)
    specs = mj.Params(P("a"), P(), P("a"), P(None, "a"))
    with jax.set_mesh(mesh):
        ps = jax.tree.map(lambda p, s: put(mesh, p, *s), params, specs)
        xs, gs = put(mesh, x, *lead), put(mesh, g, *lead)
        out, text = run(forward, xs, ps)
        assert_same_bits(out, one_device[0])
        whole = sorted((params.phi.shape, params.bias.shape, params.norm_weight.shape))
        assert shapes_of(text, "all-gather") == whole
        assert collectives(text) == {"all-gather": 3}
        shardings = jax.tree.map(lambda v: v.sharding, (xs, ps)) if kind == "auto" else None
        got, text = run(backward, xs, ps, gs, out_shardings=shardings)
        assert_close(got, one_device[1], 1e-6)
        assert same_shardings(got, (xs, ps))
        assert shapes_of(text, "all-gather") == whole
        assert collectives(text) == {"all-gather": 3, "all-reduce": 1}


# ---- Every operation
# ------------------------------------------------------------------------------

_head = mj.HeadParams(params.phi[:4], params.alpha[:1], params.bias[:4], params.norm_weight)


def _from_partials(x, params):
    q, sum_squares = mj.project_partial(x, params, SPEC, embedding=16)
    return mj.coefficients_from_partials(q, sum_squares, params, SPEC)


# A function of tokens and parameters, its tokens, its parameters.
OPERATIONS = {
    "pre": (lambda t, p: mj.pre(*t, p, SPEC)[0], (x,), params),
    "post": (
        lambda t, p: mj.post(t[1], mj.site_state(t[0], *t[2:], SPEC)),
        (x, row, *gates[1:]),
        (),
    ),
    "coefficients": (lambda t, p: mj.coefficients(*t, p, SPEC), (x,), params),
    "apply_pre": (lambda t, p: mj.apply_pre(*t, SPEC), (x, gates[0]), ()),
    "apply_post": (lambda t, p: mj.apply_post(*t, SPEC), (x, row, *gates[1:]), ()),
    "project_partial": (
        lambda t, p: jax.tree.leaves(mj.project_partial(*t, p, SPEC, embedding=16)),
        (x,),
        params,
    ),
    "coefficients_from_partials": (lambda t, p: _from_partials(*t, p), (x,), params),
    "head": (lambda t, p: mj.head(*t, p, SPEC), (x,), _head),
    "expand": (lambda t, p: mj.expand(*t, 4), (row,), ()),
    "reduce": (lambda t, p: mj.reduce(*t, "mean"), (x,), ()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation, kind):
    """Right against one device, forward and backward; the parameters' gradients are the one sum."""
    f, tokens, weights = OPERATIONS[operation]
    keys = iter(jax.random.split(jax.random.key(0), 8))
    some = lambda v: jax.random.normal(next(keys), v.shape, v.dtype)
    cotangents = jax.tree.map(some, jax.eval_shape(f, tokens, weights))
    both = lambda t, p, c: jax.vjp(f, t, p)[1](c)
    out, gradients = jax.jit(f)(tokens, weights), jax.jit(both)(tokens, weights, cotangents)
    mesh, lead = mesh_of("4x2_batch_and_sequence", kind)
    with jax.set_mesh(mesh):
        args = put(mesh, tokens, *lead), put(mesh, weights)
        got, text = run(f, *args)
        assert_same_bits(got, out)
        assert collectives(text) == {}
        got, text = run(both, *args, put(mesh, cotangents, *lead))
        assert_same_bits(got[0], gradients[0])
        assert_close(got[1], gradients[1], 1e-6)
        assert same_shardings(got, args)
        assert collectives(text) == ({"all-reduce": 1} if weights else {})


def test_scan_over_layers_with_checkpoint(kind):
    """One sum per layer's backward, inside of the loop; activations stay where they are."""
    layers = jax.tree.map(lambda p: jnp.stack([p, 0.5 * p]), params)

    def stack(x, layers):
        body = jax.checkpoint(lambda x, p: (forward(x, p), None))
        return jax.lax.scan(body, x, layers)[0]

    both = lambda x, layers, g: jax.vjp(stack, x, layers)[1](g)
    out, want = jax.jit(stack)(x, layers), jax.jit(both)(x, layers, g)
    mesh, lead = mesh_of("4x2_batch_and_sequence", kind)
    with jax.set_mesh(mesh):
        xs, ls, gs = put(mesh, x, *lead), put(mesh, layers), put(mesh, g, *lead)
        got, text = run(stack, xs, ls)
        assert_same_bits(got, out)
        assert collectives(text) == {}
        got, text = run(both, xs, ls, gs)
        assert_same_bits(got[0], want[0])
        assert_close(got, want, 1e-6)
        assert collectives(text) == {"all-reduce": 1}
