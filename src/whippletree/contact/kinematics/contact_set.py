"""All contacts of a model as one fixed list of candidate points, and their kinematics at a state.

    gap(q) ≥ 0           distance along the normal, m
    J(q) v               velocity of the first body's material point against the second's, three rows per candidate:
                         along the normal, tangent 1 and tangent 2 (rows of ``axes``); the normal row is the gap's rate
    J a + bias(q, v)     its rate, with the turning of the axes and the travel of the point along rolling surfaces

A force λ on the first body along these axes enters the equations of motion as Jᵀ λ; λ ≥ 0 along the normal pushes.

For pairs at one state J is written down directly: a row is an axis of the contact, as a wrench at its point, through
the Jacobian of each geometry. The bias is the derivative of J v along the motion, by dual numbers, so that the turning
of the axes and the travel of the point along curved surfaces are in it; nothing of that is written by hand. What stands
still is lifted to dual numbers too: the scalars may be dual numbers themselves, and two levels must not mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.dual_numbers import duals, slopes
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.geometry.coal_pairs import wandering_slots
from whippletree.contact.geometry.shapes import Hull
from whippletree.contact.geometry.step_forms import step_form
from whippletree.contact.kinematics.pairs import Pair, find_pairs, no_closed_form, pairs_with_solids
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.spatial import Pose, cross, join, skew
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field

__all__ = ["Candidate", "ContactSet", "Pair", "Points", "contact_set", "no_closed_form"]


@dataclass(frozen=True)
class Candidate:
    """One point that may touch. Its place in the list never changes."""

    name: str
    """The contact's name, with ``.slot`` where the pair has several candidates."""
    contact: str
    slot: int
    first_body: str
    second_body: str
    friction: Any
    restitution: Any
    law: str | None = None
    torsional: Any = 0
    rolling: Any = 0


class Points(NamedTuple):
    """Where k candidates are at one state, in the world."""

    gap: Array
    """m, positive while apart, (k,)."""
    point: Array
    """On the surface of the first geometry, m, (k, 3)."""
    axes: Array
    """Rows normal (from second to first), tangent 1, tangent 2, (k, 3, 3)."""


Kept: TypeAlias = Callable[[str, list[Touch], Pose], list[Touch]]
"""Puts the candidates of a contact, by name, into slots, given the first geometry's pose."""


class _HasCandidates(Protocol):
    @property
    def candidates(self) -> tuple[Candidate, ...]: ...


class Listed:
    """Names and coefficients of whatever has candidates."""

    @cached_property
    def names(self: _HasCandidates) -> tuple[str, ...]:
        """Name of every candidate."""
        return tuple(c.name for c in self.candidates)

    @cached_property
    def friction(self: _HasCandidates) -> Array:
        """Coulomb's coefficient of every candidate, (k,)."""
        return np.array([c.friction for c in self.candidates], dtype=float)

    @cached_property
    def restitution(self: _HasCandidates) -> Array:
        """e of every candidate, (k,)."""
        return np.array([c.restitution for c in self.candidates], dtype=float)


@dataclass(frozen=True, eq=False)
class ContactSet(Listed):
    """The contacts of a model. Made by :func:`contact_set`, once per model."""

    model: Model
    pairs: tuple[Pair, ...]

    def __repr__(self) -> str:
        return f"<ContactSet of model {self.model.name!r}: {len(self.candidates)} candidates>"

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate, in the order of the model's contacts."""
        return tuple(self._candidates())

    @cached_property
    def closed_form(self) -> bool:
        """Whether every pair has a closed form; only then do the functions below compile and run on any scalar."""
        return all(pair.touching is not None for pair in self.pairs)

    @cached_property
    def corners(self) -> int:
        """How many points are looked at in one state: the candidates, and every corner of a hull with many."""
        return sum(_looked_at(pair) for pair in self.pairs)

    def points(self, m: Mechanism, q: Array, kept: Kept | None = None) -> Points:
        """Gaps, points and axes at one state; ``kept`` may reorder the slots of pairs without a closed form."""
        touches: list[Touch] = []
        for meeting in Meetings(m, self.pairs, m.still(q)):
            found = meeting.touches()
            if kept is not None and meeting.pair.touching is None:
                loose = wandering_slots(*meeting.pair.shapes)  # type: ignore[arg-type]
                found[loose] = kept(meeting.pair.contact.name, found[loose], meeting.first.pose)
            touches += found
        return _stack_touches(touches)

    def jacobian(self, m: Mechanism, q: Array) -> Array:
        """J (3k, nv), rows normal, tangent 1, tangent 2 of one candidate after the other."""
        return Meetings(m, self.pairs, m.still(q)).jacobian()

    def turning_jacobian(self, m: Mechanism, q: Array) -> Array:
        """(3k, nv): angular velocity of the first body against the second's about the axes of each candidate."""
        return Meetings(m, self.pairs, m.still(q)).turning_jacobian()

    def velocity(self, m: Mechanism, q: Array, v: Array) -> Array:
        """J v (3k,), without forming J."""
        return Meetings(m, self.pairs, m.moving(q, v)).velocity()

    def bias(self, m: Mechanism, q: Array, v: Array) -> Array:
        """J̇ v (3k,): the rate of J v at a = 0.

        Raises:
            UnsupportedError: a pair without a closed form that meets where its points cannot be followed.
        """
        return Meetings(m, self.pairs, m.moving(q, v)).bias()

    def _candidates(self) -> Iterator[Candidate]:
        for pair in self.pairs:
            c = pair.contact
            for slot in range(pair.slots):
                name = c.name if pair.slots == 1 else f"{c.name}.{slot}"
                law = c.friction, c.restitution, c.law, c.torsional, c.rolling
                yield Candidate(name, c.name, slot, *pair.bodies, *law)


