"""Examples of docstrings and documentation run, and what the tables of docs/jax*.md say is so."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import mhc_kernels
import mhc_kernels.jax as mj
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    m.name
    for m in pkgutil.walk_packages(mhc_kernels.__path__, "mhc_kernels.")
    if "__main__" not in m.name
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("jax*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
BLOCKS = [
    (page.name, k, code) for page in PAGES for k, code in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.parametrize("module", ["mhc_kernels", *MODULES])
def test_docstrings(module):
    failed, _ = doctest.testmod(
        importlib.import_module(module),
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL,
    )
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    count = sum(bool(t.examples) for m in MODULES for t in finder.find(importlib.import_module(m)))
    assert count >= 9 and len(BLOCKS) >= 5


@pytest.mark.parametrize("page, k, code", BLOCKS, ids=[f"{p}-{k}" for p, k, _ in BLOCKS])
def test_documented_code(page, k, code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_readme_example_is_short():
    code = next(c for p, _, c in BLOCKS if p == "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


def test_every_public_name_is_documented():
    text = (ROOT / "docs/jax.md").read_text() + (ROOT / "docs/jax_sharding.md").read_text()
    undocumented = [
        n
        for n in mj.__all__
        if n not in ("Params", "HeadParams", "State", "SumSquares") and f"{n}(" not in text
    ]
    assert not undocumented
    for name in mj.__all__:
        assert inspect.getdoc(getattr(mj, name)), name
    named = set(re.findall(r"`(\w+)\(", text.split("## Functions")[1].split("## What works")[0]))
    assert named <= set(mj.__all__), named - set(mj.__all__)


def test_table_of_support():
    """Each row of the table is what a test shows or what the code says of itself."""
    import jax
    import jax.numpy as jnp
    from jax.interpreters import mlir
    from mhc_kernels.jax import _primitive
    from support import SPECS, make, site

    table = (
        (ROOT / "docs/jax.md")
        .read_text()
        .split("<!-- support -->")[1]
        .split("<!-- end support -->")[0]
    )
    rows = {
        c[0].strip(): (c[1].strip(), c[2].strip())
        for c in (line.strip("|").split("|") for line in table.strip().splitlines()[2:])
    }
    spec = SPECS["permutation"]
    x, params, w, _ = make(spec, (2,), 4)

    def works(f, implementation):
        try:
            f(lambda x: jnp.sum(site(x, params, w, spec, implementation)))
            return "yes"
        except (NotImplementedError, TypeError):
            return "no"

    rows_to_run = {
        "`jit`, `grad`, `vmap`, `vmap` of `grad`, `scan`, `checkpoint`": lambda f: jax.vmap(
            jax.grad(jax.checkpoint(jax.jit(f)))
        )(x[None]),
        "jvp, second derivatives": lambda f: (
            jax.jvp(f, (x,), (x,)),
            jax.grad(lambda x: jnp.sum(jax.grad(f)(x)))(x),
        ),
        "`jax.export`": lambda f: jax.export.export(jax.jit(f), disabled_checks=mj.export_checks())(
            x
        ),
    }
    for name, f in rows_to_run.items():
        assert rows[name] == (works(f, "kernel"), works(f, "reference")), name
    platforms = {
        p
        for p, rules in mlir._platform_specific_lowerings.items()
        if any(q in rules for q in _primitive.PRIMITIVES.values())
    }
    assert rows["platforms"] == (", ".join(platforms), "all")
    # Shown by tests of these names.
    for file, name in {
        "sharding_jit": "test_one_sum_per_backward",
        "sharding_map": "test_one_sum_per_backward",
        "sharding_features": "test_features_sharded",
        "residuals": "test_what_no_one_asks_for",
    }.items():
        assert f"def {name}" in (ROOT / f"tests/jax/{file}_test.py").read_text()
    assert len(rows) == 8


def test_saved_bytes_of_the_docs():
    from mhc_kernels.bench import saved

    page = (ROOT / "docs/jax_memory.md").read_text()
    assert page.split("<!-- saved -->\n")[1].split("\n<!-- end saved -->")[0] == saved.table()
