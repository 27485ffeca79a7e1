"""Pairs in the lists of a scene that cannot touch while these serve, by boxes that hold the shapes.

The broad phase knows balls alone (:mod:`whippletree.compiler.rollout.scenes.scene_lists`). Of a mesh of an arm or of a
box in a row of boxes these are much larger than the shape, and each pair that is listed in vain is compared in every
step. So boxes that hold the shapes, turned as they are, are compared once for each list: two that a plane along a face
of either keeps farther apart than both of their bodies may go cannot touch.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.bounds import bounding_box
from whippletree.contact.kinematics.scene_layout import SceneLayout


class BoxBounds:
    """The boxes of a scene."""

    def __init__(self, layout: SceneLayout) -> None:
        self.layout = layout
        boxes = [bounding_box(shape) for shape in layout.shapes]
        self._half: Array = np.array([half for _, half in boxes]).reshape(-1, 3)
        self.bounded: Array = np.isfinite(self._half).all(axis=1)
        """Which geometries have a box, (geometries,)."""
        middles = np.array([middle for middle, _ in boxes]).reshape(-1, 3, 1)
        self._middle = (layout.local[:, :, :3] @ middles)[:, :, 0] + layout.local[:, :, 3]
        """On the bodies."""

    def gaps(self, R: Array, q: Array, first: Array, second: Array) -> Array:
        """Distances that pairs of bounded geometries have at least, m, (n,); less than 0 where boxes meet.

        Args:
            R: rotations of the bodies and the world, (bodies + 1, 3, 3).
            q: their coordinates, (bodies + 1, 7).
            first, second: numbers of the geometries, (n,).
        """
        (A, a, c), (B, b, d) = (self._boxes_in_world(R, q, side) for side in (first, second))
        C = A.swapaxes(1, 2) @ B
        size, way = np.abs(C), d - c
        found = np.abs(np.einsum("nij,ni->nj", A, way)) - a - np.einsum("nij,nj->ni", size, b)
        other = np.abs(np.einsum("nij,ni->nj", B, way)) - b - np.einsum("nij,ni->nj", size, a)
        return np.asarray(np.maximum(found, other).max(axis=1))

    def _boxes_in_world(self, R: Array, q: Array, geometries: Array) -> tuple[Array, Array, Array]:
        """Axes, half edges and middles of boxes in the world."""
        layout = self.layout
        nodes = layout.nodes[geometries]
        turned, at = R[nodes], q[nodes, :3]
        if not layout.traits.in_world_axes:
            frames = layout.placements[nodes]
            at = (frames[:, :9].reshape(-1, 3, 3) @ at[:, :, None])[:, :, 0] + frames[:, 9:]
        middle = (turned @ self._middle[geometries][:, :, None])[:, :, 0] + at
        return turned @ layout.local[geometries, :, :3], self._half[geometries], middle
