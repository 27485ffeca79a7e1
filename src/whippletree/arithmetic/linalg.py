"""Small factorisations on any scalar: no pivoting on values, so that they can be traced and compiled.

All matrices are dense arrays of scalars; loops run over indices known when the code is written, never over values.
Pivots are returned so that a caller can test them; nothing is regularised here. Null spaces, at the end, are of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.errors import ScalarError, SingularSystemError


class LDLT(NamedTuple):
    """A = L D Lᵀ of a symmetric matrix: L unit lower triangular (n, n), the pivots D and their reciprocals (n,)."""

    L: Array
    pivots: Array
    reciprocals: Array

    def solve(self, b: Array) -> Array:
        """A⁻¹ b for a vector (n,) or the columns of a matrix (n, m)."""
        return self.backward(self._scale_by_pivots(self.forward(b)))

    def forward(self, b: Array) -> Array:
        """L⁻¹ b."""
        x = np.array(b, dtype=object)
        for i in range(len(x)):
            for j in range(i):
                x[i] = x[i] - self.L[i, j] * x[j]
        return x

    def backward(self, b: Array) -> Array:
        """L⁻ᵀ b."""
        x = np.array(b, dtype=object)
        for i in reversed(range(len(x))):
            for j in range(i + 1, len(x)):
                x[i] = x[i] - self.L[j, i] * x[j]
        return x

    def _scale_by_pivots(self, x: Array) -> Array:
        return (x.T * self.reciprocals).T


def ldlt(A: Array, *, lenient: bool = False, negligible: Any = None, least: Any = 0) -> LDLT:
    """Factor a symmetric matrix as L D Lᵀ without pivoting; stable where A is positive definite.

    A pivot that is exactly zero raises ZeroDivisionError on scalars that divide so; with ``lenient`` its reciprocal is
    NaN instead, for callers that look at the pivots. ``negligible``: for matrices that may be semidefinite, the share
    of its diagonal entry, and ``least`` what is added to it, up to which a pivot counts as zero and its reciprocal is
    0; then ``solve`` finds one of many solutions.
    """
    n = len(A)
    L = np.eye(n, dtype=int).astype(object)
    D, R = np.zeros(n, dtype=object), np.zeros(n, dtype=object)
    for j in range(n):
        scaled = [L[j, k] * D[k] for k in range(j)]
        pivot = A[j, j]
        for k in range(j):
            pivot = pivot - L[j, k] * scaled[k]
        D[j] = pivot
        if negligible is None:
            R[j] = reciprocal(pivot, lenient)
        else:
            counts = scalars.less(negligible * A[j, j] + least, pivot)
            R[j] = scalars.select(counts, 1 / scalars.select(counts, pivot, 1), 0)
        for i in range(j + 1, n):
            entry = A[i, j]
            for k in range(j):
                entry = entry - L[i, k] * scaled[k]
            L[i, j] = entry * R[j]
    return LDLT(L, D, R)


def cholesky(A: Array) -> Array:
    """The lower triangular L with A = L Lᵀ."""
    factor = ldlt(A)
    roots = np.array([scalars.sqrt(d) for d in factor.pivots], dtype=object)
    return np.asarray(factor.L * roots)


class TreeLTDL(NamedTuple):
    """A = Lᵀ D L of a matrix whose entries vanish for unrelated indices of a tree: L has the same zeros, no fill-in."""

    L: Array
    pivots: Array
    reciprocals: Array
    parents: tuple[int, ...]

    def solve(self, b: Array) -> Array:
        """A⁻¹ b for a vector (n,) or the columns of a matrix (n, m), touching related pairs only."""
        return self.forward((self.backward(b).T * self.reciprocals).T)

    def backward(self, b: Array) -> Array:
        """L⁻ᵀ b, tips first."""
        x = np.array(b, dtype=object)
        for i in reversed(range(len(x))):
            for j in ancestors(self.parents, i):
                x[j] = x[j] - self.L[i, j] * x[i]
        return x

    def forward(self, b: Array) -> Array:
        """L⁻¹ b, base first."""
        x = np.array(b, dtype=object)
        for i in range(len(x)):
            # the parent, which was found last, comes last: nothing else waits for it
            for j in reversed(ancestors(self.parents, i)):
                x[i] = x[i] - self.L[i, j] * x[j]
        return x


def tree_ltdl(A: Array, parents: Sequence[int], *, lenient: bool = False, by_rows: bool = False) -> TreeLTDL:
    """Factor a mass matrix as Lᵀ D L along its tree of velocities (parents first; −1 for none).

    Eliminating tips first keeps the zeros of unrelated pairs (Featherstone 2008, §6.5): the cost is that of the tree.
    ``lenient``: see :func:`ldlt`. ``by_rows``: the same operations on every entry, one entry after the other; as code
    that is run for one state, each stays in a register meanwhile, where all of them together are too many.
    """
    n = len(A)
    H = np.array(A, dtype=object)
    L = np.eye(n, dtype=int).astype(object)
    D, R = np.zeros(n, dtype=object), np.zeros(n, dtype=object)
    later: list[list[int]] = [[] for _ in range(n)]
    for k in reversed(range(n)):
        before = ancestors(parents, k)
        for j in [k, *before]:
            for m in later[k]:
                H[k, j] = H[k, j] - L[m, k] * H[m, j]
        D[k], R[k] = H[k, k], reciprocal(H[k, k], lenient)
        for i in before:
            L[k, i] = H[k, i] * R[k]
            if by_rows:
                later[i].append(k)
                continue
            for j in [i, *ancestors(parents, i)]:
                H[i, j] = H[i, j] - L[k, i] * H[k, j]
    return TreeLTDL(L, D, R, tuple(parents))


def sparse_order(pattern: Array) -> list[int]:
    """An order of the indices of a symmetric matrix in which eliminating the last ones first fills few of its zeros.

    ``pattern`` (n, n) tells which entries are not zero. Greedy: the index with the fewest neighbours goes next, the
    highest of several (tips before their parents), and its neighbours become neighbours of each other.
    """
    near = [set(np.flatnonzero(row)) - {i} for i, row in enumerate(pattern)]
    left, eliminated = set(range(len(pattern))), []
    while left:
        k = min(left, key=lambda i: (len(near[i]), -i))
        left.remove(k)
        eliminated.append(k)
        for i in near[k]:
            near[i] = (near[i] | near[k]) - {i, k}
    return eliminated[::-1]


def reciprocal(x: Any, lenient: bool) -> Any:
    """1 / x; with ``lenient``, NaN where a scalar refuses to divide by zero."""
    try:
        return 1 / x
    except ZeroDivisionError:
        if not lenient:
            raise
        return math.nan


def ancestors(parents: Sequence[int], k: int) -> list[int]:
    """The parent of an index of a forest, its parent, and so on; a root's parent is negative."""
    chain = []
    while parents[k] >= 0:
        k = parents[k]
        chain.append(k)
    return chain


