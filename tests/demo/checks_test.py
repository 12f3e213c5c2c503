"""Each check can pass and can fail; the main job ends with what they say."""

import dataclasses
import json
import signal

import pytest

from mhc_kernels.demo import checks, job, plan, processes, report, text
from mhc_kernels.demo.exits import NOT_FINITE
from mhc_kernels.demo.result import NO_NUMBER, write_json


def run(train, held_out=(6.0, 3.0, 2.0), **more):
    rows = lambda losses, first: [{"step": first + k, "loss": v} for k, v in enumerate(losses)]
    return {"train": rows(train, 1), "held_out": rows(held_out, 0), "streams": None, **more}


def test_falls():
    assert checks.falls(run([], (6.0, 5.0, 4.4)))["passed"]
    assert not checks.falls(run([], (6.0, 4.0, 4.6)))["passed"]
    assert not checks.falls(run([], (6.0, 5.0, float("nan"))))["passed"]


def test_first_steps():
    a = run([5.0] * 40)
    assert checks.first_steps(a, run([5.0 + 0.9 * checks.FIRST_TOLERANCE] * 40))["passed"]
    late = [5.0] * 19 + [5.0 + 1.1 * checks.FIRST_TOLERANCE]
    found = checks.first_steps(a, run(late + [5.0] * 20))
    assert not found["passed"] and "step 20" in found["detail"]
    assert checks.first_steps(a, run([5.0] * 20 + [9.0] * 20))["passed"]  # not among the first
    assert not checks.first_steps(a, run([float("nan")] * 40))["passed"]
    assert not checks.first_steps(a, run([]))["passed"]


@pytest.mark.parametrize("bad", [float("nan"), NO_NUMBER])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_number_that_is_not_finite_fails_each_check_wherever_it_is(bad, at):
    """max drops a NaN that is not the first, and equal ones of NO_NUMBER differ by nothing."""
    losses = [5.0, 5.0, 5.0]
    losses[at] = bad
    for other in ([5.0] * 3, losses):
        found = checks.first_steps(run(losses), run(other))
        assert not found["passed"] and f"step {at + 1}" in found["detail"]
    curve = [6.0, 3.0, 2.0]
    curve[at] = bad
    assert not checks.falls(run([], curve))["passed"]
    tail = [6.0] * 6 + curve
    assert not checks.end(run([], tail), run([], tail), run([], [6.0] * 9))["passed"]
    for side in ("row_error", "column_error"):
        layers = [{"row_error": 0.0, "column_error": 0.0} for _ in range(3)]
        layers[at][side] = bad
        for manifold in checks.MARGINS:
            found = run([], manifold=manifold, streams={"layers": layers})
            assert not checks.on_manifold("kernel", found)["passed"], (side, manifold)


def test_end():
    a, seed = run([], [6, 4, 3, 2, 2.0, 2.0]), run([], [6, 4, 3, 2, 2.1, 1.9])
    # The seeds' means are equal by chance, their curves are 0.1 apart.
    assert checks.end(a, run([], [6, 4, 3, 2, 2.09, 2.09]), seed)["passed"]
    assert not checks.end(a, run([], [6, 4, 3, 2, 2.11, 2.11]), seed)["passed"]
    assert not checks.end(a, run([], [6, 4, 3, 2, 2, float("nan")]), seed)["passed"]


def test_on_manifold():
    def with_errors(row, column):
        layers = [
            {"row_error": 0.0, "column_error": 0.0},
            {"row_error": row, "column_error": column},
        ]
        return run([], manifold="permutation", streams={"layers": layers})

    assert checks.on_manifold("kernel", with_errors(1e-6, 1e-6))["passed"]
    assert not checks.on_manifold("kernel", with_errors(1e-3, 0.0))["passed"]
    assert not checks.on_manifold("kernel", with_errors(0.0, 1e-3))["passed"]


