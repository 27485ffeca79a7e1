"""Routes through a block matrix [M Aᵀ; A −C]: one way to ask for any of them, and what each must leave to be trusted.

M may be the mass matrix of a whole mechanism or the joint inertia of one cluster of it: the routes do not know. Each
gives a :class:`whippletree.constraints.kkt.Factored`: ``solve(b, gamma)``, and the margins of its pivots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.constraints import kkt

PIVOT_TOLERANCE = 2.0**-33
"""Share of its diagonal entry (about 1e-10) that a pivot must keep for a factor to be trusted. At such a pivot, rows
are within 1e-5 rad of being dependent; accelerations are still right to about 1e-11, forces to about 1e-6."""

RANK_TOLERANCE = 1e-6
"""Relative size below which a pivot of the rank-revealing factor counts as zero."""

MASSLESS_TOLERANCE = 1e-12
"""Relative inertia below which a motion that every row allows counts as massless, in the rank-revealing route."""


def fails(margin: Any) -> bool:
    """Whether a margin is known not to be positive.

    A NaN state is a NaN answer, not a singular system: NaN is neither below 1 nor above 0. A symbol tells nothing.
    """
    try:
        return bool(scalars.less(margin, 1)) and not scalars.less(0, margin)
    except TypeError:
        return False


class RowTerms(NamedTuple):
    """Properties of factored rows beside their Jacobian, (k,) each."""

    compliance: Array
    """0 for rigid rows."""
    squares: Array
    """|Aᵢ|² at a generic configuration: their typical size."""
    mask: Array | None = None
    """1 for rows that are on, 0 for those that are off; None if nothing can be switched."""

    @property
    def corner(self) -> Array | None:
        """The diagonal of C, with 1 for rows that are off (whose A is zero); None if it is zero."""
        corner = self.compliance if self.mask is None else self.compliance * self.mask + (1 - self.mask)
        return corner if np.any(corner != 0) else None

    def mask_rows(self, A: Array) -> Array:
        """Rows with zeros where they are off; of A (k, n), or right-hand sides (k,) or (k, c)."""
        return A if self.mask is None else (A.T * self.mask).T


def factor_block(
    route: str,
    M: Array,
    A: Array,
    terms: RowTerms,
    *,
    parents: Sequence[int],
    order: Sequence[int],
    doubtful: bool,
) -> kkt.Factored:
    """Factor by one of the routes that form M.

    Args:
        route: ``schur``, ``augmented``, ``nullspace`` or ``block``; see :mod:`whippletree.constraints.kkt`.
        M: (n, n).
        A: of the factored rows, zeros where they are off, (k, n).
        terms: what else is known of the rows.
        parents: the tree of M's velocities, for ``schur``.
        order: in which ``augmented`` eliminates velocities, last first.
        doubtful: whether only the state decides if M ≻ 0, for ``schur``.
    """
    if route == "block":
        corner = terms.corner
        return kkt.block(M, A, corner)
    if route == "schur":
        return kkt.schur(M, A, parents, terms.corner, doubtful=doubtful)
    soft = [i for i, c in enumerate(terms.compliance) if c != 0]
    hard = [i for i, c in enumerate(terms.compliance) if c == 0]
    stiffness = np.array([1 / terms.compliance[i] for i in soft], dtype=object)
    heavy = kkt.stiffen(M, A[soft], stiffness) if soft else M
    if route == "nullspace":
        factor: kkt.Factored = kkt.nullspace(heavy, A[hard], RANK_TOLERANCE)
    else:
        # typical sizes, not those of this state: a row that vanishes at a dead point, or is switched off, has none
        idle = None if terms.mask is None else 1 - terms.mask[hard]
        factor = kkt.augmented(heavy, A[hard], row_weights(heavy, terms.squares[hard]), idle, order=order)
    return kkt.Softened(factor, A[soft], stiffness, (hard, soft)) if soft else factor


def rows_depend(factor: kkt.Factored, terms: RowTerms) -> bool:
    """Whether rigid rows that are on depend on each other; only a rank-revealing factor tells."""
    rigid = factor.rigid if isinstance(factor, kkt.Softened) else factor
    if not isinstance(rigid, kkt.Nullspace):
        return False
    hard = [i for i, c in enumerate(terms.compliance) if c == 0]
    return rigid.rank < sum(terms.mask is None or bool(terms.mask[i]) for i in hard)


def row_weights(M: Array, squares: Array) -> Array:
    """:func:`whippletree.constraints.kkt.row_scales` for squares that are powers of two: whole numbers keep exact
    scalars exact.
    """
    mean = kkt.row_scales(M, np.ones(1, dtype=int))[0]
    powers = [round(np.log2(float(square))) for square in squares]
    return np.array([mean / 2**p if p >= 0 else mean * 2**-p for p in powers], dtype=object)
