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

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mhc_kernels._maxtext_cost import CostEstimate, MhcDims
from mhc_kernels._numbers import real, whole
from mhc_kernels.jax import Params, _check, apply_post, apply_pre, coefficients
from mhc_kernels.jax._check import fail
from mhc_kernels.jax._export import register as register_for_export
from mhc_kernels.jax._params import canonical
from mhc_kernels.jax._site import pre_with_gradient
from mhc_kernels.spec import FLOAT_MAX, FLOAT_MIN, Spec

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
    "compute_sigmoid_gate",
    "hbm_specs",
    "post",
    "pre",
]

Array = jax.Array
_IMPLEMENTATIONS = ("mosaic", "mosaic_tpu", "xla")
_NAMES = ", ".join(f'"{name}"' for name in _IMPLEMENTATIONS[:-1]) + f' or "{_IMPLEMENTATIONS[-1]}"'


class UnsupportedInputError(ValueError):
    """An input that this interface does not take."""


@dataclasses.dataclass(frozen=True)
class MhcKernelConfig:
    """rms_epsilon and pre_mapping_epsilon are honoured. The block sizes, vmem_limit_bytes and
    interpret are validated and have no effect: sizes are chosen by the library (`mhc tune`)."""

    block_size: int = 128
    bwd_block_size: int = 32
    bwd_feature_block_size: int = 1024
    vmem_limit_bytes: int = 128 * 1024 * 1024
    rms_epsilon: float = 1e-5
    pre_mapping_epsilon: float = 1e-6
    interpret: bool = False

    def __post_init__(self) -> None:
        for name in ("block_size", "bwd_block_size", "bwd_feature_block_size", "vmem_limit_bytes"):
            self._set(name, whole(getattr(self, name), 1), "a positive integer")
        for name, least, wanted in (
            ("rms_epsilon", FLOAT_MIN, "a finite number of at least 1.2e-38"),
            ("pre_mapping_epsilon", 0.0, "a finite number of at least 0"),
        ):
            self._set(name, real(getattr(self, name), least, FLOAT_MAX), wanted)
        if not isinstance(self.interpret, (bool, np.bool_)):
            raise fail("MhcKernelConfig", "interpret", "True or False", repr(self.interpret))

    def _set(self, name: str, value: float | None, wanted: str) -> None:
        if value is None:
            raise fail("MhcKernelConfig", name, wanted, repr(getattr(self, name)))
        object.__setattr__(self, name, value)


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


def compute_sigmoid_gate(
    logits: Array, scale: Array, bias: Array, *, multiplier: float = 1.0, epsilon: float = 0.0
) -> Array:
    """multiplier sigmoid(scale logits + bias) + epsilon in float32, which the newer layers ask the
    kernels for on their native path.

    logits: [..., n]; scale: [1]; bias: [n]; any float types. Plain jax.numpy.
    """
    to_f32 = lambda value: jnp.asarray(value).astype(jnp.float32)
    gate = jax.nn.sigmoid(to_f32(scale) * to_f32(logits) + to_f32(bias))
    return multiplier * gate + epsilon


def hbm_specs(*args: Any) -> Any:
    """Block specs that leave an argument whole where it is: as many as a number says, in the
    structure of one argument, or one for each of several."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu

    spec = pl.BlockSpec(memory_space=tpu.HBM)
    if len(args) != 1:
        return (spec,) * len(args)
    if isinstance(args[0], int):
        return (spec,) * args[0]
    return jax.tree.map(lambda _: spec, args[0])


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
    permutations: [n!, n, n] as released versions pass it; it must be the lexicographic set. Where
      its values are known, others are an error; inside a program, they make every gate NaN.
    implementation: "mosaic", "mosaic_tpu" (both: the kernels here), "xla" (plain jax.numpy), a
      sequence of them of which the first counts, or None.
    Returns layer_input [B, S, D] in x's type, and the context. Saved for backward: x and the gates'
    logits. Raises ValueError for an implementation that has no name here, UnsupportedInputError (a
    ValueError) otherwise.
    """
    chosen = _implementation(implementation)
    spec = _spec("pre", x, config)
    params = _params(weights, spec, x.shape[-1])
    params = _heed_permutations(permutations, params, spec.streams)
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
    """The next streams [B, S, n, D] from the branch's output [B, S, D] and what `pre` returned.

    Raises ValueError for an implementation that has no name here, UnsupportedInputError (a
    ValueError) otherwise.
    """
    for name in ("x", "h_post", "residual", "implementation"):
        if not hasattr(context, name):
            raise _unsupported("post", "context", "what pre returned", type(context).__name__)
    if context.implementation not in _IMPLEMENTATIONS:
        raise fail("post", "context.implementation", _NAMES, repr(context.implementation))
    how = "reference" if context.implementation == "xla" else "kernel"
    x, spec = context.x, _spec("post", context.x, config, "context.x")
    n = spec.streams
    with _as_unsupported():
        lead = tuple(x.shape[:2])
        _check.shape("post", "layer_output", layer_output, {"D": x.shape[-1]}, lead)
        _check.shape("post", "context.h_post", context.h_post, {"n": n}, lead)
        _check.shape("post", "context.residual", context.residual, {"n": n, "n_out": n}, lead)
    return apply_post(x, layer_output, context.h_post, context.residual, spec, implementation=how)


