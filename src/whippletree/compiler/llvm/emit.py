"""From a kernel program to instructions, for any target: blocks, loops, switches and lookups.

Where a statement depends on numbers of a state, lanes may part ways. One lane (or one GPU thread) branches. A vector of
lanes carries a *mask*: the body runs if some lane is in it, and only the lanes in it store; where others may run along,
these store, too, without having a say in what is run. Or lanes run one after the
other, each as if it were alone (:class:`~whippletree.compiler.program.PerLane`).

What differs between targets is where numbers live and how they are reached: the
:class:`~whippletree.compiler.llvm.target_memory.Memory` that a target supplies.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.packs import MOST_ROUNDS_BESIDE, WIDTH, Packs, find_packs
from whippletree.compiler.llvm.rounds_on_rows import RowRounds, emit_rounds_on_rows
from whippletree.compiler.llvm.straight_line import PackedRows, Readers, emit_straight
from whippletree.compiler.llvm.target_memory import Memory, Registers
from whippletree.compiler.program import (
    SHARES,
    Address,
    Block,
    Call,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    Others,
    PerLane,
    Program,
    Statement,
    Switch,
    Until,
)

ROUNDS_AHEAD = 4
"""Rounds of a loop over a list before which what one of them reads is fetched (``Each.ahead``)."""

COMPRESS = "llvm.experimental.vector.compress"
"""What moves some lanes of a vector to its front."""

BUNCH, FEWEST_BUNCHED = 8, 1024
"""Vectors full of flags that are looked at together, and flags from which on: of the 52 522 blocks of a kitchen some
thirty are in the list of a step."""

MOST_WRITTEN_GROUPS = 8
"""Groups of rounds side by side up to which a loop is written out: a row of a humanoid's velocities has six, whose
counting would cost as much as their arithmetic."""


Store = tuple[Address, int | float]
"""Where a result of a block goes: the node that it is, or a number that is known beforehand."""


class Parted(NamedTuple):
    """The lanes of a body in which not all of them are: those in hand, and those that store (None: all)."""

    mask: Operand
    storing: Operand | None


class CarriedNumber:
    """An integer (i64) that the rounds of a loop hand on to each other in a register."""

    def __init__(self, start: Operand) -> None:
        self.start = start
        self.now: Operand = ""
        """In the round in hand, and after the loop."""
        self.after: Operand = ""
        """In the next round: to be said by the body."""


def emit_body(program: Program, writer: Writer, memory: Memory) -> None:
    """Emit the statements of the program at the writer's current place; control flow leaves at its new place."""
    _Body(writer, memory).statements(program.body, {})


