"""python -m mhc_kernels.demo: see command.py."""

import os
import signal
import sys

from mhc_kernels.demo.exits import STOPPED


def _leave(number: int, frame: object) -> None:
    """Until job.py takes over: no run is under way, and nothing has to be kept. Not by an
    exception, which an import that it interrupts may swallow."""
    os.write(2, b"interrupted, no run was under way\n")
    os._exit(STOPPED)


if __name__ == "__main__":
    # Before the imports that take long, so that no interrupt is a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from mhc_kernels.demo.command import main

    sys.exit(main())
