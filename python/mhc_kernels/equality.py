"""python -m mhc_kernels.equality: kernel against reference, the thirteen tensors of a training
step, as a table.

    --dims B,S,n,D      default 2,4096,4,3072, the published shape
    --manifold NAMES    default permutation,sinkhorn
    --json FILE         writes the rows there as well

Exit status 1 unless every element is within its own bound, and every tensor has a relative error
below 2^-6 and, with 16 elements and more, a cosine above 0.999. A sum in a tensor of fewer elements
may cancel, so that little of it is left to be relative to: an eighth of its bound will do as well.
The last column is the worst error as a share of its bound.

Both sides round activations to bf16, of unit roundoff u = 2^-8. Where each rounds the same quantity
once, the two differ by 2 u of it at most; the bounds say what becomes of that:

  layer_input, d_layer_output   one rounding on each side
  y = layer_input w, d_layer_input = d_layer_output w   one more on each side
  h_res    one on each side, where the spec rounds it; the other gates are f32 on both
  x_next   one on each side, beside what y and h_res bring
  d_x      one of the kernel; of the reference one of each of its four terms and one of each of
           three sums, all relative to the sum of the terms' absolute values
  branch weight   d_layer_output, layer_input and their product, then a tree of sums in bf16

x_next and d_x take these at their worst. What is summed over features or tokens takes the root of
the sum of squares instead, LAMBDA times: roundings of different elements are independent, and their
worst case in a sum of 8192 x 3072 says nothing. Sums in f32 are within F32 of the absolute terms.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mhc_kernels.jax as mj
from mhc_kernels.bench import options as kinds
from mhc_kernels.bench.cases import Case, inputs
from mhc_kernels.jax import _reference
from mhc_kernels.spec import Spec

COSINE, RELATIVE, CANCELLED = 0.999, 2.0**-6, 0.125
U = 2.0**-8
LAMBDA = 4.0  # seven standard deviations of an error that is uniform within its bound
GATE = 2.0**-18  # of gates that are computed in f32 twice
F32 = 2.0**-18  # of f32 sums in two orders, relative to the sum of absolute values


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


@functools.partial(jax.jit, static_argnums=0)
def _bounds_of_tokens(spec: Spec, x: Any, params: Any, w: Any, g: Any) -> Any:
    """Bounds of x_next and d_x, [T, n, D], and for the sums over tokens their parts: squares of
    independent errors, and absolute terms. All arithmetic in f32."""
    f32 = lambda v: v.astype(jnp.float32)
    x, params, w, g = jax.tree.map(f32, (x, params, w, g))
    n, d = x.shape[-2:]
    dot = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
    absolute = jnp.abs
    q, squares = _reference.project(x, params.phi, params.norm_weight, spec)
    inv = _reference.inv_rms_of(squares, n * d, spec)
    alpha = params.alpha[np.repeat([0, 1, 2], [n, n, spec.logits])]
    z = q * inv[:, None]

    def flat(logit: Any) -> Any:
        """All gates of a token side by side."""
        one = jnp.ones((), jnp.float32)
        plain = spec.replace(norm_eps=1.2e-38)
        h = _reference.gates(logit, one, jnp.ones(3), jnp.zeros(spec.coefficients), 1, plain)
        return jnp.concatenate([v.reshape(-1) for v in h])

    logit = alpha * z + params.bias
    h, slope = jax.vmap(flat)(logit), absolute(jax.vmap(jax.jacrev(flat))(logit))  # [T, h, c]
    h_pre, h_post = h[:, :n], h[:, n : 2 * n]
    h_res = h[:, 2 * n :].reshape(-1, n, n)
    u = dot("ti,tid->td", h_pre, x)
    d_y = dot("tj,tjd->td", h_post, g)
    y, du = u * w, d_y * w
    ax, ag, ah_post, ah_res = absolute(x), absolute(g), absolute(h_post), absolute(h_res)
    res = 2 * U if spec.h_res_precision == "activation" else 0.0

    mixed = dot("tij,tid->tjd", ah_res, ax)
    written = ah_post[..., None] * absolute(y)[:, None]
    spread = ax.sum(1) * (1 + absolute(w)) + absolute(y)
    x_next = dot("tij,tid->tjd", h_res, x) + h_post[..., None] * y[:, None]
    e_next = (res * mixed + 4 * U * written + 2 * U * absolute(x_next)) + GATE * spread[:, None]

    # d_h: two roundings of y and two of d_layer_input on each side, none of d_h_res.
    square = jnp.square
    s_h = jnp.concatenate(
        [
            2 * U * jnp.sqrt(dot("tid,td->ti", square(x), square(du))),
            2 * U * jnp.sqrt(dot("tjd,td->tj", square(g), square(y))),
            F32 * dot("tid,tjd->tij", ax, ag).reshape(len(x), n * n),
        ],
        axis=1,
    )
    d_h = jnp.concatenate(
        [
            dot("tid,td->ti", x, du),
            dot("tjd,td->tj", g, y),
            dot("tid,tjd->tij", x, g).reshape(len(x), n * n),
        ],
        axis=1,
    )
    s_logit = dot("thc,th->tc", slope, s_h + F32 * absolute(d_h))
    d_logit = dot("thc,th->tc", slope, absolute(d_h))  # of absolute terms
    s_q = absolute(alpha) * inv[:, None] * s_logit
    d_q = absolute(alpha) * inv[:, None] * d_logit
    aphi = absolute(params.phi * params.norm_weight)
    terms = (
        dot("tij,tjd->tid", ah_res, ag)
        + absolute(h_pre)[..., None] * absolute(du)[:, None]
        + dot("tc,cid->tid", d_q, aphi)
        + (inv / (n * d) * (d_q * absolute(z)).sum(1))[:, None, None] * ax
    )
    e_x = (
        5 * U * terms
        + res * dot("tij,tjd->tid", ah_res, ag)
        + 4 * U * absolute(h_pre)[..., None] * absolute(du)[:, None]
        + LAMBDA * dot("tc,cid->tid", s_q, aphi)
    )
    parts = {
        "phi": (dot("tc,tid->cid", square(s_q), square(x)), dot("tc,tid->cid", d_q, ax)),
        "bias": (square(s_logit).sum(0), d_logit.sum(0)),
        "alpha": (
            jnp.stack([square((s_logit * absolute(z))[:, k].sum(1)).sum() for k in _rows(spec)]),
            jnp.stack([(d_logit * absolute(z))[:, k].sum() for k in _rows(spec)]),
        ),
        "w": (square(d_y * u).sum(0), jnp.zeros(d)),
    }
    return {"x_next": e_next, "d_x": e_x}, parts


def _rows(spec: Spec) -> list[slice]:
    n = spec.streams
    return [slice(0, n), slice(n, 2 * n), slice(2 * n, None)]


def shares(case: Case, got: dict[str, Any], want: dict[str, Any], at_once: int = 256) -> Any:
    """The worst error of each tensor as a share of its element's bound."""
    spec = case.spec
    x, params, w, g = inputs(case)
    n, d = x.shape[-2:]
    tokens = lambda v: v.reshape(-1, n, d)
    x, g = tokens(x), tokens(g)
    ratio = jax.jit(
        lambda a, b, e: jnp.max(jnp.abs(a.astype(jnp.float32) - b.astype(jnp.float32)) / e)
    )
    found = {name: 0.0 for name in got}
    total: Any = None
    for first in range(0, len(x), at_once):
        cut = slice(first, first + at_once)
        bound, parts = _bounds_of_tokens(spec, x[cut], params, w, g[cut])
        for name, e in bound.items():
            worst = ratio(tokens(got[name])[cut], tokens(want[name])[cut], e + 1e-30)
            found[name] = max(found[name], float(worst))
        wide = jax.tree.map(lambda v: np.asarray(v, np.float64), parts)
        total = wide if total is None else jax.tree.map(np.add, total, wide)
    bounds = {k: LAMBDA * np.sqrt(squares) + F32 * terms for k, (squares, terms) in total.items()}
    phi, weight = np.abs(np.asarray(params.phi)), np.abs(np.asarray(params.norm_weight))
    roundings = 2 * (3 + np.ceil(np.log2(max(len(x), 2))))
    of = {
        "branch weight": U * np.sqrt(roundings) * bounds["w"]
        + 2 * U * np.abs(wide_of(want["branch weight"])),
        "norm_scale": (bounds["phi"] * phi).sum(0),
    }
    for k, (name, rows) in enumerate(zip(("pre", "post", "res"), _rows(spec))):
        of |= {
            f"{name} alpha": bounds["phi"][rows] * weight,
            f"{name} bias": bounds["bias"][rows],
            f"{name} scale": bounds["alpha"][k : k + 1],
        }
    for name, bound in of.items():
        error = np.abs(wide_of(got[name]) - wide_of(want[name]))
        found[name] = float(np.max(error / (bound.reshape(error.shape) + 1e-30)))
    return found


