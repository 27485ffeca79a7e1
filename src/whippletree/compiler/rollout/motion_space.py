"""Motions that the bodies of a tree can have, all six or the three of a plane, and screws of its velocities.

Motions and wrenches of a node are about its origin, in the axes of the world. Where all joints turn about one direction
n and slide across it, as in belts, chains and linkages, whatever the coordinates, every motion is

    (ω n, a x + b y)        x × y = n

and three numbers (ω, a, b) say it; of a wrench, the moment about n and the force in the plane are all that moves a
body, and an inertia is (3, 3). Recursions over such a tree take a third of the operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import Model
from whippletree.spatial import Pose, cross
from whippletree.spatial.joints import Planar, Prismatic, Screw, plane_directions
from whippletree.spatial.modal import Modal, Port
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton

OUT_OF_PLANE = 1e-12
"""Share of a joint's axis that may leave a plane: the rounding of a thousand poses, one after the other."""


@dataclass(frozen=True, eq=False)
class MotionSpace:
    """Numbers that the motions of a tree are made of."""

    basis: Array
    """(6, 6), or (6, 3) for those of a plane: n, x and y."""

    @property
    def width(self) -> int:
        """Numbers of a motion or wrench."""
        return int(self.basis.shape[1])

    @property
    def _plane(self) -> tuple[Array, Array]:
        return self.basis[3:, 1], self.basis[3:, 2]

    def coordinates(self, motion: Any) -> Array:
        """The numbers (width,) of a motion or wrench (6,)."""
        if self.width == 6:
            return np.asarray(motion)
        return np.array([_product(column, motion) for column in self.basis.T], dtype=object)

    def inertia(self, M: Array) -> Array:
        """An inertia (6, 6) on these numbers."""
        return M if self.width == 6 else np.array([self.coordinates(row) for row in self._rows(M)], dtype=object)

    def _rows(self, M: Array) -> list[Array]:
        return [np.array([_product(column, M[:, j]) for j in range(6)], dtype=object) for column in self.basis.T]

    def moved_motion(self, motion: Array, arm: Array) -> Array:
        """A motion (width,) seen at a point that is ``arm`` (3,) away."""
        if self.width == 6:
            return np.concatenate([motion[:3], motion[3:] + cross(motion[:3], arm)])
        turn, a, b = motion
        x, y = (_product(direction, arm) for direction in self._plane)
        return np.array([turn, a - turn * y, b + turn * x], dtype=object)

    def moved_wrench(self, wrench: Array, arm: Array) -> Array:
        """A wrench (width,) about a point from which its own is ``arm`` (3,) away."""
        if self.width == 6:
            return np.concatenate([wrench[:3] + cross(arm, wrench[3:]), wrench[3:]])
        moment, a, b = wrench
        x, y = (_product(direction, arm) for direction in self._plane)
        return np.array([moment + (x * b - y * a), a, b], dtype=object)

    def moved_inertia(self, P: Array, arm: Array) -> Array:
        """Tᵀ P T: an inertia, symmetric or not, about a point from which its own is ``arm`` (3,) away."""
        PT = [self.moved_wrench(row, arm) for row in P]
        return np.array([self.moved_wrench(column, arm) for column in np.array(PT, dtype=object).T], dtype=object).T


SPATIAL = MotionSpace(np.eye(6))
"""All six."""


def motion_space(model: Model, tree: Skeleton) -> MotionSpace:
    """The motions of a model's tree."""
    normal = _common_normal(model, tree)
    if normal is None:
        return SPATIAL
    x, y = (np.asarray(direction, dtype=float) for direction in plane_directions(normal))
    basis = np.zeros((6, 3))
    basis[:3, 0], basis[3:, 1], basis[3:, 2] = np.cross(x, y), x, y
    return MotionSpace(basis)


def _common_normal(model: Model, tree: Skeleton) -> Array | None:
    """The direction (3,) about which all joints turn, and across which they slide; None if there is none.

    What holds at home holds everywhere: such motions are a group.
    """
    if not all(isinstance(node.joint, (Screw, Prismatic, Planar)) for node in tree.nodes):
        return None
    motions = [motion for own in axes_at_home(model, tree) for motion in own]
    turns = [turn for turn, _ in motions if np.any(turn)]
    if not turns:
        return None
    normal = turns[0] / np.linalg.norm(turns[0])
    if np.abs(normal - np.round(normal)).max() <= OUT_OF_PLANE:
        normal = np.round(normal)
    leaving = [np.linalg.norm(np.cross(turn, normal)) + abs(shift @ normal) for turn, shift in motions]
    sizes = [np.linalg.norm(turn) + np.linalg.norm(shift) for turn, shift in motions]
    return normal if np.all(np.array(leaving) <= OUT_OF_PLANE * np.array(sizes)) else None


def axes_at_home(model: Model, tree: Skeleton) -> list[list[tuple[Array, Array]]]:
    """How each node moves against its parent at home: turn and shift (3,) of each velocity, in the world's axes.

    Modes and ports of flexible bodies, whose motions are none of a rigid body, have none here.
    """
    links = Mechanism(tree).still(np.asarray(model.home.q, dtype=float).astype(object))
    rigid = [not isinstance(node.joint, (Modal, Port)) for node in tree.nodes]
    motions = [link.H.astype(float).T if own else () for link, own in zip(links, rigid, strict=True)]
    poses = poses_at_home(model, tree)
    return [[(X.R @ h[:3], X.R @ h[3:]) for h in own] for X, own in zip(poses, motions, strict=True)]


def poses_at_home(model: Model, tree: Skeleton) -> list[Pose]:
    """Pose of every node in the world."""
    m = Mechanism(tree)
    links = m.still(np.asarray(model.home.q, dtype=float).astype(object))
    return [Pose(X.R.astype(float), X.p.astype(float)) for X in world_poses(m.sweep, links)]


def _product(direction: Array, numbers: Array) -> Any:
    """A sum of products, without those of constants that are 0."""
    parts = [x if c == 1 else c * x for c, x in zip(direction.tolist(), numbers, strict=True) if c != 0]
    return sum(parts[1:], start=parts[0]) if parts else 0


def screw_rows(tree: Skeleton) -> list[list[tuple[int, int]]]:
    """For each node, the velocities that move it against its parent, and the rows of their screws.

    A joint's velocity has the row of its own number. Those of a flexible body's modes move each of its frames in
    another way: every frame has rows for them, after those of all velocities.
    """
    found: list[list[tuple[int, int]]] = []
    row = tree.model.nv
    for node, own, parent in zip(tree.nodes, tree.v_slices, tree.parents, strict=True):
        if isinstance(node.joint, Port):
            modes = range(tree.v_slices[parent].start, tree.v_slices[parent].stop)
            found.append([(i, row + k) for k, i in enumerate(modes)])
            row += len(modes)
        else:
            moving = () if isinstance(node.joint, Modal) else range(own.start, own.stop)
            found.append([(i, i) for i in moving])
    return found


def screw_count(tree: Skeleton) -> int:
    """Rows of all screws."""
    return tree.model.nv + sum(
        len(own) for own, node in zip(screw_rows(tree), tree.nodes) if isinstance(node.joint, Port)
    )
