"""Smooth motion in one mode of contact: what the integrator integrates between two events.

Contacts that stick hold their three rows, those that slide their normal row, and their friction −μ fₙ d acts along the
slip d: with R the rows that hold and E the directions in which their forces act,

    [M  −Eᵀ] [a]   [τ − c]
    [R   C ] [f] = [ −γ  ]

E = R but for sliding contacts. After every step positions are brought back to gap = 0 and velocities to R v = 0 by
least-energy corrections, so nothing drifts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.impact import holding_rows, massless_motions
from whippletree.contact.modes import Mode
from whippletree.simulation.integrator import IntegrationError
from whippletree.simulation.scene import REACH, At, Scene

Array = np.ndarray[Any, Any]

HYPERSTATIC = 1e-9
"""Relative singular value of the rows below which they depend on each other: forces are then not unique."""

IDLE = 1e-9
"""Share of the largest contact force below which a contact carries nothing."""

ROUNDS = 10
"""Newton corrections of a position projection."""

CLOSED = 1e-15
"""Residual, m or rad, that counts as closed."""

STRAIGHT = 1e-6
"""Sine between slip and its rate below which the slip goes straight to its stop."""

TURNED = 1e-300
"""Slip speed, m/s, below which its direction is that of the mode."""


class Loads(NamedTuple):
    """Accelerations and forces at m states."""

    a: Array
    """(m, n)"""
    constraints: Array
    """Of the scene's rows, (m, r)."""
    contacts: Array
    """(m, k, 3): normal, tangents 1 and 2."""


