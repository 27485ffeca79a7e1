"""Hybrid dynamics over a tree of clusters: joints whose acceleration is given, inside loops and between them, in O(N).

A joint with a given acceleration (p) is not eliminated with its cluster. What is left of the cluster are the others
(u), under rows that feel the given accelerations as a bias; the recursion of
:mod:`whippletree.constraints.clusters.embedding` runs on with the dagger terms of [D_uu A_uᵀ; A_u −C], and with D† = 0
along p:

    inwards    x_u, f from [D_uu A_uᵀ; A_u −C], loads τ_u − (τ_p)_u, bias γ + A_p θ̈_p
               P⁺ = I_C − F_u D_uu† F_uᵀ            z⁺ = z_p + F_u x_u
    outwards   θ̈_u = x_u − D_uu† F_uᵀ α             τ = what the motion costs the joints p, less A_pᵀ f

where z_p, τ_p are the wrench on the root body and the joint forces at θ̈ = (θ̈_p, 0) and α = 0. So (32) is asked of the
others of each cluster, a massless joint may be prescribed, and a cluster that the given accelerations lead (as many
rows as others) needs no inertia at all. A cluster without such joints takes its own step.

Where A_u loses rank, some combination of rows feels given accelerations only: either these agree with it, which the
rank-revealing factor of that cluster finds, or they contradict it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters.cluster_members import composite, standing_forces
from whippletree.constraints.clusters.clustered_mechanism import Clustered, handed_up, moving_links, of_world, rows
from whippletree.constraints.clusters.embedding import (
    cluster_margins,
    eliminate_cluster,
    joint_pivots,
    move_members,
    reduce_inertia,
    stand,
    terms_of,
)
from whippletree.constraints.clusters.loop_clusters import ClusterKind, ClusterPiece
from whippletree.constraints.routes import PIVOT_TOLERANCE, RowTerms, factor_block, fails
from whippletree.tree.links import Link
from whippletree.tree.sweeps import Field

CONTRADICTION = 1e-9
"""Share of the largest term of A a + γ that may be left over by accelerations that were given and agree with the rows:
rounding of a rank-revealing solution, not a contradiction."""


class ClusterOutcome(NamedTuple):
    """Accelerations and forces of a cluster's joints, tuples of vectors; of each joint one of the two was given."""

    qdd: tuple[Array, ...]
    effort: tuple[Array, ...]


def hybrid_dynamics(
    at: Clustered, masks: Field | None, nodes: Sequence[int], q: Any, v: Any, given: Any, t: Any, base: Array
) -> tuple[Any, Any]:
    """Accelerations and forces of all joints, (nv,) each.

    ``given``: accelerations of the joints at ``nodes``, and forces of the others.
    """
    links = moving_links(at, q, v)
    own_rows = rows(at, links, q, v, t)
    matrices = at.sweep.map(lambda own: own.jacobian(), own_rows)
    gamma = at.sweep.map(lambda own: own.of_factored_rows(own.bias()), own_rows)
    numbers = at.velocities(given)
    factors = _factorise(at, links, matrices, masks, at.among(nodes))
    standing = stand(at, links, factors, numbers, gamma, base)

    def margins(piece: ClusterPiece, factor: Any, A: Array, gamma: Array, own: Any) -> list[kkt.Margin]:
        kind = at.clusters.kinds[piece.word]
        if not isinstance(factor, PrescribedFactor):
            return cluster_margins(kind, factor, A)
        # where they depend on each other, rows that are redundant elsewhere are wanted too: a matter of the whole
        lacks_rows = factor.revealed and len(A) < kind.row_count
        return [*factor.margins(kind, gamma, own), *([(kkt.ROWS, -1)] if lacks_rows else [])]

    required = at.sweep.map(margins, at.pieces, factors, matrices, gamma, standing)
    at.require(required, at.sweep.map(joint_pivots, factors))
    outcomes = _move(at, links, factors, standing, numbers, base)
    accelerations = at.sweep.map(lambda own: own.qdd, outcomes)
    return at.join(accelerations), at.join(at.sweep.map(lambda own: own.effort, outcomes))


class _Standing(NamedTuple):
    """The answer of a cluster whose root body does not accelerate: a
    :class:`whippletree.constraints.clusters.cluster_members.Standing`, and the forces (p,) of the joints that are
    led."""

    x: Array
    f: Array
    effort: Array


