"""Runs as processes of their own: each has its own peak memory, number of devices and allocator."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mhc_kernels._info import TUNED_ALLOCATOR
from mhc_kernels.demo.plan import Run


def environment(devices: int) -> dict[str, str]:
    """Of a run. JAX reads the number of devices and glibc its settings when a process starts, so
    that they must be here."""
    name, tunables = TUNED_ALLOCATOR.split("=", 1)
    root = str(Path(__file__).resolve().parents[2])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        name: tunables,
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join(path),
    }


def run(job: Run, folder: Path, *, resume: bool) -> int:
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
    children: list[subprocess.Popen[bytes]] = []

    def hand_on(number: int, frame: object) -> None:
        for child in children:
            # From a terminal it has the interrupt already; twice is as once.
            child.send_signal(number)

    before = {s: signal.signal(s, hand_on) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        children.append(subprocess.Popen(command, env=environment(job.config.devices)))
        return children[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
