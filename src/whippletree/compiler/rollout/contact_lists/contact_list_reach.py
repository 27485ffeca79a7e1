"""Pairs that are too far apart to touch within a step: what need not be compared closely.

Every shape is in a ball about its middle, and the balls of a pair are a known distance apart. A pair is *close* where
that distance is no longer than its reach,

    reach = FARTHER · h · (s₁ + s₂) + φ₁ + φ₂

s being the speed that no point of a body exceeds as the step begins, and φ a share of the smallest ball on it. All else
is far: neither its points nor its velocities are worked out. That nothing is overlooked is seen at the end of a step,
where the speeds are known: what is far stays apart while s₁ + s₂ ≤ distance / h. Where a body has become so much faster
that this does not hold for a pair, or the step is so much longer than the one that the reach was found for, the pair is
close after all, and the step's iteration goes on with it.

Balls say little about long shapes. So a candidate of a close pair *leaves* once its own gap is found to be longer than
the reach: it is far until the next look, and what a step asks of close candidates is not asked of it.

Balls about long shapes meet where these are far apart: of the pairs of a humanoid that lies, 44 are close by their
balls, and 22 by what is known of them. So where a comparison has told how far apart two shapes are, that distance, less
what points of their bodies have travelled since, counts beside that of the balls. (Above a floor a ball tells enough.)
Solids, whose comparison is a search, are looked at once more before it: how far the boxes around them are apart, how
far they are along the normal that the last comparison found, and whether they stay apart along it where their points go
straight on, as they do for the rows of a step. Neither changes what a comparison finds, so it does not matter for the
result when the last one was.

Above a height field that rests, a ball is as far as it is above the highest place around it
(:class:`~whippletree.contact.geometry.height_field.HeightsAround`).

Most pairs of a robot are farther apart than its bodies travel in dozens of steps. So the distance of a far pair is
remembered as its *room*, beside what the fastest point of the scene had travelled by then. While the room is more than
the fastest point has travelled since, and more than a reach at the largest speed of all, nobody looks at the pair.

A pair of which neither body has moved since the last look, not by one bit, is not compared again: in a scene at rest,
or where a round that undoes an overlap moves other bodies.

A shape that can only slide and turn on a floor, as the puck of a planar pusher does, neither nears it nor leaves it:
whatever the gap, no impulse acts there, since none could change it. Such a pair counts as far; and so does one of two
shapes that turn past each other (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_parted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Buffer, Collect, Each, If, Index, Lookup, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, looped_block, piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_balls import (
    BallOfShape,
    PlacedPair,
    balls_of,
    can_be_far,
    is_ground,
    radii_of,
    swings_of,
)
from whippletree.compiler.rollout.contact_lists.contact_list_parted import HeightsKept
from whippletree.compiler.rollout.step_space import BLOCK, STEP, StepSpace
from whippletree.contact.geometry.height_field import HeightsAround
from whippletree.contact.geometry.shape_numbers import POSE, pose_of
from whippletree.contact.geometry.shapes import HalfSpace, HeightField
from whippletree.contact.geometry.solid_pairs import NEARER_POINT, SolidForm
from whippletree.contact.kinematics.pairs import Pair
from whippletree.contact.problem.cones import both, largest, not_less
from whippletree.tree.skeleton import Place

FARTHER = 1.25
"""Times its present speed that a body may reach within a step before far pairs are looked at again. That is rare, and
arms that swing have a pair in reach the more often the larger this is: with 4, robosuite's Sawyer took 11 µs a step
where it takes 1.6, and gymnasium's humanoid 7.5 instead of 6.8."""

TIMES_RADIUS = 2
"""Times the radius of a ball within which the highest place of a height field counts: no ball is known to be farther
above it than by this, less its radius."""

NORMAL = range(4, 7)
"""Where the normal of a candidate is among its numbers in ``touch``."""

LEFT = -2
"""``within`` of a candidate that leaves: what tells that its own gap counts, not that of its pair."""

NODE, BALL, ROOM, PARTED = "moving node", "ball", "number of a room", "parted"

CLOSE, LATE, AT_THE_END = "close", "late", "beside"
"""Lists of candidates of close pairs: as a step begins, at the velocity of its end, and at the place of its end."""


