"""Space of a compiled step and its parts: the model, its blocks, what drives it, and the buffers of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.compiler.program import Address, Index, Loop, Register, Statement
from whippletree.compiler.program.traced_blocks import Piece
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Model
from whippletree.tree.skeleton import skeleton

STEP, ACTIVE, BLOCK, LIMB = "step", "active", "block", "limb"
"""The register of the time step, the list of blocks that may matter in it, the register of one of them, and that of the
limb of the tree that it belongs to."""


class Driven(NamedTuple):
    """Functions of (t, q, v) that a kernel asks in every step: traceable ones, without memory; or one in Python."""

    controller: Callable[[Any, Any, Any], Any] | None = None
    """Joint forces (nv,), beside those that are given."""
    commands: Callable[[Any, Any, Any], Any] | None = None
    """Commands (actuators,), in place of given ones."""
    held: bool = False
    """Whether dampers (nv,) come with a call, beside those of the joints: the velocity gains of a controller."""
    in_python: bool = False
    """Whether all forces and commands are told by a function in Python, in place of given ones."""

    @property
    def traced(self) -> bool:
        """Whether there are functions whose code is part of the kernel."""
        return self.controller is not None or self.commands is not None

    @property
    def timed(self) -> bool:
        """Whether there are any."""
        return self.traced or self.in_python

    def at(self, t: Any, q: Array, v: Array, tau: Array, ctrl: Any) -> tuple[Array, Any]:
        """Forces (nv,) and commands (actuators,) at one state."""
        # copies: functions may write on what they are given
        if self.controller is not None:
            tau = tau + np.asarray(self.controller(t, scalar_array(q.copy()), scalar_array(v.copy())), dtype=object)
        if self.commands is not None:
            ctrl = np.asarray(self.commands(t, scalar_array(q.copy()), scalar_array(v.copy())), dtype=object)
        return tau, ctrl


class StepSpace(WorkSpace):
    """The buffers of a step's program, and what all of its parts know of the model."""

    def __init__(self, model: Model, driven: Driven, single: bool = False) -> None:
        """``single``: one step, whose arguments and results have no dimension for steps."""
        super().__init__()
        self.model, self.tree = model, skeleton(model)
        self.blocks = ContactBlocks(model, alone=True)
        self.actuators = self.blocks.actuators
        self.driven, self.single = driven, single
        self.timed = bool(model.constraints) and constraint_set(model).timed
        """Whether a constraint depends on time."""
        self.contacts = len(self.blocks.contacts.candidates)

    def at(self, name: str, *registers: Register | Index | None) -> Piece:
        """A buffer, or the part of it at registers for its first dimensions; that of steps only where it has one."""
        has_steps = "T" in self.buffers[name].shape[:1]
        return super().at(name, *[r for r in registers if has_steps or r != STEP])

    def some(self, name: str, places: range, *rest: int) -> Piece:
        """Part of a buffer for some blocks, at further indices that are the same for all."""
        inner = [Index(None, i) for i in rest]
        return Piece((len(places),), tuple(Address(name, (Index(None, i), *inner)) for i in places))

    @property
    def limits_are_neighbours(self) -> bool:
        """Whether limited joints come one after the other, so that their limits can be looked at side by side."""
        places = [(axis.q - i, axis.v - i) for i, axis in enumerate(self.blocks.limited)]
        return len(set(places)) == 1

    def of_neighbour(self, name: str, first: int) -> Piece:
        """Number of a buffer for the limit in hand, where these begin at a place of it."""
        return Piece((), (Address(name, (Index(BLOCK, first),)),))

    def each_block(self, *statements: Statement) -> list[Statement]:
        """These statements for every block; none where nothing can touch."""
        return [Loop(BLOCK, self.blocks.count, statements)] if self.blocks.count else []

    @property
    def asks_clock(self) -> bool:
        """Whether the times at which steps begin are an input."""
        return self.driven.timed or self.timed

    @property
    def tells_forces(self) -> bool:
        """Whether the forces of a step are not those that were given."""
        return self.actuators.acting or self.driven.timed or self.driven.held

    def held_dampers(self, damping: Array) -> Array:
        """Dampers (nv,) that came with a call, on the joints that may have them: those of one freedom."""
        found = np.zeros(self.model.nv, dtype=int).astype(object)
        for joint, part in zip(self.model.joints, self.model.v_slices, strict=True):
            if joint.type.nv == 1:
                found[part] = damping[part]
        return found


class RowPlace(NamedTuple):
    """Where rows over all velocities are: a buffer (…, nv), or (…, rows, nv), at registers for its first dimensions."""

    name: str
    registers: tuple[Register, ...] = ()
    rows: int | None = None
    """How many rows there are; None for a single one."""
    row: int | None = None
    """Which of the rows of a buffer that has several is the single one."""
    upright: bool = False
    """Whether the buffer is (…, nv, rows), so that what rows have in a column lies side by side."""

    def _numbers(self) -> Sequence[int | None]:
        """Numbers of the rows; None for that of a buffer which has no other."""
        return [self.row] if self.rows is None else range(self.rows)

    def _at(self, row: int | None, column: Index) -> Address:
        """An entry of a row."""
        own = () if row is None else (Index(None, row),)
        return Address(self.name, (*map(Index, self.registers), *((column, *own) if self.upright else (*own, column))))

    def entry(self, register: Register) -> Piece:
        """The number of the single row at a register, ()."""
        (row,) = self._numbers()
        return Piece((), (self._at(row, Index(register)),))

    def columns(self, register: Register, width: int) -> Piece:
        """Entries register … register + width − 1 of each row, (rows, width)."""
        rows = self._numbers()
        places = [self._at(row, Index(register, i)) for row in rows for i in range(width)]
        return Piece((len(rows), width), tuple(places))

    def spread(self, registers: Sequence[Register]) -> Piece:
        """Entries at registers of each row, (rows, registers)."""
        rows = self._numbers()
        places = [self._at(row, Index(register)) for row in rows for register in registers]
        return Piece((len(rows), len(registers)), tuple(places))

    def column(self, register: Register) -> Piece:
        """The entry of each row at a register, (rows,)."""
        rows = self._numbers()
        return Piece((len(rows),), tuple(self._at(row, Index(register)) for row in rows))

    def whole(self, nv: int) -> Piece:
        """The rows themselves, (nv,) or (rows, nv)."""
        return self.part(range(nv))

    def part(self, columns: Sequence[int]) -> Piece:
        """Some columns of the rows, (columns,) or (rows, columns)."""
        places = [self._at(row, Index(None, i)) for row in self._numbers() for i in columns]
        return Piece((len(columns),) if self.rows is None else (self.rows, len(columns)), tuple(places))


JACOBIAN, COLUMN_ROOM = "J", 4
"""The rows of blocks over velocities, (blocks, nv, room): the three of a block stand upright, in room for one more, so
that a vector holds a column. What it finds for the room goes to ``unasked``."""


def jacobian_rows(rows: int | None, row: int | None = None) -> RowPlace:
    """Rows of J of the block in hand: so many, or the single one of a number."""
    return RowPlace(JACOBIAN, (BLOCK,), rows, row, upright=True)


def symmetric_block(own: Array) -> Array:
    """A block's own part (3, 3) of G, from its upper triangle."""
    a, b, c, d, e, f = own
    return np.array([[a, b, c], [b, d, e], [c, e, f]], dtype=object)
