"""The Delassus matrix G = J M† Jᵀ of a contact problem in plain numbers, and the linear systems that are made of it.

Small ones are ordinary arrays. Large ones are kept as the :class:`DelassusProduct` that they are: a contact moves its
own two bodies, so J and (M† Jᵀ)ᵀ are sparse, also where G is full because all contacts are on one body. Of the
two unknowns

    L (G x) + D x = b        ⇔        L J y + D x = b,   y − M† Jᵀ x = 0

the second form has the sparsity of contacts and bodies, in piles as well as on a plate with a thousand points. What a
solver asks of either kind is here; nothing else has to know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.body_poses import ranges

DENSE_UP_TO = 100
"""Blocks up to which a matrix is an array: there LAPACK is as fast as sparse factors."""

FULL_UP_TO = 300
"""Blocks up to which it is one where most contacts have a body in common, and must be swept one after the other."""

SHIFT = 1e-7
"""ε against the mean diagonal in solutions of least norm; by it, against the softest mode, errors fall each time."""

SOLUTION_REFINEMENTS = 4
"""Times that such a solution is improved; how good it is, is seen by who asked for it."""


class DelassusProduct:
    """G = J M† Jᵀ (3k, 3k), kept as its factors."""

    ndim = 2

    def __init__(self, rows: Any, response: Any, part: Array) -> None:
        self.rows, self.response, self.part = rows, response, part
        """J and (M† Jᵀ)ᵀ (3k, nv), sparse, and the part of the model that each velocity belongs to, (nv,)."""

    @property
    def shape(self) -> tuple[int, int]:
        """(3k, 3k)"""
        return self.rows.shape[0], self.rows.shape[0]

    def __matmul__(self, x: Array) -> Array:
        return np.asarray(self.rows @ (self.response.T @ x))

    @cached_property
    def touching_parts(self) -> tuple[Array, Array]:
        """Every contact with every part of the model that it touches: numbers of contacts, and of parts."""
        entries = self.response.tocoo()
        contact, column = entries.coords[0] // 3, entries.coords[1]
        pairs = np.unique(contact * (self.part.max(initial=0) + 1) + self.part[column])
        return np.divmod(pairs, self.part.max(initial=0) + 1)

    @cached_property
    def own(self) -> Array:
        """The blocks G_ii (k, 3, 3)."""
        J, R = ([matrix[a::3] for a in range(3)] for matrix in (self.rows, self.response))
        return np.array([[first.multiply(second).sum(axis=1) for second in R] for first in J]).transpose(2, 0, 1)

    def array(self) -> Array:
        """G as an array."""
        return np.asarray(self.rows.toarray() @ self.response.toarray().T)


Matrix: TypeAlias = Any
"""G (3k, 3k): an array, or a :class:`DelassusProduct`."""


def delassus(rows: Any, response: Any, part: Array) -> Matrix:
    """J M† Jᵀ of sparse rows J (3k, nv) and (M† Jᵀ)ᵀ (3k, nv), and the part of each velocity, (nv,)."""
    G = DelassusProduct(rows, response, part)
    return G.array() if _is_small(G) else G


def _is_small(G: DelassusProduct) -> bool:
    k = G.shape[0] // 3
    if not DENSE_UP_TO < k <= FULL_UP_TO:
        return k <= DENSE_UP_TO
    return bool(2 * np.bincount(G.touching_parts[1]).max(initial=0) > k)


def is_sparse(G: Matrix) -> bool:
    """Whether a matrix is kept as a product."""
    return isinstance(G, DelassusProduct)


def as_array(G: Matrix) -> Array:
    """G (3k, 3k) as an array, however it is kept."""
    return G.array() if is_sparse(G) else np.asarray(G)


def own_blocks(G: Matrix) -> Array:
    """The blocks G_ii (k, 3, 3)."""
    if is_sparse(G):
        return np.asarray(G.own)
    k = len(G) // 3
    return np.asarray(G.reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)])


def reach(G: Matrix, x: Array) -> Array:
    """Size of the sums of products in G x if nothing cancels: |G| |x|, or |J| |M† Jᵀ| |x|."""
    if is_sparse(G):
        return np.asarray(abs(G.rows) @ (abs(G.response).T @ np.abs(x)))
    return np.asarray(np.abs(G) @ np.abs(x))


def products(G: Matrix) -> int:
    """The most products that are summed up for one number of G x."""
    if not is_sparse(G):
        return len(G)
    longest = [int(np.diff(matrix.indptr).max(initial=0)) for matrix in (G.rows, G.response.T.tocsr())]
    return sum(longest)


def part(G: Matrix, numbers: Array) -> Matrix:
    """The matrix of some blocks; an array where few are left."""
    at = (3 * numbers[:, None] + np.arange(3)).ravel()
    if not is_sparse(G):
        return G[np.ix_(at, at)]
    response, rows = pick_rows(G.response, at), pick_rows(G.rows, at)
    columns, local = np.unique(response.indices, return_inverse=True)
    narrow = [(response, local), (rows, np.searchsorted(columns, rows.indices))]  # no row moves more than its response
    response, rows = (csr((x.data, indices, x.indptr), len(columns)) for x, indices in narrow)
    return delassus(rows, response, G.part[columns])


def pick_rows(matrix: Any, at: Array) -> Any:
    """Some rows of a sparse array; less ado than indexing, which counts where there are many small parts."""
    counts = np.diff(matrix.indptr)[at]
    entries = ranges(matrix.indptr[at], counts)
    flat = matrix.data[entries], matrix.indices[entries], np.concatenate([[0], np.cumsum(counts)])
    return csr(flat, matrix.shape[1])


def csr(flat: tuple[Array, Array, Array], columns: int) -> Any:
    """A sparse array of so many columns from its numbers, their columns, and where each row begins."""
    from scipy.sparse import csr_array

    return csr_array(flat, shape=(len(flat[2]) - 1, columns))


def scale_delassus(G: Matrix, scale: Array) -> Matrix:
    """S G S with the diagonal S, given as (k, 3)."""
    if not is_sparse(G):
        return scale.reshape(-1, 1) * G * scale.ravel()
    from scipy.sparse import diags_array

    S = diags_array(scale.ravel())
    return DelassusProduct(S @ G.rows, S @ G.response, G.part)


def with_diagonal(G: Matrix, own: Array) -> Matrix:
    """G + diag(own), own (3k,) not negative: blocks that yield to their own impulses."""
    if not is_sparse(G):
        return G + np.diag(own)
    from scipy.sparse import coo_array, hstack

    # a yielding row moves a velocity of its own, of which nobody else knows
    some = np.flatnonzero(own)
    more = coo_array((np.sqrt(own[some]), (some, np.arange(len(some)))), shape=(len(own), len(some)))
    part = np.concatenate([G.part, G.part.max(initial=-1) + 1 + np.arange(len(some))])
    return DelassusProduct(hstack([G.rows, more], format="csr"), hstack([G.response, more], format="csr"), part)


class HostLinks(NamedTuple):
    """Columns of L and D outside their blocks: rows of some blocks that follow the normal row of another one."""

    block: Array
    """Numbers of the blocks, (l,)."""
    host: Array
    """Numbers of the blocks that they follow, (l,)."""
    left: Array
    """Entries of L, (l, 3)."""
    diagonal: Array
    """Entries of D, (l, 3)."""

    def entries(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Rows, columns and values of one of the two among all rows."""
        lines = 3 * self.block[:, None] + np.arange(3)
        return lines.ravel(), np.repeat(3 * self.host, 3), numbers.ravel()


