"""Loops for a model whose file format has none: a small native file beside it, or elements that people have added.

    whippletree = 1
    cut = ["coupler pin"]                  # where loops of joints are opened; default: at the joint declared last

    [[joints]]                             # closes a loop: as a joint of the tree, and where it is in the child
    name = "coupler pin"
    kind = "revolute"
    parent = "coupler"
    child = "rocker"
    position = [0.3, 0.0, 0.0]
    child_position = [0.0, 0.0, 0.2]
    axis = [0.0, 1.0, 0.0]
    damping = 0.01

or, where the loop is a constraint,

    [[frames]]                             # where the loop closes, on both bodies
    name = "coupler end"
    body = "coupler"
    position = [0.3, 0.0, 0.0]

    [[constraints]]
    name = "loop"
    kind = "hinge"
    on = ["coupler end", "rocker"]
    parameters = { axis = [0.0, 1.0, 0.0] }

    [start]                                # near here the loop closes: joints by name
    crank = 0.4

Spelling is checked when the file is read: kinds, parameters, bodies, frames, joints.

Collections of closed-loop robots have such files in YAML, beside a URDF of the open tree:

    closed_loop:                      # pairs of frames (links, or joints for the links that they carry)
      - [left_rod_end, left_foot_ball]
      - [right_rod_end, right_foot_ball]
    type: [6d, 3d]                    # 6d ties all of two frames, 3d their points; 6d where it is not said
    joint_name: [ball_left]           # joints of the URDF that are of another type than it can say
    joint_type: [SPHERICAL]           # SPHERICAL, CARDAN (or UNIVERSAL), FIXED
    name_mot: mot                     # joints whose names contain this have motors

Only as much of YAML is read as such files have: keys, texts, and lists of these, indented or in brackets.

In a URDF, ``<constraint>``, as proposed for urdfdom, describes a joint that was cut, with an origin and an axis on both
links::

    <constraint name="pin" type="revolute">
      <parent link="coupler"/> <parent_origin xyz="0.3 0 0" rpy="0 0 0"/> <parent_axis xyz="0 1 0"/>
      <child link="rocker"/> <child_origin xyz="0 0 0.2"/> <child_axis xyz="0 1 0"/>
    </constraint>

``<loop_joint>``, of Drake's early files, does so with ``<link1 link= xyz= rpy=>``, ``<link2 …>`` and one ``<axis>``.
Each becomes a constraint between two frames, ``NAME/1`` and ``NAME/2``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, did_you_mean, list_items
from whippletree.files.bounded_files import limit_text, limits
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.native import native_reader, native_tables
from whippletree.io.paths import read_bytes
from whippletree.io.xml import Reader, line_of
from whippletree.model import WORLD, Actuator, Constraint, Frame, Model, State, constraint_syntax
from whippletree.model.faults import pose_faults
from whippletree.model.frozen import frozen_array, pose_matrix

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def with_loops(model: Model, path: Path, cut: Sequence[str] = ()) -> Model:
    """The model with the joints, frames, constraints and start of a loops file.

    Args:
        model: whose bodies the file names.
        path: the file.
        cut: names of joints at which loops are opened, in place of the file's.

    Raises:
        FileError: listing every fault of the file, with its line where it is TOML.
    """
    data = read_bytes(path)
    if path.suffix.lower() not in (".toml", ".json"):
        raise FileError(str(path), [f"a loops file is .toml or .json, got {path.suffix!r}"])
    text = native_reader.decode(path, data)
    draft = Draft(path, model.name)
    lines = native_reader.Lines(text if path.suffix.lower() == ".toml" else "")
    whole = native_reader.checked_table(
        draft, native_reader.parse(path, text), native_tables.Loops, "the file", partial(lines.find, "", 0)
    )
    model = _with_joints(draft, model, whole, lines, cut or whole.get("cut", ()))
    model, note = with_parts(draft, model, whole, lines)
    start = _start(draft, model, whole.get("start", {}), lines)
    draft.stop_if_faulty()
    joints = f"{len(whole['joints'])} joints, " if whole.get("joints") else ""
    note = f"- {joints}{note} from {str(path)!r}"
    return replace(model, start=start, source=f"{model.source}\n{note}" if model.source else note)


def _with_joints(
    draft: Draft, model: Model, whole: dict[str, Any], lines: native_reader.Lines, cut: Sequence[str]
) -> Model:
    """The model with the joints of a file, and its loops of joints cut."""
    tables = native_reader.checked_tables(draft, whole.get("joints", []), "joints", lines)
    for table in tables:
        if {"kind", "parent", "child"} <= set(table):
            native_reader.add_joint(draft, table)
    draft.stop_if_faulty()
    return draft.extend(model, cut) if tables or cut else model


def with_parts(draft: Draft, model: Model, whole: dict[str, Any], lines: native_reader.Lines) -> tuple[Model, str]:
    """The model with the frames and constraints of a file, and how many they are, in words.

    Raises:
        FileError: listing every fault.
    """
    tables = {
        word: native_reader.checked_tables(draft, whole.get(word, []), word, lines)
        for word in ("frames", "constraints")
    }
    draft.stop_if_faulty()
    frames = [_frame(draft, model, table) for table in tables["frames"]]
    _require_new(draft, "frame", frames, [WORLD, *(b.name for b in model.bodies), *(f.name for f in model.frames)])
    draft.stop_if_faulty()
    model = replace(model, frames=(*model.frames, *frames))
    constraints = [_constraint(draft, model, table) for table in tables["constraints"]]
    _require_new(draft, "constraint", constraints, [c.name for c in model.constraints])
    draft.stop_if_faulty()
    extended = replace(model, constraints=(*model.constraints, *constraints))
    return extended, f"{len(constraints)} constraints and {len(frames)} frames"


def _frame(draft: Draft, model: Model, table: dict[str, Any]) -> Frame:
    bodies = [WORLD, *(body.name for body in model.bodies)]
    where = f"frame {table['name']!r}"
    if table["body"] not in bodies:
        draft.fault(_unknown_name_fault(draft, where, "body", table["body"], bodies), table["line"])
    pose = pose_matrix(table.get("position", (0, 0, 0)), table.get("rotation"))
    for fault in pose_faults(where, pose):
        draft.fault(fault, table["line"])
    return Frame(table["name"], table["body"], pose)


def _constraint(draft: Draft, model: Model, table: dict[str, Any]) -> Constraint:
    where, kind, line = f"constraint {table['name']!r}", table["kind"], table["line"]
    parameters = table.get("parameters", {})
    known = constraint_syntax.KINDS
    if kind not in known:
        draft.fault(_unknown_name_fault(draft, where, "kind", kind, known), line)
        return Constraint(table["name"], kind, tuple(table["on"]))
    if known[kind].function:
        draft.fault(f"{where}: kind {kind!r} needs a Python function, which a file cannot hold", line)
    for word in parameters:
        if word not in constraint_syntax.parameters_of(kind):
            draft.fault(
                _unknown_name_fault(draft, where, "parameter", word, constraint_syntax.parameters_of(kind)), line
            )
    if known[kind].on == "joints":
        word, names = "joint", [joint.name for joint in model.joints]
    else:
        word, names = "frame or body", [WORLD, *(b.name for b in model.bodies), *(f.name for f in model.frames)]
    for name in table["on"]:
        if name not in names:
            draft.fault(_unknown_name_fault(draft, where, word, name, names), line)
    return Constraint(table["name"], kind, tuple(table["on"]), parameters, table.get("joint", ""))


def _start(draft: Draft, model: Model, given: dict[str, Any], lines: native_reader.Lines) -> State | None:
    """The model's start with the coordinates of some joints replaced."""
    if not given:
        return model.start
    before = model.start or model.neutral
    q = np.array(before.q, dtype=object)
    names = [joint.name for joint in model.joints]
    cut = {c.name for c in model.constraints if c.joint}
    for name, value in given.items():
        line = lines.find("start", 0, name)
        if name not in names and name in cut:
            continue  # its coordinate is gone with the cut
        if name not in names:
            draft.fault(_unknown_name_fault(draft, "start", "joint", name, names), line)
            continue
        part = q[model.q_slice(name)]
        numbers = np.atleast_1d(np.asarray(value, dtype=object))
        finite = all(isinstance(x, (int, float)) and np.isfinite(x) for x in numbers)
        if numbers.shape != part.shape or not finite:
            draft.fault(f"start: {name} has {len(part)} coordinates, got {value!r}", line)
            continue
        part[:] = numbers
    return State(frozen_array(q.tolist(), (model.nq,)), before.v)


