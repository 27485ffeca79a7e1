"""Pseudo-inverses of the block matrices of one phase whose rows depend on each other, without a decomposition of each.

With L and N bases of the left and right null spaces of one matrix, those of its neighbours have regular *bordered*
matrices, and one inversion gives all that is needed:

    [K  L]⁻¹   [P   N']        K⁺ = (1 − N' N'⁺) P (1 − L'ᵀ⁺ L'ᵀ)   where  S = 0
    [Nᵀ 0]   = [L'ᵀ  S]

N' and L' are the null spaces of the neighbour itself. S ≠ 0 tells that it has not lost the same rank, and a singular
value decomposition answers instead.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array

RANK_OF_MODE = 1e-12
"""Singular values below this share of the largest count as zero."""

FAR_BORDERS = 1e4
"""Size of N' and L' at which the borders are those of a matrix too far away."""


class PseudoInverse:
    """Remembers the null spaces of the first matrix of each size, and no others: so answers do not depend on what was
    asked for in between."""

    def __init__(self) -> None:
        self._borders: dict[int, tuple[Array, Array]] = {}

    def __call__(self, K: Array) -> Array:
        """K⁺ (m, n, n) of m matrices."""
        size = K.shape[1]
        if size not in self._borders:
            self._borders[size] = _null_spaces(K[0])
        L, N = self._borders[size]
        inverse = _inverse(_bordered(K, L, N))
        P, right = inverse[:, :size, :size], inverse[:, :size, size:]
        left, S = np.swapaxes(inverse[:, size:, :size], 1, 2), inverse[:, size:, size:]
        result = _outside(right) @ P @ _outside(left)
        lost = np.abs(S).max(axis=(1, 2), initial=0.0) <= RANK_OF_MODE * np.abs(K).max(axis=(1, 2))
        near = np.abs(np.concatenate([right, left], axis=2)).max(axis=(1, 2), initial=0.0) <= FAR_BORDERS
        others = np.flatnonzero(~(lost & near))
        if len(others):
            result[others] = np.linalg.pinv(K[others], rcond=RANK_OF_MODE)
        return result


def _null_spaces(K: Array) -> tuple[Array, Array]:
    U, s, Vt = np.linalg.svd(K)
    rank = int(np.sum(s > RANK_OF_MODE * s[0]))
    return U[:, rank:], Vt[rank:].T


def _bordered(K: Array, L: Array, N: Array) -> Array:
    m, n, z = len(K), K.shape[1], L.shape[1]
    B = np.zeros((m, n + z, n + z))
    B[:, :n, :n], B[:, :n, n:], B[:, n:, :n] = K, L, N.T
    return B


def _inverse(B: Array) -> Array:
    """NaN where there is none."""
    try:
        return np.linalg.inv(B)
    except np.linalg.LinAlgError:
        return np.full(B.shape, np.nan)


def _outside(N: Array) -> Array:
    """The projectors (m, n, n) onto what is at a right angle to the columns of N (m, n, z)."""
    NT = np.swapaxes(N, 1, 2)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.eye(N.shape[1]) - N @ np.linalg.solve(NT @ N, NT))
