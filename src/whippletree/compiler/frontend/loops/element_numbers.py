"""What a block stores of an element: each number once, and none that is known beforehand.

An element of the body-level system has many entries and few different numbers. Of a planar hinge between rods a sine
and a cosine are all that a state decides: entries are these or their negatives, masses, and ±1. So an entry is a
*share*: a factor, times a number in memory where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import is_zero
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.loops.hand_traced import Code
from whippletree.compiler.program import Index
from whippletree.constraints.long_systems.body_elements import Element

NOT_IN_MEMORY = -1
"""The place of a number that is known beforehand."""


class ScaledNumber(NamedTuple):
    """A number of an element: a factor of one in memory, or the factor alone."""

    factor: float
    place: int = NOT_IN_MEMORY
    """Counted from the element's first number."""

    def times(self, load: Any) -> Any:
        """The number, where ``load`` gives what is at a place."""
        return self.factor if self.place == NOT_IN_MEMORY else load(self.place) * self.factor


class ElementNumbers(NamedTuple):
    """The numbers of all elements of one type, with their meaning."""

    K: list[tuple[int, int, ScaledNumber]]
    """Entries of the lower triangle, (i, j, share)."""
    B: list[tuple[int, int, ScaledNumber]]
    load: list[tuple[int, ScaledNumber]]
    bias: list[tuple[int, ScaledNumber]]
    h: dict[tuple[int, int], ScaledNumber]
    shift: list[ScaledNumber]
    size: int
    """How many of them are in memory."""


def keep_numbers(code: Code, element: Element, load: Array, gamma: Array, shift: Array) -> ElementNumbers:
    """Store the numbers of an element, from ``values at`` on."""
    kept = _Kept(code)
    right = element.load(load, gamma)
    found = ElementNumbers(
        [(i, j, kept.share(x)) for (i, j), x in np.ndenumerate(element.K) if j <= i and not is_zero(x)],
        [(i, j, kept.share(x)) for (i, j), x in np.ndenumerate(element.B) if not is_zero(x)],
        [(i, kept.share(x)) for i, x in enumerate(right) if not is_zero(x)],
        [(i, kept.share(-x)) for i, x in enumerate(gamma) if not is_zero(x)],
        {ij: kept.share(x) for ij, x in np.ndenumerate(element.h)},
        [kept.share(x) for x in shift],
        0,
    )
    return found._replace(size=len(kept.places))


def known_numbers(element: Element) -> ElementNumbers:
    """The numbers of an element that no state decides, without right-hand sides."""
    K, B = (
        [(i, j, ScaledNumber(float(x))) for (i, j), x in np.ndenumerate(matrix) if not is_zero(x)]
        for matrix in (np.tril(element.K), element.B)
    )
    return ElementNumbers(K, B, [], [], {}, [], 0)


class _Kept:
    """Numbers that are stored one after the other, each once; one and its negative are the same."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.places: dict[int, int] = {}
        """Node of the trace -> place."""

    def share(self, x: Any) -> ScaledNumber:
        if not isinstance(x, Traced):
            return ScaledNumber(float(x))
        sign = 1.0
        if (x.index not in self.places and (-x).index in self.places) or x.trace.nodes[x.index][0] == "neg":
            x, sign = -x, -1.0
        if x.index not in self.places:
            self.code.store(x, "values", Index("values at", len(self.places)))
            self.places[x.index] = len(self.places)
        return ScaledNumber(sign, self.places[x.index])


class ScaledNumbers(NamedTuple):
    """Entries of a sparse system, each a share of an element's number; several for one place add up."""

    rows: Array
    columns: Array
    elements: Array
    places: Array
    factors: Array

    @staticmethod
    def of(entries: Sequence[tuple[int, int, int, ScaledNumber]]) -> ScaledNumbers:
        """Entries (row, column, element, share)."""
        whole = [(i, j, e, share.place) for i, j, e, share in entries]
        rows, columns, elements, places = np.array(whole, dtype=int).reshape(-1, 4).T
        return ScaledNumbers(
            rows, columns, elements, places, np.array([share.factor for *_, share in entries], dtype=float)
        )

    def chosen(self, which: Array) -> ScaledNumbers:
        """Some of them."""
        return ScaledNumbers(*(column[which] for column in self))

    @property
    def known(self) -> Array:
        """Which of them are known beforehand."""
        return np.asarray(self.places == NOT_IN_MEMORY)
