"""Faces of boxes and convex hulls, and where two faces that look at each other overlap. Plain numbers only."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.closed_forms import corners
from whippletree.contact.geometry.shapes import Box, Hull

COPLANAR = 1e-9
"""How far, relative to a hull's size, two facets may be out of plane and count as one face."""


class Face(NamedTuple):
    """A flat face: outward unit normal (3,), corners (n, 3), counter-clockwise seen from outside, and their numbers."""

    normal: Array
    corners: Array
    numbers: tuple[int, ...]


@lru_cache(maxsize=1024)
def faces_of(shape: Box | Hull) -> list[Face]:
    """The faces of a box or of a convex hull, in the shape's frame."""
    from scipy.spatial import ConvexHull

    points = corner_points(shape)
    hull = ConvexHull(points)
    owner = _merge_facets(hull.equations, hull.neighbors, COPLANAR * max(float(np.ptp(points, axis=0).max()), 1.0))
    members: dict[int, set[int]] = {}
    for facet, simplex in enumerate(hull.simplices):
        members.setdefault(owner[facet], set()).update(int(i) for i in simplex)
    return [_face(points, hull.equations[facet, :3], sorted(own)) for facet, own in members.items()]


@lru_cache(maxsize=1024)
def normals_of(shape: Box | Hull) -> tuple[Array, Array]:
    """Outward normals (f, 3) of the faces, and their heights (f,): n · x ≤ height inside."""
    faces = faces_of(shape)
    normals = np.array([face.normal for face in faces])
    return normals, np.array([face.normal @ face.corners[0] for face in faces])


@lru_cache(maxsize=1024)
def corner_points(shape: Box | Hull) -> Array:
    """The corners (n, 3) of a shape, in its frame."""
    if isinstance(shape, Hull):
        return np.asarray(shape.vertices, dtype=float)
    return np.array([centre for centre, _ in corners(shape, np.zeros(3))], dtype=float)


def _merge_facets(equations: Array, neighbours: Array, tolerance: float) -> list[int]:
    """For every facet the first one of those that lie in one plane with it, through neighbours."""
    owner = list(range(len(equations)))
    for start in range(len(equations)):
        if owner[start] != start:
            continue
        waiting = [start]
        while waiting:
            for other in neighbours[waiting.pop()]:
                if owner[other] == other > start and np.abs(equations[other] - equations[start]).max() <= tolerance:
                    owner[other] = start
                    waiting.append(int(other))
    return owner


def _face(points: Array, normal: Array, numbers: list[int]) -> Face:
    """The corners of a convex polygon in order around its normal."""
    own = points[numbers]
    centre = own.mean(axis=0)
    first = own[0] - centre
    across = np.cross(normal, first)
    order = np.argsort(np.arctan2((own - centre) @ across, (own - centre) @ first))
    return Face(normal, own[order], tuple(numbers[k] for k in order))


def place_face(face: Face, R: Array, p: Array) -> Face:
    """The face in the world."""
    return face._replace(normal=R @ face.normal, corners=face.corners @ R.T + p)


def most_along(shape: Box | Hull, direction: Array) -> Face:
    """The face that looks most into a direction of the shape's frame."""
    normals, _ = normals_of(shape)
    return faces_of(shape)[int(np.argmax(normals @ direction))]


def is_covered(face: Face, points: Array, margin: float) -> Array:
    """Which of the points (n, 3) are over a face, or beside it by no more than a margin in m."""
    inwards = _across(face.normal, np.roll(face.corners, -1, axis=0) - face.corners)
    heights = points @ inwards.T - (face.corners * inwards).sum(axis=1)
    return np.asarray((heights >= -margin * np.linalg.norm(inwards, axis=1)).all(axis=1))


def _across(normal: Array, vectors: Array) -> Array:
    """n × v of vectors (..., 3)."""
    x, y, z = normal.tolist()
    return np.asarray(vectors @ np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]))


def crossings(one: Face, other: Face, parallel: float) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of edges, as numbers of their corners, that cross when seen along the normal of ``one``.

    Edges whose directions have a sine below ``parallel`` between them cross nowhere in particular and are left out.
    """
    n = one.normal
    a, b = one.corners, np.roll(one.corners, -1, axis=0)
    c, d = other.corners, np.roll(other.corners, -1, axis=0)
    u, w = b - a, d - c
    apart = _across(n, c[None] - a[:, None])
    turn = _across(n, u) @ w.T  # n · (u × w), of every two edges
    sizes = np.linalg.norm(u, axis=1)[:, None] * np.linalg.norm(w, axis=1)
    crossing = np.abs(turn) > parallel * sizes
    safe = np.where(crossing, turn, 1.0)
    s, t = (apart * w).sum(axis=2) / safe, (apart * u[:, None]).sum(axis=2) / safe
    crossing &= (s > 0) & (s < 1) & (t > 0) & (t < 1)
    mine, their = (tuple(zip(f.numbers, np.roll(f.numbers, -1).tolist(), strict=True)) for f in (one, other))
    return [(mine[i], their[j]) for i, j in np.argwhere(crossing)]
