"""A mechanism as a tree of clusters: flat vectors as fields with one value per cluster, ports, links and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters.loop_clusters import ClusterKind, ClusterPiece, ClusterTree
from whippletree.constraints.constraint_set import ConstraintSet
from whippletree.constraints.massless_rows import HeldRows
from whippletree.constraints.rows import TreeFrameRows, TreeJointRows, tree_frame_rows
from whippletree.spatial import RigidInertia
from whippletree.tree.links import Link, dense, moving_link, still_link
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field, Sweeper, Unrolled


class Clustered(Protocol):
    """A mechanism as a tree of clusters: where flat vectors meet fields with one value per cluster."""

    clusters: ClusterTree
    sweep: Sweeper
    pieces: Field
    routes: dict[str, str]
    """Kind of cluster -> route through its block matrix."""
    reveals: bool
    """Whether a cluster whose pivots fail takes the rank-revealing route; numbers only."""
    uniform: bool
    """Whether what crosses an edge must have one shape for all clusters: in loops over them."""

    def coordinates(self, q: Any) -> Field:
        """q (nq,) as tuples of vectors, one for each member."""

    def among(self, nodes: Sequence[int]) -> Field:
        """Which members of each cluster are among these nodes of the tree: tuples of truth values."""

    def velocities(self, v: Any) -> Field:
        """v, a or tau (nv,) as tuples of vectors, one for each member."""

    def of_factored_rows(self, values: Any) -> Field:
        """Numbers of all factored rows (k,), cluster by cluster."""

    def everywhere(self, value: Any) -> Field:
        """A field with one value for all clusters."""

    def join(self, field: Field) -> Any:
        """Vectors of the members as one (nv,)."""

    def join_factored(self, field: Field) -> Any:
        """Numbers of the clusters' factored rows as those of all factored rows, (k,)."""

    def join_rows(self, field: Field) -> Any:
        """Numbers of all rows of the clusters as those of all rows, (m,); zeros for rows of no cluster."""

    def join_positions(self, field: Field) -> Any:
        """Numbers of rows that have a position as those of all such rows."""

    def require(self, margins: Field, pivots: Field) -> None:
        """Require the margins of clusters (kind, number), and the pivots of single joints that may lack inertia."""


class UnrolledClusters:
    """The clusters of a mechanism one by one, on any scalar."""

    uniform = False

    def __init__(self, m: Mechanism, system: ConstraintSet, clusters: ClusterTree, routes: dict[str, str]) -> None:
        self.m, self.system, self.clusters, self.routes = m, system, clusters, routes
        self.sweep: Sweeper = Unrolled(clusters.parents)
        self.pieces: Field = clusters.pieces(m.tree, system.demands)
        self.routes = routes_in_any_state(routes, m.tree, clusters)
        self.reveals = m.reveals

    def coordinates(self, q: Array) -> Field:
        parts = self.m.coordinates(q)
        return [tuple(parts[k] for k in c.members) for c in self.clusters.clusters]

    def among(self, nodes: Sequence[int]) -> Field:
        return members_among(self.clusters, nodes)

    def velocities(self, v: Array) -> Field:
        parts = self.m.velocities(v)
        return [tuple(parts[k] for k in c.members) for c in self.clusters.clusters]

    def of_factored_rows(self, values: Array) -> Field:
        return [values[list(c.kept)] for c in self.clusters.clusters]

    def everywhere(self, value: Any) -> Field:
        return [value] * len(self.clusters.clusters)

    def join(self, field: Field) -> Array:
        parts: list[Any] = [None] * len(self.m.tree.nodes)
        for c, own in zip(self.clusters.clusters, field, strict=True):
            for k, part in zip(c.members, own, strict=True):
                parts[k] = part
        return self.m.join(parts)

    def join_factored(self, field: Field) -> Array:
        result = zeros(len(self.system.structure.independent))
        for c, own in zip(self.clusters.clusters, field, strict=True):
            result[list(c.kept)] = own
        return result

    def join_rows(self, field: Field) -> Array:
        result = zeros(len(self.system.row_names))
        for c, own in zip(self.clusters.clusters, field, strict=True):
            result[list(c.rows)] = own
        return result

    def join_positions(self, field: Field) -> Array:
        return self.join_rows(field)[list(self.system.position_rows)]

    def require(self, margins: Field, pivots: Field) -> None:
        doubtful = set(self.m.tree.doubtful)
        number = len(self.m.tree.nodes)
        for c, own, single in zip(self.clusters.clusters, margins, pivots, strict=True):
            for kind, margin in own:
                self.m.require(number + FAILURES[kind], [margin])
            if c.members[0] in doubtful:
                self.m.require(c.members[0], single)


