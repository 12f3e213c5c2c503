"""Meshes of eight devices, values on them, and the collectives of compiled programs."""

import collections
import re

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from support import SPECS, make, site, wide

SPEC = SPECS["permutation"]
KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
# Mesh, its axes, and how batch and sequence are divided.
MESHES = {
    "8": ((8,), ("a",), ("a",)),
    "8_sequence": ((8,), ("a",), (None, "a")),
    "4x2_batch_and_sequence": ((4, 2), ("a", "b"), ("a", "b")),
    "4x2_batch_over_both": ((4, 2), ("a", "b"), (("a", "b"),)),
    "4x2_sequence_over_both": ((4, 2), ("a", "b"), (None, ("a", "b"))),
    "4x2_one_axis_idle": ((4, 2), ("a", "b"), ("a",)),
    "8x1_axis_of_one": ((8, 1), ("a", "b"), ("b", "a")),
}
x, params, w, g = make(SPEC, (8, 8), 16, seed=1)
gates = jax.jit(lambda: mj.coefficients(x, params, SPEC))()
row = jax.random.normal(jax.random.key(3), (8, 8, 16))  # a layer's output


def mesh_of(name, *kinds):
    """The mesh, its axes all of one kind or each of its own, and how the tokens are divided."""
    shape, axes, lead = MESHES[name]
    types = tuple(KINDS[k] for k in kinds) * (len(axes) if len(kinds) == 1 else 1)
    return jax.make_mesh(shape, axes, axis_types=types), lead


def put(mesh, tree, *spec):
    return jax.device_put(tree, NamedSharding(mesh, P(*spec)))


def run(f, *args, **options):
    """f's result, and the text of the compiled program."""
    compiled = jax.jit(f, **options).lower(*args).compile()
    return compiled(*args), compiled.as_text()


def collectives(text):
    """How often each collective stands in a compiled program; asynchronous ones count once."""
    names = (
        "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"
    )
    return dict(collections.Counter(re.findall(rf" ({names})(?:-start)?\(", text)))


def line_of(text, operation):
    """What the lines of a collective say of its results."""
    lines = [s for s in text.splitlines() if re.search(rf" {operation}(-start)?\(", s)]
    return "\n".join(line.split("=", 1)[1].split(f" {operation}")[0] for line in lines)


def shapes_of(text, operation):
    """The shapes of what a collective yields."""
    found = re.findall(r"\[([\d,]+)\]", line_of(text, operation))
    return sorted(tuple(map(int, s.split(","))) for s in found)


def forward(x, params):
    return site(x, params, w, SPEC)


def backward(x, params, g):
    """d_x and d_params for the given cotangent: no loss that would have a sum of its own."""
    return jax.vjp(forward, x, params)[1](g)


def bits(tree):
    """The bit patterns, which tell zeros and NaNs apart."""
    one = lambda v: np.asarray(v).view({2: np.uint16, 4: np.uint32, 8: np.uint64}[v.dtype.itemsize])
    return [one(v) for v in jax.tree.leaves(tree)]


def assert_same_bits(got, want):
    for k, (a, b) in enumerate(zip(bits(got), bits(want), strict=True)):
        assert a.shape == b.shape, f"leaf {k}: {a.shape}, {b.shape}"
        assert np.array_equal(a, b), f"leaf {k}: {np.sum(a != b)} of {a.size} differ"


def assert_rounded_once(got, want):
    """bf16 values that differ by one step, and hardly ever."""
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype == jnp.bfloat16
        step = np.abs(wide(a) - wide(b)) / np.maximum(np.abs(wide(b)), 1e-30)
        assert step.max() <= 2**-7 and np.mean(step > 0) < 0.01


def same_shardings(got, want):
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    return all(a.sharding.is_equivalent_to(b.sharding, a.ndim) for a, b in pairs)
