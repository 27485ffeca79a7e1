"""Every bounded convex shape in one form: a polytope with a rounding, and its flats, as rows of common tables.

A solid is the sum of a polytope (its *corners*), of an ellipsoid with the half axes ``radii``, of which some or all may
be 0, and of a ball of the radius ``margin``:

    shape        corners              radii        margin     flats
    ball         its centre           0            r          none
    capsule      the ends of its axis 0            r          its axis, moved outwards by r
    cylinder     the ends of its axis r, r, 0      0          both caps, and its axis, moved outwards by r
    ellipsoid    its centre           a, b, c      0          none
    box, hull    its corners          0            0          its faces

A *flat* is a face with its outline, or a line along which the shape may lie on another one. Corners, flats and outlines
of all solids of a model are in three tables, so that a solid is a few numbers: one code serves all pairs, whatever
their shapes and however many corners they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import Table, entry, less, select, sqrt
from whippletree.contact.geometry.polytopes import corner_points, faces_of
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull, Shape
from whippletree.contact.problem.cones import largest

CAP_CORNERS = 16
"""Corners of the polygon that stands for a cylinder's cap where it lies on another flat. What is nearest to the other
shape is found on the cap itself."""

CORNERS_PER_ROUND = 4
"""Corners that are looked at together in the search for the farthest one."""

FLAT = 8
"""Numbers of a flat: normal or direction (3), whether it is a line, by how much that is moved outwards, the number of
its first outline corner, and how many it has; one is left over."""


class SolidTables(NamedTuple):
    """What the solids of a model have in common."""

    corners: Table
    """x, y and z of every corner."""
    flats: Table
    outlines: Table
    """x, y and z of every corner of every outline, in order around the outward normal."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A bounded convex shape. ``numbers`` may be traced, and are in the order of the properties."""

    numbers: tuple[Any, ...]
    tables: SolidTables
    shape: Shape
    """What it was made of."""

    @property
    def first(self) -> Any:
        """Number of its first corner."""
        return self.numbers[0]

    @property
    def count(self) -> Any:
        """How many corners it has."""
        return self.numbers[1]

    @property
    def radii(self) -> Array:
        """Of its rounding, (3,)."""
        return vector(*self.numbers[2:5])

    @property
    def margin(self) -> Any:
        """Radius of the ball around it."""
        return self.numbers[5]

    @property
    def first_flat(self) -> Any:
        """Number of its first flat."""
        return self.numbers[6]

    @property
    def flat_count(self) -> Any:
        """How many flats it has."""
        return self.numbers[7]

    @property
    def middle(self) -> Array:
        """Of its extent, without the margin, in its frame, (3,)."""
        return vector(*self.numbers[8:11])

    @property
    def half(self) -> Array:
        """Half lengths of its extent, without the margin, (3,)."""
        return vector(*self.numbers[11:14])

    def with_numbers(self, numbers: Sequence[Any]) -> Solid:
        """A solid of the same tables."""
        return Solid(tuple(numbers), self.tables, self.shape)


def solids_of(shapes: Sequence[Shape]) -> list[Solid]:
    """The solids of some shapes, with common tables."""
    corners, flats, outlines, rows = [], [], [], []
    for shape in shapes:
        points, radii, margin = _body(shape)
        reach = points.max(axis=0) + radii, points.min(axis=0) - radii
        faces = _flats(shape)
        rows.append([len(corners), len(points), *radii, margin, len(flats), len(faces)])
        rows[-1] += [*(reach[0] + reach[1]) / 2, *(reach[0] - reach[1]) / 2]
        corners += points.tolist()
        for face in faces:
            flats.append([*face.normal, face.line, face.moved, len(outlines), len(face.outline), 0.0])
            outlines += face.outline.tolist()
    tables = SolidTables(*[Table(np.ravel(part) if part else [0.0]) for part in (corners, flats, outlines)])
    return [Solid(tuple(map(float, row)), tables, shape) for row, shape in zip(rows, shapes, strict=True)]


class _Flat(NamedTuple):
    normal: Array
    line: float
    moved: float
    outline: Array


def _body(shape: Shape) -> tuple[Array, Array, float]:
    """Corners (n, 3), radii (3,) and margin."""
    none = np.zeros((1, 3))
    match shape:
        case Ball(radius):
            return none, np.zeros(3), float(radius)
        case Ellipsoid(radii):
            return none, np.array(radii, dtype=float), 0.0
        case Capsule(radius, half):
            return _axis(half), np.zeros(3), float(radius)
        case Cylinder(radius, half):
            return _axis(half), np.array([radius, radius, 0], dtype=float), 0.0
        case Box() | Hull():
            return corner_points(shape), np.zeros(3), 0.0
    raise TypeError(f"a {type(shape).__name__.lower()} is not bounded and convex")


