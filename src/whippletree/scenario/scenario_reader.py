"""From a scenario file to a :class:`Scenario`: every key checked, every name resolved, before anything is computed.

A run of it knows its model (:func:`with_model`), so that it can be drawn years later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from whippletree import mechanisms
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.assembly import assemble
from whippletree.errors import FileError, NameLookupError, ShapeError, UnsupportedError
from whippletree.io import load
from whippletree.io.draft import Draft
from whippletree.io.loops_file import with_parts
from whippletree.io.native import native_reader, native_writer
from whippletree.io.native.native_tables import fields
from whippletree.io.paths import MODEL_ENDINGS, read_bytes
from whippletree.model import Model
from whippletree.model.contact_pairs import on_ground
from whippletree.scenario import scenario_tables
from whippletree.scenario.factories import call_with, commands_of, controller_of, with_contact_tables
from whippletree.simulation.run import simulate

if TYPE_CHECKING:
    import xarray


Table = TypeVar("Table", bound=msgspec.Struct)


@dataclass(frozen=True, eq=False)
class Scenario:
    """A simulation that is ready to run."""

    path: Path
    model: Model
    q0: Array = field(repr=False)
    v0: Array = field(repr=False)
    controller: Callable[..., Any] | None
    solver: scenario_tables.Solver
    outputs: scenario_tables.Outputs
    ctrl: Any = None
    """Commands of the actuators, as ``ctrl=`` of ``wt.simulate`` takes them."""
    act0: Array | None = field(default=None, repr=False)
    """Activations of the actuators at the start."""

    def run(self, *, progress: bool | None = None) -> xarray.Dataset:
        """Simulate it; the file for the run itself is not written here. The same file gives the same bits."""
        s = self.solver
        checkpoint = self.place(self.outputs.checkpoint) if self.outputs.checkpoint else None
        run = simulate(
            self.model, self.q0, self.v0, duration=s.duration, controller=self.controller, ctrl=self.ctrl,
            act0=self.act0, method=s.method, reactions=self.outputs.reactions,
            rtol=s.rtol, atol=s.atol, output_dt=s.output_dt, points=self.outputs.points,
            variables=self.outputs.variables, massless=s.massless,
            project=s.project, effort_limits=s.effort_limits, progress=progress, checkpoint=checkpoint, **s.options,
        )  # fmt: skip
        return with_model(run, self.model)

    def place(self, name: str) -> Path:
        """Where a file of the scenario is: beside it, unless the name is absolute."""
        return self.path.parent / name


def load_scenario(path: str | os.PathLike[str], *, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file (TOML); see :mod:`whippletree.scenario.scenario_tables` for its tables.

    Args:
        path: of the file.
        changes: other parameters than the file has: ``model.WORD`` of its mechanism, ``controllers.K.WORD`` of its K-th
            controller, counted from 0.

    Raises:
        FileError: listing every fault with its line; a misspelt key comes with the nearest that is known.
        FileNotFoundError: there is no such file.
    """
    place = Path(path)
    if place.suffix.lower() != ".toml":
        raise FileError(str(place), [f"a scenario is a .toml file, got {place.suffix!r}{_cure(place)}"])
    return _Reader(place, changes or {}).scenario()


def _cure(model: Path) -> str:
    """How a model file becomes part of a scenario; nothing for other files."""
    if model.suffix.lower() not in MODEL_ENDINGS:
        return ""
    return f"; to simulate a model, write two lines into one: model.file = {str(model)!r} and solver.duration = 1.0"


def is_scenario(path: str | os.PathLike[str]) -> bool:
    """Whether a TOML file is a scenario rather than a model: it has a ``[solver]``."""
    place = Path(path)
    if place.suffix.lower() != ".toml":
        return False
    return "solver" in native_reader.parse(place, native_reader.decode(place, read_bytes(place)))


