"""Steps of collocation of any model as one program: its functions, compiled already, are called at all points at once.

The kernel of a model (:mod:`~whippletree.compiler.rollout.collocation.collocation_kernel`) contains its equations of
motion, which takes seconds to compile for forty bodies, and goes from point to point. Here the points of a step are the
lanes of the functions that runs need anyway, and nothing but the number of points, and which functions there are, is
part of the code: sizes come with the call. So it is compiled once on each machine, and suits models of any size.

A state is two parts, q and v, or three, with the activations w of actuators; each has a dimension of its own, and all
that is done to whole states are loops over the components of each. Rounds, iterations and decisions are those of the
other kernel; Newton's method is that of :mod:`~whippletree.compiler.rollout.collocation.called_newton`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, maximum, minimum, select, sqrt
from whippletree.compiler.program import (
    Address,
    Buffer,
    Call,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    Until,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.collocation.called_newton import COMPONENT, CalledNewton
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
from whippletree.compiler.rollout.collocation.collocation_rates import CLOSING, HUGE, POINT

ROW, OTHER_COMPONENT, GROUP = "row", "other component", "group"
"""Counters of the loops over constraint rows, components of a state that act on others, and quaternions."""

Which: TypeAlias = Literal["points", "neighbours", "end"]
"""States at which functions are called: points of a step, as many neighbours of its middle, its end."""


class Callee(NamedTuple):
    """What a program has to know of a function that it calls."""

    inputs: tuple[str, ...]
    fails: bool
    """Whether it has a status."""


class Callees(NamedTuple):
    """Functions of a model, by what they are for; None for those that it does not need."""

    rate: Callee
    acceleration: Callee
    passive: Callee | None = None
    controller: Callee | None = None
    velocity: Callee | None = None
    """Onto the constraints."""
    residual: Callee | None = None
    closing: Callee | None = None
    integrate: Callee | None = None
    relaxed: Callee | None = None
    """Velocities of massless motions that dampers decide, under all forces."""
    commands: Callee | None = None
    """Of actuators with activations."""
    actuators: Callee | None = None
    """Their forces."""
    following: Callee | None = None
    """Rates of the activations."""


class CalledModel(NamedTuple):
    """Differences between programs of this kind that are part of their code, beside scheme and limits."""

    callees: Callees
    switches: bool
    """Whether constraints can be switched."""
    quaternions: bool
    affine: bool
    """Whether a controller comes as gains."""
    asked: bool
    """Whether a controller is in Python: its tangent comes as gains, and stands for it in most iterations."""
    constants: bool
    """Whether the controller that is called reads numbers of the call."""
    command_constants: bool
    """Whether the function of commands does."""
    halved: bool
    """Whether q is the integral of v, component by component, and Newton's method makes use of it."""


