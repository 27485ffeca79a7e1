"""Rows to lanes and back: W states with C neighbouring numbers each become C lane vectors, by shuffles in registers.

C is W, or a smaller power of two for short rows. Both directions are the same butterfly: stage by stage, blocks of 1,
2, 4 … numbers are exchanged between pairs of vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from string import Template
from typing import TypeAlias

from whippletree.compiler.llvm.ir import MachineLanes, Operand, Writer


def rows_to_lanes(w: Writer, rows: Sequence[Operand], columns: int) -> list[Operand]:
    """``rows``: W vectors of C numbers. Returns C lane vectors."""
    vectors = list(rows)
    width = columns
    while width < w.lanes.width:
        # put short rows side by side: in the end vector j holds the rows j, j + C, j + 2C …
        side_by_side = list(range(2 * width))
        vectors = [
            _shuffle(w, vectors[block + j], vectors[block + columns + j], side_by_side, width)
            for block in range(0, len(vectors), 2 * columns)
            for j in range(columns)
        ]
        width *= 2
    return _transpose_blocks(w, vectors, columns)


def lanes_to_rows(w: Writer, lanes: Sequence[Operand]) -> list[Operand]:
    """``lanes``: C lane vectors. Returns W vectors of C numbers."""
    columns, width = len(lanes), w.lanes.width
    vectors = _transpose_blocks(w, list(lanes), columns)
    while width > columns:
        halves = list(range(width // 2)), list(range(width // 2, width))
        vectors = [
            _shuffle(w, vectors[block + j], "poison", half, width)
            for block in range(0, len(vectors), columns)
            for half in halves
            for j in range(columns)
        ]
        width //= 2
    return vectors


def _transpose_blocks(w: Writer, vectors: list[Operand], columns: int) -> list[Operand]:
    """Transpose every C × C block of C vectors (W / C blocks side by side)."""
    width = w.lanes.width
    distance = 1
    while distance < columns:
        low = [i if not i & distance else i - distance + width for i in range(width)]
        high = [i + distance if not i & distance else i + width for i in range(width)]
        for i in range(columns):
            if not i & distance:
                a, b = vectors[i], vectors[i + distance]
                vectors[i] = _shuffle(w, a, b, low, width)
                vectors[i + distance] = _shuffle(w, a, b, high, width)
        distance *= 2
    return vectors


def _shuffle(w: Writer, a: Operand, b: Operand, order: Sequence[int], width: int) -> Operand:
    kind = f"<{width} x {w.lanes.real}>" if width > 1 else w.lanes.real
    mask = ", ".join(f"i32 {i}" for i in order)
    return w.value(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{mask}>")


# --- Runs of numbers between arrays and lane vectors: inline for the few of an ordinary function, by a call for many
# --- A run goes tile by tile: C neighbouring numbers of W states, transposed in registers. The last tile moves back
# over its neighbour rather than past the end, so nothing outside of the run is touched. A matrix of a humanoid has so
# many tiles that their code would take LLVM longer than all the arithmetic: then each run that is read, and each tile
# that is written, is one call of a function. Runs without the stride of a plain array go number by number, by a call
# too.


MOST_TILES = 12
"""So many tiles that one block reads are written out: those of a humanoid's state would take LLVM a tenth of its time
for inverse dynamics, and calls cost a batch less than 1 %."""

NUMBERS_OF_GROUP, NUMBERS_OF_VECTOR = 32, 8
"""Numbers of a long plain run that are copied by one round of a loop, and by each of its vectors: the impulses of a
humanoid's 155 blocks took 3 % of its steps by vectors of four alone, and take 2 %."""

SHORTEST_VECTOR_RUN = 4
"""Numbers of a run of a single state from which NaNs are looked for in vectors of as many."""


def tiles(count: int, width: int) -> tuple[int, list[int]]:
    """Columns of a tile, and the first column of each tile, for a run of that many numbers."""
    columns = width
    while columns > count:
        columns //= 2
    firsts = list(range(0, count - columns + 1, columns))
    if firsts[-1] + columns < count:
        firsts.append(count - columns)
    return columns, firsts


def tile_name(width: int, columns: int) -> str:
    """The name of the function that writes a tile of so many lanes and columns."""
    return f"leave{width}x{columns}"


def tile_in(w: Writer, rows: Sequence[Operand], columns: int, first: Operand | int, vectors: Operand) -> None:
    """Rows of arrays to lane vectors."""
    kind = f"<{columns} x {w.lanes.real}>"
    loaded = [w.value(f"load {kind}, ptr {_at(w, r, w.lanes.real, first)}, align {w.lanes.bytes}") for r in rows]
    start = _at(w, vectors, w.lanes.number, first)
    for number, vector in enumerate(rows_to_lanes(w, loaded, columns)):
        w.emit(f"store {w.lanes.number} {vector}, ptr {_at(w, start, w.lanes.number, number)}")


