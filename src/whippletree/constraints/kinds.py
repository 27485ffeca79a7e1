"""Constraint types: what each kind of constraint demands, as a plain function of poses, coordinates and time.

A *position* constraint is a residual g = 0 of the poses of its frames (or of joint coordinates) and of time. A *velocity*
constraint (rolling, a knife edge) is a residual h = 0 of poses and twists, linear in the twists, with no position rows of
its own. Nothing else is written here: the Jacobian A and the bias Ȧ v come from differentiating these functions
(:mod:`whippletree.constraints.rows`), also for residuals that a user writes.

Frames: ``on`` names two frames (or bodies, or the world), in this order. Rows are expressed in the axes of the first,
so a constraint on ("world", "foot") has rows in world axes. Residuals are in metres where they are lengths and
dimensionless (sine of an angle) where they are directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whippletree import scalars
from whippletree.errors import ModelError
from whippletree.joints import plane_directions
from whippletree.model import Constraint
from whippletree.spatial import Array, Pose, cross, vector

X, Y, Z = (vector(1, 0, 0), vector(0, 1, 0), vector(0, 0, 1))


@dataclass(frozen=True)
class Demand:
    """What a constraint asks for.

    ``residual(poses, t)`` for frames, ``residual(coordinates, t)`` for joints, ``residual(poses, twists, t)`` at velocity
    level; each returns an array with one entry per row.
    """

    level: Literal["position", "velocity"]
    on: Literal["frames", "joints"]
    rows: tuple[str, ...]
    units: tuple[str, ...]
    residual: Callable[..., Array]


def relative(poses: Sequence[Pose]) -> Pose:
    """The pose of the second frame in the first."""
    return poses[0].inverse() @ poses[1]


def _twist_of(R: Array) -> Array:
    """Sine of the rotation angle times the axis: zero for the identity, slope one there."""
    return vector((R[2, 1] - R[1, 2]) / 2, (R[0, 2] - R[2, 0]) / 2, (R[1, 0] - R[0, 1]) / 2)


def point(c: Constraint) -> Demand:
    """The origins of two frames coincide: 3 rows."""
    return _frames(("x", "y", "z"), "mmm", lambda poses, t: relative(poses).p)


def weld(c: Constraint) -> Demand:
    """Two frames coincide: 6 rows, rotation first."""

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        X = relative(poses)
        return np.concatenate([_twist_of(X.R), X.p])

    return _frames(("rx", "ry", "rz", "x", "y", "z"), "111mmm", residual)


def hinge(c: Constraint) -> Demand:
    """Origins and axes of two frames coincide, a turn about the axis is free: 5 rows."""
    axis, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        X = relative(poses)
        along = X.R @ axis
        return vector(u @ along, w @ along, *X.p)

    return _frames(("tilt_u", "tilt_v", "x", "y", "z"), "11mmm", residual)


def universal(c: Constraint) -> Demand:
    """Origins coincide; an axis of the first frame stays normal to one of the second: 4 rows."""
    axis, _ = _axis(c, "axis")
    second, _ = _axis(c, "second_axis", default=X)

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(axis @ (rel.R @ second), *rel.p)

    return _frames(("square", "x", "y", "z"), "1mmm", residual)


def slider(c: Constraint) -> Demand:
    """No rotation, the second origin stays on the axis through the first: 5 rows."""
    axis, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        return vector(*_twist_of(rel.R), u @ rel.p, w @ rel.p)

    return _frames(("rx", "ry", "rz", "off_u", "off_v"), "111mm", residual)


def cylindrical(c: Constraint) -> Demand:
    """Axes coincide; turning about and sliding along them is free: 4 rows."""
    axis, (u, w) = _axis(c, "axis")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        rel = relative(poses)
        along = rel.R @ axis
        return vector(u @ along, w @ along, u @ rel.p, w @ rel.p)

    return _frames(("tilt_u", "tilt_v", "off_u", "off_v"), "11mm", residual)


def point_on_line(c: Constraint) -> Demand:
    """The second origin stays on a line of the first frame through its origin: 2 rows."""
    _, (u, w) = _axis(c, "direction")
    return _frames(("off_u", "off_v"), "mm", lambda poses, t: vector(*[d @ relative(poses).p for d in (u, w)]))


def point_on_plane(c: Constraint) -> Demand:
    """The second origin stays in a plane of the first frame through its origin: 1 row."""
    normal, _ = _axis(c, "normal")
    return _frames(("height",), "m", lambda poses, t: vector(normal @ relative(poses).p))


def point_on_curve(c: Constraint) -> Demand:
    """The second origin stays where the user's ``curve(p)`` vanishes, p its position in the first frame."""
    curve = _callable(c, "curve")
    count = len(np.atleast_1d(curve(np.zeros(3))))
    names = tuple(f"curve_{i}" for i in range(count))
    return _frames(names, "m" * count, lambda poses, t: vector(*np.atleast_1d(curve(relative(poses).p))))


def distance(c: Constraint) -> Demand:
    """Two origins stay at a fixed distance, as by a massless rod: 1 row, (|d|² − L²) / 2L."""
    length = c.parameters.get("length")
    if length is None or not length > 0:
        raise ModelError(
            f"constraint {c.name!r}",
            [f"a distance needs length > 0, got {length!r}; at zero its direction is lost: use kind 'point'"],
        )

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        d = poses[1].p - poses[0].p
        return vector((d @ d - length * length) / (2 * length))

    return _frames(("length",), "m", residual)


