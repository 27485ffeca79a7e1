"""The shapes of a model as meshes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import WORLD, Geometry, Model
from whippletree.view import solids
from whippletree.view.drawn_meshes import MeshPiece, creased, read_mesh, simplified
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
    return geometry.kind == "sphere" and offset > float(geometry.parameters["radius"])


def pieces(geometry: Geometry, sizes: DrawnSizes, triangles: int) -> list[MeshPiece] | None:
    """The meshes of a shape in its own axes, with the colours that a file gives; None if it cannot be drawn."""
    from scipy.spatial import QhullError

    try:
        with np.errstate(all="ignore"):
            found = _pieces(geometry, sizes, triangles)
    # the numbers of a shape are checked where it touches; one that only looks wrong is no reason to refuse a picture
    except (LookupError, TypeError, ValueError, OverflowError, QhullError):
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
            return [MeshPiece(solids.sphere(1.0).moved(scale), None)]
        case "half_space":
            # solid below z = 0 of its own axes
            slab = solids.box((2 * sizes.whole, 2 * sizes.whole, sizes.rod))
            return [MeshPiece(slab.moved(solids.placed(np.array([0, 0, -sizes.rod / 2]), np.eye(3))), GROUND)]
        case "cavity":
            # three circles, so that what is inside stays in sight
            hoop = solids.ring(float(numbers["radius"]), sizes.rod / 2, segments=64)
            turns = [np.eye(3), np.eye(3)[[1, 2, 0]], np.eye(3)[[2, 0, 1]]]
            hoops = [hoop.moved(solids.placed(np.zeros(3), turn)) for turn in turns]
            return [MeshPiece(solids.joined(hoops), GROUND)]
        case "terrain":
            return [MeshPiece(_terrain(numbers["height"], sizes), GROUND)]
        case "height_field" if "heights" in numbers:
            return [MeshPiece(_height_field(numbers["heights"], numbers["cell"]), GROUND)]
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
    few = simplified([piece.mesh for piece in found], triangles)
    return [
        MeshPiece(creased(mesh).moved(scale), piece.color)
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
