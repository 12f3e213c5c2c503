"""What the options of the package's commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from mhc_kernels.manifolds import BY_NAME
from mhc_kernels.spec import Spec

PUBLISHED, SMALL = (2, 4096, 4, 3072), (1, 512, 4, 1024)
Dims = tuple[int, int, int, int]


def dims(text: str) -> Dims:
    """B,S,n,D or T,n,D: a `type` for argparse."""
    words = text.split(",")
    if len(words) not in (3, 4) or not all(w.isdecimal() and int(w) > 0 for w in words):
        raise argparse.ArgumentTypeError(f"expected three or four positive numbers, got {text}")
    *lead, n, d = map(int, words)
    return (1, lead[0], n, d) if len(lead) == 1 else (lead[0], lead[1], n, d)


def check_streams(parser: argparse.ArgumentParser, shape: Dims, manifolds: tuple[str, ...]) -> None:
    """Ends the command where a manifold has no matrices of that size."""
    for name in manifolds:
        try:
            Spec(streams=shape[2], manifold=BY_NAME[name]())
        except ValueError as error:
            parser.error(f"--dims: {error}")


def names(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Words between commas, each of them one of the known ones: a `type` for argparse."""

    def parse(text: str) -> tuple[str, ...]:
        unknown = sorted(set(text.split(",")) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(
                f"expected {', '.join(known)}, got {', '.join(unknown)}"
            )
        return tuple(text.split(","))

    return parse
