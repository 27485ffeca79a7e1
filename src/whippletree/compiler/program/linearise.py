"""The derivative of a program, as statements like its own: each block with its slopes, in the loops that it has.

A program maps inputs x to outputs y through numbers in memory. Every number that depends on a *moving* input has a
slope in a buffer of the same shape, and for the way back an adjoint ("bar"):

    forward    ẏ = (∂y/∂x) ẋ: the statements in their order, on slopes
    backward   x̄ = (∂y/∂x)ᵀ ȳ: the statements in reverse order, loops the other way round; what a block has stored is
               taken from its bar, which becomes 0, and added to the bars of what it has loaded

Both come right after the values of each block, or later, as often as there are directions: then the values are
computed once, and what slopes need of them is kept on a tape with a row for each round of a loop. Which numbers are
kept and which are computed again from others is chosen by a minimum cut
(:mod:`~whippletree.compiler.program.store_or_recompute`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from whippletree.arithmetic.trace import Straight, Trace, Traced, finish, gradient, tangent
from whippletree.arithmetic.trace.passes import live
from whippletree.compiler.program.check import PLAIN_OPERATIONS
from whippletree.compiler.program.moving_numbers import Rounds, find_moving, rounds_of
from whippletree.compiler.program.program import (
    Address,
    Block,
    Buffer,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    Switch,
    every_statement,
    map_addresses,
    map_statements,
)
from whippletree.compiler.program.store_or_recompute import Share, shares
from whippletree.errors import UnsupportedError

Way: TypeAlias = Literal["forward", "backward"]

LANE = "lane of slopes"
"""The counter of directions that are computed side by side."""

LASTING = ("input", "table")
"""Roles of buffers whose numbers can be read again at any time."""


def slope_name(buffer: str) -> str:
    """The buffer of the slopes of a buffer's numbers."""
    return f"slope of {buffer}"


def bar_name(buffer: str) -> str:
    """The buffer of the adjoints of a buffer's numbers."""
    return f"bar of {buffer}"


class Linearised(NamedTuple):
    """A program and its derivative at the same state.

    Slopes and bars of inputs and outputs are in buffers named by :func:`slope_name` and :func:`bar_name`, which are not
    among ``buffers``: where they are is up to the caller. Bars must be 0 when ``derivative`` begins, but for those of
    outputs, and are so when it ends, but for those of inputs and outputs.
    """

    values: tuple[Statement, ...]
    """The program; empty where the derivative computes the values itself."""
    derivative: tuple[Statement, ...]
    buffers: tuple[Buffer, ...]
    """Work space beside the program's own."""


def can_keep_values(program: Program) -> bool:
    """Whether a program's values can be computed once for many directions: blocks in loops that are not nested."""
    top = [s for s in program.body if isinstance(s, Loop)]
    plain = all(isinstance(s, (Block, Loop, Lookup)) for s in program.body)
    inner = [s for loop in top for s in every_statement(loop.body)]
    return plain and all(isinstance(s, (Block, Switch, Lookup)) for s in inner)


def linearise(
    program: Program, moving: Collection[str], way: Way = "forward", *, apart: bool = True, lanes: int = 0
) -> Linearised:
    """The derivative of a program with respect to some of its inputs.

    ``apart``: the values are computed beforehand (:func:`can_keep_values`); otherwise slopes are computed along with
    them, which only ``forward`` can. ``lanes``: so many directions at a time, side by side, if any: slopes have a last
    dimension more. Then all that slopes need of the values is in work space.

    Raises:
        UnsupportedError: for programs that depend on numbers of a state other than by arithmetic.
    """
    if any(not isinstance(s, (Block, Switch, Lookup, Loop)) for s in every_statement(program.body)):
        raise UnsupportedError(f"{program.name}: a program that branches on numbers of a state has no derivative here")
    found = _Derivative(program, moving, way, apart, LASTING if not lanes else ()).linearised()
    return _in_lanes(found, lanes) if lanes else found


def _in_lanes(found: Linearised, lanes: int) -> Linearised:
    """A derivative that was computed apart, for several directions side by side."""

    def widen(address: Address) -> Address:
        slopes = address.buffer.startswith(slope_name(""))
        return Address(address.buffer, (*address.indices, Index(LANE))) if slopes else address

    def several(statement: Statement) -> Statement:
        if not isinstance(statement, Block):
            return statement
        plain = all(node[0] in PLAIN_OPERATIONS for node in statement.code.nodes)
        return Loop(LANE, lanes, (statement,), side_by_side=plain)

    def widened(buffer: Buffer) -> Buffer:
        if not buffer.name.startswith(slope_name("")):
            return buffer
        pitch = None if buffer.pitch is None else lanes * buffer.pitch
        return replace(buffer, shape=(*buffer.shape, lanes), pitch=pitch)

    buffers = [widened(buffer) for buffer in found.buffers]
    derivative = map_statements(map_addresses(found.derivative, widen), several)
    return Linearised(found.values, derivative, tuple(buffers))


