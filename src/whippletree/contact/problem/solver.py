"""The contact problem of one scene, solved to a tolerance: four ways, each as far as it is needed. Plain numbers.

1. Sweeps from the impulses of the last step: enough for a few contacts, and for a scene that hardly changes. Without
   such impulses, those of least norm with which everything sticks are tried next: they are a solution where they are
   within the cones, also where forces are so far from unique that there are others.
2. Newton's method (:mod:`whippletree.contact.problem.cone_newton`) and sweeps in turn: fast where the set of contacts
   is nearly right.
3. The interior-point method (:mod:`whippletree.contact.problem.interior_point`) from several starts, each time finished
   by Newton's: for scenes whose forces are not unique or whose masses differ by orders of magnitude.
4. The same with slips held, put in and taken out a few times: for scenes that are jammed.

All solve the problem as stated; nothing is regularised. What is returned is the best that any of them has found,
judged by the natural map. What a first look has not solved falls into *islands*, contacts that act on each other
through common bodies: each is solved by itself, and those that the first look has solved are left as they are.

No impulses in double precision are the solution: u = G λ + g, of up to n products each, has rounding errors of about
√n ε (|G| |λ| + |g|), ε = 2⁻⁵³ (n ε at most; signs at random leave the root). Where masses differ by eight orders of
magnitude this is 1e-9 to 1e-6 m/s, and a smaller tolerance asks for what cannot be told. Every solution carries that
number, and a residual that is not above it is not improved any further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.lanes import lanes_of_columns, plain
from whippletree.contact.problem.cone_newton import newton
from whippletree.contact.problem.contact_problem import ContactProblem, Measure, block_measure
from whippletree.contact.problem.delassus import is_sparse, islands, least_norm, own_blocks, products, reach
from whippletree.contact.problem.interior_point import ConeStart, interior_point

FIRST_LOOK = 5
"""Sweeps before the first look at the residual."""

SWEEPS_BETWEEN = 20
"""Sweeps before Newton's method is asked, and between two times."""

SOLVER_TURNS = 2
"""Times that Newton's method and sweeps take turns."""

SWEEP_PATIENCE = 5e6
"""Products of two blocks that may be spent on sweeps before the interior-point method is asked, some 50 ms: scenes on
wheels with free axles only creep, and twenty thousand sweeps of sixteen contacts cost less than its factorisations."""

RESPONSE = 12
"""Cost of a block's answer to the others in a sweep, in products: 0.1 µs, much of a sweep over few blocks."""

STEP_OF_SWEEP, SPARSE_PRODUCT = 4000, 20
"""Cost of a step of a sweep over a sparse problem, 40 µs whatever its size, and of each block in it, in products."""

LONG_SWEEPS = (0.03, 0.22, 0.75)
"""Shares of it, after each of which the residual is looked at."""

STARTS = (ConeStart(1.0, 1.0), ConeStart(10.0, 1.0), ConeStart(1e2, 1e2), ConeStart(1e4, 1e4))
"""Where the interior-point method begins, one after the other, until one leads to the solution: impulses of the size
that stops each contact alone, and larger ones, as of bodies that are jammed."""

HELD = ConeStart(1e2, 1e2)
"""Where the interior-point method begins with slips held; the problem is convex then, and the start matters little."""

HELD_ROUNDS, HELD_BLOCKS = 100, 10_000
"""Times that slips are held, the first time at zero, and times blocks: they settle by a constant factor from round to
round, and a large problem that is not settled soon would take minutes."""

HELD_SETTLING = 10
"""Rounds within which the change of slips that are held must halve: what settles more slowly is not settled in the end.
A block in a hand, all but solved by Newton's method, took 1.7 s in which nothing came of them, and takes 0.45."""

FINER = 0.1
"""Share of the tolerance that Newton's method aims at: its own residual and the natural map differ by such factors."""

Sweeps: TypeAlias = Callable[[ContactProblem, Array, Array, int], tuple[Array, Array, Measure]]
"""(problem, impulse, κ, how many) → (impulse, κ, measure); no sweeps at all just measure."""


