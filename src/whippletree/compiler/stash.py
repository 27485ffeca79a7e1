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
    """What to do, in order; how many near slots it takes, and how many far ones."""

    steps: list[Step]
    near: int
    far: int


LEAD = 120
"""So many steps ahead of its use a value is taken back from a far slot: the time that the second-level cache needs."""


def plan(nodes: Sequence[Node], order: Sequence[int], registers: int, room: int) -> Plan:
    """Compute the nodes in that order with at most so many values in registers.

    Others go into ``room`` near slots, numbered from 0; those that wait for longest into far slots, numbered from there.
    """
    needed = _Planner(nodes, order, registers, len(nodes), 0).run().near
    found = _Planner(nodes, order, registers, room, max(0, needed - room)).run()
    return Plan(_taken_early(found.steps, room), found.near, found.far)


def _taken_early(steps: Sequence[Step], room: int) -> list[Step]:
    """Move every step that takes from a far slot ahead, but not before the value was put there."""
    put: dict[int, int] = {}
    keyed: list[tuple[int, int, Step]] = []
    for place, step in enumerate(steps):
        key = place
        if step.action == "put":
            put[step.node] = place
        elif step.action == "take" and step.slot >= room:
            key = max(place - LEAD, put[step.node])
        keyed.append((key, place, step))
    # of two steps with one place the one that was there comes first
    return [step for _, _, step in sorted(keyed, key=lambda entry: (entry[0], entry[0] != entry[1], entry[1]))]


class _Planner:
    def __init__(self, nodes: Sequence[Node], order: Sequence[int], registers: int, near: int, far: int) -> None:
        self.nodes = nodes
        self.order = order
        self.registers = registers
        self.room = near
        self.steps: list[Step] = []
        self.near = list(range(near - 1, -1, -1))
        self.far = list(range(near + far - 1, near - 1, -1))
        self.most_near = self.most_far = 0
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
        for place, node in enumerate(self.order):
            operands = set(self._operands(node))
            for operand in operands - self.here:
                self.steps.append(Step("take", operand, self.slot[operand]))
                self.here.add(operand)
            self.make_room(operands, place)
            self.steps.append(Step("compute", node))
            for operand in operands:
                self.uses[operand].pop()
                if not self.uses[operand]:
                    self.forget(operand)
            if self.uses.get(node):
                self.here.add(node)
        return Plan(self.steps, self.most_near, self.most_far)

    def make_room(self, needed: set[int], place: int) -> None:
        """Put values aside until one more fits; those needed right now stay."""
        while len(self.here) >= self.registers:
            movable = [i for i in self.here if i not in needed and (i in self.slot or self.near or self.far)]
            if not movable:
                return
            farthest = max(movable, key=lambda i: self.uses[i][-1])
            if farthest not in self.slot:
                slot = self.slot[farthest] = self.choose(self.uses[farthest][-1] - place)
                self.steps.append(Step("put", farthest, slot))
            self.here.discard(farthest)

    def choose(self, wait: int) -> int:
        """A free slot: a far one for a value that waits for long enough, a near one for others, if there are."""
        if self.far and (wait > 4 * LEAD or not self.near):
            slot = self.far.pop()
            self.most_far = max(self.most_far, slot + 1 - self.room)
            return slot
        slot = self.near.pop()
        self.most_near = max(self.most_near, slot + 1)
        return slot

    def forget(self, node: int) -> None:
        self.here.discard(node)
        if node in self.slot:
            slot = self.slot.pop(node)
            (self.near if slot < self.room else self.far).append(slot)
