"""Modes of motion in contact: which candidates are open, stick or slide, and which mode follows an event.

The mode is not guessed: the contacts that touch and do not separate pose the complementarity problem of
:mod:`whippletree.contact.problem.active_set` at the level of accelerations, u̇ = G f + J a_free + J̇ v, and its answer
is the mode.

Motion in a mode is that under the rows that it holds, all others switched off:

    [M  −Eᵀ] [a]   [b ]
    [R   C ] [f] = [−γ]

Rows that are off are zero in R and E, and their forces too, so that one function (:func:`held_motion`, on any scalar)
serves all modes. With ρ > 0, M_ρ = M + Rᵀ ρ R is positive definite wherever the rows that are on carry what has no
mass, and the answer does not depend on ρ (the augmented route of :mod:`whippletree.constraints.kkt`, for E ≠ R where
contacts slide):

    M_ρ a = b − Rᵀ ρ γ + (E − ρ C R)ᵀ f        (R M_ρ⁻¹ (E − ρ C R)ᵀ + C) f = −γ − R M_ρ⁻¹ (b − Rᵀ ρ γ)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import ldlt
from whippletree.arithmetic.scalars import less, minimum, select
from whippletree.contact.problem import active_set
from whippletree.contact.problem.active_set import OPEN, SLIDE, STICK

__all__ = ["OPEN", "SLIDE", "STICK", "HeldMotion", "Mode", "held_motion", "open_mode"]

WORDS = {OPEN: "open", STICK: "sticks", SLIDE: "slides"}

SMALLEST_PIVOT = 1e-11
"""Share of its diagonal entry, below which a pivot of elimination without exchanges is not trusted."""


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

    def with_answer(self, contacts: Sequence[int], answer: active_set.SlidingAnswer) -> Mode:
        """The mode with the answer for these contacts."""
        status, directions, forces = list(self.status), self.directions.copy(), np.zeros((len(self.status), 3))
        for number, i in enumerate(contacts):
            status[i], forces[i] = answer.status[number], answer.p[number]
            directions[i] = answer.directions[number] if answer.status[number] == SLIDE else 0.0
        return Mode(tuple(status), directions, forces)

    def with_open(self, contacts: Sequence[int]) -> Mode:
        """The mode with these contacts open."""
        return self._set(contacts, OPEN)

    def with_sticking(self, contacts: Sequence[int]) -> Mode:
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


class HeldMotion(NamedTuple):
    """Effect of rows on a motion."""

    a: Array
    """(n,)"""
    f: Array
    """(r,), zero for rows that are off."""
    trust: Any
    """Positive where no pivot was small."""
    room: Any
    """Room of rows that do not yield: the determinant of the block matrix in units of its value for E = R, or less than
    that, with its sign; positive where loads push contacts apart, however these slide."""


def held_motion(M: Array, b: Array, R: Array, E: Array, compliance: Array, bias: Array, on: Array) -> HeldMotion:
    """a and f of the block matrix; ``on`` (r,) is 1 for rows that hold and 0 for others, which R and E contain too."""
    n, r = len(b), len(R)
    R, E, bias = (R.T * on).T, (E.T * on).T, bias * on
    total = sum(M.diagonal(), start=0)
    sizes = [row @ row for row in R]
    rho = np.array([total / (n * select(less(0, size), size, 1)) for size in sizes], dtype=object)
    augmented = M + R.T @ (rho[:, None] * R)
    factor = ldlt(augmented, lenient=True)
    trust = _least([d / x for d, x in zip(factor.pivots, augmented.diagonal(), strict=True)])
    a = factor.solve(b - R.T @ (rho * bias))
    if not r:
        return HeldMotion(a, np.zeros(0, dtype=object), trust, 1)
    pushes = factor.solve((E - (rho * compliance * on)[:, None] * R).T)
    S = R @ pushes
    for i in range(r):
        S[i, i] = S[i, i] + compliance[i] * on[i] + (1 - on[i])
    f, pivots, least = _solve_by_elimination(S, -bias - R @ a)
    # det S against that for E = R, whose diagonal entries are below 1/ρ: so many times larger are pivots at least
    room: Any = 1
    for pivot, size, own in zip(pivots, rho, on, strict=True):
        room = room * select(less(0, own), pivot * size, 1)
    return HeldMotion(a + pushes @ f, f, minimum(trust, least), room)


def _solve_by_elimination(S: Array, right: Array) -> tuple[Array, Array, Any]:
    """x of S x = right without exchanges, the pivots, and whether each is a good share of its diagonal entry."""
    S, x, n = np.array(S, dtype=object), np.array(right, dtype=object), len(right)
    diagonal = S.diagonal().copy()
    for k in range(n):
        inverse = 1 / S[k, k]
        for i in range(k + 1, n):
            share = S[i, k] * inverse
            S[i, k + 1 :] = S[i, k + 1 :] - share * S[k, k + 1 :]
            x[i] = x[i] - share * x[k]
    for k in reversed(range(n)):
        x[k] = (x[k] - S[k, k + 1 :] @ x[k + 1 :]) / S[k, k]
    return x, S.diagonal(), _least([S[k, k] / diagonal[k] for k in range(n)])


def _least(shares: list[Any]) -> Any:
    """Positive where all shares are large enough."""
    found: Any = 1
    for share in shares:
        found = select(less(SMALLEST_PIVOT, share), found, -1)
    return found
