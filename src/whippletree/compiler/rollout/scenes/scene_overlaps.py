"""Overlaps at the end of a step of a scene, by the shapes where they then are, are moved apart inside its kernel.

A step forecasts its gaps along the normals at its beginning. A body that turns has other normals at its end, another
corner, or another face: boxes that meet at 3 m/s and turn at 20 rad/s overlapped by up to 10 mm then, for want of a
candidate at the beginning, and capsules by 4 mm. So poses and candidates are found anew at the end, which the next
step needs anyway. Where they overlap, the bodies are moved apart, with fresh normals each time, as the steps of other
mechanisms do it. Velocities in the world stay.

An overlap of the start is no fault of a step. A body has an ``allowance``: what its deepest overlap at the beginning of
the step was, less what a step undoes of it; a contact may be as deep as both of its bodies may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Address, Collect, If, Index, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import FIRST, SECOND, SceneContacts
from whippletree.compiler.rollout.scenes.scene_positions import ScenePositions
from whippletree.compiler.rollout.scenes.scene_totals import LARGEST_FROM_ZERO, SHARE, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, TREE_ROW
from whippletree.contact.problem.cones import largest
from whippletree.contact.time_step import RELAXATION_SPEED
from whippletree.spatial import cross
from whippletree.spatial.joints import Free

OVERLAP_ROUNDS = 12
"""Times that the ends of a step are looked at, at most. Each squares what is left of an overlap; but in a pile what is
moved apart may meet the next."""

OVERLAP_NEIGHBOURS = 4
"""Candidates that are nearer than so many times the deepest overlap may be met by what is moved apart. What this leaves
out is found in the next round."""

NODE, STEP = "body", "step"
NEIGHBOURS, PUSHED = "neighbours", "pushed"
"""The lists of contacts that overlap or may, and of their bodies."""

CountedWay: TypeAlias = Callable[[Array, Array, Any, Any, Array], Any]
"""m, of a shift, a turn, and the body's ``swing``, ``real`` and ``grain``."""


