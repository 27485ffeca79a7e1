"""Clusters whose rows leave few motions, or none: the smallest step of an embedding.

Most loops of machines have one freedom: k rows on k + 1 velocities. Then the dagger terms need no factor of D, and not
even D: with the motion x that the rows allow, A x = 0, and some accelerations p that meet them, A p = −γ,

    D† = x xᵀ / δ,    δ = xᵀ D x        θ̈ = p + x y,    y = xᵀ (τ − τ_p − Fᵀ α) / δ        P⁺ = I_C − (F x)(F x)ᵀ / δ

where D x and F x are the joint forces and the wrench on the root body that the accelerations x cause, one pass over the
members, and τ_p the joint forces at θ̈ = p. Of several motions each is freed of what the ones before it feel of it,
xᵢᵀ D xⱼ = 0, so that they answer one by one: D† = Σ xᵢ xᵢᵀ / δᵢ. Where the rows leave no motion, x is empty and θ̈ = p.

No velocity is chosen whose choice would have a dead point. The motion that one or two rows leave has their cofactors as
entries, polynomials that vanish together only where A loses rank; more rows are taken away one by one
(:class:`whippletree.arithmetic.linalg.RowElimination`).

Forces f of the rows follow from the joint forces T of the whole motion: Aᵀ f = T − τ.
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
from whippletree.constraints.clusters.cluster_members import (
    Standing,
    loaded_members,
    standing_forces,
    sum_of_inertias,
    without_velocity_terms,
)
from whippletree.constraints.clusters.loop_clusters import ClusterKind
from whippletree.spatial import RigidInertia
from whippletree.spatial.vectors import cross
from whippletree.tree.links import Link, dense, transform_inertia

MOST_MOTIONS = 2
"""Motions up to which each takes a pass over the members, for fewer operations than D and its factors: three take a
tenth more (loops of five and six hinges)."""

FEW_ROWS = 2
"""Rows up to which minors are sums of two products, as good as the entries of A."""


class FewRows(NamedTuple):
    """One or two rows that leave one motion x, solved with by their pseudo-inverse.

    Of one row on two velocities that is Aᵀ / |A|², and |A|² = |x|². Two rows on three velocities are vectors of space
    with x = A₁ × A₂: A⁺ = (A₂ × x, x × A₁) / |x|². So the numbers of the motion are enough, with one division; a factor
    of A Aᵀ would take two, and square the condition of A.
    """

    A: Array
    """(k, k + 1)."""
    x: Array
    """(k + 1,)."""
    reciprocal: Any
    """1/|x|²."""

    def solve(self, b: Array) -> Array:
        """The least y (n,) with A y = b."""
        if len(self.A) == 1:
            return np.asarray(self.A[0] * (b[0] * self.reciprocal))
        return cross((self.A[1] * b[0] - self.A[0] * b[1]) * self.reciprocal, self.x)

    def multipliers(self, b: Array) -> Array:
        """f (k,) with Aᵀ f = b, where there is one."""
        if len(self.A) == 1:
            return np.asarray(self.A @ b * self.reciprocal)
        moment = cross(self.x, b) * self.reciprocal
        return vector(self.A[1] @ moment, -(self.A[0] @ moment))


class MotionFactor(NamedTuple):
    """Quantities that are kept of such a cluster."""

    loads: tuple[Any, ...]
    """Inertia of each member with what the clusters on it add, seen at θ̈ = 0."""
    rows: FewRows | linalg.RowElimination
    """A (k, n), to solve with."""
    squares: Array
    """|Aᵢ|² at a generic configuration, with that of this state where rows are eliminated, (k,)."""
    x: Array
    """The motions (n, d)."""
    felt: Array
    """F x (6, d)."""
    reciprocals: Array
    """1/δ (d,)."""

    def particular(self, gamma: Array) -> Array:
        """p (n,): accelerations with A p = −γ."""
        return self.rows.solve(-gamma)

    def along(self, forces: Array) -> Array:
        """y (d,): how the motions answer to joint forces (n,)."""
        return np.asarray((self.x.T @ forces) * self.reciprocals)

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
        change = -(self.felt.T @ root) * self.reciprocals
        moved = self.x @ (self.along(excess) + change)
        forces, _ = standing_forces(kind, without_velocity_terms(links), self.loads, {}, root, moved)
        return qdd + self.x @ change, self.rows.multipliers(np.concatenate(forces) - excess)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        """How far the squares of rows, as those before leave them, are above a share of what they are alone.

        Of one or two rows that leave a motion their product is enough: det A Aᵀ, its square (Cauchy and Binet).
        """
        if isinstance(self.rows, FewRows):
            return [(kkt.ROWS, self.x[:, 0] @ self.x[:, 0] - tolerance * reduce(mul, self.squares))]
        left = zip(self.rows.squares, self.squares, strict=True)
        return [(kkt.ROWS, square - tolerance * usual) for square, usual in left]


def suits(kind: ClusterKind) -> bool:
    """Whether a kind of cluster is one of these: rigid rows that leave one motion or none, or a few but more rows."""
    k = len(kind.kept)
    d = kind.nv - k
    return k > 0 and (d <= 1 or d <= min(MOST_MOTIONS, k - 1)) and not any(kind.compliance)


def factor_motion(
    kind: ClusterKind, links: tuple[Link, ...], ports: tuple[Any, ...], A: Array
) -> tuple[MotionFactor, Any]:
    """The factor of a cluster, and P⁺ (6, 6) for its root body; zeros where that is the world.

    Where nothing of it can move by itself, P⁺ is the inertia of a rigid body, and stays one.
    """
    on_ports = dict(zip(kind.ports, ports, strict=False))
    loads = loaded_members(links, on_ports)
    rows: FewRows | linalg.RowElimination
    squares = np.array(kind.squares, dtype=object)
    if len(A) <= FEW_ROWS and kind.nv == len(A) + 1:
        own = null_vector(A)
        rows, x = FewRows(A, own, linalg.reciprocal(own @ own, lenient=True)), own[:, None]
    else:
        rows = linalg.eliminate_rows(A, [square**0.5 for square in kind.squares])
        x, squares = rows.motions(), squares + np.array([row @ row for row in A], dtype=object)
        if x.shape[1] == 1:
            # what rounding left of other motions is taken away: Cassie's accelerations, whose motors turn a thousand
            # times faster than its knees, keep a digit more; where two motions share the rounding it changes nothing
            x[:, 0] = x[:, 0] - rows.solve(A @ x[:, 0])
    felt, reciprocals = zeros(6, x.shape[1]), zeros(x.shape[1])
    still, loaded = without_velocity_terms(links), zeros(*x.shape)
    for i in range(x.shape[1]):
        forces, felt[:, i] = standing_forces(kind, still, loads, {}, zeros(6), x[:, i])
        loaded[:, i] = np.concatenate(forces)
        for j in range(i):
            share = (x[:, j] @ loaded[:, i]) * reciprocals[j]
            for own in (x, loaded, felt):
                own[:, i] = own[:, i] - share * own[:, j]
        reciprocals[i] = linalg.reciprocal(loaded[:, i] @ x[:, i], lenient=True)
    factor = MotionFactor(loads, rows, squares, x, felt, reciprocals)
    return factor, zeros(6, 6) if kind.grounded else _left_over(kind, links, factor)


def _left_over(kind: ClusterKind, links: tuple[Link, ...], factor: MotionFactor) -> Any:
    """P⁺ = I_C − Σ (F xᵢ)(F xᵢ)ᵀ / δᵢ, one triangle."""
    I_C = composite_inertia(kind, links, factor.loads)
    for i, reciprocal in enumerate(factor.reciprocals):
        own = factor.felt[:, i]
        I_C = dense(I_C) - linalg.symmetric_product(own[:, None], (own * reciprocal)[:, None])
    return I_C


def composite_inertia(kind: ClusterKind, links: tuple[Link, ...], loads: Sequence[Any]) -> Any:
    """I_C (6, 6) at the root body: the members with their loads, joints held."""
    R: list[Any] = list(loads)
    total: Any = RigidInertia.nothing()
    for k in reversed(range(len(links))):
        own = transform_inertia(R[k], links[k].X)
        if kind.parents[k] >= 0:
            R[kind.parents[k]] = sum_of_inertias(R[kind.parents[k]], own)
        else:
            total = sum_of_inertias(total, own)
    return total


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
