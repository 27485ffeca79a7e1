"""Coordinates at the end of a step inside a kernel: poses, gaps, and a projection that moves apart what overlaps.

Impulses keep gaps from closing along straight lines; bodies that turn leave these by the square of the step. So the
gaps of all candidates are worked out where the velocities have led, and where one of them is negative the nearest
coordinates (in the metric of M) are found at which none is: the frictionless problem

    0 ≤ π ⟂ gap − target + Jₙ M⁻¹ Jₙᵀ π ≥ 0        d = M⁻¹ Jₙᵀ π        q ← q ⊕ d

with fresh normals in every round, as Newton's method has it
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_normals`). Loops are closed in the same rounds: the
displacement that closes them is where a round begins, and rows of contacts have no part along it
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_closures`). The target is 0, or what is left of a deep
overlap, which is undone at no more than ``RELAXATION_SPEED``. Velocities stay as they are: the projection adds no
kinetic energy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import (
    Address,
    Block,
    Collect,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    Statement,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_kinds import narrow_phase
from whippletree.compiler.rollout.contact_lists.contact_list_closures import LOOPS_CLOSED, Closures
from whippletree.compiler.rollout.contact_lists.contact_list_normals import (
    FINE_DISPLACEMENT,
    GAPS_THAT_COUNT,
    NEAR,
    Displacement,
    RecursiveNormals,
)
from whippletree.compiler.rollout.contact_lists.contact_list_reach import AT_THE_END, Reach
from whippletree.compiler.rollout.contact_lists.contact_list_results import is_sparse
from whippletree.compiler.rollout.contact_lists.contact_list_trees import TreeInStep
from whippletree.compiler.rollout.step_space import BLOCK, STEP, StepSpace
from whippletree.contact.problem.cones import both, largest, not_less
from whippletree.contact.time_step import POSITION_PROGRESS, POSITION_ROUNDS, RELAXATION_SPEED, SENSIBLE_DISPLACEMENT
from whippletree.tree.mechanism import Mechanism

ROUNDS_WITH_LOOPS, PROGRESS_WITH_LOOPS = 20, 0.99
"""Rounds, and the share of the worst that each must leave at most, where loops are closed in the same rounds: a link
that turns by 0.03 rad in a step opens its loop while an overlap is undone. With 6 rounds and one half, a belt of 40
links kept overlaps of 2e-5 m; with these, none."""

LARGEST_LEFT = 1e-8
"""m: overlap, or opening of a loop, beyond which a step of a long tree is not solved, and is taken in halves
(:mod:`whippletree.simulation.time_stepping.inertial_gain`), unless it began with as much: where links turn by some
0.1 rad in a step, normals and loops are no longer what they were at its beginning. Told as solved, steps of 8 ms of a
belt of 100 links ended with overlaps of 0.4 m; one of 48 steps of 2 ms of 1000 links with 1e-4 m."""

POSITION_ROUND, NEAR_LIMITS = "position round", "near limits"


class Positions:
    """Statements that find poses and gaps, and move apart what overlaps. Buffers beside its own:

    now q, now v, pose, screw, touch, gap, sign, J   of the state, see
        :mod:`~whippletree.compiler.rollout.contact_lists.contact_list_step`
    dt, tolerance                                    arguments of the program

    ``corrected`` tells the potential energy that the projection has added.
    """

    def __init__(
        self,
        space: StepSpace,
        tree: TreeInStep,
        closures: Closures,
        displacement: Callable[[int], Displacement],
        wider: int = 1,
    ) -> None:
        """``displacement``: of so many blocks with a gap; ``wider``: see :class:`Reach`."""
        self.space, self.tree, self.closures = space, tree, closures
        self.blocks = blocks = space.blocks
        self.contacts = len(blocks.contacts.candidates)
        self.closing = blocks.closing
        """Blocks with a gap."""
        self.moves = bool(self.closing or closures.count)
        """Whether coordinates may have to be moved after a step."""
        k, nv = self.closing, space.model.nv
        space.work(
            target=(k,),
            nearby=(k,),
            away=(nv,),
            energy=(1,),
            slack=(1,),
            worst=(1,),
            worst_before=(1,),
            rounds=(1,),
            apart=(1,),
            unmoved=(1,),  # whether a round is the first that moves something
            together=(1,),
            even=(1,),
            moved_apart=(1,),
            stirred=(1,),
            stirs=(1,),
            corrected=(1,),
            left_over=(1,),  # by the last projection, m
        )
        space.numbers_list(NEAR, k)
        self.displacement = displacement(k)
        self.recursive = isinstance(self.displacement, RecursiveNormals)
        self.clears_behind = is_sparse(blocks) and not self.recursive
        """Whether what is set for few of many candidates is cleared where it was set, not everywhere before."""
        self.leaves_out = "left out" in space.buffers
        """Whether blocks that are no contacts with the world stay where they are, and are only told of."""
        self.limits_beside = space.limits_are_neighbours and not self.leaves_out
        """Whether limits of joints are looked at side by side."""
        if self.limits_beside:
            space.work(now_dt=(1,))
            space.numbers_list(NEAR_LIMITS, len(blocks.limited))
        turns = bool(closures.count) or self.recursive
        self.rounds = ROUNDS_WITH_LOOPS if turns else POSITION_ROUNDS
        self.progress = PROGRESS_WITH_LOOPS if turns else POSITION_PROGRESS
        self.reach = Reach(space, wider)
        self.narrow = narrow_phase(
            blocks.contacts.pairs, space.tree, space.buffers["pose"], space.buffers["touch"], self.reach
        )
        """Statements that find gaps."""
        space.add(*self.narrow.buffers)

    def _look(self) -> list[Statement]:
        """Poses, screws and all gaps of the present coordinates; the deepest overlap, and what is near."""
        at, own = self.space.at, self.of_limit

        def judge(gap: Any, target: Any, h: Any, worst: Array, left_out: Any = int(self.leaves_out)) -> list[Any]:
            """Whether a projection may concern a block: no displacement is longer than its reach."""
            left = gap - target
            near = both(less(left_out, 1), less(left, h * RELAXATION_SPEED))
            return [gap, select(near, 1, -1), [largest([worst[0], -left])]]

        def limited(lower: Any, upper: Any, q: Any, *rest: Any) -> list[Any]:
            below, above = q - lower, upper - q
            nearer = less(above, below)
            return [select(nearer, -1, 1), *judge(select(nearer, above, below), *rest)]

        found: list[Statement] = [
            *self.tree.poses(),
            *(self.tree.twists("now v") if self.reach.used else []),
            *self.reach.look(),
            *self.narrow.look,
            *([self.space.put(0, at("worst"))] if self.moves else []),
            *self.closures.rows(),
            *self.closures.worst(),
        ]
        if self.contacts:
            first = Piece((), (Address("touch", (Index(BLOCK), Index(None, 0))),))
            reads = [first, at("target", BLOCK), at("dt", STEP), at("worst")]
            reads += [at("left out", BLOCK)] if self.leaves_out else []
            writes = [at("gap", BLOCK), at("nearby", BLOCK), at("worst")]
            close = Collect(AT_THE_END, BLOCK, self.contacts, self.space.address("within", BLOCK))
            found += [*([] if self.clears_behind and self.moves else self.reach.forget("nearby")), close]
            if self.reach.used:
                more = self.reach.terms_of_leaving()
                split = len(reads)

                def leave(gap: Any, *given: Any) -> list[Any]:
                    within = self.reach.whether_within(gap, given[1], *given[split - 1 :])
                    return [*judge(gap, *given[: split - 1]), within]

                nodes = [Lookup(name, self.space.address(name, BLOCK)) for name in ("node 0", "node 1")]
                block = traced_block(leave, [*reads, *more], [*writes, at("within", BLOCK)])
                found.append(Each(BLOCK, AT_THE_END, (*nodes, block)))
            else:
                found.append(Each(BLOCK, AT_THE_END, (traced_block(judge, reads, writes),)))
        if self.limits_beside:
            found += self._look_at_limits(lambda *given: limited(*given, [0])[:-1])
        elif self.blocks.limited:
            reads = [at("lower", BLOCK), at("upper", BLOCK), at("now q", "place")]
            reads += [own("target"), at("dt", STEP), at("worst")]
            block = traced_block(limited, reads, [at("sign", BLOCK), own("gap"), own("nearby"), at("worst")])
            place = Lookup("place", Address("place", (Index(BLOCK, self.contacts),)))
            found.append(Loop(BLOCK, len(self.blocks.limited), (place, block)))
        if self.blocks.taut:
            of = self.of_tendon
            reads = [of("gap"), of("target"), at("dt", STEP), at("worst")]
            block = traced_block(judge, reads, [of("gap"), of("nearby"), at("worst")])
            found += [self._stretch(), Loop(BLOCK, len(self.blocks.taut), (block,))]
        return found

    def _look_at_limits(self, limited: Callable[..., list[Any]]) -> list[Statement]:
        """All limits side by side, and those that are near one by one: no other one overlaps."""
        at, own, limits = self.space.at, self.of_limit, self.blocks.limited
        reads = [at("lower", BLOCK), at("upper", BLOCK), self.space.of_neighbour("now q", limits[0].q)]
        writes = [at("sign", BLOCK), own("gap"), own("nearby")]
        look = traced_block(limited, [*reads, own("target"), self.now_dt], writes)
        deepest = traced_block(
            lambda gap, target, worst: [[largest([worst[0], target - gap])]],
            [own("gap"), own("target"), at("worst")],
            [at("worst")],
        )
        return [
            self.note_step(),
            Loop(BLOCK, len(limits), (look,), side_by_side=True),
            Collect(NEAR_LIMITS, BLOCK, len(limits), own("nearby").addresses[0]),
            Each(BLOCK, NEAR_LIMITS, (deepest,)),
        ]

    def note_step(self) -> Statement:
        """The step, s, where rounds side by side find it."""
        return traced_block(lambda h: [h], [self.space.at("dt", STEP)], [self.now_dt])

    @property
    def now_dt(self) -> Piece:
        """The step in hand, s, in work space."""
        return self.space.at("now dt", Index(None, 0))

    def _stretch(self) -> Block:
        """Gaps and rows of the limits of tendons; all tendons are written out, each with its own route."""

        def stretch(q: Array) -> list[Any]:
            gaps, _, rows = self.blocks.tendon_limits(Mechanism(self.space.tree), q)
            return [gaps, rows]

        places = range(self.blocks.first_tendon, self.closing)
        return traced_block(
            stretch, [self.space.at("now q")], [self.space.some("gap", places), self.space.at("tendon row")]
        )

    def of_limit(self, name: str) -> Piece:
        """Part of a buffer of all blocks for the joint limit in hand."""
        return self._from(self.contacts, name)

    def of_tendon(self, name: str) -> Piece:
        """Part of a buffer of all blocks for the limit of a tendon in hand."""
        return self._from(self.blocks.first_tendon, name)

    def _from(self, first: int, name: str) -> Piece:
        """Part of a buffer of all blocks for the block in hand, which are counted from the first of their kind."""
        shape = tuple(int(n) for n in self.space.buffers[name].shape[1:])
        rest = list(np.ndindex(*shape))
        places = [Address(name, (Index(BLOCK, first), *[Index(None, i) for i in index])) for index in rest]
        return Piece(shape, tuple(places))

    def begin(self) -> list[Statement]:
        """A start that the first look takes as it is."""
        at, put = self.space.at, self.space.put
        if not self.moves:
            return [put(0, at("corrected"))]
        return [
            put(self.rounds, at("rounds")),
            put(0, at("left over")),
            *self.no_targets(),
            *(self.reach.forget("nearby") if self.clears_behind else []),
            *self.reach.begin(),
            *self.narrow.begin,
        ]

    def no_targets(self) -> list[Statement]:
        """Targets of whatever will not be looked at: far pairs do not overlap."""
        at, put = self.space.at, self.space.put
        return [Loop(BLOCK, self.closing, (put(0, at("target", BLOCK)),), side_by_side=True)] if self.closing else []

    def aim(self) -> list[Statement]:
        """A new step, whose targets (:func:`target_of`) are known."""
        names = ("rounds", "corrected") if self.moves else ("corrected",)
        return [self.space.put(0, *self.space.each(names))]

    def settle(self) -> list[Statement]:
        """Poses and gaps where the coordinates are, and the whole projection, if it has an aim."""
        at, each, put = self.space.at, self.space.each, self.space.put
        if not self.moves:
            return self._look()
        body: tuple[Statement, ...] = (
            *self._look(),
            self._decide(),
            If(self.space.address("apart"), tuple(self._correct())),
        )
        if self.contacts and self.clears_behind:
            body = (*body, Each(BLOCK, AT_THE_END, (put(-1, at("nearby", BLOCK)),)))
        end = traced_block(
            lambda energy, corrected: [[corrected[0] + energy[0]]], each(("energy", "corrected")), [at("corrected")]
        )
        return [
            put(-1, *each(("together", "moved apart"))),
            # a scene in which nothing overlaps any more finds the same again
            Until(POSITION_ROUND, self.rounds + 1, self.space.address("together"), body, "run along"),
            If(self.space.address("moved apart"), (*self.tree.energy(placed=True), end)),
            *([self._tell_rest()] if self.recursive else []),
        ]

    def _tell_rest(self) -> Block:
        """``residual``: at least the velocity at which a step would have to undo what the projection has left."""

        def tell(residual: Array, left: Array, before: Array, h: Any) -> list[Any]:
            impulse, velocity, cone = residual
            more = both(less(LARGEST_LEFT, left[0]), less(before[0], left[0]))
            return [[impulse, select(more, largest([velocity, left[0] / h]), velocity), cone], left]

        at, each = self.space.at, self.space.each
        reads = [*each(("residual", "worst before", "left over")), at("dt", STEP)]
        return traced_block(tell, reads, each(("residual", "left over")))

    def _decide(self) -> Block:
        """Whether something overlaps by more than what is tolerated, a round is left, and the last one has helped."""

        def decide(worst: Array, before: Array, rounds: Array, h: Any, tolerance: Any, *gone: Array) -> list[Any]:
            deepest = largest([worst[0], *[residual[0] for residual in gone]])
            excess = largest([worst[0] - h * tolerance, *[residual[0] - LOOPS_CLOSED for residual in gone]])
            again = both(less(0, excess), less(rounds[0], self.rounds))
            helped = select(less(rounds[0], 1), 1, self.progress * before[0] - deepest)
            apart = select(both(again, not_less(helped, 0)), 1, -1)
            return [[apart], [-apart], [deepest], [select(less(rounds[0], 1), apart, -1)]]

        at, each = self.space.at, self.space.each
        reads = [*each(("worst", "worst before", "rounds")), at("dt", STEP), at("tolerance")]
        reads += [at("gone")] if self.closures.count else []
        return traced_block(decide, reads, each(("apart", "together", "worst before", "unmoved")))

    def _correct(self) -> list[Statement]:
        """One round: loops, normals, sweeps, displacement."""
        at, each = self.space.at, self.space.each
        note = traced_block(lambda energy: [[-energy[0]]], [at("energy")], [at("corrected")])
        move = traced_block(
            lambda q, v, d, rounds: [*Mechanism(self.space.tree).manifold().straight(q, v, d), [rounds[0] + 1], [1]],
            each(("now q", "now v", "away", "rounds")),
            each(("now q", "now v", "rounds", "moved apart")),
        )
        first = If(self.space.address("unmoved"), (*self.tree.energy(placed=True), note))
        if not self.closing:
            return [*self.displacement.statements(), first, move]
        return [*self.displacement.statements(), self._weigh(), If(self.space.address("stirs"), (first, move))]

    def _weigh(self) -> Block:
        """Whether a displacement is worth another look: what overlaps and is held where it is stays as it is, unless
        loops have to be closed. So does what no sensible displacement moves apart: one that changes a gap by more than
        counts, or goes too far, was found by dividing by next to nothing."""

        def weigh(stirred: Array, worst: Array, away: Array, h: Any, tolerance: Any, *gone: Array) -> list[Any]:
            stirs = select(less(stirred[0], FINE_DISPLACEMENT * h * tolerance), -1, 1)
            if not self.recursive:
                stirs = select(less(GAPS_THAT_COUNT * worst[0], stirred[0]), -1, stirs)
            if gone:
                stirs = select(less(LOOPS_CLOSED, gone[0][0]), 1, stirs)
            if not self.recursive:
                stirs = select(not_less(SENSIBLE_DISPLACEMENT, largest([abs(d) for d in away])), stirs, -1)
            return [[stirs], [-stirs]]

        at, each = self.space.at, self.space.each
        reads = [*each(("stirred", "worst before", "away")), at("dt", STEP), at("tolerance")]
        reads += [at("gone")] if self.closures.count else []
        return traced_block(weigh, reads, each(("stirs", "together")))


def target_of(gap: Any, h: Any) -> Any:
    """The gap that the end of a step is to have at least: 0, or what is left of a deep overlap."""
    return -largest([-gap - h * RELAXATION_SPEED, 0])
