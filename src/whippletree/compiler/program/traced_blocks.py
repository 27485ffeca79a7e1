"""Generic code as a block of a kernel program: traced on what it reads, its results stored where they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Trace, Traced, finish
from whippletree.compiler.program.program import Address, Block, Buffer, Index, Register


class Piece(NamedTuple):
    """Some numbers of a buffer: the shape that generic code sees, and where they are, in row-major order."""

    shape: tuple[int, ...]
    addresses: tuple[Address, ...]


def piece(buffer: Buffer, *at: Register | Index | None) -> Piece:
    """A buffer, or the part of it at registers: one per dimension, None for all of that dimension."""
    picks = at or (None,) * len(buffer.shape)
    indices = [Index(pick) if isinstance(pick, str) else pick for pick in picks]
    choices = [
        [index] if index is not None else [Index(None, i) for i in range(int(size))]
        for index, size in zip(indices, buffer.shape, strict=True)
    ]
    shape = tuple(int(size) for register, size in zip(picks, buffer.shape, strict=True) if register is None)
    return Piece(shape, tuple(Address(buffer.name, indices) for indices in product(*choices)))


def flat_piece(buffer: Buffer, start: int, *shape: int) -> Piece:
    """An array of that shape inside a flat buffer of work space."""
    size = int(np.prod(shape, dtype=int))
    return Piece(shape, tuple(Address(buffer.name, (Index(None, start + i),)) for i in range(size)))


def traced_block(function: Callable[..., Sequence[Any]], reads: Sequence[Piece], writes: Sequence[Piece]) -> Block:
    """A function of arrays that returns arrays, as straight-line code between memory and memory."""
    trace = Trace()
    results = _flat(function(*_inputs(trace, reads)))
    return Block(finish(trace, results), _addresses(reads), _addresses(writes))


def sparse_block(function: Callable[..., Sequence[Any]], reads: Sequence[Piece], writes: Sequence[Piece]) -> Block:
    """As :func:`traced_block`, for memory that holds zeros already: numbers that are known to be 0 are not stored."""
    trace = Trace()
    results = _flat(function(*_inputs(trace, reads)))
    stored = [(x, to) for x, to in zip(results, _addresses(writes), strict=True) if isinstance(x, Traced) or x != 0]
    return Block(finish(trace, [x for x, _ in stored]), _addresses(reads), tuple(to for _, to in stored))


class Kept(NamedTuple):
    """Arrays that one block leaves to later ones, each different number once; numbers known beforehand stay known.

    A Jacobian is mostly zeros and a Delassus matrix is symmetric: only what differs is stored.
    """

    templates: tuple[Any, ...]
    """Arrays of plain numbers and of :class:`Slot`."""
    size: int

    def restored(self, memory: Array) -> list[Array]:
        """The arrays, from the numbers in memory (size,)."""
        found = []
        for template in self.templates:
            values = [memory[x.number] if isinstance(x, Slot) else x for x in template.flat]
            found.append(np.array(values, dtype=object).reshape(template.shape))
        return found


class Slot(NamedTuple):
    """A place among the numbers that are kept."""

    number: int


def keeping_block(
    function: Callable[..., Sequence[Any]], reads: Sequence[Piece], memory: Callable[[int], Piece]
) -> tuple[Block, Kept]:
    """As :func:`traced_block`, with the results kept in memory; ``memory(size)`` makes the place for them."""
    trace = Trace()
    arrays = [np.asarray(part, dtype=object) for part in function(*_inputs(trace, reads))]
    slots: dict[int, Slot] = {}
    different = []
    for x in _flat(arrays):
        if isinstance(x, Traced) and x.index not in slots:
            slots[x.index] = Slot(len(slots))
            different.append(x)
    templates = []
    for part in arrays:
        template = np.empty(part.shape, dtype=object)
        for index in np.ndindex(*part.shape):
            x = part[index]
            template[index] = slots[x.index] if isinstance(x, Traced) else x
        templates.append(template)
    block = Block(finish(trace, different), _addresses(reads), memory(len(slots)).addresses)
    return block, Kept(tuple(templates), len(slots))


def _inputs(trace: Trace, reads: Sequence[Piece]) -> list[Any]:
    return [trace.inputs(*part.shape)[()] for part in reads]


def _flat(parts: Sequence[Any]) -> list[Any]:
    return [x for part in parts for x in np.ravel(np.asarray(part, dtype=object))]


def _addresses(pieces: Sequence[Piece]) -> tuple[Address, ...]:
    return tuple(address for part in pieces for address in part.addresses)
