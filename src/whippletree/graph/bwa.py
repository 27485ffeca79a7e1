"""Block-weighted adjacency (BWA) matrices and their 1-resolvent (002, from "Weighted adjacency matrix" on)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import GraphError, ShapeError
from whippletree.graph.blocks import BlockOperator, Operator, Partition, accumulate, identity
from whippletree.graph.digraph import Digraph, Node, arrows, check_weights, quote_names


class BlockWeightedAdjacency(BlockOperator):
    """E(k, j) = w(k, j) of shape (m_k, m_j) where k is a parent of j, zero elsewhere.

    The weights need not be square, and may be numbers of any kind. Eᵖ(r, q) is the sum over the paths of p edges from r
    down to q of the products of their weights; in a tree there is at most one such path. Without directed cycles no
    path is longer than the graph is high, so E is nilpotent and A = (1 − E)⁻¹ exists whatever the weights are.

    Args:
        graph: the nodes, in the order of the blocks, and the edges (parent, child).
        weights: one array w(parent, child) of shape (m_parent, m_child) for each edge.
        sizes: node -> m_k. By default read off the weights, which is impossible for a node without edges.

    Raises:
        GraphError: weights that do not fit the edges, a node whose size is unknown.
        ShapeError: a weight whose shape does not fit its nodes.
    """

    graph: Digraph

    def __init__(self, graph: Digraph, weights: Mapping[Any, Any], sizes: Mapping[Any, int] | None = None) -> None:
        check_weights("BlockWeightedAdjacency", graph, weights)
        blocks = {edge: np.asarray(weights[edge]) for edge in graph.edges}
        known = dict(_sizes_of(blocks) if sizes is None else sizes)
        missing, extra = [k for k in graph.nodes if k not in known], [k for k in known if k not in graph]
        if missing or extra:
            raise GraphError(
                "BlockWeightedAdjacency: each node needs one block size; nodes without one: "
                f"{quote_names(missing) or 'none'}; sizes without a node: {quote_names(extra) or 'none'}. Pass "
                "sizes={node: m, ...} for every node; without them only the weights of its edges tell a node's size."
            )
        partition = Partition({node: known[node] for node in graph.nodes})
        super().__init__(partition, partition, blocks)
        vars(self).update(graph=graph)

    @classmethod
    def of(cls, operator: BlockOperator) -> BlockWeightedAdjacency:
        """Any square block operator as the BWA matrix of its own sparsity: k is a parent of j where (k, j) is stored.

        So E_ψ = E_φ τ and T E T⁻¹, which are products, get their resolvents: ``BlockWeightedAdjacency.of(E @ tau)``.
        """
        if operator.rows != operator.cols:
            raise ShapeError(
                "BlockWeightedAdjacency.of: rows and columns are cut differently. The rows and columns of an adjacency "
                "matrix belong to the same nodes."
            )
        sizes = dict(zip(operator.rows.names, operator.rows.sizes))
        return cls(Digraph(operator.rows.names, operator.blocks), operator.blocks, sizes)

    def power(self, exponent: int) -> BlockOperator:
        """Eᵖ, with a block stored for each pair of nodes that a path of exactly p edges joins; E⁰ = 1."""
        if exponent < 0:
            raise GraphError(f"power: the exponent is {exponent}, expected 0 or more: a nilpotent E has no inverse.")
        result: BlockOperator | None = None
        square: BlockOperator = self
        # binary powers: a chain of n nodes needs about 2 n log₂ p block products instead of n p
        while exponent:
            if exponent % 2:
                result = square if result is None else square @ result
            exponent //= 2
            square = square @ square if exponent else square
        return identity(self.rows, dtype=self.dtype) if result is None else result

    @property
    def nilpotency(self) -> int:
        """The smallest p for which the graph has no path of p edges, so that Eᵖ = 0 for any weights; at most n.

        Raises:
            GraphError: a directed cycle, by name: no power needs to vanish.
        """
        self.graph.require_acyclic("nilpotency", "the powers of E need not vanish")
        return self.graph.height + 1

    def resolvent(self) -> Resolvent:
        """A = (1 − E)⁻¹ = 1 + E + E² + …, as an operator that is not formed."""
        return Resolvent(self)

    def permuted(self, order: Iterable[Node]) -> BlockWeightedAdjacency:
        """T E T* for the permutation T that lists the nodes in another order: the BWA matrix of the reordered graph."""
        graph = self.graph.permuted(order)
        return BlockWeightedAdjacency(graph, self.blocks, dict(zip(self.rows.names, self.rows.sizes)))

    @cached_property
    def sweep(self) -> tuple[tuple[Node, Node, Array], ...]:
        """(parent, child, weight) for every edge, those into a node after all those into its ancestors.

        Forwards it runs from the roots to the tips (scatter), backwards from the tips to the roots (gather).
        """
        graph, nodes = self.graph, self.graph.nodes
        return tuple(
            (nodes[p], nodes[k], self.blocks[nodes[p], nodes[k]])
            for k in graph.topological_indices
            for p in graph.parent_indices[k]
        )


class Resolvent(Operator):
    """A = (1 − E)⁻¹, the 1-resolvent of a BWA matrix, or its transpose; never formed, only applied.

    A(i, j) is the sum over all paths from i down to j of the products of the weights along them, and A(i, i) = 1. In a
    tree the path is unique, A(i, j) = w(i, ·) … w(·, j), and the chain rule A(i, j) = A(i, k) A(k, j) holds for every k
    on it; where several paths meet (a graph that is no tree) it does not. A(i, j) is zero for unrelated nodes, and
    A(i, j) and A(j, i) never both differ from zero off the diagonal.

    * y = A x solves y = E y + x: a **gather**, tips to base: y(k) = x(k) + Σ_{j ∈ C(k)} w(k, j) y(j).
    * y = A* x solves y = E* y + x: a **scatter**, base to tips: y(k) = x(k) + Σ_{p ∈ ℘(k)} w(p, k)* y(p).

    Both cost one block product per edge. ``explicit()`` runs the same recursion on block rows and stores A(i, j) for
    the related pairs only; ``block(i, j)`` computes the products along the paths that end in j.

    Raises:
        GraphError: a directed cycle, by name.
    """

    adjacency: BlockWeightedAdjacency
    transposed: bool

    def __init__(self, adjacency: BlockWeightedAdjacency, *, transposed: bool = False) -> None:
        adjacency.graph.require_acyclic("resolvent", "a sum over paths from its nodes never ends")
        partition = adjacency.rows
        vars(self).update(rows=partition, cols=partition, adjacency=adjacency, transposed=transposed)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds every stored scalar."""
        return self.adjacency.dtype

    @property
    def T(self) -> Resolvent:
        """A*, or A again."""
        return Resolvent(self.adjacency, transposed=not self.transposed)

    @property
    def tilde(self) -> Operator:
        """Ã = A − 1 = E A = A E: the paths of at least one edge (transposed: Ã*)."""
        E = self.adjacency
        return self @ E.T if self.transposed else E @ self

    def inverse(self) -> BlockOperator:
        """A⁻¹ = 1 − E (transposed: 1 − E*)."""
        E = self.adjacency
        return identity(self.rows, dtype=self.dtype) - (E.T if self.transposed else E)

    def _apply(self, x: Array) -> Array:
        y = np.array(x, dtype=np.result_type(self.dtype, x.dtype))
        at = self.rows.split(y)  # views into y, which is ours alone: adding to them in place is safe
        if self.transposed:
            for p, k, w in self.adjacency.sweep:
                at[k] += w.T @ at[p]
        else:
            for p, k, w in reversed(self.adjacency.sweep):
                at[p] += w @ at[k]
        return y

    def _times(self, other: BlockOperator) -> BlockOperator:
        at = {name: dict(row) for name, row in other.by_row.items()}
        if self.transposed:
            for p, k, w in self.adjacency.sweep:
                for col, y in at[p].items():
                    accumulate(at[k], col, w.T @ y)
        else:
            for p, k, w in reversed(self.adjacency.sweep):
                for col, y in at[k].items():
                    accumulate(at[p], col, w @ y)
        return BlockOperator._from_trusted(
            self.rows, other.cols, {(name, col): y for name, row in at.items() for col, y in row.items()}
        )


def _sizes_of(blocks: Mapping[Any, Array]) -> dict[Node, int]:
    """Node -> m_k, read off the weights; the first weight that touches a node decides."""
    sizes: dict[Node, int] = {}
    for edge, w in blocks.items():
        if w.ndim != 2:
            raise ShapeError(
                f"BlockWeightedAdjacency: the weight of {arrows([edge])} has shape {w.shape}, expected "
                "(m_parent, m_child). Write a scalar w as [[w]]."
            )
        for node, m in zip(edge, w.shape):
            sizes.setdefault(node, m)
    return sizes
