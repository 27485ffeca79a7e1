"""One time step of a system that touches its world, on any scalar, so that whole roll-outs compile.

    M (v⁺ − v) = h (τ − c) + Aᵀ p + Jᵀ λ        A v⁺ + gₜ = 0        K ∋ λ ⟂ J v⁺ + shift + s ∈ K*        (003, 000)

M and τ include what springs and dampers of the joints do within the step (:mod:`whippletree.contact.implicit_springs`).
Bilateral constraints are met exactly, not as soft rows: G = J M† Jᵀ. The *shift* of the normal velocity is gap / h
while a contact is apart, so that it closes no further than to touch, and nothing where it touches or overlaps: an
overlap is never turned into velocity. Where a contact with restitution e would overlap at the end of the step, the
shift is e times its approach velocity (Newton's law in Moreau's form): a contact at rest stays at rest.

Positions take h v⁺ and, apart from it, a correction M† Jₙᵀ π with 0 ≤ π ⟂ gap + h J v⁺ + G π ≥ 0, which moves apart
what would overlap and brings loops back together. It leaves velocities alone: it adds no kinetic energy. It undoes no
more than ``RELAXATION_SPEED`` · h of an overlap in a step, so that a deep one, which only a start state has, does not
throw bodies about within a single step.

Joint limits are contacts without friction, the dry friction of joints contacts without a normal; all are one problem
(:mod:`whippletree.contact.problem.contact_problem`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select
from whippletree.constraints import dynamics
from whippletree.contact.implicit_springs import forces_of_joints, implicit_links
from whippletree.contact.kinematics.contact_set import ContactSet, contact_set
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.contact_problem import Problem
from whippletree.model import Model
from whippletree.tree import inertia, inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field

CORRECTION_SWEEPS = 2
"""Sweeps of the position correction in a step; what they leave is left to the next step."""


RELAXATION_SPEED = 1
"""m/s or rad/s: how fast overlaps, and joints beyond their range, are moved apart at most. What steps leave by
themselves is of the order of their square, and far below."""


class Axis(NamedTuple):
    """A joint with one freedom that has a limit or dry friction."""

    joint: str
    q: int
    v: int
    lower: Any
    upper: Any
    friction: Any


class Blocks:
    """The blocks of a model's contact problem, in this order: contact candidates, joint limits, joint friction.

    One limit serves both ends of a joint's range: the nearer one. ``limits=False`` leaves them out.
    """

    def __init__(self, model: Model, limits: bool = True) -> None:
        self.model = model
        self.contacts: ContactSet = contact_set(model)
        axes = [
            Axis(joint.name, model.q_slices[k].start, model.v_slices[k].start, joint.lower, joint.upper, joint.friction)
            for k, joint in enumerate(model.joints)
            if joint.type.nv == 1 and joint.type.nq == 1
        ]
        self.limited = [axis for axis in axes if limits and (axis.lower > -np.inf or axis.upper < np.inf)]
        self.rubbing = [axis for axis in axes if axis.friction != 0]

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.contacts.candidates) + len(self.limited) + len(self.rubbing)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each block."""
        return (
            *self.contacts.names,
            *[f"limit {axis.joint}" for axis in self.limited],
            *[f"friction {axis.joint}" for axis in self.rubbing],
        )

    @cached_property
    def friction(self) -> Array:
        """Coulomb's coefficient, (blocks,); 0 for joints."""
        joints = len(self.limited) + len(self.rubbing)
        return np.array([*[c.friction for c in self.contacts.candidates], *[0] * joints], dtype=object)

    @cached_property
    def restitution(self) -> Array:
        """e, (blocks,); limits are plastic."""
        joints = len(self.limited) + len(self.rubbing)
        return np.array([*[c.restitution for c in self.contacts.candidates], *[0] * joints], dtype=object)

    @cached_property
    def couplings(self) -> int:
        """Entries of the Delassus matrix that are not zero in general: the length of an unrolled sweep.

        Two rows couple where the paths from their bodies to the world share a joint, or through constraints.
        """
        carriers = [{c.first_body, c.second_body} for c in self.contacts.candidates]
        children = {joint.name: {joint.child} for joint in self.model.joints}
        paths = [_joints_below(self.model, bodies) for bodies in carriers]
        paths += [_joints_below(self.model, children[axis.joint]) for axis in (*self.limited, *self.rubbing)]
        sizes = np.array([3] * len(carriers) + [1] * (len(paths) - len(carriers)))
        if self.model.constraints:
            return int(sizes.sum() ** 2)
        on = np.array([[joint in path for joint in children] for path in paths], dtype=float).reshape(-1, len(children))
        return int(sizes @ (on @ on.T > 0) @ sizes)

    def cap(self, h: Any) -> Array:
        """Largest impulse of dry friction in a step, (blocks,)."""
        others = len(self.contacts.candidates) + len(self.limited)
        return np.array([*[0] * others, *[h * axis.friction for axis in self.rubbing]], dtype=object)

    def limits(self, q: Array) -> tuple[Array, Array]:
        """Distance to the nearer end of each joint's range, and the sign of the velocity that leads away from it."""
        gaps, signs = [], []
        for axis in self.limited:
            below, above = q[axis.q] - axis.lower, axis.upper - q[axis.q]
            nearer = less(above, below)
            gaps.append(select(nearer, above, below))
            signs.append(select(nearer, -1, 1))
        return np.array(gaps, dtype=object), np.array(signs, dtype=object)

    def rows(self, m: Mechanism, q: Array) -> tuple[Array, Array]:
        """Gaps (blocks,) and J (blocks, 3, nv); joint friction has no gap and gets 0."""
        k, nv = len(self.contacts.candidates), self.model.nv
        J = zeros(self.count, 3, nv)
        gaps = zeros(self.count)
        if k:
            J[:k] = self.contacts.jacobian(m, q).reshape(k, 3, nv)
            gaps[:k] = self.contacts.points(m, q).gap
        distances, signs = self.limits(q)
        for i, axis in enumerate(self.limited, start=k):
            J[i, 0, axis.v], gaps[i] = signs[i - k], distances[i - k]
        for i, axis in enumerate(self.rubbing, start=k + len(self.limited)):
            J[i, 1, axis.v] = 1
        return gaps, J


