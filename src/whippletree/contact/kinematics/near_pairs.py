"""The broad phase of a scene of many bodies: which pairs of geometries are near, in time that grows with their number.

Every bounded geometry is held by a ball about its origin. The centres of balls are sorted into trees, one for each
power of two of their size, and pairs are looked for in each tree and between any two of them, within the largest sum
of radii there: so a boulder does not make every pebble look far. Nothing is left out that is nearer than it should be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.shapes import Cavity, HalfSpace
from whippletree.contact.kinematics.scene_layout import Grouped, SceneLayout

SMALLEST = 2.0**-40
"""Share of the largest radius below which balls are sorted as if they had that size; points have none."""

FEW_BALLS = 40
"""Balls that are compared each with each: quicker than making a tree."""

ROUNDED_REACH = 1 + 1e-12
"""Makes up for the rounding of distances in the trees; every pair is looked at once more."""


class NearPairs(NamedTuple):
    """Pairs of geometries that are near, n of them, in the order of their numbers."""

    first: Array
    """Numbers of geometries, (n,)."""
    second: Array
    coefficients: Array
    """Friction, restitution and margin, (n, 3)."""
    gaps: Array
    """How far apart they are, at least, m, (n,): the balls that hold them; unbounded ones by what they are."""


def near_pairs(layout: SceneLayout, poses: Array, skin: Array) -> NearPairs:
    """All pairs that may touch and are less than the sum of both skins apart, and perhaps some more.

    Args:
        poses: of all geometries in the world, (geometries, 3, 4).
        skin: of each geometry, m, (geometries,).
    """
    parts = [_near_declared(layout, poses, skin)] if len(layout.declared.first) else []
    parts += [_near_in_group(layout, group, poses, skin) for group in layout.groups]
    if len(parts) == 1 and not len(layout.declared.first):
        return NearPairs(*parts[0])
    first, second, coefficients, gaps = (np.concatenate(column) for column in zip(*parts, strict=True))
    # of a pair that is there twice the first one counts: contacts of their own come before groups
    key = np.minimum(first, second) * len(layout.names) + np.maximum(first, second)
    _, single = np.unique(key, return_index=True)
    return NearPairs(first[single], second[single], coefficients[single], gaps[single])


def _near_declared(layout: SceneLayout, poses: Array, skin: Array) -> NearPairs:
    first, second, coefficients = layout.declared
    gaps = _gaps_of_pairs(layout, poses, first, second)
    near = ~(gaps > skin[first] + skin[second] + coefficients[:, 2])  # NaN is told, not left out
    return NearPairs(first[near], second[near], coefficients[near], gaps[near])


def _near_in_group(layout: SceneLayout, group: Grouped, poses: Array, skin: Array) -> NearPairs:
    margin, bounded, radii = group.coefficients[2], group.bounded, layout.radii[group.bounded]
    thick = skin[bounded]
    a, b, distances = balls_near(poses[bounded, :, 3], radii + thick, float(margin))
    heights = _from_all_unbounded(layout, poses, group.unbounded, bounded)
    others, numbers = np.nonzero(~(heights > margin + thick + skin[group.unbounded][:, None]))
    first = bounded[np.concatenate([a, numbers])]
    second = np.concatenate([bounded[b], group.unbounded[others]])
    gaps = np.concatenate([distances - radii[a] - radii[b], heights[others, numbers]])
    coefficients = np.empty((len(first), 3))
    coefficients[:] = group.coefficients
    apart = layout.nodes[first] != layout.nodes[second]
    found = NearPairs(first, second, coefficients, gaps)
    return found if apart.all() else NearPairs(*[column[apart] for column in found])


def _gaps_of_pairs(layout: SceneLayout, poses: Array, first: Array, second: Array) -> Array:
    """How far the balls that hold two geometries are apart; unbounded ones by what they are."""
    with np.errstate(invalid="ignore"):
        gaps = np.linalg.norm(poses[first, :, 3] - poses[second, :, 3], axis=1)
        gaps = gaps - layout.radii[first] - layout.radii[second]
    for one, other in ((first, second), (second, first)):
        for number in np.unique(other[~np.isfinite(layout.radii[other])]):
            own = np.flatnonzero(other == number)
            gaps[own] = _from_unbounded(layout, poses, int(number), one[own])
    return np.asarray(gaps)


def _from_all_unbounded(layout: SceneLayout, poses: Array, numbers: Array, others: Array) -> Array:
    """How far balls are from some unbounded geometries, at least, (geometries, balls)."""
    if layout.flat[numbers].all():
        normals = poses[numbers, :, 2]
        heights = np.einsum("ni,ni->n", normals, poses[numbers, :, 3])
        return np.asarray(normals @ poses[others, :, 3].T - heights[:, None] - layout.radii[others])
    return np.array([_from_unbounded(layout, poses, int(number), others) for number in numbers])


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


def balls_near(centres: Array, radii: Array, reach: float) -> tuple[Array, Array, Array]:
    """Pairs of balls (n, 3), (n,) whose surfaces are at most ``reach`` apart.

    Returns:
        Numbers of balls (k,), those of their partners, which are larger (k,), and distances of the centres, m, (k,).
    """
    half = radii + reach / 2
    if len(radii) <= FEW_BALLS or not np.isfinite(centres).all():
        return _compare_all(centres, half)
    a, b = _near_by_trees(centres, half)
    d, sums = centres[a] - centres[b], half[a] + half[b]
    squares = np.einsum("ni,ni->n", d, d)
    near = np.flatnonzero(squares <= sums * sums)
    return a[near], b[near], np.sqrt(squares[near])


def _compare_all(centres: Array, half: Array) -> tuple[Array, Array, Array]:
    """Every ball against every other one; what is nowhere may be anywhere."""
    with np.errstate(invalid="ignore", over="ignore"):
        x, y, z = (column[:, None] - column for column in centres.T)
        squares, sums = x * x + y * y + z * z, half[:, None] + half
        a, b = np.nonzero(~(squares > sums * sums))
    once = a < b
    a, b = a[once], b[once]
    return a, b, np.sqrt(squares[a, b])


def _near_by_trees(centres: Array, half: Array) -> tuple[Array, Array]:
    """Pairs that may be near, and hardly others; the first number is the smaller one."""
    from scipy.spatial import cKDTree

    def tree_of(own: Array) -> Any:
        return cKDTree(own, leafsize=8, compact_nodes=False, balanced_tree=False)

    largest = float(half.max())
    if largest <= 2 * half.min():
        found = tree_of(centres).query_pairs(2 * largest * ROUNDED_REACH, output_type="ndarray")
        return found[:, 0], found[:, 1]
    levels = np.ceil(np.log2(np.maximum(half, largest * SMALLEST))).astype(np.int64)
    members = [np.flatnonzero(levels == level) for level in np.unique(levels)]
    trees = [tree_of(centres[own]) for own in members]
    most = [float(half[own].max()) for own in members]
    firsts, seconds = [], []
    for k, (tree, own) in enumerate(zip(trees, members, strict=True)):
        found = tree.query_pairs(2 * most[k] * ROUNDED_REACH, output_type="ndarray")
        firsts.append(own[found[:, 0]])
        seconds.append(own[found[:, 1]])
        for j in range(k):
            between = trees[j].sparse_distance_matrix(tree, (most[j] + most[k]) * ROUNDED_REACH, output_type="ndarray")
            firsts.append(members[j][between["i"]])
            seconds.append(own[between["j"]])
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    return np.minimum(a, b), np.maximum(a, b)
