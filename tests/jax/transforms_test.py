"""jit, vmap, scan, donation, export, and what a kernel refuses to do."""

import functools

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from support import (
    IMPLEMENTATIONS,
    SPECS,
    assert_close,
    assert_equal,
    equations,
    gradients,
    loss,
    make,
    mhc_calls,
    site,
)

SPEC = SPECS["permutation"]


def both(f, *args):
    return [jax.jit(functools.partial(f, i))(*args) for i in IMPLEMENTATIONS]


def test_without_jit_at_all():
    """jax.disable_jit, as people debug with, and jax.debug_nans."""
    x, params, w, g = make(SPEC, (5,), 12)
    want = gradients(x, params, w, g, SPEC)
    with jax.disable_jit():
        assert_close(jax.grad(loss, (0, 1, 2))(x, params, w, g, SPEC), want, 1e-6)
        batched = jax.vmap(lambda x: site(x, params, w, SPEC))(x[None])
        assert_close(batched[0], site(x, params, w, SPEC), 1e-6)
    with jax.debug_nans(True):
        assert_close(jax.grad(loss, (0, 1, 2))(x, params, w, g, SPEC), want, 1e-6)
        with pytest.raises(FloatingPointError):
            site(x * jnp.nan, params, w, SPEC)


def test_a_state_shows_itself():
    """Also where its leaves are no arrays."""
    x, params, *_ = make(SPEC, (5,), 12)
    state = mj.pre(x, params, SPEC)[1]
    assert repr(state) == "State(kernel, float32[5, 4, 12])"
    assert "5" in repr(jax.tree.map(lambda v: v.shape, state))
    assert "None" in repr(jax.tree.map(lambda v: None, state))


def test_numpy_arrays_are_arrays():
    x, params, w, _ = make(SPEC, (5,), 12)
    want = site(x, params, w, SPEC)
    on_host = jax.tree.map(np.asarray, (x.astype(jnp.float32), params))
    for implementation in IMPLEMENTATIONS:
        assert_close(site(*on_host, w, SPEC, implementation), want, 1e-5)
    wide = np.asarray(x, np.float64)
    for implementation in IMPLEMENTATIONS:
        state = mj.pre(wide, params, SPEC, implementation=implementation)[1]
        assert "float32" in repr(state)


def test_embedding_of_numpy_is_a_number():
    """It stands in programs that are exported."""
    x, params, *_ = make(SPEC, (5,), 12)
    squares = mj.project_partial(x, params, SPEC, embedding=np.int64(12))[1]
    assert type(squares.embedding) is int and squares.embedding == 12


def test_vmap_over_tokens_is_one_call():
    x, params, w, g = make(SPEC, (3, 5), 12, seed=1)
    mapped = jax.vmap(lambda x: site(x, params, w, SPEC))
    assert_equal(jax.jit(mapped)(x), jax.jit(lambda x: site(x, params, w, SPEC))(x))
    assert [c[0] for c in mhc_calls(jax.make_jaxpr(mapped)(x))] == ["pre", "post"]
    middle = jax.vmap(lambda x: site(x, params, w, SPEC), in_axes=1, out_axes=1)
    assert_equal(jax.jit(middle)(x), jax.jit(mapped)(x))


def test_vmap_of_grad_keeps_weight_gradients_per_example():
    x, params, w, g = make(SPEC, (3, 5), 12, seed=2)
    f = lambda i, x, g: jax.vmap(jax.grad(loss, (0, 1, 2)), (0, None, None, 0, None, None))(
        x, params, w, g, SPEC, i
    )
    got, want = both(f, x, g)
    assert got[1].phi.shape == (3, *params.phi.shape)
    assert_close(got, want, 2e-5)
    total = gradients(x, params, w, g, SPEC)[1]
    assert_close(jax.tree.map(lambda d: d.sum(0), got[1]), total, 1e-5)


def test_vmap_over_parameters():
    x, params, w, g = make(SPEC, (5,), 12, seed=3)
    many = jax.tree.map(lambda p: jnp.stack([p, 0.5 * p, p + 0.1]), params)
    f = lambda i, p: jax.vmap(
        lambda p: (site(x, p, w, SPEC, i), jax.grad(loss, 1)(x, p, w, g, SPEC, i))
    )(p)
    assert_close(*both(f, many), 2e-5)


def test_grad_of_vmap():
    x, params, w, g = make(SPEC, (3, 5), 12, seed=4)
    total = lambda i, p: jnp.sum(jax.vmap(lambda x, g: loss(x, p, w, g, SPEC, i))(x, g))
    got, want = both(lambda i, p: jax.grad(functools.partial(total, i))(p), params)
    assert_close(got, want, 2e-5)


