"""The kinds of fault that implementations of this operation have had elsewhere, each as the smallest
input that shows it, through jit, for kernel and reference. tests/kernels_faults.h lists the kinds;
here are those that a front end can add to or lose."""

import concurrent.futures
import ctypes
import functools
import time
import zlib

import exact
import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from child import in_child
from support import IMPLEMENTATIONS, SPECS, assert_equal, make, relative, seed_of, wide

U = 2.0**-24
BOTH = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


# ---- Gates from logits alone: inv_rms is one, alpha one and bias zero, so that q is the logits
# ---------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(1, 2))
def gates(q, spec, implementation):
    spec = spec.replace(norm_eps=1.2e-38)
    m, kind = spec.coefficients, q.dtype
    params = mj.Params(jnp.zeros((m, 1, 1), kind), jnp.ones(3, kind), jnp.zeros(m, kind))
    squares = jnp.full(q.shape[:-1], spec.streams, kind)
    return mj.coefficients_from_partials(
        q, squares, params, spec, embedding=1, implementation=implementation
    )


@functools.partial(jax.jit, static_argnums=(2, 3))
def logit_gradients(q, cotangents, spec, implementation):
    return jax.vjp(lambda q: gates(q, spec, implementation), q)[1](cotangents)[0]


def cotangents_of(spec, tokens, seed, scale=1.0):
    """Random in both indices of h_res: one that depends on the output alone has no gradient."""
    rng, n = np.random.default_rng(seed), spec.streams
    shapes = ((tokens, n), (tokens, n), (tokens, n, n))
    return tuple(jnp.asarray(scale * rng.standard_normal(s), jnp.float32) for s in shapes)


def in_f64(f, *args):
    """The library's own double path: stable formulas, compared with 60 digits by its C++ tests."""
    with jax.enable_x64(True):
        to = lambda v: jnp.asarray(np.asarray(v, np.float64))
        return jax.tree.map(np.asarray, f(*[jax.tree.map(to, a) for a in args]))


def exact_gates(q, spec):
    return in_f64(lambda q: gates(q, spec, "kernel"), q)


def exact_logit_gradients(q, cotangents, spec):
    return in_f64(lambda q, c: logit_gradients(q, c, spec, "kernel"), q, cotangents)


@BOTH
@pytest.mark.parametrize("manifold", ["sinkhorn", "permutation"])
def test_huge_logits(manifold, implementation):
    """exp needs its maximum taken off first; one-hot results are right, not merely finite."""
    spec = mhc.Spec(manifold=manifold)
    rng = np.random.default_rng(seed_of(manifold))
    signs = np.sign(rng.standard_normal((4, spec.coefficients)))
    q = jnp.asarray(signs * np.array([[100.0], [1e4], [-100.0], [-1e4]]), jnp.float32)
    for got, want in zip(gates(q, spec, implementation), exact_gates(q, spec)):
        assert np.isfinite(got).all()
        # A sum of n terms near 1, twenty times divided by such sums.
        assert np.abs(wide(got) - want).max() <= 64 * U
    c = cotangents_of(spec, 4, 1)
    got, want = logit_gradients(q, c, spec, implementation), exact_logit_gradients(q, c, spec)
    assert np.isfinite(got).all()
    assert np.abs(wide(got) - want).max() <= 1e-5 * np.abs(want).max()


@BOTH
@pytest.mark.parametrize("lead", [8.0, 12.0, 16.0, 20.0])
def test_peaked_softmax(lead, implementation):
    """One permutation leads: the usual softmax gradient loses everything at a lead of 20."""
    spec = mhc.Spec(manifold="permutation")
    q = np.random.default_rng(2).standard_normal((8, spec.coefficients))
    q[:, 8] += lead
    q, c = jnp.asarray(q, jnp.float32), cotangents_of(spec, 8, 3)
    got, want = logit_gradients(q, c, spec, implementation), exact_logit_gradients(q, c, spec)
    for t in range(8):  # each token by itself: the largest would hide the others
        assert relative(got[t, 8:], want[t, 8:]) < 1e-6


