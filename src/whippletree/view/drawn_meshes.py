"""Meshes from files, made fit for pictures.

A file that cannot be read is no reason to refuse a picture: :func:`read_mesh` answers with None, and the body is drawn
as a stick figure. Textures are not read; Collada's plain colours are.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from whippletree.contact.geometry.meshes.mesh_formats import read_surfaces
from whippletree.contact.geometry.meshes.surface import group_equal_rows, has_three_corners
from whippletree.errors import FileError
from whippletree.view.solids import Mesh
from whippletree.view.style import Color


class Piece(NamedTuple):
    """A part of a mesh file with one colour; None where the file says nothing of it."""

    mesh: Mesh
    color: Color | None


@lru_cache(maxsize=256)
def read_mesh(path: Path) -> tuple[Piece, ...] | None:
    """The pieces of a mesh file, in its own units (Collada: m); None for a file that cannot be read."""
    try:
        surfaces = read_surfaces(path)
    except (FileError, OSError):
        return None
    return tuple(Piece(Mesh(surface.vertices, surface.faces), surface.color) for surface in surfaces)


def simplified(mesh: Mesh, limit: int) -> Mesh:
    """At most ``limit`` triangles: vertices that share a cell of a grid become one, at their mean.

    The grid is made coarser until the triangles are few enough; a mesh that is small already stays as it is.
    """
    extent = float(np.ptp(mesh.vertices, axis=0).max())
    cells, found = 128.0, mesh
    while len(found.faces) > limit and cells > 1:
        grid = np.floor((mesh.vertices - mesh.vertices.min(axis=0)) * (cells / extent))
        owner, count = group_equal_rows(grid)
        sums = np.stack([np.bincount(owner, x, count) for x in mesh.vertices.T], axis=1)
        faces = owner[mesh.faces]
        proper = has_three_corners(faces)
        if not proper.any():
            break  # smaller than a cell
        found = Mesh(sums / np.bincount(owner)[:, None], faces[proper])
        cells *= 0.8
    return found


def creased(mesh: Mesh, angle: float = 0.7) -> Mesh:
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
