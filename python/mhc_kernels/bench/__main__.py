"""python -m mhc_kernels.bench: one mHC site in JAX along three paths, side by side.

    plain       the published layer's arithmetic, the denominator (plain.py)
    reference   this package's plain jax.numpy
    kernel      this package's kernels

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

from mhc_kernels._info import TUNED_ALLOCATOR, info

PUBLISHED, SMALL = (2, 4096, 4, 3072), (1, 512, 4, 1024)
_TUNABLES = TUNED_ALLOCATOR.split("=", 1)[1]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mhc_kernels.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--dims",
        default=None,
        help="B,S,n,D or T,n,D (default: 2,4096,4,3072, the published shape)",
    )
    parser.add_argument("--quick", action="store_true", help="1,512,4,1024 and three repetitions")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--manifold", default="permutation,sinkhorn")
    parser.add_argument("--path", default="plain,reference,kernel")
    parser.add_argument("--pass", dest="passes", default="forward,forward_backward")
    parser.add_argument("--remat", action="store_true", help="with rematerialisation as well")
    parser.add_argument("--allocator", default="default,tuned")
    parser.add_argument("--repetitions", type=int, default=None)
    parser.add_argument(
        "--json", type=Path, help="writes rows and machine there, and bars beside it (.png)"
    )
    parser.add_argument("--trace", type=Path, help="writes a profiler's trace of the kernels there")
    parser.add_argument(
        "--rows", type=Path, help=argparse.SUPPRESS
    )  # of a child: where its rows go
    options = parser.parse_args(arguments)
    dims = (
        tuple(map(int, options.dims.split(",")))
        if options.dims
        else SMALL
        if options.quick
        else PUBLISHED
    )
    options.dims = (1, *dims) if len(dims) == 3 else dims
    if len(options.dims) != 4 or min(options.dims) < 1:
        parser.error("--dims: expected three or four positive numbers")
    options.repetitions = options.repetitions or (3 if options.quick else 5)
    for name in ("manifold", "path", "passes", "allocator"):
        setattr(options, name, tuple(getattr(options, name).split(",")))
    return options


def run_here(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All cases under this process's allocator."""
    from mhc_kernels.bench import cases

    rows = []
    for manifold, passes, remat, path in itertools.product(
        options.manifold, options.passes, (False, True) if options.remat else (False,), options.path
    ):
        if remat and passes == "forward":
            continue
        case = cases.Case(path, passes, remat, manifold, options.dims, options.dtype)
        row = {**cases.measure(case, options.repetitions), "allocator": options.allocator[0]}
        print(
            f"  {row['allocator']:8} {manifold:12} {passes:17} {'remat' if remat else '':6}"
            f"{path:10}"
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
            environment["GLIBC_TUNABLES"] = _TUNABLES
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

    case = cases.Case(
        "kernel", "forward_backward", False, options.manifold[0], options.dims, options.dtype
    )
    cases.measure(case, 1)
    with jax.profiler.trace(str(options.trace)):
        cases.measure(case, 2)
    print(f"trace of {case} in {options.trace}")


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    if options.rows is not None:
        options.rows.write_text(json.dumps(run_here(options)))
        return 0
    from mhc_kernels.bench import report

    rows = run_children(options, arguments)
    report.add_ratios(rows)
    machine = {
        **info(),
        "tuning_file": os.environ.get("MHC_TUNING"),
        "tuned_allocator": TUNED_ALLOCATOR,
    }
    print(
        f"B,S,n,D = {options.dims}, {options.dtype}; isa {machine['isa']['chosen']}, "
        f"{machine['threads']} threads; "
        f"block sizes: {machine['tuning_file'] or 'built in'}\n"
    )
    print(report.table(rows))
    if options.json is not None:
        report.save(options.json, rows, machine)
        drawn = report.picture(options.json.with_suffix(".png"), rows)
        print(
            f"\nrows in {options.json}"
            + (
                f", bars in {options.json.with_suffix('.png')}"
                if drawn
                else "; no picture: matplotlib is not installed"
            )
        )
    if options.trace is not None:
        trace(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
