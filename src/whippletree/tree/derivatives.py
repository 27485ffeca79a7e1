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

What a joint contributes is written down where the joint is met on the way in, limb by limb: the order of a trace is the
order of the machine, and the numbers of one limb fit into a cache that those of a humanoid do not fit into.
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
    symmetric,
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
    return InverseDerivatives(state.position_derivatives(a), state.dv, state.M)


def forward_dynamics_derivatives(
    tree: Skeleton, q: Array, v: Array, tau: Array, wrenches: Field | None = None
) -> ForwardDerivatives:
    """∂a/∂q, ∂a/∂v and ∂a/∂τ (nv, nv) of forward dynamics, and a (nv,) itself.

    Args:
        tree, q, v, wrenches: as for inverse dynamics.
        tau: joint forces, (nv,).
    """
    # a floating root takes a motion of the whole tree by itself: leave it out here, add it to the answer below
    state = _State(tree, q, v, wrenches, without_floating=True)
    factor = linalg.tree_ltdl(state.M, tree.velocity_parents, lenient=True)
    a = factor.solve(tau - state.dv @ (v / 2) - state.static_forces())
    dq, dv, dtau = _responses(factor, state.position_derivatives(a), state.dv)
    for part, at in zip(state.parts, state.moving, strict=True):
        if _floats(part):
            for i, S in zip(_numbers(part.v), at.H.T, strict=True):
                dq[part.v, i] = dq[part.v, i] - cross_motion(at.base, S)
                dv[part.v, i] = dv[part.v, i] - cross_motion(at.V, S)
    return ForwardDerivatives(dq, dv, dtau, a, factor.pivots)


STRIP, TILE = 12, (4, 3)
"""Columns that are solved together, and rows and columns of a product that grow together: what registers can hold."""


def _responses(factor: linalg.TreeLTDL, *forces: Array) -> list[Array]:
    """−M⁻¹ F for matrices F of joint forces, and M⁻¹ itself (one triangle computed) as the last."""
    n = len(factor.pivots)
    W = factor.forward(identity(n))
    below = identity(n) - W  # −L⁻¹ without its diagonal of ones: the sign of the result costs nothing
    scaled = (W * factor.reciprocals).T
    responses, inverse = [zeros(n, n) for _ in forces], zeros(n, n)
    for start in range(0, n, STRIP):
        strip = slice(start, start + STRIP)
        for F, X in zip(forces, responses, strict=True):
            Y = (_added_product(zeros(n, n)[:, strip], W.T, F[:, strip]).T * factor.reciprocals).T
            X[:, strip] = _added_product(-Y, below, Y)
        upper = slice(0, start + STRIP)
        inverse[upper, strip] = _added_product(inverse[upper, strip], W[upper], scaled[:, strip])
    return [*responses, symmetric(inverse)]


def _added_product(C: Array, A: Array, B: Array) -> Array:
    """C + A B. The entries of a tile grow together, so that each number is fetched once for several products."""
    result = C.copy()
    height, width = TILE
    for top in range(0, len(A), height):
        terms = [np.flatnonzero(row != 0) for row in A[top : top + height]]
        needed = sorted({int(k) for row in terms for k in row})
        for left in range(0, B.shape[1], width):
            for k in needed:
                for i in range(top, min(top + height, len(A))):
                    result[i, left : left + width] = (
                        result[i, left : left + width] + A[i, k] * B[k, left : left + width]
                    )
    return result


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

    S: Array
    carried: Array
    """Ṡ⁻ = V⁻ × S."""
    swing: Array
    """Ṡ⁻ + Ṡ."""


class _Body(NamedTuple):
    """A part, and all that is beyond its joint."""

    own: RigidInertia
    momentum: Array
    """Of the part alone, (6,)."""
    R: RigidInertia
    B: Coriolis
    push: Array
    """Sum of the external wrenches, (6,)."""


