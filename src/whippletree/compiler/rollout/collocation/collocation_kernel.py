"""Steps of collocation as one kernel: many of them in one call, each iterated until it has converged.

The kernel goes through rounds. In each, rates are worked out at some states, and what comes next depends on what they
were for (only one of these at a time; another scene of a batch may be elsewhere):

    beginning    the last step's polynomial, continued, gives the first slopes K at the points of a step, and what they
                 add to its start, Z = h A K
    looking      Newton's method only: rates at neighbours of the start give J, and (1 - h l J)^-1 for the modes l of A
                 (:mod:`~whippletree.compiler.rollout.collocation.collocation_newton`)
    iterating    rates at the points give better slopes; converged, diverged, or on?    (:class:`IterationLimits`)
    ending       the end of the step, brought back to the constraints: the step is kept, and the next one begins

So the code of the rates, which is nearly all of the code, exists once, whatever they are for. The kernel returns to
its caller when it has come to the end or taken as many steps as asked for, and whenever a step was not good enough or
its iteration should be changed: what becomes of that is decided in :mod:`whippletree.simulation.adaptive.integrator`,
whose mathematics this is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.scalars import maximum
from whippletree.arithmetic.trace import lift_constants
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Loop,
    Program,
    Statement,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.collocation.collocation_frame import (
    KEPT,
    OFF,
    STEP_ROUND,
    STEPS,
    CollocationFrame,
    IterationLimits,
    Scheme,
    legendre,
    truncation,
)
from whippletree.compiler.rollout.collocation.collocation_newton import NewtonIteration
from whippletree.compiler.rollout.collocation.collocation_rates import POINT, ModelRates, RateBlocks
from whippletree.compiler.rollout.collocation.step_watch import WATCHED, GuardBlocks, StepWatch
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import largest
from whippletree.model import Model

CONSTANTS = "constants"
"""The argument with the numbers of a controller."""

Controller = Callable[[Any, Any, Any], Any]


class CollocationKernel(CollocationFrame):
    """The program of steps; its blocks are traced once, and only a controller's anew for each controller.

    (clock, bounds, start, guess, [active], [gains], ..., [constants]) -> (coefficients, states, trial, notes, verdict)

    ``guess`` (s, n): coefficients of the last polynomial. Of the first ``verdict.kept`` steps: ``coefficients`` (steps,
    s, n), ``states`` at their ends (steps, n) and ``notes`` (steps,
    :class:`~whippletree.compiler.rollout.collocation.collocation_frame.Notes`); ``trial`` (s, n): coefficients of the
    last one that was tried.

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
        self.model = model
        s, n = len(scheme.nodes), model.nq + model.nv
        self.n = n
        switches = len(constraint_set(model).switches) if model.constraints else 0
        given: dict[str, tuple[Dimension, ...]] = {"start": (n,), "guess": (s, n)}
        given |= {"active": (switches,)} if switches else {}
        given |= {"gains": (model.nv, 2 + n)} if control == "affine" else {}
        given |= {} if blocks is None else blocks.inputs
        given |= {} if guards is None else StepWatch.inputs(guards)
        found = {"coefficients": (STEPS, s, n), "states": (STEPS, n), "trial": (s, n)}
        super().__init__(scheme, patience, bool(model.constraints), given, found)
        space = self.space
        self.places = max(s, n + 1, 0 if guards is None else len(WATCHED))
        # X, T: states and times at which rates F are wanted, and Y: those states on the constraints
        space.work(X=(self.places, n), Y=(self.places, n), F=(self.places, n), T=(self.places,), wanted=(self.places,))
        space.work(y=(n,), G=(s, n), K=(s, n), Z=(s, n), c=(s, n), reach=(n,), fine=(n,), raw=(n,))
        space.table("A", scheme.weights)
        space.table("C", scheme.to_coefficients)
        if model.constraints or controlled or blocks is not None:
            space.work(q=(model.nq,), v=(model.nv,), tau=(model.nv,))
        if model.constraints:
            space.work(earlier=(model.nq,), gap=(1,), shut=(1,), open=(1,))
        self.watch = None if guards is None else StepWatch(space, guards, POINT)
        self.newton = NewtonIteration(space, model, scheme, patience.difference) if self.stiff else None
        with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the outcome tells
            equations = blocks or ModelRates(model, route, patience.closing)
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
        steps = Until(STEP_ROUND, self.rounds, address("over"), body)
        found = self.space.program("collocation_steps", [*opening, steps, *closing])
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
        closing: list[Statement] = [
            Loop(POINT, self.s, (traced_block(lambda c: [c], [at("c", POINT)], [at("trial", POINT)]),)),
            self.verdict(*([] if self.watch is None else ["crossing"])),
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
        return [
            *self.take_over(),
            traced_block(lambda y, G: [y, G], each(["start", "guess"]), each(["y", "G"])),
            *([] if self.newton is None else [put(-1, at("looking"))]),
            *([put(0, at("gap"))] if self.loops else []),
            Loop(POINT, self.s, (put(0, at("c", POINT)),)),
            *([] if self.watch is None else self.watch.opening()),
        ]

    def _nth(self, name: str, k: int) -> Any:
        return self.space.at(name).addresses[k]

    # ---- the beginning of a step ---------------------------------------------------------------------------------

    def _beginning(self) -> list[Statement]:
        at, put, each = self.space.at, self.space.put, self.space.each

        def slopes(G: Array, node: Any, now: Array) -> list[Array]:
            t, h, last, length, _ = now
            offset, ratio = (t - last) / length, h / length
            return [vector(*legendre(2 * (offset + ratio * node) - 1, self.s)) @ G]

        def move(K: Array, A: Array, now: Array, y: Array, reach: Array) -> list[Array]:
            Z = now[1] * (A @ K)
            return [Z, vector(*[maximum(abs(a + z), r) for a, z, r in zip(y, Z, reach, strict=True)])]

        def fine(y: Array, reach: Array, bounds: Array) -> list[Any]:
            rtol, atol = bounds[2], bounds[3]
            scale = [1 / (atol + rtol * maximum(abs(a), r)) for a, r in zip(y, reach, strict=True)]
            return [scale]

        looking = [] if self.newton is None else [If(self.space.address("looking"), tuple(self.newton.neighbours()))]
        reads = [at("K"), at("A", POINT), at("now"), at("y"), at("reach")]
        return [
            Loop(POINT, self.s, (traced_block(slopes, [at("G"), at("nodes", POINT), at("now")], [at("K", POINT)]),)),
            put(0, at("reach")),
            Loop(POINT, self.s, (traced_block(move, reads, [at("Z", POINT), at("reach")]),)),
            traced_block(fine, each(["y", "reach", "bounds"]), [at("fine")]),
            self.begin(),
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
            self.judge_iteration(),
            If(address("concluding"), tuple(self._concluding())),
        ]

    def _concluding(self) -> list[Statement]:
        """The polynomial of the step and its error; then its end is asked for, or a shorter step, or the call ends."""
        at, put, each = self.space.at, self.space.put, self.space.each

        def estimate(c: Array, now: Array, fine: Array, y: Array) -> list[Any]:
            h, total = now[1], 0
            for a, b, d, f in zip(*c[-3:], fine, strict=True):
                left_out = truncation(h * abs(a), h * abs(b), h * abs(d)) * f
                total = total + left_out * left_out
            raw = y + h * c[0]
            return [[total], raw, raw]

        first = Piece((self.n,), tuple(self._nth("X", i) for i in range(self.n)))
        return [
            Loop(
                POINT,
                self.s,
                (traced_block(lambda K, C: [C @ K], [at("K"), at("C", POINT)], [at("c", POINT)]),),
            ),
            Loop(POINT, self.places, (put(-1, at("wanted", POINT)),)),
            put(1, Piece((), (self._nth("wanted", 0),))),
            traced_block(estimate, each(["c", "now", "fine", "y"]), [*each(["left out", "raw"]), first]),
            self.conclude(Piece((1,), (self._nth("T", 0),))),
        ]

    # ---- the end of a step ---------------------------------------------------------------------------------------

    def _ending(self) -> list[Statement]:
        """Keep the step, if its end is near the constraints, and begin the next one."""
        at, put, each, address = self.space.at, self.space.put, self.space.each, self.space.address
        state = Piece((self.n,), tuple(self._nth("Y", i) for i in range(self.n)))

        def look(state: Array, raw: Array, y: Array, bounds: Array) -> list[Any]:
            away = [abs(a - b) for a, b in zip(state, raw, strict=True)]
            scales = [bounds[3] + bounds[2] * maximum(abs(a), abs(b)) for a, b in zip(y, state, strict=True)]
            off = largest([a / b for a, b in zip(away, scales, strict=True)])
            return [[largest(away), off, sum(away[1:], away[0])]]

        return [
            traced_block(look, [state, *each(["raw", "y", "bounds"])], [at("way back")]),
            self.judge_end(),
            If(address("failed"), (put(OFF, at("outcome")),)),
            If(
                address("keeping"),
                (
                    self.choose_length(),
                    Collect("this", KEPT, STEPS, address("turn", KEPT)),
                    Each(KEPT, "this", tuple(self._tell_step(state))),
                    *([] if self.watch is None else self.watch.sampling(self.places)),
                    traced_block(lambda state: [state], [state], [at("y")]),
                    self.go_on(),
                    *([] if self.watch is None else [self.watch.wait()]),
                    Loop(POINT, self.s, (traced_block(lambda c: [c], [at("c", POINT)], [at("G", POINT)]),)),
                ),
            ),
        ]

    def _tell_step(self, state: Piece) -> list[Statement]:
        """Tell of the step."""
        at = self.space.at
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
            self.note(),
            traced_block(lambda state: [state], [state], [at("states", KEPT)]),
            Loop(POINT, self.s, (copy,)),
        ]


def _address(buffer: str, *indices: Index) -> Address:
    return Address(buffer, indices)
