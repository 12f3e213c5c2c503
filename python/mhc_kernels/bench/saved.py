"""python -m mhc_kernels.bench.saved: bytes per token that a site keeps for backward, by
jax.checkpoint policy."""

from __future__ import annotations

import argparse
from typing import Any

import jax

import mhc_kernels.jax as mj
from mhc_kernels.bench.cases import Case, bytes_kept

_P = jax.checkpoint_policies
NAMES = ("mhc_coefficients", "mhc_layer_input", "mhc_x_next")
# Every built-in policy; names that mean the same one share a row.
POLICIES: dict[str, Any] = {
    "no checkpoint": None,
    "nothing_saveable": _P.nothing_saveable,
    "everything_saveable": _P.everything_saveable,
    "dots_saveable, checkpoint_dots": _P.dots_saveable,
    "dots_with_no_batch_dims_saveable, checkpoint_dots_with_no_batch_dims": (
        _P.dots_with_no_batch_dims_saveable
    ),
    "offload_dot_with_no_batch_dims": _P.offload_dot_with_no_batch_dims("device", "pinned_host"),
    **{f"save_only_these_names({name})": _P.save_only_these_names(name) for name in NAMES},
    "save_only_these_names(all three)": _P.save_only_these_names(*NAMES),
    "save_any_names_but_these(mhc_x_next)": _P.save_any_names_but_these("mhc_x_next"),
    "save_anything_except_these_names(all three)": _P.save_anything_except_these_names(*NAMES),
    "save_from_both_policies(dots_saveable, mhc_coefficients)": _P.save_from_both_policies(
        _P.dots_saveable, _P.save_only_these_names("mhc_coefficients")
    ),
    "save_and_offload_only_these_names(saved mhc_coefficients, offloaded mhc_layer_input)": (
        _P.save_and_offload_only_these_names(
            names_which_can_be_saved=["mhc_coefficients"],
            names_which_can_be_offloaded=["mhc_layer_input"],
            offload_src="device",
            offload_dst="pinned_host",
        )
    ),
}


def per_token(case: Case, policy: Any) -> float:
    """Bytes beside the site's input and the parameters."""

    def site(x: Any, params: Any, w: Any) -> Any:
        u, state = mj.pre(x, params, case.spec, implementation=case.path)
        return mj.post(u * w, state)

    f = site if policy is None else jax.checkpoint(site, policy=policy)
    return bytes_kept(f, case, beside=("x", "params", "w")) / case.tokens


def rows(dims: tuple[int, int, int, int]) -> list[tuple[str, float, float]]:
    kernel, reference = (
        Case(path, "forward_backward", False, "permutation", dims)
        for path in ("kernel", "reference")
    )
    return [
        (name, per_token(kernel, policy), per_token(reference, policy))
        for name, policy in POLICIES.items()
    ]


def table(dims: tuple[int, int, int, int] = (2, 4096, 4, 3072)) -> str:
    lines = ["| policy | kernel | reference |", "|---|---|---|"]
    return "\n".join(
        lines
        + [f"| {name} | {kernel:.0f} | {reference:.0f} |" for name, kernel, reference in rows(dims)]
    )


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m mhc_kernels.bench.saved", description=__doc__
    ).parse_args()
    print(table())
