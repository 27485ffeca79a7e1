"""A controller in plain Python, asked by the kernel in every step.

What cannot be traced has to be called: once a step, with the time and the state at which it begins. The kernel does
that itself in the midst of a trajectory, so that a step needs no call of its own.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Call, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.step_space import STEP, StepSpace

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

    def ask(self) -> list[Statement]:
        """Forces ``tau`` and commands ``ctrl`` of the step that begins."""
        space, nv = self.space, self.space.model.nv
        reads = [space.at("clock", STEP), *space.each(("now q", "now v"))]
        asked = ("asked t", "asked q", "asked v")

        def take(answer: Array) -> list[Any]:
            told = answer.ravel()
            return [told[:nv], told[nv:]][: len(self._told)]

        return [
            traced_block(lambda t, q, v: [[t], q, v], reads, space.each(asked)),
            Call(DRIVES, 1, asked, ("told",), "unanswered"),
            traced_block(take, [space.at("told")], space.each(self._told)),
        ]
