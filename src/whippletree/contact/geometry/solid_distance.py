"""How far two solids are apart, or overlap, and where: one search for all shapes, on any scalar.

For a unit vector n from the second solid to the first one,

    sep(n) = min n · a − max n · b        over the points a of the first solid and b of the second

is how far they are apart along n, and the gap is its largest value. Where that is positive it is the distance, and the
iteration of Gilbert, Johnson and Keerthi (1988) finds it: the point of A − B that is nearest to the origin, by way of
triangles with corners in A − B. That is looked for first, and of solids that are apart nothing else. Where they touch
or overlap, it ends at a triangle near the origin, whose normal is a good one to begin with. Then the first solid is
*moved away* along the best normal n₀ that is known, by a length δ at which they are apart, and the nearest points there
give the next one:

    n₁ = argmax sep(n) + δ n · n₀        sep(n₁) ≥ sep(n₀) + δ (1 − n₀ · n₁)

So no round is worse than the one before, and where n stays, the gap along it is a local maximum of sep: the shortest
way out. A face that meets a corner is found in one round. Round solids come closer and closer only, so the rounds end
early for them; and where solids are close the vector between two edges is mostly rounding. There Newton's method goes
on from the corners that are nearest (:mod:`~whippletree.contact.geometry.solid_normals`), which also begins where a
normal of a moment ago is known, before anything is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.iteration import iterate
from whippletree.arithmetic.scalars import is_zero, less, negated, select, sqrt
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.geometry.closed_forms import unit_or
from whippletree.contact.geometry.rounded_polytopes import Sides, Solid, solid_reach
from whippletree.contact.geometry.solid_normals import (
    Corners,
    Simplex,
    choose_vector,
    is_slim,
    normal_again,
    polished_normal,
)
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import Pose, cross

NEAREST_ROUNDS = 64
"""Rounds of the search for nearest points, at most; ten are usual."""

WAY_OUT_ROUNDS = 12
"""Rounds of the search for the shortest way out, at most; three are usual."""

CLEARLY_APART, BARELY_APART = 1e-2, 1e-7
"""Shares of the solids' size by which they must be apart for the vector between their nearest points to be their normal
to rounding, also where an edge is nearest, across which it must be; and for it to be their normal at all."""

MOVED_AWAY = 0.05
"""Share of their size by which they are moved apart where they are not."""

SAME_DISTANCE, ROUND_DISTANCE, CENTRE_DISTANCE = 1e-15, 1e-10, 1e-4
"""Share of the distance by which a round must come nearer to go on; where one of the solids is round, since Newton's
method does the rest; and where both have no corner but their centre, since it then does so from afar."""

CLOSE_BY, TOO_DEEP = 1e-3, 0.1
"""Shares of their size: solids that are less far apart along a normal that is hinted are moved apart at once, which
saves the search where they are; and the hint of those that overlap more is of no use."""

FLUSH_AXIS = 1e-12
"""Share of their size by which the axis of a solid may separate less than the best direction and still be the normal:
the cap of a cylinder has no normals but its own, and rounding would leave others."""


class Nearest(NamedTuple):
    """Where two solids without their margins are nearest."""

    gap: Any
    """sep(n), m."""
    normal: Array
    """n (3,), in the world."""
    point: Array
    """Point of the first solid (3,), from the second one's origin."""
    between: Simplex
    """The corners between which they are."""


class Hint(NamedTuple):
    """What is known of two solids, and when that is enough."""

    normal: Array
    """Normal of their nearest points, (3,), a moment ago or in a place nearby; 0 where it is not known."""
    reach: Any
    """m: solids that are farther apart along it are not looked at more closely."""
    between: Simplex | None = None
    """The corners between which these are in a place nearby, where the search begins. They are looked at where they are
    in any case: solids that are thinner than that place is far may lie the other way round there."""


NO_HINT = Hint(vector(0, 0, 0), NOWHERE)


