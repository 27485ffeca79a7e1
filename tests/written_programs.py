"""Statements of kernel programs, written by hand for tests of targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.program import Address, Block, Index


def at(buffer: str, *indices: Any) -> Address:
    """An address: an index is a number, a register, or (register, offset)."""
    converted = [
        Index(None, i) if isinstance(i, int) else Index(i) if isinstance(i, str) else Index(*i) for i in indices
    ]
    return Address(buffer, tuple(converted))


def block(function: Callable[..., Any], loads: Sequence[Address], stores: Sequence[Address]) -> Block:
    """A block that stores what a function makes of the numbers that it loads."""
    trace = Trace()
    results = function(*[trace.input() for _ in loads])
    results = results if isinstance(results, tuple) else (results,)
    return Block(finish(trace, results), tuple(loads), tuple(stores))
