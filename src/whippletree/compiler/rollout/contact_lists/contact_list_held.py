"""Normals that push while overlaps are undone, found together: a small linear system instead of many sweeps.

The projection of positions asks for the least z (metric of M) with

    0 ≤ π ⟂ s ≥ 0        s = gap − target + N z        z = z₀ + Nᵀ π

Sweeps over the rows of N creep where bodies share what they rest on, and each row waits for the one before. They soon
tell which normals push. With these held, N Nᵀ π = −(gap − target + N z₀) is a system of their number; those that would
pull are let go, those that would overlap are held, until the set stays as it is. Where it does not, as where normals
depend on each other, sweeps go on from z₀.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Block, Collect, Each, If, Index, Lookup, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.dense_solve import COLUMN, add_row, multiply_in_strands
from whippletree.compiler.rollout.step_space import BLOCK

MOST_SEATS = 15
"""Normals that are near up to which those that push are found together: with the right-hand side, a row of their system
fills two vectors of eight."""

MOST_SETS = 5
"""Sets of normals that are tried. A humanoid that rolls on twelve points tries two on average after a single sweep."""

SEAT, OTHER, SEATS, HELD, SET = "seat", "other seat", "seats taken", "normals held", "set of normals"


class HeldNormals:
    """Statements that find a displacement ``z`` from the rows ``normal`` of blocks in a list. Its buffers:

    z begin       z₀
    seats         how many blocks there are; each has a seat, a number for what follows
    seat normal   their rows
    lack          target − gap, and less what z₀ brings of it
    holds now, holds next   1 for a normal that pushes, else 0: in the set in hand, and in the next one
    products      N Nᵀ
    system        that of the normals that are held; its last column is the right-hand side, and π in the end
    pivot row     of the normal that is eliminated, divided by its diagonal
    changed       how many normals the next set has or has not beside this one, or miss their targets
    """

    def __init__(self, space: WorkSpace, width: int, fineness: float = 1) -> None:
        """``width``: of a row, and of ``z``; ``fineness``: factor of what normals may miss their targets by."""
        self.space, self.width, self.fineness = space, width, fineness
        room = MOST_SEATS + 1
        space.work(
            seats=(1,),
            few=(1,),
            unseated=(1,),
            seat_normal=(MOST_SEATS, width),
            lack=(MOST_SEATS, 2),
            holds_now=(room,),
            holds_next=(room,),
            products=(MOST_SEATS, room),
            system=(MOST_SEATS, room),
            pivot_row=(room,),
            seat_ease=(1,),
            seat_share=(1,),
            changed=(1,),
            z_begin=(width,),
        )
        space.table("unit", np.eye(MOST_SEATS))
        space.numbers_list(HELD, MOST_SEATS)

    def begin(self) -> list[Statement]:
        """Before anything pushes."""
        return [traced_block(lambda z: [z], [self.space.at("z")], [self.space.at("z begin")])]

    def statements(self, near: str, fine: list[Piece], done: str) -> list[Statement]:
        """The displacement, from ``push`` of the blocks in the list ``near``; or back to the beginning.

        Args:
            fine: numbers whose product, times the fineness, is what normals may miss their targets by, m.
            done: a buffer that is positive afterwards if the displacement has been found.
        """
        at, put, address = self.space.at, self.space.put, self.space.address
        count = traced_block(lambda n: [[select(less(MOST_SEATS, n[0]), -1, 1)]], [at("seats")], [at("few")])
        tries = Until(SET, MOST_SETS, address(done), (*self._solve(), *self._judge(fine, done)))
        found = (Lookup(SEATS, address("seats"), below=MOST_SEATS + 1), self._multiply(), tries)
        release = (
            traced_block(lambda z: [z], [at("z begin")], [at("z")]),
            Each(BLOCK, near, (put(0, at("push", BLOCK)),)),
        )
        return [
            put(0, *self.space.each(("seats", "holds next"))),
            Each(BLOCK, near, tuple(self._seat())),
            count,
            If(address("few"), found),
            traced_block(lambda done: [[-done[0]]], [at(done)], [at("unseated")]),
            If(address("unseated"), release),
        ]

    def _seat(self) -> list[Statement]:
        """A seat for the block in hand."""

        def enter(row: Array, gap: Any, target: Any, push: Any, z: Array, seats: Array) -> list[Any]:
            lack = target - gap
            own = [lack, lack - multiply_in_strands(row, z)]
            return [row, own, [select(less(0, push), 1, 0)], [seats[0] + 1]]

        at, each = self.space.at, self.space.each
        reads = [*each(("normal", "gap", "target", "push"), BLOCK), *each(("z begin", "seats"))]
        writes = [*each(("seat normal", "lack", "holds next"), SEAT), at("seats")]
        return [Lookup(SEAT, self.space.address("seats"), below=MOST_SEATS), traced_block(enter, reads, writes)]

    def _multiply(self) -> Statement:
        """N Nᵀ."""

        def multiply(a: Array, b: Array) -> list[Any]:
            product = multiply_in_strands(a, b)
            return [[product], [product]]

        rows = [self.space.at("seat normal", register) for register in (SEAT, OTHER)]
        places = [self._one("products", *pair) for pair in ((SEAT, OTHER), (OTHER, SEAT))]
        clear = self._along(self.space.put(0, self._one("products", SEAT, COLUMN)))
        inner = Loop(OTHER, Index(SEAT, 1), (traced_block(multiply, rows, places),))
        return Loop(SEAT, Index(SEATS), (clear, inner))

    def _solve(self) -> list[Statement]:
        """π of the normals that are held, by elimination of each from all rows, and z."""
        at, one = self.space.at, self._one

        def scale(entry: Any, ease: Array) -> list[Any]:
            return [[entry * ease[0]]]

        def share(entry: Any, unit: Any) -> list[Any]:
            return [[entry - unit]]

        def take(entry: Any, pivot: Any, share: Array) -> list[Any]:
            return [[entry - share[0] * pivot]]

        right = one("system", SEAT, Index(None, MOST_SEATS))
        own, other, pivot = one("system", SEAT, COLUMN), one("system", OTHER, COLUMN), one("pivot row", COLUMN)
        fill = (
            self._along(traced_block(lambda x: [[x]], [one("products", SEAT, COLUMN)], [own])),
            traced_block(lambda lack: [[lack[1]]], [at("lack", SEAT)], [right]),
        )
        # of the pivot's own row, its diagonal less 1: what is left of it is the scaled row
        row = (
            traced_block(share, [one("system", OTHER, SEAT), one("unit", OTHER, SEAT)], [at("seat share")]),
            self._along(traced_block(take, [other, pivot, at("seat share")], [other])),
        )
        eliminate = (
            traced_block(lambda x: [[1 / x]], [one("system", SEAT, SEAT)], [at("seat ease")]),
            self._along(traced_block(scale, [own, at("seat ease")], [pivot])),
            Each(OTHER, HELD, row),
        )
        return [
            traced_block(lambda *numbers: list(numbers), [at("holds next"), at("z begin")], [at("holds now"), at("z")]),
            Collect(HELD, SEAT, MOST_SEATS, self.space.address("holds now", SEAT)),
            Each(SEAT, HELD, fill),
            Each(SEAT, HELD, eliminate),
            Each(SEAT, HELD, (add_row("z", right, Address("seat normal", (Index(SEAT),)), self.width),)),
        ]

    def _judge(self, fine: list[Piece], done: str) -> list[Statement]:
        """The next set of normals, and whether it is the same."""
        at, one = self.space.at, self._one

        def judge(row: Array, z: Array, lack: Array, push: Any, own: Any, changed: Array, *fine: Any) -> list[Any]:
            least: Any = self.fineness
            for x in fine:
                least = least * x
            slack = multiply_in_strands(row, z) - lack[0]
            holding = less(0, own)
            miss = select(holding, abs(slack), -slack)
            held = select(holding, select(less(0, push), 1, 0), select(less(slack, -least), 1, 0))
            # NaN is wrong as well
            wrong = select(less(miss, least), abs(held - own), 1)
            return [[held], [changed[0] + wrong]]

        reads = [
            at("seat normal", SEAT),
            at("z"),
            at("lack", SEAT),
            one("system", SEAT, Index(None, MOST_SEATS)),
            one("holds now", SEAT),
        ]
        block = traced_block(judge, [*reads, at("changed"), *fine], [one("holds next", SEAT), at("changed")])
        decide = traced_block(lambda x: [[select(less(0, x[0]), -1, 1)]], [at("changed")], [at(done)])
        return [self.space.put(0, at("changed")), Loop(SEAT, Index(SEATS), (block,)), decide]

    def _along(self, block: Block) -> Statement:
        """A block for every column of a row."""
        return Loop(COLUMN, MOST_SEATS + 1, (block,), side_by_side=True)

    def _one(self, name: str, *places: str | Index) -> Piece:
        indices = [place if isinstance(place, Index) else Index(place) for place in places]
        return Piece((), (Address(name, tuple(indices)),))
