"""Shapes on a terrain, a height that a function or a grid gives: candidates as closed forms on any scalar.

    ball, point      1       the ball
    capsule          3       the balls at its ends and at its middle
    box              8       its corners
    mesh                     its corners up to 16; of more, the lowest of each octant along the slope's normal
    cylinder         8       of each rim the point that is nearest, on which it rolls, and three that are fixed to it
    ellipsoid        1       the point that is nearest

What lies between the candidates is not seen: a peak below the middle of a box's face, a ridge across a capsule between
its three balls.
"""

from __future__ import annotations

from typing import Any

from whippletree.contact.narrow import Cornered, Touch, corners, rim_points
from whippletree.contact.shapes import Capsule, Cylinder, Ellipsoid, HeightField, Hull, Terrain
from whippletree.contact.terrain import Rolling, Surface, nearest_of_rolling, nearest_on_terrain
from whippletree.spatial import Array, Pose, vector


def corners_on_terrain(first: Cornered, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """Balls over a terrain: the shape itself, its ends or its corners."""
    surface = second.surface
    return [_ball_on_terrain(X.point(centre), radius, surface, P) for centre, radius in _balls(first, surface, X, P)]


def cylinder_on_terrain(first: Cylinder, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """Of each rim the nearest point, and the three that are fixed to it."""
    touches = []
    for end in (first.half, -first.half):
        touches.append(_rolling_on_terrain(vector(0, 0, end), (first.radius, first.radius, 0), second.surface, X, P))
        fixed = rim_points(first.radius, end)
        touches += [_ball_on_terrain(X.point(point), 0, second.surface, P) for point in fixed]
    return touches


def ellipsoid_on_terrain(first: Ellipsoid, second: Terrain | HeightField, X: Pose, P: Pose) -> list[Touch]:
    """The point whose normal is opposite to the terrain's at its foot."""
    return [_rolling_on_terrain(vector(0, 0, 0), first.radii, second.surface, X, P)]


def _balls(shape: Cornered, surface: Surface, X: Pose, P: Pose) -> list[tuple[Array, Any]]:
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
