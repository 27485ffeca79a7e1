"""Which pairs of shapes have a closed form, and which one."""

from __future__ import annotations

from typing import Any

from whippletree.contact.narrow import (
    Touch,
    Touching,
    ball_on_ball,
    ball_on_box,
    ball_on_capsule,
    ball_on_cylinder,
    capsule_on_capsule,
    corners_in_cavity,
    corners_on_plane,
    ellipsoid_on_plane,
    reversed_touch,
)
from whippletree.contact.on_terrain import corners_on_terrain, cylinder_on_terrain, ellipsoid_on_terrain
from whippletree.contact.shapes import (
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
from whippletree.spatial import Pose

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
    direct = CLOSED_FORMS.get((type(first), type(second)))
    if direct is not None:
        return direct
    swapped = CLOSED_FORMS.get((type(second), type(first)))
    if swapped is None:
        return None

    def turned(a: Any, b: Any, X: Pose, Y: Pose) -> list[Touch]:
        return [reversed_touch(touch) for touch in swapped(b, a, Y, X)]

    return turned
