"""Where sweeps creep: Newton's method and the proximal point method on the contact problem, for plain numbers.

Sweeps carry an impulse from block to block, so that a tall stack, or a heavy body on light ones, needs thousands of
them. A semismooth Newton method on Alart and Curnier's form of Coulomb's law sees the whole matrix at once:

    F(λ) = λ − P(λ − m u(λ)),   P: λₙ to [0, ∞), λ_t to the disc of radius μ (λₙ − m uₙ)⁺ + cap

Its zeros are the solutions of the problem. Where forces are not unique (hyperstatic scenes), F′ is singular: the steps
are damped by a share ``DAMPING`` of each block's own diagonal, which changes the way and not the goal.

Where Newton fails too, each problem is replaced by one that is easier because it does not let the impulses go far,
u = G λ + g + ρ (λ − λ_old) / m, again and again: ρ falls where that succeeds and rises where it fails. The limit solves
the problem as stated; nothing stays regularised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.complementarity import Measure, Problem
from whippletree.spatial import Array

DAMPING = 1e-7
"""Share of its own diagonal by which a block is damped in a Newton step."""

SHORTEST = 2.0**-8
"""Shortest share of a Newton step that is tried."""

DESCENT = 1e-3
"""Share of the residual that a full Newton step must at least take away."""

NEWTON_ROUNDS = 25
"""Newton steps on one problem."""

FIRST_LOOK = 5
"""Sweeps before the first look at the residual: enough for a few contacts, and for a scene that hardly changes."""

SWEEPS = 20
"""Sweeps before Newton's method is asked."""

ALTERNATIONS = 3
"""Times that Newton's method and sweeps take turns on the problem as stated."""

INNER_SWEEPS = 10
"""Sweeps before Newton's method in a proximal problem."""

PATIENCE = 12
"""Proximal problems before a solution is returned as it is, with its residual."""

FIRST, FASTER, LARGEST = 0.1, 10.0, 10.0
"""The first ρ, the factor by which it falls and rises, and how large it may get."""

Sweeps = Callable[[Problem, Array, Array, int], tuple[Array, Array, Measure]]
"""(problem, impulse, κ, how many) → (impulse, κ, measure)."""


class Solution(NamedTuple):
    """Impulses, and how good they are: nobody has to believe that an iteration has converged."""

    impulse: Array
    """N s, (k, 3)."""
    measure: Measure
    sweeps: int
    newton_steps: int
    converged: bool
    """Whether the residual is within the tolerance."""


def solve(problem: Problem, start: Array, sweeps: Sweeps, *, tolerance: float, patience: int = PATIENCE) -> Solution:
    """Sweeps from a start (k, 3), then Newton's method, then the proximal point method, as far as each is needed.

    Args:
        problem: k blocks of plain numbers.
        start: impulses to begin with, such as those of the last step.
        sweeps: how sweeps are made.
        tolerance: of the natural map as a velocity, m/s.
        patience: proximal problems before giving up.
    """
    search = _Search(problem, sweeps, tolerance)
    now = search.swept(np.asarray(start, dtype=float), FIRST_LOOK)
    if now.measure.velocity > tolerance:
        now = search.swept(now.impulse, SWEEPS - FIRST_LOOK)
    for _ in range(ALTERNATIONS):
        if search.best.measure.velocity > tolerance:
            then, _ = search.polished(now, problem)
            # a Newton step may lead away: sweeps go on from wherever the residual is smaller
            now = search.swept(min(now, then, key=lambda point: float(point.measure.velocity)).impulse, SWEEPS)
    rho, rounds = FIRST, 0
    while search.best.measure.velocity > tolerance and rounds < patience:
        then, solved = search.proximal(now, rho)
        if solved or then.measure.velocity < now.measure.velocity:
            now = then
        rho = rho / FASTER if solved else min(rho * FASTER, LARGEST)
        rounds += 1
    best = search.best
    converged = bool(best.measure.velocity <= tolerance)
    return Solution(best.impulse, best.measure, search.sweeps_made, search.newton_steps, converged)


class _Point(NamedTuple):
    """Impulses on the way, with κ and their residual in the problem as stated."""

    impulse: Array
    kappa: Array
    measure: Measure


class _Search:
    """The best that was found so far, and what it has cost."""

    def __init__(self, problem: Problem, sweeps: Sweeps, tolerance: float) -> None:
        self.problem, self.sweeps, self.tolerance = problem, sweeps, tolerance
        self.sweeps_made, self.newton_steps = 0, 0
        self.kappa = np.zeros(problem.blocks)
        self.best = _Point(np.zeros((problem.blocks, 3)), self.kappa, Measure(np.inf, np.inf, np.inf))

    def swept(self, impulse: Array, count: int) -> _Point:
        """The point after some sweeps over the problem as stated."""
        point = _Point(*self.sweeps(self.problem, impulse, self.kappa, count))
        self.sweeps_made += count
        self.kappa = point.kappa
        if point.measure.velocity < self.best.measure.velocity:
            self.best = point
        return point

    def polished(self, point: _Point, problem: Problem) -> tuple[_Point, bool]:
        """Newton's method on a problem from a point, one sweep over the problem as stated; whether Newton was done."""
        impulse, made, solved = newton(problem, point.impulse, self.tolerance / 10)
        self.newton_steps += made
        return self.swept(impulse, 1), solved

    def proximal(self, point: _Point, rho: float) -> tuple[_Point, bool]:
        """The solution of the problem that keeps near a point."""
        near = proximal_problem(self.problem, point.impulse, rho)
        impulse, self.kappa, _ = self.sweeps(near, point.impulse, self.kappa, INNER_SWEEPS)
        self.sweeps_made += INNER_SWEEPS
        return self.polished(point._replace(impulse=impulse), near)