class _Reader:
    """One file on its way to a scenario."""

    def __init__(self, path: Path, changes: Mapping[str, Any]) -> None:
        self.path = path
        self.text = native_reader.decode(path, read_bytes(path))
        self.lines = native_reader.Lines(self.text)
        self.draft = Draft(path, path.stem)
        document = _change_parameters(path, native_reader.parse(path, self.text), changes)
        self.whole = native_reader.checked_table(
            self.draft, document, scenario_tables.ScenarioFile, "the file", partial(self.lines.find, "", 0)
        )
        version = self.whole.get("whippletree_scenario", scenario_tables.SCENARIO_VERSION)
        if version != scenario_tables.SCENARIO_VERSION:
            self.draft.fault(
                f"the file has format {version}; this version reads format {scenario_tables.SCENARIO_VERSION}"
            )

    def scenario(self) -> Scenario:
        model, solver = self.table("model", scenario_tables.ModelChoice), self.table("solver", scenario_tables.Solver)
        ground, start, outputs = (
            self.table("ground", scenario_tables.Ground),
            self.table("start", scenario_tables.StartChoice),
            self.table("outputs", scenario_tables.Outputs),
        )
        ctrl = self.table("ctrl", scenario_tables.Commands)
        controllers = [
            self.check_table(
                item, scenario_tables.Controller, f"controllers[{i}]", partial(self.lines.find, "controllers", i)
            )
            for i, item in enumerate(self.whole.get("controllers", []))
        ]
        self.draft.stop_if_faulty()
        assert model is not None
        assert solver is not None
        built = self.name_faults(lambda: self.model(model, ground))
        q, v = self.name_faults(lambda: _start(built, start or scenario_tables.StartChoice()))
        act = self.name_faults(lambda: _activations(built, start.activations)) if start and start.activations else None
        parts = [c for c in controllers if c is not None]
        controller = self.name_faults(lambda: controller_of(built, parts, self.path.parent))
        commands = self.name_faults(lambda: commands_of(built, ctrl, self.path.parent, solver.duration))
        for name in (outputs or scenario_tables.Outputs()).points:
            self.name_faults(partial(built.frame, name))
        return Scenario(self.path, built, q, v, controller, solver, outputs or scenario_tables.Outputs(), commands, act)

    def model(self, given: scenario_tables.ModelChoice, ground: scenario_tables.Ground | None) -> Model:
        """From a file or ready-made; with the scenario's own constraints, contacts and ground."""
        if bool(given.file) == bool(given.mechanism):
            raise FileError(str(self.path), ["model: give either file or mechanism"])
        if given.file:
            loops, root = (self.path.parent / name if name else None for name in (given.loops, given.root))
            model = load(
                self.path.parent / given.file,
                base=given.base,
                loops=loops,
                root=root,
                contacts=given.contacts,
                limits=given.limits,
                actuators=given.actuators,
            )
        else:
            known = [name for name in mechanisms.__all__ if name != "rod_inertia"]  # which makes no model
            if given.mechanism not in known:
                raise NameLookupError("mechanism", given.mechanism, known, where="model")
            maker = getattr(mechanisms, given.mechanism)
            model = call_with(maker, given.parameters, f"mechanism {given.mechanism!r}")
        model, _ = with_parts(self.draft, model, self.whole, self.lines)
        model = with_contact_tables(self.draft, model, self.whole.get("contacts", []), self.lines)
        return model if ground is None else on_ground(model, **msgspec.structs.asdict(ground))

    def table(self, name: str, kind: type[Table]) -> Table | None:
        """A table of the file, None if it is not there or not right."""
        if name not in self.whole:
            return None
        return self.check_table(self.whole[name], kind, name, partial(self.lines.find, name, 0))

    def check_table(
        self, item: dict[str, Any], kind: type[Table], where: str, line: Callable[[str], int | None]
    ) -> Table | None:
        found = native_reader.checked_table(self.draft, item, kind, where, line)
        complete = all(key in found for key, info in fields(kind).items() if info.required)
        return kind(**found) if complete else None

    def name_faults(self, work: Callable[[], Any]) -> Any:
        """Faults of names and numbers, reported as faults of this file."""
        try:
            return work()
        except (NameLookupError, ShapeError, UnsupportedError, ValueError, TypeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(str(self.path), [str(error)]) from None


def _change_parameters(path: Path, document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a file with other parameters of its mechanism and its controllers."""
    for word, value in changes.items():
        kind, _, rest = word.partition(".")
        table: Any = document.get("model", {}) if kind == "model" else None
        if kind == "controllers":
            number, _, rest = rest.partition(".")
            tables = document.get("controllers", [])
            if not number.isdigit() or int(number) >= len(tables):
                raise FileError(str(path), [f"{word}: the scenario has {len(tables)} controllers, counted from 0"])
            table = tables[int(number)]
        if table is None or not rest:
            raise FileError(str(path), [f"{word}: a scenario takes changes of model.WORD and controllers.K.WORD"])
        table.setdefault("parameters", {})[rest] = value
    return document


def _activations(model: Model, given: Mapping[str, float]) -> Array:
    """Activations of the actuators at the start: those of the key frame home or 0, with what is given in its place."""
    names = [model.actuators[k].name for k in model.activations]
    home = [key.act for key in model.key_frames if key.name == "home"]
    act = np.array(home[0] if home else np.zeros(len(names)), dtype=float)
    for name, value in given.items():
        if name not in names:
            raise NameLookupError("actuator with an activation", name, names, where="start")
        act[names.index(name)] = value
    return act


def _start(model: Model, given: scenario_tables.StartChoice) -> tuple[Array, Array]:
    """The start state: home, with what is given in its place; loops are closed around the joints that are given."""
    if given.q is not None and given.joints:
        raise ValueError("start: give q or joints, not both")
    if given.v is not None and given.velocities:
        raise ValueError("start: give v or velocities, not both")
    q = np.array(model.home.q if given.q is None else given.q, dtype=float)
    v = np.array(model.home.v if given.v is None else given.v, dtype=float)
    for name, numbers, size in (("q", q, model.nq), ("v", v, model.nv)):
        if numbers.shape != (size,):
            raise ShapeError(f"start: {name} has {numbers.size} numbers, expected {size} for model {model.name!r}")
    for where, given_by_name, array, part_of in (
        ("joints", given.joints, q, model.q_slice),
        ("velocities", given.velocities, v, model.slice),
    ):
        for joint, value in given_by_name.items():
            part = part_of(joint)
            if np.size(value) != part.stop - part.start:
                raise ShapeError(f"start.{where}: {joint} has {part.stop - part.start} numbers, got {np.size(value)}")
            array[part] = value
    if model.constraints and given.joints:
        q = assemble(model, q, hold=given.joints)
    return q, v


# --- a run that knows its model: the model's own file as an attribute -------------------------------------------------


DOCUMENT = "model_document"


def with_model(run: xarray.Dataset, model: Model) -> xarray.Dataset:
    """The run with its model as text; without, if the model holds what no file can (a user's function)."""
    try:
        text = native_writer.to_json(native_writer.document(model))
    except UnsupportedError:
        return run
    return run.assign_attrs({DOCUMENT: text})


def model_of(run: xarray.Dataset) -> Model | None:
    """The model of a run, if it knows it."""
    text = run.attrs.get(DOCUMENT)
    if text is None:
        return None
    name = json.loads(text).get("name", "model")
    return native_reader.read(Path(f"{name}.json"), text.encode(), base="fixed")
