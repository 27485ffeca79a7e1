"""Collocation: the polynomial that satisfies ẏ = f(t, y) at the Gauss (or Radau) points of a step.

With s = 8 points the end of a step has order 16 and the polynomial itself order 9, so output and events between steps
cost nothing. The equations are solved by Picard iteration, all points at once: one call of a compiled function on eight
states, which is what its SIMD lanes are for; a stiff problem brings a corrector of its own. (An explicit method has
stages of low order, which stray from the constraint manifold by far more than the tolerance; near a dead point that
ruins the accelerations. Collocation points lie on the solution.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from whippletree.arithmetic.arrays import Array

POINTS = 8


class Rule(NamedTuple):
    """Legendre polynomials on [0, 1] at the Gauss points."""

    nodes: Array
    """(s,)"""
    to_coefficients: Array
    """Values at the nodes to Legendre coefficients, (s, s)."""
    integrals: Array
    """∫₀^node of each Legendre polynomial, (s, s): rows are nodes."""


@cache
def gauss_rule(points: int = POINTS) -> Rule:
    """The rule of order 2s, with that many points."""
    return _rule(legendre.leggauss(points)[0])


@cache
def radau_rule(points: int = POINTS) -> Rule:
    """The rule of order 2s − 1 whose last point is the end of the step: what decays fast is gone at its end.

    (A Gauss rule is stable too, but carries such a part on undamped.)
    """
    x = np.sort(legendre.legroots([0.0] * (points - 1) + [1.0, -1.0]))
    x[-1] = 1.0
    return _rule(x)


def _rule(x: Array) -> Rule:
    values = legendre.legvander(x, len(x) - 1)
    return Rule((x + 1) / 2, np.linalg.inv(values), basis_integrals((x + 1) / 2, len(x)))


def basis_integrals(at: Array, points: int = POINTS) -> Array:
    """∫₀^τ Pₖ(2σ − 1) dσ for τ in ``at`` (m,) and k = 0 … points − 1: (m, points)."""
    P = legendre.legvander(2 * np.asarray(at) - 1, points)
    k = np.arange(1, points)
    first = np.asarray(at)[:, None]
    # ∫ Pₖ = (Pₖ₊₁ − Pₖ₋₁) / (2k + 1), which vanishes at both ends of the interval for k > 0
    rest = (P[:, 2:] - P[:, :-2]) / (2 * (2 * k + 1))
    return np.concatenate([first, rest], axis=1)


@dataclass(frozen=True)
class Polynomial:
    """The solution over one step: y(t) = y₀ + h ∫ Σ cₖ Pₖ."""

    start: float
    length: float
    origin: Array
    coefficients: Array
    """Of ẏ in Legendre polynomials, (s, n)."""

    def __call__(self, t: float) -> Array:
        tau = np.array([(t - self.start) / self.length])
        return np.asarray(
            self.origin + self.length * (basis_integrals(tau, len(self.coefficients)) @ self.coefficients)[0]
        )

    def slopes(self, times: Array) -> Array:
        """ẏ at these times (m, n), also a little beyond the step: the first guess for the next one."""
        tau = 2 * (times - self.start) / self.length - 1
        return np.asarray(legendre.legvander(tau, len(self.coefficients) - 1) @ self.coefficients)

    def truncation(self) -> Array:
        """Size of the first term that the polynomial leaves out, estimated from the decay of its last three, (n,)."""
        size = self.length * np.abs(self.coefficients[-3:])
        before, last = np.maximum(size[0], size[1]), np.maximum(size[1], size[2])
        with np.errstate(divide="ignore", invalid="ignore"):
            decay = np.where(before > 0, np.minimum(last / before, 1.0), 0.0)
        return np.asarray(last * decay)
