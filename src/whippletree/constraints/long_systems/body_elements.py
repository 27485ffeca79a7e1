"""The elements of a body-level system: what one joint with its body, or one constraint, adds to it.

Each is a quadratic form K on the z unknowns that it touches, rows B on them, and h with θ̈ = hᵀ z − Hᵀ a.
:mod:`~whippletree.constraints.long_systems.body_system` says which unknowns these are and in which order they leave.

A joint's rows are α_rel = α − φ* α(parent) − a where its subspace H vanishes. A joint whose subspace fills the
components that it moves (all but helical and universal ones) has θ̈ = Hᵀ α_rel; others take θ̈ as unknowns of their own,
with rows for all components that they move. Rows enter K with a weight as well, K + Bᵀ R B, which changes no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.constraints.long_systems.row_weights import Weight
from whippletree.constraints.moving_residuals import (
    frame_acceleration,
    frame_coefficients,
    joint_acceleration,
    joint_coefficients,
)
from whippletree.constraints.rows import Prepared
from whippletree.spatial import Pose
from whippletree.spatial.joints import JointType
from whippletree.spatial.modal import PortWeight
from whippletree.tree.links import Link, dense

if TYPE_CHECKING:
    from whippletree.constraints.long_systems.body_system import Binding

GENERIC = (0.7390851332, -0.5671432904, 0.3574031847, 0.2078795763)
"""Coordinates at which no entry of a joint's subspace vanishes by chance; the same ones again for more."""


class JointShape(NamedTuple):
    """Contribution of a type of joint to the system, whatever its coordinates."""

    n: int
    blocked: tuple[int, ...]
    """Components of α_rel that are rows."""
    explicit: bool
    """Whether its accelerations θ̈ are unknowns of their own."""
    size: int = 6
    """Numbers of the body's acceleration; 6 and the modes of a flexible body."""

    @staticmethod
    def of(joint: JointType) -> JointShape:
        """The shape of a joint type, from where its subspace vanishes."""
        q = np.resize(np.array(GENERIC, dtype=object), joint.nq)
        H = joint.subspace(q)
        size = len(H)
        moved = [i for i in range(size) if any(x != 0 for x in H[i])]
        explicit = len(moved) > joint.nv
        still = [i for i in range(size) if i not in moved]
        return JointShape(joint.nv, tuple(range(size) if explicit else still), explicit, size)

    @property
    def moved(self) -> tuple[int, ...]:
        """Components of α_rel among which are all those that it moves."""
        return tuple(i for i in range(self.size) if self.explicit or i not in self.blocked)

    def lock(self) -> JointShape:
        """The joint, held."""
        return JointShape(0, tuple(range(self.size)), False, self.size)


class Element(NamedTuple):
    """Contribution of a joint with its body, or of a constraint, to the system, on the z unknowns that it touches."""

    K: Array
    """(z, z), weighted rows included; its lower triangle."""
    B: Array
    """Rows, (r, z)."""
    h: Array
    """(z, n) with θ̈ = hᵀ z − shift; of a constraint (z, 0)."""
    weights: tuple[Weight, ...]
    """ρ of the rows."""

    def load(self, b: Array, gamma: Array) -> Array:
        """b − Bᵀ R γ (z,): the right-hand side that belongs to K, for forces b (z,) on the unknowns and γ (r,).

        Columns of b and γ are several right-hand sides.
        """
        found = b
        for row, weight, bias in zip(self.B, self.weights, gamma, strict=True):
            found = found - np.multiply.outer(row, weight.times(bias))
        return np.asarray(found)


def joint_element(link: Link, shape: JointShape, grounded: bool, weights: tuple[Weight, ...]) -> Element:
    """The element of a body and its joint, on (α, α of the parent, θ̈): the last two where they are unknowns.

    ``grounded``: the parent is the world. ``weights``: of the rows.
    """
    size = shape.size
    above = zeros(size, 0) if grounded else motion_matrix(link.X)
    z = size + above.shape[1] + (shape.n if shape.explicit else 0)
    T = zeros(size, z)
    T[:, :size] = identity(size)
    T[:, size : size + above.shape[1]] = -above
    if shape.explicit:
        T[:, z - shape.n :] = -link.H
        h = zeros(z, shape.n)
        h[z - shape.n :] = identity(shape.n)
    else:
        h = T.T @ link.H[:, : shape.n]
    B = T[list(shape.blocked)]
    K = zeros(z, z)
    K[:size, :size] = dense(link.M)
    for column in h.T:
        K = _add_square(K, column, column * link.J)
    for row, weight in zip(B, weights, strict=True):
        K = _add_square(K, row, weight.times(row))
    return Element(K, B, h, weights)


def joint_bias(link: Link, shape: JointShape) -> tuple[Array, Array]:
    """γ (r,) of a joint's rows, and the shift (n,) with θ̈ = hᵀ z − shift."""
    a = zeros(shape.size) + link.a
    return -a[list(shape.blocked)], zeros(shape.n) if shape.explicit else link.H.T @ a


