"""The contact problem of a scene of many free bodies, solved inside a kernel and matrix-free.

The problem is that of :mod:`whippletree.contact.problem.contact_problem`. What all impulses do is kept as the
velocities of the bodies, V = V_free + M⁻¹ Jᵀ λ, so that a contact's velocity is J V, of two bodies alone, and a sweep
costs what the list is long, whatever the number of bodies.

Sweeps go over the list there and back: from the top of a pile downwards they carry weight, and upwards what holds it.
Alone they creep. So each start is the combination of the last few sweeps whose change would be least if changes were
linear in impulses (Anderson 1965; Walker and Ni 2011, *Anderson acceleration for fixed-point iterations*), brought
inside the cones, and measured with each contact's own mobility, so that heavy and light bodies count alike. Where a
change has become ten times larger than the least, the memory is given up. Wherever it leads, a fixed point of the sweep
solves the problem as stated, and every impulse is inside its cone.

Sweeps may go round in circles, where bodies are wedged between others. Of a hundred balls in a narrow box, they stayed
at 1e-2 m/s for ever. So after some of them accelerated projected gradients go on (Mazhar, Heyn, Negrut and Tasora 2015,
*Using Nesterov's method to accelerate multibody dynamics with friction and contact*), here with De Saxcé's correction
in every step, so that they solve Coulomb's law and not the associated one. They are no guarantee either: a prototype
went on to 1e-8 m/s after 3000 steps on two such problems, and some steps of that scene keep 1e-2 m/s here, which the
residual of the step tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import brought_inside, corrected, largest, length, project_on_cone
from whippletree.contact.problem.contact_problem import Local, block_measure, local, respond
from whippletree.contact.time_step import RELAXATION_SPEED, shifts
from whippletree.spatial import add_cross, cross

ACTIVE, CONTACT = "active", "contact"
"""The list of contacts that may matter in a step, and the register of one of them."""

MOST_SWEEPS = 1_000_000
"""Sweeps of a solution at most; a call says how many it allows."""

FIRST_SWEEPS, FINE = 30, 1e-2
"""The first sweeps of a step go on until they change so small a share of the tolerance: a scene at rest, whose impulses
are those of the step before, comes to rest to rounding in a few steps."""

SCENE_CORRECTIONS = 300
"""Sweeps that move apart what would overlap, at most."""

MEMORY, TURNS = 6, 4
"""Sweeps that are combined, and times that so many are made before gradients take over."""

BOLD, CAUTION = 2.0, 0.7
"""Length of a gradient step, as a multiple of one that is safe for linear problems; and what it is multiplied by where
changes have grown by ``LOST``."""

LOST = 100.0
"""Energy of a change, as a multiple of the least so far, beyond which what is remembered does not fit any more."""

NO_PIVOT = 1e-11
"""Share of its diagonal below which a pivot of the small system is rounding: that sweep is left out."""

NO_CHANGE = 1e300
"""Larger than the square of any change."""

SLOT = "slot"
FIRST, SECOND = "first body", "second body"
LOCAL = len(Local._fields)
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


def _least_squares(gram: Array, right: Array) -> list[Any]:
    """x with gram x = right, by elimination; a direction that depends on those before it gets 0."""
    n = len(right)
    rows = [[gram[i, j] for j in range(n)] + [right[i]] for i in range(n)]
    sound = []
    for k in range(n):
        pivot = rows[k][k]
        sound.append(less(NO_PIVOT * gram[k, k], pivot))
        rate = select(sound[k], 1 / select(sound[k], pivot, 1), 0)
        for i in range(k + 1, n):
            share = rows[i][k] * rate
            rows[i] = [a - share * b for a, b in zip(rows[i], rows[k], strict=True)]
    found: list[Any] = [0] * n
    for k in reversed(range(n)):
        rest = rows[k][n]
        for j in range(k + 1, n):
            rest = rest - rows[k][j] * found[j]
        found[k] = select(sound[k], rest / select(sound[k], rows[k][k], 1), 0)
    return found


class SceneSolver:
    """Statements that solve a problem whose numbers are in buffers of these names:

    touch, node, friction, restitution   of a contact, see :mod:`~whippletree.compiler.rollout.scene_step`
    centre, mobility, start, free        of a body
    impulse                              where the solution begins and ends
    now dt, tolerance, left sweeps       the step, what is asked for, and how many sweeps it may take

    ``vel`` are the velocities that come out; ``residual``, ``works`` and ``made`` tell of the solution.
    """

    def __init__(self, space: WorkSpace) -> None:
        self.space = space
        space.work(
            row=("C", ROW),
            own=("C", 6),  # the contact's own part of G, its upper triangle
            local=("C", LOCAL),
            shift=("C",),
            approach=("C", 3),
            kappa=("C",),  # ratio of sliding velocity to friction
            delta=("C", 3),  # of the impulse in the last sweep
            before=("C", 3),  # impulse after the sweep before, and its change in it
            delta_before=("C", 3),
            slopes=("C", MEMORY, 3),  # differences of the changes of successive sweeps
            steps_back=("C", MEMORY, 3),  # differences of the impulses after them
            gram=(MEMORY, MEMORY),
            gram_row=(MEMORY,),
            right=(MEMORY,),
            gamma=(MEMORY,),
            lead=("C", 3),  # y
            after=("C", 3),
            rho=("C",),
            loads=("N",),  # contacts of each body
            test=(1,),
            theta=(1,),
            least=(1,),
            scale=(1,),
            age=(1,),
            astray=(1,),
            undone=(1,),
            push=("C",),
            push_direction=("C",),
            push_delta=("C",),
            ahead=("C",),
            vel=("N", 6),
            moved=("N", 6),
            change=(1,),
            energy=(2,),  # of the change of this sweep and of the one before
            beta=(1,),
            left_sweeps=(1,),
            settled=(1,),
            done=(1,),
            reached=(1,),  # whether the tolerance is
            going_on=(1,),
            apart=(1,),
            residual=(3,),
            works=(2,),
            overlap=(1,),
            made=(1,),
        )

    # ---- what both bodies of a contact are ------------------------------------------------------------------------

    def bodies(self) -> list[Statement]:
        """The registers of the bodies of the contact in hand."""
        return [
            Lookup(name, Address("node", (Index(CONTACT), Index(None, side))), "N")
            for side, name in enumerate((FIRST, SECOND))
        ]

    def both(self, name: str) -> list[Piece]:
        """What a buffer holds of both bodies."""
        return [self.space.at(name, FIRST), self.space.at(name, SECOND)]

    def each(self, block: Statement, backwards: bool = False) -> Each:
        """A block for every contact of the list."""
        return Each(CONTACT, ACTIVE, (*self.bodies(), block), backwards)

    # ---- the problem ---------------------------------------------------------------------------------------------

    def prepare(self) -> list[Statement]:
        """Rows of the contacts of the list, and the velocities that the impulses of the step before would lead to."""
        at, each = self.space.at, self.space.each

        def rows(touch: Array, p: Array, e: Any, h: Any, *of_bodies: Array) -> list[Any]:
            centres, mobilities, start, velocities = (of_bodies[i : i + 2] for i in (0, 2, 4, 6))
            row = np.concatenate([touch[4:], touch[1:4] - centres[0], touch[1:4] - centres[1]])
            G = own_block(row, *mobilities)
            approach = relative_velocity(row, *start)
            shift = shifts(np.array([touch[0]], dtype=object), approach[:1], np.array([e], dtype=object), h)[0]
            own = [G[0, 0], G[0, 1], G[0, 2], G[1, 1], G[1, 2], G[2, 2]]
            after = pushed(row, p, mobilities, velocities)
            return [row, own, list(local(G)), [shift], approach, *after]

        reads = [*each(("touch", "impulse", "restitution"), CONTACT), at("now dt")]
        reads += [piece for name in ("centre", "mobility", "start", "vel") for piece in self.both(name)]
        writes = each(("row", "own", "local", "shift", "approach"), CONTACT)
        return [self.each(traced_block(rows, reads, [*writes, *self.both("vel")])), self.each(self._slip())]

    def _slip(self) -> Statement:
        """κ of impulses that sweeps have not found: |u_t| / |λ_t|."""
        at, each = self.space.at, self.space.each

        def slip(row: Array, p: Array, first: Array, second: Array) -> list[Any]:
            u, friction = relative_velocity(row, first, second), length(p[1], p[2])
            slides = less(0, friction)
            return [[select(slides, length(u[1], u[2]) / select(slides, friction, 1), 0)]]

        return traced_block(slip, [*each(("row", "impulse"), CONTACT), *self.both("vel")], [at("kappa", CONTACT)])

    # ---- its solution --------------------------------------------------------------------------------------------

    def solve(self) -> list[Statement]:
        """Sweeps there and back, each followed by a step that combines those before it, until the residual is small."""
        at, put, address = self.space.at, self.space.put, self.space.address
        on = traced_block(lambda done: [-done], [at("done")], [at("undone")])
        once = (on, If(address("undone"), (*self._sweep(), *self._combine())))
        return [
            put(0, at("gram"), at("age")),
            put(-1, at("done")),
            self.each(put(0, *self.space.each(("slopes", "steps back"), CONTACT))),
            Until("sweep", TURNS, address("done"), (Loop(SLOT, MEMORY, once),)),
            on,
            If(address("undone"), tuple(self._gradients())),
        ]

    def _sweep(self) -> list[Statement]:
        at, each = self.space.at, self.space.each

        def answer(
            row: Array, own: Array, at_: Array, p: Array, kappa: Any, shift: Any, mu: Any, *of_bodies: Any
        ) -> Any:
            mobilities, velocities = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            u = relative_velocity(row, *velocities)
            u[0] = u[0] + shift
            G = matrix_of(own)
            after, better = respond(Local(*at_), u - G @ p, mu, 0, kappa)
            d = after - p
            return after, better, d, G, pushed(row, d, mobilities, velocities)

        def there(*given: Any) -> list[Any]:
            after, better, d, _, moved = answer(*given)
            return [after, [better], d, *moved]

        def back(delta: Array, change: Array, energy: Array, *given: Any) -> list[Any]:
            after, better, d, G, moved = answer(*given)
            now, whole = G @ d, delta + d
            totals = [[largest([change[0], now @ now])], [energy[0] + whole @ (G @ whole), energy[1]]]
            return [after, [better], whole, *moved, *totals]

        def judge(change: Array, energy: Array, left: Array, made: Array, age: Array, tolerance: Any) -> list[Any]:
            enough = select(less(made[0], FIRST_SWEEPS), FINE * tolerance, tolerance)
            busy = less(enough * enough, change[0])
            settled = select(busy, select(less(left[0], 4), 1, -1), 1)
            least = select(less(0, age[0]), energy[1], energy[0])
            lost = less(LOST * least, energy[0])
            return [
                [settled],
                [-settled],
                [select(lost, 1, -1)],
                [0, select(less(energy[0], least), energy[0], least)],
                [left[0] - 2],
                [made[0] + 2],
            ]

        reads = [*each(("row", "own", "local", "impulse", "kappa", "shift", "friction"), CONTACT)]
        reads += [*self.both("mobility"), *self.both("vel")]
        writes = [*each(("impulse", "kappa", "delta"), CONTACT), *self.both("vel")]
        totals, counts = [at("change"), at("energy")], [at("left sweeps"), at("made")]
        told = traced_block(
            judge,
            [*totals, *counts, at("age"), at("tolerance")],
            [at("settled"), at("going on"), at("astray"), at("energy"), *counts],
        )
        return [
            self.space.put(0, at("change")),
            self.each(traced_block(there, reads, writes)),
            self.each(traced_block(back, [at("delta", CONTACT), *totals, *reads], [*writes, *totals]), backwards=True),
            told,
        ]

    def _combine(self) -> list[Statement]:
        """Where sweeps have settled, a look at the residual; where not, the next start from the last few of them."""
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def remember(p: Array, d: Array, before: Array, d_before: Array, age: Array) -> list[Any]:
            known = less(0, age[0])
            return [
                [select(known, x - y, 0) for x, y in zip(d, d_before, strict=True)],
                [select(known, x - y, 0) for x, y in zip(p, before, strict=True)],
                p,
                d,
            ]

        def products(slopes: Array, last: Array, d: Array, own: Array, row: Array, right: Array) -> list[Any]:
            weight = (own[0] + own[3] + own[5]) / 3
            a, b = weight * last, weight * d
            return [
                [x + slope @ a for x, slope in zip(row, slopes, strict=True)],
                [x + slope @ b for x, slope in zip(right, slopes, strict=True)],
            ]

        def further(row: Array, p: Array, back: Array, mu: Any, gamma: Array, *of_bodies: Any) -> list[Any]:
            mobilities, velocities = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            ahead = brought_inside(p - gamma @ back, mu, 0)
            return [ahead, *pushed(row, ahead - p, mobilities, velocities)]

        def slot(name: str) -> Piece:
            return Piece((3,), tuple(Address(name, (Index(CONTACT), Index(SLOT), Index(None, i))) for i in range(3)))

        keep = traced_block(
            remember,
            [*each(("impulse", "delta", "before", "delta before"), CONTACT), at("age")],
            [slot("slopes"), slot("steps back"), *each(("before", "delta before"), CONTACT)],
        )
        sums = [at("gram row"), at("right")]
        multiply = traced_block(
            products,
            [at("slopes", CONTACT), slot("slopes"), *each(("delta", "own"), CONTACT), *sums],
            sums,
        )
        column = Piece((MEMORY,), tuple(Address("gram", (Index(None, i), Index(SLOT))) for i in range(MEMORY)))
        insert = traced_block(lambda row: [row, row], [at("gram row")], [at("gram", SLOT), column])
        weigh = traced_block(
            lambda gram, right, age: [_least_squares(gram, right), [age[0] + 1]],
            [at("gram"), at("right"), at("age")],
            [at("gamma"), at("age")],
        )
        step = traced_block(
            further,
            [
                *each(("row", "impulse", "steps back", "friction"), CONTACT),
                at("gamma"),
                *self.both("mobility"),
                *self.both("vel"),
            ],
            [at("impulse", CONTACT), *self.both("vel")],
        )
        forget = (
            put(0, at("gram"), at("age")),
            self.each(put(0, *each(("slopes", "steps back"), CONTACT))),
        )
        going_on = (
            If(address("astray"), forget),
            put(0, *sums),
            Each(CONTACT, ACTIVE, (keep, multiply)),
            insert,
            weigh,
            self.each(step),
        )
        look = (*self.measure(), self._end())
        return [If(address("settled"), look), If(address("going on"), going_on)]

    # ---- where sweeps go round in circles ------------------------------------------------------------------------

    def _gradients(self) -> list[Statement]:
        """Accelerated projected gradients, λ ← Π_K(y − ρ (u + s(u))), until the residual is small enough.

        y is ahead of λ by Nesterov's momentum, which is given up where it leads uphill (O'Donoghue and Candès 2015,
        *Adaptive restart for accelerated gradient schemes*). ``vel`` are the velocities at y. The step ρ is safe where
        each body has its mass split among its contacts: G ≤ n₁ G₁ + n₂ G₂, contact by contact.
        """
        at, each, put, address = self.space.at, self.space.each, self.space.put, self.space.address

        def count(n: Any, m: Any) -> list[Any]:
            return [[n + 1], [m + 1]]

        def lengths(row: Array, p: Array, first: Array, second: Array, n: Any, m: Any) -> list[Any]:
            nothing = np.zeros(7, dtype=object)
            D = n * own_block(row, first, nothing) + m * own_block(row, nothing, second)
            most = largest([sum(abs(x) for x in line) for line in D])
            return [[BOLD / select(less(0, most), most, 1)], p]

        def project(
            row: Array, own: Array, p: Array, y: Array, rho: Any, mu: Any, shift: Any, scale: Array, *rest: Any
        ) -> list[Any]:
            change, test, first, second = rest
            u = relative_velocity(row, first, second)
            u[0] = u[0] + shift
            step = scale[0] * rho
            after = project_on_cone(y - step * corrected(u, mu), mu)
            d = y - after
            mobility = (own[0] + own[3] + own[5]) / 3
            return [
                after,
                [largest([change[0], d @ d * mobility * mobility])],
                [test[0] + (d @ (after - p)) / rho],
            ]

        def judge(change: Array, test: Array, theta: Array, least: Array, scale: Array, *rest: Any) -> list[Any]:
            left, made, tolerance = rest
            settled = select(less(tolerance * tolerance, change[0]), select(less(left[0], 2), 1, -1), 1)
            uphill = less(0, test[0])
            before = select(uphill, 1, theta[0])
            after = (1 + sqrt(1 + 4 * before * before)) / 2
            grown = less(LOST * LOST * least[0], change[0])
            lowest = select(less(change[0], least[0]), change[0], least[0])
            return [
                [settled],
                [select(less(0, settled), 0, (before - 1) / after)],
                [after],
                [select(grown, change[0], lowest)],
                [select(grown, CAUTION * scale[0], scale[0])],
                [left[0] - 1],
                [made[0] + 1],
            ]

        def ahead(row: Array, p: Array, y: Array, after: Array, beta: Array, *of_bodies: Any) -> list[Any]:
            mobilities, velocities = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            next_ = after + beta[0] * (after - p)
            return [after, next_, *pushed(row, next_ - y, mobilities, velocities)]

        counts = self.both("loads")
        begin = traced_block(
            lengths,
            [*each(("row", "impulse"), CONTACT), *self.both("mobility"), *counts],
            each(("rho", "lead"), CONTACT),
        )
        totals = [at("change"), at("test")]
        find = traced_block(
            project,
            [
                *each(("row", "own", "impulse", "lead", "rho", "friction", "shift"), CONTACT),
                at("scale"),
                *totals,
                *self.both("vel"),
            ],
            [at("after", CONTACT), *totals],
        )
        told = [at("beta"), at("theta"), at("least"), at("scale"), at("left sweeps"), at("made")]
        decide = traced_block(
            judge,
            [*totals, *told[1:], at("tolerance")],
            [at("settled"), *told],
        )
        move = traced_block(
            ahead,
            [
                *each(("row", "impulse", "lead", "after"), CONTACT),
                at("beta"),
                *self.both("mobility"),
                *self.both("vel"),
            ],
            [*each(("impulse", "lead"), CONTACT), *self.both("vel")],
        )
        # momentum begins anew where a look at the residual has shown that it is not small yet
        look = (*self.measure(), self._end(), put(1, at("theta")))
        iteration = (put(0, *totals), self.each(find), decide, self.each(move), If(address("settled"), look))
        return [
            Loop("loaded", "N", (put(0, at("loads", "loaded")),)),
            self.each(traced_block(count, counts, counts)),
            self.each(begin),
            put(1, at("theta"), at("scale")),
            put(NO_CHANGE, at("least")),
            Until("gradient", MOST_SWEEPS, address("done"), iteration),
        ]

    def _end(self) -> Statement:
        """The residual is not small yet, but no more sweeps are allowed."""
        at = self.space.at
        return traced_block(
            lambda done, left: [[select(less(left[0], 1), 1, done[0])], done, -done],
            [at("done"), at("left sweeps")],
            [at("done"), at("reached"), at("going on")],
        )

    def measure(self) -> list[Statement]:
        """The residual of the list, whether it is small enough, and its work."""
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

        def decide(squares: Array, tolerance: Any) -> list[Any]:
            residual = [sqrt(squares[0]), sqrt(squares[1]), squares[2]]
            return [residual, [select(less(tolerance, residual[1]), -1, 1)]]

        totals = each(("residual", "works"))
        reads = [*each(("row", "own", "impulse", "friction", "shift", "approach"), CONTACT), *totals, *self.both("vel")]
        return [
            self.space.put(0, *totals),
            self.each(traced_block(look, reads, totals)),
            traced_block(decide, [at("residual"), at("tolerance")], [at("residual"), at("done")]),
        ]

    # ---- positions -----------------------------------------------------------------------------------------------

    def move_apart(self) -> list[Statement]:
        """π with 0 ≤ π ⟂ gap + h u + G π ≥ 0 along the normals, as displacements ``moved`` of the bodies.

        Sweeps are steps of a nonlinear conjugate gradient method (Silcowitz-Hansen, Niebe and Erleben 2010), which
        suits a problem without friction: the next direction is β p + d, β the ratio of the energies of two successive
        changes d, and where it exceeds 1 the directions are forgotten. Velocities are left alone. Sweeps end where none
        of them moves a contact farther than ``overlap tolerance``.
        """
        at, each, put = self.space.at, self.space.each, self.space.put

        def begin(touch: Array, row: Array, h: Any, first: Array, second: Array, overlap: Array) -> list[Any]:
            ahead = largest([touch[0] + h * relative_velocity(row, first, second)[0], -h * RELAXATION_SPEED])
            return [[ahead], [0], [0], [largest([overlap[0], -ahead])]]

        def improve(row: Array, own: Array, at_: Array, ahead: Any, push: Any, change: Array, *rest: Any) -> list[Any]:
            energy, *of_bodies = rest
            mobilities, moved = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            gap = ahead + relative_velocity(row, *moved)[0]
            after = largest([push - gap * at_[0], 0])
            d = after - push
            way = abs(d * own[0])
            along = np.array([d, 0, 0], dtype=object)
            totals = [[largest([change[0], way])], [energy[0] + d * d * own[0], energy[1]]]
            return [[after], [d], *totals, *pushed(row, along, mobilities, moved)]

        def judge(change: Array, energy: Array, left: Array, smallest: Any) -> list[Any]:
            grows = less(energy[1], energy[0])
            beta = select(grows, 0, energy[0] / select(less(0, energy[1]), energy[1], 1))
            settled = select(less(smallest, change[0]), select(less(left[0], 2), 1, -1), 1)
            return [[settled], [-settled], [select(less(0, energy[1]), beta, 0)], [0, energy[0]], [left[0] - 1]]

        def further(row: Array, push: Any, d: Any, direction: Any, beta: Array, *of_bodies: Any) -> list[Any]:
            mobilities, moved = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            ahead = largest([push + beta[0] * direction, 0])
            along = np.array([ahead - push, 0, 0], dtype=object)
            return [[ahead], [beta[0] * direction + d], *pushed(row, along, mobilities, moved)]

        first = traced_block(
            begin,
            [*each(("touch", "row"), CONTACT), at("now dt"), *self.both("vel"), at("overlap")],
            [*each(("ahead", "push", "push direction"), CONTACT), at("overlap")],
        )
        totals = [at("change"), at("energy")]
        better = traced_block(
            improve,
            [
                *each(("row", "own", "local", "ahead", "push"), CONTACT),
                *totals,
                *self.both("mobility"),
                *self.both("moved"),
            ],
            [*each(("push", "push delta"), CONTACT), *totals, *self.both("moved")],
        )
        on = traced_block(
            further,
            [
                *each(("row", "push", "push delta", "push direction"), CONTACT),
                at("beta"),
                *self.both("mobility"),
                *self.both("moved"),
            ],
            [*each(("push", "push direction"), CONTACT), *self.both("moved")],
        )
        told = traced_block(
            judge,
            [*totals, at("left sweeps"), at("overlap tolerance")],
            [at("done"), at("going on"), at("beta"), at("energy"), at("left sweeps")],
        )
        sweeps = (
            put(0, at("change")),
            self.each(better),
            told,
            If(self.space.address("going on"), (self.each(on),)),
        )
        needed = traced_block(
            lambda overlap, smallest: [[select(less(smallest, overlap[0]), 1, -1)], [-1], [0, 0], [SCENE_CORRECTIONS]],
            [at("overlap"), at("overlap tolerance")],
            [at("apart"), at("done"), at("energy"), at("left sweeps")],
        )
        iterate = Until("correction", SCENE_CORRECTIONS, self.space.address("done"), sweeps)
        return [put(0, at("overlap")), self.each(first), needed, If(self.space.address("apart"), (iterate,))]