@BOTH
@pytest.mark.parametrize("iterations", [1, 2, 3, 20])
@pytest.mark.parametrize("lead", [10.0, 20.0, 40.0])
def test_peaked_sinkhorn(lead, iterations, implementation):
    spec = mhc.Spec(manifold=mhc.Sinkhorn(iterations))
    q = np.zeros((4, spec.coefficients))
    q[:, 8:] = lead * np.eye(4).reshape(-1)
    q, c = jnp.asarray(q, jnp.float32), cotangents_of(spec, 4, 4)
    got, want = logit_gradients(q, c, spec, implementation), exact_logit_gradients(q, c, spec)
    # 1e-6, and half a unit for each of the 2 iterations - 1 divisions that pass it on.
    assert relative(got[:, 8:], want[:, 8:]) < 1e-6 + iterations * U
    assert np.abs(want[:, 8:]).min() > 0


@BOTH
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_the_gradient_is_that_of_the_loop_that_ran(iterations, implementation):
    """Not of its limit: logits far from convergence, against differences in double."""
    spec = mhc.Spec(manifold=mhc.Sinkhorn(iterations))
    q = 4 * np.random.default_rng(5).standard_normal((6, spec.coefficients))
    q, c = jnp.asarray(q, jnp.float32), cotangents_of(spec, 6, 6)
    got = logit_gradients(q, c, spec, implementation)
    q64, c64, h = wide(q), [wide(v) for v in c], 1e-5
    forward = lambda q: sum(
        (g * v).reshape(6, -1).sum(1) for g, v in zip(exact_gates(q, spec), c64)
    )
    step = lambda k: h * np.eye(spec.coefficients)[k]
    want = np.stack(
        [(forward(q64 + step(k)) - forward(q64 - step(k))) / (2 * h) for k in range(24)], 1
    )
    assert relative(got, want) < 2e-6
    converged = logit_gradients(q, c, spec.replace(manifold=mhc.Sinkhorn(50)), implementation)
    assert relative(converged, want) > 0.05


@BOTH
def test_sigmoid_derivative(implementation):
    """e/(1+e)^2 to 1e-6 at every logit, zero only where it underflows."""
    logits = np.array([v for a in (8, 10, 12, 17, 30, 60, 85, 88) for v in (a, -a)], np.float32)
    spec = mhc.Spec(streams=16, manifold="identity")
    q = jnp.asarray(np.stack([np.concatenate([logits, logits])]))
    c = (jnp.ones((1, 16)), jnp.ones((1, 16)), jnp.zeros((1, 16, 16)))
    got = wide(logit_gradients(q, c, spec, implementation))[0].reshape(2, 16)
    e = np.exp(-np.abs(logits.astype(np.float64)))
    for factor, row in zip((1, spec.post_mult), got):
        want = factor * e / (1 + e) ** 2
        flushed = (row == 0) & (want < 2 * 1.2e-38)
        assert (flushed | (np.abs(row / want - 1) < 1e-6)).all(), row / want


@BOTH
@pytest.mark.parametrize("manifold", ["sinkhorn", "permutation"])
@pytest.mark.parametrize("lead", [6.0, 12.0, 20.0])
def test_large_cotangents_on_saturated_logits(lead, manifold, implementation):
    """Loss scales of 1e4 to 1e8: the gradient is linear in them to the bit, so nothing overflowed
    in between and no threshold was absolute."""
    spec = mhc.Spec(manifold=manifold)
    q = np.random.default_rng(7).standard_normal((4, spec.coefficients))
    q[:, 8 : (None if manifold == "sinkhorn" else 9)] += (
        lead * np.eye(4).reshape(-1) if manifold == "sinkhorn" else lead
    )
    q[:, :8] += lead
    q, c = jnp.asarray(q, jnp.float32), cotangents_of(spec, 4, 8)
    plain = wide(logit_gradients(q, c, spec, implementation))
    assert np.abs(plain).min() > 0
    for power in (14, 20, 27):
        scaled = jax.tree.map(lambda v: v * 2.0**power, c)
        got = wide(logit_gradients(q, scaled, spec, implementation))
        assert np.isfinite(got).all()
        np.testing.assert_array_equal(got, plain * 2.0**power)


# ---- Conventions
# ---------------------------------------------------------------------------------------


