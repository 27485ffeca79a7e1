"""Constraint embedding: the articulated recursion over a tree of clusters, with dagger terms in place of D⁻¹.

A cluster is one node of a tree (002, topics 10 and 11). Its joint space are the velocities of all joints inside, D
their inertia with everything that the cluster carries, and A its own rows, which feel none but these joints. Of the
block matrix [D Aᵀ; A −C] 000 gives the inverse blocks D†, A†, Λ†, also where D is singular, and the recursion of
:mod:`whippletree.tree.forward` runs unchanged with them:

    inwards    I_C, F, D of the cluster's bodies, with P⁺ of the clusters that they carry (a composite pass)
               P⁺ = I_C − F D† Fᵀ                 z⁺ = z_C + F (D† ε − A†ᵀ γ)             ε = τ − τ₀
    outwards   θ̈ = D† (ε − Fᵀ α) − A†ᵀ γ          λ = A† (ε − Fᵀ α) − Λ† γ,  f = −λ

with α the acceleration of the root body, F (6, n) the wrench on it that unit accelerations of the joints cause, and τ₀,
z_C the joint forces and the wrench on it at θ̈ = 0 and α = 0. So no independent coordinates have to be chosen, massless
links inside a cluster are exact, and redundant rows are what they are in 000. A cluster of a single joint without rows
takes the step of a tree, whose gain K has exact zeros and ones.

The passes are written against a :class:`~whippletree.tree.sweeps.Sweeper` over clusters: unrolled over concrete
clusters on any scalar, or as loops over clusters in a compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters.cluster_members import (
    Standing,
    composite,
    standing_forces,
    without_velocity_terms,
)
from whippletree.constraints.clusters.clustered_mechanism import (
    Clustered,
    handed_down,
    handed_up,
    moving_links,
    of_world,
    rows,
    still_links,
)
from whippletree.constraints.clusters.few_motions import MotionFactor, factor_motion
from whippletree.constraints.clusters.loop_clusters import ClusterKind, ClusterPiece
from whippletree.constraints.routes import (
    MASSLESS_TOLERANCE,
    PIVOT_TOLERANCE,
    RowTerms,
    factor_block,
    fails,
    rows_depend,
)
from whippletree.spatial import symmetric
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense
from whippletree.tree.skeleton import Place
from whippletree.tree.sweeps import Field, add

# --- inwards: what is left for each cluster ---------------------------------------------------------------------------


class JointFactor(NamedTuple):
    """A single joint without rows: what :mod:`whippletree.tree.forward` keeps of it."""

    K: Array
    D: linalg.LDLT
    rest: Array
    """P⁺ in the joint's own frame, (6, 6)."""

    def stand(
        self, kind: ClusterKind, links: tuple[Link, ...], on_ports: dict[int, Any], tau: Any, gamma: Array, base: Array
    ) -> tuple[Array, Standing]:
        (link,) = links
        z = zeros(len(link.H)) + link.b + on_ports.get(0, 0)
        epsilon = tau[0] - link.H.T @ z
        outwards = z + self.K @ epsilon + self.rest @ (zeros(len(link.H)) + link.a)
        return link.X.force(outwards - link.r), Standing(self.D.solve(epsilon), zeros(0))

    def move(self, kind: ClusterKind, links: tuple[Link, ...], own: Standing, root: Array) -> tuple[Array, Array]:
        above = links[0].X.motion(root) + links[0].a
        return own.x - self.K.T @ above, own.f

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return []  # single joints are a matter of the tree's pivots


class ClusterFactor(NamedTuple):
    """A cluster: its block matrix, factored, and how it feels the root body."""

    loads: tuple[Any, ...]
    """Inertia of each member with what the clusters on it add, seen at θ̈ = 0."""
    F: Array
    """(6, n)."""
    block: kkt.Factored
    inverse: kkt.Dagger | None
    """D† (n, n), A† (k, n) and Λ† (k, k); none where the root body is the world, and one right-hand side is all."""
    K: Array
    """D† Fᵀ, (n, 6); nothing where the root body is the world."""
    terms: RowTerms

    def solve(self, epsilon: Array, gamma: Array) -> kkt.Solution:
        """D† ε − A†ᵀ γ and the forces of the rows."""
        bias = self.terms.mask_rows(gamma)
        if self.inverse is None:
            return self.block.solve(epsilon, bias)
        D, A, Lambda = self.inverse
        return kkt.Solution(D @ epsilon - A.T @ bias, Lambda @ bias - A @ epsilon)

    def stand(
        self, kind: ClusterKind, links: tuple[Link, ...], on_ports: dict[int, Any], tau: Any, gamma: Array, base: Array
    ) -> tuple[Array, Standing]:
        return stand_with_rows(self, kind, links, on_ports, tau, gamma, base)

    def move(self, kind: ClusterKind, links: tuple[Link, ...], own: Standing, root: Array) -> tuple[Array, Array]:
        return move_with_rows(self, kind, own, root)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return self.block.margins(tolerance)


