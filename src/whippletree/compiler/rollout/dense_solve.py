"""A dense linear system inside a kernel: elimination without exchanges, in loops over its rows.

All columns of a row change alike, so that a CPU has several of them side by side
(:attr:`whippletree.compiler.program.Loop.side_by_side`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.compiler.llvm.packs import WIDTH
from whippletree.compiler.program import Address, Block, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.step_space import BLOCK

ROW, COLUMN, PIVOT, PLACE = "matrix row", "column", "pivot", "place in support"
SUPPORT, SUPPORT_SIZE = "support", "support size"
"""Tables, and registers: which of the kinds of support a block's rows have, and how many places that has."""

STRANDS = 4
"""Sums of products are added up in so many parts: one after the other, each addition would wait for the last."""


def padded(n: int) -> int:
    """Room for a row of n numbers: vectors that one state computes at once fill it, and nothing is left over."""
    return -(-n // WIDTH) * WIDTH


def multiply_in_strands(A: Array, x: Array) -> Any:
    """A @ x for a vector (n,) or matrix (m, n) A."""
    return sum(
        (A[..., i::STRANDS] @ x[i::STRANDS] for i in range(1, min(STRANDS, len(x)))), A[..., ::STRANDS] @ x[::STRANDS]
    )


def add_rows(space: WorkSpace, total: str, factors: str, n: int, rows: str = "B") -> Statement:
    """``total`` (n,) += ``factors`` (3,) times the rows (3, n) of the block in hand."""

    def add(total: Any, own: Array, factors: Array) -> list[Any]:
        return [[total + own @ factors]]

    place = Piece((), (Address(total, (Index(COLUMN),)),))
    block = traced_block(add, [place, _column(rows), space.at(factors, BLOCK)], [place])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def add_row(space: WorkSpace, total: str, factor: str, row: str, n: int) -> Statement:
    """``total`` (n,) += a factor times a row (n,) of the block in hand."""
    place, own = (
        Piece((), (Address(name, indices),))
        for name, indices in ((total, (Index(COLUMN),)), (row, (Index(BLOCK), Index(COLUMN))))
    )
    block = traced_block(lambda total, factor, x: [[total + factor[0] * x]], [place, space.at(factor), own], [place])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def multiply_rows(space: WorkSpace, product: str, factors: Piece, n: int, rows: str = "B") -> Statement:
    """``product`` (3, n) of the block in hand := factors (3, 3) times its rows (3, n)."""
    block = traced_block(lambda own, factors: [factors @ own], [_column(rows), factors], [_column(product)])
    return Loop(COLUMN, n, (block,), side_by_side=True)


def _column(rows: str) -> Piece:
    """The three numbers that the block in hand has in a column."""
    return Piece((3,), tuple(Address(rows, (Index(BLOCK), Index(None, i), Index(COLUMN))) for i in range(3)))


class DenseSolve:
    """Statements that solve K dy = right, n equations in buffers of these names, all of them its own.

    Rows have room for :func:`padded` (n) numbers; what is beyond n stays zero, as it must in rows that are given.

    Velocities at the tips of a tree come last, and are eliminated first: what is made of rows that reach from a contact
    to the base then stays zero between limbs, unless these touch each other. What is zero is looked for while the
    program runs, and left out. A pivot that vanishes leads to NaN, which nobody takes.
    """

    def __init__(self, space: WorkSpace, n: int, supports: Sequence[Sequence[int]]) -> None:
        """``supports``: for every block, the places at which its rows may differ from zero."""
        self.space, self.n, self.width = space, n, padded(n)
        space.work(
            K=(n, self.width),
            down=(n, self.width),  # shares of a pivot's row that all others have taken away
            up=(n, self.width),  # shares of an unknown that the others lose
            pivot_ease=(self.width,),  # 1 / the pivots
            right=(self.width,),
            dy=(self.width,),
            taken=(3,),
            coupled=(1,),
        )
        kinds = list(dict.fromkeys(map(tuple, supports))) or [()]
        longest = max(map(len, kinds))
        space.index(SUPPORT, [kinds.index(tuple(places)) for places in supports])
        space.index(SUPPORT_SIZE, [len(places) for places in kinds])
        space.index(ROW, [[*places, *[0] * (max(longest, 1) - len(places))] for places in kinds])

    def identity(self) -> list[Statement]:
        """K := 1."""
        put, one = self.space.put, self._one
        zero = self._along_row(put(0, *[one(name, ROW, COLUMN) for name in ("K", "down", "up")]))
        return [put(0, self.space.at("pivot ease")), Loop(ROW, self.n, (zero, put(1, one("K", ROW, ROW))))]

    def add(self, scale: str | None = None) -> list[Statement]:
        """K += Bᵀ E of the block in hand, (3, width) each; ``scale``: of the three rows of B."""

        def scale_row(B: Array, *factors: Array) -> list[Any]:
            return [B * factors[0] if factors else B]

        def add(entry: Any, B: Array, E: Array) -> list[Any]:
            return [[entry + B @ E]]

        at, address = self.space.at, self.space.address
        own = Piece((3,), tuple(Address("B", (Index(BLOCK), Index(None, i), Index(ROW))) for i in range(3)))
        take = traced_block(scale_row, [own, *([at(scale, BLOCK)] if scale else [])], [at("taken")])
        entry = self._one("K", ROW, COLUMN)
        block = traced_block(add, [entry, at("taken"), _column("E")], [entry])
        row = (Lookup(ROW, address(ROW, SUPPORT, PLACE)), take, self._along_row(block))
        lookups = (Lookup(SUPPORT, address(SUPPORT, BLOCK)), Lookup(SUPPORT_SIZE, address(SUPPORT_SIZE, SUPPORT)))
        return [*lookups, Loop(PLACE, Index(SUPPORT_SIZE), row)]

    def factor(self) -> list[Statement]:
        """Eliminate K, from its last unknown to its first."""

        def look(ahead: Any, back: Any) -> list[Any]:
            return [[abs(ahead) + abs(back)]]

        def share(ahead: Any, back: Any, ease: Any) -> list[Any]:
            return [[ahead * ease], [back * ease], [ahead * ease, 0, 0]]

        def eliminate(entry: Any, pivot: Any, taken: Array) -> list[Any]:
            return [[entry - taken[0] * pivot]]

        at, one = self.space.at, self._one
        pair = [one("K", ROW, PIVOT), one("K", PIVOT, ROW)]
        ease = one("pivot ease", PIVOT)
        shares = traced_block(share, [*pair, ease], [one("down", PIVOT, ROW), one("up", ROW, PIVOT), at("taken")])
        entry = one("K", ROW, COLUMN)
        block = traced_block(eliminate, [entry, one("K", PIVOT, COLUMN), at("taken")], [entry])
        row = (
            traced_block(look, pair, [at("coupled")]),
            If(self.space.address("coupled"), (shares, self._along_row(block))),
        )
        invert = traced_block(lambda pivot: [[1 / pivot]], [one("K", PIVOT, PIVOT)], [ease])
        return [Loop(PIVOT, self.n, (invert, Loop(ROW, Index(PIVOT), row)), backwards=True)]

    def solve(self) -> list[Statement]:
        """``dy`` from ``right``, which is used up."""

        def pass_on(shares: str, total: str, backwards: bool) -> Statement:
            """Take the share of every number in turn from those after it."""
            entry = self._one(total, COLUMN)
            take = traced_block(lambda x: [[x, 0, 0]], [self._one(total, PIVOT)], [self.space.at("taken")])
            block = traced_block(
                lambda x, share, taken: [[x - share * taken[0]]],
                [entry, self._one(shares, PIVOT, COLUMN), self.space.at("taken")],
                [entry],
            )
            return Loop(PIVOT, self.n, (take, self._along_row(block)), backwards=backwards)

        reads = [self._one("right", COLUMN), self._one("pivot ease", COLUMN)]
        scale = traced_block(lambda x, ease: [[x * ease]], reads, [self._one("dy", COLUMN)])
        return [pass_on("down", "right", True), self._along_row(scale), pass_on("up", "dy", False)]

    def _along_row(self, block: Block) -> Statement:
        return Loop(COLUMN, self.width, (block,), side_by_side=True)

    def _one(self, name: str, *registers: str) -> Piece:
        return Piece((), (self.space.address(name, *registers),))


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
