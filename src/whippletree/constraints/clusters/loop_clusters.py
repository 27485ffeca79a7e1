"""Clusters of a mechanism: the joints that the same loops tie together, as nodes of a tree.

What :mod:`whippletree.graph.spanning` finds in the tree of a model's moving parts and the ties of its constraints, with
all that a recursion over clusters needs to know of each: which of its bodies carry other clusters (its *ports*), on
which port of its parent it hangs itself, and where its constraints hold on. What crosses an edge of this tree are the
six numbers of a port.

Much of that is the same for many clusters (the cells of a chain, the legs of a robot): it is their *kind*. Only the
numbers of their bodies and the poses of their frames are their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.linalg import sparse_order
from whippletree.constraints.constraint_set import RELAXING, ConstraintSet
from whippletree.constraints.kinds.demand import Demand
from whippletree.constraints.rows import Prepared, frame_places, tied_nodes
from whippletree.constraints.ties import Ties, demand_content, tied_bodies
from whippletree.spatial import Pose
from whippletree.spatial.modal import Modal
from whippletree.tree.skeleton import Node, Skeleton, meeting_point, path_below, skeleton


class Hold(NamedTuple):
    """Where a demand holds on to a cluster."""

    demand: Demand
    nodes: tuple[int, ...]
    """Positions of the bodies of its frames, or of its joints, among the members; −1 for the root body."""
    component: int
    """Of a freedom that is held: which one of its joint."""


@dataclass(frozen=True, eq=False)
class ClusterKind:
    """Common properties of clusters that share one piece of code: everything but the numbers of their bodies.

    Positions count the members of the cluster; −1 is the root body, which carries the cluster and is no part of it.
    """

    word: str
    """Its name."""
    parents: tuple[int, ...]
    """Position of each member's parent."""
    sizes: tuple[int, ...]
    """Freedoms of each member's joint."""
    grounded: bool
    """Whether the root body is the world."""
    port: int
    """Which of the parent's ports the root body is."""
    ports: tuple[int, ...]
    """Positions of the members that carry other clusters."""
    holds: tuple[Hold, ...]
    kept: tuple[int, ...]
    """Rows that are factored, among those of the cluster's demands."""
    compliance: tuple[Any, ...]
    """Of the factored rows."""
    squares: tuple[float, ...]
    """Typical |Aᵢ|² of the factored rows."""
    bent: tuple[int, ...] = ()
    """Positions of flexible bodies as a whole, whose frames move against each other."""

    @property
    def is_joint(self) -> bool:
        """Whether it is a single joint that no loop ties to others."""
        return len(self.parents) == 1 and not self.holds

    def path(self, node: int, base: int = -1) -> list[int]:
        """A member and its ancestors, tip first, as far as they are below ``base``."""
        return path_below(self.parents, node, base)

    def meeting(self, nodes: Sequence[int]) -> int:
        """The lowest member that carries all of these, as a rigid part; −1 for the root body."""
        found = meeting_point(self.parents, nodes)
        while found in self.bent:
            found = self.parents[found]
        return found

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where each member's velocities are among those of the cluster."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def nv(self) -> int:
        """Velocities of the cluster's joints."""
        return sum(self.sizes)

    @property
    def is_led(self) -> bool:
        """Whether its rows leave no motion: whatever its joints carry, and be it nothing, they go where they must."""
        return len(self.kept) == self.nv

    @cached_property
    def row_count(self) -> int:
        """Rows of all its demands, redundant ones too."""
        return sum(len(hold.demand.rows) for hold in self.holds)

    @cached_property
    def velocity_parents(self) -> tuple[int, ...]:
        """For each velocity, the one before it on the way to the root body."""
        before: list[int] = []
        last: list[int] = []
        for k, own in enumerate(self.slices):
            up = last[self.parents[k]] if self.parents[k] >= 0 else -1
            for i in range(own.start, own.stop):
                before.append(up)
                up = i
            last.append(up)
        return tuple(before)

    @cached_property
    def elimination(self) -> list[int]:
        """Velocities in an order in which D + Aᵀ R A, eliminated from the end, keeps most of its zeros."""
        pattern = np.zeros((self.nv, self.nv), dtype=bool)
        for k in range(len(self.parents)):
            for j in self.path(k):
                pattern[self.slices[k], self.slices[j]] = pattern[self.slices[j], self.slices[k]] = True
        for hold in self.holds:
            felt = [
                i for node in self._felt_members(hold) for i in range(self.slices[node].start, self.slices[node].stop)
            ]
            pattern[np.ix_(felt, felt)] = True
        return sparse_order(pattern)

    def _felt_members(self, hold: Hold) -> set[int]:
        """The members whose joints a demand feels."""
        if hold.demand.on != "frames":
            return set(hold.nodes)
        return {k for node in hold.nodes for k in self.path(node)}


class ClusterPiece(NamedTuple):
    """A cluster as a value of a field: its kind by name, and the numbers that are its own."""

    word: str
    nodes: tuple[Node, ...]
    places: tuple[tuple[Pose, ...], ...]
    """Poses of the frames of each demand, on their bodies; none for joints."""


