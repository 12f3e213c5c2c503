"""Arguments held against the contract when a function is traced: ValueError with operation,
argument, wanted, got."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from mhc_kernels.spec import Spec

ACTIVATIONS = ("bfloat16", "float16", "float32", "float64")
IMPLEMENTATIONS = ("kernel", "reference")


def fail(operation: str, argument: str, wanted: str, got: Any) -> ValueError:
    return ValueError(f"{operation}: {argument}: expected {wanted}, got {got}")


def implementation(operation: str, value: str) -> None:
    if value not in IMPLEMENTATIONS:
        raise fail(operation, "implementation", '"kernel" or "reference"', repr(value))


def spec(operation: str, value: Any) -> None:
    if not isinstance(value, Spec):
        raise fail(operation, "spec", "a mhc_kernels.Spec", type(value).__name__)


def floating(operation: str, argument: str, value: Any) -> None:
    """An array of a float type; activations have one of four."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise fail(operation, argument, "an array", type(value).__name__)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise fail(operation, argument, "a float type", value.dtype.name)


def activation(operation: str, argument: str, value: Any) -> None:
    floating(operation, argument, value)
    if value.dtype.name not in ACTIVATIONS:
        raise fail(
            operation,
            argument,
            "type " + ", ".join(ACTIVATIONS[:-1]) + " or " + ACTIVATIONS[-1],
            value.dtype.name,
        )


def shape(
    operation: str,
    argument: str,
    value: Any,
    wanted: dict[str, int | None],
    lead: tuple[int, ...] = (),
) -> None:
    """The shape lead + wanted; an extent that is None may be any. Names stand in the message."""
    floating(operation, argument, value)
    sizes = list(lead) + list(wanted.values())
    right = len(value.shape) == len(sizes) and all(
        w is None or g == w for g, w in zip(value.shape, sizes)
    )
    if not right:
        named = [str(s) for s in lead] + [n if w is None else f"{n}={w}" for n, w in wanted.items()]
        raise fail(operation, argument, f"shape [{', '.join(named)}]", list(value.shape))


def streams(operation: str, argument: str, value: Any, n: int) -> None:
    """x: [..., n, D], D at least 1."""
    activation(operation, argument, value)
    if len(value.shape) < 2 or value.shape[-2] != n or value.shape[-1] < 1:
        raise fail(operation, argument, f"shape [..., n={n}, D]", list(value.shape))


def params(operation: str, value: Any, m: int, n: int, groups: int, embedding: int) -> None:
    for name in ("phi", "alpha", "bias"):
        if getattr(value, name, None) is None:
            raise fail(
                operation, f"params.{name}", "an array", type(getattr(value, name, None)).__name__
            )
    shape(operation, "params.phi", value.phi, {"m": m, "n": n, "D": embedding})
    shape(operation, "params.alpha", value.alpha, {"groups": groups})
    shape(operation, "params.bias", value.bias, {"m": m})
    if getattr(value, "norm_weight", None) is not None:
        shape(operation, "params.norm_weight", value.norm_weight, {"n": n, "D": embedding})


def site(operation: str, x: Any, parameters: Any, specification: Any, which: str) -> None:
    """Everything that takes x and the parameters of a site."""
    spec(operation, specification)
    implementation(operation, which)
    streams(operation, "x", x, specification.streams)
    params(operation, parameters, specification.coefficients, specification.streams, 3, x.shape[-1])
