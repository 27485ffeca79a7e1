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

The problem is not monotone, and a start may lead nowhere: the caller may try another one. With the slip |w_t| in s held
at given speeds it is monotone: the optimality conditions of a convex problem, which are solved from any start if they
can be solved at all. That is another way to the solution: slips that are put in and come out again are those of
Coulomb's law, and where everything is jammed none at all are right at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.lanes import lanes_of_columns
from whippletree.contact.problem.cone_newton import block_masses
from whippletree.contact.problem.contact_problem import ContactProblem
from whippletree.contact.problem.delassus import DelassusSystem, scale_delassus
from whippletree.contact.problem.lorentz import Scaling, determinant, exit_rate, product, quotient

INTERIOR_STEPS = 60
"""Steps at most."""

INWARDS = 0.99
"""Share of the way to the boundary of a cone that a step takes."""

STALLED_STEP = 1e-8
"""A step of a smaller share leads nowhere."""

CLOSED_GAP = 1e-10
"""Mean of λ · w, in variables in which the largest g is 1, below which held slips are answered: its root, 1e-5, is the
share to which the slips that come out are known, and Newton's method goes on from there."""


STEP_REFINEMENTS = 1
"""Times that a step is improved with the residual of its linear system: W² spans more orders of magnitude than numbers
have digits."""


class ConeStart(NamedTuple):
    """How high in its cone each block begins, as multiples of the largest entry of √m g."""

    impulse: float
    velocity: float


def interior_point(
    problem: ContactProblem, start: ConeStart, judge: Callable[[Array], bool], slip: Array | None = None
) -> tuple[Array, int]:
    """The last impulses (k, 3) that were judged, and the number of steps.

    Args:
        problem: k > 0 blocks of plain numbers, g not zero.
        start: where to begin, in the middle of each cone.
        judge: a function of the impulses of a step that says whether they will do.
        slip: speeds (k,), m/s, at which |w_t| in s is held; None solves the problem as it is.
    """
    path = _InteriorPath(problem, start, slip)
    impulse = path.impulse
    for made in range(INTERIOR_STEPS):
        # a point that is lost shows in determinants that are not positive
        with np.errstate(all="ignore"):
            if judge(impulse) or path.answered or not path.advance():
                return impulse, made
        impulse = path.impulse
    return impulse, INTERIOR_STEPS


class _InteriorPath:
    """A point on the way: λ and w (k, 3), strictly inside their cones."""

    def __init__(self, problem: ContactProblem, start: ConeStart, slip: Array | None) -> None:
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
        self.G = scale_delassus(problem.matrix, scale)
        # which of λ are unknown, and which of w are not zero throughout
        self.unknown = np.ones((k, 3), dtype=bool)
        self.unknown[disc, 0] = self.unknown[smooth, 1:] = False
        self.moving = self.unknown | disc[:, None]
        self.rows = np.flatnonzero(self.unknown)
        self.one = np.tile([1.0, 0.0, 0.0], (k, 1))
        self.impulses, self.velocities = start.impulse * self.one, start.velocity * self.one
        self.impulses[disc, 0] = cap[disc] / (root[disc] * size)
        self.held = None if slip is None else np.where(self.rubs, root * slip / size, 0.0)

    @property
    def impulse(self) -> Array:
        """λ as the problem has it, N s."""
        return np.asarray(self.unscaled * self.impulses)

    @property
    def gap(self) -> float:
        """Mean of λ · w: ν on the central path."""
        return float((self.impulses * self.velocities).sum()) / len(self.impulses)

    @property
    def answered(self) -> bool:
        """Whether slips are held, and their convex problem is solved."""
        return self.held is not None and self.gap < CLOSED_GAP

    def slips(self) -> tuple[Array, Array]:
        """|w_t| in s (k,), and its derivative (k, 2)."""
        if self.held is not None:
            return self.held, np.zeros((len(self.g), 2))
        w = self.velocities
        side = np.hypot(w[:, 1], w[:, 2])
        along = w[:, 1:] / np.where(side > 0, side, 1.0)[:, None] * self.rubs[:, None]
        return np.where(self.rubs, side, 0.0), along

    def advance(self) -> bool:
        """One step; whether it led anywhere."""
        x, w, one, gap = self.impulses, self.velocities, self.one, self.gap
        W = Scaling(*[_plain(part) for part in Scaling.of(lanes_of_columns(x), lanes_of_columns(w))])
        at = _Directions(self, W)
        if not at.system.solvable:
            return False
        square = _product(at.scaled, at.scaled)
        predicted = at.towards(-square)
        share = min(1.0, self._share(*predicted))
        left = float(((x + share * predicted[0]) * (w + share * predicted[1])).sum()) / len(x)
        centring = min(max(left / gap, 0.0) ** 3, 1.0)
        second = _product(_times(W.inverse, predicted[1]), _times(W.matrix, predicted[0]))
        step = at.towards(centring * gap * one - square - second)
        share = min(1.0, INWARDS * self._share(*step))
        self.impulses, self.velocities = x + share * step[0], w + share * step[1]
        inside = all(determinant(lanes_of_columns(p)).values.min() > 0 for p in (self.impulses, self.velocities))
        return bool(inside and share > STALLED_STEP)

    def _share(self, impulses: Array, velocities: Array) -> float:
        """The part of a step that leads to the boundary of a cone; ∞ if it leads to none."""
        pairs = ((self.impulses, impulses), (self.velocities, velocities))
        fastest = max(float(exit_rate(lanes_of_columns(x), lanes_of_columns(step)).values.max()) for x, step in pairs)
        return 1 / fastest if fastest > 0 else np.inf


class _Directions:
    """The steps that can be taken from a point: one linear system, factored once for predictor and corrector."""

    def __init__(self, path: _InteriorPath, W: Scaling) -> None:
        self.path, self.W = path, W
        self.scaled = _times(W.matrix, path.impulses)  # = W⁻¹ w
        self.square = W.square
        k = len(path.g)
        correction, slip = path.slips()
        left = np.tile(np.eye(3), (k, 1, 1))  # 1 + S: the slip's derivative is in the first row
        left[:, 0, 1:] = slip
        residual = (path.G @ path.impulses.ravel()).reshape(k, 3) + path.g - path.velocities
        residual[:, 0] += correction
        self.residual = _times(left, residual)
        self.system = DelassusSystem(path.G, left, self.square, path.rows)

    def towards(self, target: Array) -> tuple[Array, Array]:
        """Δλ and Δw (k, 3) with W Δλ + W⁻¹ Δw = target / (W λ) and Δw = (1 + S) (G Δλ + residual)."""
        path = self.path
        aim = _times(self.W.matrix, _plain(quotient(lanes_of_columns(target), lanes_of_columns(self.scaled))))
        impulses = np.zeros(aim.size)
        impulses[path.rows] = self.system.solve((aim - self.residual).ravel()[path.rows], STEP_REFINEMENTS)
        change = impulses.reshape(aim.shape)
        return change, np.where(path.moving, aim - _times(self.square, change), 0.0)


def _plain(parts: Array) -> Array:
    """A point (3,), or a matrix (3, 3), of lanes as (k, 3) or (k, 3, 3)."""
    return np.stack([one.values for one in parts.flat], axis=-1).reshape(-1, *parts.shape)


def _product(x: Array, y: Array) -> Array:
    """x ∘ y of points (k, 3)."""
    return _plain(product(lanes_of_columns(x), lanes_of_columns(y)))


def _times(matrices: Array, x: Array) -> Any:
    """Each matrix (k, 3, 3) times its vector (k, 3)."""
    return np.einsum("kij,kj->ki", matrices, x)
