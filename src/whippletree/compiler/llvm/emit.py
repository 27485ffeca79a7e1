"""From a kernel program to instructions, for any target: blocks, loops, switches and lookups.

Where a statement depends on numbers of a state, lanes may part ways. One lane (or one GPU thread) branches. A vector of
lanes carries a *mask*: the body runs if some lane is in it, and only the lanes in it store; where others may run along,
these store, too, without having a say in what is run. Or lanes run one after the
other, each as if it were alone (:class:`~whippletree.compiler.program.PerLane`).

What differs between targets is where numbers live and how they are reached: the
:class:`~whippletree.compiler.llvm.target_memory.Memory` that a target supplies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from contextlib import nullcontext
from functools import partial

from whippletree.compiler.llvm.control_flow import ControlFlow, Parted
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.lists import ListWriter
from whippletree.compiler.llvm.packs import MOST_ROUNDS_BESIDE, WIDTH, Packs, find_packs
from whippletree.compiler.llvm.rounds_on_rows import RowRounds, emit_rounds_on_rows
from whippletree.compiler.llvm.straight_line import PackedRows, Readers, emit_straight
from whippletree.compiler.llvm.target_memory import Memory, Registers
from whippletree.compiler.program import (
    Address,
    Block,
    Call,
    Collect,
    Each,
    If,
    Lookup,
    Loop,
    PerLane,
    Program,
    Statement,
    Switch,
    Until,
)

MOST_WRITTEN_GROUPS = 8
"""Groups of rounds side by side up to which a loop is written out: a row of a humanoid's velocities has six, whose
counting would cost as much as their arithmetic."""


Store = tuple[Address, int | float]
"""Where a result of a block goes: the node that it is, or a number that is known beforehand."""


def emit_body(program: Program, writer: Writer, memory: Memory, registers: Registers | None = None) -> None:
    """Emit the statements of the program at the writer's current place; control flow leaves at its new place.

    ``registers``: those of the target, which are known from the start.
    """
    _Body(writer, memory).statements(program.body, registers or {})


class _Body:
    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory
        self.flow = ControlFlow(writer, memory)
        self.lists = ListWriter(self.flow)

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
                    self.lists.collect(statement, known)
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
        most = self.flow.count(lookup.below, registers)
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
            count = self.flow.count(loop.count, registers)
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
            with self.flow.rounds(groups) as step:
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
            count, width = self.flow.count(loop.count, registers), WIDTH
            groups = w.value(f"sdiv i64 {count}, {width}")
            in_groups(groups, width)
            known = w.value(f"mul i64 {groups}, {width}")
            with self.flow.rounds(w.value(f"sub i64 {count}, {known}")) as step:
                single(w.value(f"add i64 {known}, {step}"))

    def one_by_one(self, loop: Loop, registers: Registers) -> None:
        w = self.writer
        count = self.flow.count(loop.count, registers)
        with self.flow.rounds(count) as step:
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

    def each(self, each: Each, registers: Registers) -> None:
        if each.share is not None and self.writer.lanes.width == 1:
            entries, count = partial(self.lists.entry, each.list), self.lists.count(each.list)
            emit_rounds_on_rows(self, RowRounds(each.register, each.share, count, entries, each.body), registers)
            return
        with self.lists.each(each, registers) as inner:
            self.statements(each.body, inner)

    def condition(self, condition: If, registers: Registers) -> None:
        lanes = self.flow.part_lanes(self.flow.positive(condition.flag, registers), condition.others)
        with self.flow.unless_none(lanes.mask, lanes):
            self.statements(condition.body, registers)

    def until(self, until: Until, registers: Registers) -> None:
        left: list[Parted] = []

        def goes_on() -> Operand:
            left.append(self.flow.part_lanes(self.flow.positive(until.done, registers, holds=False), until.others))
            return self.writer.any(left[0].mask)

        with self.flow.rounds(str(until.most), goes_on) as step, self.flow.only(left[0]):
            if self.memory.program.is_scalar:
                # a solution of a large scene may take seconds
                self.memory.poll()
            self.statements(until.body, {**registers, until.counter: step})

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
        with self.flow.rounds(str(lanes.width)) as lane:
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
