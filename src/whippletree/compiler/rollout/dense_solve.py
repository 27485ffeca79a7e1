"""A dense linear system inside a kernel: elimination without exchanges, in loops over its rows.

All columns of a row change alike, so that a CPU has several of them side by side
(:attr:`whippletree.compiler.program.Loop.side_by_side`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.compiler.llvm.packs import MOST_ROUNDS_BESIDE
from whippletree.compiler.program import Address, Block, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.step_space import BLOCK

ROW, COLUMN, PIVOT, PLACE = "matrix row", "column", "pivot", "place in support"
SUPPORT, SUPPORT_SIZE = "support", "support size"
"""Tables, and registers: which of the kinds of support a block's rows have, and how many places that has."""

PIVOT_OF_PAIR, ROW_OF_PAIR = "pivot of pair", "row of pair"
"""Tables: pivots, from the last to the first, with all rows on their way to the base."""

MOST_BANDS = 6
"""Parts of a matrix that are eliminated by code of their own."""

STRANDS = 8
"""Sums of products are added up in so many parts, two vectors full: one after the other, each addition would wait for
the last."""


def padded(n: int) -> int:
    """Room for a row of n numbers: vectors that one state computes at once fill it, and nothing is left over."""
    return -(-n // MOST_ROUNDS_BESIDE) * MOST_ROUNDS_BESIDE


def multiply_in_strands(A: Array, x: Array) -> Any:
    """A @ x for a vector (n,) or matrix (m, n) A."""
    parts = [A[..., i::STRANDS] @ x[i::STRANDS] for i in range(min(STRANDS, len(x)))]
    while len(parts) > 1:
        half = -(-len(parts) // 2)
        parts = [sum(parts[i + half : i + half + 1], parts[i]) for i in range(half)]
    return parts[0]


def add_rows(space: WorkSpace, total: str, factors: str, n: int, rows: str = "B") -> Statement:
    """``total`` (n,) += ``factors`` (3,) times the rows (3, n) of the block in hand."""

    def add(total: Any, own: Array, factors: Array) -> list[Any]:
        return [[total + own @ factors]]

    place = Piece((), (Address(total, (Index(COLUMN),)),))
    block = traced_block(add, [place, _column(rows), space.at(factors, BLOCK)], [place])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def add_row(total: str, factor: Piece, row: Address, n: int) -> Statement:
    """``total`` (n,) += a factor times a row (n,); ``row``: its buffer, and all indices but the last."""
    place = Piece((), (Address(total, (Index(COLUMN),)),))
    own = Piece((), (Address(row.buffer, (*row.indices, Index(COLUMN))),))
    block = traced_block(lambda total, factor, x: [[total + factor * x]], [place, factor, own], [place])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def multiply_rows(space: WorkSpace, product: str, factors: Piece, n: int, rows: str = "B") -> Statement:
    """``product`` (3, n) of the block in hand := factors (3, 3) times its rows (3, n)."""
    block = traced_block(lambda own, factors: [factors @ own], [_column(rows), factors], [_column(product)])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def multiply_row(product: Address, factor: Piece, row: Address, n: int) -> Statement:
    """A row (n,) := a factor times another; the addresses: buffers, and all indices but the last."""
    own, into = (Piece((), (Address(one.buffer, (*one.indices, Index(COLUMN))),)) for one in (row, product))
    block = traced_block(lambda x, factor: [[factor * x]], [own, factor], [into])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def _column(rows: str) -> Piece:
    """The three numbers that the block in hand has in a column."""
    return Piece((3,), tuple(Address(rows, (Index(BLOCK), Index(None, i), Index(COLUMN))) for i in range(3)))


class Band(NamedTuple):
    """Rows of a matrix one after the other, whose entries on either side of the diagonal end at the same columns."""

    first: int
    rows: int
    width: int
    """Of all rows of the matrix."""

    def all(self, block: Block) -> Statement:
        """A block for every column."""
        return Loop(COLUMN, self.width, (block,), side_by_side=True)

    def before(self, block: Block) -> Statement:
        """A block for the columns up to the diagonal of the last row."""
        return Loop(COLUMN, min(padded(self.first + self.rows), self.width), (block,), side_by_side=True)

    def after(self, block: Block) -> Statement:
        """A block for the columns from the diagonal of the first row on, which are counted from there."""
        return Loop(COLUMN, self.width - self.first, (block,), side_by_side=True)


class DenseSolve:
    """Statements that solve K dy = right, n equations in buffers of these names, all of them its own.

    Rows have room for :func:`padded` (n) numbers; what is beyond n stays zero, as it must in rows that are given.

    Velocities at the tips of a tree come last, and are eliminated first: what is made of rows that reach from a contact
    to the base then stays zero between limbs, unless these touch each other. Where no block in hand is on two limbs, a
    pivot is taken from the rows on its way to the base alone, and what no block moves stays as it is; otherwise what is
    zero is looked for while the program runs, and left out, as it is where the tree is not told. A pivot that vanishes
    leads to NaN, which nobody takes.
    """

    def __init__(
        self,
        space: WorkSpace,
        n: int,
        supports: Sequence[Sequence[int]],
        ways: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """
        Args:
            supports: for every block, the places at which its rows may differ from zero.
            ways: for every place, those before it on the way to the base.
        """
        self.space, self.n, self.width = space, n, padded(n)
        size = padded(-(-n // MOST_BANDS))
        self.bands = [Band(first, min(size, n - first), self.width) for first in range(0, n, size)]
        """Rows that are eliminated by code of their own, which leaves out columns that are done with."""
        space.work(
            K=(n, self.width),
            down=(n, self.width),  # shares of a pivot's row that all others have taken away
            up=(n, self.width),  # shares of an unknown that the others lose
            pivot_ease=(self.width,),  # 1 / the pivots
            right=(self.width,),
            dy=(self.width,),
            taken=(3,),  # of a block's rows, in a row of the matrix
            pivot_share=(1,),  # in a row
            coupled=(1,),
        )
        kinds = list(dict.fromkeys(map(tuple, supports))) or [()]
        longest = max(map(len, kinds))
        space.index(SUPPORT, [kinds.index(tuple(places)) for places in supports])
        space.index(SUPPORT_SIZE, [len(places) for places in kinds])
        others = [[i for i in range(n) if i not in {*places}] for places in kinds]
        filled = [[*own, *rest[: max(longest, 1) - len(own)]] for own, rest in zip(kinds, others, strict=True)]
        space.index(ROW, filled)
        self.crossing = [ways is None or bool(own and {*own} != {max(own), *ways[max(own)]}) for own in kinds]
        """Whether rows of a kind of support are on more than one way."""
        self.ways = ways if ways is not None and not all(self.crossing) else None
        if self.ways is not None:
            pairs = [(p, row) for p in reversed(range(n)) for row in reversed(self.ways[p])]
            space.index(PIVOT_OF_PAIR, [p for p, _ in pairs] or [0])
            space.index(ROW_OF_PAIR, [row for _, row in pairs] or [0])
            space.work(met=(n,), crossed=(1,), uncrossed=(1,))
            space.table("crosses", [float(x) for x in self.crossing])

    def identity(self) -> list[Statement]:
        """K := 1."""
        put, one = self.space.put, self._one
        found: list[Statement] = [put(0 if self.ways is None else 1, self.space.at("pivot ease"))]
        if self.ways is not None:
            found.append(put(0, *self.space.each(("met", "crossed"))))
        for band in self.bands:
            row = Index(ROW, band.first)
            zero = (
                band.all(put(0, one("K", row, COLUMN))),
                band.before(put(0, one("down", row, COLUMN))),
                band.after(put(0, one("up", row, Index(COLUMN, band.first)))),
            )
            found.append(Loop(ROW, band.rows, (*zero, put(1, one("K", row, row)))))
        return found

    def add(self, scale: str | None = None, rows: Sequence[int] = range(3), narrow: bool = False) -> list[Statement]:
        """K += Bᵀ E of the block in hand, (3, width) each.

        Args:
            scale: of the three rows of B.
            rows: those that the block has.
            narrow: rows of B have numbers at the places of their support alone, and E is in ``spread``.
        """

        def scale_row(B: Array, *factors: Array) -> list[Any]:
            return [B * factors[0] if factors else B]

        def add(entry: Any, B: Array, E: Array) -> list[Any]:
            return [[entry + B @ E]]

        address = self.space.address
        place, count = Index(PLACE if narrow else ROW), len(rows)
        own = Piece((count,), tuple(Address("B", (Index(BLOCK), Index(None, i), place)) for i in rows))
        taken = Piece((count,), tuple(Address("taken", (Index(None, i),)) for i in range(count)))
        scales = [Piece((count,), tuple(Address(scale, (Index(BLOCK), Index(None, i))) for i in rows))] if scale else []
        take = traced_block(scale_row, [own, *scales], [taken])
        entry = self._one("K", ROW, COLUMN)
        head: tuple[Index, ...] = () if narrow else (Index(BLOCK),)
        name = "spread" if narrow else "E"
        E = Piece((count,), tuple(Address(name, (*head, Index(None, i), Index(COLUMN))) for i in rows))
        block = traced_block(add, [entry, taken, E], [entry])
        note = [] if self.ways is None else [self.space.put(1, self._one("met", ROW))]
        row = (Lookup(ROW, address(ROW, SUPPORT, PLACE)), take, *note, self._along_row(block))
        lookups = (Lookup(SUPPORT, address(SUPPORT, BLOCK)), Lookup(SUPPORT_SIZE, address(SUPPORT_SIZE, SUPPORT)))
        return [*lookups, *self._note_crossing(), Loop(PLACE, Index(SUPPORT_SIZE), row)]

    def _note_crossing(self) -> list[Statement]:
        """Whether rows of some block so far are on two limbs."""
        if self.ways is None or not any(self.crossing):
            return []
        crossed = self.space.at("crossed")
        return [traced_block(lambda x, own: [x + own], [crossed, self._one("crosses", SUPPORT)], [crossed])]

    def factor(self) -> list[Statement]:
        """Eliminate K, from its last unknown to its first."""

        def look(ahead: Any, back: Any) -> list[Any]:
            return [[abs(ahead) + abs(back)]]

        def share(ahead: Any, back: Any, ease: Any) -> list[Any]:
            return [[ahead * ease], [back * ease], [ahead * ease]]

        def eliminate(entry: Any, pivot: Any, share: Array) -> list[Any]:
            return [[entry - share[0] * pivot]]

        at, one = self.space.at, self._one
        found: list[Statement] = []
        for band in reversed(self.bands):
            pivot = Index(PIVOT, band.first)
            pair = [one("K", ROW, pivot), one("K", pivot, ROW)]
            ease = one("pivot ease", pivot)
            places = [one("down", pivot, ROW), one("up", ROW, pivot), at("pivot share")]
            shares = traced_block(share, [*pair, ease], places)
            entry = one("K", ROW, COLUMN)
            block = traced_block(eliminate, [entry, one("K", pivot, COLUMN), at("pivot share")], [entry])
            row = (
                traced_block(look, pair, [at("coupled")]),
                If(self.space.address("coupled"), (shares, band.before(block))),
            )
            invert = traced_block(lambda pivot: [[1 / pivot]], [one("K", pivot, pivot)], [ease])
            found.append(Loop(PIVOT, band.rows, (invert, Loop(ROW, pivot, row)), backwards=True))
        if self.ways is None:
            return found
        if not any(self.crossing):
            return self._factor_along_ways()
        straight = traced_block(lambda x: [[1 - x[0]]], [at("crossed")], [at("uncrossed")])
        address = self.space.address
        return [
            straight,
            If(address("crossed"), tuple(found)),
            If(address("uncrossed"), tuple(self._factor_along_ways())),
        ]

    def _factor_along_ways(self) -> list[Statement]:
        """Eliminate K where no row is on two limbs: all pairs of a pivot and a row in one loop, whose rounds are alike,
        so that each of them inverts its pivot."""

        def share(pivot: Any, ahead: Any, back: Any) -> list[Any]:
            ease = 1 / pivot
            return [[ease], [ahead * ease], [back * ease], [ahead * ease]]

        def eliminate(entry: Any, pivot: Any, share: Array) -> list[Any]:
            return [[entry - share[0] * pivot]]

        assert self.ways is not None
        at, one = self.space.at, self._one
        found: list[Statement] = []
        first = 0
        for band in reversed(self.bands):
            count = sum(len(self.ways[p]) for p in range(band.first, band.first + band.rows))
            reads = [one("K", PIVOT, PIVOT), one("K", ROW, PIVOT), one("K", PIVOT, ROW)]
            writes = [one("pivot ease", PIVOT), one("down", PIVOT, ROW), one("up", ROW, PIVOT), at("pivot share")]
            entry = one("K", ROW, COLUMN)
            block = traced_block(eliminate, [entry, one("K", PIVOT, COLUMN), at("pivot share")], [entry])
            take = (
                Lookup(ROW, Address(ROW_OF_PAIR, (Index(PLACE, first),))),
                traced_block(share, reads, writes),
                band.before(block),
            )
            look_up = Lookup(PIVOT, Address(PIVOT_OF_PAIR, (Index(PLACE, first),)))
            found.append(Loop(PLACE, count, (look_up, If(Address("met", (Index(PIVOT),)), take))))
            first += count
        roots = [Index(None, p) for p, way in enumerate(self.ways) if not way]
        ease = traced_block(
            lambda *pivots: [[1 / x for x in pivots]],
            [one("K", p, p) for p in roots],
            [Piece((len(roots),), tuple(Address("pivot ease", (p,)) for p in roots))],
        )
        return [*found, ease]

    def solve(self) -> list[Statement]:
        """``dy`` from ``right``, which is used up."""

        def take(total: str, pivot: Index) -> Block:
            return traced_block(lambda x: [[x]], [self._one(total, pivot)], [self.space.at("pivot share")])

        def pass_on(shares: str, total: str, pivot: Index, column: Index) -> Block:
            """Take the share of a number from others."""
            entry = self._one(total, column)
            reads = [entry, self._one(shares, pivot, column), self.space.at("pivot share")]
            return traced_block(lambda x, other, share: [[x - other * share[0]]], reads, [entry])

        down: list[Statement] = []
        up: list[Statement] = []
        for band in self.bands:
            pivot = Index(PIVOT, band.first)
            inwards = take("right", pivot), band.before(pass_on("down", "right", pivot, Index(COLUMN)))
            outwards = take("dy", pivot), band.after(pass_on("up", "dy", pivot, Index(COLUMN, band.first)))
            down.insert(0, Loop(PIVOT, band.rows, inwards, backwards=True))
            up.append(Loop(PIVOT, band.rows, outwards))
        reads = [self._one("right", COLUMN), self._one("pivot ease", COLUMN)]
        scale = traced_block(lambda x, ease: [[x * ease]], reads, [self._one("dy", COLUMN)])
        return [*down, self._along_row(scale), *up]

    def _along_row(self, block: Block) -> Statement:
        return Loop(COLUMN, self.width, (block,), side_by_side=True)

    def _one(self, name: str, *places: str | Index) -> Piece:
        indices = [place if isinstance(place, Index) else Index(place) for place in places]
        return Piece((), (Address(name, tuple(indices)),))


def inverse_matrix(A: Array) -> Array:
    """A⁻¹ (n, n) by elimination without exchanges."""
    n = len(A)
    work = np.concatenate([np.array(A, dtype=object), identity(n)], axis=1)
    for p in range(n):
        work[p] = work[p] * (1 / work[p, p])
        for i in range(n):
            if i != p:
                work[i] = work[i] - work[i, p] * work[p]
    return np.asarray(work[:, n:])
