"""Inverse dynamics under constraints: the forces of motors, rows and contacts that cause a motion.

    B u + Aᵀ f + Jᵀ p = h          h = M a + c

has many solutions where there are more motors (columns of B), and contacts (rows of J), than the motion needs. The one
with the least uᵀ W u + pᵀ W_c p has multipliers y, a virtual velocity that the rows allow:

    u = W⁻¹ Bᵀ y,   p = W_c⁻¹ J y          P y + Aᵀ f = h,   A y = 0          P = B W⁻¹ Bᵀ + Jᵀ W_c⁻¹ J

This is the block matrix of document 000 with P in the place of the mass matrix. P is singular, as the mass matrix of
massless links is, and condition (32) says that every motion that the rows allow moves some motor or contact: the
system is not under-actuated. So y = P† h and f = A† h, whatever the masses, by the same route
(:mod:`whippletree.constraints.kkt`).

Where it is under-actuated, motions N are left that the rows allow and that move no motor and no contact. Which of the
passive velocities span them is decided by pivots (``select``, so that it may change with what is switched on); these
get a motor of their own, whose force is the *residual*: what is missing for the motion. It is zero exactly when the
motion can be had, because Nᵀ h = Nᵀ (residual).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import DEPENDENT
from whippletree.constraints.routes import PIVOT_TOLERANCE, RANK_TOLERANCE
from whippletree.tree import inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field


class Actuated(NamedTuple):
    """Forces that cause a motion: M a + c = tau + Aᵀ f + Jᵀ p + residual."""

    tau: Array
    """(nv,), zero for joints without a motor."""
    f: Array
    """Of all rows of the constraints (m,); zero for redundant rows and for those that are off."""
    contacts: Array
    """p of all candidates, normal and two tangents each, (3k,); zero for those that do not touch."""
    residual: Array
    """What neither motors nor rows nor contacts can provide, (nv,)."""


class Pushers(NamedTuple):
    """Contacts whose forces are shared by cost, as those of motors are."""

    J: Array
    """(3k, nv)."""
    shares: Array
    """1 / cost of every row, 0 for those that do not touch, (3k,)."""


def actuate(
    m: Mechanism,
    joints: Sequence[str],
    q: Array,
    v: Array,
    a: Array,
    costs: Array,
    t: Any,
    active: Array | None,
    pushers: Pushers | None = None,
) -> Actuated:
    """The forces of the motors of some joints, of the rows and of contacts for the accelerations a (nv,).

    Accelerations that the rows forbid are corrected first, as little as the motors notice: in Σ (Δaᵢ)² / costᵢ.
    """
    n = m.tree.model.nv
    links = m.moving(q, v)
    motors = [i for name in joints for i in range(n)[m.tree.model.slice(name)]]
    shares = zeros(n)
    for i in motors:
        shares[i] = 1 / costs[i]
    rows = _HeldRows(m, links, q, v, t, active)
    virtual = _missing(rows, [i for i in range(n) if i not in motors], pushers)
    extra = virtual * _mean(shares)
    P = np.diag(shares + extra)
    if pushers is not None:
        P = P + pushers.J.T @ (pushers.J.T * pushers.shares).T
    factor = _factor(m, P, rows)
    wanted = _forces(m, links, a)
    allowed = a + factor.solve(zeros(n), rows.right(rows.A @ a + rows.gamma)).a if len(rows.A) else a
    h = _forces(m, links, allowed) if len(rows.A) else wanted
    soft = rows.compliant_forces(allowed)
    y, pulled = factor.solve(h - rows.soft.T @ soft, zeros(len(rows.A)))
    tau = shares * y
    f = rows.all_rows(-pulled, soft)
    p = zeros(0) if pushers is None else pushers.shares * (pushers.J @ y)
    return Actuated(tau, f, p, extra * y + (wanted - h))


class _HeldRows:
    """The independent rigid rows, those that yield apart, and what is switched on."""

    def __init__(self, m: Mechanism, links: Field, q: Array, v: Array, t: Any, active: Array | None) -> None:
        system = constraint_set(m.tree.model)
        self.count = len(system.row_names)
        self.order = system.elimination if self.count else None
        kept = list(system.structure.independent) if self.count else []
        squares = dict(zip(kept, system.structure.squares, strict=True)) if self.count else {}
        self.hard = [i for i in kept if not system.compliance[i]]
        self.yielding = [i for i in kept if system.compliance[i]]
        found = system.rows(m, links, q, v, t)
        A, gamma, mask = found.jacobian(), found.bias(), system.mask(active)
        self.mask = None if mask is None else mask[self.hard]
        self.A = A[self.hard] if self.mask is None else (A[self.hard].T * self.mask).T
        self.gamma, self.soft, self.soft_bias = gamma[self.hard], A[self.yielding], gamma[self.yielding]
        on = np.ones(len(self.yielding), dtype=int).astype(object) if mask is None else mask[self.yielding]
        self.stiffness = np.array([s / system.compliance[i] for s, i in zip(on, self.yielding)], dtype=object)
        self._powers = [round(np.log2(float(squares[i]))) for i in self.hard]

    def by_size(self, values: Array) -> Array:
        """Numbers of the rows (k, ...) over their typical squares, as powers of two: these keep exact scalars exact."""
        scaled = [x / 2**p if p >= 0 else x * 2**-p for x, p in zip(values, self._powers, strict=True)]
        return np.array(scaled, dtype=object).reshape(np.shape(values))

    def right(self, values: Array) -> Array:
        """A right-hand side, zero for rows that are off."""
        return values if self.mask is None else np.asarray(values * self.mask)

    def compliant_forces(self, a: Array) -> Array:
        """−(A a + γ) / C of the rows that yield: their motion decides."""
        return np.asarray(-self.stiffness * (self.soft @ a + self.soft_bias))

    def all_rows(self, f: Array, soft: Array) -> Array:
        """Forces of all rows (m,)."""
        result = zeros(self.count)
        result[self.hard], result[self.yielding] = f, soft
        return result


def _factor(m: Mechanism, P: Array, rows: _HeldRows) -> kkt.Factored:
    if m.route == "nullspace":
        return kkt.nullspace(P, rows.A, RANK_TOLERANCE)
    corner = None if rows.mask is None else 1 - rows.mask
    mean = kkt.row_scales(P, np.ones(1, dtype=int))[0]
    scales = rows.by_size(np.array([mean] * len(rows.A), dtype=object))
    factor = kkt.augmented(P, rows.A, scales, corner, order=rows.order)
    number = len(m.tree.nodes) + DEPENDENT
    m.doubts += [(number, margin) for _, margin in factor.margins(PIVOT_TOLERANCE)]
    return factor


def _missing(rows: _HeldRows, passive: Sequence[int], pushers: Pushers | None) -> Array:
    """1 for the passive velocities that span what no motor, row or contact notices, 0 for all others, (nv,).

    Eliminating the passive columns one after the other leaves a pivot of nothing for each that depends on those before.
    """
    columns = rows.A[:, passive]
    G = columns.T @ rows.by_size(columns) if len(columns) else zeros(len(passive), len(passive))
    if pushers is not None:
        touching = np.array([scalars.select(scalars.less(0, s), 1, 0) for s in pushers.shares], dtype=object)
        own = pushers.J[:, passive]
        G = G + own.T @ (own.T * touching).T
    result = zeros(rows.A.shape[1])
    result[list(passive)] = _idle_pivots(G)
    return result


def _idle_pivots(G: Array) -> Array:
    """1 for the indices of a positive semi-definite matrix whose pivot is nothing but rounding, (n,)."""
    n = len(G)
    L, D, idle = zeros(n, n), zeros(n), zeros(n)
    for j in range(n):
        pivot: Any = G[j, j]
        for k in range(j):
            pivot = pivot - L[j, k] * L[j, k] * D[k]
        lost = scalars.less(pivot - PIVOT_TOLERANCE * G[j, j], NOTHING)
        idle[j] = scalars.select(lost, 1, 0)
        D[j] = scalars.select(lost, 0, pivot)
        reciprocal = scalars.select(lost, 0, 1 / scalars.select(lost, 1, pivot))
        for i in range(j + 1, n):
            entry: Any = G[i, j]
            for k in range(j):
                entry = entry - L[i, k] * L[j, k] * D[k]
            L[i, j] = entry * reciprocal
    return idle


NOTHING = 2.0**-80
"""Square of a column, relative to those of typical rows, below which it is what rounding left of zero."""


def _mean(shares: Array) -> Any:
    """A typical 1/cost, so that motors of the passive joints that have none weigh as others do; 1 if there are none."""
    total: Any = 0
    count = 0
    for s in shares:
        if not (isinstance(s, int) and s == 0):
            total, count = total + s, count + 1
    return total / count if count else 1


def _forces(m: Mechanism, links: Field, a: Array) -> Array:
    """M a + c (nv,)."""
    return m.join(inverse.inverse_dynamics(m.sweep, links, m.velocities(a), m.base))