def nearest_of_solids(first: Solid, second: Solid, X: Pose, Y: Pose, hint: Hint = NO_HINT) -> Nearest:
    """The nearest points of two solids without their margins; of overlapping ones, along the shortest way out.

    Where a hint is enough these are points of two planes across its normal; their gap is a bound then.
    """
    sides = Sides((first, second), (X.R, Y.R), X.p - Y.p)
    size = -largest([-size_of_solid(first), -size_of_solid(second)])
    start = _start(sides, hint, size)

    def move_on(state: list[Any], given: list[Any]) -> list[Any]:
        _, n, gap, _, begins, known, *last = state
        *parts, size = given
        own = sides.of(parts)
        away = select(less(0, begins), 0, MOVED_AWAY * size - gap)
        v, between = _nearest_corners(own, n, away, known, Simplex(*last))
        corners = Corners.of(own, between)
        found, reached = _best_normal(own, corners, unit_or(v, n)[1], size, begins)
        worse = less(reached, gap)
        point = corners.first_point(own, found, reached)
        apart = less(BARELY_APART * size, reached)
        stays = both(less(begins, 0), negated(less(gap + SAME_DISTANCE * size, reached)))
        over = select(both(less(0, begins), apart), 1, select(stays, 1, -1))
        return [over, choose_vector(worse, n, found), select(worse, gap, reached), point, -1, 1, *between]

    def again(state: list[Any], given: list[Any]) -> list[Any]:
        _, _, n, gap, point = state
        *parts, size = given
        found = normal_again(sides.of(parts), n, size)
        holds = less(0, found.holds)
        now = choose_vector(holds, found.normal, n), select(holds, found.gap, gap)
        return [1, found.holds, *now, choose_vector(holds, found.point, point)]

    if not is_zero(start.tries):
        before = [-start.tries, -1, start.normal, start.gap, start.point]
        _, holds, n, gap, point = iterate(again, before, [*sides.parts(), size], 1)
        start = start._replace(enough=largest([start.enough, holds]), normal=n, gap=gap, point=point)
    # the corners of one round are where the next one begins
    begin = Simplex(vector(1, 0, 0), vector(0, 0, 0), vector(0, 0, 0))
    known = -1
    if hint.between is not None:
        begin, known = hint.between, select(less(0, hint.normal @ hint.normal), 1, -1)
    state = iterate(move_on, [*start[:5], known, *begin], [*sides.parts(), size], WAY_OUT_ROUNDS)
    _, n, gap, point, _, _, *between = state
    return Nearest(gap, vector(*n), vector(*point), Simplex(*[vector(*part) for part in between]))


def size_of_solid(solid: Solid) -> Any:
    """Half the diagonal of its extent, m."""
    return sqrt(solid.half @ solid.half) + solid.margin


def reach_of_solid(solid: Solid) -> Any:
    """Radius of a ball about its origin that holds it, m."""
    return sqrt(solid.middle @ solid.middle) + size_of_solid(solid)


def _best_normal(sides: Sides, corners: Corners, n: Array, size: Any, inside: Any) -> tuple[Array, Any]:
    """The direction among some that separates most, and by how much: n, the opposite (inside of A − B its boundary is
    on the other side; not asked where ``inside`` is not positive), what Newton's method makes of the better one, and
    where one is a cylinder the z axes of both.

    Where n is clear, as for polytopes that are apart, the others are not looked at.
    """

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, at, best, reached = state
        *parts, share, one, two, size, n, inside = given
        own, corners = sides.of(parts), Corners(share, one, two)
        polishing = [select(both(less(1, at), less(at, 3)), -1, 1), best]
        _, polished = iterate(polish, polishing, [*parts, *corners], 1)
        tried, tie = n, 0
        for k, (other, lack) in enumerate(((-n, 0), (polished, 0), *_axes(own, best, FLUSH_AXIS * size)), start=1):
            here = less(k - 1, at)
            tried, tie = choose_vector(here, other, tried), select(here, lack, tie)
        along = own.separation(tried)
        better = negated(less(along, reached - tie))
        best, reached = choose_vector(better, tried, best), select(better, along, reached)
        clear = both(negated(own.is_round()), less(CLEARLY_APART * size, reached))
        last = select(own.is_capped(), 4, 2)
        after = at + select(both(less(at, 1), less(inside, 0)), 2, 1)
        return [select(clear, 1, select(less(at, last), -1, 1)), after, best, reached]

    def polish(state: list[Any], given: list[Any]) -> list[Any]:
        *parts, share, one, two = given
        return [1, polished_normal(sides.of(parts), Corners(share, one, two), state[1])]

    begin = [-1, 0, n, -NOWHERE]
    _, _, best, reached = iterate(look, begin, [*sides.parts(), *corners, size, n, inside], 5)
    return vector(*best), reached


