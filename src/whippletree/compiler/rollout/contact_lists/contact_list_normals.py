"""The displacement that moves apart what overlaps, and closes loops: one round of the projection of positions.

With d = M⁻¹ Jₙᵀ π beside the displacement that closes all loops,

    0 ≤ π ⟂ s ≥ 0        s = gap − target + Jₙ d

Sweeps over the normals (:class:`DenseNormals`) do where rows are dense, and where two of them do not, all normals that
push are found together (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_held`). On a long tree
(:class:`RecursiveNormals`), Newton's method on π = max(π − m s, 0): a normal that pushes gets the inertia m / ε, others
none, and every step of it is one articulated recursion. ε only delays what it leaves: s falls by about that factor from
step to step, once it is known which normals push.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Collect, Each, If, Index, Loop, PerLane, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures
from whippletree.compiler.rollout.contact_lists.contact_list_held import HeldNormals
from whippletree.compiler.rollout.contact_lists.contact_list_looped_tree import NODE
from whippletree.compiler.rollout.contact_lists.contact_list_reach import AT_THE_END
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import VELOCITY, RecursiveRows
from whippletree.compiler.rollout.contact_lists.contact_list_results import is_sparse
from whippletree.compiler.rollout.contact_lists.contact_list_rows import DenseRows, NarrowRows
from whippletree.compiler.rollout.contact_lists.contact_list_trees import TreeInStep
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.step_space import BLOCK, STEP, RowPlace, StepSpace, jacobian_rows
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import SENSIBLE_DISPLACEMENT

ROUND_SWEEPS = 50
"""Sweeps over the normals in a round, at most."""

NORMAL_STEPS, NORMAL_SOFTNESS = 60, 1e-6
"""Newton steps in a round at most, and ε. Nearly all rounds take fewer than six; where eighty normals of a snake change
places, twelve left overlaps of 6e-4 m."""

FINE_DISPLACEMENT = 0.1
"""Share of the tolerated overlap that sweeps may still change, or Newton's method leave, when they end."""

GAPS_THAT_COUNT = 1000
"""Times the deepest overlap (or opening of a loop) up to which gaps count in a round: levers lengthen a displacement,
and what they close all the same is looked at in the next round. Of seven contacts of dm_control's humanoid that a step
may close, two are as near as that, and its steps take 0.95 of the time."""

SWEEPS_BEFORE_HELD = 2
"""Sweeps of a round before normals that push are found together. A humanoid that rolls on twelve points made eight
sweeps; with these two it takes 0.93 of the time, with one, after which more sets have to be tried, 0.96."""

NEAR, SWEEP = "near", "position sweep"


class Displacement(Protocol):
    """``away`` (nv,) from ``gap`` and ``target`` of the blocks that are ``nearby``, and the residuals of loops; and
    ``stirred``, by how much it changes one of these gaps at most, m."""

    def statements(self) -> list[Statement]:
        """All of it."""


def _judge(space: StepSpace) -> Statement:
    """Whether the last sweep or step has left little enough."""
    return traced_block(
        lambda slack, tolerance, h: [[select(less(FINE_DISPLACEMENT * h * tolerance, slack[0]), -1, 1)]],
        [*space.each(("slack", "tolerance")), space.at("dt", STEP)],
        [space.at("even")],
    )


