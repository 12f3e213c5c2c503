"""The main job: all runs one after the other, the checks, the summary, the report."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from mhc_kernels._info import allocator, info
from mhc_kernels.demo import checks, processes, report
from mhc_kernels.demo.plan import Run
from mhc_kernels.demo.result import write_json
from mhc_kernels.demo.text import Text
from mhc_kernels.demo.worker import STOPPED

MIB = 1 << 20


def work(runs: list[Run], out: Path, data: Text, *, command: str, resume: bool) -> int:
    """Returns the exit status of the command. Writes out/runs/NAME, out/summary.json and the
    report."""
    start = time.monotonic()
    done: dict[str, dict[str, Any]] = {}
    failed = False
    for run in runs:
        folder = out / "runs" / run.name
        kept = finished(folder, run, data) if resume else None
        if kept is None:
            status = processes.run(run, folder, resume=resume)
            if status == STOPPED:
                print(f"continue with: {command} --resume")
                return STOPPED
            if status == 2:
                return 2
            if status and not (status == 1 and run.may_diverge):
                print(f"FAILED: run {run.name} ended with status {status}", file=sys.stderr)
                return 1
            kept = json.loads((folder / "run.json").read_text())
        else:
            print(f"{run.name:13} is finished")
        done[run.name] = kept
    rows = checks.checks_of(done)
    write_json(
        out / "summary.json",
        {
            "command": command,
            "runs": list(done),
            "checks": rows,
            "seconds": time.monotonic() - start,
            "machine": {**info(), "allocator": allocator(processes.environment(1))},
            "text": {
                "source": data.source,
                "bytes": data.size,
                "held_out_bytes": len(data.held_out),
            },
        },
    )
    print("\n" + table(done) + "\n")
    for row in rows:
        print(f"{'passed' if row['passed'] else 'FAILED'}: {row['name']}: {row['detail']}")
        failed |= not row["passed"]
    print(f"report: {report.write(out)}")
    return 1 if failed else 0


def finished(folder: Path, run: Run, data: Text) -> dict[str, Any] | None:
    """run.json of that run where it has been made to its end, else None."""
    try:
        found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return None
    same = found["config"] == dataclasses.asdict(run.config) and found["digest"] == data.digest
    return found if same and found["finished"] else None


def table(runs: dict[str, dict[str, Any]]) -> str:
    """One line per run."""
    lines = [
        f"{'run':13} {'held-out loss':>15} {'steps/s':>8} {'tokens/s':>9} {'cpu s/step':>11} "
        f"{'peak MiB':>9} "
        f"{'step MiB':>9}"
    ]
    for name, run in runs.items():
        losses = f"{run['held_out'][0]['loss']:.3f} to {run['held_out'][-1]['loss']:.3f}"
        lines.append(
            f"{name:13} {losses:>15} {run['steps_per_second']:8.2f} "
            f"{run['tokens_per_second']:9,.0f} {run['processor_seconds']:11.3f} "
            f"{run['peak_bytes'] / MIB:9.0f} "
            f"{run['temporary_bytes'] / MIB:9.0f}" + (f"  {run['error']}" if run["error"] else "")
        )
    return "\n".join(lines)
