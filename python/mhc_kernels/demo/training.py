"""The loop: steps, evaluations, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any, Callable

import jax

from mhc_kernels.demo import checkpoint, model, step, text
from mhc_kernels.demo.config import Config
from mhc_kernels.demo.memory import peak_bytes
from mhc_kernels.demo.result import Result
from mhc_kernels.demo.sampling import sample
from mhc_kernels.demo.streams import watch

# show(kind, row): "train" or "held_out" with a row of the result, "saved" with a step
Show = Callable[[str, dict[str, Any]], None]

# Checkpoints in a run, beside the last.
SAVES = 4
# Fields of the result, measured while there are steps to make, that a checkpoint keeps.
_KEPT = ("peak_bytes", "temporary_bytes", "compile_seconds")


class NotFinite(FloatingPointError):
    """A NaN or an infinity; the message names step, layer and the last good checkpoint. result:
    what there was until then."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


def train(
    config: Config,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    stop: Callable[[int], bool] | None = None,
    show: Show | None = None,
) -> Result:
    """Trains the model that config describes, in this process.

    folder: for checkpoints, in folder/checkpoints, replacing an earlier run there; or None to keep
      nothing.
    resume: continues from the newest checkpoint there, bit for bit as if nothing had happened;
      begins where there is none.
    stop(step): is asked behind each step, and ends the run with a checkpoint when it is true.
    show(kind, row): is told what happens.

    Raises ValueError in one line, before anything is written, where text or devices do not do or a
    checkpoint is of another run; NotFinite at the first step that is not finite, with the last good
    checkpoint kept.
    """
    if resume and folder is None:
        raise ValueError("resume: expected a folder, got None")
    placement = step.Placement(config)
    data = text.load(config)
    with contextlib.ExitStack() as stack:
        saves = None
        if folder is not None:
            saves = stack.enter_context(checkpoint.opened(Path(folder), resume=resume))
        run = _Run(config, data, placement, saves, show or (lambda kind, row: None))
        if resume and saves is not None and saves.latest is not None:
            run.restore(Path(folder or ""))
        return run.go(stop or (lambda step: False))


class _Run:
    def __init__(
        self,
        config: Config,
        data: text.Text,
        placement: step.Placement,
        saves: checkpoint.Checkpoints | None,
        show: Show,
    ) -> None:
        self.config, self.data, self.placement = config, data, placement
        self.saves, self.show = saves, show
        self.result = Result(config, data.digest)
        self.structure = model.structure(config)
        self.state = placement.replicated(step.init(config))
        self.result.parameters = sum(leaf.size for leaf in jax.tree.leaves(self.state["params"]))
        self.done = 0
        self.processor: list[float] = []
        self.start = time.perf_counter()
        self.seconds_before = 0.0

    def restore(self, folder: Path) -> None:
        assert self.saves is not None and self.saves.latest is not None
        history = self.saves.history()
        checkpoint.check_same_run(history, self.config, self.data.digest, folder)
        self.state = self.saves.state(self.state)
        self.done = self.saves.latest
        self.result.train, self.result.held_out = history["train"], history["held_out"]
        for field in _KEPT:
            setattr(self.result, field, history[field])
        self.processor, self.seconds_before = history["processor"], history["seconds"]

    def save(self) -> None:
        if self.saves is None:
            return
        self._measure()
        history = {
            "config": dataclasses.asdict(self.config),
            "digest": self.data.digest,
            "train": self.result.train,
            "held_out": self.result.held_out,
            "processor": self.processor,
            **{field: getattr(self.result, field) for field in ("seconds", *_KEPT)},
        }
        self.saves.save(self.done, self.state, history)
        self.show("saved", {"step": self.done})

    def go(self, stop: Callable[[int], bool]) -> Result:
        config, result = self.config, self.result
        if self.done < config.steps:
            self._compile()
            if not result.held_out:
                self._evaluate()
        every = max(1, config.steps // SAVES)
        while self.done < config.steps:
            self._step()
            if self.done % config.evaluate_every == 0 or self.done == config.steps:
                self._evaluate()
            stopped = stop(self.done)
            if stopped or self.done % every == 0 or self.done == config.steps:
                self.save()
            if stopped:
                break
        result.finished = self.done == config.steps
        self._measure()
        if result.finished:
            params = self.state["params"]
            result.samples = sample(self.structure, params, config, self.data)
            if config.residual == "hyper":
                batch = self.placement.batch(text.held_out_batches(self.data, config)[0])
                result.streams = watch(self.structure, params, config, batch)
            result.seconds = self._seconds()
        return result

    def _compile(self) -> None:
        start = time.perf_counter()
        jitted = jax.jit(step.step_of(self.structure, self.config), donate_argnums=0)
        batch = self.placement.batch(text.batch(self.data, self.config, 1))
        self.program = jitted.lower(self.state, batch).compile()
        self.result.compile_seconds = time.perf_counter() - start
        analysis = self.program.memory_analysis()
        self.result.temporary_bytes = analysis.temp_size_in_bytes if analysis else 0
        self.loss = jax.jit(lambda params, batch: step.loss_of(self.structure, params, batch)[0])

    def _step(self) -> None:
        batch = self.placement.batch(text.batch(self.data, self.config, self.done + 1))
        start, busy = time.perf_counter(), time.process_time()
        self.state, metrics = self.program(self.state, batch)
        metrics = jax.device_get(metrics)
        seconds = time.perf_counter() - start
        self.processor.append(time.process_time() - busy)
        bad = step.first_bad(metrics, self.config.sites)
        if bad is not None:
            self.result.error = f"step {self.done + 1}: {bad} is not finite; {self._last_good()}"
            self._measure()
            raise NotFinite(self.result.error, self.result)
        rows = self.result.train
        before = rows[-1]["seconds"] if rows else 0.0
        self.done += 1
        row = {"step": self.done, "loss": float(metrics["loss"]), "seconds": before + seconds}
        rows.append(row)
        self.show("train", row)

    def _last_good(self) -> str:
        latest = self.saves.latest if self.saves is not None else None
        if latest is None:
            return "there is no checkpoint"
        return f"the last good checkpoint is that of step {latest}"

    def _evaluate(self) -> None:
        batches = map(self.placement.batch, text.held_out_batches(self.data, self.config))
        losses = [float(self.loss(self.state["params"], batch)) for batch in batches]
        rows = self.result.train
        row = {
            "step": self.done,
            "loss": statistics.fmean(losses),
            "seconds": rows[-1]["seconds"] if rows else 0.0,
        }
        self.result.held_out.append(row)
        self.show("held_out", row)

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.start

    def _measure(self) -> None:
        result, config = self.result, self.config
        result.seconds = self._seconds()
        result.peak_bytes = max(result.peak_bytes, peak_bytes())
        ends = [0.0, *(row["seconds"] for row in result.train)]
        spent = [b - a for a, b in zip(ends, ends[1:])]
        if spent:
            result.steps_per_second = 1 / statistics.median(spent)
            result.tokens_per_second = result.steps_per_second * config.batch * config.sequence
        if self.processor:
            result.processor_seconds = statistics.median(self.processor)