class DenseNormals:
    """By sweeps over rows F Jₙᵀ."""

    def __init__(
        self,
        space: StepSpace,
        tree: TreeInStep,
        closures: Closures,
        closing: int,
        jacobian: Sequence[Statement],
        rows: DenseRows,
    ) -> None:
        """``closing``: blocks with a gap; ``jacobian``: statements that find J of the block in hand."""
        self.space, self.tree, self.closures, self.closing, self.jacobian = space, tree, closures, closing, jacobian
        self.rows = rows
        space.work(
            normal=(closing, rows.width),  # F Jₙᵀ, less what loops take of it, and zeros
            ease=(closing,),  # 1 / G of the block itself
            push=(closing,),
            pushed_further=(1,),  # by the last block of a sweep
            uneven=(1,),
            stiffest=(1,),  # largest square of a row
            eased=(1,),  # most that a push has fallen by in a sweep, as a displacement of its gap, m
        )
        rows.reserve("z", "z earlier")
        self.held = (
            None if isinstance(rows, NarrowRows) or closing < 2 else HeldNormals(space, rows.width, FINE_DISPLACEMENT)
        )

    def statements(self) -> list[Statement]:
        """See :class:`Displacement`."""
        sweeps = [*self._leave_far(), *self._normals(), *self.closures.keep_closing("z")] if self.closing else []
        begin = [self.space.put(0, self.space.at("z")), *self.closures.close_coordinates("z")]
        return [*begin, *sweeps, *self.tree.forward("z", "away")]

    def _leave_far(self) -> list[Statement]:
        """What the deepest overlap is nothing to is not near. Of thousands of candidates, only those of close pairs are
        looked at: no other one is near."""

        def look(nearby: Any, gap: Any, target: Any, worst: Array) -> list[Any]:
            return [[select(less(gap - target, GAPS_THAT_COUNT * worst[0]), nearby, -1)]]

        def block(first: int = 0) -> Statement:
            own = [Piece((), (Address(name, (Index(BLOCK, first),)),)) for name in ("nearby", "gap", "target")]
            return traced_block(look, [*own, self.space.at("worst before")], own[:1])

        contacts = self.space.contacts
        if not is_sparse(self.space.blocks):
            return [Loop(BLOCK, self.closing, (block(),), side_by_side=True)]
        rest = Loop(BLOCK, self.closing - contacts, (block(contacts),), side_by_side=True)
        return [Each(BLOCK, AT_THE_END, (block(),)), rest]

    def _normals(self) -> list[Statement]:
        """Sweeps over the normals of what is near, from the displacement z on."""
        at, each, put = self.space.at, self.space.each, self.space.put

        def prepare(row: Array, gap: Any, target: Any, stiffest: Array) -> list[Any]:
            own = multiply_in_strands(row, row)
            some = less(0, own)
            # what nothing can move is no reason to give up the rest: it is to stay where it is
            held = select(less(gap, target), gap, target)
            ease = select(some, 1 / select(some, own, 1), 0)
            return [[ease], [0], [select(some, target, held)], [largest([stiffest[0], own])]]

        def improve(
            row: Array, z: Array, ease: Any, gap: Any, target: Any, push: Any, slack: Array, eased: Array
        ) -> list[Any]:
            after = largest([push - (gap - target + multiply_in_strands(row, z)) * ease, 0])
            d = after - push
            some = less(0, ease)
            moved = d / select(some, ease, 1)
            return [[after], [d], [largest([slack[0], abs(moved)])], [largest([eased[0], -moved])]]

        first = jacobian_rows(None, 0)
        rows = self.rows
        own = RowPlace("normal", (BLOCK,))
        reads, writes = each(("normal", "gap", "target"), BLOCK), each(("ease", "push", "target"), BLOCK)
        mass = traced_block(prepare, [*reads, at("stiffest")], [*writes, at("stiffest")])
        totals = each(("slack", "eased"))
        reads = [at("normal", BLOCK), rows.at("z"), *each(("ease", "gap", "target", "push"), BLOCK), *totals]
        sweep = traced_block(improve, reads, [at("push", BLOCK), at("pushed further"), *totals])
        follow = rows.add_one("z", "pushed further", "normal")
        stir = traced_block(
            lambda row, z, most: [[largest([most[0], abs(multiply_in_strands(row, z))])]],
            [at("normal", BLOCK), rows.at("z"), at("stirred")],
            [at("stirred")],
        )
        sweeps = (put(0, *totals), Each(BLOCK, NEAR, (*rows.enter(), sweep, follow)), _judge(self.space))
        solve = (
            Collect(NEAR, BLOCK, self.closing, self.space.address("nearby", BLOCK)),
            put(-1, at("even")),
            put(0, at("stiffest")),
            Each(
                BLOCK,
                NEAR,
                (
                    *rows.enter(),
                    *self.jacobian,
                    *self.tree.backward(first, rows.raw(own), of_block=True),
                    *self.closures.project(rows.raw(own), while_open=True),
                    *rows.keep(own),
                ),
            ),
            # rows have just been written number by number, and a vector of them would wait for all of it
            Each(BLOCK, NEAR, (mass,)),
            *self._together(sweeps),
            put(0, at("stirred")),
            Each(BLOCK, NEAR, (*rows.enter(), stir)),
        )
        return [PerLane(solve)]

    def _together(self, sweeps: tuple[Statement, ...]) -> list[Statement]:
        """Sweeps, and all that push at once where a few sweeps are not enough."""
        at, address, first = self.space.at, self.space.address, sweeps
        # of 200 runs of a jammed gripper whose fingers are coupled, 13 left a step unsolved that none leaves without
        if not self.closures.count:
            sweeps = (*self.rows.copy("z", "z earlier"), *sweeps, self._give_up())
        rest = Until(SWEEP, ROUND_SWEEPS, address("even"), sweeps)
        if self.held is None:
            return [rest]
        fine = [self.space.at("dt", STEP), at("tolerance")]
        return [
            *self.held.begin(),
            Until(SWEEP, SWEEPS_BEFORE_HELD, address("even"), first),
            traced_block(lambda even: [[-even[0]]], [at("even")], [at("uneven")]),
            If(address("uneven"), (*self.held.statements(NEAR, fine, "even"), rest)),
        ]

    def _give_up(self) -> Statement:
        """No more sweeps where normals push against each other in vain: a sweep in which no push falls, and whose
        pushes together move nothing, is followed by others like it."""

        def judge(
            even: Array, z: Array, before: Array, stiffest: Array, eased: Array, tolerance: Any, h: Any
        ) -> list[Any]:
            way, fine = z - before, FINE_DISPLACEMENT / ROUND_SWEEPS * h * tolerance
            moves = less(fine * fine, multiply_in_strands(way, way) * stiffest[0])
            goes_on = select(moves, 1, select(less(fine, eased[0]), 1, -1))
            return [[select(less(0, even[0]), 1, -goes_on)]]

        at, each = self.space.at, self.space.each
        motions = each(("z", "z earlier"))
        reads = [at("even"), *motions, *each(("stiffest", "eased", "tolerance")), at("dt", STEP)]
        return traced_block(judge, reads, [at("even")])


