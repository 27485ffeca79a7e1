"""Which numbers of straight-line code are put aside into memory, and when they come back, so that few registers do.

A GPU thread has 255 registers; a humanoid's forward dynamics has twice as many numbers alive. What the assembler puts
aside by itself goes to local memory, and each number comes back from the second-level cache: four hundred cycles, one
after the other, which was measured to cost three quarters of the time. Shared memory answers in thirty. So it is
decided here: whenever more numbers are alive than there are registers, the one whose next use is farthest away goes
(Belady), as long as there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from whippletree.expression import Node
from whippletree.expression.traced import CONDITIONS

_LEAVES = ("input", "const")
_ELSEWHERE = CONDITIONS | {"const"}
"""Constants are part of instructions, and conditions have registers of their own."""


@dataclass(frozen=True)
class Step:
    """Compute a node; or put its value into a slot; or take it back from there."""

    action: Literal["compute", "put", "take"]
    node: int
    slot: int = -1


@dataclass(frozen=True)
class Plan:
    """What to do, in order, and how many slots it takes."""

    steps: list[Step]
    slots: int


def plan(nodes: Sequence[Node], order: Sequence[int], registers: int, room: int) -> Plan:
    """Compute the nodes in that order with at most so many values in registers and ``room`` slots beside them."""
    return _Planner(nodes, order, registers, room).run()


class _Planner:
    def __init__(self, nodes: Sequence[Node], order: Sequence[int], registers: int, room: int) -> None:
        self.nodes = nodes
        self.order = order
        self.registers = registers
        self.steps: list[Step] = []
        self.free = list(range(room - 1, -1, -1))
        self.most = 0
        self.slot: dict[int, int] = {}
        self.here: set[int] = set()  # values in registers
        self.uses: dict[int, list[int]] = {}  # places still to come, last one first
        for place in range(len(order) - 1, -1, -1):
            for operand in set(self._operands(order[place])):
                self.uses.setdefault(operand, []).append(place)

    def _operands(self, node: int) -> Sequence[int]:
        found = self.nodes[node]
        return () if found[0] in _LEAVES else [i for i in found[1:] if self.nodes[i][0] not in _ELSEWHERE]

    def run(self) -> Plan:
        for node in self.order:
            operands = set(self._operands(node))
            for operand in operands - self.here:
                self.steps.append(Step("take", operand, self.slot[operand]))
                self.here.add(operand)
            self.make_room(operands)
            self.steps.append(Step("compute", node))
            for operand in operands:
                self.uses[operand].pop()
                if not self.uses[operand]:
                    self.forget(operand)
            if self.uses.get(node):
                self.here.add(node)
        return Plan(self.steps, self.most)

    def make_room(self, needed: set[int]) -> None:
        """Put values aside until one more fits; those needed right now stay."""
        while len(self.here) >= self.registers:
            movable = [i for i in self.here if i not in needed and (i in self.slot or self.free)]
            if not movable:
                return
            farthest = max(movable, key=lambda i: self.uses[i][-1])
            if farthest not in self.slot:
                self.slot[farthest] = self.free.pop()
                self.most = max(self.most, self.slot[farthest] + 1)
                self.steps.append(Step("put", farthest, self.slot[farthest]))
            self.here.discard(farthest)

    def forget(self, node: int) -> None:
        self.here.discard(node)
        if node in self.slot:
            self.free.append(self.slot.pop(node))
