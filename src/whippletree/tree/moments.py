"""Moments of a body's mass and how fast they change: sums over the body's points, so bodies simply add up.

With r the position of a point in some frame and ṙ its velocity, both in that frame's axes:

    m = ∫ dm        h = ∫ r dm        E = ∫ r rᵀ dm        p = ∫ ṙ dm        G = ∫ r ṙᵀ dm

The rotational inertia is A = tr(E) 1 − E. What the derivatives of the dynamics need of the velocities (the matrix B of
Singh, Russell & Wensing 2022, there a combination of three (6, 6) products) has only these twelve numbers in it: for a
twist (ω, ν) that is added to all points, ∫ (r × (ω × ṙ), ω × ṙ) dm = ((tr(G) 1 − Gᵀ) ω, −p × ω).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.spatial import Pose, RigidInertia, add_cross, congruence, join, symmetric


class Flow(NamedTuple):
    """How the moments of mass change while the mass moves."""

    momentum: Array
    """p, linear momentum, (3,)."""
    rate: Array
    """G = ∫ r ṙᵀ dm, (3, 3)."""

    @staticmethod
    def nothing() -> Flow:
        """The moments of mass at rest."""
        return Flow(zeros(3), zeros(3, 3))

    def wrench(self) -> Array:
        """The momentum as a spatial vector (angular, linear), (6,); the angular part is the skew part of G."""
        G = self.rate
        return join(vector(G[1, 2] - G[2, 1], G[2, 0] - G[0, 2], G[0, 1] - G[1, 0]), self.momentum)


class Coriolis(NamedTuple):
    """The linear map B: an angular velocity that all points share to the wrench that turns their velocities, (6, 3)."""

    turn: Array
    """tr(G) 1 − Gᵀ, (3, 3)."""
    momentum: Array

    @staticmethod
    def of(flow: Flow) -> Coriolis:
        """The moments of moving mass."""
        return Coriolis(trace_minus(flow.rate.T), flow.momentum)

    def add_moment(self, f: Array, w: Array) -> Array:
        """f + B ω (6,), each entry as one chain of sums."""
        top = f[:3]
        for k in range(3):
            top = top + self.turn[:, k] * w[k]
        return join(top, add_cross(f[3:], w, self.momentum))

    def along(self, S: Array) -> Array:
        """Sᵀ B (3,): the same map seen from a motion S."""
        return add_cross(S[:3] @ self.turn, self.momentum, S[3:])


class Moments(NamedTuple):
    """Mass, first and second moment of mass about a frame's origin, in its axes."""

    mass: Any
    first: Array
    """h = ∫ r dm, (3,)."""
    second: Array
    """E = ∫ r rᵀ dm, (3, 3)."""

    @staticmethod
    def nothing() -> Moments:
        """The moments of no mass."""
        return Moments(0, zeros(3), zeros(3, 3))

    @staticmethod
    def of(inertia: RigidInertia) -> Moments:
        """From a rigid inertia: E = tr(A)/2 − A."""
        A = inertia.rotation
        E = -A
        for i in range(3):
            E[i, i] = _sum(A[i - 1, i - 1], A[i - 2, i - 2], -A[i, i]) / 2
        return Moments(inertia.mass, inertia.moment, E)

    def less(self, other: Moments) -> Moments:
        """Without a part of the mass; what is equal cancels exactly."""
        return Moments(self.mass - other.mass, self.first - other.first, self.second - other.second)

    def transform(self, X: Pose) -> Moments:
        """About A's origin and in A's axes, for X = X_AB and moments given in B."""
        R, p = X
        h, E = R @ self.first, congruence(R, self.second)
        if not np.any(p != 0):
            return Moments(self.mass, h, E)
        upper = zeros(3, 3)
        for i in range(3):
            upper[i, i] = E[i, i] + p[i] * (2 * h[i] + self.mass * p[i])
            for j in range(i + 1, 3):
                upper[i, j] = E[i, j] + p[i] * h[j] + h[i] * p[j] + self.mass * (p[i] * p[j])
        return Moments(self.mass, h + self.mass * p, symmetric(upper))

    def flow(self, V: Array) -> Flow:
        """The flow when the body moves with twist V: ṙ = v + ω × r."""
        w, v = V[:3], V[3:]
        rows = [add_cross(self.first[i] * v, w, self.second[i]) for i in range(3)]
        return Flow(add_cross(self.mass * v, w, self.first), np.stack(rows))

    def rigid(self) -> RigidInertia:
        """These moments as a rigid inertia."""
        return RigidInertia(self.mass, self.first, trace_minus(self.second))


def trace_minus(A: Array) -> Array:
    """tr(A) 1 − A for a (3, 3) matrix; each diagonal entry is a sum of two, nothing cancels."""
    result = -A
    for i in range(3):
        result[i, i] = A[i - 1, i - 1] + A[i - 2, i - 2]
    return result


def _sum(*terms: Any) -> Any:
    # a slender body's two small moments are differences of large ones: sum floats exactly, round once
    if all(isinstance(x, float) for x in terms):
        return math.fsum(terms)
    return sum(terms)
