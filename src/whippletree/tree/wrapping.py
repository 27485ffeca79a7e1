"""Tendons around spheres and cylinders: where the shortest path touches them, on any scalar.

In the plane of its two ends and the centre of a sphere, or across the axis of a cylinder (which has no ends here), the
obstacle is a circle, and the path two tangents and an arc. With the ends a and b at distances d, e from the centre,
φ the angle from a to b, and cos α = r / d, cos β = r / e,

    arc one way round      φ − α − β
    arc the other way      2 π − φ − α − β

Along the axis of a cylinder the path climbs evenly: unrolled, it is straight. Of the paths beside it, it is the
shortest, so that its length changes as if the points of contact were fixed to the obstacle.

Without a *side* the tendon goes round only if it would pass through the obstacle, and the shorter way; with one, on
that side of it, wherever it is. A side that is inside the obstacle asks the tendon to pass through it: then the path is
straight if that does, and else has a corner on the circle, at the point from which both ends are seen under the same
angle (Alhazen's problem). MuJoCo's tendons, whose lengths the tests compare, follow the same rules.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import atan2, cos, less, maximum, minimum, negated, select, sin, sqrt
from whippletree.spatial import cross

CORNER_STEPS = 8
"""Steps of Newton's method for the corner of a path inside an obstacle, each within the ends known so far. Of 1700
random paths the worst was exact to rounding after 6."""

FLAT_TRIANGLE = 1e-24
"""Square of the sine of the angle between the two ends of a path, seen from the centre of a sphere, up to which they
lie on one line with it: any plane through that line will do."""


class Wrapping(NamedTuple):
    """How a path from one point to another goes round an obstacle, in the obstacle's frame."""

    touches: Any
    """Condition that it does; else it is straight, and the rest has no meaning."""
    first: Array
    """Where it meets the surface, (3,), m."""
    second: Array
    """Where it leaves it, (3,), m."""
    length: Any
    """Length of the part on the surface, m."""


class _Way(NamedTuple):
    """Tangent points (2,) and the arc between them, rad."""

    first: Array
    second: Array
    angle: Any


def around_obstacle(
    kind: str, a: Array, b: Array, radius: Any, side: Array | None, inside: bool | None = None
) -> Wrapping:
    """A path from a to b (3,), in the frame of an obstacle, a ``sphere`` or a ``cylinder`` about z.

    Args:
        kind: of the obstacle.
        a, b: the ends, m.
        radius: of the obstacle, m.
        side: (3,), m; None: the shorter way. It is inside the obstacle where it is nearer than the radius to the
            middle, for a cylinder, too.
        inside: whether it is, where that is known of numbers that are not.
    """
    way = _around_sphere if kind == "sphere" else _around_cylinder
    if side is None:
        return way(a, b, radius, None, inside=False)
    is_inside = less(side @ side, radius * radius) if inside is None else inside
    if isinstance(is_inside, (bool, np.bool_)):
        return way(a, b, radius, side, inside=bool(is_inside))
    one, other = (way(a, b, radius, side, inside=case) for case in (True, False))
    first, second = (
        vector(*[select(is_inside, x, y) for x, y in zip(p, q, strict=True)])
        for p, q in ((one.first, other.first), (one.second, other.second))
    )
    touches = less(0, select(is_inside, select(one.touches, 1, -1), select(other.touches, 1, -1)))
    return Wrapping(touches, first, second, select(is_inside, one.length, other.length))


def _around_sphere(a: Array, b: Array, radius: Any, side: Array | None, *, inside: bool) -> Wrapping:
    square = a @ a
    x = a / sqrt(_positive(square, 1))
    normal = cross(a, b)
    flat = less(normal @ normal, FLAT_TRIANGLE * square * (b @ b))
    # across a: any direction, made with the axis that is least along it
    upright = less(abs(x[2]), abs(x[0]))
    other = vector(select(upright, 0, 1), 0, select(upright, 1, 0))
    across = cross(x, other)
    n = vector(*[select(flat, u, w) for u, w in zip(across, normal, strict=True)])
    y = cross(n / sqrt(_positive(n @ n, 1)), x)
    plane = np.stack([x, y])
    touches, way = _in_plane(plane @ a, plane @ b, radius, None if side is None else plane @ side, inside)
    return Wrapping(touches, way.first @ plane, way.second @ plane, radius * way.angle)


def _around_cylinder(a: Array, b: Array, radius: Any, side: Array | None, *, inside: bool) -> Wrapping:
    touches, way = _in_plane(a[:2], b[:2], radius, None if side is None else side[:2], inside)
    before, arc, after = _length(way.first - a[:2]), radius * way.angle, _length(b[:2] - way.second)
    slope = (b[2] - a[2]) / _positive(before + arc + after, 1)
    first, second = a[2] + slope * before, b[2] - slope * after
    rise = second - first
    return Wrapping(touches, vector(*way.first, first), vector(*way.second, second), _root(arc * arc + rise * rise))


