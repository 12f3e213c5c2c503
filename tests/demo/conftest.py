"""Eight host devices, the package from the working tree, libraries from MHC_LIBRARY_DIR or
build/release/lib; runs that several tests look at."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# XLA's own code is hardly optimised: compiling it is most of the time of these tests.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MHC_LIBRARY_DIR", str(ROOT / "build/release/lib"))
# Programs that a test starts see the same package.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
).rstrip(os.pathsep)
sys.path.insert(0, str(ROOT / "python"))

from mhc_kernels.demo import Config, train  # noqa: E402


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """200 KB of the standard library."""
    data = b"".join(p.read_bytes() for p in sorted(Path(os.__file__).parent.glob("*.py")))
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_bytes(data[:200_000])
    return file


@pytest.fixture(scope="session")
def tiny(text_file):
    """A run of seconds."""
    return Config(
        layers=2,
        embedding=32,
        heads=2,
        sequence=32,
        batch=8,
        steps=20,
        evaluations=4,
        held_out_batches=1,
        sample_bytes=8,
        text=str(text_file),
    )


@pytest.fixture(scope="session")
def whole_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="session")
def whole(tiny, whole_folder):
    """The tiny run at once."""
    return train(tiny, whole_folder)


@pytest.fixture(scope="session")
def reference(tiny):
    return train(tiny.replace(implementation="reference"))


@pytest.fixture(scope="session")
def plain(tiny):
    return train(tiny.replace(residual="plain"))
