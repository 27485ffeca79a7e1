"""Names and units of the entries of q, v and tau, joint by joint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whippletree.model import Joint, Model
from whippletree.model.frozen import found_once

_TURN, _SLIDE, _UNIT = ("rad",), ("m",), ("1",)
_JOINT_UNITS = {
    "revolute": (_TURN, _TURN),
    "helical": (_TURN, _TURN),
    "prismatic": (_SLIDE, _SLIDE),
    "cylindrical": (_TURN + _SLIDE, _TURN + _SLIDE),
    "universal": (_TURN * 2, _TURN * 2),
    "planar": (_SLIDE * 2 + _TURN, _SLIDE * 2 + _TURN),
    "spherical": (_UNIT * 4, _TURN * 3),
    "free": (_SLIDE * 3 + _UNIT * 4, _TURN * 3 + _SLIDE * 3),
    "weld": ((), ()),
}
"""Units of q and of v s, by joint kind."""

_FLAT = {"cylindrical": ("angle", "advance"), "universal": ("first", "second"), "planar": ("x", "y", "angle")}
_COORDINATES = _FLAT | {"spherical": ("qw", "qx", "qy", "qz"), "free": ("x", "y", "z", "qw", "qx", "qy", "qz")}
_VELOCITIES = _FLAT | {"spherical": ("wx", "wy", "wz"), "free": ("wx", "wy", "wz", "vx", "vy", "vz")}
"""Names of the entries of q and of v, for joints that have several."""

_FORCES = {"rad": "N m", "m": "N"}


def coordinates(model: Model) -> list[str]:
    """A name for every entry of q: the joint's; where it has several, such as ``base.x`` or ``base.qw``."""
    return list(_coordinate_labels(model))


def velocities(model: Model) -> list[str]:
    """A name for every entry of v; ``base.wx`` is an angular velocity, ``base.vx`` a linear one."""
    return list(_velocity_labels(model))


def coordinate_units(model: Model) -> list[str]:
    """Units of each entry of q."""
    return [unit for joint in model.joints for unit in _units(joint)[0]]


def displacement_units(model: Model) -> list[str]:
    """Units of what each entry of v is per second."""
    return [unit for joint in model.joints for unit in _units(joint)[1]]


def _units(joint: Joint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Units of q and of v s; a modal coordinate is a length, since mode shapes have no unit."""
    if joint.flexible is not None:
        own = () if joint.port else _SLIDE * joint.flexible.n
        return own, own
    return _JOINT_UNITS[joint.kind]


def force_units(model: Model) -> list[str]:
    """Units of each entry of tau."""
    return [_FORCES[unit] for unit in displacement_units(model)]


def alternatives(units: Sequence[str], suffix: str = "") -> str:
    """``rad or m``: the units that occur, once each."""
    return " or ".join(f"{unit}{suffix}" for unit in dict.fromkeys(units)) or "1"


@found_once
def _coordinate_labels(model: Model) -> tuple[str, ...]:
    return _labels(model, _COORDINATES)


@found_once
def _velocity_labels(model: Model) -> tuple[str, ...]:
    return _labels(model, _VELOCITIES)


def _labels(model: Model, parts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    labels = []
    for joint in model.joints:
        words = joint.flexible.modes if joint.flexible is not None else parts.get(joint.kind, ())
        several = [f"{joint.name}.{part}" for part in words if not joint.port]
        labels += several or [joint.name] * (joint.type.nv > 0)
    return tuple(labels)
