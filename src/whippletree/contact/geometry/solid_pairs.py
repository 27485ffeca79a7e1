"""The candidates of two solids: where they are nearest, and where the flats that meet overlap.

Two flats that look at each other across the normal of the nearest points are seen along it, as outlines in one plane.
The overlap of two convex outlines has its corners where an edge of one enters and leaves the other. Eight slots hold
those that reach farthest in eight directions of that plane, whichever flats and however many corners they have: a slot
keeps its name while the solids rock, slide and turn. A corner that is farthest in several directions has the first of
their slots. The gap of a corner is the height between the planes of the two flats there. A last slot holds the nearest
points, in use where nothing else is as near; solids of which one has no flat have no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import entry, less, negated, select, sqrt
from whippletree.contact.geometry.box_pairs import BESIDE_BOX, NOWHERE
from whippletree.contact.geometry.closed_forms import Touch, Touching, axes_of, reversed_touch
from whippletree.contact.geometry.rounded_polytopes import (
    AROUND,
    FLAT,
    OCTANTS,
    Solid,
    SolidTables,
    corner_at,
    farthest_corner,
    farthest_of_groups,
)
from whippletree.contact.geometry.shapes import SEPARATE_CORNERS, HalfSpace, Hull, Shape
from whippletree.contact.geometry.solid_cells import NO_CELL, Cell, nearest_from_cell
from whippletree.contact.geometry.solid_distance import Hint, Nearest, nearest_of_solids
from whippletree.contact.geometry.solid_normals import choose_vector
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import Pose

NEARER_POINT = 1e-9
"""m: by how much the nearest points must be nearer than all corners to be in use."""

SAME_CORNER = 1e-7
"""m: corners of an overlap that are no farther apart are one: an edge that passes a corner is cut beside it."""

ALONG_EACH_OTHER = 1e-4
"""Sine of the angle between two lines, seen along the normal, up to which they lie along each other. Two cylinders of
0.1 m that cross at this angle are 2e-9 m farther apart 0.1 m from there."""

LOOKS_AWAY = 0.2
"""Cosine between a flat's normal and that of the contact below which it does not meet anything."""

_TURN = 0.37
"""Turn of the eight directions, in parts of the angle between two: off the angles at which outlines are usually drawn,
where two corners would be equally far."""

DIRECTIONS = tuple((math.cos((k + _TURN) * math.pi / 4), math.sin((k + _TURN) * math.pi / 4)) for k in range(8))
"""In which corners of an overlap are farthest, one for each slot."""