def routes_in_any_state(routes: dict[str, str], tree: Skeleton, clusters: ClusterTree) -> dict[str, str]:
    """Routes of kinds such that none with a member that may lack inertia, by an open parameter or in some state, relies
    on D⁻¹. One that is led takes no D at all by ``motion``, and keeps it."""
    doubtful = set(tree.doubtful)
    found = dict(routes)
    for c in clusters.looped if doubtful else ():
        led = routes[c.word] == "motion" and clusters.kinds[c.word].is_led
        if doubtful & set(c.members) and not led:
            found[c.word] = "augmented"
    return found


def members_among(clusters: ClusterTree, nodes: Sequence[int]) -> list[tuple[bool, ...]]:
    """Which members of each cluster are among these nodes of the tree; one object for all clusters with one answer."""
    chosen = set(nodes)
    known: dict[tuple[bool, ...], tuple[bool, ...]] = {}
    found = [tuple([k in chosen for k in c.members]) for c in clusters.clusters]
    return [known.setdefault(own, own) for own in found]


FAILURES = {kkt.ROWS: 0, kkt.MASS: 1, kkt.GIVEN: 2}
"""Numbers of the ways in which a block matrix can fail, after the nodes of the tree in the margins of an evaluation."""


# --- ports ------------------------------------------------------------------------------------------------------------


def of_world(at: Clustered, value: Array) -> tuple[Array, ...]:
    """Inputs of the world to the clusters on it: its only port is the first."""
    return (value, *[zeros(*value.shape) for _ in range(at.clusters.most_ports - 1)])


def handed_down(at: Clustered, values: Sequence[Array]) -> tuple[Array, ...]:
    """Values of a cluster's ports, and zeros for ports that only others have."""
    return (*values, *[zeros(6) for _ in range(at.clusters.most_ports - len(values))])


def handed_up(at: Clustered, kind: ClusterKind, value: Any) -> tuple[Any, ...]:
    """A value for the port that the cluster hangs on, and zeros for the others."""
    if isinstance(value, RigidInertia) and not at.uniform:
        return tuple(value if i == kind.port else 0 for i in range(at.clusters.most_ports))
    value = dense(value)
    return tuple(value if i == kind.port else zeros(*value.shape) for i in range(at.clusters.most_ports))


# --- links and rows ---------------------------------------------------------------------------------------------------


def moving_links(at: Clustered, q: Any, v: Any) -> Field:
    """Links in motion, a tuple for each cluster."""

    def move(
        ports: tuple[Array, ...], piece: ClusterPiece, q: Any, v: Any
    ) -> tuple[tuple[Array, ...], tuple[Link, ...]]:
        kind = at.clusters.kinds[piece.word]
        links = cluster_links(kind, piece, ports[kind.port], q, v)
        return handed_down(at, [links[k].V for k in kind.ports]), links

    return at.sweep.scatter(move, of_world(at, zeros(6)), at.pieces, at.coordinates(q), at.velocities(v))


def cluster_links(kind: ClusterKind, piece: ClusterPiece, root: Array, q: Any, v: Any) -> tuple[Link, ...]:
    """The links of one cluster in motion, where its root body has the velocity ``root`` (6,)."""
    links: list[Link] = []
    for k, parent in enumerate(kind.parents):
        V = links[parent].V if parent >= 0 else root
        links.append(moving_link(V, piece.nodes[k], q[k], v[k]))
    return tuple(links)


