"""One step of collocation as one kernel: the iteration over the slopes at its points, until it has converged.

    from the last step's polynomial    slopes K at the points, and what they add to the state, Z = h A K
    until it is decided:
        for each point:                back to the constraints, the rates there    (:class:`_Point`)
        Picard:                        they are the new slopes K
        Newton:                        K + (1 − h A ⊗ J)⁻¹ (rates − K), mode by mode
        for each point:                Z = h A K anew, and by how much it has changed
        converged, diverged, or on?    (:class:`Patience`)
    coefficients of the polynomial, and the size of the first term that it leaves out

The mathematics is that of :mod:`whippletree.simulation.adaptive.integrator`, which decides what becomes of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.scalars import less, maximum, minimum, select, sqrt
from whippletree.compiler.frontend.unrolled import traced_status
from whippletree.compiler.program import Block, Buffer, If, Loop, Program, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import largest
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

POINT, ROUND, CLOSING, MODE, ROW = "point", "round", "closing", "mode", "row"
"""Counters of the loops over points, iterations, corrections of positions, modes of A, and rows of their matrices."""

CONVERGED, GIVEN_UP, IN_DOUBT = 1, 2, 3
"""What became of a step: solved, not solved, or a block matrix whose pivots only the reference can judge."""

HUGE = 1e300
"""More than any change."""


class Patience(NamedTuple):
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


class Scheme(NamedTuple):
    """Points of a step of length 1."""

    name: str
    """Which tells schemes apart."""
    nodes: Array
    weights: Array
    """A (s, s): what slopes (columns) add to the states at the points (rows)."""
    to_coefficients: Array
    """Slopes at the points to coefficients in Legendre polynomials, (s, s)."""
    into: Array | None = None
    """Of Newton's method: A = T Λ T⁻¹, rows of T⁻¹ (p, s), one of each conjugate pair; None for Picard iteration."""
    back: Array | None = None
    """Columns of T (s, p), doubled for pairs."""


Controller = Callable[[Any, Any, Any], Any]


class _Point:
    """The rates at a point, as blocks over the buffers q, v and K of the step."""

    def __init__(self, model: Model, route: str | None) -> None:
        self.model, self.route = model, route
        self.passive = has_passive_forces(model)

    def call(self, m: Mechanism, name: str, **state: Any) -> Any:
        """A function of the catalogue with the inputs that the model needs."""
        function = functions.find(name, self.model)
        return function.implementation(m, *[state[word] for word in function.inputs])

    def mechanism(self) -> Mechanism:
        return Mechanism(Mechanism.of(self.model).tree, route=self.route)

    def normalised(self, q: Array) -> Array:
        """Quaternions at unit length."""
        found = np.array(q, dtype=object)
        for part, kind in zip(self.model.q_slices, self.model.joint_types, strict=True):
            if kind.nq > kind.nv:
                own = slice(part.stop - 4, part.stop)
                found[own] = found[own] / sqrt(found[own] @ found[own])
        return found

    def gap(self, m: Mechanism, q: Array, t: Any, active: Any) -> Any:
        """The largest residual of a rigid position row."""
        rows = self.call(m, "constraint_residual", q=q, t=t, active=active)
        return largest([0, *[abs(rows[k]) for k in self.rigid_positions]])

    @property
    def rigid_positions(self) -> list[int]:
        """Position rows that are closed; a model that only rolls has none."""
        if not self.model.constraints:
            return []
        system = constraint_set(self.model)
        return [k for k, i in enumerate(system.position_rows) if not system.compliance[i]]

    def velocity(self, m: Mechanism, t: Any, q: Array, v: Array, active: Any) -> Array:
        """The nearest velocity that meets the constraints."""
        if not self.model.constraints:
            return v
        return np.asarray(self.call(m, "project_velocity", q=q, v=v, t=t, active=active))

    def rates(self, m: Mechanism, t: Any, q: Array, v: Array, tau: Array, active: Any) -> list[Array]:
        """q̇ and v̇, of a velocity that meets the constraints."""
        if self.passive:
            tau = tau + self.call(m, "passive_forces", q=q, v=v)
        a = self.call(m, "forward_dynamics", q=q, v=v, tau=tau, t=t, active=active)
        return [self.call(m, "rate", q=q, v=v), a]


