"""The shapes of a model as meshes, those from files made fit for pictures.

A file that cannot be read is no reason to refuse a picture: :func:`read_mesh` answers with None, and the body is drawn
as a stick figure. Textures are not read; Collada's plain colours are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.mesh_files import surface_of
from whippletree.contact.geometry.mesh_formats import group_equal_rows, has_three_corners, read_surfaces
from whippletree.errors import FileError, ModelError
from whippletree.model import WORLD, Geometry, Model
from whippletree.view import solids
from whippletree.view.items import DrawnSizes
from whippletree.view.solids import Mesh
from whippletree.view.style import GROUND, Color


def visible(model: Model) -> list[Geometry]:
    """The shapes of bodies to draw: those meant to be seen; where a body has none, those that it collides with.

    In a robot drawn by meshes what its author left undrawn stays so: safety boxes, and hulls around a hand. A point has
    no shape.
    """
    shaped = [g for g in model.geometries if g.body != WORLD and g.kind != "point"]
    seen = {g.body for g in shaped if g.visible}
    drawn = any(g.visible and g.kind == "mesh" for g in shaped)
    return [g for g in shaped if g.visible or not (drawn or g.body in seen)]


def is_end(geometry: Geometry) -> bool:
    """Whether a shape is only the ball at the end of something, beyond the body's own joint."""
    offset = float(np.linalg.norm(geometry.pose[:3, 3].astype(float)))
    try:
        return geometry.kind == "sphere" and offset > float(geometry.parameters["radius"])
    except (LookupError, TypeError, ValueError):
        return False  # a ball without a radius cannot be drawn, which is told where it is tried


def pieces(geometry: Geometry, sizes: DrawnSizes, triangles: int) -> list[MeshPiece] | None:
    """The meshes of a shape in its own axes, with the colours that a file gives; None if it cannot be drawn."""
    from scipy.spatial import QhullError

    try:
        with np.errstate(all="ignore"):
            found = _pieces(geometry, sizes, triangles)
    # the numbers of a shape are checked where it touches; one that only looks wrong is no reason to refuse a picture
    except (LookupError, TypeError, ValueError, OverflowError, QhullError, ModelError):
        return None
    return found if found and all(np.isfinite(piece.mesh.vertices).all() for piece in found) else None


def _pieces(geometry: Geometry, sizes: DrawnSizes, triangles: int) -> list[MeshPiece] | None:
    numbers = geometry.parameters
    match geometry.kind:
        case "box":
            return [MeshPiece(solids.box([float(x) for x in numbers["size"]]), None)]
        case "sphere":
            return [MeshPiece(solids.sphere(float(numbers["radius"])), None)]
        case "cylinder":
            return [MeshPiece(solids.cylinder(float(numbers["radius"]), float(numbers["length"])), None)]
        case "capsule":
            return [MeshPiece(solids.capsule(float(numbers["radius"]), float(numbers["length"])), None)]
        case "ellipsoid":
            scale = np.diag([*(float(x) for x in numbers["radii"]), 1.0])
            return [MeshPiece(solids.sphere(1.0).move(scale), None)]
        case "half_space":
            # solid below z = 0 of its own axes
            slab = solids.box((2 * sizes.whole, 2 * sizes.whole, sizes.rod))
            return [MeshPiece(slab.move(solids.pose_matrix(np.array([0, 0, -sizes.rod / 2]), np.eye(3))), GROUND)]
        case "cavity":
            # three circles, so that what is inside stays in sight
            hoop = solids.ring(float(numbers["radius"]), sizes.rod / 2, segments=64)
            turns = [np.eye(3), np.eye(3)[[1, 2, 0]], np.eye(3)[[2, 0, 1]]]
            hoops = [hoop.move(solids.pose_matrix(np.zeros(3), turn)) for turn in turns]
            return [MeshPiece(solids.join_meshes(hoops), GROUND)]
        case "terrain":
            return [MeshPiece(_terrain(numbers["height"], sizes), GROUND)]
        case "height_field" if "heights" in numbers:
            return [MeshPiece(_height_field(numbers["heights"], numbers["cell"]), GROUND)]
        case "mesh" if "faces" in numbers:
            vertices, faces = surface_of(geometry)
            return [MeshPiece(crease(Mesh(vertices, faces)), None)]
        case "mesh" if "vertices" in numbers:
            return [MeshPiece(solids.hull(np.asarray(numbers["vertices"], dtype=float)), None)]
        case "mesh":
            return _from_file(geometry, triangles)
        case _:
            return None


def _from_file(geometry: Geometry, triangles: int) -> list[MeshPiece] | None:
    found = None if geometry.file is None else read_mesh(geometry.file)
    if found is None:
        return None
    scale = np.diag([*(float(x) for x in geometry.parameters.get("scale", (1, 1, 1))), 1.0])
    few = simplify([piece.mesh for piece in found], triangles)
    return [
        MeshPiece(crease(mesh).move(scale), piece.color)
        for mesh, piece in zip(few, found, strict=True)
        if len(mesh.faces)
    ]


def _terrain(height: Callable[[Any, Any], Any], sizes: DrawnSizes, cells: int = 60) -> Mesh:
    """The surface z = height(x, y) around the origin."""
    along = np.linspace(-sizes.whole, sizes.whole, cells + 1)
    return _surface(along, along, np.array([[float(height(x, y)) for y in along] for x in along]))


def _height_field(given: Any, cell: Any) -> Mesh:
    """The surface through the heights of a grid, straight between them."""
    heights = np.asarray(given, dtype=float)
    x, y = ((np.arange(n) - (n - 1) / 2) * float(d) for n, d in zip(heights.shape, cell, strict=True))
    return _surface(x, y, heights)


