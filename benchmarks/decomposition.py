"""Convex pieces of meshes: how many, how near, how long. ``python -m benchmarks.decomposition [FILE …]``.

Processor time is that of a first decomposition, with the library's own; mesh files come beside four meshes of ours.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from whippletree.contact.geometry.convex_pieces import convex_pieces
from whippletree.contact.geometry.mesh_files import surface_of
from whippletree.model import Geometry

SIDES = 24


def turned(profile: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """A profile of radii and heights turned about z."""
    around = 2 * np.pi * np.arange(SIDES) / SIDES
    rings = [np.stack([r * np.cos(around), r * np.sin(around), np.full(SIDES, z)], axis=1) for r, z in profile]
    faces = []
    for j in range(len(profile)):
        low, high = j * SIDES, (j + 1) % len(profile) * SIDES
        for i in range(SIDES):
            k = (i + 1) % SIDES
            faces += [(low + i, low + k, high + k), (low + i, high + k, high + i)]
    return np.concatenate(rings), np.array(faces)


def extruded(outline: list[tuple[float, float]], ends: list[tuple[int, int, int]], length: float) -> tuple:
    """An outline, cut into triangles, along z."""
    n = len(outline)
    vertices = np.array([(x, y, z) for z in (0, length) for x, y in outline])
    faces = [(a, c, b) for a, b, c in ends] + [(a + n, b + n, c + n) for a, b, c in ends]
    for i in range(n):
        k = (i + 1) % n
        faces += [(i, k, k + n), (i, k + n, i + n)]
    return vertices, np.array(faces)


L = [(0.0, 0.0), (0.1, 0.0), (0.1, 0.01), (0.01, 0.01), (0.01, 0.1), (0.0, 0.1)]
I = [(-5, -5), (5, -5), (5, -4), (0.5, -4), (0.5, 4), (5, 4), (5, 5), (-5, 5), (-5, 4), (-0.5, 4), (-0.5, -4), (-5, -4)]
I_ENDS = [
    (0, 1, 2),
    (0, 2, 3),
    (0, 3, 10),
    (0, 10, 11),
    (3, 4, 9),
    (3, 9, 10),
    (4, 5, 6),
    (4, 6, 7),
    (4, 7, 8),
    (4, 8, 9),
]

MESHES = {
    "L-bracket": extruded(L, [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)], 0.05),
    "I-beam": extruded(I, I_ENDS, 30),
    "ring": turned([(0.03, -0.005), (0.05, -0.005), (0.05, 0.005), (0.03, 0.005)]),
    "cup": turned([(1e-3, 0), (0.05, 0), (0.05, 0.1), (0.045, 0.1), (0.045, 0.005), (1e-3, 0.005)]),
}


def main(files: list[str]) -> None:
    """Print one line for each mesh and tolerance."""
    os.environ["WHIPPLETREE_CACHE"] = "off"
    meshes = MESHES | {
        Path(f).name: surface_of(Geometry("mesh", "world", "mesh", parameters={"path": f})) for f in files
    }
    print(
        "| mesh, triangles | tolerance | pieces | distance / longest side | volume share | s |\n" + "| --- " * 6 + "|"
    )
    for name, (vertices, faces) in meshes.items():
        for tolerance in (0.05, 0.02, 0.01):
            start = sum(os.times()[:4])
            found = convex_pieces(name, vertices, faces, tolerance)
            spent, longest = sum(os.times()[:4]) - start, float(np.ptp(vertices, axis=0).max())
            fit = f"{len(found.hulls)} | {found.distance / longest:.1e} | {found.volume_share:.4f}"
            print(f"| {name}, {len(faces)} | {tolerance} | {fit} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
