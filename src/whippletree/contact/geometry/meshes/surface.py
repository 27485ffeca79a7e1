"""Triangles as a mesh file gives them, and the sets of equal corners among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array


class Surface(NamedTuple):
    """A part of a mesh file: triangles, counter-clockwise seen from outside, with one colour."""

    vertices: Array
    """m, (n, 3)"""
    faces: Array
    """Indices of vertices, (m, 3)."""
    color: tuple[float, float, float] | None = None
    """Red, green, blue; None where the file says nothing of it."""

    def moved(self, pose: Array) -> Surface:
        """Carried by a (4, 4) matrix, which may also scale, or mirror."""
        outside = self.faces if np.linalg.det(pose[:3, :3]) >= 0 else self.faces[:, ::-1]
        return Surface(self.vertices @ pose[:3, :3].T + pose[:3, 3], outside, self.color)


def weld_corners(corners: Array) -> Surface:
    """Triangles (3 m, 3) whose equal corners become one vertex; triangles without area in that sense are left out."""
    owner, count = group_equal_rows(corners)
    vertices = np.empty((count, 3))
    vertices[owner] = corners
    faces = owner.reshape(-1, 3)
    return Surface(vertices, faces[has_three_corners(faces)])


def group_equal_rows(rows: Array) -> tuple[Array, int]:
    """For every row (n, m) the number of its group of equal rows, and how many groups there are.

    (``np.unique`` over an axis does the same, ten times slower.)
    """
    order = np.lexsort(rows.T)
    new = np.concatenate([[True], (rows[order][1:] != rows[order][:-1]).any(axis=1)])[: len(rows)]
    owner = np.empty(len(rows), dtype=int)
    owner[order] = np.cumsum(new) - 1
    return owner, int(new.sum())


def has_three_corners(faces: Array) -> Array:
    """Which triangles (m, 3) have three different corners."""
    a, b, c = faces.T
    return np.asarray((a != b) & (b != c) & (c != a))
