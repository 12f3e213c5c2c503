"""A fresh Python for what needs another environment, and for what could wait for ever."""

import os
import subprocess
import sys

# Long for a machine that others use too; a deadlock never ends.
GIVE_UP = 120


def in_child(function, **environment):
    """What a function of a test module prints, run by a fresh Python that is given up after a
    time."""
    module = function.__module__
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\nimport {module}"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{module}.{function.__name__}()"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=GIVE_UP,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