def _surface(x: Array, y: Array, heights: Array) -> Mesh:
    """Triangles over a grid x (n,), y (m,) with heights (n, m)."""
    across, along = np.meshgrid(x, y)
    vertices = np.stack([across, along, heights.T], axis=2).reshape(-1, 3)
    n, m = len(x), len(y)
    i = (np.arange(m - 1)[:, None] * n + np.arange(n - 1)).reshape(-1)
    over = i + n
    return Mesh(vertices, np.concatenate([np.stack([i, i + 1, over + 1], 1), np.stack([i, over + 1, over], 1)]))


def color_of(given: Any, otherwise: Color) -> Color:
    """The colour of a shape's parameters, red, green, blue and perhaps opacity, or another."""
    if given is None:
        return otherwise
    r, g, b = (float(x) for x in np.clip(np.asarray(given, dtype=float)[:3], 0, 1))
    return (r, g, b)


# --- meshes from files, made fit for pictures -------------------------------------------------------------------------


FINEST = 128.0
"""Cells along the longest side of a mesh that is simplified, to begin with."""


class MeshPiece(NamedTuple):
    """A part of a mesh file with one colour; None where the file says nothing of it."""

    mesh: Mesh
    color: Color | None


@lru_cache(maxsize=256)
def read_mesh(path: Path) -> tuple[MeshPiece, ...] | None:
    """The pieces of a mesh file, in its own units (Collada: m); None for a file that cannot be read."""
    try:
        surfaces = read_surfaces(path)
    except (FileError, OSError):
        return None
    return tuple(MeshPiece(Mesh(surface.vertices, surface.faces), surface.color) for surface in surfaces)


def simplify(meshes: Sequence[Mesh], limit: int) -> list[Mesh]:
    """Parts of one surface with at most ``limit`` triangles together: vertices that share a cell of a grid become one,
    at their mean.

    One grid serves all parts, and vertices at which parts meet become one with each other only, so that the parts
    still meet there: no gaps open between them, and a layer close above another does not merge with it. The grid is
    made coarser until the triangles are few enough; a surface that is small already stays as it is. A part smaller than
    a cell has no triangles left.
    """
    found = list(meshes)
    if not sum(len(mesh.faces) for mesh in meshes):
        return found
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    starts = np.cumsum([0, *[len(mesh.vertices) for mesh in meshes]])
    extent, owners = float(np.ptp(vertices, axis=0).max()), _owners(vertices, starts)
    cells = FINEST
    while sum(len(mesh.faces) for mesh in found) > limit and cells > 1:
        grid = np.floor((vertices - vertices.min(axis=0)) * (cells / extent))
        owner, count = group_equal_rows(np.column_stack([grid, owners]))
        sums = np.stack([np.bincount(owner, x, count) for x in vertices.T], axis=1)
        places = sums / np.bincount(owner)[:, None]
        coarser = [
            _without_duplicates(Mesh(places, owner[start + mesh.faces]))
            for mesh, start in zip(meshes, starts[:-1], strict=True)
        ]
        if not any(len(mesh.faces) for mesh in coarser):
            break  # all of it is smaller than a cell
        found = coarser
        cells *= 0.8
    return found


def _owners(vertices: Array, starts: Array) -> Array:
    """A number for each vertex (n,), equal for those that belong to the same parts: one part, or several that meet."""
    place, count = group_equal_rows(vertices)
    part = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    belongs = np.zeros((count, len(starts) - 1), dtype=bool)
    belongs[place, part] = True
    kind, _ = group_equal_rows(belongs)
    return np.asarray(kind[place])


def _without_duplicates(mesh: Mesh) -> Mesh:
    """The triangles that still have three corners, each once for each side, and the vertices that they use."""
    faces = mesh.faces[has_three_corners(mesh.faces)]
    turned = (np.argmin(faces, axis=1)[:, None] + np.arange(3)) % 3  # the lowest corner first
    _, first = np.unique(np.take_along_axis(faces, turned, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(first)]
    used, renumbered = np.unique(faces, return_inverse=True)
    return Mesh(mesh.vertices[used], renumbered.reshape(-1, 3))


def crease(mesh: Mesh, angle: float = 0.7) -> Mesh:
    """Vertices doubled along edges where faces meet at more than ``angle`` (rad), so that smooth shading stops there.

    Corners of triangles are tied together across every smooth edge; each connected group becomes one vertex.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    faces, count = mesh.faces, len(mesh.faces)
    a, b, c = (mesh.vertices[faces[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)
    # each edge of each triangle as (low vertex, high vertex), with the corners of the triangle that lie there
    ends = np.concatenate([faces[:, [i, (i + 1) % 3]] for i in range(3)])
    first = 3 * np.arange(count)
    corners = np.concatenate([np.stack([first + i, first + (i + 1) % 3], axis=1) for i in range(3)])
    flip = ends[:, 0] > ends[:, 1]
    ends[flip], corners[flip] = ends[flip][:, ::-1], corners[flip][:, ::-1]
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, corners = ends[order], corners[order]
    same = (ends[1:] == ends[:-1]).all(axis=1)
    one, other = corners[:-1][same], corners[1:][same]
    smooth = (normals[one[:, 0] // 3] * normals[other[:, 0] // 3]).sum(axis=1) > np.cos(angle)
    rows, columns = one[smooth].reshape(-1), other[smooth].reshape(-1)
    ties = coo_array((np.ones(len(rows)), (rows, columns)), shape=(3 * count, 3 * count))
    groups, label = connected_components(ties, directed=False)
    vertices = np.empty((groups, 3))
    vertices[label] = mesh.vertices[faces.reshape(-1)]
    return Mesh(vertices, label.reshape(-1, 3))
