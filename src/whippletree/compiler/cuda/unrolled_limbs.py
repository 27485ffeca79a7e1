"""Loops over limbs written out again: one block, for a thread that does all of them.

For arrays that hold state after state. A pair of threads would read these number by number, each from another line of
memory, where threads of their own copy whole rows together (:mod:`~whippletree.compiler.cuda.staging`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whippletree.arithmetic.trace import Node, Straight
from whippletree.arithmetic.trace.passes import live
from whippletree.compiler.program import Address, Block, Index, Loop, Program, Register


def unroll_limbs(program: Program) -> Program:
    """A program of blocks, and of loops around one block each, as one block with the same bits."""
    return _Unrolling(program).program()


class _Unrolling:
    """Follows the program, with nodes for the numbers that lie in work space."""

    def __init__(self, source: Program) -> None:
        self.source = source
        self.work = {buffer.name for buffer in source.of_role("work")}
        self.tables = {buffer.name: buffer.data for buffer in source.of_role("table")}
        self.nodes: list[Node] = []
        self.numbers: dict[Node, int] = {}
        self.loads: dict[Address, int] = {}
        self.kept: dict[Address, int | float] = {}

    def program(self) -> Program:
        for block, counters in self.rounds():
            self.follow(block, counters)
        results = {address: value for address, value in self.kept.items() if address.buffer not in self.work}
        code = live(Straight(self.nodes, list(results.values())))
        buffers = tuple(buffer for buffer in self.source.buffers if buffer.name not in self.work)
        return replace(self.source, buffers=buffers, body=(Block(code, tuple(self.loads), tuple(results)),))

    def rounds(self) -> Iterator[tuple[Block, dict[Register, int]]]:
        """Every block in the order of the program, with what its counter is."""
        for statement in self.source.body:
            if isinstance(statement, Loop):
                (block,) = statement.body
                assert isinstance(block, Block)
                assert isinstance(statement.count, int)
                yield from ((block, {statement.counter: k}) for k in range(statement.count))
            else:
                assert isinstance(statement, Block)
                yield statement, {}

    def follow(self, block: Block, counters: dict[Register, int]) -> None:
        known: list[int] = []
        for node in block.code.nodes:
            match node[0]:
                case "input":
                    known.append(self.read(_fixed(block.loads[node[1]], counters)))
                case "const":
                    known.append(self.node(node))
                case operation:
                    known.append(self.operation(operation, [known[i] for i in node[1:]]))
        for address, output in zip(block.stores, block.code.outputs, strict=True):
            self.kept[_fixed(address, counters)] = known[output] if isinstance(output, int) else output

    def node(self, node: Node) -> int:
        """The number of a node, new or met before."""
        found = self.numbers.setdefault(node, len(self.nodes))
        if found == len(self.nodes):
            self.nodes.append(node)
        return found

    def operation(self, operation: str, operands: list[int]) -> int:
        """The node of an operation; of a product with ±1 from a table, which only limbs together need, its factor."""
        if operation == "mul" and self.nodes[operands[1]][0] == "const" and abs(self.nodes[operands[1]][1]) == 1:
            turned = self.nodes[operands[1]][1] < 0
            return self.node(("neg", operands[0])) if turned else operands[0]
        return self.node((operation, *operands))

    def read(self, address: Address) -> int:
        if address.buffer in self.work:
            found = self.kept[address]
            return found if isinstance(found, int) else self.node(("const", found))
        table = self.tables.get(address.buffer)
        if table is not None:
            return self.node(("const", float(table[tuple(index.offset for index in address.indices)])))
        return self.node(("input", self.loads.setdefault(address, len(self.loads))))


def _fixed(address: Address, counters: dict[Register, int]) -> Address:
    """An address in the round in hand."""
    places = (Index(None, i.offset + counters[i.register]) if i.register else i for i in address.indices)
    return Address(address.buffer, tuple(places))
