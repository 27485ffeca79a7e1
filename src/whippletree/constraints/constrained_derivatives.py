"""Derivatives of constrained dynamics: of the accelerations a and of the constraint forces f, by q, v and τ.

    r(a, f) = M a + c − τ − Aᵀ f = 0          s(a, f) = A a + γ + C f = 0

hold at every state, so what a displacement of the state changes at fixed a and f is balanced by ∂a and ∂f:

    M ∂a − Aᵀ ∂f = ∂τ − ∂(M a + c) + ∂(Aᵀ f)          A ∂a + C ∂f = −∂(A a + γ)

The same block matrix once more, factored already, with a column for every displacement; ∂a/∂τ = M† and ∂f/∂τ = −A† (000
eq. 5). The right-hand sides are the derivatives of inverse dynamics under the constraints' wrenches
(:mod:`whippletree.tree.tangents`) and those of the rows. Nothing of it knows the route, so massless links, compliance,
switches and redundant rows need no words of their own. q moves in the tangent space, and is free to leave the
constraints: a derivative along them is this one times a motion that they allow.

A row is a small function of the poses of its frames (or of joint coordinates), and so are its derivatives: dual numbers
move each frame along unit twists, and :mod:`whippletree.tree.tangents` knows how displacements of q and v move frames.
With the wrench wᵢ = Gᵢᵀ f of a constraint on its frame i and the rows h(X, V, α) at acceleration level:

    ∂(Aᵀ f)     = Jᵢᵀ wᵢ with wᵢ fixed to its frame (inverse dynamics' business), and Jᵢᵀ (∂wᵢ/∂Xₖ) Jₖ
    ∂(A a + γ)  = (∂h/∂Xₖ) ∂Xₖ + (∂h/∂Vₖ) ∂Vₖ + Gₖ ∂αₖ

Rows on joint coordinates are the same with coordinates for poses. What stands still is lifted to dual numbers of slope
zero beside what moves, as in :mod:`whippletree.constraints.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints import kkt
from whippletree.constraints.dynamics import Closed, closed
from whippletree.constraints.moving_residuals import (
    frame_acceleration,
    frame_coefficients,
    joint_acceleration,
    joint_coefficients,
    lifted_pose,
    moved_pose,
)
from whippletree.constraints.rows import Prepared, Rows, frame_places
from whippletree.errors import SingularSystemError
from whippletree.spatial import Pose, cross_force
from whippletree.tree.derivatives import added_product, joint_forces, state_derivatives
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.tangents import AccelerationTerms, Tangents


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
    motion = tangents.accelerate(a)
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


# --- derivatives of rows ----------------------------------------------------------------------------------------------


class RowState(NamedTuple):
    """Point at which the rows are differentiated: a state, its accelerations and its time."""

    tangents: Tangents
    motion: AccelerationTerms
    q: Array
    v: Array
    a: Array
    t: Any


class RowDerivatives:
    """Derivatives of the rows of some demands, while they carry the forces f (m,)."""

    def __init__(self, m: Mechanism, demands: Sequence[Prepared], state: RowState, f: Array) -> None:
        self.m = m
        kinds: dict[str, Any] = {"frames": _FrameRows, "joints": _JointRows}
        ends = np.cumsum([0, *[len(c.demand.rows) for c in demands]])
        self._parts = [
            kinds.get(c.demand.on, _WholeRows)(m, c, state, f[start:stop])
            for c, start, stop in zip(demands, ends[:-1], ends[1:], strict=True)
        ]

    def wrenches(self) -> list[Array]:
        """The wrench of the forces on every node, in its frame, (6,) each; joint rows have none."""
        result = [zeros(6) for _ in self.m.tree.nodes]
        for part in self._parts:
            for node, wrench in part.wrenches():
                result[node] = result[node] + wrench
        return result

    def stiffness(self) -> Array:
        """∂(Aᵀ f)/∂q (nv, nv) beyond that of wrenches which are fixed to their nodes."""
        n = self.m.tree.model.nv
        result = zeros(n, n)
        for part in self._parts:
            part.add_stiffness(result)
        return result

    def accelerations(self) -> tuple[Array, Array]:
        """∂(A a + γ)/∂q and ∂(A a + γ)/∂v (m, nv)."""
        nothing = zeros(0, self.m.tree.model.nv)
        found = [part.accelerations() for part in self._parts]
        return np.concatenate([nothing, *[dq for dq, _ in found]]), np.concatenate([nothing, *[dv for _, dv in found]])


class _FrameRows:
    """Rows of a residual of poses, and for velocity rows of twists."""

    def __init__(self, m: Mechanism, c: Prepared, state: RowState, f: Array) -> None:
        self.demand, self.state, self.f, self.nv = c.demand, state, f, m.tree.model.nv
        self.places = frame_places(m.tree, c)
        self.frames = [state.tangents.frame(place, state.motion) for place in self.places]
        self.moving = [i for i, frame in enumerate(self.frames) if frame.freedoms]
        self.poses = [frame.X for frame in self.frames]
        self.G = {i: frame_coefficients(self.demand, self.poses, i, state.t) for i in self.moving}

    def wrenches(self) -> list[tuple[int, Array]]:
        return [(self.places[i].node, self.places[i].pose.force(self.G[i].T @ self.f)) for i in self.moving]

    def add_stiffness(self, result: Array) -> None:
        freedoms = self.state.tangents.freedoms
        for i in self.moving:
            for k in self.moving:
                K = self._wrench_slopes(i, k)
                for column in self.frames[k].freedoms:
                    pull = K @ freedoms[column].S
                    for row in self.frames[i].freedoms:
                        result[row, column] = result[row, column] + freedoms[row].S @ pull

    def _wrench_slopes(self, i: int, k: int) -> Array:
        """∂wᵢ/∂Xₖ (6, 6), both sides in the axes of the root parts."""
        t = Dual(self.state.t, 0)
        columns = []
        for e in identity(6):
            G = frame_coefficients(self.demand, self._displace(k, e), i, t)
            columns.append(self.frames[i].within.force(slopes(G).T @ self.f))
        return _rows(self.frames[k].within.force, np.stack(columns, axis=1))

    def _displace(self, k: int, e: Array) -> list[Pose]:
        return [moved_pose(X, e) if j == k else lifted_pose(X) for j, X in enumerate(self.poses)]

    def accelerations(self) -> tuple[Array, Array]:
        dq, dv = zeros(len(self.demand.rows), self.nv), zeros(len(self.demand.rows), self.nv)
        tangents, motion = self.state.tangents, self.state.motion
        for k in self.moving:
            frame = self.frames[k]
            G = _rows(frame.within.force, self.G[k])
            # Gₖ ∂αₖ has the terms −V × ∂V, and ∂α without gravity: both as rows that meet ∂V and ∂X
            turned = [twist + cross_force(frame.V, g) for twist, g in zip(self._by_twist(k), self.G[k], strict=True)]
            by_twist = _rows(frame.within.force, np.stack(turned))
            fall = np.stack([cross_force(frame.base, g) for g in G])
            by_pose = _rows(frame.within.force, self._by_pose(k)) + fall
            for j in frame.freedoms:
                S, carried, swing = tangents.freedoms[j]
                dq[:, j] = dq[:, j] + (by_pose @ S + by_twist @ carried + G @ motion.second[j])
                dv[:, j] = dv[:, j] + (by_twist @ S + G @ swing)
        return dq, dv

    def _by_pose(self, k: int) -> Array:
        """∂h/∂Xₖ (rows, 6)."""
        still = zeros(6)
        return self._slopes(lambda e: (self._displace(k, e), [duals(f.V, still) for f in self.frames]))

    def _by_twist(self, k: int) -> Array:
        """∂h/∂Vₖ (rows, 6)."""
        poses, still = [lifted_pose(X) for X in self.poses], zeros(6)
        return self._slopes(lambda e: (poses, [duals(f.V, e if j == k else still) for j, f in enumerate(self.frames)]))

    def _slopes(self, moved: Callable[[Array], tuple[list[Pose], list[Array]]]) -> Array:
        rates = [duals(frame.alpha, zeros(6)) for frame in self.frames]
        t = Dual(self.state.t, 0)
        columns = [slopes(frame_acceleration(self.demand, *moved(e), rates, t)) for e in identity(6)]
        return np.stack(columns, axis=1)


class _JointRows:
    """Rows on joint coordinates or rates."""

    def __init__(self, m: Mechanism, c: Prepared, state: RowState, f: Array) -> None:
        self.demand, self.f, self.nv, self.t = c.demand, f, m.tree.model.nv, Dual(state.t, 0)
        model = m.tree.model
        self.columns = [model.slice(name).start for name in c.constraint.on]
        self.x = [state.q[model.q_slice(name).start] for name in c.constraint.on]
        self.rates = [state.v[j] for j in self.columns]
        self.changes = [state.a[j] for j in self.columns]

    def wrenches(self) -> list[tuple[int, Array]]:
        return []

    def add_stiffness(self, result: Array) -> None:
        for k, column in enumerate(self.columns):
            moved = _along(self.x, k)
            for i, row in enumerate(self.columns):
                slope = slopes(joint_coefficients(self.demand, moved, i, self.t))
                result[row, column] = result[row, column] + slope @ self.f

    def accelerations(self) -> tuple[Array, Array]:
        dq, dv = zeros(len(self.demand.rows), self.nv), zeros(len(self.demand.rows), self.nv)
        x, rates, changes = (_along(values, None) for values in (self.x, self.rates, self.changes))
        for k, column in enumerate(self.columns):
            by_place = joint_acceleration(self.demand, _along(self.x, k), rates, changes, self.t)
            by_rate = joint_acceleration(self.demand, x, _along(self.rates, k), changes, self.t)
            dq[:, column] = dq[:, column] + slopes(by_place)
            dv[:, column] = dv[:, column] + slopes(by_rate)
        return dq, dv


class _WholeRows:
    """Rows that depend on the whole state: displaced one velocity at a time."""

    def __init__(self, m: Mechanism, c: Prepared, state: RowState, f: Array) -> None:
        self.m, self.c, self.state, self.f = m, c, state, f

    def wrenches(self) -> list[tuple[int, Array]]:
        return []

    def add_stiffness(self, result: Array) -> None:
        for column, e in enumerate(identity(len(self.state.v))):
            result[:, column] = result[:, column] + slopes(self._move(e, e * 0).jacobian()).T @ self.f

    def accelerations(self) -> tuple[Array, Array]:
        dq, dv = [], []
        for e in identity(len(self.state.v)):
            along_q, along_v = self._move(e, e * 0), self._move(e * 0, e)
            dq.append(slopes(along_q.jacobian()) @ self.state.a + slopes(along_q.bias()))
            dv.append(slopes(along_v.bias()))
        q, v = self.state.q, self.state.v
        A = Rows(self.m, [self.c], self.m.still(q), q, v, self.state.t).jacobian()
        # what a floating root shares with the whole tree is left out of frames' rows too
        of_root = self.state.tangents.floating()
        return np.stack(dq, axis=1) + A @ of_root[0], np.stack(dv, axis=1) + A @ of_root[1]

    def _move(self, dq: Array, dv: Array) -> Rows:
        q, v = duals(self.state.q, self.m.manifold().rate(self.state.q, dq)), duals(self.state.v, dv)
        return Rows(self.m, [self.c], self.m.moving(q, v), q, v, Dual(self.state.t, 0))


def _along(values: Sequence[Any], k: int | None) -> list[Dual]:
    """Numbers as dual numbers, of which the one numbered k moves."""
    return [Dual(x, 1 if j == k else 0) for j, x in enumerate(values)]


def _rows(function: Callable[[Array], Array], matrix: Array) -> Array:
    """This matrix with the function applied to every row, (r, 6)."""
    return np.stack([function(row) for row in matrix])
