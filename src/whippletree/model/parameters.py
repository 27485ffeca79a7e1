"""Open parameters: numbers of a model that a function takes as inputs instead of constants.

A parameter is named by its path in the model: ``bodies.rod.mass``, ``bodies.rod.center`` (3), ``bodies.rod.inertia``
(6: xx, yy, zz, xy, xz, yz about the centre of mass), ``joints.hip.stiffness`` (also damping, rest, rotor_inertia,
gear_ratio, pitch), ``joints.hip.position`` (3), ``gravity`` (3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError, NameLookupError, UnsupportedError
from whippletree.model.faults import inertia_faults, joint_faults, number_faults
from whippletree.model.input_checks import as_names
from whippletree.model.model import Model

BODY_FIELDS = {"mass": (), "center": (3,), "inertia": (6,)}
JOINT_FIELDS = {
    "stiffness": (),
    "damping": (),
    "rest": (),
    "rotor_inertia": (),
    "gear_ratio": (),
    "pitch": (),
    "position": (3,),
}


NOT_NEGATIVE = ("mass", "damping", "rotor_inertia")
"""Fields that no body and no joint has below zero."""


@dataclass(frozen=True)
class Parameter:
    """A number, or a few, of a model that is left open."""

    path: str
    shape: tuple[int, ...]
    value: Array
    """The model's own value, of that shape."""


def find_parameter(model: Model, path: str) -> Parameter:
    """Look a path up in a model.

    Raises:
        NameLookupError: if the path leads nowhere; the message lists what is there.
    """
    kind, _, rest = path.partition(".") if isinstance(path, str) else ("", "", "")
    name, _, word = rest.rpartition(".")
    if path == "gravity":
        return Parameter(path, (3,), model.gravity)
    if kind == "bodies":
        body = model.bodies[_number(model, "body", {b.name: k for k, b in enumerate(model.bodies)}, name)]
        _check_field(path, word, BODY_FIELDS)
        _refuse_modes(model, path, body.name)
        value = _six(body.inertia) if word == "inertia" else np.asarray(getattr(body, word))
        return Parameter(path, BODY_FIELDS[word], value)
    if kind == "joints":
        joint = model.joints[_number(model, "joint", {j.name: k for k, j in enumerate(model.joints)}, name)]
        _check_field(path, word, JOINT_FIELDS)
        _refuse_modes(model, path, joint.child)
        value = joint.pose[:3, 3] if word == "position" else np.asarray(getattr(joint, word))
        return Parameter(path, JOINT_FIELDS[word], value)
    raise NameLookupError("parameter", path, ["bodies.<name>.<field>", "joints.<name>.<field>", "gravity"])


def parameter_paths(model: Model, names: str | Iterable[str]) -> tuple[str, ...]:
    """The paths of parameters that are left open, each once.

    Raises:
        NameLookupError: a path that leads nowhere.
        ValueError: a path that is named twice: its number would be asked for twice.
    """
    paths = tuple(find_parameter(model, path).path for path in as_names(names))
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"parameters of model {model.name!r}: {path!r} is named more than once")
    return paths


def require_physical(model: Model, values: Mapping[str, Array]) -> None:
    """Refuse designs that no model could have: what ``wt.Builder`` refuses.

    Args:
        model: whose numbers the designs replace.
        values: numbers by path, (..., *shape): of one design or of many.

    Raises:
        ModelError: naming the faults of the first such design.
    """
    for path, given in values.items():
        shape = find_parameter(model, path).shape
        designs = given.reshape(-1, *shape)
        sound = np.isfinite(designs).reshape(len(designs), -1).all(axis=1)
        word = path.rpartition(".")[2]
        if word in NOT_NEGATIVE:
            sound &= designs >= 0
        # whether an inertia is one of a body takes its eigenvalues
        doubtful = range(len(designs)) if word == "inertia" else np.flatnonzero(~sound)
        for number in doubtful:
            if faults := _faults_of(model, path, designs[number]):
                which = f" of design {number}" if given.ndim > len(shape) else ""
                raise ModelError(f"parameter {path!r}{which} of model {model.name!r}", faults)


