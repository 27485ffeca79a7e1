"""Forward dynamics: the accelerations of a tree under given joint forces, O(N), by articulated inertias.

Three passes (the links of :mod:`whippletree.tree.links` are the first):

    inwards    P = M + Σ φ P⁺ φ*      U = P H*    D = H U + J    K = U D⁻¹      P⁺ = P − K Uᵀ
               z = b + Σ φ z⁺         ε = T − H z                              z⁺ = z + P⁺ a + K ε
    outwards   α⁺ = φ* α(parent) + a        θ̈ = D⁻¹ ε − Kᵀ α⁺                  α = α⁺ + H* θ̈

P is the articulated inertia, the solution of the Riccati equation of document 002; K is the gain that Jain (2011) calls
G (the K of 002 is E_φ G, the same gain shifted to the parent). The document adds a after the joint's own step; here it
enters before (Featherstone 2008, §7.3), where P⁺ has more zeros.

Hybrid dynamics gives some joints their forces, the others their accelerations, in O(N) too (002, recap). A prescribed
joint is not eliminated on the way inwards, P⁺ = P: it hands its articulated inertia on whole, with the wrench that its
own acceleration costs. On the way outwards its acceleration is known, and its force is read off.

A rotor that turns has a share r of b. It pulls at its own joint, so it stays in ε, and is taken out of z⁺.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.links import Link, dense
from whippletree.tree.sweeps import Field, Sweeper


class ArticulatedBody(NamedTuple):
    """Quantities that travel inwards: articulated inertia (m, m) and bias wrench (m,)."""

    P: Any
    z: Any


class Freedom(NamedTuple):
    """Quantities that a joint keeps for the way out; D = H P H* + J is kept in factored form."""

    K: Array
    """Gain, (m, n)."""
    nu: Array
    """D⁻¹ ε, (n,)."""
    pivots: Array
    """Pivots of D, all positive exactly when this joint's motion has inertia, (n,)."""


NOTHING = ArticulatedBody(0, 0)


def forward_dynamics(sweep: Sweeper, links: Field, tau: Field, base: Any) -> Field:
    """θ̈ of every joint; ``base`` is the acceleration of the world, −g."""
    return release(sweep, links, articulate(sweep, links, tau), base)


def articulate(sweep: Sweeper, links: Field, tau: Field) -> Field:
    """The pass inwards: a :class:`Freedom` for every joint."""
    return sweep.gather(eliminate_joint, NOTHING, links, tau)


def release(sweep: Sweeper, links: Field, freedoms: Field, base: Any) -> Field:
    """The pass outwards: θ̈ of every joint."""
    return sweep.scatter(release_joint, base, links, freedoms)


def eliminate_joint(children: ArticulatedBody, link: Link, tau: Array) -> tuple[ArticulatedBody, Freedom]:
    """One step inwards: what a joint under a force (n,) hands to its parent, and what it keeps."""
    P, z = _with_children(children, link)
    K, D, rest = split_inertia(P, link.H, link.J)
    epsilon = tau - link.H.T @ z
    outwards = z + K @ epsilon + rest @ (zeros(len(link.H)) + link.a)
    return _to_parent(link, rest, outwards), Freedom(K, D.solve(epsilon), D.pivots)


def release_joint(parent: Array, link: Link, freedom: Freedom) -> tuple[Array, Array]:
    """One step outwards: a body's acceleration (m,) and its joint's θ̈ (n,) from its parent's acceleration."""
    alpha = link.X.motion(parent) + link.a
    qdd = freedom.nu - freedom.K.T @ alpha
    return alpha + link.H @ qdd, qdd


def _with_children(children: ArticulatedBody, link: Link) -> ArticulatedBody:
    """The body with all that its children have handed to it."""
    return ArticulatedBody(dense(link.M) + children.P, zeros(len(link.H)) + link.b + children.z)


def _to_parent(link: Link, P: Array, z: Array) -> ArticulatedBody:
    """An inertia and a bias wrench as the parent sees them; the rotor's share of the wrench stays at the joint."""
    return ArticulatedBody(link.X.inertia(P), link.X.force(z - link.r))


