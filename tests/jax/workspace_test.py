"""Scratch memory of the handlers, and what happens where there is none."""

import os
import subprocess
import sys

PROGRAM = """
import resource, jax, jax.numpy as jnp
import mhc_kernels as mhc, mhc_kernels.jax as mj

spec = mhc.Spec(manifold="identity", phi_precision="bfloat16")

def make(d):
    return jnp.ones((1, 4, d)), mj.Params(jnp.full((8, 4, d), 0.5), jnp.ones(3), jnp.zeros(8))

run = jax.jit(lambda x, p: mj.coefficients(x, p, spec)[0])
small, large = make(64), make(500_000)
compiled = run.lower(*large).compile()
want = jax.block_until_ready(run(*small))  # every thread has started
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (8 << 20)  # the packed phi of the large case is 61 MiB
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    jax.block_until_ready(compiled(*large))
    print("no error")
except jax.errors.JaxRuntimeError as error:
    print("error:", error)
print("small:", bool((run(*small) == want).all()))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("large:", bool(jnp.isfinite(compiled(*large)).all()))
"""


def test_no_memory_is_an_error_of_the_call():
    """Named like other errors, and no exception goes through XLA; later calls work."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    error, small, large = done.stdout.splitlines()
    assert error.startswith("error: RESOURCE_EXHAUSTED: coefficients: workspace: expected ")
    assert "bytes of memory, got none" in error
    assert (small, large) == ("small: True", "large: True")
