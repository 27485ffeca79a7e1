"""URDF: the robots of ROS.

What is read: links with their inertia and geometry, joints with limits and dynamics, mimic (kept as a constraint of
kind ``coupling``), simple transmissions (actuators), and elements that close loops
(:mod:`whippletree.io.loops_file`). What says nothing to this library (gazebo, …) is listed in ``model.source``,
never dropped without a word; of joints and springs in it a warning tells. A link without ``<inertial>`` is a massless
body.

The root link hangs from the world by a joint ``root_joint``: a weld, or free with ``base="free"``. A root link that is
called ``world`` and has no inertia *is* the world: its children hang from the world directly. Where that cannot be (it
has inertia, it is not the root, or it should float) the link is renamed, and the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import list_items, route
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.xml import Reader, line_of, tag_of
from whippletree.model import WORLD, Model

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


ROOT_JOINT = "root_joint"

KINDS = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "fixed": "weld",
    "floating": "free",
    "planar": "planar",
    "spherical": "spherical",
    "ball": "spherical",
}
"""URDF's joint types, and this library's. ``spherical`` (Bullet) and ``ball`` are not URDF's own."""

# the children and attributes that are read; all others are counted as not used
_CHILDREN = {
    "robot": "link joint material transmission constraint loop_joint",
    "link": "inertial visual collision",
    "inertial": "origin mass inertia",
    "visual": "origin geometry material",
    "collision": "origin geometry material",
    "geometry": "box cylinder sphere capsule plane mesh",
    "material": "color",
    "joint": "origin parent child axis limit dynamics mimic",
}
_ATTRIBUTES = {
    "robot": "name version",
    "origin": "xyz rpy quat_xyzw",
    "inertia": "ixx ixy ixz iyy iyz izz",
    "limit": "lower upper effort velocity",
    "dynamics": "damping friction",
    "mimic": "joint multiplier offset",
    "axis": "xyz",
    "joint": "name type",
}


@dataclass(eq=False)
class _UrdfJoint:
    """A joint as the file gives it."""

    name: str
    line: int | None
    type: str
    parent: str
    child: str
    position: tuple[float, ...]
    rotation: Array
    axis: tuple[float, ...]
    data: dict[str, Any] = field(default_factory=dict)
    mimic: tuple[str, float, float] | None = None
    """Leader, multiplier, offset."""


def read(
    path: Path,
    root: Element,
    *,
    base: str,
    folder: Path | None = None,
    actuators: bool = True,
    cut: Sequence[str] = (),
) -> Model:
    """A model from the ``<robot>`` element of a URDF file, with or without actuators.

    Raises:
        FileError: listing every fault with its line.
    """
    name = (root.get("name") or "").strip() or path.stem
    draft = Draft(path, name, folder=folder, cut=cut)
    reader = Reader(draft, ("link", "joint", "material", "constraint", "loop_joint"))
    _count_unused(draft, root)
    _tell_of_gazebo(draft, root)
    links = [link for link in root.findall("link") if reader.text(link, "name")]
    if not links:
        draft.fault("the robot has no links, so there is nothing to model", line_of(root))
    joints = _cut_cycles(draft, [_joint(reader, element) for element in root.findall("joint")])
    names = _attach(draft, {str(link.get("name")): link for link in links}, joints, base)
    colors = shared_colors(root)
    for link in links:
        body = names[str(link.get("name"))]
        if body != WORLD:
            _body(reader, link, body)
        read_shapes(reader, colors, link, body)
    for joint in joints:
        _add_joint(draft, joint, names)
    if root.find("constraint") is not None or root.find("loop_joint") is not None:
        # few robots have loops, and every first call would wait for the reader of loops and of our own files
        from whippletree.io.loops_file import add_loops

        add_loops(reader, root, names)
    _add_mimics(draft, joints)
    if actuators:
        _add_transmissions(draft, root, joints)
    return draft.finish("URDF")


def _tell_of_gazebo(draft: Draft, root: Element) -> None:
    """Name joints and springs in the simulator's own part of a file, which is not read.

    The rest of it says how the robot looks, what it measures and who drives it.
    """
    for element in root.findall("gazebo"):
        for joint in element.findall("joint"):
            name = (joint.get("name") or "").strip() or "without a name"
            draft.leave_out("joints in <gazebo>, by which loops may close (here loops=FILE closes them)", name)
        stiffness = (element.findtext("springStiffness") or "").strip()
        if stiffness.strip("0.+-"):
            draft.leave_out("springs in <gazebo>", (element.get("reference") or "").strip() or "without a reference")


