"""The broad phase of a scene of many bodies as one kernel: which pairs are near, in the order in which they are swept.

Every bounded geometry is held by a ball about its origin. Balls are sorted into grids, one for each power of two of
their size, from the largest to the smallest; each looks into the 27 cells about its centre of every grid that holds a
ball already, so that a pair is met once, and a boulder does not make every pebble look far. Cells are as wide as two
balls reach together, and hashed: whatever shares a bucket is told apart by its cell. Nothing is left out
that is nearer than it should be, and all of it takes time that grows with the number of balls and pairs.

Pairs that nearly touch come first, those that press lie close together in memory then; each from the top downwards,
along gravity: a sweep down carries weight, one up carries what holds it. Those that nearly touch come in *turns*, of
which no two pairs have a body in common but the world: a pair comes after those before it that have a body in common
with it, so that sweeps in the order of turns do what sweeps in the order of heights do, but a processor need not wait
for one to go on with the next. Heights are sorted by two digits, and turns by one, in passes that count.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.compiler.program import Address, Buffer, If, Index, Lookup, Loop, Program, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.geometry.shape_numbers import POSE, pose_of
from whippletree.contact.kinematics.scene_layout import COEFFICIENTS
from whippletree.contact.problem.cones import both, largest
from whippletree.spatial import quaternion_rotation
from whippletree.spatial.vectors import Pose

CELL = 1.001
"""Width of a cell, as a multiple of how far two of its balls reach: rounding takes less than the excess over 1."""

WHOLE = 1.5 * 2.0**52
"""Added to a number and taken away again, it leaves the nearest whole one."""

FARTHEST_CELL, PERIOD = 2.0**40, 2.0**12
"""Cells from the origin beyond which balls share one; and cells after which their numbers come again."""

BALL_FORM, HALF_SPACE_FORM, CAVITY_FORM, FORM_ANYWHERE = 0, 1, 2, 3
"""Geometries that a ball holds; half spaces; the insides of balls; and those that may be anywhere."""

TRAITS = ("radius", "form", "wall", "node", "moves", "class", "rank", "first partner", "partners")
"""Numbers of a geometry beside its pose on the body: radius of the ball that holds it, or that it holds; how it is
compared; whether it is a wall of the world; its body, whether that moves, and its class; the smaller rank comes first
in a pair; and where those begin with which it has contacts of its own, and how many they are."""

PAIR_HEIGHT, PAIR_TOUCHES, PAIR_TURN = 7, 8, 9
"""Places of the last numbers of a pair that was found."""

GEOMETRY, BALL, OTHER, LEVEL, PAIR = "geometry", "ball", "other", "level", "pair"

INPUTS: dict[str, tuple[Any, ...]] = {
    "q": ("N", 7),
    "placements": ("N", POSE),
    "thickness": ("N",),
    "world skin": (2,),
    "grain": (3,),
    "gravity": (3,),
    "nearly": (),
    "margin": (),
    "at once": (),
    "worlds": (),
    "digit base": (),
    "buckets": (2,),
    "geometries": ("G", POSE + len(TRAITS)),
    "balls": ("B", 3),
    "levels": ("L",),
    "unbounded": ("U",),
    "groups": ("K", len(COEFFICIENTS)),
    "members": ("G", "K"),
    "declared": ("D", 2 + len(COEFFICIENTS)),
    "partners": ("E",),
    "kinds": ("X", "X"),
    "slots": ("Y",),
    "hash": ("H",),
    "room": ("P",),
}
"""Inputs, and their shapes."""


def scene_lists_program() -> Program:
    """The program that makes the lists of any scene of free bodies.

    Inputs, with N bodies (the last is the world) and G geometries:

    q (N, 7), placements (N, 12)   where bodies are
    thickness (N,)                 their skins, m; the longest of the world
    world skin (2,), grain (3,)    of its walls: thickness across, and s in √(1 + s (grain · normal)²) times that
    gravity (3,)
    nearly ()                      pairs that are nearer than that nearly touch, m
    margin ()                      the largest of all groups, m
    at once (), worlds ()          pairs that are put into turns together; worlds, where something touches
    digit base ()                  P − 1: heights are sorted by two digits, to a part in its square of their range
    buckets (2,)                   H, which is an odd number, and 1 / H
    geometries (G, 21)             pose on the body, and :data:`TRAITS`
    balls (B, 3)                   its own number, geometry and level of each geometry that is in a group and bounded;
                                   largest levels first
    levels (L,)                    0, 1, …: of larger and larger balls
    unbounded (U,)                 geometries of groups that have no end
    groups (K, 5), members (G, K)  coefficients (:data:`~whippletree.contact.kinematics.scene_layout.COEFFICIENTS`); 1
                                   for geometries of a group
    declared (D, 7)                contacts listed one by one: two geometries and coefficients
    partners (E,)                  the second geometries of contacts listed one by one, by the first
    kinds (X, X), slots (Y,)       kind of pairs of two classes; candidates of each kind
    hash (H,), room (P,)           anything; 0, 1, …: room for so many pairs less one

    Outputs: pairs (P, 4): kind, two geometries and the place of the first candidate; node (P, 3): both bodies, the
    world in turns, and 0; friction, restitution, margins (P,); shares (P, 2), torsional and rolling; told (2,): how
    many pairs there are, which may be more than there is room for, and how often the world is among the bodies.
    """
    return _BroadPhase().program_of_lists()


class _BroadPhase(WorkSpace):
    def __init__(self) -> None:
        super().__init__()
        self.add(*[Buffer(name, "input", shape) for name, shape in INPUTS.items()])
        self.work(
            pose=("N", POSE),
            where=("G", 8),  # origin, normal, skin, height along gravity
            most=("L",),  # how far the largest ball of a level reaches
            crowd=("L",),
            cell=("L",),  # 1 / width
            widest=(1,),
            row=("B", 6),  # centre and reach of a ball, the number of its cell, and the next one in its bucket
            head=("H",),
            filled=("H",),
            codes=(27,),
            sought=(27,),
            own=(2,),
            cursor=(1,),
            near=(1,),
            now=(2,),
            gap=(1,),
            joined=(1,),
            values=(len(COEFFICIENTS),),
            entry=(1,),
            made=(1,),
            found=("P", 10),  # two geometries, coefficients, height, 1 if nearly touching, its turn
            range=(2,),  # of heights
            digits=("P", 3),
            count=("P",),
            one=("P",),
            two=("P",),
            last=("N",),
            base=(2,),  # where the turns of the pairs in hand begin, and how many pairs have had theirs
            total=(1,),
            slot=(1,),
            turn=(2,),
        )
        self.add(
            Buffer("pairs", "output", ("P", 4), integer=True),
            Buffer("node", "output", ("P", 3), integer=True),
            Buffer("friction", "output", ("P",)),
            Buffer("restitution", "output", ("P",)),
            Buffer("margins", "output", ("P",)),
            Buffer("shares", "output", ("P", 2)),
            Buffer("told", "output", (2,)),
        )

    def program_of_lists(self) -> Program:
        body = (
            self.put(0, self.at("made"), self.at("base"), self.at("slot"), self.at("turn")),
            traced_block(lambda: [[math.inf, -math.inf]], [], [self.at("range")]),
            *self._place_geometries(),
            *self._size_cells(),
            Loop("bucket", "H", (self.put(0, self.at("filled", "bucket"), self.at("head", "bucket")),)),
            Loop(BALL, "B", tuple(self._look_about())),
            Loop("contact", "D", tuple(self._look_at_declared())),
            self._look("pairs made", self.address("made"), "P"),
            *self._sort_heights(),
            *self._take_turns(),
            *self._sort("two", "one", 2),
            *self._results(),
        )
        return self.program("scene_lists", body)

    def _look(self, register: Register, address: Address, below: str) -> Statement:
        return Lookup(register, address, below)

    def _number(self, name: str, row: Register | None, column: int) -> Address:
        """One number of a row of a buffer."""
        return Address(name, ((Index(row),) if row is not None else ()) + (Index(None, column),))

    def _trait(self, name: str, geometry: Register) -> Piece:
        return Piece((), (self._number("geometries", geometry, POSE + TRAITS.index(name)),))

    # ---- where everything is -------------------------------------------------------------------------------------

    def _place_geometries(self) -> list[Statement]:
        def of_body(q: Array, placement: Array) -> list[Any]:
            X = pose_of(placement) @ Pose(quaternion_rotation(*q[3:]), q[:3])
            return [[*X.R.ravel(), *X.p]]

        def of_geometry(
            body: Array, own: Array, thickness: Any, skin: Array, grain: Array, gravity: Array
        ) -> list[Any]:
            X = pose_of(body) @ pose_of(own[:POSE])
            form, wall = own[POSE + TRAITS.index("form")], own[POSE + TRAITS.index("wall")]
            normal = X.R[:, 2]
            along = normal @ grain
            # how far the ellipsoid of the world's skin reaches along the normal
            thick = select(less(0, wall), skin[0] * sqrt(1 + skin[1] * along * along), thickness)
            return [[*X.p, *normal, thick, select(less(BALL_FORM, form), 0, gravity @ X.p)]]

        body = traced_block(of_body, self.each(("q", "placements"), "body"), [self.at("pose", "body")])
        node = self._number("geometries", GEOMETRY, POSE + TRAITS.index("node"))
        reads = [self.at("pose", "carrier"), self.at("geometries", GEOMETRY), self.at("thickness", "carrier")]
        reads += self.each(("world skin", "grain", "gravity"))
        place = traced_block(of_geometry, reads, [self.at("where", GEOMETRY)])
        return [
            Loop("body", "N", (body, self.put(0, self.at("last", "body")))),
            Loop(GEOMETRY, "G", (self._look("carrier", node, "N"), place)),
        ]

    def _of_ball(self, ball: Register, geometry: Register, level: Register | None = None) -> list[Statement]:
        found = [self._look(geometry, self._number("balls", ball, 1), "G")]
        return found if level is None else [*found, self._look(level, self._number("balls", ball, 2), "L")]

    def _size_cells(self) -> list[Statement]:
        def reach(where: Array, radius: Any, margin: Any, most: Any) -> list[Any]:
            own = radius + where[6] + margin / 2
            return [[*where[:3], own, 0, 0], [largest([most, own])]]

        def width(most: Any, widest: Array) -> list[Any]:
            # a small ball with a thick skin may reach farther than larger ones
            far = largest([widest[0], most])
            return [[far], [1 / (CELL * (most + far))]]

        reads = [self.at("where", GEOMETRY), self._trait("radius", GEOMETRY), self.at("margin"), self.at("most", LEVEL)]
        grow = traced_block(reach, reads, [self.at("row", BALL), self.at("most", LEVEL)])
        widths = traced_block(
            width, [self.at("most", LEVEL), self.at("widest")], [self.at("widest"), self.at("cell", LEVEL)]
        )
        return [
            self.put(0, self.at("widest")),
            Loop(LEVEL, "L", (self.put(0, self.at("most", LEVEL), self.at("crowd", LEVEL)),)),
            Loop(BALL, "B", (*self._of_ball(BALL, GEOMETRY, LEVEL), grow)),
            Loop(LEVEL, "L", (widths,)),
        ]

    # ---- pairs that are near -------------------------------------------------------------------------------------

    def _look_about(self) -> list[Statement]:
        """A ball, those that came before it, and all that have no end."""
        compare = (
            self._look(OTHER, self.address("cursor"), "B"),
            self._compare(),
            If(
                self.address("near"),
                (self._name(self._of(BALL, "balls", 1), self._of(OTHER, "balls", 1)), *self._consider()),
            ),
        )
        bucket = (
            self._look("bucket", self.address("sought", "corner"), "H"),
            self._look("in bucket", self.address("filled", "bucket"), "B"),
            traced_block(lambda head: [[head]], [self.at("head", "bucket")], [self.at("cursor")]),
            Loop("turn", Index("in bucket"), compare),
        )
        level = (self._cells(), Loop("corner", 27, bucket))
        unbounded = (
            self._name(self._of(BALL, "balls", 1), self.at("unbounded", "far")),
            *self._both_sides(),
            self._measure(self.at("margin")),
            If(self.address("near"), tuple(self._consider())),
        )
        return [
            *self._of_ball(BALL, GEOMETRY, "own level"),
            Loop(LEVEL, "L", (If(self.address("crowd", LEVEL), level),)),
            *self._insert(),
            Loop("far", "U", unbounded),
        ]

    def _of(self, register: Register, name: str, column: int) -> Piece:
        return Piece((), (self._number(name, register, column),))

    def _cells(self) -> Statement:
        """Numbers and buckets of the 27 cells of a grid that a ball may reach into."""

        def find(row: Array, level: Any, cell: Any, buckets: Array) -> list[Any]:
            sides = [_cells_about(x, cell) for x in row[:3]]
            codes = [_code(x, y, z, level) for x in sides[0] for y in sides[1] for z in sides[2]]
            return [codes, [_bucket(code, buckets) for code in codes]]

        reads = [self.at("row", BALL), *self.each(("levels", "cell"), LEVEL), self.at("buckets")]
        return traced_block(find, reads, self.each(("codes", "sought")))

    def _insert(self) -> list[Statement]:
        """A ball goes into the bucket of the cell that its centre is in."""

        def find(row: Array, level: Any, cell: Any, buckets: Array) -> list[Any]:
            x, y, z = (_cells_about(x, cell)[0] for x in row[:3])
            code = _code(x, y, z, level)
            return [[code, _bucket(code, buckets)]]

        def put(own: Array, head: Any, filled: Any, crowd: Any, number: Any) -> list[Any]:
            return [[own[0], head], [number], [filled + 1], [crowd + 1]]

        reads = [self.at("row", BALL), *self.each(("levels", "cell"), "own level"), self.at("buckets")]
        places = [self.at("head", "bucket"), self.at("filled", "bucket"), self.at("crowd", "own level")]
        chain = Piece((2,), (self._number("row", BALL, 4), self._number("row", BALL, 5)))
        return [
            traced_block(find, reads, [self.at("own")]),
            self._look("bucket", self._number("own", None, 1), "H"),
            traced_block(put, [self.at("own"), *places, self._of(BALL, "balls", 0)], [chain, *places]),
        ]

    def _compare(self) -> Statement:
        """Whether a ball of a bucket is in the cell that was sought, and near; and the next one of the bucket."""

        def look(one: Array, other: Array, code: Any) -> list[Any]:
            d, reach = one[:3] - other[:3], one[3] + other[3]
            # true also where one is NaN: that is told, not left out
            near = select(less(reach * reach, d @ d), -1, 1)
            return [[select(less(code, other[4]), -1, select(less(other[4], code), -1, near))], [other[5]]]

        reads = [self.at("row", BALL), self.at("row", OTHER), self.at("codes", "corner")]
        return traced_block(look, reads, self.each(("near", "cursor")))

    def _name(self, first: Piece, second: Piece) -> Statement:
        """The numbers of two geometries that may be near."""
        return traced_block(lambda a, b: [[a, b]], [first, second], [self.at("now")])

    def _both_sides(self) -> list[Statement]:
        return [self._look(word, self._number("now", None, side), "G") for side, word in enumerate(("first", "second"))]

    def _measure(self, margin: Piece) -> Statement:
        """How far two geometries are apart, at least, and whether that is near with some margin."""

        def measure(*given: Any) -> list[Any]:
            one, other, radius, far_radius, form, far_form, margin = given
            straight = _distance(one, other) - radius - far_radius
            gap = _from_unbounded(
                far_form,
                one,
                radius,
                other,
                far_radius,
                _from_unbounded(form, other, far_radius, one, radius, straight),
            )
            return [[gap], [select(less(one[6] + other[6] + margin, gap), -1, 1)]]

        reads = self.each(("where",), "first") + self.each(("where",), "second")
        reads += [self._trait(word, side) for word in ("radius", "form") for side in ("first", "second")]
        return traced_block(measure, [*reads, margin], self.each(("gap", "near")))

    def _consider(self) -> list[Statement]:
        """Two geometries of groups: those that are near, on two bodies and in one group become a pair."""

        def sort(now: Array, rank: Any, other_rank: Any, node: Any, other_node: Any) -> list[Any]:
            ordered = [select(less(other_rank, rank), b, a) for a, b in zip(now, now[::-1], strict=True)]
            return [ordered, [select(_equal(node, other_node), 0, -1)]]

        def join(one: Any, other: Any, values: Array, joined: Array, known: Array) -> list[Any]:
            # the first group that has both
            takes = both(less(joined[0], 0), less(0, one * other))
            return [[select(takes, 1, joined[0])], [select(takes, a, b) for a, b in zip(values, known, strict=True)]]

        def apart(now: Array, partner: Any, joined: Array, entry: Array) -> list[Any]:
            return [[select(_equal(partner, now[1]), 0, joined[0])], [entry[0] + 1]]

        sides = [self._trait(word, side) for word in ("rank", "node") for side in ("first", "second")]
        shared = [self.at("joined"), self.at("values")]
        groups = [self.at("members", side, "group") for side in ("first", "second")]
        # contacts of their own come before groups
        listed = (
            self._look("listed", self.address("entry"), "E"),
            traced_block(
                apart,
                [self.at("now"), self.at("partners", "listed"), self.at("joined"), self.at("entry")],
                self.each(("joined", "entry")),
            ),
        )
        start = self._trait("first partner", "first")
        return [
            *self._both_sides(),
            traced_block(sort, [self.at("now"), *sides], self.each(("now", "joined"))),
            *self._both_sides(),
            Loop("group", "K", (traced_block(join, [*groups, self.at("groups", "group"), *shared], shared),)),
            traced_block(lambda first: [[first]], [start], [self.at("entry")]),
            self._look("listed ones", self._trait("partners", "first").addresses[0], "G"),
            Loop("partner", Index("listed ones"), listed),
            If(
                self.address("joined"),
                (self._measure(self._of_values(2)), If(self.address("near"), tuple(self._keep()))),
            ),
        ]

    def _of_values(self, column: int) -> Piece:
        return Piece((), (self._number("values", None, column),))

    def _look_at_declared(self) -> list[Statement]:
        row = self.at("declared", "contact")
        take = traced_block(lambda row: [row[:2], row[2:]], [row], self.each(("now", "values")))
        near = If(self.address("near"), tuple(self._keep()))
        return [take, *self._both_sides(), self._measure(self._of_values(2)), near]

    def _keep(self) -> list[Statement]:
        """One pair more; where there is no room, it is counted."""

        def keep(*given: Any) -> list[Any]:
            now, values, gap, nearly, one, other, made, range_ = given
            height = one[7] + other[7]
            touches = select(less(values[2] + nearly, gap[0]), 0, 1)
            least, most = (
                select(less(height, range_[0]), height, range_[0]),
                select(less(range_[1], height), height, range_[1]),
            )
            return [[*now, *values, height, touches, 0], [made[0] + 1], [least, most]]

        reads = [*self.each(("now", "values", "gap", "nearly")), self.at("where", "first"), self.at("where", "second")]
        totals = self.each(("made", "range"))
        return [
            self._look(PAIR, self.address("made"), "P"),
            traced_block(keep, [*reads, *totals], [self.at("found", PAIR), *totals]),
        ]

    # ---- their order ---------------------------------------------------------------------------------------------

    def _sort_heights(self) -> list[Statement]:
        """Numbers of the pairs in ``two``, from the top downwards; by digits, which are all below P."""

        def digits(found: Array, number: Any, range_: Array, base: Any) -> list[Any]:
            span = range_[1] - range_[0]
            share = select(less(0, span), (found[PAIR_HEIGHT] - range_[0]) / select(less(0, span), span, 1), 0)
            whole = _nearest(share * (base * base - 1))
            high = _nearest(whole / base - 0.5)
            return [[largest([whole - high * base, 0]), largest([high, 0]), 0], [number]]

        reads = [self.at("found", PAIR), self.at("room", PAIR), *self.each(("range", "digit base"))]
        block = traced_block(digits, reads, [self.at("digits", PAIR), self.at("two", PAIR)])
        begin = Loop(PAIR, Index("pairs made"), (block,))
        return [begin, *self._sort("two", "one", 0), *self._sort("one", "two", 1)]

    def _sort(self, source: str, target: str, digit: int) -> list[Statement]:
        """Pairs by one of their digits, which is below their number or equal to it; equal ones stay in their order."""
        pair = self._look(PAIR, self.address(source, "k"), "P")
        value = self._look("digit", self._number("digits", PAIR, digit), "P")
        count = self.at("count", "digit")

        def add_up(own: Any, total: Array) -> list[Any]:
            return [[total[0]], [total[0] + own]]

        start = self.at("total")
        place = traced_block(
            lambda number, at: [[number], [at + 1]], [self.at(source, "k"), count], [self.at(target, "at"), count]
        )
        return [
            Loop("digit", "P", (self.put(0, count),)),
            Loop("k", Index("pairs made"), (pair, value, traced_block(lambda n: [[n + 1]], [count], [count]))),
            self.put(0, start),
            Loop("digit", "P", (traced_block(add_up, [count, start], [count, start]),)),
            Loop("k", Index("pairs made"), (pair, value, self._look("at", self.address("count", "digit"), "P"), place)),
        ]

    def _take_turns(self) -> list[Statement]:
        """The last digits: turns of those that nearly touch, in their order, and after all of these the others."""

        def next_turn(*given: Any) -> list[Any]:
            found, last, other, base, moves, other_moves, at_once = given
            touches, k = less(0, found[PAIR_TOUCHES]), base[1]
            begin = select(less(k, base[0] + at_once), base[0], base[0] + at_once)
            turn = largest([last, other, begin]) + 1
            return [
                [select(touches, turn, found[PAIR_TURN])],
                [select(touches, select(less(0, moves), turn, 0), last)],
                [select(touches, select(less(0, other_moves), turn, 0), other)],
                [select(touches, begin, base[0]), select(touches, k + 1, k)],
            ]

        def last_digit(found: Array, base: Array) -> list[Any]:
            return [[select(less(0, found[PAIR_TOUCHES]), found[PAIR_TURN] - 1, base[1])]]

        sides = (
            self._look(PAIR, self.address("two", "k"), "P"),
            *self._sides_of_pair(),
            *[self._look(f"{word} body", self._trait("node", word).addresses[0], "N") for word in ("first", "second")],
        )
        lasts = [self.at("last", f"{word} body") for word in ("first", "second")]
        moves = [self._trait("moves", word) for word in ("first", "second")]
        turns = self._of(PAIR, "found", PAIR_TURN)
        step = traced_block(
            next_turn,
            [self.at("found", PAIR), *lasts, self.at("base"), *moves, self.at("at once")],
            [turns, *lasts, self.at("base")],
        )
        digit = traced_block(last_digit, [self.at("found", PAIR), self.at("base")], [self._of(PAIR, "digits", 2)])
        return [
            self.put(0, self.at("base")),
            Loop("k", Index("pairs made"), (*sides, step)),
            Loop(PAIR, Index("pairs made"), (digit,)),
            traced_block(
                lambda base, worlds: [[0, select(less(0, base[1]), worlds, 1)]],
                self.each(("base", "worlds")),
                [self.at("turn")],
            ),
        ]

    # ---- results -------------------------------------------------------------------------------------------------

    def _results(self) -> list[Statement]:
        def tell(*given: Any) -> list[Any]:
            found, kind, slots, nodes, moves, slot, turn = given
            own = [select(less(0, moving), node, node + turn[0]) for node, moving in zip(nodes, moves, strict=True)]
            after = select(less(turn[0] + 1, turn[1]), turn[0] + 1, 0)
            still = less(0, moves[0] + moves[1] - 1)  # no world among them
            return [
                [kind, *found[:2], slot[0]],
                [*own, 0],
                *[[x] for x in found[2:5]],
                found[5:7],
                [slot[0] + slots],
                [select(still, turn[0], after), turn[1]],
            ]

        sides = ("first", "second")
        classes = [self._look(f"{word} class", self._trait("class", word).addresses[0], "X") for word in sides]
        kind = Address("kinds", (Index("first class"), Index("second class")))
        nodes, moves = (
            Piece((2,), tuple(a for side in sides for a in self._trait(word, side).addresses))
            for word in ("node", "moves")
        )
        reads = [self.at("found", PAIR), Piece((), (kind,)), self.at("slots", "kind"), nodes, moves]
        totals = self.each(("slot", "turn"))
        rows = self.each(("pairs", "node", "friction", "restitution", "margins", "shares"), "k")
        one = (
            self._look(PAIR, self.address("one", "k"), "P"),
            *self._sides_of_pair(),
            *classes,
            self._look("kind", kind, "Y"),
            traced_block(tell, [*reads, *totals], [*rows, *totals]),
        )
        told = traced_block(lambda made, turn: [[made[0], turn[1]]], self.each(("made", "turn")), [self.at("told")])
        return [Loop("k", Index("pairs made"), one), told]

    def _sides_of_pair(self) -> list[Statement]:
        return [
            self._look(word, self._number("found", PAIR, side), "G") for side, word in enumerate(("first", "second"))
        ]


def _nearest(x: Any) -> Any:
    """The nearest whole number."""
    return (x + WHOLE) - WHOLE


def _cells_about(x: Any, cell: Any) -> tuple[Any, Any, Any]:
    """The cell that x is in, along one axis, and its neighbours."""
    own = _nearest(select(less(abs(x * cell), FARTHEST_CELL), x * cell, FARTHEST_CELL))
    return own, own - 1, own + 1


def _code(x: Any, y: Any, z: Any, level: Any) -> Any:
    """A whole number for a cell, another one for each of its neighbours."""
    x, y, z = (c - PERIOD * _nearest(c / PERIOD) for c in (x, y, z))
    return x + PERIOD * (y + PERIOD * (z + PERIOD * level))


def _bucket(code: Any, buckets: Array) -> Any:
    """0 … H − 1, the same wherever it is worked out: an odd H has no ties, and every number here is whole."""
    return code - buckets[0] * _nearest(code * buckets[1]) + (buckets[0] - 1) / 2


def _equal(a: Any, b: Any) -> Any:
    return both(negated(less(a, b)), negated(less(b, a)))


def _distance(one: Array, other: Array) -> Any:
    d = one[:3] - other[:3]
    return sqrt(d @ d)


def _from_unbounded(form: Any, ball: Array, radius: Any, other: Array, hollow: Any, otherwise: Any) -> Any:
    """How far a ball is from a geometry that has no end, at least; otherwise as told."""
    height = (ball[:3] - other[:3]) @ other[3:6] - radius
    inside = hollow - _distance(ball, other) - radius
    far = select(less(form, HALF_SPACE_FORM + 0.5), height, select(less(form, CAVITY_FORM + 0.5), inside, -math.inf))
    return select(less(form, HALF_SPACE_FORM - 0.5), otherwise, far)