class _Body:
    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory
        self.lengths: dict[str, Operand] = {}
        """Where it is kept how many entries each list has, i64; of a list of single lanes, one number for each."""

    def statements(self, statements: Sequence[Statement], registers: Registers) -> None:
        known = dict(registers)
        for statement in statements:
            match statement:
                case Block():
                    self.block(statement, known)
                case Lookup():
                    known[statement.register] = self.lookup(statement, known)
                case Loop():
                    self.loop(statement, known)
                case Switch():
                    self.switch(statement, known)
                case If():
                    self.condition(statement, known)
                case Until():
                    self.until(statement, known)
                case Collect():
                    self.collect(statement, known)
                case Each():
                    self.each(statement, known)
                case PerLane():
                    self.per_lane(statement, known)
                case Call():
                    self.memory.call(statement)

    def block(self, block: Block, registers: Registers) -> None:
        if self.memory.copy_block(block, registers):
            return
        used = sorted({node[1] for node in block.code.nodes if node[0] == "input"})
        read = self.memory.prepare_loads([block.loads[i] for i in used], registers)
        place = {number: i for i, number in enumerate(used)}
        # buffers that the block does not read itself may be written before its end
        loaded = {address.buffer for address in block.loads}
        rows, late = self.rows(block, loaded, registers)
        in_rows = {number for groups in rows.packs.stored.values() for own in groups for number in own} if rows else ()
        stores = [(a, x) for i, (a, x) in enumerate(zip(block.stores, block.code.outputs)) if i not in in_rows]
        stores = self.without_constant_rows(stores, loaded, registers)
        early = self.memory.prepare_stores([a for a, _ in stores if a.buffer not in loaded], registers)
        waiting: dict[int, list[Address]] = {}
        for address, output in stores:
            if address not in early:
                continue
            if isinstance(output, int):
                waiting.setdefault(output, []).append(address)
            else:
                early[address](self.writer.constant(output))

        def ready(node: int, value: Operand) -> None:
            for address in waiting[node]:
                early[address](value)

        results = emit_straight(
            self.writer,
            block.code,
            lambda number: read(place[number]),
            self.memory.placement,
            ready,
            waiting,
            self.memory.pause,
            rows,
            self.readers(block, registers),
            max(self.memory.together, default=1),
        )
        result = dict(zip(block.stores, results, strict=True))
        self.store([(a, result[a]) for a, _ in stores if a not in early], registers)
        for address, vector in late:
            self.memory.store_row(address, vector, registers)
        self.memory.finish_stores()

    def without_constant_rows(self, stores: list[Store], loaded: Collection[str], registers: Registers) -> list[Store]:
        """Store a number that is known beforehand to neighbours in memory, some at once; returns what is left.

        Rows of a limb are zero but for its own velocities: a quarter of what a humanoid's blocks store.
        """
        w, rows = self.writer, defaultdict[tuple[Hashable, Operand], dict[int, int]](dict)
        for number, (address, output) in enumerate(stores):
            place = None if isinstance(output, int) or address.buffer in loaded else self.memory.neighbours(address)
            if place is not None:
                rows[place[0], w.constant(output)][place[1]] = number
        stored: set[int] = set()
        for (_, text), own in rows.items():
            for first in sorted(own):
                for width in (MOST_ROUNDS_BESIDE, WIDTH):
                    numbers = [own.get(first + k) for k in range(width)]
                    if not any(number is None or number in stored for number in numbers):
                        vector = w.constant_vector(text)
                        self.memory.store_row(stores[own[first]][0], vector, registers, width)
                        stored.update(number for number in numbers if number is not None)
                        break
        return [store for number, store in enumerate(stores) if number not in stored]

    def readers(self, block: Block, registers: Registers) -> Readers:
        """How inputs of a block can be read again: nothing that it reads is written before its end.

        Results that are stored before its end cannot: two of them may go to one place, whose indices are known to the
        running program only.
        """
        inputs = {i: block.loads[node[1]] for i, node in enumerate(block.code.nodes) if node[0] == "input"}
        return {
            node: partial(self.memory.read, address, registers)
            for node, address in inputs.items()
            if self.memory.holds_still(address)
        }

    def rows(
        self, block: Block, loaded: Collection[str], registers: Registers
    ) -> tuple[PackedRows | None, list[tuple[Address, Operand]]]:
        """Results of a block that vectors compute, if any; and a list that gets those to be stored at its end."""
        late: list[tuple[Address, Operand]] = []
        packs = self.packs(block)
        if packs is None:
            return None, late

        def load(number: int) -> Operand:
            return self.memory.load_row(block.loads[number], registers)

        def ready(pack: int, vector: Operand) -> None:
            for numbers in packs.stored.get(pack, ()):
                address = block.stores[numbers[0]]
                if address.buffer in loaded:
                    late.append((address, vector))
                else:
                    self.memory.store_row(address, vector, registers)

        return PackedRows(packs, load, ready), late

    def packs(self, block: Block) -> Packs | None:
        """Groups of operations that a vector does at once, see :mod:`~whippletree.compiler.llvm.packs`."""
        places = ((number, self.memory.neighbours(address)) for number, address in enumerate(block.loads))
        read = {number: found for number, found in places if found is not None}
        if not read:
            return None
        return find_packs(block.code, read, [self.memory.neighbours(address) for address in block.stores])

    def last_below(self, lookup: Lookup, registers: Registers) -> Operand | None:
        """The last number below the bound of a lookup, if it has one; without any, the call ends."""
        if lookup.below is None:
            return None
        most = self.count(lookup.below, registers)
        if isinstance(lookup.below, str):
            self.memory.leave(self.writer.value(f"icmp slt i64 {most}, 1"))
        return self.writer.value(f"sub i64 {most}, 1")

    def lookup(self, lookup: Lookup, registers: Registers) -> Operand:
        last = self.last_below(lookup, registers)
        if last is None:
            return self.memory.lookup(lookup.address, registers)
        if not self.memory.program.buffer(lookup.address.buffer).integer:
            return self.whole_part(self.memory.read(lookup.address, registers), last)
        return self.bring_within(self.memory.lookup(lookup.address, registers), last)

    def bring_within(self, number: Operand, last: Operand) -> Operand:
        """An integer brought into 0 … last, in each lane that the writer has."""
        w, kind = self.writer, self.writer.lanes.of("i64")
        none, last = ("0" if w.lanes.width == 1 else "zeroinitializer"), w.splat(last, "i64")
        below = w.value(f"icmp slt {kind} {number}, {none}")
        number = w.value(f"select {w.lanes.condition} {below}, {kind} {none}, {kind} {number}")
        beyond = w.value(f"icmp sgt {kind} {number}, {last}")
        return w.value(f"select {w.lanes.condition} {beyond}, {kind} {last}, {kind} {number}")

    def whole_part(self, number: Operand, last: Operand) -> Operand:
        """The whole part of a number of a single state, brought into 0 … last; 0 for NaN."""
        w, real = self.writer, self.writer.lanes.number
        most = w.value(f"sitofp i64 {last} to {real}")
        number = w.value(f"select i1 {w.value(f'fcmp ogt {real} {number}, 0.0')}, {real} {number}, {real} 0.0")
        number = w.value(f"select i1 {w.value(f'fcmp olt {real} {number}, {most}')}, {real} {number}, {real} {most}")
        return w.value(f"fptosi {real} {number} to i64")

    def store(self, pairs: Sequence[tuple[Address, Operand]], registers: Registers) -> None:
        self.memory.store([(a, self.memory.stored_form(a, x)) for a, x in pairs], registers)

    def loop(self, loop: Loop, registers: Registers) -> None:
        if loop.share is not None:
            count = self.count(loop.count, registers)
            emit_rounds_on_rows(
                self, RowRounds(loop.counter, loop.share, count, self.next_counts, loop.body), registers
            )
        elif loop.side_by_side and self.memory.together:
            self.side_by_side(loop, registers)
        else:
            with self.memory.copying_rows(loop, registers):
                self.one_by_one(loop, registers)

    def side_by_side(self, loop: Loop, registers: Registers) -> None:
        """Emit a loop whose rounds run side by side, as many as the target has lanes, and the rest one by one."""
        w = self.writer

        def several(first: Operand, width: int) -> None:
            with self.memory.rounds_as_lanes(loop.counter, width):
                self.statements(loop.body, {**registers, loop.counter: first})

        def in_groups(groups: Operand, width: int) -> None:
            with self.rounds(groups) as step:
                several(w.value(f"mul i64 {step}, {width}"), width)

        def single(number: Operand) -> None:
            self.statements(loop.body, {**registers, loop.counter: number})

        if isinstance(loop.count, int):
            done = 0
            for width in self.memory.together:
                whole = (loop.count - done) // width
                if not whole:
                    continue
                # of a single group nothing is read twice
                with self.memory.reading_once(loop, registers, width) if whole > 1 else nullcontext():
                    if whole <= MOST_WRITTEN_GROUPS:
                        for group in range(whole):
                            several(str(done + group * width), width)
                    else:
                        in_groups(str(whole), width)
                done += whole * width
            for number in range(done, loop.count):
                single(str(number))
        else:
            count, width = self.count(loop.count, registers), WIDTH
            groups = w.value(f"sdiv i64 {count}, {width}")
            in_groups(groups, width)
            known = w.value(f"mul i64 {groups}, {width}")
            with self.rounds(w.value(f"sub i64 {count}, {known}")) as step:
                single(w.value(f"add i64 {known}, {step}"))

    def one_by_one(self, loop: Loop, registers: Registers) -> None:
        w = self.writer
        count = self.count(loop.count, registers)
        with self.rounds(count) as step:
            if isinstance(loop.count, str):
                self.memory.poll()
            counter = step
            if loop.backwards:
                counter = w.value(f"sub i64 {w.value(f'sub i64 {count}, 1')}, {step}")
            self.statements(loop.body, {**registers, loop.counter: counter})

    def next_counts(self, first: Operand) -> Operand:
        """A number, and those that follow it where the writer has lanes."""
        w = self.writer
        if w.lanes.width == 1:
            return first
        return w.value(f"add {w.lanes.of('i64')} {w.splat(first, 'i64')}, {w.every_lane()}")

    @contextmanager
    def rounds(
        self, count: Operand, goes_on: Callable[[], Operand] | None = None, carried: CarriedNumber | None = None
    ) -> Iterator[Operand]:
        """Around the body of a loop: its step, from 0 up to a count, or until a condition (i1) no longer holds."""
        w = self.writer
        before, head, body, end = w.block, w.label("loop"), w.label("body"), w.label("end")
        w.emit(f"br label %{head}")
        w.start(head)
        step, after = w.fresh(), w.fresh()
        latch = w.label("latch")
        w.emit(f"{step} = phi i64 [ 0, %{before} ], [ {after}, %{latch} ]")
        if carried is not None:
            carried.now, next_ = w.fresh(), w.fresh()
            w.emit(f"{carried.now} = phi i64 [ {carried.start}, %{before} ], [ {next_}, %{latch} ]")
        more = w.value(f"icmp slt i64 {step}, {count}")
        if goes_on is not None:
            look = w.label("look")
            w.emit(f"br i1 {more}, label %{look}, label %{end}")
            w.start(look)
            more = goes_on()
        w.emit(f"br i1 {more}, label %{body}, label %{end}")
        w.start(body)
        yield step
        w.emit(f"br label %{latch}")
        w.start(latch)
        w.emit(f"{after} = add i64 {step}, 1")
        if carried is not None:
            w.emit(f"{next_} = add i64 {carried.after}, 0")
        w.emit(f"br label %{head}")
        w.start(end)

    def count(self, count: Dimension | Index, registers: Registers) -> Operand:
        if isinstance(count, Index):
            return self.memory.index(count, registers)
        return str(count) if isinstance(count, int) else self.memory.count(count)

    # ---- where lanes part ways -----------------------------------------------------------------------------------

    def positive(self, address: Address, registers: Registers, holds: bool = True) -> Operand:
        """The lanes in which a number is positive; or (``holds`` false) in which it is not."""
        w = self.writer
        value = self.memory.read(address, registers)
        # a NaN is not positive, so it takes the unordered comparison to find what is not
        operands = (w.constant(0.0), value)
        return w.compare("olt", *operands) if holds else w.compare("uge", *operands)

    def among(self, condition: Operand, lanes: Operand | None) -> Operand:
        """Which of some lanes (None: all) are those in which a condition holds."""
        if lanes is None:
            return condition
        return self.writer.value(f"and {self.writer.lanes.condition} {condition}, {lanes}")

    def part_lanes(self, condition: Operand, others: Others) -> Parted:
        """The lanes of a body that a condition decides about."""
        memory = self.memory
        mask = self.among(condition, memory.mask)
        if others != "wait":
            return Parted(mask, memory.storing)
        return Parted(mask, mask if memory.storing == memory.mask else self.among(condition, memory.storing))

    @contextmanager
    def only(self, lanes: Parted) -> Iterator[None]:
        """Around statements that only these lanes run; one lane has branched already."""
        memory = self.memory
        outer = memory.mask, memory.storing
        if self.writer.lanes.width > 1:
            memory.mask, memory.storing = lanes
        yield
        memory.mask, memory.storing = outer

    @contextmanager
    def unless_none(self, some: Operand, lanes: Parted) -> Iterator[None]:
        """Around statements that these lanes run, skipped if there is none of ``some`` of them."""
        w = self.writer
        body, end = w.label("then"), w.label("end")
        w.emit(f"br i1 {w.any(some)}, label %{body}, label %{end}")
        w.start(body)
        with self.only(lanes):
            yield
        w.emit(f"br label %{end}")
        w.start(end)

    def condition(self, condition: If, registers: Registers) -> None:
        lanes = self.part_lanes(self.positive(condition.flag, registers), condition.others)
        with self.unless_none(lanes.mask, lanes):
            self.statements(condition.body, registers)

    def until(self, until: Until, registers: Registers) -> None:
        left: list[Parted] = []

        def goes_on() -> Operand:
            left.append(self.part_lanes(self.positive(until.done, registers, holds=False), until.others))
            return self.writer.any(left[0].mask)

        with self.rounds(str(until.most), goes_on) as step, self.only(left[0]):
            if self.memory.program.is_scalar:
                # a solution of a large scene may take seconds
                self.memory.poll()
            self.statements(until.body, {**registers, until.counter: step})

    def collect(self, collect: Collect, registers: Registers) -> None:
        """Entries and their lanes are written one after the other; one in which there is no lane is overwritten.

        Lanes that run along have their entries, too.
        """
        w = self.writer
        self.lengths[collect.list] = w.stack(f"[{self.memory.states} x i64]" if self.memory.lane else "i64", 8)
        length = self.length(collect.list)
        # the number of entries stays in a register: the next round would have to wait for memory
        total = CarriedNumber("0")
        if self.has_groups(collect):
            self.collect_in_groups(collect, registers, total)
        else:
            with self.rounds(self.count(collect.count, registers), carried=total) as step:
                total.after = self.enter_lanes(collect, step, total.now, registers)
        w.emit(f"store i64 {total.now}, ptr {length}")

    def enter_lanes(self, collect: Collect, step: Operand, number: Operand, registers: Registers) -> Operand:
        """Write an entry and its lanes at a place of a list; returns the place of the next one."""
        w, lanes = self.writer, self.writer.lanes
        flagged = self.positive(collect.flag, {**registers, collect.counter: step})
        those = self.among(flagged, self.memory.storing)
        entry = self.enter(collect, step, number)
        if lanes.width > 1:
            bits = w.value(f"bitcast {lanes.condition} {those} to i{lanes.width}")
            w.emit(f"store {lanes.bits} {w.value(f'zext i{lanes.width} {bits} to {lanes.bits}')}, {self.second(entry)}")
        return w.value(f"add i64 {number}, {w.value(f'zext i1 {w.any(those)} to i64')}")

    def enter(self, collect: Collect, step: Operand, number: Operand) -> str:
        """Write an entry at a place of a list; returns a typed pointer to it."""
        w, lanes = self.writer, self.writer.lanes
        own = step if lanes.bits == "i64" else w.value(f"trunc i64 {step} to {lanes.bits}")
        entry = self.memory.list_entry(collect.list, number)
        w.emit(f"store {lanes.bits} {own}, {entry}")
        return entry

    def has_groups(self, collect: Collect) -> bool:
        """Whether the flags of a list lie side by side, for the one lane that there is."""
        *rows, last = (index.register for index in collect.flag.indices)
        beside = last == collect.counter and collect.counter not in rows
        few = max(self.memory.together, default=math.inf)
        counted = isinstance(collect.count, int) and collect.count >= few
        return beside and counted and self.memory.neighbours(collect.flag) is not None

    def collect_in_groups(self, collect: Collect, registers: Registers, total: CarriedNumber) -> None:
        """Collect for one lane, whose flags lie side by side: as a rule few of them are positive, so that several are
        looked at together, and entered only if there is one among them."""
        width = max(self.memory.together)
        assert isinstance(collect.count, int)
        whole, bunched = collect.count // width, 0
        if collect.count >= FEWEST_BUNCHED:
            bunched = whole // BUNCH * BUNCH
            self.collect_in_bunches(collect, registers, total, bunched // BUNCH)
            total.start = total.now
        with self.rounds(str(whole - bunched), carried=total) as group:
            first = self.writer.value(f"mul i64 {group}, {width}")
            if bunched:
                first = self.writer.value(f"add i64 {first}, {bunched * width}")
            total.after = self.collect_group(collect, first, registers, total.now)
        for k in range(whole * width, collect.count):
            total.now = self.enter_lanes(collect, str(k), total.now, registers)

    def collect_in_bunches(self, collect: Collect, registers: Registers, total: CarriedNumber, bunches: int) -> None:
        """Several groups at a time, of which one is hardly ever among long rows of flags: these are skipped by one
        branch."""
        w, width = self.writer, max(self.memory.together)
        with self.rounds(str(bunches), carried=total) as bunch:
            first = w.value(f"mul i64 {bunch}, {BUNCH * width}")
            found = self.flags_of_group(collect, first, registers)
            for k in range(1, BUNCH):
                own = self.flags_of_group(collect, w.value(f"add i64 {first}, {k * width}"), registers)
                found = w.value(f"or <{width} x i1> {found}, {own}")
            bits = w.value(f"bitcast <{width} x i1> {found} to i{width}")
            before, some, end = w.block, w.label("some"), w.label("none")
            w.emit(f"br i1 {w.value(f'icmp ne i{width} {bits}, 0')}, label %{some}, label %{end}")
            w.start(some)
            within = CarriedNumber(total.now)
            with self.rounds(str(BUNCH), carried=within) as group:
                place = w.value(f"add i64 {first}, {w.value(f'mul i64 {group}, {width}')}")
                within.after = self.collect_group(collect, place, registers, within.now)
            last = w.block
            w.emit(f"br label %{end}")
            w.start(end)
            total.after = w.value(f"phi i64 [ {total.now}, %{before} ], [ {within.now}, %{last} ]")

    def flags_of_group(self, collect: Collect, first: Operand, registers: Registers) -> Operand:
        """Which flags are positive, of a vector full of them."""
        with self.memory.rounds_as_lanes(collect.counter, max(self.memory.together)):
            return self.positive(collect.flag, {**registers, collect.counter: first})

    def collect_group(self, collect: Collect, first: Operand, registers: Registers, number: Operand) -> Operand:
        """Write those of a vector full of entries that are flagged; returns the place of the next one."""
        w, width = self.writer, max(self.memory.together)
        flagged = self.flags_of_group(collect, first, registers)
        bits = w.value(f"bitcast <{width} x i1> {flagged} to i{width}")
        before, some, end = w.block, w.label("some"), w.label("none")
        w.emit(f"br i1 {w.value(f'icmp ne i{width} {bits}, 0')}, label %{some}, label %{end}")
        w.start(some)
        entered = self.enter_group(collect, first, number, bits, width)
        last = w.block
        w.emit(f"br label %{end}")
        w.start(end)
        return w.value(f"phi i64 [ {number}, %{before} ], [ {entered}, %{last} ]")

    def enter_group(self, collect: Collect, first: Operand, number: Operand, bits: Operand, width: int) -> Operand:
        """Write those of some entries from ``first`` on whose bits are set, at a place of a list; returns the place of
        the next one. What is stored beyond them is overwritten, or behind the end of the list but within its room."""
        w, kind = self.writer, self.writer.lanes.bits
        own = first if kind == "i64" else w.value(f"trunc i64 {first} to {kind}")
        steps = ", ".join(f"{kind} {k}" for k in range(width))
        several = f"<{width} x {kind}>"
        every = w.value(f"insertelement {several} poison, {kind} {own}, i32 0")
        every = w.value(f"shufflevector {several} {every}, {several} poison, <{width} x i32> zeroinitializer")
        every = w.value(f"add {several} {every}, <{steps}>")
        those = w.value(f"bitcast i{width} {bits} to <{width} x i1>")
        w.called.add(COMPRESS)
        found = w.value(
            f"call {several} @{COMPRESS}.v{width}{kind}({several} {every}, <{width} x i1> {those}, {several} poison)"
        )
        entry = self.memory.list_entry(collect.list, number)
        w.emit(f"store {several} {found}, {entry}, align {int(kind[1:]) // 8}")
        count = w.value(f"call i{width} @llvm.ctpop.i{width}(i{width} {bits})")
        return w.value(f"add i64 {number}, {w.value(f'zext i{width} {count} to i64')}")

    def length(self, name: str) -> Operand:
        """A pointer to the number of entries of a list, of the lane in hand if that is alone."""
        place = self.lengths[name]
        if self.memory.lane is None:
            return place
        return self.writer.value(f"getelementptr i64, ptr {place}, i64 {self.memory.lane}")

    def second(self, entry: str) -> str:
        """Behind the number of an entry: its lanes, bit by bit."""
        return f"ptr {self.writer.value(f'getelementptr {self.writer.lanes.bits}, {entry}, i64 1')}"

    def each(self, each: Each, registers: Registers) -> None:
        w, lanes = self.writer, self.writer.lanes
        count = w.value(f"load i64, ptr {self.length(each.list)}")
        if each.share is not None and lanes.width == 1:
            entries = partial(self.entry, each.list)
            emit_rounds_on_rows(self, RowRounds(each.register, each.share, count, entries, each.body), registers)
            return
        with self.rounds(count) as step:
            if each.backwards:
                step = w.value(f"sub i64 {w.value(f'sub i64 {count}, 1')}, {step}")
            entry = self.memory.list_entry(each.list, step)
            number = w.value(f"load {lanes.bits}, {entry}")
            if each.ahead is not None and lanes.width == 1:
                self.fetch_ahead(each, step, count)
            if lanes.bits != "i64":
                number = w.value(f"sext {lanes.bits} {number} to i64")
            known = {**registers, each.register: number}
            if each.share is not None:
                known[each.share] = w.value(f"and i64 {step}, {SHARES - 1}")
            if lanes.width == 1:
                self.statements(each.body, known)
            else:
                bits = w.value(f"load {lanes.bits}, {self.second(entry)}")
                those = w.value(f"trunc {lanes.bits} {bits} to i{lanes.width}")
                entered = self.part_lanes(w.value(f"bitcast i{lanes.width} {those} to {lanes.condition}"), "wait")
                assert entered.storing is not None  # those that wait do not store
                with self.unless_none(entered.storing, entered):
                    self.statements(each.body, known)

    def entry(self, name: str, step: Operand) -> Operand:
        """An entry of a list of one lane, and those that follow it where the writer has lanes: rounds of the list."""
        w, lanes = self.writer, self.writer.lanes
        number = w.value(f"load {lanes.of(lanes.bits)}, {self.memory.list_entry(name, step)}, align {lanes.bytes}")
        return number if lanes.bits == "i64" else w.value(f"sext {lanes.of(lanes.bits)} {number} to {lanes.of('i64')}")

    def fetch_ahead(self, each: Each, step: Operand, count: Operand) -> None:
        """Fetch the row of a number some rounds after a step, or of the last one."""
        w, bits = self.writer, self.writer.lanes.bits
        assert each.ahead is not None
        if each.backwards:
            later = w.value(f"sub i64 {step}, {ROUNDS_AHEAD}")
            later = w.value(f"select i1 {w.value(f'icmp slt i64 {later}, 0')}, i64 0, i64 {later}")
        else:
            later, last = w.value(f"add i64 {step}, {ROUNDS_AHEAD}"), w.value(f"sub i64 {count}, 1")
            later = w.value(f"select i1 {w.value(f'icmp sgt i64 {later}, {last}')}, i64 {last}, i64 {later}")
        row = w.value(f"load {bits}, {self.memory.list_entry(each.list, later)}")
        self.memory.fetch(each.ahead, row if bits == "i64" else w.value(f"sext {bits} {row} to i64"))

    def per_lane(self, statement: PerLane, registers: Registers) -> None:
        """One lane of those in hand after the other; a target that works on one has nothing to do for it."""
        w, lanes, mask = self.writer, self.writer.lanes, self.memory.mask
        if lanes.width == 1:
            self.statements(statement.body, registers)
            return
        bits = None
        if mask is not None:
            whole = w.value(f"bitcast {lanes.condition} {mask} to i{lanes.width}")
            bits = w.value(f"zext i{lanes.width} {whole} to i64")
        with self.rounds(str(lanes.width)) as lane:
            after = w.label("next_lane")
            if bits is not None:
                own = w.value(f"trunc i64 {w.value(f'lshr i64 {bits}, {lane}')} to i1")
                body = w.label("alone")
                w.emit(f"br i1 {own}, label %{body}, label %{after}")
                w.start(body)
            with self.memory.one_lane(lane):
                self.statements(statement.body, registers)
            w.emit(f"br label %{after}")
            w.start(after)

    def switch(self, switch: Switch, registers: Registers) -> None:
        w = self.writer
        labels = [w.label("case") for _ in switch.cases]
        impossible, end = w.label("impossible"), w.label("join")
        table = " ".join(f"i64 {number}, label %{label}" for number, label in enumerate(labels))
        w.emit(f"switch i64 {registers[switch.register]}, label %{impossible} [ {table} ]")
        for label, case in zip(labels, switch.cases, strict=True):
            w.start(label)
            self.statements(case, registers)
            w.emit(f"br label %{end}")
        # the bounds check has proved that the register holds the number of a case
        w.start(impossible)
        w.emit("unreachable")
        w.start(end)
