"""Handlers run on XLA's pool: from several Python threads, in programs on eight devices, and under
a cap. Whatever could wait for ever runs in a child that is given up after a time."""

import os
import subprocess
import sys

from child import GIVE_UP, in_child


def case(tokens, embedding, seed, lead=()):
    import jax.numpy as jnp
    from support import SPECS, make

    spec = SPECS["permutation"]
    return (*make(spec, (*lead, tokens), embedding, jnp.bfloat16, seed=seed), spec)


def native_threads():
    """Of this process, and those of them that have used a processor since they began."""
    ticks = {}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/schedstat") as file:
            ticks[task] = int(file.read().split()[0])
    return ticks


# ---- Programs of children
# ---------------------------------------------------------------------------------------


def call_from_eight_threads():
    import concurrent.futures

    import jax
    from support import assert_equal, gradients

    args = case(64, 256, 1)
    run = lambda _=None: jax.block_until_ready(gradients(*args))
    want = run()
    for _ in range(20):  # every thread of XLA's has started by now
        run()
    before = set(native_threads())
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(run, range(64)):
            assert_equal(got, want)
        during = set(native_threads())
    assert len(during - before) <= 8, "Python's own eight: the library starts none"
    print("right")


def call_on_eight_devices():
    import jax
    from support import assert_equal, site

    x, params, w, _, spec = case(32, 256, 2, lead=(8,))
    run = jax.pmap(lambda x: site(x, params, w, spec))
    want = run(x)
    for _ in range(30):
        got = run(x)
    assert_equal(got, want)
    print("right")


def count_threads_that_work():
    """The most threads that ran while one large call did, by the time the system counts for each."""
    import jax
    import mhc_kernels.jax as mj

    x, params, _, _, spec = case(4096, 512, 3)
    run = jax.jit(lambda x: mj.pre(x, params, spec)[0])
    jax.block_until_ready(run(x))
    most = 0
    for _ in range(8):  # each by itself: the pool sends another of its threads every time
        before = native_threads()
        jax.block_until_ready(run(x))
        after = native_threads()
        assert set(after) == set(before), "no thread was started"
        spent = [after[t] - before[t] for t in after]
        # A share of the busiest one's work: waking up and watching cost far less.
        most = max(most, sum(t > 0.1 * max(spent) for t in spent))
    print(most)


def call_while_python_ticks():
    import threading

    import jax
    from support import gradients

    args = case(2048, 512, 4)
    jax.block_until_ready(gradients(*args))
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            stop.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(3):
        jax.block_until_ready(gradients(*args))
    stop.set()
    thread.join()
    print(len(ticks))


def print_sums():
    import zlib

    import jax
    import numpy as np
    from support import gradients

    d = gradients(*case(300, 640, 3))
    print([zlib.crc32(np.asarray(v).tobytes()) for v in jax.tree.leaves(d)])


# ---- Tests
# ---------------------------------------------------------------------------------------


def test_calls_from_several_python_threads():
    assert in_child(call_from_eight_threads) == "right\n"


def test_eight_devices_at_once():
    """Every thread of the pool is inside a handler, and each asks the pool for helpers."""
    for threads in ("1", "2", "8"):
        assert in_child(call_on_eight_devices, MHC_NUM_THREADS=threads) == "right\n"


def test_no_more_threads_work_than_allowed():
    """XLA's pool has eight at least; the cap counts the caller in."""
    for threads in (1, 2):
        busy = int(in_child(count_threads_that_work, MHC_NUM_THREADS=str(threads)))
        assert 1 <= busy <= threads
    allowed = len(os.sched_getaffinity(0))
    assert 1 <= int(in_child(count_threads_that_work)) <= allowed


def test_any_number_of_threads_gives_the_same_bits():
    # XLA's pool has a thread per device at least: 7 workers on 8, and 1.
    results = [
        in_child(print_sums, MHC_NUM_THREADS=threads, JAX_NUM_CPU_DEVICES=devices)
        for threads, devices in (("7", "8"), ("1", "1"), ("2", "2"))
    ]
    assert len(set(results)) == 1


def test_a_bad_environment_is_said_by_the_call():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
            "import threads_test\nthreads_test.print_sums()",
        ],
        env={**os.environ, "MHC_ISA": "avx9000"},
        capture_output=True,
        text=True,
        timeout=GIVE_UP,
    )
    assert done.returncode != 0 and "avx9000" in done.stderr and "avx512" in done.stderr


def test_a_long_call_does_not_keep_python_waiting():
    """The GIL is free while a handler runs."""
    assert int(in_child(call_while_python_ticks)) > 5