class ContactSolution(NamedTuple):
    """Impulses, and how good they are: nobody has to believe that an iteration has converged."""

    impulse: Array
    """N s, (k, 3)."""
    measure: Measure
    sweeps: int
    newton_steps: int
    interior_steps: int
    converged: bool
    """Whether the residual is within the tolerance."""
    rounding: float
    """√n ε (|G| |λ| + |g|), its largest entry, m/s: what rounding to double precision leaves of an exact solution."""

    @property
    def at_rounding(self) -> bool:
        """Whether the residual exceeds the tolerance, yet not what rounding leaves: a better answer would be luck."""
        return not self.converged and bool(self.measure.velocity <= self.rounding)


def solve(
    problem: ContactProblem, start: Array, sweeps: Sweeps, *, tolerance: float, starts: Sequence[ConeStart] = STARTS
) -> ContactSolution:
    """Impulses that solve a contact problem.

    Args:
        problem: k blocks of plain numbers.
        start: impulses (k, 3) to begin with, such as those of the last step.
        sweeps: how sweeps are made.
        tolerance: of the natural map as a velocity, m/s.
        starts: of the interior-point method; none leaves it out.
    """
    search = _Search(problem, sweeps, tolerance)
    search.begin(start)
    if search.done:
        return search.found
    parts = _islands(problem)
    if len(parts) <= 1:
        return _search_island(search, start, starts)
    residual = residuals(problem, search.best.impulse)
    left = [own for own in parts if residual.velocity[own].max() > tolerance]
    kept = np.setdiff1d(np.arange(problem.blocks), np.concatenate([np.arange(0), *left]))
    measure = Measure(*[float(x[kept].max(initial=0.0)) for x in residual])
    solutions = [ContactSolution(search.best.impulse[kept], measure, FIRST_LOOK, 0, 0, True, 0.0)]
    for own in left:
        island = _Search(problem.part(own), sweeps, tolerance)
        island.begin(start[own])
        solutions.append(island.found if island.done else _search_island(island, start[own], starts))
    return _join_solutions(problem, [kept, *left], solutions)


def _islands(problem: ContactProblem) -> list[Array]:
    """Numbers of the blocks that act on each other, moments together with the contacts that press on them."""
    parts = islands(problem.matrix)
    if problem.moments is None or len(parts) <= 1:
        return parts
    number = np.zeros(problem.blocks, dtype=int)
    for i, own in enumerate(parts):
        number[own] = i
    for first, second in zip(number.copy(), number[problem.moments.host], strict=True):
        one, other = number[parts[first][0]], number[parts[second][0]]
        number[number == one] = other
    return [np.flatnonzero(number == i) for i in np.unique(number)]


def _search_island(search: _Search, start: Array, starts: Sequence[ConeStart]) -> ContactSolution:
    """An island after a first look."""
    problem = search.problem
    if not np.any(start):
        search.stick()
    if not search.done:
        search.sweep(search.best.impulse, SWEEPS_BETWEEN - FIRST_LOOK)
    for _ in range(SOLVER_TURNS):
        if not search.done:
            search.polish(search.best.impulse)
        if not search.done:
            search.sweep(search.best.impulse, SWEEPS_BETWEEN)
    for share in LONG_SWEEPS:
        if starts and not search.settled:
            search.sweep(search.best.impulse, int(share * SWEEP_PATIENCE / _sweep_cost(problem)))
    for middle in starts:
        if not search.settled:
            search.pass_through(middle)
    if starts and not search.settled:
        search.hold_slips()
    return search.found


def _sweep_cost(problem: ContactProblem) -> int:
    """Products of two blocks that a sweep costs, or would cost in the same time."""
    if is_sparse(problem.G):
        contacts, parts = problem.G.touching_parts
        return STEP_OF_SWEEP * int(np.bincount(parts).max(initial=1)) + SPARSE_PRODUCT * len(contacts)
    blocks = max(problem.blocks, 1)
    return blocks * (blocks + RESPONSE)


