"""Questions of a user to a model's constraints: close its loops, check a state, leave rows out, repair what stays open.

A drawing is rounded, to 1e-5 m or so. Then a loop stays open by as much wherever its joints are, and rows that the
undistorted mechanism has twice contradict each other by as much. Newton's method does not help there: a row that is
all but a combination of others would have joints travel far to close a gap of nothing. So in a repair

1. directions that rows feel less than ``LEAST_INFLUENCE`` of what they feel most are left alone: what is left of the
   residual is least in the sense of squares, and the joints stay where they are;
2. the second frame of every constraint that stays open is moved in its body, by the least that closes it;
3. rows that are combinations of others but for as little are left out, since no motion could keep them.

From then on the model is exact: its loops close to rounding, and stay closed in every motion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.body_system import Unknowns, with_copies
from whippletree.constraints.long_systems.long_structure import (
    LongClosure,
    LongRowSystem,
    LongValues,
    least_motion,
    long_values,
)
from whippletree.constraints.loop_closure import CLOSED_LOOP, Closure, attainable, close_loops, open_loops, with_held
from whippletree.constraints.redundancy import is_long
from whippletree.constraints.rows import prepare, without_rows
from whippletree.constraints.singular.exploration import STRUCTURE_TOLERANCE
from whippletree.errors import AssemblyError, UnsupportedError, list_items
from whippletree.model import Constraint, Frame, Model, State, require_model
from whippletree.model.frozen import frozen_array
from whippletree.model.input_checks import coordinates, tolerance_of
from whippletree.spatial import rotation_about
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

POSITION_TOLERANCE = VELOCITY_TOLERANCE = 1e-8
"""Residual of a row, m or rad, and its velocity, m/s or rad/s, that a consistent state may have."""


@overload
def assemble(
    model: Model,
    guess: Any = None,
    *,
    hold: Mapping[str, Any] | None = None,
    tolerance: float = CLOSED_LOOP,
    t: float = 0.0,
    repair: None = None,
) -> Array: ...


@overload
def assemble(
    model: Model,
    guess: Any = None,
    *,
    hold: Mapping[str, Any] | None = None,
    tolerance: float = CLOSED_LOOP,
    t: float = 0.0,
    repair: str,
) -> Repair: ...


def assemble(
    model: Model,
    guess: Any = None,
    *,
    hold: Mapping[str, Any] | None = None,
    tolerance: float = CLOSED_LOOP,
    t: float = 0.0,
    repair: str | None = None,
) -> Array | Repair:
    """Coordinates q (nq,) near a guess that close every loop: all rigid position rows within ``tolerance``.

    Loops of a drawing that rounding keeps open are closed by ``repair="frames"``: the closing frames are moved by the
    little that is missing in the nearest configuration, and rows that only rounding told from others are left out
    (:mod:`whippletree.constraints.assembly`). The answer then is a ``Repair`` with ``model``, ``q``, ``moved`` (by
    constraint, m and rad), ``left_out`` (rows) and ``report`` (words, also in ``model.source``).

    Args:
        model: with or without constraints.
        guess: where to start, (nq,); default: the model's own start.
        hold: joints by name whose coordinates are set to these values and do not move: ``{"crank": 0.3}``; one of
            several plain coordinates is ``joint[i]``.
        tolerance: largest residual of a row, m or rad.
        t: time, for constraints that depend on it.
        repair: None, or ``"frames"``.

    Returns:
        q (nq,). Joints that no row asks to move stay where the guess put them. Switchable constraints are closed too.
        With ``repair``, a ``Repair``.

    Raises:
        AssemblyError: if some loop cannot close; names the constraints, and by how much they stay open.
    """
    require_model(model, "assemble")
    start = (model.start or model.neutral).q if guess is None else guess
    q = coordinates("assemble", "guess", start, model)
    if not isinstance(hold, Mapping | None):
        raise TypeError(f"assemble: hold is {hold!r}, expected joints by name with their coordinates: {{'crank': 0.3}}")
    tolerance = tolerance_of("assemble", tolerance)
    if repair is not None:
        if repair != "frames":
            raise UnsupportedError(f"assemble: repair is {repair!r}, expected None or 'frames'")
        return repair_frames(model, q, hold=hold or {}, tolerance=tolerance, t=t)
    return close_loops(_closure(model, t), q, hold or {}, tolerance)


def require_consistent(
    model: Model,
    q: Any,
    v: Any,
    *,
    t: float = 0.0,
    position_tolerance: float = POSITION_TOLERANCE,
    velocity_tolerance: float = VELOCITY_TOLERANCE,
) -> None:
    """Refuse a state that violates the constraints, with the size of the violation; nothing is corrected.

    Args:
        model: with or without constraints; switchable ones and compliant ones are not asked, nor velocities of
            relaxed massless motions, which are no part of the state.
        q, v: (nq,), (nv,).
        t: time, for constraints that depend on it.
        position_tolerance: largest residual of a row, m or rad.
        velocity_tolerance: largest A v + ∂g/∂t of a row, m/s or rad/s.

    Raises:
        AssemblyError: naming the rows; ``wt.assemble`` and ``project_velocity`` are the cures.
    """
    system = constraint_set(model)
    at, rates = np.array(q, dtype=float), np.array(v, dtype=float)
    rows = _row_values(model, at, rates, t)
    asked = [
        i
        for i, k in enumerate(system.switch_of_row)
        if k < 0 and not system.compliance[i] and i not in system.relaxed_rows
    ]
    residual = dict(zip(system.position_rows, rows.residual, strict=True))
    gaps = {system.row_names[i]: float(residual[i]) for i in asked if abs(residual.get(i, 0.0)) > position_tolerance}
    if gaps:
        raise AssemblyError(
            f"model {model.name!r}: q does not meet its constraints: {_sizes(gaps)} (more than "
            f"{position_tolerance:g}). wt.assemble(model, q) closes the loops.",
            q,
            gaps,
        )
    velocity = rows.velocity
    slips = {system.row_names[i]: float(velocity[i]) for i in asked if abs(velocity[i]) > velocity_tolerance}
    if slips:
        raise AssemblyError(
            f"model {model.name!r}: v violates its constraints: {_sizes(slips)} per second (more than "
            f"{velocity_tolerance:g}). project_velocity(q, v) gives the closest velocity that they allow.",
            q,
            slips,
        )


def _sizes(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {x:.6g}" for name, x in list(values.items())[:8])


@garbage_left_alone()
def home_state(model: Model, start: State) -> State:
    """The start state with its loops closed and its velocity on the constraints, at time 0.

    A start that meets them already keeps its exact numbers. A velocity that does not (a motor that turns from the first
    moment on) is changed as little as possible.
    """
    q, v = start.q, start.v
    closure = _closure(model, 0.0)
    g, tolerance = closure.residual(np.array(q, dtype=float)), attainable(model)
    if g.size and not np.abs(g).max() <= tolerance:
        q = close_loops(closure, np.array(q, dtype=float), {}, tolerance)
        q.setflags(write=False)
    change = _missing_velocity(model, q, v)
    if np.any(change):
        v = v + change
        v.setflags(write=False)
    return State(q, v)


def _closure(model: Model, t: float) -> Closure:
    """The equations that close a model's loops, sparse where they are many."""
    system = constraint_set(model)
    kind = LongClosure if is_long(system) else Closure
    return kind(_mechanism(model), system.demands, t)


