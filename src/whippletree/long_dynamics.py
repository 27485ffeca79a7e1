"""Constrained dynamics of long systems by sweeps alone: O(N m + m³), and as loops over bodies when compiled.

The factorisation of document 002, M = (1 + H φ K) D (1 + H φ K)*, turns every inner product with M⁻¹ into a plain sum
over joints: with ε the joint forces that one inward pass of the articulated recursion leaves over of b,

    b₁ᵀ M⁻¹ b₂ = Σ ε₁ᵀ D⁻¹ ε₂          so          A M⁻¹ Aᵀ = Σ E D⁻¹ Eᵀ    and    A M⁻¹ (τ − c) = Σ E D⁻¹ ε

where E (m, n) is what the same pass leaves of the m rows of A, carried along as m more right-hand sides: wrenches on
the frames that constraints hold, and forces on the joints that they tie. So no column of M⁻¹ Aᵀ is ever formed:

    outwards   links, poses and accelerations at θ̈ = 0; the few that rows need are picked out
    inwards    P, z and the m columns; the sums above
    once       (A M⁻¹ Aᵀ + C) f = −(γ + A M⁻¹ (τ − c)), m³
    outwards   θ̈ = D⁻¹ (ε + Eᵀ f) − Kᵀ α

Gravity and the accelerations at θ̈ = 0 act as wrenches on every body here: the sums must see all of c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree import linalg
from whippletree.constraints.rows import (
    Prepared,
    frame_acceleration,
    frame_coefficients,
    joint_acceleration,
    joint_coefficients,
)
from whippletree.constraints.system import LONG, ConstraintSet, constraint_set
from whippletree.model import Model
from whippletree.spatial import Array, Pose, join, symmetric, zeros
from whippletree.sweeps import Field
from whippletree.tree.forward import split_inertia
from whippletree.tree.links import Link, dense
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton


class Sighted(NamedTuple):
    """A node that constraints hold on to: its pose in the world, twist (6,), and acceleration at θ̈ = 0 (6,)."""

    X: Pose
    V: Array
    alpha: Array


class Pulls(NamedTuple):
    """What the rows do to one node: a wrench (m, 6) in its frame, and a force on its joint (m,), per unit force."""

    wrench: Array
    effort: Array


class LongSolution(NamedTuple):
    """Accelerations as a field, forces of the factored rows, and what tells whether they can be trusted."""

    a: Field
    f: Array
    complement: linalg.LDLT
    diagonal: Array
    """Of A M⁻¹ Aᵀ + C, (m,)."""
    squares: Array
    """|Aᵢ|² of the factored rows, (m,)."""


def fits(system: ConstraintSet) -> bool:
    """Whether all rows hold on to single bodies or joints, so that sweeps are enough."""
    return all(c.demand.on in ("frames", "joints") for c in system.demands)


def is_long(model: Model) -> bool:
    """Whether constrained dynamics of a model is solved here."""
    return model.nv > LONG and fits(constraint_set(model))


def held_nodes(tree: Skeleton, system: ConstraintSet) -> tuple[int, ...]:
    """The nodes that rows hold on to, in order."""
    frames = {tree.place(name).node for c in system.demands if c.demand.on == "frames" for name in c.constraint.on}
    return tuple(sorted((frames | {k for c in system.demands for k in _tied_nodes(tree, c)}) - {-1}))


def _tied_nodes(tree: Skeleton, c: Prepared) -> list[int]:
    if c.demand.on != "joints":
        return []
    return [tree.bodies[tree.model.joints[tree.model.joint_index(name)].child].node for name in c.constraint.on]


def solve(
    m: Mechanism,
    system: ConstraintSet,
    inputs: tuple[Any, Any, Any, Any],
    kept: Sequence[int],
    corner: Array,
    mask: Array | None,
) -> LongSolution:
    """Accelerations and forces of the rows ``kept``; ``inputs`` are q, v, tau and t.

    ``corner`` (k,) is the diagonal of C, with 1 for rows that are switched off (``mask`` 0).
    """
    q, v, tau, t = inputs
    nodes = held_nodes(m.tree, system)
    links = m.moving(q, v)
    sighted = _sighted(m, links)
    pulls, gamma = _rows(m, system, nodes, m.pick(sighted, nodes), (q, v, t))
    on = np.ones(len(kept), dtype=int).astype(object) if mask is None else mask
    chosen = [Pulls((p.wrench[kept].T * on).T, p.effort[kept] * on) for p in pulls]
    freed = _inwards(m, _loaded(m, links, sighted), m.velocities(tau), m.spread(chosen, nodes), len(kept))
    m.require_inertia(freed)
    S, s, squares = _sums(m, freed, len(kept))
    S = S + np.diag(corner)
    factor = linalg.ldlt(S, lenient=True)
    f = factor.solve(-gamma[kept] * on - s)
    return LongSolution(_outwards(m, links, freed, m.everywhere(f)), f, factor, np.diag(S), squares)


# --- outwards: what the rows see --------------------------------------------------------------------------------------


def _sighted(m: Mechanism, links: Field) -> Field:
    def carry(parent: tuple[Pose, Array], link: Link) -> tuple[tuple[Pose, Array], Sighted]:
        X, alpha = parent[0] @ link.X, link.X.motion(parent[1]) + link.a  # type: ignore[operator]
        return (X, alpha), Sighted(X, link.V, alpha)

    return m.sweep.scatter(carry, (Pose.identity(), zeros(6)), links)


def _loaded(m: Mechanism, links: Field, sighted: Field) -> Field:
    """The links with the whole wrench at θ̈ = 0 as their b: gravity and centrifugal terms with it."""

    def load(link: Link, at: Sighted) -> Link:
        return link._replace(b=link.b + link.M @ (at.alpha + at.X.motion(m.base)))

    return m.sweep.map(load, links, sighted)


def _rows(
    m: Mechanism, system: ConstraintSet, nodes: Sequence[int], sighted: Sequence[Sighted], state: tuple[Any, Any, Any]
) -> tuple[list[Pulls], Array]:
    """The pulls of all rows on the nodes that they hold, and γ (m,)."""
    count = len(system.row_names)
    pulls = [Pulls(zeros(count, 6), zeros(count)) for _ in nodes]
    slot = {node: k for k, node in enumerate(nodes)}
    biases = [zeros(0)]
    start = 0
    for c in system.demands:
        rows = slice(start, start + len(c.demand.rows))
        add = _frame_rows if c.demand.on == "frames" else _joint_rows
        biases.append(add(m, c, rows, slot, sighted, pulls, state))
        start = rows.stop
    return pulls, np.concatenate(biases)


def _frame_rows(
    m: Mechanism, c: Prepared, rows: slice, slot: dict[int, int], sighted: Sequence[Sighted], pulls: list[Pulls],
    state: tuple[Any, Any, Any],
) -> Array:  # fmt: skip
    """Add the wrenches of a demand on frames; return its bias."""
    t = state[2]
    places = [m.place(name) for name in c.constraint.on]
    at = [sighted[slot[p.node]] if p.node >= 0 else Sighted(Pose.identity(), zeros(6), zeros(6)) for p in places]
    poses = [own.X @ place.pose for own, place in zip(at, places, strict=True)]
    for i, place in enumerate(places):
        if place.node >= 0:
            G = frame_coefficients(c.demand, poses, i, t)
            wrench = pulls[slot[place.node]].wrench
            wrench[rows] = wrench[rows] + np.stack([place.pose.force(g) for g in G])
    twists = [place.pose.motion(own.V) for own, place in zip(at, places, strict=True)]
    rates = [place.pose.motion(own.alpha) for own, place in zip(at, places, strict=True)]
    return frame_acceleration(c.demand, poses, twists, rates, t)


def _joint_rows(
    m: Mechanism, c: Prepared, rows: slice, slot: dict[int, int], sighted: Sequence[Sighted], pulls: list[Pulls],
    state: tuple[Any, Any, Any],
) -> Array:  # fmt: skip
    """Add the efforts of a demand on joints; return its bias."""
    q, v, t = state
    model = m.tree.model
    x = m.entries(q, [model.q_slice(name).start for name in c.constraint.on])
    rates = m.entries(v, [model.slice(name).start for name in c.constraint.on])
    for i, node in enumerate(_tied_nodes(m.tree, c)):
        effort = pulls[slot[node]].effort
        effort[rows] = effort[rows] + joint_coefficients(c.demand, x, i, t)
    return joint_acceleration(c.demand, x, rates, [0] * len(x), t)


# --- inwards: what is left for each joint -----------------------------------------------------------------------------


class Inward(NamedTuple):
    """What travels inwards: articulated inertia, bias wrench, and the rows' pulls (m, 6), eliminated and plain."""

    P: Any
    z: Any
    C: Any
    plain: Any


