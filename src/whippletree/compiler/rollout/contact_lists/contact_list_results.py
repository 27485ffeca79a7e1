"""Results of a compiled step: where its scene is, what touched, what that did, and whether the scene goes on.

A scene stops after a step that left more than the caller's patience, or whose numbers are not finite: the row of that
step has what came out, and later rows are NaN.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Block, Buffer, Dimension, Index, PerLane, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.step_space import BLOCK, STEP, StepSpace
from whippletree.contact.problem.cones import largest


class StepResults:
    """Writes the results of a step, from the buffers in which its parts left them."""

    def __init__(self, space: StepSpace, steps: tuple[Dimension, ...]) -> None:
        """``steps``: the dimension that all results have before their own, if there is one."""
        self.space = space
        self.outputs = [Buffer(name, "output", (*steps, *shape)) for name, shape in self._shapes().items()]
        space.add(*self.outputs)

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
        copy = traced_block(lambda p: [p], [space.at("impulse", BLOCK)], [space.at("impulses", STEP, BLOCK)])
        copies = space.each_block(copy)
        return [PerLane((*found, *copies, *([self._forces()] if space.tells_forces else [])))]

    def _forces(self) -> Block:
        """Joint forces of motors over the step: servos at the velocity of its end, within their ranges."""
        space = self.space
        servos = range(space.blocks.passive, space.blocks.count)
        coupling = space.actuators.coupling

        def add(drive: Array, v: Array, *rest: Any) -> list[Any]:
            held, rest = (rest[0], rest[1:]) if space.driven.held else (None, rest)
            rows, (h, *bounded) = (rest[0], rest[1:]) if coupling else ((), rest)
            tau = drive - space.actuators.damping(h) * v if space.actuators.acting else drive
            tau = tau if held is None else tau - space.held_dampers(held) * v
            for row, servo in zip(rows, coupling, strict=True):
                tau = tau - row * (servo.gain(h) * (row @ v))
            for row, p in zip(*bounded, strict=True) if servos else ():
                tau = tau + row * (p / h)
            return [tau]

        more = [*(["held"] if space.driven.held else []), *(["coupling"] if coupling else [])]
        reads = [*space.each(("drive", "end v", *more)), space.at("dt", STEP)]
        if servos:
            places = [Address("impulse", (Index(None, i), Index(None, 1))) for i in servos]
            reads += [space.at("servo row"), Piece((len(places),), tuple(places))]
        return traced_block(add, reads, [space.at("force", STEP)])

    def nothing(self) -> list[Statement]:
        """A row of a scene that has stopped; the one in which it did has what came out."""
        space = self.space
        rows = [space.at(b.name, STEP) for b in self.outputs if b.name != "impulses"]
        impulses = space.put(math.nan, space.at("impulses", STEP, BLOCK))
        return [space.put(math.nan, *rows), *space.each_block(impulses)]
