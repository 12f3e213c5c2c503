"""Runs that several tests look at."""

import os
from pathlib import Path

import pytest
from mhc_kernels.demo import Config, train


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
