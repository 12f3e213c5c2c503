"""Handlers run on XLA's pool: from several Python threads, in programs on eight devices, and under
a cap."""

import concurrent.futures
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
from support import SPECS, assert_equal, gradients, make, site

SPEC = SPECS["permutation"]


def threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


def test_calls_from_several_python_threads():
    x, params, w, g = make(SPEC, (64,), 256, jnp.bfloat16, seed=1)
    want = jax.block_until_ready(gradients(x, params, w, g, SPEC))
    before = threads_of_this_process()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(
            pool.map(
                lambda _: jax.block_until_ready(gradients(x, params, w, g, SPEC)),
                range(64),
                timeout=120,
            )
        )
    for got in results:
        assert_equal(got, want)
    assert threads_of_this_process() <= before + 8  # Python's own: the library starts none


def test_eight_devices_at_once():
    x, params, w, _ = make(SPEC, (8, 32), 256, jnp.bfloat16, seed=2)
    run = jax.pmap(lambda x: site(x, params, w, SPEC))
    want = run(x)
    for _ in range(20):
        got = run(x)
    assert_equal(got, want)


PROGRAM = """
import sys, jax, jax.numpy as jnp, numpy as np
sys.path.insert(0, {here!r})
from support import *
x, params, w, g = make(SPECS["permutation"], (300,), 640, jnp.bfloat16, seed=3)
d = gradients(x, params, w, g, SPECS["permutation"])
import zlib
print([zlib.crc32(np.asarray(v).tobytes()) for v in jax.tree.leaves(d)])
"""


def test_any_number_of_threads_gives_the_same_bits():
    def run(threads, devices):
        environment = {**os.environ, "MHC_NUM_THREADS": threads, "JAX_NUM_CPU_DEVICES": devices}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(here=os.path.dirname(__file__))],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # XLA's pool has a thread per device at least: 7 workers on 8, and 1.
    assert run("7", "8") == run("1", "1")


def test_a_bad_environment_is_said_by_the_call():
    environment = {**os.environ, "MHC_ISA": "avx9000"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(here=os.path.dirname(__file__))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode != 0 and "avx9000" in done.stderr and "avx512" in done.stderr


def test_a_long_call_does_not_keep_python_waiting():
    """The GIL is free while a handler runs."""
    x, params, w, g = make(SPEC, (2048,), 512, jnp.bfloat16, seed=4)
    jax.block_until_ready(gradients(x, params, w, g, SPEC))
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            stop.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(3):
        jax.block_until_ready(gradients(x, params, w, g, SPEC))
    stop.set()
    thread.join()
    assert len(ticks) > 5
