"""Where the numbers of a GPU thread live.

input, output   global memory, any strides
work            local memory, where the hardware interleaves the threads; or global memory, interleaved here
table, index    global memory, the same for all threads
put aside       shared memory, see :mod:`~whippletree.compiler.llvm.spill_plan`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whippletree.arithmetic.trace import Node
from whippletree.compiler.cuda.listed_matrices import MatrixPlace, matrices_of, write_matrices
from whippletree.compiler.llvm.copied_results import entries_of
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.spill_plan import SpillStep, plan
from whippletree.compiler.llvm.straight_line import SpillPlacement
from whippletree.compiler.llvm.target_memory import Memory, Registers
from whippletree.compiler.program import Address, Block, Buffer, Program

WARP = 32
"""Threads that run together."""

ASIDE = "whippletree_aside"
"""Name of a block's shared memory."""

LISTED = "whippletree_listed_"
"""Name of the list of a matrix, and of those that follow it, before its number among the outputs."""

WAITING, RESULTS = "inputs in shared memory", "results in shared memory"
"""Buffers whose numbers are in slots of shared memory, see :mod:`~whippletree.compiler.cuda.staging`."""


def pitch(threads: int) -> int:
    """Numbers from slot to slot of a thread: neither neighbouring threads nor neighbouring slots share a bank."""
    return threads + 1


class GpuArray:
    """An input or output, as operands of the emitted code."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.base: Operand = ""
        self.strides: list[Operand] = []


class Aside(SpillPlacement):
    """Values in shared memory: slot after slot, each for all threads of the block: neighbours use neighbours.

    The inputs of a block whose numbers are below ``waiting`` are in the slots of their numbers from the start; the
    values of the nodes ``results`` are in the first slots in the end.
    """

    def __init__(self, writer: Writer, threads: int, keep: int, room: int) -> None:
        self.writer = writer
        self.pitch = pitch(threads)
        self.keep = keep
        self.room = room
        self.slots = 0
        self.waiting = 0
        self.results: Sequence[int] = ()
        self.far: Operand = ""  # the first far slot, in local memory
        self.own: Operand = ""

    def begin(self, thread: Operand) -> None:
        """Emit the address of this thread's slot 0."""
        real = self.writer.lanes.real
        self.own = self.writer.value(f"getelementptr {real}, ptr addrspace(3) @{ASIDE}, i32 {thread}")

    def steps(self, nodes: Sequence[Node], order: Sequence[int]) -> Sequence[SpillStep]:
        found = plan(nodes, order, self.keep if self.room else len(nodes), self.room, self.waiting, self.results)
        self.slots = max(self.slots, min(found.slots, self.room))
        if found.slots > self.room > 0:
            self.far = self.writer.stack(f"[{found.slots - self.room} x {self.writer.lanes.real}]", 16)
        return found.steps

    # far slots are volatile: an assembler that took them for registers would put them aside in its own way

    def put(self, slot: int, value: Operand) -> None:
        real = self.writer.lanes.real
        if slot < self.room:
            self.writer.emit(f"store {real} {value}, ptr addrspace(3) {self.slot(slot)}")
        else:
            self.writer.emit(f"store volatile {real} {value}, ptr {self._far_slot(slot)}")

    def take(self, slot: int) -> Operand:
        real = self.writer.lanes.real
        if slot < self.room:
            return self.writer.value(f"load {real}, ptr addrspace(3) {self.slot(slot)}")
        return self.writer.value(f"load volatile {real}, ptr {self._far_slot(slot)}")

    def _far_slot(self, slot: int) -> Operand:
        return self.writer.value(f"getelementptr {self.writer.lanes.real}, ptr {self.far}, i32 {slot - self.room}")

    def slot(self, number: int) -> Operand:
        """The address of a slot of this thread."""
        return self.beyond(self.own, number)

    def beyond(self, place: Operand, slots: int) -> Operand:
        """The address so many slots further on."""
        real = self.writer.lanes.real
        return self.writer.value(f"getelementptr {real}, ptr addrspace(3) {place}, i32 {slots * self.pitch}")


