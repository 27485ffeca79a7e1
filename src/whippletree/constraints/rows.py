"""Rows of the constraint equations at one state: residual, Jacobian A, and bias, by differentiating the residuals.

    position level       g(q, t) = 0
    velocity level       A v + gₜ = 0
    acceleration level   A a + γ = 0,   γ = Ȧ v + time terms

Frames are seen from the lowest body that carries all frames of a row, so that a row has columns for the joints of its
own loop only. The rows of A are slopes of the residuals (:mod:`~whippletree.constraints.moving_residuals`), composed
with the frames' Jacobians. Nothing is computed that was not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.kinds import KINDS
from whippletree.constraints.kinds.demand import Demand, kind_fault, select_rows, spelling_faults
from whippletree.constraints.massless_rows import HeldRows, RelaxedRows
from whippletree.constraints.moving_residuals import (
    frame_acceleration,
    frame_coefficients,
    frame_velocity,
    joint_acceleration,
    joint_coefficients,
    joint_velocity,
    point_acceleration,
    point_slopes,
    point_velocity,
    residual_of_point,
)
from whippletree.errors import ModelError, NameLookupError
from whippletree.model import Constraint, Model
from whippletree.model.constraint_syntax import MANY_FRAMES
from whippletree.spatial import Hinge, Pose, cross
from whippletree.tree import kinematics
from whippletree.tree.kinematics import Branching
from whippletree.tree.links import Link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field


@dataclass(frozen=True)
class Prepared:
    """A demand of a constraint whose names have been looked up."""

    constraint: Constraint
    demand: Demand
    others: tuple[Prepared, ...] = ()
    """Of a massless motion: all demands that its own equation does not make."""

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
            prepared += _prepare(model, constraint)
        except ModelError as error:
            faults += [f"{error.subject}: {fault}" for fault in error.faults]
        except NameLookupError as error:
            faults.append(f"constraint {constraint.name!r}: {error}")
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return tuple(prepared)


def _prepare(model: Model, c: Constraint) -> list[Prepared]:
    subject = f"constraint {c.name!r}"
    if c.kind not in KINDS:
        raise ModelError(subject, [kind_fault(c)])
    faults = spelling_faults(c)
    if faults:
        raise ModelError(subject, faults)
    compliance = c.parameters.get("compliance", 0)
    if not compliance >= 0:
        raise ModelError(subject, [f"compliance {compliance!r} must not be negative"])
    demands = select_rows(c, KINDS[c.kind](c))
    for name in c.on:
        if demands[0].on == "frames":
            model.frame(name)
        elif demands[0].on == "joints" and model.joint_types[model.joint_index(name)].nv != 1:
            raise ModelError(subject, [f"joint {name!r} does not have exactly one freedom; name a simple joint"])
        if c.kind == "hold" and "component" in c.parameters:
            freedoms = model.joint_types[model.joint_index(name)].nv
            if c.parameters["component"] not in range(freedoms):
                raise ModelError(subject, [f"component {c.parameters['component']!r}: joint {name!r} has {freedoms}"])
    if demands[0].on == "frames" and c.kind not in MANY_FRAMES and len(c.on) != 2:
        raise ModelError(subject, [f"kind {c.kind!r} ties two frames, got {len(c.on)}: {c.on}"])
    return [Prepared(c, demand) for demand in demands]


class Rows:
    """The rows of some demands at one state; each quantity is computed when it is asked for."""

    def __init__(
        self, m: Mechanism, demands: Sequence[Prepared], links: Field, q: Array, v: Array | None, t: Any
    ) -> None:
        """``links`` in motion, and v, are needed for velocity and bias only."""
        self.tree = m.tree
        self.nv = m.tree.model.nv
        kinds: dict[str, Any] = {"frames": _frame_rows, "joints": _joint_rows, "massless": _massless_rows}
        self.parts = [kinds[c.demand.on](m, c, links, q, v, t) for c in demands]
        """The rows of each demand."""

    def residual(self) -> Array:
        """g of the position rows, (p,)."""
        return np.concatenate([zeros(0), *[p.residual() for p in self.parts if p.demand.level == "position"]])

    def jacobian(self) -> Array:
        """A (m, nv); entries of joints that a row does not feel are exact zeros."""
        return np.concatenate([zeros(0, self.nv), *[self._matrix(p) for p in self.parts]])

    def sizes(self) -> Array:
        """Size of each row of A if nothing in it cancelled (m,). Numbers only."""
        return np.concatenate([zeros(0), *[p.sizes() for p in self.parts]])

    def velocity(self) -> Array:
        """A v + gₜ (m,)."""
        return np.concatenate([zeros(0), *[p.velocity() for p in self.parts]])

    def bias(self) -> Array:
        """γ = Ȧ v + time terms (m,)."""
        return np.concatenate([zeros(0), *[p.bias() for p in self.parts]])

    def relaxation(self, tau: Array) -> Array:
        """The change of velocity (nv,) at which the dampers of massless motions balance the joint forces τ."""
        damped = [p for p in self.parts if isinstance(p, RelaxedRows) and p.damped]
        return sum((p.relaxation(tau) for p in damped), start=zeros(self.nv))

    def _matrix(self, part: TreeFrameRows | TreeJointRows | RelaxedRows | HeldRows) -> Array:
        """The rows of A that one demand makes, (rows, nv)."""
        if isinstance(part, RelaxedRows):
            return part.jacobian()
        A = zeros(len(part.demand.rows), self.nv)
        for node, block in part.blocks().items():
            A[:, self.tree.v_slices[node]] = block
        return A


class FrameRows:
    """Rows of a residual of poses, and for velocity rows of twists, whoever knows the frames' motion."""

    def __init__(self, demand: Demand, poses: Sequence[Pose], t: Any) -> None:
        self.demand, self.poses, self.t = demand, poses, t

    def residual(self) -> Array:
        return self.demand.residual(self.poses, self.t)

    def coefficients(self, i: int) -> Array:
        """G (rows, 6) of frame i: what its twist, in its axes, adds to the rows; Gᵀ f is the wrench that they apply."""
        return frame_coefficients(self.demand, self.poses, i, self.t)

    def velocity(self) -> Array:
        return frame_velocity(self.demand, self.poses, self.twists(), self.t)

    def bias(self) -> Array:
        return frame_acceleration(self.demand, self.poses, self.twists(), self.rates(), self.t)

    def twists(self) -> list[Array]:
        """Twists of the frames, in their axes, (6,) each."""
        raise NotImplementedError

    def rates(self) -> list[Array]:
        """Spatial accelerations of the frames at θ̈ = 0, (6,) each."""
        raise NotImplementedError