@pytest.mark.parametrize("remat", [False, True])
def test_scan_over_layers(remat):
    x, params, w, g = make(SPEC, (4,), 12, seed=5)
    layers = jax.tree.map(lambda p: jnp.stack([p, 0.7 * p, 0.9 * p]), params)

    def run(i, x, layers):
        def body(x, p):
            return site(x, p, w, SPEC, i), None

        body = jax.checkpoint(body) if remat else body
        return jnp.sum(jax.lax.scan(body, x, layers)[0] * g)

    got, want = both(
        lambda i, x, p: jax.value_and_grad(functools.partial(run, i), (0, 1))(x, p), x, layers
    )
    assert_close(got, want, 5e-5)


def test_donated_input_becomes_the_output():
    x, params, w, _ = make(SPEC, (64,), 256, jnp.bfloat16, seed=6)
    want = site(x, params, w, SPEC)
    step = jax.jit(lambda x: site(x, params, w, SPEC), donate_argnums=0)
    compiled = step.lower(x).compile()
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes == x.nbytes
    assert memory.temp_size_in_bytes < x.nbytes  # x is written in place: no copy of it anywhere
    fresh = x + 0
    address = fresh.unsafe_buffer_pointer()
    got = step(fresh)
    assert got.unsafe_buffer_pointer() == address and fresh.is_deleted()
    assert_close(got, want, 1e-2)


def test_an_input_that_lives_on_is_not_overwritten():
    x, params, w, _ = make(SPEC, (8,), 16, seed=7)
    before = np.array(x)
    jax.jit(lambda x: site(x, params, w, SPEC))(x)
    site(x, params, w, SPEC)
    np.testing.assert_array_equal(np.asarray(x), before)
    h = [jnp.ones((8, 4)), jnp.ones((8, 4, 4))]
    twice = jax.jit(
        lambda x: (mj.apply_post(x, x[:, 0], *h, SPEC), mj.apply_post(x, x[:, 1], *h, SPEC), x)
    )
    a, b, same = twice(x)
    np.testing.assert_array_equal(np.asarray(same), before)
    assert_equal(a, mj.apply_post(x, x[:, 0], *h, SPEC))
    assert_equal(b, mj.apply_post(x, x[:, 1], *h, SPEC))


def test_the_gradient_overwrites_g_where_it_may():
    """pre_backward writes d_x over g when g is an inner value."""
    x, params, w, g = make(SPEC, (64,), 256, jnp.bfloat16, seed=8)
    f = lambda x: jnp.sum(jnp.sin(site(x, params, w, SPEC)).astype(jnp.float32))
    text = jax.jit(jax.grad(f)).lower(x).compile().as_text()
    line = next(t for t in text.splitlines() if "custom-call" in t and "pre_backward" in t)
    assert "output_to_operand_aliasing" in line
    reference = lambda x: jnp.sum(
        jnp.sin(site(x, params, w, SPEC, "reference")).astype(jnp.float32)
    )
    assert_close(jax.jit(jax.grad(f))(x), jax.jit(jax.grad(reference))(x), 3e-2)


def exported(f, *args, vjp_order=0):
    """f after a round trip through bytes."""
    made = jax.export.export(jax.jit(f), disabled_checks=mj.export_checks())(*args)
    return jax.export.deserialize(made.serialize(vjp_order=vjp_order))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_export_round_trip(implementation):
    """Params as an argument and as a result, with and without norm_weight."""
    x, params, w, g = make(SPEC, (6,), 12, seed=9)
    f = jax.jit(lambda x, p: jax.grad(loss, (0, 1))(x, p, w, g, SPEC, implementation))
    for p in (params, mj.Params(params.phi, params.alpha, params.bias)):
        again = exported(f, x, p)
        assert ("mhc_kernels.pre_backward.v1" in again.mlir_module()) == (
            implementation == "kernel"
        )
        assert_equal(again.call(x, p), f(x, p))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("manifold", [mhc.Sinkhorn(7, 1e-3), "permutation"])
