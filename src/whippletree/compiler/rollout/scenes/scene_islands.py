"""Islands of the contacts of a scene, inside its kernel: contacts that act on each other through bodies that move.

What one island does is nothing to another. So each is solved by itself as far as it needs, and one that is solved is
left alone while others go on: of a heap of a hundred boxes that settle, most lie still in threes and fours long before
the last that tumble.

The bodies of a contact take the smaller of their labels, from pass to pass over the list there and back, until none
changes: passes cost next to nothing, and few are needed. A tree of a mechanism counts as one body, in the row of its
first.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import BODY, FIRST, SECOND, SceneContacts
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, TREE_NODE, TREE_ROW
from whippletree.contact.problem.cones import both, largest

OWN_ISLAND, ONE_END, OTHER_END = "own island", "one end", "other end"
"""Registers: the label of a contact's island, and what moves at either end: a body, or a tree in the row of a body."""

LABEL_PASSES = 10_000


class SceneIslands:
    """Statements about them. Buffers: ``number`` of each body, ``flag`` of contacts in the list.

    end body, end moves  of a contact: what is at either end, and whether that moves (1 or −1)
    island of            label of a contact's island, a number of a body
    island residual      squared, of an island
    """

    def __init__(self, contacts: SceneContacts, swept: SceneContacts) -> None:
        """``swept``: the lists of contacts and bodies that sweeps go over, by ``swept flag`` and ``swept body``."""
        self.space, self.contacts = contacts.space, contacts
        self.space.work(
            end_body=("C", 2),
            end_moves=("C", 2),
            island=("N",),
            island_of=("C",),
            island_residual=("N",),
            labelled=(1,),
            unlabelled=(1,),
            agreed=(1,),
            best_residual=("N",),  # squared, that an island had at any look
            best_impulse=("C", 3),
            is_best=("N",),  # whether an island has it now
            best_contact=("C",),
        )
        if contacts.trees:
            nodes, tree = contacts.trees.nodes, contacts.trees.first_nodes
            self.space.index("first node of tree", [*tree, 0])
            self.space.table("on some tree", [1.0] * nodes + [-1.0])
        self.unsettled = swept

    # ---- labels --------------------------------------------------------------------------------------------------

    def _own(self, name: str, *registers: Any) -> Piece:
        return Piece((), (Address(name, tuple(r if isinstance(r, Index) else Index(r) for r in registers)),))

    def end_registers(self) -> list[Statement]:
        """Registers of what is at both ends of the contact in hand."""
        return [
            Lookup(name, Address("end body", (Index(CONTACT), Index(None, side))), "N")
            for side, name in enumerate((ONE_END, OTHER_END))
        ]

    def island_register(self) -> Statement:
        """The register of the island of the contact in hand."""
        return Lookup(OWN_ISLAND, self.space.address("island of", CONTACT), "N")

    def find(self) -> list[Statement]:
        """Labels of the contacts of the list and of their bodies."""
        at, put = self.space.at, self.space.put

        def agree(one: Any, other: Any, moves: Array, agreed: Array) -> list[Any]:
            a, b = (select(less(0, m), x, math.inf) for m, x in zip(moves, (one, other), strict=True))
            low, high = select(less(b, a), b, a), select(less(b, a), a, b)
            differ = both(less(low, high), less(high, math.inf))
            new = [select(less(0, m), low, x) for m, x in zip(moves, (one, other), strict=True)]
            return [*[[x] for x in new], [select(less(low, math.inf), low, one)], [select(differ, -1, agreed[0])]]

        ends = [self._own("island", ONE_END), self._own("island", OTHER_END)]
        block = traced_block(
            agree,
            [*ends, at("end moves", CONTACT), at("agreed")],
            [*ends, self._own("island of", CONTACT), at("agreed")],
        )
        own = traced_block(lambda k: [[k]], [self._own("number", BODY)], [self._own("island", BODY)])
        once = tuple(Each(CONTACT, self.contacts.active, (*self.end_registers(), block), way) for way in (False, True))
        return [
            Loop(BODY, "N", (own,)),
            self.contacts.each(*self._ends()),
            put(-1, at("agreed")),
            Until("label pass", LABEL_PASSES, self.space.address("agreed"), (put(1, at("agreed")), *once)),
        ]

    def _ends(self) -> list[Statement]:
        """What is at both ends of the contact in hand."""
        masses = self.contacts.masses()
        at = self.space.at

        def find(one: Any, other: Any, m: Any, k: Any) -> list[Any]:
            return [[one, other], [select(less(0, x), 1, -1) for x in (m, k)]]

        own = traced_block(
            find,
            [self._own("number", FIRST), self._own("number", SECOND), *masses],
            [at("end body", CONTACT), at("end moves", CONTACT)],
        )
        trees = self.contacts.trees
        if trees is None:
            return [own]
        sides: list[Statement] = []
        for side in range(2):
            put = traced_block(
                lambda there, row, end, moves: [[select(less(0, there), row, end)], [select(less(0, there), 1, moves)]],
                [self._own("on some tree", "its node"), self._own("number", TREE_ROW)]
                + [self._own(name, CONTACT, Index(None, side)) for name in ("end body", "end moves")],
                [self._own(name, CONTACT, Index(None, side)) for name in ("end body", "end moves")],
            )
            sides += [
                *trees.node_of_side(side),
                Lookup("first of tree", Address("first node of tree", (Index("its node"),))),
                Lookup(TREE_ROW, Address("row of node", (Index("first of tree"),)), "N"),
                put,
            ]
        return [own, trees.if_touched(*sides)]

    # ---- what is left --------------------------------------------------------------------------------------------

    def close_settled(self) -> list[Statement]:
        """Islands whose residual is within the ``goal`` are settled: they carry no momentum when they are met again."""
        at, put, contacts = self.space.at, self.space.put, self.contacts

        def judge(residual: Any, goal: Array) -> list[Any]:
            return [
                [select(less(goal[0] * goal[0], residual), 1, -1)],
                [select(less(goal[0] * goal[0], residual), -1, 1)],
            ]

        opened = traced_block(
            judge,
            [self._own("island residual", OWN_ISLAND), at("goal")],
            [self._own("swept flag", CONTACT), at("agreed")],
        )
        restless = put(1, self._own("swept body", FIRST), self._own("swept body", SECOND))
        impulse, *past = contacts.of_contact("impulse", "impulse start", "impulse before")
        stop = [traced_block(lambda p: [p, p], [impulse], past)]
        for body in (FIRST, SECOND):
            now, *then = (contacts.of_body(name, body) for name in ("vel", "vel start", "vel before"))
            stop.append(traced_block(lambda V: [V, V], [now], then))
        return [
            Loop(BODY, "N", (put(-1, self._own("swept body", BODY)),)),
            contacts.each(
                self.island_register(),
                opened,
                If(self.space.address("swept flag", CONTACT), (restless,)),
                If(self.space.address("agreed"), tuple(stop)),
            ),
        ]

    def residual(self) -> Piece:
        """The squared residual of the island of the contact in hand."""
        return self._own("island residual", OWN_ISLAND)

    def begin_residuals(self) -> list[Statement]:
        """Residuals before contacts are looked at. Rows of joints, whose own are in ``residual``, count in the islands
        of all trees: while anything is left of them, these are not settled."""
        trees, joints = self.contacts.trees, self.contacts.joints
        clear = Loop(BODY, "N", (self.space.put(0, self._own("island residual", BODY)),))
        if trees is None or joints is None or not joints.count:
            return [clear]
        own = self._own("island residual", OWN_ISLAND)
        worse = traced_block(
            lambda residual, worst: [[largest([residual[1], worst])]], [self.space.at("residual"), own], [own]
        )
        registers = (
            Lookup(TREE_ROW, Address("row of node", (Index(TREE_NODE),)), "N"),
            Lookup(OWN_ISLAND, self.space.address("island", TREE_ROW), "N"),
        )
        return [clear, Loop(TREE_NODE, trees.nodes, (*registers, worse))]

    # ---- the best that was found ---------------------------------------------------------------------------------

    def forget_best(self) -> Statement:
        """Nothing was found yet."""
        return Loop(BODY, "N", (self.space.put(math.inf, self._own("best residual", BODY)),))

    def _each_of_best(self, copy: Statement) -> Statement:
        """A copy for the contacts of islands that have, or lack, their best."""
        flag = traced_block(lambda x: [[x]], [self._own("is best", OWN_ISLAND)], [self._own("best contact", CONTACT)])
        chosen = If(self.space.address("best contact", CONTACT), (copy,))
        return Each(CONTACT, self.contacts.active, (self.island_register(), flag, chosen))

    def keep_best(self) -> list[Statement]:
        """After a look: impulses of islands that are better than ever."""

        def compare(residual: Any, best: Any) -> list[Any]:
            better = less(residual, best)
            return [[select(better, residual, best)], [select(better, 1, -1)]]

        residual, best, flag = (self._own(x, BODY) for x in ("island residual", "best residual", "is best"))
        impulse, kept = self.contacts.of_contact("impulse", "best impulse")
        return [
            Loop(BODY, "N", (traced_block(compare, [residual, best], [best, flag]),)),
            self._each_of_best(traced_block(lambda p: [p], [impulse], [kept])),
        ]

    def take_best(self) -> list[Statement]:
        """Impulses of islands as they were at their best; velocities are to follow."""
        residual, best, flag = (self._own(x, BODY) for x in ("island residual", "best residual", "is best"))
        worse = traced_block(lambda now, best: [[select(less(best, now), 1, -1)]], [residual, best], [flag])
        impulse, kept = self.contacts.of_contact("impulse", "best impulse")
        return [
            Loop(BODY, "N", (worse,)),
            self._each_of_best(traced_block(lambda p: [p], [kept], [impulse])),
        ]
