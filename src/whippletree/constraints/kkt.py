"""The block matrix [M Aᵀ; A −C] of document 000, its inverse blocks, and the routes to its solution.

    M a + Aᵀ λ = b        A a − C λ = −γ        f = −λ is the force of the constraints on the system

with M the mass matrix (singular for massless links), A the independent rows of the constraints, C their compliance
(zero for rigid ones), b = τ − c and γ the rows' bias. The blocks of the inverse are the dagger terms (000 eq. 5):

    [M†  A†ᵀ]   [M  Aᵀ]⁻¹
    [A†  Λ† ] = [A  −C]          a = M† b − A†ᵀ γ,   λ = A† b − Λ† γ   (eq. 22)

Routes, all on any scalar; the first two never branch on a value, so they compile:

    schur        M ≻ 0: tree-sparse factor of M, then the Schur complement S = A M⁻¹ Aᵀ + C
    augmented    condition (32): M_ρ = M + Aᵀ R A is positive definite exactly when (32) holds; M† and A† do not
                 depend on R, and Λ† = R − S_ρ⁻¹. Exact for massless links: R is a scaling, not a regularisation
    block        the literal block matrix by elimination with pivoting: the oracle; numbers only
    nullspace    pivoted QR of Aᵀ: reveals the rank; redundant and conflicting rows are its business; numbers only

Every factor tells its *margins*: how far each pivot is above a share of its diagonal entry. They are all positive
exactly when the route can be trusted; ``MASS`` ones fail with condition (32), ``ROWS`` ones where rows become
dependent, ``GIVEN`` ones where accelerations that were given leave rows that nothing else can meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros


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

    def margins(self, tolerance: Any) -> list[Margin]:
        """pivot − tolerance · diagonal for every pivot that only the state decides."""


Margin: TypeAlias = tuple[str, Any]
MASS, ROWS, GIVEN = "mass", "rows", "given"


ROUNDED_ZERO = 2.0**-80
"""Share (about 1e-24) of the mean inertia, or of the weight of a velocity, below which a diagonal entry is what
rounding left of a zero."""


def _margins(kind: str, factor: linalg.LDLT | linalg.TreeLTDL, diagonal: Array, tolerance: Any) -> list[Margin]:
    return [(kind, pivot - tolerance * d) for pivot, d in zip(factor.pivots, diagonal, strict=True)]


def _mass_margins(
    factor: linalg.LDLT | linalg.TreeLTDL, diagonal: Array, tolerance: Any, inertias: Array
) -> list[Margin]:
    """Margins of inertias, which must also be more than what rounding leaves of zero: ``inertias`` (n,) are usual."""
    floor: Any = 0
    for d in inertias:
        floor = floor + d
    floor = floor * (ROUNDED_ZERO / max(len(inertias), 1))
    return [(kind, margin - floor) for kind, margin in _margins(MASS, factor, diagonal, tolerance)]


class Schur(NamedTuple):
    """Route for M ≻ 0."""

    mass: linalg.TreeLTDL
    A: Array
    W: Array
    """L⁻ᵀ Aᵀ, (n, m)."""
    complement: linalg.LDLT
    diagonal: Array
    """Of the Schur complement, (m,)."""
    weights: Array
    """Diagonal of M where some motion of the tree may lack inertia, else nothing."""

    def solve(self, b: Array, gamma: Array) -> Solution:
        y = self.mass.backward(b)
        scaled = (y.T * self.mass.reciprocals).T
        f = self.complement.solve(-gamma - self.W.T @ scaled)
        a = self.mass.forward(((y + self.W @ f).T * self.mass.reciprocals).T)
        return Solution(a, f)

    def inverse_blocks(self) -> Dagger:
        """M† = M⁻¹ − M⁻¹ Aᵀ S⁻¹ A M⁻¹, A† = S⁻¹ A M⁻¹ and Λ† = −S⁻¹, one triangle of what is symmetric."""
        n, m = self.W.shape
        T = self.complement.forward(self.W.T * self.mass.reciprocals)
        scaled = (T.T * self.complement.reciprocals).T
        inner = zeros(n, n)
        for i in range(n):
            for j in range(i, n):
                own = self.mass.reciprocals[i] if i == j else 0
                inner[i, j] = inner[j, i] = own - T[:, i] @ scaled[:, j] if m else own
        # M = Lᵀ D L, so that L⁻¹ stands outside on both sides
        M = self.mass.forward(self.mass.forward(inner).T)
        A = self.mass.forward(self.complement.backward(scaled).T).T
        return Dagger(_mirror_triangle(M), A, _mirror_triangle(-self.complement.solve(identity(m))))

    def margins(self, tolerance: Any) -> list[Margin]:
        mass = _mass_margins(self.mass, self.weights, tolerance, self.weights) if len(self.weights) else []
        return [*mass, *_margins(ROWS, self.complement, self.diagonal, tolerance)]


def schur(M: Array, A: Array, parents: Sequence[int], corner: Array | None = None, *, doubtful: bool = False) -> Schur:
    """Factor by the tree-sparse factor of M ≻ 0 (``parents``: the tree of its velocities) and the Schur complement.

    ``corner`` (m,) is the diagonal of C: compliances, and 1 for rows that are switched off (whose A is zero).
    ``doubtful``: only the state decides whether M ≻ 0, so its pivots are among the margins.
    """
    mass = linalg.tree_ltdl(M, parents, lenient=True)
    W = mass.backward(A.T)
    scaled = (W.T * mass.reciprocals).T
    S = _with_diagonal(linalg.symmetric_product(W.T, scaled.T), corner)
    weights = np.diag(M) if doubtful else zeros(0)
    return Schur(mass, A, W, linalg.ldlt(S, lenient=True), np.diag(S), weights)


class Augmented(NamedTuple):
    """Route for condition (32) with rigid constraints: that for M ≻ 0, taken with M_ρ and b − Aᵀ R γ."""

    heavy: Schur
    """Of M_ρ, velocities in ``order``."""
    shift: Array
    """Aᵀ R, (n, m)."""
    order: list[int]
    """Velocities, the one that is eliminated first at the end."""
    scales: Array
    """R, (m,)."""

    def inverse_blocks(self) -> Dagger:
        """M† and A† are those of M_ρ; Λ† = Λ†_ρ + R."""
        heavy = self.heavy.inverse_blocks()
        place = [self.order.index(i) for i in range(len(self.order))]
        Lambda = _with_diagonal(heavy.Lambda, self.scales)
        return Dagger(heavy.M[np.ix_(place, place)], heavy.A[:, place], Lambda)

    def solve(self, b: Array, gamma: Array) -> Solution:
        found = self.heavy.solve((b - self.shift @ gamma)[self.order], gamma)
        a = zeros(*b.shape)
        a[self.order] = found.a
        return Solution(a, found.f)

    def margins(self, tolerance: Any) -> list[Margin]:
        return self.heavy.margins(tolerance)


def augmented(
    M: Array,
    A: Array,
    scales: Array | None = None,
    corner: Array | None = None,
    *,
    order: Sequence[int] | None = None,
) -> Augmented:
    """Factor M_ρ = M + Aᵀ R A with R = diag(scales); the answer does not depend on the scales, its rounding does.

    ``corner`` (m,) holds 1 for rows that are switched off (whose A is zero) and 0 for the others. ``order``: in which
    velocities are eliminated, last first (:func:`whippletree.arithmetic.linalg.sparse_order`); default: tips first.
    """
    R = row_scales(M, np.array([row @ row for row in A], dtype=object)) if scales is None else scales
    shift = A.T * R
    heavy = M + linalg.symmetric_product(A.T, shift)
    chosen = list(range(len(M)) if order is None else order)
    path = range(-1, len(M) - 1)  # a dense matrix is that of a chain
    reordered = schur(heavy[np.ix_(chosen, chosen)], A[:, chosen], path, corner, doubtful=True)
    return Augmented(reordered, shift, chosen, R)


def row_scales(M: Array, squares: Array, scale: Any = 1) -> Array:
    """ρᵢ = scale · tr M / (n |Aᵢ|²), for the squares |Aᵢ|² of the rows: what makes a row as heavy as the average of
    M."""
    trace: Any = 0
    for i in range(len(M)):
        trace = trace + M[i, i]
    if isinstance(trace, Number) and complex(trace) == 0:  # type: ignore[call-overload]
        trace = 1  # a system without any mass, all of whose motion is given
    return np.array([scale * trace / (len(M) * square) for square in squares], dtype=object)


class Led(NamedTuple):
    """The block matrix of as many rigid rows as velocities, which go where they must, whatever their inertia, and be it
    nothing."""

    M: Array
    A: Array
    """(n, n)."""
    gram: linalg.LDLT
    """Of A Aᵀ."""
    diagonal: Array
    """Of A Aᵀ, (n,)."""

    def solve(self, b: Array, gamma: Array) -> Solution:
        a = -(self.A.T @ self.gram.solve(gamma))
        return Solution(a, self.gram.solve(self.A @ (self.M @ a - b)))

    def margins(self, tolerance: Any) -> list[Margin]:
        return _margins(ROWS, self.gram, self.diagonal, tolerance)


def led(M: Array, A: Array) -> Led:
    """Factor the square A alone."""
    gram = linalg.symmetric_product(A, A)
    return Led(M, A, linalg.ldlt(gram, lenient=True), np.diag(gram))


class Softened(NamedTuple):
    """Compliant rows eliminated beforehand: f = −(A a + γ) / C of these rows stiffens M; the rest is rigid."""

    rigid: Factored
    A: Array
    """Of the compliant rows, (s, n)."""
    stiffness: Array
    """1 / C, (s,)."""
    where: tuple[list[int], list[int]]
    """Numbers of the rigid and of the compliant rows."""

    def load_vector(self, b: Array, gamma: Array) -> Array:
        """b with what the compliant rows do to a motion without acceleration."""
        return np.asarray(b - self.A.T @ (gamma[self.where[1]].T * self.stiffness).T)

    def solve(self, b: Array, gamma: Array) -> Solution:
        rigid, soft = self.where
        own = gamma[soft]
        a, f = self.rigid.solve(self.load_vector(b, gamma), gamma[rigid])
        forces = np.zeros(gamma.shape, dtype=object)
        forces[rigid], forces[soft] = f, -((self.A @ a + own).T * self.stiffness).T
        return Solution(a, forces)

    def margins(self, tolerance: Any) -> list[Margin]:
        return self.rigid.margins(tolerance)


def stiffen(M: Array, A: Array, stiffness: Array) -> Array:
    """M + Aᵀ C⁻¹ A: the mass matrix with compliant rows eliminated."""
    return np.asarray(M + linalg.symmetric_product(A.T, A.T * stiffness))


class BlockElimination(NamedTuple):
    """The literal block matrix, by Gaussian elimination with partial pivoting. Numbers only."""

    matrix: Array
    rigid: Array
    """A of the rows without compliance, (k, n)."""

    def solve(self, b: Array, gamma: Array) -> Solution:
        n = self.rigid.shape[1]
        x = linalg.solve_pivoted(self.matrix, np.concatenate([b, -gamma]))
        return Solution(x[:n], -x[n:])

    def margins(self, tolerance: Any) -> list[Margin]:
        """Margins of the pivots of A Aᵀ, which no mass disguises: elimination itself stops at a pivot of exactly zero
        only."""
        gram = linalg.symmetric_product(self.rigid, self.rigid)
        return _margins(ROWS, linalg.ldlt(gram, lenient=True), np.diag(gram), tolerance)


def block(M: Array, A: Array, compliance: Array | None = None) -> BlockElimination:
    """[M Aᵀ; A −C] as one matrix."""
    m = len(A)
    corner = -np.diag(compliance) if compliance is not None else zeros(m, m)
    whole = np.concatenate([np.concatenate([M, A.T], axis=1), np.concatenate([A, corner], axis=1)])
    return BlockElimination(whole, A if compliance is None else A[[i for i, c in enumerate(compliance) if c == 0]])


class Nullspace(NamedTuple):
    """Pivoted QR of Aᵀ: rank r, a basis Q₂ of the motions that the rows allow, and the reduced mass matrix Q₂ᵀ M Q₂."""

    M: Array
    A: Array
    qr: linalg.PivotedQR
    rank: int
    reduced: linalg.LDLT
    diagonal: Array
    """Of the reduced mass matrix."""

    @property
    def basis(self) -> Array:
        """Q₂ (n, n − r): columns are the motions that every row allows; the QR projector of 001 is its transpose."""
        return self.qr.Q[:, self.rank :]

    def idle_rows(self) -> Array:
        """y (m, m − r) with Aᵀ y = 0: combinations of rows that ask for nothing."""
        r, m = self.rank, len(self.A)
        y = zeros(m, m - r)
        order = list(self.qr.order)
        y[order[:r]] = -linalg.solve_upper(self.qr.R[:r, :r], self.qr.R[:r, r:])
        y[order[r:]] = identity(m - r)
        return y

    def particular(self, gamma: Array) -> Array:
        """The smallest a with A a = −γ, in the least-squares sense where rows are in conflict."""
        return self._particular(gamma, *self._second_qr())

    def _second_qr(self) -> linalg.PivotedQR:
        """Aᵀ P = Q₁ R, so A a = −γ asks for Rᵀ y = −Pᵀ γ with y = Q₁ᵀ a; a QR of Rᵀ makes it a triangular system."""
        U, T, swaps = linalg.pivoted_qr(self.qr.R[: self.rank].T)
        return linalg.PivotedQR(U[:, : self.rank], T[: self.rank], swaps)

    def _particular(self, gamma: Array, U: Array, T: Array, swaps: Sequence[int]) -> Array:
        y = zeros(self.rank, *gamma.shape[1:])
        y[list(swaps)] = linalg.solve_upper(T, U.T @ -gamma[list(self.qr.order)])
        return np.asarray(self.qr.Q[:, : self.rank] @ y)

    def solve(self, b: Array, gamma: Array) -> Solution:
        """Least-norm forces where rows are redundant; rows in conflict are met in the least-squares sense."""
        Q1 = self.qr.Q[:, : self.rank]
        order = list(self.qr.order)
        U, T, swaps = self._second_qr()
        particular = self._particular(gamma, U, T, swaps)
        a = particular + self.basis @ self.reduced.solve(self.basis.T @ (b - self.M @ particular))
        need = (Q1.T @ (self.M @ a - b))[list(swaps)]
        f = zeros(*gamma.shape)
        f[order] = U @ linalg.solve_lower(T.T, need)
        return Solution(a, f)

    def margins(self, tolerance: Any) -> list[Margin]:
        # all that is left may be massless: then the reduced matrix is rounding, and only M tells how small that is
        return _mass_margins(self.reduced, self.diagonal, tolerance, np.diag(self.M))


def nullspace(M: Array, A: Array, rank_tolerance: Any) -> Nullspace:
    """Factor by pivoted QR of Aᵀ; rows whose pivot is below ``rank_tolerance`` times the largest count as dependent."""
    qr = linalg.pivoted_qr(A.T)
    rank = qr.rank(rank_tolerance)
    basis = qr.Q[:, rank:]
    reduced = linalg.symmetric_product(basis.T, (M @ basis).T)
    return Nullspace(M, A, qr, rank, linalg.ldlt(reduced, lenient=True), np.diag(reduced))


class Branched(NamedTuple):
    """A rank-revealing factor with rows that keep to a branch, whose bias is their own."""

    factor: Nullspace
    beta: Array
    """Bias of these rows."""

    @property
    def basis(self) -> Array:
        """Motions that every row and the branch allow."""
        return self.factor.basis

    def solve(self, b: Array, gamma: Array) -> Solution:
        beta = self.beta if gamma.ndim == 1 else np.tile(self.beta[:, None], gamma.shape[1])
        a, f = self.factor.solve(b, np.concatenate([gamma, beta]))
        return Solution(a, f[: len(gamma)])

    def margins(self, tolerance: Any) -> list[Margin]:
        return self.factor.margins(tolerance)


def without_branch_bias(factor: Factored) -> Factored:
    """The factor with which answers are linear in their right-hand sides."""
    if isinstance(factor, Softened):
        return factor._replace(rigid=without_branch_bias(factor.rigid))
    return factor._replace(beta=0 * factor.beta) if isinstance(factor, Branched) else factor


def dagger(factor: Factored, n: int, m: int) -> Dagger:
    """The dagger terms (000 eq. 5), with M† and Λ† exactly symmetric: by solving with the identity, or faster."""
    if isinstance(factor, Schur | Augmented):
        return factor.inverse_blocks()
    forces = factor.solve(identity(n), zeros(m, n))
    biases = factor.solve(zeros(n, m), -identity(m))
    return Dagger(_mirror_triangle(forces.a), -forces.f, _mirror_triangle(-biases.f))


def _with_diagonal(S: Array, diagonal: Array | None) -> Array:
    if diagonal is None:
        return S
    result = S.copy()
    for i, d in enumerate(diagonal):
        result[i, i] = result[i, i] + d
    return result


def _mirror_triangle(S: Array) -> Array:
    rows, columns = np.tril_indices(len(S), -1)
    result = np.array(S, dtype=object)
    result[rows, columns] = result[columns, rows]
    return result
