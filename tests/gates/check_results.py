#!/usr/bin/env python3
"""Reads GoogleTest's reports of a run: prints the counts and fails on a skip that is not allowed.

    check_results.py --begin REPORTS             empties the folder before a run
    check_results.py REPORTS ALLOWED             REPORTS: folder of json reports; ALLOWED: tests/allowed_skips.txt
    check_results.py --self-test
"""
import fnmatch
import json
import sys
import tempfile
from pathlib import Path


def read_allowed(text):
    """(pattern, reason) of each line `pattern  reason`; a line without a reason is an error."""
    allowed = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, reason = line.split(None, 1)
            allowed.append((pattern, reason))
    return allowed


def judge(reports, allowed):
    passed, failed, skips, ran_by_executable = 0, 0, [], {}
    for path in sorted(reports.glob("*.json")):
        executable = path.stem.split(".")[0]  # the rest is the shard
        ran = ran_by_executable.setdefault(executable, 0)
        for suite in json.loads(path.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                if test.get("result") in ("SKIPPED", "SUPPRESSED"):  # the latter: named DISABLED_
                    skips.append(f"{test.get('classname', suite['name'])}.{test['name']}")
                elif test.get("status") == "RUN":
                    ran += 1
                    if test.get("failures"):
                        failed += 1
                    else:
                        passed += 1
        ran_by_executable[executable] = ran
    forbidden = [s for s in skips if not any(fnmatch.fnmatchcase(s, p) for p, _ in allowed)]
    empty = [name for name, ran in ran_by_executable.items() if ran == 0]
    for name in forbidden:
        print(f"skipped without leave: {name}")
    for name in empty:
        print(f"ran no test: {name}")
    print(f"GoogleTest: {passed} passed, {failed} failed, {len(skips)} skipped")
    return bool(failed or forbidden or empty or passed == 0)


def self_test():
    test = lambda name, **more: {"name": name, "classname": "Suite", "status": "RUN", "result": "COMPLETED", **more}
    cases = [
        (False, [test("A"), test("B")], ""),
        (True, [test("A"), test("B", failures=[{"failure": "x"}])], ""),
        (True, [test("A"), test("B", result="SKIPPED")], ""),
        (True, [test("A"), test("B", result="SKIPPED")], "Suite.A* no such machine"),
        (False, [test("A"), test("B", result="SKIPPED")], "Suite.B* no such machine"),
        (True, [test("B", result="SKIPPED")], "Suite.B* no such machine"),
        (True, [test("A"), test("DISABLED_B", status="NOTRUN", result="SUPPRESSED")], ""),
        (True, [], ""),
    ]
    wrong = 0
    for expected, tests, allowed in cases:
        with tempfile.TemporaryDirectory() as root:
            suites = [{"name": "Suite", "testsuite": tests}] if tests else []
            (Path(root) / "some_test.json").write_text(json.dumps({"testsuites": suites}))
            wrong += judge(Path(root), read_allowed(allowed)) != expected
    print(f"self-test: {len(cases)} runs, {wrong} judged wrongly")
    return wrong


def main():
    if sys.argv[1] == "--self-test":
        return 1 if self_test() else 0
    if sys.argv[1] == "--begin":
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.json"):
            path.unlink()
        return 0
    return 1 if judge(Path(sys.argv[1]), read_allowed(Path(sys.argv[2]).read_text())) else 0


if __name__ == "__main__":
    sys.exit(main())
