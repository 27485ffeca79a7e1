"""Where a shape is nearest to a surface z = h(x, y): a height that a user writes as a plain NumPy function, or a grid.

At the foot f = (x, y, h) of the gap the surface's normal N = (−hₓ, −h_y, 1) leads to the point p of the shape that is
farthest along −N, so that

    (p(N) − f) · fₓ = 0,    (p(N) − f) · f_y = 0

A ball's or a corner's p is its centre, whatever N is; an ellipsoid's and a rim's p travels with N, to c − A² N / |A N|,
with half axes A, one of which is 0 for a rim. Newton's method runs a fixed number of times, so that nothing branches on
a value and the same code compiles. Where its matrix is not positive (far above a hollow), a step leaves the curvatures
out (Gauss-Newton). No step leaves the circle that the nearest point must be in: it is no farther away than the point
straight below, which stands in for a foot that was not found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.dual_numbers import Dual, slopes
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.arithmetic.user_functions import call_function
from whippletree.contact.geometry.height_field import Jet
from whippletree.spatial import cross

FOOT_STEPS = 6
"""Newton steps from the point straight below. They converge while the distance is small against the terrain's radius of
curvature, which a ball that rolls on it needs anyhow; farther away the gap is a good guess, exact where h is flat."""

FURTHER_STEPS = 3
"""Newton steps of a point that has been found on a rolling surface, so that its gap is its own distance in any case."""

FOOT_COSINE = 0.9
"""Cosine of the angle between the normal at a foot and the way to it from which on it counts as found. Its gap is then
at least this share of the distance: what is far away is not reported as near."""

Height: TypeAlias = Callable[[Any, Any], Any]
Surface: TypeAlias = Callable[[Any, Any], Jet]
"""Height and derivatives at (x, y)."""

EDGE_ON = 1e-8
"""Sine of the angle between a rim's axis and a normal below which no point of the rim is nearer than the others."""


class Rolling(NamedTuple):
    """The points of a shape that a plane may touch: an ellipsoid or, with a third radius of 0, a rim."""

    centre: Array
    """In the terrain's frame, (3,)."""
    R: Array
    """Axes of the shape as columns in the terrain's frame, (3, 3)."""
    radii: tuple[Any, Any, Any]

    def support(self, N: Array) -> Array:
        """The point (3,) that is farthest along −N; of a rim seen along its axis, the one on its x axis."""
        stretched, square, tilted = self._stretch_normal(N)
        length = sqrt(select(tilted, square, 1))
        a = self.radii
        turned = [select(tilted, -a[k] * stretched[k] / length, a[k] if k == 0 else 0) for k in range(3)]
        return np.asarray(self.centre + self.R @ vector(*turned))

    def travel(self, N: Array, rate: Array) -> Array:
        """How fast (3,) that point moves when N changes at a rate (3,)."""
        stretched, square, tilted = self._stretch_normal(N)
        change = vector(*[a * x for a, x in zip(self.radii, self.R.T @ rate, strict=True)])
        square = select(tilted, square, 1)
        length = sqrt(square)
        turning = (change - stretched * (stretched @ change / square)) / length
        return self.R @ vector(*[select(tilted, -a * x, 0) for a, x in zip(self.radii, turning, strict=True)])

    def _stretch_normal(self, N: Array) -> tuple[Array, Any, Any]:
        """A N in the shape's axes, its square, and whether it points anywhere."""
        stretched = vector(*[a * x for a, x in zip(self.radii, self.R.T @ N, strict=True)])
        square = stretched @ stretched
        return stretched, square, less(EDGE_ON * EDGE_ON * self.radii[0] * self.radii[0] * (N @ N), square)


def nearest_on_terrain(surface: Surface, c: Array) -> tuple[Array, Array]:
    """The foot (3,) of the perpendicular from c, and the axes (3, 3) there: rows normal, along x, across.

    All in the terrain's frame; below the surface the foot is the nearest point above.
    """
    return _foot_of_point(surface, c, c[0], c[1], FOOT_STEPS)


def nearest_of_rolling(surface: Surface, shape: Rolling) -> tuple[Array, Array, Array]:
    """The point p (3,) of a rolling shape that is nearest to the surface, its foot and the axes there.

    p is the shape's point for the normal at the foot; then the foot is that of p, as of a point fixed to the shape.
    """
    below = shape.support(vector(0, 0, 1))
    off = below[2] - surface(below[0], below[1]).h
    # the foot is no farther from the nearest point of the shape than the ground is from its lowest one
    size = sqrt(sum(radius * radius for radius in shape.radii))
    reach = size + select(less(off, 0), -off, off)
    x, y = _foot(surface, shape, (below[0], below[1]), (shape.centre, reach * reach), FOOT_STEPS)
    jet = surface(x, y)
    p = shape.support(vector(-jet.hx, -jet.hy, 1))
    foot, axes = _foot_of_point(surface, p, x, y, FURTHER_STEPS)
    return p, foot, axes


