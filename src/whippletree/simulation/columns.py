"""Rows of numbers that come one by one and are asked for as an array every now and then."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Column:
    """An array that grows by rows. What was asked for earlier stays as it was, and asking costs nothing: rows are never
    changed, and one more often goes where there is room already."""

    def __init__(self, *shape: int, dtype: type = float) -> None:
        """``shape`` of one row."""
        self._buffer: Array = np.zeros((8, *shape), dtype=dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Array:
        """All rows so far, (m, …)."""
        return self._buffer[: self._count]

    def append(self, row: Any) -> None:
        """One more row."""
        if self._count == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
        self._buffer[self._count] = row
        self._count += 1

    def take(self, rows: Array) -> None:
        """These rows instead of all so far."""
        self._buffer, self._count = np.concatenate([rows, np.zeros_like(self._buffer[:1])]), len(rows)
