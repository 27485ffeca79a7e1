"""Servos with a force range in a compiled step: rows of the contact problem only while they are at an end of it.

Most of the time a servo is within its range, and then it is a driven joint: its gains belong to the inertia, and it
costs nothing. So a step is solved with the servos of single joints *released* but for those that the step before has
left at an end. Then their forces are looked at, at the velocity that came out: one that is beyond its range becomes a
row, one that is a row and within its range is released, and the step is solved again, until nothing changes. In the end
rows are the servos that saturate (:mod:`whippletree.contact.servos`).
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Block, Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.step_space import STEP, StepSpace
from whippletree.contact.problem.cones import largest
from whippletree.contact.servos import AT_AN_END

RANGE_ROUNDS = 6
"""Times that servos may turn out to be beyond their ranges, or back in them, in a step, which is solved again then."""

RANGE = "range"


class ServoRanges:
    """Statements about the bounded servos of a step, between its buffers soft, offset, impulse, end v, left, and these:

    saturated   1 where a servo is a row of the problem, −1 where it is released
    in range    whether no force was found beyond its range, and no row within it
    """

    def __init__(self, space: StepSpace) -> None:
        self.space, self.actuators, self.servos = space, space.actuators, space.blocks.servos
        self.places = range(space.blocks.passive, space.blocks.count)
        self.count = len(self.servos) if self.actuators.releasable else 0
        """Servos with a range, where some of them may be released."""

    def reserve(self) -> None:
        """The buffers."""
        if self.count:
            self.space.work(saturated=(self.count,), in_range=(1,))

    def around(self, solve: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The solution of a step, again and again until all servos are what they were taken for."""
        if not self.count:
            return solve
        again = Until(RANGE, RANGE_ROUNDS, self.space.address("in range"), (*solve, self.look()))
        return self.guess(), again

    def guess(self) -> Block:
        """Servos that the step before has left at an end of their ranges, and those that are not of a single joint."""
        always = set(range(self.count)) - set(self.actuators.releasable)

        def guess(impulse: Array, cap: Array, h: Any) -> list[Any]:
            ends = zip(impulse, cap, strict=True)
            found = [select(less(abs(p), (1 - AT_AN_END) * h * most), -1, 1) for p, most in ends]
            return [[1 if i in always else flag for i, flag in enumerate(found)], [-1]]

        some, at = self.space.some, self.space.at
        reads = [some("impulse", self.places, 1), some("cap", self.places), at("dt", STEP)]
        return traced_block(guess, reads, [at("saturated"), at("in range")])

    def look(self) -> Block:
        """Servos whose force is beyond their range at the velocity that came out become rows of the problem; those that
        are rows, and within it, are released. Of those that were released, the impulse is that of their force.
        """

        def look(v: Array, saturated: Array, soft: Array, offset: Array, cap: Array, p: Array, *rest: Any) -> list[Any]:
            h, tolerance, left = rest
            flags, impulses, worst, whole = list(saturated), list(p), left[0], 1
            for i in self.actuators.releasable:
                place, gear = self.actuators.driven_joint(self.servos[i])
                released, reach = less(flags[i], 0), h * cap[i]
                force = (offset[i] - gear * v[place]) / soft[i]
                over = select(released, (abs(force) - reach) * soft[i], 0)
                worst = largest([worst, over])
                impulses[i] = select(released, within_reach(force, reach), p[i])
                leaves = less(abs(p[i]), (1 - AT_AN_END) * reach)
                flags[i] = select(released, select(less(tolerance, over), 1, -1), select(leaves, -1, 1))
                whole = select(less(flags[i] * saturated[i], 0), -1, whole)
            return [flags, impulses, [worst], [whole]]

        some, at = self.space.some, self.space.at
        force = some("impulse", self.places, 1)
        reads = [at("end v"), at("saturated"), *[some(name, self.places) for name in ("soft", "offset", "cap")]]
        reads += [force, at("dt", STEP), at("tolerance"), at("left")]
        return traced_block(look, reads, [at("saturated"), force, at("left"), at("in range")])


def within_reach(x: Any, reach: Any) -> Any:
    """A number brought between −reach and reach."""
    return select(less(reach, x), reach, select(less(x, -reach), -reach, x))
