"""Bounces that add no energy, inside a compiled step: :mod:`whippletree.contact.restitution_share`.

The contact problem is solved with Newton's restitution. Where its impulses gain, it is solved a second time without
restitution, by the same statements, and the step goes on with a share of both solutions: one share for each *island* of
contacts that can act on each other, so that a bounce here takes nothing from one elsewhere. Steps that do not gain keep
their bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Loop, Register, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver
from whippletree.compiler.rollout.scenes.scene_contacts import BODY as ANY_BODY
from whippletree.compiler.rollout.scenes.scene_contacts import ISLAND, SceneContacts, pushed, relative_velocity
from whippletree.compiler.rollout.scenes.scene_solver import SceneSolver
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, STEP, StepSpace
from whippletree.contact.problem.cones import largest
from whippletree.contact.restitution_share import gains, islands_of, may_gain, mixed_impulse, restitution_share
from whippletree.contact.time_step import shifts

LAW, MIXTURE = "law of impact", "mixture"


class Bounces(ABC):
    """Statements around those of a solver, on its buffers (impulse, shift, works, residual, tolerance) and these:

    newton, plastic   impulses of each contact with restitution and without
    … residual        of each solution
    bounced           Σ λₙ e |uₙ⁻| of all contacts that bounce
    tally             of an island: work W, Σ λₙ, Σ λₙ e |uₙ⁻|
    … work            of an island: W of each solution
    bounce share      of an island: s, 1 where it does not gain
    gained, judged    whether an island gains, and whether none is left that does
    mixes             whether both solutions were found
    """

    register: Register
    """Of a contact in the list :data:`ACTIVE`."""

    def __init__(self, space: WorkSpace, contacts: int | str, islands: int | str) -> None:
        self.space, self.islands = space, islands
        space.work(newton=(contacts, 3), plastic=(contacts, 3), newton_residual=(3,), plastic_residual=(3,))
        space.work(tally=(islands, 3), newton_work=(islands,), plastic_work=(islands,), bounce_share=(islands,))
        space.work(bounced=(1,), gained=(1,), judged=(1,), mixes=(1,))

    def begin(self) -> Statement:
        """Before a step is solved."""
        return self.space.put(-1, self.space.at("judged"), self.space.at("mixes"))

    def judge(self) -> list[Statement]:
        """After a solution: where it gains, the problem without restitution, which is to be solved next."""
        at, put, address = self.space.at, self.space.put, self.space.address

        def add(p: Array, shift: Any, bounced: Array) -> list[Any]:
            return [[bounced[0] + p[0] * largest([-shift, 0])]]

        block = traced_block(add, [*self.of_contact("impulse", "shift"), at("bounced")], [at("bounced")])
        again = (*self._keep("newton"), *self.without_restitution(), put(1, at("mixes")))
        return [
            put(0, at("bounced")),
            self.each_that_bounces(block),
            put(-1, at("gained")),
            put(1, at("judged")),
            # a solution without restitution does not bounce
            If(address("bounced"), (*self._add_up(), self._each_island(self._decide()))),
            If(address("gained"), again),
        ]

    def _decide(self) -> Statement:
        def decide(tally: Array, tolerance: Any, gained: Array) -> list[Any]:
            work, load, bounce = tally
            gain = gains(work, bounce, load, tolerance)
            worst = select(gain, 1, gained[0])
            return [[work], [select(gain, 1 / 2, 1)], [worst], [-worst]]

        at, each = self.space.at, self.space.each
        reads = [at("tally", ISLAND), *each(("tolerance", "gained"))]
        return traced_block(
            decide, reads, [*each(("newton work", "bounce share"), ISLAND), *each(("gained", "judged"))]
        )

    def mix(self) -> Statement:
        """After both solutions, if there are two: of each island the share of both that adds nothing.

        Half of each tells the parabola, and so the share.
        """
        at, each = self.space.at, self.space.each

        def choose(share: Any, plastic: Any, newton: Any, tally: Array) -> list[Any]:
            return [[select(less(share, 1), restitution_share(plastic, newton, tally[0]), 1)]]

        def worst(plastic: Array, newton: Array) -> list[Any]:
            return [[largest([a, b]) for a, b in zip(plastic, newton, strict=True)]]

        reads = each(("bounce share", "plastic work", "newton work", "tally"), ISLAND)
        # after the second round, which has taken the shares, they are not asked for again
        chosen = self._each_island(traced_block(choose, reads, [at("bounce share", ISLAND)]))
        copy = traced_block(lambda tally: [[tally[0]]], [at("tally", ISLAND)], [at("plastic work", ISLAND)])
        body = (
            *self._keep("plastic"),
            *self._add_up(),
            self._each_island(copy),
            Loop(MIXTURE, 2, (*self.mix_impulses(), *self._add_up(), chosen)),
            *self.measure(),
            # what a mixture leaves of either problem is no error
            traced_block(worst, each(("plastic residual", "newton residual")), [at("residual")]),
        )
        return If(self.space.address("mixes"), body)

    # ---- parts ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def of_contact(self, *names: str) -> list[Piece]:
        """Parts of buffers for the contact in hand."""

    @abstractmethod
    def each(self, *statements: Statement) -> Statement:
        """Statements for every contact of the list, with a register for its island."""

    def each_that_bounces(self, statement: Statement) -> Statement:
        """A statement for every contact of the list that may bounce."""
        return Each(self.register, ACTIVE, (statement,))

    def every(self, copy: Statement) -> Statement:
        """A copy for every contact that may carry an impulse in a later solution of the step."""
        return Each(self.register, ACTIVE, (copy,))

    @abstractmethod
    def work(self, *given: Any) -> Any:
        """Work of a contact, from :meth:`terms_of_work`."""

    @abstractmethod
    def terms_of_work(self) -> list[Piece]:
        """Numbers of the contact in hand and its bodies that its work depends on."""

    @abstractmethod
    def without_restitution(self) -> list[Statement]:
        """The problem without restitution, from the impulses with it."""

    @abstractmethod
    def mix_impulses(self) -> list[Statement]:
        """``bounce share`` of Newton's impulses, the rest of plastic ones, and their motion."""

    @abstractmethod
    def measure(self) -> list[Statement]:
        """The solver's measure of the impulses as they are."""

    def mix_impulse(self) -> Statement:
        """The impulse of the contact in hand."""

        def mix(plastic: Array, newton: Array, share: Any) -> list[Any]:
            return [[mixed_impulse(a, b, share) for a, b in zip(plastic, newton, strict=True)]]

        reads = [*self.of_contact("plastic", "newton"), self.space.at("bounce share", ISLAND)]
        return traced_block(mix, reads, self.of_contact("impulse"))

    def _each_island(self, statement: Statement) -> Statement:
        return Loop(ISLAND, self.islands, (statement,))

    def _add_up(self) -> list[Statement]:
        """The tally of every island."""
        tally = self.space.at("tally", ISLAND)

        def add(tally: Array, p: Array, shift: Any, *given: Any) -> list[Any]:
            return [tally + np.array([self.work(*given), p[0], p[0] * largest([-shift, 0])], dtype=object)]

        reads = [tally, *self.of_contact("impulse", "shift"), *self.terms_of_work()]
        return [self._each_island(self.space.put(0, tally)), self.each(traced_block(add, reads, [tally]))]

    def _keep(self, name: str) -> list[Statement]:
        """A solution and its residual."""
        copy = traced_block(lambda p: [p], self.of_contact("impulse"), self.of_contact(name))
        told = self.space.at("residual"), self.space.at(f"{name} residual")
        return [self.every(copy), traced_block(lambda residual: [residual], told[:1], told[1:])]


