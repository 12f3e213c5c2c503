"""Values and gradients of both implementations against f64, and what the lazy state must get
right."""

import functools

import bounds
import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from support import (
    IMPLEMENTATIONS,
    MANIFOLDS,
    SPECS,
    assert_close,
    assert_equal,
    equations,
    gradients,
    loss,
    make,
    relative,
    seed_of,
    site,
    to_f64,
)

SHAPES = [((3, 5), 24), ((1,), 7), ((33,), 65), ((), 16)]
CASES = [
    (m, lead, d, i)
    for m in MANIFOLDS
    for k, (lead, d) in enumerate(SHAPES)
    for i in IMPLEMENTATIONS
    if k == 0 or (i == "kernel" and m in ("sinkhorn", "permutation"))
]


def all_of(x, params, w, g, spec, implementation):
    run = lambda x, params, w: (
        site(x, params, w, spec, implementation),
        gradients(x, params, w, g, spec, implementation),
    )
    return jax.jit(run)(x, params, w)


@pytest.mark.parametrize("manifold, lead, embedding, implementation", CASES)
def test_f32_against_f64(manifold, lead, embedding, implementation):
    """To the bounds of f32 arithmetic, element by element; tensors of a few elements by relative
    error."""
    spec = SPECS[manifold]
    x, params, w, g = make(spec, lead, embedding, seed=seed_of(manifold, lead))
    got, (d_x, d_params, d_w) = all_of(x, params, w, g, spec, implementation)
    with jax.enable_x64(True):
        exact = to_f64((x, params, w, g))
        want, (e_x, e_params, e_w) = all_of(*exact, spec, "reference")
        x64, p64, w64, g64 = exact
        limit = bounds.of_site(x64, p64, spec, lambda u: jnp.tanh(u * w64), g64, 4.0)
        bounds.assert_within(got, want, limit["x_next"], "x_next")
        bounds.assert_within(d_x, e_x, limit["d_x"], "d_x")
        norm = np.abs(np.asarray(p64.norm_weight))
        bounds.assert_within(d_params.phi, e_params.phi, limit["d_phi_eff"] * norm, "d_phi")
        bounds.assert_within(d_params.bias, e_params.bias, limit["d_bias"], "d_bias")
        assert_close((d_params, d_w), (e_params, e_w), 2e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "field, value",
    [
        ("matrix_order", "output_input"),
        ("norm_form", "outside"),
        ("pre_eps", 0.25),
        ("post_mult", 1.0),
        ("phi_precision", "bfloat16"),
        ("norm_eps", 0.5),
        ("manifold", mhc.Sinkhorn(3, 0.1)),
    ],
)
def test_every_convention_is_heeded(field, value, implementation):
    base = mhc.Spec(
        norm_eps=0.1, manifold=mhc.Sinkhorn(5)
    )  # large enough to tell the two forms of the norm apart
    spec = base.replace(**{field: value})
    x, params, w, g = make(spec, (9,), 12, seed=seed_of(field))
    got = all_of(x, params, w, g, spec, implementation)
    other = all_of(x, params, w, g, base, "kernel")
    assert relative(got[0], other[0]) > 1e-5
    with jax.enable_x64(True):
        want = all_of(
            *to_f64((x, params, w, g)), spec, "kernel"
        )  # the library's definition, in double
    assert_close(got, want, 2e-5)


@pytest.mark.parametrize(
    "field", ["h_pre_precision", "h_post_precision", "h_res_precision", "gradient_precision"]
)
def test_roundings_are_those_of_the_library(field):
    """Both implementations round the same value, and neither agrees with the unrounded one."""
    rounds_gradient = field == "gradient_precision"
    base = SPECS["permutation"]
    spec = base.replace(**{field: "bfloat16" if rounds_gradient else "activation"})
    x, params, w, g = make(
        spec, (65,), 64, jnp.float32 if rounds_gradient else jnp.bfloat16, seed=seed_of(field)
    )

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def result(spec, implementation):
        if rounds_gradient:
            return jax.grad(lambda p: loss(x, p, w, g, spec, implementation))(params).phi
        u, state = mj.pre(x, params, spec, implementation=implementation)
        return u if field == "h_pre_precision" else mj.post(x[:, 0], state)

    kernel, reference, plain = (
        result(spec, "kernel"),
        result(spec, "reference"),
        result(base, "kernel"),
    )
    assert relative(kernel, reference) < 0.5 * relative(kernel, plain)


