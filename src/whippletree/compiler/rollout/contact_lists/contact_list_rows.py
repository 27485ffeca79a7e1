"""Rows of the blocks of a step, and the linear systems that are made of them: dense, narrow, or by recursion.

The methods of a contact problem (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_solver`,
:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_interior`) ask for little: what impulses do to
velocities, and the solution of

    (1 + Σ Bᵀ D B) dy = right        D (3, 3) of every block

A *motion* is a vector that rows of blocks are multiplied by. Dense (:class:`DenseRows`), it is y (nv,) with velocities
Fᵀ y, and B = F Jᵀ has a number for each velocity; narrow (:class:`NarrowRows`), B has one for each velocity that moves
the block, so that what robots of one scene cost does not depend on the others. On a long tree whose contacts are with
the world
(:class:`~whippletree.compiler.rollout.contact_lists.contact_list_recursion.RecursiveRows`), it is the twist of every
node, and a block's rows are six numbers wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from whippletree.compiler.program import Address, Each, Index, Lookup, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_chains import ChainSystem
from whippletree.compiler.rollout.contact_lists.contact_list_forms import FORM, FORMS, WHOLE, block_of_form, row_of
from whippletree.compiler.rollout.contact_lists.contact_list_parts import PartSolve
from whippletree.compiler.rollout.dense_solve import (
    ROW,
    SUPPORT,
    DenseSolve,
    add_row,
    add_rows,
    multiply_row,
    multiply_rows,
    padded,
)
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, RowPlace

NARROW = 0.5
"""Share of a scene's velocities up to which rows of blocks are narrow. Their places are looked up one by one, which
dense rows need not do: humanoids of 23 and 62 velocities, two thirds of which move a block, take 5.5 and 60 µs a step
with narrow rows, 5.5 and 53 with dense ones; four ants in one scene 30 with narrow rows, 60 with dense ones."""


class BlockRows(Protocol):
    """Statements about rows ``B`` and ``E`` of the blocks, (blocks, 3, width) each, and motions by name.

    What begins with "in a loop over blocks" is about the block in hand, after :meth:`enter`.
    """

    width: int
    """Numbers of a row of B."""
    unknowns: int
    """Those of a dense matrix that the systems are solved with; of a recursion, those of a node."""
    swept: str
    """The motion that blocks respond to in a sweep."""
    eager: bool
    """Whether a turn begins with Newton's and the interior-point method, and sweeps come last: these cost as much."""

    chain: ChainSystem | None
    """What solves the systems in another way, where contacts are on chains."""

    def reserve(self, *names: str) -> None:
        """Motions of these names."""

    def enter(self) -> list[Lookup]:
        """In a loop over blocks, first of all: registers that the other statements need."""

    def at(self, motion: str) -> Piece:
        """In a loop over blocks, the part of a motion that its rows are multiplied by, (width,)."""

    def clear(self, motion: str) -> list[Statement]:
        """No impulses have been added to a motion yet."""

    def add_to(self, motion: str, factors: str, form: int = WHOLE) -> Statement:
        """In a loop over blocks of a form, what its three impulses ``factors`` do is added to a motion."""

    def by_form(self, make: Callable[[int], Sequence[Statement]]) -> list[Statement]:
        """In a loop over blocks, statements for blocks of the form in hand
        (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_forms`)."""

    def compute_motion(self, motion: str) -> list[Statement]:
        """The motion that all added impulses cause: nothing may be read of it before."""

    def copy(self, motion: str, into: str) -> list[Statement]:
        """One motion as another."""

    def sweep(self, block: Callable[[int], Sequence[Statement]], change: str) -> list[Statement]:
        """Every block of the list in turn, by statements for its form; ``change``: of its impulses, which y and the
        blocks after it notice."""

    def respond(self, form: int = WHOLE) -> Statement:
        """In a loop over blocks, E := ``slope of block`` (3, 3) times B; ``form``: that of the block."""

    def identity(self) -> list[Statement]:
        """The matrix of the system := 1."""

    def add(self, scale: str | None = None, form: int = WHOLE) -> list[Statement]:
        """In a loop over blocks of a form, the matrix += Bᵀ E; ``scale``: of the three rows of B."""

    def factor(self) -> list[Statement]:
        """The matrix is complete."""

    def solve(self) -> list[Statement]:
        """The motion ``dy`` of the impulses that were added to ``right``, which is used up."""


def rows_of_blocks(
    space: WorkSpace,
    velocities: int,
    supports: Sequence[Sequence[int]],
    ways: Sequence[Sequence[int]] | None = None,
    widest: int | None = None,
) -> DenseRows:
    """Rows in the form that suits them; ``supports``: for every block, the velocities at which they may not vanish;
    ``ways``: for every velocity, those on its way to the base; ``widest``: velocities of the tree that has most, where
    parts of the scene may be solved one by one."""
    narrow = bool(supports) and max(map(len, supports)) <= NARROW * velocities
    if narrow and ways is not None and widest is not None:
        return PartedRows(space, velocities, supports, ways, widest)
    return (NarrowRows if narrow else DenseRows)(space, velocities, supports, ways)


