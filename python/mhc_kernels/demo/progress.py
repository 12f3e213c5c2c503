"""What a user sees of a run: a bar in a terminal, else a line per evaluation."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich import progress
from rich.console import Console

from mhc_kernels.demo.config import Config

# The speed is that of the last so many steps.
RECENT = 20


class Progress:
    """A context whose `show` is told what train tells."""

    def __init__(self, name: str, config: Config, console: Console | None = None) -> None:
        self.name, self.config = name, config
        self.console = console or Console()
        self.held_out = float("nan")
        self.ends: list[float] = []
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[state]}"),
            console=self.console,
            transient=False,
        )

    def __enter__(self) -> "Progress":
        self.task = self.bar.add_task(
            f"{self.name:13}", total=self.config.steps, state="preparing the program"
        )
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.bar.stop()

    def show(self, kind: str, row: dict[str, Any]) -> None:
        if kind == "train":
            self.ends = [*self.ends[-RECENT:], time.perf_counter()]
            state = self.state(row)
            self.bar.update(self.task, completed=row["step"], state=state)
        elif kind == "held_out":
            self.held_out = row["loss"]
            if not self.console.is_terminal:
                state = self.state(row) if self.ends else f"held out {row['loss']:.3f}"
                print(f"{self.name:13} {row['step']:5}/{self.config.steps}  {state}", flush=True)

    def state(self, row: dict[str, Any]) -> str:
        """Loss, held-out loss, tokens per second, time left."""
        text = f"loss {row['loss']:.3f}  held out {self.held_out:.3f}"
        if len(self.ends) > 1:
            seconds = (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)
            tokens = self.config.batch * self.config.sequence / seconds
            left = round(seconds * (self.config.steps - row["step"]))
            text += f"  {tokens:,.0f} tokens/s  {left // 60}:{left % 60:02} left"
        return text
