"""Examples of docstrings and documentation run, and what the tables of docs/jax*.md say is so."""

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import mhc_kernels
import mhc_kernels.jax as mj
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from support import IMPLEMENTATIONS, SPECS, assert_close, count_ops, equations, make, site

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
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,  # errors with their text
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


# ---- The table of support: what each row says is done, with tiny arrays
# ---------------------------------------------------------------------------------------


def table_of_support():
    text = (ROOT / "docs/jax.md").read_text()
    text = text.split("<!-- support -->")[1].split("<!-- end support -->")[0]
    lines = [line.strip("|").split("|") for line in text.strip().splitlines()]
    assert [c.strip() for c in lines[0]] == ["", "kernel", "reference"]
    return {c[0].strip(): (c[1].strip(), c[2].strip()) for c in lines[2:]}


def small(implementation, **changes):
    """A site of eight tokens: a function of x and params, and its arguments."""
    spec = SPECS["permutation"]
    x, params, w, g = make(spec, (8,), 4, **changes)
    f = lambda x, params: jnp.sum(site(x, params, w, spec, implementation) * g)
    return f, x, params


def words_of_the_transformations():
    """Each word of the row, by itself, and the last ones together."""

    def scan(f, x, p):
        step = lambda total, x: (total + f(x[None].repeat(8, 0), p), None)
        return jax.grad(lambda x: jax.lax.scan(step, 0.0, x)[0])(x)

    return {
        "`jit`": lambda f, x, p: jax.jit(f)(x, p),
        "`grad`": lambda f, x, p: jax.grad(f, (0, 1))(x, p),
        "`vmap`": lambda f, x, p: jax.vmap(f, (0, None))(x[None], p),
        "`vmap` of `grad`": lambda f, x, p: jax.vmap(jax.grad(f, 1), (0, None))(x[None], p),
        "`scan`": scan,
        "`checkpoint`": lambda f, x, p: jax.grad(jax.checkpoint(f), (0, 1))(x, p),
    }


def mesh_of(kind):
    return jax.make_mesh((8,), ("data",), axis_types=(kind,))


def sharded_under_plain_jit(implementation, kind):
    """Value and gradients as on one device, tokens left where they are."""
    f, x, p = small(implementation)
    want = jax.jit(jax.value_and_grad(f, (0, 1)))(x, p)
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, PartitionSpec(*spec)))
        spec = SPECS["permutation"]
        _, _, w, g = make(spec, (8,), 4)
        w, g = put(w), put(g, "data")
        f = lambda x, p: jnp.sum(site(x, p, w, spec, implementation) * g)
        compiled = jax.jit(jax.value_and_grad(f, (0, 1))).lower(put(x, "data"), put(p)).compile()
        assert_close(compiled(put(x, "data"), put(p)), want, 1e-5)
        assert count_ops(compiled.as_text(), "all-gather") == 0


def inside_shard_map(implementation, check_vma):
    f, x, p = small(implementation)
    want = jax.grad(f, 1)(x, p)
    spec = SPECS["permutation"]
    _, _, w, g = make(spec, (8,), 4)
    mesh = mesh_of(jax.sharding.AxisType.Auto)
    P = PartitionSpec
    mapped = jax.shard_map(
        lambda x, p, g: jax.lax.psum(jnp.sum(site(x, p, w, spec, implementation) * g), "data"),
        mesh=mesh,
        in_specs=(P("data"), P(), P("data")),
        out_specs=P(),
        check_vma=check_vma,
    )
    assert_close(jax.jit(jax.grad(mapped, 1))(x, p, g), want, 1e-5)


def features_in_two_halves(implementation):
    spec = SPECS["permutation"]
    x, p, _, _ = make(spec, (8,), 4)
    part = lambda k: (x[..., k], mj.Params(p.phi[..., k], p.alpha, p.bias, p.norm_weight[..., k]))
    how = dict(implementation=implementation)
    run = lambda k: mj.project_partial(*part(k), spec, embedding=4, **how)
    q, squares = jax.tree.map(jnp.add, run(slice(0, 2)), run(slice(2, 4)))
    got = mj.coefficients_from_partials(q, squares, p, spec, **how)
    assert_close(got, mj.coefficients(x, p, spec, **how), 1e-5)


