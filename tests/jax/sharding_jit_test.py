"""Sharded tokens under plain jit, Auto and Explicit axes, without a shard_map by the user: the bits
of one device, one sum per backward, nothing gathered."""

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import pytest
from jax.sharding import PartitionSpec as P
from meshes import (
    KINDS,
    MESHES,
    SPEC,
    assert_same_bits,
    backward,
    collectives,
    forward,
    g,
    mesh_of,
    params,
    put,
    run,
    same_shardings,
    shapes_of,
    w,
    x,
)
from support import assert_close, make, site


@pytest.fixture(scope="module")
def one_device():
    return jax.jit(forward)(x, params), jax.jit(backward)(x, params, g)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


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
    assert found.keys() == {"all-reduce"} or kinds[0] == "auto"


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
_gates = jax.jit(lambda: mj.coefficients(x, params, SPEC))()
_row = jax.random.normal(jax.random.key(3), (8, 8, 16))


def _from_partials(x, params):
    q, sum_squares = mj.project_partial(x, params, SPEC, embedding=16)
    return mj.coefficients_from_partials(q, sum_squares, params, SPEC)


# A function of tokens and parameters, its tokens, its parameters.
OPERATIONS = {
    "pre": (lambda t, p: mj.pre(*t, p, SPEC)[0], (x,), params),
    "post": (lambda t, p: mj.post(t[1], mj.site_state(t[0], *t[2:], SPEC)), (x, _row, *_gates[1:]), ()),
    "coefficients": (lambda t, p: mj.coefficients(*t, p, SPEC), (x,), params),
    "apply_pre": (lambda t, p: mj.apply_pre(*t, SPEC), (x, _gates[0]), ()),
    "apply_post": (lambda t, p: mj.apply_post(*t, SPEC), (x, _row, *_gates[1:]), ()),
    "project_partial": (
        lambda t, p: jax.tree.leaves(mj.project_partial(*t, p, SPEC, embedding=16)),
        (x,),
        params,
    ),
    "coefficients_from_partials": (lambda t, p: _from_partials(*t, p), (x,), params),
    "head": (lambda t, p: mj.head(*t, p, SPEC), (x,), _head),
    "expand": (lambda t, p: mj.expand(*t, 4), (_row,), ()),
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


# ---- vmap
# -----------------------------------------------------------------------------------------


def _nested(x, p, g):
    return jax.vmap(jax.vmap(backward, (0, None, 0)), (0, None, 0))(x, p, g)


_stacked = jax.tree.map(lambda p: jnp.stack([(1 + k / 10) * p for k in range(8)]), params)
# A mapped function of x, params, g; params; how tokens and params are divided; sums over devices.
MAPPED = {
    "examples_divided": (jax.vmap(backward, (0, None, 0)), params, ("a",), (), 0),
    "examples_and_tokens_divided": (jax.vmap(backward, (0, None, 0)), params, ("a", "b"), (), 1),
    "tokens_divided": (jax.vmap(backward, (0, None, 0)), params, (None, "b"), (), 1),
    "params_per_example": (jax.vmap(backward), _stacked, ("a", "b"), ("a",), 1),
    "all_axes_mapped": (_nested, params, ("a", "b"), (), 0),
    "one_vmap_of_params_in_another": (
        jax.vmap(jax.vmap(backward, (0, None, 0)), (0, 0, 0)),
        _stacked,
        ("a", "b"),
        ("a",),
        0,
    ),
}


@pytest.mark.parametrize("case", MAPPED)
def test_gradients_per_example(case, kind):
    """Each device makes those of its examples: nothing is gathered, and a sum runs only over devices
    that share examples."""
    f, weights, lead, divided, sums = MAPPED[case]
    want = jax.jit(f)(x, weights, g)
    mesh, _ = mesh_of("4x2_batch_and_sequence", kind)
    with jax.set_mesh(mesh):
        got, text = run(f, put(mesh, x, *lead), put(mesh, weights, *divided), put(mesh, g, *lead))
    assert_same_bits(got[0], want[0])
    assert_close(got, want, 1e-6)
    assert collectives(text) == ({"all-reduce": sums} if sums else {})


def test_vmap_with_an_operand_that_is_not_mapped(kind):
    """The operand is the same for all examples, on every device."""
    h_pre, h_post, h_res = _gates
    f = lambda x, y, a, b: jax.vmap(
        lambda x, y: mj.apply_post(x, y, a, b, SPEC), (0, None)
    )(x, y)
    args = x, _row[0], h_post[0], h_res[0]
    want = jax.jit(f)(*args)
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        got, text = run(f, put(mesh, x, *lead), *put(mesh, args[1:]))
    assert_same_bits(got, want)
    assert collectives(text) == {}


# ---- Operands that are divided differently
# --------------------------------------------------------


@pytest.mark.parametrize("name", ["8", "4x2_batch_and_sequence"])
def test_a_branch_whose_output_no_device_has_a_part_of(name, kind):
    """post takes the streams' sharding; the gradient of the branch's output is summed once."""
    f = lambda x, y, p: mj.post(y, mj.pre(x, p, SPEC)[1])
    both = lambda x, y, p, g: jax.vjp(f, x, y, p)[1](g)
    want = jax.jit(f)(x, _row, params), jax.jit(both)(x, _row, params, g)
    mesh, lead = mesh_of(name, kind)
    with jax.set_mesh(mesh):
        args = put(mesh, x, *lead), put(mesh, _row), put(mesh, params)
        got, _ = run(f, *args)
        assert_same_bits(got, want[0])
        assert same_shardings(got, args[0])
        got, _ = run(both, *args, put(mesh, g, *lead))
        assert_close(got, want[1], 1e-6)


def refusals():
    row = P("a"), P(None, None, "a")
    pre = lambda x, p: mj.pre(x, p, SPEC)[0]
    apply_post = lambda x, y, a, b: mj.apply_post(x, y, a, b, SPEC)
    post_args = (x, _row, *_gates[1:])
    return {
        "features_of_pre": (pre, (x, params), (P(None, None, None, "a"), P()), r"pre: x: expected only leading extents .*project_partial"),
        "streams_of_pre": (pre, (x, params), (P(None, None, "b"), P()), r"pre: x: expected only leading extents"),
        "features_of_layer_output": (apply_post, post_args, (P("a"), row[1], P("a"), P("a")), r"apply_post: layer_output: expected only leading extents"),
        "features_of_expand": (lambda h: mj.expand(h, 4), (_row,), (row[1],), r"expand: h: expected only leading extents"),
        "features_of_reduce": (lambda x: mj.reduce(x), (x,), (P(None, None, None, "a"),), r"reduce: x: expected only leading extents"),
        "two_axes_of_the_batch": (apply_post, post_args, (P("a"), P("b"), P("a"), P("a")), r"apply_post: layer_output: .* as those of x, f32\[8@a,8,4,16\], got f32\[8@b,8,16\]"),
        "batch_against_sequence": (apply_post, post_args, (P("a"), P("a"), P(None, "a"), P("a")), r"apply_post: h_post: .* as those of x, "),
    }  # fmt: skip


@pytest.mark.parametrize("case", refusals())
def test_explicit_shardings_refused_when_traced(case):
    f, args, specs, message = refusals()[case]
    mesh, _ = mesh_of("4x2_batch_and_sequence", "explicit")
    with jax.set_mesh(mesh):
        args = [put(mesh, a, *s) for a, s in zip(args, specs)]
        with pytest.raises(ValueError, match=message):
            jax.jit(f).trace(*args)


@pytest.mark.parametrize("lead", [(None, None, None, "a"), ("b", None, None, "a"), (None, None, "a")])
def test_features_and_streams_under_auto_axes_are_gathered(lead, one_device):
    mesh, _ = mesh_of("4x2_batch_and_sequence", "auto")
    xs, gs, ps = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, params)
    assert_same_bits(jax.jit(forward)(xs, ps), one_device[0])
    assert_close(jax.jit(backward)(xs, ps, gs), one_device[1], 1e-6)


