"""Two limbs on two threads: a pair of neighbours works on one state, each on the limb of its own.

A program with loops over two limbs (:mod:`~whippletree.compiler.program.folding`) becomes one block without loops. Both
threads do what stands outside of loops, with the same bits; in a loop each does the round of its own number. What
rounds leave to later rounds stays in registers, where a loop needs an address that counts. What a limb leaves to the
rest, both get from the thread that has it, by a shuffle within the warp: fifty numbers of a humanoid's forward
dynamics, each from either side. A thread so has 0.56 of the operations, and little more than half of the numbers.

Beside the operations of every block, such a block has five of its own (:data:`FIRST` to :data:`CHOOSE`). Numbers of
inputs, results and tables may be others for the two threads, at a distance that the register :func:`beyond` stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from whippletree.arithmetic.trace import Node, Straight
from whippletree.arithmetic.trace.passes import live
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.program import Address, Block, Index, Loop, Program, Register, Statement

FIRST, SECOND, OTHER, MIRROR, CHOOSE = "first", "second", "other", "mirror", "choose"
"""The number of the first thread, of the second, and of the other one of the two; a number with its sign changed in the
second thread; one number in the first thread and another one in the second."""

PAIR = 2
"""Threads of a state."""

SHUFFLE = "llvm.nvvm.shfl.sync.idx.i32"
"""What hands a number from thread to thread of a warp."""

HALVES, FROM_HALVES = ("llvm.nvvm.d2i.lo", "llvm.nvvm.d2i.hi"), "llvm.nvvm.lohi.i2d"
"""What takes a float64 apart and puts it together again: shuffles are of four bytes."""

Place: TypeAlias = tuple[str, tuple[Index, ...]]
"""A place of work space, or one in each limb, of which the index that counts limbs is left out."""


def beyond(distance: int) -> Register:
    """The register that is 0 in the first thread of a pair and this number in the second."""
    return f"second thread: {distance}"


@dataclass(frozen=True)
class PairedProgram:
    """A program for pairs of threads, and the distances whose registers it uses."""

    program: Program
    distances: tuple[int, ...]


def pair_program(program: Program) -> PairedProgram | None:
    """A program with loops over two limbs for pairs of threads; None if it is anything else."""
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    blocks = [_only_block(statement) for statement in program.body]
    if not loops or len({loop.counter for loop in loops}) > 1 or not all(map(_is_apart, loops)):
        return None
    known = [block for block in blocks if block is not None]
    return _Pairing(program, loops[0].counter).pair(known) if len(known) == len(blocks) else None


def _only_block(statement: Statement) -> Block | None:
    """A block, or the one in a loop; None for anything else."""
    inner = statement.body[0] if isinstance(statement, Loop) and len(statement.body) == 1 else statement
    return inner if isinstance(inner, Block) else None


def _is_apart(loop: Loop) -> bool:
    """Whether a loop is over two limbs, each of which leaves its own numbers and reads none that the other leaves."""
    block = _only_block(loop)
    if block is None or loop.count != PAIR:
        return False
    left = {(address.buffer, *_without(address, k)) for address in block.stores for k in _counting(address, loop)}
    fixed = (address for address in block.loads if not _counting(address, loop))
    reads_others = any((a.buffer, *_without(a, k)) in left for a in fixed for k in range(len(a.indices)))
    return all(_counting(address, loop) for address in block.stores) and not reads_others


def _counting(address: Address, loop: Loop) -> list[int]:
    """Which of the indices of an address count limbs."""
    return [k for k, index in enumerate(address.indices) if index.register == loop.counter]


def _without(address: Address, place: int) -> tuple[int, tuple[Index, ...]]:
    """The indices of an address but for that at a place, and the place."""
    return place, (*address.indices[:place], *address.indices[place + 1 :])


@dataclass
class _Limbs:
    """What is known of a place of two limbs: the number of each thread's own, or the numbers of both."""

    own: int | None = None
    both: dict[int, int] = field(default_factory=dict)


