"""The body-level system of a mechanism: accelerations of bodies and forces of joints and closures, sparse as its graph.

In relative coordinates the mass matrix is dense along every path of the tree, so that no order of elimination helps a
ladder whose rails are long. Between bodies nothing is dense. The unknowns are here the acceleration α (6) of every body
and a multiplier for everything that two bodies are not free to do against each other:

    M α + Bᵀ λ = w        B α + γ = 0        f = −λ

with a joint's rows, α_rel = α − φ* α(parent) − a where its subspace H vanishes, and the closures' rows, G α + γ. Both
are an *element* of the system (:mod:`~whippletree.constraints.long_systems.body_elements`). This module numbers the
unknowns that the elements touch, and orders them for elimination.

Any order of the bodies is an order of elimination, without pivoting and also where bodies have no mass, because every
row enters K with a weight as well, K + Bᵀ R B, which changes no answer (000;
:func:`whippletree.constraints.kkt.augmented`), and is itself eliminated right after the last motion that it feels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.long_systems.body_elements import JointShape
from whippletree.constraints.long_systems.following_bodies import WORLD as ON_WORLD
from whippletree.constraints.long_systems.following_bodies import Closing, Following, following_bodies
from whippletree.constraints.long_systems.hub_copies import (
    LEGS_OF_A_COPY,
    NO_COPIES,
    SHARE_OF_OPERATIONS,
    HubCopies,
    find_hub_copies,
)
from whippletree.constraints.long_systems.row_weights import EVEN_SHARE, NO_WEIGHT, RowWeights, Weight
from whippletree.constraints.rows import Prepared, frame_places, tied_nodes
from whippletree.graph.dissection import NOT_CUT, dissect
from whippletree.graph.elimination import (
    NUMBERED,
    WITHOUT_CUTS,
    Front,
    elimination_cost,
    elimination_orders,
    find_fronts,
    uncut_orders,
)
from whippletree.spatial import Pose
from whippletree.tree.forward import articulate
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet


NO_CUT_JOINTS: Mapping[int, int] = MappingProxyType({})
"""No joint waits for a cut."""

PATIENCE = (0, 1)
"""For how many bodies that follow their parents closures may wait; whichever costs less."""

REPETITION = 1.25
"""How many times the least cost an order may take for being one that repeats itself. Of grids of 55 to 300 rods the
order in which they are numbered costs 1.0 to 1.1 times the least and has 23 to 44 kinds of fronts, the cheapest one 53
to 240; of a braced tower of 146 bars least degree costs 1.06 times the least, with 39 kinds instead of 68."""


class Tie(NamedTuple):
    """Rows that a copy of a node moves as the node does, or as the copy before it."""

    copy: int
    hub: int
    """The node that it stands for."""
    unknowns: tuple[int, ...]
    """α of the copy (6), and of what it is tied to (6)."""
    first: int
    """Number of the first of its rows."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of its rows."""
        return tuple(range(self.first, self.first + 6))


class Way(NamedTuple):
    """An order of elimination, how nodes leave the system in it, and what it costs."""

    order: list[int]
    """Nodes, and as numbers beyond theirs the cuts for which rows wait."""
    following: Following
    joint_ends: list[int]
    """Of each node, the node or cut with which the rows of its joint are eliminated, unless it follows its parent."""
    cost: int
    """Bodies and rows of joints and closures counted as one each."""


