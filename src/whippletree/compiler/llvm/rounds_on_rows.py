"""Rounds of a loop that work on rows of their own, computed side by side where one state is computed alone.

As many rounds as there are shares are the lanes of one vector
(``share`` of :class:`~whippletree.compiler.program.Loop`). What they read and write lies in rows of memory, one for
each round, which the target's memory brings into lanes and back
(:class:`~whippletree.compiler.llvm.target_memory.RegistersOfRounds`). A target that cannot do so takes one round after
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from whippletree.compiler.llvm.control_flow import ControlFlow
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.target_memory import Memory, Registers, RegistersOfRounds
from whippletree.compiler.program import SHARES, Block, Lookup, Register, Statement


class RowRounds(NamedTuple):
    """Such rounds."""

    own: Register
    """Holds the number of the row of a round."""
    share: Register
    times: Operand
    """How many rounds there are."""
    number: Callable[[Operand], Operand]
    """The number of the row of a round, or of those from a round on where the writer has lanes."""
    body: Sequence[Statement]


class BodyEmitter(Protocol):
    """Emits the statements of a program."""

    writer: Writer
    memory: Memory
    flow: ControlFlow

    def statements(self, statements: Sequence[Statement], registers: Registers) -> None:
        """Emit some statements."""

    def block(self, block: Block, registers: Registers) -> None:
        """Emit a block, in as many lanes as the writer has."""

    def last_below(self, lookup: Lookup, registers: Registers) -> Operand | None:
        """The last number below the bound of a lookup, if it has one."""

    def bring_within(self, number: Operand, last: Operand) -> Operand:
        """An integer brought into 0 … last, in each lane that the writer has."""


def emit_rounds_on_rows(emitter: BodyEmitter, rounds: RowRounds, registers: Registers) -> None:
    """Emit the rounds; lanes beyond the last one do what another one does, to the same bits, and add to no share."""
    w, memory = emitter.writer, emitter.memory
    together, single = memory.shares_together, rounds.times
    if together is not None:
        groups = w.value(f"sdiv i64 {w.value(f'add i64 {rounds.times}, {SHARES - 1}')}, {SHARES}")
        with emitter.flow.rounds(w.value(f"select i1 {together}, i64 {groups}, i64 0")) as group:
            first = w.value(f"mul i64 {group}, {SHARES}")
            left = w.value(f"sub i64 {rounds.times}, {first}")
            with memory.rounds_on_rows(rounds.share, left) as of_rounds:
                of_rounds.keep(rounds.own, of_rounds.repeat_first(rounds.number(first)))
                _statements_of_lanes(emitter, rounds.body, registers, of_rounds)
        single = w.value(f"select i1 {together}, i64 0, i64 {rounds.times}")
    with emitter.flow.rounds(single) as step:
        of_round = {rounds.own: rounds.number(step), rounds.share: w.value(f"and i64 {step}, {SHARES - 1}")}
        emitter.statements(rounds.body, {**registers, **of_round})


def _statements_of_lanes(
    emitter: BodyEmitter, body: Sequence[Statement], registers: Registers, of_rounds: RegistersOfRounds
) -> None:
    """Lookups and blocks of rounds that are lanes."""
    for statement in body:
        if isinstance(statement, Lookup):
            found, last = _look_up(emitter, statement, registers, of_rounds), emitter.last_below(statement, registers)
            of_rounds.keep(statement.register, found if last is None else emitter.bring_within(found, last))
        elif isinstance(statement, Block):
            emitter.block(statement, registers)


def _look_up(emitter: BodyEmitter, lookup: Lookup, registers: Registers, of_rounds: RegistersOfRounds) -> Operand:
    """The integers that the rounds look up, a vector."""
    w, found = emitter.writer, "poison"
    wanted = [index.register for index in lookup.address.indices]
    for k in range(SHARES):
        one = emitter.memory.lookup(lookup.address, {**registers, **of_rounds.registers_of(k, wanted)})
        found = w.value(f"insertelement {w.lanes.of('i64')} {found}, i64 {one}, i32 {k}")
    return found
