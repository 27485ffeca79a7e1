"""The CPU target: NumPy's inner loop around a program, with W states side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whippletree.compiler.emit import Memory, Registers, emit_body
from whippletree.compiler.far_arguments import far_arguments_function
from whippletree.compiler.ir import INTRINSICS, Lanes, Operand, Writer
from whippletree.compiler.program import Address, Buffer, Program
from whippletree.compiler.transpose import lanes_to_rows, rows_to_lanes


class ArrayMemory(Memory):
    def __init__(self, program, writer):
        super().__init__(program, writer)
        self.lanes = writer.lanes
        self.arrays = program.of_role("input", "output")
        self.number = {b.name: i for i, b in enumerate(self.arrays)}
        names = list(dict.fromkeys(str(d) for b in self.arrays for d in b.shape))
        w = writer
        self.n = w.value("load i64, ptr %dims")
        self.dims = {}
        for i, name in enumerate(names):
            if not name.isdigit():
                self.dims[name] = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %dims, i64 {i + 1}')}")
        self.argument = {}
        self.step = {}
        self.core = {}
        place = len(self.arrays)
        for i, b in enumerate(self.arrays):
            self.argument[b.name] = w.value(f"load ptr, ptr {w.value(f'getelementptr ptr, ptr %args, i64 {i}')}")
            self.step[b.name] = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %steps, i64 {i}')}")
            strides = []
            for _ in b.shape:
                strides.append(w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %steps, i64 {place}')}"))
                place += 1
            self.core[b.name] = strides
        self.offsets = w.stack(f"[{len(self.arrays) * self.lanes.width} x i64]", 64)
        self.base = {}

    def count(self, dimension): return self.dims[dimension]
    def lookup(self, address, registers): raise NotImplementedError

    def row(self, address, registers):
        w = self.writer
        p = self.base[address.buffer]
        for idx, stride in zip(address.indices, self.core[address.buffer]):
            if idx.register is None and idx.offset == 0: continue
            o = w.value(f"mul i64 {self.index(idx, registers)}, {stride}")
            p = w.value(f"getelementptr i8, ptr {p}, i64 {o}")
        return p

    def lane_pointers(self, name, p):
        w = self.writer
        out = []
        b = self.number[name]
        for l in range(self.lanes.width):
            o = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr {self.offsets}, i64 {b*self.lanes.width+l}')}")
            out.append(w.value(f"getelementptr i8, ptr {p}, i64 {o}"))
        return out

    def runs(self, addresses):
        groups = {}
        for i, a in enumerate(addresses):
            if a.indices:
                groups.setdefault((a.buffer, a.indices[:-1], a.indices[-1].register), []).append((a.indices[-1].offset, i))
            else:
                groups.setdefault((a.buffer, (), None), []).append((0, i))
        for key, members in groups.items():
            members.sort()
            run = [members[0]]
            for m in members[1:]:
                if m[0] == run[-1][0] + 1: run.append(m)
                else:
                    yield run
                    run = [m]
            yield run

    def blocks(self, count):
        c = self.lanes.width
        while c > count: c //= 2
        starts = list(range(0, count - c + 1, c))
        if starts[-1] + c < count: starts.append(count - c)
        return c, starts

    def prepare_loads(self, loads, registers):
        w = self.writer
        L = self.lanes
        if L.width == 1:
            def read1(i):
                return w.value(f"load {L.real}, ptr {self.row(loads[i], registers)}")
            return read1
        space = w.stack(f"[{len(loads)} x {L.number}]", 64)
        slot = {}
        for run in self.runs(loads):
            p = self.row(loads[run[0][1]], registers)
            rows = self.lane_pointers(loads[run[0][1]].buffer, p)
            c, starts = self.blocks(len(run))
            for s in starts:
                kind = f"<{c} x {L.real}>"
                vectors = [w.value(f"load {kind}, ptr {w.value(f'getelementptr {L.real}, ptr {r}, i64 {s}')}, align {L.bytes}") for r in rows]
                for j, v in enumerate(rows_to_lanes(w, vectors, c)):
                    i = run[s + j][1]
                    w.emit(f"store {L.number} {v}, ptr {w.value(f'getelementptr {L.number}, ptr {space}, i64 {i}')}")
        def read(i):
            return w.value(f"load {L.number}, ptr {w.value(f'getelementptr {L.number}, ptr {space}, i64 {i}')}")
        return read

    def store(self, stores, registers):
        w = self.writer
        L = self.lanes
        if L.width == 1:
            for a, v in stores:
                w.emit(f"store {L.real} {v}, ptr {self.row(a, registers)}")
            return
        addresses = [a for a, _ in stores]
        for run in self.runs(addresses):
            a0 = addresses[run[0][1]]
            rows = self.lane_pointers(a0.buffer, self.row(a0, registers))
            c, starts = self.blocks(len(run))
            for s in starts:
                kind = f"<{c} x {L.real}>"
                vs = lanes_to_rows(w, [stores[run[s + j][1]][1] for j in range(c)])
                for r, v in zip(rows, vs):
                    w.emit(f"store {kind} {v}, ptr {w.value(f'getelementptr {L.real}, ptr {r}, i64 {s}')}, align {L.bytes}")


def numpy_loop(program: Program, lanes: Lanes, symbol: str) -> str:
    w = Writer(lanes)
    W = lanes.width
    mem = ArrayMemory(program, w)
    nargs = len(mem.arrays)
    w.emit(f"call void @lane_offsets(ptr {mem.offsets}, ptr %steps, i64 {nargs}, i64 {W})")
    before = w.block
    w.emit("br label %head")
    w.start("head")
    g, nxt = w.fresh(), w.fresh()
    w.emit(f"{g} = phi i64 [0, %{before}], [{nxt}, %latch]")
    left = w.value(f"sub i64 {mem.n}, {g}")
    more = w.value(f"icmp sgt i64 {left}, 0")
    w.emit(f"br i1 {more}, label %test, label %finish")
    w.start("test")
    part = w.value(f"icmp slt i64 {left}, {W}")
    w.emit(f"br i1 {part}, label %clamp, label %group")
    w.start("clamp")
    w.emit(f"call void @lane_offsets(ptr {mem.offsets}, ptr %steps, i64 {nargs}, i64 {left})")
    w.emit("br label %group")
    w.start("group")
    for b in mem.arrays:
        o = w.value(f"mul i64 {g}, {mem.step[b.name]}")
        mem.base[b.name] = w.value(f"getelementptr i8, ptr {mem.argument[b.name]}, i64 {o}")
    emit_body(program, w, mem)
    w.emit("br label %latch")
    w.start("latch")
    w.emit(f"{nxt} = add i64 {g}, {W}")
    w.emit("br label %head")
    w.start("finish")
    w.emit("ret void")
    decl = "\n".join(f"declare {lanes.number} @llvm.{n}.{w.suffix}({', '.join([lanes.number]*k)})" for n, k in INTRINSICS.items())
    if w.suffix != "f64": decl += "\ndeclare double @llvm.fma.f64(double,double,double)"
    return "\n".join([decl, far_arguments_function(lanes), OFF.replace("$W", str(W)), f"define void @{symbol}(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {{", "entry:", *w.entry, *w.lines, "}", '!0 = !{!"branch_weights", i32 1, i32 100000}'])

OFF = """
define internal void @lane_offsets(ptr %out, ptr %steps, i64 %count, i64 %m) noinline nounwind {
entry:
  %last = sub i64 %m, 1
  br label %array
array:
  %b = phi i64 [0,%entry],[%b1,%next]
  %sp = getelementptr i64, ptr %steps, i64 %b
  %s = load i64, ptr %sp
  br label %lane
lane:
  %l = phi i64 [0,%array],[%l1,%lane]
  %over = icmp sgt i64 %l, %last
  %c = select i1 %over, i64 %last, i64 %l
  %o = mul i64 %c, %s
  %i0 = mul i64 %b, $W
  %i = add i64 %i0, %l
  %p = getelementptr i64, ptr %out, i64 %i
  store i64 %o, ptr %p
  %l1 = add i64 %l, 1
  %more = icmp slt i64 %l1, $W
  br i1 %more, label %lane, label %next
next:
  %b1 = add i64 %b, 1
  %more2 = icmp slt i64 %b1, %count
  br i1 %more2, label %array, label %end
end:
  ret void
}
"""