class Unknowns:
    """The unknowns of a mechanism's body-level system, by number: motions first, then multipliers of rows."""

    def __init__(
        self,
        tree: Skeleton,
        demands: Sequence[Prepared],
        factored: Sequence[int],
        compliance: Sequence[Any],
        held: Sequence[int] = (),
        *,
        follow: bool = False,
        carried: Sequence[int] = (),
        copies: HubCopies = NO_COPIES,
    ) -> None:
        """``factored``: rows that get multipliers, of all rows of the demands, whose ``compliance`` is 0 where they are
        rigid. ``held``: nodes whose joints do not move. ``follow``: whether bodies leave the system by their joints
        where they may; the factored rows must be independent then. ``carried``: nodes that are eliminated last, for
        only what hangs on them gives them inertia. ``copies`` of nodes count as nodes where the order is chosen.
        """
        self._carried = carried
        self.tree, self.compliance, self._follow, self._copies = tree, compliance, follow, copies
        self.parents = [p if p < 0 else copies.seat(p, [k]) for k, p in enumerate(tree.parents)] + [*copies.above]
        """Of each node, and of each copy of one, what it hangs on: a node, a copy of one, or −1 for the world."""
        shapes: dict[Any, JointShape] = {}
        for node in tree.nodes:
            if id(node.joint) not in shapes:
                shapes[id(node.joint)] = JointShape.of(node.joint)
        self.shapes = [shapes[id(node.joint)] for node in tree.nodes]
        for k in held:
            self.shapes[k] = self.shapes[k].lock()
        ends = np.cumsum([0, *[shape.size for shape in self.shapes]]).tolist()
        self.accelerations = [range(a, b) for a, b in pairwise(ends)]
        """α of each node, and of each copy of one."""
        count = ends[-1]
        for _ in copies.hubs:
            self.accelerations.append(range(count, count + 6))
            count += 6
        self.of_node: list[tuple[int, ...]] = []
        """The unknowns that the element of each node touches."""
        for k, (shape, parent) in enumerate(zip(self.shapes, self.parents, strict=False)):
            own = [*self.accelerations[k], *(self.accelerations[parent] if parent >= 0 else ())]
            own += range(count, count + shape.n) if shape.explicit else []
            count += shape.n if shape.explicit else 0
            self.of_node.append(tuple(own))
        self.motions = count
        self.rows_of_node: list[tuple[int, ...]] = []
        for shape in self.shapes:
            self.rows_of_node.append(tuple(range(count, count + len(shape.blocked))))
            count += len(shape.blocked)
        self.ties: list[Tie] = []
        for k, hub in enumerate(copies.hubs, len(tree.nodes)):
            self.ties.append(Tie(k, hub, (*self.accelerations[k], *self.accelerations[self.parents[k]]), count))
            count += 6
        self.closures = count
        """Number of the first row of a constraint."""
        self.demands = _bindings(tree, demands, factored, compliance, self, count)
        self.count = count + sum(len(d.rigid) for d in self.demands)

    @cached_property
    def weights(self) -> RowWeights:
        """ρ of rows, where they need one."""
        hanging = [True] * len(self.tree.nodes)
        for d in self.demands:
            for body in d.bodies:
                k = self.hub_of(body)
                while k >= 0 and hanging[k]:
                    hanging[k] = False
                    k = self.tree.parents[k]
        return RowWeights(self.tree, self.shapes, self._carried, hanging)

    @cached_property
    def joint_weights(self) -> list[tuple[Weight, ...]]:
        """ρ of the rows of each node's joint."""
        return self.weights.of_joints(self.follows)

    @cached_property
    def least_inertia(self) -> Array:
        """For each motion, what counts as the inertia of its body along it where that is less, (count,)."""
        turns, shifts = EVEN_SHARE * self.weights.scales.max(axis=0, initial=0.0)
        found = np.full(self.count, turns)
        for own in self.accelerations:
            found[list(own[3:])] = shifts
        return np.where(found > 0, found, 1.0)

    @cached_property
    def carried_inertia(self) -> Array:
        """:attr:`least_inertia` of motions of bodies that are eliminated last, and 0 of all others, (count,): their own
        inertia is no measure of what they are given, which states may take away again."""
        found = np.zeros(self.count)
        for k in self._carried:
            own = list(self.accelerations[k])
            found[own] = self.least_inertia[own]
        return found

    def tie_weights(self, tie: Tie) -> tuple[Weight, ...]:
        """ρ of the rows of a tie: where the copy follows, they are solved."""
        if self.follows[tie.copy]:
            return (NO_WEIGHT,) * 6
        turns, shifts = self.weights.between((tie.hub,))
        return (turns,) * 3 + (shifts,) * 3

    @property
    def copies(self) -> HubCopies:
        """Copies of nodes that many loops share."""
        return self._copies

    def seat(self, k: int, others: Sequence[int]) -> int:
        """What stands for a node where it is coupled with others."""
        return self._copies.seat(k, others)

    def hub_of(self, k: int) -> int:
        """The node that a copy stands for, or the node itself."""
        count = len(self.tree.nodes)
        return k if k < count else self._copies.hubs[k - count]

    @cached_property
    def edges(self) -> list[Sequence[int]]:
        """Nodes that joints, ties and constraints couple."""
        joints: list[Sequence[int]] = [(k, p) for k, p in enumerate(self.parents) if p >= 0]
        return joints + [d.bodies for d in self.demands]

    @cached_property
    def _ways(self) -> list[Way]:
        """For each order of elimination that may be good, the best way."""
        count = len(self.parents)
        orders = uncut_orders(self.edges, count) if self._apart else elimination_orders(self.edges, count)
        found = [self._best_way([k for k in every if k not in self._carried]) for every in orders]
        return [*found, self._cut_way()] if self._apart else found

    @property
    def _apart(self) -> bool:
        """Whether nodes are coupled by rows alone."""
        return self._follow and self.weights.moves_inertia

    def _cut_way(self) -> Way:
        """Cuts through joints and closures, whose rows wait for both sides; nodes that are eliminated last, and what is
        tied to them, are in no part."""
        last = {*self._carried}
        order, cuts = dissect([edge if last.isdisjoint(edge) else () for edge in self.edges], len(self.parents))
        joints = [k for k, parent in enumerate(self.parents) if parent >= 0]
        waiting = {
            k: cut
            for k, cut in zip(joints, cuts, strict=False)
            if cut != NOT_CUT or not last.isdisjoint((k, self.parents[k]))
        }
        return self._best_way([k for k in order if k not in last], waiting, cuts[len(joints) :])

    def _best_way(
        self, order: Sequence[int], joints: Mapping[int, int] = NO_CUT_JOINTS, closures: Sequence[int] = ()
    ) -> Way:
        """The way that costs least in an order of all nodes that are not eliminated last. ``joints``, ``closures``: the
        cuts that their rows wait for, if any do."""
        every = [*order, *self._carried]
        if self._follow:
            ways = [self._followers(every, joints, closures, patience) for patience in PATIENCE]
        else:
            ways = [self._no_followers(every)]
        place = {k: i for i, k in enumerate(every)}
        ends = [
            cut if (cut := joints.get(k, NOT_CUT)) != NOT_CUT else max(k, parent, key=lambda b: place.get(b, -1))
            for k, parent in enumerate(self.parents)
        ]
        found = [Way(every, following, ends, 0) for following in ways]
        return min((way._replace(cost=self._cost(way)) for way in found), key=lambda way: way.cost)

    def _cost(self, way: Way, sizes: Sequence[int] | None = None) -> int:
        """Cost of eliminating all nodes and rows; ``sizes``: how many unknowns each of them stands for."""
        joints = [
            -1 if follows else end
            for end, parent, follows in zip(way.joint_ends, self.parents, way.following.follows, strict=True)
            if parent >= 0
        ]
        cuts = len(way.order) - len(self.parents)
        ends = joints + way.following.ends
        return elimination_cost(way.order, self.edges, ends, apart=self._apart, sizes=sizes, cuts=cuts)

    @cached_property
    def _way(self) -> Way:
        """The way that costs least."""
        return min(self._ways, key=lambda way: way.cost)

    def in_repeating_order(self) -> Unknowns | None:
        """These unknowns in an order that is more likely to repeat itself, and of those without cuts costs little more
        than the cheapest; None if none is."""
        least = min(way.cost for way in self._ways[:WITHOUT_CUTS])
        for ways in (self._ways[:NUMBERED], self._ways[NUMBERED:WITHOUT_CUTS]):
            way = min(ways, key=lambda way: way.cost)
            if way is self._way:
                return None
            if way.cost <= REPETITION * least:
                found = copy(self)
                for name in ("joint_weights", "solved_for"):
                    found.__dict__.pop(name, None)
                found._way = way
                return found
        return None

    @cached_property
    def cost(self) -> int:
        """Cost of the order of elimination, bodies and rows of joints and closures counted as one each; with copies as
        much less as operations are fewer."""
        return self._way.cost

    @property
    def operations(self) -> int:
        """Cost of the order of elimination, unknowns and rows counted one by one."""
        way = self._way
        nodes = [6 - len(shape.blocked) * follows for shape, follows in zip(self.shapes, self.follows, strict=False)]
        nodes += [6 * (1 - self.follows[tie.copy]) for tie in self.ties]
        rows = [*(len(shape.blocked) for shape in self.shapes), *(6 for _ in self.ties)]
        joints = [r for r, parent in zip(rows, self.parents, strict=True) if parent >= 0]
        sizes = [*nodes, *joints, *(len(d.rigid) for d in self.demands)]
        return self._cost(way, sizes)

    @property
    def order(self) -> list[int]:
        """The nodes in the order of their elimination."""
        return [k for k in self._way.order if k < len(self.parents)]

    @property
    def follows(self) -> list[bool]:
        """Which nodes leave the system by their joints."""
        return self._way.following.follows

    def _no_followers(self, order: Sequence[int]) -> Following:
        place = {k: i for i, k in enumerate(order)}
        ends = [max(d.bodies, key=place.__getitem__, default=-1) for d in self.demands]
        return Following([False] * len(order), ends)

    def _followers(
        self, order: Sequence[int], joints: Mapping[int, int], cuts: Sequence[int], patience: int
    ) -> Following:
        closures = [
            Closing((*d.bodies, *([ON_WORLD] if any(k < 0 for k, _ in d.places) else ())), len(d.rigid), cut)
            for d, cut in zip(self.demands, cuts or [NOT_CUT] * len(self.demands), strict=True)
        ]
        rows = [len(shape.blocked) for shape in self.shapes] + [6] * len(self.ties)
        return following_bodies(order, self.parents, rows, closures, patience, joints)

    @cached_property
    def solved_for(self) -> dict[int, int]:
        """For every component that the joint of a following node does not move, the row that is solved for it."""
        joints = zip([shape.blocked for shape in self.shapes], self.rows_of_node, strict=True)
        every = [*joints, *((range(6), tie.rows) for tie in self.ties)]
        return {
            self.accelerations[k][component]: row
            for k, (blocked, rows) in enumerate(every)
            if self.follows[k]
            for component, row in zip(blocked, rows, strict=True)
        }

    def groups(self, used: Array) -> list[list[int]]:
        """The unknowns that are marked, in the order of their elimination: each body's, and the rows that end there.

        Components for which a row is solved come first, each followed by this row.
        """
        way, count = self._way, len(self.parents)
        place = {k: i for i, k in enumerate(way.order)}
        rows: list[list[int]] = [[] for _ in way.order]
        for k, own in enumerate([*self.rows_of_node, *(tie.rows for tie in self.ties)]):
            if not self.follows[k]:
                rows[place[way.joint_ends[k]]] += own
        for d, end in zip(self.demands, way.following.ends, strict=True):
            if d.rigid:
                rows[place[end]] += [number for _, number in d.rigid]
        found = []
        for i, k in enumerate(way.order):
            if k >= count:
                found.append([x for x in rows[i] if used[x]])
                continue
            explicit = k < len(self.shapes) and self.shapes[k].explicit
            motions = [*self.accelerations[k], *(self.of_node[k][-self.shapes[k].n :] if explicit else ())]
            solved = [x for x in motions if x in self.solved_for]
            others = [x for x in motions if x not in self.solved_for]
            pairs = [x for component in solved for x in (component, self.solved_for[component])]
            found.append([x for x in (*pairs, *others, *rows[i]) if used[x]])
        return found


