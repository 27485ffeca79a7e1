"""The integrator core: adaptive, order 16, brought back to the manifold after every step.

Each step is a Gauss collocation (:mod:`whippletree.simulation.adaptive.collocation`) in the coordinates y = (q, v). Its
end is *projected*: quaternions to unit length, positions onto g(q, t) = 0 by least-energy corrections A†ᵀ g, velocities
onto A v + gₜ = 0 the same way. The correction is of the size of the local error, so the order is kept and nothing
accumulates across the manifold.

Picard iteration needs steps that are short against the problem's fastest rate, whatever the error is. Where that and
not the error limits them, steps are Radau's, solved by Newton's method (:mod:`whippletree.simulation.adaptive.newton`),
until Picard iteration would do again: the observed contraction decides, and the eigenvalues of ∂ẏ/∂y.

A step has eight points. In long runs whose steps the error limits, and not their iteration, it has twelve: the steps
are longer by more than they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.collocation import step_control
from whippletree.compiler.rollout.collocation.step_control import COLLOCATION_ITERATIONS, HALVINGS, LEAP
from whippletree.errors import IntegrationError, StepError, WhippletreeError
from whippletree.simulation.adaptive.collocation import Polynomial, Rule, gauss_rule, radau_rule
from whippletree.simulation.adaptive.held_tolerance import LOOK_AGAIN, LOOK_SOON, HeldTolerance
from whippletree.simulation.adaptive.motion_pieces import MotionPiece, Progress, Statistics
from whippletree.simulation.adaptive.newton import NO_RATES, Stiffness, radau_modes, sizes_of
from whippletree.simulation.adaptive.strides import AcceptedStep, Departure, StepSolver, Stride, TriedStep
from whippletree.simulation.adaptive.user_events import Event, locate_events

CONVERGED_POINTS = 1e-3
"""How small, in units of the tolerance, the last change of the collocation points must be."""

SETTLING = 5
"""Iterations that every step may take before it must converge."""

SLOW_CONTRACTION, EASED = 0.2, 0.1
"""Contraction of a Picard iteration from which stiffness is looked for; and the one that would be left to it where
Newton's method is given up again."""

WORTHWHILE, DEAR = 2.0, 150
"""How much longer than Picard's a step must be for Newton's method; and the size of the state from which it must be so
by the cube of the size, up to ``LEAP``: its matrices take longer than Picard iteration."""

LONG_RUN = 100
"""Steps of a run from which the number of points is chosen anew, whenever Picard iteration is looked at. (Code for the
other number has to be compiled, once on each machine.)"""

STALLED_CHANGE, NO_LONGER_FALLING = 0.1, 0.5
"""Change, in units of the tolerance, at which an iteration may stop if it no longer gets nearer to the goal; and the
ratio of a change to that of two iterations before from which that is so."""

MOVE, MOST_MOVES = 0.9, 6
"""By how much, and how often, a step that does not converge is shortened to move its points."""

SHORTEST_STEP = 1e-14
"""Share of the time, and s before 1 s, below which no step is tried: fifty times the rounding of the time itself."""

KINKED = 1e2
"""Distance from the manifold, in units of the tolerance, that a smooth step does not reach."""

JUMPED = 1e2
"""Difference, times the length of a step and in units of the tolerance, between the rates at its ends and those that
its polynomial has there, which a smooth step does not reach: for it this is what the polynomial leaves out, at most 1
or a few."""

SHORTEST_AT_KINKS = 1e-9
"""Length, s, below which a step is kept whatever it missed."""

MOST_SLACK = 1e4
"""How far the tolerance of a single step may be relaxed at a dead point."""


class Integrand(Protocol):
    """The system to integrate: an ordinary differential equation on a manifold."""

    def rates(self, t: Array, y: Array) -> Array:
        """ẏ (m, n) at m states on (or near) the manifold."""

    def project(self, t: float, y: Array) -> Array:
        """The nearest state on the manifold."""


Correction: TypeAlias = Callable[[Array], Array]
"""From slopes ẏ (s, n) at the points of a step to better ones; the solution stays as it is."""

Corrector: TypeAlias = Callable[[Array, Array, Array, Array], Correction]
"""From the times (s,) of the points, the state (n,) at the start, the weights (s, s) of a step (states are start +
weights @ slopes) and the first slopes (s, n) to the correction with which its equations are solved."""


