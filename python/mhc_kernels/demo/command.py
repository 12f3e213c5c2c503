"""python -m mhc_kernels.demo: trains a small language model with hyper-connections and reports what
happened.

The default trains five times and compares: kernels, plain jax.numpy with the same seed, kernels
with another seed, a plain residual connection, and unconstrained mixing. See docs/demo.md.

Exit status 0: all checks passed; 1: one failed, or a run was not finite; 2: wrong input, nothing
written; 130: interrupted, continue with --resume.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from mhc_kernels.demo import job, plan, text
from mhc_kernels.demo.config import Config
from mhc_kernels.demo.exits import STOPPED, WRONG_INPUT


class Parser(argparse.ArgumentParser):
    """Whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog=plan.PROGRAM,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for field in dataclasses.fields(Config):
        if field.name not in plan.FLAGS:
            continue
        flag, about = "--" + field.name.replace("_", "-"), plan.FLAGS[field.name]
        if field.default is False:
            parser.add_argument(flag, action="store_true", help=about)
            continue
        kind = str if field.default is None else type(field.default)
        about += "" if field.default is None else f" (default: {field.default})"
        parser.add_argument(flag, type=kind, default=field.default, help=about)
    parser.add_argument(
        "--implementation",
        default="both",
        choices=("kernel", "reference", "both"),
        help="both: all five runs and the comparison (default); else that run alone",
    )
    parser.add_argument("--resume", action="store_true", help="continues what is in --out")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder (default: out)")
    return parser.parse_args(arguments)


def check_writable(out: Path) -> None:
    """Raises ValueError where nothing could be written below `out`. Writes nothing."""
    nearest = out.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise ValueError(f"out: expected a folder, got {out}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"out: expected a folder to write to, got {out}: no permission")


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    try:
        given = {name: getattr(options, name) for name in plan.FLAGS}
        config = Config(**given)
        if options.implementation == "both" and config.residual == "plain":
            raise ValueError('residual: expected "hyper" where both implementations are compared')
        data = text.load(config)
        check_writable(options.out)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_INPUT
    if data.cut:
        print(f"text: {data.source}", flush=True)
    words = [a for a in arguments if a != "--resume"]
    command = " ".join([plan.PROGRAM, *map(shlex.quote, words)])
    runs = plan.runs_of(config, options.implementation)
    try:
        return job.work(runs, options.out, data, command=command, resume=options.resume)
    except KeyboardInterrupt:  # behind the runs, while the report is drawn
        print(f"continue with: {command} --resume")
        return STOPPED
