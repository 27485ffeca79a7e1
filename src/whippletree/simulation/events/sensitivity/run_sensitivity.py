"""The derivative of a run by its start state: variational equations along its steps, saltation matrices at its events.

    Φ̇ = F(t) Φ,    F = ∂ẏ/∂y in the tangent space (δq, δv);       Φ⁺ = S Φ⁻ at an event

Along a step y(t) is known, so F is, and the collocation of Φ is one linear system: the same points, the same order as
the motion's. A step that is too long for Φ is halved.

Where several events fall on one instant, a state that is a little off meets them one after the other. Every order is
followed; the matrix exists if all lead to the same one, and otherwise the reason is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.collocation.step_control import COLLOCATION_ITERATIONS
from whippletree.contact.contact_modes import OPEN, STICK, open_mode
from whippletree.contact.impact.impact_derivatives import Changes, derivative, impact_derivative, saltation_matrix
from whippletree.contact.impact.laws import Energetic, Law
from whippletree.errors import IntegrationError, UnsupportedError
from whippletree.simulation.adaptive.collocation import Polynomial, Rule, gauss_rule, radau_rule
from whippletree.simulation.adaptive.motion_pieces import MotionPiece
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.guards import JAM, LIFT_OFF, SLIP, TOUCHDOWN, Guard, Guards
from whippletree.simulation.events.guards import STICK as STOPS
from whippletree.simulation.events.massless_feet.foot_slip import tangent_of
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.sensitivity.phase_sensitivity import PhaseTangent, SceneTangent, differentiable
from whippletree.simulation.events.transitions import WITHOUT_COLLISION, Change, Transitions
from whippletree.simulation.events.zeno import Rest

STEP_HALVINGS = 12
"""Halvings of one step."""

FOUND_SENSITIVITY = 1e-15
"""Change of Φ, relative to its largest entry, at which it is found."""


class Variation:
    """Φ, brought forward with the run."""

    matrix: Array
    """Φ (2nv, 2nv) at the time that has been reached."""

    def __init__(self, scene: EventEquations, tolerance: float) -> None:
        """``tolerance``: of one step, relative to the largest entry of Φ.

        Raises:
            UnsupportedError: where shapes touch whose contact has no closed form.
        """
        if not differentiable(scene):
            raise UnsupportedError(
                f"simulate: sensitivity of model {scene.model.name!r}: some of its contacts have no closed form, and "
                f"so no derivatives: leave it out, or give the bodies spheres, capsules or points"
            )
        self.matrix = np.eye(2 * scene.model.nv)
        self.tolerance = tolerance

    def begin(self, derivative: Array) -> None:
        """From a start state: what the start makes of its changes."""
        self.matrix = derivative

    def jump(self, saltation: Array) -> None:
        """Through an event."""
        self.matrix = saltation @ self.matrix

    def along(self, phase: Phase, piece: MotionPiece, end: float, wanted: Array) -> Array:
        """Φ at the wanted times (m, 2nv, 2nv) of a step; it is at the step's ``end`` then."""
        tangent, size = tangent_of(phase), self.matrix.shape
        rule = radau_rule() if phase.turning else gauss_rule()
        found: list[Array] = []
        spans = [(piece.start, end, 0)]
        while spans:
            start, stop, halved = spans.pop()
            if stop <= start:
                break
            curve = self._collocate(rule, tangent, piece.interpolant, start, stop)
            scale = self.tolerance * float(np.abs(curve.origin).max(initial=0.0))
            if halved < STEP_HALVINGS and float(curve.truncation().max(initial=0.0)) > scale:
                middle = (start + stop) / 2
                spans += [(middle, stop, halved + 1), (start, middle, halved + 1)]
                continue
            inside = wanted[(wanted > start) & (wanted <= stop)]
            found += [curve(t).reshape(size) for t in inside.tolist()]
            self.matrix = curve(stop).reshape(size)
        return np.array(found).reshape(len(found), *size)

    def _collocate(self, rule: Rule, tangent: PhaseTangent, path: Polynomial, start: float, stop: float) -> Polynomial:
        """Φ over a part of a step: (1 − h W F) Φ = Φ₀ at the collocation points."""
        h = stop - start
        times = start + h * rule.nodes
        F = tangent.flow(times, path.states(times))
        values = _solve_collocation(h * rule.weights, F, self.matrix)
        slopes = (F @ values).reshape(len(F), -1)
        return Polynomial(start, h, self.matrix.reshape(-1), rule.to_coefficients @ slopes)


