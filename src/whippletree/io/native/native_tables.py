"""The native file format, version 1: what each table may hold. The same in TOML and in JSON.

    whippletree = 1                        # the version of the format
    name = "arm"
    gravity = [0.0, 0.0, -9.81]            # m/s²

    [[bodies]]
    name = "upper"
    mass = 2.0                             # kg
    center = [0.2, 0.0, 0.0]               # m
    inertia = [0.01, 0.03, 0.03]           # kg m²: 3 or 6 numbers (xx, yy, zz, xy, xz, yz), or 3 rows

    [[joints]]
    name = "shoulder"
    kind = "revolute"
    parent = "world"
    child = "upper"
    axis = [0.0, 0.0, 1.0]

and ``[[frames]]``, ``[[constraints]]``, ``[[geometries]]``, ``[[contacts]]``, ``[[contact_groups]]``,
``[[actuators]]``, ``[[key_frames]]``, ``[start]`` in the same way, with the fields of :mod:`whippletree.model`, and
``time_step`` beside ``gravity``; a pose is a ``position`` and a ``rotation`` (3 rows). A number may be a text:
``"1/3"`` is an exact fraction, ``"inf"`` infinite. Among free parameters, where a text is a text, a fraction is ``{
fraction = "1/3" }``. A field that is left out has the value that :mod:`whippletree.model` gives it; the defaults below
only mark it as one that may be left out.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from whippletree.errors import quote

NATIVE_VERSION = 1

Number: TypeAlias = int | float | str
Vector: TypeAlias = Annotated[list[Number], Meta(min_length=3, max_length=3)]
Ends: TypeAlias = Annotated[list[Number], Meta(min_length=2, max_length=2)]
Rows: TypeAlias = Annotated[list[Vector], Meta(min_length=3, max_length=3)]


class BodyTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[bodies]]``."""

    name: str
    mass: Number = 0
    center: Vector = []
    inertia: list[Number | list[Number]] = []
    unphysical: bool = False
    """Keep an inertia that no distribution of mass has; published robots come with such."""


class JointTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[joints]]``."""

    name: str
    kind: str
    parent: str
    child: str
    position: Vector = []
    rotation: Rows = []
    axis: Vector = []
    second_axis: Vector = []
    child_position: Vector = []
    child_rotation: Rows = []
    pitch: Number = 0
    rotor_inertia: Number = 0
    gear_ratio: Number = 0
    stiffness: Number = 0
    rest: Number = 0
    damping: Number = 0
    friction: Number = 0
    lower: Number = 0
    upper: Number = 0
    velocity_limit: Number = 0
    effort_limit: Number = 0


class FrameTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[frames]]``."""

    name: str
    body: str
    position: Vector = []
    rotation: Rows = []


class ConstraintTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[constraints]]``."""

    name: str
    kind: str
    on: list[str]
    parameters: dict[str, Any] = {}
    joint: str = ""


class GeometryTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[geometries]]``."""

    name: str
    body: str
    kind: str
    position: Vector = []
    rotation: Rows = []
    parameters: dict[str, Any] = {}
    collides: bool = True
    visible: bool = True


class ContactTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[contacts]]``."""

    name: str
    first: str
    second: str
    friction: Number = 0
    restitution: Number = 0
    law: str = ""
    margin: Number = 0
    torsional: Number = 0
    rolling: Number = 0


class ContactGroupTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[contact_groups]]``: every two of its geometries may touch."""

    name: str
    geometries: list[str]
    friction: Number = 0
    restitution: Number = 0
    margin: Number = 0
    torsional: Number = 0
    rolling: Number = 0


class ActuatorTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[actuators]]``."""

    name: str
    joints: list[str] = []
    frame: str = ""
    gear: list[Number] = []
    gain: Vector = []
    bias: Vector = []
    command_range: Ends = []
    force_range: Ends = []
    tendon: str = ""
    activation: str = ""
    activation_times: list[Number] = []
    activation_range: Ends = []
    activation_early: bool = False
    muscle: dict[str, float | list[float]] = {}


class WrapTable(Struct, forbid_unknown_fields=True):
    """An obstacle of a tendon, ``around = [{…}]``."""

    frame: str
    kind: str
    radius: Number
    side: str = ""
    after: int = 0
    branch: int = 0


class TendonTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[tendons]]``."""

    name: str
    joints: list[str] = []
    weights: list[Number] = []
    branches: list[list[str]] = []
    divisors: list[Number] = []
    stiffness: Number = 0
    rest: Ends = []
    damping: Number = 0
    around: list[WrapTable] = []
    limits: Ends = []


class FluidBoxTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[fluid_boxes]]``."""

    name: str
    body: str
    size: Vector
    position: Vector = []
    rotation: Rows = []
    density: Number = 0
    viscosity: Number = 0
    wind: Vector = []


class LiftTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[lifts]]``."""

    name: str
    body: str
    share: Number = 1


class SensorTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[sensors]]``."""

    name: str
    kind: str
    on: str
    reference: str = ""
    cutoff: Number = 0


class KeyFrameTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[key_frames]]``."""

    name: str
    q: list[Number] = []
    v: list[Number] = []
    commands: list[Number] = []
    act: list[Number] = []


class StartTable(Struct, forbid_unknown_fields=True):
    """The table ``[start]``: the home state."""

    q: list[Number]
    v: list[Number]


class FlexibleBodyTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[flexible_bodies]]``: the integrals of a body with n modes (:mod:`whippletree.spatial.modal`)."""

    name: str
    mass: Number
    first: list[Any]
    second: list[Any]
    shapes: list[Any]
    position_shapes: list[Any]
    shape_products: list[Any]
    rotary: list[Any]
    rotary_shapes: list[Any]
    rotary_products: list[Any]
    stiffness: list[Any]
    damping: list[Any]
    modes: list[str]
    shortening: list[Any] = []
    position_shortening: list[Any] = []
    outline: list[Any] = []
    outline_shapes: list[Any] = []
    outline_edges: list[list[int]] = []


class FlexibleFrameTable(Struct, forbid_unknown_fields=True):
    """A table of ``[[flexible_frames]]``: a frame ``BODY/FRAME`` of a flexible body, and how its modes move it."""

    name: str
    shapes: list[Any]
    slopes: list[Any]
    position: Vector = []
    rotation: Rows = []
    shortening: list[Any] = []


class NativeFile(Struct, forbid_unknown_fields=True):
    """The whole file; the lists hold the tables above."""

    whippletree: int
    name: str
    gravity: Vector = []
    source: str = ""
    cut: list[str] = []
    """Joints at which loops of joints are opened; of other loops the one declared last."""
    bodies: list[dict[str, Any]] = []
    flexible_bodies: list[dict[str, Any]] = []
    flexible_frames: list[dict[str, Any]] = []
    joints: list[dict[str, Any]] = []
    frames: list[dict[str, Any]] = []
    constraints: list[dict[str, Any]] = []
    geometries: list[dict[str, Any]] = []
    contacts: list[dict[str, Any]] = []
    contact_groups: list[dict[str, Any]] = []
    tendons: list[dict[str, Any]] = []
    fluid_boxes: list[dict[str, Any]] = []
    lifts: list[dict[str, Any]] = []
    actuators: list[dict[str, Any]] = []
    sensors: list[dict[str, Any]] = []
    key_frames: list[dict[str, Any]] = []
    time_step: Number = 0
    start: dict[str, Any] | None = None


class Loops(Struct, forbid_unknown_fields=True):
    """A file of loops for another model (:mod:`whippletree.io.loops_file`)."""

    whippletree: int
    joints: list[dict[str, Any]] = []
    cut: list[str] = []
    frames: list[dict[str, Any]] = []
    constraints: list[dict[str, Any]] = []
    start: dict[str, Any] = {}


TABLES: dict[str, type[Struct]] = {
    "bodies": BodyTable,
    "flexible_bodies": FlexibleBodyTable,
    "flexible_frames": FlexibleFrameTable,
    "joints": JointTable,
    "frames": FrameTable,
    "constraints": ConstraintTable,
    "geometries": GeometryTable,
    "contacts": ContactTable,
    "contact_groups": ContactGroupTable,
    "tendons": TendonTable,
    "fluid_boxes": FluidBoxTable,
    "lifts": LiftTable,
    "actuators": ActuatorTable,
    "sensors": SensorTable,
    "key_frames": KeyFrameTable,
}

# zeros of the denominator first: no two parts of the pattern can match the same digit
_FRACTION = re.compile(r"[+-]?\d+/0*[1-9]\d*")
_NOT_FINITE = ("inf", "-inf", "nan")


def exact(value: Any) -> Any:
    """Numbers as they were: a text becomes a Fraction or a float that is not finite, lists stay lists.

    Raises:
        ValueError: a text that is no number.
    """
    if isinstance(value, list):
        return [exact(entry) for entry in value]
    if not isinstance(value, str):
        return value
    if _FRACTION.fullmatch(value):
        return Fraction(value)
    if value in _NOT_FINITE:
        return float(value)
    raise ValueError(f"{quote(value)} is not a number (a text may be a fraction such as '1/3', or 'inf')")


def free(value: Any) -> Any:
    """A parameter as it was: lists become tuples, ``{ fraction = … }`` a Fraction."""
    if isinstance(value, list):
        return tuple(free(entry) for entry in value)
    if isinstance(value, dict):
        if set(value) in ({"fraction"}, {"float"}):
            return exact(str(next(iter(value.values()))))
        return {key: free(entry) for key, entry in value.items()}
    return value


@cache
def fields(table: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a table by name."""
    return {info.name: info for info in msgspec.structs.fields(table)}