def still_links(at: Clustered, q: Any) -> Field:
    """Links at rest, a tuple for each cluster."""

    def place(piece: ClusterPiece, q: Any) -> tuple[Link, ...]:
        return tuple(still_link(node, own) for node, own in zip(piece.nodes, q, strict=True))

    return at.sweep.map(place, at.pieces, at.coordinates(q))


class ClusterRows:
    """The rows of one cluster at one state, from its own links alone."""

    def __init__(
        self, kind: ClusterKind, piece: ClusterPiece, links: tuple[Link, ...], q: Sequence[Array], v: Any, t: Any
    ) -> None:
        self.kind = kind
        self.parts: list[TreeFrameRows | TreeJointRows | HeldRows] = []
        for hold, poses in zip(kind.holds, piece.places, strict=True):
            if hold.demand.on == "frames":
                places = [Place(node, pose) for node, pose in zip(hold.nodes, poses, strict=True)]
                self.parts.append(tree_frame_rows(hold.demand, kind, links, places, t))
            elif hold.demand.on == "joints":
                x, rates = [q[k][0] for k in hold.nodes], [v[k][0] for k in hold.nodes] if v is not None else []
                self.parts.append(TreeJointRows(hold.demand, hold.nodes, x, rates, t))
            else:
                (node,) = hold.nodes
                rate = None if v is None else v[node][hold.component]
                self.parts.append(HeldRows(hold.demand, node, kind.sizes[node], hold.component, rate))

    def jacobian(self) -> Array:
        """A (k, n) of the factored rows and the cluster's joints."""
        return self.whole_jacobian()[list(self.kind.kept)]

    def whole_jacobian(self) -> Array:
        """A (m, n) of all rows, redundant ones too."""
        parts = []
        for part in self.parts:
            A = zeros(len(part.demand.rows), self.kind.nv)
            for node, block in part.blocks().items():
                A[:, self.kind.slices[node]] = block
            parts.append(A)
        return np.concatenate([zeros(0, self.kind.nv), *parts])

    def bias(self) -> Array:
        """γ of all rows, (m,)."""
        return np.concatenate([zeros(0), *[part.bias() for part in self.parts]])

    def velocity(self) -> Array:
        """A v + gₜ of all rows, (m,)."""
        return np.concatenate([zeros(0), *[part.velocity() for part in self.parts]])

    def gaps(self) -> Array:
        """g of all rows, (m,), with zeros for those at velocity level."""
        gaps = [p.residual() if p.demand.level == "position" else zeros(len(p.demand.rows)) for p in self.parts]
        return np.concatenate([zeros(0), *gaps])

    def of_factored_rows(self, values: Array) -> Array:
        """Numbers of all rows, for the factored ones."""
        return values[list(self.kind.kept)]


def rows(at: Clustered, links: Field, q: Any, v: Any, t: Any) -> Field:
    """The rows of every cluster; v, and links in motion, are needed for velocity and bias only."""

    def make(piece: ClusterPiece, links: Any, q: Any, t: Any, *v: Any) -> ClusterRows:
        return ClusterRows(at.clusters.kinds[piece.word], piece, links, q, v[0] if v else None, t)

    moving = [] if v is None else [at.velocities(v)]
    return at.sweep.map(make, at.pieces, links, at.coordinates(q), at.everywhere(t), *moving)


class JoinedRows:
    """The rows of all clusters as those of the mechanism; each quantity is computed when it is asked for."""

    def __init__(self, at: Clustered, q: Any, v: Any, t: Any) -> None:
        """Without v nothing moves, and only residuals can be asked for."""
        self.at = at
        links = still_links(at, q) if v is None else moving_links(at, q, v)
        self.rows = rows(at, links, q, v, t)

    def residual(self) -> Any:
        """g of the position rows, (p,)."""
        return self.at.join_positions(self.at.sweep.map(lambda own: own.gaps(), self.rows))

    def velocity(self) -> Any:
        """A v + gₜ (m,)."""
        return self.at.join_rows(self.at.sweep.map(lambda own: own.velocity(), self.rows))

    def bias(self) -> Any:
        """γ (m,)."""
        return self.at.join_rows(self.at.sweep.map(lambda own: own.bias(), self.rows))
