"""Measurements of a model: sensors as data. ``wt.read_sensors`` evaluates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from whippletree.errors import did_you_mean
from whippletree.model.frozen import Part

SIZES = {
    "joint_position": 0,
    "joint_velocity": 0,
    "actuator_position": 0,
    "actuator_velocity": 0,
    "tendon_position": 0,
    "tendon_velocity": 0,
    "frame_position": 3,
    "frame_quaternion": 4,
    "frame_x_axis": 3,
    "frame_y_axis": 3,
    "frame_z_axis": 3,
    "frame_linear_velocity": 3,
    "frame_angular_velocity": 3,
    "frame_linear_acceleration": 3,
    "frame_angular_acceleration": 3,
    "accelerometer": 3,
    "gyro": 3,
    "velocimeter": 3,
    "force": 3,
    "torque": 3,
    "touch": 0,
    "rangefinder": 0,
}
"""Kinds of sensors, and how many numbers each gives; 0 for a single one, or the coordinates of a joint."""

REFERRING = tuple(kind for kind in SIZES if kind.startswith("frame_") and not kind.endswith("acceleration"))
"""Kinds that may be seen from another frame."""


@dataclass(frozen=True, eq=False, repr=False)
class Sensor(Part):
    """A measurement: of a joint, an actuator, a tendon, a frame or a geometry.

    ``frame_…`` are in world axes, or as seen from ``reference``. ``accelerometer`` (with gravity: +9.81 upwards at
    rest), ``gyro`` and ``velocimeter`` are fixed to their frame, and in its axes. ``force`` and ``torque`` are what the
    parent of a frame's body applies to it, in the frame, about its origin. ``touch`` is the sum of the normal forces on
    a body that pass through a geometry of it. ``rangefinder`` is the distance from a frame along its z axis to the next
    geometry of another body; −1 where there is none. Meshes count as their convex hulls.
    """

    name: str
    kind: str
    on: str
    """Name of what is measured."""
    reference: str | None = None
    """Frame from which it is seen; None for the world."""
    cutoff: float = np.inf
    """Readings beyond ±cutoff are cut to it."""


def sensor_faults(sensors: Sequence[Sensor], known: Mapping[str, Sequence[str]]) -> list[str]:
    """Faults of sensors; ``known``: names of joints, actuators, tendons, frames and geometries."""
    faults = []
    for sensor in sensors:
        where, word = f"sensor {sensor.name!r}", sensor.kind.partition("_")[0]
        word = "geometry" if word == "touch" else word if word in ("joint", "actuator", "tendon") else "frame"
        if sensor.kind not in SIZES:
            faults.append(f"{where}: unknown kind {sensor.kind!r}{did_you_mean(sensor.kind, SIZES)}")
        elif sensor.on not in known[word]:
            faults.append(f"{where}: unknown {word} {sensor.on!r}{did_you_mean(sensor.on, known[word])}")
        if sensor.reference is not None and sensor.reference not in known["frame"]:
            faults.append(
                f"{where}: unknown frame {sensor.reference!r}{did_you_mean(sensor.reference, known['frame'])}"
            )
        elif sensor.reference is not None and sensor.kind not in REFERRING:
            faults.append(f"{where}: {sensor.kind} takes no reference")
        if not sensor.cutoff > 0:
            faults.append(f"{where}: cutoff is {sensor.cutoff!r}, expected a positive number")
    return faults
