"""Rows of the constraint equations at one state: residual, Jacobian A, and bias, by differentiating the residuals.

    position level       g(q, t) = 0
    velocity level       A v + gₜ = 0
    acceleration level   A a + γ = 0,   γ = Ȧ v + time terms

The rows of A come from moving each frame along unit twists (dual numbers), composed with the frames' Jacobians; γ comes
from one second-order jet along the motion at a = 0. No Jacobian is written by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whippletree.constraints.kinds import KINDS, Demand
from whippletree.errors import ModelError, NameLookupError, did_you_mean
from whippletree.model import Constraint, Model
from whippletree.scalars import Dual
from whippletree.spatial import Array, Pose, cross, identity, skew, zeros
from whippletree.sweeps import Field
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism


class Rows(NamedTuple):
    """All rows of a model's constraints at one state."""

    residual: Array
    """g of the position rows, (p,)."""
    velocity: Array
    """A v + gₜ, (m,)."""
    A: Array
    """(m, nv)"""
    bias: Array
    """γ = Ȧ v + time terms, (m,)."""


@dataclass(frozen=True)
class Prepared:
    """A constraint whose names have been looked up and whose demand is known."""

    constraint: Constraint
    demand: Demand
    compliance: Any

    @property
    def row_names(self) -> list[str]:
        """Names of the rows, with the constraint's name in front."""
        return [f"{self.constraint.name}.{row}" for row in self.demand.rows]


def prepare(model: Model) -> list[Prepared]:
    """Check every constraint of a model against its bodies, frames and joints.

    Raises:
        ModelError: with every fault found, by name.
    """
    faults: list[str] = []
    prepared = []
    for constraint in model.constraints:
        try:
            prepared.append(_prepared(model, constraint))
        except ModelError as error:
            faults += [f"{error.subject}: {fault}" for fault in error.faults]
        except NameLookupError as error:
            faults.append(f"constraint {constraint.name!r}: {error}")
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return prepared


def _prepared(model: Model, c: Constraint) -> Prepared:
    if c.kind not in KINDS:
        hint = did_you_mean(c.kind, KINDS)
        raise ModelError(f"constraint {c.name!r}", [f"unknown kind {c.kind!r}; known: {', '.join(KINDS)}{hint}"])
    demand = KINDS[c.kind](c)
    for name in c.on:
        if demand.on == "frames":
            model.frame(name)
        elif model.joint_types[model.joint_index(name)].nv != 1:
            raise ModelError(f"constraint {c.name!r}", [f"joint {name!r} has more than one freedom; name a simple joint"])
    if demand.on == "frames" and c.kind != "custom" and len(c.on) != 2:
        raise ModelError(f"constraint {c.name!r}", [f"kind {c.kind!r} ties two frames, got {len(c.on)}: {c.on}"])
    return Prepared(c, demand, c.parameters.get("compliance", 0))


def evaluate(m: Mechanism, constraints: Sequence[Prepared], q: Array, v: Array, t: Any = 0) -> Rows:
    """Residual, velocity residual, A and bias of all rows, in the order of the constraints."""
    links = m.moving(q, v)
    parts = [_evaluate_one(m, links, c, q, v, t) for c in constraints]
    n = m.tree.model.nv
    return Rows(
        np.concatenate([zeros(0), *[p.residual for p in parts]]),
        np.concatenate([zeros(0), *[p.velocity for p in parts]]),
        np.concatenate([zeros(0, n), *[p.A for p in parts]]),
        np.concatenate([zeros(0), *[p.bias for p in parts]]),
    )


def _evaluate_one(m: Mechanism, links: Field, c: Prepared, q: Array, v: Array, t: Any) -> Rows:
    if c.demand.on == "joints":
        return _joint_rows(m, c, q, v, t)
    places = [m.place(name) for name in c.constraint.on]
    poses = [kinematics.pose(m.tree, links, place) for place in places]
    jacobians = [kinematics.jacobian(m.tree, links, place) for place in places]
    twists = [kinematics.twist(m.tree, links, place) for place in places]
    biases = [kinematics.jacobian_bias(m.tree, links, place) for place in places]
    fixed = [place.node < 0 for place in places]
    if c.demand.level == "velocity":
        return _velocity_rows(c.demand, poses, jacobians, twists, biases, t)
    count = len(c.demand.rows)
    A = zeros(count, m.tree.model.nv)
    for i, J in enumerate(jacobians):
        if not fixed[i]:
            A = A + _slopes(c.demand, poses, i, t) @ J
    jets = [_jet(X, V, b) for X, V, b in zip(poses, twists, biases, strict=True)]
    moving = c.demand.residual(jets, _time_jet(t))
    return Rows(c.demand.residual(poses, t), _first(moving), A, _second(moving))


