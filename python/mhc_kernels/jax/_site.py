"""pre and post around a wrapped branch, with the lazy schedule of the gradient.

Between the two travels a state. The cotangent of its x is not d_x but g = d_x_next itself: no
kernel writes sum_j h_res g in post's backward, pre's backward mixes while it has the token in
cache. That is exact because nobody else can read or add to that cotangent, the state being opaque,
and because the mix is linear: two posts on one state add up their g.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from mhc_kernels.jax import _check, _reference
from mhc_kernels.jax._gradient import PARAM_GRADIENTS, asked, given, narrow, values_of
from mhc_kernels.jax._names import COEFFICIENTS, LAYER_INPUT, X_NEXT
from mhc_kernels.jax._params import Params, canonical
from mhc_kernels.jax._primitive import call, lift
from mhc_kernels.jax._reverse_only import reverse_only
from mhc_kernels.spec import Spec

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["_x", "_h_post", "_h_res"],
    meta_fields=["_spec", "_implementation"],
)
@dataclasses.dataclass(frozen=True)
class State:
    """From pre to post. Opaque: a pytree that may cross jit, scan and checkpoint, but whose arrays
    have cotangents of their own kind; only `post` may use them."""

    _x: Array
    _h_post: Array
    _h_res: Array
    _spec: Spec
    _implementation: str

    def __repr__(self) -> str:
        x = self._x  # also a sharding, a spec, or whatever else stands for an array
        shown = f"{x.dtype.name}{list(x.shape)}" if hasattr(x, "dtype") else repr(x)
        return f"State({self._implementation}, {shown})"


def pre(
    x: Array, params: Params, spec: Spec, *, implementation: str = "kernel"
) -> tuple[Array, State]:
    """Gates and the branch's input: layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d].

    x: [..., n, D] of type bf16, f16, f32, or f64 under x64; any leading extents, also 0.
    params: Params, each array in any float type.
    implementation: "kernel", or "reference" for plain jax.numpy.
    Returns layer_input [..., D] in x's type, and the state for `post`.

    Saved for backward: x, z and inv_rms (m + 1 floats per token), beside the parameters. Gradients
    that nobody asks for are not computed. Raises ValueError naming argument, wanted and got, and
    NotImplementedError where jvp or a second derivative of a kernel is asked for.
    Formulas: docs/derivation.md; mHC, arXiv 2512.24880, section 4; mHC-lite, arXiv 2601.05732.

    >>> import jax, jax.numpy as jnp, mhc_kernels as mhc, mhc_kernels.jax as mj
    >>> spec = mhc.Spec(streams=2)
    >>> params = mj.init_params(jax.random.key(0), spec, 8)
    >>> layer_input, state = mj.pre(jnp.ones((3, 5, 2, 8)), params, spec)
    >>> layer_input.shape, mj.post(layer_input, state).shape
    ((3, 5, 8), (3, 5, 2, 8))
    >>> mj.pre(jnp.ones((3, 5, 4, 8)), params, spec)
    Traceback (most recent call last):
    ValueError: pre: x: expected shape [..., n=2, D], got [3, 5, 4, 8]
    """
    _check.site("pre", x, params, spec, implementation)
    x = jnp.asarray(x)
    if implementation == "reference":
        layer_input, h_post, h_res = _reference.pre(x, params, spec)
        return layer_input, State(x, h_post, h_res, spec, implementation)
    x, values = canonical(x, params)
    layer_input, x, h_post, h_res = pre_with_gradient(spec, lazy=True)(x, *values)
    return layer_input, State(x, h_post, h_res, spec, implementation)


def post(layer_output: Array, state: State) -> Array:
    """The next streams: x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j]
    layer_output[t,d].

    layer_output: [..., D] in any float type, rounded to x's type first.
    state: from `pre` or `site_state`, whose implementation it follows. It may be used more than
    once. Returns x_next [..., n, D] in x's type. Outside of a gradient x_next takes x's memory
    where XLA finds that nothing else reads x (donate it, or let it be an inner value).

    Saved for backward: x, layer_output, h_post and, through `pre`, z.
    Raises ValueError naming argument, wanted and got.
    """
    if not isinstance(state, State):
        raise _check.fail("post", "state", "a state from pre or site_state", type(state).__name__)
    x = state._x
    _check.shape("post", "layer_output", layer_output, {"D": x.shape[-1]}, tuple(x.shape[:-2]))
    layer_output = layer_output.astype(x.dtype)
    if state._implementation == "reference":
        return _reference.post(x, layer_output, state._h_post, state._h_res, state._spec)
    values = lift("post", layer_output=layer_output, x=x, h_post=state._h_post, h_res=state._h_res)
    x_next: Array = _post(state._spec)(*values)
    return x_next


def site_state(
    x: Array, h_post: Array, h_res: Array, spec: Spec, *, implementation: str = "kernel"
) -> State:
    """A state for `post` from gates that were made elsewhere, with true gradients for x and the
    gates.

    x: [..., n, D]; h_post: [..., n]; h_res: [..., n, n] as [input, output]; the gates in any float
    type. Raises ValueError naming argument, wanted and got.
    """
    _check.spec("site_state", spec)
    _check.implementation("site_state", implementation)
    _check.streams("site_state", "x", x, spec.streams)
    lead, n = tuple(x.shape[:-2]), spec.streams
    _check.shape("site_state", "h_post", h_post, {"n": n}, lead)
    _check.shape("site_state", "h_res", h_res, {"n": n, "n_out": n}, lead)
    gates = _reference.wide(x)
    h_post, h_res = h_post.astype(gates), h_res.astype(gates)
    if implementation == "kernel":
        x, h_post, h_res = _true_state(spec)(*lift("site_state", x=x, h_post=h_post, h_res=h_res))
    return State(x, h_post, h_res, spec, implementation)


# ---- Custom gradients, one per spec
# ---------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def pre_with_gradient(spec: Spec, lazy: bool) -> Any:
    """(x, phi, alpha, bias, norm_weight) to (layer_input, x, h_post, h_res). The cotangent of the x
    that is handed on is g, to be mixed here, if lazy; else it is what it says, and is added."""
    onward = "d_x_next" if lazy else "d_x_post"

    def run(x: Any, *params: Any, outputs: tuple[str, ...]) -> dict[str, Any]:
        return call(
            "pre",
            dict(zip(("x", "phi", "alpha", "bias", "norm_weight"), (x, *params))),
            outputs,
            spec,
        )

    @jax.custom_vjp
    def f(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        r = run(x, phi, alpha, bias, norm_weight, outputs=("layer_input", "h_post", "h_res"))
        return r["layer_input"], x, r["h_post"], r["h_res"]

    def forward(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        wanted = asked(x=x, phi=phi, alpha=alpha, bias=bias, norm_weight=norm_weight)
        x, *params = values_of((x, phi, alpha, bias, norm_weight))
        r = run(x, *params, outputs=("layer_input", "z", "inv_rms", "h_post", "h_res"))
        layer_input = checkpoint_name(r.pop("layer_input"), LAYER_INPUT)
        r = {name: checkpoint_name(value, COEFFICIENTS) for name, value in r.items()}
        return (layer_input, x, r["h_post"], r["h_res"]), (wanted, x, params, r["z"], r["inv_rms"])

    def backward(saved: Any, cotangents: Any) -> Any:
        wanted, x, params, z, inv_rms = saved
        d_layer_input, g, d_h_post, d_h_res = map(given, cotangents)
        phi, alpha, bias, norm_weight = params
        operands = dict(
            x=x,
            phi=phi,
            alpha=alpha,
            bias=bias,
            norm_weight=norm_weight,
            z=z,
            inv_rms=inv_rms,
            d_layer_input=d_layer_input,
            d_h_post=d_h_post,
            d_h_res=d_h_res,
            **{onward: g},
        )
        r = call("pre_backward", operands, wanted.names, spec, in_place=True)
        return narrow(r, ("d_x", x), *zip(PARAM_GRADIENTS, params))

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("pre", f)


@functools.lru_cache(maxsize=None)
def _post(spec: Spec) -> Any:
    def run(layer_output: Any, x: Any, h_post: Any, h_res: Any, *, in_place: bool) -> Any:
        operands = dict(x=x, layer_output=layer_output, h_post=h_post, h_res=h_res)
        return call("post", operands, ("x_next",), spec, in_place=in_place)["x_next"]

    @jax.custom_vjp
    def f(layer_output: Any, x: Any, h_post: Any, h_res: Any) -> Any:
        return run(layer_output, x, h_post, h_res, in_place=True)

    def forward(layer_output: Any, x: Any, h_post: Any, h_res: Any) -> Any:
        wanted = asked(layer_output=layer_output, x=x, h_post=h_post, h_res=h_res)
        values = values_of((layer_output, x, h_post, h_res))
        # Here x is saved, so that writing over it would make XLA copy it first.
        x_next = checkpoint_name(run(*values, in_place=False), X_NEXT)
        needs = {"d_h_post": 0, "d_h_res": 1, "d_layer_output": 2}
        saved: list[Any] = [None, None, None]
        for name, k in needs.items():
            if name in wanted.names:
                saved[k] = values[k]
        return x_next, (wanted, *saved)

    def backward(saved: Any, g: Any) -> Any:
        wanted, layer_output, x, h_post = saved
        g = given(g)
        if g is None:
            return None, None, None, None
        operands = dict(d_x_next=g, x=x, layer_output=layer_output, h_post=h_post)
        names = tuple(n for n in wanted.names if n != "d_x")
        r = call("post_backward", operands, names, spec)
        lazy = g if "d_x" in wanted.names else None
        return r.get("d_layer_output"), lazy, r.get("d_h_post"), r.get("d_h_res")

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("post", f)


@functools.lru_cache(maxsize=None)
def _true_state(spec: Spec) -> Any:
    """The identity, in whose backward g becomes d_x = sum_j h_res g."""

    @jax.custom_vjp
    def f(x: Any, h_post: Any, h_res: Any) -> Any:
        return x, h_post, h_res

    def forward(x: Any, h_post: Any, h_res: Any) -> Any:
        wanted = asked(x=x)
        values = values_of((x, h_post, h_res))
        return values, (wanted, values[2] if wanted.names else None)

    def backward(saved: Any, cotangents: Any) -> Any:
        wanted, h_res = saved
        g, d_h_post, d_h_res = map(given, cotangents)
        d_x = None
        if g is not None and wanted.names:
            d_x = call("post_backward", dict(d_x_next=g, h_res=h_res), ("d_x",), spec)["d_x"]
        return d_x, d_h_post, d_h_res

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("site_state", f)
