"""Numbers as options: Python's and numpy's alike, but no booleans."""

from __future__ import annotations

import numbers
from typing import Any


def whole(value: Any, least: int, most: int | None = None) -> int | None:
    """The value as an int, or None where it is no whole number from least to most."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        return None
    number = int(value)
    return number if least <= number and (most is None or number <= most) else None


def real(value: Any, least: float, most: float) -> float | None:
    """The value as a float, or None where it is no number from least to most."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    number = float(value)
    return number if least <= number <= most else None
