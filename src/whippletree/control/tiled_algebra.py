"""Linear algebra inside a kernel, four numbers at a time: products, a factor, a solution, as statements.

A vector of 4 N numbers is a buffer (N, 4) of *groups*, a matrix with 4 M rows is a buffer (M, 4, N, 4), row after row.
The innermost loop runs over the four numbers of a group, side by side (:class:`~whippletree.compiler.program.Loop`): on
one state it is one instruction. So functions given here see single numbers, and code is short for any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Block, Index, Lookup, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace

TILE = 4
"""Numbers of a group; rows and columns of a tile."""

LEAST_PIVOT = 1e-15
"""Share of its diagonal entry below which a pivot is what rounding left of zero: nothing moves along it."""

LANE, GROUP = "lane", "group"
I, J, K, LINE, NUMBER = "tile row", "tile column", "tile done", "line", "number"


def groups(count: int) -> int:
    """How many groups hold so many numbers."""
    return -(-count // TILE)


class TiledAlgebra:
    """Statements on buffers of a work space, by name."""

    def __init__(self, space: WorkSpace) -> None:
        self.space = space
        # a tile or group that others are changed by is copied first: what is written side by side is read nowhere else
        space.work(row_sums=(TILE, TILE), own_tile=(TILE, TILE), own_group=(TILE,))

    def lanes(self, function: Callable[..., Any], reads: Sequence[Piece], writes: Sequence[Piece]) -> Statement:
        """A function of single numbers for the four numbers of a group."""
        return Loop(LANE, TILE, (traced_block(function, reads, writes),), side_by_side=True)

    def each(
        self, count: int, function: Callable[..., Any], reads: Sequence[Piece], writes: Sequence[Piece],
        register: Register = GROUP,
    ) -> list[Statement]:  # fmt: skip
        """:meth:`lanes` for many groups."""
        return [Loop(register, count, (self.lanes(function, reads, writes),))] if count else []

    def fill(self, name: str, value: float) -> list[Statement]:
        """Every number of a buffer whose last dimension is a multiple of four := value."""
        buffer = self.space.buffers[name]
        if buffer.empty:
            return []
        *outer, last = (int(size) for size in buffer.shape)
        registers = [f"{name} {k}" for k in range(len(outer) - 1)]
        to = self.space.at(name, *registers, *[None] * (len(outer) > 0), LANE)
        block = traced_block(lambda: [[value] * len(to.addresses)], [], [to])
        statement: Statement = Loop(LANE, last, (block,), side_by_side=True)
        for register, size in zip(reversed(registers), reversed(outer[:-1])):
            statement = Loop(register, size, (statement,))
        return [statement]

    def products(
        self, matrix: str, x: str, finish: Callable[..., Any], reads: Sequence[Piece], writes: Sequence[Piece]
    ) -> list[Statement]:
        """``finish(M x, …)`` for every four rows of a matrix; pieces are at the register :data:`GROUP`."""
        at = self.space.at
        count = int(self.space.buffers[matrix].shape[0])

        def parts(M: Array, x: Array) -> list[Any]:
            return [sum_of_products(row, x) for row in M]

        sums = self.lanes(parts, [at(matrix, GROUP, None, None, LANE), at(x, None, LANE)], [at("row sums", None, LANE)])

        def rows(parts: Array, *rest: Any) -> list[Any]:
            return list(finish((parts[:, 0] + parts[:, 1]) + (parts[:, 2] + parts[:, 3]), *rest))

        end = traced_block(rows, [at("row sums"), *reads], writes)
        return [Loop(GROUP, count, (sums, end))] if count else []

    def combine(
        self, count: int, start: Callable[..., Any], reads: Sequence[Piece], to: str, *sums: tuple[str, str]
    ) -> list[Statement]:
        """to := start(…) + Σ Mᵀ w over some pairs of a matrix M and a vector w, which may hold more than M has rows."""
        at, buffers = self.space.at, self.space.buffers
        present = [(matrix, weights) for matrix, weights in sums if not buffers[matrix].empty]
        more = [at(matrix, None, None, GROUP, LANE) for matrix, _ in present]
        more += [at(weights) for _, weights in present]

        def total(*numbers: Any) -> list[Any]:
            own, rest = numbers[: len(reads)], numbers[len(reads) :]
            found = start(*own)
            for M, w in zip(rest[: len(present)], rest[len(present) :], strict=True):
                found = found + sum_of_products(np.ravel(M), np.ravel(w)[: M.size])
            return [found]

        return self.each(count, total, [*reads, *more], [at(to, GROUP, LANE)])

    def weigh(self, matrix: str, weights: str, to: str) -> list[Statement]:
        """to := diag(weights) M, row by row."""
        at, (count, _, tiles, _) = self.space.at, self.space.buffers[matrix].shape
        here, there = at(matrix, GROUP, None, J, LANE), at(to, GROUP, None, J, LANE)
        block = self.lanes(lambda M, w: [M * w], [here, at(weights, GROUP)], [there])
        return [Loop(GROUP, count, (Loop(J, tiles, (block,)),))] if count else []

    def gram(self, left: str, right: str, to: str) -> list[Statement]:
        """to := to + Mᵀ N for matrices ``left`` and ``right`` with the same rows; tiles on the diagonal and below it.

        Tiles of ``right`` that are zero by structure (:meth:`know_zeros`) are left out.
        """
        at, listed = self.space.at, self.space.buffers.get(f"tiles of {right}")
        if listed is None:
            self.know_zeros(right, np.ones(self.space.buffers[right].shape[::2], dtype=bool))
            listed = self.space.buffers[f"tiles of {right}"]
        here = at(to, I, None, J, LANE)

        def add(h: Array, a: Array, b: Array) -> list[Any]:
            for k in range(TILE):
                h = h + a[k] * b[k]
            return [h]

        block = self.lanes(add, [here, at(left, GROUP, None, I, None), at(right, GROUP, None, J, LANE)], [here])
        places = [
            Lookup(register, Address(listed.name, (Index(NUMBER), Index(None, k))))
            for k, register in enumerate((GROUP, I, J))
        ]
        return [Loop(NUMBER, int(listed.shape[0]), (*places, block))] if not listed.empty else []

    def know_zeros(self, matrix: str, filled: Array) -> None:
        """Say which tiles of a matrix, (row groups, tiles), are not zero by structure; all, if it is not said."""
        found = [
            (group, i, j)
            for group, row in enumerate(filled)
            for i in np.flatnonzero(row)
            for j in np.flatnonzero(row[: i + 1])
        ]
        self.space.index(f"tiles of {matrix}", np.array(found, dtype=np.int64).reshape(-1, 3))

    def copy_lower(self, H: str, to: str) -> list[Statement]:
        """to := H, tiles on the diagonal and below it."""
        at, tiles = self.space.at, self.space.buffers[H].shape[0]
        copy = self.lanes(lambda h: [h], [at(H, I, None, J, LANE)], [at(to, I, None, J, LANE)])
        return [Loop(I, tiles, (Loop(J, Index(I, 1), (copy,)),))]

    def factor(self, H: str, inverse: str) -> list[Statement]:
        """H = Gᵀ G, G below the diagonal in place of H, the inverses of its diagonal tiles, transposed, apart.

        The last unknowns go first: rows of G then are rows of memory.
        """
        at, tiles = self.space.at, int(self.space.buffers[H].shape[0])

        def solve_triangle(h: Array, inverse: Array) -> list[Any]:
            return [[h[: k + 1] @ inverse[k, : k + 1] for k in range(TILE)]]

        def minus(h: Array, a: Array, b: Array) -> list[Any]:
            for k in range(TILE):
                h = h - a[k] * b[k]
            return [h]

        invert = traced_block(lambda H: [inverse_factor(H)], [at(H, K, None, K, None)], [at(inverse, K)])
        row = at(H, K, None, J, LANE)
        scale = self.lanes(solve_triangle, [row, at(inverse, K)], [row])
        here = at(H, I, None, J, LANE)
        take = traced_block(lambda a: [a], [at(H, K, None, I, None)], [at("own tile")])
        update = self.lanes(minus, [here, at("own tile"), at(H, K, None, J, LANE)], [here])
        below = Loop(I, Index(K), (take, Loop(J, Index(I, 1), (update,))))
        return [Loop(K, tiles, (invert, Loop(J, Index(K), (scale,)), below), backwards=True)]

    def solve(self, H: str, inverse: str, x: str) -> list[Statement]:
        """x := H⁻¹ x, from the factor."""
        at, tiles = self.space.at, int(self.space.buffers[H].shape[0])
        row = at(H, K, None, J, LANE)

        def minus(x: Any, G: Array, y: Array) -> list[Any]:
            return [x - sum_of_products(G, y)]

        down = self.lanes(minus, [at(x, J, LANE), row, at("own group")], [at(x, J, LANE)])
        ahead = traced_block(lambda x, L: [L @ x] * 2, [at(x, K), at(inverse, K)], [at(x, K), at("own group")])
        sums = at("row sums", None, LANE)
        more = self.lanes(lambda s, G, x: [s + G * x], [sums, row, at(x, J, LANE)], [sums])
        clear = self.lanes(lambda: [[0] * TILE], [], [sums])

        def finish(x: Array, L: Array, parts: Array) -> list[Any]:
            return [L.T @ (x - ((parts[:, 0] + parts[:, 1]) + (parts[:, 2] + parts[:, 3])))]

        back = traced_block(finish, [at(x, K), at(inverse, K), at("row sums")], [at(x, K)])
        return [
            Loop(K, tiles, (ahead, Loop(J, Index(K), (down,))), backwards=True),
            Loop(K, tiles, (clear, Loop(J, Index(K), (more,)), back)),
        ]


def filled_tiles(block: Block, space: WorkSpace, matrix: str) -> Array:
    """Which tiles of a matrix a block writes to, (row groups, tiles)."""
    count, _, tiles, _ = space.buffers[matrix].shape
    found = np.zeros((int(count), int(tiles)), dtype=bool)
    for address in block.stores:
        if address.buffer == matrix:
            group, _, tile, _ = (index.offset for index in address.indices)
            found[group, tile] = True
    return found


def sum_of_products(a: Any, b: Any) -> Any:
    """Σ aᵢ bᵢ in two sums that do not wait for each other."""
    parts = [a[k::2] @ b[k::2] for k in range(min(2, len(a)))]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1] if parts else 0


def inverse_factor(A: Array) -> Array:
    """L⁻¹ of a tile A = L Lᵀ; along a pivot that is rounding nothing moves."""
    n = len(A)
    L, inverse = zeros(n, n), zeros(n, n)
    for j in range(n):
        pivot = A[j, j] - L[j, :j] @ L[j, :j]
        counts = less(LEAST_PIVOT * A[j, j], pivot)
        inverse[j, j] = select(counts, 1 / sqrt(select(counts, pivot, 1)), 0)
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - L[i, :j] @ L[j, :j]) * inverse[j, j]
    for j in range(n):
        for i in range(j + 1, n):
            inverse[i, j] = -inverse[i, i] * (L[i, j:i] @ inverse[j:i, j])
    return inverse
