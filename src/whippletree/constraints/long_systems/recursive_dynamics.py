"""Constrained dynamics of long systems by sweeps alone: O(N m + m³), and as loops over bodies when compiled.

The factorisation of document 002, M = (1 + H φ K) D (1 + H φ K)*, turns every inner product with M⁻¹ into a plain sum
over joints:

    A M⁻¹ Aᵀ = Σ E D⁻¹ Eᵀ

where E (m, n) is what the inward pass of the articulated recursion leaves over of the m rows of A, carried along as m
more right-hand sides: wrenches on the frames that constraints hold, and forces on the joints that they tie. So no
column of M⁻¹ Aᵀ is ever formed:

    outwards   links, and the poses of the few nodes that rows hold on to
    inwards    P, z and the m columns; the sum above
    outwards   α and θ̈ without the constraints, of these few nodes: A a + γ as they move then
    once       (A M⁻¹ Aᵀ + C) f = −(A a + γ), m³
    outwards   θ̈ = D⁻¹ (ε + Eᵀ f) − Kᵀ α

Solutions of the block matrix for given right-hand sides go the same way, and nothing of size nv × nv is formed. The
passes are those of :mod:`whippletree.tree.forward`, at rest and without gravity (the bias is in b already), with k
right-hand sides at once:

    inwards    P as there, once        z (6, k) = Σ φ z⁺        ε = T − H z        z⁺ = z + K ε
    outwards   α⁺ = φ* α(parent)       θ̈ (n, k) = D⁻¹ ε − Kᵀ α⁺                   α = α⁺ + H* θ̈
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import ConstraintSet
from whippletree.constraints.long_systems.node_rows import LongRows, Moved, Pulls, Sighted, sight_nodes
from whippletree.spatial import symmetric
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense, joint_zeros
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.sweeps import Field


class LongSolution(NamedTuple):
    """Accelerations as a field, forces of the factored rows, and what tells whether they can be trusted."""

    a: Field
    f: Array
    complement: linalg.LDLT
    diagonal: Array
    """Of A M⁻¹ Aᵀ + C, (m,)."""


class Chosen(NamedTuple):
    """Which rows are factored, and how."""

    kept: Sequence[int]
    """Among all rows, (k,)."""
    corner: Array
    """Diagonal of C, with 1 for rows that are switched off, (k,)."""
    on: Array
    """1 for rows that are on, 0 for those that are off, (k,)."""


def solve(m: Mechanism, system: ConstraintSet, q: Any, v: Any, tau: Any, t: Any, chosen: Chosen) -> LongSolution:
    """Accelerations and forces under the joint forces ``tau``."""
    links = m.moving(q, v)
    seen = sight_nodes(m, links)
    rows = LongRows(m, system, seen, q, v, t)
    freed = _inwards(m, links, m.velocities(tau), rows, chosen)
    free = _outwards(m, links, freed, m.base)

    def as_rows_see(own: NodeResponse, at: Sighted) -> Moved:
        # the passes move the world by −g, for rows it stands still; and they tie joints of one freedom only
        return Moved(own.alpha[:6] - at.X.motion(m.base), own.qdd[0] if len(own.qdd) == 1 else 0)

    moved = m.pick(m.sweep.map(as_rows_see, free, seen), rows.nodes)
    return _balance_rows(m, links, freed, m.base, rows.acceleration(moved)[chosen.kept], chosen)


def typical_diagonal(system: ConstraintSet) -> Array:
    """Diagonal of A M⁻¹ Aᵀ of the factored rows, (k,), at a generic configuration: how large they usually are."""
    # kept beside the cached properties of the constraints, as those are beside the model's
    found: Array | None = system.__dict__.get("_typical_diagonal")
    if found is None:
        kept = list(system.structure.independent)
        m, q = Mechanism(skeleton(system.model)), system.structure.configuration.astype(object)
        links = m.still(q)
        rows = LongRows(m, system, sight_nodes(m, links), q, None, 0.0)
        freed = _inwards(
            m, links, joint_zeros(m.sweep, links), rows, Chosen(kept, zeros(len(kept)), zeros(len(kept)) + 1)
        )
        found = m.sweep.total(lambda own: np.sum(own.E.T * own.N, axis=0), zeros(len(kept)), freed)
        system.__dict__["_typical_diagonal"] = found
    return found


def correct(m: Mechanism, links: Field, rows: LongRows, values: Array, chosen: Chosen) -> LongSolution:
    """−M⁻¹ Aᵀ (A M⁻¹ Aᵀ + C)⁻¹ times ``values`` (k,) of the factored rows, and the impulses that cause it."""
    bare = m.sweep.map(Link.at_rest, links)
    freed = _inwards(m, bare, joint_zeros(m.sweep, bare), rows, chosen)
    return _balance_rows(m, bare, freed, zeros(6), values, chosen)


def _balance_rows(m: Mechanism, links: Field, freed: Field, base: Array, values: Array, chosen: Chosen) -> LongSolution:
    """Effect of the rows' forces, where A a + γ is ``values`` (k,) without them; ``base``: the world's acceleration."""
    m.require_inertia(freed)
    S = _sum(m, freed, len(chosen.kept)) + np.diag(chosen.corner)
    factor = linalg.ldlt(S, lenient=True)
    f = factor.solve(-values * chosen.on)
    response = _outwards(m, links, freed, base, m.everywhere(f))
    return LongSolution(m.sweep.map(lambda own: own.qdd, response), f, factor, np.diag(S))


# --- inwards: what is left for each joint -----------------------------------------------------------------------------


class Inward(NamedTuple):
    """Quantities that travel inwards: articulated inertia, bias wrench, and the rows' pulls (m, 6)."""

    P: Any
    z: Any
    C: Any


