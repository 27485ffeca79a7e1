"""Shapes as numbers: what each kind of geometry is, in its own frame, checked once.

    kind         parameters              the shape, in the geometry's frame
    point                                its origin
    sphere       radius                  a ball about the origin
    capsule      radius, length          all points within radius of a segment along z of that length
    cylinder     radius, length          a solid cylinder along z
    box          size (3)                full lengths along x, y and z
    ellipsoid    radii (3)               half axes along x, y and z
    half_space                           all points with z ≤ 0: its normal is z
    terrain      height                  all points with z ≤ height(x, y), a plain NumPy function
    mesh         vertices (n, 3)         the convex hull of these points, or of a file's (``path``, ``scale``)

A parameter that a kind does not know (a colour, a label) is for others and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from whippletree.contact.mesh_files import file_vertices
from whippletree.errors import ModelError
from whippletree.model import Geometry
from whippletree.spatial import Array

SEPARATE_CORNERS = 16
"""Corners of a hull up to which each is a candidate of its own; of more, the lowest one of each octant is."""


@dataclass(frozen=True)
class Ball:
    """A sphere; a point is one of radius 0."""

    radius: Any


@dataclass(frozen=True)
class Capsule:
    """All points within ``radius`` of a segment along z, from −half to half."""

    radius: Any
    half: Any


@dataclass(frozen=True)
class Cylinder:
    """A solid cylinder along z, from −half to half."""

    radius: Any
    half: Any


@dataclass(frozen=True)
class Box:
    """|x|, |y|, |z| ≤ half, component by component."""

    half: tuple[Any, Any, Any]


@dataclass(frozen=True)
class Ellipsoid:
    """Half axes along x, y and z."""

    radii: tuple[Any, Any, Any]


@dataclass(frozen=True)
class HalfSpace:
    """z ≤ 0."""


@dataclass(frozen=True)
class Terrain:
    """z ≤ height(x, y)."""

    height: Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex hull, by its corners (n, 3)."""

    vertices: Array

    @cached_property
    def groups(self) -> list[Array]:
        """The corners one by one; of a hull with many, those of each octant about its middle together."""
        if len(self.vertices) <= SEPARATE_CORNERS:
            return [corner[None] for corner in self.vertices]
        middle = (self.vertices.max(axis=0) + self.vertices.min(axis=0)) / 2
        octants = (self.vertices > middle) @ np.array([4, 2, 1])
        return [self.vertices[octants == k] for k in range(8) if np.any(octants == k)]


Shape: TypeAlias = Ball | Capsule | Cylinder | Box | Ellipsoid | HalfSpace | Terrain | Hull

KINDS = ("point", "sphere", "capsule", "cylinder", "box", "ellipsoid", "half_space", "terrain", "mesh")


def shape_of(geometry: Geometry) -> Shape:
    """The shape of a geometry.

    Raises:
        ModelError: a kind that is not known, or a parameter that is missing or makes no shape.
    """
    match geometry.kind:
        case "point":
            return Ball(0)
        case "sphere":
            return Ball(_positive(geometry, "radius", 1)[0])
        case "capsule" | "cylinder":
            radius, length = _positive(geometry, "radius", 1)[0], _positive(geometry, "length", 1)[0]
            return (Capsule if geometry.kind == "capsule" else Cylinder)(radius, length / 2)
        case "box":
            x, y, z = _positive(geometry, "size", 3)
            return Box((x / 2, y / 2, z / 2))
        case "ellipsoid":
            x, y, z = _positive(geometry, "radii", 3)
            return Ellipsoid((x, y, z))
        case "half_space":
            return HalfSpace()
        case "terrain":
            return Terrain(_height(geometry))
        case "mesh":
            return Hull(_vertices(geometry))
    raise _fault(geometry, f"kind {geometry.kind!r} cannot touch; kinds that can: {', '.join(KINDS)}")


def _positive(geometry: Geometry, word: str, count: int) -> list[Any]:
    """Numbers above zero, as Python's own where they are NumPy's."""
    given = np.array(geometry.parameters.get(word, ()), dtype=object).reshape(-1)
    numbers = [x.item() if isinstance(x, np.generic) else x for x in given]
    if len(numbers) != count or not all(_is_length(x) for x in numbers):
        wanted = "a number" if count == 1 else f"{count} numbers"
        shown = repr(geometry.parameters[word]) if word in geometry.parameters else "nothing"
        raise _fault(geometry, f"a {geometry.kind} needs {word}: {wanted} above 0 in m, got {shown}")
    return numbers


def _is_length(x: Any) -> bool:
    try:
        return not isinstance(x, (str, bytes, bool)) and 0 < float(x) < float("inf")
    except (TypeError, ValueError):
        return False


def _height(geometry: Geometry) -> Callable[[Any, Any], Any]:
    height = geometry.parameters.get("height")
    if not callable(height):
        raise _fault(geometry, f"a terrain needs height, a plain NumPy function of x and y, got {height!r}")
    return height  # type: ignore[no-any-return]


def _vertices(geometry: Geometry) -> Array:
    given = geometry.parameters.get("vertices")
    points = np.array(given, dtype=float) if given is not None else file_vertices(geometry)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4 or not np.all(np.isfinite(points)):
        raise _fault(geometry, f"vertices have shape {points.shape}, expected (n, 3) finite numbers, n at least 4")
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[np.sort(ConvexHull(points).vertices)])
    except QhullError:
        raise _fault(geometry, "the vertices lie in one plane: a convex mesh needs a volume") from None


def _fault(geometry: Geometry, reason: str) -> ModelError:
    return ModelError(f"geometry {geometry.name!r}", [reason])
