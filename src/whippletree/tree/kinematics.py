"""Where frames are and how they move: poses, Jacobians, twists and accelerations of any frame.

A frame's twist and Jacobian are in its own axes (angular part first); its pose is in the world. Only the path from the
frame to the base is walked, so these functions index the tree and are always unrolled.
"""

from __future__ import annotations

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


def pose(tree: Skeleton, links: Field, place: Place) -> Pose:
    """The pose of a frame in the world."""
    X = place.pose
    for k in tree.path(place.node):
        X = links[k].X @ X
    return X


def jacobian(tree: Skeleton, links: Field, place: Place) -> Array:
    """J (6, nv) with J v the twist of the frame, in the frame's axes: the row of φ* H* that belongs to it."""
    J = zeros(6, tree.model.nv)
    X = place.pose
    for k in tree.path(place.node):
        part = tree.v_slices[k]
        for i in range(part.stop - part.start):
            J[:, part.start + i] = X.motion(links[k].H[:, i])
        X = links[k].X @ X
    return J


def jacobian_bias(tree: Skeleton, links: Field, place: Place) -> Array:
    """J̇ v (6,): the frame's spatial acceleration at θ̈ = 0, in its axes, without gravity.

    Spatial acceleration is the rate of the twist as seen in the moving frame; :func:`classical` turns it into the
    acceleration of the frame's origin.
    """
    bias = zeros(6)
    for k in reversed(tree.path(place.node)):
        bias = links[k].X.motion(bias) + links[k].a
    return place.pose.motion(bias)


def twist(tree: Skeleton, links: Field, place: Place) -> Array:
    """The twist (6,) of a frame, in its axes."""
    return place.pose.motion(links[place.node].V) if place.node >= 0 else zeros(6)
