"""Decisions of a kernel that takes steps of collocation: when a step has converged, is kept, shortened, or handed back.

They depend on a few numbers, whatever the size of the state; kernels add what they do to whole states: written out for
one model (:mod:`~whippletree.compiler.rollout.collocation.collocation_kernel`), or as loops over the components of any
(:mod:`~whippletree.compiler.rollout.collocation.collocation_calls`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, maximum, minimum, select, sqrt
from whippletree.compiler.program import Block, Buffer, Dimension, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.collocation import step_control
from whippletree.compiler.rollout.collocation.collocation_rates import HUGE
from whippletree.compiler.rollout.collocation.questions import AskingIteration, is_old

STEP_ROUND, KEPT = "round", "kept"
"""The counter of the rounds, and the number of a step that is kept."""

STEPS = 16
"""Most steps of a call."""

CONVERGED, GIVEN_UP, IN_DOUBT, OFF, SLOW_ITERATION, EASED_ITERATION, OLD_TANGENT = 1, 2, 3, 4, 5, 6, 7
"""Why a call ended: nothing is wrong; a step was not solved; a block matrix had pivots that only the reference can
judge; the end of a step was too far off the constraints; Picard iteration limits the steps; Newton's method is no
longer needed; a controller in Python was asked so often that a new tangent of it costs less."""


class IterationLimits(NamedTuple):
    """When an iteration ends; changes are in units of the tolerance."""

    most: int
    """Iterations."""
    settling: int
    """Iterations before it is judged by how it goes on."""
    converged: float
    """Change that is small enough."""
    stalled: float
    """Change that is small enough once it no longer falls."""
    falling: float
    """Ratio of a change to that of two iterations before from which they no longer fall."""
    closing: int
    """Corrections of positions at a point."""
    kinked: float
    """How far a step may miss the constraints, in units of the tolerance, where only a kink of the forces explains it;
    infinite where dead points do as well."""
    shortest: float
    """Length, s, of a step that is kept whatever it missed."""
    difference: float
    """Share of a component by which it is moved for a difference."""


class Scheme(NamedTuple):
    """Points of a step of length 1."""

    name: str
    """Which tells schemes apart."""
    nodes: Array
    weights: Array
    """A (s, s): what slopes (columns) add to the states at the points (rows)."""
    to_coefficients: Array
    """Slopes at the points to coefficients in Legendre polynomials, (s, s)."""
    values: Array | None = None
    """Of Newton's method: A = T diag(values) T^-1, one of each conjugate pair; None for Picard iteration."""
    into: Array | None = None
    """Rows of T^-1 (p, s)."""
    back: Array | None = None
    """Columns of T (s, p), doubled for pairs."""


class Notes(NamedTuple):
    """Reports on each step that was kept, one number each."""

    start: Any
    length: Any
    end: Any
    next_length: Any
    error: Any
    iterations: Any
    """Those of rejected steps before it too."""
    contraction: Any
    correction: Any
    """The furthest way back to the constraints."""
    rejections: Any
    """Longer steps that were tried before."""
    gap: Any
    """The largest residual of a rigid position row at its end, m or rad, where the kernel closes them; else 0."""


class Verdict(NamedTuple):
    """Reports on a call, and of the last step that was tried, kept or not."""

    kept: Any
    """How many steps were."""
    outcome: Any
    error: Any
    change: Any
    """The last one of its iteration, in units of the tolerance."""
    first: Any
    """The first one."""
    iterations: Any
    crossing: Any
    """Positive where a guard may have vanished in the last step that was kept."""