def test_export_of_the_state(manifold, implementation):
    """pre and post as two programs, the state between them; and the gradient of an exported pre."""
    spec = mhc.Spec(streams=3, manifold=manifold, norm_form="outside", pre_eps=0.25)
    x, params, w, g = make(spec, (6,), 12, seed=10)
    pre = lambda x, p: mj.pre(x, p, spec, implementation=implementation)
    first = exported(pre, x, params, vjp_order=1)
    u, state = first.call(x, params)
    want_u, want_state = jax.jit(pre)(x, params)
    assert jax.tree.structure(state) == jax.tree.structure(want_state)
    assert_equal((u, state), (want_u, want_state))
    second = exported(mj.post, *jax.eval_shape(pre, x, params), vjp_order=1)
    y = jnp.tanh(u * w)
    assert_equal(second.call(y, state), jax.jit(mj.post)(y, state))

    def through_programs(x, p, w):
        u, state = first.call(x, p)
        return jnp.sum(second.call(jnp.tanh(u * w), state) * g)

    got = jax.jit(jax.grad(through_programs, (0, 1, 2)))(x, params, w)
    assert_close(got, gradients(x, params, w, g, spec, implementation), 1e-6)


def test_export_of_the_other_pytrees():
    spec = mhc.Spec(streams=3)
    x, params, _, _ = make(spec, (6,), 12, seed=11)
    project = lambda x, p: mj.project_partial(x, p, spec, embedding=24)
    q, sum_squares = exported(project, x, params).call(x, params)
    assert isinstance(sum_squares, mj.SumSquares) and sum_squares.embedding == 24
    gates = lambda q, s, p: mj.coefficients_from_partials(q, s, p, spec)
    again = exported(gates, q, sum_squares, params)
    assert_equal(again.call(q, sum_squares, params), jax.jit(gates)(q, sum_squares, params))
    hp = mj.HeadParams(params.phi[:3], jnp.ones(1), jnp.zeros(3))
    head = lambda x, p: mj.head(x, p, spec)
    assert_equal(exported(head, x, hp, vjp_order=1).call(x, hp), jax.jit(head)(x, hp))


# ---- Refusals
# -------------------------------------------------------------------------------------


def operations(implementation):
    """Every operation as a function of one array, named as its error names it."""
    spec = SPEC
    x, params, w, _ = make(spec, (2,), 4, seed=12)
    how = dict(implementation=implementation)
    h_pre, h_post, h_res = mj.coefficients(x, params, spec, implementation="reference")
    state = mj.pre(x, params, spec, **how)[1]
    total = lambda tree: sum(jnp.sum(jnp.sin(v)) for v in jax.tree.leaves(tree))
    hp = mj.HeadParams(params.phi[:4], params.alpha[:1], params.bias[:4])
    q, squares = mj.project_partial(x, params, spec, embedding=4, implementation="reference")
    mp = lambda phi: mj.Params(phi, params.alpha, params.bias)
    return {
        "pre of x": (lambda x: mj.pre(x, params, spec, **how)[0], x),
        "pre of phi": (lambda phi: mj.pre(x, mp(phi), spec, **how)[0], params.phi),
        "post of layer_output": (lambda y: mj.post(y, state), x[:, 0]),
        "coefficients of x": (lambda x: mj.coefficients(x, params, spec, **how), x),
        "coefficients of bias": (
            lambda b: mj.coefficients(x, mj.Params(params.phi, params.alpha, b), spec, **how),
            params.bias,
        ),
        "apply_pre of x": (lambda x: mj.apply_pre(x, h_pre, spec, **how), x),
        "apply_post of h_res": (
            lambda h: mj.apply_post(x, x[:, 0], h_post, h, spec, **how),
            h_res,
        ),
        "site_state of x": (
            lambda x: mj.post(x[:, 0], mj.site_state(x, h_post, h_res, spec, **how)),
            x,
        ),
        "project_partial of x": (
            lambda x: mj.project_partial(x, params, spec, embedding=4, **how),
            x,
        ),
        "coefficients_from_partials of q": (
            lambda q: mj.coefficients_from_partials(q, squares, params, spec, **how),
            q,
        ),
        "head of x": (lambda x: mj.head(x, hp, spec, **how), x),
        "expand of h": (lambda h: mj.expand(h, 4, **how), x[:, 0]),
        "reduce of x": (lambda x: mj.reduce(x, **how), x),
    }, total


