"""Colours and sizes of the pictures, once for light pages and once for dark ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import matplotlib
from cycler import cycler

THEMES = ("light", "dark")
# Told apart by people who see few colours, and readable on both backgrounds.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f")
_INK = {"light": "#1f2328", "dark": "#e6edf3"}
_GRID = {"light": "#d0d7de", "dark": "#3d444d"}


@contextlib.contextmanager
def theme(name: str) -> Iterator[None]:
    """Everything drawn and saved inside has this theme; backgrounds are the page's."""
    ink, grid = _INK[name], _GRID[name]
    with matplotlib.rc_context(
        {
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "axes.edgecolor": grid,
            "axes.labelcolor": ink,
            "axes.grid": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 9,
            "axes.titlecolor": ink,
            "axes.prop_cycle": cycler(color=COLORS),
            "font.size": 9,
            "grid.color": grid,
            "legend.frameon": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "mhc",  # the same picture is the same file
            "text.color": ink,
            "xtick.color": ink,
            "ytick.color": ink,
        }
    ):
        yield
