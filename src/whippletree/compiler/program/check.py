"""Is a program sound? Everything is checked before any code exists, so that machine code can do without checks.

* every operation is known, has the right operands, and conditions are not mixed with numbers;
* every address is inside its buffer, whatever the inputs are;
* a function that is called gets whole buffers, with room for all of its states.

The second is decided exactly where a register depends on one counter. An index is a register plus an offset, and a
register is either the counter of a loop or was looked up in constant tables by way of one: so it is a *function of one
counter*, and its values can be listed. A switch restricts the counters under which its cases run; a body with a short
joint at the end of the work space is not blamed for what a longer joint would do there. A counter over a named
dimension fits arrays with that dimension, and nothing else; so does that of a loop up to such a counter.

What depends on several counters, or on numbers of a state, is bounded instead: a number looked up by way of two
registers is any of those that their values can reach, the counter of a loop whose count is in a register goes up to the
largest count, and an entry of a list is any number below the size that the list declares. Lists hold nothing else:
each is written by one :class:`~whippletree.compiler.program.Collect` alone, and known only after it, as a register is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.trace.traced import CONDITIONS, arity
from whippletree.compiler.program.program import (
    SHARES,
    Address,
    Block,
    Buffer,
    Call,
    Collect,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    PerLane,
    Program,
    Register,
    Statement,
    Switch,
    Until,
    buffers_of_single_lanes,
    every_block,
    every_statement,
)

PLAIN_OPERATIONS = frozenset(
    "input const neg abs sqrt add sub mul div fma fms fnma lt and or not select".split()  # noqa: SIM905 (a list of words)
)
"""Operations that are one instruction, on vectors of any width."""

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
    _check_lists(program)
    _check_single_lanes(program)
    _Checker(program).statements(program.body, {}, {-1: np.ones(1, bool)}, frozenset())


def _check_buffers(program: Program) -> None:
    names = [b.name for b in program.buffers]
    if len(set(names)) != len(names):
        raise ProgramError(f"{program.name}: two buffers have the same name")
    roles = [b.role for b in program.of_role("input", "output")]
    if roles != sorted(roles):  # "input" is before "output", as in the addresses that a call hands over
        raise ProgramError(f"{program.name}: an input follows an output; inputs come first, as in the call")
    for b in program.buffers:
        if any(isinstance(d, int) and d < 0 for d in b.shape):
            raise ProgramError(f"{program.name}: {b.name} has a negative dimension")
        if any(isinstance(d, str) and not d.isidentifier() for d in b.shape):
            raise ProgramError(f"{program.name}: {b.name} has a dimension whose name is no identifier")
        if b.pitch is not None and (b.role != "work" or b.is_list or b.is_sized_by_call or b.pitch < 1):
            raise ProgramError(f"{program.name}: {b.name} has a pitch of {b.pitch}; only rows of work space may")
        if b.role in ("input", "output"):
            continue
        named = [isinstance(d, str) for d in b.shape]
        if any(named) and (b.role != "work" or named != sorted(named, reverse=True)):
            raise ProgramError(
                f"{program.name}: {b.name} has a named dimension; only inputs, outputs and the first ones of work "
                "space may"
            )
        known = {d for other in program.of_role("input") for d in other.shape if isinstance(d, str)}
        if not {d for d in b.shape if isinstance(d, str)} <= known:
            raise ProgramError(f"{program.name}: no input decides the size of {b.name}")
        if b.role != "work" and (b.data is None or np.shape(b.data) != b.shape):
            raise ProgramError(f"{program.name}: {b.name} lacks its content")
        if b.is_list and len(b.shape) != 1:
            raise ProgramError(f"{program.name}: the list {b.name} has {len(b.shape)} dimensions")


def _check_lists(program: Program) -> None:
    """Two statements that fill a list would do so for different lanes, and each lane sees its own list only."""
    filled = [s.list for s in every_statement(program.body) if isinstance(s, Collect)]
    for name in filled:
        if filled.count(name) > 1:
            raise ProgramError(f"{program.name}: the list {name!r} is collected in two places")


def _check_single_lanes(program: Program) -> None:
    """Statements for single lanes are plain arithmetic, and a list is known either there or elsewhere."""
    alone = buffers_of_single_lanes(program)
    for statement in every_statement(program.body):
        if not isinstance(statement, PerLane):
            continue
        inside = list(every_statement(statement.body))
        if any(isinstance(inner, PerLane) for inner in inside):
            raise ProgramError(f"{program.name}: lanes that run one after the other are parted again")
        for inner in inside:
            if isinstance(inner, (Collect, Each)) and inner.list not in alone:
                raise ProgramError(
                    f"{program.name}: the list {inner.list!r} is used for single lanes and for all at once"
                )
        operations = {node[0] for block in every_block(statement.body) for node in block.code.nodes}
        if not operations <= PLAIN_OPERATIONS:
            raise ProgramError(f"{program.name}: lanes that run one after the other do more than plain arithmetic")


class _Checker:
    def __init__(self, program: Program) -> None:
        self.name = program.name
        self.buffers = {b.name: b for b in program.buffers}
        self.dimensions = {d for b in program.of_role("input") for d in b.shape if isinstance(d, str)}
        self.counters = itertools.count()
        self.is_scalar = program.is_scalar
        self.alone = False
        """Whether the statement in hand is run for one state after the other."""

    def statements(self, body: Sequence[Statement], known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        """``positive``: named dimensions that are at least 1 here, because a loop over them is running."""
        known, masks = dict(known), dict(masks)
        for statement in body:
            match statement:
                case Block():
                    self.block(statement, known, masks, positive)
                case Lookup():
                    if statement.below is None:
                        known[statement.register] = value = self.lookup(statement, known, masks)
                        masks.setdefault(value.counter, np.ones(len(value.numbers), bool))
                    else:
                        known[statement.register], masks = self.bound_lookup(statement, known, masks, positive)
                case Loop():
                    self.loop(statement, known, masks, positive)
                case Switch():
                    self.switch(statement, known, masks, positive)
                case If():
                    self.readable(statement.flag, known, masks, positive)
                    self.statements(statement.body, known, masks, positive)
                case Until():
                    self.readable(statement.done, known, masks, positive)
                    self.check_counted(statement.counter, statement.most, statement.body, known, masks, positive)
                case Collect():
                    known[_list(statement.list)] = self.collect(statement, known, masks, positive)
                case Each():
                    entries = self.register(_list(statement.list), known)
                    if statement.ahead is not None and statement.ahead not in self.buffers:
                        raise ProgramError(f"{self.name}: there is no buffer {statement.ahead!r} to fetch ahead")
                    inside = {**known, statement.register: entries}
                    inside, masks = self.with_share(statement, statement.register, inside, masks)
                    if isinstance(entries, _NamedCounter):
                        self.statements(statement.body, inside, masks, positive | {entries.dimension})
                    else:
                        within = {**masks, entries.counter: np.ones(len(entries.numbers), bool)}
                        self.statements(statement.body, inside, within, positive)
                case PerLane():
                    before, self.alone = self.alone, True
                    self.statements(statement.body, known, masks, positive)
                    self.alone = before
                case Call():
                    self.call(statement)
                case _:
                    raise ProgramError(f"{self.name}: {statement!r} is no statement")

    def loop(self, loop: Loop, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        if loop.side_by_side:
            self.rounds_side_by_side(loop)
        known, masks = self.with_share(loop, loop.counter, known, masks)
        if isinstance(loop.count, str):
            if loop.count not in self.dimensions:
                raise ProgramError(f"{self.name}: no input decides the number of rounds {loop.count!r}")
            counter = _NamedCounter(loop.count)
            self.statements(loop.body, {**known, loop.counter: counter}, masks, positive | {loop.count})
        elif isinstance(loop.count, Index) and (within := self.named_end(loop.count, known)) is not None:
            self.statements(loop.body, {**known, loop.counter: within}, masks, positive | {within.dimension})
        elif isinstance(loop.count, Index):
            most = max(self.largest(loop.count, known, masks), 0)
            self.check_counted(loop.counter, most, loop.body, known, masks, positive)
        else:
            self.check_counted(loop.counter, loop.count, loop.body, known, masks, positive)

    def rounds_side_by_side(self, loop: Loop) -> None:
        """Refuse rounds that could see each other, or that cannot be computed together.

        A buffer that is written is read and written at one place of its last dimension alone, counter + offset, so that
        every round has its own part of it. What is only read may have the counter as another index.
        """
        if loop.backwards:
            raise ProgramError(f"{self.name}: rounds side by side go forwards")
        places: dict[str, set[Index]] = {}
        written, crossed = set[str](), set[str]()
        for block in loop.body:
            if not isinstance(block, Block):
                raise ProgramError(f"{self.name}: rounds side by side consist of blocks alone")
            if any(node[0] not in PLAIN_OPERATIONS for node in block.code.nodes):
                raise ProgramError(f"{self.name}: rounds side by side do more than plain arithmetic")
            for address in (*block.loads, *block.stores):
                if self.buffer(address).role not in ("work", "table"):
                    raise ProgramError(
                        f"{self.name}: rounds side by side know work space and tables alone: {address.buffer!r}"
                    )
                if not address.indices:
                    raise ProgramError(f"{self.name}: {address.buffer!r} is read without an index side by side")
                if any(index.register == loop.counter for index in address.indices[:-1]):
                    crossed.add(address.buffer)
                places.setdefault(address.buffer, set()).add(address.indices[-1])
            if any(address.indices[-1].register != loop.counter for address in block.stores):
                raise ProgramError(f"{self.name}: rounds side by side write to one place")
            written |= {address.buffer for address in block.stores}
        for name in written:
            if name in crossed:
                raise ProgramError(f"{self.name}: {name!r} is written and has the counter before its last index")
            if len(places[name]) > 1:
                raise ProgramError(f"{self.name}: rounds side by side may meet in {name!r}")

    def with_share(
        self, rounds: Loop | Each, own: Register, known: _Known, masks: _Masks
    ) -> tuple[dict[Register, Any], dict[int, Any]]:
        """The register of the share, where rounds work on rows of their own; ``own``: of the row."""
        if rounds.share is None:
            return dict(known), dict(masks)
        self.rounds_on_rows(rounds, own, rounds.share)
        value, within = self.counter(np.arange(SHARES), masks)
        return {**known, rounds.share: value}, dict(within)

    def rounds_on_rows(self, rounds: Loop | Each, own: Register, share: Register) -> None:
        """Refuse rounds that could see each other, or that cannot be computed together.

        Whatever is written, each round reads and writes in a row of its own, or in its share.
        """
        if rounds.backwards or (isinstance(rounds, Loop) and rounds.side_by_side):
            raise ProgramError(f"{self.name}: rounds on rows go forwards")
        blocks = [statement for statement in rounds.body if isinstance(statement, Block)]
        if len(blocks) + sum(isinstance(statement, Lookup) for statement in rounds.body) < len(rounds.body):
            raise ProgramError(f"{self.name}: rounds on rows consist of lookups and blocks alone")
        written = {address.buffer for block in blocks for address in block.stores}
        for address in (a for block in blocks for a in (*block.loads, *block.stores) if a.indices):
            buffer, first, last = self.buffer(address), address.indices[0], address.indices[-1]
            inner = buffer.shape[1:]
            if buffer.pitch is not None or any(isinstance(d, str) for d in inner):
                raise ProgramError(f"{self.name}: {buffer.name!r} has no rows of one known length")
            if buffer.role in ("input", "output") and (len(inner) > 1 or buffer.role == "output"):
                raise ProgramError(f"{self.name}: rounds on rows know work space, tables and rows of inputs alone")
            shared = last == Index(share)
            others = address.indices[:-1] if shared else address.indices[1:]
            if any(index.register is not None for index in others):
                raise ProgramError(f"{self.name}: {_text(address)} moves within the rows of rounds")
            if buffer.name in written and not shared and first != Index(own):
                raise ProgramError(f"{self.name}: rounds on rows may meet in {buffer.name!r}")
        for name in written:
            places = (a for block in blocks for a in (*block.loads, *block.stores) if a.buffer == name and a.indices)
            if len({a.indices[-1].register == share for a in places}) > 1:
                raise ProgramError(f"{self.name}: {name!r} is written in rows and by shares")
        for lookup in rounds.body:
            if isinstance(lookup, Lookup) and not (self.buffer(lookup.address).integer or lookup.below is None):
                raise ProgramError(f"{self.name}: rounds on rows look up integers alone")

    def check_counted(
        self,
        counter: Register,
        count: int,
        body: Sequence[Statement],
        known: _Known,
        masks: _Masks,
        positive: frozenset[str],
    ) -> None:
        """A body under a new counter from 0 to count − 1."""
        if count < 0:
            raise ProgramError(f"{self.name}: a loop of {count} rounds")
        value, masks = self.counter(np.arange(count), masks)
        self.statements(body, {**known, counter: value}, masks, positive)

    def counter(self, numbers: Integers, masks: _Masks) -> tuple[_Values, _Masks]:
        """A register that may have any of these values, and the masks with its own."""
        number = next(self.counters)
        return _Values(number, numbers), {**masks, number: np.ones(len(numbers), bool)}

    def largest(self, index: Index, known: _Known, masks: _Masks) -> int:
        """The largest value of an index; 0 where it has none, in a body that never runs."""
        if index.register is None:
            return index.offset
        values = self.possible(index, known, masks)
        assert values is not None  # a counter over a dimension has a :meth:`named_end`
        return int(values.max(initial=0)) if values.size else 0

    def named_end(self, count: Index, known: _Known) -> _NamedCounter | None:
        """The dimension that a loop up to a counter over it stays within; None for a counter of another kind."""
        value = None if count.register is None else self.register(count.register, known)
        if not isinstance(value, _NamedCounter):
            return None
        if count.offset > 1:
            raise ProgramError(f"{self.name}: a loop beyond the end of {value.dimension!r}")
        return value

    def possible(self, index: Index, known: _Known, masks: _Masks) -> Integers | None:
        """All values of an index, None if they have no fixed end."""
        if index.register is None:
            return np.array([index.offset])
        value = self.register(index.register, known)
        if isinstance(value, _NamedCounter):
            return None
        return np.asarray(value.numbers[masks[value.counter]] + index.offset)

    def bound_lookup(
        self, lookup: Lookup, known: _Known, masks: _Masks, positive: frozenset[str]
    ) -> tuple[_Values | _NamedCounter, dict[int, Any]]:
        """Range of a number of a caller, and the masks from here on."""
        buffer = self.buffer(lookup.address)
        own = ("input", "work") if self.is_scalar else ("work",) if self.alone else ()
        if buffer.role in own and not buffer.integer:
            self.readable(lookup.address, known, masks, positive)
        elif buffer.role == "input" and buffer.integer:
            self.address(lookup.address, known, masks, positive)
        else:
            raise ProgramError(f"{self.name}: a lookup in {buffer.name!r}, which holds no integers of a call")
        if isinstance(lookup.below, str):
            if lookup.below not in self.dimensions:
                raise ProgramError(f"{self.name}: no input decides the bound {lookup.below!r}")
            return _NamedCounter(lookup.below), dict(masks)
        value, within = self.counter(np.arange(lookup.below or 0), masks)
        return value, dict(within)

    def collect(
        self, collect: Collect, known: _Known, masks: _Masks, positive: frozenset[str]
    ) -> _Values | _NamedCounter:
        """Range of an entry of the list from here on."""
        if collect.list not in self.buffers or not self.buffers[collect.list].is_list:
            raise ProgramError(f"{self.name}: {collect.list!r} is no list")
        if isinstance(collect.count, str):
            if self.buffers[collect.list].shape != (collect.count,):
                raise ProgramError(f"{self.name}: the list {collect.list!r} has no room for {collect.count!r} numbers")
            counter = _NamedCounter(collect.count)
            inside = positive | {collect.count}
            self.readable(collect.flag, {**known, collect.counter: counter}, masks, inside)
            return counter
        size = self.buffers[collect.list].size
        if not 0 <= collect.count <= size:
            raise ProgramError(
                f"{self.name}: {collect.count} numbers are collected in the list {collect.list!r} of size {size}"
            )
        value, within = self.counter(np.arange(collect.count), masks)
        self.readable(collect.flag, {**known, collect.counter: value}, within, positive)
        return value

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
            raise ProgramError(f"{self.name}: a lookup in {buffer.name!r}, which holds no constant integers")
        self.address(lookup.address, known, masks, frozenset())
        if not _runs(masks):
            return _Values(next(self.counters), np.zeros(0, int))
        content = np.asarray(buffer.data, dtype=np.int64)
        values = [self._values(index, known) for index in lookup.address.indices]
        counters = {value.counter for value in values if value.counter != -1}
        if len(counters) > 1:
            # every combination may come: each different number once, or loops within loops multiply them
            numbers = [self.possible(index, known, masks) for index in lookup.address.indices]
            reached = [np.unique(own) for own in numbers if own is not None]
            return _Values(next(self.counters), np.unique(content[np.ix_(*reached)]))
        # rounds that the mask excludes never run: any number does for them
        places = [np.clip(v.numbers, 0, size - 1) for v, size in zip(values, content.shape, strict=True)]
        return _Values(max(counters, default=-1), content[tuple(np.broadcast_arrays(*places))])

    def _values(self, index: Index, known: _Known) -> _Values:
        """An index as a function of a counter."""
        if index.register is None:
            return _Values(-1, np.array([index.offset]))
        value = self.register(index.register, known)
        assert isinstance(value, _Values)  # an address with another one has been refused
        return _Values(value.counter, value.numbers + index.offset)

    # ---- addresses -----------------------------------------------------------------------------------------------

    def block(self, block: Block, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        _check_code(self.name, block)
        for address in block.loads:
            self.readable(address, known, masks, positive)
        for address in block.stores:
            if self.buffer(address).role not in ("work", "output") or self.buffer(address).is_list:
                raise ProgramError(f"{self.name}: a block writes {address.buffer!r}, which is not its to write")
            self.address(address, known, masks, positive)
        if len(set(block.stores)) != len(block.stores):
            raise ProgramError(f"{self.name}: a block writes twice to the same place")

    def call(self, call: Call) -> None:
        """Refuse arguments that are no buffers with room for its states."""
        status = () if call.status is None else (call.status,)
        written = (*call.outputs, *status)
        if len({*written}) < len(written) or {*written} & {*call.inputs}:
            raise ProgramError(f"{self.name}: {call.function!r} writes what it reads, or twice to the same buffer")
        for name in (*call.inputs, *written):
            buffer = self.buffers.get(name)
            shared = buffer is not None and buffer.role == "input" and name in call.inputs
            if buffer is None or buffer.integer or buffer.pitch is not None or not (shared or buffer.role == "work"):
                raise ProgramError(f"{self.name}: {name!r} cannot be an argument of {call.function!r}")
            room = buffer.shape[-1] if buffer.shape else 0
            if not shared and not (isinstance(room, int) and room >= call.states >= 1):
                raise ProgramError(f"{self.name}: {name!r} has no room for {call.states} states of {call.function!r}")
        if status and len(self.buffers[status[0]].shape) != 1:
            raise ProgramError(f"{self.name}: the status of {call.function!r} is one number for each state")

    def readable(self, address: Address, known: _Known, masks: _Masks, positive: frozenset[str]) -> None:
        """Refuse an address at which there is no number, or none for certain."""
        buffer = self.buffer(address)
        if buffer.role == "index" or buffer.integer:
            raise ProgramError(f"{self.name}: a number is read from {buffer.name!r}, which holds integers")
        self.address(address, known, masks, positive)

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
        if index.register is None and 0 <= index.offset < size:
            return True
        numbers = self.possible(index, known, masks)
        if numbers is not None and numbers.size and numbers.min() >= 0 and numbers.max() < size:
            return True
        return not _runs(masks)

    def inside_named(self, index: Index, size: str, known: _Known, positive: frozenset[str]) -> bool:
        """A number from a caller is below its bound wherever there is one: a call without any ends at the lookup."""
        if index.register is None:
            return index.offset == 0 and size in positive
        return self.register(index.register, known) == _NamedCounter(size) and index.offset == 0


def _runs(masks: _Masks) -> bool:
    """Whether a place of the program can be reached at all."""
    return all(mask.any() for mask in masks.values())


def _list(name: str) -> Register:
    """The name under which the entries of a list are known."""
    return f"list {name}"


def _text(address: Address) -> str:
    indices = ", ".join(f"{i.register} + {i.offset}" if i.register else str(i.offset) for i in address.indices)
    return f"{address.buffer}[{indices}]"


def _check_code(name: str, block: Block) -> None:
    """Operands come before their use, exist, and are numbers or conditions as the operation wants them."""
    if len(block.code.outputs) != len(block.stores):
        raise ProgramError(f"{name}: {len(block.code.outputs)} results for {len(block.stores)} places")
    condition: list[bool] = []
    decides = False  # whether there is any condition; most code has none, and its operands are numbers
    for index, node in enumerate(block.code.nodes):
        operation, *operands = node
        if operation == "input":
            good = 0 <= operands[0] < len(block.loads)
        elif operation == "const":
            good = isinstance(operands[0], (int, float))
        else:
            good = len(operands) == arity(operation)
            for i in operands:
                good = good and isinstance(i, int) and 0 <= i < index
            decides = decides or operation in CONDITIONS or operation == "select"
            if good and decides:
                good = _kinds_fit(operation, [condition[i] for i in operands])
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
