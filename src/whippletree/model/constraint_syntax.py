"""The words in which constraints are written: kinds, what they tie, and their parameters. Data only.

:mod:`whippletree.constraints.kinds` gives them their meaning; readers of files check spelling against this table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from whippletree.model.faults import LIMITS


class Words(NamedTuple):
    """How a kind of constraint is written."""

    on: Literal["frames", "joints"]
    parameters: tuple[str, ...] = ()
    function: str = ""
    """A parameter that is a Python function, which a file cannot hold."""


KINDS: dict[str, Words] = {
    "point": Words("frames"),
    "pin": Words("frames", ("axis",)),
    "weld": Words("frames"),
    "hinge": Words("frames", ("axis",)),
    "universal": Words("frames", ("axis", "second_axis")),
    "slider": Words("frames", ("axis",)),
    "cylindrical": Words("frames", ("axis",)),
    "plane": Words("frames", ("normal",)),
    "point_on_line": Words("frames", ("direction",)),
    "point_on_plane": Words("frames", ("normal",)),
    "point_on_curve": Words("frames", ("rows",), "curve"),
    "distance": Words("frames", ("length",)),
    "cable": Words("frames", ("length", "branches", "factors")),
    "prescribed_frame": Words("frames", (), "motion"),
    "custom": Words("frames", ("rows", "time"), "residual"),
    "rolling": Words("frames", ("radius", "normal", "axis")),
    "knife_edge": Words("frames", ("direction",)),
    "coupling": Words("joints", ("coefficients",)),
    "gear": Words("joints", ("ratios", "offset")),
    "prescribed": Words("joints", (), "motion"),
    "hold": Words("joints", ("component", "massless")),
}

MANY_FRAMES = ("custom", "cable")
"""Kinds that tie any number of frames, and not two."""

COMMON = ("compliance", "switchable", "active", "without")
"""Parameters of every kind."""

JOINT_DATA = ("rotor_inertia", "gear_ratio", "stiffness", "rest", "damping", "friction", *LIMITS)
"""Properties that a file gives a joint which closes a loop: kept as data, without effect; ``wt.diagnose`` says so."""


def parameters_of(kind: str) -> tuple[str, ...]:
    """Every parameter that a kind takes."""
    words = KINDS[kind]
    return (*words.parameters, *((words.function,) if words.function else ()), *COMMON)
