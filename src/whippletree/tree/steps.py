"""One time step of a fixed-step integrator, on any scalar, so that whole roll-outs compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial.joints import Free, JointType

Acceleration: TypeAlias = Callable[[Array, Array], Array]
"""a(q, v): the accelerations (nv,) at a state."""


class Coordinates(Protocol):
    """Operations of a step on the coordinates of a system."""

    def integrate(self, q: Array, d: Array) -> Array:
        """q ⊕ d (nq,)."""

    def rate(self, q: Array, v: Array) -> Array:
        """q̇ (nq,)."""

    def normalise(self, q: Array) -> Array:
        """The coordinates with quaternions back at unit length."""

    def turning(self, v: Array) -> Array:
        """Difference between the change of velocity in space and v̇ (nv,)."""

    def straight(self, q: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """q ⊕ d (nq,) and v (nv,) there, free bodies along straight lines."""


class Manifold:
    """The coordinates of a tree: how velocities move them."""

    def __init__(self, joints: Sequence[JointType], q_slices: Sequence[slice], v_slices: Sequence[slice]) -> None:
        self.parts = list(zip(joints, q_slices, v_slices, strict=True))

    def integrate(self, q: Array, d: Array) -> Array:
        """q ⊕ d (nq,), for a displacement d (nv,) in the tangent space."""
        return self._join([joint.integrate(q[i], d[j]) for joint, i, j in self.parts])

    def difference(self, q: Array, r: Array) -> Array:
        """The d (nv,) with q ⊕ d = r."""
        return self._join([joint.difference(q[i], r[i]) for joint, i, _ in self.parts])

    def rate(self, q: Array, v: Array) -> Array:
        """q̇ (nq,)."""
        return self._join([joint.rate(q[i], v[j]) for joint, i, j in self.parts])

    def normalise(self, q: Array) -> Array:
        """The coordinates with quaternions back at unit length."""
        parts = []
        for joint, i, _ in self.parts:
            own = q[i]
            if joint.nq > joint.nv:
                quaternion = own[-4:]
                own = np.concatenate([own[:-4], quaternion / scalars.sqrt(quaternion @ quaternion)])
            parts.append(own)
        return self._join(parts)

    def turning(self, v: Array) -> Array:
        """Change of velocity in space less v̇ (nv,): a free body's linear velocity is in axes that turn."""
        return self._join(
            [joint.turning(v[j]) if isinstance(joint, Free) else zeros(joint.nv) for joint, _, j in self.parts]
        )

    def straight(self, q: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """q ⊕ d (nq,) and v (nv,) there; free bodies move along straight lines and keep their velocity in space.

        A step of first order that leaves the linear velocity in the body's axes turns it outwards by ω h: a body that
        spins would gain the share (ω h)² of its energy in every step.
        """
        moved = [
            joint.straight(q[i], v[j], d[j]) if isinstance(joint, Free) else (joint.integrate(q[i], d[j]), v[j])
            for joint, i, j in self.parts
        ]
        return self._join([own for own, _ in moved]), self._join([own for _, own in moved])

    @staticmethod
    def _join(parts: list[Array]) -> Array:
        return np.concatenate(parts) if parts else np.zeros(0, dtype=object)


def semi_implicit_euler(manifold: Coordinates, a: Acceleration, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
    """v⁺ = v + h a(q, v), q⁺ = q ⊕ h v⁺. First order; symplectic only where M does not depend on q.

    Linear velocities of free bodies are stepped in space, not in their own axes.
    """
    v = v + h * (a(q, v) + manifold.turning(v))
    return manifold.straight(q, v, h * v)


class Stage(NamedTuple):
    """Where a Runge–Kutta step stands: the state to evaluate next, and the weighted sum of the slopes so far."""

    q: Array
    v: Array
    q_sum: Array
    v_sum: Array


RK4_REACH = (1 / 2, 1 / 2, 1, 0)
"""How far along its slope each stage sends the next one, as a part of the step."""
RK4_WEIGHTS = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
"""The share of each stage's slope in the step."""
RK4_TIMES = (0, 1 / 2, 1 / 2, 1)
"""When each stage is, as a part of the step."""


def rk4_stage(
    manifold: Coordinates, a: Acceleration, q: Array, v: Array, now: Stage, h: Any, reach: Any, weight: Any
) -> Stage:
    """One stage of the classical fourth-order method that started from (q, v).

    The stages use the quaternion's own coordinates (a pose does not care for its length), so the order is kept.
    """
    slope, acceleration = manifold.rate(now.q, now.v), a(now.q, now.v)
    ahead = h * reach
    return Stage(
        q + ahead * slope,
        v + ahead * acceleration,
        now.q_sum + weight * slope,
        now.v_sum + weight * acceleration,
    )


def rk4_end(manifold: Coordinates, q: Array, v: Array, last: Stage, h: Any) -> tuple[Array, Array]:
    """The state after the last stage, quaternions at unit length."""
    return manifold.normalise(q + h * last.q_sum), v + h * last.v_sum


def runge_kutta_4(
    manifold: Coordinates, a: Callable[[Any, Array, Array], Array], q: Array, v: Array, t: Any, h: Any
) -> tuple[Array, Array]:
    """One step of the classical fourth-order method on (q, v), with q̇ = rate(q, v) and v̇ = a(t, q, v)."""
    now = Stage(q, v, q * 0, v * 0)
    for reach, weight, part in zip(RK4_REACH, RK4_WEIGHTS, RK4_TIMES, strict=True):
        now = rk4_stage(manifold, partial(a, t + part * h), q, v, now, h, reach, weight)
    return rk4_end(manifold, q, v, now, h)
