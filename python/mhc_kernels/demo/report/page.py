"""The page: pictures drawn once per theme and kept inside it, tables, text."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from mhc_kernels import equality
from mhc_kernels.bench import report as bench_report
from mhc_kernels.demo.report import curves, streams
from mhc_kernels.demo.report.data import Data, read
from mhc_kernels.demo.report.overview import overview
from mhc_kernels.demo.report.style import THEMES, theme

Drawing = Callable[[], Figure | None]
# Patterns of what `write` makes, the pictures by the names in `drawings`: not whatever else a folder
# called pictures may hold.
_PICTURES = "overview loss_by_step loss_by_time runs bench h_res_* gates sums gain entropy norms"
MADE = ("report.html", *(f"pictures/{name}.png" for name in _PICTURES.split()))


def write(out: Path) -> Path:
    """Writes out/report.html and out/pictures/*.png from the JSON in out; returns the page's path.

    Raises FileNotFoundError where out has no summary.json or a run of it is missing.
    """
    data = read(out)
    (out / "pictures").mkdir(exist_ok=True)
    drawn = {n: save(draw, out / "pictures" / f"{n}.png") for n, draw in drawings(data).items()}
    page = _template().render(
        summary=data.summary,
        runs=data.runs,
        main=next(iter(data.runs.values())),
        streams=data.with_streams,
        equality=data.equality,
        equality_headers=equality.HEADERS,
        equality_cells=equality.cells,
        bench=data.bench,
        bench_headers=bench_report.HEADERS,
        bench_cells=bench_report.cells,
        pictures={name: uris for name, uris in drawn.items() if uris},
        passed=all(check["passed"] for check in data.summary["checks"]),
    )
    file = out / "report.html"
    file.write_text(page, encoding="utf-8")
    return file


def drawings(data: Data) -> dict[str, Drawing]:
    """By the names of their PNG files."""
    found: dict[str, Drawing] = {
        "overview": lambda: overview(data),
        "loss_by_step": lambda: curves.loss(data, "step"),
        "loss_by_time": lambda: curves.loss(data, "seconds"),
        "runs": lambda: curves.runs(data),
    }
    bench = data.bench
    if bench is not None:
        found["bench"] = lambda: curves.bench(bench)
    if not data.with_streams:
        return found
    for name, run in data.with_streams.items():
        found[f"h_res_{name}"] = lambda run=run: streams.h_res(run)  # type: ignore[misc]
    first = next(iter(data.with_streams.values()))
    return found | {
        "gates": lambda: streams.gates(first),
        "sums": lambda: streams.sums(data),
        "gain": lambda: streams.gain(data),
        "entropy": lambda: streams.entropy(first),
        "norms": lambda: streams.norms(data),
    }


def save(draw: Drawing, png: Path) -> dict[str, str] | None:
    """By theme, the picture as a data URI, and on white as a PNG; None where there is nothing to
    draw."""
    found = {}
    for name in THEMES:
        with theme(name):
            figure = draw()
            if figure is None:
                return None
            buffer = io.BytesIO()
            figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
            if name == "light":
                figure.savefig(png, dpi=130, bbox_inches="tight", facecolor="white")
        found[name] = "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
    return found


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mhc_kernels.demo.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template("page.html.jinja")


def number(value: Any, digits: int = 3) -> str:
    """1234567 as 1,234,567; 0.123456 as 0.123; True as yes."""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
