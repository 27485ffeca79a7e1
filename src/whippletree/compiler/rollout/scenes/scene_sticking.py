"""Impulses with which everything sticks, by conjugate gradients: where a scene begins that stands still.

While every contact stays inside its friction cone, the contact problem is linear: u = 0 wherever something touches, or
G λ = −g. Sweeps creep towards that, one box of a tower after the other; conjugate gradients need no more steps than
there are velocities, each at the cost of a pair of sweeps, and no matrix either. From impulses of zero they lead to the
solution of least norm where forces are not unique, which shares a load evenly: a tower of 10 boxes took 1332 sweeps for
its first step and some 300 for each of the next ten, and crept. Now 10 steps find impulses with which it stands to
rounding, and the steps that follow have nothing to do.

First without friction: of all impulses that carry a wall on level ground, those of least norm take some from friction,
more than a few of its corners have (40 of 2480 in a wall of 328 bricks); along the normals alone 150 steps find those
with which it stands. An arch, or whatever leans, does not stand without friction, and then all directions are tried.

It is tried where nothing presses yet, and taken if it is an answer: impulses are brought back to their cones, and the
residual of the problem as stated decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Each, If, Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import ACTIVE, BODY, TOUCHED, SceneContacts
from whippletree.compiler.rollout.scenes.scene_totals import LARGEST_FROM_ZERO, SHARE, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT, LANES
from whippletree.contact.problem.cones import both, brought_inside, largest
from whippletree.contact.problem.contact_problem import IMMOBILE

MOST_CONJUGATE = 200
"""Steps of conjugate gradients at most, in each of two attempts."""

ALL_STUCK = 1e-6
"""Share of the residual at which there is nothing to do, at which they end: what stands still then stays within that
residual for hundreds of steps, by the same impulses."""


class Sticking:
    """Statements that try it. Buffers of the solver: impulse, vel, free, residual, calm, remaining, made."""

    def __init__(self, contacts: SceneContacts) -> None:
        self.space, self.contacts = contacts.space, contacts
        self.space.work(
            held=("C", 3),  # which directions of a contact are, 1 or 0
            missing=("C", 3),  # −u of those that are held
            eased=("C", 3),  # that, by the diagonal of G
            along=("C", 3),  # direction of the step
            moves=("C", 3),  # G times it
            aside=("N", 2, LANES),  # what it does to bodies
            presses=(1,),  # whether any contact does
            worth_it=(1,),
            slope=(2,),  # missing · eased, of this step and the next
            curvature=(1,),
            stride=(2,),  # length of the step, and the share of its direction in the next
            farthest=(1,),  # the largest velocity of what is held, squared
            straight=(1,),
            no_better=(1,),
            residual_before=(1,),
            tangents=(1,),  # 0 where impulses act along normals alone, else 1
            tried=(1,),
        )
        self.pressing = SharedTotals(self.space, presses=LARGEST_FROM_ZERO)

    def attempt(self, measure: Sequence[Statement]) -> list[Statement]:
        """Try it, and keep what is better; ``measure``: finds the residual. A way back is there."""
        at, each, put = self.space.at, self.space.each, self.space.put

        def look(p: Array, presses: Array) -> list[Any]:
            return [[largest([presses[0], select(less(0, p[0]), 1, 0)])]]

        def decide(presses: Array, remaining: Array, residual: Array) -> list[Any]:
            affordable = less(2 * MOST_CONJUGATE, remaining[0])
            return [[select(both(less(presses[0], 1), affordable), 1, -1)], [residual[1]], [0], [-1]]

        choose = traced_block(
            decide,
            each(("presses", "remaining", "residual")),
            each(("worth it", "residual before", "tangents", "tried")),
        )
        (presses,) = self.pressing.each()
        pressing = traced_block(look, [*self.contacts.of_contact("impulse"), presses], [presses])
        attempts = Until("attempt", 2, self.space.address("tried"), tuple(self._solve(measure)))
        return [
            put(0, at("presses")),
            *self.pressing.begin(),
            Each(CONTACT, ACTIVE, (pressing,), share=SHARE),
            *self.pressing.end(),
            choose,
            If(self.space.address("worth it"), (*self.contacts.tables(), attempts)),
        ]

    def _begin(self) -> list[Statement]:
        """Which contacts are held, whatever touches, and their velocities, as far as impulses may stop them."""

        def look(u: Array, shift: Any, own: Array, tolerance: Any, slope: Array, tangents: Array) -> list[Any]:
            held = select(less(u[0] + shift, tolerance), 1, 0)
            aside = held * tangents[0]
            r = -vector(held * (u[0] + shift), aside * u[1], aside * u[2])
            z = _by_diagonal(own, r)
            return [vector(held, aside, aside), r, z, [0] * 3, [slope[0] + r @ z, 0]]

        at, each, put = self.space.at, self.space.each, self.space.put
        reads = [*self.contacts.of_contact("shift", "own"), *each(("tolerance", "slope", "tangents"))]
        writes = [*each(("held", "missing", "eased", "along"), CONTACT), at("slope")]
        return [put(0, *each(("slope", "stride"))), self.contacts.each(*self.contacts.feel(look, reads, writes, "vel"))]

    def _solve(self, measure: Sequence[Statement]) -> list[Statement]:
        """All steps, the answer within the cones, and a step back where it is none."""
        at, each, address, contacts = self.space.at, self.space.each, self.space.address, self.contacts

        def judge(residual: Array, before: Array, calm: Array) -> list[Any]:
            better = less(residual[1], before[0])
            done = select(better, select(less(calm[0], residual[1]), -1, 1), -1)
            return [[select(better, -1, 1)], [done], [-done], [done], [select(better, residual[1], before[0])], [1]]

        own = contacts.of_contact("impulse", "roughness")
        inside = contacts.push(lambda p, mu: [brought_inside(p, mu, 0)], own, [at("impulse", CONTACT)], "vel")
        free = traced_block(lambda free: [free], [at("free", BODY)], [contacts.of_body("vel", BODY)])
        end = traced_block(
            judge,
            each(("residual", "residual before", "calm")),
            each(("no better", "done", "going on", "tried", "residual before", "tangents")),
        )
        return [
            *self._begin(),
            self.space.put(-1, at("straight")),
            Until("conjugate", MOST_CONJUGATE, address("straight"), tuple(self._step())),
            Each(BODY, TOUCHED, (free,)),
            *(contacts.joints.release("y") if contacts.joints else []),
            contacts.each(*inside),
            *measure,
            end,
            If(address("no better"), (*self._go_back(), *measure)),
            If(address("going on"), tuple(contacts.remember("impulse", "vel"))),
        ]

    def _go_back(self) -> list[Statement]:
        """Impulses and velocities as they were before."""
        loops = []
        for name, register in (("impulse", CONTACT), ("vel", BODY)):
            before, now = (self.contacts.of_body(part, register) for part in (f"{name} before", name))
            loops.append(traced_block(lambda x: [x], [before], [now]))
        trees = self.contacts.on_trees(lambda y: [y], ["y before"], ["y"])
        return [Each(CONTACT, ACTIVE, (loops[0],)), Each(BODY, TOUCHED, (loops[1],)), *trees]

    def _step(self) -> list[Statement]:
        """One step, and what the next direction is made of."""
        at, each, put, contacts = self.space.at, self.space.each, self.space.put, self.contacts

        def turn(eased: Array, along: Array, stride: Array) -> list[Any]:
            return [eased + stride[1] * along]

        def curve(moved: Array, held: Array, along: Array, curvature: Array) -> list[Any]:
            return [held * moved, [curvature[0] + (held * moved) @ along]]

        def pace(slope: Array, curvature: Array) -> list[Any]:
            some = less(0, curvature[0])
            return [[select(some, slope[0] / select(some, curvature[0], 1), 0), 0]]

        reads = [*each(("eased", "along"), CONTACT), at("stride")]
        direct = contacts.push(turn, reads, [at("along", CONTACT)], "aside")
        reads, writes = [*each(("held", "along"), CONTACT), at("curvature")], [at("moves", CONTACT), at("curvature")]
        bend = contacts.feel(curve, reads, writes, "aside")
        return [
            put(0, *each(("curvature", "farthest"))),
            Each(BODY, TOUCHED, (put(0, at("aside", BODY)),)),
            *contacts.still_trees("aside"),
            contacts.each(*direct),
            contacts.each(*bend),
            traced_block(pace, each(("slope", "curvature")), [at("stride")]),
            *self._advance(),
        ]

    def _advance(self) -> list[Statement]:
        """Impulses and velocities after a step, and whether it was the last."""
        at, each = self.space.at, self.space.each

        def advance(p: Array, r: Array, along: Array, moves: Array, own: Array, *totals: Array) -> list[Any]:
            stride, slope, farthest = totals
            r = r - stride[0] * moves
            z = _by_diagonal(own, r)
            return [p + stride[0] * along, r, z, [slope[0], slope[1] + r @ z], [largest([farthest[0], r @ r])]]

        def follow(slope: Array, stride: Array, farthest: Array, calm: Array, made: Array, left: Array) -> list[Any]:
            far = both(less(0, stride[0]), less(ALL_STUCK * ALL_STUCK * calm[0] * calm[0], farthest[0]))
            share = slope[1] / select(less(0, slope[0]), slope[0], 1)
            return [[slope[1], 0], [stride[0], share], [select(far, -1, 1)], made + 2, left - 2]

        totals = each(("stride", "slope", "farthest"))
        reads = [*each(("impulse", "missing", "along", "moves", "own"), CONTACT), *totals]
        go = traced_block(advance, reads, [*each(("impulse", "missing", "eased"), CONTACT), *totals[1:]])
        velocity = self.contacts.of_body("vel", BODY)
        move = traced_block(
            lambda V, d, stride: [V + stride[0] * d],
            [velocity, self.contacts.of_body("aside", BODY), at("stride")],
            [velocity],
        )
        counts = each(("made", "remaining"))
        reads = [*each(("slope", "stride", "farthest", "calm")), *counts]
        end = traced_block(follow, reads, [*each(("slope", "stride", "straight")), *counts])
        trees = self.contacts.on_trees(lambda y, d, stride: [y + stride[0] * d], ["y", "y aside"], ["y"], at("stride"))
        return [Each(CONTACT, ACTIVE, (go,)), Each(BODY, TOUCHED, (move,)), *trees, end]


def _by_diagonal(own: Array, r: Array) -> Array:
    """r (3,) divided by the diagonal of a contact's own part of G, whose upper triangle is ``own``; 0 where that is."""
    least = IMMOBILE * (own[0] + own[3] + own[5]) / 3
    found = []
    for x, size in zip(r, (own[0], own[3], own[5]), strict=True):
        moves = less(least, size)  # or a joint holds it
        found.append(select(moves, x / select(moves, size, 1), 0))
    return vector(*found)
