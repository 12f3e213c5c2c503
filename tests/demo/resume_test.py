"""Stopping, continuing, crashing, and numbers that are not finite."""

import json
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mhc_kernels.demo import checkpoint, step, text, train, training

STOP = 10


@pytest.fixture(scope="module")
def halves(tiny, tmp_path_factory):
    """10 steps, and the rest by resume: the folder and both results."""
    folder = tmp_path_factory.mktemp("halves")
    first = train(tiny, folder, stop=lambda done: done == STOP)
    return folder, first, train(tiny, folder, resume=True)


def state_in(folder, config):
    with checkpoint.opened(folder, resume=True) as saves:
        like = step.Placement(config).replicated(step.init(config))
        return saves.latest, saves.state(like)


def test_resume_continues_bit_for_bit(tiny, whole, whole_folder, halves):
    folder, first, both = halves
    assert not first.finished and len(first.losses) == STOP and first.streams is None
    assert both.losses == whole.losses
    assert [r["loss"] for r in both.held_out] == [r["loss"] for r in whole.held_out]
    assert both.streams == whole.streams and both.samples == whole.samples
    a, b = (state_in(f, tiny) for f in (folder, whole_folder))
    assert a[0] == b[0] == tiny.steps
    jax.tree.map(np.testing.assert_array_equal, a[1], b[1])


def test_resume_of_a_finished_run_changes_nothing(tiny, whole, whole_folder):
    again = train(tiny, whole_folder, resume=True)
    assert again.finished and again.losses == whole.losses and again.streams == whole.streams


def test_a_run_killed_while_it_samples_keeps_what_was_measured(tiny, tmp_path, monkeypatch):
    """The last checkpoint is there, run.json is not."""

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "sample", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tiny, tmp_path)
    found = train(tiny, tmp_path, resume=True)
    assert found.finished and found.samples
    assert found.temporary_bytes > 0 and found.compile_seconds > 0
    assert found.processor_seconds > 0 and found.steps_per_second > 0
    assert found.seconds > found.compile_seconds + found.train[-1]["seconds"]


def test_resume_of_another_run_is_refused(tiny, halves, tmp_path):
    folder = halves[0]
    with pytest.raises(ValueError, match="resume: seed: expected 0 as in .*, got 3"):
        train(tiny.replace(seed=3), folder, resume=True)
    other = tmp_path / "other.txt"
    other.write_bytes(open(tiny.text, "rb").read() + b"!")
    with pytest.raises(ValueError, match="resume: text: expected the text"):
        train(tiny.replace(text=str(other)), folder, resume=True)


def test_without_resume_an_earlier_run_is_replaced(tiny, tmp_path):
    (tmp_path / "checkpoints" / "7").mkdir(parents=True)
    (tmp_path / "run.json").write_text("{}")
    with checkpoint.opened(tmp_path, resume=False) as saves:
        assert saves.latest is None
    assert not (tmp_path / "run.json").exists()


def test_a_save_that_fails_leaves_the_checkpoint_before(tmp_path):
    state = {"a": jnp.arange(5.0)}
    with checkpoint.opened(tmp_path, resume=False) as saves:
        saves.save(1, state, {"train": []})
        with pytest.raises(TypeError):
            saves.save(2, {"a": jnp.zeros(5)}, {"train": object()})
    with checkpoint.opened(tmp_path, resume=True) as saves:
        assert saves.latest == 1
        np.testing.assert_array_equal(saves.state(state)["a"], state["a"])


SAVER = """
import sys, pathlib, jax.numpy as jnp
from mhc_kernels.demo import checkpoint
with checkpoint.opened(pathlib.Path(sys.argv[1]), resume=False) as saves:
    for step in range(1, 1000):
        print(step, flush=True)
        saves.save(step, {str(k): jnp.full((1 << 18,), step) for k in range(40)}, {"at": step})
"""


