"""Explicit mesh axes: shardings that stand in the types of values.

The tokens of a call's operands must be divided alike, and all else whole. Operands that are not are
resharded where that is meant (a branch's output that no device has a part of), and refused by name
where it is not (features divided, two operands divided differently). The call itself then runs in
the shard_map that the types describe.
"""

from __future__ import annotations

from typing import Any, Callable

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from mhc_kernels.jax._signatures import ARGUMENTS

Array = Any


def mesh_of(*avals: Any) -> Any:
    """The mesh that the types speak of: that of the first that has one."""
    meshes = [aval.sharding.mesh for aval in avals]
    return next((mesh for mesh in meshes if not mesh.empty), meshes[0])


def axes_of(mesh: Any) -> frozenset[str]:
    """The explicit axes of a mesh."""
    kinds = zip(mesh.axis_names, mesh.axis_types)
    return frozenset(name for name, kind in kinds if kind == AxisType.Explicit)


def entries_of(aval: Any) -> tuple[Any, ...]:
    """One entry of the partition spec per axis of the value."""
    spec = tuple(aval.sharding.spec)
    return spec + (None,) * (len(aval.shape) - len(spec))


def flat(entries: Any) -> tuple[str, ...]:
    """The mesh axes in a partition spec."""
    axes: list[str] = []
    for entry in entries:
        if entry is not None:
            axes.extend(entry if isinstance(entry, tuple) else (entry,))
    return tuple(axes)


def resharded(value: Array, mesh: Any, entries: tuple[Any, ...]) -> Array:
    if entries == entries_of(jax.typeof(value)):
        return value
    return jax.sharding.reshard(value, NamedSharding(mesh, PartitionSpec(*entries)))


def replicated(value: Array) -> Array:
    """The value on every device, where its type says that it is sharded over explicit axes."""
    return resharded(value, jax.typeof(value).sharding.mesh, (None,) * value.ndim)


def aligned(operation: str, operands: dict[str, Array]) -> dict[str, Array]:
    """The operands with their tokens divided alike.

    An extent is divided as any of the operands has it; operands in which it is whole are resharded.
    Raises ValueError where two operands disagree, or where features or streams are divided.
    """
    avals = {name: jax.typeof(value) for name, value in operands.items()}
    if not avals or not axes_of(mesh := mesh_of(*avals.values())):
        return operands
    leads = {n: len(a.shape) - len(ARGUMENTS[n].trailing) for n, a in avals.items()}
    joined: list[Any] = [None] * max(leads.values())
    whose = [""] * len(joined)
    for name, aval in avals.items():
        entries = entries_of(aval)
        if any(entry is not None for entry in entries[leads[name] :]):
            raise ValueError(
                f"{operation}: {name}: expected only leading extents sharded over explicit mesh "
                f"axes, got {aval.str_short(True)}; jax.sharding.reshard it, or see "
                "project_partial for features that stay divided"
            )
        for k, entry in enumerate(entries[: leads[name]]):
            if entry is None or entry == joined[k]:
                continue
            others = [w for w, e in zip(whose, joined) if set(flat((e,))) & set(flat((entry,)))]
            if joined[k] is not None or others:
                other = whose[k] or others[0]
                raise ValueError(
                    f"{operation}: {name}: expected its leading extents sharded as those of "
                    f"{other}, {avals[other].str_short(True)}, got {aval.str_short(True)}; "
                    "jax.sharding.reshard one of them"
                )
            joined[k], whose[k] = entry, name
    return {
        name: resharded(
            value,
            mesh,
            tuple(joined[: leads[name]]) + (None,) * len(ARGUMENTS[name].trailing),
        )
        for name, value in operands.items()
    }


def by_types(
    avals_in: Any,
    avals_out: Any,
    run: Callable[..., Any],
    summed: tuple[int, ...],
    over: tuple[str, ...],
) -> Callable[..., Any]:
    """run in a shard_map over the explicit axes, divided as the types say; the results `summed` are
    added up over the axes `over`."""
    mesh = mesh_of(*avals_in)

    def on_each_device(*values: Any) -> Any:
        results = list(run(*values))
        if over and summed:
            for k, total in zip(summed, jax.lax.psum(tuple(results[k] for k in summed), over)):
                results[k] = total
        return tuple(results)

    specs = lambda avals: tuple(PartitionSpec(*entries_of(a)) for a in avals)
    divided: Callable[..., Any] = jax.shard_map(
        on_each_device,
        mesh=mesh,
        in_specs=specs(avals_in),
        out_specs=specs(avals_out),
        axis_names=axes_of(mesh),
        check_vma=False,
    )
    return divided
