"""What the custom gradients have in common: masks of what is asked for, cotangents that may be
absent."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

# Gradients of the parameters, in the order of the operands.
PARAM_GRADIENTS = ("d_phi", "d_alpha", "d_bias", "d_norm_weight")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Asked:
    """Names of the gradients that somebody asked for; static, so that a backward without them is
    another program."""

    names: tuple[str, ...]


def values_of(tree: Any) -> Any:
    """The values of what a forward rule gets."""
    return jax.tree.map(lambda leaf: leaf.value, tree, is_leaf=_is_primal)


def asked(**inputs: Any) -> Asked:
    """d_<name> of every input that is differentiated."""
    return Asked(
        tuple(f"d_{name}" for name, leaf in inputs.items() if leaf is not None and leaf.perturbed)
    )


def _is_primal(leaf: Any) -> bool:
    return hasattr(leaf, "perturbed")


def given(cotangent: Any) -> Any:
    """The cotangent, or None where it is known to be zero."""
    return None if isinstance(cotangent, SymbolicZero) or cotangent is None else cotangent


def narrow(gradients: dict[str, Any], *names_and_values: tuple[str, Any]) -> tuple[Any, ...]:
    """Each gradient in the type of what it belongs to; None, which JAX takes as zero, where nobody
    asked."""
    return tuple(
        None if value is None or name not in gradients else gradients[name].astype(value.dtype)
        for name, value in names_and_values
    )
