"""Closed loops in a URDF: elements that people have added to a format of trees.

``<constraint>``, as proposed for urdfdom, describes a joint that was cut, with an origin and an axis on both links::

    <constraint name="pin" type="revolute">
      <parent link="coupler"/> <parent_origin xyz="0.3 0 0" rpy="0 0 0"/> <parent_axis xyz="0 1 0"/>
      <child link="rocker"/> <child_origin xyz="0 0 0.2"/> <child_axis xyz="0 1 0"/>
    </constraint>

``<loop_joint>``, of Drake's early files, does so with ``<link1 link= xyz= rpy=>``, ``<link2 …>`` and one ``<axis>``.
Each becomes a constraint between two frames, ``NAME/1`` and ``NAME/2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.xml import Reader, line_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

CLOSING = {
    "revolute": "hinge",
    "continuous": "hinge",
    "prismatic": "slider",
    "cylindrical": "cylindrical",
    "universal": "universal",
    "cardan": "universal",
    "spherical": "point",
    "ball": "point",
    "fixed": "weld",
}
"""Types of joints that were cut, and the constraints that close them."""

_ORIGIN, _AXIS = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)


def add_loops(reader: Reader, root: Element, names: dict[str, str]) -> None:
    """Every loop of a robot to the draft's builder; ``names`` are the bodies of the links."""
    for element in root.findall("constraint"):
        ends = [_end(reader, element, word) for word in ("parent", "child")]
        axes = [_vector(reader, element, f"{word}_axis") for word in ("parent", "child")]
        _close(reader, element, names, ends, axes)
    for element in root.findall("loop_joint"):
        found = [reader.child(element, word, required=True) for word in ("link1", "link2")]
        if any(part is None for part in found):
            continue
        ends = [(reader.text(part, "link"), *_place(reader, part)) for part in found if part is not None]
        _close(reader, element, names, ends, [_vector(reader, element, "axis")] * 2)


def _end(reader: Reader, element: Element, word: str) -> tuple[str, tuple[float, ...], Array]:
    """Link, position and rotation of one side of a ``<constraint>``."""
    link, origin = reader.child(element, word, required=True), reader.child(element, f"{word}_origin")
    place = (_ORIGIN, np.eye(3)) if origin is None else _place(reader, origin)
    return ("" if link is None else reader.text(link, "link"), *place)


def _place(reader: Reader, element: Element) -> tuple[tuple[float, ...], Array]:
    rotation = rotations.from_rpy(*reader.numbers(element, "rpy", _ORIGIN))
    return reader.numbers(element, "xyz", _ORIGIN), reader.draft.rotation(rotation)


def _vector(reader: Reader, element: Element, word: str) -> Array | None:
    """A unit axis; None where the file gives none."""
    found = reader.child(element, word)
    if found is None:
        return None
    axis = np.array(reader.numbers(found, "xyz", _AXIS))
    length = float(np.linalg.norm(axis))
    if not length:
        reader.fault(found, f"xyz={found.get('xyz')!r} has no direction")
        return None
    return axis / length


def _close(
    reader: Reader,
    element: Element,
    names: dict[str, str],
    ends: list[tuple[str, tuple[float, ...], Array]],
    axes: list[Array | None],
) -> None:
    name, kind = reader.text(element, "name"), str(element.get("type") or "")
    for link, *_ in ends:
        if link not in names:
            reader.fault(element, f"names the unknown link {link!r}{reader.draft.hint(link, names)}")
            return
    if kind not in CLOSING:
        reader.fault(element, f"has type {kind!r}; known: {', '.join(CLOSING)}{reader.draft.hint(kind, CLOSING)}")
        return
    first, second = (np.array(_AXIS) if axis is None else axis for axis in axes)
    second = first if axes[1] is None and CLOSING[kind] != "universal" else second
    numbers: dict[str, Any] = {}
    turn = np.eye(3)
    if CLOSING[kind] == "universal":
        numbers = {"axis": _tuple(first), "second_axis": _tuple(second)}
    elif CLOSING[kind] in ("hinge", "slider", "cylindrical"):
        numbers = {"axis": _tuple(first)}
        turn = _turn(first, second)  # the child's frame, turned so that the axis has the same numbers in both
    for number, (link, position, rotation) in enumerate(ends, start=1):
        placed = reader.draft.rotation(rotation @ turn) if number == 2 else rotation
        reader.draft.builder.frame(f"{name}/{number}", names[link], position=position, rotation=placed)
    reader.draft.declare("constraint", name, line_of(element))
    reader.draft.builder.constraint(name, CLOSING[kind], f"{name}/1", f"{name}/2", **numbers)


def _tuple(axis: Array) -> tuple[float, ...]:
    return tuple(float(x) for x in axis)


def _turn(a: Array, b: Array) -> Array:
    """A rotation (3, 3) that brings the unit vector a onto b, the short way."""
    normal = np.cross(a, b)
    sine, cosine = float(np.linalg.norm(normal)), float(a @ b)
    if sine == 0 and cosine > 0:
        return np.eye(3)
    if sine == 0:
        normal = np.cross(a, np.eye(3)[int(np.argmin(np.abs(a)))])
        sine = float(np.linalg.norm(normal))
        return rotations.about(normal / sine, np.pi)
    return rotations.about(normal / sine, float(np.arctan2(sine, cosine)))
