"""What the command `mhc` adds to the benchmark: the time of the library without JAX, and tuned
block sizes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mhc_kernels import _library
from mhc_kernels._info import info
from mhc_kernels.bench.cases import Case

_DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [str(_library.command()), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"mhc {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")


def _sizes(case: Case) -> tuple[str, ...]:
    dims = f"{case.tokens},{case.dims[2]},{case.dims[3]}"
    return ("--dims", dims, "--dtype", _DTYPES[case.dtype])


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """A row for the path `core`: the four operations of a site with buffers that are used again, as
    `mhc bench --op site` measures them, with as many threads as the handlers have."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        options = ("--op", "site", "--preset", case.preset, "--threads", str(info()["threads"]))
        _run("bench", *options, *_sizes(case), "--seconds", str(seconds), "--json", str(file))
        (row,) = json.loads(file.read_text())["rows"]
    median = row["us_per_token"]
    return {
        **case.row(),
        "us_per_token": median,
        "best_us_per_token": row["us_per_token_low"],
        "spread": (row["us_per_token_high"] - row["us_per_token_low"]) / median,
        "bytes_per_token": row["bytes_per_token"],
    }


def tune(case: Case, table: Path) -> None:
    """Measures block sizes for this shape and adds them to the table, which MHC_TUNING may name."""
    _run("tune", *_sizes(case), "--threads", str(info()["threads"]), "--output", str(table))


def block_sizes(case: Case) -> dict[str, str]:
    """By operation, what the table in MHC_TUNING chooses for this shape, or "built in"."""
    operations = ("pre", "post", "post_backward", "pre_backward")
    chosen = dict.fromkeys(operations, "built in")
    problem = {
        "dtype": _DTYPES[case.dtype],
        "workers": str(info()["threads"]),
        "streams": str(case.dims[2]),
        "embedding": str(case.dims[3]),
    }
    table = os.environ.get("MHC_TUNING")
    rows = _rows(Path(table).read_text()) if table else []
    # A row serves from its number of tokens up to the next row's.
    for row in sorted(rows, key=lambda row: int(row["tokens"])):
        if problem.items() <= row.items() and int(row["tokens"]) <= case.tokens:
            keys = [k for k in row if k not in problem and k not in ("operation", "tokens")]
            chosen[row["operation"]] = ", ".join(f"{k}={row[k]}" for k in keys) or "built in"
    return chosen


def _rows(text: str) -> list[dict[str, str]]:
    """The rows of a table of `mhc tune`: operation, type, and fields with names."""
    lines = [line.split() for line in text.splitlines()[1:] if line and not line.startswith("#")]
    return [
        {"operation": words[0], "dtype": words[1], **dict(w.split("=", 1) for w in words[2:])}
        for words in lines
    ]