def _slopes(demand: Demand, poses: Sequence[Pose], i: int, t: Any) -> Array:
    """∂g/∂(twist of frame i), (rows, 6)."""
    columns = []
    for e in identity(6):
        moved = [_moved(X, e) if k == i else X for k, X in enumerate(poses)]
        columns.append([_slope(g) for g in demand.residual(moved, t)])
    return np.array(columns, dtype=object).T.reshape(len(demand.rows), 6)


def _velocity_rows(
    demand: Demand,
    poses: Sequence[Pose],
    jacobians: Sequence[Array],
    twists: Sequence[Array],
    biases: Sequence[Array],
    t: Any,
) -> Rows:
    """Rows of a residual h(poses, twists) that is linear in the twists."""
    still = [zeros(6) for _ in poses]
    drift = demand.residual(poses, still, t)
    A = zeros(len(demand.rows), jacobians[0].shape[1])
    for i, J in enumerate(jacobians):
        columns = [
            demand.residual(poses, [e if k == i else s for k, s in enumerate(still)], t) - drift for e in identity(6)
        ]
        A = A + np.array(columns, dtype=object).T @ J
    moved = [_moved(X, V) for X, V in zip(poses, twists, strict=True)]
    changing = [_duals(V, b) for V, b in zip(twists, biases, strict=True)]
    moving = demand.residual(moved, changing, Dual(t, 1))
    return Rows(zeros(0), demand.residual(poses, twists, t), A, np.array([_slope(h) for h in moving], dtype=object))


def _joint_rows(m: Mechanism, c: Prepared, q: Array, v: Array, t: Any) -> Rows:
    """Rows on joint coordinates: A has entries at these joints only."""
    model = m.tree.model
    at = [(model.q_slice(name).start, model.slice(name).start) for name in c.constraint.on]
    coordinates = [q[i] for i, _ in at]
    A = zeros(len(c.demand.rows), model.nv)
    for number, (_, column) in enumerate(at):
        moved = [Dual(x, 1) if k == number else x for k, x in enumerate(coordinates)]
        A[:, column] = A[:, column] + np.array([_slope(g) for g in c.demand.residual(moved, t)], dtype=object)
    jets = [Dual(Dual(q[i], v[j]), Dual(v[j], 0)) for i, j in at]
    moving = c.demand.residual(jets, _time_jet(t))
    return Rows(c.demand.residual(coordinates, t), _first(moving), A, _second(moving))


def _moved(X: Pose, V: Array) -> Pose:
    """The pose as dual numbers, moving with the twist V (in its own axes)."""
    return Pose(_duals(X.R, X.R @ skew(V[:3])), _duals(X.p, X.R @ V[3:]))


def _jet(X: Pose, V: Array, bias: Array) -> Pose:
    """The pose as nested duals: value, velocity (twice) and acceleration along the motion with V̇ = bias."""
    w, u = V[:3], V[3:]
    hat, hat_rate = skew(w), skew(bias[:3])
    R1, p1 = X.R @ hat, X.R @ u
    R2, p2 = X.R @ (hat @ hat + hat_rate), X.R @ (cross(w, u) + bias[3:])
    return Pose(_duals(_duals(X.R, R1), _duals(R1, R2)), _duals(_duals(X.p, p1), _duals(p1, p2)))


def _time_jet(t: Any) -> Dual:
    return Dual(Dual(t, 1), Dual(1, 0))


def _duals(value: Array, slope: Array) -> Array:
    result = np.empty(value.shape, dtype=object)
    for index in np.ndindex(*value.shape):
        result[index] = Dual(value[index], slope[index])
    return result


def _slope(x: Any) -> Any:
    return x.slope if isinstance(x, Dual) else 0


def _first(jets: Array) -> Array:
    """The velocity part of second-order jets."""
    return np.array([_slope(j.value) if isinstance(j, Dual) else 0 for j in jets], dtype=object)


def _second(jets: Array) -> Array:
    """The acceleration part of second-order jets."""
    return np.array([_slope(_slope(j)) for j in jets], dtype=object)

