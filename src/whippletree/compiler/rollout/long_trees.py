"""Roll-outs of large trees: loops over bodies inside the loop over time steps.

The functions of the catalogue that only sweep over the tree are loop programs already
(:mod:`whippletree.compiler.frontend.loops`). Here their statements are put between the steps of a roll-out, with work
memory in place of their inputs and outputs; what lies between is a loop over single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.frontend.loops import loop_program
from whippletree.compiler.program import Address, Block, Buffer, Index, Lookup, Loop, Program, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import inline_program
from whippletree.compiler.rollout.rollout_blocks import NOT_FINITE, ROW, STAGE, STEP, note_status
from whippletree.spatial.joints import Free
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.steps import RK4_REACH, RK4_WEIGHTS

ENTRY = "entry"
"""Counter of the loops over single numbers."""

Q, V, FORCE, ACCELERATION, SLOPE, SHIFT, MOVED = (
    f"now.{word}" for word in ("q", "v", "force", "acceleration", "slope", "shift", "moved")
)
"""Work memory, one number for each coordinate or velocity."""

FREE = ("free.q", "free.v")
"""Where the coordinates and velocities of free bodies begin: names of the tables, and of what is looked up in them."""


def looped_rollout(tree: Skeleton, method: str, arguments: Sequence[Buffer], passive: bool, spaced: bool) -> Program:
    """The program of a roll-out of a tree without constraints, by ``semi_implicit_euler`` or ``rk4``."""
    return _LongTreeBuilder(tree, arguments, passive).program(method, spaced)


class _LongTreeBuilder:
    def __init__(self, tree: Skeleton, arguments: Sequence[Buffer], passive: bool) -> None:
        self.tree = tree
        self.nq, self.nv = tree.model.nq, tree.model.nv
        self.buffers = {b.name: b for b in arguments}
        self.passive = passive
        sizes = {Q: self.nq, V: self.nv, FORCE: self.nv, ACCELERATION: self.nv, SHIFT: self.nv, MOVED: self.nq}
        for name, size in (sizes | {"progress": 2}).items():
            self.work(name, size)

    def work(self, name: str, size: int) -> None:
        """Add a piece of work memory."""
        self.buffers[name] = Buffer(name, "work", (size,))

    def program(self, method: str, spaced: bool) -> Program:
        step = self._euler() if method == "semi_implicit_euler" else self._rk4()
        step += self._judge_step()
        row: list[Statement] = [Loop(STEP, "K", tuple(step))] if spaced else step
        begin: list[Statement] = [
            self._each(self.nq, ["q0"], lambda q: [q], [Q]),
            self._each(self.nv, ["v0"], lambda v: [v], [V]),
            self._once([], lambda: [0, 0], ["progress"]),
        ]
        record: list[Statement] = [
            self._each(self.nq, [Q], lambda q: [q], ["q"]),
            self._each(self.nv, [V], lambda v: [v], ["v"]),
        ]
        end = self._once(["progress"], lambda status, steps: [status, steps], ["status", "steps"])
        body = (*begin, Loop(ROW, "T", (*row, *record)), end)
        return Program(f"rollout_{method}", tuple(self.buffers.values()), body)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _euler(self) -> list[Statement]:
        """v⁺ = v + h a(q, v), q⁺ = q ⊕ h v⁺, linear velocities of free bodies in axes that do not turn."""

        def kick(h: Any, v: Any, a: Any) -> list[Any]:
            return [v + h * a, h * (v + h * a)]

        def turn(v: Array, a: Array) -> list[Array]:
            return [a + Free().turning(v)]

        return [
            *self._acceleration(Q, V),
            *self._each_free(turn, [V, ACCELERATION], [ACCELERATION]),
            self._each(self.nv, ["dt", V, ACCELERATION], kick, [V, SHIFT]),
            *self._integrate(self._each_free(Free().straight, [Q, V, SHIFT], [MOVED, V])),
        ]

    def _rk4(self) -> list[Statement]:
        """The stages as a loop; each writes the state that the next one starts from and adds to the sums."""
        for name, numbers in (("reach", RK4_REACH), ("weight", RK4_WEIGHTS)):
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

    def _acceleration(self, q: str, v: str) -> list[Statement]:
        """a(q, v) under the given forces and those of springs and dampers."""
        given = ["tau"] if "tau" in self.buffers else []
        forces: list[Statement] = [self._each(self.nv, given, lambda *tau: [tau[0] if tau else 0], [FORCE])]
        if self.passive:
            self.work("passive", self.nv)
            forces += self._call("passive_forces", {"q": q, "v": v}, {"forces": "passive"})
            forces.append(self._each(self.nv, [FORCE, "passive"], lambda f, p: [f + p], [FORCE]))
        return [
            *forces,
            *self._call("forward_dynamics", {"q": q, "v": v, "tau": FORCE}, {"a": ACCELERATION, "status": "failing"}),
            *self._note_status(),
        ]

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

    def _judge_step(self) -> list[Statement]:
        """Count the step if its state is good; else note why, and make the state NaN."""
        number = len(self.tree.nodes) + NOT_FINITE

        def look(x: Any, status: Any, steps: Any) -> list[Any]:
            fault = scalars.select(scalars.less(abs(x), math.inf), 0, number)
            return list(note_status(np.array([status, steps], dtype=object), fault))

        def keep(x: Any, status: Any, steps: Any) -> list[Any]:
            return [scalars.select(scalars.less(status, 1), x, math.nan)]

        def count(status: Any, steps: Any) -> list[Any]:
            return [status, scalars.select(scalars.less(status, 1), steps + 1, steps)]

        parts = ((self.nq, Q), (self.nv, V))
        return [
            *[self._each(size, [name, "progress"], look, ["progress"]) for size, name in parts],
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
        if buffer.role == "table":
            return [Address(name, (Index(STAGE),))]
        if buffer.shape in ((), (1,)) and name in ("dt", "status", "steps", "failing"):
            return [Address(name, (Index(None, 0),) * len(buffer.shape))]
        if buffer.shape[0] == "T":
            return [Address(name, (Index(ROW), Index(ENTRY)))]
        return [Address(name, (Index(ENTRY),))]

    def _call(self, name: str, inputs: dict[str, str], outputs: dict[str, str]) -> list[Statement]:
        """The statements of a function as loops over bodies, between pieces of this roll-out's work memory."""
        program = loop_program(functions.find(name, self.tree.model), self.tree)
        place = inputs | outputs
        for buffer in program.of_role("output"):
            if buffer.integer:
                self.work(place[buffer.name], 1)
        statements, own = inline_program(
            program, name, {b.name: place[b.name] for b in program.of_role("input", "output")}
        )
        self.buffers |= {buffer.name: buffer for buffer in own}
        return statements