class CalledCollocation(CollocationFrame):
    """The program of steps, Picard's or Newton's as the scheme says.

    ([groups], [integers of Newton's method], clock, bounds, start q, start v, [start w], guess q, guess v, [guess w],
    [active], [rigid], [unit], [gains ...], [trust], [constants], [command constants], [least w, greatest w, idle],
    [numbers of Newton's method])
        -> (coefficients of q, v, [w], states of each, trial of each, notes, verdict)

    As in :class:`~whippletree.compiler.rollout.collocation.collocation_kernel.CollocationKernel`, part by part;
    ``rigid`` (rows): 1 for position rows that are closed; ``groups`` (nq): the group of each coordinate, of which those
    have ``unit`` = 1 that are quaternions; ``gains``: of an affine controller, constant (nv), by time (nv), by q (nv,
    nq), by v (nv, nv), and of the tangent of one in Python the latter two, which hold where ``trust`` is 1, not -1;
    ``idle`` (actuators): commands before any are asked for.
    """

    def __init__(self, scheme: Scheme, patience: IterationLimits, form: CalledModel) -> None:
        self.callees, self.quaternions = form.callees, form.quaternions
        self.affine, self.asked = form.affine, form.asked
        # coordinates that are integrals of velocities are counted as those
        nq: Dimension = "nv" if form.halved else "nq"
        self.parts: dict[str, Dimension] = {"q": nq, "v": "nv"}
        self.parts |= {"w": "activations"} if form.callees.following else {}
        s, stiff = len(scheme.nodes), scheme.values is not None
        given: dict[str, tuple[Dimension, ...]] = {f"start {part}": (n,) for part, n in self.parts.items()}
        given |= {f"guess {part}": (s, n) for part, n in self.parts.items()}
        given |= {"active": ("switches",)} if form.switches else {}
        given |= {"rigid": ("rows",)} if form.callees.residual else {}
        given |= {"unit": ("groups",)} if form.quaternions else {}
        given |= {"constant": ("nv",), "by time": ("nv",)} if form.affine else {}
        given |= {"by q": ("nv", nq), "by v": ("nv", "nv")} if form.affine or form.asked else {}
        given |= {"trust": (1,)} if form.asked else {}
        given |= {"constants": ("constants",)} if form.constants else {}
        given |= {"command constants": ("command_constants",)} if form.command_constants else {}
        if form.callees.following:
            given |= {"least w": ("activations",), "greatest w": ("activations",), "idle": ("actuators",)}
        integers, numbers = CalledNewton.inputs(s, self.parts) if stiff else ([], {})
        given |= numbers
        found: dict[str, tuple[Dimension, ...]] = {}
        for name, shape in {"coefficients": (STEPS, s), "states": (STEPS,), "trial": (s,)}.items():
            found |= {f"{name} {part}": (*shape, n) for part, n in self.parts.items()}
        super().__init__(scheme, patience, form.callees.velocity is not None, given, found)
        if form.quaternions:
            integers = [Buffer("groups", "input", (nq,), integer=True), *integers]
        # inputs, and so before the outputs
        self.space.buffers = {b.name: b for b in integers} | self.space.buffers
        self._add_work(scheme)
        self.newton = CalledNewton(self.space, scheme, patience.difference, self.parts, form.halved) if stiff else None

    def _add_work(self, scheme: Scheme) -> None:
        space, s = self.space, self.s
        for part, n in self.parts.items():
            # X = y + Z: states at which rates F are wanted; K: slopes; c, G: polynomials of this step and the last
            space.work(**{f"{name}_{part}": (n, s) for name in "XFcGKZ"})
            space.work(**{f"{name}_{part}": (n,) for name in ("y", "fine", "raw")})
        # on the constraints
        nq = self.parts["q"]
        space.work(q=(nq, s), v=("nv", s), tau=("nv", s), T=(s,), basis=(s, s), sizes=(s,), status=(s,))
        space.table("AT", scheme.weights.T)
        space.table("CT", scheme.to_coefficients.T)
        if self.callees.passive or self.callees.actuators:
            space.work(more=("nv", s))
        if self.asked:
            space.work(answer=("nv", s), rest=("nv", s))
        if self.callees.following:
            space.work(w=("activations", s), ctrl=("actuators", s))
        if self.callees.relaxed:
            space.work(relaxed=("nv", s))
        if self.callees.residual:
            space.work(nearer=(nq, s), step=("nv", s), residuals=("rows", s))
            space.work(gap=(s,), left=(s,), open=(s,), shut=(1,), some_open=(1,))
        if self.quaternions:
            space.work(norms=("groups", s))

    def program(self) -> Program:
        """All of it."""
        address = self.space.address
        body = (
            If(address("beginning"), tuple(self._beginning())),
            # in this order, so that a stage which begins the next one waits for its rates
            If(address("ending"), tuple(self._ending())),
            *([] if self.newton is None else [If(address("looking"), tuple(self._looking(self.newton)))]),
            If(address("iterating"), (*self._rates("points"), *self._iterating())),
        )
        steps = Until(STEP_ROUND, self.rounds, address("over"), body)
        return self.space.program("called_collocation_steps", [*self._opening(), steps, *self._closing()])

    def _parts(self, work: Any) -> list[Statement]:
        """Loops over the components of both parts, with the statements that ``work(part)`` returns."""
        return [Loop(COMPONENT, n, tuple(work(part))) for part, n in self.parts.items()]

    def _own(self, name: str, part: str) -> Piece:
        """The numbers of one component in a buffer of one part."""
        return self.space.at(f"{name} {part}", COMPONENT)

    def _first(self, name: str) -> Piece:
        """The first point of one component."""
        return Piece((1,), (Address(name, (Index(COMPONENT), Index(None, 0))),))

    # ---- before and after ----------------------------------------------------------------------------------------

    def _opening(self) -> list[Statement]:
        at, put = self.space.at, self.space.put

        def take(part: str) -> list[Statement]:
            given = [self._own("start", part), at(f"guess {part}", None, COMPONENT)]
            writes = [self._own(name, part) for name in ("y", "G", "c")]
            return [traced_block(lambda y, G: [y, G, np.zeros(self.s)], given, writes)]

        still = Loop(COMPONENT, "nv", (put(0, at("tau", COMPONENT)),))
        newton = [] if self.newton is None else [put(-1, at("looking")), put(1, at("stale"))]
        return [*self.take_over(), *self._parts(take), still, *self._idle(), *newton]

    def _idle(self) -> list[Statement]:
        """Commands before any are asked for."""
        if not self.callees.following:
            return []
        idle, ctrl = self.space.at("idle", COMPONENT), self.space.at("ctrl", COMPONENT)
        return [Loop(COMPONENT, "actuators", (traced_block(lambda u: [[u] * self.s], [idle], [ctrl]),))]

    def _closing(self) -> list[Statement]:
        at = self.space.at

        def tell(part: str) -> list[Statement]:
            return [traced_block(lambda c: [c], [self._own("c", part)], [at(f"trial {part}", None, COMPONENT)])]

        return [*self._parts(tell), self.verdict()]

    # ---- the beginning of a step ---------------------------------------------------------------------------------

    def _beginning(self) -> list[Statement]:
        """The last polynomial, continued, gives the first slopes, and where they lead."""
        at, each = self.space.at, self.space.each

        def basis(node: Any, now: Array) -> list[Any]:
            t, h, last, length, _ = now
            offset, ratio = (t - last) / length, h / length
            return [vector(*legendre(2 * (offset + ratio * node) - 1, self.s)), t + h * node]

        def begin(G: Array, basis: Array, AT: Array, y: Any, now: Array, bounds: Array) -> list[Any]:
            K = G @ basis
            Z = now[1] * (K @ AT)
            reach = abs(y + Z[0])
            for z in Z[1:]:
                reach = maximum(reach, abs(y + z))
            return [K, Z, y + Z, 1 / (bounds[3] + bounds[2] * maximum(abs(y), reach))]

        def components(part: str) -> list[Statement]:
            reads = [self._own("G", part), *each(["basis", "AT"]), self._own("y", part), *each(["now", "bounds"])]
            return [traced_block(begin, reads, [self._own(name, part) for name in ("K", "Z", "X", "fine")])]

        places = [at("nodes", POINT), at("now")], [at("basis", None, POINT), at("T", POINT)]
        return [Loop(POINT, self.s, (traced_block(basis, *places),)), *self._parts(components), self.begin()]

    def _looking(self, newton: CalledNewton) -> list[Statement]:
        """The matrices of Newton's method; then the points of the step, for its iteration."""
        at, put, each = self.space.at, self.space.put, self.space.each

        def points(part: str) -> list[Statement]:
            reads = [self._own("y", part), self._own("Z", part)]
            return [traced_block(lambda y, Z: [y + Z], reads, [self._own("X", part)])]

        times = traced_block(lambda nodes, now: [now[0] + now[1] * nodes], each(["nodes", "now"]), [at("T")])
        begin = traced_block(lambda: [[1], [-1]], [], each(["iterating", "looking"]))
        before: list[Statement] = []
        if self.asked:
            # answers at the points serve the neighbours, and the first iteration
            ask = *self._forces_at("points"), put(1, at("questions")), put(-1, at("asking"))
            before = [If(self.space.address("trust"), ask)]
        return [*before, *newton.look(self._rates("neighbours")), *self._parts(points), times, begin]

    # ---- rates at all points -------------------------------------------------------------------------------------

    def _call(self, function: str, states: int, output: str, given: Mapping[str, str]) -> list[Statement]:
        """A function at the first points; where it has no answer to one of them, the step is in doubt."""
        callee = getattr(self.callees, function)
        inputs = tuple(given.get(name, name) for name in callee.inputs)
        call = Call(function, states, inputs, (output,), "status" if callee.fails else None)
        if not callee.fails:
            return [call]

        def look(status: Array, doubt: Array) -> list[Any]:
            found = doubt[0]
            for x in status[:states]:
                found = maximum(found, abs(x))
            return [[found]]

        return [call, traced_block(look, self.space.each(["status", "doubt"]), [self.space.at("doubt")])]

    def _rates(self, which: Which) -> list[Statement]:
        """From states X to their rates F."""
        given = self._given
        return [
            *self._forces_at(which),
            *self._call("acceleration", self.s, "F v", given),
            *self._call("rate", self.s, "F q", given),
            *(self._following(given) if self.callees.following else []),
        ]

    @property
    def _given(self) -> dict[str, str]:
        """Buffers with the inputs of functions; states of a tree are not brought anywhere before."""
        return {"t": "T", "act": "X w"} | ({} if self.loops else {"q": "X q", "v": "X v"})

    def _forces_at(self, which: Which) -> list[Statement]:
        """From states X to their forces, on the constraints."""
        return [*(self._onto_constraints(which) if self.loops else []), *self._forces(which, self._given)]

    def _count(self, which: Which) -> int:
        return 1 if which == "end" else self.s

    def _forces(self, which: Which, given: Mapping[str, str]) -> list[Statement]:
        """τ of all that acts at the first points."""
        statements: list[Statement] = []
        states = self._count(which)
        if self.asked:
            statements += self._asked_forces(which, given)
        elif self.callees.controller:
            statements += self._call("controller", states, "tau", given)
        if self.affine:
            statements += self._affine_forces(given)
        driven = self.affine or self.callees.controller is not None
        if self.callees.passive:
            statements += [*self._call("passive", states, "more", given), self._add_forces(driven)]
            driven = True
        if self.callees.commands:
            own = {**given, "constants": "command constants"}
            statements += [*self._call("commands", states, "ctrl", own)]
            statements += [*self._call("actuators", states, "more", given), self._add_forces(driven)]
        return statements

    def _add_forces(self, driven: bool) -> Statement:
        """To τ, which others have written already if ``driven``."""
        own, more = self.space.at("tau", COMPONENT), self.space.at("more", COMPONENT)
        add = traced_block(lambda tau, more: [tau + more if driven else more], [own, more], [own])
        return Loop(COMPONENT, "nv", (add,))

    def _following(self, given: Mapping[str, str]) -> list[Statement]:
        """Rates of activations: none that leads out of a range."""

        def within(F: Array, w: Array, least: Any, greatest: Any) -> list[Any]:
            out = [
                (~less(x, greatest) & less(0, f)) | (~less(least, x) & less(f, 0)) for f, x in zip(F, w, strict=True)
            ]
            return [[select(o, 0, f) for o, f in zip(out, F, strict=True)]]

        own = self._own("F", "w")
        reads = [own, self._own("X", "w"), self._own("least", "w"), self._own("greatest", "w")]
        cut = Loop(COMPONENT, "activations", (traced_block(within, reads, [own]),))
        return [*self._call("following", self.s, "F w", given), cut]

    def _asked_forces(self, which: Which, given: Mapping[str, str]) -> list[Statement]:
        """τ of a controller in Python: its answer, or (by q) q + (by v) v and what its last answer had beside that.

        Neighbours of the middle take the latter from a point near it.
        """
        at, middle = self.space.at, self.s // 2
        tau, answer, rest = (at(name, COMPONENT) for name in ("tau", "answer", "rest"))
        ask = self._call("controller", self._count(which), "answer", given)
        take = Loop(COMPONENT, "nv", (traced_block(lambda answer: [answer], [answer], [tau]),))
        if which == "end":
            return [*ask, take]
        tangent = self._by_state(self.space.put(0, tau), given)
        if which == "neighbours":
            near = traced_block(lambda tau, rest: [tau + rest[middle]], [tau, rest], [tau])
            return [tangent, Loop(COMPONENT, "nv", (near,)), If(self.space.address("asking"), (*ask, take))]
        keep = traced_block(lambda answer, tau: [answer - tau], [answer, tau], [rest])
        add = traced_block(lambda tau, rest: [tau + rest], [tau, rest], [tau])
        asking = If(self.space.address("asking"), (*ask, Loop(COMPONENT, "nv", (keep,))))
        return [tangent, asking, Loop(COMPONENT, "nv", (add,))]

    def _affine_forces(self, given: Mapping[str, str]) -> list[Statement]:
        """τ = constant + t (by time) + (by q) q + (by v) v."""
        at = self.space.at
        begin = traced_block(
            lambda c, b, T: [c + b * T],
            [*self.space.each(["constant", "by time"], COMPONENT), at("T")],
            [at("tau", COMPONENT)],
        )
        return [self._by_state(begin, given)]

    def _by_state(self, begin: Statement, given: Mapping[str, str]) -> Statement:
        """τ as it begins, and (by q) q + (by v) v."""
        at = self.space.at
        tau = at("tau", COMPONENT)
        more: list[Statement] = []
        for part in ("q", "v"):
            reads = [tau, at(f"by {part}", COMPONENT, OTHER_COMPONENT), at(given.get(part, part), OTHER_COMPONENT)]
            add = traced_block(lambda tau, gain, x: [tau + gain * x], reads, [tau])
            more.append(Loop(OTHER_COMPONENT, self.parts[part], (add,)))
        return Loop(COMPONENT, "nv", (begin, *more))

    def _onto_constraints(self, which: Which) -> list[Statement]:
        """From X to q and v that meet the constraints, of the first points."""
        at, states = self.space.at, self._count(which)
        copy = traced_block(lambda x: [x], [self._own("X", "q")], [at("q", COMPONENT)])
        statements: list[Statement] = [Loop(COMPONENT, self.parts["q"], (copy,))]
        if self.quaternions:
            statements += self._normalise()
        if self.callees.residual:
            statements += self._close(states)
        statements += self._call("velocity", states, "v", {"v": "X v", "t": "T"})
        return statements + (self._relax(which) if self.callees.relaxed else [])

    def _relax(self, which: Which) -> list[Statement]:
        """Massless motions at the velocities that dampers give them under the forces at v."""
        given, at = {"t": "T", "act": "X w"}, self.space.at
        take = traced_block(lambda v: [v], [at("relaxed", COMPONENT)], [at("v", COMPONENT)])
        found = self._call("relaxed", self._count(which), "relaxed", given)
        return [*self._forces(which, given), *found, Loop(COMPONENT, "nv", (take,))]

    def _close(self, states: int) -> list[Statement]:
        """Positions onto the constraints, by corrections as long as they help."""
        at, put, each, address = self.space.at, self.space.put, self.space.each, self.space.address

        def largest(left: Array, row: Array, rigid: Any) -> list[Any]:
            return [[maximum(a, rigid * abs(b)) for a, b in zip(left, row, strict=True)]]

        def look(left: Array, gap: Array, still: Array, bounds: Array) -> list[Any]:
            better = [less(0, o) & less(a, b) for a, b, o in zip(left, gap, still, strict=True)]
            goes_on = [b & less(bounds[8], a) for a, b in zip(left, better, strict=True)]
            some = goes_on[0]
            for flag in goes_on[1:states]:
                some = some | flag
            # where a correction does not help, rounding has the last word: left is then not taken over
            kept = [select(b, a, -1) for a, b in zip(left, better, strict=True)]
            flags = [select(g, 1, -1) for g in goes_on]
            return [
                kept,
                [select(b, a, c) for a, b, c in zip(left, better, gap, strict=True)],
                flags,
                [select(some, -1, 1)],
            ]

        def keep(q: Array, nearer: Array, left: Array) -> list[Any]:
            return [[select(less(a, 0), x, y) for x, y, a in zip(q, nearer, left, strict=True)]]

        reads = [at("left"), at("residuals", ROW), at("rigid", ROW)]
        own = [*each(["q", "nearer"], COMPONENT), at("left")]
        first = traced_block(lambda q: [q], [at("q", COMPONENT)], [at("nearer", COMPONENT)])
        closing = (
            *self._call("residual", states, "residuals", {"q": "nearer", "t": "T"}),
            put(0, at("left")),
            Loop(ROW, "rows", (traced_block(largest, reads, [at("left")]),)),
            traced_block(look, each(["left", "gap", "open", "bounds"]), each(["left", "gap", "open", "shut"])),
            Loop(COMPONENT, self.parts["q"], (traced_block(keep, own, [at("q", COMPONENT)]),)),
            traced_block(lambda shut: [-shut[0]], [at("shut")], [at("some open")]),
            If(
                address("some open"),
                (
                    *self._call("closing", states, "step", {"t": "T"}),
                    *self._call("integrate", states, "nearer", {"d": "step"}),
                ),
            ),
        )
        return [
            Loop(COMPONENT, self.parts["q"], (first,)),
            put(HUGE, at("gap")),
            put(1, at("open")),
            put(-1, at("shut")),
            Until(CLOSING, self.patience.closing + 1, address("shut"), closing),
        ]

    def _normalise(self) -> list[Statement]:
        """Quaternions at unit length."""
        at = self.space.at
        group = Lookup(GROUP, Address("groups", (Index(COMPONENT),)), "groups")
        q, norms = at("q", COMPONENT), at("norms", GROUP)
        add = traced_block(lambda q, n: [[b + a * a for a, b in zip(q, n, strict=True)]], [q, norms], [norms])
        root = traced_block(
            lambda n, unit: [[select(less(0, unit), sqrt(x), 1) for x in n]], [norms, at("unit", GROUP)], [norms]
        )
        divide = traced_block(lambda q, n: [[a / b for a, b in zip(q, n, strict=True)]], [q, norms], [q])
        return [
            Loop(GROUP, "groups", (self.space.put(0, norms),)),
            Loop(COMPONENT, self.parts["q"], (group, add)),
            Loop(GROUP, "groups", (root,)),
            Loop(COMPONENT, self.parts["q"], (group, divide)),
        ]

    # ---- one iteration -------------------------------------------------------------------------------------------

    def _iterating(self) -> list[Statement]:
        at, put, each = self.space.at, self.space.put, self.space.each

        def move(K: Array, AT: Array, now: Array, Z: Array, fine: Any, sizes: Array, y: Any) -> list[Any]:
            new = now[1] * (K @ AT)
            e = (new - Z) * fine
            return [K, new, y + new, sizes + e * e]

        def components(part: str) -> list[Statement]:
            of = {name: self._own(name, part) for name in "KXZFy"} | {"fine": self._own("fine", part)}
            # slopes of Picard iteration are the rates, those of Newton's method have been corrected by them
            slopes = of["F" if self.newton is None else "K"]
            reads = [slopes, *each(["AT", "now"]), of["Z"], of["fine"], at("sizes"), of["y"]]
            return [traced_block(move, reads, [of["K"], of["Z"], of["X"], at("sizes")])]

        def worst(sizes: Array) -> list[Any]:
            most = sizes[0]
            for x in sizes[1:]:
                most = maximum(most, x)
            return [[most, sum(sizes[1:], sizes[0])]]

        return [
            *([] if self.newton is None else self.newton.correction()),
            put(0, at("sizes")),
            *self._parts(components),
            traced_block(worst, [at("sizes")], [at("worst")]),
            self.judge_iteration(),
            If(self.space.address("concluding"), tuple(self._concluding())),
        ]

    def _concluding(self) -> list[Statement]:
        """The polynomial of the step and its error; then its end is asked for, or a shorter step, or the call ends."""
        at, put, each = self.space.at, self.space.put, self.space.each

        def estimate(K: Array, CT: Array, now: Array, fine: Any, y: Any, total: Array) -> list[Any]:
            c, h = K @ CT, now[1]
            error = truncation(*[h * abs(x) for x in c[-3:]]) * fine
            raw = y + h * c[0]
            return [c, raw, [raw], [total[0] + error * error]]

        def components(part: str) -> list[Statement]:
            of = {name: self._own(name, part) for name in ("K", "fine", "y", "c", "raw")}
            reads = [of["K"], *each(["CT", "now"]), of["fine"], of["y"], at("left out")]
            writes = [of["c"], of["raw"], self._first(f"X {part}"), at("left out")]
            return [traced_block(estimate, reads, writes)]

        end_time = Piece((1,), (Address("T", (Index(None, 0),)),))
        return [put(0, at("left out")), *self._parts(components), self.conclude(end_time)]

    # ---- the end of a step ---------------------------------------------------------------------------------------

    def _ending(self) -> list[Statement]:
        """Keep the step, if its end is near the constraints, and begin the next one."""
        at, put, address = self.space.at, self.space.put, self.space.address

        def look(state: Array, raw: Any, y: Any, bounds: Array, way: Array) -> list[Any]:
            away = abs(state[0] - raw)
            off = away / (bounds[3] + bounds[2] * maximum(abs(y), abs(state[0])))
            return [[maximum(way[0], away), maximum(way[1], off), way[2] + away]]

        def components(part: str) -> list[Statement]:
            reads = [self._first(part), *[self._own(x, part) for x in ("raw", "y")], at("bounds"), at("way back")]
            return [traced_block(look, reads, [at("way back")])]

        def advance(part: str) -> list[Statement]:
            writes = [self._own("y", part), self._own("G", part)]
            return [traced_block(lambda y, c: [y[0], c], [self._first(part), self._own("c", part)], writes)]

        return [
            *(self._onto_constraints("end") if self.loops else self._copy_end()),
            *(self._within_ranges() if self.callees.following else []),
            put(0, at("way back")),
            *self._parts(components),
            self.judge_end(),
            If(address("failed"), (put(OFF, at("outcome")),)),
            If(
                address("keeping"),
                (
                    self.choose_length(),
                    Collect("this", KEPT, STEPS, address("turn", KEPT)),
                    Each(KEPT, "this", (self.note(), *self._parts(self._tell_step))),
                    *([] if self.newton is None else [*self.newton.radius(), put(1, at("stale"))]),
                    self.go_on(),
                    *self._parts(advance),
                ),
            ),
        ]

    def _copy_end(self) -> list[Statement]:
        """The end of a step of a tree, with quaternions at unit length."""

        def copy(part: str) -> Statement:
            own = traced_block(lambda x: [x], [self._own("X", part)], [self.space.at(part, COMPONENT)])
            return Loop(COMPONENT, self.parts[part], (own,))

        return [copy("q"), copy("v"), *(self._normalise() if self.quaternions else [])]

    def _within_ranges(self) -> list[Statement]:
        """Activations at the end of a step, within their ranges."""

        def within(x: Array, least: Any, greatest: Any) -> list[Any]:
            return [[minimum(maximum(x[0], least), greatest)]]

        reads = [self._first("X w"), self._own("least", "w"), self._own("greatest", "w")]
        return [Loop(COMPONENT, "activations", (traced_block(within, reads, [self._first("w")]),))]

    def _tell_step(self, part: str) -> list[Statement]:
        at = self.space.at
        writes = [at(f"coefficients {part}", KEPT, None, COMPONENT), at(f"states {part}", KEPT, COMPONENT)]
        return [traced_block(lambda c, y: [c, y[0]], [self._own("c", part), self._first(part)], writes)]
