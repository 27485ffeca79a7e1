"""The buffers of a program by name, and the pieces of them that its blocks read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.program.program import (
    Address,
    Block,
    Buffer,
    Dimension,
    Index,
    Lookup,
    Loop,
    Program,
    Register,
    Statement,
    map_addresses,
)
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block

FILLED_TOGETHER = 16
"""Numbers of a row that are filled by one block: enough for tiles of every vector width."""


class WorkSpace:
    """Collects the buffers of a program while its statements are written."""

    def __init__(self) -> None:
        self.buffers: dict[str, Buffer] = {}

    def add(self, *buffers: Buffer) -> None:
        """Buffers that exist already, such as inputs and outputs."""
        for b in buffers:
            if b.name in self.buffers:
                raise ValueError(f"a program has two buffers of the name {b.name!r}: rename one of them")
        self.buffers |= {b.name: b for b in buffers}

    def work(self, **shapes: tuple[Dimension, ...]) -> None:
        """Scratch space: name=shape; blanks in a name are written as underscores."""
        self.add(*[Buffer(name.replace("_", " "), "work", shape) for name, shape in shapes.items()])

    def numbers_list(self, name: str, size: Dimension) -> None:
        """A list of numbers below its size."""
        self.add(Buffer(name, "work", (size,), integer=True))

    def index(self, name: str, numbers: Sequence[Any] | Array) -> None:
        """Constant integers."""
        data = np.array(numbers, dtype=np.int64)
        self.add(Buffer(name, "index", data.shape, data, integer=True))

    def table(self, name: str, numbers: Sequence[Any] | Array) -> None:
        """Constant numbers."""
        data = np.array(numbers, dtype=float)
        self.add(Buffer(name, "table", data.shape, data))

    def at(self, name: str, *registers: Register | Index | None) -> Piece:
        """A buffer, or the part of it at registers for its first dimensions; None for all of a dimension."""
        buffer = self.buffers[name]
        return piece(buffer, *registers, *[None] * (len(buffer.shape) - len(registers))) if registers else piece(buffer)

    def each(self, names: Sequence[str], *registers: Register | Index | None) -> list[Piece]:
        """Several buffers at the same registers."""
        return [self.at(name, *registers) for name in names]

    def address(self, name: str, *registers: Register) -> Address:
        """One number of a buffer: at registers, or its first."""
        return Address(name, tuple(Index(r) for r in registers) or (Index(None, 0),))

    def put(self, value: float, *pieces: Piece) -> Block:
        """Every number of some pieces := value."""
        return traced_block(lambda: [[value] * len(part.addresses) for part in pieces], [], pieces)

    def fill(self, name: str, value: float) -> Statement:
        """Every number of a buffer := value: row by row, some neighbours at a time; the last ones overlap others."""
        if not self.buffers[name].shape:
            return Block(Straight([], [value]), (), (Address(name, ()),))
        *rows, last = (int(d) for d in self.buffers[name].shape)
        width = min(last, FILLED_TOGETHER)
        starts, start = f"starts_{last}", f"{name}_start"
        if starts not in self.buffers:
            self.index(starts, [*range(0, last - width, width), last - width])
        counters = [f"{name}_{axis}" for axis in range(len(rows))]
        at = tuple(Index(counter) for counter in counters)
        stores = tuple(Address(name, (*at, Index(start, k))) for k in range(width))
        row = Block(Straight([], [value] * width), (), stores)
        lookup = Lookup(start, Address(starts, (Index(f"{name}_part"),)))
        statement: Statement = Loop(f"{name}_part", self.buffers[starts].size, (lookup, row))
        for counter, size in zip(reversed(counters), reversed(rows), strict=True):
            statement = Loop(counter, size, (statement,))
        return statement

    def program(self, name: str, body: Sequence[Statement]) -> Program:
        """The program of some statements; buffers without any number are left out, but for its arguments."""
        used = [b for b in self.buffers.values() if b.role in ("input", "output") or not b.empty]
        return Program(name, tuple(used), tuple(body))


def write_zeros(program: Program) -> Program:
    """A program that writes the zeros itself which some of its results have to hold when it begins."""
    found: list[Statement] = []
    for buffer in program.of_role("output"):
        if not buffer.zeroed:
            continue
        counters = [f"zero {axis} of {buffer.name}" for axis in range(len(buffer.shape))]
        place = Address(buffer.name, tuple(Index(counter) for counter in counters))
        statement: Statement = Block(Straight([], [0.0]), (), (place,))
        for counter, size in zip(reversed(counters), reversed(buffer.shape), strict=True):
            statement = Loop(counter, size, (statement,))
        found.append(statement)
    buffers = tuple(replace(b, zeroed=False) for b in program.buffers)
    return replace(program, buffers=buffers, body=(*found, *program.body))


def inline_program(
    program: Program, prefix: str, place: Mapping[str, str] | None = None
) -> tuple[list[Statement], list[Buffer]]:
    """The statements of a program as part of another one, and the buffers that they need there.

    ``place``: what the other program has in place of arguments; all other buffers get the prefix.
    """
    names = dict(place or {})
    own = [b for b in program.buffers if b.name not in names]
    names |= {b.name: f"{prefix}.{b.name}" for b in own}

    def move(address: Address) -> Address:
        # a number by itself is a buffer of one number inside a program
        return Address(names.get(address.buffer, address.buffer), address.indices or (Index(None, 0),))

    return list(map_addresses(program.body, move)), [replace(b, name=names[b.name]) for b in own]
