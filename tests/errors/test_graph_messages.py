"""Every message of ``whippletree.graph`` once, whole."""

from __future__ import annotations

import numpy as np
import pytest

from whippletree.errors import GraphError, ShapeError
from whippletree.graph import (
    BlockWeightedAdjacency,
    Digraph,
    Partition,
    block_diagonal,
    identity,
    permutation,
    spanning_tree,
    weighted_adjacency,
)

AB = Digraph("ab", ["ab"])
ONE = BlockWeightedAdjacency(AB, {("a", "b"): [[1]]})
RING = {"p": "ab", "q": "bc", "r": "ca"}


def bwa(edges, **options):
    """A BWA matrix on the nodes a, b, c with blocks of one entry."""
    graph = Digraph("abc", edges)
    return BlockWeightedAdjacency(graph, {edge: [[1]] for edge in graph.edges}, **options)


MESSAGES = [
    (
        GraphError,
        lambda: Digraph(["a", 3, "a", "b", 3, 3]),
        "Digraph: nodes listed more than once: 'a', 3. Names tell nodes apart: rename or remove the repeats.",
    ),
    (
        GraphError,
        lambda: Digraph("ab", ["ax", "yb", "xb"]),
        "Digraph: edges name nodes that are not listed: 'x', 'y'. List them among the nodes, or correct the edges.",
    ),
    (
        GraphError,
        lambda: Digraph("ab", ["ab", "ba", "ab"]),
        "Digraph: edges given more than once: 'a' → 'b'. An adjacency matrix has room for one edge per pair: merge "
        "them, or cut all but one (spanning_tree takes parallel edges).",
    ),
    (
        GraphError,
        lambda: Digraph(["hip", "knee"]).children("kne"),
        "Digraph: there is no node 'kne'; known: 'hip', 'knee'. Did you mean 'knee'?",
    ),
    (
        GraphError,
        lambda: Digraph(range(9)).index("x"),
        "Digraph: there is no node 'x'; known: 0, 1, 2, 3, 4, 5, 6, 7, … (9 in all)",
    ),
    (
        GraphError,
        lambda: Digraph("abc", ["ac", "bc"]).parent("c"),
        "Digraph: node 'c' has 2 parents: 'a', 'b'. In a tree a node has at most one: cut the other edges "
        "(spanning_tree), or ask for parents().",
    ),
    (
        GraphError,
        lambda: Digraph("abcd", ["da", "ab", "bc", "ca"]).topological_order,
        "topological_order: the graph has the directed cycle 'a' → 'b' → 'c' → 'a', so no order puts every parent "
        "before its children. Reverse or cut one of its edges (spanning_tree cuts every loop of an undirected graph).",
    ),
    (
        GraphError,
        lambda: bwa(["ab", "bb", "bc"]).nilpotency,
        "nilpotency: the graph has the directed cycle 'b' → 'b', so the powers of E need not vanish. Reverse or cut "
        "one of its edges (spanning_tree cuts every loop of an undirected graph).",
    ),
    (
        GraphError,
        lambda: bwa(["ab", "cb", "bc"]).resolvent(),
        "resolvent: the graph has the directed cycle 'b' → 'c' → 'b', so a sum over paths from its nodes never ends. "
        "Reverse or cut one of its edges (spanning_tree cuts every loop of an undirected graph).",
    ),
    (
        GraphError,
        lambda: Digraph(range(10), [(k, (k + 1) % 10) for k in range(10)]).topological_order,
        "topological_order: the graph has the directed cycle 0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → … (10 nodes) → 0, so no "
        "order puts every parent before its children. Reverse or cut one of its edges (spanning_tree cuts every loop "
        "of an undirected graph).",
    ),
    (
        GraphError,
        lambda: AB.permuted("aax"),
        "permuted: the order must list every node exactly once; missing: 'b'; unknown: 'x'; repeated: 'a'.",
    ),
    (
        GraphError,
        lambda: permutation(ONE.rows, "abb"),
        "permuted: the order must list every node exactly once; missing: none; unknown: none; repeated: 'b'.",
    ),
    (
        GraphError,
        lambda: weighted_adjacency(AB, {("b", "a"): 1}),
        "weighted_adjacency: each edge (parent, child) needs one weight; edges without one: 'a' → 'b'; weights "
        "without an edge: 'b' → 'a'.",
    ),
    (
        GraphError,
        lambda: BlockWeightedAdjacency(AB, {("a", "b"): [[1]], "ab": [[1]]}),
        "BlockWeightedAdjacency: each edge (parent, child) needs one weight; edges without one: none; weights without "
        "an edge: 'ab'.",
    ),
    (
        GraphError,
        lambda: bwa(["ab"]),
        "BlockWeightedAdjacency: each node needs one block size; nodes without one: 'c'; sizes without a node: none. "
        "Pass sizes={node: m, ...} for every node; without them only the weights of its edges tell a node's size.",
    ),
    (
        GraphError,
        lambda: bwa(["ab"], sizes={"a": 1, "b": 1, "d": 1}),
        "BlockWeightedAdjacency: each node needs one block size; nodes without one: 'c'; sizes without a node: 'd'. "
        "Pass sizes={node: m, ...} for every node; without them only the weights of its edges tell a node's size.",
    ),
    (
        ShapeError,
        lambda: BlockWeightedAdjacency(AB, {("a", "b"): 2}),
        "BlockWeightedAdjacency: the weight of 'a' → 'b' has shape (), expected (m_parent, m_child). Write a scalar w "
        "as [[w]].",
    ),
    (
        ShapeError,
        lambda: BlockWeightedAdjacency.of(block_diagonal({"a": [[1, 2]]})),
        "BlockWeightedAdjacency.of: rows and columns are cut differently. The rows and columns of an adjacency matrix "
        "belong to the same nodes.",
    ),
    (
        ShapeError,
        lambda: BlockWeightedAdjacency(
            Digraph("abc", ["ab", "bc"]), {("a", "b"): [[1, 2]], ("b", "c"): [[1]]}, {"a": 1, "b": 2, "c": 1}
        ),
        "block ('b', 'c') has shape (1, 1), expected (2, 1): the sizes of row 'b' and of column 'c'.",
    ),
    (
        GraphError,
        lambda: ONE.power(-1),
        "power: the exponent is -1, expected 0 or more: a nilpotent E has no inverse.",
    ),
    (
        ShapeError,
        lambda: Partition({"a": -1, "b": 2}),
        "Partition: blocks of negative size: 'a'. A size counts entries.",
    ),
    (
        GraphError,
        lambda: ONE.resolvent().block("x", "a"),
        "Partition: there is no block 'x'; known: 'a', 'b'.",
    ),
    (
        GraphError,
        lambda: ONE.rows.join({"a": [1], "c": [1]}),
        "Partition.join: each block must be given once; missing or unknown: 'b', 'c'.",
    ),
    (
        ShapeError,
        lambda: ONE.rows.join({"a": [1], "b": [1, 2]}),
        "Partition.join: block 'b' has shape (2,), expected (1,) or (1, k).",
    ),
    (
        ShapeError,
        lambda: ONE.rows.split(np.array(1)),
        "split: the vector has shape (), expected (2,) or (2, k): 2 blocks of sizes 1, 1.",
    ),
    (
        ShapeError,
        lambda: ONE.resolvent() @ np.zeros(3),
        "Resolvent @ vector: the vector has shape (3,), expected (2,) or (2, k): 2 blocks of sizes 1, 1.",
    ),
    (
        ShapeError,
        lambda: block_diagonal({"a": [1, 2]}),
        "block_diagonal: block 'a' has shape (2,), expected (rows, columns).",
    ),
    (
        ShapeError,
        lambda: ONE.resolvent() @ identity(Partition({"a": 1, "b": 2})),
        "the columns of the left factor and the rows of the right one are cut differently: at position 1 block 'b' of "
        "size 1 meets block 'b' of size 2. Build both on the same Partition, or bring one into the other's order "
        "with permutation().",
    ),
    (
        ShapeError,
        lambda: ONE + identity(Partition({"a": 1})),
        "the rows of the two terms are cut differently: at position 1 block 'b' of size 1 meets no block. Build both "
        "on the same Partition, or bring one into the other's order with permutation().",
    ),
    (
        ShapeError,
        lambda: ONE.resolvent() - permutation(ONE.rows, "ba").T,
        "the columns of the two terms are cut differently: at position 0 block 'a' of size 1 meets block 'b' of size "
        "1. Build both on the same Partition, or bring one into the other's order with permutation().",
    ),
    (
        TypeError,
        lambda: ONE + np.eye(2),
        "an operator and ndarray do not add: wrap a matrix in a BlockOperator first",
    ),
    (
        GraphError,
        lambda: spanning_tree("ab", {"p": "ax"}),
        "spanning_tree: edges name nodes that are not listed: 'x'. List them among the nodes, or correct the edges.",
    ),
    (
        GraphError,
        lambda: spanning_tree("ab", {"p": "aa", "q": "ab"}),
        "spanning_tree: edges that join a node to itself: 'p'. Such a loop has no second node that could move: remove "
        "the edge, or correct one of its ends.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abc", RING, cut=["p", "x"]),
        "spanning_tree: the cut names unknown edges: 'x'; known: 'p', 'q', 'r'.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abc", RING, cut=["p", "q"]),
        "spanning_tree: the cut 'p', 'q' disconnects 'b' from 'a'. Edge 'p' joins them: leave it out of the cut, or "
        "cut fewer edges of the same loop.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abc", RING, cut=[]),
        "spanning_tree: the cut leaves 1 loop closed; one goes through nodes 'c', 'b', 'a' and edges 'r', 'q', 'p'. "
        "Add one edge of each loop to the cut.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abc", {"p": "ab", "q": "ab", "r": "ab"}, cut=[]),
        "spanning_tree: the cut leaves 2 loops closed; one goes through nodes 'a', 'b' and edges 'q', 'p'. Add one "
        "edge of each loop to the cut.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abcd", RING, roots="adc"),
        "spanning_tree: the roots 'a' and 'c' are connected. Keep one root in each component.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abcde", RING, roots=["a"]),
        "spanning_tree: no root reaches 'd', 'e'. Connect them with edges, or name a root in each component.",
    ),
    (
        GraphError,
        lambda: spanning_tree("abc", RING).loop("p"),
        "SpanningTree: 'p' is not a cut edge; cut edges: 'r'. Only a cut edge closes a loop of its own.",
    ),
]


@pytest.mark.parametrize(("error", "cause", "message"), MESSAGES, ids=range(len(MESSAGES)))
def test_message(error, cause, message):
    with pytest.raises(error) as caught:
        cause()
    assert str(caught.value) == message
