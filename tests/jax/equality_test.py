"""The thirteen tensors at the published shape, and gates next to a rounding step."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from mhc_kernels import equality
from mhc_kernels.bench.cases import Case
from support import make, seed_of, wide


@pytest.mark.slow
def test_published_shape():
    """The command that prints the table, with XLA's own code optimised as users have it."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "mhc_kernels.equality"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    print("\n" + done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "26 tensors, 0 outside" in done.stdout
    assert done.stdout.count("| permutation |") == done.stdout.count("| sinkhorn |") == 13


SMALL = (2, 48, 4, 96)


@pytest.fixture(scope="module")
def pair():
    cases = [
        Case(p, "forward_backward", False, "permutation", SMALL) for p in ("kernel", "reference")
    ]
    return cases[0], *map(equality.tensors, cases)


def test_small_shape():
    for manifold in ("permutation", "sinkhorn"):
        rows = equality.rows_of(SMALL, manifold)
        assert len(rows) == 13
        assert not [r for r in rows if not equality.passes(r)]


@pytest.mark.parametrize(
    "tensor",
    [*("x_next", "d_x", "branch weight", "norm_scale")]
    + [f"{part} {name}" for part in ("pre", "post", "res") for name in ("alpha", "bias", "scale")],
)
def test_one_wrong_element_is_seen(tensor, pair):
    """Whatever the tensor: an element that is off by the tensor's own size is outside its bound,
    and a tensor that is right but for its sign or a factor of 1.02 does not pass, half of its bound
    or not. With few elements, an eighth is what a sum that cancels may have."""
    case, got, want = pair
    size = np.sqrt(np.mean(np.square(wide(got[tensor]))))
    judge = lambda value: equality.shares(case, {**got, tensor: value}, want)[tensor]
    value = jnp.asarray(got[tensor], jnp.float32)
    assert judge(value) <= 1
    assert judge(value.ravel().at[0].add(4 * size).reshape(value.shape)) > 1
    row = {**equality.compare(-value, want[tensor]), "share": judge(-value)}
    assert not equality.passes(row)
    row = {**equality.compare(1.02 * value, want[tensor]), "share": 0.5}
    assert not equality.passes(row)
    assert equality.passes({**row, "share": 0.1}) is (value.size < 16)


@pytest.mark.parametrize("preset", ["maxtext_lite", "deepseek_v4"])
def test_toggling_changes_accumulation_alone(preset):
    """bf16 activations, logits next to steps of bf16: gates in bf16 would jump by 2^-8, gates in
    f32 do not."""
    spec = mhc.Spec.preset(preset)
    x, params, w, _ = make(spec, (64,), 128, jnp.bfloat16, norm_weight=False, seed=seed_of(preset))
    steps = np.asarray(np.arange(spec.coefficients) % 7 + 1, np.float32)
    beside = (steps + 2.0**-8 * steps).astype(np.float32)  # half way between two bf16 numbers
    params = mj.Params(params.phi, jnp.full(3, 1e-3), jnp.asarray(beside))
    run = jax.jit(lambda i: mj.coefficients(x, params, spec, implementation=i), static_argnums=0)
    for name, got, want in zip(("h_pre", "h_post", "h_res"), run("kernel"), run("reference")):
        assert np.abs(wide(got) - wide(want)).max() < 2.0**-18, name
    out = [
        jax.jit(
            lambda: mj.post(
                mj.pre(x, params, spec, implementation=i)[0],
                mj.pre(x, params, spec, implementation=i)[1],
            )
        )()
        for i in ("kernel", "reference")
    ]
    different = np.mean(wide(out[0]) != wide(out[1]))
    assert different < 0.05, different  # single elements fall on the other side of a rounding
    assert np.abs(wide(out[0]) - wide(out[1])).max() <= 2.0**-7 * np.abs(wide(out[1])).max()
