"""Graphs and the block-weighted matrices that live on them: the structure under every multibody algorithm.

The theory is document 002. Its story, and where each step lives here:

1. :mod:`~whippletree.graph.digraph`: a directed graph has parents ℘(k), children C(k), roots, tips and the ancestor
   relation i ≺ j; its adjacency matrix S has S(r, q) = 1 when r is a parent of q.
2. :mod:`~whippletree.graph.blocks`: matrices cut into named, rectangular blocks over any scalar; only the blocks that
   can differ from zero are stored, and products with a resolvent wait until they meet a vector.
3. :mod:`~whippletree.graph.bwa`: a block-weighted adjacency (BWA) matrix E has a block w(k, j) of shape (m_k, m_j)
   where S has a 1. Without directed cycles it is nilpotent, so A = (1 − E)⁻¹ = 1 + E + E² + … is a finite sum: the
   1-resolvent, whose action is one gather (A x) or one scatter (A* x) over the graph.
4. :mod:`~whippletree.graph.spanning`: an undirected multigraph of bodies and joints becomes a tree and the edges that
   were cut to get it; and classes of the tree's edges, each tied together by the same loops.
5. :mod:`~whippletree.graph.aggregation`: sets of nodes become one node: when that may be done, the condensed graph, its
   BWA matrix and its resolvent.
6. :mod:`~whippletree.graph.elimination`: orders in which systems on a graph are eliminated, and their fronts; orders
   that cut it through its edges are found by :mod:`~whippletree.graph.dissection`.

Nothing here depends on how nodes are numbered: names come in any order, and an order of evaluation is derived from the
edges. "Canonical" in 002 means that a parent has a *larger* index than its child; the rest of this library lists
parents first. Either may be asked for, neither is needed. The star of 002 is the plain transpose, ``.T``: no complex
conjugate, so that complex-step derivatives pass through.
"""

from whippletree.graph.aggregation import (
    Condensation,
    aggregated_subspace,
    condense,
    is_path_closed,
    outer_parents,
    path_closure,
    subgraph,
)
from whippletree.graph.blocks import BlockOperator, Operator, Partition, block_diagonal, identity, permutation
from whippletree.graph.bwa import BlockWeightedAdjacency, Resolvent
from whippletree.graph.digraph import Digraph, adjacency, incidence, weighted_adjacency
from whippletree.graph.spanning import LoopClusters, SpanningTree, loop_clusters, spanning_tree

__all__ = [
    "BlockOperator",
    "BlockWeightedAdjacency",
    "Condensation",
    "Digraph",
    "LoopClusters",
    "Operator",
    "Partition",
    "Resolvent",
    "SpanningTree",
    "adjacency",
    "aggregated_subspace",
    "block_diagonal",
    "condense",
    "identity",
    "incidence",
    "is_path_closed",
    "loop_clusters",
    "outer_parents",
    "path_closure",
    "permutation",
    "spanning_tree",
    "subgraph",
    "weighted_adjacency",
]
