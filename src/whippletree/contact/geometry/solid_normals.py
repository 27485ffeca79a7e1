"""The normal of two round solids by Newton's method, from the corners of both that are nearest.

On the sphere of unit vectors n, with corners that stay, sep(n) has the gradient a(n) − b(n), the vector between the
points of both solids for that normal, and the curvature −(H_A + H_B) − sep, where H is that of the rounding:

    h(n) = |A n|        H = A²/h − A² n (A² n)ᵀ/h³

Where an edge or a face is nearest, several corners of it have a share in the nearest point; n stays across the lines
between them. Of two such lines n is their common normal, of one it has a single freedom left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.contact.geometry.closed_forms import axes_of, unit_or
from whippletree.contact.geometry.rounded_polytopes import Sides
from whippletree.contact.problem.cones import both
from whippletree.spatial import cross

NORMAL_ROUNDS = 8
"""Newton steps, at most; three are usual."""

SAME_NORMAL = 1e-16
"""Square of a step, rad², that is the last one."""

SHARE = 1e-4
"""Share in the nearest point from which on a corner tells what is nearest."""

ASKEW = 1e-6
"""Sine of the angle between two lines from which on they have a common normal."""


class Corners(NamedTuple):
    """Between which corners two solids are nearest."""

    share: Array
    """Of each of the three, (3,)."""
    first: Array
    """Corners of the first solid, (3, 3); several may be the same."""
    second: Array
    """And of the second one."""

    def first_point(self, sides: Sides, n: Array) -> Array:
        """The point (3,) of the first solid that is nearest, along n."""
        return vector(*(self.share @ self.first)) + sides.roundings(n)[0]


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
