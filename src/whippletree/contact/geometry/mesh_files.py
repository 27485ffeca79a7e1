"""Corners of the mesh files that shapes name."""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, ModelError, quoted
from whippletree.model import Geometry


def file_vertices(geometry: Geometry) -> Array:
    """All vertices (n, 3) of the file that a mesh names, in the geometry's frame, m.

    Raises:
        ModelError: the file is not there, may not be opened or cannot be read.
    """
    from whippletree.contact.geometry.meshes.mesh_formats import (
        read_surfaces,
    )  # only models with mesh files pay for this import

    where, file = f"geometry {geometry.name!r}", geometry.file
    if file is None:
        named = geometry.parameters.get("file")
        outside = f"there is no file {str(named)!r} in the folder of its model; elsewhere path= must name it"
        found = "it names no file" if named is None else outside
        raise ModelError(where, [f"a mesh needs vertices (n, 3) or a mesh file: {found}"])
    try:
        surfaces = read_surfaces(file)
    except FileError as error:
        raise ModelError(where, [f"the mesh file {str(file)!r} cannot be read: {error.faults[0]}"]) from None
    except OSError as error:
        found = f"there is no file {str(file)!r}" if isinstance(error, FileNotFoundError) else str(error)
        raise ModelError(where, [f"a mesh needs vertices (n, 3) or a mesh file: {found}"]) from None
    try:
        scale = np.array(geometry.parameters.get("scale", (1, 1, 1)), dtype=float).reshape(3)
    except (TypeError, ValueError, OverflowError):
        given = quoted(geometry.parameters["scale"])
        raise ModelError(where, [f"the scale of a mesh must be three numbers, got {given}"]) from None
    return np.asarray(np.concatenate([surface.vertices for surface in surfaces]) * scale)
