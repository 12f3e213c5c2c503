"""Kernels on sharded arrays where the division is XLA's to decide: Auto mesh axes under plain jit,
and those that a shard_map leaves to it.

To XLA a custom call is opaque: it would gather all operands. The rule given here says that every
leading extent (tokens) may be sharded, over any axes, and that all else is replicated; each device
then calls the kernel on its tokens, and the parameters' gradients are summed over the devices that
the tokens are divided over.

XLA asks with its own shardings: a grid of tiles, the devices in the order of the tiles. They are
used as they are. Mesh axes cannot be read from them: a reshape divides over a part of an axis, and
within a shard_map over some of the axes XLA counts the devices of one group, in an order of its
own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, Callable

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh
from numpy.typing import NDArray

from mhc_kernels.jax._signatures import Argument, Signature

Devices = NDArray[np.int_]  # their numbers

# The one axis over which the sums inside of a partitioned call run: all devices.
_DEVICES = "devices"


def groups(ctx: Any) -> Devices:
    """The devices among which XLA divides, numbered as the program counts them: one row for each
    place on the manual mesh axes, [1, devices] where there are none."""
    axis_context = ctx.module_context.axis_context
    devices = getattr(axis_context, "num_devices", None)
    if devices is not None:
        return np.arange(devices)[None]
    mesh = getattr(axis_context, "mesh", None)
    if mesh is None or mesh.empty:
        return np.zeros((1, 1), int)
    manual = [k for k, name in enumerate(mesh.axis_names) if name in axis_context.manual_axes]
    sizes = tuple(mesh.shape[name] for name in mesh.axis_names)
    front = np.moveaxis(np.arange(mesh.size).reshape(sizes), manual, range(len(manual)))
    return front.reshape(math.prod(sizes[k] for k in manual), -1)


def knows_devices(ctx: Any) -> bool:
    """Whether the partitioner's callback can be set up."""
    return getattr(ctx.module_context.axis_context, "device_assignment", ()) is not None


def without_types(ctx: Any) -> Any:
    """The same lowering context, with types of shape and element alone: XLA's partitioner decides
    the rest."""
    plain = lambda avals: [jax.core.ShapedArray(a.shape, a.dtype) for a in avals]
    return ctx.replace(avals_in=plain(ctx.avals_in), avals_out=plain(ctx.avals_out))


def ffi_call(
    target: str,
    dtypes: list[Any],
    aliases: dict[int, int],
    attributes: dict[str, Any],
    shapes: Any,
    *values: Any,
) -> list[Any]:
    """The custom call on one device's part; shapes are those of its results."""
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
    return list(
        jax.ffi.ffi_call(target, results, input_output_aliases=aliases)(*values, **attributes)
    )


def _rule(arguments: list[Argument], inputs: int, ranks: list[int]) -> tuple[str, tuple[str, ...]]:
    """Factors l0, l1, ... for the leading extents, shared by all; one of its own for every other
    extent."""
    names = (f"r{k}" for k in itertools.count())
    replicated: list[str] = []

    def one(argument: Argument, rank: int) -> str:
        lead = rank - len(argument.trailing)
        own = [next(names) for _ in argument.trailing]
        replicated.extend(own)
        return " ".join([f"l{k}" for k in range(lead)] + own)

    words = [one(a, r) for a, r in zip(arguments, ranks)]
    return f"{', '.join(words[:inputs])} -> {', '.join(words[inputs:])}", tuple(replicated)


