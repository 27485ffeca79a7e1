"""Joint types: how a child moves against its parent.

Each type offers, on any scalar and for its own part of q and v:

    pose(q)            X(q), pose of the child in the joint frame
    subspace(q)        H* (6, nv): columns are the child's twists for unit velocities, in the child's frame
    bias(q, v)         Ḣ* v (6,): what remains of the child's relative acceleration when the velocities are constant
    rate(q, v)         q̇ (nq,)
    integrate(q, d)    q ⊕ d: where the constant velocity d leads in unit time
    difference(q, r)   the d with q ⊕ d = r

(Document 002 writes the subspace as H with forces T = H f; here H is that matrix transposed, so that columns are
motions, as in most code. The theory in :mod:`whippletree.tree.operators` uses the document's H.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, identity, vector, zeros
from whippletree.errors import NameLookupError
from whippletree.spatial.vectors import Pose, cross, join, quaternion_product, quaternion_rotation, rotation_about, skew

SMALL_ANGLE = 2.0**-10
"""Below this angle (rad) sin(x)/x and its kin are series of five terms: the next one is below 1e-33."""

KINDS = (
    "revolute",
    "prismatic",
    "helical",
    "cylindrical",
    "universal",
    "planar",
    "spherical",
    "free",
    "weld",
)


FLEXIBLE_KINDS = ("modal", "port")
"""Kinds that only a flexible body has (:mod:`whippletree.spatial.modal`): its modes, and a frame that they move."""


class JointType(Protocol):
    """Interface of every joint type; see the module's docstring."""

    @property
    def nq(self) -> int: ...
    @property
    def nv(self) -> int: ...
    @property
    def neutral(self) -> tuple[Any, ...]: ...
    def pose(self, q: Array) -> Pose: ...
    def subspace(self, q: Array) -> Array: ...
    def bias(self, q: Array, v: Array) -> Array: ...
    def rate(self, q: Array, v: Array) -> Array: ...
    def integrate(self, q: Array, d: Array) -> Array: ...
    def difference(self, q: Array, r: Array) -> Array: ...


class _Flat:
    """A joint whose coordinates are plain numbers with q̇ = v."""

    nq = nv = 1

    @property
    def neutral(self) -> tuple[Any, ...]:
        return (0,) * self.nq

    def bias(self, q: Array, v: Array) -> Array:
        return zeros(6)

    def rate(self, q: Array, v: Array) -> Array:
        return v

    def integrate(self, q: Array, d: Array) -> Array:
        return q + d

    def difference(self, q: Array, r: Array) -> Array:
        return r - q


@dataclass(frozen=True, eq=False)
class Screw(_Flat):
    """Revolute (pitch 0) and helical joints: a turn about an axis, with an advance of ``pitch`` metres per radian."""

    axis: Array
    pitch: Any = 0

    def pose(self, q: Array) -> Pose:
        return Pose(rotation_about(self.axis, scalars.sin(q[0]), scalars.cos(q[0])), self.pitch * q[0] * self.axis)

    def subspace(self, q: Array) -> Array:
        return join(self.axis, self.pitch * self.axis).reshape(6, 1)


@dataclass(frozen=True, eq=False)
class Prismatic(_Flat):
    """A slide along an axis."""

    axis: Array

    def pose(self, q: Array) -> Pose:
        return Pose(identity(3), q[0] * self.axis)

    def subspace(self, q: Array) -> Array:
        return join(zeros(3), self.axis).reshape(6, 1)


@dataclass(frozen=True, eq=False)
class Cylindrical(_Flat):
    """A turn about and a slide along one axis; q = (angle, advance)."""

    axis: Array
    nq = nv = 2

    def pose(self, q: Array) -> Pose:
        return Pose(rotation_about(self.axis, scalars.sin(q[0]), scalars.cos(q[0])), q[1] * self.axis)

    def subspace(self, q: Array) -> Array:
        return np.stack([join(self.axis, zeros(3)), join(zeros(3), self.axis)], axis=1)


@dataclass(frozen=True, eq=False)
class Universal(_Flat):
    """A turn about ``axis``, fixed in the parent, then about ``second_axis``, fixed in the child."""

    axis: Array
    second_axis: Array
    nq = nv = 2

    def _second(self, q: Array) -> Array:
        return rotation_about(self.second_axis, scalars.sin(q[1]), scalars.cos(q[1]))

    def pose(self, q: Array) -> Pose:
        first = rotation_about(self.axis, scalars.sin(q[0]), scalars.cos(q[0]))
        return Pose(first @ self._second(q), zeros(3))

    def subspace(self, q: Array) -> Array:
        return np.stack([join(self._second(q).T @ self.axis, zeros(3)), join(self.second_axis, zeros(3))], axis=1)

    def bias(self, q: Array, v: Array) -> Array:
        # the first axis, seen from the child, turns with −(second axis) q̇₂
        first = self._second(q).T @ self.axis
        return join(cross(first, self.second_axis) * (v[0] * v[1]), zeros(3))


