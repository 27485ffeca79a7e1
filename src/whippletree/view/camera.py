"""Where to look from: straight at the plane of a planar mechanism, from above the side at others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import Model
from whippletree.view.pose_series import Moves

AZIMUTH, ELEVATION = np.deg2rad(-60.0), np.deg2rad(22.0)
"""Of the eye around a mechanism in space."""

PARALLEL_AXES = 1e-6
"""How far, as a sine, axes of a planar mechanism may be from parallel."""


class Camera(NamedTuple):
    """An eye far away: three unit directions of the world and the point that is looked at."""

    right: Array
    up: Array
    back: Array
    """Towards the eye."""
    target: Array
    planar: bool
    """Whether the mechanism moves in the plane of the picture."""
    vertical: Array
    """Against gravity: what a reader calls up."""

    def project(self, points: Array) -> Array:
        """Points (..., 3) as (right, up, towards the eye) from the target, (..., 3)."""
        return np.asarray((points - self.target) @ np.stack([self.right, self.up, self.back], axis=1))

    def axis_coordinates(self, points: Array) -> Array:
        """Coordinates on axes, (..., 3): coordinates of the world for a planar mechanism, else as :meth:`project`."""
        middle = self.target @ np.stack([self.right, self.up, self.back], axis=1) if self.planar else np.zeros(3)
        return self.project(points) + middle


def camera_for(moves: Moves, target: Array) -> Camera:
    """The view that suits a model best."""
    vertical = against_gravity(moves.model)
    normal = plane_normal(moves)
    if normal is not None:
        # a horizontal plane is seen from above, y up
        level = abs(normal @ vertical) > 0.5
        up = _square(np.array([0.0, 1.0, 0.0]) if level else vertical, normal)
        if not level and np.cross(up, normal)[int(np.argmax(np.abs(np.cross(up, normal))))] < 0:
            normal = -normal
        return Camera(np.cross(up, normal), up, normal, target, True, up)
    side = _square(np.array([1.0, 0.0, 0.0]) if abs(vertical[0]) < 0.9 else np.array([0.0, 1.0, 0.0]), vertical)
    ahead = np.cross(vertical, side)
    level_back = np.cos(AZIMUTH) * side + np.sin(AZIMUTH) * ahead
    back = np.cos(ELEVATION) * level_back + np.sin(ELEVATION) * vertical
    right = np.cross(vertical, back)
    right = right / np.linalg.norm(right)
    return Camera(right, np.cross(back, right), back, target, False, vertical)


def against_gravity(model: Model) -> Array:
    """The direction up; z where there is no gravity."""
    gravity = model.gravity.astype(float)
    strength = float(np.linalg.norm(gravity))
    return -gravity / strength if strength > 0 else np.array([0.0, 0.0, 1.0])


def plane_normal(moves: Moves) -> Array | None:
    """The normal of the plane that every body moves in; None for a mechanism in space.

    All turning axes are parallel to it and all slides square to it.
    """
    turning, sliding = [], []
    for k, joint in enumerate(moves.model.joints):
        axis = moves.joint(k)[0, :3, :3] @ joint.axis.astype(float)
        if joint.kind in ("revolute", "planar"):
            turning.append(axis)
        elif joint.kind == "prismatic":
            sliding.append(axis)
        elif joint.kind != "weld":
            return None
    if not turning:
        return None
    normal = turning[0]
    parallel = all(np.linalg.norm(np.cross(axis, normal)) < PARALLEL_AXES for axis in turning)
    square = all(abs(axis @ normal) < PARALLEL_AXES for axis in sliding)
    return np.asarray(normal) if parallel and square else None


def _square(direction: Array, axis: Array) -> Array:
    """The unit direction closest to a given one that is square to an axis."""
    rest = direction - (direction @ axis) * axis
    return np.asarray(rest / np.linalg.norm(rest))
