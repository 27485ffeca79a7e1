"""The contact problem of a scene of many free bodies, solved inside a kernel and matrix-free.

The problem is that of :mod:`whippletree.contact.problem.contact_problem`. What all impulses do is kept as the
velocities of the bodies, V = V_free + M⁻¹ Jᵀ λ, so that a contact's velocity is J V, of two bodies alone, and a sweep
costs what the list is long, whatever the number of bodies.

Sweeps go over the list there and back: from the top of a pile downwards they carry weight, and upwards what holds it.
Alone they creep. So each pair of sweeps begins ahead of where the last one ended, by Nesterov's momentum, which is
given up where it leads uphill (O'Donoghue and Candès 2015, *Adaptive restart for accelerated gradient schemes*).
Velocities are affine in impulses, so that being ahead costs no more than a few numbers for each contact and body.
Wherever it leads, a fixed point of the sweep solves the problem as stated, De Saxcé's correction included, and every
impulse that a sweep leaves is inside its cone.

On sixty problems of a hundred balls that settle in a narrow box, 1e-4 m/s took 240 sweeps on average, with the same
blocks in a prototype. Combining the last six pairs of sweeps (Anderson 1965) took 590 and stayed at 1e-3 m/s for ever
in one of five; accelerated projected gradients (Mazhar, Heyn, Negrut and Tasora 2015) took 640, nonlinear conjugate
gradients (Silcowitz-Hansen, Niebe and Erleben 2010) 600. A thousand balls took 540 sweeps for 1e-4 m/s, 250 for 5e-4.
Momentum is no guarantee either: what a step keeps is told as its residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Collect, Each, If, Index, Lookup, Loop, Register, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.contact_problem import BlockScaling, block_measure, block_scaling, step_block
from whippletree.contact.time_step import RELAXATION_SPEED, shifts
from whippletree.spatial import add_cross, cross

ACTIVE, CONTACT, TOUCHED = "active", "contact", "touched"
"""The list of contacts that may matter in a step, the register of one of them, and the list of their bodies."""

MOST_SWEEPS = 1_000_000
"""Sweeps of a solution at most; a call says how many it allows."""

FINE, CLOSE, INVESTED = 1e-2, 20.0, 300
"""Where the impulses of the step before leave so small a share of the tolerance there is nothing to do. Where they
leave no more than so many times the tolerance, so many sweeps may go on to that share: what is at rest then needs
hardly any. (With a share of 0.1 boxes at rest drift, and need more sweeps than with 0.01; with 0.001 as well.)"""

SCENE_CORRECTIONS = 300
"""Sweeps that move apart what would overlap, at most."""

EAGER, PAUSE = 4.0, 3
"""Changes of a sweep, as a multiple of the tolerance, below which the residual is looked at, and pairs of sweeps after
a look until the next one: a look costs as much as two sweeps."""

MOST_MOMENTUM = 0.92
"""How far ahead a pair of sweeps begins at most, as a share of the way that the last one has come. Without a bound a
thousand balls stayed at 1e-2 m/s: one part of a pile goes uphill while others, which decide, do not."""

FIRST, SECOND, BODY = "first body", "second body", "any body"
SCALING = len(BlockScaling._fields)
LANE, LANES = "lane", 4
"""Three numbers and one that is not used are computed side by side."""

SWEPT = {
    "columns": (0, (9, LANES)),
    "rows": (36, (9, LANES)),
    "scaling": (72, (SCALING,)),
    "mean mobility": (79, ()),
    "impulse before": (80, (3,)),
    "shift": (83, ()),
    "delta": (84, (3,)),
    "roughness": (87, ()),
}
"""Numbers of a contact for sweeps, side by side in one row of ``swept``, so that a sweep through a long list meets few
pages of memory: where each thing begins, and its shape.

columns, rows     see :func:`lever_tables`
impulse before    after the pair of sweeps before
delta             of the impulse in the sweep there
roughness         its friction
"""

ROW = 15
"""Numbers of a contact's rows: its axes (3, 3), and its point from both centres of mass."""