def _faults_of(model: Model, path: str, value: Array) -> list[str]:
    """What is wrong with one number, or a few, at a path."""
    changed = with_parameters(model, {path: value})
    kind, _, rest = path.partition(".")
    name = rest.rpartition(".")[0]
    if kind == "bodies":
        return inertia_faults([changed.bodies[changed.body_index(name)]])
    if kind == "joints":
        return joint_faults(changed.joints[changed.joint_index(name)])
    return number_faults("gravity", value)


def opens_joints(paths: Iterable[str]) -> bool:
    """Whether one of these paths leaves a number of a joint open."""
    return any(path.partition(".")[0] == "joints" for path in paths)


def with_parameters(model: Model, values: Mapping[str, Any]) -> Model:
    """The model with other numbers at these paths; they may be of any scalar type, also traced."""
    bodies, joints = list(model.bodies), list(model.joints)
    gravity = model.gravity
    for path, value in values.items():
        kind, _, rest = path.partition(".")
        name, _, word = rest.rpartition(".")
        if kind == "gravity":
            gravity = _numbers(value)
        elif kind == "bodies":
            k = model.body_index(name)
            new = _matrix(value) if word == "inertia" else _numbers(value)[()]
            bodies[k] = replace(bodies[k], **{word: new})  # type: ignore[arg-type]
        elif word == "position":
            k = model.joint_index(name)
            place = _numbers(value)
            pose = joints[k].pose.astype(place.dtype)
            pose[:3, 3] = place
            joints[k] = replace(joints[k], pose=pose)
        else:
            k = model.joint_index(name)
            joints[k] = replace(joints[k], **{word: _numbers(value)[()]})  # type: ignore[arg-type]
    origin = model.origin if model.origin is not None else model
    return replace(model, bodies=tuple(bodies), joints=tuple(joints), gravity=gravity, origin=origin)


def with_scalars(model: Model, number: Callable[[float], Any]) -> Model:
    """The model with the numbers of its rigid bodies and joints as scalars of another type; 0 and ±1, the zeros and
    ones of its structure, stay as they are.

    What is computed of them alone, such as the mass that two sliders in a line carry, is then of that type too.
    """

    def as_scalars(value: Any) -> Any:
        plain = np.asarray(value)
        found = np.empty(plain.shape, dtype=object)
        for index in np.ndindex(*plain.shape):
            x = plain[index]
            found[index] = int(x) if x in (0, 1, -1) else number(float(x))
        return found[()]

    def with_fields(part: Any, words: Iterable[str]) -> Any:
        return replace(part, **{word: as_scalars(getattr(part, word)) for word in words})

    bodies = tuple(with_fields(body, BODY_FIELDS) for body in model.bodies)
    words = ("pose", "axis", "second_axis", *(word for word in JOINT_FIELDS if word != "position"))
    joints = tuple(joint if joint.flexible is not None else with_fields(joint, words) for joint in model.joints)
    origin = model.origin if model.origin is not None else model
    return replace(model, bodies=bodies, joints=joints, gravity=as_scalars(model.gravity), origin=origin)


def _number(model: Model, kind: str, numbers: Mapping[str, int], name: str) -> int:
    if name not in numbers:
        raise NameLookupError(kind, name, numbers, where=f"parameters of model {model.name!r}")
    return numbers[name]


def _refuse_modes(model: Model, path: str, body: str) -> None:
    """The numbers of a flexible body are integrals that belong together: none of them is open by itself."""
    joint = model.joints[model.body_index(body)]
    if joint.flexible is not None:
        raise UnsupportedError(
            f"parameter {path!r}: {body!r} is part of a flexible body, whose integrals, stiffness and frames cannot be "
            f"left open one by one: make the body anew with wt.flexible for each value"
        )


def _check_field(path: str, word: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    if word not in known:
        raise NameLookupError("field", word, known, where=f"parameter {path!r}")


def _six(I: Array) -> Array:
    return np.array([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


def _matrix(six: Sequence[Any]) -> Array:
    xx, yy, zz, xy, xz, yz = six
    return _numbers([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _numbers(value: Any) -> Array:
    """Plain numbers as floats, other scalars as they are."""
    array = np.array(value)
    return array if array.dtype.kind == "f" else np.array(value, dtype=object)
