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
from collections.abc import Iterable, Iterator, Sequence
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


SMALLEST_CUT = 60
"""Nodes up to which a part of a graph is not cut."""

DEEPEST_CUTS = 3
"""How many times parts are cut in two, at most: deeper down, least degree finds the better order."""

ENDS = 4
"""Nodes far from each other from which distances are counted: a plane grid has four corners."""

THINNED_CUTS = 3
"""Cuts of a part that are made thinner."""

LEAST_SIDE = 0.3
"""Share of the nodes that either side of a cut keeps."""

THINNING_MOVES = 40
"""Moves that a cut is followed through without getting thinner."""


def elimination_order(edges: Iterable[Sequence[int]], count: int) -> list[int]:
    """The nodes of a graph in an order of elimination that couples few of them.

    ``edges`` may join any number of nodes (hyperedges). Of :func:`elimination_orders` the one that takes the fewest
    operations: a ladder is taken down from one end, a large grid is cut in halves.
    """
    every = list(edges)
    return min(elimination_orders(every, count), key=lambda order: elimination_cost(order, every))


NUMBERED, WITHOUT_CUTS = 2, 3
"""How many of the orders that may be good come as nodes are numbered, and how many without cuts. The sooner it is in
this list, the more likely an order repeats itself along a mechanism of many cells."""