def symmetric_product(F: Array, G: Array, *more: Array) -> Array:
    """F Gᵀ, or the sum of several such products, known to be symmetric: one triangle is computed, the other shares it.

    Args:
        F, G: (n, k) each.
        more: further pairs of factors, F' and G' after each other, of any k.
    """
    n = len(F)
    S = np.empty((n, n), dtype=np.result_type(F, G, *more))
    for i in range(n):
        for j in range(i, n):
            total = F[i] @ G[j]
            for own, other in zip(more[::2], more[1::2], strict=True):
                total = total + own[i] @ other[j]
            S[i, j] = S[j, i] = total
    return S


class PivotedQR(NamedTuple):
    """A P = Q R with Householder reflections and column pivoting: reveals the rank. For numbers, not for traces."""

    Q: Array
    R: Array
    order: tuple[int, ...]

    def rank(self, tolerance: float) -> int:
        """How many diagonal entries of R exceed ``tolerance`` times the largest one."""
        diagonal = [abs(x) for x in np.diag(self.R)]
        return sum(bool(d > tolerance * diagonal[0]) for d in diagonal) if diagonal and diagonal[0] > 0 else 0


def pivoted_qr(A: Array) -> PivotedQR:
    """Factor a matrix (m, n) with column pivoting, on any ordered scalar that has a square root."""
    m, n = A.shape
    R, Q = np.array(A, dtype=object), np.eye(m, dtype=int).astype(object)
    order = list(range(n))
    for k in range(min(m, n)):
        tails = [sum((x * x for x in R[k:, j]), start=0) for j in range(k, n)]
        best = k + max(range(len(tails)), key=lambda j: tails[j])
        if tails[best - k] == 0:
            break
        R[:, [k, best]], order[k], order[best] = R[:, [best, k]], order[best], order[k]
        u = R[k:, k].copy()
        norm = scalars.sqrt(tails[best - k])
        u[0] = u[0] + (norm if u[0] >= 0 else -norm)
        scale = 2 / sum(x * x for x in u)
        R[k:, k:] = R[k:, k:] - np.multiply.outer(u * scale, u @ R[k:, k:])
        Q[:, k:] = Q[:, k:] - np.multiply.outer(Q[:, k:] @ u, u * scale)
    return PivotedQR(Q, R, tuple(order))


