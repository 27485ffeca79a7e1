"""One time step of a fixed-step integrator, on any scalar, so that whole roll-outs compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from whippletree import scalars
from whippletree.joints import JointType
from whippletree.spatial import Array

Acceleration: TypeAlias = Callable[[Array, Array], Array]
"""a(q, v): the accelerations (nv,) at a state."""


class Manifold:
    """The coordinates of a tree: how velocities move them."""

    def __init__(self, joints: Sequence[JointType], q_slices: Sequence[slice], v_slices: Sequence[slice]) -> None:
        self.parts = list(zip(joints, q_slices, v_slices, strict=True))

    def integrate(self, q: Array, d: Array) -> Array:
        """q ⊕ d (nq,), for a displacement d (nv,) in the tangent space."""
        return self._joined([joint.integrate(q[i], d[j]) for joint, i, j in self.parts])

    def difference(self, q: Array, r: Array) -> Array:
        """The d (nv,) with q ⊕ d = r."""
        return self._joined([joint.difference(q[i], r[i]) for joint, i, _ in self.parts])

    def rate(self, q: Array, v: Array) -> Array:
        """q̇ (nq,)."""
        return self._joined([joint.rate(q[i], v[j]) for joint, i, j in self.parts])

    def normalised(self, q: Array) -> Array:
        """The coordinates with quaternions back at unit length."""
        parts = []
        for joint, i, _ in self.parts:
            own = q[i]
            if joint.nq > joint.nv:
                quaternion = own[-4:]
                own = np.concatenate([own[:-4], quaternion / scalars.sqrt(quaternion @ quaternion)])
            parts.append(own)
        return self._joined(parts)

    @staticmethod
    def _joined(parts: list[Array]) -> Array:
        return np.concatenate(parts) if parts else np.zeros(0, dtype=object)


def semi_implicit_euler(manifold: Manifold, a: Acceleration, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
    """v⁺ = v + h a(q, v), q⁺ = q ⊕ h v⁺. First order; symplectic only where M does not depend on q."""
    v = v + h * a(q, v)
    return manifold.integrate(q, h * v), v


def runge_kutta_4(manifold: Manifold, a: Acceleration, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
    """The classical fourth-order method on (q, v) with q̇ = rate(q, v), quaternions brought back to unit length.

    The stages use the quaternion's own coordinates (a pose does not care for its length), so the order is kept.
    """
    k1, l1 = manifold.rate(q, v), a(q, v)
    q2, v2 = q + h / 2 * k1, v + h / 2 * l1
    k2, l2 = manifold.rate(q2, v2), a(q2, v2)
    q3, v3 = q + h / 2 * k2, v + h / 2 * l2
    k3, l3 = manifold.rate(q3, v3), a(q3, v3)
    q4, v4 = q + h * k3, v + h * l3
    k4, l4 = manifold.rate(q4, v4), a(q4, v4)
    q = q + h / 6 * (k1 + 2 * (k2 + k3) + k4)
    v = v + h / 6 * (l1 + 2 * (l2 + l3) + l4)
    return manifold.normalised(q), v


STEPS = {"semi_implicit_euler": semi_implicit_euler, "rk4": runge_kutta_4}
"""Fixed-step integrators by name."""
