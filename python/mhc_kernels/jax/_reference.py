"""The operations in plain jax.numpy: the same conventions, differentiated by JAX, on any platform.

Written to be read, and to be a fair comparison: x is read in its own type and projected before it
is scaled, gates are float32 (float64 when x is), and x_next is one contraction. Products whose
gradient is a sum over features are contractions too, which XLA runs several times faster than a
product and a sum. Indices: t tokens (here the leading extents), i input stream, j output stream,
d feature, c coefficient.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from mhc_kernels.jax._names import COEFFICIENTS, LAYER_INPUT, X_NEXT
from mhc_kernels.manifolds import Sinkhorn
from mhc_kernels.spec import Spec

Array = jax.Array


def wide(x: Array) -> Any:
    """The type of gates, sums and gradients of parameters."""
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def contract(subscripts: str, a: Array, b: Array) -> Array:
    """An einsum that multiplies in the type of its operands: accelerators would otherwise round
    float32 to bf16 or TF32 first, in the gradients too."""
    return jnp.einsum(subscripts, a, b, precision=jax.lax.Precision.HIGHEST)


# ---- Roundings
# ------------------------------------------------------------------------------------


@jax.custom_jvp
def _round_bf16(v: Array) -> Array:
    return v.astype(jnp.bfloat16).astype(v.dtype)


@_round_bf16.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _round_bf16(*primals), tangents[0]  # the rounding counts as the identity


def _rounded_gate(h: Array, precision: str, x: Array) -> Array:
    """A gate as it multiplies: rounded to x's type, or not. Its gradient is not rounded."""
    if precision == "float32" or x.dtype == h.dtype:
        return h
    return h + jax.lax.stop_gradient(h.astype(x.dtype).astype(h.dtype) - h)


@jax.custom_vjp
def _scale_rounded(q: Array, inv_rms: Array) -> Array:
    return q * inv_rms[..., None]


def _scale_rounded_backward(saved: Any, d_z: Array) -> Any:
    q, inv_rms = saved
    d_q = _round_bf16(inv_rms[..., None] * d_z)  # once, and that value in every term
    return d_q, jnp.sum(d_q * q, axis=-1) / inv_rms


_scale_rounded.defvjp(
    lambda q, inv_rms: (_scale_rounded(q, inv_rms), (q, inv_rms)), _scale_rounded_backward
)


def scale(q: Array, inv_rms: Array, spec: Spec) -> Array:
    """z = q inv_rms."""
    return (
        _scale_rounded(q, inv_rms)
        if spec.gradient_precision == "bfloat16"
        else q * inv_rms[..., None]
    )


# ---- Steps whose usual derivatives lose everything where a gate saturates (docs/derivation.md)
# ---------------------------------------------------------------------------------------


@jax.custom_jvp
def sigmoid(logit: Array) -> Array:
    return jax.nn.sigmoid(logit)


@sigmoid.defjvp
def _(primals: Any, tangents: Any) -> Any:
    e = jnp.exp(-jnp.abs(primals[0]))  # s (1 - s) is zero from a logit of 17 on, this is not
    return sigmoid(*primals), tangents[0] * (e / jnp.square(1.0 + e))


def _leave_to_largest(tangent: Array, y: Array, axis: int, total: Array | float = 0.0) -> Array:
    """The same but for the entry where y is largest, which becomes what the others leave of the sum
    `total` along the axis: by itself it would be a difference of large numbers."""
    places = jax.lax.broadcasted_iota(jnp.int32, y.shape, y.ndim + axis)
    largest = places == jnp.argmax(y, axis=axis, keepdims=True)
    others = jnp.sum(jnp.where(largest, 0.0, tangent), axis=axis, keepdims=True)
    return jnp.where(largest, total - others, tangent)


@jax.custom_jvp
def softmax(logits: Array) -> Array:
    """Along the last axis."""
    return jax.nn.softmax(logits, axis=-1)


