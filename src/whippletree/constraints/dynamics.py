"""Dynamics under constraints at one state: the block matrix of a mechanism, factored by the route that suits it.

    M a + c = τ + Aᵀ f          A a + γ = −C f

The route is chosen by :mod:`~whippletree.constraints.route_choice`. All but ``nullspace`` and ``block`` are free of
branches on values, so they compile; their margins are those of the evaluation. Where a margin fails, the reference
turns to ``nullspace`` (:mod:`whippletree.functions.reference`), which reveals ranks: dependent rows share their force
in the least-norm sense, and at a singular configuration the motion keeps to the branch that its velocity points along,
or, from rest, takes that of least constraint (:mod:`whippletree.constraints.singular.dead_points`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters import clustered_mechanism, embedding, singular_clusters
from whippletree.constraints.clusters.cluster_routes import unrolled_clusters
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.long_systems import front_elimination, recursive_dynamics
from whippletree.constraints.long_systems.node_rows import LongRows, sight_nodes
from whippletree.constraints.long_systems.recursive_dynamics import recursive
from whippletree.constraints.route_choice import (
    by_bodies,
    by_clusters,
    by_sweeps,
    require_bodies,
    require_clusters,
    whole_route,
)
from whippletree.constraints.routes import (
    MASSLESS_TOLERANCE,
    PIVOT_TOLERANCE,
    RANK_TOLERANCE,
    RowTerms,
    factor_block,
    rows_depend,
)
from whippletree.constraints.rows import Rows
from whippletree.constraints.singular.dead_points import (
    Dead,
    SystemRates,
    beside_rows,
    branch_of_least_constraint,
    branch_rows,
    is_at_rest,
    require_rest,
)
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.tree import inertia, inverse, kinematics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place
from whippletree.tree.sweeps import Field, add

DEPENDENT, MASSLESS, PRESCRIBED, UNMOVED = 0, 1, 2, 3
"""Numbers of the ways to fail, after the nodes of the tree in the margins of an evaluation: rows depend on each other,
a motion has no inertia, accelerations that were given leave rows that no other joint can meet, nothing moves some row
of a task."""


class Closed(NamedTuple):
    """The block matrix of a mechanism at one state, factored."""

    system: ConstraintSet
    kept: list[int]
    """Rows that were factored, among all rows."""
    rows: Rows
    A: Array
    """Of the factored rows, zeros where switched off, (k, nv)."""
    factor: kkt.Factored
    mask: Array | None
    """1 for factored rows that are on, 0 for those that are off, (k,); None if nothing can be switched."""

    def right(self, values: Array) -> Array:
        """A right-hand side of all rows (m, ...), for the factored ones: zero where switched off."""
        own = values[self.kept]
        return own if self.mask is None else (own.T * self.mask).T

    def right_of_rigid(self, values: Array) -> Array:
        """Values with zero for compliant rows: a correction does not close them, but feels their inertia 1/C."""
        kept = np.array([0 if self.system.compliance[i] else 1 for i in self.kept], dtype=object)
        return np.asarray((self.right(values).T * kept).T)

    def all_rows(self, f: Array) -> Array:
        """Numbers of the factored rows among zeros for the others, (m, ...)."""
        result = zeros(len(self.system.row_names), *f.shape[1:])
        result[self.kept] = f
        return result


def closed(
    m: Mechanism,
    links: Field,
    q: Array,
    v: Array | None,
    t: Any,
    active: Array | None,
    *,
    load: Array | None = None,
    M: Array | None = None,
    fixed_rows: bool = False,
) -> Closed:
    """Factor the block matrix.

    ``load``: τ − c (nv,) where the right-hand sides will be those of :func:`solve`, so that a singular configuration
    may be given the rows that keep to a branch. ``M``: the mass matrix (nv, nv), where it is known already.
    ``fixed_rows``: whether the independent rows are wanted in any case; else all rows are factored where these depend
    on each other.
    """
    system = constraint_set(m.tree.model)
    rows = system.rows(m, links, q, v, t)
    if m.route == "embedding":
        return _closed_by_clusters(m, system, rows, q, t, active)
    if m.route == "elimination" or (m.tree.model.nv > LONG_SYSTEM and by_bodies(m)):
        return _closed_by_bodies(m, system, links, rows, q, t, active)
    found = _closed_by(list(system.structure.independent), m, system, links, rows, active, M)
    if not fixed_rows and rows_depend(found.factor, row_terms(system, active, found.kept)):
        # rows that are redundant elsewhere may not be here
        found = _closed_by(list(range(len(system.row_names))), m, system, links, rows, active, M)
        if load is not None and v is not None:
            found = found._replace(factor=_on_branch(found, m, q, v, t, load))
    _require_pivots(m, found.factor)
    if m.route != "nullspace":
        A = found.A if found.mask is None else rows.jacobian()[found.kept]  # of rows that are switched off, too
        usual = row_terms(system, active, found.kept).squares
        _require_sizes(m, system, found.kept, [row @ row for row in A], usual)
    return found


def _closed_by(
    kept: list[int],
    m: Mechanism,
    system: ConstraintSet,
    links: Field,
    rows: Rows,
    active: Array | None,
    M: Array | None,
) -> Closed:
    """The block matrix with these rows."""
    terms = row_terms(system, active, kept)
    A = terms.mask_rows(rows.jacobian()[kept])
    return Closed(system, kept, rows, A, _factor_by_route(m, system, links, A, terms, M), terms.mask)


def _closed_by_clusters(
    m: Mechanism, system: ConstraintSet, rows: Rows, q: Array, t: Any, active: Array | None
) -> Closed:
    """The block matrix, factored cluster by cluster."""
    kept = list(system.structure.independent)
    terms = row_terms(system, active, kept)
    clusters, masks = clusters_and_rows(m, active)
    factor = embedding.embed(clusters, masks, q, t)
    return Closed(system, kept, rows, terms.mask_rows(rows.jacobian()[kept]), factor, terms.mask)


def _closed_by_bodies(
    m: Mechanism, system: ConstraintSet, links: Field, rows: Rows, q: Array, t: Any, active: Array | None
) -> Closed:
    """The block matrix, factored at body level."""
    require_bodies(system)
    kept = list(system.structure.independent)
    terms = row_terms(system, active, kept)
    factor = front_elimination.eliminate(m, system, links, q, t, terms.mask)
    _require_pivots(m, factor)
    return Closed(system, kept, rows, terms.mask_rows(rows.jacobian()[kept]), factor, terms.mask)


def row_terms(system: ConstraintSet, active: Array | None, kept: Sequence[int]) -> RowTerms:
    """Properties of some rows; a row that is redundant elsewhere has no typical size, and 1 in its place."""
    mask = system.mask(active)
    typical = dict(zip(system.structure.independent, system.structure.squares, strict=True))
    compliance = np.array([system.compliance[i] for i in kept], dtype=object)
    squares = np.array([typical.get(i, 1) for i in kept], dtype=object)
    return RowTerms(compliance, squares, None if mask is None else mask[list(kept)])


def _rigid_part(at: Closed) -> tuple[kkt.Factored, list[int]]:
    """The factor of the rigid rows, and which they are of the factored ones."""
    if isinstance(at.factor, kkt.Softened):
        return at.factor.rigid, at.factor.where[0]
    return at.factor, list(range(len(at.kept)))


def _on_branch(at: Closed, m: Mechanism, q: Array, v: Array, t: Any, load: Array) -> kkt.Factored:
    """The factor with rows that take the place of those that have vanished: along the velocity, or from rest."""
    factor, hard = _rigid_part(at)
    assert isinstance(factor, kkt.Nullspace)
    usual = sum(not at.system.compliance[i] for i in at.system.structure.independent)
    if len(v) - factor.basis.shape[1] >= usual:
        return at.factor  # other rows take the place of those that vanished: nothing is singular but their choice
    rates = SystemRates(m, at.system, [at.kept[i] for i in hard], q, t)
    y = factor.idle_rows() if at.mask is None else (factor.idle_rows().T * at.mask[hard]).T
    gamma = at.right(at.rows.bias())
    b = at.factor.load_vector(load, gamma) if isinstance(at.factor, kkt.Softened) else load
    beta = zeros(0)
    found = factor
    if not is_at_rest(v):
        B, beta, y = branch_rows(rates, y, v, float(sum(abs(x) for x in v)))
        B, beta = beside_rows(B, beta, factor, gamma[hard])
        found = kkt.nullspace(factor.M, np.concatenate([factor.A, B]), RANK_TOLERANCE) if len(B) else factor
    dead = Dead(found.M, b, found.basis, found.particular(np.concatenate([gamma[hard], beta])))
    chosen = branch_of_least_constraint(rates, m.tree.model, y, dead, moving=not is_at_rest(v))
    if chosen is not None:
        if chosen.others:
            m.remark(chosen.words(m.tree.model))
        B = found.basis.T
        beta = np.concatenate([beta, -(B @ chosen.a.astype(object))])
        found = kkt.nullspace(found.M, np.concatenate([found.A, B]), RANK_TOLERANCE)
    whole = kkt.Branched(found, beta) if len(beta) else found
    return at.factor._replace(rigid=whole) if isinstance(at.factor, kkt.Softened) else whole


def _factor_by_route(
    m: Mechanism, system: ConstraintSet, links: Field, A: Array, terms: RowTerms, M: Array | None
) -> kkt.Factored:
    """By the mechanism's route, or by the one that its masses call for; A has zeros for rows that are off."""
    route = m.route or whole_route(m, system)
    if route == "recursion":
        return recursive(m, links, A, terms.corner)
    M = inertia.mass_matrix(m.tree, m.sweep, links) if M is None else M
    order = system.elimination if route == "augmented" else range(len(M))
    parents, doubtful = m.tree.velocity_parents, bool(m.tree.doubtful)
    return factor_block(route, M, A, terms, parents=parents, order=order, doubtful=doubtful)