@dataclass(frozen=True, eq=False)
class Planar(_Flat):
    """A slide in the plane normal to ``axis`` and a turn about it; q = (x, y, angle), v = q̇.

    x and y are measured along two fixed directions of the joint frame (:func:`plane_directions`), not of the child.
    """

    axis: Array
    nq = nv = 3

    def _turn(self, q: Array) -> Array:
        return rotation_about(self.axis, scalars.sin(q[2]), scalars.cos(q[2]))

    def pose(self, q: Array) -> Pose:
        x, y = plane_directions(self.axis)
        return Pose(self._turn(q), q[0] * x + q[1] * y)

    def subspace(self, q: Array) -> Array:
        back = self._turn(q).T
        slides = [join(zeros(3), back @ direction) for direction in plane_directions(self.axis)]
        return np.stack([*slides, join(self.axis, zeros(3))], axis=1)

    def bias(self, q: Array, v: Array) -> Array:
        # the directions of the slides turn backwards when seen from the child
        x, y = plane_directions(self.axis)
        slide = self._turn(q).T @ (v[0] * x + v[1] * y)
        return join(zeros(3), -cross(self.axis * v[2], slide))


class Spherical:
    """Any rotation; q is a quaternion (w, x, y, z), v the angular velocity in the child's frame."""

    nq, nv = 4, 3
    neutral = (1, 0, 0, 0)

    def pose(self, q: Array) -> Pose:
        return Pose(quaternion_rotation(*q), zeros(3))

    def subspace(self, q: Array) -> Array:
        return np.concatenate([identity(3), zeros(3, 3)])

    def bias(self, q: Array, v: Array) -> Array:
        return zeros(6)

    def rate(self, q: Array, v: Array) -> Array:
        return quaternion_product(q, vector(0, *v)) / 2

    def integrate(self, q: Array, d: Array) -> Array:
        return unit_quaternion(self.turn_quaternion(q, d))

    def turn_quaternion(self, q: Array, d: Array) -> Array:
        """The quaternion after a turn d, of the length of q but for rounding."""
        half_cosine, factor = _half_turn(d)
        return quaternion_product(q, vector(half_cosine, *(factor * d)))

    def difference(self, q: Array, r: Array) -> Array:
        w, *xyz = quaternion_product(vector(q[0], -q[1], -q[2], -q[3]), r)
        return _rotation_vector(w, vector(*xyz))


class Free:
    """Any motion; q = (position, quaternion), v the twist in the child's frame (angular, linear)."""

    nq, nv = 7, 6
    neutral = (0, 0, 0, 1, 0, 0, 0)
    _turn = Spherical()

    def pose(self, q: Array) -> Pose:
        return Pose(quaternion_rotation(*q[3:]), q[:3])

    def subspace(self, q: Array) -> Array:
        return identity(6)

    def bias(self, q: Array, v: Array) -> Array:
        return zeros(6)

    def rate(self, q: Array, v: Array) -> Array:
        return join(quaternion_rotation(*q[3:]) @ v[3:], self._turn.rate(q[3:], v[:3]))

    def integrate(self, q: Array, d: Array) -> Array:
        """The motion along the screw of the constant twist d."""
        travel = quaternion_rotation(*q[3:]) @ (_screw_travel(d[:3]) @ d[3:])
        return join(q[:3] + travel, self._turn.integrate(q[3:], d[:3]))

    def turning(self, v: Array) -> Array:
        """ω × v (6,): what v̇ lacks of the origin's acceleration, because the axes of v turn with the child."""
        return join(zeros(3), cross(v[:3], v[3:]))

    def straight(self, q: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """Coordinates and velocity after a displacement d whose linear part is a straight line; v keeps its direction
        in space."""
        return self.straight_after_turn(q, self.turn_quaternion(q, d), v, d)

    def turn_quaternion(self, q: Array, d: Array) -> Array:
        """The quaternion after a displacement d, of the length of that in q but for rounding."""
        return self._turn.turn_quaternion(q[3:], d[:3])

    def straight_after_turn(self, q: Array, turned: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """:meth:`straight` after its turn, for which ``turned`` is of any length."""
        R = quaternion_rotation(*q[3:])
        linear = quaternion_rotation(*turned).T @ (R @ v[3:])
        return join(q[:3] + R @ d[3:], unit_quaternion(turned)), join(v[:3], linear)

    def difference(self, q: Array, r: Array) -> Array:
        turn = self._turn.difference(q[3:], r[3:])
        travel = quaternion_rotation(*q[3:]).T @ (r[:3] - q[:3])
        return join(turn, _solve3(_screw_travel(turn), travel))


class Weld(_Flat):
    """No motion."""

    nq = nv = 0

    def pose(self, q: Array) -> Pose:
        return Pose.identity()

    def subspace(self, q: Array) -> Array:
        return zeros(6, 0)


def make(kind: str, axis: Array, second_axis: Array, pitch: Any) -> JointType:
    """The joint type of a kind; the arguments that a kind does not need are ignored."""
    axis, second = np.asarray(axis).astype(object), np.asarray(second_axis).astype(object)
    match kind:
        case "revolute":
            return Screw(axis)
        case "helical":
            return Screw(axis, pitch)
        case "prismatic":
            return Prismatic(axis)
        case "cylindrical":
            return Cylindrical(axis)
        case "universal":
            return Universal(axis, second)
        case "planar":
            return Planar(axis)
        case "spherical":
            return Spherical()
        case "free":
            return Free()
        case "weld":
            return Weld()
        case _:
            raise NameLookupError("joint kind", kind, KINDS)


def plane_directions(axis: Array) -> tuple[Array, Array]:
    """Two unit directions that make a right-handed frame with a unit axis: (x, y) for z, (y, z) for x, (z, x) for y.

    For a general axis, the columns of the rotation that turns z into the axis along the shortest way.
    """
    R = rotation_to(axis)
    return R[:, 0], R[:, 1]


def rotation_to(axis: Array) -> Array:
    """A rotation whose third column is the unit axis: a permutation for coordinate axes, rational for rational ones."""
    x, y, z = axis
    if x == 0 and y == 0 and z == 1:
        return identity(3)
    if x == 1:
        return np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=object)
    if y == 1:
        return np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=object)
    if z < 0 or x == -1 or y == -1:
        # the rotation to the opposite axis, turned half-way round its own x: no division by a small 1 + z
        return rotation_to(-axis) * vector(1, -1, -1)
    f = 1 / (1 + z)
    return np.array([[1 - x * x * f, -x * y * f, x], [-x * y * f, 1 - y * y * f, y], [-x, -y, z]], dtype=object)