def _count_unused(draft: Draft, element: Element) -> None:
    tag = str(element.tag)
    for key in element.attrib:
        if tag in _ATTRIBUTES and str(key) not in _ATTRIBUTES[tag].split():
            draft.unused[f"<{tag} {key!s}>"] += 1
    for child in element:
        if tag not in _CHILDREN:
            continue
        if child.tag in _CHILDREN[tag].split():
            _count_unused(draft, child)
        else:
            draft.unused[f"<{tag}/{tag_of(child)}>"] += 1


# --- the tree: who hangs from whom, and what the root hangs from ---


def _attach(draft: Draft, links: dict[str, Element], joints: list[_UrdfJoint], base: str) -> dict[str, str]:
    """Join the root to the world; returns the body name of each link."""
    carried = {joint.child for joint in joints}
    roots = [name for name in links if name not in carried]
    if len(roots) > 1:
        found = list_items(f"{name!r} (line {line_of(links[name])})" for name in roots)
        draft.fault(
            f"{len(roots)} links have no parent: {found}; a URDF is one tree, so every link but one needs a joint",
            line_of(links[roots[1]]),
        )
    names = {name: name for name in links}
    if WORLD in links:
        if roots == [WORLD] and _is_the_world(links[WORLD], joints, base):
            draft.notes.append(f"the root link {WORLD!r} is the world itself: its children hang from the world")
            return names
        names[WORLD] = fresh("world_link", links)
        held = [f"{joint.name} of {joint.child}" for joint in joints if joint.parent == WORLD]
        if base == "free" and roots == [WORLD] and held:
            draft.notes.append(
                f"base='free' lets the base float, which the file holds on the world: {list_items(held)}"
            )
        draft.notes.append(f"the link {WORLD!r} is the body {names[WORLD]!r}: {WORLD!r} names what never moves")
    root_joint = fresh(ROOT_JOINT, [joint.name for joint in joints])
    if root_joint != ROOT_JOINT:
        draft.notes.append(f"the joint that carries the root is {root_joint!r}: {ROOT_JOINT!r} is a joint of the file")
    # a second root is a fault already; joining it too keeps the builder from calling it disconnected
    for number, name in enumerate(roots):
        draft.builder.joint(f"{root_joint}{number or ''}", "free" if base == "free" else "weld", WORLD, names[name])
    return names


def _is_the_world(link: Element, joints: list[_UrdfJoint], base: str) -> bool:
    """Whether a root link called world stands for the world: it has no inertia and need not float itself."""
    first = {joint.type for joint in joints if joint.parent == WORLD}
    return link.find("inertial") is None and (base == "fixed" or first == {"floating"})


def _cut_cycles(draft: Draft, joints: list[_UrdfJoint]) -> list[_UrdfJoint]:
    """Note every cycle; returns the joints without those that close one, which hang from the world instead."""
    carrier = {joint.child: joint for joint in reversed(joints) if joint.child and joint.parent}
    order = {joint.name: number for number, joint in enumerate(joints)}
    settled: set[str] = set()
    cut: set[int] = set()
    for start in carrier:
        path: list[_UrdfJoint] = []
        name = start
        while name in carrier and name not in settled:
            settled.add(name)
            path.append(carrier[name])
            name = carrier[name].parent
        closing = next((k for k, joint in enumerate(path) if joint.child == name), None)
        if closing is not None:
            cycle = path[closing:][::-1]
            first = min(range(len(cycle)), key=lambda k: order[cycle[k].name])
            cycle = cycle[first:] + cycle[:first]
            way = route([cycle[0].parent, *(joint.child for joint in cycle)], "→")
            named = list_items(repr(joint.name) for joint in cycle)
            draft.fault(f"a cycle of joints {named} ({way}): none of these links hangs from the root", cycle[0].line)
            cut.add(id(path[closing]))
    return [replace(joint, parent=WORLD) if id(joint) in cut else joint for joint in joints]


# --- links ---


