"""Newton's method on the equations of a collocation step, for problems that are stiff.

With slopes K (s, n) at the points of a step, states Y = y + h A K and J = ∂ẏ/∂y, one iteration of the simplified method
(one J for all points) solves

    (1 − h A ⊗ J) ΔK = f(Y) − K

With A = T Λ T⁻¹ that falls apart into one system (1 − h λ J) of size n for each eigenvalue of A, and of a conjugate
pair one is enough. Where the first half of the state is the integral of the second (q̇ = v: trees without
quaternions), each is reduced to (1 − h λ ∂a/∂v − h² λ² ∂a/∂q), of half the size.

J is taken from differences of the rates: all n of them are one call of compiled functions on n states, their lanes
filled. So it contains all that the rates contain, the change of constraint forces Aᵀf with q, springs, dampers and
massless motions that they decide, contacts that hold, and any controller in Python, and nothing more has to be
compiled. It is that of the middle of a step, so that it fits both ends (slider-cranks at speed take half the steps that
they take with that of the start). Rounding leaves it about eight digits, of which the iteration needs two: its solution
is that of the equations above, whatever J is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.collocation.collocation_newton import POWERS, UNCOUNTED
from whippletree.errors import IntegrationError, SingularSystemError
from whippletree.simulation.adaptive.collocation import POINTS, radau_rule

DIFFERENCE = float(np.sqrt(np.finfo(float).eps))
"""Share of a component by which it is moved for a difference: half of its digits."""

SQUARINGS = 5
"""Squarings of J for its spectral radius: ‖J³²‖ to the power 1/32 is at most 1.6 times that for k = 1e12 in [0 1; −k
0]."""

SQUARED_UP_TO = 64
"""Size of a state up to which J itself is squared. Beyond, its powers are applied to a vector, as in machine code:
squares of a J of 120 rows would take as long as fifty steps of a chain of sixty bodies."""

Rates = Callable[[Array, Array], Array]
"""ẏ (m, n) at m times and states."""

NO_RATES = (IntegrationError, SingularSystemError)
"""Errors raised where a trial has left the states that a motion can have."""


class RuleModes(NamedTuple):
    """A = T Λ T⁻¹ of a rule, one of each conjugate pair."""

    values: Array
    """λ (p,), complex."""
    into: Array
    """Rows of T⁻¹ (p, s)."""
    back: Array
    """Columns of T (s, p), doubled for pairs: the real part of back @ into is 1."""


@cache
def radau_modes(points: int = POINTS) -> RuleModes:
    """The modes of Radau's rule."""
    values, T = np.linalg.eig(radau_rule(points).weights)
    kept = values.imag >= 0
    doubled = np.where(values.imag > 0, 2.0, 1.0)
    return RuleModes(values[kept], np.linalg.inv(T)[kept], (T * doubled)[:, kept])


def sizes_of(y: Array, rtol: float, atol: float) -> Array:
    """Size of what counts as a change of each component of y: below the absolute tolerance over the relative one,
    numbers are of no interest."""
    return np.maximum(np.abs(y), min(atol / rtol, 1.0) if rtol > 0 else 1.0)


def rate_jacobian(rates: Rates, t: float, y: Array, size: Array) -> Array:
    """∂ẏ/∂y (n, n) by differences; ``size`` (n,): of what counts as a change of each component."""
    # as the computer adds it, so that q̇ = v gives exactly 1
    step = (y + DIFFERENCE * size) - y
    states = np.tile(y, (len(y) + 1, 1))
    states[range(1, len(states)), range(len(y))] += step
    found = rates(np.full(len(states), t), states)
    return np.ascontiguousarray(((found[1:] - found[0]) / step[:, None]).T)