def _require_pivots(m: Mechanism, factor: kkt.Factored) -> None:
    tolerance = MASSLESS_TOLERANCE if m.route == "nullspace" else PIVOT_TOLERANCE
    number = {kkt.ROWS: DEPENDENT, kkt.MASS: MASSLESS}
    for kind, margin in factor.margins(tolerance):
        m.require(len(m.tree.nodes) + number[kind], [margin])


def _require_sizes(m: Mechanism, system: ConstraintSet, kept: Sequence[int], sizes: Any, usual: Array) -> None:
    """A row that vanishes here, up to rounding, has a pivot as large as its diagonal: compare with its usual size.

    Compliant rows may vanish: they feel their own inertia.
    """
    number = len(m.tree.nodes) + DEPENDENT
    found = zip(kept, sizes, usual, strict=True)
    m.require(number, [own - PIVOT_TOLERANCE * size for i, own, size in found if not system.compliance[i]])


def solve(m: Mechanism, q: Array, v: Array, tau: Array, t: Any, active: Array | None) -> tuple[Array, Array]:
    """Accelerations (nv,) and the forces of all rows (m,); rows that were left out carry none."""
    if by_clusters(m):
        clusters, masks = clusters_and_rows(m, active)
        if m.reveals:
            assert isinstance(clusters, clustered_mechanism.UnrolledClusters)
            return singular_clusters.solve(clusters, masks, q, v, tau, t, m.base, active)
        return embedding.solve(clusters, masks, q, v, tau, t, m.base)
    if by_sweeps(m):
        system = constraint_set(m.tree.model)
        chosen = _choose_rows(system, active)
        found = recursive_dynamics.solve(m, system, q, v, tau, t, chosen)
        return m.join(found.a), _forces_of_rows(m, system, chosen, found)
    links = m.moving(q, v)
    b = tau - bias_forces(m, links)
    at = closed(m, links, q, v, t, active, load=b)
    a, f = at.factor.solve(b, at.right(at.rows.bias()))
    if isinstance(at.factor, kkt.Nullspace | kkt.Branched) and at.system.structure.stuck:
        require_rest(at.system, v, b, at.factor.basis)
    return a, at.all_rows(f)