def _solve_collocation(W: Array, F: Array, start: Array) -> Array:
    """Φ (s, n, n) of Φ = Φ₀ + W F Φ: iterated as the motion is, or at once where that does not converge."""
    values: Array = np.broadcast_to(start, F.shape)
    size = float(np.abs(start).max(initial=0.0))
    for _ in range(COLLOCATION_ITERATIONS):
        new = start + np.einsum("ij,jkl->ikl", W, F @ values)
        change, values = float(np.abs(new - values).max(initial=0.0)), new
        if not change > FOUND_SENSITIVITY * size:
            return values
    points, n = F.shape[:2]
    matrix = np.eye(points * n) - np.einsum("ij,jkl->ikjl", W, F).reshape(points * n, points * n)
    return np.asarray(np.linalg.solve(matrix, np.tile(start, (points, 1))).reshape(F.shape))


# --- saltation matrices of a run's events: resets and guards, differentiated exactly ----------------------------------


SMOOTH = 1e-7
"""Share of the largest rate below which the rates of two modes are the same: when the event happens makes no
difference then."""

AGREE = 1e-6
"""Share of the largest entry by which the matrices of two orders of events may differ."""

MOST_ORDERED = 4
"""Events at one instant up to which all orders are followed."""


class Passage(NamedTuple):
    """The derivative of an event."""

    matrix: Array
    """S (2nv, 2nv); NaN where it does not exist."""
    error: float = 0.0
    """Relative error of the impact law's derivative; 0 where it is exact."""
    reason: str = ""
    """Why there is no matrix."""


def through(
    rules: Transitions, before: Phase, after: Phase, t: float, y: Array, change: Change, fired: Sequence[Guard]
) -> Passage:
    """S of an instant, at the state y before it."""
    landed = [Guard(TOUCHDOWN, i) for kind, i in change.entries if kind == TOUCHDOWN]
    if not differentiable(rules.scene):
        return missing(rules.scene.model.nv, "shapes touch whose contact has no closed form")
    if any(guard.kind == JAM for guard in fired):
        return missing(rules.scene.model.nv, "a slip jams: forces and rates grow without bound before it")
    causes = [guard for guard in dict.fromkeys([*fired, *landed]) if not _is_implied(guard, fired)]
    if len(causes) <= 1:
        return _Single(rules, before, after, t, y, change).passage(causes)
    if not landed:
        single = _Single(rules, before, after, t, y, change)
        if single.smooth:
            return single.passage(causes)
    return _at_once(rules, before, after, t, y, causes)


def _is_implied(guard: Guard, fired: Sequence[Guard]) -> bool:
    """Whether a guard vanishes because another one does: without a normal force the friction cone is a point."""
    return guard.kind == SLIP and Guard(LIFT_OFF, guard.contact) in fired


def start_derivative(rules: Transitions, first: Phase, t: float, y: Array, change: Change) -> Array:
    """Effect of changes of the start state y (2n, 2n), of those that leave closed what touches there."""
    impacts = impacts_of(change)
    if not impacts:
        return tangent_of(first).admissible(t, first.state)
    scene, n = rules.scene, rules.scene.model.nv
    struck = [i for contacts, _ in impacts for i in contacts]
    touching = Phase(scene, open_mode(scene.count).trailing(struck), t, y)
    admitted = tangent_of(touching).admissible(t, y)
    if change.struck:  # what approaches may do so faster or slower
        admitted[n:] = np.eye(n, 2 * n, n)
    return np.asarray(reset_derivative(rules, first, t, y, impacts)[0][:, :-1] @ admitted)


def rest_derivative(rules: Transitions, rested: Phase, t: float, y: Array, change: Change, rest: Rest) -> Array:
    """Effect of the end of accumulating impacts on changes (2n, 2n): contacts close where they are, and when they do
    makes no difference any more. Their speeds are next to nothing, but these change with when they would rest."""
    scene, n = rules.scene, rules.scene.model.nv
    q, v = scene.motion.split(y)
    here = np.array([t]), q[None], v[None]
    speeds = SceneTangent.of(scene).at(*here).J[0][:, rest.rows] @ v
    speeds[n : 2 * n] += scene.at(*here).J[0, rest.rows].T
    directions = np.eye(2 * n + 1)
    directions[:, n : 2 * n] += rest.stopping_change(speeds)
    D, _ = reset_derivative(rules, rested, t, rest.state, impacts_of(change), directions)
    return np.asarray(tangent_of(rested).admissible(t, rested.state) @ D[:, :-1])


