"""A model and its states as meshes that move: what every renderer draws, and nothing of how.

A *track* is a motion: a (4, 4) matrix per moment, one per body, and one for everything that moves or stretches on its
own (a force, a rod between two bodies). An *item* is a mesh with a colour that rides on a track. Items belong to
layers, which a viewer can switch on and off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.model import WORLD, Geometry, Model, require_model
from whippletree.view import overlays, shape_meshes, sticks, style
from whippletree.view.camera import Camera, against_gravity, camera_for
from whippletree.view.items import LAYERS, SOLID, DrawnSizes, Item, Track
from whippletree.view.pose_series import Moves, choose_moments, single

if TYPE_CHECKING:
    import xarray


FRAMES = 300
"""Moments of a run that are drawn unless told otherwise."""

LEVEL_COSINE = 1 - 1e-6
"""Cosine of the angle between up and a half-space's normal above which its surface is level."""

STEEP = 0.3
"""Cosine of the angle between up and a half-space's normal below which it is a wall."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything there is to draw."""

    name: str
    times: Array
    """s, (T,)"""
    tracks: tuple[Track, ...]
    items: tuple[Item, ...]
    camera: Camera
    bounds: Array
    """Lowest and highest corner of what bodies reach during the motion, m, (2, 3)."""
    reach: Array
    """The outermost points that they reach, in many directions, those of the picture among them, m, (n, 3)."""
    arrows: Array
    """The outermost points of arrows of forces and moments, m, (k, 3): a page keeps them in view, too."""
    floor: float
    """Height of the ground along the camera's vertical, m; where there is none, of the lowest point."""
    notes: tuple[str, ...] = field(default=())
    """Notes for people on what could not be drawn as it was meant."""

    @property
    def layers(self) -> list[str]:
        """Layers that have something to show, in their order."""
        used = {item.layer for item in self.items}
        return [layer for layer in LAYERS if layer in used]

    def extent(self) -> Array:
        """Lowest and highest corner of what bodies reach, as a picture shows it, (2, 2)."""
        seen = self.camera.axis_coordinates(self.reach)[:, :2]
        return np.array([seen.min(axis=0), seen.max(axis=0)])


def scene(
    model: Model,
    run: xarray.Dataset | None = None,
    *,
    q: Any = None,
    frames: int = FRAMES,
    triangles: int = 3000,
    exaggeration: float = 1.0,
) -> Scene:
    """The scene of a model along a run, or at one configuration.

    Args:
        model: any model.
        run: what ``wt.simulate`` returned for it; None for a still picture.
        q: the configuration of a still picture, (nq,); home if None.
        frames: at most so many moments of the run are kept.
        triangles: at most so many per mesh of a file.
        exaggeration: what the deformation of flexible bodies is multiplied by; loops through them then look open.
    """
    require_model(model, "a picture")
    kept = None if run is None else choose_moments(run, model, frames)
    if kept is None:
        moves = single(model, q, exaggeration)
    else:
        times, states = (np.asarray(kept[word], dtype=float) for word in ("time", "q"))
        moves = Moves(model, times, states, exaggeration)
    points = sticks.ports(model)
    sizes = sticks.sizes_of(points, moves)
    drawing = _Drawing(model, moves, sizes, triangles)
    drawing.bodies(points)
    drawing.add(overlays.bent_bodies(model, moves, sizes))
    drawing.add(overlays.ground(moves, sizes))
    drawing.add(overlays.overlays(model, moves, sizes, kept))
    camera = camera_for(moves, np.zeros(3))
    reach, arrows = drawing.reach(camera, SOLID), drawing.reach(camera, overlays.ARROWS)
    reach = reach if len(reach) else np.array(list(np.ndindex(2, 2, 2))) - 0.5
    bounds = np.array([reach.min(axis=0), reach.max(axis=0)])
    drawing.surroundings()
    return Scene(
        model.name,
        moves.times,
        tuple(drawing.tracks),
        tuple(drawing.items),
        camera._replace(target=bounds.mean(axis=0)),
        bounds,
        reach,
        arrows,
        drawing.floor(camera.vertical, float((reach @ camera.vertical).min())),
        tuple(drawing.notes),
    )


