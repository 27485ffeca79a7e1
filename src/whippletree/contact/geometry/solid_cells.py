"""Where the search for the nearest points of two solids begins: at those of a place nearby, the same for all poses
around it.

How one solid lies against another is twelve numbers, three of them lengths that are counted in sizes of the smaller
one. Rounded, they say in which *cell* of all relative poses the solids are. A search from nothing finds the nearest
points in the middle of the cell, and a second one goes on from there to where the solids are. So the answer depends on
the pose alone; and while a pair stays in its cell, step after step, what is known of its middle need not be found
again. What is known is where to begin, not which side is which: thin solids may lie the other way round in the middle,
and a small solid far from the origin of a large one is in a cell at the end of all, wherever it is.

Of robosuite's grippers, whose fingers are drawn into the hand, a comparison takes 10 µs from nothing and 5 in a cell
that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import Table, entry, less, select
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.geometry.closed_forms import unit_or
from whippletree.contact.geometry.rounded_polytopes import Solid
from whippletree.contact.geometry.solid_distance import Hint, Nearest, nearest_of_solids, size_of_solid
from whippletree.contact.geometry.solid_normals import Simplex, choose_vector
from whippletree.contact.problem.cones import largest
from whippletree.spatial import Pose, cross

CELLS_OF_ONE = 16
"""Cells of a number between 0 and 1: of an entry of a rotation, or of a length in sizes of the smaller solid."""

FARTHEST_MIDDLE = 32
"""Sizes of the smaller solid up to which lengths are told apart."""

_NUMBERS = Table([k / CELLS_OF_ONE for k in range(-FARTHEST_MIDDLE * CELLS_OF_ONE, FARTHEST_MIDDLE * CELLS_OF_ONE + 1)])
"""The middles of all cells."""


class Cell(NamedTuple):
    """What is known of two solids in the middle of a cell; as numbers, ``CELL_NUMBERS`` of them."""

    place: Array
    """Relative rotation and offset, in sizes of the smaller solid, (12,)."""
    normal: Array
    """Normal of the nearest points there, in the second solid's axes, (3,)."""
    first: Array
    """Numbers of the corners between which these are, (3,)."""
    second: Array

    def numbers(self) -> Array:
        """All of them."""
        return np.concatenate(self)

    @staticmethod
    def of(numbers: Array) -> Cell:
        """The inverse of :meth:`numbers`."""
        return Cell(numbers[:12], numbers[12:15], numbers[15:18], numbers[18:])


CELL_NUMBERS = 21
"""Numbers of a cell."""

NO_CELL = Cell(vector(*[9] * 12), *[vector(0, 0, 0)] * 3)
"""No rotation has such entries."""


def nearest_from_cell(first: Solid, second: Solid, X: Pose, Y: Pose, known: Cell) -> tuple[Nearest, Cell]:
    """The nearest points of two solids, as :func:`~whippletree.contact.geometry.solid_distance.nearest_of_solids` tells
    them, and their cell; ``known``: the one in which they were last, or ``NO_CELL``."""
    offset = X.p - Y.p
    size = -largest([-size_of_solid(first), -size_of_solid(second)])
    place = _place(Y.R.T @ X.R, Y.R.T @ offset / size)
    moved = sum(abs(a - b) for a, b in zip(known.place, place, strict=True))
    stale = select(less(moved, 1 / (2 * CELLS_OF_ONE)), -1, 1)  # NaN is no cell

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, stale, *cell = state
        normal, one, two = cell[:3]
        a, R, b, S, offset, place, size = given
        solids = first.with_numbers(a), second.with_numbers(b)
        fresh = less(0, stale)
        middle, origin = turned_like(place[:9].reshape(3, 3)), size * place[9:]
        turns = [
            np.stack([choose_vector(fresh, *rows) for rows in zip(*both_turns, strict=True)])
            for both_turns in ((middle, R), (identity(3), S))
        ]
        at = choose_vector(fresh, origin, offset)
        # a middle is searched from nothing
        begin = choose_vector(fresh, vector(0, 0, 0), turns[1] @ normal)
        hint = Hint(begin, NOWHERE, Simplex(vector(1, 0, 0), one, two))
        near = nearest_of_solids(*solids, Pose(turns[0], at), Pose(turns[1], vector(0, 0, 0)), hint)
        after = [
            choose_vector(fresh, x, y)
            for x, y in zip((near.normal, near.between.first, near.between.second), cell[:3], strict=True)
        ]
        return [select(fresh, -1, 1), -1, *after, near.gap, near.normal, near.point]

    given = [vector(*first.numbers), X.R, vector(*second.numbers), Y.R, offset, place, size]
    none = vector(0, 0, 0)
    begin = [-1, stale, known.normal, known.first, known.second, 0, none, none]
    _, _, normal, one, two, gap, n, point = iterate(look, begin, given, 2)
    cell = Cell(place, vector(*normal), vector(*one), vector(*two))
    return Nearest(gap, vector(*n), vector(*point), Simplex(none, cell.first, cell.second)), cell


def _place(R: Array, offset: Sequence[Any]) -> Array:
    """The middle of the cell of a relative pose, (12,)."""
    return vector(*[_middle(x) for x in (*R.ravel(), *offset)])


def turned_like(R: Array) -> Array:
    """The rotation that has the first column of a matrix, and its second one as far as it can."""
    x = unit_or(R[:, 0], vector(1, 0, 0))[1]
    y = unit_or(R[:, 1] - (R[:, 1] @ x) * x, vector(0, 1, 0))[1]
    return np.stack([x, y, cross(x, y)], axis=1)


def _middle(x: Any) -> Any:
    """The nearest of all middles."""
    return entry(_NUMBERS, CELLS_OF_ONE * (x + FARTHEST_MIDDLE) + 0.5)
