"""What the residual streams and their gates are doing, on a held-out batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import mhc_kernels.jax as mj
from mhc_kernels.demo import model
from mhc_kernels.demo.config import Config

Array = jax.Array


def watch(structure: Any, params: Any, config: Config, batch: Array) -> dict[str, Any]:
    """Plain types, for run.json. batch: int32 [B, S + 1].

    layers: for each site, over all tokens: name; the means of h_res [n, n] as [input, output],
      h_pre [n] and h_post [n]; row_sums [n] and column_sums [n] of h_res, the means; row_error and
      column_error, the largest distance of one of a token's sums from 1; permutation_entropy, the
      mean entropy of the weights of the permutations in nats, None for other manifolds;
      stream_norm [n], the root of the mean square of each stream at the site's input.
    stream_norm_out [n]: the same behind the last site.
    gain: P_k = H_0 H_1 ... H_k of a token is what its streams have gone through behind site k if
      no branch writes: out[j] = sum_i P_k[i, j] in[i]. forward[k]: the largest column sum of |P_k|,
      by which a signal can have grown; backward[k]: the largest row sum of |P_k|, by which the
      gradient of out can grow on its way to in. Each the worst over the tokens. Both are 1 for
      doubly stochastic matrices.
    """
    found = jax.device_get(jax.jit(lambda p, b: _measure(structure, p, config, b))(params, batch))
    plain = jax.tree.map(lambda v: v.tolist(), found)
    return {
        "layers": [{"name": name, **layer} for name, layer in zip(config.sites, plain["layers"])],
        "stream_norm_out": plain["out"],
        "gain": {
            "forward": [g[0] for g in plain["gain"]],
            "backward": [g[1] for g in plain["gain"]],
        },
    }


def _measure(structure: Any, params: Any, config: Config, batch: Array) -> dict[str, Any]:
    layers: list[dict[str, Any]] = []
    gains: list[Array] = []
    out: list[Array] = []
    product: list[Array] = [jnp.eye(config.streams)]

    def observe(name: str, connection: Any, x: Array) -> None:
        x = x.astype(jnp.float32)
        norm = jnp.sqrt(jnp.mean(x * x, axis=(0, 1, 3)))
        if connection is None:
            out.append(norm)
            return
        layer, h_res = _site(connection.params(), config, x)
        layers.append({**layer, "stream_norm": norm})
        product[0] = product[0] @ h_res
        size = jnp.abs(product[0])
        gains.append(jnp.stack([jnp.max(jnp.sum(size, -2)), jnp.max(jnp.sum(size, -1))]))

    model.apply(structure, params, batch[:, :-1], observe)
    return {"layers": layers, "gain": gains, "out": out[0]}


def _site(params: mj.Params, config: Config, x: Array) -> tuple[dict[str, Any], Array]:
    """The part of a layer's row that comes from its gates, and h_res [B, S, n, n]."""
    spec = config.spec
    gates = mj.coefficients(x, params, spec, implementation=config.implementation)
    h_pre, h_post, h_res = gates
    rows, columns = jnp.sum(h_res, -1), jnp.sum(h_res, -2)
    layer = {
        "h_res": _mean(h_res),
        "h_pre": _mean(h_pre),
        "h_post": _mean(h_post),
        "row_sums": _mean(rows),
        "column_sums": _mean(columns),
        "row_error": jnp.max(jnp.abs(rows - 1)),
        "column_error": jnp.max(jnp.abs(columns - 1)),
        "permutation_entropy": None,
    }
    if spec.manifold.name == "permutation":
        weights = permutation_weights(params, config, x)
        entropy = -jnp.sum(jax.scipy.special.xlogy(weights, weights), -1)
        layer["permutation_entropy"] = _mean(entropy)
    return layer, h_res


def _mean(v: Array) -> Array:
    """Over sequences and positions."""
    return jnp.mean(v, axis=(0, 1))


def permutation_weights(params: mj.Params, config: Config, x: Array) -> Array:
    """The share of each permutation in h_res, [..., n!], in lexicographic order, the identity
    first. x: [..., n, D]. coefficients gives only their sum, so this goes by the formula."""
    spec, n = config.spec, config.streams
    q, squares = mj.project_partial(
        x, params, spec, embedding=config.embedding, implementation=config.implementation
    )
    inv_rms = jax.lax.rsqrt(squares.value / (n * config.embedding) + spec.norm_eps)
    logits = params.alpha[2] * q[..., 2 * n :] * inv_rms[..., None] + params.bias[2 * n :]
    return jax.nn.softmax(logits)
