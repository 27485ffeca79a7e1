"""Two shapes with flat faces: their corners against each other's faces, and the crossings of edges.

Which face meets which, and what lies over it, is decided on plain numbers; the candidates themselves are closed forms
of the poses and run on dual numbers, too. A corner is fixed to its shape and the face to the other, and two crossing
edges have one common normal: so the normal row of every candidate is the rate of its gap, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import real_value, sqrt
from whippletree.contact.geometry.closed_forms import Touch, axes_of
from whippletree.contact.geometry.polytopes import Face, corner_points, covered, crossings, most_along, placed
from whippletree.contact.geometry.separation import Placed
from whippletree.contact.geometry.shapes import SEPARATE_CORNERS, Box, Hull
from whippletree.spatial import Pose, cross

EDGE_SLOTS = 8
"""Slots of crossing edges: two rectangles cross eight times at most; of more, those that are farthest apart stay."""

OVERLAP_SLOTS = 8
"""Slots of two faces of large meshes."""

FACING = 1e-2
"""Angle, rad, between the direction of approach and a face's normal below which the faces as a whole meet."""

BESIDE = 1e-9
"""m: a corner that is beside a face by no more than this counts as over it."""

PARALLEL_EDGES = 2e-2
"""Sine of the angle between two edges below which they do not cross anywhere in particular. Crossings whose common
normal is not that of the faces, up to 2 ``FACING``, are left out, too."""


Against: TypeAlias = Callable[[Sequence[tuple[Array, Any]], Pose, Any, Pose], list[Touch]]
"""Balls (centre, radius) of a shape at a pose against another shape at a pose."""


@dataclass(frozen=True)
class Placement:
    """A shape with flat faces somewhere, perhaps in motion."""

    shape: Box | Hull
    X: Pose
    at: Placed
    """The pose in plain numbers."""

    @cached_property
    def corners(self) -> Array:
        """In the world, (n, 3)."""
        R, p = self.at
        return np.asarray(corner_points(self.shape) @ R.T + p)

    def face_along(self, direction: Array) -> Face:
        """The face that looks most into a direction, in the world."""
        return placed(most_along(self.shape, direction @ self.at[0]), *self.at)

    def plane(self, face: Face) -> tuple[Array, float]:
        """Normal (3,) and height of a face that is in the world, in the shape's frame."""
        R, p = self.at
        return face.normal @ R, float(face.normal @ (face.corners[0] - p))


def separate_corners(first: Box | Hull, second: Box | Hull) -> int:
    """The number of all corners where each has a slot of its own; 0 for large meshes."""
    counts = len(corner_points(first)), len(corner_points(second))
    return sum(counts) if max(counts) <= SEPARATE_CORNERS else 0


def flat_touches(first: Placement, second: Placement, normal: Array, against: Against) -> list[Touch | None]:
    """The candidates in their slots, None for one that is not in use.

    Args:
        first, second: the shapes and where they are.
        normal: (3,), that of the nearest points.
        against: the distance of a corner from a whole shape.
    """
    mine, other = first.face_along(-normal), second.face_along(normal)
    facing = bool(max(-mine.normal @ normal, other.normal @ normal) >= math.cos(FACING))
    edges = crossings(mine, other, PARALLEL_EDGES) if facing else []
    met = (_crossing(first, second, pair, normal) for pair in edges)
    crossed = [touch for touch in met if real_value(touch.axes[0] @ normal) >= math.cos(2 * FACING)]
    if separate_corners(first.shape, second.shape):
        apart = None if facing else against
        over = _corners_on(first, range(len(first.corners)), second, other, apart)
        under = _corners_on(second, range(len(second.corners)), first, mine, apart)
        return [*over, *_turned(under), *_filled(_spread(crossed, EDGE_SLOTS), EDGE_SLOTS)]
    # of large meshes only the corners of the two faces that meet
    over = _corners_on(first, mine.numbers, second, other, None) if facing else []
    under = _corners_on(second, other.numbers, first, mine, None) if facing else []
    found = [touch for touch in (*over, *_turned(under), *crossed) if touch is not None]
    return _filled(_spread(found, OVERLAP_SLOTS), OVERLAP_SLOTS)


def _corners_on(
    shape: Placement, numbers: Sequence[int], ground: Placement, face: Face, apart: Against | None
) -> list[Touch | None]:
    """Corners of a shape against another: over the face that is met, their heights; beside it, their distances, or
    nothing where the faces as a whole meet."""
    over = covered(face, shape.corners[list(numbers)], BESIDE)
    normal, height = ground.plane(face)
    n = ground.X.R @ vector(*normal.tolist())
    axes = axes_of(n)
    found: list[Touch | None] = []
    beside = (
        [] if apart is None else [vector(*corner_points(shape.shape)[k].tolist()) for k in np.array(numbers)[~over]]
    )
    distances = iter(
        apart([(corner, 0) for corner in beside], shape.X, ground.shape, ground.X) if apart and beside else []
    )
    for k, good in zip(numbers, over, strict=True):
        if good:
            point = shape.X.point(vector(*corner_points(shape.shape)[k].tolist()))
            found.append(Touch(n @ (point - ground.X.p) - height, point, axes))
        else:
            found.append(next(distances, None))
    return found


def _crossing(
    first: Placement, second: Placement, edges: tuple[tuple[int, int], tuple[int, int]], normal: Array
) -> Touch:
    """Where two edges cross, along their common normal."""
    a, b = (first.X.point(vector(*corner_points(first.shape)[k].tolist())) for k in edges[0])
    c, d = (second.X.point(vector(*corner_points(second.shape)[k].tolist())) for k in edges[1])
    u, w = b - a, d - c
    n = cross(u, w)
    square = n @ n
    # on the first edge where it is nearest to the second
    s = cross(c - a, w) @ n / square
    n = n / sqrt(square)
    if real_value(n @ normal) < 0:
        n = -n
    return Touch(n @ (a - c), a + s * u, axes_of(n))


def _turned(touches: Sequence[Touch | None]) -> list[Touch | None]:
    """These contacts seen from the other shape; those over one face share their axes."""
    axes: dict[int, Array] = {}
    found: list[Touch | None] = []
    for touch in touches:
        if touch is None:
            found.append(None)
            continue
        normal = touch.axes[0]
        if id(touch.axes) not in axes:
            axes[id(touch.axes)] = axes_of(-normal)
        found.append(Touch(touch.gap, touch.point - touch.gap * normal, axes[id(touch.axes)]))
    return found


def _spread(found: list[Touch], count: int) -> list[Touch]:
    """At most so many: the deepest, then always the one that is farthest from those chosen."""
    if len(found) <= count:
        return found
    points = np.array([[real_value(x) for x in touch.point] for touch in found])
    chosen = [int(np.argmin([real_value(touch.gap) for touch in found]))]
    while len(chosen) < count:
        apart = np.linalg.norm(points[:, None] - points[None, chosen], axis=2).min(axis=1)
        chosen.append(int(np.argmax(apart)))
    return [found[k] for k in sorted(chosen)]


def _filled(found: list[Touch], count: int) -> list[Touch | None]:
    return [*found, *[None] * (count - len(found))]
