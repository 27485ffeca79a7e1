"""Matrices whose numbers lie in work space already leave it by a list of their places, in short loops.

The derivatives of a humanoid are four thousand numbers, half of them zeros, and behind the loops over its limbs all
that is left to do is to carry them: five instructions each, as long a text as the arithmetic. By a list
(:mod:`~whippletree.compiler.llvm.copied_results`) it is a loop over rows around one over columns for each matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from whippletree.compiler.cuda.walks import Handed, Walk, roll_loop
from whippletree.compiler.llvm.copied_results import Entry
from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.program import Address, Block, Buffer, every_address

SIDE_BY_SIDE = 8
"""Numbers of a row that one pass carries: so many are under way at once."""

SHORT_ENTRIES = 1 << 15
"""Entries below this take two bytes; the text of a kernel writes every byte as a number."""


class MatrixPlace(NamedTuple):
    """Where the matrix of a state is: operands of its address and of its two strides, in bytes."""

    pointer: Operand
    strides: Sequence[Operand]


def matrices_of(block: Block, outputs: Sequence[Buffer]) -> list[Buffer] | None:
    """The outputs that a block fills, one after the other, row by row; None if it does not."""
    names = dict.fromkeys(address.buffer for address in block.stores)
    found = [buffer for buffer in outputs if buffer.name in names]
    if any(len(buffer.shape) != 2 or buffer.integer for buffer in found):
        return None
    whole: list[Address] = [address for buffer in found for address in every_address(buffer)]
    return found if whole == list(block.stores) else None


def write_matrices(
    w: Writer,
    name: str,
    matrices: Sequence[tuple[Buffer, MatrixPlace]],
    entries: Sequence[Entry],
    work_place: Callable[[Operand], str],
) -> str:
    """Emit the copying; ``work_place`` emits a typed pointer to a number of work space. Returns the table of the
    entries, which the module has to define by that name."""
    kind = "i16" if max(entries) < SHORT_ENTRIES else "i32"
    first = 0
    for buffer, place in matrices:
        start = f"getelementptr ({kind}, ptr addrspace({w.table_space}) @{name}, i64 {first})"
        _write_matrix(w, buffer, place, (kind, start), work_place)
        first += buffer.size
    numbers = ", ".join(f"{kind} {entry}" for entry in entries)
    return f"@{name} = internal addrspace({w.table_space}) constant [{len(entries)} x {kind}] [{numbers}], align 8\n"


def _write_matrix(
    w: Writer, buffer: Buffer, place: MatrixPlace, table: tuple[str, str], work_place: Callable[[Operand], str]
) -> None:
    rows, columns = (int(size) for size in buffer.shape)
    kind, start = table
    pointer, (to_row, to_column) = f"ptr addrspace({w.table_space})", place.strides
    array = "ptr addrspace(1)"

    def carry(at: Handed, count: int) -> Handed:
        entry, target = at
        values, targets = [], [target]
        for k in range(count):
            own = w.value(f"getelementptr {kind}, {pointer} {entry}, i64 {k}")
            own = w.value(f"load {kind}, {pointer} {own}, !invariant.load !1")
            values.append(_read(w, own if kind == "i32" else w.value(f"zext i16 {own} to i32"), work_place))
            targets.append(w.value(f"getelementptr i8, {array} {targets[-1]}, i64 {to_column}"))
        for value, there in zip(values, targets, strict=False):
            w.emit(f"store {w.lanes.real} {w.canonical(value)}, {array} {there}")
        return [w.value(f"getelementptr {kind}, {pointer} {entry}, i64 {count}"), targets[-1]]

    def row(at: Handed, count: int) -> Handed:
        for _ in range(count):
            row_of = [(pointer, at[0]), (array, at[1])]
            entry, _ = roll_loop(w, Walk(columns, row_of, carry), SIDE_BY_SIDE)
            at = [entry, w.value(f"getelementptr i8, {array} {at[1]}, i64 {to_row}")]
        return at

    roll_loop(w, Walk(rows, [(pointer, start), (array, place.pointer)], row), 1)


def _read(w: Writer, entry: Operand, work_place: Callable[[Operand], str]) -> Operand:
    """The number of an entry (i32), with its sign."""
    lanes = w.lanes
    number = w.value(f"zext i32 {w.value(f'lshr i32 {entry}, 1')} to i64")
    value = w.value(f"load {lanes.real}, {work_place(number)}")
    wide = entry if lanes.bits == "i32" else w.value(f"zext i32 {entry} to {lanes.bits}")
    sign = w.value(f"shl {lanes.bits} {wide}, {8 * lanes.bytes - 1}")
    return w.from_bits(w.integer("xor", w.to_bits(value), sign))
