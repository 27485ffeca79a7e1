"""The bodies of a scene in a step: where they are, their motion without impulses, and where all of it leads.

Each body has coordinates (position, quaternion) and the twist of a free joint. Origins are stepped along straight
lines, and velocities keep their directions in space. How far a body has travelled since the lists of pairs were made is
added up, so that a step that would leave them behind is not accepted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.scenes.scene_contacts import SceneContacts, matrix_of
from whippletree.compiler.rollout.scenes.scene_totals import LEAST_FLAG, SHARE, SUM, SharedTotals
from whippletree.contact.geometry.shape_numbers import pose_of
from whippletree.contact.kinematics.scene_layout import UPPER, BodyTraits
from whippletree.spatial import add_cross, congruence, cross, quaternion_rotation
from whippletree.spatial.joints import Free, unit_quaternion
from whippletree.spatial.vectors import Pose

NODE = "body"
"""The register of a body."""


class SceneBodies:
    """Statements about the body in hand."""

    def __init__(self, space: WorkSpace, traits: BodyTraits, contacts: SceneContacts) -> None:
        self.space, self.traits, self.contacts = space, traits, contacts
        self.sums = SharedTotals(space, drift=SUM, crowd=SUM)
        self.expected = SharedTotals(space, alive=LEAST_FLAG)
        self.moves = SharedTotals(space, within=LEAST_FLAG, joint_work=SUM, corrected=SUM)

    def each(self, *blocks: Statement) -> Loop:
        """Blocks for every body, several at a time."""
        return Loop(NODE, "N", blocks, share=SHARE)

    def pose(self) -> Statement:
        """Where a body is, what moves it, and its velocity at the end of a step without impulses."""

        def find(q: Array, v: Array, tau: Array, body: Array, placement: Array, gravity: Array, h: Any) -> list[Any]:
            X = self._frame(placement) @ Pose(quaternion_rotation(*q[3:]), q[:3])
            c, w = self._centre(body), v[:3]
            r = X.R @ c
            moment = tau[:3] - cross(c, tau[3:])
            turn, u = X.R @ w, X.R @ v[3:]
            start = np.concatenate([turn, add_cross(u, turn, r)])
            # the origin is stepped along a straight line: the centre of mass lacks what takes it around the origin
            pull = body[0] * (X.R @ tau[3:]) + body[16] * gravity - cross(turn, cross(turn, r))
            if self.traits.round:
                spin, mobility = body[1] * (X.R @ moment), body[:7]
            else:
                inverse, inertia = matrix_of(body[1:7]), matrix_of(body[7:13])
                spin = X.R @ (inverse @ (moment - cross(w, inertia @ w)))
                mobility = vector(body[0], *congruence(X.R, inverse)[UPPER])
            free = start + h * np.concatenate([spin, pull])
            return [[*X.R.ravel(), *X.p], X.p + r, mobility, start, free]

        reads = [
            *self.space.each(("now q", "now v", "tau", "bodies", "placements"), NODE),
            self.space.at("gravity"),
            self.space.at("now dt"),
        ]
        return traced_block(find, reads, self.space.each(("pose", "centre", "mobility", "start", "free"), NODE))

    def turn(self) -> Statement:
        """How a body will be turned."""

        def turn(q: Array, V: Array, d: Array, X: Array, h: Any) -> list[Any]:
            return [Free().turn_quaternion(q, X[:9].reshape(3, 3).T @ (h * V[:3] + d[:3]))]

        reads = [
            self.space.at("now q", NODE),
            self.contacts.of_body("vel", NODE),
            *self.space.each(("moved", "pose"), NODE),
        ]
        return traced_block(turn, [*reads, self.space.at("now dt")], [self.space.at("turned", NODE)])

    def move(self) -> list[Statement]:
        """Where the bodies will be, how far they will have travelled, and whether that is within their budgets."""

        def move(q: Array, v: Array, tau: Array, V: Array, d: Array, X: Array, body: Array, *rest: Any) -> list[Any]:
            placement, turned, far, swing, budget, drift, grain, h, gravity, within, joint_work, corrected = rest
            R, frame = X[:9].reshape(3, 3), self._frame(placement).R
            r = R @ self._centre(body)
            way = h * V + d
            u, shift = V[3:] - cross(V[:3], r), way[3:] - cross(way[:3], r)  # of the origin
            spin = R.T @ V[:3]
            rate, after = 1 / h, np.concatenate([spin, R.T @ u])
            # v keeps its direction in space
            nv = np.concatenate([spin, (frame @ quaternion_rotation(*turned)).T @ u])
            nq = np.concatenate([q[:3] + frame.T @ shift, unit_quaternion(turned)])
            travelled = far + way_of_body(way[3:] - h * drift, way[:3], swing, body[16], grain)
            # a number that is none, or infinite, makes the sum so
            finite = less(sum(abs(x) for x in (*nq, *nv)), math.inf)
            sound = select(finite, select(less(travelled, budget), 1, -1), -2)
            weight = body[16] * (gravity @ d[3:])
            return [
                nq,
                nv,
                [travelled],
                rate * (after - v),
                [select(less(sound, within[0]), sound, within[0])],
                [joint_work[0] + h * (tau @ (v + after)) / 2],
                [corrected[0] - select(less(0, body[0]), weight / select(less(0, body[0]), body[0], 1), 0)],
            ]

        totals = self.moves.each("within", "joint work", "corrected")
        reads = [*self.space.each(("now q", "now v", "tau"), NODE), self.contacts.of_body("vel", NODE)]
        reads += self.space.each(("moved", "pose", "bodies", "placements", "turned", "far", "swing", "budget"), NODE)
        reads += [*self.space.each(("drift", "grain", "now dt", "gravity")), *totals]
        writes = self.space.each(("next q", "next v", "next far", "rate"), NODE)
        block = traced_block(move, reads, [*writes, *totals])
        return [*self.moves.begin(), self.each(block), *self.moves.end()]

    def expect(self) -> list[Statement]:
        """Whether a body would go too far without impulses."""

        def expect(V: Array, real: Any, far: Any, swing: Any, budget: Any, *rest: Any) -> list[Any]:
            drift, grain, h, alive = rest
            far = far + h * way_of_body(V[3:] - drift, V[:3], swing, real, grain)
            return [[select(less(budget, far), -1, alive[0])], [0] * 6]

        reads = [self.space.at("free", NODE), self._real, *self.space.each(("far", "swing", "budget"), NODE)]
        alive = self.expected.each("alive")
        reads += [*self.space.each(("drift", "grain", "now dt")), *alive]
        block = traced_block(expect, reads, [*alive, self.space.at("moved", NODE)])
        return [*self.expected.begin(), self.each(block), *self.expected.end()]

    def add_up(self, velocity: Piece) -> list[Statement]:
        """The sum of velocities, and of the bodies that move."""

        def add(V: Array, real: Any, drift: Array, crowd: Array) -> list[Any]:
            return [drift + real * V[3:], [crowd[0] + real]]

        totals = self.sums.each("drift", "crowd")
        block = traced_block(add, [velocity, self._real, *totals], totals)
        return [*self.sums.begin(), self.each(block), *self.sums.end()]

    def mean(self) -> Statement:
        """The mean velocity of the bodies, from their sum."""
        reads = self.space.each(("drift", "crowd", "together"))
        return traced_block(lambda drift, crowd, share: [share * drift / crowd[0]], reads, [self.space.at("drift")])

    def _frame(self, placement: Array) -> Pose:
        """Where a body's coordinates are zero."""
        return Pose.identity() if self.traits.in_world_axes else pose_of(placement)

    def _centre(self, body: Array) -> Array:
        """The centre of mass in the axes of the body."""
        return zeros(3) if self.traits.centred else body[13:16]

    @property
    def _real(self) -> Piece:
        """1 for a body, 0 for the world and what is held still."""
        return Piece((), self.space.at("bodies", NODE).addresses[16:17])


def way_of_body(shift: Array, turn: Array, swing: Any, real: Any, grain: Array) -> Any:
    """How much a way of a body, or of the world, counts: its shift against the mean motion, and its turn."""
    along = (1 - real) * (grain @ shift)
    return sqrt(shift @ shift - along * along) + swing * sqrt(turn @ turn)
