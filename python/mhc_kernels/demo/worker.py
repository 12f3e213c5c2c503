"""python -m mhc_kernels.demo.worker: one run in a process of its own, whose peak memory is then
that of the run. Started by processes.py.

    argument: a JSON object of folder, name, title, command, resume and config

Exit status 0: finished; 2: wrong input, in one line; 3: not finite; 130: stopped by a signal, with
a checkpoint; 1 is a traceback.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from mhc_kernels.demo.exits import NOT_FINITE, STOPPED, WRONG_INPUT


def main(argument: str) -> int:
    # Before the imports that take long. processes.py starts this with both signals blocked, so that
    # those of before are delivered here.
    stopping: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: stopping.append(received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    job = json.loads(argument)

    try:
        from mhc_kernels.demo.config import Config
        from mhc_kernels.demo.progress import Progress
        from mhc_kernels.demo.result import Result, write_json
        from mhc_kernels.demo.training import NotFinite, train
    except ImportError as error:  # the library, or what the package's extra `demo` brings
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT

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
        return WRONG_INPUT
    except NotFinite as error:
        save(error.result)
        print(f"{job['name']}: {error}", file=sys.stderr)
        return NOT_FINITE
    save(result)
    if not result.finished:
        print(f"{job['name']}: stopped behind step {len(result.train)}, checkpoint saved")
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
