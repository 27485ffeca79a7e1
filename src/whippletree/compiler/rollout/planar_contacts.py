"""Contacts that stay in the plane of a mechanism's motions, whatever its coordinates.

Where all bodies move in one plane, a contact whose normal lies in it moves nothing by an impulse across it: it has a
normal and one tangent. The normal of two round shapes is along what lies between their axes at its shortest, and that
is unique as long as these do not meet. So it is in the plane where both shapes are mirrored by it; and that of a
half-space is where the half-space stands upright on it.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.motion_space import OUT_OF_PLANE, MotionSpace, poses_at_home
from whippletree.contact.geometry.shapes import Ball, Capsule, HalfSpace, Shape
from whippletree.contact.time_step import ContactBlocks
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Skeleton


def touch_in_plane(tree: Skeleton, blocks: ContactBlocks, motions: MotionSpace) -> bool:
    """Whether all contacts with the world have their normals in the plane of a tree's motions; those of links with each
    other are not looked at.
    """
    across = np.asarray(motions.basis[:3, 0], dtype=float)
    homes = [*poses_at_home(tree.model, tree), Pose(np.eye(3), np.zeros(3))]
    for pair in blocks.contacts.pairs:
        places = pair.places(tree)
        if min(place.node for place in places) >= 0:
            continue
        poses = [homes[place.node] @ place.pose for place in places]
        if not _normal_is_in_plane(pair.shapes, poses, across):
            return False
    return True


def _normal_is_in_plane(shapes: tuple[Shape, Shape], poses: list[Pose], across: Array) -> bool:
    for shape, X in zip(shapes, poses, strict=True):
        if isinstance(shape, HalfSpace):
            return bool(abs(X.R[:, 2] @ across) <= OUT_OF_PLANE)
    apart = abs((poses[0].p - poses[1].p) @ across)
    size = sum(float(np.linalg.norm(X.p)) for X in poses)
    mirrored = all(_is_mirrored(shape, X.R, across) for shape, X in zip(shapes, poses, strict=True))
    return mirrored and bool(apart <= OUT_OF_PLANE * size)


def _is_mirrored(shape: Shape, R: Array, across: Array) -> bool:
    """Whether the plane through a round shape's middle mirrors it."""
    if isinstance(shape, Ball):
        return True
    tilt = abs(float(R[:, 2] @ across))
    return isinstance(shape, Capsule) and min(tilt, abs(1 - tilt)) <= OUT_OF_PLANE