def test_each_run_names_the_command_that_repeats_it(tiny):
    from mhc_kernels.demo.command import parse

    runs = plan.runs_of(tiny.replace(seed=4, remat=True), "both")
    assert [r.name for r in runs] == [
        "kernel",
        "reference",
        "second_seed",
        "plain",
        "unconstrained",
    ]
    for one in runs:
        options = parse(one.command.removeprefix(plan.PROGRAM).split())
        for field in (*plan.FLAGS, "implementation"):
            assert getattr(options, field) == getattr(one.config, field), (one.name, field)


@pytest.fixture
def results(whole, reference, plain):
    """What stands for each run: the tests train three."""
    other = dataclasses.replace(
        whole, held_out=[{**row, "loss": row["loss"] + 0.05} for row in whole.held_out]
    )
    return {
        "kernel": whole,
        "reference": reference,
        "second_seed": other,
        "plain": plain,
        "unconstrained": whole,
    }


def not_finite(result):
    """As if it had ended at its first step."""
    return dataclasses.replace(
        result,
        train=[],
        held_out=result.held_out[:1],
        finished=False,
        streams=None,
        samples=[],
        error="step 1: layer 0 mlp is not finite; there is no checkpoint",
    )


def work(
    tiny, out, results, monkeypatch, *, resume=False, status=None, draws=False, interrupted=()
):
    """The main job, with processes that only write what is in results, and with a report only where
    it draws one; the exit status and the names of the runs that were started."""
    started = []

    def fake(one, folder, interrupts, *, resume):
        started.append(one.name)
        if one.name in interrupted:
            signal.raise_signal(signal.SIGINT)
        if (status or {}).get(one.name, 0) in (0, NOT_FINITE):
            folder.mkdir(parents=True, exist_ok=True)
            result = dataclasses.replace(results[one.name], config=one.config)
            if (status or {}).get(one.name):
                result = not_finite(result)
            labels = {"name": one.name, "title": one.title, "command": one.command}
            write_json(folder / "run.json", result.to_json(**labels))
        return (status or {}).get(one.name, 0)

    monkeypatch.setattr(processes, "run", fake)
    if not draws:
        monkeypatch.setattr(report, "write", lambda out: out)
    data = text.load(tiny)
    runs = plan.runs_of(tiny, "both")
    return job.work(runs, out, data, command="again", resume=resume), started


def test_the_job_writes_a_summary_and_passes(tiny, results, tmp_path, monkeypatch, capsys):
    code, started = work(tiny, tmp_path, results, monkeypatch, draws=True)
    assert code == 0 and started == list(results) and (tmp_path / "report.html").exists()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["command"] == "again" and summary["runs"] == started
    assert len(summary["checks"]) == 5 and all(row["passed"] for row in summary["checks"])
    assert summary["text"]["bytes"] == 200_000 and summary["text"]["held_out_bytes"] > 0
    found = json.loads((tmp_path / "runs/kernel/run.json").read_text())
    assert {"name", "title", "command", "config", "streams", "samples", "held_out"} <= set(found)
    assert capsys.readouterr().out.count("passed: ") == 5


def test_the_job_fails_where_the_curves_disagree(tiny, results, tmp_path, monkeypatch, capsys):
    code, _ = work(tiny, tmp_path, {**results, "reference": results["plain"]}, monkeypatch)
    assert code == 1
    assert "FAILED: kernel and reference agree step by step" in capsys.readouterr().out


def test_a_baseline_may_diverge_but_not_the_kernel(tiny, results, tmp_path, monkeypatch):
    assert work(tiny, tmp_path, results, monkeypatch, status={"unconstrained": 3})[0] == 0
    assert work(tiny, tmp_path, results, monkeypatch, status={"kernel": 3}) == (1, ["kernel"])
    assert work(tiny, tmp_path, results, monkeypatch, status={"plain": -9})[0] == 1


