"""Inputs and results of large kernels by way of shared memory, in short loops instead of a few instructions for each.

A multiprocessor fetches instructions through caches of 32 and 128 kB. Straight-line code that is longer runs at the
rate of the second-level cache, a third of the card's: on an H200, forward dynamics of a humanoid at 142 kB waited for
instructions most of its time. So what is the same for many numbers is written once:

    reading    every input is copied to shared memory, where a value that waits for its use takes no register
    angles     sines and cosines of neighbouring coordinates
    writing    results wait in shared memory too and are written together

Arrays that hold state after state, ``(batch, n)``, are copied by the 32 threads of a warp together: neighbouring
threads read neighbouring numbers. In any other layout each thread copies its own state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

from whippletree.arithmetic.trace import Node, Straight
from whippletree.arithmetic.trace.passes import live
from whippletree.compiler.cuda.ptx_memory import RESULTS, WAITING, WARP, Aside
from whippletree.compiler.cuda.walks import Handed, Walk, roll_loop
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.sine import sines_and_cosines
from whippletree.compiler.program import Address, Block, Buffer, Index, Program, every_block

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
class AnglesOfArray:
    """Likewise, of neighbours in an array from an address on."""

    angle: Address
    sine: int
    cosine: int
    count: int


@dataclass(frozen=True)
class Staging:
    """Which numbers go through shared memory. Input number i of the code waits in slot i, for i below ``waiting``."""

    inputs: tuple[tuple[int, Buffer], ...] = ()  # first slot, array
    angles: tuple[Angles | AnglesOfArray, ...] = ()
    results: tuple[Buffer, ...] = ()  # their numbers are the first outputs of the code, in this order
    waiting: int = 0


def results(code: Straight, staging: Staging) -> list[int]:
    """The nodes whose values are left in shared memory."""
    count = sum(b.size for b in staging.results)
    return [node for node in code.outputs[:count] if isinstance(node, int)]


# ---- the program, with its inputs waiting ----------------------------------------------------------------------------


def stage_program(program: Program, room: int) -> tuple[Program, Staging]:
    """The program as its main part sees it, and what is done before and after. Unchanged if it has loops itself."""
    match program.body:
        case (Block() as block,):
            return _Division(program, block).divide(room)
    return program, Staging()


def stage_angles(program: Program) -> tuple[Program, Staging]:
    """The one block of a program with sines and cosines waiting, whose angles are read where they are."""
    (block,) = every_block(program.body)
    nodes = list(block.code.nodes)
    wanted: dict[tuple[str, str | None], dict[int, dict[str, int]]] = {}  # by array and register, offset -> node
    for i, node in enumerate(nodes):
        if node[0] in ("sin", "cos") and nodes[node[1]][0] == "input":
            address = block.loads[nodes[node[1]][1]]
            if len(address.indices) == 1 and address.buffer in {b.name for b in program.of_role("input")}:
                (index,) = address.indices
                wanted.setdefault((address.buffer, index.register), {}).setdefault(index.offset, {})[node[0]] = i
    runs: list[AnglesOfArray] = []
    free = 0
    for (array, register), own in wanted.items():
        for places in _neighbours(own):
            run = AnglesOfArray(Address(array, (Index(register, places[0]),)), free, free + len(places), len(places))
            free += 2 * len(places)
            runs.append(run)
            for i, place in enumerate(places):
                for name, number in own[place].items():
                    nodes[number] = (WAITS, (run.sine if name == "sin" else run.cosine) + i)
    nodes = [("input", free + n[1]) if n[0] == "input" else ("input", n[1]) if n[0] == WAITS else n for n in nodes]
    loads = tuple(Address(WAITING, (Index(None, i),)) for i in range(free))
    changed = Block(live(Straight(nodes, block.code.outputs)), (*loads, *block.loads), block.stores)
    extra = (Buffer(WAITING, "work", (free,)),) if free else ()
    staged = replace(program, buffers=(*program.buffers, *extra), body=(changed,))
    return staged, Staging(angles=tuple(runs), waiting=free)


WAITS = "waits"
"""A node that is in a slot of that number."""


def _neighbours(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Runs of numbers that follow each other, as long as they are worth a loop."""
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in group]
        if len(found) >= SHORTEST_RUN:
            yield found


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

    def divide(self, room: int) -> tuple[Program, Staging]:
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
        return self._rewrite(nodes, rest, staging), staging

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
        for slots in _neighbours(wanted):
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

    def _rewrite(self, nodes: list[Node], rest: Sequence[int], staging: Staging) -> Program:
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


