"""Operands whose tokens are divided differently, and features or streams that are divided."""

import jax
import mhc_kernels.jax as mj
import pytest
from jax.sharding import PartitionSpec as P
from meshes import (
    SPEC,
    assert_same_bits,
    backward,
    forward,
    g,
    gates,
    mesh_of,
    params,
    put,
    row,
    run,
    same_shardings,
    x,
)
from support import assert_close


@pytest.mark.parametrize("name", ["8", "4x2_batch_and_sequence"])
def test_a_branch_whose_output_no_device_has_a_part_of(name, kind):
    """post takes the streams' sharding; the gradient of the branch's output is summed once."""
    f = lambda x, y, p: mj.post(y, mj.pre(x, p, SPEC)[1])
    both = lambda x, y, p, g: jax.vjp(f, x, y, p)[1](g)
    want = jax.jit(f)(x, row, params), jax.jit(both)(x, row, params, g)
    mesh, lead = mesh_of(name, kind)
    with jax.set_mesh(mesh):
        args = put(mesh, x, *lead), put(mesh, row), put(mesh, params)
        got, _ = run(f, *args)
        assert_same_bits(got, want[0])
        assert same_shardings(got, args[0])
        got, _ = run(both, *args, put(mesh, g, *lead))
        assert_close(got, want[1], 1e-6)


_PRE = (lambda x, p: mj.pre(x, p, SPEC)[0], (x, params))
_POST = (lambda *args: mj.apply_post(*args, SPEC), (x, row, *gates[1:]))
_A, _B, _WHOLE = P("a"), P("b"), "expected only leading extents"
_FEATURES = P(None, None, "a"), P(None, None, None, "a")
# A function and its arguments, how they are divided, what the error says.
REFUSALS = {
    "features": (*_PRE, (_FEATURES[1], P()), f"pre: x: {_WHOLE} .*project_partial"),
    "streams": (*_PRE, (P(None, None, "b"), P()), f"pre: x: {_WHOLE}"),
    "layer_output": (*_POST, (_A, _FEATURES[0], _A, _A), f"apply_post: layer_output: {_WHOLE}"),
    "expand": (lambda h: mj.expand(h, 4), (row,), _FEATURES[:1], f"expand: h: {_WHOLE}"),
    "reduce": (mj.reduce, (x,), _FEATURES[1:], f"reduce: x: {_WHOLE}"),
    "two_axes": (
        *_POST,
        (_A, _B, _A, _A),
        r"apply_post: layer_output: .* as those of x, f32\[8@a,8,4,16\], got f32\[8@b,8,16\]",
    ),
    "two_extents": (*_POST, (_A, _A, P(None, "a"), _A), "apply_post: h_post: .* as those of x, "),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_when_traced(case):
    f, args, specs, message = REFUSALS[case]
    mesh, _ = mesh_of("4x2_batch_and_sequence", "explicit")
    with jax.set_mesh(mesh):
        args = [put(mesh, a, *s) for a, s in zip(args, specs)]
        with pytest.raises(ValueError, match=message):
            jax.jit(f).trace(*args)


@pytest.mark.parametrize(
    "lead", [(None, None, None, "a"), ("b", None, None, "a"), (None, None, "a")]
)
def test_features_and_streams_under_auto_axes_are_gathered(lead, one_device):
    mesh, _ = mesh_of("4x2_batch_and_sequence", "auto")
    xs, gs, ps = put(mesh, x, *lead), put(mesh, g, *lead), put(mesh, params)
    assert_same_bits(jax.jit(forward)(xs, ps), one_device[0])
    assert_close(jax.jit(backward)(xs, ps, gs), one_device[1], 1e-6)
