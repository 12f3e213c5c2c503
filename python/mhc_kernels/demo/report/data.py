"""What a run's folder holds, as far as it is there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Data:
    """summary: what was asked for and which checks passed. runs: by name, in the order of the
    summary. equality, bench: None where that part was not run."""

    summary: Json
    runs: dict[str, Json]
    equality: Json | None
    bench: Json | None

    def color(self, name: str) -> str:
        """Of a run, the same in every picture."""
        return f"C{list(self.runs).index(name)}"

    @property
    def with_streams(self) -> dict[str, Json]:
        """Runs that have residual streams to look at, the first of each manifold; the first of all
        is the main one."""
        found: dict[str, Json] = {}
        for name, run in self.runs.items():
            if run.get("streams") and run["manifold"] not in [
                r["manifold"] for r in found.values()
            ]:
                found[name] = run
        return found


def read(out: Path) -> Data:
    """Raises FileNotFoundError without a summary or one of its runs."""
    summary = json.loads((out / "summary.json").read_text())
    optional = lambda name: json.loads(f.read_text()) if (f := out / name).exists() else None
    return Data(
        summary,
        {n: json.loads((out / "runs" / n / "run.json").read_text()) for n in summary["runs"]},
        optional("equality.json"),
        optional("bench.json"),
    )
