"""Rows of the constraint equations at one state: residual, Jacobian A, and bias, by differentiating the residuals.

    position level       g(q, t) = 0
    velocity level       A v + gₜ = 0
    acceleration level   A a + γ = 0,   γ = Ȧ v + time terms

The rows of A come from moving each frame along unit twists (dual numbers), composed with the frames' Jacobians; A v
+ gₜ from one dual number along the motion; γ from one second-order jet along the motion at a = 0. No Jacobian is
written by hand, and nothing is computed that was not asked for. What stands still is lifted to dual numbers of slope
zero beside what moves: the scalars may be dual numbers themselves (derivatives of these rows), and two levels must
not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.constraints.kinds import KINDS, Demand
from whippletree.errors import ModelError, NameLookupError, did_you_mean
from whippletree.model import Constraint, Model
from whippletree.scalars import Dual, duals, slopes
from whippletree.spatial import Array, Pose, cross, identity, skew, zeros
from whippletree.sweeps import Field
from whippletree.tree import kinematics
from whippletree.tree.mechanism import Mechanism


@dataclass(frozen=True)
class Prepared:
    """A demand of a constraint whose names have been looked up."""

    constraint: Constraint
    demand: Demand

    @property
    def row_names(self) -> list[str]:
        """Names of the rows, with the constraint's name in front."""
        return [f"{self.constraint.name}.{row}" for row in self.demand.rows]


def prepare(model: Model) -> tuple[Prepared, ...]:
    """Check every constraint of a model against its bodies, frames and joints.

    Raises:
        ModelError: with every fault found, by name.
    """
    faults: list[str] = []
    prepared: list[Prepared] = []
    for constraint in model.constraints:
        try:
            prepared += _prepared(model, constraint)
        except ModelError as error:
            faults += [f"{error.subject}: {fault}" for fault in error.faults]
        except NameLookupError as error:
            faults.append(f"constraint {constraint.name!r}: {error}")
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return tuple(prepared)


def _prepared(model: Model, c: Constraint) -> list[Prepared]:
    subject = f"constraint {c.name!r}"
    if c.kind not in KINDS:
        hint = did_you_mean(c.kind, KINDS)
        raise ModelError(subject, [f"unknown kind {c.kind!r}; known: {', '.join(KINDS)}{hint}"])
    compliance = c.parameters.get("compliance", 0)
    if not compliance >= 0:
        raise ModelError(subject, [f"compliance {compliance!r} must not be negative"])
    demands = KINDS[c.kind](c)
    for name in c.on:
        if demands[0].on == "frames":
            model.frame(name)
        elif model.joint_types[model.joint_index(name)].nv != 1:
            raise ModelError(subject, [f"joint {name!r} does not have exactly one freedom; name a simple joint"])
    if demands[0].on == "frames" and c.kind != "custom" and len(c.on) != 2:
        raise ModelError(subject, [f"kind {c.kind!r} ties two frames, got {len(c.on)}: {c.on}"])
    return [Prepared(c, demand) for demand in demands]


class Rows:
    """The rows of some demands at one state; each quantity is computed when it is asked for."""

    def __init__(
        self, m: Mechanism, demands: Sequence[Prepared], links: Field, q: Array, v: Array | None, t: Any
    ) -> None:
        """``links`` in motion, and v, are needed for velocity and bias only."""
        self.nv = m.tree.model.nv
        kinds: dict[str, Any] = {"frames": _FrameRows, "joints": _JointRows}
        self._parts = [kinds[c.demand.on](m, c, links, q, v, t) for c in demands]

    def residual(self) -> Array:
        """g of the position rows, (p,)."""
        return np.concatenate([zeros(0), *[p.residual() for p in self._parts if p.demand.level == "position"]])

    def jacobian(self) -> Array:
        """A (m, nv)."""
        return np.concatenate([zeros(0, self.nv), *[p.jacobian() for p in self._parts]])

    def velocity(self) -> Array:
        """A v + gₜ (m,)."""
        return np.concatenate([zeros(0), *[p.velocity() for p in self._parts]])

    def bias(self) -> Array:
        """γ = Ȧ v + time terms (m,)."""
        return np.concatenate([zeros(0), *[p.bias() for p in self._parts]])


