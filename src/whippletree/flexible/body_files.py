"""Files of a single flexible body: NumPy archives."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError
from whippletree.files.bounded_files import read_bounded
from whippletree.files.whole_files import write_whole
from whippletree.model.flexible_body import (
    FlexibleBody,
    FlexibleFrame,
    flexible_faults,
    frozen_integrals,
)
from whippletree.model.frozen import frozen_array
from whippletree.spatial.modal import ModalIntegrals

FORMAT = 1
"""Version of the archive."""

FRAME_WORDS = ("pose", "shapes", "slopes", "shortening")
"""Arrays of a frame; the last one may be missing."""


def save_body(body: FlexibleBody, path: str | os.PathLike[str]) -> None:
    """Write a flexible body to a NumPy archive (``.npz``) that :func:`load_body` reads back to the last bit."""
    arrays: dict[str, Any] = {"whippletree": np.array(FORMAT), "modes": np.array(body.modes, dtype=str)}
    arrays |= {
        f"integrals.{k}": np.asarray(v, dtype=float) for k, v in body.integrals._asdict().items() if v is not None
    }
    arrays |= {word: np.asarray(getattr(body, word), dtype=float) for word in ("stiffness", "damping", "outline")}
    arrays["outline_shapes"] = np.asarray(body.outline_shapes, dtype=float)
    arrays["outline_edges"] = np.array(body.outline_edges, dtype=int).reshape(-1, 2)
    arrays["frames"] = np.array([frame.name for frame in body.frames], dtype=str)
    for k, frame in enumerate(body.frames):
        for word in FRAME_WORDS:
            if getattr(frame, word) is not None:
                arrays[f"frame{k}.{word}"] = np.asarray(getattr(frame, word), dtype=float)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_whole(path, stream.getvalue())


def load_body(path: str | os.PathLike[str]) -> FlexibleBody:
    """Read a flexible body that :func:`save_body` wrote.

    Raises:
        FileError: listing every fault.
    """
    place = Path(path)
    try:
        with np.load(io.BytesIO(read_bounded(place, "file of a flexible body")), allow_pickle=False) as archive:
            data = {name: archive[name] for name in archive.files}
        found = _body_of(data)
    except (ValueError, OSError, KeyError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileError(str(place), [f"this is no archive of a flexible body: {reason}"]) from None
    if faults := flexible_faults("flexible body", found):
        raise FileError(str(place), faults)
    return found


def _body_of(data: dict[str, Array]) -> FlexibleBody:
    if int(data["whippletree"]) != FORMAT:
        raise ValueError(f"it has format {int(data['whippletree'])}; this version reads format {FORMAT}")
    given: dict[str, Any] = {
        name.removeprefix("integrals."): value for name, value in data.items() if name.startswith("integrals.")
    }
    given["mass"] = float(given["mass"])
    frames = []
    for k, name in enumerate(data["frames"].tolist()):
        pose, shapes, slopes = (frozen_array(x, x.shape) for x in (data[f"frame{k}.{w}"] for w in FRAME_WORDS[:3]))
        bend = data.get(f"frame{k}.shortening")
        frames.append(
            FlexibleFrame(name, pose, shapes, slopes, None if bend is None else frozen_array(bend, bend.shape))
        )
    words = ("stiffness", "damping", "outline", "outline_shapes")
    stiffness, damping, outline, bent = (frozen_array(data[word], data[word].shape) for word in words)
    edges = tuple((int(a), int(b)) for a, b in data["outline_edges"])
    names = tuple(data["modes"].tolist())
    return FlexibleBody(
        frozen_integrals(ModalIntegrals(**given)), stiffness, damping, tuple(frames), names, outline, bent, edges
    )
