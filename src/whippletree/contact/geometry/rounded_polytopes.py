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
of all solids of a model are in common tables, so that a solid is a few numbers: one code serves all pairs, whatever
their shapes and however many corners they have. Each corner knows its neighbours, along which the search for the
farthest one climbs, and the flats around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import Table, entry, less, negated, select, sqrt
from whippletree.contact.geometry.polytopes import corner_points, faces_of
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull, Shape
from whippletree.contact.problem.cones import largest
from whippletree.spatial import Pose

CAP_CORNERS = 16
"""Corners of the polygon that stands for a cylinder's cap where it lies on another flat. What is nearest to the other
shape is found on the cap itself."""

CORNERS_PER_ROUND = 4
"""Corners that are looked at together in the search for the farthest one."""

CLIMBED_CORNERS = 32
"""Corners up to which all are looked at; of more, the one that is farthest in a direction nearby, which a table knows,
and then its neighbours."""

MOST_CELLS = 16
"""Cells along an edge of the cube of directions, at most; otherwise there are about as many as corners. A search in a
hull of 1588 corners takes 0.1 µs from there; from the best of every 39th corner it took 0.35."""

FLAT = 7
"""Numbers of a flat: normal or direction (3), whether it is a line, by how much that is moved outwards, the number of
its first outline corner, and how many it has."""

AROUND = 4
"""Numbers of what is around a corner: where its neighbours begin and end, and where its flats do."""

OCTANTS = 8

GROUP_CORNERS = 16
"""Corners of a group, at most: of a group whose box does not reach beyond the best corner so far, none is looked at."""

GROUP_NUMBERS = 8
"""Numbers of a group: middle (3) and half lengths (3) of the box around it, its first corner and its last."""


class SolidTables(NamedTuple):
    """Common tables of the solids of a model."""

    corners: Table
    """x, y and z of every corner."""
    around: Table
    neighbours: Table
    """Numbers of corners, those around one after the other."""
    beside: Table
    """Numbers of flats, likewise."""
    flats: Table
    outlines: Table
    """x, y and z of every corner of every outline, in order around the outward normal."""
    groups: Table
    """Corners that lie together, one after the other."""
    octants: Table
    """Of every solid, where the groups in each octant about its middle begin, and where the last ones end."""
    cell_rows: Table
    """Of every solid of many corners, where the rows of cells begin, on each face of a cube around it in turn."""
    cells: Table
    """The corners that are farthest in the directions of the middles of these cells."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A bounded convex shape. ``numbers`` may be traced, and are in the order of the properties."""

    numbers: tuple[Any, ...]
    tables: SolidTables
    shape: Shape
    """The shape that it was made of."""

    @property
    def first(self) -> Any:
        """Number of its first corner."""
        return self.numbers[0]

    @property
    def count(self) -> Any:
        """How many corners it has."""
        return self.numbers[1]

    @property
    def edge_cells(self) -> Any:
        """Cells along an edge of its cube of directions; 0 if it has so few corners that there is none."""
        return self.numbers[2]

    @property
    def flat(self) -> Any:
        """Whether it has flats, 1 or 0."""
        return self.numbers[3]

    @property
    def number(self) -> Any:
        """The shape's own number."""
        return self.numbers[4]

    @property
    def margin(self) -> Any:
        """Radius of the ball around it."""
        return self.numbers[5]

    @property
    def radii(self) -> Array:
        """Radii of the shape's rounding, (3,)."""
        return vector(*self.numbers[6:9])

    @property
    def middle(self) -> Array:
        """Middle of the shape's extent, without the margin, in its frame, (3,)."""
        return vector(*self.numbers[9:12])

    @property
    def half(self) -> Array:
        """Half lengths of its extent, without the margin, (3,)."""
        return vector(*self.numbers[12:15])

    @property
    def first_row(self) -> Any:
        """Number of the first row of its cells."""
        return self.numbers[15]

    def with_numbers(self, numbers: Sequence[Any]) -> Solid:
        """A solid of the same tables."""
        return Solid(tuple(numbers), self.tables, self.shape)


def solids_of(shapes: Sequence[Shape]) -> list[Solid]:
    """The solids of some shapes, with common tables; equal shapes have the same rows of them."""
    lists = _SolidLists()
    rows: dict[Any, list[Any]] = {}
    keys = [_key(shape) for shape in shapes]
    for key, shape in zip(keys, shapes, strict=True):
        if key not in rows:
            rows[key] = lists.add(len(rows), shape)
    tables = lists.tables()
    return [Solid(tuple(map(float, rows[key])), tables, shape) for key, shape in zip(keys, shapes, strict=True)]


