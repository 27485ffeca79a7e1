"""Rows of the constraint equations at one state: residual, Jacobian A, and bias, by differentiating the residuals.

    position level       g(q, t) = 0
    velocity level       A v + gₜ = 0
    acceleration level   A a + γ = 0,   γ = Ȧ v + time terms

Frames are seen from the lowest body that carries all frames of a row, so that a row has columns for the joints of its
own loop only. The rows of A come from moving each frame along unit twists (dual numbers), composed with the frames'
Jacobians; A v + gₜ from one dual number along the motion; γ from one second-order jet along the motion at a = 0. No
Jacobian is written by hand, and nothing is computed that was not asked for. What stands still is lifted to dual numbers
of slope zero beside what moves: the scalars may be dual numbers themselves (derivatives of these rows), and two levels
must not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, duals_along, slopes
from whippletree.constraints.kinds import KINDS
from whippletree.constraints.kinds.constraint_kinds import HERE, relative
from whippletree.constraints.kinds.demand import Demand, kind_fault, select_rows, spelling_faults
from whippletree.constraints.massless_rows import HeldRows, RelaxedRows
from whippletree.errors import ModelError, NameLookupError
from whippletree.model import Constraint, Model
from whippletree.model.constraint_syntax import MANY_FRAMES
from whippletree.spatial import Hinge, Pose, cross, cross_motion, skew
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
        if self.demand.level == "velocity":
            return self.demand.residual(self.poses, self.twists(), self.t)
        if self.demand.of_point:
            r, v, _ = _point_motion(relative(self.poses), self.twists(), [zeros(6)] * 2)
            return slopes(_of_point(self.demand, duals(r, v), Dual(self.t, 1)))
        if self.demand.of_pose:
            X = relative(self.poses)
            V, _ = _pose_motion(X, self.twists(), [zeros(6)] * 2)
            return slopes(_of_pose(self.demand, moved_pose(X, V), Dual(self.t, 1)))
        moved = [moved_pose(X, V) for X, V in zip(self.poses, self.twists(), strict=True)]
        return slopes(self.demand.residual(moved, Dual(self.t, 1)))

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
        return _of_point(self.demand, self._walk(False)[0], self.t)

    def velocity(self) -> Array:
        r, v, _ = self._walk(True)
        return slopes(_of_point(self.demand, duals(r, v), Dual(self.t, 1)))

    def bias(self) -> Array:
        r, v, a = self._walk(True)
        return slopes(slopes(_of_point(self.demand, duals(duals(r, v), duals(v, a)), _time_jet(self.t))))

    def blocks(self) -> dict[int, Array]:
        """The blocks (rows, n) of A that can differ from zero, by node."""
        r, inwards, outwards = self.places[1].pose.p, *self._paths()
        columns: dict[int, Array] = {}
        for k in inwards:
            X, H = self.links[k].X, self.links[k].H
            columns[k] = _point_velocities(H, r)
            columns = {node: X.R @ own for node, own in columns.items()}
            r = X.R @ r + X.p
        for k in outwards:
            X, H = self.links[k].X, self.links[k].H
            r = X.R.T @ (r - X.p)
            columns = {node: X.R.T @ own for node, own in columns.items()}
            columns[k] = -_point_velocities(H, r)
        first = self.places[0].pose
        slope = _point_slopes(self.demand, first.R.T @ (r - first.p), self.t) @ first.R.T
        return {node: slope @ own for node, own in columns.items()}

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


def frame_coefficients(demand: Demand, poses: Sequence[Pose], i: int, t: Any) -> Array:
    """G (rows, 6) with A = Σ Gᵢ Jᵢ: what the twist of frame i, in its axes, adds to the rows at velocity level."""
    if demand.level == "velocity":
        still = [zeros(6) for _ in poses]
        drift = demand.residual(poses, still, t)
        units = [[e if k == i else rest for k, rest in enumerate(still)] for e in identity(6)]
        return np.stack([demand.residual(poses, twists, t) - drift for twists in units], axis=1)
    if demand.of_point:
        return _point_coefficients(demand, relative(poses), i, t)
    if demand.of_pose:
        move, X = (_moved_away, moved_pose)[i], relative(poses)
        if _is_of_floats(X):
            return _six_columns(_of_pose(demand, (_moved_away_every_way, _moved_every_way)[i](X), Dual(t, 0)))
        return np.stack([slopes(_of_pose(demand, move(X, e), Dual(t, 0))) for e in identity(6)], axis=1)
    if _is_of_floats(poses[i]):
        moved = [_moved_every_way(X) if k == i else lifted_pose(X) for k, X in enumerate(poses)]
        return _six_columns(demand.residual(moved, Dual(t, 0)))
    standing, columns = [lifted_pose(X) for X in poses], []
    for e in identity(6):
        moved = [moved_pose(poses[i], e) if k == i else X for k, X in enumerate(standing)]
        columns.append(slopes(demand.residual(moved, Dual(t, 0))))
    return np.stack(columns, axis=1)


def frame_acceleration(
    demand: Demand, poses: Sequence[Pose], twists: Sequence[Array], rates: Sequence[Array], t: Any
) -> Array:
    """The rows at acceleration level (rows,), of frames with these twists and spatial accelerations, (6,) each."""
    if demand.level == "velocity":
        moved = [moved_pose(X, V) for X, V in zip(poses, twists, strict=True)]
        changing = [duals(V, rate) for V, rate in zip(twists, rates, strict=True)]
        return slopes(demand.residual(moved, changing, Dual(t, 1)))
    if demand.of_point:
        r, v, a = _point_motion(relative(poses), twists, rates)
        return slopes(slopes(_of_point(demand, duals(duals(r, v), duals(v, a)), _time_jet(t))))
    if demand.of_pose:
        X = relative(poses)
        return slopes(slopes(_of_pose(demand, _jet(X, *_pose_motion(X, twists, rates)), _time_jet(t))))
    jets = [_jet(X, V, rate) for X, V, rate in zip(poses, twists, rates, strict=True)]
    return slopes(slopes(demand.residual(jets, _time_jet(t))))


# A residual of one point asks for no derivatives of rotations. With X the pose of the second frame in the first, whose
# twists are (w, u) and accelerations (w', u') in their own axes, its origin r moves in the axes of the first as
#     r' = R u2 - u1 - w1 x r        r'' = R (u2' + w2 x u2) - (u1' + w1 x u1) - w1' x r - w1 x (w1 x r) - 2 w1 x r'


def _point_motion(X: Pose, twists: Sequence[Array], rates: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The second origin in the axes of the first frame (3,), its velocity there and its acceleration."""
    (w1, u1), (w2, u2) = ((V[:3], V[3:]) for V in twists)
    rate1, rate2 = rates
    v = X.R @ u2 - u1 - cross(w1, X.p)
    turned = cross(w1, u1 + cross(w1, X.p) + 2 * v) + rate1[3:] + cross(rate1[:3], X.p)
    return X.p, v, X.R @ (rate2[3:] + cross(w2, u2)) - turned