@dataclass(frozen=True)
class Cluster:
    """One cluster of a mechanism."""

    members: tuple[int, ...]
    """Nodes of the tree, parents first."""
    root: int
    """The node of the root body; −1 for the world."""
    word: str
    """Name of its kind."""
    demands: tuple[int, ...]
    """Among the demands of the constraints."""
    rows: tuple[int, ...]
    """All rows of these demands, among all rows; redundant ones too."""
    kept: tuple[int, ...]
    """The factored ones, by their position among all factored rows."""


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """The clusters of a mechanism, parents first."""

    clusters: tuple[Cluster, ...]
    parents: tuple[int, ...]
    kinds: Mapping[str, ClusterKind]
    most_ports: int
    """Of all clusters: what crosses an edge has one shape for all of them."""

    @property
    def looped(self) -> tuple[Cluster, ...]:
        """The clusters that constraints made."""
        return tuple(c for c in self.clusters if c.demands)

    def pieces(self, tree: Skeleton, demands: Sequence[Prepared]) -> list[ClusterPiece]:
        """The clusters as a field, with the numbers of this skeleton; those made of the same parts are one object."""
        known: dict[tuple[Any, ...], ClusterPiece] = {}
        pieces = []
        for c in self.clusters:
            nodes = tuple([tree.nodes[k] for k in c.members])
            poses = tuple([tuple([pose for _, pose in frame_places(tree, demands[i])]) for i in c.demands])
            made_of = (c.word, *map(id, nodes), *[id(pose) for own in poses for pose in own])
            pieces.append(known.setdefault(made_of, ClusterPiece(c.word, nodes, poses)))
        return pieces


def cluster_tree(system: ConstraintSet) -> ClusterTree | None:
    """The clusters of a model, found once; None where some row belongs to none.

    That is so for rows of massless motions that springs and dampers decide, which depend on the whole, and for
    compliant or switchable rows that feel no joint at all (:func:`rows_without_cluster`).
    """
    # kept beside the cached properties of the constraints, as those are beside the model's
    if "_cluster_tree" not in system.__dict__:
        system.__dict__["_cluster_tree"] = _cluster_tree(system)
    found: ClusterTree | None = system.__dict__["_cluster_tree"]
    return found


def _cluster_tree(system: ConstraintSet) -> ClusterTree | None:
    if rows_without_cluster(system):
        return None
    tree = skeleton(system.model)
    found = system.ties
    number = {i: k for k, i in enumerate(system.structure.independent)}
    starts = np.cumsum([0, *[len(c.demand.rows) for c in system.demands]]).tolist()
    rows_of = [tuple(range(a, b)) for a, b in pairwise(starts)]
    demands: list[list[int]] = [[] for _ in found.members]
    for i, own in enumerate(found.of_demand):
        if own >= 0:
            demands[own].append(i)
    drafts = _drafts(system, tree, found, demands, rows_of, number)
    kinds, words = _share_kinds(drafts)
    clusters = tuple(
        Cluster(
            tuple(members),
            top,
            word,
            tuple(own),
            rows := tuple(i for d in own for i in rows_of[d]),
            tuple(number[i] for i in rows if i in number),
        )
        for members, top, word, own in zip(found.members, found.tops, words, demands, strict=True)
    )
    most = max([1, *[len(kind.ports) for kind in kinds.values()]])
    return ClusterTree(clusters, found.parents, kinds, most)


def rows_without_cluster(system: ConstraintSet) -> list[Prepared]:
    """The demands that a tree of clusters has no place for."""
    tree = skeleton(system.model)
    factored = {system.row_names[i] for i in system.structure.independent}
    found = []
    for c in system.demands:
        feels_none = c.demand.on == "frames" and len(set(tied_bodies(tree, c))) == 1
        if c.constraint.kind in RELAXING or (feels_none and factored & set(c.row_names)):
            found.append(c)
    return found


def is_cheaper_by_clusters(system: ConstraintSet) -> bool:
    """Whether the recursion over clusters takes fewer operations than one that carries every row to the world.

    Counted are multiplications that the two do not share: of the blocks of clusters with loops,

        Σ n³/6 + n² k/2 + n k²/2 + k³/6, and 6 n² + n² k/2 where the cluster hangs on a moving body,

    against those of r rows through each joint of n freedoms, Σ 32 r + n r²/2, and k³/6 of all of them together.
    """
    if "_by_clusters" not in system.__dict__:
        system.__dict__["_by_clusters"] = _is_cheaper(system)
    found: bool = system.__dict__["_by_clusters"]
    return found


def _is_cheaper(system: ConstraintSet) -> bool:
    clusters = cluster_tree(system)
    if clusters is None or len(clusters.clusters) < 2 or not clusters.looped:
        return False
    own = 0.0
    for c in clusters.looped:
        n, k = clusters.kinds[c.word].nv, len(c.kept)
        own += n**3 / 6 + n * n * k / 2 + n * k * k / 2 + k**3 / 6
        own += 0 if c.root < 0 else 6 * n * n + n * n * k / 2
    tree = skeleton(system.model)
    passing = _rows_through(system, tree)
    through = sum(32 * r + node.joint.nv * r * r / 2 for r, node in zip(passing, tree.nodes, strict=True))
    return own < through + len(system.structure.independent) ** 3 / 6