def _key(shape: Shape) -> tuple[Any, ...]:
    """A key that is the same for shapes of the same type and size."""
    return type(shape), *[np.asarray(getattr(shape, part.name), dtype=float).tobytes() for part in fields(shape)]


class _SolidLists:
    """The tables of solids, while they are filled."""

    def __init__(self) -> None:
        self.corners: list[Any] = []
        self.around: list[Any] = []
        self.neighbours: list[Any] = []
        self.beside: list[Any] = []
        self.flats: list[Any] = []
        self.outlines: list[Any] = []
        self.groups: list[Any] = []
        self.octants: list[Any] = []
        self.cell_rows: list[Any] = []
        self.cells: list[Any] = []

    def tables(self) -> SolidTables:
        """A table has at least one entry."""
        return SolidTables(*[Table(np.ravel(part) if part else [0.0]) for part in vars(self).values()])

    def add(self, number: int, shape: Shape) -> list[Any]:
        """Takes a shape in, and returns the numbers of its solid."""
        points, radii, margin = _body(shape)
        low, high = points.min(axis=0), points.max(axis=0)
        first, count = len(self.corners), len(points)
        points = self._add_groups(points, (low + high) / 2)
        self.corners += points.tolist()
        flats = self._add_flats(shape)
        self._add_around(shape, points, first, flats)
        first_row = len(self.cell_rows)
        extent = [*(low + high) / 2, *(high - low) / 2 + radii]
        return [first, count, self._add_cells(points, first), bool(flats), number, margin, *radii, *extent, first_row]

    def _add_groups(self, points: Array, middle: Array) -> Array:
        """The corners by octants about the middle and by groups in each, so that each has its own part of the list."""
        octants = (points > middle) @ np.array([4, 2, 1])
        ordered: list[Array] = []
        begins = []
        at = len(self.corners)
        for octant in range(OCTANTS):
            begins.append(len(self.groups))
            for group in _nearby_groups(points[octants == octant]):
                low, high = group.min(axis=0), group.max(axis=0)
                self.groups.append([*(low + high) / 2, *(high - low) / 2, at, at + len(group) - 1])
                ordered.append(group)
                at += len(group)
        self.octants.append([*begins, len(self.groups)])
        return np.concatenate(ordered)

    def _add_cells(self, points: Array, first: int) -> int:
        """The farthest corners in directions all around; returns how many there are along an edge of the cube."""
        if len(points) <= CLIMBED_CORNERS:
            return 0
        k = min(math.isqrt(len(points) // 6) + 1, MOST_CELLS)
        middles = (2 * np.arange(k) + 1) / k - 1
        for axis in range(3):
            for side in (1.0, -1.0):
                for u in middles:
                    along = np.empty((k, 3))
                    along[:, axis], along[:, (axis + 1) % 3], along[:, (axis + 2) % 3] = side, u, middles
                    self.cell_rows.append(len(self.cells))
                    self.cells += (first + np.argmax(along @ points.T, axis=1)).tolist()
        return k

    def _add_flats(self, shape: Shape) -> dict[int, _FlatOfShape]:
        """The flats of a shape by their numbers."""
        found = dict(enumerate(_flats(shape), start=len(self.flats)))
        for flat in found.values():
            self.flats.append([*flat.normal, flat.line, flat.moved, len(self.outlines), len(flat.outline)])
            self.outlines += flat.outline.tolist()
        return found

    def _add_around(self, shape: Shape, points: Array, first: int, flats: dict[int, _FlatOfShape]) -> None:
        """Neighbours of each corner; both ends of an axis know all flats of a round solid."""
        whole = isinstance(shape, Box | Hull)
        links: dict[tuple[float, ...], set[int]] = {tuple(p): set() for p in points.tolist()}
        places = {point: first + k for k, point in enumerate(links)}
        if whole:
            from scipy.spatial import ConvexHull

            for simplex in ConvexHull(points).simplices.tolist():
                for k in simplex:
                    links[tuple(points[k].tolist())] |= {first + other for other in simplex if other != k}
        beside: dict[tuple[float, ...], list[int]] = {point: [] for point in places}
        for number, flat in flats.items():
            for point in map(tuple, flat.outline.tolist()) if whole else places:
                beside[point].append(number)
        for point in places:
            start, begin = len(self.neighbours), len(self.beside)
            self.neighbours += sorted(links[point])
            self.beside += beside[point]
            self.around.append([start, len(self.neighbours), begin, len(self.beside)])


def _nearby_groups(points: Array) -> list[Array]:
    """Points in groups that lie together: halves of halves, across the longest side of their box."""
    if len(points) <= GROUP_CORNERS:
        return [points] if len(points) else []
    order = np.argsort(points[:, np.argmax(np.ptp(points, axis=0))], kind="stable")
    return [group for half in np.array_split(order, 2) for group in _nearby_groups(points[half])]


class _FlatOfShape(NamedTuple):
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


def _flats(shape: Shape) -> list[_FlatOfShape]:
    along = np.array([0.0, 0.0, 1.0])
    match shape:
        case Capsule(radius, half):
            return [_FlatOfShape(along, 1.0, float(radius), _axis(half))]
        case Cylinder(radius, half):
            return [_FlatOfShape(along, 1.0, float(radius), _axis(half)), *[_cap(shape, end) for end in (1.0, -1.0)]]
        case Box() | Hull():
            return [_FlatOfShape(face.normal, 0.0, 0.0, face.corners) for face in faces_of(shape)]
    return []


def _axis(half: Any) -> Array:
    return np.array([[0, 0, float(half)], [0, 0, -float(half)]])


def _cap(cylinder: Cylinder, end: float) -> _FlatOfShape:
    turn = end * 2 * math.pi * np.arange(CAP_CORNERS) / CAP_CORNERS
    rim = float(cylinder.radius) * np.column_stack([np.cos(turn), np.sin(turn)])
    outline = np.column_stack([rim, np.full(CAP_CORNERS, end * float(cylinder.half))])
    return _FlatOfShape(np.array([0.0, 0.0, end]), 0.0, 0.0, outline)


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
        one, two = self.extremes(n)
        return one.point, two.point

    def extremes(self, n: Array) -> tuple[Farthest, Farthest]:
        """The farthest corners with their numbers."""
        (first, second), (R, S) = self.solids, self.turns
        one, two = farthest_corner(first, -(R.T @ n)), farthest_corner(second, S.T @ n)
        return Farthest(one.number, self.offset + R @ one.point), Farthest(two.number, S @ two.point)

    def corners_at(self, first: Any, second: Any) -> tuple[Array, Array]:
        """The corners (3,) with these numbers, of the first solid and of the second one."""
        tables, (R, S) = self.solids[0].tables, self.turns
        return self.offset + R @ corner_at(tables, first), S @ corner_at(tables, second)

    def roundings(self, n: Array) -> tuple[Array, Array]:
        """Surface beyond these corners: points (3,) of the first solid's rounding along −n, of the second's along n."""
        (first, second), (R, S) = self.solids, self.turns
        return R @ rounding(first.radii, -(R.T @ n)), S @ rounding(second.radii, S.T @ n)

    def is_round(self) -> Any:
        """Whether one of them has a rounding that is no ball."""
        return less(0, sum(solid.radii @ solid.radii for solid in self.solids))

    def is_capped(self) -> Any:
        """Whether one of them is a cylinder: its rounding is a disc."""
        flat = [select(less(0, solid.radii[2]), 0, solid.radii[0]) for solid in self.solids]
        return less(0, flat[0] + flat[1])

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


def solid_reach(solid: Solid, X: Pose, along: Array) -> Any:
    """How far a solid reaches in a direction (3,), its margin included: the largest product with one of its points."""
    own = X.R.T @ along
    point = X.point(farthest_corner(solid, own).point + rounding(solid.radii, own))
    return point @ along + solid.margin * sqrt(along @ along)


def rounding(radii: Array, along: Array) -> Array:
    """The point (3,) of an ellipsoid about the origin that is farthest in a direction (3,)."""
    stretched = vector(*[a * x for a, x in zip(radii, along, strict=True)])
    square = stretched @ stretched
    some = less(0, square)
    scale = select(some, 1 / sqrt(select(some, square, 1)), 0)
    return vector(*[scale * a * x for a, x in zip(radii, stretched, strict=True)])


class Farthest(NamedTuple):
    """The corner of a solid that is farthest in a direction."""

    number: Any
    point: Array


def farthest_corner(solid: Solid, along: Array) -> Farthest:
    """The corner that is farthest in a direction (3,), all in the solid's frame."""
    tables = solid.tables
    if all(isinstance(x, (int, float)) for x in (*solid.numbers, *along)):  # NumPy looks at all of them at once
        number, _ = farthest_in_range(tables, solid.first, solid.first + solid.count - 1, along)
        return Farthest(number, corner_at(tables, number))
    few = less(solid.edge_cells, 1)
    start = select(few, solid.first, _corner_nearby(solid, along))
    last = select(few, solid.first + solid.count - 1, start)
    number, height = farthest_in_range(tables, start, last, along)

    def climb(state: list[Any], given: list[Any]) -> list[Any]:
        _, number, height = state
        (along,) = given
        start, end = (entry(tables.around, AROUND * number + i) for i in (0, 1))
        _, _, top, best = iterate(_among_neighbours(tables), [-1, start, number, height], [end, along], most)
        return [select(less(height, best), -1, 1), top, best]

    most = max(int(end - start) for start, end in zip(tables.around.values[::AROUND], tables.around.values[1::AROUND]))
    begin = [select(few, 1, -1), number, height]
    _, number, _ = iterate(climb, begin, [along], len(tables.around.values) // AROUND)
    return Farthest(number, corner_at(tables, number))


def _corner_nearby(solid: Solid, along: Array) -> Any:
    """Number of a corner that is far in a direction (3,), where the solid has many: the farthest of its cell."""
    tables = solid.tables
    if len(tables.cells.values) == 1:  # no solid has
        return solid.first
    x, y, z = along
    first, second = negated(less(abs(x), largest([abs(y), abs(z)]))), negated(less(abs(y), abs(z)))
    face, high, u, v = (
        select(first, a, select(second, b, c)) for a, b, c in ((0, 2, 4), (x, y, z), (y, z, x), (z, x, y))
    )
    k, size = solid.edge_cells, abs(high)
    scale = k / (2 * select(less(0, size), size, 1))
    # the last cell ends with its edge
    i, j = (-largest([-(w * scale + k / 2), 0.5 - k]) for w in (u, v))
    row = entry(tables.cell_rows, solid.first_row + k * (face + select(less(high, 0), 1, 0)) + i)
    return entry(tables.cells, row + j)


def _among_neighbours(tables: SolidTables) -> Any:
    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, height = state
        end, along = given
        number = entry(tables.neighbours, at)
        own = corner_at(tables, number) @ along
        higher = less(height, own)
        after = at + 1
        return [select(less(after, end), -1, 1), after, select(higher, number, best), select(higher, own, height)]

    return look


def farthest_in_range(tables: SolidTables, first: Any, last: Any, along: Array) -> tuple[Any, Any]:
    """Number and height of the corner that is farthest in a direction (3,), of those from first to last."""
    if all(isinstance(x, (int, float)) for x in (first, last, *along)):
        if last < first:
            return first, 0
        heights = tables.corners.array.reshape(-1, 3)[int(first) : int(last) + 1] @ along.astype(float)
        best = int(np.argmax(heights))
        return first + best, float(heights[best])

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, height = state
        last, along = given
        for _ in range(CORNERS_PER_ROUND):
            number = select(less(last, at), last, at)
            own = corner_at(tables, number) @ along
            higher = less(height, own)
            best, height = select(higher, number, best), select(higher, own, height)
            at = at + 1
        return [select(less(last, at), 1, -1), at, best, height]

    begin = [select(less(first, last), -1, 1), first + 1, first, corner_at(tables, first) @ along]
    most = -(-len(tables.corners.values) // (3 * CORNERS_PER_ROUND))
    _, _, number, height = iterate(look, begin, [last, along], most)
    return number, height


def farthest_of_groups(tables: SolidTables, start: Any, end: Any, along: Array) -> tuple[Any, Any]:
    """Number and height of the corner that is farthest in a direction (3,), of the groups from start to before end, of
    which there is at least one: first of the group that may reach farthest, then of those that may reach farther."""

    def reach(at: Any, along: Array) -> tuple[Any, Any, Any]:
        """How far the box of a group reaches, and its corners."""
        row = [entry(tables.groups, GROUP_NUMBERS * at + i) for i in range(GROUP_NUMBERS)]
        return sum(c * x + h * abs(x) for c, h, x in zip(row[:3], row[3:6], along, strict=True)), row[6], row[7]

    def choose(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, most = state
        end, along = given
        own, _, _ = reach(at, along)
        farther, after = less(most, own), at + 1
        return [select(less(after, end), -1, 1), after, select(farther, at, best), select(farther, own, most)]

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, height = state
        end, along = given
        own, first, last = reach(at, along)
        _, number, top = iterate(compare, [select(less(height, own), -1, 1), best, height], [first, last, along], 1)
        higher, after = less(height, top), at + 1
        over = select(less(after, end), -1, 1)
        return [over, after, select(higher, number, best), select(higher, top, height)]

    def compare(state: list[Any], given: list[Any]) -> list[Any]:
        first, last, along = given
        return [1, *farthest_in_range(tables, first, last, along)]

    most = len(tables.groups.values) // GROUP_NUMBERS
    begin, rest = [select(less(start + 1, end), -1, 1), start + 1, start, reach(start, along)[0]], [end, along]
    _, _, best, _ = iterate(choose, begin, rest, most)
    _, first, last = reach(best, along)
    number, height = farthest_in_range(tables, first, last, along)
    _, _, number, height = iterate(look, [-1, start, number, height], rest, most)
    return number, height


def corner_at(tables: SolidTables, number: Any) -> Array:
    """A corner (3,) by its number."""
    return vector(*[entry(tables.corners, 3 * number + i) for i in range(3)])
