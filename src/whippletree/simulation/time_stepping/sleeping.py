"""Islands of bodies at rest that are held still until something comes near: the option ``sleep=`` of scenes.

An *island* is what hangs together by pairs that are near, the world left out. It falls asleep where all of its bodies
have been slower than a given speed for ``SLOW_FOR``; it wakes up when lists are made in which a body that is awake is
near one of its own. Lists are made before anything can touch that is not in them, so nothing touches a sleeper: it
needs no steps, and its pairs no place in the lists. What that leaves out is motion below the speed, and its energy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array

SLOW_FOR = 0.25
"""s: how long all bodies of an island must have been slow."""

STEPS_OF_WATCH = 20
"""Steps after which speeds are looked at."""


class Islands(NamedTuple):
    """Which bodies hang together, and how long each has been slow."""

    labels: Array
    """Number of each body's island, (bodies,)."""
    quiet: Array
    """s, (bodies,); ∞ for those asleep."""

    @property
    def asleep(self) -> Array:
        """Truth values, (bodies,)."""
        return np.isinf(self.quiet)

    @property
    def all_asleep(self) -> bool:
        return bool(np.isinf(self.quiet).all())


def woken_islands(quiet: Array, first: Array, second: Array) -> Islands:
    """Islands of near pairs of bodies (n,) and (n,), the world being their count; awake where any body is."""
    labels = island_labels(len(quiet), first, second)
    awake = np.zeros(int(labels.max(initial=-1)) + 1, dtype=bool)
    awake[labels[~np.isinf(quiet)]] = True
    return Islands(labels, np.where(awake[labels] & np.isinf(quiet), 0.0, quiet))


def island_labels(count: int, first: Array, second: Array) -> Array:
    """A number for each of ``count`` bodies, the same for those that pairs (n,) and (n,) join, not by way of the world,
    which is number ``count``."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    own = (first < count) & (second < count)
    edges = coo_array((np.ones(int(own.sum())), (first[own], second[own])), shape=(count, count))
    return np.asarray(connected_components(edges, directed=False)[1])


def watched_islands(islands: Islands, speeds: Array, limit: float, time: float) -> Islands:
    """The islands after bodies moved at some speeds (bodies,), m/s, for a time: those slow for long enough asleep."""
    quiet = np.where(islands.asleep, np.inf, np.where(speeds < limit, islands.quiet + time, 0.0))
    busy = np.zeros(int(islands.labels.max(initial=-1)) + 1, dtype=bool)
    busy[islands.labels[quiet < SLOW_FOR]] = True
    return Islands(islands.labels, np.where(busy[islands.labels], quiet, np.inf))
