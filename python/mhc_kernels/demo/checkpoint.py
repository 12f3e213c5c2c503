"""Checkpoints of a run: parameters, optimiser and history, by orbax.

orbax writes into a folder with a temporary name and renames it when all is on disk, so that a crash
leaves the checkpoints that were there before; remains are removed at the next start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Any, Iterator

import jax
import orbax.checkpoint as ocp

from mhc_kernels.demo.config import Config

KEPT = 2
# What may differ between a run and its continuation: the text is compared by its digest.
_FREE = ("text", "sample_bytes")

logging.getLogger("absl").setLevel(logging.WARNING)


class Checkpoints:
    """The checkpoints under a folder. Use `opened`."""

    def __init__(self, manager: ocp.CheckpointManager) -> None:
        self._manager = manager

    @property
    def latest(self) -> int | None:
        """The step of the newest complete checkpoint."""
        return self._manager.latest_step()  # type: ignore[no-any-return]

    def save(self, step: int, state: Any, history: dict[str, Any]) -> None:
        """Returns when it is on disk. state: a pytree of arrays; history: plain types."""
        if self.latest == step:
            return
        parts = ocp.args.Composite(
            state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
        )
        self._manager.save(step, args=parts)
        self._manager.wait_until_finished()

    def history(self) -> dict[str, Any]:
        part = ocp.args.Composite(history=ocp.args.JsonRestore())
        return self._manager.restore(self.latest, args=part).history  # type: ignore[no-any-return]

    def state(self, like: Any) -> Any:
        """The saved state, bit for bit, with the structure, types and shardings of `like`."""
        abstract = jax.tree.map(ocp.tree.to_shape_dtype_struct, like)
        part = ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
        return self._manager.restore(self.latest, args=part).state


@contextlib.contextmanager
def opened(folder: Path, *, resume: bool) -> Iterator[Checkpoints]:
    """The checkpoints in folder/checkpoints, which is made; without `resume` the run that is there,
    its run.json included, is removed. Raises ValueError where that cannot be."""
    path = folder.absolute() / "checkpoints"
    try:
        if not resume:
            (folder / "run.json").unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: cannot write to {folder}: {error.strerror}") from error
    options = ocp.CheckpointManagerOptions(
        max_to_keep=KEPT,
        cleanup_tmp_directories=True,
        enable_async_checkpointing=False,
        temporary_path_class=ocp.path.atomicity.AtomicRenameTemporaryPath,
    )
    with ocp.CheckpointManager(path, options=options) as manager:
        yield Checkpoints(manager)


def check_same_run(history: dict[str, Any], config: Config, digest: str, folder: Path) -> None:
    """Raises ValueError where the checkpoints in `folder` are of another run."""
    now = dataclasses.asdict(config)
    for field, before in history["config"].items():
        if field not in _FREE and now[field] != before:
            raise ValueError(
                f"resume: {field}: expected {before!r} as in {folder}, got {now[field]!r}"
            )
    if history["digest"] != digest:
        raise ValueError(f"resume: text: expected the text that {folder} was trained on, got other")
