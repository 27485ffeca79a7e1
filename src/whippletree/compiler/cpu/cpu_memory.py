"""Where a program's numbers live on a CPU: NumPy arrays of any strides outside, lane vectors inside.

    input, output   bytes with strides; W neighbouring states are the lanes. Reached by *runs*, see below
    work            lane vectors, one after the other
    table, index    plain numbers, the same for all lanes

A lane that runs alone (:class:`~whippletree.compiler.program.PerLane`) finds its numbers in every W-th place of the
work space. What only such lanes use lies in W copies, one after the other, so that its rows have neighbours.

A run is a row of neighbouring numbers that a block reads or writes. If the innermost stride is that of a plain array,
a run is transposed in registers; if not, it goes number by number (:mod:`~whippletree.compiler.cpu.copies`).

Lanes without a state (the tail of a batch) are aliases of the last state: they read its inputs, compute the same bits,
and write them to the same place. So a tail needs no masks, and no address exists that is not a state's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from whippletree.compiler.cpu.copies import MOST_TILES, SHORTEST_VECTOR_RUN, lane_pointers, tile_in, tiles
from whippletree.compiler.cpu.cpu_arrays import AddressRun, Array, CallFrame, runs_of, starts_of
from whippletree.compiler.cpu.result_arrays import Results
from whippletree.compiler.cpu.result_lists import write_listed
from whippletree.compiler.cpu.round_rows import RoundRows
from whippletree.compiler.llvm.copied_results import entries_of, rows_copied
from whippletree.compiler.llvm.ir import MachineLanes, Operand, Writer
from whippletree.compiler.llvm.kernel import STOP
from whippletree.compiler.llvm.packs import FEWEST_ROUNDS_BESIDE, MOST_ROUNDS_BESIDE, WIDTH, Place
from whippletree.compiler.llvm.target_memory import Factor, Memory, Registers, Takers
from whippletree.compiler.program import (
    SHARES,
    Address,
    Block,
    Call,
    Index,
    Loop,
    Program,
    Register,
    buffers_of_single_lanes,
    every_block,
)

UNCUT = 12_000
"""Operations up to which a block of the program stays one basic block for vectors of states: cuts save a third of the
time that LLVM takes, but were seen to cost inverse dynamics 2 % of its speed, and a quadruped's derivatives 6 %."""

UNCUT_OF_ONE_STATE = 2000
"""Number for one state at a time: LLVM takes a third to two thirds less time with cuts (0.75 s in the place of 2.5 for
10 000 operations), and calls were seen to be as fast."""

UNCUT_OF_SEVERAL = 1000
"""Number where a program has several statements. Cuts were seen to save a third of the time that LLVM takes for the
loop over the limbs of a humanoid, whose code was up to 5 % faster with them."""

LONGEST_BLOCK = 300
"""Lines after which a basic block of a longer one ends at the next opportunity: LLVM takes time with the square of its
length. With 800, a humanoid's derivatives took it 6 to 15 % longer, with 150 as long. Batches with 300 in the place of
800 were seen to take 0.93 (derivatives of Talos) to 1.015 of the time (roll-outs of a quadruped)."""


CACHE_LINE = 64
"""Bytes that a CPU fetches at once."""

PREFETCH = "llvm.prefetch.p0"

_SOON = "i32 0, i32 3, i32 1"
"""To be read, and more than once: numbers, not instructions."""

TOGETHER = (MOST_ROUNDS_BESIDE, WIDTH, FEWEST_ROUNDS_BESIDE)
"""Rounds of a loop that one state computes at once: as many as there are, and of what is left over."""


