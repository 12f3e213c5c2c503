"""Finds and loads the shared libraries of this package: libmhc.so, and libmhc_jax.so on top of
it."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import shutil
import sysconfig
from pathlib import Path

from mhc_kernels._version import __version__

# For working on the package without installing it: the folder in which the build puts the
# libraries.
_FOLDER_VARIABLE = "MHC_LIBRARY_DIR"


def folder() -> Path:
    named = os.environ.get(_FOLDER_VARIABLE)
    if named:
        return Path(named)
    # An editable install has the sources in one place and what was built in another.
    places = [Path(p) / "lib" for p in importlib.import_module("mhc_kernels").__path__]
    return next((p for p in places if (p / "libmhc.so").exists()), places[0])


def _load(name: str) -> ctypes.CDLL:
    path = folder() / name
    if not path.exists():
        raise ImportError(
            f"mhc_kernels: {name} is not in {path.parent}: the package was not built for this "
            f"platform; "
            f"install it with pip, or name a build's folder in {_FOLDER_VARIABLE}"
        )
    return ctypes.CDLL(str(path))


@functools.cache
def core() -> ctypes.CDLL:
    """libmhc.so, of the same version as this package."""
    library = _load("libmhc.so")
    library.mhc_version.restype = ctypes.c_char_p
    found = library.mhc_version().decode()
    if found != __version__:
        raise ImportError(
            f"mhc_kernels: libmhc.so: expected version {__version__}, got {found}; "
            "reinstall the package"
        )
    return library


@functools.cache
def jax_handlers() -> ctypes.CDLL:
    """libmhc_jax.so, the handlers of XLA's foreign function interface."""
    core()
    return _load("libmhc_jax.so")


def command() -> Path:
    """The command `mhc` of this build or installation."""
    places = [
        folder().parent / "bin" / "mhc",  # a build's folder
        Path(sysconfig.get_path("scripts")) / "mhc",  # where pip puts it
    ]
    found = next((str(p) for p in places if os.access(p, os.X_OK)), None) or shutil.which("mhc")
    if found is None:
        raise FileNotFoundError(
            f"mhc_kernels: the command mhc is neither at {' nor at '.join(map(str, places))}"
        )
    return Path(found)
