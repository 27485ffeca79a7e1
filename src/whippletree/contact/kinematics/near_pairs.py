"""The broad phase of a scene of many bodies: which pairs of geometries are near, in time that grows with their number.

Every bounded geometry is held by a ball about its origin. Balls are sorted into grids, one for each power of two of
their size, whose cells are as wide as the largest ball of that grid: what may touch a ball is in the cell of its centre
or in one beside it, in its own grid and in those of larger balls. So a pebble does not look at every cell of a boulder,
and the cost is that of sorting. Nothing is left out that is nearer than it should be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.shapes import Cavity, HalfSpace
from whippletree.contact.kinematics.scene_layout import Grouped, SceneLayout

FARTHEST_CELL = 2**20
"""Cells on each side of the origin that get numbers of their own; what is farther away shares those at the border."""


class NearPairs(NamedTuple):
    """Pairs of geometries that are near, n of them, in the order of their numbers."""

    first: Array
    """Numbers of geometries, (n,)."""
    second: Array
    coefficients: Array
    """Friction, restitution and margin, (n, 3)."""


def near_pairs(layout: SceneLayout, poses: Array, skin: float) -> NearPairs:
    """All pairs that may touch and are less than ``skin`` (m) apart, and perhaps some more.

    Args:
        poses: of all geometries in the world, (geometries, 3, 4).
    """
    parts = [_declared(layout, poses, skin)]
    parts += [_grouped(layout, group, poses, skin) for group in layout.groups]
    first, second, coefficients = (np.concatenate(column) for column in zip(*parts, strict=True))
    # of a pair that is there twice the first one counts: contacts of their own come before groups
    key = np.minimum(first, second) * len(layout.names) + np.maximum(first, second)
    _, single = np.unique(key, return_index=True)
    return NearPairs(first[single], second[single], coefficients[single])


def _declared(layout: SceneLayout, poses: Array, skin: float) -> tuple[Array, Array, Array]:
    first, second, coefficients = layout.declared
    near = _are_near(layout, poses, first, second, skin + coefficients[:, 2])
    return first[near], second[near], coefficients[near]


def _grouped(layout: SceneLayout, group: Grouped, poses: Array, skin: float) -> tuple[Array, Array, Array]:
    reach = skin + group.coefficients[2]
    a, b = balls_near(poses[group.bounded, :, 3], layout.radii[group.bounded], reach)
    firsts, seconds = [group.bounded[a]], [group.bounded[b]]
    for other in group.unbounded:
        own = group.bounded
        near = _are_near(layout, poses, own, np.full(len(own), other), np.full(len(own), reach))
        firsts.append(own[near])
        seconds.append(np.full(int(near.sum()), other))
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    apart = layout.nodes[first] != layout.nodes[second]
    first, second = first[apart], second[apart]
    swap = (layout.ranks[first] > layout.ranks[second]) | (
        (layout.ranks[first] == layout.ranks[second]) & (first > second)
    )
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    return first, second, np.tile(group.coefficients, (len(first), 1))


def _are_near(layout: SceneLayout, poses: Array, first: Array, second: Array, reach: Array) -> Array:
    """Whether the balls that hold two geometries are within reach; unbounded ones by what they are."""
    with np.errstate(invalid="ignore"):
        gaps = np.linalg.norm(poses[first, :, 3] - poses[second, :, 3], axis=1)
        gaps = gaps - layout.radii[first] - layout.radii[second]
    for one, other in ((first, second), (second, first)):
        for number in np.unique(other[~np.isfinite(layout.radii[other])]):
            own = np.flatnonzero(other == number)
            gaps[own] = _from_unbounded(layout, poses, int(number), one[own])
    return ~(gaps > reach)  # NaN is told, not left out


def _from_unbounded(layout: SceneLayout, poses: Array, number: int, others: Array) -> Array:
    """How far balls are from an unbounded geometry, at least."""
    shape, X = layout.shapes[number], poses[number]
    arms = poses[others, :, 3] - X[:, 3]
    match shape:
        case HalfSpace():
            return np.asarray(arms @ X[:, 2] - layout.radii[others])
        case Cavity(radius):
            return np.asarray(float(radius) - np.linalg.norm(arms, axis=1) - layout.radii[others])
    return np.full(len(others), -np.inf)  # a terrain may be anywhere


def balls_near(centres: Array, radii: Array, reach: float) -> tuple[Array, Array]:
    """Pairs of balls (n, 3), (n,) whose surfaces are at most ``reach`` apart: numbers (k,) and (k,)."""
    if len(radii) < 2:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    half = radii + reach / 2
    levels = np.ceil(np.log2(np.maximum(half, half.max() * 2.0**-40))).astype(np.int64)
    firsts, seconds = [], []
    present = np.unique(levels)
    for level in present:
        large = np.flatnonzero(levels == level)
        grid = _Grid(centres[large], 2 * float(half[large].max()))
        for smaller in present[present <= level]:
            own = np.flatnonzero(levels == smaller)
            a, b = grid.beside(centres[own], among=smaller == level)
            firsts.append(own[a])
            seconds.append(large[b])
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    d = centres[a] - centres[b]
    sums = half[a] + half[b]
    near = (d * d).sum(axis=1) <= sums * sums
    return a[near], b[near]


class _Grid:
    """Points in cubic cells."""

    def __init__(self, points: Array, width: float) -> None:
        self.width = width
        keys = self._keys(self._cells(points))
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def _cells(self, points: Array) -> Array:
        with np.errstate(invalid="ignore"):
            cells = np.floor(np.nan_to_num(points / self.width))
        return np.clip(cells, -FARTHEST_CELL + 2, FARTHEST_CELL - 2).astype(np.int64)

    @staticmethod
    def _keys(cells: Array) -> Array:
        x, y, z = (cells + FARTHEST_CELL).T
        return np.asarray((x * 2 * FARTHEST_CELL + y) * 2 * FARTHEST_CELL + z)

    def beside(self, points: Array, among: bool) -> tuple[Array, Array]:
        """Numbers of points and of the grid's points in the same cell or one beside it.

        ``among``: the points are the grid's own, and every pair is found once.
        """
        # three neighbours along z have consecutive numbers: nine ranges cover all 27 cells
        cells = self._cells(points)
        starts, ends = [], []
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                below = self._keys(cells + [dx, dy, -1])
                starts.append(np.searchsorted(self.keys, below, side="left"))
                ends.append(np.searchsorted(self.keys, below + 2, side="right"))
        start, end = np.concatenate(starts), np.concatenate(ends)
        counts = end - start
        owner = np.repeat(np.tile(np.arange(len(points)), 9), counts)
        first = np.repeat(start - np.cumsum(counts) + counts, counts)
        found = self.order[first + np.arange(counts.sum())]
        if among:
            once = owner < found
            owner, found = owner[once], found[once]
        return owner, found