class OrthogonalRows(NamedTuple):
    """A[kept] = diag(scales) L U of an independent set of rows: L unit lower triangular (r, r), U (r, n) with
    orthogonal rows. Without square roots, so it is exact on Fractions; for numbers, not for traces."""

    kept: tuple[int, ...]
    """The first rows of A that no earlier ones explain."""
    scales: Array
    """Largest entry of each kept row, (r,)."""
    L: Array
    U: Array
    squares: Array
    """uᵢ · uᵢ, (r,)."""

    def right_inverse(self) -> Array:
        """Uᵀ (U Uᵀ)⁻¹ L⁻¹ diag(scales)⁻¹ (n, r): of all right inverses of the kept rows, the smallest."""
        found = self.U.T / self.squares
        for j in reversed(range(len(self.kept))):
            found[:, j] = found[:, j] - found[:, j + 1 :] @ self.L[j + 1 :, j]
        return np.asarray(found / self.scales)

    def complement(self) -> Array:
        """Z (n − r, n), rows orthogonal to each other and to U: a basis of what every row allows, near the axes."""
        basis, squares = list(self.U), list(self.squares)
        n = self.U.shape[1]
        axes = np.eye(n, dtype=int).astype(self.U.dtype)
        rest = np.array([_remainder(axis, basis, squares)[0] for axis in axes], dtype=self.U.dtype).reshape(n, n)
        for _ in range(n - len(self.kept)):
            # the axis of which most is left: the basis stays well conditioned, and near single velocities
            sizes = [squared_size(row) for row in rest]
            best = max(range(n), key=lambda i: sizes[i])
            row = _remainder(rest[best], basis, squares)[0]
            basis.append(row)
            squares.append(_own_square(row))
            rest = rest - np.multiply.outer((rest @ row) / squares[-1], row)
        return np.array(basis[len(self.kept) :], dtype=self.U.dtype).reshape(-1, n)


def orthogonal_rows(A: Array, tolerance: Any) -> OrthogonalRows:
    """Factor an independent set of the rows of A (m, n): the first ones, in order.

    A row depends on those before it where the sine of its angle to them is at most ``tolerance``, and is what rounding
    left of zero where it is shorter than ``tolerance``² times the longest. A tolerance of 0 suits exact numbers.
    Complex numbers are analytic continuations, as a complex step needs them: products are not conjugated.

    Raises:
        ScalarError: if a complex row is orthogonal to itself.
        SingularSystemError: if a row depends on others by its real part and leaves them by its imaginary one.
    """
    m, n = A.shape
    largest = [max((abs(x) for x in row), default=0) for row in A]
    longest = max(largest, default=0)
    floor = tolerance * tolerance * longest
    rows = [row / (size if size > floor else longest or 1) for row, size in zip(A, largest, strict=True)]
    step = max((abs(x.imag) for row in rows for x in row), default=0)
    kept: list[int] = []
    U: list[Array] = []
    squares: list[Any] = []
    shares: list[list[Any]] = []
    for i in range(m):
        rest, share = _remainder(rows[i], U, squares)
        apart = squared_size(rest) > tolerance * tolerance * squared_size(rows[i])
        if apart and largest[i] > floor and len(kept) < n:
            kept.append(i)
            shares.append([*share, 1])
            U.append(rest)
            squares.append(_own_square(rest))
        else:
            _require_same_rank(rest, tolerance * step)
    L = np.zeros((len(kept), len(kept)), dtype=int).astype(A.dtype)
    for i, share in enumerate(shares):
        L[i, : i + 1] = share
    scales = np.array([largest[i] for i in kept], dtype=A.dtype)
    return OrthogonalRows(
        tuple(kept), scales, L, np.array(U, dtype=A.dtype).reshape(-1, n), np.array(squares, dtype=A.dtype)
    )


def squared_size(row: Array) -> Any:
    """Σ |xᵢ|², real also for complex numbers."""
    return sum((abs(x) * abs(x) for x in row), start=0)


ISOTROPIC = 2.0**-40
"""Share of its size (about 1e-12) that the square of a complex row must have for the row to be divided by it."""


def _own_square(row: Array) -> Any:
    """u · u, which may vanish for complex rows, and then nothing can be made orthogonal to them."""
    square = row @ row
    if not abs(square) > ISOTROPIC * squared_size(row):
        raise ScalarError("a complex row is orthogonal to itself (u · u = 0): there is no projection along it")
    return square


