"""Is a program sound? Everything is checked before any code exists, so that machine code can do without checks.

* every operation is known, has the right operands, and conditions are not mixed with numbers;
* every address is inside its buffer, whatever the inputs are.

The second is decided exactly, not estimated. An index is a register plus an offset, and a register is either the
counter of a loop or was looked up in constant tables by way of one: so it is a *function of one counter*, and its
values can be listed. A switch restricts the counters under which its cases run; a body with a short joint at the end
of the work space is not blamed for what a longer joint would do there. A counter over a named dimension fits arrays
with that dimension, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.trace.traced import CONDITIONS, arity
from whippletree.compiler.program.program import (
    Address,
    Block,
    Buffer,
    Index,
    Lookup,
    Loop,
    Program,
    Register,
    Statement,
    Switch,
)

Integers = np.ndarray[Any, np.dtype[np.int64]]


class ProgramError(ValueError):
    """A kernel program that must not be compiled: a fault of the code that built it, not of a user."""


@dataclass(frozen=True)
class _Values:
    """A register whose value is known for every value of one counter (``counter`` −1: a constant)."""

    counter: int
    numbers: Integers


@dataclass(frozen=True)
class _NamedCounter:
    """The counter of a loop over a named dimension."""

    dimension: str


_Known = Mapping[Register, _Values | _NamedCounter]
_Masks = Mapping[int, "np.ndarray[Any, np.dtype[np.bool_]]"]


def check(program: Program) -> None:
    """Raise a :class:`ProgramError` unless the program is sound."""
    _check_buffers(program)
    _Checker(program).statements(program.body, {}, {-1: np.ones(1, bool)}, frozenset())


def _check_buffers(program: Program) -> None:
    names = [b.name for b in program.buffers]
    if len(set(names)) != len(names):
        raise ProgramError(f"{program.name}: two buffers have the same name")
    for b in program.buffers:
        if any(isinstance(d, int) and d < 0 for d in b.shape):
            raise ProgramError(f"{program.name}: {b.name} has a negative dimension")
        if any(isinstance(d, str) and not d.isidentifier() for d in b.shape):
            raise ProgramError(f"{program.name}: {b.name} has a dimension whose name is no identifier")
        if b.role in ("input", "output"):
            continue
        if any(isinstance(d, str) for d in b.shape):
            raise ProgramError(f"{program.name}: {b.name} has a named dimension; only inputs and outputs may")
        if b.role != "work" and (b.data is None or np.shape(b.data) != b.shape):
            raise ProgramError(f"{program.name}: {b.name} lacks its content")


class _Checker:
    def __init__(self, program: Program) -> None:
        self.name = program.name
        self.buffers = {b.name: b for b in program.buffers}
        self.dimensions = {d for b in program.of_role("input") for d in b.shape if isinstance(d, str)}
        self.counters = itertools.count()

    def statements(self, body: Sequence[Statement], known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        """``positive``: named dimensions that are at least 1 here, because a loop over them is running."""
        known = dict(known)
        for statement in body:
            match statement:
                case Block():
                    self.block(statement, known, masks, positive)
                case Lookup():
                    known[statement.register] = self.lookup(statement, known, masks)
                case Loop():
                    self.loop(statement, known, masks, positive)
                case Switch():
                    self.switch(statement, known, masks, positive)
                case _:
                    raise ProgramError(f"{self.name}: {statement!r} is no statement")

    def loop(self, loop: Loop, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        if isinstance(loop.count, str):
            if loop.count not in self.dimensions:
                raise ProgramError(f"{self.name}: no input decides the number of rounds {loop.count!r}")
            counter: _Values | _NamedCounter = _NamedCounter(loop.count)
            positive |= {loop.count}
        elif loop.count < 0:
            raise ProgramError(f"{self.name}: a loop of {loop.count} rounds")
        else:
            number = next(self.counters)
            counter = _Values(number, np.arange(loop.count))
            masks = {**masks, number: np.ones(loop.count, bool)}
        self.statements(loop.body, {**known, loop.counter: counter}, masks, positive)

    def switch(self, switch: Switch, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        value = self.register(switch.register, known)
        if isinstance(value, _NamedCounter):
            raise ProgramError(f"{self.name}: a switch on a counter without a fixed end")
        mask = masks[value.counter]
        chosen = value.numbers[mask]
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(switch.cases)):
            raise ProgramError(f"{self.name}: register {switch.register!r} selects a case that does not exist")
        for number, case in enumerate(switch.cases):
            narrowed = {**masks, value.counter: mask & (value.numbers == number)}
            self.statements(case, known, narrowed, positive)

    def lookup(self, lookup: Lookup, known: _Known, masks: _Masks) -> _Values:
        buffer = self.buffer(lookup.address)
        if buffer.role != "index":
            raise ProgramError(f"{self.name}: a lookup in {buffer.name!r}, which holds no integers")
        self.address(lookup.address, known, masks, frozenset())
        (index,) = lookup.address.indices
        content = np.asarray(buffer.data, dtype=np.int64).reshape(-1)
        if index.register is None:
            return _Values(-1, content[index.offset : index.offset + 1])
        value = self.register(index.register, known)
        assert isinstance(value, _Values)  # the address would have been refused
        if not content.size:
            return _Values(value.counter, np.zeros_like(value.numbers))
        # rounds that the mask excludes never run: any number does for them
        return _Values(value.counter, content[np.clip(value.numbers + index.offset, 0, content.size - 1)])

    # ---- addresses -----------------------------------------------------------------------------------------------

    def block(self, block: Block, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        _check_code(self.name, block)
        for address in block.loads:
            buffer = self.buffer(address)
            if buffer.role == "index" or buffer.integer:
                raise ProgramError(f"{self.name}: a block reads {buffer.name!r}, which holds integers")
            self.address(address, known, masks, positive)
        for address in block.stores:
            if self.buffer(address).role not in ("work", "output"):
                raise ProgramError(f"{self.name}: a block writes {address.buffer!r}, which is not its to write")
            self.address(address, known, masks, positive)
        if len(set(block.stores)) != len(block.stores):
            raise ProgramError(f"{self.name}: a block writes twice to the same place")

    def buffer(self, address: Address) -> Buffer:
        if address.buffer not in self.buffers:
            raise ProgramError(f"{self.name}: there is no buffer {address.buffer!r}")
        return self.buffers[address.buffer]

    def register(self, register: Register, known: _Known) -> _Values | _NamedCounter:
        if register not in known:
            raise ProgramError(f"{self.name}: register {register!r} has no value here")
        return known[register]

    def address(self, address: Address, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        buffer = self.buffer(address)
        shape = buffer.shape
        if buffer.role not in ("input", "output"):
            shape = (buffer.size,)
        if len(address.indices) != len(shape):
            raise ProgramError(f"{self.name}: {len(address.indices)} indices into {buffer.name!r} of shape {shape}")
        for index, size in zip(address.indices, shape, strict=True):
            inside = (
                self.inside(index, size, known, masks)
                if isinstance(size, int)
                else self.inside_named(index, size, known, positive)
            )
            if not inside:
                raise ProgramError(f"{self.name}: {_text(address)} may be outside of {buffer.name!r} of shape {shape}")

    def inside(self, index: Index, size: int, known: _Known, masks: _Masks) -> bool:
        if index.register is None:
            runs = all(mask.any() for mask in masks.values())
            return 0 <= index.offset < size or not runs
        value = self.register(index.register, known)
        if isinstance(value, _NamedCounter):
            return False
        numbers = value.numbers[masks[value.counter]] + index.offset
        return not numbers.size or bool(numbers.min() >= 0 and numbers.max() < size)

    def inside_named(self, index: Index, size: str, known: _Known, positive: frozenset[str]) -> bool:
        if index.register is None:
            return index.offset == 0 and size in positive
        return self.register(index.register, known) == _NamedCounter(size) and index.offset == 0


def _text(address: Address) -> str:
    indices = ", ".join(f"{i.register} + {i.offset}" if i.register else str(i.offset) for i in address.indices)
    return f"{address.buffer}[{indices}]"


def _check_code(name: str, block: Block) -> None:
    """Operands come before their use, exist, and are numbers or conditions as the operation wants them."""
    if len(block.code.outputs) != len(block.stores):
        raise ProgramError(f"{name}: {len(block.code.outputs)} results for {len(block.stores)} places")
    condition: list[bool] = []
    for index, node in enumerate(block.code.nodes):
        operation, *operands = node
        if operation == "input":
            good = 0 <= operands[0] < len(block.loads)
        elif operation == "const":
            good = isinstance(operands[0], (int, float))
        else:
            good = (
                len(operands) == arity(operation)
                and all(isinstance(i, int) and 0 <= i < index for i in operands)
                and _kinds_fit(operation, [condition[i] for i in operands])
            )
        if not good:
            raise ProgramError(f"{name}: node {index}, {node}, is not a sound operation")
        condition.append(operation in CONDITIONS)
    for output in block.code.outputs:
        if isinstance(output, int) and not (0 <= output < len(condition) and not condition[output]):
            raise ProgramError(f"{name}: the output {output} is not a number of the code")


def _kinds_fit(operation: str, conditions: list[bool]) -> bool:
    if operation == "select":
        return conditions == [True, False, False]
    wanted = operation in ("and", "or", "not")
    return all(c == wanted for c in conditions)
