"""A byte-level transformer: pre-norm causal attention and MLP, each wrapped in a hyper-connection
or in a plain residual connection.

Shapes: B sequences, S bytes, n streams, D features. The residual is bf16, parameters are f32, and
branches compute in f32.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import jax
import jax.numpy as jnp
from flax import nnx

import mhc_kernels.jax as mj
from mhc_kernels.demo.config import Config

Array = jax.Array
# observe(name of the site, its connection, x at its input [B, S, n, D])
Observe = Callable[[str, Any, Array], None]

VOCABULARY = 256
RESIDUAL = jnp.bfloat16


class Norm(nnx.Module):
    """RMS norm over D with a learned weight; f32 out."""

    def __init__(self, embedding: int) -> None:
        self.weight = nnx.Param(jnp.ones((embedding,)))

    def __call__(self, x: Array) -> Array:
        x = x.astype(jnp.float32)
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * self.weight[...]


def linear(inputs: int, outputs: int, rngs: nnx.Rngs, gain: float = 1.0) -> nnx.Linear:
    """Without bias; outputs have the inputs' variance times gain^2."""
    init = nnx.initializers.normal(gain / math.sqrt(inputs))
    return nnx.Linear(inputs, outputs, use_bias=False, kernel_init=init, rngs=rngs)


class Attention(nnx.Module):
    """Causal, with rotary positions: [B, S, D] to [B, S, D]."""

    def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
        d = config.embedding
        self.heads = config.heads
        self.norm = Norm(d)
        self.qkv = linear(d, 3 * d, rngs)
        self.out = linear(d, d, rngs, 1 / math.sqrt(2 * config.layers))

    def __call__(self, x: Array) -> Array:
        b, s, d = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, s, 3, self.heads, d // self.heads)
        q, k, v = rotate(qkv[:, :, 0]), rotate(qkv[:, :, 1]), qkv[:, :, 2]
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.reshape(b, s, d))


