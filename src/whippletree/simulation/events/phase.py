"""Smooth motion in one mode of contact: what the integrator integrates between two events.

Contacts that stick hold their three rows, those that slide their normal row, and their friction −μ fₙ d acts along the
slip d. Dry joints that stick hold a row, those that slide add a constant to τ. With R the rows that hold and E the
directions in which their forces act,

    [M  −Eᵀ] [a]   [τ − c]
    [R   C ] [f] = [ −γ  ]

E = R but for sliding contacts. After every step positions are brought back to gap = 0 and velocities to R v = 0 by
least-energy corrections, so nothing drifts.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.contact_modes import Mode
from whippletree.contact.impact.impact import block_matrix, holding_rows, massless_basis
from whippletree.errors import IntegrationError
from whippletree.simulation.events.compiled_phase import SwitchedRows
from whippletree.simulation.events.equations import REACHES_MASSLESS, At, EventEquations
from whippletree.simulation.events.load_sharing import PseudoInverse, share

HYPERSTATIC = 1e-9
"""Relative singular value of the rows below which they depend on each other: forces are then not unique."""

PHASE_CORRECTIONS = 10
"""Newton corrections of a position projection."""

CLOSED_PHASE = 1e-15
"""Residual, m or rad, that counts as closed."""

RECENT_ANSWERS = 12
"""Answers about single states that a phase keeps."""

RECENT_TRIALS = 8
"""Phases that were tried which are kept."""

STRAYED = 1e-6
"""Gap, m or rad, of a contact that the mode holds closed and no projection can close: it is no longer there."""

STRAIGHT_SLIP = 1e-6
"""Sine between slip and its rate below which the slip goes straight to its stop."""


class Loads(NamedTuple):
    """Accelerations and forces at m states."""

    a: Array
    """(m, n)"""
    constraints: Array
    """Forces of the scene's rows, (m, r)."""
    contacts: Array
    """(m, k, 3): normal, tangents 1 and 2."""


class Turning(NamedTuple):
    """Consequences at m states of given directions of slip, and from a turn of them."""

    rates: Array
    """(q̇, v̇) (m, nq + nv)."""
    by_angle: Array
    """∂v̇/∂θ (m, n, turning contacts), per rad."""
    slip_rows: Array
    """Tangent rows of these contacts (m, turning contacts, 2, n)."""