def _joints_below(model: Model, bodies: set[str]) -> set[str]:
    """Names of the moving joints between some bodies and the world."""
    carrier = {joint.child: joint for joint in model.joints}
    found = set()
    for body in bodies:
        while body in carrier:
            joint = carrier[body]
            found |= {joint.name} if joint.type.nv else set()
            body = joint.parent
    return found


Response: TypeAlias = tuple[Array, ...]
"""M† Jᵀ: the matrix (nv, rows) itself; or, for a tree, J (rows, nv), and L (nv, nv) and D⁻¹ (nv,) of M = Lᵀ D L."""


class Posed(NamedTuple):
    """A step whose impulses are still to be found."""

    problem: Problem
    free: Array
    """Velocity at the end without impulses, (nv,)."""
    gaps: Array
    """m, (blocks,)."""
    shift: Array
    """Of the normal velocities, m/s, (blocks,)."""
    closing: Array
    """Displacement that closes loops, −A†ᵀ g (nv,); zeros without constraints."""
    approach: Array
    """J v, m/s, (blocks, 3)."""
    response: Response
    """What impulses do to the velocities."""


def posed(m: Mechanism, blocks: Blocks, q: Array, v: Array, tau: Array, h: Any, t: Any = 0) -> Posed:
    """The contact problem of a step of length h from (q, v) under joint forces tau, beside springs and dampers."""
    gaps, J = blocks.rows(m, q)
    rows = J.reshape(3 * blocks.count, blocks.model.nv)
    free, G, response, closing = _responses(m, q, v, tau, rows, h, t)
    approach = (rows @ v).reshape(blocks.count, 3)
    shift = shifts(gaps, approach[:, 0], blocks.restitution, h)
    g = (rows @ free).reshape(blocks.count, 3)
    g[:, 0] = g[:, 0] + shift
    shape = (blocks.count, 3, blocks.count, 3)
    problem = Problem(G.reshape(shape), g, blocks.friction, blocks.cap(h))
    return Posed(problem, free, gaps, shift, closing, approach, response)


def shifts(gaps: Array, speeds: Array, restitution: Array, h: Any) -> Array:
    """What is added to the normal velocities (blocks,): gap / h apart, e u⁻ where a bounce is due, 0 in overlap."""
    found, rate = [], 1 / h
    for gap, speed, e in zip(gaps, speeds, restitution, strict=True):
        apart = largest([gap, 0]) * rate
        bounces = both(less(0, e), both(less(gap + h * speed, 0), less(speed, 0)))
        found.append(select(bounces, e * speed, apart))
    return np.array(found, dtype=object)


