"""The benchmark's command: what it measures, says and writes."""

import gzip
import json
import subprocess
import sys

import jax
import pytest
from mhc_kernels.bench import __main__ as bench
from mhc_kernels.bench import command, report, saved
from mhc_kernels.bench.cases import Case


def run(*arguments, timeout=300):
    return subprocess.run(
        [sys.executable, "-m", "mhc_kernels.bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow
def test_benchmark(tmp_path):
    out = tmp_path / "bench.json"
    done = run(
        *"--dims 64,4,256 --quick --manifold permutation --remat --branch identity,scale".split(),
        *("--tune", "--allocator", "default", "--json", out, "--trace", tmp_path / "trace"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    keys = ("path", "pass", "remat", "branch")
    rows = {tuple(r[k] for k in keys): r for r in found["rows"]}
    # Three paths along forward, forward_backward, and that with remat, of two branches; and core.
    assert len(rows) == len(found["rows"]) == 3 * 3 * 2 + 1
    assert found["machine"]["isa"]["chosen"] and "[19/19]" in done.stderr
    assert set(found["machine"]["block_sizes"]) == {"pre", "post", "post_backward", "pre_backward"}
    fields = {"framework", "manifold", "allocator", "dims", "dtype", "us_per_token", *keys}
    for (path, *_), row in rows.items():
        measured = {"temp_bytes", "saved_bytes"} if path != "core" else set()
        assert fields | {"bytes_per_token", "speed_up", "spread"} | measured <= set(row)
    kernel, plain, core = (
        rows[path, "forward_backward", False, "identity"] for path in ("kernel", "plain", "core")
    )
    assert kernel["temp_bytes"] * 2.54 < plain["temp_bytes"]
    assert kernel["saved_bytes"] < plain["saved_bytes"]
    assert kernel["core_ratio"] == pytest.approx(kernel["us_per_token"] / core["us_per_token"])
    assert kernel["speed_up"] == pytest.approx(plain["us_per_token"] / kernel["us_per_token"])
    # The kernels' own operands are counted: at least what the library has to move.
    assert kernel["bytes_per_token"] >= 0.9 * core["bytes_per_token"]
    assert out.with_suffix(".png").stat().st_size > 1000
    (trace,) = (tmp_path / "trace").rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = {event.get("name", "").split(".")[0] for event in events}
    assert {"mhc_pre", "mhc_post", "mhc_post_backward", "mhc_pre_backward"} <= names


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--path fast", "--path: expected plain, reference, kernel, core, got fast"),
        ("--pass back", "--pass: expected forward, forward_backward, got back"),
        ("--branch mlp", "--branch: expected identity, scale, got mlp"),
        ("--dims 4,4", "--dims: expected three or four positive numbers"),
        ("--dims 8,0,4", "--dims: expected three or four positive numbers"),
        ("--dims a,b,c", "--dims: expected three or four positive numbers"),
        ("--dims 2,8,6,16", "--dims: Spec: streams: expected 1 to 5 for manifold permutation"),
        ("--repetitions 0", "--repetitions: expected at least 1, got 0"),
        ("--path plain --trace x", "--trace: expected path kernel and pass forward_backward"),
    ],
)
def test_wrong_options_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.parse(arguments.split())
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_block_sizes_are_those_of_the_table(tmp_path, monkeypatch):
    """The row with the most tokens that the case reaches, of this shape, type and thread count."""
    monkeypatch.setattr(command, "info", lambda: {"threads": 2})
    table = tmp_path / "table.txt"
    table.write_text(
        "mhc-tuning 1\n\n# by hand\n"
        "pre bf16 workers=2 streams=4 embedding=256 tokens=64 pre_tile_tokens=8\n"
        "pre bf16 workers=2 streams=4 embedding=256 tokens=128 pre_tile_tokens=16 stream_bytes=0\n"
        "pre bf16 workers=2 streams=4 embedding=256 tokens=256 pre_tile_tokens=32\n"
        "pre f32 workers=2 streams=4 embedding=256 tokens=128 pre_tile_tokens=64\n"
        "pre bf16 workers=1 streams=4 embedding=256 tokens=128 pre_tile_tokens=64\n"
        "post bf16 workers=2 streams=4 embedding=128 tokens=64 tokens_per_task=64\n"
    )
    case = Case("kernel", "forward", False, "permutation", (2, 64, 4, 256))
    monkeypatch.delenv("MHC_TUNING", raising=False)
    assert set(command.block_sizes(case).values()) == {"built in"}
    monkeypatch.setenv("MHC_TUNING", str(table))
    assert command.block_sizes(case) == {
        "pre": "pre_tile_tokens=16, stream_bytes=0",
        "post": "built in",
        "post_backward": "built in",
        "pre_backward": "built in",
    }


def test_ratios_compare_equal_conditions():
    one = {"allocator": "default", "manifold": "sinkhorn", "pass": "forward", "remat": False}
    row = lambda path, branch, us: {**one, "path": path, "branch": branch, "us_per_token": us}
    memory = {"temp_bytes": 100, "bytes_per_token": 10.0}
    rows = [
        {**row("plain", "identity", 8.0), **memory},
        {**row("plain", "scale", 20.0), **memory},
        {**row("kernel", "identity", 2.0), "temp_bytes": 10, "bytes_per_token": 4.0},
        {**row("kernel", "scale", 4.0), "temp_bytes": 20, "bytes_per_token": 5.0},
        row("core", "identity", 1.6),
    ]
    report.add_ratios(rows)
    assert [r["speed_up"] for r in rows] == [1.0, 1.0, 4.0, 5.0, 5.0]
    assert rows[2]["core_ratio"] == 1.25 and "core_ratio" not in rows[3]
    assert rows[3]["temp_ratio"] == 5.0 and rows[3]["bytes_ratio"] == 2.0
    assert len(report.table(rows[:0]).splitlines()) == 2


def test_saved_bytes_has_every_policy():
    named = " ".join(saved.POLICIES)
    for name in dir(jax.checkpoint_policies):
        assert name.startswith("_") or name in named, name
