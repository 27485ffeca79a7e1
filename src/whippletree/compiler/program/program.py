"""Kernel programs: what a back end is asked to emit, and nothing about how.

A program works on one *state*; the back end adds the lanes (SIMD on a CPU, threads on a GPU). It is a short list of
statements: straight-line blocks of arithmetic, counted loops (over bodies, time steps, solver sweeps) and a switch on
a small integer. All storage is in named buffers; all addresses are integer registers plus constant offsets, so that a
program can be checked for bounds before any code exists.

    buffer role   one per    content                                         addressed by
    input         lane       an argument of the function                     its core dimensions
    output        lane       a result (``integer``: a status)                its core dimensions
    work          lane       scratch space, uninitialised                    one flat index
    table         program    constants of the model, the same for all lanes  one flat index
    index         program    integers: offsets, types, parents               one flat index
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from whippletree.arithmetic.trace import Straight, Table

Register: TypeAlias = str
"""A named integer: the counter of a loop or a number looked up in an index buffer."""

Dimension: TypeAlias = int | str
"""A core dimension: a number, or the name of one that the arrays of a call decide (time steps)."""


@dataclass(frozen=True)
class Buffer:
    """A named piece of memory. ``data`` holds the content of a table or index buffer."""

    name: str
    role: Literal["input", "output", "work", "table", "index"]
    shape: tuple[Dimension, ...]
    data: np.ndarray[Any, Any] | None = field(default=None, repr=False, compare=False)
    integer: bool = False

    @property
    def empty(self) -> bool:
        """Whether it holds no number in any call, as the coordinates of a model without freedom."""
        return 0 in self.shape

    @property
    def size(self) -> int:
        """How many numbers it holds, if no dimension is named."""
        return math.prod(int(d) for d in self.shape)


@dataclass(frozen=True)
class Index:
    """register + offset, or the offset alone."""

    register: Register | None
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """One number in a buffer: one index for each of its dimensions."""

    buffer: str
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Block:
    """Straight-line code: input number i of ``code`` is loaded from ``loads[i]``, its outputs go to ``stores``.

    All loads happen before all stores, so a block may overwrite what it has read.
    """

    code: Straight
    loads: tuple[Address, ...]
    stores: tuple[Address, ...]


@dataclass(frozen=True)
class Lookup:
    """register := buffer[index], an integer from an index buffer."""

    register: Register
    address: Address


@dataclass(frozen=True)
class Loop:
    """Repeat ``body`` for counter = 0 … count − 1 (or backwards). ``count`` may be a named dimension of the call."""

    counter: Register
    count: Dimension
    body: tuple[Statement, ...]
    backwards: bool = False


@dataclass(frozen=True)
class Switch:
    """Run the case whose number is in ``register``."""

    register: Register
    cases: tuple[tuple[Statement, ...], ...]


Statement: TypeAlias = Block | Lookup | Loop | Switch


@dataclass(frozen=True)
class Program:
    """A function of one state. Inputs and outputs appear in ``buffers`` in the order of the call."""

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def of_role(self, *roles: str) -> list[Buffer]:
        """The buffers with one of these roles, in order."""
        return [b for b in self.buffers if b.role in roles]

    @property
    def signature(self) -> str:
        """NumPy's generalised-ufunc signature, such as ``(7),(7)->(7)``."""
        inputs, outputs = (
            ",".join(f"({','.join(map(str, b.shape))})" for b in self.of_role(role)) for role in ("input", "output")
        )
        return f"{inputs}->{outputs}"


def straight_program(name: str, code: Straight, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Program:
    """The program of one block: inputs and outputs are read and written whole, in row-major order."""
    loads = tuple(a for b in inputs for a in every_address(b))
    stores = tuple(a for b in outputs for a in every_address(b))
    return Program(name, (*inputs, *outputs), (Block(code, loads, stores),))


def tables_of(program: Program) -> dict[str, Table]:
    """The tables that a program looks up, by name."""
    nodes = (node for block in every_block(program.body) for node in block.code.nodes)
    return {str(node[0]): node[0] for node in nodes if isinstance(node[0], Table)}


def every_block(body: Sequence[Statement]) -> Iterator[Block]:
    """All blocks of a program's body, however deep in loops and switches."""
    for statement in body:
        match statement:
            case Block():
                yield statement
            case Loop():
                yield from every_block(statement.body)
            case Switch():
                for case in statement.cases:
                    yield from every_block(case)


def every_address(buffer: Buffer) -> list[Address]:
    """The addresses of all numbers of a buffer of fixed size, in row-major order."""
    shape = [d for d in buffer.shape if isinstance(d, int)]
    return [Address(buffer.name, tuple(Index(None, i) for i in index)) for index in np.ndindex(*shape)]
