"""Where all bodies of a tree are and how they can move, at one state in plain numbers: like joints at once.

The joints are those of :mod:`whippletree.spatial.joints`, on lanes, one lane per body. Bodies that hang equally deep on
equal joints are found together, so that a pile of a thousand free bodies costs as many operations in Python as one
does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.lanes import lanes_of_columns, plain
from whippletree.spatial.joints import JointType
from whippletree.tree.skeleton import Skeleton


class _Alike(NamedTuple):
    """Nodes at the same depth on equal joints."""

    joint: JointType
    nodes: Array
    parents: Array
    q: Array
    """Coordinates of the nodes, (nodes, nq)."""
    v: Array
    """Velocities of the nodes, (nodes, nv)."""
    placement: Array
    """Poses of the joints in the parents, (nodes, 3, 4)."""


class Postures:
    """Numbers of a tree that do not depend on the state."""

    def __init__(self, tree: Skeleton) -> None:
        self.tree = tree
        members: dict[Any, list[int]] = {}
        depths: dict[int, int] = {-1: 0}
        for k, (parent, node) in enumerate(zip(tree.parents, tree.nodes, strict=True)):
            depths[k] = depths[parent] + 1
            numbers = tuple(np.asarray(x, dtype=float).tobytes() for x in getattr(node.joint, "__dict__", {}).values())
            members.setdefault((depths[k], type(node.joint), numbers), []).append(k)
        self.alike = [self._alike(members[key]) for key in sorted(members, key=lambda key: key[0])]
        paths = [
            sorted(j for k in tree.path(node) for j in _range(tree.v_slices[k])) for node in range(len(tree.nodes))
        ]
        self.first_column = np.cumsum([0, *map(len, paths), 0])
        """Where the columns of each node begin, and last those of the world, which has none; (nodes + 2,)."""
        self.columns = np.array([j for path in paths for j in path], dtype=int)
        """The velocities that move each node, one node after the other."""

    def _alike(self, nodes: list[int]) -> _Alike:
        tree = self.tree
        q, v = (np.array([_range(part[k]) for k in nodes], dtype=int) for part in (tree.q_slices, tree.v_slices))
        places = [tree.nodes[k].placement for k in nodes]
        placement = np.array([np.column_stack([X.R, X.p]) for X in places], dtype=float)
        parents = np.array([tree.parents[k] for k in nodes])
        return _Alike(tree.nodes[nodes[0]].joint, np.array(nodes), parents, q, v, placement)


def _range(part: slice) -> range:
    return range(part.start, part.stop)


class Posture:
    """A tree at one state. The last of the nodes is the world."""

    def __init__(self, postures: Postures, q: Array) -> None:
        tree = postures.tree
        count, nv = len(tree.nodes) + 1, tree.model.nv
        self.postures = postures
        self.R, self.p = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3))
        """Of the nodes in the world, (nodes + 1, 3, 3) and (nodes + 1, 3)."""
        self.turns, self.slides, self.origins = np.zeros((nv, 3)), np.zeros((nv, 3)), np.zeros((nv, 3))
        """Of each velocity, in the world: what the body turns and how its origin moves, and that origin, (nv, 3)."""
        for own in postures.alike:
            self._place(own, lanes_of_columns(q[own.q]) if own.q.size else np.zeros(0, dtype=object))

    def _place(self, own: _Alike, q: Array) -> None:
        n, X = len(own.nodes), own.joint.pose(q)
        placed, inner = own.placement[:, :, :3], _stack_lanes(X.R, n)
        parent = self.R[own.parents]
        R = self.R[own.nodes] = parent @ placed @ inner
        offset = own.placement[:, :, 3] + _times(placed, _stack_lanes(X.p, n))
        p = self.p[own.nodes] = self.p[own.parents] + _times(parent, offset)
        motions = R[:, None] @ _stack_lanes(own.joint.subspace(q), n).reshape(n, 2, 3, -1)
        self.turns[own.v], self.slides[own.v] = np.moveaxis(motions, (1, 3), (0, 2))
        self.origins[own.v] = p[:, None]

    def twists(self, v: Array) -> tuple[Array, Array]:
        """Angular velocities of the nodes and velocities of their origins in the world at v (nv,), (nodes + 1, 3)."""
        turning, moving = np.zeros_like(self.p), np.zeros_like(self.p)
        for own in self.postures.alike:
            spin, arm = turning[own.parents], self.p[own.nodes] - self.p[own.parents]
            speeds = v[own.v][:, :, None]
            turning[own.nodes] = spin + (speeds * self.turns[own.v]).sum(axis=1)
            carried = moving[own.parents] + np.cross(spin, arm)
            moving[own.nodes] = carried + (speeds * self.slides[own.v]).sum(axis=1)
        return turning, moving

    @cached_property
    def _counts(self) -> Array:
        return np.diff(self.postures.first_column)

    def point_rows(self, nodes: Array, points: Array, axes: Array) -> tuple[Array, Array, Array]:
        """How points (n, 3) fixed to nodes (n,) move along axes (n, 3, 3) with the velocities that move them.

        Returns:
            The numbers (m, 3), the point that each belongs to (m,), and the velocity (m,).
        """
        owner, column = self._moving(nodes)
        motion = self.slides[column] + np.cross(self.turns[column], points[owner] - self.origins[column])
        return _times(axes[owner], motion), owner, column

    def turning_rows(self, nodes: Array, axes: Array) -> tuple[Array, Array, Array]:
        """How nodes (n,) turn about axes (n, 3, 3) with the velocities that move them: as :meth:`point_rows`."""
        owner, column = self._moving(nodes)
        return _times(axes[owner], self.turns[column]), owner, column

    def _moving(self, nodes: Array) -> tuple[Array, Array]:
        """The velocities (m,) that move some nodes (n,), and which of these each moves (m,)."""
        nodes = nodes % len(self.p)
        counts = self._counts[nodes]
        owner = np.repeat(np.arange(len(nodes)), counts)
        return owner, self.postures.columns[ranges(self.postures.first_column[nodes], counts)]


def _stack_lanes(entries: Array, n: int) -> Array:
    """An array (..., ) of lanes and numbers as one of floats, (n, ...)."""
    found = np.empty((n, *entries.shape))
    for index in np.ndindex(*entries.shape):
        found[(slice(None), *index)] = plain(entries[index])
    return found


def _times(matrices: Array, x: Array) -> Array:
    """Each matrix (n, 3, 3) times its vector (n, 3)."""
    return np.asarray(np.einsum("kij,kj->ki", matrices, x))


# --- Rows of different lengths in flat arrays -------------------------------------------------------------------------


def ranges(starts: Array, counts: Array) -> Array:
    """The numbers start, start + 1, …, so many of each range, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.repeat(starts - before, counts) + np.arange(counts.sum()))
