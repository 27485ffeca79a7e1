"""The block matrix [M Aᵀ; A −C] of document 000, its inverse blocks, and the routes to its solution.

    M a + Aᵀ λ = b        A a − C λ = −γ        f = −λ is the force of the constraints on the system

with M the mass matrix (singular for massless links), A the independent rows of the constraints, C their compliance
(zero for rigid ones), b = τ − c and γ the rows' bias. The blocks of the inverse are the dagger terms (000 eq. 5):

    [M†  A†ᵀ]   [M  Aᵀ]⁻¹
    [A†  Λ† ] = [A  −C]          a = M† b − A†ᵀ γ,   λ = A† b − Λ† γ   (eq. 22)

Routes, all on any scalar; the first two never branch on a value, so they compile:

    schur        M ≻ 0: tree-sparse factor of M, then the Schur complement S = A M⁻¹ Aᵀ + C
    augmented    condition (32): M_ρ = M + Aᵀ R A is positive definite exactly when (32) holds; M† and A† do not depend on
                 R, and Λ† = R − S_ρ⁻¹. Exact for massless links: R is a scaling, not a regularisation
    block        the literal block matrix by elimination with pivoting: the oracle; numbers only
    nullspace    pivoted QR of Aᵀ: reveals the rank; redundant and conflicting rows are its business; numbers only
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree import linalg
from whippletree.errors import SingularSystemError
from whippletree.spatial import Array, identity, zeros


class Dagger(NamedTuple):
    """The blocks of the inverse: M† (n, n), A† (m, n), Λ† (m, m)."""

    M: Array
    A: Array
    Lambda: Array


class Solution(NamedTuple):
    """Accelerations (n,) and the constraints' forces f = −λ (m,); columns for several right-hand sides."""

    a: Array
    f: Array


class Factored(Protocol):
    """A block matrix ready to be solved with."""

    def solve(self, b: Array, gamma: Array) -> Solution:
        """a and f for one right-hand side, or for the columns of matrices b (n, k) and γ (m, k)."""

    def pivots(self) -> Array:
        """Numbers that are all positive exactly when the matrix can be solved with by this route."""


class Schur(NamedTuple):
    """Route for M ≻ 0."""

    mass: linalg.TreeLTDL
    A: Array
    W: Array
    """L⁻ᵀ Aᵀ, (n, m)."""
    complement: linalg.LDLT

    def solve(self, b: Array, gamma: Array) -> Solution:
        y = self.mass.backward(b)
        scaled = (y.T * self.mass.reciprocals).T
        f = self.complement.solve(-gamma - self.W.T @ scaled)
        a = self.mass.forward(((y + self.W @ f).T * self.mass.reciprocals).T)
        return Solution(a, f)

    def pivots(self) -> Array:
        return np.concatenate([self.mass.pivots, self.complement.pivots])


def schur(M: Array, A: Array, parents: Sequence[int], compliance: Array | None = None) -> Schur:
    """Factor by the tree-sparse factor of M ≻ 0 (``parents``: the tree of its velocities) and the Schur complement."""
    mass = linalg.tree_ltdl(M, parents)
    W = mass.backward(A.T)
    scaled = (W.T * mass.reciprocals).T
    S = _symmetric_product(W, scaled)
    return Schur(mass, A, W, linalg.ldlt(_with_diagonal(S, compliance)))


class Augmented(NamedTuple):
    """Route for condition (32) with rigid constraints."""

    mass: linalg.LDLT
    """Factors of M_ρ."""
    A: Array
    R: Array
    """ρ, one per row, (m,)."""
    W: Array
    """M_ρ⁻¹ Aᵀ, (n, m)."""
    complement: linalg.LDLT

    def solve(self, b: Array, gamma: Array) -> Solution:
        shifted = b - self.A.T @ ((gamma.T * self.R).T)
        x = self.mass.solve(shifted)
        f = self.complement.solve(-gamma - self.A @ x)
        return Solution(x + self.W @ f, f)

    def pivots(self) -> Array:
        return np.concatenate([self.mass.pivots, self.complement.pivots])


def augmented(M: Array, A: Array, scale: Any = 1) -> Augmented:
    """Factor M_ρ = M + Aᵀ R A with ρᵢ = scale · tr M / (n |Aᵢ|²); the answer does not depend on ``scale``, its rounding does."""
    n = len(M)
    trace: Any = 0
    for i in range(n):
        trace = trace + M[i, i]
    R = np.array([scale * trace / (n * (row @ row)) for row in A], dtype=object)
    weighted = (A.T * R).T
    mass = linalg.ldlt(M + _symmetric_product(A, weighted))
    W = mass.solve(A.T)
    return Augmented(mass, A, R, W, linalg.ldlt(_symmetric_product(A.T, W)))


