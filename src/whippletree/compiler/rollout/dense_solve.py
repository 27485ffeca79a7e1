"""A dense linear system inside a kernel: elimination without exchanges, in loops over its rows."""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Address, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.step_space import BLOCK

ROW, PIVOT, BELOW, ROW_BELOW, ROWS_BELOW = "matrix row", "pivot", "below", "row below", "rows below"


class DenseSolve:
    """Statements that solve K dy = right, n equations in buffers of these names, all of them its own.

    A pivot that vanishes leads to NaN, which nobody takes.
    """

    def __init__(self, space: WorkSpace, n: int) -> None:
        self.space, self.n = space, n
        space.work(K=(n, n), multiplier=(n, n), right=(n,), dy=(n,))
        space.index(ROWS_BELOW, [n - 1 - p for p in range(n)])
        space.index(ROW_BELOW, [[min(p + 1 + i, n - 1) for i in range(max(n - 1, 1))] for p in range(n)])

    def identity(self) -> list[Statement]:
        """K := 1."""
        put = self.space.put
        return [Loop(ROW, self.n, (put(0, self.space.at("K", ROW)), put(1, self._one("K", ROW, ROW))))]

    def add(self, scale: str | None = None) -> Statement:
        """K += Bᵀ E of the block in hand, (3, n) each; ``scale``: of the three rows of B."""

        def add(row: Array, B: Array, E: Array, *factors: Array) -> list[Any]:
            return [row + (B * factors[0] if factors else B) @ E]

        at = self.space.at
        column = Piece((3,), tuple(Address("B", (Index(BLOCK), Index(None, i), Index(ROW))) for i in range(3)))
        reads = [at("K", ROW), column, at("E", BLOCK), *([at(scale, BLOCK)] if scale else [])]
        return Loop(ROW, self.n, (traced_block(add, reads, [at("K", ROW)]),))

    def factor(self) -> list[Statement]:
        """Eliminate K; what lies left of its diagonal is no longer meant."""

        def eliminate(above: Array, row: Array, pivot: Any, entry: Any) -> list[Any]:
            share = entry / pivot
            return [row - share * above, [share]]

        at, one = self.space.at, self._one
        reads = [at("K", PIVOT), at("K", ROW_BELOW), one("K", PIVOT, PIVOT), one("K", ROW_BELOW, PIVOT)]
        block = traced_block(eliminate, reads, [at("K", ROW_BELOW), one("multiplier", ROW_BELOW, PIVOT)])
        return [self._downwards(block)]

    def solve(self) -> list[Statement]:
        """``dy`` from ``right``, which is used up."""

        def forward(share: Any, above: Any, own: Any) -> list[Any]:
            return [[own - share * above]]

        def substitute(row: Array, pivot: Any, b: Any, dy: Array) -> list[Any]:
            return [[(b - row @ dy) / pivot]]

        at, one = self.space.at, self._one
        reads = [one("multiplier", ROW_BELOW, PIVOT), one("right", PIVOT), one("right", ROW_BELOW)]
        down = traced_block(forward, reads, [one("right", ROW_BELOW)])
        # what is not yet known of dy is zero, whatever lies left of the diagonal
        up = traced_block(
            substitute, [at("K", PIVOT), one("K", PIVOT, PIVOT), one("right", PIVOT), at("dy")], [one("dy", PIVOT)]
        )
        return [self._downwards(down), self.space.put(0, at("dy")), Loop(PIVOT, self.n, (up,), backwards=True)]

    def _downwards(self, block: Statement) -> Statement:
        """For every pivot, all rows below it."""
        inner = Loop(BELOW, Index(ROWS_BELOW), (Lookup(ROW_BELOW, self.space.address(ROW_BELOW, PIVOT, BELOW)), block))
        return Loop(PIVOT, self.n, (Lookup(ROWS_BELOW, self.space.address(ROWS_BELOW, PIVOT)), inner))

    def _one(self, name: str, *registers: str) -> Piece:
        return Piece((), (self.space.address(name, *registers),))
