"""Where the next pair of sweeps of a scene begins: at the least energy of the plane that the last pairs have shown.

Sweeps lead from y to λ, and those before ended in λ′. The next begin in

    λ + α (λ − y) + β (λ − λ′)

with those shares of the last sweeps and of momentum that have the least energy ½ λᵀ G λ + (g + s)ᵀ λ, as in conjugate
gradients, and no more than their bounds. G is never made: impulses λ − y have moved the bodies by velocities r, and
momentum by d, so that G is the kinetic energy of r and d, and the slopes of G λ + g are their products with the
velocities that the bodies have. s is the bounce, and De Saxcé's μ |u_t| along the normal, of what a contact has felt
when a sweep came by last: without it the way leads elsewhere than the problem, and sweeps do not end.

An energy with s as it stood tells nothing of how s changes. Where contacts go on changing between sticking and sliding
leaps may lead round and round, at 1e-2 m/s for ever, while sweeps by themselves get to the end in some hundreds; and
elsewhere these creep. So either of the two goes on as long as it pays: while the smallest change of a pair of sweeps
falls from one stretch to the next.

A share below zero would lead back: it is none, and where both are the sweeps go on from where they are. Velocities are
affine in impulses, so that being ahead costs no more than a few numbers for each contact and body. The energy is that
of s as it stands, so this is a guess; cones are kept by the sweep that follows, and the residual decides.

To begin afresh wherever the last sweeps go against momentum, as Nesterov's has to, helped a thousand balls (129 sweeps
instead of 184, momentum up to 0.92) and not a hundred (265 instead of 179): a lower bound helps both.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, negated, select
from whippletree.compiler.program import Address, Each, Index, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.scenes.scene_contacts import BODY, LANE, SceneContacts, matrix_of
from whippletree.compiler.rollout.scenes.scene_trees import GROUP, LANES
from whippletree.contact.geometry.shape_numbers import pose_of
from whippletree.contact.problem.cones import both, length
from whippletree.contact.problem.contact_problem import BlockScaling
from whippletree.spatial import congruence

FARTHEST, MOST_OF_MOMENTUM = 8.0, 0.88
"""Shares of the last pair of sweeps and of momentum at most. A hundred balls that settle took 179 and 162 sweeps a step
with a momentum of 0.92 and 0.88, a thousand 184 and 122: with the former a few steps of each run did not end, for one
part of a pile goes too far while others, which decide, do not."""

WITH_LEAPS, WITHOUT_LEAPS, PAYS = 80, 40, 0.9
"""Pairs of sweeps in a stretch with leaps, and in one without; a stretch pays if the smallest change in it, squared, is
less than this share of that in the stretch before. On 120 problems of a hundred capsules, cylinders, ellipsoids,
icosahedra and boxes (20 of each, and of thirty boxes) that took more than 500 sweeps to 1e-5 m/s, or did not end in
4000, leaps alone took 2410 sweeps on average, and left 56 of them and of 60 easier ones unsolved; now 1210, and 14.
Sixty problems of balls take 337 sweeps instead of 333. Shorter stretches, and shares of 0.5, do about as well; to do
without leaps for 20 pairs wherever a change is twice the smallest one before leaves 14, too, and costs balls half as
many sweeps again."""

PLANE = 1e-12
"""Share of the product of both curvatures, the square of the sine between the two directions, from which on they span
a plane; else there is one direction."""


class SceneLeaps:
    """Statements that find that place, of impulses ``impulse`` and velocities ``vel`` of the bodies."""

    def __init__(self, contacts: SceneContacts) -> None:
        self.space, self.contacts = contacts.space, contacts
        self.space.work(
            inertia=("N", 4, LANES),  # columns in the axes of the world, and the mass
            rise=(2,),  # s along both directions
            bend=(5, LANES),  # products of both directions with each other and with the velocities, by lane
            shares=(2,),  # α and β
            leaping=(1,),  # 1 in a stretch with leaps, 0 in one without
            pairs_left=(1,),  # in this stretch
            least_changes=(2,),  # of a pair of sweeps, squared, in this stretch and in the last one of its sort
        )

    def on(self, contacts: SceneContacts) -> SceneLeaps:
        """These leaps on another list of contacts and its bodies."""
        found = copy(self)
        found.contacts = contacts
        return found

    def weigh(self) -> Statement:
        """Mass and inertia of the bodies of the list; those of the world, which does not move, are zeros."""

        def turn(body: Array, pose: Array) -> list[Any]:
            world = congruence(pose_of(pose).R, matrix_of(body[7:13]))
            some = less(0, body[0])
            mass = select(some, 1 / select(some, body[0], 1), 0)
            return [[x for k in range(3) for x in (*world[:, k], 0)] + [mass] * LANES]

        block = traced_block(turn, self.space.each(("bodies", "pose"), BODY), [self.space.at("inertia", BODY)])
        return Each(BODY, self.contacts.touched, (block,))

    def begin(self) -> list[Statement]:
        """Without a way that has been come yet."""
        now, start = (self.contacts.of_body(name, BODY) for name in ("vel", "vel start"))
        keep = traced_block(lambda V: [V], [now], [start])
        at, put = self.space.at, self.space.put
        stretch = (put(1, at("leaping")), put(WITH_LEAPS, at("pairs left")), put(math.inf, at("least changes")))
        own = self.contacts.on_trees(lambda y: [y], ["y"], ["y start"])
        return [put(0, at("shares")), *stretch, Each(BODY, self.contacts.touched, (keep,)), *own]

    @staticmethod
    def ahead(now: Array, start: Array, before: Array, shares: Array) -> Array:
        """The next start, of a contact's impulse or of a body's velocity; the sweep there begins with the former."""
        return np.asarray(now + shares[0] * (now - start) + shares[1] * (now - before))

    @staticmethod
    def rise(scaling: BlockScaling, u: Array, change: Array, shift: Any, mu: Any, ways: Array) -> Array:
        """s (2,) along both directions of a contact that has felt u: ``ways`` are its changes of the normal impulse."""
        aside = length(u[1] + scaling.coupling1 * change[0], u[2] + scaling.coupling2 * change[0])
        return np.asarray((shift + mu * aside) * ways)

    def go_ahead(self) -> list[Statement]:
        """The shares, and the velocities of the bodies at the next start."""
        at, contacts = self.space.at, self.contacts

        def move(now: Array, start: Array, before: Array, shares: Array) -> list[Any]:
            after = self.ahead(now, start, before, shares)
            return [after, after, now]

        trees = ["y", "y start", "y before"]
        velocities = [contacts.of_body(name, BODY) for name in ("vel", "vel start", "vel before")]
        watched = self.space.each(("shares", "leaping", "pairs left", "least changes"))
        return [
            self.space.put(0, at("bend")),
            Each(BODY, contacts.touched, (self._products(),)),
            *self._products_of_trees(),
            *contacts.of_joints("bend"),
            traced_block(least_energy_shares, [at("bend"), at("rise")], [at("shares")]),
            traced_block(shares_that_pay, [at("change"), *watched], watched),
            Each(BODY, contacts.touched, (traced_block(move, [*velocities, at("shares")], velocities),)),
            *contacts.on_trees(move, trees, trees, at("shares")),
        ]

    def _products_of_trees(self) -> list[Statement]:
        """Products of the trees, whose y have the mass 1, in the first lane."""
        if self.contacts.trees is None:
            return []

        def add(y: Array, start: Array, before: Array, bend: Array) -> list[Any]:
            r, d = y - start, y - before
            return [bend + vector(*[multiply_in_strands(a, b) for a, b in ((r, r), (r, d), (d, d), (r, y), (d, y))])]

        bend = Piece((5,), tuple(Address("bend", (Index(None, k), Index(None, 0))) for k in range(5)))
        reads = [*self.space.each(("y", "y start", "y before"), GROUP), bend]
        return [Loop(GROUP, self.contacts.trees.trees, (traced_block(add, reads, [bend]),))]

    def _products(self) -> Statement:
        """Products of one body, in each lane those of one axis."""

        def add(bend: Array, columns: Array, mass: Any, *velocities: Array) -> list[Any]:
            (turn, turn_start, turn_before), (now, start, before) = velocities[:3], velocities[3:]
            r, d = now - start, now - before
            Mr = vector(columns @ (turn - turn_start), mass * r[1])
            Md = vector(columns @ (turn - turn_before), mass * d[1])
            return [bend + vector(Mr @ r, Mr @ d, Md @ d, Mr @ now, Md @ now)]

        names = ("vel", "vel start", "vel before")
        turns = [Piece((3,), self.space.at(name, BODY).addresses[:3]) for name in names]
        bend = Piece((5,), tuple(Address("bend", (Index(None, k), Index(LANE))) for k in range(5)))
        inertia = [self._lane("inertia", 0, 1, 2), Piece((), self._lane("inertia", 3).addresses)]
        reads = [bend, *inertia, *turns, *[self._lane(name, 0, 1) for name in names]]
        return Loop(LANE, LANES, (traced_block(add, reads, [bend]),), side_by_side=True)

    def _lane(self, name: str, *lines: int) -> Piece:
        """One lane of some lines of a body."""
        at = [Address(name, (Index(BODY), Index(None, line), Index(LANE))) for line in lines]
        return Piece((len(at),), tuple(at))


def least_energy_shares(bend: Array, rise: Array) -> list[Any]:
    """Shares (2,) of both directions with the least energy, within their bounds."""
    rr, rd, dd, r, d = bend[:, 0] + bend[:, 1] + bend[:, 2]
    r, d = r + rise[0], d + rise[1]
    spread = rr * dd - rd * rd
    plane = less(PLANE * rr * dd, spread)
    area = select(plane, spread, 1)
    alone = select(less(0, dd), -d / select(less(0, dd), dd, 1), 0)
    alpha = select(plane, (d * rd - r * dd) / area, 0)
    beta = select(plane, (r * rd - d * rr) / area, alone)
    return [[_between(alpha, FARTHEST), _between(beta, MOST_OF_MOMENTUM)]]


def shares_that_pay(change: Array, shares: Array, leaping: Array, left: Array, least: Array) -> list[Any]:
    """Both shares, zeros in a stretch without leaps; and what the next pair has to know of its stretch."""
    smallest = select(less(change[0], least[0]), change[0], least[0])
    ends, pays = less(left[0], 2), less(smallest, PAYS * least[1])
    turns = both(ends, negated(pays))
    after = select(turns, 1 - leaping[0], leaping[0])
    leaps = less(0, after)
    pairs = select(leaps, WITH_LEAPS, WITHOUT_LEAPS)
    before = select(ends, select(pays, smallest, math.inf), least[1])
    return [
        [select(leaps, share, 0) for share in shares],
        [after],
        [select(ends, pairs, left[0] - 1)],
        [select(ends, math.inf, smallest), before],
    ]


def _between(x: Any, most: float) -> Any:
    """The number between 0 and the most that is next to x."""
    return select(less(0, x), select(less(x, most), x, most), 0)
