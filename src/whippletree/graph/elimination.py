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
    """A set of unknowns that are eliminated together."""

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


LEAF = 24
"""Nodes up to which a part of a graph is not dissected further."""


def elimination_order(edges: Iterable[Sequence[int]], count: int) -> list[int]:
    """The nodes of a graph in an order of elimination that couples few of them.

    ``edges`` may join any number of nodes (hyperedges). By least degree, or by nested dissection where that takes fewer
    operations: a ladder is taken down from one end, a grid is cut in halves.
    """
    near = _neighbours(edges, count)
    orders = [least_degree_order(near), dissected_order(near)]
    return min(orders, key=lambda order: elimination_cost(order, near))


def _neighbours(edges: Iterable[Sequence[int]], count: int) -> list[set[int]]:
    near: list[set[int]] = [set() for _ in range(count)]
    for edge in edges:
        for k in edge:
            near[k].update(edge)
    for k, own in enumerate(near):
        own.discard(k)
    return near


def elimination_cost(order: Sequence[int], near: Sequence[set[int]]) -> int:
    """Cost of an order: for every node the square of the number of later ones that it is coupled with, itself
    counted."""
    return sum((1 + len(front.boundary)) ** 2 for front in find_fronts([[k] for k in order], near))


def least_degree_order(neighbours: Sequence[set[int]]) -> list[int]:
    """Nodes by the number of neighbours that they have when their turn comes, fewest first.

    Of several with equally few the one that was changed last goes next.
    """
    near = [set(own) for own in neighbours]
    clock = 0
    stamp = [0] * len(near)
    heap = [(len(own), 0, k) for k, own in enumerate(near)]
    heapq.heapify(heap)
    gone = [False] * len(near)
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


def dissected_order(near: Sequence[set[int]]) -> list[int]:
    """Nodes by nested dissection: a level of a breadth-first search cuts each part in two, and goes after both."""
    order: list[int] = []
    waiting = [list(range(len(near)))]
    while waiting:  # from the last to the first: what cuts comes after the parts
        part = waiting.pop()
        levels = _levels(part, near) if len(part) > LEAF else []
        if len(levels) > 2:
            sizes = [len(level) for level in levels]
            before = [sum(sizes[:i]) for i in range(len(sizes))]
            middle = [i for i in range(1, len(levels) - 1) if len(part) <= 3 * min(before[i], len(part) - before[i])]
            cut = min(middle or [len(levels) // 2], key=lambda i: (sizes[i], abs(2 * before[i] - len(part))))
            order += levels[cut]
            waiting += [[k for level in levels[:cut] for k in level], [k for level in levels[cut + 1 :] for k in level]]
        else:
            place = {k: i for i, k in enumerate(part)}
            inner = [{place[i] for i in near[k] if i in place} for k in part]
            order += [part[i] for i in least_degree_order(inner)[::-1]]
    return order[::-1]


def _levels(part: Sequence[int], near: Sequence[set[int]]) -> list[list[int]]:
    """Nodes of a part by their distance from one at its end; pieces that are not connected follow one another."""
    inside = set(part)
    levels: list[list[int]] = []
    while inside:
        start = next(iter(inside))
        for _ in range(2):  # from any node to one that is far from it
            start = _search(start, inside, near)[-1][0]
        found = _search(start, inside, near)
        inside.difference_update(k for level in found for k in level)
        levels += found
    return levels


def _search(start: int, inside: set[int], near: Sequence[set[int]]) -> list[list[int]]:
    """Levels of a breadth-first search."""
    levels, seen = [[start]], {start}
    while True:
        further = sorted({i for k in levels[-1] for i in near[k] if i in inside} - seen)
        if not further:
            return levels
        seen.update(further)
        levels.append(further)


def merged_fronts(fronts: Sequence[Front]) -> list[Front]:
    """The fronts with those joined to their parents that are coupled with everything in them.

    Nothing more is coupled then, and what such a front leaves need not be carried to its parent: the last separator of
    a grid is one front instead of one for each of its bodies. Of several fronts below one parent, one can join.
    """
    joins: dict[int, int] = {}
    for f, front in enumerate(fronts):
        if front.parent >= 0 and len(front.boundary) == len(fronts[front.parent].own) + len(
            fronts[front.parent].boundary
        ):
            joins[front.parent] = f
    inner = set(joins.values())
    tops = [f for f in range(len(fronts)) if f not in inner]
    place: dict[int, int] = {}
    owns: list[tuple[int, ...]] = []
    for number, top in enumerate(tops):
        chain = [top]
        while chain[-1] in joins:
            chain.append(joins[chain[-1]])
        place.update(dict.fromkeys(chain, number))
        owns.append(tuple(unknown for f in reversed(chain) for unknown in fronts[f].own))
    return [
        Front(own, fronts[top].boundary, place[fronts[top].parent] if fronts[top].parent >= 0 else -1)
        for top, own in zip(tops, owns, strict=True)
    ]


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
