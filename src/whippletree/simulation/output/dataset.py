"""A run as a labelled data set: names, units and the account of what it cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.reactions import COMPONENTS, reaction_names
from whippletree.errors import NameLookupError
from whippletree.model import Model
from whippletree.simulation.conditioning_watch import Watch, ratio
from whippletree.simulation.method import Method, Variable
from whippletree.simulation.motion import Motion
from whippletree.simulation.output.contact_loads import (
    LOADS,
    ContactLoads,
    actuator_wrenches,
    body_wrenches,
    contact_loads,
)
from whippletree.simulation.output.labels import (
    alternatives,
    coordinate_units,
    coordinates,
    displacement_units,
    force_units,
)
from whippletree.simulation.output.labels import velocities as velocities
from whippletree.simulation.record import Record

if TYPE_CHECKING:
    import xarray


XARRAYS_SHORTCUT = "_construct_direct"
"""How xarray's own functions make a data set of parts that fit each other."""


SHARED_ROWS = 10_000
"""Output times up to which runs that have the same share one index of them."""


def dataset(
    motion: Motion,
    method: Method,
    record: Record,
    settings: Mapping[str, Any],
    watch: Watch,
    points: Sequence[str] = (),
    asked: Sequence[str] | None = None,
    reactions: bool = False,
) -> xarray.Dataset:
    """States over time with everything that is worth knowing about them.

    ``points``: frames whose path is wanted; ``asked``: names of variables, if not all are; ``reactions``: whether those
    of the joints are wanted.
    """
    with garbage_left_alone():  # which would take a fifth of the time of this import
        import xarray

    grid = _Grid(record.times, record.states)
    output = Output(motion, grid, watch, MethodForces.of(grid, method, record))
    own = {name: partial(_own, grid, record, name, v) for name, v in method.variables.items()}
    makers: dict[str, Callable[[], Any]] = output.makers() | own
    variables = output.states() | {name: make() for name, make in makers.items() if asked is None or name in asked}
    if points:
        variables["points"] = output.points(points)
    if reactions:
        variables |= output.reactions()
    watch.hear(record.account)
    attributes = {
        "model": motion.model.name,
        "failure": record.failure or _summary(record.failures, grid.runs),
        "event_names": [name for name, _ in record.events],
        "event_times": [time for _, time in record.events],
        **settings,
        **record.account,
        "events": len(record.events),
        "max_residual": _max_residual(motion, variables),
        "energy_drift": _energy_drift(variables),
        **watch.attributes(),
        **(watch.warn(grid.moments, output.diagonal, output.scaled) if "diagonal_ratio" in variables else {}),
    }
    coords: dict[str, Any] = {"time": ("time", grid.times, {"long_name": "time", "units": "s"})} | _labels(variables)
    if points:
        coords |= {"point": list(points), "axis": ["x", "y", "z"]}
    if reactions:
        coords |= {"component": list(COMPONENTS)}
    if grid.runs is not None:
        variables["failure"] = _reasons(record.failures, grid.runs)
    # given as they are, xarray does not ask of every array whether it is one of dask's, and import that, which would
    # take longer than the run
    data = {
        name: xarray.Variable(dimensions, values, meaning, fastpath=True)
        for name, (dimensions, values, meaning) in variables.items()
    }
    return assemble_dataset(data, *_coordinates(coords), attributes)


def assemble_dataset(
    data: Mapping[str, xarray.Variable],
    coordinates: Mapping[str, xarray.Variable],
    indexes: Mapping[str, Any],
    attributes: dict[str, Any],
) -> xarray.Dataset:
    """Variables that fit each other as a data set.

    xarray's constructor looks for conflicts among them, which takes a third of a short run; where this version of it
    has the shortcut that its own functions take, so do we.
    """
    import xarray

    construct = getattr(xarray.Dataset, XARRAYS_SHORTCUT, None)
    if construct is None:
        return xarray.Dataset(data, coords=xarray.Coordinates(coordinates, indexes), attrs=attributes)
    variables = {**data, **coordinates}
    sizes = {name: n for own in variables.values() for name, n in zip(own.dims, own.shape, strict=True)}
    found: xarray.Dataset = construct(variables, set(coordinates), sizes, attributes, dict(indexes))
    return found