def unit_quaternion(q: Array) -> Array:
    """q (4,) at length 1."""
    return np.asarray(q * (1 / scalars.sqrt(q @ q)))


def _half_turn(d: Array) -> tuple[Any, Any]:
    """cos(|d|/2) and sin(|d|/2)/|d|, by series near zero."""
    square = d @ d
    tiny = scalars.less(square, SMALL_ANGLE * SMALL_ANGLE)
    angle = scalars.sqrt(scalars.select(tiny, 1, square))
    s = square / 4
    # 1 − s/6 (1 − s/20 (1 − s/42 (1 − s/72))) and 1 − s/2 (1 − s/12 (1 − s/30 (1 − s/56))), one division each
    series = (362880 - s * (60480 - s * (3024 - s * (72 - s)))) / 725760
    series_cosine = (40320 - s * (20160 - s * (1680 - s * (56 - s)))) / 40320
    half = angle / 2
    return (
        scalars.select(tiny, series_cosine, scalars.cos(half)),
        scalars.select(tiny, series, scalars.sin(half) / angle),
    )


def _screw_travel(d: Array) -> Array:
    """∫₀¹ exp(d̂ t) dt (3, 3): what a constant linear velocity becomes while the frame turns by d."""
    square = d @ d
    tiny = scalars.less(square, SMALL_ANGLE * SMALL_ANGLE)
    safe = scalars.select(tiny, 1, square)
    angle = scalars.sqrt(safe)
    x = square
    first = (1 - x / 12 * (1 - x / 30 * (1 - x / 56 * (1 - x / 90)))) / 2
    second = (1 - x / 20 * (1 - x / 42 * (1 - x / 72 * (1 - x / 110)))) / 6
    first = scalars.select(tiny, first, (1 - scalars.cos(angle)) / safe)
    second = scalars.select(tiny, second, (angle - scalars.sin(angle)) / (safe * angle))
    outer = np.multiply.outer(d, d) - identity(3) * square
    return np.asarray(identity(3) + first * skew(d) + second * outer)


def _rotation_vector(w: Any, xyz: Array) -> Array:
    """The rotation vector of a unit quaternion, the shorter way round."""
    flip = scalars.select(scalars.less(w, 0), -1, 1)
    w, xyz = w * flip, xyz * flip
    square = xyz @ xyz
    tiny = scalars.less(square, SMALL_ANGLE * SMALL_ANGLE)
    sine = scalars.sqrt(scalars.select(tiny, 1, square))
    # asin(s)/s near zero; s² = square because the quaternion has unit length
    s = square
    series = 1 + s / 6 * (1 + s * 9 / 20 * (1 + s * 25 / 42 * (1 + s * 49 / 72)))
    factor = scalars.select(tiny, series, scalars.atan2(sine, w) / sine)
    return np.asarray(2 * factor * xyz)


def _solve3(A: Array, b: Array) -> Array:
    """A⁻¹ b for a (3, 3) matrix, by cross products."""
    r0, r1, r2 = cross(A[1], A[2]), cross(A[2], A[0]), cross(A[0], A[1])
    return np.asarray((r0 * b[0] + r1 * b[1] + r2 * b[2]) / (A[0] @ r0))