def coupling(c: Constraint) -> Demand:
    """One joint coordinate is a polynomial of another, a gear: 1 row, y − Σ cₖ xᵏ for joints (y, x)."""
    coefficients = [*np.atleast_1d(np.asarray(c.parameters.get("coefficients", (0, 1)), dtype=object))]

    def residual(coordinates: Sequence[Any], t: Any) -> Array:
        value: Any = 0
        for k in reversed(coefficients):
            value = value * (coordinates[1] if len(coordinates) > 1 else 0) + k
        return vector(coordinates[0] - value)

    return Demand("position", "joints", ("coupling",), ("rad or m",), residual)


def prescribed(c: Constraint) -> Demand:
    """A joint coordinate follows ``motion(t)``: 1 row."""
    motion = _callable(c, "motion")
    return Demand("position", "joints", ("motion",), ("rad or m",), lambda x, t: vector(x[0] - motion(t)))


def prescribed_frame(c: Constraint) -> Demand:
    """The second origin follows the point ``motion(t)`` of the first frame: 3 rows."""
    motion = _callable(c, "motion")

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        return relative(poses).p - vector(*motion(t))

    return _frames(("x", "y", "z"), "mmm", residual)


def custom(c: Constraint) -> Demand:
    """Whatever the user's ``residual(*poses)`` says, poses as (4, 4) matrices of the frames, in the world."""
    function = _callable(c, "residual")
    names = tuple(c.parameters.get("rows", ()))
    if not names:
        trial = np.atleast_1d(function(*[np.eye(4) for _ in c.on]))
        names = tuple(f"row_{i}" for i in range(len(trial)))

    def residual(poses: Sequence[Pose], t: Any) -> Array:
        return vector(*np.atleast_1d(function(*[pose.matrix() for pose in poses])))

    return _frames(names, ["user's"] * len(names), residual)


def rolling(c: Constraint) -> Demand:
    """A wheel or ball of ``radius`` rolls without slip on the plane of the first frame: 3 velocity rows.

    The body's point at the contact, ``radius`` below the second origin along the plane's normal, does not move against
    the first frame. For a thin disc with its axis along ``axis`` of the second frame, the contact is at the rim's lowest
    point.
    """
    normal, directions = _axis(c, "normal")
    radius = c.parameters.get("radius")
    axis = c.parameters.get("axis")
    if radius is None or not radius > 0:
        raise ModelError(f"constraint {c.name!r}", [f"rolling needs radius > 0, got {radius!r}"])
    spin = None if axis is None else vector(*axis)

    def residual(poses: Sequence[Pose], twists: Sequence[Array], t: Any) -> Array:
        rel = relative(poses)
        w, v = _relative_twist(poses, twists)
        down = -normal
        if spin is not None:
            # the direction from the hub to the rim's lowest point: the part of −n in the plane of the disc
            along = rel.R @ spin
            flat = down - along * (along @ down)
            down = flat / scalars.sqrt(flat @ flat)
        slip = v + cross(w, radius * down)
        return vector(directions[0] @ slip, directions[1] @ slip, normal @ slip)

    return Demand("velocity", "frames", ("slip_u", "slip_v", "height"), ("m/s",) * 3, residual)


def knife_edge(c: Constraint) -> Demand:
    """The second origin does not move along ``direction`` of the second frame: 1 velocity row."""
    direction, _ = _axis(c, "direction", default=Y)

    def residual(poses: Sequence[Pose], twists: Sequence[Array], t: Any) -> Array:
        _, v = _relative_twist(poses, twists)
        return vector((relative(poses).R @ direction) @ v)

    return Demand("velocity", "frames", ("skid",), ("m/s",), residual)


KINDS: dict[str, Callable[[Constraint], Demand]] = {
    f.__name__: f
    for f in (
        point, weld, hinge, universal, slider, cylindrical, point_on_line, point_on_plane, point_on_curve, distance,
        coupling, prescribed, prescribed_frame, custom, rolling, knife_edge,
    )
}  # fmt: skip
"""Every kind of constraint by its name."""


def _relative_twist(poses: Sequence[Pose], twists: Sequence[Array]) -> tuple[Array, Array]:
    """Angular velocity and velocity of the second origin against the first frame, in the first frame's axes."""
    rel = relative(poses)
    w = rel.R @ twists[1][:3] - twists[0][:3]
    v = rel.R @ twists[1][3:] - twists[0][3:] - cross(twists[0][:3], rel.p)
    return w, v


def _frames(rows: tuple[str, ...], units: Sequence[str], residual: Callable[..., Array]) -> Demand:
    return Demand("position", "frames", rows, tuple(units), residual)


def _axis(c: Constraint, word: str, default: Array = Z) -> tuple[Array, tuple[Array, Array]]:
    """A unit direction from the parameters, and two directions normal to it."""
    given = vector(*c.parameters.get(word, default))
    square = given @ given
    if not square > 0:
        raise ModelError(f"constraint {c.name!r}", [f"{word} {tuple(given)} has no direction: it must not be zero"])
    unit = given if square == 1 else given / scalars.sqrt(square)
    return unit, plane_directions(unit)


def _callable(c: Constraint, word: str) -> Callable[..., Any]:
    function = c.parameters.get(word)
    if not callable(function):
        raise ModelError(f"constraint {c.name!r}", [f"kind {c.kind!r} needs {word}=, a plain NumPy function"])
    return function  # type: ignore[no-any-return]
