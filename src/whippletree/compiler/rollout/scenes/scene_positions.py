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
from whippletree.compiler.rollout.scenes.scene_contacts import SceneContacts, relative_velocity
from whippletree.compiler.rollout.scenes.scene_totals import LARGEST_FROM_ZERO, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, LANES
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import RELAXATION_SPEED, SENSIBLE_DISPLACEMENT, counted

SCENE_CORRECTIONS = 300
"""Sweeps that move apart what would overlap, at most."""


class ScenePositions:
    """Statements that find ``moved``, from the contacts of the list."""

    def __init__(self, contacts: SceneContacts, repeats: bool) -> None:
        """``repeats``: whether sweeps begin with the pushes of the last step, for bodies that no joint holds. What
        steps leave of their residuals changes slowly while a pile comes to rest."""
        self.space, self.contacts, self.repeats = contacts.space, contacts, repeats
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
        self.deepest = SharedTotals(self.space, overlap=LARGEST_FROM_ZERO)

    def on_lists(self, contacts: SceneContacts) -> ScenePositions:
        """Statements with the same buffers on the lists of other contacts."""
        found = copy(self)
        found.contacts = contacts
        return found

    def move_apart(self) -> list[Statement]:
        """Sweeps that move apart what would overlap by the forecast of gaps at the end of the step."""

        def begin(gap: Any, row: Array, h: Any, first: Array, second: Array, *led: Array) -> Any:
            rate = relative_velocity(row, first, second)[0] + sum(x[0] for x in led)
            return largest([gap + h * rate, -h * RELAXATION_SPEED])

        reads = [*self.contacts.of_contact("looked gap", "row"), self.space.at("now dt"), *self.contacts.both("vel")]
        reads, joints = [*reads, *self.contacts.leading()], self.contacts.of_joints("forecast")
        if not self.repeats:
            return self._apart(begin, reads, joints)
        again = traced_block(lambda apart: [apart], [self.space.at("apart")], [self.space.at("pushes again")])
        return [*self._apart(begin, reads, joints, self._push_again(), self._keep()), again]

    def move_ends_apart(self) -> list[Statement]:
        """Sweeps that move apart what overlaps at the end of the step by more than the bodies may."""

        def begin(touch: Array, first: Any, second: Any) -> Any:
            return touch[0] + select(less(first, second), first, second)

        reads = [self.space.at("touch", CONTACT), *self.contacts.both("allowed")]
        return self._apart(begin, reads, self.contacts.of_joints("look"))

    def _push_again(self) -> list[Statement]:
        """Pushes of the last step, if there were any, and where they move the bodies."""

        def push(normal: Array, kept: Any, *of_bodies: Any) -> list[Any]:
            return [[kept], *_moved_by(normal, kept, of_bodies[:2], of_bodies[2:])]

        at, moved = self.space.at, self.contacts.both("moved")
        reads = [self._normal()[0], at("push then", CONTACT), *self.contacts.masses(), *moved]
        block = traced_block(push, reads, [at("push", CONTACT), *moved])
        return [If(self.space.address("pushes again"), (self.contacts.each(block),))]

    def _keep(self) -> list[Statement]:
        """Pushes for the next step to begin with."""
        at = self.space.at
        return [self.contacts.each(traced_block(lambda x: [[x]], [at("push", CONTACT)], [at("push then", CONTACT)]))]

    def _apart(
        self,
        gap: Callable[..., Any],
        reads: Sequence[Piece],
        joints: Sequence[Statement],
        before: Sequence[Statement] = (),
        after: Sequence[Statement] = (),
    ) -> list[Statement]:
        """Sweeps that end where a pair moves no contact farther than ``overlap tolerance``, if anything overlaps.

        ``joints``: statements that tell how far those of the mechanism are beyond their ranges; ``before`` and
        ``after``: statements around the sweeps.
        """
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        of_joints = [at("leverage", CONTACT), *self.contacts.masses()] if self.contacts.trees else []

        def begin(overlap: Array, *given: Any) -> list[Any]:
            ahead = gap(*given[: len(reads)])
            if of_joints:
                ahead = _open_if_in_vain(ahead, *given[len(reads) :])
            return [[ahead], [0], [largest([overlap[0], -ahead])]]

        def needed(overlap: Array, smallest: Any) -> list[Any]:
            return [[select(less(smallest, overlap[0]), 1, -1)], [-1], [0]]

        contacts = self.contacts
        (overlap,) = self.deepest.each() if contacts.work_on_rows else [at("overlap")]
        first = traced_block(begin, [overlap, *reads, *of_joints], [*each(("ahead", "push"), CONTACT), overlap])
        decide = traced_block(needed, each(("overlap", "overlap tolerance")), each(("apart", "done", "corrections")))
        begun = (*before, *self.contacts.remember("push", "moved"))
        sweeps = (*self.contacts.tables(), *begun, self._iterate(), *after)
        listed = [*self.deepest.begin(), contacts.each_on_rows(first), *self.deepest.end()]
        if not contacts.work_on_rows:
            listed = [contacts.each(*contacts.lead("vel"), first)]
        return [put(0, at("overlap")), *listed, *joints, decide, If(address("apart"), sweeps)]

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
            return [[after], [d], *moved, *[[d, 0, 0] for _ in led]]

        def back(
            delta: Any, before: Any, change: Array, uphill: Array, normal: Array, own: Any, *rest: Any
        ) -> list[Any]:
            after, d, moved = _improve(normal, own, *rest)
            some = less(0, own)
            whole = (delta + d) / select(some, own, 1)  # nothing moves what joints and constraints hold
            return [
                [after],
                *moved,
                [largest([change[0], abs(whole)])],
                [uphill[0] - whole * (after - before)],
                *[[d, 0, 0] for _ in led],
            ]

        contacts = self.contacts
        led, given, lead, follow = (
            contacts.leading(),
            contacts.giving(),
            contacts.lead("moved"),
            contacts.follow("moved"),
        )
        reads = [*self._normal(), *each(("ahead", "push"), CONTACT), *self.contacts.masses(), *both("moved"), *led]
        totals = each(("change", "uphill"))
        first = traced_block(there, reads, [*each(("push", "push delta"), CONTACT), *both("moved"), *given])
        second = traced_block(
            back,
            [*each(("push delta", "push before"), CONTACT), *totals, *reads],
            [at("push", CONTACT), *both("moved"), *totals, *given],
        )
        return [
            self.space.put(0, *totals),
            self.contacts.each(*lead, first, *follow),
            *(contacts.joints.push(second=False) if contacts.joints else []),
            *(contacts.joints.push(second=True) if contacts.joints else []),
            self.contacts.each(*lead, second, *follow, backwards=True),
        ]

    def _normal(self) -> list[Piece]:
        """A contact's normal, with its levers and what a push turns, (15,), and the inverse of its own part."""
        columns, rows, scaling = (part.addresses for part in self.contacts.of_contact("columns", "rows", "scaling"))
        axis = [rows[k] for k in range(3)]
        levers = [columns[LANES * k] for k in range(3, 9)]
        turned = [rows[LANES * k + i] for k in (3, 6) for i in range(3)]
        return [Piece((15,), (*axis, *levers, *turned)), Piece((), scaling[:1])]


