"""Singular configurations: which way the motion goes on where the rows do not say.

At a dead point some combination y of rows has yᵀ A = 0, so its acceleration row is empty. But a motion that stays on
the constraints also meets the *rate* of that row,

    yᵀ d/dt (A a + γ) = yᵀ (Ȧ a + ∂γ/∂v a + ∂γ/∂q v) = 0        (the jerk drops out, since yᵀ A = 0)

which is linear in a and takes the place of the empty row. So the branch that is followed is the one that the velocity
points along; at rest, or where this row is empty as well, nothing but inertia decides. Numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.constraints.system import ConstraintSet
from whippletree.errors import SingularSystemError
from whippletree.model import Model
from whippletree.scalars import Dual, duals, slopes
from whippletree.spatial import Array, identity
from whippletree.tree.mechanism import Mechanism

EMPTY = 1e-9
"""Size of a branch row, relative to the speed, below which it says nothing."""

AT_REST = 1e-9
"""Speed, rad/s or m/s, up to which a velocity is none; and share of a load, or of the moment of all weights, up to
which a force along a motion does not push that way."""

IMMOBILE = (
    "take a constraint away, change a length, weld the joints that cannot move, or start from another assembled "
    "configuration (wt.assemble from another guess) if only this one is held"
)
"""What to do where nothing can move."""


def require_rest(system: ConstraintSet, v: Array, b: Array, basis: Array) -> None:
    """Refuse to move a mechanism that can move to first order only, along ``basis`` (nv, k), under b = τ − c (nv,).

    Raises:
        SingularSystemError: with the cures.
    """
    speed, push, load = (float(max((abs(x) for x in values), default=0)) for values in (v, basis.T @ b, b))
    if speed > AT_REST or push > AT_REST * (load + _moment_of_weight(system.model)):
        raise SingularSystemError(
            f"model {system.model.name!r}: its constraints let nothing move, though their first-order rows do (two "
            f"rods in one line between two pins). No finite force withstands this load, so there is no acceleration. "
            f"Cure: {IMMOBILE}. wt.diagnose(model) names the rows."
        )


def _moment_of_weight(model: Model) -> float:
    """What all masses would weigh at the end of all joint offsets in one line, N m: the scale of small loads."""
    weight = sum(float(body.mass) for body in model.bodies) * float(np.linalg.norm(model.gravity.astype(float)))
    return weight * sum(float(np.linalg.norm(joint.pose[:3, 3].astype(float))) for joint in model.joints)


def branch_rows(
    m: Mechanism, system: ConstraintSet, kept: Sequence[int], y: Array, q: Array, v: Array, t: Any
) -> tuple[Array, Array]:
    """(B, β) with B a + β = 0 for the combinations y (k, r) of the kept rows that vanish; at unit length, empty ones
    gone."""
    drift_A, drift = _along(m, system, q, m.manifold().rate(q, v), v, v * 0, t, 1)
    columns = [_along(m, system, q, q * 0, v, e, t, 0)[1][kept] for e in identity(len(v))]
    B = y.T @ (drift_A[kept] + np.stack(columns, axis=1))
    beta = y.T @ drift[kept]
    speed = float(sum(abs(x) for x in v))
    rows, rest = [], []
    for row, b in zip(B, beta, strict=True):
        size = float(row @ row) ** 0.5
        if size > EMPTY * speed:
            rows.append(row / size)
            rest.append(b / size)
    return np.array(rows, dtype=object).reshape(len(rows), len(v)), np.array(rest, dtype=object)


def _along(
    m: Mechanism, system: ConstraintSet, q: Array, dq: Array, v: Array, dv: Array, t: Any, dt: Any
) -> tuple[Array, Array]:
    """The rates of A and γ while q, v and t change at these rates."""
    state, rates = duals(q, dq), duals(v, dv)
    rows = system.rows(m, m.moving(state, rates), state, rates, Dual(t, dt))
    return slopes(rows.jacobian()), slopes(rows.bias())
