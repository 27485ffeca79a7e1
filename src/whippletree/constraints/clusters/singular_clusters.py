"""Clusters at a singular configuration: the rank-revealing route for them alone, inside the recursion over clusters.

Where the rows of a cluster depend on each other (a parallelogram in line), its pivots fail, and only its own: the other
clusters keep their route. The dagger terms of [D Aᵀ; A −C] then come from the pivoted QR of its Aᵀ, with all of its
rows, and with those that keep it to the branch that its velocity points along
(:mod:`whippletree.constraints.singular.dead_points`), which feel none but its own joints either.

A cluster at rest takes the branch of least constraint, and that is a matter of the whole: what its motions
z = Nᵀ (a − p) cost is ½ (z − z₀)ᵀ W⁻¹ (z − z₀), with z₀ the answer of the mechanism whose clusters may move along all
of N, and W how z answers to forces along N. Both come from the same recursion, one right-hand side more for each column
of N; the cone is that of these clusters alone (:mod:`whippletree.constraints.singular.tangent_cone`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.dual_numbers import Dual, duals, slopes
from whippletree.constraints import kkt
from whippletree.constraints.clusters.clustered_mechanism import (
    ClusterRows,
    UnrolledClusters,
    cluster_links,
    moving_links,
    rows,
)
from whippletree.constraints.clusters.embedding import (
    RevealedFactor,
    accelerations_of,
    at_rest,
    factorise,
    require_pivots,
    respond,
)
from whippletree.constraints.clusters.loop_clusters import Cluster, ClusterKind, ClusterPiece
from whippletree.constraints.routes import (
    MASSLESS_TOLERANCE,
    RANK_TOLERANCE,
    RowTerms,
    factor_block,
    fails,
    rows_depend,
)
from whippletree.constraints.singular.dead_points import (
    beside_rows,
    branch_rows,
    is_at_rest,
    least_push,
    nothing_moves,
    quadrics,
)
from whippletree.constraints.singular.tangent_cone import Choice, least_on_cone
from whippletree.tree.sweeps import Field


class ClusterRates(NamedTuple):
    """How some rows of one cluster change with its own state:
    :class:`whippletree.constraints.singular.dead_points.RowRates`.
    """

    kind: ClusterKind
    piece: ClusterPiece
    kept: Sequence[int]
    q: tuple[Array, ...]
    t: Any

    def move(self, v: Array) -> Array:
        parts = zip(self.piece.nodes, self.q, self.kind.slices, strict=True)
        return np.concatenate([node.joint.rate(q, v[own]) for node, q, own in parts])

    def along(self, dq: Array, v: Array, dv: Array, dt: Any) -> tuple[Array, Array]:
        ends = np.cumsum([0, *[len(q) for q in self.q]])
        state = [duals(q, dq[a:b]) for q, a, b in zip(self.q, ends, ends[1:], strict=False)]
        rates = duals(v, dv)
        speeds = [rates[own] for own in self.kind.slices]
        # rows feel none but the joints of the cluster: its root body may stand still
        links = cluster_links(self.kind, self.piece, zeros(6), state, speeds)
        found = ClusterRows(self.kind, self.piece, links, state, speeds, Dual(self.t, dt))
        kept = list(self.kept)
        return slopes(found.whole_jacobian()[kept]), slopes(found.bias()[kept])


class HeldBranch(NamedTuple):
    """Accelerations that a cluster at rest was found to have: rows B a + β = 0."""

    B: Array
    beta: Array


class DeadBlock(NamedTuple):
    """The block matrix of a cluster, should the pivots of its own route fail: a
    :class:`whippletree.constraints.clusters.embedding.ClusterBlocks`."""

    kind: ClusterKind
    piece: ClusterPiece
    A: Array
    """Of all rows, (m, n)."""
    terms: RowTerms
    """Of all rows."""
    gamma: Array
    """Bias of all rows, (m,)."""
    q: tuple[Array, ...]
    v: Array
    speed: float
    """Of all that moves."""
    t: Any
    held: HeldBranch | None = None

    def block(self, D: Array) -> tuple[kkt.Factored, RowTerms]:
        kept = list(self.kind.kept)
        own = RowTerms(
            self.terms.compliance[kept],
            self.terms.squares[kept],
            None if self.terms.mask is None else self.terms.mask[kept],
        )
        factor = self._factor(D, self.A[kept], own)
        if not rows_depend(factor, own):
            return factor, own  # a loss of digits, no more
        # rows that are redundant elsewhere may not be here
        factor = self._factor(D, self.A, self.terms)
        rigid = rigid_part(factor)
        B, beta, _ = self.branch(rigid)
        B, beta = beside_rows(B, beta, rigid, self.terms.mask_rows(self.gamma)[self.hard])
        if self.held is not None:
            B, beta = np.concatenate([B, self.held.B]), np.concatenate([beta, self.held.beta])
        if len(B):
            rigid = kkt.nullspace(rigid.M, np.concatenate([rigid.A, B]), RANK_TOLERANCE)
        whole = kkt.Branched(rigid, beta)
        return factor._replace(rigid=whole) if isinstance(factor, kkt.Softened) else whole, self.terms

    def branch(self, factor: kkt.Nullspace) -> tuple[Array, Array, Array]:
        """Rows that keep to the branch of the velocity, their bias, and combinations of rows that have none."""
        usual = sum(self.terms.compliance[i] == 0 for i in self.kind.kept)
        if self.kind.nv - factor.basis.shape[1] >= usual:
            # other rows take the place of those that vanished: nothing is singular but their choice
            return zeros(0, self.kind.nv), zeros(0), zeros(len(self.hard), 0)
        y = factor.idle_rows()
        if self.terms.mask is not None:
            y = (y.T * self.terms.mask[self.hard]).T
        if self.speed == 0:
            return zeros(0, self.kind.nv), zeros(0), y
        return branch_rows(self.rates, y, self.v, self.speed)

    @property
    def hard(self) -> list[int]:
        """Rigid rows, among all."""
        return [i for i, c in enumerate(self.terms.compliance) if c == 0]

    @property
    def rates(self) -> ClusterRates:
        """Rates of the rigid rows."""
        return ClusterRates(self.kind, self.piece, self.hard, self.q, self.t)

    def _factor(self, D: Array, A: Array, terms: RowTerms) -> Any:
        return factor_block("nullspace", D, terms.mask_rows(A), terms, parents=(), order=(), doubtful=False)


def rigid_part(factor: kkt.Factored) -> kkt.Nullspace:
    """The rank-revealing factor of the rigid rows, with those of a branch."""
    rigid = factor.rigid if isinstance(factor, kkt.Softened) else factor
    found = rigid.factor if isinstance(rigid, kkt.Branched) else rigid
    assert isinstance(found, kkt.Nullspace)
    return found


def solve(
    at: UnrolledClusters, masks: Field | None, q: Array, v: Array, tau: Array, t: Any, base: Array, active: Any
) -> tuple[Array, Array]:
    """Accelerations (nv,) and the forces of all rows (m,); dependent rows share their force in the least-norm sense."""
    links = moving_links(at, q, v)
    own_rows = rows(at, links, q, v, t)
    matrices = at.sweep.map(lambda own: own.jacobian(), own_rows)
    blocks = dead_blocks(at, own_rows, q, v, t, active)
    factors = factorise(at, links, matrices, masks, blocks=blocks)
    require_pivots(at, factors, matrices)
    gamma = [
        own.bias() if _takes_all_rows(factor, own.kind) else own.of_factored_rows(own.bias())
        for own, factor in zip(own_rows, factors, strict=True)
    ]
    found = respond(at, links, factors, at.velocities(tau), gamma, base)
    undecided = _undecided_motions(blocks, factors, gamma)
    trusted = not any(fails(margin) for own in factors for _, margin in own.margins(MASSLESS_TOLERANCE))
    if undecided and trusted:
        free = at.join(accelerations_of(at, found)).astype(float)
        chosen = _least_constraint(at, links, factors, gamma, undecided, free, tau, moving=not is_at_rest(v))
        if chosen is not None:
            for own in undecided:
                own.hold(blocks, at.m.velocities(chosen.a.astype(object)), at.clusters.clusters[own.number])
            factors = factorise(at, links, matrices, masks, blocks=blocks)
            found = respond(at, links, factors, at.velocities(tau), gamma, base)
    forces = zeros(len(at.system.row_names))
    for c, own, factor in zip(at.clusters.clusters, found, factors, strict=True):
        kind = at.clusters.kinds[c.word]
        forces[[c.rows[i] for i in (range(kind.row_count) if _takes_all_rows(factor, kind) else kind.kept)]] = own.f
    return at.join(accelerations_of(at, found)), forces


def dead_blocks(at: UnrolledClusters, own_rows: Field, q: Array, v: Array, t: Any, active: Any) -> list[Any]:
    """A :class:`DeadBlock` for every cluster."""
    mask = at.system.mask(active)
    speed = 0.0 if is_at_rest(v) else float(sum(abs(x) for x in v))
    places, speeds = at.coordinates(q), at.velocities(v)
    return [
        DeadBlock(
            own.kind,
            piece,
            own.whole_jacobian(),
            RowTerms(
                np.array([at.system.compliance[i] for i in c.rows], dtype=object),
                np.ones(len(c.rows), dtype=object),
                None if mask is None else mask[list(c.rows)],
            ),
            own.bias(),
            places[k],
            np.concatenate(speeds[k]),
            speed,
            t,
        )
        for k, (c, piece, own) in enumerate(zip(at.clusters.clusters, at.pieces, own_rows, strict=True))
    ]


def _takes_all_rows(factor: Any, kind: ClusterKind) -> bool:
    return isinstance(factor, RevealedFactor) and len(factor.terms.compliance) == kind.row_count


class _Undecided(NamedTuple):
    """A cluster with combinations of rows that vanish, and of which no velocity says what takes their place."""

    number: int
    """Of the cluster."""
    y: Array
    """(k, r)."""
    basis: Array
    """N (n, d): motions that are left."""
    start: Array
    """p (n,): the smallest acceleration that the rows ask for."""
    rates: ClusterRates

    def hold(self, blocks: list[Any], parts: Field, c: Cluster) -> None:
        """Let the cluster have the accelerations of the joints that were chosen."""
        a = np.concatenate([parts[k] for k in c.members])
        B = self.basis.T
        blocks[self.number] = blocks[self.number]._replace(held=HeldBranch(B, -(B @ a)))


def _undecided_motions(blocks: list[Any], factors: Field, gamma: Field) -> list[_Undecided]:
    found = []
    for k, (block, factor) in enumerate(zip(blocks, factors, strict=True)):
        if not _takes_all_rows(factor, block.kind):
            continue
        part, rigid = rigid_part(factor.block), factor.block
        rigid = rigid.rigid if isinstance(rigid, kkt.Softened) else rigid
        if not isinstance(rigid, kkt.Branched):
            continue
        own = kkt.nullspace(part.M, part.A[: len(block.hard)], RANK_TOLERANCE)
        y = block.branch(own)[2]
        if y.shape[1]:
            bias = np.concatenate([factor.terms.mask_rows(gamma[k])[block.hard], rigid.beta])
            found.append(_Undecided(k, y, part.basis, part.particular(bias), block.rates))
    return found


def _least_constraint(
    at: UnrolledClusters,
    links: Field,
    factors: Field,
    gamma: Field,
    undecided: list[_Undecided],
    free: Array,
    tau: Array,
    *,
    moving: bool,
) -> Choice | None:
    """The accelerations (nv,) of least constraint; None where nothing pushes along motions whose rows have vanished,
    or where these say nothing to second order.

    Raises:
        SingularSystemError: the mechanism is at rest, the cone holds no motion, and something pushes.
    """
    members = [_joints_of(at, own) for own in undecided]
    N = np.zeros((len(free), sum(own.basis.shape[1] for own in undecided)))
    ends = np.cumsum([0, *[own.basis.shape[1] for own in undecided]])
    for own, where, a, b in zip(undecided, members, ends, ends[1:], strict=False):
        N[where, a:b] = own.basis.astype(float)
    if not N.shape[1]:
        return None  # the rates of the vanished rows leave no motion: a velocity along no branch
    least = least_push(at.m.tree.model, np.asarray(tau, dtype=float))
    start = np.zeros(len(free))
    for own, where in zip(undecided, members, strict=True):
        p = own.start.astype(float)
        D = rigid_part(factors[own.number].block).M.astype(float)
        start[where] = 0.0 if np.abs(D @ p).max(initial=0.0) <= least[where].max(initial=0.0) else p
    answers = _answers(at, links, factors, gamma, N)
    stiffness = np.linalg.inv(N.T @ answers)
    stiffness = (stiffness + stiffness.T) / 2
    z0 = N.T @ (free - start)
    push = stiffness @ z0
    if np.all(np.abs(push) <= np.abs(N.T) @ least) and not start.any():
        return None
    Q = _joint_quadrics(undecided, members, start, ends)
    if not len(Q):
        return None
    moved, d = bool(start.any()), len(z0)
    inertia, load = np.eye(d + moved) * np.trace(stiffness) / d, np.zeros(d + moved)
    inertia[:d, :d], load[:d] = stiffness, push
    spread = answers @ stiffness
    found = least_on_cone(
        inertia, load, Q if moved else Q[:, :-1, :-1], moved, lambda z: np.asarray(free + spread @ (z[:d] - z0))
    )
    if found is None and not moving:
        raise nothing_moves(at.m.tree.model)
    if found is not None and found.others:
        at.m.remark(found.words(at.m.tree.model))
    return found


def _joints_of(at: UnrolledClusters, own: _Undecided) -> list[int]:
    """The velocities of a cluster's joints among all."""
    parts = [at.m.tree.v_slices[k] for k in at.clusters.clusters[own.number].members]
    return [i for part in parts for i in range(part.start, part.stop)]


