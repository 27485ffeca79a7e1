"""The executable theory: each equation of document 002 as a line of code on block operators, for any tree of blocks.

Document 002 closes the account of serial chains and opens that of trees; the equations it recalls are derived in the
lessons before it and in Jain, *Robot and Multibody Dynamics* (2011), chapters 4 to 10. They read the same here:

    letter     rows × columns     meaning
    E_phi      bodies × bodies    φ(℘(k), k) at (parent, child), a block-weighted adjacency matrix; nilpotent
    phi        bodies × bodies    φ = (1 − E_φ)⁻¹, its 1-resolvent: φ x is a gather, φ* x a scatter; never formed
    H          joints × bodies    joint forces of inter-body wrenches, T = H f; H* has the motions as columns
    M          bodies × bodies    inertias, one block per body
    J          joints × joints    rotor inertias; not in the document, added wherever 𝓜 or D is
    a, b       bodies             acceleration at θ̈ = 0 and wrench at α = 0, from velocities, gravity, external
                                  wrenches
    R, P       bodies × bodies    composite and articulated inertias: the Lyapunov and the Riccati equation
    D, G, K    (joints, bodies)   D = H P H* + J, gain G = P H* D⁻¹, shifted gain K = E_φ G
    psi        bodies × bodies    ψ = (1 − E_ψ)⁻¹ with E_ψ = E_φ (1 − G H)

Only two things are recursions, R and P; everything else is algebra, and a product with φ or ψ waits until it meets a
vector, so a chain of thousands of bodies needs linear memory. This module is for teaching and as an oracle: it shares
no algorithm with :mod:`whippletree.tree`, keeps one node per body in the body's own frame, and runs on any scalar
(exactly on Fractions where φ, H and M are rational).

Conventions: 002 numbers children before parents; here parents come first, which turns its lower triangles into upper
ones and changes nothing else. 002's H is the transpose of the ``subspace`` of a joint and of the ``H`` of a link.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any, NamedTuple, Protocol

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.arrays import identity as unit_matrix
from whippletree.errors import ShapeError, SingularSystemError, UnsupportedError
from whippletree.graph import (
    BlockOperator,
    BlockWeightedAdjacency,
    Digraph,
    Operator,
    Partition,
    Resolvent,
    block_diagonal,
    identity,
)
from whippletree.model import Model, require_model
from whippletree.spatial import Pose, RigidInertia, cross, cross_force, cross_motion, join
from whippletree.tree.links import confine_rotors, dense, moving_links, still_links
from whippletree.tree.skeleton import rotor_turns, skeleton
from whippletree.tree.sweeps import BlockWeight, Unrolled


class BodyLink(Protocol):
    """Quantities of a body and its joint in the theory; :class:`whippletree.tree.links.Link` is one.

    With m numbers per vector of the body and n freedoms: X is the weight φ(parent, body), H is H* (m, n), M an inertia
    (m, m), J the rotor inertia of each freedom, a and b vectors (m,), where 0 stands for none.
    """

    @property
    def X(self) -> BlockWeight: ...
    @property
    def H(self) -> Array: ...
    @property
    def M(self) -> Any: ...
    @property
    def J(self) -> Any: ...
    @property
    def a(self) -> Any: ...
    @property
    def b(self) -> Any: ...


class _Still(NamedTuple):
    """A rigid body at rest."""

    X: Pose
    H: Array
    M: RigidInertia
    J: Any
    a: Any = 0
    b: Any = 0


def spatial_operators(model: Model, q: Any, v: Any = None) -> SpatialOperators:
    """The spatial operators of a model at a state: bodies are named blocks in their own frames, welded ones too.

    Gravity enters as the acceleration −g of the world, which a(k) of every body on the ground contains. Springs,
    dampers and friction are joint forces: they belong to T, not to the operators.

    Args:
        model: a tree; ``model.tree`` drops the constraints of one that has them.
        q: coordinates (nq,), of any scalar type that the joints' sines and cosines exist for.
        v: velocities (nv,); at rest if None.

    Returns:
        The operators, on the bodies (vectors of 6 numbers each, angular first) and joints (nv numbers) of the model.

    Raises:
        UnsupportedError: a model with constraints.
        ShapeError: q or v of another size.
    """
    require_model(model, "spatial_operators")
    if model.constraints:
        raise UnsupportedError(
            f"spatial_operators: model {model.name!r} has constraints ({model.constraints[0].name!r}, …), and these "
            "equations are those of a tree: pass model.tree to leave the constraints out, or call "
            "wt.spatial_operators, which makes nodes of loops."
        )
    q = _check_values(model, "q", q, model.nq).astype(object)
    if model.is_flexible:
        return _with_modes(model, q, None if v is None else _check_values(model, "v", v, model.nv).astype(object))
    still = [
        _Still(
            Pose.from_matrix(joint.pose) @ kind.pose(q[part]),
            kind.subspace(q[part]),
            RigidInertia.about_center(body.mass, body.center, body.inertia),
            joint.armature,
        )
        for body, joint, kind, part in zip(model.bodies, model.joints, model.joint_types, model.q_slices)
    ]
    bodies, joints = [body.name for body in model.bodies], [joint.name for joint in model.joints]
    base = join(zeros(3), -model.gravity)
    at_rest = SpatialOperators.from_links(model.parents, still, bodies=bodies, joints=joints, base=base)
    return at_rest if v is None else _moving(model, at_rest, q, _check_values(model, "v", v, model.nv))


def _with_modes(model: Model, q: Array, v: Array | None) -> SpatialOperators:
    """The operators of a model with flexible bodies: blocks of 6 + n numbers for these, one node per moving part."""
    tree = skeleton(model)
    sweep, eta = Unrolled(tree.parents), [q[part] for part in tree.inputs]
    if v is None:
        links = still_links(sweep, tree.nodes, eta)
    else:
        links = confine_rotors(sweep, moving_links(sweep, tree.nodes, eta, [v[part] for part in tree.v_slices]))
    bodies, joints = [joint.child for joint in tree.joints], [joint.name for joint in tree.joints]
    base = join(zeros(3), -model.gravity)
    return SpatialOperators.from_links(tree.parents, links, bodies=bodies, joints=joints, base=base)


def _moving(model: Model, still: SpatialOperators, q: Array, v: Array) -> SpatialOperators:
    """The operators with the terms that velocities add: a = V × H* θ̇ + Ḣ* θ̇ and b = V ×* M V, body by body."""
    bodies = still.E_phi.rows
    names = bodies.names
    vectors = still.velocities(v), still.H.T @ v, still.M @ still.velocities(v)
    twists, relative, momenta = (bodies.split(x).values() for x in vectors)
    biases = (kind.bias(q[i], v[j]) for kind, i, j in zip(model.joint_types, model.q_slices, model.v_slices))
    a = [cross_motion(V, moved) + bias for V, moved, bias in zip(twists, relative, biases)]
    b = [cross_force(V, momentum) for V, momentum in zip(twists, momenta)]
    for i, (joint, parent) in enumerate(zip(model.joints, model.parents)):
        if rotor_turns(joint):
            spin, linear = np.split(v[model.v_slices[i]], 2)
            r = joint.armature * join(zeros(3), cross(spin, linear))
            b[i] = b[i] + r
            if parent >= 0:  # which does not feel what acts at the joint alone
                b[parent] = b[parent] - still.E_phi.block(names[parent], names[i]) @ r
    a, b = _same_numbers(a, b)
    return replace(still, a=still.a + bodies.join(dict(zip(names, a))), b=still.b + bodies.join(dict(zip(names, b))))


@dataclass(frozen=True, eq=False)
class SpatialOperators:
    """The operators of a tree at one state; see the module's docstring for the letters.

    Block vectors are plain arrays: (N,) over the bodies and (n,) over the joints, in the order of the operators' rows.
    """

    E_phi: BlockWeightedAdjacency
    """E_φ(j, k) = δ(j, ℘(k)) φ(℘(k), k)."""
    H: BlockOperator
    M: BlockOperator
    J: BlockOperator
    a: Array
    b: Array

    @classmethod
    def from_links(
        cls,
        parents: Sequence[int],
        links: Sequence[BodyLink],
        *,
        bodies: Iterable[Hashable] | None = None,
        joints: Iterable[Hashable] | None = None,
        base: Any = None,
    ) -> SpatialOperators:
        """The operators of any tree: weights, subspaces and inertias of any size, rectangular and not rigid ones too.

        Args:
            parents: index of each link's parent, −1 for a root.
            links: one per body; ``H`` and ``M`` give its sizes (m, n), and ``X`` must fit them.
            bodies: names of the bodies; their indices if None.
            joints: names of the joints; those of the bodies if None.
            base: acceleration of the world (−g), which the weights of the roots hand down; none if None.
        """
        bodies = list(range(len(links)) if bodies is None else bodies)
        joints = list(bodies if joints is None else joints)
        sizes = {body: len(link.H) for body, link in zip(bodies, links, strict=True)}
        M = [np.asarray(dense(link.M)) for link in links]
        H = [np.asarray(link.H).T for link in links]
        J = [link.J * unit_matrix(len(h)) for link, h in zip(links, H)]
        a = [zeros(len(link.H)) + link.a for link in links]
        b = [zeros(len(link.H)) + link.b for link in links]
        edges = [(k, parent) for k, parent in enumerate(parents) if parent >= 0]
        weights = [_matrix_of(links[k].X, len(links[k].H)) for k, _ in edges]
        if base is not None:
            a = [a[k] if parent >= 0 else a[k] + links[k].X.motion(base) for k, parent in enumerate(parents)]
        M, H, J, a, b, weights = _same_numbers(M, H, J, a, b, weights)
        named = {(bodies[parent], bodies[k]): w for (k, parent), w in zip(edges, weights)}
        E_phi = BlockWeightedAdjacency(Digraph(bodies, named), named, sizes)
        freedoms = Partition({joint: len(h) for joint, h in zip(joints, H)})
        return cls(
            E_phi,
            BlockOperator(freedoms, E_phi.rows, dict(zip(zip(joints, bodies), H))),
            BlockOperator(E_phi.rows, E_phi.rows, dict(zip(zip(bodies, bodies), M))),
            BlockOperator(freedoms, freedoms, dict(zip(zip(joints, joints), J))),
            E_phi.rows.join(dict(zip(bodies, a))),
            E_phi.rows.join(dict(zip(bodies, b))),
        )

    @cached_property
    def phi(self) -> Resolvent:
        """φ = (1 − E_φ)⁻¹ = 1 + E_φ + E_φ² + …"""
        return self.E_phi.resolvent()

    # -- the system-level equations of motion (002, "System level equations of motion") --------------------------------

    def velocities(self, rates: Array) -> Array:
        """V = φ* H* θ̇: the twist of every body."""
        return self.phi.T @ (self.H.T @ rates)

    def accelerations(self, qdd: Array) -> Array:
        """α = φ* (H* θ̈ + a)."""
        return self.phi.T @ (self.H.T @ qdd + self.a)

    def forces(self, qdd: Array) -> Array:
        """f = φ (M α + b): the wrench of every body's parent on it."""
        return self.phi @ (self.M @ self.accelerations(qdd) + self.b)

    def inverse_dynamics(self, qdd: Array) -> Array:
        """T = H f + J θ̈."""
        return self.H @ self.forces(qdd) + self.J @ qdd

    @property
    def mass_matrix(self) -> Operator:
        """𝓜 = H φ M φ* H* + J, the Newton–Euler factorisation."""
        return self.H @ self.phi @ self.M @ self.phi.T @ self.H.T + self.J

    @property
    def bias(self) -> Array:
        """C = H φ (M φ* a + b): the joint forces at θ̈ = 0."""
        return self.H @ self.phi @ (self.M @ (self.phi.T @ self.a) + self.b)

    def jacobian(self, body: Hashable) -> Operator:
        """B* φ* H*, where B* picks one body: its twist for unit rates of the joints, (m, n)."""
        only = Partition({body: self.E_phi.rows.size(body)})
        pick = BlockOperator(only, self.E_phi.rows, {(body, body): np.eye(self.E_phi.rows.size(body), dtype=int)})
        return pick @ self.phi.T @ self.H.T

    # -- composite inertias (Jain 2011, chapter 4) ---------------------------------------------------------------------

    @cached_property
    def R(self) -> BlockOperator:
        """R = M + E_φ R E_φ*, the Lyapunov equation: each body's inertia with all that hangs on it held still.

        A body has one parent, so E_φ X E_φ* is block diagonal when X is, and one gather solves the equation.
        """
        R = self.M.diagonal()
        for parent, child, phi in reversed(self.E_phi.sweep):
            R[parent] = R[parent] + phi @ R[child] @ phi.T
        return block_diagonal(R)

    @property
    def mass_matrix_decomposition(self) -> Operator:
        """𝓜 = H [R + φ̃ R + R φ̃*] H* + J with φ̃ = φ − 1: diagonal, ancestors and descendants are disjoint."""
        return self.H @ (self.R + self.phi.tilde @ self.R + self.R @ self.phi.T.tilde) @ self.H.T + self.J

    # -- articulated inertias (Jain 2011, chapter 6) -------------------------------------------------------------------

    @cached_property
    def P(self) -> BlockOperator:
        """P = M + E_ψ P E_φ*, the Riccati equation: each body's inertia with the joints beyond it free.

        Jain writes E_ψ P E_ψ*, the same where no joint has a rotor: E_ψ P E_φ* = E_ψ P E_ψ* + K J K*.

        Raises:
            SingularSystemError: a joint whose motion has no inertia, by name.
        """
        joint_of = dict(zip(self.H.cols.names, self.H.rows.names))
        P = self.M.diagonal()
        for parent, child, phi in reversed(self.E_phi.sweep):
            joint = joint_of[child]
            H, J = self.H.block(joint, child), self.J.block(joint, joint)
            U = P[child] @ H.T
            P[parent] = P[parent] + phi @ (P[child] - U @ self.invert_joint(H @ U + J, joint) @ U.T) @ phi.T
        return block_diagonal(P)

    @cached_property
    def D(self) -> BlockOperator:
        """D = H P H* + J: what a joint feels of the inertia beyond it, block diagonal."""
        return self.H @ self.P @ self.H.T + self.J

    @cached_property
    def D_inverse(self) -> BlockOperator:
        """D⁻¹, joint by joint."""
        return block_diagonal({joint: self.invert_joint(D, joint) for joint, D in self.D.diagonal().items()})

    def invert_joint(self, D: Array, joint: Hashable) -> Array:
        """D⁻¹ of one joint.

        Raises:
            SingularSystemError: the joint's motion has no inertia.
        """
        return _inverse(D, joint)

    @cached_property
    def G(self) -> BlockOperator:
        """G = P H* D⁻¹, the gain (of a Kalman filter that runs from the tips to the base)."""
        return self.P @ self.H.T @ self.D_inverse

    @cached_property
    def K(self) -> BlockOperator:
        """K = E_φ G, the gain shifted to the parents."""
        return self.E_phi @ self.G

    @cached_property
    def E_psi(self) -> BlockWeightedAdjacency:
        """E_ψ = E_φ (1 − G H): across an edge goes only what the joint does not yield to."""
        return BlockWeightedAdjacency.of(self.E_phi @ (identity(self.E_phi.rows) - self.G @ self.H))

    @cached_property
    def psi(self) -> Resolvent:
        """ψ = (1 − E_ψ)⁻¹; ψ⁻¹ = φ⁻¹ + K H."""
        return self.E_psi.resolvent()

    # -- factorisation and inversion of the mass matrix (002, "Mass Matrix Factorization & Inversion") -----------------

    @property
    def innovations_factor(self) -> Operator:
        """1 + H φ K."""
        return identity(self.H.rows) + self.H @ self.phi @ self.K

    @property
    def innovations_factor_inverse(self) -> Operator:
        """[1 + H φ K]⁻¹ = 1 − H ψ K."""
        return identity(self.H.rows) - self.H @ self.psi @ self.K

    @property
    def mass_matrix_innovations(self) -> Operator:
        """𝓜 = [1 + H φ K] D [1 + H φ K]*, the innovations factorisation: triangular, square and invertible factors."""
        return self.innovations_factor @ self.D @ self.innovations_factor.T

    @property
    def mass_matrix_inverse(self) -> Operator:
        """𝓜⁻¹ = [1 − H ψ K]* D⁻¹ [1 − H ψ K]."""
        return self.innovations_factor_inverse.T @ self.D_inverse @ self.innovations_factor_inverse

    @property
    def determinant(self) -> Any:
        """det 𝓜 = Π det D(k): the factors 1 + H φ K are unit triangular up to order."""
        return reduce(mul, (pivot for D in self.D.diagonal().values() for pivot in _factor(D).pivots), 1)

    @property
    def Omega(self) -> Operator:
        """Ω = ψ* H* D⁻¹ H ψ = φ* H* 𝓜⁻¹ H φ: accelerations of all bodies for wrenches on all bodies.

        B* Ω B is the inverse of the operational-space inertia of the frames that B picks (Jain 2011, chapter 10).
        """
        return self.psi.T @ self.H.T @ self.D_inverse @ self.H @ self.psi

    # -- forward dynamics (Jain 2011, chapter 7) -----------------------------------------------------------------------

    def corrections(self, T: Array) -> Array:
        """z = ψ (K T + P a + b): the wrench of every body's parent on it if α − a were zero."""
        return self.psi @ (self.K @ T + self.P @ self.a + self.b)

    def forward_dynamics(self, T: Array) -> Array:
        """θ̈ = [1 − H ψ K]* D⁻¹ (T − H z) − K* ψ* a."""
        nu = self.D_inverse @ (T - self.H @ self.corrections(T))
        return self.innovations_factor_inverse.T @ nu - self.K.T @ (self.psi.T @ self.a)

    def interbody_forces(self, T: Array) -> Array:
        """f = P (α − a) + z with α = ψ* (H* D⁻¹ (T − H z) + a): the inter-body forces without a sum over bodies."""
        z = self.corrections(T)
        alpha = self.psi.T @ (self.H.T @ (self.D_inverse @ (T - self.H @ z)) + self.a)
        return self.P @ (alpha - self.a) + z


