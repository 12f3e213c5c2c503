"""The command: wrong input, interrupts, the whole job."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mhc_kernels.demo import command, plan, text, worker
from mhc_kernels.demo.config import MOST_SEED
from mhc_kernels.demo.exits import NOT_FINITE

PROGRAM = [sys.executable, "-m", "mhc_kernels.demo"]
SMALL = "--layers 2 --embedding 32 --heads 2 --sequence 32 --batch 8".split()


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--text {0}/none", "text: expected a file or a folder, got .*, which does not exist"),
        ("--text {0}/empty", "text: expected some text, got .*, which is empty"),
        ("--text {0}/folder", "text: expected some text, got .*, which is empty"),
        ("--text {0}/short", "text: expected at least 258 bytes .*, got 257"),
        ("--manifold sphere", "manifold: expected sinkhorn, .* got 'sphere'"),
        ("--streams 9", "streams: expected 1 to 5 for manifold permutation, got 9"),
        ("--out {0}/short/out", "out: expected a folder, got .*short is a file"),
        ("--seed 18446744073709551615", "seed: expected 0 to 2147483646, got 18446744073709551615"),
        ("--devices 3", "batch: expected a multiple of devices=3, got 8"),
        ("--residual plain", "residual: expected .hyper. where both"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(tmp_path, capsys, flags, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "short").write_bytes(b"x" * 257)
    before = files(tmp_path)
    arguments = ["--out", str(tmp_path / "out"), *flags.format(tmp_path).split()]
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(f"error: {message}.*\n", error), error
    assert files(tmp_path) == before


@pytest.mark.parametrize("flags", ["--steps many", "--implementation fast", "--unknown"])
def test_wrong_flags_are_one_line(flags, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(flags.split())
    assert caught.value.code == 2
    assert re.fullmatch("error: .*\n", capsys.readouterr().err)


def test_a_folder_without_write_permission(tmp_path, capsys, monkeypatch):
    # The user of the tests may be one who may write everywhere.
    monkeypatch.setattr(command.os, "access", lambda path, mode: False)
    assert command.main(["--out", str(tmp_path / "out")]) == 2
    assert re.fullmatch("error: out: expected a folder to write to, .*\n", capsys.readouterr().err)


def job_of(tiny, folder, **changes):
    import dataclasses

    config = dataclasses.asdict(tiny.replace(**changes))
    return json.dumps(
        {"folder": str(folder), "name": "kernel", "title": "t", "command": "c", "resume": False}
        | {"config": config}
    )


@pytest.fixture
def handlers():
    """The worker sets its own."""
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_worker_refuses_too_few_devices(tiny, tmp_path, capsys, handlers):
    assert worker.main(job_of(tiny, tmp_path / "run", devices=16, batch=16)) == 2
    assert re.fullmatch("error: devices: expected at most the 8 .*\n", capsys.readouterr().err)
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_made(tiny, capsys, handlers):
    assert worker.main(job_of(tiny, "/proc/demo")) == 2
    assert re.fullmatch("error: out: cannot write to /proc/demo.*\n", capsys.readouterr().err)


def test_a_nan_ends_the_worker_in_one_line(tiny, tmp_path, capsys, handlers):
    assert worker.main(job_of(tiny, tmp_path, learning_rate=1e38)) == NOT_FINITE
    error = capsys.readouterr().err.splitlines()
    assert re.search(r"kernel: step \d+: .* is not finite; .*checkpoint", error[-1]), error
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["error"] in error[-1] and not found["finished"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupt_saves_and_says_how_to_resume(text_file, tmp_path, number):
    flags = [*SMALL, "--implementation", "kernel", "--text", str(text_file), "--out", str(tmp_path)]
    flags += ["--steps", "60" if number == signal.SIGINT else "6000"]
    child = subprocess.Popen([*PROGRAM, *flags], stdout=subprocess.PIPE, text=True)
    lines = [child.stdout.readline()]  # of step 0
    child.send_signal(number)
    rest, _ = child.communicate(timeout=100)
    lines += rest.splitlines()
    assert child.returncode == 130, lines
    saved = int(re.search(r"stopped behind step (\d+), checkpoint saved", rest).group(1))
    assert (tmp_path / f"runs/kernel/checkpoints/{saved}").is_dir()
    assert lines[-1].startswith("continue with: python -m mhc_kernels.demo --layers 2")
    assert lines[-1].endswith("--resume")
    if number == signal.SIGTERM:
        return
    again = lines[-1].removeprefix("continue with: ").split()[1:]
    assert subprocess.run([sys.executable, *again], stdout=subprocess.DEVNULL).returncode == 0
    found = json.loads((tmp_path / "runs/kernel/run.json").read_text())
    assert [row["step"] for row in found["train"]] == list(range(1, 61)) and found["finished"]


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.3])
def test_an_interrupt_while_the_run_starts_is_not_a_traceback(text_file, tmp_path, delay):
    """To the whole group, as a terminal sends it, so many seconds after the run's process is there:
    before Python, before its handlers, before the package is imported."""
    flags = [*SMALL, "--implementation", "kernel", "--text", str(text_file), "--out", str(tmp_path)]
    child = subprocess.Popen(
        [*PROGRAM, *flags, "--steps", "9", "--seed", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while not children.read_text():
        time.sleep(0.001)
    time.sleep(delay)
    os.killpg(child.pid, signal.SIGINT)
    out, error = child.communicate(timeout=100)
    assert child.returncode == 130, out + error
    assert "Traceback" not in error and "FAILED" not in error
    assert out.splitlines()[-1].startswith("continue with: ") and out.endswith(" --resume\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["argparse", "numpy", "matplotlib.figure"])
def test_an_interrupt_before_the_first_run_is_one_line(tmp_path, module, number):
    """While the command imports that module; a hook sends it, so that no time is guessed."""
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and "mhc_kernels.demo.command" in sys.modules:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Finder())
"""
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*PROGRAM, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 130, done.stdout + done.stderr
    assert done.stderr == "interrupted, no run was under way\n" and not done.stdout
    assert not (tmp_path / "out").exists()