class TreeFrameRows(FrameRows):
    """Rows on frames whose links are at hand, seen from the lowest node that carries all of them.

    Joints above that node move all frames alike, so they are no part of the rows: not by cancellation, but because
    they never enter. Only a residual that looks at the world is seen from there.
    """

    def __init__(self, demand: Demand, tree: Branching, links: Field, places: Sequence[Place], t: Any) -> None:
        self.tree, self.links, self.places = tree, links, places
        self.base = -1 if demand.in_world else tree.meeting([place.node for place in places])
        super().__init__(demand, [kinematics.pose(tree, links, place, self.base) for place in places], t)

    def blocks(self) -> dict[int, Array]:
        """The blocks (rows, n) of A that can differ from zero, by node."""
        blocks: dict[int, Array] = {}
        for G, J in self._products:
            for node, columns in J.items():
                blocks[node] = blocks[node] + G @ columns if node in blocks else G @ columns
        return blocks

    def sizes(self) -> Array:
        """Size of each row: Σ |G| |J|, the largest entry."""
        totals: dict[int, Array] = {}
        for G, J in self._products:
            for node, columns in J.items():
                totals[node] = totals.get(node, 0) + np.abs(G) @ np.abs(columns)
        entries = np.concatenate([zeros(len(self.demand.rows), 1), *totals.values()], axis=1)
        return np.asarray(entries.max(axis=1))

    @cached_property
    def _products(self) -> list[tuple[Array, dict[int, Array]]]:
        """G (rows, 6) of every frame that can move, and the blocks of its J: A is the sum of their products."""
        return [
            (self.coefficients(i), kinematics.jacobian_blocks(self.tree, self.links, place, self.base))
            for i, place in enumerate(self.places)
            if place.node != self.base
        ]

    def twists(self) -> list[Array]:
        return [kinematics.twist(self.tree, self.links, place, self.base) for place in self.places]

    def rates(self) -> list[Array]:
        return [kinematics.jacobian_bias(self.tree, self.links, place, self.base) for place in self.places]


