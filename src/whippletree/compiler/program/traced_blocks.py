"""Generic code as a block of a kernel program: traced on what it reads, its results stored where they belong.

Code that iterates becomes blocks and loops. A round of :func:`whippletree.arithmetic.iteration.iterate` is traced by
itself, on places of a work buffer that hold the state of the iteration and what it is given, as far as that is not in
memory already. Before the loop a block fills these places; what follows the loop reads them as further inputs. Blocks
share nothing but memory: what two of them need is computed in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.iteration import flatten_parts
from whippletree.arithmetic.trace import Trace, Traced, finish
from whippletree.compiler.program.program import Address, Block, Buffer, Index, Register, Statement, Until, every_block


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
    """Like :func:`traced_block`, for memory that holds zeros already: numbers that are known to be 0 are not stored."""
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

    def restore(self, memory: Array) -> list[Array]:
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
    """Like :func:`traced_block`, with the results kept in memory; ``memory(size)`` makes the place for them."""
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


# --- blocks and loops from generic functions that iterate -------------------------------------------------------------


class _Rounds(NamedTuple):
    """An iteration inside a trace."""

    state: list[Any]
    given: list[Traced]
    """Inputs of the rounds that are not known beforehand."""
    body: _LoopingTrace
    results: list[Any]
    most: int
    known: int
    """How many inputs the trace has before it."""


class _LoopingTrace(Trace):
    """A trace in which results of iterations are inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[_Rounds] = []

    def iterate(self, step: Any, state: list[Any], given: list[Any], most: int) -> list[Any]:
        body = _LoopingTrace()
        begin = list(body.inputs(len(state)))
        handed = [body.input() if isinstance(x, Traced) else x for x in given]
        results = step(begin, handed)
        _refuse_strangers(results, body)
        own = [x for x in given if isinstance(x, Traced)]
        self.rounds.append(_Rounds(state, own, body, results, most, self._inputs))
        return list(self.inputs(len(state)))


def _refuse_strangers(results: Sequence[Any], body: Trace) -> None:
    if any(isinstance(x, Traced) and x.trace is not body for x in results):
        raise ValueError("a round of an iteration returns a number that it was not given")


def looped_block(
    function: Callable[..., Sequence[Any]], reads: Sequence[Piece], writes: Sequence[Piece], name: str
) -> tuple[list[Statement], list[Buffer]]:
    """A function of arrays that returns arrays, as statements between memory and memory, and their work space.

    As :func:`~whippletree.compiler.program.traced_blocks.traced_block`, for functions that may iterate. ``name`` begins
    the names of buffers and counters.
    """
    trace = _LoopingTrace()
    results = flatten_parts(function(*[trace.inputs(*part.shape)[()] for part in reads]))
    sources = [address for part in reads for address in part.addresses]
    stores = [address for part in writes for address in part.addresses]
    return _statements(trace, results, sources, stores, name)


def _statements(
    trace: _LoopingTrace, results: list[Any], sources: list[Address], stores: list[Address], name: str
) -> tuple[list[Statement], list[Buffer]]:
    """``sources``: where the inputs of the trace are, as far as they are no results of iterations."""
    statements: list[Statement] = []
    buffers: list[Buffer] = []
    sources = list(sources)
    for number, rounds in enumerate(trace.rounds):
        own = f"{name} {number}"
        assert len(sources) == rounds.known
        size = len(rounds.state)
        state = [Address(f"{own} state", (Index(None, i),)) for i in range(size)]
        # what is in memory already is read there: nothing that a round reads is written before it ends
        known = [_source_of(x, trace, sources) for x in rounds.given]
        given = []
        for place in known:
            given.append(place or Address(f"{own} state", (Index(None, size),)))
            size += place is None
        body, more = _statements(rounds.body, rounds.results, [*state, *given], state, own)
        read = {address for block in every_block(body) for address in _what_it_reads(block)}
        left = [(x, to) for x, to, place in zip(rounds.given, given, known, strict=True) if not place and to in read]
        begin = [*zip(rounds.state, state, strict=True), *left]
        code = finish(trace, [x for x, _ in begin])
        statements.append(Block(code, tuple(sources), tuple(to for _, to in begin)))
        statements.append(Until(f"{own} round", rounds.most, state[0], tuple(body)))
        buffers += [Buffer(f"{own} state", "work", (size,)), *more]
        sources += state
    return [*statements, Block(finish(trace, results), tuple(sources), tuple(stores))], buffers


def _source_of(x: Traced, trace: Trace, sources: Sequence[Address]) -> Address | None:
    """Where a number is in memory that is an input of a trace."""
    node = trace.nodes[x.index]
    return sources[node[1]] if node[0] == "input" else None


def _what_it_reads(block: Block) -> list[Address]:
    """The addresses of those inputs of a block that its code uses."""
    return [block.loads[node[1]] for node in block.code.nodes if node[0] == "input"]
