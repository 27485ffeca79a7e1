"""Stick figures: what a body looks like when nobody has drawn it, from its joints, its frames and its inertia.

The *ports* of a body are the points where something is attached: its own joint, its children's joints, its frames, and
the points and balls on which it touches others. Two ports make a rod, three or more in a plane make a plate. Where
there is one port only, the inertia tells: how far a rod with this inertia reaches, or which disc, box or ball it is.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import Body, Model
from whippletree.view import solids, style
from whippletree.view.items import DrawnSizes, Item
from whippletree.view.pose_series import Moves
from whippletree.view.solids import Mesh

SAME_POINT = 1e-6
"""Share of a mechanism's size below which two ports count as one point."""

ROD = 0.045
"""Radius of rods over the typical distance of ports."""

SLIDING = ("prismatic", "cylindrical", "planar", "free")
"""Joints whose child's origin leaves the joint: there the child gets a block of its own."""


def ports(model: Model) -> list[Array]:
    """For every body, the points where something is attached, in its own axes, (n, 3): its own joint first.

    Where there is nothing else, or the mass is elsewhere, the far end of its mass.
    """
    found: list[list[Array]] = [[np.zeros(3)] for _ in model.bodies]
    for joint, parent in zip(model.joints, model.parents, strict=True):
        if parent >= 0:
            found[parent].append(joint.pose[:3, 3].astype(float))
    places = [(frame.body, frame.pose) for frame in model.frames]
    places += [(g.body, g.pose) for g in model.geometries if g.kind in ("point", "sphere")]
    for body_name, pose in places:
        k = model.body_index(body_name)
        if k >= 0:
            found[k].append(pose[:3, 3].astype(float))
    points = [_distinct(np.array(own)) for own in found]
    for k, body in enumerate(model.bodies):
        end = None if model.joints[k].flexible is not None else far_end(body)
        if end is not None and (len(points[k]) == 1 or _aside(body.center.astype(float), points[k])):
            points[k] = np.concatenate([points[k], [end]])
    return points


def _aside(center: Array, points: Array) -> bool:
    """Whether a centre of mass is so far from the rods between ports that they do not show where the body is."""
    ends = points[1:]
    share = np.clip(ends @ center / (ends * ends).sum(axis=1), 0, 1)
    gaps = np.linalg.norm(center - share[:, None] * ends, axis=1)
    return bool(gaps.min() > 0.5 * np.linalg.norm(ends, axis=1).max())


def _distinct(points: Array) -> Array:
    """The points in their order, without those that are where another is."""
    scale = float(np.abs(points).max())
    kept: list[Array] = []
    for point in points:
        if all(np.linalg.norm(point - other) > SAME_POINT * scale for other in kept):
            kept.append(point)
    return np.array(kept)


def sizes_of(points: list[Array], moves: Moves) -> DrawnSizes:
    """The mechanism's size over its motion, and a thickness of rods that suits its links."""
    where = [np.zeros((1, 3))]
    for own, poses in zip(points, moves.bodies, strict=True):
        where.append((own @ poses[:, :3, :3].transpose(0, 2, 1) + poses[:, None, :3, 3]).reshape(-1, 3))
    whole = float(np.linalg.norm(np.ptp(np.concatenate(where), axis=0))) or 1.0
    lengths = np.array([np.linalg.norm(end) for own in points for end in own[1:]])
    proper = lengths[lengths > SAME_POINT * whole]
    typical = float(np.median(proper)) if len(proper) else whole / 4
    rod = float(np.clip(ROD * typical, 0.003 * whole, 0.014 * whole))
    fleshy = any(geometry.kind == "mesh" for geometry in moves.model.geometries)
    return DrawnSizes(whole, rod, 0.1 * whole if fleshy else 7 * rod)


def far_end(body: Body) -> Array | None:
    """Where a uniform rod from the joint through the centre of mass, of this inertia, would end; None at the joint."""
    center = body.center.astype(float)
    distance = float(np.linalg.norm(center))
    if distance == 0:
        return None
    along = center / distance
    return center + along * half_extent(body, along)


