"""The problem of :mod:`whippletree.contact.coulomb` for one contact by itself, the others as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KAPPAS = np.logspace(8, -10, 73)
"""Where the slip of a single contact is looked for: viscosities in units of G."""

SHARES, NARROWINGS = np.linspace(0, 1, 32), 8
"""Where between two of them the slip is looked for next, on a logarithmic scale, and how often."""

RANK = 1e-12
"""Singular values below this share of the largest count as zero, after rows are scaled to a unit diagonal of G."""


def alone(G: Array, b: Array, friction: float) -> Array:
    """Impulse (3,) of one contact by itself: the same problem, solved exactly."""
    if b[0] >= 0 or G[0, 0] <= 0:
        return np.zeros(3)
    if not np.any(G[2]) and b[2] == 0:
        return _planar(G, b, friction)
    stuck = -np.linalg.pinv(G, rcond=RANK, hermitian=True) @ b
    if np.hypot(stuck[1], stuck[2]) <= friction * stuck[0]:
        return np.asarray(stuck)
    return _slipping(G, b, friction)


def _planar(G: Array, b: Array, friction: float) -> Array:
    """The same where nothing moves along tangent 2: it sticks, or slides one way or the other."""
    (gnn, gnt, _), (_, gtt, _) = G[0].tolist(), G[1].tolist()
    bn, bt = float(b[0]), float(b[1])
    det = gnn * gtt - gnt * gnt
    if det > RANK * gnn * gtt:
        normal, tangent = (gnt * bt - gtt * bn) / det, (gnt * bn - gnn * bt) / det
        if abs(tangent) <= friction * normal:
            return np.array([normal, tangent, 0.0])
    elif gtt == 0:
        return np.array([-bn / gnn, 0.0, 0.0])
    answers = []
    for way in (1.0, -1.0):
        inertia = gnn - way * friction * gnt
        if inertia > 0:
            normal = -bn / inertia
            answers.append((way * (bt + gnt * normal) - friction * gtt * normal, way, normal))
    # of two ways to slide, the faster: that with the larger viscosity
    _, way, normal = max(answers)
    return np.array([normal, -way * friction * normal, 0.0])


def _slipping(G: Array, b: Array, friction: float) -> Array:
    """Impulse (3,) of one contact that slides: uₙ = 0, uₜ = −κ pₜ and |pₜ| = μ pₙ.

    For κ from infinity downwards p(κ) = −(G + κ diag(0, 1, 1))⁻¹ b starts inside the cone and, as the contact does not
    stick, leaves it: the first crossing is the answer.
    """
    kappas = max(float(np.trace(G[1:, 1:])), float(G[0, 0])) * KAPPAS
    viscous = _viscous(G, b)
    for _ in range(NARROWINGS):
        crossings = np.flatnonzero(_beyond(viscous(kappas), friction) > 0)
        last = int(crossings[0]) if len(crossings) else len(kappas) - 1
        high, low = float(kappas[max(last - 1, 0)]), float(kappas[last])
        kappas = high * (low / high) ** SHARES
    return np.asarray(viscous(kappas[:1])[0])


def _viscous(G: Array, b: Array) -> Callable[[Array], Array]:
    """p(κ) (m, 3) of κ (m,): the normal impulse eliminated, what is left is diagonal along two fixed directions."""
    g = G[1:, 0] / G[0, 0]
    values, vectors = np.linalg.eigh(G[1:, 1:] - G[0, 0] * np.outer(g, g))
    pull, lean, alone = (b[1:] - b[0] * g) @ vectors, g @ vectors, -b[0] / G[0, 0]

    def p(kappas: Array) -> Array:
        along = -pull / (np.maximum(values, 0.0) + kappas[:, None])
        return np.concatenate([(alone - along @ lean)[:, None], along @ vectors.T], axis=1)

    return p


def _beyond(p: Array, friction: float) -> Array:
    """How far impulses (m, 3) are outside the cone."""
    return np.asarray(np.hypot(p[:, 1], p[:, 2]) - friction * p[:, 0])
