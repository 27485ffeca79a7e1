"""Meshes from files, for pictures: STL, OBJ and Collada, with nothing but NumPy and lxml.

A file that cannot be read is no reason to refuse a picture: :func:`read_mesh` answers with None, and the body is drawn
as a stick figure. Textures are not read; Collada's plain colours are.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whippletree.view.solids import Array, Mesh
from whippletree.view.style import Color

LARGEST_FILE = 64 * 2**20
"""Bytes; a larger mesh is not worth its waiting time in a picture."""


class Piece(NamedTuple):
    """A part of a mesh file with one colour; None where the file says nothing of it."""

    mesh: Mesh
    color: Color | None


@lru_cache(maxsize=256)
def read_mesh(path: Path) -> tuple[Piece, ...] | None:
    """The pieces of a mesh file, in its own units (Collada: m); None for a file that cannot be read."""
    readers = {".stl": read_stl, ".obj": read_obj, ".dae": read_collada}
    reader = readers.get(path.suffix.lower())
    try:
        if reader is None or path.stat().st_size > LARGEST_FILE:
            return None
        pieces = reader(path.read_bytes())
    # lxml's errors are SyntaxErrors; nodes that hold each other never end
    except (OSError, ValueError, LookupError, SyntaxError, TypeError, AttributeError, RecursionError):
        return None
    sound = [p for p in pieces if len(p.mesh.faces) and np.isfinite(p.mesh.vertices).all()]
    return tuple(sound) or None


def read_stl(data: bytes) -> list[Piece]:
    """Binary or text."""
    count = int(np.frombuffer(data, "<u4", 1, 80)[0]) if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        corners = np.frombuffer(data, record, count, 84)["corners"].astype(float)
    else:
        lines = (line.split() for line in data.decode("ascii", "replace").splitlines())
        numbers = [[float(x) for x in words[1:4]] for words in lines if words[:1] == ["vertex"]]
        corners = np.array(numbers).reshape(-1, 3, 3)
    return [Piece(welded(corners.reshape(-1, 3)), None)]


def read_obj(data: bytes) -> list[Piece]:
    """Vertices and faces; polygons become fans of triangles."""
    vertices: list[list[float]] = []
    faces: list[list[int]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            corners = [int(word.split("/")[0]) for word in words[1:]]
            corners = [c - 1 if c > 0 else len(vertices) + c for c in corners]
            faces += [[corners[0], corners[i], corners[i + 1]] for i in range(1, len(corners) - 1)]
    array, triangles = np.array(vertices, dtype=float), np.array(faces, dtype=int).reshape(-1, 3)
    return [Piece(welded(array[triangles].reshape(-1, 3)), None)]


def read_collada(data: bytes) -> list[Piece]:
    """Every geometry that the scene instantiates, in m.

    The file's own axes are kept whatever its ``up_axis`` says: robots are described that way, because the viewers that
    their authors looked at do so.
    """
    from lxml import etree

    # one list of numbers may be long: LARGEST_FILE is the limit here, not the parser's own
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, remove_comments=True)
    root = etree.fromstring(data, parser)
    for element in root.iter("*"):
        element.tag = str(element.tag).rpartition("}")[2]
    named: dict[str, Any] = {str(element.get("id")): element for element in root.iter("*") if element.get("id")}
    unit = root.find("asset/unit")
    whole = np.diag([float(unit.get("meter", 1)) if unit is not None else 1.0] * 3 + [1.0])
    pieces: list[Piece] = []
    for scene in root.findall("library_visual_scenes/visual_scene"):
        for node in scene.findall("node"):
            pieces += _node_pieces(node, whole, named)
    return pieces


def _node_pieces(node: Any, outer: Array, named: dict[str, Any]) -> list[Piece]:
    pose = outer @ _node_pose(node)
    pieces: list[Piece] = []
    for instance in node.findall("instance_geometry"):
        geometry = named[instance.get("url", "#")[1:]]
        materials = {m.get("symbol"): m.get("target", "#")[1:] for m in instance.iter("instance_material")}
        for part in geometry.findall("mesh/*"):
            if part.tag in ("triangles", "polylist", "polygons"):
                color = _material_color(materials.get(part.get("material")), named)
                pieces.append(Piece(welded(_corners(part, named)).moved(pose), color))
    for child in node.findall("node"):
        pieces += _node_pieces(child, pose, named)
    for instance in node.findall("instance_node"):
        pieces += _node_pieces(named[instance.get("url", "#")[1:]], pose, named)
    return pieces


def _node_pose(node: Any) -> Array:
    """The product of a node's transforms, in their order."""
    pose = np.eye(4)
    for step in node:
        if step.tag not in ("matrix", "translate", "scale", "rotate"):
            continue
        numbers, own = _floats(step), np.eye(4)
        if step.tag == "matrix":
            own = numbers.reshape(4, 4)
        elif step.tag == "translate":
            own[:3, 3] = numbers
        elif step.tag == "scale":
            own[:3, :3] = np.diag(numbers)
        else:
            x, y, z = numbers[:3] / np.linalg.norm(numbers[:3])
            hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            angle = np.deg2rad(numbers[3])
            own[:3, :3] += np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat
        pose = pose @ own
    return pose


