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
from whippletree.arithmetic.scalars import less, select, sqrt
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


class CentralPair(NamedTuple):
    """The points x and w of L with x − w = z and x ∘ w = ν 1, which have one frame: (1, e) / 2, (1, −e) / 2 and the
    direction across both. What they are is told by their numbers along the first two, without cancellation.
    """

    direction: tuple[Any, Any]
    """e"""
    high: tuple[Any, Any]
    """Parts of x and of w, along (1, e)."""
    low: tuple[Any, Any]
    """Parts of x and of w, along (1, −e)."""

    @staticmethod
    def of(z: Array, gap: Any) -> CentralPair:
        """The pair of z (3,) and ν ≥ 0."""
        side = length(z[1], z[2])
        some = less(0, side)
        unit = 1 / select(some, side, 1)
        e = select(some, z[1] * unit, 1), select(some, z[2] * unit, 0)
        up, down = z[0] + side, z[0] - side
        return CentralPair(e, (_half_way(up, gap), _half_way(-up, gap)), (_half_way(down, gap), _half_way(-down, gap)))

    @property
    def x(self) -> Array:
        """(3,)"""
        return self._point(self.high[0], self.low[0])

    @property
    def w(self) -> Array:
        """(3,)"""
        return self._point(self.high[1], self.low[1])

    def yielded(self, dx: Array) -> Array:
        """−dw (3,) of a change dx of x at the same ν: L_w / L_x times dx."""
        return self._scale(dx, *[w / x for x, w in self._numbers()])

    def relative(self, dz: Array) -> Array:
        """A change dz of z as a share of x + w: dz / L_(x + w)."""
        return self._scale(dz, *[1 / (x + w) for x, w in self._numbers()])

    def bending(self, dz: Array) -> Array:
        """How far a change dz of z is from one that x and w follow along straight lines: as a share of x + w, as
        :meth:`relative`, but times 2 √ν / (x + w) along a direction of the frame in which z grows in size. There they
        follow it the more straightly the farther they are apart, however large the larger becomes.
        """
        along = self.direction[0] * dz[1] + self.direction[1] * dz[2]

        def rate(pair: tuple[Any, Any], change: Any) -> Any:
            x, w = pair
            grows = less(0, (x - w) * change)
            return select(grows, 2 * sqrt(x * w) / (x + w), 1) / (x + w)

        x, w = self._numbers()[2]
        return self._scale(dz, rate(self.high, dz[0] + along), rate(self.low, dz[0] - along), 1 / (x + w))

    def _numbers(self) -> list[tuple[Any, Any]]:
        """Numbers of x and w along the frame."""
        return [self.high, self.low, ((self.high[0] + self.low[0]) / 2, (self.high[1] + self.low[1]) / 2)]

    def _point(self, high: Any, low: Any) -> Array:
        along = (high - low) / 2
        return vector((high + low) / 2, along * self.direction[0], along * self.direction[1])

    def _scale(self, v: Array, high: Any, low: Any, across: Any) -> Array:
        """A vector (3,) with its parts along both light-like directions and across them multiplied by these numbers."""
        e1, e2 = self.direction
        along, beside = e1 * v[1] + e2 * v[2], e1 * v[2] - e2 * v[1]
        above, below, beside = high * (v[0] + along), low * (v[0] - along), across * beside
        along = (above - below) / 2
        return vector((above + below) / 2, along * e1 - beside * e2, along * e2 + beside * e1)


def _half_way(t: Any, gap: Any) -> Any:
    """The positive x with x − gap / x = t, without cancellation; 0 at t ≤ 0 if gap is 0."""
    root = sqrt(t * t + 4 * gap)
    rising = less(0, t)
    apart = select(rising, 1, root - t)
    return select(rising, (t + root) / 2, 2 * gap / select(less(0, apart), apart, 1))