class _FrameRows:
    """Rows of a residual of poses, and for velocity rows of twists."""

    def __init__(self, m: Mechanism, c: Prepared, links: Field, q: Array, v: Array | None, t: Any) -> None:
        self.demand, self.t = c.demand, t
        self.tree, self.links = m.tree, links
        self.places = [m.place(name) for name in c.constraint.on]
        self.poses = [kinematics.pose(m.tree, links, place) for place in self.places]

    def residual(self) -> Array:
        return self.demand.residual(self.poses, self.t)

    def jacobian(self) -> Array:
        A = zeros(len(self.demand.rows), self.tree.model.nv)
        for i, place in enumerate(self.places):
            if place.node >= 0:
                G = self._slopes(i) if self.demand.level == "position" else self._coefficients(i)
                A = A + G @ kinematics.jacobian(self.tree, self.links, place)
        return A

    def velocity(self) -> Array:
        if self.demand.level == "velocity":
            return self.demand.residual(self.poses, self._twists(), self.t)
        moved = [_moved(X, V) for X, V in zip(self.poses, self._twists(), strict=True)]
        return slopes(self.demand.residual(moved, Dual(self.t, 1)))

    def bias(self) -> Array:
        twists = self._twists()
        rates = [kinematics.jacobian_bias(self.tree, self.links, place) for place in self.places]
        if self.demand.level == "velocity":
            moved = [_moved(X, V) for X, V in zip(self.poses, twists, strict=True)]
            changing = [duals(V, rate) for V, rate in zip(twists, rates, strict=True)]
            return slopes(self.demand.residual(moved, changing, Dual(self.t, 1)))
        jets = [_jet(X, V, rate) for X, V, rate in zip(self.poses, twists, rates, strict=True)]
        return slopes(slopes(self.demand.residual(jets, _time_jet(self.t))))

    def _twists(self) -> list[Array]:
        return [kinematics.twist(self.tree, self.links, place) for place in self.places]

    def _slopes(self, i: int) -> Array:
        """∂g/∂(twist of frame i), (rows, 6)."""
        columns = []
        for e in identity(6):
            moved = [_moved(X, e) if k == i else _lifted(X) for k, X in enumerate(self.poses)]
            columns.append(slopes(self.demand.residual(moved, Dual(self.t, 0))))
        return np.stack(columns, axis=1)

    def _coefficients(self, i: int) -> Array:
        """∂h/∂(twist of frame i), (rows, 6), of a residual that is linear in the twists."""
        still = [zeros(6) for _ in self.poses]
        drift = self.demand.residual(self.poses, still, self.t)
        columns = []
        for e in identity(6):
            turned = [e if k == i else rest for k, rest in enumerate(still)]
            columns.append(self.demand.residual(self.poses, turned, self.t) - drift)
        return np.stack(columns, axis=1)


class _JointRows:
    """Rows on joint coordinates or rates: A has entries at these joints only."""

    def __init__(self, m: Mechanism, c: Prepared, links: Field, q: Array, v: Array | None, t: Any) -> None:
        self.demand, self.t = c.demand, t
        model = m.tree.model
        self.nv = model.nv
        self.columns = [model.slice(name).start for name in c.constraint.on]
        self.x = [q[model.q_slice(name).start] for name in c.constraint.on]
        self.rates = [v[j] for j in self.columns] if v is not None else []

    def residual(self) -> Array:
        return self.demand.residual(self.x, self.t)

    def jacobian(self) -> Array:
        A = zeros(len(self.demand.rows), self.nv)
        # a velocity row is linear in the rates, so any point will do for its slope
        at = self.x if self.demand.level == "position" else [0] * len(self.x)
        for number, column in enumerate(self.columns):
            moved = [Dual(x, 1 if k == number else 0) for k, x in enumerate(at)]
            A[:, column] = A[:, column] + slopes(self.demand.residual(moved, Dual(self.t, 0)))
        return A

    def velocity(self) -> Array:
        if self.demand.level == "velocity":
            return self.demand.residual(self.rates, self.t)
        moved = [Dual(x, rate) for x, rate in zip(self.x, self.rates, strict=True)]
        return slopes(self.demand.residual(moved, Dual(self.t, 1)))

    def bias(self) -> Array:
        if self.demand.level == "velocity":
            return slopes(self.demand.residual([Dual(rate, 0) for rate in self.rates], Dual(self.t, 1)))
        jets = [Dual(Dual(x, rate), Dual(rate, 0)) for x, rate in zip(self.x, self.rates, strict=True)]
        return slopes(slopes(self.demand.residual(jets, _time_jet(self.t))))


def _moved(X: Pose, V: Array) -> Pose:
    """The pose as dual numbers, moving with the twist V (in its own axes)."""
    return Pose(duals(X.R, X.R @ skew(V[:3])), duals(X.p, X.R @ V[3:]))


def _lifted(X: Pose) -> Pose:
    """The pose as dual numbers, standing still."""
    return Pose(duals(X.R, zeros(3, 3)), duals(X.p, zeros(3)))


def _jet(X: Pose, V: Array, rate: Array) -> Pose:
    """The pose as nested duals: value, velocity (twice) and acceleration along the motion with V̇ = rate."""
    w, u = V[:3], V[3:]
    hat, hat_rate = skew(w), skew(rate[:3])
    R1, p1 = X.R @ hat, X.R @ u
    R2, p2 = X.R @ (hat @ hat + hat_rate), X.R @ (cross(w, u) + rate[3:])
    return Pose(duals(duals(X.R, R1), duals(R1, R2)), duals(duals(X.p, p1), duals(p1, p2)))


def _time_jet(t: Any) -> Dual:
    return Dual(Dual(t, 1), Dual(1, 0))