@pytest.mark.parametrize(
    "x_type, kinds",
    [
        ("bfloat16", ("float32", "bfloat16", "float32", "float16")),
        ("float16", ("float16",) * 4),
        ("float32", ("bfloat16", "float32", "float16", "float32")),
        ("bfloat16", ("bfloat16",) * 4),
        ("float64", ("float64", "float32", "bfloat16", "float64")),
    ],
)
def test_each_gradient_comes_in_the_type_of_its_parameter(x_type, kinds):
    spec = mhc.Spec(streams=3)
    with jax.enable_x64(x_type == "float64"):
        x, params, w, g = make(spec, (2, 4), 12, jnp.dtype(x_type), seed=1)
        params = mj.Params(*(p.astype(k) for p, k in zip(jax.tree.leaves(params), kinds)))
        got, want = (gradients(x, params, w, g, spec, i) for i in IMPLEMENTATIONS)
        assert [d.dtype.name for d in jax.tree.leaves(got[1])] == list(kinds)
        assert got[0].dtype == x.dtype and site(x, params, w, spec).dtype == x.dtype
        coarse = "bfloat16" in (x_type, *kinds) or "float16" in (x_type, *kinds)
        assert_close(got, want, 2e-2 if coarse else 1e-9)


def test_f64_is_exact_to_rounding():
    with jax.enable_x64(True):
        spec = mhc.Spec.preset("deepseek_v4")
        x, params, w, g = make(spec, (7,), 20, jnp.float64, jnp.float64, seed=2)
        got, want = (all_of(x, params, w, g, spec, i) for i in IMPLEMENTATIONS)
        assert_close(got, want, 1e-12)
        assert mj.coefficients(x, params, spec)[0].dtype == jnp.float64


@pytest.mark.parametrize("lead", [(0,), (2, 0, 3)])
def test_no_tokens(lead):
    spec = mhc.Spec()
    x, params, w, g = make(spec, lead, 8)
    assert site(x, params, w, spec).shape == (*lead, 4, 8)
    d_x, d_params, _ = gradients(x, params, w, g, spec)
    assert d_x.shape == x.shape
    assert all(not np.any(np.asarray(d)) for d in jax.tree.leaves(d_params))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_streams(n):
    for manifold in ("sinkhorn", "permutation") if n <= 5 else ("sinkhorn",):
        spec = mhc.Spec(streams=n, manifold=manifold)
        x, params, w, g = make(spec, (11,), 10, seed=n)
        assert_close(
            *(gradients(x, params, w, g, spec, i) for i in IMPLEMENTATIONS), 3e-5, manifold
        )


# ---- The state
# ------------------------------------------------------------------------------------


def uses_of_the_state(x, params, w, spec, implementation):
    """Scalars that use pre's results in every combination."""
    pre = lambda x, p: mj.pre(x, p, spec, implementation=implementation)
    total = lambda v: jnp.sum(v * jnp.cos(jnp.arange(v.size, dtype=v.dtype)).reshape(v.shape))

    def two_posts(x, p, w):
        u, state = pre(x, p)
        return total(mj.post(jnp.tanh(u * w), state)) + total(jnp.sin(mj.post(u * w * w, state)))

    def no_post(x, p, w):
        return total(jnp.tanh(pre(x, p)[0] * w))

    def no_layer_input(x, p, w):
        return total(mj.post(jnp.broadcast_to(w, x.shape[:-2] + w.shape), pre(x, p)[1]))

    def x_used_elsewhere(x, p, w):
        u, state = pre(x, p)
        return total(mj.post(u * w, state)) + total(x * x)

    def stopped(x, p, w):
        u, state = pre(x, p)
        return total(mj.post(jax.lax.stop_gradient(u) * w, state))

    def stopped_params(x, p, w):
        return total(mj.post(*(lambda u, s: (u * w, s))(*pre(x, jax.lax.stop_gradient(p)))))

    def stack(x, p, w):
        for _ in range(3):
            u, state = pre(x, p)
            x = mj.post(jnp.tanh(u * w), state)
        return total(x)

    return locals()


@pytest.mark.parametrize(
    "case",
    [
        "two_posts",
        "no_post",
        "no_layer_input",
        "x_used_elsewhere",
        "stopped",
        "stopped_params",
        "stack",
    ],
)
def test_state(case):
    spec = mhc.Spec(manifold="permutation")
    x, params, w, _ = make(spec, (2, 6), 18, seed=seed_of(case))
    results = []
    for implementation in IMPLEMENTATIONS:
        f = jax.grad(uses_of_the_state(x, params, w, spec, implementation)[case], (0, 1, 2))
        results.append(jax.jit(f)(x, params, w))
    assert_close(*results, 3e-5)


def test_gradient_of_the_layer_output_alone():
    spec = mhc.Spec()
    x, params, w, g = make(spec, (5,), 12, seed=3)
    y = jnp.broadcast_to(w, (5, 12))
    f = lambda y, i: jnp.sum(mj.post(y, mj.pre(x, params, spec, implementation=i)[1]) * g)
    assert_close(*(jax.grad(f)(y, i) for i in IMPLEMENTATIONS), 1e-6)


def test_site_state_has_true_gradients():
    spec = mhc.Spec(h_res_precision="activation")
    x, params, w, g = make(spec, (5,), 12, seed=4)
    _, h_post, h_res = mj.coefficients(x, params, spec)

    def f(x, h_post, h_res, y, i):
        return jnp.sum(
            mj.post(y, mj.site_state(x, h_post, h_res, spec, implementation=i)) * g
        ) + jnp.sum(x * x)

    y = jnp.broadcast_to(w, (5, 12))
    assert_close(
        *(jax.grad(f, (0, 1, 2, 3))(x, h_post, h_res, y, i) for i in IMPLEMENTATIONS), 1e-5
    )


