"""What is saved between forward and backward, what is not computed, and rematerialisation."""

import functools

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import pytest
from jax.ad_checkpoint import checkpoint_name
from support import (
    IMPLEMENTATIONS,
    SPECS,
    assert_close,
    assert_equal,
    equations,
    loss,
    make,
    mhc_calls,
    site,
)

SPEC = SPECS["permutation"]
B, S, N, D, M = 2, 5, 4, 12, 32


def saved_shapes(f, *args):
    """(type, shape) of everything that the backward of f keeps, the arguments among it."""
    _, backward = jax.vjp(f, *args)
    return sorted((v.dtype.name, v.shape) for v in jax.tree.leaves(backward) if hasattr(v, "shape"))


def test_residuals_of_a_site():
    """x, layer_output, z, inv_rms, h_post, h_res at most, and the parameters: nothing else."""
    x, params, w, g = make(SPEC, (B, S), D, jnp.bfloat16, norm_weight=True)
    y = x[:, :, 0]
    got = saved_shapes(lambda x, p, y: mj.post(y, mj.pre(x, p, SPEC)[1]), x, params, y)
    a, f = "bfloat16", "float32"
    assert set(got) <= {
        (a, (B, S, N, D)),
        (a, (B, S, D)),
        (f, (B, S, M)),
        (f, (B, S)),
        (f, (B, S, N)),
        (f, (B, S, N, N)),
        (f, (M, N, D)),
        (f, (3,)),
        (f, (M,)),
        (f, (N, D)),
    }
    # Once each, whatever the number of places that keep them.
    _, backward = jax.vjp(lambda x, p, y: mj.post(y, mj.pre(x, p, SPEC)[1]), x, params, y)
    unique = {
        v.unsafe_buffer_pointer(): v for v in jax.tree.leaves(backward) if hasattr(v, "shape")
    }
    tokens = sum(v.nbytes for v in unique.values() if v.shape[:2] == (B, S))
    assert tokens <= x.nbytes + y.nbytes + B * S * 4 * (M + 1 + N + N * N)


def test_bf16_parameters_are_kept_as_they_are():
    x, params, w, _ = make(SPEC, (B, S), D, jnp.bfloat16, jnp.bfloat16)
    kinds = {
        k
        for k, shape in saved_shapes(lambda p: mj.pre(x, p, SPEC)[0], params)
        if shape == (M, N, D)
    }
    assert kinds == {"bfloat16"}


def calls_of_gradient(argnums, f=loss, **kwargs):
    x, params, w, g = make(SPEC, (B, S), D)
    jaxpr = jax.make_jaxpr(jax.grad(lambda *a: f(*a, SPEC, **kwargs), argnums))(x, params, w, g)
    return {name: (inputs, outputs) for name, inputs, outputs in mhc_calls(jaxpr)}


def test_what_no_one_asks_for_is_not_computed():
    assert calls_of_gradient(0)["pre_backward"][1] == ("d_x",)
    assert calls_of_gradient(1)["pre_backward"][1] == (
        "d_phi",
        "d_alpha",
        "d_bias",
        "d_norm_weight",
    )
    only_w = calls_of_gradient(2)
    assert "pre_backward" not in only_w and only_w["post_backward"][1] == ("d_layer_output",)
    frozen = lambda x, p, w, g, s: loss(
        x, mj.Params(jax.lax.stop_gradient(p.phi), p.alpha, p.bias), w, g, s
    )
    assert calls_of_gradient(1, frozen)["pre_backward"][1] == ("d_alpha", "d_bias")
    unused = lambda x, p, w, g, s: jnp.sum(mj.pre(x, p, s)[0])
    got = calls_of_gradient((0, 1), unused)
    assert "post_backward" not in got
    assert not {"d_h_post", "d_h_res", "d_x_next"} & set(got["pre_backward"][0])
    ignoring = lambda x, p, w, g, s: jnp.sum(
        mj.post(jnp.broadcast_to(w, (B, S, D)), mj.pre(x, p, s)[1]) * g
    )
    assert "d_layer_input" not in calls_of_gradient((0, 1), ignoring)["pre_backward"][0]


