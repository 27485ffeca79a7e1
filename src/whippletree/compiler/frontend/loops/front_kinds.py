"""Fronts that are alike, written once: straight code in place of loops over their rows.

A ladder or a chain of trusses has hundreds of fronts, and few kinds of them: the same numbers of unknowns, the same
entries at the same places, the same way into the parent. What a front of a kind does is then known to the last
operation: zeros drop out, and nothing has to be looked up but where its numbers begin. The kinds of which there are
most come first, until there is code enough; all other fronts are dense loops
(:mod:`~whippletree.compiler.frontend.loops.front_loops`), in the same memory. Where these have most of the work, as
in a planar grid, no front has a kind.

A front whose children are all of some kind takes over what the first of them at each place has stored there, so that
its memory need not be cleared. Where all fronts have a kind, right-hand sides and the sizes of pivots are added up in
the same way, front by front, and pivots are judged where they are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.frontend.loops.element_numbers import ScaledNumber, ScaledNumbers
from whippletree.constraints.long_systems.front_elimination import EliminationPlan

MOST_OPERATIONS = 15_000
"""Multiplications of all kinds of fronts together: a ladder has 1500 and takes 0.3 s to compile, a ring of rings 14 000
and 1.5 s."""

WORTHWHILE_SHARE = 0.8
"""Share of all multiplications that fronts of a kind must have: of a planar grid, whose large fronts take most of the
time, kinds were seen to save nothing and to take four times as long to compile."""

LARGEST_FRONT = 32
"""Unknowns of a front from which loops are as good."""

Pair = tuple[int, int]
"""Row and column of a front's lower triangle."""


class FrontKind(NamedTuple):
    """All that the code of a front depends on."""

    inner: int
    """Unknowns of its boundary, the first of all."""
    pairs: int
    """Of its own unknowns, the last: pairs of a component and the row that is solved for it."""
    multipliers: tuple[bool, ...]
    """Which of its unknowns are multipliers."""
    least_inertia: tuple[float, ...]
    """Of its motions, what counts as inertia of a body along them where that is less."""
    carried_inertia: tuple[float, ...]
    """Of its motions that only other bodies give inertia, what is added to the measure of their pivots; else 0."""
    entries: tuple[tuple[tuple[int, int, ScaledNumber], ...], ...]
    """Of each element that adds to it: row, column, and the share of a number of the element."""
    loads: tuple[tuple[tuple[int, ScaledNumber], ...], ...]
    """Of each element what it adds to right-hand sides: row, and the share of a number of the element."""
    taken: tuple[Pair, ...]
    """Places at which children have left something."""
    right_taken: tuple[int, ...]
    """Rows with a right-hand side to which something has been added before."""
    sizes_taken: tuple[int, ...]
    """Rows with a size of their pivot to which something has been added before."""
    complete: bool
    """Whether all fronts have a kind, so that this one adds what elements give, and judges its pivots."""
    spread: tuple[int, ...]
    """Where its boundary is in its parent."""
    inner_of_parent: int
    stored: tuple[Pair, ...]
    """Places of its boundary that it is the first to write in its parent; to others it adds."""

    @property
    def size(self) -> int:
        """Unknowns."""
        return len(self.multipliers)

    @property
    def single(self) -> int:
        """Where its pairs begin, behind all pivots that stand alone."""
        return self.size - 2 * self.pairs

    def felt(self, i: int, j: int, _: ScaledNumber) -> list[Pair]:
        """The row and the motion that an entry couples, where it does, and where the row is a pivot."""
        row, motion = (i, j) if self.multipliers[i] else (j, i)
        couples = self.multipliers[row] and not self.multipliers[motion] and row < self.single
        return [(row, motion)] if couples else []

    @lru_cache(maxsize=1024)  # noqa: B019 (kinds are values, and few)
    def eliminated(self) -> EliminatedFront:
        """What is not zero once all its pivots are eliminated."""
        found = {(i, j) for element in self.entries for i, j, _ in element} | set(self.taken)
        right = {i for element in self.loads for i, _ in element} | set(self.right_taken)
        sizes = {i for element in self.entries for entry in element for i, _ in self.felt(*entry)}
        operations = 0
        for p in range(self.size - 1, self.single, -2):
            first, second = ({j for j in range(p - 1) if (i, j) in found} for i in (p, p - 1))
            heavy = (p, p) in found
            coupled = first | second if heavy else first
            found.update((max(i, j), min(i, j)) for i in second for j in coupled)
            right |= (coupled if p - 1 in right else set()) | (second if p in right else set())
            sizes |= {i for i in second if heavy and not self.multipliers[i]}
            operations += len(second) * (len(first) + len(second)) + 2 * len(coupled)
        for p in reversed(range(self.inner, self.single)):
            row = [j for j in range(p) if (p, j) in found]
            found.update((i, j) for i in row for j in row if j <= i)
            right |= set(row) if p in right else set()
            operations += len(row) * (len(row) + 7) // 2
        return EliminatedFront(found, right, sizes, operations)


