"""A run as a labelled data set: names, units and the account of what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.model import Model
from whippletree.simulation.integrator import Statistics
from whippletree.simulation.motion import Motion

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]


def dataset(
    motion: Motion,
    times: Array,
    states: Array,
    statistics: Statistics,
    events: Sequence[tuple[str, float]],
    failure: str,
    options: Mapping[str, Any],
) -> xarray.Dataset:
    """States over time with everything that is worth knowing about them."""
    import xarray

    model, dyn = motion.model, motion.dyn
    q, v = states[:, : model.nq], states[:, model.nq :]
    tau = motion.forces(times, q, v)
    variables = {
        "q": (("time", "coordinate"), q, {"long_name": "coordinates", "units": "rad or m", "names": coordinates(model)}),
        "v": (("time", "velocity"), v, {"long_name": "velocities", "units": "rad/s or m/s", "names": velocities(model)}),
        "a": (
            ("time", "velocity"),
            motion.evaluate("forward_dynamics", q=q, v=v, tau=tau, t=times),
            {"long_name": "accelerations", "units": "rad/s² or m/s²", "names": velocities(model)},
        ),
        "tau": (("time", "velocity"), tau, {"long_name": "joint forces", "units": "N m or N", "names": velocities(model)}),
        "kinetic_energy": (("time",), dyn.kinetic_energy(q, v), {"long_name": "kinetic energy", "units": "J"}),
        "potential_energy": (("time",), dyn.potential_energy(q), {"long_name": "potential energy", "units": "J"}),
    }
    energy = variables["kinetic_energy"][1] + variables["potential_energy"][1]
    attributes = {
        "model": model.name,
        "failure": failure,
        "event_names": [name for name, _ in events],
        "event_times": [time for _, time in events],
        "energy_drift": float(np.abs(energy - energy[0]).max()),
        **options,
        **asdict(statistics),
    }
    time = ("time", times, {"long_name": "time", "units": "s"})
    return xarray.Dataset(variables, coords={"time": time}, attrs=attributes)


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