def pushed_accelerations(
    m: Mechanism, q: Array, v: Array, tau: Array, place: Place, wrench: Array, t: Any, active: Array | None
) -> Array:
    """Accelerations (nv,) while an external wrench (6,) acts on a frame, in its axes and about its origin."""
    if by_clusters(m) and not m.reveals and not m.tree.model.is_flexible:
        at, masks = clusters_and_rows(m, active)
        found: Array = embedding.solve(at, masks, q, v, tau, t, m.base, embedding.Push(place, wrench))[0]
        return found
    return solve(m, q, v, tau + kinematics.jacobian(m.tree, m.still(q), place).T @ wrench, t, active)[0]


def mass_diagonal(m: Mechanism, q: Any) -> Any:
    """diag M (nv,) of the tree; over clusters where there is no sweep over bodies."""
    if m.clustered is not None:
        return embedding.mass_diagonal(m.clustered, q)
    return m.join(inertia.mass_diagonal(m.sweep, m.still(q)))


def clustered_rows(m: Mechanism, q: Any, v: Any, t: Any) -> clustered_mechanism.JoinedRows:
    """The rows of a mechanism that is a tree of clusters; without v, their residuals."""
    return clustered_mechanism.JoinedRows(m.clustered, q, v, t)


def clusters_and_rows(m: Mechanism, active: Array | None) -> tuple[clustered_mechanism.Clustered, Field | None]:
    """The clusters of a mechanism, and which of their rows are on."""
    system = constraint_set(m.tree.model)
    require_clusters(system)
    at = m.clustered if m.clustered is not None else unrolled_clusters(m, system)
    mask = system.mask(active)
    return at, None if mask is None else at.of_factored_rows(mask[list(system.structure.independent)])


def _choose_rows(system: ConstraintSet, active: Array | None) -> recursive_dynamics.Chosen:
    kept = list(system.structure.independent)
    mask = system.mask(active)
    on = np.ones(len(kept), dtype=int).astype(object) if mask is None else mask[kept]
    compliance = np.array([system.compliance[i] for i in kept], dtype=object)
    return recursive_dynamics.Chosen(kept, compliance * on + (1 - on), on)


def _forces_of_rows(
    m: Mechanism, system: ConstraintSet, chosen: recursive_dynamics.Chosen, found: recursive_dynamics.LongSolution
) -> Array:
    """The forces of all rows (m,); what it rests on is required."""
    kept = chosen.kept
    number = len(m.tree.nodes) + DEPENDENT
    pivots = zip(found.complement.pivots, found.diagonal, strict=True)
    m.require(number, [pivot - PIVOT_TOLERANCE * d for pivot, d in pivots])
    # rows that are off have 1 there, which says nothing of their size
    usual = recursive_dynamics.typical_diagonal(system)
    _require_sizes(m, system, kept, found.diagonal * chosen.on + (1 - chosen.on) * usual, usual)
    f = zeros(len(system.row_names))
    f[kept] = found.f
    return f


def bias_forces(m: Mechanism, links: Field) -> Array:
    """c (nv,), of links in motion."""
    return m.join(inverse.bias_forces(m.sweep, links, m.base))


def least_norm_forces(
    m: Mechanism, q: Array, v: Array, tau: Array, weights: Array, t: Any, active: Array | None
) -> Array:
    """The forces of all rows, redundant ones too, with the same effect and the least Σ wᵢ fᵢ².

    With A = K A₁ for the factored rows A₁, K = A A₁†ᵀ, and Kᵀ f = f₁ has the least-norm solution W⁻¹ K (Kᵀ W⁻¹ K)⁻¹ f₁.
    A compliant row yields to its own force, so it keeps that.
    """
    links = m.moving(q, v)
    at = closed(m, links, q, v, t, active)
    f = at.factor.solve(tau - bias_forces(m, links), at.right(at.rows.bias())).f
    k = len(at.kept)
    spread = at.factor.solve(zeros(m.tree.model.nv, k), -identity(k)).a
    A = at.rows.jacobian()
    mask = at.system.mask(active)
    K = (A if mask is None else (A.T * mask).T) @ spread
    for own, row in enumerate(at.kept):
        if at.system.compliance[row]:
            K[row] = identity(k)[own] * (1 if at.mask is None else at.mask[own])
    scaled = (K.T / weights).T
    gram = K.T @ scaled
    if at.mask is not None:
        gram = gram + np.diag(1 - at.mask)
    factor = linalg.ldlt(gram, lenient=True)
    if m.route == "nullspace":  # which allows rows that depend on each other: their forces are not those of A alone
        number, diagonal = len(m.tree.nodes) + DEPENDENT, np.diagonal(gram)
        m.require(number, [d - PIVOT_TOLERANCE * own for d, own in zip(factor.pivots, diagonal, strict=True)])
    return np.asarray(scaled @ factor.solve(f))


def dagger(m: Mechanism, q: Array, t: Any, active: Array | None) -> kkt.Dagger:
    """M†, A†, Λ† of the factored rows."""
    at = closed(m, m.still(q), q, None, t, active, fixed_rows=True)
    return kkt.dagger(at.factor, m.tree.model.nv, len(at.kept))


def orthonormal_motions(m: Mechanism, q: Array, t: Any) -> Array:
    """Q₂ (nv − k, nv): orthonormal rows that span the motions which all k independent rows allow."""
    system = constraint_set(m.tree.model)
    kept = list(system.structure.independent)
    A = system.rows(m, m.still(q), q, None, t).jacobian()[kept]
    found = linalg.orthonormal_complement(A)
    squares = [row @ row for row in A]
    number = len(m.tree.nodes) + DEPENDENT
    pairs = zip(found.remainders, squares, strict=True)
    m.require(number, [left - PIVOT_TOLERANCE * square for left, square in pairs])
    _require_sizes(m, system, kept, squares, row_terms(system, None, kept).squares)
    return found.Q2


def corrected_velocity(
    m: Mechanism, q: Array, v: Array, factor: Any, t: Any, active: Array | None
) -> tuple[Array, Array]:
    """v − factor · A†ᵀ (A v + gₜ) of the rigid rows (nv,), and the impulses of all rows that cause the change."""
    if by_clusters(m):
        clusters, masks = clusters_and_rows(m, active)
        return embedding.corrected_velocity(clusters, masks, q, v, factor, t)
    if by_sweeps(m):
        system, links = constraint_set(m.tree.model), m.moving(q, v)
        rows = LongRows(m, system, sight_nodes(m, links), q, v, t)
        found, impulses = _long_correction(m, links, rows, factor * rows.velocity(), active)
        return m.join(m.sweep.map(add, m.velocities(v), found)), impulses
    at = closed(m, m.moving(q, v), q, v, t, active)
    change, impulses = at.factor.solve(zeros(m.tree.model.nv), factor * at.right_of_rigid(at.rows.velocity()))
    return v + change, at.all_rows(impulses)


def velocity_step(
    m: Mechanism, q: Array, v: Array, tau: Array, h: Any, t: Any, active: Array | None
) -> tuple[Array, Array]:
    """v⁺ (nv,) and the impulses p of all rows: M (v⁺ − v) = h (tau − c) + Aᵀ p, A v⁺ + gₜ = 0."""
    if by_clusters(m):
        return embedding.velocity_step(*clusters_and_rows(m, active), q, v, tau, h, t, m.base)
    links = m.moving(q, v)
    if by_sweeps(m):
        return _long_velocity_step(m, links, q, v, tau, h, t, active)
    at = closed(m, links, q, v, t, active)
    b = h * (tau - bias_forces(m, links))
    change, impulses = at.factor.solve(b, at.right(at.rows.velocity()))
    return v + change, at.all_rows(impulses)


def closing_step(m: Mechanism, q: Array, t: Any, active: Array | None) -> Array:
    """−A†ᵀ g (nv,) of the rigid position rows."""
    if by_clusters(m):
        step: Array = embedding.closing_step(*clusters_and_rows(m, active), q, t)
        return step
    system, links = constraint_set(m.tree.model), m.still(q)
    gaps = zeros(len(system.row_names))
    if by_sweeps(m):
        rows = LongRows(m, system, sight_nodes(m, links), q, None, t)
        gaps[list(system.position_rows)] = rows.residual()
        return m.join(_long_correction(m, links, rows, gaps, active)[0])
    at = closed(m, links, q, None, t, active)
    gaps[list(system.position_rows)] = at.rows.residual()
    return at.factor.solve(zeros(m.tree.model.nv), at.right_of_rigid(gaps)).a


def _long_velocity_step(
    m: Mechanism, links: Field, q: Array, v: Array, tau: Array, h: Any, t: Any, active: Array | None
) -> tuple[Array, Array]:
    """By sweeps: h times the accelerations, with A a + γ = −C f, and what takes the rest of the rows away."""
    system = constraint_set(m.tree.model)
    chosen = _choose_rows(system, active)
    found = recursive_dynamics.solve(m, system, q, v, tau, t, chosen)
    rows = LongRows(m, system, sight_nodes(m, links), q, v, t)
    left = (rows.velocity() - h * rows.bias())[chosen.kept]
    rest = recursive_dynamics.correct(m, links, rows, left, chosen)
    after = m.sweep.map(lambda v, a, more, h: v + a * h + more, m.velocities(v), found.a, rest.a, m.everywhere(h))
    return m.join(after), h * _forces_of_rows(m, system, chosen, found) + _forces_of_rows(m, system, chosen, rest)


def _long_correction(
    m: Mechanism, links: Field, rows: LongRows, values: Array, active: Array | None
) -> tuple[Field, Array]:
    """Motion that ends ``values`` (m,) of the rigid rows, joint by joint, and the impulses of all rows that do it."""
    system = constraint_set(m.tree.model)
    chosen = _choose_rows(system, active)
    rigid = np.array([0 if system.compliance[i] else 1 for i in chosen.kept], dtype=object)
    found = recursive_dynamics.correct(m, links, rows, values[chosen.kept] * rigid, chosen)
    return found.a, _forces_of_rows(m, system, chosen, found)