class Block(NamedTuple):
    """The literal block matrix, by Gaussian elimination with partial pivoting. Numbers only."""

    matrix: Array
    n: int

    def solve(self, b: Array, gamma: Array) -> Solution:
        x = linalg.solve_pivoted(self.matrix, np.concatenate([b, -gamma]))
        return Solution(x[: self.n], -x[self.n :])

    def pivots(self) -> Array:
        return zeros(0)


def block(M: Array, A: Array, compliance: Array | None = None) -> Block:
    """[M Aᵀ; A −C] as one matrix."""
    m = len(A)
    corner = -np.diag(compliance) if compliance is not None else zeros(m, m)
    return Block(np.concatenate([np.concatenate([M, A.T], axis=1), np.concatenate([A, corner], axis=1)]), len(M))


class Nullspace(NamedTuple):
    """Pivoted QR of Aᵀ: rank r, a basis Q₂ of the motions that the rows allow, and the reduced mass matrix Q₂ᵀ M Q₂."""

    M: Array
    A: Array
    qr: linalg.PivotedQR
    rank: int
    reduced: linalg.LDLT

    @property
    def basis(self) -> Array:
        """Q₂ (n, n − r): columns are the motions that every row allows; the QR projector of 001 is its transpose."""
        return self.qr.Q[:, self.rank :]

    def solve(self, b: Array, gamma: Array) -> Solution:
        """Least-norm forces where rows are redundant; rows in conflict are met in the least-squares sense."""
        Q1, R = self.qr.Q[:, : self.rank], self.qr.R[: self.rank]
        order = list(self.qr.order)
        # A a = −γ in the range of Aᵀ: (Q₁ R Pᵀ)ᵀ a = −γ, least squares over the permuted rows
        normal = linalg.ldlt(R @ R.T)
        particular = Q1 @ normal.solve(R @ -gamma[order])
        free = self.basis @ self.reduced.solve(self.basis.T @ (b - self.M @ particular))
        a = particular + free
        need = Q1.T @ (self.M @ a - b)
        f = np.zeros_like(gamma, dtype=object)
        f[order] = R.T @ normal.solve(need)
        return Solution(a, f)

    def pivots(self) -> Array:
        return self.reduced.pivots


def nullspace(M: Array, A: Array, rank_tolerance: float) -> Nullspace:
    """Factor by pivoted QR of Aᵀ; rows whose pivot is below ``rank_tolerance`` times the largest count as dependent."""
    qr = linalg.pivoted_qr(A.T)
    rank = qr.rank(rank_tolerance)
    basis = qr.Q[:, rank:]
    return Nullspace(M, A, qr, rank, linalg.ldlt(_symmetric_product(basis, M @ basis)))


def dagger(factor: Factored, n: int, m: int) -> Dagger:
    """The dagger terms, by solving with the identity (000 eq. 5); M† and Λ† are made exactly symmetric."""
    forces = factor.solve(identity(n), zeros(m, n))
    biases = factor.solve(zeros(n, m), -identity(m))
    return Dagger(_mirrored(forces.a), -forces.f, _mirrored(-biases.f))


def require_positive(pivots: Sequence[Any], explain: str) -> None:
    """Raise where a pivot shows that a block matrix cannot be solved with; for numbers, not for traces."""
    if any(not p > 0 and p == p for p in pivots):
        raise SingularSystemError(explain)


def _symmetric_product(W: Array, scaled: Array) -> Array:
    """Wᵀ scaled, known to be symmetric: one triangle is computed."""
    m = W.shape[1]
    S = zeros(m, m)
    for i in range(m):
        for j in range(i, m):
            S[i, j] = S[j, i] = W[:, i] @ scaled[:, j]
    return S


def _with_diagonal(S: Array, diagonal: Array | None) -> Array:
    if diagonal is None:
        return S
    result = S.copy()
    for i, d in enumerate(diagonal):
        result[i, i] = result[i, i] + d
    return result


def _mirrored(S: Array) -> Array:
    rows, columns = np.tril_indices(len(S), -1)
    result = np.array(S, dtype=object)
    result[rows, columns] = result[columns, rows]
    return result
