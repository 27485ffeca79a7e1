"""Where two shapes are nearest, as closed forms on any scalar: gap, point and axes of every candidate of a pair.

Each pair of kinds has a fixed number of candidates, whatever the state: a box has its eight corners over a half-space,
also the four that look away from it. So nothing branches on a value, identities are stable, and a batch of states
compiles. Signs: the normal points from the second shape to the first; the gap is positive while they are apart.

The normal row of a contact's Jacobian is the rate of the gap because each point here is either fixed to its body (a
corner) or a nearest point (where moving along the surface does not change the distance, to first order).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.lanes import Lanes, plain
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.contact.geometry.shapes import (
    Ball,
    Box,
    Capsule,
    Cavity,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    HeightField,
    Hull,
    Shape,
    Terrain,
)
from whippletree.contact.geometry.terrain import EDGE_ON, Rolling, Surface, nearest_of_rolling, nearest_on_terrain
from whippletree.spatial import Pose, cross

BACK = -0.9
"""Height (cosine to y) of a normal below which its tangents are built from the opposite pole."""


class Touch(NamedTuple):
    """One candidate, in the world: gap in m, point (3,) on the first shape, axes (3, 3): normal and two tangents."""

    gap: Any
    point: Array
    axes: Array


Cornered: TypeAlias = Ball | Capsule | Cylinder | Box | Hull
Touching: TypeAlias = Callable[[Any, Any, Pose, Pose], list[Touch]]


# --- against a half-space --------------------------------------------------------------------------------------------


def corners_on_plane(first: Cornered, second: HalfSpace, X: Pose, P: Pose) -> list[Touch]:
    """Balls over a plane: the corners of a shape."""
    down = -(X.R.T @ P.R[:, 2])
    return [_ball_on_plane(X.point(centre), radius, P) for centre, radius in corners(first, down)]


def corners(shape: Cornered, down: Array) -> list[tuple[Array, Any]]:
    """Balls of a shape that may touch something below: centre (3,) in the shape's frame and radius.

    The shape itself, the ends of a capsule, points on the rims of a cylinder, the corners of a box (radius 0). A hull
    with many corners has the lowest one of each octant.
    """
    match shape:
        case Ball(radius):
            return [(vector(0, 0, 0), radius)]
        case Capsule(radius, half):
            return [(vector(0, 0, end), radius) for end in (half, -half)]
        case Box((x, y, z)):
            return [(vector(a, b, c), 0) for a in (x, -x) for b in (y, -y) for c in (z, -z)]
        case Cylinder():
            return [(point, 0) for point in _rim_points(shape, down)]
    return [(_lowest(group, down), 0) for group in shape.groups]


def _rim_points(cylinder: Cylinder, down: Array) -> list[Array]:
    """The lowest point of each rim, on which a cylinder rolls, and three fixed points of it, on which it stands."""
    radius = cylinder.radius
    square = down[0] * down[0] + down[1] * down[1]
    tilted = less(EDGE_ON * EDGE_ON, square)
    scale = radius / sqrt(select(tilted, square, 1))
    lowest = (select(tilted, scale * down[0], radius), select(tilted, scale * down[1], 0))
    points = []
    for end in (cylinder.half, -cylinder.half):
        points += [vector(*lowest, end), *rim_points(radius, end)]
    return points


def rim_points(radius: Any, end: Any) -> list[Array]:
    """Three points fixed to a rim, on which a cylinder stands."""
    return [vector(radius * c, radius * s, end) for c, s in _THIRDS]


_THIRDS = ((1, 0), (-0.5, 0.75**0.5), (-0.5, -(0.75**0.5)))
"""Cosine and sine of three equal parts of a turn."""


def _lowest(points: Array, down: Array) -> Array:
    """The point that is farthest in a direction; of several, the first."""
    if len(points) == 1:
        return vector(*points[0].tolist())
    if isinstance(down[0], Lanes):
        return _lowest_on_lanes(points, down)
    found = vector(*map(float, points[0]))
    depth = found @ down
    for row in points[1:]:
        point = vector(*map(float, row))
        own = point @ down
        deeper = less(depth, own)
        depth = select(deeper, own, depth)
        found = vector(*[select(deeper, a, b) for a, b in zip(point, found, strict=True)])
    return found


def _lowest_on_lanes(points: Array, down: Array) -> Array:
    """The lowest point in one pass over all points and lanes: hulls of robots have hundreds of corners."""
    x, y, z = np.asarray(points, dtype=float).T[:, :, None]
    a, b, c = (np.atleast_1d(plain(d)) for d in down)
    deepest = (x * a + y * b + z * c).argmax(axis=0)
    return vector(*[Lanes(column[deepest, 0]) for column in (x, y, z)])


def ellipsoid_on_plane(first: Ellipsoid, second: HalfSpace, X: Pose, P: Pose) -> list[Touch]:
    """Where the normal is the plane's, m in the ellipsoid's axes: at −A² m / |A m| for half axes A."""
    m = X.R.T @ P.R[:, 2]
    stretched = vector(*[a * x for a, x in zip(first.radii, m, strict=True)])
    length = sqrt(stretched @ stretched)
    return [_ball_on_plane(X.point(vector(*[-a * x / length for a, x in zip(first.radii, stretched)])), 0, P)]


def _ball_on_plane(centre: Array, radius: Any, P: Pose) -> Touch:
    normal = P.R[:, 2]
    # the axes turn with the plane: normal z, tangents x and y of its frame
    axes = np.stack([normal, P.R[:, 0], P.R[:, 1]])
    return Touch(normal @ (centre - P.p) - radius, centre - radius * normal, axes)


# --- of balls and capsules --------------------------------------------------------------------------------------------


def ball_on_ball(first: Ball, second: Ball, X: Pose, Y: Pose) -> list[Touch]:
    """Along the line of centres; where they coincide, along y."""
    return [_balls(X.p, first.radius, Y.p, second.radius)]


def corners_in_cavity(first: Ball | Capsule | Box, second: Cavity, X: Pose, Y: Pose) -> list[Touch]:
    """The balls of a shape inside a hollow sphere: a convex shape reaches furthest from a point with one of them."""
    return [_ball_in_cavity(X.point(centre), radius, second, Y) for centre, radius in corners(first, vector(0, 0, 1))]


def _ball_in_cavity(centre: Array, radius: Any, cavity: Cavity, Y: Pose) -> Touch:
    distance, out = unit_or(centre - Y.p, vector(0, 1, 0))
    return Touch(cavity.radius - radius - distance, centre + radius * out, axes_of(-out))


def ball_on_capsule(first: Ball, second: Capsule, X: Pose, Y: Pose) -> list[Touch]:
    """Against the nearest ball of the capsule's axis."""
    axis = Y.R[:, 2]
    along = clamp(axis @ (X.p - Y.p), second.half)
    return [_balls(X.p, first.radius, Y.p + along * axis, second.radius)]