class GpuMemory(Memory):
    """Where the numbers of one thread live."""

    def __init__(
        self,
        program: Program,
        writer: Writer,
        arrays: dict[str, GpuArray],
        thread: Operand,
        in_global: bool,
        aside: Aside,
    ) -> None:
        super().__init__(program, writer)
        self.placement = self.aside = aside
        self.arrays = arrays
        self.real = writer.lanes.real
        self.in_global = in_global
        self.pointers = {b.name: f"%table{number}" for number, b in enumerate(program.of_role("table", "index"))}
        self.lists: list[str] = []
        """Tables that the module has to define."""
        self.first: dict[str, int] = {}
        place = 0
        for b in program.of_role("work"):
            if b.name in (WAITING, RESULTS):
                continue
            self.first[b.name] = place
            place += b.size
        self.local = writer.stack(f"[{place} x {self.real}]", 16) if place and not in_global else ""
        self.work = self._own_work(thread, place) if place and in_global else ""

    def _own_work(self, thread: Operand, size: int) -> Operand:
        """Where this thread's numbers begin in global work space: number after number, each for the whole warp."""
        w = self.writer
        warp, lane = (w.value(f"{o} i64 {thread}, {n}") for o, n in (("lshr", 5), ("and", WARP - 1)))
        first = w.value(f"add i64 {w.value(f'mul i64 {warp}, {size * WARP}')}, {lane}")
        return w.value(f"getelementptr {self.real}, ptr addrspace(1) %work, i64 {first}")

    def count(self, dimension: str) -> Operand:
        return f"%size.{dimension}"

    def lookup(self, address: Address, registers: Registers) -> Operand:
        place = self.number(address, registers)
        pointer = self.writer.value(f"getelementptr i64, ptr addrspace(1) {self.pointers[address.buffer]}, i64 {place}")
        return self.writer.value(f"load i64, ptr addrspace(1) {pointer}, !invariant.load !1")

    def prepare_loads(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        """Nothing is read before it is needed: what is not read yet takes no register."""

        def read(number: int) -> Operand:
            address = loads[number]
            if address.buffer == WAITING:
                return self.aside.take(address.indices[0].offset)
            # inputs and tables do not change while the kernel runs; work space and outputs may
            constant = ", !invariant.load !1" if self.role[address.buffer] in ("input", "table") else ""
            return self.writer.value(f"load {self.real}, {self.place(address, registers)}{constant}")

        return read

    def copy_block(self, block: Block, registers: Registers) -> bool:
        """See :class:`Memory`: from work space to matrices, by a list of places."""
        entries = entries_of(block, self._fixed_place)
        outputs = self.program.of_role("output")
        matrices = matrices_of(block, outputs)
        if entries is None or matrices is None:
            return False
        arrays = [self.arrays[matrix.name] for matrix in matrices]
        places = [(array.buffer, MatrixPlace(array.base, array.strides)) for array in arrays]
        name = f"{LISTED}{outputs.index(matrices[0])}"
        self.lists.append(write_matrices(self.writer, name, places, entries, self.work_place))
        return True

    def _fixed_place(self, address: Address) -> int | None:
        """The place of a number among those of work space; None if it is not there, or a register decides where."""
        if address.buffer not in self.first or any(index.register is not None for index in address.indices):
            return None
        return self.first[address.buffer] + self.flat_index(address, {})[1]

    def store(self, stores: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        w = self.writer
        for address, value in stores:
            if address.buffer == RESULTS:
                continue  # the plan has put it there
            if self.role[address.buffer] == "output" and self.arrays[address.buffer].buffer.integer:
                w.emit(f"store i64 {w.to_integer(value)}, {self.place(address, registers)}")
            else:
                w.emit(f"store {self.real} {value}, {self.place(address, registers)}")

    def place(self, address: Address, registers: Registers) -> str:
        """A typed pointer to a number of this thread's state."""
        role = self.role[address.buffer]
        if role in ("input", "output"):
            return f"ptr addrspace(1) {self.in_array(address, registers)}"
        number = self.number(address, registers)
        if role == "work":
            return self.in_work(address.buffer, number)
        base = self.pointers[address.buffer]
        return (
            f"ptr addrspace(1) {self.writer.value(f'getelementptr {self.real}, ptr addrspace(1) {base}, i64 {number}')}"
        )

    def number(self, address: Address, registers: Registers) -> Operand:
        """The place of a number in a buffer of fixed size, i64."""
        w = self.writer
        if len(address.indices) == 1:
            return self.index(address.indices[0], registers)
        parts, offset = self.flat_index(address, registers)
        total = str(offset)
        for register, factor in parts:
            total = w.value(f"add i64 {total}, {w.value(f'mul i64 {register}, {factor}')}")
        return total

    def in_work(self, name: str, number: Operand) -> str:
        """A typed pointer to a number of a buffer of work space."""
        return self.work_place(self.writer.value(f"add i64 {number}, {self.first[name]}"))

    def work_place(self, number: Operand) -> str:
        """A typed pointer to a number of work space."""
        w = self.writer
        if not self.in_global:
            return f"ptr {w.value(f'getelementptr {self.real}, ptr {self.local}, i64 {number}')}"
        number = w.value(f"mul i64 {number}, {WARP}")
        return f"ptr addrspace(1) {w.value(f'getelementptr {self.real}, ptr addrspace(1) {self.work}, i64 {number}')}"

    def list_entry(self, name: str, number: Operand) -> str:
        return self.in_work(name, number)

    def in_array(self, address: Address, registers: Registers) -> Operand:
        w, array = self.writer, self.arrays[address.buffer]
        pointer = array.base
        for index, stride in zip(address.indices, array.strides, strict=True):
            if index.register is not None or index.offset:
                moved = w.value(f"mul i64 {self.index(index, registers)}, {stride}")
                pointer = w.value(f"getelementptr i8, ptr addrspace(1) {pointer}, i64 {moved}")
        return pointer
