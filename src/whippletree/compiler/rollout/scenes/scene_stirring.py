"""Contacts that sweeps of a scene go over: those that are stirred, and their neighbours.

An arm that pushes one box of a hundred moves a few contacts, which may need a thousand sweeps, while hundreds rest as
the step before has left them. So a look at all contacts tells which of them are *stirred*, by a residual above half of
what a calm scene has. Sweeps go over the contacts of bodies that have such a contact, and over those of trees, until
they have settled; then all are looked at again, and whatever has been stirred meanwhile is swept, too. What was once
taken in stays. A disturbance that goes on to spread is given all contacts (:data:`MOST_GROWTHS`). What counts in the
end is the residual of all.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Collect, Each, If, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import BODY, SceneContacts
from whippletree.compiler.rollout.scenes.scene_totals import SHARE, SUM, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT

SWEPT_CONTACTS, SWEPT_BODIES = "swept contacts", "swept bodies"
"""The list of contacts that sweeps go over, and that of their bodies."""

STIRRED_SHARE = 0.5
"""Share of the residual of a calm scene from which on a contact is stirred."""

MOST_GROWTHS, MOST_STIRRED = 3, 0.125
"""Times that a disturbance may spread in a step until all contacts are swept, and the share of contacts that are
stirred from which on all are: one that travels through a pile would be met layer by layer, and sweeps lose their
momentum each time. Two hundred boxes that settle took twice as many sweeps without the latter."""


class Stirring:
    """Statements that find those lists, from ``stirs`` (C,), which is positive where a contact is stirred."""

    def __init__(self, contacts: SceneContacts) -> None:
        self.space, self.contacts = contacts.space, contacts
        self.swept = contacts.on_lists(SWEPT_CONTACTS, SWEPT_BODIES)
        self.space.work(
            stirred=("N",),  # whether a body has a contact that is
            swept_body=("N",),
            swept_count=(1,),
            taken_in=(1,),
            growths=(1,),
            grew=(1,),  # whether lists are others than before
            lasting=(1,),  # whether they are not
            every_one=(1,),  # whether all contacts are swept
            not_every_one=(1,),
        )
        self.stirred = SharedTotals(self.space, taken_in=SUM)

    def forget(self) -> list[Statement]:
        """A new problem, of which no contact is known to be stirred."""
        return [self.space.put(0, *self.space.each(("swept count", "growths")))]

    def note(self) -> Piece:
        """Where a look at the contact in hand notes whether it is stirred."""
        return self.space.at("stirs", CONTACT)

    @staticmethod
    def is_stirred(known: Any, square: Any, calm: Any) -> Any:
        """1 where a contact was stirred before, or the square of its residual tells so; else −1."""
        least = STIRRED_SHARE * calm
        return select(less(0, known), 1, select(less(least * least, square), 1, -1))

    def gather(self) -> list[Statement]:
        """Flags of the lists, and whether those have grown."""
        space = self.space

        def judge(count: Array, listed: Array, growths: Array) -> list[Any]:
            grown = select(less(MOST_STIRRED * listed[0], count[0]), MOST_GROWTHS, growths[0])
            every = select(less(grown, MOST_GROWTHS), -1, 1)
            return [[grown], [every], [-every], [select(less(0, every), listed[0], 0)]]

        def compare(count: Array, before: Array, growths: Array) -> list[Any]:
            grew = select(less(before[0], count[0]), 1, -1)
            return [[grew], [-grew], count, [growths[0] + select(less(0, grew), 1, 0)]]

        return [
            space.put(0, space.at("taken in")),
            *self._count_stirred(),
            traced_block(
                judge,
                space.each(("taken in", "listed", "growths")),
                space.each(("growths", "every one", "not every one", "taken in")),
            ),
            If(space.address("every one"), self._flag_every()),
            If(space.address("not every one"), self._flag_some()),
            traced_block(
                compare,
                space.each(("taken in", "swept count", "growths")),
                space.each(("grew", "lasting", "swept count", "growths")),
            ),
        ]

    def _count_stirred(self) -> list[Statement]:
        def count_stirred(stirs: Any, count: Array) -> list[Any]:
            return [[count[0] + select(less(0, stirs), 1, 0)]]

        (stirring,) = self.stirred.each()
        counted = traced_block(count_stirred, [self.space.at("stirs", CONTACT), stirring], [stirring])
        each = Each(CONTACT, self.contacts.active, (counted,), share=SHARE)
        return [*self.stirred.begin(), each, *self.stirred.end()]

    def _flag_every(self) -> tuple[Statement, ...]:
        """Flags where all contacts are swept."""
        space, at = self.space, self.space.at
        loaded = traced_block(lambda loaded: [[loaded]], [at("loaded", BODY)], [at("swept body", BODY)])
        return (
            Each(CONTACT, self.contacts.active, (space.put(1, at("swept flag", CONTACT)),), share=SHARE),
            Loop(BODY, "N", (loaded,), share=SHARE),
        )

    def _flag_some(self) -> tuple[Statement, ...]:
        """Flags of contacts that are stirred, and of their neighbours, with their bodies."""
        space, both, at = self.space, self.contacts.both, self.space.at

        def spread(stirs: Any, m: Any, k: Any, first: Any, second: Any) -> list[Any]:
            known = less(0, stirs)
            return [[select(known, select(less(0, x), 1, old), old)] for x, old in ((m, first), (k, second))]

        def take(first: Any, second: Any, count: Array, *on_tree: Any) -> list[Any]:
            taken: Any = -1
            for flag in (first, second, *on_tree):
                taken = select(less(0, flag), 1, taken)
            return [[taken], [count[0] + select(less(0, taken), 1, 0)]]

        def mark(taken: Any, first: Any, second: Any) -> list[Any]:
            return [[select(less(0, taken), 1, old)] for old in (first, second)]

        own = [space.at("on tree", CONTACT)] if self.contacts.trees else []
        flag, wanted = at("swept flag", CONTACT), [*both("stirred"), at("taken in"), *own]
        return (
            Loop(BODY, "N", (space.put(-1, at("stirred", BODY), at("swept body", BODY)),)),
            self.contacts.each(
                traced_block(spread, [at("stirs", CONTACT), *self.contacts.masses(), *both("stirred")], both("stirred"))
            ),
            self.contacts.each(
                traced_block(take, wanted, [flag, at("taken in")]),
                traced_block(mark, [flag, *both("swept body")], both("swept body")),
            ),
        )

    def collect(self) -> list[Statement]:
        """The lists, by their flags."""
        return [
            Collect(SWEPT_CONTACTS, CONTACT, "C", self.space.address("swept flag", CONTACT)),
            Collect(SWEPT_BODIES, BODY, "N", self.space.address("swept body", BODY)),
        ]
