"""The contact problem of a list of blocks, solved inside a kernel: sweeps first, then other methods in turn.

The problem is that of :mod:`whippletree.contact.problem.contact_problem` with G = Bᵀ B never formed: y = Σ B λ holds
what all impulses do, a block's velocity is u = g + Bᵀ y. So the cost is that of the list, times the number of
velocities. In a sweep every block responds to what the others do; where sweeps creep, they leap along their change.

What sweeps do not solve is left to Newton's method
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_newton`), and where that does not get through either, to
an interior-point method (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_interior`): scenes that are
jammed, or whose forces are far from unique. All take turns until the natural map of every block is within the
tolerance, judged for impulses inside their cones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_forms import block_of_form
from whippletree.compiler.rollout.contact_lists.contact_list_interior import InteriorPoint
from whippletree.compiler.rollout.contact_lists.contact_list_law import velocity_of
from whippletree.compiler.rollout.contact_lists.contact_list_newton import NewtonMethod
from whippletree.compiler.rollout.contact_lists.contact_list_rows import BlockRows
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, STEP, symmetric_block
from whippletree.contact.problem.cones import both, brought_inside, largest, length
from whippletree.contact.problem.contact_problem import Local, local, measure_by_mass, respond

TURNS = 5
"""Times that sweeps and Newton's method take turns."""

TURNS_OF_LONG_TREES, TURNS_OF_CLOSED_CHAINS = 8, 1
"""Those of long trees, whose steps in Python take a thousand times as long as a turn; and of chains that loops close,
whose steps are as soon taken in halves (:mod:`whippletree.simulation.time_stepping.inertial_gain`): of 44 steps of a
landing of 1000 links a second turn solves one of the eight that the first leaves, in 700 of 4140 rounds. Open chains
have as many as robots: a rope of 25 links that falls on a box leaves 7 of 273 steps after two turns, and none after
five."""

SWEEPS_OF_TURN = 14
"""Sweeps of a turn."""

SWEEPS_OF_FIRST_TURN = 4
"""Sweeps of the first turn, for robots: from the impulses of the step before, one Newton step after them solves nearly
all steps of a humanoid that lies, which 14 sweeps leave unsolved."""

MANY_LOADED, FAR_OFF, BY_AN_IMPACT = 3, 100, 1e5
"""Contacts that press from which on robots make one sweep of their first turn, if it changes more than the second and
less than the third number of tolerances: three more hardly ever solve what many contacts share, and only an impact
changes which of them slide. Where all blocks pressed in the step before, too, and leave a residual between these
numbers, there is no sweep: a humanoid that rolls on takes 0.95 of the time. From random starts that tumble it brings
nothing (−5 to 2 % of the time of six robots, 48 starts each), with 5 % more Newton steps. With four contacts instead of
three, walkers, hoppers and cheetahs take 1.04 to 1.1 of the time; with two, a humanoid that falls 1.05."""

RESTFUL, FINE = 100, 1e-3
"""Where the first sweep of a step changes less than so many tolerances, a scene comes to rest; sweeps and Newton's
method then go on to the second share of one, for a few steps, so that it rests to rounding. Without it a humanoid that
lies down hovers at the tolerance, with half a Newton step in every step; with it, one sweep a step is enough."""

FIRST_SWEEPS = 5
"""Sweeps of a turn before which they go on to that share of the tolerance: more would cost too much."""

BETWEEN_LEAPS = 8
"""Sweeps between two leaps along their change. Of 212 hard steps of falling walkers and ants, 75 sweeps on average
became 19 by leaps alone; leaps after every third sweep or less disturb them more than they help."""

LONGEST_LEAP = 3000
"""Changes of a sweep that a leap adds up at most."""

PLAIN_TURNS = 1
"""Turns of robots before the interior-point method is asked, which takes as long as a hundred sweeps and more. Hands
with a block, a pen or a hammer take 0.8 to 1.0 of the time that they take where it is asked in the first turn."""

CHANGED_LOADS = 100
"""Velocity that two blocks or more are to change by at once, in tolerances, from which on they share it evenly before
they are swept. A hand that lifts a box by two balls on each finger, with four times the force that holds it, turns it
by 0.7 rad without that."""

CHANGED_FORCES = 0.5
"""m/s²: the same, over the length of a step, where there is torsional or rolling friction: of 12000 steps of a box on
fingers 2 are left unsolved where they share smaller changes, none with this, and 3 where they never share."""