# ---- Odd sizes and places
# -------------------------------------------------------------------------


def test_tokens_that_the_devices_do_not_divide(kind):
    """device_put refuses them. An inner value of such a size is right under Auto axes, and refused
    by JAX under explicit ones, where a reshard makes it whole."""
    mesh, _ = mesh_of("8", kind)
    with pytest.raises(ValueError, match="evenly divid"):
        put(mesh, x[:7], "a")
    some = lambda x, p, g: backward(x[:7], p, g[:7])
    want = jax.jit(some)(x, params, g)
    with jax.set_mesh(mesh):
        args = put(mesh, x, "a"), put(mesh, params), put(mesh, g, "a")
        if kind == "explicit":
            with pytest.raises(Exception, match="not divisible by mesh axes"):
                jax.jit(some).trace(*args)
            args = jax.tree.map(lambda v: jax.sharding.reshard(v, P()), args)
        got = jax.jit(some)(*args)
    assert_same_bits(got[0], want[0])
    assert_close(got, want, 1e-6)


def test_reshaped_tokens():
    """A reshape divides by a part of a mesh axis: batch and sequence from tokens in a row."""
    mesh, _ = mesh_of("8", "auto")
    rows = x.reshape(64, 4, 16)[:16]
    f = lambda x, p: forward(jnp.sin(x.reshape(2, 8, 4, 16)), p)
    both = lambda x, p, g: jax.vjp(f, x, p)[1](g)
    want = jax.jit(both)(rows, params, g[:2])
    got, text = run(both, put(mesh, rows, "a"), put(mesh, params), put(mesh, g[:2]))
    assert_close(got, want, 1e-6)
    assert params.phi.shape in shapes_of(text, "all-reduce")


@pytest.mark.parametrize("lead", [(8, 8), (8,), ()])
def test_tokens_on_every_device(lead, kind):
    """Nothing divided: nothing is summed."""
    x, p, _, g = make(SPEC, lead, 16, seed=5)
    mesh, _ = mesh_of("4x2_batch_and_sequence", kind)
    with jax.set_mesh(mesh):
        got, text = run(backward, *put(mesh, (x, p, g)))
    want = jax.jit(backward)(x, p, g)
    assert_same_bits(got, want)
    assert collectives(text) == {}


def test_no_tokens(kind):
    mesh, lead = mesh_of("8", kind)
    x, p, _, g = make(SPEC, (0, 8), 16)
    with jax.set_mesh(mesh):
        d_x, d_params = jax.jit(backward)(put(mesh, x, *lead), put(mesh, p), put(mesh, g, *lead))
    assert d_x.shape == x.shape
    assert all(not v.any() for v in jax.tree.leaves(d_params))


def test_donated_streams(kind, one_device):
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        xs = put(mesh, x, *lead)
        out = jax.jit(forward, donate_argnums=0)(xs, put(mesh, params))
    assert_same_bits(out, one_device[0])
    assert xs.is_deleted()


def test_called_operation_by_operation(kind):
    mesh, lead = mesh_of("8", kind)
    step = lambda x, p: mj.post(*mj.pre(x, p, SPEC))
    with jax.set_mesh(mesh):
        assert_same_bits(step(put(mesh, x, *lead), put(mesh, params)), step(x, params))
