"""Eight host devices, the package from the working tree, libraries from MHC_LIBRARY_DIR or
build/release/lib. A skip fails the run unless tests/allowed_skips.txt names the test with a reason.
"""

import fnmatch
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# XLA's own code is hardly optimised: compiling it is most of the time of these tests. Kernels are
# not affected.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MHC_LIBRARY_DIR", str(ROOT / "build/release/lib"))
# Programs that a test starts see the same package.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
).rstrip(os.pathsep)
sys.path.insert(0, str(ROOT / "python"))


def allowed_patterns():
    lines = (Path(__file__).with_name("allowed_skips.txt")).read_text().splitlines()
    return [line.split(None, 1)[0] for line in lines if "::" in line and not line.startswith("#")]


def forbidden(nodeids, patterns):
    return [n for n in nodeids if not any(fnmatch.fnmatchcase(n, p) for p in patterns)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    bad = forbidden([r.nodeid for r in reporter.stats.get("skipped", [])], allowed_patterns())
    for nodeid in bad:
        reporter.write_line(f"skipped without leave: {nodeid}", red=True)
    if bad:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