def _require_same_rank(rest: Array, least: Any) -> None:
    """Refuse a complex step along which a dependent row becomes independent: nothing is differentiable there."""
    if any(abs(x.imag) > least for x in rest):
        raise SingularSystemError(
            "the rank of the rows changes along the imaginary direction of a complex step: a projector has no "
            "derivative there"
        )


def _remainder(row: Array, basis: Sequence[Array], squares: Sequence[Any]) -> tuple[Array, list[Any]]:
    """The rest of a row beside orthogonal rows, and the share of each in it. Done twice: once leaves rounding."""
    shares: list[Any] = [0] * len(basis)
    for _ in range(2):
        for k, (u, square) in enumerate(zip(basis, squares, strict=True)):
            share = (row @ u) / square
            row = row - share * u
            shares[k] = shares[k] + share
    return row, shares


class Complement(NamedTuple):
    """Independent rows A (r, n) after orthogonal reflections."""

    Q2: Array
    """(n − r, n): orthonormal rows with Q₂ Aᵀ = 0."""
    remainders: Array
    """For each row, the square of what the rows before it leave, (r,): zero where rows depend on each other."""


def orthonormal_complement(A: Array) -> Complement:
    """An orthonormal basis of what independent rows A (r, n) allow, by Householder reflections without pivoting.

    Nothing branches on a value, so it compiles; entries are NaN where rows depend on each other.
    """
    r, n = A.shape
    R = np.array(A.T, dtype=object)
    remainders = np.zeros(r, dtype=object)
    reflections = []
    for k in range(r):
        u = R[k:, k].copy()
        remainders[k] = u @ u
        norm = scalars.sqrt(remainders[k])
        u[0] = u[0] + scalars.select(scalars.less(u[0], 0), -norm, norm)
        scale = 2 * reciprocal(u @ u, lenient=True)
        R[k:, k:] = R[k:, k:] - np.multiply.outer(u * scale, u @ R[k:, k:])
        reflections.append((u, scale))
    Q2 = np.eye(n, dtype=int).astype(object)[:, r:]
    for k, (u, scale) in reversed(list(enumerate(reflections))):
        Q2[k:] = Q2[k:] - np.multiply.outer(u * scale, u @ Q2[k:])
    return Complement(Q2.T, remainders)


class RowElimination(NamedTuple):
    """Independent rows A (k, n) taken away one after the other, each with one entry of the vectors that they act on.

    A row a allows x = y − (a·y) w for all y that are 0 at one entry i, where a·w = 1. With w ∝ a + σ eᵢ, σ of the sign
    of aᵢ, wᵢ is never 0, and every x that the row allows is of this form: the entry is chosen once, for all values.
    Where |σ| = |a| this is Householder's reflection; any size near it serves as well, without a square root.
    """

    rows: tuple[Array, ...]
    """Each row (n,) as the rows before it leave it, zero at their entries."""
    ways: tuple[Array, ...]
    """w of each, (n,)."""
    places: tuple[int, ...]
    """The entry of each."""
    L: Array
    """The share of each row in the ones after it, (k, k): unit lower triangular."""
    squares: Array
    """a·a of each (k,): 0 where it depends on the rows before it."""

    def motions(self) -> Array:
        """X (n, n − k) with A X = 0."""
        n = len(self.rows[0])
        units = np.eye(n, dtype=int).astype(object)[[j for j in range(n) if j not in self.places]]
        nothing = np.zeros(len(self.rows), dtype=object)
        return np.array([self._carry_back(unit, nothing) for unit in units], dtype=object).reshape(-1, n).T

    def solve(self, b: Array) -> Array:
        """p (n,) with A p = b."""
        shares = np.array(b, dtype=object)
        for i in range(len(shares)):
            for j in range(i):
                shares[i] = shares[i] - self.L[i, j] * shares[j]
        return self._carry_back(np.zeros(len(self.rows[0]), dtype=object), shares)

    def _carry_back(self, x: Array, shares: Array) -> Array:
        """The vector that the rows take to L · shares, and whose other entries are those of x."""
        for a, w, share in reversed(list(zip(self.rows, self.ways, shares, strict=True))):
            x = x + (share - a @ x) * w
        return np.asarray(x)

    def multipliers(self, b: Array) -> Array:
        """f (k,) with Aᵀ f = b, of a b (n,) that no motion of :meth:`motions` feels."""
        f = np.zeros(len(self.rows), dtype=object)
        for i, (a, w) in enumerate(zip(self.rows, self.ways, strict=True)):
            f[i] = b @ w
            b = b - f[i] * a
        for i in reversed(range(len(f))):
            for j in range(i + 1, len(f)):
                f[i] = f[i] - self.L[j, i] * f[j]
        return f


