"""The kinematics of pairs at one state: where they are nearest, how their material points move against each other.

J is written down directly: a row is an axis of the contact, as a wrench at its point, through the Jacobian of each
geometry. The bias is the derivative of J v along the motion, by dual numbers, so that the turning of the axes and the
travel of the point along curved surfaces are in it; nothing of that is written by hand. What stands still is lifted to
dual numbers too: the scalars may be dual numbers themselves, and two levels must not mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import duals, slopes
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.kinematics.pairs import Pair
from whippletree.spatial import Pose, cross, join, skew
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


class Carried:
    """A geometry at one state, with what its kinematics needs; computed when it is asked for, once."""

    def __init__(self, tree: Skeleton, links: Field, place: Place) -> None:
        self.tree, self.links, self.place = tree, links, place

    @cached_property
    def pose(self) -> Pose:
        return kinematics.pose(self.tree, self.links, self.place)

    @cached_property
    def columns(self) -> list[int]:
        """The velocities that move it."""
        parts = [self.tree.v_slices[k] for k in self.tree.path(self.place.node)]
        return sorted(i for part in parts for i in range(part.start, part.stop))

    @cached_property
    def jacobian(self) -> Array:
        """Of its twist, in its own axes, (6, number of columns)."""
        return kinematics.jacobian(self.tree, self.links, self.place)[:, self.columns]

    @cached_property
    def twist(self) -> Array:
        return kinematics.twist(self.tree, self.links, self.place)

    @cached_property
    def rate(self) -> Array:
        """Of its twist at a = 0."""
        return kinematics.jacobian_bias(self.tree, self.links, self.place)


class Meetings:
    """All pairs of a model at one state; links in motion are needed for velocity and bias only."""

    def __init__(self, m: Mechanism, pairs: tuple[Pair, ...], links: Field) -> None:
        self.nv = m.tree.model.nv
        carried: dict[str, Carried] = {}
        self._meetings = []
        for pair in pairs:
            for name, place in zip((pair.contact.first, pair.contact.second), pair.places(m.tree), strict=True):
                if name not in carried:
                    carried[name] = Carried(m.tree, links, place)
            self._meetings.append(Meeting(pair, carried[pair.contact.first], carried[pair.contact.second]))

    def __iter__(self) -> Iterator[Meeting]:
        return iter(self._meetings)

    def jacobian(self) -> Array:
        """J (3k, nv)."""
        return np.concatenate([zeros(0, self.nv), *[meeting.jacobian(self.nv) for meeting in self._meetings]])

    def turning_jacobian(self) -> Array:
        """Of the angular velocities about the axes, (3k, nv)."""
        return np.concatenate([zeros(0, self.nv), *[meeting.turning_jacobian(self.nv) for meeting in self._meetings]])

    def velocity(self) -> Array:
        """J v (3k,)."""
        return np.concatenate([zeros(0), *[meeting.velocity() for meeting in self._meetings]])

    def bias(self) -> Array:
        """J̇ v (3k,)."""
        return np.concatenate([zeros(0), *[meeting.bias() for meeting in self._meetings]])


class Meeting(NamedTuple):
    """One pair at one state."""

    pair: Pair
    first: Carried
    second: Carried

    def touches(self) -> list[Touch]:
        """The candidates of the pair."""
        return self.pair.touches(self.first.pose, self.second.pose)

    def jacobian(self, nv: int) -> Array:
        """J (3 slots, nv)."""
        touches = self.touches()
        J = zeros(3 * len(touches), nv)
        for sign, side in ((1, self.first), (-1, self.second)):
            if side.columns:
                rows = np.concatenate([_lever(touch, side.pose) for touch in touches])
                J[:, side.columns] = J[:, side.columns] + sign * (rows @ side.jacobian)
        return J

    def turning_jacobian(self, nv: int) -> Array:
        """Of the first body's angular velocity against the second's about the axes, (3 slots, nv)."""
        axes = np.concatenate([touch.axes for touch in self.touches()])
        J = zeros(len(axes), nv)
        for sign, side in ((1, self.first), (-1, self.second)):
            if side.columns:
                J[:, side.columns] = J[:, side.columns] + sign * (axes @ side.pose.R @ side.jacobian[:3])
        return J

    def velocity(self) -> Array:
        """J v (3 slots,)."""
        return self._relative_velocity([self.first.pose, self.second.pose], [self.first.twist, self.second.twist])

    def bias(self) -> Array:
        """J̇ v (3 slots,)."""
        sides = (self.first, self.second)
        moved = [_moved(side.pose, side.twist) for side in sides]
        return slopes(self._relative_velocity(moved, [duals(side.twist, side.rate) for side in sides]))

    def _relative_velocity(self, poses: list[Pose], twists: list[Array]) -> Array:
        rows = []
        for touch in self.pair.touches(*poses):
            first, second = (_point_velocity(touch.point, X, V) for X, V in zip(poses, twists, strict=True))
            rows.append(touch.axes @ (first - second))
        return np.concatenate(rows)


def _point_velocity(point: Array, X: Pose, V: Array) -> Array:
    """Velocity (3,) in the world of the body's material point that is at ``point``; V in the axes of X."""
    return np.asarray(X.R @ (V[3:] + cross(V[:3], X.R.T @ (point - X.p))))


def _lever(touch: Touch, X: Pose) -> Array:
    """(3, 6): maps a twist in the axes of X to the material point's velocity along the contact's axes."""
    arm = touch.point - X.p
    return np.stack([join(X.R.T @ cross(arm, axis), X.R.T @ axis) for axis in touch.axes])


def _moved(X: Pose, V: Array) -> Pose:
    """The pose as dual numbers, moving with the twist V (in its own axes); the world too, at rest."""
    return Pose(duals(X.R, X.R @ skew(V[:3])), duals(X.p, X.R @ V[3:]))