def _coordinates(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coordinates along their own dimension, from labels, or dimension, values and attributes; and their indexes."""
    variables, indexes = {}, {}
    for name, own in given.items():
        if isinstance(own, tuple):
            _, values, meaning = own
            shared = len(values) <= SHARED_ROWS
            indexes[name], found = _along_numbers(name, values.tobytes()) if shared else _along(name, values)
        else:
            indexes[name], found = _along_labels(name, tuple(own))
            meaning = {}
        variables[name] = found.copy(deep=False)  # attributes of a run are its own
        variables[name].attrs = meaning
    return variables, indexes


def _along(name: str, values: Array) -> tuple[Any, Any]:
    """xarray's index of a dimension, and the variable along it."""
    import pandas
    import xarray
    from xarray.indexes import PandasIndex

    index = PandasIndex(pandas.Index(values), name, coord_dtype=values.dtype)
    plain = xarray.Variable(name, values, fastpath=True)
    return index, index.create_variables({name: plain})[name]


@lru_cache(maxsize=64)
def _along_labels(name: str, labels: tuple[Any, ...]) -> tuple[Any, Any]:
    """Index and variable of labels, which the runs of a model share."""
    return _along(name, np.asarray(labels))


@lru_cache(maxsize=16)
def _along_numbers(name: str, numbers: bytes) -> tuple[Any, Any]:
    """Index and variable of numbers, which runs with the same output times share; they cannot be written to."""
    return _along(name, np.frombuffer(numbers))


def check_names(model: Model, method: Method, asked: Sequence[str]) -> None:
    """Refuse names of variables that a run does not have.

    Raises:
        NameLookupError: with the nearest that it has.
    """
    further = [
        *(WITH_CONSTRAINTS if model.constraints else ()),
        *(["act"] if method.task.motion.has_activations else []),
    ]
    known = ["q", "v", *EVERY_RUN, *further, *method.variables]
    for name in asked:
        if name not in known:
            raise NameLookupError("variable", name, list(dict.fromkeys(known)), where="simulate")


def refuse_more_than_memory(model: Model, rows: int, runs: int, asked: Sequence[str] | None) -> None:
    """Refuse, before anything is computed, a result that this machine cannot hold; what methods add is not counted."""
    numbers = model.nq + model.nv + len(model.activations)
    if asked is None:
        numbers += 2 * model.nv + len(EVERY_RUN) - 2 + 3 * len(constraint_set(model).row_names)
    size = 8 * rows * runs * numbers
    if size > (memory := physical_memory()):
        raise ValueError(
            f"simulate: {rows} rows of output with {numbers} numbers of {runs} {'runs' if runs > 1 else 'run'} are "
            f"{size / 1e9:.3g} GB, more than the memory of this machine ({memory / 1e9:.3g} GB): choose a longer "
            f"output_dt, or fewer variables (variables=())"
        )


def physical_memory() -> float:
    """Bytes; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return np.inf


class _Grid:
    """Output times and, in a batch, runs: where the states are, and how numbers of good states become variables."""

    def __init__(self, times: Array, states: Array) -> None:
        self.times = times
        self.runs: int | None = states.shape[1] if states.ndim == 3 else None
        self._shape = states.shape[:-1]
        flat = states.reshape(int(np.prod(self._shape)), states.shape[-1])
        finite = np.isfinite(flat)
        self._good: Any = slice(None) if finite.all() else finite.all(axis=1)
        self.states = flat[self._good]
        """(k, nq + nv), of states that exist: a run that has failed has none."""
        across = 1 if self.runs is None else self.runs
        self.moments = np.broadcast_to(times[:, None], (len(times), across)).reshape(-1)[self._good]
        """(k,), s."""
        self.numbers = np.broadcast_to(np.arange(across), (len(times), across)).reshape(-1)[self._good]
        """Numbers of the runs to which the states belong, (k,)."""

    def variable(
        self, dimensions: tuple[str, ...], values: Array, title: str, units: str, names: Sequence[str] = ()
    ) -> Any:
        """A variable, from its values (k, …) at the good states, with what a reader needs to know of it."""
        found = np.asarray(values)
        if not isinstance(self._good, slice):
            found = np.full((len(self._good), *np.shape(values)[1:]), np.nan)
            found[self._good] = values
        labels = {"names": list(names)} if names else {}
        across = ("time",) if self.runs is None else ("time", "run")
        return (
            (*across, *dimensions),
            found.reshape(*self._shape, *found.shape[1:]),
            {"long_name": title, "units": units, **labels},
        )

    def at_states(self, values: Array) -> Array:
        """Values (k, …) at the good states, of those (times, …) or (times, runs, …) of a method."""
        own = np.shape(values)[len(self._shape) :]
        found: Array = np.asarray(values, dtype=float).reshape(int(np.prod(self._shape)), *own)[self._good]
        return found

    def whole(self, meaning: Variable, values: Array) -> Any:
        """A variable that a method has worked out itself, for all times and runs."""
        labels = {"names": list(meaning.names)} if meaning.names else {}
        across = ("time",) if self.runs is None else ("time", "run")
        return (*across, *meaning.dimensions), values, {"long_name": meaning.title, "units": meaning.units, **labels}


class MethodForces(NamedTuple):
    """Forces and accelerations that a method has found itself, at the good states."""

    forces: dict[str, tuple[tuple[str, ...], Array]]
    """Forces of contacts, stops, taut tendons and dry friction, by variable: names, and values (k, …)."""
    motion: dict[str, Array]
    """Accelerations ``a`` (k, nv) and constraint forces ``f`` (k, rows), where they belong to these very states."""
    pressing: Array | slice
    """Numbers of the candidates of contact among which those are that have a force, or all."""

    @staticmethod
    def of(grid: _Grid, method: Method, record: Record) -> MethodForces:
        """The quantities of a run's record."""
        forces = {
            word: (method.variables[word].names, grid.at_states(record.variable(word)))
            for word in LOADS
            if word in method.variables and method.variables[word].names
        }
        own = {"a": "a", "f": "constraint_forces"} if method.instants else {}
        motion = {word: grid.at_states(record.variable(n)) for word, n in own.items() if n in method.variables}
        pressing = record.written("contact_force") if "contact_force" in forces else slice(None)
        return MethodForces(forces, motion, pressing)


EVERY_RUN = ("a", "tau", "kinetic_energy", "potential_energy", "diagonal_ratio", "scaled_diagonal_ratio")
"""Variables of every run beside the states."""

WITH_CONSTRAINTS = ("constraint_forces", "constraint_residual", "constraint_velocity")


class Output:
    """Consequences of the states, each worked out when it is asked for."""

    def __init__(self, motion: Motion, grid: _Grid, watch: Watch, met: MethodForces) -> None:
        self.motion, self.grid, self.watch, self.met = motion.of_runs(grid.numbers), grid, watch, met
        self.model = motion.model
        self.q, self.v = motion.split(grid.states)
        self.activations = motion.act(grid.states) if motion.remembers else None

    def makers(self) -> dict[str, Callable[[], Any]]:
        """How each variable beside the states is made."""
        names = (*EVERY_RUN, *WITH_CONSTRAINTS) if self.model.constraints else EVERY_RUN
        names = (*names, "act") if self.motion.has_activations else names
        return {name: getattr(self, name) for name in names}

    def states(self) -> dict[str, Any]:
        return {
            "q": self.grid.variable(
                ("coordinate",),
                self.q,
                "coordinates",
                alternatives(coordinate_units(self.model)),
                coordinates(self.model),
            ),
            "v": self._of_joints(self.v, "velocities", "/s"),
        }

    def a(self) -> Any:
        return self._of_joints(self._evaluate_rows("forward_dynamics"), "accelerations", "/s²")

    def tau(self) -> Any:
        units = alternatives(force_units(self.model))
        return self.grid.variable(("velocity",), self.forces, "joint forces", units, velocities(self.model))

    def act(self) -> Any:
        """Activations, which states hold or which are known at every time."""
        found, actuated = self.activations, self.motion.actuated
        if found is None:
            assert actuated is not None
            known = {t: actuated.known(t) for t in dict.fromkeys(self.grid.moments.tolist())}
            found = np.array([known[t] for t in self.grid.moments.tolist()]).reshape(len(self.q), -1)
        names = [self.model.actuators[k].name for k in self.model.activations]
        return self.grid.variable(("activation",), found, "activations of actuators", "those of the commands", names)

    def kinetic_energy(self) -> Any:
        return self.grid.variable((), self.motion.dyn.kinetic_energy(self.q, self.v), "kinetic energy", "J")

    def potential_energy(self) -> Any:
        return self.grid.variable((), self.motion.dyn.potential_energy(self.q), "potential energy", "J")

    def diagonal_ratio(self) -> Any:
        return self.grid.variable((), self.delta, "diagonal ratio δ of the mass matrix", "1")

    def scaled_diagonal_ratio(self) -> Any:
        dimensions, values, meaning = self.grid.variable(
            (), self.scaled, "scaled diagonal ratio δ_s, an estimate of κ₂", "1"
        )
        return dimensions, values, meaning | {"scale": self.watch.scale}

    def constraint_forces(self) -> Any:
        rows = constraint_set(self.model)
        units = ", ".join(rows.force_units)
        return self.grid.variable(
            ("row",), self._evaluate_rows("constraint_forces"), "constraint forces", units, rows.row_names
        )

    def constraint_residual(self) -> Any:
        rows = constraint_set(self.model)
        title, names = "position residuals of constraints", rows.named(rows.position_rows)
        return self.grid.variable(("position_row",), self._evaluate_rows("constraint_residual"), title, "m or 1", names)

    def constraint_velocity(self) -> Any:
        title, names = "velocity residuals of constraints", constraint_set(self.model).row_names
        return self.grid.variable(("row",), self._evaluate_rows("constraint_velocity"), title, "m/s or 1/s", names)

    def reactions(self) -> dict[str, Any]:
        """Loads of joints and closures, and those that statics determines."""
        names = reaction_names(self.model)
        driven = actuator_wrenches(self.motion, self.grid.moments, self.q, self.v, self.activations)
        if driven is None and not self.met.forces:
            found = self._evaluate_rows("joint_reactions")
        else:
            found = self._reactions_under(driven)
        dimensions = ("reaction", "component")
        title = "reactions on the child, in its frame; of closures on the second frame"
        return {
            "joint_reactions": self.grid.variable(dimensions, found[..., 0], title, "N m, N", names),
            "reactions_determined": self.grid.variable(
                dimensions, found[..., 1], "1 where statics determines a reaction", "1", names
            ),
        }

    def _reactions_under(self, driven: Array | None) -> Array:
        """Reactions (k, reactions, 6, 2), with contacts, stops and friction, and actuators' wrenches (k, bodies, 6)."""
        wanted = {"a": "forward_dynamics"} | ({"f": "constraint_forces"} if self.model.constraints else {})
        known = {"f": np.zeros((len(self.q), 0))} | self.met.motion
        known |= {word: self._evaluate_rows(name) for word, name in wanted.items() if word not in self.met.motion}
        wrenches = body_wrenches(self.motion, self.q, self.loads) + (0 if driven is None else driven)
        state = {"q": self.q, "v": self.v, "t": self.grid.moments, "wrenches": wrenches}
        return self.motion.evaluate("joint_reactions_of_motion", **state, **known)

    def points(self, names: Sequence[str]) -> Any:
        """Positions of named frames in the world."""
        places = np.stack([np.asarray(self.motion.dyn.pose(name)(self.q))[..., :3, 3] for name in names], axis=-2)
        return self.grid.variable(("point", "axis"), places, "positions of frames in the world", "m", names)

    @cached_property
    def forces(self) -> Array:
        """tau (k, nv), with springs and dampers; NaN where a controller has no answer.

        Raises:
            IntegrationError: if that is so at the start of a single run.
        """
        states = self.grid.moments, self.q, self.v, *([] if self.activations is None else [self.activations])
        found = self.motion.forces_if_told(*states)
        if self.grid.runs is None and np.isnan(found[:1]).any():
            self.motion.forces(*[values[:1] for values in states])
        return found

    @cached_property
    def loads(self) -> ContactLoads:
        """Loads of contacts, stops, taut tendons and dry friction."""
        return contact_loads(self.motion, self.q, self.met.forces, self.met.pressing)

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of the mass matrix, (k, nv)."""
        return np.asarray(self.motion.dyn.diagonal_of_mass_matrix(self.q)) if self.model.nv else np.ones(self.v.shape)

    @cached_property
    def delta(self) -> Array:
        """The diagonal ratio, (k,)."""
        return ratio(self.diagonal)

    @cached_property
    def scaled(self) -> Array:
        """The scaled diagonal ratio, (k,)."""
        return np.asarray(self.watch.scale * self.delta)

    def _evaluate_rows(self, name: str) -> Array:
        state = {"q": self.q, "v": self.v, "t": self.grid.moments}
        if name in ("forward_dynamics", "constraint_forces", "joint_reactions"):
            state["tau"] = self.forces + self.loads.tau if self.met.forces else self.forces
        return self.motion.evaluate(name, **state)

    def _of_joints(self, values: Array, title: str, suffix: str) -> Any:
        units = alternatives(displacement_units(self.model), suffix)
        return self.grid.variable(("velocity",), values, title, units, velocities(self.model))


def _labels(variables: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of entries as coordinates, so that ``run.q.sel(coordinate="crank")`` finds a joint."""
    found = {}
    for dimensions, values, meaning in variables.values():
        names = meaning.get("names", [])
        for dimension, size in zip(dimensions, values.shape, strict=True):
            if dimension in found:
                break  # the names of another variable
            if len(names) == size > 0 and dimension not in ("time", "run") and _all_differ(tuple(names)):
                found[dimension] = list(names)
                break  # names are those of the first dimension beside time and run
    return found


@lru_cache(maxsize=64)
def _all_differ(names: tuple[str, ...]) -> bool:
    return len(set(names)) == len(names)


def _own(grid: _Grid, record: Record, name: str, meaning: Variable) -> Any:
    """A variable that the method has worked out itself."""
    return grid.whole(meaning, record.variable(name))


def _energy_drift(variables: Mapping[str, Any]) -> float:
    """The largest change of the energy since the start, of all runs, J; NaN if energies were not asked for."""
    if not {"kinetic_energy", "potential_energy"} <= set(variables):
        return np.nan
    energy = variables["kinetic_energy"][1] + variables["potential_energy"][1]
    with np.errstate(invalid="ignore"):  # of runs on their way out of bounds; fmax: failed runs are NaN
        return float(np.fmax.reduce(np.abs(energy - energy[0]), axis=None, initial=0.0))


def _max_residual(motion: Motion, variables: Mapping[str, Any]) -> float:
    """The largest residual of a rigid position row, m or rad; NaN if residuals were not asked for."""
    if not motion.model.constraints:
        return 0.0
    if "constraint_residual" not in variables:
        return np.nan
    rows = constraint_set(motion.model)
    rigid = [k for k, i in enumerate(rows.position_rows) if not rows.compliance[i]]
    return float(np.fmax.reduce(np.abs(variables["constraint_residual"][1][..., rigid]), axis=None, initial=0.0))


def _reasons(failures: Mapping[int, str], runs: int) -> Any:
    texts = np.full(runs, "", dtype=object)
    for run, why in failures.items():
        texts[run] = why
    return "run", texts, {"long_name": "why a run has failed; empty if it has not"}


def _summary(failures: Mapping[int, str], runs: int | None) -> str:
    """One line about the runs of a batch that have failed."""
    if not failures:
        return ""
    first = min(failures)
    return f"{len(failures)} of {runs} runs failed; run {first}: {failures[first]}"
