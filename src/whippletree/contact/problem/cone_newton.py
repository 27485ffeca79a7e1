"""Where sweeps creep: Newton's method on the contact problem, for plain numbers.

Sweeps carry an impulse from block to block, so that a tall stack, or a heavy body on light ones, needs thousands of
them. A semismooth Newton method on Alart and Curnier's form of Coulomb's law sees the whole matrix at once:

    F(λ) = λ − P(λ − m u(λ)),   P: λₙ to [0, ∞), λ_t to the disc of radius μ (λₙ − m uₙ)⁺ + cap

with ρ (λₙ − m uₙ)⁺ of the contact that presses on it in the radius of a moment. Its zeros are the solutions of the
problem. Where forces are not unique (hyperstatic scenes), F′ is singular: the steps are damped by a share of each
block's own diagonal, which changes the way and not the goal. As in Levenberg and Marquardt's method the share falls
tenfold with every full step that is taken, grows tenfold where one had to be shortened, and is never above |F| / |m g|,
the residual against that of no impulses at all. So it goes to zero with the residual, and convergence stays quadratic
where solutions are not isolated. (A fixed share would not do: what is softer than it, as a heavy body on light ones,
would converge at a snail's pace.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.problem.contact_problem import ContactProblem
from whippletree.contact.problem.delassus import DelassusSystem, HostLinks, own_blocks, part

BLOCK_DAMPING = 1e-5
"""Largest share of its own diagonal by which a block is damped in a Newton step, and the first."""

EASING = 10.0
"""Factor by which the damping changes from step to step."""

SHORTEST = 2.0**-8
"""Shortest share of a Newton step that is tried."""

DESCENT = 1e-3
"""Share of the residual that a full Newton step must at least take away."""

NEWTON_ROUNDS = 25
"""Newton steps on one problem."""


def block_masses(problem: ContactProblem) -> Array:
    """The mass (k,) that makes each block's velocities comparable with its impulses; 1 where nothing moves it."""
    traces = np.einsum("kii->k", own_blocks(problem.matrix))
    return np.where(traces > 0, 3 / np.where(traces > 0, traces, 1.0), 1.0)


def newton(problem: ContactProblem, impulse: Array, tolerance: float) -> tuple[Array, int, bool]:
    """Newton steps with a line search on |F|: impulses, how many steps, and whether F is within the tolerance, m/s."""
    curve = _Curve(problem)
    x = np.array(impulse, dtype=float)
    F, P = curve.residual(x)
    damping = BLOCK_DAMPING
    for made in range(NEWTON_ROUNDS):
        if curve.largest(F) <= tolerance:
            return x, made, True
        size, share = curve.norm(F), 1.0
        step = curve.step(F, P, min(damping, size / curve.size) if curve.size > 0 else damping)
        while share >= SHORTEST:
            trial = x + share * step
            F, P = curve.residual(trial)
            if curve.norm(F) < (1 - DESCENT * share) * size:
                break
            share /= 2
        else:
            return x, made, False
        x = trial
        damping = damping / EASING if share == 1 else min(damping * EASING, BLOCK_DAMPING)
    return x, NEWTON_ROUNDS, curve.largest(F) <= tolerance


class _Slopes(NamedTuple):
    """The derivative of the projection P."""

    own: Array
    """Derivative of each block by its own z, (k, 3, 3)."""
    of_load: Array
    """Derivative of the tangents of moments that slip by the normal z of the contact that presses on them, (k, 2)."""


