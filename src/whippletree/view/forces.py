"""Constraint forces and moments as vectors in space, and the points where bodies roll or touch.

A row g of a constraint with the force f pushes its second frame with f ∂g/∂p, p the frame's origin in the world, and
turns it with f ∂g/∂φ, φ a small rotation: the constraint's own residual is differentiated, so every kind is served,
also one that a user has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import Dual, duals, slopes
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.rows import Prepared, frame_places
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.functions.reference import Reference
from whippletree.model import Constraint, Model
from whippletree.spatial import Pose, skew
from whippletree.tree.skeleton import Place, Skeleton, skeleton
from whippletree.view.pose_series import Moves

if TYPE_CHECKING:
    import xarray


def constraint_wrenches(model: Model, moves: Moves, run: xarray.Dataset) -> dict[str, tuple[Array, Array]]:
    """Of every constraint between frames: where it acts, (T, 3), and what it does there to the second frame, (T, 6):
    its moment, N m, and its force, N, in world axes.
    """
    if "constraint_forces" not in run:
        return {}
    rows = constraint_set(model)
    values = np.asarray(run["constraint_forces"], dtype=float)
    found: dict[str, tuple[Array, Array]] = {}
    start = 0
    for part in rows.demands:
        own = values[:, start : start + len(part.demand.rows)]
        start += len(part.demand.rows)
        if part.demand.on != "frames" or len(part.constraint.on) < 2:
            continue
        name, point = part.constraint.name, _acts_at(part.constraint, moves)
        wrench = _on_last_frame(part, moves, own)
        arm = moves.frame(part.constraint.on[-1])[:, :3, 3] - point
        wrench[:, :3] += np.cross(arm, wrench[:, 3:])
        if name in found:  # a second demand of the same constraint: rolling has slip rows and a height row
            wrench += found[name][1]
        found[name] = (point, wrench)
    return found


def _on_last_frame(part: Prepared, moves: Moves, values: Array) -> Array:
    """(∂g/∂φ)ᵀ f and (∂g/∂p)ᵀ f at every moment, (T, 6)."""
    tree = skeleton(moves.model)
    places = [_poses(moves, tree, place) for place in frame_places(tree, part)]
    wrenches = np.zeros((len(values), 6))
    for i, f in enumerate(values):
        if not np.any(f):
            continue  # a redundant row, or one that is off
        poses = [Pose.from_matrix(place[i]) for place in places]
        slope = _position_slopes if part.demand.level == "position" else _velocity_slopes
        wrenches[i] = f @ slope(part, poses, float(moves.times[i]))
    return wrenches


def _poses(moves: Moves, tree: Skeleton, place: Place) -> Array:
    """Poses of a place on a moving part, in the world, (T, 4, 4)."""
    body, own = next((name, own.pose) for name, own in tree.bodies.items() if own.node == place.node)
    return np.asarray(moves.body(body) @ (own.inverse() @ place.pose).matrix().astype(float))


def _position_slopes(part: Prepared, poses: Sequence[Pose], t: float) -> Array:
    """∂g/∂φ and ∂g/∂p of the last frame, (rows, 6)."""
    still = [Pose(duals(X.R, zeros(3, 3)), duals(X.p, zeros(3))) for X in poses]
    R, p = poses[-1].R, poses[-1].p
    columns = []
    for twist in np.eye(6, dtype=int).astype(object):
        moved = Pose(duals(R, skew(twist[:3]) @ R), duals(p, twist[3:]))
        columns.append(slopes(part.demand.residual([*still[:-1], moved], Dual(t, 0))))
    return np.stack(columns, axis=1).astype(float)


def _velocity_slopes(part: Prepared, poses: Sequence[Pose], t: float) -> Array:
    """∂h/∂ω and ∂h/∂ṗ of the last frame, (rows, 6); h is linear in the twists, which are in the frame's own axes."""
    still = [zeros(6) for _ in poses]
    drift = part.demand.residual(poses, still, t)
    to_own = poses[-1].R.T
    columns = []
    for twist in np.eye(6, dtype=int).astype(object):
        own = vector(*(to_own @ twist[:3]), *(to_own @ twist[3:]))
        columns.append(part.demand.residual(poses, [*still[:-1], own], t) - drift)
    return np.stack(columns, axis=1).astype(float)


def contact_points(model: Model, moves: Moves, near: float) -> dict[str, Array]:
    """Where bodies touch, roll, or slide on a blade: points in the world, (T, 3), by name; NaN while apart.

    Pairs of shapes without a closed form, which need another package, are left out.

    Args:
        model: its contacts, and its constraints of kind ``rolling`` and ``knife_edge``.
        moves: the motion.
        near: gap below which two shapes count as touching, m.
    """
    found = {c.name: _acts_at(c, moves) for c in model.constraints if c.kind in ("rolling", "knife_edge")}
    contacts = contact_set(model) if model.touches else None
    if contacts is not None and contacts.closed_form:
        plain = Reference(model)
        gaps, points = plain.contact_gaps(moves.q), plain.contact_points(moves.q)
        points = np.where(gaps[..., None] < near, points, np.nan)
        found |= {name: points[:, k] for k, name in enumerate(contacts.names)}
    return found


def contact_forces(model: Model, moves: Moves, run: xarray.Dataset) -> dict[str, tuple[Array, Array]]:
    """Of every contact: where it acts and its force on the first body, N, each (T, 3), from a run with contacts."""
    contacts = contact_set(model) if model.touches else None
    if "contact_force" not in run or contacts is None or not contacts.closed_form:
        return {}
    plain = Reference(model)
    points, axes = plain.contact_points(moves.q), plain.contact_axes(moves.q)
    forces = np.einsum("tci,tcij->tcj", np.asarray(run["contact_force"], dtype=float), axes)
    return {name: (points[:, k], forces[:, k]) for k, name in enumerate(contacts.names)}


def _acts_at(constraint: Constraint, moves: Moves) -> Array:
    """The last frame's origin; below it, on the plane, for what rolls."""
    place = moves.frame(constraint.on[-1])
    points = place[:, :3, 3]
    if constraint.kind != "rolling":
        return np.asarray(points)
    numbers = constraint.parameters
    normal = moves.frame(constraint.on[0])[:, :3, :3] @ _unit(numbers.get("normal", (0, 0, 1)))
    down = -normal
    if numbers.get("axis") is not None:
        # a disc touches where its rim is lowest
        spin = place[:, :3, :3] @ _unit(numbers["axis"])
        down = spin * (spin * normal).sum(axis=1, keepdims=True) - normal
        down /= np.linalg.norm(down, axis=1, keepdims=True)
    return np.asarray(points + float(numbers["radius"]) * down)


def _unit(direction: Any) -> Array:
    array = np.array([float(x) for x in direction])
    return np.asarray(array / np.linalg.norm(array))
