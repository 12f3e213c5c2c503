"""The primitives through which kernels are called: one per operation, alike in all but name, which
is what jaxprs and profilers show.

Parameters of a primitive: the operation, the names of the operands and results that this call has
(an absent operand means zero or none, an absent result is not computed), the spec, sizes that no
operand shows, and the number of examples' axes. Abstract evaluation gives every result the leading
extents, the explicit sharding and the varying axes of the operands; the parameters' gradients are
f32 (f64 beside f64).

Examples' axes are those of a vmap under which parameters or their gradients differ per example.
They stand in front of all leading extents, in front of the parameters' gradients, and in front of
the parameters that have them; the kernel runs once per example.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from mhc_kernels.jax import _explicit, _partition, _targets
from mhc_kernels.jax._reverse_only import refuse
from mhc_kernels.jax._signatures import IN_PLACE, SIGNATURES, Argument, sizes_of
from mhc_kernels.spec import Spec

Array = Any

PRIMITIVES = {operation: Primitive(f"mhc_{operation}") for operation in SIGNATURES}


def call(
    operation: str,
    operands: dict[str, Array | None],
    outputs: tuple[str, ...],
    spec: Spec | None = None,
    *,
    in_place: bool = False,
    **extra: int,
) -> dict[str, Array]:
    """Runs a kernel: names to arrays in, names to arrays out.

    operands: those that are None are absent. outputs: what is wanted; order does not matter.
    in_place: the results of IN_PLACE take their operand's memory (XLA copies first if others read
      it).
    extra: sizes that no operand shows, such as embedding_total.
    """
    signature = SIGNATURES[operation]
    inputs = tuple(a.name for a in signature.inputs if operands.get(a.name) is not None)
    wanted = tuple(a.name for a in signature.outputs if a.name in outputs)
    if not wanted:
        return {}
    values = lift(operation, **{name: operands[name] for name in inputs})
    results = bind(
        *values,
        operation=operation,
        inputs=inputs,
        outputs=wanted,
        spec=spec,
        in_place=in_place,
        extra=tuple(sorted(extra.items())),
    )
    return dict(zip(wanted, results))


def bind(*values: Array, operation: str, examples: int = 0, **params: Any) -> Any:
    return PRIMITIVES[operation].bind(*values, operation=operation, examples=examples, **params)


def varying_axes(*values: Array) -> frozenset[str]:
    """The mesh axes of a shard_map over which any of the values varies."""
    axes: set[str] = set()
    for leaf in jax.tree.leaves(values):
        axes |= set(jax.typeof(leaf).manual_axis_type.varying)
    return frozenset(axes)


def lift(operation: str, **operands: Array | None) -> tuple[Any, ...]:
    """The operands, in the order given, with their tokens divided alike over explicit mesh axes,
    each varying over the manual axes over which any of them does. Those that are None stay.

    What a custom gradient returns for a replicated operand is one device's share. The transpose of
    this lift, which stands outside the custom gradient, adds the shares up, once. Values that lack
    the same axes are lifted together, so that their gradients are summed by one operation.
    """
    values = {name: value for name, value in operands.items() if value is not None}
    values = _explicit.aligned(operation, values)
    axes = varying_axes(*values.values())
    lacking = {name: axes - varying_axes(value) for name, value in values.items()}
    for missing in set(lacking.values()) - {frozenset()}:
        names = [name for name, lack in lacking.items() if lack == missing]
        lifted = jax.lax.pcast(
            tuple(values[name] for name in names), tuple(sorted(missing)), to="varying"
        )
        values.update(zip(names, lifted))
    return tuple(values.get(name) for name in operands)


# ---- Abstract evaluation
# --------------------------------------------------------------------------


def _geometry(
    operation: str, inputs: tuple[str, ...], avals: Any, spec: Spec | None, extra: dict[str, int]
) -> Any:
    """The operand that shows the tokens, their extents, and n, D, m."""
    signature = SIGNATURES[operation]
    reference, lead = None, ()
    sizes: dict[str, int] = {}
    for name, aval in zip(inputs, avals):
        argument = signature.input(name)
        first = len(aval.shape) - len(argument.trailing)
        sizes.update(zip(argument.trailing, aval.shape[first:]))
        if argument.tokens and reference is None:
            reference, lead = aval, aval.shape[:first]
    streams = spec.streams if spec is not None else extra.get("copies", sizes.get("n", 0))
    return (
        reference,
        lead,
        {**sizes_of(operation, spec, streams, sizes.get("D", 0)), **sizes, "n": streams},
    )


def result_dtype(argument: Argument, activation: Any) -> Any:
    """x's type for activations; f32, or f64 beside f64, for gates and gradients of parameters."""
    if argument.type == "A":
        return np.dtype(activation)
    return np.dtype(np.float64 if activation == np.float64 else np.float32)


