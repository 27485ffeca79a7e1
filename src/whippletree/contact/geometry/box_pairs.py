"""Two boxes in closed form on any scalar: the overlap of the two faces that meet, or where two edges cross.

The axis along which the boxes are farthest apart, or overlap least, is one of 15: their 6 face normals and the 9 common
normals of their edges (Gottschalk, Lin and Manocha 1996). Where it is a face's, that face is the *reference*, and the
face of the other box that looks most against it the *incident* one. The candidates are the corners of the polygon in
which they overlap, seen along the reference's normal: every edge of the incident face where it enters and leaves the
reference face, and the corners of the reference face that are inside the incident one. Each has a slot of its own, by
the edge or corner that it belongs to, so that it keeps its name while the boxes rock and slide; 8 of the 13 slots are
in use at most, the others have an infinite gap for all that anybody asks. Nothing branches on a value, so lists of
pairs compile.

The gap of a corner of the polygon is its height over the reference face. A crossing of two edges slides along both: the
normal velocity of the material points is the rate of its gap where the faces are parallel, and else up to their angle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.contact.geometry.closed_forms import Touch, axes_of
from whippletree.contact.geometry.shapes import Box
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import Pose, cross

NOWHERE = 1e9
"""m: the gap of a slot that is not in use."""

BESIDE_BOX = 1e-9
"""m: what is beside a face by no more than this counts as over it."""

PARALLEL = 2e-2
"""Sine of the angle between two edges below which they have no common normal of their own."""

CLEARLY_CROSSING = 1e-2
"""Share of the smallest half side by which two edges must be farther apart than the faces to be what meets: faces that
meet at a small angle have the same crossings among their corners."""


class _Face(NamedTuple):
    """A rectangle: centre, outward normal, two sides as unit vectors with their half lengths."""

    centre: Array
    normal: Array
    u: Array
    w: Array
    hu: Any
    hw: Any


def box_on_box(first: Box, second: Box, X: Pose, Y: Pose) -> list[Touch]:
    """The candidates of two boxes: 8 of the incident edges, 4 reference corners, 1 crossing of edges."""
    d = X.p - Y.p
    depths = [_separation(d, axis, X, Y, first, second) for axis in (*X.R.T, *Y.R.T)]
    mine, ours = largest_of_three(depths[:3])
    other, theirs = largest_of_three(depths[3:])
    edge = _edges(first, second, X, Y, d)
    face_gap = select(less(ours, theirs), theirs, ours)
    smallest = _smallest([*first.half, *second.half])
    crossed = less(face_gap + CLEARLY_CROSSING * smallest, edge[0])
    # the second box is the reference only if it is better by more than rounding, so that the choice is stable
    swapped = less(ours + BESIDE_BOX, theirs)
    reference_of_first = _face(first, X, mine, -d)
    reference_of_second = _face(second, Y, other, d)
    reference = _choose_face(swapped, reference_of_second, reference_of_first)
    incident = _choose_face(
        swapped, _facing(first, X, reference_of_second.normal), _facing(second, Y, reference_of_first.normal)
    )
    normal = vector(*[select(swapped, x, -x) for x in reference.normal])
    axes = axes_of(normal)
    touches = []
    for point, height, exists in (*_clip_edges(reference, incident), *_inside(reference, incident)):
        here = both(exists, negated(crossed))
        # on the first box: the incident point itself, or its foot on the reference face
        foot = vector(*[select(swapped, p, p - height * n) for p, n in zip(point, reference.normal, strict=True)])
        touches.append(Touch(select(here, height, NOWHERE), foot, axes))
    gap, point, n = edge
    touches.append(Touch(select(crossed, gap, NOWHERE), point, axes_of(n)))
    return touches


def boxes_at_least_apart(first: Box, second: Box, X: Pose, Y: Pose) -> Any:
    """A distance that two boxes have at least, m: the largest along the normal of one of their faces.

    The least of their gaps may be more: boxes whose faces lie beside each other have no candidates at all, and where
    they overlap in part, the lowest corner may be beside.
    """
    return largest([_separation(X.p - Y.p, axis, X, Y, first, second) for axis in (*X.R.T, *Y.R.T)])


def _separation(d: Array, axis: Array, X: Pose, Y: Pose, first: Box, second: Box) -> Any:
    """How far the boxes are apart along a unit vector; d from the second centre to the first."""
    reach = sum(h * abs(axis @ a) for h, a in zip(first.half, X.R.T, strict=True))
    reach = reach + sum(h * abs(axis @ b) for h, b in zip(second.half, Y.R.T, strict=True))
    return abs(axis @ d) - reach


def largest_of_three(values: list[Any]) -> tuple[list[Any], Any]:
    """For each of three values the condition that it is the largest (the first of equals), and that value."""
    a, b, c = values
    second = less(a, b)
    ab = select(second, b, a)
    third = less(ab, c)
    return [both(negated(second), negated(third)), both(second, negated(third)), third], select(third, c, ab)


def _pick(which: list[Any], values: list[Any]) -> Any:
    return select(which[0], values[0], select(which[1], values[1], values[2]))


def _pick_vector(which: list[Any], vectors: list[Array]) -> Array:
    return vector(*[_pick(which, [v[i] for v in vectors]) for i in range(3)])


def _face(box: Box, X: Pose, which: list[Any], towards: Array) -> _Face:
    """The one of the two faces across an axis that looks towards a direction."""
    a, b, c = X.R.T
    axis = _pick_vector(which, [a, b, c])
    outward = less(axis @ towards, 0)
    normal = vector(*[select(outward, -x, x) for x in axis])
    half = _pick(which, list(box.half))
    u, w = _pick_vector(which, [b, c, a]), _pick_vector(which, [c, a, b])
    hu, hw = (
        _pick(which, [box.half[1], box.half[2], box.half[0]]),
        _pick(which, [box.half[2], box.half[0], box.half[1]]),
    )
    return _Face(X.p + half * normal, normal, u, w, hu, hw)


def _facing(box: Box, X: Pose, normal: Array) -> _Face:
    """The face of a box that looks most against a normal."""
    which, _ = largest_of_three([abs(axis @ normal) for axis in X.R.T])
    return _face(box, X, which, -normal)


def _choose_face(condition: Any, one: _Face, other: _Face) -> _Face:
    parts: list[Any] = []
    for a, b in zip(one, other, strict=True):
        parts.append(
            vector(*[select(condition, x, y) for x, y in zip(a, b)]) if np.ndim(a) else select(condition, a, b)
        )
    return _Face(*parts)


def _clip_edges(reference: _Face, incident: _Face) -> list[tuple[Array, Any, Any]]:
    """Point, height and existence of where each incident edge begins inside the reference, and where it leaves it.

    An edge that ends inside has its end as the beginning of the next.
    """
    corners = []
    for s, t in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        point = incident.centre + s * incident.hu * incident.u + t * incident.hw * incident.w
        arm = point - reference.centre
        corners.append((point, arm @ reference.u, arm @ reference.w, arm @ reference.normal))
    found = []
    for (p, x, y, z), (q, x1, y1, z1) in zip(corners, corners[1:] + corners[:1], strict=True):
        starts, ends = zip(_within(x, x1 - x, reference.hu), _within(y, y1 - y, reference.hw), strict=True)
        start, end = _largest([*starts, 0]), _smallest([*ends, 1])
        exists = negated(less(end, start))
        leaves = both(exists, less(end, 1))
        # what does not exist is somewhere on the edge all the same: a point far away would have any velocity
        for share, here in ((_smallest([start, 1]), exists), (_largest([end, 0]), leaves)):
            found.append((p + share * (q - p), z + share * (z1 - z), here))
    return found


def _within(x: Any, dx: Any, half: Any) -> tuple[Any, Any]:
    """The part of a way x + t dx that is within ± half: from t to t, nothing if the first is larger."""
    reach = half + BESIDE_BOX
    moves = less(0, abs(dx))
    rate = 1 / select(moves, dx, 1)
    a, b = (-reach - x) * rate, (reach - x) * rate
    turned = less(b, a)
    outside = less(reach, abs(x))
    first = select(moves, select(turned, b, a), select(outside, NOWHERE, -NOWHERE))
    last = select(moves, select(turned, a, b), select(outside, -NOWHERE, NOWHERE))
    return first, last


def _inside(reference: _Face, incident: _Face) -> list[tuple[Array, Any, Any]]:
    """Points of the incident face over the corners of the reference: point, height and existence."""
    arm = incident.centre - reference.centre
    cx, cy = arm @ reference.u, arm @ reference.w
    ex, ey = incident.u @ reference.u, incident.u @ reference.w
    fx, fy = incident.w @ reference.u, incident.w @ reference.w
    rate = 1 / (ex * fy - ey * fx)
    found = []
    for s, t in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        x, y = s * reference.hu - cx, t * reference.hw - cy
        alpha, beta = (x * fy - y * fx) * rate, (ex * y - ey * x) * rate
        within = both(less(abs(alpha), incident.hu - BESIDE_BOX), less(abs(beta), incident.hw - BESIDE_BOX))
        point = incident.centre + alpha * incident.u + beta * incident.w
        found.append((point, (point - reference.centre) @ reference.normal, within))
    return found


def _edges(first: Box, second: Box, X: Pose, Y: Pose, d: Array) -> tuple[Any, Array, Array]:
    """The one of the nine pairs of edges that is farthest apart: gap, point on the first box, and normal."""
    best: tuple[Any, ...] = (-NOWHERE, vector(0, 0, 0), vector(0, 0, 1))
    for i in range(3):
        for j in range(3):
            found = _edge_pair(first, second, X, Y, d, i, j)
            better = less(best[0], found[0])
            point, normal = (
                vector(*[select(better, x, y) for x, y in zip(found[k], best[k], strict=True)]) for k in (1, 2)
            )
            best = (select(better, found[0], best[0]), point, normal)
    return best[0], best[1], best[2]


def _edge_pair(first: Box, second: Box, X: Pose, Y: Pose, d: Array, i: int, j: int) -> tuple[Any, Array, Array]:
    a, b = X.R[:, i], Y.R[:, j]
    common = cross(a, b)
    square = common @ common
    askew = less(PARALLEL * PARALLEL, square)
    rate = 1 / sqrt(select(askew, square, 1))
    away = select(less(common @ d, 0), -rate, rate)
    n = away * common
    p, q = X.p, Y.p
    for k in range(3):
        if k != i:
            p = p + select(less(X.R[:, k] @ n, 0), first.half[k], -first.half[k]) * X.R[:, k]
        if k != j:
            q = q + select(less(Y.R[:, k] @ n, 0), -second.half[k], second.half[k]) * Y.R[:, k]
    # on the first edge where it is nearest to the second
    along = cross(q - p, b) @ common / select(askew, square, 1)
    return select(askew, n @ (p - q), -NOWHERE), p + along * a, n


def _largest(values: list[Any]) -> Any:
    found = values[0]
    for x in values[1:]:
        found = select(less(found, x), x, found)
    return found


def _smallest(values: list[Any]) -> Any:
    found = values[0]
    for x in values[1:]:
        found = select(less(x, found), x, found)
    return found
