"""Pictures of training: loss by step and by time, speed and memory of the runs, the benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mhc_kernels.bench import report as bench_report
from mhc_kernels.demo.report.data import Data, Json

_SMOOTHING = 0.9


def smooth(values: Any) -> Any:
    """Running mean that forgets: each value counts 0.9 as much as the next, and no start bias."""
    total = weight = 0.0
    result = []
    for value in values:
        total = _SMOOTHING * total + value
        weight = _SMOOTHING * weight + 1
        result.append(total / weight)
    return np.array(result)


def loss(data: Data, axis: str) -> Figure:
    """Held-out loss with marks, training loss smoothed and pale; axis is "step" or "seconds"."""
    figure = Figure(figsize=(8, 4.2))
    draw_loss(figure.subplots(), data, list(data.runs), axis)
    return figure


def draw_loss(axes: Any, data: Data, names: list[str], axis: str) -> None:
    for name in names:
        run = data.runs[name]
        train, held_out = (
            {key: [point[key] for point in run[kind]] for key in (axis, "loss")}
            for kind in ("train", "held_out")
        )
        color, title = data.color(name), run["title"]
        axes.plot(train[axis], smooth(train["loss"]), color=color, alpha=0.35, lw=1)
        axes.plot(held_out[axis], held_out["loss"], color=color, marker=".", label=title)
    axes.set_xlabel({"step": "step", "seconds": "seconds of training"}[axis])
    axes.set_ylabel("loss, nats per byte")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, axis="y")
    axes.legend(title="held out (pale: training, smoothed)", loc="upper right", fontsize=8)


def runs(data: Data) -> Figure:
    """Speed and memory of each run, each in a process of its own."""
    figure = Figure(figsize=(10, 0.45 * len(data.runs) + 1.2))
    panels = figure.subplots(1, 4, sharey=True)
    titles = [run["title"] for run in data.runs.values()]
    colors = [data.color(name) for name in data.runs]
    for axes, key, scale, label in zip(
        panels,
        ("steps_per_second", "processor_seconds", "temporary_bytes", "peak_bytes"),
        (1.0, 1.0, 2**20, 2**20),
        ("steps per second", "processor seconds\nper step", "MiB for a step", "MiB at the peak"),
    ):
        bars = axes.barh(titles, [r[key] / scale for r in data.runs.values()], color=colors)
        axes.bar_label(bars, fmt=lambda v: f"{v:,.0f}" if v >= 100 else f"{v:.3g}", padding=3)
        axes.margins(x=0.3)
        axes.set_xlabel(label)
    panels[0].invert_yaxis()
    return figure


def bench(found: Json) -> Figure:
    """One site, forward and backward, along the paths of `python -m mhc_kernels.bench`."""
    drawn: Figure = bench_report.figure(
        [r for r in found["rows"] if r["pass"] == "forward_backward"]
    )
    return drawn