def relative_velocity(row: Array, first: Array, second: Array) -> Array:
    """J V (3,): of the material points of two bodies that move with (ω, velocity of the centre of mass)."""
    axes, arm, other = row[:9].reshape(3, 3), row[9:12], row[12:]
    ours, theirs = add_cross(first[3:], first[:3], arm), add_cross(second[3:], second[:3], other)
    return np.asarray(axes @ (ours - theirs))


def pushed(row: Array, impulse: Array, bodies: Sequence[Array], velocities: Sequence[Array]) -> list[Array]:
    """Velocities of two bodies after an impulse (3,) along a contact's axes; ``bodies``: what moves them, (7,)."""
    force = row[:9].reshape(3, 3).T @ impulse
    found = []
    for sign, arm, mobility, V in zip((1, -1), (row[9:12], row[12:]), bodies, velocities, strict=True):
        turn, shift = matrix_of(mobility[1:]) @ cross(arm, force), mobility[0] * force
        found.append(np.concatenate([V[:3] + turn, V[3:] + shift] if sign > 0 else [V[:3] - turn, V[3:] - shift]))
    return found


def lever_tables(row: Array, first: Array, second: Array) -> tuple[list[Any], list[Any]]:
    """Nine columns and nine rows (4,), the last number of each 0, for :meth:`SceneSolver.feel` and its ``push``.

    Columns: of the axes E, and of how the turning of either body moves the contact along them; so u is a sum of
    columns. Rows: of E, and of how impulses along the axes turn either body; so are changes of velocities sums of rows.
    """
    E = row[:9].reshape(3, 3)
    levers = [np.array([cross(arm, axis) for axis in E], dtype=object) for arm in (row[9:12], row[12:])]
    turned = [own @ matrix_of(body[1:]) for own, body in zip(levers, (first, second), strict=True)]
    columns = [[*part[:, k], 0] for part in (E, *levers) for k in range(3)]
    rows = [[*part[k], 0] for part in (E, *turned) for k in range(3)]
    return [x for line in columns for x in line], [x for line in rows for x in line]


def matrix_of(six: Array) -> Array:
    """A symmetric matrix (3, 3) from its upper triangle."""
    a, b, c, d, e, f = six
    return np.array([[a, b, c], [b, d, e], [c, e, f]], dtype=object)