def _axes(sides: Sides, n: Array, tie: Any) -> list[tuple[Array, Any]]:
    """The z axes of both solids, towards the first one, each with what it may lack."""
    found = []
    for R in sides.turns:
        outward = select(less(R[:, 2] @ n, 0), -1, 1)
        found.append((outward * R[:, 2], tie))
    return found


class _Start(NamedTuple):
    """The state from which rounds begin."""

    enough: Any
    """Whether no round is needed, 1 or −1."""
    normal: Array
    gap: Any
    """Separation along it."""
    point: Array
    """Point of the first solid, (3,), from the second one's origin."""
    afresh: Any
    """1 if the solids are looked at where they are; −1 if one is moved away at once, since they nearly touch."""
    tries: Any
    """Whether the normal of a moment ago may lead to that of now, 1 or −1; 0 where none is known."""


def _start(sides: Sides, hint: Hint, size: Any) -> _Start:
    """From the normal of the hint where there is one and the solids are not deep in each other; else from a guess."""

    def along(state: list[Any], given: list[Any]) -> list[Any]:
        *parts, n = given
        own = sides.of(parts)
        (a, b), (p, q) = own.corners(n), own.roundings(n)
        return [1, n @ (a + p - b - q), a + p]

    def anew(state: list[Any], given: list[Any]) -> list[Any]:
        *parts, n, gap = given
        guess, apart = _guess(sides.of(parts))
        if hint.between is None:
            return [1, guess, apart]
        better = less(gap, apart)
        return [1, choose_vector(better, guess, n), select(better, apart, gap)]

    if all(map(is_zero, hint.normal)):
        return _Start(-1, *_guess(sides), vector(0, 0, 0), 1, 0)
    known = select(less(0, hint.normal @ hint.normal), -1, 1)
    _, gap, point = iterate(along, [known, -NOWHERE, vector(0, 0, 0)], [*sides.parts(), hint.normal], 1)
    margins = sum(solid.margin for solid in sides.solids)
    enough = select(less(hint.reach + margins, gap), 1, -1)
    # thin solids may lie the other way round in a place nearby: a normal from there holds if they are apart along it
    useful = select(less(0 if hint.between is not None else -TOO_DEEP * size, gap), 1, -1)
    _, n, gap = iterate(anew, [useful, hint.normal, gap], [*sides.parts(), hint.normal, gap], 1)
    tries, touching = 0, False
    if hint.between is None:
        touching = both(less(0, useful), less(gap, CLOSE_BY * size))
        tries = select(both(both(less(known, 0), less(0, useful)), both(less(enough, 0), is_slim(sides))), 1, -1)
    return _Start(enough, vector(*n), gap, vector(*point), select(touching, -1, 1), tries)


def _guess(sides: Sides) -> tuple[Array, Any]:
    """A direction to begin with, and the separation along it: that of the middles, or the axis along which the boxes
    around both solids are farthest apart."""
    line, axis_of_boxes, _ = _boxes_apart(sides)
    _, straight = unit_or(line, vector(0, 1, 0))

    def look(state: list[Any], given: list[Any]) -> list[Any]:
        _, second, best, gap = state
        *parts, straight, axis = given
        tried = choose_vector(less(0, second), axis, straight)
        along = sides.of(parts).separation(tried)
        better = less(gap, along)
        return [second, 1, choose_vector(better, tried, best), select(better, along, gap)]

    _, _, n, gap = iterate(look, [-1, -1, straight, -NOWHERE], [*sides.parts(), straight, axis_of_boxes], 2)
    return vector(*n), gap


