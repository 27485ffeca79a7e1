"""Meshes of geometries from their files, and how much of its convex hull such a mesh fills.

What touches is always the hull: a cup is closed, a ring has no hole. Where a file's mesh is visibly less than its hull
a warning says so once. Geometries marked ``convex`` get none, nor do geoms of MJCF: their format says that hulls touch.
:mod:`whippletree.contact.geometry.decomposition` makes several hulls of such a mesh.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, ModelError, list_items, quote, warn_caller
from whippletree.model import Geometry

VISIBLY_LESS = 0.5
"""Share of its hull that a mesh must fill at least, seen from outside, or it is visibly not convex."""

CELLS_ACROSS = 16
"""Cells of the box around a mesh along each side, in which it is seen."""


def file_vertices(geometry: Geometry) -> Array:
    """All vertices (n, 3) of the file that a mesh names, in the geometry's frame, m.

    Raises:
        ModelError: the file is not there, may not be opened or cannot be read.
    """
    return _file_surface(geometry)[0]


def surface_of(geometry: Geometry) -> tuple[Array, Array]:
    """The triangles of a mesh, from its ``vertices`` and ``faces`` or from its file: vertices (n, 3) in the geometry's
    frame, m, no two of them equal, and faces (m, 3) that name them, as the mesh has them.

    Raises:
        ModelError: there are none, or the file cannot be read.
    """
    if "vertices" not in geometry.parameters:
        vertices, faces = _file_surface(geometry)
    else:
        vertices, faces = _given_surface(geometry)
    from whippletree.contact.geometry.mesh_formats import weld_corners

    welded = weld_corners(vertices[faces].reshape(-1, 3))
    return welded.vertices, welded.faces


def _given_surface(geometry: Geometry) -> tuple[Array, Array]:
    where, numbers = f"geometry {geometry.name!r}", geometry.parameters
    if "faces" not in numbers:
        cure = "give it faces (m, 3), triangles as numbers of vertices, or a file"
        raise ModelError(where, [f"vertices alone say nothing of hollows: {cure}"])
    try:
        vertices = np.array(numbers["vertices"], dtype=float)
        faces = np.array(numbers["faces"], dtype=np.int64).reshape(-1, 3)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(where, ["vertices and faces are no tables of numbers, expected (n, 3) and (m, 3)"]) from None
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise ModelError(where, [f"vertices have shape {vertices.shape}, expected (n, 3) finite numbers"])
    if not faces.size or faces.min() < 0 or faces.max() >= len(vertices):
        found = f"numbers from {faces.min()} to {faces.max()}" if faces.size else "none"
        raise ModelError(where, [f"faces name vertices from 0 to {len(vertices) - 1}, got {found}"])
    return vertices, faces


def _file_surface(geometry: Geometry) -> tuple[Array, Array]:
    """Vertices and faces of the file that a mesh names, in the geometry's frame."""
    where, file = f"geometry {geometry.name!r}", geometry.file
    if file is None:
        named = geometry.parameters.get("file")
        outside = f"there is no file {str(named)!r} in the folder of its model; elsewhere path= must name it"
        found = "it names no file" if named is None else outside
        raise ModelError(where, [f"a mesh needs vertices (n, 3) or a mesh file: {found}"])
    try:
        vertices, faces = _read(file, file.stat().st_mtime_ns)
    except FileError as error:
        raise ModelError(where, [f"the mesh file {str(file)!r} cannot be read: {error.faults[0]}"]) from None
    except OSError as error:
        found = f"there is no file {str(file)!r}" if isinstance(error, FileNotFoundError) else str(error)
        raise ModelError(where, [f"a mesh needs vertices (n, 3) or a mesh file: {found}"]) from None
    try:
        scale = np.array(geometry.parameters.get("scale", (1, 1, 1)), dtype=float).reshape(3)
    except (TypeError, ValueError, OverflowError):
        given = quote(geometry.parameters["scale"])
        raise ModelError(where, [f"the scale of a mesh must be three numbers, got {given}"]) from None
    return np.asarray(vertices * scale), faces


@lru_cache(maxsize=16)
def _read(file: Path, _changed: int) -> tuple[Array, Array]:
    """Vertices (n, 3) and faces (m, 3) of a file, as it was when it was last changed."""
    from whippletree.contact.geometry.mesh_formats import read_surfaces  # only models with mesh files pay for it

    surfaces = read_surfaces(file)
    firsts = np.cumsum([0, *[len(surface.vertices) for surface in surfaces]])
    faces = [surface.faces + first for surface, first in zip(surfaces, firsts, strict=False)]
    return np.concatenate([surface.vertices for surface in surfaces]), np.concatenate(faces)


