"""Writing native model files. What is written reads back exactly: every bit of a float, every fraction, every name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import UnsupportedError, did_you_mean
from whippletree.files.whole_files import write_whole
from whippletree.io.native.native_tables import NATIVE_VERSION
from whippletree.model import (
    Activation,
    Actuator,
    Body,
    Constraint,
    Contact,
    ContactGroup,
    Frame,
    Geometry,
    Joint,
    KeyFrame,
    Model,
    Muscle,
)
from whippletree.model.faults import inertia_faults
from whippletree.model.force_elements import FluidBox, Lift, Tendon
from whippletree.model.frozen import inertia_matrix, pose_matrix
from whippletree.model.sensors import Sensor

_JOINT_NUMBERS = (
    *("axis", "second_axis", "pitch", "rotor_inertia", "gear_ratio", "stiffness", "rest", "damping", "friction"),
    *("lower", "upper", "velocity_limit", "effort_limit"),
)


def write(model: Model, path: Path) -> None:
    """Write a model to a ``.toml`` or ``.json`` file, as a whole or not at all.

    Raises:
        UnsupportedError: another suffix, or something in the model that a file cannot keep.
    """
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        hint = did_you_mean(suffix, (".toml", ".json"))
        raise UnsupportedError(
            f"{path}: models are saved as .toml or .json, not as {suffix or 'a file without suffix'}{hint}"
        )
    tables = document(model)
    text = to_toml(tables) if suffix == ".toml" else to_json(tables)
    write_whole(path, text.encode())


def document(model: Model) -> dict[str, Any]:
    """A model as nested tables, lists, texts and numbers."""
    flexible = {name for j in model.joints if j.kind == "modal" for name in (j.parent, j.child)}
    flexible |= {joint.child for joint in model.joints if joint.kind == "port"}
    tables: dict[str, Any] = {
        "whippletree": NATIVE_VERSION,
        "name": model.name,
        "gravity": number(model.gravity, "gravity"),
        "source": model.source,
        "bodies": [_body(body) for body in model.bodies if body.name not in flexible],
        "flexible_bodies": [_flexible_body(joint) for joint in model.joints if joint.kind == "modal"],
        "flexible_frames": [_flexible_frame(joint) for joint in model.joints if joint.kind == "port"],
        "joints": [_joint(joint) for joint in model.joints if joint.flexible is None],
        "frames": [_table_with_pose(frame, {"name": frame.name, "body": frame.body}) for frame in model.frames],
        "constraints": [_constraint(constraint) for constraint in model.constraints],
        "geometries": [_geometry(geometry) for geometry in model.geometries],
        "contacts": [_contact(contact) for contact in model.contacts],
        "contact_groups": [_contact_group(group) for group in model.contact_groups],
        "tendons": [_tendon(tendon) for tendon in model.tendons],
        "fluid_boxes": [_fluid_box(box) for box in model.elements if isinstance(box, FluidBox)],
        "lifts": [_lift(lift) for lift in model.elements if isinstance(lift, Lift)],
        "actuators": [_actuator(actuator) for actuator in model.actuators],
        "sensors": [_sensor(sensor) for sensor in model.sensors],
        "key_frames": [_key_frame(key) for key in model.key_frames],
    }
    if model.time_step is not None:
        tables["time_step"] = number(model.time_step, "time_step")
    if model.start is not None:
        tables["start"] = {"q": number(model.start.q, "start.q"), "v": number(model.start.v, "start.v")}
    return {key: value for key, value in tables.items() if value != []}


# --- parts ---


def _body(body: Body) -> dict[str, Any]:
    where = f"body {body.name!r}"
    table: dict[str, Any] = {"name": body.name, "mass": number(body.mass, where)}
    if not _same(body.center, Body("").center, where):
        table["center"] = number(body.center, where)
    if not _same(body.inertia, Body("").inertia, where):
        table["inertia"] = number(_short_inertia(body.inertia, where), where)
    if any("triangle" in fault for fault in inertia_faults([body])):
        table["unphysical"] = True
    return table


def _flexible_body(joint: Joint) -> dict[str, Any]:
    body = joint.flexible
    assert body is not None
    where = f"flexible body {joint.parent!r}"
    table: dict[str, Any] = {"name": joint.parent}
    for word, value in body.integrals._asdict().items():
        if value is not None:
            table[word] = number(value, f"{where}: {word}")
    table |= {word: number(getattr(body, word), f"{where}: {word}") for word in ("stiffness", "damping")}
    table["modes"] = list(body.modes)
    if len(body.outline):
        table |= {word: number(getattr(body, word), where) for word in ("outline", "outline_shapes")}
        table["outline_edges"] = [list(edge) for edge in body.outline_edges]
    return table


def _flexible_frame(joint: Joint) -> dict[str, Any]:
    assert joint.flexible is not None
    frame = joint.flexible.frame(joint.port)
    where = f"frame {joint.child!r}"
    table: dict[str, Any] = {"name": joint.child}
    table |= {"shapes": number(frame.shapes, where), "slopes": number(frame.slopes, where)}
    table["position"] = number(frame.pose[:3, 3], where)
    if not _same(pose_matrix(frame.pose[:3, 3]), frame.pose, where):
        table["rotation"] = number(frame.pose[:3, :3], where)
    if frame.shortening is not None:
        table["shortening"] = number(frame.shortening, where)
    return table


def _short_inertia(inertia: Array, where: str) -> Array:
    """The 3 or 6 numbers of a diagonal or symmetric inertia, else all 9."""
    diagonal = [inertia[k, k] for k in range(3)]
    products = [inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    for numbers in (diagonal, diagonal + products):
        if _same(inertia_matrix(numbers), inertia, where):
            return np.array(numbers, dtype=object)
    return inertia


def _joint(joint: Joint) -> dict[str, Any]:
    where = f"joint {joint.name!r}"
    usual = Joint("", "", "", "")
    table = _table_with_pose(
        joint, {"name": joint.name, "kind": joint.kind, "parent": joint.parent, "child": joint.child}
    )
    for word in _JOINT_NUMBERS:
        if not _same(getattr(joint, word), getattr(usual, word), where):
            table[word] = number(getattr(joint, word), f"{where}: {word}")
    return table


def _table_with_pose(part: Joint | Frame | Geometry | FluidBox, table: dict[str, Any]) -> dict[str, Any]:
    """The table of a part, with its pose as position and rotation where they are not the usual ones."""
    where = f"{type(part).__name__.lower()} {part.name!r}: pose"
    position, rotation = part.pose[:3, 3], part.pose[:3, :3]
    if not _same(part.pose, pose_matrix(), where):
        table["position"] = number(position, where)
        if not _same(pose_matrix(position), part.pose, where):
            table["rotation"] = number(rotation, where)
    return table


def _constraint(constraint: Constraint) -> dict[str, Any]:
    table: dict[str, Any] = {"name": constraint.name, "kind": constraint.kind, "on": list(constraint.on)}
    if constraint.parameters:
        table["parameters"] = parameter(constraint.parameters, f"constraint {constraint.name!r}")
    return table | {"joint": constraint.joint} if constraint.joint else table


def _geometry(geometry: Geometry) -> dict[str, Any]:
    table = _table_with_pose(geometry, {"name": geometry.name, "body": geometry.body, "kind": geometry.kind})
    if geometry.parameters:
        table["parameters"] = parameter(geometry.parameters, f"geometry {geometry.name!r}")
    return table | {word: False for word in ("collides", "visible") if not getattr(geometry, word)}


def _contact(contact: Contact) -> dict[str, Any]:
    table = {"name": contact.name, "first": contact.first, "second": contact.second}
    table |= _touching(contact, f"contact {contact.name!r}")
    return table if contact.law is None else table | {"law": contact.law}


def _contact_group(group: ContactGroup) -> dict[str, Any]:
    """One table for all of its pairs, whose number grows with the square of the shapes."""
    table = {"name": group.name, "geometries": list(group.geometries)}
    return table | _touching(group, f"contact group {group.name!r}")


def _touching(contact: Contact | ContactGroup, where: str) -> dict[str, Any]:
    """How surfaces touch, where it is not without friction and plastic."""
    words = ("friction", "restitution", "margin", "torsional", "rolling")
    given = {word: getattr(contact, word) for word in words}
    return {word: number(x, f"{where}: {word}") for word, x in given.items() if not _same(x, 0, where)}


def _actuator(actuator: Actuator) -> dict[str, Any]:
    where, usual = f"actuator {actuator.name!r}", Actuator("")
    table: dict[str, Any] = {"name": actuator.name}
    if actuator.tendon is not None:
        table["tendon"] = actuator.tendon
    else:
        table |= {"frame": actuator.frame} if actuator.frame is not None else {"joints": list(actuator.joints)}
    for word in ("gear", "gain", "bias", "command_range", "force_range"):
        if not _same(getattr(actuator, word), getattr(usual, word), where):
            table[word] = number(getattr(actuator, word), f"{where}: {word}")
    if actuator.activation is not None:
        own, plain = actuator.activation, Activation(actuator.activation.kind)
        table["activation"] = own.kind
        for word in ("times", "range"):
            if getattr(own, word) != getattr(plain, word):
                table[f"activation_{word}"] = number(getattr(own, word), f"{where}: activation_{word}")
        table |= {"activation_early": True} if own.early else {}
    if actuator.muscle is not None:
        numbers = {part.name: getattr(actuator.muscle, part.name) for part in fields(Muscle)}
        table["muscle"] = {key: list(x) if isinstance(x, tuple) else x for key, x in numbers.items()}
    return table


def _tendon(tendon: Tendon) -> dict[str, Any]:
    where, usual = f"tendon {tendon.name!r}", Tendon("")
    table: dict[str, Any] = {"name": tendon.name}
    if tendon.joints:
        table |= {"joints": list(tendon.joints), "weights": number(tendon.weights, where)}
    else:
        table |= {"branches": [list(branch) for branch in tendon.route], "divisors": number(tendon.divisors, where)}
    for word in ("stiffness", "rest", "damping", "limits"):
        if not _same(getattr(tendon, word), getattr(usual, word), where):
            table[word] = number(getattr(tendon, word), f"{where}: {word}")
    if tendon.around:
        table["around"] = [
            {key: value for key, value in vars(wrap).items() if value not in ("", 0)} for wrap in tendon.around
        ]
    return table


def _fluid_box(box: FluidBox) -> dict[str, Any]:
    where = f"fluid box {box.name!r}"
    table = _table_with_pose(box, {"name": box.name, "body": box.body, "size": number(box.size, where)})
    return table | {word: number(getattr(box, word), where) for word in ("density", "viscosity", "wind")}


def _lift(lift: Lift) -> dict[str, Any]:
    return {"name": lift.name, "body": lift.body, "share": number(lift.share, f"lift {lift.name!r}")}


def _sensor(sensor: Sensor) -> dict[str, Any]:
    table: dict[str, Any] = {"name": sensor.name, "kind": sensor.kind, "on": sensor.on}
    table |= {} if sensor.reference is None else {"reference": sensor.reference}
    return table if sensor.cutoff == math.inf else table | {"cutoff": float(sensor.cutoff)}


def _key_frame(key: KeyFrame) -> dict[str, Any]:
    numbers = {word: number(getattr(key, word), f"key frame {key.name!r}") for word in ("q", "v", "commands", "act")}
    return {"name": key.name} | {word: found for word, found in numbers.items() if word != "act" or found}


def _same(one: Any, other: Any, where: str) -> bool:
    """Whether two values would be written alike; tells 0 from 0.0 and from −0.0."""
    return repr(number(one, where)) == repr(number(other, where))


# --- values ---


def number(value: Any, where: str) -> Any:
    """A number or an array of numbers, with fractions as texts."""
    if isinstance(value, (np.ndarray, list, tuple)):
        return [number(entry, where) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise UnsupportedError(f"save: {where} holds {value!r} ({type(value).__name__}), which a file cannot keep exactly")


def parameter(value: Any, where: str) -> Any:
    """A free parameter: texts and truth values as they are, a fraction as a table."""
    if isinstance(value, Mapping):
        return {str(key): parameter(entry, f"{where}: {key}") for key, entry in value.items()}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [parameter(entry, where) for entry in value]
    if isinstance(value, Fraction):
        return {"fraction": number(value, where)}
    if isinstance(value, (str, bool, np.bool_)):
        return value if isinstance(value, str) else bool(value)
    return number(value, where)


# --- texts ---


def to_json(tables: dict[str, Any]) -> str:
    """JSON, one table per line; numbers that are not finite become texts, which JSON lacks."""

    def finite(value: Any, free: bool = False) -> Any:
        if isinstance(value, dict):
            return {key: finite(entry, free or key == "parameters") for key, entry in value.items()}
        if isinstance(value, list):
            return [finite(entry, free) for entry in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)} if free else repr(value)
        return value

    def dump(value: Any) -> str:
        return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)

    entries = []
    for key, value in tables.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join(f"    {dump({'': row})[5:-1]}" for row in value)
            entries.append(f"  {dump(key)}: [\n{rows}\n  ]")
        else:
            entries.append(f"  {dump(key)}: {dump(value)}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def to_toml(tables: dict[str, Any]) -> str:
    """TOML: plain values first, then one ``[[table]]`` per part."""
    lines = ["# A model of the library whippletree; the fields are those of whippletree.model."]
    lines += [f"{key} = {_toml(value)}" for key, value in tables.items() if not _is_table(value)]
    for key, value in tables.items():
        if _is_table(value):
            head = f"[{key}]" if isinstance(value, dict) else f"[[{key}]]"
            for table in [value] if isinstance(value, dict) else value:
                lines += ["", head, *(f"{word} = {_toml(entry)}" for word, entry in table.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        entries = (
            f"{key if re.fullmatch(r'[A-Za-z0-9_-]+', key) else _toml_text(key)} = {_toml(entry)}"
            for key, entry in value.items()
        )
        return "{ " + ", ".join(entries) + " }"
    return repr(value)


def _toml_text(text: str) -> str:
    # JSON escapes all that TOML does, except for DEL
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
