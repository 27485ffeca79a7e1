"""Programs of one block whose outputs are mostly the same number, such as the zeros of a large, sparse matrix.

Straight-line code stores every number by an instruction of its own: a mass matrix of twenty free bodies has 14 400, of
which 13 700 are zero, and a compiler takes seconds to place them. Numbers that an output holds in very many places are
computed once and put there by a loop over a list of the places, which costs the same code for ten places or a million.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whippletree.arithmetic.trace import Straight, Trace, finish
from whippletree.compiler.program.program import (
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

EQUAL_PLACES = 500
"""Places of one output with the same number from which a loop fills them: fewer are stored one by one, which is faster
to run and compiles in a tenth of a second."""

HELD = "held"
"""Name of the work buffer that holds the numbers between the block and the loops."""


@dataclass(frozen=True)
class _Shared:
    """A number that an output holds in many places."""

    buffer: Buffer
    value: int | float
    """As in :class:`~whippletree.arithmetic.trace.Straight`: a node, or a number."""
    places: tuple[int, ...]
    """In row-major order."""


def straight_program(name: str, code: Straight, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Program:
    """The program of one block: inputs and outputs are read and written whole, in row-major order.

    What an output holds in many places is stored there by a loop, after the block.
    """
    loads = tuple(address for buffer in inputs for address in every_address(buffer))
    places = [address for buffer in outputs for address in every_address(buffer)]
    shared = list(_shared_numbers(code, outputs))
    if not shared:
        return Program(name, (*inputs, *outputs), (Block(code, loads, tuple(places)),))
    left = np.ones(len(places), dtype=bool)
    for number, _ in shared:
        left[list(number)] = False
    kept = np.flatnonzero(left)
    held = [Address(HELD, (Index(None, k),)) for k in range(len(shared))]
    values = [*[code.outputs[k] for k in kept], *[one.value for _, one in shared]]
    body: list[Statement] = [Block(Straight(code.nodes, values), loads, (*[places[k] for k in kept], *held))]
    buffers = [*inputs, *outputs, Buffer(HELD, "work", (len(shared),))]
    for k, (_, one) in enumerate(shared):
        lists, fill = _fill_loop(one, held[k], k)
        buffers += lists
        body.append(fill)
    return Program(name, tuple(buffers), tuple(body))


def _shared_numbers(code: Straight, outputs: Sequence[Buffer]) -> Iterator[tuple[tuple[int, ...], _Shared]]:
    """Numbers of the code's outputs that are held in many places of one buffer, with their numbers among all outputs.

    Equal numbers of a trace are one node; the sign of a zero, and the bits of a NaN, make constants different.
    """
    start = 0
    for buffer in outputs:
        by_value: dict[tuple[type, bytes], list[int]] = defaultdict(list)
        for place in range(buffer.size):
            value = code.outputs[start + place]
            by_value[type(value), np.array(value).tobytes()].append(place)
        for found in by_value.values():
            if len(found) >= EQUAL_PLACES and not buffer.integer:
                numbers = tuple(start + place for place in found)
                yield numbers, _Shared(buffer, code.outputs[numbers[0]], tuple(found))
        start += buffer.size


def _fill_loop(shared: _Shared, held: Address, number: int) -> tuple[list[Buffer], Loop]:
    """The lists of places, one index for each dimension, and the loop that stores the held number there."""
    shape = tuple(int(d) for d in shared.buffer.shape)
    columns = np.unravel_index(np.array(shared.places), shape)
    names = [f"places_{number}_{axis}" for axis in range(len(shape))]
    lists = [
        Buffer(name, "index", (len(column),), np.ascontiguousarray(column, dtype=np.int64), integer=True)
        for name, column in zip(names, columns, strict=True)
    ]
    counter = f"place_{number}"
    registers = [f"{name}_now" for name in names]
    lookups = [
        Lookup(register, Address(name, (Index(counter),))) for register, name in zip(registers, names, strict=True)
    ]
    trace = Trace()
    copy = finish(trace, [trace.input()])
    target = Address(shared.buffer.name, tuple(Index(register) for register in registers))
    return lists, Loop(counter, len(shared.places), (*lookups, Block(copy, (held,), (target,))))