class Stiffness:
    """J at one state, and the systems of Newton's method for steps from there."""

    def __init__(self, rates: Rates, t: float, y: Array, size: Array) -> None:
        """``size`` (n,): of what counts as a change of each component of y."""
        self.rates = rates
        self.jacobian = rate_jacobian(rates, t, y, size)

    @cached_property
    def radius(self) -> float:
        """An estimate of the largest |eigenvalue| of J, 1/s: of a small J not below it, and seldom above twice that."""
        return self._radius_by_squares() if len(self.jacobian) <= SQUARED_UP_TO else self._radius_by_powers()

    def _radius_by_squares(self) -> float:
        power, exponent, logarithm = self.jacobian, 1, 0.0
        for _ in range(SQUARINGS):
            norm = _norm(power)
            if not (0 < norm < np.inf):
                return norm if exponent == 1 else 0.0  # a nilpotent J, of a free flight, has no rate
            logarithm += np.log(norm) / exponent
            power = power / norm
            power, exponent = power @ power, 2 * exponent
        norm = _norm(power)
        return float(np.exp(logarithm + np.log(norm) / exponent)) if norm > 0 else 0.0

    def _radius_by_powers(self) -> float:
        """|Jᵐ x| against |Jᵏ x|, to the power 1/(m − k)."""
        x, logarithm = np.cos(np.arange(1, len(self.jacobian) + 1) ** 2), 0.0
        for power in range(POWERS):
            x = np.einsum("ij,j->i", self.jacobian, x)  # BLAS would start threads, which takes longer than the product
            norm = _norm(x)
            if not (0 < norm < np.inf):
                return 0.0 if norm == 0 else np.inf
            x /= norm
            logarithm += np.log(norm) if power >= UNCOUNTED else 0.0
        return float(np.exp(logarithm / (POWERS - UNCOUNTED)))

    @cached_property
    def integrates_itself(self) -> bool:
        """Whether the first half of the state has the second half as its rate, exactly."""
        n = len(self.jacobian) // 2
        top = self.jacobian[:n]
        return len(self.jacobian) == 2 * n and not top[:, :n].any() and np.array_equal(top[:, n:], np.eye(n))

    @property
    def size(self) -> int:
        """Size of the linear systems."""
        return len(self.jacobian) // 2 if self.integrates_itself else len(self.jacobian)

    def filter_error(self, h: float, error: Array) -> Array:
        """(1 − h J)⁻¹ e: what is fast in an error of a step of length h is gone."""
        return np.asarray(np.linalg.solve(np.eye(len(error)) - h * self.jacobian, error))

    def solver(self, z: Array) -> Callable[[Array], Array]:
        """From right-hand sides b (p, n) to x of (1 − zₚ J) xₚ = bₚ, for p complex numbers z."""
        if not self.integrates_itself:
            inverse = np.linalg.inv(np.eye(len(self.jacobian)) - z[:, None, None] * self.jacobian)
            return lambda b: np.asarray((inverse @ b[..., None])[..., 0])
        by_q, inverse = self._reduced_inverse(z[:, None, None])
        n, z1 = len(by_q), z[:, None]

        def solve(b: Array) -> Array:
            x = (inverse @ (b[:, n:] + z1 * (b[:, :n] @ by_q.T))[..., None])[..., 0]
            return np.concatenate([b[:, :n] + z1 * x, x], axis=1)

        return solve

    def _reduced_inverse(self, z: Array) -> tuple[Array, Array]:
        """∂a/∂q, and (1 − z ∂a/∂v − z² ∂a/∂q)⁻¹ for z (p, 1, 1)."""
        n = len(self.jacobian) // 2
        by_q, by_v = self.jacobian[n:, :n], self.jacobian[n:, n:]
        return by_q, np.linalg.inv(np.eye(n) - z * by_v - (z * z) * by_q)

    def corrector(self, rule_modes: RuleModes, length: float, times: Array, y: Array, weights: Array) -> NewtonStep:
        """The correction of slopes of a step of this length from y; ``weights`` are h A."""
        return NewtonStep(self.rates, rule_modes, self.solver(length * rule_modes.values), times, y, weights)


def _norm(matrix: Array) -> float:
    """Frobenius' norm; np.linalg.norm takes ten times as long for a small matrix."""
    return float(np.sqrt(np.vdot(matrix, matrix)))


class NewtonStep:
    """One step: a call takes slopes at its points to better ones."""

    def __init__(
        self,
        rates: Rates,
        rule_modes: RuleModes,
        solve: Callable[[Array], Array],
        times: Array,
        y: Array,
        weights: Array,
    ) -> None:
        self.rates, self.modes, self.solve = rates, rule_modes, solve
        self.times, self.start, self.weights = times, y, weights

    def __call__(self, slopes: Array) -> Array:
        """The slopes after one iteration."""
        missing = self.rates(self.times, self.start + self.weights @ slopes) - slopes
        return np.asarray(slopes + (self.modes.back @ self.solve(self.modes.into @ missing)).real)
