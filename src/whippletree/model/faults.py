"""Faults in the parts of a model: names, the tree that they make, masses, joints, poses. In words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import Hints, did_you_mean, name_elsewhere, quote, route
from whippletree.model.frozen import count_in_words
from whippletree.model.model import WORLD, Actuator, Body, Frame, Geometry, Joint
from whippletree.spatial import joints as joint_types

INERTIA_TOLERANCE = 1e-9
"""How far, relative to its trace, an inertia may violate the triangle inequality before it is refused."""

LARGEST_INERTIA = 1e300
"""kg m². The trace of an inertia, and its product with the square of a length of 1 km, must not overflow."""

LIMITS = ("lower", "upper", "velocity_limit", "effort_limit")
"""Numbers of a joint that may be infinite,"""

FINITE_NUMBERS = ("rotor_inertia", "gear_ratio", "stiffness", "rest", "damping", "friction", "pitch")
"""and those that may not."""

_NO_TURN = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def naming_faults(kind: str, names: Iterable[str]) -> list[str]:
    """Names that several parts of one kind have."""
    counts = Counter(names).items()
    return [f"{kind} {name!r} is declared {n} times: give each its own name" for name, n in counts if n > 1]


def end_faults(bodies: Sequence[Body], joints: Sequence[Joint]) -> list[str]:
    """Joints whose parent or child is no body of the model, or that would carry the world."""
    faults = []
    known = {WORLD, *(b.name for b in bodies)}
    hint = Hints()
    for joint in joints:
        for role, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in known:
                faults.append(f"joint {joint.name!r}: unknown {role} {name!r}{hint(str(name), known)}")
        if joint.child == WORLD:
            faults.append(f"joint {joint.name!r}: the world cannot be a child; swap parent and child")
    return faults


def unreached_faults(bodies: Sequence[Body], joints: Sequence[Joint], reached: Iterable[str]) -> list[str]:
    """Bodies that do not hang from the world: they carry each other in a circle, or nothing carries them."""
    settled = set(reached)
    carrier = {joint.child: joint.parent for joint in joints}
    faults: list[str] = []
    for body in bodies:
        path: dict[str, None] = {}  # in order, and quick to look into
        name = body.name
        while name in carrier and name not in settled and name not in path:
            path[name] = None
            name = carrier[name]
        if name in path:
            way = list(path)
            circle = [*way[way.index(name) :], name]
            faults.append(f"bodies carry each other in a circle: {route(circle, '<-')}; hang one from the world")
        elif body.name not in settled and body.name not in carrier:
            faults.append(
                f"body {body.name!r} is not connected to the world: add a joint that carries it "
                f"(kind 'free' lets it float)"
            )
        settled.update(path)
    return faults


def depth_first(joints: Sequence[Joint]) -> list[str]:
    """Names of the bodies that hang from the world, parents first, children in order of declaration."""
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint.child)
    order: list[str] = []
    stack = list(reversed(children.get(WORLD, [])))
    while stack:
        name = stack.pop()
        order.append(name)
        stack.extend(reversed(children.get(name, [])))
    return order


def place_faults(kind: str, parts: Iterable[Frame | Geometry], bodies: Sequence[Body]) -> list[str]:
    """Faults in the places of frames or geometries: an unknown body, a pose that is none."""
    known = {WORLD, *(body.name for body in bodies)}
    faults = []
    hint = Hints()
    for part in parts:
        where = f"{kind} {part.name!r}"
        if part.body not in known:
            faults.append(f"{where}: unknown body {part.body!r}{hint(str(part.body), known)}")
        faults += pose_faults(where, part.pose)
    return faults


def inertia_faults(bodies: Sequence[Body]) -> list[str]:
    """Physical faults of bodies: negative mass, an inertia that no mass distribution has, NaN."""
    faults: list[str] = []
    sound: list[Body] = []
    for body in bodies:
        where = f"body {body.name!r}"
        found = [
            *number_faults(f"{where}: mass", [body.mass]),
            *number_faults(f"{where}: center", body.center),
            *number_faults(f"{where}: inertia", body.inertia),
        ]
        if not found:
            sound.append(body)
            if body.mass < 0:
                found.append(f"{where}: mass {body.mass} is negative")
        faults += found
    return faults + _unphysical(sound)


def _unphysical(bodies: Sequence[Body]) -> list[str]:
    """Inertias that are not symmetric or violate the triangle inequality, all bodies at once."""
    bodies = [body for body in bodies if body.inertia.any()]
    if not bodies:
        return []
    matrices = np.array([body.inertia.astype(float) for body in bodies])
    # scaled to entries of at most 1: a trace of numbers near 1e308 would overflow
    largest = np.abs(matrices).max(axis=(1, 2))
    matrices /= largest[:, None, None]
    traces = np.trace(matrices, axis1=1, axis2=2)
    allowed = INERTIA_TOLERANCE * np.abs(traces)
    skewed = np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2)) > allowed
    # the second moments of mass ½ tr(I) 1 − I must not be negative: the triangle inequality along every axis at once
    moments = np.linalg.eigvalsh(traces[:, None, None] / 2 * np.eye(3) - matrices)[:, 0]
    faults = []
    for body, matrix, scale, crooked, low, limit in zip(
        bodies, matrices, largest, skewed, moments, allowed, strict=True
    ):
        if scale > LARGEST_INERTIA:
            faults.append(
                f"body {body.name!r}: inertia holds {scale:g}: sums of such numbers are beyond the largest float "
                f"(1.8e308). Use other units, or weld the body"
            )
        elif crooked:
            faults.append(f"body {body.name!r}: inertia is not symmetric")
        elif low < -limit:
            principal = ", ".join(f"{x:.6g}" for x in scale * np.linalg.eigvalsh(matrix))
            faults.append(
                f"body {body.name!r}: principal inertias ({principal}) violate the triangle inequality (each must be "
                f"at most the sum of the other two): no distribution of mass has them. A body that turns about one "
                f"axis only may have (I/2, I/2, I)"
            )
    return faults


def joint_faults(joint: Joint) -> list[str]:
    """Faults in a joint's own data."""
    where = f"joint {joint.name!r}"
    faults: list[str] = []
    if joint.kind not in joint_types.KINDS and joint.flexible is None:
        known = ", ".join(joint_types.KINDS)
        hint = name_elsewhere(str(joint.kind)) or did_you_mean(str(joint.kind), joint_types.KINDS)
        faults.append(f"{where}: unknown kind {joint.kind!r}; known: {known}{hint}")
    faults += _word_faults(where, joint, FINITE_NUMBERS)
    faults += _word_faults(where, joint, LIMITS, infinite=True)
    faults += pose_faults(where, joint.pose)
    if any("number" in fault for fault in faults):
        return faults
    for word in ("rotor_inertia", "damping", "friction", "velocity_limit", "effort_limit"):
        if getattr(joint, word) < 0:
            faults.append(f"{where}: {word} {getattr(joint, word)} is negative")
    if joint.kind in ("spherical", "free") and joint.stiffness != 0:
        faults.append(
            f"{where}: stiffness {joint.stiffness} on a {joint.kind} joint, which stores a quaternion and has no "
            f"spring here: use three revolute joints, or apply its moment by a controller"
        )
    if not joint.lower <= joint.upper:
        faults.append(f"{where}: limits [{joint.lower}, {joint.upper}] are empty: lower must not exceed upper")
    if joint.kind == "universal" and abs(float(joint.axis @ joint.second_axis)) > 1 - INERTIA_TOLERANCE:
        axis = "(" + ", ".join(f"{float(x):g}" for x in joint.axis) + ")"
        faults.append(f"{where}: the two axes of a universal joint are parallel: give second_axis=, across {axis}")
    return faults


