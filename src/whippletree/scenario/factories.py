"""Parts of a scenario that are made by calling something: mechanisms, controllers, contacts."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from whippletree import controllers
from whippletree.errors import ModelError, NameLookupError
from whippletree.io.draft import Draft
from whippletree.io.native import native_reader
from whippletree.model import Contact, Model
from whippletree.model.contact_pairs import contact_faults
from whippletree.scenario import scenario_tables

KINDS = ("pd", "spring", "damper", "motor", "gravity_compensation")
"""Functions of :mod:`whippletree.controllers` that a file can ask for; ``python`` asks for one of the user's own."""


def call_with(function: Callable[..., Any], parameters: Mapping[str, Any], where: str, *first: Any) -> Any:
    """Call a function with parameters from a file.

    Raises:
        NameLookupError: a parameter that it does not have.
        ValueError: one that is missing.
    """
    known = list(inspect.signature(function).parameters.values())[len(first) :]
    for word in parameters:
        if word not in [p.name for p in known]:
            raise NameLookupError("parameter", word, [p.name for p in known], where=where)
    for p in known:
        if p.default is p.empty and p.name not in parameters and p.kind is not p.VAR_KEYWORD:
            raise ValueError(f"{where}: the parameter {p.name!r} is missing")
    return function(*first, **parameters)


def controller_of(
    model: Model, tables: Sequence[scenario_tables.Controller], folder: Path
) -> Callable[..., Any] | None:
    """All controllers of a scenario as one; None if there are none."""
    found = [_controller(model, table, folder) for table in tables]
    return controllers.together(*found) if len(found) > 1 else found[0] if found else None


def commands_of(model: Model, table: scenario_tables.Commands | None, folder: Path, duration: float) -> Any:
    """The commands of a scenario, as ``ctrl=`` of ``wt.simulate`` takes them; None where none are given.

    Raises:
        ValueError: given in several ways, or in none.
        NameLookupError, ShapeError, UnsupportedError: commands that do not fit the model's actuators.
    """
    if table is None:
        return None
    ways = {
        "actuators": table.actuators,
        "values": table.values,
        "key_frame": table.key_frame,
        "file": table.file or table.function or table.parameters,
    }
    given = [way for way, value in ways.items() if value]
    if len(given) != 1:
        raise ValueError(f"ctrl: give one of {', '.join(ways)}; got {' and '.join(given) or 'none'}")
    found: Any = ways[given[0]]
    if table.key_frame:
        frames = {key.name: key.commands for key in model.key_frames}
        if table.key_frame not in frames:
            raise NameLookupError("key frame", table.key_frame, list(frames), where="ctrl")
        found = frames[table.key_frame]
    elif given == ["file"]:
        found = _from_python(
            scenario_tables.Controller("python", table.file, table.function, table.parameters), folder, "ctrl"
        )
    controllers.ActuatorForces.of(model, found, duration)  # which refuses what does not fit
    return found


def _controller(model: Model, table: scenario_tables.Controller, folder: Path) -> Callable[..., Any]:
    if table.kind == "python":
        return _from_python(table, folder, "controller 'python'")
    if table.kind not in KINDS:
        raise NameLookupError("kind of controller", table.kind, [*KINDS, "python"], where="controllers")
    made: Callable[..., Any] = call_with(
        getattr(controllers, table.kind), table.parameters, f"controller {table.kind!r}", model
    )
    return made


def _from_python(table: scenario_tables.Controller, folder: Path, where: str) -> Callable[..., Any]:
    """A function of a Python file beside the scenario: running a scenario runs that file."""
    function = python_function(table.file, table.function, folder, where)
    made: Callable[..., Any] = call_with(function, table.parameters, table.function) if table.parameters else function
    return made


class _ReadAnew(SourceFileLoader):
    """Takes a file's text, never the bytecode of an earlier one: Python tells versions apart by size and second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def python_function(file: str, name: str, folder: Path, where: str) -> Callable[..., Any]:
    """A function of a user's Python file.

    Raises:
        ValueError: there is no such file, or it fails.
        NameLookupError: the file has no such function.
    """
    if not file or not name:
        raise ValueError(f"{where}: file and function have to be given")
    path = folder / file
    if not path.is_file():
        raise ValueError(f"{where}: there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{where}: {str(path)!r} is not a Python file")
    if isinstance(spec.loader, SourceFileLoader):
        spec.loader = _ReadAnew(path.stem, str(path))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{where}: {str(path)!r} fails: {type(error).__name__}: {error}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        functions = [word for word, value in vars(module).items() if callable(value)]
        raise NameLookupError("function", name, functions, where=str(path))
    return function


def with_contact_tables(draft: Draft, model: Model, items: list[Any], lines: native_reader.Lines) -> Model:
    """The model with the contacts of the file's ``[[contacts]]``."""
    tables = native_reader.checked_tables(draft, items, "contacts", lines)
    draft.stop_if_faulty()
    words = [field.name for field in fields(Contact)]
    added = [Contact(**{word: table[word] for word in words if word in table}) for table in tables]
    faults = contact_faults([*model.contacts, *added], model.geometries, model.joints) if added else []
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return replace(model, contacts=(*model.contacts, *added))
