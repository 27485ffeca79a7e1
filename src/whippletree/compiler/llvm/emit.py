"""From a kernel program to instructions, for any target: blocks, loops, switches and lookups.

What differs between targets is where numbers live and how they are reached. That is the :class:`Memory` that a target
supplies; a new target is one file with its own Memory and its own frame around the body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.straight_line import Placement, emit_straight
from whippletree.compiler.program import (
    Address,
    Block,
    Dimension,
    Index,
    Lookup,
    Loop,
    Program,
    Register,
    Statement,
    Switch,
)

Registers = Mapping[Register, Operand]
"""The integer registers that are known at a place of the program, as i64 operands."""

Takers = dict[Address, Callable[[Operand], None]]
"""Places that take a number as soon as it is known."""


class Memory(ABC):
    """How a target reads and writes the buffers of a program."""

    placement: Placement | None = None
    """How values are kept between their uses, where registers are few. Outputs are then stored once they are known."""

    def __init__(self, program: Program, writer: Writer) -> None:
        self.program = program
        self.writer = writer
        self.role = {buffer.name: buffer.role for buffer in program.buffers}

    @abstractmethod
    def prepare_loads(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        """Make the numbers at these addresses readable; the function returned reads one of them."""

    @abstractmethod
    def store(self, stores: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        """Write numbers; the addresses are distinct."""

    def prepare_stores(self, stores: Sequence[Address], registers: Registers) -> Takers:
        """Where a number can be put as soon as it is known, so that it need not be kept until the end of the block.

        The takers see to what :meth:`seen` says.
        """
        if self.placement is None:
            return {}
        return {a: lambda x, a=a: self.store([(a, self.seen(a, x))], registers) for a in stores}  # type: ignore[misc]

    def seen(self, address: Address, value: Operand) -> Operand:
        """What is stored of a value: a caller sees one bit pattern for NaN; inside, nothing depends on it."""
        return self.writer.canonical(value) if self.role[address.buffer] == "output" else value

    def finish_stores(self) -> None:
        """The end of a block: complete what :meth:`prepare_stores` began."""
        return

    def pause(self) -> None:
        """Somewhere within a block: a target may begin a new basic block here."""
        return

    def poll(self) -> None:
        """The beginning of a round of a loop whose length the call decides: a target may let it end here."""
        return

    @abstractmethod
    def lookup(self, address: Address, registers: Registers) -> Operand:
        """Read an integer of an index buffer, as i64."""

    @abstractmethod
    def count(self, dimension: str) -> Operand:
        """The size of a named dimension in this call, as i64."""

    def index(self, index: Index, registers: Registers) -> Operand:
        """register + offset, as i64."""
        if index.register is None:
            return str(index.offset)
        if index.offset == 0:
            return registers[index.register]
        return self.writer.value(f"add i64 {registers[index.register]}, {index.offset}")


def emit_body(program: Program, writer: Writer, memory: Memory) -> None:
    """Emit the statements of the program at the writer's current place; control flow leaves at its new place."""
    _Body(writer, memory).statements(program.body, {})


class _Body:
    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory

    def statements(self, statements: Sequence[Statement], registers: Registers) -> None:
        known = dict(registers)
        for statement in statements:
            match statement:
                case Block():
                    self.block(statement, known)
                case Lookup():
                    known[statement.register] = self.memory.lookup(statement.address, known)
                case Loop():
                    self.loop(statement, known)
                case Switch():
                    self.switch(statement, known)

    def block(self, block: Block, registers: Registers) -> None:
        used = sorted({node[1] for node in block.code.nodes if node[0] == "input"})
        read = self.memory.prepare_loads([block.loads[i] for i in used], registers)
        place = {number: i for i, number in enumerate(used)}
        # buffers that the block does not read itself may be written before its end
        loaded = {address.buffer for address in block.loads}
        free = [a for a in block.stores if a.buffer not in loaded]
        early = self.memory.prepare_stores(free, registers)
        waiting: dict[int, list[Address]] = {}
        for address, output in zip(block.stores, block.code.outputs, strict=True):
            if address not in early:
                continue
            if isinstance(output, int):
                waiting.setdefault(output, []).append(address)
            else:
                early[address](self.writer.constant(output))

        def ready(node: int, value: Operand) -> None:
            for address in waiting[node]:
                early[address](value)

        results = emit_straight(
            self.writer,
            block.code,
            lambda number: read(place[number]),
            self.memory.placement,
            ready,
            waiting,
            self.memory.pause,
        )
        rest = [(a, x) for a, x in zip(block.stores, results, strict=True) if a not in early]
        self.store(rest, registers)
        self.memory.finish_stores()

    def store(self, pairs: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        self.memory.store([(a, self.memory.seen(a, x)) for a, x in pairs], registers)

    def loop(self, loop: Loop, registers: Registers) -> None:
        w = self.writer
        count = self.count(loop.count)
        before, head, body, end = w.block, w.label("loop"), w.label("body"), w.label("end")
        w.emit(f"br label %{head}")
        w.start(head)
        step, after = w.fresh(), w.fresh()
        latch = w.label("latch")
        w.emit(f"{step} = phi i64 [ 0, %{before} ], [ {after}, %{latch} ]")
        more = w.value(f"icmp slt i64 {step}, {count}")
        w.emit(f"br i1 {more}, label %{body}, label %{end}")
        w.start(body)
        if isinstance(loop.count, str):
            self.memory.poll()
        counter = step
        if loop.backwards:
            counter = w.value(f"sub i64 {w.value(f'sub i64 {count}, 1')}, {step}")
        self.statements(loop.body, {**registers, loop.counter: counter})
        w.emit(f"br label %{latch}")
        w.start(latch)
        w.emit(f"{after} = add i64 {step}, 1")
        w.emit(f"br label %{head}")
        w.start(end)

    def count(self, dimension: Dimension) -> Operand:
        return str(dimension) if isinstance(dimension, int) else self.memory.count(dimension)

    def switch(self, switch: Switch, registers: Registers) -> None:
        w = self.writer
        labels = [w.label("case") for _ in switch.cases]
        impossible, end = w.label("impossible"), w.label("join")
        table = " ".join(f"i64 {number}, label %{label}" for number, label in enumerate(labels))
        w.emit(f"switch i64 {registers[switch.register]}, label %{impossible} [ {table} ]")
        for label, case in zip(labels, switch.cases, strict=True):
            w.start(label)
            self.statements(case, registers)
            w.emit(f"br label %{end}")
        # the bounds check has proved that the register holds the number of a case
        w.start(impossible)
        w.emit("unreachable")
        w.start(end)
