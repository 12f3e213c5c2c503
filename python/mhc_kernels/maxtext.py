"""MaxText's mHC-lite kernel interface on top of these kernels: its names, shapes and errors, none
of its limits.

    import maxtext.layers.mhc
    import mhc_kernels.maxtext
    maxtext.layers.mhc.mhc_kernel = mhc_kernels.maxtext

makes MaxText's layer with use_mhc_pallas_kernel=True run on CPUs, with any shape, type and number
of streams up to five. The words here (norm_scale, residual, ...) are MaxText's; residual is h_res,
stored [..., input, output]. Sizes of blocks are hints without effect. See docs/jax_maxtext.md.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mhc_kernels._maxtext_cost import CostEstimate, MhcDims
from mhc_kernels.jax import Params, apply_post, apply_pre, coefficients
from mhc_kernels.jax._export import register as register_for_export
from mhc_kernels.jax._params import canonical
from mhc_kernels.jax._site import pre_with_gradient
from mhc_kernels.spec import Spec

__all__ = [
    "CostEstimate",
    "MhcCoeffGradients",
    "MhcCoeffOutputs",
    "MhcCoeffParams",
    "MhcContext",
    "MhcDims",
    "MhcKernelConfig",
    "MhcWeights",
    "UnsupportedInputError",
    "hbm_specs",
    "post",
    "pre",
]

Array = jax.Array
_IMPLEMENTATIONS = ("mosaic", "mosaic_tpu", "xla")


class UnsupportedInputError(ValueError):
    """An input that this interface does not take."""


@dataclasses.dataclass(frozen=True)
class MhcKernelConfig:
    """rms_epsilon and pre_mapping_epsilon are honoured. The block sizes, vmem_limit_bytes and
    interpret are validated and have no effect: sizes are chosen by the library (`mhc tune`)."""

    block_size: int = 256
    bwd_block_size: int = 128
    bwd_feature_block_size: int = 1024
    vmem_limit_bytes: int = 64 * 1024 * 1024
    rms_epsilon: float = 1e-5
    pre_mapping_epsilon: float = 1e-6
    interpret: bool = False

    def __post_init__(self) -> None:
        for name in ("block_size", "bwd_block_size", "bwd_feature_block_size", "vmem_limit_bytes"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(
                    f"MhcKernelConfig: {name}: expected a positive integer, got {value!r}"
                )
        if not 0 < self.rms_epsilon < math.inf:
            raise ValueError(
                f"MhcKernelConfig: rms_epsilon: expected a positive number, "
                f"got {self.rms_epsilon!r}"
            )
        if not 0 <= self.pre_mapping_epsilon < math.inf:
            raise ValueError(
                "MhcKernelConfig: pre_mapping_epsilon: expected a number of at least 0, "
                f"got {self.pre_mapping_epsilon!r}"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MhcWeights:
    """Parameters of a layer: norm_scale [K]; for pre, post and res: alpha [K, .], bias [.], scale
    [1], with n, n and n! columns, K = n D. Any object with these attributes serves as well."""

    norm_scale: Array
    pre_alpha: Array
    pre_bias: Array
    pre_scale: Array
    post_alpha: Array
    post_bias: Array
    post_scale: Array
    res_alpha: Array
    res_bias: Array
    res_scale: Array

    def fold_norm_scale(self) -> Array:
        """[K, 2n + n!]: the three alphas beside each other, each row times its norm_scale, in
        float32."""
        alphas = [a.astype(jnp.float32) for a in (self.pre_alpha, self.post_alpha, self.res_alpha)]
        return jnp.concatenate(alphas, axis=-1) * self.norm_scale.astype(jnp.float32)[:, None]

    def to_coeff_params(self) -> "MhcCoeffParams":
        return MhcCoeffParams(
            self.fold_norm_scale(),
            self.pre_scale,
            self.pre_bias,
            self.post_scale,
            self.post_bias,
            self.res_scale,
            self.res_bias,
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MhcCoeffParams:
    """Parameters with the norm's scale folded into phi [K, 2n + n!]."""

    phi: Array
    pre_scale: Array
    pre_bias: Array
    post_scale: Array
    post_bias: Array
    res_scale: Array
    res_bias: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MhcCoeffOutputs:
    """Gates: h_pre [..., n], h_post [..., n], residual [..., n, n]."""

    h_pre: Array
    h_post: Array
    residual: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MhcCoeffGradients:
    """Gradients of MhcCoeffParams."""

    phi: Array
    pre_scale: Array
    pre_bias: Array
    post_scale: Array
    post_bias: Array
    res_scale: Array
    res_bias: Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["x", "h_post", "residual"],
    meta_fields=["implementation"],
)
@dataclasses.dataclass(frozen=True)
class MhcContext:
    """From pre to post: x [B,S,n,D], h_post [B,S,n], residual [B,S,n,n]; the fields may be used,
    their gradients are true ones. implementation is static."""

    x: Array
    h_post: Array
    residual: Array
    implementation: str


for _kind in (MhcWeights, MhcCoeffParams, MhcCoeffOutputs, MhcCoeffGradients):
    register_for_export(_kind)
register_for_export(MhcContext, ("implementation",))


def hbm_specs(*args: Any) -> Any:
    """A block spec for each argument that leaves it whole where it is; one alone for one
    argument."""
    from jax.experimental import pallas as pl

    specs = tuple(pl.BlockSpec(memory_space=pl.ANY) for _ in args)
    return specs[0] if len(specs) == 1 else specs


