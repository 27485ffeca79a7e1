"""Results of a compiled step: where its scene is, what touched, what that did, and whether the scene goes on.

A scene stops after a step that left more than the caller's patience, or whose numbers are not finite: the row of that
step has what came out, and later rows are NaN.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Buffer, Dimension, Each, Index, Loop, PerLane, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_motors import forces_of_motors
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, STEP, StepSpace
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import ContactBlocks

FEWEST_SPARSE = 1000
"""Blocks from which on a step writes the impulses of those in its list alone, and the rest begins as zeros. A copy of
all takes 1 ns a block and step; to begin with zeros, some 5 µs a call."""


PRESSING = "pressing"


def is_sparse(blocks: ContactBlocks) -> bool:
    """Whether a step writes impulses of blocks in its list alone, and tells which these were."""
    return blocks.count >= FEWEST_SPARSE


class StepResults:
    """Writes the results of a step, from the buffers in which its parts left them."""

    def __init__(self, space: StepSpace, steps: tuple[Dimension, ...]) -> None:
        """``steps``: the dimension that all results have before their own, if there is one."""
        self.space = space
        self.sparse = is_sparse(space.blocks)
        """Whether impulses are zeros where nobody writes."""
        self.outputs = [
            Buffer(name, "output", (*steps, *shape), zeroed=self.sparse and name == "impulses")
            for name, shape in self._shapes().items()
        ]
        self.tells_pressing = self.sparse and not space.single
        """Whether there is a result beside those of each step: which blocks were in a list in any of them, 0 or 1."""
        space.add(*self.outputs)
        if self.tells_pressing:
            space.add(Buffer(PRESSING, "output", (space.blocks.count,), zeroed=True))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Reports on a step, and their shapes."""
        space = self.space
        nq, nv, k = space.model.nq, space.model.nv, space.blocks.count
        found: dict[str, tuple[int, ...]] = {"q": (nq,), "v": (nv,), "impulses": (k, 3), "measure": (3,)}
        if not space.single:
            found |= dict.fromkeys(("work", "friction_work", "correction_work", "sweeps", "newton_steps"), ())
        return found | ({"force": (nv,)} if space.tells_forces else {})

    def statements(self) -> list[Statement]:
        """The end of a step as results, and whether its scene goes on."""

        def judge(q: Array, v: Array, residual: Array, left: Array) -> list[Any]:
            return [q, v, [residual[0], largest([residual[1], left[0]]), residual[2]]]

        def account(q: Array, v: Array, measure: Array, patience: Any, *rest: Any) -> list[Any]:
            works, corrected, made, newtons = rest
            # NaN is not within any bound
            good: Any = 1
            for x in (*q, *v):
                good = select(less(abs(x), math.inf), good, -1)
            alive = select(less(patience, measure[1]), -1, good)
            return [[alive], [-alive], [works[0]], [works[1]], [corrected[0]], [made[0]], [newtons[0]]]

        space = self.space
        state = space.each(("now q", "now v"))
        found = [
            traced_block(judge, [*state, *space.each(("residual", "left"))], space.each(("q", "v", "measure"), STEP))
        ]
        if not space.single:
            reads = [
                *state,
                space.at("measure", STEP),
                *space.each(("patience", "works", "corrected", "made", "newtons")),
            ]
            names = ("work", "friction_work", "correction_work", "sweeps", "newton_steps")
            found.append(traced_block(account, reads, [*space.each(("alive", "lost")), *space.each(names, STEP)]))
        copies = self._copies_beside_list() if self.sparse else space.each_block(self._copy())
        return [PerLane((*found, *copies, *([forces_of_motors(space)] if space.tells_forces else [])))]

    def of_list(self) -> list[Statement]:
        """Impulses of the blocks in the list as results, where others are known to have none."""
        return [Each(BLOCK, ACTIVE, self._copy_and_note())] if self.sparse else []

    def _copies_beside_list(self) -> list[Statement]:
        """Impulses of servos with a force range, which have one also while they are not at its end."""
        blocks = self.space.blocks
        return [Loop(BLOCK, len(blocks.servos), self._copy_and_note(blocks.passive))] if blocks.servos else []

    def _copy_and_note(self, first: int = 0) -> tuple[Statement, ...]:
        """:meth:`_copy`, where nobody looks at blocks that were in no list."""
        if not self.tells_pressing:
            return (self._copy(first),)
        return self._copy(first), self.space.put(1, self.space.at(PRESSING, Index(BLOCK, first)))

    def _copy(self, first: int = 0) -> Statement:
        """The impulse of the block in hand as a result; ``first``: the block from which on they are counted."""
        at, own = self.space.at, Index(BLOCK, first)
        return traced_block(lambda p: [p], [at("impulse", own)], [at("impulses", STEP, own)])

    def nothing(self) -> list[Statement]:
        """A row of a scene that has stopped; the one in which it did has what came out."""
        space = self.space
        rows = [space.at(b.name, STEP) for b in self.outputs if b.name != "impulses"]
        impulses = space.put(math.nan, space.at("impulses", STEP, BLOCK))
        return [space.put(math.nan, *rows), *space.each_block(impulses)]