NOT_FOR_KERNELS = {
    "jvp": lambda f, x: jax.jvp(f, (x,), (x,)),
    "jit of jvp": lambda f, x: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x),
    "jvp of jit": lambda f, x: jax.jvp(jax.jit(f), (x,), (x,)),
    "jvp of checkpoint": lambda f, x: jax.jvp(jax.checkpoint(f), (x,), (x,)),
    "jvp of scan": lambda f, x: jax.jvp(
        lambda x: jax.lax.scan(lambda c, v: (c + f(v), None), 0.0, x[None])[0], (x,), (x,)
    ),
    "jvp of vmap": lambda f, x: jax.jvp(jax.vmap(f), (x[None],), (x[None],)),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x),
    "linearize": lambda f, x: jax.linearize(f, x)[1](x),
    "grad of grad": lambda f, x: jax.grad(lambda x: jnp.sum(jax.grad(f)(x) ** 2))(x),
    "hessian": lambda f, x: jax.hessian(f)(x),
    "jacrev of grad": lambda f, x: jax.jacrev(jax.grad(f))(x),
}


@pytest.mark.parametrize("operation", list(operations("kernel")[0]))
def test_one_clear_error_for_what_kernels_cannot_differentiate(operation):
    """Whatever the transformation: never JAX's own error about custom gradients."""
    made, total = operations("kernel")
    f, x = made[operation]
    for name, transformed in NOT_FOR_KERNELS.items():
        with pytest.raises(
            NotImplementedError,
            match=r"^\w+: a kernel has neither forward-mode nor second derivatives.*"
            'implementation="reference"',
        ) as raised:
            transformed(lambda x: total(f(x)), x)
        if "grad" not in name and name != "hessian":  # there an inner operation may come first
            assert str(raised.value).startswith(operation.split()[0] + ":"), name


def test_the_guard_is_gone_where_it_is_differentiated():
    """Nothing is saved twice because of it, and without derivatives it compiles to nothing."""
    x, params, w, g = make(SPEC, (2,), 4, seed=13)
    names = lambda f: {e.primitive.name for e in equations(jax.make_jaxpr(f)(x))}
    f = lambda x: loss(x, params, w, g, SPEC)
    assert "reverse_only" in names(f)
    assert not {"reverse_only", "no_forward_mode"} & names(jax.grad(f))
    text = jax.jit(f).lower(x).as_text()
    assert "reverse_only" not in text and "no_forward_mode" not in text


def test_the_reference_has_them():
    x, params, w, g = make(SPEC, (1,), 2)
    f = lambda x: loss(x, params, w, g, SPEC, "reference")
    assert jax.jit(jax.hessian(f))(x).shape == x.shape * 2
    jax.jvp(f, (x,), (x,))
    jax.linearize(f, x)[1](x)
    assert jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(f)(x) ** 2)))(x).shape == x.shape


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_platforms_without_kernels(platform):
    x, params, w, g = make(SPEC, (2,), 4)
    f = jax.jit(lambda x: site(x, params, w, SPEC))
    with pytest.raises(
        NotImplementedError,
        match=f'platform: expected cpu.*got {platform}.*implementation="reference"',
    ):
        jax.export.export(f, platforms=[platform], disabled_checks=mj.export_checks())(x)
    reference = jax.jit(lambda x: site(x, params, w, SPEC, "reference"))
    jax.export.export(reference, platforms=[platform])(x)


