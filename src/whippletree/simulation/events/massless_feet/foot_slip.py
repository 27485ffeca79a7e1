"""A massless foot that slips under load: the balance of its forces decides where it is.

Nothing accelerates a part without mass, so the forces on it vanish at every instant. While its contact sticks they give
the friction; while it slips the friction is at the edge of its cone, −μ fₙ d, and the balance along the slip,

    λ(t, q, v) = 0,      λ the force that would hold the part where it is

is an equation for its motion. Where a damper acts λ depends on v: a first-order law of slip. Where springs alone act it
depends on q: a condition on the configuration, whose first derivative in time is the law of slip and whose second joins
the block matrix. The mass of the others feels the contact's force; λ takes and gives no energy.

A foot whose leg lies outside the cone carries nothing and trails; a damper behind it then lets its spring go by the
same kind of law.

The slip is the limit of a small mass if it is stable: a foot that is held a little further on must be pushed back. A
foot that is pushed on instead would release its springs in no time; :func:`law_of_slip` tells the two apart.

A phase of slip has first and second derivatives of its balance in it already, which have no compiled derivatives of
their own: how it answers to small displacements is told by differences of fourth order, to about seven digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import Mode
from whippletree.contact.impact.impact_derivatives import derivative
from whippletree.errors import IntegrationError
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.phase import Loads, Phase, followed_phase
from whippletree.simulation.events.sensitivity.phase_sensitivity import PhaseTangent, Slopes

DAMPED = 1e-12
"""Share of the largest slope of λ, per rad, m or their rates, below which it does not depend on velocities."""

SECOND_DIFFERENCE = 1e-4
"""s: of the differences that give the second derivative of λ along the motion."""

SLIP_CORRECTIONS = 20
"""Newton corrections of a position projection."""

CLOSED_SLIP = 1e-15
"""Residual, m or rad, that counts as closed."""

SLIP_DIFFERENCE = 1e-4
"""Size of the differences that give derivatives of a phase of slip: rad, m, per second, s."""


class SlipLaw(NamedTuple):
    """The force λ that would hold a slipping foot, at m states, in units of its own slope along the slip."""

    value: Array
    """(m,): how far the foot is from its balance, m or m/s."""
    row: Array
    """∂λ/∂v, or ∂λ/∂q without a damper, (m, n)."""
    rate: Array
    """Other changes of λ (m,): ∂λ/∂q v + ∂λ/∂t, or ∂λ/∂t without a damper."""


class Dragging(Phase):
    """A phase in which one massless motion, the ``place``-th of those that are held, is in balance instead."""

    def __init__(self, held: Phase, place: int) -> None:
        super().__init__(held.scene, held.mode, held.time, held.state, held.still)
        scene, time, state = held.scene, held.time, held.state
        self.held, self.place = held, place
        self.tangent = PhaseTangent(held)
        self.unit, self.damped = 1.0, False
        slopes = self._slopes(np.array([time]), state[None])[0]
        n = scene.model.nv
        along = self.slip_motion(time, state)
        self.damped = bool(np.abs(slopes[n : 2 * n]).max() > DAMPED * np.abs(slopes).max())
        self.unit = float((slopes[n : 2 * n] if self.damped else slopes[:n]) @ along)
        # λ acts along the held velocity: held further on, the foot must be held against its slip
        self.stable = bool(self.unit * (self.holds[self.place] @ along) > 0)
        """Whether a foot that is a little further on is pushed back."""

    def slip_motion(self, t: float, y: Array) -> Array:
        """The motion (n,) of massless parts alone: one along the foot's slip, or along what relaxes."""
        q, v = self.scene.motion.split(y)
        at = self.scene.at(np.array([t]), q[None], v[None])
        R = self._rows(at, self.contact_rows)
        asked = np.zeros(R.shape[:2])
        asked[0, len(self.kept) + self.place] = 1.0
        motion = self.least_energy(at.M, R, asked)[0]
        slips = [self.mode.directions[i] @ at.J[0, 3 * i + 1 : 3 * i + 3] @ motion for i in self.dragged]
        return np.asarray(motion / slips[0] if slips else motion)

    def law(self, t: Array, y: Array) -> SlipLaw:
        """λ and its derivatives at m states."""
        n, v = self.scene.model.nv, self.scene.motion.split(y)[1]
        slopes = self._slopes(t, y) / self.unit
        value = self._holding(t, y) / self.unit
        if self.damped:
            return SlipLaw(value, slopes[:, n : 2 * n], np.einsum("mi,mi->m", slopes[:, :n], v) + slopes[:, -1])
        return SlipLaw(value, slopes[:, :n], slopes[:, -1])

    def loads(self, t: Array, y: Array) -> Loads:
        """Accelerations and forces, with the balance in place of what would hold the foot."""
        q, v = self.scene.motion.split(y)
        d, n = self.slip_directions(q, v), self.scene.model.nv
        K, b = self.block_matrix(self.scene.at(t, q, v), d)
        law = self.law(t, y)
        row = n + len(self.kept) + self.place
        K[:, row, :n], b[:, row] = law.row, -(law.rate if self.damped else self._second(t, q, v))
        x = self.solve(K, b)
        return Loads(x[:, :n], *self._forces_by_candidate(x[:, n:], d))

    def project(self, t: float, y: Array) -> Array:
        """The state with gaps and constraints closed and the foot in its balance."""
        q, v = self.scene.motion.split(y)
        q = self.scene.motion.normalise(q)
        last = np.inf
        for _ in range(SLIP_CORRECTIONS):
            here = np.array([t]), np.concatenate([q, v])[None]
            residual = self._residuals(here[0], q[None])[0]
            R = self._rows(self.scene.at(here[0], q[None], v[None]), self.contact_rows)
            if not self.damped:
                law, row = self.law(*here), len(self.kept) + self.place
                residual[row], R[:, row] = law.value[0], law.row
            size = float(np.abs(residual).max(initial=0.0))
            if size <= CLOSED_SLIP or size >= last:
                break
            M = self.scene.motion.evaluate("mass_matrix", q=q[None])
            q, last = self.scene.move(q, self.least_energy(M, R, -residual[None])[0]), size
        found = np.concatenate([q, self.velocity_projected(t, q, v)])
        self._require_stable(np.array([t]), found[None])
        return found

    def project_states(self, t: Array, y: Array) -> Array:
        """Many states (m, nq + nv), each at its time (m,), with the foot in its balance."""
        return self._one_by_one(t, y)

    def velocities_projected(self, t: Array, q: Array, v: Array) -> Array:
        """The nearest velocities with which contacts stay closed and the foot in its balance, (m, n)."""
        at, law = self.scene.at(t, q, v), self.law(t, np.concatenate([q, v], axis=1))
        R = self._rows(at, self.contact_rows)
        moving = np.einsum("mrn,mn->mr", at.J[:, self.contact_rows], v)
        speed = np.concatenate([self.scene.row_velocity(t, q, v)[:, self.kept], v @ self.holds.T, moving], axis=1)
        row = len(self.kept) + self.place
        R[:, row] = law.row
        speed[:, row] = law.value if self.damped else np.einsum("mi,mi->m", law.row, v) + law.rate
        return np.asarray(v + self.least_energy(at.M, R, -speed))

    def _holding(self, t: Array, y: Array) -> Array:
        """λ (m,)."""
        q, v = self.scene.motion.split(y)
        x = self.held.solve(*self.held.block_matrix(self.scene.at(t, q, v), self.slip_directions(q, v)))
        return np.asarray(x[:, self.scene.model.nv + len(self.kept) + self.place])

    def _slopes(self, t: Array, y: Array) -> Array:
        """Slopes of λ along (δq, δv, δt), (m, 2n + 1)."""
        return self.tangent.loads(t, y).held[..., self.place]

    def _second(self, t: Array, q: Array, v: Array) -> Array:
        """d²λ/dt² (m,) along the motion that keeps v, by differences of dλ/dt."""
        shifts, m = SECOND_DIFFERENCE * np.repeat([-2, -1, 1, 2], len(t)), len(t)
        q, v, t = np.tile(q, (4, 1)), np.tile(v, (4, 1)), np.tile(t, 4)
        law = self.law(t + shifts, np.concatenate([self.scene.move(q, shifts[:, None] * v), v], axis=1))
        rates = (np.einsum("mi,mi->m", law.row, v) + law.rate).reshape(4, m)
        return np.asarray(np.array([1, -8, 8, -1]) @ rates / (12 * SECOND_DIFFERENCE))

    def _require_stable(self, t: Array, y: Array) -> None:
        """Refuse to go on where the slip runs away.

        Raises:
            IntegrationError: with the foot's name.
        """
        if not self.law(t, y).row[0] @ self.slip_motion(float(t[0]), y[0]) > 0:
            i = [*self.dragged, *self.trailing][0]
            raise released_error(self.scene, i, float(t[0]), self.held.loads(t, y).contacts[0, i])


