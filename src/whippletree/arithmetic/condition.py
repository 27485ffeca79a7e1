"""Condition numbers of symmetric matrices on any scalar: a fixed number of operations, nothing is asked of a value.

A matrix is made tridiagonal by Householder's reflections, which keep its eigenvalues. How many eigenvalues lie below x
is then the number of negative pivots of T − x I (Sylvester's law of inertia), so that intervals can be halved until
they hold the smallest and the largest |λ|. That takes the same path for every state, and so it can be traced, compiled
and run in lanes. Its answer is as good as the matrix: |λ| below n ε λ_max is rounding, and the matrix counts as
singular.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array

EIGENVALUE_HALVINGS = 36
"""Halvings of an interval of 64 octaves: eigenvalues to about 2⁻³⁰ of themselves, nine digits."""

OCTAVES = 64
"""How far below the largest an eigenvalue is looked for; rounding ends before that."""

NEXT_TO_NOTHING = 1e-30
"""Stand-in for an exact zero where it would divide, or be divided by, zero."""


class Tridiagonal(NamedTuple):
    """A symmetric tridiagonal matrix."""

    diagonal: list[Any]
    squares: list[Any]
    """Squares of the entries beside the diagonal, one less; none is zero."""


def condition_number(A: Array, *, definite: bool) -> Any:
    """Largest over smallest |λ| of a symmetric matrix (n, n), κ₂; infinite for a singular one, 1 for an empty one.

    ``definite``: whether no eigenvalue is negative, which saves half of the counting.
    """
    n = len(A)
    if n <= 1:
        return 1 if not n else scalars.select(scalars.less(0, A[0, 0] * A[0, 0]), 1, math.inf + A[0, 0])
    T = tridiagonal(A)
    # no eigenvalue exceeds Frobenius' norm, and the largest is at most √n smaller
    bound = scalars.sqrt(sum(d * d for d in T.diagonal) + 2 * sum(T.squares))
    some, all_ = (_any_below, _all_below) if definite else (_some_inside, _all_inside)
    largest = _bisect(T, bound, octaves_of_largest(n), all_)
    smallest = _bisect(T, bound, OCTAVES, some)
    return condition_of_extremes(n, largest, smallest)


def octaves_of_largest(n: int) -> int:
    """How far below Frobenius' norm the largest |λ| of a matrix (n, n) can be."""
    return math.ceil(math.log2(n) / 2) + 1


def condition_of_extremes(n: int, largest: Any, smallest: Any) -> Any:
    """κ₂ of a matrix (n, n) from its largest and smallest |λ|."""
    nothing = n * 2.0**-52 * largest
    return scalars.select(scalars.less(nothing, smallest), largest / nonzero(smallest), math.inf + smallest)


def equilibrate(A: Array) -> Array:
    """S A S with S = diag(aᵢᵢ)^(−1/2): a diagonal of ones, and no units (van der Sluis 1969)."""
    diagonal = np.diag(A)
    scale = np.array([1 / nonzero(scalars.sqrt(d)) for d in diagonal], dtype=object)
    scaled = (A * scale).T * scale
    for i, d in enumerate(diagonal):
        scaled[i, i] = unit_diagonal(d)
    return np.asarray(scaled)


def unit_diagonal(d: Any) -> Any:
    """Exactly one; a massless motion stays one."""
    return scalars.select(scalars.less(0, d), 1, d)


def tridiagonal(A: Array) -> Tridiagonal:
    """A symmetric matrix (n, n), n > 0, made tridiagonal by reflections; only its lower triangle is read."""
    A = np.array(A, dtype=object)
    n = len(A)
    squares = []
    for k in range(n - 2):
        x = A[k + 1 :, k]
        u = x.copy()
        square, u[0], beta = reflection(x[0], sum(e * e for e in x[1:]))
        squares.append(square)
        A[k + 1 :, k + 1 :] = _reflect(A[k + 1 :, k + 1 :], u, beta)
    squares += [A[n - 1, n - 2] * A[n - 1, n - 2]] if n > 1 else []
    # never zero, so that no pivot is 0 / 0 where the matrix falls apart
    return Tridiagonal(list(np.diag(A)), [square + NEXT_TO_NOTHING for square in squares])


