"""Constraints in a compiled step: rows that are met exactly, beside those that only push.

With M⁻¹ = Fᵀ F, rows A of constraints become F Aᵀ. Made orthonormal, Q = R⁻ᵀ (F Aᵀ)ᵀ, they say everything that the
block matrix of 000 says of them:

    M† = Fᵀ (1 − Qᵀ Q) F          A x = r   has the solution of least M-norm   x = Fᵀ Qᵀ R⁻ᵀ r

So rows of contacts are F Jᵀ less their part along Q, and everything after that is as without constraints. Velocities
end the step at A v⁺ = −h γ, as the reference path has it; coordinates are brought back to g(q) = 0 in the rounds that
move apart what overlaps, and velocities to A v = 0 there. Rows that depend on time have a rate gₜ of their own:
A v = −gₜ wherever A v = 0 is said.

Rows are made orthonormal one after the other, each with its right-hand side. A row that is nearly a combination of
those before it, a dead point, makes the step NaN: who called knows better methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_trees import TreeInStep
from whippletree.compiler.rollout.dense_solve import COLUMN
from whippletree.compiler.rollout.step_space import STEP, RowPlace, StepSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import PIVOT_TOLERANCE
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import TAKEN_BY_LOOPS, TURNED_BY_OPENING
from whippletree.tree.mechanism import Mechanism

LOOPS_CLOSED = 1e-13
"""m or rad: residual of a loop that is left as it is; rounds stop where they no longer help, too."""

TIE, BEFORE = "tie", "tie before"


class Closures:
    """Statements about the constraints of a model; none where it has none. Buffers: ``A``, the rows at the present
    coordinates, ``open``, their residuals g, and ``Q``; ``present``, the time, and ``rate``, gₜ, where time matters.
    """

    def __init__(self, space: StepSpace, tree: TreeInStep) -> None:
        self.space, self.tree = space, tree
        self.suffix = ""
        """Of the name of the buffer that Q is in."""
        self.count = 0
        if not space.model.constraints:
            return
        self.system = constraint_set(space.model)
        self.kept = list(self.system.structure.independent)
        self.count = len(self.kept)
        nv, m = space.model.nv, self.count
        space.work(
            A=(m, nv),
            open=(m,),
            gone=(1,),
            aim=(m,),  # −h γ
            Q=(m, nv),
            wanted=(m,),
            along=(nv,),
            size=(1,),
            squares=(3,),  # of the rows in hand, before loops take their part
        )
        if space.timed:
            space.work(present=(1,), rate=(m,))

    # ---- time ----------------------------------------------------------------------------------------------------

    def start_clock(self) -> list[Statement]:
        """``present``: the time at which the step begins."""
        if not self.space.timed:
            return []
        at = self.space.at
        return [traced_block(lambda t: [[t]], [at("clock", STEP)], [at("present")])]

    def reach_end(self) -> list[Statement]:
        """``present``: the time at which the step ends."""
        if not self.space.timed:
            return []
        at = self.space.at
        return [traced_block(lambda t, h: [[t + h]], [at("clock", STEP), at("dt", STEP)], [at("present")])]

    def _present(self) -> list[Piece]:
        """The time, if rows depend on it."""
        return [self.space.at("present")] if self.space.timed else []

    def _rates(self, *registers: str) -> list[Piece]:
        """gₜ of the row in hand, or of all, if rows depend on time."""
        return [self.space.at("rate", *registers)] if self.space.timed else []

    # ---- rows ----------------------------------------------------------------------------------------------------

    def rows(self) -> list[Statement]:
        """A and g at the present coordinates, and gₜ if there is any."""
        if not self.count:
            return []

        def find(q: Array, *present: Array) -> list[Any]:
            m, still = Mechanism(self.space.tree), zeros(self.space.model.nv)
            t = present[0][0] if present else 0
            rows = self.system.rows(m, m.moving(q, still) if present else m.still(q), q, still if present else None, t)
            open_ = zeros(len(self.system.row_names))
            open_[list(self.system.position_rows)] = rows.residual()
            rate = [rows.velocity()[self.kept]] if present else []  # A v + gₜ at rest
            return [rows.jacobian()[self.kept], open_[self.kept], *rate]

        reads = [self.space.at("now q"), *self._present()]
        return [traced_block(find, reads, [*self.space.each(("A", "open")), *self._rates()])]

    def worst(self) -> list[Statement]:
        """``gone``: the largest of the residuals."""
        if not self.count:
            return []
        at = self.space.at
        block = traced_block(
            lambda g, worst: [[largest([worst[0], abs(g)])]], [at("open", TIE), at("gone")], [at("gone")]
        )
        return [self.space.put(0, at("gone")), Loop(TIE, self.count, (block,))]

    # ---- solutions -----------------------------------------------------------------------------------------------

    def factor(self) -> list[Statement]:
        """Q of the present coordinates."""
        if not self.count:
            return []
        return self._orthonormal([self.space.put(0, self.space.at("wanted", TIE))])

    def release(self) -> list[Statement]:
        """The free velocity with A v = −gₜ − h γ, and Q of the present coordinates."""
        if not self.count:
            return []

        def find(q: Array, v: Array, h: Any, *timed: Array) -> list[Any]:
            m = Mechanism(self.space.tree)
            rows = self.system.rows(m, m.moving(q, v), q, v, timed[0][0] if timed else 0)
            aim = -h * rows.bias()[self.kept]
            return [aim - timed[1] if timed else aim]

        at, each = self.space.at, self.space.each
        reads = [*each(("now q", "now v")), at("dt", STEP), *self._present(), *self._rates()]
        target = traced_block(find, reads, [at("aim")])
        want = traced_block(
            lambda A, aim, v: [aim - A @ v], [at("A", TIE), at("aim", TIE), at("free")], [at("wanted", TIE)]
        )
        return [target, *self._orthonormal([want]), *self._combine(), *self.tree.forward("along", "free", "free")]

    def close_coordinates(self, into: str) -> list[Statement]:
        """``into`` (nv,), which is zero: y of the displacement Fᵀ y that closes all loops; and Q of the present
        coordinates."""
        if not self.count:
            return []
        at = self.space.at
        want = traced_block(lambda g: [-g], [at("open", TIE)], [at("wanted", TIE)])
        copy = traced_block(lambda y: [y], [at("along")], [RowPlace(into).whole(self.space.model.nv)])
        return [*self._orthonormal([want]), *self._combine(), copy]

    def keep_closing(self, into: str) -> list[Statement]:
        """``into`` (nv,), to which rows without a part along Q have been added, once more without what rounding left
        along Q: normals that push against each other in vain add up to 1e5 times what they move, and opened the
        couplings of a jammed gripper by 2e-11 m in every step."""
        if not self.count:
            return []

        def restore(y: Array, Q: Array, wanted: Any) -> list[Any]:
            return [y + (wanted - Q @ y) * Q]

        place = RowPlace(into).whole(self.space.model.nv)
        block = traced_block(restore, [place, *self.space.each(("Q", "wanted"), TIE)], [place])
        return [Loop(TIE, self.count, (block,))]

    def close_velocity(self) -> list[Statement]:
        """The present velocity brought to A v = −gₜ."""
        if not self.count:
            return []
        at = self.space.at
        reads = [at("A", TIE), at("now v"), *self._rates(TIE)]
        want = traced_block(lambda A, v, *rate: [-(A @ v) - sum(rate)], reads, [at("wanted", TIE)])
        return [*self._orthonormal([want]), *self._combine(), *self.tree.forward("along", "now v", "now v")]

    def project(self, rows: RowPlace, *, while_open: bool = False) -> list[Statement]:
        """Rows F Jᵀ less their part along Q; zero where that is all but rounding, as of a limit of what a row holds.

        ``while_open``: the loops are still to be closed, so that their rows are off by as much as they are open.
        """
        if not self.count:
            return []

        def squares(B: Array) -> list[Any]:
            return [row @ row for row in np.reshape(B, (-1, B.shape[-1]))]

        def less_part(B: Array, Q: Array) -> list[Any]:
            if B.ndim == 1:
                return [B - (B @ Q) * Q]
            return [B - np.outer(B @ Q, Q)]

        def what_moves(B: Array, before: Array, *gone: Array) -> list[Any]:
            least = least_share(gone)
            moves = [select(less(least * x, y), 1, 0) for x, y in zip(before, squares(B), strict=True)]
            return [B * (moves[0] if B.ndim == 1 else np.array(moves, dtype=object)[:, None])]

        at = self.space.at
        place = rows.whole(self.space.model.nv)
        before = self.space.some("squares", range(rows.rows or 1))
        return [
            traced_block(lambda B: [squares(B)], [place], [before]),
            Loop(TIE, self.count, (traced_block(less_part, [place, at("Q" + self.suffix, TIE)], [place]),)),
            traced_block(what_moves, [place, before, *self._opening(while_open)], [place]),
        ]

    def _opening(self, while_open: bool) -> list[Piece]:
        """The largest residual of the loops, if it counts."""
        return [self.space.at("gone")] if while_open else []

    def _orthonormal(self, want: Sequence[Statement]) -> list[Statement]:
        """Q, and the right-hand sides R⁻ᵀ r; ``want``: finds r of the row in hand."""
        at, each = self.space.at, self.space.each

        def reduce(Q: Array, other: Array, wanted: Any, known: Any) -> list[Any]:
            share = Q @ other
            return [Q - share * other, [wanted - share * known]]

        def finish(Q: Array, wanted: Any, size: Array) -> list[Any]:
            square = Q @ Q
            scale = select(less(PIVOT_TOLERANCE * size[0], square), 1 / sqrt(square), math.nan)
            return [scale * Q, [scale * wanted]]

        own = each(("Q", "wanted"), TIE)
        row: list[Statement] = [*want, *self.tree.backward(RowPlace("A", (TIE,)), RowPlace("Q", (TIE,)))]
        row.append(traced_block(lambda Q: [[Q @ Q]], own[:1], [at("size")]))
        if self.count > 1:
            reads = [own[0], at("Q", BEFORE), own[1], at("wanted", BEFORE)]
            row.append(Loop(BEFORE, Index(TIE), (traced_block(reduce, reads, own),)))
        row.append(traced_block(finish, [*own, at("size")], own))
        return [Loop(TIE, self.count, tuple(row))]

    def _combine(self) -> list[Statement]:
        """``along``: the combination of rows of Q that meets all right-hand sides."""
        at = self.space.at
        block = traced_block(
            lambda y, Q, wanted: [y + wanted * Q], [at("along"), *self.space.each(("Q", "wanted"), TIE)], [at("along")]
        )
        return [self.space.put(0, at("along")), Loop(TIE, self.count, (block,))]


def least_share(gone: Sequence[Array]) -> Any:
    """Share of the square of a row that must be left of it, or loops hold it; ``gone``: how far they are open, m."""
    turned = TURNED_BY_OPENING * gone[0][0] if gone else 0
    return TAKEN_BY_LOOPS + turned * turned


class LongClosures(Closures):
    """Constraints of a long tree: sums over all velocities are loops, so that code does not grow with them."""

    def project(self, rows: RowPlace, *, while_open: bool = False) -> list[Statement]:
        """See :meth:`Closures.project`; several rows at once, which long trees seldom have, are written out there."""
        if not self.count or rows.rows is not None:
            return super().project(rows, while_open=while_open)
        own, tie = rows.entry(COLUMN), self._entry("Q" + self.suffix, TIE)
        before = self.space.some("squares", range(1))
        share, after = self.space.some("squares", range(1, 2)), self.space.some("squares", range(2, 3))
        less_part = traced_block(lambda b, q, share: [[b - share[0] * q]], [own, tie, share], [own])
        moves = traced_block(
            lambda b, x, y, *gone: [[select(less(least_share(gone) * x[0], y[0]), b, 0)]],
            [own, before, after, *self._opening(while_open)],
            [own],
        )
        return [
            *self._sum(own, own, before),
            Loop(TIE, self.count, (*self._sum(own, tie, share), self._each(less_part))),
            *self._sum(own, own, after),
            self._each(moves),
        ]

    def keep_closing(self, into: str) -> list[Statement]:
        """See :meth:`Closures.keep_closing`."""
        if not self.count:
            return []
        place, tie, share = self._entry(into), self._entry("Q", TIE), self.space.some("squares", range(1))
        reads = [place, tie, self.space.at("wanted", TIE), share]
        add = traced_block(lambda y, q, wanted, share: [[y + (wanted - share[0]) * q]], reads, [place])
        return [Loop(TIE, self.count, (*self._sum(place, tie, share), self._each(add)))]

    def _orthonormal(self, want: Sequence[Statement]) -> list[Statement]:
        at = self.space.at

        def finish(wanted: Any, square: Array, size: Array) -> list[Any]:
            scale = select(less(PIVOT_TOLERANCE * size[0], square[0]), 1 / sqrt(square[0]), math.nan)
            return [[scale * wanted], [scale]]

        own, other = self._entry("Q", TIE), self._entry("Q", BEFORE)
        share = self.space.some("squares", range(1))
        reduce = traced_block(lambda q, other, share: [[q - share[0] * other]], [own, other, share], [own])
        known = [at("wanted", TIE), at("wanted", BEFORE), share]
        less_known = traced_block(lambda x, y, share: [[x - share[0] * y]], known, known[:1])
        scaled = traced_block(lambda q, scale: [[q * scale[0]]], [own, share], [own])
        row: list[Statement] = [*want, *self.tree.backward(RowPlace("A", (TIE,)), RowPlace("Q", (TIE,)))]
        row += self._sum(own, own, at("size"))
        row.append(Loop(BEFORE, Index(TIE), (*self._sum(own, other, share), self._each(reduce), less_known)))
        row += self._sum(own, own, share)
        row.append(traced_block(finish, [at("wanted", TIE), share, at("size")], [at("wanted", TIE), share]))
        return [Loop(TIE, self.count, (*row, self._each(scaled)))]

    def _combine(self) -> list[Statement]:
        along = self._entry("along")
        reads = [along, self.space.at("wanted", TIE), self._entry("Q", TIE)]
        add = traced_block(lambda y, wanted, q: [[y + wanted * q]], reads, [along])
        return [self._each(self.space.put(0, along)), Loop(TIE, self.count, (self._each(add),))]

    def _entry(self, name: str, *registers: str) -> Piece:
        """The number of a row at the velocity in hand."""
        return Piece((), (self.space.address(name, *registers, COLUMN),))

    def _each(self, statement: Statement) -> Statement:
        return Loop(COLUMN, self.space.model.nv, (statement,))

    def _sum(self, first: Piece, second: Piece, into: Piece) -> list[Statement]:
        """``into`` (1,): the product of two rows."""
        add = traced_block(lambda total, a, b: [total + a * b], [into, first, second], [into])
        return [self.space.put(0, into), self._each(add)]