class Binding(NamedTuple):
    """Where a demand is in the system."""

    prepared: Prepared
    places: tuple[tuple[int, Pose], ...]
    """Of a demand on frames: node (−1 for the world) and pose on it, for every pose that it takes."""
    felt: tuple[int, ...]
    """Which of these accelerate the rows. Not the world; nor the body that lends a pin its axes, whose acceleration
    turns a gap that is closed: what is left out is that gap times its angular acceleration."""
    joints: tuple[tuple[int, int], ...]
    """Of a demand on joints: node, and which of its freedoms."""
    bodies: tuple[int, ...]
    """Nodes that its rows feel, or copies that stand for them."""
    unknowns: tuple[int, ...]
    """Unknowns that its rows feel, side by side; some may appear twice."""
    rows: tuple[int, ...]
    """Its rows among all rows."""
    rigid: tuple[tuple[int, int], ...]
    """Of each factored rigid row: its place among the demand's rows, and the number of its multiplier."""
    soft: tuple[int, ...]
    """Places of the factored compliant rows."""
    factored_rigid: tuple[int, ...]
    """The rigid ones among all factored rows."""
    factored_soft: tuple[int, ...]
    """The compliant ones among all factored rows."""


def _bindings(
    tree: Skeleton,
    demands: Sequence[Prepared],
    kept_rows: Sequence[int],
    compliance: Sequence[Any],
    of: Unknowns,
    count: int,
) -> list[Binding]:
    starts = np.cumsum([0, *[len(c.demand.rows) for c in demands]]).tolist()
    factored = {row: i for i, row in enumerate(kept_rows)}
    found = []
    for c, (start, stop) in zip(demands, pairwise(starts), strict=True):
        places = tuple((place.node, place.pose) for place in frame_places(tree, c))
        joints = tuple((k, int(c.constraint.parameters.get("component", 0))) for k in tied_nodes(tree, c))
        felt = tuple(i for i, (k, _) in enumerate(places) if k >= 0 and not (c.demand.carried and i == 0))
        if c.demand.on == "frames":
            nodes = [places[i][0] for i in felt]
            held = [of.seat(k, nodes) for k in nodes]
            unknowns = [x for k in held for x in of.accelerations[k]]
        else:
            held = [b for k, _ in joints for b in (k, of.parents[k]) if b >= 0]
            unknowns = [x for k, _ in joints for x in of.of_node[k]]
        kept = [i for i in range(start, stop) if i in factored]
        rigid = []
        for i in kept:
            if not compliance[i]:
                rigid.append((i - start, count))
                count += 1
        soft = tuple(i - start for i in kept if compliance[i])
        bodies = tuple(dict.fromkeys(held))
        found.append(
            Binding(
                c,
                places,
                felt,
                joints,
                bodies,
                tuple(unknowns),
                tuple(range(start, stop)),
                tuple(rigid),
                soft,
                tuple(factored[start + i] for i, _ in rigid),
                tuple(factored[start + i] for i in soft),
            )
        )
    return found


