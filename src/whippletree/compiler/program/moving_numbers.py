"""Which numbers of a program depend on which of its inputs: found on the addresses themselves, in all rounds at once.

Registers are the same for all states, so that every address of a program is known before any state is: as an array of
numbers, one for each round of the loops around it. A number in memory *moves* if some block stores there what depends,
smoothly, on numbers that move; a place that is used again for something else then moves no longer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.scalars import Table
from whippletree.arithmetic.trace import Straight
from whippletree.arithmetic.trace.traced import CONDITIONS
from whippletree.compiler.program.program import Address, Block, Buffer, Lookup, Loop, Program, Statement, Switch

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of cells of a buffer, one for each round; one number alone where it is the same in all."""


class Rounds(NamedTuple):
    """Where a block loads and stores, in every round that it runs in."""

    block: Block
    loads: tuple[Places, ...]
    stores: tuple[Places, ...]
    stage: int
    """Number of the program's statement that it is in; 0 for all where buffers count as one cell."""

    def load_is_alone(self, number: int, others: Sequence[int], stores: Sequence[int]) -> bool:
        """Whether no round loads that number by another of these loads, or stores there by one of these stores."""
        own, at = self.loads[number], self.block.loads[number].buffer
        rivals = [self.loads[k] for k in others if self.block.loads[k].buffer == at]
        rivals += [self.stores[j] for j in stores if self.block.stores[j].buffer == at]
        return not any(np.any(own == rival) for rival in rivals)