def _flats(shape: Shape) -> list[_Flat]:
    along = np.array([0.0, 0.0, 1.0])
    match shape:
        case Capsule(radius, half):
            return [_Flat(along, 1.0, float(radius), _axis(half))]
        case Cylinder(radius, half):
            return [_Flat(along, 1.0, float(radius), _axis(half)), *[_cap(shape, end) for end in (1.0, -1.0)]]
        case Box() | Hull():
            return [_Flat(face.normal, 0.0, 0.0, face.corners) for face in faces_of(shape)]
    return []


def _axis(half: Any) -> Array:
    return np.array([[0, 0, float(half)], [0, 0, -float(half)]])


def _cap(cylinder: Cylinder, end: float) -> _Flat:
    turn = end * 2 * math.pi * np.arange(CAP_CORNERS) / CAP_CORNERS
    rim = float(cylinder.radius) * np.column_stack([np.cos(turn), np.sin(turn)])
    outline = np.column_stack([rim, np.full(CAP_CORNERS, end * float(cylinder.half))])
    return _Flat(np.array([0.0, 0.0, end]), 0.0, 0.0, outline)


# ---- how far a solid reaches ---------------------------------------------------------------------------------------


class Sides(NamedTuple):
    """Two solids somewhere, with the second one's origin as that of the space."""

    solids: tuple[Solid, Solid]
    turns: tuple[Array, Array]
    """Their rotations."""
    offset: Array
    """The first one's origin, (3,)."""

    def corners(self, n: Array) -> tuple[Array, Array]:
        """The corners (3,) of the first solid that is farthest along −n, and of the second one along n."""
        (first, second), (R, S) = self.solids, self.turns
        return self.offset + R @ farthest_corner(first, -(R.T @ n)), S @ farthest_corner(second, S.T @ n)

    def roundings(self, n: Array) -> tuple[Array, Array]:
        """What is beyond these corners: points (3,) of the first solid's rounding along −n, of the second's along n."""
        (first, second), (R, S) = self.solids, self.turns
        return R @ rounding(first.radii, -(R.T @ n)), S @ rounding(second.radii, S.T @ n)

    def separation(self, n: Array) -> Any:
        """How far apart they are along a unit vector n (3,), without their margins, m."""
        (a, b), (p, q) = self.corners(n), self.roundings(n)
        return n @ (a + p - b - q)

    def parts(self) -> list[Any]:
        """For the rounds of an iteration; :meth:`of` puts them back."""
        return [*[vector(*solid.numbers) for solid in self.solids], *self.turns, self.offset]

    def of(self, parts: Sequence[Any]) -> Sides:
        """Solids of the same tables."""
        one, other, R, S, offset = parts
        return Sides((self.solids[0].with_numbers(one), self.solids[1].with_numbers(other)), (R, S), offset)


def rounding(radii: Array, along: Array) -> Array:
    """The point (3,) of an ellipsoid about the origin that is farthest in a direction (3,)."""
    stretched = vector(*[a * x for a, x in zip(radii, along, strict=True)])
    square = stretched @ stretched
    some = less(0, square)
    scale = select(some, 1 / sqrt(select(some, square, 1)), 0)
    return vector(*[scale * a * x for a, x in zip(radii, stretched, strict=True)])


def farthest_corner(solid: Solid, along: Array) -> Array:
    """The corner (3,) that is farthest in a direction (3,)."""
    numbers = (*solid.numbers, *along)
    if all(isinstance(x, (int, float)) for x in numbers):
        points = solid.tables.corners.array.reshape(-1, 3)[int(solid.first) : int(solid.first + solid.count)]
        return vector(*points[int(np.argmax(points @ along.astype(float)))].tolist())
    table = solid.tables.corners
    start = _corner(table, solid.first)

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, point = state
        last, direction = given
        for step in range(CORNERS_PER_ROUND):
            own = _corner(table, -largest([-at - step, -last]))
            height = own @ direction
            better = less(best, height)
            best = select(better, height, best)
            point = vector(*[select(better, a, b) for a, b in zip(own, point, strict=True)])
        after = at + CORNERS_PER_ROUND
        return [select(less(last, after), 1, -1), after, best, point]

    last = solid.first + solid.count - 1
    most = -(-len(table.values) // (3 * CORNERS_PER_ROUND))
    begin = [select(less(solid.first, last), -1, 1), solid.first + 1, start @ along, start]
    return vector(*iterate(look, begin, [last, along], most)[3])


def _corner(table: Table, number: Any) -> Array:
    return vector(*[entry(table, 3 * number + i) for i in range(3)])
