"""Loops for a model whose file format has none: a small native file beside it, with joints, frames and constraints.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.errors import FileError, listed
from whippletree.io.draft import Draft
from whippletree.io.native import native_reader, native_tables
from whippletree.io.paths import read_bytes
from whippletree.model import WORLD, Constraint, Frame, Model, State, constraint_syntax
from whippletree.model.faults import pose_faults
from whippletree.model.frozen import frozen_array, pose_matrix


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
    text = native_reader.decoded(path, data)
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
        draft.fault(_unknown(draft, where, "body", table["body"], bodies), table["line"])
    pose = pose_matrix(table.get("position", (0, 0, 0)), table.get("rotation"))
    for fault in pose_faults(where, pose):
        draft.fault(fault, table["line"])
    return Frame(table["name"], table["body"], pose)


def _constraint(draft: Draft, model: Model, table: dict[str, Any]) -> Constraint:
    where, kind, line = f"constraint {table['name']!r}", table["kind"], table["line"]
    parameters = table.get("parameters", {})
    known = constraint_syntax.KINDS
    if kind not in known:
        draft.fault(_unknown(draft, where, "kind", kind, known), line)
        return Constraint(table["name"], kind, tuple(table["on"]))
    if known[kind].function:
        draft.fault(f"{where}: kind {kind!r} needs a Python function, which a file cannot hold", line)
    for word in parameters:
        if word not in constraint_syntax.parameters_of(kind):
            draft.fault(_unknown(draft, where, "parameter", word, constraint_syntax.parameters_of(kind)), line)
    if known[kind].on == "joints":
        word, names = "joint", [joint.name for joint in model.joints]
    else:
        word, names = "frame or body", [WORLD, *(b.name for b in model.bodies), *(f.name for f in model.frames)]
    for name in table["on"]:
        if name not in names:
            draft.fault(_unknown(draft, where, word, name, names), line)
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
            draft.fault(_unknown(draft, "start", "joint", name, names), line)
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


def _unknown(draft: Draft, where: str, word: str, name: str, known: Any) -> str:
    shown = listed(map(repr, known))
    return f"{where}: there is no {word} {name!r}; known: {shown}{draft.hint(name, known)}"
