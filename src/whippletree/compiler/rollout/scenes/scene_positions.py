"""Overlaps at the end of a step of a scene are moved apart: its projection of positions, inside a kernel.

π with 0 ≤ π ⟂ gap + h u + G π ≥ 0 along the normals, as displacements ``moved`` of the bodies; velocities are left
alone. By pairs of sweeps with momentum, as for impulses. Of the forecast of gaps first, whose rows are those of the
impulses, then of the gaps as they are (:mod:`~whippletree.compiler.rollout.scenes.scene_overlaps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import If, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import CONTACT, LANES, SceneContacts, relative_velocity
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import RELAXATION_SPEED

SCENE_CORRECTIONS = 300
"""Sweeps that move apart what would overlap, at most."""


class ScenePositions:
    """Statements that find ``moved``, from the contacts of the list."""

    def __init__(self, contacts: SceneContacts) -> None:
        self.space, self.contacts = contacts.space, contacts
        self.space.work(
            push=("C",),
            push_before=("C",),
            push_delta=("C",),
            ahead=("C",),  # the gap at the end of the step
            moved=("N", 6),
            moved_before=("N", 6),
            apart=(1,),
            overlap=(1,),
            corrections=(1,),
        )

    def on_lists(self, contacts: SceneContacts) -> ScenePositions:
        """Statements with the same buffers on the lists of other contacts."""
        found = copy(self)
        found.contacts = contacts
        return found

    def move_apart(self) -> list[Statement]:
        """Sweeps that move apart what would overlap by the forecast of gaps at the end of the step."""

        def begin(touch: Array, row: Array, h: Any, first: Array, second: Array) -> Any:
            return largest([touch[0] + h * relative_velocity(row, first, second)[0], -h * RELAXATION_SPEED])

        reads = [*self.space.each(("touch", "row"), CONTACT), self.space.at("now dt"), *self.contacts.both("vel")]
        return self._apart(begin, reads)

    def move_ends_apart(self) -> list[Statement]:
        """Sweeps that move apart what overlaps at the end of the step by more than the bodies may."""

        def begin(touch: Array, first: Any, second: Any) -> Any:
            return touch[0] + select(less(first, second), first, second)

        return self._apart(begin, [self.space.at("touch", CONTACT), *self.contacts.both("allowed")])

    def _apart(self, gap: Callable[..., Any], reads: Sequence[Piece]) -> list[Statement]:
        """Sweeps that end where a pair moves no contact farther than ``overlap tolerance``, if anything overlaps."""
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def begin(overlap: Array, *given: Any) -> list[Any]:
            ahead = gap(*given)
            return [[ahead], [0], [largest([overlap[0], -ahead])]]

        def needed(overlap: Array, smallest: Any) -> list[Any]:
            return [[select(less(smallest, overlap[0]), 1, -1)], [-1], [0]]

        first = traced_block(begin, [at("overlap"), *reads], [*each(("ahead", "push"), CONTACT), at("overlap")])
        decide = traced_block(needed, each(("overlap", "overlap tolerance")), each(("apart", "done", "corrections")))
        sweeps = (*self.contacts.tables(), *self.contacts.remember("push", "moved"), self._iterate())
        return [put(0, at("overlap")), self.contacts.each(first), decide, If(address("apart"), sweeps)]

    def _iterate(self) -> Statement:
        each, address = self.space.each, self.space.address

        def judge(change: Array, made: Array, smallest: Any) -> list[Any]:
            enough = select(less(made[0], SCENE_CORRECTIONS - 3), -1, 1)
            settled = select(less(smallest, change[0]), enough, 1)
            return [[settled], [-settled], [made[0] + 2]]

        told = traced_block(
            judge, each(("change", "corrections", "overlap tolerance")), each(("done", "going on", "corrections"))
        )
        ahead = If(address("going on"), tuple(self.contacts.go_ahead("push", "moved")))
        return Until("correction", SCENE_CORRECTIONS, address("done"), (*self._sweep(), told, ahead))

    def _sweep(self) -> list[Statement]:
        """A sweep there and one back: the largest ``change``, m, and how far they go ``uphill``."""
        at, each, both = self.space.at, self.space.each, self.contacts.both

        def there(*given: Any) -> list[Any]:
            after, d, moved = _improve(*given)
            return [[after], [d], *moved]

        def back(
            delta: Any, before: Any, change: Array, uphill: Array, normal: Array, own: Any, *rest: Any
        ) -> list[Any]:
            after, d, moved = _improve(normal, own, *rest)
            whole = (delta + d) / own
            return [
                [after],
                *moved,
                [largest([change[0], abs(whole)])],
                [uphill[0] - whole * (after - before)],
            ]

        reads = [*self._normal(), *each(("ahead", "push"), CONTACT), *self.contacts.masses(), *both("moved")]
        totals = each(("change", "uphill"))
        first = traced_block(there, reads, [*each(("push", "push delta"), CONTACT), *both("moved")])
        second = traced_block(
            back,
            [*each(("push delta", "push before"), CONTACT), *totals, *reads],
            [at("push", CONTACT), *both("moved"), *totals],
        )
        return [
            self.space.put(0, *totals),
            self.contacts.each(first),
            self.contacts.each(second, backwards=True),
        ]

    def _normal(self) -> list[Piece]:
        """A contact's normal, with its levers and what a push turns, (15,), and the inverse of its own part."""
        columns, rows, scaling = (part.addresses for part in self.contacts.of_contact("columns", "rows", "scaling"))
        axis = [rows[k] for k in range(3)]
        levers = [columns[LANES * k] for k in range(3, 9)]
        turned = [rows[LANES * k + i] for k in (3, 6) for i in range(3)]
        return [Piece((15,), (*axis, *levers, *turned)), Piece((), scaling[:1])]


def _improve(normal: Array, own: Any, ahead: Any, push: Any, *of_bodies: Any) -> Any:
    """A push that closes what is left of a gap, its change, and how far both bodies have been moved with it."""
    n, (A, B, KA, KB) = normal[:3], normal[3:].reshape(4, 3)
    (m, k), (first, second) = of_bodies[:2], of_bodies[2:]
    gap = ahead + n @ (first[3:] - second[3:]) + A @ first[:3] - B @ second[:3]
    after = largest([push - gap * own, 0])
    d = after - push
    moved = [
        np.concatenate([first[:3] + d * KA, first[3:] + m * d * n]),
        np.concatenate([second[:3] - d * KB, second[3:] - k * d * n]),
    ]
    return after, d, moved
