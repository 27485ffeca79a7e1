"""Where the value of a parameter goes: the path of a sweep, taken apart.

    bodies.rod.mass, joints.hip.position, gravity     numbers of the model; compiled code leaves them open
    q0.crank, v0.crank, q0.ball[2]                    start coordinates and velocities of a joint, or one of several
    contact.friction, contacts.NAME.restitution       of all contacts, or of one
    ctrl.elbow                                        the command of an actuator
    controller.stiffness                              what the function that makes the controller is called with
    model.links                                       what the function that makes the model is called with
    solver.rtol                                       options of ``wt.simulate``

Runs that differ in the first two kinds are one *case*: they run together. The others make cases of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import NameLookupError, ShapeError
from whippletree.model import Model
from whippletree.model.parameters import BODY_FIELDS, JOINT_FIELDS, find_parameter

CASES = ("model", "controller", "controllers", "solver", "ctrl", "contact", "contacts")
"""First words of paths whose values make cases."""

CONTACT_FIELDS = ("friction", "restitution", "torsional", "rolling")


@dataclass(frozen=True)
class Target:
    """One path."""

    path: str
    kind: str
    """``number``, ``q0``, ``v0``, or one of :data:`CASES`."""
    name: str
    """The name after the first word: of a number the path in the model without its index."""
    index: int | None = None
    """Index of the entry that is meant, where the path ends in [k]."""

    @property
    def makes_cases(self) -> bool:
        return self.kind in CASES


def targets_of(model: Model, paths: Sequence[str]) -> tuple[Target, ...]:
    """All paths, each found in the model.

    Raises:
        NameLookupError: a path that leads nowhere, with the nearest that do.
    """
    found = tuple(_target(path) for path in paths)
    for target in found:
        _check(model, target)
    return found


def with_kinds(values: Mapping[str, Any], *kinds: str) -> dict[str, Any]:
    """The values whose paths begin with one of these words."""
    return {path: value for path, value in values.items() if path.partition(".")[0] in kinds}


def _target(path: str) -> Target:
    matched = re.fullmatch(r"(.*?)(?:\[(\d+)\])?", path)
    assert matched is not None
    whole, index = matched[1], None if matched[2] is None else int(matched[2])
    kind, _, name = whole.partition(".")
    if kind in ("bodies", "joints") or whole == "gravity":
        return Target(path, "number", whole, index)
    return Target(path, kind, name, index)


def _check(model: Model, target: Target) -> None:
    where = f"parameters of a sweep of model {model.name!r}"
    if target.kind == "number":
        _check_number(model, target, where)
    elif target.kind in ("q0", "v0"):
        _check_joint(model, target, where)
    elif target.kind in ("contact", "contacts"):
        name, _, word = target.name.rpartition(".")
        names = [contact.name for contact in model.contacts]
        known = [f"contacts.{n}.{w}" for n in names for w in CONTACT_FIELDS] + [f"contact.{w}" for w in CONTACT_FIELDS]
        if not names:
            raise NameLookupError("path", target.path, known_paths(model), where=where)
        if word not in CONTACT_FIELDS or (target.kind == "contacts" and name not in names):
            raise NameLookupError("path", target.path, known, where=where)
    elif target.kind == "ctrl":
        actuators = [actuator.name for actuator in model.actuators]
        if target.name not in actuators:
            raise NameLookupError("path", target.path, [f"ctrl.{name}" for name in actuators], where=where)
    elif target.kind not in CASES or not target.name:
        raise NameLookupError("path", target.path, known_paths(model), where=where)


def _check_number(model: Model, target: Target, where: str) -> None:
    try:
        parameter = find_parameter(model, target.name)
    except NameLookupError:
        raise NameLookupError("path", target.path, known_paths(model), where=where) from None
    size = int(np.prod(parameter.shape)) if parameter.shape else 0
    if target.index is not None and target.index >= size:
        raise ShapeError(
            f"sweep: {target.name!r} has {size or 'one number and no'} entries, so there is no {target.path!r}"
        )


def _check_joint(model: Model, target: Target, where: str) -> None:
    joints = {joint.name: k for k, joint in enumerate(model.joints)}
    if target.name not in joints:
        raise NameLookupError("path", target.path, [f"{target.kind}.{name}" for name in joints], where=where)
    kind = model.joint_types[joints[target.name]]
    size = kind.nq if target.kind == "q0" else kind.nv
    if target.index is not None and target.index >= size:
        raise ShapeError(
            f"sweep: {target.kind} of joint {target.name!r} has {size} entries: there is no {target.path!r}"
        )


def known_paths(model: Model) -> list[str]:
    """Paths that a sweep of this model can take."""
    paths = [f"bodies.{body.name}.{word}" for body in model.bodies for word in BODY_FIELDS]
    for joint in model.joints:
        paths += [f"joints.{joint.name}.{word}" for word in JOINT_FIELDS]
        paths += [f"q0.{joint.name}", f"v0.{joint.name}"]
    paths += [f"ctrl.{actuator.name}" for actuator in model.actuators]
    if model.contacts:
        paths += [f"contact.{word}" for word in CONTACT_FIELDS]
    return [*paths, "gravity", "solver.<option>", "controller.<word>", "model.<word>"]


def numbers(
    model: Model, targets: Sequence[Target], values: Mapping[str, Sequence[Any]], runs: int
) -> dict[str, Array]:
    """Numbers of the model by their path in it, (runs, …), with what single entries leave as it is.

    Raises:
        ShapeError: a value of another shape than the number has.
    """
    found: dict[str, Array] = {}
    for target in targets:
        if target.kind != "number":
            continue
        parameter = find_parameter(model, target.name)
        own = np.asarray(values[target.path], dtype=float)
        expected = (runs,) if target.index is not None else (runs, *parameter.shape)
        if own.shape != expected:
            raise ShapeError(f"sweep: values of {target.path!r} have shape {own.shape[1:]}, expected {expected[1:]}")
        if target.index is None:
            found[target.name] = own
        else:
            whole = found.setdefault(target.name, np.tile(np.asarray(parameter.value, dtype=float), (runs, 1)))
            whole[:, target.index] = own
    return found


def place_values(
    model: Model, kind: str, start: Array, targets: Sequence[Target], values: Mapping[str, Sequence[Any]], runs: int
) -> Array:
    """Start coordinates or velocities (runs, n) with the values of paths of that kind in their places."""
    found = np.tile(start, (runs, 1))
    for target in targets:
        if target.kind != kind:
            continue
        part = model.q_slice(target.name) if kind == "q0" else model.slice(target.name)
        own = np.asarray(values[target.path], dtype=float)
        if target.index is not None:
            found[:, part.start + target.index] = own
            continue
        size = part.stop - part.start
        if own.size != runs * size:
            raise ShapeError(f"sweep: {target.path!r} takes {size} numbers, got values of shape {own.shape[1:]}")
        found[:, part] = own.reshape(runs, size)
    return found


def with_contacts(model: Model, chosen: Mapping[str, Any]) -> Model:
    """The model with other friction or restitution, by paths ``contact.WORD`` and ``contacts.NAME.WORD``; other paths
    are left aside."""
    contacts = list(model.contacts)
    for path, value in with_kinds(chosen, "contact", "contacts").items():
        kind, _, rest = path.partition(".")
        name, _, word = rest.rpartition(".")
        contacts = [
            replace(c, **{word: float(value)}) if kind == "contact" or c.name == name else c  # type: ignore[arg-type]
            for c in contacts
        ]
    return replace(model, contacts=tuple(contacts))
