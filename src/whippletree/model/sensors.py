"""Measurements of a model: sensors as data. ``wt.read_sensors`` evaluates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whippletree.errors import did_you_mean
from whippletree.model.frozen import Part


class SensorKind(NamedTuple):
    """Facts that all sensors of one kind share."""

    on: str
    """Which part of a model it is on: a joint, an actuator, a tendon, a frame or a geometry."""
    quantity: str
    """What it measures there."""
    relative: bool = False
    """Whether it may be seen from another frame."""


SENSOR_KINDS = {
    "joint_position": SensorKind("joint", "position"),
    "joint_velocity": SensorKind("joint", "velocity"),
    "actuator_position": SensorKind("actuator", "position"),
    "actuator_velocity": SensorKind("actuator", "velocity"),
    "tendon_position": SensorKind("tendon", "position"),
    "tendon_velocity": SensorKind("tendon", "velocity"),
    "frame_position": SensorKind("frame", "position", relative=True),
    "frame_quaternion": SensorKind("frame", "quaternion", relative=True),
    "frame_x_axis": SensorKind("frame", "x_axis", relative=True),
    "frame_y_axis": SensorKind("frame", "y_axis", relative=True),
    "frame_z_axis": SensorKind("frame", "z_axis", relative=True),
    "frame_linear_velocity": SensorKind("frame", "linear_velocity", relative=True),
    "frame_angular_velocity": SensorKind("frame", "angular_velocity", relative=True),
    "frame_linear_acceleration": SensorKind("frame", "linear_acceleration"),
    "frame_angular_acceleration": SensorKind("frame", "angular_acceleration"),
    "accelerometer": SensorKind("frame", "specific_force"),
    "gyro": SensorKind("frame", "spin"),
    "velocimeter": SensorKind("frame", "velocity"),
    "force": SensorKind("frame", "load"),
    "torque": SensorKind("frame", "load"),
    "touch": SensorKind("geometry", "pressure"),
    "rangefinder": SensorKind("frame", "distance"),
}


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
        where, kind = f"sensor {sensor.name!r}", SENSOR_KINDS.get(sensor.kind)
        if kind is None:
            faults.append(f"{where}: unknown kind {sensor.kind!r}{did_you_mean(sensor.kind, SENSOR_KINDS)}")
        elif sensor.on not in known[kind.on]:
            faults.append(f"{where}: unknown {kind.on} {sensor.on!r}{did_you_mean(sensor.on, known[kind.on])}")
        if sensor.reference is not None and sensor.reference not in known["frame"]:
            faults.append(
                f"{where}: unknown frame {sensor.reference!r}{did_you_mean(sensor.reference, known['frame'])}"
            )
        elif sensor.reference is not None and kind is not None and not kind.relative:
            faults.append(f"{where}: {sensor.kind} takes no reference")
        if not sensor.cutoff > 0:
            faults.append(f"{where}: cutoff is {sensor.cutoff!r}, expected a positive number")
    return faults
