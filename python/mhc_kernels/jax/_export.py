"""How jax.export writes the pytrees of this package, so that exported functions take and return
them as they are."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from jax import export

from mhc_kernels.jax._params import HeadParams, Params
from mhc_kernels.jax._partial import SumSquares
from mhc_kernels.jax._site import State
from mhc_kernels.manifolds import BY_NAME
from mhc_kernels.spec import Spec

# Stands in every exported program: it grows when the fields of a pytree change their meaning.
FORM = 1


def register(kind: type, static: tuple[str, ...] = ()) -> None:
    """kind: a dataclass of this package that is a pytree; static: its fields that are no arrays, in
    the order of its meta_fields: a Spec, text or numbers."""
    export.register_pytree_node_serialization(
        kind,
        serialized_name=f"{kind.__module__.split('.')[0]}.{kind.__name__}.v{FORM}",
        serialize_auxdata=lambda values: _write(dict(zip(static, values))),
        deserialize_auxdata=lambda text: tuple(_read(text)[name] for name in static),
    )


def _write(values: dict[str, Any]) -> bytes:
    plain = {k: _plain(v) if isinstance(v, Spec) else v for k, v in values.items()}
    return json.dumps(plain, sort_keys=True).encode()


def _read(text: bytes | bytearray) -> dict[str, Any]:
    values = json.loads(bytes(text))
    return {k: _spec(v) if isinstance(v, dict) else v for k, v in values.items()}


def _plain(spec: Spec) -> dict[str, Any]:
    fields = {f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)}
    manifold = fields.pop("manifold")
    return {**fields, "manifold": {"name": manifold.name, **dataclasses.asdict(manifold)}}


def _spec(fields: dict[str, Any]) -> Spec:
    options = dict(fields["manifold"])
    return Spec(**{**fields, "manifold": BY_NAME[options.pop("name")](**options)})


register(Params)
register(HeadParams)
register(SumSquares, ("embedding",))
register(State, ("_spec", "_implementation"))
