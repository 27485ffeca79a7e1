"""Inputs and results of large kernels by way of shared memory, in short loops instead of a few instructions for each.

A multiprocessor fetches instructions through caches of 32 and 128 kB. Straight-line code that is longer runs at the
rate of the second-level cache, a third of the card's: on an H200, forward dynamics of a humanoid at 142 kB waited for
instructions most of its time. So what is the same for many numbers is written once:

    reading    every input is copied to shared memory, where a value that waits for its use takes no register
    angles     sines and cosines of neighbouring coordinates
    writing    results wait in shared memory too and are written together

What is decided here, :mod:`~whippletree.compiler.cuda.staging_code` emits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from whippletree.arithmetic.trace import Node, Straight
from whippletree.compiler.cuda.ptx_memory import RESULTS, WAITING
from whippletree.compiler.program import Address, Block, Buffer, Index, Program

SHORTEST_RUN = 4
"""Arrays and runs of angles shorter than this are not worth a loop."""


@dataclass(frozen=True)
class Angles:
    """A run of coordinates whose sines and cosines are computed in a loop: first slots, and how many there are."""

    angle: int
    sine: int
    cosine: int
    count: int


@dataclass(frozen=True)
class Staging:
    """Which numbers go through shared memory. Input number i of the code waits in slot i, for i below ``waiting``."""

    inputs: tuple[tuple[int, Buffer], ...] = ()  # first slot, array
    angles: tuple[Angles, ...] = ()
    results: tuple[Buffer, ...] = ()  # their numbers are the first outputs of the code, in this order
    waiting: int = 0


def results(code: Straight, staging: Staging) -> list[int]:
    """The nodes whose values are left in shared memory."""
    count = sum(b.size for b in staging.results)
    return [node for node in code.outputs[:count] if isinstance(node, int)]


# ---- the program, with its inputs waiting ----------------------------------------------------------------------------


def staged(program: Program, room: int) -> tuple[Program, Staging]:
    """The program as its main part sees it, and what is done before and after. Unchanged if it has loops itself."""
    match program.body:
        case (Block() as block,):
            return _Division(program, block).divided(room)
    return program, Staging()


class _Division:
    def __init__(self, program: Program, block: Block) -> None:
        self.program = program
        self.block = block
        self.nodes = list(block.code.nodes)
        self.results = [b for b in program.of_role("output") if _is_vector(b) and self._is_computed(b)]
        passed = {
            self.nodes[w][1]
            for address, w in zip(block.stores, block.code.outputs, strict=True)
            if address.buffer not in {b.name for b in self.results}
            and isinstance(w, int)
            and self.nodes[w][0] == "input"
        }
        kept = {block.loads[number].buffer for number in passed}
        used = {address.buffer for address in block.loads} - kept
        self.inputs = [b for b in program.of_role("input") if _is_vector(b) and b.name in used]

    def _is_computed(self, buffer: Buffer) -> bool:
        """Whether no number of an output is a constant."""
        outputs = [
            w for a, w in zip(self.block.stores, self.block.code.outputs, strict=True) if a.buffer == buffer.name
        ]
        return all(isinstance(w, int) and self.nodes[w][0] != "const" for w in outputs)

    def divided(self, room: int) -> tuple[Program, Staging]:
        starts = list(accumulate((b.size for b in self.inputs), initial=0))
        first = {b.name: start for b, start in zip(self.inputs, starts, strict=False)}
        rest = [n for n, a in enumerate(self.block.loads) if a.buffer not in first]
        angles = self._angles(first, starts[-1])
        waiting = angles[-1].cosine + angles[-1].count if angles else starts[-1]
        if not first or max(waiting, sum(b.size for b in self.results)) > room:
            return self.program, Staging()
        place = {n: waiting + i for i, n in enumerate(rest)}
        place |= {n: self._slot(first, n) for n in range(len(self.block.loads)) if n not in place}
        nodes: list[Node] = [
            node if node[0] != "input" or i in self.turned else ("input", place[node[1]])
            for i, node in enumerate(self.nodes)
        ]
        staging = Staging(tuple((first[b.name], b) for b in self.inputs), tuple(angles), tuple(self.results), waiting)
        return self._rewritten(nodes, rest, staging), staging

    def _slot(self, first: dict[str, int], number: int) -> int:
        address = self.block.loads[number]
        return first[address.buffer] + address.indices[0].offset

    def _angles(self, first: dict[str, int], free: int) -> list[Angles]:
        """Runs of neighbouring slots whose sines are wanted; those nodes become inputs that wait in slots."""
        wanted: dict[int, dict[str, int]] = {}  # slot -> sin or cos -> node
        others: set[int] = {w for w in self.block.code.outputs if isinstance(w, int)}
        for i, node in enumerate(self.nodes):
            if node[0] in ("sin", "cos") and (slot := self._argument(first, node[1])) is not None:
                wanted.setdefault(slot, {})[node[0]] = i
            elif node[0] not in ("input", "const"):
                others.update(node[1:])
        busy = {self._slot(first, self.nodes[i][1]) for i in others if self._argument(first, i) is not None}
        self.turned: set[int] = set()
        found: list[Angles] = []
        for _, group in groupby(enumerate(sorted(wanted)), key=lambda pair: pair[1] - pair[0]):
            slots = [slot for _, slot in group]
            if len(slots) < SHORTEST_RUN:
                continue
            # sines take the place of the angles where nobody needs those any more
            sine = free if busy.intersection(slots) else slots[0]
            free += len(slots) * (sine == free)
            run = Angles(slots[0], sine, free, len(slots))
            free += len(slots)
            found.append(run)
            for i, slot in enumerate(slots):
                for name, number in wanted[slot].items():
                    self.nodes[number] = ("input", (run.sine if name == "sin" else run.cosine) + i)
                    self.turned.add(number)
        return found

    def _argument(self, first: dict[str, int], node: int) -> int | None:
        """The slot of a node that is a number of an input in shared memory."""
        kind, *operands = self.nodes[node]
        if kind != "input" or self.block.loads[operands[0]].buffer not in first:
            return None
        return self._slot(first, operands[0])

    def _rewritten(self, nodes: list[Node], rest: Sequence[int], staging: Staging) -> Program:
        block, held = self.block, {b.name for b in staging.results}
        pairs = list(zip(block.stores, block.code.outputs, strict=True))
        ours = [w for b in staging.results for a, w in pairs if a.buffer == b.name]
        others = [(a, w) for a, w in pairs if a.buffer not in held]
        loads = [Address(WAITING, (Index(None, i),)) for i in range(staging.waiting)]
        stores = [Address(RESULTS, (Index(None, i),)) for i in range(len(ours))]
        body = Block(
            Straight(nodes, ours + [w for _, w in others]),
            (*loads, *[block.loads[n] for n in rest]),
            (*stores, *[a for a, _ in others]),
        )
        extra = (Buffer(WAITING, "work", (staging.waiting,)), Buffer(RESULTS, "work", (len(ours),)))
        return replace(self.program, buffers=(*self.program.buffers, *extra), body=(body,))


def _is_vector(buffer: Buffer) -> bool:
    (*outer, size) = buffer.shape or (0,)
    return not outer and isinstance(size, int) and size >= SHORTEST_RUN and not buffer.integer