class Freed(NamedTuple):
    """What a joint keeps."""

    K: Array
    pivots: Array
    nu: Array
    """D⁻¹ ε, (n,)."""
    E: Array
    """What the elimination leaves of every row, (m, n)."""
    N: Array
    """D⁻¹ Eᵀ, (n, m)."""
    epsilon: Array
    A: Array
    """The joint's columns of A, (m, n)."""


def _inwards(m: Mechanism, links: Field, tau: Field, pulls: Field, count: int) -> Field:
    def eliminate(children: Inward, link: Link, tau: Array, pull: Pulls | None) -> tuple[Inward, Freed]:
        size, n = link.H.shape
        P, z = dense(link.M) + children.P, zeros(size) + link.b + children.z
        C, plain = zeros(count, size) + children.C, zeros(count, size) + children.plain
        efforts = zeros(count, n)
        if pull is not None:
            C, plain = C - pull.wrench, plain - pull.wrench
            # rows on joints tie joints of one freedom only
            efforts = pull.effort.reshape(count, 1) if n == 1 else efforts
        K, D, rest = split_inertia(P, link.H, link.J)
        epsilon, E = tau - link.H.T @ z, efforts - C @ link.H
        message = Inward(
            link.X.inertia(rest),
            link.X.force(z + K @ epsilon),
            _each(link.X.force, C + E @ K.T),
            _each(link.X.force, plain),
        )
        return message, Freed(K, D.pivots, D.solve(epsilon), E, D.solve(E.T), epsilon, efforts - plain @ link.H)

    nothing = Inward(0, 0, 0, 0)
    return m.sweep.gather(eliminate, nothing, links, tau, pulls)


