"""The narrow phase as loops over pairs of one kind: code that grows with the kinds of pairs, not with the pairs.

Pairs are of one kind where the same closed form serves shapes of the same types, and where the numbers that tell them
apart (where the geometries are on their bodies, how large they are) are exactly 0, 1 or −1 in the same places: those
stay in the code and fold away, the others come from a table. A floor that is fixed in the world costs what a floor must
cost, and no more. Where shapes of the same types would be many kinds, they are one, and only numbers that all of them
share fold away. Shapes that are more than a few numbers (a terrain, a hull) are a kind of their own. Only pairs that
are close enough (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_reach`) are compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Buffer, If, Index, Lookup, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, looped_block, piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_balls import can_be_far
from whippletree.compiler.rollout.contact_lists.contact_list_reach import Reach
from whippletree.contact.geometry.box_pairs import boxes_at_least_apart
from whippletree.contact.geometry.closed_forms import Touch, closed_form
from whippletree.contact.geometry.shape_numbers import (
    POSE,
    kind_of,
    numbers_of_pose,
    numbers_of_shape,
    pose_of,
    with_numbers,
)
from whippletree.contact.geometry.shapes import Box
from whippletree.contact.geometry.solid_cells import CELL_NUMBERS, NO_CELL, Cell
from whippletree.contact.geometry.solid_distance import StraightMotion, separation_as_they_move, separation_at_least
from whippletree.contact.geometry.solid_pairs import SolidForm, is_searched
from whippletree.contact.geometry.solid_rest import (
    NO_REST,
    REST_NUMBERS,
    carried_along,
    has_moved,
    pose_at_rest,
    rest_of,
)
from whippletree.contact.kinematics.pairs import Pair
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Place, Skeleton

TOUCH = 13
"""Numbers of a candidate: its gap, its point (3) and its axes (3, 3)."""

MOST_FOLDED_KINDS = 4
"""Kinds of pairs of the same two types of shapes up to which each has code of its own. gymnasium's humanoid would have
27 of two capsules: with code for each a first step takes 8.5 s instead of 5.5, and 3 s of its fall take 64 ms instead
of 59."""

PAIR = "pair"

CELLS, RESTS = "cells", "rests"
"""Buffers of what is kept of solids, the candidates at rest beside them."""


@dataclass(frozen=True, eq=False)
class Member:
    """A pair with the numbers that tell it from others of its kind."""

    pair: Pair
    places: tuple[Place, Place]
    first: int
    """Number of its first candidate."""
    numbers: tuple[float, ...]
    """Of both places and both shapes, and the margin, one after the other."""

    @cached_property
    def kind(self) -> tuple[Any, ...]:
        """Common numbers of pairs of one kind."""
        shapes = tuple(kind_of(shape) for shape in self.pair.compared)
        if self.pair.solids is not None:
            # one code serves solids with flats and without, where not both have some: the number of slots tells
            shapes = tuple(shape[:2] if isinstance(shape, tuple) else shape for shape in shapes)
        if not self.folds:
            return shapes, self.pair.slots, ()
        moving = tuple(place.node >= 0 for place in self.places)
        return (shapes, moving, tuple(x if x in (0, 1, -1) else None for x in self.numbers))

    @property
    def coarse_kind(self) -> tuple[Any, ...]:
        """Common numbers of pairs of the same types, whatever their numbers."""
        return (*self.kind[:2], self.pair.slots)

    @property
    def folds(self) -> bool:
        """Whether numbers that are 0 or ±1 become part of the code. The forms of time steps and of solids are long:
        each is written once, with all numbers from tables, and with the world as one more body."""
        return self.pair.solids is None and closed_form(*self.pair.shapes) is not None


class Told(NamedTuple):
    """Arguments of a program that say which pairs are compared; others have infinite gaps."""

    within: Buffer
    """m: solids that are farther apart, seen by the boxes around them, are not."""
    wanted: Buffer
    """1 or 0 for each candidate, (candidates,): nor is a pair whose first one is not wanted."""


class NarrowPhase(NamedTuple):
    """Statements about pairs, and what they need."""

    begin: list[Statement]
    """Before the first look."""
    look: list[Statement]
    """Find out which pairs are close, and their candidates."""
    late: list[Statement]
    """Find the candidates of those that were found close since."""
    buffers: list[Buffer]
    """Tables and work space."""


def narrow_phase(
    pairs: Sequence[Pair],
    tree: Skeleton,
    poses: Buffer,
    touches: Buffer,
    reach: Reach | None,
    told: Told | None = None,
) -> NarrowPhase:
    """The statements of a narrow phase.

    Args:
        pairs: all with a closed form.
        poses: of the nodes in the world, and of the world itself, (nodes + 1, 12).
        touches: where the candidates go, (candidates, 13).
        reach: what tells which pairs are close; None: all are compared.
        told: where ``reach`` is None, what is asked for.
    """
    parted = () if reach is None else reach.parted
    kinds = [[m for m in own if m.pair.contact.name not in parted] for own in _kinds(pairs, tree)]
    kinds = [members for members in kinds if members]
    # what is rarely run is written for shapes of the same types together, all numbers from tables: less code
    coarse: dict[Any, list[Member]] = {}
    for member in (member for members in kinds for member in members):
        if reach is not None and can_be_far(member.pair, member.places):
            coarse.setdefault(member.coarse_kind, []).append(member)
    statements: list[Statement] = []
    late: list[Statement] = []
    begin: list[Statement] = []
    buffers: list[Buffer] = []
    for number, members in enumerate(kinds):
        kind = _Kind(f"kind {number}", members, poses, touches, reach)
        found, tables = kind.loop() if told is None else kind.loop_of_told(told)
        statements += found
        buffers += tables
        if kind.rests:
            begin += kind.forget()
    for number, members in enumerate(coarse.values()):
        found, tables = _Kind(f"late kind {number}", members, poses, touches, reach, folds=False).loop(judges=False)
        late += found
        buffers += tables
    return NarrowPhase(begin, statements, late, buffers)


def _kinds(pairs: Sequence[Pair], tree: Skeleton) -> list[list[Member]]:
    """The pairs by kinds; those of the same types are one kind where they would be too many."""
    kinds: dict[Any, list[Member]] = {}
    first = 0
    for pair in pairs:
        places = pair.places(tree)
        numbers = [*numbers_of_pose(places[0].pose), *numbers_of_pose(places[1].pose)]
        numbers += [x for shape in pair.compared for x in numbers_of_shape(shape)]
        numbers.append(float(pair.contact.margin))
        member = Member(pair, places, first, tuple(numbers))
        kinds.setdefault(member.kind, []).append(member)
        first += pair.slots
    sizes = Counter(members[0].coarse_kind for members in kinds.values())
    found: dict[Any, list[Member]] = {}
    for kind, members in kinds.items():
        own = members[0].coarse_kind
        found.setdefault(own if sizes[own] > MOST_FOLDED_KINDS else kind, []).extend(members)
    return list(found.values())


class _Kind:
    """The pairs of one kind."""

    def __init__(
        self,
        name: str,
        members: Sequence[Member],
        poses: Buffer,
        touches: Buffer,
        reach: Reach | None,
        *,
        folds: bool = True,
    ) -> None:
        """``folds``: numbers that all share, 0 and ±1, are part of the code."""
        self.name = name
        self.members = members
        self.poses, self.touches, self.reach = poses, touches, reach
        self.moving = [side for side in (0, 1) if not members[0].folds or members[0].places[side].node >= 0]
        world = int(poses.shape[0]) - 1
        nodes = [[world if place.node < 0 else place.node for place in m.places] for m in members]
        numbers = np.array([m.numbers for m in members], dtype=float)
        shared = np.isin(numbers[0], (0, 1, -1)) & (numbers == numbers[0]).all(axis=0)
        differs = ~shared if folds else np.ones(len(shared), dtype=bool)
        self.open = np.flatnonzero(differs) if len(members) > 1 else np.zeros(0, int)
        """Which of the numbers come from the table."""
        self.table = Buffer(f"{self.name} numbers", "table", (len(members), len(self.open)), numbers[:, self.open])
        self.nodes = {side: self._index(f"node {side}", [own[side] for own in nodes]) for side in self.moving}
        self.first = self._index("first", [m.first for m in members])

    def _index(self, word: str, numbers: Sequence[int]) -> Buffer:
        return Buffer(f"{self.name} {word}", "index", (len(numbers),), np.array(numbers, dtype=np.int64), integer=True)

    def loop(self, judges: bool = True) -> tuple[list[Statement], list[Buffer]]:
        """The loop over the pairs, and its tables; ``judges``: it finds out, too, which of them are close."""
        indices, tables, lookups, reads = self._numbers()
        compare, work = self._compare(reads, remembers=judges)
        pairs = [(m.pair, m.places) for m in self.members]
        if self.reach is not None and can_be_far(*pairs[0]):
            nodes = [b.name for b in self.nodes.values()]
            boxes = pairs[0][0].solids is None and all(isinstance(shape, Box) for shape in pairs[0][0].shapes)
            bound = (self._boxes_apart, reads) if boxes else None
            remember = self.reach.remember(pairs[0][0], self.first.name, nodes, bound)
            close = Address("within", (Index(self.first.name),))
            compare = [If(close, (*compare, *remember))]
            if judges:
                pair = pairs[0][0]
                if isinstance(pair.touching, SolidForm):
                    of_pair, own = (PAIR, len(pairs), lookups), f"{self.name} apart"
                    hold, more = self.reach.hold_apart(
                        self._separation_along,
                        self._separation_ahead,
                        reads,
                        pair,
                        self.first.name,
                        nodes,
                        of_pair,
                        own,
                    )
                    compare, work = [*hold, *compare], [*work, *more]
                compare = self.reach.unless_known(pair, self.first.name, nodes, compare)
                judge, more = self.reach.judge(self.name, PAIR, pairs, self.first.name, nodes)
                found = self.reach.each_due(self.name, PAIR, pairs, (*lookups, *judge, *compare))
                return found, [*indices, *tables, *more, *work]
        return [Loop(PAIR, len(self.members), (*lookups, *compare))], [*indices, *tables, *work]

    def loop_of_told(self, told: Told) -> tuple[list[Statement], list[Buffer]]:
        """The loop over the pairs that are asked for, and its tables."""
        pair = self.members[0].pair
        indices, tables, lookups, reads = self._numbers()
        compare, work = self._compare(reads, remembers=False)
        apart = [math.inf, 0, 0, 0, *np.eye(3, dtype=int).ravel().tolist()]
        none = traced_block(lambda: [apart] * pair.slots, [], self._slots())
        if isinstance(pair.touching, SolidForm):
            near = Buffer(f"{self.name} near", "work", (1,))

            def judge(within: Any, *given: Array) -> list[Any]:
                return [[select(less(within, self._separation(*given)), -1, 1)]]

            look = traced_block(judge, [piece(told.within), *reads], [piece(near)])
            compare, work = [look, If(Address(near.name, (Index(None),)), tuple(compare))], [*work, near]
        wanted = If(Address(told.wanted.name, (Index(self.first.name),)), tuple(compare))
        return [Loop(PAIR, len(self.members), (*lookups, none, wanted))], [*indices, *tables, *work]

    def _numbers(self) -> tuple[list[Buffer], list[Buffer], list[Statement], list[Piece]]:
        """Tables of indices and of numbers, and how the pair in hand is looked up and read."""
        indices = [self.first, *self.nodes.values()]
        lookups: list[Statement] = [Lookup(b.name, Address(b.name, (Index(PAIR),))) for b in indices]
        reads = [piece(self.poses, b.name, None) for b in self.nodes.values()]
        tables = [self.table] if len(self.open) else []
        return indices, tables, lookups, [*reads, *[piece(table, PAIR, None) for table in tables]]

    def _slots(self) -> list[Piece]:
        """Where the candidates of the pair in hand go."""
        return [self._slot(self.first.name, slot) for slot in range(self.members[0].pair.slots)]

    def _slot(self, register: Register, slot: int) -> Piece:
        places = [Address(self.touches.name, (Index(register, slot), Index(None, i))) for i in range(TOUCH)]
        return Piece((TOUCH,), tuple(places))

    def _compare(self, reads: Sequence[Piece], *, remembers: bool) -> tuple[list[Statement], list[Buffer]]:
        """Statements that find the candidates of the pair in hand, and their work space; ``remembers``: where its
        solids were last, where pairs are told apart by their reach."""
        if not self.rests:
            return looped_block(self._touches, reads, self._slots(), self.name)
        if remembers:
            return self._compare_at_rest(reads, PAIR, len(self.members))
        compare, buffers = self._compare_at_rest(reads, Index(None, 0), 1)
        return [self._forget_one(Index(None, 0)), *compare], buffers

    def _compare_at_rest(
        self, reads: Sequence[Piece], own: Register | Index, count: int
    ) -> tuple[list[Statement], list[Buffer]]:
        """The candidates of the two solids in hand: searched where their pose is rounded to, unless they were there
        when they were last compared, and carried from there; ``own``: of ``count`` places where this is kept."""
        slots = self.members[0].pair.slots
        kept = [
            Buffer(f"{self.name} {word}", "work", (count, size))
            for word, size in ((CELLS, self.cell_numbers), (RESTS, REST_NUMBERS), ("seen", slots * TOUCH))
        ]
        cell, rest, seen = (piece(buffer, own, None) for buffer in kept)
        searched = Buffer(f"{self.name} searched", "work", (1,))

        def locate(*given: Array) -> list[Any]:
            *own, before = given
            now = rest_of(*self._poses(*own))
            return [now, [has_moved(now, before)]]

        def search(*given: Array) -> list[Any]:
            *table, now, cell = given
            first, second = self._shapes(*table)[0]
            touching, there = self.members[0].pair.touching, pose_at_rest(now)
            origin = Pose(identity(3), vector(0, 0, 0))
            if isinstance(touching, SolidForm):
                touches, after = touching.from_cell(first, second, there, origin, Cell.of(cell))
                return [*_numbers_of_touches(touches, 0), after.numbers()]
            assert touching is not None
            return [*_numbers_of_touches(touching(first, second, there, origin), 0), cell]

        def carry(*given: Array) -> list[Any]:
            *own, now, seen = given
            found = [_touch_of_numbers(row) for row in seen.reshape(slots, TOUCH)]
            margin = self._shapes(*own)[1]
            return _numbers_of_touches(carried_along(found, now, *self._poses(*own)), margin)

        table = [read for read in reads if read.addresses[0].buffer == self.table.name]
        compare, work = looped_block(search, [*table, rest, cell], [seen, cell], self.name)
        return [
            traced_block(locate, [*reads, rest], [rest, piece(searched)]),
            If(Address(searched.name, (Index(None),)), tuple(compare)),
            traced_block(carry, [*reads, rest, seen], self._slots()),
        ], [*kept, searched, *work]

    @property
    def rests(self) -> bool:
        """Whether its pairs are compared at rest: those that are searched, where it is known which are close."""
        return self.reach is not None and is_searched(self.members[0].pair.touching)

    @property
    def cell_numbers(self) -> int:
        """Numbers of a cell of a pair; planes have none."""
        return CELL_NUMBERS if isinstance(self.members[0].pair.touching, SolidForm) else 1

    def forget(self) -> list[Statement]:
        """Nothing is known of any pair."""
        return [Loop(PAIR, len(self.members), (self._forget_one(PAIR),))]

    def _forget_one(self, own: Register | Index) -> Statement:
        """No cell and no rest is known."""
        at = Index(own) if isinstance(own, str) else own
        firsts = [Piece((), (Address(f"{self.name} {word}", (at, Index(None, 0))),)) for word in (CELLS, RESTS)]
        return traced_block(lambda: [NO_CELL.place[0], NO_REST], [], firsts)

    def _touches(self, *given: Array) -> list[Any]:
        """The candidates of a pair, from the poses of its moving bodies and its own numbers."""
        (first, second), (X, Y), margin = self._placed(*given)
        touching = self.members[0].pair.touching
        assert touching is not None
        return _numbers_of_touches(touching(first, second, X, Y), margin)

    def _separation(self, *given: Array) -> Any:
        """A gap that two solids have at least, from the same numbers."""
        (first, second), (X, Y), margin = self._placed(*given)
        return separation_at_least(first, second, X, Y) - margin

    def _separation_along(self, *given: Array) -> Any:
        """How far two solids are apart, with a normal (3,) beside the numbers that is known of them, or 0."""
        (first, second), (X, Y), margin = self._placed(*given[:-1])
        return separation_at_least(first, second, X, Y, given[-1]) - margin

    def _separation_ahead(self, *given: Array) -> Any:
        """How far two solids are apart along a normal after their bodies have moved on straight: from the same numbers,
        the normal, twists and poses of both bodies, and the time."""
        *own, n, V, W, X, Y, h = given
        (first, second), (A, B), margin = self._placed(*own)
        motions = [StraightMotion(pose_of(pose).p, twist, h) for twist, pose in ((V, X), (W, Y))]
        return separation_as_they_move(first, second, A, B, n, motions) - margin

    def _boxes_apart(self, *given: Array) -> Any:
        """A gap that two boxes have at least."""
        (first, second), (X, Y), margin = self._placed(*given)
        return boxes_at_least_apart(first, second, X, Y) - margin

    def _placed(self, *given: Array) -> tuple[list[Any], list[Pose], Any]:
        """Shapes, poses and margin of a pair."""
        shapes, margin = self._shapes(*given)
        return shapes, self._poses(*given), margin

    def _poses(self, *given: Array) -> list[Pose]:
        """Poses of both shapes, from those of moving bodies and the numbers of the table."""
        bodies, numbers = dict(zip(self.moving, given, strict=False)), self._own_numbers(*given)
        poses = []
        for side in (0, 1):
            own = pose_of(np.array(numbers[POSE * side : POSE * (side + 1)], dtype=object))
            poses.append(pose_of(bodies[side]) @ own if side in bodies else own)
        return poses

    def _shapes(self, *given: Array) -> tuple[list[Any], Any]:
        """Both shapes and the margin, from the numbers of the table, which come last."""
        numbers = self._own_numbers(*given)
        shapes, at = [], 2 * POSE
        for shape in self.members[0].pair.compared:
            size = len(numbers_of_shape(shape))
            shapes.append(with_numbers(shape, numbers[at : at + size]))
            at += size
        return shapes, numbers[at]

    def _own_numbers(self, *given: Array) -> list[Any]:
        """All numbers of the pair in hand."""
        numbers: list[Any] = list(self.members[0].numbers)
        if len(self.open):
            for place, x in zip(self.open, given[-1], strict=True):
                numbers[place] = x
        return numbers


def _numbers_of_touches(found: Sequence[Touch], margin: Any) -> list[Any]:
    return [np.concatenate([[touch.gap - margin], touch.point, touch.axes.ravel()]) for touch in found]


def _touch_of_numbers(row: Array) -> Touch:
    return Touch(row[0], row[1:4], row[4:].reshape(3, 3))
