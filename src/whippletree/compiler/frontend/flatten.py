"""Values as lists of numbers: what a step hands over is taken apart into scalars and put together again.

A value may be an array, a scalar, a (named) tuple, a frozen dataclass (joint types) or an object without any data,
nested as one likes. Texts, truth values and None are part of the *structure*: they tell two kinds of value apart, as a
shape does, and are never loaded from memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Traced

Structure: TypeAlias = tuple[Any, ...]
"""A hashable description of a value without its numbers."""


def flatten(value: Any) -> tuple[Structure, list[Any]]:
    """The structure of a value and its scalars in order."""
    leaves: list[Any] = []
    return _take_apart(value, leaves), leaves


def rebuild(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of that structure with these scalars."""
    return _put_together(structure, iter(leaves))


def _take_apart(value: Any, leaves: list[Any]) -> Structure:
    if isinstance(value, np.ndarray):
        leaves.extend(value.ravel().tolist())
        return ("array", value.shape)
    if isinstance(value, tuple):
        kind = type(value) if hasattr(value, "_fields") else None
        return ("tuple", kind, *[_take_apart(part, leaves) for part in value])
    if value is None or isinstance(value, (bool, str)):
        return ("word", value)
    if isinstance(value, (Traced, Number)):
        leaves.append(value)
        return ("scalar",)
    if dataclasses.is_dataclass(value):
        parts = [_take_apart(getattr(value, f.name), leaves) for f in dataclasses.fields(value)]
        return ("record", type(value), *parts)
    if not getattr(value, "__dict__", None):
        return ("object", type(value))
    raise TypeError(f"a value of type {type(value).__name__} cannot live in a loop over bodies: use arrays and tuples")


def _put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    match structure:
        case ("array", shape):
            array = np.empty(int(np.prod(shape)), dtype=object)
            array[:] = [next(leaves) for _ in range(array.size)]
            return array.reshape(shape)
        case ("scalar",):
            return next(leaves)
        case ("tuple", None, *parts):
            return tuple(_put_together(part, leaves) for part in parts)
        case ("tuple" | "record", kind, *parts):
            return kind(*[_put_together(part, leaves) for part in parts])
        case ("word", value):
            return value
        case (_, kind):
            return kind()
    raise AssertionError(structure)


def conform(value: Any, like: Any) -> list[Any]:
    """The scalars of a value, stretched to the shape of another: a plain 0 may stand for a whole inertia."""
    if isinstance(like, tuple):
        parts = value if isinstance(value, tuple) else (value,) * len(like)
        return [x for part, other in zip(parts, like, strict=True) for x in conform(part, other)]
    return list(np.broadcast_to(np.asarray(value, dtype=object), np.shape(like)).ravel())
