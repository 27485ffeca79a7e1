"""Singular configurations: which way the motion goes on where the rows do not say.

At a dead point some combination y of rows has yᵀ A = 0, so its acceleration row is empty. But a motion that stays on
the constraints also meets the *rate* of that row,

    yᵀ d/dt (A a + γ) = yᵀ (Ȧ a + ∂γ/∂v a + ∂γ/∂q v) = 0        (the jerk drops out, since yᵀ A = 0)

which is linear in a and takes the place of the empty row. So the branch that is followed is the one that the velocity
points along. At rest, and where this row is empty as well (a loop at rest on its dead point while others move), the
branch of least constraint is taken (:mod:`whippletree.constraints.singular.tangent_cone`). Numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array, identity
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.constraints.singular.tangent_cone import Choice, least_constraint, second_order_forms
from whippletree.errors import SingularSystemError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

EMPTY_BRANCH = 1e-9
"""Size of a branch row, relative to the speed, below which it says nothing."""

OFF_BRANCH = 1e-2
"""Share of the rates of the rows that may be left of a vanished one at a velocity that goes on along a branch: what
integrators with loose tolerances leave is less."""

AT_REST = 1e-9
"""Speed, rad/s or m/s, up to which a velocity is none; and share of a load, or of the moment of all weights, up to
which a force along a motion does not push that way."""

IMMOBILE = (
    "take a constraint away, change a length, weld the joints that cannot move, or start from another assembled "
    "configuration (wt.assemble from another guess) if only this one is held"
)
"""Cure where nothing can move."""


def is_at_rest(v: Array) -> bool:
    """Whether a velocity (nv,) is none."""
    return float(max((abs(x) for x in v), default=0)) <= AT_REST


class RowRates(Protocol):
    """How some rows change with the state that they are taken at."""

    def move(self, v: Array) -> Array:
        """The rate of the coordinates at velocities v (n,)."""

    def along(self, dq: Array, v: Array, dv: Array, dt: Any) -> tuple[Array, Array]:
        """The rates of A (k, n) and γ (k,) at velocities v, while coordinates, velocities and t change at these
        rates."""


class SystemRates(NamedTuple):
    """:class:`RowRates` of some rows of a mechanism."""

    m: Mechanism
    system: ConstraintSet
    kept: Sequence[int]
    q: Array
    t: Any

    def move(self, v: Array) -> Array:
        return self.m.manifold().rate(self.q, v)

    def along(self, dq: Array, v: Array, dv: Array, dt: Any) -> tuple[Array, Array]:
        state, rates = duals(self.q, dq), duals(v, dv)
        rows = self.system.rows(self.m, self.m.moving(state, rates), state, rates, Dual(self.t, dt))
        kept = list(self.kept)
        return slopes(rows.jacobian()[kept]), slopes(rows.bias()[kept])


def branch_of_least_constraint(rates: RowRates, model: Model, y: Array, dead: Dead, *, moving: bool) -> Choice | None:
    """The acceleration of least constraint in the second-order tangent cone; None where nothing pushes along the
    motions that the rows allow, or where the vanished rows say nothing to second order.

    Args:
        rates: of the factored rows, k of them, at this state.
        model: theirs.
        y: combinations of them that vanish, (k, r).
        dead: the block matrix there.
        moving: whether some other part of the mechanism moves.

    Raises:
        SingularSystemError: the mechanism is at rest, the cone holds no motion, and something pushes.
    """
    if not y.shape[1]:
        return None
    M, b, basis, start = (np.asarray(x, dtype=float) for x in dead)
    least = least_push(model, b)
    if np.abs(M @ start).max(initial=0.0) <= least.max(initial=0.0):
        start = 0.0 * start  # what a speed up to AT_REST makes of the bias
    if np.all(np.abs(basis.T @ (b - M @ start)) <= np.abs(basis.T) @ least):
        return None
    Q = quadrics(rates, y, np.concatenate([basis, start[:, None]], axis=1))
    if not len(Q):
        return None
    found = least_constraint(M, b, basis, start, Q)
    if found is None and not moving:
        raise nothing_moves(model)
    return found


def least_push(model: Model, load: Array) -> Array:
    """The forces (nv,) up to which a load (nv,) does not push along each velocity, N or N m.

    They follow from what each joint carries: what stands beside it in the same model, however heavy, does not count.
    """
    return np.asarray(AT_REST * (np.abs(load) + _moments_of_weight(model)))


def quadrics(rates: RowRates, y: Array, directions: Array) -> Array:
    """The quadrics (r, d, d) of combinations y (k, r) of rows that vanish, on directions that columns (n, d) span."""
    still = np.zeros(len(directions), dtype=object)
    slopes_of_rows = [rates.along(rates.move(p), still, still, 0)[0].astype(float) for p in directions.T.astype(object)]
    stacked = np.array(slopes_of_rows).reshape(-1, len(y), len(directions))
    return second_order_forms(y.astype(float), stacked, directions)


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
    N, load = basis.astype(float), b.astype(float)
    if not is_at_rest(v) or np.any(np.abs(N.T @ load) > np.abs(N.T) @ least_push(system.model, load)):
        raise nothing_moves(system.model)


def nothing_moves(model: Model) -> SingularSystemError:
    """The error for a mechanism whose rows allow motions that it does not have."""
    return SingularSystemError(
        f"model {model.name!r}: its constraints let nothing move, though their first-order rows do (two "
        f"rods in one line between two pins). No finite force withstands this load, so there is no acceleration. "
        f"Cure: {IMMOBILE}. wt.diagnose(model) names the rows."
    )


def _moments_of_weight(model: Model) -> Array:
    """For each velocity (nv,) the moment of all weights that its joint carries, at the end of the longest of the ways
    from it, N m; of joints that slide their weight, N, if that is more. The scale of small loads."""
    g = float(np.linalg.norm(model.gravity.astype(float)))
    weights = [g * float(body.mass) for body in model.bodies]
    reaches = [float(np.linalg.norm(body.center.astype(float))) for body in model.bodies]
    found = np.zeros(model.nv)
    for k in reversed(range(len(model.joints))):
        joint, parent = model.joints[k], model.parents[k]
        found[model.v_slices[k]] = weights[k] * (max(reaches[k], 1.0) if joint.kind in SLIDING else reaches[k])
        if parent >= 0:
            weights[parent] += weights[k]
            offset = float(np.linalg.norm(joint.pose[:3, 3].astype(float)))
            reaches[parent] = max(reaches[parent], offset + reaches[k])
    return found


SLIDING = ("prismatic", "helical", "cylindrical", "planar", "free", "modal")
"""Kinds of joints with velocities whose forces are no moments."""


def branch_rows(rates: RowRates, y: Array, v: Array, speed: float) -> tuple[Array, Array, Array]:
    """(B, β) with B a + β = 0 for the combinations y (k, r) of rows that vanish, at unit length; and those of the
    combinations whose rows are empty as well.

    Args:
        rates: of these rows at the state.
        y: (k, r).
        v: velocities, (n,).
        speed: of all that moves, rad/s or m/s: what the size of a row is compared with.
    """
    drift_A, drift = rates.along(rates.move(v), v, v * 0, 1)
    still = rates.move(v * 0)
    columns = [rates.along(still, v, e, 0)[1] for e in identity(len(v))]
    B = y.T @ (drift_A + np.stack(columns, axis=1))
    beta = y.T @ drift
    rows, rest, empty = [], [], []
    for i, (row, b) in enumerate(zip(B, beta, strict=True)):
        size = float(row @ row) ** 0.5
        if size > EMPTY_BRANCH * speed:
            rows.append(row / size)
            rest.append(b / size)
        else:
            empty.append(i)
    return np.array(rows, dtype=object).reshape(len(rows), len(v)), np.array(rest, dtype=object), y[:, empty]


def words_off_branch(model: Model, q: Array, v: Array, t: Any) -> str:
    """What to tell of a velocity (nv,) that points along no branch, though the rows allow it to first order; else "".

    Of combinations y of rows that vanish, yᵀ (A a + γ) = 0 asks for yᵀ γ = 0 whatever a is: the velocities of all
    branches meet it. What violates the rows themselves is no velocity of the mechanism, here as at any other
    configuration, and nothing is said of it.
    """
    system, size = constraint_set(model), np.linalg.norm
    rigid = [i for i, (c, k) in enumerate(zip(system.compliance, system.switch_of_row, strict=True)) if not c and k < 0]
    m, at, speeds = Mechanism.of(model), q.astype(object), v.astype(object)
    rates = SystemRates(m, system, rigid, at, t)
    rows = system.rows(m, m.moving(at, speeds), at, speeds, t)
    A, gamma, slips = (x.astype(float)[rigid] for x in (rows.jacobian(), rows.bias(), rows.velocity()))
    if size(slips) > OFF_BRANCH * size(A) * size(v):
        return ""
    y = null_spaces(A, RANK_TOLERANCE).left
    drift = rates.along(rates.move(speeds), speeds, 0 * speeds, 1)[0].astype(float)
    usual = max(size(drift) * size(v), size(gamma))
    if not np.any(np.abs(y.T @ gamma) > OFF_BRANCH * usual):
        return ""
    return (
        f"model {model.name!r} is on a dead point, and its velocity points along none of the motions that meet there: "
        f"the rows of its constraints allow it to first order only, so no acceleration continues it. The one that "
        f"meets them best is taken, and energy is lost. A velocity along one of these motions is needed; or a start a "
        f"little way along one of them (wt.assemble(model, q, hold={{joint: angle}})), where project_velocity finds "
        f"it. wt.diagnose(model, q) names the rows"
    )


def beside_rows(B: Array, beta: Array, factor: kkt.Nullspace, gamma: Array) -> tuple[Array, Array]:
    """Branch rows B a + β = 0 as they act on the motions that the factored rows, with bias γ, leave.

    What they ask for along the factored rows is asked for already. Left in, it would carry a share of the forces of
    rows that are redundant everywhere, whose combinations vanish as those of a dead point do.
    """
    basis = factor.basis
    own = B @ basis
    told = [i for i, row in enumerate(own) if float(row @ row) > RANK_TOLERANCE**2]
    return own[told] @ basis.T, (beta + B @ factor.particular(gamma))[told]