class DelassusSystem:
    """(L G + D) x = b, factored; L and D (k, 3, 3) have one block per contact, and columns between them if there are
    ``links``. ``rows``: the others of x are zero."""

    matrix: Any
    """L G + D, dense; sparse, that of x and y."""
    _solve: Callable[[Array], Array]

    def __init__(
        self, G: Matrix, left: Array, diagonal: Array, rows: Array | None = None, links: HostLinks | None = None
    ) -> None:
        self.solvable = True
        if is_sparse(G):
            self._factor_sparse(G, left, diagonal, rows, links)
        else:
            self._factor_dense(G, left, diagonal, rows, links)

    def _factor_dense(
        self, G: Array, left: Array, diagonal: Array, rows: Array | None, links: HostLinks | None
    ) -> None:
        from scipy.linalg import get_lapack_funcs

        k = len(left)
        self.matrix = (left @ G.reshape(k, 3, 3 * k)).reshape(3 * k, 3 * k)
        blocks = self.matrix.reshape(k, 3, k, 3)
        blocks[np.arange(k), :, np.arange(k)] += diagonal
        if links is not None:
            self.matrix.reshape(k, 3, 3 * k)[links.block] += links.left[:, :, None] * G[3 * links.host][:, None]
            blocks[links.block, :, links.host, 0] += links.diagonal
        if rows is not None:
            self.matrix = self.matrix[np.ix_(rows, rows)]
        factor, solve = get_lapack_funcs(("getrf", "getrs"), dtype=float)
        lu, pivots, fault = factor(self.matrix)
        self.solvable = fault == 0
        self._solve = lambda b: solve(lu, pivots, b)[0]

    def _factor_sparse(
        self, G: DelassusProduct, left: Array, diagonal: Array, rows: Array | None, links: HostLinks | None
    ) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.linalg import splu

        n, nv = G.rows.shape
        count, place = n, np.arange(n)  # of x, those in use first
        if rows is not None:
            count, place = len(rows), np.full(n, -1)
            place[rows] = np.arange(count)
        D, L, R = _block_diagonal(diagonal), _block_diagonal(left), G.response
        if links is not None:
            for_rows = [links.entries(numbers) for numbers in (links.diagonal, links.left)]
            D, L = (own + _from_entries(*entries, n) for own, entries in zip((D, L), for_rows, strict=True))
        LJ = L @ G.rows
        (first, second, d), (at, j, x), (to, i, r) = _entries(D), _entries(LJ), _entries(R)
        y = count + np.arange(nv)
        lines = np.concatenate([place[first], place[at], y[i], y])
        columns = np.concatenate([place[second], y[j], place[to], y])
        numbers, used = np.concatenate([d, x, -r, np.ones(nv)]), (lines >= 0) & (columns >= 0)
        size = (count + nv, count + nv)
        self.matrix = coo_array((numbers[used], (lines[used], columns[used])), shape=size).tocsc()
        try:
            self._solve = splu(self.matrix).solve
        except RuntimeError:  # exactly singular
            self.solvable = False

    def solve(self, b: Array, refinements: int = 0) -> Array:
        """x for a right side b, improved so many times: where D spans many orders of magnitude, factors lose digits."""
        right = np.concatenate([b, np.zeros(self.matrix.shape[0] - len(b))])
        x = self._solve(right)
        for _ in range(refinements):
            x = x + self._solve(right - self.matrix @ x)
        return x[: len(b)]


