"""What the solver needs of each block in the list: its rows, its own part of G, and its velocities without impulses.

Rows J on velocities become B = F Jᵀ by the factor of M, and projections of that where there are constraints. A contact
of a long tree with the world has short rows instead, on the twist of its node
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_recursion`).
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.compiler.program import Each, Index, Lookup, Loop, Statement, Switch
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_closures import Closures
from whippletree.compiler.rollout.contact_lists.contact_list_forms import WHOLE, block_of_form, row_of
from whippletree.compiler.rollout.contact_lists.contact_list_memory import (
    CONTACT,
    FRICTION,
    LIMIT,
    SERVO,
    TAUT,
    ListSpace,
)
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import RecursiveRows, own_block
from whippletree.compiler.rollout.contact_lists.contact_list_rows import DenseRows
from whippletree.compiler.rollout.contact_lists.contact_list_trees import TreeInStep
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.step_space import (
    ACTIVE,
    BLOCK,
    COLUMN_ROOM,
    STEP,
    RowPlace,
    jacobian_rows,
    symmetric_block,
)
from whippletree.contact.problem.contact_problem import block_mass
from whippletree.contact.time_step import counted, shifts
from whippletree.spatial import add_cross

MOVER = "row"
"""The register of one of the velocities that move a contact."""


class BlockPreparation:
    """Statements that prepare the block in hand for the solver."""

    def __init__(self, space: ListSpace, tree: TreeInStep, closures: Closures, rows: DenseRows | RecursiveRows) -> None:
        self.space, self.tree, self.closures, self.rows = space, tree, closures, rows
        self.blocks, self.contacts = space.blocks, space.contacts

    def statements(self) -> list[Statement]:
        """Step 3 for one block, whatever its form."""
        rows = self.rows
        if isinstance(rows, RecursiveRows):
            return self._short_rows(rows)
        return [*rows.enter(), *rows.by_form(lambda form: self._rows_of_form(rows, form))]

    def own_numbers(self) -> Statement:
        """What each block of the list knows of itself, once its rows are known.

        Roots and quotients wait for each other: in a loop of their own those of some blocks are under way at once.
        """
        at = self.space.at

        def prepare(own: Array) -> list[Any]:
            return [list(block_mass(symmetric_block(own)))]

        def block(form: int) -> list[Statement]:
            return [block_of_form(form, prepare, [at("own", BLOCK)], [at("mass", BLOCK)])]

        return Each(BLOCK, ACTIVE, tuple(self.rows.by_form(block)))

    def jacobian(self, form: int = WHOLE) -> list[Statement]:
        """J (3, nv) of one block, or the one row that it has, from the screws and touches of the present poses."""
        at = self.space.at

        def entry(row: int) -> Piece:
            return jacobian_rows(None, row).entry("axis")

        def whole(row: int) -> Piece:
            return jacobian_rows(None, row).whole(self.space.model.nv)

        cases: list[tuple[Statement, ...]] = [()] * (1 + SERVO)
        if self.contacts:
            cases[CONTACT] = self._contact_rows(form)
        cases += self.space.moments.rows()
        if self.blocks.limited:
            copy = traced_block(lambda s: [s], [at("sign", "limit")], [entry(0)])
            cases[LIMIT] = (*self.space.look_up("limit"), copy)
        if self.blocks.taut:
            copy = traced_block(lambda row: [row], [at("tendon row", "tendon")], [whole(0)])
            cases[TAUT] = (*self.space.look_up("tendon"), copy)
        if self.blocks.rubbing:
            cases[FRICTION] = (traced_block(lambda: [1], [], [entry(1)]),)
        if self.blocks.servos:
            copy = traced_block(lambda G: [G], [at("servo row", "servo")], [whole(1)])
            cases[SERVO] = (*self.space.look_up("servo"), copy)
        nothing = self.space.put(0, at("J", BLOCK) if form == WHOLE else whole(row_of(form)))
        return [nothing, *self.space.look_up("kind", "axis"), Switch("kind", tuple(cases))]

    def _rows_of_form(self, rows: DenseRows, form: int) -> list[Statement]:
        """Step 3 for one block of a form."""
        at, each = self.space.at, self.space.each

        def prepare(J: Array, B: Array, free: Array, v: Array, y: Array, *rest: Any) -> list[Any]:
            gap, e, h, impulse, *servo = rest
            a, b, c = B
            own = vector(*[multiply_in_strands(x, y) for x, y in ((a, a), (a, b), (a, c), (b, b), (b, c), (c, c))])
            if servo:
                own[3] = own[3] + servo[0]
            both = multiply_in_strands(J, v), multiply_in_strands(J, free)
            approach, g = (numbers[:3].copy() for numbers in both)
            shift = shifts(vector(gap), vector(approach[0]), vector(e), h)[0]
            g[0] = g[0] + shift
            if servo:
                g[1] = g[1] - servo[1]
            found = [own, g, [shift], approach, [0] * 3, y + B.T @ impulse]
            return [*found, [numbers[3] for numbers in both]] if form == WHOLE else found

        reads = [
            rows.columns(jacobian_rows(COLUMN_ROOM if form == WHOLE else 3)),
            at("B", BLOCK),
            *map(rows.at, ("free", "now v", "y")),
        ]
        reads += [
            *each(("gap", "restitution"), BLOCK),
            at("dt", STEP),
            at("impulse", BLOCK),
        ]
        reads += each(("soft", "offset"), BLOCK) if self.blocks.servos else []
        writes = [at(n, BLOCK) for n in ("own", "g", "shift", "approach", "delta")]
        count, row = (3, None) if form == WHOLE else (None, row_of(form))
        J, own = jacobian_rows(count, row), RowPlace("B", (BLOCK,), count, row)
        more = [self.space.some("unasked", range(2))] if form == WHOLE else []
        none = [] if form == WHOLE else [RowPlace("B", (BLOCK,), row=i).whole(rows.width) for i in range(3) if i != row]
        return [
            *self.jacobian(form),
            *self.tree.backward(J, rows.raw(own), of_block=True),
            *self.closures.project(rows.raw(own)),
            *rows.keep(own),
            *([self.space.put(0, *none)] if none else []),
            block_of_form(form, prepare, reads, [*writes, rows.at("y"), *more]),
        ]

    def _short_rows(self, rows: RecursiveRows) -> list[Statement]:
        """Step 3 for one contact with the world, whose rows are on the twist of its node."""
        at, each = self.space.at, self.space.each

        def prepare(B: Array, now: Array, free: Array, gap: Any, e: Any, h: Any, *yielding: Array) -> list[Any]:
            G = own_block(B, *yielding)
            approach, g = B @ now, B @ free
            shift = shifts(vector(gap), vector(approach[0]), vector(e), h)[0]
            g[0] = g[0] + shift
            own = [G[0, 0], G[0, 1], G[0, 2], G[1, 1], G[1, 2], G[2, 2]]
            return [own, g, [shift], approach, [0] * 3]

        reads = [
            at("B", BLOCK),
            rows.at("now"),
            rows.at("free"),
            *each(("gap", "restitution"), BLOCK),
        ]
        reads += [at("dt", STEP), *rows.own_yielding()]
        writes = [at(n, BLOCK) for n in ("own", "g", "shift", "approach", "delta")]
        own = [*rows.own_rows(), *rows.turn_impulse(inwards=True)]
        return [*own, traced_block(prepare, reads, writes), rows.add_to("y", "impulse")]

    def _contact_rows(self, form: int) -> tuple[Statement, ...]:
        """Rows of J: a velocity that moves one of the bodies moves the material points at the contact. Or that of the
        normal alone, which undoes an overlap: what no sensible displacement does anything about counts as 0."""
        at = self.space.at
        count = 3 if form == WHOLE else 1

        def along(touch: Array, screw: Array, side: Any, gap: Any = 0, target: Any = 0) -> list[Any]:
            velocity = add_cross(screw[3:6], screw[:3], touch[1:4] - screw[6:])
            found = side * (touch[4:].reshape(3, 3)[:count] @ velocity)
            if form == WHOLE:
                return [found]
            return [counted(x, gap - target) for x in found]

        # rows of screws have the numbers of their velocities, but for those of modes
        names = ("path", "screw row") if self.space.model.is_flexible else ("path",)
        reads = [at("touch", BLOCK), at("screw", names[-1]), at("side", BLOCK, MOVER)]
        reads += [] if form == WHOLE else [*self.space.each(("gap", "target"), BLOCK)]
        found = [Lookup(name, self.space.address(name, BLOCK, MOVER)) for name in names]
        body: tuple[Statement, ...] = (*found, traced_block(along, reads, [jacobian_rows(count).column("path")]))
        return (*self.space.look_up("moving"), Loop(MOVER, Index("moving"), body))