def _abstract(
    *avals: Any,
    operation: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    spec: Spec | None,
    in_place: bool,
    extra: tuple[tuple[str, int], ...],
    examples: int,
) -> list[Any]:
    del in_place
    signature = SIGNATURES[operation]
    reference, lead, sizes = _geometry(operation, inputs, avals, spec, dict(extra))
    activation = reference.dtype
    mesh, divided = _explicit.mesh_of(*avals), _explicit.entries_of(reference)
    results = []
    for name in outputs:
        argument = signature.output(name)
        own = len(lead) if argument.tokens else examples
        shape = lead[:own] + argument.shape((), sizes)
        spec_of = PartitionSpec(*divided[:own], *(None,) * (len(shape) - own))
        results.append(
            reference.update(
                shape=shape,
                dtype=result_dtype(argument, activation),
                weak_type=False,
                sharding=NamedSharding(mesh, spec_of),
            )
        )
    return results


@functools.partial(
    jax.jit,
    static_argnames=("operation", "inputs", "outputs", "spec", "in_place", "extra", "examples"),
)
def _compiled(*values: Array, **params: Any) -> Any:
    return bind(*values, **params)


def _eager(*values: Array, **params: Any) -> Any:
    params["in_place"] = False  # the caller still has the operands
    with jax.disable_jit(False):  # which would come back here
        return _compiled(*values, **params)


# ---- Differentiation
# ------------------------------------------------------------------------------


def _no_jvp(primals: Any, tangents: Any, *, operation: str, **params: Any) -> Any:
    del primals, tangents, params
    raise refuse(operation)


# ---- vmap
# -----------------------------------------------------------------------------------------


def _batch(
    values: Any,
    dims: Any,
    *,
    operation: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    examples: int,
    **params: Any,
) -> Any:
    """A mapped axis becomes one more axis of tokens. Where a parameter is mapped, or the gradient
    of one is wanted (it must stay per example), it becomes an axis of examples instead."""
    signature = SIGNATURES[operation]
    mapped = {n: d for n, d in zip(inputs, dims) if isinstance(d, int)}
    front = {
        n: jax.numpy.moveaxis(v, mapped[n], 0) if n in mapped else v for n, v in zip(inputs, values)
    }
    size = next(front[n].shape[0] for n in mapped)
    per_example = (
        examples > 0
        or any(not signature.input(n).tokens for n in mapped)
        or any(not signature.output(n).tokens for n in outputs)
    )
    # The examples that the call has already: a parameter has all of them or none.
    n = next(n for n in inputs if signature.input(n).tokens)
    inner = tuple(front[n].shape[n in mapped :][:examples])

    def spread(n: str, v: Array) -> Array:
        """The value with the mapped axis, and with all examples' axes if it has any."""
        argument, moved = signature.input(n), n in mapped
        if argument.tokens or v.ndim - moved > len(argument.trailing):
            return jax.numpy.broadcast_to(v, (size, *v.shape[moved:]))
        if not moved:
            return v
        own = v.shape[1:]
        v = v.reshape(size, *(1,) * examples, *own)
        return jax.numpy.broadcast_to(v, (size, *inner, *own))

    operands = {n: spread(n, v) for n, v in front.items()}
    results = bind(
        *_explicit.aligned(operation, operands).values(),
        operation=operation,
        inputs=inputs,
        outputs=outputs,
        examples=examples + 1 if per_example else 0,
        **params,
    )
    return results, [0] * len(results)


def _per_example(
    run: Callable[..., Any], arguments: list[Argument], examples: int
) -> Callable[..., Any]:
    """run on each example in turn; arguments are those of its operands."""
    if not examples:
        return run

    def loop(*values: Any) -> Any:
        ranks = [examples - 1 + len(a.trailing) for a in arguments]
        moving = [a.tokens or v.ndim > r for a, v, r in zip(arguments, values, ranks)]
        inner = _per_example(run, arguments, examples - 1)

        def one(slices: Any) -> Any:
            rest = iter(slices)
            return tuple(inner(*[next(rest) if m else v for v, m in zip(values, moving)]))

        return jax.lax.map(one, [v for v, m in zip(values, moving) if m])

    return loop


# ---- Lowering
# -------------------------------------------------------------------------------------


