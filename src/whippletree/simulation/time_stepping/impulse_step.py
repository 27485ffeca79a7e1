"""One time step of one scene, from compiled parts and matrices: any shapes, any number of contacts.

The mathematics is that of :mod:`whippletree.contact.time_step`, whose unrolled form the batches use. Here the contacts
that are far away are left out, so that the matrix has the size of what touches, and the problem is solved to a
tolerance.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.lanes import laned, plain
from whippletree.compiler.compiled import compile
from whippletree.compiler.rollout.contact_lists import lists_pay, suits_lists
from whippletree.compiler.rollout.contact_sweeps import coloured_sweeps, contact_sweeps
from whippletree.contact.implicit_springs import dampings, implicit_dampings, implicit_model, is_passive
from whippletree.contact.kinematics.broad_phase import REACH, Near, Neighbourhood
from whippletree.contact.problem.contact_problem import Measure, Problem
from whippletree.contact.problem.delassus import Matrix, delassus, is_sparse, scaled
from whippletree.contact.problem.independent_parts import parts_of, responses, stacked
from whippletree.contact.problem.solver import Solution, solve
from whippletree.contact.time_step import RELAXATION_SPEED, Blocks, shifts
from whippletree.simulation.fixed_step.free_bodies import FreeBodies
from whippletree.simulation.motion import Motion

CORRECTION_SWEEPS = (0, 5, 15, 30)
"""Sweeps of the position correction in a step, until it is as exact as the velocities are, or to the last; what they
leave is left to the next step."""

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
        self.kernel = suits_lists(self.model)
        """Whether single scenes are stepped in machine code,
        :mod:`whippletree.simulation.time_stepping.impulse_kernel`.
        """
        self.lists_for_batches = self.kernel and lists_pay(self.model)
        self.damping = dampings(self.model).astype(float)
        """N m s/rad or N s/m, (nv,)."""
        self._passive = bool(self.model.elements) or any(is_passive(joint) for joint in self.model.joints)
        self._implicit: dict[str, tuple[Motion, Array]] = {}
        self._friction = self.blocks.friction.astype(float)
        self._restitution = self.blocks.restitution.astype(float)

    def step(self, t: float, y: Array, start: Array, tau: Array, h: float) -> Step:
        """One step of length h from a state y (nq + nv,) under forces of motors (nv,).

        Its iteration begins with impulses (blocks, 3).
        """
        q, v = self.motion.split(y)
        implicit, damping = self._stiffened(h)
        forces = tau
        if self._passive:
            springs = self.dyn.passive_forces(q, np.zeros_like(v))
            forces = tau + springs + (self._moving_elements(q, v) - damping * v)
        free = v + h * self._free.acceleration(implicit, t, q, v, forces)
        numbers, gaps, rows = self._rows(q, v, free, h)
        response = self._responses(implicit, t, q, rows)
        approach = (rows @ v).reshape(-1, 3)
        shift = _shifts(gaps, approach[:, 0], self._restitution[numbers], h)
        G = rows @ response.T if isinstance(rows, np.ndarray) else delassus(rows, response, self._parts)
        problem = self._problem(numbers, G, (rows @ free).reshape(-1, 3), shift, h)
        solution = solve(problem, start[numbers], sweeps, tolerance=self.tolerance)
        impulse = solution.impulse
        after = free + response.T @ impulse.ravel()
        u = problem.velocity(impulse)
        u[:, 0] -= shift
        apart = response.T @ self._apart(problem.matrix, gaps + h * u[:, 0], h)
        state = self.motion.project(t + h, self._moved(q, after, h * after + apart))
        every = np.zeros((self.blocks.count, 3))
        every[numbers] = impulse
        work = float(self.joint_work(tau, q, v, after, h))
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
        """The controller's forces (m, nv) at m states, without springs and dampers."""
        return self._without_passive(self.motion.forces(t, q, v), q, v)

    def motors_at(self, t: float, y: Array) -> Array:
        """The controller's forces (nv,) at one state y (nq + nv,), without springs and dampers."""
        q, v = self.motion.split(y)
        return np.asarray(self.motors(np.array([t]), q[None], v[None])[0])

    def motors_if_told(self, t: Array, q: Array, v: Array) -> Array:
        """The same, NaN where the controller has no answer."""
        return self._without_passive(self.motion.forces_if_told(t, q, v), q, v)

    def _without_passive(self, forces: Array, q: Array, v: Array) -> Array:
        return np.asarray(forces - self.dyn.passive_forces(q, v)) if self._passive else forces

    def _moving_elements(self, q: Array, v: Array) -> Array:
        """What elements other than joints apply because of the velocities, (nv,): their dampers and drag."""
        if not self.model.elements:
            return np.zeros(v.shape)
        return np.asarray(self.dyn.element_forces(q, v) - self.dyn.element_forces(q, np.zeros_like(v)))

    def joint_work(self, tau: Array, q: Array, v: Array, after: Array, h: Any) -> Array:
        """Work (...) of motors and dampers in a step from q and v: of the impulses h (τ − D v⁺), J."""
        tau = tau + self._moving_elements(q, v) if self.model.elements else tau
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

    def _problem(self, numbers: Array, G: Matrix, velocity: Array, shift: Array, h: float) -> Problem:
        g = velocity.copy()
        g[:, 0] += shift
        cap = self.blocks.cap(h).astype(float)[numbers]
        return Problem.of(G, g, self._friction[numbers], cap)

    def _rows(self, q: Array, v: Array, free: Array, h: float) -> tuple[Array, Array, Any]:
        """Numbers (k,), gaps (k,) and J (3k, nv), sparse if they are many, of blocks that may matter in this step."""
        near = self._near(q, v, free, h)
        distances, signs = (x.astype(float) for x in self.blocks.limits(q))
        span = REACH * h * max(np.abs(v).max(initial=0.0), np.abs(free).max(initial=0.0))
        close = np.flatnonzero(distances <= span)
        rubbing = np.arange(len(self.blocks.rubbing))
        others = self.contacts + len(self.blocks.limited)
        numbers = np.concatenate([near.numbers, self.contacts + close, others + rubbing]).astype(int)
        gaps = np.concatenate([near.gaps, distances[close], np.zeros(len(rubbing))])
        joints = [self.blocks.limited[i].v for i in close] + [axis.v for axis in self.blocks.rubbing]
        directions = [0] * len(close) + [1] * len(rubbing)  # along the normal, and along the first tangent
        return numbers, gaps, stacked(near.jacobian, joints, directions, [*signs[close], *np.ones(len(rubbing))])

    def _near(self, q: Array, v: Array, free: Array, h: float) -> Near:
        if self._compiled:
            J = np.asarray(self.dyn.contact_jacobian(q)).reshape(self.contacts, 3, self.model.nv)
            gaps, fastest = self._gaps(q), max(float(np.abs(J @ speed).max()) for speed in (v, free))
            close = np.flatnonzero(gaps <= REACH * h * fastest)
            return Near(close, gaps[close], J[close].reshape(-1, self.model.nv))
        if not self.contacts:
            return Near(np.arange(0), np.zeros(0), np.zeros((0, self.model.nv)))
        return self.neighbourhood.near(q, (v, free), h)

    def _responses(self, motion: Motion, t: float, q: Array, rows: Any) -> Any:
        """(M† Jᵀ)ᵀ (rows, nv), sparse if J is."""
        if not rows.shape[0]:
            return np.zeros(rows.shape)
        solve = partial(self._solved, motion, t, q)
        return solve(rows) if isinstance(rows, np.ndarray) else responses(rows, self._parts, solve)

    def _solved(self, motion: Motion, t: float, q: Array, forces: Array) -> Array:
        """M† b (m, nv) for joint forces b (m, nv)."""
        if not self.model.constraints:
            return np.asarray(motion.dyn.mass_matrix_solve(q, forces))
        # accelerations are affine in the joint forces, with the slope M†
        count = len(forces) + 1
        every = np.concatenate([forces, np.zeros((1, self.model.nv))])
        state = {"q": np.tile(q, (count, 1)), "v": np.zeros((count, self.model.nv)), "t": np.full(count, t)}
        a = motion.evaluate("forward_dynamics", tau=every, **state)
        return np.asarray(a[:-1] - a[-1])

    @cached_property
    def _parts(self) -> Array:
        return parts_of(self.model)

    def _apart(self, G: Matrix, gaps: Array, h: float) -> Array:
        """π (3 k,) that moves apart what would overlap at the end of the step; zeros along the tangents."""
        gaps = np.maximum(gaps, -h * RELAXATION_SPEED)
        count = len(gaps)
        push, nothing = np.zeros((count, 3)), np.zeros(count)
        if np.any(gaps < 0):
            along = np.tile([1.0, 0.0, 0.0], (count, 1))
            problem = Problem.of(scaled(G, along), gaps[:, None] * along, nothing, nothing)
            for count in CORRECTION_SWEEPS:
                push, _, left = sweeps(problem, push, nothing, count)
                if left.velocity <= h * self.tolerance:  # here a length, m
                    break
        return push.ravel()


def _shifts(gaps: Array, speeds: Array, restitution: Array, h: float) -> Array:
    """:func:`whippletree.contact.time_step.shifts` of all blocks at once."""
    gaps, speeds, restitution = (laned(x[:, None]) for x in (gaps, speeds, restitution))
    return np.asarray(plain(shifts(gaps, speeds, restitution, h)[0]))


def sweeps(problem: Problem, impulse: Array, kappa: Array, count: int) -> tuple[Array, Array, Measure]:
    """Compiled sweeps over the blocks of a problem."""
    if not problem.blocks:
        return impulse, kappa, Measure(0.0, 0.0, 0.0)
    if is_sparse(problem.G):
        return coloured_sweeps(problem, impulse, kappa, count)
    impulse, kappa, measure, _ = contact_sweeps()(*problem, impulse, kappa, np.zeros(count))
    return impulse, kappa, Measure(*measure.tolist())