def ball_on_box(first: Ball, second: Box, X: Pose, Y: Pose) -> list[Touch]:
    """Against the nearest point of the box, or the nearest face for a centre inside."""
    c = Y.R.T @ (X.p - Y.p)
    normal, distance = _from_block(c, second.half)
    return [_from_surface(first, X, Y.R @ normal, distance)]


def ball_on_cylinder(first: Ball, second: Cylinder, X: Pose, Y: Pose) -> list[Touch]:
    """A ball against a cylinder: a rectangle in the plane of the cylinder's axis and the ball's centre."""
    c = Y.R.T @ (X.p - Y.p)
    radial, out = unit_or(vector(c[0], c[1]), vector(1, 0))
    (r, z), distance = _from_block(vector(radial, c[2]), (second.radius, second.half))
    return [_from_surface(first, X, Y.R @ vector(r * out[0], r * out[1], z), distance)]


def capsule_on_capsule(first: Capsule, second: Capsule, X: Pose, Y: Pose) -> list[Touch]:
    """The nearest balls of two axes; of parallel ones, the pair nearest to the middle of the first."""
    u, w, apart = X.R[:, 2], Y.R[:, 2], X.p - Y.p
    b, c, d = u @ w, u @ apart, w @ apart
    square = 1 - b * b
    crossing = less(EDGE_ON * EDGE_ON, square)
    s = clamp(select(crossing, (b * d - c) / select(crossing, square, 1), 0), first.half)
    t = clamp(b * s + d, second.half)
    s = clamp(b * t - c, first.half)
    return [_balls(X.p + s * u, first.radius, Y.p + t * w, second.radius)]