@pytest.mark.parametrize("x_type", ["float32", "bfloat16"])
def test_halves(x_type):
    """The halves with given gates, and coefficients, make the same as pre and post."""
    spec = mhc.Spec.preset("maxtext_lite")
    x, params, w, g = make(spec, (4, 3), 16, jnp.dtype(x_type), seed=5)

    def f(x, params, w, i):
        h_pre, h_post, h_res = mj.coefficients(x, params, spec, implementation=i)
        u = mj.apply_pre(x, h_pre, spec, implementation=i)
        x_next = mj.apply_post(x, jnp.tanh(u * w), h_post, h_res, spec, implementation=i)
        return jnp.sum(x_next.astype(jnp.float32) * g.astype(jnp.float32))

    tolerance = 3e-5 if x_type == "float32" else 2e-2
    halves, plain = (jax.value_and_grad(f, (0, 1, 2))(x, params, w, i) for i in IMPLEMENTATIONS)
    assert_close(halves, plain, tolerance)
    whole = jax.value_and_grad(loss, (0, 1, 2))(x, params, w, g, spec)
    assert_close(halves, whole, tolerance)


def test_around_the_stack():
    spec = mhc.Spec(streams=3)
    x, _, w, _ = make(spec, (4, 3), 16, seed=6)
    hp = mj.HeadParams(0.2 * x[0], jnp.array([0.7]), jnp.array([0.1, -0.3, 0.2]), 1 + 0.1 * x[1, 0])

    def f(x, hp, w, i):
        r = [mj.reduce(x, mode=m, implementation=i) for m in ("sum", "mean")]
        e = mj.expand(w, 3, implementation=i)
        return (
            jnp.sum(mj.head(x + e, hp, spec, implementation=i) * w)
            + jnp.sum(r[0] * r[1])
            + jnp.sum(e**3)
        )

    assert_close(*(jax.value_and_grad(f, (0, 1, 2))(x, hp, w, i) for i in IMPLEMENTATIONS), 1e-5)


def test_equal_bits_from_run_to_run():
    spec = mhc.Spec()
    x, params, w, g = make(spec, (130,), 600, jnp.bfloat16, seed=7)
    f = jax.jit(lambda: gradients(x, params, w, g, spec))
    assert_equal(f(), f())


def test_a_token_does_not_depend_on_its_batch():
    spec = mhc.Spec()
    x, params, w, _ = make(spec, (40,), 96, jnp.bfloat16, seed=8)
    whole = site(x, params, w, spec)
    assert_equal(site(x[7:8], params, w, spec), whole[7:8])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_nan_stays_in_its_token(implementation):
    spec = mhc.Spec()
    x, params, w, g = make(spec, (9,), 20, seed=9)
    x = x.at[4, 1, 3].set(jnp.nan)
    nan = np.isnan(np.asarray(site(x, params, w, spec, implementation))).any(axis=(1, 2))
    assert list(np.flatnonzero(nan)) == [4]
    d_x, d_params, _ = gradients(x, params, w, g, spec, implementation)
    assert list(np.flatnonzero(np.isnan(np.asarray(d_x)).any(axis=(1, 2)))) == [4]
    assert np.isnan(np.asarray(d_params.phi)).any()


def test_h_res_is_input_by_output():
    """x_next[j] = sum_i h_res[i,j] x[i], with a cyclic permutation, which no symmetric matrix would
    tell."""
    spec = mhc.Spec()
    x = jnp.arange(1.0, 5).reshape(1, 4, 1)
    h_res = jnp.roll(jnp.eye(4), 1, axis=1)[None]  # input i goes to output i + 1
    for implementation in IMPLEMENTATIONS:
        got = mj.apply_post(
            x, jnp.zeros((1, 1)), jnp.zeros((1, 4)), h_res, spec, implementation=implementation
        )
        assert got.ravel().tolist() == [4, 1, 2, 3]


@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_the_reference_multiplies_in_float32(manifold):
    """Every contraction, forward and backward, asks for full precision: the default of accelerators
    rounds the operands first."""
    spec = SPECS[manifold]
    x, params, w, g = make(spec, (3,), 8)
    hp = mj.HeadParams(params.phi[:4], jnp.ones(1), jnp.zeros(4))

    def f(x, params, w, hp):
        return loss(x, params, w, g, spec, "reference") + jnp.sum(
            mj.head(x, hp, spec, implementation="reference") * w
        )

    precisions = [
        e.params["precision"]
        for e in equations(jax.make_jaxpr(jax.grad(f, (0, 1, 2, 3)))(x, params, w, hp))
        if e.primitive.name == "dot_general"
    ]
    assert len(precisions) >= 8
    assert set(precisions) == {(jax.lax.Precision.HIGHEST,) * 2}