def _attributes(
    operation: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    spec: Spec | None,
    extra: tuple[tuple[str, int], ...],
) -> dict[str, Any]:
    signature = SIGNATURES[operation]
    mask = lambda arguments, present: sum(
        1 << k for k, a in enumerate(arguments) if a.name in present
    )
    return {
        "inputs": np.int64(mask(signature.inputs, inputs)),
        "outputs": np.int64(mask(signature.outputs, outputs)),
        **{name: np.int64(value) for name, value in extra},
        **({} if spec is None else _targets.spec_attributes(spec)),
    }


def _aliases(
    operation: str, inputs: tuple[str, ...], outputs: tuple[str, ...], in_place: bool
) -> dict[int, int]:
    pairs = IN_PLACE.get(operation, {}) if in_place else {}
    return {
        inputs.index(i): outputs.index(o)
        for o, names in pairs.items()
        if o in outputs
        for i in names
        if i in inputs
    }


def _lower_cpu(
    ctx: Any,
    *values: Any,
    operation: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    spec: Spec | None,
    in_place: bool,
    extra: tuple[tuple[str, int], ...],
    examples: int,
) -> Any:
    signature = SIGNATURES[operation]
    arguments = [signature.input(name) for name in inputs]
    target = _targets.name_of(operation)
    attributes = _attributes(operation, inputs, outputs, spec, extra)
    aliases = _aliases(operation, inputs, outputs, in_place)
    run = functools.partial(
        bind,
        operation=operation,
        inputs=inputs,
        outputs=outputs,
        spec=spec,
        in_place=in_place,
        extra=extra,
    )
    devices = _partition.groups(ctx)
    reference, argument = next(p for p in zip(ctx.avals_in, arguments) if p[1].tokens)
    lead = len(reference.shape) - len(argument.trailing)
    if lead == 0 or devices.shape[1] == 1:
        if examples:
            looped = _per_example(run, arguments, examples)
            return mlir.lower_fun(looped, multiple_results=True)(ctx, *values)
        rule = jax.ffi.ffi_lowering(target, operand_output_aliases=aliases)
        return rule(ctx, *values, **attributes)
    if _explicit.axes_of(_explicit.mesh_of(*ctx.avals_in)):
        divided = _explicit.by_types(
            ctx.avals_in,
            ctx.avals_out,
            functools.partial(run, examples=examples),
            tuple(k for k, name in enumerate(outputs) if not signature.output(name).tokens),
            _explicit.flat(_explicit.entries_of(reference)[examples:lead]),
        )
        return mlir.lower_fun(divided, multiple_results=True)(ctx, *values)
    if not _partition.knows_devices(ctx):
        raise NotImplementedError(
            f"{operation}: jax {jax.__version__} lowers it without naming the devices, which is "
            "needed where mesh axes are Auto: use explicit axes (jax.sharding.explicit_axes) or a "
            "shard_map"
        )
    dtypes = [a.dtype for a in ctx.avals_out]

    def local(shapes: Any, *parts: Any) -> Any:
        own = [
            shape[len(shape) - len(a.trailing) - (lead - examples if a.tokens else 0) :]
            for shape, a in zip(shapes, map(signature.output, outputs))
        ]
        call_target = functools.partial(
            _partition.ffi_call, target, dtypes, aliases, attributes, own
        )
        return list(_per_example(call_target, arguments, examples)(*parts))

    shapes = [tuple(a.shape) for a in ctx.avals_out]
    sharded = _partition.partitioned(signature, inputs, outputs, shapes, examples, devices, local)
    return mlir.lower_fun(sharded, multiple_results=True)(_partition.without_types(ctx), *values)


def _lower_elsewhere(ctx: Any, *values: Any, operation: str, **params: Any) -> Any:
    del values, params
    platforms = ", ".join(ctx.platforms or ctx.module_context.platforms)
    raise NotImplementedError(
        f"{operation}: platform: expected cpu, which has kernels, got {platforms}; "
        'use implementation="reference" there'
    )


def _needing_devices() -> set[Any]:
    """JAX's set of primitives that must know the devices when they are lowered.

    The partitioner's callback needs them, and JAX otherwise leaves them open; it finds out by
    looking for the primitives of this set. No public name leads to it. Where a later JAX has no
    such set, all works that needs no partitioner, and the rest is refused by name when lowered.
    """
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering
    except ImportError:
        return set()
    return prim_requires_devices_during_lowering


def _register(primitive: Primitive) -> None:
    primitive.multiple_results = True
    primitive.def_abstract_eval(_abstract)
    primitive.def_impl(_eager)
    ad.primitive_jvps[primitive] = _no_jvp
    batching.primitive_batchers[primitive] = _batch
    _needing_devices().add(primitive)
    mlir.register_lowering(primitive, _lower_elsewhere)
    mlir.register_lowering(primitive, _lower_cpu, platform="cpu")


for _primitive in PRIMITIVES.values():
    _register(_primitive)