class ListBounces(Bounces):
    """Bounces of a single scene, whose islands are those of its model."""

    register = BLOCK

    def __init__(self, space: StepSpace, solver: ListSolver) -> None:
        self.solver = solver
        self.needed = may_gain(space.blocks)
        if self.needed:
            islands = islands_of(space.blocks)
            super().__init__(space, space.blocks.count, int(islands.max()) + 1)
            space.index(ISLAND, islands)

    def around(self, solve: Sequence[Statement]) -> list[Statement]:
        """The solution, without what its bounces gain; models that cannot gain have nothing around it."""
        if not self.needed:
            return list(solve)
        return [self.begin(), Until(LAW, 2, self.space.address("judged"), (*solve, *self.judge())), self.mix()]

    def of_contact(self, *names: str) -> list[Piece]:
        """See :class:`Bounces`."""
        return self.space.each(names, BLOCK)

    def each(self, *statements: Statement) -> Statement:
        """See :class:`Bounces`."""
        return self.solver.each_active(Lookup(ISLAND, self.space.address(ISLAND, BLOCK)), *statements)

    def work(self, *given: Any) -> Any:
        """See :class:`Bounces`."""
        return sum(self.solver.work_of_block(*given))

    def terms_of_work(self) -> list[Piece]:
        """See :class:`Bounces`."""
        return self.solver.terms_of_work()

    def without_restitution(self) -> list[Statement]:
        """See :class:`Bounces`."""

        def change(gap: Any, approach: Array, shift: Any, g: Array, h: Any) -> list[Any]:
            plastic = shifts(vector(gap), vector(approach[0]), vector(0), h)[0]
            return [[plastic], [g[0] + (plastic - shift), g[1], g[2]], [0, 0, 0]]

        reads = [*self.of_contact("gap", "approach", "shift", "g"), self.space.at("dt", STEP)]
        block = traced_block(change, reads, self.of_contact("shift", "g", "delta"))
        return [Each(BLOCK, ACTIVE, (block,))]

    def mix_impulses(self) -> list[Statement]:
        """See :class:`Bounces`."""
        rows = self.solver.rows
        return [*rows.clear("y"), self.each(self.mix_impulse(), rows.add_to("y", "impulse")), *rows.compute_motion("y")]

    def measure(self) -> list[Statement]:
        """See :class:`Bounces`."""
        return self.solver.measure()