@softmax.defjvp
def _(primals: Any, tangents: Any) -> Any:
    y, (t,) = softmax(*primals), tangents
    s = y * t - y * jnp.sum(y * t, axis=-1, keepdims=True)
    return y, _leave_to_largest(s, y, -1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def divided(c: Array, axis: int, eps: float) -> Array:
    """c by its sum along the axis plus eps."""
    return c / (jnp.sum(c, axis=axis, keepdims=True) + eps)


@divided.defjvp
def _(axis: int, eps: float, primals: Any, tangents: Any) -> Any:
    (c,), (t,) = primals, tangents
    d = jnp.sum(c, axis=axis, keepdims=True) + eps
    y, w = c / d, t / d
    total = jnp.sum(w, axis=axis, keepdims=True)
    return y, _leave_to_largest(w - y * total, y, axis, total * (eps / d))


# ---- Gates
# ----------------------------------------------------------------------------------------


def project(x: Array, phi: Array, norm_weight: Array | None, spec: Spec) -> tuple[Array, Array]:
    """q[t,c] = sum_{i,d} phi_eff[c,i,d] x[t,i,d] and sum_squares[t]; x is never normalised in
    memory."""
    kind = wide(x)
    phi_eff = (
        phi.astype(kind) if norm_weight is None else phi.astype(kind) * norm_weight.astype(kind)
    )
    if spec.phi_precision == "bfloat16":
        phi_eff = _round_bf16(phi_eff)
    q = contract("...id,cid->...c", x.astype(kind), phi_eff)
    return q, jnp.sum(jnp.square(x.astype(kind)), axis=(-2, -1))


def inv_rms_of(sum_squares: Array, count: int, spec: Spec) -> Array:
    """1/sqrt(ms + eps) or 1/(sqrt(ms) + eps); the mean is over all n*D features of the token. NaN
    where the sum has left the type's range: with 0 the gates would be finite and wrong."""
    mean = jnp.where(jnp.isinf(sum_squares), jnp.nan, sum_squares) / count
    if spec.norm_form == "inside":
        return jax.lax.rsqrt(mean + spec.norm_eps)
    nonzero = mean > 0  # the square root has no derivative at 0, where that of the norm term is 0
    root = jnp.sqrt(jnp.where(nonzero, mean, 1.0))
    return 1.0 / (jnp.where(nonzero, root, 0.0) + spec.norm_eps)


def _named_z(q: Array, sum_squares: Array, count: int, spec: Spec) -> Array:
    """z, made of what policies of jax.checkpoint can keep."""
    q, inv_rms = checkpoint_name((q, inv_rms_of(sum_squares, count, spec)), COEFFICIENTS)
    return scale(q, inv_rms, spec)


def gates(
    q: Array, sum_squares: Array, alpha: Array, bias: Array, count: int, spec: Spec
) -> tuple[Array, Array, Array]:
    """h_pre, h_post, h_res from the projection on."""
    n, kind = spec.streams, q.dtype
    z = _named_z(q, sum_squares, count, spec)
    groups = np.repeat([0, 1, 2], [n, n, spec.logits])
    logit = alpha.astype(kind)[groups] * z + bias.astype(kind)
    h_pre = sigmoid(logit[..., :n]) + spec.pre_eps
    h_post = spec.post_mult * sigmoid(logit[..., n : 2 * n])
    h_res = manifold(logit[..., 2 * n :], spec)
    if spec.matrix_order == "output_input":
        h_res = jnp.swapaxes(h_res, -1, -2)
    named = functools.partial(checkpoint_name, name=COEFFICIENTS)
    return named(h_pre), named(h_post), named(h_res)


def manifold(logits: Array, spec: Spec) -> Array:
    """M(logits), rows as spec.matrix_order says."""
    n, m = spec.streams, spec.manifold
    if m.name == "identity":
        return jnp.broadcast_to(jnp.eye(n, dtype=logits.dtype), (*logits.shape[:-1], n, n))
    if m.name == "permutation":
        perms = np.array(list(itertools.permutations(range(n))))
        matrices = np.eye(n)[perms].astype(logits.dtype)  # [n!, i, j], 1 where j = perm[i]
        return contract("...p,pij->...ij", softmax(logits), matrices)
    square = logits.reshape(*logits.shape[:-1], n, n)
    return sinkhorn(square, m.iterations, m.eps) if isinstance(m, Sinkhorn) else square


def sinkhorn(logits: Array, iterations: int, eps: float) -> Array:
    """Softmax of the rows, then columns and rows divided by their sums in turn; eps in every
    divisor."""

    def step(c: Array, _: None) -> tuple[Array, None]:
        return divided(divided(c, -1, eps), -2, eps), None

    c = divided(softmax(logits) + eps, -2, eps)
    # A loop: unrolled it compiles for many seconds.
    return jax.lax.scan(step, c, None, length=iterations - 1)[0]


def coefficients(x: Array, params: Any, spec: Spec) -> tuple[Array, Array, Array]:
    q, sum_squares = project(x, params.phi, params.norm_weight, spec)
    return gates(q, sum_squares, params.alpha, params.bias, x.shape[-2] * x.shape[-1], spec)


# ---- A site
# ---------------------------------------------------------------------------------------


def apply_pre(x: Array, h_pre: Array, spec: Spec) -> Array:
    """layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d]"""
    layer_input: Array = checkpoint_name(_collapse(x, h_pre, spec), LAYER_INPUT)
    return layer_input


def _collapse(x: Array, h_pre: Array, spec: Spec) -> Array:
    h_pre = _rounded_gate(h_pre, spec.h_pre_precision, x)
    return contract("...i,...id->...d", h_pre, x.astype(h_pre.dtype)).astype(x.dtype)


def pre(x: Array, params: Any, spec: Spec) -> tuple[Array, Array, Array]:
    h_pre, h_post, h_res = coefficients(x, params, spec)
    return apply_pre(x, h_pre, spec), h_post, h_res


def post(x: Array, layer_output: Array, h_post: Array, h_res: Array, spec: Spec) -> Array:
    """x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d]"""
    h_post = _rounded_gate(h_post, spec.h_post_precision, x)
    h_res = _rounded_gate(h_res, spec.h_res_precision, x)
    mixed = contract("...ij,...id->...jd", h_res, x.astype(h_res.dtype))
    written = contract("...j,...d->...jd", h_post, layer_output.astype(h_post.dtype))
    x_next: Array = checkpoint_name((mixed + written).astype(x.dtype), X_NEXT)
    return x_next


def head(x: Array, params: Any, spec: Spec) -> Array:
    """sum_i (sigmoid(alpha z + bias) + pre_eps)[t,i] x[t,i,d]"""
    q, sum_squares = project(x, params.phi, params.norm_weight, spec)
    z = _named_z(q, sum_squares, x.shape[-2] * x.shape[-1], spec)
    h_pre = sigmoid(params.alpha.astype(z.dtype) * z + params.bias.astype(z.dtype)) + spec.pre_eps
    return _collapse(x, h_pre, spec)
