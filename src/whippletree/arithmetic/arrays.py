"""Arrays of any scalar: the few constructors that every layer shares."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


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