@dataclass
class _Derivative:
    program: Program
    moving: Collection[str]
    way: Way
    apart: bool
    lasting: tuple[str, ...]

    def __post_init__(self) -> None:
        self.rounds = rounds_of(self.program, single=self.apart)
        self.moves = find_moving(self.program, self.rounds, self.moving)
        self._outputs = {b.name: not b.integer for b in self.program.of_role("output")}
        """Names of outputs, and whether they hold numbers."""
        self._read_again = {b.name for b in self.program.of_role(*self.lasting)}
        self.buffers: dict[str, Buffer] = {}
        self.met = 0
        """Blocks met so far: they are numbered in the order in which they are written."""
        self.kept = 0
        """Numbers that blocks before this one have put on the tape in the same round of a loop."""

    def linearised(self) -> Linearised:
        values, derivative = self._statements(self.program.body, None)
        self._add_twins()
        if not self.apart:
            return Linearised((), tuple(derivative), tuple(self.buffers.values()))
        return Linearised(tuple(values), tuple(derivative), tuple(self.buffers.values()))

    def _add_twins(self) -> None:
        """Buffers for slopes, or bars, of the program's work space."""
        name = slope_name if self.way == "forward" else bar_name
        for buffer in self.program.of_role("work"):
            if buffer.name in self.moves.buffers:
                self.buffers[name(buffer.name)] = replace(buffer, name=name(buffer.name))

    # --- statements ---------------------------------------------------------------------------------------------------

    def _statements(self, body: Sequence[Statement], loop: Loop | None) -> tuple[list[Statement], list[Statement]]:
        """The statements that compute values, and those of the derivative, in the order in which they run."""
        values: list[Statement] = []
        derivative: list[list[Statement]] = []
        lookups: list[Statement] = []
        for statement in body:
            match statement:
                case Block():
                    value, slopes = self._block(statement, loop)
                case Lookup():
                    value, slopes = [statement], []
                    if self.way == "backward":
                        lookups.append(statement)
                    else:
                        slopes = [statement]
                case Loop():
                    value, slopes = self._loop(statement)
                case Switch():
                    value, slopes = self._switch(statement, loop)
                case _:
                    raise AssertionError(statement)
            values += value
            derivative.append(slopes)
        if self.way == "backward":
            derivative.reverse()
        return values, [*lookups, *[s for part in derivative for s in part]]

    def _loop(self, loop: Loop) -> tuple[list[Statement], list[Statement]]:
        self.kept = 0
        values, slopes = self._statements(loop.body, loop)
        backwards = loop.backwards != (self.way == "backward")
        # slopes of several rounds at once would need blocks of another kind
        own = replace(loop, body=tuple(slopes), backwards=backwards, side_by_side=loop.side_by_side and not self.apart)
        return [replace(loop, body=tuple(values))], [own] if _has_blocks(slopes) else []

    def _switch(self, switch: Switch, loop: Loop | None) -> tuple[list[Statement], list[Statement]]:
        before, after, pairs = self.kept, self.kept, []
        for case in switch.cases:  # of which a round takes one
            self.kept = before
            pairs.append(self._statements(case, loop))
            after = max(after, self.kept)
        self.kept = after
        values, slopes = (tuple(tuple(pair[side]) for pair in pairs) for side in (0, 1))
        return [Switch(switch.register, values)], [Switch(switch.register, slopes)] if _has_blocks(
            [s for case in slopes for s in case]
        ) else []

    def _block(self, block: Block, loop: Loop | None) -> tuple[list[Statement], list[Statement]]:
        number, self.met = self.met, self.met + 1
        code = _BlockTrace(block, self.moves.loads[number], self._stored_slopes(number, block))
        if self.way == "backward":
            return self._backward_block(code, self.rounds[number], loop)
        slopes = code.slopes()
        stores = [(self._twin(a), x) for a, x, kept in zip(block.stores, slopes, code.kept, strict=True) if kept]
        loads = {x.index: self._twin(block.loads[i]) for i, x in code.directions.items()}
        if not self.apart:
            return [], [code.whole(stores, loads)]
        return code.parts(stores, loads, self._tape(loop), self._read_again)

    def _stored_slopes(self, number: int, block: Block) -> list[bool]:
        """Which stores of a block have slopes: to what moves somewhere, and to outputs that are numbers."""
        outputs = self._outputs
        forward = self.way == "forward"
        pairs = zip(block.stores, self.moves.stores[number], strict=True)
        return [outputs[a.buffer] and (moves or forward) if a.buffer in outputs else moves for a, moves in pairs]

    def _twin(self, address: Address) -> Address:
        name = slope_name if self.way == "forward" else bar_name
        return Address(name(address.buffer), address.indices)

    # --- memory -------------------------------------------------------------------------------------------------------

    def _tape(self, loop: Loop | None) -> Callable[[int], list[Address]]:
        """Where a block keeps so many numbers: in the row of its round, or, outside of loops, of its own."""

        def places(count: int) -> list[Address]:
            if loop is None:
                name = f"tape of block {self.met}"
                self.buffers[name] = Buffer(name, "work", (max(count, 1),))
                return [Address(name, (Index(None, i),)) for i in range(count)]
            name = f"tape of {self._number(loop)}"
            first, self.kept = self.kept, self.kept + count
            known = self.buffers.get(name)
            width = max(self.kept, known.shape[1] if known else 1)
            self.buffers[name] = Buffer(name, "work", (loop.count, width))  # type: ignore[arg-type]
            return [Address(name, (Index(loop.counter), Index(None, first + i))) for i in range(count)]

        return places

    def _number(self, loop: Loop) -> int:
        """Number of a loop among the program's statements."""
        return next(i for i, s in enumerate(self.program.body) if s is loop)

    # --- the way back -------------------------------------------------------------------------------------------------

    def _backward_block(
        self, code: _BlockTrace, rounds: Rounds, loop: Loop | None
    ) -> tuple[list[Statement], list[Statement]]:
        block = code.block
        bars = code.bars()
        loads = {x.index: self._twin(block.stores[j]) for j, x in code.seeds.items()}
        taken = [j for j in code.seeds if block.stores[j].buffer not in self._outputs]
        stores: list[tuple[Address, Any]] = []
        added: list[tuple[Address, Any]] = []
        kept = dict.fromkeys(taken)
        for i, bar in bars.items():
            at = self._twin(block.loads[i])
            same = [j for j in taken if block.stores[j] == block.loads[i]]
            if rounds.load_is_alone(i, [k for k in bars if k != i], taken):
                old = code.trace.input()
                loads[old.index] = at
                stores.append((at, old + bar))
            elif same and rounds.load_is_alone(i, [k for k in bars if k != i], [j for j in taken if j not in same]):
                kept.pop(same[0])
                stores.append((at, bar))
            else:
                added.append((at, bar))
        stores += [(self._twin(block.stores[j]), 0) for j in kept]
        waiting = [Address(WAITING, (Index(None, k),)) for k in range(len(added))]
        if added:
            size = max(len(added), self.buffers[WAITING].size if WAITING in self.buffers else 0)
            self.buffers[WAITING] = Buffer(WAITING, "work", (size,))
        stores += [(to, bar) for to, (_, bar) in zip(waiting, added, strict=True)]
        values, derivative = code.parts(stores, loads, self._tape(loop), self._read_again)
        return values, [*derivative, *[_add(source, at) for source, (at, _) in zip(waiting, added, strict=True)]]


