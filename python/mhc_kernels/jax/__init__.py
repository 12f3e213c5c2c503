"""Hyper-connections for JAX on CPUs: kernels with custom gradients, and the same in plain
jax.numpy.

    import mhc_kernels as mhc
    import mhc_kernels.jax as mj

    layer_input, state = mj.pre(x, params, spec)        # x [..., n, D] -> [..., D]
    x_next = mj.post(branch(layer_input), state)        # [..., D] -> [..., n, D]

Every function takes implementation="kernel" or "reference". See docs/jax.md.
"""

from typing import TYPE_CHECKING

from mhc_kernels.jax import _export as _export
from mhc_kernels.jax._halves import apply_post, apply_pre, coefficients
from mhc_kernels.jax._params import HeadParams, Params, init_params
from mhc_kernels.jax._partial import SumSquares, coefficients_from_partials, project_partial
from mhc_kernels.jax._site import State, post, pre, site_state
from mhc_kernels.jax._stack import expand, head, reduce
from mhc_kernels.jax._targets import export_checks

if TYPE_CHECKING:
    from mhc_kernels.jax._flax import HyperConnection as HyperConnection

__all__ = [
    "HeadParams",
    "HyperConnection",
    "Params",
    "State",
    "SumSquares",
    "apply_post",
    "apply_pre",
    "coefficients",
    "coefficients_from_partials",
    "expand",
    "export_checks",
    "head",
    "init_params",
    "post",
    "pre",
    "project_partial",
    "reduce",
    "site_state",
]


def __getattr__(name: str) -> object:
    if name == "HyperConnection":  # only this needs flax
        from mhc_kernels.jax._flax import HyperConnection

        return HyperConnection
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
