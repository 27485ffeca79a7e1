"""Store or compute again? What a later loop needs of an earlier one, chosen by a minimum cut.

Between two loops over many bodies, everything that is stored travels through the caches: in a batch each number of each
body is a whole cache line. So a rotation matrix is better computed again from a stored sine and cosine, and a
gyroscopic force from the twist. For one loop and one type of body the best choice is found exactly. Each number x that
the loop may need has two unknowns:

    o(x) = 1 if the loop obtains x            r(x) = 1 if the loop computes x itself
    cost   Σ r(x) · (operations of x)  +  Σ o(x) (1 − r(x)) · (a load, and a store if nobody else has asked for one)
    such that what is required is obtained, and r(x) = 1 implies o = 1 for the operands of x

All terms have the form "this one 1 and that one 0 costs c", so the minimum is a minimum cut. Loops are settled from the
last to the first: what a loop loads, an earlier one must provide.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.trace import Node
from whippletree.arithmetic.trace.traced import CONDITIONS

OPERATION_COSTS = {
    "neg": 1,
    "div": 16,
    "sqrt": 20,
    "sin": 36,
    "cos": 36,
    "atan2": 80,
    "exp": 50,
    "log": 110,
    "tanh": 70,
    "pow": 200,
}
"""In halves of an addition; everything else costs two halves."""

ARGUMENT_COST = 8
"""Reading an argument or a constant of the table: arguments must be transposed into lanes."""

NEVER = 1_000_000


class StorageCost(NamedTuple):
    """Cost of storing a number between two loops, in that unit."""

    load: int
    store: int


NEAR = StorageCost(12, 24)
"""Where the records of all bodies fit into a cache: sines and cosines are stored, products of them are not."""

FAR = StorageCost(16, 32)
"""Where they do not: not even sines are stored; a chain of 10⁵ bodies ran 1.1 to 1.3 times faster for it."""

FAR_BODIES = 50_000


def memory_for(bodies: int) -> StorageCost:
    """The costs for a system of that many bodies."""
    return NEAR if bodies < FAR_BODIES else FAR


@dataclass
class Share:
    """Work of one loop for one type of body, by numbers of nodes."""

    computed: list[int] = field(default_factory=list)
    loaded: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)


def shares(
    nodes: Sequence[Node],
    known: Sequence[int],
    required: Sequence[Collection[int]],
    lasting: Collection[int],
    memory: StorageCost = NEAR,
) -> list[Share]:
    """Divide a graph among loops.

    Args:
        nodes: the graph.
        known: for each node, the number of the loop that it has to wait for; −1 if it waits for none.
        required: for each loop, the nodes that it must have in the end.
        lasting: inputs that can be read again in later loops.
        memory: what storing costs.

    Returns:
        For each loop, the nodes that it computes (inputs included), loads, and stores for later ones, in order.
    """
    result = [Share() for _ in required]
    graph = _Graph(nodes, known, lasting, memory)
    asked: set[int] = set()
    for loop in reversed(range(len(required))):
        due = {n for n in asked if known[n] >= loop or loop == 0}
        computed, loaded = graph.cut(loop, {*required[loop], *due}, asked)
        stored = asked & computed
        asked = (asked - stored) | loaded
        result[loop] = Share(sorted(computed), sorted(loaded), sorted(stored))
    return result


class _Graph(NamedTuple):
    nodes: Sequence[Node]
    known: Sequence[int]
    lasting: Collection[int]
    memory: StorageCost

    def cut(self, loop: int, required: Collection[int], asked: Collection[int]) -> tuple[set[int], set[int]]:
        """The nodes that a loop computes and those that it loads, at the least cost; ``asked``: stored in any case."""
        if not required:
            return set(), set()
        network = _Network()
        obtained: dict[int, int] = {}
        computes: dict[int, int] = {}
        for n in sorted(self.needed_nodes(required), reverse=True):
            o = obtained[n] = network.vertex()
            earlier = self.is_earlier(n, loop)
            load = self.memory.load + (0 if n in asked else self.memory.store)
            if self.nodes[n][0] == "input":
                network.edge(o, _SINK, ARGUMENT_COST if n in self.lasting else load if earlier else 0)
                continue
            r = computes[n] = network.vertex() if earlier else o
            if earlier:
                # a condition is no number and cannot be stored
                network.edge(o, r, NEVER if self.nodes[n][0] in CONDITIONS else load)
            network.edge(r, _SINK, self.cost(n))
        for n, r in computes.items():
            for operand in _operands(self.nodes[n]):
                network.edge(r, obtained[operand], NEVER)
        for n in required:
            network.edge(_SOURCE, obtained[n], NEVER)
        chosen = network.source_side()
        mine = {n for n, o in obtained.items() if o in chosen}
        computed = {n for n in mine if (computes[n] in chosen if n in computes else not self.is_kept(n, loop))}
        return computed, mine - computed

    def is_earlier(self, n: int, loop: int) -> bool:
        """Whether an earlier loop could provide the node."""
        return max(self.known[n], 0) < loop

    def is_kept(self, n: int, loop: int) -> bool:
        """Whether an input is gone and has to be loaded from where an earlier loop has stored it."""
        return n not in self.lasting and self.is_earlier(n, loop)

    def cost(self, n: int) -> int:
        """Cost of computing a node from its operands."""
        operation = self.nodes[n][0]
        return 0 if operation == "const" else OPERATION_COSTS.get(operation, 2)

    def needed_nodes(self, required: Collection[int]) -> set[int]:
        """The required nodes and everything that they are made from."""
        found: set[int] = set()
        stack = list(required)
        while stack:
            n = stack.pop()
            if n not in found:
                found.add(n)
                stack.extend(_operands(self.nodes[n]))
        return found


def _operands(node: Node) -> tuple[int, ...]:
    return () if node[0] in ("input", "const") else node[1:]


_SOURCE, _SINK = 0, 1


class _Network:
    """A directed network with capacities."""

    def __init__(self) -> None:
        self._vertices = 2
        self._edges: dict[tuple[int, int], int] = {}

    def vertex(self) -> int:
        self._vertices += 1
        return self._vertices - 1

    def edge(self, tail: int, head: int, capacity: int) -> None:
        self._edges[tail, head] = capacity

    def source_side(self) -> set[int]:
        """The vertices on the source's side of a minimum cut."""
        # these take a third of a second to import, and only functions of large systems need them
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        tails, heads = np.array(list(self._edges)).T
        shape = (self._vertices, self._vertices)
        capacities = csr_array((np.array(list(self._edges.values()), dtype=np.int32), (tails, heads)), shape=shape)
        residual = capacities - maximum_flow(capacities, _SOURCE, _SINK).flow
        residual.eliminate_zeros()
        return set(breadth_first_order(residual, _SOURCE, return_predecessors=False).tolist())
