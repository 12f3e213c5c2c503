"""A small language model trained with hyper-connections: kernels against plain code, and a plain
residual connection beside them.

    python -m mhc_kernels.demo                      everything, with a report; docs/demo.md

    from mhc_kernels.demo import Config, train
    result = train(Config(steps=100))               in this process

Needs JAX, flax, optax, orbax-checkpoint and rich (the package's extra `demo`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mhc_kernels.demo.config import Config

if TYPE_CHECKING:
    from mhc_kernels.demo.result import Result as Result
    from mhc_kernels.demo.training import train as train

__all__ = ["Config", "Result", "train"]


def __getattr__(name: str) -> object:
    # JAX reads its settings when it is imported: whoever only wants a Config may still change them.
    if name == "train":
        from mhc_kernels.demo.training import train

        return train
    if name == "Result":
        from mhc_kernels.demo.result import Result

        return Result
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
