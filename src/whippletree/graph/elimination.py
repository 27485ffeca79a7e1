"""Elimination of symmetric systems along a graph: an order that fills few zeros, and the fronts that it makes.

The unknowns come in *groups* (in multibody dynamics: the motion of a body, with the rows of constraints that end
there), which are eliminated one after the other. Eliminating a group couples all that is left of its neighbours with
each other. What one elimination looks at is a *front*: the unknowns of its own group, and its *boundary*, the later
ones that they are coupled with, from the start or through groups before them. What it leaves, a small dense matrix on
its boundary, goes to the front of the first unknown there: so the fronts are the nodes of a tree, and elimination is a
gather over it, substitution a scatter. A tree of bodies has fronts of one body and its parent, a ladder of the bodies
of one rung, a planar grid of as many as lie across it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Front(NamedTuple):
    """What is eliminated together."""

    own: tuple[int, ...]
    """Unknowns of its group, in the order of their elimination."""
    boundary: tuple[int, ...]
    """Later unknowns that they are coupled with, in the order of their elimination."""
    parent: int
    """The front that takes what is left on the boundary; −1 where there is none."""

    @property
    def unknowns(self) -> tuple[int, ...]:
        """All of them, those that are eliminated last first: what is left stands in the upper left corner."""
        return (*self.own, *self.boundary)[::-1]


def elimination_order(edges: Iterable[Sequence[int]], count: int) -> list[int]:
    """The nodes of a graph in an order that couples few of them, by their least degree.

    ``edges`` may join any number of nodes (hyperedges). Of several nodes with equally few neighbours the one that was
    changed last goes next, so that a ladder is taken down from one end.
    """
    near: list[set[int]] = [set() for _ in range(count)]
    for edge in edges:
        for k in edge:
            near[k].update(edge)
    for k, own in enumerate(near):
        own.discard(k)
    clock = 0
    stamp = [0] * count
    heap = [(len(own), 0, k) for k, own in enumerate(near)]
    heapq.heapify(heap)
    gone = [False] * count
    order: list[int] = []
    while heap:
        degree, time, k = heapq.heappop(heap)
        if gone[k] or degree != len(near[k]) or -time != stamp[k]:
            continue
        gone[k] = True
        order.append(k)
        clock += 1
        for i in near[k]:
            near[i] |= near[k]
            near[i] -= {i, k}
            stamp[i] = clock
            heapq.heappush(heap, (len(near[i]), -clock, i))
    return order


def find_fronts(groups: Sequence[Sequence[int]], couplings: Sequence[Iterable[int]]) -> list[Front]:
    """The fronts of groups of unknowns, eliminated in this order.

    Args:
        groups: unknowns in the order of their elimination; empty groups make no front.
        couplings: for each unknown of any group, those that it is coupled with (either of the two may say it).
    """
    groups = [own for own in groups if own]
    place = {unknown: (g, i) for g, own in enumerate(groups) for i, unknown in enumerate(own)}
    later: list[set[int]] = [set() for _ in groups]
    for a in place:
        for b in couplings[a]:
            if b in place:
                first, second = (a, b) if place[a] <= place[b] else (b, a)
                if place[first][0] != place[second][0]:
                    later[place[first][0]].add(second)
    found = []
    for g, own in enumerate(groups):
        boundary = tuple(sorted(later[g], key=place.__getitem__))
        parent = place[boundary[0]][0] if boundary else -1
        if parent >= 0:
            later[parent].update(unknown for unknown in boundary if place[unknown][0] != parent)
        found.append(Front(tuple(own), boundary, parent))
    return found
