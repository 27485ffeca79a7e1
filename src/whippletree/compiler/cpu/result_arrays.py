"""How the results of a block leave a CPU: neighbours of a row together, as tiles.

A tile is C neighbouring numbers of W states: C lane vectors inside, W pieces of rows outside, transposed in registers
on the way (:mod:`~whippletree.compiler.cpu.copies`). Few results wait in registers for the end of the block. Of many,
each tile leaves by a call when it and all before it in its array are complete: memory takes them as a stream, and what
is complete in time is not collected first, which for the matrices of a humanoid would be more than the caches hold. So
generic code does well to complete row after row.

A single state is written where it belongs; if its numbers do not lie side by side there, at the end of the block. Of
many results the NaNs are looked for at the end, run by run: a comparison for each, in the code, would take LLVM as long
as the arithmetic of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from whippletree.compiler.cpu.copies import SHORTEST_VECTOR_RUN, lane_pointers, tile_name, tile_out, tiles
from whippletree.compiler.cpu.cpu_arrays import AddressRun, Array, CallFrame, starts_of
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.program import Address

MOST_HELD = 24
"""So many results of a block wait in registers for its end."""

LONGEST_STORE = 16
"""So many neighbours with the same number are stored at once."""

Takers = dict[int, Callable[[Operand], None]]
"""Receiver of a result, by the number of its store."""


@dataclass
class _Tile:
    """Numbers ``first`` … of a run, by the numbers of their stores, and those that are known."""

    run: AddressRun
    first: int
    members: list[int]
    known: dict[int, Operand] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.known) == len(self.members)

    @property
    def values(self) -> list[Operand]:
        return [self.known[member] for member in self.members]


class Results:
    """The runs that one block writes. ``place`` emits a pointer to a number of the first state."""

    def __init__(
        self, writer: Writer, frame: CallFrame, runs: Sequence[AddressRun], place: Callable[[Address], Operand]
    ) -> None:
        self.writer = writer
        self.lanes = writer.lanes
        self.frame = frame
        self.runs = runs
        self.place = place
        self.held: list[_Tile] = []
        self.leaving: dict[str, list[_Tile]] = {}
        self.staged: list[tuple[AddressRun, Operand, Operand]] = []
        self.constants: list[tuple[Operand, dict[int, Operand]]] = []
        """Of each run of a single state where it begins, and numbers that no state changes, by their places."""
        self.few = sum(len(run.members) for run in runs) <= MOST_HELD

    def takers(self) -> Takers:
        """Receiver of each result as soon as it is known."""
        if self.lanes.width == 1:
            return self._takers_of_one_state()
        takers: Takers = {}
        for run in self.runs:
            columns, firsts = tiles(len(run.members), self.lanes.width)
            row = [_Tile(run, first, run.members[first : first + columns]) for first in firsts]
            queue = self.held if self.few else self.leaving.setdefault(run.address.buffer, [])
            queue += row
            # the last tile of a run overlaps the one before it
            own: dict[int, list[_Tile]] = {member: [] for member in run.members}
            for tile in row:
                for member in tile.members:
                    own[member].append(tile)
            for member, those in own.items():
                takers[member] = self._holder(member, those) if self.few else self._sender(member, those, queue)
        return takers

    def finish(self) -> None:
        """The end of the block."""
        for start, numbers in self.constants:
            self._write_constants(start, numbers)
        if not self.held and not self.staged:
            return
        w = self.writer
        slow, fast, join = w.label("strided"), w.label("plain"), w.label("stored")
        w.emit(f"br i1 {self.frame.plain}, label %{fast}, label %{slow}")
        w.start(slow)
        for run, place, start in self.staged:
            array = self._array(run)
            w.call(
                "scatter1",
                f"ptr {start}, ptr {place}, ptr {array.offsets}, i64 {array.strides[-1]}, i64 {len(run.members)}",
            )
        for tile in self.held:
            self._send(tile)
        w.emit(f"br label %{join}")
        w.start(fast)
        for run in self.runs:
            if self._seen_later(run):
                start = self.place(run.address)
                w.call("canonical", f"ptr {start}, ptr {start}, i64 {len(run.members)}")
            if self.held:
                rows = lane_pointers(w, self.place(run.address), self._array(run).offsets)
                for tile in self.held:
                    if tile.run is run:
                        tile_out(w, rows, tile.values, tile.first)
        w.emit(f"br label %{join}")
        w.start(join)

    # ---- one state -----------------------------------------------------------------------------------------------

    def _takers_of_one_state(self) -> Takers:
        w, real = self.writer, self.lanes.real
        takers: Takers = {}
        for run, number in zip(self.runs, starts_of(self.runs), strict=True):
            place = self.place(run.address)
            start = w.value(f"getelementptr {real}, ptr {self.frame.staged_outputs}, i64 {number}")
            self.staged.append((run, place, start))
            target = w.value(f"select i1 {self.frame.plain}, ptr {place}, ptr {start}")
            self.constants.append((target, {}))
            for i, member in enumerate(run.members):
                takers[member] = self._storer(target, i, self._seen_later(run))
        return takers

    def _write_constants(self, start: Operand, numbers: dict[int, Operand]) -> None:
        """Neighbours with the same number by vectors: a sparse matrix has hundreds of zeros side by side."""
        w, real = self.writer, self.lanes.real
        left = sorted(numbers, reverse=True)
        while left:
            first = left.pop()
            number, count = numbers[first], 1
            while left and left[-1] == first + count and numbers[left[-1]] == number and count < LONGEST_STORE:
                count += 1
                left.pop()
            vector = f"<{count} x {real}> <{', '.join([f'{real} {number}'] * count)}>"
            place = w.value(f"getelementptr {real}, ptr {start}, i64 {first}")
            w.emit(f"store {vector}, ptr {place}, align {self.lanes.bytes}")

    def _seen_later(self, run: AddressRun) -> bool:
        """Whether the NaNs of a run of a single state get their one bit pattern when all of it is written."""
        return self.lanes.width == 1 and not self.few and len(run.members) >= SHORTEST_VECTOR_RUN

    def _storer(self, start: Operand, number: int, seen_later: bool) -> Callable[[Operand], None]:
        w, real = self.writer, self.lanes.real
        _, constants = self.constants[-1]

        def store(value: Operand) -> None:
            if seen_later and not value.startswith("%"):
                constants[number] = value
                return
            place = w.value(f"getelementptr {real}, ptr {start}, i64 {number}")
            w.emit(f"store {real} {value if seen_later else w.canonical(value)}, ptr {place}")

        return store

    # ---- many lanes ----------------------------------------------------------------------------------------------

    def _holder(self, member: int, own: Sequence[_Tile]) -> Callable[[Operand], None]:
        def hold(value: Operand) -> None:
            seen = self.writer.canonical(value)
            for tile in own:
                tile.known[member] = seen

        return hold

    def _sender(self, member: int, own: Sequence[_Tile], queue: list[_Tile]) -> Callable[[Operand], None]:
        def send(value: Operand) -> None:
            for tile in own:
                tile.known[member] = value
            while queue and queue[0].complete:
                self._send(queue.pop(0))

        return send

    def _send(self, tile: _Tile) -> None:
        """Call the function that writes a tile, whatever the strides of its array are."""
        w, array = self.writer, self._array(tile.run)
        *before, last = tile.run.address.indices
        place = self.place(Address(tile.run.address.buffer, (*before, last._replace(offset=last.offset + tile.first))))
        vectors = ", ".join(f"{self.lanes.number} {value}" for value in tile.values)
        w.call(
            tile_name(self.lanes.width, len(tile.members)),
            f"{vectors}, ptr {place}, ptr {array.offsets}, i64 {array.strides[-1]}",
        )

    def _array(self, run: AddressRun) -> Array:
        return self.frame.arrays[run.address.buffer]