def worthwhile(size: int) -> float:
    """How much longer than Picard's a step must be for Newton's method, for a state of this size."""
    return float(min(LEAP, WORTHWHILE * max(1.0, size / DEAR) ** 3))


@dataclass
class Integrator:
    """Steps through time; iterate over :meth:`pieces`."""

    problem: Integrand
    rtol: float
    atol: float
    events: tuple[Event, ...] = ()
    event_tolerance: float = 1e-12
    """How exactly an event's time is located, s."""
    largest_step: float = np.inf
    """s; may be changed between two pieces."""
    dead_points: bool = True
    """Whether there may be configurations near which shorter steps do not help: loops have them, trees do not."""
    statistics: Statistics = field(default_factory=Statistics)
    rule: Rule = field(default_factory=gauss_rule)
    finer_rule: Rule | None = None
    """Rule of Picard steps with more points, for long runs; None if there is to be none."""
    give_up: Callable[[float, float], None] | None = None
    """Called with the time and the length of a step that was rejected: raises where enough has been tried."""
    corrector: Corrector | None = None
    """How the equations of a step are solved; None for Picard iteration or Newton's, as the problem asks for."""
    compiled: StepSolver | None = None
    """Solver of steps by machine code where the iteration is Picard's."""
    ahead: int = LOOK_AGAIN
    """Steps that machine code may take before anybody looks at them."""
    solver: str = "auto"
    """``"picard"`` or ``"newton"`` where the iteration is not left to the contraction that is observed."""
    stride: Stride = field(default_factory=lambda: Stride([]))
    """The steps that were taken in one call, which :meth:`pieces` hands out one by one."""
    tolerance: Callable[[Array], float] | None = None
    """The relative tolerance that a state allows, or the worst of several; None where it is the same everywhere."""
    may_jump: Callable[[], bool] | None = None
    """Whether rates may jump, as a controller's do: no point of a Gauss step sees a jump in the first or the last
    fiftieth of its length. None where they never do."""

    def __post_init__(self) -> None:
        may_rise = self.corrector is None and self.solver != "picard"
        self._held = HeldTolerance(
            self.rtol, self.atol, self.statistics, self.problem.rates, self._stiffness, self.tolerance, may_rise
        )

    def pieces(self, start: Progress, end: float) -> Iterator[MotionPiece]:
        """Accepted steps from a start to a time, or to a terminal event.

        Raises:
            IntegrationError: if a step cannot meet the tolerances or the state stops being finite.
        """
        t, length, guess, error, tangent = start.time, start.length, start.guess, start.error, start.tangent
        self._held.begin(start.rtol)
        # a state that an earlier step has left is on the manifold: projecting it again would change its last bits
        y = self.problem.project(t, np.asarray(start.state, dtype=float)) if guess is None else start.state
        before = [event.function(t, y) for event in self.events]
        terminal = {event.name for event in self.events if event.terminal}
        slope = np.zeros(len(y))
        if guess is None:
            slope = self.problem.rates(np.array([t]), y[None])[0]
            length = self._first_length(y, slope, end - t)
        stiff, failed = start.stiff or self.solver == "newton", start.failed
        while t < end:
            self._held.look(t, y, length, guess, failed)
            length = min(length, self.largest_step, end - t)
            basis = guess or _constant(t, length, y, slope, self.rule)
            stride = Stride([]) if failed else self._stride(t, y, length, basis, error, end, stiff, tangent)
            used, tangent = stride.tangent, stride.tangent_after
            if stride.unsolved and not stiff and self._stiffness_of(t, y, length) is not None:
                self._reject(t, length)
                stiff, tangent = True, used
                continue
            if stride.kept and self._looks_for_jumps:
                stride, length = self._up_to_jump(stride, length)
                if not stride.kept:
                    self._reject(t, length)
                    continue
            kept, rtol = self._held.up_to_rounding(
                stride.kept or [self._single(t, y, length, end, basis, error, stiff)]
            )
            if len(kept) < len(stride.kept):
                stride = Stride(kept)
            self.stride = stride if stride.kept else Stride(kept)
            self._held.notice(kept)
            failed = stride.failed and bool(stride.kept)
            for step in kept:
                begin, t, y, guess = t, step.end, step.state, step.solution.polynomial
                length, error, stiff = step.next_length, step.solution.error, step.solution.stiff
                if stride.kept:
                    self._count(step)
                if step is kept[-1] and t < end:
                    self._held.hold_to(rtol)
                    stiff = self._stiff_after(step, stride)
                    if failed and stiff and not step.solution.stiff:
                        self._reject(t, length)
                        # in vain by Picard iteration: machine code has Newton's method as well
                        failed, tangent = False, used
                following = self._guess_after(step, stiff)
                found = locate_events(self.events, begin, step, before, self.event_tolerance)
                stop = next((time for name, time in found if name in terminal), None)
                if stop is not None:
                    found = [f for f in found if f[1] <= stop]
                    t, y = stop, self._project(stop, guess(stop))
                interpolant, guess = guess, following
                last = step is kept[-1]
                at_hand = tangent if last else used
                reached = Progress(t, y, length, guess, stiff, error, failed and last, self._held.rtol, at_hand)
                yield MotionPiece(begin, reached, interpolant, tuple(found))
                if stop is not None:
                    return

    def _stride(
        self,
        t: float,
        y: Array,
        length: float,
        guess: Polynomial,
        error: float,
        end: float,
        stiff: bool,
        tangent: Array | None,
    ) -> Stride:
        """Steps by machine code: none where that is not at hand, or where the first of them is not good enough."""
        tried = self.statistics.steps + self.statistics.rejections
        if self.compiled is None or self.largest_step < np.inf or not self.compiled.prepare(tried):
            return Stride([])
        most = min(self.ahead, self._held.steps_to_look())
        if tangent is not None:
            # counted over the run, so that it does not matter where it was taken up
            between = LOOK_AGAIN if tangent.size else LOOK_SOON
            left = between - self.statistics.steps % between
            tangent, most = tangent if left < between else None, min(most, left)
        return self.compiled.stride(
            Departure(
                t, y, length, guess, error, end, most, self._held.rtol, self._held.atol, stiff, self.solver, tangent
            )
        )

    @property
    def _looks_for_jumps(self) -> bool:
        # with a corrector, rates at a state depend on unknowns of the step, and its Radau points see the end
        return self.corrector is None and self.may_jump is not None and self.may_jump()

    def _up_to_jump(self, stride: Stride, length: float) -> tuple[Stride, float]:
        """The steps of a stride before the first with a jump that its points have not seen, and the length after them:
        of the next step if there are none."""
        jumped = self._jumps([(step.solution, step.end, step.state) for step in stride.kept])
        if not jumped.any():
            return stride, length
        first = int(np.argmax(jumped))
        half = stride.kept[first].solution.polynomial.length / 2
        kept = stride.kept[:first]
        if kept:
            self.statistics.rejections += 1
            kept[-1] = kept[-1]._replace(next_length=half)
        return Stride(kept), half

    def _jumps(self, steps: Sequence[tuple[TriedStep, float, Array]]) -> Array:
        """Whether rates jump near the beginning or the end of each of some steps in a row, (steps,) bool.

        The rates at the ends are compared with those of the polynomial there. Radau steps have a point at their end,
        and fast parts that decay within them: they are not looked at.
        """
        polynomials = [trial.polynomial for trial, _, _ in steps]
        lengths = np.array([own.length for own in polynomials])
        times = np.array([polynomials[0].start, *(end for _, end, _ in steps)])
        states = np.stack([polynomials[0].origin, *(state for _, _, state in steps)])
        try:
            rates = self.problem.rates(times, states)
        except NO_RATES:
            return np.zeros(len(steps), dtype=bool)
        slopes = np.stack([own.slopes_at_ends() for own in polynomials])
        missed = lengths[:, None, None] * (np.stack([rates[:-1], rates[1:]], axis=1) - slopes)
        scale = self._held.atol + self._held.rtol * np.maximum(np.abs(states[:-1]), np.abs(states[1:]))
        sizes = np.sqrt(np.mean(np.square(missed / scale[:, None]), axis=-1)).max(axis=1)
        stiff = np.array([trial.stiff for trial, _, _ in steps])
        return np.asarray((sizes > JUMPED) & ~stiff & (lengths > SHORTEST_AT_KINKS))

    def _count(self, step: AcceptedStep) -> None:
        """Costs of a step by machine code."""
        self.statistics.steps += 1
        self.statistics.rejections += step.rejections
        self.statistics.iterations += step.solution.iterations
        self.statistics.newton_steps += step.solution.stiff
        self.statistics.jacobians += step.solution.stiff
        self.statistics.projections += int(step.correction > 0)
        self.statistics.largest_correction = max(self.statistics.largest_correction, step.correction)

    def _single(
        self, t: float, y: Array, length: float, end: float, guess: Polynomial, error: float, stiff: bool
    ) -> AcceptedStep:
        """One accepted step, by whatever it takes."""
        rejected = self.statistics.rejections
        stiffness = self._stiffness_ahead(t, y, min(length, end - t), guess) if stiff else None
        trial, then, state = self._take_step(t, y, length, end, guess, stiffness)
        step = trial.polynomial.length
        trial = trial._replace(before=step_control.error_before(error, step / guess.length, trial.order))
        return AcceptedStep(trial, then, state, step * self._growth(trial), 0.0, self.statistics.rejections - rejected)

    def _stiff_after(self, step: AcceptedStep, stride: Stride) -> bool:
        """Whether the step after an accepted one is solved by Newton's method."""
        if step.solution.stiff:
            if stride.kept or self.solver != "auto":
                return not stride.eased
            found = self._stiffness(step.end, step.state)
            return not step.next_length * found.radius * self.rule.contraction < EASED
        trial, (t, y) = step.solution, (step.end, step.state)
        if self.statistics.steps % LOOK_AGAIN == 0 and self.corrector is None and self.solver == "auto":
            return self._stiff_behind(trial, t, y)
        held_back = trial.growth_by_error > worthwhile(len(y)) * trial.growth_by_contraction
        slow = held_back and trial.contraction > SLOW_CONTRACTION
        if not (slow or stride.failed):
            return False
        length = trial.polynomial.length * min(trial.growth_by_error, LEAP) if slow else step.next_length
        return self._stiffness_of(t, y, length) is not None

    def _guess_after(self, step: AcceptedStep, stiff: bool) -> Polynomial:
        """The polynomial that the next step begins with: as many terms as it will have points."""
        trial, steps = step.solution, self.statistics.steps
        guess = trial.polynomial
        if self.finer_rule is None or stiff or steps < LONG_RUN or steps % LOOK_AGAIN:
            return guess
        by_error = trial.growth_by_error < trial.growth_by_contraction
        return guess.with_points(len((self.finer_rule if by_error else self.rule).nodes))

    def _rule_of(self, guess: Polynomial) -> Rule:
        """The rule of a Picard step that begins with this polynomial."""
        finer = self.finer_rule
        return finer if finer is not None and len(guess.coefficients) == len(finer.nodes) else self.rule

    def _take_step(
        self,
        t: float,
        y: Array,
        length: float,
        end: float,
        guess: Polynomial,
        stiffness: Stiffness | None,
    ) -> tuple[TriedStep, float, Array]:
        """An accepted step, its end, and the projected state there.

        Where forces have a kink that none of a step's points has seen (a ball that rolls over an edge just before the
        end), the step leaves the manifold by more than its error; where they jump there, rates at its ends are others
        than its polynomial's: then it is taken again, shorter.
        """
        while True:
            trial = self._find_accepted(t, y, min(length, end - t), guess, stiffness)
            polynomial = trial.polynomial
            then = end if polynomial.length >= end - t else t + polynomial.length
            raw = polynomial.end
            try:
                state = self._project(then, raw)
            except NO_RATES:
                if polynomial.length <= SHORTEST_AT_KINKS:
                    raise
                length = self._take_back(trial)
                continue
            scale = self._held.atol + self._held.rtol * np.maximum(np.abs(y), np.abs(state))
            off = float(np.abs((state - raw) / scale).max(initial=0.0))
            kinked = off > KINKED and not self.dead_points
            jumped = self._looks_for_jumps and bool(self._jumps([(trial, then, state)])[0])
            if not (kinked or jumped) or polynomial.length <= SHORTEST_AT_KINKS:
                return trial, then, state
            length = self._take_back(trial)

    def _take_back(self, trial: TriedStep) -> float:
        """Count a step that was accepted as rejected; the length to try next."""
        self.statistics.steps -= 1
        self.statistics.newton_steps -= trial.stiff
        self._reject(trial.polynomial.start, trial.polynomial.length)
        return trial.polynomial.length / 2

    def _find_accepted(
        self, t: float, y: Array, length: float, guess: Polynomial, stiffness: Stiffness | None
    ) -> TriedStep:
        """Try steps of falling length until one meets the tolerance.

        A step with a point next to a dead point of the mechanism is disturbed by magnified rounding, and a shorter step
        even more. So a slightly shorter one, whose points lie elsewhere, is tried a few times; then the tolerance of
        this one step is relaxed, tenfold at a time: the dead point has no more digits. ``statistics.relaxed`` tells how
        far that went.

        A step into states that have no rates (a controller that returns NaN, a point so far off that its loops do not
        close) is shortened too, up to the last that has.
        """
        shortest = SHORTEST_STEP * max(1.0, abs(t))
        longest, moves, halvings, slack, rejected = length, 0, 0, 1.0, 0.0
        none: WhippletreeError | None = None
        while length > shortest:
            try:
                with np.errstate(all="ignore"):  # an iteration that diverges passes by numbers that are none
                    trial = self._trial(t, y, length, guess, slack, stiffness)
            except NO_RATES as error:
                none, length = error, length / 2
                self._reject(t, length)
                continue
            self.statistics.iterations += trial.iterations
            if trial.error <= 1.0:
                self.statistics.steps += 1
                self.statistics.newton_steps += stiffness is not None
                self.statistics.relaxed = max(self.statistics.relaxed, slack)
                return trial._replace(rejected=rejected)
            self._reject(t, length)
            if np.isfinite(trial.error):
                rejected, length = length, length * self._growth(trial)
                longest = length
            elif stiffness is None and (found := self._stiffness_of(t, y, length)) is not None:
                stiffness = found
            elif not self.dead_points or (halvings < HALVINGS and self._is_stiff(t, y, length, stiffness)):
                # stiff: the iteration contracts in short steps only
                halvings, rejected, length = halvings + 1, length, length * 0.5
            elif moves < MOST_MOVES:
                moves, length = moves + 1, length * MOVE
            elif slack < MOST_SLACK:
                moves, length, slack = 0, longest, slack * 10.0
            else:
                length *= 0.5
        if none is not None:
            raise none
        raise StepError(
            f"the integration stopped at t = {t:.9g} s: no step, however short, meets rtol = {self._held.rtol:g} and "
            f"atol = {self._held.atol:g}. The motion runs into a singular configuration, or the forces grow without "
            f"bound.",
            t,
        )

    def _reject(self, t: float, length: float) -> None:
        self.statistics.rejections += 1
        if self.give_up is not None:
            self.give_up(t, length)

    def _trial(
        self,
        t: float,
        y: Array,
        length: float,
        guess: Polynomial,
        slack: float = 1.0,
        stiffness: Stiffness | None = None,
    ) -> TriedStep:
        """One step, iterated from the last polynomial's continuation; ``slack`` multiplies the tolerance."""
        rule = self._rule_of(guess) if stiffness is None else radau_rule()
        tried = self.statistics.steps + self.statistics.rejections
        if self.compiled is not None and self.compiled.prepare(tried):
            found = self.compiled.solve(
                t, y, length, guess, slack * self._held.rtol, slack * self._held.atol, stiffness is not None
            )
            if found is not None:
                return found
        times = t + length * rule.nodes
        slopes = guess.slopes(times)
        weights = length * rule.weights
        moved = weights @ slopes
        scale = slack * (self._held.atol + self._held.rtol * np.maximum(np.abs(y), np.abs(y + moved).max(axis=0)))
        if stiffness is not None:
            correct: Correction = stiffness.corrector(radau_modes(), length, times, y, weights)
        else:
            correct = (self.corrector or self._picard)(times, y, weights, slopes)
        # of an oscillation the changes of positions and velocities take turns: two iterations are compared
        first, last, earlier, stiff = np.inf, np.inf, np.inf, stiffness is not None
        for iteration in range(1, COLLOCATION_ITERATIONS + 1):
            slopes = correct(slopes)
            before, moved = moved, weights @ slopes
            change = _size((moved - before) / scale)
            if not np.isfinite(change) or (iteration > SETTLING and change > earlier and change > 1.0):
                break
            # rounding may stop the changes from falling before the goal is reached: then they are as small as they get
            stalled = iteration >= SETTLING and change > NO_LONGER_FALLING * earlier and change <= STALLED_CHANGE
            if change <= CONVERGED_POINTS or stalled:
                polynomial = Polynomial(t, length, y, rule.to_coefficients @ slopes)
                contraction = float(step_control.mean_contraction(change, first, iteration))
                return TriedStep(polynomial, _size(polynomial.truncation() / scale), iteration, contraction, stiff)
            first, last, earlier = (change if iteration == 1 else first), change, last
        return TriedStep(Polynomial(t, length, y, rule.to_coefficients @ slopes), np.inf, iteration, np.inf, stiff)

    def _picard(self, times: Array, y: Array, weights: Array, slopes: Array) -> Correction:
        return lambda slopes: self.problem.rates(times, y + weights @ slopes)

    def _growth(self, trial: TriedStep) -> float:
        """How much longer the next step is."""
        limits = trial.growth_by_error, trial.growth_by_contraction
        growth = float(step_control.growth(trial.iterations, *limits, not self.dead_points or trial.stiff))
        if not trial.rejected:
            return growth
        return min(growth, float(step_control.growth_after_rejection(trial.rejected, trial.polynomial.length)))

    # --- Stiffness: when Newton's method takes the place of Picard iteration, and when it gives it back ---------------

    def _stiffness(self, t: float, y: Array) -> Stiffness:
        """∂ẏ/∂y at a state."""
        self.statistics.jacobians += 1
        return Stiffness(self.problem.rates, t, y, sizes_of(y, self._held.rtol, self._held.atol))

    def _stiffness_ahead(self, t: float, y: Array, length: float, guess: Polynomial) -> Stiffness:
        """∂ẏ/∂y in the middle of a step, as the mean slope of the last one leads there: it fits both ends."""
        with suppress(*NO_RATES):
            return self._stiffness(t + length / 2, y + length / 2 * guess.coefficients[0])
        return self._stiffness(t, y)

    def _stiff_behind(self, trial: TriedStep, t: float, y: Array) -> bool:
        """Whether steps after a Picard step could be longer but for an error in stiff directions.

        (1 − h J)⁻¹ leaves of an error what is left of it after a step of Newton's method.
        """
        h, scale = trial.polynomial.length, self._held.atol + self._held.rtol * np.abs(y)
        least = worthwhile(len(y)) * min(2.0, max(1.0, trial.growth_by_error))
        found = self._stiffness_of(t, y, LEAP * h) if least < LEAP else None
        if found is None:
            return False
        error = found.filter_error(h, trial.polynomial.truncation() * np.sign(trial.polynomial.coefficients[-1]))
        growth = float(step_control.growth_by_error(_size(error[None] / scale), trial.order))
        return min(growth, LEAP) > least

    def _is_stiff(self, t: float, y: Array, length: float, stiffness: Stiffness | None) -> bool:
        """Whether it may be stiffness, and no dead point, that keeps a step from being solved."""
        return stiffness is not None or self._stiffness_of(t, y, length, EASED) is not None

    def _stiffness_of(self, t: float, y: Array, length: float, slow: float = step_control.SLOWEST) -> Stiffness | None:
        """∂ẏ/∂y at a state, if Picard iteration over a step of this length would be slow because of it."""
        if self.corrector is not None or self.solver == "picard":
            return None
        try:
            found = self._stiffness(t, y)
        except IntegrationError:
            return None  # a controller has no answer next to this state
        return found if length * found.radius * self.rule.contraction > slow else None

    def _first_length(self, y: Array, slope: Array, duration: float) -> float:
        """A cautious first step: what moves the state by about a hundredth of its size."""
        scale = self._held.atol + np.maximum(np.abs(y), 1.0)
        fastest = float(np.abs(slope / scale).max(initial=0.0))
        return min(duration, 0.01 / fastest if fastest > 0 else duration)

    def _project(self, t: float, y: Array) -> Array:
        state = self.problem.project(t, y)
        if not np.all(np.isfinite(state)):
            raise IntegrationError(f"the integration stopped at t = {t:.9g} s: the state is no longer finite", t)
        correction = float(np.abs(state - y).max(initial=0.0))
        self.statistics.projections += int(correction > 0)
        self.statistics.largest_correction = max(self.statistics.largest_correction, correction)
        return state


def _constant(t: float, length: float, y: Array, slope: Array, rule: Rule) -> Polynomial:
    """A guess for a first step, from the slope at its start."""
    return Polynomial(t, length, y, np.concatenate([slope[None], np.zeros((len(rule.nodes) - 1, len(y)))]))


def _size(errors: Array) -> float:
    """Root mean square over components, the largest over states."""
    return float(np.sqrt(np.mean(np.square(errors), axis=-1)).max(initial=0.0)) if errors.size else 0.0
