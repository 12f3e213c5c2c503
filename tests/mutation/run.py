#!/usr/bin/env python3
"""Switches on one fault of mutants.py after another; every one has to turn the kernel tests red.

    tests/mutation/run.py [--build DIR] [--only TEXT]      writes docs/mutation.md when all have run

The sources are copied into the build folder and all faults are built in at once, each behind a number that the environment's
MHC_MUTANT selects; with none selected the tests have to pass. Takes minutes: it runs on request.
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


def plant(source, number, name, text, replacement):
    """The file's text with the fault in it, which has to fit in exactly one place."""
    pattern = r"\s+".join(re.escape(word) for word in text.split())
    found = re.findall(pattern, source)
    if len(found) != 1:
        sys.exit(f"mutant {number}, {name}: its text stands {len(found)} times in the file, not once")
    return re.sub(pattern, lambda _: replacement.replace("MUTANT", f"(mhc_mutant == {number})"), source)


def write_if_other(path, data):
    """Leaves a file of the same contents alone, so that only what changed is compiled again."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_with_faults(target):
    """A copy of the tree with every fault planted."""
    files = {p.relative_to(ROOT) for folder in ("src", "include", "cmake", "tests") for p in (ROOT / folder).rglob("*")
             if p.is_file() and "__pycache__" not in p.parts} | {Path("CMakeLists.txt")}
    planted = {}
    for number, (name, file, before, after, _) in enumerate(MUTANTS, 1):
        path = Path("src") / file
        planted[path] = plant(planted.get(path) or (ROOT / path).read_text(), number, name, before, after)
    for path in files:
        text = SWITCH + planted[path] if path in planted else None
        write_if_other(target / path, text.encode() if text else (ROOT / path).read_bytes())
    switch = Path("src/base/mutant.cc")
    write_if_other(target / switch, SWITCH_SOURCE.encode())
    for old in [p for p in target.rglob("*") if p.is_file()]:
        if old.relative_to(target) not in files | {switch}:
            old.unlink()


def build(folder):
    flags = "-O1 -w"
    subprocess.run(["cmake", "-S", folder / "source", "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                    f"-DCMAKE_CXX_FLAGS_DEBUG={flags}", "-DMHC_SMALL_TESTS=ON", "-DMHC_BUILD_TOOLS=OFF",
                    "-DMHC_BUILD_EXAMPLES=OFF", *os.environ.get("MHC_CMAKE_FLAGS", "").split()],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder / "build", "kernels_test"], check=True, stdout=subprocess.DEVNULL)


def red(folder, number, test_filter):
    """Whether the tests fail with this fault switched on, and how many of them."""
    command = [folder / "build/bin/kernels_test", "--gtest_brief=1", f"--gtest_filter={test_filter}"]
    run = subprocess.run(command, env={**os.environ, "MHC_MUTANT": str(number)}, capture_output=True, text=True, timeout=900)
    if "[==========]" not in run.stdout:
        sys.exit(f"mutant {number}: the tests did not finish\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    failed = set(re.findall(r"\[  FAILED  \] (\S+?)[,\s]", run.stdout))
    return run.returncode != 0, len(failed)


def report(results, seconds):
    caught = sum(r[1] for r in results)
    lines = ["# Mutation check", "",
             f"{caught} of {len(results)} faults turn a kernel test red. `tests/mutation/run.py` on "
             f"{platform.machine()}, {time.strftime('%Y-%m-%d')}, {seconds:.0f} s with the build.", "",
             "Each fault is one line of a kernel; the tests are the table-driven ones at reduced sizes.",
             "`tests/mutation/mutants.py` has the lines.", "", "| fault | file | tests that fail |", "|---|---|---|"]
    for (name, file, *_), is_red, count in results:
        lines.append(f"| {name} | `{file}` | {count if is_red else '**none**'} |")
    (ROOT / "docs/mutation.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/mutation")
    parser.add_argument("--only", default="", help="faults whose name contains this text")
    options = parser.parse_args()
    start = time.time()
    (options.build / "source").mkdir(parents=True, exist_ok=True)
    copy_with_faults(options.build / "source")
    build(options.build)
    everything = ":".join(sorted({f for m in MUTANTS for f in m[4].split(":")}))
    if red(options.build, 0, everything)[0]:
        sys.exit("the tests fail with no fault switched on")
    results = []
    for number, mutant in enumerate(MUTANTS, 1):
        if options.only not in mutant[0]:
            continue
        is_red, count = red(options.build, number, mutant[4])
        results.append((mutant, is_red, count))
        print(f"{'red  ' if is_red else 'GREEN'} {count:4} tests  {mutant[0]}", flush=True)
    if not options.only:
        report(results, time.time() - start)
    return 0 if all(r[1] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