def own_block(row: Array, first: Array, second: Array) -> Array:
    """A contact's own part of the Delassus matrix, (3, 3), from what moves its bodies."""
    axes = row[:9].reshape(3, 3)
    arms = [(cross(row[9:12], axis), cross(row[12:], axis)) for axis in axes]
    A, B = matrix_of(first[1:]), matrix_of(second[1:])
    G = np.zeros((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            turning = arms[i][0] @ (A @ arms[j][0]) + arms[i][1] @ (B @ arms[j][1])
            G[i, j] = G[j, i] = turning + (first[0] + second[0] if i == j else 0)
    return G


class SceneSolver:
    """Statements that solve a problem whose numbers are in buffers of these names:

    touch, node, friction, restitution   of a contact, see :mod:`~whippletree.compiler.rollout.scene_step`
    centre, mobility, start, free        of a body
    impulse                              where the solution begins and ends
    now dt, tolerance, left sweeps       the step, what is asked for, and how many sweeps it may take
    remaining                            sweeps that the step may take beyond those

    ``vel`` are the velocities that come out; ``residual``, ``works`` and ``made`` tell of the solution.
    """

    def __init__(self, space: WorkSpace) -> None:
        self.space = space
        space.work(
            row=("C", ROW),
            own=("C", 6),  # the contact's own part of G, its upper triangle
            swept=("C", 22, LANES),
            approach=("C", 3),
            restores=(1,),  # 1, or 0 where the step is solved without restitution
            loaded=("N",),  # whether a body has contacts
            vel_before=("N", 2, LANES),  # and the velocities that it led to
            uphill=(1,),
            theta=(1,),
            push=("C",),
            push_before=("C",),
            push_delta=("C",),
            ahead=("C",),
            vel=("N", 2, LANES),  # turning and centre of mass, each followed by a number that is not used
            felt=(LANES,),  # velocity of the contact in hand
            given=(3,),  # change of its impulse
            moved=("N", 6),
            moved_before=("N", 6),
            change=(1,),
            beta=(1,),
            left_sweeps=(1,),
            settled=(1,),
            done=(1,),
            goal=(1,),  # residual at which the sweeps end
            invested=(1,),  # sweeps that go on to a share of the tolerance
            wait=(1,),  # pairs of sweeps until the residual is looked at again
            reached=(1,),  # whether the tolerance is
            going_on=(1,),
            apart=(1,),
            residual=(3,),
            works=(2,),
            overlap=(1,),
            corrections=(1,),
            made=(1,),
        )

    # ---- what both bodies of a contact are ------------------------------------------------------------------------

    def bodies(self) -> list[Statement]:
        """The registers of the bodies of the contact in hand."""
        return [
            Lookup(name, Address("node", (Index(CONTACT), Index(None, side))), "N")
            for side, name in enumerate((FIRST, SECOND))
        ]

    def of_contact(self, *names: str) -> list[Piece]:
        """Numbers of the contact in hand, in buffers of these names or in its row of ``swept``."""
        found = []
        for name in names:
            if name not in SWEPT:
                found.append(self.space.at(name, CONTACT))
                continue
            start, shape = SWEPT[name]
            places = [divmod(start + k, LANES) for k in range(int(np.prod(shape, dtype=int)))]
            at = [Address("swept", (Index(CONTACT), Index(None, line), Index(None, k))) for line, k in places]
            found.append(Piece(shape, tuple(at)))
        return found

    def of_body(self, name: str, body: Register) -> Piece:
        """Part of a buffer for a body, or for a contact; six numbers of its velocity."""
        if body == CONTACT:
            return self.of_contact(name)[0]
        whole = self.space.at(name, body)
        if whole.shape != (2, LANES):
            return whole
        return Piece((6,), (*whole.addresses[:3], *whole.addresses[LANES : LANES + 3]))

    def both(self, name: str) -> list[Piece]:
        """Parts of a buffer for both bodies."""
        return [self.of_body(name, FIRST), self.of_body(name, SECOND)]

    def masses(self) -> list[Piece]:
        """Reciprocals of the masses of both bodies."""
        return [Piece((), (Address("mobility", (Index(body), Index(None, 0))),)) for body in (FIRST, SECOND)]

    def _lines(self, table: str) -> Piece:
        """One lane of the nine columns or rows of the contact in hand."""
        first = SWEPT[table][0] // LANES
        lines = (Address("swept", (Index(CONTACT), Index(None, first + k), Index(LANE))) for k in range(9))
        return Piece((9,), tuple(lines))

    def feel(self) -> Statement:
        """The velocity of the contact in hand, ``felt``, one row in each lane."""

        def velocity(columns: Array, first: Array, second: Array) -> list[Any]:
            E, A, B = columns.reshape(3, 3)
            return [[E @ (first[3:] - second[3:]) + (A @ first[:3] - B @ second[:3])]]

        felt = Piece((), (Address("felt", (Index(LANE),)),))
        block = traced_block(velocity, [self._lines("columns"), *self.both("vel")], [felt])
        return Loop(LANE, LANES, (block,), side_by_side=True)

    def push(self) -> Statement:
        """Effect of an impulse ``given`` along the axes of the contact in hand on its bodies."""

        def change(rows: Array, p: Array, m: Any, k: Any, *velocities: Any) -> list[Any]:
            turn, way, other_turn, other_way = velocities
            E, A, B = (p @ part for part in rows.reshape(3, 3))
            return [[turn + A], [way + m * E], [other_turn - B], [other_way - k * E]]

        halves = [
            Piece((), (Address("vel", (Index(body), Index(None, half), Index(LANE))),))
            for body in (FIRST, SECOND)
            for half in (0, 1)
        ]
        reads = [self._lines("rows"), self.space.at("given"), *self.masses(), *halves]
        return Loop(LANE, LANES, (traced_block(change, reads, halves),), side_by_side=True)

    def each(self, *blocks: Statement, backwards: bool = False) -> Each:
        """Some statements for every contact of the list."""
        return Each(CONTACT, ACTIVE, (*self.bodies(), *blocks), backwards)

    # ---- the problem ---------------------------------------------------------------------------------------------

    def prepare(self) -> list[Statement]:
        """Rows of the contacts of the list, and the velocities that the impulses of the step before would lead to."""
        at, each = self.space.at, self.space.each

        def rows(touch: Array, p: Array, e: Any, restores: Array, h: Any, *of_bodies: Array) -> list[Any]:
            centres, mobilities, start, velocities = (of_bodies[i : i + 2] for i in (0, 2, 4, 6))
            row = np.concatenate([touch[4:], touch[1:4] - centres[0], touch[1:4] - centres[1]])
            G = own_block(row, *mobilities)
            approach = relative_velocity(row, *start)
            shift = shifts(vector(touch[0]), approach[:1], vector(e * restores[0]), h)[0]
            own = [G[0, 0], G[0, 1], G[0, 2], G[1, 1], G[1, 2], G[2, 2]]
            return [row, own, [shift], approach, *pushed(row, p, mobilities, velocities), [1], [1]]

        reads = [*each(("touch", "impulse", "restitution"), CONTACT), *each(("restores", "now dt"))]
        reads += [piece for name in ("centre", "mobility", "start", "vel") for piece in self.both(name)]
        writes = [*self.of_contact("row", "own", "shift", "approach"), *self.both("vel")]
        writes += [at("loaded", FIRST), at("loaded", SECOND)]
        return [
            Loop(BODY, "N", (self.space.put(-1, at("loaded", BODY)),)),
            self.each(traced_block(rows, reads, writes)),
            Collect(TOUCHED, BODY, "N", self.space.address("loaded", BODY)),
        ]

    def _tables(self) -> Statement:
        """Numbers of a contact that sweeps need."""

        def tables(row: Array, own: Array, mu: Any, first: Array, second: Array) -> list[Any]:
            mean = (own[0] + own[3] + own[5]) / 3
            return [*lever_tables(row, first, second), list(block_scaling(matrix_of(own))), [mean], [mu]]

        reads = [*self.of_contact("row", "own", "friction"), *self.both("mobility")]
        return traced_block(tables, reads, self.of_contact("columns", "rows", "scaling", "mean mobility", "roughness"))

    # ---- its solution --------------------------------------------------------------------------------------------

    def solve(self) -> list[Statement]:
        """Pairs of sweeps, each begun ahead of the last, until the residual is small; none if it is from the start."""
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def look_first(residual: Array, tolerance: Any, *counts: Array) -> list[Any]:
            made, left, remaining = (count[0] for count in counts)
            close = less(residual[1], CLOSE * tolerance)
            more = select(close, select(less(remaining, INVESTED), remaining, INVESTED), 0)
            rests = select(less(FINE * tolerance, residual[1]), -1, 1)
            return [[rests], [1], [made + more], [left + more], [remaining - more]]

        fine = traced_block(
            look_first,
            [at("residual"), at("tolerance"), *each(("made", "left sweeps", "remaining"))],
            each(("done", "reached", "invested", "left sweeps", "remaining")),
        )
        look = (*self.measure(), self._end())
        once = (
            *self._sweep(),
            If(address("settled"), look),
            If(address("going on"), tuple(self._go_ahead("impulse", "vel"))),
        )
        return [
            *self.measure(),
            fine,
            traced_block(lambda done: [-done], [at("done")], [at("going on")]),
            If(
                address("going on"),
                (
                    put(0, at("wait")),
                    self.each(self._tables()),
                    *self._remember("impulse", "vel"),
                    Until("sweep", MOST_SWEEPS, address("done"), once),
                ),
            ),
        ]

    def _sweep(self) -> list[Statement]:
        """A sweep there and one back, and how much they have changed."""
        at = self.space.at

        def answer(u: Array, at_: Array, p: Array, shift: Any, mu: Any) -> tuple[Array, Array]:
            after = step_block(BlockScaling(*at_), p, np.array([u[0] + shift, u[1], u[2]], dtype=object), mu)
            return after, after - p

        def there(*given: Any) -> list[Any]:
            after, d = answer(*given)
            return [after, d, d]

        def back(delta: Array, before: Array, mobility: Any, change: Array, uphill: Array, *given: Any) -> list[Any]:
            after, d = answer(*given)
            against = -mobility * ((delta + d) @ (after - before))
            return [after, d, [largest([change[0], mobility * mobility * (d @ d)])], [uphill[0] + against]]

        def judge(change: Array, invested: Array, wait: Array, left: Array, made: Array, tolerance: Any) -> list[Any]:
            enough = select(less(made[0], invested[0]), FINE * tolerance, EAGER * tolerance)
            busy = less(enough * enough, change[0])
            looks = select(busy, -1, select(less(0, wait[0]), -1, 1))
            settled = select(less(left[0], 4), 1, looks)
            pause = select(less(0, settled), PAUSE, wait[0] - 1)
            goal = select(less(made[0] + 2, invested[0]), FINE * tolerance, tolerance)
            return [[settled], [-settled], [goal], [pause], [left[0] - 2], [made[0] + 2]]

        felt = Piece((3,), at("felt").addresses[:3])
        reads = [felt, *self.of_contact("scaling", "impulse", "shift", "roughness")]
        writes = [at("impulse", CONTACT), at("given")]
        totals, counts = [at("change"), at("uphill")], [at("left sweeps"), at("made")]
        more = [*self.of_contact("delta", "impulse before", "mean mobility"), *totals]
        first = traced_block(there, reads, [*writes, *self.of_contact("delta")])
        second = traced_block(back, [*more, *reads], [*writes, *totals])
        told = traced_block(
            judge,
            [at("change"), at("invested"), at("wait"), *counts, at("tolerance")],
            [at("settled"), at("going on"), at("goal"), at("wait"), *counts],
        )
        return [
            self.space.put(0, *totals),
            self.each(self.feel(), first, self.push()),
            self.each(self.feel(), second, self.push(), backwards=True),
            told,
        ]

    def _remember(self, impulse: str, velocity: str) -> list[Statement]:
        """Where sweeps begin, of the contacts and of the bodies, and without momentum."""
        at = self.space.at
        loops = []
        for name, register in ((impulse, CONTACT), (velocity, BODY)):
            now, before = self.of_body(name, register), self.of_body(f"{name} before", register)
            loops.append(traced_block(lambda x: [np.atleast_1d(x)], [now], [before]))
        return [
            self.space.put(1, at("theta")),
            Each(CONTACT, ACTIVE, (loops[0],)),
            Each(BODY, TOUCHED, (loops[1],)),
        ]

    def _go_ahead(self, impulse: str, velocity: str) -> list[Statement]:
        """The next start, y = λ + β (λ − λ before): of the contacts and, with the same β, of the bodies."""
        at = self.space.at

        def momentum(uphill: Array, theta: Array) -> list[Any]:
            before = select(less(0, uphill[0]), 1, theta[0])
            after = (1 + sqrt(1 + 4 * before * before)) / 2
            beta = (before - 1) / after
            return [[select(less(MOST_MOMENTUM, beta), MOST_MOMENTUM, beta)], [after]]

        def ahead(now: Any, before: Any, beta: Array) -> list[Any]:
            x = now + beta[0] * (now - before)
            return [np.atleast_1d(x), np.atleast_1d(now)]

        loops = []
        for name, register in ((impulse, CONTACT), (velocity, BODY)):
            both = [self.of_body(name, register), self.of_body(f"{name} before", register)]
            loops.append(traced_block(ahead, [*both, at("beta")], both))
        return [
            traced_block(momentum, [at("uphill"), at("theta")], [at("beta"), at("theta")]),
            Each(CONTACT, ACTIVE, (loops[0],)),
            Each(BODY, TOUCHED, (loops[1],)),
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

    def measure(self) -> list[Statement]:
        """The residual of the list and its work."""
        at, each = self.space.at, self.space.each

        def look(row: Array, own: Array, p: Array, mu: Any, shift: Any, approach: Array, *rest: Any) -> list[Any]:
            residual, works, first, second = rest
            bare = relative_velocity(row, first, second)
            u = np.array([bare[0] + shift, bare[1], bare[2]], dtype=object)
            found = block_measure(matrix_of(own), p, u, mu, 0)
            work = (bare + approach) * p / 2
            return [
                [largest([a, b]) for a, b in zip(residual, found, strict=True)],
                [works[0] + work[0] + work[1] + work[2], works[1] + work[1] + work[2]],
            ]

        def take_roots(squares: Array) -> list[Any]:
            return [[sqrt(squares[0]), sqrt(squares[1]), squares[2]]]

        totals = each(("residual", "works"))
        reads = [*self.of_contact("row", "own", "impulse", "friction", "shift", "approach"), *totals, *self.both("vel")]
        return [
            self.space.put(0, *totals),
            self.each(traced_block(look, reads, totals)),
            traced_block(take_roots, [at("residual")], [at("residual")]),
        ]

    # ---- positions -----------------------------------------------------------------------------------------------

    def move_apart(self) -> list[Statement]:
        """π with 0 ≤ π ⟂ gap + h u + G π ≥ 0 along the normals, as displacements ``moved`` of the bodies.

        By pairs of sweeps with momentum, as for impulses. Velocities are left alone. Sweeps end where a pair moves no
        contact farther than ``overlap tolerance``.
        """
        at, each, put = self.space.at, self.space.each, self.space.put

        def begin(touch: Array, row: Array, h: Any, first: Array, second: Array, overlap: Array) -> list[Any]:
            ahead = largest([touch[0] + h * relative_velocity(row, first, second)[0], -h * RELAXATION_SPEED])
            return [[ahead], [0], [largest([overlap[0], -ahead])]]

        def needed(overlap: Array, smallest: Any) -> list[Any]:
            return [[select(less(smallest, overlap[0]), 1, -1)], [-1], [0]]

        def judge(change: Array, made: Array, smallest: Any) -> list[Any]:
            enough = select(less(made[0], SCENE_CORRECTIONS - 3), -1, 1)
            settled = select(less(smallest, change[0]), enough, 1)
            return [[settled], [-settled], [made[0] + 2]]

        first = traced_block(
            begin,
            [*each(("touch", "row"), CONTACT), at("now dt"), *self.both("vel"), at("overlap")],
            [*each(("ahead", "push"), CONTACT), at("overlap")],
        )
        decide = traced_block(needed, each(("overlap", "overlap tolerance")), each(("apart", "done", "corrections")))
        told = traced_block(
            judge, each(("change", "corrections", "overlap tolerance")), each(("done", "going on", "corrections"))
        )
        there, back = self._apart_sweeps()
        sweeps = (
            put(0, at("change"), at("uphill")),
            self.each(there),
            self.each(back, backwards=True),
            told,
            If(self.space.address("going on"), tuple(self._go_ahead("push", "moved"))),
        )
        iterate = Until("correction", SCENE_CORRECTIONS, self.space.address("done"), sweeps)
        return [
            put(0, at("overlap")),
            self.each(first),
            decide,
            If(self.space.address("apart"), (self.each(self._tables()), *self._remember("push", "moved"), iterate)),
        ]

    def _apart_sweeps(self) -> list[Statement]:
        """Effect of a sweep there, and one back, on a contact that would overlap."""
        at, each = self.space.at, self.space.each

        def improve(normal: Array, own: Any, ahead: Any, push: Any, *of_bodies: Any) -> Any:
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

        def there(*given: Any) -> list[Any]:
            after, d, moved = improve(*given)
            return [[after], [d], *moved]

        def back(
            delta: Any, before: Any, change: Array, uphill: Array, normal: Array, own: Any, *rest: Any
        ) -> list[Any]:
            after, d, moved = improve(normal, own, *rest)
            whole = (delta + d) / own
            return [
                [after],
                *moved,
                [largest([change[0], abs(whole)])],
                [uphill[0] - whole * (after - before)],
            ]

        columns, rows, scaling = (part.addresses for part in self.of_contact("columns", "rows", "scaling"))
        axis = [rows[k] for k in range(3)]
        levers = [columns[LANES * k] for k in range(3, 9)]
        turned = [rows[LANES * k + i] for k in (3, 6) for i in range(3)]
        normal = Piece((15,), (*axis, *levers, *turned))
        inverse = Piece((), scaling[:1])
        reads = [normal, inverse, *each(("ahead", "push"), CONTACT), *self.masses(), *self.both("moved")]
        totals = each(("change", "uphill"))
        return [
            traced_block(there, reads, [*each(("push", "push delta"), CONTACT), *self.both("moved")]),
            traced_block(
                back,
                [*each(("push delta", "push before"), CONTACT), *totals, *reads],
                [at("push", CONTACT), *self.both("moved"), *totals],
            ),
        ]
