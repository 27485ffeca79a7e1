"""A function of a scene from that of each of its mechanisms: every kind compiled once, and placed.

Mechanisms that nothing ties together (:mod:`whippletree.constraints.clusters.separate_mechanisms`) have answers of
their own. Those of one kind are one block in a loop: where the numbers of each begin is looked up, and the numbers in
which they differ come from a table. So twenty-five four-bars take as long to compile as one, and a matrix of the scene
is zeros, written by a loop, with a block for each.

    zeros everywhere; for each kind, for each of its mechanisms, its block; NaN everywhere if one has no answer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic.trace import Straight, Trace, Traced, finish
from whippletree.compiler.frontend.unrolled import STATUS, input_shapes, output_shapes, traced_status
from whippletree.compiler.program import Address, Block, Buffer, If, Index, Lookup, Loop, Program, Statement
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints.clusters.separate_mechanisms import SeparateMechanism, by_kind, separate_mechanisms
from whippletree.errors import UnsupportedError
from whippletree.functions import Function, Shape, find
from whippletree.functions.differentiate import derived_function
from whippletree.functions.registry import Evaluation
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

PLACED = ("nq", "nv", "rows", "positions", "switches")
"""Names of sizes of which every mechanism of a scene has its own part."""

FAILED = "failed"
"""Name of the work buffer with the status so far."""

FAILED_AT = Address(FAILED, (Index(None, 0),))


def is_placeable(function: Function) -> bool:
    """Whether a function of a scene is that of each of its mechanisms: matrices have blocks, nothing is summed up."""
    shapes = (*function.inputs.values(), *function.outputs.values())
    own = all(word in PLACED for shape in shapes for word in shape)
    return own and all(function.outputs.values()) and not function.names


def placed_program(
    model: Model, function: Function, *, route: str | None = None, largest: int | None = None
) -> Program | None:
    """The program of a function for a scene of several mechanisms; None where it has to be written as a whole.

    ``largest``: moving parts of a single mechanism up to which its code is written out.
    """
    if not is_placeable(function):
        return None
    mechanisms = separate_mechanisms(model)
    if not mechanisms or (largest is not None and max(len(one.nodes) for one in mechanisms) > largest):
        return None
    try:
        return _PlacedScene(model, function, route).program(by_kind(mechanisms))
    except UnsupportedError:  # about constraints, of which some mechanism has none
        return None


class _PlacedScene:
    """Collects the buffers and statements of a scene's program."""

    def __init__(self, model: Model, function: Function, route: str | None) -> None:
        self.function = function
        self.route = route
        self.space = WorkSpace()
        self.space.add(*[Buffer(name, "input", shape) for name, shape in input_shapes(model, function, ()).items()])
        self.outputs = output_shapes(model, function)
        self.space.add(*[Buffer(name, "output", shape) for name, shape in self.outputs.items()])
        self.node_count = len(skeleton(model).nodes)
        self.may_fail = False

    def program(self, kinds: Sequence[Sequence[SeparateMechanism]]) -> Program:
        loops = [self._loop(number, own) for number, own in enumerate(kinds)]
        sparse = [name for name, shape in self.outputs.items() if len(shape) > 1]
        body: list[Statement] = [self.space.fill(name, 0.0) for name in sparse]
        if not self.may_fail:
            return self.space.program(self.function.name, [*body, *loops])
        self.space.add(Buffer(STATUS, "output", (), integer=True))
        self.space.work(**{FAILED: (1,)})
        no_answer = tuple(self.space.fill(name, math.nan) for name in self.outputs)
        body += [_put(0.0, FAILED_AT), *loops, If(FAILED_AT, no_answer), _copy_block(FAILED_AT, Address(STATUS, ()))]
        return self.space.program(self.function.name, body)

    def _loop(self, number: int, own: Sequence[SeparateMechanism]) -> Loop:
        """The mechanisms of one kind, one after the other."""
        counter = f"mechanism_{number}"
        registers: dict[str, str] = {}
        lookups = []
        for word, places in own[0].places.items():
            if places:
                name = f"{word}_of_{number}"
                self.space.index(name, [one.places[word][0] for one in own])
                registers[word] = f"first_{name}"
                lookups.append(Lookup(registers[word], Address(name, (Index(counter),))))
        return Loop(counter, len(own), (*lookups, self._block(number, counter, own, registers)))

    def _block(
        self, number: int, counter: str, own: Sequence[SeparateMechanism], registers: Mapping[str, str]
    ) -> Block:
        """The function of one mechanism, on numbers that are looked up where they are not the same for all."""
        first, different = own[0], _Differences(own)
        trace = Trace()
        function = function_of(self.function, first.model)
        known = functions.sizes(first.model)
        values = [trace.inputs(*functions.resolve(shape, known))[()] for shape in function.inputs.values()]
        loads = [a for name, shape in function.inputs.items() for a in _addresses(name, shape, first, registers)]
        found = self._evaluate(function, first, different.trace_numbers(trace), values)
        flat = [x for y in found.outputs for x in np.ravel(np.asarray(y, dtype=object))]
        shapes = zip(self.outputs, function.outputs.values(), strict=True)
        stores = [a for name, shape in shapes for a in _addresses(name, shape, first, registers)]
        # matrices hold zeros already; vectors are written whole
        kept = [k for k, x in enumerate(flat) if isinstance(x, Traced) or x != 0 or len(stores[k].indices) == 1]
        flat, stores = [flat[k] for k in kept], [stores[k] for k in kept]
        table = different.table
        loads += [Address(f"numbers_{number}", (Index(counter), Index(None, k))) for k in range(table.shape[1])]
        if found.margins:
            self.may_fail = True
            loads += [Address(f"numbers_{number}", (Index(counter), Index(None, table.shape[1]))), FAILED_AT]
            table = np.column_stack([table, [one.nodes[0] for one in own]])
            base, before = trace.input(), trace.input()
            flat.append(traced_status(found.margins, before, partial(self._scene_status, first, base)))
            stores.append(FAILED_AT)
        if table.shape[1]:
            self.space.table(f"numbers_{number}", table)
        return Block(finish(trace, flat), tuple(loads), tuple(stores))

    def _evaluate(self, function: Function, one: SeparateMechanism, numbers: Sequence[Any], values: Any) -> Evaluation:
        """The function of a mechanism with these numbers in place of its own."""
        tree = skeleton(one.with_numbers(numbers))
        tree.__dict__["doubtful"] = skeleton(one.model).doubtful  # the same for all of one kind
        with np.errstate(all="ignore"):  # constants of a singular model divide by zero; the status tells
            return function.evaluate(Mechanism(tree, route=self.route), *values)

    def _scene_status(self, one: SeparateMechanism, base: Any, number: int) -> Any:
        """The status that the scene tells for a number of a mechanism: its nodes come first, then ways to fail."""
        own = one.nodes
        return base + (own[number] - own[0] + 1) if number < len(own) else self.node_count + number - len(own) + 1


