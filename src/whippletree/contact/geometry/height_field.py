"""A height field: heights on a regular grid, joined by the bicubic spline through them, on any scalar.

    h(x, y) = Σᵢⱼ cᵢⱼ B(x/dx − i) B(y/dy − j)        B the uniform cubic B-spline

The spline takes the given heights at the grid's points and has continuous second derivatives, so normals and their
rates (the bias of a contact) are continuous too: an integrator meets no jump where a foot passes from cell to cell.
Its ends are natural (no curvature across the border), and beyond the border it goes on straight, with the slope that it
has there. Between steep steps it overshoots, by a few per cent of the step: stairs are better made of boxes.

Only the 4 × 4 coefficients around a place matter; they are looked up in a table
(:func:`whippletree.arithmetic.scalars.entry`).
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import Table, entry, less, select


class Jet(NamedTuple):
    """A height and its derivatives at one place: h, ∂h/∂x, ∂h/∂y, ∂²h/∂x², ∂²h/∂x∂y, ∂²h/∂y²."""

    h: Any
    hx: Any
    hy: Any
    hxx: Any
    hxy: Any
    hyy: Any


class Grid:
    """Heights (n, m) at x = (i − (n − 1)/2) dx and y = (j − (m − 1)/2) dy: the origin is in the middle."""

    def __init__(self, heights: Array, cell: tuple[float, float]) -> None:
        self.heights, self.cell = np.asarray(heights, dtype=float), cell

    @cached_property
    def coefficients(self) -> Array:
        """c (n + 2, m + 2), with one more row and column on each side."""
        return spline_coefficients(spline_coefficients(self.heights).T).T

    @cached_property
    def _entries(self) -> Table:
        return Table(self.coefficients.ravel())

    def _around(self, i: Any, j: Any) -> Array:
        """The 4 × 4 coefficients from row i and column j on."""
        columns = self.coefficients.shape[1]
        corner = i * columns + j
        found = np.empty((4, 4), dtype=object)
        for a, b in np.ndindex(4, 4):
            found[a, b] = entry(self._entries, corner + (a * columns + b))
        return found

    def jet(self, x: Any, y: Any) -> Jet:
        """Height and derivatives at a place in the field's frame."""
        (dx, dy), (n, m) = self.cell, self.heights.shape
        along, across = _place(x / dx + _half(n), n), _place(y / dy + _half(m), m)
        c = self._around(along.cell, across.cell)
        # rows first: what is left are the derivatives by y of three functions
        f, fx, fxx = ([_dot(w, column) for column in c.T] for w in along.weights)
        w, wy, wyy = across.weights
        return Jet(
            _dot(w, f), _dot(w, fx) / dx, _dot(wy, f) / dy,
            _dot(w, fxx) / (dx * dx), _dot(wy, fx) / (dx * dy), _dot(wyy, f) / (dy * dy),
        )  # fmt: skip

    @cached_property
    def top(self) -> float:
        """A height that the surface does not exceed within the grid, m: a spline is a mean of its coefficients."""
        return float(self.coefficients.max())

    def reach(self) -> tuple[float, float]:
        """Half lengths of the grid along x and y, m."""
        (dx, dy), (n, m) = self.cell, self.heights.shape
        return dx * (n - 1) / 2, dy * (m - 1) / 2


MOST_CELLS_AROUND = 64
"""Cells that a neighbourhood reaches to each side, at most; of a shape that is larger than these nothing is known."""

PARTS_OF_REACH = 4
"""Places along the reach of a neighbourhood for which its height is noted."""