class _Drawing:
    """Items and tracks as they come together; tracks 0 … n − 1 are the bodies, track n is the world."""

    def __init__(self, model: Model, moves: Moves, sizes: DrawnSizes, triangles: int) -> None:
        self.model, self.moves, self.sizes, self.triangles = model, moves, sizes, triangles
        self.tracks = [Track(body.name, moves.bodies[k]) for k, body in enumerate(model.bodies)]
        self.tracks.append(Track(WORLD, np.eye(4)[None]))
        self.items: list[Item] = []
        self.notes: list[str] = []

    def add(self, found: overlays.Overlay) -> None:
        """Take over the items of an overlay, whose own tracks are counted from the end of ours."""
        start = len(self.tracks)
        self.tracks += found.tracks
        self.items += [item.on(start + item.track) if item.own else item for item in found.items]

    def reach(self, camera: Camera, layers: Collection[str]) -> Array:
        """The outermost points (n, 3) of what some layers have so far, over the motion.

        They are outermost along all axes of the world and of the picture, and along the diagonals between.
        """
        outermost = np.zeros((0, 3))
        signs = np.array([s for s in np.ndindex(3, 3, 3) if s != (1, 1, 1)]) - 1
        seen_from = np.stack([camera.right, camera.up, camera.back])
        directions = np.concatenate([signs, signs @ seen_from])
        solid = [item for item in self.items if item.layer in layers and len(item.mesh.vertices)]
        for item in solid:
            poses = self.tracks[item.track].poses @ item.pose
            hull = _hull(item.mesh.vertices)
            reached = (hull @ np.swapaxes(poses[:, :3, :3], 1, 2) + poses[:, None, :3, 3]).reshape(-1, 3)
            points = np.concatenate([outermost, reached])
            outermost = points[np.unique(np.argmax(points @ directions.T, axis=0))]
        return outermost

    def floor(self, vertical: Array, lowest: float) -> float:
        """Height of the highest level ground, m; without one ``lowest``."""
        level = [
            float(g.pose[:3, 3].astype(float) @ vertical)
            for g in self.model.geometries
            if g.body == WORLD and g.kind == "half_space" and g.pose[:3, 2].astype(float) @ vertical > LEVEL_COSINE
        ]
        return max(level, default=lowest)

    def bodies(self, ports: list[Array]) -> None:
        """Every body by its shapes, or as a stick figure where none can be drawn."""
        shaped: dict[str, list[Item]] = {body.name: [] for body in self.model.bodies}
        ends_only = dict.fromkeys(shaped, True)
        sparse = False
        for geometry in shape_meshes.visible(self.model):
            items = self._shape(geometry)
            shaped[geometry.body] += items
            ends_only[geometry.body] &= shape_meshes.is_end(geometry)
            sparse |= bool(items) and geometry.kind == "mesh"
        for k, body in enumerate(self.model.bodies):
            items = shaped[body.name]
            if ends_only[body.name] or not items:
                items = items + sticks.stick_figure(self.model, ports[k], k, self.sizes, sparse=sparse)
            self.items += [item.massless() if body.massless else item for item in items]

    def surroundings(self) -> None:
        """The shapes of the world."""
        up = against_gravity(self.model)
        for geometry in self.model.geometries:
            if geometry.body != WORLD or not geometry.visible or geometry.kind == "point":
                continue
            if geometry.kind == "half_space" and geometry.pose[:3, 2].astype(float) @ up < STEEP:
                self.notes.append(f"{geometry.name}: a wall, left out because it would hide what it holds")
            else:
                self.items += self._shape(geometry)

    def _shape(self, geometry: Geometry) -> list[Item]:
        found = shape_meshes.pieces(geometry, self.sizes, self.triangles)
        if found is None:
            what = geometry.parameters.get("file", geometry.kind)
            self.notes.append(f"{geometry.name}: {what} cannot be drawn")
            return []
        pose = geometry.pose.astype(float)
        k = self.model.body_index(geometry.body)
        layer, track, usual = ("ground", len(self.model.bodies), style.GROUND)
        if k >= 0:
            layer, track, usual = ("bodies", k, style.MESH if geometry.kind == "mesh" else style.body_color(k))
        given = shape_meshes.color_of(geometry.parameters.get("color"), usual)
        return [Item(geometry.body, piece.mesh.move(pose), piece.color or given, layer, track) for piece in found]


def _hull(points: Array) -> Array:
    """The corners of the convex hull of points (n, 3); all of them if they lie in a plane."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        return points
