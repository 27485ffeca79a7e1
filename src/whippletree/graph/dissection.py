"""Nested dissection through edges: a graph is cut in halves, and what is cut waits until both halves are gone.

Where an edge stands for rows of its own, as a joint or a closure of a mechanism does, it is the rows that part the
graph: once the nodes of one side are eliminated, nothing is left of them but a matrix on the rows that were cut. Across
a planar grid of rods these are two for each pin. A cut through bodies has three for each of them, and the rows of their
pins, which wait for them: a grid of 2346 rods takes five times the operations then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from whippletree.graph.elimination import THINNED_CUTS, directions_through, distances_within, least_degree_order

SMALLEST_PART = 4
"""Nodes up to which a part is not cut: of grids of 78 to 4656 rods 12 took 1.1 and 40 took 1.2 to 1.8 times the
operations."""

LEAST_HALF = 0.35
"""Share of its nodes that either side of a cut keeps."""

MOVES_IN_VAIN = 60
"""Moves that a cut is followed through without getting thinner."""

NOT_CUT = -1
"""The cut of an edge that waits for none."""


class Dissection(NamedTuple):
    """An order of nodes, half after half."""

    order: list[int]
    """Nodes, and after the two halves of each part its cut: a number beyond those of nodes."""
    cuts: list[int]
    """Of each edge, the cut that parts its nodes, or :data:`NOT_CUT`."""


def dissect(edges: Sequence[Sequence[int]], count: int) -> Dissection:
    """Nodes in the order in which nested dissection through edges eliminates them; small parts by least degree.

    Args:
        edges: nodes that are coupled, any number for each. Cutting one costs as much as cutting any other.
        count: number of nodes.
    """
    graph = _PartedGraph(edges, count)
    order: list[int] = []
    cuts = [NOT_CUT] * len(edges)
    number = count
    # parts that are to be taken, the next one last; a number stands for the cut of the parts before it
    left: list[list[int] | int] = [*graph.components()]
    left.reverse()
    while left:
        part = left.pop()
        halves = None
        if isinstance(part, int):
            order.append(part)
        elif (halves := graph.halve(part)) is None:
            order += graph.by_least_degree(part)
        else:
            one, other = halves
            for e in graph.parted(one, other):
                # what an outer cut has parted waits for that
                cuts[e] = number if cuts[e] == NOT_CUT else cuts[e]
            left += [number, other, one]
            number += 1
    return Dissection(order, cuts)


class _PartedGraph:
    """A graph whose edges may join any number of nodes."""

    def __init__(self, edges: Sequence[Sequence[int]], count: int) -> None:
        self.edges = [tuple(dict.fromkeys(edge)) for edge in edges]
        self.of: list[list[int]] = [[] for _ in range(count)]
        """Edges of each node."""
        self.near: list[set[int]] = [set() for _ in range(count)]
        for e, edge in enumerate(self.edges):
            for k in edge:
                self.of[k].append(e)
                self.near[k].update(edge)
        for k, own in enumerate(self.near):
            own.discard(k)

    def components(self) -> Iterator[list[int]]:
        """The nodes that hang together."""
        left = set(range(len(self.near)))
        for k in range(len(self.near)):
            if k in left:
                found = list(distances_within(k, left, self.near))
                left.difference_update(found)
                yield found

    def parted(self, one: Sequence[int], other: Sequence[int]) -> list[int]:
        """Edges with nodes in both halves of a part."""
        inside = set(other)
        return [e for e in dict.fromkeys(e for k in one for e in self.of[k]) if not inside.isdisjoint(self.edges[e])]

    def by_least_degree(self, part: Sequence[int]) -> list[int]:
        """The nodes of a part by least degree, where edges that leave it stay."""
        place = {k: i for i, k in enumerate(part)}
        near: list[set[int]] = [set() for _ in part]
        staying: dict[int, int] = {}
        for i, k in enumerate(part):
            for e in self.of[k]:
                inner = {place[j] for j in self.edges[e] if j in place}
                near[i] |= inner - {i}
                if len(inner) < len(self.edges[e]):
                    near[i].add(staying.setdefault(e, len(part) + len(staying)))
        near += [set() for _ in staying]
        for i in range(len(part)):
            for j in near[i]:
                near[j].add(i)
        order = least_degree_order(near, [0] * len(part) + [1] * len(staying))
        return [part[i] for i in order[: len(part)]]

    def halve(self, part: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """A part in two that few edges join; None where it is small.

        Its nodes in order along some direction are cut in the middle; the thinnest of these cuts are made thinner, and
        the thinnest is taken.
        """
        if len(part) <= SMALLEST_PART:
            return None
        trials: list[_EdgeCut] = []
        for field in directions_through(part, set(part), self.near):
            ordered = sorted(part, key=field.__getitem__)
            trials.append(_EdgeCut(self, {k: int(i >= len(part) // 2) for i, k in enumerate(ordered)}))
        trials.sort(key=lambda cut: cut.weight)
        best = min((cut.thin_repeatedly() for cut in trials[:THINNED_CUTS]), key=lambda cut: cut.measure)
        one, other = ([k for k in part if best.side[k] == s] for s in (0, 1))
        return one, other


class _EdgeCut:
    """A part of a graph in two sides, and the edges between them."""

    def __init__(self, graph: _PartedGraph, side: dict[int, int]) -> None:
        self.graph, self.side = graph, side
        self.counts = [sum(s == which for s in side.values()) for which in (0, 1)]
        self.on: dict[int, list[int]] = {}
        """How many nodes each edge has on either side."""
        for k, s in side.items():
            for e in graph.of[k]:
                self.on.setdefault(e, [0, 0])[s] += 1
        self.weight = sum(min(on) > 0 for on in self.on.values())
        """Edges that are cut."""

    @property
    def measure(self) -> tuple[int, int]:
        """What a better cut has less of: edges that are cut, and then how uneven its sides are."""
        return self.weight, abs(self.counts[0] - self.counts[1])

    def thin_repeatedly(self) -> _EdgeCut:
        """A cut made thinner as long as that helps."""
        cut = self
        while (further := cut._thin()).weight < cut.weight:
            cut = further
        return cut

    def _thin(self) -> _EdgeCut:
        """The thinnest cut on the way of moving single nodes to the other side (Fiduccia and Mattheyses).

        The best move is made even where the cut grows by it, and each node moves once.
        """
        now, best, moves, kept = _EdgeCut(self.graph, dict(self.side)), self.measure, list[int](), 0
        heap = [(now._growth(k), k) for k in now.side if any(now.on[e][1 - now.side[k]] for e in self.graph.of[k])]
        heapq.heapify(heap)
        moved: set[int] = set()
        least = LEAST_HALF * len(self.side)
        while heap and len(moves) - kept < MOVES_IN_VAIN:
            growth, k = heapq.heappop(heap)
            side = now.side[k]
            known = k not in moved and growth == now._growth(k)
            if not known or now.counts[side] - 1 < min(least, now.counts[1 - side]):
                continue
            now._move(k)
            moved.add(k)
            moves.append(k)
            for j in self.graph.near[k]:
                if j in now.side and j not in moved:
                    heapq.heappush(heap, (now._growth(j), j))
            if now.measure < best:
                best, kept = now.measure, len(moves)
        found = dict(self.side)
        for k in moves[:kept]:
            found[k] = 1 - found[k]
        return _EdgeCut(self.graph, found)

    def _growth(self, k: int) -> int:
        """How many more edges are cut once a node is on the other side."""
        here = self.side[k]
        return sum((self.on[e][here] > 1) - (self.on[e][1 - here] > 0) for e in self.graph.of[k])

    def _move(self, k: int) -> None:
        """Take a node to the other side."""
        here = self.side[k]
        self.weight += self._growth(k)
        self.side[k] = 1 - here
        for which, step in ((here, -1), (1 - here, 1)):
            self.counts[which] += step
            for e in self.graph.of[k]:
                self.on[e][which] += step
