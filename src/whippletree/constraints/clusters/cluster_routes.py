"""Which route each kind of cluster takes, from its inertias: found once for a model, at a generic configuration.

The recursion itself is :mod:`whippletree.constraints.clusters.embedding`, which is run here with routes that are still
a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.clusters.clustered_mechanism import (
    Clustered,
    ClusterRows,
    UnrolledClusters,
    rows,
    still_links,
)
from whippletree.constraints.clusters.embedding import factorise
from whippletree.constraints.clusters.few_motions import suits
from whippletree.constraints.clusters.loop_clusters import ClusterKind, ClusterPiece, ClusterTree, cluster_tree
from whippletree.constraints.constraint_set import ConstraintSet
from whippletree.constraints.light_loops import has_inertia, is_light
from whippletree.constraints.ties import kinematic_content
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.sweeps import Field


def unrolled_clusters(m: Mechanism, system: ConstraintSet) -> UnrolledClusters:
    """The clusters of a mechanism whose constraints fit into clusters."""
    clusters = cluster_tree(system)
    assert clusters is not None
    return UnrolledClusters(m, system, clusters, cluster_routes(system))


def cluster_routes(system: ConstraintSet) -> dict[str, str]:
    """The route of every kind of cluster: ``motion`` where its rows leave few motions or none, which forms no inverse
    of inertias (:mod:`whippletree.constraints.clusters.few_motions`), ``augmented`` where some other cluster of it is
    light or some motion of it has no inertia before its loops are closed, else ``schur``. The articulated inertia of
    what hangs on a led joint by a ball joint is zero up to rounding, of either sign: a factor of it would tell nothing.
    """
    found: dict[str, str] | None = system.__dict__.get("_cluster_routes")
    if found is None:
        clusters = cluster_tree(system)
        assert clusters is not None
        few = {word for word, kind in clusters.kinds.items() if suits(kind) and not system.switches}
        doubtful = set(skeleton(system.model).doubtful)
        # bodies that give every joint inertia give D some: the first joint that moves moves its own
        unsettled = {
            c.word
            for c in clusters.looped
            if c.word not in few or (not clusters.kinds[c.word].is_led and doubtful & set(c.members))
        }
        routes = _weigh_routes(system, clusters, few) if unsettled else dict.fromkeys(clusters.kinds, "schur")
        found = system.__dict__["_cluster_routes"] = routes | dict.fromkeys(few - unsettled, "motion")
    return found


def _weigh_routes(system: ConstraintSet, clusters: ClusterTree, few: set[str]) -> dict[str, str]:
    """The routes of all kinds of clusters from their inertias at a generic configuration; ``few``: the kinds whose
    rows leave few motions."""
    routes = dict.fromkeys(clusters.kinds, "schur")
    massless: set[str] = set()
    m = Mechanism(skeleton(system.model))
    at = UnrolledClusters(m, system, clusters, routes)
    q = system.structure.configuration.astype(object)
    links = still_links(at, q)
    matrices = _shared_matrices(at, links, q)

    # many mechanisms of one kind in a scene have the same numbers
    light: dict[tuple[str, bytes, bytes], bool] = {}

    def choose(kind: ClusterKind, D: Array, A: Array) -> str:
        inertia, own = D.astype(float), A.astype(float)
        if kind.word in few and (kind.is_led or has_inertia(inertia)):
            return "augmented"  # its own route needs no weighing; this one keeps the digits of what it hands on
        key = (kind.word, inertia.tobytes(), own.tobytes())
        if key not in light:
            if not has_inertia(inertia):
                massless.add(kind.word)
            light[key] = bool(len(own)) and is_light(inertia, own)
        if light[key]:
            routes[kind.word] = "augmented"
        return "augmented" if light[key] else "schur"

    with np.errstate(divide="ignore", invalid="ignore"):  # a joint without inertia is a doubt of the state
        factorise(at, links, matrices, choose=choose)
    for word in few:
        if clusters.kinds[word].is_led or word not in massless:
            routes[word] = "motion"
    return routes


def _shared_matrices(at: Clustered, links: Field, q: Array) -> Field:
    """A of every cluster at a configuration, computed once for those with the same numbers: cells of a chain."""
    known: dict[tuple[Any, ...], Array] = {}

    def make(piece: ClusterPiece, own: ClusterRows, q: Sequence[Array]) -> Array:
        kind = at.clusters.kinds[piece.word]
        holds = [
            (hold.demand, list(zip(hold.nodes, poses, strict=False)))
            for hold, poses in zip(kind.holds, piece.places, strict=True)
        ]
        moves = kinematic_content(piece.nodes, kind.parents, holds)
        key = (piece.word, moves, np.concatenate([zeros(0), *q]).astype(float).tobytes())
        if key not in known:
            known[key] = own.jacobian()
        return known[key]

    return at.sweep.map(make, at.pieces, rows(at, links, q, None, 0), at.coordinates(q))
