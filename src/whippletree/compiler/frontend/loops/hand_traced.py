"""Blocks that are traced by hand: numbers come from memory at addresses, and go there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Trace, Traced, finish
from whippletree.compiler.program import Address, Block, Index, Lookup, Statement


class Code:
    """A block that is being traced: numbers come from memory, and go there."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.loads: dict[Address, Traced] = {}
        self.stores: list[tuple[Address, Any]] = []

    def load(self, buffer: str, *indices: Index) -> Traced:
        """A number from memory."""
        address = Address(buffer, indices)
        if address not in self.loads:
            self.loads[address] = self.trace.input()
        return self.loads[address]

    def vector(self, buffer: str, register: str, count: int) -> Array:
        """Numbers one after the other, from a register on."""
        found = np.empty(count, dtype=object)
        found[:] = [self.load(buffer, Index(register, i)) for i in range(count)]
        return found

    def store(self, value: Any, buffer: str, *indices: Index) -> None:
        """A number to memory."""
        self.stores.append((Address(buffer, indices), value))

    def block(self) -> Block:
        """The code."""
        code = finish(self.trace, [value for _, value in self.stores])
        return Block(code, tuple(self.loads), tuple(address for address, _ in self.stores))


def lookups(counter: str, looks: Sequence[tuple[str, str]]) -> list[Statement]:
    return [Lookup(register, Address(buffer, (Index(counter),))) for register, buffer in looks]
