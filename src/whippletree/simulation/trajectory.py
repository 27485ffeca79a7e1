"""A run as a labelled data set: names, units and the account of what it cost."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.constraints.system import constraint_set
from whippletree.model import Model
from whippletree.simulation.method import Method, Variable
from whippletree.simulation.motion import Motion
from whippletree.simulation.record import Record

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]


def dataset(
    motion: Motion, method: Method, record: Record, settings: Mapping[str, Any], points: Sequence[str] = ()
) -> xarray.Dataset:
    """States over time with everything that is worth knowing about them; ``points``: frames whose path is wanted."""
    import xarray

    grid = _Grid(record.times, record.states)
    own = {name: grid.whole(v, record.variable(name)) for name, v in method.variables.items()}
    variables = _every_run(motion, grid, leave_out=own) | own
    if points:
        variables["points"] = _points(motion, grid, points)
    energy = variables["kinetic_energy"][1] + variables["potential_energy"][1]
    attributes = {
        "model": motion.model.name,
        "failure": record.failure or _summary(method.failures, grid.runs),
        "event_names": [name for name, _ in record.events],
        "event_times": [time for _, time in record.events],
        "energy_drift": float(np.nanmax(np.abs(energy - energy[0]), initial=0.0)),
        **settings,
        **method.account(),
    }
    coords: dict[str, Any] = {"time": ("time", grid.times, {"long_name": "time", "units": "s"})}
    if points:
        coords |= {"point": list(points), "axis": ["x", "y", "z"]}
    if grid.runs is not None:
        reasons = np.array([method.failures.get(k, "") for k in range(grid.runs)], dtype=object)
        variables["failure"] = ("run", reasons, {"long_name": "why a run has failed; empty if it has not"})
    return xarray.Dataset(variables, coords=coords, attrs=attributes)


class _Grid:
    """Output times and, in a batch, runs: where the states are, and how numbers of good states become variables."""

    def __init__(self, times: Array, states: Array) -> None:
        self.times = times
        self.runs: int | None = states.shape[1] if states.ndim == 3 else None
        self._shape = states.shape[:-1]
        flat = states.reshape(-1, states.shape[-1])
        finite = np.isfinite(flat)
        self._good: Any = slice(None) if finite.all() else finite.all(axis=1)
        self.states = flat[self._good]
        """(k, nq + nv), of states that exist: a run that has failed has none."""
        across = 1 if self.runs is None else self.runs
        self.moments = np.broadcast_to(times[:, None], (len(times), across)).reshape(-1)[self._good]
        """(k,), s."""

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

    def whole(self, meaning: Variable, values: Array) -> Any:
        """A variable that a method has worked out itself, for all times and runs."""
        labels = {"names": list(meaning.names)} if meaning.names else {}
        across = ("time",) if self.runs is None else ("time", "run")
        return (*across, *meaning.dimensions), values, {"long_name": meaning.title, "units": meaning.units, **labels}


def _summary(failures: Mapping[int, str], runs: int | None) -> str:
    """One line about the runs of a batch that have failed."""
    if not failures:
        return ""
    first = min(failures)
    return f"{len(failures)} of {runs} runs failed; run {first}: {failures[first]}"


def _every_run(motion: Motion, grid: _Grid, leave_out: Container[str]) -> dict[str, Any]:
    """What every run has; ``leave_out``: what the method has worked out itself."""
    model, dyn = motion.model, motion.dyn
    times, (q, v) = grid.moments, motion.split(grid.states)
    tau = motion.forces(times, q, v)
    variables: dict[str, Any] = {
        "q": grid.variable(("coordinate",), q, "coordinates", "rad or m", coordinates(model)),
        "v": grid.variable(("velocity",), v, "velocities", "rad/s or m/s", velocities(model)),
        "tau": grid.variable(("velocity",), tau, "joint forces", "N m or N", velocities(model)),
        "kinetic_energy": grid.variable((), dyn.kinetic_energy(q, v), "kinetic energy", "J"),
        "potential_energy": grid.variable((), dyn.potential_energy(q), "potential energy", "J"),
    }
    if "a" not in leave_out:
        a = motion.evaluate("forward_dynamics", q=q, v=v, tau=tau, t=times)
        variables["a"] = grid.variable(("velocity",), a, "accelerations", "rad/s² or m/s²", velocities(model))
    if model.constraints and "constraint_forces" not in leave_out:
        variables |= _constraint_variables(motion, grid, tau)
    return variables


def _constraint_variables(motion: Motion, grid: _Grid, tau: Array) -> dict[str, Any]:
    """Forces and residuals of the constraints, row by row."""
    rows = constraint_set(motion.model)
    times, (q, v) = grid.moments, motion.split(grid.states)
    forces = motion.evaluate("constraint_forces", q=q, v=v, tau=tau, t=times)
    residual = motion.evaluate("constraint_residual", q=q, t=times)
    speed = motion.evaluate("constraint_velocity", q=q, v=v, t=times)
    units = ", ".join(rows.force_units)
    return {
        "constraint_forces": grid.variable(("row",), forces, "constraint forces", units, rows.row_names),
        "constraint_residual": grid.variable(
            ("position_row",), residual, "position residuals of constraints", "m or 1"
        ),
        "constraint_velocity": grid.variable(("row",), speed, "velocity residuals of constraints", "m/s or 1/s"),
    }


def _points(motion: Motion, grid: _Grid, points: Sequence[str]) -> Any:
    """Positions of named frames in the world."""
    q = motion.split(grid.states)[0]
    places = np.stack([np.asarray(motion.dyn.pose(name)(q))[..., :3, 3] for name in points], axis=-2)
    return grid.variable(("point", "axis"), places, "positions of frames in the world", "m", points)


def coordinates(model: Model) -> list[str]:
    """A name for every entry of q: the joint's, with a suffix where it has several."""
    return _labels(model, [kind.nq for kind in model.joint_types])


def velocities(model: Model) -> list[str]:
    """A name for every entry of v."""
    return _labels(model, [kind.nv for kind in model.joint_types])


def _labels(model: Model, sizes: Sequence[int]) -> list[str]:
    labels = []
    for joint, size in zip(model.joints, sizes, strict=True):
        labels += [joint.name] if size == 1 else [f"{joint.name}[{i}]" for i in range(size)]
    return labels