def released_error(
    scene: EventEquations, contact: int, t: float, force: Array, in_space: bool = False
) -> IntegrationError:
    """Message about a foot that slips without anything that brings it to a halt, or in space."""
    if in_space:
        return IntegrationError(
            f"the run stopped at t = {t:.9g} s: {scene.contacts.names[contact]!r} slips under a load of {force[0]:.6g} "
            f"N and is part of a massless body. The balance of its forces is followed where it can slip in one "
            f"direction, and this one may turn its slip. Give that body mass, or the contact more friction",
            t,
        )
    return IntegrationError(
        f"the run stopped at t = {t:.9g} s: {scene.contacts.names[contact]!r} slips under a load of {force[0]:.6g} N "
        f"with friction {np.hypot(*force[1:]):.6g} N (μ = {scene.contacts.friction[contact]:g}) and is part of a "
        f"massless body. The further it slips the less friction holds it, so the springs behind it release their "
        f"energy in no time, and how is not determined. Give that body mass, the joints behind it dampers, or the "
        f"contact more friction",
        t,
    )


def phase_of(scene: EventEquations, mode: Mode, t: float, y: Array, still: float = 0.0) -> Phase:
    """The phase of a mode: plain, with a massless foot that slips under load, or with one whose leg relaxes."""
    plain = followed_phase(scene, mode, t, y, still)
    if plain.dragged:
        return Dragging(plain, plain.drag_rows[0])
    relaxing = damped_holds(plain)
    return Dragging(plain, relaxing[0]) if relaxing else plain


