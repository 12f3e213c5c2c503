"""HyperConnection, the module of flax.nnx."""

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import optax
import pytest
from flax import nnx
from support import assert_close

SPEC = mhc.Spec(streams=2, manifold="permutation")


def make(**kwargs):
    return mj.HyperConnection(SPEC, 8, rngs=nnx.Rngs(0), **kwargs)


def test_parameters_are_separate():
    state = nnx.state(make(norm_weight=True, param_dtype=jnp.bfloat16), nnx.Param)
    shapes = {
        ".".join(map(str, path)): (v[...].shape, v[...].dtype.name)
        for path, v in nnx.to_flat_state(state)
    }
    assert shapes == {
        "phi": ((6, 2, 8), "bfloat16"),
        "alpha": ((3,), "bfloat16"),
        "bias": ((6,), "bfloat16"),
        "norm_weight": ((2, 8), "bfloat16"),
    }
    assert make().norm_weight is None


def test_starts_near_the_ordinary_residual_connection():
    h = jnp.asarray(np.random.default_rng(0).standard_normal((5, 8)), jnp.float32)
    x_next = make()(mj.expand(h, 2), jnp.tanh)
    assert_close(mj.reduce(x_next, mode="mean"), h + jnp.tanh(h), 0.05)


@pytest.mark.parametrize("has_aux", [False, True])
def test_training_step(has_aux):
    x = jnp.asarray(np.random.default_rng(1).standard_normal((5, 2, 8)), jnp.float32)
    branch = (
        (lambda u, scale, *, shift: (jnp.tanh(u * scale + shift), 7.0))
        if has_aux
        else (lambda u, scale, *, shift: jnp.tanh(u * scale + shift))
    )

    @nnx.jit
    def gradient(layer):
        def loss(layer):
            out = layer(x, branch, 2.0, has_aux=has_aux, shift=0.5)
            if has_aux:
                out, aux = out
                assert aux == 7.0
            return jnp.sum(out**2)

        return nnx.grad(loss)(layer)

    got, want = (jax.tree.leaves(gradient(make(implementation=i))) for i in ("kernel", "reference"))
    assert len(got) == 3
    assert_close(got, want, 1e-5)


def test_a_stack_in_a_scan_with_rematerialisation():
    """Layers as one module with a leading axis, trained by nnx's optimiser; alpha frozen."""
    layers = 3

    @nnx.vmap(in_axes=0, out_axes=0)
    def stack(key):
        return mj.HyperConnection(SPEC, 8, rngs=nnx.Rngs(params=key))

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    @nnx.remat
    def run(layer, x):
        return layer(x, jnp.tanh)

    model = stack(jax.random.split(jax.random.key(0), layers))
    trained = nnx.All(nnx.Param, lambda path, value: "alpha" not in path)
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=trained)
    x = jnp.asarray(np.random.default_rng(2).standard_normal((5, 2, 8)), jnp.float32)
    one_by_one = x
    for k in range(layers):
        one = jax.tree.map(lambda v, k=k: v[k], nnx.to_pure_dict(nnx.state(model, nnx.Param)))
        params = mj.Params(one["phi"], one["alpha"], one["bias"])
        u, state = mj.pre(one_by_one, params, SPEC)
        one_by_one = mj.post(jnp.tanh(u), state)
    assert_close(run(model, x), one_by_one, 1e-6)
    before = nnx.to_pure_dict(nnx.state(model, nnx.Param))

    @nnx.jit
    def step(model, optimizer):
        loss = lambda model: jnp.mean((run(model, x) - 1) ** 2)
        value, gradients = nnx.value_and_grad(loss, argnums=nnx.DiffState(0, trained))(model)
        optimizer.update(model, gradients)
        return value

    first, *_, last = (step(model, optimizer) for _ in range(5))
    assert last < first
    after = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    assert {k: bool(jnp.any(after[k] != before[k])) for k in after} == {
        "alpha": False,
        "bias": True,
        "phi": True,
    }


def test_has_aux_and_the_branch_disagree():
    x = jnp.ones((2, 3, 2, 8))
    with pytest.raises(ValueError, match="has_aux=True: expected a pair of .*, got ArrayImpl"):
        make()(x, jnp.tanh, has_aux=True)
    with pytest.raises(ValueError, match="has_aux=False: expected layer_output alone, got 2 v"):
        make()(x, lambda u: (u, 0))


def test_errors():
    with pytest.raises(ValueError, match="HyperConnection: implementation"):
        make(implementation="native")
    with pytest.raises(ValueError, match="pre: params.phi"):
        make()(jnp.ones((3, 2, 9)), jnp.tanh)
