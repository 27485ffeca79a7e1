"""Rounds of a loop as lanes where each round works on rows of memory: rows to lanes and back.

A row is what follows the first index of a buffer: the velocities of a body, the axes and arms of a contact. Rounds that
work on rows of their own (``share`` of :class:`~whippletree.compiler.program.Loop`) are computed side by side: of each
row that the rounds read, a few neighbouring numbers are loaded as a vector, and those of all rounds are transposed in
registers (:mod:`~whippletree.compiler.cpu.copies`). What they write goes the way back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from whippletree.compiler.cpu.copies import lanes_to_rows, rows_to_lanes
from whippletree.compiler.llvm.ir import Operand
from whippletree.compiler.llvm.target_memory import Registers, Takers
from whippletree.compiler.program import SHARES, Address, Index, Register

if TYPE_CHECKING:
    from whippletree.compiler.cpu.cpu_memory import CpuMemory

WINDOWS = {8: 32, 4: 20, 2: 16, 1: 15}
"""Numbers of a row that are loaded together, and the instructions that this takes for eight rows: their loads, and the
shuffles of the transposition."""

Row: TypeAlias = tuple[str, tuple[Register | None, ...]]
"""A buffer, and the registers of the indices."""


class RoundRows:
    """How some rounds read and write, as lanes."""

    def __init__(self, memory: CpuMemory, share: Register, left: Operand) -> None:
        """``left``: rounds that are left; lanes beyond them repeat another one."""
        self.memory, self.share = memory, share
        self.kept: dict[Register, Operand] = {}
        """Where the numbers of all rounds are in the registers in which rounds differ."""
        w, several = memory.writer, memory.lanes.of("i64")
        self.takes_part = w.value(f"icmp slt {several} {w.every_lane()}, {w.splat(left, 'i64')}")
        """Which lanes are not beyond the last round."""

    def keep(self, register: Register, numbers: Operand) -> None:
        """Keep what the rounds have in a register, a vector of i64, in memory, from where it is read each time.

        There are many more of these numbers than registers of the machine, and what LLVM puts aside it spreads over so
        much stack that loads wait for stores to other places, 4096 bytes away.
        """
        w, slots = self.memory.writer, self.memory.slots
        while len(slots) <= len(self.kept):
            slots.append(w.stack(f"[{SHARES} x i64]", 8 * SHARES))
        self.kept[register] = slots[len(self.kept)]
        w.emit(f"store {w.lanes.of('i64')} {numbers}, ptr {self.kept[register]}")

    def repeat_first(self, numbers: Operand) -> Operand:
        """Numbers of all rounds, and in lanes beyond the last one that of the first of those in hand."""
        w = self.memory.writer
        several = w.lanes.of("i64")
        first = w.splat(w.value(f"extractelement {several} {numbers}, i32 0"), "i64")
        return w.value(f"select {w.lanes.condition} {self.takes_part}, {several} {numbers}, {several} {first}")

    def registers_of(self, round_: int, wanted: Collection[Register | None]) -> dict[Register, Operand]:
        """What a round has in those of some registers in which rounds differ."""
        w, element = self.memory.writer, self.memory.element
        return {
            register: w.value(f"load volatile i64, ptr {element(slot, 'i64', round_)}")
            for register, slot in self.kept.items()
            if register in wanted
        }

    # ---- reading -------------------------------------------------------------------------------------------------

    def readers(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        """What :meth:`~whippletree.compiler.llvm.target_memory.Memory.prepare_loads` returns."""
        wanted: dict[Row, set[int]] = {}
        for address in loads:
            if self._in_rows(address):
                wanted.setdefault(_row(address), set()).add(self._offset(address))
        windows = {row: windows_to_read(sorted(offsets), self._readable(row[0])) for row, offsets in wanted.items()}
        known: dict[tuple[Row, int], Operand] = {}

        def read(number: int) -> Operand:
            address = loads[number]
            if not self._in_rows(address):
                return self._read_plain(address, registers)
            row, offset = _row(address), self._offset(address)
            if (row, offset) not in known:
                first, width = next(window for window in windows[row] if window[0] <= offset < sum(window))
                vectors = self._read_window(address, registers, first, width)
                for k, vector in enumerate(vectors):
                    known.setdefault((row, first + k), vector)
            return known[row, offset]

        return read

    def _in_rows(self, address: Address) -> bool:
        """Whether a number is in rows in which rounds differ."""
        return any(index.register in self.kept for index in address.indices)

    def _is_shared(self, address: Address) -> bool:
        """Whether a number is one of a share, beside those of the others."""
        return any(index.register == self.share for index in address.indices)

    def _read_plain(self, address: Address, registers: Registers) -> Operand:
        """A number of all rounds, or of every share."""
        w, lanes = self.memory.writer, self.memory.lanes
        place = self._place(address, registers, 0)
        if self._is_shared(address):
            return w.value(f"load {lanes.number}, ptr {place}, align {lanes.bytes}")
        return w.splat(w.value(f"load {lanes.real}, ptr {place}"))

    def _read_window(self, address: Address, registers: Registers, first: int, width: int) -> list[Operand]:
        """Some neighbouring numbers of the rows of all rounds, each as a lane vector."""
        w, lanes = self.memory.writer, self.memory.lanes
        kind = f"<{width} x {lanes.real}>" if width > 1 else lanes.real
        places = self._places(address, registers, first)
        rows = [w.value(f"load {kind}, ptr {place}, align {lanes.bytes}") for place in places]
        if width > 1:
            return rows_to_lanes(w, rows, width)
        vector = "poison"
        for k, row in enumerate(rows):
            vector = w.value(f"insertelement {lanes.number} {vector}, {lanes.real} {row}, i32 {k}")
        return [vector]

    # ---- writing -------------------------------------------------------------------------------------------------

    def takers(self, stores: Sequence[Address], registers: Registers) -> Takers:
        """Places that take a number as soon as it is known; a window is written once it is whole."""
        found: Takers = {}
        rows: dict[Row, dict[int, Address]] = {}
        for address in stores:
            if self._in_rows(address):
                rows.setdefault(_row(address), {})[self._offset(address)] = address
            else:
                found[address] = lambda x, a=address: self._write_share(a, x, registers)  # type: ignore[misc]
        for own in rows.values():
            for first, width in windows_to_write(sorted(own)):
                window = {own[k]: k - first for k in range(first, first + width)}
                found |= self._window_takers(window, first, registers)
        return found

    def _window_takers(self, window: dict[Address, int], first: int, registers: Registers) -> Takers:
        vectors: dict[int, Operand] = {}

        def take(address: Address, vector: Operand) -> None:
            vectors[window[address]] = vector
            if len(vectors) == len(window):
                self._write_window(address, [vectors[k] for k in range(len(window))], first, registers)

        return {address: lambda x, a=address: take(a, x) for address in window}  # type: ignore[misc]

    def _write_share(self, address: Address, vector: Operand, registers: Registers) -> None:
        """The numbers of all shares that have a round."""
        w, lanes, place = self.memory.writer, self.memory.lanes, self._place(address, registers, 0)
        before = w.value(f"load {lanes.number}, ptr {place}, align {lanes.bytes}")
        w.emit(f"store {lanes.number} {w.select(self.takes_part, vector, before)}, ptr {place}, align {lanes.bytes}")

    def _write_window(self, address: Address, vectors: Sequence[Operand], first: int, registers: Registers) -> None:
        """Some neighbouring numbers of the rows of all rounds, from a lane vector of each."""
        w, lanes, width = self.memory.writer, self.memory.lanes, len(vectors)
        places = self._places(address, registers, first)
        if width > 1:
            rows, kind = lanes_to_rows(w, vectors), f"<{width} x {lanes.real}>"
        else:
            kind = lanes.real
            rows = [w.value(f"extractelement {lanes.number} {vectors[0]}, i32 {k}") for k in range(lanes.width)]
        for row, place in zip(rows, places, strict=True):
            w.emit(f"store {kind} {row}, ptr {place}, align {lanes.bytes}")

    # ---- places --------------------------------------------------------------------------------------------------

    def _places(self, address: Address, registers: Registers, offset: int) -> list[Operand]:
        """Pointers to a number of the row of each round."""
        start = Address(address.buffer, tuple(Index(index.register) for index in address.indices))
        memory = self.memory
        starts = [self._place(start, registers, k) for k in range(memory.lanes.width)]
        return [memory.element(place, memory.lanes.real, offset) for place in starts]

    def _place(self, address: Address, registers: Registers, round_: int) -> Operand:
        """A pointer to a number of one round."""
        own = self.registers_of(round_, [index.register for index in address.indices])
        return self.memory.place_of_one(address, {**registers, **own, self.share: "0"})

    def _offset(self, address: Address) -> int:
        """How far a number is from the beginning of its row."""
        return self.memory.flat_index(address, {index.register: "" for index in address.indices if index.register})[1]

    def _readable(self, buffer: str) -> int | None:
        """Numbers from the beginning of a row that may be read; None where more memory of our own follows."""
        if self.memory.role[buffer] == "work":
            return None
        return math.prod(int(d) for d in self.memory.shape[buffer][1:])


def _row(address: Address) -> Row:
    return address.buffer, tuple(index.register for index in address.indices)


def windows_to_read(offsets: Sequence[int], most: int | None) -> list[tuple[int, int]]:
    """Windows (first, width) that hold all of some ascending offsets, with few instructions for each of these.

    ``most``: offsets from which on nothing may be read.
    """
    found: list[tuple[int, int]] = []
    left = list(offsets)
    while left:
        choices = []
        for width, cost in WINDOWS.items():
            first = left[0] if most is None else min(left[0], most - width)
            if first >= 0:
                held = sum(offset < first + width for offset in left)
                choices.append((cost / held, first, width))
        _, first, width = min(choices)
        found.append((first, width))
        left = [offset for offset in left if offset >= first + width]
    return found


def windows_to_write(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Windows (first, width) that hold some ascending offsets and nothing else."""
    found: list[tuple[int, int]] = []
    for start in offsets:
        if found and start < sum(found[-1]):
            continue
        width = next(w for w in WINDOWS if all(start + k in offsets for k in range(w)))
        found.append((start, width))
    return found
