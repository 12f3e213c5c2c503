"""Parameters of a site and of a head: pytrees, their start, and their form for a kernel."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from mhc_kernels._numbers import whole
from mhc_kernels.jax import _check, _reference
from mhc_kernels.jax._explicit import replicated
from mhc_kernels.jax._primitive import lift, varying_axes
from mhc_kernels.spec import Spec

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["phi", "alpha", "bias", "norm_weight"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class Params:
    """Parameters of a site, in any float types; gradients come back in the type of each.

    phi: [m, n, D]; m = spec.coefficients in the order pre (n), post (n), res (L).
    alpha: [3], one factor each for pre, post and res.
    bias: [m].
    norm_weight: [n, D] or None, the learned weight of the RMS norm, multiplied into phi.
    """

    phi: Array
    alpha: Array
    bias: Array
    norm_weight: Array | None = None


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["phi", "alpha", "bias", "norm_weight"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class HeadParams:
    """Parameters of a head: phi [n, n, D], alpha [1], bias [n], norm_weight [n, D] or None."""

    phi: Array
    alpha: Array
    bias: Array
    norm_weight: Array | None = None


def init_params(key: Array, spec: Spec, embedding: int, *, dtype: Any = jnp.float32) -> Params:
    """Parameters near the ordinary residual connection: h_pre = 1/n, h_post = 1, h_res close to I.

    key: a key of jax.random; dtype: any float type, that of the Params returned, which have no
    norm_weight. Raises ValueError naming argument, wanted and got. phi is normal with
    variance 1/(n D), so that z has variance one, and enters with alpha = 0.01; the identity leads
    by 8 logits. h_post is between 0 and spec.post_mult, so that it starts as near to 1 as 0.999
    post_mult comes; where post_mult is 0 or negative it cannot come near and starts at half of it.

    >>> import jax, mhc_kernels as mhc, mhc_kernels.jax as mj
    >>> mj.init_params(jax.random.key(0), mhc.Spec(streams=2), 8).phi.shape
    (8, 2, 8)
    """
    _check.spec("init_params", spec)
    if whole(embedding, 1) is None:
        raise _check.fail("init_params", "embedding", "an integer of at least 1", repr(embedding))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise _check.fail("init_params", "dtype", "a float type", repr(dtype))
    n, m = spec.streams, spec.coefficients
    phi = jax.random.normal(key, (m, n, embedding), jnp.float32) / math.sqrt(n * embedding)
    pre = jnp.full((n,), -math.log(n - 1) if n > 1 else 8.0)
    post = jnp.full((n,), _logit(1.0 / spec.post_mult) if spec.post_mult > 0 else 0.0)
    bias = jnp.concatenate([pre, post, _identity_logits(spec)])
    return Params(phi.astype(dtype), jnp.full((3,), 0.01, dtype), bias.astype(dtype))


def _logit(share: float) -> float:
    share = min(max(share, 1e-30), 1 - 1e-3)
    return math.log(share / (1 - share))


def _identity_logits(spec: Spec) -> Array:
    n, name = spec.streams, spec.manifold.name
    if name == "permutation":
        return jnp.zeros((spec.logits,)).at[0].set(8.0)
    if name == "identity":
        return jnp.zeros((0,))
    return (jnp.eye(n) * (8.0 if name == "sinkhorn" else 1.0)).reshape(-1)


def canonical(
    x: Array, params: Params | HeadParams, operation: str = "pre"
) -> tuple[Array, tuple[Array, Array, Array, Array | None]]:
    """x and phi, alpha, bias, norm_weight as kernels take them, outside of the custom gradient.

    Inside a shard_map the gradients of replicated parameters are summed by the transpose of the
    lift, in f32 before they are narrowed.
    """
    x = jnp.asarray(x)
    given = (params.phi, params.alpha, params.bias, params.norm_weight)
    phi, alpha, bias, norm_weight = in_kernel_types(x, given, varying_axes(x, params))
    x, *values = lift(operation, x=x, phi=phi, alpha=alpha, bias=bias, norm_weight=norm_weight)
    return x, tuple(values)


def in_kernel_types(x: Array, values: Any, varying: frozenset[str]) -> list[Any]:
    """Parameters beside x, of which some may be None: f32 and bf16 as they are, others as f32 (all
    f64 beside f64, and all f32 where something varies over manual axes). Those with explicit
    shardings are gathered; their gradients go back the way they came."""
    wide = _reference.wide(x)
    keep = (jnp.float32, jnp.bfloat16) if wide == jnp.float32 and not varying else (wide,)
    return [
        None if v is None else replicated(v if v.dtype in keep else v.astype(wide)) for v in values
    ]