class DenseRows:
    """Rows over all velocities: see :class:`BlockRows`."""

    def __init__(
        self,
        space: WorkSpace,
        velocities: int,
        supports: Sequence[Sequence[int]],
        ways: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """``supports``: for every block, the velocities at which its rows may differ from zero; ``ways``: for every
        velocity, those before it on the way to the base, if that is known."""
        self.space, self.velocities, self.swept, self.eager = space, velocities, "y", False
        self.width, self.unknowns = self._width(supports), padded(velocities)
        self.system = self._system(supports, ways)
        self.chain: ChainSystem | None = None
        self.identity, self.factor, self.solve = self.system.identity, self.system.factor, self.system.solve

    def reserve(self, *names: str) -> None:
        """See :class:`BlockRows`."""
        new = [name for name in names if name not in self.space.buffers]
        self.space.work(**dict.fromkeys(new, (padded(self.velocities),)))

    def _width(self, supports: Sequence[Sequence[int]]) -> int:
        """Numbers of a row of B."""
        return padded(self.velocities)

    def _system(self, supports: Sequence[Sequence[int]], ways: Sequence[Sequence[int]] | None) -> DenseSolve:
        """What solves the systems."""
        return DenseSolve(self.space, self.velocities, supports, ways)

    def raw(self, own: RowPlace) -> RowPlace:
        """In a loop over blocks, where F Jᵀ over all velocities is put that is to become rows ``own`` of the block."""
        return own

    def keep(self, own: RowPlace) -> list[Statement]:
        """In a loop over blocks, what is in :meth:`raw` becomes its rows."""
        return [self.space.put(0, own.part(range(self.velocities, self.width)))]

    def columns(self, rows: RowPlace) -> Piece:
        """In a loop over blocks, its rows over all velocities, at those of :meth:`at`."""
        return rows.whole(self.velocities)

    def enter(self) -> list[Lookup]:
        """See :class:`BlockRows`."""
        return []

    def at(self, motion: str) -> Piece:
        """See :class:`BlockRows`."""
        return self.space.at(motion)

    def clear(self, motion: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [self.space.put(0, self.space.at(motion))]

    def add_to(self, motion: str, factors: str, form: int = WHOLE) -> Statement:
        """See :class:`BlockRows`; ``form``: that of the block."""
        if form == WHOLE:
            return add_rows(self.space, motion, factors, self.width)
        place = Index(BLOCK), Index(None, row_of(form))
        return add_row(motion, Piece((), (Address(factors, place),)), Address("B", place), self.width)

    def by_form(self, make: Callable[[int], Sequence[Statement]]) -> list[Statement]:
        """See :class:`BlockRows`."""
        if FORM not in self.space.buffers:
            return list(make(WHOLE))
        return [Lookup(FORM, self.space.address(FORM, BLOCK)), Switch(FORM, tuple(tuple(make(form)) for form in FORMS))]

    def add_one(self, motion: str, factor: str, row: str) -> Statement:
        """In a loop over blocks, a factor (1,) times a single row of the block is added to a motion."""
        return add_row(motion, Piece((), (self.space.address(factor),)), self.space.address(row, BLOCK), self.width)

    def compute_motion(self, motion: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return []

    def copy(self, motion: str, into: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [traced_block(lambda y: [y], [self.space.at(motion)], [self.space.at(into)])]

    def sweep(self, block: Callable[[int], Sequence[Statement]], change: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [
            Each(
                BLOCK,
                ACTIVE,
                (*self.enter(), *self.by_form(lambda form: [*block(form), self.add_to("y", change, form)])),
            )
        ]

    def respond(self, form: int = WHOLE) -> Statement:
        """See :class:`BlockRows`."""
        if form == WHOLE:
            return multiply_rows(self.space, "E", self.space.at("slope of block"), self.width)
        own, place = row_of(form), (Index(BLOCK), Index(None, row_of(form)))
        slope = Piece((), (Address("slope of block", (Index(None, own), Index(None, own))),))
        return multiply_row(Address("E", place), slope, Address("B", place), self.width)

    def add(self, scale: str | None = None, form: int = WHOLE) -> list[Statement]:
        """See :class:`BlockRows`."""
        return self.system.add(scale, _rows_of(form))


class NarrowRows(DenseRows):
    """Rows over the velocities that move a block: see :class:`BlockRows`.

    All blocks have as many places as the one that most velocities move. What others have to spare are velocities that
    do not move them, where their rows are zero.
    """

    def __init__(
        self,
        space: WorkSpace,
        velocities: int,
        supports: Sequence[Sequence[int]],
        ways: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """See :class:`DenseRows`."""
        super().__init__(space, velocities, supports, ways)
        self.places = [f"place {i}" for i in range(self.width)]
        space.work(
            whole=(3, velocities),  # rows of the block in hand, before they are made narrow
            spread=(3, padded(velocities)),  # and its E, with zeros in between
        )

    def _width(self, supports: Sequence[Sequence[int]]) -> int:
        return max(map(len, supports))

    def raw(self, own: RowPlace) -> RowPlace:
        """See :class:`DenseRows`."""
        return RowPlace("whole", (), own.rows, None if own.rows else own.row or 0)

    def keep(self, own: RowPlace) -> list[Statement]:
        """See :class:`DenseRows`."""
        into = own.whole(self.width)
        heads = [(Index(None, i),) for i in (range(own.rows) if own.rows else [own.row or 0])]
        return [traced_block(lambda x: [x], [Piece(into.shape, self._at_places("whole", *heads))], [into])]

    def columns(self, rows: RowPlace) -> Piece:
        """See :class:`DenseRows`."""
        return rows.spread(self.places)

    def enter(self) -> list[Lookup]:
        """See :class:`BlockRows`."""
        found = [Lookup(SUPPORT, self.space.address(SUPPORT, BLOCK))]
        places = enumerate(self.places)
        return found + [Lookup(name, Address(ROW, (Index(SUPPORT), Index(None, i)))) for i, name in places]

    def at(self, motion: str) -> Piece:
        """See :class:`BlockRows`."""
        return Piece((self.width,), self._at_places(motion, ()))

    def _at_places(self, name: str, *heads: tuple[Index, ...]) -> tuple[Address, ...]:
        """Numbers of a buffer at the places of the block in hand, for every one of the indices before these."""
        return tuple([Address(name, (*head, Index(place))) for head in heads for place in self.places])

    def add_to(self, motion: str, factors: str, form: int = WHOLE) -> Statement:
        """See :class:`DenseRows`."""
        reads = [self.at(motion), *self.space.each(("B", factors), BLOCK)]
        return block_of_form(form, lambda x, B, f: [x + f @ B], reads, [self.at(motion)])

    def add_one(self, motion: str, factor: str, row: str) -> Statement:
        """See :class:`DenseRows`."""
        reads = [self.at(motion), self.space.at(factor), self.space.at(row, BLOCK)]
        return traced_block(lambda x, f, row: [x + f[0] * row], reads, [self.at(motion)])

    def respond(self, form: int = WHOLE) -> Statement:
        """See :class:`BlockRows`."""
        if form != WHOLE:
            return super().respond(form)
        reads = [self.space.at("slope of block"), self.space.at("B", BLOCK)]
        return traced_block(lambda slope, B: [slope @ B], reads, [self.space.at("E", BLOCK)])

    def add(self, scale: str | None = None, form: int = WHOLE) -> list[Statement]:
        """See :class:`BlockRows`: columns of the matrix are next to each other, so E is spread over them first."""
        rows = _rows_of(form)
        heads = [(Index(BLOCK), Index(None, i)) for i in rows]
        columns = range(self.width)
        own = Piece(
            (len(rows), self.width), tuple([Address("E", (*head, Index(None, i))) for head in heads for i in columns])
        )
        into = Piece((len(rows), self.width), self._at_places("spread", *[(Index(None, i),) for i in rows]))
        zeros = tuple(
            [Address("spread", (Index(None, i), Index(None, k))) for i in rows for k in range(padded(self.velocities))]
        )
        spread = traced_block(lambda E: [E], [own], [into])
        nothing = self.space.put(0, Piece((len(zeros),), zeros))
        return [nothing, spread, *self.system.add(scale, rows, narrow=True)]


class PartedRows(NarrowRows):
    """Narrow rows of blocks that leave parts of a scene apart
    (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_parts`); its unknowns are those of the widest tree,
    which parts seldom exceed."""

    def __init__(
        self,
        space: WorkSpace,
        velocities: int,
        supports: Sequence[Sequence[int]],
        ways: Sequence[Sequence[int]],
        widest: int,
    ) -> None:
        """``widest``: velocities of the tree that has most."""
        super().__init__(space, velocities, supports, ways)
        self.unknowns = padded(widest)

    def _system(self, supports: Sequence[Sequence[int]], ways: Sequence[Sequence[int]] | None) -> DenseSolve:
        """See :class:`DenseRows`."""
        assert ways is not None
        return PartSolve(self.space, self.velocities, supports, ways)


def _rows_of(form: int) -> Sequence[int]:
    """The rows that blocks of a form have."""
    return range(3) if form == WHOLE else (row_of(form),)