class SolidForm:
    """Finds the candidates of two solids; a form as those of :mod:`~whippletree.contact.geometry.closed_forms`."""

    def __init__(self, first: Solid, second: Solid) -> None:
        self.flat = bool(first.flat and second.flat)
        """Whether both have flats."""
        self.slots = len(DIRECTIONS) + 1 if self.flat else 1

    def __call__(self, first: Solid, second: Solid, X: Pose, Y: Pose, hint: Hint | None = None) -> list[Touch]:
        """``hint``: of the last of the candidates, the nearest points, a moment ago; None: by way of a cell."""
        if hint is None:
            return self.from_cell(first, second, X, Y, NO_CELL)[0]

        def find(first: Solid, second: Solid, X: Pose, Y: Pose, known: Sequence[Any]) -> tuple[list[Touch], list[Any]]:
            hint = Hint(*known)
            return self._around(nearest_of_solids(first, second, X, Y, hint), first, second, X, Y, hint.reach), []

        return self._in_one_round(find, first, second, X, Y, hint[:2], [])[0]

    def from_cell(self, first: Solid, second: Solid, X: Pose, Y: Pose, known: Cell) -> tuple[list[Touch], Cell]:
        """Touches by way of a cell of poses (:mod:`~whippletree.contact.geometry.solid_cells`), and that cell;
        ``known``: the one in which the solids were last."""

        def find(first: Solid, second: Solid, X: Pose, Y: Pose, known: Sequence[Any]) -> tuple[list[Touch], list[Any]]:
            near, cell = nearest_from_cell(first, second, X, Y, Cell(*known))
            return self._around(near, first, second, X, Y, NOWHERE), list(cell)

        touches, cell = self._in_one_round(find, first, second, X, Y, known, list(NO_CELL))
        return touches, Cell(*[vector(*part) for part in cell])

    def _in_one_round(
        self,
        find: Callable[..., tuple[list[Touch], list[Any]]],
        first: Solid,
        second: Solid,
        X: Pose,
        Y: Pose,
        known: Sequence[Any],
        rest: Sequence[Any],
    ) -> tuple[list[Touch], list[Any]]:
        """Candidates, and a ``rest`` of such shapes, in one round of an iteration, so that the loops in it share what
        they are given and do not find it again and again."""

        def round_(_: list[Any], given: list[Any]) -> list[Any]:
            a, R, p, b, S, q, *known = given
            touches, rest = find(first.with_numbers(a), second.with_numbers(b), Pose(R, p), Pose(S, q), known)
            return [1, *[part for touch in touches for part in touch], *rest]

        nothing = [-1, *[0, vector(0, 0, 0), np.zeros((3, 3), dtype=object)] * self.slots, *rest]
        given = [vector(*first.numbers), X.R, X.p, vector(*second.numbers), Y.R, Y.p, *known]
        _, *parts = iterate(round_, nothing, given, 1)
        end = 3 * self.slots
        return [Touch(*parts[k : k + 3]) for k in range(0, end, 3)], parts[end:]

    def _around(self, near: Nearest, first: Solid, second: Solid, X: Pose, Y: Pose, reach: Any) -> list[Touch]:
        """The candidates of solids whose nearest points are known; ``reach``: beyond which only these are looked at."""
        axes = axes_of(Y.R.T @ near.normal) @ Y.R.T
        gap = near.gap - first.margin - second.margin
        nearest = Touch(gap, Y.p + near.point - first.margin * near.normal, axes)
        if not self.flat:
            return [nearest]
        # no two points of convex solids are nearer along the normal: corners are cut by BESIDE_BOX beside an edge
        apart = select(less(reach, gap), 1, -1)
        found = _overlap(first, second, X, Y, axes, apart)
        corners = [touch._replace(gap=largest([touch.gap, gap])) for touch in found]
        least = -largest([-touch.gap for touch in corners])
        alone = less(gap, least - NEARER_POINT)
        return [*corners, nearest._replace(gap=select(alone, gap, NOWHERE))]


class HullOnPlane:
    """Finds the candidates of a hull with many corners on a half-space: the lowest corner of each octant about its
    middle, as :func:`~whippletree.contact.geometry.closed_forms.corners_on_plane` does, in loops over its corners."""

    slots = OCTANTS

    def __call__(self, first: Solid, second: HalfSpace, X: Pose, P: Pose) -> list[Touch]:
        normal, tables = P.R[:, 2], first.tables
        axes = np.stack([normal, P.R[:, 0], P.R[:, 1]])
        down = -(X.R.T @ normal)
        first_group = entry(tables.octants, (OCTANTS + 1) * first.number)
        touches = []
        for octant in range(OCTANTS):
            place = (OCTANTS + 1) * first.number + octant
            start, end = (entry(tables.octants, place + i) for i in (0, 1))
            some = less(start, end)
            # an octant without corners is given one of the solid's, which is not in use
            start, end = select(some, start, first_group), select(some, end, first_group + 1)
            number, _ = farthest_of_groups(tables, start, end, down)
            point = X.point(corner_at(tables, number))
            gap = select(some, normal @ (point - P.p), NOWHERE)
            touches.append(Touch(gap, point, axes))
        return touches


class _Turned:
    """A form seen from the other side: that of a plane on a hull."""

    def __init__(self, form: HullOnPlane) -> None:
        self.form, self.slots = form, form.slots

    def __call__(self, first: Any, second: Any, X: Pose, Y: Pose) -> list[Touch]:
        return [reversed_touch(touch) for touch in self.form(second, first, Y, X)]


def form_of_solids(first: Shape | Solid, second: Shape | Solid) -> SolidForm | HullOnPlane | _Turned:
    """Finds the candidates of two solids, or of one and a half-space."""
    if isinstance(first, Solid) and isinstance(second, Solid):
        return SolidForm(first, second)
    return HullOnPlane() if isinstance(first, Solid) else _Turned(HullOnPlane())


def is_searched(form: Any) -> bool:
    """Whether a form goes through the corners of a solid in loops to find its candidates."""
    return isinstance(form, SolidForm | HullOnPlane | _Turned)


def compares_solids(form: Touching | None, first: Shape, second: Shape) -> bool:
    """Whether two shapes are compared as solids: where they have no other form, and hulls of many corners on planes,
    whose closed form is written out for every corner."""
    hull, plane = (first, second) if isinstance(second, HalfSpace) else (second, first)
    large = isinstance(hull, Hull) and len(hull.vertices) > SEPARATE_CORNERS
    return form is None or (large and isinstance(plane, HalfSpace))


