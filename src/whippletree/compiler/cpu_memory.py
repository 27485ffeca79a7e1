"""Where a program's numbers live on a CPU: NumPy arrays of any strides outside, lane vectors inside.

    input, output   bytes with strides; W neighbouring states are the lanes. Reached by *runs*, see below
    work            lane vectors, one after the other
    table, index    plain numbers, the same for all lanes

A run is a row of neighbouring numbers that a block reads or writes. If the innermost stride is that of a plain array,
a run is transposed in registers (:mod:`~whippletree.compiler.transpose`); if not, it goes number by number through a
function.

Lanes without a state (the tail of a batch) are aliases of the last state: they read its inputs, compute the same bits,
and write them to the same place. So a tail needs no masks, and no address exists that is not a state's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whippletree.compiler.emit import Memory, Registers, Takers
from whippletree.compiler.ir import Operand, Writer
from whippletree.compiler.program import Address, Buffer, Program
from whippletree.compiler.transpose import lanes_to_rows, rows_to_lanes


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
    staged_inputs: Operand = ""  # room for the runs that a block reads, as lane vectors
    staged_outputs: Operand = ""  # and for those that it writes


@dataclass
class Run:
    """Numbers ``first`` … of a row, and which of the block's loads or stores each of them is."""

    address: Address
    members: list[int] = field(default_factory=list)


class CpuMemory(Memory):
    """See the module's description."""

    def __init__(self, program: Program, writer: Writer, frame: Frame) -> None:
        super().__init__(program, writer)
        self.frame = frame
        self.lanes = writer.lanes
        self._collected: list[tuple[Run, Operand, Operand]] = []

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
        w = self.writer
        if self.lanes.width == 1:
            return [pointer]
        pointers = []
        for lane in range(self.lanes.width):
            offset = w.value(f"load i64, ptr {self._element(array.offsets, 'i64', lane)}")
            pointers.append(w.value(f"getelementptr i8, ptr {pointer}, i64 {offset}"))
        return pointers

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
            self._copy("gather", run, place, start)
        w.emit(f"br label %{join}")
        w.start(fast)
        if lanes.width > 1:
            for run, place, start in zip(runs, places, starts, strict=True):
                self._transpose_in(run, place, start)
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

    def _copy(self, function: str, run: Run, place: Operand, start: Operand) -> None:
        """Call ``gather`` or ``scatter``: a run of any stride, number by number."""
        array = self.frame.arrays[run.address.buffer]
        self.writer.emit(
            f"call void @{function}{self.lanes.width}(ptr {start}, ptr {place}, ptr {array.offsets}, "
            f"i64 {array.strides[-1]}, i64 {len(run.members)})"
        )

    def _transpose_in(self, run: Run, place: Operand, start: Operand) -> None:
        w, lanes = self.writer, self.lanes
        rows = self._of_lanes(self.frame.arrays[run.address.buffer], place)
        columns, firsts = _tiles(len(run.members), lanes.width)
        for first in firsts:
            tile = [
                w.value(
                    f"load <{columns} x {lanes.real}>, ptr {self._element(r, lanes.real, first)}, align {lanes.bytes}"
                )
                for r in rows
            ]
            for number, vector in enumerate(rows_to_lanes(w, tile, columns), start=first):
                w.emit(f"store {lanes.number} {vector}, ptr {self._element(start, lanes.number, number)}")

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
        places = [self._place(run.address, registers) for run in runs]
        starts = [self._element(self.frame.staged_outputs, lanes.number, s) for s in _starts(runs)]
        self._collected = list(zip(runs, places, starts, strict=True))
        if lanes.width == 1:
            # a single state is written where it belongs, if it lies there without gaps
            starts = [
                w.value(f"select i1 {self.frame.plain}, ptr {place}, ptr {start}")
                for place, start in zip(places, starts, strict=True)
            ]

        def writer(pointer: Operand, number: int) -> Callable[[Operand], None]:
            return lambda value: w.emit(
                f"store {lanes.number} {value}, ptr {self._element(pointer, lanes.number, number)}"
            )

        return {
            stores[member]: writer(start, number)
            for run, start in zip(runs, starts, strict=True)
            for number, member in enumerate(run.members)
        }

    def finish_stores(self) -> None:
        w = self.writer
        if not self._collected:
            return
        slow, fast, join = w.label("strided"), w.label("plain"), w.label("stored")
        w.emit(f"br i1 {self.frame.plain}, label %{fast}, label %{slow}")
        w.start(slow)
        for run, place, start in self._collected:
            self._copy("scatter", run, place, start)
        w.emit(f"br label %{join}")
        w.start(fast)
        if self.lanes.width > 1:
            for run, place, start in self._collected:
                self._transpose_out(run, place, start)
        w.emit(f"br label %{join}")
        w.start(join)
        self._collected = []

    def _transpose_out(self, run: Run, place: Operand, start: Operand) -> None:
        w, lanes = self.writer, self.lanes
        rows = self._of_lanes(self.frame.arrays[run.address.buffer], place)
        columns, firsts = _tiles(len(run.members), lanes.width)
        for first in firsts:
            numbers = range(first, first + columns)
            vectors = [w.value(f"load {lanes.number}, ptr {self._element(start, lanes.number, n)}") for n in numbers]
            for row, vector in zip(rows, lanes_to_rows(w, vectors), strict=True):
                target = self._element(row, lanes.real, first)
                w.emit(f"store <{columns} x {lanes.real}> {vector}, ptr {target}, align {lanes.bytes}")


def _starts(runs: Sequence[Run]) -> list[int]:
    """Where each run begins when they lie one after the other."""
    starts, total = [], 0
    for run in runs:
        starts.append(total)
        total += len(run.members)
    return starts


def _tiles(count: int, width: int) -> tuple[int, list[int]]:
    """Columns of a tile, first column of each; the last tile moves back over its neighbour, not past the end."""
    columns = width
    while columns > count:
        columns //= 2
    firsts = list(range(0, count - columns + 1, columns))
    if firsts[-1] + columns < count:
        firsts.append(count - columns)
    return columns, firsts
