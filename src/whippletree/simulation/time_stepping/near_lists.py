"""Lists of what is near in a scene of many free bodies, by the kernel that makes them, and the room that they take.

The kernel (:mod:`whippletree.compiler.rollout.scenes.scene_lists`) is the same for all scenes: tables of a scene's
geometries, groups and contacts come with the call, and so does room for pairs. Where that is not enough it tells how
many there are, and is called again.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.cpu.cpu_function import CompiledFunction, compile_function
from whippletree.compiler.rollout.scenes.scene_lists import (
    BALL_FORM,
    CAVITY_FORM,
    FORM_ANYWHERE,
    HALF_SPACE_FORM,
    TRAITS,
    scene_lists_program,
)
from whippletree.contact.geometry.shapes import Cavity, HalfSpace
from whippletree.contact.kinematics.scene_layout import COEFFICIENTS, SceneLayout
from whippletree.model.frozen import found_once

SMALLEST = 2.0**-40
"""Share of the largest radius below which balls are sorted as if they had that size; points have none."""

ROOM, MORE_ROOM = 8, 1.25
"""Pairs of each geometry that there is room for at first, and how much more room than pairs there is after that."""


PAIRS_AT_ONCE = 1000
"""Pairs that are put into turns together, so that what is near in the list stays near in memory."""

WORLDS = 4
"""How often the kernel of steps has the world, in turns, where something touches: a contact leaves the velocity of both
of its bodies behind, and one that meets the same body has to wait for it, although the world does not move. With one
world an update of a hundred balls in a narrow box took 31 ns instead of 28."""


class NearPairs(NamedTuple):
    """Pairs of geometries that are near, n of them, in the order in which they are swept."""

    table: Array
    """Kind, two geometries, and where its candidates begin, (n, 4)."""
    node: Array
    """Both bodies, the world by one of so many numbers in turns, and 0, (n, 3)."""
    friction: Array
    restitution: Array
    margins: Array
    shares: Array
    """Shares of torsional and rolling friction, m, (n, 2)."""
    worlds: int
    """How often the world is among the bodies."""


class ListMaker:
    """Makes the lists of one scene."""

    def __init__(self, layout: SceneLayout, nearly: float) -> None:
        """``nearly``: pairs that are nearer than that beyond their margin come first, m."""
        self.layout = layout
        kernel = _kernel().ufunc
        assert kernel is not None
        self._kernel = kernel
        self._tables = _tables_of_scene(layout)
        self._gravity = np.asarray(layout.model.gravity, dtype=float)
        margin = max((float(group.coefficients[2]) for group in layout.groups), default=0.0)
        self._numbers = (nearly, margin, PAIRS_AT_ONCE, WORLDS)
        buckets = len(self._tables[-1])
        self._buckets = np.array([buckets, 1 / buckets])
        self._room = np.arange(64.0 + ROOM * len(layout.names))

    def near(self, q: Array, thickness: Array, world: tuple[float, float], grain: Array) -> NearPairs:
        """Pairs that are nearer than their skins are thick.

        Args:
            q: (bodies + 1, 7), the world last.
            thickness: skins of the bodies, and that of the world where it is longest, m, (bodies + 1,).
            world: thickness of the world's skin across, m, and s in √(1 + s (grain · normal)²) times that.
            grain: unit vector, (3,).
        """
        while True:
            *found, counts = self._kernel(
                *(q, self.layout.placements, thickness, np.array(world), grain, self._gravity),
                *(*self._numbers, len(self._room) - 1, self._buckets, *self._tables, self._room),
            )
            made = int(counts[0])
            if made < len(self._room):
                return NearPairs._make([*[column[:made] for column in found], int(counts[1])])
            self._room = np.arange(float(math.ceil(MORE_ROOM * made) + 1))


@lru_cache(maxsize=1)
def _kernel() -> CompiledFunction:
    return compile_function(scene_lists_program(), threads=1)


@found_once
def _tables_of_scene(layout: SceneLayout) -> tuple[Array, ...]:
    """What the kernel is given of a scene, in its order, from ``geometries`` to ``hash``."""
    listed = _without_repetitions(layout)
    members = np.zeros((len(layout.names), len(layout.groups)))
    for k, group in enumerate(layout.groups):
        members[np.concatenate([group.bounded, group.unbounded]), k] = 1
    some, bounded = members.any(axis=1), np.isfinite(layout.radii)
    balls, levels = _balls(layout.radii, np.flatnonzero(some & bounded))
    return (
        _rows_of_geometries(layout, listed),
        balls,
        np.arange(float(levels)),
        np.flatnonzero(some & ~bounded).astype(float),
        np.array([group.coefficients for group in layout.groups]).reshape(-1, len(COEFFICIENTS)),
        members,
        np.column_stack([listed.pairs, listed.coefficients]).reshape(-1, 2 + len(COEFFICIENTS)),
        listed.partners,
        layout.kind_numbers.astype(float),
        np.array([float(kind.slots) for kind in layout.kinds]),
        np.zeros(2 * len(balls) + 3),  # an odd number of buckets
    )


class _Listed(NamedTuple):
    """Contacts that a model lists one by one, each pair once: of one that is there twice the first counts."""

    pairs: Array
    """(n, 2)"""
    coefficients: Array
    """(n, 5)"""
    partners: Array
    """Geometries, by those with which they are listed, (2 n,)."""
    starts: Array
    """Where those of each geometry begin, (geometries + 1,)."""


def _without_repetitions(layout: SceneLayout) -> _Listed:
    first, second, coefficients = layout.declared
    count = len(layout.names)
    _, single = np.unique(np.minimum(first, second) * count + np.maximum(first, second), return_index=True)
    pairs = np.column_stack([first, second])[np.sort(single)]
    own, partners = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(count + 1))
    return _Listed(pairs, coefficients[np.sort(single)], partners[order].astype(float), starts)


def _balls(radii: Array, numbers: Array) -> tuple[Array, int]:
    """Balls (n, 3): number, geometry and level, the largest levels first; and how many levels there are."""
    own = radii[numbers]
    exponents = np.ceil(np.log2(np.maximum(own, max(own.max(initial=0.0) * SMALLEST, np.finfo(float).tiny))))
    sizes, levels = np.unique(exponents, return_inverse=True)
    order = np.argsort(-levels, kind="stable")
    return np.column_stack([np.arange(len(own)), numbers[order], levels[order]]).astype(float), len(sizes)


def _rows_of_geometries(layout: SceneLayout, listed: _Listed) -> Array:
    """Poses on the bodies, and :data:`~whippletree.compiler.rollout.scenes.scene_lists.TRAITS`."""
    world = len(layout.bodies) - 1
    traits: dict[str, Any] = {
        "radius": [_radius(shape, radius) for shape, radius in zip(layout.shapes, layout.radii, strict=True)],
        "form": [_form(shape, radius) for shape, radius in zip(layout.shapes, layout.radii, strict=True)],
        "wall": np.isin(np.arange(len(layout.names)), layout.walls),
        "node": layout.nodes,
        "moves": layout.nodes != world,
        "class": layout.class_of,
        "rank": layout.ranks,
        "first partner": listed.starts[:-1],
        "partners": np.diff(listed.starts),
    }
    poses = np.concatenate([layout.local[:, :, :3].reshape(-1, 9), layout.local[:, :, 3]], axis=1)
    return np.column_stack([poses, *[np.asarray(traits[name], dtype=float) for name in TRAITS]])


def _form(shape: Any, radius: float) -> int:
    """How far a ball is from a shape is found in one of four ways."""
    if math.isfinite(radius):
        return BALL_FORM
    return (
        HALF_SPACE_FORM if isinstance(shape, HalfSpace) else CAVITY_FORM if isinstance(shape, Cavity) else FORM_ANYWHERE
    )


def _radius(shape: Any, radius: float) -> float:
    """Radius of the ball that holds a shape, or that a cavity holds."""
    return radius if math.isfinite(radius) else float(shape.radius) if isinstance(shape, Cavity) else 0.0
