"""All contacts of a model as one fixed list of candidate points, and their kinematics at a state.

    gap(q) ≥ 0           distance along the normal, m
    J(q) v               velocity of the first body's material point against the second's, three rows per candidate:
                         along the normal, tangent 1 and tangent 2 (rows of ``axes``); the normal row is the gap's rate
    J a + bias(q, v)     its rate, with the turning of the axes and the travel of the point along rolling surfaces

A force λ on the first body along these axes enters the equations of motion as Jᵀ λ; λ ≥ 0 along the normal pushes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.geometry.coal_pairs import wandering_slots
from whippletree.contact.geometry.shapes import Hull
from whippletree.contact.geometry.step_forms import step_form
from whippletree.contact.kinematics.pair_kinematics import Meetings
from whippletree.contact.kinematics.pairs import Pair, find_pairs, no_closed_form, pairs_with_solids
from whippletree.model import Model
from whippletree.spatial import Pose
from whippletree.tree.mechanism import Mechanism

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
        return _stacked(touches)

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
    if model.origin is not None:
        model = model.origin
    # kept beside the model's own cached properties: it lives as long as the model and no longer
    found: ContactSet | None = model.__dict__.get("_contact_set")
    if found is None:
        found = ContactSet(model, find_pairs(model))
        model.__dict__["_contact_set"] = found
    return found


def contact_set_of_steps(model: Model) -> ContactSet:
    """The contacts of a model as time steps see them: with the forms of
    :mod:`whippletree.contact.geometry.step_forms` and :mod:`whippletree.contact.geometry.solid_pairs`, which leave no
    pair without one.
    """
    usual = contact_set(model)
    model = usual.model
    found: ContactSet | None = model.__dict__.get("_contact_set_of_steps")
    if found is None:
        pairs = pairs_with_solids(usual.pairs if usual.closed_form else find_pairs(model, step_form))
        plain = usual.closed_form and all(pair.solids is None for pair in pairs)
        found = usual if plain else ContactSet(model, pairs)
        model.__dict__["_contact_set_of_steps"] = found
    return found


def contact_set_named(model: Model, names: Sequence[str]) -> ContactSet:
    """The contacts of a model in the form in which its candidates have these names, such as those of a run."""
    of_steps = contact_set_of_steps(model)
    return of_steps if of_steps.names == tuple(names) else contact_set(model)


def _stacked(touches: list[Touch]) -> Points:
    if not touches:
        return Points(zeros(0), zeros(0, 3), zeros(0, 3, 3))
    gap, point, axes = zip(*touches, strict=True)
    return Points(vector(*gap), np.stack(point), np.stack(axes))
