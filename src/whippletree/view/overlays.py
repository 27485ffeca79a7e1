"""Overlays drawn over the bodies: joint axes, frames, closures, forces and moments, contact points, the ground.

Forces and moments of constraints are vectors in space. A row g of a constraint with the force f pushes its second frame
with f ∂g/∂p, p the frame's origin in the world, and turns it with f ∂g/∂φ, φ a small rotation: the constraint's own
residual is differentiated, so every kind is served, also one that a user has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.kinds import KINDS
from whippletree.constraints.rows import Prepared, frame_places
from whippletree.contact.kinematics.contact_set import contact_set, contact_set_named
from whippletree.contact.kinematics.large_scenes import Snapshot
from whippletree.functions.reference import Reference
from whippletree.model import WORLD, Constraint, Model
from whippletree.model.input_checks import as_names
from whippletree.spatial import Pose, skew
from whippletree.tree.skeleton import Place, Skeleton, skeleton
from whippletree.view import solids, style
from whippletree.view.camera import against_gravity
from whippletree.view.items import DrawnSizes, Item, Track
from whippletree.view.pose_series import Moves
from whippletree.view.solids import Mesh

if TYPE_CHECKING:
    import xarray


LONGEST_ARROW = 0.25
"""The arrow of the largest force of a run, as a share of the mechanism's size."""

ARROWS = ("constraint forces", "contact forces", "constraint moments")
"""Layers of arrows."""

LEAST_ARROW = 1e-6
"""Forces below this share of the largest are not drawn; nor moments below it with the mechanism's size as an arm."""

NEAR_CONTACT = 2e-3
"""Gap below which shapes count as touching, as a share of the mechanism's size."""

UNSEEN = ("coupling", "gear", "prescribed", "hold", "rolling", "knife_edge")
"""Constraints without a mark of their own: they tie coordinates, or are shown as contact points."""


class Overlay(NamedTuple):
    """Items, and the tracks that some of them ride on."""

    tracks: list[Track]
    items: list[Item]

    def add(self, name: str, poses: Array, mesh: Mesh, color: style.Color, layer: str) -> None:
        """An item with a track of its own."""
        self.items.append(Item(name, mesh, color, layer, len(self.tracks), own=True))
        self.tracks.append(Track(name, poses))


def overlays(model: Model, moves: Moves, sizes: DrawnSizes, run: xarray.Dataset | None) -> Overlay:
    """Everything that a model and its run have to show beside the bodies."""
    found = Overlay([], [])
    _joint_axes(found, model, sizes)
    _frames(found, model, sizes)
    _slides(found, model, moves, sizes)
    for constraint in model.constraints:
        _closure(found, constraint, moves, sizes)
    for name, points in contact_points(model, moves, NEAR_CONTACT * sizes.whole).items():
        if np.isfinite(points).any():
            found.add(name, _shift(points), solids.sphere(1.3 * sizes.rod), style.CONTACT, "contact points")
    if run is not None:
        _force_arrows(found, model, moves, sizes, run)
    return found


def _joint_axes(found: Overlay, model: Model, sizes: DrawnSizes) -> None:
    """A bar along each axis: about it (ring) or along it (arrow), fixed to the child."""
    length, thin = 1.3 * sizes.mark, 0.05 * sizes.mark
    about = solids.join_meshes([solids.cylinder(thin, length), solids.ring(0.3 * sizes.mark, thin)])
    along = solids.arrow(0.05, 0.35).move(np.diag([length, length, length, 1.0]))
    ball = solids.sphere(1.4 * sizes.rod)
    for k, joint in enumerate(model.joints):
        if joint.kind in ("revolute", "helical", "cylindrical", "planar", "universal", "prismatic"):
            turn = solids.pose_matrix(np.zeros(3), solids.rotation_along(joint.axis.astype(float)))
            mesh = along if joint.kind == "prismatic" else about
            found.items.append(Item(joint.name, mesh, style.JOINT, "joint axes", k, turn))
        elif joint.kind in ("spherical", "free"):
            found.items.append(Item(joint.name, ball, style.JOINT, "joint axes", k))


def _frames(found: Overlay, model: Model, sizes: DrawnSizes) -> None:
    """Three arrows at every body and every named frame."""
    places = [(body.name, k, np.eye(4)) for k, body in enumerate(model.bodies)]
    for frame in model.frames:
        k = model.body_index(frame.body)
        places.append((frame.name, k if k >= 0 else len(model.bodies), frame.pose.astype(float)))
    places.append((WORLD, len(model.bodies), np.eye(4)))
    arrow = solids.arrow(0.035, 0.3)
    for name, track, pose in places:
        for axis, color in zip(np.eye(3), style.AXES, strict=True):
            turn = solids.pose_matrix(np.zeros(3), solids.rotation_along(axis) * sizes.mark)
            found.items.append(Item(name, arrow, color, "frames", track, pose @ turn))