class RecursiveNormals:
    """By Newton's method and recursions over the tree."""

    def __init__(self, space: StepSpace, rows: RecursiveRows, closing: int) -> None:
        """``closing``: blocks with a gap."""
        self.space, self.rows = space, rows
        space.work(
            ease=(closing,),  # 1 / G of the block itself
            push=(closing,),
            pushing=(closing, 3),
            stiffness=(closing,),
            z=(space.model.nv,),
            uneven=(1,),
        )
        rows.reserve("away")

    def statements(self) -> list[Statement]:
        """See :class:`Displacement`."""
        at, put = self.space.at, self.space.put
        rows = self.rows

        def prepare(B: Array, yielding: Array, gap: Any, target: Any) -> list[Any]:
            own, *across = (row @ yielding @ row for row in B)
            # by how much, to the square, a push turns the body or leads it aside beside what it opens the gap by
            aside = yielding[0, 0] + yielding[1, 1] + yielding[2, 2] + sum(across)
            needed = largest([target - gap, 0]) / SENSIBLE_DISPLACEMENT
            some = less(needed * needed * aside, own)
            return [[select(some, 1 / select(some, own, 1), 0)], [0]]

        mass = traced_block(
            prepare,
            [at("B", BLOCK), self.space.at("yielding", "touched"), *self.space.each(("gap", "target"), BLOCK)],
            self.space.each(("ease", "push"), BLOCK),
        )
        note = traced_block(lambda even: [-even], [at("even")], [at("uneven")])
        step = (*self._weigh(), _judge(self.space), note, If(self.space.address("uneven"), tuple(self._move())))
        solve = (
            *rows.tree.twists("away", "away motion"),
            Collect(NEAR, BLOCK, self.space.contacts, self.space.address("nearby", BLOCK)),
            put(-1, at("even")),
            Each(BLOCK, NEAR, (*rows.own_rows(), mass)),
            Until(SWEEP, NORMAL_STEPS, self.space.address("even"), step),
        )
        begin = [put(0, at("z")), *rows.closures.close_coordinates("z"), put(math.inf, at("stirred"))]
        return [*begin, *rows.tree.forward("z", "away"), PerLane(solve)]

    def _weigh(self) -> list[Statement]:
        """Push and weight of every normal in the next step, and the rest."""
        at, each, rows = self.space.at, self.space.each, self.rows

        def weigh(B: Array, moved: Array, ease: Any, gap: Any, target: Any, push: Any, slack: Array) -> list[Any]:
            s = gap - target + B[0] @ moved
            active = less(0, push - ease * s)
            some = less(0, ease)
            left = select(active, abs(s), abs(push) / select(some, ease, 1))
            part = select(active, -ease * s / NORMAL_SOFTNESS, -push)
            stiffness = select(active, ease / NORMAL_SOFTNESS, 0)
            return [[part, 0, 0], [stiffness], [largest([slack[0], left])]]

        def add(P: Array, B: Array, stiffness: Any) -> list[Any]:
            return [P + np.outer(B[0], stiffness * B[0])]

        reads = [at("B", BLOCK), rows.at("away"), *each(("ease", "gap", "target", "push"), BLOCK), at("slack")]
        find = traced_block(weigh, reads, [*each(("pushing", "stiffness"), BLOCK), at("slack")])
        place = rows.loaded.at("P", "touched")
        heavier = traced_block(add, [place, *each(("B", "stiffness"), BLOCK)], [place])
        return [
            self.space.put(0, at("slack")),
            *rows.clear("right"),
            *rows.identity(),
            Each(BLOCK, NEAR, (*rows.enter(), find, rows.add_to("right", "pushing"), heavier)),
        ]

    def _move(self) -> list[Statement]:
        """The step."""
        at, each, rows = self.space.at, self.space.each, self.rows

        def follow(B: Array, dy: Array, push: Any, pushing: Array, stiffness: Any) -> list[Any]:
            return [[push + pushing[0] - stiffness * (B[0] @ dy)]]

        reads = [at("B", BLOCK), rows.at("dy"), *each(("push", "pushing", "stiffness"), BLOCK)]
        block = traced_block(follow, reads, [at("push", BLOCK)])
        motions = each(("away motion", "dy motion"), NODE)
        numbers = [Piece((), (Address(name, (Index(VELOCITY),)),)) for name in ("away", "loaded v")]
        return [
            *rows.factor(),
            *rows.solve(velocities=True),
            Each(BLOCK, NEAR, (*rows.enter(), block)),
            Loop(NODE, rows.nodes, (traced_block(lambda x, d: [x + d], motions, motions[:1]),)),
            Loop(VELOCITY, rows.nv, (traced_block(lambda x, d: [[x + d]], numbers, numbers[:1]),)),
        ]