def _open_if_in_vain(ahead: Any, leverage: Any, first: Any, second: Any) -> Any:
    """A gap, or an open one instead where nothing sensible that joints do opens it; bodies without joints have a
    mass."""
    sensible = select(less(0, first + second), 1, counted(leverage, ahead))
    return select(less(0, sensible), ahead, largest([ahead, SENSIBLE_DISPLACEMENT]))


def _improve(normal: Array, own: Any, ahead: Any, push: Any, *of_bodies: Any) -> Any:
    """A push that closes what is left of a gap, its change, and how far both bodies have been moved with it."""
    n, (A, B) = normal[:3], normal[3:9].reshape(2, 3)
    (first, second), led = of_bodies[2:4], of_bodies[4:]
    gap = ahead + n @ (first[3:] - second[3:]) + A @ first[:3] - B @ second[:3] + sum(x[0] for x in led)
    after = largest([push - gap * own, 0])
    d = after - push
    return after, d, _moved_by(normal, d, of_bodies[:2], of_bodies[2:4])


def _moved_by(normal: Array, d: Any, masses: Sequence[Any], bodies: Sequence[Array]) -> list[Array]:
    """How far both bodies have been moved after a push d along the normal of a contact."""
    n, (KA, KB) = normal[:3], normal[9:].reshape(2, 3)
    (m, k), (first, second) = masses, bodies
    return [
        np.concatenate([first[:3] + d * KA, first[3:] + m * d * n]),
        np.concatenate([second[:3] - d * KB, second[3:] - k * d * n]),
    ]
