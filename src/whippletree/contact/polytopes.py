"""Faces of boxes and convex hulls, and where two faces that look at each other overlap. Plain numbers only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.contact.narrow import corners
from whippletree.contact.shapes import Box, Hull
from whippletree.model import Array

COPLANAR = 1e-9
"""How far, relative to a hull's size, two facets may be out of plane and count as one face."""


class Face(NamedTuple):
    """A flat face: outward unit normal (3,) and corners (n, 3), counter-clockwise seen from outside."""

    normal: Array
    corners: Array


def faces_of(shape: Box | Hull) -> list[Face]:
    """The faces of a box or of a convex hull, in the shape's frame."""
    from scipy.spatial import ConvexHull

    points = corner_points(shape)
    hull = ConvexHull(points)
    size = float(np.ptp(points, axis=0).max())
    found: list[tuple[Array, set[int]]] = []
    for equation, simplex in zip(hull.equations, hull.simplices, strict=True):
        same = (members for plane, members in found if np.abs(plane - equation).max() <= COPLANAR * max(size, 1.0))
        members = next(same, None)
        if members is None:
            members = set()
            found.append((equation, members))
        members.update(int(i) for i in simplex)
    return [Face(plane[:3], _loop(points[sorted(members)], plane[:3])) for plane, members in found]


def corner_points(shape: Box | Hull) -> Array:
    """The corners (n, 3) of a shape, in its frame."""
    if isinstance(shape, Hull):
        return shape.vertices
    return np.array([centre for centre, _ in corners(shape, np.zeros(3))], dtype=float)


def placed(face: Face, R: Array, p: Array) -> Face:
    """The face in the world."""
    return Face(R @ face.normal, face.corners @ R.T + p)


def most_along(faces: list[Face], direction: Array) -> Face:
    """The face that looks most into a direction."""
    return max(faces, key=lambda face: float(face.normal @ direction))


def overlap(reference: Face, incident: Face) -> Array:
    """The corners (n, 3) of the part of one face that is over another, seen along the other's normal; none if none is.

    The incident polygon is cut by each side plane of the reference polygon in turn.
    """
    polygon = incident.corners
    for a, b in zip(reference.corners, np.roll(reference.corners, -1, axis=0), strict=True):
        inwards = np.cross(reference.normal, b - a)
        polygon = _cut(polygon, (polygon - a) @ inwards)
    return polygon


def _cut(polygon: Array, heights: Array) -> Array:
    """The part of a polygon whose heights are not negative."""
    kept = []
    for k in range(len(polygon)):
        here, there = k, (k + 1) % len(polygon)
        if heights[here] >= 0:
            kept.append(polygon[here])
        if heights[here] * heights[there] < 0:
            share = heights[here] / (heights[here] - heights[there])
            kept.append(polygon[here] + share * (polygon[there] - polygon[here]))
    return np.array(kept).reshape(-1, 3)


def _loop(points: Array, normal: Array) -> Array:
    """The points of a convex polygon in order around its normal."""
    centre = points.mean(axis=0)
    first = points[0] - centre
    across = np.cross(normal, first)
    angles = np.arctan2((points - centre) @ across, (points - centre) @ first)
    return np.asarray(points[np.argsort(angles)])
