"""The arrays of a call, as operands of the emitted code, and the runs of numbers that a block moves from or to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whippletree.compiler.llvm.ir import Operand
from whippletree.compiler.program import Address, Buffer


@dataclass
class Array:
    """An input or output of the call."""

    buffer: Buffer
    base: Operand  # of the first of the W states in hand
    strides: list[Operand]  # bytes, one for each core dimension
    offsets: Operand  # points to W byte offsets: from the first state to the state of each lane

    @property
    def integer(self) -> bool:
        return self.buffer.integer


@dataclass
class CallFrame:
    """Surroundings of the body: the arrays of the call and the memory that it owns."""

    arrays: dict[str, Array]
    pointers: dict[str, Operand]  # work, table and index buffers
    dimensions: dict[str, Operand]  # sizes of named dimensions
    plain: Operand  # i1: every array has the innermost stride of a plain array
    never: Operand  # i1 that is false, though LLVM does not know it
    calls: dict[str, tuple[Operand, Operand]]  # functions that the program calls: a loop of NumPy's, and its data
    work: Operand = ""  # where the buffers of work space begin whose sizes are known
    work_places: dict[str, int] = field(default_factory=dict)  # and how far from there each of them is, in lane vectors
    staged_inputs: Operand = ""  # room for the runs that a block reads, as lane vectors
    staged_outputs: Operand = ""  # and for those that a single state writes


@dataclass
class AddressRun:
    """Neighbouring numbers of a row from ``address`` on, and which of the block's loads or stores each of them is."""

    address: Address
    members: list[int] = field(default_factory=list)


def runs_of(addresses: Iterable[tuple[int, Address]]) -> Iterator[AddressRun]:
    """Group numbered addresses of arrays into runs of neighbours along the last dimension."""
    rows: dict[object, list[tuple[int, int, Address]]] = {}
    for i, a in addresses:
        last = a.indices[-1] if a.indices else None
        key = (a.buffer, a.indices[:-1], last.register if last else None)
        rows.setdefault(key, []).append((last.offset if last else 0, i, a))
    for row in rows.values():
        row.sort(key=lambda entry: entry[:2])
        run, end = AddressRun(row[0][2]), row[0][0]
        for offset, i, a in row:
            if offset == end:
                run.members.append(i)
            else:
                yield run
                run = AddressRun(a, [i])
            end = offset + 1
        yield run


def starts_of(runs: Sequence[AddressRun]) -> list[int]:
    """Where each run begins when they lie one after the other."""
    starts, total = [], 0
    for run in runs:
        starts.append(total)
        total += len(run.members)
    return starts
