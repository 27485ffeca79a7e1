"""Subject of a sweep: a model, or a scenario, and what runs of one structure share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.campaigns.targets import with_contacts, with_kinds
from whippletree.errors import ShapeError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import floats
from whippletree.scenario.scenario_reader import load_scenario


@dataclass(frozen=True, eq=False)
class Case:
    """Common parts of runs that differ in numbers of the model and in their starts."""

    model: Model
    q0: Array
    v0: Array
    controller: Callable[..., Any] | None
    options: Mapping[str, Any]
    """Options of ``wt.simulate``."""


class Subject(Protocol):
    """Something that has cases."""

    def case(self, chosen: Mapping[str, Any]) -> Case:
        """The one with these values of paths that make cases."""


@dataclass(frozen=True, eq=False)
class ModelSubject:
    """A model, or a function that makes one."""

    model: Model | Callable[..., Model]
    q0: Any = None
    v0: Any = None
    controller: Callable[..., Any] | None = None
    """Function of (t, q, v); with paths ``controller.WORD``, a function of the model and these words that makes it."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def case(self, chosen: Mapping[str, Any]) -> Case:
        words = {kind: _words(chosen, kind) for kind in ("model", "controller", "solver", "ctrl")}
        if isinstance(self.model, Model):
            if words["model"]:
                asked = ", ".join(f"model.{word}" for word in words["model"])
                raise ValueError(f"sweep: {asked} asks for a function that makes the model, in place of the model")
            model = self.model
        else:
            model = self.model(**words["model"])
            require_model(model, "sweep")
        model = with_contacts(model, chosen)
        controller = self.controller
        if words["controller"]:
            if controller is None:
                asked = ", ".join(f"controller.{word}" for word in words["controller"])
                raise ValueError(f"sweep: {asked} asks for controller=, a function of the model and these words")
            controller = controller(model, **words["controller"])
        options = dict(self.options) | words["solver"]
        options |= _commands(model, options.get("ctrl"), words["ctrl"])
        return Case(
            model, _start("q0", self.q0, model.home.q), _start("v0", self.v0, model.home.v), controller, options
        )


@dataclass(frozen=True)
class ScenarioSubject:
    """A scenario file; ``model.WORD`` and ``controllers.K.WORD`` change the parameters that its tables give."""

    path: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    def case(self, chosen: Mapping[str, Any]) -> Case:
        changes = with_kinds(chosen, "model", "controllers")
        scenario = load_scenario(self.path, changes=changes) if changes else self._plain
        solver = scenario.solver
        options = {
            "duration": solver.duration, "method": solver.method, "rtol": solver.rtol, "atol": solver.atol,
            "output_dt": solver.output_dt, "massless": solver.massless, "effort_limits": solver.effort_limits,
            "points": tuple(scenario.outputs.points), "variables": scenario.outputs.variables,
        }  # fmt: skip
        options |= dict(solver.options) | dict(self.options) | _words(chosen, "solver")
        options |= {} if scenario.act0 is None else {"act0": scenario.act0}
        options |= _commands(scenario.model, options.get("ctrl", scenario.ctrl), _words(chosen, "ctrl"))
        model = with_contacts(scenario.model, chosen)
        return Case(replace(model), scenario.q0, scenario.v0, scenario.controller, options)

    @cached_property
    def _plain(self) -> Any:
        return load_scenario(self.path)


def _words(chosen: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Values by what comes after ``kind.`` in their path."""
    return {path.partition(".")[2]: value for path, value in with_kinds(chosen, kind).items()}


def _commands(model: Model, given: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The option ``ctrl``: what is given, with the commands of some actuators in its place; nothing without both."""
    if not chosen:
        return {} if given is None else {"ctrl": given}
    if callable(given) or np.ndim(given) > 1:
        paths = ", ".join(f"ctrl.{name}" for name in chosen)
        raise ValueError(f"sweep: {paths} vary, and ctrl is a function or a table: give one command for each actuator")
    names = [actuator.name for actuator in model.actuators]
    base = given if isinstance(given, Mapping) or given is None else dict(zip(names, given, strict=True))
    return {"ctrl": {**(base or {}), **chosen}}


def _start(name: str, given: Any, home: Array) -> Array:
    start = floats("sweep", name, home if given is None else given)
    if start.shape != home.shape:
        raise ShapeError(
            f"sweep: {name} has shape {start.shape}, expected {home.shape}: runs differ by paths {name}.JOINT"
        )
    return start
