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


def test_the_comparison_can_fail():
    want = jnp.asarray(np.random.default_rng(0).standard_normal(4096), jnp.float32)
    judge = lambda got: equality.passes(equality.compare(got, want))
    assert judge(want) and judge(want * (1 + 1e-3))
    assert not judge(-want) and not judge(want * 1.1) and not judge(want.at[7].add(1.0))
    assert not equality.passes(equality.compare(jnp.ones(1) * 1.1, jnp.ones(1)))  # its cosine is 1


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
