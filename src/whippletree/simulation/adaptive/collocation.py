"""Collocation: the polynomial that satisfies ẏ = f(t, y) at the Gauss (or Radau) points of a step.

With s = 8 points the end of a step has order 16 and the polynomial itself order 9 (with 12, orders 24 and 13), so
output and events between steps cost nothing. The equations are solved by Picard iteration, all points at once: one call
of a compiled function on eight states, which is what its SIMD lanes are for; where that would limit the step, by
Newton's (:mod:`whippletree.simulation.adaptive.newton`). (An explicit method has stages of low order, which stray from
the constraint manifold by far more than the tolerance; near a dead point that ruins the accelerations. Collocation
points lie on the solution.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre

from whippletree.arithmetic.arrays import Array

POINTS, MORE_POINTS = 8, 12
"""Points of a step; and of those of long runs whose lengths the error limits. Measured (``benchmarks.work_precision``):
four to six points never gain more than a sixth, and lose a factor of two from an error of 1e-6 on; twelve take a half
to a sixth of the time of eight for a spinning top, and as long or longer where the iteration limits the steps, or where
there are few."""


class Rule(NamedTuple):
    """Legendre polynomials on [0, 1] at the points of a step."""

    nodes: Array
    """(s,)"""
    to_coefficients: Array
    """Values at the nodes to Legendre coefficients, (s, s)."""
    weights: Array
    """A (s, s) of a step of length 1: what the slopes at the points (columns) add to the state at each (rows)."""
    contraction: float
    """Spectral radius of A: Picard iteration of ẏ = λ y contracts by |h λ| times this."""


@cache
def gauss_rule(points: int = POINTS) -> Rule:
    """The rule of order 2s, with that many points."""
    return _rule(legendre.leggauss(points)[0])


@cache
def radau_rule(points: int = POINTS) -> Rule:
    """The rule of order 2s − 1 whose last point is the end of the step: what decays fast is gone at its end.

    (A Gauss rule is stable too, but carries such a part on undamped.)
    """
    x = np.sort(legendre.legroots([0.0] * (points - 1) + [1.0, -1.0]).real)
    x[-1] = 1.0
    return _rule(x)


def _rule(x: Array) -> Rule:
    to_coefficients = np.linalg.inv(legendre.legvander(x, len(x) - 1))
    weights = basis_integrals((x + 1) / 2, len(x)) @ to_coefficients
    contraction = float(np.abs(np.linalg.eigvals(weights)).max())
    return Rule((x + 1) / 2, to_coefficients, weights, contraction)


def basis_values(at: Array, count: int) -> Array:
    """Pₖ(2τ − 1) for τ in ``at`` (m,) and k = 0 … count − 1: (m, count), by Bonnet's recursion."""
    return np.array(_legendre(2 * at - 1 if len(at) != 1 else 2 * float(at[0]) - 1, count)).reshape(count, len(at)).T


def _legendre(x: Any, count: int) -> list[Any]:
    """Pₖ(x), k = 0 … count − 1; on a float, which is what locating an event asks for, in a twentieth of the time."""
    P = [0 * x + 1, x][:count]
    for k in range(1, count - 1):
        P.append(((2 * k + 1) * x * P[k] - k * P[k - 1]) / (k + 1))
    return P


def basis_integrals(at: Array, count: int = POINTS) -> Array:
    """∫₀^τ Pₖ(2σ − 1) dσ for τ in ``at`` (m,) and k = 0 … count − 1: (m, count)."""
    if len(at) == 1:
        return np.array([integrals_at(float(at[0]), count)])
    P = basis_values(at, count + 1)
    # ∫ Pₖ = (Pₖ₊₁ − Pₖ₋₁) / (2k + 1), which vanishes at both ends of the interval for k > 0
    rest = (P[:, 2:] - P[:, :-2]) / (2 * (2 * np.arange(1, count) + 1))
    return np.concatenate([at[:, None], rest], axis=1)


def integrals_at(tau: float, count: int) -> list[float]:
    """∫₀^τ Pₖ(2σ − 1) dσ at one τ, as :func:`basis_integrals`."""
    Q = _legendre(2 * tau - 1, count + 1)
    return [tau, *[(Q[k + 1] - Q[k - 1]) / (2 * (2 * k + 1)) for k in range(1, count)]]


@dataclass(frozen=True)
class Polynomial:
    """The solution over one step: y(t) = y₀ + h ∫ Σ cₖ Pₖ."""

    start: float
    length: float
    origin: Array
    coefficients: Array
    """Coefficients of ẏ in Legendre polynomials, (s, n)."""

    def __call__(self, t: float) -> Array:
        basis = integrals_at((t - self.start) / self.length, len(self.coefficients))
        return np.asarray(self.origin + self.length * (np.array(basis) @ self.coefficients))

    @property
    def end(self) -> Array:
        """y at the end of the step: all Legendre polynomials but the first have the integral 0."""
        return np.asarray(self.origin + self.length * self.coefficients[0])

    def states(self, times: Array) -> Array:
        """y at these times (m, n)."""
        tau = (times - self.start) / self.length
        return np.asarray(
            self.origin + self.length * (basis_integrals(tau, len(self.coefficients)) @ self.coefficients)
        )

    def slopes(self, times: Array) -> Array:
        """ẏ at these times (m, n), also a little beyond the step: the first guess for the next one."""
        tau = (times - self.start) / self.length
        return np.asarray(basis_values(tau, len(self.coefficients)) @ self.coefficients)

    def slopes_at_ends(self) -> Array:
        """ẏ at the beginning and at the end of the step (2, n): Legendre polynomials are ±1 and 1 there."""
        even, odd = self.coefficients[::2].sum(axis=0), self.coefficients[1::2].sum(axis=0)
        return np.stack([even - odd, even + odd])

    def with_points(self, points: int) -> Polynomial:
        """This polynomial as the guess for a step of so many points: terms of higher degree are left out, or zero."""
        own, n = self.coefficients.shape
        if own == points:
            return self
        coefficients = np.zeros((points, n))
        coefficients[: min(own, points)] = self.coefficients[:points]
        return replace(self, coefficients=coefficients)

    def truncation(self) -> Array:
        """Size of the first term that the polynomial leaves out, estimated from the decay of its last three, (n,)."""
        size = self.length * np.abs(self.coefficients[-3:])
        before, last = np.maximum(size[0], size[1]), np.maximum(size[1], size[2])
        with np.errstate(divide="ignore", invalid="ignore"):
            decay = np.where(before > 0, np.minimum(last / before, 1.0), 0.0)
        return np.asarray(last * decay)


def states_along(pieces: Sequence[tuple[Polynomial, Array]]) -> Array:
    """States (m, n) at times (k,) of each of some polynomials with equally many terms, one after the other."""
    taus = [(times - own.start) / own.length for own, times in pieces]
    basis = basis_integrals(np.concatenate(taus), len(pieces[0][0].coefficients))
    parts, first = [], 0
    for own, times in pieces:
        rows = basis[first : first + len(times)]
        parts.append(own.origin + own.length * (rows @ own.coefficients))
        first += len(times)
    return np.concatenate(parts)
