"""Pairs of shapes in closed form for time steps: all that :mod:`~whippletree.contact.geometry.closed_forms` has, two
boxes, and capsules on boxes and cylinders.

These forms choose among features by comparing numbers, and have slots that are not in use, at ``NOWHERE``. Gaps, points
and normals are exact; their derivatives by way of the choices are not those of the gap, so that events, which ask for
them, keep the forms of the other table.

A capsule is a row of balls along its axis, and each of its candidates is one of them against the other shape: its two
ends, the two places where its axis comes over the flat of the other shape and leaves it, and the place where it is
nearest. So whatever is in use is a distance of the two shapes; what is nearest is always there, and a capsule that lies
on a face rests on two points. A place that coincides with an end, or is no nearer than another one, is not in use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.contact.geometry.box_pairs import NOWHERE, box_on_box, largest_of_three
from whippletree.contact.geometry.closed_forms import (
    Touch,
    Touching,
    ball_on_box,
    ball_on_cylinder,
    clamp,
    closed_form,
    either_order,
)
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Shape
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import Pose

NEARER = 1e-9
"""m: by how much the nearest place on a capsule must be nearer than the others to be in use beside them."""

SHARPENING = 30
"""Steps towards the place where a capsule's axis is nearest to a rim. Of 1500 random pairs the worst was off by 2e-5 m
after 12 of them, 6e-9 m after 20, and to rounding after 30."""


def capsule_on_box(first: Capsule, second: Box, X: Pose, Y: Pose) -> list[Touch]:
    """Five balls of a capsule against a box."""
    c, u = Y.R.T @ (X.p - Y.p), Y.R.T @ X.R[:, 2]
    half = second.half

    def slope(s: Any) -> Any:
        """Half the rate of the squared distance along the axis: it grows, in straight pieces."""
        return sum(u[i] * _beyond(c[i] + s * u[i], half[i]) for i in range(3))

    corners = [_crossing(c[i], u[i], side * half[i], first.half) for i in range(3) for side in (-1, 1)]
    nearest = _zero_of_pieces(slope, [-first.half, *corners, first.half])
    at = [c[i] + nearest * u[i] for i in range(3)]
    # the face that it is farthest outside of, or least inside
    which, _ = largest_of_three([abs(at[i]) - half[i] for i in range(3)])
    spans = [_span(c[i], u[i], half[i], first.half) for i in range(3)]
    start = largest([select(which[i], -first.half, spans[i][0]) for i in range(3)])
    end = -largest([select(which[i], -first.half, -spans[i][1]) for i in range(3)])
    return _balls_of_capsule(first, second, X, Y, (start, end, nearest), ball_on_box)


def capsule_on_cylinder(first: Capsule, second: Cylinder, X: Pose, Y: Pose) -> list[Touch]:
    """Five balls of a capsule against a cylinder."""
    c, u = Y.R.T @ (X.p - Y.p), Y.R.T @ X.R[:, 2]
    radius, height = second.radius, second.half

    def slope(s: Any) -> Any:
        x, y, z = (c[i] + s * u[i] for i in range(3))
        square = x * x + y * y
        out = less(radius * radius, square)
        rho = sqrt(select(out, square, 1))
        return select(out, (1 - radius / rho) * (x * u[0] + y * u[1]), 0) + u[2] * _beyond(z, height)

    across = u[0] * u[0] + u[1] * u[1]
    askew = less(0, across)
    middle = select(askew, -(c[0] * u[0] + c[1] * u[1]) / select(askew, across, 1), 0)
    ends = [_crossing(c[2], u[2], side * height, first.half) for side in (-1, 1)]
    nearest = _zero_between(slope, [-first.half, *ends, clamp(middle, first.half), first.half])
    x, y, z = (c[i] + nearest * u[i] for i in range(3))
    on_cap = less(sqrt(x * x + y * y) - radius, abs(z) - height)
    # over the cap while the axis is within the radius, along the side while it is between the caps
    depth = radius * radius - (c[0] * c[0] + c[1] * c[1]) + across * middle * middle
    reach = sqrt(select(both(askew, less(0, depth)), depth / select(askew, across, 1), 0))
    low, high = _span(c[2], u[2], height, first.half)
    start = select(on_cap, clamp(middle - reach, first.half), low)
    end = select(on_cap, clamp(middle + reach, first.half), high)
    return _balls_of_capsule(first, second, X, Y, (start, end, nearest), ball_on_cylinder)


def _balls_of_capsule(
    first: Capsule, second: Any, X: Pose, Y: Pose, places: tuple[Any, Any, Any], ball: Touching
) -> list[Touch]:
    """The candidates at both ends of the axis, where it comes over a flat and leaves it, and where it is nearest."""
    axis, half = X.R[:, 2], first.half

    def at(s: Any) -> Touch:
        return ball(Ball(first.radius), second, Pose(X.R, X.p + s * axis), Y)[0]

    start, end, nearest = places
    fixed = [at(half), at(-half)]
    proper = both(less(start, end), less(0, half))
    entering = both(proper, less(NEARER - half, start))
    leaving = both(proper, less(end, half - NEARER))
    flat = [_touch_if(at(start), entering), _touch_if(at(end), leaving)]
    least = -largest([-touch.gap for touch in (*fixed, *flat)])
    own = at(nearest)
    return [*fixed, *flat, _touch_if(own, less(own.gap, least - NEARER))]


def _touch_if(touch: Touch, condition: Any) -> Touch:
    return touch._replace(gap=select(condition, touch.gap, NOWHERE))


def _beyond(x: Any, half: Any) -> Any:
    """How far x is outside of ± half, with its sign."""
    return x - clamp(x, half)


def _crossing(x: Any, rate: Any, level: Any, half: Any) -> Any:
    """The s within ± half at which x + s rate reaches a level, or an end."""
    moves = less(0, abs(rate))
    return clamp(select(moves, (level - x) / select(moves, rate, 1), half), half)


def _span(x: Any, rate: Any, level: Any, half: Any) -> tuple[Any, Any]:
    """From which s to which, within ± half, x + s rate is within ± level; the first is larger if nowhere."""
    moves = less(0, abs(rate))
    safe = select(moves, rate, 1)
    a, b = (-level - x) / safe, (level - x) / safe
    turned = less(b, a)
    low, high = select(turned, b, a), select(turned, a, b)
    outside = less(level, abs(x))
    low = select(moves, low, select(outside, half, -half))
    high = select(moves, high, select(outside, -half, half))
    return largest([low, -half]), -largest([-high, -half])


class _Bracket(NamedTuple):
    """Where a growing function of s changes its sign: the places next to it, with its values there."""

    low: Any
    below: Any
    high: Any
    above: Any
    start: Any
    """First and last place at which it is exactly zero; the first is the larger one if there is none."""
    end: Any

    @property
    def inside(self) -> Any:
        """Whether it changes its sign between two places, and is zero at none."""
        return both(both(less(self.below, 0), less(0, self.above)), less(self.end, self.start))

    def otherwise(self, found: Any) -> Any:
        """The zero found inside; else the middle of its zeros, or the end that it has its sign up to."""
        flat = less(self.end, self.start)
        ends = select(less(0, self.above), self.low, self.high)
        return select(self.inside, found, select(flat, ends, (self.start + self.end) / 2))


def _bracket(slope: Callable[[Any], Any], places: Sequence[Any]) -> _Bracket:
    """``places``: the two ends, first and last, and others between them in any order."""
    first, last = places[0], places[-1]
    low, below, high, above = first, slope(first), last, slope(last)
    start, end = 2 * last, 2 * first
    for s, value in [(first, below), *[(s, slope(s)) for s in places[1:-1]], (last, above)]:
        closer = both(less(value, 0), less(low, s))
        low, below = select(closer, s, low), select(closer, value, below)
        closer = both(less(0, value), less(s, high))
        high, above = select(closer, s, high), select(closer, value, above)
        none = both(negated(less(value, 0)), negated(less(0, value)))
        start = select(both(none, less(s, start)), s, start)
        end = select(both(none, less(end, s)), s, end)
    return _Bracket(low, below, high, above, start, end)


def _zero_of_pieces(slope: Callable[[Any], Any], places: Sequence[Any]) -> Any:
    """Zero of a function that is straight between places."""
    at = _bracket(slope, places)
    rise = select(at.inside, at.above - at.below, 1)
    return at.otherwise((at.low * at.above - at.high * at.below) / rise)


def _zero_between(slope: Callable[[Any], Any], places: Sequence[Any]) -> Any:
    """Zero of a growing function, by the rule of false position with halved ends."""
    at = _bracket(slope, places)
    low, below, high, above = at.low, at.below, at.high, at.above
    found: Any = low
    for _ in range(SHARPENING):
        rise = above - below
        sound = less(0, rise)
        found = select(sound, (low * above - high * below) / select(sound, rise, 1), low)
        value = slope(found)
        left = less(value, 0)
        # an end that stays counts half, or it would stay for ever
        low, below, high, above = (
            select(left, found, low),
            select(left, value, below / 2),
            select(left, high, found),
            select(left, above / 2, value),
        )
    return at.otherwise(found)


STEP_FORMS: dict[tuple[type[Shape], type[Shape]], Touching] = {
    (Box, Box): box_on_box,
    (Capsule, Box): capsule_on_box,
    (Capsule, Cylinder): capsule_on_cylinder,
}
"""The forms that only time steps take, in this order."""


def step_form(first: Shape, second: Shape) -> Touching | None:
    """The candidates of two shapes as time steps find them; None where nobody has written that."""
    return closed_form(first, second) or either_order(STEP_FORMS, first, second)
