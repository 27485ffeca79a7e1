"""Steps of collocation by machine code: the whole iteration of a step, Picard's or Newton's, is one call.

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
from whippletree.simulation.adaptive import integrator
from whippletree.simulation.adaptive.collocation import Polynomial, gauss_rule, radau_rule
from whippletree.simulation.adaptive.integrator import (
    COLLOCATION_ITERATIONS,
    NO_LONGER_FALLING,
    SETTLING,
    STALLED_CHANGE,
    Solution,
    mean_contraction,
)
from whippletree.simulation.adaptive.newton import Stiffness, radau_modes
from whippletree.simulation.method import Task
from whippletree.simulation.motion import POSITION_CORRECTIONS

COMPILED_AT_ONCE = 8
"""Moving bodies up to which the code is compiled before the first step."""

PER_BODY, FOR_A_CONTROLLER = 4, 100
"""Steps that a run takes in Python before, for every further body, and where a controller has to be traced: then they
take about as long as compiling does, which each new controller asks for."""

MOST_BODIES = 48
"""Moving bodies beyond which the code, which is unrolled, would be too long."""


class CompiledStep:
    """Solves the equations of steps of a motion."""

    def __init__(self, task: Task) -> None:
        self.task, self.motion = task, task.motion
        self.patience = Patience(
            COLLOCATION_ITERATIONS,
            SETTLING,
            integrator.CONVERGED_POINTS,
            STALLED_CHANGE,
            NO_LONGER_FALLING,
            POSITION_CORRECTIONS,
            self.motion.position_tolerance,
        )
        bodies = self.motion.moving_bodies
        self._possible = self.motion.can_be_unrolled and bodies <= MOST_BODIES
        self._wait = PER_BODY * max(0, bodies - COMPILED_AT_ONCE)
        if self.motion.controller is not None:
            self._wait += FOR_A_CONTROLLER
        self._functions: dict[bool, NamedFunction] = {}
        """For Picard iteration, and for Newton's method."""
        self._controller: NamedFunction | None = None

    def prepare(self, tried: int) -> bool:
        """Whether a step can be solved after so many that the run has tried: from here on the same for all steps.

        A controller is traced then, and its forces are those of the traced one, Newton's method included.
        """
        ready = self._possible and tried >= self._wait
        if ready and not self._functions:
            self._compile(newton=False)
            ready = self._possible
        self.motion.use_compiled(self._controller if ready else None, names_failures=True)
        return ready

    def solve(
        self,
        t: float,
        y: Array,
        length: float,
        guess: Polynomial,
        rtol: float,
        atol: float,
        stiffness: Stiffness | None,
    ) -> Solution | None:
        """A step from (t, y), iterated from a guess; None where numbers are not finite, or a pivot is in doubt."""
        newton = stiffness is not None
        function = self._functions.get(newton) or self._compile(newton)
        if function is None:
            return None
        offset, ratio = (t - guess.start) / guess.length, length / guess.length
        more = (self.motion.all_on,) if len(self.motion.all_on) else ()
        if stiffness is not None:
            more = (*more, stiffness.inverses(length * radau_modes().values))
        with np.errstate(all="ignore"):
            found = function(t, length, y, guess.coefficients, offset, ratio, rtol, atol, *more)
        coefficients, error, change, first, rounds, outcome = found
        if outcome == IN_DOUBT or not np.isfinite(change):
            return None
        polynomial = Polynomial(t, length, y, coefficients)
        if outcome != CONVERGED:
            return Solution(polynomial, np.inf, int(rounds), np.inf, stiffness)
        rounds = int(rounds)
        return Solution(polynomial, float(error), rounds, mean_contraction(change, first, rounds), stiffness)

    def _compile(self, newton: bool) -> NamedFunction | None:
        motion = self.motion
        try:
            if motion.controller is not None and self._controller is None:
                self._controller = traced_controller(motion.model, motion.controller, self.task.samples())
            made = motion.dyn.collocation_step(_scheme(newton), self.patience, motion.controller)
        except (UnsupportedError, NotTraceable):
            self._possible, self._controller = False, None
            return None
        self._functions[newton] = made
        return made


def _scheme(newton: bool) -> Scheme:
    rule = radau_rule() if newton else gauss_rule()
    scheme = Scheme("Gauss, 8 points", rule.nodes, rule.weights, rule.to_coefficients)
    if not newton:
        return scheme
    modes = radau_modes()
    return scheme._replace(name="Radau, 8 points, Newton", into=modes.into, back=modes.back)