def _boxes_apart(sides: Sides) -> tuple[Array, Array, Any]:
    """The vector (3,) from the middle of the second solid to that of the first; the axis (3,) along which the boxes
    around them are farthest apart, and by how much they are."""
    (first, second), (R, S) = sides.solids, sides.turns
    line = sides.offset + R @ first.middle - S @ second.middle
    best, found = -NOWHERE, vector(0, 0, 1)
    for axis in (*R.T, *S.T):
        reach = sum(h * abs(axis @ a) for h, a in zip(first.half, R.T, strict=True))
        reach = reach + sum(h * abs(axis @ b) for h, b in zip(second.half, S.T, strict=True))
        along = axis @ line
        apart = abs(along) - reach
        better = less(best, apart)
        best = select(better, apart, best)
        found = choose_vector(better, select(less(along, 0), -1, 1) * axis, found)
    return line, found, best


def separation_at_least(first: Solid, second: Solid, X: Pose, Y: Pose, normal: Array | None = None) -> Any:
    """A distance that two solids have at least, m, at little cost: that of the boxes around them, or their separation
    along a normal (3,) that is known from before, and 0 otherwise."""
    sides, margins = Sides((first, second), (X.R, Y.R), X.p - Y.p), first.margin + second.margin
    if normal is None:
        return _boxes_apart(sides)[2] - margins

    def along(state: list[Any], given: list[Any]) -> list[Any]:
        *parts, n = given
        return [1, sides.of(parts).separation(n)]

    known = select(less(0, normal @ normal), -1, 1)
    _, apart = iterate(along, [known, -NOWHERE], [*sides.parts(), normal], 1)
    return largest([_boxes_apart(sides)[2], apart]) - margins


class StraightMotion(NamedTuple):
    """How the points of a body move on straight lines within a time."""

    origin: Array
    """The body's, (3,)."""
    twist: Array
    """Twist of the body about its origin, angular first, (6,)."""
    time: Any

    def seen_along(self, n: Array) -> tuple[Array, Any]:
        """The direction (3,) along which a point is now as far as it is along n after that, but for a length."""
        turned = self.time * cross(n, self.twist[:3])
        return n + turned, self.time * (n @ self.twist[3:]) - turned @ self.origin


def separation_as_they_move(
    first: Solid, second: Solid, X: Pose, Y: Pose, n: Array, motions: Sequence[StraightMotion]
) -> Any:
    """How far two solids are apart along n (3,) after their motions, m, all points of them on straight lines; far
    inside each other where n is 0."""

    def along(state: list[Any], given: list[Any]) -> list[Any]:
        a, R, p, b, S, q, n, *moving = given
        solids = first.with_numbers(a), second.with_numbers(b)
        (down, fallen), (up, risen) = (
            StraightMotion(*moving[:3]).seen_along(n),
            StraightMotion(*moving[3:]).seen_along(n),
        )
        lowest, highest = (
            solid_reach(solid, pose, d)
            for solid, pose, d in zip(solids, (Pose(R, p), Pose(S, q)), (-down, up), strict=True)
        )
        return [1, fallen - lowest - (highest + risen)]

    known = select(less(0, n @ n), -1, 1)
    given = [vector(*first.numbers), X.R, X.p, vector(*second.numbers), Y.R, Y.p, n]
    return iterate(along, [known, -NOWHERE], [*given, *motions[0], *motions[1]], 1)[1]


# ---- nearest points of solids that are apart -----------------------------------------------------------------------


