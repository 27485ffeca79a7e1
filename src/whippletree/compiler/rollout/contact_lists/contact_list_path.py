"""The central path of a contact problem on a chain, followed through its folds, inside a kernel.

Coulomb's law is not monotone, and the path of x ∘ w = ν 1 need not lead from large ν to small: it may turn back and go
on elsewhere. There an interior-point method stops, which only knows ways on which ν falls. The path itself goes on, and
its length can be counted instead of ν. Points are kept on it by their form: with z = x − w,

    x = (z + √(z² + 4 ν 1)) / 2        w = x − z        x ∘ w = ν 1

in the algebra of the cones, whatever z and ν are, so that F(z, ν) = G x + g + s(w) − w = 0 is all that is left to hold.
A step solves two systems with the matrix that the interior-point method has, L_w / L_x in place of W²: for the tangent
of the path, and for Newton's correction back to it, less its part along the tangent. It goes as far along the tangent
as no pair changes by more than its own size, or farther where z grows and x and w follow it along straight lines, and
shorter the farther it has to be corrected.

Which way along the tangent is onwards, the sign of the determinant of the system says: ν falls where it is positive.
Nothing has to be remembered, also where the slip |w_t| has a kink. Of 86 problems of landing belts of 200 and 400 links
the interior-point method alone leaves 13; in dense matrices, both together solve all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import clip, less, negated, select
from whippletree.compiler.program import Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_chains import ChainSystem, yielding
from whippletree.compiler.rollout.step_space import BLOCK
from whippletree.contact.problem.cones import both, largest

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_interior import InteriorPoint

PATH = "path step"

PATH_STEPS = 60
"""Steps along a path at most. Where a run of a belt goes over from sticking to sliding link by link, the path turns
back twice for every link, and the halves of the step are solved sooner: five landings of 1000 links with steps of 1 to
3 ms take 5.1 s with 120 and 4.4 s with 60, of 400 links 0.58 and 0.61 s."""

PATH_STEPS_OF_OPEN_CHAINS = 40
"""Those of chains without loops, whose problems Newton's method and sweeps solve in a later turn: a rope of 25 links
that falls on a box takes 26 steps of all methods for a problem, and 38 with 120 of these."""

SLOWEST_CHANGE = 1 / math.log(10)
"""Change of a pair per change of log ν below which ν itself is what limits a step, to the tenth part."""

LARGEST_FALL, LARGEST_RISE = 6, 3
"""Changes of log ν in a step at most, whatever corrections ask for."""

LIFT = 0.7
"""Rise of log ν in a step whose correction would change a pair by more than its own size."""

CALM_SPEED = 2
"""Change of a pair per change of log ν below which the path is as smooth as an interior-point method needs it: once ν
has fallen to half of where the path was taken up, that goes on, in fewer steps. Of 23 problems with folds, 22 are
solved in 48 steps along the path on average, or in 41 with both in turns."""


class CentralPath:
    """Statements that go on where an interior-point method has stopped, until it can go on itself; with buffers of that
    and of its chain.
    """

    def __init__(self, interior: InteriorPoint, chain: ChainSystem) -> None:
        self.interior, self.chain = interior, chain
        self.solver, self.space = interior.solver, interior.space
        self.cone = interior.cone
        blocks, count = self.solver.blocks, self.cone.count
        self.space.work(
            path_z=(blocks, count),
            onwards=(blocks, count),  # right-hand side of the tangent, dw at dx = 0 per change of log ν
            tangent_x=(blocks, count),
            tangent_z=(blocks, count),
            path_nu=(1,),
            path_sign=(1,),  # of the determinant
            path_products=(2,),  # of correction and tangent, and of the tangent with itself
            path_speed=(1,),  # the largest bending of a pair per change of log ν
            path_astray=(1,),  # and in the correction
            path_move=(2,),  # shares of correction and tangent
            path_begun=(1,),  # ν where the path was taken up
            past_folds=(1,),  # whether the interior-point method can go on
            path_over=(1,),
        )

    def statements(self) -> list[Statement]:
        """The way from where the interior-point method stopped; ``done`` tells whether it ends in a solution."""
        at, each = self.space.at, self.space.each
        begin = traced_block(lambda x, w: [x - w], each(("inside x", "inside w"), BLOCK), [at("path z", BLOCK)])
        level = traced_block(
            lambda lead, many: [[lead[0] / many[0]], [lead[0] / many[0]], [-1]],
            each(("lead", "many")),
            each(("path nu", "path begun", "path over")),
        )
        add = traced_block(
            lambda x, w, lead: [[lead[0] + self.cone.inner(x, w), lead[1]]],
            [*each(("inside x", "inside w"), BLOCK), at("lead")],
            [at("lead")],
        )
        steps = PATH_STEPS if self.chain.ties else PATH_STEPS_OF_OPEN_CHAINS
        return [
            self.space.put(0, at("lead")),
            self.solver.each_active(begin, add),
            level,
            *self.interior.push(self._arrive()),
            Until(PATH, steps, self.space.address("path over"), tuple(self._step())),
        ]

    def _arrive(self) -> Statement:
        """x and w of a block."""
        at = self.space.at

        def arrive(z: Array, nu: Array) -> list[Any]:
            pair = self.cone.pair.of(z, nu[0])
            return [pair.x, pair.w]

        reads = [at("path z", BLOCK), at("path nu")]
        return traced_block(arrive, reads, self.space.each(("inside x", "inside w"), BLOCK))

    def _step(self) -> list[Statement]:
        totals = self.space.each(("path products", "path speed", "path astray"))
        return [
            self._prepare(),
            *self.chain.factor_and_solve("goal", "step x"),
            *self.chain.solve("onwards", "tangent x"),
            *self._orient(),
            self.space.put(0, *totals),
            self._compare(),
            self._look_astray(),
            self._plan(),
            *self.interior.push(self._move(), self._arrive()),
            *self.solver.measure(),
            self._judge(),
        ]

    def _prepare(self) -> Statement:
        """The matrix and both right-hand sides of a block."""
        at, each = self.space.at, self.space.each

        def prepare(z: Array, nu: Array, scale: Array, unknown: Array, B: Array, g: Array, *rest: Any) -> list[Any]:
            friction, y, size = rest
            pair = self.cone.pair.of(z, nu[0])
            w, cone = pair.w, self.cone
            rubs = both(less(0, friction), less(0, unknown[0]))
            r = cone.add_slip(self.interior.velocity(scale, B, g, y, size) - w, w, rubs)
            left = cone.slip_slope(w, rubs)
            rows = (B[: cone.count].T * scale).T
            own = np.array([pair.yielded(axis) for axis in np.eye(cone.count, dtype=int)], dtype=object)
            own = (own.T * unknown).T * unknown + np.diag(1 - unknown)
            pull = ((left @ cone.of_axes(rows)).T * unknown).T
            return [-(unknown * (left @ r)), unknown * w, yielding(own), pull, cone.thrown(rows)]

        reads = [at("path z", BLOCK), at("path nu"), *self.interior.of_block("scale", "unknown", "B", "g", "friction")]
        reads += [self.solver.rows.at("y"), at("stature")]
        writes = each(("goal", "onwards", "own matrix", "pull", "thrown"), BLOCK)
        return self.solver.each_active(self.interior.block(prepare, reads, writes))

    def _orient(self) -> list[Statement]:
        """The sign of the determinant, that of the elimination's parts."""
        at = self.space.at

        def turn(sign: Array, inverse: Array) -> list[Any]:
            return [[select(less(self.cone.determinant(inverse), 0), -sign[0], sign[0])]]

        def turn_ties(sign: Array, inverse: Array) -> list[Any]:
            found, A = sign[0], -np.array(inverse, dtype=object)
            for p in range(len(A)):
                found = select(less(A[p, p], 0), -found, found)
                for i in range(p + 1, len(A)):
                    A[i] = A[i] - A[i, p] / A[p, p] * A[p]
            return [[found]]

        sign = at("path sign")
        found = [
            self.space.put(1, sign),
            self.solver.each_active(traced_block(turn, [sign, at("chain inverse", BLOCK)], [sign])),
        ]
        return [*found, traced_block(turn_ties, [sign, at("tie matrix")], [sign])] if self.chain.ties else found

    def _compare(self) -> Statement:
        """dz of correction and tangent, their products, and how much the way onwards bends a pair."""
        at, each = self.space.at, self.space.each

        def compare(z: Array, nu: Array, mobile: Array, dx: Array, tx: Array, *rest: Any) -> list[Any]:
            products, speed, sign = rest
            pair = self.cone.pair.of(z, nu[0])
            change = dx + mobile * pair.yielded(dx)
            tangent = tx + mobile * (pair.yielded(tx) - pair.w)
            c, t = pair.relative(change), pair.relative(tangent)
            products = [products[0] + 2 * self.cone.inner(c, t), products[1] + 2 * self.cone.inner(t, t)]
            return [change, tangent, products, [largest([speed[0], self.cone.size(pair.bending(-sign[0] * tangent))])]]

        totals = each(("path products", "path speed"))
        reads = [at("path z", BLOCK), at("path nu"), *self.interior.of_block("mobile", "step x", "tangent x"), *totals]
        reads += each(("path sign",))
        writes = [*each(("step w", "tangent z"), BLOCK), *totals]
        return self.solver.each_active(self.interior.block(compare, reads, writes))

    def _look_astray(self) -> Statement:
        """How much the correction changes a pair."""
        at, each = self.space.at, self.space.each

        def look(z: Array, nu: Array, change: Array, tangent: Array, products: Array, astray: Array) -> list[Any]:
            along = products[0] / (products[1] + 1)
            c = self.cone.pair.of(z, nu[0]).relative(change - along * tangent)
            return [[largest([astray[0], self.cone.size(c)])]]

        reads = [at("path z", BLOCK), at("path nu"), *each(("step w", "tangent z"), BLOCK)]
        reads += each(("path products", "path astray"))
        return self.solver.each_active(traced_block(look, reads, [at("path astray")]))

    def _plan(self) -> Statement:
        """How far to go, and the next ν."""
        each = self.space.each

        def plan(nu: Array, sign: Array, products: Array, speed: Array, *rest: Any) -> list[Any]:
            astray, highest = rest
            along = products[0] / (products[1] + 1)
            most = largest([astray[0], abs(along)])
            share = 1 / largest([most, 1])
            onwards = -sign[0] * largest([1 - most, 0]) / largest([speed[0], SLOWEST_CHANGE])
            rise = clip(onwards - share * along, -LARGEST_FALL, LARGEST_RISE)
            # a point that is far from the path comes back to it more easily where ν is larger
            rise = select(less(1, most), largest([rise, 0]) + LIFT, rise)
            calm = both(both(less(0, sign[0]), less(most, 1 / 2)), less(speed[0], CALM_SPEED))
            past = both(calm, less(2 * nu[0], highest[0]))
            return [[share, onwards - share * along], [_raised(nu[0], rise)], [select(past, 1, -1)]]

        names = ("path nu", "path sign", "path products", "path speed", "path astray", "path begun")
        return traced_block(plan, each(names), each(("path move", "path nu", "past folds")))

    def _move(self) -> Statement:
        at, each = self.space.at, self.space.each

        def move(z: Array, change: Array, tangent: Array, shares: Array) -> list[Any]:
            return [z + shares[0] * change + shares[1] * tangent]

        reads = [*each(("path z", "step w", "tangent z"), BLOCK), at("path move")]
        return traced_block(move, reads, [at("path z", BLOCK)])

    def _judge(self) -> Statement:
        """The end: a solution, a smooth part of the path, or no number any more."""
        each = self.space.each

        def judge(done: Array, nu: Array, past: Array, made: Array) -> list[Any]:
            lost = negated(both(less(0, nu[0]), less(nu[0], math.inf)))
            return [[select(lost, 1, largest([done[0], past[0]]))], made + 1]

        reads = each(("done", "path nu", "past folds", "newtons"))
        return traced_block(judge, reads, each(("path over", "newtons")))


def _raised(nu: Any, rise: Any) -> Any:
    """ν once its logarithm has risen, to the second order: always positive."""
    size = abs(rise)
    factor = 1 + size + size * size / 2
    return select(less(0, rise), nu * factor, nu / factor)