class PrescribedFactor(NamedTuple):
    """A cluster of which some joints have given accelerations."""

    fixed: list[int]
    """Velocities whose acceleration is given, among those of the cluster."""
    others: list[int]
    loads: tuple[Any, ...]
    """Inertia of each member with what the clusters on it add, seen at θ̈ = 0."""
    F: Array
    """(6, n)."""
    D: Array
    """(n, n)."""
    A: Array
    """Of the factored rows, zeros where they are off, (k, n)."""
    terms: RowTerms
    block: kkt.Factored
    """Of the others."""
    inverse: kkt.Dagger | None
    """Of the others; none where the root body is the world."""
    K: Array
    """D_uu† F_uᵀ; nothing where the root body is the world."""
    revealed: bool
    """Whether the factor reveals ranks, so that rows may be left over."""

    def stand(
        self, kind: ClusterKind, links: tuple[Link, ...], on_ports: dict[int, Any], tau: Any, gamma: Array, base: Array
    ) -> tuple[Array, _Standing]:
        """``tau``: accelerations of some joints and forces of the others."""
        given, x = np.concatenate(tau), zeros(kind.nv)
        x[self.fixed] = given[self.fixed]
        parts, z = standing_forces(kind, links, self.loads, on_ports, base, x)
        forces = np.concatenate(parts)
        felt = self.terms.mask_rows(gamma) + self.A[:, self.fixed] @ given[self.fixed]
        x[self.others], f = self.block.solve(given[self.others] - forces[self.others], felt)
        effort = forces[self.fixed] + self._cost(x[self.others], f)
        return zeros(6) if kind.grounded else z + self.F[:, self.others] @ x[self.others], _Standing(x, f, effort)

    def move(self, kind: ClusterKind, own: _Standing, root: Array) -> tuple[Array, Array]:
        """Accelerations (n,) and the forces of the joints that are led (p,), where the root body accelerates."""
        if kind.grounded:
            return own.x, own.effort
        assert self.inverse is not None
        x, change = own.x.copy(), -(self.K @ root)
        x[self.others] = x[self.others] + change
        pull = self.inverse.A @ (self.F[:, self.others].T @ root)
        return x, own.effort + self.F[:, self.fixed].T @ root + self._cost(change, pull)

    def _cost(self, x: Array, f: Array) -> Array:
        """Forces at the joints that are led, of accelerations of the others and forces of the rows."""
        return np.asarray(self.D[np.ix_(self.fixed, self.others)] @ x - self.A[:, self.fixed].T @ f)

    def margins(self, kind: ClusterKind, gamma: Array, own: _Standing) -> list[kkt.Margin]:
        """Margins of the pivots, and of rows that the others no longer feel; or of what is left over of the rows."""
        masses = [margin for margin in self.block.margins(PIVOT_TOLERANCE) if margin[0] == kkt.MASS]
        if not self.revealed:
            return [
                *masses,
                *[(kkt.GIVEN, margin) for margin in _row_margins(kind, self.block, self.A[:, self.others])],
            ]
        terms = self.terms.mask_rows(gamma)
        lines = zip(self.A, terms, self.terms.compliance, own.f, strict=True)
        return [*masses, *[(kkt.GIVEN, agreement(row, own.x, bias, soft * f)) for row, bias, soft, f in lines]]


def agreement(row: Array, a: Array, bias: Any, yielding: Any) -> Any:
    """Positive where the accelerations a meet a row up to rounding."""
    left = row @ a + bias + yielding
    size = sum((x * x for x in (*(row * a), bias)), 0)
    return CONTRADICTION**2 * (1 + size) - left * left


class _Overruled(NamedTuple):
    """More rows than joints that could meet them: the given accelerations contradict them, unless they happen to agree.

    Only where no joint is left can they be found to agree without a factor that reveals ranks.
    """

    n: int
    k: int

    def solve(self, b: Array, gamma: Array) -> kkt.Solution:
        return kkt.Solution(zeros(self.n, *b.shape[1:]), zeros(self.k, *gamma.shape[1:]))

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return [(kkt.ROWS, -1)]


def _row_margins(kind: ClusterKind, block: kkt.Factored, A: Array) -> list[Any]:
    """Margins of the pivots of rows (k, u), and of those that vanish beside their usual size."""
    sizes = [
        row @ row - PIVOT_TOLERANCE * usual
        for row, usual, soft in zip(A, kind.squares, kind.compliance, strict=True)
        if not soft
    ]
    return [*[margin for word, margin in block.margins(PIVOT_TOLERANCE) if word == kkt.ROWS], *sizes]