def held_mode_faults(joints: Sequence[Joint], parts: Sequence[Frame | Geometry]) -> list[str]:
    """Joints, frames and shapes on a flexible body as a whole, which has no place of its own: frames of it have."""
    frames: dict[str, list[str]] = {joint.child: [] for joint in joints if joint.kind == "modal"}
    for joint in joints:
        if joint.kind == "port" and joint.parent in frames:
            frames[joint.parent].append(joint.child)
    held = [(f"joint {j.name!r}", j.parent) for j in joints if j.kind != "port"]
    held += [(f"joint {j.name!r}", j.child) for j in joints if j.kind not in joint_types.FLEXIBLE_KINDS]
    held += [(f"{type(part).__name__.lower()} {part.name!r}", part.body) for part in parts]
    return [
        f"{where} holds on to {body!r}, which bends and is no rigid part: name one of its frames "
        f"({', '.join(map(repr, frames[body])) or 'it has none'}), or its reference frame {body.rpartition('/')[0]!r}"
        for where, body in held
        if body in frames
    ]


def actuator_faults(
    actuators: Sequence[Actuator],
    joints: Sequence[Joint],
    places: Sequence[Body | Frame],
    tendons: Sequence[str] = (),
) -> list[str]:
    """Faults of actuators: in their targets and in their numbers."""
    freedoms = {joint.name: joint.type.nv for joint in joints if joint.flexible or joint.kind in joint_types.KINDS}
    named = {WORLD, *(place.name for place in places)}
    faults: list[str] = []
    for actuator in actuators:
        where = f"actuator {actuator.name!r}"
        driven = [bool(actuator.joints), actuator.frame is not None, actuator.tendon is not None]
        if sum(driven) != 1:
            faults.append(f"{where} drives {'both joints and a frame' if any(driven) else 'nothing'}: name one")
        if actuator.tendon is not None and actuator.tendon not in tendons:
            faults.append(f"{where}: unknown tendon {actuator.tendon!r}{did_you_mean(str(actuator.tendon), tendons)}")
        for joint in actuator.joints:
            if joint not in freedoms:
                faults.append(f"{where}: unknown joint {joint!r}{did_you_mean(str(joint), freedoms)}")
            elif freedoms[joint] != 1:
                faults.append(f"{where}: joint {joint!r} has {freedoms[joint]} freedoms, expected one: drive a frame")
        if actuator.frame is not None and actuator.frame not in named:
            faults.append(f"{where}: unknown frame {actuator.frame!r}{did_you_mean(str(actuator.frame), named)}")
        expected = 6 if actuator.frame is not None else 1 if actuator.tendon is not None else len(actuator.joints)
        if len(actuator.gear) != expected:
            faults.append(f"{where}: gear has {count_in_words(len(actuator.gear))}, expected {expected}")
        for word in ("gear", "gain", "bias"):
            faults += number_faults(f"{where}: {word}", getattr(actuator, word))
        for word in ("command_range", "force_range"):
            faults += _range_faults(f"{where}: {word}", getattr(actuator, word))
    return faults


