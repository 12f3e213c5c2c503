"""Pictures of the residual streams: how they are read, written and mixed, by depth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from mhc_kernels.demo.report.data import Data, Json

_COLUMNS = 6


def _limits(values: Any) -> dict[str, Any]:
    """Colours from 0 where nothing is negative, else about 0."""
    low, high = float(np.min(values)), max(float(np.max(values)), 1e-30)
    if low >= 0:
        return {"vmin": 0.0, "vmax": high, "cmap": "viridis"}
    return {"norm": TwoSlopeNorm(0.0, min(low, -1e-30), high), "cmap": "RdBu_r"}


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
    """How far row and column sums of h_res are from one at worst, and their means."""
    figure = Figure(figsize=(8, 3.4))
    means, errors = figure.subplots(1, 2)
    for k, run in enumerate(data.with_streams.values()):
        layers = run["streams"]["layers"]
        for side, line in (("row", "-"), ("column", "--")):
            label = f"{run['title']}, {side}s"
            spread = np.array([layer[f"{side}_sums"] for layer in layers])
            means.plot(spread.mean(axis=1), line, color=f"C{k}", label=label)
            worst = [max(layer[f"{side}_error"], 1e-9) for layer in layers]
            errors.plot(worst, line, color=f"C{k}", label=label)
    means.set_title("mean sum")
    errors.set_title("worst distance of a sum from 1, over tokens")
    errors.set_yscale("log")
    for axes in (means, errors):
        axes.set_xlabel("site")
        axes.grid(True, axis="y")
    means.legend(fontsize=7)
    return figure


def gain(data: Data) -> Figure:
    """What the product of h_res does to the largest signal, from the first site on."""
    figure = Figure(figsize=(8, 3.4))
    draw_gain(figure.subplots(), data.with_streams)
    return figure


def draw_gain(axes: Any, runs: dict[str, Json]) -> None:
    for k, run in enumerate(runs.values()):
        for way, line in (("forward", "-"), ("backward", "--")):
            values = run["streams"]["gain"][way]
            label = f"{run['title']}, {way}"
            axes.plot(range(1, len(values) + 1), values, line, color=f"C{k}", label=label)
    axes.axhline(1.0, lw=0.8, color="gray")
    axes.set_yscale("log")
    axes.set_xlabel("sites multiplied")
    axes.set_ylabel("largest sum, worst token")
    axes.grid(True, axis="y")
    axes.legend(fontsize=7)


def entropy(run: Json) -> Figure | None:
    """Of the weights of the permutations, beside the most there can be; None for others."""
    layers = run["streams"]["layers"]
    values = [layer.get("permutation_entropy") for layer in layers]
    if any(value is None for value in values):
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
    """Root mean square of each stream through depth."""
    runs = data.with_streams
    figure = Figure(figsize=(4.2 * len(runs), 3.2))
    panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for axes, run in zip(panels, runs.values()):
        found = run["streams"]
        values = np.array([layer["stream_norm"] for layer in found["layers"]])
        values = np.concatenate([values, [found["stream_norm_out"]]])
        for i in range(values.shape[1]):
            axes.plot(values[:, i], label=f"stream {i}")
        axes.set_title(run["title"])
        axes.set_xlabel("site")
        axes.set_yscale("log")
        axes.grid(True, axis="y")
    panels[0].set_ylabel("rms")
    panels[0].legend(fontsize=7)
    return figure
