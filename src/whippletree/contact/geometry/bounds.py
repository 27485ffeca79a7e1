"""How large shapes are, and how far apart two of them are at least: what need not be compared closely."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.separation import BoundedShape, Placed, separation
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


def bounding_radius(shape: Shape) -> float:
    """Radius of a ball about the shape's origin that holds it, m."""
    match shape:
        case Ball(radius):
            return float(radius)
        case Capsule(radius, half):
            return float(radius) + float(half)
        case Cylinder(radius, half):
            return float(np.hypot(float(radius), float(half)))
        case Box(sides) | Ellipsoid(sides):
            return float(np.linalg.norm(np.array(sides, dtype=float)))
        case Hull():
            return float(np.linalg.norm(np.asarray(shape.vertices, dtype=float), axis=1).max())
        case HalfSpace() | Terrain() | HeightField() | Cavity():
            return np.inf


def bounding_box(shape: Shape) -> tuple[Array, Array]:
    """Middle and half edges of a box along the shape's axes that holds it, m, (3,) each; ∞ for unbounded ones."""
    match shape:
        case Ball(radius):
            half = [radius] * 3
        case Capsule(radius, length):
            half = [radius, radius, radius + length]
        case Cylinder(radius, length):
            half = [radius, radius, length]
        case Box(sides) | Ellipsoid(sides):
            half = list(sides)
        case Hull():
            corners = np.asarray(shape.vertices, dtype=float)
            return middle(shape), np.asarray(corners.max(axis=0) - corners.min(axis=0)) / 2
        case HalfSpace() | Terrain() | HeightField() | Cavity():
            half = [np.inf] * 3
    return np.zeros(3), np.array(half, dtype=float)


def at_least_apart(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed) -> float:
    """A distance that two shapes have at least, m: their separation along the line of their middles."""
    line = X[1] + X[0] @ middle(first) - Y[1] - Y[0] @ middle(second)
    length = float(np.linalg.norm(line))
    return separation(first, second, X, Y, line / length) if length > 0 else -np.inf


@lru_cache(maxsize=1024)
def bound_about_middle(shape: BoundedShape) -> float:
    """Radius of a ball about the middle of a shape's extent that holds it, m."""
    if not isinstance(shape, Hull):
        return bounding_radius(shape)
    return float(np.linalg.norm(shape.vertices - middle(shape), axis=1).max())


@lru_cache(maxsize=1024)
def middle(shape: BoundedShape) -> Array:
    """The middle of a shape's extent, in its frame, (3,)."""
    if not isinstance(shape, Hull):
        return np.zeros(3)
    return np.asarray((shape.vertices.max(axis=0) + shape.vertices.min(axis=0)) / 2, dtype=float)
