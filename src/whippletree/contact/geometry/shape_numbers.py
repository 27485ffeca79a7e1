"""Shapes and poses as rows of numbers, and back: so that code written for one serves all of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.rounded_polytopes import Solid
from whippletree.contact.geometry.shapes import SEPARATE_CORNERS, HeightField, Hull, Shape, Terrain
from whippletree.spatial import Pose

POSE = 12
"""Numbers of a pose: its rotation (3, 3) and its position (3)."""


def pose_of(numbers: Array) -> Pose:
    """A pose from its 12 numbers."""
    return Pose(numbers[:9].reshape(3, 3), numbers[9:])


def numbers_of_pose(X: Pose) -> list[float]:
    """The 12 numbers of a pose."""
    return [float(x) for x in (*X.R.flat, *X.p)]


def kind_of(shape: Shape | Solid) -> Any:
    """Key of shapes of one kind: their type, or themselves where they are more than a few numbers; of hulls, how many
    corners they have; of solids, their tables, and whether they have flats."""
    if isinstance(shape, Solid):
        return Solid, id(shape.tables), bool(shape.flat)
    if not _is_numbers(shape):
        return id(shape)
    return (Hull, len(shape.vertices)) if isinstance(shape, Hull) else type(shape)


def numbers_of_shape(shape: Shape | Solid) -> list[float]:
    """The numbers that tell a shape from others of its kind."""
    if isinstance(shape, Solid):
        return [float(x) for x in shape.numbers]
    if not _is_numbers(shape):
        return []
    return [float(x) for part in fields(shape) for x in np.ravel(getattr(shape, part.name))]


def with_numbers(shape: Shape | Solid, numbers: Sequence[Any]) -> Shape | Solid:
    """A shape of the same type with other numbers."""
    if isinstance(shape, Solid):
        return shape.with_numbers(numbers)
    if not _is_numbers(shape):
        return shape
    if isinstance(shape, Hull):
        return Hull(np.array([*numbers], dtype=object).reshape(-1, 3))
    given, parts, kind = iter(numbers), [], cast(Any, type(shape))
    for part in fields(shape):
        size = np.size(getattr(shape, part.name))
        own = tuple(next(given) for _ in range(size))
        parts.append(own if np.ndim(getattr(shape, part.name)) else own[0])
    made: Shape = kind(*parts)
    return made


def _is_numbers(shape: Shape) -> bool:
    if isinstance(shape, Hull):
        return len(shape.vertices) <= SEPARATE_CORNERS
    return not isinstance(shape, Terrain | HeightField)