class Freed(NamedTuple):
    """Quantities that a joint keeps."""

    K: Array
    pivots: Array
    nu: Array
    """D⁻¹ ε, (n,)."""
    E: Array
    """Rest of every row after the elimination, (m, n)."""
    N: Array
    """D⁻¹ Eᵀ, (n, m)."""


def _inwards(m: Mechanism, links: Field, tau: Field, rows: LongRows, chosen: Chosen) -> Field:
    """The pass inwards: a :class:`Freed` for every joint."""
    kept, _, on = chosen
    count = len(kept)
    pulls = [Pulls((p.wrench[kept].T * on).T, p.effort[kept] * on) for p in rows.pulls()]

    def eliminate(children: Inward, link: Link, tau: Array, pull: Pulls | None) -> tuple[Inward, Freed]:
        size, n = link.H.shape
        P, z = dense(link.M) + children.P, zeros(size) + link.b + children.z
        C = zeros(count, size) + children.C
        efforts = zeros(count, n)
        if pull is not None:
            C = C - pull.wrench
            # rows on joints tie joints of one freedom only
            efforts = pull.effort.reshape(count, 1) if n == 1 else efforts
        K, D, rest = split_inertia(P, link.H, link.J)
        epsilon, E = tau - link.H.T @ z, efforts - C @ link.H
        outwards = z + K @ epsilon + rest @ (zeros(size) + link.a)
        message = Inward(link.X.inertia(rest), link.X.force(outwards - link.r), _each(link.X.force, C + E @ K.T))
        return message, Freed(K, D.pivots, D.solve(epsilon), E, D.solve(E.T))

    return m.sweep.gather(eliminate, Inward(0, 0, 0), links, tau, m.spread(pulls, rows.nodes))


def _sum(m: Mechanism, freed: Field, count: int) -> Array:
    """A M⁻¹ Aᵀ (m, m)."""
    upper = [(i, j) for i in range(count) for j in range(i, count)]

    def share(own: Freed) -> Array:
        return np.array([own.E[i] @ own.N[:, j] for i, j in upper], dtype=object)

    S = zeros(count, count)
    for (i, j), x in zip(upper, m.sweep.total(share, zeros(len(upper)), freed), strict=True):
        S[i, j] = x
    return symmetric(S)


