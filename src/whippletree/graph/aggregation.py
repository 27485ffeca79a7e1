"""Aggregation: sets of nodes become one node, and what that does to a graph, a BWA matrix and its resolvent.

The next steps of document 002 (its topics 10 and 11; Jain, "Multibody graph transformations and analysis"). A set of
nodes is *path-closed* when every directed path between two of its nodes stays inside: then, and only then, one node can
take its place without a path that leaves it and comes back. Groups that are path-closed one by one may still close a
cycle together, so the condensed graph is checked as a whole.

With the edges inside groups in E_in and those between groups in E_out, E = E_in + E_out, and with A_in = (1 − E_in)⁻¹,
the resolvent of the groups alone,

    1 − E = (1 − E_out A_in) (1 − E_in)        A = (1 − E)⁻¹ = A_in A_c,    A_c = (1 − E_c)⁻¹,    E_c = E_out A_in

so E_c is a BWA matrix on the condensed graph, whose blocks have the sizes of whole groups, and A_c its 1-resolvent. An
operator H A of the fine graph is (H A_in) A_c on the condensed one: with H_c = H A_in in place of H every tree
algorithm runs there unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.errors import GraphError
from whippletree.graph.blocks import BlockOperator, Operator, Partition, block_diagonal
from whippletree.graph.bwa import BlockWeightedAdjacency
from whippletree.graph.digraph import Digraph, Node, quote_names


def subgraph(graph: Digraph, nodes: Iterable[Node]) -> Digraph:
    """The graph of these nodes, in the order of the whole graph, with every edge that joins two of them."""
    chosen = {graph.nodes[graph.index(node)] for node in nodes}
    kept = [(parent, child) for parent, child in graph.edges if parent in chosen and child in chosen]
    return Digraph([node for node in graph.nodes if node in chosen], kept)


def is_path_closed(graph: Digraph, nodes: Iterable[Node]) -> bool:
    """Whether every directed path between two of these nodes stays among them."""
    chosen = set(nodes)
    return path_closure(graph, chosen) == chosen


def path_closure(graph: Digraph, nodes: Iterable[Node]) -> set[Node]:
    """The smallest path-closed set that holds these nodes: all that lies on a directed path between two of them."""
    chosen = {graph.nodes[graph.index(node)] for node in nodes}
    below = _reachable_nodes(graph, chosen, graph.child_indices)
    above = _reachable_nodes(graph, chosen, graph.parent_indices)
    return chosen | (below & above)


def outer_parents(graph: Digraph, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes outside that have an edge into the set, in order of index; one at most if it is to be a tree's node."""
    chosen = set(nodes)
    found = {parent for node in chosen for parent in graph.parents(node)} - chosen
    return tuple(node for node in graph.nodes if node in found)


def _reachable_nodes(graph: Digraph, start: set[Node], neighbours: tuple[tuple[int, ...], ...]) -> set[Node]:
    """Every node that at least one edge, and any number of them, leads to."""
    stack = [graph.index(node) for node in start]
    found: set[int] = set()
    while stack:
        for k in neighbours[stack.pop()]:
            if k not in found:
                found.add(k)
                stack.append(k)
    return {graph.nodes[k] for k in found}


