"""Where a program's numbers live on a CPU: NumPy arrays of any strides outside, lane vectors inside.

    input, output   bytes with strides; W neighbouring states are the lanes. Reached by *runs*, see below
    work            lane vectors, one after the other
    table, index    plain numbers, the same for all lanes

A run is a row of neighbouring numbers that a block reads or writes. If the innermost stride is that of a plain array,
a run is transposed in registers; if not, it goes number by number (:mod:`~whippletree.compiler.copies`).

Lanes without a state (the tail of a batch) are aliases of the last state: they read its inputs, compute the same bits,
and write them to the same place. So a tail needs no masks, and no address exists that is not a state's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whippletree.compiler.copies import MOST_TILES, lane_pointers, load_results, tile_in, tile_out, tiles
from whippletree.compiler.emit import Memory, Registers, Takers
from whippletree.compiler.ir import Operand, Writer
from whippletree.compiler.program import Address, Buffer, Program

MOST_HELD = 24
"""So many results of a block stay in registers until they are written; more are put into memory as they are known."""


LONGEST_BLOCK = 16_000
"""Lines after which a basic block ends at the next opportunity. A cut at a bad place was seen to cost a quarter of the
speed, so a humanoid's forward dynamics must not be cut; its derivatives compile in three quarters of the time."""


@dataclass
class Array:
    """An input or output of the call, as operands of the emitted code."""

    buffer: Buffer
    base: Operand  # of the first of the W states in hand
    strides: list[Operand]  # bytes, one for each core dimension
    offsets: Operand  # points to W byte offsets: from the first state to the state of each lane

    @property
    def integer(self) -> bool:
        return self.buffer.integer


@dataclass
class Frame:
    """What surrounds the body: the arrays of the call and the memory that it owns."""

    arrays: dict[str, Array]
    pointers: dict[str, Operand]  # work, table and index buffers
    dimensions: dict[str, Operand]  # sizes of named dimensions
    plain: Operand  # i1: every array has the innermost stride of a plain array
    never: Operand  # i1 that is false, though LLVM does not know it
    staged_inputs: Operand = ""  # room for the runs that a block reads, as lane vectors
    staged_outputs: Operand = ""  # and for those that it writes


@dataclass
class Run:
    """Numbers ``first`` … of a row, and which of the block's loads or stores each of them is."""

    address: Address
    members: list[int] = field(default_factory=list)


@dataclass
class Collected:
    """A run that is being written: its array, and its numbers as lane vectors, in registers or in memory."""

    run: Run
    place: Operand
    start: Operand
    held: dict[int, Operand] = field(default_factory=dict)

    def holder(self, number: int, w: Writer) -> Callable[[Operand], None]:
        """Keep a number in a register."""
        return lambda value: self.held.update({number: w.canonical(value)})


