"""Sites, their gradients under any implementation, and how results are judged."""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import ml_dtypes
import numpy as np
from jax.extend.core import jaxprs_in_params

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
IMPLEMENTATIONS = ("kernel", "reference")
MANIFOLDS = ("sinkhorn", "permutation", "unconstrained", "identity")


def seed_of(*words):
    """A seed from what a test is about, so that it stays when tests are added."""
    return zlib.crc32(repr(words).encode())


def make(
    spec, lead, embedding, dtype=jnp.float32, param_dtype=jnp.float32, norm_weight=True, seed=0
):
    """x, params, w, g of a site with streams that differ and gates away from saturation."""
    rng = np.random.default_rng(seed)
    n, m = spec.streams, spec.coefficients
    normal = lambda *shape: rng.standard_normal(shape)
    array = lambda value, kind: jnp.asarray(np.asarray(value), kind)
    params = mj.Params(
        array(normal(m, n, embedding) / np.sqrt(n * embedding), param_dtype),
        array([0.7, -1.1, 0.9], param_dtype),
        array(normal(m), param_dtype),
        array(1 + 0.3 * normal(n, embedding), param_dtype) if norm_weight else None,
    )
    x = array(normal(*lead, n, embedding), dtype)
    return x, params, array(normal(embedding), dtype), array(normal(*lead, n, embedding), dtype)


def site(x, params, w, spec, implementation="kernel"):
    """x_next of one site whose branch is tanh(w u)."""
    layer_input, state = mj.pre(x, params, spec, implementation=implementation)
    return mj.post(jnp.tanh(layer_input * w), state)


def loss(x, params, w, g, spec, implementation="kernel"):
    x_next = site(x, params, w, spec, implementation)
    wide = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    return jnp.sum(x_next.astype(wide) * g.astype(wide))


@functools.partial(jax.jit, static_argnums=(4, 5))
def gradients(x, params, w, g, spec, implementation="kernel"):
    """d_x, d_params, d_w. Compiled as a whole: operation by operation takes ten times as long."""
    return jax.grad(loss, (0, 1, 2))(x, params, w, g, spec, implementation)


def wide(value):
    return np.asarray(value).astype(np.float64)


def to_f64(tree):
    return jax.tree.map(lambda v: jnp.asarray(wide(v), jnp.float64), tree)


def relative(got, want):
    """|got - want| / |want|, 0 where both are empty or zero."""
    got, want = wide(got), wide(want)
    error, norm = np.linalg.norm(got - want), np.linalg.norm(want)
    return error / norm if norm > 0 else error


def assert_close(got, want, tolerance, what=""):
    """Every leaf: finite, of the same shape, relative error in norm and element by element to the
    largest."""
    paths = jax.tree_util.tree_leaves_with_path(got)
    others = jax.tree.leaves(want)
    assert len(paths) == len(others), what
    for (path, a), b in zip(paths, others):
        where = f"{what}{jax.tree_util.keystr(path)}"
        assert a.shape == b.shape, f"{where}: {a.shape} {b.shape}"
        a64, b64 = wide(a), wide(b)
        assert np.isfinite(a64).all() == np.isfinite(b64).all(), where
        assert relative(a, b) <= tolerance, (
            f"{where}: relative error {relative(a, b):.3g} > {tolerance:.3g}"
        )
        if a64.size:
            worst, largest = np.abs(a64 - b64).max(), np.abs(b64).max()
            assert worst <= 4 * tolerance * largest, f"{where}: {worst:.3g} of {largest:.3g}"


def assert_equal(got, want, what=""):
    """Bit for bit."""
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(want)):
        np.testing.assert_array_equal(
            np.asarray(a), np.asarray(b), f"{what}{jax.tree_util.keystr(path)}"
        )


class Golden:
    """The arrays of a golden file; bf16 ones as ml_dtypes.bfloat16."""

    def __init__(self, stem):
        self.stem = stem
        self.index = json.loads((GOLDEN / f"{stem}.json").read_text())
        self.bytes = (GOLDEN / f"{stem}.bin").read_bytes()

    def __contains__(self, name):
        return name in self.index

    def __getitem__(self, name):
        entry = self.index[name]
        kind = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[entry["dtype"]]
        count = int(np.prod(entry["shape"]))
        return np.frombuffer(self.bytes, kind, count, entry["offset"]).reshape(entry["shape"])


def count_ops(compiled_text, op):
    """Lines of HLO text that apply the operation; asynchronous ones count at their start."""
    words = (f" {op}(", f" {op}-start(")
    return sum(any(w in line for w in words) for line in compiled_text.splitlines())


def equations(jaxpr):
    """Every equation of a jaxpr, those of inner ones too."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def mhc_calls(jaxpr):
    """(operation, inputs, outputs) of every kernel in a jaxpr, inner ones too."""
    return [
        (e.params["operation"], e.params["inputs"], e.params["outputs"])
        for e in equations(jaxpr)
        if e.primitive.name.startswith("mhc_")
    ]


SPECS = {
    "sinkhorn": mhc.Spec(manifold=mhc.Sinkhorn(5)),
    "permutation": mhc.Spec(manifold="permutation"),
    "unconstrained": mhc.Spec(manifold="unconstrained"),
    "identity": mhc.Spec(manifold="identity"),
}
