"""Sets of nodes as one node: path-closed sets, condensed graphs, their BWA matrices, and classes of tied tree edges.

The oracles share nothing with the library: all paths by enumeration, biconnected blocks by taking nodes away one by
one, matrices in Fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whippletree.errors import GraphError
from whippletree.graph import (
    BlockWeightedAdjacency,
    Digraph,
    aggregated_subspace,
    block_diagonal,
    condense,
    is_path_closed,
    loop_clusters,
    outer_parents,
    path_closure,
    subgraph,
)


@st.composite
def dags(draw, most=8):
    n = draw(st.integers(1, most))
    order = draw(st.permutations(range(n)))
    edges = [(order[i], order[j]) for i in range(n) for j in range(i + 1, n) if draw(st.booleans())]
    return Digraph(draw(st.permutations(range(n))), edges)


@st.composite
def tied_trees(draw, most=12):
    n = draw(st.integers(2, most))
    parents = {0: None} | {k: draw(st.integers(max(0, k - 3), k - 1)) for k in range(1, n)}
    ties = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=2, max_size=3, unique=True), max_size=5))
    names = draw(st.permutations(range(n)))
    tree = Digraph(names, [(p, k) for k, p in parents.items() if p is not None])
    return tree, ties


def all_paths(graph, a, b):
    found, todo = [], [(a,)]
    while todo:
        path = todo.pop()
        for child in graph.children(path[-1]):
            if child == b:
                found.append((*path, child))
            todo.append((*path, child))
    return found


@given(dags(), st.data())
def test_a_path_closed_set_holds_every_path_between_its_nodes(graph, data):
    chosen = set(data.draw(st.lists(st.sampled_from(graph.nodes), unique=True)))
    between = {k for a in chosen for b in chosen for path in all_paths(graph, a, b) for k in path}
    assert path_closure(graph, chosen) == chosen | between
    assert is_path_closed(graph, chosen) == (between <= chosen)
    assert is_path_closed(graph, path_closure(graph, chosen))
    assert set(outer_parents(graph, chosen)) == {p for p, c in graph.edges if c in chosen and p not in chosen}
    inside = subgraph(graph, chosen)
    assert set(inside.nodes) == chosen
    assert set(inside.edges) == {(p, c) for p, c in graph.edges if {p, c} <= chosen}


@given(dags(), st.data())
def test_a_graph_can_be_condensed_exactly_when_the_set_is_path_closed(graph, data):
    chosen = data.draw(st.lists(st.sampled_from(graph.nodes), unique=True, min_size=1))
    if is_path_closed(graph, chosen):
        assert condense(graph, {"S": chosen}).graph.is_acyclic
    else:
        with pytest.raises(GraphError, match="comes back"):
            condense(graph, {"S": chosen})


@given(dags(), st.data())
def test_the_resolvent_of_the_condensed_graph_times_that_of_the_groups_is_the_resolvent(graph, data):
    chosen = path_closure(graph, data.draw(st.lists(st.sampled_from(graph.nodes), unique=True)))
    small = st.integers(-3, 3).map(lambda k: Fraction(k, 2))
    sizes = {node: data.draw(st.integers(1, 2)) for node in graph.nodes}
    entries = st.lists(small, min_size=4, max_size=4)
    weights = {
        (p, c): np.array(data.draw(entries)[: sizes[p] * sizes[c]], dtype=object).reshape(sizes[p], sizes[c])
        for p, c in graph.edges
    }
    E = BlockWeightedAdjacency(graph, weights, sizes)
    small_graph = condense(graph, {"S": chosen} if chosen else {})
    E_c, A_in = small_graph.adjacency(E), small_graph.regroup(small_graph.inner_resolvent(E))
    whole = small_graph.regroup(E.resolvent())
    assert np.all((A_in @ E_c.resolvent().explicit()).dense() == whole.dense())
    assert E_c.nilpotency <= E.nilpotency
    H = {node: np.ones((1, sizes[node]), dtype=int) for node in graph.nodes}
    H_c = aggregated_subspace(small_graph, E, H)
    assert np.all(
        (H_c @ E_c.resolvent().explicit()).dense() == small_graph.regroup(block_diagonal(H) @ E.resolvent()).dense()
    )


def test_groups_may_close_a_cycle_together():
    graph = Digraph("abcd", [("a", "b"), ("c", "d")])
    with pytest.raises(GraphError, match="together"):
        condense(graph, {"S": "ad", "T": "bc"})


def test_a_node_belongs_to_one_group():
    with pytest.raises(GraphError, match="merge the groups"):
        condense(Digraph("abc"), {"S": "ab", "T": "bc"})


def connecting_edges(tree, nodes):
    """Edges, by their children, of the smallest subtree: those that separate two of the nodes."""
    found = set()
    for k in tree.nodes:
        if tree.parents(k):
            below = {k, *tree.descendants(k)}
            if any((a in below) != (b in below) for a, b in combinations(nodes, 2)):
                found.add(k)
    return found


@given(tied_trees())
def test_clusters_are_the_classes_of_edges_that_ties_connect(case):
    tree, ties = case
    classes = [{k} for k in tree.nodes if tree.parents(k)]
    for tie in ties:
        edges = connecting_edges(tree, tie)
        touched = [own for own in classes if own & edges]
        classes = [own for own in classes if not own & edges] + ([set().union(*touched)] if touched else [])
    found = loop_clusters(tree, ties)
    assert {frozenset(own) for own in found.members} == {frozenset(own) for own in classes}
    for tie, number in zip(ties, found.cluster_of_tie, strict=True):
        edges = connecting_edges(tree, tie)
        assert edges <= set(found.members[number]) if edges else number == -1
    for number, (own, top, parent) in enumerate(zip(found.members, found.tops, found.parents, strict=True)):
        assert outer_parents(tree, own) == (top,)
        assert is_path_closed(tree, own)
        assert parent < number
        assert all(tree.parent(k) in {top, *own[:i]} for i, k in enumerate(own))


@given(tied_trees())
def test_clusters_condense_the_tree_to_a_tree(case):
    tree, ties = case
    found = loop_clusters(tree, ties)
    small = condense(tree, {f"c{i}": own for i, own in enumerate(found.members)})
    assert small.graph.is_tree
    assert len(small.graph) == len(found.members) + 1


def biconnected_blocks(nodes, edges):
    """Blocks of an undirected multigraph as sets of edge numbers: alike are edges on one simple cycle."""
    alike = {e: {e} for e in range(len(edges))}
    for e, f in combinations(range(len(edges)), 2):
        if _on_one_cycle(nodes, edges, e, f):
            merged = alike[e] | alike[f]
            for g in merged:
                alike[g] = merged
    return {frozenset(own) for own in alike.values()}


def _on_one_cycle(nodes, edges, e, f):
    """Whether a simple cycle holds both edges: no single node, taken away, separates them."""
    for node in nodes:
        left = [g for g in range(len(edges)) if node not in edges[g]]
        start = {x for x in edges[e] if x != node}
        reach = set(start)
        while True:
            more = {y for g in left for y in edges[g] if set(edges[g]) & reach} - reach
            if not more:
                break
            reach |= more
        if not {x for x in edges[f] if x != node} & reach:
            return False
    # no bridge between them either: two edges with all four ends alike are parallel; else Menger gives two paths
    return _two_edge_connected(edges, e, f)


def _two_edge_connected(edges, e, f):
    for g in (e, f):
        a, b = edges[g]
        reach = {a}
        while True:
            more = {y for h, pair in enumerate(edges) if h != g and set(pair) & reach for y in pair} - reach
            if not more:
                break
            reach |= more
        if b not in reach:
            return False
    return True


@given(tied_trees(most=8))
def test_clusters_of_cut_edges_are_the_biconnected_blocks(case):
    tree, ties = case
    pairs = [tuple(tie[:2]) for tie in ties]
    edges = [*tree.edges, *pairs]
    blocks = biconnected_blocks(tree.nodes, edges)
    found = loop_clusters(tree, pairs)
    of_tree = {frozenset(edges[e][1] for e in own if e < len(tree.edges)) for own in blocks} - {frozenset()}
    assert {frozenset(own) for own in found.members} == of_tree


def test_a_long_ladder_is_one_cluster_in_little_time():
    n = 20_000
    tree = Digraph.from_parents({0: None} | {k: k - 2 if k > 2 else 0 for k in range(1, 2 * n + 1)})
    found = loop_clusters(tree, [(k, k + 1) for k in range(1, 2 * n, 2)])
    assert len(found.members) == 1


def test_a_tie_must_be_connected():
    with pytest.raises(GraphError, match="nothing connects"):
        loop_clusters(Digraph("ab"), ["ab"])
