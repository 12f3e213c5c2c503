"""Pictures of the residual streams: how they are read, written and mixed, by depth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from mhc_kernels.demo.report.data import Data, Json

_COLUMNS = 6


def _limits(values: Any) -> dict[str, Any]:
    """Colours from 0 where nothing is negative, else as far on both sides of 0."""
    most = max(float(np.max(np.abs(values))), 1e-30)
    if np.min(values) >= 0:
        return {"vmin": 0.0, "vmax": most, "cmap": "viridis"}
    return {"vmin": -most, "vmax": most, "cmap": "RdBu_r"}


def _by_site(axes: Any, sites: int) -> None:
    axes.set_xlabel("site, from the bottom")
    axes.set_xlim(0.7, sites + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, axis="y")


def _logarithmic(axes: Any) -> None:
    """With plain numbers at the ticks."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    plain = FuncFormatter(lambda value, place: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain if high < 8 * low else NullFormatter())


def h_res(run: Json) -> Figure:
    """Mean h_res of every site: row i is the stream it comes from, column j where it goes."""
    layers = run["streams"]["layers"]
    matrices = np.array([layer["h_res"] for layer in layers])
    limits = _limits(matrices)
    rows = math.ceil(len(layers) / _COLUMNS)
    columns = min(len(layers), _COLUMNS)
    figure = Figure(figsize=(1.55 * columns + 0.6, 1.75 * rows + 0.3))
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, layer, matrix in zip(grid, layers, matrices):
        image = axes.imshow(matrix, **limits)
        axes.set_title(layer["name"])
        axes.set_xticks([])
        axes.set_yticks([])
        if len(matrix) <= 4:
            _numbers(axes, matrix, image)
    figure.colorbar(image, ax=grid, shrink=0.8)
    for axes in grid[len(layers) :]:
        axes.remove()
    return figure


def _numbers(axes: Any, matrix: Any, image: Any) -> None:
    for (i, j), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        color = "white" if dark else "black"
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=color)


def gates(run: Json) -> Figure:
    """h_pre and h_post of every stream, means over tokens, one row per site."""
    layers = run["streams"]["layers"]
    figure = Figure(figsize=(7, 0.28 * len(layers) + 1.2))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key in zip(panels, ("h_pre", "h_post")):
        values = np.array([layer[key] for layer in layers])
        image = axes.imshow(values, aspect="auto", **_limits(values))
        axes.set_title(f"{key}: {'read by' if key == 'h_pre' else 'written by'} the site")
        axes.set_xlabel("stream")
        axes.set_xticks(range(values.shape[1]))
        figure.colorbar(image, ax=axes)
    panels[0].set_yticks(range(len(layers)), [layer["name"] for layer in layers])
    return figure


def sums(data: Data) -> Figure:
    """Row and column sums of h_res: the mean of each stream's, and the worst distance from one."""
    runs = data.with_streams
    figure = Figure(figsize=(11, 3.4))
    panels = figure.subplots(1, 3)
    for name, run in runs.items():
        layers = run["streams"]["layers"]
        places = range(1, len(layers) + 1)
        for axes, side, line in ((panels[0], "row", "-"), (panels[1], "column", "--")):
            of_streams = np.array([layer[f"{side}_sums"] for layer in layers])
            label = [run["title"]] + [None] * (of_streams.shape[1] - 1)
            axes.plot(places, of_streams, line, color=data.color(name), lw=1, label=label)
            axes.set_title(f"mean {side} sums, one line per stream")
            worst = [max(layer[f"{side}_error"], 1e-9) for layer in layers]
            title = f"{run['title']}, {side}s"
            panels[2].plot(places, worst, line, color=data.color(name), label=title)
    panels[2].set_title("worst distance of a sum from 1")
    _logarithmic(panels[2])
    for axes in panels:
        _by_site(axes, len(layers))
        axes.legend(fontsize=7)
    return figure


def gain(data: Data) -> Figure:
    """What the product of h_res does to the largest signal, from the first site on."""
    figure = Figure(figsize=(8, 3.4))
    draw_gain(figure.subplots(), data)
    return figure


def draw_gain(axes: Any, data: Data) -> None:
    for name, run in data.with_streams.items():
        for way, line in (("forward", "-"), ("backward", "--")):
            values = [v if v is not None else math.nan for v in run["streams"]["gain"][way]]
            label = f"{run['title']}, {way}"
            axes.plot(range(1, len(values) + 1), values, line, color=data.color(name), label=label)
    axes.axhline(1.0, lw=0.8, color="gray")
    _logarithmic(axes)
    _by_site(axes, len(values))
    axes.set_ylabel("largest sum, worst token")
    axes.legend(fontsize=7)


def entropy(run: Json) -> Figure | None:
    """Of the weights of the permutations, beside the most there can be; None for others."""
    layers = run["streams"]["layers"]
    values = [layer.get("permutation_entropy") for layer in layers]
    if any(value is None for value in values) or len(layers[0]["h_res"]) == 1:
        return None
    figure = Figure(figsize=(8, 2.8))
    axes = figure.subplots()
    axes.bar(range(len(values)), values)
    most = math.log(math.factorial(len(layers[0]["h_res"])))
    axes.axhline(most, lw=0.8, color="gray")
    axes.annotate("all permutations alike", (len(values) - 0.5, most), ha="right", va="bottom")
    axes.set_ylim(0, most * 1.2)
    axes.set_xticks(range(len(values)), [layer["name"] for layer in layers], rotation=60)
    axes.set_ylabel("entropy, nats")
    return figure


def norms(data: Data) -> Figure:
    """Root mean square of each stream through depth; the last place is behind the last site."""
    runs = data.with_streams
    figure = Figure(figsize=(4.6 * len(runs), 3.2))
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for axes, run in zip(panels, runs.values()):
        found = run["streams"]
        values = np.array([layer["stream_norm"] for layer in found["layers"]])
        values = np.concatenate([values, [found["stream_norm_out"]]])
        for i in range(values.shape[1]):
            axes.plot(range(1, len(values) + 1), values[:, i], label=f"stream {i}")
        axes.set_title(run["title"])
        _by_site(axes, len(values))
    panels[0].set_ylabel("root mean square")
    panels[0].legend(fontsize=7)
    return figure
