"""Contacts that act on each other: the independent parts of a contact problem."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def islands(G: Array) -> list[Array]:
    """Numbers of the contacts that act on each other, directly or through others, for G (3k, 3k)."""
    k = len(G) // 3
    near = np.any(G.reshape(k, 3, k, 3) != 0, axis=(1, 3))
    left, found = set(range(k)), []
    while left:
        island, new = set[int](), {min(left)}
        while new:
            island |= new
            new = set(np.flatnonzero(near[sorted(new)].any(axis=0)).tolist()) - island
        left -= island
        found.append(np.array(sorted(island)))
    return found
