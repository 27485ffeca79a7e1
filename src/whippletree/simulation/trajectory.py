"""A run as a labelled data set: names, units and the account of what it cost."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.constraints.system import constraint_set
from whippletree.model import Model
from whippletree.simulation.method import Method
from whippletree.simulation.motion import Motion
from whippletree.simulation.record import Record

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]


def dataset(motion: Motion, method: Method, record: Record, settings: Mapping[str, Any]) -> xarray.Dataset:
    """States over time with everything that is worth knowing about them."""
    import xarray

    times, states = record.times, record.states
    own = {name: _over(v.dimensions, record.variable(name), *v[1:]) for name, v in method.variables.items()}
    variables = _every_run(motion, times, states, leave_out=own) | own
    energy = variables["kinetic_energy"][1] + variables["potential_energy"][1]
    attributes = {
        "model": motion.model.name,
        "failure": record.failure,
        "event_names": [name for name, _ in record.events],
        "event_times": [time for _, time in record.events],
        "energy_drift": float(np.abs(energy - energy[0]).max()),
        **settings,
        **method.account(),
    }
    time = ("time", times, {"long_name": "time", "units": "s"})
    return xarray.Dataset(variables, coords={"time": time}, attrs=attributes)


def _every_run(motion: Motion, times: Array, states: Array, leave_out: Container[str]) -> dict[str, Any]:
    """What every run has; ``leave_out``: what the method has worked out itself."""
    model, dyn = motion.model, motion.dyn
    q, v = motion.split(states)
    tau = motion.forces(times, q, v)
    variables: dict[str, Any] = {
        "q": _over(("coordinate",), q, "coordinates", "rad or m", coordinates(model)),
        "v": _over(("velocity",), v, "velocities", "rad/s or m/s", velocities(model)),
        "tau": _over(("velocity",), tau, "joint forces", "N m or N", velocities(model)),
        "kinetic_energy": _over((), dyn.kinetic_energy(q, v), "kinetic energy", "J"),
        "potential_energy": _over((), dyn.potential_energy(q), "potential energy", "J"),
    }
    if "a" not in leave_out:
        a = motion.evaluate("forward_dynamics", q=q, v=v, tau=tau, t=times)
        variables["a"] = _over(("velocity",), a, "accelerations", "rad/s² or m/s²", velocities(model))
    if model.constraints and "constraint_forces" not in leave_out:
        variables |= _constraint_variables(motion, times, q, v, tau)
    return variables


def _over(dimensions: tuple[str, ...], values: Array, title: str, units: str, names: Sequence[str] = ()) -> Any:
    """A variable over time with what a reader needs to know of it."""
    labels = {"names": list(names)} if names else {}
    return ("time", *dimensions), values, {"long_name": title, "units": units, **labels}


def _constraint_variables(motion: Motion, times: Array, q: Array, v: Array, tau: Array) -> dict[str, Any]:
    """Forces and residuals of the constraints, row by row."""
    rows = constraint_set(motion.model)
    forces = motion.evaluate("constraint_forces", q=q, v=v, tau=tau, t=times)
    residual = motion.evaluate("constraint_residual", q=q, t=times)
    speed = motion.evaluate("constraint_velocity", q=q, v=v, t=times)
    return {
        "constraint_forces": _over(("row",), forces, "constraint forces", ", ".join(rows.force_units), rows.row_names),
        "constraint_residual": _over(("position_row",), residual, "position residuals of the constraints", "m or 1"),
        "constraint_velocity": _over(("row",), speed, "velocity residuals of the constraints", "m/s or 1/s"),
    }


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
