"""Sharded tokens of odd sizes and in odd places, and JAX versions that tell less."""

import jax
import jax.export
import jax.numpy as jnp
import mhc_kernels.jax as mj
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from meshes import (
    KINDS,
    SPEC,
    assert_rounded_once,
    assert_same_bits,
    backward,
    collectives,
    forward,
    g,
    line_of,
    mesh_of,
    params,
    put,
    run,
    shapes_of,
    x,
)
from support import assert_close, make


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
        got, text = run(some, *args)
    assert (kind == "auto") == ("all-gather" in collectives(text))
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


@pytest.mark.parametrize("implementation", ["auto_axes", "explicit_axes"])
def test_axes_of_another_kind_inside(implementation, kind, one_device):
    """jax.sharding.auto_axes and explicit_axes switch a mesh's kind for a function."""
    mesh, lead = mesh_of("4x2_batch_and_sequence", kind)
    with jax.set_mesh(mesh):
        if implementation == "auto_axes":
            f = jax.sharding.auto_axes(forward, out_sharding=P(*lead))
        else:
            f = jax.sharding.explicit_axes(forward, in_sharding=(P(*lead), P()))
        both = lambda x, p, g: jax.vjp(f, x, p)[1](g)
        got, text = run(both, put(mesh, x, *lead), put(mesh, params), put(mesh, g, *lead))
    assert_same_bits(got[0], one_device[1][0])
    assert_close(got, one_device[1], 1e-6)
    assert collectives(text) == {"all-reduce": 1}


def test_three_by_two_devices(kind):
    """Places that are no power of two, in an order that is not the machine's."""
    devices = np.array(jax.devices())[[5, 1, 3, 7, 0, 2]].reshape(3, 2)
    mesh = jax.sharding.Mesh(devices, ("a", "b"), axis_types=(KINDS[kind],) * 2)
    some = (x[:6], params, g[:6])
    want = jax.jit(backward)(*some)
    with jax.set_mesh(mesh):
        args = put(mesh, some[0], ("b", "a")), put(mesh, params), put(mesh, some[2], ("b", "a"))
        got, text = run(backward, *args)
    assert_same_bits(got[0], want[0])
    assert_close(got, want, 1e-6)
    assert collectives(text) == {"all-reduce": 1}


def test_bf16_parameters(kind):
    """Their gradients are summed in f32 and rounded once."""
    x, p, _, g = make(SPEC, (8, 8), 16, param_dtype=jnp.bfloat16, seed=3)
    want = jax.jit(backward)(x, p, g)
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        got, text = run(backward, put(mesh, x, *lead), put(mesh, p), put(mesh, g, *lead))
    assert_rounded_once(got[1], want[1])
    assert collectives(text) == {"all-reduce": 1} and "bf16" not in line_of(text, "all-reduce")


def test_exported(kind):
    """With explicit axes a program for several devices can be exported. Under Auto ones it calls
    back into this process, and JAX refuses."""
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        xs = put(mesh, x, *lead)
        exported = lambda: jax.export.export(
            jax.jit(lambda x: forward(x, params)), disabled_checks=mj.export_checks()
        )(xs)
        if kind == "auto":
            with pytest.raises(NotImplementedError, match="host_callbacks"):
                exported()
        else:
            again = jax.export.deserialize(exported().serialize())
            assert_same_bits(jax.jit(again.call)(xs), jax.jit(forward)(x, params))


@pytest.fixture
def without_devices(monkeypatch):
    """A JAX in which nothing says that a primitive must know the devices."""
    from jax._src import dispatch
    from mhc_kernels.jax import _primitive

    with monkeypatch.context() as absent:
        absent.delattr(dispatch, "prim_requires_devices_during_lowering")
        assert _primitive._needing_devices() == set()
    jax.clear_caches()
    known, ours = _primitive._needing_devices(), set(_primitive.PRIMITIVES.values())
    assert ours <= known
    known -= ours
    yield
    known |= ours
    jax.clear_caches()


def test_a_jax_that_does_not_tell_the_devices(kind, without_devices, one_device):
    mesh, lead = mesh_of("8", kind)
    with jax.set_mesh(mesh):
        args = put(mesh, x, *lead), put(mesh, params)
        if kind == "auto":
            with pytest.raises(NotImplementedError, match="pre: jax .* explicit axes .* shard_map"):
                jax.jit(forward).lower(*args)
        else:
            assert_same_bits(jax.jit(forward)(*args), one_device[0])
    assert_same_bits(jax.jit(forward)(x, params), one_device[0])
