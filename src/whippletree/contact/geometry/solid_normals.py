"""The normal of two round solids, by Newton's method from the corners that are nearest.

On the sphere of unit vectors n, with corners that stay, sep(n) (:mod:`~whippletree.contact.geometry.solid_distance`)
has the gradient a(n) − b(n), the vector between the points of both solids for that normal, and the curvature
−(H_A + H_B) − sep, where H is that of the rounding:

    h(n) = |A n|        H = A²/h − A² n (A² n)ᵀ/h³

Where an edge or a face is nearest, several corners of it have a share in the nearest point; n stays across the lines
between them. Of two such lines n is their common normal, of one it has a single freedom left.

A normal of a moment ago tells which parts of two solids of one or two corners look at each other: an end, the line
between both ends, the cap of a cylinder. From there a few of Newton's steps lead to the normal of now. What shows that
it is that, :func:`normal_again`, are two points of both solids that are farthest along it and lie on one line along
it: the distance of solids is no more than that of two of their points, and no less than sep along any n.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.contact.geometry.closed_forms import axes_of, unit_or
from whippletree.contact.geometry.rounded_polytopes import Sides, corner_at, farthest_corner
from whippletree.contact.geometry.terrain import EDGE_ON
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import cross

NORMAL_ROUNDS = 8
"""Newton steps, at most; three are usual."""

SAME_NORMAL = 1e-16
"""Square of a step, rad², that is the last one."""

SHARE = 1e-4
"""Share in the nearest point from which on a corner tells what is nearest."""

ASKEW = 1e-6
"""Sine of the angle between two lines from which on they have a common normal."""

LINED, NEARLY_FLUSH = 0.02, 0.02
"""Sines of angles between a normal of a moment ago and the plane across a line, and the axis of a cap, up to which
these are taken for what is nearest: as far as a body turns in a step of 2 ms at 10 rad/s."""

ON_ONE_LINE, SAME_HEIGHT = 1e-11, 1e-12
"""Shares of the solids' size: how far beside a line along the normal the farthest points of both may be, whose square
counts in the gap; and by how much corners that should be equally far may differ."""

BARELY_OVERLAPPING = 1e-3
"""Share of their size by which solids may overlap for a normal at which sep is stationary to be that of its maximum:
the curvature of what meets is that of their roundings, less the overlap."""


def choose_vector(condition: Any, a: Array, b: Array) -> Array:
    """Select one of two vectors (n,)."""
    return vector(*[select(condition, x, y) for x, y in zip(a, b, strict=True)])


class Simplex(NamedTuple):
    """Between which corners of two solids a point of A − B is."""

    share: Array
    """Share of each of the three, (3,)."""
    first: Array
    """Numbers of the first solid's corners, (3,); several may be the same."""
    second: Array
    """And of the second one's."""


class Corners(NamedTuple):
    """Between which corners two solids are nearest."""

    share: Array
    """Share of each of the three, (3,)."""
    first: Array
    """Corners of the first solid, (3, 3); several may be the same."""
    second: Array
    """And of the second one."""

    @staticmethod
    def of(sides: Sides, between: Simplex) -> Corners:
        """The corners with the numbers of a simplex."""
        places = [sides.corners_at(a, b) for a, b in zip(between.first, between.second, strict=True)]
        return Corners(between.share, np.stack([a for a, _ in places]), np.stack([b for _, b in places]))

    def first_point(self, sides: Sides, n: Array, gap: Any) -> Array:
        """The point (3,) of the first solid that is nearest, along n.

        A cylinder that looks at the other solid with its cap has no one point that is farthest along n: where the other
        one's point meets the cap counts.
        """
        own, other = sides.roundings(n)
        (first, _), (R, _) = sides.solids, sides.turns
        stretched = [r * x for r, x in zip(first.radii, R.T @ n, strict=True)]
        flush = less(sum(x * x for x in stretched), EDGE_ON * EDGE_ON * (first.radii @ first.radii))
        theirs = vector(*(self.share @ self.second)) + other + gap * n
        return choose_vector(flush, theirs, vector(*(self.share @ self.first)) + own)