class PointRows(TreeFrameRows):
    """Rows on one point, the origin of the second frame, which is followed from frame to frame into the first.

    A joint with the pose (R, p), twist (w, u) and the accelerations (w', u') at θ̈ = 0 takes a point x of its node to
    R x + p of its parent, and back; with the velocity and the acceleration that the point has against each,

        inwards    R (x' + w × x + u)        R (x'' + 2 w × x' + w × (w × x) + w' × x + u' + w × u)

    So nobody asks for rotations between frames that are far apart, nor for their derivatives.
    """

    def residual(self) -> Array:
        return residual_of_point(self.demand, self._walk(False)[0], self.t)

    def velocity(self) -> Array:
        r, v, _ = self._walk(True)
        return point_velocity(self.demand, r, v, self.t)

    def bias(self) -> Array:
        return point_acceleration(self.demand, *self._walk(True), self.t)

    def blocks(self) -> dict[int, Array]:
        """The blocks (rows, n) of A that can differ from zero, by node."""
        r, inwards, outwards = self.places[1].pose.p, *self._paths()
        points: dict[int, Array] = {}
        for k in inwards:
            X = self.links[k].X
            points[k], r = r, X.R @ r + X.p
        for k in outwards:
            X = self.links[k].X
            points[k] = r = X.R.T @ (r - X.p)
        first = self.places[0].pose
        slope = point_slopes(self.demand, first.R.T @ (r - first.p), self.t) @ first.R.T
        # back along the path with the slopes: columns of all joints, turned from node to node, would take n² of them
        blocks: dict[int, Array] = {}
        for k in reversed(outwards):
            blocks[k] = -(slope @ _point_velocities(self.links[k].H, points[k]))
            slope = slope @ self.links[k].X.R.T
        for k in reversed(inwards):
            slope = slope @ self.links[k].X.R
            blocks[k] = slope @ _point_velocities(self.links[k].H, points[k])
        return blocks

    def _paths(self) -> tuple[list[int], list[int]]:
        """The nodes from the second frame to the base, and from there to the first one."""
        first, second = self.places
        return self.tree.path(second.node, self.base), self.tree.path(first.node, self.base)[::-1]

    def _walk(self, moving: bool) -> tuple[Array, Array, Array]:
        """The point in the axes of the first frame, its velocity there and its acceleration at θ̈ = 0, (3,) each."""
        r, v, a = self.places[1].pose.p, zeros(3), zeros(3)
        inwards, outwards = self._paths()
        for k in inwards:
            X = self.links[k].X
            if moving:
                v, a = _carried_along(self.links[k], r, v, a)
            r, v, a = X.R @ r + X.p, X.R @ v, X.R @ a
        for k in outwards:
            X = self.links[k].X
            r, v, a = X.R.T @ (r - X.p), X.R.T @ v, X.R.T @ a
            if moving:
                v, a = _left_behind(self.links[k], r, v, a)
        first = self.places[0].pose
        return first.R.T @ (r - first.p), first.R.T @ v, first.R.T @ a


def _point_velocities(H: Array, r: Array) -> Array:
    """The velocity (3, n) of a point at r with each column of a subspace (6, n)."""
    found = zeros(3, H.shape[1])
    for i, h in enumerate(H.T):
        found[:, i] = h[3:] + cross(h[:3], r)
    return found


