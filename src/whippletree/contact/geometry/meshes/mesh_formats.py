"""Reading a mesh file by its suffix; STL (binary or text) and OBJ are read here, Collada in :mod:`.collada`.

Nothing but NumPy and lxml is needed. A library that reads many formats reads them in C++, where a damaged file can
hang or end the process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from whippletree.contact.geometry.meshes.collada import read_collada
from whippletree.contact.geometry.meshes.surface import Surface, weld_corners
from whippletree.errors import FileError
from whippletree.files.bounded_files import Stopwatch, limit_text, limits, read_bounded

LINES_BETWEEN_LOOKS = 10_000
"""Lines of a text that are read between two looks at the clock."""


def read_surfaces(path: Path) -> tuple[Surface, ...]:
    """The parts of a mesh file that have triangles, in its own units (Collada: m).

    Raises:
        FileError: another format, a damaged file, or one beyond :data:`whippletree.files.bounded_files.limits`.
        OSError: the file is not there or may not be read.
    """
    readers: dict[str, Callable[[Path, bytes], list[Surface]]]
    readers = {".stl": _read_stl, ".obj": _read_obj, ".dae": read_collada}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise FileError(str(path), [f"meshes are read from {', '.join(readers)}: convert this {suffix or 'file'}"])
    with np.errstate(all="ignore"):  # what overflows is refused below
        surfaces = [found for found in readers[suffix](path, read_bounded(path, "mesh file")) if len(found.faces)]
    if not surfaces:
        raise FileError(str(path), ["the file has no triangles"])
    if not all(np.isfinite(surface.vertices).all() for surface in surfaces):
        raise FileError(str(path), ["the file has corners that are not finite numbers"])
    return tuple(surfaces)


def _read_stl(path: Path, data: bytes) -> list[Surface]:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + 50 * count:
        require_triangles(path, count)
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        return [weld_corners(np.frombuffer(data, record, count, 84)["corners"].astype(float).reshape(-1, 3))]
    corners = [_numbers(path, line, words) for line, words in _lines(path, data) if words[0] == "vertex"]
    if len(corners) % 3 or not corners:
        text = f"not STL: neither the {84 + 50 * count} bytes of a binary file nor a text with three corners a triangle"
        raise FileError(str(path), [text if count >= 0 else "not STL: no text with three corners a triangle"])
    require_triangles(path, len(corners) // 3)
    return [weld_corners(np.array(corners))]


def _read_obj(path: Path, data: bytes) -> list[Surface]:
    """Vertices and faces; polygons become fans of triangles."""
    vertices: list[list[float]] = []
    faces: list[list[int]] = []
    for line, words in _lines(path, data):
        if words[0] == "v":
            vertices.append(_numbers(path, line, words))
        elif words[0] == "f":
            corners = [_corner(path, line, word, len(vertices)) for word in words[1:]]
            faces += [[corners[0], corners[i], corners[i + 1]] for i in range(1, len(corners) - 1)]
            require_triangles(path, len(faces))
    array, triangles = np.array(vertices, dtype=float).reshape(-1, 3), np.array(faces, dtype=int).reshape(-1, 3)
    if triangles.size and triangles.max() >= len(array):
        fault = f"a face names the corner {triangles.max() + 1}, and there are {len(array)}"
        raise FileError(str(path), [fault])
    return [weld_corners(array[triangles].reshape(-1, 3))]


def _lines(path: Path, data: bytes) -> Iterator[tuple[int, list[str]]]:
    """The lines of a text that are not empty, in words, with their numbers."""
    clock = Stopwatch(path)
    lines = enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
    while some := list(itertools.islice(lines, LINES_BETWEEN_LOOKS)):
        clock.check()
        yield from ((number, words) for number, line in some if (words := line.split()))


def _numbers(path: Path, line: int, words: list[str]) -> list[float]:
    """The three coordinates of a corner."""
    try:
        x, y, z = (float(word) for word in words[1:4])
    except ValueError:
        raise FileError(str(path), [f"line {line}: a corner needs three numbers"]) from None
    return [x, y, z]


def _corner(path: Path, line: int, word: str, count: int) -> int:
    """The index of a corner of a face: counted from 1, or backwards from the last one, -1."""
    try:
        number = int(word.split("/")[0])
    except ValueError:
        number = 0
    index = number - 1 if number > 0 else count + number
    if number == 0 or not 0 <= index < limits.file_bytes:  # each corner takes more than a byte
        raise FileError(str(path), [f"line {line}: a face names a corner that is not there"])
    return index


def require_triangles(path: Path, count: int) -> None:
    """Refuse too many triangles.

    Raises:
        FileError: beyond ``limits.mesh_triangles``.
    """
    if count > limits.mesh_triangles:
        raise FileError(str(path), [limit_text("mesh_triangles", f"the file has {count:,} triangles")])