@pytest.mark.parametrize("status", [1, -9])
def test_a_baseline_that_crashes_fails_the_job(
    tiny, results, tmp_path, monkeypatch, capsys, status
):
    """A traceback ends with 1. What the run left before is not its result."""
    assert work(tiny, tmp_path, results, monkeypatch)[0] == 0
    assert work(tiny, tmp_path, results, monkeypatch, status={"plain": status})[0] == 1
    assert f"FAILED: run plain: ended with status {status}" in capsys.readouterr().err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["runs"] == ["kernel", "reference", "second_seed"]
    assert summary["checks"][0] == {
        "name": "run plain",
        "passed": False,
        "detail": f"ended with status {status}",
    }


def test_a_kernel_that_is_not_finite_is_reported(tiny, results, tmp_path, monkeypatch):
    assert work(tiny, tmp_path, results, monkeypatch, draws=True)[0] == 0
    assert "Everything passed" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "pictures/gain.png").exists()
    status = {"kernel": NOT_FINITE}
    assert work(tiny, tmp_path, results, monkeypatch, status=status, draws=True)[0] == 1
    page = (tmp_path / "report.html").read_text()
    assert "Everything passed" not in page and "layer 0 mlp is not finite" in page
    assert not (tmp_path / "pictures/gain.png").exists()  # of streams that are not there
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["runs"] == ["kernel"] and not summary["checks"][0]["passed"]


def test_nothing_stale_stays_beside_runs_that_failed(tiny, results, tmp_path, monkeypatch):
    assert work(tiny, tmp_path, results, monkeypatch, draws=True)[0] == 0
    own = tmp_path / "pictures/holiday.png"
    own.write_bytes(b"of the user")
    before = sorted(tmp_path.rglob("*"))
    # Refused: as if nothing had been.
    assert work(tiny, tmp_path, results, monkeypatch, status={"kernel": 2})[0] == 2
    assert sorted(tmp_path.rglob("*")) == before
    assert work(tiny, tmp_path, results, monkeypatch, status={"kernel": -9})[0] == 1
    assert own.exists() and not (tmp_path / ".earlier").exists()
    assert not (tmp_path / "summary.json").exists() and not (tmp_path / "report.html").exists()
    assert list((tmp_path / "pictures").iterdir()) == [own]


def test_an_interrupt_at_the_end_of_a_run_is_not_lost(tiny, results, tmp_path, monkeypatch, capsys):
    """The run has answered with 0."""
    code, started = work(tiny, tmp_path, results, monkeypatch, interrupted=["kernel"])
    assert code == 130 and started == ["kernel"]
    assert capsys.readouterr().out.endswith("continue with: again --resume\n")
    code, started = work(tiny, tmp_path, results, monkeypatch, resume=True)
    assert code == 0 and started[0] == "reference"


def test_seconds_count_what_earlier_calls_took(tiny, results, tmp_path, monkeypatch):
    results = {name: dataclasses.replace(r, seconds=1000.0) for name, r in results.items()}
    work(tiny, tmp_path, results, monkeypatch, status={"second_seed": 130})
    assert work(tiny, tmp_path, results, monkeypatch, resume=True)[0] == 0
    # Two were finished. Of the others, whose processes took no time here, all is from before.
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert 5000 - 1 < summary["seconds"] < 5100


def test_the_summary_names_what_it_ran_on(tiny, results, tmp_path, monkeypatch):
    work(tiny, tmp_path, results, monkeypatch)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["versions"]) == {"python", "jax", "jaxlib", "flax", "mhc_kernels"}
    assert all(summary["versions"].values()) and summary["processor"] != ""


def test_resume_keeps_what_is_finished(tiny, results, tmp_path, monkeypatch, capsys):
    code, started = work(tiny, tmp_path, results, monkeypatch, status={"second_seed": 130})
    assert code == 130 and started == ["kernel", "reference", "second_seed"]
    assert "continue with: again --resume" in capsys.readouterr().out
    code, started = work(tiny, tmp_path, results, monkeypatch, resume=True)
    assert code == 0 and started == ["second_seed", "plain", "unconstrained"]
