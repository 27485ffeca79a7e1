"""Steps of collocation by machine code: the whole Picard iteration of a step is one call.

A call costs a few microseconds where the same iteration in Python takes hundreds, and its numbers are the same up to
rounding. But code has to be compiled first (0.15 s for a double pendulum, 2 s for a humanoid, once on each machine),
so a run of a large model begins in Python. When it changes over is counted in steps, not in seconds: a run has the same
bits whatever the cache holds.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import NotTraceable, traced_controller
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.collocation_kernel import CONVERGED, IN_DOUBT, Patience, Scheme
from whippletree.errors import UnsupportedError
from whippletree.simulation.adaptive.collocation import Polynomial, gauss_rule
from whippletree.simulation.adaptive.integrator import (
    CONVERGED as CLOSE_ENOUGH,
)
from whippletree.simulation.adaptive.integrator import MOST_ITERATIONS, NO_LONGER_FALLING, SETTLING, STALLED, Solution
from whippletree.simulation.method import Task
from whippletree.simulation.motion import CLOSING_ROUNDS

AT_ONCE = 8
"""Moving bodies up to which the code is compiled before the first step."""

PER_BODY, FOR_A_CONTROLLER = 4, 60
"""Steps that a run takes in Python before, for every further body, and where a controller has to be traced anew."""

MOST_BODIES = 48
"""Moving bodies beyond which the code, which is unrolled, would be too long."""


class CompiledStep:
    """Solves the equations of steps of a motion."""

    def __init__(self, task: Task) -> None:
        self.task, self.motion = task, task.motion
        self.patience = Patience(
            MOST_ITERATIONS,
            SETTLING,
            CLOSE_ENOUGH,
            STALLED,
            NO_LONGER_FALLING,
            CLOSING_ROUNDS,
            self.motion.position_tolerance,
        )
        bodies = self.motion.moving_bodies
        self._possible = self.motion.can_be_unrolled and bodies <= MOST_BODIES
        self._wait = PER_BODY * max(0, bodies - AT_ONCE)
        if self.motion.controller is not None:
            self._wait += FOR_A_CONTROLLER
        self._function: NamedFunction | None = None
        self._controller: NamedFunction | None = None

    def prepare(self, tried: int) -> bool:
        """Whether a step can be solved after so many that the run has tried: from here on the same for all steps.

        A controller is traced then, and its forces are those of the traced one, Newton's method included.
        """
        ready = self._possible and tried >= self._wait
        if ready and self._function is None:
            self._compile()
            ready = self._possible
        self.motion.use_compiled(self._controller if ready else None)
        return ready

    def solve(self, t: float, y: Array, length: float, guess: Polynomial, rtol: float, atol: float) -> Solution | None:
        """A step from (t, y), iterated from a guess; None where numbers are not finite, or a pivot is in doubt."""
        assert self._function is not None
        offset, ratio = (t - guess.start) / guess.length, length / guess.length
        switches = (self.motion.all_on,) if len(self.motion.all_on) else ()
        with np.errstate(all="ignore"):
            found = self._function(t, length, y, guess.coefficients, offset, ratio, rtol, atol, *switches)
        coefficients, error, change, before, rounds, outcome = found
        if outcome == IN_DOUBT or not np.isfinite(change):
            return None
        if outcome != CONVERGED:
            return Solution(Polynomial(t, length, y, coefficients), np.inf, int(rounds), np.inf)
        contraction = float(change / before) if rounds > 1 else 0.0
        return Solution(Polynomial(t, length, y, coefficients), float(error), int(rounds), contraction)

    def _compile(self) -> None:
        rule, motion = gauss_rule(), self.motion
        scheme = Scheme("Gauss, 8 points", rule.nodes, rule.weights, rule.to_coefficients)
        try:
            if motion.controller is not None:
                self._controller = traced_controller(motion.model, motion.controller, self.task.samples())
            self._function = motion.dyn.collocation_step(scheme, self.patience, motion.controller)
        except (UnsupportedError, NotTraceable):
            self._possible, self._controller = False, None
