"""The nearest points of two convex shapes, to rounding and in motion.

A search (coal's) finds the nearest points roughly. What they lie on is then known: a face, an edge, a corner, a rim, a
round. Such a *feature* is a point, or a line of points, and a rounding A around it, so that its point for a normal n is

    a(n, s) = p + s d − A² n / |A n|        (of the second shape b, with + instead of −)

and the nearest points solve, exactly and also where the shapes touch or overlap,

    a(n, s) − b(n, t) = g n,    d · n = 0 for every line d,    n · n = 1.

Newton's method on plain numbers gives n, g, s, t to rounding. On dual numbers one further step gives their rates: so
the bias of a contact has the curvature of both surfaces in it. Where a face meets the other shape, n is the face's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.contact.geometry.closed_forms import Touch, axes_of
from whippletree.contact.geometry.polytopes import corner_points
from whippletree.contact.geometry.separation import (
    BoundedShape,
    MetFace,
    Placed,
    met_face,
    search_direction,
    separation,
)
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull
from whippletree.contact.geometry.terrain import Rolling
from whippletree.errors import UnsupportedError
from whippletree.spatial import Pose

LADDER = (1e-9, 1e-7, 1e-5, 1e-3)
"""How far from perpendicular to a rough normal (as a sine, or relative to a shape's size) a line may be to count."""

POLISHING_STEPS = 25
"""Newton steps at most; five are usual, more where a rough start is far off."""

SOLVED = 1e-13
"""Residual, relative to the shapes' size and distance, that counts as solved."""

AGREES = 1e-10
"""Relative to the same: how far the gap may be from the shapes' separation along its normal."""


GARBAGE = 1e30
"""m: a distance that no shapes have."""


DEEP = 1e-6
"""m: an overlap of round shapes from which on the shortest way out is looked for along all directions."""


class Feature(NamedTuple):
    """Feature that a nearest point lies on, in the shape's frame."""

    base: Array
    """(3,)"""
    line: Array | None
    """Unit direction (3,) along which the point is free, if any."""
    span: tuple[float, float]
    """Where the line begins and ends, m from the base."""
    radii: tuple[float, float, float] | None
    """Radii of the rounding; None for a corner or an edge."""

    def at(self, X: Pose, N: Array, along: Any) -> Array:
        """The point (3,) that is farthest along −N, on any scalar."""
        base = vector(*map(float, self.base))
        centre = X.point(base if self.line is None else base + along * vector(*map(float, self.line)))
        return centre if self.radii is None else Rolling(centre, X.R, self.radii).support(N)


@dataclass(frozen=True)
class OnFace:
    """A face of one shape and the point of the other that is nearest to it."""

    face: MetFace
    feature: Feature

    def touch(self, X: Pose, Y: Pose) -> Touch:
        """The contact, on any scalar."""
        owner, other = (X, Y) if self.face.side == 0 else (Y, X)
        n = owner.R @ vector(*map(float, self.face.normal))
        point = self.feature.at(other, n, 0)
        gap = n @ (point - owner.p) - self.face.height
        if self.face.side == 0:
            return Touch(gap, point - gap * n, axes_of(-n))
        return Touch(gap, point, axes_of(n))


@dataclass(frozen=True)
class Between:
    """Two features and the solution of their equations at one pair of poses."""

    features: tuple[Feature, Feature]
    z: Array
    """n, g and the places on the lines."""
    slope: Array
    """∂F/∂z there."""

    def touch(self, X: Pose, Y: Pose) -> Touch:
        """The contact at the poses that it was solved for, or in motion from there (dual numbers)."""
        z = self.z.astype(object)
        if isinstance(X.p[0], Dual) or isinstance(Y.p[0], Dual):
            still = duals(z, np.zeros(len(z)))
            rates = slopes(_residual(self.features, still, X, Y)).astype(float)
            z = duals(z, -np.linalg.lstsq(self.slope, rates, rcond=None)[0])
        n, gap = z[:3], z[3]
        return Touch(gap, self.features[0].at(X, n, _place(self.features, z, 0)), axes_of(n))


@dataclass(frozen=True)
class Rough:
    """Nearest points as the search left them."""

    found: Touch

    def touch(self, X: Pose, Y: Pose) -> Touch:
        """The contact at the poses that it was found for.

        Raises:
            UnsupportedError: in motion: what the points lie on is not known.
        """
        if isinstance(X.p[0], Dual) or isinstance(Y.p[0], Dual):
            raise UnsupportedError("these shapes meet where their nearest points cannot be followed")
        return self.found


def witness(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed, rough: Touch) -> OnFace | Between | Rough:
    """Nearest features of two shapes, from nearest points that were found roughly."""
    first_try = rough
    if not -GARBAGE < float(rough.gap) < GARBAGE or (rough.gap < -DEEP and not (_flat(first) and _flat(second))):
        # coal's way out of an overlap of round shapes is not always the shortest
        first_try = search_direction(first, second, X, Y)
    found = _on_face(first, second, X, Y, first_try) or _between(first, second, X, Y, first_try)
    if found is None and first_try is rough:
        # a search that has not converged, or noise where shapes touch: look along all directions
        again = search_direction(first, second, X, Y)
        found = _on_face(first, second, X, Y, again) or _between(first, second, X, Y, again)
    return Rough(rough) if found is None else found


def _on_face(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed, rough: Touch) -> OnFace | None:
    """The face that keeps the shapes as far apart as rough nearest points say, if one does."""
    face = met_face(first, second, X, Y, float(rough.gap), rough.axes[0].astype(float))
    if face is None:
        return None
    owner, at, other = (X, Y, second) if face.side == 0 else (Y, X, first)
    return OnFace(face, _features(other, -(owner[0] @ face.normal) @ at[0], (0.0,))[0])


def _between(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed, rough: Touch) -> Between | None:
    """The features on which rough nearest points lie, solved; None if none that were tried hold."""
    normal, point = rough.axes[0].astype(float), rough.point.astype(float)
    start = np.concatenate([normal, [float(rough.gap)]])
    mine, their = _features(first, -normal @ X[0], LADDER), _features(second, normal @ Y[0], LADDER)
    for pair in product(mine, their):
        found = _solve_nearest(pair, start, point, X, Y)
        if found is not None and _holds(found, first, second, X, Y):
            return found
    return None


def _flat(shape: BoundedShape) -> bool:
    return isinstance(shape, Box | Hull)


def _features(shape: BoundedShape, towards: Array, ladder: tuple[float, ...]) -> list[Feature]:
    """Features of a shape that may be farthest in a direction (3,) of its frame, for every tolerance once."""
    none, nowhere = np.zeros(3), (0.0, 0.0)
    match shape:
        case Ball(radius):
            return [Feature(none, None, nowhere, (float(radius),) * 3 if radius else None)]
        case Ellipsoid((a, b, c)):
            return [Feature(none, None, nowhere, (float(a), float(b), float(c)))]
        case Capsule(radius, half) | Cylinder(radius, half):
            r, h = float(radius), float(half)
            radii = (r, r, r if isinstance(shape, Capsule) else 0.0)
            end = Feature(np.array([0, 0, h if towards[2] > 0 else -h]), None, nowhere, radii)
            if h == 0:
                return [end]
            side = Feature(none, np.array([0.0, 0.0, 1.0]), (-h, h), radii)
            steep = abs(towards[2])
            return [end] if steep > ladder[-1] else [side, end] if steep < ladder[0] else [end, side]
    points = corner_points(shape)
    heights = points @ towards
    sets = [np.flatnonzero(heights >= heights.max() - t * np.ptp(points, axis=0).max()) for t in ladder]
    found = {tuple(own.tolist()): None for own in sets if len(own) <= 2} or {(int(np.argmax(heights)),): None}
    return [_edge(points[list(own)]) for own in found]


def _edge(points: Array) -> Feature:
    if len(points) == 1:
        return Feature(points[0], None, (0.0, 0.0), None)
    along = points[1] - points[0]
    length = float(np.linalg.norm(along))
    return Feature(points[0], along / length, (0.0, length), None)


def _place(features: tuple[Feature, Feature], z: Array, side: int) -> Any:
    """Where on its line a feature's point is; 0 for one without a line."""
    if features[side].line is None:
        return 0
    return z[4 if side == 0 or features[0].line is None else 5]


def _residual(features: tuple[Feature, Feature], z: Array, X: Pose, Y: Pose) -> Array:
    """F(z), on any scalar."""
    n, g = z[:3], z[3]
    a = features[0].at(X, n, _place(features, z, 0))
    b = features[1].at(Y, -n, _place(features, z, 1))
    lines = [P.R @ vector(*map(float, f.line)) @ n for f, P in zip(features, (X, Y), strict=True) if f.line is not None]
    return np.concatenate([a - b - g * n, vector(*lines, (n @ n - 1) / 2)])


class _Side(NamedTuple):
    """A feature's point, its derivative by N, and its line, in the world."""

    point: Array
    slope: Array
    line: Array | None


def _side(feature: Feature, P: Placed, N: Array, along: float) -> _Side:
    R, p = P
    line = None if feature.line is None else R @ feature.line
    point = p + R @ feature.base + (0 if line is None else along * line)
    if feature.radii is None:
        return _Side(point, np.zeros((3, 3)), line)
    squares = np.square(feature.radii)
    pull = squares * (N @ R)
    length = float(np.sqrt(np.sum(pull * (N @ R))))
    if length == 0:
        return _Side(point, np.zeros((3, 3)), line)
    turning = -(np.diag(squares) / length - np.outer(pull, pull) / length**3)
    return _Side(point - R @ pull / length, R @ turning @ R.T, line)


def _solve_nearest(
    features: tuple[Feature, Feature], start: Array, point: Array, X: Placed, Y: Placed
) -> Between | None:
    """Newton's method from rough nearest points; None where it leads nowhere."""
    lined = [k for k in (0, 1) if features[k].line is not None]
    z = np.concatenate([start, [_first_place(features[k], P, point) for k, P in enumerate((X, Y)) if k in lined]])
    scale = 1.0 + abs(z[3])
    for _ in range(POLISHING_STEPS):
        F, slope = _equations(features, z, X, Y, lined)
        if not np.all(np.isfinite(F)):
            return None
        if np.abs(F).max() <= SOLVED * scale:
            return Between(features, z, slope)
        z = z - np.linalg.lstsq(slope, F, rcond=None)[0]
    F, slope = _equations(features, z, X, Y, lined)
    return Between(features, z, slope) if np.abs(F).max() <= 100 * SOLVED * scale else None


def _first_place(feature: Feature, P: Placed, point: Array) -> float:
    """Where on a feature's line the rough point is: its rounding is across the line and does not matter."""
    assert feature.line is not None
    place = float((point - P[1] - P[0] @ feature.base) @ (P[0] @ feature.line))
    return min(max(place, feature.span[0]), feature.span[1])


def _equations(
    features: tuple[Feature, Feature], z: Array, X: Placed, Y: Placed, lined: list[int]
) -> tuple[Array, Array]:
    """F (4 + lines,) and ∂F/∂z, in plain numbers."""
    n, g = z[:3], z[3]
    places = dict(zip(lined, z[4:], strict=True))
    a = _side(features[0], X, n, places.get(0, 0.0))
    b = _side(features[1], Y, -n, places.get(1, 0.0))
    lines = [side.line for side in (a, b) if side.line is not None]
    F = np.concatenate([a.point - b.point - g * n, [line @ n for line in lines], [(n @ n - 1) / 2]])
    slope = np.zeros((len(z), len(z)))
    slope[:3, :3] = a.slope + b.slope - g * np.eye(3)
    slope[:3, 3] = -n
    for k, line in enumerate(lines):
        slope[:3, 4 + k] = line if lined[k] == 0 else -line
        slope[3 + k, :3] = line
    slope[-1, :3] = n
    return F, slope


def _holds(found: Between, first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed) -> bool:
    """Whether the shapes as a whole are apart by that gap along that normal, and the points on their edges."""
    n, g = found.z[:3], float(found.z[3])
    scale = 1.0 + abs(g)
    for side, feature in enumerate(found.features):
        place = _place(found.features, found.z, side)
        if feature.line is not None and not (feature.span[0] - AGREES <= place <= feature.span[1] + AGREES):
            return False
    return abs(separation(first, second, X, Y, n) - g) <= AGREES * scale