class Phase:
    """One mode from a start state on; a :class:`whippletree.simulation.adaptive.integrator.Integrand`."""

    def __init__(self, scene: EventEquations, mode: Mode, time: float, state: Array, still: float = 0.0) -> None:
        """``still``: speed, m/s, up to which a slip has the direction that the mode gives it."""
        self.scene, self.mode, self.still = scene, mode, still
        self.time, self.state = time, state
        self._recent: dict[tuple[Any, ...], tuple[Array, ...]] = {}
        q, v = scene.motion.split(state)
        at = scene.at(np.array([time]), q[None], v[None])
        # a tangent along which nothing can move (planar models) has no row
        moves = np.any(at.J[0] != 0, axis=1)
        self.moving_rows = set(np.flatnonzero(moves).tolist())
        self.sticking_rows = [3 * i + j for i in mode.sticking for j in (1, 2) if moves[3 * i + j]]
        # dry joints are pressed by a given force, and have no normal
        self.normals = [i for i in mode.closed if not scene.pressed[i]]
        self.contact_rows = [3 * i for i in self.normals] + self.sticking_rows
        self.rubbed = scene.joints.resistance(mode.directions[scene.pressed > 0, 0])
        self.weightless = scene.weightless(at, mode.closed)
        # a massless foot with a direction slips under load (see dragging), one without trails along without force
        self.dragged = [i for i in self.weightless if i in mode.sliding and not mode.trails(i)]
        self.trailing = [i for i in self.weightless if mode.trails(i)]
        # what drives a massless joint stays where it is, the others follow the foot that trails
        driven = scene.is_driven(time, q, v) if self.trailing else None
        dragging = [3 * i + j for i in self.dragged for j in (1, 2) if moves[3 * i + j]]
        carried = at.J[0, self.contact_rows + dragging]
        self.kept = scene.firm + self._needed_loose(at, carried, driven)
        others = holding_rows(at.M[0], np.concatenate([at.A[0, self.kept], carried]), driven)
        own = np.concatenate([at.A[0, self.kept], at.J[0, self.contact_rows], others])
        self.holds = np.concatenate([others, holding_rows(at.M[0], own)])
        self.drag_rows = range(len(others), len(self.holds))
        self.friction = scene.contacts.friction.copy()
        self.friction[self.trailing] = 0.0
        self.slips = any(self.friction[i] for i in mode.sliding if not scene.pressed[i])
        self.heading = mode.directions
        self.turning = [i for i in mode.sliding if self.friction[i] and moves[3 * i + 1] and moves[3 * i + 2]]
        self.pseudo_inverse = PseudoInverse(scene.model.nv)
        self.reference: Array | None = None
        self.acting_rows = self.contact_rows
        self.acting_rows, self.reference = share(self, at)
        self.turning = [i for i in self.turning if 3 * i in self.acting_rows]
        self._recent.clear()  # of all rows that hold, before the load was shared
        if self.hyperstatic:
            # the null spaces of the start serve the whole phase, also where it is taken up again
            _ = self.start_loads
            self.velocity_projected(time, q, v)

    def begun_at(self, state: Array, still: float) -> Phase:
        """The phase from a state next to its own, with the rows that were found there: a motion keeps them, too."""
        phase = copy(self)
        phase.state, phase.still, phase._recent = state, still, {}
        vars(phase).pop("start_loads", None)
        return phase

    def in_mode(self, mode: Mode, still: float) -> Phase:
        """The phase of a mode that differs by its forces alone, which decide nothing where the rows are independent."""
        phase = copy(self)
        phase.mode, phase.still = mode, still
        return phase

    @cached_property
    def hyperstatic(self) -> bool:
        """Whether the rows depend on each other, so that forces are not unique."""
        if self.leaves_dead_point:
            return False
        q, v = self.scene.motion.split(self.state)
        R = self._rows(self.scene.at(np.array([self.time]), q[None], v[None]), self.contact_rows)[0]
        sizes = np.linalg.norm(R, axis=1)
        if not len(R) or np.any(sizes == 0):
            return bool(len(R))
        s = np.linalg.svd(R / sizes[:, None], compute_uv=False)
        return len(R) > R.shape[1] or bool(s[-1] < HYPERSTATIC * s[0])

    @cached_property
    def leaves_dead_point(self) -> bool:
        """Whether it starts where rows of the model's constraints depend on each other, and nothing else holds: then
        the motion is that of the method without contacts, which knows the branches there."""
        scene = self.scene
        if not scene.rows or self.contact_rows or len(self.holds) or scene.loose or np.any(scene.compliance):
            return False
        q, v = scene.motion.split(self.state)
        s = np.linalg.svd(scene.at(np.array([self.time]), q[None], v[None]).A[0], compute_uv=False)
        return len(s) < len(scene.rows) or not s[-1] > HYPERSTATIC * s[0]

    @property
    def has_rows(self) -> bool:
        """Whether the mode holds anything: constraints, massless motions or contacts."""
        return bool(self.kept or len(self.holds) or self.contact_rows)

    @property
    def flies(self) -> bool:
        """Whether nothing holds: the motion is that of the tree."""
        return not (self.scene.rows or self.contact_rows or len(self.holds))

    @property
    def is_free(self) -> bool:
        """Whether the motion is that of the model without contacts: nothing touches, and nothing rubs."""
        own = not self.kept or self.kept == list(range(len(self.scene.rows)))
        touched = self.contact_rows or len(self.holds) or self.weightless or np.any(self.rubbed)
        return own and not touched and not self.leaves_dead_point

    @cached_property
    def start_loads(self) -> Loads:
        """Accelerations and forces at the start state, m = 1."""
        return self.loads(np.array([self.time]), self.state[None])

    def cone_violation(self, forces: Array) -> Array:
        """How far forces (m, k, 3) are outside their cones, N, (m,)."""
        beyond = np.hypot(forces[..., 1], forces[..., 2]) - self.scene.contacts.friction * forces[..., 0]
        return np.asarray(np.maximum(np.maximum(beyond, -forces[..., 0]).max(axis=1, initial=0.0), 0.0))

    def _needed_loose(self, at: At, carried: Array, driven: Array | None) -> list[int]:
        """Loose rows that no contact of this mode takes the place of; those of driven joints first."""
        kept: list[int] = []
        firm = np.concatenate([at.A[0, self.scene.firm], carried])
        rows = self.scene.loose
        if driven is not None:
            rows = sorted(rows, key=lambda row: not np.any(at.A[0, row, driven]))
        for row in rows:
            free = massless_basis(at.M[0], np.concatenate([firm, at.A[0, kept]]))
            if free.size and np.abs(at.A[0, row] @ free).max() > REACHES_MASSLESS * np.abs(at.A[0, row]).max():
                kept.append(row)
        return sorted(kept)

    def rates(self, t: Array, y: Array) -> Array:
        """(q̇, v̇) (m, nq + nv)."""
        if self.leaves_dead_point:  # near it, a state off the manifold has other accelerations
            y = self.scene.motion.project(t, y)
        q, v = self.scene.motion.split(y)
        return np.concatenate([self.scene.rate(q, v), self.loads(t, y).a], axis=1)

    def loads(self, t: Array, y: Array) -> Loads:
        """Accelerations and forces at m states; those of single states are kept for a while (:meth:`kept_answer`)."""
        if len(y) != 1:
            return self._loads(t, y)
        return Loads(*self.kept_answer(("loads", t.tobytes(), y.tobytes()), lambda: self._loads(t, y)))

    def kept_answer(self, key: tuple[Any, ...], work: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        """Answers about a single state: an event, the guards after it and its derivative ask for them several times."""
        key = (*key, self.scene.motion.compiled_controller, self.heading.tobytes() if self.turning else b"")
        found = self._recent.get(key)
        if found is None:
            found = self._recent[key] = work()
            for part in found:
                part.flags.writeable = False
            if len(self._recent) > RECENT_ANSWERS:
                del self._recent[next(iter(self._recent))]
        return found

    def _loads(self, t: Array, y: Array) -> Loads:
        q, v = self.scene.motion.split(y)
        if self.flies:
            m, scene = len(q), self.scene
            return Loads(
                scene.flight(t, q, v, self.rubbed),
                *self._forces_by_candidate(np.zeros((m, 0)), self.mode.directions[None]),
            )
        d = self.slip_directions(q, v)
        if self.leaves_dead_point:
            a, f = self.scene.constrained_flight(t, q, v, self.rubbed)
            return Loads(a, *self._forces_by_candidate(f, np.broadcast_to(d, (len(q), *d.shape[1:]))))
        found = self._compiled_loads(t, q, v, d)
        if found is not None:
            return Loads(found[0], *self._forces_by_candidate(found[1], d))
        at = self.scene.at(t, q, v)
        x = self.solve(*self.block_matrix(at, d), self.reference)
        n = self.scene.model.nv
        return Loads(x[:, :n], *self._forces_by_candidate(x[:, n:], d))

    @cached_property
    def held_rows(self) -> SwitchedRows | None:
        """The mode as machine code knows it; None where it has no answer."""
        phases, scene = self.scene.compiled, self.scene
        plain = type(self) is Phase and self.reference is None and self.acting_rows == self.contact_rows
        if not (phases.possible and phases.ready and plain) or self.hyperstatic or len(self.holds) > phases.held:
            return None
        touching = phases.places(self.contact_rows)
        if touching is None:
            return None
        on = np.zeros(phases.rows)
        on[[*self.kept, *range(len(scene.rows), len(scene.rows) + len(self.holds)), *touching]] = 1.0
        holds = np.zeros((phases.held, scene.model.nv)) if phases.held else None
        if holds is not None:
            holds[: len(self.holds)] = self.holds
        return SwitchedRows(on, holds, self._slide(self.heading[None])[0], self.rubbed)

    def _slide(self, d: Array) -> Array:
        """Friction times direction (m, k, 2) of the contacts that slide along d (m, k, 2)."""
        slide = np.zeros((len(d), self.scene.count, 2))
        sliding = [i for i in self.mode.sliding if self.friction[i] and 3 * i in self.acting_rows]
        slide[:, sliding] = (self.friction[:, None] * d)[:, sliding]
        return slide

    def _compiled_loads(self, t: Array, q: Array, v: Array, d: Array) -> tuple[Array, Array] | None:
        """Accelerations (m, n) and forces of the rows that act (m, r), by machine code; None where it has none."""
        held = self.held_rows
        if held is None:
            return None
        scene = self.scene
        held = held._replace(slide=self._slide(d)) if self.turning else held
        found = scene.compiled.loads(t, q, v, scene.motion.forces(t, q, v), held)
        if found is None:
            return None
        return found[0], found[1][:, self._compiled_places]

    @cached_property
    def _compiled_places(self) -> list[int]:
        """Where the rows that act are among those of the machine code."""
        own, touching = len(self.scene.rows), self.scene.compiled.places(self.acting_rows)
        assert touching is not None  # or the mode is left to Python
        return [*self.kept, *range(own, own + len(self.holds)), *touching]

    def turn_slips(self, t: Array, y: Array, d: Array) -> Turning:
        """Effect of slips along d (m, k, 2), whatever the velocities say, on m states."""
        q, v = self.scene.motion.split(y)
        at = self.scene.at(t, q, v)
        K, b = self.block_matrix(at, d)
        m, n, k = len(q), self.scene.model.nv, len(self.turning)
        x = self.solve(K, b, self.reference)
        columns = [self.force_row(i) for i in self.turning]
        slip_rows = at.J.reshape(m, -1, 3, n)[:, self.turning, 1:]
        across = np.stack([-d[:, self.turning, 1], d[:, self.turning, 0]], axis=2)
        # a turn by δθ changes the column of a contact by μ (e · J) δθ
        change = self.friction[self.turning][:, None] * np.einsum("mkj,mkjn->mkn", across, slip_rows)
        by_angle = self._solution_derivative(K, x, change, columns)[:, :n].reshape(m, n, k)
        return Turning(np.concatenate([self.scene.rate(q, v), x[:, :n]], axis=1), by_angle, slip_rows)

    def force_row(self, contact: int) -> int:
        """Where the normal force of a contact is among the unknowns of the block matrix."""
        return self.scene.model.nv + len(self.kept) + len(self.holds) + self.acting_rows.index(3 * contact)

    def block_matrix(self, at: At, d: Array) -> tuple[Array, Array]:
        """K and the right-hand side, for slips along d."""
        R, none = self._rows(at, self.acting_rows), np.zeros((len(at.M), len(self.holds)))
        K = block_matrix(at.M, R, self._acting(at, R, d), self.scene.compliance[self.kept])
        bias = np.concatenate([at.gamma[:, self.kept], none, at.beta[:, self.acting_rows]], axis=1)
        return K, np.concatenate([at.b + self.rubbed, -bias], axis=1)

    def _rows(self, at: At, contact_rows: list[int]) -> Array:
        """R (m, r, n): constraints, held massless motions, contacts' normals and sticking tangents."""
        held = np.repeat(self.holds[None], len(at.M), axis=0)
        return np.concatenate([at.A[:, self.kept], held, at.J[:, contact_rows]], axis=1)

    def _acting(self, at: At, R: Array, d: Array) -> Array:
        """E (m, r, n): sliding contacts push along the edge of their cone."""
        E = R
        for i in self.mode.sliding:
            if self.friction[i] and 3 * i in self.acting_rows:
                E = E.copy() if E is R else E
                row = self.force_row(i) - self.scene.model.nv
                tangents = at.J[:, 3 * i + 1 : 3 * i + 3]
                E[:, row] -= self.friction[i] * np.einsum("mj,mjn->mn", d[:, i], tangents)
        return E

    def slip_directions(self, q: Array, v: Array) -> Array:
        """d (m, k, 2) along the slip; past a stop, where the phase has ended, as if it went on."""
        heading = np.repeat(self.heading[None], len(q), axis=0)
        if not self.turning:
            return heading
        u = self.scene.contact_velocity(q, v)[..., 1:]
        along = np.sign(np.sum(heading * u, axis=-1, keepdims=True))
        speed = np.linalg.norm(u, axis=-1, keepdims=True)
        clear = (speed > self.still) & (along != 0)
        return np.where(clear, along * u / np.where(clear, speed, 1.0), heading)

    def follow(self, y: Array) -> None:
        """Take over the directions in which contacts slide at a state of this phase, as far as they are clear: what
        lies before and what lies past a stop is told by them."""
        if self.turning:
            q, v = self.scene.motion.split(y[None])
            u = self.scene.contact_velocity(q, v)[0, :, 1:]
            speed = np.linalg.norm(u, axis=-1, keepdims=True)
            clear = (speed > self.still) & np.any(self.mode.directions, axis=-1, keepdims=True)
            self.heading = np.where(clear, u / np.where(clear, speed, 1.0), self.mode.directions)

    def slower(self, y: Array, speed: float) -> list[int]:
        """Contacts with mass behind them whose turning slip is not faster than that, m/s."""
        if not self.turning:
            return []
        u = self.scene.contact_velocity(*self.scene.motion.split(y))
        return [i for i in self.turning if i not in self.weightless and np.hypot(*u[i, 1:]) <= speed]

    def time_to_stop(self, t: float, y: Array) -> float:
        """|uₜ| / |u̇ₜ| of the contact whose turning slip slows down fastest, s; infinite where none does."""
        if not self.turning:
            return np.inf
        q, v = self.scene.motion.split(y[None])
        at = self.scene.at(np.array([t]), q, v)
        u = self.scene.contact_velocity(q, v)[0]
        rates = (at.J[0] @ self.loads(np.array([t]), y[None]).a[0] + at.beta[0]).reshape(-1, 3)
        times = [np.inf]
        for i in self.turning:
            (x, z), (dx, dz) = u[i, 1:], rates[i, 1:]
            speed, change = float(np.hypot(x, z)), float(np.hypot(dx, dz))
            slows = speed > self.still and x * dx + z * dz < 0
            if slows and abs(x * dz - z * dx) > STRAIGHT_SLIP * speed * change:
                times.append(speed / change)
        return min(times)

    def solve(self, K: Array, b: Array, near: Array | None = None) -> Array:
        """x of K x = b; where it is not unique the smallest, or the one nearest to a given one."""
        if self.hyperstatic:
            start = np.zeros(b.shape[1]) if near is None else near
            return np.asarray(start + np.einsum("mij,mj->mi", self.pseudo_inverse(K), b - K @ start))
        return self._unique(K, b[..., None])[..., 0]

    def _unique(self, K: Array, b: Array) -> Array:
        """x (m, n + r, p) of K x = b, where it is."""
        scale = np.sqrt(np.abs(K).max(axis=2))[:, :, None]
        if np.any(scale == 0):
            raise self._undetermined_error()
        try:
            return np.asarray(np.linalg.solve(K / (scale * np.swapaxes(scale, 1, 2)), b / scale) / scale)
        except np.linalg.LinAlgError:
            raise self._undetermined_error() from None

    def _solution_derivative(self, K: Array, x: Array, change: Array, columns: list[int]) -> Array:
        """dx (m, n + r, p) of K x = b where column cₚ of K changes by the p-th row of ``change`` (m, p, n) on top."""
        m, p, n = change.shape
        right = np.zeros((m, K.shape[1], p))
        right[:, :n] = -np.swapaxes(change * x[:, columns, None], 1, 2)
        if not self.hyperstatic:
            return self._unique(K, right)
        inverse, weights = self.pseudo_inverse(K), self.pseudo_inverse.units(K) ** -2
        away = x if self.reference is None else x - self.reference
        # the null space of K, in which x is the nearest to its reference, turns too
        turn = np.einsum("mpn,min,mi->mp", change, inverse[:, :, :n], weights * away) / weights[columns]
        free = np.eye(K.shape[1])[:, columns] - inverse @ K[:, :, columns]
        return np.asarray(inverse @ right + free * turn[:, None])

    def _undetermined_error(self) -> IntegrationError:
        return IntegrationError(
            f"the integration stopped after t = {self.time:.9g} s: in the mode "
            f"{self.mode.words(self.scene.contacts.names)!r} the accelerations are not determined: a massless part "
            f"that slides, or rows that have become dependent",
            self.time,
        )

    def _forces_by_candidate(self, f: Array, d: Array) -> tuple[Array, Array]:
        """Forces of all rows of the scene, and of all candidates."""
        m = len(f)
        constraints = np.zeros((m, len(self.scene.rows)))
        constraints[:, self.kept] = f[:, : len(self.kept)]
        rows = np.zeros((m, 3 * self.scene.count))
        rows[:, self.acting_rows] = f[:, len(self.kept) + len(self.holds) :]
        contacts: Array = rows.reshape(m, self.scene.count, 3)
        contacts[:, self.mode.closed, 0] += self.scene.pressed[self.mode.closed]
        for i in self.mode.sliding:
            contacts[:, i, 1:] = -self.friction[i] * contacts[:, i, :1] * d[:, i]
        return constraints, contacts

    def project(self, t: float, y: Array) -> Array:
        """The state with quaternions at unit length, on gap = 0, g = 0 and R v = 0."""
        if self.leaves_dead_point:
            return self.scene.motion.project(t, y)
        return np.asarray(self.project_states(np.array([t]), y[None])[0])

    def project_states(self, t: Array, y: Array) -> Array:
        """Many states (m, nq + nv), each at its time (m,), brought back to where the mode holds."""
        if self.leaves_dead_point:
            return self._one_by_one(t, y)
        q, v = self.scene.motion.split(y)
        q = self.scene.motion.normalise(q)
        if not len(y) or not self.has_rows:
            return np.concatenate([q, v], axis=1)
        if self.held_rows is not None:
            found = self.scene.compiled.project(t, q, v, self.held_rows)
            if found is not None:
                return np.concatenate(found, axis=1)
        q = self._close_gaps(t, q, v)
        return np.concatenate([q, self.velocities_projected(t, q, v)], axis=1)

    def _one_by_one(self, t: Array, y: Array) -> Array:
        """States (m, nq + nv) that are projected each by itself."""
        return np.array([self.project(float(time), state) for time, state in zip(t, y, strict=True)]).reshape(y.shape)

    def strayed(self, t: float, projected: Array, path: Callable[[float], Array]) -> list[int]:
        """Closed contacts that are no longer where they were, of shapes with edges whose nearest corners and edges have
        become others: no projection closes their gaps. The state of the ``path``, before the projection, tells them
        from the rest."""
        far = self.far_apart(projected) if self.normals else []
        return far and (self.far_apart(path(t)) or far)

    def far_apart(self, y: Array) -> list[int]:
        """Contacts that the mode holds closed and that are not, at a state."""
        gaps = self.scene.gaps(self.scene.motion.split(y)[0])
        return [i for i in self.normals if not abs(gaps[i]) <= STRAYED]

    def velocity_projected(self, t: float, q: Array, v: Array) -> Array:
        """The nearest velocity with R v = 0 (and constraints as time prescribes them), (n,)."""
        return np.asarray(self.velocities_projected(np.array([t]), q[None], v[None])[0])

    def velocities_projected(self, t: Array, q: Array, v: Array) -> Array:
        """Velocities brought onto the rows at m states, (m, n)."""
        if not self.has_rows:
            return v
        if self.leaves_dead_point:
            return self.scene.motion.evaluate("project_velocity", q=q, v=v, t=t)
        if len(q) != 1:
            return self._velocities_projected(t, q, v)
        key = "velocities", t.tobytes(), q.tobytes(), v.tobytes()
        return self.kept_answer(key, lambda: (self._velocities_projected(t, q, v),))[0]

    def _velocities_projected(self, t: Array, q: Array, v: Array) -> Array:
        at = self.scene.at(t, q, v)
        moving = np.einsum("mrn,mn->mr", at.J[:, self.contact_rows], v)
        speed = [self.scene.row_velocity(t, q, v)[:, self.kept], v @ self.holds.T, moving]
        return v + self._corrections(at, -np.concatenate(speed, axis=1))

    def _close_gaps(self, t: Array, q: Array, v: Array) -> Array:
        """Positions (m, nq) at which gaps and constraints are closed, each as far as corrections bring it nearer.

        A position at which some contact is not there any more (:meth:`strayed`) stays as it is: what brings the gap of
        another corner nearer would move the bodies as far.
        """
        given, (q, residual) = q, (q.copy(), self._residuals(t, q))
        size = np.abs(residual).max(axis=1, initial=0.0)
        going = np.flatnonzero(size > CLOSED_PHASE)
        for _ in range(PHASE_CORRECTIONS):
            if not len(going):
                break
            own, positions = t[going], q[going]
            at = self.scene.at(own, positions, v[going])
            nearer = self.scene.move(positions, self._corrections(at, -residual[going]))
            left = self._residuals(own, nearer)
            rest = np.abs(left).max(axis=1)
            better = rest < size[going]
            going, rest = going[better], rest[better]
            q[going], residual[going], size[going] = nearer[better], left[better], rest
            going = going[rest > CLOSED_PHASE]
        at_normals = len(self.kept) + len(self.holds) + np.arange(len(self.normals))
        gone = np.any(np.abs(residual[:, at_normals]) > STRAYED, axis=1)
        return np.where(gone[:, None], given, q)

    def _residuals(self, t: Array, q: Array) -> Array:
        """Distances (m, r) of the rows at m positions; zero for rows of velocities alone."""
        m = len(q)
        own, gaps = self.scene.residual(t, q)[:, self.kept], self.scene.gaps(q)[:, self.normals]
        return np.concatenate([own, np.zeros((m, len(self.holds))), gaps, np.zeros((m, len(self.sticking_rows)))], 1)

    def _corrections(self, at: At, change: Array) -> Array:
        """The least-energy d (m, n) that changes the rows of the mode by ``change``."""
        return self.least_energy(at.M, self._rows(at, self.contact_rows), change)

    def least_energy(self, M: Array, R: Array, change: Array) -> Array:
        """The least-energy d (m, n) with R d = change."""
        m, _, n = R.shape
        return self.solve(block_matrix(M, R), np.concatenate([np.zeros((m, n)), change], axis=1))[:, :n]


def tried_phase(scene: EventEquations, mode: Mode, t: float, y: Array) -> Phase:
    """A phase that is tried: an event and the guards of the phase after it ask for the same ones."""
    key = _trial(scene, mode, t, y)
    if key not in scene.trials:
        if len(scene.trials) >= RECENT_TRIALS:
            del scene.trials[next(iter(scene.trials))]
        scene.trials[key] = Phase(scene, mode, t, y)
    return scene.trials[key]


def followed_phase(scene: EventEquations, mode: Mode, t: float, y: Array, still: float) -> Phase:
    """A phase that is followed: the one that was tried, if it was, or a new one."""
    tried = scene.trials.get(_trial(scene, mode, t, y))
    if tried is None or tried.hyperstatic or tried.turning:
        return Phase(scene, mode, t, y, still)
    return tried.in_mode(mode, still)


def _trial(scene: EventEquations, mode: Mode, t: float, y: Array) -> tuple[Any, ...]:
    return mode.status, mode.directions.tobytes(), t, y.tobytes(), scene.compiled.ready