def _row_values(model: Model, q: Array, v: Array, t: float) -> LongValues:
    """Residual and velocity of all rows at a state."""
    system, m = constraint_set(model), _mechanism(model)
    if is_long(system):
        return long_values(m.tree, system.demands, q, v, t)
    at, rates = q.astype(object), v.astype(object)
    rows = system.rows(m, m.moving(at, rates), at, rates, t)
    return LongValues(rows.residual().astype(float), rows.velocity().astype(float))


def _missing_velocity(model: Model, q: Array, v: Array) -> Array:
    """The least change of v (nv,) after which A v + gₜ = 0 at time 0: joints that no row asks to move keep theirs."""
    system, m = constraint_set(model), _mechanism(model)
    if not (np.any(v) or system.timed or system.velocity_rows):
        return np.zeros(model.nv)  # rows that ask for nothing at rest
    asked = [i for i, c in enumerate(system.compliance) if not c and i not in system.relaxed_rows]
    slips = _row_values(model, q.astype(float), v.astype(float), 0.0).velocity[asked]
    if not np.any(np.abs(slips) > VELOCITY_TOLERANCE):
        return np.zeros(model.nv)
    if is_long(system):
        known = m.tree, system.demands, asked, [0] * len(system.row_names)
        unknowns = with_copies(lambda copies: Unknowns(*known, copies=copies))
        return least_motion(LongRowSystem(unknowns, q.astype(float), 0.0), slips)
    at = q.astype(float).astype(object)
    A = system.rows(m, m.still(at), at, None, 0).jacobian()[asked].astype(float)
    return np.asarray(-np.linalg.lstsq(A, slips, rcond=STRUCTURE_TOLERANCE)[0])


