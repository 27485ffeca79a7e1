"""How a scene and the phases of its motion change with the state: exact derivatives, from compiled ones.

Directions are numbered through y and t: δq (n of them, q ⊕ δq), δv (n), δt (one), d = 2n + 1 in all. Only a controller,
which may be any Python function, is differentiated by differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.contact.impact.impact_derivatives import derivative
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.simulation.events.equations import At, EventEquations
from whippletree.simulation.events.phase import Phase

SIDES_OF_EVENT = 2
"""Single states whose derivatives are kept: before an event and after it."""


class Slopes(NamedTuple):
    """Derivatives of accelerations and contact forces at m states along all directions."""

    a: Array
    """(m, d, n)"""
    contacts: Array
    """(m, d, k, 3)"""
    held: Array
    """Of the forces that hold massless motions, (m, d, holds)."""


def differentiable(scene: EventEquations) -> bool:
    """Whether all contacts have closed forms, which alone have compiled derivatives."""
    return contact_set(scene.model).closed_form


class _AlongAll(NamedTuple):
    """States, each with every direction, as one row of states: what functions are differentiated at."""

    states: int
    inputs: dict[str, Array]


class SceneTangent:
    """Derivatives of the pieces of a scene's block matrix."""

    def __init__(self, scene: EventEquations) -> None:
        self.scene = scene
        n = scene.model.nv
        self.count = 2 * n + 1
        unit = np.eye(self.count)
        self._along = {"dq": unit[:, :n], "dv": unit[:, n : 2 * n], "dt": unit[:, -1]}
        self._functions: dict[str, NamedFunction] = {}
        self._recent: dict[tuple[Any, ...], At] = {}
        """Answers about the single states that were asked for last, each with the controller that acted there."""

    @staticmethod
    def of(scene: EventEquations) -> SceneTangent:
        """The sensitivity of a scene, made once."""
        if scene.tangent is None:
            scene.tangent = SceneTangent(scene)
        return scene.tangent

    def at(self, t: Array, q: Array, v: Array) -> At:
        """M, b, A, γ, J and β differentiated: each (m, d, …).

        An event asks for those of the states before and after it again and again: the last of them are kept.
        """
        if len(q) != 1:
            return self._work_out(t, q, v)
        state = t.tobytes(), q.tobytes(), v.tobytes(), self.scene.motion.compiled_controller
        found = self._recent.get(state)
        if found is None:
            found = self._recent[state] = self._work_out(t, q, v)
            for part in found:
                part.flags.writeable = False
            if len(self._recent) > SIDES_OF_EVENT:
                del self._recent[next(iter(self._recent))]
        return found

    def _work_out(self, t: Array, q: Array, v: Array) -> At:
        m, d, n = len(q), self.count, self.scene.model.nv
        rows, known = self.scene.rows, self._along_all(t, q, v)
        A, gamma = np.zeros((m, d, 0, n)), np.zeros((m, d, 0))
        if rows:
            A = self._many("constraint_jacobian", known)[:, :, rows]
            gamma = self._many("constraint_bias", known)[:, :, rows]
        b = self._forces(t, q, v, known) - self._many("bias", known)
        return At(self._many("mass_matrix", known), b, A, gamma, *self._contacts(known))

    def _contacts(self, known: _AlongAll) -> tuple[Array, Array]:
        """Slopes of J and β; the rows of joints do not change."""
        rows, m = len(self.scene.joints.rows), known.states
        still = np.zeros((m, self.count, rows, self.scene.model.nv)), np.zeros((m, self.count, rows))
        if not self.scene.touching:
            return still
        J, beta = self._many("contact_jacobian", known), self._many("contact_bias", known)
        return np.concatenate([J, still[0]], axis=2), np.concatenate([beta, still[1]], axis=2)

    def row_velocity(self, t: Array, q: Array, v: Array) -> Array:
        """Slopes of A v + gₜ, (m, d, r)."""
        if not self.scene.rows:
            return np.zeros((len(q), self.count, 0))
        return self._many("constraint_velocity", self._along_all(t, q, v))[:, :, self.scene.rows]

    def turning(self, q: Array, v: Array) -> Array:
        """C (m, n, n) with d(δq)/dt = δv + C δq: what turning axes do to a displacement; zero for plain coordinates.

        With T(q) v = q̇, T d(δq)/dt = T δv + ∂(T v)/∂q δq − ∂(T δq)/∂q v.
        """
        scene, n = self.scene, self.scene.model.nv
        push = scene.motion.dyn.jvp("rate")
        unit = np.eye(n)
        T = np.swapaxes(scene.rate(q[:, None], np.broadcast_to(unit, (len(q), n, n))), 1, 2)
        here, still = q[:, None], np.zeros(n)
        bracket = push(here, v[:, None], unit, still) - push(here, unit, v[:, None], still)
        return np.asarray(np.linalg.pinv(T) @ np.swapaxes(bracket, 1, 2))

    def _forces(self, t: Array, q: Array, v: Array, known: _AlongAll) -> Array:
        """Slopes of all joint forces."""
        motion = self.scene.motion
        tau: Any = self._many("passive_forces", known) if has_passive_forces(self.scene.model) else 0.0
        if motion.controller is None:
            return np.asarray(tau)
        slopes = [self._command_slopes(*state) for state in zip(t.tolist(), q, v, strict=True)]
        return np.asarray(tau + np.array(slopes))

    def _command_slopes(self, t: float, q: Array, v: Array) -> Array:
        """Slopes of the controller's forces at one state (d, n), by differences."""
        motion, n = self.scene.motion, self.scene.model.nv

        def commanded_forces(d: Array) -> Array:
            there, rate = self.scene.move(q, d[:n]), v + d[n:-1]
            here = np.array([t + d[-1]]), there[None], rate[None]
            return np.asarray(motion.forces(*here)[0] - motion.dyn.passive_forces(there, rate))

        return derivative(commanded_forces, self.count).T

    def _along_all(self, t: Array, q: Array, v: Array) -> _AlongAll:
        m, d, on = len(q), self.count, self.scene.motion.all_on
        known = {"q": np.repeat(q, d, axis=0), "v": np.repeat(v, d, axis=0), "t": np.repeat(t, d)}
        known |= {"active": on, "dactive": 0 * on}
        known |= self._along if m == 1 else {word: np.concatenate([x] * m) for word, x in self._along.items()}
        return _AlongAll(m, known)

    def _many(self, name: str, known: _AlongAll) -> Array:
        if name not in self._functions:
            self._functions[name] = self.scene.motion.dyn.jvp(name)
        function = self._functions[name]
        found = np.asarray(function(*[known.inputs[word] for word in function.inputs]))
        return found.reshape(known.states, self.count, *found.shape[1:])