def _looked_at(pair: Pair) -> int:
    return max([pair.slots, *[len(shape.vertices) for shape in pair.shapes if isinstance(shape, Hull)]])


def contact_set(model: Model) -> ContactSet:
    """The contacts of a model; the same object for the same model.

    Raises:
        ModelError: with every geometry that cannot touch, by name.
    """
    return _contact_set(model if model.origin is None else model.origin)


@found_once
def _contact_set(model: Model) -> ContactSet:
    return ContactSet(model, find_pairs(model))


def contact_set_of_steps(model: Model) -> ContactSet:
    """The contacts of a model as time steps see them: with the forms of
    :mod:`whippletree.contact.geometry.step_forms` and :mod:`whippletree.contact.geometry.solid_pairs`, which leave no
    pair without one.
    """
    return _contact_set_of_steps(model if model.origin is None else model.origin)


@found_once
def _contact_set_of_steps(model: Model) -> ContactSet:
    usual = contact_set(model)
    pairs = pairs_with_solids(usual.pairs if usual.closed_form else find_pairs(model, step_form))
    plain = usual.closed_form and all(pair.solids is None for pair in pairs)
    return usual if plain else ContactSet(model, pairs)


def contact_set_named(model: Model, names: Sequence[str]) -> ContactSet:
    """The contacts of a model in the form in which its candidates have these names, such as those of a run."""
    of_steps = contact_set_of_steps(model)
    return of_steps if of_steps.names == tuple(names) else contact_set(model)


def _stack_touches(touches: list[Touch]) -> Points:
    if not touches:
        return Points(zeros(0), zeros(0, 3), zeros(0, 3, 3))
    gap, point, axes = zip(*touches, strict=True)
    return Points(vector(*gap), np.stack(point), np.stack(axes))


# --- pairs at one state: where they are nearest, how their material points move against each other --------------------


class PlacedGeometry:
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
        """Jacobian of the frame's twist, in its own axes, (6, number of columns)."""
        return kinematics.jacobian(self.tree, self.links, self.place)[:, self.columns]

    @cached_property
    def twist(self) -> Array:
        return kinematics.twist(self.tree, self.links, self.place)

    @cached_property
    def rate(self) -> Array:
        """Rate of the frame's twist at a = 0."""
        return kinematics.jacobian_bias(self.tree, self.links, self.place)


class Meetings:
    """All pairs of a model at one state; links in motion are needed for velocity and bias only."""

    def __init__(self, m: Mechanism, pairs: tuple[Pair, ...], links: Field) -> None:
        self.nv = m.tree.model.nv
        carried: dict[str, PlacedGeometry] = {}
        self._meetings = []
        for pair in pairs:
            for name, place in zip((pair.contact.first, pair.contact.second), pair.places(m.tree), strict=True):
                if name not in carried:
                    carried[name] = PlacedGeometry(m.tree, links, place)
            self._meetings.append(PairAtState(pair, carried[pair.contact.first], carried[pair.contact.second]))

    def __iter__(self) -> Iterator[PairAtState]:
        return iter(self._meetings)

    def jacobian(self) -> Array:
        """J (3k, nv)."""
        return np.concatenate([zeros(0, self.nv), *[meeting.jacobian(self.nv) for meeting in self._meetings]])

    def turning_jacobian(self) -> Array:
        """Jacobian of the angular velocities about the axes, (3k, nv)."""
        return np.concatenate([zeros(0, self.nv), *[meeting.turning_jacobian(self.nv) for meeting in self._meetings]])

    def velocity(self) -> Array:
        """J v (3k,)."""
        return np.concatenate([zeros(0), *[meeting.velocity() for meeting in self._meetings]])

    def bias(self) -> Array:
        """J̇ v (3k,)."""
        return np.concatenate([zeros(0), *[meeting.bias() for meeting in self._meetings]])


class PairAtState(NamedTuple):
    """One pair at one state."""

    pair: Pair
    first: PlacedGeometry
    second: PlacedGeometry

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
        """Jacobian of the first body's angular velocity against the second's about the axes, (3 slots, nv)."""
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
        moved = [_moving_pose(side.pose, side.twist) for side in sides]
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


def _moving_pose(X: Pose, V: Array) -> Pose:
    """The pose as dual numbers, moving with the twist V (in its own axes); the world too, at rest."""
    return Pose(duals(X.R, X.R @ skew(V[:3])), duals(X.p, X.R @ V[3:]))
