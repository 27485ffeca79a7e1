"""Loop clusters: classes of tree edges that the same loops tie together (002, topic 11: constraint embedding).

A *tie* is a set of nodes of a forest that some equation relates: the two ends of a cut edge; all frames of a function
that someone wrote; both ends of each of several tree edges, where an equation relates the coordinates of joints. Every
tie takes in the edges of the smallest subtree that connects its nodes, and two ties that share an edge belong together.
So the classes of edges that ties of two nodes make are the blocks (biconnected components) of the forest with its cut
edges put back, except that the body at the top of a class, through which it hangs on the rest, is no part of it.

Edges that no tie takes in are classes of their own. Each class is a connected piece of the forest, hence path-closed
and with one outer parent, the *root body*: the classes form a forest again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from whippletree.errors import GraphError
from whippletree.graph.digraph import Digraph, Node, quoted


@dataclass(frozen=True)
class LoopClusters:
    """Classes of the edges of a forest. An edge is named by its child; the roots of the forest belong to no class."""

    tree: Digraph
    members: tuple[tuple[Node, ...], ...]
    """The children of each class's edges, parents first; classes in the order of their first members."""
    tops: tuple[Node, ...]
    """The root body of each class: the only node outside that has edges into it."""
    cluster_of_tie: tuple[int, ...]
    """The class that holds each tie; −1 for a tie that takes in no edge."""

    @cached_property
    def cluster_of(self) -> Mapping[Node, int]:
        """Child of an edge -> the number of its class."""
        return {node: number for number, own in enumerate(self.members) for node in own}

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The class that the root body of each class belongs to; −1 where that is a root of the forest."""
        return tuple(self.cluster_of.get(top, -1) for top in self.tops)


def loop_clusters(tree: Digraph, ties: Iterable[Iterable[Node]]) -> LoopClusters:
    """Sort the edges of a forest into classes that ties connect.

    Nearly linear: a path that was walked once is stepped over by later ties.

    Args:
        tree: a forest, edges (parent, child).
        ties: sets of nodes; each in one connected piece of the forest.

    Raises:
        GraphError: the graph is no forest, or a tie names nodes that nothing connects.
    """
    if not tree.is_forest:
        raise GraphError("loop_clusters: the graph is no forest: cut edges first (spanning_tree) and tie their ends.")
    classes = _Classes(tree)
    leaders = [classes.tie([tree.index(node) for node in dict.fromkeys(tie)]) for tie in ties]
    groups: dict[int, list[int]] = {}
    for k in tree.topological_indices:
        if classes.parent[k] >= 0:
            groups.setdefault(classes.find(k), []).append(k)
    number = {leader: i for i, leader in enumerate(groups)}
    return LoopClusters(
        tree,
        tuple(tuple(tree.nodes[k] for k in own) for own in groups.values()),
        tuple(tree.nodes[classes.parent[own[0]]] for own in groups.values()),
        tuple(-1 if leader is None else number[classes.find(leader)] for leader in leaders),
    )


class _Classes:
    """Union-find over edges, each named by its child; every class knows its top, the node that it hangs on."""

    def __init__(self, tree: Digraph) -> None:
        self.tree = tree
        self.parent = [own[0] if own else -1 for own in tree.parent_indices]
        self.depth = [0] * len(tree)
        for k in tree.topological_indices:
            self.depth[k] = self.depth[self.parent[k]] + 1 if self.parent[k] >= 0 else 0
        self.leader = list(range(len(tree)))
        self.top = list(self.parent)

    def find(self, edge: int) -> int:
        leader = self.leader
        while leader[edge] != edge:
            leader[edge] = leader[leader[edge]]  # halve the path, so that the next search is shorter
            edge = leader[edge]
        return edge

    def join(self, a: int, b: int) -> int:
        """Make one class of two; its top is the higher one of theirs."""
        a, b = self.find(a), self.find(b)
        if a != b:
            if self.depth[self.top[b]] < self.depth[self.top[a]]:
                a, b = b, a
            self.leader[b] = a
        return a

    def tie(self, nodes: list[int]) -> int | None:
        """Join the edges of the smallest subtree that connects these nodes; some edge of it, None if there is none."""
        edge: int | None = None
        for other in nodes[1:]:
            a, b = nodes[0], other
            while a != b:
                # the deeper end goes up, over its whole class at once; a class that reaches beyond the meeting point is
                # left at its top by both ends
                a, b = (a, b) if self.depth[a] >= self.depth[b] else (b, a)
                if self.parent[a] < 0:
                    raise GraphError(
                        f"loop_clusters: nothing connects {quoted([self.tree.nodes[nodes[0]], self.tree.nodes[other]])}"
                        f", which one tie names. Connect them, or give the forest a common root."
                    )
                up = self.top[self.find(a)]  # before it joins a class that is still in two pieces
                edge = a if edge is None else self.join(edge, a)
                a = up
        return edge
