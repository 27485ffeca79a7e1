"""Which numbers of straight-line code are put aside into memory, and when they come back, so that few registers do.

A GPU thread has 255 registers; a humanoid's forward dynamics has twice as many numbers alive. What the assembler puts
aside by itself goes to local memory, and each number comes back from the second-level cache: four hundred cycles, one
after the other, which was measured to cost three quarters of the time. Shared memory answers in thirty. So it is
decided here: whenever more numbers are alive than there are registers, the one whose next use is farthest away goes
(Belady). Slots beyond those of shared memory are *far*: in local memory, from where a number is called back early
enough that nobody waits for it. Inputs may wait in slots from the start, results may be left there in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from whippletree.arithmetic.trace import Node
from whippletree.arithmetic.trace.traced import CONDITIONS, LEAVES

_ELSEWHERE = CONDITIONS | {"const"}
"""Constants are part of instructions, and conditions have registers of their own."""

LEAD = 120
"""So many steps before its use a value in a far slot is called back."""


@dataclass(frozen=True)
class SpillStep:
    """Compute a node; or put its value into a slot; or take it back from there."""

    action: Literal["compute", "put", "take"]
    node: int
    slot: int = -1


@dataclass(frozen=True)
class SpillPlan:
    """Actions in order, and how many slots it takes."""

    steps: list[SpillStep]
    slots: int


def plan(
    nodes: Sequence[Node],
    order: Sequence[int],
    registers: int,
    room: int,
    waiting: int = 0,
    results: Sequence[int] = (),
) -> SpillPlan:
    """Compute the nodes in that order with at most so many values in registers and ``room`` near slots beside them.

    Slots from number ``room`` on are far. Inputs with numbers below ``waiting`` are in the slots of their numbers; the
    values of ``results`` end up in the first slots, in order.
    """
    return _Planner(nodes, order, registers, room, waiting, results).run()


class _Planner:
    def __init__(
        self,
        nodes: Sequence[Node],
        order: Sequence[int],
        registers: int,
        room: int,
        waiting: int,
        results: Sequence[int],
    ) -> None:
        self.nodes = nodes
        self.order = order
        self.registers = registers
        self.room = room
        self.results = results
        self.steps: list[SpillStep] = []
        self.here: set[int] = set()  # values in registers
        # where few results wait for the end, they do so in registers
        end = len(order) if len(results) > registers // 4 else -1
        self.uses: dict[int, list[int]] = {node: [end] for node in results}  # places still to come, last one first
        for place in range(len(order) - 1, -1, -1):
            for operand in set(self._operands(order[place])):
                self.uses.setdefault(operand, []).append(place)
        inputs = ((i, node[1]) for i, node in enumerate(nodes) if node[0] == "input" and i in self.uses)
        self.slot: dict[int, int] = {i: number for i, number in inputs if number < waiting}
        self.waiting = frozenset(self.slot)
        taken = set(self.slot.values())
        self.free = [slot for slot in range(room - 1, -1, -1) if slot not in taken]
        self.far: list[int] = []  # far slots that are free again
        self.most = waiting

    def _operands(self, node: int) -> Sequence[int]:
        found = self.nodes[node]
        return () if found[0] in LEAVES else [i for i in found[1:] if self.nodes[i][0] not in _ELSEWHERE]

    def run(self) -> SpillPlan:
        for node in self.order:
            if node in self.waiting:
                continue
            operands = set(self._operands(node))
            for operand in operands - self.here:
                self.steps.append(SpillStep("take", operand, self.slot[operand]))
                self.here.add(operand)
            self.make_room(operands)
            self.steps.append(SpillStep("compute", node))
            for operand in operands:
                self.uses[operand].pop()
                if not self.uses[operand]:
                    self.forget(operand)
            if self.uses.get(node):
                self.here.add(node)
        self.finish()
        return SpillPlan(self.called_early(), max(self.most, len(self.results)))

    def finish(self) -> None:
        """Leave the results in the first slots. Nothing else is alive any more."""
        self.steps += [SpillStep("take", i, self.slot[i]) for i in dict.fromkeys(self.results) if i not in self.here]
        self.steps += [SpillStep("put", node, slot) for slot, node in enumerate(self.results)]

    def make_room(self, needed: set[int]) -> None:
        """Put values aside until one more fits; those needed right now stay."""
        while len(self.here) >= self.registers:
            movable = self.here - needed
            if not movable or not self.room:
                return
            farthest = max(movable, key=lambda i: self.uses[i][-1])
            if farthest not in self.slot:
                copies = [i for i in self.here if self.slot.get(i, self.room) < self.room]
                if copies and not self.free:
                    # a value that is in a register too can do without its slot, best the one that is needed soonest
                    self.free.append(self.slot.pop(min(copies, key=lambda i: self.uses[i][-1])))
                self.put(farthest)
            self.here.discard(farthest)

    def put(self, node: int) -> None:
        free = self.free or self.far
        self.slot[node] = free.pop() if free else max(self.most, self.room)
        self.most = max(self.most, self.slot[node] + 1)
        self.steps.append(SpillStep("put", node, self.slot[node]))

    def forget(self, node: int) -> None:
        self.here.discard(node)
        if node in self.slot:
            slot = self.slot.pop(node)
            (self.free if slot < self.room else self.far).append(slot)

    def called_early(self) -> list[SpillStep]:
        """The steps with values called back from far slots before they are needed, but not before they are there."""
        written: dict[int, int] = {}
        times: list[float] = []
        for time, step in enumerate(self.steps):
            if step.action == "put":
                written[step.slot] = time
            called = step.action == "take" and step.slot >= self.room
            times.append(max(time - LEAD, written[step.slot] + 0.5) if called else time)
        return [self.steps[i] for i in sorted(range(len(self.steps)), key=times.__getitem__)]