def gradients_no_one_asks_for(implementation):
    """With alpha alone asked for, fewer arrays of phi's shape are made than with phi as well."""
    f, x, p = small(implementation)

    def made(names):
        g = jax.grad(lambda moving: f(x, dataclasses.replace(p, **moving)))
        jaxpr = jax.make_jaxpr(g)({name: getattr(p, name) for name in names})
        shapes = [v.aval.shape for e in equations(jaxpr) for v in e.outvars]
        return shapes.count(p.phi.shape)

    return "not computed" if made(["alpha"]) < made(["alpha", "phi"]) else "computed"


def exported(implementation):
    f, x, p = small(implementation)
    made = jax.export.export(jax.jit(f), disabled_checks=mj.export_checks())(x, p)
    assert jax.export.deserialize(made.serialize()).call(x, p) == jax.jit(f)(x, p)


def platforms_that_lower(implementation):
    """Lowered for each platform that JAX knows; all of them are "all"."""
    f, x, p = small(implementation)
    known, good = ("cpu", "cuda", "rocm", "tpu"), []
    for platform in known:
        try:
            jax.export.export(jax.jit(f), platforms=[platform], disabled_checks=mj.export_checks())(
                x, p
            )
            good.append(platform)
        except NotImplementedError:
            pass
    return "all" if len(good) == len(known) else ", ".join(good)


AUTO, EXPLICIT = jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit


def attempt(f, *args):
    """yes where it runs, no where it raises the error that is made for it."""
    try:
        jax.block_until_ready(f(*args))
        return "yes"
    except NotImplementedError as error:
        assert 'implementation="reference"' in str(error)
        return "no"


def all_agree(results):
    assert len(set(results)) == 1, results
    return results[0]


ROWS = {
    "platforms": platforms_that_lower,
    "`jit`, `grad`, `vmap`, `vmap` of `grad`, `scan`, `checkpoint`": lambda i: all_agree(
        [attempt(t, *small(i)) for t in words_of_the_transformations().values()]
    ),
    "jvp, second derivatives": lambda i: all_agree(
        [
            attempt(lambda f, x, p: jax.jvp(lambda x: f(x, p), (x,), (x,)), *small(i)),
            attempt(
                lambda f, x, p: jax.grad(lambda x: jnp.sum(jax.grad(f)(x, p) ** 2))(x), *small(i)
            ),
        ]
    ),
    "gradients that no one asks for": gradients_no_one_asks_for,
    "plain jit on sharded tokens, Auto and Explicit axes": lambda i: all_agree(
        [attempt(sharded_under_plain_jit, i, kind) for kind in (AUTO, EXPLICIT)]
    ),
    "`shard_map`, `check_vma` True and False": lambda i: all_agree(
        [attempt(inside_shard_map, i, check) for check in (True, False)]
    ),
    "features sharded": lambda i: {"yes": "`project_partial`"}[attempt(features_in_two_halves, i)],
    "`jax.export`": lambda i: attempt(exported, i),
}


def test_the_table_has_these_rows():
    assert list(table_of_support()) == list(ROWS)
    words = ", ".join(words_of_the_transformations())
    assert words in table_of_support()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("row", list(ROWS))
def test_table_of_support(row, implementation):
    said = table_of_support()[row][IMPLEMENTATIONS.index(implementation)]
    assert ROWS[row](implementation) == said


def test_saved_bytes_of_the_docs():
    from mhc_kernels.bench import saved

    page = (ROOT / "docs/jax_memory.md").read_text()
    assert page.split("<!-- saved -->\n")[1].split("\n<!-- end saved -->")[0] == saved.table()