WAITING = "waiting"
"""The buffer of adjoints that are added one after the other, since they may belong to one number."""


def _has_blocks(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, Block) for s in every_statement(body))


def _add(source: Address, target: Address) -> Block:
    """target := target + source."""
    trace = Trace()
    return Block(finish(trace, [trace.input() + trace.input()]), (source, target), (target,))


class _BlockTrace:
    """The code of a block as a trace, and its slopes."""

    def __init__(self, block: Block, moving: Sequence[bool], kept: Sequence[bool]) -> None:
        """``moving``: which loads have slopes; ``kept``: which stores have some, or 0 in their place."""
        self.block, self.kept = block, kept
        self.trace = Trace()
        self.inputs = list(self.trace.inputs(len(block.loads)))
        self.outputs = replay(block.code, self.trace, self.inputs)
        self.own = len(self.trace.nodes)
        """Nodes of the block itself; later ones are its derivative's, or shared with it."""
        self.moving = [i for i, moves in enumerate(moving) if moves]
        self.directions: dict[int, Traced] = {}
        self.seeds: dict[int, Traced] = {}

    def slopes(self) -> list[Any]:
        """The slopes of all stores."""
        if not self.moving:
            return [0] * len(self.outputs)
        self.directions = {i: self.trace.input() for i in self.moving}
        return tangent(self.outputs, [self.inputs[i] for i in self.moving], list(self.directions.values()))

    def bars(self) -> dict[int, Any]:
        """The adjoints of loads, by their numbers, as far as they are not 0."""
        self.seeds = {j: self.trace.input() for j, kept in enumerate(self.kept) if kept}
        if not self.moving:
            return {}
        outputs = [self.outputs[j] for j in self.seeds]
        found = gradient(outputs, list(self.seeds.values()), [self.inputs[i] for i in self.moving])
        return {i: x for i, x in zip(self.moving, found, strict=True) if isinstance(x, Traced)}

    def whole(self, stores: Sequence[tuple[Address, Any]], loads: Mapping[int, Address]) -> Block:
        """Values and slopes in one block."""
        every = [*self.block.loads, *[loads[self.directions[i].index] for i in self.moving if self.directions]]
        outputs = [*self.outputs, *[x for _, x in stores]]
        return Block(finish(self.trace, outputs), tuple(every), (*self.block.stores, *[a for a, _ in stores]))

    def parts(
        self,
        stores: Sequence[tuple[Address, Any]],
        loads: Mapping[int, Address],
        tape: Callable[[int], list[Address]],
        read_again: Collection[str],
    ) -> tuple[list[Statement], list[Statement]]:
        """A block of values, which keeps numbers on a tape, and one of the derivative; ``loads``: of its inputs, by
        node; ``read_again``: buffers whose numbers it may load itself."""
        nodes = self.trace.nodes
        known: list[int] = []
        for n, node in enumerate(nodes):
            if node[0] == "input":
                known.append(1 if n in loads else 0)
            else:
                known.append(-1 if node[0] == "const" else max(known[i] for i in node[1:]))
        lasting = {x.index for x, a in zip(self.inputs, self.block.loads, strict=True) if a.buffer in read_again}
        required = [{x.index for x in xs if isinstance(x, Traced)} for xs in (self.outputs, [x for _, x in stores])]
        first, second = shares(nodes, known, required, lasting)
        kept = dict(zip(first.stored, tape(len(first.stored)), strict=True))
        sources = {x.index: a for x, a in zip(self.inputs, self.block.loads, strict=True)} | dict(loads)
        given = [*zip(self.block.stores, self.outputs, strict=True)]
        given += [(kept[n], self.trace.node_at(n)) for n in first.stored]
        value = self._written(first, given, sources, {})
        derivative: list[Statement] = [self._written(second, stores, sources, kept)] if stores else []
        return [value], derivative

    def _written(
        self,
        share: Share,
        stores: Sequence[tuple[Address, Any]],
        sources: Mapping[int, Address],
        kept: Mapping[int, Address],
    ) -> Block:
        """The block of a share of the trace."""
        trace = Trace()
        loads: list[Address] = []
        value: dict[int, Traced] = {}
        for n in sorted({*share.computed, *share.loaded}):
            node = self.trace.nodes[n]
            if n in share.loaded or node[0] == "input":
                loads.append(kept[n] if n in share.loaded else sources[n])
                value[n] = trace.input()
            elif node[0] == "const":
                value[n] = trace.node(node)
            else:
                value[n] = trace.node((node[0], *[value[i].index for i in node[1:]]))
        outputs = [value[x.index] if isinstance(x, Traced) else x for _, x in stores]
        return Block(finish(trace, outputs), tuple(loads), tuple(a for a, _ in stores))