class CpuMemory(Memory):
    """See the module's description."""

    def __init__(self, program: Program, writer: Writer, frame: CallFrame) -> None:
        super().__init__(program, writer)
        self.frame = frame
        self.lanes = writer.lanes
        self._bases: dict[tuple[str, str, tuple[tuple[Operand, Factor], ...]], Operand] = {}
        """Pointers that the present basic block has worked out: of a buffer, an element, registers with factors."""
        self._bases_in = ""
        self._shared: dict[Address, Operand] = {}
        """Numbers that all rounds of the loop in hand share, in every lane."""
        self.states = self.lanes.width
        self._sizes = {name: program.buffer(name).size for name in buffers_of_single_lanes(program)}
        """Numbers of one lane in the buffers that only lanes use that run alone."""
        self._mixed = {buffer.name for buffer in program.buffers if buffer.mixed}
        self._results: Results | None = None
        self._rows: RoundRows | None = None
        """How the rounds in hand read and write, where they are lanes."""
        self.slots: list[Operand] = []
        """Stack space where such rounds keep a register of theirs."""
        self.lists: list[str] = []
        """Tables of places of results, for the module."""
        uncut = UNCUT if self.states > 1 else UNCUT_OF_ONE_STATE
        most = uncut if len(program.body) == 1 else UNCUT_OF_SEVERAL
        self._long = any(block.code.operations > most for block in every_block(program.body))

    # ---- one lane alone ------------------------------------------------------------------------------------------

    @contextmanager
    def one_lane(self, lane: Operand) -> Iterator[None]:
        every, parted = self.lanes, (self.mask, self.storing)
        self.lane, self.mask, self.storing = lane, None, None
        self.lanes = self.writer.lanes = MachineLanes(1, every.real)
        yield
        self.lane = None
        self.mask, self.storing = parted
        self.lanes = self.writer.lanes = every

    def _of_lane(
        self, name: str, parts: list[tuple[Operand, Factor]], offset: int
    ) -> tuple[list[tuple[Operand, Factor]], int]:
        """Where the lane that runs alone has a number of work space, from where a single state would have it."""
        if self.lane is None or self.role[name] != "work":
            return parts, offset
        if name in self._sizes:
            return [(self.lane, self._sizes[name]), *parts], offset
        # the call decides no size where there are lanes
        apart = [(register, self.states * int(factor)) for register, factor in parts]
        return [(self.lane, 1), *apart], self.states * offset

    # ---- rounds of a loop as lanes -------------------------------------------------------------------------------

    @property
    def together(self) -> tuple[int, ...]:
        return TOGETHER if self.lanes.width == 1 else ()

    @contextmanager
    def rounds_as_lanes(self, counter: Register, width: int) -> Iterator[None]:
        states = self.lanes
        self.beside = counter
        self.lanes = self.writer.lanes = MachineLanes(width, states.real)
        yield
        self.beside = None
        self.lanes = self.writer.lanes = states

    @property
    def shares_together(self) -> Operand | None:
        """See :class:`Memory`: where one state is computed alone, of arrays without gaps."""
        alone = self.lanes.width == 1 and self.lane is None and self.beside is None
        return self.frame.plain if alone else None

    @contextmanager
    def rounds_on_rows(self, share: Register, left: Operand) -> Iterator[RoundRows]:
        states = self.lanes
        self.lanes = self.writer.lanes = MachineLanes(SHARES, states.real)
        self._rows = RoundRows(self, share, left)
        yield self._rows
        self._rows = None
        self.lanes = self.writer.lanes = states

    def place_of_one(self, address: Address, registers: Registers) -> Operand:
        """A pointer to a number of the one state that there is."""
        if address.buffer in self.frame.arrays:
            return self._place(address, registers)
        return self._flat(address, self.lanes.real, registers)

    @contextmanager
    def reading_once(self, loop: Loop, registers: Registers, width: int) -> Iterator[None]:
        """See :class:`Memory`: rounds write only where their counter leads."""
        with self.rounds_as_lanes(loop.counter, width):
            for block in every_block(loop.body):
                shared = [a for a in block.loads if all(index.register != loop.counter for index in a.indices)]
                self._shared |= {a: self._read_round(a, registers) for a in dict.fromkeys(shared)}
        yield
        self._shared = {}

    def _read_round(self, address: Address, registers: Registers) -> Operand:
        """A number of each round, or one number for all of them."""
        if address in self._shared:
            return self._shared[address]
        w, lanes = self.writer, self.lanes
        if any(index.register == self.beside for index in address.indices[:-1]):
            return self._gather(
                [self._flat(self._of_round(address, k), lanes.real, registers) for k in range(lanes.width)]
            )
        place = self._flat(address, lanes.real, registers)
        if address.indices[-1].register != self.beside:
            return w.splat(w.value(f"load {lanes.real}, ptr {place}"))
        if not self._is_apart(address):
            return w.value(f"load {lanes.number}, ptr {place}, align {lanes.bytes}")
        return self._gather(self._places_apart(place))

    def _of_round(self, address: Address, number: int) -> Address:
        """Where a round reads that comes so many after the first of those in hand."""
        later = [Index(i.register, i.offset + number) if i.register == self.beside else i for i in address.indices]
        return Address(address.buffer, tuple(later))

    def _gather(self, places: Sequence[Operand]) -> Operand:
        """A vector of numbers at some places."""
        w, lanes, vector = self.writer, self.lanes, "poison"
        for number, own in enumerate(places):
            value = w.value(f"load {lanes.real}, ptr {own}")
            vector = w.value(f"insertelement {lanes.number} {vector}, {lanes.real} {value}, i32 {number}")
        return vector

    def _write_round(self, address: Address, value: Operand, registers: Registers) -> None:
        w, lanes = self.writer, self.lanes
        place = self._flat(address, lanes.real, registers)
        if not self._is_apart(address):
            w.emit(f"store {lanes.number} {value}, ptr {place}, align {lanes.bytes}")
            return
        for number, own in enumerate(self._places_apart(place)):
            part = w.value(f"extractelement {lanes.number} {value}, i32 {number}")
            w.emit(f"store {lanes.real} {part}, ptr {own}")

    def _is_apart(self, address: Address) -> bool:
        """Whether other lanes have their numbers between those of neighbouring rounds."""
        return self.lane is not None and address.buffer not in self._sizes

    def _places_apart(self, place: Operand) -> list[Operand]:
        """Pointers to the numbers of neighbouring rounds, from that of the first, where other lanes are between."""
        return [self.element(place, self.lanes.real, number * self.states) for number in range(self.lanes.width)]

    # ---- rows as vectors -----------------------------------------------------------------------------------------

    def neighbours(self, address: Address) -> Place | None:
        """See :class:`Memory`: rows of work space and of tables, where one state is computed alone."""
        role, *inner = self.role[address.buffer], *address.indices
        if self.lanes.width > 1 or self.beside is not None or self.pitch[address.buffer] is not None or not inner:
            return None
        if address.buffer in self._mixed:
            return None
        if role != "table" and (role != "work" or self._is_apart(address)):
            return None
        *rows, last = inner
        return (address.buffer, *rows, last.register), last.offset

    def load_row(self, address: Address, registers: Registers) -> Operand:
        place, several = self._flat(address, self.lanes.real, registers), MachineLanes(WIDTH, self.lanes.real)
        return self.writer.value(f"load {several.number}, ptr {place}, align {self.lanes.bytes}")

    def store_row(self, address: Address, vector: Operand, registers: Registers, width: int = WIDTH) -> None:
        place, several = self._flat(address, self.lanes.real, registers), MachineLanes(width, self.lanes.real)
        self.writer.emit(f"store {several.number} {vector}, ptr {place}, align {self.lanes.bytes}")

    def fetch(self, buffer: str, row: Operand) -> None:
        whole = math.prod(size for size in self.shape[buffer][1:] if isinstance(size, int))
        start = Address(buffer, (Index("row"), *(Index(None) for _ in self.shape[buffer][1:])))
        place = self._flat(start, self.lanes.real, {"row": row})
        for number in range(0, whole, CACHE_LINE // self.lanes.bytes):
            line = self.element(place, self.lanes.real, number)
            self.writer.call(PREFETCH, f"ptr {line}, {_SOON}")

    # ---- rows that are copied ------------------------------------------------------------------------------------

    @contextmanager
    def copying_rows(self, loop: Loop, registers: Registers) -> Iterator[None]:
        """See :class:`Memory`: rows of a single state that fill a result are one row, if its array has no gaps."""
        copied = rows_copied(loop)
        if copied is None or self.lanes.width > 1 or self.lane is not None or not self._fills(loop, *copied):
            yield
            return
        w, (source, target, width) = self.writer, copied
        *_, between, within = self.frame.arrays[target.buffer].strides
        fits = [w.value(f"icmp eq i64 {within}, {self.lanes.bytes}")]
        fits.append(w.value(f"icmp eq i64 {between}, {width * self.lanes.bytes}"))
        fast, slow, join = w.label("whole"), w.label("row_by_row"), w.label("copied")
        w.emit(f"br i1 {w.value(f'and i1 {fits[0]}, {fits[1]}')}, label %{fast}, label %{slow}")
        w.start(fast)
        known = {**registers, loop.counter: "0"}
        numbers = int(self.shape[source.buffer][0]) * width
        start = self._flat(source, self.lanes.real, known)
        w.call("canonical", f"ptr {start}, ptr {self._place(target, known)}, i64 {numbers}")
        w.emit(f"br label %{join}")
        w.start(slow)
        yield
        w.emit(f"br label %{join}")
        w.start(join)

    def _fills(self, loop: Loop, source: Address, target: Address, width: int) -> bool:
        """Whether a loop copies all rows of a buffer of work space to all rows of a result."""
        whole = loop.count, width
        if not isinstance(loop.count, int) or loop.count * width < SHORTEST_VECTOR_RUN:
            return False
        roles = self.role[source.buffer], self.role[target.buffer]
        shapes = self.shape[source.buffer], self.shape[target.buffer][-2:]
        return roles == ("work", "output") and shapes == (whole, whole) and self.pitch[source.buffer] is None

    # ---- small things --------------------------------------------------------------------------------------------

    def count(self, dimension: str) -> Operand:
        return self.frame.dimensions[dimension]

    def lookup(self, address: Address, registers: Registers) -> Operand:
        if address.buffer in self.frame.arrays:
            return self.writer.value(f"load i64, ptr {self._place(address, registers)}")
        return self.writer.value(f"load i64, ptr {self._flat(address, 'i64', registers)}")

    def list_entry(self, name: str, number: Operand) -> str:
        pointer = self.frame.pointers[name]
        if self.lane is not None:
            before = self.writer.value(f"mul i64 {self.lane}, {self._sizes[name]}")
            number = self.writer.value(f"add i64 {before}, {number}")
        entry = self.lanes.number if self._rows is None else self.lanes.real
        return f"ptr {self.writer.value(f'getelementptr {entry}, ptr {pointer}, i64 {number}')}"

    def _flat(self, address: Address, element: str, registers: Registers) -> Operand:
        """A pointer into a buffer: registers first, so that the offset becomes part of an instruction."""
        w = self.writer
        parts, offset = self._of_lane(address.buffer, *self.flat_index(address, registers))
        if self._bases_in != w.block:
            self._bases_in, self._bases = w.block, {}
        key = address.buffer, element, tuple(parts)
        if key not in self._bases:
            pointer = self.frame.pointers[address.buffer]
            for register, factor in parts:
                moved = register if factor == 1 else w.value(f"mul i64 {register}, {factor}")
                pointer = w.value(f"getelementptr {element}, ptr {pointer}, i64 {moved}")
            self._bases[key] = pointer
        return self.element(self._bases[key], element, offset)

    def element(self, pointer: Operand, element: str, number: int) -> Operand:
        """A pointer to a number so many after another one."""
        if number == 0:
            return pointer
        return self.writer.value(f"getelementptr {element}, ptr {pointer}, i64 {number}")

    def _place(self, address: Address, registers: Registers) -> Operand:
        """A pointer to a number of the first state, or of the one that runs alone."""
        w, array = self.writer, self.frame.arrays[address.buffer]
        pointer = array.base
        if self.lane is not None:
            own = w.value(f"getelementptr i64, ptr {array.offsets}, i64 {self.lane}")
            pointer = w.value(f"getelementptr i8, ptr {pointer}, i64 {w.value(f'load i64, ptr {own}')}")
        for index, stride in zip(address.indices, array.strides, strict=True):
            if index.register is not None or index.offset:
                bytes_ = w.value(f"mul i64 {self.index(index, registers)}, {stride}")
                pointer = w.value(f"getelementptr i8, ptr {pointer}, i64 {bytes_}")
        return pointer

    def _of_lanes(self, array: Array, pointer: Operand) -> list[Operand]:
        """Pointers to the same number of all W states."""
        return lane_pointers(self.writer, pointer, array.offsets)

    # ---- reading -------------------------------------------------------------------------------------------------

    def prepare_loads(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        if self._rows is not None:
            return self._rows.readers(loads, registers)
        outside = [(i, a) for i, a in enumerate(loads) if a.buffer in self.frame.arrays]
        runs = list(runs_of(outside))
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

    def read(self, address: Address, registers: Registers) -> Operand:
        if address.buffer in self.frame.arrays:
            return super().read(address, registers)
        return self._read_flat(address, registers)

    def _read_flat(self, address: Address, registers: Registers) -> Operand:
        w, lanes = self.writer, self.lanes
        if self.beside is not None:
            return self._read_round(address, registers)
        if self.role[address.buffer] == "table":
            return w.splat(w.value(f"load {lanes.real}, ptr {self._flat(address, lanes.real, registers)}"))
        return w.value(f"load {lanes.number}, ptr {self._flat(address, lanes.number, registers)}")

    def _read_single(self, run: AddressRun, registers: Registers) -> Operand:
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

    def _read_runs(self, runs: list[AddressRun], registers: Registers) -> dict[int, Callable[[], Operand]]:
        """Bring runs into lane vectors; they are loaded from there where they are needed."""
        w, lanes = self.writer, self.lanes
        places = [self._place(run.address, registers) for run in runs]
        starts = [self.element(self.frame.staged_inputs, lanes.number, s) for s in starts_of(runs)]
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
            return lambda: w.value(f"load {lanes.number}, ptr {self.element(pointer, lanes.number, number)}")

        return {
            member: reader(start, number)
            for run, start in zip(runs, starts, strict=True)
            for number, member in enumerate(run.members)
        }

    def _many(self, runs: Sequence[AddressRun]) -> bool:
        """Whether the tiles of these runs are too many to be written out."""
        return sum(len(tiles(len(run.members), self.lanes.width)[1]) for run in runs) > MOST_TILES

    def _copy(self, function: str, run: AddressRun, place: Operand, start: Operand) -> None:
        """Call one of :func:`~whippletree.compiler.cpu.copies.copy_functions`."""
        array = self.frame.arrays[run.address.buffer]
        self.writer.call(
            function, f"ptr {start}, ptr {place}, ptr {array.offsets}, i64 {array.strides[-1]}, i64 {len(run.members)}"
        )

    def _transpose_in(self, run: AddressRun, place: Operand, start: Operand, by_call: bool) -> None:
        width = self.lanes.width
        columns, firsts = tiles(len(run.members), width)
        if by_call:
            self._copy(f"gather{width}x{columns}", run, place, start)
            return
        rows = self._of_lanes(self.frame.arrays[run.address.buffer], place)
        for first in firsts:
            tile_in(self.writer, rows, columns, first, start)

    # ---- blocks that only copy ----------------------------------------------------------------------------------

    def copy_block(self, block: Block, registers: Registers) -> bool:
        """See :class:`Memory`: from work space to results, by a list of places."""
        entries = entries_of(block, self._work_place) if self._is_whole(block) else None
        if entries is None:
            return False
        self.lists.append(
            write_listed(self.writer, self.frame, entries, block.stores, lambda a: self._place(a, registers))
        )
        return True

    def _is_whole(self, block: Block) -> bool:
        """Whether all lanes write rows of real numbers, none of them a number alone."""
        if self.mask is not None or self.lane is not None or self.beside is not None:
            return False
        real = all(a.buffer in self.frame.arrays and not self.frame.arrays[a.buffer].integer for a in block.stores)
        return real and all(len(run.members) > 1 for run in runs_of(enumerate(block.stores)))

    def _work_place(self, address: Address) -> int | None:
        """Where a number lies in work space, in lane vectors; None if it does not, or a register decides where."""
        start = self.frame.work_places.get(address.buffer)
        if start is None or address.buffer in self._sizes or any(i.register is not None for i in address.indices):
            return None
        return start + self.flat_index(address, {})[1]

    # ---- code that is too long -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """End a basic block that has become long: LLVM's schedulers take time with the square of its length.

        The branch is never taken, but LLVM cannot know that, so it cannot join the pieces again.
        """
        w = self.writer
        if self._long and len(w.lines) - w.block_start > LONGEST_BLOCK:
            going_on = w.label("more")
            w.emit(f"br i1 {self.frame.never}, label %finish, label %{going_on}")
            if self._bases_in == w.block:
                self._bases_in = going_on  # which comes after this block only, so that its pointers are known there
            w.start(going_on)

    # ---- loops that can be ended ---------------------------------------------------------------------------------

    def poll(self) -> None:
        """Leave the function if another thread has raised the flag of this call since it began."""
        w = self.writer
        flag = w.value(f"load volatile i64, ptr {w.value(f'getelementptr i64, ptr %data, i64 {STOP}')}")
        self.leave(w.value(f"icmp ne i64 {flag}, 0"))

    def leave(self, condition: Operand) -> None:
        w, going_on = self.writer, self.writer.label("going_on")
        w.emit(f"br i1 {condition}, label %finish, label %{going_on}, !prof !0")
        w.start(going_on)

    def call(self, call: Call) -> None:
        """A call as NumPy calls a loop: pointers to the arguments, the number of states, and strides in bytes."""
        w, size = self.writer, self.lanes.bytes
        pointers, steps, strides = [], [], []
        for name in (*call.inputs, *call.outputs):
            if name in self.frame.arrays:
                pointers.append(self.frame.arrays[name].base)
                steps.append("0")
                strides += self.frame.arrays[name].strides
            else:
                pointers.append(self.frame.pointers[name])
                steps.append(str(size))
                inner = [int(d) for d in self.shape[name][1:]]
                strides += [str(size * math.prod(inner[k:])) for k in range(len(inner))]
        if call.status is not None:
            status = w.stack(f"[{call.states} x i64]", 8)
            for state in range(call.states):
                # until it says otherwise: a function in Python may be interrupted before it begins
                w.emit(f"store i64 1, ptr {self.element(status, 'i64', state)}")
            pointers.append(status)
            steps.append("8")
        arguments = [self._on_stack("ptr", pointers), self._on_stack("i64", [str(call.states)])]
        arguments.append(self._on_stack("i64", [*steps, *strides]))
        loop, data = self.frame.calls[call.function]
        w.emit(f"call void {loop}({', '.join(f'ptr {x}' for x in (*arguments, data))})")
        for state in range(call.states if call.status is not None else 0):
            found = w.value(f"load i64, ptr {self.element(status, 'i64', state)}")
            place = self.element(self.frame.pointers[str(call.status)], self.lanes.real, state)
            w.emit(f"store {self.lanes.real} {w.value(f'sitofp i64 {found} to {self.lanes.real}')}, ptr {place}")

    def _on_stack(self, kind: str, values: Sequence[Operand]) -> Operand:
        """A pointer to some values, one after the other."""
        place = self.writer.stack(f"[{len(values)} x {kind}]", 8)
        for number, value in enumerate(values):
            self.writer.emit(f"store {kind} {value}, ptr {self.element(place, kind, number)}")
        return place

    def holds_still(self, address: Address) -> bool:
        """See :class:`Memory`: work space and tables, unless some lanes keep what they had there."""
        alone = self.lane is not None or self.beside is not None or self._rows is not None
        return self.role[address.buffer] in ("work", "table") and self.storing is None and not alone

    # ---- writing -------------------------------------------------------------------------------------------------

    def store(self, stores: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        w, lanes = self.writer, self.lanes
        if self._rows is not None:
            takers = self._rows.takers([address for address, _ in stores], registers)
            for address, value in stores:
                takers[address](value)
            return
        for address, value in stores:
            if self.beside is not None:
                self._write_round(address, value, registers)
            elif address.buffer in self.frame.arrays:
                self._write_single(address, value, registers)
            else:
                place = self._flat(address, lanes.number, registers)
                if self.storing is not None:
                    value = w.select(self.storing, value, w.value(f"load {lanes.number}, ptr {place}"))
                w.emit(f"store {lanes.number} {value}, ptr {place}")

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
            if self.mask is not None:
                # lanes beyond the last state are its aliases and decide as it does
                writes = w.value(f"extractelement {lanes.condition} {self.mask}, i32 {lane}")
                before = w.value(f"load {kind}, ptr {pointer}")
                part = w.value(f"select i1 {writes}, {kind} {part}, {kind} {before}")
            w.emit(f"store {kind} {part}, ptr {pointer}")

    def prepare_stores(self, stores: Sequence[Address], registers: Registers) -> Takers:
        self._results = None
        if self._rows is not None:
            return self._rows.takers(stores, registers)
        work = [a for a in stores if self.role[a.buffer] == "work"]
        takers: Takers = {a: lambda x, a=a: self.store([(a, x)], registers) for a in work}  # type: ignore[misc]
        if self.mask is not None or self.lane is not None:
            return takers  # results go number by number: some lanes keep what they have, or take no part
        runs = [
            run
            for run in runs_of((i, a) for i, a in enumerate(stores) if self.role[a.buffer] == "output")
            if len(run.members) > 1 and not self.frame.arrays[run.address.buffer].integer
        ]
        self._results = Results(self.writer, self.frame, runs, lambda address: self._place(address, registers))
        return takers | {stores[number]: taker for number, taker in self._results.takers().items()}

    def finish_stores(self) -> None:
        if self._results is not None:
            self._results.finish()
