"""Derivatives of inverse and forward dynamics, by recursions over the tree and not by differentiating their code.

Everything of one tree is expressed in one frame, that of its root part, as it stands at this instant: then nothing is
transformed on its way along the tree, and what a subtree has in common is a plain sum over its bodies. Turning joint j
by a small δ along its axis S moves the subtree beyond it as one rigid body. Seen from that subtree the world has turned
back, so its points keep their motion except for what they inherit from the part before j, with twist V⁻ and
acceleration α⁻:

    Ṡ⁻ = V⁻ × S                 S, if it were fixed in the part before the joint: its rate
    S̈⁻ = α⁻ × S + V⁻ × Ṡ⁻       and its second rate
    Ṡ  = V × S                  rate of S, which is fixed in the part behind the joint

With the composite inertia R, the Coriolis map B (:mod:`whippletree.tree.moments`) and the wrench f of the subtree
beyond joint i, all plain sums, and j on the way from i to the base (Singh, Russell & Wensing 2022, with B reduced to a
(6, 3) matrix; Carpentier & Mansard 2018 have the same structure with other intermediate quantities):

    ∂τᵢ/∂vⱼ = Sᵢᵀ (2 B Sⱼ + R (Ṡⱼ⁻ + Ṡⱼ))       ∂τⱼ/∂vᵢ = Sⱼᵀ (2 B Sᵢ + R (Ṡᵢ⁻ + Ṡᵢ))
    ∂τᵢ/∂qⱼ = Sᵢᵀ (2 B Ṡⱼ⁻ + R S̈ⱼ⁻)             ∂τⱼ/∂qᵢ = Sⱼᵀ (2 B Ṡᵢ⁻ + R S̈ᵢ⁻ + Sᵢ ×* f)
    ∂τᵢ/∂aⱼ = ∂τⱼ/∂aᵢ = Sᵢᵀ R Sⱼ

The left column also holds for two freedoms of one joint. ∂τ/∂q is taken in the tangent space: q ⊕ δ, for a quaternion
joint a rotation vector (and a shift) in the axes of the body.

Forward dynamics follows from inverse dynamics: ∂a/∂q = −M⁻¹ ∂τ/∂q at the accelerations a, ∂a/∂v likewise, and
∂a/∂τ = M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ with the tree-sparse factors of M, whose zeros are those of unrelated pairs. Three remarks
make it cheaper than it looks. The bias force is quadratic in v, so it is ½ (∂τ/∂v) v plus gravity: no pass is needed to
find a. The columns of a freely floating root are M times a known motion, since the laws of motion are the same in every
inertial frame; only the part with B needs a solution. And L⁻¹ is multiplied with, not solved by: off the path of a
column D⁻¹ L⁻ᵀ ∂τ is exactly zero, so most of the product vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree import linalg
from whippletree.joints import Free
from whippletree.spatial import (
    Array,
    Pose,
    RigidInertia,
    add_cross_force,
    add_cross_motion,
    cross_motion,
    identity,
    join,
    zeros,
)
from whippletree.sweeps import Field, Sweeper, Unrolled, add
from whippletree.tree.links import falling
from whippletree.tree.moments import Coriolis, Flow, Moments
from whippletree.tree.parts import Part, parts
from whippletree.tree.skeleton import Skeleton


class InverseDerivatives(NamedTuple):
    """Derivatives of τ(q, v, a), each (nv, nv): rows are forces, columns are tangents."""

    dq: Array
    dv: Array
    da: Array
    """The mass matrix, rotors included."""


class ForwardDerivatives(NamedTuple):
    """Derivatives of a(q, v, τ), each (nv, nv), the accelerations themselves, and the pivots of M."""

    dq: Array
    dv: Array
    dtau: Array
    """M⁻¹."""
    a: Array
    """(nv,)"""
    pivots: Array
    """D of M = Lᵀ D L, all positive exactly when every motion has inertia, (nv,)."""


def inverse_dynamics_derivatives(
    tree: Skeleton, q: Array, v: Array, a: Array, wrenches: Field | None = None
) -> InverseDerivatives:
    """∂τ/∂q, ∂τ/∂v and ∂τ/∂a (nv, nv) of inverse dynamics.

    Args:
        tree: the moving parts of a model.
        q: coordinates, (nq,).
        v: velocities, (nv,).
        a: accelerations, (nv,).
        wrenches: external wrenches (6,) that are fixed to their nodes, one per node in its frame.
    """
    state = _State(tree, q, v, wrenches)
    freedoms = state.freedoms()
    reactions = state.reactions(freedoms)
    dv = state.velocity_derivatives(freedoms, reactions)
    alphas = state.accelerations(freedoms, a)
    second, forces = state.second_rates(freedoms, alphas), state.forces(alphas)
    dq = state.position_derivatives(freedoms, reactions, second, forces)
    return InverseDerivatives(dq, dv, state.mass_matrix(freedoms, reactions))


def forward_dynamics_derivatives(
    tree: Skeleton, q: Array, v: Array, tau: Array, wrenches: Field | None = None
) -> ForwardDerivatives:
    """∂a/∂q, ∂a/∂v and ∂a/∂τ (nv, nv) of forward dynamics, and a (nv,) itself.

    Args:
        tree, q, v, wrenches: as for inverse dynamics.
        tau: joint forces, (nv,).
    """
    state = _State(tree, q, v, wrenches)
    freedoms = state.freedoms()
    # a floating root takes a motion of the whole tree by itself: leave it out here, add it to the answer below
    floating = [i for i, f in enumerate(freedoms) if state.floats(f)]
    rest = [f._replace(swing=zeros(6)) if i in floating else f for i, f in enumerate(freedoms)]
    reactions = state.reactions(rest)
    factor = linalg.tree_ltdl(state.mass_matrix(rest, reactions), tree.velocity_parents, lenient=True)
    force_dv = state.velocity_derivatives(rest, reactions)
    a = factor.solve(tau - force_dv @ (v / 2) - state.static_forces(freedoms, reactions))
    alphas = state.accelerations(freedoms, a)
    second = state.second_rates(freedoms, alphas)
    rest_second = [zeros(6) if i in floating else s for i, s in enumerate(second)]
    force_dq = state.position_derivatives(rest, reactions, rest_second, state.forces(alphas))
    dq, dv, dtau = _responses(factor, force_dq, force_dv)
    for i in floating:
        own = state.parts[freedoms[i].part].v
        dq[own, i] = dq[own, i] - second[i]
        dv[own, i] = dv[own, i] - freedoms[i].swing
    return ForwardDerivatives(dq, dv, dtau, a, factor.pivots)


def _responses(factor: linalg.TreeLTDL, *forces: Array) -> list[Array]:
    """−M⁻¹ F for matrices F of joint forces, and M⁻¹ itself (one triangle computed) as the last.

    Column by column, so that what one column needs stays in registers.
    """
    n = len(factor.pivots)
    W = factor.forward(identity(n))
    below = identity(n) - W  # −L⁻¹ without its diagonal of ones: the sign of the result costs nothing
    before = [np.flatnonzero(row != 0) for row in below]
    responses, inverse = [zeros(n, n) for _ in forces], zeros(n, n)
    for j in range(n):
        for F, X in zip(forces, responses, strict=True):
            y = (W.T @ F[:, j]) * factor.reciprocals
            for i in range(n):
                x = -y[i]
                for k in before[i]:
                    x = x + below[i, k] * y[k]
                X[i, j] = x
        scaled = W[j] * factor.reciprocals
        for i in range(j + 1):
            inverse[i, j] = inverse[j, i] = W[i] @ scaled
    return [*responses, inverse]


class _Moving(NamedTuple):
    """A part in motion, in the frame of its tree's root part."""

    pose: Pose
    H: Array
    """Subspace, (6, n)."""
    before: Array
    """V⁻, twist of the part before the joint, (6,)."""
    V: Array
    """Twist, (6,)."""
    base: Array
    """The acceleration of the world, −g, (6,)."""


