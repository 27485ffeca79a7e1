"""Steps of collocation as one kernel: many of them in one call, each iterated until it has converged.

The kernel goes through rounds. In each, rates are worked out at some states, and what comes next depends on what they
were for (only one of these at a time; another scene of a batch may be elsewhere):

    beginning    the last step's polynomial, continued, gives the first slopes K at the points of a step, and what they
                 add to its start, Z = h A K
    looking      Newton's method only: rates at neighbours of the start give J, and (1 - h l J)^-1 for the modes l of A
                 (:mod:`~whippletree.compiler.rollout.collocation_newton`)
    iterating    rates at the points give better slopes; converged, diverged, or on?    (:class:`IterationLimits`)
    ending       the end of the step, brought back to the constraints: the step is kept, and the next one begins

So the code of the rates, which is nearly all of the code, exists once, whatever they are for. The kernel returns to
its caller when it has come to the end or taken as many steps as asked for, and whenever a step was not good enough or
its iteration should be changed: what becomes of that is decided in :mod:`whippletree.simulation.adaptive.integrator`,
whose mathematics this is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.scalars import less, maximum, minimum, select, sqrt
from whippletree.arithmetic.trace import lift_constants
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Collect,
    Each,
    If,
    Index,
    Loop,
    Program,
    Statement,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout import step_control
from whippletree.compiler.rollout.collocation_newton import NewtonIteration
from whippletree.compiler.rollout.collocation_rates import HUGE, POINT, ModelRates, RateBlocks
from whippletree.compiler.rollout.step_watch import WATCHED, GuardBlocks, StepWatch
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import largest
from whippletree.model import Model

STEP_ROUND, KEPT = "round", "kept"
"""The counter of the rounds, and the number of a step that is kept."""

CONSTANTS = "constants"
"""The argument with the numbers of a controller."""

STEPS = 16
"""Most steps of a call."""

CONVERGED, GIVEN_UP, IN_DOUBT, OFF, SLOW_ITERATION, EASED_ITERATION = 1, 2, 3, 4, 5, 6
"""Why a call ended: nothing is wrong; a step was not solved; a block matrix had pivots that only the reference can
judge; the end of a step was too far off the constraints; Picard iteration limits the steps; Newton's method is no
longer needed."""


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
    """Ratio of two changes from which they no longer fall."""
    closing: int
    """Corrections of positions at a point."""
    closed: float
    """Residual of a position row, m or rad, that needs none."""
    kinked: float
    """How far a step may miss the constraints, in units of the tolerance, where only a kink of the forces explains it;
    infinite where dead points do as well."""
    shortest: float
    """Length, s, of a step that is kept whatever it missed."""
    worthwhile: float
    """How much longer steps must become for Newton's method."""
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


Controller = Callable[[Any, Any, Any], Any]


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


