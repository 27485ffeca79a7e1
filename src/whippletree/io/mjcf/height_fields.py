"""Height fields of MJCF: heights on a grid, read by MuJoCo itself (inline, PNG, or its own binary format)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from whippletree.files.bounded_files import limit_text, limits, read_bounded, resolve_inside
from whippletree.io.draft import Draft

_READS = (".png", ".hf", ".bin")
"""Endings of files of heights."""


def height_field(draft: Draft, asset: Any, near: Path, found: Path) -> dict[str, Any]:
    """Kind and parameters of a geom that shows an asset: heights (n, m) in m, first index along x, and cells (dx, dy).

    ``near`` is the folder that its file must be in, ``found`` where the file is. The block of MuJoCo below the heights
    (the fourth size) is not used: everything below the surface is ground, and beyond its border it goes on straight.
    """
    x, y, top, _ = (float(s) for s in asset.size)
    grid = _compiled(draft, asset, near, found)
    if grid is None:
        return {"kind": "height_field", "asset": asset.name}
    n, m = grid.shape
    # numbers of a file: tuples, as all parameters are
    heights = tuple(map(tuple, (top * grid).tolist()))
    return {"kind": "height_field", "asset": asset.name, "heights": heights, "cell": (2 * x / (n - 1), 2 * y / (m - 1))}


def _compiled(draft: Draft, asset: Any, near: Path, found: Path) -> Any:
    """The heights from 0 to 1 as MuJoCo scales them, first index along x; None if the file is not opened."""
    import mujoco

    words: dict[str, Any] = {"nrow": asset.nrow, "ncol": asset.ncol, "userdata": asset.userdata}
    if asset.file:
        where = f"height field {asset.name!r}: its file {asset.file!r}"
        file = resolve_inside(near, found)
        if file is None:
            draft.notes.append(f"{where} is not in the model's folder: the field has no heights")
            return None
        if file.suffix.lower() not in _READS:
            draft.fault(f"{where} is no file of heights that is read ({', '.join(_READS)})", None)
            return None
        cells = _cells(file)
        if cells > limits.height_cells:
            draft.fault(limit_text("height_cells", f"{where} has {cells:,} heights"), None)
            return None
        words = {"file": str(file)}
    alone = mujoco.MjSpec()
    alone.add_hfield(name="field", size=asset.size, content_type=asset.content_type, **words)
    try:
        model = alone.compile()
    except ValueError as error:
        reason = str(error).splitlines()[0]
        draft.fault(f"height field {asset.name!r} cannot be read: {reason}", None)
        return None
    rows, columns = int(model.hfield_nrow[0]), int(model.hfield_ncol[0])
    # MuJoCo's rows go along y
    return np.array(model.hfield_data, dtype=float).reshape(rows, columns).T


def _cells(file: Path) -> int:
    """How many heights a file says that it holds, before anything is unpacked.

    A PNG picture tells its width and height in bytes 16 to 24, most significant first. MuJoCo's own format begins with
    its rows and columns, and has four bytes for each height.
    """
    data = read_bounded(file)
    if data[:4] == b"\x89PNG":
        width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
        return width * height
    return len(data) // 4