class Phase:
    """One mode from a start state on; a :class:`whippletree.simulation.integrator.Problem`."""

    def __init__(self, scene: Scene, mode: Mode, time: float, state: Array) -> None:
        self.scene, self.mode = scene, mode
        self.time, self.state = time, state
        q, v = scene.motion.split(state)
        at = scene.at(np.array([time]), q[None], v[None])
        # a tangent along which nothing can move (planar models) has no row
        moves = np.any(at.J[0] != 0, axis=1)
        self.moving_rows = set(np.flatnonzero(moves).tolist())
        self.sticking_rows = [3 * i + j for i in mode.sticking for j in (1, 2) if moves[3 * i + j]]
        self.contact_rows = [3 * i for i in mode.closed] + self.sticking_rows
        self.weightless = scene.weightless(at, mode.closed)
        self.trailing = [i for i in self.weightless if i in mode.sliding]
        # what drives a massless joint stays where it is, the others follow the foot that trails
        driven = scene.driven(time, q, v) if self.trailing else None
        self.kept = scene.firm + self._needed_loose(at, driven)
        self.holds = holding_rows(at.M[0], np.concatenate([at.A[0, self.kept], at.J[0, self.contact_rows]]), driven)
        self.friction = scene.contacts.friction.copy()
        self.friction[self.trailing] = 0.0
        self.slips = any(self.friction[i] for i in mode.sliding)
        self.reference: Array | None = None
        self.acting_rows = self.contact_rows
        self.acting_rows, self.reference = self._distributed(at)

    @cached_property
    def hyperstatic(self) -> bool:
        """Whether the rows depend on each other, so that forces are not unique."""
        q, v = self.scene.motion.split(self.state)
        R = self._rows(self.scene.at(np.array([self.time]), q[None], v[None]), self.contact_rows)[0]
        sizes = np.linalg.norm(R, axis=1)
        if not len(R) or np.any(sizes == 0):
            return bool(len(R))
        s = np.linalg.svd(R / sizes[:, None], compute_uv=False)
        return len(R) > R.shape[1] or bool(s[-1] < HYPERSTATIC * s[0])

    def _distributed(self, at: At) -> tuple[list[int], Array | None]:
        """Contact rows that carry a load, and the accelerations and forces (n + r,) near which the others are taken.

        Forces that are not unique are of least norm, if these are inside the friction cones, else those of the
        complementarity problem that chose this mode. Where contacts slide the latter always hold, because then
        accelerations are not unique either; a contact that carries nothing in it and follows from the others is left
        out.
        """
        forces = self.mode.forces
        if forces is None or not self.hyperstatic:
            return self.contact_rows, None
        if not self.slips and self._inside_cones():
            return self.contact_rows, None
        idle = [i for i in self.mode.sliding if forces[i, 0] <= IDLE * float(np.abs(forces).max()) and self.slips]
        rows = [row for row in self.contact_rows if row // 3 not in idle]
        for i in idle:
            if np.linalg.matrix_rank(at.J[0, [*rows, 3 * i]]) > np.linalg.matrix_rank(at.J[0, rows]):
                rows.append(3 * i)
        rows.sort(key=self.contact_rows.index)
        contacts = forces.reshape(-1)
        own = np.concatenate([at.A[0, self.kept], self.holds])
        n, r = len(at.M[0]), len(own)
        K = np.block([[at.M[0], -own.T], [own, np.zeros((r, r))]])
        K[range(n, n + len(self.kept)), range(n, n + len(self.kept))] = self.scene.compliance[self.kept]
        bias = np.concatenate([at.gamma[0, self.kept], np.zeros(len(self.holds))])
        x = np.linalg.lstsq(K, np.concatenate([at.b[0] + at.J[0].T @ contacts, -bias]), rcond=None)[0]
        return rows, np.concatenate([x, contacts[rows]])

    def _inside_cones(self) -> bool:
        forces = self.loads(np.array([self.time]), self.state[None]).contacts
        return bool(self.cone_violation(forces)[0] <= IDLE * np.abs(forces).max(initial=0.0))

    def cone_violation(self, forces: Array) -> Array:
        """How far forces (m, k, 3) are outside their cones, N, (m,)."""
        beyond = np.hypot(forces[..., 1], forces[..., 2]) - self.scene.contacts.friction * forces[..., 0]
        return np.asarray(np.maximum(np.maximum(beyond, -forces[..., 0]).max(axis=1, initial=0.0), 0.0))

    def _needed_loose(self, at: At, driven: Array | None) -> list[int]:
        """Loose rows that no contact of this mode takes the place of; those of driven joints first."""
        kept: list[int] = []
        firm = np.concatenate([at.A[0, self.scene.firm], at.J[0, self.contact_rows]])
        rows = self.scene.loose
        if driven is not None:
            rows = sorted(rows, key=lambda row: not np.any(at.A[0, row, driven]))
        for row in rows:
            free = massless_motions(at.M[0], np.concatenate([firm, at.A[0, kept]]))
            if free.size and np.abs(at.A[0, row] @ free).max() > REACH * np.abs(at.A[0, row]).max():
                kept.append(row)
        return sorted(kept)

    def rates(self, t: Array, y: Array) -> Array:
        """(q̇, v̇) (m, nq + nv)."""
        q, v = self.scene.motion.split(y)
        return np.concatenate([self.scene.rate(q, v), self.loads(t, y).a], axis=1)

    def loads(self, t: Array, y: Array) -> Loads:
        """Accelerations and forces at m states."""
        q, v = self.scene.motion.split(y)
        at = self.scene.at(t, q, v)
        R = self._rows(at, self.acting_rows)
        E = self._acting(at, R, self.slip_directions(q, v))
        m, r, n = R.shape
        K = np.zeros((m, n + r, n + r))
        K[:, :n, :n], K[:, :n, n:], K[:, n:, :n] = at.M, -np.swapaxes(E, 1, 2), R
        soft = self.scene.compliance[self.kept]
        K[:, range(n, n + len(soft)), range(n, n + len(soft))] = soft
        bias = np.concatenate([at.gamma[:, self.kept], np.zeros((m, len(self.holds))), at.beta[:, self.acting_rows]], 1)
        x = self._solved(K, np.concatenate([at.b, -bias], axis=1), self.reference)
        return Loads(x[:, :n], *self._named(x[:, n:], q, v))

    def _rows(self, at: At, contact_rows: list[int]) -> Array:
        """R (m, r, n): constraints, held massless motions, contacts' normals and sticking tangents."""
        held = np.broadcast_to(self.holds, (len(at.M), *self.holds.shape))
        return np.concatenate([at.A[:, self.kept], held, at.J[:, contact_rows]], axis=1)

    def _acting(self, at: At, R: Array, d: Array) -> Array:
        """E (m, r, n): sliding contacts push along the edge of their cone."""
        E = R
        for i in self.mode.sliding:
            if self.friction[i] and 3 * i in self.acting_rows:
                E = E.copy() if E is R else E
                row = len(self.kept) + len(self.holds) + self.acting_rows.index(3 * i)
                tangents = at.J[:, 3 * i + 1 : 3 * i + 3]
                E[:, row] -= self.friction[i] * np.einsum("mj,mjn->mn", d[:, i], tangents)
        return E

    def slip_directions(self, q: Array, v: Array) -> Array:
        """d (m, k, 2) along the slip; past a stop, where the phase has ended, as if it went on."""
        given = np.broadcast_to(self.mode.directions, (len(q), *self.mode.directions.shape))
        if not any(self.friction[i] for i in self.mode.sliding):
            return given
        u = self.scene.contact_velocity(q, v)[..., 1:]
        along = np.sign(np.sum(given * u, axis=-1, keepdims=True))
        speed = np.linalg.norm(u, axis=-1, keepdims=True)
        return np.where((speed > TURNED) & (along != 0), along * u / np.maximum(speed, TURNED), given)

    def time_to_stop(self, t: float, y: Array) -> float:
        """|uₜ| / |u̇ₜ| of the contact whose turning slip changes fastest, s; infinite where no slip turns."""
        turning = [i for i in self.mode.sliding if self.friction[i] and 3 * i + 2 in self.moving_rows]
        if not turning:
            return np.inf
        q, v = self.scene.motion.split(y[None])
        at = self.scene.at(np.array([t]), q, v)
        u = self.scene.contact_velocity(q, v)[0]
        rates = (at.J[0] @ self.loads(np.array([t]), y[None]).a[0] + at.beta[0]).reshape(-1, 3)
        times = [np.inf]
        for i in turning:
            (x, z), (dx, dz) = u[i, 1:], rates[i, 1:]
            speed, change = float(np.hypot(x, z)), float(np.hypot(dx, dz))
            if abs(x * dz - z * dx) > STRAIGHT * speed * change:
                times.append(speed / change)
        return min(times)

    def _solved(self, K: Array, b: Array, near: Array | None = None) -> Array:
        """x of K x = b; where it is not unique the smallest, or the one nearest to a given one."""
        if self.hyperstatic:
            start = np.zeros(b.shape[1]) if near is None else near
            return np.asarray(start + np.einsum("mij,mj->mi", np.linalg.pinv(K, rcond=1e-12), b - K @ start))
        scale = np.sqrt(np.abs(K).max(axis=2))
        if np.any(scale == 0):
            raise self._undetermined()
        try:
            x = np.linalg.solve(K / (scale[:, :, None] * scale[:, None, :]), (b / scale)[..., None])[..., 0]
        except np.linalg.LinAlgError:
            raise self._undetermined() from None
        return np.asarray(x / scale)

    def _undetermined(self) -> IntegrationError:
        return IntegrationError(
            f"the integration stopped after t = {self.time:.9g} s: in the mode "
            f"{self.mode.words(self.scene.contacts.names)!r} the accelerations are not determined: a massless part "
            f"that slides, or rows that have become dependent",
            self.time,
        )

    def _named(self, f: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """Forces of all rows of the scene, and of all candidates."""
        m = len(f)
        constraints = np.zeros((m, len(self.scene.rows)))
        constraints[:, self.kept] = f[:, : len(self.kept)]
        rows = np.zeros((m, 3 * self.scene.count))
        rows[:, self.acting_rows] = f[:, len(self.kept) + len(self.holds) :]
        contacts: Array = rows.reshape(m, self.scene.count, 3)
        d = self.slip_directions(q, v)
        for i in self.mode.sliding:
            contacts[:, i, 1:] = -self.friction[i] * contacts[:, i, :1] * d[:, i]
        return constraints, contacts

    def project(self, t: float, y: Array) -> Array:
        """The state with quaternions at unit length, on gap = 0, g = 0 and R v = 0."""
        q, v = self.scene.motion.split(y)
        q = self.scene.motion.normalised(q)
        if not (self.kept or len(self.holds) or self.contact_rows):
            return np.concatenate([q, v])
        q = self._closed(t, q, v)
        return np.concatenate([q, self.velocity_projected(t, q, v)])

    def velocity_projected(self, t: float, q: Array, v: Array) -> Array:
        """The nearest velocity with R v = 0 (and constraints as time prescribes them), (n,)."""
        return np.asarray(self.velocities_projected(np.array([t]), q[None], v[None])[0])

    def velocities_projected(self, t: Array, q: Array, v: Array) -> Array:
        """The same at m states, (m, n)."""
        if not (self.kept or len(self.holds) or self.contact_rows):
            return v
        at = self.scene.at(t, q, v)
        moving = np.einsum("mrn,mn->mr", at.J[:, self.contact_rows], v)
        speed = [self.scene.row_velocity(t, q, v)[:, self.kept], v @ self.holds.T, moving]
        return v + self._corrections(at, -np.concatenate(speed, axis=1))

    def _closed(self, t: float, q: Array, v: Array) -> Array:
        residual = self._residual(t, q)
        for _ in range(ROUNDS):
            if np.abs(residual).max(initial=0.0) <= CLOSED:
                break
            at = self.scene.at(np.array([t]), q[None], v[None])
            nearer = self.scene.moved(q, self._corrections(at, -residual[None])[0])
            left = self._residual(t, nearer)
            if np.abs(left).max() >= np.abs(residual).max():
                break
            q, residual = nearer, left
        return q

    def _residual(self, t: float, q: Array) -> Array:
        own = np.concatenate([self.scene.residual(t, q)[self.kept], np.zeros(len(self.holds))])
        gaps = self.scene.gaps(q)[self.mode.closed]
        return np.concatenate([own, gaps, np.zeros(len(self.sticking_rows))])

    def _corrections(self, at: At, change: Array) -> Array:
        """The least-energy d (m, n) with R d = change."""
        R = self._rows(at, self.contact_rows)
        m, r, n = R.shape
        K = np.zeros((m, n + r, n + r))
        K[:, :n, :n], K[:, :n, n:], K[:, n:, :n] = at.M, -np.swapaxes(R, 1, 2), R
        return self._solved(K, np.concatenate([np.zeros((m, n)), change], axis=1))[:, :n]
