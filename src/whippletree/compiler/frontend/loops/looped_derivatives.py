"""Derivatives and matrices of long systems, from the loops of a function: nothing is written out body by body.

    jvp        slopes along with the values, in the same loops
    vjp        the loops once with values, then the other way round with adjoints
    matrices   values once; then the loops of slopes for every column, or those of adjoints for every row, whichever are
               fewer: ∂a/∂q of ``forward_dynamics``, M as ∂τ/∂a of ``inverse_dynamics``, M⁻¹ as ∂x/∂b of
               ``mass_matrix_solve``

Programs that cannot keep values for later (those of an elimination, whose loops are nested) compute them again for
every direction, and have adjoints as products with the slopes along all of them.

q moves in the tangent space: its slopes are those that ``rate`` gives for a velocity, and its adjoints go back through
the same map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.frontend.code_forms import MatricesOf
from whippletree.compiler.frontend.loops.looped_functions import loop_program
from whippletree.compiler.frontend.unrolled import STATUS, input_shapes, output_shapes
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Dimension,
    If,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    every_block,
    map_addresses,
    map_blocks,
)
from whippletree.compiler.program.linearise import (
    Linearised,
    Way,
    bar_name,
    can_keep_values,
    linearise,
    slope_name,
    without_stores,
)
from whippletree.compiler.program.work_space import WorkSpace, inline_program
from whippletree.functions import Function, find
from whippletree.functions.differentiate import COORDINATES
from whippletree.model import Model
from whippletree.tree.skeleton import skeleton

FAILED = "failed"
FAILED_AT = Address(FAILED, (Index(None, 0),))
"""Where the status is kept until the end: a derivative has no value where the function has none."""

PRODUCT_AT = Address("product", (Index(None, 0),))


COLUMNS_TOGETHER = 8
"""Columns of a matrix that are computed side by side. Measured: see docs/performance.md."""


def jvp_program(model: Model, function: Function, own: Program, parameters: Sequence[str] = ()) -> Program:
    """The ``jvp`` of a function from its program; ``function``: the derived one; ``parameters``: those left open."""
    writer = _Writer(model, own, _signature(model, function, parameters))
    body: list[Statement] = []
    for x, direction in zip(writer.inputs, writer.seeds, strict=True):
        body += writer.slope_along(x, direction)
    along = writer.part("", writer.inputs, "forward", apart=False)
    body += along.derivative
    for y, to in zip(writer.outputs, writer.results, strict=True):
        body.append(writer.copy(slope_name(y), to))
    return writer.program(body)


def vjp_program(model: Model, function: Function, own: Program, parameters: Sequence[str] = ()) -> Program:
    """The ``vjp`` of a function from its program; ``function``: the derived one; ``parameters``: those left open."""
    writer = _Writer(model, own, _signature(model, function, parameters))
    if not can_keep_values(own):
        return _vjp_by_directions(writer)
    back = writer.part("", writer.inputs, "backward")
    body: list[Statement] = [*writer.zero_bars(back), *back.values]
    body += [writer.space.fill(bar_name(x), 0.0) for x in writer.inputs]
    for y, seed in zip(writer.outputs, writer.seeds, strict=True):
        body.append(writer.copy(seed, writer.twin(bar_name, y)))
    body += back.derivative
    for x, to in zip(writer.inputs, writer.results, strict=True):
        body += writer.adjoint_along(x, to, ())
    return writer.program(body)


def _vjp_by_directions(writer: _Writer) -> Program:
    body: list[Statement] = []
    writer.space.add(Buffer(PRODUCT_AT.buffer, "work", (1,)))
    for x, to in zip(writer.inputs, writer.results, strict=True):
        along = writer.part(f"by {x} ", [x], "forward", apart=False)
        counters = [f"{x} direction {axis}" for axis in range(len(writer.space.buffers[to].shape))]
        pairs = zip(writer.outputs, writer.seeds, strict=True)
        products = [_put(0.0, PRODUCT_AT), *[writer.add_product(slope_name(y), seed) for y, seed in pairs]]
        products.append(_copy(PRODUCT_AT, Address(to, tuple(map(Index, counters)))))
        body += writer.every_direction(x, counters, along, products)
    return writer.program(body)


def matrix_program(
    model: Model, function: Function, own: Program, of: MatricesOf, parameters: Sequence[str] = ()
) -> Program:
    """A function whose outputs are matrices of another one, from the program of that; ``parameters``: those left
    open."""
    writer = _Writer(model, own, _signature(model, function, parameters), of.still)
    (y,) = writer.outputs
    body: list[Statement] = []
    for number, (x, to) in enumerate(zip(of.moving, writer.results, strict=True)):
        prefix = f"{number} "
        if not can_keep_values(own):
            columns = writer.part(prefix, [x], "forward", apart=False)
            put = writer.copy(slope_name(y), to, last=(Index(f"{to} column"),))
            body += writer.every_direction(x, [f"{to} column"], columns, [put])
        elif own.buffer(y).size < writer.tangents(x):
            body += _by_rows(writer, y, x, to, prefix)
        else:
            body += _by_columns(writer, y, x, to, prefix)
    return writer.program(body)


def _by_columns(writer: _Writer, y: str, x: str, to: str, prefix: str) -> list[Statement]:
    """Some columns at a time, side by side; the last ones overlap others."""

    def keep(slopes: Mapping[str, str], first: str, lanes: int) -> list[Statement]:
        entry = f"{to} entry"
        sources = tuple(Address(slopes[y], (Index(entry), Index(None, k))) for k in range(lanes))
        targets = tuple(Address(to, (Index(entry), Index(first, k))) for k in range(lanes))
        return [Loop(entry, writer.own.buffer(y).size, (_copies(sources, targets),))]

    return _in_turns(writer, x, writer.tangents(x), prefix, to, _unit_seeds, keep)


def directions_program(
    model: Model, own: Program, x: str, directions: int | None, still: Sequence[str] = ()
) -> Program:
    """The slopes of a program's vectors along so many directions of an input x, rows of an input ``along``; None: along
    all unit vectors.

    Its outputs are those of the program, a row for each direction: ∂y/∂x · along. ``still``: inputs that are 0.
    """
    size = own.buffer(x).size
    count = size if directions is None else directions
    inputs = {b.name: _whole(b.shape) for b in own.of_role("input") if b.name not in still}
    outputs = {b.name: (count, *_whole(b.shape)) for b in own.of_role("output") if not b.integer}
    if directions is not None:
        inputs |= {ALONG: (count, size)}
    writer = _Writer(model, own, _Signature(f"{own.name}_directions", inputs, outputs), still)
    if not can_keep_values(own):
        along = writer.part("", [x], "forward", apart=False)
        turn = Index("direction")
        put = [writer.copy(slope_name(y), y, first=(turn,)) for y in writer.outputs]
        if directions is None:
            return writer.program(writer.every_direction(x, [str(turn.register)], along, put))
        take = _copy(Address(ALONG, (turn, Index("seed"))), Address(slope_name(x), (Index("seed"),)))
        return writer.program([Loop("direction", count, (Loop("seed", size, (take,)), *along.derivative, *put))])

    def seed(unit: str, first: str, lanes: int) -> tuple[list[Statement], list[Statement]]:
        if directions is None:
            return _unit_seeds(unit, first, lanes)
        entry = "seed entry"
        sources = tuple(Address(ALONG, (Index(first, k), Index(entry))) for k in range(lanes))
        targets = tuple(Address(unit, (Index(entry), Index(None, k))) for k in range(lanes))
        return [Loop(entry, size, (_copies(sources, targets),))], []

    def keep(slopes: Mapping[str, str], first: str, lanes: int) -> list[Statement]:
        found: list[Statement] = []
        for y in writer.outputs:
            entry = f"{y} entry"
            sources = tuple(Address(slopes[y], (Index(entry), Index(None, k))) for k in range(lanes))
            targets = tuple(Address(y, (Index(first, k), Index(entry))) for k in range(lanes))
            found.append(Loop(entry, own.buffer(y).size, (_copies(sources, targets),)))
        return found

    return writer.program(_in_turns(writer, x, count, "", x, seed, keep))


def adjoint_program(model: Model, own: Program, x: str, still: Sequence[str] = ()) -> Program:
    """(∂y/∂x)ᵀ of a program's outputs, whose adjoints are inputs ``{y}_bar``, as an output ``{x}_bar``; x is a vector
    that is no coordinate. ``still``: inputs that are 0."""
    inputs = {b.name: _whole(b.shape) for b in own.of_role("input") if b.name not in still}
    bars = {f"{b.name}_bar": _whole(b.shape) for b in own.of_role("output") if not b.integer}
    to = f"{x}_bar"
    writer = _Writer(model, own, _Signature(f"{own.name}_adjoint", inputs | bars, {to: (own.buffer(x).size,)}), still)
    back = writer.part("", [x], "backward")
    body: list[Statement] = [*writer.zero_bars(back), *back.values, writer.space.fill(bar_name(x), 0.0)]
    body += [writer.copy(f"{y}_bar", writer.twin(bar_name, y)) for y in writer.outputs]
    return writer.program([*body, *back.derivative, *writer.adjoint_along(x, to, ())])


ALONG = "along"
"""The input of directions."""


def _unit_seeds(unit: str, first: str, lanes: int) -> tuple[list[Statement], list[Statement]]:
    at = tuple(Address(unit, (Index(first, k), Index(None, k))) for k in range(lanes))
    return [_put(1.0, *at)], [_put(0.0, *at)]


def _in_turns(
    writer: _Writer,
    x: str,
    count: int,
    prefix: str,
    name: str,
    seed: Callable[[str, str, int], tuple[list[Statement], list[Statement]]],
    keep: Callable[[Mapping[str, str], str, int], list[Statement]],
) -> list[Statement]:
    """The derivative along ``count`` directions of an input, some at a time.

    ``seed``: what puts directions into a buffer before each turn, and clears it after; ``keep``: what is done with the
    slopes of outputs. Both are told buffers, the register of the first direction of a turn, and how many there are.
    """
    lanes = min(COLUMNS_TOGETHER, count)
    first = f"{name} first"
    writer.space.index(f"{name} starts", [*range(0, count - lanes, lanes), count - lanes])
    columns = writer.part(prefix, [x], "forward", lanes=lanes)
    values, derivative = list(columns.values), list(columns.derivative)
    unit = prefix + slope_name(x)
    if x in COORDINATES and not writer.plain_coordinates:
        unit = prefix + "unit"
        rates = writer.rates_along(x, unit, prefix + slope_name(x), lanes)
        values, derivative = [*rates.values, *values], [*rates.derivative, *derivative]
    before, after = seed(unit, first, lanes)
    slopes = {y: prefix + slope_name(y) for y in writer.outputs}
    turn = [*before, *derivative, *keep(slopes, first, lanes), *after]
    look = Lookup(first, Address(f"{name} starts", (Index(f"{name} turn"),)))
    turns = Loop(f"{name} turn", writer.space.buffers[f"{name} starts"].size, (look, *turn))
    return [*values, writer.space.fill(unit, 0.0), turns]


def _by_rows(writer: _Writer, y: str, x: str, to: str, prefix: str) -> list[Statement]:
    rows = writer.part(prefix, [x], "backward")
    seed, counter = writer.twin(bar_name, y), f"{to} row"
    at = Address(seed, (Index(counter),))
    body = [_put(1.0, at), writer.space.fill(writer.twin(bar_name, x), 0.0), *rows.derivative]
    body += [*writer.adjoint_along(x, to, (Index(counter),)), _put(0.0, at)]
    count = writer.own.buffer(y).size
    return [*writer.zero_bars(rows), *rows.values, writer.space.fill(seed, 0.0), Loop(counter, count, tuple(body))]


class _Signature(NamedTuple):
    """The name of a program, and the shapes of its arguments."""

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]


def _signature(model: Model, function: Function, parameters: Sequence[str]) -> _Signature:
    return _Signature(function.name, input_shapes(model, function, parameters), output_shapes(model, function))


class _Writer:
    """Collects the statements and buffers of a derivative of a program."""

    def __init__(self, model: Model, own: Program, written: _Signature, still: Sequence[str] = ()) -> None:
        """``written``: what the derivative is called and has for arguments; ``still``: inputs of the program that are 0
        here."""
        self.model, self.own, self.name = model, own, written.name
        self.inputs = [b.name for b in own.of_role("input")]
        self.outputs = [b.name for b in own.of_role("output") if not b.integer]
        self.may_fail = any(b.integer for b in own.of_role("output"))
        self.results = list(written.outputs)
        self.seeds = [name for name in written.inputs if name not in self.inputs]
        """Further inputs of the derivative: directions of inputs, or adjoints of outputs."""
        self.space = WorkSpace()
        self.space.add(*[Buffer(name, "input", shape) for name, shape in written.inputs.items()])
        self.space.add(*[Buffer(name, "output", shape) for name, shape in written.outputs.items()])
        for name in still:
            self.space.table(name, np.zeros([int(d) for d in own.buffer(name).shape]))
        self.space.add(*own.of_role("work", "table", "index"))

    def program(self, body: Sequence[Statement]) -> Program:
        """The program of these statements, with NaN where the function has no value."""
        if self.may_fail:
            self.space.add(Buffer(STATUS, "output", (), integer=True), Buffer(FAILED, "work", (1,)))
            nothing = tuple(self.space.fill(name, math.nan) for name in self.results)
            body = [_put(0.0, FAILED_AT), *body, If(FAILED_AT, nothing), _copy(FAILED_AT, Address(STATUS, ()))]
        program = self.space.program(self.name, body)
        used = {a.buffer for block in every_block(program.body) for a in (*block.loads, *block.stores)}
        return replace(program, buffers=tuple(b for b in program.buffers if b.role != "work" or b.name in used))

    def part(self, prefix: str, moving: Sequence[str], way: Way, *, apart: bool = True, lanes: int = 0) -> Linearised:
        """The derivative by some inputs, with work space of its own under a prefix, without the function's values.

        With lanes, slopes of inputs and outputs have the prefix too.
        """
        found = linearise(self.own, moving, way, apart=apart, lanes=lanes)
        names = {b.name: prefix + b.name for b in found.buffers}
        self.space.add(*[replace(b, name=names[b.name]) for b in found.buffers])
        twin = slope_name if way == "forward" else bar_name
        for name in (*self.outputs, *moving):
            if lanes:
                names[twin(name)] = prefix + twin(name)
                size = self.own.buffer(name).shape
                self.space.add(Buffer(names[twin(name)], "work", (*size, lanes)))
            else:
                self.twin(twin, name)

        def move(address: Address) -> Address:
            if address.buffer == STATUS:
                return FAILED_AT
            # a number by itself is a buffer of one number in work space
            work = self.space.buffers[names.get(address.buffer, address.buffer)]
            return Address(work.name, address.indices or ((Index(None, 0),) if work.role == "work" else ()))

        values, derivative = (
            map_addresses(map_blocks(body, lambda block: without_stores(block, self.outputs)), move)
            for body in (found.values, found.derivative)
        )
        own = [self.space.buffers[names[b.name]] for b in found.buffers]
        return Linearised(values, derivative, tuple(own))

    def twin(self, name: Callable[[str], str], buffer: str) -> str:
        """The work buffer of slopes or bars of an input or output."""
        own = name(buffer)
        if own not in self.space.buffers:
            self.space.add(Buffer(own, "work", self.own.buffer(buffer).shape or (1,)))
        return own

    def tangents(self, x: str) -> int:
        """How many directions an input has."""
        return self.model.nv if x in COORDINATES else self.own.buffer(x).size

    # --- directions and adjoints of inputs ----------------------------------------------------------------------------

    def slope_along(self, x: str, direction: str) -> list[Statement]:
        """The slopes of an input that moves along a direction."""
        to = self.twin(slope_name, x)
        if x not in COORDINATES or self.plain_coordinates:
            return [self.copy(direction, to)] if direction != to else []
        return self._inline(self._rate(), {"q": x, "v": direction, "rate": to})

    def rates_along(self, x: str, direction: str, to: str, lanes: int) -> Linearised:
        """The slopes of coordinates along several directions side by side."""
        self.space.add(Buffer(direction, "work", (self.model.nv, lanes)))
        along = linearise(self._rate(), ["v"], lanes=lanes)
        return self._inline_linear(along, {"q": x, slope_name("v"): direction, slope_name("rate"): to})

    def adjoint_along(self, x: str, to: str, first: tuple[Index, ...]) -> list[Statement]:
        """An output := the adjoints of an input, for directions in its tangent space."""
        bars = self.twin(bar_name, x)
        if x not in COORDINATES or self.plain_coordinates:
            return [self.copy(bars, to, first=first)]
        tangent = f"tangent {bars}"
        if tangent not in self.space.buffers:
            self.space.add(Buffer(tangent, "work", (self.model.nv,)))
        back = linearise(self._rate(), ["v"], "backward")
        back = self._inline_linear(back, {"q": x, bar_name("rate"): bars, bar_name("v"): tangent})
        zeros = self.zero_bars(back)
        return [
            *zeros,
            self.space.fill(tangent, 0.0),
            *back.values,
            *back.derivative,
            self.copy(tangent, to, first=first),
        ]

    def _inline_linear(self, found: Linearised, place: Mapping[str, str]) -> Linearised:
        """The derivative of ``rate`` by a velocity, which is linear: neither that velocity nor a rate is needed."""
        rate = self._rate()
        body = map_blocks((*found.values, *found.derivative), lambda block: without_stores(block, ["rate"]))
        own = [b for b in rate.buffers if b.name not in ("v", "rate")]
        before = set(self.space.buffers)
        statements = self._inline(Program("rate", (*own, *found.buffers), body), place)
        count = len(found.values)
        buffers = tuple(b for name, b in self.space.buffers.items() if name not in before)
        return Linearised(tuple(statements[:count]), tuple(statements[count:]), buffers)

    def every_direction(
        self, x: str, counters: Sequence[str], along: Linearised, then: Sequence[Statement]
    ) -> list[Statement]:
        """The derivative along one direction of an input after the other, each followed by some statements."""
        shape = (self.model.nv,) if x in COORDINATES else self.own.buffer(x).shape
        unit = f"unit {x}" if x in COORDINATES else slope_name(x)
        if unit not in self.space.buffers:
            self.space.add(Buffer(unit, "work", shape or (1,)))
        at = Address(unit, tuple(map(Index, counters)) or (Index(None, 0),))
        turn: list[Statement] = [_put(1.0, at), *self.slope_along(x, unit), *along.derivative, *then, _put(0.0, at)]
        body: Statement | None = None
        for counter, size in zip(reversed(counters), reversed(shape), strict=True):
            body = Loop(counter, size, tuple(turn) if body is None else (body,))
        return [self.space.fill(unit, 0.0), *([body] if body is not None else turn)]

    def zero_bars(self, part: Linearised) -> list[Statement]:
        """Adjoints of work space begin with 0."""
        return [self.space.fill(b.name, 0.0) for b in part.buffers if bar_name("") in b.name]

    @property
    def plain_coordinates(self) -> bool:
        """Whether the rates of all coordinates are the velocities themselves."""
        return all(node.joint.nq == node.joint.nv == 1 for node in skeleton(self.model).nodes)

    def _rate(self) -> Program:
        return loop_program(find("rate", self.model), skeleton(self.model))

    def _inline(self, program: Program, place: Mapping[str, str]) -> list[Statement]:
        statements, buffers = inline_program(program, f"rate {len(self.space.buffers)}", place)
        self.space.add(*buffers)
        return statements

    # --- numbers ------------------------------------------------------------------------------------------------------

    def copy(
        self, source: str, target: str, *, first: tuple[Index, ...] = (), last: tuple[Index, ...] = ()
    ) -> Statement:
        """target[first, …, last] := source[…]."""
        return self._each(
            (source, target),
            len(first) + len(last),
            lambda a, b: _copy(Address(source, a), Address(target, (*first, *b, *last))),
        )

    def add_product(self, first: str, second: str) -> Statement:
        """The product of two buffers, entry by entry, added up."""
        return self._each((first, second), 0, lambda a, b: _add_product(Address(first, a), Address(second, b)))

    def _each(
        self, pair: tuple[str, str], further: int, block: Callable[[tuple[Index, ...], tuple[Index, ...]], Block]
    ) -> Statement:
        """A block for every number of a buffer, and its like in another, which has so many further dimensions.

        A number by itself has no dimension as an argument and one in work space.
        """
        shape, other = (self.space.buffers[name].shape for name in pair)
        if shape in ((), (1,)):
            return block((Index(None, 0),) * len(shape), (Index(None, 0),) * (len(other) - further))
        counters = [f"entry {axis}" for axis in range(len(shape))]
        at = tuple(map(Index, counters))
        statement: Statement = block(at, at)
        for counter, size in zip(reversed(counters), reversed(shape), strict=True):
            statement = Loop(counter, size, (statement,))
        return statement


def _put(value: float, *addresses: Address) -> Block:
    return Block(Straight([], [value] * len(addresses)), (), addresses)


def _copy(source: Address, target: Address) -> Block:
    return _copies((source,), (target,))


def _copies(sources: tuple[Address, ...], targets: tuple[Address, ...]) -> Block:
    trace = Trace()
    return Block(finish(trace, list(trace.inputs(len(sources)))), sources, targets)


def _whole(shape: tuple[Dimension, ...]) -> tuple[int, ...]:
    return tuple(int(d) for d in shape)


def _add_product(first: Address, second: Address) -> Block:
    trace = Trace()
    total, a, b = trace.inputs(3)
    return Block(finish(trace, [total + a * b]), (PRODUCT_AT, first, second), (PRODUCT_AT,))
