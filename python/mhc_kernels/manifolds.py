"""The manifolds: how the n x n matrix h_res is made of its L logits.

Each is a frozen dataclass of its options, with the name and number that the library knows it by.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import ClassVar, Union

from mhc_kernels._numbers import real, whole

_FORMS = ("softmax",)
_KNOWN_FORMS = ("log", "exp_clamped", "column_first")  # of other projects: other functions


@dataclasses.dataclass(frozen=True)
class Sinkhorn:
    """Alternating row and column normalisation of a softmax (mHC): L = n*n, 1 <= n <= 16.

    iterations: 1 to 1000; the first is a column step, each further one rows then columns.
    eps: added to the softmax and to every sum that is divided by; at least 0.
    form: "softmax"; other public forms are other functions and refused by name.

    >>> Sinkhorn(iterations=0)
    Traceback (most recent call last):
    ValueError: Sinkhorn: iterations: expected 1 to 1000, got 0
    """

    iterations: int = 20
    eps: float = 1e-6
    form: str = "softmax"

    name: ClassVar[str] = "sinkhorn"
    code: ClassVar[int] = 0
    max_streams: ClassVar[int] = 16

    def __post_init__(self) -> None:
        iterations, eps = whole(self.iterations, 1, 1000), real(self.eps, 0.0, sys.float_info.max)
        if iterations is None:
            raise ValueError(f"Sinkhorn: iterations: expected 1 to 1000, got {self.iterations!r}")
        if eps is None:
            raise ValueError(
                f"Sinkhorn: eps: expected a finite number of at least 0, got {self.eps!r}"
            )
        object.__setattr__(self, "iterations", iterations)
        object.__setattr__(self, "eps", eps)
        if self.form in _KNOWN_FORMS:
            raise ValueError(
                f'Sinkhorn: form: expected "softmax"; "{self.form}" is another function, not built'
            )
        if self.form not in _FORMS:
            raise ValueError(f'Sinkhorn: form: expected "softmax", got {self.form!r}')

    @staticmethod
    def logits(streams: int) -> int:
        return streams * streams


@dataclasses.dataclass(frozen=True)
class Permutation:
    """Softmax mixture of the n! permutation matrices (mHC-lite): L = n!, 1 <= n <= 5.

    P_p[i, j] = 1 where j = perm_p[i], permutations in lexicographic order, the identity first.
    """

    name: ClassVar[str] = "permutation"
    code: ClassVar[int] = 1
    max_streams: ClassVar[int] = 5

    @staticmethod
    def logits(streams: int) -> int:
        return math.factorial(streams)


@dataclasses.dataclass(frozen=True)
class Unconstrained:
    """h_res is the logits themselves (HC): L = n*n, 1 <= n <= 16."""

    name: ClassVar[str] = "unconstrained"
    code: ClassVar[int] = 2
    max_streams: ClassVar[int] = 16

    @staticmethod
    def logits(streams: int) -> int:
        return streams * streams


@dataclasses.dataclass(frozen=True)
class Identity:
    """h_res = I, only read and write are learned (iHC): L = 0, 1 <= n <= 16."""

    name: ClassVar[str] = "identity"
    code: ClassVar[int] = 3
    max_streams: ClassVar[int] = 16

    @staticmethod
    def logits(streams: int) -> int:
        del streams
        return 0


Manifold = Union[Sinkhorn, Permutation, Unconstrained, Identity]
BY_NAME = {m.name: m for m in (Sinkhorn, Permutation, Unconstrained, Identity)}


def to_manifold(value: "Manifold | str") -> Manifold:
    """A manifold, or the one of that name with its default options."""
    if isinstance(value, tuple(BY_NAME.values())):
        return value  # type: ignore[return-value]
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]()
    raise ValueError(f"Spec: manifold: expected one of {', '.join(BY_NAME)}, got {value!r}")