def polished_normal(sides: Sides, corners: Corners, n: Array) -> Array:
    """The normal (3,) at which the gap between these corners is stationary, by steps from n on."""
    one, two = _lines(corners)
    # across one line, or both
    n = unit_or(n - (n @ one) * one, n)[1]
    common = cross(one, two)
    square = common @ common
    fixed = less(ASKEW * ASKEW, square)
    scale = select(less(common @ n, 0), -1, 1) / sqrt(select(fixed, square, 1))
    n = vector(*[select(fixed, scale * x, y) for x, y in zip(common, n, strict=True)])
    apart = vector(*(corners.share @ (corners.first - corners.second)))

    def step(state: list[Any], given: list[Any]) -> list[Any]:
        _, n = state
        *parts, apart, line = given
        own = sides.of(parts)
        move = _newton_step(own, apart, line, n)
        _, after = unit_or(n + move, n)
        return [select(less(move @ move, SAME_NORMAL), 1, -1), after]

    begin = [select(fixed, 1, -1), n]
    return vector(*iterate(step, begin, [*sides.parts(), apart, one], NORMAL_ROUNDS)[1])


def _newton_step(sides: Sides, apart: Array, line: Array, n: Array) -> Array:
    """By how much n moves (3,), across itself and across a line, which may be none."""
    lined = less(0, line @ line)
    _, u, w = axes_of(n)
    across = cross(line, n)
    u = vector(*[select(lined, a, b) for a, b in zip(across, u, strict=True)])
    p, q = sides.roundings(n)
    gradient = apart + p - q
    gap = n @ gradient
    a, b, c = (_curvature(sides, n, x, y) + gap * (x @ y) for x, y in ((u, u), (u, w), (w, w)))
    b, c = select(lined, 0, b), select(lined, 1, c)
    x, y = gradient @ u, select(lined, 0, gradient @ w)
    det = a * c - b * b
    sound = less(0, abs(det))
    rate = select(sound, 1 / select(sound, det, 1), 0)
    # sep falls off to all sides of its maximum: gradient · e = (H + sep) step
    return vector(*(rate * (c * x - b * y) * u + rate * (a * y - b * x) * w))


def _curvature(sides: Sides, n: Array, x: Array, y: Array) -> Any:
    """xᵀ (H_A + H_B) y."""
    total: Any = 0
    for solid, R in zip(sides.solids, sides.turns, strict=True):
        s, own, other = (vector(*[r * e for r, e in zip(solid.radii, R.T @ d, strict=True)]) for d in (n, x, y))
        square = s @ s
        some = less(0, square)
        h = sqrt(select(some, square, 1))
        total = total + select(some, (own @ other - (own @ s) * (other @ s) / (h * h)) / h, 0)
    return total


def _lines(corners: Corners) -> tuple[Array, Array]:
    """Unit vectors (3,) along two lines between corners with a share, 0 where there is none: the longest, and the one
    that is farthest from it, not normalised."""
    found = []
    for own in (corners.first, corners.second):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            counts = both(less(SHARE, corners.share[i]), less(SHARE, corners.share[j]))
            found.append(vector(*[select(counts, x, 0) for x in own[i] - own[j]]))
    longest, square = found[0], found[0] @ found[0]
    for line in found[1:]:
        longer = less(square, line @ line)
        longest = vector(*[select(longer, x, y) for x, y in zip(line, longest, strict=True)])
        square = select(longer, line @ line, square)
    _, one = unit_or(longest, vector(0, 0, 0))
    two, most = vector(0, 0, 0), 0
    for line in found:
        _, other = unit_or(line, vector(0, 0, 0))
        off = cross(one, other)
        farther = less(most, off @ off)
        two = vector(*[select(farther, x, y) for x, y in zip(other, two, strict=True)])
        most = select(farther, off @ off, most)
    return one, two


# --- from the normal of a moment ago ---------------------------------------------------------------------------------


class Again(NamedTuple):
    """What a normal of a moment ago has led to."""

    holds: Any
    """Whether it is the normal, 1 or −1."""
    normal: Array
    gap: Any
    point: Array
    """Point of the first solid (3,), from the second one's origin."""


class _SeenPart(NamedTuple):
    """The part of a solid of one or two corners that looks in a direction."""

    end: Array
    """Its corner (3,), from the second solid's origin; of a cap, its middle."""
    line: Array
    """From there to the other end, (3,)."""
    lined: Any
    """Whether the line between both ends lies across the direction."""
    capped: Any
    """Whether it is a cap."""
    axis: Array
    """Axis of the cap, along the normal."""
    radius: Any


