"""The layer as a framework's user has it today: the denominator of every speed-up, therefore
frozen.

The arithmetic of the published plain layer, from its formulas: the streams are normalised in memory
in the type of the activations, one product with all coefficients, gates in the activation type,
products and sums of full size. Written for comparison with the kernels, not for use: gates in bf16
are a known defect of it.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np

from mhc_kernels.spec import Spec

Array = jax.Array


def site(x: Array, params: Any, branch: Callable[[Array], Array], spec: Spec) -> Array:
    """One site around branch; x [B, S, n, D]."""
    b, s, n, d = x.shape
    kind = x.dtype
    wide = x.reshape(b, s, n * d).astype(jnp.float32)
    normal = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + spec.norm_eps)
    normal = normal.astype(kind) * params.norm_weight.reshape(-1).astype(kind)
    phi = params.phi.reshape(-1, n * d).T.astype(kind)
    h = jnp.einsum("bsk,km->bsm", normal, phi)
    alpha, bias = params.alpha.astype(kind), params.bias.astype(kind)
    h_pre = jax.nn.sigmoid(alpha[0] * h[..., :n] + bias[:n]) + jnp.asarray(spec.pre_eps, kind)
    u = jnp.einsum("bsk,bskd->bsd", h_pre, x)
    y = branch(u)
    h_post = 2 * jax.nn.sigmoid(alpha[1] * h[..., n : 2 * n] + bias[n : 2 * n])
    h_res = _mix(alpha[2] * h[..., 2 * n :] + bias[2 * n :], spec, kind)
    return y[:, :, None, :] * h_post[..., None] + jnp.einsum("bskm,bskd->bsmd", h_res, x)


def _mix(logits: Array, spec: Spec, kind: Any) -> Array:
    n = spec.streams
    logits = logits.astype(jnp.float32)
    if spec.manifold.name == "permutation":
        matrices = jnp.asarray(np.eye(n)[np.array(list(itertools.permutations(range(n))))], kind)
        return jnp.einsum("bsp,pkm->bskm", jax.nn.softmax(logits, axis=-1).astype(kind), matrices)
    eps = spec.manifold.eps  # type: ignore[union-attr]

    def columns(c: Array) -> Array:
        return c / (jnp.sum(c, axis=-2, keepdims=True) + eps)

    def step(c: Array, _: None) -> tuple[Array, None]:
        return columns(c / (jnp.sum(c, axis=-1, keepdims=True) + eps)), None

    c = columns(jax.nn.softmax(logits.reshape(*logits.shape[:2], n, n), axis=-1) + eps)
    return jax.lax.scan(step, c, None, length=spec.manifold.iterations - 1)[0].astype(kind)  # type: ignore[union-attr]