@dataclasses.dataclass(frozen=True)
class Tiles:
    """How the leading extents are divided. grid: [tiles of each extent ..., copies] of devices, as
    the sharding counts them; a single one where nothing is divided."""

    grid: Devices
    sharding: Any  # whose kind is used for others

    counts = property(lambda self: self.grid.shape[:-1])

    @classmethod
    def of(cls, shape: tuple[int, ...], sharding: Any, lead: int) -> Tiles:
        hlo = sharding._to_xla_hlo_sharding(len(shape))
        if not hlo.is_tiled():
            return cls(np.zeros((1,) * (lead + 1), int), sharding)
        tiles = hlo.tile_assignment_dimensions()
        grid = np.array(hlo.tile_assignment_devices()).reshape(*tiles[:lead], -1)
        # An extent that its devices do not divide stays whole: they have copies of it.
        for k in range(lead):
            if shape[k] % grid.shape[k]:
                grid = np.expand_dims(np.moveaxis(grid, k, -1), k)
                grid = grid.reshape(*grid.shape[:lead], -1)
        return cls(grid, sharding)

    def whole(self, first: int) -> Tiles:
        """The same with the extents from the first on undivided."""
        counts = self.counts[:first] + (1,) * (len(self.counts) - first)
        return dataclasses.replace(self, grid=self.grid.reshape(*counts, -1))

    def local(self, shape: tuple[int, ...], lead: int) -> tuple[int, ...]:
        return tuple(e // c for e, c in zip(shape[:lead], self.counts)) + tuple(shape[lead:])

    def on(self, rank: int, lead: int) -> Any:
        """The sharding of a value of which the first `lead` extents are these and all else is
        whole."""
        hlo = self.sharding._to_xla_hlo_sharding(rank)
        counts = self.counts[:lead]
        if math.prod(counts) == 1:
            return type(self.sharding)(self._devices, type(hlo).replicate())
        proto = hlo.to_proto()
        copies = self.grid.size // math.prod(counts)
        proto.iota_reshape_dims, proto.iota_transpose_perm = [], []
        proto.last_tile_dims, proto.replicate_on_last_tile_dim = [], copies > 1
        proto.tile_assignment_dimensions = [
            *counts,
            *(1,) * (rank - lead),
            *(copies,) * (copies > 1),
        ]
        proto.tile_assignment_devices = self.grid.reshape(-1).tolist()
        return type(self.sharding)(self._devices, proto)

    @property
    def _devices(self) -> tuple[Any, ...]:
        return tuple(self.sharding.device_set)

    def reducers(self, first: int, devices: Devices) -> tuple[list[list[int]], float]:
        """The groups of devices over which the extents from the first on are added up, and the
        factor that undoes the copies which a group then counts too."""
        kept = math.prod(self.counts[:first])
        if len(devices) == 1:
            order = np.moveaxis(self.grid.reshape(kept, -1, self.grid.shape[-1]), 1, 2)
            return order.reshape(-1, order.shape[-1]).tolist(), 1.0
        assert kept == 1
        return devices.tolist(), 1.0 / self.grid.shape[-1]


def partitioned(
    signature: Signature,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    shapes: list[tuple[int, ...]],
    examples: int,
    devices: Devices,
    call: Callable[..., list[Any]],
) -> Callable[..., Any]:
    """call(shapes of results, *values) as a function of global arrays that XLA may divide by
    leading extents. examples: how many of them parameters or their gradients have too, so that
    nothing is summed over these. devices: see groups."""
    ins, outs = [signature.input(n) for n in inputs], [signature.output(n) for n in outputs]
    reference = next(k for k, a in enumerate(ins) if a.tokens)
    sums = [k for k, a in enumerate(outs) if not a.tokens]

    def lower(*values: Any) -> Any:
        @custom_partitioning
        def whole(*values: Any) -> Any:
            return tuple(call(shapes, *values))

        lead_of = lambda argument, value: len(value.shape) - len(argument.trailing)

        def partition(mesh: Any, arguments: Any, results: Any) -> Any:
            del mesh
            one = arguments[reference]
            tiles = Tiles.of(tuple(one.shape), one.sharding, lead_of(ins[reference], one))
            if sums and len(devices) > 1 and math.prod(tiles.counts[:examples]) > 1:
                # Which devices share an example is not known here.
                tiles = tiles.whole(examples)
            if tiles.grid.size not in (1, devices.shape[1]):
                raise NotImplementedError(
                    f"a sharding of {tiles.grid.size} devices, where XLA has {devices.shape[1]}"
                )
            on = lambda a, value: tiles.on(len(value.shape), lead_of(a, value))
            results = jax.tree.leaves(results)
            local = [tiles.local(tuple(r.shape), lead_of(a, r)) for a, r in zip(outs, results)]
            add = math.prod(tiles.counts[examples:]) > 1

            def on_each_device(*parts: Any) -> Any:
                # XLA asks under whatever mesh its caller has set, of which nothing holds here.
                with jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
                    found = call(local, *parts)
                    if add and sums:
                        among, factor = tiles.reducers(examples, devices)
                        shares = tuple(found[k] for k in sums)
                        if factor != 1.0:
                            shares = tuple(s * factor for s in shares)
                        totals = jax.lax.psum(shares, _DEVICES, axis_index_groups=among)
                        for k, total in zip(sums, totals):
                            found[k] = total
                return tuple(found)

            every = AbstractMesh((devices.size,), (_DEVICES,))
            return (
                every,
                on_each_device,
                tuple(map(on, outs, results)),
                tuple(map(on, ins, arguments)),
            )

        ranks = [len(v.shape) for v in values] + [len(s) for s in shapes]
        rule, replicated = _rule(ins + outs, len(ins), ranks)
        whole.def_partition(
            partition=partition,
            sharding_rule=rule,
            need_replication_factors=replicated,
            decode_shardings=False,
        )
        return whole(*values)

    return lower