class PhaseTangent:
    """Derivatives of the motion in one mode."""

    def __init__(self, phase: Phase) -> None:
        self.phase, self.scene = phase, phase.scene
        self.tangent = SceneTangent.of(phase.scene)

    def loads(self, t: Array, y: Array) -> Slopes:
        """Slopes of accelerations and contact forces: K x = b gives K δx = δb − δK x."""
        phase, scene = self.phase, self.scene
        q, v = scene.motion.split(y)
        at, d_at = scene.at(t, q, v), self.tangent.at(t, q, v)
        rows, n = phase.acting_rows, scene.model.nv
        d = phase.slip_directions(q, v)
        dd = self._slip_turns(at, d_at, v, d)
        R, dR = self._rows(at, rows), self._rows(d_at, rows)
        E = R - self._edges(at.J, d, rows)
        dE = dR - self._edges(d_at.J, d[:, None], rows) - self._edges(at.J[:, None], dd, rows)
        K = _block(at.M, R, E)
        soft = range(n, n + len(phase.kept))
        K[..., soft, soft] = scene.compliance[phase.kept]
        held = np.zeros(len(phase.holds))
        bias = _join_forces(at.gamma[..., phase.kept], held, at.beta[..., rows])
        d_bias = _join_forces(d_at.gamma[..., phase.kept], held, d_at.beta[..., rows])
        x = self._solution(K, np.concatenate([at.b + phase.rubbed, -bias], axis=-1), t, y)
        missing = np.concatenate([d_at.b, -d_bias], axis=-1) - np.einsum("mdij,mj->mdi", _block(d_at.M, dR, dE), x)
        dx = self._solve(K, missing)
        first = n + len(phase.kept)
        forces = self._force_derivatives(x[:, n:], dx[..., n:], d, dd)
        return Slopes(dx[..., :n], forces, dx[..., first : first + len(phase.holds)])

    def projection(self, t: float, q: Array, v: Array, directions: Array | None = None) -> Array:
        """Slopes of the velocity that the mode makes of v (d, n), along all directions or along given ones (e, 2n +
        1)."""
        phase, n = self.phase, self.scene.model.nv
        along = np.eye(2 * n + 1) if directions is None else directions
        if not phase.has_rows:
            return np.asarray(along[:, n : 2 * n])
        here = np.array([t]), q[None], v[None]
        at, d_at = self.scene.at(*here), self.tangent.at(*here)
        rows = phase.contact_rows
        R, dR = self._rows(at, rows)[0], self._rows(d_at, rows)[0]
        own, d_own = self.scene.row_velocity(*here)[0, phase.kept], self.tangent.row_velocity(*here)[0][:, phase.kept]
        speed = np.concatenate([own, phase.holds @ v, at.J[0, rows] @ v])
        pushed = np.zeros((2 * n + 1, n))
        pushed[n : 2 * n] = np.eye(n)
        moving = d_at.J[0][:, rows] @ v + pushed @ at.J[0, rows].T
        d_speed = np.concatenate([d_own, pushed @ phase.holds.T, moving], axis=1)
        K, dK = _block(at.M[0], R, R), _block(d_at.M[0], dR, dR)
        x = self._solve(K[None], np.concatenate([np.zeros(n), -speed])[None, None])[0, 0]
        missing = np.concatenate([np.zeros((2 * n + 1, n)), -d_speed], axis=1) - dK @ x
        return np.asarray(along @ (pushed + self._solve(K[None], missing[None])[0][:, :n]))

    def admissible(self, t: float, y: Array) -> Array:
        """Π (2n, 2n): what the way back to the mode's closed contacts and constraints makes of (δq, δv)."""
        phase, n = self.phase, self.scene.model.nv
        if not phase.has_rows:
            return np.eye(2 * n)
        q, v = self.scene.motion.split(y)
        here = np.array([t]), q[None], v[None]
        at = self.scene.at(*here)
        R = self._rows(at, phase.contact_rows)[0]
        closing = R.copy()
        kept, closed = len(phase.kept), len(phase.normals)
        level = [i for i, row in enumerate(phase.kept) if self.scene.position_rows[row] < 0]
        closing[level] = 0.0
        closing[kept : kept + len(phase.holds)] = 0.0
        closing[kept + len(phase.holds) + closed :] = 0.0
        missing = np.concatenate([np.zeros((n, n)), -closing.T], axis=1)
        Pq = np.eye(n) + self._solve(_block(at.M[0], R, R)[None], missing[None])[0][:, :n].T
        directions = np.block([[Pq, np.zeros((n, n))], [np.zeros((n, n)), np.eye(n)]])
        columns = np.concatenate([directions.T, np.zeros((2 * n, 1))], axis=1)
        return np.concatenate([directions[:n], self.projection(t, q, v, columns).T])

    def flow(self, t: Array, y: Array) -> Array:
        """∂ẏ/∂y (m, 2n, 2n) in the tangent space: d/dt (δq, δv)."""
        n = self.scene.model.nv
        q, v = self.scene.motion.split(y)
        F = np.zeros((len(t), 2 * n, 2 * n))
        F[:, :n, :n], F[:, :n, n:] = self.tangent.turning(q, v), np.eye(n)
        F[:, n:] = np.swapaxes(self.loads(t, y).a[:, : 2 * n], 1, 2)
        return F

    def _rows(self, at: At, contact_rows: list[int]) -> Array:
        """Rows that hold, of a scene (m, r, n), or of its tangent (m, d, r, n): held motions do not change."""
        differentiated = at.M.ndim > 3
        holds = 0 * self.phase.holds if differentiated else self.phase.holds
        held = np.broadcast_to(holds, (*at.M.shape[:-2], *holds.shape))
        return np.concatenate([at.A[..., self.phase.kept, :], held, at.J[..., contact_rows, :]], axis=-2)

    def _edges(self, J: Array, d: Array, rows: list[int]) -> Array:
        """μ d · Jₜ of sliding contacts at the places of their normals' rows, (…, r, n)."""
        phase = self.phase
        first = len(phase.kept) + len(phase.holds)
        shape = np.broadcast_shapes(J.shape[:-2], d.shape[:-2])
        edges = np.zeros((*shape, first + len(rows), J.shape[-1]))
        for i in phase.mode.sliding:
            if phase.friction[i] and 3 * i in rows:
                tangents = J[..., 3 * i + 1 : 3 * i + 3, :]
                edges[..., first + rows.index(3 * i), :] = phase.friction[i] * np.einsum(
                    "...j,...jn->...n", d[..., i, :], tangents
                )
        return edges

    def _slip_turns(self, at: At, d_at: At, v: Array, d: Array) -> Array:
        """δ of the slip directions, (m, d, k, 2)."""
        n, (m, count) = v.shape[1], d_at.M.shape[:2]
        u = np.einsum("mrn,mn->mr", at.J, v).reshape(m, -1, 3)[..., 1:]
        du = np.einsum("mdrn,mn->mdr", d_at.J, v)
        du[:, n : 2 * n] += np.swapaxes(at.J, 1, 2)
        du = du.reshape(m, count, -1, 3)[..., 1:]
        speed = np.linalg.norm(u, axis=-1, keepdims=True)
        along = np.sign(np.sum(d * u, axis=-1, keepdims=True))
        across = du - np.sum(d[:, None] * du, axis=-1, keepdims=True) * d[:, None]
        turning = np.isin(np.arange(self.scene.count), self.phase.turning)[:, None]
        moves = (speed > self.phase.still) & (along != 0) & turning
        turns = along[:, None] * across / np.where(moves, speed, 1.0)[:, None]
        return np.asarray(np.where(moves[:, None], turns, 0.0))

    def _solution(self, K: Array, b: Array, t: Array, y: Array) -> Array:
        """Accelerations and forces of all rows (m, n + r); where forces are not unique, those of the phase."""
        loads = self.phase.loads(t, y)
        held = np.zeros((len(t), len(self.phase.holds)))
        contacts = loads.contacts.reshape(len(t), -1)[:, self.phase.acting_rows]
        near = np.concatenate([loads.a, loads.constraints[:, self.phase.kept], held, contacts], axis=1)
        return near + self._solve(K, (b - np.einsum("mij,mj->mi", K, near))[:, None])[:, 0]

    def _solve(self, K: Array, b: Array) -> Array:
        """x (m, d, n + r) of K x = b."""
        if self.phase.hyperstatic:
            return np.asarray(np.einsum("mij,mdj->mdi", self.phase.pseudo_inverse(K), b))
        scale = np.sqrt(np.abs(K).max(axis=2))
        even = K / (scale[:, :, None] * scale[:, None, :])
        x = np.swapaxes(np.linalg.solve(even, np.swapaxes(b / scale[:, None], 1, 2)), 1, 2)
        return np.asarray(x / scale[:, None])

    def _force_derivatives(self, f: Array, df: Array, d: Array, dd: Array) -> Array:
        """Derivatives of the candidates' forces (m, d, k, 3)."""
        phase, (m, count) = self.phase, df.shape[:2]
        first, rows = len(phase.kept) + len(phase.holds), phase.acting_rows
        slopes = np.zeros((m, count, 3 * self.scene.count))
        forces = np.zeros((m, 3 * self.scene.count))
        slopes[..., rows], forces[..., rows] = df[..., first:], f[..., first:]
        contacts: Array = slopes.reshape(m, count, -1, 3)
        normal = forces.reshape(m, -1, 3)[..., 0]
        for i in phase.mode.sliding:
            mu = phase.friction[i]
            contacts[..., i, 1:] = -mu * (
                contacts[..., i, :1] * d[:, None, i] + normal[:, None, i, None] * dd[..., i, :]
            )
        return contacts


def _block(M: Array, R: Array, E: Array) -> Array:
    """[M −Eᵀ; R 0], of matrices or of their derivatives."""
    n, r = M.shape[-1], R.shape[-2]
    K = np.zeros((*M.shape[:-2], n + r, n + r))
    K[..., :n, :n], K[..., :n, n:], K[..., n:, :n] = M, -np.swapaxes(E, -1, -2), R
    return K


def _join_forces(own: Array, held: Array, contacts: Array) -> Array:
    return np.concatenate([own, np.broadcast_to(held, (*own.shape[:-1], *held.shape)), contacts], axis=-1)
