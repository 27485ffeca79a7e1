"""Condition numbers of dense matrices inside a program, as loops: the steps of
:mod:`whippletree.arithmetic.condition`, with the last column of the matrix first; and ratios of their pivots.

Rows and columns that are done with lie at the end, so that a loop over the others ends at a counter.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic import scalars
from whippletree.arithmetic.condition import (
    EIGENVALUE_HALVINGS,
    NEXT_TO_NOTHING,
    OCTAVES,
    condition_of_extremes,
    first_interval,
    half_interval,
    middle_of,
    next_pivot,
    nonzero,
    octaves_of_largest,
    reflection,
    unit_diagonal,
)
from whippletree.compiler.frontend.loops.matrix_loops import MatrixLoops, each_number
from whippletree.compiler.program import Address, Buffer, Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.tree import inertia

STEP, ROW, COLUMN = "reflection", "spectrum row", "spectrum column"

ALL = Index(STEP, 1)
"""How many rows a reflection changes; those of its vector but the first are one less."""


def equilibrate(space: MatrixLoops, name: str) -> list[Statement]:
    """A matrix := S A S with a diagonal of ones."""
    n, _ = space.extent(name)
    scale = f"{name} scale"
    space.add(Buffer(scale, "work", (n,)))
    i, j = Index(ROW), Index(COLUMN)
    find = each_number([(name, i, i)], (scale, i), lambda d: 1 / nonzero(scalars.sqrt(d)))
    keep = each_number([(name, i, i)], (f"{name} ones", i), unit_diagonal)
    space.add(Buffer(f"{name} ones", "work", (n,)))
    apply = each_number([(name, i, j), (scale, i), (scale, j)], (name, i, j), lambda x, a, b: x * b * a)
    put = each_number([(f"{name} ones", i)], (name, i, i), lambda x: x)
    return [
        Loop(ROW, n, (find, keep)),
        Loop(ROW, n, (Loop(COLUMN, n, (apply,)),)),
        Loop(ROW, n, (put,)),
    ]


def condition_number(space: MatrixLoops, name: str, to: str) -> list[Statement]:
    """κ₂ of a positive semidefinite matrix (n, n), n > 1, which is not the same afterwards."""
    n, _ = space.extent(name)
    space.add(*[Buffer(f"{name} {word}", "work", (n,)) for word in ("u", "w", "squares")])
    space.add(*[Buffer(f"{name} {word}", "work", (1,)) for word in ("sum", "beta", "pivot", "below", "middle")])
    space.add(Buffer(f"{name} interval", "work", (2,)), Buffer(f"{name} bound", "work", (1,)))
    space.add(Buffer(f"{name} largest", "work", (1,)))
    found = [*_tridiagonal(name, n), *_bound(name, n)]
    found += [*_bisect(name, n, octaves_of_largest(n), n), each_number([_high(name)], _one(name, "largest"), _same)]
    found += _bisect(name, n, OCTAVES, 1)
    result = Piece((), (Address(to, ()),))
    reads = [Piece((), (Address(place, tuple(at)),)) for place, *at in (_one(name, "largest"), _high(name))]
    found.append(traced_block(lambda largest, least: [condition_of_extremes(n, largest, least)], reads, [result]))
    return found


def pivot_ratio(space: MatrixLoops, name: str, to: str) -> list[Statement]:
    """Largest over smallest pivot of a symmetric matrix (n, n) that is eliminated from its last row on; the matrix is
    not the same afterwards."""
    n, _ = space.extent(name)
    space.add(*[Buffer(f"{name} {word}", "work", (1,)) for word in ("reciprocal", "without inertia")])
    space.add(Buffer(f"{name} extremes", "work", (3,)), Buffer(f"{name} line", "work", (n,)))
    last, i, j = Index(STEP), Index(ROW), Index(COLUMN)
    pivot, extremes = Piece((), (Address(name, (last, last)),)), space.at(f"{name} extremes")
    none, own = space.at(f"{name} without inertia"), space.at(f"{name} reciprocal")

    def look(pivot: Any, so_far: Any, none: Any) -> list[Any]:
        found = inertia.widened(inertia.Extremes(*so_far), pivot)
        return [found, [scalars.select(scalars.less(pivot, inertia.NO_INERTIA), 1, none[0])], [1 / pivot]]

    def judge(so_far: Any, none: Any) -> list[Any]:
        found = inertia.ratio_of(inertia.Extremes(*so_far))
        return [scalars.select(scalars.less(0, none[0]), math.inf, found)]

    line = f"{name} line"
    keep = each_number([(name, last, i)], (line, i), _same)
    terms = [(name, i, j), (line, i), _one(name, "reciprocal"), (line, j)]
    take = each_number(terms, (name, i, j), lambda x, a, r, b: x - a * r * b)
    step = traced_block(look, [pivot, extremes, none], [extremes, none, own])
    rest = Loop(ROW, last, (Loop(COLUMN, last, (take,), side_by_side=True),))
    return [
        traced_block(lambda: [[0, math.inf, 0], [0]], [], [extremes, none]),
        Loop(STEP, n, (step, Loop(ROW, last, (keep,)), rest), backwards=True),
        traced_block(judge, [extremes, none], [Piece((), (Address(to, ()),))]),
    ]


def _one(name: str, word: str) -> tuple[Any, ...]:
    return (f"{name} {word}", Index(None, 0))


def _low(name: str) -> tuple[Any, ...]:
    return (f"{name} interval", Index(None, 0))


def _high(name: str) -> tuple[Any, ...]:
    return (f"{name} interval", Index(None, 1))


def _same(x: Any) -> Any:
    return x


def _tridiagonal(name: str, n: int) -> list[Statement]:
    """Reflections from the last row on; the diagonal stays in the matrix, squares of entries beside it go elsewhere."""
    u, w, total, beta = f"{name} u", f"{name} w", _one(name, "sum"), _one(name, "beta")
    i, j, last, first = Index(ROW), Index(COLUMN), Index(STEP, 1), Index(STEP)
    clear = each_number([], total, lambda: 0)

    def sum_up(count: Index, *terms: Any) -> list[Statement]:
        add = each_number([total, *terms], total, lambda total, a, b: total + a * b)
        return [clear, Loop(ROW, count, (add,))]

    def reflect(x: Any, rest: Any) -> list[Any]:
        square, own, factor = reflection(x, rest)
        return [square + NEXT_TO_NOTHING, own, factor]

    ends = [(f"{name} squares", last), (u, first), beta]
    reads = [Piece((), (Address(place, tuple(at)),)) for place, *at in ((u, first), total)]
    writes = [Piece((), (Address(place, tuple(at)),)) for place, *at in ends]
    # row by row of a symmetric matrix, so that neighbours are computed side by side
    product = each_number([(w, j), (name, i, j), (u, i)], (w, j), lambda total, a, b: total + a * b)
    shift = each_number([(w, i), beta, total, (u, i)], (w, i), lambda p, beta, up, u: p - beta * up / 2 * u)
    terms = [(name, i, j), (u, i), (w, j), (w, i), (u, j)]
    take = each_number(terms, (name, i, j), lambda a, ui, wj, wi, uj: a - ui * wj - wi * uj)
    body: list[Statement] = [
        Loop(ROW, ALL, (each_number([(name, last, i)], (u, i), _same),)),
        *sum_up(first, (u, i), (u, i)),
        traced_block(reflect, reads, writes),
        Loop(ROW, ALL, (each_number([], (w, i), lambda: 0),)),
        Loop(ROW, ALL, (Loop(COLUMN, ALL, (product,), side_by_side=True),)),
        Loop(ROW, ALL, (each_number([(w, i), beta], (w, i), lambda p, beta: p * beta),)),
        *sum_up(ALL, (u, i), (w, i)),
        Loop(ROW, ALL, (shift,)),
        Loop(ROW, ALL, (Loop(COLUMN, ALL, (take,), side_by_side=True),)),
    ]
    return [Loop(STEP, n - 1, tuple(body), backwards=True)]


def _bound(name: str, n: int) -> list[Statement]:
    """Frobenius' norm, which no eigenvalue exceeds."""
    i, bound = Index(ROW), _one(name, "bound")
    own = each_number([bound, (name, i, i)], bound, lambda total, d: total + d * d)
    beside = each_number([bound, (f"{name} squares", Index(ROW, 1))], bound, lambda total, square: total + 2 * square)
    return [
        each_number([], bound, lambda: 0),
        Loop(ROW, n, (own,)),
        Loop(ROW, n - 1, (beside,)),
        each_number([bound], bound, scalars.sqrt),
    ]


