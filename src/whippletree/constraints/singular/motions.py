"""Motions that rows allow: how much inertia resists each, which have none, and their words. Numbers only.

A motion is *massless* by one measure everywhere (routes, diagnosis, conditioning, phases of events and impacts): its
inertia is at most ``MASSLESS_TOLERANCE`` with M at unit diagonal, so that a light part is not mistaken for a massless
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.routes import MASSLESS_TOLERANCE
from whippletree.model import Model

MENTIONED_SHARE = 1e-6
"""Part of the largest entry of a motion below which a joint is not mentioned."""

JOINTS_MENTIONED = 4
"""How many joints of a motion are named, largest part first."""


class FreeDirection(NamedTuple):
    """A direction of the velocities of a tree, at unit length, and how much inertia resists it."""

    direction: Array
    """(nv,), of unit length, the largest entry positive."""
    inertia: float
    """directionᵀ M direction, relative to the largest such number among allowed motions (or to the trace of M)."""

    def joints(self, model: Model) -> list[str]:
        """The joints that take part, largest part first."""
        size = {j.name: np.abs(self.direction[model.slice(j.name)]).max(initial=0) for j in model.joints}
        largest = max(size.values(), default=0.0)
        return sorted((n for n, s in size.items() if s > MENTIONED_SHARE * largest), key=lambda n: -size[n])

    def words(self, model: Model) -> str:
        """For example: 'fore' about joint 'elbow' (direction elbow +1)."""
        every = self.joints(model)
        names = every[:JOINTS_MENTIONED]
        others = len(every) - len(names)
        more = f" and {others} joint{'s' if others > 1 else ''} more" if others else ""
        bodies = [model.joints[model.joint_index(name)].child for name in names]
        parts = []
        for name in names:
            own = np.where(np.abs(self.direction) > MENTIONED_SHARE, self.direction, 0.0)[model.slice(name)]
            parts.append(f"{name} {own[0]:+.3g}" if len(own) == 1 else f"{name} {np.array2string(own, precision=3)}")
        carried = ", ".join(f"{body!r} about joint {name!r}" for body, name in zip(bodies, names, strict=True))
        return f"{carried}{more} (direction {', '.join(parts)})"


def allowed_motions(A: Array, tolerance: float) -> Array:
    """An orthonormal basis (nv, d) of the velocities with A v = 0; rows are compared at unit length."""
    norms = np.linalg.norm(A, axis=1)
    rows = A[norms > 0] / norms[norms > 0, None]
    return null_spaces(rows, tolerance).right


def lightest(M: Array, A: Array, rank_tolerance: float) -> list[FreeDirection]:
    """The allowed motions by their inertia, lightest first."""
    basis = allowed_motions(A, rank_tolerance)
    if not basis.shape[1]:
        return []
    values, vectors = np.linalg.eigh(basis.T @ M @ basis)
    scale = max(float(values[-1]), float(np.trace(M)) / max(len(M), 1), np.finfo(float).tiny)
    motions = []
    for value, vector in zip(values, vectors.T, strict=True):
        direction = basis @ vector
        sign = 1.0 if direction[np.argmax(np.abs(direction))] >= 0 else -1.0
        motions.append(FreeDirection(sign * direction, max(float(value), 0.0) / scale))
    return motions


def lightest_by_share(M: Array, A: Array, rank_tolerance: float) -> list[FreeDirection]:
    """The allowed motions by their inertia with M at unit diagonal, lightest first; joints without any keep theirs."""
    scale = _diagonal_scale(M)
    found = []
    for motion in lightest(M / np.outer(scale, scale), A / scale, rank_tolerance):
        direction = motion.direction / scale
        found.append(FreeDirection(direction / np.linalg.norm(direction), motion.inertia))
    return found


def massless_motions(M: Array, A: Array, rank_tolerance: float) -> list[FreeDirection]:
    """Independent motions that every row allows and that have no inertia.

    Args:
        M: inertia, (n, n).
        A: rows, (m, n).
        rank_tolerance: sine of the angle to others below which a row of unit length counts as dependent.
    """
    if not len(M):
        return []
    scale = _diagonal_scale(M)
    if np.all(np.diag(M) > 0) and np.linalg.eigvalsh(M / np.outer(scale, scale))[0] > MASSLESS_TOLERANCE:
        return []  # whatever the rows allow has inertia
    return [m for m in lightest_by_share(M, A, rank_tolerance) if m.inertia <= MASSLESS_TOLERANCE]


def _diagonal_scale(M: Array) -> Array:
    """Roots of the diagonal entries (n,); 1 where there is no inertia."""
    diagonal = np.diag(M)
    idle = diagonal <= 0
    return np.where(idle, 1.0, np.sqrt(np.where(idle, 1.0, diagonal)))


def sparsest(motions: list[FreeDirection], model: Model) -> list[FreeDirection]:
    """A span by directions that move as few joints as possible, so that each can be named by itself."""
    if not motions:
        return []
    worst = max(m.inertia for m in motions)
    rows = echelon(np.array([m.direction for m in motions]))
    return [FreeDirection(row / np.linalg.norm(row), worst) for row in rows]


def echelon(rows: Array) -> Array:
    """Reduced row echelon form with pivoting: every row has an entry 1 where all others have 0; dust is removed."""
    rows = np.array(rows, dtype=float)
    for done in range(len(rows)):
        i, j = divmod(int(np.argmax(np.abs(rows[done:]))), rows.shape[1])
        rows[[done, done + i]] = rows[[done + i, done]]
        rows[done] /= rows[done, j]
        for k in range(len(rows)):
            if k != done:
                rows[k] -= rows[k, j] * rows[done]
    rows[np.abs(rows) < MENTIONED_SHARE] = 0.0
    return rows
