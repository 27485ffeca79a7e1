"""Pairs of shapes without a closed form: candidates by the collision library ``coal`` (extra ``contact``).

Plain numbers, one state at a time. As for closed forms, a pair has a fixed number of slots:

* box or mesh against box or mesh: the corners of the overlap of the two faces that meet, each with its own gap;
* anything else: the corners of both shapes (ends of a capsule, points on the rims of a cylinder, corners of a box or a
  mesh) against the other shape, and the nearest points of the two where no corner is as near.

A slot that is not in use has the gap ``ABSENT``. The slots of an overlap come in the order of their angle about its
centre; :class:`Tracker` keeps each in its slot from call to call by its place on the first body.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from whippletree.contact.narrow import CLOSED_FORMS, Touch, axes_of, corners, reversed_touch
from whippletree.contact.polytopes import faces_of, most_along, overlap, placed
from whippletree.contact.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Hull, Shape, Terrain
from whippletree.errors import MissingExtraError, UnsupportedError
from whippletree.model import Array
from whippletree.spatial import Pose, vector

if TYPE_CHECKING:
    from whippletree.contact.candidates import ContactSet, Points

OVERLAP_SLOTS = 8
"""Slots of two faces: two rectangles overlap in eight corners at most; of more, those that are farthest apart stay."""

ABSENT = math.inf
"""Gap of a slot that is not in use."""

FACING = 1e-2
"""Angle, rad, between the direction of approach and a face's normal below which the face as a whole counts as met."""

TOLERANCE = 1e-10
"""Of coal's iterations, m."""

WITNESS = 1e-7
"""How much nearer than every corner, m, the nearest points must be to be a candidate of their own."""

Solid: TypeAlias = Ball | Capsule | Cylinder | Box | Ellipsoid | Hull


def can_collide(first: Shape, second: Shape) -> bool:
    """Whether two shapes can be handled here: both must be bounded."""
    return not isinstance(first, HalfSpace | Terrain) and not isinstance(second, HalfSpace | Terrain)


def slots(first: Solid, second: Solid) -> int:
    """The number of candidates of a pair."""
    if _flat(first) and _flat(second):
        return OVERLAP_SLOTS
    return _corner_count(first) + _corner_count(second) + 1


def touches(first: Solid, second: Solid, X: Pose, Y: Pose) -> list[Touch]:
    """The candidates of two shapes at these poses.

    Raises:
        UnsupportedError: poses that are not plain numbers.
        MissingExtraError: if coal is not installed.
    """
    X, Y = _plain(X), _plain(Y)
    nearest = _nearest(first, second, X, Y)
    if isinstance(first, Box | Hull) and isinstance(second, Box | Hull):
        found = _overlap(first, second, X, Y, nearest)
        return [*found, *[_absent(nearest)] * (OVERLAP_SLOTS - len(found))]
    found = [_against(ball, X, second, Y) for ball in _corners(first, -(X.R.T @ nearest.axes[0]))]
    found += [reversed_touch(_against(ball, Y, first, X)) for ball in _corners(second, Y.R.T @ nearest.axes[0])]
    alone = all(touch.gap > nearest.gap + WITNESS for touch in found)
    return [*found, nearest if alone else _absent(nearest)]


class Tracker:
    """Contact points of a model from one state to the next, each overlap's corner in the slot that it had.

    One tracker follows one motion; :meth:`points` takes the next state.
    """

    def __init__(self, system: ContactSet) -> None:
        self.system = system
        self._before: dict[str, Array] = {}

    def points(self, m: Any, q: Array) -> Points:
        """As :meth:`ContactSet.points`, in the slots of the call before."""
        return self.system.points(m, q, self._kept)

    def _kept(self, name: str, found: list[Touch], X: Pose) -> list[Touch]:
        """The touches of a pair in the slots of their nearest predecessors, in the first body's frame."""
        local = np.array([X.R.T @ (touch.point - X.p) for touch in found], dtype=float)
        used = [k for k, touch in enumerate(found) if touch.gap != ABSENT]
        before = self._before.get(name)
        order = list(range(len(found))) if before is None else _matched(local, used, before)
        after = np.full((len(found), 3), np.nan) if before is None else before.copy()
        after[[order.index(k) for k in used]] = local[used]
        self._before[name] = after
        return [found[k] for k in order]


def _matched(local: Array, used: Sequence[int], before: Array) -> list[int]:
    """For each slot the number of the touch that takes it: nearest pairs first, the rest in order."""
    distance = np.linalg.norm(local[None, used] - before[:, None], axis=2) if len(used) else np.zeros((len(before), 0))
    distance[np.isnan(distance)] = np.inf
    order = [-1] * len(before)
    for flat in np.argsort(distance, axis=None):
        slot, k = divmod(int(flat), len(used))
        if order[slot] < 0 and used[k] not in order:
            order[slot] = used[k]
    rest = [k for k in range(len(before)) if k not in order]
    return [k if k >= 0 else rest.pop(0) for k in order]