class _Curve:
    """F and its derivative for one problem."""

    def __init__(self, problem: ContactProblem) -> None:
        self.problem = problem
        self.k = problem.blocks
        self.G = problem.matrix
        self.mass = block_masses(problem)
        self.size = float(np.linalg.norm(np.asarray(problem.g, dtype=float)))
        """|g|, m/s: the norm of F / m without impulses, had every contact to stop."""

    def residual(self, x: Array) -> tuple[Array, _Slopes]:
        """F (k, 3) and the derivative of the projection P at λ − m u."""
        z = x - self.mass[:, None] * self.problem.velocity(x)
        P = np.zeros((self.k, 3, 3))
        height = np.maximum(z[:, 0], 0.0)
        P[:, 0, 0] = closed = (z[:, 0] > 0).astype(float)
        radius = self.problem.friction * height + self.problem.radii(z)
        side = np.hypot(z[:, 1], z[:, 2])
        slides = side > radius
        unit = z[:, 1:] / np.where(side > 0, side, 1.0)[:, None]
        share = np.where(slides, radius / np.where(slides, side, 1.0), 1.0)
        along = np.einsum("ki,kj->kij", unit, unit) * slides[:, None, None]
        P[:, 1:, 1:] = share[:, None, None] * (np.eye(2) - along)
        P[:, 1:, 0] = (self.problem.friction * closed * slides)[:, None] * unit
        onto = np.concatenate([height[:, None], share[:, None] * z[:, 1:]], axis=1)
        moments = self.problem.moments
        per_load = 0.0 if moments is None else moments.share * closed[moments.host] * slides
        return x - onto, _Slopes(P, np.reshape(per_load, (-1, 1)) * unit)

    def largest(self, F: Array) -> float:
        """The largest of the blocks' residuals as a velocity, m/s."""
        return float(np.linalg.norm(F / self.mass[:, None], axis=1).max(initial=0.0))

    def norm(self, F: Array) -> float:
        """Measure that the line search brings down, m/s."""
        return float(np.linalg.norm(F / self.mass[:, None]))

    def step(self, F: Array, slopes: _Slopes, damping: float) -> Array:
        """−F′⁻¹ F with F′ = 1 − P′ (1 − m G), damped; blocks that P sends to zero decide for themselves."""
        step = -F
        moves = np.asarray(slopes.own.any(axis=(1, 2)) | slopes.of_load.any(axis=1))
        busy = np.flatnonzero(moves)
        if not len(busy):
            return step
        own = slopes.own[busy]
        weighted = own * self.mass[busy, None, None]
        pushed = (self.G @ np.where(moves[:, None], 0.0, step).ravel()).reshape(-1, 3)[busy]
        right = -F[busy] - (weighted @ pushed[:, :, None])[:, :, 0]
        links = self._links_of_moments(slopes.of_load, busy, damping)
        if links is not None:
            right[links.block] -= links.left * pushed[links.host, :1]
        system = DelassusSystem(part(self.G, busy), weighted, np.eye(3) - (1 - damping) * own, links=links)
        step[busy] = _solve_least_norm(system, right.ravel()).reshape(-1, 3)
        return step

    def _links_of_moments(self, of_load: Array, busy: Array, damping: float) -> HostLinks | None:
        """Radii of moments follow the contacts that press on them; those are busy, or they would not press."""
        if self.problem.moments is None:
            return None
        place = np.zeros(self.k, dtype=int)
        place[busy] = np.arange(len(busy))
        followers = np.flatnonzero(of_load.any(axis=1))
        hosts = self.problem.moments.host[followers]
        columns = np.concatenate([np.zeros((len(followers), 1)), of_load[followers]], axis=1)
        left = columns * self.mass[hosts, None]
        return HostLinks(place[followers], place[hosts], left, -(1 - damping) * columns)


def _solve_least_norm(system: DelassusSystem, right: Array) -> Any:
    """The solution, of least norm where there are many; NaN, which no line search takes, where numbers overflow.

    NaN also for a sparse system: its matrix is that of x and y, whose least norm is another one.
    """
    if system.solvable:
        return system.solve(right)
    dense = isinstance(system.matrix, np.ndarray)
    finite = dense and np.isfinite(system.matrix).all() and np.isfinite(right).all()
    return np.linalg.lstsq(system.matrix, right, rcond=None)[0] if finite else np.full_like(right, np.nan)
