"""Registers the handlers of libmhc_jax.so with XLA, under names that carry the version of their
form."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mhc_kernels import _library
from mhc_kernels.jax._signatures import SIGNATURES
from mhc_kernels.spec import _CHOICES, Spec, code_of

# Exported programs name their targets: it grows when attributes or operands change their meaning.
FORM = 1


def name_of(operation: str) -> str:
    return f"mhc_kernels.{operation}.v{FORM}"


def spec_attributes(spec: Spec) -> dict[str, Any]:
    """The fields of mhc_spec; handlers decode by exact type."""
    manifold: Any = spec.manifold
    return {
        "streams": np.int64(spec.streams),
        "manifold": np.int32(manifold.code),
        "iterations": np.int32(getattr(manifold, "iterations", 20)),
        "form": np.int32(0),
        "eps": np.float64(getattr(manifold, "eps", 1e-6)),
        **{name: np.float64(getattr(spec, name)) for name in ("norm_eps", "pre_eps", "post_mult")},
        **{name: np.int32(code_of(name, getattr(spec, name))) for name in _CHOICES},
    }


def ffi_version_of(include_dir: str) -> tuple[int, int]:
    """Major and minor of XLA's FFI in the headers of a jaxlib."""
    text = (Path(include_dir) / "xla/ffi/api/c_api.h").read_text()
    numbers = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    return int(numbers["MAJOR"]), int(numbers["MINOR"])


def check_version(built: tuple[int, int], running: tuple[int, int]) -> None:
    """XLA runs handlers of its own or an older minor version, and refuses newer ones one by one."""
    if built[0] != running[0] or built[1] > running[1]:
        raise ImportError(
            f"mhc_kernels.jax: compiled for version {built[0]}.{built[1]} of XLA's FFI, but "
            f"this jaxlib has {running[0]}.{running[1]}: use a newer "
            "jaxlib, or build the package against this one"
        )


@functools.cache
def register() -> None:
    handlers = _library.jax_handlers()
    check_version(
        (handlers.mhc_jax_ffi_major(), handlers.mhc_jax_ffi_minor()),
        ffi_version_of(jax.ffi.include_dir()),
    )
    for operation in SIGNATURES:
        symbol = getattr(handlers, f"mhc_jax_{operation}")
        jax.ffi.register_ffi_target(name_of(operation), jax.ffi.pycapsule(symbol), platform="cpu")


def export_checks() -> list[Any]:
    """What jax.export must be told so that it accepts programs with kernels: their names are
    versioned, and a program runs wherever the same or a later mhc_kernels has been imported.

        exported = jax.export.export(jax.jit(f), disabled_checks=mj.export_checks())(x)
    """
    return [
        jax.export.DisabledSafetyCheck.custom_call(name_of(operation)) for operation in SIGNATURES
    ]


register()
