"""Impulses of a scene's contacts follow their points where the candidates of a pair change places.

A candidate keeps its slot while the edge or corner that it belongs to stays the same. Where edges of two boxes lie on
each other, as in every wall, a turn by 1e-8 decides which of the two a corner of the overlap belongs to, and which face
is the reference: the point stays where it is and has another slot. The impulse that it carried is the start of the next
solution; left behind in the old slot, it is lost. A wall of 328 bricks lost two of five impulses in every step, began
with a residual of 1 m/s instead of 1e-4 m/s, and crept.

So where a slot that presses has jumped, each impulse of its pair goes on, as a force in the world, to the candidate in
use that is nearest to where it acted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, If, Index, Lookup, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.problem.cones import both

JUMP = 1e-3
"""How far a slot goes in a step before its pair is looked at, as a share of its distance from the nearer shape's
origin: less would be no other corner. Where it is more because the bodies are fast, impulses keep their slots."""

FROM, TO, PLACE = "slot", "next slot", "place"


class SlotImpulses:
    """Statements for pairs whose candidates can change places. Buffers of the step: touch, impulse.

    ``known``: 0 where the slots of the last step are not those of ``touch``, at the beginning of a call.
    """

    def __init__(self, space: WorkSpace, most: int) -> None:
        """``most``: slots of a pair."""
        self.space, self.most = space, most
        space.work(
            known=(1,),
            jumped=(1,),
            left_at=(most, 3),  # where the slots of the pair were
            left_force=(most, 3),  # their impulses in the axes of the world
            left_press=(most,),
            nearest=(1,),  # square of the distance of the candidate that is
            handed_on=(1,),
        )

    def left_by_narrow_phase(self, slots: int) -> list[Piece]:
        """Where the narrow phase of a pair leaves what :meth:`leave` returns."""
        numbers = [Index(None, slot) for slot in range(slots)]
        kept = [self.space.at(name, number) for number in numbers for name in ("left at", "left force")]
        return [*kept, *(self.space.at("left press", number) for number in numbers), self.space.at("jumped")]

    @staticmethod
    def leave(before: Sequence[Array], impulses: Sequence[Array], after: Sequence[Array], *rest: Any) -> list[Any]:
        """Points, forces and normal impulses of the slots of a pair, and whether one that presses has jumped.

        Args:
            before: numbers of its candidates (13,) in the last step.
            after: those of this one.
            rest: whether the former are known, (1,), and the origins of both shapes.
        """
        known, *origins = rest
        kept, jumped = [], -1
        for old, p, new in zip(before, impulses, after, strict=True):
            kept += [old[1:4], old[4:].reshape(3, 3).T @ p]
            way, arms = new[1:4] - old[1:4], [old[1:4] - origin for origin in origins]
            squares = [arm @ arm for arm in arms]
            size = select(less(squares[0], squares[1]), squares[0], squares[1])
            stays = both(less(way @ way, JUMP * JUMP * size), less(new[0], NOWHERE / 2))
            jumped = select(less(0, p[0]), select(stays, jumped, known[0]), jumped)
        return [*kept, *([p[0]] for p in impulses), [jumped]]

    def hand_on(self, pair: Register, head: int, slots: int) -> Statement:
        """After the narrow phase of a pair: its impulses go to the candidates that are nearest to where they acted.

        Args:
            pair: register of the pair.
            head: numbers of a pair before the places of its candidates.
        """
        at, put = self.space.at, self.space.put

        def place(slot: Register) -> Statement:
            return Lookup(PLACE, Address("pairs", (Index(pair), Index(slot, head))), "C")

        def away(touch: Array, point: Array) -> Any:
            way = touch[1:4] - point
            return select(less(touch[0], NOWHERE / 2), way @ way, math.inf)

        def look(touch: Array, point: Array, nearest: Array) -> list[Any]:
            square = away(touch, point)
            return [[select(less(square, nearest[0]), square, nearest[0])]]

        def give(touch: Array, point: Array, force: Array, p: Array, nearest: Array, handed: Array) -> list[Any]:
            # the first of those that are equally near
            square = away(touch, point)
            takes = both(less(square, math.inf), both(less(handed[0], 1), less(square, nearest[0] * (1 + 1e-15))))
            share = touch[4:].reshape(3, 3) @ force
            return [[select(takes, a + b, a) for a, b in zip(p, share)], [select(takes, 1, handed[0])]]

        touch, point, force = at("touch", PLACE), at("left at", FROM), at("left force", FROM)
        search = traced_block(look, [touch, point, at("nearest")], [at("nearest")])
        taken = [at("impulse", PLACE), at("handed on")]
        reads = [touch, point, force, taken[0], at("nearest"), taken[1]]
        one = (
            put(math.inf, at("nearest")),
            put(0, at("handed on")),
            Loop(TO, slots, (place(TO), search)),
            Loop(TO, slots, (place(TO), traced_block(give, reads, taken))),
        )
        clear = Loop(FROM, slots, (place(FROM), put(0, at("impulse", PLACE))))
        each = Loop(FROM, slots, (If(self.space.address("left press", FROM), one),))
        return If(self.space.address("jumped"), (clear, each))