class CollocationFrame:
    """Blocks on these numbers:

    clock        (t, h, start and length of the last step, its error) to begin with
    bounds       (end, how many steps at most, or 0 for a single trial, rtol, atol, contraction of Picard iteration that
                 ends the call, the one that would be left to it and ends the call of Newton's, size of the state,
                 how much longer steps must become for Newton's method, residual of a position row, m or rad, that
                 needs no correction)
    now          the clock of the step in hand
    worst        the largest squared change of a point in an iteration, and the sum of those of all points
    tally        last and first change of the iteration, its rounds, its outcome so far, and the change before the last
    left out     the sum over components of the squared error of a step, in units of the tolerance
    way back     of the end of a step to the constraints: the furthest of a component, that in units of the tolerance,
                 and the sum of all
    doubt        positive where a matrix had pivots that only the reference can judge
    rejections   longer steps that were tried before the one in hand: their number, iterations, the length of the last

    and, where ``trust`` is given (1 if a controller in Python has a tangent, else -1),

    asking       positive where an iteration asks the controller, which its tangent stands for in all others
    questions    how often it was asked in the step in hand
    pace         last and first change of the iteration, and its rounds, before the second question; the change that the
                 last question after that has made
    """

    def __init__(
        self,
        scheme: Scheme,
        patience: IterationLimits,
        loops: bool,
        given: Mapping[str, tuple[Dimension, ...]],
        found: Mapping[str, tuple[Dimension, ...]],
    ) -> None:
        """``loops``: whether there are constraints, and so dead points; ``given`` and ``found``: further inputs and
        outputs."""
        self.patience, self.loops = patience, loops
        self.s, self.order, self.stiff = len(scheme.nodes), len(scheme.nodes) + 1, scheme.values is not None
        space = self.space = WorkSpace()
        self.asks_seldom = "trust" in given
        inputs: dict[str, tuple[Dimension, ...]] = {"clock": (5,), "bounds": (9,), **given}
        outputs = {**found, "notes": (STEPS, len(Notes._fields)), "verdict": (len(Verdict._fields),)}
        space.add(*[Buffer(name, "input", shape) for name, shape in inputs.items()])
        space.add(*[Buffer(name, "output", shape) for name, shape in outputs.items()])
        space.work(now=(5,), worst=(2,), tally=(5,), left_out=(1,), way_back=(3,), doubt=(1,), error=(1,))
        space.work(turn=(STEPS,), count=(1,), outcome=(1,), rejections=(3,), control=(3,), correction=(1,))
        space.work(beginning=(1,), iterating=(1,), concluding=(1,), ending=(1,), keeping=(1,), failed=(1,), over=(1,))
        self.pace = "pace" if self.asks_seldom else "tally"
        if self.asks_seldom:
            space.work(asking=(1,), questions=(1,), pace=(4,))
        space.numbers_list("this", STEPS)
        space.table("nodes", scheme.nodes)

    @property
    def rounds(self) -> int:
        """Most rounds of a call: each step takes one for each iteration, one to look, one to end, one for guards."""
        return STEPS * ((2 if self.asks_seldom else 1) * self.patience.most + 3)

    def take_over(self) -> list[Statement]:
        """Take over the clock; the first step is to begin."""
        at, put, each = self.space.at, self.space.put, self.space.each
        return [
            traced_block(
                lambda clock: [clock, [1] + [0] * (STEPS - 1), [0], [GIVEN_UP], [1], [0]],
                [at("clock")],
                each(["now", "turn", "count", "outcome", "beginning", "doubt"]),
            ),
            traced_block(lambda: [[HUGE, HUGE, 0, GIVEN_UP, HUGE], [0]], [], each(["tally", "error"])),
            put(0, at("rejections")),
            put(-1, *each(["ending", "iterating", "concluding", "keeping", "over"])),
        ]

    def begin(self) -> Block:
        """A step begins: its iteration, or the look at its neighbours."""
        flags: list[list[Any]] = [[1]] if not self.stiff else [[-1], [1]]
        names = ["tally", "doubt", "beginning", "iterating", *(["looking"] if self.stiff else [])]
        if self.asks_seldom:
            flags, names = [*flags, [1], [0], [HUGE, HUGE, 0, HUGE]], [*names, "asking", "questions", "pace"]
        return traced_block(lambda: [[HUGE, HUGE, 0, GIVEN_UP, HUGE], [0], [-1], *flags], [], self.space.each(names))

    def judge_iteration(self) -> Block:
        """Whether the iteration has converged, diverged, or goes on."""
        each, patience = self.space.each, self.patience

        def judge(worst: Array, tally: Array, bounds: Array, *asked: Array) -> list[Any]:
            answer = AskingIteration(*asked) if asked else None
            # of an oscillation the changes of positions and velocities take turns: two iterations are compared
            before, rounds, most = tally[4], tally[2] + 1, patience.most
            change = sqrt(worst[0] / bounds[6])
            finite = less(worst[1], math.inf)  # the sum, which a single NaN spoils
            settled = less(patience.settling, rounds)
            worse = settled & less(before, change) & less(1, change)
            if answer is not None:
                # what an answer changes has stalled where it is no less than what the last one did
                worse = worse & ~answer.is_given
                before = select(answer.is_given, answer.last_change / patience.falling, before)
                most = select(answer.known, 2, 1) * most
            stalled = less(patience.settling - 1, rounds) & less(patience.falling * before, change)
            enough = select(stalled, patience.stalled, patience.converged)
            solved = finite & ~less(enough, change)
            outcome = select(solved, CONVERGED, GIVEN_UP)
            enough_tried = ~less(rounds, most)
            done = solved | worse | ~finite | enough_tried
            first = select(less(rounds, 2), change, tally[1])
            now = [change, first, rounds, outcome, tally[0]]
            if answer is None:
                return [now, [select(done, 1, -1)]]
            done = done & ~answer.to_be_asked(solved)
            return [answer.begin_afresh(now, done), [select(done, 1, -1)], *answer.after(now, solved)]

        more = ["asking", "questions", "pace"] if self.asks_seldom else []
        reads = each(["worst", "tally", "bounds", *more, *(["trust"] if more else [])])
        return traced_block(judge, reads, each(["tally", "concluding", *more]))

    def conclude(self, then: Piece) -> Block:
        """The error of the step decides: its end is asked for, at the time ``then``, or a shorter step, or the call
        ends."""
        each, patience = self.space.each, self.patience

        def judge(
            now: Array, left_out: Array, tally: Array, doubt: Array, bounds: Array, rejections: Array, pace: Array
        ) -> list[Any]:
            t, h, *_ = now
            error = sqrt(left_out[0] / bounds[6])
            sound = ~less(0, doubt[0])
            if self.stiff:
                # matrices at states that a diverging iteration runs through say nothing, and a shorter step will do
                change, first, *_ = tally
                sound = sound | (less(first, math.inf) & ~less(change, first) & less(1, tally[2]))
            solved = less(tally[3], CONVERGED + 1 / 2)
            solved = solved & ~less(0, doubt[0]) & less(error, math.inf)
            good = solved & ~less(1, error)
            outcome = select(sound, select(solved, CONVERGED, GIVEN_UP), IN_DOUBT)
            end = select(less(h, bounds[0] - t), t + h, bounds[0])
            shorter = h * self._growth(pace, error)
            again = solved & less(1, error)
            if self.stiff:
                # a matrix of the start fits a shorter step better
                unsolved = sound & ~solved & less(rejections[0], step_control.HALVINGS)
                shorter, again = select(unsolved, h / 2, shorter), again | unsolved
            again = again & less(patience.shortest, shorter) & less(0, bounds[1])
            clock = [t, select(again, shorter, h), *now[2:]]
            flags = [select(good, 1, -1), select(good | again, -1, 1), -1, -1, select(again, 1, -1)]
            count = [rejections[0] + select(again, 1, 0), rejections[1] + select(again, tally[2], 0)]
            count.append(select(again, h, rejections[2]))
            return [[error], [outcome], clock, count, [end], *[[flag] for flag in flags]]

        writes = [*each(["error", "outcome", "now", "rejections"]), then]
        flags = each(["ending", "over", "iterating", "concluding", "beginning"])
        reads = each(["now", "left out", "tally", "doubt", "bounds", "rejections", self.pace])
        return traced_block(judge, reads, [*writes, *flags])

    def judge_end(self) -> Block:
        """Whether the end of a step is near the constraints."""
        each, patience = self.space.each, self.patience

        def judge(way: Array, now: Array, doubt: Array) -> list[Any]:
            furthest, off, total = way
            near = ~less(patience.kinked, off) | ~less(patience.shortest, now[1])
            good = near & less(total, math.inf) & ~less(0, doubt[0])
            flag = select(good, 1, -1)
            return [[flag], [-flag], [-flag], [-1], [furthest]]

        writes = each(["keeping", "failed", "over", "ending", "correction"])
        return traced_block(judge, each(["way back", "now", "doubt"]), writes)

    def _growth(self, pace: Array, error: Any) -> Any:
        """How much longer than the last step the next one is."""
        change, first, rounds, *_ = pace
        contraction = step_control.mean_contraction(change, first, rounds)
        by_contraction = step_control.growth_by_contraction(contraction, self.stiff)
        # near a dead point a slow iteration says nothing of shorter steps
        minds = self.stiff or not self.loops
        return step_control.growth(rounds, step_control.growth_by_error(error, self.order), by_contraction, minds)

    def choose_length(self) -> Block:
        """Length of the next step, contraction of the last one, and whether its iteration was too slow for Picard's."""

        def control(now: Array, bounds: Array, pace: Array, error: Array, rejections: Array) -> list[Any]:
            _, h, _, length, error_of_last = now
            change, first, rounds, *_ = pace
            contraction = step_control.mean_contraction(change, first, rounds)
            worse = maximum(error[0], step_control.error_before(error_of_last, h / length, self.order))
            by_error = step_control.growth_by_error(worse, self.order)
            by_contraction = step_control.growth_by_contraction(contraction, self.stiff)
            slow = less(bounds[7] * by_contraction, by_error) & less(bounds[4], contraction)
            growth = self._growth(pace, worse)
            limited = minimum(growth, step_control.growth_after_rejection(rejections[2], h))
            longer = h * select(less(0, rejections[2]), limited, growth)
            return [[longer, contraction, select(slow, 1, -1)]]

        reads = self.space.each(["now", "bounds", self.pace, "error", "rejections"])
        return traced_block(control, reads, [self.space.at("control")])

    def note(self) -> Block:
        """Tell of the step."""

        def note(now: Array, bounds: Array, tally: Array, error: Array, *rest: Array) -> list[Any]:
            control, correction, rejections, *gap = rest
            t, h, *_ = now
            longer, contraction, _ = control
            end = select(less(h, bounds[0] - t), t + h, bounds[0])
            rounds = tally[2] + rejections[1]
            left = gap[0][0] if gap else 0
            return [Notes(t, h, end, longer, error[0], rounds, contraction, correction[0], rejections[0], left)]

        names = ["now", "bounds", "tally", "error", "control", "correction", "rejections"]
        names += ["gap"] if "gap" in self.space.buffers else []
        return traced_block(note, self.space.each(names), [self.space.at("notes", KEPT)])

    def go_on(self) -> Block:
        """Where and how long the next step is, or why there is none in this call."""
        each = self.space.each

        def go_on(now: Array, bounds: Array, error: Array, *rest: Array) -> list[Any]:
            control, count, turn, *others = rest
            radius, asked = (others[:1], others[1:]) if self.stiff else ([], others)
            t, h, *_ = now
            longer, _, slow = control
            end = select(less(h, bounds[0] - t), t + h, bounds[0])
            kept = count[0] + 1
            changes = less(longer * radius[0][0], bounds[5]) if radius else less(0, slow)
            full = ~less(kept, bounds[1]) | ~less(end, bounds[0])
            outcome = select(changes, EASED_ITERATION if radius else SLOW_ITERATION, CONVERGED)
            if asked:
                old = is_old(asked, self.s, bounds[6])
                outcome = select(changes | ~old, outcome, OLD_TANGENT)
                changes = changes | old
            over = select(changes | full, 1, -1)
            clock = [end, minimum(longer, bounds[0] - end), t, h, error[0]]
            return [clock, [kept], [0, *turn[:-1]], [outcome], [over], [-over], [0, 0, 0], [-1]]

        names = ["now", "bounds", "error", "control", "count", "turn", *(["radius"] if self.stiff else [])]
        names += ["questions", "pace", "trust"] if self.asks_seldom else []
        writes = ["now", "count", "turn", "outcome", "over", "beginning", "rejections", "keeping"]
        return traced_block(go_on, each(names), each(writes))

    def verdict(self, *crossing: str) -> Block:
        """Tell of the call; ``crossing``: the flag of guards, where there are any."""

        def tell(count: Array, outcome: Array, error: Array, tally: Array, *crossing: Array) -> list[Any]:
            change, first, rounds, *_ = tally
            crossed = crossing[0][0] if crossing else 0
            return [Verdict(count[0], outcome[0], error[0], change, first, rounds, crossed)]

        told = ["count", "outcome", "error", "tally", *crossing]
        return traced_block(tell, self.space.each(told), [self.space.at("verdict")])


def truncation(first: Any, second: Any, third: Any) -> Any:
    """Size of the term after three whose sizes are given, as they decay."""
    before, last = maximum(first, second), maximum(second, third)
    decay = minimum(last / select(less(0, before), before, 1), 1)
    return last * select(less(0, before), decay, 0)


def legendre(x: Any, count: int) -> list[Any]:
    """P₀ … at x, by Bonnet's recursion."""
    P = [x * 0 + 1, x][:count]
    for k in range(1, count - 1):
        P.append(((2 * k + 1) * x * P[k] - k * P[k - 1]) / (k + 1))
    return P
