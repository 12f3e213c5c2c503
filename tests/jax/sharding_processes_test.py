"""Two processes with jax.distributed and gloo."""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("two_processes.py")


def outputs_of(port, processes, indices, seconds=200):
    """What the program's processes print. None outlives this call, nor the failure of another."""
    command = [sys.executable, PROGRAM, str(port), str(processes)]
    files = [tempfile.TemporaryFile("w+") for _ in indices]
    started = [
        subprocess.Popen([*command, str(k)], stdout=f, stderr=subprocess.STDOUT)
        for k, f in zip(indices, files)
    ]
    end = time.monotonic() + seconds
    try:
        while None in (states := [p.poll() for p in started]) and not any(states):
            if time.monotonic() > end:
                raise TimeoutError(f"{processes} processes after {seconds} s")
            time.sleep(0.1)
    finally:
        for p in started:
            p.kill()
            p.wait()
    return [f.seek(0) or f.read() for f in files]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(processes, port):
    """Losses and parameters of each process. A port may be taken after it was found free: then once
    more on another."""
    outputs = outputs_of(port, processes, range(processes))
    if any("Failed to add port" in o or "already in use" in o for o in outputs):
        outputs = outputs_of(free_port(), processes, range(processes))
    assert all("RESULT" in o for o in outputs), "\n".join(outputs)
    return [np.array(o.split("RESULT")[1].split(), float) for o in outputs]


def test_two_processes_train_as_one():
    """Three steps on four devices in two processes equal those of one process."""
    (first, second), (alone,) = train(2, free_port()), train(1, 0)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, alone, rtol=1e-6)


def test_a_port_that_is_taken():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        first, second = train(2, s.getsockname()[1])
    np.testing.assert_array_equal(first, second)


def test_no_process_is_left_behind(monkeypatch):
    """One of two waits for the other in vain, and is ended when the time is up."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    with pytest.raises(TimeoutError, match="2 processes"):
        outputs_of(1, 2, [1], seconds=1)
    assert len(started) == 1 and started[0].returncode < 0
