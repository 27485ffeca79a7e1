"""Which contacts can matter in a step, in scenes with too many candidates to write down. Plain numbers.

One vectorised pass finds the gaps of all candidates (:mod:`whippletree.contact.kinematics.large_scenes`); rows of J are
worked out only for those that shapes can reach within the step. Pairs that overlap where a model stands are named, and
left out on request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.contact_set import ContactSet, Points, contact_set
from whippletree.contact.kinematics.large_scenes import Snapshot, is_slow
from whippletree.errors import list_items
from whippletree.model import Model, require_model
from whippletree.model.frozen import found_once
from whippletree.model.input_checks import coordinates

LOOK_AHEAD = 2.0
"""How many times farther than the fastest shape moves in a step a contact is looked for: two shapes may approach each
other."""


TOLD_ALL_UP_TO = 32
"""Slow pairs, without a closed form or on curved ground, up to which every one is worked out for a row of output,
however far apart it is."""

COMPILED_UP_TO = 48
"""Points of shapes up to which the kinematics of all is compiled; beyond, only those that are near are worked out."""

TOLD_WITHIN = 0.01
"""m: how near such pairs must be in larger scenes, where each costs milliseconds."""

DRAWN_OVERLAP = 1e-8
"""m: overlap from which shapes count as drawn into each other."""


class Near(NamedTuple):
    """Candidates that may touch within a step."""

    numbers: Array
    """Among all candidates of the model, (k,)."""
    gaps: Array
    """m, (k,)."""
    jacobian: Any
    """(3k, nv), an array or sparse."""


Comparison: TypeAlias = Callable[[Array, float], Points]
"""(q (nq,), reach) → all candidates; those of pairs that are farther apart, m, may have infinite gaps."""


@found_once
def _slow_pairs(contacts: ContactSet) -> int:
    """How many pairs take Python milliseconds."""
    return sum(map(is_slow, contacts.pairs))


class Neighbourhood:
    """The contacts of a model, looked up by distance."""

    def __init__(self, contacts: ContactSet, compare: Comparison | None = None) -> None:
        """``compare``: a narrow phase in machine code; default: that of Python."""
        self.contacts, self._compare = contacts, compare

    @property
    def is_compiled(self) -> bool:
        """Whether the kinematics of all candidates is worth compiling."""
        return self.contacts.closed_form and 0 < self.contacts.corners <= COMPILED_UP_TO

    @cached_property
    def told_within(self) -> float:
        """How near slow pairs must be for a row of output to tell their gaps, m; others may have infinite ones."""
        return TOLD_WITHIN if _slow_pairs(self.contacts) > TOLD_ALL_UP_TO else np.inf

    def gaps(self, q: Array) -> Array:
        """Gaps of all candidates at q (nq,), m; in a scene with many slow pairs, those of them that are farther apart
        than ``TOLD_WITHIN`` may have infinite gaps."""
        return Snapshot(self.contacts, q).within(self.told_within, of_slow_pairs=True).gap

    def near(self, q: Array, motions: Sequence[Array], h: float) -> Near:
        """Candidates that may touch within h seconds from q (nq,) at the velocities (nv,) of ``motions``."""
        at = Snapshot(self.contacts, q)
        return self._find_near(at, q, LOOK_AHEAD * h * max(at.fastest(v) for v in motions))

    def within(self, q: Array, reach: float) -> Near:
        """Candidates whose gaps at q (nq,) are at most ``reach``, m."""
        return self._find_near(Snapshot(self.contacts, q), q, reach)

    def _find_near(self, at: Snapshot, q: Array, reach: float) -> Near:
        points = self._points(at, q, reach)
        numbers = np.flatnonzero(points.gap <= reach)
        return Near(numbers, points.gap[numbers], at.jacobian(numbers, points))

    def _points(self, at: Snapshot, q: Array, reach: float) -> Points:
        """All candidates; those of pairs that are farther apart than ``reach``, m, may have infinite gaps."""
        return at.within(reach) if self._compare is None else self._compare(q, reach)

    def overlapping(self, q: Array) -> Near:
        """Candidates that touch or overlap at q (nq,), which are few in any scene that makes sense: with dense rows."""
        at = Snapshot(self.contacts, q)
        points = self._points(at, q, 0.0)
        numbers = np.flatnonzero(points.gap <= 0)
        return Near(numbers, points.gap[numbers], at.dense_jacobian(numbers, points))

    def turning_jacobian(self, q: Array, near: Near) -> Any:
        """Jacobian of the angular velocities of some candidates' bodies about their axes at q (nq,), (3k, nv),
        sparse."""
        at = Snapshot(self.contacts, q)
        return at.turning_jacobian(near.numbers, self._points(at, q, float(near.gaps.max(initial=0.0))))

    def joint_forces(self, q: Array, forces: Array, *, turning: bool = False) -> Array:
        """Jᵀ λ (nv,) of forces λ (candidates, 3) at q (nq,), from the rows of those that carry a force.

        ``turning``: of moments about the axes, N m, in place of forces along them.
        """
        numbers = np.flatnonzero(np.any(forces, axis=1))
        if not len(numbers):
            return np.zeros(self.contacts.model.nv)
        at = Snapshot(self.contacts, q)
        points = at.within(TOLD_WITHIN)
        if not np.isfinite(points.gap[numbers]).all():
            points = at.points
        rows = at.turning_jacobian if turning else at.jacobian
        return np.asarray(rows(numbers, points).T @ forces[numbers].ravel())


def without_overlaps(model: Model, q: Any = None, *, tolerance: float = DRAWN_OVERLAP) -> Model:
    """The model without the contacts whose shapes overlap at a configuration.

    Hands and grippers are often drawn with shapes that reach into each other, and that no motion could part. Time
    stepping moves such shapes apart, slowly, and tells so; this leaves their pairs out instead, and says which in
    ``model.source``.

    Args:
        model: with contacts.
        q: (nq,); default: the model's home.
        tolerance: largest overlap of a pair that stays, m.
    """
    require_model(model, "without_overlaps")
    if not model.contacts:
        return model
    at = coordinates("without_overlaps", "q", model.home.q if q is None else q, model)
    contacts = contact_set(model)
    gaps = Neighbourhood(contacts).gaps(np.asarray(at, dtype=float))
    margins = {contact.name: float(contact.margin) for contact in model.contacts}
    deep = {
        candidate.contact
        for candidate, gap in zip(contacts.candidates, gaps, strict=True)
        if gap + margins[candidate.contact] < -tolerance
    }
    if not deep:
        return model
    kept = tuple(contact for contact in model.contacts if contact.name not in deep)
    named = list_items(repr(contact.name) for contact in model.contacts if contact.name in deep)
    return replace(model, contacts=kept, source=f"{model.source}\n- left out: contacts that overlap: {named}".strip())