def test_the_highest_seed_has_another_beside_it(tiny):
    runs = plan.runs_of(tiny.replace(seed=MOST_SEED), "both")
    assert runs[2].name == "second_seed" and runs[2].config.seed == 0


def test_a_text_that_is_cut_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MOST_BYTES", 1 << 20)
    file = tmp_path / "text"
    for size, source in ((1 << 20, str(file)), ((1 << 20) + 1, f"{file} (first 1 MiB)")):
        file.write_bytes(b"x" * size)
        found = text.load(tiny.replace(text=str(file)))
        assert found.size == 1 << 20 and found.source == source
    (tmp_path / "other").write_bytes(b"y")
    assert text.load(tiny.replace(text=str(tmp_path))).source == f"{tmp_path} (first 1 MiB)"


def test_the_commands_are_those_of_the_script_that_started_it(tmp_path):
    """What ./run sets; the last line of an interrupted job and of --help."""
    code = (
        "from mhc_kernels.demo import plan; print(plan.runs_of(plan.Config(), 'kernel')[0].command)"
    )
    for given, wanted in (
        ({}, "python -m mhc_kernels.demo "),
        ({"MHC_DEMO_COMMAND": "./run"}, "./run "),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, **given},
        )
        assert done.stdout.startswith(wanted), done


@pytest.mark.slow
def test_the_whole_job_on_two_devices(text_file, tmp_path):
    """Five processes. The peak of each is its own: plain has neither streams nor gates."""
    flags = [*SMALL, "--steps", "40", "--text", str(text_file), "--devices", "2"]
    done = subprocess.run(
        [*PROGRAM, *flags, "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(summary["runs"]) == 5 and all(row["passed"] for row in summary["checks"])
    runs = {
        name: json.loads((tmp_path / f"runs/{name}/run.json").read_text())
        for name in summary["runs"]
    }
    assert runs["plain"]["streams"] is None and runs["plain"]["peak_bytes"] > 0
    assert max(runs["unconstrained"]["streams"]["gain"]["forward"]) > 1.01
    assert runs["second_seed"]["config"]["seed"] == 1
