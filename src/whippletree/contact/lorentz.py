"""Algebra of the cones L = {x₀ ≥ |x₁|}, x₁ of two numbers, for many of them at once: arrays (k, 3) of plain numbers.

The product x ∘ y = (xᵀy, x₀ y₁ + y₀ x₁) has the unit (1, 0, 0); x is in L exactly if it is a square. With it, methods
for x ≥ 0 carry over to cones: det x = x₀² − |x₁|² takes the place of x being positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.spatial import Array

REFLECTION = np.array([1.0, -1.0, -1.0])
"""The diagonal of R with det x = xᵀ R x."""


def unit(count: int) -> Array:
    """The unit of each cone, (count, 3)."""
    return np.tile([1.0, 0.0, 0.0], (count, 1))


def determinant(x: Array) -> Array:
    """x₀² − |x₁|² (k,), without cancellation."""
    side = np.hypot(x[:, 1], x[:, 2])
    return np.asarray((x[:, 0] - side) * (x[:, 0] + side))


def product(x: Array, y: Array) -> Array:
    """x ∘ y."""
    return np.concatenate([(x * y).sum(axis=1)[:, None], x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]], axis=1)


def quotient(y: Array, x: Array) -> Array:
    """The z with x ∘ z = y."""
    first = (x[:, 0] * y[:, 0] - (x[:, 1:] * y[:, 1:]).sum(axis=1)) / determinant(x)
    return np.concatenate([first[:, None], (y[:, 1:] - first[:, None] * x[:, 1:]) / x[:, :1]], axis=1)


def way_to_boundary(x: Array, step: Array) -> float:
    """The smallest t > 0 at which some x + t step leaves its cone; ∞ if none does."""
    a, b, c = determinant(step), (x * REFLECTION * step).sum(axis=1), determinant(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - a * c)  # NaN where det stays positive
        q = -(b + np.copysign(root, b))
        ways = np.stack([q / a, c / q, np.where(step[:, 0] < 0, -x[:, 0] / step[:, 0], np.inf)])
    return float(np.min(ways, initial=np.inf, where=ways > 0))


class Scaling(NamedTuple):
    """Nesterov and Todd's W, symmetric, for x and y inside L: W x = W⁻¹ y."""

    matrix: Array
    """(k, 3, 3)."""
    inverse: Array
    """(k, 3, 3)."""

    @staticmethod
    def of(x: Array, y: Array) -> Scaling:
        """The scaling of two points (k, 3)."""
        size_x, size_y = np.sqrt(determinant(x))[:, None], np.sqrt(determinant(y))[:, None]
        x, y = x / size_x, y / size_y
        middle = (y + REFLECTION * x) / np.sqrt(2 + 2 * (x * y).sum(axis=1))[:, None]
        axis = (middle + unit(len(x))) / np.sqrt(2 * (middle[:, :1] + 1))
        ratio = np.sqrt(size_y / size_x)[:, :, None]
        return Scaling(ratio * _boost(axis), _boost(REFLECTION * axis) / ratio)


def _boost(axis: Array) -> Array:
    """2 a aᵀ − R (k, 3, 3)."""
    return np.asarray(2 * axis[:, :, None] * axis[:, None] - np.diag(REFLECTION))