def _block_diagonal(blocks: Array) -> Any:
    from scipy.sparse import bsr_array

    return bsr_array((blocks, np.arange(len(blocks)), np.arange(len(blocks) + 1))).tocsr()


def _from_entries(lines: Array, columns: Array, numbers: Array, n: int) -> Any:
    from scipy.sparse import coo_array

    return coo_array((numbers, (lines, columns)), shape=(n, n)).tocsr()


def _entries(matrix: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and numbers of a sparse array of rows."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices, matrix.data


def least_norm(G: Matrix, right: Array, rows: Array) -> Array:
    """The one of least norm of all x (3k,) with G x = right (3k,) in some rows, and zero in all others, the one of
    least norm.

    Dense: by pivoted QR, a third of the time of singular values. Sparse: x ← x + (G + ε)⁻¹ (right − G x) from zero.
    Every x on the way is a combination of columns of G, and so is the limit: the solution of least norm.
    """
    found = np.zeros(G.shape[0])
    if not len(rows):
        return found
    if not is_sparse(G):
        from scipy.linalg import lstsq

        cut = len(found) * np.finfo(float).eps
        found[rows] = lstsq(G[np.ix_(rows, rows)], right[rows], cut, check_finite=False, lapack_driver="gelsy")[0]
        return found
    k = len(G.own)
    mean = np.einsum("kii->", G.own) / (3 * k)
    system = DelassusSystem(G, np.tile(np.eye(3), (k, 1, 1)), np.tile(SHIFT * mean * np.eye(3), (k, 1, 1)), rows)
    for _ in range(SOLUTION_REFINEMENTS if system.solvable else 0):
        found[rows] += system.solve((right - G @ found)[rows])
    return found


# --- Contacts that act on each other: the independent parts of a contact problem --------------------------------------


def islands(G: Matrix) -> list[Array]:
    """Numbers of the contacts that act on each other, directly or through others, for G (3k, 3k)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    k = G.shape[0] // 3
    if is_sparse(G):  # contacts and the parts of the model that they touch
        first, second = G.touching_parts[0], k + G.touching_parts[1]
    else:
        acts = (G != 0).reshape(k, 3, k, 3).any(axis=(1, 3))
        if k and acts[0].all():  # as those of one body do: no graph is needed to see that
            return [np.arange(k)]
        first, second = np.nonzero(acts)
    size = max(k, second.max(initial=-1) + 1)
    near = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(size, size))
    island = connected_components(near, directed=False)[1][:k]
    order = np.argsort(island, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(island[order])) + 1) if k else []