class CollocationKernel:
    """The program of a step; its blocks are traced once, and only a controller's anew for each controller.

    (t, h, start, guess, offset, ratio, rtol, atol, [active], [inverse])
    → (coefficients, error, change, first, rounds, outcome).

    ``guess`` (s, n) are the coefficients of the last polynomial; ``offset`` and ``ratio`` are where the step begins and
    how long it is, counted in that polynomial's length from its start. ``change`` and ``first`` are the last and the
    first change of the iteration, ``error`` the size of the first term that the polynomial leaves out, all in units of
    the tolerance; ``outcome`` is CONVERGED, GIVEN_UP or IN_DOUBT. ``inverse`` (p, 2, n, n), for Newton's method: real
    and imaginary part of (1 − h λ J)⁻¹ for each mode.
    """

    def __init__(self, model: Model, scheme: Scheme, patience: Patience, controlled: bool, route: str | None) -> None:
        """``controlled``: whether a controller acts."""
        self.model, self.scheme, self.patience, self.controlled = model, scheme, patience, controlled
        self.point = _Point(model, route)
        self.s, self.n = len(scheme.nodes), model.nq + model.nv
        self.switches = len(constraint_set(model).switches) if model.constraints else 0
        space = self.space = WorkSpace()
        s, n = self.s, self.n
        scalars = ("t", "h", "offset", "ratio", "rtol", "atol")
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(scalars[:2], ()) | {"start": (n,), "guess": (s, n)}
        shapes |= dict.fromkeys(scalars[2:], ()) | ({"active": (self.switches,)} if self.switches else {})
        if scheme.into is not None:
            shapes["inverse"] = (len(scheme.into), 2, n, n)
        space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
        space.add(Buffer("coefficients", "output", (s, n)))
        space.add(*[Buffer(name, "output", ()) for name in ("error", "change", "first", "rounds", "outcome")])
        space.work(K=(s, n), Z=(s, n), reach=(n,), fine=(n,), worst=(2,), done=(1,), doubt=(1,), tally=(4,))
        space.table("nodes", scheme.nodes)
        space.table("A", scheme.weights)
        space.table("C", scheme.to_coefficients)
        self.rates_to = "K"
        if scheme.into is not None and scheme.back is not None:
            self.rates_to = "F"
            space.work(F=(s, n), b=(2, n), x=(len(scheme.into), 2, n))
            space.table("into", np.stack([scheme.into.real, scheme.into.imag], axis=1))
            space.table("back", np.stack([scheme.back.real, -scheme.back.imag], axis=2))
        if model.constraints or controlled:
            space.work(q=(model.nq,), v=(model.nv,), tau=(model.nv,))
        if model.constraints:
            space.work(earlier=(model.nq,), gap=(1,), shut=(1,), open=(1,))
        with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the outcome tells
            self._before, self._after = self._rates() if model.constraints or controlled else ([self._free_rates()], [])

    def program(self, control: Block | None = None) -> Program:
        """The whole step, under the controller of such a block."""
        rates = (*self._before, *([] if control is None else [control]), *self._after)
        opening, changing, closing = self._frame
        iteration = (Loop(POINT, self.s, rates), *changing)
        solving = Until(ROUND, self.patience.most, self.space.address("done"), iteration)
        return self.space.program("collocation_step", [*opening, solving, *closing])

    @cached_property
    def _frame(self) -> tuple[list[Statement], list[Statement], list[Statement]]:
        """What comes before the iteration, what follows the rates in each round, and what comes after."""
        at, put = self.space.at, self.space.put
        opening: list[Statement] = [
            Loop(POINT, self.s, (self._guess(),)),
            put(0, at("reach"), at("doubt")),
            Loop(POINT, self.s, (self._reach(),)),
            self._scale(),
            put(-1, at("done")),
            traced_block(lambda: [[HUGE, HUGE, 0, GIVEN_UP]], [], [at("tally")]),
        ]
        newton = self._newton() if self.scheme.into is not None else []
        changing = [*newton, put(0, at("worst")), Loop(POINT, self.s, (self._move(),)), self._judge()]
        return opening, changing, [Loop(POINT, self.s, (self._coefficients(),)), self._end()]

    def control(self, controller: Controller) -> Block:
        """The forces of a controller at a point."""
        at = self.space.at

        def act(t: Any, h: Any, node: Any, q: Array, v: Array) -> list[Array]:
            return [np.asarray(controller(t + h * node, scalar_array(q), scalar_array(v)), dtype=object)]

        return traced_block(act, [at("t"), at("h"), at("nodes", POINT), at("q"), at("v")], [at("tau")])

    # ---- before and after the iteration --------------------------------------------------------------------------

    def _guess(self) -> Statement:
        at = self.space.at

        def slopes(guess: Array, node: Any, offset: Any, ratio: Any) -> list[Array]:
            return [vector(*_legendre(2 * (offset + ratio * node) - 1, self.s)) @ guess]

        return traced_block(slopes, [at("guess"), at("nodes", POINT), at("offset"), at("ratio")], [at("K", POINT)])

    def _reach(self) -> Statement:
        at = self.space.at

        def move(K: Array, A: Array, h: Any, start: Array, reach: Array) -> list[Array]:
            Z = h * (A @ K)
            return [Z, vector(*[maximum(abs(y + z), r) for y, z, r in zip(start, Z, reach, strict=True)])]

        reads = [at("K"), at("A", POINT), at("h"), at("start"), at("reach")]
        return traced_block(move, reads, [at("Z", POINT), at("reach")])

    def _scale(self) -> Statement:
        at = self.space.at

        def fine(start: Array, reach: Array, rtol: Any, atol: Any) -> list[Array]:
            return [vector(*[1 / (atol + rtol * maximum(abs(y), r)) for y, r in zip(start, reach, strict=True)])]

        return traced_block(fine, [at("start"), at("reach"), at("rtol"), at("atol")], [at("fine")])

    def _coefficients(self) -> Statement:
        at = self.space.at
        return traced_block(lambda K, C: [C @ K], [at("K"), at("C", POINT)], [at("coefficients", POINT)])

    def _end(self) -> Statement:
        at = self.space.at

        def judge(c: Array, h: Any, fine: Array, tally: Array, doubt: Array) -> list[Any]:
            total: Any = 0
            for a, b, d, f in zip(*c[-3:], fine, strict=True):
                left_out = truncation(h * abs(a), h * abs(b), h * abs(d)) * f
                total = total + left_out * left_out
            change, first, rounds, outcome = tally
            outcome = select(less(0, doubt[0]), IN_DOUBT, outcome)
            return [sqrt(total / self.n), change, first, rounds, outcome]

        writes = [at(name) for name in ("error", "change", "first", "rounds", "outcome")]
        # what was just written is read again through the slopes, since outputs cannot be read
        reads = [at("K"), at("h"), at("fine"), at("tally"), at("doubt")]
        C = np.asarray(self.scheme.to_coefficients, dtype=object)[-3:]
        return traced_block(lambda K, *rest: judge(C @ K, *rest), reads, writes)

    # ---- one iteration -------------------------------------------------------------------------------------------

    def _free_rates(self) -> Statement:
        """Without constraints and controller: everything in one block."""
        at = self.space.at

        def rates(start: Array, Z: Array, t: Any, h: Any, node: Any, doubt: Array) -> list[Any]:
            m = self.point.mechanism()
            q, v = np.split(start + Z, [self.model.nq])
            found = self.point.rates(m, t + h * node, q, v, zeros(self.model.nv), None)
            return [*found, _doubts(m, doubt)]

        reads = [at("start"), at("Z", POINT), at("t"), at("h"), at("nodes", POINT), at("doubt")]
        return traced_block(rates, reads, [at(self.rates_to, POINT), at("doubt")])

    def _rates(self) -> tuple[list[Statement], list[Statement]]:
        """What comes before a controller, and what comes after it: quaternions to unit length, positions onto the
        constraints by least-energy corrections, velocities too; then the rates."""
        at, point = self.space.at, self.point
        around = [at("t"), at("h"), at("nodes", POINT), at("doubt"), *([at("active")] if self.switches else [])]

        def place(start: Array, Z: Array) -> list[Array]:
            q, v = np.split(start + Z, [self.model.nq])
            return [point.normalised(q) if self.model.constraints else q, v]

        def project(q: Array, v: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            m = point.mechanism()
            return [point.velocity(m, t + h * node, q, v, (*on, None)[0]), _doubts(m, doubt)]

        def rates(q: Array, v: Array, tau: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            m, time, active = point.mechanism(), t + h * node, (*on, None)[0]
            if not self.controlled:
                v, tau = point.velocity(m, time, q, v, active), zeros(self.model.nv)
            return [*point.rates(m, time, q, v, tau, active), _doubts(m, doubt)]

        before: list[Statement] = [traced_block(place, [at("start"), at("Z", POINT)], [at("q"), at("v")])]
        if point.rigid_positions:
            before += self._closing(around)
        if self.model.constraints and self.controlled:
            before.append(traced_block(project, [at("q"), at("v"), *around], [at("v"), at("doubt")]))
        reads = [at("q"), at("v"), at("tau"), *around]
        return before, [traced_block(rates, reads, [at(self.rates_to, POINT), at("doubt")])]

    def _closing(self, around: list[Piece]) -> list[Statement]:
        """Positions onto the constraints, by corrections as long as they help."""
        at, put, point, patience = self.space.at, self.space.put, self.point, self.patience

        def look(q: Array, earlier: Array, gap: Array, *rest: Any) -> list[Any]:
            t, h, node, _, *on = rest
            left = point.gap(point.mechanism(), q, t + h * node, (*on, None)[0])
            better = less(left, gap[0])
            # where a correction does not help, rounding has the last word
            kept = vector(*[select(better, a, b) for a, b in zip(q, earlier, strict=True)])
            shut = select(better & less(patience.closed, left), -1, 1)
            return [kept, kept, [left], [shut], [-shut]]

        def close(q: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            m = point.mechanism()
            step = point.call(m, "closing_step", q=q, t=t + h * node, active=(*on, None)[0])
            return [m.manifold().integrate(q, step), _doubts(m, doubt)]

        places = ["q", "earlier", "gap", "shut", "open"]
        closing = (
            traced_block(look, [*self.space.each(["q", "earlier", "gap"]), *around], self.space.each(places)),
            If(self.space.address("open"), (traced_block(close, [at("q"), *around], [at("q"), at("doubt")]),)),
        )
        return [
            traced_block(lambda q: [q], [at("q")], [at("earlier")]),
            put(HUGE, at("gap")),
            put(-1, at("shut")),
            Until(CLOSING, patience.closing, self.space.address("shut"), closing),
        ]

    def _newton(self) -> list[Statement]:
        """K + Re(T x) with x = (1 − h λ J)⁻¹ T⁻¹ (F − K), mode by mode."""
        at = self.space.at
        modes = len(self.scheme.into) if self.scheme.into is not None else 0
        x, inverse = self.space.buffers["x"], self.space.buffers["inverse"]

        def take(F: Array, K: Array, into: Array) -> list[Array]:
            return [into @ (F - K)]

        def multiply(row: Array, b: Array) -> list[Any]:
            (re, im), (b_re, b_im) = row, b
            return [[re @ b_re - im @ b_im, re @ b_im + im @ b_re]]

        def give(K: Array, back: Array, x: Array) -> list[Array]:
            return [K + back.reshape(-1) @ x.reshape(-1, self.n)]

        solve = traced_block(multiply, [piece(inverse, MODE, None, ROW, None), at("b")], [piece(x, MODE, None, ROW)])
        project = traced_block(take, [at("F"), at("K"), at("into", MODE)], [at("b")])
        return [
            Loop(MODE, modes, (project, Loop(ROW, self.n, (solve,)))),
            Loop(POINT, self.s, (traced_block(give, [at("K", POINT), at("back", POINT), at("x")], [at("K", POINT)]),)),
        ]

    def _move(self) -> Statement:
        at = self.space.at

        def move(K: Array, A: Array, h: Any, Z: Array, fine: Array, worst: Array) -> list[Any]:
            new = h * (A @ K)
            e = (new - Z) * fine
            size = e @ e
            return [new, [maximum(worst[0], size), worst[1] + size]]

        reads = [at("K"), at("A", POINT), at("h"), at("Z", POINT), at("fine"), at("worst")]
        return traced_block(move, reads, [at("Z", POINT), at("worst")])

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
            done = select(solved | worse | ~finite, 1, -1)
            first = select(less(rounds, 2), change, tally[1])
            return [[change, first, rounds, outcome], [done]]

        return traced_block(judge, [at("worst"), at("tally")], [at("tally"), at("done")])


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


def _doubts(m: Mechanism, doubt: Array) -> list[Any]:
    """Positive where a pivot was, or is now, not."""
    if not m.doubts:
        return [doubt[0]]
    return [maximum(doubt[0], traced_status(m))]
