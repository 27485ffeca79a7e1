"""How contacts share a load that the equations of motion do not divide: a box on four corners, a table on four legs.

Forces that are not unique are of least norm, if these are inside the friction cones, else those of the complementarity
problem that chose the mode. Where contacts slide the latter always hold, because then accelerations are not unique
either. A contact to which it gives nothing carries nothing until another one runs out of load, unless it is needed to
hold the bodies; of several that would do, those are taken whose load grows.

The block matrices of such a phase have pseudo-inverses, without a decomposition of each. With L and N bases of the left
and right null spaces of one matrix, those of its neighbours have regular *bordered* matrices, and one inversion gives
all that is needed:

    [K  L]⁻¹   [P   N']        K⁺ = (1 − N' N'⁺) P (1 − L'ᵀ⁺ L'ᵀ)   where  S = 0
    [Nᵀ 0]   = [L'ᵀ  S]

N' and L' are the null spaces of the neighbour itself. S ≠ 0 tells that it has not lost the same rank, and a singular
value decomposition answers instead.

Ranks must not depend on units: a box of a thousand tonnes rests as one of a gram does. So all of this is done on an
evened matrix, in which every velocity that has inertia has about 1 and the rows reach it with about 1. All forces have
one unit, so that of all that balance a load those of least norm are still taken.
"""

from __future__ import annotations

from copy import copy
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array
from whippletree.contact.impact.impact import block_matrix
from whippletree.simulation.events.equations import At

if TYPE_CHECKING:
    from whippletree.simulation.events.phase import Phase


IDLE = 1e-9
"""Share of the largest contact force below which a contact carries nothing."""

LOADS_AHEAD = 1e-6
"""How far ahead, s, loads are looked at that are nothing yet."""


