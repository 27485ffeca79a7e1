"""The contact problem of a scene of many free bodies, solved inside a kernel and matrix-free.

The problem is that of :mod:`whippletree.contact.problem.contact_problem`, in terms of the velocities of the bodies
(:mod:`~whippletree.compiler.rollout.scenes.scene_contacts`).

Sweeps go over the list there and back: from the top of a pile downwards they carry weight, and upwards what holds it.
They leave out what is at rest (:mod:`~whippletree.compiler.rollout.scenes.scene_stirring`).
Alone they creep. So each pair of sweeps begins ahead of where the last one ended
(:mod:`~whippletree.compiler.rollout.scenes.scene_leaps`). Wherever that leads, a fixed point of the sweep solves the
problem as stated, De Saxcé's correction included, and every impulse that a sweep leaves is inside its cone.

What sweeps have not solved after a while is told apart into islands
(:mod:`~whippletree.compiler.rollout.scenes.scene_islands`): those that are solved are left alone, and the others take
steps of Newton's method (:mod:`~whippletree.compiler.rollout.scenes.scene_newton`) with sweeps between them. Where
effort ends without a solution, each island has the best that was found at any look.

On sixty problems of a hundred balls that settle in a narrow box, 1e-4 m/s took 240 sweeps on average by Nesterov's
momentum, given up where it leads uphill (O'Donoghue and Candès 2015, *Adaptive restart for accelerated gradient
schemes*), with the same blocks in a prototype. Combining the last six pairs of sweeps (Anderson 1965) took 590 and
stayed at 1e-3 m/s for ever in one of five; accelerated projected gradients (Mazhar, Heyn, Negrut and Tasora 2015) took
640, nonlinear conjugate gradients (Silcowitz-Hansen, Niebe and Erleben 2010) 600. In steps of the kernel such balls
take 247 sweeps by Nesterov's momentum and 162 now. Being ahead is no guarantee: what a step keeps is told as its
residual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import If, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.scenes.scene_contacts import SceneContacts, relative_velocity
from whippletree.compiler.rollout.scenes.scene_islands import SceneIslands
from whippletree.compiler.rollout.scenes.scene_leaps import SceneLeaps
from whippletree.compiler.rollout.scenes.scene_newton import SceneNewton
from whippletree.compiler.rollout.scenes.scene_sticking import Sticking
from whippletree.compiler.rollout.scenes.scene_stirring import Stirring
from whippletree.compiler.rollout.scenes.scene_totals import LARGEST_FROM_ZERO, SUM, SharedTotals
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.contact_problem import BlockScaling, block_measure, step_block

if TYPE_CHECKING:  # which ask for what a step is close to
    from whippletree.compiler.rollout.scenes.scene_trends import SceneTrends

MOST_SWEEPS = 1_000_000
"""Sweeps of a solution at most; a call says how many it allows."""

CALM_SHARE = 1e-2
"""Share of the tolerance at which a scene is calm when it starts; at rest it becomes that calm at least."""

CLOSE, INVESTED, INVESTED_ALONE = 20.0, 300, 8
"""Where the impulses of the step before leave no more than so many times the tolerance, so many sweeps may go on to the
residual at which a step is *calm*, :func:`next_calm`: what is at rest then needs hardly any. Where there is nothing but
sweeps, few: a ball that rolls on in a pile at rest changes its forces in every step, and what one step leaves, the next
one goes on with. Ten piles of a hundred balls at rest took 20 sweeps a step with 300, and 6 with 8."""

CALM_WAY, CHEAP, DEAR_SWEEPS = 0.05, 30, 100
"""A scene becomes calmer as long as a step takes few sweeps for it, no more than the first number, and less calm beyond
the second, up to the tolerance: sweeps for the sake of the next step do not pay while balls land. It ends where the
residual moves contacts by so small a share of the overlap tolerance in a step that nothing has to be moved apart. A
hundred balls at rest took 5 sweeps a step at a residual of 1e-6 m/s, of which each step left overlaps, 2 at 1e-8 m/s,
and 4 at 1e-9; while they settled, sweeps down to a hundredth of the tolerance were three of four."""

EAGER, PAUSE = 4.0, 3
"""Changes of a sweep, as a multiple of the tolerance, below which the residual is looked at, and pairs of sweeps after
a look until the next one: a look costs as much as two sweeps."""

PAIRS_BEFORE, PAIRS_BETWEEN, MORE_BETWEEN = 20, 5, 1.15
"""Pairs of sweeps before the first step of Newton's method, between the first two, and the factor by which they become
more from step to step: what many steps have not solved needs sweeps as much."""


def next_calm(calm: Any, sweeps: Any, tolerance: Any, smallest: Any) -> Any:
    """The residual, m/s, at which the next step has nothing to do.

    Args:
        calm: that of this step.
        sweeps: that this step took.
        smallest: residual below which contacts do not move, m/s.
    """
    least = select(less(smallest, CALM_SHARE * tolerance), smallest, CALM_SHARE * tolerance)
    lower = largest([calm * 0.7, least])
    higher = select(less(2 * calm, tolerance), 2 * calm, tolerance)
    return select(less(CHEAP, sweeps), select(less(DEAR_SWEEPS, sweeps), higher, calm), lower)


class SceneSolver:
    """Statements that solve the problem of the contacts of the list, from the impulses and velocities that are there.

    tolerance, left sweeps       what is asked for, and how many sweeps it may take
    remaining                    sweeps that the step may take beyond those

    ``residual``, ``works``, ``listed`` and ``made`` tell of the solution.
    """

    def __init__(self, contacts: SceneContacts, by_factors: bool, trends: SceneTrends | None = None) -> None:
        """``by_factors``: whether there is more than sweeps. A thousand balls took a fifth more of these with attempts
        at other steps; and Newton's method knows impulses alone, no moments. ``trends``: of impulses, if they are
        followed."""
        self.by_factors, self.trends = by_factors, trends
        self.space, self.contacts = contacts.space, contacts
        self.sticking, self.stirring = Sticking(contacts), Stirring(contacts)
        self.swept = self.stirring.swept
        self.islands = SceneIslands(contacts, self.swept)
        self.newton = SceneNewton(contacts, self.islands)
        self.leaps = SceneLeaps(self.swept)
        self.leaps_of_all = self.leaps.on(contacts)
        self.space.work(
            left_sweeps=(1,),
            settled=(1,),
            done=(1,),
            goal=(1,),  # residual at which the sweeps end
            invested=(1,),  # sweeps that go on to a share of the tolerance
            wait=(1,),  # pairs of sweeps until the residual is looked at again
            reached=(1,),  # whether the tolerance is
            calm=(1,),  # residual at which there is nothing to do
            residual=(3,),
            first_residual=(1,),  # of the step as it begins, m/s
            works=(2,),
            made=(1,),
            listed=(1,),  # how many contacts there are
            countdown=(1,),  # pairs of sweeps until the next step of Newton's method
            pairs_between=(1,),  # and after that
            step_due=(1,),
            labelling=(1,),  # whether islands are to be told apart
            closing=(1,),  # whether those that are settled are to be left alone
            looked=(1,),  # whether the residual was looked at
            leaps_now=(1,),
            gives_up=(1,),  # whether effort has ended without a solution
        )
        self.totals = SharedTotals(self.space, residual=LARGEST_FROM_ZERO, works=SUM, listed=SUM)

    def begin_calm(self, before: Piece) -> Statement:
        """The residual at which the first step has nothing to do, from that of the last one."""

        def clip(calm: Any, tolerance: Any) -> list[Any]:
            return [[select(less(calm, tolerance), calm, CALM_SHARE * tolerance)]]

        return traced_block(clip, [before, self.space.at("tolerance")], [self.space.at("calm")])

    def calm_down(self) -> Statement:
        """The residual at which the next step has nothing to do."""
        each = self.space.each

        def change(calm: Array, made: Array, tolerance: Any, overlap: Any, h: Any) -> list[Any]:
            return [[next_calm(calm[0], made[0], tolerance, CALM_WAY * overlap / h)]]

        reads = each(("calm", "made", "tolerance", "overlap tolerance", "now dt"))
        return traced_block(change, reads, each(("calm",)))

    def solve(self) -> list[Statement]:
        """Pairs of sweeps, each begun ahead of the last, until the residual is small; none if it is from the start."""
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def look_first(residual: Array, calm: Array, tolerance: Any, first: Array, *counts: Array) -> list[Any]:
            made, left, remaining = (count[0] for count in counts[:3])
            # sweeps that this step has made already come closer wherever they lead: they tell nothing of rest
            fresh = less(made, 1)
            close = both(less(residual[1], CLOSE * tolerance), fresh)
            most: Any = INVESTED if self.by_factors else INVESTED_ALONE
            if self.trends:
                most = self.trends.invested(most, residual[1] / calm[0], counts[3])
            more = select(close, select(less(remaining, most), remaining, most), 0)
            rests = select(less(calm[0], residual[1]), -1, 1)
            found = select(fresh, residual[1], first[0])
            return [[rests], [1], [-rests], [found], [made + more], [left + more], [remaining - more]]

        trusted = ("foresees",) if self.trends else ()
        fine = traced_block(
            look_first,
            each((*("residual", "calm", "tolerance", "first residual", "made", "left sweeps", "remaining"), *trusted)),
            each(("done", "reached", "going on", "first residual", "invested", "left sweeps", "remaining")),
        )
        begin = (*self.stirring.forget(), put(PAIRS_BEFORE, at("countdown")), put(PAIRS_BETWEEN, at("pairs between")))
        return [
            If(address("afresh"), begin),
            *self.measure(),
            fine,
            If(
                address("going on"),
                (
                    put(0, at("wait")),
                    If(address("afresh"), tuple(self.contacts.remember("impulse", "vel"))),
                    *self.sticking.attempt(self.measure()),
                    put(-1, *each(("afresh", "labelled", "step due"))),
                    put(1, *each(("resumes", "unlabelled"))),
                    If(address("going on"), (Until("stretch", MOST_SWEEPS, address("done"), self._stretch()),)),
                ),
            ),
        ]

    def _stretch(self) -> tuple[Statement, ...]:
        """A step of Newton's method, where it is due, and sweeps over what is stirred, or not settled, until a look."""
        at, put, address = self.space.at, self.space.put, self.space.address
        ahead = tuple(self.leaps.go_ahead())
        begin = (self.leaps.weigh(), *self.swept.remember("impulse", "vel"), *self.leaps.begin())
        pair = (*self._sweep(), If(address("settled"), tuple(self._look())), If(address("leaps now"), ahead))
        flags = tuple(self.stirring.gather())
        go_on = (If(address("grew"), begin), If(address("lasting"), ahead))
        # where islands are known, they say what is swept
        unknown = address("unlabelled")
        by_factors = (If(address("step due"), tuple(self._step())),) if self.by_factors else ()
        return (
            *((If(unknown, flags),) if self.by_factors else flags),
            *self.stirring.collect(),
            *self.swept.tables(),
            *self.contacts.of_joints("gather"),
            *((If(unknown, go_on),) if self.by_factors else go_on),
            *by_factors,
            put(-1, at("looked")),
            Until("sweep", MOST_SWEEPS, address("looked"), pair),
        )

    def _step(self) -> list[Statement]:
        """A step of Newton's method, and no momentum after it."""
        each, address = self.space.each, self.space.address

        def wait(solvable: Array, pause: Array) -> list[Any]:
            # a graph that has no order has none in this problem, and sweeps need not know of islands
            some = less(0, solvable[0])
            known = select(some, 1, -1)
            return [[select(some, pause[0], MOST_SWEEPS)], [MORE_BETWEEN * pause[0]], [-1], [known], [-known]]

        names = ("countdown", "pairs between", "step due", "labelled", "unlabelled")
        told = traced_block(wait, each(("solvable", "pairs between")), each(names))
        return [
            *self.newton.step(),
            told,
            If(address("labelled"), (*self.contacts.remember("impulse", "vel"), *self.leaps_of_all.begin())),
            # where there was none to take, nothing has changed, and sweeps keep their momentum
            If(address("unlabelled"), tuple(self.leaps.go_ahead())),
        ]

    def _look(self) -> list[Statement]:
        """The residual, whether it will do, and what is to be done if not."""
        at, each, address, put = self.space.at, self.space.each, self.space.address, self.space.put
        if not self.by_factors:
            return [*self.measure(), self._end(), put(1, at("looked")), put(-1, at("leaps now"))]

        def plan(going: Array, countdown: Array, labelled: Array, reached: Array) -> list[Any]:
            due = select(less(countdown[0], 1), going[0], -1)
            known = less(0, labelled[0])
            return [
                [due],
                [select(known, -1, due)],
                [select(known, going[0], due)],
                # before islands are known, a new stretch goes ahead, on lists of its own
                [select(known, select(less(0, due), -1, going[0]), -1)],
                [select(both(known, less(going[0], 0)), -reached[0], -1)],
                [1],
            ]

        ahead = traced_block(
            plan,
            each(("going on", "countdown", "labelled", "reached")),
            each(("step due", "labelling", "closing", "leaps now", "gives up", "looked")),
        )
        label = (
            self.leaps_of_all.weigh(),
            *self.contacts.tables(),
            *self.islands.find(),
            *self.newton.begin(),
            put(1, at("labelled")),
            put(-1, at("unlabelled")),
            *self.measure(by_island=True),
            self.islands.forget_best(),
            *self.islands.keep_best(),
        )
        best = (*self.islands.take_best(), *self.newton.rebuild(), *self.measure())
        return [
            If(address("unlabelled"), tuple(self.measure())),
            If(address("labelled"), (*self.measure(by_island=True), *self.islands.keep_best())),
            self._end(),
            ahead,
            If(address("labelling"), label),
            If(address("closing"), tuple(self.islands.close_settled())),
            # effort that ends without a solution leaves the best that there was
            If(address("gives up"), best),
        ]

    def _sweep(self) -> list[Statement]:
        """A sweep there and one back, and how much they have changed."""

        def judge(change: Array, invested: Array, wait: Array, left: Array, made: Array, *wanted: Any) -> list[Any]:
            (countdown,), (calm,), tolerance = wanted
            enough = EAGER * select(less(made[0], invested[0]), calm, tolerance)
            busy = less(enough * enough, change[0])
            looks = select(busy, -1, select(less(0, wait[0]), -1, 1))
            due = select(less(countdown, 2), 1, looks) if self.by_factors else looks
            settled = select(less(left[0], 4), 1, due)
            pause = select(less(0, settled), PAUSE, wait[0] - 1)
            goal = select(less(made[0] + 2, invested[0]), calm, tolerance)
            counts = [left[0] - 2], [made[0] + 2], [countdown - 1]
            return [[settled], [-settled], [-settled], [goal], [pause], *counts]

        at = self.space.at
        counts = self.space.each(("left sweeps", "made", "countdown"))
        told = traced_block(
            judge,
            [at("change"), at("invested"), at("wait"), *counts, at("calm"), at("tolerance")],
            [*self.space.each(("settled", "going on", "leaps now", "goal", "wait")), *counts],
        )
        return [*self._there_and_back(), told]

    def _there_and_back(self) -> list[Statement]:
        """Two sweeps: the square of their largest ``change``, and what the next start is found from."""
        at, trees = self.space.at, int(self.contacts.trees is not None)

        def answer(u: Array, at_: Array, p: Array, shift: Any, mu: Any) -> tuple[Array, Array]:
            after = step_block(BlockScaling(*at_), p, np.array([u[0] + shift, u[1], u[2]], dtype=object), mu)
            return after, after - p

        def there(
            u: Array, start: Array, before: Array, shares: Array, at_: Array, now: Array, *law: Any
        ) -> tuple[Array, list[Any]]:
            p = self.leaps.ahead(now, start, before, shares)
            after, d = answer(u, at_, p, *law)
            return d, [after, p, now]

        def back(
            u: Array, start: Array, before: Array, mobility: Any, change: Array, rise: Array, *given: Any
        ) -> tuple[Array, list[Any]]:
            carried, given = given[:trees], given[trees:]
            after, d = answer(u, *given)
            scaling, _, shift, mu = given
            ways = vector(after[0] - start[0], after[0] - before[0])
            rise = rise + self.leaps.rise(BlockScaling(*scaling), u, d, shift, mu, ways)
            for speed in carried:  # trees have y alone among the motions whose energy is asked for
                rise = rise + vector(speed @ (after - start), speed @ (after - before))
            return d, [after, [largest([change[0], mobility * mobility * (d @ d)])], rise]

        contacts, totals = self.swept, [at("change"), at("rise")]
        own = contacts.of_contact("scaling", "impulse", "shift", "roughness")
        impulse, past = at("impulse", CONTACT), contacts.of_contact("impulse start", "impulse before")
        first = contacts.exchange(there, [*past, at("shares"), *own], [impulse, *past])
        mobility = contacts.of_contact("mean mobility")
        carried = contacts.of_contact(*["carried"] * trees)
        second = contacts.exchange(back, [*past, *mobility, *totals, *carried, *own], [impulse, *totals])
        return [
            self.space.put(0, *totals),
            contacts.each(*first, *contacts.of_moments("sweep_there"), ahead="swept"),
            *contacts.of_joints("sweep_there", "sweep_back"),
            contacts.each(*second, *contacts.of_moments("sweep_back"), backwards=True, ahead="swept"),
        ]

    def _end(self) -> Statement:
        """Whether the residual is small enough, or no more sweeps are allowed."""

        def end(residual: Array, goal: Array, left: Array, tolerance: Any) -> list[Any]:
            done = select(less(goal[0], residual[1]), select(less(left[0], 1), 1, -1), 1)
            return [[done], [select(less(tolerance, residual[1]), -1, 1)], [-done]]

        at = self.space.at
        return traced_block(
            end,
            [*self.space.each(("residual", "goal", "left sweeps")), at("tolerance")],
            [at("done"), at("reached"), at("going on")],
        )

    def measure(self, by_island: bool = False) -> list[Statement]:
        """The residual of the list and its work; ``by_island``: and the residual of each island."""
        at, each = self.space.at, self.space.each

        def look(row: Array, mobility: Any, p: Array, mu: Any, shift: Any, approach: Array, *rest: Any) -> list[Any]:
            residual, works, listed, stirs, calm, first, second, *led = rest[int(by_island) :]
            bare = sum((x[:3] for x in led), start=relative_velocity(row, first, second))
            u = np.array([bare[0] + shift, bare[1], bare[2]], dtype=object)
            # of its own part the trace counts alone
            found = block_measure(mobility * identity(3), p, u, mu, 0)
            work = (bare + approach) * p / 2
            return [
                [largest([a, b]) for a, b in zip(residual, found, strict=True)],
                [works[0] + work[0] + work[1] + work[2], works[1] + work[1] + work[2]],
                listed + 1,
                [self.stirring.is_stirred(stirs, found.velocity, calm[0])],
                *[[largest([worst, found.velocity])] for worst in rest[: int(by_island)]],
            ]

        def take_roots(squares: Array) -> list[Any]:
            return [[sqrt(squares[0]), sqrt(squares[1]), squares[2]]]

        names = ("residual", "works", "listed")
        on_rows = self.contacts.work_on_rows and not by_island
        told, totals = each(names), self.totals.each(*names) if on_rows else each(names)
        worst = [self.islands.residual()] if by_island else []
        island = [self.islands.island_register()] if by_island else []
        reads = [
            *self.contacts.of_contact(
                "row", "looked mobility", "impulse", "looked friction", "looked shift", "approach"
            ),
            *worst,
            *totals,
            self.stirring.note(),
            at("calm"),
            *self.contacts.both("vel"),
            *self.contacts.leading(),
        ]
        own = traced_block(look, reads, [*totals, self.stirring.note(), *worst])
        looks: list[Statement] = [*self.totals.begin(), self.contacts.each_on_rows(own), *self.totals.end()]
        if not on_rows:
            moments = self.contacts.of_moments("measure")
            looks = [self.contacts.each(*island, *self.contacts.lead("vel"), own, *moments)]
        return [
            self.space.put(0, *told),
            *self.contacts.of_joints("measure"),
            *(self.islands.begin_residuals() if by_island else []),
            *looks,
            traced_block(take_roots, [at("residual")], [at("residual")]),
        ]
