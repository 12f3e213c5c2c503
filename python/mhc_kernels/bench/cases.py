"""What is measured: one site in JAX, along each path, and what it costs."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Var, jaxprs_in_params

import mhc_kernels.jax as mj
from mhc_kernels.bench import plain
from mhc_kernels.spec import Spec

PATHS = ("plain", "reference", "kernel")
PASSES = ("forward", "forward_backward")
SPECS = {"permutation": "maxtext_lite", "sinkhorn": "maxtext_sinkhorn"}
# What is wrapped. XLA runs the branch on every path: with `scale` the gradient of w, a sum over all
# tokens, takes longer than the kernels do.
BRANCHES: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda u, w: u,
    "scale": lambda u, w: u * w,
}


@dataclasses.dataclass(frozen=True)
class Case:
    path: str
    passes: str  # "forward" or "forward_backward"
    remat: bool
    manifold: str
    dims: tuple[int, int, int, int]  # B, S, n, D
    dtype: str = "bfloat16"
    branch: str = "identity"

    @property
    def preset(self) -> str:
        return SPECS[self.manifold]

    @property
    def spec(self) -> Spec:
        return Spec.preset(self.preset, streams=self.dims[2])

    @property
    def tokens(self) -> int:
        return self.dims[0] * self.dims[1]

    def row(self) -> dict[str, Any]:
        """The fields by which a result is found."""
        return {
            "framework": "jax",
            "path": self.path,
            "pass": self.passes,
            "remat": self.remat,
            "manifold": self.manifold,
            "dims": list(self.dims),
            "dtype": self.dtype,
            "branch": self.branch,
        }


def inputs(case: Case, seed: int = 0) -> tuple[Any, ...]:
    """x, params, w and g, streams that differ."""
    b, s, n, d = case.dims
    keys = jax.random.split(jax.random.key(seed), 5)
    spec, kind = case.spec, jnp.dtype(case.dtype)
    params = mj.init_params(keys[0], spec, d)
    params = mj.Params(
        params.phi,
        jnp.asarray([0.5, -0.7, 0.6]),
        params.bias,
        1 + 0.1 * jax.random.normal(keys[1], (n, d)),
    )
    x, g = (jax.random.normal(k, (b, s, n, d), kind) for k in keys[2:4])
    return x, params, 0.5 * jax.random.normal(keys[4], (d,), kind), g


def site_of(case: Case) -> Callable[..., Any]:
    branch = BRANCHES[case.branch]

    def f(x: Any, params: Any, w: Any) -> Any:
        if case.path == "plain":
            return plain.site(x, params, lambda u: branch(u, w), case.spec)
        u, state = mj.pre(x, params, case.spec, implementation=case.path)
        return mj.post(branch(u, w), state)

    return jax.checkpoint(f) if case.remat else f


def program(case: Case) -> tuple[Any, tuple[int, ...]]:
    """The function, and which argument it may overwrite.

    forward: x to x_next, in x's memory as in inference. forward_backward: x_next, and d_x in g's
    memory, with the gradients of the parameters and of w, as inside a training step."""
    f = site_of(case)
    if case.passes == "forward":
        run, donate = lambda x, params, w, g: f(x, params, w), (0,)
    else:

        def run(x: Any, params: Any, w: Any, g: Any) -> Any:
            x_next, backward = jax.vjp(f, x, params, w)
            return backward(
                g
            ), x_next  # a donated g goes to the first result of its shape, which must be d_x

        donate = (3,)
    return run, donate


def compiled(case: Case) -> Any:
    run, donate = program(case)
    shapes = jax.eval_shape(lambda: inputs(case))
    return jax.jit(run, donate_argnums=donate, keep_unused=True).lower(*shapes).compile()


def bytes_kept(f: Callable[..., Any], case: Case, beside: tuple[str, ...]) -> int:
    """What the backward of f(x, params, w) keeps, each array once, beside the arguments named."""
    arguments = dict(zip(("x", "params", "w"), jax.eval_shape(lambda: inputs(case))))
    jaxpr = jax.make_jaxpr(lambda *a: jax.tree.leaves(jax.vjp(f, *a)[1]))(*arguments.values()).jaxpr
    names = [name for name, value in arguments.items() for _ in jax.tree.leaves(value)]
    left_out = {v for v, name in zip(jaxpr.invars, names) if name in beside}
    kept = {v for v in jaxpr.outvars if isinstance(v, Var)} - left_out
    return sum(map(_bytes, kept))


def saved_bytes(case: Case) -> int:
    """What backward keeps beside the parameters."""
    return bytes_kept(site_of(case), case, beside=("params", "w"))


def _bytes(value: Any) -> int:
    return int(math.prod(value.aval.shape) * value.aval.dtype.itemsize)


def kernel_bytes(case: Case) -> int:
    """Operands and results of the kernels in a program, which XLA's own count leaves out."""
    run, shapes = program(case)[0], jax.eval_shape(lambda: inputs(case))

    def walk(jaxpr: Any) -> int:
        total = 0
        for eqn in jaxpr.eqns:
            if eqn.primitive.name.startswith("mhc_"):
                total += sum(map(_bytes, (*eqn.invars, *eqn.outvars)))
            total += sum(walk(getattr(j, "jaxpr", j)) for j in jaxprs_in_params(eqn.params))
        return total

    return walk(jax.make_jaxpr(run)(*shapes).jaxpr)


def measure(
    case: Case, repetitions: int, tick: Callable[[Any], None] = lambda _: None
) -> dict[str, Any]:
    """One row: median and spread of the time, and memory."""
    run = compiled(case)
    x, params, w, g = inputs(case)
    seconds = []
    for _ in range(repetitions + 1):  # the first warms up
        jax.block_until_ready((x, g))
        begin = time.perf_counter()
        result = jax.block_until_ready(run(x, params, w, g))
        seconds.append(time.perf_counter() - begin)
        if case.passes == "forward":
            x = result / jnp.asarray(2, result.dtype)  # the donated x comes back, not growing
        else:
            g = result[0][0]
        tick(result)
        del result
    times = np.array(sorted(seconds[1:])) / case.tokens * 1e6
    memory = run.memory_analysis()
    moved = run.cost_analysis().get("bytes accessed", 0) + kernel_bytes(case)
    return {
        **case.row(),
        "us_per_token": float(np.median(times)),
        "best_us_per_token": float(times[0]),
        "spread": float((times[-1] - times[0]) / np.median(times)),
        "temp_bytes": int(memory.temp_size_in_bytes),
        "saved_bytes": saved_bytes(case),
        "bytes_per_token": float(moved) / case.tokens,
    }
