"""Directed graphs with named nodes in any order, and their matrices (002, "Graph Theory Background").

Every traversal is a loop over a list, not a recursion: a chain of a million nodes costs linear time and meets no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whippletree.errors import GraphError, did_you_mean

Node: TypeAlias = Hashable
Edge: TypeAlias = tuple[Node, Node]  # (parent, child)

NODES_SHOWN = 8  # how many names a message lists before it only counts


@dataclass(frozen=True, init=False)
class Digraph:
    """A directed graph: nodes in any order and edges (parent, child), at most one edge per ordered pair.

    The position of a node in ``nodes`` is its *index*: the row and column it has in every matrix of the graph.
    Neighbours are listed in the order of their edges. Directed cycles are allowed here, and refused by name where they
    do harm.

    Args:
        nodes: names, all different: strings, integers or anything hashable.
        edges: pairs (parent, child) of listed nodes.

    Raises:
        GraphError: repeated nodes, edges between unlisted nodes, repeated edges.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def __init__(self, nodes: Iterable[Node], edges: Iterable[Edge] = ()) -> None:
        vars(self).update(nodes=tuple(nodes), edges=tuple((parent, child) for parent, child in edges))
        if len(self._index) < len(self.nodes):
            raise GraphError(
                f"Digraph: nodes listed more than once: {quote_names(_repeated_items(self.nodes))}. "
                "Names tell nodes apart: rename or remove the repeats."
            )
        if unknown := dict.fromkeys(node for edge in self.edges for node in edge if node not in self._index):
            raise GraphError(
                f"Digraph: edges name nodes that are not listed: {quote_names(unknown)}. "
                "List them among the nodes, or correct the edges."
            )
        if len(set(self.edges)) < len(self.edges):
            raise GraphError(
                f"Digraph: edges given more than once: {arrows(_repeated_items(self.edges))}. An adjacency matrix has "
                "room for one edge per pair: merge them, or cut all but one (spanning_tree takes parallel edges)."
            )

    @classmethod
    def from_parents(cls, parents: Mapping[Any, Node | None]) -> Digraph:
        """The forest in which each key is a node and its value the parent, or None for a root."""
        return cls(parents, ((parent, child) for child, parent in parents.items() if parent is not None))

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._index

    def index(self, node: Node) -> int:
        """The position of a node in ``nodes``."""
        try:
            return self._index[node]
        except KeyError:
            known, hint = quote_names(self.nodes) or "none", did_you_mean(str(node), map(str, self.nodes))
            raise GraphError(f"Digraph: there is no node {node!r}; known: {known}{hint}") from None

    # -- neighbours ------------------------------------------------------------------------------------------------

    def parents(self, node: Node) -> tuple[Node, ...]:
        """℘(k): the nodes with an edge to this one."""
        return tuple(self.nodes[p] for p in self.parent_indices[self.index(node)])

    def parent(self, node: Node) -> Node | None:
        """The only parent of a node, None for a root; an error where there are several."""
        found = self.parents(node)
        if len(found) > 1:
            raise GraphError(
                f"Digraph: node {node!r} has {len(found)} parents: {quote_names(found)}. In a tree a node has at most "
                "one: cut the other edges (spanning_tree), or ask for parents()."
            )
        return found[0] if found else None

    def children(self, node: Node) -> tuple[Node, ...]:
        """C(k): the nodes that this one has an edge to."""
        return tuple(self.nodes[c] for c in self.child_indices[self.index(node)])

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes without parents, in order of index."""
        return tuple(node for node, parents in zip(self.nodes, self.parent_indices) if not parents)

    @property
    def tips(self) -> tuple[Node, ...]:
        """The nodes without children, in order of index."""
        return tuple(node for node, children in zip(self.nodes, self.child_indices) if not children)

    # -- the ancestor relation -------------------------------------------------------------------------------------

    def ancestors(self, node: Node) -> tuple[Node, ...]:
        """Every j with node ≺ j, nearest first. On a directed cycle a node is its own ancestor."""
        return self._reach(node, self.parent_indices)

    def descendants(self, node: Node) -> tuple[Node, ...]:
        """Every i with i ≺ node, nearest first."""
        return self._reach(node, self.child_indices)

    def is_ancestor(self, ancestor: Node, node: Node) -> bool:
        """node ≺ ancestor: a path of at least one edge leads from ``ancestor`` down to ``node``."""
        self.index(ancestor)
        return ancestor in self.ancestors(node)

    def are_related(self, i: Node, j: Node) -> bool:
        """Whether a path joins the nodes in either direction; a node is related to itself (the path of no edges)."""
        return i == j or self.is_ancestor(i, j) or self.is_ancestor(j, i)

    def related_pairs(self) -> Iterator[tuple[Node, Node]]:
        """Every pair (ancestor, node): the places where the resolvent minus one can differ from zero."""
        return ((ancestor, node) for node in self.nodes for ancestor in self.ancestors(node))

    # -- what kind of graph ----------------------------------------------------------------------------------------

    @property
    def is_acyclic(self) -> bool:
        """No directed cycle: the ancestor relation is a partial order."""
        return len(self._topological) == len(self)

    @property
    def is_forest(self) -> bool:
        """Acyclic, and no node has two parents: at most one path joins any two nodes."""
        return self.is_acyclic and all(len(parents) <= 1 for parents in self.parent_indices)

    @property
    def is_tree(self) -> bool:
        """A forest with a single root."""
        return self.is_forest and len(self.roots) == 1

    @property
    def is_serial_chain(self) -> bool:
        """A tree in which no node has two children: every pair of nodes is related."""
        return self.is_tree and len(self.tips) == 1

    @property
    def is_canonical(self) -> bool:
        """Every parent has a larger index than its child: the adjacency matrix is strictly lower triangular.

        This is 002's convention (tips first). The rest of the library lists parents first, and no algorithm asks for
        either. 002 defines the word for trees; the triangular form makes sense for any graph, so it is the definition
        here.
        """
        return all(p > c for c, parents in enumerate(self.parent_indices) for p in parents)

    @property
    def is_strictly_canonical(self) -> bool:
        """A canonical forest in which every subtree occupies consecutive indices, its root the last of them.

        002 says only "index within branch are canonical" beside its figure; read with that figure, in which each branch
        is numbered through before the next begins, the definition is this one. It says that the numbering is the
        post-order of a depth-first traversal, so that related nodes form dense diagonal blocks.
        """
        if not (self.is_canonical and self.is_forest):
            return False
        size, first = [1] * len(self), list(range(len(self)))
        # in a canonical forest increasing index visits children before parents
        for child, parents in enumerate(self.parent_indices):
            for p in parents:
                size[p] += size[child]
                first[p] = min(first[p], first[child])
        return all(k - first[k] + 1 == size[k] for k in range(len(self)))

    # -- orders and cycles -----------------------------------------------------------------------------------------

    @property
    def topological_order(self) -> tuple[Node, ...]:
        """Every node after all its parents. A forest comes out depth first, in the order of its edges.

        Raises:
            GraphError: a directed cycle, by name.
        """
        return tuple(self.nodes[k] for k in self.topological_indices)

    @property
    def topological_indices(self) -> tuple[int, ...]:
        """``topological_order`` as indices."""
        self.require_acyclic("topological_order", "no order puts every parent before its children")
        return self._topological

    @property
    def height(self) -> int:
        """The number of edges on the longest path; −1 for the graph without nodes."""
        depth = [0] * len(self)
        for k in self.topological_indices:
            depth[k] = max((depth[p] + 1 for p in self.parent_indices[k]), default=0)
        return max(depth, default=-1)

    def find_cycle(self) -> tuple[Node, ...] | None:
        """Some directed cycle (a, b, …, z) with edges a → b → … → z → a, or None."""
        if self.is_acyclic:
            return None
        unsorted = set(range(len(self))).difference(self._topological)
        # a node stays unsorted only while a parent does, so the walk upwards must come back to where it has been
        k, visited = min(unsorted), dict[int, None]()
        while k not in visited:
            visited[k] = None
            k = next(p for p in self.parent_indices[k] if p in unsorted)
        upwards = list(visited)
        cycle = upwards[upwards.index(k) :][::-1]
        start = cycle.index(min(cycle))
        return tuple(self.nodes[k] for k in cycle[start:] + cycle[:start])

    def require_acyclic(self, where: str, why: str) -> None:
        """Raise a GraphError that names a directed cycle, if there is one."""
        if cycle := self.find_cycle():
            shown = [repr(node) for node in cycle[:NODES_SHOWN]]
            if len(cycle) > NODES_SHOWN:
                shown.append(f"… ({len(cycle)} nodes)")
            raise GraphError(
                f"{where}: the graph has the directed cycle {' → '.join([*shown, repr(cycle[0])])}, so {why}. "
                "Reverse or cut one of its edges (spanning_tree cuts every loop of an undirected graph)."
            )

    def permuted(self, order: Iterable[Node]) -> Digraph:
        """This graph with its nodes listed in another order."""
        return Digraph(check_permutation(self.nodes, order), self.edges)

    # -- derived once, on first use --------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> dict[Node, int]:
        return {node: k for k, node in enumerate(self.nodes)}

    @cached_property
    def parent_indices(self) -> tuple[tuple[int, ...], ...]:
        """The indices of the parents of each node, in order of index."""
        return self._neighbours((self._index[child], self._index[parent]) for parent, child in self.edges)

    @cached_property
    def child_indices(self) -> tuple[tuple[int, ...], ...]:
        """The indices of the children of each node, in order of index."""
        return self._neighbours((self._index[parent], self._index[child]) for parent, child in self.edges)

    def _neighbours(self, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.nodes]
        for here, there in pairs:
            found[here].append(there)
        return tuple(map(tuple, found))

    @cached_property
    def _topological(self) -> tuple[int, ...]:
        """Kahn's algorithm; a node on a directed cycle, or below one, waits for a parent for ever and is left out."""
        waiting = [len(parents) for parents in self.parent_indices]
        # a stack, filled backwards, makes the order of a forest depth first in the order of its edges
        ready = [k for k in reversed(range(len(self))) if not waiting[k]]
        order = []
        while ready:
            k = ready.pop()
            order.append(k)
            for child in reversed(self.child_indices[k]):
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
        return tuple(order)

    def _reach(self, node: Node, neighbours: tuple[tuple[int, ...], ...]) -> tuple[Node, ...]:
        start = self.index(node)
        found = dict.fromkeys(neighbours[start])
        queue = list(found)
        for k in queue:  # grows while it is read: breadth first
            for n in neighbours[k]:
                if n not in found:
                    found[n] = None
                    queue.append(n)
        return tuple(self.nodes[k] for k in queue)