class EliminatedFront(NamedTuple):
    """Places of a front that hold a number."""

    triangle: set[Pair]
    right: set[int]
    """Rows with a right-hand side."""
    sizes: set[int]
    """Rows to whose size something was added."""
    operations: int
    """Multiplications, about."""


class KindsOfFronts:
    """Which fronts of a plan have a kind, and what each of these needs to know."""

    def __init__(
        self, plan: EliminationPlan, order: Sequence[int], entries: ScaledNumbers, loads: ScaledNumbers
    ) -> None:
        """``entries`` of the system, and of its right-hand side, whose columns are its rows."""
        self.plan = plan
        children: dict[int, list[int]] = {}
        for f in order:
            children.setdefault(plan.fronts[f].parent, []).append(f)
        self._children = children
        work = [
            _operations(len(front.boundary), len(own), pairs)
            for front, own, pairs in zip(plan.fronts, plan.unknowns, plan.pairs, strict=True)
        ]
        small = {f for f, own in enumerate(plan.unknowns) if len(own) <= LARGEST_FRONT}
        self.elements, added = self._entries(entries, loads)
        found: dict[int, FrontKind] = {}
        straight: set[int] = set()
        if sum(work[f] for f in small) >= WORTHWHILE_SHARE * sum(work):
            found = self._described(order, added, small)
            kept = _most_frequent([found[f] for f in sorted(small)])
            straight = {f for f in small if found[f] in kept}
        if sum(work[f] for f in straight) < WORTHWHILE_SHARE * sum(work):
            straight = set()
        # fronts with loops among their children, or above them, are of other kinds
        found = self._described(order, added, straight) if straight else {}
        self.kinds: list[FrontKind] = list(dict.fromkeys(found[f] for f in order if f in straight))
        self.complete = 0 < len(straight) == len(plan.fronts)
        """Whether all fronts have a kind."""
        number = {kind: k + 1 for k, kind in enumerate(self.kinds)}
        self.of = [number[found[f]] if f in straight else 0 for f in range(len(plan.fronts))]
        """The number of each front's kind, from 1 on; 0 for loops."""
        self.cleared = [f not in straight or not self._all(f, straight) for f in range(len(plan.fronts))]
        """Fronts whose memory must hold zeros before their first child."""

    def _all(self, f: int, straight: set[int]) -> bool:
        return all(child in straight for child in self._children.get(f, ()))

    def _entries(self, entries: ScaledNumbers, loads: ScaledNumbers) -> tuple[list[list[int]], list[tuple[Any, ...]]]:
        """For each front, the elements that add to it, and what they add where: to the triangle, to the right."""
        found: list[dict[int, tuple[list[Any], list[Any]]]] = [{} for _ in self.plan.fronts]
        for which, shares in enumerate((entries, loads)):
            fronts, rows, columns = self.plan.places(shares.rows, shares.columns)
            lists = (x.tolist() for x in (fronts, rows, columns, *shares[2:]))
            for f, i, j, element, place, factor in zip(*lists, strict=True):
                where = (i, j) if which == 0 else (i,)
                found[f].setdefault(element, ([], []))[which].append((*where, ScaledNumber(factor, place)))
        own = [
            sorted((tuple(sorted(entries)), tuple(sorted(right)), e) for e, (entries, right) in one.items())
            for one in found
        ]
        return [[e for *_, e in one] for one in own], [
            (tuple(entries for entries, *_ in one), tuple(right for _, right, _ in one)) for one in own
        ]

    def _described(
        self, order: Sequence[int], parts: Sequence[tuple[Any, ...]], straight: set[int]
    ) -> dict[int, FrontKind]:
        """For each front the kind that it would have, if just those fronts had one."""
        plan, known = self.plan, dict[tuple[Any, ...], EliminatedFront]()
        found: dict[int, FrontKind] = {}
        reached: dict[int, set[Pair]] = {}
        complete = len(straight) == len(plan.fronts)
        # unknowns with a right-hand side, and with a size, so far
        right, sizes = (np.full(len(plan.used), not complete) for _ in range(2))
        for f in order:
            front, spread, own = plan.fronts[f], plan.spread[f].tolist(), plan.unknowns[f]
            inner = len(front.boundary)
            taken = reached.pop(f, set())
            multipliers = tuple(plan.rows[own].tolist())
            added, loads = parts[f]
            loads = loads if complete else ((),) * len(loads)
            before = [tuple(np.flatnonzero(there[own]).tolist()) for there in (right, sizes)]
            shape = (
                inner,
                plan.pairs[f],
                multipliers,
                tuple(plan.least_inertia[own].tolist()),
                tuple(plan.carried_inertia[own].tolist()),
                added,
                loads,
                tuple(sorted(taken)),
                before[0],
                before[1],
                complete,
            )
            if f in straight and shape not in known:
                known[shape] = FrontKind(*shape, (), 0, ()).eliminated()
            if complete:
                right[own[[i for i in known[shape].right if i < inner]]] = True
                sizes[own[[i for i in known[shape].sizes if i < inner]]] = True
            # loops hand up all that there may be
            all_of_it = {(i, j) for i in range(inner) for j in range(i + 1)}
            left = {(i, j) for i, j in known[shape].triangle if i < inner} if f in straight else all_of_it
            stored: tuple[Pair, ...] = ()
            if front.parent >= 0:
                there = reached.setdefault(front.parent, set())
                if front.parent in straight and self._all(front.parent, straight):
                    stored = tuple(sorted((i, j) for i, j in left if (spread[i], spread[j]) not in there))
                there.update((spread[i], spread[j]) for i, j in left)
            of_parent = len(plan.fronts[front.parent].boundary) if front.parent >= 0 else 0
            found[f] = FrontKind(*shape, tuple(spread), of_parent, stored)
        return found


COUPLED_BY_ROW = 6
"""Unknowns of a parent that a row of a joint couples a component with, and no others."""


def _operations(inner: int, size: int, pairs: int) -> int:
    """Multiplications of a dense front."""
    single = size - 2 * pairs
    solved = sum(2 * min(p, COUPLED_BY_ROW) * p for p in range(single, size, 2))
    return solved + sum((p + 1) * (p + 2) // 2 for p in range(inner, single))


def _most_frequent(found: Sequence[FrontKind]) -> set[FrontKind]:
    """The kinds of which there are most, as far as their code is not too long."""
    kept, left = set(), MOST_OPERATIONS
    for kind, _ in Counter(found).most_common():
        if kind.eliminated().operations <= left:
            left -= kind.eliminated().operations
            kept.add(kind)
    return kept
