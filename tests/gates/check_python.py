#!/usr/bin/env python3
"""Checks (or with --fix repairs what it can of) the Python package with the pinned ruff and mypy: rules, formatting, types.

    check_python.py ROOT BIN [--fix]       BIN: the folder of ruff and mypy, .venv/bin
    check_python.py ROOT BIN --self-test
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDERS = ("python", "tests/conftest.py", "tests/demo", "tests/jax")
GOOD = "def half(x: float) -> float:\n    return x / 2\n"
BAD = {
    "rules": "import os\n\n\n" + GOOD,
    "formatting": GOOD.replace("x / 2", "x/2"),
    "types": GOOD.replace("x / 2", "str(x)"),
}


def pinned(root, tool):
    return re.search(rf"^{tool}==(\S+)", (root / "packages/python.txt").read_text(), re.M).group(1)


def wrong_versions(root, folder):
    wrong = 0
    for tool in ("ruff", "mypy"):
        try:
            found = subprocess.run([folder / tool, "--version"], capture_output=True, text=True).stdout.split()
        except OSError:
            found = []
        if pinned(root, tool) not in found:
            print(f"{folder / tool}: wanted version {pinned(root, tool)}, got {' '.join(found) or 'none'}; ./test installs it")
            wrong += 1
    return wrong


def faults(root, folder, paths, types, quiet=False):
    """Which of rules, formatting and types do not hold."""
    commands = {
        "rules": [folder / "ruff", "check", "--no-cache", *paths],
        "formatting": [folder / "ruff", "format", "--no-cache", "--check", *paths],
        "types": [folder / "mypy", *types],
    }
    output = subprocess.DEVNULL if quiet else None
    return [k for k, c in commands.items() if subprocess.run(c, cwd=root, stdout=output, stderr=output).returncode != 0]


def self_test(root, folder):
    for fault, text in {None: GOOD, **BAD}.items():
        with tempfile.TemporaryDirectory() as made:
            file = Path(made) / "case.py"
            file.write_text(text)
            config = ["--config-file", str(root / "pyproject.toml"), str(file)]
            (Path(made) / "pyproject.toml").write_text((root / "pyproject.toml").read_text())
            found = faults(root, folder, [str(file)], config, quiet=True)
        if found != ([fault] if fault else []):
            print(f"self test: wanted {fault}, got {found}")
            return 1
    return 0


def main():
    root, folder, *options = sys.argv[1:]
    root, folder = Path(root).resolve(), Path(folder).absolute()
    if wrong_versions(root, folder):
        return 1
    if options == ["--self-test"]:
        return self_test(root, folder)
    if options == ["--fix"]:
        subprocess.run([folder / "ruff", "check", "--fix", "-q", *FOLDERS], cwd=root)
        subprocess.run([folder / "ruff", "format", "-q", *FOLDERS], cwd=root)
    found = faults(root, folder, FOLDERS, [])
    print(f"faults: {', '.join(found) or 'none'}; tests/gates/check_python.py . .venv/bin --fix repairs what it can")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