class _Differences:
    """Numbers in which the mechanisms of one kind differ: a table with a row for each, equal columns once."""

    def __init__(self, own: Sequence[SeparateMechanism]) -> None:
        self.first = own[0]
        columns: dict[bytes, int] = {}
        self.column: list[int | None] = []
        """Of each number of a mechanism; None for those that are the same in all."""
        for values in np.array([one.numbers for one in own]).T:
            same = bool(np.all(values == values[0]))
            self.column.append(None if same else columns.setdefault(values.tobytes(), len(columns)))
        self.table = np.array([np.frombuffer(column, dtype=float) for column in columns]).reshape(-1, len(own)).T

    def trace_numbers(self, trace: Trace) -> list[Any]:
        """All numbers of the first mechanism, with inputs of the trace for those that are looked up."""
        inputs = [trace.input() for _ in range(self.table.shape[1])]
        plain = self.first.numbers.tolist()
        return [x if column is None else inputs[column] for x, column in zip(plain, self.column, strict=True)]


def function_of(function: Function, model: Model) -> Function:
    """A function as another model has it; a derivative is taken of it anew.

    Raises:
        UnsupportedError: if that model cannot have it.
    """
    if function.derivative is None:
        return find(function.name, model)
    kind, entry = function.derivative
    return derived_function(kind, find(entry.name, model))


def _addresses(name: str, shape: Shape, one: SeparateMechanism, registers: Mapping[str, str]) -> list[Address]:
    """Where the numbers of one mechanism are in an argument of the scene, in row-major order."""
    axes = []
    for word in shape:
        places = one.places[str(word)]
        axes.append([Index(registers[str(word)], place - places[0]) for place in places])
    return [Address(name, indices) for indices in product(*axes)]


def _put(value: float, *addresses: Address) -> Block:
    return Block(Straight([], [value] * len(addresses)), (), addresses)


def _copy_block(source: Address, target: Address) -> Block:
    trace = Trace()
    return Block(finish(trace, [trace.input()]), (source,), (target,))
