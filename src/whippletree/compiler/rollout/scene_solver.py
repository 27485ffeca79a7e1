"""The contact problem of a scene of many free bodies, solved inside a kernel and matrix-free.

The problem is that of :mod:`whippletree.contact.problem.contact_problem`. What all impulses do is kept as the
velocities of the bodies, V = V_free + M⁻¹ Jᵀ λ, so that a contact's velocity is J V, of two bodies alone, and a sweep
costs what the list is long, whatever the number of bodies.

Sweeps are the steps of a nonlinear conjugate gradient method (Silcowitz-Hansen, Niebe and Erleben 2010, *A nonsmooth
nonlinear conjugate gradient method for interactive contact force problems*): the change d of a sweep is the gradient of
what it would be for a linear problem, and the next direction is β p + d with β = |d|² / |d before|². Here |d|² is the
energy d · G_own d, so that heavy and light bodies count alike. Where β exceeds 1 the directions are forgotten. Whatever
the directions are, a fixed point of the sweep solves the problem as stated, and impulses are inside their cones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Address, Each, If, Index, Lookup, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import brought_inside, largest, length
from whippletree.contact.problem.contact_problem import Local, block_measure, local, respond
from whippletree.contact.time_step import RELAXATION_SPEED, shifts
from whippletree.spatial import add_cross, cross

ACTIVE, CONTACT = "active", "contact"
"""The list of contacts that may matter in a step, and the register of one of them."""

MOST_SWEEPS = 1_000_000
"""Sweeps of a solution at most; a call says how many it allows."""

FIRST_SWEEPS, FINE = 3, 1e-2
"""The first sweeps of a step go on until they change so small a share of the tolerance: a scene at rest, whose impulses
are those of the step before, comes to rest to rounding in a few steps."""

CORRECTION_SWEEPS = 300
"""Sweeps that move apart what would overlap, at most."""

FIRST, SECOND = "first body", "second body"
LOCAL = len(Local._fields)
ROW = 15
"""Numbers of a contact's rows: its axes (3, 3), and its point from both centres of mass."""


def relative_velocity(row: Array, first: Array, second: Array) -> Array:
    """J V (3,): of the material points of two bodies that move with (ω, velocity of the centre of mass)."""
    axes, arm, other = row[:9].reshape(3, 3), row[9:12], row[12:]
    ours, theirs = add_cross(first[3:], first[:3], arm), add_cross(second[3:], second[:3], other)
    return np.asarray(axes @ (ours - theirs))


