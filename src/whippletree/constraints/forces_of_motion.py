"""Inverse dynamics under constraints: the forces of motors, rows and contacts that cause a motion.

    B u + Aᵀ f + Jᵀ p = h          h = M a + c

has many solutions where there are more motors (columns of B), and contacts (rows of J), than the motion needs. The one
with the least uᵀ W u + pᵀ W_c p has multipliers y, a virtual velocity that the rows allow:

    u = W⁻¹ Bᵀ y,   W_c p = J y          B W⁻¹ Bᵀ y + Aᵀ f + Jᵀ p = h,   A y = 0

Motors can be eliminated at once, and no metric is ever inverted. With all rows in one matrix A = [A_m A_p] (columns of
motors and of passive velocities), C = diag(0, W_c) and f the forces of all rows,

    (A_m W A_mᵀ + C) f − A_p y_p = A_m W h_m          A_pᵀ f = h_p

The second line times A_p R is added to the first, which changes no answer: S = A_m W A_mᵀ + A_p R A_pᵀ + C is positive
definite exactly when the rows are independent, whatever the motors. Then

    f = S⁻¹ (r + A_p y_p),   r = A_m W h_m + A_p R h_p          (A_pᵀ S⁻¹ A_p) y_p = h_p − A_pᵀ S⁻¹ r

and the motors provide what the rows leave, u = h_m − A_mᵀ f. Masses do not enter: massless links are as good as any.

A pivot of nothing in A_pᵀ S⁻¹ A_p belongs to a passive velocity that no row notices beyond those before it: the system
is under-actuated (``select`` decides, so that it may change with what is switched on). What is left of h there is the
*residual*: what is missing for the motion. It is zero exactly when the motion can be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array, vector, zeros
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
    """Forces that neither motors nor rows nor contacts can provide, (nv,)."""


class Pushers(NamedTuple):
    """Contacts whose forces are shared by cost, as those of motors are."""

    J: Array
    """(3k, nv)."""
    costs: Array
    """Of the squares of the forces, (3k,)."""
    touching: Array
    """1 for the rows of contacts that carry, 0 for all others, (3k,)."""


def actuate(
    m: Mechanism,
    joints: Sequence[str],
    q: Array,
    v: Array,
    a: Array,
    metric: Array,
    t: Any,
    active: Array | None,
    pushers: Pushers | None = None,
) -> Actuated:
    """The forces of the motors of some joints, of the rows and of contacts for the accelerations a (nv,).

    ``metric`` (nv, nv), symmetric, is W in the rows and columns of motors. Accelerations that the rows forbid are
    corrected first, as little as the motors notice: in Δaᵀ W⁻¹ Δa.
    """
    n = m.tree.model.nv
    links = m.moving(q, v)
    motors = [i for name in joints for i in range(n)[m.tree.model.slice(name)]]
    rows = RigidRows(m, links, q, v, t, active)
    count = len(rows.A)
    sharing = _Sharing(m, rows, pushers, motors, metric)
    wanted = _forces(m, links, a)
    if count:
        missing = zeros(len(sharing.A))
        missing[:count] = rows.right(rows.A @ a + rows.gamma)
        allowed = a + sharing.correction(missing)
        h = _forces(m, links, allowed)
    else:
        allowed, h = a, wanted
    soft = rows.compliant_forces(allowed)
    f, left = sharing.share_load(h - rows.soft.T @ soft)
    tau = zeros(n)
    tau[motors] = left[motors]
    passive = sharing.passive
    residual = wanted - h
    residual[passive] = residual[passive] + sharing.idle * left[passive]
    return Actuated(tau, rows.all_rows(f[:count], soft), f[count:], residual)


class RigidRows:
    """The independent rigid rows, those that yield apart, and what is switched on."""

    def __init__(self, m: Mechanism, links: Field, q: Array, v: Array, t: Any, active: Array | None) -> None:
        system = constraint_set(m.tree.model)
        self.count = len(system.row_names)
        kept = list(system.structure.independent) if self.count else []
        self.hard = [i for i in kept if not system.compliance[i]]
        self.yielding = [i for i in kept if system.compliance[i]]
        found = system.rows(m, links, q, v, t)
        A, gamma, mask = found.jacobian(), found.bias(), system.mask(active)
        self.mask = None if mask is None else mask[self.hard]
        self.A = A[self.hard] if self.mask is None else (A[self.hard].T * self.mask).T
        self.gamma, self.soft, self.soft_bias = gamma[self.hard], A[self.yielding], gamma[self.yielding]
        on = np.ones(len(self.yielding), dtype=int).astype(object) if mask is None else mask[self.yielding]
        self.stiffness = np.array([s / system.compliance[i] for s, i in zip(on, self.yielding)], dtype=object)

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


class _Sharing:
    """The rows of constraints and contacts together, S factored, and which passive velocities nothing notices."""

    def __init__(
        self, m: Mechanism, rows: RigidRows, pushers: Pushers | None, motors: Sequence[int], metric: Array
    ) -> None:
        n = m.tree.model.nv
        self.motors, self.passive = list(motors), [i for i in range(n) if i not in motors]
        self.metric = metric[np.ix_(self.motors, self.motors)]
        self.R = _mean(np.diag(self.metric))
        self.A, corner = _stack_rows(rows, pushers, n)
        if m.route == "nullspace":
            self.A, corner = _independent(self.A, corner)
        A_m, self.A_p = self.A[:, self.motors], self.A[:, self.passive]
        S = linalg.symmetric_product(A_m, A_m @ self.metric, self.A_p, self.A_p * self.R)
        S[np.diag_indices(len(S))] += corner
        self.factor = linalg.ldlt(S, lenient=True)
        number = len(m.tree.nodes) + DEPENDENT
        own = enumerate(self.factor.pivots[: len(rows.A)])
        m.require(number, [pivot - PIVOT_TOLERANCE * S[i, i] for i, pivot in own])
        # A_pᵀ S⁻¹ A_p = Xᵀ D⁻¹ X
        self.X = self.factor.forward(self.A_p)
        T = linalg.symmetric_product(self.X.T, self.X.T * self.factor.reciprocals)
        least = kkt.ROUNDED_ZERO / self.R
        self.noticed = linalg.ldlt(T, negligible=PIVOT_TOLERANCE, least=least)
        self.idle = vector(
            *[
                scalars.select(scalars.less(PIVOT_TOLERANCE * T[i, i] + least, pivot), 0, 1)
                for i, pivot in enumerate(self.noticed.pivots)
            ]
        )

    def share_load(self, h: Array) -> tuple[Array, Array]:
        """Forces of all rows that carry h (nv,), and what they leave of it."""
        r = self.A[:, self.motors] @ (self.metric @ h[self.motors]) + self.A_p @ (h[self.passive] * self.R)
        f = self._solve(r, h[self.passive])[0]
        return f, np.asarray(h - self.A.T @ f)

    def correction(self, missing: Array) -> Array:
        """y (nv,) with A y = −missing that motors notice least; rows of contacts are not asked."""
        pull, y_p = self._solve(missing, zeros(len(self.passive)))
        y = zeros(self.A.shape[1])
        against = self.A.T @ pull
        y[self.motors] = -(self.metric @ against[self.motors])
        y[self.passive] = y_p - self.idle * self.R * against[self.passive]
        return y

    def _solve(self, r: Array, h_p: Array) -> tuple[Array, Array]:
        """f and y_p with S f − A_p y_p = r and A_pᵀ f = h_p, apart from idle velocities."""
        x = self.factor.forward(r)
        y_p = self.noticed.solve(h_p - self.X.T @ (x * self.factor.reciprocals))
        return self.factor.backward((x + self.X @ y_p) * self.factor.reciprocals), y_p


def _stack_rows(rows: RigidRows, pushers: Pushers | None, n: int) -> tuple[Array, Array]:
    """Rows of constraints, then of contacts (m, n), and the diagonal of C (m,): 1 for rows that are off."""
    off = zeros(len(rows.A)) if rows.mask is None else 1 - rows.mask
    if pushers is None:
        return rows.A, off
    J = (pushers.J.T * pushers.touching).T
    soft = vector(*[scalars.select(scalars.less(0, on), cost, 1) for on, cost in zip(pushers.touching, pushers.costs)])
    return np.concatenate([rows.A, J]).reshape(-1, n), np.concatenate([off, soft])


def _independent(A: Array, corner: Array) -> tuple[Array, Array]:
    """Rows that depend on earlier ones at this state switched off; of numbers only."""
    rigid = [i for i, c in enumerate(corner) if c == 0]
    kept = {rigid[k] for k in linalg.orthogonal_rows(A[rigid], RANK_TOLERANCE).kept}
    off = [i for i in rigid if i not in kept]
    A, corner = A.copy(), corner.copy()
    A[off], corner[off] = 0, 1
    return A, corner


def _mean(costs: Array) -> Any:
    """A typical cost, so that passive joints weigh as motors do; 1 if there are no motors."""
    total: Any = 0
    for cost in costs:
        total = total + cost
    return total / len(costs) if len(costs) else 1


def _forces(m: Mechanism, links: Field, a: Array) -> Array:
    """M a + c (nv,)."""
    return m.join(inverse.inverse_dynamics(m.sweep, links, m.velocities(a), m.base))
