"""A scene as a picture in matplotlib: its triangles, lit, sorted by depth, seen by the scene's camera."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.view import style
from whippletree.view.items import Item
from whippletree.view.scene import Scene

LIGHT = np.array([-0.35, 0.55, 0.76])
"""Towards the light, as (right, up, towards the eye)."""

AMBIENT = 0.62
"""Share of the light that comes from everywhere."""

SHOWN = ("bodies", "massless links", "closures", "contact points", "ground")
"""Layers of a picture unless told otherwise."""

STANDING = ("ground",)
"""Layers that are drawn once, under everything that moves."""

IN_FRONT = ("closures", "constraint forces", "constraint moments", "contact points", "contact forces")
"""Layers that nothing may hide."""

SEAM = 0.8
"""Points: width of an edge in the colour of its triangle. At 0.5 smoothing leaves a pale line between two that meet."""


def draw(axes: Any, scene: Scene, moments: Sequence[int] = (-1,), layers: Collection[str] = SHOWN) -> None:
    """Draw a scene at some of its moments, earlier ones paler; the axes get equal scales.

    Args:
        axes: matplotlib's.
        scene: what to draw.
        moments: indices of the scene's times.
        layers: names of the layers to draw.
    """
    from matplotlib.collections import PolyCollection

    items = [item for item in scene.items if item.layer in layers]
    moving = [item for item in items if item.layer not in STANDING]
    passes = [([item for item in items if item.layer in STANDING], 0, 0.0)]
    for rank, moment in enumerate(moments):
        passes.append((moving, moment, 0.8 * (1 - (rank + 1) / len(moments))))
    for order, (group, moment, fade) in enumerate(passes):
        if not group:
            continue
        flat, colors = _triangles(group, scene, moment, fade)
        axes.add_collection(
            PolyCollection(
                list(flat), facecolors=colors, edgecolors=colors, linewidths=SEAM, zorder=2 + order / len(passes)
            )
        )
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.06)


def _triangles(items: Sequence[Item], scene: Scene, moment: int, fade: float) -> tuple[Array, Array]:
    """Triangles (n, 3, 2) from the back to the front, and their colours (n, 3)."""
    corners, colors, depths = [], [], []
    front = float(np.linalg.norm(np.ptp(scene.bounds, axis=0)))
    for item in items:
        poses = scene.tracks[item.track].poses
        solid = item.mesh.move(poses[moment if len(poses) > 1 else 0] @ item.pose)
        seen = scene.camera.axis_coordinates(solid.vertices)[solid.faces]
        shade = _shades(seen)
        facing = np.isfinite(shade)
        corners.append(seen[facing])
        depths.append(seen[facing, :, 2].mean(axis=1) + (front if item.layer in IN_FRONT else 0.0))
        base = np.array(style.fade_colour(item.color, fade))
        colors.append(base * (shade[facing, None] * (1 - fade) + fade))
    triangles, tints = np.concatenate(corners), np.concatenate(colors)
    order = np.argsort(np.concatenate(depths))
    return triangles[order, :, :2], np.clip(tints[order], 0, 1)


def _shades(seen: Array) -> Array:
    """How bright each triangle is, (n,); NaN for those that look away."""
    normals = np.cross(seen[:, 1] - seen[:, 0], seen[:, 2] - seen[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    ahead = (normals[:, 2] > 0) & (lengths > 0)
    direct = (normals @ LIGHT).clip(min=0) / np.where(lengths > 0, lengths, 1) / np.linalg.norm(LIGHT)
    return np.where(ahead, AMBIENT + (1 - AMBIENT) * direct, np.nan)