class SceneOverlaps:
    """Statements that leave the bodies apart, by ``now q``, ``now v``, ``far`` and what the narrow phase finds.

    ``allowance`` (N,) is an input and an output of the kernel; ``ends`` (T, 2) an output: of the beginning of each
    step, and so of the end of the one before, the overlap beyond all allowances, m, and the work against gravity of
    what was moved apart, J.
    """

    def __init__(self, contacts: SceneContacts, positions: ScenePositions) -> None:
        self.space, self.contacts = contacts.space, contacts.on_lists(NEIGHBOURS, PUSHED, with_moments=False)
        self.positions = positions.on_lists(self.contacts)
        self.space.work(
            allowed=("N",),
            deepest=("N",),  # overlap of the contacts of a body at the beginning of a step
            excess=(1,),
            looks=(1,),
            last_look=(1,),
            another_look=(1,),
            lifted=(1,),
        )
        self.totals = SharedTotals(self.space, excess=LARGEST_FROM_ZERO)

    def begin(self) -> Statement:
        """The allowances of the beginning of a call."""
        at = self.space.at
        writes = [at("allowed", NODE), at("deepest", NODE)]
        return Loop(NODE, "N", (traced_block(lambda x: [[x], [0]], [at("allowance0", NODE)], writes),))

    def keep(self) -> Statement:
        """The allowances of the end of a call."""
        at = self.space.at
        return Loop(NODE, "N", (traced_block(lambda x: [[x]], [at("allowed", NODE)], [at("allowance", NODE)]),))

    def move_apart(self, find: Sequence[Statement], count_way: CountedWay) -> list[Statement]:
        """Rounds that find candidates at poses of ``now q`` and move the bodies, until nothing overlaps too much.

        Args:
            find: statements that find poses and candidates.
            count_way: how much a way counts for the lists.
        """
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address
        trees = self.contacts.trees
        again = (
            *self._list_neighbours(),
            Loop(NODE, "N", (put(0, at("moved", NODE)),)),
            *self.contacts.still_trees("moved"),
            *self.contacts.begin(),
            *self.contacts.prepare(),
            *self.positions.move_ends_apart(),
            *(trees.displace(at("moved", TREE_ROW), "now v", [], "lifted") if trees else []),
            Loop(NODE, "N", (self._move(count_way),)),
        )
        judge = traced_block(
            _judge, each(("excess", "looks", "overlap tolerance")), each(("last look", "another look", "looks"))
        )
        measured = (*self._measure(), *self.contacts.of_joints("excess"), *self.contacts.of_loops("excess"))
        body = (*find, *measured, judge, If(address("another look"), again))
        told = traced_block(lambda *two: [[x[0] for x in two]], each(("excess", "lifted")), [at("ends", STEP)])
        return [
            put(-1, at("last look")),
            put(0, at("looks"), at("lifted")),
            Until("look", OVERLAP_ROUNDS, address("last look"), body),
            told,
            self._measure_bodies(),
        ]

    def allow(self) -> Statement:
        """The allowance of a body at the end of a step; its deepest overlap is to be found anew."""
        at = self.space.at

        def allowed_overlap(deepest: Any, h: Any) -> list[Any]:
            return [[largest([deepest - h * RELAXATION_SPEED, 0])], [0]]

        deepest = at("deepest", NODE)
        return traced_block(allowed_overlap, [deepest, at("now dt")], [at("allowed", NODE), deepest])

    # ---- candidates ----------------------------------------------------------------------------------------------

    def _gap(self) -> list[Piece]:
        """A contact's gap, and how deep its bodies may overlap."""
        gap = Piece((), (Address("touch", (Index(CONTACT), Index(None, 0))),))
        return [gap, self.space.at("allowed", FIRST), self.space.at("allowed", SECOND)]

    def _every(self, *blocks: Statement) -> Statement:
        return Loop(CONTACT, "C", (*self.contacts.bodies(), *blocks))

    def _measure(self) -> list[Statement]:
        """The largest overlap beyond the allowances, ``excess``."""

        def deeper(gap: Any, first: Any, second: Any, excess: Array) -> list[Any]:
            return [[largest([excess[0], -(gap + _less_of(first, second))])]]

        (excess,) = self.totals.each()
        every = Loop(
            CONTACT, "C", (*self.contacts.bodies(), traced_block(deeper, [*self._gap(), excess], [excess])), share=SHARE
        )
        return [self.space.put(0, self.space.at("excess")), *self.totals.begin(), every, *self.totals.end()]

    def _measure_bodies(self) -> Statement:
        """The deepest overlap of each body, from zeros."""
        at = self.space.at

        def deeper(gap: Any, first: Any, second: Any) -> list[Any]:
            return [[largest([first, -gap])], [largest([second, -gap])]]

        both = [at("deepest", FIRST), at("deepest", SECOND)]
        return self._every(traced_block(deeper, [self._gap()[0], *both], both))

    def _list_neighbours(self) -> list[Statement]:
        """The list of contacts that overlap or may do so when others are moved apart."""
        at = self.space.at

        def near(gap: Any, first: Any, second: Any, excess: Array) -> list[Any]:
            return [[select(less(gap + _less_of(first, second), OVERLAP_NEIGHBOURS * excess[0]), 1, -1)]]

        flag = traced_block(near, [*self._gap(), at("excess")], [at("flag", CONTACT)])
        return [self._every(flag), Collect(NEIGHBOURS, CONTACT, "C", self.space.address("flag", CONTACT))]

    # ---- bodies --------------------------------------------------------------------------------------------------

    def _move(self, count_way: CountedWay) -> Statement:
        """A body where it was moved to, its velocity in the world as it was, and how far it has travelled."""
        at, each = self.space.at, self.space.each

        def move(q: Array, v: Array, d: Array, X: Array, body: Array, *rest: Any) -> list[Any]:
            far, swing, grain, gravity, lifted = rest
            R = X[:9].reshape(3, 3)
            turn, r = d[:3], R @ body[13:16]
            local = np.concatenate([R.T @ turn, R.T @ (d[3:] - cross(turn, r))])
            nq, nv = Free().straight_after_turn(q, Free().turn_quaternion(q, local), v, local)
            weight = body[16] * (gravity @ d[3:])
            return [
                nq,
                nv,
                [far + count_way(d[3:], turn, swing, body[16], grain)],
                [lifted[0] - select(less(0, body[0]), weight / select(less(0, body[0]), body[0], 1), 0)],
            ]

        reads = each(("now q", "now v", "moved", "pose", "bodies", "far", "swing"), NODE)
        reads += each(("grain", "gravity", "lifted"))
        return traced_block(move, reads, [*each(("now q", "now v", "far"), NODE), at("lifted")])


def _less_of(a: Any, b: Any) -> Any:
    return select(less(a, b), a, b)


def _judge(excess: Array, looks: Array, tolerance: Any) -> list[Any]:
    """Whether this is the last look, and whether it is not."""
    last = select(less(looks[0] + 1, OVERLAP_ROUNDS), select(less(tolerance, excess[0]), -1, 1), 1)
    return [[last], [-last], [looks[0] + 1]]
