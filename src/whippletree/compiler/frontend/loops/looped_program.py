"""From recorded sweeps to a kernel program: one loop over bodies per stage, with a switch on the type of body.

Its buffers, beside the arguments of the call:

    passing    values on their way through edges, in slots; running sums in front of them
    record     what a body keeps from one loop to the next
    whole      what is computed once for the system, and needed more than once
    table      the model's numbers, one row for each distinct body
    index      where all this begins for each body: one run of N integers for each register

A value that crosses an edge is needed until the last receiver has read it. Along a chain one slot is enough, in a tree
about as many as it is wide; so this memory stays in the nearest cache however many bodies there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.trace import Node, Straight, Trace, Traced, finish
from whippletree.arithmetic.trace.traced import CONDITIONS
from whippletree.compiler.frontend.loops.body_types import Integers
from whippletree.compiler.frontend.loops.edge_pattern import entries
from whippletree.compiler.frontend.loops.recorder import (
    Arriving,
    Final,
    Gathered,
    Graph,
    Interlude,
    Looped,
    Posted,
    Result,
    Running,
    RunningSum,
    Source,
)
from whippletree.compiler.program import Address, Block, Buffer, Index, Lookup, Loop, Program, Statement, Switch
from whippletree.compiler.program.store_or_recompute import Share, memory_for, shares

PASSING, RECORD, WHOLE, INDEX = "passing", "record", "whole", "index"
COUNTER, TYPE = "body", "type"
PARENT, OWN, RECEIVED, BEFORE, SENT = "parent", "own", "received", "before", "sent"
"""Registers: where a body's numbers are in ``passing``."""


def assemble(name: str, looped: Looped, arguments: Sequence[Buffer], whole: Sequence[tuple[Address, Any]]) -> Program:
    """The program of a recorded algorithm.

    Args:
        name: of the program.
        looped: the recorder after the algorithm has run.
        arguments: input and output buffers in the order of the call.
        whole: numbers of the system as a whole and where they go, computed after all loops.
    """
    return _Assembly(looped).program(name, arguments, whole)


