"""Contacts that act on each other: the independent parts of a contact problem."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def islands(G: Array) -> list[Array]:
    """Numbers of the contacts that act on each other, directly or through others, for G (3k, 3k)."""
    k = len(G) // 3
    acts = G != 0
    rows = acts[0::3] | acts[1::3] | acts[2::3]
    near = rows[:, 0::3] | rows[:, 1::3] | rows[:, 2::3]
    left, found = np.ones(k, dtype=bool), []
    while left.any():
        island = np.zeros(k, dtype=bool)
        new = np.arange(k) == np.argmax(left)
        while new.any():
            island |= new
            new = near[new].any(axis=0) & ~island
        left &= ~island
        found.append(np.flatnonzero(island))
    return found
