"""``wt.export_html``: a run as one HTML file that opens without a network, on any machine with a browser.

The page (``replay.html`` beside this module) holds its own drawing code; here the scene is packed into it. Numbers are
32-bit, in base64; equal meshes are stored once.
"""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.files.whole_files import write_whole
from whippletree.model import Model, require_model
from whippletree.view import page_curves
from whippletree.view.items import LAYERS, SOLID
from whippletree.view.scene import FRAMES, Scene, scene
from whippletree.view.solids import Mesh

if TYPE_CHECKING:
    import xarray


POSES = 40_000
"""Poses of one page, bodies times moments: about 2.5 MB. A larger mechanism gets fewer moments."""

TRIANGLES = 1500
"""Triangles of each mesh file in a page."""

PLACE = "/*DATA*/null"
"""Where the page takes its data."""


def export_html(
    model: Model,
    run: xarray.Dataset | None,
    path: str | Path,
    *,
    q: Any = None,
    frames: int = FRAMES,
    exaggeration: float = 1.0,
) -> Path:
    """Write a replay: the mechanism in motion with play, pause, scrub and speed, layers to switch, and curves.

    Args:
        model: the model that was simulated.
        run: what ``wt.simulate`` returned; None for a still page.
        path: the file to write; its folder is made.
        q: the configuration of a still page, (nq,); home if None.
        frames: at most so many moments; fewer for mechanisms of more than a hundred bodies.
        exaggeration: what the deformation of flexible bodies is multiplied by.

    Returns:
        The path.
    """
    refuse_swapped("export_html", model, run)
    require_model(model, "export_html")
    return write_whole(path, page_text(model, run, q=q, frames=frames, exaggeration=exaggeration).encode())


def refuse_swapped(function: str, model: Any, run: Any) -> None:
    """Name arguments that are in each other's place.

    Raises:
        TypeError: with the call that was meant.
    """
    if isinstance(run, Model) and hasattr(model, "variables"):
        raise TypeError(f"{function}: the run comes where the model belongs: call {function}(model, run, ...)")


def page_text(
    model: Model, run: xarray.Dataset | None, *, q: Any = None, frames: int = FRAMES, exaggeration: float = 1.0
) -> str:
    """The page of a run, or a still one, as text."""
    moments = max(2, min(frames, POSES // max(len(model.bodies), 1)))
    shown = scene(model, run, q=q, frames=moments, triangles=TRIANGLES, exaggeration=exaggeration)
    curves = page_curves.curves(run, model, shown.times) if run is not None else []
    page = files("whippletree.view").joinpath("replay.html").read_text(encoding="utf-8")
    # "<" could end the script early: a model's name may hold anything
    data = json.dumps(pack(shown, curves), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return page.replace(PLACE, data, 1)


def replay(
    model: Model,
    run: xarray.Dataset | None = None,
    *,
    q: Any = None,
    frames: int = FRAMES,
    exaggeration: float = 1.0,
) -> Replay:
    """A replay for a notebook: as the last value of a cell it shows itself, and plays; ``save(path)`` writes it.

    Args:
        model: the model that was simulated.
        run: what ``wt.simulate`` returned; None for a still page.
        q: the configuration of a still page, (nq,); home if None.
        frames: at most so many moments.
        exaggeration: what the deformation of flexible bodies is multiplied by.
    """
    refuse_swapped("replay", model, run)
    require_model(model, "replay")
    return Replay(page_text(model, run, q=q, frames=frames, exaggeration=exaggeration), model.name)


class Replay:
    """A page that plays a run."""

    def __init__(self, page: str, name: str) -> None:
        self.page, self.name = page, name

    def __repr__(self) -> str:
        return f"<Replay of {self.name!r}: {len(self.page) / 1e6:.2g} MB; save(path) writes it>"

    def _repr_html_(self) -> str:
        from whippletree.view.notebook import frame_page

        return frame_page(self.page)

    def save(self, path: str | Path) -> Path:
        """Write the page, which opens without a network."""
        return write_whole(path, self.page.encode())


def pack(shown: Scene, curves: list[page_curves.Curves]) -> dict[str, Any]:
    """A scene and its curves as what JSON can hold."""
    camera = shown.camera
    meshes, numbers = _share_meshes([item.mesh for item in shown.items])
    return {
        "name": shown.name,
        "times": shown.times.tolist(),
        "bounds": shown.bounds.tolist(),
        "reach": np.concatenate([shown.reach, shown.arrows]).tolist(),
        "floor": shown.floor,
        "camera": {word: getattr(camera, word).tolist() for word in ("right", "up", "back", "target", "vertical")}
        | {"planar": camera.planar},
        "solid": list(SOLID),
        "layers": [[layer, LAYERS[layer]] for layer in shown.layers],
        "meshes": [{"vertices": _floats(mesh.vertices), "faces": _indices(mesh.faces)} for mesh in meshes],
        "tracks": [_floats(track.poses[:, :3, :]) for track in shown.tracks],
        "items": [
            {
                "mesh": number,
                "color": list(item.color),
                "layer": item.layer,
                "track": item.track,
                "pose": item.pose[:3].reshape(-1).tolist(),
            }
            for item, number in zip(shown.items, numbers, strict=True)
        ],
        "curves": [
            {
                "title": c.title,
                "unit": c.unit,
                "names": c.names,
                "colors": [list(color) for color in c.colors],
                "dashes": [list(dash) for dash in c.dashes],
                "values": _floats(c.values),
            }
            for c in curves
        ],
        "notes": list(shown.notes),
    }


def _share_meshes(meshes: list[Mesh]) -> tuple[list[Mesh], list[int]]:
    """Different meshes, and which of them each one is."""
    known: dict[bytes, int] = {}
    different: list[Mesh] = []
    numbers: list[int] = []
    for mesh in meshes:
        key = mesh.vertices.astype("<f4").tobytes() + mesh.faces.astype("<u4").tobytes()
        if key not in known:
            known[key] = len(different)
            different.append(mesh)
        numbers.append(known[key])
    return different, numbers


def _floats(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _indices(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<u4").tobytes()).decode("ascii")
