"""python -m mhc_kernels.bench: one mHC site in JAX along three paths, side by side.

    plain       the published layer's arithmetic, the denominator (plain.py)
    reference   this package's plain jax.numpy
    kernel      this package's kernels
    core        the library without JAX, by the command mhc: what `kernel` is compared with

Runs itself once per allocator setting: as it is, and with large tensors kept in huge pages.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mhc_kernels._info import TUNABLES, TUNED_ALLOCATOR, info
from mhc_kernels.bench import options as kinds

PATHS = ("plain", "reference", "kernel", "core")
TRACED = ("kernel", "forward_backward")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mhc_kernels.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--dims",
        type=kinds.dims,
        help="B,S,n,D or T,n,D (default: 2,4096,4,3072, the published shape)",
    )
    parser.add_argument("--quick", action="store_true", help="1,512,4,1024 and three repetitions")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    some = lambda flag, *known, **others: parser.add_argument(
        flag, type=kinds.names(*known), default=known, **others
    )
    some("--manifold", "permutation", "sinkhorn")
    some("--path", *PATHS)
    some("--pass", "forward", "forward_backward", dest="passes")
    some("--allocator", "default", "tuned")
    parser.add_argument(
        "--branch",
        type=kinds.names("identity", "scale"),
        default=("identity",),
        help="what is wrapped: identity, scale (u * w with w's gradient, by XLA on every path)",
    )
    parser.add_argument(
        "--tune", action="store_true", help="measures block sizes first (`mhc tune`) and uses them"
    )
    parser.add_argument("--remat", action="store_true", help="with rematerialisation as well")
    parser.add_argument("--repetitions", type=int, help="default: 5, quick 3")
    parser.add_argument(
        "--json", type=Path, help="writes rows and machine there, and bars beside it (.png)"
    )
    parser.add_argument("--trace", type=Path, help="writes a profiler's trace of the kernels there")
    # Of a child: where its rows go.
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.dims = options.dims or (kinds.SMALL if options.quick else kinds.PUBLISHED)
    kinds.check_streams(parser, options.dims, options.manifold)
    if options.repetitions is None:
        options.repetitions = 3 if options.quick else 5
    if options.repetitions < 1:
        parser.error(f"--repetitions: expected at least 1, got {options.repetitions}")
    if options.trace and TRACED not in itertools.product(options.path, options.passes):
        parser.error("--trace: expected path kernel and pass forward_backward among those measured")
    return options


def cases_of(options: argparse.Namespace) -> list[Any]:
    """In the order of the table. Rematerialisation is for gradients; `core` has neither a branch
    nor anything to rematerialise."""
    from mhc_kernels.bench.cases import Case

    every = itertools.product(
        options.manifold,
        options.passes,
        (False, True) if options.remat else (False,),
        options.branch,
        options.path,
    )
    return [
        Case(path, passes, remat, manifold, options.dims, options.dtype, branch)
        for manifold, passes, remat, branch, path in every
        if not (remat and passes == "forward")
        and (
            path != "core" or (passes == "forward_backward" and not remat and branch == "identity")
        )
    ]


def run_here(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All cases under this process's allocator."""
    from mhc_kernels.bench import cases, command

    rows = []
    chosen = cases_of(options)
    for k, case in enumerate(chosen):
        if case.path == "core":
            row = command.measure(case, 0.2 if options.quick else 2.0)
        else:
            row = cases.measure(case, options.repetitions)
        row["allocator"] = options.allocator[0]
        print(
            f"  [{k + 1}/{len(chosen)}] {row['allocator']:8} {case.manifold:12} {case.passes:17} "
            f"{'remat' if case.remat else '':6}{case.branch:9}{case.path:10}"
            f"{row['us_per_token']:9.2f} us/token",
            file=sys.stderr,
            flush=True,
        )
        rows.append(row)
    return rows


def run_children(options: argparse.Namespace, arguments: list[str]) -> list[dict[str, Any]]:
    rows = []
    for allocator in options.allocator:
        environment = dict(os.environ)
        environment.pop("GLIBC_TUNABLES", None)
        if allocator == "tuned":
            environment["GLIBC_TUNABLES"] = TUNABLES
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            command = [
                sys.executable,
                "-m",
                "mhc_kernels.bench",
                *arguments,
                "--allocator",
                allocator,
                "--rows",
                str(file),
            ]
            subprocess.run(command, check=True, env=environment)
            rows += json.loads(file.read_text())
    return rows


def trace(options: argparse.Namespace) -> None:
    import jax

    from mhc_kernels.bench import cases

    case = next(c for c in cases_of(options) if (c.path, c.passes) == TRACED)
    cases.measure(case, 1)
    with jax.profiler.trace(str(options.trace)):
        cases.measure(case, 2)
    print(f"trace of {case} in {options.trace}")


def tune(options: argparse.Namespace, folder: Path) -> None:
    """Block sizes for this shape, for all that follows."""
    from mhc_kernels.bench import command

    print("  measuring block sizes", file=sys.stderr, flush=True)
    table = folder / "mhc-tuning.txt"
    command.tune(cases_of(options)[0], table)
    os.environ["MHC_TUNING"] = str(table)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    if options.rows is not None:
        options.rows.write_text(json.dumps(run_here(options)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if options.tune:
            tune(options, Path(folder))
        return run(options, arguments)


def run(options: argparse.Namespace, arguments: list[str]) -> int:
    from mhc_kernels.bench import command, report

    rows = run_children(options, arguments)
    report.add_ratios(rows)
    machine = {
        **info(),
        "block_sizes": command.block_sizes(cases_of(options)[0]),
        "tuned_allocator": TUNED_ALLOCATOR,
    }
    print(
        f"B,S,n,D = {options.dims}, {options.dtype}; isa {machine['isa']['chosen']}, "
        f"{machine['threads']} threads\nblock sizes: "
        + "; ".join(f"{name} {sizes}" for name, sizes in machine["block_sizes"].items())
        + "\n"
    )
    print(report.table(rows))
    if options.json is not None:
        report.save(options.json, rows, machine)
        picture = options.json.with_suffix(".png")
        drawn = report.picture(picture, rows)
        tail = f"bars in {picture}" if drawn else "no picture: matplotlib is not installed"
        print(f"\nrows in {options.json}, {tail}")
    if options.trace is not None:
        trace(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
