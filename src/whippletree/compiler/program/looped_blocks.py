"""Generic code that iterates, as statements of a program: straight-line blocks, and loops that end when they are done.

A round of :func:`whippletree.arithmetic.iteration.iterate` is traced by itself, on places of a work buffer that hold
the state of the iteration and what it is given. Before the loop a block fills these places; what follows the loop reads
them as further inputs. Blocks share nothing but memory: what two of them need is computed in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from whippletree.arithmetic.iteration import flattened
from whippletree.arithmetic.trace import Trace, Traced, finish
from whippletree.compiler.program.program import Address, Block, Buffer, Index, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece


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
    results = flattened(function(*[trace.inputs(*part.shape)[()] for part in reads]))
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
        size = len(rounds.state) + len(rounds.given)
        buffer = Buffer(f"{own} state", "work", (size,))
        places = [Address(buffer.name, (Index(None, i),)) for i in range(size)]
        begin = finish(trace, [*rounds.state, *rounds.given])
        assert len(sources) == rounds.known
        statements.append(Block(begin, tuple(sources), tuple(places)))
        state = places[: len(rounds.state)]
        body, more = _statements(rounds.body, rounds.results, places, state, own)
        statements.append(Until(f"{own} round", rounds.most, places[0], tuple(body)))
        buffers += [buffer, *more]
        sources += state
    return [*statements, Block(finish(trace, results), tuple(sources), tuple(stores))], buffers
