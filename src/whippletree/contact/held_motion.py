"""Motion under rows that hold, some of them switched off: the block matrix of a mode of contact, on any scalar.

    [M  −Eᵀ] [a]   [b ]
    [R   C ] [f] = [−γ]

Rows that are off are zero in R and E, and their forces too, so that one function serves all modes of contact. With
ρ > 0, M_ρ = M + Rᵀ ρ R is positive definite wherever the rows that are on carry what has no mass, and the answer does
not depend on ρ (the augmented route of :mod:`whippletree.constraints.kkt`, for E ≠ R where contacts slide):

    M_ρ a = b − Rᵀ ρ γ + (E − ρ C R)ᵀ f        (R M_ρ⁻¹ (E − ρ C R)ᵀ + C) f = −γ − R M_ρ⁻¹ (b − Rᵀ ρ γ)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import ldlt
from whippletree.arithmetic.scalars import less, minimum, select

SMALLEST_PIVOT = 1e-11
"""Share of its diagonal entry, below which a pivot of elimination without exchanges is not trusted."""


class HeldMotion(NamedTuple):
    """Effect of rows on a motion."""

    a: Array
    """(n,)"""
    f: Array
    """(r,), zero for rows that are off."""
    trust: Any
    """Positive where no pivot was small."""


def held_motion(M: Array, b: Array, R: Array, E: Array, compliance: Array, bias: Array, on: Array) -> HeldMotion:
    """a and f of the block matrix; ``on`` (r,) is 1 for rows that hold and 0 for others, which R and E contain too."""
    n, r = len(b), len(R)
    R, E, bias = (R.T * on).T, (E.T * on).T, bias * on
    total = sum(M.diagonal(), start=0)
    sizes = [row @ row for row in R]
    rho = np.array([total / (n * select(less(0, size), size, 1)) for size in sizes], dtype=object)
    augmented = M + R.T @ (rho[:, None] * R)
    factor = ldlt(augmented, lenient=True)
    trust = _least([d / x for d, x in zip(factor.pivots, augmented.diagonal(), strict=True)])
    a = factor.solve(b - R.T @ (rho * bias))
    if not r:
        return HeldMotion(a, np.zeros(0, dtype=object), trust)
    pushes = factor.solve((E - (rho * compliance * on)[:, None] * R).T)
    S = R @ pushes
    for i in range(r):
        S[i, i] = S[i, i] + compliance[i] * on[i] + (1 - on[i])
    f, least = _solve_by_elimination(S, -bias - R @ a)
    return HeldMotion(a + pushes @ f, f, minimum(trust, least))


def _solve_by_elimination(S: Array, right: Array) -> tuple[Array, Any]:
    """x of S x = right without exchanges, and the least share of its diagonal entry that a pivot had."""
    S, x, n = np.array(S, dtype=object), np.array(right, dtype=object), len(right)
    diagonal = S.diagonal().copy()
    for k in range(n):
        inverse = 1 / S[k, k]
        for i in range(k + 1, n):
            share = S[i, k] * inverse
            S[i, k + 1 :] = S[i, k + 1 :] - share * S[k, k + 1 :]
            x[i] = x[i] - share * x[k]
    for k in reversed(range(n)):
        x[k] = (x[k] - S[k, k + 1 :] @ x[k + 1 :]) / S[k, k]
    return x, _least([S[k, k] / diagonal[k] for k in range(n)])


def _least(shares: list[Any]) -> Any:
    """Positive where all shares are large enough."""
    found: Any = 1
    for share in shares:
        found = select(less(SMALLEST_PIVOT, share), found, -1)
    return found