def eliminate_rows(A: Array, sizes: Sequence[float]) -> RowElimination:
    """Take the rows of A (k, n) away, first ones first; ``sizes`` (k,): roughly how long they are.

    Nothing branches on a value. A row's entry is the one that fewest of the rows after it have, so that zeros stay.
    """
    left = [np.array(row, dtype=object) for row in A]
    L = np.eye(len(A), dtype=int).astype(object)
    places: list[int] = []
    ways: list[Array] = []
    squares = np.zeros(len(A), dtype=object)
    for k, (a, size) in enumerate(zip(left, sizes, strict=True)):
        there = [j for j, x in enumerate(a) if j not in places and not scalars.is_zero(x)]
        i = min(there, key=lambda j: (sum(not scalars.is_zero(b[j]) for b in left[k + 1 :]), -j), default=-1)
        squares[k] = a @ a
        sigma = _near_root(squares[k], size)
        sigma = scalars.select(scalars.less(a[i], 0), -sigma, sigma)
        w = a.copy()
        w[i] = w[i] + sigma
        ways.append(w * reciprocal(squares[k] + sigma * a[i], lenient=True))
        places.append(i)
        for r in range(k + 1, len(left)):
            L[r, k] = left[r] @ ways[k]
            left[r] = left[r] - L[r, k] * a
            left[r][i] = 0
    return RowElimination(tuple(left), tuple(ways), tuple(places), L, squares)


def _near_root(square: Any, size: float) -> Any:
    """A step of Newton towards √square from the power of two near ``size``; with whole numbers, for exact scalars."""
    p = round(math.log2(size))
    up, down = 2 ** max(p, 0), 2 ** max(-p, 0)
    return (square * (down * down) + up * up) / (2 * up * down)


def solve_upper(U: Array, b: Array) -> Array:
    """U⁻¹ b for an upper triangular matrix, for a vector or columns."""
    x = np.array(b, dtype=object)
    for i in reversed(range(len(U))):
        for j in range(i + 1, len(U)):
            x[i] = x[i] - U[i, j] * x[j]
        x[i] = x[i] / U[i, i]
    return x


def solve_lower(L: Array, b: Array) -> Array:
    """L⁻¹ b for a lower triangular matrix, for a vector or columns."""
    x = np.array(b, dtype=object)
    for i in range(len(L)):
        for j in range(i):
            x[i] = x[i] - L[i, j] * x[j]
        x[i] = x[i] / L[i, i]
    return x


def solve_pivoted(A: Array, b: Array) -> Array:
    """A⁻¹ b by Gaussian elimination with partial pivoting, for a vector or columns. For numbers; exact on Fractions."""
    n = len(A)
    U = np.array(A, dtype=object)
    x = np.array(b, dtype=object)
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(U[i, k]))
        if U[best, k] == 0:
            raise SingularSystemError(f"the matrix has no inverse: elimination stops at column {k} of {n}")
        U[[k, best]], x[[k, best]] = U[[best, k]], x[[best, k]]
        for i in range(k + 1, n):
            factor = U[i, k] / U[k, k]
            U[i, k:] = U[i, k:] - factor * U[k, k:]
            x[i] = x[i] - factor * x[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] = x[k] - U[k, j] * x[j]
        x[k] = x[k] / U[k, k]
    return x


# --- null spaces, of floats only --------------------------------------------------------------------------------------


class NullSpaces(NamedTuple):
    """Orthonormal bases of what a matrix A (m, n) of rank r takes to zero, on both sides."""

    right: Array
    """N (n, n − r): A N = 0."""
    left: Array
    """L (m, m − r): Lᵀ A = 0."""


def null_spaces(A: Array, tolerance: float, size: float | None = None) -> NullSpaces:
    """The null spaces of a matrix of floats, by its singular values.

    Args:
        A: (m, n); either may be 0.
        tolerance: share of ``size`` up to which a singular value counts as zero.
        size: that of the rows; default: the largest singular value.
    """
    U, s, Vt = np.linalg.svd(A, full_matrices=True)
    rank = int(np.sum(s > tolerance * (s.max(initial=0.0) if size is None else size)))
    return NullSpaces(Vt[rank:].T, U[:, rank:])
