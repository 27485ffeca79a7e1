"""Complex linear systems inside a program, several side by side, of a size that the call decides.

The systems differ by numbers, not by structure, so they are eliminated together: the lanes of a vector are systems. All
exchange the same rows, and only where a pivot is small against its column in one of them: the row whose least pivot,
against the largest of its column in each system, is the largest takes its place.

Elimination goes from the last row to the first, so that what is left of a matrix is what lies before a counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, maximum, minimum, select
from whippletree.compiler.program import Collect, Dimension, Each, If, Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace

PIVOT, ROW, COLUMN, CANDIDATE, OTHER = "pivot", "matrix row", "matrix column", "candidate", "other row"

EXCHANGED_PIVOT = 1e-2
"""Square of a pivot against that of its column's largest entry below which rows are exchanged."""

LEAST_COMMON_PIVOT = 1e-24
"""The same, of the best row for all systems, from which they are in doubt."""

LEAST_COLUMN = 1e-300
"""Square of the largest entry of a column that counts as zero."""


class ComplexElimination:
    """Statements that solve W x = right for ``count`` systems of ``size`` equations.

    Buffers of its own: W (size, size, 2, count) and right (size, 2, count), real and imaginary parts of all systems.
    """

    def __init__(self, space: WorkSpace, size: Dimension, count: int) -> None:
        self.space, self.size = space, size
        space.work(W=(size, size, 2, count), right=(size, 2, count))
        space.work(largest=(count,), quality=(size,), best=(1,), exchanges=(size,), chosen=(size, size))
        for name in ("exchanged", "exchanged_again"):
            space.numbers_list(name, size)

    def factor(self) -> list[Statement]:
        """Eliminate W in place; ``doubt`` is raised where no row has a pivot for all systems."""
        at, address = self.space.at, self.space.address
        whole = Index(PIVOT, 1)
        pivot, own, above = at("W", PIVOT, PIVOT), at("W", ROW, PIVOT), at("W", PIVOT, COLUMN)

        def judge(pivot: Array, largest: Array) -> list[Any]:
            return [select(less(_quality(pivot, largest), EXCHANGED_PIVOT), 1, -1)]

        def swap(a: Array, b: Array) -> list[Array]:
            return [b, a]

        def share(own: Array, inverse: Array) -> list[Array]:
            return [complex_product(own, inverse)]

        def eliminate(entry: Array, share: Array, above: Array) -> list[Array]:
            return [entry - complex_product(share, above)]

        rows = [above, at("W", OTHER, COLUMN)]
        exchange = (
            *self._choose(),
            Collect("exchanged", CANDIDATE, self.size, address("chosen", PIVOT, CANDIDATE)),
            Each(OTHER, "exchanged", (Loop(COLUMN, whole, (traced_block(swap, rows, rows),)),)),
        )
        entry = at("W", ROW, COLUMN)
        below = (
            traced_block(share, [own, pivot], [own]),
            Loop(COLUMN, Index(PIVOT), (traced_block(eliminate, [entry, own, above], [entry]),)),
        )
        look = (
            self.space.put(0, at("largest")),
            Loop(ROW, whole, (traced_block(_larger, [at("largest"), own], [at("largest")]),)),
            traced_block(judge, [pivot, at("largest")], [at("exchanges", PIVOT)]),
            If(address("exchanges", PIVOT), exchange),
            traced_block(lambda x: [_inverse(x)], [pivot], [pivot]),
        )
        return [Loop(PIVOT, self.size, (*look, Loop(ROW, Index(PIVOT), below)), backwards=True)]

    def _choose(self) -> list[Statement]:
        """``chosen``: 1 for the row that takes the place of the pivot's, of those that are left."""
        at, each, put = self.space.at, self.space.each, self.space.put

        def rate(own: Array, largest: Array, best: Array) -> list[Any]:
            quality = _quality(own, largest)
            return [quality, [maximum(best[0], quality)]]

        def choose(quality: Any, best: Array) -> list[Any]:
            found = ~less(quality, best[0])
            # the first of several: no other is as good as what is now asked for
            return [select(found, 1, -1), [select(found, 2, best[0])]]

        def judge(best: Array, doubt: Array) -> list[Any]:
            return [[select(less(LEAST_COMMON_PIVOT, best[0]), doubt[0], 1)]]

        reads = [at("W", ROW, PIVOT), *each(["largest", "best"])]
        return [
            put(0, at("best")),
            Loop(ROW, Index(PIVOT, 1), (traced_block(rate, reads, [at("quality", ROW), at("best")]),)),
            traced_block(judge, each(["best", "doubt"]), [at("doubt")]),
            Loop(ROW, self.size, (put(-1, at("chosen", PIVOT, ROW)),)),
            Loop(
                ROW,
                Index(PIVOT, 1),
                (traced_block(choose, [at("quality", ROW), at("best")], [at("chosen", PIVOT, ROW), at("best")]),),
            ),
        ]

    def solve(self) -> list[Statement]:
        """``right`` := W⁻¹ right."""
        at, address = self.space.at, self.space.address
        pair = [at("right", PIVOT), at("right", OTHER)]
        exchange = (
            Collect("exchanged_again", CANDIDATE, self.size, address("chosen", PIVOT, CANDIDATE)),
            Each(OTHER, "exchanged_again", (traced_block(lambda a, b: [b, a], pair, pair),)),
        )

        def subtract(own: Array, share: Array, other: Array) -> list[Array]:
            return [own - complex_product(share, other)]

        def moved(target: str, source: str) -> Statement:
            reads = [at("right", target), at("W", target, source), at("right", source)]
            return traced_block(subtract, reads, [at("right", target)])

        reads = [at("right", PIVOT), at("W", PIVOT, PIVOT)]
        divide = traced_block(lambda own, inverse: [complex_product(own, inverse)], reads, [at("right", PIVOT)])
        up = (If(address("exchanges", PIVOT), exchange), Loop(ROW, Index(PIVOT), (moved(ROW, PIVOT),)))
        down = (Loop(COLUMN, Index(PIVOT), (moved(PIVOT, COLUMN),)), divide)
        return [Loop(PIVOT, self.size, up, backwards=True), Loop(PIVOT, self.size, down)]


def complex_product(a: Array, b: Array) -> Array:
    """Products of (2, count) numbers, real and imaginary parts."""
    return np.array([a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]], dtype=object)


def _inverse(a: Array) -> Array:
    scale = 1 / _sizes(a)
    return np.array([a[0] * scale, -a[1] * scale], dtype=object)


def _sizes(a: Array) -> Array:
    """Squares of the sizes of complex numbers."""
    return np.asarray(a[0] * a[0] + a[1] * a[1])


def _larger(largest: Array, own: Array) -> list[Any]:
    return [[maximum(x, y) for x, y in zip(largest, _sizes(own), strict=True)]]


def _quality(own: Array, largest: Array) -> Any:
    """The least, over all systems, of an entry's square against the largest of its column."""
    ratios = [x / maximum(y, LEAST_COLUMN) for x, y in zip(_sizes(own), largest, strict=True)]
    least = ratios[0]
    for ratio in ratios[1:]:
        least = minimum(least, ratio)
    return least
