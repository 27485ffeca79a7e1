"""The broad phase of a scene of many bodies: which pairs of geometries are near, in time that grows with their number.

Every bounded geometry is held by a ball about its origin. The centres of balls are sorted into trees, one for each
power of two of their size, and pairs are looked for in each tree and between any two of them, within the largest sum
of radii there: so a boulder does not make every pebble look far. Nothing is left out that is nearer than it should be.
"""

from __future__ import annotations

from typing import NamedTuple

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
    first, second, coefficients = (np.concatenate(column) for column in zip(*parts, strict=True))
    # of a pair that is there twice the first one counts: contacts of their own come before groups
    key = np.minimum(first, second) * len(layout.names) + np.maximum(first, second)
    _, single = np.unique(key, return_index=True)
    return NearPairs(first[single], second[single], coefficients[single])


def _near_declared(layout: SceneLayout, poses: Array, skin: Array) -> tuple[Array, Array, Array]:
    first, second, coefficients = layout.declared
    near = are_near(layout, poses, first, second, skin[first] + skin[second] + coefficients[:, 2])
    return first[near], second[near], coefficients[near]


def _near_in_group(layout: SceneLayout, group: Grouped, poses: Array, skin: Array) -> tuple[Array, Array, Array]:
    margin, bounded = group.coefficients[2], group.bounded
    a, b = balls_near(poses[bounded, :, 3], layout.radii[bounded] + skin[bounded], float(margin))
    gaps = _from_all_unbounded(layout, poses, group.unbounded, bounded)
    others, numbers = np.nonzero(~(gaps > margin + skin[bounded] + skin[group.unbounded][:, None]))
    first = np.concatenate([bounded[a], bounded[numbers]])
    second = np.concatenate([bounded[b], group.unbounded[others]])
    apart = layout.nodes[first] != layout.nodes[second]
    if not apart.all():
        first, second = first[apart], second[apart]
    ranks = layout.ranks
    swap = (ranks[first] > ranks[second]) | ((ranks[first] == ranks[second]) & (first > second))
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    return first, second, np.broadcast_to(group.coefficients, (len(first), 3))


def are_near(layout: SceneLayout, poses: Array, first: Array, second: Array, reach: Array) -> Array:
    """Whether the balls that hold two geometries are within reach; unbounded ones by what they are."""
    with np.errstate(invalid="ignore"):
        gaps = np.linalg.norm(poses[first, :, 3] - poses[second, :, 3], axis=1)
        gaps = gaps - layout.radii[first] - layout.radii[second]
    for one, other in ((first, second), (second, first)):
        for number in np.unique(other[~np.isfinite(layout.radii[other])]):
            own = np.flatnonzero(other == number)
            gaps[own] = _from_unbounded(layout, poses, int(number), one[own])
    return np.asarray(~(gaps > reach))  # NaN is told, not left out


def _from_all_unbounded(layout: SceneLayout, poses: Array, numbers: Array, others: Array) -> Array:
    """How far balls are from some unbounded geometries, at least, (geometries, balls)."""
    flat = np.array([isinstance(layout.shapes[number], HalfSpace) for number in numbers], dtype=bool)
    if flat.all():
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


def _compare_all(centres: Array, half: Array) -> tuple[Array, Array]:
    """Every ball against every other one."""
    x, y, z = (column[:, None] - column for column in centres.T)
    sums = half[:, None] + half
    a, b = np.nonzero(x * x + y * y + z * z <= sums * sums)
    once = a < b
    return a[once], b[once]


def balls_near(centres: Array, radii: Array, reach: float) -> tuple[Array, Array]:
    """Pairs of balls (n, 3), (n,) whose surfaces are at most ``reach`` apart: numbers (k,) and (k,)."""
    from scipy.spatial import cKDTree

    half = radii + reach / 2
    if len(radii) < 2 or not np.isfinite(centres).all():
        return np.triu_indices(len(radii), 1)  # what is nowhere may be anywhere
    if len(radii) <= FEW_BALLS:
        return _compare_all(centres, half)
    levels = np.ceil(np.log2(np.maximum(half, half.max() * SMALLEST))).astype(np.int64)
    members = [np.flatnonzero(levels == level) for level in np.unique(levels)]
    trees = [cKDTree(centres[own], leafsize=8, compact_nodes=False, balanced_tree=False) for own in members]
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
    d, sums = centres[a] - centres[b], half[a] + half[b]
    near = np.einsum("ni,ni->n", d, d) <= sums * sums
    return a[near], b[near]