def is_slim(sides: Sides) -> Any:
    """Whether :func:`normal_again` knows solids like these: of one or two corners each, and one of them round."""
    counts = [less(solid.count, 3) for solid in sides.solids]
    return both(sides.is_round(), both(*counts))


def normal_again(sides: Sides, n: Array, size: Any) -> Again:
    """The normal of two slim solids, from that of a moment ago, n (3,)."""
    one, two = _part(sides, 0, -n, n), _part(sides, 1, n, n)
    # the ends, and those of lines that lie across n, all with a share
    third, fourth = (select(x.lined, 0.25, 0) for x in (one, two))
    firsts = [one.end, one.end + one.line, one.end]
    seconds = [two.end, two.end, two.end + two.line]
    corners = Corners(vector(1 - third - fourth, third, fourth), *[_rows(rows) for rows in (firsts, seconds)])
    free = polished_normal(sides, corners, n)
    n = choose_vector(one.capped, one.axis, choose_vector(two.capped, two.axis, free))
    p, q = sides.roundings(n)
    a, b = (x.end + choose_vector(x.capped, vector(0, 0, 0), y) for x, y in ((one, p), (two, q)))
    gap = n @ (a - b)
    t, s = _along_lines(a - b, n, one, two)
    a, b = a + t * one.line, b + s * two.line
    beside = a - b - gap * n
    height = n @ beside
    aside = beside - height * n
    spare = largest([ON_ONE_LINE * size, *[select(x.capped, x.radius, 0) for x in (one, two)]])
    # an end that is another's no more, or a line that does not lie across n
    lacks = largest([abs(height), n @ -one.line, n @ two.line])
    holds = both(less(aside @ aside, spare * spare), less(lacks, SAME_HEIGHT * size))
    holds = both(holds, less(-BARELY_OVERLAPPING * size, gap))
    holds = both(holds, negated(both(one.capped, two.capped)))
    return Again(select(holds, 1, -1), n, gap, choose_vector(one.capped, b + gap * n, a))


def _rows(rows: list[Array]) -> Array:
    return np.stack([vector(*row) for row in rows])


def _part(sides: Sides, side: int, towards: Array, n: Array) -> _SeenPart:
    """What of a solid looks in a direction (3,), along n or against it."""
    solid, R = sides.solids[side], sides.turns[side]
    origin = vector(0, 0, 0) if side else sides.offset
    along = R.T @ towards
    farthest = farthest_corner(solid, along)
    other = corner_at(solid.tables, 2 * solid.first + solid.count - 1 - farthest.number)
    line = other - farthest.point
    rise = line @ along
    lined = less(rise * rise, LINED * LINED * (line @ line))
    disc = both(less(solid.radii[2], EDGE_ON * solid.radii[0]), less(0, solid.radii[0]))
    capped = both(disc, less(along[0] * along[0] + along[1] * along[1], NEARLY_FLUSH * NEARLY_FLUSH))
    axis = select(less(R[:, 2] @ n, 0), -1, 1) * R[:, 2]
    return _SeenPart(origin + R @ farthest.point, R @ line, lined, capped, axis, solid.radii[0])


def _along_lines(w: Array, n: Array, one: _SeenPart, two: _SeenPart) -> tuple[Any, Any]:
    """Shares of the lines of both parts at which they are nearest beside n, where they have lines; w (3,): from the end
    of the second part to that of the first."""
    w = w - (w @ n) * n
    d, e = (select(x.lined, 1, 0) * (x.line - (x.line @ n) * n) for x in (one, two))
    dd, de, ee, wd, we = d @ d, d @ e, e @ e, w @ d, w @ e
    square = dd * ee - de * de
    askew = less(ASKEW * ASKEW * dd * ee, square)
    area = select(askew, square, 1)
    alone = [select(less(0, x), y / select(less(0, x), x, 1), 0) for x, y in ((dd, -wd), (ee, we))]
    t = select(askew, (de * we - ee * wd) / area, alone[0])
    s = select(askew, (dd * we - de * wd) / area, select(less(0, dd), 0, alone[1]))
    return _within(t), _within(s)


def _within(x: Any) -> Any:
    """The number of 0 … 1 that is next to x."""
    return select(less(0, x), select(less(x, 1), x, 1), 0)