def tile_out(w: Writer, rows: Sequence[Operand], vectors: Sequence[Operand], first: Operand | int) -> None:
    """Lane vectors to rows of arrays."""
    kind = f"<{len(vectors)} x {w.lanes.real}>"
    for row, vector in zip(rows, lanes_to_rows(w, vectors), strict=True):
        w.emit(f"store {kind} {vector}, ptr {_at(w, row, w.lanes.real, first)}, align {w.lanes.bytes}")


def lane_pointers(w: Writer, place: Operand, offsets: Operand) -> list[Operand]:
    """Pointers to the same number of all W states, from that of the first."""
    if w.lanes.width == 1:
        return [place]
    pointers = []
    for lane in range(w.lanes.width):
        offset = w.value(f"load i64, ptr {_at(w, offsets, 'i64', lane)}")
        pointers.append(w.value(f"getelementptr i8, ptr {place}, i64 {offset}"))
    return pointers


def _at(w: Writer, pointer: Operand, element: str, number: Operand | int) -> Operand:
    return pointer if number == 0 else w.value(f"getelementptr {element}, ptr {pointer}, i64 {number}")


# ---- functions -------------------------------------------------------------------------------------------------------


ModuleFunctions: TypeAlias = dict[str, Callable[[], str]]
"""By name, functions that a module may need, each written when it is asked for."""


def copy_functions(lanes: MachineLanes) -> ModuleFunctions:
    """Every function that may be called.

    Those that read, and that of a single state's results, take (vectors, place, offsets, stride, count) with lane
    vectors in memory; ``leave`` takes the vectors of one tile themselves, then (place, offsets, stride). ``canonical``
    takes (source, place, count) of plain runs, which may be one and the same.
    """
    gather = f"gather{lanes.width}"
    found: ModuleFunctions = {gather: partial(_strided_code, gather, "%outside", "%inside", lanes)}
    if lanes.width == 1:
        found["scatter1"] = partial(_strided_code, "scatter1", "%inside", "%outside", lanes)
        found["canonical"] = partial(_canonical_code, MachineLanes(SHORTEST_VECTOR_RUN, lanes.real))
    for columns in columns_of_tiles(lanes.width):
        name, tile = f"{gather}x{columns}", tile_name(lanes.width, columns)
        found[name] = partial(_gather_code, name, lanes, columns)
        found[tile] = partial(_write_tile_code, tile, lanes, columns)
    return found


def called_functions(called: Iterable[str], functions: ModuleFunctions) -> str:
    """The text of those functions that are called, or that one of them calls: only what is called costs time."""
    found: dict[str, str] = {}
    open_ = sorted(name for name in called if name in functions)
    while open_:
        name = open_.pop()
        if name not in found:
            found[name] = functions[name]()
            open_ += [callee for callee in re.findall(r"call void @(\w+)\(", found[name]) if callee in functions]
    return "".join(found.values())


def columns_of_tiles(width: int) -> list[int]:
    """How many columns a tile of so many lanes may have."""
    return [columns for columns in (2**k for k in range(1, width.bit_length())) if columns <= width]


def _gather_code(name: str, lanes: MachineLanes, columns: int) -> str:
    """A function that reads a plain run tile by tile; the run has at least as many numbers as a tile has columns."""
    w = Writer(lanes)
    rows = lane_pointers(w, "%place", "%offsets")
    with tile_after_tile(w, columns) as first:
        tile_in(w, rows, columns, first, "%vectors")
    return define(f"{name}(ptr %vectors, ptr %place, ptr %offsets, i64 %stride, i64 %count)", w)


def _canonical_code(lanes: MachineLanes) -> str:
    """A function that copies a plain run, a vector of numbers at a time, and gives every NaN its one bit pattern."""
    w = Writer(lanes)

    def copy(first: Operand) -> None:
        own = w.value(f"load {w.lanes.number}, ptr {_at(w, '%source', lanes.real, first)}, align {lanes.bytes}")
        place = _at(w, "%place", lanes.real, first)
        w.emit(f"store {w.lanes.number} {w.canonical(own)}, ptr {place}, align {lanes.bytes}")

    groups = w.value(f"sdiv i64 %count, {NUMBERS_OF_GROUP}")
    w.emit(f"br i1 {w.value(f'icmp sgt i64 {groups}, 0')}, label %group, label %rest")
    w.start("group")
    w.emit("%number = phi i64 [ 0, %entry ], [ %next, %group ]")
    begin = w.value(f"mul i64 %number, {NUMBERS_OF_GROUP}")
    w.lanes = MachineLanes(NUMBERS_OF_VECTOR, lanes.real)
    for number in range(0, NUMBERS_OF_GROUP, NUMBERS_OF_VECTOR):
        copy(w.value(f"add i64 {begin}, {number}"))
    w.lanes = lanes
    w.emit("%next = add i64 %number, 1")
    w.emit(f"br i1 {w.value(f'icmp slt i64 %next, {groups}')}, label %group, label %rest")
    w.start("rest")
    done = w.value(f"mul i64 {groups}, {NUMBERS_OF_GROUP}")
    w.emit(f"br i1 {w.value(f'icmp eq i64 {done}, %count')}, label %done, label %last")
    w.start("last")
    last = w.value(f"sub i64 %count, {lanes.width}")
    few = w.value(f"icmp sgt i64 {done}, {last}")
    with tile_after_tile(w, lanes.width, w.value(f"select i1 {few}, i64 {last}, i64 {done}")) as first:
        copy(first)
    return define("canonical(ptr %source, ptr %place, i64 %count)", w)


