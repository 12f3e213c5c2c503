"""The main job: all runs one after the other, the checks, the summary, the report."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from mhc_kernels._info import allocator, info
from mhc_kernels._version import __version__
from mhc_kernels.demo import checks, processes, report
from mhc_kernels.demo.exits import FAILED, NOT_FINITE, STOPPED, WRONG_INPUT
from mhc_kernels.demo.plan import Run
from mhc_kernels.demo.result import write_json
from mhc_kernels.demo.text import Text

MIB = 1 << 20


def work(runs: list[Run], out: Path, data: Text, *, command: str, resume: bool) -> int:
    """Returns the exit status of the command. Writes out/runs/NAME, out/summary.json and the
    report.

    Raises KeyboardInterrupt where it is interrupted behind the runs.
    """
    start = time.monotonic()
    with processes.Interrupts() as interrupts:
        jobs = _Jobs(out, data, resume, interrupts)
        with Earlier(out) as earlier:
            for run in runs:
                status = jobs.make(run)
                if status == WRONG_INPUT and jobs.started == 1:
                    earlier.put_back()
                if status == STOPPED:
                    print(f"continue with: {command} --resume")
                if status in (STOPPED, WRONG_INPUT):
                    return status
                if status:
                    break
        interrupts.raises = True
        if not jobs.done:
            return FAILED
        seconds = time.monotonic() - start + jobs.seconds_before
        return conclude(jobs.done, jobs.failures, out, data, command, seconds)


class _Jobs:
    """Makes runs. done: run.json by name; failures: checks that did not pass; started: how many
    processes; seconds_before: what earlier calls have spent on the runs."""

    def __init__(
        self, out: Path, data: Text, resume: bool, interrupts: processes.Interrupts
    ) -> None:
        self.out, self.data, self.resume, self.interrupts = out, data, resume, interrupts
        self.done: dict[str, dict[str, Any]] = {}
        self.failures: list[checks.Check] = []
        self.started = 0
        self.seconds_before = 0.0

    def make(self, run: Run) -> int:
        """The status that the command must end with, 0 where it goes on."""
        if self.interrupts.received:
            return STOPPED
        file = self.out / "runs" / run.name / "run.json"
        if self.resume and (kept := finished(file.parent, run, self.data)):
            print(f"{run.name:13} is finished", flush=True)
            self.done[run.name] = kept
            self.seconds_before += kept.get("seconds", 0.0)
            return 0
        before, start = _stamp(file), time.monotonic()
        self.started += 1
        status = processes.run(run, file.parent, self.interrupts, resume=self.resume)
        if status in (STOPPED, WRONG_INPUT):
            return status
        # A process that crashed may have left that of an earlier one.
        found = json.loads(file.read_text()) if _stamp(file) != before else None
        if found and found["held_out"]:
            self.done[run.name] = found
            spent = time.monotonic() - start
            self.seconds_before += max(0.0, found.get("seconds", 0.0) - spent)
        may_go_on = found and (status == 0 or (status == NOT_FINITE and run.may_diverge))
        if may_go_on:
            # The run may have been at its end already.
            return STOPPED if self.interrupts.received else 0
        detail = f"ended with status {status}"
        if found and found["error"]:
            detail = found["error"]
        print(f"FAILED: run {run.name}: {detail}", file=sys.stderr)
        self.failures.append({"name": f"run {run.name}", "passed": False, "detail": detail})
        return FAILED


def _stamp(file: Path) -> tuple[int, int] | None:
    """Another one after each write_json."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def conclude(
    done: dict[str, dict[str, Any]],
    failures: list[checks.Check],
    out: Path,
    data: Text,
    command: str,
    seconds: float,
) -> int:
    """The checks, the summary and the report of what is there."""
    rows = [*failures, *checks.checks_of(done)]
    write_json(
        out / "summary.json",
        {
            "command": command,
            "runs": list(done),
            "checks": rows,
            "seconds": seconds,
            "machine": {**info(), "allocator": allocator(processes.environment(1))},
            "processor": processor(),
            "versions": versions(),
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
    print(f"report: {report.write(out)}")
    return 0 if all(row["passed"] for row in rows) else FAILED


class Earlier:
    """A context in which summary, report and pictures of an earlier job in `out` are set aside, and
    at whose end they are gone: they would speak of runs that are replaced."""

    def __init__(self, out: Path) -> None:
        self.out, self.aside = out, out / ".earlier"
        shutil.rmtree(self.aside, ignore_errors=True)
        for file in [
            file for pattern in ("summary.json", *report.MADE) for file in out.glob(pattern)
        ]:
            self._move(file, self.aside / file.relative_to(out))

    def __enter__(self) -> "Earlier":
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.aside, ignore_errors=True)

    def put_back(self) -> None:
        """Where no run was replaced."""
        for file in [file for file in self.aside.rglob("*") if file.is_file()]:
            self._move(file, self.out / file.relative_to(self.aside))

    @staticmethod
    def _move(file: Path, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        file.replace(to)


def versions() -> dict[str, str]:
    """Of what the losses and the speed may depend on."""
    found = {"python": platform.python_version(), "mhc_kernels": __version__}
    return found | {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax")}


def processor() -> str | None:
    """Its name, None where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), None)


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
