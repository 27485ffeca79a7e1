"""Results that lie in work space already leave it by a list of their places.

A block that computes nothing, and only carries hundreds of numbers from work space to results, such as the matrices
of a humanoid behind the loops over its limbs, would take LLVM two instructions for each. Here it is a table with the
place and the sign of every number, and for each row one call of a function that goes along the table. Many lanes leave
tile by tile, as other results do (:mod:`~whippletree.compiler.cpu.copies`), a single state four numbers at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from whippletree.compiler.cpu.copies import (
    SHORTEST_VECTOR_RUN,
    ModuleFunctions,
    columns_of_tiles,
    define,
    tile_after_tile,
    tile_name,
    tiles,
)
from whippletree.compiler.cpu.cpu_arrays import AddressRun, CallFrame, runs_of
from whippletree.compiler.llvm.copied_results import Entry
from whippletree.compiler.llvm.ir import MachineLanes, Operand, Writer
from whippletree.compiler.program import Address


def write_listed(
    w: Writer,
    frame: CallFrame,
    entries: Sequence[Entry],
    stores: Sequence[Address],
    place: Callable[[Address], Operand],
) -> str:
    """Emit the copying of listed numbers to the addresses of results; ``place`` emits a pointer to one of the first
    state. Returns the table, which the module has to define."""
    name = f"@{w.label('listed')}"
    table: list[Entry] = []
    for run in runs_of(enumerate(stores)):
        _write_run(w, frame, run, f"getelementptr (i32, ptr {name}, i64 {len(table)})", place(run.address))
        table += [entries[number] for number in run.members]
    return f"{name} = internal constant [{len(table)} x i32] [{', '.join([f'i32 {entry}' for entry in table])}]\n"


def _write_run(w: Writer, frame: CallFrame, run: AddressRun, start: Operand, place: Operand) -> None:
    array, count, width = frame.arrays[run.address.buffer], len(run.members), w.lanes.width
    columns = tiles(count, width)[0] if width > 1 else 1
    w.call(
        listed_name(width, columns),
        f"ptr {start}, ptr {frame.work}, ptr {place}, ptr {array.offsets}, i64 {array.strides[-1]}, i64 {count}",
    )


def listed_name(width: int, columns: int) -> str:
    """The name of the function that writes a run of so many lanes in tiles of so many columns."""
    return f"listed{width}x{columns}"


_ARGUMENTS = "(ptr %list, ptr %work, ptr %place, ptr %offsets, i64 %stride, i64 %count)"


def list_functions(lanes: MachineLanes) -> ModuleFunctions:
    """Every function that may be called; each takes (list, work space, place, offsets, stride, count)."""
    if lanes.width == 1:
        return {listed_name(1, 1): partial(_code_of_one_state, lanes)}
    return {
        listed_name(lanes.width, columns): partial(_code_of_lanes, lanes, columns)
        for columns in columns_of_tiles(lanes.width)
    }


def _code_of_lanes(lanes: MachineLanes, columns: int) -> str:
    """A function that writes a run tile by tile; the run has at least as many numbers as a tile has columns."""
    w = Writer(lanes)
    with tile_after_tile(w, columns) as first:
        entries = w.value(f"getelementptr i32, ptr %list, i64 {first}")
        vectors = []
        for column in range(columns):
            entry = w.value(f"load i32, ptr {w.value(f'getelementptr i32, ptr {entries}, i64 {column}')}")
            number = w.value(f"load {lanes.number}, ptr {_place_of(w, entry)}")
            sign = w.value(f"shl {lanes.bits} {_as_bits(w, lanes, entry)}, {8 * lanes.bytes - 1}")
            vectors.append(_flip_sign(w, number, w.splat(sign, lanes.bits)))
        there = w.value(f"getelementptr i8, ptr %place, i64 {w.value(f'mul i64 {first}, %stride')}")
        given = ", ".join(f"{lanes.number} {vector}" for vector in vectors)
        w.call(tile_name(lanes.width, columns), f"{given}, ptr {there}, ptr %offsets, i64 %stride")
    return define(listed_name(lanes.width, columns) + _ARGUMENTS, w)


def _code_of_one_state(lanes: MachineLanes) -> str:
    """A function that writes a run of one state: several numbers at a time if they are neighbours, else one by one."""
    several = MachineLanes(SHORTEST_VECTOR_RUN, lanes.real)
    w = Writer(several)
    odd = w.value(f"icmp ne i64 %stride, {lanes.bytes}")
    few = w.value(f"icmp slt i64 %count, {several.width}")
    w.emit(f"br i1 {w.value(f'or i1 {odd}, {few}')}, label %singly, label %together, !prof !0")
    w.start("together")
    with tile_after_tile(w, several.width) as first:
        _write_several(w, first)
    w.lanes = lanes
    w.start("singly")
    w.emit("br label %number")
    w.start("number")
    w.emit("%k = phi i64 [ 0, %singly ], [ %next, %number ]")
    entry = w.value(f"load i32, ptr {w.value('getelementptr i32, ptr %list, i64 %k')}")
    number = w.value(f"load {lanes.real}, ptr {_place_of(w, entry)}")
    sign = w.value(f"shl {lanes.bits} {_as_bits(w, lanes, entry)}, {8 * lanes.bytes - 1}")
    there = w.value(f"getelementptr i8, ptr %place, i64 {w.value('mul i64 %k, %stride')}")
    w.emit(f"store {lanes.real} {w.canonical(_flip_sign(w, number, sign))}, ptr {there}")
    w.emit("%next = add i64 %k, 1")
    w.emit(f"br i1 {w.value('icmp slt i64 %next, %count')}, label %number, label %written")
    w.start("written")
    w.emit("ret void")
    return define(listed_name(1, 1) + _ARGUMENTS, w)


def _write_several(w: Writer, first: Operand) -> None:
    """Write as many numbers of a single state as the writer has lanes, from one on."""
    lanes = w.lanes
    entries = w.value(f"getelementptr i32, ptr %list, i64 {first}")
    vector = "poison"
    for k in range(lanes.width):
        entry = w.value(f"load i32, ptr {w.value(f'getelementptr i32, ptr {entries}, i64 {k}')}")
        w.lanes = MachineLanes(1, lanes.real)
        number = w.value(f"load {lanes.real}, ptr {_place_of(w, entry)}")
        w.lanes = lanes
        vector = w.value(f"insertelement {lanes.number} {vector}, {lanes.real} {number}, i32 {k}")
    together = w.value(f"load {lanes.of('i32')}, ptr {entries}, align 4")
    sign = w.integer("shl", _as_bits(w, lanes, together, lanes.width), 8 * lanes.bytes - 1)
    there = w.value(f"getelementptr {lanes.real}, ptr %place, i64 {first}")
    w.emit(f"store {lanes.number} {w.canonical(_flip_sign(w, vector, sign))}, ptr {there}, align {lanes.bytes}")


def _place_of(w: Writer, entry: Operand) -> Operand:
    """A pointer to the number of an entry."""
    place = w.value(f"lshr i64 {w.value(f'zext i32 {entry} to i64')}, 1")
    return w.value(f"getelementptr {w.lanes.number}, ptr %work, i64 {place}")


def _as_bits(w: Writer, lanes: MachineLanes, entry: Operand, width: int = 1) -> Operand:
    """Entries as integers as wide as a real."""
    if lanes.bits == "i32":
        return entry
    kinds = [MachineLanes(width, lanes.real).of(kind) for kind in ("i32", lanes.bits)]
    return w.value(f"zext {kinds[0]} {entry} to {kinds[1]}")


def _flip_sign(w: Writer, number: Operand, sign: Operand) -> Operand:
    """A number with its sign changed where the sign bit of ``sign`` is set."""
    return w.from_bits(w.integer("xor", w.to_bits(number), sign))
