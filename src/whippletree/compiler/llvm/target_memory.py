"""Where a target keeps the numbers of a program: the interface by which statements read and write them.

A target supplies a :class:`Memory` of its own, and the frame around the body that
:func:`whippletree.compiler.llvm.emit.emit_body` writes with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.packs import WIDTH, Place
from whippletree.compiler.llvm.straight_line import SpillPlacement
from whippletree.compiler.program import Address, Block, Call, Index, Loop, Program, Register

Registers = Mapping[Register, Operand]
"""The integer registers that are known at a place of the program, as i64 operands."""

Factor: TypeAlias = int | Operand
"""Numbers from one place along a dimension to the next: known, or of the call."""

Takers = dict[Address, Callable[[Operand], None]]
"""Places that take a number as soon as it is known."""


class RegistersOfRounds(Protocol):
    """Registers in which rounds differ that are lanes."""

    def keep(self, register: Register, numbers: Operand) -> None:
        """What the rounds have in a register, a vector of i64."""

    def repeat_first(self, numbers: Operand) -> Operand:
        """Such a vector, with the number of the first round in lanes beyond the last."""

    def registers_of(self, round_: int, wanted: Collection[Register | None]) -> dict[Register, Operand]:
        """What a round has in those of some registers in which rounds differ."""


class Memory(ABC):
    """How a target reads and writes the buffers of a program."""

    placement: SpillPlacement | None = None
    """How values are kept between their uses, where registers are few. Outputs are then stored once they are known."""

    def __init__(self, program: Program, writer: Writer) -> None:
        self.program = program
        self.writer = writer
        self.role = {buffer.name: buffer.role for buffer in program.buffers}
        self.shape = {buffer.name: buffer.shape for buffer in program.buffers}
        self.pitch = {buffer.name: buffer.pitch for buffer in program.buffers}
        self._known_factors: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        self.mask: Operand | None = None
        """The lanes in hand, where not all of them are; never set where there is one lane. They decide what is run."""
        self.storing: Operand | None = None
        """The lanes that store in work space, where not all do: those in hand, and those that run along with them."""
        self.beside: Register | None = None
        """The counter of the loop whose rounds are the lanes here, see :class:`~whippletree.compiler.program.Loop`."""

        self._products: dict[tuple[str, int, tuple[str, ...]], Operand] = {}
        """Of sizes that the call decides, as each basic block has worked them out."""
        self.states = 1
        """How many lanes the target works on."""
        self.lane: Operand | None = None
        """The number of the lane (i64) that runs alone here, of those that the target works on; None: all at once."""

    @contextmanager
    def one_lane(self, lane: Operand) -> Iterator[None]:
        """Around statements that one lane runs alone."""
        raise NotImplementedError

    @property
    def together(self) -> tuple[int, ...]:
        """How many rounds of a loop with rounds side by side the target computes at once, and how many of what is left
        over then; nothing where it computes one after the other."""
        return ()

    @contextmanager
    def rounds_as_lanes(self, counter: Register, width: int) -> Iterator[None]:
        """Around blocks in which the lanes of a number are so many rounds of a loop, and no longer states."""
        raise NotImplementedError

    @property
    def shares_together(self) -> Operand | None:
        """Whether a target computes as many rounds on rows at once as there are shares: a condition (i1) of the call,
        or None where it never does."""
        return None

    @contextmanager
    def rounds_on_rows(self, share: Register, left: Operand) -> Iterator[RegistersOfRounds]:
        """Around blocks in which the lanes of a number are so many rounds on rows: yields what knows the registers in
        which these differ. ``left``: rounds (i64) that are left; lanes beyond them repeat another one."""
        raise NotImplementedError

    @contextmanager
    def reading_once(self, loop: Loop, registers: Registers, width: int) -> Iterator[None]:
        """Around the rounds of a loop side by side: what all of them share may be read before the first."""
        yield

    @contextmanager
    def copying_rows(self, loop: Loop, registers: Registers) -> Iterator[None]:
        """Around a loop: if all that it does is to copy rows, a target may do that in a better way where it can."""
        yield

    def copy_block(self, block: Block, registers: Registers) -> bool:
        """Whether a target has done what a block says, which only copies numbers, in a better way."""
        return False

    @abstractmethod
    def prepare_loads(self, loads: Sequence[Address], registers: Registers) -> Callable[[int], Operand]:
        """Make the numbers at these addresses readable; the function returned reads one of them."""

    def read(self, address: Address, registers: Registers) -> Operand:
        """Read one number."""
        return self.prepare_loads([address], registers)(0)

    @abstractmethod
    def store(self, stores: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        """Write numbers; the addresses are distinct."""

    def prepare_stores(self, stores: Sequence[Address], registers: Registers) -> Takers:
        """Where a number can be put as soon as it is known, so that it need not be kept until the end of the block.

        The takers see to what :meth:`stored_form` says.
        """
        if self.placement is None:
            return {}
        return {a: lambda x, a=a: self.store([(a, self.stored_form(a, x))], registers) for a in stores}  # type: ignore[misc]

    def holds_still(self, address: Address) -> bool:
        """Whether a number can be read again at little cost, with the bits that it had in a register."""
        return False

    def neighbours(self, address: Address) -> Place | None:
        """The row of memory that a number lies in, and how far along it, where a vector can hold its neighbours."""
        return None

    def load_row(self, address: Address, registers: Registers) -> Operand:
        """Read a vector of neighbours, the first of which is at an address."""
        raise NotImplementedError

    def store_row(self, address: Address, vector: Operand, registers: Registers, width: int = WIDTH) -> None:
        """Write a vector of neighbours, the first of which goes to an address."""
        raise NotImplementedError

    def fetch(self, buffer: str, row: Operand) -> None:
        """A hint that a row of a buffer will be read soon; a target may do nothing about it."""
        return

    def stored_form(self, address: Address, value: Operand) -> Operand:
        """Stored form of a value: a caller sees one bit pattern for NaN; inside, nothing depends on it."""
        return self.writer.canonical(value) if self.role[address.buffer] == "output" else value

    def finish_stores(self) -> None:
        """The end of a block: complete what :meth:`prepare_stores` began."""
        return

    def pause(self) -> None:
        """Somewhere within a block: a target may begin a new basic block here."""
        return

    def poll(self) -> None:
        """The beginning of a round of a loop whose length the call decides, or of an iteration over what the call
        decides the size of: a target may let it end here."""
        return

    def leave(self, condition: Operand) -> None:
        """End the call if a condition (i1) holds. Only programs that work on one state at a time ask for it."""
        raise NotImplementedError

    def call(self, call: Call) -> None:
        """Run a compiled function on states of the work space. Only programs that work on one state ask for it."""
        raise NotImplementedError

    @abstractmethod
    def lookup(self, address: Address, registers: Registers) -> Operand:
        """Read an integer of an index buffer or of an integer input, as i64."""

    @abstractmethod
    def count(self, dimension: str) -> Operand:
        """The size of a named dimension in this call, as i64."""

    @abstractmethod
    def list_entry(self, name: str, number: Operand) -> str:
        """A typed pointer to an entry of a list: an integer as wide as a real; of a vector, two side by side."""

    def flat_index(self, address: Address, registers: Registers) -> tuple[list[tuple[Operand, Factor]], int]:
        """Where a number is in a buffer, row by row: registers with factors, and an offset."""
        found: list[tuple[Operand, Factor]] = []
        offset = 0
        for index, (factor, sizes) in zip(reversed(address.indices), self._factors(address.buffer), strict=True):
            if index.register is not None:
                found.append((registers[index.register], self._product(factor, sizes)))
            offset += factor * index.offset  # which is 0 where the call decides a dimension
        return found, offset

    def _factors(self, buffer: str) -> list[tuple[int, tuple[str, ...]]]:
        """Numbers from one place of a buffer to the next, for each of its dimensions, the last one first: a number, to
        be multiplied by the sizes of dimensions that the call decides."""
        known = self._known_factors.get(buffer)
        if known is None:
            known, factor = [], 1
            sizes: tuple[str, ...] = ()
            for size in reversed(self.shape[buffer]):
                known.append((factor, sizes))
                if isinstance(size, int):
                    factor *= size
                else:
                    sizes = (*sizes, size)
            pitch = self.pitch[buffer]
            if known and pitch is not None:
                known[-1] = pitch, known[-1][1]
            self._known_factors[buffer] = known
        return known

    def _product(self, factor: int, sizes: Sequence[str]) -> Factor:
        """A number times the sizes of dimensions that the call decides."""
        if not sizes:
            return factor
        key = self.writer.block, factor, tuple(sizes)
        if key not in self._products:
            before = self._product(factor, sizes[:-1])
            self._products[key] = self.writer.value(f"mul i64 {self.count(sizes[-1])}, {before}")
        return self._products[key]

    def index(self, index: Index, registers: Registers) -> Operand:
        """register + offset, as i64."""
        if index.register is None:
            return str(index.offset)
        if index.offset == 0:
            return registers[index.register]
        return self.writer.value(f"add i64 {registers[index.register]}, {index.offset}")