class _Assembly:
    def __init__(self, looped: Looped) -> None:
        self.looped = looped
        self.read: set[str] = set()
        """Buffers that some block reads."""
        self.runs: dict[bytes, int] = {}
        """Runs of the index buffer, by content."""
        self.live = live_entries(looped)
        used = {s.stage for s, live in zip(looped.sweeps, self.live, strict=True) if live}
        used |= {s.stage for s in looped.sums} | {r.stage for r in looped.results if r.stage >= 0}
        # a stage that nothing happens in has no loop; what needs no sweep at all goes into the first loop there is
        self.stages = sorted(used) or [0]
        self.place = {(i, leaf): p for stage in self.stages for i, leaf, p in self._crossing(stage)}
        self.offsets = {**looped.offsets, TYPE: looped.bodies.of, **self._slots()}
        self._divide()

    # --- layout -------------------------------------------------------------------------------------------------------

    def _crossing(self, stage: int) -> list[tuple[int, int, int]]:
        """(sweep, leaf, place in a slot) of everything that crosses edges in a stage."""
        pairs = [(i, leaf) for i, s in enumerate(self.looped.sweeps) if s.stage == stage for leaf in self.live[i]]
        return [(i, leaf, place) for place, (i, leaf) in enumerate(pairs)]

    def _slots(self) -> dict[str, Integers]:
        """Where each body finds and leaves what crosses edges."""
        first = len(self.looped.sums)
        width = [max([len(self._crossing(s)) for s in self.stages if s % 2 == way], default=0) for way in (0, 1)]
        self.passing = first
        found: dict[str, Integers] = {}
        if width[0]:
            out = outward_slots(self.looped.parent)
            found |= {PARENT: first + width[0] * out.parent, OWN: first + width[0] * out.own}
            self.passing = first + width[0] * out.slots
        if width[1]:
            into = inward_slots(self.looped.parent)
            received, before, sent = (first + width[1] * x for x in into[1:])
            found |= {RECEIVED: received, BEFORE: before, SENT: sent}
            self.passing = max(self.passing, first + width[1] * into.slots)
        return found

    def _divide(self) -> None:
        """Share the work of each type among the loops, and lay out what its bodies keep."""
        self.stores = [[self._stores(stage, t) for stage in self.stages] for t in range(len(self.looped.graphs))]
        self.shares: list[list[Share]] = []
        self.kept: list[dict[int, int]] = []
        lengths = []
        for graph, stores in zip(self.looped.graphs, self.stores, strict=True):
            known = [bisect_left(self.stages, s) if s >= 0 else -1 for s in graph.known_after(self.looped.stage_of)]
            required = [{x.index for _, x in pairs if isinstance(x, Traced)} for pairs in stores]
            lasting = {n for n, node in enumerate(graph.trace.nodes) if node[0] == "input" and graph.lasts(node[1])}
            memory = memory_for(len(self.looped.parent))
            self.shares.append(shares(graph.trace.nodes, known, required, lasting, memory))
            places, length = record_places(self.shares[-1])
            self.kept.append(places)
            lengths.append(length)
        ends = np.cumsum(np.array(lengths, dtype=np.int64)[self.looped.bodies.of])
        self.record = int(ends[-1]) if len(ends) else 0
        self.offsets[RECORD] = np.concatenate([[0], ends[:-1]])

    def _stores(self, stage: int, t: int) -> list[tuple[Address, Any]]:
        """Numbers that a body of type t must write in a stage, apart from what it keeps for itself."""
        pairs: list[tuple[Address, Any]] = []
        for i, leaf, place in self._crossing(stage):
            sweep = self.looped.sweeps[i]
            pairs.append((Address(PASSING, (Index(OWN if sweep.outwards else SENT, place),)), sweep.sent[t][leaf]))
        for number, total in enumerate(self.looped.sums):
            if self._is_in(total, stage) and total.updates[t] is not self.looped.graphs[t].input(Running(number)):
                pairs.append((Address(PASSING, (Index(None, number),)), total.updates[t]))
        for result in self.looped.results:
            if self._is_in(result, stage):
                pairs += result.stores[t]
        return pairs

    def _is_in(self, record: RunningSum | Result, stage: int) -> bool:
        return record.stage == stage or (record.stage < 0 and stage == self.stages[0])

    # --- statements ---------------------------------------------------------------------------------------------------

    def program(self, name: str, arguments: Sequence[Buffer], whole: Sequence[tuple[Address, Any]]) -> Program:
        body: list[Statement] = []
        starts = [(Address(PASSING, (Index(None, i),)), total.start) for i, total in enumerate(self.looped.sums)]
        before = self._interludes()
        between = iter(self._wholes([*[x.stores for own in before for x in own], whole]))
        for number, stage in enumerate(self.stages):
            body += [next(between) for _ in before[number]]
            starts += self._edge_starts(stage)
            if starts:
                body.append(_constants(starts))
            body.append(self._loop(number, stage))
            starts = []
        if whole:
            body.append(next(between))
        return Program(name, (*arguments, *self._buffers()), tuple(body))

    def _interludes(self) -> list[list[Interlude]]:
        """Code that runs once before each loop."""
        waiting = [x for x in self.looped.interludes if x.stores]
        found = []
        for stage in self.stages:
            found.append([x for x in waiting if x.stage <= stage])
            waiting = [x for x in waiting if x.stage > stage]
        return found

    def _wholes(self, groups: Sequence[Sequence[tuple[Address, Any]]]) -> list[Block]:
        """Numbers of the system as a whole, one block for each group of stores, in the order in which they run.

        What one block has computed is stored for the blocks after it that need it: a factor is not computed again for
        the status, and once more for what is valid.
        """
        graph = self.looped.whole
        plans: list[Share] = []
        owner: dict[int, int] = {}
        for number, stores in enumerate(groups):
            plan = self._needed_nodes([x.index for _, x in stores if isinstance(x, Traced)], owner)
            owner |= dict.fromkeys((n for n in plan.computed if not _is_leaf(graph.trace.nodes[n])), number)
            plans.append(plan)
        places = {n: i for i, n in enumerate(dict.fromkeys(n for plan in plans for n in plan.loaded))}
        self.whole = len(places)
        for n in places:
            plans[owner[n]].stored.append(n)
        return [self._block(graph, plan, places, stores, WHOLE) for plan, stores in zip(plans, groups, strict=True)]

    def _needed_nodes(self, targets: list[int], known: Container[int]) -> Share:
        """The nodes of the whole that some targets are made from; those that are known are loaded."""
        nodes = self.looped.whole.trace.nodes
        computed: set[int] = set()
        loaded: set[int] = set()
        todo = list(targets)
        while todo:
            n = todo.pop()
            if n in computed or n in loaded:
                continue
            # a condition is no number and cannot be stored
            if n in known and nodes[n][0] not in CONDITIONS:
                loaded.add(n)
                continue
            computed.add(n)
            todo += [] if _is_leaf(nodes[n]) else nodes[n][1:]
        return Share(sorted(computed), sorted(loaded))

    def _buffers(self) -> list[Buffer]:
        tables = [
            Buffer(name, "table", data.shape, data) for name, data in self.looped.tables.items() if name in self.read
        ]
        index = np.concatenate([np.frombuffer(run, dtype=np.int64) for run in self.runs]) if self.runs else None
        posts = [Buffer(name, "work", (size,)) for name, size in self.looped.work.items()]
        sizes = {PASSING: self.passing, RECORD: self.record, WHOLE: self.whole}
        buffers = [*[Buffer(name, "work", (size,)) for name, size in sizes.items()], *posts, *tables]
        if index is not None:
            buffers.append(Buffer(INDEX, "index", index.shape, index, integer=True))
        return [b for b in buffers if b.shape != (0,)]

    def _edge_starts(self, stage: int) -> list[tuple[Address, Any]]:
        """The values that arrive where there is no body before: at slot 0."""
        first = len(self.looped.sums)
        sweeps = self.looped.sweeps
        return [
            (Address(PASSING, (Index(None, first + place),)), sweeps[i].start[leaf])
            for i, leaf, place in self._crossing(stage)
        ]

    def _loop(self, number: int, stage: int) -> Loop:
        """One loop over bodies: look up where this body's numbers are, then run the code of its type."""
        blocks = [
            self._block(graph, self.shares[t][number], self.kept[t], self.stores[t][number])
            for t, graph in enumerate(self.looped.graphs)
        ]
        used = [i.register for block in blocks for a in (*block.loads, *block.stores) for i in a.indices]
        names = list(dict.fromkeys(r for r in used if r is not None))
        if len(blocks) > 1:
            names.append(TYPE)
        lookups, alias = self._lookups(names)
        cases = tuple((_merge_equal_registers(block, alias),) for block in blocks)
        work: Statement = Switch(alias[TYPE], cases) if len(cases) > 1 else cases[0][0]
        return Loop(COUNTER, len(self.looped.parent), (*lookups, work), backwards=stage % 2 == 1)

    def _lookups(self, names: Sequence[str]) -> tuple[list[Lookup], dict[str, str]]:
        """Lookups of these registers; equal ones are made once, and one that counts bodies is the counter itself."""
        lookups: list[Lookup] = []
        alias: dict[str, str] = {}
        count = len(self.looped.parent)
        known = {np.arange(count, dtype=np.int64).tobytes(): COUNTER}
        for name in names:
            content = np.ascontiguousarray(self.offsets[name], dtype=np.int64).tobytes()
            if content not in known:
                known[content] = name
                run = self.runs.setdefault(content, len(self.runs))
                lookups.append(Lookup(name, Address(INDEX, (Index(COUNTER, run * count),))))
            alias[name] = known[content]
        return lookups, alias

    def _block(
        self,
        graph: Graph,
        share: Share,
        kept: dict[int, int],
        stores: Sequence[tuple[Address, Any]],
        buffer: str = RECORD,
    ) -> Block:
        """The straight-line code of one type in one loop, or of the whole; ``kept``: places in a buffer."""
        nodes = graph.trace.nodes
        trace = Trace()
        loads: list[Address] = []
        value: dict[int, Traced] = {}
        for n in sorted([*share.computed, *share.loaded]):
            node = nodes[n]
            if node[0] == "input" or n in share.loaded:
                stored = n in share.loaded
                loads.append(_place(buffer, kept[n]) if stored else self._address(graph.sources[node[1]]))
                value[n] = trace.input()
            elif node[0] == "const":
                value[n] = trace.node(node)
            else:
                value[n] = trace.node((node[0], *[value[i].index for i in node[1:]]))
        self.read.update(address.buffer for address in loads)
        pairs = [*stores, *[(_place(buffer, kept[n]), graph.trace.node_at(n)) for n in share.stored]]
        outputs = [value[x.index] if isinstance(x, Traced) else x for _, x in pairs]
        return Block(finish(trace, outputs), tuple(loads), tuple(address for address, _ in pairs))

    def _address(self, source: Source) -> Address:
        match source:
            case Arriving(sweep, leaf):
                register = PARENT if self.looped.sweeps[sweep].outwards else RECEIVED
                return Address(PASSING, (Index(register, self.place[sweep, leaf]),))
            case Gathered(sweep, leaf):
                return Address(PASSING, (Index(BEFORE, self.place[sweep, leaf]),))
            case Running(number) | Final(number):
                return Address(PASSING, (Index(None, number),))
            case Posted(address, _):
                return address
        return source