def uncut_orders(edges: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Orders that may be good for what is not too wide: as nodes are numbered, the other way round, by least degree."""
    return [list(range(count)), list(range(count))[::-1], least_degree_order(_neighbours(edges, count))]


def elimination_orders(edges: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Orders that may be good where nodes of an edge are coupled at once: also those with cuts through nodes last."""
    near = _neighbours(edges, count)
    ranks = _cut_ranks(near)
    return uncut_orders(edges, count) + [
        least_degree_order(near, [max(0, r - left_out) for r in ranks]) for left_out in range(max(ranks, default=0))
    ]


def _neighbours(edges: Iterable[Sequence[int]], count: int) -> list[set[int]]:
    near: list[set[int]] = [set() for _ in range(count)]
    for edge in edges:
        for k in edge:
            near[k].update(edge)
    for k, own in enumerate(near):
        own.discard(k)
    return near


def elimination_cost(
    order: Sequence[int],
    edges: Sequence[Sequence[int]],
    ends: Sequence[int] | None = None,
    *,
    apart: bool = False,
    sizes: Sequence[int] | None = None,
    cuts: int = 0,
) -> int:
    """Cost of an order: for everything that is eliminated, the square of the number of what it is coupled with then,
    itself counted.

    An edge counts as a node does: its rows wait until both of its bodies are gone. Across a large grid there are more
    of them than bodies. ``ends``: of each edge, the node with which its rows are eliminated, where that is not the last
    of its own; −1 for edges without rows, which only couple their nodes. ``apart``: the nodes of an edge that has rows
    are coupled with these only, not with each other. ``sizes``: how many unknowns each node stands for, and after them
    each edge; 1 if not given. ``cuts``: how many entries of the order, numbered behind the nodes, are no nodes but
    times at which edges end.
    """
    count = len(order) - cuts
    place = {k: i for i, k in enumerate(order)}
    groups = [[k] if k < count else [] for k in order]
    couplings: list[set[int]] = [set() for _ in range(count + len(edges))]
    for e, edge in enumerate(edges):
        if edge:
            end = max(place[k] for k in edge) if ends is None else place.get(ends[e], -1)
            if end >= 0:
                groups[end].append(count + e)
                couplings[count + e].update(edge)
            if end < 0 or not apart:
                for k in edge:
                    couplings[k].update(edge)
    fronts = find_fronts(groups, couplings)
    if sizes is None:
        return sum((len(front.boundary) + left) ** 2 for front in fronts for left in range(1, len(front.own) + 1))
    total = 0
    for front in fronts:
        left = sum(sizes[x] for x in front.boundary)
        for x in reversed(front.own):
            left += sizes[x]
            total += sizes[x] * left**2
    return total


def least_degree_order(neighbours: Sequence[set[int]], ranks: Sequence[int] | None = None) -> list[int]:
    """Nodes by the number of neighbours that they have when their turn comes, fewest first; by their ``ranks`` before
    that.

    Of several with equally few the one that was changed last goes next.
    """
    near = [set(own) for own in neighbours]
    rank = [0] * len(near) if ranks is None else ranks
    clock = 0
    stamp = [0] * len(near)
    heap = [(rank[k], len(own), 0, k) for k, own in enumerate(near)]
    heapq.heapify(heap)
    gone = [False] * len(near)
    order: list[int] = []
    while heap:
        _, degree, time, k = heapq.heappop(heap)
        if gone[k] or degree != len(near[k]) or -time != stamp[k]:
            continue
        gone[k] = True
        order.append(k)
        clock += 1
        for i in near[k]:
            near[i] |= near[k]
            near[i] -= {i, k}
            stamp[i] = clock
            heapq.heappush(heap, (rank[i], len(near[i]), -clock, i))
    return order


def _cut_ranks(near: Sequence[set[int]]) -> list[int]:
    """0 for nodes of no cut, and more for cuts of larger parts: nested dissection, from the whole downwards."""
    ranks = [0] * len(near)
    parts = [list(range(len(near)))]
    for depth in range(DEEPEST_CUTS):
        cuts = [cut for part in parts if len(part) > SMALLEST_CUT and (cut := _cut(part, near)) is not None]
        for cut in cuts:
            for k in cut.between:
                ranks[k] = DEEPEST_CUTS - depth
        parts = [side for cut in cuts for side in (cut.one, cut.other)]
    return ranks


class _Cut(NamedTuple):
    """A part of a graph in two that have no edge in common, and what lies between them."""

    one: list[int]
    between: list[int]
    other: list[int]


def _cut(part: Sequence[int], near: Sequence[set[int]]) -> _Cut | None:
    """A thin cut near the middle; None where every node is a neighbour of every other, or nearly so.

    Distances from ends of the part, their sums and their differences each order its nodes along some direction: of a
    plane grid, whose ends are its corners, along its sides and its diagonals. The thinnest of these cuts are made
    thinner, and the thinnest is taken.
    """
    inside = set(part)
    trials: list[tuple[int, int, int, dict[int, int], set[int]]] = []
    for number, field in enumerate(directions_through(part, inside, near)):
        middle = sorted(field.values())[len(part) // 2]
        for side in ({k: int(x >= middle) for k, x in field.items()}, {k: int(x > middle) for k, x in field.items()}):
            between = {k for k in part if side[k] and any(not side.get(i, 1) for i in near[k])}
            ones = sum(side.values())
            if min(ones - len(between), len(part) - ones) >= LEAST_SIDE * (len(part) - len(between)):
                trials.append((_weight(between, near), number, len(trials), side, between))
    cuts = [_thin_repeatedly(side, between, near) for *_, side, between in sorted(trials)[:THINNED_CUTS]]
    return min(cuts, key=lambda cut: (_weight(cut.between, near), abs(len(cut.one) - len(cut.other))), default=None)


def _weight(nodes: Iterable[int], near: Sequence[set[int]]) -> int:
    """By how much the nodes of a cut enlarge later fronts: themselves, and the rows of their edges."""
    return sum(1 + len(near[k]) for k in nodes)


def _thin_repeatedly(side: dict[int, int], between: set[int], near: Sequence[set[int]]) -> _Cut:
    """A cut made thinner as long as that helps: each round moves every node once."""
    cut = _thin_cut(side, between, near)
    while True:
        sides = dict.fromkeys(cut.one, 0) | dict.fromkeys([*cut.between, *cut.other], 1)
        further = _thin_cut(sides, set(cut.between), near)
        if _weight(further.between, near) >= _weight(cut.between, near):
            return cut
        cut = further


def directions_through(part: Sequence[int], inside: set[int], near: Sequence[set[int]]) -> Iterator[dict[int, int]]:
    """Numbers that grow along some direction through a part of a graph: distances from nodes that are far from each
    other, and the sums and differences of two of them."""
    far = distances_within(part[0], inside, near)
    if len(far) < len(part):  # in pieces: one after the other
        yield {k: i for i, k in enumerate([*far, *(k for k in part if k not in far)])}
        return
    distances: list[dict[int, int]] = []
    for _ in range(ENDS):
        # next to the ends that are known, the node that is farthest from all of them
        nearest = far if not distances else {k: min(own[k] for own in distances) for k in part}
        distances.append(distances_within(max(part, key=lambda k: nearest[k]), inside, near))
    for i, one in enumerate(distances):
        yield one
        for other in distances[:i]:
            yield {k: one[k] + other[k] for k in part}
            yield {k: one[k] - other[k] for k in part}


def distances_within(start: int, inside: set[int], near: Sequence[set[int]]) -> dict[int, int]:
    """How many edges within a part lead from a node to each of those that can be reached, the nearest first."""
    found, level, steps = {start: 0}, [start], 0
    while level:
        steps += 1
        level = sorted({i for k in level for i in near[k] if i in inside and i not in found})
        found.update(dict.fromkeys(level, steps))
    return found


def _thin_cut(side: dict[int, int], between: set[int], near: Sequence[set[int]]) -> _Cut:
    """A cut with as little between its sides as moving nodes one by one makes it (Fiduccia and Mattheyses).

    A node between that goes to one side pulls its neighbours on the other side in; the best move is made even where
    the cut grows by it, each node moves once, and the thinnest cut on the way is kept.
    """
    counts = [sum(own == s and k not in between for k, own in side.items()) for s in (0, 1)]
    least = LEAST_SIDE * len(side)
    weight = _weight(between, near)
    best = weight, abs(counts[0] - counts[1])
    found, waited = (dict(side), set(between)), 0
    moved: set[int] = set()
    while waited <= THINNING_MOVES:
        moves = []
        for k in between - moved:
            for to in (0, 1):
                pulled = [i for i in near[k] if i in side and i not in between and side[i] == 1 - to]
                after = [counts[s] + 1 if s == to else counts[s] - len(pulled) for s in (0, 1)]
                if min(after) >= min(least, *counts) and not moved.intersection(pulled):
                    grown = _weight(pulled, near) - _weight([k], near)
                    moves.append((grown, abs(after[0] - after[1]), k, to, pulled, after))
        if not moves:
            break
        grown, _, k, to, pulled, counts = min(moves)
        weight += grown
        side[k] = to
        between.remove(k)
        between.update(pulled)
        moved.add(k)
        waited += 1
        if (size := (weight, abs(counts[0] - counts[1]))) < best:
            best, found, waited = size, (dict(side), set(between)), 0
    side, between = found
    one, other = ([k for k, own in side.items() if own == s and k not in between] for s in (0, 1))
    return _Cut(one, sorted(between), other)


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