def _reflect(A: Array, u: Array, beta: Any) -> Array:
    """H A H with H = I − β u uᵀ, from and in the lower triangle."""
    n = len(A)
    p = np.array([beta * sum(A[max(i, j), min(i, j)] * u[j] for j in range(n)) for i in range(n)], dtype=object)
    w = p - (beta * (u @ p) / 2) * u
    result = A.copy()
    for i in range(n):
        for j in range(i + 1):
            result[i, j] = A[i, j] - u[i] * w[j] - w[i] * u[j]
    return result


def _bisect(T: Tridiagonal, bound: Any, octaves: int, holds: Callable[[Tridiagonal, Any], Any]) -> Any:
    """The smallest x of which a statement about the eigenvalues holds, within octaves of a bound.

    Intervals are halved by their logarithm: small eigenvalues get as many digits as large ones.
    """
    low, high = first_interval(bound, octaves)
    for _ in range(EIGENVALUE_HALVINGS):
        middle = middle_of(low, high)
        low, high = half_interval(low, high, middle, holds(T, middle))
    return high


def first_interval(bound: Any, octaves: int) -> tuple[Any, Any]:
    """Where an eigenvalue is looked for."""
    return bound / 2**octaves, 2 * bound


def middle_of(low: Any, high: Any) -> Any:
    """The middle of an interval by its logarithm."""
    return scalars.sqrt(low) * scalars.sqrt(high)


def half_interval(low: Any, high: Any, middle: Any, enough: Any) -> tuple[Any, Any]:
    """The half of an interval that is left: the lower one where its middle is enough."""
    return scalars.select(enough, low, middle), scalars.select(enough, middle, high)


def _any_below(T: Tridiagonal, x: Any) -> Any:
    """Whether some eigenvalue is below x."""
    return reduce(operator.or_, [scalars.less(pivot, 0) for pivot in _pivots(T, x)])


def _all_below(T: Tridiagonal, x: Any) -> Any:
    """Whether every eigenvalue is below x."""
    return reduce(operator.and_, [scalars.less(pivot, 0) for pivot in _pivots(T, x)])


def _some_inside(T: Tridiagonal, x: Any) -> Any:
    """Whether some eigenvalue is between −x and x."""
    return scalars.less(_count_below(T, -x), _count_below(T, x))


def _all_inside(T: Tridiagonal, x: Any) -> Any:
    """Whether every eigenvalue is between −x and x."""
    return scalars.less(len(T.diagonal) - 1, _count_below(T, x) - _count_below(T, -x))


def _count_below(T: Tridiagonal, x: Any) -> Any:
    """How many eigenvalues are below x."""
    return sum(scalars.select(scalars.less(pivot, 0), 1, 0) for pivot in _pivots(T, x))


def _pivots(T: Tridiagonal, x: Any) -> Iterator[Any]:
    """Pivots of T − x I: as many are negative as there are eigenvalues below x."""
    pivot = T.diagonal[0] - x
    yield pivot
    for d, square in zip(T.diagonal[1:], T.squares, strict=True):
        pivot = next_pivot(d, x, square, pivot)
        yield pivot


def next_pivot(d: Any, x: Any, square: Any, pivot: Any) -> Any:
    """The pivot of T − x I after another one, between whose rows is an entry of that square."""
    return d - x - scalars.quotient(square, pivot)  # behind a pivot of zero comes minus infinity


def reflection(first: Any, rest: Any) -> tuple[Any, Any, Any]:
    """Numbers of the reflection u that leaves only the first number of a vector, from that and the sum of squares of
    the rest: the square of what is left, u's first number, and β of H = I − β u uᵀ."""
    square = first * first + rest
    norm = scalars.sqrt(square)
    u = first + scalars.select(scalars.less(first, 0), -norm, norm)
    return square, u, 2 / nonzero(u * u + rest)


def nonzero(x: Any) -> Any:
    """x, or a number far below all others where it is exactly zero: a denominator."""
    return scalars.select(scalars.less(0, x * x), x, x + NEXT_TO_NOTHING)