class _Single:
    """One event: its reset, and the rates of the state on either side."""

    def __init__(self, rules: Transitions, before: Phase, after: Phase, t: float, y: Array, change: Change) -> None:
        self.rules, self.before, self.t, self.y = rules, before, t, y
        self.n = rules.scene.model.nv
        here, v = np.array([t]), rules.scene.motion.split(y)[1]
        self.start = np.concatenate([v, before.loads(here, y[None]).a[0]])
        self.end = np.concatenate([after.state[-self.n :], after.loads(here, after.state[None]).a[0]])
        self.D, self.error = reset_derivative(rules, after, t, y, impacts_of(change))
        self.jump = self.end - self.D @ np.append(self.start, 1.0)

    @property
    def smooth(self) -> bool:
        """Whether the rates of the state do not jump."""
        largest = max(float(np.abs(self.start).max(initial=0.0)), float(np.abs(self.end).max(initial=0.0)))
        return bool(np.abs(self.jump).max(initial=0.0) <= SMOOTH * largest)

    def passage(self, causes: Sequence[Guard]) -> Passage:
        """S for this cause, if there is one."""
        D, name = self.D[:, :-1], self.rules.scene.contacts.names
        admitted = tangent_of(self.before).admissible(self.t, self.y)
        if self.smooth:
            return Passage(D @ admitted, self.error)
        if not causes:
            return self._none("the modes of contacts whose forces are not unique change, and no guard tells when")
        gradient = guard_gradient(self.before, causes[0], self.t, self.y)
        rate = float(gradient @ np.append(self.start, 1.0))
        if not np.isfinite(rate) or abs(rate) <= self._grazing(causes[0], gradient):
            kind, i = causes[0]
            return self._none(f"{kind} {name[i]} is grazed: a small change may leave it out")
        return Passage(saltation_matrix(D, self.jump, gradient[:-1], rate) @ admitted, self.error)

    def _grazing(self, guard: Guard, gradient: Array) -> float:
        """The rate at which a guard counts as grazed: of a gap in m/s, of others relative to their terms."""
        if guard.kind == TOUCHDOWN:
            return self.rules.speed_tolerance
        return AGREE * float(np.abs(gradient) @ np.abs(np.append(self.start, 1.0)))

    def _none(self, reason: str) -> Passage:
        return missing(self.n, reason)


def missing(n: int, reason: str) -> Passage:
    """No matrix, and why."""
    return Passage(np.full((2 * n, 2 * n), np.nan), reason=reason)


def impacts_of(change: Change) -> list[tuple[tuple[int, ...], Law]]:
    """The impacts of an instant in their order: contacts and law of each."""
    found: list[tuple[tuple[int, ...], Law]] = []
    if change.struck and change.law is not None:
        found.append((change.struck, change.law))
    return found + [((i,), Energetic()) for kind, i in change.entries if kind == WITHOUT_COLLISION]


def reset_derivative(
    rules: Transitions,
    after: Phase,
    t: float,
    y: Array,
    impacts: Sequence[tuple[tuple[int, ...], Law]],
    changes: Array | None = None,
) -> tuple[Array, float]:
    """D (2n, 2n + 1) of the reset along (δq, δv, δt), or along changes of them (2n + 1, 2n + 1) that leave δq as it is,
    and the relative error of the laws' part.

    The reset is what impacts make of the velocity, and then the way to the velocities that the next mode allows.
    """
    scene = rules.scene
    n = scene.model.nv
    q, v = scene.motion.split(y)
    directions, error = np.eye(2 * n + 1) if changes is None else changes, 0.0
    if impacts:
        tangent = SceneTangent.of(scene).at(np.array([t]), q[None], v[None])
    for contacts, law in impacts:
        rows = [3 * i + j for i in contacts for j in range(3)]
        A = tangent.A[0][:, rules.rigid_rows]
        change = Changes(tangent.M[0], A, tangent.J[0][:, rows], directions[:, n : 2 * n])
        found = impact_derivative(rules.impact(t, q, v, contacts), law, change)
        v, error = found.v, max(error, found.error)
        directions = np.concatenate([directions[:, :n], found.dv, directions[:, -1:]], axis=1)
    dv = tangent_of(after).projection(t, q, v, directions)
    return np.concatenate([np.eye(n, 2 * n + 1), dv.T]), error