class _Pairing:
    """Follows the program, with nodes for the numbers that lie in work space."""

    def __init__(self, program: Program, counter: Register) -> None:
        self.program = program
        self.counter = counter
        self.work = {buffer.name for buffer in program.of_role("work")}
        self.nodes: list[Node] = []
        self.numbers: dict[Node, int] = {}
        self.loads: dict[Address, int] = {}
        self.alone: dict[Place, int] = {}
        self.limbs: dict[Place, _Limbs] = {}
        self.counted = self._counted()
        self.results: dict[Address, int | float] = {}
        self.distances: dict[int, None] = {}

    def _counted(self) -> dict[str, int]:
        """Which dimension of each buffer of work space counts limbs."""
        addresses = (a for loop in self.program.body if isinstance(loop, Loop) for a in _addresses(loop.body))
        return {
            address.buffer: place
            for address in addresses
            for place, index in enumerate(address.indices)
            if address.buffer in self.work and index.register == self.counter
        }

    def pair(self, blocks: Sequence[Block]) -> PairedProgram:
        for block in blocks:
            self.follow(block)
        stores = self._results_of_pairs()
        code = live(Straight(self.nodes, list(stores.values())))
        body = Block(code, tuple(self.loads), tuple(stores))
        kept = tuple(buffer for buffer in self.program.buffers if buffer.name not in self.work)
        return PairedProgram(replace(self.program, buffers=kept, body=(body,)), tuple(self.distances))

    def follow(self, block: Block) -> None:
        known: list[int] = []
        for node in block.code.nodes:
            match node[0]:
                case "input":
                    known.append(self.read(block.loads[node[1]]))
                case "const":
                    known.append(self.node(node))
                case operation:
                    known.append(self.operation(operation, [known[i] for i in node[1:]]))
        for address, output in zip(block.stores, block.code.outputs, strict=True):
            if address.buffer in self.work:
                self.store(address, known[output] if isinstance(output, int) else self.node(("const", output)))
            else:
                self.results[address] = known[output] if isinstance(output, int) else output

    def node(self, node: Node) -> int:
        """The number of a node, new or met before."""
        found = self.numbers.setdefault(node, len(self.nodes))
        if found == len(self.nodes):
            self.nodes.append(node)
        return found

    def operation(self, operation: str, operands: list[int]) -> int:
        """The node of an operation. A sum or a product of the numbers of both limbs takes one of them to each thread:
        there either thread has its own, and the order of two makes no difference."""
        kinds = {self.nodes[i][0]: self.nodes[i][-1] for i in operands}
        if operation in ("add", "mul") and kinds.keys() == {FIRST, SECOND} and len(set(kinds.values())) == 1:
            own = kinds[FIRST]
            operands = [own, self.node((OTHER, own))]
        return self.node((operation, *operands))

    def load(self, address: Address) -> int:
        """The node that reads a number of an input or a table."""
        return self.node(("input", self.loads.setdefault(address, len(self.loads))))

    # ---- work space ----------------------------------------------------------------------------------------------

    def _place(self, address: Address) -> tuple[Place, Index | None]:
        """A place, and which limb's it is."""
        counted = self.counted.get(address.buffer)
        if counted is None:
            return (address.buffer, address.indices), None
        indices = list(address.indices)
        limb = indices.pop(counted)
        return (address.buffer, tuple(indices)), limb

    def store(self, address: Address, value: int) -> None:
        place, limb = self._place(address)
        if limb is None:
            self.alone[place] = value
        elif limb.register is not None:
            self.limbs[place] = _Limbs(value)
        else:
            known = self.limbs.setdefault(place, _Limbs())
            if known.own is not None:
                known.both.setdefault(1 - limb.offset, self._of_limb(known.own, 1 - limb.offset))
                known.own = None
            known.both[limb.offset] = value

    def read(self, address: Address) -> int:
        if address.buffer not in self.work:
            return self._read_array(address)
        place, limb = self._place(address)
        if limb is None:
            return self.alone[place]
        found = self.limbs[place]
        if limb.register is None:
            if limb.offset not in found.both:
                assert found.own is not None
                found.both[limb.offset] = self._of_limb(found.own, limb.offset)
            return found.both[limb.offset]
        if found.own is None:
            found.own = self._own_of(found.both[0], found.both[1])
        return found.own

    def _of_limb(self, own: int, limb: int) -> int:
        """The number of one limb, in both threads."""
        return self.node(((FIRST, SECOND)[limb], own))

    def _read_array(self, address: Address) -> int:
        """A number of an input or a table; in loops, of a line for each limb."""
        indices = [i if i.register is None else self._moved(i.offset, 1) for i in address.indices]
        return self.load(Address(address.buffer, tuple(indices)))

    def _moved(self, offset: int, distance: int) -> Index:
        self.distances[distance] = None
        return Index(beyond(distance), offset)

    def _own_of(self, first: int, second: int) -> int:
        """What is one number in the first thread and another one in the second."""
        if first == second:
            return first
        (one, a), (other, b) = self._unsigned(first), self._unsigned(second)
        addresses = list(self.loads)
        if self.nodes[one][0] == self.nodes[other][0] == "input":
            moved = self._between(addresses[self.nodes[one][1]], addresses[self.nodes[other][1]])
            if moved is not None:
                return self._with_signs(self.load(moved), a, b)
        return self.node((CHOOSE, first, second))

    def _between(self, one: Address, other: Address) -> Address | None:
        """The address that is one of these in each thread, of numbers of one vector."""
        if one.buffer != other.buffer or len(one.indices) != 1 or one.indices[0].register or other.indices[0].register:
            return None
        first, second = one.indices[0].offset, other.indices[0].offset
        return Address(one.buffer, (self._moved(first, second - first),))

    def _unsigned(self, node: int) -> tuple[int, bool]:
        """A node without its sign, and whether it is a negative."""
        return (self.nodes[node][1], True) if self.nodes[node][0] == "neg" else (node, False)

    def _with_signs(self, node: int, first: bool, second: bool) -> int:
        """A number, or its negative, in the first thread and in the second."""
        node = self.node(("neg", node)) if first else node
        return self.node((MIRROR, node)) if first != second else node

    # ---- results -------------------------------------------------------------------------------------------------

    def _results_of_pairs(self) -> dict[Address, int | float]:
        """Results, those of two limbs each by its own thread."""
        found: dict[Address, int | float] = {}
        waiting: dict[int, tuple[Address, bool]] = {}
        """By the number of a thread's own, where the first thread's goes."""
        for address, value in self.results.items():
            node, negative = self._unsigned(value) if isinstance(value, int) else (-1, False)
            operation, *operands = self.nodes[node] if node >= 0 else ("const",)
            if operation == FIRST:
                waiting[operands[0]] = address, negative
            moved = None
            if operation == SECOND and operands[0] in waiting:
                first, turned = waiting[operands[0]]
                moved = self._between(first, address)
                if moved is not None:
                    found.pop(first, None)
                    found[moved] = self._with_signs(operands[0], turned, negative)
            if moved is None:
                found[address] = value
        return found


