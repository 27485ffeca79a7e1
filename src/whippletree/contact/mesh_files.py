"""Corners of mesh files, read by the collision library ``coal`` (extra ``contact``): STL, OBJ, COLLADA and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.errors import MissingExtraError, ModelError
from whippletree.model import Array, Geometry


def file_vertices(geometry: Geometry) -> Array:
    """All vertices (n, 3) of the file that a mesh names, in the geometry's frame, m.

    Raises:
        ModelError: the file is not there or cannot be read.
        MissingExtraError: if coal is not installed.
    """
    file = geometry.file
    if file is None or not file.is_file():
        found = "it names no file" if file is None else f"there is no file {str(file)!r}"
        raise ModelError(f"geometry {geometry.name!r}", [f"a mesh needs vertices (n, 3) or a mesh file: {found}"])
    try:
        import coal
    except ImportError:
        raise MissingExtraError("contact of mesh files", "coal", "contact") from None
    scale = np.array(geometry.parameters.get("scale", (1, 1, 1)), dtype=float)
    try:
        loaded: Any = coal.MeshLoader().load(str(file), scale)
    except ValueError:
        raise ModelError(f"geometry {geometry.name!r}", [f"the mesh file {str(file)!r} cannot be read"]) from None
    return np.array(loaded.vertices(), dtype=float)
