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
    height_field heights (n, m), cell    the same, by heights on a grid of cells (dx, dy) with its middle at the origin
    cavity       radius                  all points outside a sphere about the origin: what is inside stays inside
    mesh         vertices (n, 3)         the convex hull of these points, or of a file's (``path``, ``scale``)

A parameter that a kind does not know (a colour, a label) is for others and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.contact.geometry.height_field import Grid, Jet
from whippletree.contact.geometry.mesh_files import file_vertices
from whippletree.contact.geometry.terrain import written_surface
from whippletree.errors import ModelError, did_you_mean
from whippletree.model import Geometry
from whippletree.model.input_checks import require_arguments

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

    @property
    def surface(self) -> Callable[[Any, Any], Jet]:
        """Height and derivatives at (x, y)."""
        return written_surface(self.height)


@dataclass(frozen=True, eq=False)
class HeightField:
    """z ≤ h(x, y), the spline through the heights of a grid."""

    grid: Grid

    @property
    def surface(self) -> Callable[[Any, Any], Jet]:
        """Height and derivatives at (x, y)."""
        return self.grid.jet


@dataclass(frozen=True)
class Cavity:
    """Everything but a ball about the origin: a bowl, a loop, or the reach of a string of that length."""

    radius: Any


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


Shape: TypeAlias = Ball | Capsule | Cylinder | Box | Ellipsoid | HalfSpace | Terrain | HeightField | Cavity | Hull

KINDS = (
    "point",
    "sphere",
    "capsule",
    "cylinder",
    "box",
    "ellipsoid",
    "half_space",
    "terrain",
    "height_field",
    "cavity",
    "mesh",
)


KINDS_ELSEWHERE = {
    **dict.fromkeys(("plane", "ground", "floor", "halfspace"), "half_space"),
    **dict.fromkeys(("hfield", "heightfield", "heightmap"), "height_field"),
    **dict.fromkeys(("disc", "disk"), "cylinder"),
    **dict.fromkeys(("hull", "convex"), "mesh"),
    "ball": "sphere",
    "cube": "box",
}
"""What other libraries, and people, call shapes."""


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
        case "height_field":
            return HeightField(_grid(geometry))
        case "cavity":
            return Cavity(_positive(geometry, "radius", 1)[0])
        case "mesh":
            return _hull_of(np.asarray(_vertices(geometry), dtype=float).tobytes())
    kind = str(geometry.kind)
    here = KINDS_ELSEWHERE.get(kind.lower())
    hint = f". {kind!r} is {here!r} here" if here else did_you_mean(kind, KINDS)
    raise _fault(geometry, f"kind {geometry.kind!r} cannot touch; kinds that can: {', '.join(KINDS)}{hint}")


def _positive(geometry: Geometry, word: str, count: int) -> list[Any]:
    """Numbers above zero, as Python's own where they are NumPy's."""
    given = np.array(geometry.parameters.get(word, ()), dtype=object).reshape(-1)
    numbers = [x.item() if isinstance(x, np.generic) else x for x in given]
    if len(numbers) != count or not all(_is_length(x) for x in numbers):
        wanted = "a number" if count == 1 else f"{count} numbers"
        alike = [given for given in geometry.parameters if did_you_mean(given, [word])]
        nothing = f"nothing but {alike[0]!r}" if alike else "nothing"
        shown = repr(geometry.parameters[word]) if word in geometry.parameters else nothing
        article = "an" if geometry.kind[0] in "aeiou" else "a"
        raise _fault(geometry, f"{article} {geometry.kind} needs {word}: {wanted} above 0 in m, got {shown}")
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
    try:
        require_arguments("height", height, "x", "y")
    except TypeError as error:
        raise _fault(geometry, str(error)) from None
    cure = "write one number with + - * /, integer powers and NumPy's sin, cos, sqrt, arctan2, exp, log, tanh"
    try:
        found = height(Dual(0.0, 1.0), Dual(0.0, 0.0))
        if found is None:
            raise TypeError("it returns None. Does it end with return?")
        count = np.size(found)
    except (TypeError, AttributeError, ValueError) as error:
        raise _fault(geometry, f"height cannot be differentiated: {error}; {cure}") from None
    except ArithmeticError:
        count = 1  # it has no value at the origin, perhaps elsewhere
    if count != 1:
        raise _fault(geometry, f"height gives {count} numbers instead of one; {cure}")
    return height  # type: ignore[no-any-return]


def _grid(geometry: Geometry) -> Grid:
    given = geometry.parameters.get("heights")
    try:
        heights = np.array(given, dtype=float)
    except (TypeError, ValueError):
        heights = np.zeros(0)
    if heights.ndim != 2 or min(heights.shape) < 2 or not np.all(np.isfinite(heights)):
        endless = ", not all finite" * (not np.all(np.isfinite(heights)))
        found = "nothing" if given is None else f"shape {heights.shape}{endless}"
        raise _fault(geometry, f"a height_field needs heights (n, m) in m, finite, n and m at least 2, got {found}")
    dx, dy = _positive(geometry, "cell", 2)
    return Grid(heights, (float(dx), float(dy)))


@lru_cache(maxsize=1024)
def _hull_of(corners: bytes) -> Hull:
    """The hull of these corners, one object for all geometries that have them: code is made for each object."""
    return Hull(np.frombuffer(corners).reshape(-1, 3))


def _vertices(geometry: Geometry) -> Array:
    given = geometry.parameters.get("vertices")
    if given is None:
        given = file_vertices(geometry)
    try:
        points = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise _fault(geometry, "vertices are no table of numbers, expected (n, 3), n at least 4") from None
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4 or not np.all(np.isfinite(points)):
        raise _fault(geometry, f"vertices have shape {points.shape}, expected (n, 3) finite numbers, n at least 4")
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[np.sort(ConvexHull(points).vertices)])
    except QhullError:
        raise _fault(geometry, "the vertices lie in one plane: a convex mesh needs a volume") from None


def _fault(geometry: Geometry, reason: str) -> ModelError:
    return ModelError(f"geometry {geometry.name!r}", [reason])