def pre(
    x: Array,
    weights: Any,
    permutations: Array | None = None,
    *,
    config: MhcKernelConfig = MhcKernelConfig(),
    implementation: str | Sequence[str] | None = None,
) -> tuple[Array, MhcContext]:
    """Coefficients and the branch's input.

    x: [B, S, n, D] in bf16, f16, f32 or f64; weights: MhcWeights or alike, in any float types.
    permutations: [n!, n, n] as released versions pass it; it must be the lexicographic set, which
      is checked where
      its values are known.
    implementation: "mosaic", "mosaic_tpu" (both: the kernels here), "xla" (plain jax.numpy), a
      sequence of them of which the first counts, or None.
    Returns layer_input [B, S, D] in x's type, and the context. Saved for backward: x and the gates'
    logits. Raises ValueError for an implementation that has no name here, UnsupportedInputError (a
    ValueError) otherwise.
    """
    chosen = _implementation(implementation)
    spec = _spec(x, config)
    _check_permutations(permutations, spec.streams)
    params = _params(weights, spec, x.shape[-1])
    if chosen == "xla":
        h_pre, h_post, residual = coefficients(x, params, spec, implementation="reference")
        return apply_pre(x, h_pre, spec, implementation="reference"), MhcContext(
            x, h_post, residual, chosen
        )
    x, values = canonical(x, params)
    layer_input, x, h_post, residual = pre_with_gradient(spec, lazy=False)(x, *values)
    return layer_input, MhcContext(x, h_post, residual, chosen)


def post(
    layer_output: Array, context: MhcContext, *, config: MhcKernelConfig = MhcKernelConfig()
) -> Array:
    """The next streams [B, S, n, D] from the branch's output [B, S, D] and what `pre` returned."""
    if context.implementation not in _IMPLEMENTATIONS:
        raise ValueError(
            f"post: context.implementation: expected one of {', '.join(_IMPLEMENTATIONS)}, "
            f"got {context.implementation!r}"
        )
    how = "reference" if context.implementation == "xla" else "kernel"
    x = context.x
    if layer_output.shape != (*x.shape[:2], x.shape[-1]):
        raise UnsupportedInputError(
            f"post: layer_output: expected shape {[*x.shape[:2], x.shape[-1]]}, "
            f"got {list(layer_output.shape)}"
        )
    return apply_post(
        x, layer_output, context.h_post, context.residual, _spec(x, config), implementation=how
    )


def _implementation(value: str | Sequence[str] | None) -> str:
    names = (value,) if isinstance(value, str) else ("mosaic",) if value is None else tuple(value)
    for name in names:
        if name not in _IMPLEMENTATIONS:
            raise ValueError(
                f"pre: implementation: expected one of {', '.join(_IMPLEMENTATIONS)}, got {name!r}"
            )
    if not names:
        raise ValueError("pre: implementation: expected at least one name, got an empty sequence")
    return str(names[0])


def _spec(x: Array, config: MhcKernelConfig) -> Spec:
    if getattr(x, "ndim", 0) != 4:
        raise UnsupportedInputError(
            f"pre: x: expected shape [B, S, n, D], got {list(getattr(x, 'shape', []))}"
        )
    if not 1 <= x.shape[2] <= 5:
        raise UnsupportedInputError(f"pre: x: expected 1 to 5 streams, got {x.shape[2]}")
    # The published kernel takes bf16 alone and rounds phi to it; wider activations keep what they
    # came with.
    precision = "bfloat16" if x.dtype == jnp.bfloat16 else "float32"
    return Spec.preset(
        "maxtext_lite",
        streams=x.shape[2],
        norm_eps=config.rms_epsilon,
        pre_eps=config.pre_mapping_epsilon,
        phi_precision=precision,
    )


def _check_permutations(permutations: Any, n: int) -> None:
    if permutations is None:
        return
    wanted = (math.factorial(n), n, n)
    if tuple(permutations.shape) != wanted:
        raise UnsupportedInputError(
            f"pre: permutations: expected shape {list(wanted)}, got {list(permutations.shape)}"
        )
    if isinstance(permutations, jax.core.Tracer):
        return
    lexicographic = np.eye(n)[np.array(list(itertools.permutations(range(n))))]
    if not np.array_equal(np.asarray(permutations).astype(np.float64), lexicographic):
        raise UnsupportedInputError(
            "pre: permutations: expected all of them in lexicographic order, got others"
        )


def _params(weights: Any, spec: Spec, embedding: int) -> Params:
    """[K, n], [K, n], [K, n!] become [m, n, D]; three scales become alpha."""
    n, parts = spec.streams, ("pre", "post", "res")
    features = n * embedding
    for part, columns in zip(parts, (n, n, spec.logits)):
        for name, shape in (
            (f"{part}_alpha", (features, columns)),
            (f"{part}_bias", (columns,)),
            (f"{part}_scale", (1,)),
        ):
            _check_weight(weights, name, shape)
    _check_weight(weights, "norm_scale", (features,))
    of = lambda name: [getattr(weights, f"{part}_{name}") for part in parts]
    phi = jnp.concatenate([a.T for a in of("alpha")]).reshape(spec.coefficients, n, embedding)
    return Params(
        phi,
        jnp.concatenate([s.reshape(1) for s in of("scale")]),
        jnp.concatenate(of("bias")),
        weights.norm_scale.reshape(n, embedding),
    )


def _check_weight(weights: Any, name: str, shape: tuple[int, ...]) -> None:
    got = getattr(getattr(weights, name, None), "shape", None)
    if got is None or tuple(got) != shape and not (shape == (1,) and tuple(got) == ()):
        raise UnsupportedInputError(
            f"pre: weights.{name}: expected shape {list(shape)}, "
            f"got {None if got is None else list(got)}"
        )
