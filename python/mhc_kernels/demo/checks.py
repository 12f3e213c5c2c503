"""What must hold of the finished runs. docs/demo.md says where the tolerances come from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from mhc_kernels.demo.result import NO_NUMBER

# Of the training loss of the same step, in nats: ten times what roundings to bf16, which both do in
# the same places, were seen to make of sums in another order by then.
FIRST_STEPS, FIRST_TOLERANCE = 20, 2e-3
# The held-out loss must have come down to this share.
FALLEN = 0.75
# Of a row and a column sum of h_res. Sinkhorn ends with columns; its rows are as near as 20
# iterations bring them, which depends on the logits.
MARGINS = {"permutation": (1e-5, 1e-5), "identity": (0.0, 0.0), "sinkhorn": (None, 1e-5)}

Check = dict[str, Any]


def checks_of(runs: dict[str, dict[str, Any]]) -> list[Check]:
    """runs: what run.json holds, by name. Checks are dicts of name, passed and detail; those whose
    runs are missing are left out."""
    first = next(iter(runs.values()))
    checks = [falls(first)]
    if "kernel" in runs and "reference" in runs:
        checks.append(first_steps(runs["kernel"], runs["reference"]))
        if "second_seed" in runs:
            checks.append(end(runs["kernel"], runs["reference"], runs["second_seed"]))
    for name in ("kernel", "reference"):
        if runs.get(name, {}).get("streams") and runs[name]["manifold"] in MARGINS:
            checks.append(on_manifold(name, runs[name]))
    return checks


def smoothed(run: dict[str, Any]) -> float:
    """The mean of the held-out losses in the last third of the evaluations."""
    return statistics.fmean(_last_third(run))


def _last_third(run: dict[str, Any]) -> list[float]:
    losses = [row["loss"] for row in run["held_out"]]
    return losses[-max(1, len(losses) // 3) :]


def falls(run: dict[str, Any]) -> Check:
    begin, now = run["held_out"][0]["loss"], smoothed(run)
    return _check(
        "held-out loss falls",
        _numbers(row["loss"] for row in run["held_out"]) and now < FALLEN * begin,
        f"from {begin:.3f} to {now:.3f} nats per byte, below {FALLEN * begin:.3f} wanted",
    )


def first_steps(a: dict[str, Any], b: dict[str, Any]) -> Check:
    pairs = list(zip(a["train"], b["train"]))[:FIRST_STEPS]
    apart = [(abs(x["loss"] - y["loss"]), x["step"]) for x, y in pairs]
    # Also a NaN, which max would keep or drop by where it is.
    bad = [row for pair in pairs for row in pair if not _numbers([row["loss"]])]
    worst, step = (math.nan, bad[0]["step"]) if bad else max(apart, default=(math.nan, 0))
    return _check(
        "kernel and reference agree step by step",
        worst <= FIRST_TOLERANCE,
        f"the first {len(pairs)} training losses differ by at most {worst:.2e} nats (step {step}), "
        f"up to {FIRST_TOLERANCE:.0e} wanted",
    )


def end(a: dict[str, Any], b: dict[str, Any], other_seed: dict[str, Any]) -> Check:
    """The spread of two seeds is the root mean square of their differences over the evaluations
    that are smoothed: one difference alone may be small by chance."""
    differences = [x - y for x, y in zip(_last_third(a), _last_third(other_seed))]
    spread = math.sqrt(statistics.fmean(d * d for d in differences))
    apart = abs(smoothed(a) - smoothed(b))
    return _check(
        "kernel and reference end alike",
        _numbers([*_last_third(a), *_last_third(b), *_last_third(other_seed)]) and apart <= spread,
        f"smoothed held-out losses {smoothed(a):.4f} and {smoothed(b):.4f} differ by {apart:.4f}, "
        f"up to {spread:.4f} wanted, the spread of two seeds",
    )


def on_manifold(name: str, run: dict[str, Any]) -> Check:
    layers = run["streams"]["layers"]
    rows = _largest(layer["row_error"] for layer in layers)
    columns = _largest(layer["column_error"] for layer in layers)
    row_bound, column_bound = MARGINS[run["manifold"]]
    wanted = "no bound" if row_bound is None else f"up to {row_bound:.0e} wanted"
    return _check(
        f"{name}: h_res is on the manifold",
        _numbers([rows]) and (row_bound is None or rows <= row_bound) and columns <= column_bound,
        f"row sums within {rows:.1e} of 1, {wanted}; column sums within {columns:.1e}, "
        f"up to {column_bound:.0e} wanted",
    )


def _numbers(values: Iterable[float]) -> bool:
    """Whether all are finite."""
    return all(abs(value) < NO_NUMBER for value in values)


def _largest(values: Iterable[float]) -> float:
    """NaN where one is: max keeps or drops it by where it is."""
    found = list(values)
    return math.nan if any(math.isnan(value) for value in found) else max(found)


def _check(name: str, passed: bool, detail: str) -> Check:
    # A comparison with a NaN is false, so that it does not pass; max and min may drop one, and a
    # difference of two NO_NUMBERs is 0: hence _largest and _numbers.
    return {"name": name, "passed": bool(passed), "detail": detail}
