"""A tree ready to be evaluated: a skeleton, what runs its sweeps, and where flat vectors meet fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import SingularSystemError
from whippletree.model import Model
from whippletree.spatial import Pose
from whippletree.tree import kinematics
from whippletree.tree.forward import articulate
from whippletree.tree.links import falling, joint_zeros, moving_links, still_links
from whippletree.tree.skeleton import Place, Skeleton, skeleton
from whippletree.tree.steps import Manifold
from whippletree.tree.sweeps import Field, Sweeper, Unrolled


class Margin(NamedTuple):
    """A number that must be positive for an answer to exist, and that only the state decides."""

    number: int
    """Number of the node whose pivot it is; beyond the nodes, of a way in which constraints can fail."""
    value: Any


class Mechanism:
    """A tree as functions of the catalogue see it. One evaluation makes one mechanism; nothing in it can go stale."""

    def __init__(
        self, tree: Skeleton, sweep: Sweeper | None = None, route: str | None = None, *, reveals: bool = False
    ) -> None:
        """``route``: how the block matrix of constraints is solved; None for the one that the model calls for.
        ``reveals``: whether clusters of loops whose rows depend on each other at a state take the rank-revealing route,
        each for itself; numbers only.
        """
        self.tree = tree
        self.route = route
        self.reveals = reveals
        self.sweep: Sweeper = sweep if sweep is not None else Unrolled(tree.parents)
        self.nodes: Field = tree.nodes
        self.joints: Field = tree.joints
        self.gravity: Array = np.asarray(tree.model.gravity).astype(object)
        self.base = falling(self.gravity)
        self.clustered: Any = None
        """This mechanism as a tree of clusters, where that is not simply unrolled."""
        self._margins: list[Margin] = []
        self._remarks: list[str] = []

    @staticmethod
    def of(model: Model) -> Mechanism:
        """A mechanism of a model, unrolled."""
        return Mechanism(skeleton(model))

    def coordinates(self, q: Array) -> Field:
        """q (nq,) joint by joint: what the pose of each depends on."""
        return [q[part] for part in self.tree.inputs]

    def velocities(self, v: Array) -> Field:
        """v, a or tau (nv,) joint by joint."""
        return [v[part] for part in self.tree.v_slices]

    def join(self, field: Field) -> Array:
        """Vectors of the joints as one (nv,)."""
        return np.concatenate(list(field)) if len(field) else np.zeros(0, dtype=object)

    def among(self, nodes: Sequence[int]) -> Field:
        """Which nodes are among these: a field of truth values."""
        chosen = set(nodes)
        return [k in chosen for k in range(len(self.tree.nodes))]

    def entries(self, flat: Array, numbers: Sequence[int]) -> list[Any]:
        """Single numbers of an input vector."""
        return [flat[i] for i in numbers]

    def pick(self, field: Field, nodes: Sequence[int]) -> list[Any]:
        """The values of a field at single nodes."""
        return [field[k] for k in nodes]

    def spread(self, values: Sequence[Any], nodes: Sequence[int]) -> Field:
        """A field with these values at single nodes, and None elsewhere."""
        found = dict(zip(nodes, values, strict=True))
        return [found.get(k) for k in range(len(self.tree.nodes))]

    def everywhere(self, value: Any) -> Field:
        """A field with one value for all nodes."""
        return [value] * len(self.tree.nodes)

    def still(self, q: Array) -> Field:
        """Links at rest."""
        return still_links(self.sweep, self.nodes, self.coordinates(q))

    def moving(self, q: Array, v: Array) -> Field:
        """Links in motion."""
        return moving_links(self.sweep, self.nodes, self.coordinates(q), self.velocities(v))

    def place(self, frame: str) -> Place:
        """Where a frame is."""
        return self.tree.place(frame)

    def frame_pose(self, links: Field, place: Place) -> Pose:
        """The pose of a frame in the world."""
        return kinematics.pose(self.tree, links, place)

    def frame_twist(self, links: Field, place: Place) -> Array:
        """The twist (6,) of a frame, in its axes."""
        return kinematics.twist(self.tree, links, place)

    def frame_bias(self, links: Field, place: Place) -> Array:
        """The spatial acceleration (6,) of a frame at θ̈ = 0, in its axes, without gravity."""
        return kinematics.jacobian_bias(self.tree, links, place)

    def manifold(self) -> Manifold:
        """How velocities move coordinates."""
        return Manifold([node.joint for node in self.tree.nodes], self.tree.q_slices, self.tree.v_slices)

    @property
    def margins(self) -> tuple[Margin, ...]:
        """Requirements of the evaluation so far."""
        return tuple(self._margins)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for the user on the answer so far."""
        return tuple(self._remarks)

    def require(self, number: int, values: Iterable[Any]) -> None:
        """Let the answer depend on these numbers being positive."""
        self._margins += [Margin(number, value) for value in values]

    def remark(self, text: str) -> None:
        """Tell the user of the answer something about it."""
        self._remarks.append(text)

    def apart(self) -> Mechanism:
        """This mechanism for an evaluation within its own, whose margins are its own."""
        inner = copy(self)
        inner._margins = []
        return inner

    def require_invertible(self, links: Field) -> None:
        """Require inertia of every joint that may lack it, for functions that invert M by another road."""
        if self.tree.doubtful:
            self.require_inertia(articulate(self.sweep, links, joint_zeros(self.sweep, links)))

    def require_inertia(self, freedoms: Field) -> None:
        """Require the pivots that may fail to be positive: those of joints whose own body does not settle it."""
        for k in self.tree.doubtful:
            self.require(k, freedoms[k].pivots)


def singular_motion(tree: Skeleton, node: int) -> SingularSystemError:
    """The error for a joint whose motion has no inertia."""
    joint = tree.joints[node]
    return SingularSystemError(
        f"model {tree.model.name!r}: the motion of {joint.child!r} about joint {joint.name!r} has no inertia and no "
        f"constraint stops it, so its acceleration is not determined. Give {joint.child!r} mass, hold the joint, or "
        f"add the constraint that carries it."
    )
