"""Steps of collocation by machine code: many of them, and all iterations of each, Picard's or Newton's, are one call.

A call costs a few microseconds where the same iteration in Python takes hundreds, and its numbers are the same up to
rounding. But code has to be compiled first (0.15 s for a double pendulum, 2 s for a humanoid, once on each machine),
so a run of a large model begins in Python. When it changes over is counted in steps, not in seconds: a run has the same
bits whatever the cache holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.controller import (
    AffineForces,
    FunctionOfState,
    NotTraceable,
    affine_forces,
    traced_controller,
)
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.rollout.collocation_kernel import (
    EASED_ITERATION,
    GIVEN_UP,
    IN_DOUBT,
    SLOW_ITERATION,
    STEPS,
    IterationLimits,
    Notes,
    Scheme,
    Verdict,
)
from whippletree.compiler.rollout.collocation_rates import RateBlocks
from whippletree.compiler.rollout.step_control import COLLOCATION_ITERATIONS, mean_contraction
from whippletree.compiler.rollout.step_watch import GuardBlocks
from whippletree.errors import UnsupportedError
from whippletree.simulation.adaptive import integrator
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
from whippletree.simulation.adaptive.newton import DIFFERENCE, radau_modes
from whippletree.simulation.adaptive.strides import AcceptedStep, Departure, Stride, TriedStep
from whippletree.simulation.method import Task
from whippletree.simulation.motion import OPEN_LOOP, POSITION_CORRECTIONS

COMPILED_AT_ONCE = 12
"""Moving bodies up to which the code is compiled before the first step."""

PER_BODY = 4
"""Steps that a run takes in Python before, for every further body."""

MOST_BODIES = 48
"""Moving bodies beyond which the code, which is unrolled, would be too long."""


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
            self.motion.position_tolerance,
            np.inf if model.constraints else KINKED,
            SHORTEST_AT_KINKS,
            worthwhile(model.nq + model.nv),
            DIFFERENCE,
        )
        bodies = self.motion.moving_bodies
        self._possible = self.motion.can_be_unrolled and bodies <= MOST_BODIES
        self._wait = wait + PER_BODY * max(0, bodies - COMPILED_AT_ONCE)
        self._functions: dict[tuple[bool, int], tuple[NamedFunction, tuple[Array, ...]]] = {}
        """By whether they are Newton's, and their number of points, with the constants that they read last; each is
        compiled where it is needed first."""
        self._controller: FunctionOfState | AffineForces | None = None
        self._looked_at = self.motion.controller is None
        """Whether it is known what kind of controller there is."""

    def prepare(self, tried: int) -> bool:
        """Whether steps can be taken after so many that the run has tried: from here on the same for all steps.

        A controller is traced then, and its forces are those of the traced one, Newton's method included; one that is
        affine in (t, q, v) needs no code of its own.
        """
        if self._possible and not self._looked_at and tried >= self._wait:
            assert self.motion.controller is not None
            self._looked_at = True
            self._controller = affine_forces(self.motion.model, self.motion.controller, self.task.samples())
        ready = self._possible and self._looked_at and tried >= self._wait
        if ready and not self._functions:
            ready = self._compile(stiff=False, points=POINTS)
        self.motion.use_compiled(self._controller if ready else None, names_failures=True)
        return ready

    def solve(
        self, t: float, y: Array, length: float, guess: Polynomial, rtol: float, atol: float, stiff: bool
    ) -> TriedStep | None:
        """One step from (t, y), iterated from a guess; None where numbers are not finite, or a pivot is in doubt."""
        call = Departure(t, y, length, guess, 0.0, t + length, 0, rtol, atol, stiff)
        _, _, _, trial, (_, outcome, error, change, first, rounds, _) = self._call(call)
        if outcome == IN_DOUBT or not np.isfinite(change):
            return None
        polynomial = Polynomial(t, length, y, trial)
        if outcome == GIVEN_UP:
            return TriedStep(polynomial, np.inf, int(rounds), np.inf, stiff)
        return TriedStep(polynomial, float(error), int(rounds), float(mean_contraction(change, first, rounds)), stiff)

    def stride(self, call: Departure) -> Stride:
        """As many steps as can be taken from a state without asking anybody."""
        coefficients, states, notes, _, told = self._call(call)
        kept, y = [], call.state
        verdict = Verdict(*told.tolist())
        for k in range(int(verdict.kept)):
            note = Notes(*notes[k].tolist())
            step = TriedStep(
                Polynomial(note.start, note.length, y, coefficients[k]),
                note.error,
                int(note.iterations),
                note.contraction,
                call.stiff,
            )
            y = states[k]
            kept.append(AcceptedStep(step, note.end, y, note.next_length, note.correction, int(note.rejections)))
        sound = self._count_closed(kept)
        if sound < len(kept):
            return Stride(kept[:sound], failed=True, watched=self.guards is not None)
        slow, eased = verdict.outcome == SLOW_ITERATION, verdict.outcome == EASED_ITERATION
        crossing = verdict.crossing > 0
        through = bool(kept) and (crossing or kept[-1].end >= call.end or len(kept) >= min(call.most, STEPS))
        watched = self.guards is not None
        return Stride(kept, slow, eased, not (slow or eased or through), watched, crossing)

    def _count_closed(self, kept: list[AcceptedStep]) -> int:
        """How many steps end with all constraints met: the one after them is left to Python, which shortens it, and
        names the rows that stay open where that does not help."""
        if not kept or not self.motion.model.constraints or self.blocks is not None:
            return len(kept)
        q, _ = self.motion.split(np.array([step.state for step in kept]))
        is_open = self.motion.gaps(np.array([step.end for step in kept]), q) > OPEN_LOOP
        return int(is_open.argmax()) if is_open.any() else len(kept)

    def _call(self, call: Departure) -> tuple[Array, ...]:
        guess = call.guess.with_points(POINTS) if call.stiff else call.guess
        kind = call.stiff, len(guess.coefficients)
        if kind not in self._functions:
            self._compile(*kind)
        clock = np.array([call.time, call.length, guess.start, guess.length, call.error])
        slow = SLOW_CONTRACTION if call.solver == "auto" else np.inf
        eased = EASED / gauss_rule().contraction if call.solver == "auto" else 0.0
        bounds = np.array([call.end, min(call.most, STEPS), call.rtol, call.atol, slow, eased])
        more = (self.motion.all_on,) if len(self.motion.all_on) else ()
        if isinstance(self._controller, AffineForces):
            more = (*more, self._controller.gains)
        function, constants = self._functions[kind]
        with np.errstate(all="ignore"):
            found = function(clock, bounds, call.state, guess.coefficients, *more, *self.more, *constants)
        return tuple(found)

    def _compile(self, stiff: bool, points: int) -> bool:
        """Whether there is a function, of Picard's scheme or of Newton's, for this model and its controller."""
        motion, scheme = self.motion, stiff_scheme() if stiff else plain_scheme(points)
        try:
            if isinstance(self._controller, AffineForces):
                control: Any = "affine"
            else:
                control = motion.controller
                if motion.controller is not None and self._controller is None:
                    self._controller = traced_controller(motion.model, motion.controller, self.task.samples())
            found, constants = motion.dyn.collocation_steps(
                scheme, self.patience, controller=control, blocks=self.blocks, guards=self.guards
            )
        except (UnsupportedError, NotTraceable):
            self._possible, self._controller = False, None
            return False
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