@BOTH
def test_h_res_is_not_transposed(implementation):
    """A cyclic permutation of logits, which no symmetric matrix would tell: x = [1, 2, 3, 4]."""
    spec = mhc.Spec(streams=4, manifold="unconstrained")
    cyclic = np.roll(np.eye(4), 1, axis=1)  # input i goes to output i + 1
    bias = jnp.asarray(np.concatenate([np.full(8, -1e4), cyclic.reshape(-1)]), jnp.float32)
    params = mj.Params(jnp.zeros((24, 4, 1)), jnp.ones(3), bias)
    x = jnp.arange(1.0, 5).reshape(1, 4, 1)
    run = lambda spec: mj.post(*mj.pre(x, params, spec, implementation=implementation))
    assert jax.jit(run, static_argnums=0)(spec).ravel().tolist() == [4, 1, 2, 3]
    other = spec.replace(matrix_order="output_input")
    assert jax.jit(run, static_argnums=0)(other).ravel().tolist() == [2, 3, 4, 1]


@BOTH
def test_order_of_the_slices(implementation):
    """phi = 0 and biases that all differ: pre, post, res; post is 2 sigmoid."""
    spec = mhc.Spec(streams=3, manifold="unconstrained")
    bias = np.linspace(-1.5, 2, 15)
    params = mj.Params(jnp.zeros((15, 3, 2)), jnp.ones(3), jnp.asarray(bias, jnp.float32))
    run = jax.jit(lambda x: mj.coefficients(x, params, spec, implementation=implementation))
    h_pre, h_post, h_res = run(jnp.ones((1, 3, 2)))
    sigmoid = 1 / (1 + np.exp(-bias))
    np.testing.assert_allclose(h_pre[0], sigmoid[:3] + 1e-6, rtol=1e-6)
    np.testing.assert_allclose(h_post[0], 2 * sigmoid[3:6], rtol=1e-6)
    np.testing.assert_allclose(h_res[0], bias[6:].reshape(3, 3), rtol=1e-6)


@BOTH
def test_mean_over_all_features(implementation):
    """x = 1: the sum over D alone would give half of z."""
    spec = mhc.Spec(streams=4, manifold="identity", norm_eps=0.25)
    params = mj.Params(jnp.full((8, 4, 8), 1 / 32), jnp.ones(3), jnp.zeros(8))
    run = jax.jit(lambda x: mj.coefficients(x, params, spec, implementation=implementation)[1])
    z = 1 / np.sqrt(1.25)
    np.testing.assert_allclose(run(jnp.ones((1, 4, 8))), 2 / (1 + np.exp(-z)), rtol=1e-6)


@BOTH
@pytest.mark.parametrize("size", [0.0, 1e-4])
def test_three_separate_eps(size, implementation):
    """Each moves its own gate, where it should stand, and no other: the norm's inside the root."""
    base = mhc.Spec(manifold=mhc.Sinkhorn(1, 0.1), norm_eps=1e-6, pre_eps=0.125)
    x = jnp.full((1, 4, 2), size, jnp.float32)
    params = mj.Params(jnp.full((24, 4, 2), 0.125), jnp.ones(3), jnp.zeros(24))  # z = size inv_rms

    def run(**changes):
        f = lambda x: mj.coefficients(
            x, params, base.replace(**changes), implementation=implementation
        )
        return [wide(v)[0] for v in jax.jit(f)(x)]

    z = size / np.sqrt(size**2 + 1e-6)
    h_pre, h_post, h_res = run()
    np.testing.assert_allclose(h_pre, 1 / (1 + np.exp(-z)) + 0.125, rtol=1e-6)
    np.testing.assert_allclose(h_post, 2 / (1 + np.exp(-z)), rtol=1e-6)
    np.testing.assert_allclose(h_res, 0.35 / 1.5, rtol=1e-6)  # uniform: (1/4 + eps)/(4 (...) + eps)
    for change, moved in (
        (dict(pre_eps=0.25), {0}),
        (dict(manifold=mhc.Sinkhorn(1, 0.2)), {2}),
        (dict(norm_eps=1e-2), {0, 1} if size else set()),
    ):
        now = run(**change)
        assert {
            k for k in range(3) if not np.array_equal(now[k], (h_pre, h_post, h_res)[k])
        } == moved


