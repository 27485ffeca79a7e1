"""Spatial (6-D) vectors, poses and inertias on any scalar. Angular part first; body-frame quantities.

    V = (ω, v)     twist: angular velocity, velocity of the frame's origin, both in the frame's axes
    f = (n, f)     wrench: moment about the frame's origin, force
    P              inertia: maps accelerations to wrenches, symmetric (6, 6): [[A, B], [Bᵀ, C]]

A :class:`Pose` X_AB = (R, p) is the block weight φ(A, B) of document 002: ``force`` is φ, ``motion`` is φ*, and
``inertia`` is φ P φ*. Its structure (a rotation and a shift) is used here and nowhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, identity, vector, zeros
from whippletree.arithmetic.linalg import symmetric_product

ROTATION_NOISE = 4e-16
"""A rotation's entry this close to 0 or ±1 is that number: cos(π/2) is 6e-17 in floats. 1.5708 is data, not π/2. So is
0 an entry of a position that is this small beside the largest."""


def cross(a: Array, b: Array) -> Array:
    """a × b."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return vector(a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0)


def add_cross(c: Array, a: Array, b: Array) -> Array:
    """c + a × b, each entry as one chain of sums, so that every product fuses with a sum."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return vector(c[0] + a1 * b2 - a2 * b1, c[1] + a2 * b0 - a0 * b2, c[2] + a0 * b1 - a1 * b0)


def skew(a: Array) -> Array:
    """The matrix â with â b = a × b."""
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=object)


def join(top: Array, bottom: Array) -> Array:
    """A spatial vector from its angular and linear parts."""
    return np.concatenate([top, bottom])


def cross_motion(V: Array, U: Array) -> Array:
    """V × U: the rate of a twist U that is fixed in a frame moving with twist V."""
    return add_cross_motion(zeros(6), V, U)


def cross_force(V: Array, f: Array) -> Array:
    """V ×* f: the rate of a wrench f that is fixed in a frame moving with twist V."""
    return add_cross_force(zeros(6), V, f)


def add_cross_motion(c: Array, V: Array, U: Array) -> Array:
    """c + V × U, each entry as one chain of sums."""
    w, v = V[:3], V[3:]
    return join(add_cross(c[:3], w, U[:3]), add_cross(add_cross(c[3:], w, U[3:]), v, U[:3]))


def add_cross_force(c: Array, V: Array, f: Array) -> Array:
    """c + V ×* f, each entry as one chain of sums."""
    w, v = V[:3], V[3:]
    return join(add_cross(add_cross(c[:3], w, f[:3]), v, f[3:]), add_cross(c[3:], w, f[3:]))


def symmetric(upper: Array) -> Array:
    """The symmetric matrix with this upper triangle; the lower one is shared, not computed again."""
    full = upper.copy()
    for i in range(1, len(upper)):
        full[i, :i] = upper[:i, i]
    return full


def congruence(R: Array, A: Array) -> Array:
    """R A Rᵀ for a symmetric A, one triangle computed."""
    return symmetric_product(R @ A, R)


def _without_noise(R: Array) -> Array:
    """A rotation whose floats within ROTATION_NOISE of 0 or ±1 are exactly that; other scalars are left alone."""

    def snap(x: Any) -> Any:
        return round(x) + 0.0 if isinstance(x, float) and abs(x - round(x)) <= ROTATION_NOISE else x

    return np.array([[snap(x) for x in row] for row in R], dtype=object)


class Pose(NamedTuple):
    """X_AB: rotation R (3, 3) and position p (3,) of frame B in frame A."""

    R: Array
    p: Array

    @staticmethod
    def identity() -> Pose:
        """No rotation, no shift."""
        return Pose(identity(3), zeros(3))

    @staticmethod
    def from_matrix(X: Array) -> Pose:
        """From a (4, 4) pose; plain floats become Python floats, so that nothing but scalars is left."""
        X = np.asarray(X).astype(object)
        return Pose(X[:3, :3], X[:3, 3])

    def matrix(self) -> Array:
        """The (4, 4) pose."""
        X = identity(4)
        X[:3, :3], X[:3, 3] = self.R, self.p
        return X

    def __matmul__(self, other: Pose) -> Pose:
        """X_AC = X_AB X_BC."""
        return Pose(self.R @ other.R, self.R @ other.p + self.p)

    def inverse(self) -> Pose:
        """X_BA."""
        return Pose(self.R.T, -(self.R.T @ self.p))

    def without_noise(self) -> Pose:
        """The pose with floats that rounding left beside 0 or ±1 (in p beside 0) set to exactly that.

        A product of poses leaves 0.9999999999999999 and 1e-19 where algebra has 1 and 0, and only those fold away.
        """
        size = max((abs(x) for x in self.p if isinstance(x, float)), default=0.0)
        p = [0.0 if isinstance(x, float) and abs(x) <= ROTATION_NOISE * size else x for x in self.p]
        return Pose(_without_noise(self.R), vector(*p))

    def point(self, position: Array) -> Array:
        """A point given in B, in A."""
        return self.R @ position + self.p

    def motion(self, V: Array) -> Array:
        """φ* V: a twist of A, as the twist of a frame B fixed to it."""
        w, v = V[:3], V[3:]
        return join(self.R.T @ w, self.R.T @ add_cross(v, w, self.p))

    def motion_back(self, V: Array) -> Array:
        """φ*⁻¹ V: a twist of B, as the twist of a frame A fixed to it."""
        w = self.R @ V[:3]
        return join(w, add_cross(self.R @ V[3:], self.p, w))

    def force(self, f: Array) -> Array:
        """φ f: a wrench on B, as the same wrench on A."""
        force = self.R @ f[3:]
        return join(add_cross(self.R @ f[:3], self.p, force), force)

    def inertia(self, P: Array) -> Array:
        """φ P φ*: an inertia of B, carried to A."""
        R, p = self.R, self.p
        A, B, C = congruence(R, P[:3, :3]), R @ P[:3, 3:] @ R.T, congruence(R, P[3:, 3:])
        if not np.any(p != 0):
            return inertia_blocks(A, B, C)
        shift = skew(p)
        shifted = B + shift @ C
        # A + p̂ Bᵀ + B' p̂ᵀ is symmetric; only its upper triangle is computed
        upper = zeros(3, 3)
        for i in range(3):
            for j in range(i, 3):
                upper[i, j] = A[i, j] + shift[i] @ B[j] + shifted[i] @ shift[j]
        return inertia_blocks(symmetric(upper), shifted, C)

    def weight(self) -> Array:
        """φ as a dense (6, 6) matrix, for theory and tests."""
        return np.block([[self.R, skew(self.p) @ self.R], [zeros(3, 3), self.R]])


class Hinge(NamedTuple):
    """The pose of a revolute joint: a placement, then a turn about z. It acts as the whole pose does.

    Only an inertia is carried in two stages: turning a symmetric matrix about a coordinate axis costs half of what a
    general rotation costs, and keeps the zeros that the joint has left in it.
    """

    whole: Pose
    placement: Pose
    sine: Any
    cosine: Any

    @staticmethod
    def at(placement: Pose, sine: Any, cosine: Any) -> Hinge:
        """A hinge at a placement, turned by the angle of that sine and cosine."""
        turn = Pose(rotation_about(vector(0, 0, 1), sine, cosine), zeros(3))
        return Hinge(placement @ turn, placement, sine, cosine)

    @property
    def R(self) -> Array:
        return self.whole.R

    @property
    def p(self) -> Array:
        return self.whole.p

    def __matmul__(self, other: Pose) -> Pose:
        return self.whole @ other

    def motion(self, V: Array) -> Array:
        return self.whole.motion(V)

    def force(self, f: Array) -> Array:
        return self.whole.force(f)

    def weight(self) -> Array:
        return self.whole.weight()

    def inertia(self, P: Array) -> Array:
        turned = inertia_blocks(self._turn_block(P[:3, :3]), self._turn_block(P[:3, 3:]), self._turn_block(P[3:, 3:]))
        return self.placement.inertia(turned)

    def _turn_block(self, A: Array) -> Array:
        """Rz A Rzᵀ. The turn changes the upper left (2, 2) block only by its deviation from a multiple of the identity.

        With u = s (A₀₀ − A₁₁) + c (A₀₁ + A₁₀), its entries are A₀₀ − s u, c u − A₁₀, c u − A₀₁ and A₁₁ + s u.
        """
        s, c = self.sine, self.cosine
        u = s * (A[0, 0] - A[1, 1]) + c * (A[0, 1] + A[1, 0])
        return np.array(
            [
                [A[0, 0] - s * u, c * u - A[1, 0], c * A[0, 2] - s * A[1, 2]],
                [c * u - A[0, 1], A[1, 1] + s * u, s * A[0, 2] + c * A[1, 2]],
                [c * A[2, 0] - s * A[2, 1], s * A[2, 0] + c * A[2, 1], A[2, 2]],
            ],
            dtype=object,
        )


def inertia_blocks(A: Array, B: Array, C: Array) -> Array:
    """The (6, 6) inertia [[A, B], [Bᵀ, C]]."""
    P = np.empty((6, 6), dtype=object)
    P[:3, :3], P[:3, 3:], P[3:, :3], P[3:, 3:] = A, B, B.T, C
    return P


class RigidInertia(NamedTuple):
    """The inertia of a rigid body about a frame's origin: ten numbers instead of the twenty-one of a general one."""

    mass: Any
    moment: Array
    """First moment of mass, mass times centre, (3,)."""
    rotation: Array
    """Rotational inertia about the frame's origin, (3, 3)."""

    @staticmethod
    def about_center(mass: Any, center: Array, rotational: Array) -> RigidInertia:
        """From the rotational inertia about the centre of mass, by the parallel-axis theorem."""
        center, rotational = np.asarray(center).astype(object), np.asarray(rotational).astype(object)
        c = skew(center)
        A = zeros(3, 3)
        for i in range(3):
            for j in range(i, 3):
                A[i, j] = rotational[i, j] + mass * (c[i] @ c[j])
        return RigidInertia(mass, mass * center, symmetric(A))

    @staticmethod
    def nothing() -> RigidInertia:
        """The inertia of a massless body, exactly zero."""
        return RigidInertia(0, zeros(3), zeros(3, 3))

    @property
    def __array_priority__(self) -> int:
        """Above that of arrays, which then leave it to this class what a sum with it is."""
        return 1

    def __add__(self, other: Any) -> Any:
        """The inertia of two bodies welded together: a matrix where one of them is; 0 adds nothing."""
        if isinstance(other, RigidInertia):
            return RigidInertia(self.mass + other.mass, self.moment + other.moment, self.rotation + other.rotation)
        return self.dense() + other if isinstance(other, np.ndarray) else self

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __matmul__(self, V: Array) -> Array:
        """The momentum (or wrench) of a twist (or acceleration)."""
        w, v = V[:3], V[3:]
        return join(add_cross(self.rotation @ w, self.moment, v), add_cross(self.mass * v, w, self.moment))

    def dense(self) -> Array:
        """This inertia as a (6, 6) matrix."""
        return inertia_blocks(self.rotation, skew(self.moment), self.mass * identity(3))

    def transform(self, X: Pose) -> RigidInertia:
        """φ M φ*: the inertia about A's origin, in A's axes, of a body given about B, for X = X_AB."""
        h = X.R @ self.moment
        moment = h + self.mass * X.p
        A = congruence(X.R, self.rotation)
        if np.any(X.p != 0):
            # − p̂ ĥ − (h + m p)^ p̂, from the parallel-axis theorem used twice; symmetric as a whole
            p, hat, full = skew(X.p), skew(h), skew(moment)
            upper = zeros(3, 3)
            for i in range(3):
                for j in range(i, 3):
                    upper[i, j] = A[i, j] + p[i] @ hat[j] + full[i] @ p[j]
            A = symmetric(upper)
        return RigidInertia(self.mass, moment, A)


