"""Kernels on sharded arrays under plain jit, Auto or Explicit axes, without a shard_map by the
user.

Explicit axes stand in the operands' types: the call is wrapped in the shard_map that they describe.
Auto axes are
XLA's to decide:
To XLA a custom call is opaque: it would gather all operands. The rule given here says that every
leading extent (tokens) may be sharded, over any axes, and that all else is replicated; each device
then calls the kernel on its tokens, and the parameters' gradients are summed over the axes that the
tokens are sharded over.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from mhc_kernels.jax._signatures import Argument, Signature


def is_partitioned(ctx: Any) -> bool:
    """Whether XLA's partitioner still has something to divide: several devices, and not all axes
    manual."""
    axis_context = ctx.module_context.axis_context
    devices = getattr(axis_context, "num_devices", None)
    if devices is not None:
        return bool(devices > 1)
    manual = getattr(axis_context, "manual_axes", None)
    mesh = getattr(axis_context, "mesh", None)
    return mesh is not None and mesh.size > 1 and set(manual or ()) != set(mesh.axis_names)


def explicit_axes(ctx: Any) -> frozenset[str]:
    """The mesh axes that the operands' types speak of."""
    mesh = ctx.avals_in[0].sharding.mesh
    kinds = zip(mesh.axis_names, getattr(mesh, "axis_types", ()))
    return frozenset(name for name, kind in kinds if kind == jax.sharding.AxisType.Explicit)


def by_types(
    ctx: Any, axes: frozenset[str], bind: Callable[..., Any], summed: list[bool]
) -> Callable[..., Any]:
    """bind in a shard_map over explicit axes, divided as the types say. summed: which results are
    sums over tokens."""
    lead = next(
        (a.sharding.spec for a in ctx.avals_in if any(e is not None for e in a.sharding.spec)), ()
    )
    over = _flat(lead)

    def on_each_device(*values: Any) -> Any:
        results = list(bind(*values))
        where = [k for k, s in enumerate(summed) if s]
        if over and where:
            for k, total in zip(where, jax.lax.psum(tuple(results[k] for k in where), over)):
                results[k] = total
        return tuple(results)

    specs = lambda avals: tuple(PartitionSpec(*a.sharding.spec) for a in avals)
    return jax.shard_map(
        on_each_device,
        mesh=ctx.avals_in[0].sharding.mesh,
        in_specs=specs(ctx.avals_in),
        out_specs=specs(ctx.avals_out),
        axis_names=axes,
        check_vma=False,
    )


def without_types(ctx: Any) -> Any:
    """The same lowering context, with types of shape and element alone: XLA's partitioner decides
    the rest."""
    plain = lambda avals: [jax.core.ShapedArray(a.shape, a.dtype) for a in avals]
    return ctx.replace(avals_in=plain(ctx.avals_in), avals_out=plain(ctx.avals_out))


def ffi_call(
    target: str,
    avals_out: Any,
    aliases: dict[int, int],
    attributes: dict[str, Any],
    shapes: Any,
    *values: Any,
) -> list[Any]:
    """The custom call on one device's part; shapes are those of its results."""
    results = [jax.ShapeDtypeStruct(shape, aval.dtype) for shape, aval in zip(shapes, avals_out)]
    return list(
        jax.ffi.ffi_call(target, results, input_output_aliases=aliases)(*values, **attributes)
    )


def _rule(
    inputs: list[Argument], outputs: list[Argument], ranks: list[int]
) -> tuple[str, tuple[str, ...]]:
    """Factors l0, l1, ... for the leading extents, shared by all; one of its own for every other
    extent."""
    names = (f"r{k}" for k in itertools.count())
    replicated: list[str] = []

    def one(argument: Argument, rank: int) -> str:
        lead = rank - len(argument.trailing)
        own = [next(names) for _ in argument.trailing]
        replicated.extend(own)
        return " ".join([f"l{k}" for k in range(lead)] + own)

    words = [one(a, r) for a, r in zip(inputs + outputs, ranks)]
    split = len(inputs)
    return f"{', '.join(words[:split])} -> {', '.join(words[split:])}", tuple(replicated)


def _flat(entries: Any) -> tuple[str, ...]:
    """The mesh axes in a partition spec."""
    axes: list[str] = []
    for entry in entries:
        if entry is not None:
            axes.extend(entry if isinstance(entry, tuple) else (entry,))
    return tuple(axes)


def _even(spec: tuple[Any, ...], extents: tuple[int, ...], mesh: Any) -> tuple[Any, ...]:
    """The spec of the leading extents; those that their axes do not divide stay whole."""
    entries = (spec + (None,) * len(extents))[: len(extents)]
    parts = lambda entry: math.prod(mesh.shape[a] for a in _flat((entry,)))
    return tuple(e if extent % parts(e) == 0 else None for e, extent in zip(entries, extents))


def partitioned(
    signature: Signature,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    shapes: list[tuple[int, ...]],
    call: Callable[..., list[Any]],
) -> Callable[..., Any]:
    """call(shapes of results, *values) as a function of global arrays that XLA may divide by
    tokens."""
    ins, outs = [signature.input(n) for n in inputs], [signature.output(n) for n in outputs]
    reference = next(k for k, a in enumerate(ins) if a.tokens)
    trailing = len(ins[reference].trailing)

    def lower(*values: Any) -> Any:
        @custom_partitioning
        def whole(*values: Any) -> Any:
            return tuple(call(shapes, *values))

        def partition(mesh: Any, arguments: Any, results: Any) -> Any:
            shape = tuple(arguments[reference].shape)
            lead = _even(
                tuple(arguments[reference].sharding.spec), shape[: len(shape) - trailing], mesh
            )
            axes = _flat(lead)

            def on(argument: Argument) -> NamedSharding:
                tail = (None,) * len(argument.trailing)
                return NamedSharding(mesh, PartitionSpec(*(lead if argument.tokens else ()), *tail))

            local = [
                on(a).shard_shape(tuple(r.shape)) for a, r in zip(outs, jax.tree.leaves(results))
            ]

            def on_each_device(*parts: Any) -> Any:
                found = call(local, *parts)
                sums = [k for k, a in enumerate(outs) if not a.tokens]
                if axes and sums:
                    for k, total in zip(sums, jax.lax.psum(tuple(found[k] for k in sums), axes)):
                        found[k] = total
                return tuple(found)

            return mesh, on_each_device, tuple(on(a) for a in outs), tuple(on(a) for a in ins)

        ranks = [len(v.shape) for v in values] + [len(s) for s in shapes]
        rule, replicated = _rule(ins, outs, ranks)
        whole.def_partition(
            partition=partition, sharding_rule=rule, need_replication_factors=replicated
        )
        return whole(*values)

    return lower
