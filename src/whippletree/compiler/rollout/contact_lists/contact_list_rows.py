"""Rows of the blocks of a step, and the linear systems that are made of them: dense, or by recursion over a long tree.

The methods of a contact problem (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_solver`,
:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_interior`) ask for little: what impulses do to
velocities, and the solution of

    (1 + Σ Bᵀ D B) dy = right        D (3, 3) of every block

A *motion* is a vector that rows of blocks are multiplied by. Dense (:class:`DenseRows`), it is y (nv,) with velocities
Fᵀ y, and B = F Jᵀ has a number for each velocity. On a long tree whose contacts are with the world
(:class:`~whippletree.compiler.rollout.contact_lists.contact_list_recursion.RecursiveRows`), it is the twist of every
node, and a block's rows are six numbers wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from whippletree.compiler.program import Each, Lookup, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_chains import ChainSystem
from whippletree.compiler.rollout.dense_solve import DenseSolve, add_rows, multiply_rows, padded
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK


class BlockRows(Protocol):
    """Statements about rows ``B`` and ``E`` of the blocks, (blocks, 3, width) each, and motions by name.

    What begins with "in a loop over blocks" is about the block in hand, after :meth:`enter`.
    """

    width: int
    """Numbers of a row of B."""
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

    def add_to(self, motion: str, factors: str) -> Statement:
        """In a loop over blocks, what its three impulses ``factors`` do is added to a motion."""

    def compute_motion(self, motion: str) -> list[Statement]:
        """The motion that all added impulses cause: nothing may be read of it before."""

    def copy(self, motion: str, into: str) -> list[Statement]:
        """One motion as another."""

    def sweep(self, block: tuple[Statement, ...], change: str) -> list[Statement]:
        """Every block of the list in turn; ``change``: of its impulses, which y and the blocks after it notice."""

    def respond(self) -> Statement:
        """In a loop over blocks, E := ``slope of block`` (3, 3) times B."""

    def identity(self) -> list[Statement]:
        """The matrix of the system := 1."""

    def add(self, scale: str | None = None) -> list[Statement]:
        """In a loop over blocks, the matrix += Bᵀ E; ``scale``: of the three rows of B."""

    def factor(self) -> list[Statement]:
        """The matrix is complete."""

    def solve(self) -> list[Statement]:
        """The motion ``dy`` of the impulses that were added to ``right``, which is used up."""


class DenseRows:
    """Rows over all velocities: see :class:`BlockRows`."""

    def __init__(self, space: WorkSpace, velocities: int, supports: Sequence[Sequence[int]]) -> None:
        """``supports``: for every block, the velocities at which its rows may differ from zero."""
        self.space, self.width, self.swept, self.eager = space, padded(velocities), "y", False
        self.system = DenseSolve(space, velocities, supports)
        self.chain: ChainSystem | None = None
        self.identity, self.add = self.system.identity, self.system.add
        self.factor, self.solve = self.system.factor, self.system.solve

    def reserve(self, *names: str) -> None:
        """See :class:`BlockRows`."""
        self.space.work(**dict.fromkeys([name for name in names if name not in self.space.buffers], (self.width,)))

    def enter(self) -> list[Lookup]:
        """See :class:`BlockRows`."""
        return []

    def at(self, motion: str) -> Piece:
        """See :class:`BlockRows`."""
        return self.space.at(motion)

    def clear(self, motion: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [self.space.put(0, self.space.at(motion))]

    def add_to(self, motion: str, factors: str) -> Statement:
        """See :class:`BlockRows`."""
        return add_rows(self.space, motion, factors, self.width)

    def compute_motion(self, motion: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return []

    def copy(self, motion: str, into: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [traced_block(lambda y: [y], [self.space.at(motion)], [self.space.at(into)])]

    def sweep(self, block: tuple[Statement, ...], change: str) -> list[Statement]:
        """See :class:`BlockRows`."""
        return [Each(BLOCK, ACTIVE, (*block, self.add_to("y", change)))]

    def respond(self) -> Statement:
        """See :class:`BlockRows`."""
        return multiply_rows(self.space, "E", self.space.at("slope of block"), self.width)
