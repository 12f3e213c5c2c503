"""vmap on sharded tokens."""

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import pytest
from meshes import (
    SPEC,
    assert_same_bits,
    backward,
    collectives,
    g,
    gates,
    mesh_of,
    params,
    put,
    row,
    run,
    x,
)
from support import assert_close


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
    """Each device makes those of its examples: nothing is gathered, and a sum runs only over the
    devices that share an example."""
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
    h_pre, h_post, h_res = gates
    f = lambda x, y, a, b: jax.vmap(lambda x, y: mj.apply_post(x, y, a, b, SPEC), (0, None))(x, y)
    args = x, row[0], h_post[0], h_res[0]
    want = jax.jit(f)(*args)
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        got, text = run(f, put(mesh, x, *lead), *put(mesh, args[1:]))
    assert_same_bits(got, want)
    assert collectives(text) == {}


def test_vmap_with_a_number_that_is_not_mapped():
    """An operand without leading extents: the sum of squares of one token."""
    q, one = jax.random.normal(jax.random.key(0), (3, SPEC.coefficients)), jnp.float32(5)
    f = lambda q, s: mj.coefficients_from_partials(q, s, params, SPEC, embedding=16)
    got = jax.jit(jax.vmap(f, (0, None)))(q, one)
    assert_same_bits(got, jax.jit(f)(q, jnp.full(3, one)))
