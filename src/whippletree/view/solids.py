"""Triangle meshes of simple solids. Vertices are doubled at sharp edges, so that smooth shading looks right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array

SEGMENTS = 24
"""Around a circle."""


class Mesh(NamedTuple):
    """Triangles, counter-clockwise seen from outside."""

    vertices: Array
    """m, (n, 3)"""
    faces: Array
    """Indices of vertices, (m, 3)."""

    def move(self, pose: Array) -> Mesh:
        """Carried by a (4, 4) matrix, which may also scale, or mirror."""
        outside = self.faces if np.linalg.det(pose[:3, :3]) >= 0 else self.faces[:, ::-1]
        return Mesh(self.vertices @ pose[:3, :3].T + pose[:3, 3], outside)


def join_meshes(parts: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    starts = np.cumsum([0, *[len(part.vertices) for part in parts]])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return Mesh(np.concatenate([part.vertices for part in parts]), np.concatenate(faces))


def box(size: Sequence[float]) -> Mesh:
    """Edges along the axes, centred; ``size`` are full lengths."""
    faces: list[list[int]] = []
    vertices: list[Array] = []
    for axis in range(3):
        u, w = (axis + 1) % 3, (axis + 2) % 3
        for sign in (-1, 1):
            start = len(vertices)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                corner = np.zeros(3)
                corner[axis], corner[u], corner[w] = sign, a, b
                vertices.append(corner / 2 * np.asarray(size, dtype=float))
            quad = [[0, 1, 2], [0, 2, 3]] if sign > 0 else [[0, 2, 1], [0, 3, 2]]
            faces += [[start + i for i in triangle] for triangle in quad]
    return Mesh(np.array(vertices), np.array(faces))


def sphere(radius: float) -> Mesh:
    """Centred."""
    return revolve([(radius * np.sin(t), -radius * np.cos(t)) for t in np.linspace(0, np.pi, SEGMENTS // 2 + 1)])


def cylinder(radius: float, length: float, segments: int = SEGMENTS) -> Mesh:
    """Along z, centred."""
    h = length / 2
    parts = [(0, -h), (radius, -h)], [(radius, -h), (radius, h)], [(radius, h), (0, h)]
    return join_meshes([revolve(part, segments) for part in parts])


def capsule(radius: float, length: float) -> Mesh:
    """A cylinder along z with round ends beyond its length, centred."""
    turns = np.linspace(0, np.pi / 2, SEGMENTS // 4 + 1)
    low = [(radius * np.sin(t), -length / 2 - radius * np.cos(t)) for t in turns]
    high = [(radius * np.cos(t), length / 2 + radius * np.sin(t)) for t in turns]
    return revolve([*low, *high])


def ring(radius: float, thickness: float, segments: int = SEGMENTS) -> Mesh:
    """A torus about z."""
    turns = np.linspace(0, 2 * np.pi, 13)
    return revolve([(radius + thickness * np.cos(t), thickness * np.sin(t)) for t in turns], segments)


def arrow(radius: float, head: float, heads: int = 1) -> Mesh:
    """From the origin to (0, 0, 1): a shaft and heads of length ``head``, three times as thick as the shaft."""
    profile = [(0.0, 0.0), (radius, 0.0), (radius, 1 - head)]
    for k in range(heads, 0, -1):
        profile += [(3 * radius, 1 - k * head), (0.0, 1 - (k - 1) * head)]
    return join_meshes([revolve(profile[i : i + 2]) for i in range(len(profile) - 1)])


def spring(turns: int = 8, wire: float = 0.22) -> Mesh:
    """A coil of radius 1 about z from height 0 to 1; ``wire`` is the half thickness aside."""
    steps = np.linspace(0, 1, 12 * turns + 1)
    angles = 2 * np.pi * turns * steps
    parts = []
    square = [(1, -1), (1, 1), (-1, 1), (-1, -1)]  # the section of the wire: four strips
    for (x0, z0), (x1, z1) in zip(square, square[1:] + square[:1], strict=True):
        edges = []
        for x, z in ((x0, z0), (x1, z1)):
            r, rise = 1 + wire * x, wire * z / (2 * turns)
            edges.append(np.stack([r * np.cos(angles), r * np.sin(angles), steps + rise], axis=1))
        j = 2 * np.arange(len(steps) - 1)
        faces = np.concatenate([np.stack([j, j + 2, j + 3], axis=1), np.stack([j, j + 3, j + 1], axis=1)])
        parts.append(Mesh(np.stack(edges, axis=1).reshape(-1, 3), faces))
    return join_meshes(parts)


def plate(corners: Array, thickness: float) -> Mesh:
    """A convex polygon (n, 3), as a slab of that thickness."""
    n = len(corners)
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    normal = normal / np.linalg.norm(normal) * thickness / 2
    fan = np.array([[0, i, i + 1] for i in range(1, n - 1)])
    return join_meshes([Mesh(corners + normal, fan), Mesh(corners - normal, fan[:, ::-1])])


def hull(points: Array) -> Mesh:
    """The convex hull of points (n, 3)."""
    from scipy.spatial import ConvexHull

    found = ConvexHull(points)
    corners = points[found.simplices]
    # scipy does not order the corners: turn those that look inwards
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = (normals * found.equations[:, :3]).sum(axis=1) < 0
    corners[inwards] = corners[inwards][:, ::-1]
    return Mesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))


def rod(start: Array, end: Array, radius: float) -> Mesh:
    """A round bar with round ends from one point to another; a ball where they are the same."""
    length = float(np.linalg.norm(end - start))
    if length == 0:
        return sphere(radius).move(pose_matrix((start + end) / 2, np.eye(3)))
    return capsule(radius, length).move(pose_matrix((start + end) / 2, rotation_along((end - start) / length)))


def dashed_rod(start: Array, end: Array, radius: float, dashes: int = 9) -> Mesh:
    """The line as a row of dashes."""
    length = float(np.linalg.norm(end - start))
    if length == 0:
        return rod(start, end, radius)
    along = rotation_along((end - start) / length)
    middles = (np.arange(dashes) + 0.5) / dashes
    dash = cylinder(radius, 0.62 * length / dashes)
    return join_meshes([dash.move(pose_matrix(start + (end - start) * m, along)) for m in middles])


def revolve(profile: Sequence[tuple[float, float]], segments: int = SEGMENTS) -> Mesh:
    """The surface of a profile of (radius, height) about z; outside is on the right of the way along the profile."""
    points = np.array(profile, dtype=float)
    turns = 2 * np.pi * np.arange(segments + 1) / segments
    rings = [np.stack([r * np.cos(turns), r * np.sin(turns), np.full_like(turns, z)], axis=1) for r, z in points]
    faces = []
    for i in range(len(points) - 1):
        low, high = i * (segments + 1), (i + 1) * (segments + 1)
        for j in range(segments):
            if points[i, 0] > 0:
                faces.append([low + j, low + j + 1, high + j + 1 if points[i + 1, 0] > 0 else high + j])
            if points[i + 1, 0] > 0:
                faces.append([low + j, high + j + 1, high + j])
    return Mesh(np.concatenate(rings), np.array(faces))


def pose_matrix(position: Array, rotation: Array) -> Array:
    """A (4, 4) pose of floats."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


def rotation_along(direction: Array) -> Array:
    """A rotation (3, 3) whose third column is the unit direction."""
    aside = np.eye(3)[int(np.argmin(np.abs(direction)))]
    x = np.cross(aside, direction)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(direction, x), direction], axis=1)
