"""``wt.export_film``: a run as a GIF or MP4, drawn by matplotlib picture by picture."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import MissingExtraError, UnsupportedError
from whippletree.files.whole_files import write_whole
from whippletree.model import Model, require_model
from whippletree.view import style
from whippletree.view.painter import SHOWN, draw
from whippletree.view.replay import refuse_swapped
from whippletree.view.scene import Scene, scene
from whippletree.view.strobe import AIR

if TYPE_CHECKING:
    import xarray

FORMATS = {".gif": "Pillow", ".mp4": "ffmpeg"}
"""By suffix, what writes the file."""

INCH = 100
"""Pixels of an inch of the figure."""


def export_film(
    model: Model,
    run: xarray.Dataset,
    path: str | Path,
    *,
    rate: float = 25.0,
    speed: float = 1.0,
    size: tuple[int, int] = (640, 480),
    layers: Collection[str] = SHOWN,
    exaggeration: float = 1.0,
) -> Path:
    """Write a run as a film, ``.gif`` or ``.mp4``; the whole motion stays in the picture.

    Args:
        model: the model that was simulated.
        run: what ``wt.simulate`` returned, over at least two moments.
        path: the file to write; its folder is made.
        rate: pictures per second; fewer where the run has fewer moments.
        speed: seconds of the run per second of the film.
        size: width and height, pixels.
        layers: what is drawn, names of layers (see docs/viewing.md).
        exaggeration: what the deformation of flexible bodies is multiplied by.

    Returns:
        The path.

    Raises:
        UnsupportedError: another suffix; ``.mp4`` where the program ffmpeg is missing; a run of one moment.
        MissingExtraError: matplotlib is missing.
    """
    refuse_swapped("export_film", model, run)
    require_model(model, "export_film")
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise UnsupportedError(f"export_film: {path}: films are written as {' or '.join(FORMATS)}: give such a suffix")
    if suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise UnsupportedError(
            "export_film: writing .mp4 needs the program ffmpeg, which is not on the path: install it, or write a .gif"
        )
    if not (rate > 0 and speed > 0):
        raise ValueError(f"export_film: rate {rate!r} and speed {speed!r} must be positive")
    times = np.asarray(run["time"], dtype=float)
    if len(times) < 2:
        raise UnsupportedError("export_film: the run has one moment only: wt.plot draws a picture of it")
    lasts = float(times[-1] - times[0]) / speed
    shown = scene(model, run, frames=max(2, round(lasts * rate) + 1), exaggeration=exaggeration)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"film{suffix}"
        _write(shown, draft, (len(shown.times) - 1) / lasts, size, layers)
        return write_whole(path, draft.read_bytes())


def _write(shown: Scene, draft: Path, rate: float, size: tuple[int, int], layers: Collection[str]) -> None:
    try:
        import matplotlib
        from matplotlib.animation import FFMpegWriter, PillowWriter
    except ImportError as missing:
        raise MissingExtraError("a film", "matplotlib", "plot") from missing
    from whippletree.view.picture_figure import PictureFigure

    settings: Any = style.FIGURE
    with matplotlib.rc_context(settings | {"savefig.dpi": INCH}):
        figure = PictureFigure(figsize=(size[0] / INCH, size[1] / INCH), dpi=INCH)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        low, high = _window(shown, size)
        kind: Any = PillowWriter if draft.suffix == ".gif" else FFMpegWriter
        writer = kind(fps=rate)
        with writer.saving(figure, str(draft), INCH):
            for moment, time in enumerate(shown.times):
                axes.clear()
                draw(axes, shown, (moment,), layers)
                axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
                axes.set_axis_off()
                axes.text(0.02, 0.03, f"{time:.2f} s", transform=axes.transAxes, color="#5d6873")
                writer.grab_frame()


def _window(shown: Scene, size: tuple[int, int]) -> tuple[Array, Array]:
    """Lowest and highest corner of the picture, (2,) each: all that bodies reach, in the proportions of the film."""
    low, high = shown.extent()
    middle, half = (low + high) / 2, (high - low) / 2
    proportions = np.array(size) / size[1]
    reach = (1 + 2 * AIR) * float(np.max(half / proportions)) or 1.0
    return middle - reach * proportions, middle + reach * proportions