def _join_solutions(
    problem: ContactProblem, parts: Sequence[Array], solutions: Sequence[ContactSolution]
) -> ContactSolution:
    """The solutions of the islands as one: the worst residual of all, the most sweeps, all other steps."""
    impulse = np.zeros((problem.blocks, 3))
    for own, solution in zip(parts, solutions, strict=True):
        impulse[own] = solution.impulse
    measures = np.array([solution.measure for solution in solutions], dtype=float)
    return ContactSolution(
        impulse,
        Measure(*measures.max(axis=0).tolist()),
        max(solution.sweeps for solution in solutions),
        sum(solution.newton_steps for solution in solutions),
        sum(solution.interior_steps for solution in solutions),
        all(solution.converged for solution in solutions),
        max(solution.rounding for solution in solutions),
    )


class _ContactPoint(NamedTuple):
    impulse: Array
    measure: Measure


class _Search:
    """The best that was found so far, and what it has cost."""

    def __init__(self, problem: ContactProblem, sweeps: Sweeps, tolerance: float) -> None:
        self.problem, self.tolerance = problem, tolerance
        self._sweeps, self._kappa = sweeps, np.zeros(problem.blocks)
        self._made, self._newton_steps, self._interior_steps = 0, 0, 0
        self.best = _ContactPoint(np.zeros((problem.blocks, 3)), Measure(np.inf, np.inf, np.inf))

    @property
    def done(self) -> bool:
        """Whether the best is good enough."""
        return bool(self.best.measure.velocity <= self.tolerance)

    @property
    def rounding(self) -> float:
        """Residual that rounding leaves of the best, m/s."""
        G = self.problem.matrix
        summed = reach(G, self.best.impulse.ravel()) + np.abs(self.problem.g).ravel()
        return float(np.sqrt(products(G)) * np.finfo(float).eps / 2 * summed.max(initial=0.0))

    @property
    def settled(self) -> bool:
        """Whether the best is good enough, or as good as double precision has it."""
        return self.done or bool(self.best.measure.velocity <= self.rounding)

    @property
    def found(self) -> ContactSolution:
        """The best, and what it has cost: sweeps, Newton steps and interior-point steps."""
        spent = self._made, self._newton_steps, self._interior_steps
        return ContactSolution(self.best.impulse, self.best.measure, *spent, self.done, self.rounding)

    def begin(self, impulse: Array) -> None:
        """A first look from impulses to begin with; slips that fit them have κ = |u_t| / |λ_t|."""
        impulse = np.asarray(impulse, dtype=float)
        friction = np.hypot(impulse[:, 1], impulse[:, 2])
        if friction.any():
            u, rubs = self.problem.velocity(impulse), friction > 0
            self._kappa[rubs] = np.hypot(u[rubs, 1], u[rubs, 2]) / friction[rubs]
        self.sweep(impulse, FIRST_LOOK)

    def sweep(self, impulse: Array, count: int) -> None:
        """Some sweeps from a point."""
        impulse, self._kappa, measure = self._sweeps(self.problem, impulse, self._kappa, count)
        self._made += count
        self._note(_ContactPoint(impulse, measure))

    def stick(self) -> None:
        """The impulses of least norm that bring to rest whatever would close, if friction can bear them.

        Where forces are not unique a slip may be as good a solution; what can stay at rest, does. If that is not
        enough, what neither closes nor opens is held, too: in a tower that begins to fall, all but its lowest contacts.
        """
        normal, dry, moments = self.problem.g[:, 0], self.problem.cap > 0, self.problem.moments
        rubs = (self.problem.friction > 0) | dry
        closing, touching = (normal < 0) | dry, (normal < self.tolerance) | dry
        if moments is not None:
            rubs = rubs | (moments.share > 0)
            closing, touching = (np.where(moments.share > 0, held[moments.host], held) for held in (closing, touching))
        for held in (closing, touching)[: 1 + bool(np.any(closing != touching))]:
            if not self.done:
                rows = np.flatnonzero(np.stack([held, held & rubs, held & rubs], axis=1))
                self._judge(least_norm(self.problem.matrix, -self.problem.g.ravel(), rows).reshape(-1, 3))

    def polish(self, impulse: Array) -> None:
        """Newton's method from a point."""
        found, made, _ = newton(self.problem, impulse, FINER * self.tolerance)
        self._newton_steps += made
        self._judge(found)

    def pass_through(self, start: ConeStart, slip: Array | None = None, pressing: Array | None = None) -> Array:
        """The interior-point method from a start, and Newton's method at its end; the impulses between the two.

        Args:
            start: where to begin.
            slip: speeds (k,) that are held; default: none are.
            pressing: impulses (k, 3) that bound moments; default: the best so far.
        """
        if not np.any(self.problem.g):
            return np.zeros((self.problem.blocks, 3))
        radii = self.problem.radii(self.best.impulse if pressing is None else pressing)
        impulse, made = self._pass_with_radii_held(start, slip, radii)
        self._interior_steps += made
        self.polish(impulse)
        return impulse

    def _pass_with_radii_held(self, start: ConeStart, slip: Array | None, radii: Array) -> tuple[Array, int]:
        """The interior-point method with moments bounded by given radii (k,).

        Those under no load are left out: their discs have no inside.
        """
        problem = self.problem
        if problem.moments is None:
            return interior_point(problem, start, self._judge, slip)
        kept = np.flatnonzero((problem.moments.share == 0) | (radii > 0))
        held = problem._replace(cap=radii, moments=None).part(kept)

        def every(impulse: Array) -> Array:
            found = np.zeros((problem.blocks, 3))
            found[kept] = impulse
            return found

        own = None if slip is None else slip[kept]
        impulse, made = interior_point(held, start, lambda x: self._judge(every(x)), own)
        return every(impulse), made

    def hold_slips(self) -> None:
        """The interior-point method with slips held at those that came out the last time.

        What presses on moments is the mean of what was put in and what came out: they would swing about it.
        """
        slip, pressing = np.zeros(self.problem.blocks), self.best.impulse
        changes: list[float] = []
        for _ in range(min(HELD_ROUNDS, HELD_BLOCKS // max(self.problem.blocks, 1))):
            if self.settled or (len(changes) > HELD_SETTLING and 2 * changes[-1] > changes[-1 - HELD_SETTLING]):
                break
            found = self.pass_through(HELD, slip, pressing)
            u = self.problem.velocity(found)
            before, slip, pressing = slip, np.hypot(u[:, 1], u[:, 2]), (pressing + found) / 2
            changes.append(float(np.abs(slip - before).max(initial=0.0)))

    def _judge(self, impulse: Array) -> bool:
        """Whether these impulses, brought back to their cones, are good enough."""
        inside = clip_to_cones(self.problem, impulse)
        self._note(_ContactPoint(inside, self._sweeps(self.problem, inside, self._kappa, 0)[2]))
        return self.done

    def _note(self, point: _ContactPoint) -> None:
        if point.measure.velocity < self.best.measure.velocity:
            self.best = point


def residuals(problem: ContactProblem, impulse: Array) -> Measure:
    """The measure of each block, arrays (k,)."""
    own = lanes_of_columns(own_blocks(problem.matrix).reshape(-1, 9)).reshape(3, 3)
    law = (lanes_of_columns(x[:, None])[0] for x in (problem.friction, problem.radii(impulse)))
    found = block_measure(own, lanes_of_columns(impulse), lanes_of_columns(problem.velocity(impulse)), *law)
    squared, velocity, cone = (np.broadcast_to(plain(x), problem.blocks) for x in found)
    return Measure(np.sqrt(squared), np.sqrt(velocity), cone)


def clip_to_cones(problem: ContactProblem, impulse: Array) -> Array:
    """Impulses (k, 3) with the normal part not below 0 and the friction shortened to what Coulomb's law allows."""
    normal = np.where(problem.cap > 0, 0.0, np.maximum(impulse[:, 0], 0.0))
    pressed = np.stack([normal, normal, normal], axis=1)
    radius, side = problem.friction * normal + problem.radii(pressed), np.hypot(impulse[:, 1], impulse[:, 2])
    share = np.where(side > radius, radius / np.where(side > 0, side, 1.0), 1.0)
    return np.concatenate([normal[:, None], share[:, None] * impulse[:, 1:]], axis=1)
