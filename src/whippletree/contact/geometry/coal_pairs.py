"""Pairs of shapes without a closed form: candidates by the collision library ``coal`` (extra ``contact``).

Plain numbers, or plain numbers in motion (dual numbers), one state at a time. A pair has a fixed number of slots:

* box or mesh with up to 16 corners against such a one: every corner of both against the other, the crossings of the
  edges of the two faces that meet, and the nearest points where nothing else is as near;
* meshes with more corners: of these, those of the two faces that meet, the crossings, and the nearest points likewise;
* anything else: the corners of both shapes (ends of a capsule, points on the rims of a cylinder, corners of a box or a
  mesh) against the other shape, and the nearest points of the two where no corner is as near. Corners that are farther
  away than the nearest points by more than the smaller shape's size are left out.

A slot that is not in use has the gap ``ABSENT``. Corners keep their slots for ever; crossings, and corners of large
meshes, come in the order of their numbers: :class:`Tracker` keeps each in its slot from call to call by its place on
the first body.

Of two shapes with flat faces, which face meets which, and what lies over it, is decided on plain numbers; the
candidates themselves are closed forms of the poses and run on dual numbers, too. A corner is fixed to its shape and the
face to the other, and two crossing edges have one common normal: so the normal row of every candidate is the rate of
its gap, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.dual_numbers import real_value
from whippletree.arithmetic.lanes import lane, lanes_of_columns
from whippletree.arithmetic.scalars import sqrt
from whippletree.contact.geometry.bounds import bound_about_middle, bounding_radius, middle
from whippletree.contact.geometry.closed_forms import CLOSED_FORMS, Touch, axes_of, corners, reversed_touch, rim_points
from whippletree.contact.geometry.nearest_points import OnFace, Rough, witness
from whippletree.contact.geometry.polytopes import Face, corner_points, crossings, is_covered, most_along, place_face
from whippletree.contact.geometry.separation import BoundedShape, Placed, farthest, separation
from whippletree.contact.geometry.shapes import SEPARATE_CORNERS, Ball, Box, Capsule, Cylinder, Ellipsoid, Hull, Shape
from whippletree.errors import MissingExtraError, UnsupportedError
from whippletree.spatial import Pose, cross

if TYPE_CHECKING:
    from whippletree.contact.kinematics.contact_set import ContactSet, Points


ABSENT = math.inf
"""Gap of a slot that is not in use."""

COAL_TOLERANCE = 1e-10
"""Tolerance of coal's iterations, m."""

WITNESS = 1e-7
"""How much nearer than every corner, m, the nearest points must be to be a candidate of their own."""


def can_collide(first: Shape, second: Shape) -> bool:
    """Whether two shapes can be handled here: both must be bounded."""
    return all(isinstance(shape, Ball | Capsule | Cylinder | Box | Ellipsoid | Hull) for shape in (first, second))


def slots(first: BoundedShape, second: BoundedShape) -> int:
    """The number of candidates of a pair."""
    if isinstance(first, Box | Hull) and isinstance(second, Box | Hull):
        fixed = separate_corners(first, second)
        return (fixed + EDGE_SLOTS if fixed else OVERLAP_SLOTS) + 1
    return _corner_count(first) + _corner_count(second) + 1


def wandering_slots(first: BoundedShape, second: BoundedShape) -> slice:
    """The slots that hold now this point and now that; all others keep one feature of a shape for ever."""
    if not (isinstance(first, Box | Hull) and isinstance(second, Box | Hull)):
        return slice(0, 0)
    fixed = separate_corners(first, second)
    return slice(fixed, fixed + EDGE_SLOTS) if fixed else slice(0, OVERLAP_SLOTS)


