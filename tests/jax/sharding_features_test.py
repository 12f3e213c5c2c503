"""Features sharded over devices (tensor parallel): m + 1 numbers per token travel, no activations.
The branch is elementwise."""

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import pytest
from jax.sharding import PartitionSpec as P
from meshes import KINDS, SPEC, collectives, put, run, shapes_of
from support import IMPLEMENTATIONS, assert_close, make, site

STREAMS, FEATURES = P("tokens", None, None, "features"), P(None, None, "features")
D = 48
x, params, w, g = make(SPEC, (8, 8), D, seed=1)
PARAMS = mj.Params(FEATURES, P(), P(), P(None, "features"))


@pytest.fixture(scope="module")
def unsharded():
    f = lambda x, p: site(x, p, w, SPEC)
    return jax.jit(f)(x, params), jax.jit(lambda x, p, g: jax.vjp(f, x, p)[1](g))(x, params, g)


def step(x, p, w, implementation):
    how = dict(implementation=implementation)
    q, sum_squares = mj.project_partial(x, p, SPEC, embedding=D, **how)
    q, sum_squares = jax.lax.psum((q, sum_squares), "features")
    h_pre, h_post, h_res = mj.coefficients_from_partials(q, sum_squares, p, SPEC, **how)
    u = mj.apply_pre(x, h_pre, SPEC, **how)
    return mj.apply_post(x, jnp.tanh(u * w), h_post, h_res, SPEC, **how)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("check_vma", [True, False], ids=["vma", "no_vma"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 4), (1, 8)])
def test_features_sharded(shape, kind, check_vma, implementation, unsharded):
    mesh = jax.make_mesh(shape, ("tokens", "features"), axis_types=(KINDS[kind],) * 2)
    f = jax.shard_map(
        lambda x, p, w: step(x, p, w, implementation),
        mesh=mesh,
        in_specs=(STREAMS, PARAMS, P("features")),
        out_specs=STREAMS,
        check_vma=check_vma,
    )
    ws = put(mesh, w, "features")
    both = lambda x, p, w, g: jax.vjp(lambda x, p: f(x, p, w), x, p)[1](g)
    with jax.set_mesh(mesh):
        xs, gs = put(mesh, x, *STREAMS), put(mesh, g, *STREAMS)
        ps = jax.tree.map(lambda v, s: put(mesh, v, *s), params, PARAMS)
        got, text = run(f, xs, ps, ws)
        assert_close(got, unsharded[0], 1e-6)
        rows = 8 // shape[0]
        assert collectives(text) == {"all-reduce": 1}
        assert sorted(shapes_of(text, "all-reduce")) == [(rows, 8), (rows, 8, SPEC.coefficients)]
        got, text = run(both, xs, ps, ws, gs)
    assert_close(got, unsharded[1], 1e-5)
    summed = shapes_of(text, "all-reduce")
    assert collectives(text).keys() == {"all-reduce"}
    assert summed.count((SPEC.coefficients, 4, D // shape[1])) == 1  # d_phi, over the tokens
    assert not any(s[-2:] == (4, D // shape[1]) and len(s) == 4 for s in summed)  # d_x
    if check_vma and implementation == "kernel":
        # The projection again, the gates' gradients, the parameters'.
        assert collectives(text) == {"all-reduce": 3}
        assert {(rows, 8, 4), (rows, 8, 4, 4)} <= set(summed)


def test_partials_add_up_on_unsharded(unsharded):
    def f(x, p):
        parts = [
            mj.project_partial(
                x[..., s],
                mj.Params(p.phi[..., s], p.alpha, p.bias, p.norm_weight[..., s]),
                SPEC,
                embedding=D,
            )
            for s in (slice(0, 5), slice(5, D))
        ]
        q, sum_squares = jax.tree.map(lambda a, b: a + b, *parts)
        h_pre, h_post, h_res = mj.coefficients_from_partials(q, sum_squares, p, SPEC)
        y = jnp.tanh(mj.apply_pre(x, h_pre, SPEC) * w)
        return mj.apply_post(x, y, h_post, h_res, SPEC)

    got = jax.jit(lambda x, p, g: jax.vjp(f, x, p)[1](g))(x, params, g)
    assert_close(got, unsharded[1], 1e-5)
