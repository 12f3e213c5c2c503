"""What a run was and what came out, as run.json holds it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from mhc_kernels.demo.config import Config

NO_NUMBER = 1e30


@dataclasses.dataclass
class Result:
    """A run, also one that was stopped early.

    digest: of the text. finished: whether all steps of config were made.
    train: dicts of step (from 1), loss (nats per byte, before that step's update) and seconds
      (spent in steps up to then; neither compiling nor evaluating); held_out: the same for the
      held-out text, of the parameters behind that step, from step 0 on.
    seconds: that the run took in all its processes, with compiling, evaluating and sampling.
    steps_per_second: of the median step, which other programs on the machine disturb least;
      tokens_per_second: that times batch and sequence. processor_seconds: of all cores, for the
      median step, which does not count the time that other programs take.
    peak_bytes: the most memory that the process had by the end of training; temporary_bytes: what
      XLA plans for one step beside parameters and optimiser; compile_seconds: of the last process
      that made steps.
    samples: dicts of prompt and text. streams: see streams.py, None for a plain residual.
    error: why the run ended before its last step, where that was a NaN.
    """

    config: Config
    digest: str = ""
    finished: bool = False
    parameters: int = 0
    train: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    held_out: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    steps_per_second: float = 0.0
    tokens_per_second: float = 0.0
    processor_seconds: float = 0.0
    peak_bytes: int = 0
    temporary_bytes: int = 0
    compile_seconds: float = 0.0
    samples: list[dict[str, str]] = dataclasses.field(default_factory=list)
    streams: dict[str, Any] | None = None
    error: str | None = None

    @property
    def losses(self) -> list[float]:
        """The training loss of each step."""
        return [row["loss"] for row in self.train]

    def to_json(self, **more: Any) -> dict[str, Any]:
        """Plain types, with some of the config's fields beside it and what the caller adds."""
        of_config = {k: getattr(self.config, k) for k in ("implementation", "residual", "manifold")}
        return {**more, **of_config, **dataclasses.asdict(self)}


def write_json(file: Path, value: Any) -> None:
    """All of it or nothing: a crash leaves the file that was there before. JSON has no infinity and
    no NaN: numbers that are not finite, or beyond it, are NO_NUMBER, with the sign of an infinity.
    """
    part = file.with_name(f".{file.name}.part")
    part.write_text(json.dumps(_finite(value), indent=1, allow_nan=False) + "\n")
    os.replace(part, file)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not abs(value) < NO_NUMBER:
        return -NO_NUMBER if value < 0 else NO_NUMBER
    return value