def _corners(part: Any, named: dict[str, Any]) -> Array:
    """Corners of triangles, (3 m, 3), of one set of polygons."""
    inputs = part.findall("input")
    stride = 1 + max(int(i.get("offset", 0)) for i in inputs)
    vertex = next(i for i in inputs if i.get("semantic") == "VERTEX")
    source = next(i for i in named[vertex.get("source")[1:]].findall("input") if i.get("semantic") == "POSITION")
    positions = _floats(named[source.get("source")[1:]].find("float_array")).reshape(-1, 3)
    lists = [np.array((p.text or "").split(), dtype=int).reshape(-1, stride) for p in part.findall("p")]
    indices = np.concatenate(lists)[:, int(vertex.get("offset", 0))]
    if part.tag == "triangles":
        return np.asarray(positions[indices])
    counted = part.find("vcount")
    counts = [int(x) for x in counted.text.split()] if counted is not None else [len(p) for p in lists]
    starts = np.cumsum([0, *counts[:-1]])
    fans = [[s, s + i, s + i + 1] for s, n in zip(starts, counts, strict=True) for i in range(1, n - 1)]
    return np.asarray(positions[indices[np.array(fans, dtype=int).reshape(-1)]])


def _material_color(name: str | None, named: dict[str, Any]) -> Color | None:
    """The diffuse colour of a material; None where it is a texture or not told."""
    material = named.get(name or "")
    effect = None if material is None else material.find("instance_effect")
    found = None if effect is None else named[effect.get("url", "#")[1:]].find(".//diffuse/color")
    if found is None:
        return None
    r, g, b = (float(x) for x in _floats(found)[:3])
    return (r, g, b)


def _floats(element: Any) -> Array:
    return np.array((element.text or "").split(), dtype=float)


# --- making meshes fit to be drawn ---


def welded(corners: Array) -> Mesh:
    """Triangles (3 m, 3) whose equal corners become one vertex."""
    owner, count = _groups(corners)
    vertices = np.empty((count, 3))
    vertices[owner] = corners
    faces = owner.reshape(-1, 3)
    return Mesh(vertices, faces[_proper(faces)])


def simplified(mesh: Mesh, limit: int) -> Mesh:
    """At most ``limit`` triangles: vertices that share a cell of a grid become one, at their mean.

    The grid is made coarser until the triangles are few enough; a mesh that is small already stays as it is.
    """
    extent = float(np.ptp(mesh.vertices, axis=0).max())
    cells, found = 128.0, mesh
    while len(found.faces) > limit and cells > 1:
        grid = np.floor((mesh.vertices - mesh.vertices.min(axis=0)) * (cells / extent))
        owner, count = _groups(grid)
        sums = np.stack([np.bincount(owner, x, count) for x in mesh.vertices.T], axis=1)
        faces = owner[mesh.faces]
        proper = _proper(faces)
        if not proper.any():
            break  # smaller than a cell
        found = Mesh(sums / np.bincount(owner)[:, None], faces[proper])
        cells *= 0.8
    return found


def creased(mesh: Mesh, angle: float = 0.7) -> Mesh:
    """Vertices doubled along edges where faces meet at more than ``angle`` (rad), so that smooth shading stops there.

    Corners of triangles are tied together across every smooth edge; each connected group becomes one vertex.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    faces, count = mesh.faces, len(mesh.faces)
    a, b, c = (mesh.vertices[faces[:, i]] for i in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), np.finfo(float).tiny)
    # each edge of each triangle as (low vertex, high vertex), with the corners of the triangle that lie there
    ends = np.concatenate([faces[:, [i, (i + 1) % 3]] for i in range(3)])
    first = 3 * np.arange(count)
    corners = np.concatenate([np.stack([first + i, first + (i + 1) % 3], axis=1) for i in range(3)])
    flip = ends[:, 0] > ends[:, 1]
    ends[flip], corners[flip] = ends[flip][:, ::-1], corners[flip][:, ::-1]
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, corners = ends[order], corners[order]
    same = (ends[1:] == ends[:-1]).all(axis=1)
    one, other = corners[:-1][same], corners[1:][same]
    smooth = (normals[one[:, 0] // 3] * normals[other[:, 0] // 3]).sum(axis=1) > np.cos(angle)
    rows, columns = one[smooth].reshape(-1), other[smooth].reshape(-1)
    ties = coo_array((np.ones(len(rows)), (rows, columns)), shape=(3 * count, 3 * count))
    groups, label = connected_components(ties, directed=False)
    vertices = np.empty((groups, 3))
    vertices[label] = mesh.vertices[faces.reshape(-1)]
    return Mesh(vertices, label.reshape(-1, 3))


def _groups(rows: Array) -> tuple[Array, int]:
    """For every row (n, 3) the number of its group of equal rows, and how many groups there are.

    (``np.unique`` over an axis does the same, ten times slower.)
    """
    order = np.lexsort(rows.T)
    new = np.concatenate([[True], (np.diff(rows[order], axis=0) != 0).any(axis=1)])
    owner = np.empty(len(rows), dtype=int)
    owner[order] = np.cumsum(new) - 1
    return owner, int(new.sum())


def _proper(faces: Array) -> Array:
    """Triangles with three different corners."""
    a, b, c = faces.T
    return np.asarray((a != b) & (b != c) & (c != a))
