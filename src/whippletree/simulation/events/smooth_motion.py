"""A phase of smooth motion, step by step, up to the event that ends it.

Steps are those of the integrator. Contacts that slide in space turn their slips, which is stiff: their steps end at a
collocation point (Radau) and their angles of slip are unknowns (:mod:`whippletree.simulation.events.turning_slip`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import IntegrationError, StepError
from whippletree.simulation.adaptive.collocation import radau_rule
from whippletree.simulation.adaptive.compiled_steps import CompiledSteps
from whippletree.simulation.adaptive.integrator import Integrator
from whippletree.simulation.adaptive.motion_pieces import MotionPiece, Progress, Statistics
from whippletree.simulation.adaptive.strides import StepSolver
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.guards import (
    JAM,
    LIFT_OFF,
    ONE_INSTANT,
    Admits,
    CompiledGuards,
    Guard,
    Guards,
    Span,
)
from whippletree.simulation.events.painleve import jam
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.turning_slip import SlipCorrection
from whippletree.simulation.method import Task

TOWARDS_STOP = 0.7
"""Share of the time to the stop of a turning slip that a step may take."""

CHECKS = 8
"""Points of a step at which a hyperstatic mode is looked at."""


STEPS_PER_CALL = 16
"""Steps by machine code before guards are looked at, of all of them at once: those after an event are thrown away."""


BEFORE_COMPILING = 2
"""Steps that a run from event to event takes in Python: its code takes half a second to compile, once on each machine,
and a run of fewer steps does without. It is counted in steps, so that the bits of a run do not depend on what the cache
holds."""


class PhaseSteps:
    """Steps of phases by machine code: of those in which nothing touches, and of those whose rows hold."""

    def __init__(self, task: Task, scene: EventEquations) -> None:
        self.task, self.scene = task, scene
        self._solvers: dict[tuple[bool, bool], CompiledSteps] = {}
        """By whether rows hold, and whether guards are watched on the way."""

    def of(self, guards: Guards) -> StepSolver | None:
        """The motion of a phase with these guards; None where Python has to take its steps."""
        phase = guards.phase
        held, rows = not phase.is_free, phase.held_rows
        if (held and rows is None) or phase.turning:
            return None
        watch = CompiledGuards(self.scene, held) if CompiledGuards.possible(self.scene) else None
        watched = None if watch is None else watch.watch_arguments(guards)
        kind = held, watched is not None
        if kind not in self._solvers:
            blocks = self.scene.compiled if held else None
            own = None if watched is None else watch
            self._solvers[kind] = CompiledSteps(self.task, blocks, BEFORE_COMPILING, own)
        self._solvers[kind].more = (*(rows.arguments if held and rows is not None else ()), *(watched or ()))
        return self._solvers[kind]


class Ending(NamedTuple):
    """Where a phase ends: in the last of its steps, or after it where a jam leaves no further one, or where contacts
    that it holds closed are no longer there."""

    time: float
    state: Array
    fired: list[Guard]
    """The guards that end it; none where a hyperstatic mode is rearranged."""


class PhaseStretch(NamedTuple):
    """Steps of a phase, one after the other, up to where somebody has to be asked."""

    pieces: list[MotionPiece]
    ending: Ending | None = None
    """Ending of the phase, where that is in these steps, or at their end."""

    @property
    def end(self) -> float:
        """Up to which the steps count, s."""
        return self.pieces[-1].end if self.ending is None else self.ending.time

    @property
    def found(self) -> list[tuple[str, float]]:
        """Events that users look for, up to there."""
        return [event for piece in self.pieces for event in piece.found if event[1] <= self.end]


class SmoothMotion:
    """A phase on its way."""

    def __init__(
        self,
        phase: Phase,
        task: Task,
        statistics: Statistics,
        admits: Admits | None,
        holds: Callable[[Phase, float, Array], bool],
        compiled: PhaseSteps,
    ) -> None:
        """``holds``: of a phase, a time and a state: whether complementarity still asks for the phase's mode."""
        self.phase, self.holds = phase, holds
        self.guards = Guards(phase, admits, phase.still)
        loops = bool(phase.scene.model.constraints)
        self.integrator = Integrator(
            phase,
            task.rtol,
            task.atol,
            task.events,
            dead_points=loops,
            statistics=statistics,
            compiled=compiled.of(self.guards),
            ahead=STEPS_PER_CALL,
            tolerance=task.follow_tolerance,
            may_jump=lambda: task.motion.may_jump,
        )
        if phase.turning:
            corrector = partial(SlipCorrection, phase)
            self.integrator = replace(self.integrator, rule=radau_rule(), corrector=corrector)

    def stretches(self, progress: Progress, end: float) -> Iterator[PhaseStretch]:
        """Steps from there to a time, or to the ending: as many at once as machine code has taken in a call."""
        phase, integrator = self.phase, self.integrator
        if progress.guess is not None:
            phase.follow(progress.state)
        crawl = Crawl(progress.time, end)
        pieces = integrator.pieces(progress, end)
        taken: list[MotionPiece] = []
        while True:
            # slip that turns comes to its stop ever faster: steps that reach beyond it would not converge
            integrator.largest_step = TOWARDS_STOP * phase.time_to_stop(progress.time, progress.state)
            step = self._next(pieces, progress)
            ending = step if isinstance(step, Ending) else None
            if isinstance(step, MotionPiece):
                crawl.watch(step.end)
                ending = self._ending(step)
                time, state = (step.end, step.state) if ending is None else (ending.time, ending.state)
                strayed = phase.strayed(time, state, step.interpolant)
                if strayed:
                    ending = Ending(progress.time, progress.state, [Guard(LIFT_OFF, i) for i in strayed])
                else:
                    taken.append(step)
            if ending is not None or step is None:
                if taken or ending is not None:
                    yield PhaseStretch(taken, ending)
                return
            progress = taken[-1].progress
            phase.follow(progress.state)
            if taken[-1].interpolant is integrator.stride.kept[-1].solution.polynomial:
                yield PhaseStretch(taken)
                taken = []

    def _next(self, pieces: Iterator[MotionPiece], progress: Progress) -> MotionPiece | Ending | None:
        """The next step from there, the jam that leaves none, or nothing at the end."""
        try:
            return next(pieces, None)
        except StepError:
            found = jam(self.phase, progress.time, progress.state)
            if found is None:
                raise
            return Ending(progress.time, found.state, [Guard(JAM, found.contact)])

    def _ending(self, piece: MotionPiece) -> Ending | None:
        stride, steps = self.integrator.stride, self.integrator.stride.kept
        last = piece.interpolant is steps[-1].solution.polynomial
        if stride.watched and not (stride.crossing and last):
            return None
        if not stride.watched and piece.interpolant is steps[0].solution.polynomial:
            polynomials = [step.solution.polynomial for step in steps]
            self.guards.look_ahead([Span(p.start, step.end, p) for p, step in zip(polynomials, steps, strict=True)])
        hit = self.guards.first_zero(Span(piece.start, piece.end, piece.interpolant))
        if self.phase.hyperstatic and self.phase.mode.sticking:
            rearranged = self._find_rearrangement(piece, None if hit is None else hit[0])
            hit = hit if rearranged is None else (rearranged, [])
        if hit is None:
            return None
        time, fired = hit
        return Ending(time, self.phase.project(time, piece.interpolant(time)), fired)

    def _find_rearrangement(self, piece: MotionPiece, before: float | None) -> float | None:
        """Where a hyperstatic mode, whose forces are not unique, no longer meets the laws of contact: at the end of a
        step, or before it (before another event, if there is one) where its forces leave the cones."""
        times = np.linspace(piece.start, piece.end if before is None else before, CHECKS + 1)
        loads = self.phase.loads(times, piece.interpolant.states(times))
        doubtful = self.phase.cone_violation(loads.contacts) > 0
        doubtful[-1] = before is None
        last = piece.start
        for time in times[1:][doubtful[1:]].tolist():
            if not self._holds(piece, time):
                return self._last_hold(piece, last, time)
            last = time
        return None

    def _last_hold(self, piece: MotionPiece, low: float, high: float) -> float:
        """When the mode still held, to within an instant, s, between a time at which it does and one at which not."""
        while high - low > ONE_INSTANT and low < (middle := (low + high) / 2) < high:
            if self._holds(piece, middle):
                low = middle
            else:
                high = middle
        return high

    def _holds(self, piece: MotionPiece, time: float) -> bool:
        return self.holds(self.phase, time, piece.interpolant(time))


# --- Integrations that hardly get on: hundreds of steps for a tiny share of what is left ------------------------------


CRAWLING_STEPS, CRAWLING_PHASE = 500, 1e-6
"""How many steps may lead through how small a share of the time that is left."""


class Crawl:
    """Watches an integration from a start to an end."""

    def __init__(self, start: float, end: float) -> None:
        self._mark = start
        self._least = CRAWLING_PHASE * (end - start)
        self._steps = 0

    def watch(self, time: float) -> None:
        """Called after every step.

        Raises:
            IntegrationError: if the last steps have led nowhere.
        """
        self._steps += 1
        if self._steps % CRAWLING_STEPS:
            return
        gained, self._mark = time - self._mark, time
        if gained < self._least:
            raise IntegrationError(
                f"the integration crawls at t = {time:.9g} s: {CRAWLING_STEPS} steps have advanced by {gained:.1e} s. "
                f"Stiff springs and dampers on light parts shorten them, and so do forces that grow without bound: "
                f"use method='time_stepping'",
                time,
            )