def _place(buffer: str, place: int) -> Address:
    """Where a number is kept: in a body's own record, or in the one of the whole."""
    return Address(buffer, (Index(RECORD if buffer == RECORD else None, place),))


def _is_leaf(node: Node) -> bool:
    return node[0] in ("input", "const")


def live_entries(looped: Looped) -> list[list[int]]:
    """For each sweep, the crossing numbers that some result depends on, directly or further along the tree."""
    live: list[set[int]] = [set() for _ in looped.sweeps]
    todo = [(t, x) for total in looped.sums for t, x in enumerate(total.updates)]
    todo += [(t, x) for result in looped.results for t, pairs in enumerate(result.stores) for _, x in pairs]
    seen: set[tuple[int, int]] = set()
    while todo:
        t, x = todo.pop()
        if not isinstance(x, Traced) or (t, x.index) in seen:
            continue
        seen.add((t, x.index))
        operation, *operands = x.trace.nodes[x.index]
        if operation == "input":
            source = looped.graphs[t].sources[operands[0]]
            if isinstance(source, Arriving) and source.leaf not in live[source.sweep]:
                live[source.sweep].add(source.leaf)
                todo += [(kind, sent[source.leaf]) for kind, sent in enumerate(looped.sweeps[source.sweep].sent)]
        elif operation != "const":
            todo += [(t, x.trace.node_at(i)) for i in operands]
    return [[leaf for leaf in entries(s.pattern) if leaf in live[i]] for i, s in enumerate(looped.sweeps)]


