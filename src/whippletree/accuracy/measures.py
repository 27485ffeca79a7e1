"""Numbers that tell how a matrix is conditioned. Plain floats, one matrix or a batch of them.

    κ₂               λ_max / λ_min (004 eq. 6): what relative errors of forces may be multiplied with (eq. 4)
    κ₂ equilibrated  of S M S with S = diag(mᵢᵢ)^(−1/2): no units in it, within a factor n of the smallest κ that any
                     diagonal scaling reaches (van der Sluis 1969). This one governs Cholesky's rounding, κ₂ does not
    δ                largest over smallest diagonal entry; δ_s = scale · δ, the scale being κ / δ at a reference state
    pivot ratios     of both orders of elimination

The smallest eigenvalue of a badly scaled matrix is noise in ``eigvalsh(M)``, but not in the largest singular value of
the inverse factor of the equilibrated matrix. So κ₂ is λ_max(M) ‖L⁻¹ S‖², which keeps its digits for as long as the
equilibrated κ leaves any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array

EPS = float(np.finfo(float).eps)


class Measures(NamedTuple):
    """Condition measures of a symmetric positive semidefinite matrix (n, n), or of a batch: each entry has the batch's
    shape."""

    kappa: Array
    kappa_equilibrated: Array
    diagonal_ratio: Array
    pivot_ratio_base_first: Array
    pivot_ratio_tips_first: Array

    @staticmethod
    def not_finite() -> Measures:
        """Measures of a matrix that is not finite."""
        return Measures(*[np.asarray(np.nan)] * 5)

    @staticmethod
    def stack(each: list[Measures], batch: tuple[int, ...]) -> Measures:
        """Measures of single matrices as measures of a batch; for no batch dimension, plain floats."""
        return Measures(*[np.array([m[i] for m in each], dtype=float).reshape(batch)[()] for i in range(5)])


def measures(M: Array) -> Measures:
    """Condition measures of one matrix (n, n); the ratios of a singular matrix are infinite, those of an empty one are
    1."""
    if not np.all(np.isfinite(M)):
        return Measures.not_finite()
    if not len(M):
        return Measures(*[np.asarray(1.0)] * 5)
    diagonal = np.diag(M)
    if diagonal.min() <= 0:
        return Measures(*[np.asarray(np.inf)] * 5)
    delta = diagonal.max() / diagonal.min()
    L = factor(M)
    flipped = factor(M[::-1, ::-1])
    if L is None or flipped is None:
        return Measures(*map(np.asarray, (np.inf, np.inf, delta, np.inf, np.inf)))
    scale = np.sqrt(diagonal)
    inverse = np.linalg.inv(L)
    scaled = M / np.outer(scale, scale)
    equilibrated = np.linalg.eigvalsh(scaled)[-1] * _squared_norm(inverse)
    kappa = np.linalg.eigvalsh(M)[-1] * _squared_norm(inverse / scale)
    base = (np.diag(L) * scale) ** 2
    tips = (np.diag(flipped) * scale[::-1]) ** 2
    return Measures(*map(np.asarray, (kappa, equilibrated, delta, base.max() / base.min(), tips.max() / tips.min())))


def _squared_norm(half: Array) -> Any:
    """‖half‖₂², the largest eigenvalue of halfᵀ half: a third of the cost of a singular value decomposition."""
    return np.linalg.eigvalsh(half.T @ half)[-1]


def factor(M: Array) -> Array | None:
    """The Cholesky factor (n, n) of M at unit diagonal; None if rounding hides all inertia in some direction."""
    scale = np.sqrt(np.diag(M))
    try:
        L = np.linalg.cholesky(M / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    # a squared pivot of this size is the rounding of the ones that it was computed from
    return None if np.min(np.diag(L)) ** 2 <= 2 * len(M) * EPS else L


def inverse(M: Array) -> Array:
    """M⁻¹ (n, n), as accurate as the equilibrated matrix allows; infinite entries for a singular matrix."""
    if not len(M):
        return M.copy()
    L = factor(M) if np.all(np.isfinite(M)) and np.diag(M).min() > 0 else None
    if L is None:
        return np.full(M.shape, np.inf if np.all(np.isfinite(M)) else np.nan)
    half = np.linalg.inv(L) / np.sqrt(np.diag(M))
    return np.asarray(half.T @ half)


class Sensitivity(NamedTuple):
    """How accelerations a = M⁻¹ φ answer to changes of the forces φ (004 eq. 2–4)."""

    a: Array
    """Accelerations, (n,)."""
    inverse: Array
    """M⁻¹ (n, n): the change of each acceleration per unit of each force."""
    amplification: Array
    """(|M⁻¹| |φ|)ᵢ / |aᵢ|, (n,): relative change of acceleration i per relative change of all forces, at worst."""
    kappa: float
    """Statement of eq. 4 on all of them together."""

    def change(self, dphi: Any) -> Array:
        """δa = M⁻¹ δφ (n,): what a known change of forces does (eq. 3)."""
        return np.asarray(self.inverse @ np.asarray(dphi, dtype=float))

    def bound(self, dphi: Any) -> Array:
        """|M⁻¹| |δφ| (n,): the most that changes of at most this size can do to each acceleration."""
        return np.asarray(np.abs(self.inverse) @ np.abs(np.asarray(dphi, dtype=float)))


def sensitivity(M: Array, phi: Array) -> Sensitivity:
    """Sensitivity of the accelerations under forces φ (n,)."""
    inverted = inverse(M)
    a = inverted @ phi
    with np.errstate(divide="ignore", invalid="ignore"):
        amplification = np.abs(inverted) @ np.abs(phi) / np.abs(a)
    return Sensitivity(a, inverted, amplification, float(measures(M).kappa))


class BlockMeasures(NamedTuple):
    """Condition measures of the block matrix [M Aᵀ; A −C]: indefinite, so singular values take the place of
    eigenvalues."""

    kappa: Array
    kappa_equilibrated: Array

    @staticmethod
    def stack(each: list[BlockMeasures], batch: tuple[int, ...]) -> BlockMeasures:
        """Measures of single matrices as measures of a batch."""
        return BlockMeasures(*[np.array([m[i] for m in each], dtype=float).reshape(batch)[()] for i in range(2)])


def block_measures(K: Array) -> BlockMeasures:
    """κ₂ of a symmetric indefinite matrix, raw, and after scaling rows and columns alike to largest entries of 1."""
    if not np.all(np.isfinite(K)):
        return BlockMeasures(np.asarray(np.nan), np.asarray(np.nan))
    if not len(K):
        return BlockMeasures(np.asarray(1.0), np.asarray(1.0))
    scale = equilibration(K)
    return BlockMeasures(np.asarray(_condition(K)), np.asarray(_condition(K * np.outer(scale, scale))))


def _condition(K: Array) -> float:
    values = np.linalg.svd(K, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > len(K) * EPS * values[0] else np.inf


def equilibration(K: Array, rounds: int = 10) -> Array:
    """s (n,) such that the rows and columns of diag(s) K diag(s) have a largest entry of 1 (Ruiz 2001)."""
    scale = np.ones(len(K))
    for _ in range(rounds):
        largest = np.abs(K * np.outer(scale, scale)).max(axis=1)
        scale = scale / np.sqrt(np.where(largest > 0, largest, 1.0))
    return scale