TURN, SWEEP = "turn", "sweep"

MOST_INTERIOR_VELOCITIES = 64
"""Velocities up to which a kernel has the interior-point method: its matrix is dense, of the size of the velocities,
so that a step of it costs some 0.1 ms with 40 of them and 2 ms with 100."""


class ListSolver:
    """Statements that solve a problem whose numbers are in buffers of these names:

    B, own, mass                        of a block, see
    g, shift, approach                  :mod:`~whippletree.compiler.rollout.contact_lists.contact_list_preparation`
    friction, cap                       of a block
    host, moment share                  the contact that presses on a block, and the radius of its disc per normal
                                        impulse, beside ``cap``; only where there is torsional or rolling friction
    soft, passive                       compliance of the first tangent, which ``own`` includes, and whether (1 or 0) a
                                        block's work counts as that of contacts; only where there are servos
    impulse, y                          where the solution begins and ends
    dt, tolerance                       arguments of the program

    ``residual`` and ``works`` tell of the solution, ``made`` and ``newtons`` what it has cost.
    """

    def __init__(
        self, space: WorkSpace, blocks: int, rows: BlockRows, hyperstatic: bool = False, sweeps_first: bool = False
    ) -> None:
        """``hyperstatic``: forces are usually far from unique, so that Newton's method is soon given up, except on an
        open chain; ``sweeps_first``: sweeps are given their whole turn before it, as they are there.
        """
        self.space, self.blocks, self.rows = space, blocks, rows
        self.first_sweeps = SWEEPS_OF_TURN if hyperstatic or sweeps_first else SWEEPS_OF_FIRST_TURN
        long = TURNS_OF_LONG_TREES if rows.chain is None else TURNS_OF_CLOSED_CHAINS
        open_chain = rows.chain is not None and not rows.chain.ties
        self.turns = long if rows.eager and not open_chain else TURNS
        self.servos = ["soft"] if "soft" in space.buffers else []
        self.pressed = "host" in space.buffers
        rows.reserve("y", "shared way")
        space.work(
            local=(blocks, len(Local._fields)),  # of its own part of G, what a response needs
            kappa=(blocks,),  # ratio of sliding velocity to friction
            delta=(blocks, 3),  # of the impulses in the last sweep
            change=(1,),
            loaded=(1,),  # blocks that press, after the last sweep or from the step before
            idle=(1,),  # blocks that did not press in the step before
            earlier_change=(1,),
            fineness=(1,),  # change at which sweeps end, and residual at which Newton's method does, m/s
            slope=(2,),  # d · G d of all, and (d₀ − d) · G d with the change d₀ of the sweep before
            wait=(1,),
            leap=(1,),
            far_blocks=(1,),  # blocks that are to change much, but one
            turns=(1,),  # begun
            left_sweeps=(1,),  # of a turn
            swept=(1,),
            swept_out=(1,),  # whether its sweeps are at their end
            sweeps_now=(1,),  # whether it has any
            leaves_out=(1,),  # whether the first turn has none
            settled=(1,),
            done=(1,),
            undone=(1,),
            residual=(3,),
            works=(2,),
            made=(1,),
            newtons=(1,),
            kept=(blocks, 3),
            before=(1,),
            worse=(1,),
        )
        self.newton = NewtonMethod(self, hyperstatic)
        self.interior = InteriorPoint(self) if rows.unknowns <= MOST_INTERIOR_VELOCITIES else None

    def statements(self) -> list[Statement]:
        """The whole solution, from impulses whose motion is y."""
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def begin_turn(turns: Array, leaves_out: Array) -> list[Any]:
            first, none = less(turns[0], 1), both(less(turns[0], 1), less(0, leaves_out[0]))
            left = select(none, 0, select(first, self.first_sweeps, SWEEPS_OF_TURN))
            return [[left], [0], [select(none, 1, -1)], [select(none, -1, 1)], [turns[0] + 1]]

        begin: list[Statement] = [traced_block(lambda tolerance: [[tolerance]], [at("tolerance")], [at("fineness")])]
        begin += self.interior.begin() if self.interior is not None else []
        sweeps: tuple[Statement, ...] = (
            put(BETWEEN_LEAPS - 1, at("wait")),
            put(0, at("earlier change")),
            traced_block(
                begin_turn,
                each(("turns", "leaves out")),
                each(("left sweeps", "swept", "swept out", "sweeps now", "turns")),
            ),
            If(address("sweeps now"), (self._before_sweeps(),)),
            Until(SWEEP, SWEEPS_OF_TURN, address("swept out"), tuple(self._sweep())),
        )
        if self.rows.eager:
            begin += [put(-1, at("leaves out")), *self.measure()]
            turn = (*self._hard(), self.note_undone(), If(address("undone"), sweeps))
        else:
            begin += [put(0, *each(("loaded", "idle"))), self._count_loaded(), *self._look_first()]
            begin += [self._note_sweeping(), If(address("sweeps now"), tuple(self._share_evenly()))]
            turn = (*sweeps, self.note_undone(), If(address("undone"), tuple(self._hard())))
        return [*begin, put(0, at("turns")), Until(TURN, self.turns, address("done"), turn)]

    def _share_evenly(self) -> list[Statement]:
        """Where loads change before sweeps, all blocks go the same share of their way to rest, with the least energy.

        Where forces are not unique, sweeps give to the blocks that they visit first whatever these can take, and the
        others are left without a load to rub with: what could stick slides. From loads that are shared they leave them
        so.
        """
        at, each = self.space.at, self.space.each
        totals = each(("far blocks", "slope"))

        def head(*given: Any) -> list[Any]:
            state, ((mass, mobility), *rest) = self.part_state(given)
            mu, radius, (changed, slope, tolerance) = self.law(rest)
            p, u = state[3], velocity_of(*state)
            d = brought_inside(p - mass * u, mu, radius) - p
            much = CHANGED_LOADS * tolerance
            if self.pressed:
                # moments begin where they were: their bounds follow what presses, which is not known yet
                _, _, h, share, *_ = rest
                much, d = largest([much, CHANGED_FORCES * h]), select(less(0, share), 0, 1) * d
            far = less(much * much, mobility * mobility * (d @ d))
            return [d, changed + select(far, 1, 0), [slope[0] - u @ d, slope[1]]]

        def resist(y: Array, B: Array, d: Array, *rest: Any) -> list[Any]:
            *soft, slope = rest
            return [[slope[0], slope[1] + velocity_of(y, B, np.zeros(3, dtype=int), d, *soft) @ d]]

        def plan(slope: Array) -> list[Any]:
            some = both(less(0, slope[0]), less(0, slope[1]))
            return [[select(some, slope[0] / select(some, slope[1], 1), 0)]]

        reads = [*self.state(), at("mass", BLOCK), *self.bounds(), *totals, at("tolerance")]
        look = self.rows.by_form(lambda form: [block_of_form(form, head, reads, [at("delta", BLOCK), *totals])])
        pushed = [self.rows.at("shared way"), *each(("B", "delta", *self.servos), BLOCK), at("slope")]
        pull = self.rows.by_form(lambda form: [block_of_form(form, resist, pushed, [at("slope")])])
        go = (
            *self.rows.clear("shared way"),
            self.each_active(self.rows.add_to("shared way", "delta")),
            *self.rows.compute_motion("shared way"),
            self.each_active(*pull),
            traced_block(plan, [at("slope")], [at("leap")]),
            *self._move_along_changes(),
        )
        several = traced_block(lambda far: [far - 1], [at("far blocks")], [at("far blocks")])
        return [self.space.put(0, *totals), self.each_active(*look), several, If(self.space.address("far blocks"), go)]

    def _look_first(self) -> list[Statement]:
        """Where many blocks press, and did so in the step before: whether anything is left to do, and whether to sweep.

        Which contacts slide is then known well enough for Newton's method.
        """
        at, each, put = self.space.at, self.space.each, self.space.put
        begin = put(-1, *each(("done", "leaves out")))
        if self.first_sweeps == SWEEPS_OF_TURN:
            return [begin]

        def judge(residual: Array, tolerance: Any) -> list[Any]:
            left = residual[1] / tolerance
            far = both(less(FAR_OFF, left), less(left, BY_AN_IMPACT))
            return [[select(less(left, FINE), 1, -1)], [select(far, 1, -1)]]

        many = traced_block(
            lambda loaded, idle: [[select(less(0, idle[0]), -1, loaded[0] + 1 - MANY_LOADED)]],
            each(("loaded", "idle")),
            [at("leaves out")],
        )
        look = traced_block(judge, each(("residual", "tolerance")), each(("done", "leaves out")))
        return [begin, many, If(self.space.address("leaves out"), (*self.measure(), look))]

    def _note_sweeping(self) -> Statement:
        """``sweeps now``: whether the first turn begins with sweeps. Newton's method asks for no loads that are shared:
        without them a humanoid that rolls on takes 0.93 of the time, with 0.94 of the Newton steps."""

        def look(done: Array, leaves_out: Array) -> list[Any]:
            return [[select(less(0, done[0]), -1, -leaves_out[0])]]

        return traced_block(look, self.space.each(("done", "leaves out")), [self.space.at("sweeps now")])

    def _hard(self) -> list[Statement]:
        """The methods for what sweeps have not solved, each judged alone: the interior-point method may come close
        where Newton's method leads away again.
        """
        found = self._try_method(self.newton.statements())
        if self.interior is not None:
            method = tuple(self._try_method(self.interior.statements()))
            asked = self.note_undone() if self.newton.search is None else self._note_late()
            found += [asked, If(self.space.address("undone"), method)]
        return found

    def _note_late(self) -> Statement:
        """``undone``: whether the interior-point method is asked, which a robot's first turn does without."""
        late = traced_block(
            lambda done, turns: [[select(less(PLAIN_TURNS, turns[0]), -done[0], -1)]],
            self.space.each(("done", "turns")),
            [self.space.at("undone")],
        )
        return late

    def note_undone(self) -> Statement:
        """``undone``: whether a further method is asked."""
        return traced_block(lambda done: [-done], [self.space.at("done")], [self.space.at("undone")])

    def state(self, impulse: str = "impulse", y: str = "y") -> list[Piece]:
        """Terms of a block's velocity, in the order of :func:`velocity_of`."""
        return [self.rows.at(y), *self.space.each(("B", "g", impulse, *self.servos), BLOCK)]

    def part_state(self, given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The numbers of :meth:`state`, and the rest."""
        count = 4 + len(self.servos)
        return given[:count], given[count:]

    def each_active(self, *statements: Statement) -> Statement:
        """Statements for every block of the list, which may ask for :meth:`bounds`."""
        return Each(BLOCK, ACTIVE, (*self.rows.enter(), *self._host(), *statements))

    def _host(self) -> list[Statement]:
        """The register of the contact that a moment belongs to."""
        return [Lookup("host", self.space.address("host", BLOCK))] if self.pressed else []

    def bounds(self, impulse: str = "impulse") -> list[Piece]:
        """Numbers of the law of friction of a block, for :meth:`law`; ``impulse``: where contacts press."""
        found = [*self.space.each(("friction", "cap"), BLOCK), self.space.at("dt", STEP)]
        if self.pressed:
            normal = Piece((), (Address(impulse, (Index("host"), Index(None, 0))),))
            found += [self.space.at("moment share", BLOCK), normal]
        return found

    def law(self, given: Sequence[Any]) -> tuple[Any, Any, Sequence[Any]]:
        """μ and the radius of the disc from the numbers of :meth:`bounds`, and the rest of those given."""
        mu, cap, h, *rest = given
        if not self.pressed:
            return mu, h * cap, rest
        share, normal, *rest = rest
        return mu, h * cap + share * largest([normal, 0]), rest

    # ---- sweeps --------------------------------------------------------------------------------------------------

    def _sweep(self) -> list[Statement]:
        """Every block of the list responds to the others; a look at the residual once little changes, or at the end."""
        at, each = self.space.at, self.space.each

        def improve(*given: Any) -> list[Any]:
            (_, _, _, p, *_), (own, local, kappa, before, *rest) = self.part_state(given)
            mu, radius, (change, slopes, loaded) = self.law(rest)
            G, (same, slower) = symmetric_block(own), slopes
            free = velocity_of(*self.part_state(given)[0]) - G @ p
            after, better = respond(Local(*local), free, mu, radius, kappa)
            d = after - p
            moved = G @ d
            slope = [same + d @ moved, slower + (before - d) @ moved]
            count = loaded + select(less(0, after[0]), 1, 0)
            return [after, [better], d, [largest([change[0], moved @ moved])], slope, count]

        def judge(change: Array, loaded: Array, *rest: Any) -> list[Any]:
            fineness, earlier, left, swept, made, tolerance = rest
            # little enough, or no number any more, or the last one that is worth it
            restful = both(less(made[0], 1), less(change[0], RESTFUL * RESTFUL * tolerance * tolerance))
            target = select(restful, FINE * tolerance, fineness[0])
            enough = select(less(swept[0], FIRST_SWEEPS - 1), target, tolerance)
            busy = less(enough * enough, change[0])
            later = select(too_slow(change[0], earlier[0], left[0] - 1, swept[0], tolerance), 0, left[0] - 1)
            if self.first_sweeps < SWEEPS_OF_TURN:
                square = tolerance * tolerance
                far = both(less(FAR_OFF**2 * square, change[0]), less(change[0], BY_AN_IMPACT**2 * square))
                later = select(both(less(made[0], 1), both(less(MANY_LOADED - 1, loaded[0]), far)), 0, later)
            return [
                [select(busy, select(less(later, 1), 1, -1), 1)],
                [target],
                [change[0]],
                [later],
                [swept[0] + 1],
                [made[0] + 1],
            ]

        reads = [*self.state(y=self.rows.swept), *each(("own", "local", "kappa", "delta"), BLOCK), *self.bounds()]
        totals = each(("change", "slope", "loaded"))
        writes = [*each(("impulse", "kappa", "delta"), BLOCK), *totals]

        def block(form: int) -> list[Statement]:
            return [*self._host(), block_of_form(form, improve, [*reads, *totals], writes)]

        counts = each(("fineness", "earlier change", "left sweeps", "swept", "made"))
        return [
            self.space.put(0, *totals),
            *self.rows.sweep(block, "delta"),
            traced_block(judge, [*each(("change", "loaded")), *counts, at("tolerance")], [at("settled"), *counts]),
            If(self.space.address("settled"), tuple(self.measure())),
            *self._leap(),
            traced_block(
                lambda done, left: [[select(less(left[0], 1), 1, done[0])]],
                each(("done", "left sweeps")),
                [at("swept out")],
            ),
        ]

    def _leap(self) -> list[Statement]:
        """Now and then, a step along the change of the last sweep, as far as such changes will add up to.

        They fall by the same share from sweep to sweep where sweeps creep; or by nothing, where two feet of a rigid
        body push against each other until one of them slips. Wherever it leads, sweeps go on from there.
        """
        each = self.space.each

        def plan(slope: Array, wait: Array, settled: Array) -> list[Any]:
            same, slower = slope
            far = less(slower * LONGEST_LEAP, same)
            share = select(far, LONGEST_LEAP, same / select(far, 1, slower))
            due = both(less(wait[0], 1), both(less(settled[0], 0), less(1 / 2, share)))
            return [[select(due, share, -1)], [select(due, BETWEEN_LEAPS, wait[0]) - 1]]

        return [
            traced_block(plan, each(("slope", "wait", "settled")), each(("leap", "wait"))),
            If(self.space.address("leap"), self._move_along_changes()),
        ]

    def _move_along_changes(self) -> tuple[Statement, ...]:
        """Impulses go ``leap`` times their ``delta``, inside their cones."""
        at, each = self.space.at, self.space.each

        def leap(p: Array, d: Array, *rest: Any) -> list[Any]:
            mu, radius, (share,) = self.law(rest)
            return [brought_inside(p + share[0] * d, mu, radius)]

        reads = [*each(("impulse", "delta"), BLOCK), *self.bounds(), at("leap")]
        block = traced_block(leap, reads, [at("impulse", BLOCK)])
        again = self.each_active(block, self.rows.add_to("y", "impulse"))
        return (*self.rows.clear("y"), again, *self.rows.compute_motion("y"))

    # ---- judgement -----------------------------------------------------------------------------------------------

    def measure(self) -> list[Statement]:
        """The residual of the list, whether it is small enough, and its work."""
        at, each = self.space.at, self.space.each

        def look(*given: Any) -> list[Any]:
            state, (masses, *rest) = self.part_state(given)
            mu, radius, (shift, approach, *counts, residual, works) = self.law(rest)
            found = measure_by_mass(masses, state[3], velocity_of(*state), mu, radius)
            work = self.work_of_block(*state, shift, approach, *counts)
            return [
                # what is no number is infinitely wrong, not left out of a comparison
                [largest([a, select(less(b, math.inf), b, math.inf)]) for a, b in zip(residual, found, strict=True)],
                [works[0] + work[0] + work[1] + work[2], works[1] + work[1] + work[2]],
            ]

        def decide(squares: Array, tolerance: Any) -> list[Any]:
            residual = [sqrt(squares[0]), sqrt(squares[1]), squares[2]]
            return [residual, [select(less(tolerance, residual[1]), -1, 1)]]

        totals = each(("residual", "works"))
        state, more = self.part_state(self.terms_of_work())
        reads = [*state, at("mass", BLOCK), *self.bounds(), *more]
        return [
            self.space.put(0, *totals),
            self.each_active(*self.rows.by_form(lambda form: [block_of_form(form, look, [*reads, *totals], totals)])),
            traced_block(decide, each(("residual", "tolerance")), each(("residual", "done"))),
        ]

    def terms_of_work(self) -> list[Piece]:
        """Numbers of the block in hand for :meth:`work_of_block`."""
        counts = ["passive"] if self.servos else []
        return [*self.state(), *self.space.each(("shift", "approach", *counts), BLOCK)]

    def work_of_block(self, *given: Any) -> Array:
        """Work of a block along its normal and tangents, (3,), as far as it counts as that of contacts."""
        state, (shift, approach, *counts) = self.part_state(given)
        u, p = velocity_of(*state), state[3]
        bare = np.array([u[0] - shift, u[1], u[2]], dtype=object)
        work = (bare + approach) * p / 2
        return np.asarray(work * counts[0] if counts else work)

    # ---- methods for what sweeps have not solved -----------------------------------------------------------------

    def _try_method(self, method: Sequence[Statement]) -> list[Statement]:
        """A method from where the impulses are; back to there if it leads nowhere."""
        at, each = self.space.at, self.space.each
        begin = traced_block(lambda residual: [[residual[1]]], [at("residual")], [at("before")])
        copy = traced_block(lambda p: [p], [at("impulse", BLOCK)], [at("kept", BLOCK)])
        judge = traced_block(
            lambda residual, before: [[select(less(residual[1], before[0]), -1, 1)]],
            each(("residual", "before")),
            [at("worse")],
        )
        back = traced_block(lambda p: [p], [at("kept", BLOCK)], [at("impulse", BLOCK)])
        undo = (
            *self.rows.clear("y"),
            self.each_active(back, self.rows.add_to("y", "impulse")),
            *self.rows.compute_motion("y"),
            *self.measure(),
        )
        return [
            begin,
            Each(BLOCK, ACTIVE, (copy,)),
            *method,
            judge,
            If(self.space.address("worse"), undo),
        ]

    def _count_loaded(self) -> Statement:
        """How many blocks of the list press, and how many do not."""

        def count(normal: Any, loaded: Array, idle: Array) -> list[Any]:
            presses = less(0, normal)
            return [loaded + select(presses, 1, 0), idle + select(presses, 0, 1)]

        normal = Piece((), (Address("impulse", (Index(BLOCK), Index(None, 0))),))
        totals = self.space.each(("loaded", "idle"))
        return Each(BLOCK, ACTIVE, (traced_block(count, [normal, *totals], totals),))

    def _before_sweeps(self) -> Statement:
        """What sweeps need of each block: ``local``, and κ of impulses that they have not found: |u_t| / |λ_t|."""

        def prepare(*given: Any) -> list[Any]:
            state, (own,) = self.part_state(given)
            u, p = velocity_of(*state), state[3]
            friction = length(p[1], p[2])
            slides = less(0, friction)
            slip = select(slides, length(u[1], u[2]) / select(slides, friction, 1), 0)
            return [[slip], list(local(symmetric_block(own)))]

        reads = [*self.state(), self.space.at("own", BLOCK)]
        writes = self.space.each(("kappa", "local"), BLOCK)
        return self.each_active(*self.rows.by_form(lambda form: [block_of_form(form, prepare, reads, writes)]))


def too_slow(change: Any, earlier: Any, left: Any, swept: Any, tolerance: Any) -> Any:
    """Whether the last one or two sweeps of a turn would not get to the tolerance at the rate of the last two.

    ``change`` and ``earlier`` are squares (m²/s²) of the largest changes of this sweep and the one before; ``swept``:
    sweeps of the turn before this one.
    """
    last = less(left, 2)
    wanted = tolerance * tolerance * earlier * select(last, 1, earlier)
    reached = change * change * select(last, 1, change)
    return both(both(less(0, swept), less(left, 3)), less(wanted, reached))
