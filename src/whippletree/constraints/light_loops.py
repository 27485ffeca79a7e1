"""Whether a loop is so light that the route through M⁻¹ loses digits: what rounding does to both routes, foreseen.

``schur`` solves with M and with A M⁻¹ Aᵀ; ``augmented`` with M_ρ = M + Aᵀ R A in the place of M, for a little more
work. Where a link of a loop weighs little, entries of M⁻¹ are large and cancel: a rocker of 1e-6 kg in a four-bar of
1 kg costs ``schur`` five digits, a coupler of 1e-13 kg all but three. Factors of these matrices have roundings of the
size ε |L||Lᵀ|, entry by entry, which reach the accelerations through the blocks of the inverse; so the errors of both
routes can be compared before either is taken.

A joint that lacks inertia in some states only (a thin rod on a universal joint, along its first axis) is a reason for
``augmented`` if rows can carry what has none there: if some row feels a motion without energy.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array, spread_signs
from whippletree.constraints import kkt
from whippletree.spatial import RigidInertia

LIGHT = 16.0
"""Ratio of the error foreseen for ``schur`` to that of ``augmented`` from which loops count as light: a digit more is
lost, and that is worth the additional work."""

WEIGHTLESS = 1e-9
"""Share of its largest moment of inertia below which a body has none about an axis, and of its size below which a row
does not feel a motion: rounding of the numbers of a file."""


def is_light(M: Array, A: Array) -> bool:
    """Whether the route without M⁻¹ keeps clearly more digits, for an inertia M (n, n) and independent rows A (k, n).

    Compared under forces and under row biases of usual sizes, each of the kind that moves every part alike.
    """
    if not has_inertia(M):
        return True
    n, k = len(M), len(A)
    none = np.zeros(n), np.zeros(k)
    inertias, squares = np.abs(np.diag(M)), np.einsum("ij,ij->i", A, A)
    loads = [(np.sqrt(inertias) * _signs(n), none[1]), (none[0], np.sqrt(squares) * _signs(k))]
    R = np.array(kkt.row_scales(M, np.where(squares > 0, squares, 1.0)), dtype=float)
    try:
        heavy = M + (A.T * R) @ A
        dagger = _inverse_of_block(M, A)
        return any(not _error(M, A, dagger, load, 0 * R) <= LIGHT * _error(heavy, A, dagger, load, R) for load in loads)
    except np.linalg.LinAlgError:
        return True  # rounding hides what the route would have to divide by


def has_inertia(M: Array) -> bool:
    """Whether every motion has inertia that rounding does not hide, for an inertia M (n, n)."""
    diagonal = np.diag(M)
    if not np.all(diagonal > 0):
        return False
    try:
        L = np.linalg.cholesky(M / np.sqrt(np.outer(diagonal, diagonal)))
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(np.diag(L) ** 2 > 2 * len(M) * np.finfo(float).eps))


def weightless_motions(inertia: RigidInertia) -> list[Array]:
    """Twists (6,) that span those in which a body has no energy: turns of a rod about itself, everything without mass.

    With mass, its centre stands still in them: v + ω × c = 0.
    """
    mass, moment, about_origin = float(inertia.mass), inertia.moment.astype(float), inertia.rotation.astype(float)
    if not mass > 0:
        return list(np.eye(6))
    c = moment / mass
    about_center = about_origin - mass * (c @ c * np.eye(3) - np.outer(c, c))
    moments, axes = np.linalg.eigh(about_center)
    idle = moments <= WEIGHTLESS * np.abs(about_origin).max(initial=0.0)
    return [np.concatenate([axis, np.cross(c, axis)]) for axis in axes.T[idle]]


def _signs(n: int) -> Array:
    """Signs of the loads under which both routes are compared."""
    return spread_signs(np.arange(1, n + 1))


def _inverse_of_block(M: Array, A: Array) -> Array:
    K = np.block([[M, A.T], [A, np.zeros((len(A), len(A)))]])
    scale = 1 / np.sqrt(np.maximum(np.abs(K).max(axis=1, initial=0.0), np.finfo(float).tiny))
    return np.asarray(np.linalg.inv(K * np.outer(scale, scale)) * np.outer(scale, scale))


def _error(heavy: Array, A: Array, inverse: Array, load: tuple[Array, Array], R: Array) -> float:
    """‖Δa‖ / ε, from the solves with M or M_ρ, tips first, and with the Schur complement."""
    (b, gamma), n = load, len(heavy)
    f = -(inverse @ np.concatenate([b, -gamma]))[n:]
    W = np.linalg.solve(heavy, A.T)
    freed = np.linalg.solve(heavy, b - A.T @ (R * gamma))
    S = A @ W
    sizes = np.abs(freed) + np.abs(W) @ np.abs(f)
    own = _factor_rounding(heavy[::-1, ::-1])[::-1, ::-1] + (np.abs(A).T * R) @ np.abs(A)
    shaken = _factor_rounding((S + S.T) / 2) + np.abs(A) @ np.abs(W)
    rows = np.abs(A) @ np.abs(freed) + np.abs(gamma) + shaken @ np.abs(f)
    through = _by_squares(inverse[:n, :n], _by_squares(own, sizes)) + _by_squares(W @ np.linalg.inv(S), rows)
    return float(np.linalg.norm(through + sizes))


def _factor_rounding(M: Array) -> Array:
    """|L||Lᵀ|, summed by squares, (n, n)."""
    L = np.linalg.cholesky(M)
    return np.asarray(np.sqrt((L * L) @ (L * L).T))


def _by_squares(matrix: Array, sizes: Array) -> Array:
    """√Σ (matrix · size)²: independent errors of these sizes through a matrix add up by their squares."""
    return np.asarray(np.sqrt((matrix * matrix) @ (sizes * sizes)))