def _factorise(at: Clustered, links: Field, matrices: Field, masks: Field | None, among: Field) -> Field:
    """The pass inwards: a factor for every cluster."""

    def eliminate(
        ports: tuple[Any, ...],
        piece: ClusterPiece,
        links: tuple[Link, ...],
        A: Array,
        among: tuple[bool, ...],
        *masks: Array,
    ) -> tuple[tuple[Any, ...], Any]:
        mask = masks[0] if masks else None
        if not any(among):
            return eliminate_cluster(at, piece, ports, links, A, mask)
        kind = at.clusters.kinds[piece.word]
        factor, left = _factor_others(kind, links, ports, A, terms_of(kind, mask), among, revealed=False)
        own = factor.block.margins(PIVOT_TOLERANCE)
        doubts = [*[margin for _, margin in own], *_row_margins(kind, factor.block, factor.A[:, factor.others])]
        if at.reveals and any(fails(margin) for margin in doubts):
            factor, left = _factor_others(kind, links, ports, A, factor.terms, among, revealed=True)
        return handed_up(at, kind, left), factor

    nothing = (0,) * at.clusters.most_ports
    further = [] if masks is None else [masks]
    return at.sweep.gather(eliminate, nothing, at.pieces, links, matrices, among, *further)


def _factor_others(
    kind: ClusterKind,
    links: tuple[Link, ...],
    ports: tuple[Any, ...],
    A: Array,
    terms: RowTerms,
    among: tuple[bool, ...],
    *,
    revealed: bool,
) -> tuple[PrescribedFactor, Array]:
    """The factor of a cluster some of whose members are led, and P⁺ (6, 6) for its root body."""
    fixed = [i for own, chosen in zip(kind.slices, among, strict=True) if chosen for i in range(own.start, own.stop)]
    others = [i for i in range(kind.nv) if i not in fixed]
    loads, I_C, F, D = composite(kind, links, ports)
    on = terms.mask_rows(A)
    block = _block_of_others(kind, D[np.ix_(others, others)], on[:, others], terms, others, revealed=revealed)
    if kind.grounded:
        nothing = zeros(len(others), 6)
        return PrescribedFactor(fixed, others, loads, F, D, on, terms, block, None, nothing, revealed), zeros(6, 6)
    inverse = kkt.dagger(block, len(others), len(A))
    own = F[:, others]
    K = inverse.M @ own.T
    left = reduce_inertia(I_C, own, K)
    return PrescribedFactor(fixed, others, loads, F, D, on, terms, block, inverse, K, revealed), left


def _block_of_others(
    kind: ClusterKind, D: Array, A: Array, terms: RowTerms, others: list[int], *, revealed: bool
) -> kkt.Factored:
    """[D_uu A_uᵀ; A_u −C], factored. Routes that need inertias more than they must are not for joints that are led."""
    rigid = terms.corner is None
    if rigid and not revealed and len(A) == len(others):
        return kkt.led(D, A)
    if not others or (rigid and not revealed and len(A) > len(others)):
        return _Overruled(len(others), len(A))
    number = {i: k for k, i in enumerate(others)}
    order = [number[i] for i in kind.elimination if i in number]
    return factor_block("nullspace" if revealed else "augmented", D, A, terms, parents=(), order=order, doubtful=False)


def _move(at: Clustered, links: Field, factors: Field, standing: Field, given: Field, base: Any) -> Field:
    """The pass outwards: an :class:`ClusterOutcome` for every cluster."""

    def outwards(
        ports: tuple[Array, ...],
        piece: ClusterPiece,
        links: tuple[Link, ...],
        factor: Any,
        own: Any,
        given: tuple[Array, ...],
    ) -> tuple[tuple[Array, ...], ClusterOutcome]:
        kind = at.clusters.kinds[piece.word]
        root, effort = ports[kind.port], np.concatenate(given)
        if isinstance(factor, PrescribedFactor):
            x, effort[factor.fixed] = factor.move(kind, own, root)
        else:
            x, _ = factor.move(kind, links, own, root)
        qdd, below = move_members(at, kind, links, root, x)
        return below, ClusterOutcome(qdd, tuple(effort[part] for part in kind.slices))

    return at.sweep.scatter(outwards, of_world(at, base), at.pieces, links, factors, standing, given)