class Embedded(NamedTuple):
    """The block matrix of a mechanism, factored cluster by cluster: a :class:`whippletree.constraints.kkt.Factored`."""

    at: Clustered
    links: Field
    """Without their velocity terms: right-hand sides hold them already."""
    factors: Field

    def solve(self, b: Array, gamma: Array) -> kkt.Solution:
        if b.ndim == 1:
            return self._solve(b, gamma)
        columns = [self._solve(b[:, i], gamma[:, i]) for i in range(b.shape[1])]
        a, f = zeros(*b.shape), zeros(*gamma.shape)
        for i, found in enumerate(columns):
            a[:, i], f[:, i] = found
        return kkt.Solution(a, f)

    def _solve(self, b: Array, gamma: Array) -> kkt.Solution:
        at = self.at
        found = respond(at, self.links, self.factors, at.velocities(b), at.of_factored_rows(gamma), zeros(6))
        return kkt.Solution(at.join(accelerations_of(at, found)), at.join_factored(forces_of(at, found)))

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return [margin for own in self.factors for margin in own.margins(tolerance)]


def joint_pivots(factor: JointFactor | ClusterFactor | MotionFactor) -> Array:
    """Pivots of a single joint's inertia."""
    return factor.D.pivots if isinstance(factor, JointFactor) else zeros(0)


class ClusterBlocks(Protocol):
    """Maker of the block matrix of one cluster where the pivots of its own route fail."""

    def block(self, D: Array) -> tuple[kkt.Factored, RowTerms]:
        """The rank-revealing factor, and what is known of its rows, from D (n, n)."""


def factorise(
    at: Clustered,
    links: Field,
    matrices: Field,
    masks: Field | None = None,
    choose: Callable[..., str] | None = None,
    blocks: Field | None = None,
) -> Field:
    """The pass inwards: a factor for every cluster.

    Args:
        at: the clusters.
        links: a tuple for each cluster.
        matrices: A (k, n) of each cluster's factored rows.
        masks: 1 for rows that are on and 0 for others, cluster by cluster.
        choose: the route of a cluster from its kind, D and A; default: that of its kind.
        blocks: a :class:`ClusterBlocks` for each cluster, where ranks are revealed; default: of the factored rows.
    """

    def eliminate(
        ports: tuple[Any, ...], piece: ClusterPiece, links: tuple[Link, ...], A: Array, *rest: Any
    ) -> tuple[tuple[Any, ...], Any]:
        mask = None if masks is None else rest[0]
        return eliminate_cluster(at, piece, ports, links, A, mask, choose, None if blocks is None else rest[-1])

    nothing = (0,) * at.clusters.most_ports
    further = [field for field in (masks, blocks) if field is not None]
    return at.sweep.gather(eliminate, nothing, at.pieces, links, matrices, *further)


def eliminate_cluster(
    at: Clustered,
    piece: ClusterPiece,
    ports: tuple[Any, ...],
    links: tuple[Link, ...],
    A: Array,
    mask: Array | None,
    choose: Callable[..., str] | None = None,
    blocks: ClusterBlocks | None = None,
) -> tuple[tuple[Any, ...], Any]:
    """One step of the pass inwards: what a cluster hands to the one that carries it, and its factor."""
    kind = at.clusters.kinds[piece.word]
    if kind.is_joint:
        (link,) = links
        load = dense(link.M) + (dense(ports[0]) if kind.ports else 0)
        gain = JointFactor(*split_inertia(load, link.H, link.J))
        return handed_up(at, kind, link.X.inertia(gain.rest)), gain
    terms = terms_of(kind, mask)
    factor: Any
    factor, left = _factor_cluster(at, kind, links, ports, A, terms, choose)
    if at.reveals and any(fails(margin) for _, margin in cluster_margins(kind, factor, A)):
        factor, left = _reveal(kind, links, ports, A, terms, blocks)
    return handed_up(at, kind, left), factor


