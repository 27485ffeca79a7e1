"""Derivatives of phases in which a massless foot slips under load: by differences.

Such a phase has first and second derivatives of its balance in it already, which have no compiled derivatives of their
own. Differences of fourth order keep about seven digits.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.impact.impact_derivatives import derivative
from whippletree.simulation.events.massless_feet.foot_slip import Dragging
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.sensitivity.phase_sensitivity import PhaseTangent, Slopes

SLIP_DIFFERENCE = 1e-4
"""Of the differences: rad, m, per second, s."""


def tangent_of(phase: Phase) -> PhaseTangent:
    """The derivatives of a phase: exact, or by differences where a massless foot slips under load."""
    return DraggingTangent(phase) if isinstance(phase, Dragging) else PhaseTangent(phase)


class DraggingTangent(PhaseTangent):
    """Derivatives of the motion while a massless foot slips."""

    def loads(self, t: Array, y: Array) -> Slopes:
        """Of accelerations and contact forces."""
        found = [self._at(*state) for state in zip(t.tolist(), y, strict=True)]
        a, contacts = (np.array([pair[k] for pair in found]) for k in (0, 1))
        return Slopes(a, contacts, np.zeros((*a.shape[:2], len(self.phase.holds))))

    def projection(self, t: float, q: Array, v: Array, directions: Array | None = None) -> Array:
        """Of the velocity that the mode makes of v."""
        y = np.concatenate([q, v])

        def projected(d: Array) -> Array:
            moved = self._moved(y, d)
            return self.phase.velocity_projected(t + d[-1], *self.scene.motion.split(moved))

        slopes = derivative(projected, self.tangent.count, SLIP_DIFFERENCE).T
        return np.asarray(slopes if directions is None else directions @ slopes)

    def admissible(self, t: float, y: Array) -> Array:
        """Π (2n, 2n): what the way back to the mode makes of (δq, δv)."""
        q, n = self.scene.motion.split(y)[0], self.scene.model.nv

        def projected(d: Array) -> Array:
            there, v = self.scene.motion.split(self.phase.project(t, self._moved(y, np.append(d, 0.0))))
            return np.concatenate([np.asarray(self.scene.motion.dyn.difference(q, there)), v])

        return derivative(projected, 2 * n, SLIP_DIFFERENCE)

    def _at(self, t: float, y: Array) -> tuple[Array, Array]:
        """Slopes of accelerations (d, n) and of contact forces (d, k, 3) at one state."""
        n, steps = self.scene.model.nv, SLIP_DIFFERENCE * np.eye(self.tangent.count)
        shifts = np.concatenate([share * steps for share in (-2, -1, 1, 2)])
        loads = self.phase.loads(t + shifts[:, -1], np.array([self._moved(y, d) for d in shifts]))
        values = np.concatenate([loads.a, loads.contacts.reshape(len(shifts), -1)], axis=1)
        slopes = np.einsum("s,sdi->di", [1, -8, 8, -1], values.reshape(4, len(steps), -1)) / (12 * SLIP_DIFFERENCE)
        return slopes[:, :n], slopes[:, n:].reshape(len(steps), -1, 3)

    def _moved(self, y: Array, d: Array) -> Array:
        q, v = self.scene.motion.split(y)
        n = self.scene.model.nv
        return np.concatenate([self.scene.moved(q, d[:n]), v + d[n : 2 * n]])
