"""Meshes of solids that are known exactly: cells of a grid that are filled, and profiles that are turned about z."""

import itertools

import numpy as np


def cell_mesh(filled, lines):
    """The closed mesh around the filled cells (n, m, k) of a grid with such lines along x, y and z: vertices, faces."""
    filled = np.pad(np.asarray(filled, dtype=bool), 1)
    lines = [np.asarray(line, dtype=float) for line in lines]
    corners = []
    for axis in range(3):
        u, w = (axis + 1) % 3, (axis + 2) % 3
        for sign in (-1, 1):
            border = filled & ~np.roll(filled, -sign, axis=axis)
            for cell in np.argwhere(border):
                low = [lines[k][cell[k] - 1] for k in range(3)]
                high = [lines[k][cell[k]] for k in range(3)]
                quad = np.array([low] * 4)
                quad[:, axis] = high[axis] if sign > 0 else low[axis]
                quad[[1, 2], u], quad[[2, 3], w] = high[u], high[w]
                quad = quad if sign > 0 else quad[::-1]
                corners += [quad[[0, 1, 2]], quad[[0, 2, 3]]]
    return weld(np.concatenate(corners))


def weld(corners):
    """Corners of triangles (3 m, 3) as vertices and faces."""
    vertices, faces = np.unique(np.round(corners, 12), axis=0, return_inverse=True)
    return vertices, faces.reshape(-1, 3)


def cell_distance(points, filled, lines):
    """How far points (n, 3) are outside of the filled cells; 0 inside."""
    filled, away = np.asarray(filled, dtype=bool), np.full(len(points), np.inf)
    for cell in np.argwhere(filled):
        low = np.array([lines[k][cell[k]] for k in range(3)])
        high = np.array([lines[k][cell[k] + 1] for k in range(3)])
        away = np.minimum(away, np.linalg.norm(points - np.clip(points, low, high), axis=1))
    return away


def turned_mesh(profile, sides):
    """The closed mesh of a profile (m, 2) of radii and heights, counter-clockwise, turned about z in so many sides."""
    angles = 2 * np.pi * np.arange(sides + 1) / sides
    angles[-1] = 0
    corners = []
    for (r, z), (s, y) in zip(profile, np.roll(profile, -1, axis=0), strict=True):
        for a, b in itertools.pairwise(angles):
            quad = [(r, a, z), (r, b, z), (s, b, y), (s, a, y)]
            p = np.array([(radius * np.cos(t), radius * np.sin(t), height) for radius, t, height in quad])
            corners += [p[list(which)] for which, flat in (((0, 1, 2), r == 0), ((0, 2, 3), s == 0)) if not flat]
    return weld(np.concatenate(corners))


BRACKET = [[[1], [1]], [[1], [0]]], ((0.0, 0.01, 0.1), (0.0, 0.01, 0.1), (0.0, 0.05))
"""An L of 0.1 m, 0.01 m thick and 0.05 m wide."""

BEAM = [[[1], [0], [1]], [[1], [1], [1]], [[1], [0], [1]]], ((0, 0.04, 0.06, 0.1), (0, 0.02, 0.08, 0.1), (0, 0.3))
"""An I of 0.1 m, 0.3 m long."""

RING = [[[1], [1], [1]], [[1], [0], [1]], [[1], [1], [1]]], ((-0.06, -0.03, 0.03, 0.06),) * 2 + ((-0.01, 0.01),)
"""A square plate with a hole of 0.06 m through it."""

TRAY = (
    [[[1, 1], [1, 1], [1, 1]], [[1, 1], [1, 0], [1, 1]], [[1, 1], [1, 1], [1, 1]]],
    ((-0.1, -0.09, 0.09, 0.1),) * 2 + ((0, 0.01, 0.06),),
)
"""An open box with a floor and walls of 0.01 m."""

BOX_WITH_HOLLOW = (
    [[[1] * 3] * 3, [[1] * 3, [1, 0, 1], [1] * 3], [[1] * 3] * 3],
    ((-0.1, -0.08, 0.08, 0.1),) * 3,
)
"""A closed box with walls of 0.02 m, and nothing in it."""

CUP = np.array([(0, 0), (0.05, 0), (0.05, 0.1), (0.04, 0.1), (0.04, 0.01), (0, 0.01)])
"""Profile of a cup with walls and a floor of 0.01 m."""
