"""Types of bodies: which bodies share one piece of code, and the table of the numbers in which they differ.

Two bodies can share code if the structures of their constants are equal (the same joint type above all). They share
*good* code if the same constants are exact zeros and ones, which fold away. Each pattern of 0, 1 and −1 is a type of
its own for as long as that pays; a number that all bodies of a type share is folded, every other one is loaded from a
row of the table. Bodies with the same constants share a row.

Numbers that are left open (traced ones, made of open parameters) are no constants: bodies share code if the same of
their numbers are open, and each has a row of its own in memory, which is filled before the first loop.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.flatten import Structure, flatten

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]

MOST_TYPES = 12
"""More pieces of code than this cost more to compile than they save."""

MOST_PATTERNS = 40
"""Of one structure; rarer patterns are thrown together at once, so that the search for good merges stays short."""

WORTH = 1.0
"""A pattern is given up if all bodies together lose less than this many folded numbers each."""

OTHER = 3
"""Code of a number that is none of 0, 1, −1."""


class TableColumn(NamedTuple):
    """A constant that is loaded: its place in the body's row of the table."""

    place: int


class OpenColumn(NamedTuple):
    """A number that is left open: its place among those of the body."""

    place: int


class BodyType(NamedTuple):
    """All that bodies of one type share: a structure, and for each scalar a number, a :class:`TableColumn` or an
    :class:`OpenColumn`."""

    structure: Structure
    leaves: tuple[Any, ...]
    width: int
    """How many columns its rows have."""


@dataclass(frozen=True)
class BodyTypes:
    """The types of all bodies and the table of their constants."""

    types: tuple[BodyType, ...]
    of: Integers
    """Type of each body, (N,)."""
    table: Floats
    rows: Integers
    """Where each body's row of the table begins, (N,)."""
    opened: tuple[Traced, ...] = ()
    """The open numbers of all bodies, one row after the other."""
    open_rows: Integers | None = None
    """Where each body's row of them begins, (N,)."""


def classify(constants: Sequence[Sequence[Any]], count: int, most: int = MOST_TYPES) -> BodyTypes:
    """Sort bodies into types by their constants (fields with one value per body, ``count`` of them)."""
    distinct: dict[tuple[int, ...], int] = {}
    examples: list[tuple[Any, ...]] = []
    which = np.empty(count, dtype=np.int64)
    for k, values in enumerate(zip(*constants, strict=True)):
        key = tuple(map(id, values))
        number = which[k] = distinct.setdefault(key, len(distinct))
        if number == len(examples):
            examples.append(values)
    groups = _by_structure(examples)
    weights = np.bincount(which, minlength=len(examples))
    types: list[BodyType] = []
    type_of, row_of, open_row_of = (np.zeros(len(examples), dtype=np.int64) for _ in range(3))
    parts: list[Floats] = []
    opened: list[Traced] = []
    length = 0
    for group, patterns in zip(groups, _merge_groups(groups, weights, most), strict=True):
        for pattern in range(patterns.max() + 1):
            chosen = patterns == pattern
            members = group.members[chosen]
            kind, rows = _fold(group, group.numbers[chosen])
            type_of[members] = len(types)
            row_of[members] = length + kind.width * np.arange(len(rows))
            types.append(kind)
            parts.append(rows.ravel())
            length += rows.size
        for member, own in zip(group.members, group.opened, strict=True):
            open_row_of[member] = len(opened)
            opened += own
    table = np.concatenate(parts) if parts else np.zeros(0)
    return BodyTypes(tuple(types), type_of[which], table, row_of[which], tuple(opened), open_row_of[which])


class _AlikeBodies(NamedTuple):
    """Examples of equal structure of which the same scalars are open."""

    structure: Structure
    members: Integers
    """Their numbers."""
    numbers: Floats
    """Their scalars as a matrix, 0 where they are open."""
    open_places: tuple[int, ...]
    opened: list[list[Traced]]
    """Of each, the scalars that are open."""


def _by_structure(examples: Sequence[tuple[Any, ...]]) -> list[_AlikeBodies]:
    """Examples that can share code."""
    members: dict[tuple[Structure, tuple[int, ...]], list[int]] = {}
    scalars: dict[tuple[Structure, tuple[int, ...]], array[float]] = {}
    opened: dict[tuple[Structure, tuple[int, ...]], list[list[Traced]]] = {}
    for number, values in enumerate(examples):
        structure, leaves = flatten(values)
        places = tuple(j for j, x in enumerate(leaves) if isinstance(x, Traced))
        key = structure, places
        members.setdefault(key, []).append(number)
        opened.setdefault(key, []).append([leaves[j] for j in places])
        for j in places:
            leaves[j] = 0
        scalars.setdefault(key, array("d")).extend(map(float, leaves))
    return [
        _AlikeBodies(key[0], np.array(own), np.frombuffer(scalars[key]).reshape(len(own), -1), key[1], opened[key])
        for key, own in members.items()
    ]


