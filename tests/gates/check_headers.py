#!/usr/bin/env python3
"""Compiles each public header alone: *.h as C11 and as C++20, *.hpp as C++20, with strict warnings.

    check_headers.py CC CXX INCLUDE_DIR... -- HEADER...
    check_headers.py CC CXX --self-test
"""
import subprocess
import sys
import tempfile
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror", "-fsyntax-only"]


def check(cc, cxx, include_dirs, headers):
    bad = 0
    for header in headers:
        languages = [(cxx, "c++", "-std=c++20")] + ([(cc, "c", "-std=c11")] if header.suffix == ".h" else [])
        for compiler, language, standard in languages:
            # Included twice: a header without a guard is an error too. ISO C wants a declaration in each file.
            text = f'#include "{header}"\n' * 2 + "extern int checked;\n"
            result = subprocess.run(
                [compiler, "-x", language, standard, *STRICT, *(f"-I{d}" for d in include_dirs), "-"],
                input=text, text=True, capture_output=True)
            bad += result.returncode != 0
            print(f"{'ok    ' if result.returncode == 0 else 'FAILED'} {standard[5:]:6} {header.name}")
            print(result.stderr, end="")
    return bad


def self_test(cc, cxx):
    cases = {
        "good.h": (0, "#ifndef G\n#define G\n#include <stdint.h>\nint32_t f(void);\n#endif\n"),
        "needs_stdint.h": (2, "#pragma once\nint32_t f(void);\n"),
        "no_guard.h": (2, "struct S { int i; };\n"),
        "only_cxx.h": (1, "#pragma once\nnamespace n {}\n"),
        "narrowing.hpp": (1, "#pragma once\ninline int f(long n) { return n; }\n"),
    }
    wrong = 0
    for name, (expected, text) in cases.items():
        with tempfile.TemporaryDirectory() as root:
            header = Path(root) / name
            header.write_text(text)
            wrong += check(cc, cxx, [], [header]) != expected
    print(f"self-test: {len(cases)} headers, {wrong} judged wrongly")
    return wrong


def main():
    cc, cxx, *rest = sys.argv[1:]
    if rest == ["--self-test"]:
        return 1 if self_test(cc, cxx) else 0
    split = rest.index("--")
    headers = [Path(h) for h in rest[split + 1:]]
    return 1 if check(cc, cxx, rest[:split], headers) or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