def _require_new(draft: Draft, word: str, parts: list[Any], taken: list[str]) -> None:
    seen = set(taken)
    for part in parts:
        if part.name in seen:
            draft.fault(f"{word} {part.name!r}: the model has this name already; choose another")
        seen.add(part.name)


def _unknown_name_fault(draft: Draft, where: str, word: str, name: str, known: Any) -> str:
    shown = list_items(map(repr, known))
    return f"{where}: there is no {word} {name!r}; known: {shown}{draft.hint(name, known)}"


# --- loops in the YAML files of collections of closed-loop robots, beside a URDF of the open tree ---------------------


JOINT_TYPES = {"SPHERICAL": "spherical", "CARDAN": "universal", "UNIVERSAL": "universal", "FIXED": "weld"}
CLOSURES = {"6d": "weld", "3d": "point"}
KNOWN = ("closed_loop", "type", "joint_name", "joint_type", "name_mot")

_TOKEN = re.compile(r"""\s*(\[|\]|,|"[^"]*"|'[^']*'|[^\[\],]+)""")


def with_yaml_loops(model: Model, path: Path) -> Model:
    """The model with the loops, joint types and motors of a YAML file.

    Raises:
        FileError: listing every fault of the file.
    """
    try:
        parsed = parse_yaml(path, read_bytes(path).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not UTF-8 text (byte {error.start})"]) from None
    if not isinstance(parsed, dict) or "closed_loop" not in parsed:
        raise FileError(str(path), ["the file has no 'closed_loop': a list of pairs of frames"])
    faults: list[str] = []
    notes = [f"not used: {word!r} of {str(path)!r}" for word in parsed if word not in KNOWN]
    model = _with_joint_types(model, parsed, faults)
    pairs = parsed["closed_loop"] or []
    if pairs and all(isinstance(name, str) for name in pairs):
        pairs = [pairs]  # a single pair, without a list around it
    kinds = parsed.get("type") or []
    kinds = [kinds] * len(pairs) if isinstance(kinds, str) else kinds
    taken = {constraint.name for constraint in model.constraints}
    added = []
    for number, pair in enumerate(pairs):
        kind = str(kinds[number]).lower() if number < len(kinds) else "6d"
        if kind not in CLOSURES or not isinstance(pair, list) or len(pair) != 2:
            faults.append(f"closed_loop {number + 1}: {pair!r} of type {kind!r}, expected two frames and 6d or 3d")
            continue
        on = tuple(_yaml_frame(model, str(name), faults) for name in pair)
        name = fresh(f"{pair[0]} to {pair[1]}", taken)
        taken.add(name)
        added.append(Constraint(name, CLOSURES[kind], on))
    model = _with_motors(model, str(parsed.get("name_mot") or ""))
    if faults:
        raise FileError(str(path), faults)
    notes.insert(0, f"{len(added)} loops from {str(path)!r}")
    source = "\n".join([model.source, *(f"- {note}" for note in notes)]).strip()
    return replace(model, constraints=(*model.constraints, *added), source=source)


def _yaml_frame(model: Model, name: str, faults: list[str]) -> str:
    """A frame or body of that name, or the body that the joint of that name carries."""
    known = {frame.name for frame in model.frames} | {body.name for body in model.bodies} | {"world"}
    carried = {joint.name: joint.child for joint in model.joints}
    if name not in known and name not in carried:
        faults.append(f"closed_loop: there is no frame {name!r}{did_you_mean(name, [*known, *carried])}")
    return name if name in known else carried.get(name, name)


def _with_joint_types(model: Model, parsed: Mapping[str, Any], faults: list[str]) -> Model:
    names, types = (list(parsed.get(word) or []) for word in ("joint_name", "joint_type"))
    if len(names) != len(types):
        faults.append(f"joint_name has {len(names)} entries, joint_type {len(types)}")
        return model
    others = dict(zip(map(str, names), (str(kind).upper() for kind in types), strict=True))
    known = [joint.name for joint in model.joints]
    for name, kind in others.items():
        if name not in known:
            faults.append(f"joint_name: there is no joint {name!r}{did_you_mean(name, known)}")
        if kind not in JOINT_TYPES:
            faults.append(f"joint_type {kind!r} of {name!r}; known: {', '.join(JOINT_TYPES)}")
    if faults or not others:
        return model
    joints = []
    for joint in model.joints:
        if joint.name in others:
            kind = JOINT_TYPES[others[joint.name]]
            axes = {"axis": frozen_array([1, 0, 0], (3,)), "second_axis": frozen_array([0, 1, 0], (3,))}
            ends = {"lower": -np.inf, "upper": np.inf}
            joint = replace(joint, kind=kind, stiffness=0, **ends, **(axes if kind == "universal" else {}))  # type: ignore[arg-type]
        joints.append(joint)
    changed = replace(model, joints=tuple(joints), start=None)
    start = changed.neutral.q
    if model.start is not None:  # other joints stay where they are
        for joint in model.joints:
            if joint.name not in others:
                start[changed.q_slice(joint.name)] = model.start.q[model.q_slice(joint.name)]
    kept = tuple(a for a in changed.actuators if not set(a.joints) & set(others))
    return replace(changed, start=State(frozen_array(start, (changed.nq,)), np.zeros(changed.nv)), actuators=kept)


def _with_motors(model: Model, word: str) -> Model:
    driven = {joint for actuator in model.actuators for joint in actuator.joints}
    motors = [
        Actuator(f"{joint.name} motor", (joint.name,))
        for joint in model.joints
        if word and word in joint.name and joint.type.nv == 1 and joint.name not in driven
    ]
    return replace(model, actuators=(*model.actuators, *motors))


# --- as much of YAML as is needed ---


def parse_yaml(path: Path, text: str) -> Any:
    """Keys, texts and lists of a YAML file; numbers stay texts.

    Raises:
        FileError: something else than these.
    """
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line if "'" in line or '"' in line else re.sub(r"(^|\s)#.*", "", line)
        if content.strip() and not content.startswith(("---", "...", "%")) and not content.lstrip().startswith("#"):
            if "\t" in content:
                raise FileError(str(path), [f"line {number}: a tab, which YAML does not allow"])
            lines.append((len(content) - len(content.lstrip()), content.strip(), number))
    if not lines:
        return None
    value, end = _node(path, lines, 0, lines[0][0], 0)
    if end < len(lines):
        raise FileError(str(path), [f"line {lines[end][2]}: {lines[end][1]!r} is indented in another way"])
    return value


_Line = tuple[int, str, int]


def _node(path: Path, lines: list[_Line], k: int, indent: int, depth: int) -> tuple[Any, int]:
    """The value that begins at line k, and the line behind it."""
    if depth > limits.depth:
        raise FileError(str(path), [limit_text("depth", f"line {lines[k][2]}: lists of depth {depth}")])
    if lines[k][1].startswith("-"):
        items = []
        while k < len(lines) and lines[k][0] == indent and re.match(r"-(\s|$)", lines[k][1]):
            rest = lines[k][1][1:].strip()
            inner = indent + len(lines[k][1]) - len(lines[k][1][1:].lstrip())
            if rest:
                lines[k] = (inner, rest, lines[k][2])
            else:
                k += 1
                inner = lines[k][0] if k < len(lines) else inner
            value, k = _node(path, lines, k, inner, depth + 1) if k < len(lines) else (None, k)
            items.append(value)
        return items, k
    if not re.match(r"[\w.-]+\s*:(\s|$)", lines[k][1]):
        return _flow(path, lines, k)
    table: dict[str, Any] = {}
    while k < len(lines) and lines[k][0] == indent and (found := re.match(r"([\w.-]+)\s*:(?:\s+|$)(.*)", lines[k][1])):
        if found[2]:
            lines[k] = (indent, found[2], lines[k][2])
            table[found[1]], k = _flow(path, lines, k)
            continue
        k += 1
        below = k < len(lines) and (lines[k][0] > indent or (lines[k][0] == indent and lines[k][1].startswith("-")))
        table[found[1]], k = _node(path, lines, k, lines[k][0], depth + 1) if below else (None, k)
    return table, k


def _flow(path: Path, lines: list[_Line], k: int) -> tuple[Any, int]:
    """A text, or a list in brackets, which may go on in the lines below."""
    text, first = lines[k][1], lines[k][2]
    if not text.startswith("["):
        return text.strip("\"'"), k + 1
    while text.count("[") > text.count("]") and k + 1 < len(lines):
        k += 1
        text += " " + lines[k][1]
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(text):
        word = token.strip()
        if word == "[":
            stack.append([])
        elif word == "]" and len(stack) > 1:
            done = stack.pop()
            stack[-1].append(done)
        elif word and word != ",":
            stack[-1].append(word.strip("\"'"))
    if len(stack) != 1 or len(stack[0]) != 1 or text.count("[") > limits.depth * 1000:
        raise FileError(str(path), [f"line {first}: brackets that do not match"])
    return stack[0][0], k + 1


# --- closed loops in a URDF: elements that people have added to a format of trees -------------------------------------


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
        placed = reader.draft.rotation(rotations.product(rotation, turn)) if number == 2 else rotation
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