# ---- Checks
# ---------------------------------------------------------------------------------------


def _unsupported(operation: str, argument: str, wanted: str, got: Any) -> UnsupportedInputError:
    return UnsupportedInputError(str(fail(operation, argument, wanted, got)))


@contextlib.contextmanager
def _as_unsupported() -> Iterator[None]:
    """The checks of mhc_kernels.jax under this interface's type of error."""
    try:
        yield
    except ValueError as error:
        raise UnsupportedInputError(str(error)) from None


def _implementation(value: str | Sequence[str] | None) -> str:
    """The first of the names, all of which must be known."""
    if value is None:
        return _IMPLEMENTATIONS[0]
    if not isinstance(value, (str, Sequence)) or len(value) == 0:
        raise fail("pre", "implementation", f"{_NAMES} or a sequence of them", repr(value))
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        if name not in _IMPLEMENTATIONS:
            raise fail("pre", "implementation", _NAMES, repr(name))
    return str(names[0])


def _spec(operation: str, x: Array, config: Any, argument: str = "x") -> Spec:
    if not isinstance(config, MhcKernelConfig):  # such as MaxText's own
        names = ("rms_epsilon", "pre_mapping_epsilon")
        if not all(hasattr(config, name) for name in names):
            raise fail(operation, "config", "a MhcKernelConfig", type(config).__name__)
        config = MhcKernelConfig(**{name: getattr(config, name) for name in names})
    with _as_unsupported():
        _check.activation(operation, argument, x)
    if len(x.shape) != 4 or not 1 <= x.shape[2] <= 5 or x.shape[3] < 1:
        wanted = "shape [B, S, n, D] with n from 1 to 5 and D of at least 1"
        raise _unsupported(operation, argument, wanted, list(x.shape))
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


def _heed_permutations(permutations: Any, params: Params, n: int) -> Params:
    """params; NaN for alpha where permutations are values of the program and not the lexicographic
    set. Comparing the few hundred numbers costs nothing beside one token."""
    if permutations is None:
        return params
    wanted = (math.factorial(n), n, n)
    got = getattr(permutations, "shape", None)
    if got is None or tuple(got) != wanted:
        shown = type(permutations).__name__ if got is None else list(got)
        raise _unsupported("pre", "permutations", f"shape {list(wanted)}", shown)
    lexicographic = np.eye(n)[np.array(list(itertools.permutations(range(n))))]
    if isinstance(permutations, jax.core.Tracer):
        same = jnp.all(permutations == lexicographic.astype(permutations.dtype))
        return dataclasses.replace(params, alpha=jnp.where(same, params.alpha, jnp.nan))
    if not np.array_equal(np.asarray(permutations).astype(np.float64), lexicographic):
        raise _unsupported("pre", "permutations", "all of them in lexicographic order", "others")
    return params


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
    value: Any = getattr(weights, name, None)
    with _as_unsupported():
        _check.floating("pre", f"weights.{name}", value)
    got = tuple(value.shape)
    if got != shape and not (shape == (1,) and got == ()):
        raise _unsupported("pre", f"weights.{name}", f"shape {list(shape)}", list(got))