def rotate(x: Array) -> Array:
    """Rotary position embedding of [B, S, heads, features]."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


class Mlp(nnx.Module):
    """[B, S, D] to [B, S, D]."""

    def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
        d = config.embedding
        self.norm = Norm(d)
        self.up = linear(d, 4 * d, rngs)
        self.down = linear(4 * d, d, rngs, 1 / math.sqrt(2 * config.layers))

    def __call__(self, x: Array) -> Array:
        return self.down(jax.nn.gelu(self.up(self.norm(x))))


class Plain(nnx.Module):
    """x + branch(x), called like a HyperConnection."""

    def __call__(self, x: Array, branch: Callable[[Array], Any], *, has_aux: bool = False) -> Any:
        result = branch(x)
        y, aux = result if has_aux else (result, None)
        x = x + y.astype(x.dtype)
        return (x, aux) if has_aux else x


class Head(nnx.Module):
    """The learned reduction of the streams; starts as their mean."""

    def __init__(self, config: Config, rngs: nnx.Rngs) -> None:
        n, d = config.streams, config.embedding
        self.spec, self.implementation = config.spec, config.implementation
        start = -math.log(n - 1) if n > 1 else 8.0
        self.phi = nnx.Param(jax.random.normal(rngs.params(), (n, n, d)) / math.sqrt(n * d))
        self.alpha = nnx.Param(jnp.full((1,), 0.01))
        self.bias = nnx.Param(jnp.full((n,), start))

    def __call__(self, x: Array) -> Array:
        params = mj.HeadParams(self.phi[...], self.alpha[...], self.bias[...])
        return mj.head(x, params, self.spec, implementation=self.implementation)


def connection(site: int, config: Config, rngs: nnx.Rngs) -> Any:
    """A hyper-connection that starts where few steps suffice to see the streams part.

    `init_params` starts with equal streams, and with h_res so close to the identity that it moves
    in thousands of steps. Here site k reads more from stream k mod n and writes more to it, and
    the identity leads by half as many logits.
    """
    n = config.streams
    made: Any = mj.HyperConnection(
        config.spec, config.embedding, rngs=rngs, implementation=config.implementation
    )
    bias = made.bias[...]
    if n > 1:
        preferred = jnp.where(jnp.arange(n) == site % n, 1.5, -0.5)
        bias = bias.at[: 2 * n].add(jnp.tile(preferred, 2))
    if config.manifold in ("permutation", "sinkhorn"):
        bias = bias.at[2 * n :].multiply(0.5)
    made.bias[...] = bias
    return made


class Site(nnx.Module):
    """A branch and what connects it to the residual."""

    def __init__(self, index: int, branch: Any, config: Config, rngs: nnx.Rngs) -> None:
        self.name, self.branch = config.sites[index], branch
        plain = config.residual == "plain"
        self.connection: Any = Plain() if plain else connection(index, config, rngs)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """x_next, and whether it is finite: all of the branch's output, and one feature of each
        stream, since a bad gate makes all of them bad."""

        def branch(layer_input: Array) -> tuple[Array, Array]:
            y = self.branch(layer_input)
            return y, jnp.all(jnp.isfinite(y))

        x, finite = self.connection(x, branch, has_aux=True)
        return x, finite & jnp.all(jnp.isfinite(x[..., 0]))


class Model(nnx.Module):
    """tokens [B, S] to logits [B, S, 256] in f32.

    config: Config; rngs: nnx.Rngs, of which the stream params is used.
    """

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        d = config.embedding
        self.config = config
        self.embedding = nnx.Param(jax.random.normal(rngs.params(), (VOCABULARY, d)))
        branches: tuple[Any, ...] = (Attention, Mlp)
        self.sites = nnx.List(
            [Site(k, branches[k % 2](config, rngs), config, rngs) for k in range(len(config.sites))]
        )
        self.head = Head(config, rngs) if config.residual == "hyper" else None
        self.norm = Norm(d)
        self.out = linear(d, VOCABULARY, rngs)

    def __call__(self, tokens: Array, observe: Observe | None = None) -> tuple[Array, Array]:
        """Logits, and for each site whether what it made is finite: bool [sites].

        observe: is called at each site's input and, with the name "out" and no connection, behind
        the last.
        """
        config = self.config
        x = self.embedding[...][tokens].astype(RESIDUAL)
        if config.residual == "hyper":
            x = mj.expand(x, config.streams, implementation=config.implementation)
        x, finite = self._scan(x) if config.remat and observe is None else self._sites(x, observe)
        if self.head is not None:
            x = self.head(x)
        return self.out(self.norm(x)), finite

    def _sites(self, x: Array, observe: Observe | None) -> tuple[Array, Array]:
        finite = []
        for site in self.sites:
            if observe is not None:
                observe(site.name, site.connection, x)
            x, is_finite = site(x)
            finite.append(is_finite)
        if observe is not None:
            observe("out", None, x)
        return x, jnp.stack(finite)

    def _scan(self, x: Array) -> tuple[Array, Array]:
        """With rematerialisation. In a loop: where the layers stand one after the other, XLA on
        CPUs finds that what is computed again was there before, and keeps it."""
        pairs = [nnx.split((a, b)) for a, b in zip(self.sites[::2], self.sites[1::2])]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[params for _, params in pairs])

        def layer(x: Array, params: Any) -> tuple[Array, Array]:
            attention, mlp = nnx.merge(pairs[0][0], params)
            x, first = attention(x)
            x, second = mlp(x)
            return x, jnp.stack([first, second])

        x, finite = jax.lax.scan(jax.checkpoint(layer, prevent_cse=False), x, stacked)
        return x, finite.reshape(-1)


def structure(config: Config) -> Any:
    """The model without parameters, for `apply`."""
    return nnx.split(nnx.eval_shape(lambda: Model(config, rngs=nnx.Rngs(0))))[0]


def init(config: Config) -> Any:
    """The parameters, from config.seed, as a dict of dicts.

    Not under jit, and with the generator that is an operation of XLA: equal shapes share what is
    compiled, where one program with a generator per parameter takes longer than 50 steps.
    """
    rngs = nnx.Rngs(jax.random.key(config.seed, impl="rbg"))
    return nnx.to_pure_dict(nnx.state(Model(config, rngs=rngs)))


def apply(of: Any, params: Any, tokens: Array, observe: Observe | None = None) -> Any:
    """The model of that structure with these parameters: what Model.__call__ gives."""
    return nnx.merge(of, params)(tokens, observe)