@contextmanager
def tile_after_tile(w: Writer, columns: int, begin: Operand = "0") -> Iterator[Operand]:
    """Around the work on a tile that begins with a column, for all tiles of a run with so many columns or more, from
    one on."""
    last = w.value(f"sub i64 %count, {columns}")
    before = w.block
    w.emit("br label %tile")
    w.start("tile")
    w.emit(f"%first = phi i64 [ {begin}, %{before} ], [ %following, %tile ]")
    yield "%first"
    after = w.value(f"add i64 %first, {columns}")
    beyond = w.value(f"icmp sgt i64 {after}, {last}")
    # the last tile begins where it must end with the run; behind it there is none
    w.emit(f"%following = select i1 {beyond}, i64 {last}, i64 {after}")
    w.emit(f"br i1 {w.value(f'icmp eq i64 %first, {last}')}, label %done, label %tile")
    w.start("done")
    w.emit("ret void")


def _write_tile_code(name: str, lanes: MachineLanes, columns: int) -> str:
    """A function that writes a tile; of an array that is not plain, or with a NaN in it, number by number."""
    w = Writer(lanes)
    vectors = [f"%x{number}" for number in range(columns)]
    found = [w.compare("uno", a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    while len(found) > 1:
        found = [*found[2:], w.value(f"or {lanes.condition} {found[0]}, {found[1]}")]
    odd = w.value(f"icmp ne i64 %stride, {lanes.bytes}")
    strange = w.value(f"or i1 {odd}, {w.any(found[0])}")
    w.emit(f"br i1 {strange}, label %singly, label %together, !prof !0")
    w.start("together")
    tile_out(w, lane_pointers(w, "%place", "%offsets"), vectors, 0)
    w.emit("ret void")
    w.start("singly")
    rows = lane_pointers(w, "%place", "%offsets")
    for vector in vectors:
        seen = w.canonical(vector)
        for lane, row in enumerate(rows):
            part = w.value(f"extractelement {lanes.number} {seen}, i32 {lane}")
            w.emit(f"store {lanes.real} {part}, ptr {row}, align {lanes.bytes}")
        rows = [w.value(f"getelementptr i8, ptr {row}, i64 %stride") for row in rows]
    w.emit("ret void")
    arguments = ", ".join(f"{lanes.number} {vector}" for vector in vectors)
    return define(f"{name}({arguments}, ptr %place, ptr %offsets, i64 %stride)", w)


def define(head: str, w: Writer) -> str:
    """The function that a writer has written, by name and arguments."""
    return "\n".join([f"define internal void @{head} noinline nounwind {{", "entry:", *w.entry, *w.lines, "}", ""])


def _strided_code(name: str, source: Operand, target: Operand, lanes: MachineLanes) -> str:
    """A function that goes number by number."""
    w = Writer(MachineLanes(1, lanes.real))
    value = w.value(f"load {lanes.real}, ptr {source}")
    if target == "%outside":
        value = w.canonical(value)
    w.emit(f"store {lanes.real} {value}, ptr {target}")
    return _STRIDED.substitute(name=name, copy="\n".join(w.lines), real=lanes.real, width=lanes.width)


_STRIDED = Template("""
define internal void @$name(ptr %vectors, ptr %place, ptr %offsets, i64 %stride, i64 %count) noinline nounwind {
entry:
  br label %column
column:
  %number = phi i64 [ 0, %entry ], [ %next, %end ]
  %moved = mul i64 %number, %stride
  %there = getelementptr i8, ptr %place, i64 %moved
  %before = mul i64 %number, $width
  br label %lane
lane:
  %l = phi i64 [ 0, %column ], [ %l.next, %lane ]
  %op = getelementptr i64, ptr %offsets, i64 %l
  %offset = load i64, ptr %op
  %outside = getelementptr i8, ptr %there, i64 %offset
  %slot = add i64 %before, %l
  %inside = getelementptr $real, ptr %vectors, i64 %slot
$copy
  %l.next = add i64 %l, 1
  %more = icmp slt i64 %l.next, $width
  br i1 %more, label %lane, label %end
end:
  %next = add i64 %number, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %column, label %done
done:
  ret void
}
""")
