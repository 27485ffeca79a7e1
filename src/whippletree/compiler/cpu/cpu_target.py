"""The CPU target: NumPy's inner loop around a program, with W states side by side.

The function has the signature that NumPy calls, ``(char **args, intp *dimensions, intp *steps, void *data)``:

    args         one pointer for each input and output, in order
    dimensions   the number of states, then the size of each distinct core dimension
    steps        bytes from state to state for each array, then the strides of all core dimensions
    data         the control block of :mod:`~whippletree.compiler.cpu.ufunc`; the tables begin at ``FIRST_TABLE``, and
                 behind them there are two pointers for each function that the program calls

Work space that is small lies on the stack, the rest comes from :mod:`~whippletree.compiler.cpu.kept_memory` for the
time of the call: threads share nothing. Without memory every output becomes NaN (a status: −1), and the function
returns.
"""

from __future__ import annotations

import math
from string import Template

from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu.copies import called_functions, copy_functions
from whippletree.compiler.cpu.cpu_arrays import Array, CallFrame
from whippletree.compiler.cpu.cpu_memory import PREFETCH, TOGETHER, CpuMemory
from whippletree.compiler.cpu.kept_memory import HEADER, memory_functions
from whippletree.compiler.cpu.result_lists import list_functions
from whippletree.compiler.llvm.emit import emit_body
from whippletree.compiler.llvm.ir import INTRINSICS, MachineLanes, Operand, Writer, table_text
from whippletree.compiler.llvm.kernel import FIRST_TABLE, KEPT_CELL
from whippletree.compiler.llvm.lists import COMPRESS
from whippletree.compiler.llvm.sine import far_arguments, far_arguments_function
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Each,
    Index,
    Loop,
    Program,
    Statement,
    calls_of,
    every_block,
    every_statement,
    tables_of,
)

STACK_LIMIT = 32 * 1024
"""Work space up to this many bytes lies on the stack."""

_ALIGNMENT = 64


@garbage_left_alone()
def numpy_loop(program: Program, lanes: MachineLanes, symbol: str) -> str:
    """The module of LLVM IR with NumPy's inner loop for the program, under the name ``symbol``."""
    one = MachineLanes(1, lanes.real)
    loop = _Loop(program, lanes, symbol)
    text = loop.text()
    called = loop.writer.called
    if work_bytes(program, lanes) > STACK_LIMIT or _sized_by_call(program):
        text += memory_functions(KEPT_CELL)
        failure = _Loop(_failure(program), one, f"{symbol}_no_memory", internal=True)
        text += failure.text()
        called |= failure.writer.called
    for kind in {lanes, one}:
        text += called_functions(called, copy_functions(kind) | list_functions(kind))
    if lanes.width > 1:
        text += _LANE_OFFSETS.substitute(width=lanes.width)
    if PREFETCH in called:
        text += f"declare void @{PREFETCH}(ptr, i32, i32, i32)\n"
    if COMPRESS in called:
        text += _compression(one, max(TOGETHER))
    text += "".join(table_text(name, table.values, lanes.real) for name, table in tables_of(program).items())
    rounds = {MachineLanes(width, lanes.real) for width in TOGETHER}
    for kind in sorted({lanes, one, *rounds}, key=lambda kind: kind.width):
        if far_arguments(kind) in called:
            text += far_arguments_function(kind)
    return _declarations({lanes, one, *rounds, MachineLanes(1, "double")}) + _NO_OFFSET + text + _UNLIKELY


def work_bytes(program: Program, lanes: MachineLanes) -> int:
    """Bytes of work space that one call needs."""
    return sum(_round_up_size(size * lanes.width * lanes.bytes) for size in _work(program, lanes).values())


def _work(program: Program, lanes: MachineLanes) -> dict[str, int]:
    """The work buffers and how many numbers each holds; and room for what a block reads from arrays.

    A single state also has room for what it writes: the results of many lanes leave without being collected.
    """
    arrays = {b.name for b in program.of_role("input", "output")}
    blocks = list(every_block(program.body))

    def most(kind: str) -> int:
        return max((sum(a.buffer in arrays for a in getattr(block, kind)) for block in blocks), default=0)

    sizes = {b.name: b.size for b in program.of_role("work") if not b.is_sized_by_call}
    return sizes | {_LOADS: most("loads"), _STORES: most("stores") if lanes.width == 1 else 0}


