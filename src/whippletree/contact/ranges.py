"""Rows of different lengths in flat arrays."""

from __future__ import annotations

import numpy as np

from whippletree.spatial import Array


def ranges(starts: Array, counts: Array) -> Array:
    """The numbers start, start + 1, …, so many of each range, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.repeat(starts - before, counts) + np.arange(counts.sum()))