def bad_calls():
    x, params, _, _ = make(mhc.Spec(), (2, 3), 8)
    replace = lambda **k: mj.Params(**{**vars(params), **k})
    spec = mhc.Spec()
    h_post, h_res = jnp.ones((2, 3, 4)), jnp.ones((2, 3, 4, 4))
    state = mj.pre(x, params, spec)[1]
    return {
        r"pre: x: expected shape \[\.\.\., n=4, D\], got \[2, 3, 8\]": lambda: mj.pre(
            x[:, :, 0], params, spec
        ),
        r"pre: x: expected a float type, got int32": lambda: mj.pre(x.astype(int), params, spec),
        r"pre: x: expected an array, got list": lambda: mj.pre([1.0], params, spec),
        r"pre: params.phi: expected shape \[m=24, n=4, D=8\], got \[24, 4, 7\]": lambda: mj.pre(
            x, replace(phi=params.phi[..., :7]), spec
        ),
        r"pre: params.alpha: expected shape \[groups=3\], got \[1\]": lambda: mj.pre(
            x, replace(alpha=params.alpha[:1]), spec
        ),
        r"pre: params.bias: expected shape \[m=24\], got \[23\]": lambda: mj.pre(
            x, replace(bias=params.bias[1:]), spec
        ),
        r"coefficients: params.norm_weight: expected shape \[n=4, D=8\], got \[8\]": lambda: (
            mj.coefficients(x, replace(norm_weight=params.norm_weight[0]), spec)
        ),
        r"pre: spec: expected a mhc_kernels.Spec, got str": lambda: mj.pre(
            x, params, "deepseek_v4"
        ),
        r'pre: implementation: expected "kernel" or "reference", got \'native\'': lambda: mj.pre(
            x, params, spec, implementation="native"
        ),
        r"post: layer_output: expected shape \[2, 3, D=8\], got \[2, 3, 4, 8\]": lambda: mj.post(
            x, state
        ),
        r"post: state: expected a state from pre or site_state, got tuple": lambda: mj.post(
            x[:, :, 0], (x, h_post)
        ),
        r"apply_post: h_res: expected shape \[2, 3, n=4, n_out=4\], got \[2, 3, 4, 5\]": lambda: (
            mj.apply_post(x, x[:, :, 0], h_post, jnp.ones((2, 3, 4, 5)), spec)
        ),
        r"apply_pre: h_pre: expected shape": lambda: mj.apply_pre(x, h_post[0], spec),
        r"site_state: h_post: expected shape": lambda: mj.site_state(
            x, h_post[..., :3], h_res, spec
        ),
        r"project_partial: embedding: expected D of all shards, at least 8, got 4": lambda: (
            mj.project_partial(x, params, spec, embedding=4)
        ),
        r"coefficients_from_partials: embedding: expected D of all shards, since": lambda: (
            mj.coefficients_from_partials(jnp.ones((2, 24)), jnp.ones(2), params, spec)
        ),
        r"coefficients_from_partials: embedding: expected D of all shards, at least 1, got 0": (
            lambda: mj.coefficients_from_partials(
                jnp.ones((2, 24)), jnp.ones(2), params, spec, embedding=0
            )
        ),
        r"coefficients_from_partials: embedding: expected that of sum_squares, 16, or None, got 0": (
            lambda: mj.coefficients_from_partials(
                jnp.ones((2, 24)), mj.SumSquares(jnp.ones(2), 16), params, spec, embedding=0
            )
        ),
        r"coefficients_from_partials: embedding: expected that of sum_squares, 16, or None, got 8": (
            lambda: mj.coefficients_from_partials(
                jnp.ones((2, 24)), mj.SumSquares(jnp.ones(2), 16), params, spec, embedding=8
            )
        ),
        r"project_partial: embedding: expected D of all shards, at least 8, got True": lambda: (
            mj.project_partial(x, params, spec, embedding=True)
        ),
        r"head: params.alpha: expected shape \[groups=1\]": lambda: mj.head(
            x, replace(phi=params.phi[:4], bias=params.bias[:4]), spec
        ),
        r"expand: streams: expected 1 to 16, got 17": lambda: mj.expand(x, 17),
        r'reduce: mode: expected "sum" or "mean", got \'max\'': lambda: mj.reduce(x, mode="max"),
        r"init_params: embedding: expected an integer of at least 1, got 0": lambda: mj.init_params(
            jax.random.key(0), spec, 0
        ),
        r"init_params: embedding: expected an integer of at least 1, got 8.0": lambda: (
            mj.init_params(jax.random.key(0), spec, 8.0)
        ),
        r"init_params: spec: expected a mhc_kernels.Spec, got str": lambda: mj.init_params(
            jax.random.key(0), "liger", 8
        ),
        r"init_params: dtype: expected a float type, got": lambda: mj.init_params(
            jax.random.key(0), spec, 8, dtype=jnp.int32
        ),
        r"Spec: norm_eps: expected a finite number of at least 1.2e-38, got 0": lambda: mhc.Spec(
            norm_eps=0
        ),
        r"Sinkhorn: form: expected .softmax.; .log. is another function": lambda: mhc.Sinkhorn(
            form="log"
        ),
        r"Spec: manifold: expected one of sinkhorn, permutation": lambda: mhc.Spec(
            manifold="circulant"
        ),
    }


BAD = [k for k in bad_calls()]


@pytest.mark.parametrize("message", BAD)
def test_refused_when_traced(message):
    with pytest.raises(ValueError, match=message):
        jax.jit(bad_calls()[message])()


def test_the_library_checks_too():
    """A call that gets past Python's checks is refused by the handler, with the library's
    message."""
    from mhc_kernels.jax import _primitive

    x, params, _, _ = make(mhc.Spec(), (2,), 8)
    bind = lambda x, h: _primitive.bind(
        x,
        h,
        operation="apply_pre",
        inputs=("x", "h_pre"),
        outputs=("layer_input",),
        spec=mhc.Spec(),
        in_place=False,
        extra=(),
    )
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=r"apply_pre: h_pre: expected shape \[T=2, n=4\], got \[2, 3\]",
    ):
        jax.block_until_ready(jax.jit(bind)(x, jnp.ones((2, 3))))
