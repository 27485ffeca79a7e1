"""Pictures of mechanisms in motion: stroboscopic ones, and the paths of points."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.model import Model
from whippletree.view import style
from whippletree.view.painter import SHOWN, draw
from whippletree.view.scene import Scene, scene

if TYPE_CHECKING:
    import xarray

COUNT = 6
"""Moments of a stroboscopic picture."""

AIR = 0.06
"""Share of the picture that is left free around a mechanism in space."""

PATH_POINTS = 2000
"""Points of a path, at most."""


def strobe(
    axes: Any, run: xarray.Dataset, model: Model, *, count: int = COUNT, layers: Collection[str] = SHOWN
) -> None:
    """The mechanism at ``count`` instants, evenly spread over the run; the last in full colour."""
    shown = scene(model, run, frames=max(count, 2))
    if count == 1:
        draw(axes, shown, (-1,), layers)
    else:
        draw(axes, shown, range(len(shown.times)), layers)
    _finish(axes, shown, f"{len(shown.times)} instants from {shown.times[0]:g} to {shown.times[-1]:g} s")


def path(axes: Any, run: xarray.Dataset, model: Model, *, frame: str = "", layers: Collection[str] = SHOWN) -> None:
    """The curve that the origin of a frame describes, over the mechanism where it ends.

    Without a name, the last named frame of the model, or its last body.
    """
    name = frame or (model.frames[-1].name if model.frames else model.bodies[-1].name)
    shown = scene(model, run, frames=PATH_POINTS)
    points = path_of(shown, model, name)
    draw(axes, shown, (-1,), layers)
    axes.plot(points[:, 0], points[:, 1], color=style.PALETTE[1], linewidth=1.6, zorder=4, label=f"path of {name}")
    axes.plot(points[-1:, 0], points[-1:, 1], "o", color=style.PALETTE[1], markersize=5, zorder=5)
    axes.legend(loc="best")
    _finish(axes, shown, f"path of {name}")


def proportions(run: xarray.Dataset, model: Model) -> float:
    """Height over width of the picture of a run."""
    width, height = np.ptp(scene(model, run, frames=COUNT).extent(), axis=0)
    return float(height / width) if width > 0 else 1.0


def path_of(shown: Scene, model: Model, name: str) -> Any:
    """Where the origin of a frame is in the picture, (T, 2)."""
    found = model.frame(name)
    k = model.body_index(found.body)
    track = shown.tracks[k if k >= 0 else len(model.bodies)].poses
    return shown.camera.axis_coordinates(np.asarray(track @ found.pose.astype(float))[:, :3, 3])[:, :2]


def _finish(axes: Any, shown: Scene, title: str) -> None:
    """Axes in metres where the plane is the mechanism's own; a view in space has none."""
    axes.set_title(title)
    if shown.camera.planar:
        horizontal, vertical = (_axis_name(d) for d in (shown.camera.right, shown.camera.up))
        axes.set_xlabel(f"{horizontal}, m")
        axes.set_ylabel(f"{vertical}, m")
    else:
        axes.set_axis_off()
        # what bodies reach, not all of the floor that they stand on
        low, high = shown.extent()
        air = AIR * (high - low).max()
        axes.set(xlim=(low[0] - air, high[0] + air), ylim=(low[1] - air, high[1] + air))


def _axis_name(direction: Any) -> str:
    k = int(np.argmax(np.abs(direction)))
    return ("−" if direction[k] < 0 else "") + "xyz"[k] if abs(direction[k]) > 0.999 else "in the plane"
