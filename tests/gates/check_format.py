#!/usr/bin/env python3
"""Checks (or with --fix makes) the formatting of all C and C++ files with the pinned clang-format.

    check_format.py ROOT CLANG_FORMAT [--fix]
    check_format.py ROOT CLANG_FORMAT --self-test
"""
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("include", "src", "tools", "examples", "tests", "bindings")
SUFFIXES = {".h", ".hpp", ".cc", ".c", ".cu"}


def pinned_version(root):
    return re.search(r"^clang-format==(\S+)", (root / "packages/python.txt").read_text(), re.M).group(1)


def main():
    root, clang_format, *options = sys.argv[1:]
    root = Path(root)
    try:
        version = subprocess.run([clang_format, "--version"], capture_output=True, text=True).stdout
    except OSError:
        version = "none"
    if pinned_version(root) not in version:
        print(f"{clang_format}: wanted version {pinned_version(root)}, got {version.strip()}; ./test installs it")
        return 1
    if options == ["--self-test"]:
        style = f"--style=file:{root / '.clang-format'}"
        run = lambda text: subprocess.run([clang_format, style, "--dry-run", "-Werror"], input=text, text=True,
                                          capture_output=True).returncode
        return 0 if run("int f(int* p);\n") == 0 and run("int f (int *p) ;\n") != 0 else 1
    files = [str(p) for f in FOLDERS for p in sorted((root / f).rglob("*")) if p.suffix in SUFFIXES]
    mode = ["-i"] if options == ["--fix"] else ["--dry-run", "-Werror", "--ferror-limit=3"]
    result = subprocess.run([clang_format, *mode, *files]).returncode
    print(f"{len(files)} files; tests/gates/check_format.py . .venv/bin/clang-format --fix repairs them")
    return result


if __name__ == "__main__":
    sys.exit(main())