@BOTH
def test_equal_streams_have_no_res_gradient(implementation):
    """Exactly zero in theory: what remains is noise, so that tests of it need streams that differ."""
    spec = mhc.Spec()
    x, params, _, g = make(spec, (5,), 16, seed=11)
    x = mj.expand(x[:, 0], 4)
    f = lambda p: jnp.sum(
        mj.post(x[:, 0], mj.pre(x, p, spec, implementation=implementation)[1]) * g
    )
    d = jax.jit(jax.grad(f))(params)
    terms = np.einsum("tid,tjd->", np.abs(wide(x)), np.abs(wide(g)))
    assert np.abs(wide(d.bias[8:])).max() < 64 * U * terms


# ---- Sizes, types, batches
# ---------------------------------------------------------------------------------------

TOKENS = [0, 1, 3, 5, 7, 21, 31, 33, 63, 65, 127, 129]


@functools.partial(jax.jit, static_argnums=(5, 6))
def everything(x, params, y, du, g, spec, implementation):
    """Forward and every gradient of <u, du> + <x_next, g>, with the branch's output given."""

    def f(x, params, y):
        u, state = mj.pre(x, params, spec, implementation=implementation)
        return u, mj.post(y, state)

    (u, x_next), back = jax.vjp(f, x, params, y)
    d_x, d_params, d_y = back((du, g))
    return {
        "layer_input": u,
        "x_next": x_next,
        "d_x": d_x,
        "d_layer_output": d_y,
        "d_phi": d_params.phi,
        "d_alpha": d_params.alpha,
        "d_bias": d_params.bias,
        "d_norm_weight": d_params.norm_weight,
    }


def inputs(spec, tokens, embedding, seed=0):
    x, params, _, g = make(spec, (tokens,), embedding, seed=seed)
    rng = np.random.default_rng(seed + 1)
    y, du = (jnp.asarray(rng.standard_normal((tokens, embedding)), jnp.float32) for _ in "ab")
    return x, params, y, du, g


def judge(args, spec, implementation, what):
    got = everything(*args, spec, implementation)
    exact.assert_within(got, exact.of_site(*args, spec), what)
    return got


@BOTH
@pytest.mark.parametrize("manifold", ["sinkhorn", "permutation"])
def test_numbers_of_tokens(manifold, implementation):
    """Whatever their number, a token's forward bits and d_x are those that it has alone or in any
    batch (of kernels); sums over tokens are within their bounds."""
    spec = SPECS[manifold]
    args = inputs(spec, 129, 33, seed_of(manifold))
    whole = judge(args, spec, implementation, "T = 129")
    for tokens in TOKENS if implementation == "kernel" else (0, 1, 31):
        cut = lambda v: v[:tokens]
        some = (cut(args[0]), args[1], *map(cut, args[2:]))
        got = judge(some, spec, implementation, f"T = {tokens}")
        if implementation == "kernel":
            for name in ("layer_input", "x_next", "d_x", "d_layer_output"):
                assert_equal(got[name], whole[name][:tokens], f"T = {tokens} {name}")
    if implementation == "kernel":  # also where it would lie in the middle of a block
        one = lambda v: v[77:78]
        alone = everything(one(args[0]), args[1], *map(one, args[2:]), spec, "kernel")
        for name in ("layer_input", "x_next", "d_x", "d_layer_output"):
            assert_equal(alone[name], one(whole[name]), f"alone: {name}")


@pytest.mark.parametrize("embedding", [1, 7, 15, 17, 33, 4097])
def test_numbers_of_features(embedding):
    for manifold in ("sinkhorn", "permutation"):
        args = inputs(SPECS[manifold], 3, embedding, embedding)
        judge(args, SPECS[manifold], "kernel", f"D = {embedding}, {manifold}")
    if embedding in (1, 17):
        judge(args, SPECS["permutation"], "reference", f"D = {embedding}")


@pytest.mark.parametrize("n", range(1, 9))
def test_numbers_of_streams(n):
    for manifold in ("sinkhorn", "permutation", "unconstrained", "identity"):
        if manifold != "permutation" or n <= 5:
            spec = SPECS[manifold].replace(streams=n)
            judge(inputs(spec, 9, 19, n), spec, "kernel", f"n = {n}, {manifold}")
    if n in (1, 3):
        judge(inputs(spec, 9, 19, n), spec, "reference", f"n = {n}")


