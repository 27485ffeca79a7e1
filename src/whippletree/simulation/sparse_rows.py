"""Rows of output with numbers of many things of which few ever differ from zero.

A kitchen has 23 158 candidates of contact, of which some thirty press. Written out, their forces are half a megabyte a
row, and memory that nobody has used yet takes longer to get than a step takes. So rows keep what presses until a run
ends; the array that a result then holds takes memory where it has been written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.cpu.cpu_function import sparse_zeros


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Numbers (rows, count, …) of which those of a few things may differ from zero."""

    count: int
    numbers: Array
    """Numbers of these things, (m,)."""
    values: Array
    """(rows, m, …)"""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All numbers, (rows, count, …)."""
        return join_rows([self])


def join_rows(parts: Sequence[Array | SparseRows]) -> Array:
    """Rows that follow each other, as one array."""
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if len(sparse) < len(parts):
        return np.asarray(parts[0]) if len(parts) == 1 else np.concatenate([np.asarray(part) for part in parts])
    rows, first = sum(len(part.values) for part in sparse), 0
    found = sparse_zeros((rows, sparse[0].count, *sparse[0].values.shape[2:]), np.dtype(float))
    for part in sparse:
        found[first : first + len(part.values), part.numbers] = part.values
        first += len(part.values)
    return np.asarray(found)