def replay(code: Straight, trace: Trace, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of straight-line code on scalars of a trace; fused operations are taken apart."""
    values: list[Any] = []
    for node in code.nodes:
        operation, *operands = node
        if operation == "input":
            values.append(inputs[operands[0]])
            continue
        if operation == "const":
            values.append(trace.constant(operands[0]))
            continue
        x = [values[i] for i in operands]
        match operation:
            case "fma":
                values.append(x[0] * x[1] + x[2])
            case "fms":
                values.append(x[0] * x[1] - x[2])
            case "fnma":
                values.append(x[2] - x[0] * x[1])
            case _:
                values.append(trace.node((operation, *[y.index for y in x])))
    return [values[w] if isinstance(w, int) else w for w in code.outputs]


def without_stores(block: Block, buffers: Collection[str]) -> Block:
    """A block that writes nothing to some buffers, and loads what it then needs."""
    kept = [(w, a) for w, a in zip(block.code.outputs, block.stores, strict=True) if a.buffer not in buffers]
    if len(kept) == len(block.stores):
        return block
    code = live(Straight(block.code.nodes, [w for w, _ in kept]))
    used = sorted({node[1] for node in code.nodes if node[0] == "input"})
    number = {i: k for k, i in enumerate(used)}
    nodes = [("input", number[node[1]]) if node[0] == "input" else node for node in code.nodes]
    return Block(Straight(nodes, code.outputs), tuple(block.loads[i] for i in used), tuple(a for _, a in kept))
