"""The last resort: an interior-point method for the contact problem, for plain numbers.

    w = G λ + g + s(w),      λ ∈ L,  w ∈ L,  λ ∘ w = ν 1,      ν → 0

in variables in which every cone is the Lorentz cone L: (μ λₙ, λ_t) / √m and √m (wₙ / μ, w_t), with the mass m of the
block. So the diagonal of G is of the order of one, whatever the masses. De Saxcé's s = (|w_t|, 0, 0) is part of the
equations, with its derivative: each step solves one linear system, ((1 + S) G + W²) Δλ = r, in Nesterov and Todd's
scaling W and with Mehrotra's predictor and corrector.

W² is positive, so the system can be solved where G is singular (forces that are not unique) or badly conditioned (a
heavy body on light ones), which is where sweeps and Newton's method give up. Of the solutions it finds one in the
middle. A block without friction keeps its normal row only; the dry friction of a joint keeps its tangents, its λₙ being
the radius of the disc.

The problem is not monotone, and a start may lead nowhere: the caller may try another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.complementarity import Problem
from whippletree.contact.lorentz import Scaling, determinant, product, quotient, unit, way_to_boundary
from whippletree.contact.newton import block_masses
from whippletree.spatial import Array

ROUNDS = 60
"""Steps at most."""

INWARDS = 0.99
"""Share of the way to the boundary of a cone that a step takes."""

STALLED = 1e-8
"""A step of a smaller share leads nowhere."""


class Start(NamedTuple):
    """How high in its cone each block begins, as multiples of the largest entry of √m g."""

    impulse: float
    velocity: float


def interior_point(problem: Problem, start: Start, judge: Callable[[Array], bool]) -> tuple[Array, int]:
    """The last impulses (k, 3) that were judged, and the number of steps.

    Args:
        problem: k > 0 blocks of plain numbers, g not zero.
        start: where to begin, in the middle of each cone.
        judge: told the impulses of every step; says whether they will do.
    """
    path = _Path(problem, start)
    impulse = path.impulse
    for made in range(ROUNDS):
        # a point that is lost shows in determinants that are not positive
        with np.errstate(all="ignore"):
            if judge(impulse) or not path.advance():
                return impulse, made
        impulse = path.impulse
    return impulse, ROUNDS


class _Path:
    """A point on the way: λ and w (k, 3), strictly inside their cones."""

    def __init__(self, problem: Problem, start: Start) -> None:
        k = problem.blocks
        friction, cap = np.asarray(problem.friction, dtype=float), np.asarray(problem.cap, dtype=float)
        disc, smooth = cap > 0, (friction <= 0) & (cap <= 0)
        self.rubs = ~disc & ~smooth
        root = np.sqrt(block_masses(problem))
        scale = np.stack([root / np.where(self.rubs, friction, 1.0), root, root], axis=1)
        scale[disc, 0] = 0.0  # a disc's λₙ is its radius, no impulse
        g = scale * np.asarray(problem.g, dtype=float)
        size = float(np.abs(g).max())
        self.g, self.unscaled = g / size, scale * size
        self.G = (scale[:, :, None, None] * np.asarray(problem.G, dtype=float) * scale).reshape(3 * k, 3 * k)
        # which of λ are unknown, and which of w are not zero throughout
        self.unknown = np.ones((k, 3), dtype=bool)
        self.unknown[disc, 0] = self.unknown[smooth, 1:] = False
        self.moving = self.unknown | disc[:, None]
        self.rows = np.flatnonzero(self.unknown)
        self.one = unit(k)
        self.impulses, self.velocities = start.impulse * self.one, start.velocity * self.one
        self.impulses[disc, 0] = cap[disc] / (root[disc] * size)

    @property
    def impulse(self) -> Array:
        """λ as the problem has it, N s."""
        return np.asarray(self.unscaled * self.impulses)

    def advance(self) -> bool:
        """One step; whether it led anywhere."""
        x, w, one = self.impulses, self.velocities, self.one
        W = Scaling.of(x, w)
        gap = float((x * w).sum()) / len(x)
        system = _System(self, W)
        if not system.solvable:
            return False
        square = product(system.scaled, system.scaled)
        predicted = system.direction(-square)
        share = min(1.0, self._share(*predicted))
        left = float(((x + share * predicted[0]) * (w + share * predicted[1])).sum()) / len(x)
        centring = min(max(left / gap, 0.0) ** 3, 1.0)
        second = product(_times(W.inverse, predicted[1]), _times(W.matrix, predicted[0]))
        step = system.direction(centring * gap * one - square - second)
        share = min(1.0, INWARDS * self._share(*step))
        self.impulses, self.velocities = x + share * step[0], w + share * step[1]
        inside = determinant(self.impulses).min() > 0 and determinant(self.velocities).min() > 0
        return bool(inside and share > STALLED)

    def _share(self, impulses: Array, velocities: Array) -> float:
        return min(way_to_boundary(self.impulses, impulses), way_to_boundary(self.velocities, velocities))


class _System:
    """The linear system of a step, factored once for predictor and corrector."""

    def __init__(self, path: _Path, W: Scaling) -> None:
        from scipy.linalg import get_lapack_funcs

        self.path, self.W = path, W
        self.scaled = _times(W.matrix, path.impulses)  # = W⁻¹ w
        self.square = W.matrix @ W.matrix
        k, w = len(path.g), path.velocities
        side = np.hypot(w[:, 1], w[:, 2])
        # along the slip: S has these in its first row
        slip = w[:, 1:] / np.where(side > 0, side, 1.0)[:, None] * path.rubs[:, None]
        residual = (path.G @ path.impulses.ravel()).reshape(k, 3) + path.g - w
        residual[:, 0] += np.where(path.rubs, side, 0.0)
        residual[:, 0] += (slip * residual[:, 1:]).sum(axis=1)
        self.residual = residual
        matrix = path.G.reshape(k, 3, 3 * k).copy()
        matrix[:, 0] += np.einsum("ki,kij->kj", slip, matrix[:, 1:])
        matrix.reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)] += self.square
        factor, self._solve = get_lapack_funcs(("getrf", "getrs"), dtype=float)
        self._factor, self._pivots, fault = factor(matrix.reshape(3 * k, 3 * k)[np.ix_(path.rows, path.rows)])
        self.solvable = fault == 0

    def direction(self, target: Array) -> tuple[Array, Array]:
        """Δλ and Δw (k, 3) with W Δλ + W⁻¹ Δw = target / (W λ) and Δw = (1 + S) (G Δλ + residual)."""
        path = self.path
        aim = _times(self.W.matrix, quotient(target, self.scaled))
        impulses = np.zeros(aim.size)
        impulses[path.rows], _ = self._solve(self._factor, self._pivots, (aim - self.residual).ravel()[path.rows])
        change = impulses.reshape(aim.shape)
        return change, np.where(path.moving, aim - _times(self.square, change), 0.0)


def _times(matrices: Array, x: Array) -> Any:
    """Each matrix (k, 3, 3) times its vector (k, 3)."""
    return np.einsum("kij,kj->ki", matrices, x)