def touches(first: BoundedShape, second: BoundedShape, X: Pose, Y: Pose) -> list[Touch]:
    """The candidates of two shapes at these poses, which may move (dual numbers).

    Raises:
        UnsupportedError: poses that are not plain numbers, or that move where nearest points cannot be followed.
        MissingExtraError: if coal is not installed.
    """
    x, y = _floats_of_pose(X), _floats_of_pose(Y)
    if not all(np.all(np.isfinite(part)) for part in (*x, *y)):
        nowhere = Touch(math.nan, vector(*[math.nan] * 3), np.full((3, 3), math.nan, dtype=object))
        return [nowhere] * slots(first, second)
    nearest = nearest_touch(first, second, X, Y)
    if isinstance(first, Box | Hull) and isinstance(second, Box | Hull):
        found = flat_touches(Placement(first, X, x), Placement(second, Y, y), _values(nearest.axes[0]), _balls_against)
    else:
        normal = _values(nearest.axes[0])
        reach = max(real_value(nearest.gap), 0.0) + min(bounding_radius(first), bounding_radius(second))
        found = _corners_against(first, X, second, Y, normal, reach)
        found += [touch and reversed_touch(touch) for touch in _corners_against(second, Y, first, X, -normal, reach)]
    absent = nearest._replace(gap=ABSENT)
    filled = [absent if touch is None else touch for touch in found]
    alone = all(real_value(touch.gap) > real_value(nearest.gap) + WITNESS for touch in filled)
    return [*filled, nearest if alone else absent]


def nearest_touch(first: BoundedShape, second: BoundedShape, X: Pose, Y: Pose) -> Touch:
    """Where two shapes are nearest, to rounding."""
    x, y = _floats_of_pose(X), _floats_of_pose(Y)
    return witness(first, second, x, y, _nearest(first, second, x, y)).touch(X, Y)


class Tracker:
    """Contact points of a model from one state to the next, each overlap's corner in the slot that it had.

    One tracker follows one motion; :meth:`points` takes the next state.
    """

    def __init__(self, system: ContactSet) -> None:
        self.system = system
        self._before: dict[str, Array] = {}

    def points(self, m: Any, q: Array) -> Points:
        """Contact points as of :meth:`ContactSet.points`, each in the slot that it had in the call before."""
        return self.system.points(m, q, self._keep_slots)

    def _keep_slots(self, name: str, found: list[Touch], X: Pose) -> list[Touch]:
        """The touches of a pair in the slots of their nearest predecessors, in the first body's frame."""
        local = np.array([X.R.T @ (touch.point - X.p) for touch in found], dtype=float)
        used = [k for k, touch in enumerate(found) if touch.gap != ABSENT]
        before = self._before.get(name)
        order = list(range(len(found))) if before is None else _match_slots(local, used, before)
        after = np.full((len(found), 3), np.nan) if before is None else before.copy()
        after[[order.index(k) for k in used]] = local[used]
        self._before[name] = after
        return [found[k] for k in order]


def _match_slots(local: Array, used: Sequence[int], before: Array) -> list[int]:
    """For each slot the number of the touch that takes it: nearest pairs first, the rest in order."""
    distance = np.linalg.norm(local[None, used] - before[:, None], axis=2) if len(used) else np.zeros((len(before), 0))
    distance[np.isnan(distance)] = np.inf
    order = [-1] * len(before)
    for flat in np.argsort(distance, axis=None):
        slot, k = divmod(int(flat), len(used))
        if order[slot] < 0 and used[k] not in order:
            order[slot] = used[k]
    rest = [k for k in range(len(before)) if k not in order]
    return [k if k >= 0 else rest.pop(0) for k in order]


