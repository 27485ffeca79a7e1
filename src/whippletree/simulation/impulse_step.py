"""One time step of one scene, from compiled parts and dense matrices: any shapes, any number of contacts.

The mathematics is that of :mod:`whippletree.contact.step`, whose unrolled form the batches use. Here the contacts that
are far away are left out, so that the matrix has the size of what touches, and the problem is solved to a tolerance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.compiled import compile
from whippletree.compiler.contact_sweeps import contact_sweeps
from whippletree.contact.complementarity import Measure, Problem
from whippletree.contact.nearby import REACH, Near, Neighbourhood
from whippletree.contact.passive import dampings, implicit_dampings, implicit_model, is_passive
from whippletree.contact.solver import Solution, solve
from whippletree.contact.step import Blocks, shifts
from whippletree.errors import UnsupportedError
from whippletree.simulation.free_bodies import FreeBodies
from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.motion import Motion

Array = np.ndarray[Any, Any]

CORRECTION_SWEEPS = 50
"""Sweeps of the position correction in a step; what they leave is left to the next step."""

COMPILED_UP_TO = 48
"""Points of shapes up to which the kinematics of all is compiled; beyond, only those that are near are worked out."""


class Step(NamedTuple):
    """What a step has led to."""

    state: Array
    """(nq + nv,)"""
    impulses: Array
    """N s, of all blocks, (blocks, 3)."""
    solution: Solution
    contact_work: float
    """Of the impulses, J."""
    friction_work: float
    """The tangential part of it, J."""
    joint_work: float
    """Of motors and dampers, J."""
    correction_work: float
    """Potential energy that bringing overlaps apart and loops together has added, J."""


class ImpulseStep:
    """Steps of a model that touches its world."""

    def __init__(self, motion: Motion, tolerance: float) -> None:
        """``tolerance``: of the natural map, m/s."""
        self.motion, self.model, self.dyn = motion, motion.model, motion.dyn
        self.tolerance = tolerance
        self.blocks = Blocks(self.model)
        self.contacts = len(self.blocks.contacts.candidates)
        self.neighbourhood = Neighbourhood(self.blocks.contacts)
        self._free = FreeBodies(self.model)
        self._compiled = 0 < self.blocks.contacts.corners <= COMPILED_UP_TO and self.blocks.contacts.closed_form
        self.damping = dampings(self.model).astype(float)
        """N m s/rad or N s/m, (nv,)."""
        self._passive = any(is_passive(joint) for joint in self.model.joints)
        self._implicit: dict[str, tuple[Motion, Array]] = {}
        self._friction = self.blocks.friction.astype(float)
        self._restitution = self.blocks.restitution.astype(float)

    def step(self, t: float, y: Array, start: Array, h: float) -> Step:
        """One step of length h from a state y (nq + nv,), its iteration begun with impulses (blocks, 3)."""
        q, v = self.motion.split(y)
        tau, (implicit, damping) = self.motors(np.array([t]), q[None], v[None])[0], self._stiffened(h)
        forces = tau + self.dyn.passive_forces(q, np.zeros_like(v)) - damping * v if self._passive else tau
        free = v + h * self._free.acceleration(implicit, t, q, v, forces)
        try:
            numbers, gaps, J = self._rows(q, v, free, h)
        except UnsupportedError as error:
            raise IntegrationError(f"the stepping stopped at t = {t:.9g} s: {error}", t) from None
        rows = J.reshape(-1, self.model.nv)
        response = self._responses(implicit, t, q, rows)
        approach = (rows @ v).reshape(-1, 3)
        shift = shifts(gaps, approach[:, 0], self._restitution[numbers], h).astype(float)
        problem = self._problem(numbers, rows @ response.T, (rows @ free).reshape(-1, 3), shift, h)
        solution = solve(problem, start[numbers], sweeps, tolerance=self.tolerance)
        impulse = solution.impulse
        after = free + impulse.ravel() @ response
        u = problem.velocity(impulse)
        u[:, 0] -= shift
        apart = self._apart(problem.G, gaps + h * u[:, 0]) @ response
        state = self.motion.project(t + h, self._moved(q, after, h * after + apart))
        every = np.zeros((self.blocks.count, 3))
        every[numbers] = impulse
        work = float(self.joint_work(tau, v, after, h))
        works = impulse * (u + approach) / 2
        corrected = self._corrected(q, after, h, state) if np.any(apart) or self.model.constraints else 0.0
        return Step(state, every, solution, float(works.sum()), float(works[:, 1:].sum()), work, corrected)

    def _moved(self, q: Array, v: Array, d: Array) -> Array:
        """The state (nq + nv,) after a displacement d (nv,)."""
        return self._free.moved(self.dyn.integrate(q, d), q, v, d)

    def _corrected(self, q: Array, v: Array, h: float, state: Array) -> float:
        """Potential energy of a state beyond that of a step by velocities alone, J."""
        ends = np.stack([self._moved(q, v, h * v), state])[:, : self.model.nq]
        before, after = self.dyn.potential_energy(ends)
        return float(after - before)

    def motors(self, t: Array, q: Array, v: Array) -> Array:
        """The controller's forces (m, nv) at m states."""
        forces = self.motion.forces(t, q, v)
        return np.asarray(forces - self.dyn.passive_forces(q, v)) if self._passive else forces

    def joint_work(self, tau: Array, v: Array, after: Array, h: Any) -> Array:
        """Work (...) of motors and dampers in a step: of the impulses h (τ − D v⁺), J."""
        with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of bounds
            return np.asarray(h * ((tau - self.damping * after) * (v + after)).sum(axis=-1) / 2)

    def _stiffened(self, h: float) -> tuple[Motion, Array]:
        """The model with M + h D̃, and D̃ (nv,), of springs and dampers; steps that differ by rounding share them."""
        if not self._passive:
            return self.motion, self.damping
        key = f"{h:.12g}"
        if key not in self._implicit:
            damping = implicit_dampings(self.model, float(key)).astype(float)
            self._implicit[key] = Motion(compile(implicit_model(self.model, float(key)))), damping
        return self._implicit[key]

    def gaps(self, q: Array) -> tuple[Array, Array, Array]:
        """Of all contacts (..., contacts) and joint limits (..., limits), m or rad, and the limits' signs."""
        axes = self.blocks.limited
        own = q[..., [axis.q for axis in axes]]
        below, above = own - [axis.lower for axis in axes], [axis.upper for axis in axes] - own
        return self._gaps(q), np.minimum(below, above), np.where(above < below, -1.0, 1.0)

    def _gaps(self, q: Array) -> Array:
        if not self.contacts:
            return np.zeros((*q.shape[:-1], 0))
        if self._compiled:
            return np.asarray(self.dyn.contact_gaps(q)).reshape(*q.shape[:-1], self.contacts)
        if q.ndim > 1:
            return np.array([self._gaps(one) for one in q])
        return self.neighbourhood.gaps(q)

    def _problem(self, numbers: Array, G: Array, velocity: Array, shift: Array, h: float) -> Problem:
        g = velocity.copy()
        g[:, 0] += shift
        cap = self.blocks.cap(h).astype(float)[numbers]
        return Problem(G.reshape(len(numbers), 3, len(numbers), 3), g, self._friction[numbers], cap)

    def _rows(self, q: Array, v: Array, free: Array, h: float) -> tuple[Array, Array, Array]:
        """Numbers (k,), gaps (k,) and J (k, 3, nv) of the blocks that may matter in this step."""
        near = self._near(q, v, free, h)
        distances, signs = (x.astype(float) for x in self.blocks.limits(q))
        span = REACH * h * max(np.abs(v).max(initial=0.0), np.abs(free).max(initial=0.0))
        close = np.flatnonzero(distances <= span)
        limits = np.zeros((len(close), 3, self.model.nv))
        for row, i in enumerate(close):
            limits[row, 0, self.blocks.limited[i].v] = signs[i]
        rubbing = np.zeros((len(self.blocks.rubbing), 3, self.model.nv))
        for row, axis in enumerate(self.blocks.rubbing):
            rubbing[row, 1, axis.v] = 1.0
        others = self.contacts + len(self.blocks.limited)
        numbers = np.concatenate([near.numbers, self.contacts + close, others + np.arange(len(rubbing))]).astype(int)
        gaps = np.concatenate([near.gaps, distances[close], np.zeros(len(rubbing))])
        return numbers, gaps, np.concatenate([near.jacobian, limits, rubbing])

    def _near(self, q: Array, v: Array, free: Array, h: float) -> Near:
        if self._compiled:
            J = np.asarray(self.dyn.contact_jacobian(q)).reshape(self.contacts, 3, self.model.nv)
            gaps, fastest = self._gaps(q), max(float(np.abs(J @ speed).max()) for speed in (v, free))
            close = np.flatnonzero(gaps <= REACH * h * fastest)
            return Near(close, gaps[close], J[close])
        if not self.contacts:
            return Near(np.arange(0), np.zeros(0), np.zeros((0, 3, self.model.nv)))
        return self.neighbourhood.near(q, (v, free), h)

    def _responses(self, motion: Motion, t: float, q: Array, rows: Array) -> Array:
        """(M† Jᵀ)ᵀ (rows, nv)."""
        if not len(rows):
            return np.zeros(rows.shape)
        if not self.model.constraints:
            return np.asarray(motion.dyn.mass_matrix_solve(q, rows))
        # accelerations are affine in the joint forces, with the slope M†
        count = len(rows) + 1
        forces = np.concatenate([rows, np.zeros((1, self.model.nv))])
        state = {"q": np.tile(q, (count, 1)), "v": np.zeros((count, self.model.nv)), "t": np.full(count, t)}
        a = motion.evaluate("forward_dynamics", tau=forces, **state)
        return np.asarray(a[:-1] - a[-1])

    def _apart(self, G: Array, gaps: Array) -> Array:
        """π (3 k,) that moves apart what would overlap at the end of the step; zeros along the tangents."""
        count = len(gaps)
        push = np.zeros((count, 3))
        if np.any(gaps < 0):
            normal = np.zeros_like(G)
            normal[:, 0, :, 0] = G[:, 0, :, 0]
            target = np.zeros((count, 3))
            target[:, 0] = gaps
            nothing = np.zeros(count)
            push, *_ = sweeps(Problem(normal, target, nothing, nothing), push, nothing, CORRECTION_SWEEPS)
        return push.ravel()


def sweeps(problem: Problem, impulse: Array, kappa: Array, count: int) -> tuple[Array, Array, Measure]:
    """Compiled sweeps over the blocks of a problem."""
    if not problem.blocks:
        return impulse, kappa, Measure(0.0, 0.0, 0.0)
    impulse, kappa, measure, _ = contact_sweeps()(*problem, impulse, kappa, np.zeros(count))
    return impulse, kappa, Measure(*measure.tolist())
