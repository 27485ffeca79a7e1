"""Very long straight-line code in parts that fit the instruction cache, each run for many states before the next.

What later parts need of earlier ones is *carried* over in the device's memory. Inputs, constants and the sines of
inputs are read or computed again instead. The cuts are where few numbers are carried.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate, pairwise

from whippletree.compiler.program import Address, Block, Buffer, Index, Program
from whippletree.compiler.ptx_memory import CARRIED
from whippletree.expression import Node, Straight

LONGEST = 7300
"""Operations of a part: with what is around it, 128 kB of instructions."""

_LEAVES = ("input", "const")
_WINDOW = 0.05
"""Share of a part's length by which a cut may be moved to where less is carried."""


def parts(program: Program) -> list[Program]:
    """The program, or its parts in order if it is one block that is too long."""
    match program.body:
        case (Block() as block,) if block.code.operations > LONGEST and not program.of_role("work"):
            return _Parts(program, block).programs()
    return [program]


def carried(programs: list[Program]) -> int:
    """How many numbers of a state are carried between the parts."""
    return programs[0].buffer(CARRIED).size if len(programs) > 1 else 0


def sent(block: Block) -> dict[int, int]:
    """The nodes of a part whose values are carried, and their numbers there."""
    pairs = zip(block.stores, block.code.outputs, strict=True)
    return {w: a.indices[0].offset for a, w in pairs if a.buffer == CARRIED and isinstance(w, int)}


class _Parts:
    def __init__(self, program: Program, block: Block) -> None:
        self.program = program
        self.block = block
        self.nodes = block.code.nodes
        self.size = len(self.nodes)
        self.last: dict[int, int] = {}  # where a value is needed for the last time
        for i, node in enumerate(self.nodes):
            if node[0] not in _LEAVES:
                self.last.update((operand, i) for operand in node[1:])
        self.last.update((w, self.size) for w in block.code.outputs if isinstance(w, int))

    def renewed(self, i: int) -> bool:
        """Whether a value is read or computed anew wherever it is needed."""
        kind, *operands = self.nodes[i]
        return kind in _LEAVES or (kind in ("sin", "cos") and self.nodes[operands[0]][0] == "input")

    def cuts(self) -> list[int]:
        """Where parts begin and end."""
        changes = [0] * (self.size + 2)
        for i, last in self.last.items():
            if not self.renewed(i):
                changes[i + 1] += 1
                changes[last + 1] -= 1
        crowd = list(accumulate(changes))
        work = list(accumulate(not self.renewed(i) for i in range(self.size)))
        count = math.ceil(self.block.code.operations / LONGEST)
        reach = int(_WINDOW * self.size / count)
        middles = [bisect_left(work, work[-1] * k / count) for k in range(1, count)]
        return [0, *[min(range(m - reach, m + reach), key=crowd.__getitem__) for m in middles], self.size]

    def programs(self) -> list[Program]:
        spans = list(pairwise(self.cuts()))
        ends = {i: stop for start, stop in spans for i in range(start, stop)}
        moving = [i for i in self.last if not self.renewed(i) and self.last[i] >= ends[i] < self.size]
        place = {i: Address(CARRIED, (Index(None, k),)) for k, i in enumerate(sorted(moving))}
        buffers = (*self.program.buffers, Buffer(CARRIED, "work", (len(place),)))
        return [replace(self.program, buffers=buffers, body=(self.part(*span, place),)) for span in spans]

    def part(self, start: int, stop: int, place: dict[int, Address]) -> Block:
        nodes: list[Node] = []
        loads: list[Address] = []
        number: dict[int, int] = {}

        def value(i: int) -> int:
            """The number of a node in this part."""
            if i not in number:
                node = self.nodes[i]
                if node[0] == "input" or (i < start and not self.renewed(i)):
                    loads.append(self.block.loads[node[1]] if node[0] == "input" else place[i])
                    node = ("input", len(loads) - 1)
                elif node[0] != "const":
                    node = (node[0], *[value(operand) for operand in node[1:]])
                nodes.append(node)
                number[i] = len(nodes) - 1
            return number[i]

        for i in range(start, stop):
            if not self.renewed(i):
                value(i)
        if stop < self.size:
            kept = [i for i in place if start <= i < stop]
            return Block(Straight(nodes, [number[i] for i in kept]), tuple(loads), tuple(place[i] for i in kept))
        outputs = [value(w) if isinstance(w, int) else w for w in self.block.code.outputs]
        return Block(Straight(nodes, outputs), tuple(loads), self.block.stores)
