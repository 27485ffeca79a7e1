"""Loops: a spanning tree, its cut edges and the loops they close, on random multigraphs of bodies and joints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whippletree.errors import GraphError
from whippletree.graph import spanning_tree

NAMES = ["base", "hip", 3, "knee", 0, ("a", "tuple"), -1]


@st.composite
def multigraphs(draw):
    names = draw(st.permutations(NAMES))[: draw(st.integers(2, 7))]
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda pair: pair[0] != pair[1])
    ends = draw(st.lists(pairs, max_size=10))
    return names, {f"joint{k}": pair for k, pair in enumerate(ends)}


def components(nodes, ends):
    """The connected sets of nodes, by merging."""
    sets = [{node} for node in nodes]
    for pair in ends:
        touched = [s for s in sets if s & set(pair)]
        sets = [s for s in sets if s not in touched] + [set().union(*touched)]
    return {frozenset(s) for s in sets}


@given(multigraphs(), st.data())
def test_spanning_tree_and_cut_edges(multigraph, data):
    nodes, edges = multigraph
    parts = components(nodes, edges.values())
    roots = [data.draw(st.sampled_from(sorted(part, key=repr))) for part in parts]
    tree = spanning_tree(nodes, edges, roots=roots)
    assert tree.graph.nodes == tuple(nodes)
    assert tree.graph.is_forest
    assert set(tree.graph.roots) == set(roots)
    assert components(nodes, tree.graph.edges) == parts
    # every edge is in one of the two sets, and the tree's know whether they were turned round
    assert {*tree.tree_edges, *tree.cut_edges} == set(edges)
    assert len(tree.cut_edges) == len(edges) - len(nodes) + len(parts)
    assert tuple(tree.tree_edges.values()) == tree.graph.edges
    for name, (parent, child) in tree.tree_edges.items():
        assert edges[name] == ((child, parent) if name in tree.reversed_edges else (parent, child))
    # the cut edge of a loop is the one declared last, wherever the roots are
    assert tree.cut_edges == spanning_tree(nodes, edges).cut_edges
    joined = {frozenset(pair): name for name, pair in tree.tree_edges.items()}
    for name, ends in tree.cut_edges.items():
        loop = tree.loop(name)
        assert (loop[0], loop[-1]) == edges[name] == ends
        assert len(set(loop)) == len(loop)
        names = [joined[frozenset(pair)] for pair in pairwise(loop)]
        assert all(list(edges).index(other) < list(edges).index(name) for other in names)
        # any other edge of the loop can be cut instead
        swapped = [*(set(tree.cut_edges) - {name}), data.draw(st.sampled_from(names))]
        other = spanning_tree(nodes, edges, roots=roots, cut=swapped)
        assert set(other.cut_edges) == set(swapped)
        assert other.graph.is_forest
        assert components(nodes, other.graph.edges) == parts


@given(multigraphs(), st.data())
def test_a_chosen_cut_works_exactly_when_what_is_left_is_a_spanning_forest(multigraph, data):
    nodes, edges = multigraph
    assume(edges)
    cut = data.draw(st.lists(st.sampled_from(list(edges)), unique=True))
    left = [pair for name, pair in edges.items() if name not in cut]
    parts = components(nodes, edges.values())
    if components(nodes, left) == parts and len(left) == len(nodes) - len(parts):
        assert set(spanning_tree(nodes, edges, cut=cut).cut_edges) == set(cut)
    else:
        with pytest.raises(GraphError, match=r"leaves \d+ loop|disconnects"):
            spanning_tree(nodes, edges, cut=cut)


def test_a_four_bar_linkage_cut_at_each_joint():
    bodies = ["ground", "crank", "coupler", "rocker"]
    joints = {
        "A": ("ground", "crank"),
        "B": ("crank", "coupler"),
        "C": ("coupler", "rocker"),
        "D": ("rocker", "ground"),
    }
    default = spanning_tree(bodies, joints)
    assert dict(default.cut_edges) == {"D": ("rocker", "ground")}
    assert default.loop("D") == ("rocker", "coupler", "crank", "ground")
    assert default.graph.is_serial_chain
    at_the_coupler = spanning_tree(bodies, joints, cut=["C"])
    assert at_the_coupler.tree_edges == {"A": ("ground", "crank"), "B": ("crank", "coupler"), "D": ("ground", "rocker")}
    assert at_the_coupler.reversed_edges == {"D"}
    assert at_the_coupler.loop("C") == ("coupler", "crank", "ground", "rocker")


def test_parallel_edges_are_loops_of_two_nodes():
    tree = spanning_tree("ab", {"hinge": ("a", "b"), "spare": ("b", "a")})
    assert tree.cut_edges == {"spare": ("b", "a")}
    assert tree.loop("spare") == ("b", "a")
    assert spanning_tree("ab", {"hinge": ("a", "b"), "spare": ("b", "a")}, cut=["hinge"]).reversed_edges == {"spare"}


@pytest.mark.slow
def test_a_loop_of_a_hundred_thousand_nodes():
    ring = np.random.default_rng(2).permutation(100_000).tolist()
    tree = spanning_tree(range(len(ring)), [*pairwise(ring), (ring[-1], ring[0])], roots=[ring[0]])
    assert tree.graph.topological_order == tuple(ring)
    assert tree.cut_edges == {len(ring) - 1: (ring[-1], ring[0])}
    assert tree.loop(len(ring) - 1) == tuple(reversed(ring))
