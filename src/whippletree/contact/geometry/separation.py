"""How far shapes reach into a direction, and the face along which two of them are apart. Plain numbers only.

The signed distance of two convex shapes is the largest separation over all directions. An iteration that searches for
it returns a direction of rounding once the shapes touch. A face whose normal separates as much as any direction is the
answer that does not depend on rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.contact.geometry.closed_forms import Touch, axes_of
from whippletree.contact.geometry.polytopes import corner_points, normals_of
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull

FLUSH = 1e-8
"""m: a face that separates as much as the nearest points do, up to this, gives the direction of contact."""

CLEAR_GAP, ALONG = 1e-3, 0.99
"""m: shapes that are farther apart than this have a direction of approach that is no rounding; and the cosine to it
that the normal of a face must have to be met."""

SEARCHES, SHRINKS, STRIDE = 40, 0.6, 10
"""Rounds of a search over directions, how its neighbourhood shrinks, and that every tenth direction is tried in it: the
last neighbourhood is 1e-9 wide."""

BoundedShape: TypeAlias = Ball | Capsule | Cylinder | Box | Ellipsoid | Hull

Placed: TypeAlias = tuple[Array, Array]
"""Rotation (3, 3) and position (3,), floats."""


class MetFace(NamedTuple):
    """The face of one of two shapes that keeps them apart."""

    side: int
    """0: of the first shape, 1: of the second."""
    normal: Array
    """Outward, in the shape's frame, (3,)."""
    height: float
    """n · x on the face, m."""


def met_face(
    first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed, gap: float, normal: Array
) -> MetFace | None:
    """The face that keeps two shapes apart by ``gap`` or more; None if no face does.

    ``normal`` (3,) is roughly that of their nearest points, from the second shape to the first; where they are clearly
    apart, only faces that look along it can be the one.
    """
    best, found = gap - FLUSH, None
    for side, one, other, at, beside in ((0, first, second, X, Y), (1, second, first, Y, X)):
        normals, heights = _planes(one)
        if gap > CLEAR_GAP:
            along = np.flatnonzero(normals @ ((normal if side else -normal) @ at[0]) > ALONG)
            normals, heights = normals[along], heights[along]
        if len(heights):
            towards = -(normals @ at[0].T)
            reach = reach_along(other, towards @ beside[0]) + towards @ (beside[1] - at[1])
            separations = -reach - heights
            k = int(np.argmax(separations))
            if separations[k] > best:
                best, found = float(separations[k]), MetFace(side, normals[k], float(heights[k]))
    return found


def search_direction(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed) -> Touch:
    """Roughly the direction of largest separation, and a point that is nearest in it, by trying directions.

    Slower than an iteration on the shapes, but it also answers where these touch or overlap.
    """
    tried = np.concatenate([_DIRECTIONS, _unit(X[1] - Y[1])[None]])
    width = 1.0
    for _ in range(SEARCHES):
        mine, their = reach_along(first, -tried @ X[0]), reach_along(second, tried @ Y[0])
        apart = tried @ (X[1] - Y[1]) - mine - their
        k = int(np.argmax(apart))
        best, gap = tried[k], float(apart[k])
        width *= SHRINKS
        around = best + width * _DIRECTIONS[::STRIDE]
        tried = np.concatenate([best[None], around / np.linalg.norm(around, axis=1, keepdims=True)])
    point = X[1] + X[0] @ farthest(first, -best @ X[0])
    return Touch(gap, point, axes_of(vector(*best.tolist())))


def farthest(shape: BoundedShape, along: Array) -> Array:
    """A point (3,) of a shape that is farthest in a direction (3,), both in its frame."""
    end = np.array([0.0, 0.0, np.sign(along[2])])
    match shape:
        case Ball(radius):
            return float(radius) * _unit(along)
        case Capsule(radius, half):
            return float(half) * end + float(radius) * _unit(along)
        case Cylinder(radius, half):
            return float(half) * end + float(radius) * _unit(along * [1, 1, 0])
        case Ellipsoid(radii):
            axes = np.array(radii, dtype=float)
            return axes * _unit(axes * along)
    points = corner_points(shape)
    return np.asarray(points[int(np.argmax(points @ along))])


def _unit(x: Array) -> Array:
    length = float(np.linalg.norm(x))
    return x / length if length > 0 else np.array([0.0, 1.0, 0.0])


def _sphere(count: int) -> Array:
    """Directions (count, 3) all around, evenly: a spiral of golden angles."""
    k = np.arange(count) + 0.5
    z, turn = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)


_DIRECTIONS = _sphere(500)


def separation(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed, normal: Array) -> float:
    """How far apart two shapes are along a unit normal (3,) from the second to the first, m."""
    mine = reach_along(first, (-normal @ X[0])[None])[0]
    their = reach_along(second, (normal @ Y[0])[None])[0]
    return float(normal @ (X[1] - Y[1]) - mine - their)


def reach_along(shape: BoundedShape, along: Array) -> Array:
    """How far a shape reaches into directions (f, 3), from its origin and in its frame, m (f,)."""
    match shape:
        case Ball(radius):
            return np.asarray(float(radius) * np.linalg.norm(along, axis=1))
        case Capsule(radius, half):
            return np.asarray(np.abs(along[:, 2]) * float(half) + float(radius) * np.linalg.norm(along, axis=1))
        case Cylinder(radius, half):
            return np.abs(along[:, 2]) * float(half) + np.hypot(along[:, 0], along[:, 1]) * float(radius)
        case Ellipsoid(radii):
            return np.asarray(np.linalg.norm(along * np.array(radii, dtype=float), axis=1))
    return np.asarray((along @ corner_points(shape).T).max(axis=1))


@lru_cache(maxsize=1024)
def _planes(shape: BoundedShape) -> tuple[Array, Array]:
    """Normals (f, 3) and heights (f,) of a shape's flat faces."""
    match shape:
        case Box() | Hull():
            return normals_of(shape)
        case Cylinder(_, half):
            return np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]), np.full(2, float(half))
    return np.zeros((0, 3)), np.zeros(0)
