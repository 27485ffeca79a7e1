"""Axes of joints at unit length, whatever their scalars."""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.errors import ScalarError
from whippletree.model.faults import number_faults
from whippletree.model.frozen import frozen_array, vector_of
from whippletree.model.model import Vector

UNIT_ROUNDING = 1e-15
"""How far the square of an axis may be from 1 and count as unit length: more would only move last bits."""

SMALLEST_SQUARED, LARGEST_SQUARED = 1e-140, 1e140
"""Between these the squares of floats, and sums of three of them, keep all their digits."""


def unit_axis(axis: Vector, where: str, faults: list[str]) -> Array:
    """The axis at unit length; one that has it already, up to rounding, keeps its exact numbers. What is wrong with it
    joins the ``faults``, and z takes its place."""
    array = vector_of(where.rpartition(": ")[2], axis)
    found = number_faults(where, array)
    if found and "finite" not in found[0]:
        faults += found
        return frozen_array([0, 0, 1], (3,))
    array = _within_squares(array)
    x, y, z = array.tolist()
    square = x * x + y * y + z * z
    if not square > 0 or (isinstance(square, float) and not np.isfinite(square)):
        shown = ", ".join(map(str, np.asarray(axis).tolist()))
        faults.append(f"{where} ({shown}) has no direction: give a finite vector that is not zero")
        return frozen_array([0, 0, 1], (3,))
    if square == 1 or (isinstance(square, float) and abs(square - 1) <= UNIT_ROUNDING):
        return array
    try:
        length = scalars.sqrt(square)
        return frozen_array([x / length, y / length, z / length], (3,))
    except ScalarError as error:
        faults.append(f"{where} {tuple(array)} cannot be brought to unit length exactly: {error}")
        return frozen_array([0, 0, 1], (3,))


def _within_squares(axis: Array) -> Array:
    """An axis of floats whose squares do not overflow or vanish: divided by its largest entry where they would."""
    if axis.dtype != float:
        return axis
    largest = float(np.abs(axis).max())
    if not np.isfinite(largest) or largest == 0 or SMALLEST_SQUARED < largest < LARGEST_SQUARED:
        return axis
    return frozen_array(axis / largest, (3,))