def test_the_schedule_is_lazy():
    """post's backward writes no d_x; g itself goes to pre's backward."""
    got = calls_of_gradient((0, 1, 2))
    assert set(got) == {"pre", "post", "post_backward", "pre_backward"}
    assert "d_x" not in got["post_backward"][1] and "d_x_next" in got["pre_backward"][0]


def test_without_gradients_only_what_is_used_is_computed():
    x, params, _, _ = make(SPEC, (B, S), D)
    (call,) = mhc_calls(jax.make_jaxpr(lambda x: mj.pre(x, params, SPEC)[0])(x))
    assert call[2] == ("layer_input", "h_post", "h_res")  # neither z nor inv_rms


# ---- Rematerialisation
# ----------------------------------------------------------------------------

P = jax.checkpoint_policies
POLICIES = {
    "nothing": P.nothing_saveable,
    "everything": P.everything_saveable,
    "dots": P.dots_saveable,
    "checkpoint_dots": P.checkpoint_dots,
    "dots_with_no_batch_dims": P.dots_with_no_batch_dims_saveable,
    "checkpoint_dots_with_no_batch_dims": P.checkpoint_dots_with_no_batch_dims,
    "any_names": P.save_any_names_but_these("mhc_x_next"),
    "anything_except": P.save_anything_except_these_names("mhc_x_next", "mhc_layer_input"),
    "coefficients": P.save_only_these_names("mhc_coefficients"),
    "layer_input": P.save_only_these_names("mhc_layer_input"),
    "x_next": P.save_only_these_names("mhc_x_next"),
    "all_three": P.save_only_these_names("mhc_coefficients", "mhc_layer_input", "mhc_x_next"),
    "from_both": P.save_from_both_policies(
        P.dots_saveable, P.save_only_these_names("mhc_coefficients")
    ),
    "offload": P.save_and_offload_only_these_names(
        names_which_can_be_saved=["mhc_coefficients"],
        names_which_can_be_offloaded=["mhc_layer_input", "mhc_x_next"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "offload_dot": P.offload_dot_with_no_batch_dims("device", "pinned_host"),
}


def two_sites(x, params, w, g, policy, implementation):
    step = functools.partial(site, spec=SPEC, implementation=implementation)
    step = step if policy == "none" else jax.checkpoint(step, policy=POLICIES.get(policy))
    return jnp.sum(step(step(x, params, w), params, w) * g)


@pytest.fixture(scope="module")
def without_remat():
    x, params, w, g = make(SPEC, (B, S), D, seed=1)
    return {
        i: jax.jit(jax.grad(two_sites, (0, 1, 2)), static_argnums=(4, 5))(
            x, params, w, g, "none", i
        )
        for i in IMPLEMENTATIONS
    }


def test_every_policy_of_jax_is_here():
    """Those that make policies are in the table with every name of ours."""
    makers = {
        "save_anything_except_these_names": "anything_except",
        "save_any_names_but_these": "any_names",
        "save_only_these_names": "all_three",
        "save_from_both_policies": "from_both",
        "save_and_offload_only_these_names": "offload",
        "offload_dot_with_no_batch_dims": "offload_dot",
    }
    assert set(makers.values()) <= set(POLICIES)
    names = {n for n in dir(P) if not n.startswith("_") and callable(getattr(P, n))}
    assert all(getattr(P, n) in POLICIES.values() for n in names - set(makers))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("policy", ["default", *POLICIES])
def test_remat_gives_the_same_gradients(policy, implementation, without_remat):
    """To the bit for kernels, where what is made again is the same call."""
    x, params, w, g = make(SPEC, (B, S), D, seed=1)
    got = jax.jit(jax.grad(two_sites, (0, 1, 2)), static_argnums=(4, 5))(
        x, params, w, g, policy, implementation
    )
    if implementation == "kernel":
        assert_equal(got, without_remat["kernel"])
    else:
        assert_close(got, without_remat["reference"], 1e-6)
    other = IMPLEMENTATIONS[implementation == "kernel"]
    assert_close(got, without_remat[other], 5e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_what_is_offloaded_goes_to_host_memory(implementation):
    """The named values and nothing else, each there and back once."""
    x, params, w, g = make(SPEC, (B, S), D, seed=1)

    def moves(policy):
        def both(x, params, w):
            for _ in range(2):
                x = site(x, params, w, SPEC, implementation)
            return x

        step = jax.checkpoint(both, policy=policy)
        f = jax.grad(lambda x, p, w: jnp.sum(step(x, p, w) * g), (0, 1, 2))
        found = {"Host": [], "Device": []}
        for eqn in equations(jax.make_jaxpr(f)(x, params, w)):
            if eqn.primitive.name == "device_put":
                (space,) = eqn.params["devices"]
                found[space.name].append(eqn.invars[0].aval.shape)
                assert ("host" in str(eqn.invars[0].aval)) == (space.name == "Device")
        return sorted(found["Host"]), sorted(found["Device"])

    offload = lambda *names: P.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=list(names),
        offload_src="device",
        offload_dst="pinned_host",
    )
    for names, shapes in (
        (["mhc_layer_input"], [(B, S, D)] * 2),
        (["mhc_x_next"], [(B, S, N, D)]),  # of the first site: the last is the result
        (["mhc_layer_input", "mhc_x_next"], [(B, S, D)] * 2 + [(B, S, N, D)]),
        (["another"], []),
    ):
        assert moves(offload(*names)) == (sorted(shapes), sorted(shapes)), names
    there, back = moves(offload("mhc_coefficients"))
    assert there == back and (B, S, M) in there and (B, S, N, D) not in there
    dots = moves(POLICIES["offload_dot"])
    assert dots[0] == dots[1] and bool(dots[0]) == (implementation == "reference")


def saved_bytes(policy):
    x, params, w, g = make(SPEC, (B, S), D, seed=1)
    step = jax.checkpoint(functools.partial(site, spec=SPEC), policy=POLICIES[policy])
    _, backward = jax.vjp(lambda x: step(x, params, w), x)
    return {v.shape for v in jax.tree.leaves(backward) if hasattr(v, "shape")}


def test_names_are_where_they_should_be():
    """What a policy saves by name is what is kept beside the arguments."""
    arguments = saved_bytes("nothing")
    # h_res is saved only where a true d_x needs it: the lazy schedule makes it again from z.
    assert saved_bytes("coefficients") - arguments == {(B, S, M), (B, S), (B, S, N)}
    assert saved_bytes("layer_input") - arguments == {(B, S, D)}
    # Saved layer_input and coefficients: neither pre nor post runs again in backward.
    x, params, w, g = make(SPEC, (B, S), D, seed=1)

    def calls(policy):
        step = jax.checkpoint(functools.partial(site, spec=SPEC), policy=POLICIES[policy])
        f = jax.value_and_grad(lambda x, p: jnp.sum(step(x, p, w) * g), (0, 1))
        names = [c[0] for c in mhc_calls(jax.make_jaxpr(f)(x, params))]
        return names.count("pre"), names.count("post")

    assert calls("nothing")[0] == 2
    assert calls("all_three") == (1, 1)


def test_a_callers_own_name_works_beside_ours():
    x, params, w, g = make(SPEC, (B, S), D, seed=2)

    def step(x, p, w, i):
        u, state = mj.pre(x, p, SPEC, implementation=i)
        return mj.post(checkpoint_name(jnp.tanh(u * w), "branch"), state)

    def f(i):
        s = jax.checkpoint(
            step, policy=P.save_only_these_names("branch", "mhc_coefficients"), static_argnums=3
        )
        return jax.grad(lambda x, p: jnp.sum(s(x, p, w, i) * g), (0, 1))(x, params)

    assert_close(*(f(i) for i in IMPLEMENTATIONS), 3e-5)
