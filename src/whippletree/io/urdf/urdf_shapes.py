"""Poses and shapes of URDF elements. Shapes are kept as data; mesh files are named, never opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.xml import Reader

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def origin(reader: Reader, element: Element) -> tuple[tuple[float, ...], Array]:
    """Position (3,) and rotation (3, 3) of an element's ``<origin>``; identity where there is none."""
    found = reader.child(element, "origin")
    if found is None:
        return (0.0, 0.0, 0.0), np.eye(3)
    position = reader.numbers(found, "xyz", (0.0, 0.0, 0.0))
    x, y, z, w = reader.numbers(found, "quat_xyzw", (0.0, 0.0, 0.0, 1.0))
    if found.get("quat_xyzw") is None:
        return position, reader.draft.rotation(rotations.from_rpy(*reader.numbers(found, "rpy", (0.0, 0.0, 0.0))))
    if found.get("rpy") is not None:
        reader.fault(found, "has both rpy and quat_xyzw: give one of them")
    if not any((w, x, y, z)):
        reader.fault(found, "quat_xyzw is zero, which is no rotation")
        return position, np.eye(3)
    return position, reader.draft.rotation(rotations.from_quaternion((w, x, y, z)))


def shared_colors(root: Element) -> dict[str | None, Element]:
    """The ``<color>`` of each material of the robot, by the material's name."""
    colors: dict[str | None, Element] = {}
    for material in root.findall("material"):
        color = material.find("color")
        if color is not None:
            colors.setdefault(material.get("name"), color)
    return colors


def read_shapes(reader: Reader, colors: dict[str | None, Element], link: Element, body: str) -> None:
    """Add every shape of a link; one is called ``LINK/visual/0``, ``LINK/collision/1``, …"""
    for use in ("visual", "collision"):
        # some published files put several shapes into one element: keep them all
        shapes = [(holder, shape) for holder in link.findall(use) for shape in holder.iterfind("geometry/*")]
        for number, (holder, shape) in enumerate(shapes):
            name = f"{link.get('name')}/{use}/{number}"
            parameters = _parameters(reader, shape, name)
            if parameters is None:
                continue
            if holder.get("name"):
                parameters["label"] = str(holder.get("name"))
            color = _color(reader, colors, holder)
            if color is not None:
                parameters["color"] = color
            position, rotation = origin(reader, holder)
            reader.draft.builder.geometry(
                name,
                body,
                str(shape.tag),
                position=position,
                rotation=rotation,
                collides=use == "collision",
                visible=use == "visual",
                **parameters,
            )


def _parameters(reader: Reader, shape: Element, name: str) -> dict[str, Any] | None:
    """The numbers of a shape in m; None for a shape that is not known, which is counted as not used."""
    match shape.tag:
        case "box":
            return {"size": _positive(reader, shape, "size")}
        case "sphere":
            return {"radius": _positive(reader, shape, "radius")}
        case "cylinder" | "capsule":
            return {"radius": _positive(reader, shape, "radius"), "length": _positive(reader, shape, "length")}
        case "mesh":
            return _mesh(reader, shape, name)
        case _:
            return None


def _positive(reader: Reader, shape: Element, key: str) -> Any:
    value = reader.numbers(shape, key, (0.0, 0.0, 0.0)) if key == "size" else reader.number(shape, key)
    if shape.get(key) is None and key == "size":
        reader.fault(shape, "has no size")
    if any(number < 0 for number in (value if isinstance(value, tuple) else (value,))):
        reader.fault(shape, f"{key}={shape.get(key)!r} is negative")
    return value


def _mesh(reader: Reader, shape: Element, name: str) -> dict[str, Any]:
    file = reader.text(shape, "filename")
    parameters: dict[str, Any] = {"file": file, "scale": _scale(reader, shape)}
    found = reader.draft.mesh_file(file, name, "/collision/" in name) if file else None
    if found is not None:
        parameters["path"] = str(found)
    return parameters


def _scale(reader: Reader, shape: Element) -> tuple[float, ...]:
    """Three factors; a fourth one, of homogeneous coordinates, is left aside and told if it is 1."""
    words = (shape.get("scale") or "").split()
    if len(words) == 4 and words[3] in ("1", "1.0"):
        reader.draft.notes.append(f"{reader.where(shape)}: scale={shape.get('scale')!r}: its fourth number has no use")
        shape.set("scale", " ".join(words[:3]))
    return reader.numbers(shape, "scale", (1.0, 1.0, 1.0))


def _color(reader: Reader, colors: dict[str | None, Element], holder: Element) -> tuple[float, ...] | None:
    """Red, green, blue and opacity of a shape's material, its own or the robot's of that name."""
    material = holder.find("material")
    if material is None:
        return None
    color = material.find("color")
    if color is None:
        color = colors.get(material.get("name"))
    if color is None or color.get("rgba") is None:
        return None
    return reader.numbers(color, "rgba", (0.0, 0.0, 0.0, 1.0))