def _mechanism(model: Model) -> Mechanism:
    return Mechanism(skeleton(model))


# --- loops that nearly close, repaired --------------------------------------------------------------------------------


LEAST_INFLUENCE = 1e-3
"""Singular values of the rows' Jacobian, over the largest, below which a direction is one of rounding."""

LARGEST_REPAIR = 1e-3
"""m or rad: how far a closing frame is moved at most; more is no rounding, but another mechanism."""

CLEAR_ROWS = (0.3, 0.1, 0.03, 0.01, 0.003, LEAST_INFLUENCE)
"""Sines of a row to those that were chosen before it from which on it is chosen, round by round. A row of length s that
is rounded by e has a direction that is wrong by e / s: chosen before clearer ones, it would make these look
independent, an axis of 1e-2 with rounding of 1e-5 by as much as LEAST_INFLUENCE."""

EXACT = 1e-12
"""Sine of a row to those before it up to which it is redundant anyway."""

CONFIGURATIONS, SPREAD = 3, 0.3
"""How many configurations around the nearest one are looked at for rows of rounding, and how far away, m or rad."""

ITERATIONS = 50
REPAIR_DIFFERENCE = 1e-6
"""m or rad of the differences by which a frame's influence on its own rows is found."""


@dataclass(frozen=True)
class Repair:
    """A model whose loops close, and what was changed for it."""

    model: Model
    """With its closing frames moved, and this configuration as its start."""
    q: Array
    """The configuration in which its loops are closed, (nq,)."""
    moved: dict[str, tuple[float, float]]
    """By constraint, how far its second frame was moved: m and rad."""
    left_out: tuple[str, ...]
    """Rows that only rounding had made independent of the others."""

    @property
    def report(self) -> str:
        """The changes, in words."""
        ways = list_items(f"{name!r} by {way:.3g} m and {turn:.3g} rad" for name, (way, turn) in self.moved.items())
        told = [f"moved the closing frames of {ways}"] if self.moved else []
        if self.left_out:
            told.append(
                f"left out rows that only rounding had told from others: {list_items(map(repr, self.left_out))}"
            )
        return "; ".join(told) or "nothing: all loops close"


def repair_frames(
    model: Model,
    guess: Array,
    *,
    hold: Mapping[str, Any],
    tolerance: float,
    t: float = 0.0,
    most: float = LARGEST_REPAIR,
) -> Repair:
    """A model whose loops close near a guess, by the least move of its closing frames.

    Raises:
        AssemblyError: a loop stays open by more than ``most`` m or rad in the nearest configuration, or one of joints.
    """
    closure = Closure(Mechanism(skeleton(model)), prepare(model), t)
    q, held = with_held(model, np.array(guess, dtype=float), hold)
    q = _nearest(closure, closure.normalise(q), held)
    g = closure.residual(q)
    if not np.abs(g).max(initial=0.0) <= most:
        gaps = {name: float(x) for name, x in zip(closure.names, g, strict=True) if abs(x) > tolerance}
        raise AssemblyError(open_loops(model, closure, g, hold, tolerance), q, gaps)
    repaired, moved = model, {}
    start = 0
    for c in closure.demands:
        own = g[start : start + len(c.demand.rows)]
        start += len(own)
        if c.demand.on == "frames" and np.abs(own).max(initial=0.0) > tolerance:
            repaired, way = _moved_frame(repaired, c.constraint, q, t)
            moved[c.constraint.name] = way
    frozen = frozen_array(q, (model.nq,))
    repaired = replace(repaired, start=State(frozen, np.zeros(model.nv)))
    rows = _rows_of_rounding(Closure(Mechanism(skeleton(repaired)), prepare(repaired), t), q)
    found = Repair(without_rows(repaired, *rows) if rows else repaired, frozen, moved, rows)
    return replace(found, model=replace(found.model, source=f"{model.source}\n- repaired: {found.report}".strip()))