def split_inertia(P: Array, H: Array, J: Any) -> tuple[Array, linalg.LDLT, Array]:
    """K, the factors of D, and P⁺ = P − K D Kᵀ: the inertia with and without the joint's freedom.

    Where the subspace is made of unit vectors and the joint has no rotor, K is 1 and P⁺ is 0 along them, exactly: these
    entries are written down, not computed.
    """
    n = H.shape[1]
    if n == 0:  # a frame of a flexible body
        return zeros(len(P), 0), linalg.ldlt(zeros(0, 0)), P
    U = P @ H
    D = linalg.ldlt(H.T @ U + J * identity(n), lenient=True)
    K = D.solve(U.T).T
    along = _unit_rows(H) if is_zero(J) else []
    for column, row in enumerate(along):
        K[row] = 0
        K[row, column] = 1
    size = len(P)
    rest = zeros(size, size)
    for i in range(size):
        for j in range(i, size):
            if i not in along and j not in along:
                rest[i, j] = rest[j, i] = P[i, j] - K[i] @ U[j]
    return K, D, rest


def _unit_rows(H: Array) -> list[int]:
    """The rows that the columns of H select, if each column is a unit vector of exact numbers; else nothing."""
    rows = []
    for column in H.T:
        if not all(isinstance(x, (int, float)) for x in column):
            return []
        support = np.flatnonzero(column)
        if len(support) != 1 or column[support[0]] != 1:
            return []
        rows.append(int(support[0]))
    return rows


# --- hybrid dynamics --------------------------------------------------------------------------------------------------


class PrescribedJoint(NamedTuple):
    """Quantities that a prescribed joint keeps: its force is H (P α + z) + J θ̈."""

    P: Array
    z: Array


class JointOutcome(NamedTuple):
    """A joint's acceleration and force, (n,) each; one of them was given."""

    qdd: Array
    effort: Array
    pivots: Array
    """Pivots of D where the force was given (:class:`~whippletree.tree.forward.Freedom`); none where it was not."""


def hybrid_dynamics(sweep: Sweeper, links: Field, prescribed: Field, given: Field, base: Any) -> Field:
    """A :class:`JointOutcome` for every joint.

    Args:
        links: the bodies at one state.
        prescribed: whether each joint's acceleration is given (True) or its force (False).
        given: that acceleration or force, (n,).
        base: acceleration of the world, −g.
    """

    def inwards(children: ArticulatedBody, link: Link, fixed: bool, given: Array) -> tuple[ArticulatedBody, Any]:
        if not fixed:
            return eliminate_joint(children, link, given)
        P, z = _with_children(children, link)
        return _to_parent(link, P, z + P @ (link.a + link.H @ given)), PrescribedJoint(P, z)

    def outwards(parent: Array, link: Link, kept: Any, given: Array) -> tuple[Array, JointOutcome]:
        if isinstance(kept, PrescribedJoint):
            alpha = link.X.motion(parent) + link.a + link.H @ given
            return alpha, JointOutcome(given, link.H.T @ (kept.P @ alpha + kept.z) + link.J * given, zeros(0))
        alpha, qdd = release_joint(parent, link, kept)
        return alpha, JointOutcome(qdd, given, kept.pivots)

    return sweep.scatter(outwards, base, links, sweep.gather(inwards, NOTHING, links, prescribed, given), given)


def forward_dynamics_squared(sweep: Sweeper, links: Field, tau: Field, base: Any) -> Array:
    """θ̈ by the O(N²) road: bias forces and mass matrix by inverse dynamics, then a dense solve.

    Kept as the textbook's comparison; :func:`~whippletree.tree.forward.forward_dynamics` is O(N).
    """
    sizes = [len(t) for t in tau]
    ends = np.cumsum([0, *sizes])
    parts = [slice(a, b) for a, b in pairwise(ends)]

    def forces(qdd: Array) -> Array:
        return np.concatenate([zeros(0), *inverse_dynamics(sweep, links, [qdd[p] for p in parts], base)])

    bias = forces(zeros(ends[-1]))
    # symmetric, so its columns may be stacked as rows; reshaped because there may be none
    M = np.array([forces(e) - bias for e in identity(ends[-1])], dtype=object).reshape(ends[-1], ends[-1])
    return linalg.ldlt(M).solve(np.concatenate([zeros(0), *tau]) - bias)