# --- the code that copies, and sines in loops -------------------------------------------------------------------------


GROUP = 3
"""Numbers of each array that one pass of a loop copies: so many are under way at once."""

ANGLES = 2
"""Angles that one pass of a loop treats."""

Copy = Callable[[Sequence[Operand], Sequence[Operand]], None]
"""Emits the copying of some numbers: their slots, and their addresses in an array."""


@dataclass(frozen=True)
class ArrayPlace:
    """Where an array is: operands of its address, of the step from state to state and of the stride, in bytes."""

    pointer: Operand
    step: Operand
    stride: Operand


@dataclass(frozen=True)
class _Array:
    """An array and its first slot."""

    first: int
    size: int
    place: ArrayPlace


class Stager:
    """Emits the copying. ``state`` is the number of this thread's state (i64), ``lane`` its place in the warp (i32)."""

    def __init__(self, writer: Writer, aside: Aside, state: Operand, lane: Operand, copies: bool) -> None:
        self.writer = writer
        self.aside = aside
        self.state = state
        self.lane = lane
        self.copies = copies  # the hardware copies by itself, without waiting: capability 8.0 and newer
        self.real = writer.lanes.real
        self.bytes = writer.lanes.bytes

    def read(self, staging: Staging, places: dict[str, ArrayPlace], place_of: Callable[[Address], ArrayPlace]) -> None:
        """Inputs to their slots, then sines and cosines to theirs. ``place_of`` emits where a number of a state is."""
        arrays = [_Array(first, b.size, places[b.name]) for first, b in staging.inputs]

        def rows() -> None:
            self._side_by_side([self._row(array, self._copies_in) for array in arrays])
            self._wait_for_copies()
            self._wait_for_warp()

        def columns() -> None:
            self._side_by_side([self._column(array, self._copies_in) for array in arrays])
            self._wait_for_copies()

        if arrays:
            self._either(arrays, rows, columns)
        for run in staging.angles:
            self._angles(run) if isinstance(run, Angles) else self._angles_of_array(run, place_of(run.angle))

    def write(self, staging: Staging, places: dict[str, ArrayPlace]) -> None:
        """Results from their slots to the outputs."""
        starts = accumulate((b.size for b in staging.results), initial=0)
        arrays = [_Array(first, b.size, places[b.name]) for first, b in zip(starts, staging.results, strict=False)]

        def rows() -> None:
            self._wait_for_warp()
            self._side_by_side([self._row(array, self._copies_out) for array in arrays])

        def columns() -> None:
            self._side_by_side([self._column(array, self._copies_out) for array in arrays])

        if arrays:
            self._either(arrays, rows, columns)

    # ---- copying -------------------------------------------------------------------------------------------------

    def _either(self, arrays: Sequence[_Array], rows: Callable[[], None], columns: Callable[[], None]) -> None:
        """By rows if every array lies state after state without gaps and all threads of the warp have one."""
        w = self.writer
        last = w.value(f"add i64 {self._first_state()}, {WARP}")
        dense = w.value(f"icmp sle i64 {last}, %states")
        for array in arrays:
            for operand, bytes_ in ((array.place.step, array.size * self.bytes), (array.place.stride, self.bytes)):
                dense = w.value(f"and i1 {dense}, {w.value(f'icmp eq i64 {operand}, {bytes_}')}")
        together, alone, join = w.label("rows"), w.label("columns"), w.label("join")
        w.emit(f"br i1 {dense}, label %{together}, label %{alone}")
        for label, emit in ((together, rows), (alone, columns)):
            w.start(label)
            emit()
            w.emit(f"br label %{join}")
        w.start(join)

    def _column(self, array: _Array, copy: Copy) -> Walk:
        """Every thread walks over the numbers of its own state."""
        place = array.place
        start = self._move_pointer(place.pointer, self.writer.value(f"mul i64 {self.state}, {place.step}"))

        def step(at: Handed, count: int) -> Handed:
            slots = [self.aside.beyond(at[1], i) for i in range(count + 1)]
            numbers = [at[0]]
            for _ in range(count):
                numbers.append(self._move_pointer(numbers[-1], place.stride))
            copy(slots[:count], numbers[:count])
            return [numbers[-1], slots[-1]]

        return Walk(array.size, [("ptr addrspace(1)", start), ("ptr addrspace(3)", self.aside.slot(array.first))], step)

    def _row(self, array: _Array, copy: Copy) -> Walk:
        """The warp walks over the numbers of its states together, 32 at a time."""
        w, size, pitch = self.writer, array.size, self.aside.pitch
        member, position = (w.value(f"{o} i32 {self.lane}, {size}") for o in ("udiv", "urem"))
        slot = self._element(self._of_warp(array.first), w.value(f"mul i32 {position}, {pitch}"))
        whole, rest = divmod(WARP, size)
        within, across = rest * pitch + whole, (rest - size) * pitch + whole + 1

        def step(at: Handed, count: int) -> Handed:
            number, slot, position = at
            slots = []
            for _ in range(count):
                slots.append(slot)
                further = w.value(f"add i32 {position}, {rest}")
                wraps = w.value(f"icmp uge i32 {further}, {size}")
                position = w.value(f"select i1 {wraps}, i32 {w.value(f'sub i32 {further}, {size}')}, i32 {further}")
                slot = self._element(slot, w.value(f"select i1 {wraps}, i32 {across}, i32 {within}"))
            numbers = [self._move_pointer(number, str(i * WARP * self.bytes)) for i in range(count + 1)]
            copy(slots, numbers[:count])
            return [numbers[-1], slot, position]

        start = [("ptr addrspace(1)", self._own_element(array)), ("ptr addrspace(3)", self._element(slot, member))]
        return Walk(size, [*start, ("i32", position)], step)

    def _copies_in(self, slots: Sequence[Operand], numbers: Sequence[Operand]) -> None:
        w = self.writer
        for slot, number in zip(slots, numbers, strict=True):
            if self.copies:
                pointers = f"ptr addrspace(3) {slot}, ptr addrspace(1) {number}"
                w.emit(f"call void @llvm.nvvm.cp.async.ca.shared.global.{self.bytes}({pointers})")
            else:
                value = w.value(f"load {self.real}, ptr addrspace(1) {number}")
                w.emit(f"store {self.real} {value}, ptr addrspace(3) {slot}")

    def _copies_out(self, slots: Sequence[Operand], numbers: Sequence[Operand]) -> None:
        w = self.writer
        values = [w.value(f"load {self.real}, ptr addrspace(3) {slot}") for slot in slots]
        for value, number in zip(values, numbers, strict=True):
            w.emit(f"store {self.real} {w.canonical(value)}, ptr addrspace(1) {number}")

    def _wait_for_copies(self) -> None:
        if self.copies:
            self.writer.emit("call void @llvm.nvvm.cp.async.wait.all()")

    def _wait_for_warp(self) -> None:
        self.writer.emit("call void @llvm.nvvm.bar.warp.sync(i32 -1)")

    # ---- angles --------------------------------------------------------------------------------------------------

    def _angles(self, run: Angles) -> None:
        """Sines and cosines of the numbers in neighbouring slots."""
        aside = self.aside

        def step(at: Handed, count: int) -> Handed:
            places = [aside.beyond(at[0], i) for i in range(count)]
            values = [self.writer.value(f"load {self.real}, ptr addrspace(3) {place}") for place in places]
            self._put_sines([aside.beyond(place, run.sine - run.angle) for place in places], run, values)
            return [aside.beyond(at[0], count)]

        roll_loop(self.writer, Walk(run.count, [("ptr addrspace(3)", aside.slot(run.angle))], step), ANGLES)

    def _angles_of_array(self, run: AnglesOfArray, array: ArrayPlace) -> None:
        """Sines and cosines of neighbours in an array."""
        aside = self.aside

        def step(at: Handed, count: int) -> Handed:
            numbers = [at[0]]
            for _ in range(count):
                numbers.append(self._move_pointer(numbers[-1], array.stride))
            loads = (f"load {self.real}, ptr addrspace(1) {number}, !invariant.load !1" for number in numbers[:count])
            self._put_sines([aside.beyond(at[1], i) for i in range(count)], run, [self.writer.value(x) for x in loads])
            return [numbers[-1], aside.beyond(at[1], count)]

        start = [("ptr addrspace(1)", array.pointer), ("ptr addrspace(3)", aside.slot(run.sine))]
        roll_loop(self.writer, Walk(run.count, start, step), ANGLES)

    def _put_sines(self, slots: Sequence[Operand], run: Angles | AnglesOfArray, values: Sequence[Operand]) -> None:
        """Sines of some angles to these slots, cosines to theirs."""
        for slot, pair in zip(slots, sines_and_cosines(self.writer, values), strict=True):
            for place, value in zip((slot, self.aside.beyond(slot, run.cosine - run.sine)), pair, strict=True):
                self.writer.emit(f"store {self.real} {value}, ptr addrspace(3) {place}")

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _side_by_side(self, walks: Sequence[Walk]) -> None:
        """Several walks in one loop, for as long as all have something to do, then each for itself."""
        common = min(walk.count for walk in walks)
        cuts = list(accumulate((len(walk.start) for walk in walks), initial=0))

        def step(at: Handed, count: int) -> Handed:
            parts = [at[a:b] for a, b in pairwise(cuts)]
            return [x for walk, part in zip(walks, parts, strict=True) for x in walk.step(part, count)]

        start = [x for walk in walks for x in walk.start]
        reached = roll_loop(self.writer, Walk(common, start, step), GROUP)
        for walk, (a, b) in zip(walks, pairwise(cuts), strict=True):
            kinds = [kind for kind, _ in walk.start]
            roll_loop(
                self.writer, Walk(walk.count - common, list(zip(kinds, reached[a:b], strict=True)), walk.step), GROUP
            )

    # ---- addresses -----------------------------------------------------------------------------------------------

    def _first_state(self) -> Operand:
        """The number of the state of the warp's first thread."""
        return self.writer.value(f"sub i64 {self.state}, {self.writer.value(f'zext i32 {self.lane} to i64')}")

    def _own_element(self, array: _Array) -> Operand:
        """Among the numbers of all states of the warp, the one with this thread's number."""
        w = self.writer
        before = w.value(f"mul i64 {self._first_state()}, {array.size}")
        number = w.value(f"add i64 {before}, {w.value(f'zext i32 {self.lane} to i64')}")
        return w.value(f"getelementptr {self.real}, ptr addrspace(1) {array.place.pointer}, i64 {number}")

    def _of_warp(self, slot: int) -> Operand:
        """The slot of the warp's first thread."""
        return self._element(self.aside.slot(slot), self.writer.value(f"sub i32 0, {self.lane}"))

    def _element(self, pointer: Operand, number: Operand) -> Operand:
        return self.writer.value(f"getelementptr {self.real}, ptr addrspace(3) {pointer}, i32 {number}")

    def _move_pointer(self, pointer: Operand, bytes_: Operand) -> Operand:
        return self.writer.value(f"getelementptr i8, ptr addrspace(1) {pointer}, i64 {bytes_}")