def terms_of(kind: ClusterKind, mask: Array | None) -> RowTerms:
    """Properties of a cluster's factored rows."""
    compliance, squares = (np.array(x, dtype=object) for x in (kind.compliance, kind.squares))
    return RowTerms(compliance, squares, mask)


def _factor_cluster(
    at: Clustered,
    kind: ClusterKind,
    links: tuple[Link, ...],
    ports: tuple[Any, ...],
    A: Array,
    terms: RowTerms,
    choose: Callable[..., str] | None,
) -> tuple[ClusterFactor | MotionFactor, Array]:
    """The factor of a cluster by the route of its kind, and P⁺ (6, 6) for its root body; zeros where that is the
    world, beyond which nothing can move."""
    if choose is None and at.routes[kind.word] == "motion":
        return factor_motion(kind, links, ports, A)
    loads, I_C, F, D = composite(kind, links, ports)
    on = terms.mask_rows(A)
    route = at.routes[kind.word] if choose is None else choose(kind, D, on)
    order, parents = kind.elimination, kind.velocity_parents
    block = factor_block(route, D, on, terms, parents=parents, order=order, doubtful=False)
    if kind.grounded:
        return ClusterFactor(loads, F, block, None, zeros(0, 6), terms), zeros(6, 6)
    inverse = kkt.dagger(block, kind.nv, len(A))
    K = inverse.M @ F.T
    return ClusterFactor(loads, F, block, inverse, K, terms), reduce_inertia(I_C, F, K)


class RevealedFactor(NamedTuple):
    """A cluster whose rows depend on each other at this configuration: the fields of a :class:`ClusterFactor`."""

    loads: tuple[Any, ...]
    F: Array
    block: kkt.Factored
    """Rank-revealing; rows that keep to a branch may have a bias of their own."""
    inverse: kkt.Dagger
    K: Array
    terms: RowTerms

    def solve(self, epsilon: Array, gamma: Array) -> kkt.Solution:
        """Accelerations and the forces of the rows where the root body does not accelerate."""
        return self.block.solve(epsilon, self.terms.mask_rows(gamma))

    def stand(
        self, kind: ClusterKind, links: tuple[Link, ...], on_ports: dict[int, Any], tau: Any, gamma: Array, base: Array
    ) -> tuple[Array, Standing]:
        return stand_with_rows(self, kind, links, on_ports, tau, gamma, base)

    def move(self, kind: ClusterKind, links: tuple[Link, ...], own: Standing, root: Array) -> tuple[Array, Array]:
        return move_with_rows(self, kind, own, root)

    def margins(self, tolerance: Any) -> list[kkt.Margin]:
        return self.block.margins(MASSLESS_TOLERANCE)


def stand_with_rows(
    factor: ClusterFactor | RevealedFactor,
    kind: ClusterKind,
    links: tuple[Link, ...],
    on_ports: dict[int, Any],
    tau: Any,
    gamma: Array,
    base: Array,
) -> tuple[Array, Standing]:
    """How a cluster answers while its root body does not accelerate, and the wrench (6,) that the root body feels.

    ``on_ports``: wrenches of the clusters on its members; ``base``: the acceleration of the world, of a cluster that
    stands on it.
    """
    forces, z = standing_forces(kind, links, factor.loads, on_ports, base)
    x, f = factor.solve(np.concatenate(tau) - np.concatenate(forces), gamma)
    return zeros(6) if kind.grounded else z + factor.F @ x, Standing(x, f)


def move_with_rows(
    factor: ClusterFactor | RevealedFactor, kind: ClusterKind, own: Standing, root: Array
) -> tuple[Array, Array]:
    """Accelerations (n,) and forces of the rows (k,) where the root body accelerates; the world does not."""
    if kind.grounded:
        return own.x, own.f
    assert factor.inverse is not None
    return own.x - factor.K @ root, own.f + factor.inverse.A @ (factor.F.T @ root)