class CpuMemory(Memory):
    """See the module's description."""

    def __init__(self, program: Program, writer: Writer, frame: Frame) -> None:
        super().__init__(program, writer)
        self.frame = frame
        self.lanes = writer.lanes
        self._collected: list[Collected] = []
        self._block_start = len(writer.lines)

    # ---- small things --------------------------------------------------------------------------------------------

    def count(self, dimension: str) -> Operand:
        return self.frame.dimensions[dimension]

    def lookup(self, address: Address, registers: Registers) -> Operand:
        return self.writer.value(f"load i64, ptr {self._flat(address, 'i64', registers)}")

    def _flat(self, address: Address, element: str, registers: Registers) -> Operand:
        """A pointer into a buffer with one index: register first, so that the offset becomes part of an instruction."""
        w, (index,) = self.writer, address.indices
        pointer = self.frame.pointers[address.buffer]
        if index.register is not None:
            pointer = w.value(f"getelementptr {element}, ptr {pointer}, i64 {registers[index.register]}")
        return self._element(pointer, element, index.offset)

    def _element(self, pointer: Operand, element: str, number: int) -> Operand:
        if number == 0:
            return pointer
        return self.writer.value(f"getelementptr {element}, ptr {pointer}, i64 {number}")

    def _place(self, address: Address, registers: Registers) -> Operand:
        """A pointer to a number of the first state."""
        w, array = self.writer, self.frame.arrays[address.buffer]
        pointer = array.base
        for index, stride in zip(address.indices, array.strides, strict=True):
            if index.register is not None or index.offset:
                bytes_ = w.value(f"mul i64 {self.index(index, registers)}, {stride}")
                pointer = w.value(f"getelementptr i8, ptr {pointer}, i64 {bytes_}")
        return pointer

    def _of_lanes(self, array: Array, pointer: Operand) -> list[Operand]:
        """Pointers to the same number of all W states."""
        return lane_pointers(self.writer, pointer, array.offsets)

    def _runs(self, addresses: Iterable[tuple[int, Address]]) -> Iterator[Run]:
        """Group addresses of arrays into runs of neighbours along the last dimension."""
        rows: dict[object, list[tuple[int, int, Address]]] = {}
        for i, a in addresses:
            last = a.indices[-1] if a.indices else None
            key = (a.buffer, a.indices[:-1], last.register if last else None)
            rows.setdefault(key, []).append((last.offset if last else 0, i, a))
        for row in rows.values():
            row.sort(key=lambda entry: entry[:2])
            run, end = Run(row[0][2]), row[0][0]
            for offset, i, a in row:
                if offset == end:
                    run.members.append(i)
                else:
                    yield run
                    run = Run(a, [i])
                end = offset + 1
            yield run

    # ---- reading -------------------------------------------------------------------------------------------------

    def prepare_loads(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        outside = [(i, a) for i, a in enumerate(loads) if a.buffer in self.frame.arrays]
        runs = list(self._runs(outside))
        read: dict[int, Callable[[], Operand]] = {}
        long = [run for run in runs if len(run.members) > 1]
        for run in runs:
            if len(run.members) == 1:
                read[run.members[0]] = lambda run=run: self._read_single(run, registers)  # type: ignore[misc]
        if long:
            read.update(self._read_runs(long, registers))

        def load(number: int) -> Operand:
            if number in read:
                return read[number]()
            return self._read_flat(loads[number], registers)

        return load

    def _read_flat(self, address: Address, registers: Registers) -> Operand:
        w, lanes = self.writer, self.lanes
        if self.role[address.buffer] == "table":
            return w.splat(w.value(f"load {lanes.real}, ptr {self._flat(address, lanes.real, registers)}"))
        return w.value(f"load {lanes.number}, ptr {self._flat(address, lanes.number, registers)}")

    def _read_single(self, run: Run, registers: Registers) -> Operand:
        w, lanes = self.writer, self.lanes
        array = self.frame.arrays[run.address.buffer]
        pointers = self._of_lanes(array, self._place(run.address, registers))
        values = [w.value(f"load {lanes.real}, ptr {p}") for p in pointers]
        if lanes.width == 1:
            return values[0]
        vector = "poison"
        for lane, value in enumerate(values):
            vector = w.value(f"insertelement {lanes.number} {vector}, {lanes.real} {value}, i32 {lane}")
        return vector

    def _read_runs(self, runs: list[Run], registers: Registers) -> dict[int, Callable[[], Operand]]:
        """Bring runs into lane vectors; they are loaded from there where they are needed."""
        w, lanes = self.writer, self.lanes
        places = [self._place(run.address, registers) for run in runs]
        starts = [self._element(self.frame.staged_inputs, lanes.number, s) for s in _starts(runs)]
        slow, fast, join = w.label("strided"), w.label("plain"), w.label("loaded")
        w.emit(f"br i1 {self.frame.plain}, label %{fast}, label %{slow}")
        w.start(slow)
        for run, place, start in zip(runs, places, starts, strict=True):
            self._copy(f"gather{lanes.width}", run, place, start)
        w.emit(f"br label %{join}")
        w.start(fast)
        if lanes.width > 1:
            by_call = self._many(runs)
            for run, place, start in zip(runs, places, starts, strict=True):
                self._transpose_in(run, place, start, by_call)
        w.emit(f"br label %{join}")
        w.start(join)
        if lanes.width == 1:
            # a single state is read where it lies
            starts = [
                w.value(f"phi ptr [ {place}, %{fast} ], [ {start}, %{slow} ]")
                for place, start in zip(places, starts, strict=True)
            ]

        def reader(pointer: Operand, number: int) -> Callable[[], Operand]:
            return lambda: w.value(f"load {lanes.number}, ptr {self._element(pointer, lanes.number, number)}")

        return {
            member: reader(start, number)
            for run, start in zip(runs, starts, strict=True)
            for number, member in enumerate(run.members)
        }

    def _many(self, runs: Sequence[Run]) -> bool:
        """Whether the tiles of these runs are too many to be written out."""
        return sum(len(tiles(len(run.members), self.lanes.width)[1]) for run in runs) > MOST_TILES

    def _copy(self, function: str, run: Run, place: Operand, start: Operand) -> None:
        """Call one of :func:`~whippletree.compiler.copies.copy_functions`."""
        array = self.frame.arrays[run.address.buffer]
        self.writer.emit(
            f"call void @{function}(ptr {start}, ptr {place}, ptr {array.offsets}, "
            f"i64 {array.strides[-1]}, i64 {len(run.members)})"
        )

    def _transpose_in(self, run: Run, place: Operand, start: Operand, by_call: bool) -> None:
        width = self.lanes.width
        columns, firsts = tiles(len(run.members), width)
        if by_call:
            self._copy(f"gather{width}x{columns}", run, place, start)
            return
        rows = self._of_lanes(self.frame.arrays[run.address.buffer], place)
        for first in firsts:
            tile_in(self.writer, rows, columns, first, start)

    # ---- code that is too long -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """End a basic block that has become long: LLVM's schedulers take time with the square of its length.

        The branch is never taken, but LLVM cannot know that, so it cannot join the pieces again.
        """
        w = self.writer
        if len(w.lines) - self._block_start > LONGEST_BLOCK:
            going_on = w.label("more")
            w.emit(f"br i1 {self.frame.never}, label %finish, label %{going_on}")
            w.start(going_on)
            self._block_start = len(w.lines)

    # ---- writing -------------------------------------------------------------------------------------------------

    def store(self, stores: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        w, lanes = self.writer, self.lanes
        for address, value in stores:
            if address.buffer in self.frame.arrays:
                self._write_single(address, value, registers)
            else:
                w.emit(f"store {lanes.number} {value}, ptr {self._flat(address, lanes.number, registers)}")

    def _write_single(self, address: Address, value: Operand, registers: Registers) -> None:
        w, lanes = self.writer, self.lanes
        array = self.frame.arrays[address.buffer]
        kind = "i64" if array.integer else str(lanes.real)
        if array.integer:
            value = w.to_integer(value)
        pointers = self._of_lanes(array, self._place(address, registers))
        for lane, pointer in enumerate(pointers):
            part = value
            if lanes.width > 1:
                part = w.value(f"extractelement {lanes.of(kind)} {value}, i32 {lane}")
            w.emit(f"store {kind} {part}, ptr {pointer}")

    def prepare_stores(self, stores: Sequence[Address], registers: Registers) -> Takers:
        """Runs are collected as lane vectors, each when it is known, and go to their arrays at the end of the block."""
        w, lanes = self.writer, self.lanes
        runs = [
            run
            for run in self._runs(enumerate(stores))
            if len(run.members) > 1 and not self.frame.arrays[run.address.buffer].integer
        ]
        starts = [self._element(self.frame.staged_outputs, lanes.number, s) for s in _starts(runs)]
        self._collected = [
            Collected(run, self._place(run.address, registers), start) for run, start in zip(runs, starts, strict=True)
        ]
        hold = lanes.width > 1 and sum(len(run.members) for run in runs) <= MOST_HELD
        takers: Takers = {}
        for collected in self._collected:
            target = collected.start
            if lanes.width == 1:
                # a single state is written where it belongs, if it lies there without gaps
                target = w.value(f"select i1 {self.frame.plain}, ptr {collected.place}, ptr {collected.start}")
            for number, member in enumerate(collected.run.members):
                takers[stores[member]] = collected.holder(number, w) if hold else self._storer(target, number)
        return takers

    def _storer(self, start: Operand, number: int) -> Callable[[Operand], None]:
        """Put a number in memory; those of many lanes get their one pattern of NaN on the way to their arrays."""

        def store(value: Operand) -> None:
            place = self._element(start, self.lanes.number, number)
            seen = self.writer.canonical(value) if self.lanes.width == 1 else value
            self.writer.emit(f"store {self.lanes.number} {seen}, ptr {place}")

        return store

    def finish_stores(self) -> None:
        if not self._collected:
            return
        w, width = self.writer, self.lanes.width
        slow, fast, join = w.label("strided"), w.label("plain"), w.label("stored")
        w.emit(f"br i1 {self.frame.plain}, label %{fast}, label %{slow}")
        w.start(slow)
        for c in self._collected:
            for number, value in c.held.items():
                self._storer(c.start, number)(value)
            self._copy(f"scatter{width}", c.run, c.place, c.start)
        w.emit(f"br label %{join}")
        w.start(fast)
        if width > 1:
            by_call = self._many([c.run for c in self._collected])
            for c in self._collected:
                self._transpose_out(c, by_call)
        w.emit(f"br label %{join}")
        w.start(join)
        self._collected = []

    def _transpose_out(self, c: Collected, by_call: bool) -> None:
        w, width = self.writer, self.lanes.width
        columns, firsts = tiles(len(c.run.members), width)
        if by_call and not c.held:
            self._copy(f"scatter{width}x{columns}", c.run, c.place, c.start)
            return
        rows = self._of_lanes(self.frame.arrays[c.run.address.buffer], c.place)
        for first in firsts:
            numbers = range(first, first + columns)
            vectors = [c.held[n] for n in numbers] if c.held else load_results(w, c.start, first, columns)
            tile_out(w, rows, vectors, first)


def _starts(runs: Sequence[Run]) -> list[int]:
    """Where each run begins when they lie one after the other."""
    starts, total = [], 0
    for run in runs:
        starts.append(total)
        total += len(run.members)
    return starts
