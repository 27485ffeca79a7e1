"""Steps of collocation by machine code: many of them, and all iterations of each, Picard's or Newton's, are one call.

A call costs a few microseconds where the same iteration in Python takes hundreds, and its numbers are the same up to
rounding. Code that contains the equations of motion has to be compiled first (0.15 s for a double pendulum, 2 s for a
humanoid, once on each machine). So steps of all but the smallest models call the functions that are compiled anyway
(:mod:`~whippletree.simulation.adaptive.called_steps`), and those that watch for events begin in Python. When they
change over is counted in steps, not in seconds: a run has the same bits whatever the cache holds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import (
    AffineForces,
    FunctionOfState,
    NotTraceable,
    compiled_forces,
    traced_function,
)
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.collocation.collocation_frame import (
    EASED_ITERATION,
    GIVEN_UP,
    IN_DOUBT,
    OLD_TANGENT,
    SLOW_ITERATION,
    STEPS,
    IterationLimits,
    Notes,
    Scheme,
    Verdict,
)
from whippletree.compiler.rollout.collocation.collocation_rates import RateBlocks
from whippletree.compiler.rollout.collocation.step_control import COLLOCATION_ITERATIONS, mean_contraction
from whippletree.compiler.rollout.collocation.step_watch import GuardBlocks
from whippletree.errors import UnsupportedError
from whippletree.simulation.adaptive import integrator
from whippletree.simulation.adaptive.called_steps import Asked, CalledSteps, Drives, called_steps, can_be_called
from whippletree.simulation.adaptive.collocation import POINTS, Polynomial, gauss_rule, radau_rule
from whippletree.simulation.adaptive.integrator import (
    EASED,
    KINKED,
    NO_LONGER_FALLING,
    SETTLING,
    SHORTEST_AT_KINKS,
    SLOW_CONTRACTION,
    STALLED_CHANGE,
    worthwhile,
)
from whippletree.simulation.adaptive.newton import DIFFERENCE, NO_RATES, radau_modes, rate_jacobian, sizes_of
from whippletree.simulation.adaptive.strides import AcceptedStep, Departure, Stride, TriedStep
from whippletree.simulation.method import Task
from whippletree.simulation.motion import OPEN_LOOP, POSITION_CORRECTIONS

BODIES_IN_STEPS = 2
"""Moving bodies up to which code for the steps of a model contains its equations of motion. With more of them, or with
loops, steps that call the functions of the model are quicker: their lanes are filled (a double pendulum 1.2 times the
time, a chain of five 0.9, robots and delta robots 0.65 to 0.75)."""

COMPILED_AT_ONCE = 12
"""Moving bodies up to which code that contains the equations of motion is compiled before the first step."""

PER_BODY = 4
"""Steps that a run takes before, for every further body."""

MOST_BODIES = 48
"""Moving bodies beyond which the code, which is unrolled, would be too long."""


NO_TANGENT = np.zeros((0, 0))
"""Of a controller in Python that is asked in each iteration."""


class CompiledSteps:
    """Takes steps of a motion."""

    def __init__(
        self, task: Task, blocks: RateBlocks | None = None, wait: int = 0, guards: GuardBlocks | None = None
    ) -> None:
        """``blocks``: the equations of motion, where they are not those of the model alone; ``wait``: steps that a run
        takes in Python in any case; ``guards``: what ends a call where it may vanish."""
        self.blocks, self.guards = blocks, guards
        self.more: tuple[Array, ...] = ()
        """Arguments of these and the guards in each call."""
        self.task, self.motion = task, task.motion
        model = self.motion.model
        self.patience = IterationLimits(
            COLLOCATION_ITERATIONS,
            SETTLING,
            integrator.CONVERGED_POINTS,
            STALLED_CHANGE,
            NO_LONGER_FALLING,
            POSITION_CORRECTIONS,
            np.inf if model.constraints else KINKED,
            SHORTEST_AT_KINKS,
            DIFFERENCE,
        )
        bodies = self.motion.moving_bodies
        self._possible = self.motion.can_be_unrolled and bodies <= MOST_BODIES
        """Whether code can be compiled that contains the equations of motion."""
        self._may_call = blocks is None and guards is None and can_be_called(self.motion)
        """Whether steps may call the functions of the model instead."""
        self._calls = self._may_call and not (self._possible and bodies <= BODIES_IN_STEPS)
        """Whether they do."""
        self._wait = wait + PER_BODY * max(0, bodies - COMPILED_AT_ONCE)
        self._functions: dict[tuple[bool, int], tuple[NamedFunction, tuple[Array, ...]]] = {}
        """By whether they are Newton's, and their number of points, with the constants that they read last; each is
        compiled where it is needed first."""
        self._called: dict[tuple[bool, int], CalledSteps] = {}
        """Likewise."""
        self._controller: FunctionOfState | AffineForces | None = None
        self._looked_at = not self.motion.is_driven
        """Whether it is known what kind of controller there is."""
        self._commands: FunctionOfState | Asked | None = None
        """Those of actuators whose activations are part of the state."""

    def prepare(self, tried: int) -> bool:
        """Whether steps can be taken, after so many that the run has tried: from here on the same for all steps.

        A controller is traced then, and its forces are those of the traced one, Newton's method included; one that is
        affine in (t, q, v) needs no code of its own, and one that cannot be traced is asked from machine code.
        """
        ready = self._calls or (self._possible and tried >= self._wait)
        if ready and not self._looked_at:
            self._looked_at = True
            self._look_at_drives()
        if ready and self._calls:
            if not self._called:
                self._hand_over(False, POINTS)
        elif ready and not self._functions:
            ready = self._compile(False, POINTS)
        self.motion.use_compiled(self._controller, names_failures=True)
        return ready

    def solve(
        self, t: float, y: Array, length: float, guess: Polynomial, rtol: float, atol: float, stiff: bool
    ) -> TriedStep | None:
        """One step from (t, y), iterated from a guess; None where numbers are not finite, or a pivot is in doubt."""
        call = Departure(t, y, length, guess, 0.0, t + length, 0, rtol, atol, stiff)
        _, _, trial, _, (_, outcome, error, change, first, rounds, _) = self._call(call)
        if outcome == IN_DOUBT or not np.isfinite(change):
            return None
        polynomial = Polynomial(t, length, y, trial)
        if outcome == GIVEN_UP:
            return TriedStep(polynomial, np.inf, int(rounds), np.inf, stiff)
        return TriedStep(polynomial, float(error), int(rounds), float(mean_contraction(change, first, rounds)), stiff)

    def stride(self, call: Departure) -> Stride:
        """Take as many steps as can be taken from a state without asking anybody."""
        is_new = call.tangent is None
        call = replace(call, tangent=self._tangent(call)) if is_new else call
        coefficients, states, _, notes, numbers = self._call(call)
        kept: list[AcceptedStep] = []
        y = call.state
        verdict = Verdict(*numbers.tolist())
        for k in range(int(verdict.kept)):
            note = Notes(*notes[k].tolist())
            if self.blocks is None and note.gap > OPEN_LOOP:
                # left to Python, which shortens it, and names the rows that stay open where that does not help
                return Stride(kept, failed=True, watched=self.guards is not None, tangent=call.tangent)
            step = TriedStep(
                Polynomial(note.start, note.length, y, coefficients[k]),
                note.error,
                int(note.iterations),
                note.contraction,
                call.stiff,
            )
            y = states[k]
            kept.append(AcceptedStep(step, note.end, y, note.next_length, note.correction, int(note.rejections)))
        slow, eased = verdict.outcome == SLOW_ITERATION, verdict.outcome == EASED_ITERATION
        crossing = verdict.crossing > 0
        through = bool(kept) and (crossing or kept[-1].end >= call.end or len(kept) >= min(call.most, STEPS))
        watched, old = self.guards is not None, verdict.outcome == OLD_TANGENT
        failed = not (slow or eased or old or through)
        after = call.tangent
        if old or failed:
            of_no_use = call.tangent is not None and (failed or (is_new and len(kept) == 1))
            after = NO_TANGENT if of_no_use else None
        return Stride(kept, slow, eased, failed, watched, crossing, call.tangent, after)

    def _tangent(self, call: Departure) -> Array | None:
        """∂τ/∂(q, v) of a controller in Python at a state, if it has one; None without such a controller."""
        asked = self._drives.controller
        if not self._calls or asked is None or isinstance(asked, FunctionOfState | AffineForces):
            return None
        parts = self.motion.state_parts[:2]
        y = call.state[: parts[1].stop]

        def forces(t: Array, states: Array) -> Array:
            return asked(t, *(states[:, part] for part in parts))

        try:
            return rate_jacobian(forces, call.time, y, sizes_of(y, call.rtol, call.atol))
        except NO_RATES:
            return NO_TANGENT

    def _call(self, call: Departure) -> tuple[Array, ...]:
        guess = call.guess.with_points(POINTS) if call.stiff else call.guess
        clock = np.array([call.time, call.length, guess.start, guess.length, call.error])
        slow = SLOW_CONTRACTION if call.solver == "auto" else np.inf
        eased = EASED / gauss_rule().contraction if call.solver == "auto" else 0.0
        size = len(call.state)
        most = min(call.most, STEPS)
        closed = self.motion.position_tolerance
        bounds = np.array([call.end, most, call.rtol, call.atol, slow, eased, size, worthwhile(size), closed])
        points = len(guess.coefficients)
        with np.errstate(all="ignore"):
            if self._calls:
                if (call.stiff, points) not in self._called:
                    self._hand_over(call.stiff, points)
                given = clock, bounds, call.state, guess.coefficients, self._drives, call.tangent
                return self._called[call.stiff, points](*given)
            return self._by_own_code(call.stiff, points, clock, bounds, call.state, guess.coefficients)

    def _by_own_code(self, stiff: bool, points: int, *given: Array) -> tuple[Array, ...]:
        """Steps by code that contains the equations of motion."""
        if (stiff, points) not in self._functions:
            self._compile(stiff, points)
        more = (self.motion.all_on,) if len(self.motion.all_on) else ()
        if isinstance(self._controller, AffineForces):
            more = (*more, self._controller.gains)
        function, constants = self._functions[stiff, points]
        return tuple(function(*given, *more, *self.more, *constants))

    def _look_at_drives(self) -> None:
        """Compile the controller, and the commands that activations follow, where they can be traced."""
        motion, samples = self.motion, self.task.samples()
        if motion.controller is not None:
            with suppress(NotTraceable):
                self._controller = compiled_forces(motion.model, motion.controller, samples)
        if motion.remembers:
            assert motion.actuated is not None
            self._commands = motion.commands
            with suppress(NotTraceable):
                count = len(motion.model.actuators)
                self._commands = traced_function(motion.model, motion.actuated.commands, count, samples)

    @property
    def _drives(self) -> Drives:
        """What steps that call functions are driven by."""
        motion = self.motion
        if motion.controller is None or self._controller is not None:
            return Drives(self._controller, self._commands)
        return Drives(partial(motion.asked_at, motion.controller), self._commands)

    def _hand_over(self, stiff: bool, points: int) -> None:
        """Find the steps that call the functions of the model, and its controller."""
        scheme = stiff_scheme() if stiff else plain_scheme(points)
        self._called[stiff, points] = called_steps(self.motion, scheme, self.patience, self._drives)

    def _compile(self, stiff: bool, points: int) -> bool:
        """Whether there is a function, of Picard's scheme or of Newton's, for this model and its controller."""
        motion, scheme = self.motion, stiff_scheme() if stiff else plain_scheme(points)
        try:
            control: Any = "affine" if isinstance(self._controller, AffineForces) else motion.controller
            if control is not None and self._controller is None:
                raise NotTraceable
            found, constants = motion.dyn.collocation_steps(
                scheme, self.patience, controller=control, blocks=self.blocks, guards=self.guards
            )
        except (UnsupportedError, NotTraceable):
            self._possible, self._controller, self._calls = False, None, self._may_call
            if self._calls:
                self._hand_over(stiff, points)
            return self._calls
        self._functions[stiff, points] = found, (np.array(constants),) if constants else ()
        return True


def plain_scheme(points: int = POINTS) -> Scheme:
    """Picard's."""
    rule = gauss_rule(points)
    return Scheme(f"Gauss, {points} points", rule.nodes, rule.weights, rule.to_coefficients)


def stiff_scheme() -> Scheme:
    """Newton's."""
    rule, modes = radau_rule(), radau_modes()
    return Scheme(
        f"Radau, {POINTS} points, Newton",
        rule.nodes,
        rule.weights,
        rule.to_coefficients,
        modes.values,
        modes.into,
        modes.back,
    )
