#!/usr/bin/env python3
"""Switches on one fault of mutants.py after another; every one has to turn its tests red.

    tests/mutation/run.py [--build DIR] [--only REGEX]     writes docs/mutation.md when all have run
    tests/mutation/run.py --check                          only whether each fault's text stands in its file

The sources are copied into the build folder and all faults are built in at once, each behind a number that the environment's
MHC_MUTANT selects; with none selected the tests have to pass. Takes minutes: it runs on request. CMAKE_BUILD_PARALLEL_LEVEL
limits the build, MHC_CMAKE_FLAGS configures it.
"""
import argparse
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

from mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
SWITCH = "extern \"C\" int mhc_mutant;\n"
SWITCH_SOURCE = """#include <cstdlib>

extern "C" {
extern int mhc_mutant;
int mhc_mutant = std::getenv("MHC_MUTANT") == nullptr ? 0 : std::atoi(std::getenv("MHC_MUTANT"));
}
"""


def plant(source, number, mutant):
    """The file's text with the fault in it, which has to fit in exactly one place; None otherwise."""
    pattern = r"\s+".join(re.escape(word) for word in mutant.before.split())
    found = re.findall(pattern, source)
    if len(found) != 1:
        print(f"{mutant.name}: its text stands {len(found)} times in src/{mutant.file}, not once", file=sys.stderr)
        return None
    return re.sub(pattern, lambda _: mutant.after.replace("MUTANT", f"(mhc_mutant == {number})"), source)


def plant_all():
    """{path: text} of the files with faults. Every fault that fits nowhere is named, and none is left out of a run."""
    planted = {}
    misfits = 0
    for number, mutant in enumerate(MUTANTS, 1):
        path = Path("src") / mutant.file
        text = plant(planted.get(path) or (ROOT / path).read_text(), number, mutant)
        misfits += text is None
        planted[path] = text or planted.get(path)
    if misfits:
        sys.exit(f"{misfits} of {len(MUTANTS)} faults don't fit the sources: bring mutants.py up to date")
    return planted


def write_if_other(path, data):
    """Leaves a file of the same contents alone, so that only what changed is compiled again."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_with_faults(target):
    """A copy of the tree with every fault planted."""
    files = {p.relative_to(ROOT) for folder in ("src", "include", "cmake", "tests") for p in (ROOT / folder).rglob("*")
             if p.is_file() and "__pycache__" not in p.parts} | {Path("CMakeLists.txt")}
    planted = plant_all()
    for path in files:
        text = SWITCH + planted[path] if path in planted else None
        write_if_other(target / path, text.encode() if text else (ROOT / path).read_bytes())
    switch = Path("src/base/mutant.cc")
    write_if_other(target / switch, SWITCH_SOURCE.encode())
    for old in [p for p in target.rglob("*") if p.is_file()]:
        if old.relative_to(target) not in files | {switch}:
            old.unlink()


def build(folder, executables):
    flags = "-O1 -w"
    subprocess.run(["cmake", "-S", folder / "source", "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                    f"-DCMAKE_CXX_FLAGS_DEBUG={flags}", "-DMHC_SMALL_TESTS=ON", "-DMHC_BUILD_TOOLS=OFF",
                    "-DMHC_BUILD_EXAMPLES=OFF", *os.environ.get("MHC_CMAKE_FLAGS", "").split()],
                   check=True, stdout=subprocess.DEVNULL)
    made = subprocess.run(["cmake", "--build", folder / "build", "--target", *executables], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"the faults don't compile\n{made.stdout[-4000:]}{made.stderr[-2000:]}")


def red(folder, number, executable, test_filter):
    """Whether the tests fail with this fault switched on, and how many of them."""
    command = [folder / "build/bin" / executable, "--gtest_brief=1", f"--gtest_filter={test_filter}"]
    run = subprocess.run(command, env={**os.environ, "MHC_MUTANT": str(number)}, capture_output=True, text=True, timeout=900)
    ran = re.search(r"\[==========\] (\d+) tests? from", run.stdout)
    if not ran or ran[1] == "0":
        sys.exit(f"mutant {number}: {executable} {test_filter} did not finish, or has no test\n"
                 f"{run.stdout[-2000:]}{run.stderr[-2000:]}")
    failed = set(re.findall(r"\[  FAILED  \] (\S+?)[,\s]", run.stdout))
    return run.returncode != 0, len(failed)


def report(results, seconds):
    caught = sum(r[1] for r in results)
    lines = ["# Mutation check", "",
             f"{caught} of {len(results)} faults turn a test red. `tests/mutation/run.py` on "
             f"{platform.machine()}, {time.strftime('%Y-%m-%d')}, {seconds:.0f} s with the build.", "",
             "Each fault is one line of the library; the tests run at reduced sizes. `tests/mutation/mutants.py` has the lines.",
             "", "| fault | file | executable | tests that fail |", "|---|---|---|---|"]
    for mutant, is_red, count in results:
        lines.append(f"| {mutant.name} | `{mutant.file}` | {mutant.executable} | {count if is_red else '**none**'} |")
    (ROOT / "docs/mutation.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/mutation")
    parser.add_argument("--only", default="", help="faults in whose name or file this is found")
    parser.add_argument("--check", action="store_true", help="build and run nothing")
    options = parser.parse_args()
    if options.check:
        plant_all()
        return 0
    chosen = [(n, m) for n, m in enumerate(MUTANTS, 1) if re.search(options.only, f"{m.name} {m.file}")]
    if not chosen:
        sys.exit(f"no fault matches {options.only}")
    start = time.time()
    (options.build / "source").mkdir(parents=True, exist_ok=True)
    copy_with_faults(options.build / "source")
    executables = sorted({m.executable for _, m in chosen})
    build(options.build, executables)
    for executable in executables:
        everything = ":".join(sorted({f for _, m in chosen if m.executable == executable for f in m.tests.split(":")}))
        if red(options.build, 0, executable, everything)[0]:
            sys.exit(f"{executable} fails with no fault switched on")
    results = []
    for number, mutant in chosen:
        is_red, count = red(options.build, number, mutant.executable, mutant.tests)
        results.append((mutant, is_red, count))
        print(f"{'red  ' if is_red else 'GREEN'} {count:4} tests  {mutant.name}", flush=True)
    if not options.only:
        report(results, time.time() - start)
    return 0 if all(r[1] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