def filled_share(geometry: Geometry) -> float | None:
    """Which share of its convex hull the mesh of a file fills, as it is seen from six sides; None where its hull is
    meant, or it has none.

    A cell of the hull is empty if it is in front of all of the mesh, seen along x, y or z from one side or the other.
    So a cup is empty, and a housing is not, whatever is inside of it and whether or not its surface is closed.
    """
    if geometry.kind != "mesh" or "vertices" in geometry.parameters or geometry.parameters.get("convex"):
        return None
    file = geometry.file
    return None if file is None else _share_of_file(file, file.stat().st_mtime_ns)


_DIRECTIONS = (np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), axis=0).reshape(3, -1)).astype(float)
"""Directions (3, 125) in which the farthest vertices tell a hull well enough to count its cells."""


@lru_cache(maxsize=1024)
def _share_of_file(file: Path, changed: int) -> float | None:
    """Share of its convex hull that the mesh in a file fills: the same at any scale."""
    from scipy.spatial import ConvexHull, QhullError

    vertices, faces = _read(file, changed)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    try:
        planes = ConvexHull(vertices[np.unique(np.argmax(vertices @ _DIRECTIONS, axis=0))]).equations
    except QhullError:
        return None
    cell = (high - low) / CELLS_ACROSS
    steps = (np.arange(CELLS_ACROSS) + 0.5)[:, None] * cell + low
    middles = np.stack(np.meshgrid(*steps.T, indexing="ij"), axis=-1)
    depths = middles.reshape(-1, 3) @ np.ascontiguousarray(planes[:, :3].T) + planes[:, 3]
    inside = (depths <= 0).all(axis=1).reshape(middles.shape[:3])
    held = np.zeros(inside.shape, dtype=bool)
    places, _ = points_on((vertices - low) / cell, faces)
    held[tuple(np.clip(places.astype(int), 0, CELLS_ACROSS - 1).T)] = True
    empty = np.zeros_like(held)
    for axis in range(3):
        for side in (held, np.flip(held, axis)):
            ahead = ~np.logical_or.accumulate(side, axis=axis)
            empty |= ahead if side is held else np.flip(ahead, axis)
    return float(1 - np.mean(empty[inside])) if inside.any() else None


def points_on(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Points (n, 3) on triangles, with steps of at most half a unit along their sides; splinters take few. And for each
    a triangle (n,) that it lies on."""
    corners = vertices[faces]
    sides = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
    # the shortest side first
    turn = (np.argmin(sides, axis=1)[:, None] + np.arange(3)) % 3
    p, q, r = np.moveaxis(np.take_along_axis(corners, turn[:, :, None], axis=1), 1, 0)
    parts = np.ceil(2 * np.stack([np.linalg.norm(q - p, axis=1), np.linalg.norm(r - p, axis=1)], axis=1)).astype(int)
    used = np.unique(faces)
    owner = np.zeros(len(vertices), dtype=int)
    owner[faces] = np.arange(len(faces))[:, None]
    found, owners = [vertices[used]], [owner[used]]
    for n, m in np.unique(parts[parts[:, 1] > 1], axis=0):
        own = (parts == (n, m)).all(axis=1)
        s, t = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1))
        # rows of the triangle, each shorter than the one before
        s, t = ((1 - t) * s).ravel()[:, None], t.ravel()[:, None]
        found.append((p[own][:, None] + (q - p)[own][:, None] * s + (r - p)[own][:, None] * t).reshape(-1, 3))
        owners.append(np.repeat(np.flatnonzero(own), s.size))
    return np.concatenate(found), np.concatenate(owners)


def tell_of_hulls(model: str, geometries: Iterable[Geometry]) -> None:
    """Warn, once, of meshes in contacts that are visibly less than what touches."""
    shares = {geometry.name: filled_share(geometry) for geometry in geometries}
    hollow = [f"{name!r} ({share:.0%})" for name, share in shares.items() if share is not None and share < VISIBLY_LESS]
    if hollow:
        _tell(
            f"model {model!r}: what touches is the convex hull of a mesh, of which the mesh itself fills visibly less: "
            f"{list_items(hollow)}. wt.decompose(model) makes convex pieces of them; or give such a body boxes, "
            f"capsules and cylinders; convex=True for a geometry says that its hull is meant"
        )


@lru_cache(maxsize=256)
def _tell(text: str) -> None:
    """Warn of something once, however often it is found."""
    warn_caller(text, UserWarning)