def _balls(a: Array, radius: Any, b: Array, other: Any) -> Touch:
    distance, normal = unit_or(a - b, vector(0, 1, 0))
    return Touch(distance - radius - other, a - radius * normal, axes_of(normal))


def _from_surface(ball: Ball, X: Pose, normal: Array, distance: Any) -> Touch:
    return Touch(distance - ball.radius, X.p - ball.radius * normal, axes_of(normal))


def _from_block(c: Array, half: Sequence[Any]) -> tuple[Array, Any]:
    """Unit normal and signed distance of a point from a block |xᵢ| ≤ halfᵢ; inside, those of the nearest face."""
    off = vector(*[x - clamp(x, h) for x, h in zip(c, half, strict=True)])
    outside = less(0, off @ off)
    distance, normal = unit_or(off, vector(*[0 for _ in half]))
    depth, face = _nearest_face(c, half)
    chosen = vector(*[select(outside, n, f) for n, f in zip(normal, face, strict=True)])
    return chosen, select(outside, distance, -depth)


def _nearest_face(c: Array, half: Sequence[Any]) -> tuple[Any, Array]:
    """Depth of a point below the nearest face of a block, and that face's outward normal."""
    depth: Any = None
    face = vector(*[0 for _ in half])
    for i, (x, h) in enumerate(zip(c, half, strict=True)):
        sign = select(less(x, 0), -1, 1)
        own = h - sign * x
        unit = vector(*[sign if k == i else 0 for k in range(len(face))])
        nearer = less(own, depth) if depth is not None else True
        depth = select(nearer, own, depth) if depth is not None else own
        face = vector(*[select(nearer, n, f) for n, f in zip(unit, face, strict=True)])
    return depth, face


# --- helpers ----------------------------------------------------------------------------------------------------------


def clamp(x: Any, limit: Any) -> Any:
    """x between −limit and limit."""
    return select(less(limit, x), limit, select(less(x, -limit), -limit, x))


def unit_or(d: Array, fallback: Array) -> tuple[Any, Array]:
    """Length and direction of a vector; 0 and the fallback for the zero vector."""
    square = d @ d
    exists = less(0, square)
    length = sqrt(select(exists, square, 1))
    return select(exists, length, 0), vector(*[select(exists, x / length, f) for x, f in zip(d, fallback)])


def axes_of(normal: Array) -> Array:
    """Rows normal, tangent 1, tangent 2: (y, x, −z) turned by the shortest way that brings y to the normal.

    For planar mechanisms the first tangent stays in the x–y plane. From normals near −y, where that way is not unique,
    the opposite pole is used: the tangents jump there, at the height ``BACK``.
    """
    x, y, z = normal
    sign = select(less(y, BACK), -1, 1)
    f = 1 / (1 + sign * y)
    first = vector(1 - x * x * f, -sign * x, -x * z * f)
    return np.stack([normal, first, cross(normal, first)])


def reversed_touch(touch: Touch) -> Touch:
    """This contact seen from the other shape: the point on its surface, the normal and one tangent reversed."""
    gap, point, (normal, first, second) = touch.gap, touch.point, touch.axes
    return Touch(gap, point - gap * normal, np.stack([-normal, first, -second]))


# --- Shapes on a terrain, a height that a function or a grid gives: candidates as closed forms on any scalar ----------
#     ball, point      1       the ball
#     capsule          3       the balls at its ends and at its middle
#     box              8       its corners
#     mesh                     its corners up to 16; of more, the lowest of each octant along the slope's normal
#     cylinder         8       of each rim the point that is nearest, on which it rolls, and three that are fixed to it
#     ellipsoid        1       the point that is nearest
#
# What lies between the candidates is not seen: a peak below the middle of a box's face, a ridge across a capsule
# between its three balls.