def _reveal(
    kind: ClusterKind,
    links: tuple[Link, ...],
    ports: tuple[Any, ...],
    A: Array,
    terms: RowTerms,
    blocks: ClusterBlocks | None,
) -> tuple[RevealedFactor, Array]:
    """The rank-revealing factor of a cluster, and P⁺ (6, 6) for its root body."""
    loads, I_C, F, D = composite(kind, links, ports)
    if blocks is None:
        on = terms.mask_rows(A)
        block = factor_block("nullspace", D, on, terms, parents=(), order=(), doubtful=False)
    else:
        block, terms = blocks.block(D)
    inverse = kkt.dagger(kkt.without_branch_bias(block), kind.nv, len(terms.compliance))
    K = inverse.M @ F.T
    left = zeros(6, 6) if kind.grounded else reduce_inertia(I_C, F, K)
    return RevealedFactor(loads, F, block, inverse, K, terms), left


def reduce_inertia(I_C: Array, F: Array, K: Array) -> Array:
    """P⁺ = I_C − F D† Fᵀ, one triangle."""
    upper = zeros(6, 6)
    for i in range(6):
        for j in range(i, 6):
            upper[i, j] = I_C[i, j] - F[i] @ K[:, j]
    return symmetric(upper)


# --- and out again: how each cluster moves ----------------------------------------------------------------------------


class ClusterResponse(NamedTuple):
    """How a cluster answers: accelerations of its joints, a tuple of vectors, and the forces of its rows (k,)."""

    qdd: tuple[Array, ...]
    f: Array


def respond(at: Clustered, links: Field, factors: Field, tau: Field, gamma: Field, base: Any) -> Field:
    """Both passes with one right-hand side: a :class:`ClusterResponse` for every cluster.

    ``tau``: joint forces, tuples of vectors; ``gamma``: the bias of the factored rows; ``base``: the acceleration of
    the world. Velocity terms are those of the links.
    """

    standing = stand(at, links, factors, tau, gamma, base)

    def outwards(
        ports: tuple[Array, ...], piece: ClusterPiece, links: tuple[Link, ...], factor: Any, own: Standing
    ) -> tuple[tuple[Array, ...], ClusterResponse]:
        kind = at.clusters.kinds[piece.word]
        x, f = factor.move(kind, links, own, ports[kind.port])
        qdd, below = move_members(at, kind, links, ports[kind.port], x)
        return below, ClusterResponse(qdd, f)

    return at.sweep.scatter(outwards, of_world(at, base), at.pieces, links, factors, standing)


def stand(at: Clustered, links: Field, factors: Field, tau: Field, gamma: Field, base: Any) -> Field:
    """The pass inwards with one right-hand side: how every cluster answers while its root body does not accelerate."""

    def inwards(
        ports: tuple[Any, ...], piece: ClusterPiece, links: tuple[Link, ...], factor: Any, tau: Any, gamma: Array
    ) -> tuple[tuple[Any, ...], Standing]:
        kind = at.clusters.kinds[piece.word]
        on_ports = dict(zip(kind.ports, ports, strict=False))
        message, own = factor.stand(kind, links, on_ports, tau, gamma, base if kind.grounded else zeros(6))
        return handed_up(at, kind, message), own

    nothing = (0,) * at.clusters.most_ports
    return at.sweep.gather(inwards, nothing, at.pieces, links, factors, tau, gamma)


