"""Questions of a user to a model's constraints: close its loops, check a state, leave rows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.body_system import Unknowns
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.exploration import STRUCTURE_TOLERANCE
from whippletree.constraints.long_structure import LongClosure, LongRowSystem, LongValues, least_motion, long_values
from whippletree.constraints.loop_closure import CLOSED_LOOP, Closure, attainable, close_loops
from whippletree.constraints.loop_repair import Repair, repair_frames
from whippletree.constraints.redundancy import is_long
from whippletree.errors import AssemblyError, UnsupportedError
from whippletree.model import Model, State, require_model
from whippletree.model.input_checks import coordinates
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
    (:mod:`whippletree.constraints.loop_repair`). The answer then is a ``Repair`` with ``model``, ``q``, ``moved`` (by
    constraint, m and rad), ``left_out`` (rows) and ``report`` (words, also in ``model.source``).

    Args:
        model: with or without constraints.
        guess: where to start, (nq,); default: the model's own start.
        hold: joints by name whose coordinates are set to these values and do not move: ``{"crank": 0.3}``.
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
    asked = [i for i, c in enumerate(system.compliance) if not c and i not in system.relaxed_rows]
    slips = _row_values(model, q.astype(float), v.astype(float), 0.0).velocity[asked]
    if not np.any(np.abs(slips) > VELOCITY_TOLERANCE):
        return np.zeros(model.nv)
    if is_long(system):
        unknowns = Unknowns(m.tree, system.demands, asked, [0] * len(system.row_names))
        return least_motion(LongRowSystem(unknowns, q.astype(float), 0.0), slips)
    at = q.astype(float).astype(object)
    A = system.rows(m, m.still(at), at, None, 0).jacobian()[asked].astype(float)
    return np.asarray(-np.linalg.lstsq(A, slips, rcond=STRUCTURE_TOLERANCE)[0])


def _mechanism(model: Model) -> Mechanism:
    return Mechanism(skeleton(model))