@pytest.mark.parametrize("moment", [0.01, 0.05, 0.1])
def test_a_crash_leaves_no_half_written_checkpoint(tmp_path, moment):
    child = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    while int(child.stdout.readline()) < 3:
        pass
    time.sleep(moment)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    like = {str(k): jnp.zeros((1 << 18,), int) for k in range(40)}
    with checkpoint.opened(tmp_path, resume=True) as saves:
        assert saves.latest >= 2
        assert saves.history() == {"at": saves.latest}
        for leaf in saves.state(like).values():
            assert (np.asarray(leaf) == saves.latest).all()


def poison(state, path, index=()):
    """A copy of the state with a NaN in the parameter at path."""
    state = jax.tree.map(jnp.copy, state)
    inner = state["params"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = inner[path[-1]].at[index].set(jnp.nan)
    return state


def test_a_nan_stops_the_run_and_keeps_the_last_good_checkpoint(tiny, tmp_path, monkeypatch):
    train(tiny, tmp_path, stop=lambda done: done == 6)
    restore = checkpoint.Checkpoints.state
    with monkeypatch.context() as patch:
        bad = lambda saves, like: poison(
            restore(saves, like), ("sites", 3, "branch", "up", "kernel"), (0, 0)
        )
        patch.setattr(checkpoint.Checkpoints, "state", bad)
        with pytest.raises(
            training.NotFinite,
            match="^step 7: layer 1 mlp is not finite; .* good checkpoint is that of step 6$",
        ) as caught:
            train(tiny, tmp_path, resume=True)
    assert len(caught.value.result.losses) == 6 and not caught.value.result.finished
    with checkpoint.opened(tmp_path, resume=True) as saves:
        assert saves.latest == 6
        kept = saves.state(step.Placement(tiny).replicated(step.init(tiny)))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))


@pytest.fixture(scope="module")
def started(tiny):
    """A run whose step is compiled."""
    run = training._Run(tiny, text.load(tiny), step.Placement(tiny), None, lambda kind, row: None)
    run._compile()
    return run


@pytest.mark.parametrize(
    "path, index, message",
    [
        (("embedding",), (32, 0), "layer 0 attention"),
        (("sites", 0, "connection", "phi"), (0, 0, 0), "layer 0 attention"),  # of h_pre
        (("sites", 1, "connection", "bias"), (5,), "layer 0 mlp"),  # of h_post alone
        (("sites", 2, "connection", "alpha"), (2,), "layer 1 attention"),  # of h_res alone
        (("sites", 2, "branch", "out", "kernel"), (0, 0), "layer 1 attention"),
        (("out", "kernel"), (0, 0), "the loss, behind the last layer,"),
    ],
)
def test_a_nan_is_traced_to_its_layer(started, tiny, path, index, message):
    batch = started.placement.batch(text.batch(started.data, tiny, 1))
    _, metrics = started.program(poison(started.state, path, index), batch)
    assert step.first_bad(jax.device_get(metrics), tiny.sites) == message


def test_a_gradient_that_is_not_finite_is_named(tiny):
    good = {"loss": 1.0, "sites": [True] * 4, "update": True}
    metrics = {**good, "gradients": {"site 0": False, "site 2": False, "out": True}}
    assert step.first_bad(metrics, tiny.sites) == "the gradient of layer 1 attention"
    assert step.first_bad({**good, "gradients": {"out": True}}, tiny.sites) is None
    assert step.first_bad({**good, "gradients": {}, "update": False}, tiny.sites)


def test_json_holds_no_infinity(tmp_path):
    from mhc_kernels.demo.result import write_json

    inf, nan = float("inf"), float("nan")
    write_json(tmp_path / "a", {"gain": [1.0, inf, -inf, nan, 1e38], "none": None, "n": (1, True)})
    strict = json.loads((tmp_path / "a").read_text(), parse_constant=pytest.fail)
    assert strict == {"gain": [1.0, 1e30, -1e30, 1e30, 1e30], "none": None, "n": [1, True]}


def test_json_is_whole_or_not_there(tmp_path):
    from mhc_kernels.demo.result import write_json

    file = tmp_path / "run.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert json.loads(file.read_text()) == {"a": 1}
