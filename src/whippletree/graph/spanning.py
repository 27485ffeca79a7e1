"""Loops: a spanning tree of an undirected multigraph, the edges that were cut to get it, and what they tie together.

Bodies are nodes, joints are edges. A loop in the joints can be opened at any of them (002: "multiple graph options for
loop systems"): the tree carries the recursions, and each cut edge returns as a constraint.

Loop clusters are classes of tree edges that the same loops tie together (002, topic 11: constraint embedding). A *tie*
is a set of nodes of a forest that some equation relates: the two ends of a cut edge; all frames of a function that
someone wrote; both ends of each of several tree edges, where an equation relates the coordinates of joints. Every tie
takes in the edges of the smallest subtree that connects its nodes, and two ties that share an edge belong together. So
the classes of edges that ties of two nodes make are the blocks (biconnected components) of the forest with its cut
edges put back, except that the body at the top of a class, through which it hangs on the rest, is no part of it.

Edges that no tie takes in are classes of their own. Each class is a connected piece of the forest, hence path-closed
and with one outer parent, the *root body*: the classes form a forest again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar

from whippletree.errors import GraphError
from whippletree.graph.digraph import Digraph, Edge, Node, quote_names


@dataclass(frozen=True)
class SpanningTree:
    """A spanning forest, one tree per connected component, and what was cut.

    ``graph``           the forest, nodes as listed, edges (parent, child) directed away from the roots
    ``tree_edges``      edge name -> (parent, child), in order of declaration
    ``cut_edges``       edge name -> its two ends as declared, in order of declaration
    ``reversed_edges``  the names of the tree edges that were declared from child to parent
    """

    graph: Digraph
    tree_edges: Mapping[Node, Edge]
    cut_edges: Mapping[Node, Edge]
    reversed_edges: frozenset[Node]

    def loop(self, edge: Node) -> tuple[Node, ...]:
        """The loop that a cut edge closes: the nodes of the tree path from its first end to its second."""
        if edge not in self.cut_edges:
            raise GraphError(
                f"SpanningTree: {edge!r} is not a cut edge; cut edges: {quote_names(self.cut_edges) or 'none'}. "
                "Only a cut edge closes a loop of its own."
            )
        return _path(self.graph, *self.cut_edges[edge])


def spanning_tree(
    nodes: Iterable[Node],
    edges: Mapping[Any, Edge] | Iterable[Edge],
    *,
    roots: Iterable[Node] | None = None,
    cut: Iterable[Node] | None = None,
) -> SpanningTree:
    """Split the edges of an undirected multigraph into a forest directed away from its roots and a set of cut edges.

    1. Without ``cut``, edges are taken in order of declaration, and an edge that would close a loop with those before
       it is cut. So the joint written last in a loop is the one cut, wherever the root is.
    2. With ``cut``, exactly these edges are cut; what remains must be a forest that connects what was connected before.
    3. Each tree is directed away from its root.

    The cost is linear in nodes and edges (times the inverse Ackermann function of the union-find, which is at most 4).

    Args:
        nodes: names, all different.
        edges: edge name -> (node, node); or pairs, which get their positions 0, 1, … as names. Parallel edges are loops
            of two nodes. The direction does not matter, but is reported (``reversed_edges``).
        roots: one node in each connected component; by default the first listed node of each.
        cut: names of the edges to cut.

    Raises:
        GraphError: unknown nodes or edges, an edge from a node to itself, roots that do not fit the components, a cut
            that leaves a loop or that disconnects.
    """
    forest = Digraph(nodes)
    ends = dict(edges) if isinstance(edges, Mapping) else dict(enumerate(edges))
    _check_edges(forest, ends)
    chosen = None if cut is None else dict.fromkeys(cut)
    if unknown := [name for name in chosen or () if name not in ends]:
        raise GraphError(
            f"spanning_tree: the cut names unknown edges: {quote_names(unknown)}; known: {quote_names(ends) or 'none'}."
        )

    components = Components(forest.nodes)
    kept: dict[Node, Edge] = {}
    closing: dict[Node, Edge] = {}
    for name, (a, b) in ends.items():
        if chosen is None or name not in chosen:
            (kept if components.join(a, b) else closing)[name] = (a, b)
    if chosen is not None:
        _check_connected(components, {name: ends[name] for name in ends if name in chosen})

    parent_of = _grow(_roots(forest, components, roots), kept)
    directed = {name: (a, b) if parent_of.get(b) == (name, a) else (b, a) for name, (a, b) in kept.items()}
    tree = Digraph(forest.nodes, directed.values())
    if chosen is not None and closing:
        _refuse_loop(tree, directed, closing)
    return SpanningTree(
        graph=tree,
        tree_edges=directed,
        cut_edges={name: pair for name, pair in ends.items() if name not in kept},
        reversed_edges=frozenset(name for name in kept if directed[name] != kept[name]),
    )


Item = TypeVar("Item", bound=Node)


class Components(Generic[Item]):
    """Union-find: which nodes, or edges, belong together by what was joined so far."""

    def __init__(self, nodes: Iterable[Item]) -> None:
        self.leader = {node: node for node in nodes}
        self.size = dict.fromkeys(self.leader, 1)

    def find(self, node: Item) -> Item:
        leader = self.leader
        while leader[node] != node:
            leader[node] = leader[leader[node]]  # halve the path, so that the next search is shorter
            node = leader[node]
        return node

    def join(self, a: Item, b: Item) -> bool:
        """Connect two nodes; False when they were connected already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.leader[b] = a
        self.size[a] += self.size[b]
        return True


