"""One clear error where a kernel is asked for a forward-mode derivative.

JAX refuses jvp of a custom gradient with a message of its own, in which neither the operation nor
the way out is named. It never asks our code: the linear part of a custom gradient is one of its
primitives, which reverse mode transposes and forward mode evaluates. So the operands of a kernel
pass through an identity first, whose linear part is a primitive of ours with the same two faces:
its transpose is the identity, and to evaluate it is our error.

Differentiation removes the identity of the values itself, so that nothing is saved twice.
"""

from __future__ import annotations

from typing import Any, Callable

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Array = Any


def refuse(operation: str) -> NotImplementedError:
    return NotImplementedError(
        f"{operation}: a kernel has neither forward-mode nor second derivatives (jvp, jacfwd, "
        "linearize, hessian, grad of grad); "
        'use implementation="reference" there'
    )


def reverse_only(operation: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """f, a function of arrays (or None) with a custom gradient, that says what it cannot do."""

    traced = jax.jit(f, inline=True)

    def guarded(*values: Any) -> Any:
        leaves, tree = jax.tree.flatten(values)
        # A shard_map that is not under jit does not know custom gradients with symbolic zeros.
        run = traced if jax.sharding.get_abstract_mesh().manual_axes else f
        return run(*jax.tree.unflatten(tree, _values.bind(*leaves, operation=operation)))

    return guarded


# ---- The identity of the values
# -----------------------------------------------------------------------------------

_values = Primitive("reverse_only")
_tangents = Primitive("no_forward_mode")


def _jvp(primals: Any, tangents: Any, *, operation: str) -> Any:
    zero = [isinstance(t, ad.Zero) for t in tangents]
    guarded = iter(
        _tangents.bind(*[t for t, z in zip(tangents, zero) if not z], operation=operation)
    )
    return list(primals), [t if z else next(guarded) for t, z in zip(tangents, zero)]


def _same(*values: Any, operation: str) -> list[Any]:
    del operation
    return list(values)


def _lower(ctx: Any, *values: Any, operation: str) -> Any:
    del ctx, operation
    return values


_values.multiple_results = True
_values.def_impl(_same)
_values.def_abstract_eval(_same)
ad.primitive_jvps[_values] = _jvp
batching.primitive_batchers[_values] = lambda values, dims, operation: (
    _values.bind(*values, operation=operation),
    dims,
)
mlir.register_lowering(_values, _lower)


# ---- Its linear part
# -----------------------------------------------------------------------------------


def _evaluate(*values: Any, operation: str, **others: Any) -> Any:
    del values, others
    raise refuse(operation)


_tangents.multiple_results = True
_tangents.def_impl(_evaluate)
_tangents.def_abstract_eval(_same)
ad.primitive_transposes[_tangents] = lambda cotangents, *tangents, operation: list(cotangents)
batching.primitive_batchers[_tangents] = lambda values, dims, operation: _evaluate(
    operation=operation
)
mlir.register_lowering(
    _tangents, lambda ctx, *values, operation: _evaluate(operation=operation), cacheable=False
)
