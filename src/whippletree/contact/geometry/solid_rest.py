"""Solids that hardly move against each other: their candidates are those of a place very near, carried along.

Solids that rest on each other, or are jammed, move by 1e-12 to 1e-10 m in a step, and a comparison is a search of 5 µs
and more. So they are compared where their relative pose is after rounding to a fine grid, their *rest*, and what is
found there is carried to where they are: the point of a candidate with the first solid, its normal with the second one.
The gap is then exact but for terms of second order, 1e-17 m, and for features that are seen from one of the two places
only: these are missed by at most half a cell's angle times their distance, 2e-9 m for solids of a metre. The rest
follows from the pose alone, so the answer does too; while a pair stays in its cell, step after step, nothing is
searched, nor are the corners of a hull on a plane. Robosuite's Jaco, whose hulls begin 8 cm in each other, took 427 µs
a step and takes 57; gymnasium_robotics' Fetch, whose base has 2132 corners, 13.5 and 10.4.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.contact.geometry.closed_forms import Touch
from whippletree.contact.geometry.solid_cells import turned_like
from whippletree.spatial import Pose

CELLS_OF_ONE_AT_REST = 2**28
"""Cells of an entry of a rotation, and of a length of one metre: 4e-9 each."""

_ROUNDS_OFF = 3 * 2**51 // CELLS_OF_ONE_AT_REST
"""What a double of moderate size loses its digits beyond a cell by when it is added and taken away again. Scalars with
more digits keep them: their rest is where they are."""

REST_NUMBERS = 12
"""Numbers of a rest: the rounded relative rotation (3, 3) and offset (3)."""

NO_REST = 9
"""An entry that no rotation has."""


def rest_of(X: Pose, Y: Pose) -> Array:
    """The rest of a solid at X against one at Y, (12,), in the axes of the second one."""
    R, offset = Y.R.T @ X.R, Y.R.T @ (X.p - Y.p)
    return vector(*[(x + _ROUNDS_OFF) - _ROUNDS_OFF for x in (*R.ravel(), *offset)])


def pose_at_rest(rest: Array) -> Pose:
    """The pose of the first solid, where the second one is at the origin."""
    return Pose(turned_like(rest[:9].reshape(3, 3)), rest[9:])


def has_moved(rest: Array, before: Array) -> Any:
    """1 where a rest is not that of before, else −1; NaN is none."""
    way = sum(abs(a - b) for a, b in zip(rest, before, strict=True))
    return select(less(way, 1 / (2 * CELLS_OF_ONE_AT_REST)), -1, 1)


def carried_along(touches: list[Touch], rest: Array, X: Pose, Y: Pose) -> list[Touch]:
    """Candidates that were found at rest, the second solid at the origin, for solids at X and Y."""
    there = pose_at_rest(rest)
    turn = (Y.R.T @ X.R) @ there.R.T
    shift = Y.R.T @ (X.p - Y.p) - turn @ there.p
    found = []
    for gap, point, axes in touches:
        now = turn @ point + shift
        found.append(Touch(gap + axes[0] @ (now - point), Y.point(now), axes @ Y.R.T))
    return found
