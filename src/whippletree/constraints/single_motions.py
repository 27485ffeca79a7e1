"""Clusters whose rows leave one motion, or none: the smallest step of an embedding.

Most loops of machines have one freedom: k rows on k + 1 velocities. Then the dagger terms need no factor of D, and not
even D: with the motion x that the rows allow, A x = 0, and the least accelerations p that meet them, A p = −γ,

    D† = x xᵀ / δ,    δ = xᵀ D x        θ̈ = p + x y,    y = xᵀ (τ − τ_p − Fᵀ α) / δ        P⁺ = I_C − (F x)(F x)ᵀ / δ

where D x and F x are the joint forces and the wrench on the root body that the accelerations x cause, one pass over the
members, and τ_p the joint forces at θ̈ = p. The entries of x are the cofactors of A, polynomials that vanish together
only where A loses rank: no velocity is chosen, and no choice has a dead point. Where the rows leave no motion, x is
empty and θ̈ = p.

Forces of the rows follow from the joint forces T of the whole motion: A Aᵀ f = A (T − τ).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.constraints import kkt
from whippletree.constraints.cluster_members import (
    Standing,
    standing_forces,
    sum_of_inertias,
    without_velocity_terms,
)
from whippletree.constraints.loop_clusters import ClusterKind
from whippletree.spatial import RigidInertia
from whippletree.tree.links import Link, dense, transform_inertia

MOST_COFACTOR_ROWS = 8
"""Rows up to which cofactors are taken: k rows cost up to k 2ᵏ products, fewer where A has zeros."""


FEW_ROWS = 2
"""Rows up to which minors are sums of two products, as good as the entries of A."""


class MotionFactor(NamedTuple):
    """Quantities that are kept of such a cluster."""

    loads: tuple[Any, ...]
    """Inertia of each member with what the clusters on it add, seen at θ̈ = 0."""
    A: Array
    """(k, n)."""
    gram: linalg.LDLT
    """Of A Aᵀ."""
    diagonal: Array
    """Of A Aᵀ, (k,)."""
    squares: Array
    """|Aᵢ|² at a generic configuration, (k,)."""
    x: Array
    """The motion (n, d), d ≤ 1."""
    felt: Array
    """F x (6, d)."""
    reciprocal: Array
    """1/δ (d,)."""

    def particular(self, gamma: Array) -> Array:
        """p (n,): the least accelerations with A p = −γ."""
        return np.asarray(-(self.A.T @ self.gram.solve(gamma)))

    def along(self, forces: Array) -> Array:
        """y (d,): how the motion answers to joint forces (n,)."""
        return np.asarray((self.x.T @ forces) * self.reciprocal)

    def stand(
        self, kind: ClusterKind, links: tuple[Link, ...], on_ports: dict[int, Any], tau: Any, gamma: Array, base: Array
    ) -> tuple[Array, Standing]:
        """How the cluster answers while its root body does not accelerate, and the wrench that the root body feels."""
        p = self.particular(gamma)
        forces, z = standing_forces(kind, links, self.loads, on_ports, base, p)
        excess = np.concatenate(tau) - np.concatenate(forces)
        y = self.along(excess)
        return zeros(6) if kind.grounded else z + self.felt @ y, Standing(p + self.x @ y, excess)

    def move(self, kind: ClusterKind, links: tuple[Link, ...], own: Standing, root: Array) -> tuple[Array, Array]:
        """θ̈ (n,) and f (k,) where the root body accelerates; the world does not."""
        qdd, excess = own
        root = zeros(6) if kind.grounded else root
        change = -(self.felt.T @ root) * self.reciprocal
        moved = self.x @ (self.along(excess) + change)
        forces, _ = standing_forces(kind, without_velocity_terms(links), self.loads, {}, root, moved)
        return qdd + self.x @ change, self.gram.solve(self.A @ (np.concatenate(forces) - excess))

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        """How far the pivots of A Aᵀ are above their share of the rows' squares, here and at a generic configuration.

        Of one or two rows their product is enough: det A Aᵀ, the square of the motion (Cauchy and Binet).
        """
        if len(self.A) <= FEW_ROWS and self.x.shape[1]:
            return [(kkt.ROWS, self.x[:, 0] @ self.x[:, 0] - tolerance * reduce(mul, self.squares))]
        pivots = zip(self.gram.pivots, self.diagonal, self.squares, strict=True)
        return [(kkt.ROWS, pivot - tolerance * square) for pivot, *squares in pivots for square in squares]


def suits(kind: ClusterKind) -> bool:
    """Whether a kind of cluster is one of these: rigid rows that leave at most one motion."""
    k = len(kind.kept)
    return 0 < k <= MOST_COFACTOR_ROWS and kind.nv - k in (0, 1) and not any(kind.compliance)


def factor_motion(
    kind: ClusterKind, links: tuple[Link, ...], ports: tuple[Any, ...], A: Array
) -> tuple[MotionFactor, Array]:
    """The factor of a cluster, and P⁺ (6, 6) for its root body; zeros where that is the world."""
    on_ports = dict(zip(kind.ports, ports, strict=False))
    loads = tuple(dense(link.M) + on_ports[k] if k in on_ports else link.M for k, link in enumerate(links))
    gram = linalg.symmetric_product(A, A)
    solver = linalg.ldlt(gram, lenient=True)
    x = null_vector(A).reshape(kind.nv, -1)
    if len(A) > FEW_ROWS:
        # minors of many rows lose digits to cancellation: what they have of other motions is taken away
        x = x - A.T @ solver.solve(A @ x)
    still = without_velocity_terms(links)
    felt, reciprocal = zeros(6, x.shape[1]), zeros(x.shape[1])
    for i, motion in enumerate(x.T):
        forces, felt[:, i] = standing_forces(kind, still, loads, {}, zeros(6), motion)
        reciprocal[i] = linalg.reciprocal(np.concatenate(forces) @ motion, lenient=True)
    squares = np.array(kind.squares, dtype=object)
    factor = MotionFactor(loads, A, solver, np.diag(gram), squares, x, felt, reciprocal)
    return factor, zeros(6, 6) if kind.grounded else _left_over(kind, links, factor)


def _left_over(kind: ClusterKind, links: tuple[Link, ...], factor: MotionFactor) -> Array:
    """P⁺ = I_C − (F x)(F x)ᵀ / δ, one triangle."""
    I_C = composite_inertia(kind, links, factor.loads)
    for i, reciprocal in enumerate(factor.reciprocal):
        own = factor.felt[:, i]
        I_C = I_C - linalg.symmetric_product(own[:, None], (own * reciprocal)[:, None])
    return I_C


def composite_inertia(kind: ClusterKind, links: tuple[Link, ...], loads: Sequence[Any]) -> Array:
    """I_C (6, 6) at the root body: the members with their loads, joints held."""
    R: list[Any] = list(loads)
    total: Any = RigidInertia.nothing()
    for k in reversed(range(len(links))):
        own = transform_inertia(R[k], links[k].X)
        if kind.parents[k] >= 0:
            R[kind.parents[k]] = sum_of_inertias(R[kind.parents[k]], own)
        else:
            total = sum_of_inertias(total, own)
    return dense(total)


def null_vector(A: Array) -> Array:
    """x (k + 1,) with A x = 0 for k rows: the signed minors of A, all zero where its rank is less than k.

    Nothing, (0,), for as many rows as columns. Minors of the last rows are computed once each: row by row, those of r
    rows from those of r − 1 by Laplace's expansion.
    """
    k, n = A.shape
    if n == k:
        return zeros(0)
    assert n == k + 1
    minors: dict[tuple[int, ...], Any] = {(): 1}
    for r in range(1, k + 1):
        row = A[k - r]
        found: dict[tuple[int, ...], Any] = {}
        for columns in combinations(range(n), r):
            total: Any = 0
            for place, j in enumerate(columns):
                term = row[j] * minors[columns[:place] + columns[place + 1 :]]
                total = total - term if place % 2 else total + term
            found[columns] = total
        minors = found
    every = tuple(range(n))
    return vector(*[minors[every[:i] + every[i + 1 :]] * (-1 if i % 2 else 1) for i in range(n)])
