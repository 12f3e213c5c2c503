"""Eight host devices, the package from the working tree, libraries from MHC_LIBRARY_DIR or
build/release/lib."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# XLA's own code is hardly optimised: compiling it is most of the time of these tests. Kernels are
# not affected.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MHC_LIBRARY_DIR", str(ROOT / "build/release/lib"))
# Programs that a test starts see the same package.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
).rstrip(os.pathsep)
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(params=["auto", "explicit"])
def kind(request):
    """A kind of mesh axes."""
    return request.param


@pytest.fixture(scope="session")
def one_device():
    """The site of tests/jax/meshes.py on one device: x_next; d_x and d_params."""
    import jax
    from meshes import backward, forward, g, params, x

    return jax.jit(forward)(x, params), jax.jit(backward)(x, params, g)