def motion_matrix(X: Any) -> Array:
    """φ* as a matrix (6, 6), or with modes as it may have: twists of a frame, as those of one fixed to it."""
    above = 6 + X.S.shape[1] if isinstance(X, PortWeight) else 6
    return np.stack([X.motion(e) for e in identity(above)], axis=1)


class ClosureElement(NamedTuple):
    """The factored rows of one demand."""

    element: Element
    """With rigid rows, and compliant ones in K: their forces −(S z + γ) / C stiffen it, and no unknown is left."""
    S: Array
    """Compliant rows, (s, z)."""
    stiffness: Array
    """1 / C of these, (s,)."""

    def load(self, rigid: Array, soft: Array) -> Array:
        """The right-hand side (z,) that belongs to K, of the rows' γ."""
        z = self.S.shape[1]
        found = self.element.load(zeros(z, *rigid.shape[1:]), rigid)
        return np.asarray(found - self.S.T @ (soft.T * self.stiffness).T) if len(self.S) else found

    def soft_forces(self, z: Array, gamma: Array) -> Array:
        """f (s,) of the compliant rows."""
        return np.asarray(-((self.S @ z + gamma).T * self.stiffness).T)


def closure_element(B: Array, weights: tuple[Weight, ...], S: Array, stiffness: Array) -> ClosureElement:
    """The element of rigid rows B (r, z) and compliant rows S (s, z)."""
    z = B.shape[1]
    K = zeros(z, z)
    for row, weight in zip(B, weights, strict=True):
        K = _add_square(K, row, weight.times(row))
    for row, own in zip(S, stiffness, strict=True):
        K = _add_square(K, row, row * own)
    return ClosureElement(Element(K, B, zeros(z, 0), weights), S, stiffness)


def tie_element(weights: tuple[Weight, ...]) -> Element:
    """The element of a copy of a body, on (α, α of what it is tied to): rows α − α(above) = 0."""
    rows = np.concatenate([identity(6), -identity(6)], axis=1)
    K = zeros(12, 12)
    for row, weight in zip(rows, weights, strict=True):
        K = _add_square(K, row, weight.times(row))
    return Element(K, rows, zeros(12, 0), weights)


def _add_square(K: Array, row: Array, scaled: Array) -> Array:
    """K + row scaledᵀ, lower triangle, where neither factor is exactly zero."""
    places = [i for i, x in enumerate(row) if not is_zero(x)]
    for i in places:
        for j in places:
            if j <= i and not is_zero(scaled[j]):
                K[i, j] = K[i, j] + row[i] * scaled[j]
    return K


class Held(NamedTuple):
    """A body that a constraint holds on to: its pose in the world, and its twist (6,)."""

    X: Pose
    V: Any


WORLD = Held(Pose.identity(), zeros(6))


def frame_rows(binding: Binding, poses: Sequence[Pose], held: Sequence[Held], t: Any) -> Array:
    """Rows (rows, z) on the accelerations of the bodies that a demand on frames feels, at ``poses`` on bodies."""
    seen = [body.X @ pose for body, pose in zip(held, poses, strict=True)]
    demand = binding.prepared.demand
    return np.concatenate([frame_coefficients(demand, seen, i, t) @ motion_matrix(poses[i]) for i in binding.felt], 1)


def frame_bias(c: Prepared, poses: Sequence[Pose], held: Sequence[Held], t: Any) -> Array:
    """γ (rows,) of a demand on frames: its acceleration where no body has one."""
    seen = [body.X @ pose for body, pose in zip(held, poses, strict=True)]
    twists = [pose.motion(zeros(6) + body.V) for body, pose in zip(held, poses, strict=True)]
    return frame_acceleration(c.demand, seen, twists, [zeros(6)] * len(seen), t)


class TiedJoint(NamedTuple):
    """A joint whose acceleration a constraint feels: coordinate, rate, h and shift of one freedom."""

    x: Any
    rate: Any
    h: Array
    shift: Any


def tied_rows(c: Prepared, joints: Sequence[TiedJoint], t: Any) -> Array:
    """Rows (rows, z) of a demand on joints, or of a freedom that is held, on the unknowns of each joint."""
    if c.demand.on != "joints":
        return np.concatenate([joint.h.reshape(1, -1) for joint in joints], axis=1)
    x = [joint.x for joint in joints]
    found = []
    for i, joint in enumerate(joints):
        column = joint_coefficients(c.demand, x, i, t)
        found.append(np.stack([own * joint.h for own in column]))
    return np.concatenate(found, axis=1)


def tied_bias(c: Prepared, joints: Sequence[TiedJoint], t: Any) -> Array:
    """γ (rows,) of a demand on joints, where no body has an acceleration."""
    changes = [-joint.shift for joint in joints]
    if c.demand.on != "joints":
        return np.array(changes, dtype=object)
    return joint_acceleration(c.demand, [joint.x for joint in joints], [joint.rate for joint in joints], changes, t)
