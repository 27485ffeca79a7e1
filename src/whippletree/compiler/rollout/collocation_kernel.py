"""One step of collocation as one kernel: the iteration over the slopes at its points, until it has converged.

    from the last step's polynomial    slopes K at the points, and what they add to the state, Z = h A K
    until it is decided:
        for each point:                back to the constraints, the rates there    (:class:`_Point`)
        for each point:                Z = h A K anew, and by how much it has changed
        converged, diverged, or on?    (:class:`Patience`)
    coefficients of the polynomial, and the size of the first term that it leaves out

The mathematics is that of :mod:`whippletree.simulation.adaptive.integrator`, which decides what becomes of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.scalars import less, maximum, minimum, select, sqrt
from whippletree.compiler.frontend.unrolled import traced_status
from whippletree.compiler.program import Buffer, If, Loop, Program, Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import largest
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

POINT, ROUND, CLOSING = "point", "round", "closing"
"""Counters of the loops over points, iterations, and corrections of positions."""

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


Controller = Callable[[Any, Any, Any], Any]


def collocation_program(
    model: Model, scheme: Scheme, patience: Patience, controller: Controller | None, route: str | None
) -> Program:
    """(t, h, start, guess, offset, ratio, rtol, atol, [active]) → (coefficients, error, change, before, rounds, outcome).

    ``guess`` (s, n) are the coefficients of the last polynomial; ``offset`` and ``ratio`` are where the step begins and
    how long it is, counted in that polynomial's length from its start. ``change`` and ``before`` are the last two
    changes of the iteration, ``error`` the size of the first term that the polynomial leaves out, all in units of the
    tolerance; ``outcome`` is CONVERGED, GIVEN_UP or IN_DOUBT.
    """
    return _Step(model, scheme, patience, controller, route).program()


class _Point:
    """The rates at a point, as blocks over the buffers q, v and K of the step."""

    def __init__(self, model: Model, controller: Controller | None, route: str | None) -> None:
        self.model, self.controller, self.route = model, controller, route
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
        system = constraint_set(self.model)
        rows = self.call(m, "constraint_residual", q=q, t=t, active=active)
        rigid = [k for k, i in enumerate(system.position_rows) if not system.compliance[i]]
        return largest([0, *[abs(rows[k]) for k in rigid]])

    def rates(self, m: Mechanism, t: Any, q: Array, v: Array, active: Any) -> list[Array]:
        """q̇ and v̇."""
        if self.model.constraints:
            v = self.call(m, "project_velocity", q=q, v=v, t=t, active=active)
        tau = zeros(self.model.nv)
        if self.controller is not None:
            tau = np.asarray(self.controller(t, scalar_array(q), scalar_array(v)), dtype=object)
        if self.passive:
            tau = tau + self.call(m, "passive_forces", q=q, v=v)
        a = self.call(m, "forward_dynamics", q=q, v=v, tau=tau, t=t, active=active)
        return [self.call(m, "rate", q=q, v=v), a]


class _Step:
    def __init__(
        self, model: Model, scheme: Scheme, patience: Patience, controller: Controller | None, route: str | None
    ) -> None:
        self.model, self.scheme, self.patience = model, scheme, patience
        self.point = _Point(model, controller, route)
        self.s, self.n = len(scheme.nodes), model.nq + model.nv
        self.switches = len(constraint_set(model).switches) if model.constraints else 0
        space = self.space = WorkSpace()
        s, n = self.s, self.n
        scalars = ("t", "h", "offset", "ratio", "rtol", "atol")
        shapes: dict[str, tuple[int, ...]] = {name: () for name in scalars[:2]} | {"start": (n,), "guess": (s, n)}
        shapes |= {name: () for name in scalars[2:]} | ({"active": (self.switches,)} if self.switches else {})
        space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
        space.add(Buffer("coefficients", "output", (s, n)))
        space.add(*[Buffer(name, "output", ()) for name in ("error", "change", "before", "rounds", "outcome")])
        space.work(K=(s, n), Z=(s, n), reach=(n,), fine=(n,), worst=(2,), done=(1,), doubt=(1,), tally=(4,))
        space.table("nodes", scheme.nodes)
        space.table("A", scheme.weights)
        space.table("C", scheme.to_coefficients)
        if model.constraints:
            space.work(q=(model.nq,), v=(model.nv,), earlier=(model.nq,), gap=(1,), shut=(1,), open=(1,))

    def program(self) -> Program:
        at, put = self.space.at, self.space.put
        body = [
            Loop(POINT, self.s, (self._guess(),)),
            put(0, at("reach"), at("doubt")),
            Loop(POINT, self.s, (self._reach(),)),
            self._scale(),
            put(-1, at("done")),
            traced_block(lambda: [[HUGE, HUGE, 0, GIVEN_UP]], [], [at("tally")]),
            Until(ROUND, self.patience.most, self.space.address("done"), tuple(self._iteration())),
            Loop(POINT, self.s, (self._coefficients(),)),
            self._end(),
        ]
        return self.space.program("collocation_step", body)

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
                first = truncation(h * abs(a), h * abs(b), h * abs(d)) * f
                total = total + first * first
            change, before, rounds, outcome = tally
            outcome = select(less(0, doubt[0]), IN_DOUBT, outcome)
            return [sqrt(total / self.n), change, before, rounds, outcome]

        writes = [at(name) for name in ("error", "change", "before", "rounds", "outcome")]
        # what was just written is read again through the slopes, since outputs cannot be read
        reads = [at("K"), at("h"), at("fine"), at("tally"), at("doubt")]
        C = np.asarray(self.scheme.to_coefficients, dtype=object)[-3:]
        return traced_block(lambda K, *rest: judge(C @ K, *rest), reads, writes)

    # ---- one iteration -------------------------------------------------------------------------------------------

    def _iteration(self) -> list[Statement]:
        at, put = self.space.at, self.space.put
        rates = self._constrained_rates() if self.model.constraints else [self._rates()]
        return [
            Loop(POINT, self.s, tuple(rates)),
            put(0, at("worst")),
            Loop(POINT, self.s, (self._move(),)),
            self._judge(),
        ]

    def _rates(self) -> Statement:
        at = self.space.at

        def rates(start: Array, Z: Array, t: Any, h: Any, node: Any, doubt: Array) -> list[Any]:
            m = self.point.mechanism()
            q, v = np.split(start + Z, [self.model.nq])
            with np.errstate(all="ignore"):
                found = self.point.rates(m, t + h * node, q, v, None)
            return [*found, _doubts(m, doubt)]

        reads = [*self.space.each(["start"]), at("Z", POINT), at("t"), at("h"), at("nodes", POINT), at("doubt")]
        return traced_block(rates, reads, [at("K", POINT), at("doubt")])

    def _constrained_rates(self) -> list[Statement]:
        """Quaternions to unit length, positions onto the constraints by least-energy corrections, then the rates."""
        at, put = self.space.at, self.space.put
        nq, point, patience = self.model.nq, self.point, self.patience
        timed = [at("t"), at("h"), at("nodes", POINT)]
        around = [*timed, at("doubt"), *([at("active")] if self.switches else [])]

        def place(start: Array, Z: Array) -> list[Array]:
            q, v = np.split(start + Z, [nq])
            return [point.normalised(q), v]

        def look(q: Array, earlier: Array, gap: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            left = point.gap(point.mechanism(), q, t + h * node, *on or (None,))
            better = less(left, gap[0])
            # where a correction does not help, rounding has the last word
            kept = vector(*[select(better, a, b) for a, b in zip(q, earlier, strict=True)])
            shut = select(better & less(patience.closed, left), -1, 1)
            return [kept, kept, [left], [shut], [-shut]]

        def close(q: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            m = point.mechanism()
            step = point.call(m, "closing_step", q=q, t=t + h * node, active=(*on, None)[0])
            return [m.manifold().integrate(q, step), _doubts(m, doubt)]

        def rates(q: Array, v: Array, t: Any, h: Any, node: Any, doubt: Array, *on: Array) -> list[Any]:
            m = point.mechanism()
            found = point.rates(m, t + h * node, q, v, (*on, None)[0])
            return [*found, _doubts(m, doubt)]

        places = ["q", "earlier", "gap", "shut", "open"]
        with np.errstate(all="ignore"):
            closing: list[Statement] = [
                traced_block(look, [*self.space.each(["q", "earlier", "gap"]), *around], self.space.each(places)),
                If(
                    self.space.address("open"),
                    (traced_block(close, [at("q"), *around], [at("q"), at("doubt")]),),
                ),
            ]
            last = traced_block(rates, [at("q"), at("v"), *around], [at("K", POINT), at("doubt")])
        return [
            traced_block(place, [at("start"), at("Z", POINT)], [at("q"), at("v")]),
            traced_block(lambda q: [q], [at("q")], [at("earlier")]),
            put(HUGE, at("gap")),
            put(-1, at("shut")),
            Until(CLOSING, patience.closing, self.space.address("shut"), tuple(closing)),
            last,
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
            return [[change, last, rounds, outcome], [done]]

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