def pushed(row: Array, impulse: Array, bodies: tuple[Array, Array], velocities: tuple[Array, Array]) -> list[Array]:
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
            direction=("C", 3),
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

    def each(self, block: Statement) -> Each:
        """A block for every contact of the list."""
        return Each(CONTACT, ACTIVE, (*self.bodies(), block))

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
            return [row, own, list(local(G)), [shift], approach, [0] * 3, *after]

        reads = [*each(("touch", "impulse", "restitution"), CONTACT), at("now dt")]
        reads += [piece for name in ("centre", "mobility", "start", "vel") for piece in self.both(name)]
        writes = each(("row", "own", "local", "shift", "approach", "direction"), CONTACT)
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
        """Sweeps, each followed by a step along the directions of those before, until the residual is small enough."""
        at, put = self.space.at, self.space.put
        return [
            put(0, at("energy")),
            put(-1, at("done")),
            Until("sweep", MOST_SWEEPS, self.space.address("done"), (*self._sweep(), *self._conjugate())),
        ]

    def _sweep(self) -> list[Statement]:
        at, each = self.space.at, self.space.each

        def improve(row: Array, own: Array, at_: Array, p: Array, kappa: Any, *rest: Any) -> list[Any]:
            shift, mu, change, energy, *of_bodies = rest
            mobilities, velocities = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            u = relative_velocity(row, *velocities)
            u[0] = u[0] + shift
            G = matrix_of(own)
            after, better = respond(Local(*at_), u - G @ p, mu, 0, kappa)
            d = after - p
            moved = G @ d
            return [
                after,
                [better],
                d,
                [largest([change[0], moved @ moved])],
                [energy[0] + d @ moved, energy[1]],
                *pushed(row, d, mobilities, velocities),
            ]

        def judge(change: Array, energy: Array, left: Array, made: Array, tolerance: Any) -> list[Any]:
            enough = select(less(made[0], FIRST_SWEEPS), FINE * tolerance, tolerance)
            busy = less(enough * enough, change[0])
            last = less(left[0], 2)
            grows = less(energy[1], energy[0])
            beta = select(grows, 0, energy[0] / select(less(0, energy[1]), energy[1], 1))
            first = less(0, energy[1])
            return [
                [select(busy, select(last, 1, -1), 1)],
                [select(first, beta, 0)],
                [0, energy[0]],
                [left[0] - 1],
                [made[0] + 1],
            ]

        reads = [*each(("row", "own", "local", "impulse", "kappa", "shift", "friction"), CONTACT)]
        reads += [at("change"), at("energy"), *self.both("mobility"), *self.both("vel")]
        writes = [*each(("impulse", "kappa", "delta"), CONTACT), at("change"), at("energy"), *self.both("vel")]
        counts = [at("left sweeps"), at("made")]
        return [
            self.space.put(0, at("change")),
            self.each(traced_block(improve, reads, writes)),
            traced_block(
                judge,
                [at("change"), at("energy"), *counts, at("tolerance")],
                [at("settled"), at("beta"), at("energy"), *counts],
            ),
        ]

    def _conjugate(self) -> list[Statement]:
        """Where sweeps have not settled, a step along the directions before; where they have, a look at the residual."""
        at, each = self.space.at, self.space.each

        def further(row: Array, p: Array, d: Array, direction: Array, mu: Any, beta: Array, *of_bodies: Any) -> Any:
            mobilities, velocities = tuple(of_bodies[:2]), tuple(of_bodies[2:])
            ahead = brought_inside(p + beta[0] * direction, mu, 0)
            return [ahead, beta[0] * direction + d, *pushed(row, ahead - p, mobilities, velocities)]

        reads = [*each(("row", "impulse", "delta", "direction", "friction"), CONTACT), at("beta")]
        reads += [*self.both("mobility"), *self.both("vel")]
        writes = [*each(("impulse", "direction"), CONTACT), *self.both("vel")]
        going_on = traced_block(lambda settled: [-settled], [at("settled")], [at("going on")])
        look = (
            *self.measure(),
            # the residual is not small yet, but no more sweeps are allowed
            traced_block(
                lambda done, left: [[select(less(left[0], 1), 1, done[0])], done],
                [at("done"), at("left sweeps")],
                [at("done"), at("reached")],
            ),
        )
        return [
            If(self.space.address("settled"), look),
            going_on,
            If(self.space.address("going on"), (self.each(traced_block(further, reads, writes)),)),
        ]

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
        """π with 0 ≤ π ⟂ gap + h u + G π ≥ 0 along the normals, as displacements ``moved`` of the bodies; conjugate too.

        Velocities are left alone. Sweeps end where none of them moves a contact farther than ``overlap tolerance``.
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
            return [[after], [d], [largest([change[0], way])], [energy[0] + d * d * own[0], energy[1]]] + pushed(
                row, along, mobilities, moved
            )

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
            lambda overlap, smallest: [[select(less(smallest, overlap[0]), 1, -1)], [-1], [0, 0], [CORRECTION_SWEEPS]],
            [at("overlap"), at("overlap tolerance")],
            [at("apart"), at("done"), at("energy"), at("left sweeps")],
        )
        iterate = Until("correction", CORRECTION_SWEEPS, self.space.address("done"), sweeps)
        return [put(0, at("overlap")), self.each(first), needed, If(self.space.address("apart"), (iterate,))]