def share(phase: Phase, at: At) -> tuple[list[int], Array | None]:
    """Contact rows that carry a load, and the accelerations and forces (n + r,) near which the others are taken."""
    forces = phase.mode.forces
    if forces is None or not phase.hyperstatic or (not phase.slips and _inside_cones(phase)):
        return phase.contact_rows, None
    alone = under_contacts(phase, at, forces)
    idle = [
        i
        for i in phase.normals
        if i in phase.mode.sliding and forces[i, 0] <= IDLE * float(np.abs(forces).max()) and phase.slips
    ]
    loaded = [row for row in phase.contact_rows if row // 3 not in idle]
    choices = [(rows, np.concatenate([alone, forces.reshape(-1)[rows]])) for rows in _supports(phase, at, loaded, idle)]
    if len(choices) == 1:
        return choices[0]
    return max(choices, key=lambda choice: _least_load_ahead(phase, *choice))


def _supports(phase: Phase, at: At, loaded: list[int], idle: list[int]) -> list[list[int]]:
    """The rows of loaded contacts, with as many idle ones as are needed to hold what all together hold."""

    def rank(rows: list[int]) -> int:
        return int(np.linalg.matrix_rank(at.J[0, rows])) if rows else 0

    whole = rank(phase.contact_rows)
    missing = whole - rank(loaded)
    sets = [[*loaded, *(3 * i for i in more)] for more in combinations(idle, missing)]
    return [sorted(rows, key=phase.contact_rows.index) for rows in sets if rank(rows) == whole]


def under_contacts(phase: Phase, at: At, forces: Array) -> Array:
    """Accelerations, and forces of the rows that are no contacts, under given contact forces, (n + r,)."""
    own = np.concatenate([at.A[0, phase.kept], phase.holds])
    K = block_matrix(at.M[0], own, compliance=phase.scene.compliance[phase.kept])
    bias = np.concatenate([at.gamma[0, phase.kept], np.zeros(len(phase.holds))])
    right = np.concatenate([at.b[0] + at.J[0].T @ forces.reshape(-1), -bias])
    units = _even_units(K, len(at.M[0]))
    return np.asarray(units * np.linalg.lstsq(K * np.outer(units, units), units * right, rcond=None)[0])


def _least_load_ahead(phase: Phase, rows: list[int], reference: Array) -> float:
    """The smallest normal force, N, of the contacts of these rows a moment later."""
    trial = copy(phase)
    trial.acting_rows, trial.reference = rows, reference
    q, v = phase.scene.motion.split(phase.state)
    later = np.concatenate([phase.scene.move(q, LOADS_AHEAD * v), v + LOADS_AHEAD * reference[: len(v)]])
    forces = trial.loads(np.array([phase.time + LOADS_AHEAD]), later[None]).contacts[0]
    return float(min(forces[row // 3, 0] for row in rows if row % 3 == 0))


def _inside_cones(phase: Phase) -> bool:
    forces = phase.loads(np.array([phase.time]), phase.state[None]).contacts
    return bool(phase.cone_violation(forces)[0] <= IDLE * np.abs(forces).max(initial=0.0))


# --- pseudo-inverses of the block matrices of one phase whose rows depend on each other -------------------------------


RANK_OF_MODE = 1e-12
"""Singular values below this share of the largest, of a matrix in even units, count as zero."""

FAR_BORDERS = 1e4
"""Size of N' and L' at which the borders are those of a matrix too far away."""


class PseudoInverse:
    """Remembers the units and the null spaces of the first matrix of each size, and no others: so answers do not depend
    on what was asked for in between."""

    def __init__(self, velocities: int) -> None:
        """``velocities``: how many of the unknowns are accelerations; the others are forces."""
        self._velocities = velocities
        self._units: dict[int, Array] = {}
        self._borders: dict[int, linalg.NullSpaces] = {}

    def units(self, K: Array) -> Array:
        """Units u (n,) of the unknowns of K (m, n, n): of all x that solve K x = b, that of least |x / u| is taken."""
        return self._units.setdefault(K.shape[1], _even_units(K[0], self._velocities))

    def __call__(self, K: Array) -> Array:
        """u (u K u)⁺ u (m, n, n) of m matrices."""
        size, units = K.shape[1], self.units(K)
        both = np.outer(units, units)
        K = K * both
        if size not in self._borders:
            self._borders[size] = linalg.null_spaces(K[0], RANK_OF_MODE)
        N, L = self._borders[size]
        inverse = _inverse(_border_matrix(K, L, N))
        P, right = inverse[:, :size, :size], inverse[:, :size, size:]
        left, S = np.swapaxes(inverse[:, size:, :size], 1, 2), inverse[:, size:, size:]
        result = _outside(right) @ P @ _outside(left)
        lost = np.abs(S).max(axis=(1, 2), initial=0.0) <= RANK_OF_MODE * np.abs(K).max(axis=(1, 2))
        near = np.abs(np.concatenate([right, left], axis=2)).max(axis=(1, 2), initial=0.0) <= FAR_BORDERS
        numbers = np.isfinite(K).all(axis=(1, 2))
        others = np.flatnonzero(numbers & ~(lost & near))
        if len(others):
            result[others] = np.linalg.pinv(K[others], rcond=RANK_OF_MODE)
        result[~numbers] = np.nan
        return np.asarray(result * both)


def _even_units(K: Array, n: int) -> Array:
    """Units of the n accelerations and of the forces, powers of two, in which the entries of K are about 1."""
    inertias = np.diagonal(K)[:n]
    heavy = inertias[inertias > 0]
    usual = float(heavy.mean()) if len(heavy) else 1.0
    units = np.ones(len(K))
    units[:n] = 1 / np.sqrt(np.where(inertias > 0, inertias, usual))
    reach = float(np.abs(K[n:, :n] * units[:n]).max(initial=0.0))
    units[n:] = 1 / reach if reach > 0 else 1.0
    return np.asarray(np.exp2(np.round(np.log2(units))))


def _border_matrix(K: Array, L: Array, N: Array) -> Array:
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
    """The projectors (m, n, n) onto what is at a right angle to the columns of N (m, n, z); NaN where it has none."""
    NT = np.swapaxes(N, 1, 2)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.eye(N.shape[1]) - N @ (_inverse(NT @ N) @ NT))
