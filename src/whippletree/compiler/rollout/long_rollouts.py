"""Roll-outs of large models: loops over bodies, clusters or fronts inside the loop over time steps.

Functions of the catalogue that sweep over bodies, over clusters of loops or over the fronts of an elimination are loop
programs already (:mod:`whippletree.compiler.frontend.loops`). Here their statements are put between the steps of a
roll-out, with work memory in place of their inputs and outputs; what lies between is a loop over single numbers. A
controller is written out: its code is as long as what it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.frontend.code_forms import Request, catalogue_program
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    every_address,
)
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import inline_program
from whippletree.compiler.rollout.rollout_blocks import (
    NOT_CLOSED,
    NOT_FINITE,
    ROW,
    STAGE,
    STEP,
    controller_forces,
    note_status,
)
from whippletree.compiler.rollout.rollout_steps import CLOSED_STEP, STEP_CORRECTIONS
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.model import Model
from whippletree.spatial.joints import Free
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.steps import RK4_REACH, RK4_TIMES, RK4_WEIGHTS

ENTRY = "entry"
"""Counter of the loops over single numbers."""

Q, V, FORCE, ACCELERATION, SLOPE, SHIFT, MOVED, RESIDUAL, TIME = (
    f"now.{word}" for word in ("q", "v", "force", "acceleration", "slope", "shift", "moved", "residual", "time")
)
"""Work memory: one number for each coordinate or velocity; residuals of position rows; when functions are asked, s."""

FREE = ("free.q", "free.v")
"""Where the coordinates and velocities of free bodies begin: names of the tables, and of what is looked up in them."""

STAGE_TABLES = {"reach": RK4_REACH, "weight": RK4_WEIGHTS, "part": RK4_TIMES}
"""Numbers of which each stage has one."""

SINGLE = ("dt", "status", "steps", "failing", TIME)
"""Buffers of one number."""


class LongPlan(NamedTuple):
    """What a roll-out of a large model is asked to do, beside its arguments."""

    method: str
    """``semi_implicit_euler`` or ``rk4``."""
    passive: bool
    """Whether springs, dampers and elements of force act."""
    spaced: bool
    """Whether a row takes several steps."""
    controller: Any = None
    """tau = f(t, q, v), on any scalar."""
    parameters: tuple[str, ...] = ()
    """Numbers of the model that are left open."""


def looped_rollout(tree: Skeleton, plan: LongPlan, arguments: Sequence[Buffer]) -> Program:
    """The program of a roll-out whose functions are loops."""
    return _LongRolloutBuilder(tree, plan, arguments).program()


def runs_as_loops(model: Model, plan: LongPlan) -> bool:
    """Whether the functions that such a roll-out calls in every step are loops, or short for another reason."""
    names = ["forward_dynamics", "integrate", *(["rate"] if plan.method == "rk4" else [])]
    if model.constraints:
        names += ["project_velocity", *(["closing_step"] if constraint_set(model).position_rows else [])]
    requests = [Request(model, functions.find(name, model), (), plan.parameters) for name in names]
    return all(request.is_looped or request.without_gravity is not None for request in requests)


def _opened(path: str) -> str:
    """Name of the work memory that holds an open parameter."""
    return f"opened {path}"


class _LongRolloutBuilder:
    def __init__(self, tree: Skeleton, plan: LongPlan, arguments: Sequence[Buffer]) -> None:
        self.tree, self.plan = tree, plan
        self.nq, self.nv = tree.model.nq, tree.model.nv
        self.buffers = {b.name: b for b in arguments}
        sizes = {Q: self.nq, V: self.nv, FORCE: self.nv, ACCELERATION: self.nv, SHIFT: self.nv, MOVED: self.nq}
        for name, size in (sizes | {"progress": 2}).items():
            self.work(name, size)
        if "clock" in self.buffers or plan.controller is not None:
            self.work(TIME, 1)

    def work(self, name: str, size: int) -> None:
        """Add a piece of work memory."""
        self.buffers[name] = Buffer(name, "work", (size,))

    def program(self) -> Program:
        step = self._euler() if self.plan.method == "semi_implicit_euler" else self._rk4()
        if self.tree.model.constraints:
            step += self._settle_on_constraints(constraint_set(self.tree.model))
        step += self._judge_step()
        row: list[Statement] = [Loop(STEP, "K", tuple(step))] if self.plan.spaced else step
        begin: list[Statement] = [
            self._each(self.nq, ["q0"], lambda q: [q], [Q]),
            self._each(self.nv, ["v0"], lambda v: [v], [V]),
            self._once([], lambda: [0, 0], ["progress"]),
            *self._open_numbers(),
        ]
        record: list[Statement] = [
            self._each(self.nq, [Q], lambda q: [q], ["q"]),
            self._each(self.nv, [V], lambda v: [v], ["v"]),
        ]
        end = self._once(["progress"], lambda status, steps: [status, steps], ["status", "steps"])
        body = (*begin, Loop(ROW, "T", (*row, *record)), end)
        return Program(f"rollout_{self.plan.method}", tuple(self.buffers.values()), body)

    def _open_numbers(self) -> list[Statement]:
        """Open parameters in work memory, where the functions of a step find them."""
        found: list[Statement] = []
        for path in self.plan.parameters:
            own = every_address(self.buffers[path])
            self.work(_opened(path), len(own))
            kept = every_address(self.buffers[_opened(path)])
            found.append(
                traced_block(lambda x: [x], [Piece((len(own),), tuple(own))], [Piece((len(own),), tuple(kept))])
            )
        return found

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _euler(self) -> list[Statement]:
        """v⁺ = v + h a(q, v), q⁺ = q ⊕ h v⁺, linear velocities of free bodies in axes that do not turn."""

        def kick(h: Any, v: Any, a: Any) -> list[Any]:
            return [v + h * a, h * (v + h * a)]

        def turn(v: Array, a: Array) -> list[Array]:
            return [a + Free().turning(v)]

        return [
            *self._set_time(),
            *self._acceleration(Q, V),
            *self._each_free(turn, [V, ACCELERATION], [ACCELERATION]),
            self._each(self.nv, ["dt", V, ACCELERATION], kick, [V, SHIFT]),
            *self._integrate(self._each_free(Free().straight, [Q, V, SHIFT], [MOVED, V])),
        ]

    def _rk4(self) -> list[Statement]:
        """The stages as a loop; each writes the state that the next one starts from and adds to the sums."""
        for name, numbers in STAGE_TABLES.items():
            self.buffers[name] = Buffer(name, "table", (len(numbers),), np.array(numbers, dtype=float))
        for letter, size in (("q", self.nq), ("v", self.nv)):
            self.work(f"stage.{letter}", size)
            self.work(f"sum.{letter}", size)
        self.work(SLOPE, self.nq)

        def begin(x: Any) -> list[Any]:
            return [x, 0]

        def advance(h: Any, reach: Any, weight: Any, x: Any, slope: Any, total: Any) -> list[Any]:
            return [x + h * reach * slope, total + weight * slope]

        def end(h: Any, x: Any, total: Any) -> list[Any]:
            return [x + h * total]

        step = ["dt", "reach", "weight"]
        stage = [
            *self._set_time("part"),
            *self._call("rate", {"q": "stage.q", "v": "stage.v"}, {"rate": SLOPE}),
            *self._acceleration("stage.q", "stage.v"),
            self._each(self.nq, [*step, Q, SLOPE, "sum.q"], advance, ["stage.q", "sum.q"]),
            self._each(self.nv, [*step, V, ACCELERATION, "sum.v"], advance, ["stage.v", "sum.v"]),
        ]
        return [
            self._each(self.nq, [Q], begin, ["stage.q", "sum.q"]),
            self._each(self.nv, [V], begin, ["stage.v", "sum.v"]),
            Loop(STAGE, len(RK4_REACH), tuple(stage)),
            self._each(self.nq, ["dt", Q, "sum.q"], end, [Q]),
            self._each(self.nv, ["dt", V, "sum.v"], end, [V]),
            # no displacement: what is left is to bring quaternions back to unit length
            self._each(self.nv, [], lambda: [0], [SHIFT]),
            *self._integrate(),
        ]

    def _set_time(self, part: str | int = 0) -> list[Statement]:
        """Where anything depends on time: the part of the step that is over; the name of a table has it for each
        stage."""
        if TIME not in self.buffers:
            return []
        clock = [name for name in ("clock", "offsets") if name in self.buffers]
        if isinstance(part, str):
            return [self._once(["dt", part, *clock], lambda h, part, *begin: [sum(begin) + part * h], [TIME])]
        return [self._once(["dt", *clock], lambda h, *begin: [sum(begin) + part * h], [TIME])]

    def _acceleration(self, q: str, v: str) -> list[Statement]:
        """a(q, v) under the given forces, those of a controller and of actuators, and those of springs and dampers."""
        given = ["tau"] if "tau" in self.buffers else []
        forces: list[Statement] = [self._each(self.nv, given, lambda *tau: [tau[0] if tau else 0], [FORCE])]
        if self.plan.controller is not None:
            forces.append(self._add_controller(q, v))
        if "ctrl" in self.buffers:
            forces += self._add_actuators(q, v)
        if self.plan.passive:
            forces += self._add_forces("passive_forces", {"q": q, "v": v}, "forces")
        result = {"a": ACCELERATION, "status": "failing"}
        return [
            *forces,
            *self._call("forward_dynamics", {"q": q, "v": v, "tau": FORCE}, result),
            *self._note_status(),
        ]

    def _add_controller(self, q: str, v: str) -> Block:
        """FORCE += those of the controller, written out."""

        def control(tau: Array, t: Any, q: Array, v: Array) -> list[Array]:
            return [tau + controller_forces(self.plan.controller, t, q, v)]

        parts = [Piece((self.buffers[n].size,), tuple(every_address(self.buffers[n]))) for n in (FORCE, TIME, q, v)]
        reads = [parts[0], parts[1]._replace(shape=()), *parts[2:]]
        return traced_block(control, reads, [parts[0]])

    def _add_actuators(self, q: str, v: str) -> list[Statement]:
        """FORCE += those of actuators under the commands of this row."""
        count = len(self.tree.model.actuators)
        self.work("commands", count)
        commands = self._each(count, ["ctrl"], lambda command: [command], ["commands"])
        return [commands, *self._add_forces("actuator_forces", {"q": q, "v": v, "ctrl": "commands"}, "tau")]

    def _add_forces(self, name: str, inputs: dict[str, str], output: str) -> list[Statement]:
        """FORCE += what a function gives."""
        self.work(name, self.nv)
        add = self._each(self.nv, [FORCE, name], lambda force, more: [force + more], [FORCE])
        return [*self._call(name, inputs, {output: name}), add]

    def _note_status(self) -> list[Statement]:
        """Keep the first status that was not zero."""
        if "failing" not in self.buffers:
            return []

        def note(status: Any, steps: Any, failing: Any) -> list[Any]:
            return list(note_status(np.array([status, steps], dtype=object), failing))

        return [self._once(["progress", "failing"], note, ["progress"])]

    def _integrate(self, correct: Sequence[Statement] = ()) -> list[Statement]:
        """q ← q ⊕ shift; ``correct``: what is done to the result before."""
        return [
            *self._call("integrate", {"q": Q, "d": SHIFT}, {"q_out": MOVED}),
            *correct,
            self._each(self.nq, [MOVED], lambda q: [q], [Q]),
        ]

    def _settle_on_constraints(self, system: ConstraintSet) -> list[Statement]:
        """Back to the constraints at the end of the step: positions by corrections of least energy, then velocities."""
        found = self._set_time(1)
        if system.position_rows:
            correction = [
                *self._call("closing_step", {"q": Q}, {"d": SHIFT, "status": "failing"}),
                *self._note_status(),
                *self._integrate(),
            ]
            found.append(Loop("round", STEP_CORRECTIONS, tuple(correction)))
            self.work(RESIDUAL, len(system.position_rows))
            found += self._call("constraint_residual", {"q": Q}, {"residual": RESIDUAL})
        # SHIFT is free again: the velocities are not written over while they are read
        return [
            *found,
            *self._call("project_velocity", {"q": Q, "v": V}, {"v_out": SHIFT, "status": "failing"}),
            *self._note_status(),
            self._each(self.nv, [SHIFT], lambda v: [v], [V]),
        ]

    def _judge_step(self) -> list[Statement]:
        """Count the step if its state is good; else note why, and make the state NaN."""
        nodes = len(self.tree.nodes)

        def look(x: Any, status: Any, steps: Any) -> list[Any]:
            fault = scalars.select(scalars.less(abs(x), math.inf), 0, nodes + NOT_FINITE)
            return list(note_status(np.array([status, steps], dtype=object), fault))

        def look_open(residual: Any, rigid: Any, status: Any, steps: Any) -> list[Any]:
            fault = scalars.select(scalars.less(CLOSED_STEP, abs(residual) * rigid), nodes + NOT_CLOSED, 0)
            return list(note_status(np.array([status, steps], dtype=object), fault))

        def keep(x: Any, status: Any, steps: Any) -> list[Any]:
            return [scalars.select(scalars.less(status, 1), x, math.nan)]

        def count(status: Any, steps: Any) -> list[Any]:
            return [status, scalars.select(scalars.less(status, 1), steps + 1, steps)]

        parts = ((self.nq, Q), (self.nv, V))
        found = [self._each(size, [name, "progress"], look, ["progress"]) for size, name in parts]
        if RESIDUAL in self.buffers:
            system = constraint_set(self.tree.model)
            rigid = [0.0 if system.compliance[i] else 1.0 for i in system.position_rows]
            self.buffers["rigid"] = Buffer("rigid", "table", (len(rigid),), np.array(rigid))
            found.append(self._each(len(rigid), [RESIDUAL, "rigid", "progress"], look_open, ["progress"]))
        return [
            *found,
            *[self._each(size, [name, "progress"], keep, [name]) for size, name in parts],
            self._once(["progress"], count, ["progress"]),
        ]

    # ---- statements ----------------------------------------------------------------------------------------------

    def _each(
        self, count: int, reads: Sequence[str], function: Callable[..., list[Any]], writes: Sequence[str]
    ) -> Loop:
        """A loop over the numbers of buffers; ``progress`` is passed whole, a scalar or table as its one number."""
        return Loop(ENTRY, count, (self._once(reads, function, writes),))

    def _each_free(
        self, function: Callable[..., Sequence[Any]], reads: Sequence[str], writes: Sequence[str]
    ) -> list[Statement]:
        """A loop over the free bodies; the function takes and returns their coordinates (7,) and velocities (6,)."""
        parts = zip(self.tree.nodes, self.tree.q_slices, self.tree.v_slices, strict=True)
        starts = [(i.start, j.start) for node, i, j in parts if isinstance(node.joint, Free)]
        if not starts:
            return []
        for name, places in zip(FREE, np.array(starts, dtype=np.int64).T, strict=True):
            self.buffers[name] = Buffer(name, "index", (len(starts),), np.ascontiguousarray(places))

        def own(name: str) -> Piece:
            register, size = (FREE[0], 7) if name in (Q, MOVED) else (FREE[1], 6)
            return Piece((size,), tuple(Address(name, (Index(register, i),)) for i in range(size)))

        block = traced_block(function, [own(name) for name in reads], [own(name) for name in writes])
        places = [Lookup(name, Address(name, (Index(ENTRY),))) for name in FREE]
        return [Loop(ENTRY, len(starts), (*places, block))]

    def _once(self, reads: Sequence[str], function: Callable[..., list[Any]], writes: Sequence[str]) -> Block:
        trace = Trace()
        loads = [address for name in reads for address in self._addresses(name)]
        results = function(*[trace.input() for _ in loads])
        return Block(finish(trace, results), tuple(loads), tuple(a for name in writes for a in self._addresses(name)))

    def _addresses(self, name: str) -> list[Address]:
        buffer = self.buffers[name]
        if name == "progress":
            return [Address(name, (Index(None, i),)) for i in range(2)]
        if name in STAGE_TABLES:
            return [Address(name, (Index(STAGE),))]
        if name in SINGLE:
            return [Address(name, (Index(None, 0),) * len(buffer.shape))]
        named = {"T": ROW, "K": STEP}
        if isinstance(buffer.shape[0], str):
            own = (Index(named[buffer.shape[0]]),)
            return [Address(name, own if len(buffer.shape) == 1 else (*own, Index(ENTRY)))]
        return [Address(name, (Index(ENTRY),))]

    def _call(self, name: str, inputs: dict[str, str], outputs: dict[str, str]) -> list[Statement]:
        """The statements of a function, between pieces of this roll-out's work memory."""
        function, opened = functions.find(name, self.tree.model), self.plan.parameters
        program = catalogue_program(Request(self.tree.model, function, (), opened))
        place = inputs | outputs | {"t": TIME} | {path: _opened(path) for path in opened}
        for buffer in program.of_role("output"):
            if buffer.integer:
                self.work(place[buffer.name], 1)
        statements, own = inline_program(
            program, name, {b.name: place[b.name] for b in program.of_role("input", "output")}
        )
        self.buffers |= {buffer.name: buffer for buffer in own}
        return statements
