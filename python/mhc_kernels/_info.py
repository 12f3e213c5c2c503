"""What this machine and this build are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mhc_kernels import _library


def _isa() -> dict[str, Any]:
    core = _library.core()
    core.mhc_isa_name.restype = ctypes.c_char_p
    names: list[str] = []
    while (name := core.mhc_isa_name(len(names))) is not None:
        names.append(name.decode())
    chosen, workers = ctypes.c_int32(), ctypes.c_int32()
    core.mhc_last_error.restype = ctypes.c_char_p
    if core.mhc_runtime_isa(None, ctypes.byref(chosen)) or core.mhc_runtime_workers(
        None, ctypes.byref(workers)
    ):
        return {"error": core.mhc_last_error().decode()}
    available = [name for k, name in enumerate(names) if core.mhc_isa_available(k)]
    return {"chosen": names[chosen.value], "available": available, "threads": workers.value}


def _caches() -> list[dict[str, Any]]:
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            entry = {
                key: (index / key).read_text().strip()
                for key in ("level", "type", "size", "shared_cpu_list")
            }
        except OSError:
            continue
        if entry["type"] != "Instruction":
            found.append(
                {
                    "level": int(entry["level"]),
                    "size": entry["size"],
                    "shared_by": entry["shared_cpu_list"],
                }
            )
    return found


def allocator(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """How malloc keeps large tensors, and how it could: fresh pages cost more than most kernels
    (docs/jax_memory.md). environment: of this process, or of one to be started."""
    tunables = environment.get("GLIBC_TUNABLES", "")
    preload = environment.get("LD_PRELOAD", "")
    tuned = "glibc.malloc.mmap_threshold" in tunables or any(
        n in preload for n in ("jemalloc", "tcmalloc", "mimalloc")
    )
    return {
        "setting": "tuned" if tuned else "default",
        "GLIBC_TUNABLES": tunables,
        "LD_PRELOAD": preload,
        "suggested": TUNED_ALLOCATOR,
    }


# Of GLIBC_TUNABLES.
TUNABLES = (
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
    "glibc.malloc.trim_threshold=17179869184"
)
TUNED_ALLOCATOR = f"GLIBC_TUNABLES={TUNABLES}"


def info() -> dict[str, Any]:
    """A dict of: version, isa (chosen, available), threads, logical_processors, caches, allocator,
    api (version of the library, and of XLA's FFI that the handlers were compiled against).

    Raises ImportError where the library is missing. Needs no JAX: where the handlers are missing,
    their version is the text that says so.
    """
    from mhc_kernels import _version

    isa = _isa()
    api: dict[str, Any] = {"library": _version.__version__}
    try:
        handlers = _library.jax_handlers()
        api["xla_ffi_built"] = f"{handlers.mhc_jax_ffi_major()}.{handlers.mhc_jax_ffi_minor()}"
    except ImportError as error:
        api["xla_ffi_built"] = str(error)
    return {
        "version": _version.__version__,
        "isa": isa,
        "threads": isa.pop("threads", None),
        "logical_processors": os.cpu_count(),
        "caches": _caches(),
        "allocator": allocator(),
        "api": api,
    }
