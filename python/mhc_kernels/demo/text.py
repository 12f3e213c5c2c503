"""The text: bytes from the Python standard library or from the user, and batches cut from them.

Nothing here depends on JAX.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import os
import sys
import types
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np

from mhc_kernels.demo.config import Config

# The standard library has more; the sorted list is cut here.
MOST_BYTES = 8 << 20
# Every HELD_OUT_EVERY-th block is held out, so that both parts hold text of every kind.
BLOCK, HELD_OUT_EVERY = 16384, 20
# Tables of characters, and what some systems leave out.
_SKIPPED = {
    "__pycache__", "dist-packages", "encodings", "ensurepip", "idlelib", "lib2to3",
    "site-packages", "test", "tests", "turtledemo", "unittest",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Text:
    """Bytes as tokens: train and held_out are uint8 arrays [bytes]; source says where they are
    from, digest is a hash of all of it, cut whether the source has more."""

    source: str
    train: Any
    held_out: Any
    digest: str
    cut: bool = False

    @property
    def size(self) -> int:
        return len(self.train) + len(self.held_out)


def load(config: Config) -> Text:
    """The text that config.text names, split. Equal on every call while the files are.

    Raises ValueError in one line where it is missing, empty, unreadable, or too short for one
    sequence in each part.
    """
    if config.text is None:
        return split("the Python standard library", standard_library(), config.sequence)
    path = Path(config.text)
    if not path.exists():
        raise ValueError(f"text: expected a file or a folder, got {path}, which does not exist")
    try:
        data = folder(path) if path.is_dir() else _read(path, MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"text: cannot read {path}: {error.strerror}") from error
    if not data:
        raise ValueError(f"text: expected some text, got {path}, which is empty")
    if len(data) <= MOST_BYTES:
        return split(str(path), data, config.sequence)
    source = f"{path} (first {MOST_BYTES >> 20} MiB)"
    return dataclasses.replace(split(source, data[:MOST_BYTES], config.sequence), cut=True)


def standard_library() -> bytes:
    """Sources in the order of their paths, behind them the documentation strings of the modules
    that are not written in Python."""
    root = Path(os.__file__).parent
    names = sorted(
        path.relative_to(root)
        for path in root.rglob("*.py")
        if not _SKIPPED & set(path.relative_to(root).parts)
    )
    return _joined([root / name for name in names], MOST_BYTES) + "".join(_documentation()).encode()


def _documentation() -> Iterator[str]:
    """Each text once, functions and types with their methods, in the order of their names."""
    seen = set()
    kinds = (type, types.BuiltinFunctionType, types.MethodDescriptorType)
    for name in sorted(sys.builtin_module_names):
        with warnings.catch_warnings():  # of modules that a later Python leaves out
            warnings.simplefilter("ignore")
            found = [(name, importlib.import_module(name))]
        while found:
            path, member = found.pop()
            text = inspect.getdoc(member)
            if text and text not in seen:
                seen.add(text)
                yield f"{path}: {text}\n\n"
            if isinstance(member, (types.ModuleType, type)):
                inner = sorted(vars(member).items(), reverse=True)
                found += [(f"{path}.{key}", v) for key, v in inner if type(v) in kinds]


def folder(root: Path) -> bytes:
    """All files under a folder in the order of their paths, without hidden ones and without those
    that hold a zero byte, up to MOST_BYTES and one that says that there is more."""
    paths = [p for p in root.rglob("*") if p.is_file()]
    visible = [p for p in paths if not any(s.startswith(".") for s in p.relative_to(root).parts)]
    return _joined(sorted(visible), MOST_BYTES + 1)


def _joined(paths: list[Path], most: int) -> bytes:
    parts, size = [], 0
    for path in paths:
        if size >= most:
            break
        data = _read(path, most - size)
        if b"\0" not in data:
            parts.append(data)
            size += len(data)
    return b"".join(parts)


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def split(source: str, data: bytes, sequence: int) -> Text:
    """Every 20th block is held out, at least one; a short text has shorter blocks. Each part must
    hold one sequence and the byte that follows it."""
    least = sequence + 1
    if len(data) < 2 * least:
        raise ValueError(
            f"text: expected at least {2 * least} bytes (a sequence and its next byte, to train on "
            f"and held out), got {len(data)} from {source}"
        )
    block = min(BLOCK, max(least, len(data) // HELD_OUT_EVERY))
    tokens = np.frombuffer(data, np.uint8)
    blocks = max(2, len(data) // block)
    of_block = np.minimum(np.arange(len(data)) // block, blocks - 1)
    period = min(HELD_OUT_EVERY, blocks)
    held = of_block % period == period - 1
    digest = hashlib.sha256(data).hexdigest()
    return Text(source, tokens[~held], tokens[held], digest)


def batch(text: Text, config: Config, step: int) -> Any:
    """int32 [batch, sequence + 1], a function of the text, the seed and the step alone."""
    random = np.random.Generator(np.random.Philox(key=[config.seed, step]))
    starts = random.integers(0, len(text.train) - config.sequence, size=config.batch)
    return _windows(text.train, starts, config.sequence)


def held_out_batches(text: Text, config: Config) -> list[Any]:
    """The same for every seed and step: int32 [batch, sequence + 1], evenly spread."""
    count = config.held_out_batches * config.batch
    starts = np.linspace(0, len(text.held_out) - config.sequence - 1, count).astype(int)
    windows = _windows(text.held_out, starts, config.sequence)
    return list(windows.reshape(config.held_out_batches, config.batch, -1))


def _windows(tokens: Any, starts: Any, sequence: int) -> Any:
    return tokens[starts[:, None] + np.arange(sequence + 1)].astype(np.int32)
