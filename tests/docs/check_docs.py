#!/usr/bin/env python3
"""Checks what the Markdown files say against the tree.

    check_docs.py text ROOT                      links, paths, constants, C names, form
    check_docs.py tables ROOT PROGRAM [--write]  PROGRAM prints each table that stands between markers
    check_docs.py blocks ROOT CC CXX LIBRARY INCLUDE_DIR... [--tool MHC]
                                                 compiles and runs the blocks fenced as ```cpp test, ```c test, ```sh test
    check_docs.py --self-test

A table begins behind <!-- table: NAME --> and ends at the next <!-- end -->. Blocks of sh run in an empty folder with
the command mhc in PATH, and only where --tool names it.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = {".git", ".venv", ".venv-newer", "build"}
WIDTH = 120
TOPS = ("include/", "src/", "tests/", "docs/", "cmake/", "tools/", "examples/", "scripts/", "packages/", "bindings/",
        "python/")

FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1[ \t]*$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
CONSTANT = re.compile(r"k[A-Z]\w* = .+\Z")
TABLE = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", re.S)


def markdown_files(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts[:-1]
        if not any(p in SKIPPED or p.startswith("build") for p in parts):
            yield path


def sources(root):
    """Text of all C, C++ and Python files and of the build, as one string."""
    kinds = (".h", ".hpp", ".cc", ".in", ".cmake", ".py")
    files = [p for top in ("include", "src", "tools", "tests", "cmake", "bindings", "python") for p in (root / top).rglob("*")]
    files = [p for p in files if p.suffix in kinds] + list(root.glob("CMakeLists.txt"))
    return "\n".join(p.read_text() for p in sorted(files))


def anchor(heading):
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def check_links(path, prose):
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            yield f"link to {target}: no such file"
        elif fragment and fragment not in [anchor(h) for h in HEADING.findall(FENCE.sub("", file.read_text()))]:
            yield f"link to {target}: no such heading"


def check_span(root, span, code):
    """One piece of inline code: a path, a constant with its value, or a name of the C interface."""
    word = span.split(":")[0]
    if word.startswith(TOPS):
        if re.fullmatch(r"[\w./*-]+", word) and not any(root.glob(word.rstrip("/"))):
            yield f"`{span}`: no such file"
        return
    if CONSTANT.match(span) and not re.search(rf"\b{re.escape(span)};", code):
        yield f"`{span}`: the code has no such constant"
    for name in re.findall(r"\b(?:mhc|MHC)_\w*[a-zA-Z0-9]\b", span):
        if not re.search(rf"\b{name}\b", code):
            yield f"`{name}`: the code has no such name"


def check_text(root):
    code = sources(root)
    for path in markdown_files(root):
        text = path.read_text()
        prose = FENCE.sub("", text)
        found = list(check_links(path, prose))
        for span in SPAN.findall(prose):
            found += check_span(root, span, code)
        for line in prose.splitlines():
            if len(line) > WIDTH and not line.startswith("|") and not LINK.search(line):
                found.append(f"longer than {WIDTH}: {line[:60]}...")
            if re.search(r"\s$", line):
                found.append(f"space at the end: {line[:60]}")
        for name in TABLE.sub("", text).split("<!-- table: ")[1:]:
            found.append(f"table {name.split()[0]} has no end")
        yield from (f"{path.relative_to(root)}: {f}" for f in found)


def check_tables(root, program, write):
    seen = 0
    for path in markdown_files(root):
        text = path.read_text()

        def fill(match):
            nonlocal seen
            seen += 1
            rows = subprocess.run([program, match[1]], check=True, capture_output=True, text=True).stdout
            return f"<!-- table: {match[1]} -->\n{rows}<!-- end -->"

        new = TABLE.sub(fill, text)
        if new != text and write:
            path.write_text(new)
        elif new != text:
            old = {match[1]: match[0] for match in TABLE.finditer(text)}
            for match in TABLE.finditer(new):
                if old[match[1]] != match[0]:
                    yield f"{path.relative_to(root)}: table {match[1]} should be\n{match[2]}"
    if seen == 0:
        yield "no table found"


def blocks(text):
    """(language, body, line) of the fenced blocks that are to be run."""
    for match in FENCE.finditer(text):
        words = match[2].split()
        if len(words) > 1 and words[1] == "test":
            yield words[0], match[3], text.count("\n", 0, match.start()) + 1


def run_block(language, body, work, cc, cxx, library, include_dirs, tool):
    """None, or what went wrong."""
    environment = dict(os.environ)
    if language == "sh":
        environment["PATH"] = f"{Path(tool).parent}:{environment['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", body]
    else:
        compiler, standard, suffix = (cxx, "-std=c++20", "cc") if language == "cpp" else (cc, "-std=c11", "c")
        (work / f"block.{suffix}").write_text(body)
        compiled = subprocess.run(
            [compiler, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *(f"-I{d}" for d in include_dirs),
             f"block.{suffix}", library, f"-Wl,-rpath,{Path(library).parent}", "-lstdc++", "-lm", "-pthread", "-o", "block"],
            cwd=work, capture_output=True, text=True)
        if compiled.returncode != 0:
            return compiled.stderr
        command = ["./block"]
    ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    return None if ran.returncode == 0 else f"exit status {ran.returncode}\n{ran.stdout}{ran.stderr}"


def check_blocks(root, cc, cxx, library, include_dirs, tool):
    count = 0
    for path in markdown_files(root):
        for language, body, line in blocks(path.read_text()):
            where = f"{path.relative_to(root)}:{line}: {language} block"
            if language not in ("cpp", "c", "sh"):
                yield f"{where}: only cpp, c and sh can be tested"
                continue
            count += 1
            if language == "sh" and not tool:
                print(f"not run {where}: there is no command")
                continue
            with tempfile.TemporaryDirectory() as work:
                wrong = run_block(language, body, Path(work), cc, cxx, library, include_dirs, tool)
            print(f"{'ok' if wrong is None else 'FAILED':8}{where}")
            if wrong is not None:
                yield f"{where}: {wrong}"
    if count == 0:
        yield "no block found"


def self_test():
    """Each tree differs from a clean one by the text of one file; the checker must find exactly the faults named."""
    clean = {
        "README.md": "# Top\n\n[docs](docs/a.md#two-words) and `src/a.h`, `src/*.h`, `kBlock = 512`, `mhc_pre`.\n",
        "docs/a.md": "# One\n\n## Two `words`\n\n[up](../README.md) [here](#one) [out](https://example.org/x)\n",
        "src/a.h": "constexpr int kBlock = 512;\nint mhc_pre(void);\n",
        "docs/extra.md": "",
        "build/x.md": "[nothing](nowhere.md)\n",
    }
    fence = "```"
    cases = [
        (0, ""),
        (1, "[gone](b.md)\n"),
        (1, "[gone](a.md#three)\n"),
        (1, "`src/b.h`\n"),
        (1, "`src/*.cc`\n"),
        (1, "`kBlock = 51`\n"),
        (1, "`mhc_post`\n"),
        (1, "x" * 121 + "\n"),
        (0, "| " + "x" * 121 + " |\n"),
        (1, "end \n"),
        (1, "<!-- table: t -->\n| |\n"),
        (0, f"{fence}sh\n[gone](b.md) `src/b.h`\n{fence}\n"),
    ]
    wrong = 0
    for expected, text in cases:
        with tempfile.TemporaryDirectory() as root:
            for name, content in {**clean, "docs/extra.md": text}.items():
                (Path(root) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(root) / name).write_text(content)
            found = list(check_text(Path(root)))
        if len(found) != expected:
            wrong += 1
            print(f"self-test: {text!r}: found {found}")
    for expected, body in [(0, "true"), (1, "false\ntrue"), (1, "no_such_command")]:
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "a.md").write_text(f"{fence}sh test\n{body}\n{fence}\n{fence}sh\nfalse\n{fence}\n")
            found = list(check_blocks(Path(root), "", "", "", [], "/bin/true"))
        wrong += len(found) != expected
    for expected, row in [(0, "| 1 |"), (1, "| 2 |")]:
        with tempfile.TemporaryDirectory() as root:
            program = Path(root) / "program"
            program.write_text('#!/bin/sh\n[ "$1" = t ] && echo "| 1 |"\n')
            program.chmod(0o755)
            page = Path(root) / "a.md"
            page.write_text(f"<!-- table: t -->\n{row}\n<!-- end -->\n")
            wrong += len(list(check_tables(Path(root), program, False))) != expected
            list(check_tables(Path(root), program, True))
            wrong += len(list(check_tables(Path(root), program, False))) != 0
    print(f"self-test: {len(cases) + 5} trees, {wrong} judged wrongly")
    return wrong


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    what, root, *rest = sys.argv[1:]
    root = Path(root).resolve()
    if what == "text":
        found = list(check_text(root))
    elif what == "tables":
        found = list(check_tables(root, rest[0], rest[1:] == ["--write"]))
    else:
        split = rest.index("--tool") if "--tool" in rest else len(rest)
        cc, cxx, *files = rest[:split]
        library, *include_dirs = (str(Path(f).resolve()) for f in files)
        found = list(check_blocks(root, cc, cxx, library, include_dirs, "".join(rest[split + 1:])))
    pages = len(list(markdown_files(root)))
    print("\n".join(found + [f"{pages} pages, {len(found)} faults"]))
    return 1 if found or pages == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
