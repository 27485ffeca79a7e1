"""A controller in plain Python, asked by the kernel in every step.

What cannot be traced has to be called: once a step, with the time and the state at which it begins. The kernel does
that itself in the midst of a trajectory, so that a step needs no call of its own.

Where faces begin to press, Python looks for forces under which they rest before it goes on: the trajectory stops there,
as it does after a step that is not solved, so that nothing is asked that would have to be asked again.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Call, If, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.step_space import BLOCK, STEP, StepSpace

DRIVES = "drives"
"""What the program calls the function: (t, q, v) → joint forces, then commands where actuators act."""


class PythonDrives:
    """Forces and commands of a step as a function in Python tells them: NaN, which ends the trajectory, if it fails."""

    def __init__(self, space: StepSpace) -> None:
        self.space, model = space, space.model
        self._told = ("tau", "ctrl") if model.actuators else ("tau",)
        sizes = {"tau": model.nv, "ctrl": len(model.actuators)}
        space.work(**{name: (sizes[name],) for name in self._told})
        # arguments of a call count states last, and here there is one
        answers = sum(sizes[name] for name in self._told)
        space.work(asked_t=(1,), asked_q=(model.nq, 1), asked_v=(model.nv, 1), told=(answers, 1), unanswered=(1,))
        faces = space.blocks.faces
        self._has_faces = bool(faces.any())
        if self._has_faces:
            others = [False] * (space.blocks.count - len(faces))
            space.table("face", [*faces, *others])
            space.work(pressed=(1,), pressing=(1,), at_faces=(1,))

    def ask(self) -> list[Statement]:
        """Forces ``tau`` and commands ``ctrl`` of the step that begins."""
        space, nv = self.space, self.space.model.nv
        reads = [space.at("clock", STEP), *space.each(("now q", "now v"))]
        asked = ("asked t", "asked q", "asked v")

        def take(answer: Array, unanswered: Array) -> list[Any]:
            told = [select(less(0, unanswered[0]), math.nan, x) for x in answer.ravel()]
            return [told[:nv], told[nv:]][: len(self._told)]

        return [
            traced_block(lambda t, q, v: [[t], q, v], reads, space.each(asked)),
            Call(DRIVES, 1, asked, ("told",), "unanswered"),
            traced_block(take, space.each(("told", "unanswered")), space.each(self._told)),
        ]

    def begin(self) -> list[Statement]:
        """Whether anything presses before the first step."""
        return [*self._look_for_loads(), self._remember_loads()] if self._has_faces else []

    def stop_at_first_load(self) -> list[Statement]:
        """The end of the trajectory after a step that began without any impulse and ends with some at a face."""
        if not self._has_faces:
            return []

        def judge(before: Array, at_faces: Array, alive: Array) -> list[Any]:
            begins = select(less(0, at_faces[0]), select(less(0, before[0]), -1, 1), -1)
            stopped = select(less(0, begins), -1, alive[0])
            return [[stopped], [-stopped]]

        space = self.space
        reads = space.each(("pressed", "at faces", "alive"))
        stop = traced_block(judge, reads, space.each(("alive", "lost")))
        # what has been lost before stays lost
        return [If(space.address("alive"), (*self._look_for_loads(), stop, self._remember_loads()))]

    def _look_for_loads(self) -> list[Statement]:
        """``pressing``, ``at faces``: positive if there is an impulse, and one of those at faces."""

        def add(p: Array, face: Any, pressing: Array, at_faces: Array) -> list[Any]:
            some = sum(abs(x) for x in p)
            return [[pressing[0] + some], [at_faces[0] + face * some]]

        space, totals = self.space, self.space.each(("pressing", "at faces"))
        look = traced_block(add, [*space.each(("impulse", "face"), BLOCK), *totals], totals)
        return [space.put(0, *totals), *space.each_block(look)]

    def _remember_loads(self) -> Statement:
        return traced_block(lambda now: [now], [self.space.at("pressing")], [self.space.at("pressed")])
