"""Loops of a kernel over many numbers of one sort, some of them in each pass: the code is short, much is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from whippletree.compiler.llvm.ir import Operand, Writer

Handed: TypeAlias = list[Operand]
"""Values that a loop hands from pass to pass."""


@dataclass(frozen=True)
class Walk:
    """So many numbers to treat: where it starts (types and values), and the code that takes some more steps."""

    count: int
    start: list[tuple[str, Operand]]
    step: Callable[[Handed, int], Handed]


def roll_loop(w: Writer, walk: Walk, group: int) -> Handed:
    """A loop that takes some numbers at a time, then those that are left; where the walk arrives."""
    passes, rest = divmod(walk.count, group)
    at = [value for _, value in walk.start]
    if passes:
        at = _loop(w, walk, passes, group)
    return walk.step(at, rest) if rest else at


def _loop(w: Writer, walk: Walk, passes: int, group: int) -> Handed:
    before, head, end = w.block, w.label("loop"), w.label("end")
    w.emit(f"br label %{head}")
    w.start(head)
    place = len(w.lines)
    done, following = w.fresh(), w.fresh()
    names = [w.fresh() for _ in walk.start]
    after = walk.step(names, group)
    w.emit(f"{following} = add i32 {done}, 1")
    more = w.value(f"icmp ult i32 {following}, {passes}")
    phis = [f"  {done} = phi i32 [ 0, %{before} ], [ {following}, %{w.block} ]"]
    for (kind, start), name, value in zip(walk.start, names, after, strict=True):
        phis.append(f"  {name} = phi {kind} [ {start}, %{before} ], [ {value}, %{w.block} ]")
    w.lines[place:place] = phis
    w.emit(f"br i1 {more}, label %{head}, label %{end}, !llvm.loop !2")  # which forbids to unroll it
    w.start(end)
    return after
