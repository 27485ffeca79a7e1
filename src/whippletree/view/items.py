"""Parts of a scene: tracks, items, layers, and the sizes that things are drawn with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.view.solids import Mesh
from whippletree.view.style import Color

LAYERS = {
    "bodies": True,
    "massless links": True,
    "joint axes": False,
    "frames": False,
    "closures": True,
    "constraint forces": True,
    "constraint moments": True,
    "contact points": True,
    "contact forces": True,
    "ground": True,
}
"""Every layer, and whether it is shown at first."""

SOLID = ("bodies", "massless links", "ground")
"""Layers of what is there; the others explain it."""


class Track(NamedTuple):
    """A motion: (T, 4, 4), or (1, 4, 4) for what stands still; columns may be longer than 1 where things stretch."""

    name: str
    poses: Array


@dataclass(frozen=True, eq=False)
class Item:
    """A mesh with a colour that rides on a track."""

    name: str
    mesh: Mesh
    color: Color
    layer: str
    track: int
    pose: Array = field(default_factory=lambda: np.eye(4))
    """Where the mesh sits on the track; a mesh that is used many times is stored once."""
    own: bool = False
    """Whether ``track`` counts the overlay's own tracks."""

    def on(self, track: int) -> Item:
        """This item on a track of the scene."""
        return replace(self, track=track, own=False)

    def massless(self) -> Item:
        """This item in the layer of massless links."""
        return replace(self, layer="massless links")


class DrawnSizes(NamedTuple):
    """m: how large things are drawn."""

    whole: float
    """The mechanism with its motion."""
    rod: float
    """Half the thickness of rods."""
    mark: float
    """Axes of joints and frames: they reach out of rods, or out of the meshes of a robot."""
