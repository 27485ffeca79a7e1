"""Reading a mesh file by its suffix: STL (binary or text), OBJ and Collada, as triangles with welded corners.

It is read within the limits of :mod:`whippletree.files.bounded_files`. Nothing but NumPy and lxml is needed. A library
that reads many formats reads them in C++, where a damaged file can hang or end the process.

The own axes of a Collada file are kept whatever its ``up_axis`` says: robots are described that way, because the
viewers that their authors looked at do so. Textures are not read; plain colours are.

A scene may hold a node many times, and that node another one: what it comes to is counted while the scene is walked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, quote
from whippletree.files.bounded_files import Stopwatch, check_xml, limit_text, limits, read_bounded

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


# --- Collada ----------------------------------------------------------------------------------------------------------


_POLYGONS = ("triangles", "polylist", "polygons")


def read_collada(path: Path, data: bytes) -> list[Surface]:
    """The surfaces of a Collada file.

    Raises:
        FileError: not well-formed, parts that are missing or do not fit, or beyond the limits.
    """
    from lxml import etree

    check_xml(path, data)
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise FileError(str(path), ["the file declares XML entities, which are never expanded: write the values out"])
    # one list of numbers may be long: the size of the file is the limit here, not the parser's own
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise FileError(str(path), [f"line {error.lineno}: not well-formed XML: {error.msg}"]) from None
    for element in root.iter("*"):
        element.tag = str(element.tag).rpartition("}")[2]
    return list(_Scene(path, root).surfaces())


class _Scene:
    """A file's elements by id, and what was already read of them."""

    def __init__(self, path: Path, root: Any) -> None:
        self._path = path
        self._root = root
        self._clock = Stopwatch(path)
        self._named: dict[str, Any] = {str(each.get("id")): each for each in root.iter("*") if each.get("id")}
        self._parts: dict[Any, list[tuple[str | None, Surface]]] = {}
        self._colors: dict[str | None, tuple[float, float, float] | None] = {}

    def surfaces(self) -> Iterator[Surface]:
        """Every geometry in its places: each node's own, then those of the nodes in it, in order."""
        roots = self._root.findall("library_visual_scenes/visual_scene/node")
        waiting = [(node, self._unit, 1) for node in reversed(roots)]
        instances = triangles = 0
        while waiting:
            node, outer, depth = waiting.pop()
            instances += 1
            self._require("mesh_instances", instances, "nodes, copies included", node)
            self._require("depth", depth, "nodes inside each other, perhaps in a circle", node)
            self._clock.check()
            pose = outer @ self._pose(node)
            for instance in node.findall("instance_geometry"):
                for surface in self._instance(instance):
                    triangles += len(surface.faces)
                    self._require("mesh_triangles", triangles, "triangles, copies included", instance)
                    yield surface.move(pose)
            inner = [*node.findall("node"), *(self._referent(each, "url") for each in node.findall("instance_node"))]
            waiting += [(each, pose, depth + 1) for each in reversed(inner)]

    @cached_property
    def _unit(self) -> Array:
        unit = self._root.find("asset/unit")
        meter = 1.0 if unit is None else self._floats(unit, unit.get("meter", "1"), 1)[0]
        return np.diag([meter, meter, meter, 1.0])

    def _instance(self, instance: Any) -> list[Surface]:
        geometry = self._referent(instance, "url")
        materials = {m.get("symbol"): m.get("target", "#")[1:] for m in instance.iter("instance_material")}
        if geometry not in self._parts:
            parts = [part for part in geometry.findall("mesh/*") if part.tag in _POLYGONS]
            self._parts[geometry] = [(part.get("material"), weld_corners(self._corners(part))) for part in parts]
        parts = self._parts[geometry]
        return [surface._replace(color=self._color(materials.get(material))) for material, surface in parts]

    def _pose(self, node: Any) -> Array:
        """The product of a node's transforms, in their order."""
        pose = np.eye(4)
        for step in node:
            own = np.eye(4)
            if step.tag == "matrix":
                own = self._floats(step, step.text, 16).reshape(4, 4)
            elif step.tag == "translate":
                own[:3, 3] = self._floats(step, step.text, 3)
            elif step.tag == "scale":
                own[:3, :3] = np.diag(self._floats(step, step.text, 3))
            elif step.tag == "rotate":
                own[:3, :3] = self._turn(step)
            else:
                continue
            pose = pose @ own
        return pose

    def _turn(self, step: Any) -> Array:
        numbers = self._floats(step, step.text, 4)
        length = float(np.linalg.norm(numbers[:3]))
        if not 0 < length < np.inf:
            raise self._fault(step, "turns about an axis without direction")
        x, y, z = numbers[:3] / length
        hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        angle = np.deg2rad(numbers[3])
        return np.asarray(np.eye(3) + np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat)

    def _corners(self, part: Any) -> Array:
        """Corners of triangles, (3 m, 3), of one set of polygons."""
        inputs = part.findall("input")
        offsets = [self._integers(each, each.get("offset", "0"))[:1] for each in inputs]
        vertex = next((k for k, each in enumerate(inputs) if each.get("semantic") == "VERTEX"), None)
        if vertex is None or not all(len(offset) == 1 and 0 <= offset[0] <= len(inputs) for offset in offsets):
            raise self._fault(part, "has no input VERTEX, or offsets that are none")
        stride = 1 + max(int(offset[0]) for offset in offsets)
        lists = [self._integers(p, p.text) for p in part.findall("p")]
        if any(len(indices) % stride for indices in lists):
            raise self._fault(part, f"has lists of indices that are no multiple of {stride}")
        used = np.concatenate([np.zeros(0, dtype=int), *lists]).reshape(-1, stride)[:, int(offsets[vertex][0])]
        positions = self._positions(inputs[vertex])
        if used.size and not 0 <= used.min() <= used.max() < len(positions):
            raise self._fault(part, f"names corners that are not among the {len(positions)} of its source")
        if part.tag == "triangles":
            return np.asarray(positions[used[: len(used) // 3 * 3]])
        counted = part.find("vcount")
        sizes = [len(p) // stride for p in lists] if counted is None else self._integers(counted, counted.text)
        return np.asarray(positions[used[self._fans(part, np.asarray(sizes, dtype=int), len(used))]])

    def _fans(self, part: Any, sizes: Array, corners: int) -> Array:
        """Indices (3 m,) of triangles that polygons with so many corners make, the first corner in all of a polygon."""
        if (sizes.size and (sizes.min() < 0 or sizes.max() > corners)) or sizes.sum() != corners:
            raise self._fault(part, f"counts other corners of polygons than the {corners} that it lists")
        triangles = np.maximum(sizes - 2, 0)
        first = np.repeat(np.cumsum(sizes) - sizes, triangles)
        step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
        return np.stack([first, first + step + 1, first + step + 2], axis=1).reshape(-1)

    def _positions(self, vertex: Any) -> Array:
        inputs = self._referent(vertex, "source").findall("input")
        source = next((each for each in inputs if each.get("semantic") == "POSITION"), None)
        if source is None:
            raise self._fault(vertex, "leads to no POSITION")
        numbers = self._referent(source, "source").find("float_array")
        if numbers is None:
            raise self._fault(source, "leads to no list of numbers")
        found = self._floats(numbers, numbers.text)
        if len(found) % 3:
            raise self._fault(numbers, f"has {len(found)} numbers, expected three for each corner")
        return found.reshape(-1, 3)

    def _color(self, name: str | None) -> tuple[float, float, float] | None:
        """The diffuse colour of a material; None where it is a texture or not given."""
        if name not in self._colors:
            material = self._named.get(name or "")
            effect = None if material is None else material.find("instance_effect")
            found = None if effect is None else self._referent(effect, "url").find(".//diffuse/color")
            numbers = [] if found is None else [float(x) for x in self._floats(found, found.text)]
            self._colors[name] = (numbers[0], numbers[1], numbers[2]) if len(numbers) >= 3 else None
        return self._colors[name]

    # --- values of elements ---

    def _referent(self, element: Any, key: str) -> Any:
        name = str(element.get(key, ""))
        if name[1:] not in self._named or not name.startswith("#"):
            raise self._fault(element, f"names {quote(name)}, which the file does not have")
        return self._named[name[1:]]

    def _floats(self, element: Any, text: str | None, count: int | None = None) -> Array:
        try:
            numbers = np.array((text or "").split(), dtype=float)
        except ValueError:
            raise self._fault(element, "holds something that is not a number") from None
        if count is not None and len(numbers) != count:
            raise self._fault(element, f"has {len(numbers)} numbers, expected {count}")
        return numbers

    def _integers(self, element: Any, text: str | None) -> Array:
        try:
            return np.array((text or "").split(), dtype=np.int64)
        except (ValueError, OverflowError):
            raise self._fault(element, "holds something that is not an index") from None

    def _fault(self, element: Any, text: str) -> FileError:
        return FileError(str(self._path), [f"line {element.sourceline}: <{element.tag}> {text}"])

    def _require(self, limit: str, count: int, what: str, element: Any) -> None:
        if count > getattr(limits, limit):
            raise self._fault(element, limit_text(limit, f"brings the scene to {count:,} {what}"))


# --- surfaces: triangles with welded corners --------------------------------------------------------------------------


class Surface(NamedTuple):
    """A part of a mesh file: triangles, counter-clockwise seen from outside, with one colour."""

    vertices: Array
    """m, (n, 3)"""
    faces: Array
    """Indices of vertices, (m, 3)."""
    color: tuple[float, float, float] | None = None
    """Red, green, blue; None where the file says nothing of it."""

    def move(self, pose: Array) -> Surface:
        """Carried by a (4, 4) matrix, which may also scale, or mirror."""
        outside = self.faces if np.linalg.det(pose[:3, :3]) >= 0 else self.faces[:, ::-1]
        return Surface(self.vertices @ pose[:3, :3].T + pose[:3, 3], outside, self.color)


def weld_corners(corners: Array) -> Surface:
    """Triangles (3 m, 3) whose equal corners become one vertex; triangles without area in that sense are left out."""
    owner, count = group_equal_rows(corners)
    vertices = np.empty((count, 3))
    vertices[owner] = corners
    faces = owner.reshape(-1, 3)
    return Surface(vertices, faces[has_three_corners(faces)])


def group_equal_rows(rows: Array) -> tuple[Array, int]:
    """For every row (n, m) the number of its group of equal rows, and how many groups there are.

    (``np.unique`` over an axis does the same, ten times slower.)
    """
    order = np.lexsort(rows.T)
    new = np.concatenate([[True], (rows[order][1:] != rows[order][:-1]).any(axis=1)])[: len(rows)]
    owner = np.empty(len(rows), dtype=int)
    owner[order] = np.cumsum(new) - 1
    return owner, int(new.sum())


def has_three_corners(faces: Array) -> Array:
    """Which triangles (m, 3) have three different corners."""
    a, b, c = faces.T
    return np.asarray((a != b) & (b != c) & (c != a))
