"""Memory between calls: what the next call needs again is not given back to the system.

Memory that is new comes page by page as it is first written, at a third of a microsecond to two for 512 numbers, which
is more than most programs take to compute them. Blocks of up to 32 MB are kept by the C library of Linux once it has
seen one of their size go: so it is shown one. Larger ones it never keeps: of these one block is kept here, for all
functions of a process together, which the next call takes that has room enough in it.

    cell     an integer of this process: the address of the kept block, 0 while there is none or a call works in it
    block    its size in bytes, then, at the next multiple of 64, work space

A call takes the block by putting 0 in its place, and puts back what it has worked in, each in one atomic step: so calls
on several threads, calls within calls, and calls that are ended early never share a block. One that finds none asks the
C library, and frees what lay in the cell when it puts its own there. No program reads what it has not written, so that
nothing depends on what earlier calls have left.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from functools import cache
from string import Template

import numpy as np

from whippletree.compiler.llvm import jit

KEPT_BY_LIBRARY = (1 << 25) - (1 << 13)
"""Bytes up to which the C library keeps what was freed, once it has seen a block of that size: its own bound, less two
pages for what it adds. Of results that go together it then keeps twice as much, for each thread that frees some."""

LARGEST_KEPT = 1 << 28
"""Bytes of the largest block that is kept. The largest work space of any robot's file seen is that of a kitchen, 185 MB
for its 52 522 contacts, of which a step touches 5."""

HEADER = 128
"""Bytes that a call asks for beside its work space: for the size of the block, and to begin at a multiple of 64."""


class KeptBlock:
    """The cell of the kept block; whoever may still run machine code that uses it holds on to it."""

    def __init__(self) -> None:
        self._cell = ctypes.c_uint64(0)
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(jit.library_functions()["free"])

    @property
    def cell(self) -> int:
        """The address of the cell."""
        return ctypes.addressof(self._cell)

    @property
    def block(self) -> int:
        """The address of the block, 0 if there is none."""
        return self._cell.value

    def __del__(self) -> None:
        if self.block:
            self._free(self.block)


_blocks: weakref.WeakValueDictionary[str, KeptBlock] = weakref.WeakValueDictionary()


def kept_block(work_bytes: float) -> KeptBlock | None:
    """The block of this process, for as long as somebody holds on to it; None for those who never need it."""
    if work_bytes <= KEPT_BY_LIBRARY:
        return None
    return _blocks.setdefault("work space", KeptBlock())


@cache
def keep_what_is_freed() -> None:
    """Show the C library a block as large as it would ever keep, which is never written, and so no memory."""
    with contextlib.suppress(MemoryError):
        np.empty(KEPT_BY_LIBRARY, np.uint8)


def memory_functions(slot: int) -> str:
    """Functions that take a block and give it back; ``slot``: of the control block, with the address of the cell."""
    return _FUNCTIONS.substitute(slot=slot, least=KEPT_BY_LIBRARY, most=LARGEST_KEPT)


_FUNCTIONS = Template("""
declare noalias ptr @malloc(i64)
declare void @free(ptr)

define internal ptr @cell_for(ptr %data, i64 %size) nounwind {
  %large = icmp ugt i64 %size, $least
  %fits = icmp ule i64 %size, $most
  %keep = and i1 %large, %fits
  br i1 %keep, label %kept, label %not_kept
kept:
  %slot = getelementptr ptr, ptr %data, i64 $slot
  %cell = load ptr, ptr %slot
  ret ptr %cell
not_kept:
  ret ptr null
}

define internal ptr @take_work(ptr %data, i64 %size) nounwind {
  %cell = call ptr @cell_for(ptr %data, i64 %size)
  %none = icmp eq ptr %cell, null
  br i1 %none, label %new, label %look
look:
  %address = atomicrmw xchg ptr %cell, i64 0 acquire
  %block = inttoptr i64 %address to ptr
  %taken = icmp eq i64 %address, 0
  br i1 %taken, label %new, label %measure
measure:
  %room = load i64, ptr %block
  %enough = icmp uge i64 %room, %size
  br i1 %enough, label %found, label %small
found:
  ret ptr %block
small:
  call void @free(ptr %block)
  br label %new
new:
  %fresh = call ptr @malloc(i64 %size)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %without, label %with
with:
  store i64 %size, ptr %fresh
  ret ptr %fresh
without:
  ret ptr null
}

define internal void @give_work(ptr %data, ptr %block, i64 %size) nounwind {
  %cell = call ptr @cell_for(ptr %data, i64 %size)
  %none = icmp eq ptr %cell, null
  br i1 %none, label %release, label %keep
keep:
  %own = ptrtoint ptr %block to i64
  %address = atomicrmw xchg ptr %cell, i64 %own release
  %other = inttoptr i64 %address to ptr
  call void @free(ptr %other)
  ret void
release:
  call void @free(ptr %block)
  ret void
}
""")
