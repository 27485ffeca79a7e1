"""A mechanism with contacts at many states at once: the pieces of its block matrix, from compiled functions.

    M a + c = τ + Aᵀ f + Jᵀ λ,    A a + γ = −C f,    J a + β = u̇

A holds the independent rows of the model's constraints, J those of the contacts, of the joints' stops and of their dry
friction (:mod:`whippletree.contact.kinematics.joint_contacts`). Rows of A that only hold (or relax) a massless motion
which nothing else carries are *loose*: a contact that carries the motion takes their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.impact.impact import Impact, massless_basis
from whippletree.contact.kinematics.contact_set import Candidate, Listed, contact_set
from whippletree.contact.kinematics.joint_contacts import JointContacts
from whippletree.simulation.motion import Motion

if TYPE_CHECKING:
    from whippletree.simulation.events.compiled_phase import CompiledPhases
    from whippletree.simulation.events.phase import Phase
    from whippletree.simulation.events.sensitivity.phase_sensitivity import SceneTangent


REACHES_MASSLESS = 1e-10
"""Share of its largest entry below which a contact's row does not move a massless part."""

DRIVEN = 1e-6
"""Change of a coordinate or velocity, rad, m or per second, that shows whether a force depends on it."""


RECENT_STATES = 16
"""Single states whose pieces are kept: an event asks for about eight, some of them ten times."""


class At(NamedTuple):
    """The pieces at m states."""

    M: Array
    """(m, n, n)"""
    b: Array
    """τ − c (m, n)."""
    A: Array
    """(m, r, n)"""
    gamma: Array
    """(m, r)"""
    J: Array
    """(m, 3k, n)"""
    beta: Array
    """(m, 3k)"""


