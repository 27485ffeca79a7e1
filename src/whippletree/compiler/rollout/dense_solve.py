"""A dense linear system inside a kernel: elimination without exchanges, in loops over its rows.

All columns of a row change alike, so that a CPU has several of them side by side
(:attr:`whippletree.compiler.program.Loop.side_by_side`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.compiler.program import Address, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.step_space import BLOCK

ROW, COLUMN, PIVOT, BELOW, ROW_BELOW, ROWS_BELOW = "matrix row", "column", "pivot", "below", "row below", "rows below"

STRANDS = 4
"""Sums of products are added up in so many parts: one after the other, each addition would wait for the last."""


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

    A pivot that vanishes leads to NaN, which nobody takes.
    """

    def __init__(self, space: WorkSpace, n: int) -> None:
        self.space, self.n = space, n
        space.work(K=(n, n), multiplier=(n, n), right=(n,), dy=(n,), taken=(3,))
        space.index(ROWS_BELOW, [n - 1 - p for p in range(n)])
        space.index(ROW_BELOW, [[min(p + 1 + i, n - 1) for i in range(max(n - 1, 1))] for p in range(n)])

    def identity(self) -> list[Statement]:
        """K := 1."""
        put = self.space.put
        zero = Loop(COLUMN, self.n, (put(0, self._one("K", ROW, COLUMN)),), side_by_side=True)
        return [Loop(ROW, self.n, (zero, put(1, self._one("K", ROW, ROW))))]

    def add(self, scale: str | None = None) -> Statement:
        """K += Bᵀ E of the block in hand, (3, n) each; ``scale``: of the three rows of B."""

        def scale_row(B: Array, *factors: Array) -> list[Any]:
            return [B * factors[0] if factors else B]

        def add(entry: Any, B: Array, E: Array) -> list[Any]:
            return [[entry + B @ E]]

        at = self.space.at
        own = Piece((3,), tuple(Address("B", (Index(BLOCK), Index(None, i), Index(ROW))) for i in range(3)))
        take = traced_block(scale_row, [own, *([at(scale, BLOCK)] if scale else [])], [at("taken")])
        entry = self._one("K", ROW, COLUMN)
        block = traced_block(add, [entry, at("taken"), _column("E")], [entry])
        return Loop(ROW, self.n, (take, Loop(COLUMN, self.n, (block,), side_by_side=True)))

    def factor(self) -> list[Statement]:
        """Eliminate K; what lies left of its diagonal is no longer meant."""

        def divide(pivot: Any, entry: Any) -> list[Any]:
            return [[entry / pivot]]

        def eliminate(above: Any, entry: Any, share: Any) -> list[Any]:
            return [[entry - share * above]]

        one = self._one
        share = one("multiplier", ROW_BELOW, PIVOT)
        divided = traced_block(divide, [one("K", PIVOT, PIVOT), one("K", ROW_BELOW, PIVOT)], [share])
        entry = one("K", ROW_BELOW, COLUMN)
        block = traced_block(eliminate, [one("K", PIVOT, COLUMN), entry, share], [entry])
        return [self._downwards(divided, Loop(COLUMN, self.n, (block,), side_by_side=True))]

    def solve(self) -> list[Statement]:
        """``dy`` from ``right``, which is used up."""

        def forward(share: Any, above: Any, own: Any) -> list[Any]:
            return [[own - share * above]]

        def substitute(row: Array, pivot: Any, b: Any, dy: Array) -> list[Any]:
            return [[(b - multiply_in_strands(row, dy)) / pivot]]

        at, one = self.space.at, self._one
        reads = [one("multiplier", ROW_BELOW, PIVOT), one("right", PIVOT), one("right", ROW_BELOW)]
        down = traced_block(forward, reads, [one("right", ROW_BELOW)])
        # what is not yet known of dy is zero, whatever lies left of the diagonal
        up = traced_block(
            substitute, [at("K", PIVOT), one("K", PIVOT, PIVOT), one("right", PIVOT), at("dy")], [one("dy", PIVOT)]
        )
        return [self._downwards(down), self.space.put(0, at("dy")), Loop(PIVOT, self.n, (up,), backwards=True)]

    def _downwards(self, *own: Statement) -> Statement:
        """For every pivot, all rows below it."""
        inner = Loop(BELOW, Index(ROWS_BELOW), (Lookup(ROW_BELOW, self.space.address(ROW_BELOW, PIVOT, BELOW)), *own))
        return Loop(PIVOT, self.n, (Lookup(ROWS_BELOW, self.space.address(ROWS_BELOW, PIVOT)), inner))

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
