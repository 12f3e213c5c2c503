"""python -m mhc_kernels.equality: kernel against reference, the thirteen tensors of a training
step, as a table.

    --dims B,S,n,D      default 2,4096,4,3072, the published shape
    --manifold NAMES    default permutation,sinkhorn

Exit status 1 unless every tensor has a cosine above 0.999 (of 16 elements and more), a relative
error below 2^-6, and no element further off than 2^-5 of the largest: both sides round activations
to bf16, the reference
several times.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mhc_kernels.jax as mj
from mhc_kernels.bench.cases import Case, inputs

COSINE, RELATIVE, WORST = 0.999, 2.0**-6, 2.0**-5


def tensors(case: Case) -> dict[str, Any]:
    """x_next, d_x, the gradient of the branch's weight, and ten parameter gradients, by name."""
    x, params, w, g = inputs(case)

    @jax.jit
    def run(x: Any, params: Any, w: Any, g: Any) -> Any:
        def f(x: Any, params: Any, w: Any) -> Any:
            u, state = mj.pre(x, params, case.spec, implementation=case.path)
            return mj.post(u * w, state)

        x_next, backward = jax.vjp(f, x, params, w)
        return x_next, *backward(g)

    x_next, d_x, d, d_w = run(x, params, w, g)
    n = case.spec.streams
    parts = {"pre": slice(0, n), "post": slice(n, 2 * n), "res": slice(2 * n, None)}
    result = {"x_next": x_next, "d_x": d_x, "branch weight": d_w, "norm_scale": d.norm_weight}
    for k, (name, rows) in enumerate(parts.items()):
        result |= {
            f"{name} alpha": d.phi[rows],
            f"{name} bias": d.bias[rows],
            f"{name} scale": d.alpha[k : k + 1],
        }
    return result


def compare(got: Any, want: Any) -> dict[str, float]:
    """Cosine, relative error, and the worst element as a share of the largest."""
    a, b = (jnp.asarray(v, jnp.float32).reshape(-1) for v in (got, want))
    # Sums of squares in blocks: one f32 chain over 10^8 elements would lose digits.
    dot = lambda u, v: float(
        np.sum(
            np.asarray(
                jnp.sum(jnp.pad(u * v, (0, -u.size % 1024)).reshape(-1, 1024), 1), np.float64
            )
        )
    )
    error = a - b
    return {
        "elements": a.size,
        "cosine": dot(a, b) / np.sqrt(dot(a, a) * dot(b, b)),
        "relative": np.sqrt(dot(error, error) / dot(b, b)),
        "worst": float(jnp.max(jnp.abs(error)) / jnp.max(jnp.abs(b))),
    }


def passes(row: dict[str, Any]) -> bool:
    return (
        (row["elements"] < 16 or row["cosine"] > COSINE)
        and row["relative"] < RELATIVE
        and row["worst"] < WORST
    )


def rows_of(dims: tuple[int, int, int, int], manifold: str) -> list[dict[str, Any]]:
    made = [
        tensors(Case(path, "forward_backward", False, manifold, dims))
        for path in ("kernel", "reference")
    ]
    return [
        {"manifold": manifold, "tensor": name, **compare(made[0][name], made[1][name])}
        for name in made[0]
    ]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| manifold | tensor | elements | cosine | relative error | worst / largest |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['manifold']} | {r['tensor']} | {r['elements']} | {r['cosine']:.6f} | "
            f"{r['relative']:.1e} | {r['worst']:.1e} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mhc_kernels.equality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dims", default="2,4096,4,3072")
    parser.add_argument("--manifold", default="permutation,sinkhorn")
    options = parser.parse_args()
    b, s, n, d = map(int, options.dims.split(","))
    rows = [r for manifold in options.manifold.split(",") for r in rows_of((b, s, n, d), manifold)]
    print(table(rows))
    failed = [f"{r['manifold']} {r['tensor']}" for r in rows if not passes(r)]
    print(
        f"\n{len(rows)} tensors, {len(failed)} outside" + "".join(f"\n  {name}" for name in failed)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