def _rows_of_rounding(closure: Closure, q: Array) -> tuple[str, ...]:
    """Rows that are combinations of clearer ones but for rounding, here and in configurations around."""
    random, nv = np.random.default_rng(0), closure.mechanism.tree.model.nv
    places = [q]
    for _ in range(CONFIGURATIONS):
        away = closure.move(q, random.uniform(-SPREAD, SPREAD, nv))
        places.append(_nearest(closure, away, np.zeros(nv, dtype=bool)))
    bases: list[list[Array]] = [[] for _ in places]
    jacobians = [closure.jacobian(place) for place in places]
    # angles per rad of a joint are of the size of 1, ways of the size of the largest lever; a row that is small beside
    # these feels nothing but rounding, whatever its own size is
    lengths = [i for i, unit in enumerate(closure.units) if unit != "rad"]
    levers = [float(np.linalg.norm(A[lengths], axis=1).max(initial=0.0)) or 1.0 for A in jacobians]
    scaled = [A / np.where(np.isin(np.arange(len(A)), lengths), lever, 1.0)[:, None]
              for A, lever in zip(jacobians, levers, strict=True)]  # fmt: skip
    waiting = dict.fromkeys(range(len(closure.names)), 0.0)
    for least in CLEAR_ROWS:
        for i in list(waiting):
            left = [_across(A[i], basis) for A, basis in zip(scaled, bases, strict=True)]
            sines = [float(np.linalg.norm(rest)) for rest in left]
            waiting[i] = max(sines)
            if waiting[i] >= least:
                del waiting[i]
                for rest, sine, basis in zip(left, sines, bases, strict=True):
                    if sine >= LEAST_INFLUENCE:  # elsewhere its direction is one of rounding
                        basis.append(rest / sine)
    return tuple(closure.names[i] for i, sine in waiting.items() if sine > EXACT)


def _across(row: Array, basis: list[Array]) -> Array:
    """A row less its parts along orthonormal directions."""
    for _ in range(2):  # twice is enough
        for direction in basis:
            row = row - (row @ direction) * direction
    return row


def _nearest(closure: Closure, q: Array, held: Array) -> Array:
    """Coordinates near q with the least |g|², directions of rounding left alone."""
    best, g = q, closure.residual(q)
    for _ in range(ITERATIONS):
        A = closure.jacobian(best)[:, ~held]
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        kept = s > LEAST_INFLUENCE * s[0] if s.size else np.zeros(0, dtype=bool)
        d = np.zeros(len(held))
        d[~held] = -Vt[kept].T @ ((U.T @ g)[kept] / s[kept])
        d /= max(1.0, np.abs(d).max(initial=0.0))
        trial = closure.move(best, d)
        after = closure.residual(trial)
        if not np.linalg.norm(after) < np.linalg.norm(g):
            break
        best, g = trial, after
    return best


def _moved_frame(model: Model, constraint: Constraint, q: Array, t: float) -> tuple[Model, tuple[float, float]]:
    """The model with the second frame of a constraint moved by the least that meets it at q, and how far, m and rad."""
    old = model.frame(constraint.on[1])
    name = f"{constraint.name}/repaired"

    def model_with_frame(d: Array) -> Model:
        turn, pose = float(np.linalg.norm(d[:3])), np.array(old.pose, dtype=float)
        if turn:
            turned = rotation_about(d[:3] / turn, np.sin(turn), np.cos(turn))
            pose[:3, :3] = pose[:3, :3] @ np.array(turned, dtype=float)
        pose[:3, 3] = pose[:3, 3] + old.pose[:3, :3].astype(float) @ d[3:]
        frames = [frame for frame in model.frames if frame.name != name]
        return replace(model, frames=(*frames, Frame(name, old.body, frozen_array(pose, (4, 4)))))

    moved = replace(constraint, on=(constraint.on[0], name, *constraint.on[2:]))

    def residual(d: Array) -> Array:
        alone = replace(model_with_frame(d), constraints=(moved,))
        return Closure(Mechanism(skeleton(alone)), prepare(alone), t).residual(q)

    d = np.zeros(6)
    for _ in range(4):
        ends = [
            (residual(d + REPAIR_DIFFERENCE * e) - residual(d - REPAIR_DIFFERENCE * e)) / (2 * REPAIR_DIFFERENCE)
            for e in np.eye(6)
        ]
        change = np.linalg.lstsq(np.stack(ends, axis=1), -residual(d), rcond=LEAST_INFLUENCE)[0]
        d = d + change
        if np.abs(change).max() < 1e-16:
            break
    others = tuple(moved if c.name == constraint.name else c for c in model.constraints)
    return replace(model_with_frame(d), constraints=others), (
        float(np.linalg.norm(d[3:])),
        float(np.linalg.norm(d[:3])),
    )
