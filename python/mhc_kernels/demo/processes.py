"""Runs as processes of their own: each has its own peak memory, number of devices and allocator."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mhc_kernels._info import TUNABLES
from mhc_kernels.demo.exits import STOPPED
from mhc_kernels.demo.plan import Run


def environment(devices: int) -> dict[str, str]:
    """Of a run. JAX reads the number of devices and glibc its settings when a process starts, so
    that they must be here."""
    root = str(Path(__file__).resolve().parents[2])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "GLIBC_TUNABLES": TUNABLES,
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join(path),
    }


class Interrupts:
    """A context that takes SIGINT and SIGTERM: remembers them in `received` and hands them on to
    the run that is under way; raises KeyboardInterrupt instead where `raises` is set."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received: list[int] = []
        self.raises = False
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.signal(number, self._take) for number in self.SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        self.received.append(number)
        if self.raises:
            raise KeyboardInterrupt
        if self._child is not None:
            # From a terminal it has the interrupt already; twice is as once.
            self._child.send_signal(number)

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """The exit status. The child starts with the signals blocked and unblocks them when its
        handlers stand: none that comes in between is lost or ends it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self.SIGNALS)
        try:
            self._child = subprocess.Popen(command, env=environment)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self.SIGNALS)
        try:
            return self._child.wait()
        finally:
            self._child = None


def run(job: Run, folder: Path, interrupts: Interrupts, *, resume: bool) -> int:
    """Trains in a child whose output is ours; returns its exit status (see worker.py), negative
    where a signal ended it. Interrupts are handed on, and the child's answer is waited for."""
    argument = {
        "folder": str(folder),
        "name": job.name,
        "title": job.title,
        "command": job.command,
        "resume": resume,
        "config": dataclasses.asdict(job.config),
    }
    command = [sys.executable, "-m", "mhc_kernels.demo.worker", json.dumps(argument)]
    status = interrupts.run(command, environment(job.config.devices))
    if -status in interrupts.received:
        return STOPPED
    return status
