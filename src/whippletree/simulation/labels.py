"""Names and units of the entries of q, v and tau, joint by joint."""

from __future__ import annotations

from collections.abc import Sequence

from whippletree.model import Model

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

_FORCES = {"rad": "N m", "m": "N"}


def coordinates(model: Model) -> list[str]:
    """A name for every entry of q: the joint's, with a suffix where it has several."""
    return _labels(model, [kind.nq for kind in model.joint_types])


def velocities(model: Model) -> list[str]:
    """A name for every entry of v."""
    return _labels(model, [kind.nv for kind in model.joint_types])


def coordinate_units(model: Model) -> list[str]:
    """Of each entry of q."""
    return [unit for joint in model.joints for unit in _JOINT_UNITS[joint.kind][0]]


def displacement_units(model: Model) -> list[str]:
    """Of what each entry of v is per second."""
    return [unit for joint in model.joints for unit in _JOINT_UNITS[joint.kind][1]]


def force_units(model: Model) -> list[str]:
    """Of each entry of tau."""
    return [_FORCES[unit] for unit in displacement_units(model)]


def alternatives(units: Sequence[str], suffix: str = "") -> str:
    """``rad or m``: the units that occur, once each."""
    return " or ".join(f"{unit}{suffix}" for unit in dict.fromkeys(units)) or "1"


def _labels(model: Model, sizes: Sequence[int]) -> list[str]:
    labels = []
    for joint, size in zip(model.joints, sizes, strict=True):
        labels += [joint.name] if size == 1 else [f"{joint.name}[{i}]" for i in range(size)]
    return labels