def _addresses(body: Sequence[object]) -> list[Address]:
    return [a for block in body if isinstance(block, Block) for a in (*block.loads, *block.stores)]


# ---- the code of what a pair does together ---------------------------------------------------------------------------


AMONG_PAIRS = (32 - PAIR) << 8 | 31
"""Tells a shuffle that each pair of a warp is among itself."""

_ALL_OF_WARP = -1


class PairCode:
    """Emits the operations of pairs. Every thread of a warp has to be there."""

    def __init__(self, writer: Writer, thread: Operand) -> None:
        """``thread``: the number of this thread among all, i64."""
        self.writer = w = writer
        self.number = w.value(f"and i64 {thread}, {PAIR - 1}")
        self.other = w.value(f"xor i32 {w.value(f'trunc i64 {self.number} to i32')}, 1")
        self.is_second = w.value(f"icmp ne i64 {self.number}, 0")

    def registers(self, distances: Sequence[int]) -> dict[Register, Operand]:
        """The registers of distances."""
        return {beyond(distance): self.writer.value(f"mul i64 {self.number}, {distance}") for distance in distances}

    def operations(self) -> dict[str, Callable[[Sequence[Operand]], Operand]]:
        """How each operation is emitted."""
        return {
            FIRST: lambda x: self._from_thread(x[0], "0"),
            SECOND: lambda x: self._from_thread(x[0], "1"),
            OTHER: lambda x: self._from_thread(x[0], self.other),
            MIRROR: lambda x: self._mirrored(x[0]),
            CHOOSE: lambda x: self.writer.select(self.is_second, x[1], x[0]),
        }

    def _from_thread(self, x: Operand, thread: Operand) -> Operand:
        w = self.writer
        if w.lanes.bits == "i32":
            return w.from_bits(self._shuffle(w.to_bits(x), thread))
        low, high = (self._shuffle(w.value(f"call i32 @{HALVES[k]}(double {x})"), thread) for k in (0, 1))
        return w.value(f"call double @{FROM_HALVES}(i32 {low}, i32 {high})")

    def _shuffle(self, bits: Operand, thread: Operand) -> Operand:
        return self.writer.value(
            f"call i32 @{SHUFFLE}(i32 {_ALL_OF_WARP}, i32 {bits}, i32 {thread}, i32 {AMONG_PAIRS})"
        )

    def _mirrored(self, x: Operand) -> Operand:
        w, bits = self.writer, self.writer.lanes.bits
        number = self.number if bits == "i64" else w.value(f"trunc i64 {self.number} to i32")
        sign = w.value(f"shl {bits} {number}, {8 * w.lanes.bytes - 1}")
        return w.from_bits(w.value(f"xor {bits} {w.to_bits(x)}, {sign}"))
