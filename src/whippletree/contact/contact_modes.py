"""Modes of motion in contact: which candidates are open, stick or slide, and which mode follows an event.

The mode is not guessed: the contacts that touch and do not separate pose the complementarity problem of
:mod:`whippletree.contact.problem.active_set` at the level of accelerations, u̇ = G f + J a_free + J̇ v, and its answer
is the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.problem import active_set
from whippletree.contact.problem.active_set import OPEN, SLIDE, STICK

__all__ = ["OPEN", "SLIDE", "STICK", "Mode", "open_mode"]

WORDS = {OPEN: "open", STICK: "sticks", SLIDE: "slides"}


@dataclass(frozen=True, eq=False)
class Mode:
    """The status of every candidate."""

    status: tuple[int, ...]
    directions: Array
    """(k, 2): unit directions of slip along tangents 1 and 2; zeros where nothing slides."""
    forces: Array | None = None
    """(k, 3), N, that complementarity found when the mode began: they decide where forces are not unique."""

    @cached_property
    def closed(self) -> list[int]:
        """Candidates in contact."""
        return [i for i, s in enumerate(self.status) if s != OPEN]

    @cached_property
    def sticking(self) -> list[int]:
        """Candidates that stick."""
        return [i for i, s in enumerate(self.status) if s == STICK]

    @cached_property
    def sliding(self) -> list[int]:
        """Candidates that slide; those without friction too."""
        return [i for i, s in enumerate(self.status) if s == SLIDE]

    def trails(self, contact: int) -> bool:
        """Whether a contact on a part without mass slides along without force."""
        return self.status[contact] == SLIDE and not np.any(self.directions[contact])

    def words(self, names: Sequence[str]) -> str:
        """The mode for people: ``left sticks, right slides``; ``free`` without contact."""
        parts = [f"{names[i]} {WORDS[self.status[i]]}" for i in self.closed]
        return ", ".join(parts) or "free"

    def changed(self, contacts: Sequence[int], answer: active_set.SlidingAnswer) -> Mode:
        """The mode with the answer for these contacts."""
        status, directions, forces = list(self.status), self.directions.copy(), np.zeros((len(self.status), 3))
        for number, i in enumerate(contacts):
            status[i], forces[i] = answer.status[number], answer.p[number]
            directions[i] = answer.directions[number] if answer.status[number] == SLIDE else 0.0
        return Mode(tuple(status), directions, forces)

    def opened(self, contacts: Sequence[int]) -> Mode:
        """The mode with these contacts open."""
        return self._set(contacts, OPEN)

    def stuck(self, contacts: Sequence[int]) -> Mode:
        """The mode with these contacts sticking."""
        return self._set(contacts, STICK)

    def trailing(self, contacts: Sequence[int]) -> Mode:
        """The mode with these contacts, on parts without mass, sliding along without force."""
        return self._set(contacts, SLIDE)

    def _set(self, contacts: Sequence[int], value: int) -> Mode:
        status, directions = list(self.status), self.directions.copy()
        for i in contacts:
            status[i], directions[i] = value, 0.0
        return Mode(tuple(status), directions)


def open_mode(count: int) -> Mode:
    """Nothing touches."""
    return Mode((OPEN,) * count, np.zeros((count, 2)))