def guard_gradient(phase: Phase, guard: Guard, t: float, y: Array) -> Array:
    """∇γ (2n + 1,) along (δq, δv, δt); by differences for what massless feet and jammed contacts are watched by."""
    scene, (kind, i) = phase.scene, guard
    n = scene.model.nv
    here = np.array([t]), *(x[None] for x in scene.motion.split(y))
    if kind == TOUCHDOWN:
        return np.concatenate([scene.at(*here).J[0, 3 * i], np.zeros(n + 1)])
    if kind == STOPS and i not in phase.trailing:
        J, dJ = scene.at(*here).J[0], SceneTangent.of(scene).at(*here).J[0]
        rows = slice(3 * i + 1, 3 * i + 3)
        d = phase.slip_directions(here[1], here[2])[0, i]
        gradient = dJ[:, rows] @ here[2][0] @ d
        gradient[n : 2 * n] += d @ J[rows]
        return np.asarray(gradient)
    if kind in (LIFT_OFF, SLIP) and i not in phase.trailing:
        f = phase.loads(here[0], y[None]).contacts[0, i]
        df = tangent_of(phase).loads(here[0], y[None]).contacts[0, :, i]
        held = df[:, 1:] @ f[1:] / max(float(np.hypot(*f[1:])), np.finfo(float).tiny)
        return np.asarray(df[:, 0] if kind == LIFT_OFF else phase.friction[i] * df[:, 0] - held)
    watch = Guards(phase)
    number = watch.guards.index(guard)

    def value(d: Array) -> Array:
        q, v = here[1][0], here[2][0]
        moved = np.concatenate([scene.move(q, d[:n]), v + d[n : 2 * n]])
        return np.asarray(watch.values(here[0] + d[-1], moved[None])[0, number : number + 1])

    return np.asarray(derivative(value, 2 * n + 1)[0])


def _at_once(rules: Transitions, before: Phase, after: Phase, t: float, y: Array, causes: Sequence[Guard]) -> Passage:
    """S of several events at one instant: of one order, if all lead to the same."""
    n, names = rules.scene.model.nv, rules.scene.contacts.names
    together = " and ".join(f"{kind} {names[i]}" for kind, i in causes)
    if len(causes) > MOST_ORDERED or any(guard.kind == SLIP for guard in causes):
        return missing(n, f"{together} at one instant: their orders were not followed")
    depends = missing(n, f"{together} at one instant: what follows depends on which comes first")
    paths = []
    for order in permutations(causes):
        path = _follow_events(rules, before, after, t, y, order)
        if path is None:
            return depends
        paths.append(path)
    first = _product(rules, t, paths[0])
    for path in paths[1:]:
        other = _product(rules, t, path)
        # NaN, where an event of an order has no matrix, differs from everything
        if not np.abs(other.matrix - first.matrix).max() <= AGREE * np.abs(first.matrix).max():
            return depends
        first = first._replace(error=max(first.error, other.error))
    return first


class _Step(NamedTuple):
    """An event among several at one instant."""

    guard: Guard
    before: Phase
    after: Phase
    state: Array
    """Before it."""
    change: Change


def _follow_events(
    rules: Transitions, before: Phase, after: Phase, t: float, y: Array, order: Sequence[Guard]
) -> list[_Step] | None:
    """These events one after the other; None if they do not end in the motion after the instant."""
    scene, phase, path = rules.scene, before, list[_Step]()
    for kind, i in order:
        if (kind == TOUCHDOWN) != (phase.mode.status[i] == OPEN) or (kind == STOPS and phase.mode.status[i] == STICK):
            continue  # it has happened with another one
        q, v = scene.motion.split(y)
        if kind == TOUCHDOWN and scene.contact_velocity(q, v)[i, 0] >= -rules.speed_tolerance:
            return None
        try:
            change = rules.change(t, y, phase.mode, [Guard(kind, i)], sorted({*phase.mode.closed, i}))
            raw = Phase(scene, change.mode, t, change.state)
            then = Phase(scene, change.mode, t, raw.project(t, change.state), after.still)
        except IntegrationError:
            return None
        path.append(_Step(Guard(kind, i), phase, then, y, change))
        phase, y = then, then.state
    same = phase.mode.status == after.mode.status and np.allclose(y, after.state, rtol=AGREE, atol=AGREE)
    return path if same else None


def _product(rules: Transitions, t: float, path: Sequence[_Step]) -> Passage:
    """The matrices of these events, multiplied."""
    S, error = np.eye(2 * rules.scene.model.nv), 0.0
    for guard, before, after, y, change in path:
        passage = _Single(rules, before, after, t, y, change).passage([guard])
        S, error = passage.matrix @ S, max(error, passage.error)
    return Passage(S, error)