def _rows_through(system: ConstraintSet, tree: Skeleton) -> list[int]:
    """How many factored rows pull at each node or at what it carries."""
    factored = {system.row_names[i] for i in system.structure.independent}
    ends = [0] * len(tree.nodes)
    for c in system.demands:
        count = sum(name in factored for name in c.row_names)
        bodies = {k for k in tied_bodies(tree, c) if k >= 0}
        for k in bodies:
            ends[k] += count
        # where the paths of its ends meet they are one: what was counted for each end is taken back there
        for k in _meetings(tree, bodies):
            ends[k] -= count
    for k in reversed(range(len(ends))):
        if tree.parents[k] >= 0:
            ends[tree.parents[k]] += ends[k]
    return ends


def _meetings(tree: Skeleton, bodies: set[int]) -> list[int]:
    """The nodes at which paths from these to the world run together, once for each path but one."""
    heads, found = set(bodies), []
    while len(heads) > 1:
        lowest = max(heads)
        heads.remove(lowest)
        parent = tree.parents[lowest]
        if parent in heads:
            found.append(parent)
        elif parent >= 0:
            heads.add(parent)
    return found


SHARED_SIZES = 8
"""Powers of two of |A|² within which rows of clusters count as equally large, so that the clusters may share code: a
factor of 16 in lengths. Weights of rows that were off by 1e4 did no harm, by 1e6 they failed every pivot."""


class _Draft(NamedTuple):
    """A cluster's kind before it is known which others share it."""

    kind: ClusterKind
    key: tuple[Any, ...]


def _drafts(
    system: ConstraintSet,
    tree: Skeleton,
    found: Ties,
    demands: list[list[int]],
    rows_of: list[tuple[int, ...]],
    number: dict[int, int],
) -> list[_Draft]:
    """The kind of every cluster, and what must be equal for two of them to be one."""
    carrying: list[dict[int, None]] = [{} for _ in found.members]  # nodes that carry other clusters, in order
    for top, parent in zip(found.tops, found.parents, strict=True):
        if parent >= 0:
            carrying[parent].setdefault(top)
    drafts = []
    for own, members in enumerate(found.members):
        top, parent = found.tops[own], found.parents[own]
        position = {k: i for i, k in enumerate(members)} | {top: -1}
        holds = tuple(_hold(tree, system.demands[i], position) for i in demands[own])
        rows = [i for d in demands[own] for i in rows_of[d]]
        factored = [i for i in rows if i in number]
        kind = ClusterKind(
            word="",
            parents=tuple(position[tree.parents[k]] for k in members),
            sizes=tuple(tree.nodes[k].joint.nv for k in members),
            grounded=parent < 0,
            port=0 if parent < 0 else list(carrying[parent]).index(top),
            ports=tuple(position[k] for k in carrying[own]),
            holds=holds,
            kept=tuple(rows.index(i) for i in factored),
            compliance=tuple(system.compliance[i] for i in factored),
            squares=tuple(system.structure.squares[number[i]] for i in factored),
            bent=tuple(position[k] for k in members if isinstance(tree.nodes[k].joint, Modal)),
        )
        contents = tuple(demand_content(system.demands[i]) for i in demands[own])
        places = tuple((hold.nodes, hold.component) for hold in holds)
        shape = (kind.parents, kind.sizes, kind.grounded, kind.port, kind.ports, kind.kept, kind.bent)
        # rows are weighted by, and compared with, the typical size of their kind: 1 mm is not of the kind of 1 m, nor
        # is a compliant row that nothing moves
        scales = tuple(round(np.log2(square) / SHARED_SIZES) if square else None for square in kind.squares)
        drafts.append(_Draft(kind, (*shape, places, contents, scales)))
    return drafts


def _hold(tree: Skeleton, c: Prepared, position: dict[Any, int]) -> Hold:
    nodes = [node for node, _ in frame_places(tree, c)] if c.demand.on == "frames" else tied_nodes(tree, c)
    return Hold(c.demand, tuple(position[k] for k in nodes), int(c.constraint.parameters.get("component", 0)))


def _share_kinds(drafts: list[_Draft]) -> tuple[dict[str, ClusterKind], list[str]]:
    """One kind for all clusters with equal keys, its rows at their largest typical size; and the kind of each."""
    groups: dict[tuple[Any, ...], list[ClusterKind]] = {}
    for draft in drafts:
        groups.setdefault(draft.key, []).append(draft.kind)
    words = {key: f"cluster {i}" for i, key in enumerate(groups)}
    kinds = {}
    for key, own in groups.items():
        squares = tuple(max(sizes) for sizes in zip(*[kind.squares for kind in own], strict=True))
        kinds[words[key]] = replace(own[0], word=words[key], squares=squares)
    return kinds, [words[draft.key] for draft in drafts]
