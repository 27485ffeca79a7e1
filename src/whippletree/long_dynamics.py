"""Constrained dynamics of long systems by sweeps alone: O(N m + m³), and as loops over bodies when compiled.

The factorisation of document 002, M = (1 + H φ K) D (1 + H φ K)*, turns every inner product with M⁻¹ into a plain sum
over joints: with ε the joint forces that one inward pass of the articulated recursion leaves over of b,

    b₁ᵀ M⁻¹ b₂ = Σ ε₁ᵀ D⁻¹ ε₂          so          A M⁻¹ Aᵀ = Σ E D⁻¹ Eᵀ    and    A M⁻¹ (τ − c) = Σ E D⁻¹ ε

where E (m, n) is what the same pass leaves of the m rows of A, carried along as m more right-hand sides: wrenches on
the frames that constraints hold, and forces on the joints that they tie. So no column of M⁻¹ Aᵀ is ever formed:

    outwards   links, poses and accelerations at θ̈ = 0; the few that rows need are picked out
    inwards    P, z and the m columns; the sums above
    once       (A M⁻¹ Aᵀ + C) f = −(γ + A M⁻¹ (τ − c)), m³
    outwards   θ̈ = D⁻¹ (ε + Eᵀ f) − Kᵀ α

Gravity and the accelerations at θ̈ = 0 act as wrenches on every body here: the sums must see all of c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree import linalg
from whippletree.constraints.system import ConstraintSet
from whippletree.long_rows import LongRows, Pulls, Sighted, sighted
from whippletree.spatial import Array, join, symmetric, zeros
from whippletree.sweeps import Field
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense
from whippletree.tree.mechanism import Mechanism


class LongSolution(NamedTuple):
    """Accelerations as a field, forces of the factored rows, and what tells whether they can be trusted."""

    a: Field
    f: Array
    complement: linalg.LDLT
    diagonal: Array
    """Of A M⁻¹ Aᵀ + C, (m,)."""
    squares: Array
    """|Aᵢ|² of the factored rows, (m,)."""


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
    seen = sighted(m, links)
    rows = LongRows(m, system, seen, q, v, t)
    return _balanced(m, _loaded(m, links, seen), m.velocities(tau), rows, rows.bias()[chosen.kept], chosen)


def correct(m: Mechanism, links: Field, rows: LongRows, values: Array, chosen: Chosen) -> LongSolution:
    """−M⁻¹ Aᵀ (A M⁻¹ Aᵀ + C)⁻¹ times ``values`` (k,) of the factored rows, and the impulses that cause it."""
    bare = m.sweep.map(lambda link: link._replace(b=zeros(6)), links)
    still = m.sweep.map(lambda link: zeros(link.H.shape[1]), links)
    return _balanced(m, bare, still, rows, values, chosen)


def _balanced(m: Mechanism, links: Field, tau: Field, rows: LongRows, values: Array, chosen: Chosen) -> LongSolution:
    """What joint forces and the links' wrenches cause while A a + C f = −``values``."""
    kept, corner, on = chosen
    pulls = [Pulls((p.wrench[kept].T * on).T, p.effort[kept] * on) for p in rows.pulls()]
    freed = _inwards(m, links, tau, m.spread(pulls, rows.nodes), len(kept))
    m.require_inertia(freed)
    S, s, squares = _sums(m, freed, len(kept))
    S = S + np.diag(corner)
    factor = linalg.ldlt(S, lenient=True)
    f = factor.solve(-values * on - s)
    return LongSolution(_outwards(m, links, freed, m.everywhere(f)), f, factor, np.diag(S), squares)


def _loaded(m: Mechanism, links: Field, seen: Field) -> Field:
    """The links with the whole wrench at θ̈ = 0 as their b: gravity and centrifugal terms with it."""

    def load(link: Link, at: Sighted) -> Link:
        return link._replace(b=link.b + link.M @ (at.alpha + at.X.motion(m.base)))

    return m.sweep.map(load, links, seen)


# --- inwards: what is left for each joint -----------------------------------------------------------------------------


class Inward(NamedTuple):
    """What travels inwards: articulated inertia, bias wrench, and the rows' pulls (m, 6), eliminated and plain."""

    P: Any
    z: Any
    C: Any
    plain: Any


class Freed(NamedTuple):
    """What a joint keeps."""

    K: Array
    pivots: Array
    nu: Array
    """D⁻¹ ε, (n,)."""
    E: Array
    """What the elimination leaves of every row, (m, n)."""
    N: Array
    """D⁻¹ Eᵀ, (n, m)."""
    epsilon: Array
    A: Array
    """The joint's columns of A, (m, n)."""


def _inwards(m: Mechanism, links: Field, tau: Field, pulls: Field, count: int) -> Field:
    def eliminate(children: Inward, link: Link, tau: Array, pull: Pulls | None) -> tuple[Inward, Freed]:
        size, n = link.H.shape
        P, z = dense(link.M) + children.P, zeros(size) + link.b + children.z
        C, plain = zeros(count, size) + children.C, zeros(count, size) + children.plain
        efforts = zeros(count, n)
        if pull is not None:
            C, plain = C - pull.wrench, plain - pull.wrench
            # rows on joints tie joints of one freedom only
            efforts = pull.effort.reshape(count, 1) if n == 1 else efforts
        K, D, rest = split_inertia(P, link.H, link.J)
        epsilon, E = tau - link.H.T @ z, efforts - C @ link.H
        message = Inward(
            link.X.inertia(rest),
            link.X.force(z + K @ epsilon),
            _each(link.X.force, C + E @ K.T),
            _each(link.X.force, plain),
        )
        return message, Freed(K, D.pivots, D.solve(epsilon), E, D.solve(E.T), epsilon, efforts - plain @ link.H)

    nothing = Inward(0, 0, 0, 0)
    return m.sweep.gather(eliminate, nothing, links, tau, pulls)


def _sums(m: Mechanism, freed: Field, count: int) -> tuple[Array, Array, Array]:
    """A M⁻¹ Aᵀ (m, m), A M⁻¹ (τ − c) (m,) and |Aᵢ|² (m,)."""
    upper = [(i, j) for i in range(count) for j in range(i, count)]

    def share(own: Freed) -> Array:
        pairs = [own.E[i] @ own.N[:, j] for i, j in upper]
        return join(np.array(pairs, dtype=object), join(own.N.T @ own.epsilon, np.array([a @ a for a in own.A])))

    total = m.sweep.total(share, zeros(len(upper) + 2 * count), freed)
    S = zeros(count, count)
    for (i, j), x in zip(upper, total, strict=False):
        S[i, j] = x
    return symmetric(S), total[len(upper) : len(upper) + count], total[len(upper) + count :]


def _outwards(m: Mechanism, links: Field, freed: Field, f: Field) -> Field:
    def move(parent: Array, link: Link, own: Freed, f: Array) -> tuple[Array, Array]:
        alpha = link.X.motion(parent)
        qdd = own.nu + own.N @ f - own.K.T @ alpha
        return alpha + link.H @ qdd, qdd

    return m.sweep.scatter(move, zeros(6), links, freed, f)


def _each(function: Any, rows: Array) -> Array:
    """The function of every row, (m, 6)."""
    return np.stack([function(row) for row in rows]) if len(rows) else rows