def unknowns_of(system: ConstraintSet) -> Unknowns:
    """The unknowns of a model's body-level system, found once."""
    found: Unknowns | None = system.__dict__.get("_unknowns")
    if found is None:
        tree = skeleton(system.model)
        known = tree, system.demands, system.structure.independent, system.compliance
        found = Unknowns(*known, follow=True)
        lacking = found.weights.lacking
        roots = lacking if lacking and _are_given_inertia(system, found, lacking) else []
        found = with_copies(lambda copies: Unknowns(*known, follow=True, carried=roots, copies=copies))
        system.__dict__["_unknowns"] = found
    return found


def with_copies(make: Callable[[HubCopies], Unknowns]) -> Unknowns:
    """Unknowns with copies of bodies that many loops share, where that takes fewer operations."""
    found = make(NO_COPIES)
    if any(shape.size != 6 for shape in found.shapes):
        return found
    joints = [(k, p) for k, p in enumerate(found.tree.parents) if p >= 0]
    closures = [d.bodies for d in found.demands]
    ways = (find_hub_copies(joints, closures, len(found.tree.nodes), together) for together in LEGS_OF_A_COPY)
    others = [make(copies) for copies in ways if copies.hubs]
    if not others:
        return found
    best = min(others, key=lambda other: other.operations)
    if not best.operations < SHARE_OF_OPERATIONS * found.operations:
        return found
    best.cost = found.cost * best.operations // found.operations
    return best