class _SeenFlat(NamedTuple):
    """A flat as seen along the normal: x along it, y and z across."""

    used: Any
    """Whether it looks towards the other solid, 1 or −1."""
    normal: Array
    turn: Array
    """(3, 3): from the solid's frame."""
    offset: Array
    first: Any
    """Number of its first outline corner."""
    count: Any

    def parts(self) -> list[Any]:
        return [self.used, self.normal, self.turn, self.offset, self.first, self.count]

    def corner(self, number: Any, tables: SolidTables) -> Array:
        """Corner 0, 1, … of the outline (3,), and from the start again after the last one."""
        place = 3 * (self.first + select(less(number, self.count), number, number - self.count))
        return self.turn @ vector(*[entry(tables.outlines, place + i) for i in range(3)]) + self.offset

    def height(self, y: Any, z: Any, tables: SolidTables) -> Any:
        """Height of the flat's plane at a place."""
        c = self.corner(0, tables)
        m = self.normal
        return c[0] - (m[1] * (y - c[1]) + m[2] * (z - c[2])) / m[0]


def _overlap(first: Solid, second: Solid, X: Pose, Y: Pose, axes: Array, apart: Any) -> list[Touch]:
    """The corners of the overlap of the flats that meet, in their slots; ``apart``: 1 where none are looked for."""

    def find(_: list[Any], given: list[Any]) -> list[Any]:
        a, R, b, S, offset, axes = given
        one = _met_flat(first.with_numbers(a), axes @ R, axes @ offset, -1)
        two = _met_flat(second.with_numbers(b), axes @ S, vector(0, 0, 0), 1)
        return [1, _farthest_corners(one, two, first.tables)]

    # of the corner that is farthest in each direction: how far, where, and the height of the first flat
    nothing = np.stack([vector(-NOWHERE, 0, 0, 0, NOWHERE)] * len(DIRECTIONS))
    given = [vector(*first.numbers), X.R, vector(*second.numbers), Y.R, X.p - Y.p, axes]
    _, farthest = iterate(find, [apart, nothing], given, 1)
    touches: list[Touch] = []
    places: list[Array] = []
    for row in farthest:
        _, y, z, height, gap = row
        here = less(gap, NOWHERE)
        for other in places:
            here = both(here, less(SAME_CORNER, abs(y - other[0]) + abs(z - other[1])))
        places.append(vector(y, z))
        point = Y.p + axes.T @ vector(height, y, z)
        touches.append(Touch(select(here, gap, NOWHERE), point, axes))
    return touches


def _farthest_corners(one: _SeenFlat, two: _SeenFlat, tables: SolidTables) -> Array:
    """Corners of the overlap of two flats, (8, 5); their gap is ``NOWHERE`` where there are none."""
    farthest = np.stack([vector(-NOWHERE, 0, 0, 0, NOWHERE)] * len(DIRECTIONS))
    for edges, area, inward in ((one, two, 1), (two, one, -1)):
        farthest = _clip(edges, area, inward, edges is one, tables, farthest)
    return farthest


def _met_flat(solid: Solid, turn: Array, offset: Array, side: int) -> _SeenFlat:
    """The one of the flats around the corner farthest along ``side`` times the normal, the one that looks there
    most."""
    tables = solid.tables

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, row = state
        end, towards = given
        place = FLAT * entry(tables.beside, at)
        own = vector(*[entry(tables.flats, place + i) for i in range(FLAT)])
        score = _score(own, towards)
        better = less(best, score)
        after = at + 1
        return [select(less(after, end), -1, 1), after, select(better, score, best), choose_vector(better, own, row)]

    towards = side * turn[0]
    corner = farthest_corner(solid, towards).number
    start, end = (entry(tables.around, AROUND * corner + i) for i in (2, 3))
    begin = [-1, start, -2, vector(*[0] * FLAT)]
    most = max(int(b - a) for a, b in zip(tables.around.values[2::AROUND], tables.around.values[3::AROUND]))
    _, _, score, row = iterate(look, begin, [end, towards], most)
    k = vector(*row[:3])
    # a line of a round solid is moved outwards, across itself
    lined = less(0, row[3])
    across = towards - (towards @ k) * k
    square = across @ across
    some = less(0, square)
    across = across / sqrt(select(some, square, 1))
    normal = turn @ choose_vector(lined, across, k)
    offset = offset + select(lined, row[4], 0) * normal
    return _SeenFlat(select(less(LOOKS_AWAY, score), 1, -1), normal, turn, offset, row[5], row[6])