class NodeResponse(NamedTuple):
    """How a node moves: its acceleration (6,), and that of its joint (n,)."""

    alpha: Array
    qdd: Array


def _outwards(m: Mechanism, links: Field, freed: Field, base: Any, f: Field | None = None) -> Field:
    """The pass outwards: how every node moves, under the forces f of the rows or without any."""

    def move(parent: Array, link: Link, own: Freed, *f: Array) -> tuple[Array, NodeResponse]:
        alpha = link.X.motion(parent) + link.a
        qdd = sum((own.N @ forces for forces in f), start=own.nu) - own.K.T @ alpha
        alpha = alpha + link.H @ qdd
        return alpha, NodeResponse(alpha, qdd)

    return m.sweep.scatter(move, base, links, freed, *([] if f is None else [f]))


def _each(function: Any, rows: Array) -> Array:
    """The function of every row, (m, 6)."""
    return np.stack([function(row) for row in rows]) if len(rows) else rows


# --- solutions with the recursion's own operators ---------------------------------------------------------------------


class Recursive(NamedTuple):
    """A block matrix whose M is only ever applied, by recursion."""

    mechanism: Mechanism
    links: Field
    A: Array
    W: Array
    """M⁻¹ Aᵀ, (n, m)."""
    complement: linalg.LDLT
    diagonal: Array

    def solve(self, b: Array, gamma: Array) -> kkt.Solution:
        x = solve_columns(self.mechanism, self.links, b)[0]
        f = self.complement.solve(-gamma - self.A @ x)
        return kkt.Solution(x + self.W @ f, f)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        pivots = zip(self.complement.pivots, self.diagonal, strict=True)
        return [(kkt.ROWS, pivot - tolerance * d) for pivot, d in pivots]


def recursive(m: Mechanism, links: Field, A: Array, corner: Array | None) -> Recursive:
    """Factor by recursion; ``corner`` as in :func:`whippletree.constraints.kkt.schur`. Notes pivots of joints that may
    lack
    inertia."""
    W, freedoms = solve_columns(m, links, A.T)
    m.require_inertia(freedoms)
    S = A @ W
    S = (S + S.T) / 2
    if corner is not None:
        S = S + np.diag(corner)
    return Recursive(m, links, A, W, linalg.ldlt(S, lenient=True), np.diag(S))


class JointSolves(NamedTuple):
    """Quantities that a joint keeps for the way out."""

    K: Array
    nu: Array
    pivots: Array


def solve_columns(m: Mechanism, links: Field, b: Array) -> tuple[Array, Field]:
    """M⁻¹ b for a vector (n,) or columns (n, k), and what the joints kept."""
    matrix = b.reshape(len(b), -1)
    k = matrix.shape[1]

    def inwards(children: tuple[Any, Any], link: Link, tau: Array) -> tuple[tuple[Any, Any], JointSolves]:
        P, z = dense(link.M) + children[0], children[1]
        K, D, rest = split_inertia(P, link.H, link.J)
        epsilon = tau - link.H.T @ z
        message = (link.X.inertia(rest), _columns(link.X.force, z + K @ epsilon))
        return message, JointSolves(K, D.solve(epsilon), D.pivots)

    def outwards(parent: Array, link: Link, kept: JointSolves) -> tuple[Array, Array]:
        alpha = _columns(link.X.motion, parent)
        qdd = kept.nu - kept.K.T @ alpha
        return alpha + link.H @ qdd, qdd

    kept = m.sweep.gather(inwards, (0, zeros(6, k)), links, m.velocities(matrix))
    x = m.join(m.sweep.scatter(outwards, zeros(6, k), links, kept))
    return x.reshape(b.shape), kept


def _columns(function: Any, matrix: Array) -> Array:
    return np.stack([function(column) for column in matrix.T], axis=1)