Cells: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""A truth value for each cell of a buffer."""


class MovingNumbers(NamedTuple):
    """What moves."""

    buffers: set[str]
    """Those that hold numbers with slopes, at some time, which blocks have stored."""
    loads: list[list[bool]]
    """Of each block, which loads, in some round."""
    stores: list[list[bool]]
    """Of each block, which stores have slopes, if only 0 in some rounds."""


def rounds_of(program: Program, *, single: bool) -> list[Rounds]:
    """Where each block loads and stores, blocks in the order in which they are written.

    ``single``: number by number; otherwise a buffer counts as one cell, which is enough to know what moves at all.
    """
    found: list[Rounds] = []
    buffers = {b.name: b for b in program.buffers}

    def visit(body: Sequence[Statement], registers: dict[str, Places], stage: int) -> None:
        known = dict(registers)
        for statement in body:
            match statement:
                case Block(_, loads, stores):
                    at = [[_cells(buffers[a.buffer], a, known, single) for a in side] for side in (loads, stores)]
                    found.append(Rounds(statement, tuple(at[0]), tuple(at[1]), stage))
                case Lookup(register, address) if single:
                    data = buffers[address.buffer].data
                    assert data is not None
                    known[register] = data.ravel()[_cells(buffers[address.buffer], address, known, True)]
                case Loop(counter, count, inner) if single:
                    assert isinstance(count, int)
                    visit(inner, {**known, counter: np.arange(count)}, stage)
                case Loop():
                    visit(statement.body, known, stage)
                case Switch(register, cases):
                    for number, case in enumerate(cases):
                        own = known
                        if single:
                            chosen = np.broadcast_to(known[register], _length(known)) == number
                            own = {name: x[chosen] if x.ndim else x for name, x in known.items()}
                        visit(case, own, stage)

    for number, statement in enumerate(program.body):
        visit([statement], {}, number if single else 0)
    return found


def _length(registers: dict[str, Places]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[x.shape for x in registers.values()])


def _cells(buffer: Buffer, address: Address, registers: dict[str, Places], single: bool) -> Places:
    """The cells of an address: of a buffer with a pitch, as its rows lie."""
    if not single or not address.indices:
        return np.zeros((), dtype=np.int64)
    strides = [1]
    for size in reversed(buffer.shape[1:]):
        strides.insert(0, strides[0] * int(size))
    if buffer.pitch is not None:
        strides[0] = buffer.pitch
    places = np.zeros((), dtype=np.int64)
    for index, stride in zip(address.indices, strides, strict=True):
        start = 0 if index.register is None else registers[index.register]
        places = places + stride * (start + index.offset)
    return np.asarray(places, dtype=np.int64)


def find_moving(program: Program, rounds: Sequence[Rounds], inputs: Collection[str]) -> MovingNumbers:
    """What moves where these inputs do."""
    return _SearchForMoving(program, rounds, inputs).found()


class _SearchForMoving:
    """Goes through the program's statements, which follow each other as written, again and again until nothing is new.

    Inside a statement, such as a loop, a place counts as moving if any of its blocks makes it so. Where a load moves in
    one round, it has a slope in all: whoever has stored what it loads must then store a slope, if only 0.
    """

    def __init__(self, program: Program, rounds: Sequence[Rounds], inputs: Collection[str]) -> None:
        self.rounds, self.inputs = rounds, inputs
        self.needs = [dependences(r.block.code) for r in rounds]
        self.buffers = [b for b in program.buffers if b.role != "index"]
        self.stages = max([r.stage for r in rounds], default=-1) + 1
        self.asked = [self._cells() for _ in range(self.stages)]
        """Of each statement, the cells that have slopes because a later load wants them."""
        self.loads: list[list[bool]] = [[] for _ in rounds]
        self.stores: list[list[bool]] = [[] for _ in rounds]

    def _cells(self) -> dict[str, Cells]:
        return {b.name: np.zeros(max(b.size, 1), dtype=bool) for b in self.buffers}

    def found(self) -> MovingNumbers:
        while self._goes_on():
            pass
        return MovingNumbers({name for own in self.made for name, x in own.items() if x.any()}, self.loads, self.stores)

    def _goes_on(self) -> bool:
        """One way through the program; whether something new was asked for."""
        state = self._cells()
        for name in self.inputs:
            state[name][:] = True
        writer = {name: np.full(len(x), -1) for name, x in state.items()}
        self.made: list[dict[str, Cells]] = []
        news = False
        for stage in range(self.stages):
            own = [n for n, r in enumerate(self.rounds) if r.stage == stage]
            made, stored = self._stage(own, state, self.asked[stage])
            news |= self._ask(own, state, made, stored, writer, stage)
            self.made.append(made)
            for name, touched in stored.items():
                state[name][touched] = made[name][touched]
                writer[name][touched] = stage
        return news

    def _stage(
        self, own: Sequence[int], state: dict[str, Cells], asked: dict[str, Cells]
    ) -> tuple[dict[str, Cells], dict[str, Cells]]:
        """The cells that a statement makes move, and all that it stores to."""
        made = {name: x.copy() for name, x in asked.items()}
        stored = self._cells()
        changed = True
        while changed:
            changed = False
            for n in own:
                block, loads, stores, _ = self.rounds[n]
                pairs = zip(block.loads, loads, strict=True)
                moves = self.loads[n] = [bool((state[a.buffer][at] | made[a.buffer][at]).any()) for a, at in pairs]
                moving = sum(1 << i for i, x in enumerate(moves) if x)
                for a, at, need in zip(block.stores, stores, self.needs[n], strict=True):
                    stored[a.buffer][at] = True
                    if need & moving and not made[a.buffer][at].all():
                        made[a.buffer][at] = True
                        changed = True
        for n in own:
            block, _, stores, _ = self.rounds[n]
            self.stores[n] = [bool(made[a.buffer][at].any()) for a, at in zip(block.stores, stores, strict=True)]
        return made, stored

    def _ask(
        self,
        own: Sequence[int],
        state: dict[str, Cells],
        made: dict[str, Cells],
        stored: dict[str, Cells],
        writer: dict[str, Places],
        stage: int,
    ) -> bool:
        """Ask for slopes of everything that moving loads load, of those who have stored it."""
        news = False
        for n in own:
            for a, at, moves in zip(self.rounds[n].block.loads, self.rounds[n].loads, self.loads[n], strict=True):
                if not moves:
                    continue
                cells = np.atleast_1d(at)
                here = cells[stored[a.buffer][cells] & ~made[a.buffer][cells]]
                before = cells[~state[a.buffer][cells] & (writer[a.buffer][cells] >= 0)]
                for number in (*[(stage, x) for x in here], *[(writer[a.buffer][x], x) for x in before]):
                    if not self.asked[number[0]][a.buffer][number[1]]:
                        self.asked[number[0]][a.buffer][number[1]] = news = True
        return news


def dependences(code: Straight) -> list[int]:
    """For each output, the inputs that it depends on smoothly, as bits of a number."""
    masks: list[int] = []
    for operation, *operands in code.nodes:
        if operation == "input":
            masks.append(1 << operands[0])
        elif operation == "const" or operation in CONDITIONS or isinstance(operation, Table):
            masks.append(0)
        else:
            used = operands[1:] if operation == "select" else operands
            mask = 0
            for i in used:
                mask |= masks[i]
            masks.append(mask)
    return [masks[w] if isinstance(w, int) else 0 for w in code.outputs]