_LOADS, _STORES = ".loads", ".stores"


def _sized_by_call(program: Program) -> list[Buffer]:
    return [b for b in program.buffers if b.is_sized_by_call]


def _round_up_size(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Loop:
    """Writes the function: read the arguments, get work space, then W states at a time."""

    def __init__(self, program: Program, lanes: MachineLanes, symbol: str, internal: bool = False) -> None:
        self.program = program
        self.lanes = lanes
        self.symbol = symbol
        self.internal = internal
        self.writer = Writer(lanes)
        self.bases: dict[str, Operand] = {}
        self.steps: dict[str, Operand] = {}
        self.lists: list[str] = []
        """Tables that the function reads."""

    def text(self) -> str:
        w = self.writer
        frame = self.frame()
        release = self.allocate(frame)
        self.each_group(frame)
        for line in release:
            w.emit(line)
        w.emit("ret void")
        linkage = "internal " if self.internal else ""
        head = f"define {linkage}void @{self.symbol}(ptr %args, ptr %dimensions, ptr %steps, ptr %data) nounwind {{"
        return "\n".join([head, "entry:", *w.entry, *w.lines, "}", *self.lists, ""])

    def frame(self) -> CallFrame:
        """Read what NumPy passes."""
        w, program = self.writer, self.program
        # NumPy does not know arrays without numbers, and no statement can mean one
        buffers = [b for b in program.of_role("input", "output") if not b.empty]
        names = list(dict.fromkeys(str(d) for b in buffers for d in b.shape))
        dimensions = {n: self.load("i64", "%dimensions", names.index(n) + 1) for n in names if not n.isdigit()}
        width = self.lanes.width
        offsets = w.stack(f"[{len(buffers) * width} x i64]", 8) if width > 1 else "@no_offset"
        arrays, place = {}, len(buffers)
        for number, b in enumerate(buffers):
            self.bases[b.name] = self.load("ptr", "%args", number)
            self.steps[b.name] = self.load("i64", "%steps", number)
            strides = [self.load("i64", "%steps", place + i) for i in range(len(b.shape))]
            place += len(b.shape)
            own = w.value(f"getelementptr i64, ptr {offsets}, i64 {number * width}") if width > 1 else offsets
            arrays[b.name] = Array(b, "", strides, own)
        self.offsets = offsets
        self.states = w.value("load i64, ptr %dimensions")
        never = w.value(f"icmp slt i64 {self.states}, 0")
        return CallFrame(arrays, self.tables(), dimensions, self.plain(arrays, dimensions), never, self.calls())

    def load(self, kind: str, pointer: Operand, number: int) -> Operand:
        w = self.writer
        return w.value(f"load {kind}, ptr {w.value(f'getelementptr {kind}, ptr {pointer}, i64 {number}')}")

    def tables(self) -> dict[str, Operand]:
        return {
            b.name: self.load("ptr", "%data", FIRST_TABLE + number)
            for number, b in enumerate(self.program.of_role("table", "index"))
        }

    def calls(self) -> dict[str, tuple[Operand, Operand]]:
        first = FIRST_TABLE + len(self.program.of_role("table", "index"))
        return {
            name: (self.load("ptr", "%data", first + 2 * number), self.load("ptr", "%data", first + 2 * number + 1))
            for number, name in enumerate(calls_of(self.program))
        }

    def plain(self, arrays: dict[str, Array], dimensions: dict[str, Operand]) -> Operand:
        """Whether every innermost stride is that of a plain array; of one number, or of none, it may be any."""
        w = self.writer
        verdict = "true"
        for array in arrays.values():
            last = array.buffer.shape[-1] if array.strides else 1
            if last != 1 and not array.integer:
                fits = w.value(f"icmp eq i64 {array.strides[-1]}, {self.lanes.bytes}")
                for name in (d for d in array.buffer.shape if isinstance(d, str)):
                    few = w.value(f"icmp slt i64 {dimensions[name]}, {2 if name == last else 1}")
                    fits = w.value(f"or i1 {fits}, {few}")
                verdict = w.value(f"and i1 {verdict}, {fits}")
        return verdict

    def allocate(self, frame: CallFrame) -> list[str]:
        """Give every work buffer its place; returns the instructions that release it."""
        w = self.writer
        fixed = work_bytes(self.program, self.lanes)
        sized = {b.name: self.bytes_of(b, frame) for b in _sized_by_call(self.program)}
        if fixed == 0 and not sized:
            return []
        rounds = (s for s in every_statement(self.program.body) if isinstance(s, (Loop, Each)))
        if any(statement.share is not None for statement in rounds):
            fixed += _ALIGNMENT  # windows of rows may read beyond the last one
        release: list[str] = []
        if fixed <= STACK_LIMIT and not sized:
            start = w.stack(f"[{fixed} x i8]", _ALIGNMENT)
        else:
            total = str(fixed + HEADER)
            for bytes_ in sized.values():
                total = w.value(f"add i64 {total}, {bytes_}")
            block = w.value(f"call ptr @take_work(ptr %data, i64 {total})")
            missing = w.value(f"icmp eq ptr {block}, null")
            w.emit(f"br i1 {missing}, label %no_memory, label %memory, !prof !0")
            w.start("no_memory")
            w.emit(f"call void @{self.symbol}_no_memory(ptr %args, ptr %dimensions, ptr %steps, ptr %data)")
            w.emit("ret void")
            w.start("memory")
            # the first multiple behind the size of the block
            below = w.value(f"sub i64 0, {w.value(f'ptrtoint ptr {block} to i64')}")
            behind = w.value(f"add i64 {w.value(f'and i64 {below}, {_ALIGNMENT - 1}')}, {HEADER - _ALIGNMENT}")
            start = w.value(f"getelementptr i8, ptr {block}, i64 {behind}")
            release = [f"call void @give_work(ptr %data, ptr {block}, i64 {total})"]
        offset = 0
        for name, size in _work(self.program, self.lanes).items():
            frame.pointers[name] = w.value(f"getelementptr i8, ptr {start}, i64 {offset}")
            frame.work_places[name] = offset // (self.lanes.width * self.lanes.bytes)
            offset += _round_up_size(size * self.lanes.width * self.lanes.bytes)
        place = w.value(f"getelementptr i8, ptr {start}, i64 {offset}")
        for name, bytes_ in sized.items():
            frame.pointers[name] = place
            place = w.value(f"getelementptr i8, ptr {place}, i64 {bytes_}")
        frame.work = start
        frame.staged_inputs, frame.staged_outputs = frame.pointers[_LOADS], frame.pointers[_STORES]
        return release

    def bytes_of(self, buffer: Buffer, frame: CallFrame) -> Operand:
        """Size of a buffer some of whose dimensions the call decides, as i64; one state at a time."""
        w = self.writer
        bytes_ = str(math.prod(d for d in buffer.shape if isinstance(d, int)) * self.lanes.bytes)
        for name in (d for d in buffer.shape if isinstance(d, str)):
            bytes_ = w.value(f"mul i64 {frame.dimensions[name]}, {bytes_}")
        return w.value(f"and i64 {w.value(f'add i64 {bytes_}, {_ALIGNMENT - 1}')}, {-_ALIGNMENT}")

    def each_group(self, frame: CallFrame) -> None:
        """Run the body for W states after the other; the last group may alias lanes to its last state."""
        w, width = self.writer, self.lanes.width
        self.set_offsets(str(width))
        before = w.block
        w.emit("br label %next_group")
        w.start("next_group")
        first, following = w.fresh(), w.fresh()
        w.emit(f"{first} = phi i64 [ 0, %{before} ], [ {following}, %group_end ]")
        left = w.value(f"sub i64 {self.states}, {first}")
        w.emit(f"br i1 {w.value(f'icmp sgt i64 {left}, 0')}, label %lanes, label %finish")
        w.start("lanes")
        w.emit(f"br i1 {w.value(f'icmp slt i64 {left}, {width}')}, label %tail, label %group")
        w.start("tail")
        self.set_offsets(left)
        w.emit("br label %group")
        w.start("group")
        for name, array in frame.arrays.items():
            moved = w.value(f"mul i64 {first}, {self.steps[name]}")
            array.base = w.value(f"getelementptr i8, ptr {self.bases[name]}, i64 {moved}")
        memory = CpuMemory(self.program, w, frame)
        emit_body(self.program, w, memory)
        self.lists += memory.lists
        w.emit("br label %group_end")
        w.start("group_end")
        w.emit(f"{following} = add i64 {first}, {width}")
        w.emit("br label %next_group")
        w.start("finish")

    def set_offsets(self, valid: Operand) -> None:
        """From the first state of a group to the state of each lane, if so many states are left."""
        count, width = len(self.bases), self.lanes.width
        if width > 1:
            self.writer.emit(f"call void @lane_offsets(ptr {self.offsets}, ptr %steps, i64 {count}, i64 {valid})")


def _failure(program: Program) -> Program:
    """The program that marks every output as failed."""
    body: list[Statement] = []
    for b in program.of_role("output"):
        if b.empty:
            continue
        counters = tuple(f"{b.name}.{i}" for i in range(len(b.shape)))
        place = Address(b.name, tuple(Index(c) for c in counters))
        statement: Statement = Block(Straight([], [-1.0 if b.integer else float("nan")]), (), (place,))
        for counter, size in reversed(list(zip(counters, b.shape, strict=True))):
            statement = Loop(counter, size, (statement,))
        body.append(statement)
    return Program(program.name, tuple(program.of_role("input", "output")), tuple(body))


def _declarations(kinds: set[MachineLanes]) -> str:
    lines = []
    for lanes in sorted(kinds, key=lambda k: (k.real, k.width)):
        suffix = Writer(lanes).suffix
        for name, count in INTRINSICS.items():
            arguments = ", ".join([lanes.number] * count)
            lines.append(f"declare {lanes.number} @llvm.{name}.{suffix}({arguments})")
    return "\n".join(lines) + "\n"


def _compression(one: MachineLanes, width: int) -> str:
    """Declarations of what a list is collected with, so many entries at a time."""
    several = f"<{width} x {one.bits}>"
    counted = f"declare i{width} @llvm.ctpop.i{width}(i{width})\n"
    return counted + f"declare {several} @{COMPRESS}.v{width}{one.bits}({several}, <{width} x i1>, {several})\n"


_LANE_OFFSETS = Template("""
define internal void @lane_offsets(ptr %offsets, ptr %steps, i64 %arrays, i64 %valid) noinline nounwind {
entry:
  %last = sub i64 %valid, 1
  br label %array
array:
  %number = phi i64 [ 0, %entry ], [ %next, %end ]
  %sp = getelementptr i64, ptr %steps, i64 %number
  %step = load i64, ptr %sp
  %before = mul i64 %number, $width
  br label %lane
lane:
  %l = phi i64 [ 0, %array ], [ %l.next, %lane ]
  %beyond = icmp sgt i64 %l, %last
  %state = select i1 %beyond, i64 %last, i64 %l
  %offset = mul i64 %state, %step
  %slot = add i64 %before, %l
  %op = getelementptr i64, ptr %offsets, i64 %slot
  store i64 %offset, ptr %op
  %l.next = add i64 %l, 1
  %more = icmp slt i64 %l.next, $width
  br i1 %more, label %lane, label %end
end:
  %next = add i64 %number, 1
  %again = icmp slt i64 %next, %arrays
  br i1 %again, label %array, label %done
done:
  ret void
}
""")

_NO_OFFSET = "@no_offset = private constant i64 0\n"

_UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 100000}\n'
