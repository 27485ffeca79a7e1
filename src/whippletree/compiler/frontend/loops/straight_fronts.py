"""The code of fronts that have a kind: their elimination, and the way out, without loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import is_zero, less, select
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.loops.element_numbers import ScaledNumber
from whippletree.compiler.frontend.loops.front_kinds import FrontKind, KindsOfFronts, Pair
from whippletree.compiler.frontend.loops.hand_traced import Code
from whippletree.compiler.program import Address, Index, Lookup, Statement
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints.long_systems.front_elimination import EliminationPlan
from whippletree.constraints.routes import PIVOT_TOLERANCE


class StraightFronts:
    """Statements for the front ``f`` of a kind, in the memory that all fronts share.

    Its rows begin at ``row_starts``: first those of the boundary, then, elsewhere, those of its pivots, one after the
    other in both parts.
    """

    def __init__(
        self, space: WorkSpace, plan: EliminationPlan, kinds: KindsOfFronts, row_starts: Sequence[Array], starts: Array
    ) -> None:
        """``starts``: where the numbers of each element begin in ``values``."""
        self.space, self.kinds = space, kinds
        self.rows: list[PivotRows] = []
        """Of each kind, once its elimination is written."""
        if not kinds.kinds:
            return
        inner = [len(front.boundary) for front in plan.fronts]
        outer = [int(rows[0]) if b else 0 for rows, b in zip(row_starts, inner, strict=True)]
        own = [int(rows[b]) if b < len(rows) else 0 for rows, b in zip(row_starts, inner, strict=True)]
        space.index("boundary rows", outer)
        space.index("pivot rows", own)
        most = max(len(elements) for elements in kinds.elements)
        table = np.zeros((len(plan.fronts), max(most, 1)), dtype=np.int64)
        for f, elements in enumerate(kinds.elements):
            table[f, : len(elements)] = starts[elements]
        space.index("front elements", table)

    @cached_property
    def _chunk(self) -> int:
        size = self.space.buffers["front"].shape[-1]
        assert isinstance(size, int)
        return size

    def _place(self, i: int, j: int, inner: int, outer: str, own: str) -> tuple[Index, Index, Index]:
        """Where an entry is in the memory of fronts, from the registers at which rows of boundary and pivots begin."""
        first = 0 if i < inner else inner
        before = sum(k // self._chunk + 1 for k in range(first, i))
        return Index(outer if i < inner else own, before), Index(None, j // self._chunk), Index(None, j % self._chunk)

    def _own(self, kind: FrontKind, i: int, j: int) -> tuple[Index, Index, Index]:
        return self._place(i, j, kind.inner, "boundary at", "pivots at")

    def _lookups(self, kind: FrontKind) -> list[Statement]:
        """Where the numbers of the front begin, and its unknowns."""
        f = Index("f")
        unknowns = [Lookup(_unknown(i), Address("front unknowns", (f, Index(None, i)))) for i in range(kind.size)]
        return [
            Lookup("boundary at", Address("boundary rows", (f,))),
            Lookup("pivots at", Address("pivot rows", (f,))),
            *unknowns,
        ]

    def inwards(self, number: int) -> list[Statement]:
        """Elimination of its pivots; what is left on the boundary goes to the parent."""
        kind, code = self.kinds.kinds[number], Code()
        F = self._assembled(kind, code)
        y, sizes = self._right(kind, code), self._sizes(kind, code)
        rows = PivotRows(code, lambda i, j: self._own(kind, i, j))
        worst = dict[bool, Any]()
        for p in range(kind.size - 1, kind.single, -2):
            self._solve_pair(kind, p, F, y, sizes)
            rows.keep(F, p - 1, p - 1)
        for p in reversed(range(kind.inner, kind.single)):
            inverse = 1 / F[p, p]
            if kind.complete:
                self._judge(code, worst, kind.multipliers[p], F[p, p], sizes[p])
            else:
                code.store(F[p, p], "pivot", Index(_unknown(p)))
            code.store(inverse, "inverse", Index(_unknown(p)))
            scaled = y[p] * inverse
            row = [j for j in range(p) if not is_zero(F[p, j])]
            for i in row:
                factor = F[p, i] * inverse
                y[i] = y[i] - F[p, i] * scaled
                for j in row[: row.index(i) + 1]:
                    F[i, j] = F[i, j] - factor * F[p, j]
            rows.keep(F, p, p)
        for i in self._right_needed(kind):
            if i not in kind.right_taken or y[i] is not code.load("y", Index(_unknown(i))):
                code.store(y[i], "y", Index(_unknown(i)))
        for i in sorted(kind.eliminated().sizes):
            if i < kind.inner or not kind.complete:
                code.store(sizes[i], "size", Index(_unknown(i)))
        for multiplier, x in worst.items():
            code.store(x, "worst", Index(None, int(multiplier)))
        self._hand_up(kind, code, F)
        self.rows.append(rows)
        parent = [
            Lookup("boundary of parent", Address("boundary rows", (Index("parent"),))),
            Lookup("pivots of parent", Address("pivot rows", (Index("parent"),))),
        ]
        return [*self._lookups(kind), *self._elements(range(len(kind.entries))), *parent, code.block()]

    def _elements(self, numbers: Iterable[int]) -> list[Statement]:
        """Where the numbers of some of its elements begin."""
        return [Lookup(_element(k), Address("front elements", (Index("f"), Index(None, k)))) for k in numbers]

    def _right_needed(self, kind: FrontKind) -> list[int]:
        """Rows whose right-hand side others need, or the way out: not of components that a row is solved for."""
        found = kind.eliminated().right
        return [i for i in range(kind.size) if i in found and (i < kind.single or (i - kind.single) % 2 == 0)]

    def _right(self, kind: FrontKind, code: Code) -> list[Any]:
        """Right-hand sides before the elimination."""
        y: list[Any] = [0] * kind.size
        for i in kind.right_taken:
            y[i] = code.load("y", Index(_unknown(i)))
        for k, loads in enumerate(kind.loads):
            for i, share in loads:
                y[i] = y[i] + _number(code, k, share)
        return y

    def _sizes(self, kind: FrontKind, code: Code) -> list[Any]:
        """Sizes of pivots before the elimination: of motions the sum of what elements have on the diagonal, of rows how
        far each body alone would let them move."""
        sizes: list[Any] = [0] * kind.size
        for i in kind.sizes_taken:
            sizes[i] = code.load("size", Index(_unknown(i)))
        inertia: dict[int, Any] = {}
        felt: dict[Pair, Any] = {}
        for k, entries in enumerate(kind.entries):
            for i, j, share in entries:
                if i == j and not kind.multipliers[i]:
                    inertia[i] = inertia.get(i, 0) + _number(code, k, share)
                for pair in kind.felt(i, j, share):
                    felt[pair] = felt.get(pair, 0) + _number(code, k, share)
        if kind.complete:
            for i, x in inertia.items():
                sizes[i] = sizes[i] + x
            for i in range(kind.inner, kind.size):
                sizes[i] = sizes[i] + kind.carried_inertia[i] if kind.carried_inertia[i] else sizes[i]
        for (row, motion), x in felt.items():
            free = free_mobility(inertia.get(motion, 0), kind.least_inertia[motion])
            sizes[row] = sizes[row] + x * free * x
        return sizes

    def _judge(self, code: Code, worst: dict[bool, Any], multiplier: bool, pivot: Any, size: Any) -> None:
        """The smallest margin of pivots of motions, or of rows, so far; one that is NaN is none."""
        margin = (-pivot if multiplier else pivot) - PIVOT_TOLERANCE * size
        before = worst[multiplier] if multiplier in worst else code.load("worst", Index(None, int(multiplier)))
        worst[multiplier] = select(less(margin, before), margin, before)

    def _solve_pair(self, kind: FrontKind, p: int, F: Array, y: list[Any], sizes: list[Any]) -> None:
        """Component p and the row before it, which is solved for it: what both leave to others."""
        m, first, second = F[p, p], F[p, : p - 1].copy(), F[p - 1, : p - 1].copy()
        rest = y[p] - m * y[p - 1]
        for i in range(p - 1):
            left = first[i] - m * second[i]
            y[i] = y[i] - first[i] * y[p - 1] - second[i] * rest
            if not kind.multipliers[i] and not is_zero(second[i]):
                sizes[i] = sizes[i] + second[i] * m * second[i]
            for j in range(i + 1):
                F[i, j] = F[i, j] - second[i] * first[j] - left * second[j]

    def _assembled(self, kind: FrontKind, code: Code) -> Array:
        """Lower triangle of the front before its elimination: from its children and its elements."""
        F = np.zeros((kind.size, kind.size), dtype=object)
        for i, j in kind.taken:
            F[i, j] = code.load("front", *self._own(kind, i, j))
        for k, entries in enumerate(kind.entries):
            for i, j, share in entries:
                F[i, j] = F[i, j] + _number(code, k, share)
        return F

    def _hand_up(self, kind: FrontKind, code: Code, F: Array) -> None:
        """What is left on the boundary, to the parent."""
        for i in range(kind.inner):
            for j in range(i + 1):
                first = (i, j) in kind.stored
                if is_zero(F[i, j]) and not first:
                    continue
                row, column = kind.spread[i], kind.spread[j]
                to = self._place(row, column, kind.inner_of_parent, "boundary of parent", "pivots of parent")
                x = F[i, j] if first else code.load("front", *to) + F[i, j]
                code.store(x, "front", *to)

    def outwards(self, number: int) -> list[Statement]:
        """Substitution: its unknowns, from those of the boundary."""
        kind, code = self.kinds.kinds[number], Code()
        rows, right = self.rows[number], kind.eliminated().right
        x: dict[int, Any] = {}

        def rest(p: int) -> Any:
            total: Any = code.load("y", Index(_unknown(p))) if p in right else 0
            for j, value in rows.of(p, code):
                if j not in x:
                    x[j] = code.load("x", Index(_unknown(j)))
                total = total - value * x[j]
            return total

        for p in range(kind.inner, kind.single):
            x[p] = rest(p) * code.load("inverse", Index(_unknown(p)))
            code.store(x[p], "x", Index(_unknown(p)))
        for p in range(kind.single + 1, kind.size, 2):
            # the row is solved for its component; its own force is not asked for
            x[p] = rest(p - 1)
            code.store(x[p], "x", Index(_unknown(p)))
        elements = [k for k in range(len(kind.entries)) if _element(k) in rows.registers]
        return [*self._lookups(kind), *self._elements(elements), code.block()]


def free_mobility(inertia: Any, least: Any) -> Any:
    """1 / inertia, or 1 / least where it is less."""
    return 1 / select(less(least, inertia), inertia, least)


class PivotRows:
    """Rows of pivots, kept for the way out: known numbers need no memory, and those of elements are where they were."""

    def __init__(self, code: Code, place: Callable[[int, int], tuple[Index, Index, Index]]) -> None:
        self.code, self.place = code, place
        self.found: dict[int, list[tuple[int, float, Address | None]]] = {}
        """Of each row, of its numbers that are not zero: column, factor, and what it is a factor of."""
        self.addresses: dict[int, Address] = {}
        """Node of the trace -> where its value is."""

    def keep(self, F: Array, p: int, count: int) -> None:
        """Row p of a front, up to ``count``."""
        if not self.addresses:
            own = {x.index: address for address, x in self.code.loads.items() if address.buffer == "values"}
            self.addresses.update(own)
        self.found[p] = [(j, *self._kept(F[p, j], p, j)) for j in range(count) if not is_zero(F[p, j])]

    def _kept(self, x: Any, p: int, j: int) -> tuple[float, Address | None]:
        if not isinstance(x, Traced):
            return float(x), None
        for sign, same in ((1.0, x), (-1.0, -x)):
            if same.index in self.addresses:
                return sign, self.addresses[same.index]
        address = Address("front", self.place(p, j))
        if self.code.loads.get(address) is not x:
            self.code.store(x, "front", *address.indices)
        self.addresses[x.index] = address
        return 1.0, address

    def of(self, p: int, code: Code) -> list[tuple[int, Any]]:
        """Columns and numbers of row p, in other code."""
        return [
            (j, factor if at is None else code.load(at.buffer, *at.indices) * factor) for j, factor, at in self.found[p]
        ]

    @property
    def registers(self) -> set[str | None]:
        """Where elements begin whose numbers are in the rows."""
        places = [at for row in self.found.values() for _, _, at in row]
        return {at.indices[0].register for at in places if at is not None and at.buffer == "values"}


def _number(code: Code, element: int, share: ScaledNumber) -> Any:
    """A number of an element."""
    return share.times(lambda place: code.load("values", Index(_element(element), place)))


def _unknown(i: int) -> str:
    return f"unknown {i}"


def _element(k: int) -> str:
    return f"element {k}"
