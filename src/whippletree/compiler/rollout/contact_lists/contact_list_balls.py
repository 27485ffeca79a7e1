"""Balls about shapes, which tell how far apart two of them are at least, and how far bodies with shapes swing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.bounds import bound_about_middle, bounding_radius, middle
from whippletree.contact.geometry.shapes import HalfSpace, HeightField
from whippletree.contact.kinematics.pairs import Pair
from whippletree.tree.skeleton import Place

SHAPE_LEEWAY = 0.01
"""Share of the smallest shape of a body by which pairs must be farther apart, for bodies that start from rest."""

PlacedPair: TypeAlias = tuple[Pair, Sequence[Place]]
"""A pair, and where its shapes are on the tree."""


def is_ground(pair: Pair) -> bool:
    """Whether the second shape is a floor or a height field."""
    return isinstance(pair.shapes[1], HalfSpace | HeightField)


def can_be_far(pair: Pair, places: Sequence[Place]) -> bool:
    """Whether balls tell how far apart a pair is: both shapes end somewhere, or the second is ground that rests."""
    first, second = pair.shapes
    ground = is_ground(pair) and places[1].node < 0
    return bool(np.isfinite(bounding_radius(first)) and (ground or np.isfinite(bounding_radius(second))))


class BallOfShape(NamedTuple):
    """The ball about a shape."""

    place: Place
    """Where the shape is."""
    middle: Any
    """Its centre, in the axes of the shape."""


def balls_of(pairs: Sequence[PlacedPair]) -> dict[str, BallOfShape]:
    """Balls about all shapes that end somewhere, by name of the shape."""
    return {
        name: BallOfShape(place, middle(shape))
        for pair, places in pairs
        for name, shape, place in zip((pair.contact.first, pair.contact.second), pair.shapes, places, strict=True)
        if np.isfinite(bounding_radius(shape))
    }


def swings_of(nodes: int, pairs: Sequence[PlacedPair]) -> tuple[Array, Array]:
    """How far from its node's origin the farthest point of any shape is, m, and how much a shape may move before it is
    looked at again; (nodes + 1,), the last is the world's. A node without shapes has no arm and any leeway."""
    arm, leeway = np.zeros(nodes + 1), np.full(nodes + 1, np.inf)
    for pair, places in pairs:
        for shape, place in zip(pair.shapes, places, strict=True):
            if np.isfinite(size := bounding_radius(shape)) and place.node >= 0:
                arm[place.node] = max(arm[place.node], np.linalg.norm(place.pose.p.astype(float)) + size)
                leeway[place.node] = min(leeway[place.node], SHAPE_LEEWAY * size)
    return arm, leeway


def radii_of(pair: Pair) -> float:
    """Radii of the balls that hold the shapes of a pair, together with its margin, m; the ground has none."""
    sizes = [0.0 if isinstance(shape, HalfSpace | HeightField) else bound_about_middle(shape) for shape in pair.shapes]
    return float(sum(sizes)) + float(pair.contact.margin)