def written_surface(height: Height) -> Surface:
    """Height and derivatives of a function that a user writes, by dual numbers."""

    def jet(x: Any, y: Any) -> Jet:
        return Jet(*_slopes_of(height, x, y), *_curvatures(height, x, y))

    return jet


def _foot_of_point(surface: Surface, c: Array, x: Any, y: Any, steps: int) -> tuple[Array, Array]:
    """The foot (3,) of the perpendicular from c, sought from (x, y) on, and the axes (3, 3) there."""
    below = surface(c[0], c[1])
    off = c[2] - below.h
    x, y = _foot(surface, c, (x, y), (c, off * off), steps)
    at = surface(x, y)
    arm = vector(c[0] - x, c[1] - y, c[2] - at.h)
    along = arm[2] - at.hx * arm[0] - at.hy * arm[1]
    straight = FOOT_COSINE * FOOT_COSINE * (1 + at.hx * at.hx + at.hy * at.hy) * (arm @ arm)
    # the way to a foot is along its normal, from the side that the point is on, and not longer than straight down
    lost = _either(_either(less(along * along, straight), less(along * off, 0)), less(off * off, arm @ arm))
    found = [select(lost, a, b) for a, b in zip((c[0], c[1], *below[:3]), (x, y, *at[:3]), strict=True)]
    return _frame_at(*found)


def _frame_at(x: Any, y: Any, h: Any, hx: Any, hy: Any) -> tuple[Array, Array]:
    normal = vector(-hx, -hy, 1) / sqrt(1 + hx * hx + hy * hy)
    along = vector(1, 0, hx) / sqrt(1 + hx * hx)
    return vector(x, y, h), np.stack([normal, along, cross(normal, along)])


def _foot(
    surface: Surface, shape: Array | Rolling, start: tuple[Any, Any], circle: tuple[Array, Any], steps: int
) -> tuple[Any, Any]:
    """Newton's method from a start (x, y), within a circle, its centre and the square of its radius."""
    (x, y), (centre, square) = start, circle
    for _ in range(steps):
        x, y = _step(surface(x, y), shape, x, y)
        across = x - centre[0], y - centre[1]
        away = across[0] * across[0] + across[1] * across[1]
        outside = less(square, away)
        share = sqrt(select(outside, square / select(outside, away, 1), 1))
        x, y = (select(outside, c + share * u, old) for c, u, old in zip(centre[:2], across, (x, y), strict=True))
    return x, y


def _step(jet: Jet, shape: Array | Rolling, x: Any, y: Any) -> tuple[Any, Any]:
    """One Newton step towards the foot of a point (3,) or of a rolling shape."""
    h, hx, hy, hxx, hxy, hyy = jet
    if isinstance(shape, Rolling):
        # the shape's point travels when the foot does: with the change of N
        N = vector(-hx, -hy, 1)
        p, px, py = shape.support(N), shape.travel(N, vector(-hxx, -hxy, 0)), shape.travel(N, vector(-hxy, -hyy, 0))
    else:
        p, px, py = shape, vector(0, 0, 0), vector(0, 0, 0)
    off = h - p[2]
    gx, gy = x - p[0] + off * hx, y - p[1] + off * hy
    a, b = 1 + hx * hx + off * hxx - (px[0] + px[2] * hx), hx * hy + off * hxy - (py[0] + py[2] * hx)
    c, d = hx * hy + off * hxy - (px[1] + px[2] * hy), 1 + hy * hy + off * hyy - (py[1] + py[2] * hy)
    determinant = a * d - b * c
    convex = _both(less(0, a), less(0, determinant))
    # that of the other matrix in a form that steep ground does not cancel to zero
    determinant = select(convex, determinant, 1 + hx * hx + hy * hy)
    a, b = select(convex, a, 1 + hx * hx), select(convex, b, hx * hy)
    c, d = select(convex, c, hx * hy), select(convex, d, 1 + hy * hy)
    return x - (d * gx - b * gy) / determinant, y - (a * gy - c * gx) / determinant


def _either(one: Any, other: Any) -> Any:
    """A condition that holds where one of two conditions holds."""
    return less(0, select(one, 1, select(other, 1, 0)))


def _both(one: Any, other: Any) -> Any:
    """A condition that holds where two conditions hold."""
    return less(0, select(one, select(other, 1, 0), 0))


def _slopes_of(height: Height, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """h, ∂h/∂x, ∂h/∂y."""
    along_x = call_function(height, Dual(x, 1), Dual(y, 0))[0]
    along_y = call_function(height, Dual(x, 0), Dual(y, 1))[0]
    return _value(along_x), slopes(along_x), slopes(along_y)


def _curvatures(height: Height, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """∂²h/∂x², ∂²h/∂x∂y, ∂²h/∂y²."""
    found = []
    for (a, b), (c, d) in (((1, 0), (1, 0)), ((1, 0), (0, 1)), ((0, 1), (0, 1))):
        jets = Dual(Dual(x, a), Dual(c, 0)), Dual(Dual(y, b), Dual(d, 0))
        found.append(slopes(slopes(call_function(height, *jets)[0])))
    return found[0], found[1], found[2]


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dual) else x
