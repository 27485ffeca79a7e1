"""The Schur complement of long systems: M⁻¹ [b, Aᵀ] by one articulated recursion over all columns, O(N m + m³).

Nothing of size nv × nv is formed. The passes are those of :mod:`whippletree.tree.forward`, at rest and without
gravity (the bias is in b already), with k right-hand sides at once:

    inwards    P as there, once        z (6, k) = Σ φ z⁺        ε = T − H z        z⁺ = z + K ε
    outwards   α⁺ = φ* α(parent)       θ̈ (n, k) = D⁻¹ ε − Kᵀ α⁺                   α = α⁺ + H* θ̈
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field


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