@BOTH
def test_mixed_types_and_frozen_subsets(implementation):
    """Every subset of parameters may be frozen; what is left has the same bits as among all, each
    in the type of its parameter."""
    spec = mhc.Spec(streams=3)
    x, params, _, _ = make(spec, (6,), 12, jnp.bfloat16, seed=12)
    kinds = dict(phi="float32", alpha="bfloat16", bias="float16", norm_weight="bfloat16")
    names = list(kinds)
    params = {k: getattr(params, k).astype(v) for k, v in kinds.items()}

    def f(moving, still):
        p = mj.Params(**moving, **still)
        u, state = mj.pre(x, p, spec, implementation=implementation)
        return jnp.sum(jnp.cos(mj.post(u, state).astype(jnp.float32)))

    run = jax.jit(jax.grad(f))
    whole = run(params, {})
    assert {k: v.dtype.name for k, v in whole.items()} == kinds
    subsets = range(1, 15) if implementation == "kernel" else (1, 6)
    for subset in subsets:
        moving = {k: params[k] for b, k in enumerate(names) if subset >> b & 1}
        got = run(moving, {k: v for k, v in params.items() if k not in moving})
        for name, value in got.items():
            if implementation == "kernel":
                assert_equal(value, whole[name], f"{sorted(moving)}: {name}")
            else:
                assert relative(value, whole[name]) < 2.0**-7


@BOTH
@pytest.mark.parametrize("x_type", ["float32", "bfloat16"])
def test_nan_and_inf_stay_in_their_tokens(x_type, implementation):
    """Every other token has the bits that it has without them, forward and backward; the sums over
    tokens show them."""
    spec = mhc.Spec.preset("maxtext_lite")
    x, params, y, du, g = inputs(spec, 65, 33, 13)
    x, y, du, g = (v.astype(x_type) for v in (x, y, du, g))
    bad = x.at[31, 1, 3].set(jnp.nan).at[64, 3, 32].set(jnp.inf).at[0, 0, 0].set(-jnp.nan)
    clean = everything(x, params, y, du, g, spec, implementation)
    got = everything(bad, params, y, du, g, spec, implementation)
    rest = np.delete(np.arange(65), [0, 31, 64])
    for name in ("layer_input", "x_next", "d_x", "d_layer_output"):
        assert_equal(got[name][rest], clean[name][rest], name)
        for t in (0, 31):
            assert np.isnan(np.asarray(got[name][t], np.float32)).any(), (name, t)
    for name in ("d_phi", "d_alpha", "d_bias", "d_norm_weight"):
        assert np.isnan(np.asarray(got[name])).any(), name


@BOTH
def test_overflow_of_the_sum_of_squares(implementation):
    """One x of 2e19, whose square is no f32: NaN or right, never a finite wrong gate."""
    spec = mhc.Spec(manifold="identity")
    params = mj.Params(jnp.full((8, 4, 16), 0.3), jnp.ones(3), jnp.zeros(8))
    x = jnp.zeros((2, 4, 16)).at[0, 2, 5].set(2e19).at[1].set(1.0)
    run = jax.jit(lambda x: mj.coefficients(x, params, spec, implementation=implementation)[1])
    got = wide(run(x))
    right = 2 / (1 + np.exp(-0.3 * 8))  # one of 64 features carries all
    assert np.isnan(got[0]).all() or np.abs(got[0] - right).max() < 1e-6
    np.testing.assert_allclose(got[1], 2 / (1 + np.exp(-0.3 * 64)), rtol=1e-5)


@BOTH
@pytest.mark.parametrize("size", [0.0, 1e-20, 1e-30])
def test_zero_and_tiny_tokens(size, implementation):
    """inv_rms is 1/sqrt(eps), to rounding: an approximate root would say NaN or be off."""
    spec = mhc.Spec(manifold="identity", norm_eps=1e-6)
    params = mj.Params(jnp.full((8, 4, 16), 1e-3), jnp.full(3, 1e15), jnp.zeros(8))
    x = jnp.full((1, 4, 16), size)
    f = lambda x: mj.coefficients(x, params, spec, implementation=implementation)[1]
    z = 1e15 * 64e-3 * np.float64(np.float32(size)) * 1e3
    np.testing.assert_allclose(jax.jit(f)(x), 2 / (1 + np.exp(-z)), rtol=2e-5)
    d = jax.jit(jax.grad(lambda x: jnp.sum(f(x))))(x)
    e = np.exp(-abs(z))
    np.testing.assert_allclose(d, 8 * e / (1 + e) ** 2 * 1e15, rtol=2e-5)