def _carried_along(link: Link, r: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """Velocity and acceleration against the parent, in the axes of a node, of a point that has v and a against it."""
    w, u = link.slip[:3], link.slip[3:]
    along = u + cross(w, r)
    return v + along, a + cross(w, 2 * v + along) + link.drift[3:] + cross(link.drift[:3], r)


def _left_behind(link: Link, r: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """The inverse of :func:`_carried_along`."""
    w, u = link.slip[:3], link.slip[3:]
    along = u + cross(w, r)
    own = v - along
    return own, a - cross(w, 2 * own + along) - link.drift[3:] - cross(link.drift[:3], r)


def tree_frame_rows(demand: Demand, tree: Branching, links: Field, places: Sequence[Place], t: Any) -> TreeFrameRows:
    """Rows on frames, by the way that suits them. Bodies that bend have no joints that a point could go along."""
    if demand.of_point:
        rows = PointRows(demand, tree, links, places, t)
        inwards, outwards = rows._paths()
        if all(isinstance(links[k].X, Pose | Hinge) for k in (*inwards, *outwards)):
            return rows
    return TreeFrameRows(demand, tree, links, places, t)


def _frame_rows(m: Mechanism, c: Prepared, links: Field, q: Array, v: Array | None, t: Any) -> TreeFrameRows:
    return tree_frame_rows(c.demand, m.tree, links, frame_places(m.tree, c), t)


def frame_places(tree: Skeleton, c: Prepared) -> tuple[Place, ...]:
    """Where the poses are that a demand on frames takes; none for a demand on joints."""
    return tree.places(c.constraint.on, carried=c.demand.carried) if c.demand.on == "frames" else ()


class JointRows:
    """Rows on joint coordinates x and their rates."""

    def __init__(self, demand: Demand, x: Sequence[Any], rates: Sequence[Any], t: Any) -> None:
        self.demand, self.x, self.rates, self.t = demand, x, rates, t

    def residual(self) -> Array:
        return self.demand.residual(self.x, self.t)

    def velocity(self) -> Array:
        return joint_velocity(self.demand, self.x, self.rates, self.t)

    def bias(self) -> Array:
        return joint_acceleration(self.demand, self.x, self.rates, [0] * len(self.x), self.t)


class TreeJointRows(JointRows):
    """Rows on the coordinates of joints of one freedom each, with A, which has entries at these joints only."""

    def __init__(self, demand: Demand, nodes: Sequence[int], x: Sequence[Any], rates: Sequence[Any], t: Any) -> None:
        self.nodes = nodes
        super().__init__(demand, x, rates, t)

    def blocks(self) -> dict[int, Array]:
        """The blocks (rows, 1) of A, by node."""
        blocks: dict[int, Array] = {}
        for i, node in enumerate(self.nodes):
            column = joint_coefficients(self.demand, self.x, i, self.t).reshape(-1, 1)
            blocks[node] = blocks[node] + column if node in blocks else column
        return blocks

    def sizes(self) -> Array:
        return np.asarray(np.abs(np.concatenate(list(self.blocks().values()), axis=1)).max(axis=1, initial=0))


def _joint_rows(m: Mechanism, c: Prepared, links: Field, q: Array, v: Array | None, t: Any) -> TreeJointRows:
    model = m.tree.model
    x = [q[model.q_slice(name).start] for name in c.constraint.on]
    rates = [v[model.slice(name).start] for name in c.constraint.on] if v is not None else []
    return TreeJointRows(c.demand, tied_nodes(m.tree, c), x, rates, t)


def tied_nodes(tree: Skeleton, c: Prepared) -> list[int]:
    """The nodes of the joints that a demand names; none if it is about frames, or about motions of the whole."""
    if c.demand.on != "joints" and c.constraint.kind != "hold":
        return []
    return [tree.bodies[tree.model.joints[tree.model.joint_index(name)].child].node for name in c.constraint.on]


def _massless_rows(
    m: Mechanism, c: Prepared, links: Field, q: Array, v: Array | None, t: Any
) -> RelaxedRows | HeldRows:
    """Rows of massless motions that are held, or relaxed as the other constraints allow."""
    if c.constraint.kind == "hold":
        (node,), component = tied_nodes(m.tree, c), c.constraint.parameters["component"]
        rate = None if v is None else v[m.tree.v_slices[node]][component]
        return HeldRows(c.demand, node, m.tree.nodes[node].joint.nv, component, rate)

    def others(m: Mechanism, links: Field, q: Array, t: Any) -> Array:
        return Rows(m, c.others, links, q, None, t).jacobian()

    return RelaxedRows(m, c, others, links, q, v, t)


def without_rows(model: Model, *rows: str) -> Model:
    """The model without some rows of its constraints.

    For rows that rounded data made all but redundant and that nobody meant: ``wt.diagnose(model).faint`` names them
    with their angle to the others. Whether they were meant is the user's decision, so it takes names::

        model = wt.without_rows(model, *wt.diagnose(model).faint)

    Args:
        model: any model with constraints.
        rows: names as ``constraint_set(model).row_names`` and ``wt.diagnose`` give them: ``"loop.x"``.

    Returns:
        A model whose constraints have the parameter ``without``; a constraint that loses all its rows is gone.

    Raises:
        NameLookupError: if there is no such row.
    """
    prepared = prepare(model)
    known = [name for c in prepared for name in c.row_names]
    for name in rows:
        if name not in known:
            raise NameLookupError("row", name, known, where=f"model {model.name!r}")
    kept = []
    for constraint in model.constraints:
        own = [row for c in prepared if c.constraint is constraint for row in c.demand.rows]
        lost = [row for row in own if f"{constraint.name}.{row}" in rows]
        if not lost:
            kept.append(constraint)
        elif len(lost) < len(own):
            before = tuple(constraint.parameters.get("without", ()))
            kept.append(replace(constraint, parameters={**constraint.parameters, "without": (*before, *lost)}))
    return replace(model, constraints=tuple(kept))
