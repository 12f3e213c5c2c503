"""Results as a table, as JSON, and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def group_of(row: Row) -> tuple[Any, ...]:
    """What rows have in common whose paths are compared."""
    return tuple(row[k] for k in ("allocator", "manifold", "pass", "remat", "branch"))


def add_ratios(rows: list[Row]) -> None:
    """Against `plain` under the same conditions: speed_up, and the ratios of temporary memory and
    of bytes. Against the library without JAX (`core`): core_ratio of the path `kernel`."""
    by_path = {(r["path"], *group_of(r)): r for r in rows}
    for row in rows:
        base = by_path.get(("plain", *group_of(row)))
        if base is not None:
            row["speed_up"] = base["us_per_token"] / row["us_per_token"]
            for ratio, key in (("temp_ratio", "temp_bytes"), ("bytes_ratio", "bytes_per_token")):
                if key in row:
                    row[ratio] = base[key] / max(row[key], 1)
        core = by_path.get(("core", *group_of(row)))
        if core is not None and row["path"] == "kernel":
            row["core_ratio"] = row["us_per_token"] / core["us_per_token"]


HEADERS = (
    "allocator",
    "manifold",
    "pass",
    "remat",
    "branch",
    "path",
    "us/token",
    "spread",
    "speed-up",
    "times core",
    "temp MiB",
    "less",
    "saved MiB",
    "KiB/token",
    "less",
)


def cells(row: Row) -> list[str]:
    number = lambda key, scale=1.0: f"{row[key] / scale:.1f}" if key in row else ""
    return [
        row["allocator"],
        row["manifold"],
        row["pass"],
        "yes" if row["remat"] else "no",
        row["branch"],
        row["path"],
        f"{row['us_per_token']:.2f}",
        f"{row['spread']:.0%}",
        number("speed_up"),
        f"{row['core_ratio']:.2f}" if "core_ratio" in row else "",
        number("temp_bytes", 2**20),
        number("temp_ratio"),
        number("saved_bytes", 2**20),
        number("bytes_per_token", 2**10),
        number("bytes_ratio"),
    ]


def table(rows: list[Row]) -> str:
    lines = [list(HEADERS)] + [cells(r) for r in rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEADERS))]
    out = [" | ".join(c.ljust(w) for c, w in zip(line, widths)) for line in lines]
    return "\n".join(
        ["| " + out[0] + " |", "|" + "|".join("-" * (w + 2) for w in widths) + "|"]
        + ["| " + o + " |" for o in out[1:]]
    )


def save(path: Path, rows: list[Row], machine: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def picture(path: Path, rows: list[Row]) -> bool:
    """Saves the figure; False where matplotlib is not installed."""
    try:
        figure(rows).savefig(path, dpi=120)
    except ImportError:
        return False
    return True


def figure(rows: list[Row]) -> Any:
    """Bars of time and of temporary memory, one group per condition."""
    from matplotlib.figure import Figure

    width = 1.2 * len(set(map(group_of, rows))) + 3
    drawn = Figure(figsize=(width, 8))
    panels = drawn.subplots(2, 1, sharex=True)
    for axes, key, scale, label in (
        (panels[0], "us_per_token", 1.0, "us per token"),
        (panels[1], "temp_bytes", 2**20, "temporary memory, MiB"),
    ):
        _bars(axes, rows, key, scale)
        axes.set_ylabel(label)
    panels[0].legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    drawn.tight_layout()
    return drawn


def _bars(axes: Any, rows: list[Row], key: str, scale: float) -> None:
    groups = list(dict.fromkeys(map(group_of, rows)))
    paths = list(dict.fromkeys(r["path"] for r in rows))
    width = 0.8 / len(paths)
    for k, path in enumerate(paths):
        shown = [r for r in rows if r["path"] == path and r.get(key, 0) > 0]
        places = [groups.index(group_of(r)) + k * width for r in shown]
        bars = axes.bar(places, [r[key] / scale for r in shown], width, label=path)
        axes.bar_label(bars, fmt="%.3g", fontsize=7)
    labels = [
        "\n".join([g[0], g[1], g[2].replace("_", "\n"), "remat" if g[3] else "", g[4]])
        for g in groups
    ]
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(groups))], labels, fontsize=7)
