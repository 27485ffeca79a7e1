"""Actuators of a mechanism among the bodies of a scene: commands, forces, and servos at an end of their range.

They are those of a robot by itself (:mod:`whippletree.contact.servos`), found by the same blocks of its tree
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_motors`): motors push with what commands say, servos
belong to the inertia of the tree, also where they couple joints, and those with a force range do while they are within
it. So a step is solved with the servos that the step before has left at an end of their range as rows
(:mod:`~whippletree.compiler.rollout.scenes.scene_ties`). Then forces are looked at, at the velocity that came out:
where one is beyond its range, or a row within it, the tree is factored anew and the step solved again
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_ranges`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Buffer, If, Index, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_motors import forces_of_motors
from whippletree.compiler.rollout.contact_lists.contact_list_ranges import RANGE, RANGE_ROUNDS, ServoRanges
from whippletree.compiler.rollout.step_space import STEP

if TYPE_CHECKING:
    from whippletree.compiler.rollout.scenes.scene_joints import SceneJoints
    from whippletree.compiler.rollout.scenes.scene_trees import SceneTrees

COMMANDS = "commands"
"""The input of commands, (steps, actuators)."""


class SceneMotors:
    """Statements about the actuators of a mechanism; buffers are those of its tree."""

    def __init__(self, trees: SceneTrees) -> None:
        self.trees, self.own = trees, trees.own
        self.ranges = ServoRanges(self.own)
        self.count = len(self.own.model.actuators) if self.own.actuators.acting else 0
        nv, blocks = self.own.model.nv, self.own.blocks
        self.own.work(force=(nv,))
        if self.count:
            self.own.work(ctrl=(self.count,))
        if self.own.actuators.coupling:
            self.own.work(coupling=(len(self.own.actuators.coupling), nv))
        if blocks.servos:
            self.own.work(servo_row=(len(blocks.servos), nv), impulse=(blocks.count, 3))
            self.own.work(soft=(blocks.count,), offset=(blocks.count,))
            self.own.table("cap", blocks.cap(1))
            self.ranges.reserve()
        if self.ranges.count:
            trees.space.work(unranged=(1,))

    def arguments(self) -> list[Buffer]:
        """Inputs of the kernel."""
        return [Buffer(COMMANDS, "input", ("T", self.count))] if self.count else []

    @property
    def saturated(self) -> Callable[[str], Address] | None:
        """Where it is said, at a register, whether a servo with a range is a row; None where all are."""
        return (lambda register: Address("tree saturated", (Index(register),))) if self.ranges.count else None

    def impulse(self, register: str) -> Piece:
        """The impulse of a servo with a range beside the middle of that, N s or N m s."""
        return Piece((), (Address("tree impulse", (Index(register, self.own.blocks.passive), Index(None, 1))),))

    def begin_step(self) -> list[Statement]:
        """The length and the commands of a step, and which servos are taken to be at an end of their range. A look at
        the gaps, which has no length, keeps those of the step before."""

        def begin(h: Any, before: Any, *both: Array) -> list[Any]:
            lasts = less(0, h)
            commands = [[select(lasts, new, old) for new, old in zip(*both, strict=True)]] if both else []
            return [[select(lasts, h, before)], *commands]

        at, own = self.trees.space.at, self.trees.at
        commands = [at(COMMANDS, STEP), own("ctrl")] if self.count else []
        start = traced_block(begin, [at("dt", STEP), own("dt"), *commands], [own("dt"), *commands[1:]])
        return [start, *(self.trees.in_scene([self.ranges.guess()]) if self.ranges.count else [])]

    def around(
        self, solve: Sequence[Statement], joints: SceneJoints, again: Sequence[Statement]
    ) -> tuple[Statement, ...]:
        """The solution of a step, again and again until all servos are what they were taken for.

        ``again``: what has to be done before another one.
        """
        if not self.own.blocks.servos:
            return tuple(solve)
        trees, space = self.trees, self.trees.space
        look = [*trees.response("y", "end v", "free"), *joints.ties.keep_impulses()]
        if not self.ranges.count:
            return (*solve, *look)
        look += trees.in_scene([self.ranges.look()])
        told = traced_block(lambda whole: [-whole], [trees.at("in range")], [space.at("unranged")])
        repeat = If(space.address("unranged"), (*trees.factor(), *again))
        ends = Address("tree in range", (Index(None, 0),))
        return space.put(-1, space.at("unranged")), Until(RANGE, RANGE_ROUNDS, ends, (repeat, *solve, *look, told))

    def forces(self) -> list[Statement]:
        """``force``: joint forces over the step, at the velocity of its end."""
        return self.trees.in_scene([forces_of_motors(self.own)])