def _score(flat: Array, towards: Array) -> Any:
    """Cosine between a direction and the normal of a flat; of a line, that of its best normal."""
    along = flat[:3] @ towards
    square = 1 - along * along
    lying = sqrt(select(less(0, square), square, 0))
    return select(less(0, flat[3]), lying, along)


def _clip(edges: _SeenFlat, area: _SeenFlat, inward: int, own: bool, tables: SolidTables, farthest: Array) -> Array:
    """Where edges of one flat enter and leave the area of another, among the corners that are farthest.

    ``own``: the edges are those of the first solid. ``inward``: 1 if the area is to the left of its edges.
    """

    def over_edges(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, rows = state
        edge, other = _SeenFlat(*given[:6]), _SeenFlat(*given[6:])
        p, q = edge.corner(at, tables), edge.corner(at + 1, tables)
        begin = [-1, 0, 0, 1, other.corner(0, tables)]
        _, _, start, end, _ = iterate(within, begin, [*other.parts(), p, q], _most_corners(tables))
        exists = negated(less(end, start))
        leaves = both(exists, less(end, 1))
        for share, here in ((start, exists), (end, leaves)):
            corner = p + share * (q - p)
            beyond = other.height(corner[1], corner[2], tables)
            mine, their = (corner[0], beyond) if own else (beyond, corner[0])
            rows = _with_corner(rows, corner[1], corner[2], mine, mine - their, here)
        after = at + 1
        return [select(less(after, edge.count), -1, 1), after, rows]

    def within(state: list[Any], given: list[Any]) -> list[Any]:
        """The part of an edge on the inner side of the lines along an outline."""
        _, at, start, end, a = state
        *parts, p, q = given
        other = _SeenFlat(*parts)
        b = other.corner(at + 1, tables)
        # inwards, across the line from a to b; a line itself ends at its ends
        line = less(other.count, 3)
        y, z = b[1] - a[1], b[2] - a[2]
        y, z = select(line, y, -inward * z), select(line, z, inward * y)
        depth, rate = y * (p[1] - a[1]) + z * (p[2] - a[2]), y * (q[1] - p[1]) + z * (q[2] - p[2])
        depth = depth + BESIDE_BOX * sqrt(y * y + z * z)
        moves = less(0, abs(rate))
        at_line = -depth / select(moves, rate, 1)
        start = select(less(0, rate), largest([start, at_line]), start)
        end = select(less(rate, 0), -largest([-end, -at_line]), end)
        outside = both(negated(moves), less(depth, 0))
        start = select(outside, 2, start)
        after = at + 1
        # a part that has gone does not come back
        goes_on = both(less(after, other.count), negated(less(end, start)))
        return [select(goes_on, -1, 1), after, start, end, b]

    most = _most_corners(tables)
    meet = both(both(less(0, edges.used), less(0, area.used)), _is_met(edges, area, tables))
    begin = [select(meet, -1, 1), 0, farthest]
    found: Array = iterate(over_edges, begin, [*edges.parts(), *area.parts()], most)[2]
    return found


def _is_met(edges: _SeenFlat, area: _SeenFlat, tables: SolidTables) -> Any:
    """Whether edges may end inside of an area: a line has none, but for another line along it."""
    d, e = (flat.corner(1, tables) - flat.corner(0, tables) for flat in (edges, area))
    sine = d[1] * e[2] - d[2] * e[1]
    squares = (d[1] * d[1] + d[2] * d[2]) * (e[1] * e[1] + e[2] * e[2])
    along = less(sine * sine, ALONG_EACH_OTHER * ALONG_EACH_OTHER * squares)
    lines = both(less(edges.count, 3), along)
    return negated(both(less(area.count, 3), negated(lines)))


def _most_corners(tables: SolidTables) -> int:
    """No outline has more corners."""
    return max(int(x) for x in tables.flats.values[6::FLAT])


def _with_corner(rows: Array, y: Any, z: Any, height: Any, gap: Any, exists: Any) -> Array:
    """The farthest corners with another one, if it exists."""
    found = []
    for (c, s), row in zip(DIRECTIONS, rows, strict=True):
        own = vector(c * y + s * z, y, z, height, gap)
        found.append(choose_vector(both(exists, less(row[0], own[0])), own, row))
    return np.stack(found)