def bent_bodies(model: Model, moves: Moves, sizes: DrawnSizes) -> Overlay:
    """Flexible bodies by their outlines, as they are bent: a thin rod along every edge."""
    found = Overlay([], [])
    bar = solids.cylinder(1.0, 1.0).move(solids.pose_matrix(np.array([0, 0, 0.5]), np.eye(3)))
    for k, joint in enumerate(model.joints):
        if joint.kind == "modal" and joint.flexible is not None and joint.flexible.outline_edges:
            points = moves.outline(k)
            for a, b in joint.flexible.outline_edges:
                poses = stretch(points[a], points[b] - points[a], sizes.rod)
                found.add(joint.parent, poses, bar, style.body_color(k), "bodies")
    return found


def _slides(found: Overlay, model: Model, moves: Moves, sizes: DrawnSizes) -> None:
    """A thin rod, or a spring, between a moving joint that slides and the child's origin."""
    drawn = {geometry.body for geometry in model.geometries if geometry.kind != "point"}
    hidden = crossed_slides(model)
    bar = solids.cylinder(1.0, 1.0).move(solids.pose_matrix(np.array([0, 0, 0.5]), np.eye(3)))
    for k, joint in enumerate(model.joints):
        if joint.kind not in ("prismatic", "cylindrical") or joint.parent == WORLD or k in hidden:
            continue
        if drawn & {joint.parent, joint.child}:
            continue
        start, end = moves.joint(k)[:, :3, 3], moves.bodies[k][:, :3, 3]
        mesh, width = (solids.spring(), 2.0 * sizes.rod) if joint.stiffness != 0 else (bar, 0.5 * sizes.rod)
        layer = "massless links" if model.bodies[k].massless else "bodies"
        found.add(joint.name, stretch(start, end - start, width), mesh, style.MASSLESS, layer)


def _closure(found: Overlay, constraint: Constraint, moves: Moves, sizes: DrawnSizes) -> None:
    """A mark where a constraint holds; a thin dashed rod where it keeps a distance."""
    off = constraint.parameters.get("active") is False and not constraint.parameters.get("switchable")
    if off or constraint.kind in UNSEEN or constraint.kind not in KINDS:
        return
    places = [moves.frame(name) for name in constraint.on]
    if constraint.kind == "distance":
        start, end = places[0][:, :3, 3], places[1][:, :3, 3]
        unit = solids.dashed_rod(np.zeros(3), np.array([0.0, 0.0, 1.0]), 1.0)
        poses = stretch(start, end - start, 0.5 * sizes.rod)
        found.add(constraint.name, poses, unit, style.MASSLESS, "massless links")
    else:
        found.add(constraint.name, places[-1], solids.sphere(1.35 * sizes.rod), style.CLOSURE, "closures")


def _force_arrows(found: Overlay, model: Model, moves: Moves, sizes: DrawnSizes, run: xarray.Dataset) -> None:
    """Forces and moments of constraints on their second frames, forces of contacts on their first bodies."""
    wrenches = constraint_wrenches(model, moves, run)
    forces = {("constraint forces", name): (point, wrench[:, 3:]) for name, (point, wrench) in wrenches.items()}
    forces |= {("contact forces", name): f for name, f in contact_forces(model, moves, run).items()}
    moments = {("constraint moments", name): (point, wrench[:, :3]) for name, (point, wrench) in wrenches.items()}
    heaviest = max((_largest(vectors) for _, vectors in forces.values()), default=0.0)
    _arrows(found, forces, solids.arrow(1.0, 0.3), style.FORCE, sizes, LEAST_ARROW * heaviest)
    # a moment that the forces of the run would have on an arm too short to see is rounding
    _arrows(found, moments, solids.arrow(1.0, 0.2, heads=2), style.MOMENT, sizes, LEAST_ARROW * heaviest * sizes.whole)


def _arrows(
    found: Overlay,
    vectors: dict[tuple[str, str], tuple[Array, Array]],
    unit: Mesh,
    color: style.Color,
    sizes: DrawnSizes,
    least: float,
) -> None:
    """Points and vectors, each (T, 3), by layer and name; all on one scale, without those that stay below ``least``."""
    largest = max((_largest(way) for _, way in vectors.values()), default=0.0)
    for (layer, name), (points, way) in vectors.items():
        if _largest(way) > least:
            ways = np.nan_to_num(way) * (LONGEST_ARROW * sizes.whole / largest)
            found.add(name, stretch(points, ways, 0.45 * sizes.rod), unit, color, layer)


