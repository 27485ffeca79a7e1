"""Conditioning along a motion: κ₂ and its cheap estimates over time, and how well each follows κ₂."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whippletree.accuracy.measures import Measures, measures
from whippletree.arithmetic.arrays import Array

ESTIMATES = ("diagonal_ratio", "pivot_ratio_base_first", "pivot_ratio_tips_first")


@dataclass(frozen=True)
class Series:
    """The mass matrix of a model along a motion, or at a set of states."""

    name: str
    times: Array
    eigenvalues: Array
    """(T, nv), ascending."""
    diagonals: Array
    """(T, nv)."""
    mass: Measures

    @property
    def scale(self) -> float:
        """κ / δ at the first state (004 eq. 15)."""
        return float(self.mass.kappa[0] / self.mass.diagonal_ratio[0])

    @property
    def scaled(self) -> Array:
        """δ_s over time."""
        return np.asarray(self.scale * self.mass.diagonal_ratio)

    def correlations(self) -> dict[str, float]:
        """Pearson's correlation of the logarithm of each estimate with that of κ₂; NaN where one is constant."""
        return {name: correlation(getattr(self.mass, name), self.mass.kappa) for name in ESTIMATES}

    def range_of_error(self) -> tuple[float, float]:
        """Least and largest δ_s / κ₂."""
        quotient = self.scaled / self.mass.kappa
        return float(np.min(quotient)), float(np.max(quotient))


def correlation(x: Array, y: Array) -> float:
    """Of the logarithms of two positive series; NaN where one hardly changes, so that rounding would decide."""
    a, b = np.log10(x), np.log10(y)
    if not np.all(np.isfinite(a)) or not np.all(np.isfinite(b)) or min(np.ptp(a), np.ptp(b)) < 1e-9:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def series(name: str, times: Array, matrices: Array) -> Series:
    """From mass matrices (T, nv, nv)."""
    each = [measures(M) for M in matrices]
    diagonals = np.array([np.diag(M) for M in matrices])
    return Series(name, times, np.linalg.eigvalsh(matrices), diagonals, Measures.stacked(each, (len(each),)))
