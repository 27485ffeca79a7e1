"""The derivative of an impact: what it makes of small changes of configuration and velocity.

The impact solves, one after the other (:mod:`whippletree.contact.impact`),

    K x₀ = (0, −J_w v)    weightless contacts w stop,      K = [M −Bᵀ; B 0]
    K X  = (Jᵀ, 0)        G = J X,   u = J (v + x₀),   p = law(G, u)
    v⁺   = v + x₀ + X p

and K x = b gives K δx = δb − δK x. With the contacts that take part and what they do given, this is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.impact import PUSHES, Impact, block_inverse, holding_rows
from whippletree.contact.law_derivatives import differentiated
from whippletree.contact.laws import Law

Array = np.ndarray[Any, Any]


class Changes(NamedTuple):
    """m changes of an impact's data."""

    M: Array
    """(m, n, n)"""
    A: Array
    """(m, a, n)"""
    J: Array
    """(m, 3k, n)"""
    v: Array
    """(m, n)"""


class ImpactSlopes(NamedTuple):
    """Velocities after (n,), their derivatives (m, n), and the relative error of the law's part."""

    v: Array
    dv: Array
    error: float


def impact_derivative(impact: Impact, law: Law, change: Changes) -> ImpactSlopes:
    """What an impact makes of m changes."""
    n, m = len(impact.v), len(change.v)
    outcome = impact.resolved(law)
    light = impact.weightless()
    slow = PUSHES * float(np.abs(impact.J @ impact.v).max(initial=0.0))
    stuck = [i for i in light if impact.J[3 * i] @ outcome.v <= slow]
    own = [3 * i + j for i in stuck for j in range(3) if np.any(impact.J[3 * i + j])]
    heavy = [i for i in range(len(impact.friction)) if i not in light]
    rows = [3 * i + j for i in heavy for j in range(3)]
    kept = np.concatenate([impact.A, impact.J[own]])
    holds = holding_rows(impact.M, kept)
    B = np.concatenate([kept, holds])
    dB = np.concatenate([change.A, change.J[:, own], np.zeros((m, *holds.shape))], axis=1)
    r = len(B)
    inverse = block_inverse(np.block([[impact.M, -B.T], [B, np.zeros((r, r))]]), len(impact.M))
    dK = np.zeros((m, n + r, n + r))
    dK[:, :n, :n], dK[:, :n, n:], dK[:, n:, :n] = change.M, -np.swapaxes(dB, 1, 2), dB

    def push(x: Array, db: Array) -> Array:
        """δx (m, n + r, …) of K x = b."""
        return np.asarray(inverse @ (db - dK @ x))

    stopping, d_stopping = np.zeros(n + r), np.zeros((m, n + r))
    places = slice(n + len(impact.A), n + len(kept))
    stopping[places] = -impact.J[own] @ impact.v
    d_stopping[:, places] = -(change.J[:, own] @ impact.v + change.v @ impact.J[own].T)
    x = inverse @ stopping
    dx = push(x[:, None], d_stopping[..., None])[..., 0]
    start, d_start = impact.v + x[:n], change.v + dx[:, :n]
    if not heavy:
        return ImpactSlopes(start, d_start, 0.0)
    J, dJ = impact.J[rows], change.J[:, rows]
    X = inverse[:, :n] @ J.T
    dX = push(X, np.concatenate([np.swapaxes(dJ, 1, 2), np.zeros((m, r, len(rows)))], axis=1))
    G, dG = J @ X[:n], dJ @ X[:n] + J @ dX[:, :n]
    u, du = J @ start, dJ @ start + d_start @ J.T
    G, dG = (G + G.T) / 2, (dG + np.swapaxes(dG, 1, 2)) / 2
    p, dp, error = differentiated(law, G, u, impact.friction[heavy], impact.restitution[heavy], dG, du)
    flat = p.reshape(-1)
    return ImpactSlopes(start + X[:n] @ flat, d_start + dX[:, :n] @ flat + dp.reshape(m, -1) @ X[:n].T, error)
