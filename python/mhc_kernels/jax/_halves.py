"""Coefficients alone, and the two halves with given gates: everything public, so all cotangents are
true ones."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name

from mhc_kernels.jax import _check, _reference
from mhc_kernels.jax._gradient import PARAM_GRADIENTS, asked, given, narrow, values_of
from mhc_kernels.jax._names import COEFFICIENTS, LAYER_INPUT, X_NEXT
from mhc_kernels.jax._params import Params, canonical
from mhc_kernels.jax._primitive import call, lift
from mhc_kernels.jax._reverse_only import reverse_only
from mhc_kernels.spec import Spec

Array = jax.Array


def coefficients(
    x: Array, params: Params, spec: Spec, *, implementation: str = "kernel"
) -> tuple[Array, Array, Array]:
    """The gates of every token, for use elsewhere.

    x: [..., n, D]; params: Params. Returns h_pre [..., n], h_post [..., n] and h_res [..., n, n] as
    [input, output], in float32 (float64 when x is), never rounded.
    Saved for backward: x, z and inv_rms. Raises ValueError naming argument, wanted and got.
    Formulas: docs/derivation.md.

    >>> import jax, jax.numpy as jnp, mhc_kernels as mhc, mhc_kernels.jax as mj
    >>> spec = mhc.Spec(manifold="identity")
    >>> params = mj.init_params(jax.random.key(0), spec, 8)
    >>> h_pre, h_post, h_res = mj.coefficients(jnp.ones((2, 4, 8)), params, spec)
    >>> float(h_res[1, 2, 2]), h_post.shape
    (1.0, (2, 4))
    """
    _check.site("coefficients", x, params, spec, implementation)
    if implementation == "reference":
        return _reference.coefficients(x, params, spec)
    x, values = canonical(x, params, "coefficients")
    return _coefficients(spec)(x, *values)  # type: ignore[no-any-return]


def apply_pre(x: Array, h_pre: Array, spec: Spec, *, implementation: str = "kernel") -> Array:
    """layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d], [..., D] in x's type.

    x: [..., n, D]; h_pre: [..., n] in any float type. Saved: both, as far as a gradient needs them.
    Raises ValueError naming argument, wanted and got.
    """
    _check.spec("apply_pre", spec)
    _check.implementation("apply_pre", implementation)
    _check.streams("apply_pre", "x", x, spec.streams)
    _check.shape("apply_pre", "h_pre", h_pre, {"n": spec.streams}, tuple(x.shape[:-2]))
    h_pre = h_pre.astype(_reference.wide(x))
    if implementation == "reference":
        return _reference.apply_pre(x, h_pre, spec)
    return _apply_pre(spec)(*lift("apply_pre", x=x, h_pre=h_pre))  # type: ignore[no-any-return]


def apply_post(
    x: Array,
    layer_output: Array,
    h_post: Array,
    h_res: Array,
    spec: Spec,
    *,
    implementation: str = "kernel",
) -> Array:
    """x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d], [..., n, D] in
    x's type.

    x: [..., n, D]; layer_output: [..., D]; h_post: [..., n]; h_res: [..., n, n] as [input, output];
    all but x in any float type. Saved: all four, as far as a gradient needs them. Raises ValueError
    naming argument, wanted and got.
    """
    _check.spec("apply_post", spec)
    _check.implementation("apply_post", implementation)
    _check.streams("apply_post", "x", x, spec.streams)
    lead, n = tuple(x.shape[:-2]), spec.streams
    _check.shape("apply_post", "layer_output", layer_output, {"D": x.shape[-1]}, lead)
    _check.shape("apply_post", "h_post", h_post, {"n": n}, lead)
    _check.shape("apply_post", "h_res", h_res, {"n": n, "n_out": n}, lead)
    gates = _reference.wide(x)
    layer_output = layer_output.astype(x.dtype)
    h_post, h_res = h_post.astype(gates), h_res.astype(gates)
    if implementation == "reference":
        return _reference.post(x, layer_output, h_post, h_res, spec)
    values = lift("apply_post", x=x, layer_output=layer_output, h_post=h_post, h_res=h_res)
    return _apply_post(spec)(*values)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=None)
def _coefficients(spec: Spec) -> Any:
    names = ("x", "phi", "alpha", "bias", "norm_weight")
    gates = ("h_pre", "h_post", "h_res")

    @jax.custom_vjp
    def f(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        r = call("coefficients", dict(zip(names, (x, phi, alpha, bias, norm_weight))), gates, spec)
        return tuple(r[g] for g in gates)

    def forward(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        wanted = asked(x=x, phi=phi, alpha=alpha, bias=bias, norm_weight=norm_weight)
        x, *params = values_of((x, phi, alpha, bias, norm_weight))
        r = call("coefficients", dict(zip(names, (x, *params))), ("z", "inv_rms", *gates), spec)
        r = {name: checkpoint_name(value, COEFFICIENTS) for name, value in r.items()}
        return tuple(r[g] for g in gates), (wanted, x, params, r["z"], r["inv_rms"])

    def backward(saved: Any, cotangents: Any) -> Any:
        wanted, x, params, z, inv_rms = saved
        d_gates = dict(zip(("d_h_pre", "d_h_post", "d_h_res"), map(given, cotangents)))
        operands = {**dict(zip(names, (x, *params))), "z": z, "inv_rms": inv_rms, **d_gates}
        r = call("coefficients_backward", operands, wanted.names, spec)
        return narrow(r, ("d_x", x), *zip(PARAM_GRADIENTS, params))

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("coefficients", f)


@functools.lru_cache(maxsize=None)
def _apply_pre(spec: Spec) -> Any:
    def run(x: Any, h_pre: Any) -> Any:
        return call("apply_pre", dict(x=x, h_pre=h_pre), ("layer_input",), spec)["layer_input"]

    f = jax.custom_vjp(run)

    def forward(x: Any, h_pre: Any) -> Any:
        wanted = asked(x=x, h_pre=h_pre)
        x, h_pre = values_of((x, h_pre))
        layer_input = checkpoint_name(run(x, h_pre), LAYER_INPUT)
        return layer_input, (
            wanted,
            x if "d_h_pre" in wanted.names else None,
            h_pre if "d_x" in wanted.names else None,
        )

    def backward(saved: Any, d_layer_input: Any) -> Any:
        wanted, x, h_pre = saved
        if given(d_layer_input) is None:
            return None, None
        r = call(
            "apply_pre_backward",
            dict(d_layer_input=d_layer_input, x=x, h_pre=h_pre),
            wanted.names,
            spec,
        )
        return r.get("d_x"), r.get("d_h_pre")

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("apply_pre", f)


@functools.lru_cache(maxsize=None)
def _apply_post(spec: Spec) -> Any:
    names = ("x", "layer_output", "h_post", "h_res")
    # Which operand each gradient needs beside g.
    needs = {"d_x": "h_res", "d_layer_output": "h_post", "d_h_post": "layer_output", "d_h_res": "x"}

    def run(values: Any, in_place: bool) -> Any:
        return call("post", dict(zip(names, values)), ("x_next",), spec, in_place=in_place)[
            "x_next"
        ]

    @jax.custom_vjp
    def f(x: Any, layer_output: Any, h_post: Any, h_res: Any) -> Any:
        return run((x, layer_output, h_post, h_res), in_place=True)

    def forward(x: Any, layer_output: Any, h_post: Any, h_res: Any) -> Any:
        wanted = asked(x=x, layer_output=layer_output, h_post=h_post, h_res=h_res)
        values = values_of((x, layer_output, h_post, h_res))
        needed = {needs[name] for name in wanted.names}
        saved = {n: v for n, v in zip(names, values) if n in needed}
        return checkpoint_name(run(values, in_place=False), X_NEXT), (wanted, saved)

    def backward(saved: Any, g: Any) -> Any:
        wanted, values = saved
        if given(g) is None:
            return (None,) * 4
        r = call("post_backward", {"d_x_next": g, **values}, wanted.names, spec)
        return tuple(r.get(f"d_{name}") for name in names)

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("apply_post", f)
