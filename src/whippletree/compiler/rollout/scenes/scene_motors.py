"""Actuators of a mechanism among the bodies of a scene: commands, forces, and servos at an end of their range.

They are those of a robot by itself (:mod:`whippletree.contact.servos`), found by the same blocks of its tree
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_motors`): motors push with what commands say, servos
belong to the inertia of the tree, also where they couple joints, and those with a force range do while they are within
it. So a step is solved with the servos that the step before has left at an end of their range *pinned* there. Then
forces are looked at, at the velocity that came out: where one is beyond its range, or would be within it if it was not
pinned, the tree is factored anew and the step solved again, until nothing changes. This is Newton's method for the
forces as functions of the velocity; where it does not end, servos at an end of their range become rows
(:mod:`~whippletree.compiler.rollout.scenes.scene_ties`) as they are of a robot by itself
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_ranges`). Sweeps would have to find what stiff rows
share: a Panda arm with five servos at an end of their range took 600 sweeps in the air.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Buffer, If, Index, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_motors import forces_of_motors
from whippletree.compiler.rollout.contact_lists.contact_list_ranges import RANGE, ServoRanges, within_reach
from whippletree.compiler.rollout.step_space import STEP
from whippletree.contact.problem.cones import largest
from whippletree.contact.servos import AT_AN_END

if TYPE_CHECKING:
    from whippletree.compiler.rollout.scenes.scene_joints import SceneJoints
    from whippletree.compiler.rollout.scenes.scene_trees import SceneTrees

COMMANDS = "commands"
"""The input of commands, (steps, actuators)."""

PINNED_ROUNDS, ROW_ROUNDS = 6, 4
"""Times that a step is solved with servos pinned at an end of their range, and then with rows in their place."""


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
            trees.space.work(unranged=(1,), pinned_rounds=(1,))
            releasable = self.own.actuators.releasable
            trees.space.table("releasable", [float(i in releasable) for i in range(self.ranges.count)])

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

    def pinned(self, register: str) -> list[Piece]:
        """Two numbers that are positive where a servo with a range is pinned at an end of it; none where none is."""
        if not self.ranges.count:
            return []
        rounds = Piece((), (Address("pinned rounds", (Index(None, 0),)),))
        return [rounds, self.trees.space.at("releasable", register)]

    def begin_call(self) -> list[Statement]:
        """No commands, and no servo that is pinned, until a step has some."""
        own = [self.trees.at("ctrl")] if self.count else []
        own += [self.trees.space.at("pinned rounds")] if self.ranges.count else []
        return [self.trees.space.put(0, *own)] if own else []

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
        told = traced_block(
            lambda whole, left: [-whole, left - 1],
            [trees.at("in range"), space.at("pinned rounds")],
            space.each(("unranged", "pinned rounds")),
        )
        repeat = If(space.address("unranged"), (*trees.factor(), *again))
        ends = Address("tree in range", (Index(None, 0),))
        return (
            space.put(-1, space.at("unranged")),
            space.put(PINNED_ROUNDS, space.at("pinned rounds")),
            Until(RANGE, PINNED_ROUNDS + ROW_ROUNDS, ends, (repeat, *solve, *look, self._look(), told)),
        )

    def _look(self) -> Statement:
        """Servos whose force is beyond their range at the velocity that came out go to its end; those at an end, and
        with a force within it, are released. Of those that were released, the impulse is that of their force."""
        actuators, servos, own = self.own.actuators, self.own.blocks.servos, self.own

        def look(v: Array, saturated: Array, soft: Array, offset: Array, cap: Array, p: Array, *rest: Any) -> list[Any]:
            h, tolerance, left, (pinned,) = rest
            flags, impulses, worst, whole = list(saturated), list(p), left[0], 1
            for i in actuators.releasable:
                place, gear = actuators.driven_joint(servos[i])
                released, reach = less(flags[i], 0), h * cap[i]
                force = (offset[i] - gear * v[place]) / soft[i]
                over = (abs(force) - reach) * soft[i]
                # how far the force of one at an end is within the range
                under = (reach - select(less(p[i], 0), -force, force)) * soft[i]
                rests = select(less(abs(p[i]), (1 - AT_AN_END) * reach), math.inf, 0)
                missed = select(released, over, select(less(0, pinned), under, rests))
                worst = largest([worst, select(less(missed, math.inf), missed, 0)])
                changes = less(tolerance, missed)
                impulses[i] = select(released, within_reach(force, reach), p[i])
                flags[i] = select(changes, -flags[i], flags[i])
                whole = select(changes, -1, whole)
            return [flags, impulses, [worst], [whole]]

        places, at = self.ranges.places, own.at
        force = own.some("impulse", places, 1)
        reads = [at("end v"), at("saturated"), *[own.some(name, places) for name in ("soft", "offset", "cap")]]
        reads += [force, at("dt"), at("tolerance"), at("left"), at("pinned rounds")]
        block = traced_block(look, reads, [at("saturated"), force, at("left"), at("in range")])
        return self.trees.in_scene([block])[0]

    def forces(self) -> list[Statement]:
        """``force``: joint forces over the step, at the velocity of its end."""
        return self.trees.in_scene([forces_of_motors(self.own)])
