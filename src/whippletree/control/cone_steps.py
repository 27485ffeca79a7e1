"""Steps of a program with cones on any scalar: one Lorentz cone {x₀ ≥ |x₁|} of three numbers, one tile of a factor.

What :mod:`whippletree.contact.problem.cones` has for many cones of plain numbers, here for a single one without
branches, so that it can be traced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.contact.problem.cones import length

LEAST_PIVOT = 1e-15
"""Share of its diagonal entry below which a pivot is what rounding left of zero: nothing moves along it."""


class BlockScaling(NamedTuple):
    """Nesterov and Todd's W of one cone, W z = W⁻¹ x, on any scalar."""

    matrix: Array
    inverse: Array
    square: Array
    """W⁻²."""


def scaling_of(x: Array, z: Array) -> BlockScaling:
    """The scaling of two points (3,) inside the cone {x₀ > |x₁|}."""
    size_x, size_z = cone_size(x), cone_size(z)
    u, w = x / size_x, z / size_z
    double = sqrt(2 * (1 + u @ w))
    m = vector(u[0] + w[0], u[1] - w[1], u[2] - w[2]) / double
    ratio = sqrt(size_x / size_z)
    flipped = vector(m[0], -m[1], -m[2])
    square = 2 * np.multiply.outer(flipped, flipped) - np.diag(vector(1, -1, -1))
    return BlockScaling(_boost(m) * ratio, _boost(flipped) / ratio, square / (ratio * ratio))


def _boost(m: Array) -> Array:
    """The symmetric matrix with square 2 m mᵀ − R, for m of size 1."""
    side = np.array(m[1:], dtype=object)
    inner = np.eye(2, dtype=int).astype(object) + np.multiply.outer(side, side) / (1 + m[0])
    found = zeros(3, 3)
    found[0, 0], found[0, 1:], found[1:, 0], found[1:, 1:] = m[0], side, side, inner
    return found


def cone_size(x: Array) -> Any:
    """√(x₀² − |x₁|²), without cancellation."""
    side = length(x[1], x[2])
    return sqrt((x[0] - side) * (x[0] + side))


def cone_product(x: Array, y: Array) -> Array:
    """x ∘ y of one cone."""
    return vector(x @ y, x[0] * y[1] + y[0] * x[1], x[0] * y[2] + y[0] * x[2])


def cone_quotient(y: Array, x: Array) -> Array:
    """The z with x ∘ z = y."""
    side = length(x[1], x[2])
    first = (x[0] * y[0] - x[1] * y[1] - x[2] * y[2]) / ((x[0] - side) * (x[0] + side))
    return vector(first, (y[1] - first * x[1]) / x[0], (y[2] - first * x[2]) / x[0])


def exit_rate(x: Array, d: Array) -> Any:
    """1 / t of the largest t at which x + t d is inside the cone; not above 0 if it never leaves."""
    size = cone_size(x)
    u, e = x / size, d / size
    along = u[0] * e[0] - u[1] * e[1] - u[2] * e[2]
    factor = (along + e[0]) / (u[0] + 1)
    return length(e[1] - factor * u[1], e[2] - factor * u[2]) - along


def inverse_factor(A: Array) -> Array:
    """L⁻¹ of a tile A = L Lᵀ; along a pivot that is rounding nothing moves."""
    n = len(A)
    L, inverse = zeros(n, n), zeros(n, n)
    for j in range(n):
        pivot = A[j, j]
        for k in range(j):
            pivot = pivot - L[j, k] * L[j, k]
        counts = less(LEAST_PIVOT * A[j, j], pivot)
        inverse[j, j] = select(counts, 1 / sqrt(select(counts, pivot, 1)), 0)
        for i in range(j + 1, n):
            entry = A[i, j]
            for k in range(j):
                entry = entry - L[i, k] * L[j, k]
            L[i, j] = entry * inverse[j, j]
    for j in range(n):
        for i in range(j + 1, n):
            total: Any = 0
            for k in range(j, i):
                total = total + L[i, k] * inverse[k, j]
            inverse[i, j] = -inverse[i, i] * total
    return inverse