def _slots_of(pairs: Sequence[Pair], names: Container[str]) -> list[int]:
    """Numbers of the candidates of pairs with these names."""
    ends = np.cumsum([pair.slots for pair in pairs]).tolist()
    chosen = [(pair, end) for pair, end in zip(pairs, ends, strict=True) if pair.contact.name in names]
    return [slot for pair, end in chosen for slot in range(end - pair.slots, end)]


class Reach:
    """Statements about what is far, in the program of a step. Its buffers, beside those of the step:

    within              whether a candidate belongs to a close pair, 1 or −1, or leaves it, −2; the gap of a far one is
                        that of its balls, told for the first candidate of a pair
    both leeways        of a candidate: those of its nodes, together; nothing without a ball ever leaves
    centre              of the ball about a shape, in the world
    looked ahead        the step that the reach is found for, s
    speed, end speed    of every node as a step begins and ends, m/s; the last one is the world
    travelled           by the point of a node that has moved farthest, m, since some time in the past
    clear               of the first candidate of a pair: its gap when it was last worked out, and what both nodes had
                        travelled then
    mileage             of the fastest points from look to look, m: nothing has travelled farther
    horizon             the mileage, and half of the longest reach that a pair can have
    last stretch        what the mileage grows by
    quickest            the largest leeway, and the largest speed
    room, due, passing  of a pair that is no floor's, in the order in which they are judged: its distance, and twice the
                        mileage, as it was found to be far, −∞ where it was not; whether it is to be judged; whether a
                        plane holds it apart, although it is in reach
    seen normal         of the first candidate of two solids: their normal when they were last compared, in the second
                        body's axes; 0 if they were not yet
    moved               of a node: whether it has moved since the last look
    known               of the first candidate of a pair: whether its candidates are those of the last look
    anew                whether the pair in hand is to be compared
    mileage then        of the first candidate of a pair: the mileage when it was last judged
    """

    def __init__(self, space: StepSpace, wider: int = 1) -> None:
        """``wider``: times what a gap closes by within a step that it may be wide for its candidate to be guessed."""
        self.space, self.contacts, self.wider = space, space.contacts, wider
        self.fall = sqrt(sum(float(x) ** 2 for x in space.model.gravity))
        """What gravity alone does to a velocity, m/s²."""
        pairs = [(pair, pair.places(space.tree)) for pair in space.blocks.contacts.pairs]
        self._heights = HeightsKept(space.model, space.tree)
        self.parted = {pair.contact.name for pair, places in pairs if self._heights.are_parted(pair, places)}
        """Contacts whose shapes never meet."""
        self.used = any(can_be_far(*one) for one in pairs)
        """Whether any pair can be far."""
        self.remembers = any(can_be_far(*one) and not is_ground(one[0]) for one in pairs)
        """Whether distances of some pairs are remembered."""
        balls = balls_of(pairs)
        self.balls = {name: number for number, name in enumerate(balls)}
        """Numbers of the balls about shapes, by name."""
        self._crossings: list[Statement] = []
        """That tell whether a pair that is held apart by a plane crosses it after all."""
        self._rooms = 0
        """Rooms of pairs whose statements are written."""
        moving = [one for one in pairs if one[0].contact.name not in self.parted]
        self.pairs = sum(can_be_far(*one) and not is_ground(one[0]) for one in moving)
        """How many pairs have a room."""
        space.work(within=(self.contacts,))
        for name in (CLOSE, LATE, AT_THE_END):
            space.numbers_list(name, self.contacts)
        arm, leeway = swings_of(len(space.tree.nodes), pairs)
        # a point at the origin of its body has no arm, and moves all the same
        self.moving = np.flatnonzero(np.isfinite(leeway))
        if self.used:
            self._declare_motions(pairs, balls, arm, np.where(np.isfinite(leeway), leeway, 0))
        if self.remembers:
            self._declare_memory()
        parted = _slots_of([pair for pair, _ in pairs], self.parted)
        self._parted_slots = len(parted)
        if parted:
            space.index(PARTED, parted)

    def _declare_motions(
        self, pairs: Sequence[PlacedPair], balls: Mapping[str, BallOfShape], arm: Array, leeway: Array
    ) -> None:
        """Buffers and tables by which a pair is found to be far."""
        space, nodes = self.space, len(self.space.tree.nodes)
        space.work(speed=(nodes + 1,), end_speed=(nodes + 1,), outrun=(1,), looked_ahead=(1,), centre=(len(balls), 3))
        space.table("arm", arm)
        space.table("leeway", leeway)
        space.index("carriers", self.moving)
        slots = [pair.slots for pair, _ in pairs]
        space.index("leading", np.repeat(np.cumsum([0, *slots])[:-1], slots))
        slack = [sum(leeway[p.node] for p in own[1]) if can_be_far(*own) else np.inf for own in pairs]
        space.table("both leeways", np.repeat(slack, slots))
        space.index("held by", [ball.place.node if ball.place.node >= 0 else nodes for ball in balls.values()])
        space.table("middle", [ball.place.pose.point(ball.middle).astype(float) for ball in balls.values()])

    def _declare_memory(self) -> None:
        """Buffers of distances that are remembered."""
        space, nodes = self.space, len(self.space.tree.nodes)
        space.work(travelled=(nodes + 1,), clear=(self.contacts,), pose_seen=(nodes + 1, POSE))
        space.work(room=(self.pairs,), due=(self.pairs,), passing=(self.pairs,), mileage_then=(self.contacts,))
        space.work(mileage=(1,), horizon=(1,), last_stretch=(1,), quickest=(2,))
        space.work(seen_normal=(self.contacts, 3), moved=(nodes + 1,), known=(self.contacts,), anew=(1,))

    def begin(self) -> list[Statement]:
        """Before the first look: all are close, and the world rests."""
        if not self.contacts:
            return []
        found: list[Statement] = [Loop(BLOCK, self.contacts, (self.space.put(1, self.space.at("within", BLOCK)),))]
        if self.used:
            found.append(self.space.put(0, *self.space.each(("speed", "end speed"))))
        if self.remembers:
            at, put = self.space.at, self.space.put
            found.append(put(0, *self.space.each(("travelled", "mileage"))))
            found.append(self._no_rooms())
            found.append(Loop(ROOM, self.pairs, (put(-1, self._room("passing", ROOM)),), side_by_side=True))
            unseen = put(0, at("pose seen", NODE)), put(-1, at("moved", NODE))
            found.append(Loop(NODE, len(self.space.tree.nodes) + 1, unseen))
            # no comparison has told a normal yet, and boxes may hold a pair apart before one does
            unknown = put(-math.inf, at("clear", BLOCK)), put(0, at("seen normal", BLOCK)), put(-1, at("known", BLOCK))
            found.append(Loop(BLOCK, self.contacts, unknown))
        return [*found, *self._leave_parted()]

    def _leave_parted(self) -> list[Statement]:
        """Pairs that never meet are far for good, and carry no impulse."""
        if not self._parted_slots:
            return []
        at, put = self.space.at, self.space.put
        leave = (put(-1, at("within", BLOCK)), put(math.inf, at("gap", BLOCK)), put(0, at("impulse", BLOCK)))
        body = (Lookup(BLOCK, self.space.address(PARTED, "parted one")), *leave)
        return [Loop("parted one", self._parted_slots, body)]

    def _no_rooms(self) -> Statement:
        """All pairs are to be judged."""
        return Loop(ROOM, self.pairs, (self.space.put(-math.inf, self._room("room", ROOM)),), side_by_side=True)

    def _room(self, name: str, register: Register, first: int = 0) -> Piece:
        return Piece((), (Address(name, (Index(register, first),)),))

    def forget(self, *names: str) -> list[Statement]:
        """Flags of all candidates := −1, for those that are not looked at."""
        if not self.used:
            return []
        put = self.space.put(-1, *self.space.each(names, BLOCK))
        return [Loop(BLOCK, self.contacts, (put,), side_by_side=True)]

    def terms_of_leaving(self) -> list[Piece]:
        """Numbers of the candidate in hand, in a loop that has looked up its nodes, for :meth:`whether_within`."""
        at = self.space.at
        normal = Piece((), (Address("impulse", (Index(BLOCK), Index(None, 0))),))
        return [normal, at("both leeways", BLOCK), *[at("speed", f"node {side}") for side in (0, 1)]]

    def whether_within(self, gap: Any, h: Any, normal: Any, slack: Any, *speeds: Any) -> Any:
        """``within`` of a candidate of a close pair with this gap and normal impulse: what leaves would not be guessed
        to matter in the next step either."""
        closing = self.wider * h * (FARTHER * sum(speeds) + self.fall * h) + slack
        return select(both(less(closing, gap), not_less(0, normal)), LEFT, 1)

    def look(self) -> list[Statement]:
        """Where balls are, and the speed that no point of a body exceeds, from poses and twists at the present."""
        if not self.used:
            return []
        at = self.space.at

        def place(pose: Array, middle: Array) -> list[Any]:
            return [pose_of(pose).point(middle)]

        centre = traced_block(place, [at("pose", "held by"), at("middle", BALL)], [at("centre", BALL)])
        body = (Lookup("held by", self.space.address("held by", BALL)), centre)
        balls = Loop(BALL, len(self.balls), body)
        note = traced_block(lambda h: [[h]], [at("dt", STEP)], [at("looked ahead")])
        if not self.remembers:
            return [note, balls, self._over_bodies("speed")]

        def look_ahead(mileage: Array, stretch: Array, quickest: Array, h: Any) -> list[Any]:
            mileage = mileage + stretch
            return [mileage, mileage + quickest[0] + FARTHER * h * quickest[1]]

        extremes, results = self.space.each(("last stretch", "quickest")), self.space.each(("mileage", "horizon"))
        block = traced_block(look_ahead, [results[0], *extremes, at("dt", STEP)], results)
        return [note, balls, self.space.put(0, *extremes), self._over_bodies("speed", self._travel()), block]

    def _travel(self) -> Statement:
        """How far the point of the node in hand that has moved farthest has come since the last look."""
        at = self.space.at

        def travel(pose: Array, before: Array, arm: Any, so_far: Any, stretch: Array, *rest: Any) -> list[Any]:
            speed, leeway, quickest = rest
            turned, moved = pose[:9] - before[:9], pose[9:] - before[9:]
            step = sqrt(2 * (moved @ moved + arm * arm * (turned @ turned)))
            most = [largest([x, y]) for x, y in zip(quickest, (leeway, speed), strict=True)]
            stays = not_less(0, sum(abs(x) for x in (*turned, *moved)))  # also no NaN, and nothing whose square is 0
            return [so_far + step, pose, [largest([stretch[0], step])], most, select(stays, -1, 1)]

        poses = self.space.each(("pose", "pose seen"), NODE)
        so_far, extremes = at("travelled", NODE), self.space.each(("last stretch", "quickest"))
        reads = [*poses, at("arm", NODE), so_far, extremes[0], *self.space.each(("speed", "leeway"), NODE), extremes[1]]
        return traced_block(travel, reads, [so_far, poses[1], *extremes, at("moved", NODE)])

    def _over_bodies(self, name: str, *more: Statement) -> Statement:
        at = self.space.at

        def bound_speed(twist: Array, arm: Any) -> list[Any]:
            # |u| + arm |ω|, or somewhat more: one root instead of two
            return [sqrt(2 * (twist[3:] @ twist[3:] + arm * arm * (twist[:3] @ twist[:3])))]

        own = traced_block(bound_speed, [at("twist", NODE), at("arm", NODE)], [at(name, NODE)])
        body = (Lookup(NODE, self.space.address("carriers", "carrier")), own, *more)
        return Loop("carrier", len(self.moving), body)

    def look_back(self, compare: Sequence[Statement]) -> list[Statement]:
        """At the end of a step: far pairs that may have met are close, and compared by these statements; all that is
        close is in the list ``LATE``."""
        collect = Collect(LATE, BLOCK, self.contacts, self.space.address("within", BLOCK))
        if not self.used:
            return [collect]
        at, each = self.space.at, self.space.each

        def outruns(start: Any, end: Any, leeway: Any, h: Any, ahead: Array, outrun: Array) -> list[Any]:
            return [[select(less(FARTHER * ahead[0] * start + leeway, h * end), 1, outrun[0])]]

        def meets(within: Any, own: Any, gap: Any, first: Any, second: Any, h: Any, *ways: Any) -> list[Any]:
            gap = select(less(within, (LEFT - 1) / 2), own, gap)
            if ways:
                judged, mileage = ways
                gap = gap - 2 * (mileage[0] - judged)
            return [select(less(gap, h * (first + second)), 1, within)]

        reads = [*each(("speed", "end speed", "leeway"), NODE), at("dt", STEP), *each(("looked ahead", "outrun"))]
        own = self._over_bodies("end speed", traced_block(outruns, reads, [at("outrun")]))
        reads = [
            *each(("within", "gap"), BLOCK),
            at("gap", "leading"),
            at("end speed", "node 0"),
            at("end speed", "node 1"),
        ]
        reads += [at("dt", STEP), *([at("mileage then", "leading"), at("mileage")] if self.remembers else [])]
        pair = traced_block(meets, reads, [at("within", BLOCK)])
        sides = [Lookup(name, self.space.address(name, BLOCK)) for name in ("node 0", "node 1", "leading")]
        anew = [self._no_rooms()] if self.remembers else []
        again = (Loop(BLOCK, self.contacts, (*sides, pair)), *anew, *compare)
        return [
            self.space.put(-1, at("outrun")),
            own,
            *self._crossings,
            If(self.space.address("outrun"), again),
            collect,
        ]

    # ---- a pair of the narrow phase ------------------------------------------------------------------------------

    def each_due(
        self, kind: str, register: Register, pairs: Sequence[PlacedPair], body: Sequence[Statement]
    ) -> list[Statement]:
        """Statements for every pair of a kind that is to be judged, those of :meth:`judge` among them."""
        if is_ground(pairs[0][0]):
            return [Loop(register, len(pairs), tuple(body))]
        first = self._rooms - len(pairs)
        name = f"{kind} due"
        self.space.numbers_list(name, len(pairs))
        room, due = (self._room(word, register, first) for word in ("room", "due"))
        look = traced_block(lambda room, horizon: [[2 * horizon[0] - room]], [room, self.space.at("horizon")], [due])
        return [
            Loop(register, len(pairs), (look,), side_by_side=True),
            Collect(name, register, len(pairs), due.addresses[0]),
            Each(register, name, tuple(body)),
        ]

    def judge(
        self, kind: str, register: Register, pairs: Sequence[PlacedPair], first: Register, nodes: Sequence[Register]
    ) -> tuple[list[Statement], list[Buffer]]:
        """Statements that tell whether the pair in hand is close, by the balls that hold its shapes, and their tables.

        Args:
            kind: a name for the tables.
            register: number of the pair among the pairs of its kind.
            first: register of the pair's first candidate.
            nodes: registers of its moving nodes.
        """
        slots = pairs[0][0].slots
        ground, plane = is_ground(pairs[0][0]), isinstance(pairs[0][0].shapes[1], HalfSpace)
        numbers = np.array([self._plane(*pair) if plane else [radii_of(pair[0])] for pair in pairs], dtype=float)
        above = _above_field(pairs) if ground and not plane else None
        tables = [Buffer(f"{kind} apart", "table", numbers.shape, numbers)]
        lookups = []
        for side in (0,) if ground else (0, 1):
            balls = np.array([self._ball(pair, places, side) for pair, places in pairs], dtype=np.int64)
            tables.append(Buffer(f"{kind} ball {side}", "index", balls.shape, balls, integer=True))
            lookups.append(Lookup(f"ball {side}", Address(tables[-1].name, (Index(register),))))

        def far(numbers: Array, *given: Any) -> list[Any]:
            centres, (impulses, h, *moving) = given[: len(lookups)], given[len(lookups) :]
            mileage = moving.pop() if self.remembers else [0]
            if plane:
                distance = numbers[:3] @ centres[0] - numbers[3]
            elif above is not None:
                distance = above(centres[0]) - numbers[0]
            else:
                line = centres[0] - centres[1]
                *moving, clear = moving
                moving, travelled = moving[: 2 * len(nodes)], moving[2 * len(nodes) :]
                distance = largest([sqrt(line @ line) - numbers[0], clear - sum(travelled)])
            away = _is_far(distance, impulses, h, moving)
            room = [] if ground else [[select(away, distance + 2 * mileage[0], -math.inf)]]
            passing = [] if ground else [[-1]]
            return [[select(away, -1, 1)] * slots, [distance], *room, *passing, *([mileage] if self.remembers else [])]

        at = self.space.at
        reads = [piece(tables[0], register, None), *[at("centre", lookup.register) for lookup in lookups]]
        reads += [self._slots("impulse", first, slots, 0), at("dt", STEP)]
        reads += [at(name, node) for node in nodes for name in ("speed", "leeway")]
        writes = [self._slots("within", first, slots), self._slots("gap", first, 1)]
        if not ground:
            reads += [*[at("travelled", node) for node in nodes], at("clear", first)]
            writes += [self._room(word, register, self._rooms) for word in ("room", "passing")]
            self._rooms += len(pairs)
        if self.remembers:
            reads.append(at("mileage"))
            writes.append(self._slots("mileage then", first, 1))
        return [*lookups, traced_block(far, reads, writes)], tables

    def unless_known(
        self, pair: Pair, first: Register, nodes: Sequence[Register], compare: Sequence[Statement]
    ) -> list[Statement]:
        """Statements that compare the pair in hand if it is close, unless its candidates are those of the last look:
        neither body has moved since."""
        if is_ground(pair):
            return list(compare)

        def judge(within: Any, known: Any, *moved: Any) -> list[Any]:
            stays: Any = less(0, known)
            for x in moved:
                stays = both(stays, less(x, 0))
            return [[select(stays, -1, within)], within]

        at, within = self.space.at, self.space.at("within", first)
        reads = [within, at("known", first), *[at("moved", node) for node in nodes]]
        block = traced_block(judge, reads, [at("anew"), at("known", first)])
        note = traced_block(lambda within: [within], [within], [at("known", first)])
        return [block, If(self.space.address("anew"), (*compare, note))]

    def hold_apart(
        self,
        separation: Callable[..., Any],
        ahead: Callable[..., Any],
        shapes: Sequence[Piece],
        pair: Pair,
        first: Register,
        nodes: Sequence[Register],
        of_pair: tuple[Register, int, Sequence[Statement]],
        name: str,
    ) -> tuple[list[Statement], list[Buffer]]:
        """Statements that tell whether the two solids in hand are far after all, and their work space: because they are
        out of reach, or because their material points go straight on at their present velocities, and somewhat
        faster, without crossing a plane. That these do is seen for such pairs at the end of a step, too.

        Args:
            separation: a distance that they have at least, from what ``shapes`` read and a normal (3,), which may be 0.
            ahead: how far they are apart along the normal once they have moved, from the same numbers, twists (6,) and
                poses of both bodies, and the time.
            of_pair: the register of the pair in hand, how many of this kind there are, and what is looked up of one.
            name: for the work space.
        """
        at, slots, (register, count, lookups) = self.space.at, pair.slots, of_pair
        passing = self._room("passing", register, self._rooms)
        moves = [at(word, node) for word in ("twist", "pose") for node in nodes]

        def find(*given: Any) -> list[Any]:
            own, (n, clear, impulses, h, *moving) = given[: len(shapes)], given[len(shapes) :]
            moving, (*travelled, V, W, X, Y) = moving[:4], moving[4:]
            n = pose_of(Y).R @ n
            distance = separation(*own, n)
            later = ahead(*own, n, V, W, X, Y, FARTHER * h)
            after = largest([clear, distance - NEARER_POINT + sum(travelled)])
            away = _is_far(distance, impulses, h, moving)
            passes = both(less(sum(moving[1::2]), -largest([-distance, -later])), _carries_nothing(impulses))
            within = select(away, -1, select(passes, -1, 1))
            return [[within] * slots, [distance], after, [select(away, -1, -within)]]

        reads = [*shapes, at("seen normal", first), at("clear", first), self._slots("impulse", first, slots, 0)]
        reads += [at("dt", STEP), *[at(word, node) for node in nodes for word in ("speed", "leeway")]]
        reads += [at("travelled", node) for node in nodes]
        writes = [self._slots("within", first, slots), self._slots("gap", first, 1), at("clear", first), passing]
        statements, buffers = looped_block(find, [*reads, *moves], writes, name)

        def crosses(*given: Any) -> list[Any]:
            own, (n, V, W, X, Y, h, outrun) = given[: len(shapes)], given[len(shapes) :]
            later = ahead(*own, pose_of(Y).R @ n, V, W, X, Y, h)
            return [[select(less(later, 0), 1, outrun[0])]]

        reads = [*shapes, at("seen normal", first), *moves, at("dt", STEP), at("outrun")]
        look, more = looped_block(crosses, reads, [at("outrun")], f"{name} at the end")
        self.space.numbers_list(f"{name} passing", count)
        self._crossings.append(Collect(f"{name} passing", register, count, passing.addresses[0]))
        self._crossings.append(Each(register, f"{name} passing", (*lookups, *look)))
        return statements, [*buffers, *more]

    def remember(
        self,
        pair: Pair,
        first: Register,
        nodes: Sequence[Register],
        bound: tuple[Callable[..., Any], Sequence[Piece]] | None = None,
    ) -> list[Statement]:
        """How far apart the pair in hand is, whose candidates have been worked out.

        The least of its gaps is the distance of the shapes, or up to ``NEARER_POINT`` more, unless a ``bound`` is
        given, a distance that they have at least and what it is found from. Points that move by some length change the
        distance by no more than the length.
        """
        if is_ground(pair):
            return []
        at = self.space.at
        gaps = self._slots("touch", first, pair.slots, 0)
        find, reads = bound or (lambda gaps: -largest([-gap for gap in gaps]) - NEARER_POINT, [gaps])

        def note(*given: Any) -> list[Any]:
            return [find(*given[: len(reads)]) + sum(given[len(reads) :])]

        travelled = [at("travelled", node) for node in nodes]
        found: list[Statement] = [traced_block(note, [*reads, *travelled], [at("clear", first)])]
        if isinstance(pair.touching, SolidForm):
            normal = tuple(Address("touch", (Index(first, pair.slots - 1), Index(None, i))) for i in NORMAL)
            places = [Piece((3,), normal), at("pose", nodes[1])]
            own = traced_block(lambda n, Y: [pose_of(Y).R.T @ n], places, [at("seen normal", first)])
            found.append(own)
        return found

    def _plane(self, pair: Pair, places: Sequence[Place]) -> list[float]:
        """Normal of a floor, and the height above it (from the world's origin) at which the ball of a shape touches it;
        none is high enough for a shape that stays at its height."""
        X = places[1].pose
        normal = X.R[:, 2].astype(float)
        if self._heights.keeps_height(places[0].node, normal):
            return [*normal, -math.inf]
        return [*normal, float(normal @ X.p.astype(float)) + radii_of(pair)]

    def _ball(self, pair: Pair, places: Sequence[Place], side: int) -> int:
        """Number of the ball about a shape of a pair."""
        return self.balls[pair.contact.first if side == 0 else pair.contact.second]

    def _slots(self, name: str, first: Register, slots: int, *rest: int) -> Piece:
        own = tuple(Index(None, i) for i in rest)
        return Piece((slots,), tuple(Address(name, (Index(first, slot), *own)) for slot in range(slots)))


def _above_field(pairs: Sequence[PlacedPair]) -> Callable[[Array], Any]:
    """How far a point (3,) of the world is above the height field of some pairs, at least."""
    pair, places = pairs[0]
    field, Y = pair.shapes[1], places[1].pose
    assert isinstance(field, HeightField)
    around = HeightsAround(field.grid, TIMES_RADIUS * max(radii_of(own) for own, _ in pairs))
    return lambda point: around.clearance(Y.R.T @ (point - Y.p))


def _is_far(distance: Any, impulses: Array, h: Any, moving: Sequence[Any]) -> Any:
    """Whether a distance is longer than the reach of a pair; ``moving``: speed and leeway of each of its bodies."""
    return both(less(FARTHER * h * sum(moving[::2]) + sum(moving[1::2]), distance), _carries_nothing(impulses))


def _carries_nothing(impulses: Array) -> Any:
    """Whether no candidate of a pair carries an impulse: what does is close in any case."""
    return not_less(0, largest(list(impulses)))
