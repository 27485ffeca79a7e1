"""A model in motion, as the integrator sees it: the rate of its state, and the way back to its manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.compiler.compiled import Compiled

Array = np.ndarray[Any, Any]

CLOSING_ROUNDS = 8
"""Newton corrections that a position projection may take; each squares the residual."""


class Motion:
    """The equations of motion of a compiled model under a controller."""

    def __init__(self, dyn: Compiled, controller: Callable[[float, Array, Array], Any] | None) -> None:
        self.dyn = dyn
        self.model = dyn.model
        self._controller = controller
        self._quaternions = [
            slice(part.stop - 4, part.stop)
            for part, kind in zip(self.model.q_slices, self.model.joint_types, strict=True)
            if kind.nq > kind.nv
        ]
        self._passive = any(joint.stiffness != 0 or joint.damping != 0 for joint in self.model.joints)

    def split(self, y: Array) -> tuple[Array, Array]:
        """q and v of a state."""
        return y[: self.model.nq], y[self.model.nq :]

    def forces(self, t: float, q: Array, v: Array) -> Array:
        """All joint forces: the controller's, and those of springs and dampers."""
        tau = np.zeros(self.model.nv)
        if self._controller is not None:
            tau = tau + np.asarray(self._controller(t, q, v), dtype=float)
        return tau + self.dyn.passive_forces(q, v) if self._passive else tau

    def acceleration(self, t: float, q: Array, v: Array) -> Array:
        """a (nv,) at a state."""
        return np.asarray(self.dyn.forward_dynamics(q, v, self.forces(t, q, v)))

    def rate(self, t: float, y: Array) -> Array:
        """(q̇, v̇)."""
        q, v = self.split(y)
        return np.concatenate([self.dyn.rate(q, v), self.acceleration(t, q, v)])

    def project(self, t: float, y: Array) -> Array:
        """Quaternions to unit length."""
        q, v = self.split(y)
        if self._quaternions:
            q = q.copy()
            for part in self._quaternions:
                q[part] /= np.linalg.norm(q[part])
        return np.concatenate([q, v])