def adjacency(graph: Digraph) -> NDArray[np.int_]:
    """S(r, q) = 1 when r is a parent of q, else 0. Shape (n, n), in order of index."""
    return weighted_adjacency(graph, dict.fromkeys(graph.edges, 1))


def weighted_adjacency(graph: Digraph, weights: Mapping[Any, Any]) -> NDArray[Any]:
    """S_W(k, j) = w(k, j) when k is a parent of j, else 0. Shape (n, n), in order of index.

    Args:
        graph: n nodes.
        weights: one scalar of any type for each edge (parent, child).
    """
    check_weights("weighted_adjacency", graph, weights)
    # NumPy is asked about its own scalars only: symbols of other libraries may look like arrays to it
    plain = (bool, int, float, complex, np.generic)
    kinds = {np.asarray(w).dtype if isinstance(w, plain) else np.dtype(object) for w in weights.values()}
    S = np.zeros((len(graph), len(graph)), dtype=np.result_type(*kinds) if kinds else int)
    for parent, child in graph.edges:
        S[graph.index(parent), graph.index(child)] = weights[parent, child]
    return S


def incidence(graph: Digraph) -> NDArray[np.int_]:
    """B(k, e) = 1 when edge e leaves node k, −1 when it enters k, else 0. Shape (nodes, edges).

    002 names the matrix without fixing a sign. An edge from a node to itself leaves and enters it: its column is zero.
    """
    B = np.zeros((len(graph), len(graph.edges)), dtype=int)
    for e, (parent, child) in enumerate(graph.edges):
        B[graph.index(parent), e] += 1
        B[graph.index(child), e] -= 1
    return B


