"""Lists that a program makes as it runs: collecting the numbers whose flags are positive, and going through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whippletree.compiler.llvm.control_flow import CarriedNumber, ControlFlow
from whippletree.compiler.llvm.ir import Operand
from whippletree.compiler.llvm.target_memory import Registers
from whippletree.compiler.program import SHARES, Collect, Each

ROUNDS_AHEAD = 4
"""Rounds of a loop over a list before which what one of them reads is fetched (``Each.ahead``)."""

COMPRESS = "llvm.experimental.vector.compress"
"""What moves some lanes of a vector to its front."""

BUNCH, FEWEST_BUNCHED = 64, 1024
"""Flags that are looked at together, as bits of a word, and flags from which on: of the 52 522 blocks of a kitchen some
thirty are in the list of a step."""


class ListWriter:
    """Emits the making of lists, and loops over them."""

    def __init__(self, flow: ControlFlow) -> None:
        self.flow = flow
        self.writer = flow.writer
        self.memory = flow.memory
        self.lengths: dict[str, Operand] = {}
        """Where it is kept how many entries each list has, i64; of a list of single lanes, one number for each."""

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
            with self.flow.rounds(self.flow.count(collect.count, registers), carried=total) as step:
                total.after = self.enter_lanes(collect, step, total.now, registers)
        w.emit(f"store i64 {total.now}, ptr {length}")

    def enter_lanes(self, collect: Collect, step: Operand, number: Operand, registers: Registers) -> Operand:
        """Write an entry and its lanes at a place of a list; returns the place of the next one."""
        w, lanes = self.writer, self.writer.lanes
        flagged = self.flow.positive(collect.flag, {**registers, collect.counter: step})
        those = self.flow.among(flagged, self.memory.storing)
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
        whole, bunches = collect.count // width, 0
        if collect.count >= FEWEST_BUNCHED:
            bunches = collect.count // BUNCH
            self.collect_in_bunches(collect, registers, total, bunches)
            total.start = total.now
        with self.flow.rounds(str(whole - bunches * BUNCH // width), carried=total) as group:
            first = self.writer.value(f"mul i64 {group}, {width}")
            if bunches:
                first = self.writer.value(f"add i64 {first}, {bunches * BUNCH}")
            total.after = self.collect_group(collect, first, self.bits_of_group(collect, first, registers), total.now)
        for k in range(whole * width, collect.count):
            total.now = self.enter_lanes(collect, str(k), total.now, registers)

    def collect_in_bunches(self, collect: Collect, registers: Registers, total: CarriedNumber, bunches: int) -> None:
        """Several groups at a time, of which one is hardly ever among long rows of flags: these are skipped by one
        branch."""
        w, width = self.writer, max(self.memory.together)
        with self.flow.rounds(str(bunches), carried=total) as bunch:
            first, word = w.value(f"mul i64 {bunch}, {BUNCH}"), "0"
            for before in range(0, BUNCH, width):
                bits = self.bits_of_group(collect, w.value(f"add i64 {first}, {before}"), registers)
                moved = w.value(f"shl i64 {w.value(f'zext i{width} {bits} to i64')}, {before}")
                word = w.value(f"or i64 {word}, {moved}")

            def each_group(number: Operand) -> Operand:
                within = CarriedNumber(number)
                with self.flow.rounds(str(BUNCH // width), carried=within) as group:
                    before = w.value(f"mul i64 {group}, {width}")
                    bits = w.value(f"trunc i64 {w.value(f'lshr i64 {word}, {before}')} to i{width}")
                    within.after = self.collect_group(collect, w.value(f"add i64 {first}, {before}"), bits, within.now)
                return within.now

            total.after = self.if_any(word, 64, total.now, each_group)

    def bits_of_group(self, collect: Collect, first: Operand, registers: Registers) -> Operand:
        """Which flags are positive, of a vector full of them: an integer with a bit for each."""
        width = max(self.memory.together)
        with self.memory.rounds_as_lanes(collect.counter, width):
            flagged = self.flow.positive(collect.flag, {**registers, collect.counter: first})
        return self.writer.value(f"bitcast <{width} x i1> {flagged} to i{width}")

    def collect_group(self, collect: Collect, first: Operand, bits: Operand, number: Operand) -> Operand:
        """Write those of a vector full of entries whose bits are set; returns the place of the next one."""
        width = max(self.memory.together)
        return self.if_any(bits, width, number, lambda place: self.enter_group(collect, first, place, bits, width))

    def if_any(self, bits: Operand, width: int, number: Operand, body: Callable[[Operand], Operand]) -> Operand:
        """Write entries if a bit is set that says so, from a place of a list on; returns the place of the next one."""
        w = self.writer
        before, some, end = w.block, w.label("some"), w.label("none")
        w.emit(f"br i1 {w.value(f'icmp ne i{width} {bits}, 0')}, label %{some}, label %{end}")
        w.start(some)
        entered = body(number)
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

    @contextmanager
    def each(self, each: Each, registers: Registers) -> Iterator[Registers]:
        """Around the body of a loop over a list: the registers that it knows."""
        w, lanes = self.writer, self.writer.lanes
        count = self.count(each.list)
        with self.flow.rounds(count) as step:
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
                yield known
            else:
                bits = w.value(f"load {lanes.bits}, {self.second(entry)}")
                those = w.value(f"trunc {lanes.bits} {bits} to i{lanes.width}")
                entered = self.flow.part_lanes(w.value(f"bitcast i{lanes.width} {those} to {lanes.condition}"), "wait")
                assert entered.storing is not None  # those that wait do not store
                with self.flow.unless_none(entered.storing, entered):
                    yield known

    def count(self, name: str) -> Operand:
        """The number of entries of a list."""
        return self.writer.value(f"load i64, ptr {self.length(name)}")

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