def rotation_about(axis: Array, sine: Any, cosine: Any) -> Array:
    """The rotation about a unit axis by the angle of that sine and cosine.

    About a coordinate axis the exact form is used, since 1 − (1 − cos) would neither fold nor round away.
    """
    K = skew(np.asarray(axis).astype(object))
    exact = [i for i in range(3) if isinstance(axis[i], (int, float)) and abs(axis[i]) == 1]
    if exact and all(isinstance(x, (int, float)) for x in axis):
        along = zeros(3, 3)
        along[exact[0], exact[0]] = 1
        return np.asarray(along + sine * K + cosine * (identity(3) - along))
    return np.asarray(identity(3) + sine * K + (1 - cosine) * (K @ K))


def quaternion_rotation(w: Any, x: Any, y: Any, z: Any) -> Array:
    """The rotation of a quaternion of any length but 0, where it is NaN: rational where the quaternion is."""
    s = scalars.quotient(2, w * w + x * x + y * y + z * z)
    wx, wy, wz = s * w * x, s * w * y, s * w * z
    xx, yy, zz = s * x * x, s * y * y, s * z * z
    xy, xz, yz = s * x * y, s * x * z, s * y * z
    return np.array(
        [
            [1 - (yy + zz), xy - wz, xz + wy],
            [xy + wz, 1 - (xx + zz), yz - wx],
            [xz - wy, yz + wx, 1 - (xx + yy)],
        ],
        dtype=object,
    )