def _in_plane(a: Array, b: Array, radius: Any, side: Array | None, inside: bool) -> tuple[Any, _Way]:
    """Whether a path from a to b (2,) touches a circle about the origin, and how."""
    r2 = radius * radius
    d2, e2 = a @ a, b @ b
    outside = _all(less(r2, d2), less(r2, e2))
    along = b - a
    share = minimum(maximum(-(a @ along) / _positive(along @ along, 1), 0), 1)
    nearest = a + share * along
    misses = less(r2, nearest @ nearest)
    d, e = _positive(d2 - r2, 1), _positive(e2 - r2, 1)  # squares of the tangents' lengths
    if inside:
        corner = _corner(a, b, radius)
        return _all(outside, misses), _Way(corner, corner, 0)
    turn = atan2(_determinant(a, b), a @ b)
    turn = select(less(turn, 0), turn + 2 * math.pi, turn)
    free = atan2(sqrt(d), radius) + atan2(sqrt(e), radius)
    # both points on one ray from the centre: dividing by the squares of their distances is safe outside
    da, db = _positive(d2, 1), _positive(e2, 1)
    ways = []
    for sign, angle in ((1, turn - free), (-1, 2 * math.pi - turn - free)):
        first = (r2 * a + sign * radius * sqrt(d) * _turn_right(a)) / da
        second = (r2 * b - sign * radius * sqrt(e) * _turn_right(b)) / db
        ways.append(_Way(first, second, select(less(angle, 0), angle + 2 * math.pi, angle)))
    if side is None:
        return _all(outside, negated(misses)), _choose_way(less(ways[0].angle, ways[1].angle), ways[0], ways[1])
    # the direct way is the wrong one where it crosses the ray that is opposite to the side
    sense = _determinant(a, b)
    wrong = _all(less(sense * _determinant(a, side), 0), less(sense * _determinant(side, b), 0))
    forwards = less(0, select(less(sense, 0), select(wrong, 1, -1), select(wrong, -1, 1)))
    touches = _all(outside, less(0, select(misses, select(wrong, 1, -1), 1)))
    return touches, _choose_way(forwards, ways[0], ways[1])


def _corner(a: Array, b: Array, radius: Any) -> Array:
    """The point (2,) of a circle through which the way from a to b, which passes it, is shortest.

    With the angle θ between the circle's normal and both rays, the law of sines in the triangles of the centre, the
    point and an end gives φ = 2 θ − asin(r sin θ / d) − asin(r sin θ / e). That grows with θ, more and more, so that
    Newton's method comes down from θ = π / 2.
    """
    shares = [radius / _positive(_length(x), radius) for x in (a, b)]
    shares = [select(less(share, 1), share, 1 / 2) for share in shares]
    turn = atan2(_determinant(a, b), a @ b)
    sign = select(less(turn, 0), -1, 1)
    c, s = 0, 1
    theta: Any = math.pi / 2
    for _ in range(CORNER_STEPS):
        sines = [share * s for share in shares]
        cosines = [sqrt(1 - x * x) for x in sines]
        excess = 2 * theta - sum(atan2(x, y) for x, y in zip(sines, cosines, strict=True)) - sign * turn
        slope = 2 - sum(share * c / y for share, y in zip(shares, cosines, strict=True))
        theta = theta - excess / slope
        c, s = cos(theta), sin(theta)
    own = shares[0] * s
    psi = theta - atan2(own, sqrt(1 - own * own))
    x = a / _positive(_length(a), 1)
    return np.asarray(radius * (cos(psi) * x + sign * sin(psi) * _turn_right(x)))


def _choose_way(condition: Any, one: _Way, other: _Way) -> _Way:
    points = [
        vector(*[select(condition, x, y) for x, y in zip(p, q, strict=True)])
        for p, q in ((one.first, other.first), (one.second, other.second))
    ]
    return _Way(points[0], points[1], select(condition, one.angle, other.angle))


def _all(*conditions: Any) -> Any:
    """Whether all of some conditions hold."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = less(0, select(found, select(condition, 1, 0), 0))
    return found


def _positive(x: Any, otherwise: Any) -> Any:
    """x where that is positive: the guard of a root or a denominator on a way that is not taken."""
    return select(less(0, x), x, otherwise)


def _root(square: Any) -> Any:
    some = less(0, square)
    return select(some, sqrt(select(some, square, 1)), 0)


def _length(x: Array) -> Any:
    return _root(x @ x)


def _turn_right(x: Array) -> Array:
    """A vector (2,) turned by a right angle."""
    return vector(-x[1], x[0])


def _determinant(x: Array, y: Array) -> Any:
    return x[0] * y[1] - x[1] * y[0]