def wide_of(value: Any) -> Any:
    return np.asarray(jnp.asarray(value, jnp.float32)).astype(np.float64)


def compare(got: Any, want: Any) -> dict[str, float]:
    """Cosine and relative error."""
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
    }


def passes(row: dict[str, Any]) -> bool:
    few = row["elements"] < 16
    near = row["relative"] < RELATIVE or (few and row["share"] <= CANCELLED)
    return bool((few or row["cosine"] > COSINE) and near and row["share"] <= 1)


def rows_of(dims: tuple[int, int, int, int], manifold: str) -> list[dict[str, Any]]:
    cases = [
        Case(path, "forward_backward", False, manifold, dims) for path in ("kernel", "reference")
    ]
    got, want = map(tensors, cases)
    share = shares(cases[0], got, want)
    return [
        {
            "manifold": manifold,
            "tensor": name,
            **compare(got[name], want[name]),
            "share": share[name],
        }
        for name in got
    ]


HEADERS = ("manifold", "tensor", "elements", "cosine", "relative error", "worst / bound")


def cells(row: dict[str, Any]) -> list[str]:
    return [
        row["manifold"],
        row["tensor"],
        str(row["elements"]),
        f"{row['cosine']:.6f}",
        f"{row['relative']:.1e}",
        f"{row['share']:.1e}",
    ]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [list(HEADERS), ["---"] * len(HEADERS), *map(cells, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace(" --- ", "---")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mhc_kernels.equality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dims", type=kinds.dims, default=kinds.PUBLISHED)
    known = ("permutation", "sinkhorn")
    parser.add_argument("--manifold", type=kinds.names(*known), default=known)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    kinds.check_streams(parser, options.dims, options.manifold)
    rows = []
    for manifold in options.manifold:
        print(f"  {manifold}, B,S,n,D = {options.dims}", file=sys.stderr, flush=True)
        rows += rows_of(options.dims, manifold)
    print(table(rows))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        judged = [{**row, "passed": passes(row)} for row in rows]
        options.json.write_text(json.dumps({"dims": options.dims, "rows": judged}, indent=1) + "\n")
    failed = [f"{r['manifold']} {r['tensor']}" for r in rows if not passes(r)]
    print(
        f"\n{len(rows)} tensors, {len(failed)} outside" + "".join(f"\n  {name}" for name in failed)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
