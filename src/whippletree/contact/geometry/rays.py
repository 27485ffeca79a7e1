"""How far along a ray a shape begins: what range finders and touch sensors ask. Plain numbers, many rays at once.

Rays start at points p (k, 3) and go along unit vectors d (k, 3), both in the shape's frame. The answer is the smallest
t ≥ 0 with p + t d on the surface, ∞ where the ray misses. A ray that starts inside meets the surface on its way out.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.shapes import (
    Ball,
    Box,
    Capsule,
    Cavity,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    HeightField,
    Hull,
    Shape,
    Terrain,
)

RAY_LENGTH, RAY_STEPS = 100.0, 4000
"""m, and pieces of it: how far and how closely curved grounds are looked for along a ray."""


def way_along_ray(shape: Shape, p: Array, d: Array) -> Array:
    """The way t (k,) along rays to the surface of a shape, m; ∞ where they miss it."""
    match shape:
        case Ball(radius) | Cavity(radius):
            return _ellipsoid(np.full(3, float(radius)), p, d)
        case Ellipsoid(radii):
            return _ellipsoid(np.array(radii, dtype=float), p, d)
        case Box(sides):
            return _between(np.vstack([np.eye(3), -np.eye(3)]), np.tile(np.array(sides, dtype=float), 2), p, d)
        case Cylinder(radius, half):
            return _cylinder(float(radius), float(half), p, d)
        case Capsule(radius, half):
            return _capsule(float(radius), float(half), p, d)
        case HalfSpace():
            return _between(np.array([[0.0, 0.0, 1.0]]), np.zeros(1), p, d)
        case Hull():
            return _between(*_faces(shape), p, d)
        case Terrain() | HeightField():
            return _ground(shape, p, d)


def _first(ways: Array) -> Array:
    """The smallest of some ways (n, k) that is not behind; ∞ where all are, or where there are none (NaN)."""
    ways = np.where(ways >= 0, ways, np.inf)
    return np.asarray(ways.min(axis=0))


def _roots(a: Array, b: Array, c: Array) -> Array:
    """t (2, k) with a t² + 2 b t + c = 0; NaN where there are none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - a * c)
        return np.stack([(-b - root) / a, (-b + root) / a])


def _ellipsoid(radii: Array, p: Array, d: Array) -> Array:
    p, d = p / radii, d / radii
    return _first(_roots((d * d).sum(axis=1), (p * d).sum(axis=1), (p * p).sum(axis=1) - 1))


def _between(normals: Array, offsets: Array, p: Array, d: Array) -> Array:
    """Where rays enter and leave a convex solid normals · x ≤ offsets, (n, 3) and (n,)."""
    height, speed = normals @ p.T - offsets[:, None], normals @ d.T
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = -height / speed
    entering = np.where(speed < 0, ways, -np.inf).max(axis=0)
    leaving = np.where(speed > 0, ways, np.inf).min(axis=0)
    missed = (entering > leaving) | np.any((speed == 0) & (height > 0), axis=0)
    first = np.where(entering >= 0, entering, leaving)
    return np.asarray(np.where(missed | (first < 0), np.inf, first))


def _side(radius: float, p: Array, d: Array) -> Array:
    """Ways (2, k) to the side of a cylinder without ends."""
    return _roots(
        (d[:, :2] ** 2).sum(axis=1), (p[:, :2] * d[:, :2]).sum(axis=1), (p[:, :2] ** 2).sum(axis=1) - radius**2
    )


def _cylinder(radius: float, half: float, p: Array, d: Array) -> Array:
    sides = _side(radius, p, d)
    on_side = np.abs(p[:, 2] + sides * d[:, 2]) <= half
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(z - p[:, 2]) / d[:, 2] for z in (-half, half)])
        on_end = np.hypot(p[:, 0] + ends * d[:, 0], p[:, 1] + ends * d[:, 1]) <= radius
    return _first(np.where(np.concatenate([on_side, on_end]), np.concatenate([sides, ends]), np.inf))


def _capsule(radius: float, half: float, p: Array, d: Array) -> Array:
    sides = _side(radius, p, d)
    ways = [np.where(np.abs(p[:, 2] + sides * d[:, 2]) <= half, sides, np.inf)]
    for z in (-half, half):
        from_end = p - (0.0, 0.0, z)
        ball = _roots((d * d).sum(axis=1), (from_end * d).sum(axis=1), (from_end * from_end).sum(axis=1) - radius**2)
        beyond = np.abs(p[:, 2] + ball * d[:, 2]) >= half
        ways.append(np.where(beyond, ball, np.inf))
    return _first(np.concatenate(ways))


def _faces(hull: Hull) -> tuple[Array, Array]:
    """Outward normals (n, 3) and offsets (n,) of a hull's faces."""
    from scipy.spatial import ConvexHull

    equations = ConvexHull(np.asarray(hull.vertices, dtype=float)).equations
    return equations[:, :3], -equations[:, 3]


def _ground(shape: Terrain | HeightField, p: Array, d: Array) -> Array:
    """Where rays first cross a curved ground: looked for in small pieces, then halved to rounding."""
    ways = np.linspace(0.0, RAY_LENGTH, RAY_STEPS + 1)

    def height(k: int, t: float) -> float:
        x, y, z = p[k] + t * d[k]
        return float(z - shape.surface(float(x), float(y)).h)

    found = np.full(len(p), np.inf)
    for k in range(len(p)):
        before = height(k, 0.0)
        for t, after in zip(ways[1:], (height(k, t) for t in ways[1:]), strict=True):
            if before * after <= 0:
                low, high = t - ways[1], t
                while high - low > np.spacing(high):
                    middle = (low + high) / 2
                    low, high = (middle, high) if height(k, middle) * before > 0 else (low, middle)
                found[k] = high
                break
    return found