def _range_faults(where: str, ends: Any) -> list[str]:
    if len(ends) != 2:
        return [f"{where} has {count_in_words(len(ends))}, expected 2"]
    faults = number_faults(where, list(ends), infinite=True)
    return faults or [f"{where} [{ends[0]}, {ends[1]}] is empty"] * (not ends[0] <= ends[1])


def pose_faults(where: str, pose: Array) -> list[str]:
    """Faults of a (4, 4) pose."""
    faults = number_faults(f"{where}: pose", pose)
    if faults:
        return faults
    if pose[:3, :3].tolist() == _NO_TURN:  # most are, and the rest takes ten times as long
        return []
    rotation = pose[:3, :3].astype(float)
    # entries beyond 2 are those of no rotation, and their squares may overflow
    proper = np.abs(rotation).max() <= 2 and np.abs(rotation @ rotation.T - np.eye(3)).max() <= INERTIA_TOLERANCE
    if not proper or np.linalg.det(rotation) < 0:
        return [f"{where}: the rotation of its pose is not a rotation matrix (orthogonal, determinant +1)"]
    return []


def number_faults(where: str, values: Any, *, infinite: bool = False) -> list[str]:
    """NaN, infinity (unless it is allowed) and things that are no real numbers."""
    entries = values if isinstance(values, list) else np.array(values, dtype=object).ravel().tolist()
    if _are_sound(entries, infinite):
        return []
    for x in entries:
        try:
            number = None if isinstance(x, (str, bytes)) else float(x)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or (infinite and math.isnan(number)):
            return [f"{where} holds {quote(x)}, which is not a number"]
        if not infinite and not math.isfinite(number):
            return [f"{where} holds {number}: every number must be finite"]
    return []


def _are_sound(numbers: Iterable[Any], infinite: bool) -> bool:
    """Whether all are numbers, and finite unless infinity is allowed; False also where only a closer look can tell."""
    try:
        return not any(map(math.isnan, numbers)) if infinite else all(map(math.isfinite, numbers))
    except (TypeError, ValueError, OverflowError):
        return False


def _word_faults(where: str, part: Any, words: Sequence[str], *, infinite: bool = False) -> list[str]:
    """Faults of numbers of a part, by their names."""
    if _are_sound([getattr(part, word) for word in words], infinite):
        return []
    return [
        fault for word in words for fault in number_faults(f"{where}: {word}", [getattr(part, word)], infinite=infinite)
    ]