def _sums(m: Mechanism, freed: Field, count: int) -> tuple[Array, Array, Array]:
    """A M⁻¹ Aᵀ (m, m), A M⁻¹ (τ − c) (m,) and |Aᵢ|² (m,)."""
    upper = [(i, j) for i in range(count) for j in range(i, count)]

    def share(own: Freed) -> Array:
        pairs = [own.E[i] @ own.N[:, j] for i, j in upper]
        return join(np.array(pairs, dtype=object), join(own.N.T @ own.epsilon, np.array([a @ a for a in own.A])))

    total = m.sweep.total(share, zeros(len(upper) + 2 * count), freed)
    S = zeros(count, count)
    for (i, j), x in zip(upper, total, strict=False):
        S[i, j] = x
    return symmetric(S), total[len(upper) : len(upper) + count], total[len(upper) + count :]


def _outwards(m: Mechanism, links: Field, freed: Field, f: Field) -> Field:
    def move(parent: Array, link: Link, own: Freed, f: Array) -> tuple[Array, Array]:
        alpha = link.X.motion(parent)
        qdd = own.nu + own.N @ f - own.K.T @ alpha
        return alpha + link.H @ qdd, qdd

    return m.sweep.scatter(move, zeros(6), links, freed, f)


def _each(function: Any, rows: Array) -> Array:
    """The function of every row, (m, 6)."""
    return np.stack([function(row) for row in rows]) if len(rows) else rows