def _check_values(model: Model, name: str, values: Any, size: int) -> Array:
    array = np.asarray(values)
    if array.shape != (size,):
        raise ShapeError(
            f"spatial_operators: {name} has shape {array.shape}, expected ({size},): model {model.name!r} has "
            f"nq = {model.nq} and nv = {model.nv}, and the operators belong to one state."
        )
    return array


def _matrix_of(X: BlockWeight, m: int) -> Array:
    """φ as a matrix, column by column: any weight can do that."""
    return np.stack([X.force(column) for column in unit_matrix(m).T], axis=1)


def _same_numbers(*fields: list[Array]) -> tuple[list[Array], ...]:
    """float64 if all are plain numbers and some floats, for speed; else object: a lone 1.0 would spoil Fractions."""
    kinds = {type(x) for arrays in fields for array in arrays for x in np.asarray(array).flat}
    plain = all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds)
    fast = plain and any(issubclass(kind, (float, np.floating)) for kind in kinds)
    dtype = np.dtype(float if fast else object)
    return tuple([np.asarray(array).astype(dtype) for array in arrays] for arrays in fields)


def _factor(D: Array) -> linalg.LDLT:
    return linalg.ldlt(D.astype(object))


def _inverse(D: Array, joint: Hashable) -> Array:
    try:
        return _factor(D).solve(unit_matrix(len(D))).astype(D.dtype)
    except ZeroDivisionError:
        raise SingularSystemError(
            f"spatial_operators: the motion of joint {joint!r} has no inertia (D has a pivot that is exactly zero), so "
            "the mass matrix has no inverse. Give mass to what the joint carries, or a rotor to the joint."
        ) from None