class SceneBounces(Bounces):
    """Bounces of a scene of many free bodies: ``restores`` (1 or 0) says whether its contacts have restitution."""

    register = CONTACT

    def __init__(self, space: WorkSpace, contacts: SceneContacts, solver: SceneSolver) -> None:
        super().__init__(space, "C", "N")
        self.contacts, self.solver = contacts, solver

    def of_contact(self, *names: str) -> list[Piece]:
        """See :class:`Bounces`."""
        return self.contacts.of_contact(*names)

    def each(self, *statements: Statement) -> Statement:
        """See :class:`Bounces`."""
        island = Lookup(ISLAND, Address("node", (Index(CONTACT), Index(None, 2))), "N")
        return self.contacts.each(island, *self.contacts.lead("vel"), *statements)

    def each_that_bounces(self, statement: Statement) -> Statement:
        """See :class:`Bounces`; none does where no row was made with a bounce."""
        return If(self.space.address("rebounds"), (super().each_that_bounces(statement),))

    def every(self, copy: Statement) -> Statement:
        """See :class:`Bounces`; those that are not in the list, which others may join later, carry nothing."""
        return Loop(CONTACT, "C", (copy,))

    def work(self, row: Array, p: Array, approach: Array, first: Array, second: Array, *led: Array) -> Any:
        """See :class:`Bounces`."""
        return sum((x[:3] for x in led), start=relative_velocity(row, first, second) + approach) @ p / 2

    def terms_of_work(self) -> list[Piece]:
        """See :class:`Bounces`."""
        own = self.of_contact("row", "impulse", "approach")
        return [*own, *self.contacts.both("vel"), *self.contacts.leading()]

    def without_restitution(self) -> list[Statement]:
        """See :class:`Bounces`."""
        return [self.space.put(0, self.space.at("restores"))]

    def mix_impulses(self) -> list[Statement]:
        """See :class:`Bounces`."""

        def push(row: Array, p: Array, *of_bodies: Array) -> list[Any]:
            return [*pushed(row, p, of_bodies[:2], of_bodies[2:]), *[p for _ in self.contacts.giving()]]

        contacts = self.contacts
        free = traced_block(lambda v: [v], [contacts.of_body("free", ANY_BODY)], [contacts.of_body("vel", ANY_BODY)])
        reads = [*self.of_contact("row", "impulse"), *contacts.both("mobility"), *contacts.both("vel")]
        moved = traced_block(push, reads, [*contacts.both("vel"), *contacts.giving()])
        trees = contacts.joints.mix_bounces() if contacts.joints else []
        one = (self.mix_impulse(), moved, *contacts.follow("vel"), *contacts.of_moments("mix_bounces"))
        return [Loop(ANY_BODY, "N", (free,)), *trees, self.each(*one)]

    def _add_up(self) -> list[Statement]:
        """See :class:`Bounces`; limits and dry friction of joints, and moments of contacts, do work, too."""
        moments, joints = (part("tally_bounces") for part in (self.contacts.of_moments, self.contacts.of_joints))
        return [*super()._add_up(), *([self.each(*moments)] if moments else []), *joints]

    def _keep(self, name: str) -> list[Statement]:
        moments, joints = self.contacts.moments, self.contacts.joints
        further = [*([self.every(moments.keep_bounces(name))] if moments else [])]
        return [*super()._keep(name), *further, *(joints.keep_bounces(name) if joints else [])]

    def measure(self) -> list[Statement]:
        """See :class:`Bounces`."""
        return self.solver.measure()
