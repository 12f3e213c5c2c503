"""The most memory that this process has had."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_bytes() -> int:
    """The peak of the resident set. Not getrusage alone: that one starts with what the parent had
    when it started this process."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
