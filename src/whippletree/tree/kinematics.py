"""Where frames are and how they move: poses, Jacobians, twists and accelerations of any frame.

A frame's twist and Jacobian are in its own axes (angular part first); its pose is in the world. Only the path from the
frame to the base is walked, so these functions index the tree and are unrolled; a recorder of loops sweeps over all
bodies instead where the path is long. With ``base``, a node that the
frame hangs on, everything is relative to that node instead of the world: joints above it do not appear at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial import Pose
from whippletree.spatial.modal import PortWeight
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


class Branching(Protocol):
    """Knowledge of a tree that the walk along a path needs, or of a part of one whose base stands for the world."""

    @property
    def parents(self) -> Sequence[int]:
        """The parent of each node, −1 for the base of all; parents have smaller numbers."""

    @property
    def grounded(self) -> bool:
        """Whether the base of all is the world, so that motions seen from there are those of the links."""

    def path(self, node: int, base: int = -1) -> list[int]:
        """The node and its ancestors below ``base``, tip first."""

    def meeting(self, nodes: Sequence[int]) -> int:
        """The lowest node that carries all of these as a rigid part."""


def pose(tree: Branching, links: Field, place: Place, base: int = -1) -> Pose:
    """The pose of a frame in the world, or in the node ``base``."""
    X: Any = place.pose
    for k in tree.path(place.node, base):
        X = links[k].X @ X
    return X.pose if isinstance(X, PortWeight) else X


def jacobian(tree: Skeleton, links: Field, place: Place) -> Array:
    """J (6, nv) with J v the twist of the frame, in the frame's axes: the row of φ* H* that belongs to it."""
    J = zeros(6, tree.model.nv)
    for k, block in jacobian_blocks(tree, links, place).items():
        J[:, tree.v_slices[k]] = block
    return J


def jacobian_blocks(tree: Branching, links: Field, place: Place, base: int = -1) -> dict[int, Array]:
    """The blocks (6, n) of J that can differ from zero, by node."""
    blocks = {}
    X: Any = place.pose
    for k in tree.path(place.node, base):
        H = links[k].H
        blocks[k] = zeros(6, H.shape[1])
        for i in range(H.shape[1]):
            blocks[k][:, i] = X.motion(H[:, i])
        X = links[k].X @ X
    return blocks


def jacobian_bias(tree: Branching, links: Field, place: Place, base: int = -1) -> Array:
    """J̇ v (6,): the frame's spatial acceleration at θ̈ = 0, in its axes, without gravity.

    Spatial acceleration is the rate of the twist as seen in the moving frame; :func:`classical` turns it into the
    acceleration of the frame's origin.
    """
    return relative_motion(tree, links, place, base)[1]


def twist(tree: Branching, links: Field, place: Place, base: int = -1) -> Array:
    """The twist (6,) of a frame, in its axes."""
    if place.node == base:
        return zeros(6)
    absolute = base < 0 and tree.grounded
    return place.pose.motion(links[place.node].V) if absolute else relative_motion(tree, links, place, base)[0]


def relative_motion(tree: Branching, links: Field, place: Place, base: int = -1) -> tuple[Array, Array]:
    """The twist (6,) of a frame and its spatial acceleration (6,) at θ̈ = 0, in its axes, as seen from ``base``."""
    V, bias = zeros(6), zeros(6)
    absolute = base < 0 and tree.grounded
    for k in reversed(tree.path(place.node, base)):
        link = links[k]
        # seen from the world both are known; a node in between sees less of them
        V = link.V if absolute else link.X.motion(V) + link.slip
        turned = link.a if absolute else link.turning(V)
        bias = link.X.motion(bias) + turned
    return place.pose.motion(V), place.pose.motion(bias)
