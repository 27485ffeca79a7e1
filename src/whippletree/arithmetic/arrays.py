"""Arrays of any scalar: the few constructors that every layer shares."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

GOLDEN_RATIO = 0.6180339887498949
"""Its multiples modulo 1 are spread evenly."""


def vector(*entries: Any) -> Array:
    """A vector of any scalars."""
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def zeros(*shape: int) -> Array:
    """Exact zeros (integers), which no scalar type is changed by."""
    return np.zeros(shape, dtype=object)


def identity(n: int) -> Array:
    """The exact identity matrix."""
    return np.eye(n, dtype=int).astype(object)


def spread_signs(numbers: Any) -> Array:
    """A sign, −1 or 1, for each of some whole numbers: about as many of either among any that follow each other."""
    return np.where((np.asarray(numbers) * GOLDEN_RATIO) % 1 < 0.5, -1.0, 1.0)
