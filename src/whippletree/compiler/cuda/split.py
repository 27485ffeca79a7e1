"""Very long straight-line code in parts, each a function of its own.

The time of NVIDIA's assembler grows faster than the length of a function; and of one with 47 000 operations, the
derivatives of a humanoid's forward dynamics, it made wrong code at its default level (CUDA 13.0), after minutes. So
such code is cut, where the least is alive. What a part leaves to later ones lies in work space.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from whippletree.arithmetic.trace import Node, Straight
from whippletree.arithmetic.trace.schedule import order_for_registers
from whippletree.arithmetic.trace.traced import CONDITIONS, LEAVES
from whippletree.compiler.program import Address, Block, Buffer, Index, Program

LONGEST_PIECE = 12_000
"""Operations of the longest code that is left in one piece."""

PART_SIZE = 5_000
"""Operations of a part, about."""

LEEWAY = 0.1
"""By how much of its length a part may become shorter or longer, so that less is alive at its end."""


def part_program(program: Program, longest: int = LONGEST_PIECE, most: int = PART_SIZE) -> Program:
    """The program with its one block in parts of about equal length, if it is longer than the longest."""
    match program.body:
        case (Block() as block,) if block.code.operations > longest:
            return _Parting(program, block, -(-block.code.operations // most)).part()
    return program


def parts_of(program: Program) -> tuple[Block, ...]:
    """The blocks of a program that is nothing but several blocks, one after the other."""
    blocks = tuple(statement for statement in program.body if isinstance(statement, Block))
    return blocks if 1 < len(blocks) == len(program.body) else ()


class _Parting:
    def __init__(self, program: Program, block: Block, count: int) -> None:
        self.program = program
        self.block = block
        self.code = order_for_registers(block.code, 0)
        self.nodes = self.code.nodes
        self.cuts = _cuts(self.nodes, count)
        self.left: list[dict[int, int]] = [{} for _ in range(count)]
        """Of each part, what it leaves to later ones: node -> place."""

    def part(self) -> Program:
        parts = [_Part(self, first, last) for first, last in pairwise(self.cuts)]
        for part in parts:
            part.collect()
        outputs: list[list[tuple[Address, int | float]]] = [[] for _ in parts]
        for address, w in zip(self.block.stores, self.code.outputs, strict=True):
            computed = isinstance(w, int) and self.nodes[w][0] not in LEAVES
            outputs[self.part_of(int(w)) if computed else 0].append((address, w))
        blocks = []
        for number, (part, ours) in enumerate(zip(parts, outputs, strict=True)):
            kept = [(_place(number, i), node) for node, i in self.left[number].items()]
            blocks.append(part.block([*ours, *kept]))
        work = [Buffer(_name(number), "work", (len(left),)) for number, left in enumerate(self.left) if left]
        return replace(self.program, buffers=(*self.program.buffers, *work), body=tuple(blocks))

    def part_of(self, node: int) -> int:
        """The number of the part that computes a node."""
        return bisect_right(self.cuts, node) - 1


class _Part:
    """Nodes from ``first`` up to ``last``, and copies of leaves and conditions that they need from before."""

    def __init__(self, whole: _Parting, first: int, last: int) -> None:
        self.whole = whole
        self.range = range(first, last)
        self.nodes: list[Node] = []
        self.loads: list[Address] = []
        self.number: dict[int, int] = {}  # nodes of the whole code -> nodes here

    def collect(self) -> None:
        """Everything that is computed here, in order."""
        for node in self.range:
            if self.whole.nodes[node][0] not in (*LEAVES, *CONDITIONS):
                self.take(node)

    def take(self, node: int) -> int:
        """The number that a node of the whole code has here."""
        if node not in self.number:
            found = self._take(node)
            self.nodes.append(found)
            self.number[node] = len(self.nodes) - 1
        return self.number[node]

    def _take(self, node: int) -> Node:
        kind, *operands = found = self.whole.nodes[node]
        if kind == "const":
            return found
        if kind == "input":
            return self._load(self.whole.block.loads[operands[0]])
        # truth values are no numbers that memory could hold: whoever needs one compares again
        if node in self.range or kind in CONDITIONS:
            return (kind, *[self.take(i) for i in operands])
        before = self.whole.part_of(node)
        left = self.whole.left[before]
        return self._load(_place(before, left.setdefault(node, len(left))))

    def _load(self, address: Address) -> Node:
        self.loads.append(address)
        return ("input", len(self.loads) - 1)

    def block(self, outputs: Sequence[tuple[Address, int | float]]) -> Block:
        """The part as a block that stores these nodes of the whole code, or numbers."""
        wanted = [self.take(w) if isinstance(w, int) else w for _, w in outputs]
        return Block(Straight(self.nodes, wanted), tuple(self.loads), tuple(address for address, _ in outputs))


def _place(part: int, place: int) -> Address:
    return Address(_name(part), (Index(None, place),))


def _name(part: int) -> str:
    return f"left by part {part}"


def _cuts(nodes: Sequence[Node], count: int) -> list[int]:
    """Where the parts begin, and the end of the last one."""
    alive, length = _alive(nodes), len(nodes) / count
    cuts = [0]
    for number in range(1, count):
        around = range(int(length * (number - LEEWAY)), int(length * (number + LEEWAY)) + 1)
        cuts.append(min(around, key=alive.__getitem__))
    return [*cuts, len(nodes)]


def _alive(nodes: Sequence[Node]) -> list[int]:
    """How many numbers that were computed before each node are needed there or later."""
    last = [-1] * len(nodes)
    for i in range(len(nodes) - 1, -1, -1):
        kind, *operands = nodes[i]
        for operand in operands if kind not in LEAVES else ():
            last[operand] = max(last[operand], last[i] if kind in CONDITIONS else i)
    change = [0] * (len(nodes) + 1)
    for i, node in enumerate(nodes):
        if node[0] not in (*LEAVES, *CONDITIONS) and last[i] > i:
            change[i + 1] += 1
            change[last[i] + 1] -= 1
    return list(accumulate(change))
