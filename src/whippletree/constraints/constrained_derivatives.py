"""Derivatives of constrained dynamics: of the accelerations a and of the constraint forces f, by q, v and τ.

    r(a, f) = M a + c − τ − Aᵀ f = 0          s(a, f) = A a + γ + C f = 0

hold at every state, so what a displacement of the state changes at fixed a and f is balanced by ∂a and ∂f:

    M ∂a − Aᵀ ∂f = ∂τ − ∂(M a + c) + ∂(Aᵀ f)          A ∂a + C ∂f = −∂(A a + γ)

The same block matrix once more, factored already, with a column for every displacement; ∂a/∂τ = M† and ∂f/∂τ = −A†
(000 eq. 5). The right-hand sides are the derivatives of inverse dynamics under the constraints' wrenches
(:mod:`whippletree.tree.tangents`) and those of the rows (:mod:`whippletree.constraints.row_derivatives`). Nothing of it
knows the route, so massless links, compliance, switches and redundant rows need no words of their own. q moves in the
tangent space, and is free to leave the constraints: a derivative along them is this one times a motion that they allow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.dynamics import Closed, closed
from whippletree.constraints.row_derivatives import RowDerivatives, RowState
from whippletree.errors import SingularSystemError
from whippletree.tree.derivatives import added_product, joint_forces, state_derivatives
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.tangents import Tangents


class ConstrainedDerivatives(NamedTuple):
    """Derivatives of a (nv,) and of the forces f of all m rows; redundant rows and those that are off have zeros."""

    dq: kkt.Solution
    """∂a/∂q (nv, nv) and ∂f/∂q (m, nv)."""
    dv: kkt.Solution
    dtau: kkt.Solution


def derivatives(m: Mechanism, q: Array, v: Array, tau: Array, t: Any, active: Array | None) -> ConstrainedDerivatives:
    """The derivatives of :func:`whippletree.constraints.dynamics.solve`."""
    n = m.tree.model.nv
    if m.tree.model.is_flexible:
        return _by_columns(m, q, v, tau, t, active)
    # a floating root takes a motion of the whole tree by itself: leave it out here, add it to the answer below
    tangents = Tangents(m.tree, q, v, without_floating=True)
    at = closed(m, m.moving(q, v), q, v, t, active, M=tangents.M)
    _require_full_rank(m, at)
    a, f = at.factor.solve(tau - tangents.bias(), at.right(at.rows.bias()))
    motion = tangents.accelerated(a)
    rows = RowDerivatives(m, at.system.demands, RowState(tangents, motion, q, v, a, t), at.all_rows(f))
    pull = rows.stiffness() - tangents.position_derivatives(motion, rows.wrenches())
    row_dq, row_dv = (at.right(change) for change in rows.accelerations())
    blocks = kkt.dagger(at.factor, n, len(at.kept))
    of_root = tangents.floating()
    return ConstrainedDerivatives(
        _response(at, blocks, of_root[0], pull, row_dq),
        _response(at, blocks, of_root[1], -tangents.dv, row_dv),
        kkt.Solution(blocks.M, at.all_rows(-blocks.A)),
    )


def _by_columns(m: Mechanism, q: Array, v: Array, tau: Array, t: Any, active: Array | None) -> ConstrainedDerivatives:
    """The derivatives of a model with flexible bodies: r and s at fixed a and f, on dual numbers, column by column."""
    n = m.tree.model.nv
    at = closed(m, m.moving(q, v), q, v, t, active)
    _require_full_rank(m, at)
    a, f = at.factor.solve(tau - joint_forces(m, q, v, zeros(n)), at.right(at.rows.bias()))
    all_f = at.all_rows(f)

    def imbalance(q: Array, v: Array) -> Array:
        rows = at.system.rows(m, m.moving(q, v), q, v, t)
        A = rows.jacobian()
        return np.concatenate([joint_forces(m, q, v, a) - A.T @ all_f, A @ a + rows.bias()])

    blocks = kkt.dagger(at.factor, n, len(at.kept))
    dq, dv = (
        _response(at, blocks, zeros(n, n), -change[:n], at.right(change[n:]))
        for change in state_derivatives(m, imbalance, q, v)
    )
    return ConstrainedDerivatives(dq, dv, kkt.Solution(blocks.M, at.all_rows(-blocks.A)))


def _response(at: Closed, blocks: kkt.Dagger, start: Array, b: Array, gamma: Array) -> kkt.Solution:
    """M† b − A†ᵀ γ (nv, nv), added to what is there already, and the forces Λ† γ − A† b of all rows (000 eq. 22)."""
    change = np.concatenate([b, gamma])
    a = added_product(start, np.concatenate([blocks.M, -blocks.A.T], axis=1), change)
    f = added_product(zeros(*gamma.shape), np.concatenate([-blocks.A, blocks.Lambda], axis=1), change)
    return kkt.Solution(a, at.all_rows(f))


def _require_full_rank(m: Mechanism, at: Closed) -> None:
    """Dependent rows have a least-norm force and a motion on some branch; neither follows from the block matrix."""
    factor = at.factor.rigid if isinstance(at.factor, kkt.Softened) else at.factor
    if isinstance(factor, kkt.Nullspace) and factor.rank < len(factor.A):
        raise SingularSystemError(
            f"model {m.tree.model.name!r}: constraint rows depend on each other at this configuration (a dead point, "
            f"or constraints that are switched on together), so accelerations and forces have no derivatives here. "
            f"wt.diagnose(model, q) names the rows; move off the dead point, or switch a constraint off."
        )
