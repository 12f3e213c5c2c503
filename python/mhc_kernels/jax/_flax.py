"""A hyper-connection as a module of flax.nnx."""

from __future__ import annotations

from typing import Any, Callable

import jax
import jax.numpy as jnp
from flax import nnx

from mhc_kernels.jax import _check
from mhc_kernels.jax._params import Params, init_params
from mhc_kernels.jax._site import post, pre
from mhc_kernels.spec import Spec

Array = jax.Array


class HyperConnection(nnx.Module):
    """x_next = post(branch(pre(x))), with parameters of its own.

    spec: Spec; embedding: D; rngs: nnx.Rngs, of which the stream params is used; param_dtype: any
      float type;
    implementation: "kernel" or "reference". Parameters phi [m, n, D], alpha [3] and bias [m] are
    separate nnx.Param, near the ordinary residual connection (`init_params`); norm_weight is an
    nnx.Param [n, D] of ones, or None.

    >>> import jax.numpy as jnp, mhc_kernels as mhc, mhc_kernels.jax as mj
    >>> from flax import nnx
    >>> layer = mj.HyperConnection(mhc.Spec(streams=2), 8, rngs=nnx.Rngs(0))
    >>> layer(jnp.ones((3, 2, 8)), jnp.tanh).shape
    (3, 2, 8)
    """

    def __init__(
        self,
        spec: Spec,
        embedding: int,
        *,
        rngs: nnx.Rngs,
        param_dtype: Any = jnp.float32,
        implementation: str = "kernel",
        norm_weight: bool = False,
    ) -> None:
        _check.spec("HyperConnection", spec)
        _check.implementation("HyperConnection", implementation)
        params = init_params(rngs.params(), spec, embedding, dtype=param_dtype)
        self.spec, self.embedding, self.implementation = spec, embedding, implementation
        self.phi, self.alpha, self.bias = (
            nnx.Param(params.phi),
            nnx.Param(params.alpha),
            nnx.Param(params.bias),
        )
        self.norm_weight = (
            nnx.Param(jnp.ones((spec.streams, embedding), param_dtype)) if norm_weight else None
        )

    def params(self) -> Params:
        """The parameters as the functions take them."""
        weight = None if self.norm_weight is None else self.norm_weight[...]
        return Params(self.phi[...], self.alpha[...], self.bias[...], weight)

    def __call__(
        self, x: Array, branch: Callable[..., Any], *args: Any, has_aux: bool = False, **kwargs: Any
    ) -> Any:
        """x: [..., n, D]; branch(layer_input [..., D], *args, **kwargs) gives layer_output [...,
        D], or with has_aux a pair of that and something that is returned beside x_next."""
        layer_input, state = pre(x, self.params(), self.spec, implementation=self.implementation)
        result = branch(layer_input, *args, **kwargs)
        if isinstance(result, tuple) is not has_aux or (has_aux and len(result) != 2):
            wanted = "a pair of layer_output and aux" if has_aux else "layer_output alone"
            got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            argument = f"branch's result with has_aux={has_aux}"
            raise _check.fail("HyperConnection", argument, wanted, got)
        if not has_aux:
            return post(result, state)
        layer_output, aux = result
        return post(layer_output, state), aux