@pytest.mark.parametrize("preset", ["maxtext_lite", "deepseek_v4"])
def test_bf16_logits_beside_rounding_steps(preset):
    """bf16 activations and parameters, logits half way between two bf16 numbers: the gates of both
    implementations agree to f32, and neither is near what gates in bf16 would be."""
    spec = mhc.Spec.preset(preset)
    x, params, _, _ = make(spec, (33,), 24, jnp.bfloat16, jnp.bfloat16, seed=seed_of(preset))
    steps = np.arange(spec.coefficients) % 7 / 4 + 0.25
    params = mj.Params(
        params.phi, jnp.full(3, 2.0**-9, jnp.bfloat16), jnp.asarray(steps, jnp.bfloat16)
    )
    run = jax.jit(lambda i: mj.coefficients(x, params, spec, implementation=i), static_argnums=0)
    rounded = lambda v: wide(jnp.asarray(v).astype(jnp.bfloat16))
    for got, want in zip(run("kernel"), run("reference")):
        assert got.dtype == want.dtype == jnp.float32
        assert np.abs(wide(got) - wide(want)).max() < 2.0**-20
        assert np.abs(rounded(want) - wide(want)).max() > 2.0**-11


# ---- The thread that calls
# ---------------------------------------------------------------------------------------


class FloatingPointMode:
    """The calling thread's MXCSR without its sticky flags; fenv_t of x86-64 has it at byte 28."""

    FLUSH = 0x8040  # results and operands

    def __init__(self):
        self.libm = ctypes.CDLL("libm.so.6")
        self.buffer = (ctypes.c_uint32 * 8)()

    def get(self):
        self.libm.fegetenv(self.buffer)
        return self.buffer[7] & ~0x3F

    def set(self, value):
        self.libm.fegetenv(self.buffer)
        self.buffer[7] = value
        self.libm.fesetenv(self.buffer)


def subnormal_inputs(tokens, embedding):
    spec = mhc.Spec(norm_eps=1e-30)
    x, params, y, du, g = inputs(spec, tokens, embedding, 14)
    x = jnp.asarray(np.asarray(x) * np.float32(1e-39))
    assert np.any(np.asarray(x) != 0)
    return (x, params, y, du, g), spec


def check_the_mode_of_the_calling_thread():
    """Operation by operation, which with one device run on Python's thread."""
    args, spec = subnormal_inputs(8, 33)
    mode = FloatingPointMode()
    at_first = mode.get()
    results = []
    for flags in (at_first & ~mode.FLUSH, at_first | mode.FLUSH):
        here, whole = time.thread_time(), time.process_time()
        mode.set(flags)
        results.append(everything.__wrapped__(*args, spec, "kernel"))
        jax.block_until_ready(results[-1])
        assert mode.get() == flags
        mode.set(at_first)
    assert time.thread_time() - here > 0.9 * (time.process_time() - whole)
    assert_equal(results[1], results[0])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # a program of several runs on XLA's
        on_pool = pool.submit(lambda: everything(*args, spec, "kernel")).result()
    assert_equal(on_pool, results[0])
    print("checked")


def check_sums():
    args, spec = subnormal_inputs(300, 640)
    r = everything(*args, spec, "kernel")
    print([zlib.crc32(np.asarray(v).tobytes()) for v in jax.tree.leaves(r)])


def test_subnormals_on_the_calling_thread():
    """x = 1e-39: the same bits in both modes of Python's thread, which it gets back, and on the
    threads of XLA's pool, which flush."""
    child = in_child(
        check_the_mode_of_the_calling_thread,
        JAX_NUM_CPU_DEVICES="1",
        MHC_NUM_THREADS="1",
    )
    assert child.endswith("checked\n")


def test_subnormals_on_one_thread_and_on_several():
    assert in_child(check_sums, MHC_NUM_THREADS="1") == in_child(check_sums, MHC_NUM_THREADS="4")