def damped_holds(phase: Phase) -> list[int]:
    """Which of the massless motions that are held behind a foot that trails have a damper: it decides how they move."""
    if not phase.trailing:
        return []
    model = phase.scene.model
    dampers = np.zeros(model.nv)
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        dampers[part] = float(joint.damping)
    return np.flatnonzero(phase.holds @ dampers).tolist()


def relaxes(scene: EventEquations, mode: Mode, contact: int, t: float, y: Array, least: float) -> bool:
    """Whether a foot that trails in this mode, its leg relaxing in a damper, carries less than ``least``, N."""
    plain = Phase(scene, mode, t, y)
    holds = damped_holds(plain)
    if not holds:
        return False
    phase = Dragging(plain, holds[0])
    q, v = scene.motion.split(y)
    state = np.concatenate([q, phase.velocity_projected(t, q, v)])
    return bool(np.abs(phase.loads(np.array([t]), state[None]).contacts[0, contact]).max() <= least)


def law_of_slip(
    scene: EventEquations, mode: Mode, contact: int, direction: Array, at: tuple[float, Array, float], least: float
) -> Mode | None:
    """The mode with a massless foot slipping along a direction under load, if that is stable and leads there.

    Args:
        scene, mode, contact, direction: the foot, the mode of the others, and the slip (2,).
        at: time, state, and how much later, s, the foot must press: springs at rest carry nothing yet.
        least: force, N, that counts as pressing.
    """
    t, y, ahead = at
    trial = mode.trailing([contact])
    trial.directions[contact] = direction
    plain = Phase(scene, trial, t, y)
    if len(plain.dragged) != 1 or len(plain.drag_rows) != 1:
        return None  # a slip that may turn (in space), or feet that share what is behind them
    phase = Dragging(plain, plain.drag_rows[0])
    if not phase.stable:
        return None
    q, v = scene.motion.split(y)
    v = phase.velocity_projected(t, q, v)
    a = phase.loads(np.array([t]), np.concatenate([q, v])[None]).a[0]
    q, v = scene.move(q, ahead * v), v + ahead * a
    v = phase.velocity_projected(t + ahead, q, v)
    pressed = phase.loads(np.array([t + ahead]), np.concatenate([q, v])[None]).contacts[0, contact, 0]
    return trial if pressed > least and scene.contact_velocity(q, v)[contact, 1:] @ direction > 0 else None


