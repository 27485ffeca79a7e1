"""Hybrid dynamics: some joints are given their forces, the others their accelerations; O(N) (002, recap).

A prescribed joint is not eliminated on the way inwards: it hands its articulated inertia on whole, with the wrench that
its own acceleration costs. On the way outwards its acceleration is known, and its force is read off.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.tree.forward import NOTHING, Articulated, Freedom, split_inertia
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.links import Link, dense
from whippletree.tree.sweeps import Field, Sweeper


class Prescribed(NamedTuple):
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
    """An :class:`JointOutcome` for every joint.

    Args:
        links: the bodies at one state.
        prescribed: whether each joint's acceleration is given (True) or its force (False).
        given: that acceleration or force, (n,).
        base: acceleration of the world, −g.
    """

    def inwards(children: Articulated, link: Link, fixed: bool, given: Array) -> tuple[Articulated, Any]:
        P, z = dense(link.M) + children.P, zeros(len(link.H)) + link.b + children.z
        if fixed:
            moved = z + P @ (link.a + link.H @ given)
            return Articulated(link.X.inertia(P), link.X.force(moved)), Prescribed(P, z)
        K, D, rest = split_inertia(P, link.H, link.J)
        epsilon = given - link.H.T @ z
        handed = z + K @ epsilon + rest @ (zeros(len(link.H)) + link.a)
        message = Articulated(link.X.inertia(rest), link.X.force(handed))
        return message, Freedom(K, D.solve(epsilon), D.pivots)

    def outwards(parent: Array, link: Link, kept: Any, given: Array) -> tuple[Array, JointOutcome]:
        alpha = link.X.motion(parent) + link.a
        if isinstance(kept, Prescribed):
            alpha = alpha + link.H @ given
            return alpha, JointOutcome(given, link.H.T @ (kept.P @ alpha + kept.z) + link.J * given, zeros(0))
        qdd = kept.nu - kept.K.T @ alpha
        return alpha + link.H @ qdd, JointOutcome(qdd, given, kept.pivots)

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
