"""Linear systems on the graph of the bodies that touch, inside the kernel of a scene: elimination body by body.

A matrix with a block for each body and two for each pair of bodies that press on each other, A_xy and A_yx, is factored
without exchanges, L U, in an order that is found as it goes: a body with few neighbours comes first. What lies on the
ground is nearly a forest, whose bodies have one neighbour left when their turn comes, so that a heap of a hundred boxes
has 125 blocks beside its diagonal, of which 97 are pairs that touch. Where a body has many neighbours, as deep inside a
pile of balls, or blocks take more than the ``edge room`` of the call, there is no answer, and ``solvable``
says so.

Pairs are *edges*, one from either body to the other, chained up by body.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, negated, select
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Loop, Register, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.dense_solve import inverse_matrix
from whippletree.compiler.rollout.scenes.scene_contacts import BODY
from whippletree.contact.problem.cones import both

SIZE_OF_BODY = 6
"""Velocities of a body."""

MOST_NEIGHBOURS = 12
"""Neighbours of a body, when its turn comes, beyond which the graph is not eliminated."""

FILL_OF_CONTACT = 3.0
"""Blocks that an elimination may change, for each contact that couples two bodies, beyond which it does not pay: sweeps
cost what there are contacts. Boxes in a heap need 0.6, a wall of a hundred bricks 2.2; with a hundred balls in a narrow
box, which need 6, steps that settle took twice as long as by sweeps alone."""

EDGE, BACK, TARGET = "edge", "edge back", "target"
PLACE_OF_BODY, TURN_BODY, ENTRY = "place in order", "body in turn", "entry"
"""Registers: an edge, the one the other way round, the body that it leads to; a place in the order of elimination, the
body there, and one of the edges that it has then."""


class BodyElimination:
    """Statements on A, in ``own part`` (N, 6, 6) and ``coupling`` (E, 6, 6), and on the right side and solution in
    ``aside of body`` (N, 6).

    ``in graph`` (N,): 1 for bodies that have unknowns, else −1. ``solvable``: 1, or −1 where there is no order.
    """

    def __init__(self, space: WorkSpace) -> None:
        self.space = space
        n = SIZE_OF_BODY
        space.work(
            number=("N",),  # of each body, its own
            counted=(1,),
            room=(1,),  # edges for which there is room
            own_part=("N", n, n),
            aside_of_body=("N", n),
            in_graph=("N",),
            solvable=(1,),
            # the graph
            head=("N",),  # the first edge of a body, or −1
            degree=("N",),
            waits=("N",),  # 1 for bodies whose turn has not come
            edge_target=("E",),
            edge_next=("E",),
            edge_back=("E",),
            coupling=("E", n, n),
            edges=(1,),
            coupled_contacts=(1,),
            cursor=(1,),
            walked=(1,),  # whether the last edge of a body has been looked at
            sought=(1,),
            absent=(1,),
            # the order
            order=("N",),
            first_entry=("N",),
            entry_count=("N",),
            entry_edge=("E",),
            fill_edge=("E",),  # the edges between any two neighbours of a body in turn, one after the other
            placed=(1,),
            entries=(1,),
            fills=(1,),
            begun=(1,),
            near_ones=(1,),
            threshold=(1,),
            progress=(1,),
            eligible=(1,),
            ordered=(1,),
            first_cursor=(1,),
            second_cursor=(1,),
        )

    # ---- numbers -------------------------------------------------------------------------------------------------

    def begin_call(self) -> list[Statement]:
        """Numbers of the bodies, and how much room there is."""
        at = self.space.at
        count = traced_block(lambda k: [[k[0]], [k[0] + 1]], [at("counted")], [at("number", BODY), at("counted")])
        more = traced_block(lambda k: [[k[0] + 1]], [at("room")], [at("room")])
        return [
            self.space.put(0, at("counted"), at("room")),
            Loop(BODY, "N", (count,)),
            Loop(EDGE, "E", (more,)),
        ]

    def _advance(self, name: str, by: float = 1) -> Statement:
        return traced_block(lambda x: [[x[0] + by]], [self.space.at(name)], [self.space.at(name)])

    def _copy(self, source: Piece, target: Piece) -> Statement:
        return traced_block(lambda x: [x], [source], [target])

    def _number(self, name: str, *registers: Register) -> Piece:
        """One number of a buffer, as a scalar."""
        return Piece((), (self.space.address(name, *registers),))

    def _follow(self, name: str, register: Register = EDGE) -> list[Statement]:
        """The edge whose number is in a buffer, and the body that it leads to."""
        return [
            Lookup(register, self.space.address(name), "E"),
            Lookup(TARGET, self.space.address("edge target", register), "N"),
        ]

    # ---- the graph -----------------------------------------------------------------------------------------------

    def clear(self, bodies: str) -> list[Statement]:
        """A graph of some bodies without edges."""
        at, put = self.space.at, self.space.put
        body = (
            put(-1, at("head", BODY)),
            put(0, at("degree", BODY)),
            traced_block(lambda x: [[x]], [at("in graph", BODY)], [at("waits", BODY)]),
        )
        return [put(0, at("edges"), at("coupled contacts")), put(1, at("solvable")), Each(BODY, bodies, body)]

    def count_contact(self) -> Statement:
        """One more contact that couples two bodies."""
        return self._advance("coupled contacts")

    def join(self, one: Register, two: Register) -> list[Statement]:
        """The edge from one body to another in ``sought``, made if there is none; −1 where there is no room."""
        at, address, number = self.space.at, self.space.address, self._number

        def compare(target: Any, wanted: Any, edge: Array, following: Any) -> list[Any]:
            same = both(negated(less(target, wanted)), negated(less(wanted, target)))
            end = select(less(following, 0), 1, -1)
            return [[select(same, edge[0], -1)], [following], [select(same, 1, end)]]

        look = (
            *self._follow("cursor"),
            traced_block(
                compare,
                [number("edge target", EDGE), number("number", two), at("cursor"), number("edge next", EDGE)],
                [at("sought"), at("cursor"), at("walked")],
            ),
        )
        begin = traced_block(
            lambda head: [[head], [select(less(head, 0), 1, -1)], [-1]],
            [number("head", one)],
            [at("cursor"), at("walked"), at("sought")],
        )

        def is_missing(sought: Array, edges: Array, room: Array, solvable: Array) -> list[Any]:
            new = less(sought[0], 0)
            fits = less(edges[0] + 2, room[0])
            lacks = both(new, negated(fits))
            return [[select(both(new, fits), 1, -1)], [select(lacks, -1, solvable[0])]]

        missing = traced_block(
            is_missing, [*self.space.each(("sought", "edges", "room", "solvable"))], [at("absent"), at("solvable")]
        )
        return [
            begin,
            Until("edge looked at", 1_000_000, address("walked"), look),
            missing,
            If(address("absent"), tuple(self._make_edges(one, two))),
        ]

    def edge_between(self, number: Address) -> list[Statement]:
        """Registers of the edge of that number, and of the one back."""
        return [Lookup(EDGE, number, "E"), Lookup(BACK, self.space.address("edge back", EDGE), "E")]

    def _make_edges(self, one: Register, two: Register) -> list[Statement]:
        at, put, number = self.space.at, self.space.put, self._number

        def first(edges: Array, head: Any, degree: Any, to: Any) -> list[Any]:
            return [[to], [head], [edges[0] + 1], [edges[0]], [degree + 1], [edges[0]]]

        def second(edges: Array, head: Any, degree: Any, to: Any) -> list[Any]:
            return [[to], [head], [edges[0]], [edges[0] + 1], [degree + 1], [edges[0] + 2], [edges[0] + 1]]

        def writes(register: Register, body: Register) -> list[Piece]:
            names = ("edge target", "edge next", "edge back")
            return [*[number(name, register) for name in names], number("head", body), number("degree", body)]

        def reads(body: Register, other: Register) -> list[Piece]:
            return [at("edges"), number("head", body), number("degree", body), number("number", other)]

        return [
            Lookup(EDGE, self.space.address("edges"), "E"),
            traced_block(first, reads(one, two), [*writes(EDGE, one), at("sought")]),
            traced_block(lambda k: [[k[0] + 1]], [at("edges")], [at("cursor")]),
            Lookup(BACK, self.space.address("cursor"), "E"),
            traced_block(second, reads(two, one), [*writes(BACK, two), at("edges"), at("cursor")]),
            put(0, at("coupling", EDGE), at("coupling", BACK)),
        ]

    # ---- the order -----------------------------------------------------------------------------------------------

    def find_order(self, bodies: str) -> list[Statement]:
        """The order of elimination, and the edges that come with it."""
        at, put, address = self.space.at, self.space.put, self.space.address

        def ask(waits: Any, degree: Any, threshold: Array) -> list[Any]:
            return [[select(less(threshold[0], degree), -1, waits)]]

        def judge(progress: Array, threshold: Array, solvable: Array) -> list[Any]:
            moved, high = less(0, progress[0]), less(MOST_NEIGHBOURS, threshold[0] + 1)
            over = select(moved, select(less(solvable[0], 0), 1, -1), select(high, 1, -1))
            return [[select(moved, threshold[0], threshold[0] + 1)], [over], [0]]

        ready = traced_block(
            ask, [self._number("waits", BODY), self._number("degree", BODY), at("threshold")], [at("eligible")]
        )
        turn = (ready, If(address("eligible"), tuple(self._take_turn())))
        end = traced_block(
            judge,
            self.space.each(("progress", "threshold", "solvable")),
            [at("threshold"), at("ordered"), at("progress")],
        )
        left = traced_block(
            lambda waits, solvable: [[select(less(0, waits), -1, solvable[0])]],
            [self._number("waits", BODY), at("solvable")],
            [at("solvable")],
        )
        return [
            put(0, *self.space.each(("placed", "entries", "fills", "threshold", "progress"))),
            put(-1, at("ordered")),
            Until("pass over bodies", 1000, address("ordered"), (Each(BODY, bodies, turn), end)),
            Each(BODY, bodies, (left,)),
        ]

    def _take_turn(self) -> list[Statement]:
        """The body in hand comes next: its edges to those that wait, and edges between any two of these."""
        at, address, number = self.space.at, self.space.address, self._number
        place = Lookup(PLACE_OF_BODY, address("placed"), "N")

        def begin(number: Any, entries: Array, head: Any) -> list[Any]:
            return [[number], [entries[0]], [entries[0]], [0], [head], [select(less(head, 0), 1, -1)], [-1]]

        start = traced_block(
            begin,
            [number("number", BODY), at("entries"), number("head", BODY)],
            [
                *[number(name, PLACE_OF_BODY) for name in ("order", "first entry")],
                *self.space.each(("begun", "near ones", "cursor", "walked")),
                number("waits", BODY),
            ],
        )

        def enter(waits: Any, edge: Array, entries: Array, near: Array, degree: Any, following: Any) -> list[Any]:
            takes = select(less(0, waits), 1, 0)
            return [
                [edge[0]],
                [entries[0] + takes],
                [near[0] + takes],
                [degree - takes],
                [following],
                [select(less(following, 0), 1, -1)],
            ]

        # an entry that is not taken is written over by the next
        walk = (
            *self._follow("cursor"),
            Lookup(ENTRY, address("entries"), "E"),
            traced_block(
                enter,
                [
                    number("waits", TARGET),
                    *self.space.each(("cursor", "entries", "near ones")),
                    number("degree", TARGET),
                    number("edge next", EDGE),
                ],
                [
                    number("entry edge", ENTRY),
                    *self.space.each(("entries", "near ones")),
                    number("degree", TARGET),
                    *self.space.each(("cursor", "walked")),
                ],
            ),
        )
        keep = traced_block(
            lambda near: [[near[0]], [1]], [at("near ones")], [number("entry count", PLACE_OF_BODY), at("progress")]
        )
        return [
            place,
            start,
            Until("edge walked", 1_000_000, address("walked"), walk),
            keep,
            self._advance("placed"),
            *self._join_neighbours(),
        ]

    def _pairs_of_neighbours(self, first: tuple[Statement, ...], pair: tuple[Statement, ...]) -> list[Statement]:
        """Statements for each edge of the body in turn, and for each pair of these; ``begun``: its first entry."""
        at, address = self.space.at, self.space.address

        def edge(cursor: str, register: Register, body: Register) -> tuple[Statement, ...]:
            return (
                Lookup(ENTRY, address(cursor), "E"),
                Lookup(register, address("entry edge", ENTRY), "E"),
                Lookup(body, address("edge target", register), "N"),
            )

        start = [self._copy(at("begun"), at(name)) for name in ("first cursor", "second cursor")]
        inner = Loop(
            "second neighbour",
            Index("first neighbour"),
            (*edge("second cursor", "second edge", "second target"), *pair, self._advance("second cursor")),
        )
        return [
            start[0],
            Lookup("neighbours", address("near ones"), "N"),
            Loop(
                "first neighbour",
                Index("neighbours"),
                (
                    *edge("first cursor", "first edge", "first target"),
                    *first,
                    start[1],
                    inner,
                    self._advance("first cursor"),
                ),
            ),
        ]

    def _join_neighbours(self) -> list[Statement]:
        at, address = self.space.at, self.space.address
        keep = traced_block(lambda edge: [[edge[0]]], [at("sought")], [self._number("fill edge", "fill")])

        def fits(fills: Array, room: Array, contacts: Array, solvable: Array) -> list[Any]:
            pays = both(less(fills[0] + 1, room[0]), less(fills[0], FILL_OF_CONTACT * contacts[0]))
            return [[select(pays, solvable[0], -1)]]

        given = self.space.each(("fills", "room", "coupled contacts", "solvable"))
        check = traced_block(fits, given, [at("solvable")])
        pair = (
            *self.join("first target", "second target"),
            Lookup("fill", address("fills"), "E"),
            keep,
            check,
            self._advance("fills"),
        )
        # without an order nothing is looked at again, but every address exists
        return self._pairs_of_neighbours((), pair)

    # ---- factors -------------------------------------------------------------------------------------------------

    def factor(self) -> list[Statement]:
        """A := its factors: D⁻¹ of every body in ``own part``, L and U in ``coupling``."""
        at, put = self.space.at, self.space.put
        own = at("own part", TURN_BODY)
        invert = traced_block(lambda D: [inverse_matrix(D)], [own], [own])

        def share(A: Array, inverse: Array) -> list[Any]:
            return [A @ inverse]

        back = Lookup("first back", self.space.address("edge back", "first edge"), "E")
        column = at("coupling", "first back")
        shares = traced_block(share, [column, own], [column])
        less_own = at("own part", "first target")
        take = traced_block(lambda D, L, U: [D - L @ U], [less_own, column, at("coupling", "first edge")], [less_own])
        between = (
            Lookup("second back", self.space.address("edge back", "second edge"), "E"),
            Lookup("fill", self.space.address("fills"), "E"),
            Lookup(EDGE, self.space.address("fill edge", "fill"), "E"),
            Lookup(BACK, self.space.address("edge back", EDGE), "E"),
            *[
                traced_block(
                    lambda A, L, U: [A - L @ U],
                    [at("coupling", into), at("coupling", left), at("coupling", right)],
                    [at("coupling", into)],
                )
                for into, left, right in ((EDGE, "first back", "second edge"), (BACK, "second back", "first edge"))
            ],
            self._advance("fills"),
        )
        turn = (*self._in_turn(), invert, *self._pairs_of_neighbours((back, shares, take), between))
        return [put(0, at("fills")), self._bodies_ordered(), Loop(PLACE_OF_BODY, Index("bodies ordered"), turn)]

    def _bodies_ordered(self) -> Statement:
        return Lookup("bodies ordered", self.space.address("placed"), "N")

    def _in_turn(self) -> list[Statement]:
        """The body at a place of the order, and where its edges begin."""
        at, number = self.space.at, self._number
        return [
            Lookup(TURN_BODY, self.space.address("order", PLACE_OF_BODY), "N"),
            traced_block(
                lambda first, count: [[first], [first], [count]],
                [number("first entry", PLACE_OF_BODY), number("entry count", PLACE_OF_BODY)],
                [at("begun"), at("first cursor"), at("near ones")],
            ),
            Lookup("neighbours", self.space.address("near ones"), "N"),
        ]

    def solve(self) -> list[Statement]:
        """``aside of body`` := A⁻¹ times it, by the factors."""
        at = self.space.at
        own, other = at("aside of body", TURN_BODY), at("aside of body", TARGET)
        entry = (
            Lookup(ENTRY, self.space.address("first cursor"), "E"),
            Lookup(EDGE, self.space.address("entry edge", ENTRY), "E"),
            Lookup(BACK, self.space.address("edge back", EDGE), "E"),
            Lookup(TARGET, self.space.address("edge target", EDGE), "N"),
        )
        down = traced_block(lambda y, L, x: [y - L @ x], [other, at("coupling", BACK), own], [other])
        up = traced_block(lambda x, U, y: [x - U @ y], [own, at("coupling", EDGE), other], [own])
        scale = traced_block(lambda D, x: [D @ x], [at("own part", TURN_BODY), own], [own])

        def edges(block: Statement) -> Statement:
            return Loop("first neighbour", Index("neighbours"), (*entry, block, self._advance("first cursor")))

        return [
            self._bodies_ordered(),
            Loop(PLACE_OF_BODY, Index("bodies ordered"), (*self._in_turn(), edges(down))),
            Loop(PLACE_OF_BODY, Index("bodies ordered"), (*self._in_turn(), edges(up), scale), backwards=True),
        ]
