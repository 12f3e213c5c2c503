"""A skip fails the run unless tests/allowed_skips.txt names the test with a reason."""

import fnmatch
from pathlib import Path

import pytest


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