def rotation_quaternion(R: Array) -> Array:
    """The quaternion (w, x, y, z) of a rotation matrix with w ≥ 0: cos(θ/2), and sin(θ/2) times the axis.

    It is a row of 4 q qᵀ, whose entries are sums of entries of R, divided by the root of its diagonal entry. The row
    with the largest such entry (at least 1) is taken, so nothing is divided by a small number at any angle. At half a
    turn q and −q have w = 0 alike, and rounding decides between them. Rational where the half angle's cosine is.
    """
    squares = np.array(
        [
            [1 + R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [R[2, 1] - R[1, 2], 1 + R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[0, 2] + R[2, 0]],
            [R[0, 2] - R[2, 0], R[1, 0] + R[0, 1], 1 + R[1, 1] - R[2, 2] - R[0, 0], R[2, 1] + R[1, 2]],
            [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[2, 1] + R[1, 2], 1 + R[2, 2] - R[0, 0] - R[1, 1]],
        ],
        dtype=object,
    )
    row, largest = squares[0], squares[0, 0]
    for k in (1, 2, 3):
        longer = scalars.less(largest, squares[k, k])
        row = vector(*[scalars.select(longer, a, b) for a, b in zip(squares[k], row, strict=True)])
        largest = scalars.select(longer, squares[k, k], largest)
    # the sign is chosen in the divisor, 2 |qₖ|, so that w ≥ 0
    root = scalars.sqrt(largest) * 2
    return np.asarray(row / scalars.select(scalars.less(row[0], 0), -root, root))


def quaternion_product(a: Array, b: Array) -> Array:
    """a ⊗ b, scalar part first."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return vector(
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )
