"""The catalogue's functions about constraints: rows, the block matrix and its inverse, projection, impact, reactions.

Signs (docs/notation.md): M a + c = τ + Aᵀ f, and f is what the constraints apply to the system. Rows are in the order
of the model's constraints; ``constraint_set(model).row_names`` names them. Rows that are redundant by structure are
left out of every factorisation: they carry no force unless ``constraint_forces_least_norm`` is asked.

``wt.reaction_names(model)`` names the entries of reactions: all joints in the model's order, welds included, then all
closures. Each reaction is a moment and a force, (6,), N m and N:

* of a joint: from the parent on the child, about the origin and in the axes of the child's body frame, which lies at
  the joint. Along the joint's freedoms it is the joint force, with what couplings add and less what turns the rotor.
* of a closure: from the first frame on the second, about the origin and in the axes of the second frame.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic import condition, linalg, scalars
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.constraints import constrained_derivatives, dynamics, kkt, reactions
from whippletree.constraints.clusters.clustered_mechanism import JoinedRows
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.node_rows import LongRows, holds_few, sight_nodes
from whippletree.constraints.rows import Rows
from whippletree.errors import UnsupportedError
from whippletree.functions.registry import function
from whippletree.functions.tree_functions import forward_dynamics
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism


@function(residual=("positions",), loops=True, constraints="needs")
def constraint_residual(m: Mechanism, q: Array, t: Any = 0) -> Array:
    """g (positions,): the residuals of all rows that have a position, m or rad. Rows that are switched off are
    included."""
    return _rows(m, q, None, t).residual()


@function(jacobian=("rows", "nv"), constraints="needs")
def constraint_jacobian(m: Mechanism, q: Array, t: Any = 0) -> Array:
    """A (rows, nv): of all rows, redundant and switched ones too."""
    return constraint_set(m.tree.model).rows(m, m.still(q), q, None, t).jacobian()


@function(velocity=("rows",), loops=True, constraints="needs")
def constraint_velocity(m: Mechanism, q: Array, v: Array, t: Any = 0) -> Array:
    """A v + ∂g/∂t (rows,): zero for a velocity that the constraints allow."""
    return _rows(m, q, v, t).velocity()


@function(bias=("rows",), loops=True, constraints="needs")
def constraint_bias(m: Mechanism, q: Array, v: Array, t: Any = 0) -> Array:
    """γ = Ȧ v and time terms (rows,): what A a must balance."""
    return _rows(m, q, v, t).bias()


def _rows(m: Mechanism, q: Array, v: Array | None, t: Any) -> Rows | LongRows | JoinedRows:
    """The rows at a state; of long systems, from the nodes that they hold on to, or cluster by cluster."""
    if m.clustered is not None:
        return dynamics.clustered_rows(m, q, v, t)
    system = constraint_set(m.tree.model)
    links = m.still(q) if v is None else m.moving(q, v)
    if holds_few(m.tree.model):
        return LongRows(m, system, sight_nodes(m, links), q, v, t)
    return system.rows(m, links, q, v, t)


@function(f=("rows",), loops=True, constraints="needs", may_fail=True)
def constraint_forces(m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None) -> Array:
    """f (rows,) with M a + c = tau + Aᵀ f; zero for redundant rows and for those that are switched off."""
    return dynamics.solve(m, q, v, tau, t, active)[1]


@function(dq=("rows", "nv"), dv=("rows", "nv"), dtau=("rows", "nv"), constraints="needs", may_fail=True)
def constraint_forces_derivatives(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array, Array]:
    """∂f/∂q, ∂f/∂v, ∂f/∂τ (rows, nv) of ``constraint_forces``; q moves in the tangent space, ∂f/∂τ is −A†."""
    found = constrained_derivatives.derivatives(m, q, v, tau, t, active)
    return found.dq.f, found.dv.f, found.dtau.f


@function(f=("rows",), constraints="needs", may_fail=True)
def constraint_forces_least_norm(
    m: Mechanism, q: Array, v: Array, tau: Array, weights: Array, t: Any = 0, active: Any = None
) -> Array:
    """f (rows,) over all rows, redundant ones too, with the same Aᵀ f and the least Σ wᵢ fᵢ².

    The weights (rows,) are positive and settle how newtons and newton metres compare: a weight of 1/L² on rows in N m
    makes a moment count as a force on an arm L.
    """
    return dynamics.least_norm_forces(m, q, v, tau, weights, t, active)


@function(
    M_dagger=("nv", "nv"),
    A_dagger=("independent", "nv"),
    Lambda_dagger=("independent", "independent"),
    constraints="needs",
    may_fail=True,
)
def dagger(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> tuple[Array, Array, Array]:
    """M† (nv, nv), A† (k, nv), Λ† (k, k): the blocks of [M Aᵀ; A −C]⁻¹ (000 eq. 5), for the k independent rows.

    They exist for massless links too. The multiplier of the document is λ = −f.
    """
    blocks = dynamics.dagger(m, q, t, active)
    return blocks.M, blocks.A, blocks.Lambda


@function(pseudo_inverse=("nv", "rows"), constraints="needs", may_fail=True)
def weighted_pseudo_inverse(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """A# = A†ᵀ (nv, rows): A# w is the velocity of least kinetic energy at which the rows move with w (001 eq. 13).

    A A# A = A. Columns of redundant rows, and of those that are switched off, are zero.
    """
    _refuse_compliance(m, "weighted_pseudo_inverse")
    at = dynamics.closed(m, m.still(q), q, None, t, active)
    return at.all_rows(kkt.dagger(at.factor, m.tree.model.nv, len(at.kept)).A).T


@function(projector=("nv", "nv"), constraints="needs", may_fail=True)
def null_projector(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """1 − A# A = M† M (nv, nv): the part of a velocity that the constraints allow (001 eq. 14)."""
    M, inverse = _mass_and_dagger(m, "null_projector", q, t, active)
    return np.asarray(inverse @ M)


@function(projector=("nv", "nv"), constraints="needs", may_fail=True)
def schur_projector(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """P_S = M M† = 1 − Aᵀ A† (nv, nv): P_S (M a + c − τ) = 0 holds without constraint forces (001 eq. 10)."""
    M, inverse = _mass_and_dagger(m, "schur_projector", q, t, active)
    return np.asarray(M @ inverse)


@function(projector=("freedoms", "nv"), constraints="needs", may_fail=True)
def qr_projector(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """P_QR (d, nv), orthonormal rows with P_QR Aᵀ = 0: the balance of forces in as many equations as there are
    freedoms (001 eq. 19). It does not depend on the masses; a basis is not unique, and this one may jump in sign.
    """
    _refuse_switches(m, "qr_projector")
    _refuse_compliance(m, "qr_projector")
    return dynamics.orthonormal_motions(m, q, t)


def _mass_and_dagger(m: Mechanism, name: str, q: Array, t: Any, active: Any) -> tuple[Array, Array]:
    """M and M†, (nv, nv) each."""
    _refuse_compliance(m, name)
    links = m.still(q)
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    at = dynamics.closed(m, links, q, None, t, active, M=M)
    return M, kkt.dagger(at.factor, m.tree.model.nv, len(at.kept)).M


def _refuse_compliance(m: Mechanism, name: str) -> None:
    system = constraint_set(m.tree.model)
    soft = dict.fromkeys(c.constraint.name for c in system.demands if c.constraint.parameters.get("compliance", 0))
    if soft:
        raise UnsupportedError(
            f"{name}: {', '.join(map(repr, soft))} of model {m.tree.model.name!r} yield (compliance=), so no motion is "
            f"forbidden to be projected away: use dagger, which feels them"
        )


@function(v=("nv",), loops=True, constraints="needs", may_fail=True)
def project_velocity(m: Mechanism, q: Array, v: Array, t: Any = 0, active: Any = None) -> Array:
    """v − A†ᵀ (A v + ∂g/∂t) (nv,): the velocity that the constraints allow at the least kinetic energy of the
    change."""
    return dynamics.corrected_velocity(m, q, v, 1, t, active)[0]


@function(v=("nv",), constraints="needs")
def relaxed_velocity(m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0) -> Array:
    """v + Z Γ⁻¹ Zᵀ tau (nv,): the velocity at which the dampers of relaxed massless motions balance tau.

    ``tau`` is the whole joint force at v, passive forces included; see :mod:`whippletree.constraints.massless_rows`.
    """
    return np.asarray(v + constraint_set(m.tree.model).rows(m, m.still(q), q, v, t).relaxation(tau))


@function(d=("nv",), loops=True, constraints="needs", may_fail=True)
def closing_step(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """−A†ᵀ g (nv,): the displacement of least kinetic energy that closes the position rows to first order.

    q ⊕ d (``integrate``), repeated, brings a configuration back onto the constraints; rows at velocity level do not
    move.
    """
    return dynamics.closing_step(m, q, t, active)


@function(v=("nv",), impulses=("rows",), loops=True, constraints="needs", may_fail=True)
def impact(m: Mechanism, q: Array, v: Array, restitution: Any, t: Any = 0, active: Any = None) -> tuple[Array, Array]:
    """v⁺ = v − (1 + e) A†ᵀ A v (nv,) and the impulses p (rows,), M (v⁺ − v) = Aᵀ p, when constraints meet a velocity.

    Newton's law at all active rigid rows at once; e = 0 is plastic.
    """
    return dynamics.corrected_velocity(m, q, v, 1 + restitution, t, active)


@function(v=("nv",), impulses=("rows",), loops=True, constraints="needs", may_fail=True)
def velocity_step(
    m: Mechanism, q: Array, v: Array, tau: Array, h: Any, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """v⁺ (nv,) and impulses p (rows,) of one step at velocity level: M (v⁺ − v) = h (tau − c) + Aᵀ p, A v⁺ = 0 (003).

    Step 4 of document 003: A M⁻¹ Aᵀ p = −A M⁻¹ (M v + h (tau − c)), by solves; its step 5 has the wrong sign.
    """
    return dynamics.velocity_step(m, q, v, tau, h, t, active)


@function(delassus=("independent", "independent"), constraints="needs", may_fail=True)
def delassus(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """A M⁻¹ Aᵀ (k, k) of the independent rows, without forming M⁻¹; needs every motion of the tree to have inertia."""
    links = m.still(q)
    m.require_invertible(links)
    at = dynamics.closed(m, links, q, None, t, active, fixed_rows=True)
    factor = linalg.tree_ltdl(inertia.mass_matrix(m.tree, m.sweep, links), m.tree.velocity_parents, lenient=True)
    return np.asarray(at.A @ factor.solve(at.A.T))


@function(block=(), schur=(), constraints="needs")
def block_condition_numbers(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> tuple[Any, Any]:
    """κ₂ of the block matrix [M Aᵀ; A −C] of the independent rows, and of A M⁻¹ Aᵀ + C.

    The second is infinite where a motion of the tree has no inertia, whatever the constraints do about it.
    """
    links = m.still(q)
    system = constraint_set(m.tree.model)
    kept = list(system.structure.independent)
    A, mask = system.rows(m, links, q, None, t).jacobian()[kept], system.mask(active)
    C = np.array([system.compliance[i] for i in kept], dtype=object)
    if mask is not None:  # a row that is off has zeros in A and a one in the corner
        on = mask[kept]
        A, C = (A.T * on).T, C * on + (1 - on)
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    corner = np.diag(C)
    block = condition.condition_number(np.block([[M, A.T], [A, -corner]]), definite=False)
    factor = linalg.tree_ltdl(M, m.tree.velocity_parents, lenient=True)
    schur: Any = condition.condition_number(A @ factor.solve(A.T) + corner, definite=True)
    for pivot in factor.pivots:
        schur = scalars.select(scalars.less(0, pivot), schur, math.inf + pivot)
    return block, schur


@function(inertia=("independent", "independent"), constraints="needs", may_fail=True)
def apparent_inertia(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """−Λ† (k, k): the inertia that the independent rows feel; (A M⁻¹ Aᵀ)⁻¹ where M⁻¹ exists."""
    return np.asarray(-dynamics.dagger(m, q, t, active).Lambda)


@function(M=("freedoms", "freedoms"), constraints="needs", may_fail=True)
def reduced_mass_matrix(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """Bᵀ M B (d, d) in minimal coordinates, v = B v[free]; ``constraint_set(model).free`` are these velocities.

    The block of M† that belongs to them is its inverse, also for massless links.
    """
    _refuse_switches(m, "reduced_mass_matrix")
    free = list(constraint_set(m.tree.model).free)
    block = dynamics.dagger(m, q, t, active).M[np.ix_(free, free)]
    return linalg.ldlt(block, lenient=True).solve(identity(len(free)))


@function(B=("nv", "freedoms"), constraints="needs", may_fail=True)
def allowed_motions(m: Mechanism, q: Array, t: Any = 0, active: Any = None) -> Array:
    """B (nv, d) with A B = 0 and B = 1 at the minimal coordinates: all velocities that the constraints allow, v = B
    v[free]."""
    _refuse_switches(m, "allowed_motions")
    free = list(constraint_set(m.tree.model).free)
    M = dynamics.dagger(m, q, t, active).M
    if not free:
        return zeros(m.tree.model.nv, 0)
    return linalg.ldlt(M[np.ix_(free, free)], lenient=True).solve(M[free]).T


def _refuse_switches(m: Mechanism, name: str) -> None:
    switches = constraint_set(m.tree.model).switches
    if switches:
        raise UnsupportedError(
            f"{name}: the number of minimal coordinates changes when {', '.join(map(repr, switches))} are switched: "
            f"use dagger, whose M† has a fixed size"
        )


# --- reactions: what every joint and every closure carries ------------------------------------------------------------


_function_of_reactions = function(
    reactions=("reactions", 6),
    determined=("reactions", 6),
    may_fail=True,
    constraints="honours",
    linear="determinate",
)
"""Enters a function into the catalogue that returns the reactions in joints and closures."""


@_function_of_reactions
def joint_reactions(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """Moment and force (reactions, 6) in every joint and closure, also inside loops, and which of them statics
    determines (reactions, 6): 1 or 0.

    On the child, about the origin and in the axes of its body frame; of a closure, on its second frame, in that frame.
    ``wt.reaction_names(model)`` names the entries. Redundant constraints leave some components open (of a planar
    four-bar with hinges 12 of 20): of these the least Σ r² is returned, 1 N m counted as 1 N;
    ``joint_reactions_with_weights`` takes other weights. ``tau`` is the whole joint force: add ``passive_forces`` for
    springs and dampers. Tendons, fluids and held-up weight of the model load the bodies that they act on; for contacts,
    and actuators of tendons and frames, ``joint_reactions_of_motion`` takes wrenches.
    """
    return _reactions(m, q, v, tau, None, t, active)


@_function_of_reactions
def joint_reactions_with_weights(
    m: Mechanism, q: Array, v: Array, tau: Array, reaction_weights: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """``joint_reactions`` where those with the least Σ wᵢ rᵢ² are taken of what statics leaves open.

    The weights (reactions, 6) are positive: a small one where a joint is stiff and takes more than its share, 1/L² for
    moments that count as forces on an arm L.
    """
    return _reactions(m, q, v, tau, reaction_weights, t, active)


@_function_of_reactions
def joint_reactions_of_motion(
    m: Mechanism, q: Array, v: Array, a: Array, f: Array, wrenches: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """``joint_reactions`` of a motion whose accelerations a, constraint forces f (rows,) and external loads are known.

    The wrenches (bodies, 6) act on the bodies from outside: contacts, a payload, ``actuator_wrenches``; gravity,
    tendons and fluids are the model's. They are moments and forces about the origin and in the axes of each body's
    frame.
    """
    found = reactions.joint_reactions(m, q, v, a, f, None, t, active, wrenches)
    return found.wrenches, found.determined


def _reactions(
    m: Mechanism, q: Array, v: Array, tau: Array, weights: Array | None, t: Any, active: Any
) -> tuple[Array, Array]:
    if m.tree.model.constraints:
        a, f = dynamics.solve(m, q, v, tau, t, active)
    else:
        a, f = forward_dynamics(m, q, v, tau), zeros(0)
    found = reactions.joint_reactions(m, q, v, a, f, weights, t, active)
    return found.wrenches, found.determined
