"""What one training run is: everything that its losses depend on, as one frozen value."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from mhc_kernels import manifolds
from mhc_kernels.spec import Spec

# Its successor is an int32 too: JAX's keys take no more on every setting.
MOST_SEED = 2**31 - 2
_CHOICES = {"implementation": ("kernel", "reference"), "residual": ("hyper", "plain")}
# At least, and whether the type is int.
_LEAST = {
    "layers": 1,
    "embedding": 1,
    "heads": 1,
    "steps": 1,
    "batch": 1,
    "sequence": 2,
    "devices": 1,
    "seed": 0,
    "evaluations": 1,
    "held_out_batches": 1,
    "sample_bytes": 0,
}


@dataclasses.dataclass(frozen=True)
class Config:
    """One run; frozen, validated when made.

    manifold: of h_res: permutation, sinkhorn, unconstrained or identity.
    streams: n, 1 to the manifold's limit.
    residual: "hyper", or "plain" for x + branch(x), which has neither manifold nor streams.
    implementation: of the hyper-connections, "kernel" or "reference".
    layers: each of one attention and one MLP, both wrapped; embedding: D; heads: divide D into even
      parts.
    steps: of the optimiser, which is also the length of the learning rate's schedule.
    batch, sequence: sequences per step and bytes per sequence; batch is a multiple of devices.
    remat: recomputes each layer in backward.
    devices: over which the batch is sharded.
    seed: of parameters and batches, 0 to MOST_SEED.
    text: a file or a folder, or None for the Python standard library.
    learning_rate: the highest; warmup: share of the steps until it is reached.
    evaluations: how often the held-out loss is taken after the first time; held_out_batches: over
      how many batches.
    sample_bytes: how much text is sampled per prompt at the end.

    Raises ValueError naming the field, what was wanted and what was got.

    >>> Config(manifold="sphere")
    Traceback (most recent call last):
    ValueError: manifold: expected sinkhorn, permutation, unconstrained or identity, got 'sphere'
    """

    manifold: str = "permutation"
    streams: int = 4
    residual: str = "hyper"
    implementation: str = "kernel"
    layers: int = 4
    embedding: int = 128
    heads: int = 4
    steps: int = 240
    batch: int = 8
    sequence: int = 128
    remat: bool = False
    devices: int = 1
    seed: int = 0
    text: str | None = None
    learning_rate: float = 5e-3
    warmup: float = 0.1
    evaluations: int = 15
    held_out_batches: int = 4
    sample_bytes: int = 240

    def __post_init__(self) -> None:
        if self.manifold not in manifolds.BY_NAME:
            *first, last = manifolds.BY_NAME
            raise _wrong("manifold", f"{', '.join(first)} or {last}", self.manifold)
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                wanted = " or ".join(f'"{c}"' for c in choices)
                raise _wrong(field, wanted, getattr(self, field))
        for field, least in _LEAST.items():
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _wrong(field, f"a whole number of at least {least}", value)
        if self.seed > MOST_SEED:
            raise _wrong("seed", f"0 to {MOST_SEED}", self.seed)
        most = manifolds.BY_NAME[self.manifold].max_streams
        if not isinstance(self.streams, int) or not 1 <= self.streams <= most:
            raise _wrong("streams", f"1 to {most} for manifold {self.manifold}", self.streams)
        if self.embedding % (2 * self.heads):
            raise _wrong("embedding", f"a multiple of 2*heads={2 * self.heads}", self.embedding)
        if self.batch % self.devices:
            raise _wrong("batch", f"a multiple of devices={self.devices}", self.batch)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise _wrong("learning_rate", "a finite number above 0", self.learning_rate)
        if not 0 <= self.warmup <= 1:
            raise _wrong("warmup", "0 to 1", self.warmup)

    @property
    def spec(self) -> Spec:
        """The conventions of the hyper-connections."""
        return Spec(streams=self.streams, manifold=manifolds.BY_NAME[self.manifold]())

    @property
    def sites(self) -> list[str]:
        """The names of the wrapped branches, in their order."""
        return [f"{k} {kind}" for k in range(self.layers) for kind in ("attention", "mlp")]

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations; there is one before the first step and one at the end."""
        return max(1, self.steps // self.evaluations)

    def replace(self, **changes: Any) -> "Config":
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)


def _wrong(field: str, wanted: str, got: Any) -> ValueError:
    return ValueError(f"{field}: expected {wanted}, got {got!r}")
