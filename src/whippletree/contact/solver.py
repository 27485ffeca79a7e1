"""The contact problem of one scene, solved to a tolerance: three methods, each as far as it is needed. Plain numbers.

1. Sweeps from the impulses of the last step: enough for a few contacts, and for a scene that hardly changes.
2. Newton's method (:mod:`whippletree.contact.newton`) and sweeps in turn: fast where the set of contacts is nearly
   right.
3. The interior-point method (:mod:`whippletree.contact.interior`) from several starts, each time finished by Newton's:
   for scenes whose forces are not unique or whose masses differ by orders of magnitude.

All solve the problem as stated; nothing is regularised. What is returned is the best that any of them has found,
judged by the natural map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from whippletree.contact.complementarity import Measure, Problem
from whippletree.contact.interior import Start, interior_point
from whippletree.contact.newton import newton
from whippletree.spatial import Array

FIRST_LOOK = 5
"""Sweeps before the first look at the residual."""

SWEEPS = 20
"""Sweeps before Newton's method is asked, and between two times."""

ALTERNATIONS = 2
"""Times that Newton's method and sweeps take turns."""

STARTS = (Start(1.0, 1.0), Start(10.0, 1.0), Start(1e2, 1e2), Start(1e4, 1e4))
"""Where the interior-point method begins, one after the other, until one leads to the solution: impulses of the size
that stops each contact alone, and larger ones, as of bodies that are jammed."""

FINER = 0.1
"""Share of the tolerance that Newton's method aims at: its own residual and the natural map differ by such factors."""

Sweeps: TypeAlias = Callable[[Problem, Array, Array, int], tuple[Array, Array, Measure]]
"""(problem, impulse, κ, how many) → (impulse, κ, measure); no sweeps at all just measure."""


class Solution(NamedTuple):
    """Impulses, and how good they are: nobody has to believe that an iteration has converged."""

    impulse: Array
    """N s, (k, 3)."""
    measure: Measure
    sweeps: int
    newton_steps: int
    interior_steps: int
    converged: bool
    """Whether the residual is within the tolerance."""


def solve(
    problem: Problem, start: Array, sweeps: Sweeps, *, tolerance: float, starts: Sequence[Start] = STARTS
) -> Solution:
    """Impulses that solve a contact problem.

    Args:
        problem: k blocks of plain numbers.
        start: impulses (k, 3) to begin with, such as those of the last step.
        sweeps: how sweeps are made.
        tolerance: of the natural map as a velocity, m/s.
        starts: of the interior-point method; none leaves it out.
    """
    search = _Search(problem, sweeps, tolerance)
    search.sweep(np.asarray(start, dtype=float), FIRST_LOOK)
    if not search.done:
        search.sweep(search.best.impulse, SWEEPS - FIRST_LOOK)
    for _ in range(ALTERNATIONS):
        if not search.done:
            search.polish(search.best.impulse)
        if not search.done:
            search.sweep(search.best.impulse, SWEEPS)
    for middle in starts:
        if not search.done:
            search.pass_through(middle)
    best = search.best
    return Solution(best.impulse, best.measure, *search.spent, search.done)


class _Point(NamedTuple):
    impulse: Array
    measure: Measure


class _Search:
    """The best that was found so far, and what it has cost."""

    def __init__(self, problem: Problem, sweeps: Sweeps, tolerance: float) -> None:
        self.problem, self.tolerance = problem, tolerance
        self._sweeps, self._kappa = sweeps, np.zeros(problem.blocks)
        self._made, self._newton_steps, self._interior_steps = 0, 0, 0
        self.best = _Point(np.zeros((problem.blocks, 3)), Measure(np.inf, np.inf, np.inf))

    @property
    def done(self) -> bool:
        """Whether the best is good enough."""
        return bool(self.best.measure.velocity <= self.tolerance)

    @property
    def spent(self) -> tuple[int, int, int]:
        """Sweeps, Newton steps and interior-point steps."""
        return self._made, self._newton_steps, self._interior_steps

    def sweep(self, impulse: Array, count: int) -> None:
        """Some sweeps from a point."""
        impulse, self._kappa, measure = self._sweeps(self.problem, impulse, self._kappa, count)
        self._made += count
        self._note(_Point(impulse, measure))

    def polish(self, impulse: Array) -> None:
        """Newton's method from a point."""
        found, made, _ = newton(self.problem, impulse, FINER * self.tolerance)
        self._newton_steps += made
        self._judge(found)

    def pass_through(self, start: Start) -> None:
        """The interior-point method from a start, and Newton's method at its end."""
        if np.any(self.problem.g):
            impulse, made = interior_point(self.problem, start, self._judge)
            self._interior_steps += made
            self.polish(impulse)

    def _judge(self, impulse: Array) -> bool:
        """Whether these impulses, brought back to their cones, are good enough."""
        inside = clipped(self.problem, impulse)
        self._note(_Point(inside, self._sweeps(self.problem, inside, self._kappa, 0)[2]))
        return self.done

    def _note(self, point: _Point) -> None:
        if point.measure.velocity < self.best.measure.velocity:
            self.best = point


def clipped(problem: Problem, impulse: Array) -> Array:
    """Impulses (k, 3) with the normal part not below 0 and the friction shortened to what Coulomb's law allows."""
    normal = np.where(problem.cap > 0, 0.0, np.maximum(impulse[:, 0], 0.0))
    radius, side = problem.friction * normal + problem.cap, np.hypot(impulse[:, 1], impulse[:, 2])
    share = np.where(side > radius, radius / np.where(side > 0, side, 1.0), 1.0)
    return np.concatenate([normal[:, None], share[:, None] * impulse[:, 1:]], axis=1)
