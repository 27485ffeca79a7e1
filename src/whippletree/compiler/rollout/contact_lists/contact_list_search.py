"""How far Newton's method goes along a step, for the contact problem of a list of blocks inside a kernel.

A step that leads from one wrong set of sliding contacts to another is shortened: halved until Σ |F / m|² falls, as in
:mod:`whippletree.contact.problem.cone_newton`, or an eighth of it is left. The damping of the next step follows: less
after a whole step, more after one that had to be shortened. Most problems are solved by one or two whole steps, so
nobody looks at a step that has solved its problem.

Of 26 steps of falling humanoids that eight whole steps and the sweeps before them did not solve, 14 whole steps solve
half, and 14 with this search 24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import If, Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_law import alart_curnier, velocity_of
from whippletree.compiler.rollout.step_space import BLOCK
from whippletree.contact.problem.cone_newton import DESCENT
from whippletree.contact.problem.cones import brought_inside

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver

NEWTON_HALVINGS = 3
"""Times that a step is halved at most. Of the 26, as many are solved with five, by a third more evaluations; with one,
20."""

LARGEST_DAMPING, DAMPING_GROWTH = 1e-3, 10
"""Share of its own diagonal by which a block is damped at most, and the factor by which the share grows after a step
that was shortened."""

HALVING = "halving"


class LineSearch:
    """Statements about a Newton step of a
    :class:`~whippletree.compiler.rollout.contact_lists.contact_list_solver.ListSolver`. Its buffers, beside those of
    the solver:

    way       dλ of the whole step
    merit     Σ |F / m|², m²/s², where the step begins
    """

    def __init__(self, solver: ListSolver) -> None:
        self.solver, self.space, self.rows = solver, solver.space, solver.rows
        self.space.work(
            way=(solver.blocks, 3),
            merit=(1,),
            trial_merit=(1,),
            stride=(1,),  # share of the step that is taken
            good=(1,),
            too_far=(1,),
        )

    def look_ahead(self, damping: float) -> list[Statement]:
        """After a whole step: shorten it, if it has not solved the problem; the damping of the next one.

        ``damping``: its factor after a whole step.
        """
        at, each = self.space.at, self.space.each
        next_damping = traced_block(
            lambda now, stride: [[select(less(stride[0], 1), self._grown(now[0]), damping * now[0])]],
            each(("damping", "stride")),
            [at("damping")],
        )
        shortened = traced_block(lambda stride: [[1 - stride[0]]], [at("stride")], [at("too far")])
        search = (
            self.space.put(-1, at("good")),
            Until(HALVING, NEWTON_HALVINGS + 1, self.space.address("good"), tuple(self._shorten())),
            shortened,
            If(self.space.address("too far"), tuple(self._arrive())),
        )
        undone = traced_block(lambda done: [[1], -done], [at("done")], each(("stride", "undone")))
        return [undone, If(self.space.address("undone"), search), next_damping]

    @staticmethod
    def _grown(damping: Any) -> Any:
        more = DAMPING_GROWTH * damping
        return select(less(LARGEST_DAMPING, more), LARGEST_DAMPING, more)

    def _shorten(self) -> list[Statement]:
        """Half of the step, unless what it leads to is good enough, or it is short already."""
        at, each = self.space.at, self.space.each

        def weigh(*given: Any) -> list[Any]:
            state, ((mass, _), *rest) = self.solver.part_state(given)
            mu, radius, (total,) = self.solver.law(rest)
            F, _ = alart_curnier(state[3], mass * velocity_of(*state), mu, radius)
            return [[total[0] + (F @ F) / (mass * mass)]]

        def judge(trial: Array, merit: Array, stride: Array) -> list[Any]:
            wanted = 1 - DESCENT * stride[0]
            good = select(less(trial[0], wanted * wanted * merit[0]), 1, -1)
            good = select(less(2**-NEWTON_HALVINGS, stride[0]), good, 1)
            return [[good], [-good], [select(less(0, good), stride[0], stride[0] / 2)]]

        reads = [*self.solver.state("raw", "raw y"), at("mass", BLOCK), *self.solver.bounds("raw"), at("trial merit")]
        back = traced_block(
            lambda raw, way, stride: [raw - stride[0] * way],
            [*each(("raw", "way"), BLOCK), at("stride")],
            [at("raw", BLOCK)],
        )
        half_way = (
            *self.rows.clear("raw y"),
            self.solver.each_active(back, self.rows.add_to("raw y", "raw")),
            *self.rows.compute_motion("raw y"),
        )
        return [
            self.space.put(0, at("trial merit")),
            self.solver.each_active(traced_block(weigh, reads, [at("trial merit")])),
            traced_block(judge, each(("trial merit", "merit", "stride")), each(("good", "too far", "stride"))),
            If(self.space.address("too far"), half_way),
        ]

    def _arrive(self) -> list[Statement]:
        """Impulses within their bounds at the end of a step that was shortened, and what they are worth."""

        def bound(raw: Array, *rest: Any) -> list[Any]:
            mu, radius, _ = self.solver.law(rest)
            return [brought_inside(raw, mu, radius)]

        at = self.space.at
        block = traced_block(bound, [at("raw", BLOCK), *self.solver.bounds()], [at("impulse", BLOCK)])
        return [
            *self.rows.clear("y"),
            self.solver.each_active(block, self.rows.add_to("y", "impulse")),
            *self.rows.compute_motion("y"),
            *self.solver.measure(),
        ]