def _bisect(name: str, n: int, octaves: int, wanted: int) -> list[Statement]:
    """The end of an interval := the smallest x below which so many eigenvalues lie."""
    i, pivot, below, bound = Index(ROW, 1), _one(name, "pivot"), _one(name, "below"), _one(name, "bound")
    low, high, middle = _low(name), _high(name), _one(name, "middle")

    def count(found: Any, pivot: Any) -> Any:
        return scalars.select(scalars.less(pivot, 0), found + 1, found)

    def begin(low: Any, high: Any, d: Any) -> list[Any]:
        x = middle_of(low, high)
        return [x, d - x, count(0, d - x)]

    def go_on(x: Any, d: Any, square: Any, pivot: Any, found: Any) -> list[Any]:
        pivot = next_pivot(d, x, square, pivot)
        return [pivot, count(found, pivot)]

    def halve(low: Any, high: Any, x: Any, found: Any) -> list[Any]:
        return [*half_interval(low, high, x, scalars.less(wanted - 1, found))]

    def block(function: Any, reads: Any, writes: Any) -> Statement:
        places = [[Piece((), (Address(place, tuple(at)),)) for place, *at in own] for own in (reads, writes)]
        return traced_block(function, *places)

    diagonal, square = (name, i, i), (f"{name} squares", i)
    turn = [
        block(begin, [low, high, (name, Index(None, 0), Index(None, 0))], [middle, pivot, below]),
        Loop(ROW, n - 1, (block(go_on, [middle, diagonal, square, pivot, below], [pivot, below]),)),
        block(halve, [low, high, middle, below], [low, high]),
    ]
    start = block(lambda bound: [*first_interval(bound, octaves)], [bound], [low, high])
    return [start, Loop("halving", EIGENVALUE_HALVINGS, tuple(turn))]
