"""A folder as a run leaves it, with figures made up."""

import json

import numpy as np


def streams(sites, n, manifold, rng):
    doubly = manifold in ("permutation", "sinkhorn", "identity")
    layers = []
    for k in range(sites):
        h_res = (
            np.eye(n) * (mix := rng.uniform()) + (1 - mix) / n
            if doubly
            else rng.normal(size=(n, n)) * 0.4 + np.eye(n)
        )
        layers.append(
            {
                "name": f"{k // 2} {('attention', 'mlp')[k % 2]}",
                "h_res": h_res.tolist(),
                "h_pre": rng.uniform(0.1, 0.5, n).tolist(),
                "h_post": rng.uniform(0.5, 1.5, n).tolist(),
                "row_sums": h_res.sum(1).tolist(),
                "column_sums": h_res.sum(0).tolist(),
                "row_error": 0.0 if manifold == "identity" else 1e-7 if doubly else 0.8,
                "column_error": 2e-7 if doubly else 1.2,
                "permutation_entropy": 1.5 if manifold == "permutation" else None,
                "stream_norm": rng.uniform(1, 2 + k, n).tolist(),
            }
        )
    growth = 1.0 if doubly else 1.6
    gain = [growth**k for k in range(1, sites + 1)]
    return {
        "layers": layers,
        "stream_norm_out": rng.uniform(1, 3, n).tolist(),
        "gain": {"forward": gain, "backward": gain[::-1] if doubly else gain},
    }


def run(name, manifold, residual="hyper", sites=4, n=4):
    rng = np.random.default_rng(len(name))
    steps = np.arange(1, 61)
    loss = 2 + 3.5 * np.exp(-steps / 15) + rng.normal(size=60) * 0.05
    points = [
        {"step": int(s), "loss": float(v), "seconds": 0.5 * int(s)} for s, v in zip(steps, loss)
    ]
    return {
        "name": name,
        "title": f"{manifold}, {name}" if residual == "hyper" else "plain residual",
        "config": {"steps": 60},
        "command": "python -m mhc_kernels.demo",
        "implementation": "kernel",
        "residual": residual,
        "manifold": manifold,
        "parameters": 1234567,
        "train": points,
        "held_out": points[::10],
        "steps_per_second": 2.5,
        "tokens_per_second": 5120.0,
        "processor_seconds": 0.25,
        "peak_bytes": 700 * 2**20,
        "temporary_bytes": 90 * 2**20,
        "compile_seconds": 8.5,
        "error": "step 7: layer 3 mlp is not finite" if manifold == "unconstrained" else None,
        "samples": [{"prompt": "def ", "text": 'f(x):\n    return <b>x</b> & "y"\n'}],
        "streams": streams(sites, n, manifold, rng) if residual == "hyper" else None,
    }


def bench_rows():
    common = {"allocator": "tuned", "manifold": "permutation", "remat": False, "branch": "identity"}
    rows = []
    for path, us in (("plain", 200.0), ("reference", 100.0), ("kernel", 20.0), ("core", 18.0)):
        memory = {} if path == "core" else {"temp_bytes": int(us * 1e6), "saved_bytes": 10**6}
        row = {"path": path, "pass": "forward_backward", "us_per_token": us, "spread": 0.1}
        rows.append({**common, **row, **memory, "bytes_per_token": us * 100})
    return rows


def write(out, checks_pass=True, parts=True, manifold="permutation"):
    out.mkdir(exist_ok=True)
    runs = {
        "kernel": run("kernel", manifold),
        "reference": run("reference", manifold),
        "plain": run("plain", "none", "plain"),
        "unconstrained": run("unconstrained", "unconstrained"),
    }
    for name, found in runs.items():
        (out / "runs" / name).mkdir(parents=True)
        (out / "runs" / name / "run.json").write_text(json.dumps(found))
    check = {"name": "loss curves agree", "passed": checks_pass, "detail": "within 0.01 < 0.05"}
    summary = {
        "command": "python -m mhc_kernels.demo --out 'a b'",
        "runs": list(runs),
        "checks": [check],
        "seconds": 123.4,
        "processor": "A Processor (R)",
        "versions": {"python": "3.11.2", "jax": "0.10.2"},
        "text": {"source": "the standard library", "bytes": 10**7, "held_out_bytes": 10**5},
        "machine": {"isa": {"chosen": "avx2"}, "threads": 2, "allocator": {"setting": "tuned"}},
    }
    (out / "summary.json").write_text(json.dumps(summary))
    if parts:
        row = {"manifold": "sinkhorn", "tensor": "x_next", "elements": 4096, "cosine": 1 - 1e-9}
        rows = [{**row, "relative": 1e-4, "share": 0.1, "passed": True}] * 13
        (out / "equality.json").write_text(json.dumps({"dims": [1, 256, 4, 1024], "rows": rows}))
        machine = {"isa": {"chosen": "avx2"}, "threads": 2, "tuned_allocator": "GLIBC_TUNABLES=x"}
        (out / "bench.json").write_text(json.dumps({"machine": machine, "rows": bench_rows()}))
