"""Rows of the constraints of a long system, from the few nodes that they hold on to.

What :mod:`whippletree.constraints.rows` says of every model, for sweeps: a row sees the poses, twists and accelerations
of single nodes, picked out of one outward pass, and its Jacobian is never formed. Instead of A stands what the rows do
to each of these nodes: wrenches on its body, and forces on its joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.moving_residuals import (
    frame_acceleration,
    frame_coefficients,
    joint_acceleration,
    joint_coefficients,
)
from whippletree.constraints.rows import FrameRows, JointRows, Prepared, frame_places, tied_nodes
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.model import Model
from whippletree.spatial import Pose
from whippletree.tree.links import Link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field

SWEPT = 1_000
"""Multiplications of the tree-sparse factor of M, Σ depth² / 2, from which on sweeps without M take fewer operations
(counted: a humanoid in contact 5 to 13 % fewer, a chain of 48 joints a quarter) and keep more digits."""

LOOPED = 25_000
"""Cost from which on sweeps may run as loops over bodies: a chain of 54 joints."""


def fits(system: ConstraintSet) -> bool:
    """Whether all rows hold on to single bodies or joints, so that sweeps are enough."""
    return all(c.demand.on in ("frames", "joints") for c in system.demands)


def is_swept(model: Model) -> bool:
    """Whether constrained dynamics of a model is solved by sweeps alone.

    They need inertia in every joint: a shorter system with massless links is left to the routes that factor a matrix.
    """
    return _costs(model, SWEPT) and _has_inertia(model)


def is_long(model: Model) -> bool:
    """Whether these sweeps may run as loops over bodies."""
    return _costs(model, LOOPED) and _has_inertia(model) and not model.is_flexible


def holds_few(model: Model) -> bool:
    """Whether rows are better worked out from the few nodes that they hold on to, whatever the masses."""
    return _costs(model, LOOPED) and fits(constraint_set(model))


def _costs(model: Model, limit: float) -> bool:
    return model.nv > LONG_SYSTEM or (model.origin is None and factor_cost(model) > limit)


def _has_inertia(model: Model) -> bool:
    system = constraint_set(model)
    return fits(system) and (model.nv > LONG_SYSTEM or not system.light)


def factor_cost(model: Model) -> float:
    """Σ depth² / 2 over all velocities: multiplications that a tree-sparse factor of M takes."""
    depth: dict[str, int] = {}
    total = 0
    for joint, kind in zip(model.joints, model.joint_types, strict=True):
        above = depth.get(joint.parent, 0)
        depth[joint.child] = above + kind.nv
        total += sum(d * d for d in range(above + 1, above + kind.nv + 1))
    return total / 2


def held_nodes(tree: Skeleton, system: ConstraintSet) -> tuple[int, ...]:
    """The nodes that rows hold on to, in order."""
    frames = {place.node for c in system.demands for place in frame_places(tree, c)}
    return tuple(sorted((frames | {k for c in system.demands for k in tied_nodes(tree, c)}) - {-1}))


class Sighted(NamedTuple):
    """A node that constraints hold on to: its pose in the world, twist (6,), and acceleration at θ̈ = 0 (6,)."""

    X: Pose
    V: Any
    alpha: Any


WORLD = Sighted(Pose.identity(), zeros(6), zeros(6))


class Moved(NamedTuple):
    """How a node moves: its acceleration (6,), and that of its joint if it has one freedom."""

    alpha: Array
    qdd: Any


def sight_nodes(m: Mechanism, links: Field) -> Field:
    """Every node as rows see it; of links at rest, its pose alone."""

    def carry(parent: tuple[Pose, Array], link: Link) -> tuple[tuple[Pose, Array], Sighted]:
        X, alpha = parent[0] @ link.X, link.X.motion(parent[1]) + link.a  # type: ignore[operator]
        return (X, alpha), Sighted(X, link.V, alpha)

    return m.sweep.scatter(carry, (Pose.identity(), zeros(6)), links)


class Pulls(NamedTuple):
    """Effect of the rows on one node: a wrench (m, 6) in its frame, and a force on its joint (m,), per unit force."""

    wrench: Array
    effort: Array


class LongRows:
    """The rows at one state; each quantity is computed when it is asked for."""

    def __init__(self, m: Mechanism, system: ConstraintSet, seen: Field, q: Any, v: Any, t: Any) -> None:
        """``seen`` as :func:`sight_nodes`; v, and links in motion, are needed for velocity and bias only."""
        self.count = len(system.row_names)
        self.nodes = held_nodes(m.tree, system)
        at = dict(zip(self.nodes, m.pick(seen, self.nodes), strict=True)) | {-1: WORLD}
        self._parts = [
            _PickedRows(m, c, at, t) if c.demand.on == "frames" else _TiedRows(m, c, q, v, t) for c in system.demands
        ]

    def pulls(self) -> list[Pulls]:
        """Effects of all rows on the nodes that they hold, in the order of ``nodes``."""
        pulls = {node: Pulls(zeros(self.count, 6), zeros(self.count)) for node in self.nodes}
        start = 0
        for part in self._parts:
            rows = slice(start, start + len(part.demand.rows))
            part.add_pulls(pulls, rows)
            start = rows.stop
        return list(pulls.values())

    def residual(self) -> Array:
        """g of the position rows, (p,)."""
        return np.concatenate([zeros(0), *[p.residual() for p in self._parts if p.demand.level == "position"]])

    def velocity(self) -> Array:
        """A v + gₜ (m,)."""
        return np.concatenate([zeros(0), *[p.velocity() for p in self._parts]])

    def bias(self) -> Array:
        """γ (m,)."""
        return np.concatenate([zeros(0), *[p.bias() for p in self._parts]])

    def acceleration(self, nodes: Sequence[Moved]) -> Array:
        """A a + γ (m,), of nodes that move so, in the order of ``nodes``."""
        at = dict(zip(self.nodes, nodes, strict=True)) | {-1: Moved(zeros(6), 0)}
        return np.concatenate([zeros(0), *[p.acceleration(at) for p in self._parts]])


class _PickedRows(FrameRows):
    """Rows on frames of nodes that have been picked out."""

    def __init__(self, m: Mechanism, c: Prepared, at: dict[int, Sighted], t: Any) -> None:
        self.places: Sequence[Place] = frame_places(m.tree, c)
        self.at: Sequence[Sighted] = [at[place.node] for place in self.places]
        super().__init__(c.demand, [own.X @ place.pose for own, place in zip(self.at, self.places, strict=True)], t)

    def add_pulls(self, pulls: dict[int, Pulls], rows: slice) -> None:
        for i, place in enumerate(self.places):
            if place.node >= 0:
                G = frame_coefficients(self.demand, self.poses, i, self.t)
                wrench = pulls[place.node].wrench
                wrench[rows] = wrench[rows] + np.stack([place.pose.force(g) for g in G])

    def acceleration(self, at: dict[int, Moved]) -> Array:
        rates = [place.pose.motion(at[place.node].alpha) for place in self.places]
        return frame_acceleration(self.demand, self.poses, self.twists(), rates, self.t)

    def twists(self) -> list[Array]:
        return [place.pose.motion(own.V) for own, place in zip(self.at, self.places, strict=True)]

    def rates(self) -> list[Array]:
        return [place.pose.motion(own.alpha) for own, place in zip(self.at, self.places, strict=True)]


class _TiedRows(JointRows):
    """Rows on joints whose coordinates have been picked out."""

    def __init__(self, m: Mechanism, c: Prepared, q: Any, v: Any, t: Any) -> None:
        model = m.tree.model
        self.nodes = tied_nodes(m.tree, c)
        x = m.entries(q, [model.q_slice(name).start for name in c.constraint.on])
        rates = m.entries(v, [model.slice(name).start for name in c.constraint.on]) if v is not None else []
        super().__init__(c.demand, x, rates, t)

    def acceleration(self, at: dict[int, Moved]) -> Array:
        changes = [at[node].qdd for node in self.nodes]
        return joint_acceleration(self.demand, self.x, self.rates, changes, self.t)

    def add_pulls(self, pulls: dict[int, Pulls], rows: slice) -> None:
        for i, node in enumerate(self.nodes):
            effort = pulls[node].effort
            effort[rows] = effort[rows] + joint_coefficients(self.demand, self.x, i, self.t)
