"""Around the stack: expand the embedding into n streams, and reduce them again, plainly or by a
learned head."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from mhc_kernels._numbers import whole
from mhc_kernels.jax import _check, _reference
from mhc_kernels.jax._gradient import PARAM_GRADIENTS, asked, given, narrow, values_of
from mhc_kernels.jax._names import COEFFICIENTS
from mhc_kernels.jax._params import HeadParams, canonical
from mhc_kernels.jax._primitive import call, lift
from mhc_kernels.jax._reverse_only import reverse_only
from mhc_kernels.spec import Spec

Array = jax.Array

_MODES = {"sum": 0, "mean": 1}


def head(x: Array, params: HeadParams, spec: Spec, *, implementation: str = "kernel") -> Array:
    """The learned reduction: out[t,d] = sum_i (sigmoid(alpha z + bias) + pre_eps)[t,i] x[t,i,d].

    x: [..., n, D]; params: HeadParams with phi [n, n, D], alpha [1], bias [n], norm_weight [n, D]
      or None.
    Returns [..., D] in x's type. Saved for backward: x, z and inv_rms.
    Raises ValueError naming argument, wanted and got. Formula: docs/derivation.md.
    """
    _check.spec("head", spec)
    _check.implementation("head", implementation)
    _check.streams("head", "x", x, spec.streams)
    _check.params("head", params, spec.streams, spec.streams, 1, x.shape[-1])
    if implementation == "reference":
        return _reference.head(x, params, spec)
    x, values = canonical(x, params, "head")
    return _head(spec)(x, *values)  # type: ignore[no-any-return]


def expand(h: Array, streams: int, *, implementation: str = "kernel") -> Array:
    """x[t,i,d] = h[t,d]: [..., D] to [..., n, D], for 1 <= n <= 16. Nothing is saved.

    Every first site after it has equal streams, whose res gradients are zero. Raises ValueError.

    >>> import jax.numpy as jnp, mhc_kernels.jax as mj
    >>> mj.reduce(mj.expand(jnp.ones((2, 8)), 4), mode="mean").shape
    (2, 8)
    """
    _check.implementation("expand", implementation)
    _check.activation("expand", "h", h)
    if len(h.shape) < 1 or h.shape[-1] < 1:
        raise _check.fail("expand", "h", "shape [..., D]", list(h.shape))
    copies = whole(streams, 1, 16)
    if copies is None:
        raise _check.fail("expand", "streams", "1 to 16", repr(streams))
    if implementation == "reference":
        return jnp.broadcast_to(h[..., None, :], (*h.shape[:-1], copies, h.shape[-1]))
    return _expand(copies)(*lift("expand", h=h))  # type: ignore[no-any-return]


def reduce(x: Array, mode: str = "sum", *, implementation: str = "kernel") -> Array:
    """out[t,d] = sum_i x[t,i,d] (mode "sum") or its n-th (mode "mean"): [..., n, D] to [..., D].
    Nothing is saved."""
    _check.implementation("reduce", implementation)
    _check.activation("reduce", "x", x)
    if mode not in _MODES:
        raise _check.fail("reduce", "mode", '"sum" or "mean"', repr(mode))
    if len(x.shape) < 2 or not 1 <= x.shape[-2] <= 16 or x.shape[-1] < 1:
        raise _check.fail("reduce", "x", "shape [..., n, D] with n from 1 to 16", list(x.shape))
    if implementation == "reference":
        total = jnp.sum(x, axis=-2, dtype=_reference.wide(x))
        return (total if mode == "sum" else total / x.shape[-2]).astype(x.dtype)
    return _reduce(_MODES[mode], x.shape[-2])(*lift("reduce", x=x))  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=None)
def _head(spec: Spec) -> Any:
    names = ("x", "phi", "alpha", "bias", "norm_weight")

    @jax.custom_vjp
    def f(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        return call("head", dict(zip(names, (x, phi, alpha, bias, norm_weight))), ("out",), spec)[
            "out"
        ]

    def forward(x: Any, phi: Any, alpha: Any, bias: Any, norm_weight: Any) -> Any:
        wanted = asked(x=x, phi=phi, alpha=alpha, bias=bias, norm_weight=norm_weight)
        values = values_of((x, phi, alpha, bias, norm_weight))
        r = call("head", dict(zip(names, values)), ("out", "z", "inv_rms"), spec)
        saved = (checkpoint_name(r[name], COEFFICIENTS) for name in ("z", "inv_rms"))
        return r["out"], (wanted, values, *saved)

    def backward(saved: Any, d_out: Any) -> Any:
        wanted, values, z, inv_rms = saved
        if given(d_out) is None:
            return (None,) * 5
        operands = {**dict(zip(names, values)), "z": z, "inv_rms": inv_rms, "d_out": d_out}
        r = call("head_backward", operands, wanted.names, spec)
        return narrow(r, ("d_x", values[0]), *zip(PARAM_GRADIENTS, values[1:]))

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("head", f)


@functools.lru_cache(maxsize=None)
def _expand(streams: int) -> Any:
    def run(h: Any) -> Any:
        return call("expand", dict(h=h), ("x",), copies=streams)["x"]

    f = jax.custom_vjp(run)
    f.defvjp(
        lambda h: (run(h), None),
        lambda _, d_x: (call("expand_backward", dict(d_x=d_x), ("d_h",))["d_h"],),
    )
    return reverse_only("expand", f)


@functools.lru_cache(maxsize=None)
def _reduce(mode: int, streams: int) -> Any:
    def run(x: Any) -> Any:
        return call("reduce", dict(x=x), ("out",), mode=mode)["out"]

    def backward(_: Any, d_out: Any) -> Any:
        return (
            call("reduce_backward", dict(d_out=d_out), ("d_x",), mode=mode, copies=streams)["d_x"],
        )

    f = jax.custom_vjp(run)
    f.defvjp(lambda x: (run(x), None), backward)
    return reverse_only("reduce", f)
