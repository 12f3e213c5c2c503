"""Specs against the library's own, versions, and import without JAX."""

import copy
import ctypes
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import mhc_kernels as mhc
import pytest
from mhc_kernels import _library, manifolds, spec as spec_module
from mhc_kernels.jax import _targets

ROOT = Path(__file__).resolve().parents[2]


class CSpec(ctypes.Structure):
    """mhc_spec of include/mhc/types.h."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("streams", ctypes.c_int64),
        ("manifold", ctypes.c_int32),
        ("iterations", ctypes.c_int32),
        ("form", ctypes.c_int32),
        ("matrix_order", ctypes.c_int32),
        ("eps", ctypes.c_double),
        ("norm_eps", ctypes.c_double),
        ("pre_eps", ctypes.c_double),
        ("post_mult", ctypes.c_double),
        ("norm_form", ctypes.c_int32),
        ("phi_precision", ctypes.c_int32),
        ("gradient_precision", ctypes.c_int32),
        ("h_pre_precision", ctypes.c_int32),
        ("h_post_precision", ctypes.c_int32),
        ("h_res_precision", ctypes.c_int32),
    ]


def test_numbers_of_numpy_are_numbers_and_booleans_are_not():
    import numpy as np

    got = mhc.Spec(streams=np.int64(3), norm_eps=np.float32(0.5), manifold=mhc.Sinkhorn(np.int8(5)))
    assert got == mhc.Spec(streams=3, norm_eps=0.5, manifold=mhc.Sinkhorn(5))
    assert type(got.streams) is int and type(got.norm_eps) is float
    for make in (
        lambda: mhc.Spec(streams=True),
        lambda: mhc.Spec(pre_eps=False),
        lambda: mhc.Sinkhorn(iterations=True),
    ):
        with pytest.raises(ValueError, match="got (True|False)"):
            make()


def test_a_spec_travels():
    """Between processes, and as a key."""
    one = mhc.Spec.preset("deepseek_v4", streams=3)
    again = pickle.loads(pickle.dumps(one))
    assert again == one and hash(again) == hash(one) and copy.deepcopy(one) == one


def test_presets_are_the_librarys():
    core = _library.core()
    core.mhc_preset_name.restype = ctypes.c_char_p
    names = []
    while (name := core.mhc_preset_name(len(names))) is not None:
        names.append(name.decode())
    assert list(spec_module.PRESETS) == names
    for name in names:
        c = CSpec()
        assert core.mhc_spec_preset(
            name.encode(), ctypes.byref(c)
        ) == 0 and c.size == ctypes.sizeof(c)
        attributes = _targets.spec_attributes(mhc.Spec.preset(name))
        for field, value in attributes.items():
            if field not in ("iterations", "eps") or c.manifold == manifolds.Sinkhorn.code:
                assert getattr(c, field) == value, f"{name}.{field}"


def test_manifolds_are_the_librarys():
    core = _library.core()
    core.mhc_manifold_name.restype = ctypes.c_char_p
    ids = []
    while (code := core.mhc_manifold_at(len(ids))) != -1:
        ids.append(code)
    assert sorted(m.code for m in manifolds.BY_NAME.values()) == sorted(ids)
    for name, manifold in manifolds.BY_NAME.items():
        assert core.mhc_manifold_name(manifold.code).decode() == name
        for n in range(1, manifold.max_streams + 1):
            c, logits = CSpec(), ctypes.c_int64()
            core.mhc_spec_preset(b"deepseek_v4", ctypes.byref(c))
            c.manifold, c.streams = manifold.code, n
            assert core.mhc_spec_logits(ctypes.byref(c), ctypes.byref(logits)) == 0
            assert logits.value == mhc.Spec(streams=n, manifold=name).logits
        c.streams = manifold.max_streams + 1
        assert core.mhc_spec_logits(ctypes.byref(c), ctypes.byref(logits)) != 0


def test_versions():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    assert f"project(mhc VERSION {mhc.__version__} " in cmake
    for built, running, good in (
        ((0, 3), (0, 3), True),
        ((0, 3), (0, 5), True),
        ((0, 5), (0, 3), False),
        ((1, 0), (0, 9), False),
    ):
        if good:
            _targets.check_version(built, running)
        else:
            with pytest.raises(
                ImportError,
                match=f"version {built[0]}.{built[1]} of XLA's FFI.*{running[0]}.{running[1]}",
            ):
                _targets.check_version(built, running)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_imports_without_jax():
    code = """
import sys
sys.modules["jax"] = None
import mhc_kernels as mhc
assert mhc.Spec.preset("liger").coefficients == 24 and mhc.info()["version"] == mhc.__version__
try:
    import mhc_kernels.jax
except ImportError as error:
    print("refused", error)
"""
    done = run(code)
    assert done.returncode == 0 and "refused" in done.stdout, done.stderr


def test_a_missing_library_is_said():
    done = run("import mhc_kernels.jax", MHC_LIBRARY_DIR="/nonexistent")
    assert "ImportError: mhc_kernels: libmhc.so is not in /nonexistent" in done.stderr


def test_info():
    info = mhc.info()
    assert info["isa"]["chosen"] in info["isa"]["available"] and info["threads"] >= 1
    assert info["caches"] and info["allocator"]["setting"] in ("default", "tuned")
    assert info["api"]["library"] == mhc.__version__ and info["api"]["xla_ffi_built"].startswith(
        "0."
    )
    json.dumps(info)


def test_names_of_operations_are_the_handlers():
    handlers = _library.jax_handlers()
    for operation in _targets.SIGNATURES:
        assert hasattr(handlers, f"mhc_jax_{operation}")