class _Freedom(NamedTuple):
    """One column of a joint's subspace; all are spatial motions (6,)."""

    part: int
    S: Array
    carried: Array
    """Ṡ⁻ = V⁻ × S."""
    swing: Array
    """Ṡ⁻ + Ṡ."""


class _Reaction(NamedTuple):
    """What the subtree beyond a freedom answers to it."""

    row: Array
    """(2 Sᵀ B, R S): what multiplies an angular velocity and an acceleration of all that is beyond, (9,)."""
    d: Array
    """2 B S + R (Ṡ⁻ + Ṡ), wrench of a unit velocity, (6,)."""


class _State:
    """A tree at one q and v: its parts in motion and the sums over their subtrees."""

    def __init__(self, tree: Skeleton, q: Array, v: Array, wrenches: Field | None) -> None:
        self.parts = parts(tree)
        self.v = v
        self.sweep: Sweeper = Unrolled([part.parent for part in self.parts])
        self.moving = _moving(self.sweep, self.parts, q, v, falling(np.asarray(tree.model.gravity).astype(object)))
        self.moments = [part.moments.carried(at.pose) for part, at in zip(self.parts, self.moving, strict=True)]
        self.flows = [m.moved(at.V) for m, at in zip(self.moments, self.moving, strict=True)]
        self.inertias: list[RigidInertia] = [m.rigid() for m in self._beyond(Moments.nothing(), self.moments)]
        self.coriolis = [Coriolis.of(flow) for flow in self._beyond(Flow.nothing(), self.flows)]
        self.pushes = self._beyond(zeros(6), [self._push(k, wrenches) for k in range(len(self.parts))])
        self.above = self._freedoms_above()

    def _beyond(self, zero: Any, own: Field) -> Field:
        """The sum over the subtree of every part."""

        def collect(children: Any, own: Any) -> tuple[Any, Any]:
            total = add(children, own)
            return total, total

        return self.sweep.gather(collect, zero, own)

    def _push(self, k: int, wrenches: Field | None) -> Array:
        node = self.parts[k].node
        return zeros(6) if wrenches is None or node < 0 else self.moving[k].pose.force(wrenches[node])

    def _freedoms_above(self) -> list[list[int]]:
        """For each part, the freedoms of the joints between it and the world, its own joint excluded."""
        above: list[list[int]] = []
        for part in self.parts:
            up = part.parent
            above.append([*above[up], *_numbers(self.parts[up].v)] if up >= 0 else [])
        return above

    def freedoms(self) -> list[_Freedom]:
        """Every freedom of every joint, in the order of v."""
        result = []
        for k, at in enumerate(self.moving):
            for S in at.H.T:
                carried = cross_motion(at.before, S)
                # a single freedom adds nothing to its own rate: Ṡ = Ṡ⁻
                swing = 2 * carried if at.H.shape[1] == 1 else cross_motion(at.before + at.V, S)
                result.append(_Freedom(k, S, carried, swing))
        return result

    def floats(self, freedom: _Freedom) -> bool:
        """Whether a freedom belongs to a free joint at the root, without a rotor that would tie it to the world."""
        part = self.parts[freedom.part]
        rotor = part.armature
        return part.parent < 0 and isinstance(part.joint, Free) and isinstance(rotor, (int, float)) and rotor == 0

    def reactions(self, freedoms: Sequence[_Freedom]) -> list[_Reaction]:
        """The answers of the subtrees that do not depend on accelerations."""
        result = []
        for f in freedoms:
            R, B = self.inertias[f.part], self.coriolis[f.part]
            result.append(_Reaction(join(2 * B.along(f.S), R @ f.S), B.added(R @ f.swing, 2 * f.S[:3])))
        return result

    def accelerations(self, freedoms: Sequence[_Freedom], a: Array) -> list[tuple[Array, Array]]:
        """The accelerations of the part before and of the part behind every joint, (6,) each."""
        result: list[tuple[Array, Array]] = []
        for part, at in zip(self.parts, self.moving, strict=True):
            before = result[part.parent][1] if part.parent >= 0 else at.base
            behind = before
            for i in _numbers(part.v):
                behind = behind + freedoms[i].S * a[i] + freedoms[i].carried * self.v[i]
            result.append((before, behind))
        return result

    def second_rates(self, freedoms: Sequence[_Freedom], alphas: Sequence[tuple[Array, Array]]) -> list[Array]:
        """S̈⁻ of every freedom."""
        return [
            add_cross_motion(cross_motion(alphas[f.part][0], f.S), self.moving[f.part].before, f.carried)
            for f in freedoms
        ]

    def forces(self, alphas: Sequence[tuple[Array, Array]]) -> Field:
        """f, the wrench that every joint transmits."""

        def own(moments: Moments, flow: Flow, at: _Moving, alpha: tuple[Array, Array]) -> Array:
            return add_cross_force(moments.rigid() @ alpha[1], at.V, flow.wrench())

        wrenches = self.sweep.map(own, self.moments, self.flows, self.moving, alphas)
        return [f - push for f, push in zip(self._beyond(zeros(6), wrenches), self.pushes, strict=True)]

    def mass_matrix(self, freedoms: Sequence[_Freedom], reactions: Sequence[_Reaction]) -> Array:
        """M (nv, nv), one triangle computed."""
        M = zeros(len(freedoms), len(freedoms))
        for i, f in enumerate(freedoms):
            part = self.parts[f.part]
            for j in [*self.above[f.part], *range(part.v.start, i + 1)]:
                M[i, j] = M[j, i] = reactions[i].row[3:] @ freedoms[j].S
            M[i, i] = M[i, i] + part.armature
        return M

    def velocity_derivatives(self, freedoms: Sequence[_Freedom], reactions: Sequence[_Reaction]) -> Array:
        """∂τ/∂v (nv, nv)."""
        columns = [join(f.S[:3], f.swing) for f in freedoms]
        return self._related(freedoms, reactions, columns, [r.d for r in reactions])

    def position_derivatives(
        self, freedoms: Sequence[_Freedom], reactions: Sequence[_Reaction], second: Sequence[Array], forces: Field
    ) -> Array:
        """∂τ/∂q (nv, nv)."""
        columns = [join(f.carried[:3], rate) for f, rate in zip(freedoms, second, strict=True)]
        wrenches = []
        for f, rate in zip(freedoms, second, strict=True):
            moved = self.coriolis[f.part].added(self.inertias[f.part] @ rate, 2 * f.carried[:3])
            wrenches.append(add_cross_force(moved, f.S, forces[f.part]))
        return self._related(freedoms, reactions, columns, wrenches)

    def _related(
        self,
        freedoms: Sequence[_Freedom],
        reactions: Sequence[_Reaction],
        columns: Sequence[Array],
        wrenches: Sequence[Array],
    ) -> Array:
        """The matrix of joint forces that the freedoms cause: zero for unrelated pairs.

        A freedom moves what is beyond it as its ``columns`` say, and pulls at what is before it with its ``wrenches``.
        """
        matrix = zeros(len(freedoms), len(freedoms))
        for i, f in enumerate(freedoms):
            for j in _numbers(self.parts[f.part].v):
                matrix[i, j] = reactions[i].row @ columns[j]
            for j in self.above[f.part]:
                matrix[i, j] = reactions[i].row @ columns[j]
                matrix[j, i] = freedoms[j].S @ wrenches[i]
        return matrix

    def static_forces(self, freedoms: Sequence[_Freedom], reactions: Sequence[_Reaction]) -> Array:
        """τ (nv,) at rest: what holds gravity and the external wrenches."""
        result = zeros(len(freedoms))
        for i, (f, r) in enumerate(zip(freedoms, reactions, strict=True)):
            result[i] = r.row[3:] @ self.moving[f.part].base - f.S @ self.pushes[f.part]
        return result


def _moving(sweep: Sweeper, parts: Sequence[Part], q: Array, v: Array, base: Array) -> Field:
    def move(parent: Any, part: Part) -> tuple[_Moving, _Moving]:
        X = part.joint.pose(q[part.q])
        if parent is None:
            pose, before, fall = Pose.identity(), zeros(6), (part.placement @ X).motion(base)
        else:
            pose, before, fall = parent.pose @ part.placement @ X, parent.V, parent.base
        columns = [pose.motion_back(S) for S in part.joint.subspace(q[part.q]).T]
        H = np.stack(columns, axis=1) if columns else zeros(6, 0)
        here = _Moving(pose, H, before, before + H @ v[part.v], fall)
        return here, here

    return sweep.scatter(move, None, parts)


def _numbers(part: slice) -> range:
    return range(part.start, part.stop)