def _constants(pairs: Sequence[tuple[Address, Any]]) -> Block:
    """A block that only writes numbers."""
    return Block(Straight([], [float(x) for _, x in pairs]), (), tuple(address for address, _ in pairs))


def _merge_equal_registers(block: Block, alias: dict[str, str]) -> Block:
    """The block with registers of equal content made one."""

    def rename(address: Address) -> Address:
        indices = tuple(Index(None if i.register is None else alias[i.register], i.offset) for i in address.indices)
        return Address(address.buffer, indices)

    return Block(block.code, tuple(map(rename, block.loads)), tuple(map(rename, block.stores)))


# --- where numbers live: slots for what crosses edges, and places in records ------------------------------------------


class Outward(NamedTuple):
    """Slots of a scatter, (N,) each. Slot 0 holds the world's value when the loop starts."""

    slots: int
    parent: Integers
    own: Integers


class GatherSlots(NamedTuple):
    """Slots of a gather, (N,) each. Slot 0 holds the sum over no children, and is never written in the loop."""

    slots: int
    received: Integers
    """The sum over the body's children."""
    before: Integers
    """The sum over the siblings whose turn was earlier."""
    sent: Integers
    """Where that sum with the body's own message goes."""


class _Pool:
    def __init__(self, first: int) -> None:
        self.count = first
        self.free: list[int] = []

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        self.count += 1
        return self.count - 1


def outward_slots(parents: Integers) -> Outward:
    """Slots for values on their way out. A body may take its parent's slot: a block reads before it writes."""
    pool = _Pool(1)
    waiting = np.bincount(parents + 1, minlength=len(parents) + 1).tolist()
    slot = [0] * (len(parents) + 1)
    source, own = [0] * len(parents), [0] * len(parents)
    for k, parent in enumerate(parents.tolist(), start=1):
        carrier = parent + 1
        source[k - 1] = slot[carrier]
        waiting[carrier] -= 1
        if not waiting[carrier]:
            pool.free.append(slot[carrier])
        slot[k] = own[k - 1] = pool.take()
        if not waiting[k]:
            pool.free.append(slot[k])
    return Outward(pool.count, np.array(source, dtype=np.int64), np.array(own, dtype=np.int64))


def inward_slots(parents: Integers) -> GatherSlots:
    """Slots for sums on their way in."""
    pool = _Pool(1)
    total = [0] * (len(parents) + 1)
    received, before, sent = ([0] * len(parents) for _ in range(3))
    for k, parent in zip(range(len(parents) - 1, -1, -1), reversed(parents.tolist()), strict=True):
        received[k] = total[k + 1]
        if total[k + 1]:
            pool.free.append(total[k + 1])
        before[k] = total[parent + 1]
        if not total[parent + 1]:
            total[parent + 1] = pool.take()
        sent[k] = total[parent + 1]
    return GatherSlots(pool.count, *(np.array(x, dtype=np.int64) for x in (received, before, sent)))


def record_places(shares: Sequence[Share]) -> tuple[dict[int, int], int]:
    """Places for the numbers that one type of body stores from loop to loop, and the length of its record.

    A place is free again in the loop that loads its number for the last time.
    """
    last = {n: loop for loop, share in enumerate(shares) for n in share.loaded}
    pool = _Pool(0)
    places: dict[int, int] = {}
    for loop, share in enumerate(shares):
        pool.free += sorted((places[n] for n in share.loaded if last[n] == loop), reverse=True)
        for n in share.stored:
            if n not in places:
                places[n] = pool.take()
    return places, pool.count
