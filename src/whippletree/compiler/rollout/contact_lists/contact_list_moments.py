"""Torsional and rolling friction in a compiled step: blocks that follow a contact, their *host*.

Such a block is in the list of a step where its host is. Its rows are those of angular velocities about axes of the
host, and the radius of its disc is what presses there
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_solver`).
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.program import Collect, Each, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.step_space import BLOCK, StepSpace, jacobian_rows
from whippletree.contact.time_step import ROLLING, SPINNING

COLUMN = "turning column"
HOSTS, FOLLOWING, FOLLOWER = "hosts", "following", "follower of one"

AXES = (SPINNING, ROLLING)
"""Axes of a contact about which each kind of moment acts."""


class MomentRows:
    """Statements about moments. Buffers beside its own, see
    :mod:`~whippletree.compiler.rollout.contact_lists.contact_list_step`:

    flag, impulse, J, touch, screw            of blocks, candidates and velocities
    moving, path, side, screw row             which velocities move a candidate
    """

    def __init__(self, space: StepSpace) -> None:
        self.space, self.blocks = space, space.blocks
        hosts = self.blocks.hosts
        if hosts is not None:
            # blocks that nothing presses on are their own hosts, by nothing
            space.index("host", hosts.host)
            space.table("moment share", hosts.share)
            self._list_followers()

    def _list_followers(self) -> None:
        """Tables of the moments that each contact is host of, for contacts that have none, too."""
        found: list[list[int]] = [[] for _ in range(self.space.contacts)]
        for number, moment in enumerate(self.blocks.moments, start=self.blocks.first_moment):
            found[moment.candidate].append(number)
        self.space.index("followers", [len(own) for own in found])
        self.space.index("follower", [(own + [self.blocks.first_moment] * 2)[:2] for own in found])
        self.space.numbers_list(HOSTS, self.space.contacts)

    @property
    def kinds(self) -> list[int]:
        """Which of :data:`AXES` each moment has."""
        return [AXES.index(moment.axes) for moment in self.blocks.moments]

    def with_contacts(self) -> list[Statement]:
        """Moments are in the list where their contacts are."""
        if not self.blocks.moments:
            return []
        hosts = Collect(HOSTS, BLOCK, self.space.contacts, self.space.address("flag", BLOCK))
        return [hosts, Each(BLOCK, HOSTS, tuple(self.with_contact()))]

    def with_contact(self) -> list[Statement]:
        """Flags of the moments of the contact in hand: its own."""
        if not self.blocks.moments:
            return []
        at, address = self.space.at, self.space.address
        own = Lookup(FOLLOWER, address("follower", BLOCK, FOLLOWING))
        count = Lookup("followers", address("followers", BLOCK))
        body = (own, traced_block(lambda flag: [flag], [at("flag", BLOCK)], [at("flag", FOLLOWER)]))
        return [count, Loop(FOLLOWING, Index("followers"), body)]

    def rows(self) -> list[tuple[Statement, ...]]:
        """Rows of J of one block, for each kind of moment; none where the model has no moments."""
        return [self._turning(axes) for axes in AXES] if self.blocks.moments else []

    def _turning(self, axes: tuple[int, ...]) -> tuple[Statement, ...]:
        """Along each velocity that turns one of the two bodies, its angular velocity about some axes of the contact."""
        at, address = self.space.at, self.space.address

        def about(touch: Array, screw: Array, side: Any) -> list[Any]:
            return list(side * (touch[4:].reshape(3, 3)[list(axes)] @ screw[:3]))

        rows = [jacobian_rows(None, 1 + i).entry("path") for i in range(len(axes))]
        names = ("path", "screw row") if self.space.model.is_flexible else ("path",)
        reads = [at("touch", "host"), at("screw", names[-1]), at("side", "host", COLUMN)]
        found = [Lookup(name, address(name, "host", COLUMN)) for name in names]
        body: tuple[Statement, ...] = (*found, traced_block(about, reads, rows))
        lookups = Lookup("host", address("host", BLOCK)), Lookup("moving", address("moving", "host"))
        return (*lookups, Loop(COLUMN, Index("moving"), body))
