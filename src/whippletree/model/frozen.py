"""Read-only arrays and pieces of data, of which models are made; copies and pickles of them are read-only too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from whippletree.arithmetic.arrays import Array

Vector: TypeAlias = Sequence[Any] | Array

Whole = TypeVar("Whole")
Fact = TypeVar("Fact")

LARGEST_INTEGER = 2**63 - 1
"""Largest entry of an array of 64-bit integers."""


def found_once(find: Callable[[Whole], Fact]) -> Callable[[Whole], Fact]:
    """A function of a model, or of another frozen whole, that is evaluated once for each: the same object every time.

    What it finds is kept beside the model's own cached properties: it lives as long as the model and no longer, and
    copies and pickles leave it out.
    """
    place = f"_{find.__name__.lstrip('_')}"

    @wraps(find)
    def recall(whole: Whole) -> Fact:
        kept = whole.__dict__
        if place not in kept:
            kept[place] = find(whole)
        fact: Fact = kept[place]
        return fact

    return recall


def frozen_array(values: Any, shape: tuple[int, ...]) -> Array:
    """A read-only array: int64 where all entries are integers, which are exact and change no other scalar; float64
    where they are plain numbers; object where any entry is something else.

    Integers beyond 64 bits become floats.

    Raises:
        ValueError: an integer too large for a float.
    """
    array = np.array(values, dtype=object).reshape(shape)
    entries = array.ravel().tolist()
    common = _common_type(frozenset(map(type, entries)))
    if common is np.int64 and not all(-LARGEST_INTEGER <= x <= LARGEST_INTEGER for x in entries):
        common = np.float64
    if common is not object:
        try:
            array = array.astype(common)
        except OverflowError:
            raise ValueError("holds an integer that is too large for a float (1.8e308)") from None
    array.setflags(write=False)
    return array


@cache
def _common_type(types: frozenset[type]) -> type:
    """The type of an array of entries of these types: models have hundreds of thousands of them, and few such sets."""
    if all(issubclass(kind, (int, np.integer)) for kind in types):
        return np.int64
    return np.float64 if all(issubclass(kind, (int, float, np.floating, np.integer)) for kind in types) else object


ORIGIN = (0, 0, 0)
"""A position that is not said."""

NO_POSE = frozen_array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], (4, 4))
"""The pose of what lies in the frame in which it is given; one array for all of them."""


def pose_matrix(position: Vector = ORIGIN, rotation: Any = None) -> Array:
    """A (4, 4) pose from a position (3,) and a rotation matrix (3, 3), identity if None."""
    if position is ORIGIN and rotation is None:
        return NO_POSE
    x, y, z = vector_of("position", position).tolist()
    if rotation is None:
        return frozen_array([1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z, 0, 0, 0, 1], (4, 4))
    if np.shape(rotation) != (3, 3):
        raise ValueError(f"rotation has shape {np.shape(rotation)}, expected (3, 3)")
    a, b, c = np.array(rotation, dtype=object).tolist()
    return frozen_array([*a, x, *b, y, *c, z, 0, 0, 0, 1], (4, 4))


def vector_of(what: str, values: Any) -> Array:
    """A read-only vector (3,); an error that says what it is if there are not three numbers."""
    entries = np.array(values, dtype=object)
    if entries.size != 3:
        raise ValueError(f"{what} has {count_in_words(entries.size)}, expected 3")
    return frozen_array(entries, (3,))


def count_in_words(n: int) -> str:
    """How many numbers, in words."""
    return f"{n} number{'s' * (n != 1)}"


def inertia_matrix(values: Any) -> Array:
    """A (3, 3) rotational inertia from a matrix, from (Ixx, Iyy, Izz), or from (Ixx, Iyy, Izz, Ixy, Ixz, Iyz)."""
    flat = np.array(values, dtype=object).reshape(-1)
    if flat.size == 9:
        return frozen_array(flat, (3, 3))
    if flat.size not in (3, 6):
        raise ValueError(
            f"inertia has {count_in_words(flat.size)}; give a 3×3 matrix, (xx, yy, zz) or (xx, yy, zz, xy, xz, yz)"
        )
    xx, yy, zz, xy, xz, yz = [*flat, 0, 0, 0][:6]
    return frozen_array([xx, xy, xz, xy, yy, yz, xz, yz, zz], (3, 3))


class Part:
    """Behaviour of all pieces of a description: how they are shown, and that copies and pickles are read-only too."""

    def __getstate__(self) -> dict[str, Any]:
        # fields alone: what was worked out from them is worked out again
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value = value.view()
                value.setflags(write=False)
            object.__setattr__(self, name, MappingProxyType(value) if isinstance(value, dict) else value)

    def __repr__(self) -> str:
        """The fields that are not at their defaults."""
        shown = []
        for part in fields(self):  # type: ignore[arg-type]
            usual = part.default if part.default_factory is MISSING else part.default_factory()
            text = _text(getattr(self, part.name))
            if part.repr and text != _text(usual):
                shown.append(f"{part.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


class PartWithParameters(Part):
    """One whose numbers depend on its kind; they are read-only."""

    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))


def _text(value: Any) -> str:
    """A field's value as it is written in a call that makes the part."""
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    return repr(dict(value) if isinstance(value, Mapping) else value)
