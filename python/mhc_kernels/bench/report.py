"""Results as a table, as JSON, and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def group_of(row: Row) -> tuple[Any, ...]:
    """What rows have in common whose paths are compared."""
    return (row["allocator"], row["manifold"], row["pass"], row["remat"])


def add_ratios(rows: list[Row]) -> None:
    """speed_up, and the ratios of temporary memory and of bytes, against `plain` under the same
    conditions."""
    plain = {group_of(r): r for r in rows if r["path"] == "plain"}
    for row in rows:
        base = plain.get(group_of(row))
        if base is not None:
            row["speed_up"] = base["us_per_token"] / row["us_per_token"]
            row["temp_ratio"] = base["temp_bytes"] / max(row["temp_bytes"], 1)
            row["bytes_ratio"] = base["bytes_per_token"] / max(row["bytes_per_token"], 1.0)


HEADERS = (
    "allocator",
    "manifold",
    "pass",
    "remat",
    "path",
    "us/token",
    "spread",
    "speed-up",
    "temp MiB",
    "saved MiB",
    "KiB/token",
    "bytes ratio",
)


def cells(row: Row) -> list[str]:
    ratio = lambda key: f"{row[key]:.1f}" if key in row else ""
    mib = lambda key: f"{row[key] / 2**20:.1f}"
    return [
        row["allocator"],
        row["manifold"],
        row["pass"],
        "yes" if row["remat"] else "no",
        row["path"],
        f"{row['us_per_token']:.2f}",
        f"{row['spread']:.0%}",
        ratio("speed_up"),
        mib("temp_bytes"),
        mib("saved_bytes"),
        f"{row['bytes_per_token'] / 1024:.0f}",
        ratio("bytes_ratio"),
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
    """Bars of us per token, one group per condition; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = list(dict.fromkeys(map(group_of, rows)))
    paths = list(dict.fromkeys(r["path"] for r in rows))
    figure, axes = plt.subplots(figsize=(1.2 * len(groups) + 3, 4.5))
    for k, path_name in enumerate(paths):
        of = {group_of(r): r["us_per_token"] for r in rows if r["path"] == path_name}
        bars = axes.bar(
            [i + k * 0.8 / len(paths) for i in range(len(groups))],
            [of.get(g, 0) for g in groups],
            0.8 / len(paths),
            label=path_name,
        )
        axes.bar_label(bars, fmt="%.3g", fontsize=7)
    labels = [
        "\n".join([g[0], g[1], g[2].replace("_", "\n"), "remat" if g[3] else ""]) for g in groups
    ]
    axes.set_xticks([i + 0.4 - 0.4 / len(paths) for i in range(len(groups))], labels, fontsize=7)
    axes.set_yscale("log")
    axes.set_ylabel("us per token")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True
