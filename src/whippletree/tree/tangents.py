"""Effects of small displacements of q and v on a tree: to its joint forces, and to the motion of its frames.

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

A frame beyond joint j, with the twist V in its own axes, sees (all that it inherits turns back with the world):

    ∂V/∂qⱼ = Ṡⱼ⁻        ∂α/∂qⱼ = S̈ⱼ⁻ − V × Ṡⱼ⁻        ∂V/∂vⱼ = Sⱼ        ∂α/∂vⱼ = Ṡⱼ⁻ + Ṡⱼ − V × Sⱼ        ∂α/∂aⱼ = Sⱼ

What a joint contributes is written down where the joint is met on the way in, limb by limb: the order of a trace is the
order of the machine, and the numbers of one limb fit into a cache that those of a humanoid do not fit into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.spatial import Pose, RigidInertia, add_cross_force, add_cross_motion, cross_motion, join, skew
from whippletree.spatial.joints import Free
from whippletree.tree.links import falling
from whippletree.tree.moments import Coriolis, Flow, Moments
from whippletree.tree.reduced_inertia import MovingPart, parts
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field, Sweeper, Unrolled, add


class Moving(NamedTuple):
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
    root: Pose
    """The root part, in the world."""


class TangentFreedom(NamedTuple):
    """One column of a joint's subspace; all are spatial motions (6,)."""

    S: Array
    carried: Array
    """Ṡ⁻ = V⁻ × S."""
    swing: Array
    """Ṡ⁻ + Ṡ."""


class TangentBody(NamedTuple):
    """A part, and all that is beyond its joint."""

    own: RigidInertia
    momentum: Array
    """Momentum of the part alone, (6,)."""
    R: RigidInertia
    B: Coriolis


class AccelerationTerms(NamedTuple):
    """Consequences of joint accelerations; all in the frames of the trees' root parts, gravity included."""

    behind: list[Array]
    """α of every part, (6,)."""
    second: list[Array]
    """S̈⁻ of every freedom, (6,)."""


class FrameTangents(NamedTuple):
    """A frame in motion, and what small displacements of q and v do to it."""

    X: Pose
    """In the world."""
    within: Pose
    """In the root part of its tree, whose axes the columns of ``freedoms`` have."""
    V: Array
    """Twist, in the frame's axes, (6,)."""
    alpha: Array
    """Spatial acceleration without gravity, in the frame's axes, (6,)."""
    base: Array
    """The acceleration of the world, −g, in the root part's axes, (6,)."""
    freedoms: list[int]
    """The velocities that move it."""


