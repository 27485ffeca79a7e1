"""Collada: every geometry that the scene of a file instantiates, in m.

The file's own axes are kept whatever its ``up_axis`` says: robots are described that way, because the viewers that
their authors looked at do so. Textures are not read; plain colours are.

A scene may hold a node many times, and that node another one: what it comes to is counted while the scene is walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.meshes.surface import Surface, weld_corners
from whippletree.errors import FileError, quoted
from whippletree.files.bounded_files import Stopwatch, check_xml, limit_text, limits

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
                    yield surface.moved(pose)
            inner = [*node.findall("node"), *(self._referred(each, "url") for each in node.findall("instance_node"))]
            waiting += [(each, pose, depth + 1) for each in reversed(inner)]

    @cached_property
    def _unit(self) -> Array:
        unit = self._root.find("asset/unit")
        meter = 1.0 if unit is None else self._floats(unit, unit.get("meter", "1"), 1)[0]
        return np.diag([meter, meter, meter, 1.0])

    def _instance(self, instance: Any) -> list[Surface]:
        geometry = self._referred(instance, "url")
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
        inputs = self._referred(vertex, "source").findall("input")
        source = next((each for each in inputs if each.get("semantic") == "POSITION"), None)
        if source is None:
            raise self._fault(vertex, "leads to no POSITION")
        numbers = self._referred(source, "source").find("float_array")
        if numbers is None:
            raise self._fault(source, "leads to no list of numbers")
        found = self._floats(numbers, numbers.text)
        if len(found) % 3:
            raise self._fault(numbers, f"has {len(found)} numbers, expected three for each corner")
        return found.reshape(-1, 3)

    def _color(self, name: str | None) -> tuple[float, float, float] | None:
        """The diffuse colour of a material; None where it is a texture or not told."""
        if name not in self._colors:
            material = self._named.get(name or "")
            effect = None if material is None else material.find("instance_effect")
            found = None if effect is None else self._referred(effect, "url").find(".//diffuse/color")
            numbers = [] if found is None else [float(x) for x in self._floats(found, found.text)]
            self._colors[name] = (numbers[0], numbers[1], numbers[2]) if len(numbers) >= 3 else None
        return self._colors[name]

    # --- values of elements ---

    def _referred(self, element: Any, key: str) -> Any:
        name = str(element.get(key, ""))
        if name[1:] not in self._named or not name.startswith("#"):
            raise self._fault(element, f"names {quoted(name)}, which the file does not have")
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