def _point_coefficients(demand: Demand, X: Pose, i: int, t: Any) -> Array:
    """G (rows, 6) of frame i: the slopes of the residual along the point, times what a twist does to the point."""
    slope = _point_slopes(demand, X.p, t)
    G = zeros(len(demand.rows), 6)
    if i == 0:
        G[:, :3], G[:, 3:] = slope @ skew(X.p), -slope
    else:
        G[:, 3:] = slope @ X.R
    return G


def _point_slopes(demand: Demand, r: Array, t: Any) -> Array:
    """How the residual (rows,) answers to the point, (rows, 3)."""
    return np.stack([slopes(_of_point(demand, duals(r, e), Dual(t, 0))) for e in identity(3)], axis=1)


def _of_point(demand: Demand, r: Array, t: Any) -> Array:
    """The residual of a second origin at r."""
    return demand.residual((HERE, Pose(identity(3), r)), t)


# Nor does a residual of one pose ask for those of two: with X as before, the second frame has against the first, in its
# own axes, the twist V2 - X* V1, which changes by V2' - X* V1' + V2 x X* V1


def _pose_motion(X: Pose, twists: Sequence[Array], rates: Sequence[Array]) -> tuple[Array, Array]:
    """The twist (6,) of the second frame against the first, in its axes, and its rate."""
    carried = X.motion(twists[0])
    return twists[1] - carried, rates[1] - X.motion(rates[0]) + cross_motion(twists[1], carried)


