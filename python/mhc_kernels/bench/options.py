"""What the options of the package's commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable

PUBLISHED, SMALL = (2, 4096, 4, 3072), (1, 512, 4, 1024)
Dims = tuple[int, int, int, int]


def dims(text: str) -> Dims:
    """B,S,n,D or T,n,D: a `type` for argparse."""
    words = text.split(",")
    if len(words) not in (3, 4) or not all(w.isdecimal() and int(w) > 0 for w in words):
        raise argparse.ArgumentTypeError(f"expected three or four positive numbers, got {text}")
    *lead, n, d = map(int, words)
    return (1, lead[0], n, d) if len(lead) == 1 else (lead[0], lead[1], n, d)


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