def _are_given_inertia(system: ConstraintSet, unknowns: Unknowns, roots: Sequence[int]) -> bool:
    """Whether these bodies are on the world, which no closure holds, and have inertia by what hangs on them: pivots of
    the articulated recursion at a generic configuration."""
    tree, largest = unknowns.tree, unknowns.weights.scales.max(axis=0)
    if any(tree.parents[k] >= 0 for k in roots) or any(k < 0 for d in unknowns.demands for k, _ in d.places):
        return False
    if any(unknowns.shapes[k].explicit for k in roots):
        return False  # along which components its body moves depends on the state
    m = Mechanism(tree)
    links = m.still(system.structure.configuration.astype(object))
    freedoms = articulate(m.sweep, links, [zeros(link.H.shape[1]) for link in links])
    for k in roots:
        turns = np.any(links[k].H[:3] != 0, axis=0)
        if not np.all(freedoms[k].pivots.astype(float) >= EVEN_SHARE * np.where(turns, *largest)):
            return False
    return True


def rows_without_bodies(system: ConstraintSet) -> list[Prepared]:
    """The demands that the body-level system has no place for: massless motions that depend on the whole, and rows that
    feel no body at all."""
    tree = skeleton(system.model)
    factored = {system.row_names[i] for i in system.structure.independent}
    found = []
    for c in system.demands:
        feels = any(place.node >= 0 for place in frame_places(tree, c)) or bool(tied_nodes(tree, c))
        depends_on_all = c.demand.on == "massless" and c.constraint.kind != "hold"
        if depends_on_all or (not feels and factored & set(c.row_names)):
            found.append(c)
    return found


def find_body_fronts(system: ConstraintSet) -> list[Front]:
    """The bodies of a mechanism in the order of their elimination, each with those that it is coupled with then."""
    unknowns = unknowns_of(system)
    near = coupled_unknowns(((a, b) for edge in unknowns.edges for a in edge for b in edge), len(unknowns.order))
    return find_fronts([[k] for k in unknowns.order], near)


def row_weights(unknowns: Unknowns, binding: Binding) -> tuple[Weight, ...]:
    """ρ of the factored rigid rows of a demand, by their units."""
    units = binding.prepared.demand.units
    bodies = [unknowns.hub_of(k) for k in binding.bodies]
    return unknowns.weights.of_closure(bodies, [units[i] in ("m", "m/s") for i, _ in binding.rigid])


def coupled_unknowns(entries: Iterator[tuple[int, int]], count: int) -> list[set[int]]:
    """For each unknown, those that entries of the system couple it with."""
    found: list[set[int]] = [set() for _ in range(count)]
    for i, j in entries:
        if i != j:
            found[i].add(j)
            found[j].add(i)
    return found