def _moved_away(X: Pose, V: Array) -> Pose:
    """The pose of a frame as dual numbers, seen from a frame that moves with the twist V (in its own axes)."""
    w, u = V[:3], V[3:]
    return Pose(duals(X.R, -(skew(w) @ X.R)), duals(X.p, -u - cross(w, X.p)))


def _of_pose(demand: Demand, X: Pose, t: Any) -> Array:
    """The residual of a second frame at X in the first."""
    return demand.residual((HERE, X), t)


UNIT_TURNS = np.array([skew(e[:3]) for e in identity(6)]).astype(float)
"""ω × of the six unit twists, (6, 3, 3)."""

UNIT_SHIFTS = np.eye(6)[:, 3:]


def _is_of_floats(X: Pose) -> bool:
    return all(type(x) is float for x in (*X.R.flat, *X.p))


# on floats slopes are arrays of all six directions, so that a residual is asked once


def _moved_every_way(X: Pose) -> Pose:
    """The pose of a frame as dual numbers with the six unit twists of :func:`moved_pose` for slopes; floats only."""
    R = X.R.astype(float)
    turned = np.moveaxis(R @ UNIT_TURNS, 0, -1)
    return Pose(duals_along(X.R, turned), duals_along(X.p, (UNIT_SHIFTS @ R.T).T))


def _moved_away_every_way(X: Pose) -> Pose:
    """The pose of a frame seen from one that moves, with the six unit twists of :func:`_moved_away` for slopes."""
    R, p = X.R.astype(float), X.p.astype(float)
    turned = np.moveaxis(-(UNIT_TURNS @ R), 0, -1)
    return Pose(duals_along(X.R, turned), duals_along(X.p, (-(UNIT_TURNS @ p) - UNIT_SHIFTS).T))


def _six_columns(residual: Array) -> Array:
    """The slopes (rows, 6) of a residual of poses that move every way; 0 where it feels no motion."""
    return np.stack([np.zeros(6) + x for x in slopes(residual)]).astype(object)


class JointRows:
    """Rows on joint coordinates x and their rates."""

    def __init__(self, demand: Demand, x: Sequence[Any], rates: Sequence[Any], t: Any) -> None:
        self.demand, self.x, self.rates, self.t = demand, x, rates, t

    def residual(self) -> Array:
        return self.demand.residual(self.x, self.t)

    def velocity(self) -> Array:
        if self.demand.level == "velocity":
            return self.demand.residual(self.rates, self.t)
        moved = [Dual(x, rate) for x, rate in zip(self.x, self.rates, strict=True)]
        return slopes(self.demand.residual(moved, Dual(self.t, 1)))

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


def joint_coefficients(demand: Demand, x: Sequence[Any], i: int, t: Any) -> Array:
    """The column (rows,) of A that belongs to joint i of a demand on joints at the coordinates x."""
    # a velocity row is linear in the rates, so any point will do for its slope
    at = x if demand.level == "position" else [0] * len(x)
    moved = [Dual(own, 1 if k == i else 0) for k, own in enumerate(at)]
    return slopes(demand.residual(moved, Dual(t, 0)))


def joint_acceleration(demand: Demand, x: Sequence[Any], rates: Sequence[Any], changes: Sequence[Any], t: Any) -> Array:
    """The rows at acceleration level (rows,), of joints with these coordinates, rates and accelerations."""
    if demand.level == "velocity":
        moving = [Dual(rate, change) for rate, change in zip(rates, changes, strict=True)]
        return slopes(demand.residual(moving, Dual(t, 1)))
    jets = [Dual(Dual(p, v), Dual(v, a)) for p, v, a in zip(x, rates, changes, strict=True)]
    return slopes(slopes(demand.residual(jets, _time_jet(t))))


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


def moved_pose(X: Pose, V: Array) -> Pose:
    """The pose as dual numbers, moving with the twist V (in its own axes)."""
    return Pose(duals(X.R, X.R @ skew(V[:3])), duals(X.p, X.R @ V[3:]))


def lifted_pose(X: Pose) -> Pose:
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