class _State:
    """A tree at one q and v: what its parts do, the sums over their subtrees, and M and ∂τ/∂v (nv, nv)."""

    def __init__(
        self, tree: Skeleton, q: Array, v: Array, wrenches: Field | None, *, without_floating: bool = False
    ) -> None:
        self.parts = parts(tree)
        self.v = v
        self.wrenches = wrenches
        self.sweep: Sweeper = Unrolled([part.parent for part in self.parts])
        self.moving = _moving(self.sweep, self.parts, q, v, falling(np.asarray(tree.model.gravity).astype(object)))
        self.left_out = [without_floating and _floats(part) for part in self.parts for _ in _numbers(part.v)]
        self.freedoms = self._freedoms()
        self.columns = [join(f.S[:3], f.swing) for f in self.freedoms]
        self.above = _freedoms_above(self.parts)
        self.rows: list[Array] = [zeros(9)] * len(v)
        """(2 Sᵀ B, R S): what meets an angular velocity and an acceleration of all that is beyond, (9,) each."""
        self.M, self.dv = zeros(len(v), len(v)), zeros(len(v), len(v))
        nothing = (*Moments.nothing(), *Flow.nothing(), zeros(6))
        self.bodies = self.sweep.gather(self._collect, nothing, range(len(self.parts)))

    def _freedoms(self) -> list[_Freedom]:
        """Every freedom of every joint, in the order of v."""
        result: list[_Freedom] = []
        for at in self.moving:
            for S in at.H.T:
                carried = cross_motion(at.before, S)
                # a single freedom adds nothing to its own rate: Ṡ = Ṡ⁻
                swing = 2 * carried if at.H.shape[1] == 1 else cross_motion(at.before + at.V, S)
                result.append(_Freedom(S, carried, zeros(6) if self.left_out[len(result)] else swing))
        return result

    def _collect(self, children: Any, k: int) -> tuple[Any, _Body]:
        """On the way in: the sums over all that is beyond joint k, then the entries of M and ∂τ/∂v that it has."""
        part, at = self.parts[k], self.moving[k]
        own = part.moments.carried(at.pose)
        flow = own.moved(at.V)
        push = zeros(6) if self.wrenches is None or part.node < 0 else at.pose.force(self.wrenches[part.node])
        total = add(children, (*own, *flow, push))
        R, B = Moments(*total[:3]).rigid(), Coriolis.of(Flow(*total[3:5]))
        for i in _numbers(part.v):
            S = self.freedoms[i].S
            self.rows[i] = join(2 * B.along(S), R @ S)
            for j in [*self.above[k], *range(part.v.start, i + 1)]:
                self.M[i, j] = self.M[j, i] = self.rows[i][3:] @ self.freedoms[j].S
            self.M[i, i] = self.M[i, i] + part.armature
        wrenches = [B.added(R @ f.swing, 2 * f.S[:3]) for f in self.freedoms[part.v]]
        self._relate(self.dv, k, self.columns, wrenches)
        return total, _Body(own.rigid(), flow.wrench(), R, B, total[5])

    def _relate(self, matrix: Array, k: int, columns: Sequence[Array], wrenches: Sequence[Array]) -> None:
        """Write the joint forces that joint k has in common with those before it; those of unrelated pairs stay zero.

        ``columns`` tell how each freedom moves what is beyond it, ``wrenches`` how those of joint k pull at what is
        before it.
        """
        own = _numbers(self.parts[k].v)
        for i, wrench in zip(own, wrenches, strict=True):
            for j in own:
                matrix[i, j] = self.rows[i] @ columns[j]
            for j in self.above[k]:
                matrix[i, j] = self.rows[i] @ columns[j]
                matrix[j, i] = self.freedoms[j].S @ wrench

    def position_derivatives(self, a: Array) -> Array:
        """∂τ/∂q (nv, nv) at the accelerations a."""
        dq = zeros(len(a), len(a))
        before, behind = self._accelerations(a)
        second = [zeros(6)] * len(a)
        for part, at, alpha in zip(self.parts, self.moving, before, strict=True):
            for i in _numbers(part.v):
                if not self.left_out[i]:
                    S, carried, _ = self.freedoms[i]
                    second[i] = add_cross_motion(cross_motion(alpha, S), at.before, carried)
        columns = [join(f.carried[:3], rate) for f, rate in zip(self.freedoms, second, strict=True)]

        def collect(children: Array, k: int) -> tuple[Array, None]:
            part, at, body = self.parts[k], self.moving[k], self.bodies[k]
            f = children + add_cross_force(body.own @ behind[k], at.V, body.momentum)
            wrenches = []
            for i in _numbers(part.v):
                S, carried, _ = self.freedoms[i]
                moved = body.B.added(body.R @ second[i], 2 * carried[:3])
                wrenches.append(add_cross_force(moved, S, f - body.push))
            self._relate(dq, k, columns, wrenches)
            return f, None

        self.sweep.gather(collect, zeros(6), range(len(self.parts)))
        return dq

    def _accelerations(self, a: Array) -> tuple[list[Array], list[Array]]:
        """The accelerations α⁻ and α of the parts before and behind every joint, (6,) each."""
        before: list[Array] = []
        behind: list[Array] = []
        for part, at in zip(self.parts, self.moving, strict=True):
            alpha = behind[part.parent] if part.parent >= 0 else at.base
            before.append(alpha)
            for i in _numbers(part.v):
                alpha = alpha + self.freedoms[i].S * a[i] + self.freedoms[i].carried * self.v[i]
            behind.append(alpha)
        return before, behind

    def static_forces(self) -> Array:
        """τ (nv,) at rest: what holds gravity and the external wrenches."""
        result = zeros(len(self.freedoms))
        for part, at, body in zip(self.parts, self.moving, self.bodies, strict=True):
            for i in _numbers(part.v):
                result[i] = self.rows[i][3:] @ at.base - self.freedoms[i].S @ body.push
        return result


def _moving(sweep: Sweeper, parts: Sequence[Part], q: Array, v: Array, base: Array) -> Field:
    def move(parent: Any, part: Part) -> tuple[_Moving, _Moving]:
        X = part.joint.pose(q[part.q])
        if parent is None:
            pose, before, fall = Pose.identity(), zeros(6), (part.placement @ X).motion(base)
        else:
            pose, before, fall = parent.pose @ part.placement @ X, parent.V, parent.base
        H = np.stack([pose.motion_back(S) for S in part.joint.subspace(q[part.q]).T], axis=1)
        here = _Moving(pose, H, before, before + H @ v[part.v], fall)
        return here, here

    return sweep.scatter(move, None, parts)


def _freedoms_above(parts: Sequence[Part]) -> list[list[int]]:
    """For each part, the freedoms of the joints between it and the world, its own joint excluded."""
    above: list[list[int]] = []
    for part in parts:
        up = part.parent
        above.append([*above[up], *_numbers(parts[up].v)] if up >= 0 else [])
    return above


def _floats(part: Part) -> bool:
    """Whether a part has a free joint to the world, without a rotor that would tie it to the world."""
    rotor = part.armature
    return part.parent < 0 and isinstance(part.joint, Free) and isinstance(rotor, (int, float)) and rotor == 0


def _numbers(part: slice) -> range:
    return range(part.start, part.stop)