@dataclass(frozen=True)
class Condensation:
    """A graph whose groups of nodes have become single nodes. Made by :func:`condense`."""

    fine: Digraph
    groups: Mapping[Node, tuple[Node, ...]]
    """Name of a condensed node -> the nodes that it is made of, in the order of the fine graph; all nodes are there."""
    graph: Digraph
    """The condensed graph: one node per group, an edge where some edge joins two groups."""

    @cached_property
    def group_of(self) -> Mapping[Node, Node]:
        """Node of the fine graph -> the condensed node that it belongs to."""
        return {node: name for name, members in self.groups.items() for node in members}

    def adjacency(self, E: BlockWeightedAdjacency) -> BlockWeightedAdjacency:
        """E_c = E_out A_in: the BWA matrix of the condensed graph; a block has the size of a whole group."""
        between = self.regroup(BlockOperator(E.rows, E.cols, self._split(E)[1]))
        product = between @ self.regroup(self.inner_resolvent(E))
        blocks = {edge: product.block(*edge) for edge in self.graph.edges}
        sizes = dict(zip(product.rows.names, product.rows.sizes))
        return BlockWeightedAdjacency(self.graph, blocks, sizes)

    def inner_resolvent(self, E: BlockWeightedAdjacency) -> BlockOperator:
        """A_in = (1 − E_in)⁻¹, with the blocks of the fine graph: paths that stay in one group."""
        inside = self._split(E)[0]
        graph = Digraph(self.fine.nodes, inside)
        return BlockWeightedAdjacency(graph, inside, dict(zip(E.rows.names, E.rows.sizes))).resolvent().explicit()

    def regroup(self, operator: Operator) -> BlockOperator:
        """An operator on the nodes of the fine graph with its rows and columns cut by groups instead."""
        found = operator.explicit()
        rows, cols = self._partition(found.rows), self._partition(found.cols)
        row_places, col_places = self._places(found.rows), self._places(found.cols)
        blocks: dict[tuple[Node, Node], Any] = {}
        for (i, j), w in found.blocks.items():
            key = self.group_of[i], self.group_of[j]
            if key not in blocks:
                blocks[key] = np.zeros((rows.size(key[0]), cols.size(key[1])), dtype=found.dtype)
            blocks[key][row_places[i], col_places[j]] = w
        return BlockOperator(rows, cols, blocks)

    def _split(self, E: BlockWeightedAdjacency) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """The weights of the edges inside groups, and of those between them."""
        if E.graph != self.fine:
            raise GraphError("Condensation: the BWA matrix belongs to another graph than the one that was condensed.")
        inside = {edge: w for edge, w in E.blocks.items() if self.group_of[edge[0]] == self.group_of[edge[1]]}
        return inside, {edge: w for edge, w in E.blocks.items() if edge not in inside}

    def _partition(self, fine: Partition) -> Partition:
        return Partition({name: sum(fine.size(node) for node in own) for name, own in self.groups.items()})

    def _places(self, fine: Partition) -> dict[Node, slice]:
        """Where each fine node is inside the block of its group."""
        places: dict[Node, slice] = {}
        for own in self.groups.values():
            start = 0
            for node in own:
                places[node] = slice(start, start + fine.size(node))
                start += fine.size(node)
        return places


def condense(graph: Digraph, groups: Mapping[Any, Iterable[Node]]) -> Condensation:
    """Make one node of every group; a node that no group names stays a node of its own.

    Args:
        graph: any directed graph; cycles are allowed only inside groups.
        groups: name of the new node -> the nodes that it takes the place of; no node in two groups.

    Raises:
        GraphError: a node in two groups, a group that is not path-closed, or groups that close a cycle together.
    """
    own = {name: {graph.nodes[graph.index(node)] for node in nodes} for name, nodes in groups.items()}
    taken: dict[Node, Node] = {}
    for name, nodes in own.items():
        if twice := [node for node in nodes if node in taken]:
            raise GraphError(
                f"condense: {quote_names(twice)} belong to group {taken[twice[0]]!r} and to group {name!r}. A node "
                "goes into one group: merge the groups that share it."
            )
        taken.update(dict.fromkeys(nodes, name))
    if clash := [name for name in own if name in graph and name not in own[name] and name not in taken]:
        raise GraphError(
            f"condense: the names {quote_names(clash)} are those of nodes that stay: name the groups otherwise."
        )
    named = {node: taken.get(node, node) for node in graph.nodes}
    order = list(dict.fromkeys(named[node] for node in graph.nodes))
    members = {name: tuple(node for node in graph.nodes if named[node] == name) for name in order}
    pairs = dict.fromkeys((named[a], named[b]) for a, b in graph.edges if named[a] != named[b])
    condensed = Digraph(order, pairs)
    if cycle := condensed.find_cycle():
        _refuse_cycle(graph, own, cycle)
    return Condensation(graph, members, condensed)


def _refuse_cycle(graph: Digraph, groups: Mapping[Node, set[Node]], cycle: tuple[Node, ...]) -> None:
    """Say which group a path leaves and enters again, or which groups close a cycle together."""
    for name, nodes in groups.items():
        if between := [node for node in graph.nodes if node in path_closure(graph, nodes) - nodes]:
            raise GraphError(
                f"condense: a directed path leaves group {name!r} and comes back to it through {quote_names(between)}, "
                "so one node in its place would be its own ancestor. Take these nodes into the group (path_closure)."
            )
    raise GraphError(
        f"condense: the groups close the directed cycle {' → '.join(map(repr, (*cycle, cycle[0])))} together, though "
        "each of them is path-closed. Merge the groups on it."
    )


def aggregated_subspace(condensed: Condensation, E: BlockWeightedAdjacency, H: Mapping[Any, Any]) -> BlockOperator:
    """H_c = H A_in, cut by groups: the joints of a group act on all its bodies that lie beyond them."""
    joints = block_diagonal({node: H[node] for node in condensed.fine.nodes})
    return condensed.regroup(joints @ condensed.inner_resolvent(E))