def corners_on_terrain(first: Cornered, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """Balls over a terrain: the shape itself, its ends or its corners."""
    surface = second.surface
    return [
        _ball_on_terrain(X.point(centre), radius, surface, P)
        for centre, radius in _balls_on_terrain(first, surface, X, P)
    ]


def cylinder_on_terrain(first: Cylinder, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """The nearest point of each rim, and the three that are fixed to it."""
    touches = []
    for end in (first.half, -first.half):
        touches.append(_rolling_on_terrain(vector(0, 0, end), (first.radius, first.radius, 0), second.surface, X, P))
        fixed = rim_points(first.radius, end)
        touches += [_ball_on_terrain(X.point(point), 0, second.surface, P) for point in fixed]
    return touches


def ellipsoid_on_terrain(first: Ellipsoid, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """The point whose normal is opposite to the terrain's at its foot."""
    return [_rolling_on_terrain(vector(0, 0, 0), first.radii, second.surface, X, P)]


def _balls_on_terrain(shape: Cornered, surface: Surface, X: Pose, P: Pose) -> list[tuple[Array, Any]]:
    """Centres (3,) in the shape's frame, and radii."""
    if isinstance(shape, Capsule):
        return [*corners(shape, vector(0, 0, -1)), (vector(0, 0, 0), shape.radius)]
    if not isinstance(shape, Hull):
        return corners(shape, vector(0, 0, -1))
    x, y, _ = P.R.T @ (X.p - P.p)
    jet = surface(x, y)
    return corners(shape, X.R.T @ P.R @ vector(jet.hx, jet.hy, -1))


def _ball_on_terrain(centre: Array, radius: Any, surface: Surface, P: Pose) -> Touch:
    foot, local = nearest_on_terrain(surface, P.R.T @ (centre - P.p))
    axes = local @ P.R.T
    return Touch(axes[0] @ (centre - P.point(foot)) - radius, centre - radius * axes[0], axes)


def _rolling_on_terrain(centre: Array, radii: tuple[Any, Any, Any], surface: Surface, X: Pose, P: Pose) -> Touch:
    rolling = Rolling(P.R.T @ (X.point(centre) - P.p), P.R.T @ X.R, radii)
    p, foot, local = nearest_of_rolling(surface, rolling)
    return Touch(local[0] @ (p - foot), P.point(p), local @ P.R.T)


# --- Which pairs of shapes have a closed form, and which one ----------------------------------------------------------


CLOSED_FORMS: dict[tuple[type[Shape], type[Shape]], Touching] = {
    **{(kind, HalfSpace): corners_on_plane for kind in (Ball, Capsule, Cylinder, Box, Hull)},
    **{(kind, ground): corners_on_terrain for kind in (Ball, Capsule, Box, Hull) for ground in (Terrain, HeightField)},
    **{(Cylinder, ground): cylinder_on_terrain for ground in (Terrain, HeightField)},
    **{(Ellipsoid, ground): ellipsoid_on_terrain for ground in (Terrain, HeightField)},
    (Ellipsoid, HalfSpace): ellipsoid_on_plane,
    **{(kind, Cavity): corners_in_cavity for kind in (Ball, Capsule, Box)},
    (Ball, Ball): ball_on_ball,
    (Ball, Capsule): ball_on_capsule,
    (Ball, Box): ball_on_box,
    (Ball, Cylinder): ball_on_cylinder,
    (Capsule, Capsule): capsule_on_capsule,
}
"""The closed form of each pair of kinds, in this order."""


def closed_form(first: Shape, second: Shape) -> Touching | None:
    """The candidates of two shapes, in whichever order their closed form is written; None if there is none."""
    return either_order(CLOSED_FORMS, first, second)


def either_order(
    forms: Mapping[tuple[type[Shape], type[Shape]], Touching], first: Shape, second: Shape
) -> Touching | None:
    """The form of two shapes in a table, in whichever order it is written there."""
    direct = forms.get((type(first), type(second)))
    if direct is not None:
        return direct
    swapped = forms.get((type(second), type(first)))
    if swapped is None:
        return None

    def turned(a: Any, b: Any, X: Pose, Y: Pose) -> list[Touch]:
        return [reversed_touch(touch) for touch in swapped(b, a, Y, X)]

    return turned