def _answers(at: UnrolledClusters, links: Field, factors: Field, gamma: Field, N: Array) -> Array:
    """How all accelerations answer to forces along the columns of N (nv, d): (nv, d)."""
    linear = [
        own._replace(block=kkt.without_branch_bias(own.block)) if isinstance(own, RevealedFactor) else own
        for own in factors
    ]
    still, nothing = at_rest(at, links), [0 * own for own in gamma]
    columns = [
        at.join(accelerations_of(at, respond(at, still, linear, at.velocities(push), nothing, zeros(6))))
        for push in N.T.astype(object)
    ]
    return np.stack(columns, axis=1).astype(float)


def _joint_quadrics(undecided: list[_Undecided], members: list[list[int]], start: Array, ends: Any) -> Array:
    """The quadrics of all clusters as forms of all their motions, and of the particular acceleration behind them."""
    forms = []
    for own, where, a, b in zip(undecided, members, ends, ends[1:], strict=False):
        directions = np.concatenate([own.basis.astype(float), start[where][:, None]], axis=1)
        place = [*range(a, b), ends[-1]]
        for form in quadrics(own.rates, own.y, directions):
            whole = np.zeros((ends[-1] + 1, ends[-1] + 1))
            whole[np.ix_(place, place)] = form
            forms.append(whole)
    return np.array(forms)