def _largest(vectors: Array) -> float:
    return float(np.linalg.norm(np.nan_to_num(vectors), axis=1).max(initial=0.0))


def ground(moves: Moves, sizes: DrawnSizes) -> Overlay:
    """Marks where joints are fixed to the world."""
    found = Overlay([], [])
    size = 2.2 * sizes.rod
    hidden = crossed_slides(moves.model)
    for k, joint in enumerate(moves.model.joints):
        if joint.parent != WORLD or joint.kind in ("free", "planar") or k in hidden:
            continue
        where = moves.joint(k)[:1].copy()
        if joint.kind == "prismatic":
            found.add(joint.name, np.eye(4)[None], _rail(moves, k, sizes), style.GROUND, "ground")
            continue
        where[0, :3, :3] = solids.rotation_along(against_gravity(moves.model))
        below = solids.pose_matrix(np.array([0, 0, -1.2 * size]), np.eye(3))
        foot = solids.box((3 * size, 3 * size, 0.5 * size)).move(below)
        found.add(
            joint.name, where, solids.join_meshes([foot, solids.sphere(1.35 * sizes.rod)]), style.GROUND, "ground"
        )
    return found


def crossed_slides(model: Model) -> set[int]:
    """Slides that stand on each other without mass between them: together they let a body float, and are not seen."""
    found: set[int] = set()
    for k, parent in enumerate(model.parents):
        if parent >= 0 and model.bodies[parent].massless and model.joints[parent].kind == "prismatic":
            found |= {k, parent} if model.joints[k].kind == "prismatic" else set()
    return found


def _rail(moves: Moves, k: int, sizes: DrawnSizes) -> Mesh:
    """A thin bar along a slide, as far as it is used."""
    places = moves.bodies[k][:, :3, 3]
    axis = moves.joint(k)[0, :3, :3] @ moves.model.joints[k].axis.astype(float)
    along = (places - places[0]) @ axis
    margin = 0.12 * sizes.whole
    start, end = places[0] + axis * (along.min() - margin), places[0] + axis * (along.max() + margin)
    return solids.rod(start, end, 0.4 * sizes.rod)


def stretch(start: Array, way: Array, width: float) -> Array:
    """Poses (T, 4, 4) that carry the unit z axis to ``way`` (T, 3) from ``start`` (T, 3), scaled by ``width`` aside.

    What is short is made thinner too, so that a small arrow is still an arrow.
    """
    poses = np.tile(np.eye(4), (len(way), 1, 1))
    poses[:, :3, 3] = start
    lengths = np.linalg.norm(way, axis=1)
    for pose, arrow, length in zip(poses, way, lengths, strict=True):
        if length > 0:
            aside = min(width, 0.12 * length)
            pose[:3, :3] = solids.rotation_along(arrow / length) * np.array([aside, aside, length])
        else:
            pose[:3, :3] = 0.0
    return poses


def _shift(points: Array) -> Array:
    """Poses (T, 4, 4) at points (T, 3); of no size where a point is NaN."""
    there = np.asarray(np.isfinite(points).all(axis=1))
    poses = np.tile(np.eye(4), (len(points), 1, 1))
    poses[:, :3, 3] = np.where(there[:, None], points, 0.0)
    poses[~there, :3, :3] = 0.0
    return poses


# --- forces and moments as vectors in space, and the points where bodies roll or touch --------------------------------


def constraint_wrenches(model: Model, moves: Moves, run: xarray.Dataset) -> dict[str, tuple[Array, Array]]:
    """For every constraint between frames: where it acts, (T, 3), and what it does there to the second frame, (T, 6):
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
    """For every contact: where it acts and its force on the first body, N, each (T, 3), from a run with contacts."""
    if "contact_force" not in run or not model.touches:
        return {}
    # steps have other candidates than events for some pairs of shapes: those that the run has met
    names = getattr(run["contact_force"], "attrs", {}).get("names", ())
    contacts = contact_set_named(model, as_names(names))  # one name may have come back from a file as a text
    if not contacts.closed_form or len(contacts.names) != run["contact_force"].shape[1]:
        return {}
    found = [Snapshot(contacts, q).points for q in np.asarray(moves.q, dtype=float)]
    points, axes = np.array([at.point for at in found]), np.array([at.axes for at in found])
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
