"""A mode of contact by machine code: accelerations, forces and the way back to its rows, one function for all modes.

What a mode holds comes with the call: which rows are on, along which directions contacts slide. So a model's code is
compiled once, whatever modes its run goes through. It is there for models whose contacts have closed forms and whose
rows are few enough to be unrolled; where a pivot is small, or rows depend on each other, the reference answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Buffer, If, Program, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.rollout_blocks import has_passive_forces
from whippletree.contact.contact_modes import HeldMotion, held_motion
from whippletree.contact.impact.impact import massless_basis
from whippletree.contact.problem.cones import largest
from whippletree.simulation.events.equations import EventEquations
from whippletree.tree.mechanism import Mechanism

MOST_UNROLLED_ROWS, MOST_UNROLLED_VELOCITIES = 16, 14
"""Rows and velocities up to which the block matrix is unrolled: code for 26 rows takes seconds to compile."""

HELD_MOTIONS = 2
"""Massless motions that a mode may hold by rows of its own."""

PHASE_CLOSINGS = 10
"""Newton corrections of a position projection."""

SHUT = 1e-15
"""Residual, m or rad, that counts as closed."""

NOTHING_YET = 1e300
"""More than any residual."""


class SwitchedRows(NamedTuple):
    """Rows that a mode holds, as numbers of a call."""

    on: Array
    """(rows,): 1 for those that hold: constraints, held massless motions, rows of candidates that can move."""
    holds: Array | None
    """(HELD_MOTIONS, n): held massless motions, the rest zero; None where there are no massless ones."""
    slide: Array
    """(candidates, 2) or one for each state: friction times direction of those that slide."""
    rub: Array
    """(n,): constant forces of dry joints that slide."""

    @property
    def projecting(self) -> tuple[Array, ...]:
        """Arguments of a projection."""
        return (self.on,) if self.holds is None else (self.on, self.holds)

    @property
    def arguments(self) -> tuple[Array, ...]:
        """Arguments of accelerations and steps."""
        return (*self.projecting, self.slide, self.rub)


class CompiledPhases:
    """The functions of a scene; ``possible`` tells whether there are any."""

    def __init__(self, scene: EventEquations) -> None:
        self.scene = scene
        model, self.dyn = scene.model, scene.motion.dyn
        few = scene.count <= MOST_UNROLLED_ROWS and model.nv <= MOST_UNROLLED_VELOCITIES
        self.moving = self._moving_rows() if few and scene.motion.can_be_unrolled else []
        """Rows of candidates, three of each, along which something can move: in a plane one tangent has none."""
        self.held = HELD_MOTIONS if few and self._has_massless_motions() else 0
        """Rows for massless motions that a mode may hold."""
        self.rows = len(scene.rows) + self.held + len(self.moving)
        few = few and self.rows <= MOST_UNROLLED_ROWS
        self.possible = few and scene.motion.can_be_unrolled and bool(scene.rows or scene.count)
        self.ready = False
        """Whether phases that begin now are to use them."""
        self.switched = bool(len(scene.motion.all_on)) if model.constraints else False

    def _odd_states(self) -> list[Array]:
        """Coordinates of two states that nothing is special about."""
        model = self.scene.model
        steps = np.cos(np.arange(1.0, 2 * model.nv + 1) ** 2).reshape(2, -1)
        return [self.scene.move(model.home.q, d) for d in steps]

    def _moving_rows(self) -> list[int]:
        """Rows that are not zero at odd states. (A mode that holds another one is left to Python.)"""
        scene = self.scene
        moves = np.any(scene.joints.rows != 0, axis=1)
        if scene.touching:
            own = [scene.motion.evaluate("contact_jacobian", q=q) for q in self._odd_states()]
            moves = np.concatenate([np.any(own, axis=(0, 2)), moves])
        return [int(row) for row in np.flatnonzero(moves)]

    def _has_massless_motions(self) -> bool:
        """At odd states. (A mode that holds one elsewhere is left to Python.)"""
        evaluate = self.scene.motion.evaluate
        return any(massless_basis(M, M[:0]).size for M in (evaluate("mass_matrix", q=q) for q in self._odd_states()))

    def places(self, rows: Sequence[int]) -> list[int] | None:
        """Where rows of candidates are among those of the machine code; None where one is not."""
        known = self._place_of
        return [known[row] for row in rows] if all(row in known for row in rows) else None

    @cached_property
    def _place_of(self) -> dict[int, int]:
        first = len(self.scene.rows) + self.held
        return {row: first + k for k, row in enumerate(self.moving)}

    def loads(self, t: Array, q: Array, v: Array, tau: Array, held: SwitchedRows) -> tuple[Array, Array] | None:
        """Accelerations (m, n) and forces of all rows (m, rows); None where a pivot is not to be trusted."""
        function = self.dyn.program(("phase_loads", self._key), self._loads_program, width=1)
        with np.errstate(all="ignore"):
            a, f, trust = function(t, q, v, tau, *self._active, *held.arguments)
        return (a, f) if np.all(trust > 0) else None

    def project(self, t: Array, q: Array, v: Array, held: SwitchedRows) -> tuple[Array, Array] | None:
        """The nearest states (m, nq), (m, n) at which the rows hold; None where a pivot is not to be trusted."""
        function = self.dyn.program(("phase_projection", self._key), self._projection_program, width=1)
        with np.errstate(all="ignore"):
            q, v, trust = function(t, q, v, *self._active, *held.projecting)
        return (q, v) if np.all(trust > 0) else None

    @property
    def _key(self) -> tuple[Any, ...]:
        return (self.rows, self.scene.touching, tuple(self.moving))

    @property
    def _active(self) -> tuple[Array, ...]:
        return (self.scene.motion.all_on,) if self.switched else ()

    # ---- programs ------------------------------------------------------------------------------------------------

    def _space(self, outputs: dict[str, tuple[int, ...]], *more: str) -> WorkSpace:
        model, space = self.scene.model, WorkSpace()
        shapes: dict[str, tuple[int, ...]] = {"t": (), "q0": (model.nq,), "v0": (model.nv,), "tau": (model.nv,)}
        shapes |= {"active": self.scene.motion.all_on.shape} if self.switched else {}
        shapes |= self.inputs
        left_out = {"tau", "slide", "rub"} - set(more)
        space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items() if name not in left_out])
        space.add(*[Buffer(name, "output", shape) for name, shape in outputs.items()])
        return space

    def _loads_program(self) -> Program:
        model = self.scene.model
        found = {"a": (model.nv,), "f": (self.rows,), "trust": ()}
        space = self._space(found, "tau", "slide", "rub")

        def loads(t: Any, q: Array, v: Array, tau: Array, *rest: Any) -> list[Any]:
            held = self._held_motion(t, q, v, tau, *rest)
            return [held.a, held.f, held.trust]

        reads = space.each(["t", "q0", "v0", "tau", *self._around, "slide", "rub"])
        return space.program("phase_loads", [traced_block(loads, reads, space.each(["a", "f", "trust"]))])

    def _projection_program(self) -> Program:
        model = self.scene.model
        space = self._space({"q": (model.nq,), "v": (model.nv,), "trust": ()})
        space.work(sound=(1,))
        each = space.each
        body = self._projection(space, space.at("t"), each(["q0", "v0"]), each(["q", "v"]), space.at("sound"))
        report = traced_block(lambda sound: [sound[0]], [space.at("sound")], [space.at("trust")])
        return space.program("phase_projection", [space.put(1, space.at("sound")), *body, report])

    @property
    def _around(self) -> list[str]:
        return [*(["active"] if self.switched else []), "on", *(["holds"] if self.held else [])]

    def _given(self, rest: Sequence[Any]) -> tuple[Any, Any, Any, tuple[Any, ...]]:
        """What is around a state: the switches, rows that are on, held massless motions, and all behind them."""
        active, rest = (rest[0], rest[1:]) if self.switched else (None, rest)
        on, rest = rest[0], rest[1:]
        holds, rest = (rest[0], rest[1:]) if self.held else (zeros(0, self.scene.model.nv), rest)
        return active, on, holds, tuple(rest)

    def _held_motion(self, t: Any, q: Array, v: Array, tau: Array, *rest: Any) -> HeldMotion:
        active, on, holds, (slide, rub) = self._given(rest)
        m = Mechanism.of(self.scene.model)
        state = {"t": t, "q": q, "v": v, "active": active}
        M, c = self._call(m, "mass_matrix", state), self._call(m, "bias", state)
        R, bias = self._rows(m, state, holds), self._bias(m, state)
        compliance = np.zeros(self.rows, dtype=object)
        compliance[: len(self.scene.rows)] = self.scene.compliance
        return held_motion(M, tau - c + rub, R, self._acting(R, slide), compliance, bias, on)

    def _projection(
        self, space: WorkSpace, time: Piece, start: list[Piece], end: list[Piece], sound: Piece
    ) -> list[Statement]:
        """From a state to the nearest one at which the rows hold; ``sound`` becomes negative where a pivot is not to be
        trusted."""
        model = self.scene.model
        space.work(candidate=(model.nq,), nearest=(model.nq,), residual=(1,), closed=(1,), apart=(1,))
        around = [time, *space.each(self._around)]
        each = space.each

        def begin(q: Array) -> list[Any]:
            q = self._normalise(q)
            return [q, q, [NOTHING_YET], [-1]]

        def look(x: Array, nearest: Array, residual: Array, t: Any, *rest: Any) -> list[Any]:
            active, on, *_ = self._given(rest)
            state = {"t": t, "q": x, "active": active}
            left = largest([0, *[abs(g) for g in self._residual(Mechanism.of(model), state) * on]])
            better = less(left, residual[0])
            # where a correction does not help, rounding has the last word
            kept = np.array([select(better, a, b) for a, b in zip(x, nearest, strict=True)], dtype=object)
            closed = select(better, select(less(SHUT, left), -1, 1), 1)
            return [kept, kept, [left], [closed], [-closed]]

        def correct(x: Array, sound: Array, t: Any, *rest: Any) -> list[Any]:
            active, on, holds, _ = self._given(rest)
            m = Mechanism.of(model)
            state = {"t": t, "q": x, "active": active}
            d = self._correction(m, state, holds, on, self._residual(m, state))
            return [m.manifold().integrate(x, d.a), [select(less(0, d.trust), sound[0], -1)]]

        def finish(x: Array, v: Array, sound: Array, t: Any, *rest: Any) -> list[Any]:
            active, on, holds, _ = self._given(rest)
            m = Mechanism.of(model)
            state = {"t": t, "q": x, "v": v, "active": active}
            speed = self._rows(m, state, holds) @ v
            if self.scene.rows:
                speed[: len(self.scene.rows)] = self._call(m, "constraint_velocity", state)[self.scene.rows]
            d = self._correction(m, state, holds, on, speed)
            return [x, v + d.a, [select(less(0, d.trust), sound[0], -1)]]

        places = ["candidate", "nearest", "residual", "closed", "apart"]
        closing = (
            traced_block(look, [*each(places[:3]), *around], each(places)),
            If(
                space.address("apart"),
                (traced_block(correct, [*each(["candidate"]), sound, *around], [*each(["candidate"]), sound]),),
            ),
        )
        return [
            traced_block(begin, start[:1], each(places[:4])),
            Until("closing", PHASE_CLOSINGS, space.address("closed"), closing),
            traced_block(finish, [*each(["candidate"]), start[1], sound, *around], [*end, sound]),
        ]

    # ---- as blocks of a kernel of many steps ---------------------------------------------------------------------

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells a scene's programs apart."""
        return ("phase", *self._key)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Rows that a mode holds."""
        n = self.scene.model.nv
        holds = {"holds": (self.held, n)} if self.held else {}
        return {"on": (self.rows,), **holds, "slide": (self.scene.count, 2), "rub": (n,)}

    def statements(self, space: WorkSpace, controlled: bool, watched: bool) -> tuple[list[Statement], list[Statement]]:
        """Rates at a point, with the forces of the rows where these are watched, and the end of a step brought back to
        the rows."""
        at, model = space.at, self.scene.model

        def place(X: Array) -> list[Array]:
            return list(np.split(X, [model.nq]))

        def rates(q: Array, v: Array, tau: Array, t: Any, doubt: Array, *rest: Any) -> list[Any]:
            tau = tau if controlled else zeros(model.nv)
            if has_passive_forces(model):
                tau = tau + self._call(Mechanism.of(model), "passive_forces", {"q": q, "v": v})
            held = self._held_motion(t, q, v, tau, *rest)
            rate = self._call(Mechanism.of(model), "rate", {"q": q, "v": v})
            found = [rate, held.a, [select(less(0, held.trust), doubt[0], 1)]]
            return [*found, held.f, held.room] if watched else found

        space.work(sound=(1,))
        if watched:
            places = space.buffers["X"].shape[0]
            space.work(force=(places, self.rows), room=(places,))
        force = [at("force", "point"), at("room", "point")] if watched else []
        state = [at("q"), at("v"), at("tau"), at("T", "point"), at("doubt")]
        reads = [*state, *space.each([*self._around, "slide", "rub"])]
        Y = at("Y", "point")
        end = [Piece((model.nq,), Y.addresses[: model.nq]), Piece((model.nv,), Y.addresses[model.nq :])]
        project = self._projection(space, at("T", "point"), [at("q"), at("v")], end, at("sound"))
        judge = traced_block(
            lambda sound, doubt: [[select(less(0, sound[0]), doubt[0], 1)]],
            space.each(["sound", "doubt"]),
            [at("doubt")],
        )
        return [traced_block(place, [at("X", "point")], [at("q"), at("v")])], [
            traced_block(rates, reads, [at("F", "point"), at("doubt"), *force]),
            If(space.address("ending"), (space.put(1, at("sound")), *project, judge)),
        ]

    # ---- their mathematics ---------------------------------------------------------------------------------------

    def _call(self, m: Mechanism, name: str, state: dict[str, Any]) -> Any:
        function = functions.find(name, self.scene.model)
        return function.implementation(m, *[state[word] for word in function.inputs])

    def _normalise(self, q: Array) -> Array:
        found = np.array(q, dtype=object)
        for part, kind in zip(self.scene.model.q_slices, self.scene.model.joint_types, strict=True):
            if kind.nq > kind.nv:
                own = slice(part.stop - 4, part.stop)
                found[own] = found[own] / sqrt(found[own] @ found[own])
        return found

    def _rows(self, m: Mechanism, state: dict[str, Any], holds: Array) -> Array:
        """(rows, n): the model's constraints, held massless motions, and those of candidates."""
        scene, n = self.scene, self.scene.model.nv
        own = self._call(m, "constraint_jacobian", state)[scene.rows] if scene.rows else zeros(0, n)
        touching = self._call(m, "contact_jacobian", state) if scene.touching else zeros(0, n)
        return np.concatenate([own, holds, np.concatenate([touching, scene.joints.rows.astype(object)])[self.moving]])

    def _bias(self, m: Mechanism, state: dict[str, Any]) -> Array:
        scene = self.scene
        own = self._call(m, "constraint_bias", state)[scene.rows] if scene.rows else zeros(0)
        touching = self._call(m, "contact_bias", state) if scene.touching else zeros(0)
        touching = np.concatenate([touching, zeros(len(scene.joints.rows))])
        return np.concatenate([own, zeros(self.held), touching[self.moving]])

    def _acting(self, R: Array, slide: Array) -> Array:
        """E: sliding contacts push along the edge of their cone."""
        E, place = np.array(R, dtype=object), self._place_of
        for i in range(self.scene.count):
            tangents = [(place[3 * i + 1 + j], slide[i, j]) for j in (0, 1) if 3 * i + 1 + j in place]
            if 3 * i in place and tangents:
                E[place[3 * i]] = R[place[3 * i]] - sum(along * R[row] for row, along in tangents)
        return E

    def _residual(self, m: Mechanism, state: dict[str, Any]) -> Array:
        """(rows,): of positions; zero for rows of velocities alone."""
        scene = self.scene
        found = zeros(self.rows)
        if scene.rows:
            g = [*self._call(m, "constraint_residual", state), 0]
            found[: len(scene.rows)] = [g[k] for k in scene.position_rows]
        gaps = [*self._call(m, "contact_gaps", state)] if scene.touching else []
        gaps += [stop.gap(state["q"]) for stop in scene.joints.stops]
        for i, gap in enumerate(gaps):
            if 3 * i in self._place_of:
                found[self._place_of[3 * i]] = gap
        return found

    def _correction(self, m: Mechanism, state: dict[str, Any], holds: Array, on: Array, away: Array) -> HeldMotion:
        """The change of least energy that takes the rows from where they are to zero."""
        M, R = self._call(m, "mass_matrix", state), self._rows(m, state, holds)
        return held_motion(M, zeros(self.scene.model.nv), R, R, zeros(self.rows), away, on)
