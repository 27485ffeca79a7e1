"""Algebra of the cone L = {x₀ ≥ |x₁|}, x₁ of two numbers, on any scalar, without branches.

The product x ∘ y = (xᵀy, x₀ y₁ + y₀ x₁) has the unit (1, 0, 0); x is in L exactly if it is a square. With it, methods
for x ≥ 0 carry over to cones: det x = x₀² − |x₁|² takes the place of x being positive.

A point is an array (3,) of scalars. With :class:`~whippletree.arithmetic.lanes.Lanes` as scalars it is many points of
plain numbers at once; traced, it is a part of a kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import sqrt
from whippletree.contact.problem.cones import length


def determinant(x: Array) -> Any:
    """x₀² − |x₁|², without cancellation."""
    side = length(x[1], x[2])
    return (x[0] - side) * (x[0] + side)


def product(x: Array, y: Array) -> Array:
    """x ∘ y."""
    return vector(x @ y, x[0] * y[1] + y[0] * x[1], x[0] * y[2] + y[0] * x[2])


def quotient(y: Array, x: Array) -> Array:
    """The z with x ∘ z = y."""
    first = reflect(x) @ y / determinant(x)
    return vector(first, (y[1] - first * x[1]) / x[0], (y[2] - first * x[2]) / x[0])


def reflect(x: Array) -> Array:
    """R x = (x₀, −x₁), with which det x = xᵀ R x."""
    return vector(x[0], -x[1], -x[2])


def exit_rate(x: Array, step: Array) -> Any:
    """1 / t of the largest t at which x + t step is still in L, for x inside; not above 0 if it never leaves."""
    size = sqrt(determinant(x))
    u, e = x / size, step / size
    along = reflect(u) @ e
    factor = (along + e[0]) / (u[0] + 1)
    return length(e[1] - factor * u[1], e[2] - factor * u[2]) - along


class Scaling(NamedTuple):
    """Nesterov and Todd's W, symmetric (3, 3), for x and y inside L: W x = W⁻¹ y."""

    matrix: Array
    inverse: Array
    square: Array
    """W², which takes x to y."""

    @staticmethod
    def of(x: Array, y: Array) -> Scaling:
        """The scaling of two points."""
        size_x, size_y = sqrt(determinant(x)), sqrt(determinant(y))
        u, w = x / size_x, y / size_y
        middle = (w + reflect(u)) / sqrt(2 + 2 * (u @ w))
        axis = vector(middle[0] + 1, middle[1], middle[2]) / sqrt(2 * (middle[0] + 1))
        ratio = sqrt(size_y / size_x)
        return Scaling(_boost(axis) * ratio, _boost(reflect(axis)) / ratio, _boost(middle) * (ratio * ratio))


def _boost(axis: Array) -> Array:
    """2 a aᵀ − R."""
    return np.asarray(2 * np.multiply.outer(axis, axis) - np.diag(vector(1, -1, -1)))
