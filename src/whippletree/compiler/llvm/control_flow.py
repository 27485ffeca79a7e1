"""Loops, and bodies that only some lanes run: one lane branches, a vector of lanes carries a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from whippletree.compiler.llvm.ir import Operand, Writer
from whippletree.compiler.llvm.target_memory import Memory, Registers
from whippletree.compiler.program import Address, Dimension, Index, Others


class Parted(NamedTuple):
    """The lanes of a body in which not all of them are: those in hand, and those that store (None: all)."""

    mask: Operand
    storing: Operand | None


class CarriedNumber:
    """An integer (i64) that the rounds of a loop hand on to each other in a register."""

    def __init__(self, start: Operand) -> None:
        self.start = start
        self.now: Operand = ""
        """In the round in hand, and after the loop."""
        self.after: Operand = ""
        """In the next round: to be said by the body."""


class ControlFlow:
    """Emits the frames of loops and of bodies for some lanes, at the writer's current place."""

    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory

    @contextmanager
    def rounds(
        self, count: Operand, goes_on: Callable[[], Operand] | None = None, carried: CarriedNumber | None = None
    ) -> Iterator[Operand]:
        """Around the body of a loop: its step, from 0 up to a count, or until a condition (i1) no longer holds."""
        w = self.writer
        before, head, body, end = w.block, w.label("loop"), w.label("body"), w.label("end")
        w.emit(f"br label %{head}")
        w.start(head)
        step, after = w.fresh(), w.fresh()
        latch = w.label("latch")
        w.emit(f"{step} = phi i64 [ 0, %{before} ], [ {after}, %{latch} ]")
        if carried is not None:
            carried.now, next_ = w.fresh(), w.fresh()
            w.emit(f"{carried.now} = phi i64 [ {carried.start}, %{before} ], [ {next_}, %{latch} ]")
        more = w.value(f"icmp slt i64 {step}, {count}")
        if goes_on is not None:
            look = w.label("look")
            w.emit(f"br i1 {more}, label %{look}, label %{end}")
            w.start(look)
            more = goes_on()
        w.emit(f"br i1 {more}, label %{body}, label %{end}")
        w.start(body)
        yield step
        w.emit(f"br label %{latch}")
        w.start(latch)
        w.emit(f"{after} = add i64 {step}, 1")
        if carried is not None:
            w.emit(f"{next_} = add i64 {carried.after}, 0")
        w.emit(f"br label %{head}")
        w.start(end)

    def count(self, count: Dimension | Index, registers: Registers) -> Operand:
        if isinstance(count, Index):
            return self.memory.index(count, registers)
        return str(count) if isinstance(count, int) else self.memory.count(count)

    def positive(self, address: Address, registers: Registers, holds: bool = True) -> Operand:
        """The lanes in which a number is positive; or (``holds`` false) in which it is not."""
        w = self.writer
        value = self.memory.read(address, registers)
        # a NaN is not positive, so it takes the unordered comparison to find what is not
        operands = (w.constant(0.0), value)
        return w.compare("olt", *operands) if holds else w.compare("uge", *operands)

    def among(self, condition: Operand, lanes: Operand | None) -> Operand:
        """Which of some lanes (None: all) are those in which a condition holds."""
        if lanes is None:
            return condition
        return self.writer.value(f"and {self.writer.lanes.condition} {condition}, {lanes}")

    def part_lanes(self, condition: Operand, others: Others) -> Parted:
        """The lanes of a body that a condition decides about."""
        memory = self.memory
        mask = self.among(condition, memory.mask)
        if others != "wait":
            return Parted(mask, memory.storing)
        return Parted(mask, mask if memory.storing == memory.mask else self.among(condition, memory.storing))

    @contextmanager
    def only(self, lanes: Parted) -> Iterator[None]:
        """Around statements that only these lanes run; one lane has branched already."""
        memory = self.memory
        outer = memory.mask, memory.storing
        if self.writer.lanes.width > 1:
            memory.mask, memory.storing = lanes
        yield
        memory.mask, memory.storing = outer

    @contextmanager
    def unless_none(self, some: Operand, lanes: Parted) -> Iterator[None]:
        """Around statements that these lanes run, skipped if there is none of ``some`` of them."""
        w = self.writer
        body, end = w.label("then"), w.label("end")
        w.emit(f"br i1 {w.any(some)}, label %{body}, label %{end}")
        w.start(body)
        with self.only(lanes):
            yield
        w.emit(f"br label %{end}")
        w.start(end)
