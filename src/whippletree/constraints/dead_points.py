"""Singular configurations: which way the motion goes on where the rows do not say.

At a dead point some combination y of rows has yᵀ A = 0, so its acceleration row is empty. But a motion that stays on
the constraints also meets the *rate* of that row,

    yᵀ d/dt (A a + γ) = yᵀ (Ȧ a + ∂γ/∂v a + ∂γ/∂q v) = 0        (the jerk drops out, since yᵀ A = 0)

which is linear in a and takes the place of the empty row. So the branch that is followed is the one that the velocity
points along. At rest, and where this row is empty as well (a loop at rest on its dead point while others move), the
branch of least constraint is taken (:mod:`whippletree.constraints.tangent_cone`). Numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.arithmetic.scalars import Dual, duals, slopes
from whippletree.constraints.constraint_set import ConstraintSet
from whippletree.constraints.tangent_cone import Choice, least_constraint
from whippletree.errors import SingularSystemError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

EMPTY_BRANCH = 1e-9
"""Size of a branch row, relative to the speed, below which it says nothing."""

AT_REST = 1e-9
"""Speed, rad/s or m/s, up to which a velocity is none; and share of a load, or of the moment of all weights, up to
which a force along a motion does not push that way."""

IMMOBILE = (
    "take a constraint away, change a length, weld the joints that cannot move, or start from another assembled "
    "configuration (wt.assemble from another guess) if only this one is held"
)
"""What to do where nothing can move."""


def is_at_rest(v: Array) -> bool:
    """Whether a velocity (nv,) is none."""
    return float(max((abs(x) for x in v), default=0)) <= AT_REST


def branch_of_least_constraint(
    m: Mechanism,
    system: ConstraintSet,
    kept: Sequence[int],
    y: Array,
    q: Array,
    t: Any,
    dead: Dead,
    *,
    moving: bool,
) -> Choice | None:
    """The acceleration of least constraint in the second-order tangent cone; None where nothing pushes along the
    motions that the rows allow, or where the vanished rows say nothing to second order.

    Args:
        m, system, q, t: the state.
        kept: the factored rows, k of them.
        y: combinations of them that vanish, (k, r).
        dead: the block matrix there.
        moving: whether some other part of the mechanism moves.

    Raises:
        SingularSystemError: the mechanism is at rest, the cone holds no motion, and something pushes.
    """
    if not y.shape[1]:
        return None
    M, b, basis, start = (np.asarray(x, dtype=float) for x in dead)
    least = AT_REST * (np.abs(b).max(initial=0.0) + _moment_of_weight(system.model))
    if np.abs(M @ start).max(initial=0.0) <= least:
        start = 0.0 * start  # what a speed up to AT_REST makes of the bias
    if np.abs(basis.T @ (b - M @ start)).max(initial=0.0) <= least:
        return None
    Q = quadrics(m, system, kept, y, q, t, np.concatenate([basis, start[:, None]], axis=1))
    if not len(Q):
        return None
    found = least_constraint(M, b, basis, start, Q)
    if found is None and not moving:
        raise _nothing_moves(system.model)
    return found


def quadrics(
    m: Mechanism, system: ConstraintSet, kept: Sequence[int], y: Array, q: Array, t: Any, directions: Array
) -> Array:
    """yᵀ (∂A/∂q · p) p for all directions p that columns (n, d) span, as symmetric forms (r, d, d); those that vanish
    left out."""
    still = np.zeros(len(directions), dtype=object)
    rates = []
    for p in directions.T.astype(object):
        A, _ = _along(m, system, q, m.manifold().rate(q, p), still, still, t, 0)
        rates.append(A[kept].astype(float))
    H = np.einsum("kr,dkn,ne->rde", y.astype(float), np.array(rates), directions)
    H = (H + np.swapaxes(H, 1, 2)) / 2
    scale = np.linalg.norm(y.astype(float), axis=0) * max((float(np.linalg.norm(A)) for A in rates), default=0.0)
    return np.asarray(H[np.linalg.norm(H, axis=(1, 2)) > EMPTY_BRANCH * scale])


class Dead(NamedTuple):
    """The block matrix at a dead point."""

    M: Array
    b: Array
    """τ − c, (n,)."""
    basis: Array
    """Motions that the rows allow, (n, d)."""
    start: Array
    """The smallest acceleration with A a = −γ, (n,)."""


def require_rest(system: ConstraintSet, v: Array, b: Array, basis: Array) -> None:
    """Refuse to move a mechanism that can move to first order only, along ``basis`` (nv, k), under b = τ − c (nv,).

    Raises:
        SingularSystemError: with the cures.
    """
    speed, push, load = (float(max((abs(x) for x in values), default=0)) for values in (v, basis.T @ b, b))
    if speed > AT_REST or push > AT_REST * (load + _moment_of_weight(system.model)):
        raise _nothing_moves(system.model)


def _nothing_moves(model: Model) -> SingularSystemError:
    return SingularSystemError(
        f"model {model.name!r}: its constraints let nothing move, though their first-order rows do (two "
        f"rods in one line between two pins). No finite force withstands this load, so there is no acceleration. "
        f"Cure: {IMMOBILE}. wt.diagnose(model) names the rows."
    )


def _moment_of_weight(model: Model) -> float:
    """What all masses would weigh at the end of all joint offsets in one line, N m: the scale of small loads."""
    weight = sum(float(body.mass) for body in model.bodies) * float(np.linalg.norm(model.gravity.astype(float)))
    return weight * sum(float(np.linalg.norm(joint.pose[:3, 3].astype(float))) for joint in model.joints)


def branch_rows(
    m: Mechanism, system: ConstraintSet, kept: Sequence[int], y: Array, q: Array, v: Array, t: Any
) -> tuple[Array, Array, Array]:
    """(B, β) with B a + β = 0 for the combinations y (k, r) of the kept rows that vanish, at unit length; and those of
    the combinations whose rows are empty as well."""
    drift_A, drift = _along(m, system, q, m.manifold().rate(q, v), v, v * 0, t, 1)
    columns = [_along(m, system, q, q * 0, v, e, t, 0)[1][kept] for e in identity(len(v))]
    B = y.T @ (drift_A[kept] + np.stack(columns, axis=1))
    beta = y.T @ drift[kept]
    speed = float(sum(abs(x) for x in v))
    rows, rest, empty = [], [], []
    for i, (row, b) in enumerate(zip(B, beta, strict=True)):
        size = float(row @ row) ** 0.5
        if size > EMPTY_BRANCH * speed:
            rows.append(row / size)
            rest.append(b / size)
        else:
            empty.append(i)
    return np.array(rows, dtype=object).reshape(len(rows), len(v)), np.array(rest, dtype=object), y[:, empty]


def _along(
    m: Mechanism, system: ConstraintSet, q: Array, dq: Array, v: Array, dv: Array, t: Any, dt: Any
) -> tuple[Array, Array]:
    """The rates of A and γ while q, v and t change at these rates."""
    state, rates = duals(q, dq), duals(v, dv)
    rows = system.rows(m, m.moving(state, rates), state, rates, Dual(t, dt))
    return slopes(rows.jacobian()), slopes(rows.bias())