def _body(reader: Reader, link: Element, name: str) -> None:
    inertial = reader.child(link, "inertial")
    if inertial is None:
        reader.draft.body(name, 0.0, (0, 0, 0), (0, 0, 0), line_of(link))
        return
    position, rotation = origin(reader, inertial)
    mass = reader.child(inertial, "mass", required=True)
    inertia = reader.child(inertial, "inertia", required=True)
    moments = [0.0] * 6
    if inertia is not None:
        moments = [reader.number(inertia, key) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")]
    xx, yy, zz, xy, xz, yz = moments
    about_center = rotations.rotate_inertia(rotation, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    value = 0.0 if mass is None else reader.number(mass, "value")
    reader.draft.body(name, value, position, about_center, line_of(link))


# --- joints ---


def _joint(reader: Reader, element: Element) -> _UrdfJoint:
    position, rotation = origin(reader, element)
    joint = _UrdfJoint(
        name=reader.text(element, "name"),
        line=line_of(element),
        type=reader.text(element, "type"),
        parent=_end(reader, element, "parent"),
        child=_end(reader, element, "child"),
        position=position,
        rotation=rotation,
        axis=_axis(reader, element),
        data=_dynamics(reader, element),
    )
    if joint.type and joint.type not in KINDS:
        reader.fault(
            element, f"has type {joint.type!r}; known: {', '.join(KINDS)}{reader.draft.hint(joint.type, KINDS)}"
        )
    _limits(reader, element, joint)
    mimic = reader.child(element, "mimic")
    if mimic is not None:
        multiplier, offset = reader.number(mimic, "multiplier", 1.0), reader.number(mimic, "offset", 0.0)
        joint.mimic = (reader.text(mimic, "joint"), multiplier, offset)
    return joint


def _end(reader: Reader, element: Element, tag: str) -> str:
    found = reader.child(element, tag, required=True)
    return "" if found is None else reader.text(found, "link")


def _axis(reader: Reader, element: Element) -> tuple[float, ...]:
    found = reader.child(element, "axis")
    usual = (1.0, 0.0, 0.0)
    if found is None or element.get("type") in ("fixed", "floating", "spherical", "ball"):
        return usual  # published files give fixed joints an axis of zeros
    axis = reader.numbers(found, "xyz", usual)
    if not any(axis):
        reader.fault(found, f"xyz={found.get('xyz')!r} has no direction")
        return usual
    return axis


def _dynamics(reader: Reader, element: Element) -> dict[str, Any]:
    found = reader.child(element, "dynamics")
    if found is None:
        return {}
    return {key: reader.number(found, key, 0.0) for key in ("damping", "friction")}


def _limits(reader: Reader, element: Element, joint: _UrdfJoint) -> None:
    found = reader.child(element, "limit")
    if found is None:
        return
    for key, word in (("effort", "effort_limit"), ("velocity", "velocity_limit")):
        joint.data[word] = reader.number(found, key, np.inf, infinite=True)
        if joint.data[word] < 0:
            reader.fault(found, f"{key}={found.get(key)!r} is negative")
            joint.data[word] = np.inf
    if joint.type in ("revolute", "prismatic"):
        # URDF's rule: what a <limit> does not say is 0
        joint.data["lower"] = reader.number(found, "lower", 0.0, infinite=True)
        joint.data["upper"] = reader.number(found, "upper", 0.0, infinite=True)
        if joint.data["lower"] > joint.data["upper"]:
            # Bullet's way of saying that there is no limit; others let it pass
            ends = f"{joint.name} (from {joint.data.pop('lower'):g} to {joint.data.pop('upper'):g})"
            reader.draft.leave_out("limits whose lower end is above the upper one: the joint has none", ends)


def _add_joint(draft: Draft, joint: _UrdfJoint, names: dict[str, str]) -> None:
    if not joint.name or not joint.parent or not joint.child:
        return  # noted where it was read
    draft.declare("joint", joint.name, joint.line)
    kind = KINDS.get(joint.type, "weld")
    parent, child = names.get(joint.parent, joint.parent), names.get(joint.child, joint.child)
    pose: dict[str, Any] = {"position": joint.position, "rotation": joint.rotation, "axis": joint.axis}
    draft.builder.joint(joint.name, kind, parent, child, **pose, **joint.data)


def _add_mimics(draft: Draft, joints: list[_UrdfJoint]) -> None:
    """A mimic joint follows another, q = offset + multiplier · q_leader: a constraint of kind ``coupling``."""
    kinds = {joint.name: KINDS.get(joint.type, "weld") for joint in joints}
    for joint in joints:
        if joint.mimic is None or not joint.mimic[0]:
            continue
        leader, multiplier, offset = joint.mimic
        where = f"joint {joint.name!r}: <mimic>"
        add = partial(draft.builder.constraint, f"mimic {joint.name}")
        draft.declare("constraint", f"mimic {joint.name}", joint.line)
        if leader == joint.name:
            draft.fault(f"{where} names the joint itself", joint.line)
        elif not {kinds[joint.name], kinds.get(leader, "weld")} <= {"revolute", "prismatic", "weld"}:
            draft.fault(f"{where} needs two joints with one coordinate each (revolute or prismatic)", joint.line)
        elif kinds[joint.name] == "weld":
            draft.notes.append(f"{where} has no effect: the joint is fixed")
        elif leader not in kinds:
            # published robots have this: keep it as something that cannot be evaluated, rather than lose it
            draft.notes.append(f"{where} names the unknown joint {leader!r}{draft.hint(leader, kinds)}")
            add("unresolved_coupling", joint.name, leader=leader, coefficients=(offset, multiplier))
        elif kinds[leader] == "weld":
            draft.notes.append(f"{where} names a fixed joint: the coordinate is fixed too")
            add("coupling", joint.name, coefficients=(offset,))
        else:
            add("coupling", joint.name, leader, coefficients=(offset, multiplier))


def _add_transmissions(draft: Draft, root: Element, joints: list[_UrdfJoint]) -> None:
    """A motor for every actuator of a simple or differential transmission; others are named as left out."""
    movable = {joint.name for joint in joints if KINDS.get(joint.type) in ("revolute", "prismatic")}
    taken: set[str] = set()
    for element in root.findall("transmission"):
        driven = [str(joint.get("name")) for joint in _by_role(element, "joint")]
        if not movable.intersection(driven):
            draft.unused["<robot/transmission> of joints that do not move"] += 1
            continue
        gears = _gears(element)
        if gears is None or not movable.issuperset(driven):
            name = element.get("name") or "without a name"
            draft.leave_out("transmissions that are not simple or differential ones", name)
            continue
        for motor, gear in zip(_by_role(element, "actuator"), gears, strict=True):
            name = fresh(motor.get("name") or f"{driven[0]} motor", taken)
            taken.add(name)
            draft.declare("actuator", name, line_of(element))
            draft.builder.actuator(name, *driven, gear=gear)


def _gears(element: Element) -> list[list[float]] | None:
    """Effort on each joint per unit of each actuator's effort, of a kind that is known; None for others.

    A simple transmission multiplies by the reduction n. A differential, whose actuators have the reductions n₁, n₂ and
    whose joints m₁, m₂, turns one joint by the sum and one by the difference of what they do:

        τ₁ = m₁ (n₁ e₁ + n₂ e₂)        τ₂ = m₂ (n₁ e₁ − n₂ e₂)
    """
    kind = (element.findtext("type") or element.get("type") or "").strip().rpartition("/")[2]
    motors, joints = ([_reduction(part) for part in _by_role(element, word)] for word in ("actuator", "joint"))
    own = _reduction(element)
    if kind == "SimpleTransmission" and len(motors) == len(joints) == 1 and motors[0] and own:
        return [[motors[0] * own]]
    if kind == "DifferentialTransmission" and len(motors) == len(joints) == 2 and all(motors) and all(joints):
        (n_1, n_2), (m_1, m_2) = motors, joints
        return [[m_1 * n_1, m_2 * n_1], [m_1 * n_2, -m_2 * n_2]]  # type: ignore[operator]  # none of them is None
    return None


def _by_role(element: Element, word: str) -> list[Element]:
    """The joints or actuators of a transmission, in the order of their roles: ``joint1``, ``joint2``."""
    return sorted(element.findall(word), key=lambda part: (part.findtext("role") or "").strip())


def _reduction(element: Element) -> float | None:
    """Rotor speed over joint speed, 1 where nothing is said; None for what is no such number."""
    try:
        ratio = float(element.findtext("mechanicalReduction") or "1")
    except ValueError:
        return None
    return ratio if np.isfinite(ratio) and ratio != 0 else None


# --- poses and shapes; mesh files are named, never opened -------------------------------------------------------------


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
            if parameters is None or (use == "visual" and shape.tag == "plane"):
                if use == "collision":
                    reader.draft.leave_out("collisions without a known shape", name)
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
                "half_space" if shape.tag == "plane" else str(shape.tag),
                position=position,
                rotation=rotations.product(rotation, parameters.pop("turn", np.eye(3))),
                collides=use == "collision",
                visible=use == "visual",
                **parameters,
            )


def _parameters(reader: Reader, shape: Element, name: str) -> dict[str, Any] | None:
    """The numbers of a shape in m, and how a plane is turned from z; None for a shape that is not known."""
    match shape.tag:
        case "box":
            return {"size": _positive(reader, shape, "size")}
        case "sphere":
            return {"radius": _positive(reader, shape, "radius")}
        case "cylinder" | "capsule":
            return {"radius": _positive(reader, shape, "radius"), "length": _positive(reader, shape, "length")}
        case "plane":  # Bullet's
            normal = reader.numbers(shape, "normal", (0.0, 0.0, 1.0))
            if not any(normal):
                reader.fault(shape, "has a normal without direction")
                return {}
            return {"turn": rotations.z_towards(normal)}
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
    """Three factors; a fourth one, of homogeneous coordinates, is left aside, with a note, if it is 1."""
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