def _nearest_corners(sides: Sides, n: Array, away: Any, known: Any, last: Simplex) -> tuple[Array, Simplex]:
    """The shortest vector (3,) from the second solid to the first one, moved by ``away`` along n; and the corners of
    both between which it is. The search begins at the ``last`` ones where some are ``known``, 1 or −1."""
    shift = away * n
    single = less(sum(solid.count for solid in sides.solids), 3)
    near = select(sides.is_round(), select(single, CENTRE_DISTANCE, ROUND_DISTANCE), SAME_DISTANCE)
    new = _support(sides, n, shift)

    def come_nearer(state: list[Any], given: list[Any]) -> list[Any]:
        _, v, share, rows = state
        *parts, shift, near = given
        square = v @ v
        new = _support(sides.of(parts), v, shift)
        w = new[:3]
        nearer, shares = _nearest_of_simplex(w, rows[:, :3])
        # A − B has nothing nearer than the plane through the new corner, across v
        stays = less(square - v @ w, near * square)
        closes = both(less(nearer @ nearer, square), negated(stays))
        last = negated(less(0, shares[3]))
        first = both(negated(last), less(0, shares[2]))
        # beside the new corner (0, 1) without the last one, (1, 2) without the first, else (0, 2)
        after = [new, choose_vector(first, rows[1], rows[0]), choose_vector(last, rows[1], rows[2])]
        kept = np.stack([choose_vector(closes, x, y) for x, y in zip(after, rows, strict=True)])
        weights = vector(shares[0], select(first, shares[2], shares[1]), select(last, shares[2], shares[3]))
        return [select(closes, -1, 1), choose_vector(closes, nearer, v), choose_vector(closes, weights, share), kept]

    p, q = sides.roundings(n)
    again = less(0, known)
    rows = []
    for first, second in zip(last.first, last.second, strict=True):
        a, b = sides.corners_at(first, second)
        rows.append(choose_vector(again, vector(*(a + p - b - q + shift), first, second), new))
    v, shares = _nearest_of_simplex(rows[0][:3], np.stack(rows)[:, :3])
    weights = vector(shares[0] + shares[1], shares[2], shares[3])
    begin = [-1, v, weights, np.stack(rows)]
    _, v, share, found = iterate(come_nearer, begin, [*sides.parts(), shift, near], NEAREST_ROUNDS)
    return vector(*v), Simplex(vector(*share), vector(*found[:, 3]), vector(*found[:, 4]))


def _support(sides: Sides, n: Array, shift: Array) -> Array:
    """The point of A − B that is farthest along −n, moved by a shift, and the numbers of the corners of A and B that it
    is from, (5,)."""
    a, b = sides.extremes(n)
    p, q = sides.roundings(n)
    return vector(*(a.point + p - b.point - q + shift), a.number, b.number)


def _nearest_of_simplex(w: Array, corners: Array) -> tuple[Array, list[Any]]:
    """The point nearest to the origin on the edges and triangles from w to three corners, and the shares of w and of
    the corners in it."""
    nearest, shares = w, [1, 0, 0, 0]
    square = w @ w
    for k in range(3):
        e = corners[k] - w
        length = e @ e
        some = less(0, length)
        t = select(some, -(w @ e) / select(some, length, 1), 0)
        t = -largest([-largest([t, 0]), -1])
        point = w + t * e
        own: list[Any] = [1 - t, 0, 0, 0]
        own[1 + k] = t
        nearest, shares, square = _nearer_of(point, own, True, nearest, shares, square)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        p, q = corners[i], corners[j]
        c = cross(p - w, q - w)
        area = c @ c
        some = less(0, area)
        rate = 1 / select(some, area, 1)
        weights = [c @ cross(p, q) * rate, c @ cross(q, w) * rate, c @ cross(w, p) * rate]
        inside = some
        for weight in weights:
            inside = both(inside, less(0, weight))
        own = [weights[0], 0, 0, 0]
        own[1 + i], own[1 + j] = weights[1], weights[2]
        nearest, shares, square = _nearer_of((c @ w) * rate * c, own, inside, nearest, shares, square)
    return nearest, shares


def _nearer_of(
    point: Array, own: list[Any], counts: Any, nearest: Array, shares: list[Any], square: Any
) -> tuple[Array, list[Any], Any]:
    """The nearer of two points with their shares, the first only if it counts."""
    distance = point @ point
    nearer = both(counts, less(distance, square))
    return (
        choose_vector(nearer, point, nearest),
        [select(nearer, a, b) for a, b in zip(own, shares, strict=True)],
        select(nearer, distance, square),
    )