def half_extent(body: Body, direction: Array) -> float:
    """Half the length, along a principal direction d, of the uniform box of this inertia: √(3 (tr I − 2 I_d) / 2m)."""
    mass, inertia = float(body.mass), body.inertia.astype(float)
    square = 0.0 if mass == 0 else 1.5 * (np.trace(inertia) - 2 * direction @ inertia @ direction) / mass
    return float(np.sqrt(max(square, 0.0)))


def stick_figure(model: Model, points: Array, k: int, sizes: DrawnSizes, *, sparse: bool = False) -> list[Item]:
    """The items of body k with these ports.

    ``sparse``, for robots drawn by meshes, draws only rods between two ports of bodies that move: a body that nobody
    has drawn is there often only a frame. A massless body without extent is nothing to see.
    """
    body = model.bodies[k]
    bent = model.joints[k].flexible
    if bent is not None and bent.outline_edges:
        return []  # drawn bent, by its outline
    if (sparse and (model.joints[k].kind == "weld" or len(points) != 2)) or (body.massless and len(points) == 1):
        return []
    color = style.MASSLESS if body.massless else style.body_color(k)
    if len(points) > 1:
        parts = [(_outline(points, sizes, massless=body.massless), color)]
        if not body.massless and not np.any(body.inertia != 0):
            at_center = solids.pose_matrix(body.center.astype(float), np.eye(3))
            parts.append((solids.sphere(2.4 * sizes.rod).move(at_center), color))  # a point mass
    else:
        parts = _blob(body, sizes, color, sliding=model.joints[k].kind in SLIDING)
    return [Item(body.name, mesh, tint, "bodies", k) for mesh, tint in parts]


def _outline(points: Array, sizes: DrawnSizes, *, massless: bool) -> Mesh:
    """Rods between the ports, or a plate where they span a plane."""
    draw, radius = (solids.dashed_rod, 0.5 * sizes.rod) if massless else (solids.rod, sizes.rod)
    corners = convex_outline(points) if len(points) > 2 else None
    if corners is None:
        return solids.join_meshes([draw(points[0], point, radius) for point in points[1:]])
    edges = [draw(a, b, radius) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    return solids.join_meshes([*edges, solids.plate(corners, 0.4 * radius)])


def convex_outline(points: Array) -> Array | None:
    """The corners (n, 3) of the convex polygon of points in one plane; None if they lie on a line, or in no plane."""
    center = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - center)
    if spread[1] <= 1e-3 * spread[0] or spread[2] > 1e-3 * spread[0]:
        return None
    flat = (points - center) @ axes[:2].T
    from scipy.spatial import ConvexHull

    return np.asarray(points[ConvexHull(flat).vertices])


def _blob(body: Body, sizes: DrawnSizes, color: style.Color, *, sliding: bool) -> list[tuple[Mesh, style.Color]]:
    """A body with nothing attached, by its inertia: a ball, a block or a disc, with colours."""
    pose = solids.pose_matrix(body.center.astype(float), np.eye(3))
    moments, axes = np.linalg.eigh(body.inertia.astype(float))
    if moments[2] <= 0:
        side = 5 * sizes.rod
        solid = solids.box((side * 1.5, side, side)) if sliding else solids.sphere(2.4 * sizes.rod)
        return [(solid.move(pose), color)]
    pose[:3, :3] = axes if np.linalg.det(axes) > 0 else -axes
    # a disc has one large moment and two equal ones of half its size
    if moments[2] > 1.5 * moments[1] and moments[1] < 1.01 * moments[0]:
        radius = float(np.sqrt(2 * moments[2] / float(body.mass)))
        thick = max(2 * half_extent(body, axes[:, 2]), 0.06 * radius)
        # a bar across it, so that one sees it turn
        bar = solids.box((0.86 * radius, 0.12 * radius, 1.6 * thick))
        aside = solids.pose_matrix(np.array([0.45 * radius, 0, 0]), np.eye(3))
        return [
            (solids.cylinder(radius, thick, 64).move(pose), color),
            (bar.move(pose @ aside), style.fade_colour(color, 0.7)),
        ]
    edges = [max(2 * half_extent(body, axes[:, i]), sizes.rod) for i in range(3)]
    return [(solids.box(edges).move(pose), color)]