def tangent_of(phase: Phase) -> PhaseTangent:
    """The derivatives of a phase: exact, or by differences where a massless foot slips under load."""
    return DraggingTangent(phase) if isinstance(phase, Dragging) else PhaseTangent(phase)


class DraggingTangent(PhaseTangent):
    """Derivatives of the motion while a massless foot slips."""

    def loads(self, t: Array, y: Array) -> Slopes:
        """Slopes of accelerations and contact forces."""
        found = [self._at(*state) for state in zip(t.tolist(), y, strict=True)]
        a, contacts = (np.array([pair[k] for pair in found]) for k in (0, 1))
        return Slopes(a, contacts, np.zeros((*a.shape[:2], len(self.phase.holds))))

    def projection(self, t: float, q: Array, v: Array, directions: Array | None = None) -> Array:
        """Slopes of the velocity that the mode makes of v."""
        y = np.concatenate([q, v])

        def projected(d: Array) -> Array:
            moved = self._move(y, d)
            return self.phase.velocity_projected(t + d[-1], *self.scene.motion.split(moved))

        slopes = derivative(projected, self.tangent.count, SLIP_DIFFERENCE).T
        return np.asarray(slopes if directions is None else directions @ slopes)

    def admissible(self, t: float, y: Array) -> Array:
        """Π (2n, 2n): what the way back to the mode makes of (δq, δv)."""
        q, n = self.scene.motion.split(y)[0], self.scene.model.nv

        def projected(d: Array) -> Array:
            there, v = self.scene.motion.split(self.phase.project(t, self._move(y, np.append(d, 0.0))))
            return np.concatenate([np.asarray(self.scene.motion.dyn.difference(q, there)), v])

        return derivative(projected, 2 * n, SLIP_DIFFERENCE)

    def _at(self, t: float, y: Array) -> tuple[Array, Array]:
        """Slopes of accelerations (d, n) and of contact forces (d, k, 3) at one state."""
        n, steps = self.scene.model.nv, SLIP_DIFFERENCE * np.eye(self.tangent.count)
        shifts = np.concatenate([share * steps for share in (-2, -1, 1, 2)])
        loads = self.phase.loads(t + shifts[:, -1], np.array([self._move(y, d) for d in shifts]))
        values = np.concatenate([loads.a, loads.contacts.reshape(len(shifts), -1)], axis=1)
        slopes = np.einsum("s,sdi->di", [1, -8, 8, -1], values.reshape(4, len(steps), -1)) / (12 * SLIP_DIFFERENCE)
        return slopes[:, :n], slopes[:, n:].reshape(len(steps), -1, 3)

    def _move(self, y: Array, d: Array) -> Array:
        q, v = self.scene.motion.split(y)
        n = self.scene.model.nv
        return np.concatenate([self.scene.move(q, d[:n]), v + d[n : 2 * n]])
