"""Pairs that neither near each other nor part, whatever the coordinates: they are no business of a step.

Two bodies whose joints, from where their paths part, all turn about one direction n or slide across it keep their
heights along n, each in the axes of what carries them both. (Such motions are a group, so what holds at home holds
everywhere.) A puck on the table that it slides on is such a body, and so is the first link of an arm on its base.

Shapes of two such bodies that a plane across n separates can never overlap, and where they touch, no impulse along n
could change that: such a pair is never compared. Nor is one of which a shape turns in its own place, as a cylinder does
about its axis, if the two do not overlap at home: all that moves them against each other leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.motion_space import axes_at_home, poses_at_home
from whippletree.contact.geometry.rounded_polytopes import Solid
from whippletree.contact.geometry.shapes import Ball, Capsule, Cylinder, Shape
from whippletree.contact.kinematics.pairs import Pair
from whippletree.model import Model
from whippletree.spatial import Pose
from whippletree.spatial.modal import Modal, Port
from whippletree.tree.skeleton import Place, Skeleton

ON_A_FLOOR = 1e-12
"""Share of a joint's axis that may lie across a floor before the joint moves a shape to or from it, and of the size of
two shapes by which they may seem to overlap where they touch: rounding."""


class _Turn(NamedTuple):
    point: Array
    """On the axis, in the world at home, (3,)."""
    axis: Array
    """(3,)"""
    alone: bool
    """Whether there is no other motion beside it."""


class HeightsKept:
    """Tells which bodies of a tree keep their heights along a direction."""

    def __init__(self, model: Model, tree: Skeleton) -> None:
        self.model, self.tree = model, tree
        self._known: dict[tuple[int, int], _Turn | None] = {}

    @cached_property
    def _axes(self) -> list[list[tuple[Array, Array]]]:
        return axes_at_home(self.model, self.tree)

    @cached_property
    def _poses(self) -> list[Pose]:
        return poses_at_home(self.model, self.tree)

    def keeps_height(self, node: int, normal: Array, base: int = -1) -> bool:
        """Whether a node keeps its height along a normal (3,) that is fixed to another node, which carries it, or to
        the world: all joints between them slide across the normal, or turn about it without climbing."""
        path = self.tree.path(node, base)
        if self._bends(path):
            return False
        motions = [motion for k in path for motion in self._axes[k]]
        across = [np.linalg.norm(np.cross(turn, normal)) + abs(shift @ normal) for turn, shift in motions]
        sizes = [np.linalg.norm(turn) + np.linalg.norm(shift) for turn, shift in motions]
        return bool(np.all(np.array(across) <= ON_A_FLOOR * np.array(sizes)))

    def _bends(self, path: Sequence[int]) -> bool:
        """Whether a flexible body is on a path."""
        return any(isinstance(self.tree.nodes[k].joint, (Modal, Port)) for k in path)

    def are_parted(self, pair: Pair, places: tuple[Place, Place]) -> bool:
        """Whether two shapes never meet, wherever they move."""
        turn = self._common_turn(places[0].node, places[1].node)
        if turn is None:
            return False
        crossing = not self._never_cross(pair, places, turn.axis)
        return not crossing or (turn.alone and self._turns_in_place(pair, places, turn.point, turn.axis))

    def _common_turn(self, first: int, second: int) -> _Turn | None:
        """The axis about which two nodes turn against each other, if they have no other turns, and slide across it."""
        if (first, second) not in self._known:
            self._known[first, second] = self._find_turn(first, second)
        return self._known[first, second]

    def _find_turn(self, first: int, second: int) -> _Turn | None:
        base = self.tree.meeting([first, second])
        path = [k for node in (first, second) for k in self.tree.path(node, base)]
        turns = [(k, turn) for k in path for turn, _ in self._axes[k] if turn.any()]
        if not turns or self._bends(path):
            return None
        node, turn = turns[0]
        axis = turn / np.linalg.norm(turn)
        if not all(self.keeps_height(node, axis, base) for node in (first, second)):
            return None
        return _Turn(self._poses[node].p, axis, sum(len(self._axes[k]) for k in path) == 1)

    def _turns_in_place(self, pair: Pair, places: tuple[Place, Place], point: Array, axis: Array) -> bool:
        """Whether one of two shapes stays where it is as the other turns about an axis, and they are apart."""
        poses = [self._pose(place) for place in places]
        stays = [_turns_into_itself(shape, X, point, axis) for shape, X in zip(pair.shapes, poses, strict=True)]
        if not any(stays):
            return False
        X, Y = (Pose(X.R.astype(object), X.p.astype(object)) for X in poses)
        return all(touch.gap >= 0 for touch in pair.touches(X, Y))

    def _never_cross(self, pair: Pair, places: tuple[Place, Place], normal: Array) -> bool:
        """Whether a plane across a normal (3,), along which both keep their heights, lies between two solids, and their
        margin."""
        first, second = pair.compared
        if not isinstance(first, Solid) or not isinstance(second, Solid):
            return False
        own, other = (
            _extent(solid, self._pose(place), normal) for solid, place in zip((first, second), places, strict=True)
        )
        rounding = ON_A_FLOOR * max(map(abs, (*own, *other)))
        return max(own[0] - other[1], other[0] - own[1]) >= float(pair.contact.margin) - rounding

    def _pose(self, place: Place) -> Pose:
        """Pose of a shape at home, in the world."""
        return place.pose if place.node < 0 else self._poses[place.node] @ place.pose


def _turns_into_itself(shape: Shape, at: Pose, point: Array, axis: Array) -> bool:
    """Whether a shape is one of revolution about an axis through a point, (3,) both."""
    match shape:
        case Ball(size):
            along = None
        case Cylinder(radius, half) | Capsule(radius, half):
            along, size = at.R[:, 2].astype(float), radius + half
        case _:
            return False
    arm = at.p.astype(float) - point
    aside = float(np.linalg.norm(np.cross(arm, axis)))
    turned = 0.0 if along is None else float(np.linalg.norm(np.cross(along, axis)))
    return aside <= ON_A_FLOOR * (float(size) + float(np.linalg.norm(arm))) and turned <= ON_A_FLOOR


def _extent(solid: Solid, at: Pose, normal: Array) -> tuple[float, float]:
    """The lowest and the highest point of a solid along a normal (3,), m."""
    along = at.R.astype(float).T @ normal
    first, count = int(solid.first), int(solid.count)
    heights = solid.tables.corners.array.reshape(-1, 3)[first : first + count] @ along
    middle, margin = float(normal @ at.p.astype(float)), float(solid.margin)
    margin += float(np.linalg.norm(solid.radii.astype(float) * along))
    return middle + float(heights.min()) - margin, middle + float(heights.max()) + margin
