"""The primitives through which kernels are called: one per operation, alike in all but name, which
is what jaxprs and
profilers show.

Parameters of a primitive: the operation, the names of the operands and results that this call has
(an absent operand means zero or none, an absent result is not computed), the spec, and sizes that
no operand shows. Abstract evaluation gives every result the leading extents, the explicit sharding
and the varying axes of the operands; the parameters' gradients are f32 (f64 beside f64).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax._src import dispatch
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from mhc_kernels.jax import _partition, _targets
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
    values = lift(*[operands[name] for name in inputs])
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


def bind(*values: Array, operation: str, **params: Any) -> Any:
    return PRIMITIVES[operation].bind(*values, operation=operation, **params)


def varying_axes(*values: Array) -> frozenset[str]:
    """The mesh axes of a shard_map over which any of the values varies."""
    axes: set[str] = set()
    for leaf in jax.tree.leaves(values):
        axes |= set(jax.typeof(leaf).manual_axis_type.varying)
    return frozenset(axes)


def lift(*values: Array) -> tuple[Array, ...]:
    """The values, each varying over the axes over which any of them does.

    What a custom gradient returns for a replicated parameter is one device's share. The transpose
    of this lift, which stands outside the custom gradient, adds the shares up, once. Values that
    lack the same axes are lifted together, so that their gradients are summed by one operation.
    """
    axes = varying_axes(*values)
    if not axes:
        return values
    lacking = [axes - varying_axes(v) for v in values]
    result = list(values)
    for missing in set(lacking) - {frozenset()}:
        where = [k for k, lack in enumerate(lacking) if lack == missing]
        lifted = jax.lax.pcast(
            tuple(values[k] for k in where), tuple(sorted(missing)), to="varying"
        )
        for k, value in zip(where, lifted):
            result[k] = value
    return tuple(result)


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
) -> list[Any]:
    del in_place
    signature = SIGNATURES[operation]
    reference, lead, sizes = _geometry(operation, inputs, avals, spec, dict(extra))
    activation = reference.dtype
    sharding = reference.sharding
    lead_spec = tuple(sharding.spec)[: len(lead)] + (None,) * (
        len(lead) - len(tuple(sharding.spec))
    )
    results = []
    for name in outputs:
        argument = signature.output(name)
        shape = argument.shape(lead, sizes)
        head = lead_spec if argument.tokens else ()
        spec_of = PartitionSpec(*head, *(None,) * (len(shape) - len(head)))
        results.append(
            reference.update(
                shape=shape,
                dtype=result_dtype(argument, activation),
                weak_type=False,
                sharding=NamedSharding(sharding.mesh, spec_of),
            )
        )
    return results


@functools.partial(
    jax.jit, static_argnames=("operation", "inputs", "outputs", "spec", "in_place", "extra")
)
def _compiled(*values: Array, **params: Any) -> Any:
    return bind(*values, **params)


def _eager(*values: Array, **params: Any) -> Any:
    return _compiled(*values, **{**params, "in_place": False})  # the caller still has the operands


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
    **params: Any,
) -> Any:
    """A mapped axis becomes one more axis of tokens. Where a parameter is mapped, or the gradient
    of one is wanted (it must stay per example), the kernel runs once per example instead."""
    signature = SIGNATURES[operation]
    run = functools.partial(bind, operation=operation, inputs=inputs, outputs=outputs, **params)
    mapped = [d if isinstance(d, int) else None for d in dims]
    size = next(v.shape[d] for v, d in zip(values, mapped) if d is not None)
    front = [v if d is None else jax.numpy.moveaxis(v, d, 0) for v, d in zip(values, mapped)]
    per_example = any(
        d is not None and not signature.input(n).tokens for n, d in zip(inputs, mapped)
    )
    per_example |= any(not signature.output(n).tokens for n in outputs)
    if not per_example:
        spread = [
            v
            if d is not None or not signature.input(n).tokens
            else jax.numpy.broadcast_to(v, (size, *v.shape))
            for n, v, d in zip(inputs, front, mapped)
        ]
        results = run(*spread)
    else:
        moving = [v for v, d in zip(front, mapped) if d is not None]

        def one(slices: Any) -> Any:
            rest = iter(slices)
            return run(*[v if d is None else next(rest) for v, d in zip(front, mapped)])

        results = jax.lax.map(one, moving)
    return results, [0] * len(results)


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
) -> Any:
    target = _targets.name_of(operation)
    attributes = _attributes(operation, inputs, outputs, spec, extra)
    aliases = _aliases(operation, inputs, outputs, in_place)
    lead = next(
        len(v.shape) - len(a.trailing)
        for v, a in zip(ctx.avals_in, map(SIGNATURES[operation].input, inputs))
        if a.tokens
    )
    if lead == 0 or not _partition.is_partitioned(ctx):
        rule = jax.ffi.ffi_lowering(target, operand_output_aliases=aliases)
        return rule(ctx, *values, **attributes)
    explicit = _partition.explicit_axes(ctx)
    if explicit:
        run = functools.partial(
            bind,
            operation=operation,
            inputs=inputs,
            outputs=outputs,
            spec=spec,
            in_place=in_place,
            extra=extra,
        )
        summed = [not SIGNATURES[operation].output(name).tokens for name in outputs]
        return mlir.lower_fun(
            _partition.by_types(ctx, explicit, run, summed), multiple_results=True
        )(ctx, *values)
    call_target = functools.partial(
        _partition.ffi_call, target, tuple(ctx.avals_out), aliases, attributes
    )
    shapes = [tuple(a.shape) for a in ctx.avals_out]
    sharded = _partition.partitioned(SIGNATURES[operation], inputs, outputs, shapes, call_target)
    return mlir.lower_fun(sharded, multiple_results=True)(_partition.without_types(ctx), *values)


def _lower_elsewhere(ctx: Any, *values: Any, operation: str, **params: Any) -> Any:
    del values, params
    platforms = ", ".join(ctx.platforms or ctx.module_context.platforms)
    raise NotImplementedError(
        f"{operation}: platform: expected cpu, which has kernels, got {platforms}; "
        'use implementation="reference" there'
    )


def _register(primitive: Primitive) -> None:
    primitive.multiple_results = True
    primitive.def_abstract_eval(_abstract)
    primitive.def_impl(_eager)
    ad.primitive_jvps[primitive] = _no_jvp
    batching.primitive_batchers[primitive] = _batch
    # The partitioner's callback needs to know the devices, which JAX otherwise leaves open while it
    # lowers. It finds out by looking for the primitives of this set; no public name leads to it.
    dispatch.prim_requires_devices_during_lowering.add(primitive)
    mlir.register_lowering(primitive, _lower_elsewhere)
    mlir.register_lowering(primitive, _lower_cpu, platform="cpu")


for _primitive in PRIMITIVES.values():
    _register(_primitive)