def move_members(
    at: Clustered, kind: ClusterKind, links: tuple[Link, ...], root: Array, x: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Accelerations x (n,) of a cluster's joints, joint by joint, and those of its ports for the clusters on them."""
    qdd = tuple(x[part] for part in kind.slices)
    alphas: list[Array] = []
    for k, parent in enumerate(kind.parents):
        above = root if parent < 0 else alphas[parent]
        alphas.append(links[k].X.motion(above) + links[k].a + links[k].H @ qdd[k])
    return qdd, handed_down(at, [alphas[k] for k in kind.ports])


def accelerations_of(at: Clustered, found: Field) -> Field:
    return at.sweep.map(lambda own: own.qdd, found)


def forces_of(at: Clustered, found: Field) -> Field:
    return at.sweep.map(lambda own: own.f, found)


def all_forces_of(at: Clustered, found: Field) -> Field:
    """With zeros for redundant rows."""

    def widen(piece: ClusterPiece, own: ClusterResponse) -> Array:
        kind = at.clusters.kinds[piece.word]
        f = zeros(kind.row_count)
        f[list(kind.kept)] = own.f
        return f

    return at.sweep.map(widen, at.pieces, found)


# --- the mechanism as a whole -----------------------------------------------------------------------------------------


class Push(NamedTuple):
    """An external wrench (6,) on a frame, in its axes and about its origin."""

    place: Place
    wrench: Array

    def on_members(self, at: Clustered, links: Field) -> Field:
        """The links with this wrench on the one that carries the frame."""
        node, pose = self.place

        def add_wrench(links: tuple[Link, ...], pushed: tuple[bool, ...], wrench: Array) -> tuple[Link, ...]:
            return tuple(
                link._replace(b=link.b - pose.force(wrench)) if on else link
                for link, on in zip(links, pushed, strict=True)
            )

        return at.sweep.map(add_wrench, links, at.among([node]), at.everywhere(self.wrench))


def solve(
    at: Clustered, masks: Field | None, q: Any, v: Any, tau: Any, t: Any, base: Array, push: Push | None = None
) -> tuple[Any, Any]:
    """Accelerations (nv,) and the forces of all rows (m,), by three passes; ``base``: acceleration of the world."""
    links = moving_links(at, q, v)
    links = links if push is None else push.on_members(at, links)
    own_rows = rows(at, links, q, v, t)
    factors = _trusted_factors(at, links, own_rows, masks)
    gamma = at.sweep.map(lambda own: own.of_factored_rows(own.bias()), own_rows)
    found = respond(at, links, factors, at.velocities(tau), gamma, base)
    return at.join(accelerations_of(at, found)), at.join_rows(all_forces_of(at, found))


def corrected_velocity(at: Clustered, masks: Field | None, q: Any, v: Any, factor: Any, t: Any) -> tuple[Any, Any]:
    """v − factor · A†ᵀ (A v + gₜ) of the rigid rows (nv,), and the impulses of all rows that cause the change."""
    links = moving_links(at, q, v)
    own_rows = rows(at, links, q, v, t)
    scales = at.everywhere(factor)
    values = at.sweep.map(lambda own, scale: own.of_factored_rows(own.velocity()) * scale, own_rows, scales)
    found = _correction(at, links, own_rows, values, masks)
    change = at.sweep.map(add, at.velocities(v), accelerations_of(at, found))
    return at.join(change), at.join_rows(all_forces_of(at, found))


def velocity_step(
    at: Clustered, masks: Field | None, q: Any, v: Any, tau: Any, h: Any, t: Any, base: Array
) -> tuple[Any, Any]:
    """v⁺ (nv,) and impulses p (m,) with M (v⁺ − v) = h (tau − c) + Aᵀ p and A v⁺ + gₜ = −C p.

    One factorisation answers twice: accelerations a with A a + γ = −C f, of which h a is taken; then what is left of
    the rows, A (v + h a) + gₜ = A v + gₜ − h (γ + C f).
    """
    links = moving_links(at, q, v)
    own_rows, steps = rows(at, links, q, v, t), at.everywhere(h)
    factors = _trusted_factors(at, links, own_rows, masks)
    gamma = at.sweep.map(lambda own: own.of_factored_rows(own.bias()), own_rows)
    found = respond(at, links, factors, at.velocities(tau), gamma, base)
    left = at.sweep.map(lambda own, bias, h: own.of_factored_rows(own.velocity()) - bias * h, own_rows, gamma, steps)
    nothing = at.sweep.map(lambda own: tuple(zeros(link.H.shape[1]) for link in own), links)
    rest = respond(at, at_rest(at, links), factors, nothing, left, zeros(6))

    def velocity_after(
        v: tuple[Array, ...], first: tuple[Array, ...], second: tuple[Array, ...], h: Any
    ) -> tuple[Array, ...]:
        return tuple(own + a * h + more for own, a, more in zip(v, first, second, strict=True))

    after = at.sweep.map(
        velocity_after, at.velocities(v), accelerations_of(at, found), accelerations_of(at, rest), steps
    )
    forces, impulses = all_forces_of(at, found), all_forces_of(at, rest)
    return at.join(after), at.join_rows(at.sweep.map(lambda f, p, h: f * h + p, forces, impulses, steps))


def closing_step(at: Clustered, masks: Field | None, q: Any, t: Any) -> Any:
    """−A†ᵀ g (nv,) of the rigid position rows."""
    links = still_links(at, q)
    own_rows = rows(at, links, q, None, t)
    values = at.sweep.map(lambda own: own.of_factored_rows(own.gaps()), own_rows)
    return at.join(accelerations_of(at, _correction(at, links, own_rows, values, masks)))


def _correction(at: Clustered, links: Field, own_rows: Field, values: Field, masks: Field | None) -> Field:
    """Motion that takes away ``values`` of factored rows; compliant rows are not closed, but feel their inertia 1/C."""

    def rigid(piece: ClusterPiece, values: Array) -> Array:
        soft = at.clusters.kinds[piece.word].compliance
        return np.asarray(values * np.array([0 if c else 1 for c in soft], dtype=object))

    factors = _trusted_factors(at, links, own_rows, masks)
    nothing = at.sweep.map(lambda own: tuple(zeros(link.H.shape[1]) for link in own), links)
    return respond(at, at_rest(at, links), factors, nothing, at.sweep.map(rigid, at.pieces, values), zeros(6))


def embed(at: Clustered, masks: Field | None, q: Any, t: Any) -> Embedded:
    """The block matrix of a mechanism, factored."""
    links = still_links(at, q)
    factors = _trusted_factors(at, links, rows(at, links, q, None, t), masks)
    return Embedded(at, at_rest(at, links), factors)


def mass_diagonal(at: Clustered, q: Any) -> Any:
    """diag M (nv,) of the tree, rotors included: composite inertias handed from cluster to cluster."""

    def lump(ports: tuple[Any, ...], piece: ClusterPiece, links: tuple[Link, ...]) -> tuple[tuple[Any, ...], Any]:
        kind = at.clusters.kinds[piece.word]
        _, I_C, _, D = composite(kind, links, ports)
        return handed_up(at, kind, I_C), tuple(np.diagonal(D)[own] for own in kind.slices)

    nothing = (0,) * at.clusters.most_ports
    return at.join(at.sweep.gather(lump, nothing, at.pieces, still_links(at, q)))


def at_rest(at: Clustered, links: Field) -> Field:
    """The links without their velocity terms."""
    return at.sweep.map(without_velocity_terms, links)


def _trusted_factors(at: Clustered, links: Field, own_rows: Field, masks: Field | None) -> Field:
    matrices = at.sweep.map(lambda own: own.jacobian(), own_rows)
    factors = factorise(at, links, matrices, masks)
    require_pivots(at, factors, matrices)
    return factors


def require_pivots(at: Clustered, factors: Field, matrices: Field) -> None:
    """Require all pivots, and rows that do not vanish here up to rounding."""

    def margins(piece: ClusterPiece, factor: Any, A: Array) -> list[kkt.Margin]:
        return cluster_margins(at.clusters.kinds[piece.word], factor, A)

    at.require(at.sweep.map(margins, at.pieces, factors, matrices), at.sweep.map(joint_pivots, factors))


def cluster_margins(kind: ClusterKind, factor: Any, A: Array) -> list[kkt.Margin]:
    """The margins of the pivots of one cluster, and of rows that vanish here up to rounding.

    Such a row has a pivot as large as its diagonal, so it is compared with its usual size; compliant rows may vanish.
    """
    if isinstance(factor, RevealedFactor):
        # where they depend on each other, rows that are redundant elsewhere are wanted too: a matter of the whole
        lacks_rows = len(factor.terms.compliance) < kind.row_count and rows_depend(factor.block, factor.terms)
        return [*factor.margins(PIVOT_TOLERANCE), *([(kkt.ROWS, -1.0)] if lacks_rows else [])]
    if isinstance(factor, MotionFactor):
        return factor.margins(PIVOT_TOLERANCE)
    sizes = [
        (kkt.ROWS, row @ row - PIVOT_TOLERANCE * usual)
        for row, usual, soft in zip(A, kind.squares, kind.compliance, strict=True)
        if not soft
    ]
    return [*factor.margins(PIVOT_TOLERANCE), *sizes]
