"""How the residual of a demand changes as its frames or joints move: slopes, velocities and accelerations.

The slopes come from moving each frame along unit twists (dual numbers), velocities from one dual number along the
motion, accelerations from one second-order jet. No Jacobian is written by hand. What stands still is lifted to dual
numbers of slope zero beside what moves: the scalars may be dual numbers themselves (derivatives of these rows), and two
levels must not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, duals_along, slopes
from whippletree.constraints.kinds.constraint_kinds import HERE, relative
from whippletree.constraints.kinds.demand import Demand
from whippletree.spatial import Pose, cross, cross_motion, skew


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


def frame_velocity(demand: Demand, poses: Sequence[Pose], twists: Sequence[Array], t: Any) -> Array:
    """The rows at velocity level (rows,), of frames with these twists (6,)."""
    if demand.level == "velocity":
        return demand.residual(poses, twists, t)
    if demand.of_point:
        r, v, _ = _point_motion(relative(poses), twists, [zeros(6)] * 2)
        return point_velocity(demand, r, v, t)
    if demand.of_pose:
        X = relative(poses)
        V, _ = _pose_motion(X, twists, [zeros(6)] * 2)
        return slopes(_of_pose(demand, moved_pose(X, V), Dual(t, 1)))
    moved = [moved_pose(X, V) for X, V in zip(poses, twists, strict=True)]
    return slopes(demand.residual(moved, Dual(t, 1)))


def frame_acceleration(
    demand: Demand, poses: Sequence[Pose], twists: Sequence[Array], rates: Sequence[Array], t: Any
) -> Array:
    """The rows at acceleration level (rows,), of frames with these twists and spatial accelerations, (6,) each."""
    if demand.level == "velocity":
        moved = [moved_pose(X, V) for X, V in zip(poses, twists, strict=True)]
        changing = [duals(V, rate) for V, rate in zip(twists, rates, strict=True)]
        return slopes(demand.residual(moved, changing, Dual(t, 1)))
    if demand.of_point:
        return point_acceleration(demand, *_point_motion(relative(poses), twists, rates), t)
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
    slope = point_slopes(demand, X.p, t)
    G = zeros(len(demand.rows), 6)
    if i == 0:
        G[:, :3], G[:, 3:] = slope @ skew(X.p), -slope
    else:
        G[:, 3:] = slope @ X.R
    return G


def point_slopes(demand: Demand, r: Array, t: Any) -> Array:
    """How the residual (rows,) answers to the point, (rows, 3)."""
    return np.stack([slopes(residual_of_point(demand, duals(r, e), Dual(t, 0))) for e in identity(3)], axis=1)


def point_velocity(demand: Demand, r: Array, v: Array, t: Any) -> Array:
    """The rows at velocity level (rows,), of a second origin at r that moves with v."""
    return slopes(residual_of_point(demand, duals(r, v), Dual(t, 1)))


def point_acceleration(demand: Demand, r: Array, v: Array, a: Array, t: Any) -> Array:
    """The rows at acceleration level (rows,), of a second origin at r with the velocity v and the acceleration a."""
    return slopes(slopes(residual_of_point(demand, duals(duals(r, v), duals(v, a)), _time_jet(t))))


def residual_of_point(demand: Demand, r: Array, t: Any) -> Array:
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


def joint_coefficients(demand: Demand, x: Sequence[Any], i: int, t: Any) -> Array:
    """The column (rows,) of A that belongs to joint i of a demand on joints at the coordinates x."""
    # a velocity row is linear in the rates, so any point will do for its slope
    at = x if demand.level == "position" else [0] * len(x)
    moved = [Dual(own, 1 if k == i else 0) for k, own in enumerate(at)]
    return slopes(demand.residual(moved, Dual(t, 0)))


def joint_velocity(demand: Demand, x: Sequence[Any], rates: Sequence[Any], t: Any) -> Array:
    """The rows at velocity level (rows,), of joints with these coordinates and rates."""
    if demand.level == "velocity":
        return demand.residual(rates, t)
    moved = [Dual(own, rate) for own, rate in zip(x, rates, strict=True)]
    return slopes(demand.residual(moved, Dual(t, 1)))


def joint_acceleration(demand: Demand, x: Sequence[Any], rates: Sequence[Any], changes: Sequence[Any], t: Any) -> Array:
    """The rows at acceleration level (rows,), of joints with these coordinates, rates and accelerations."""
    if demand.level == "velocity":
        moving = [Dual(rate, change) for rate, change in zip(rates, changes, strict=True)]
        return slopes(demand.residual(moving, Dual(t, 1)))
    jets = [Dual(Dual(p, v), Dual(v, a)) for p, v, a in zip(x, rates, changes, strict=True)]
    return slopes(slopes(demand.residual(jets, _time_jet(t))))


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
