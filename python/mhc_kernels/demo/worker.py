"""python -m mhc_kernels.demo.worker: one run in a process of its own, whose peak memory is then
that of the run. Started by processes.py.

    argument: a JSON object of folder, name, title, command, resume and config

Exit status 0: finished; 1: not finite; 2: wrong input, in one line; 130: stopped by a signal, with
a checkpoint.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

STOPPED = 130


def main(argument: str) -> int:
    # Before the imports that take long, so that no interrupt is a traceback.
    stopping: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: stopping.append(received))
    job = json.loads(argument)

    try:
        from mhc_kernels.demo.config import Config
        from mhc_kernels.demo.progress import Progress
        from mhc_kernels.demo.result import Result, write_json
        from mhc_kernels.demo.training import NotFinite, train
    except ImportError as error:  # the library, or what the package's extra `demo` brings
        print(f"error: {error}", file=sys.stderr)
        return 2

    folder, config = Path(job["folder"]), Config(**job["config"])

    def save(result: Result) -> None:
        labels: dict[str, Any] = {k: job[k] for k in ("name", "title", "command")}
        write_json(folder / "run.json", result.to_json(**labels))

    try:
        with Progress(job["name"], config) as progress:
            result = train(
                config,
                folder,
                resume=job["resume"],
                stop=lambda step: bool(stopping),
                show=progress.show,
            )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except NotFinite as error:
        save(error.result)
        print(f"{job['name']}: {error}", file=sys.stderr)
        return 1
    save(result)
    if not result.finished:
        print(f"{job['name']}: stopped behind step {len(result.train)}, checkpoint saved")
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