class EventEquations:
    """Quantities of a model in motion for modes, guards and impacts."""

    def __init__(self, motion: Motion) -> None:
        self.motion, self.model = motion, motion.model
        self._recent: dict[tuple[bytes, bytes, bytes], tuple[Any, At]] = {}
        """Single states that were asked for last, each with the controller that acted there."""
        self.trials: dict[tuple[Any, ...], Phase] = {}
        """Phases that massless feet have tried last, by mode and state."""
        self.last_impact: tuple[tuple[Any, ...], Impact] | None = None
        """With its time, state and contacts."""
        self.tangent: SceneTangent | None = None
        """How the pieces change with the state, once that is asked for."""
        self.joints = JointContacts(self.model)
        touching = contact_set(self.model).candidates
        self.contacts = Touchables((*touching, *self.joints.candidates))
        self.touching = len(touching)
        # what presses a candidate whatever the motion does; zero for those whose normal force is found
        self.pressed = np.concatenate([np.zeros(len(touching)), self.joints.pressed])
        self.units = ["m"] * self.touching + [*self.joints.units]
        self.count = len(self.contacts.names)
        system = constraint_set(self.model)
        self.row_names = system.row_names if self.model.constraints else ()
        self.rows = list(system.structure.independent) if self.model.constraints else []
        self.compliance = np.array([float(system.compliance[i]) for i in self.rows])
        self.loose = [n for n, i in enumerate(self.rows) if i in system.massless_rows]
        self.firm = [n for n in range(len(self.rows)) if n not in self.loose]
        self.position_rows = [system.position_rows.index(i) if i in system.position_rows else -1 for i in self.rows]

    @cached_property
    def compiled(self) -> CompiledPhases:
        """Loads and projections of its modes by machine code."""
        from whippletree.simulation.events.compiled_phase import CompiledPhases

        return CompiledPhases(self)

    def at(self, t: Array, q: Array, v: Array) -> At:
        """All of it, with the forces that act at these times.

        What an event asks of single states it asks several times, of the mode before, of those that are tried and of
        the one after it: the last of them are kept.
        """
        if len(q) != 1:
            return self._work_out(t, q, v)
        state = t.tobytes(), q.tobytes(), v.tobytes()
        known = self._recent.get(state)
        if known is None or known[0] is not self.motion.compiled_controller:
            known = self.motion.compiled_controller, self._work_out(t, q, v)
            for part in known[1]:
                part.flags.writeable = False
            self._recent.pop(state, None)
            self._recent[state] = known
            if len(self._recent) > RECENT_STATES:
                del self._recent[next(iter(self._recent))]
        return known[1]

    def _work_out(self, t: Array, q: Array, v: Array) -> At:
        m = len(q)
        tau = self.motion.forces(t, q, v)
        M = self._many("mass_matrix", q=q)
        c = self._many("bias", q=q, v=v)
        A, gamma = np.zeros((m, 0, self.model.nv)), np.zeros((m, 0))
        if self.rows:
            A = self._many("constraint_jacobian", q=q, t=t)[:, self.rows]
            gamma = self._many("constraint_bias", q=q, v=v, t=t)[:, self.rows]
        own = np.zeros((m, 0, self.model.nv)), np.zeros((m, 0))
        if self.touching:
            beta = self._many("contact_bias", q=q, v=v)  # first: plain contacts then know the rows, too
            own = self._many("contact_jacobian", q=q), beta
        return At(M, tau - c, A, gamma, *self._with_joints(*own))

    def flight(self, t: Array, q: Array, v: Array, rubbed: Array) -> Array:
        """Accelerations (m, n) of a tree that nothing touches or constrains, with joints' friction (n,)."""
        return self._many("forward_dynamics", q=q, v=v, tau=self.motion.forces(t, q, v) + rubbed, t=t)

    def constrained_flight(self, t: Array, q: Array, v: Array, rubbed: Array) -> tuple[Array, Array]:
        """Accelerations (m, n) and forces of the rows (m, r) of a model that nothing touches, with joints' friction."""
        tau = self.motion.forces(t, q, v) + rubbed
        a = self._many("forward_dynamics", q=q, v=v, tau=tau, t=t)
        return a, self._many("constraint_forces", q=q, v=v, tau=tau, t=t)[:, self.rows]

    def _with_joints(self, J: Array, beta: Array) -> tuple[Array, Array]:
        """J (m, 3k, n) and β (m, 3k) of the contacts, and those of the joints' stops and friction after them."""
        m, rows = len(J), self.joints.rows
        if not len(rows):
            return J, beta
        J = np.concatenate([J, np.broadcast_to(rows, (m, *rows.shape))], axis=1)
        return J, np.concatenate([beta, np.zeros((m, len(rows)))], axis=1)

    def weightless(self, at: At, contacts: Iterable[int]) -> list[int]:
        """The ones of these contacts that are on parts without mass, at the first state."""
        Z = massless_basis(at.M[0], at.A[0, self.firm])
        if not Z.size:
            return []
        rows = {i: at.J[0, 3 * i : 3 * i + 3] for i in contacts}
        return [i for i, J in rows.items() if np.abs(J @ Z).max() > REACHES_MASSLESS * np.abs(J).max()]

    def is_driven(self, t: float, q: Array, v: Array) -> Array:
        """Whether a force along a velocity without inertia depends on its position or itself (n,): spring, damper, …"""
        n, d = self.model.nv, DRIVEN * np.eye(self.model.nv)
        rest, ones = np.zeros((n + 1, n)), np.ones((2 * n + 1, 1))
        moved = self.move(q * ones, np.concatenate([rest, d]))
        b = self.at(np.full(2 * n + 1, t), moved, v * ones + np.concatenate([rest[:1], d, 0 * d])).b
        change = np.abs(b[1:] - b[0]).reshape(2, n, n).max(axis=0).diagonal()
        light = self._many("mass_matrix", q=q).diagonal() == 0
        return np.asarray(light & (change > 0))

    def gaps(self, q: Array) -> Array:
        """(..., k)"""
        own = self._many("contact_gaps", q=q) if self.touching else np.zeros((*q.shape[:-1], 0))
        return np.concatenate([own, self.joints.gaps(q)], axis=-1) if self.joints.candidates else own

    def contact_velocity(self, q: Array, v: Array) -> Array:
        """J v (..., k, 3)."""
        own = self._many("contact_velocity", q=q, v=v) if self.touching else np.zeros((*v.shape[:-1], 0))
        u = np.concatenate([own, v @ self.joints.rows.T], axis=-1) if self.joints.candidates else own
        return u.reshape(*u.shape[:-1], self.count, 3)

    def residual(self, t: Array, q: Array) -> Array:
        """Position residuals of the rows at m states (m, r); zero for rows without one."""
        if not self.rows:
            return np.zeros((len(q), 0))
        g = self._many("constraint_residual", q=q, t=t)
        return np.concatenate([g, np.zeros((len(q), 1))], axis=1)[:, self.position_rows]

    def row_velocity(self, t: Any, q: Array, v: Array) -> Array:
        """A v + gₜ (..., r)."""
        if not self.rows:
            return np.zeros((*v.shape[:-1], 0))
        return self._many("constraint_velocity", q=q, v=v, t=t)[..., self.rows]

    def move(self, q: Array, d: Array) -> Array:
        """q ⊕ d."""
        return self._many("integrate", q=q, d=d)

    def rate(self, q: Array, v: Array) -> Array:
        """q̇"""
        return self._many("rate", q=q, v=v)

    def energy(self, q: Array, v: Array) -> float:
        """Kinetic and potential, J."""
        return float(self._many("kinetic_energy", q=q, v=v)) + float(self._many("potential_energy", q=q))

    def _many(self, name: str, **state: Any) -> Array:
        return self.motion.evaluate(name, **state)


@dataclass(frozen=True, eq=False)
class Touchables(Listed):
    """Candidates of a scene: the contacts' candidates, then what joints have."""

    candidates: tuple[Candidate, ...]
