"""Newton's method on the contact problem of a list of blocks, inside a kernel.

The method is that of :mod:`whippletree.contact.problem.cone_newton`, on Alart and Curnier's F(λ) = λ − P(λ − m u),
damped by a share ε of each block's own diagonal. As u depends on λ by way of y alone, all impulses can be eliminated:

    A dλ = −F − m P′ Bᵀ dy,   A = 1 − (1 − ε) P′        (1 + Σ B A⁻¹ m P′ Bᵀ) dy = −Σ B A⁻¹ F

one matrix of the size of the velocities, whatever the number of contacts; it is eliminated in loops. A block that P
sends to a fixed place has no part in it. A moment that slips follows the normal impulse of the contact that presses on
it, by the slope ρ e of its disc: as the contact comes first, what it does is known, and is added to the moment's
A⁻¹ F and A⁻¹ m P′ Bᵀ. (With radii held from step to step, hands with a block or a pen took up to six times as long, and
left steps to Python.) Along a chain, dλ is found from (A + m P′ Bᵀ B) dλ = −F, contact by contact
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_chains`). Steps that lead astray are shortened where
forces are not far from unique (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_search`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Block, Each, If, Index, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_forms import WHOLE, block_of_form
from whippletree.compiler.rollout.contact_lists.contact_list_law import (
    alart_curnier,
    inverse_slope,
    load_slope,
    velocity_of,
)
from whippletree.compiler.rollout.contact_lists.contact_list_search import LineSearch
from whippletree.compiler.rollout.dense_solve import COLUMN, multiply_in_strands
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK
from whippletree.contact.problem.cones import brought_inside

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver

NEWTON_TURN = 8
"""Newton steps of a turn. Of 256 hard steps, 200 solved by 10 sweeps and at most 5 of them, 8 not at all."""

SEARCH_TURN = 14
"""Newton steps of a turn for robots, which shorten steps that lead astray
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_search`)."""

NEWTON_PATIENCE = 3
"""Newton steps in a row that may fail to halve the residual before the turn ends: where forces are far from unique, as
in a belt on its pulleys, they lead from one wrong set of sliding contacts to the next. Robots on feet are given the
whole turn: damping must fall below the compliance with which four legs push against each other, 1e-8 of the largest for
an ant that creeps. Of 36 000 steps of such ants, 3701 were left unsolved with this patience, 71 without, and 2 with the
interior-point method after it; of a humanoid that falls and lies 394, 158 and 0."""

NEWTON_PATIENCE_OF_CHAINS, NEWTON_PATIENCE_OF_CLOSED_CHAINS = 5, 2
"""Those on a chain, where the interior-point method is sure to follow; the second if loops close it. In landing steps
of belts Newton's method solves 3 problems of 90: with one step, two and three, belts of 100 links take 0.56, 0.50 and
0.67 ms a step as they land, and 360, 302 and 341 µs once they lie. An open chain that lies on a floor keeps its
contacts: of 178 steps of a snake of 40 links, 93 are left unsolved without a line search, after 185 steps of all
methods on average; with it and this patience none, after 4.6, and with a patience of 14 none, after 5.5."""

PATIENCE_WITHIN_TOLERANCE = 1
"""Newton steps in a row that may fail to halve a residual that is within the tolerance already, as they go on for the
sake of a scene that comes to rest. Where four limbs push against each other they lead back and forth near the tolerance
until the turn ends: of 607 steps of a humanoid that falls 57 were in vain, of 132 of one that lies 77."""

DAMPING, DAMPING_EASING = 1e-5, 0.3
"""Share of its own diagonal by which a block is damped in the first Newton step of a turn, and the factor by which it
falls from step to step."""

NEWTON = "newton"


class NewtonMethod:
    """Newton steps of a :class:`~whippletree.compiler.rollout.contact_lists.contact_list_solver.ListSolver`, from where
    its sweeps have come to. Buffers of its own:

    raw        impulses, which may leave their cones on the way; ``raw y`` is their motion
    damping    share of its own diagonal by which a block is damped in the next step
    spent      whether the method is at its end
    """

    def __init__(self, solver: ListSolver, hyperstatic: bool) -> None:
        """``hyperstatic``: as in the solver."""
        self.solver, self.space, self.rows = solver, solver.space, solver.rows
        chain, blocks = self.rows.chain, solver.blocks
        open_chain = chain is not None and not chain.ties
        searches = open_chain or not hyperstatic
        self.turn, self.patience = (SEARCH_TURN, SEARCH_TURN) if searches else (NEWTON_TURN, NEWTON_PATIENCE)
        if chain is not None:
            self.patience = NEWTON_PATIENCE_OF_CHAINS if open_chain else NEWTON_PATIENCE_OF_CLOSED_CHAINS
        self.rows.reserve("raw y")
        self.space.work(
            raw=(blocks, 3),
            spent=(1,),
            progress=(2,),  # the smallest residual of its turn, and steps since it was halved
            damping=(1,),
            part=(blocks, 3 if chain is None else chain.count),  # −A⁻¹ F, or dλ
        )
        if chain is None:
            self.space.work(
                slope_of_block=(3, 3),  # A⁻¹ m P′
                E=(blocks, 3, self.rows.width),  # A⁻¹ m P′ Bᵀ, and what moments take over from their contacts
                follows=(1,),  # whether a block's impulse depends on velocities, or on its contact's impulse
                link=(2,),  # ∂λ_t of a moment by the normal impulse of its contact
                linked=(1,),
            )
        self.search = LineSearch(solver) if searches else None

    def statements(self) -> list[Statement]:
        """Newton steps from where sweeps have come to."""
        at, each = self.space.at, self.space.each
        begin = traced_block(
            lambda residual: [[DAMPING], [residual[1], 0], [-1]],
            [at("residual")],
            each(("damping", "progress", "spent")),
        )
        copy = traced_block(lambda p: [p], [at("impulse", BLOCK)], [at("raw", BLOCK)])
        steps = Until(NEWTON, self.turn, self.space.address("spent"), tuple(self._step()))
        return [begin, *self.rows.copy("y", "raw y"), Each(BLOCK, ACTIVE, (copy,)), steps]

    def _step(self) -> list[Statement]:
        """Impulses eliminated block by block, one system of the size of the velocities, impulses back within bounds."""
        at = self.space.at
        count = traced_block(lambda made: [made + 1], [at("newtons")], [at("newtons")])
        begin = [] if self.search is None else [self.space.put(0, at("merit"))]
        if self.rows.chain is not None:
            chain = self.rows.chain
            system = [self.solver.each_active(self._linearise()), *chain.factor_and_solve("goal", "part")]
        else:
            blocks = self.rows.by_form(self._enter_system)
            system = [*self.rows.clear("right"), *self.rows.identity(), self.solver.each_active(*blocks)]
            system += [*self.rows.factor(), *self.rows.solve()]
        return [
            *begin,
            *system,
            *self.rows.clear("raw y"),
            *self.rows.clear("y"),
            self.solver.each_active(*self.rows.by_form(self._advance)),
            *self.rows.compute_motion("raw y"),
            *self.rows.compute_motion("y"),
            count,
            *self.solver.measure(),
            *self._next_damping(),
            self._look_at_progress(),
        ]

    def _next_damping(self) -> list[Statement]:
        """Damping of the next step, once this one has been looked at."""
        if self.search is not None:
            return self.search.look_ahead(DAMPING_EASING)
        at = self.space.at
        return [traced_block(lambda damping: [DAMPING_EASING * damping], [at("damping")], [at("damping")])]

    def _enter_system(self, form: int) -> list[Statement]:
        """A block's part of the matrix and of the right-hand side; one that follows nothing is not in the matrix."""
        respond = [self.rows.respond(form), *(self._follow_host() if form == WHOLE else [])]
        enter = If(self.space.address("follows"), tuple(self.rows.add(form=form)))
        return [self._linearise(form), self.rows.add_to("right", "part", form), *respond, enter]

    def _follow_host(self) -> list[Statement]:
        """E of a moment that slips: its tangents follow the normal of the contact that presses on it.

        The contact comes first in the list, so that its own E is known.
        """
        if not self.solver.pressed:
            return []
        tangents = Piece((2,), tuple(Address("E", (Index(BLOCK), Index(None, i), Index(COLUMN))) for i in (1, 2)))
        normal = Piece((), (Address("E", (Index("host"), Index(None, 0), Index(COLUMN))),))
        add = traced_block(
            lambda E, normal, link: [E + link * normal], [tangents, normal, self.space.at("link")], [tangents]
        )
        return [If(self.space.address("linked"), (Loop(COLUMN, self.rows.width, (add,), side_by_side=True),))]

    def _linearise(self, form: int = WHOLE) -> Block:
        """For one block: its impulse's change at unchanged velocities, and how it follows them and its contact."""
        at = self.space.at

        def prepare(*given: Any) -> list[Any]:
            state, ((mass, _), *rest) = self.solver.part_state(given)
            mu, radius, (damping, *merit) = self.solver.law(rest)
            _, _, _, p, *soft = state
            F, P = alart_curnier(p, mass * velocity_of(*state), mu, radius)
            weighed = [[merit[0][0] + (F @ F) / (mass * mass)]] if self.search is not None else []
            if self.rows.chain is not None:
                B, n = state[1], self.rows.chain.count
                system = [-F[:n], (identity(3) - (1 - damping[0]) * P)[:n, :n], ((mass * P) @ B)[:n], B[:n]]
                return [*system, *weighed]
            inverse = inverse_slope(P, damping[0], *[mass * compliance for compliance in soft])
            part, slope = -(inverse @ F), inverse @ (mass * P)
            follows = P[0, 0] + abs(P[1, 1]) + abs(P[1, 2]) + abs(P[2, 2])
            links = []
            if self.solver.pressed and form == WHOLE:
                *merit, of_host = merit
                share, pressing = rest[3:5]
                link, slips = load_slope(p, mass * velocity_of(*state), radius, select(less(0, pressing), share, 0))
                link = inverse[1:, 1:] @ link
                part = part + vector(0, *[select(slips, x * of_host, 0) for x in link])
                follows = select(slips, 1, follows)
                links = [link, [select(slips, 1, -1)]]
            return [part, slope, *weighed, [follows], *links]

        reads = [*self.solver.state("raw", "raw y"), at("mass", BLOCK), *self.solver.bounds("raw"), at("damping")]
        merit = [at("merit")] if self.search is not None else []
        if self.rows.chain is not None:
            system = self.space.each(("goal", "own matrix", "pull", "thrown"), BLOCK)
            return traced_block(prepare, [*reads, *merit], [*system, *merit])
        reads, writes = [*reads, *merit], [at("part", BLOCK), at("slope of block"), *merit, at("follows")]
        if self.solver.pressed and form == WHOLE:
            reads.append(Piece((), (Address("part", (Index("host"), Index(None, 0))),)))
            writes += self.space.each(("link", "linked"))
        return block_of_form(form, prepare, reads, writes)

    def _advance(self, form: int) -> list[Statement]:
        """A block's new impulse, as Newton's method has it and brought within its bounds, and what both move."""
        each = self.space.each
        at = self.space.at

        def advance(p: Array, part: Array, *rest: Any) -> list[Any]:
            mu, radius, answer = self.solver.law(rest)
            change = vector(*part, *[0] * (3 - len(part)))
            if answer:
                E, dy = answer
                change = part - multiply_in_strands(E, dy)
            return [p + change, brought_inside(p + change, mu, radius), *([] if self.search is None else [change])]

        reads = [*each(("raw", "part"), BLOCK), *self.solver.bounds()]
        reads += [at("E", BLOCK), self.rows.at("dy")] if self.rows.chain is None else []
        names = ("raw", "impulse") if self.search is None else ("raw", "impulse", "way")
        block = block_of_form(form, advance, reads, each(names, BLOCK))
        return [block, self.rows.add_to("raw y", "raw", form), self.rows.add_to("y", "impulse", form)]

    def _look_at_progress(self) -> Block:
        """``spent`` once the residual is fine enough, or has not halved for too many steps."""
        each = self.space.each

        def look(residual: Array, progress: Array, fineness: Array, tolerance: Any) -> list[Any]:
            smallest, idle = progress
            halved = less(2 * residual[1], smallest)
            idle = select(halved, 0, idle + 1)
            patience = select(less(tolerance, residual[1]), self.patience, PATIENCE_WITHIN_TOLERANCE)
            end = select(less(patience - 1, idle), 1, select(less(fineness[0], residual[1]), -1, 1))
            return [[select(halved, residual[1], smallest), idle], [end]]

        return traced_block(look, each(("residual", "progress", "fineness", "tolerance")), each(("progress", "spent")))