def _grow(roots: Iterable[Node], kept: Mapping[Node, Edge]) -> dict[Node, tuple[Node, Node]]:
    """Direct the tree edges away from the roots: child -> (edge name, parent)."""
    neighbours: dict[Node, list[tuple[Node, Node]]] = {}
    for name, (a, b) in kept.items():
        neighbours.setdefault(a, []).append((name, b))
        neighbours.setdefault(b, []).append((name, a))
    reached: dict[Node, tuple[Node, Node]] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        for name, other in neighbours.get(node, ()):
            # the kept edges hold no loop, so only the edge that led here leads back
            if reached.get(node) != (name, other):
                reached[other] = (name, node)
                stack.append(other)
    return reached


def _roots(forest: Digraph, components: Components[Node], roots: Iterable[Node] | None) -> list[Node]:
    """One root per component: those given, checked, or the first node of each."""
    found: dict[Node, Node] = {}
    for root in forest.nodes if roots is None else roots:
        forest.index(root)
        other = found.setdefault(components.find(root), root)
        if roots is not None and other != root:
            raise GraphError(
                f"spanning_tree: the roots {other!r} and {root!r} are connected. Keep one root in each component."
            )
    if unreached := [node for node in forest.nodes if components.find(node) not in found]:
        raise GraphError(
            f"spanning_tree: no root reaches {quote_names(unreached)}. Connect them with edges, or name a root in each "
            "component."
        )
    return list(found.values())


def _check_edges(forest: Digraph, ends: Mapping[Node, Edge]) -> None:
    if unknown := dict.fromkeys(node for pair in ends.values() for node in pair if node not in forest):
        raise GraphError(
            f"spanning_tree: edges name nodes that are not listed: {quote_names(unknown)}. "
            "List them among the nodes, or correct the edges."
        )
    if selfish := [name for name, (a, b) in ends.items() if a == b]:
        raise GraphError(
            f"spanning_tree: edges that join a node to itself: {quote_names(selfish)}. Such a loop has no second node "
            "that could move: remove the edge, or correct one of its ends."
        )


def _check_connected(components: Components[Node], cut: Mapping[Node, Edge]) -> None:
    for name, (a, b) in cut.items():
        if components.find(a) != components.find(b):
            raise GraphError(
                f"spanning_tree: the cut {quote_names(cut)} disconnects {b!r} from {a!r}. Edge {name!r} joins them: "
                "leave it out of the cut, or cut fewer edges of the same loop."
            )


def _refuse_loop(tree: Digraph, directed: Mapping[Node, Edge], closing: Mapping[Node, Edge]) -> None:
    name, (a, b) = next(iter(closing.items()))
    path = _path(tree, a, b)
    names = {frozenset(pair): edge for edge, pair in directed.items()}
    around = [name, *(names[frozenset(pair)] for pair in pairwise(path))]
    raise GraphError(
        f"spanning_tree: the cut leaves {len(closing)} loop{'s' if len(closing) > 1 else ''} closed; one goes through "
        f"nodes {quote_names(path)} and edges {quote_names(around)}. Add one edge of each loop to the cut."
    )


def _path(tree: Digraph, a: Node, b: Node) -> tuple[Node, ...]:
    """The nodes from a up to the nearest common ancestor and down to b."""
    up_a, up_b = (a, *tree.ancestors(a)), (b, *tree.ancestors(b))
    on_b = {node: k for k, node in enumerate(up_b)}
    turn = next(k for k, node in enumerate(up_a) if node in on_b)
    return up_a[: turn + 1] + up_b[: on_b[up_a[turn]]][::-1]


# --- loop clusters: classes of tree edges that the same loops tie together --------------------------------------------


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
    """Classes of edges, each named by its child; every class knows its top, the node that it hangs on."""

    def __init__(self, tree: Digraph) -> None:
        self.tree = tree
        self.parent = [own[0] if own else -1 for own in tree.parent_indices]
        self.depth = [0] * len(tree)
        for k in tree.topological_indices:
            self.depth[k] = self.depth[self.parent[k]] + 1 if self.parent[k] >= 0 else 0
        self.joined = Components(range(len(tree)))
        self.top = list(self.parent)

    def find(self, edge: int) -> int:
        """The edge that stands for the class of an edge."""
        return self.joined.find(edge)

    def join(self, a: int, b: int) -> int:
        """Make one class of two; its top is the higher one of theirs."""
        tops = self.top[self.find(a)], self.top[self.find(b)]
        self.joined.join(a, b)
        leader = self.find(a)
        self.top[leader] = min(tops, key=self.depth.__getitem__)
        return leader

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
                    apart = quote_names([self.tree.nodes[nodes[0]], self.tree.nodes[other]])
                    raise GraphError(
                        f"loop_clusters: nothing connects {apart}, which one tie names. Connect them, or give the "
                        f"forest a common root."
                    )
                up = self.top[self.find(a)]  # before it joins a class that is still in two pieces
                edge = a if edge is None else self.join(edge, a)
                a = up
        return edge