# -- checks and wording shared by the modules of this package ------------------------------------------------------


def check_permutation(names: tuple[Node, ...], order: Iterable[Node]) -> tuple[Node, ...]:
    """The order as a tuple, if it lists each name exactly once."""
    wanted = tuple(order)
    missing, extra = _without(names, set(wanted)), _without(wanted, set(names))
    if missing or extra or len(wanted) != len(names):
        raise GraphError(
            f"permuted: the order must list every node exactly once; missing: {quote_names(missing) or 'none'}; "
            f"unknown: {quote_names(extra) or 'none'}; repeated: {quote_names(_repeated_items(wanted)) or 'none'}."
        )
    return wanted


def check_weights(where: str, graph: Digraph, weights: Mapping[Any, Any]) -> None:
    """Every edge has a weight, and every weight an edge."""
    missing, extra = _without(graph.edges, set(weights)), _without(weights, set(graph.edges))
    if missing or extra:
        raise GraphError(
            f"{where}: each edge (parent, child) needs one weight; edges without one: {arrows(missing) or 'none'}; "
            f"weights without an edge: {arrows(extra) or 'none'}."
        )


def quote_names(names: Iterable[object]) -> str:
    """'a', 'b', … for a message: the first few names and how many there are."""
    return _shorten([repr(name) for name in names])


def arrows(edges: Iterable[Any]) -> str:
    """'a' → 'b', … for a message."""
    return _shorten([" → ".join(map(repr, e)) if isinstance(e, tuple) else repr(e) for e in edges])


def _shorten(shown: list[str]) -> str:
    return ", ".join(shown[:NODES_SHOWN]) + (f", … ({len(shown)} in all)" if len(shown) > NODES_SHOWN else "")


def _without(items: Iterable[Node], others: set[Any]) -> list[Node]:
    return [item for item in items if item not in others]


def _repeated_items(items: Iterable[Node]) -> list[Node]:
    return [item for item, count in Counter(items).items() if count > 1]
