"""The feature dimension sharded over devices (tensor parallel).

Each device has some of the D features of every stream, and phi and norm_weight on the same
features:

    q, sum_squares = mj.project_partial(x, params, spec, embedding=D_global)
    q, sum_squares = jax.lax.psum((q, sum_squares), "tensor")     # m + 1 numbers per token
    h_pre, h_post, h_res = mj.coefficients_from_partials(q, sum_squares, params, spec)
    layer_input = mj.apply_pre(x, h_pre, spec)                    # local, like apply_post

In backward the parts of d_h_* are summed over the devices before the gates' backward; d_alpha and
d_bias are then total, and d_x and d_phi stay local. Inside a shard_map JAX inserts these sums
itself.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from mhc_kernels._numbers import whole
from mhc_kernels.jax import _check, _reference
from mhc_kernels.jax._gradient import asked, given, narrow, values_of
from mhc_kernels.jax._names import COEFFICIENTS
from mhc_kernels.jax._params import Params, in_kernel_types
from mhc_kernels.jax._primitive import call, lift, varying_axes
from mhc_kernels.jax._reverse_only import reverse_only
from mhc_kernels.spec import Spec

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["value"], meta_fields=["embedding"]
)
@dataclasses.dataclass(frozen=True)
class SumSquares:
    """sum_{i,d} x[t,i,d]^2, [...], with the D of all shards together, which a mean needs. A pytree:
    `jax.lax.psum` and shard_map take it like an array; `.value` is the array."""

    value: Array
    embedding: int

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    ndim = property(lambda self: self.value.ndim)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value.__array__(*args, **kwargs)

    def __jax_array__(self) -> Array:
        return self.value


def project_partial(
    x: Array, params: Params, spec: Spec, *, embedding: int, implementation: str = "kernel"
) -> tuple[Array, SumSquares]:
    """This shard's part of the projection, to be added up over the shards.

    x: [..., n, D_local]; params: Params, of which phi [m, n, D_local] and norm_weight [n, D_local]
      are read.
    embedding: D of all shards together. Returns q [..., m] and sum_squares [...], float32 (float64
      when x is).

        q[t,c] = sum_{i,d} phi[c,i,d] norm_weight[i,d] x[t,i,d];  sum_squares[t] = sum_{i,d}
        x[t,i,d]^2

    Saved for backward: x. Raises ValueError naming argument, wanted and got.
    """
    _check.site("project_partial", x, params, spec, implementation)
    embedding = _embedding("project_partial", embedding, x.shape[-1])
    if implementation == "reference":
        q, sum_squares = _reference.project(x, params.phi, params.norm_weight, spec)
        return q, SumSquares(sum_squares, embedding)
    phi, norm_weight = in_kernel_types(x, (params.phi, params.norm_weight), varying_axes(x, params))
    values = lift("project_partial", x=x, phi=phi, norm_weight=norm_weight)
    q, sum_squares = _project(spec)(*values)
    return q, SumSquares(sum_squares, embedding)


def coefficients_from_partials(
    q: Array,
    sum_squares: SumSquares | Array,
    params: Params,
    spec: Spec,
    *,
    embedding: int | None = None,
    implementation: str = "kernel",
) -> tuple[Array, Array, Array]:
    """The gates from the projection of all features.

    q: [..., m] and sum_squares: [...], each summed over the shards; params: alpha and bias are
      read.
    embedding: D of all shards together; needed only where sum_squares has become a plain array,
      and no other than its own where it has not.
    Returns h_pre [..., n], h_post [..., n], h_res [..., n, n] in q's type.
    Saved for backward: z, inv_rms, sum_squares. Raises ValueError naming argument, wanted and got.
    """
    operation = "coefficients_from_partials"
    _check.spec(operation, spec)
    _check.implementation(operation, implementation)
    if isinstance(sum_squares, SumSquares):
        if embedding is not None and embedding != sum_squares.embedding:
            wanted = f"that of sum_squares, {sum_squares.embedding}, or None"
            raise _check.fail(operation, "embedding", wanted, repr(embedding))
        embedding, sum_squares = sum_squares.embedding, sum_squares.value
    if embedding is None:
        raise _check.fail(
            operation, "embedding", "D of all shards, since sum_squares is a plain array", None
        )
    embedding = _embedding(operation, embedding, 1)
    _check.floating(operation, "q", q)
    _check.shape(operation, "q", q, {"m": spec.coefficients}, tuple(q.shape[:-1]))
    _check.shape(operation, "sum_squares", sum_squares, {}, tuple(q.shape[:-1]))
    alpha, bias = (getattr(params, name, None) for name in ("alpha", "bias"))
    _check.shape(operation, "params.alpha", alpha, {"groups": 3})
    _check.shape(operation, "params.bias", bias, {"m": spec.coefficients})
    kind = _reference.wide(q)
    q, sum_squares = q.astype(kind), sum_squares.astype(kind)
    if implementation == "reference":
        return _reference.gates(
            q, sum_squares, params.alpha, params.bias, spec.streams * embedding, spec
        )
    alpha, bias = in_kernel_types(
        q, (params.alpha, params.bias), varying_axes(q, sum_squares, params)
    )
    values = lift(operation, q=q, sum_squares=sum_squares, alpha=alpha, bias=bias)
    return _from_partials(spec, embedding)(*values)  # type: ignore[no-any-return]


def _embedding(operation: str, value: Any, least: int) -> int:
    number = whole(value, least)
    if number is None:
        wanted = f"D of all shards, at least {least}"
        raise _check.fail(operation, "embedding", wanted, repr(value))
    return number


@functools.lru_cache(maxsize=None)
def _project(spec: Spec) -> Any:
    outputs = ("q", "sum_squares")

    def run(x: Any, phi: Any, norm_weight: Any) -> Any:
        r = call("project_partial", dict(x=x, phi=phi, norm_weight=norm_weight), outputs, spec)
        return r["q"], r["sum_squares"]

    f = jax.custom_vjp(run)

    def forward(x: Any, phi: Any, norm_weight: Any) -> Any:
        wanted = asked(x=x, phi=phi, norm_weight=norm_weight)
        values = values_of((x, phi, norm_weight))
        return run(*values), (wanted, values)

    def backward(saved: Any, cotangents: Any) -> Any:
        wanted, (x, phi, norm_weight) = saved
        d_q, d_sum_squares = map(given, cotangents)
        if d_q is None:
            d_q = jnp.zeros((*x.shape[:-2], spec.coefficients), _reference.wide(x))
        operands = dict(x=x, phi=phi, norm_weight=norm_weight, d_q=d_q, d_sum_squares=d_sum_squares)
        r = call("project_partial_backward", operands, wanted.names, spec)
        return narrow(r, ("d_x", x), ("d_phi", phi), ("d_norm_weight", norm_weight))

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("project_partial", f)


@functools.lru_cache(maxsize=None)
def _from_partials(spec: Spec, embedding: int) -> Any:
    names = ("q", "sum_squares", "alpha", "bias")
    gates = ("h_pre", "h_post", "h_res")

    def run(values: Any, outputs: tuple[str, ...]) -> dict[str, Any]:
        return call(
            "coefficients_from_partials",
            dict(zip(names, values)),
            outputs,
            spec,
            embedding_total=embedding,
        )

    @jax.custom_vjp
    def f(q: Any, sum_squares: Any, alpha: Any, bias: Any) -> Any:
        r = run((q, sum_squares, alpha, bias), gates)
        return tuple(r[g] for g in gates)

    def forward(q: Any, sum_squares: Any, alpha: Any, bias: Any) -> Any:
        wanted = asked(q=q, sum_squares=sum_squares, alpha=alpha, bias=bias)
        values = values_of((q, sum_squares, alpha, bias))
        r = run(values, ("z", "inv_rms", *gates))
        r = {name: checkpoint_name(value, COEFFICIENTS) for name, value in r.items()}
        return tuple(r[g] for g in gates), (wanted, r["z"], r["inv_rms"], *values[1:])

    def backward(saved: Any, cotangents: Any) -> Any:
        wanted, z, inv_rms, sum_squares, alpha, bias = saved
        d_gates = dict(zip(("d_h_pre", "d_h_post", "d_h_res"), map(given, cotangents)))
        operands = dict(
            z=z, inv_rms=inv_rms, sum_squares=sum_squares, alpha=alpha, bias=bias, **d_gates
        )
        r = call(
            "coefficients_from_partials_backward",
            operands,
            wanted.names,
            spec,
            embedding_total=embedding,
        )
        return (
            r.get("d_q"),
            r.get("d_sum_squares"),
            *narrow(r, ("d_alpha", alpha), ("d_bias", bias)),
        )

    f.defvjp(forward, backward, symbolic_zeros=True)
    return reverse_only("coefficients_from_partials", f)