def _overlap(first: Box | Hull, second: Box | Hull, X: Pose, Y: Pose, nearest: Touch) -> list[Touch]:
    """The corners of the overlap of two faces; the nearest points alone where an edge meets an edge."""
    normal = nearest.axes[0].astype(float)
    mine = placed(most_along(_faces(first), -(X.R.T @ normal).astype(float)), *_floats(X))
    other = placed(most_along(_faces(second), (Y.R.T @ normal).astype(float)), *_floats(Y))
    own, their = float(-mine.normal @ normal), float(other.normal @ normal)
    if max(own, their) < math.cos(FACING):
        return [nearest]
    if their >= own:
        points = overlap(other, mine)
        gaps = (points - other.corners[0]) @ other.normal
        found = [_touch(gap, p, other.normal) for gap, p in zip(gaps, points, strict=True)]
    else:
        points = overlap(mine, other)
        gaps = (points - mine.corners[0]) @ mine.normal
        found = [_touch(gap, p - gap * mine.normal, -mine.normal) for gap, p in zip(gaps, points, strict=True)]
    return _spread(found) or [nearest]


def _spread(found: list[Touch]) -> list[Touch]:
    """At most as many as there are slots: the deepest, then always the one that is farthest from those chosen."""
    if len(found) <= OVERLAP_SLOTS:
        return found
    points = np.array([touch.point for touch in found], dtype=float)
    chosen = [int(np.argmin([touch.gap for touch in found]))]
    while len(chosen) < OVERLAP_SLOTS:
        apart = np.linalg.norm(points[:, None] - points[None, chosen], axis=2).min(axis=1)
        chosen.append(int(np.argmax(apart)))
    return [found[k] for k in sorted(chosen)]


def _against(ball: tuple[Array, Any], X: Pose, shape: Solid, Y: Pose) -> Touch:
    """One ball of a shape against the other shape."""
    centre, radius = ball
    at = Pose(X.R, X.point(centre))
    written = CLOSED_FORMS.get((Ball, type(shape)))
    if written is not None:
        return written(Ball(radius), shape, at, Y)[0]
    return _nearest(Ball(radius), shape, at, Y)


def _nearest(first: Solid, second: Solid, X: Pose, Y: Pose) -> Touch:
    """The nearest points of two shapes, by coal; inside each other, along the shortest way out."""
    coal = _coal()
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = TOLERANCE
    places = [coal.Transform3s(*_floats(pose)) for pose in (X, Y)]
    gap = coal.distance(_coal_shape(first), places[0], _coal_shape(second), places[1], request, result)
    return _touch(gap, np.array(result.getNearestPoint1()).reshape(3), -np.array(result.normal).reshape(3))


def _touch(gap: Any, point: Array, normal: Array) -> Touch:
    length = float(np.linalg.norm(normal))
    return Touch(float(gap), vector(*map(float, point)), axes_of(vector(*map(float, normal / length))))


def _absent(nearest: Touch) -> Touch:
    return nearest._replace(gap=ABSENT)


def _corners(shape: Solid, towards: Array) -> list[tuple[Array, Any]]:
    """The balls of a shape that may touch something in that direction."""
    return [] if isinstance(shape, Ball | Ellipsoid) else corners(shape, towards)


def _corner_count(shape: Solid) -> int:
    return len(_corners(shape, vector(0, 0, -1)))


def _flat(shape: Solid) -> bool:
    return isinstance(shape, Box | Hull)


def _plain(X: Pose) -> Pose:
    try:
        R, p = _floats(X)
    except (TypeError, ValueError):
        raise UnsupportedError(
            "these shapes have no closed form: their contact points can be found for plain numbers only"
        ) from None
    return Pose(R.astype(object), p.astype(object))


def _floats(X: Pose) -> tuple[Array, Array]:
    return X.R.astype(float), X.p.astype(float)


@lru_cache(maxsize=256)
def _faces(shape: Box | Hull) -> Any:
    return faces_of(shape)


@lru_cache(maxsize=256)
def _coal_shape(shape: Solid) -> Any:
    coal = _coal()
    match shape:
        case Ball(radius):
            return coal.Sphere(float(radius))
        case Capsule(radius, half):
            return coal.Capsule(float(radius), 2 * float(half))
        case Cylinder(radius, half):
            return coal.Cylinder(float(radius), 2 * float(half))
        case Box((x, y, z)):
            return coal.Box(2 * float(x), 2 * float(y), 2 * float(z))
        case Ellipsoid(radii):
            return coal.Ellipsoid(*map(float, radii))
    points = coal.StdVec_Vec3s()
    for point in shape.vertices:
        points.append(np.array(point, dtype=float))
    return coal.Convex.convexHull(points, False, "")


def _coal() -> Any:
    try:
        import coal
    except ImportError:
        raise MissingExtraError("contact between these shapes", "coal", "contact") from None
    return coal
