"""One wheel with library, handlers and command, installed and used from elsewhere; then an editable
install.

The wheel is built in build/wheel, with the compiler options of the release build, whose objects
ccache then serves.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("MHC_WHEEL_BUILD", ROOT / "build/wheel"))
TOOLS = [
    "--no-deps",
    "--no-build-isolation",
    "--disable-pip-version-check",
    "-q",
    "--config-settings",
    f"build-dir={FOLDER}",
]
CODE = """
import jax, jax.numpy as jnp, mhc_kernels as mhc, mhc_kernels.jax as mj
spec = mhc.Spec()
p = mj.init_params(jax.random.key(0), spec, 8)
u, s = mj.pre(jnp.ones((3, 4, 8)), p, spec)
print(mj.post(u, s).shape, mhc.__file__, mhc.info()["version"])
"""


def pip(*arguments, python=sys.executable):
    environment = {
        **os.environ,
        "CCACHE_BASEDIR": str(ROOT),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()),
    }
    environment.pop("PYTHONPATH", None)
    cache = ROOT / "build/release/CMakeCache.txt"
    assumed = (
        re.search(r"^MHC_ASSUME_ISA:\w+=(.*)$", cache.read_text(), re.M) if cache.exists() else None
    )
    defines = [
        "--config-settings",
        "cmake.define.MHC_WERROR=ON",
        "--config-settings",
        f"cmake.define.MHC_ASSUME_ISA={assumed[1] if assumed else ''}",
    ]
    done = subprocess.run(
        [str(python), "-m", "pip", *arguments, *TOOLS, *defines],
        env=environment,
        text=True,
        capture_output=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment of its own that also sees this one's packages."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    run = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip())
    (site / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def use(python, tmp_path):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MHC_LIBRARY_DIR")}
    done = subprocess.run(
        [str(python), "-c", CODE],
        capture_output=True,
        text=True,
        env=clean,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    command = subprocess.run(
        [str(python.with_name("mhc")), "info"],
        capture_output=True,
        text=True,
        env=clean,
        timeout=60,
    )
    assert command.returncode == 0, command.stderr
    return done.stdout


# One test, so that two workers do not build in one folder.
@pytest.mark.slow
def test_wheel_then_editable(environment, tmp_path):
    pip("wheel", "-w", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"mhc_kernels-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "mhc_kernels/lib/libmhc.so",
        "mhc_kernels/lib/libmhc_jax.so",
        "mhc_kernels/py.typed",
        "mhc_kernels/jax/__init__.py",
        "mhc_kernels/maxtext.py",
    ):
        assert wanted in names
    assert any(n.endswith("scripts/mhc") for n in names)
    assert not [n for n in names if "include/" in n or "golden" in n or n.endswith((".cc", ".h"))]

    subprocess.run(
        [
            str(environment),
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--disable-pip-version-check",
            str(wheel),
        ],
        check=True,
    )
    assert f"{environment.parents[1]}" in use(environment, tmp_path)
    subprocess.run(
        [str(environment), "-m", "pip", "uninstall", "-q", "-y", "mhc-kernels"], check=True
    )

    pip("install", "-e", str(ROOT), python=environment)
    assert f"{ROOT / 'python/mhc_kernels'}" in use(environment, tmp_path)
    shutil.rmtree(FOLDER / "editable", ignore_errors=True)