def _merge_groups(groups: list[_AlikeBodies], weights: Integers, most: int) -> list[Integers]:
    """The pattern number of each member of each group, so that all groups together have at most ``most`` patterns."""
    found = []
    for _, members, numbers, _, _ in groups:
        codes = np.select([numbers == 0, numbers == 1, numbers == -1], [0, 1, 2], OTHER).astype(np.int8)
        found.append(_Patterns(*_unique_rows(codes), weights[members]))
    bodies = max(int(weights.sum()), 1)
    while True:
        cheapest = min(found, key=lambda p: p.least_loss)
        too_many = sum(len(p.codes) for p in found) > most
        if not np.isfinite(cheapest.least_loss) or not (too_many or cheapest.least_loss < WORTH * bodies):
            break
        cheapest.merge()
    return [patterns.number for patterns in found]


def _unique_rows(codes: Codes) -> tuple[Codes, Integers]:
    """The distinct rows, and which of them each row is; a dictionary is much faster than sorting here."""
    seen: dict[bytes, int] = {}
    number = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in codes], dtype=np.int64)
    unique = np.frombuffer(b"".join(seen), dtype=np.int8).reshape(len(seen), codes.shape[1])
    return unique, number


class _Patterns:
    """The patterns of one structure, and which two of them could be merged at the least loss."""

    def __init__(self, codes: Codes, number: Integers, weights: Integers) -> None:
        self.codes, self.number = codes, number
        self.weight = np.bincount(number, weights).astype(np.float64)
        if len(codes) > MOST_PATTERNS:
            order = np.argsort(-self.weight)
            self._join(order[MOST_PATTERNS - 1 :])
        self._search()

    def merge(self) -> None:
        """Make one pattern of the two that differ least."""
        self._join(np.array(self.pair))
        self._search()

    def _join(self, chosen: Integers) -> None:
        codes = self.codes[chosen]
        common = np.where((codes == codes[0]).all(axis=0), codes[0], OTHER)
        rest = np.setdiff1d(np.arange(len(self.codes)), chosen)
        renumber = np.full(len(self.codes), len(rest))
        renumber[rest] = np.arange(len(rest))
        self.codes = np.vstack([self.codes[rest], common])
        self.weight = np.append(self.weight[rest], self.weight[chosen].sum())
        self.number = renumber[self.number]

    def _search(self) -> None:
        """Find the pair whose merge costs the fewest folded numbers, counted over bodies."""
        self.least_loss = np.inf
        folded = self.codes != OTHER
        for a in range(len(self.codes) - 1):
            others = slice(a + 1, None)
            common = ((self.codes[a] == self.codes[others]) & folded[a]).sum(axis=1)
            loss = self.weight[a] * (folded[a].sum() - common)
            loss = loss + self.weight[others] * (folded[others].sum(axis=1) - common)
            best = int(np.argmin(loss))
            if loss[best] < self.least_loss:
                self.least_loss, self.pair = float(loss[best]), (a, a + 1 + best)


def _fold(group: _AlikeBodies, numbers: Floats) -> tuple[BodyType, Floats]:
    """The type of bodies of a group with these scalars (n, L), and their rows of the table (n, width).

    Columns that are equal for all bodies are one column: the two triangles of an inertia, for example.
    """
    same = (numbers == numbers[0]).all(axis=0)
    leaves: list[Any] = []
    place: dict[bytes, int] = {}
    kept: list[int] = []
    for j in range(numbers.shape[1]):
        if same[j]:
            leaves.append(exact(numbers[0, j]))
            continue
        column = numbers[:, j].tobytes()
        if column not in place:
            place[column] = len(kept)
            kept.append(j)
        leaves.append(TableColumn(place[column]))
    for number, j in enumerate(group.open_places):
        leaves[j] = OpenColumn(number)
    return BodyType(group.structure, tuple(leaves), len(kept)), np.ascontiguousarray(numbers[:, kept])


def exact(x: Any) -> int | float:
    """Exact zeros and ones as integers, so that generic code sees what the model said."""
    return int(x) if x in (0, 1, -1) else float(x)