class CollocationKernel:
    """The program of steps; its blocks are traced once, and only a controller's anew for each controller.

    (clock, bounds, start, guess, [active], [gains], ..., [constants]) -> (coefficients, states, notes, trial, verdict)

    ``clock``: (t, h, start and length of the last step, its error); ``bounds``: (end, how many steps at most, or 0 for
    a single trial, rtol, atol, contraction of Picard iteration that ends the call, the one that would be left to it and
    ends the call where the scheme is Newton's); ``guess`` (s, n): coefficients of the last polynomial. Of the first
    ``verdict.kept`` steps: ``coefficients`` (steps, s, n), ``states`` at their ends (steps, n) and ``notes`` (steps,
    :class:`Notes`); ``trial`` (s, n): coefficients of the last one that was tried.

    Picard's scheme and Newton's are kernels of their own: few runs are stiff, and Newton's code takes longer to compile
    than all the rest of a small model.
    """

    def __init__(
        self,
        model: Model,
        scheme: Scheme,
        patience: IterationLimits,
        control: Literal["none", "traced", "affine"],
        route: str | None,
        blocks: RateBlocks | None = None,
        guards: GuardBlocks | None = None,
    ) -> None:
        """``control``: whether a controller acts, and whether it is part of the code or comes as gains; ``blocks``: the
        equations of motion, where they are not the model's; ``guards``: what ends a call where it may vanish."""
        controlled = self.controlled = control != "none"
        self.model, self.patience = model, patience
        self.s, self.n = len(scheme.nodes), model.nq + model.nv
        self.order = self.s + 1
        space = self.space = WorkSpace()
        s, n = self.s, self.n
        given: dict[str, tuple[int, ...]] = {"clock": (5,), "bounds": (6,)}
        switches = len(constraint_set(model).switches) if model.constraints else 0
        given |= {"start": (n,), "guess": (s, n)} | ({"active": (switches,)} if switches else {})
        given |= {"gains": (model.nv, 2 + n)} if control == "affine" else {}
        given |= {} if blocks is None else blocks.inputs
        given |= {} if guards is None else StepWatch.inputs(guards)
        space.add(*[Buffer(name, "input", shape) for name, shape in given.items()])
        found = {"coefficients": (STEPS, s, n), "states": (STEPS, n), "notes": (STEPS, len(Notes._fields))}
        found |= {"trial": (s, n), "verdict": (len(Verdict._fields),)}
        space.add(*[Buffer(name, "output", shape) for name, shape in found.items()])
        self.places = max(s, n + 1, 0 if guards is None else len(WATCHED))
        # X, T: states and times at which rates F are wanted, and Y: those states on the constraints
        space.work(X=(self.places, n), Y=(self.places, n), F=(self.places, n), T=(self.places,), wanted=(self.places,))
        space.work(now=(5,), y=(n,), G=(s, n), K=(s, n), Z=(s, n), c=(s, n), reach=(n,), fine=(n,), raw=(n,))
        space.work(worst=(2,), tally=(4,), doubt=(1,), error=(1,), turn=(STEPS,), count=(1,), outcome=(1,))
        space.work(beginning=(1,), iterating=(1,), concluding=(1,), ending=(1,), keeping=(1,), going=(1,), over=(1,))
        space.work(failed=(1,), rejections=(2,))
        space.numbers_list("this", STEPS)
        space.table("nodes", scheme.nodes)
        space.table("A", scheme.weights)
        space.table("C", scheme.to_coefficients)
        if model.constraints or controlled or blocks is not None:
            space.work(q=(model.nq,), v=(model.nv,), tau=(model.nv,))
        if model.constraints:
            space.work(earlier=(model.nq,), gap=(1,), shut=(1,), open=(1,))
        self.watch = None if guards is None else StepWatch(space, guards, POINT)
        stiff = scheme.values is not None
        self.newton = NewtonIteration(space, model, scheme, patience.difference) if stiff else None
        with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the outcome tells
            equations = blocks or ModelRates(model, route, patience.closing, patience.closed)
            self._before, self._after = equations.statements(space, controlled, guards is not None)

    def program(self, control: Block | None = None, constants: int = 0) -> Program:
        """All of it, under the controller of such a block, which reads so many ``constants``, the last argument."""
        rates = (*self._before, *([] if control is None else [control]), *self._after)
        opening, beginning, stages, closing = self._frame
        address = self.space.address
        body = (
            If(address("beginning"), tuple(beginning)),
            Loop(POINT, self.places, (If(address("wanted", POINT), rates),)),
            *stages,
        )
        # each step takes a round for each iteration, one to look, one to end and one for its guards
        rounds = STEPS * (self.patience.most + 3)
        found = self.space.program(
            "collocation_steps", [*opening, Until(STEP_ROUND, rounds, address("over"), body), *closing]
        )
        if not constants:
            return found
        given = found.of_role("input")
        rest = [b for b in found.buffers if b.role != "input"]
        return replace(found, buffers=(*given, Buffer(CONSTANTS, "input", (constants,)), *rest))

    @cached_property
    def _frame(self) -> tuple[list[Statement], list[Statement], list[Statement], list[Statement]]:
        """Statements before the rounds, at the beginning of a step, after the rates of a round, and at the end."""
        address = self.space.address
        looking = [] if self.newton is None else [If(address("looking"), tuple(self._looking()))]
        # in this order, so that a stage which begins the next one waits for its rates
        stages: list[Statement] = [
            *([] if self.watch is None else [self.watch.judging()]),
            If(address("ending"), tuple(self._ending())),
            If(address("iterating"), tuple(self._iterating())),
            *looking,
        ]
        at = self.space.at
        closing = [
            Loop(POINT, self.s, (traced_block(lambda c: [c], [at("c", POINT)], [at("trial", POINT)]),)),
            self._verdict(),
        ]
        return self._opening(), self._beginning(), stages, closing

    def affine_control(self) -> Block:
        """The forces of a controller that is affine, whose gains come with the call."""
        at = self.space.at

        def act(t: Any, q: Array, v: Array, gains: Array) -> list[Array]:
            return [gains @ np.array([1, t, *q, *v], dtype=object)]

        return traced_block(act, [at("T", POINT), *self.space.each(["q", "v", "gains"])], [at("tau")])

    def control(self, controller: Controller) -> tuple[Block, list[float]]:
        """The forces of a controller at a point, and the constants that it reads: controllers that differ in their
        numbers only are the same block."""
        at = self.space.at

        def act(t: Any, q: Array, v: Array) -> list[Array]:
            return [np.asarray(controller(t, scalar_array(q), scalar_array(v)), dtype=object)]

        block = traced_block(act, [at("T", POINT), at("q"), at("v")], [at("tau")])
        code, constants = lift_constants(block.code, len(block.loads))
        own = tuple(_address(CONSTANTS, Index(None, k)) for k in range(len(constants)))
        return Block(code, (*block.loads, *own), block.stores), constants

    # ---- before and after ----------------------------------------------------------------------------------------

    def _opening(self) -> list[Statement]:
        """Take over what the call gives."""
        at, put, each = self.space.at, self.space.put, self.space.each
        flags = ("ending", "iterating", "concluding", "keeping", "going", "over")
        return [
            traced_block(
                lambda clock, y, G: [clock, y, G, [1] + [0] * (STEPS - 1), [0], [GIVEN_UP], [1], [0]],
                each(["clock", "start", "guess"]),
                each(["now", "y", "G", "turn", "count", "outcome", "beginning", "doubt"]),
            ),
            traced_block(lambda: [[HUGE, HUGE, 0, GIVEN_UP], [0]], [], each(["tally", "error"])),
            put(0, at("rejections")),
            put(-1, *each([*flags, *([] if self.newton is None else ["looking"])])),
            Loop(POINT, self.s, (put(0, at("c", POINT)),)),
            *([] if self.watch is None else self.watch.opening()),
        ]

    def _nth(self, name: str, k: int) -> Any:
        return self.space.at(name).addresses[k]

    def _verdict(self) -> Statement:
        at = self.space.at

        def tell(count: Array, outcome: Array, error: Array, tally: Array, *crossing: Array) -> list[Any]:
            change, first, rounds, _ = tally
            crossed = crossing[0][0] if crossing else 0
            return [Verdict(count[0], outcome[0], error[0], change, first, rounds, crossed)]

        told = ["count", "outcome", "error", "tally", *([] if self.watch is None else ["crossing"])]
        return traced_block(tell, self.space.each(told), [at("verdict")])

    # ---- the beginning of a step ---------------------------------------------------------------------------------

    def _beginning(self) -> list[Statement]:
        at, put, each = self.space.at, self.space.put, self.space.each

        def slopes(G: Array, node: Any, now: Array) -> list[Array]:
            t, h, last, length, _ = now
            offset, ratio = (t - last) / length, h / length
            return [vector(*_legendre(2 * (offset + ratio * node) - 1, self.s)) @ G]

        def move(K: Array, A: Array, now: Array, y: Array, reach: Array) -> list[Array]:
            Z = now[1] * (A @ K)
            return [Z, vector(*[maximum(abs(a + z), r) for a, z, r in zip(y, Z, reach, strict=True)])]

        def fine(y: Array, reach: Array, bounds: Array) -> list[Any]:
            rtol, atol = bounds[2], bounds[3]
            scale = [1 / (atol + rtol * maximum(abs(a), r)) for a, r in zip(y, reach, strict=True)]
            flags = [[1]] if self.newton is None else [[-1], [1]]
            return [scale, [HUGE, HUGE, 0, GIVEN_UP], [0], [-1], *flags]

        flags = ["iterating", *([] if self.newton is None else ["looking"])]
        looking = [] if self.newton is None else [If(self.space.address("looking"), tuple(self.newton.neighbours()))]
        reads = [at("K"), at("A", POINT), at("now"), at("y"), at("reach")]
        return [
            Loop(POINT, self.s, (traced_block(slopes, [at("G"), at("nodes", POINT), at("now")], [at("K", POINT)]),)),
            put(0, at("reach")),
            Loop(POINT, self.s, (traced_block(move, reads, [at("Z", POINT), at("reach")]),)),
            traced_block(
                fine,
                each(["y", "reach", "bounds"]),
                each(["fine", "tally", "doubt", "beginning", *flags]),
            ),
            *self._points(),
            *looking,
        ]

    def _points(self) -> list[Statement]:
        """Ask for the rates at the points of the step."""
        at = self.space.at

        def place(y: Array, Z: Array, node: Any, now: Array) -> list[Any]:
            return [y + Z, now[0] + now[1] * node]

        reads = [at("y"), at("Z", POINT), at("nodes", POINT), at("now")]
        return [
            Loop(POINT, self.places, (self.space.put(-1, at("wanted", POINT)),)),
            Loop(
                POINT,
                self.s,
                (traced_block(place, reads, [at("X", POINT), at("T", POINT)]), self.space.put(1, at("wanted", POINT))),
            ),
        ]

    def _looking(self) -> list[Statement]:
        """The matrices of Newton's method, then its iteration."""
        assert self.newton is not None
        at = self.space.at
        return [
            *self.newton.matrices(),
            *self._points(),
            traced_block(lambda: [[1], [-1]], [], [at("iterating"), at("looking")]),
        ]

    # ---- one iteration -------------------------------------------------------------------------------------------

    def _iterating(self) -> list[Statement]:
        at, put, each, address = self.space.at, self.space.put, self.space.each, self.space.address

        def move(K: Array, A: Array, now: Array, Z: Array, fine: Array, worst: Array, y: Array) -> list[Any]:
            new = now[1] * (A @ K)
            e = (new - Z) * fine
            size = e @ e
            return [new, y + new, [maximum(worst[0], size), worst[1] + size]]

        take = traced_block(lambda F: [F], [at("F", POINT)], [at("K", POINT)])
        correct = [Loop(POINT, self.s, (take,))] if self.newton is None else self.newton.correction()
        reads = [at("K"), at("A", POINT), *each(["now"]), at("Z", POINT), *each(["fine", "worst", "y"])]
        return [
            *correct,
            put(0, at("worst")),
            Loop(POINT, self.s, (traced_block(move, reads, [at("Z", POINT), at("X", POINT), at("worst")]),)),
            self._judge(),
            If(address("concluding"), tuple(self._concluding())),
        ]

    def _judge(self) -> Statement:
        at, patience = self.space.at, self.patience

        def judge(worst: Array, tally: Array) -> list[Any]:
            last, rounds = tally[0], tally[2] + 1
            change = sqrt(worst[0] / self.n)
            finite = less(worst[1], math.inf)  # the sum, which a single NaN spoils
            settled = less(patience.settling, rounds)
            worse = settled & less(last, change) & less(1, change)
            stalled = less(patience.settling - 1, rounds) & less(patience.falling * last, change)
            enough = select(stalled, patience.stalled, patience.converged)
            solved = finite & ~less(enough, change)
            outcome = select(solved, CONVERGED, GIVEN_UP)
            enough_tried = ~less(rounds, patience.most)
            done = select(solved | worse | ~finite | enough_tried, 1, -1)
            first = select(less(rounds, 2), change, tally[1])
            return [[change, first, rounds, outcome], [done]]

        return traced_block(judge, [at("worst"), at("tally")], [at("tally"), at("concluding")])

    def _concluding(self) -> list[Statement]:
        """The polynomial of the step and its error; then its end is asked for, or a shorter step, or the call ends."""
        at, put, each = self.space.at, self.space.put, self.space.each

        patience = self.patience

        def judge(c: Array, now: Array, fine: Array, tally: Array, doubt: Array, *rest: Array) -> list[Any]:
            y, bounds, rejections = rest
            t, h, *_ = now
            total: Any = 0
            for a, b, d, f in zip(*c[-3:], fine, strict=True):
                left_out = truncation(h * abs(a), h * abs(b), h * abs(d)) * f
                total = total + left_out * left_out
            error = sqrt(total / self.n)
            sound = ~less(0, doubt[0])
            solved = less(tally[3], CONVERGED + 1 / 2)
            solved = solved & sound & less(error, math.inf)
            good = solved & ~less(1, error)
            outcome = select(sound, select(solved, CONVERGED, GIVEN_UP), IN_DOUBT)
            raw = y + h * c[0]
            then = select(less(h, bounds[0] - t), t + h, bounds[0])
            shorter = h * self._growth(tally, error)
            again = solved & less(1, error)
            if self.newton is not None:
                # a matrix of the start fits a shorter step better
                unsolved = sound & ~solved & less(rejections[0], step_control.HALVINGS)
                shorter, again = select(unsolved, h / 2, shorter), again | unsolved
            again = again & less(patience.shortest, shorter) & less(0, bounds[1])
            clock = [t, select(again, shorter, h), *now[2:]]
            flags = [select(good, 1, -1), select(good | again, -1, 1), -1, -1, select(again, 1, -1)]
            count = [rejections[0] + select(again, 1, 0), rejections[1] + select(again, tally[2], 0)]
            return [[error], [outcome], raw, clock, count, raw, [then], *[[flag] for flag in flags]]

        first = [Piece((self.n,), tuple(self._nth("X", i) for i in range(self.n))), Piece((1,), (self._nth("T", 0),))]
        writes = [*each(["error", "outcome", "raw", "now", "rejections"]), *first]
        flags = each(["ending", "over", "iterating", "concluding", "beginning"])
        reads = each(["c", "now", "fine", "tally", "doubt", "y", "bounds", "rejections"])
        return [
            Loop(
                POINT,
                self.s,
                (traced_block(lambda K, C: [C @ K], [at("K"), at("C", POINT)], [at("c", POINT)]),),
            ),
            Loop(POINT, self.places, (put(-1, at("wanted", POINT)),)),
            put(1, Piece((), (self._nth("wanted", 0),))),
            traced_block(judge, reads, [*writes, *flags]),
        ]

    # ---- the end of a step ---------------------------------------------------------------------------------------

    def _ending(self) -> list[Statement]:
        """Keep the step, if its end is near the constraints, and begin the next one."""
        at, put, each, address = self.space.at, self.space.put, self.space.each, self.space.address
        state = Piece((self.n,), tuple(self._nth("Y", i) for i in range(self.n)))
        patience = self.patience

        def look(state: Array, raw: Array, y: Array, now: Array, bounds: Array, doubt: Array) -> list[Any]:
            away = [abs(a - b) for a, b in zip(state, raw, strict=True)]
            scales = [bounds[3] + bounds[2] * maximum(abs(a), abs(b)) for a, b in zip(y, state, strict=True)]
            off = largest([a / b for a, b in zip(away, scales, strict=True)])
            total = sum(away[1:], away[0])
            near = ~less(patience.kinked, off) | ~less(patience.shortest, now[1])
            good = near & less(total, math.inf) & ~less(0, doubt[0])
            flag = select(good, 1, -1)
            return [[flag], [-flag], [-flag], [-1], [largest(away)]]

        self.space.work(correction=(1,))
        writes = each(["keeping", "failed", "over", "ending", "correction"])
        return [
            traced_block(look, [state, *each(["raw", "y", "now", "bounds", "doubt"])], writes),
            If(address("failed"), (put(OFF, at("outcome")),)),
            If(
                address("keeping"),
                (
                    self._control(),
                    Collect("this", KEPT, STEPS, address("turn", KEPT)),
                    Each(KEPT, "this", tuple(self._tell_step(state))),
                    *([] if self.watch is None else self.watch.sampling(self.places)),
                    self._next(state),
                    *([] if self.watch is None else [self.watch.wait()]),
                    Loop(POINT, self.s, (traced_block(lambda c: [c], [at("c", POINT)], [at("G", POINT)]),)),
                    put(-1, at("keeping")),
                ),
            ),
        ]

    def _growth(self, tally: Array, error: Any) -> Any:
        """How much longer than the last step the next one is."""
        change, first, rounds, _ = tally
        contraction = step_control.mean_contraction(change, first, rounds)
        by_contraction = step_control.growth_by_contraction(contraction, self.newton is not None)
        # near a dead point a slow iteration says nothing of shorter steps
        minds = self.newton is not None or not self.model.constraints
        return step_control.growth(rounds, step_control.growth_by_error(error, self.order), by_contraction, minds)

    def _control(self) -> Statement:
        """Length of the next step, contraction of the last one, and whether its iteration was too slow for Picard's."""

        def control(now: Array, bounds: Array, tally: Array, error: Array) -> list[Any]:
            _, h, _, length, error_of_last = now
            change, first, rounds, _ = tally
            contraction = step_control.mean_contraction(change, first, rounds)
            worse = maximum(error[0], step_control.error_before(error_of_last, h / length, self.order))
            by_error = step_control.growth_by_error(worse, self.order)
            by_contraction = step_control.growth_by_contraction(contraction, self.newton is not None)
            slow = less(self.patience.worthwhile * by_contraction, by_error) & less(bounds[4], contraction)
            return [[h * self._growth(tally, worse), contraction, select(slow, 1, -1)]]

        self.space.work(control=(3,))
        return traced_block(control, self.space.each(["now", "bounds", "tally", "error"]), [self.space.at("control")])

    def _tell_step(self, state: Piece) -> list[Statement]:
        """Tell of the step."""
        at, each = self.space.at, self.space.each

        def note(now: Array, bounds: Array, tally: Array, error: Array, *rest: Array) -> list[Any]:
            control, correction, rejections, state = rest
            t, h, *_ = now
            longer, contraction, _ = control
            end = select(less(h, bounds[0] - t), t + h, bounds[0])
            rounds = tally[2] + rejections[1]
            told = Notes(t, h, end, longer, error[0], rounds, contraction, correction[0], rejections[0])
            return [told, state]

        reads = [*each(["now", "bounds", "tally", "error", "control", "correction", "rejections"]), state]
        copy = traced_block(
            lambda c: [c],
            [at("c", POINT)],
            [
                Piece(
                    (self.n,),
                    tuple(_address("coefficients", Index(KEPT), Index(POINT), Index(None, i)) for i in range(self.n)),
                )
            ],
        )
        return [
            traced_block(note, reads, [at("notes", KEPT), at("states", KEPT)]),
            Loop(POINT, self.s, (copy,)),
        ]

    def _next(self, state: Piece) -> Statement:
        """Where and how long the next step is, or why there is none in this call."""
        each = self.space.each

        def go_on(state: Array, now: Array, bounds: Array, *rest: Array) -> list[Any]:
            error, control, count, turn, *radius = rest
            t, h, *_ = now
            longer, _, slow = control
            end = select(less(h, bounds[0] - t), t + h, bounds[0])
            kept = count[0] + 1
            changes = less(longer * radius[0][0], bounds[5]) if radius else less(0, slow)
            full = ~less(kept, bounds[1]) | ~less(end, bounds[0])
            outcome = select(changes, EASED_ITERATION if radius else SLOW_ITERATION, CONVERGED)
            over = select(changes | full, 1, -1)
            clock = [end, minimum(longer, bounds[0] - end), t, h, error[0]]
            return [state, clock, [kept], [0, *turn[:-1]], [outcome], [over], [-over], [0, 0]]

        names = ["now", "bounds", "error", "control", "count", "turn"]
        names += [] if self.newton is None else ["radius"]
        return traced_block(
            go_on,
            [state, *each(names)],
            each(["y", "now", "count", "turn", "outcome", "over", "beginning", "rejections"]),
        )


def truncation(first: Any, second: Any, third: Any) -> Any:
    """Size of the term after three whose sizes are given, as they decay."""
    before, last = maximum(first, second), maximum(second, third)
    decay = minimum(last / select(less(0, before), before, 1), 1)
    return last * select(less(0, before), decay, 0)


def _legendre(x: Any, count: int) -> list[Any]:
    """P₀ … at x, by Bonnet's recursion."""
    P = [x * 0 + 1, x][:count]
    for k in range(1, count - 1):
        P.append(((2 * k + 1) * x * P[k] - k * P[k - 1]) / (k + 1))
    return P


def _address(buffer: str, *indices: Index) -> Address:
    return Address(buffer, indices)
