"""Reading native model files: TOML or JSON in the format of :mod:`whippletree.io.native.native_tables`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, UnsupportedError, quote
from whippletree.files.bounded_files import limit_text, limits
from whippletree.io.draft import Draft
from whippletree.io.native import native_tables
from whippletree.io.paths import find_mesh
from whippletree.model import EARTH_GRAVITY, Activation, Joint, Model, Muscle, State
from whippletree.model.faults import number_faults
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame
from whippletree.model.frozen import frozen_array, pose_matrix
from whippletree.spatial.modal import ModalIntegrals

_WORDS = {
    "bodies": "body",
    "flexible_bodies": "flexible body",
    "flexible_frames": "flexible frame",
    "joints": "joint",
    "frames": "frame",
    "constraints": "constraint",
    "geometries": "geometry",
    "contacts": "contact",
    "contact_groups": "contact group",
    "tendons": "tendon",
    "fluid_boxes": "fluid box",
    "lifts": "lift",
    "actuators": "actuator",
    "sensors": "sensor",
    "key_frames": "key frame",
}
_NUMBERS = {
    *("gravity", "mass", "center", "inertia", "restitution", "margin", "torsional", "rolling"),
    *("q", "v", "time_step", "commands", "act"),
    *("weights", "divisors", "size", "density", "viscosity", "wind", "share", "cutoff"),
    *("gear", "gain", "bias", "command_range", "force_range", "activation_times", "activation_range"),
    *native_tables.fields(native_tables.JointTable),
    *native_tables.fields(native_tables.FlexibleBodyTable),
    *native_tables.fields(native_tables.FlexibleFrameTable),
} - {"name", "kind", "parent", "child", "modes", "outline_edges"}
"""Keys whose texts are numbers."""
_LIMITS = ("lower", "upper", "velocity_limit", "effort_limit")
"""Numbers that are always floats."""
_UNIT_NOISE = 1e-15
"""An axis whose squared length is this close to 1 has unit length; its numbers are kept to the last bit."""
_DOTTED = re.compile(r"""[\w"'-]+(?:[ \t]*\.[ \t]*[\w"'-]+)*""")
"""Words with dots between them, each a table inside the one before."""
_HEAD = re.compile(r"\s*\[\[?\s*([A-Za-z_]+)\s*\]\]?")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[.=]""")


def read(path: Path, data: bytes, *, base: str, folder: Path | None = None, cut: Sequence[str] = ()) -> Model:
    """A model from a native file.

    Raises:
        FileError: listing every fault, with its line where the file is TOML.
    """
    if base != "fixed":
        raise UnsupportedError(f"{path}: a native file says itself how its root stands; load it without base={base!r}")
    text = decode(path, data)
    document = parse(path, text)
    if "solver" in document:
        raise FileError(str(path), ["this is a scenario, not a model: wt.load_scenario reads it, and has its .model"])
    draft = Draft(path, str(document.get("name", path.stem)), folder=folder, cut=cut)
    lines = Lines(text if path.suffix.lower() == ".toml" else "")
    whole = checked_table(draft, document, native_tables.NativeFile, "the file", partial(lines.find, "", 0))
    if whole.get("whippletree", native_tables.NATIVE_VERSION) != native_tables.NATIVE_VERSION:
        version = whole["whippletree"]
        raise FileError(
            str(path), [f"the file has format {version}; this version reads format {native_tables.NATIVE_VERSION}"]
        )
    draft.builder.gravity = whole.get("gravity") or EARTH_GRAVITY
    draft.builder.time_step = float(whole["time_step"]) if "time_step" in whole else None
    draft.cut = draft.cut or tuple(whole.get("cut", ()))
    tables = {word: checked_tables(draft, whole.get(word, []), word, lines) for word in _WORDS}
    _build(draft, tables)
    start = whole.get("start")
    if start is not None:
        start = checked_table(draft, start, native_tables.StartTable, "start", partial(lines.find, "start", 0))
    source = whole.get("source")
    if source is not None:
        source = "\n".join([source, *(f"- {note}" for note in draft.notes)])
    model = draft.finish("native", source)
    given = {table["name"]: table for table in tables["joints"]}
    model = replace(model, joints=tuple(_exact_axes(joint, given.get(joint.name, {})) for joint in model.joints))
    return model if start is None else _with_start(draft, model, start, lines)


def decode(path: Path, data: bytes) -> str:
    """The text of a file.

    Raises:
        FileError: if it is not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not UTF-8 text (byte {error.start})"]) from None


def parse(path: Path, text: str) -> dict[str, Any]:
    """The document as tables, lists and numbers, from TOML or JSON by the suffix.

    Raises:
        FileError: if it is neither, or nested too deeply.
    """
    document = _parse_text(path, text)
    if _depth(document) > limits.depth:
        raise FileError(str(path), [limit_text("depth", "the file has more tables or lists inside each other")])
    return document


def _parse_text(path: Path, text: str) -> dict[str, Any]:
    if path.suffix.lower() == ".toml":
        # tomllib takes time with the square of the words in a dotted key
        dots = max((words.group().count(".") for words in _DOTTED.finditer(text)), default=0)
        if dots > limits.depth:
            raise FileError(str(path), [limit_text("depth", f"a key names {dots:,} tables inside each other")])
    try:
        if path.suffix.lower() == ".toml":
            return tomllib.loads(text)
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except tomllib.TOMLDecodeError as error:
        raise FileError(str(path), [f"not TOML: {error}"]) from None
    except json.JSONDecodeError as error:
        raise FileError(str(path), [f"line {error.lineno}: not JSON: {error.msg}"]) from None
    except RecursionError:
        raise FileError(str(path), ["the file is nested too deeply for a model"]) from None
    except ValueError as error:  # an integer with thousands of digits, or one of the hooks below
        raise FileError(str(path), [f"not a model: {error}"]) from None
    if not isinstance(document, dict):
        raise FileError(str(path), [f"the file holds a {type(document).__name__}, expected a table"])
    return document


def _depth(document: Any) -> int:
    """How many tables and lists are inside each other."""
    depth, level = 0, [document]
    while level:
        depth += 1
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [entry for part in inner for entry in part if isinstance(entry, (dict, list))]
    return depth


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key {quote(key)} comes twice in one table")
        table[key] = value
    return table


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON; write it as a text where an infinite number is meant")


class Lines:
    """Where tables and keys of a TOML file are; finds nothing in an empty text."""

    def __init__(self, text: str) -> None:
        self._heads: dict[str, list[int]] = {"": [0]}
        self._keys: dict[tuple[str, int, str], int] = {}
        table = ""
        for number, line in enumerate(text.splitlines(), start=1):
            if head := _HEAD.match(line):
                table = head[1]
                self._heads.setdefault(table, []).append(number)
            elif key := _KEY.match(line):
                index = len(self._heads[table]) - 1
                self._keys.setdefault((table, index, key[1] or key[2] or key[3] or ""), number)

    def find(self, table: str, index: int, key: str = "") -> int | None:
        """The line of a key in the index-th table of a name, or of the table's head."""
        heads = self._heads.get(table, [])
        start = heads[index] if index < len(heads) else 0
        return self._keys.get((table, index, key), start or None)


def checked_tables(draft: Draft, items: list[Any], word: str, lines: Lines) -> list[dict[str, Any]]:
    """Every table of an array, checked; each remembers its line under the key ``line``."""
    found = []
    for index, item in enumerate(items):
        name = item.get("name")
        where = f"{_WORDS[word]} {name!r}" if isinstance(name, str) else f"{word}[{index}]"
        table = checked_table(draft, item, native_tables.TABLES[word], where, partial(lines.find, word, index))
        if "name" in table:
            line = lines.find(word, index)
            draft.declare(_WORDS[word], table["name"], line)
            found.append(table | {"line": line})
    return found


def checked_table(
    draft: Draft, item: dict[str, Any], kind: type[Struct], where: str, line: Callable[[str], int | None]
) -> dict[str, Any]:
    """The valid entries of a table; every key that is unknown, missing or of the wrong type becomes a fault."""
    known = native_tables.fields(kind)
    values: dict[str, Any] = {}
    for key, value in item.items():
        if key not in known:
            draft.fault(f"{where}: unknown key {quote(key)}{draft.hint(key, known)}", line(key))
            continue
        try:
            checked = msgspec.convert(value, known[key].type)
            is_number = key in _NUMBERS and known[key].type is not str  # a contact's "first" is a name
            values[key] = native_tables.exact(checked) if is_number else checked
            if key == "parameters":
                values[key] = {word: native_tables.free(entry) for word, entry in checked.items()}
        except (msgspec.ValidationError, ValueError) as error:
            reason = str(error).replace("`", "").replace("Expected", "expected").replace(" - at $", " at ")
            draft.fault(f"{where}: {key}: {reason}", line(key))
    for key, info in known.items():
        if key not in item and info.required:
            draft.fault(f"{where}: the key {key!r} is missing", line(""))
    return values


def _add_flexible_body(draft: Draft, table: dict[str, Any], frames: list[dict[str, Any]]) -> None:
    """A flexible body with its frames; what does not fit together is a fault of the file."""
    where = f"flexible body {table['name']!r}"
    try:
        made = [
            FlexibleFrame(
                frame["name"].rpartition("/")[2],
                pose_matrix(frame.get("position", (0, 0, 0)), frame.get("rotation")),
                _array(frame["shapes"]),
                _array(frame["slopes"]),
                _array(frame["shortening"]) if frame.get("shortening") else None,
            )
            for frame in frames
        ]
        words = [word for word in ModalIntegrals._fields if word != "mass" and table.get(word) not in (None, [])]
        integrals = ModalIntegrals(mass=table["mass"], **{word: _array(table[word]) for word in words})
        outline = {word: _array(table[word]) for word in ("outline", "outline_shapes") if table.get(word)}
        edges = tuple((a, b) for a, b in table.get("outline_edges", []))
        body = FlexibleBody(
            integrals, _array(table["stiffness"]), _array(table["damping"]), tuple(made),
            tuple(table["modes"]), outline_edges=edges, **outline,
        )  # fmt: skip
    except (KeyError, ValueError, TypeError) as error:
        missing = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        draft.fault(f"{where}: {missing}", table.get("line"))
        return
    draft.builder.flexible_body(table["name"], body)


def _owner(frame: dict[str, Any]) -> str:
    """The flexible body of ``BODY/FRAME``."""
    return str(frame["name"]).rpartition("/")[0]


def _array(values: Any) -> Array:
    """Nested lists of numbers as a read-only array."""
    array = np.array(values, dtype=object)
    if any(isinstance(x, list) for x in array.flat):
        raise ValueError("rows of different lengths")
    return frozen_array(array, array.shape)


def _build(draft: Draft, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Every table of the file, in the order in which parts refer to each other; what lacks a key is a fault already."""
    for table in tables["bodies"]:
        _add_body(draft, table)
    _add_flexible_bodies(draft, tables["flexible_bodies"], tables["flexible_frames"])
    for section, (needed, add) in _SECTIONS.items():
        for table in tables[section]:
            if needed <= table.keys():
                add(draft, table)


def _add_body(draft: Draft, table: dict[str, Any]) -> None:
    numbers = (table.get("mass", 0), table.get("center", (0, 0, 0)), table.get("inertia", (0, 0, 0)))
    add = draft.body if table.get("unphysical", False) else draft.builder.body
    add(table["name"], *numbers)


def _add_flexible_bodies(draft: Draft, bodies: list[dict[str, Any]], frames: list[dict[str, Any]]) -> None:
    for table in bodies:
        _add_flexible_body(draft, table, [frame for frame in frames if _owner(frame) == table["name"]])
    known = {table["name"] for table in bodies}
    for table in frames:
        if _owner(table) not in known:
            text = f"there is no flexible body {_owner(table)!r}; a frame is called BODY/FRAME"
            draft.fault(f"flexible frame {table['name']!r}: {text}", table.get("line"))


def _add_constraint(draft: Draft, table: dict[str, Any]) -> None:
    numbers = table.get("parameters", {})
    draft.builder.closing_constraint(table["name"], table["kind"], table["on"], table.get("joint", ""), numbers)


def _add_tendon(draft: Draft, table: dict[str, Any]) -> None:
    given = {key: value for key, value in _without_line(table).items() if key not in ("name", "joints", "weights")}
    joints = dict(zip(table.get("joints", ()), table.get("weights", ()), strict=False))
    around = [msgspec.to_builtins(wrap) for wrap in given.pop("around", ())]
    draft.builder.tendon(table["name"], joints=joints, around=around, **given)


def _by_builder(method: str) -> Callable[[Draft, dict[str, Any]], object]:
    """A table whose keys are the arguments of one of the builder's methods."""
    return lambda draft, table: getattr(draft.builder, method)(**_without_line(table))


def _add_actuator(draft: Draft, table: dict[str, Any]) -> None:
    given = {key: value for key, value in _without_line(table).items() if key not in ("name", "joints")}
    for key in ("command_range", "force_range"):
        if key in given:
            given[key] = tuple(map(float, given[key]))
    memory = {
        key: given.pop(f"activation_{key}") for key in ("times", "range", "early") if f"activation_{key}" in given
    }
    memory |= {key: tuple(map(float, memory[key])) for key in ("times", "range") if key in memory}
    if "activation" in given:
        given["activation"] = Activation(given["activation"], **memory)
    elif memory:
        draft.fault(f"actuator {table['name']!r} has numbers of an activation, but no activation", table.get("line"))
    if "muscle" in given:
        numbers: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in given["muscle"].items()}
        try:
            given["muscle"] = Muscle(**numbers)
        except TypeError as error:
            draft.fault(f"actuator {table['name']!r}: muscle: {error}", table.get("line"))
            del given["muscle"]
    draft.builder.actuator(table["name"], *table.get("joints", ()), **given)


def add_joint(draft: Draft, table: dict[str, Any]) -> None:
    """A table of ``[[joints]]`` to the draft's builder."""
    found = {key: table[key] for key in _LIMITS if key in table}
    if faults := [f for key, x in found.items() for f in number_faults(key, [x], infinite=True)]:
        draft.fault(f"joint {table['name']!r}: {faults[0]}", table["line"])
        return
    draft.builder.joint(**_without_line(table | {key: float(x) for key, x in found.items()}))


def _add_geometry(draft: Draft, table: dict[str, Any]) -> None:
    where, parameters = f"geometry {table['name']!r}", dict(table.get("parameters", {}))
    own = [word for word in parameters if word in (*native_tables.fields(native_tables.GeometryTable), "self")]
    if own:
        draft.fault(
            f"{where}: parameters: {own[0]!r} is not a number of a shape: write it beside parameters", table["line"]
        )
        return
    named = str(parameters.get("path", parameters.get("file", "")))
    if named and (table["kind"] == "mesh" or "path" in parameters):
        # only what lies in the folder of this file is opened, whatever the file says
        parameters.pop("path", None)
        found = find_mesh(named, draft.path, draft.folder)
        if found is not None:
            parameters["path"] = str(found)
        elif "path" in table["parameters"]:
            parameters.setdefault("file", named)
            draft.notes.append(
                f"{where}: the mesh {named!r} does not exist in the folder of this file: it is not opened"
            )
    fields = {key: value for key, value in table.items() if key not in ("line", "parameters")}
    draft.builder.geometry(**fields, **parameters)


def _without_line(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != "line"}


_SECTIONS: dict[str, tuple[set[str], Callable[[Draft, dict[str, Any]], object]]] = {
    "joints": ({"kind", "parent", "child"}, add_joint),
    "frames": ({"body"}, _by_builder("frame")),
    "constraints": ({"kind", "on"}, _add_constraint),
    "geometries": ({"body", "kind"}, _add_geometry),
    "contacts": ({"first", "second"}, _by_builder("contact")),
    "contact_groups": ({"geometries"}, _by_builder("contact_group")),
    "tendons": (set(), _add_tendon),
    "fluid_boxes": ({"body", "size"}, _by_builder("fluid_box")),
    "lifts": ({"body"}, _by_builder("lift")),
    "actuators": (set(), _add_actuator),
    "sensors": ({"kind", "on"}, _by_builder("sensor")),
    "key_frames": (set(), _by_builder("key_frame")),
}
"""Sections of a file after its bodies: keys without which a table is left aside, and how it is added."""


def _exact_axes(joint: Joint, table: dict[str, Any]) -> Joint:
    """The joint with the file's own axes where the builder only divided them by a length of 1.

    A joint that was turned round has the opposite axes, and keeps them.
    """
    axes: dict[str, Any] = {key: frozen_array(table[key], (3,)) for key in ("axis", "second_axis") if key in table}
    same = (key for key, a in axes.items() if abs(float(a @ a) - 1) <= _UNIT_NOISE and a @ getattr(joint, key) > 0)
    return replace(joint, **{key: axes[key] for key in same})


def _with_start(draft: Draft, model: Model, start: dict[str, Any], lines: Lines) -> Model:
    for key, size in (("q", model.nq), ("v", model.nv)):
        line = lines.find("start", 0, key)
        if len(start[key]) != size:
            draft.fault(f"start: {key} has {len(start[key])} numbers, expected {size}", line)
        elif number_faults(key, start[key]):
            draft.fault(f"start: {key} holds a number that is not finite", line)
    draft.stop_if_faulty()
    return replace(model, start=State(frozen_array(start["q"], (model.nq,)), frozen_array(start["v"], (model.nv,))))