def proximal_problem(problem: Problem, impulse: Array, rho: float) -> Problem:
    """The problem with u = G λ + g + ρ (λ − λ_old) / m."""
    pull = rho / block_masses(problem)
    G = problem.G.copy()
    for i in range(3):
        G[np.arange(problem.blocks), i, np.arange(problem.blocks), i] += pull
    return problem._replace(G=G, g=problem.g - pull[:, None] * impulse)


def block_masses(problem: Problem) -> Array:
    """The mass (k,) that makes each block's velocities comparable with its impulses; 1 where nothing moves it."""
    traces = np.einsum("kiki->k", np.asarray(problem.G, dtype=float))
    return np.where(traces > 0, 3 / np.where(traces > 0, traces, 1.0), 1.0)


def newton(problem: Problem, impulse: Array, tolerance: float) -> tuple[Array, int, bool]:
    """Newton steps with a line search on |F|: impulses, how many steps, and whether F is within the tolerance, m/s."""
    curve = _Curve(problem)
    x = np.array(impulse, dtype=float)
    F, P = curve.residual(x)
    for made in range(NEWTON_ROUNDS):
        if curve.largest(F) <= tolerance:
            return x, made, True
        step, size, share = curve.step(F, P), curve.norm(F), 1.0
        while share >= SHORTEST:
            trial = x + share * step
            F, P = curve.residual(trial)
            if curve.norm(F) < (1 - DESCENT * share) * size:
                break
            share /= 2
        else:
            return x, made, False
        x = trial
    return x, NEWTON_ROUNDS, curve.largest(F) <= tolerance


class _Curve:
    """F and its derivative for one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.k = problem.blocks
        self.G = np.asarray(problem.G, dtype=float).reshape(3 * self.k, 3 * self.k)
        self.mass = block_masses(problem)

    def residual(self, x: Array) -> tuple[Array, Array]:
        """F (k, 3) and the derivative (k, 3, 3) of the projection P at λ − m u."""
        z = x - self.mass[:, None] * self.problem.velocity(x)
        P = np.zeros((self.k, 3, 3))
        height = np.maximum(z[:, 0], 0.0)
        P[:, 0, 0] = closed = (z[:, 0] > 0).astype(float)
        radius = self.problem.friction * height + self.problem.cap
        side = np.hypot(z[:, 1], z[:, 2])
        slides = side > radius
        unit = z[:, 1:] / np.where(side > 0, side, 1.0)[:, None]
        share = np.where(slides, radius / np.where(slides, side, 1.0), 1.0)
        along = np.einsum("ki,kj->kij", unit, unit) * slides[:, None, None]
        P[:, 1:, 1:] = share[:, None, None] * (np.eye(2) - along)
        P[:, 1:, 0] = (self.problem.friction * closed * slides)[:, None] * unit
        onto = np.concatenate([height[:, None], share[:, None] * z[:, 1:]], axis=1)
        return x - onto, P

    def largest(self, F: Array) -> float:
        """The largest of the blocks' residuals as a velocity, m/s."""
        return float(np.linalg.norm(F / self.mass[:, None], axis=1).max(initial=0.0))

    def norm(self, F: Array) -> float:
        """What the line search brings down, m/s."""
        return float(np.linalg.norm(F / self.mass[:, None]))

    def step(self, F: Array, P: Array) -> Array:
        """−F′⁻¹ F with F′ = 1 − P (1 − m G), damped; blocks that P sends to zero decide for themselves."""
        step = -F
        busy = np.flatnonzero(np.any(P, axis=(1, 2)))
        idle = np.setdiff1d(np.arange(self.k), busy)
        rows = (3 * busy[:, None] + np.arange(3)).ravel()
        others = (3 * idle[:, None] + np.arange(3)).ravel()
        weighted = P[busy] * self.mass[busy, None, None]
        reach = np.einsum("kij,kjl->kil", weighted, self.G[rows].reshape(len(busy), 3, -1)).reshape(len(rows), -1)
        matrix = reach[:, rows]
        for i, own in enumerate(P[busy]):
            part = slice(3 * i, 3 * i + 3)
            matrix[part, part] += np.eye(3) - own + DAMPING * own
        right = -F[busy].ravel() - reach[:, others] @ step[idle].ravel()
        step[busy] = _solved(matrix, right).reshape(-1, 3)
        return step


def _solved(matrix: Array, right: Array) -> Any:
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, right, rcond=None)[0]