class HeightsAround:
    """How high a surface is at most within some distance of a place: a bound on how far a shape is above it.

    All points of the surface that are nearer to a place than ``reach`` are within that distance of it along x and along
    y, where no height exceeds the largest coefficient of the spline. Beyond the border, where it goes on straight, its
    coefficients do so as well. The height is noted for blocks of cells, up to a reach beyond the border.
    """

    def __init__(self, grid: Grid, reach: float) -> None:
        """``reach``: what is wanted, m; :attr:`reach` is what it became."""
        from scipy.ndimage import maximum_filter

        around = [min(max(int(np.ceil(reach / d)), 1), MOST_CELLS_AROUND) for d in grid.cell]
        self.reach = min(reach, *[k * d for k, d in zip(around, grid.cell, strict=True)])
        """m"""
        self.grid, self.beyond = grid, around
        self.block = [max(k // PARTS_OF_REACH, 1) for k in around]
        """Cells of a block along x and y."""
        heights = grid.coefficients
        for axis, k in enumerate(around):
            heights = _extend_straight(heights, 2 * k, axis)
        for axis, (k, block) in enumerate(zip(around, self.block, strict=True)):
            # cells i − k … i + k have the coefficients i − k … i + k + 3, of each cell of the block
            length = 2 * k + 3 + block
            shape = [1, 1]
            shape[axis] = length
            spread = maximum_filter(heights, size=shape, origin=[-((n - 1) // 2) if n > 1 else 0 for n in shape])
            cells = grid.heights.shape[axis] - 1 + 2 * k
            heights = spread.take(np.arange(0, cells, block), axis=axis)
        self.tops = heights
        """Greatest height of each block, m, (n, m)."""
        self._entries = Table(heights.ravel())

    def clearance(self, point: Array) -> Any:
        """A distance that a point (3,), in the field's frame, has at least from the surface and all that is below it,
        m; a negative number where nothing is known."""
        numbers, inside = [], True
        for axis in (0, 1):
            n = self.grid.heights.shape[axis]
            u = (point[axis] / self.grid.cell[axis] + _half(n) + self.beyond[axis]) / self.block[axis]
            most = self.tops.shape[axis]
            within = less(0, select(less(0, u), select(less(u, most), 1, 0), 0))
            numbers.append(entry(_steps(most - 1), select(within, u, 0)))
            inside = within if axis == 0 else less(0, select(inside, select(within, 1, 0), 0))
        above = point[2] - entry(self._entries, numbers[0] * self.tops.shape[1] + numbers[1])
        return select(inside, select(less(above, self.reach), above, self.reach), -1)


def _extend_straight(coefficients: Array, count: int, axis: int) -> Array:
    """Coefficients with so many more at both ends of an axis, along straight lines."""
    c = np.moveaxis(coefficients, axis, 0)
    steps = np.arange(1, count + 1)[:, None]
    before, after = c[0] + steps[::-1] * (c[0] - c[1]), c[-1] + steps * (c[-1] - c[-2])
    return np.moveaxis(np.concatenate([before, c, after]), 0, axis)


def spline_coefficients(heights: Array) -> Array:
    """c (n + 2, …) of the natural cubic splines through the columns of heights (n, …).

    (c₋₁ + 4 c₀ + c₁) / 6 = h₀ at every point, and no curvature, c₋₁ − 2 c₀ + c₁ = 0, at both ends.
    """
    from scipy.linalg import solve_banded

    inner = heights.copy()
    if len(heights) > 2:
        load = 6 * heights[1:-1]
        load[0] -= heights[0]
        load[-1] -= heights[-1]
        bands = np.ones((3, len(load)))
        bands[1] = 4
        inner[1:-1] = solve_banded((1, 1), bands, load)
    return np.concatenate([[2 * inner[0] - inner[1]], inner, [2 * inner[-1] - inner[-2]]])


class _Place(NamedTuple):
    """Where a coordinate is on its axis, in cells."""

    cell: Any
    """Number of the cell, a whole number."""
    weights: tuple[list[Any], list[Any], list[Any]]
    """Weights of the four coefficients around it, for the value, its slope and its curvature per cell."""


def _place(u: Any, n: int) -> _Place:
    """The place u on an axis of n points, numbered from 0; beyond the ends the slope of the end goes on."""
    inside = select(less(0, u), select(less(u, n - 1), u, n - 1), 0)
    cell = entry(_steps(n - 2), inside)
    t = inside - cell
    s = 1 - t
    value = [s * s * s / 6, (4 - 6 * t * t + 3 * t * t * t) / 6, (4 - 6 * s * s + 3 * s * s * s) / 6, t * t * t / 6]
    slope = [-s * s / 2, (3 * t * t - 4 * t) / 2, (4 * s - 3 * s * s) / 2, t * t / 2]
    beyond = u - inside
    within = select(less(0, u), select(less(u, n - 1), 1, 0), 0)
    curvature = [within * s, within * (3 * t - 2), within * (3 * s - 2), within * t]
    return _Place(cell, ([w + d * beyond for w, d in zip(value, slope, strict=True)], slope, curvature))


@lru_cache(maxsize=64)
def _steps(most: int) -> Table:
    """The largest whole number that is not above a place and not above ``most``."""
    return Table([*range(most + 1), most])


def _dot(weights: list[Any], values: Any) -> Any:
    total: Any = 0
    for w, x in zip(weights, values, strict=True):
        total = total + w * x
    return total


def _half(n: int) -> Any:
    """(n − 1)/2, exact where it is whole."""
    return (n - 1) // 2 if n % 2 else (n - 1) / 2