class Tangents:
    """A tree at one q and v: what its parts do, the sums over their subtrees, and M and ∂τ/∂v (nv, nv).

    ``without_floating``: the columns of a freely floating root lack M times a motion that the whole tree shares.
    Whoever solves with M, and with rows that are moved by the same freedoms, may leave it out of all of them and add
    that motion to the answer (:meth:`floating`).
    """

    def __init__(self, tree: Skeleton, q: Array, v: Array, *, without_floating: bool = False) -> None:
        self.parts = parts(tree)
        self._part_of_node = {part.node: k for k, part in enumerate(self.parts)}
        self.v = v
        self.sweep: Sweeper = Unrolled([part.parent for part in self.parts])
        self.moving = _moving(self.sweep, self.parts, q, v, falling(np.asarray(tree.model.gravity).astype(object)))
        self.left_out = [without_floating and _floats(part) for part in self.parts for _ in _numbers(part.v)]
        self.freedoms = self._freedoms()
        self.columns = [join(f.S[:3], f.swing) for f in self.freedoms]
        self.above = _freedoms_above(self.parts)
        self.rows: list[Array] = [zeros(9)] * len(v)
        """(2 Sᵀ B, R S): what meets an angular velocity and an acceleration of all that is beyond, (9,) each."""
        self.M, self.dv = zeros(len(v), len(v)), zeros(len(v), len(v))
        nothing = (*Moments.nothing(), *Flow.nothing())
        self.bodies = self.sweep.gather(self._collect, nothing, range(len(self.parts)))

    def _freedoms(self) -> list[TangentFreedom]:
        """Every freedom of every joint, in the order of v."""
        result: list[TangentFreedom] = []
        for at in self.moving:
            for S in at.H.T:
                carried = cross_motion(at.before, S)
                # a single freedom adds nothing to its own rate: Ṡ = Ṡ⁻
                swing = 2 * carried if at.H.shape[1] == 1 else cross_motion(at.before + at.V, S)
                result.append(TangentFreedom(S, carried, zeros(6) if self.left_out[len(result)] else swing))
        return result

    def _collect(self, children: Any, k: int) -> tuple[Any, TangentBody]:
        """On the way in: the sums over all that is beyond joint k, then the entries of M and ∂τ/∂v that it has."""
        part, at = self.parts[k], self.moving[k]
        own = part.moments.transform(at.pose)
        flow = own.flow(at.V)
        total = add(children, (*own, *flow))
        R, B = Moments(*total[:3]).rigid(), Coriolis.of(Flow(*total[3:5]))
        for i in _numbers(part.v):
            S = self.freedoms[i].S
            self.rows[i] = join(2 * B.along(S), R @ S)
            for j in [*self.above[k], *range(part.v.start, i + 1)]:
                self.M[i, j] = self.M[j, i] = self.rows[i][3:] @ self.freedoms[j].S
            self.M[i, i] = self.M[i, i] + part.armature
        wrenches = [B.add_moment(R @ f.swing, 2 * f.S[:3]) for f in self.freedoms[part.v]]
        self._relate(self.dv, k, self.columns, wrenches)
        if part.turns:  # of the rotor's force J ω × v
            w, linear = self.v[part.v][:3], self.v[part.v][3:]
            rows = slice(part.v.start + 3, part.v.stop)
            self.dv[rows, part.v] = self.dv[rows, part.v] + part.armature * np.hstack([-skew(linear), skew(w)])
        return total, TangentBody(own.rigid(), flow.wrench(), R, B)

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

    def accelerate(self, a: Array) -> AccelerationTerms:
        """Additions of the joint accelerations a (nv,) to the state."""
        behind: list[Array] = []
        second = [zeros(6)] * len(a)
        for part, at in zip(self.parts, self.moving, strict=True):
            alpha = before = behind[part.parent] if part.parent >= 0 else at.base
            for i in _numbers(part.v):
                S, carried, _ = self.freedoms[i]
                alpha = alpha + S * a[i] + carried * self.v[i]
                if not self.left_out[i]:
                    second[i] = add_cross_motion(cross_motion(before, S), at.before, carried)
            behind.append(alpha)
        return AccelerationTerms(behind, second)

    def position_derivatives(self, motion: AccelerationTerms, wrenches: Field | None = None) -> Array:
        """∂τ/∂q (nv, nv) at some accelerations, under wrenches (6,) that are fixed to their nodes."""
        dq = zeros(len(self.v), len(self.v))
        second = motion.second
        columns = [join(f.carried[:3], rate) for f, rate in zip(self.freedoms, second, strict=True)]

        def collect(children: Array, k: int) -> tuple[Array, None]:
            at, body = self.moving[k], self.bodies[k]
            f = children + add_cross_force(body.own @ motion.behind[k], at.V, body.momentum) - self._push(k, wrenches)
            pulls = []
            for i in _numbers(self.parts[k].v):
                S, carried, _ = self.freedoms[i]
                moved = body.B.add_moment(body.R @ second[i], 2 * carried[:3])
                pulls.append(add_cross_force(moved, S, f))
            self._relate(dq, k, columns, pulls)
            return f, None

        self.sweep.gather(collect, zeros(6), range(len(self.parts)))
        return dq

    def _push(self, k: int, wrenches: Field | None) -> Array:
        """The external wrench on one part, in the frame of its tree's root part, (6,)."""
        node = self.parts[k].node
        return zeros(6) if wrenches is None or node < 0 else self.moving[k].pose.force(wrenches[node])

    def bias(self, wrenches: Field | None = None) -> Array:
        """The joint forces (nv,) at a = 0; those of the velocities are quadratic, so half of (∂τ/∂v) v."""
        result = self.dv @ (self.v / 2)

        def collect(children: Array, k: int) -> tuple[Array, None]:
            push = children + self._push(k, wrenches)
            for i in _numbers(self.parts[k].v):
                result[i] = result[i] + (self.rows[i][3:] @ self.moving[k].base - self.freedoms[i].S @ push)
            return push, None

        self.sweep.gather(collect, zeros(6), range(len(self.parts)))
        return result

    def floating(self) -> tuple[Array, Array]:
        """The accelerations (nv, nv) that ∂a/∂q and ∂a/∂v lack if they were solved for without floating roots."""
        n = len(self.v)
        dq, dv = zeros(n, n), zeros(n, n)
        for part, at in zip(self.parts, self.moving, strict=True):
            for i, S in zip(_numbers(part.v), at.H.T, strict=True):
                if self.left_out[i]:
                    dq[part.v, i], dv[part.v, i] = -cross_motion(at.base, S), -cross_motion(at.V, S)
        return dq, dv

    def frame(self, place: Place, motion: AccelerationTerms) -> FrameTangents:
        """A frame of the tree, moving as its part does."""
        if place.node < 0:
            return FrameTangents(place.pose, Pose.identity(), zeros(6), zeros(6), zeros(6), [])
        k = self._part_of_node[place.node]
        at = self.moving[k]
        within = at.pose @ place.pose
        alpha = within.motion(motion.behind[k] - at.base)
        freedoms = [*self.above[k], *_numbers(self.parts[k].v)]
        return FrameTangents(at.root @ within, within, within.motion(at.V), alpha, at.base, freedoms)


def _moving(sweep: Sweeper, parts: Sequence[MovingPart], q: Array, v: Array, base: Array) -> Field:
    def move(parent: Any, part: MovingPart) -> tuple[Moving, Moving]:
        X = part.joint.pose(q[part.q])
        if parent is None:
            root = part.placement @ X
            pose, before, fall = Pose.identity(), zeros(6), root.motion(base)
        else:
            pose, before, fall, root = parent.pose @ part.placement @ X, parent.V, parent.base, parent.root
        H = np.stack([pose.motion_back(S) for S in part.joint.subspace(q[part.q]).T], axis=1)
        here = Moving(pose, H, before, before + H @ v[part.v], fall, root)
        return here, here

    return sweep.scatter(move, None, parts)


def _freedoms_above(parts: Sequence[MovingPart]) -> list[list[int]]:
    """For each part, the freedoms of the joints between it and the world, its own joint excluded."""
    above: list[list[int]] = []
    for part in parts:
        up = part.parent
        above.append([*above[up], *_numbers(parts[up].v)] if up >= 0 else [])
    return above


def _floats(part: MovingPart) -> bool:
    """Whether a part has a free joint to the world, without a rotor that would tie it to the world."""
    return part.parent < 0 and isinstance(part.joint, Free) and is_zero(part.armature)


def _numbers(part: slice) -> range:
    return range(part.start, part.stop)