def _responses(
    m: Mechanism, q: Array, v: Array, tau: Array, J: Array, h: Any, t: Any
) -> tuple[Array, Array, Response, Array]:
    """v + h a without contacts (nv,), J M† Jᵀ (rows, rows), M† Jᵀ, and −A†ᵀ g (nv,)."""
    links = implicit_links(m, m.moving(q, v), h)
    push = h * (tau + forces_of_joints(m, q, v, h) - bias_in_space(m, links, v))
    nv = m.tree.model.nv
    if not m.tree.model.constraints:
        m.require_invertible(links)
        factor = linalg.tree_ltdl(inertia.mass_matrix(m.tree, m.sweep, links), m.tree.velocity_parents, lenient=True)
        half = factor.backward(J.T)
        G = _symmetric(half.T, (half.T * factor.reciprocals).T)
        return v + factor.solve(push), G, (J, factor.L, factor.reciprocals), zeros(nv)
    at = dynamics.closed(m, links, q, v, t, None)
    system = at.system
    soft = np.array([c != 0 for c in system.compliance], dtype=bool)
    # rigid rows end the step at A v⁺ + gₜ = 0; soft ones follow their acceleration
    target = at.rows.velocity()
    if soft.any():
        followed = at.rows.bias() - at.rows.jacobian() @ m.manifold().turning(v)
        target = np.where(soft, h * followed, target)
    change = at.factor.solve(push, at.right(target)).a
    response = at.factor.solve(J.T, zeros(len(at.kept), J.shape[0])).a
    residual = zeros(len(system.row_names))
    residual[list(system.position_rows)] = at.rows.residual()
    residual = np.where(soft, 0, residual)
    return v + change, _symmetric(J, response), (response,), at.factor.solve(zeros(nv), at.right(residual)).a


def bias_in_space(m: Mechanism, links: Field, v: Array) -> Array:
    """The joint forces (nv,) of a motion that keeps its velocities in space: c without what turning axes add to it."""
    still = m.velocities(-m.manifold().turning(v))
    return m.join(inverse.inverse_dynamics(m.sweep, links, still, m.base))


def _symmetric(left: Array, right: Array) -> Array:
    """A product that is known to be symmetric: one triangle is computed."""
    n = len(left)
    G = zeros(n, n)
    for i in range(n):
        for j in range(i, n):
            G[i, j] = G[j, i] = left[i] @ right[:, j]
    return G


def changed(m: Mechanism, response: Response, impulse: Array) -> Array:
    """M† Jᵀ λ (nv,), for impulses λ (rows,)."""
    if len(response) == 1:
        return np.asarray(response[0] @ impulse)
    J, L, reciprocals = response
    return linalg.TreeLTDL(L, zeros(0), reciprocals, m.tree.velocity_parents).solve(J.T @ impulse)


class Stepped(NamedTuple):
    """The end of a step."""

    q: Array
    v: Array
    work: Any
    """Of the impulses, Σ λ · J (v + v⁺) / 2, J."""
    friction_work: Any
    """The tangential part of it."""


def stepped(m: Mechanism, at: Posed, q: Array, impulse: Array, h: Any) -> Stepped:
    """Velocities and coordinates after impulses (blocks, 3)."""
    n = 3 * at.problem.blocks
    v = at.free + changed(m, at.response, impulse.reshape(n))
    u = at.problem.velocity(impulse)
    u[:, 0] = u[:, 0] - at.shift
    works = (u + at.approach) * impulse / 2
    normal = at.problem.G[:, 0, :, 0]
    push = zeros(at.problem.blocks, 3)
    left = [largest([gap, -h * RELAXATION_SPEED]) for gap in at.gaps + h * u[:, 0]]
    push[:, 0] = separation(normal, np.array(left, dtype=object), CORRECTION_SWEEPS)
    moved = h * v + at.closing + changed(m, at.response, push.reshape(n))
    return Stepped(*m.manifold().straight(q, v, moved), works.sum(), works[:, 1:].sum())


def separation(G: Array, gaps: Array, sweeps: int) -> Array:
    """π (blocks,) with 0 ≤ π ⟂ gaps + G π ≥ 0 after a number of sweeps; blocks that nothing moves carry nothing."""
    count = len(gaps)
    push = zeros(count)
    some = [less(0, G[i, i]) for i in range(count)]
    inverse = [select(some[i], 1 / select(some[i], G[i, i], 1), 0) for i in range(count)]
    for _ in range(sweeps):
        for i in range(count):
            others: Any = gaps[i]
            for j in range(count):
                if j != i:
                    others = others + G[i, j] * push[j]
            push[i] = largest([-others * inverse[i], 0])
    return push
