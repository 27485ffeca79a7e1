"""The nearest point of a terrain z = h(x, y), for a height that a user writes as a plain NumPy function.

The foot of the perpendicular from c minimises ½ |c − (x, y, h)|². Newton's method runs a fixed number of times, so that
nothing branches on a value and the same code compiles; h's first and second derivatives come from dual numbers. Where
its second derivative is not positive (far above a hollow), a step leaves the curvature out (Gauss-Newton).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.constraints.written import called
from whippletree.scalars import Dual, less, select, slopes, sqrt
from whippletree.spatial import Array, cross, vector

STEPS = 6
"""Newton steps from the point straight below. They converge while the distance is small against the terrain's radius of
curvature, which a ball that rolls on it needs anyhow; farther away the gap is a good guess, exact where h is flat."""

Height = Callable[[Any, Any], Any]


def nearest_on_terrain(height: Height, c: Array) -> tuple[Array, Array]:
    """The foot (3,) of the perpendicular from c, and the axes (3, 3) there: rows normal, along x, across.

    All in the terrain's frame; below the surface the foot is the nearest point above.
    """
    x, y = c[0], c[1]
    for _ in range(STEPS):
        x, y = _step(height, c, x, y)
    h, hx, hy = _slopes_of(height, x, y)
    normal = vector(-hx, -hy, 1) / sqrt(1 + hx * hx + hy * hy)
    along = vector(1, 0, hx) / sqrt(1 + hx * hx)
    return vector(x, y, h), np.stack([normal, along, cross(normal, along)])


def _step(height: Height, c: Array, x: Any, y: Any) -> tuple[Any, Any]:
    """One Newton step towards the foot."""
    h, hx, hy = _slopes_of(height, x, y)
    hxx, hxy, hyy = _curvatures(height, x, y)
    off = h - c[2]
    gx, gy = x - c[0] + off * hx, y - c[1] + off * hy
    a, b, d = 1 + hx * hx + off * hxx, hx * hy + off * hxy, 1 + hy * hy + off * hyy
    convex = _both(less(0, a), less(0, a * d - b * b))
    a = select(convex, a, 1 + hx * hx)
    b = select(convex, b, hx * hy)
    d = select(convex, d, 1 + hy * hy)
    determinant = a * d - b * b
    return x - (d * gx - b * gy) / determinant, y - (a * gy - b * gx) / determinant


def _both(one: Any, other: Any) -> Any:
    """A condition that holds where two conditions hold."""
    return less(0, select(one, select(other, 1, 0), 0))


def _slopes_of(height: Height, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """h, ∂h/∂x, ∂h/∂y."""
    along_x = called(height, Dual(x, 1), Dual(y, 0))[0]
    along_y = called(height, Dual(x, 0), Dual(y, 1))[0]
    return _value(along_x), slopes(along_x), slopes(along_y)


def _curvatures(height: Height, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """∂²h/∂x², ∂²h/∂x∂y, ∂²h/∂y²."""
    found = []
    for (a, b), (c, d) in (((1, 0), (1, 0)), ((1, 0), (0, 1)), ((0, 1), (0, 1))):
        jets = Dual(Dual(x, a), Dual(c, 0)), Dual(Dual(y, b), Dual(d, 0))
        found.append(slopes(slopes(called(height, *jets)[0])))
    return found[0], found[1], found[2]


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dual) else x