def _balls_against(balls: Sequence[tuple[Array, Any]], X: Pose, shape: BoundedShape, Y: Pose) -> list[Touch]:
    """Balls of a shape, all of one radius, against the other shape."""
    first, radius = Ball(balls[0][1]), balls[0][1]
    written = CLOSED_FORMS.get((Ball, type(shape)))
    if written is not None:
        # all at once, on lanes
        centres = lanes_of_columns(np.array([centre for centre, _ in balls], dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):  # both sides of a select are evaluated
            together = written(first, shape, Pose(X.R, X.point(centres)), Y)[0]
        return [_lane(together, k) for k in range(len(balls))]
    found = []
    for centre, _ in balls:
        at = Pose(X.R, X.point(centre))
        x, y = _floats_of_pose(at), _floats_of_pose(Y)
        found.append(witness(Ball(radius), shape, x, y, _nearest(first, shape, x, y)).touch(at, Y))
    return found


def _lane(touch: Touch, k: int) -> Touch:
    """One touch of several that lie on lanes."""
    gap, *numbers = (lane(x, k) for x in (touch.gap, *touch.point, *touch.axes.flat))
    return Touch(gap, vector(*numbers[:3]), vector(*numbers[3:]).reshape(3, 3))


def _nearest(first: BoundedShape, second: BoundedShape, X: Placed, Y: Placed) -> Touch:
    """The nearest points of two shapes, by coal, roughly; inside each other, along the shortest way out."""
    coal = _coal()
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = COAL_TOLERANCE
    places = [coal.Transform3s(*pose) for pose in (X, Y)]
    gap = coal.distance(_coal_shape(first), places[0], _coal_shape(second), places[1], request, result)
    point, normal = np.array(result.getNearestPoint1()).reshape(3), -np.array(result.normal).reshape(3)
    if not (np.all(np.isfinite(normal)) and np.linalg.norm(normal) > 0):
        normal = np.array([0.0, 1.0, 0.0])  # centres that coincide, as for closed forms
    return Touch(float(gap), point, axes_of(vector(*map(float, normal / np.linalg.norm(normal)))))


def _corners_against(
    shape: BoundedShape, X: Pose, other: BoundedShape, Y: Pose, normal: Array, reach: float
) -> list[Touch | None]:
    """Parts of a shape that may touch another, beside their nearest points: slot by slot, None where there is nothing.

    ``normal`` (3,) is that of the nearest points, towards the shape; what is farther away than ``reach`` is left out.
    """
    match shape:
        case Ball() | Ellipsoid():
            return []
        case Cylinder(radius, half):
            ends = [Pose(X.R, X.point(vector(0, 0, end))) for end in (half, -half)]
            rolling = [_rim_against(float(radius), end, other, Y, normal) for end in ends]
            points = [(p, 0) for end in (half, -half) for p in rim_points(radius, end)]
            fixed = _near_balls_against(points, X, other, Y, reach)
            return [rolling[0], *fixed[:3], rolling[1], *fixed[3:]]
    return _near_balls_against(corners(shape, vector(0, 0, -1)), X, other, Y, reach)


def _near_balls_against(
    balls: Sequence[tuple[Array, Any]], X: Pose, other: BoundedShape, Y: Pose, reach: float
) -> list[Touch | None]:
    """Touches of the balls that are not farther away than ``reach``; None for the others."""
    (R, p), (S, o) = _floats_of_pose(X), _floats_of_pose(Y)
    places = np.array([centre for centre, _ in balls], dtype=float) @ R.T + p
    apart = np.linalg.norm(places - o - S @ middle(other), axis=1) - bound_about_middle(other) - float(balls[0][1])
    near = np.flatnonzero(apart <= reach).tolist()
    found: list[Touch | None] = [None] * len(balls)
    if near:
        for k, touch in zip(near, _balls_against([balls[k] for k in near], X, other, Y), strict=True):
            found[k] = touch
    return found


def _rim_against(radius: float, X: Pose, other: BoundedShape, Y: Pose, normal: Array) -> Touch | None:
    """The point of a rim, about the z axis, that is nearest to a shape: there a cylinder rolls. None if what is nearest
    is inside the rim."""
    disc = Cylinder(radius, 0.0)
    x, y = _floats_of_pose(X), _floats_of_pose(Y)
    rough = Touch(
        separation(disc, other, x, y, normal),
        x[1] + x[0] @ farthest(disc, -normal @ x[0]),
        axes_of(normal.astype(object)),
    )
    met = witness(disc, other, x, y, rough)
    return None if isinstance(met, Rough) or (isinstance(met, OnFace) and met.face.side == 0) else met.touch(X, Y)


def _corner_count(shape: BoundedShape) -> int:
    match shape:
        case Ball() | Ellipsoid():
            return 0
        case Cylinder():
            return 8
    return len(corners(shape, vector(0, 0, -1)))


def _floats_of_pose(X: Pose) -> Placed:
    """Rotation and position as floats, of poses that may move.

    Raises:
        UnsupportedError: poses that have no numbers.
    """
    try:
        return _values(X.R), _values(X.p)
    except (TypeError, ValueError):
        raise UnsupportedError(
            "these shapes have no closed form: their contact points can be found for plain numbers only"
        ) from None


_values: Callable[[Array], Array] = np.vectorize(real_value, otypes=[float])


@lru_cache(maxsize=1024)
def _coal_shape(shape: BoundedShape) -> Any:
    coal = _coal()
    match shape:
        case Ball(radius):
            return coal.Sphere(float(radius))
        case Capsule(radius, half):
            return coal.Capsule(float(radius), 2 * float(half))
        case Cylinder(radius, half):
            return coal.Cylinder(float(radius), 2 * float(half))
        case Box((x, y, z)):
            return coal.Box(2 * float(x), 2 * float(y), 2 * float(z))
        case Ellipsoid(radii):
            return coal.Ellipsoid(*map(float, radii))
    points = coal.StdVec_Vec3s()
    for point in shape.vertices:
        points.append(np.array(point, dtype=float))
    return coal.Convex.convexHull(points, False, "")


def _coal() -> Any:
    try:
        import coal
    except ImportError:
        raise MissingExtraError("contact between these shapes", "coal", "contact") from None
    return coal


# --- two shapes with flat faces: corners against each other's faces, and crossings of edges ---------------------------


EDGE_SLOTS = 8
"""Slots of crossing edges: two rectangles cross eight times at most; of more, those that are farthest apart stay."""

OVERLAP_SLOTS = 8
"""Slots of two faces of large meshes."""

FACING = 1e-2
"""Angle, rad, between the direction of approach and a face's normal below which the faces as a whole meet."""

BESIDE = 1e-9
"""m: a corner that is beside a face by no more than this counts as over it."""

PARALLEL_EDGES = 2e-2
"""Sine of the angle between two edges below which they do not cross anywhere in particular. Crossings whose common
normal is not that of the faces, up to 2 ``FACING``, are left out, too."""


Against: TypeAlias = Callable[[Sequence[tuple[Array, Any]], Pose, Any, Pose], list[Touch]]
"""Balls (centre, radius) of a shape at a pose against another shape at a pose."""


@dataclass(frozen=True)
class Placement:
    """A shape with flat faces somewhere, perhaps in motion."""

    shape: Box | Hull
    X: Pose
    at: Placed
    """The pose in plain numbers."""

    @cached_property
    def corners(self) -> Array:
        """In the world, (n, 3)."""
        R, p = self.at
        return np.asarray(corner_points(self.shape) @ R.T + p)

    def face_along(self, direction: Array) -> Face:
        """The face that looks most into a direction, in the world."""
        return place_face(most_along(self.shape, direction @ self.at[0]), *self.at)

    def plane(self, face: Face) -> tuple[Array, float]:
        """Normal (3,) and height of a face that is in the world, in the shape's frame."""
        R, p = self.at
        return face.normal @ R, float(face.normal @ (face.corners[0] - p))


def separate_corners(first: Box | Hull, second: Box | Hull) -> int:
    """The number of all corners where each has a slot of its own; 0 for large meshes."""
    counts = len(corner_points(first)), len(corner_points(second))
    return sum(counts) if max(counts) <= SEPARATE_CORNERS else 0


def flat_touches(first: Placement, second: Placement, normal: Array, against: Against) -> list[Touch | None]:
    """The candidates in their slots, None for one that is not in use.

    Args:
        first, second: the shapes and where they are.
        normal: (3,), that of the nearest points.
        against: the distance of a corner from a whole shape.
    """
    mine, other = first.face_along(-normal), second.face_along(normal)
    facing = bool(max(-mine.normal @ normal, other.normal @ normal) >= math.cos(FACING))
    edges = crossings(mine, other, PARALLEL_EDGES) if facing else []
    met = (_crossing(first, second, pair, normal) for pair in edges)
    crossed = [touch for touch in met if real_value(touch.axes[0] @ normal) >= math.cos(2 * FACING)]
    if separate_corners(first.shape, second.shape):
        apart = None if facing else against
        over = _corners_on(first, range(len(first.corners)), second, other, apart)
        under = _corners_on(second, range(len(second.corners)), first, mine, apart)
        return [*over, *_swap_sides(under), *_fill_slots(_spread(crossed, EDGE_SLOTS), EDGE_SLOTS)]
    # of large meshes only the corners of the two faces that meet
    over = _corners_on(first, mine.numbers, second, other, None) if facing else []
    under = _corners_on(second, other.numbers, first, mine, None) if facing else []
    found = [touch for touch in (*over, *_swap_sides(under), *crossed) if touch is not None]
    return _fill_slots(_spread(found, OVERLAP_SLOTS), OVERLAP_SLOTS)


def _corners_on(
    shape: Placement, numbers: Sequence[int], ground: Placement, face: Face, apart: Against | None
) -> list[Touch | None]:
    """Corners of a shape against another: over the face that is met, their heights; beside it, their distances, or
    nothing where the faces as a whole meet."""
    over = is_covered(face, shape.corners[list(numbers)], BESIDE)
    normal, height = ground.plane(face)
    n = ground.X.R @ vector(*normal.tolist())
    axes = axes_of(n)
    found: list[Touch | None] = []
    beside = (
        [] if apart is None else [vector(*corner_points(shape.shape)[k].tolist()) for k in np.array(numbers)[~over]]
    )
    distances = iter(
        apart([(corner, 0) for corner in beside], shape.X, ground.shape, ground.X) if apart and beside else []
    )
    for k, good in zip(numbers, over, strict=True):
        if good:
            point = shape.X.point(vector(*corner_points(shape.shape)[k].tolist()))
            found.append(Touch(n @ (point - ground.X.p) - height, point, axes))
        else:
            found.append(next(distances, None))
    return found


def _crossing(
    first: Placement, second: Placement, edges: tuple[tuple[int, int], tuple[int, int]], normal: Array
) -> Touch:
    """Where two edges cross, along their common normal."""
    a, b = (first.X.point(vector(*corner_points(first.shape)[k].tolist())) for k in edges[0])
    c, d = (second.X.point(vector(*corner_points(second.shape)[k].tolist())) for k in edges[1])
    u, w = b - a, d - c
    n = cross(u, w)
    square = n @ n
    # on the first edge where it is nearest to the second
    s = cross(c - a, w) @ n / square
    n = n / sqrt(square)
    if real_value(n @ normal) < 0:
        n = -n
    return Touch(n @ (a - c), a + s * u, axes_of(n))


def _swap_sides(touches: Sequence[Touch | None]) -> list[Touch | None]:
    """These contacts seen from the other shape; those over one face share their axes."""
    axes: dict[int, Array] = {}
    found: list[Touch | None] = []
    for touch in touches:
        if touch is None:
            found.append(None)
            continue
        normal = touch.axes[0]
        if id(touch.axes) not in axes:
            axes[id(touch.axes)] = axes_of(-normal)
        found.append(Touch(touch.gap, touch.point - touch.gap * normal, axes[id(touch.axes)]))
    return found


def _spread(found: list[Touch], count: int) -> list[Touch]:
    """At most so many: the deepest, then always the one that is farthest from those chosen."""
    if len(found) <= count:
        return found
    points = np.array([[real_value(x) for x in touch.point] for touch in found])
    chosen = [int(np.argmin([real_value(touch.gap) for touch in found]))]
    while len(chosen) < count:
        apart = np.linalg.norm(points[:, None] - points[None, chosen], axis=2).min(axis=1)
        chosen.append(int(np.argmax(apart)))
    return [found[k] for k in sorted(chosen)]


def _fill_slots(found: list[Touch], count: int) -> list[Touch | None]:
    return [*found, *[None] * (count - len(found))]
