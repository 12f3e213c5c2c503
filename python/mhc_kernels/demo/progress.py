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
        self.loss = self.held_out = float("nan")
        self.seconds: list[float] = []
        self.start = (0.0, 0)
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
            if not self.seconds:
                self.start = (time.perf_counter(), row["step"])
            self.loss = row["loss"]
            self.seconds = [*self.seconds[-RECENT:], row["seconds"]]
            self.bar.update(self.task, completed=row["step"], state=self.state(row["step"]))
        elif kind == "held_out":
            self.held_out = row["loss"]
            if not self.console.is_terminal:
                state = self.state(row["step"])
                print(f"{self.name:13} {row['step']:5}/{self.config.steps}  {state}", flush=True)

    def state(self, step: int) -> str:
        """Loss, held-out loss, tokens per second of the last steps, time left with evaluations."""
        text = f"held out {self.held_out:.3f}"
        if self.seconds:
            text = f"loss {self.loss:.3f}  " + text
        if len(self.seconds) > 1:
            spent = (self.seconds[-1] - self.seconds[0]) / (len(self.seconds) - 1)
            tokens = self.config.batch * self.config.sequence / spent
            begin, first = self.start
            each = (time.perf_counter() - begin) / (step - first)
            left = round(each * (self.config.steps - step))
            text += f"  {tokens:,.0f} tokens/s  {left // 60}:{left % 60:02} left"
        return text
