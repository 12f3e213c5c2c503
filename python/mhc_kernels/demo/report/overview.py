"""The picture that comes first: what the kernels save, and what the manifold is for."""

from __future__ import annotations

from matplotlib.figure import Figure

from mhc_kernels.demo.report import curves, streams
from mhc_kernels.demo.report.data import Data


def overview(data: Data) -> Figure:
    """Loss by time of the run and of those it is compared with, and the gain through depth."""
    compared = [name for name in data.runs if name in ("kernel", "reference", "plain")]
    with_gain = bool(data.with_streams)
    figure = Figure(figsize=(11 if with_gain else 6, 3.8))
    panels = figure.subplots(1, 1 + with_gain, squeeze=False)[0]
    curves.draw_loss(panels[0], data, compared or list(data.runs), "seconds")
    panels[0].set_title("one seed, three ways: loss by time")
    if with_gain:
        streams.draw_gain(panels[1], data)
        panels[1].set_title("what the product of h_res does through depth")
    return figure
