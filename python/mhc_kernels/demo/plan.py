"""Which runs make up the main job, and how each is repeated alone."""

from __future__ import annotations

import dataclasses
import os
import shlex

from mhc_kernels.demo.config import MOST_SEED, Config

# How the user has started this; ./run says it.
PROGRAM = os.environ.get("MHC_DEMO_COMMAND", "python -m mhc_kernels.demo")
# Fields of Config that the command sets, with what it adds to them.
FLAGS = {
    "manifold": "of h_res: permutation, sinkhorn, unconstrained or identity",
    "streams": "n, residual streams",
    "residual": "hyper, or plain for an ordinary residual connection",
    "layers": "each of attention and MLP",
    "embedding": "D, features per stream",
    "heads": "of attention",
    "steps": "of the optimiser",
    "batch": "sequences per step",
    "sequence": "bytes per sequence",
    "remat": "recomputes each layer in backward",
    "devices": "shards the batch over that many host devices",
    "seed": "of parameters and batches",
    "learning_rate": "the highest of the schedule",
    "text": "a file or a folder (default: the Python standard library)",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """name: of its folder; title: for people; config: all that its losses depend on. may_diverge:
    whether a NaN in it is a finding and not a failure."""

    name: str
    title: str
    config: Config
    may_diverge: bool = False

    @property
    def command(self) -> str:
        """Repeats this run alone."""
        words = [f"--implementation {self.config.implementation}"]
        for field in dataclasses.fields(Config):
            value = getattr(self.config, field.name)
            if field.name in FLAGS and value != field.default:
                flag = "--" + field.name.replace("_", "-")
                words.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
        return " ".join([PROGRAM, *words])


def runs_of(config: Config, implementation: str) -> list[Run]:
    """With "both" the kernel, what it is compared with, and the baselines; else that run alone."""
    if implementation != "both":
        config = config.replace(implementation=implementation)
        return [Run(implementation, _title(config), config)]
    kernel = config.replace(implementation="kernel", residual="hyper")
    unsampled = kernel.replace(sample_bytes=0)
    another = kernel.seed + 1 if kernel.seed < MOST_SEED else 0
    runs = [
        Run("kernel", _title(kernel), kernel),
        Run(
            "reference",
            f"{kernel.manifold}, plain jax.numpy",
            unsampled.replace(implementation="reference"),
        ),
        Run("second_seed", "kernels, another seed", unsampled.replace(seed=another)),
        Run("plain", "plain residual connection", kernel.replace(residual="plain"), True),
    ]
    if kernel.manifold != "unconstrained" and kernel.streams > 1:
        free = kernel.replace(manifold="unconstrained")
        runs.append(Run("unconstrained", "unconstrained h_res, kernels", free, True))
    return runs


def _title(config: Config) -> str:
    if config.residual == "plain":
        return "plain residual connection"
    how = "kernels" if config.implementation == "kernel" else "plain jax.numpy"
    return f"{config.manifold}, {how}"
