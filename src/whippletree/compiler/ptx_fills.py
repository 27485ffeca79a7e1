"""Results most of which are one constant, as the zeros of a regressor: written in a loop, before what is computed.

A humanoid's regressor has 20 000 numbers. With an instruction or three for each that is known beforehand, NVIDIA's
assembler took minutes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program, Statement
from whippletree.expression import Straight

MANY = 500
"""Equal constants of one result from which on a loop is worth its second writing of what is computed."""


def filled(program: Program) -> Program:
    """The program of one block, with such results filled first; any other program as it is."""
    match program.body:
        case (Block() as block,):
            return replace(program, body=_filled(program, block))
    return program


def _filled(program: Program, block: Block) -> tuple[Statement, ...]:
    pairs = list(zip(block.stores, block.code.outputs, strict=True))
    # by their text, since there are two zeros
    counts = Counter((address.buffer, repr(w)) for address, w in pairs if isinstance(w, float))
    usual = {name: text for (name, text), count in reversed(counts.most_common()) if count >= MANY}
    left = [(address, w) for address, w in pairs if isinstance(w, int) or usual.get(address.buffer) != repr(w)]
    rest = Block(Straight(block.code.nodes, [w for _, w in left]), block.loads, tuple(address for address, _ in left))
    return (*[_fill(program.buffer(name), float(text)) for name, text in usual.items()], rest)


def _fill(buffer: Buffer, value: float) -> Statement:
    """Every number of a buffer := value."""
    counters = [f"index {i} of {buffer.name}" for i, _ in enumerate(buffer.shape)]
    address = Address(buffer.name, tuple(Index(counter) for counter in counters))
    statement: Statement = Block(Straight([], [value]), (), (address,))
    for counter, size in reversed(list(zip(counters, buffer.shape, strict=True))):
        statement = Loop(counter, size, (statement,))
    return statement
