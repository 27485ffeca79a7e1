"""Constrained functions as loops over clusters: the recursion of constraint embedding, recorded once per kind of them.

What :class:`~whippletree.constraints.clusters.clustered_mechanism.UnrolledClusters` does for concrete clusters, for
types of them. The members of a cluster may lie anywhere in q and v, and its rows anywhere among all rows: each has a
register of its own that holds where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.compiler.frontend.loops.body_types import MOST_TYPES
from whippletree.compiler.frontend.loops.looped_functions import (
    Argument,
    RecordedMechanism,
    named_nodes,
    open_tree,
    recorded_program,
)
from whippletree.compiler.frontend.loops.recorder import Graph, Looped
from whippletree.compiler.program import Address, Index, Program
from whippletree.constraints.clusters.cluster_routes import cluster_routes
from whippletree.constraints.clusters.clustered_mechanism import FAILURES, members_among, routes_in_any_state
from whippletree.constraints.clusters.loop_clusters import ClusterKind, cluster_tree
from whippletree.constraints.constraint_set import constraint_set
from whippletree.errors import UnsupportedError
from whippletree.functions.registry import Function, Shape
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.sweeps import Field


class ClusterMechanism(RecordedMechanism):
    """A mechanism whose fields hold one value per type of cluster."""

    def __init__(
        self, tree: Skeleton, most_types: int = MOST_TYPES, single: Sequence[int] = (), whole: Graph | None = None
    ) -> None:
        """``single``: the nodes that the function looks at by themselves; clusters that have some in other places are
        of other types. ``whole``: the graph of numbers of the tree that are left open."""
        system = constraint_set(tree.model)
        clusters = cluster_tree(system)
        assert clusters is not None
        constants: list[Field] = [clusters.pieces(tree, system.demands), members_among(clusters, single)]
        super().__init__(tree, Looped(clusters.parents, constants, most_types, whole), "embedding")
        self.clustered = LoopedClusters(self)

    def velocities(self, v: Any) -> Field:
        raise UnsupportedError("in a loop over clusters vectors are taken apart by clusters")


class LoopedClusters:
    """The clusters of a mechanism, one value per type."""

    reveals = False
    uniform = True

    def __init__(self, m: ClusterMechanism) -> None:
        self.m, self.sweep, self.system = m, m.sweep, constraint_set(m.tree.model)
        clusters = cluster_tree(self.system)
        assert clusters is not None
        self.clusters = clusters
        self.pieces, self._marked = m.sweep.constant_fields()
        self.routes = routes_in_any_state(cluster_routes(self.system), m.tree, clusters)
        own = clusters.clusters
        for i in range(max(len(c.members) for c in own)):
            starts = [c.members[i] if i < len(c.members) else 0 for c in own]
            self._register(f"q{i}", [m.tree.q_slices[k].start for k in starts])
            self._register(f"v{i}", [m.tree.v_slices[k].start for k in starts])
        position = {row: number for number, row in enumerate(self.system.position_rows)}
        for j in range(max(len(c.rows) for c in own)):
            rows = [c.rows[j] if j < len(c.rows) else -1 for c in own]
            self._register(f"row{j}", [max(row, 0) for row in rows])
            self._register(f"position{j}", [position.get(row, 0) for row in rows])

    def _register(self, name: str, values: Sequence[int]) -> None:
        self.sweep.offsets[name] = np.array(values, dtype=np.int64)

    @property
    def kinds(self) -> list[ClusterKind]:
        """The kind of each type of cluster."""
        return [self.clusters.kinds[piece.word] for piece in self.pieces]

    def among(self, nodes: Sequence[int]) -> Field:
        return self._marked

    def coordinates(self, q: Any) -> Field:
        return self._vectors(q, "q", [[node.joint.nq for node in piece.nodes] for piece in self.pieces])

    def velocities(self, v: Any) -> Field:
        return self._vectors(v, "v", [[node.joint.nv for node in piece.nodes] for piece in self.pieces])

    def _vectors(self, flat: Any, letter: str, sizes: list[list[int]]) -> Field:
        if not isinstance(flat, Argument):
            raise UnsupportedError("in a loop over clusters only the inputs of a function can be taken apart by joints")
        most = max(map(len, sizes))
        members = [
            self.sweep.argument(flat.name, f"{letter}{i}", [own[i] if i < len(own) else 0 for own in sizes])
            for i in range(most)
        ]
        return [tuple(members[i][t] for i in range(len(own))) for t, own in enumerate(sizes)]

    def of_factored_rows(self, values: Any) -> Field:
        raise UnsupportedError("rows that can be switched do not run as loops over clusters: unroll them")

    def everywhere(self, value: Any) -> Field:
        return self.m.everywhere(value)

    def join(self, field: Field) -> JoinedMembers:
        return JoinedMembers(field)

    def join_factored(self, field: Field) -> Any:
        raise UnsupportedError("a loop over clusters has no factor to solve with: unroll it")

    def join_rows(self, field: Field) -> JoinedNumbers:
        return JoinedNumbers(self, field, "row", [range(kind.row_count) for kind in self.kinds])

    def join_positions(self, field: Field) -> JoinedNumbers:
        kept = [[j for j, level in enumerate(_levels(kind)) if level == "position"] for kind in self.kinds]
        return JoinedNumbers(self, field, "position", kept)

    def require(self, margins: Field, pivots: Field) -> None:
        """Let the status tell of a failed pivot: of a cluster, or of a joint that may lack inertia."""
        count = len(self.m.tree.nodes)
        numbers = np.zeros((len(self.clusters.clusters), 1))
        doubtful = set(self.m.tree.doubtful)
        for k, c in enumerate(self.clusters.clusters):
            numbers[k, 0] = 1 + c.members[0] if c.members[0] in doubtful else 0
        suspects = self.sweep.number_field("suspects", numbers)

        def update(status: Any, t: int) -> Any:
            for kind, number in FAILURES.items():
                low = _least([margin for own, margin in margins[t] if own == kind])
                status = scalars.select(scalars.less(0, low), status, count + number + 1)
            if len(pivots[t]) and doubtful:
                fails = scalars.select(scalars.less(0, _least(pivots[t])), status, suspects[t][0])
                status = scalars.select(scalars.less(0, suspects[t][0]), fails, status)
            return status

        if any(margins) or doubtful:
            self.m.status = self.sweep.running(0, update)


def _levels(kind: ClusterKind) -> list[str]:
    return [hold.demand.level for hold in kind.holds for _ in hold.demand.rows]


def _least(numbers: Sequence[Any]) -> Any:
    """The least of some numbers and 1; NaN are passed over, since they speak for themselves."""
    low: Any = 1
    for x in numbers:
        low = scalars.select(scalars.less(x, low), x, low)
    return low


class JoinedMembers(NamedTuple):
    """Stands for an output vector: the vectors of all members of all clusters, wherever they lie."""

    field: Field

    def store(self, mechanism: RecordedMechanism, buffer: str, shape: Shape) -> None:
        """Write it to an output, NaN where there is no answer."""
        letter = "v" if shape == ("nv",) else "q"
        for i in range(max(len(own) for own in self.field)):
            vectors = [own[i] if i < len(own) else np.zeros(0, dtype=object) for own in self.field]
            mechanism.sweep.result(buffer, f"{letter}{i}", mechanism.where_valid(vectors))


class JoinedNumbers(NamedTuple):
    """Stands for an output with one number per row."""

    at: LoopedClusters
    field: Field
    word: str
    kept: Sequence[Sequence[int]]
    """For each type, which of its numbers are written."""

    def store(self, mechanism: RecordedMechanism, buffer: str, shape: Shape) -> None:
        """Write it to an output, NaN where there is no answer, and zeros for rows that belong to no cluster."""
        for j in range(max(len(own) for own in self.field)):
            chosen = [own[j : j + 1] if j in kept else own[:0] for own, kept in zip(self.field, self.kept, strict=True)]
            mechanism.sweep.result(buffer, f"{self.word}{j}", mechanism.where_valid(chosen))
        system, clusters = self.at.system, self.at.clusters
        held = {row for c in clusters.clusters for row in c.rows}
        every = range(len(system.row_names)) if self.word == "row" else system.position_rows
        left = [(Address(buffer, (Index(None, place),)), 0) for place, row in enumerate(every) if row not in held]
        if left:
            mechanism.constants += left


def cluster_loop_program(
    function: Function,
    tree: Skeleton,
    most_types: int = MOST_TYPES,
    names: Sequence[Any] = (),
    parameters: Sequence[str] = (),
) -> Program:
    """The kernel program of a function that honours constraints by passes over clusters only; ``names``: of the frame
    or the joints that it is made for; ``parameters``: numbers of the model that are further inputs."""
    tree, whole = open_tree(tree, parameters)
    mechanism = ClusterMechanism(tree, most_types, named_nodes(function, tree, names), whole)
    return recorded_program(function, mechanism, names, parameters)
