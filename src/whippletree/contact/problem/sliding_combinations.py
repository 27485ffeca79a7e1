"""Contact with Coulomb friction: the problem of a few contacts, and what one combination of open, sticking and sliding
contacts makes of it.

For k contacts with three rows each (normal, tangent 1, tangent 2)

    u = G p + b,    0 ≤ pₙ ⟂ uₙ ≥ 0,    |pₜ| ≤ μ pₙ,    pₜ = −μ pₙ uₜ/|uₜ| where uₜ ≠ 0

u is a velocity and p an impulse at an impact, or u an acceleration and p a force during motion: the same problem. A
contact that slides already has its friction along a given direction. The equations of a combination are solved and
every condition is checked: an answer is returned only if all hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array

OPEN, STICK, SLIDE = 0, 1, 2
"""States of a contact: it carries nothing, it moves with its partner, it slides (or has no friction)."""

CHECKED = 1e-10
"""How far a condition may be missed, relative to the largest entries (or terms) of b and of the impulses that b asks
for."""

ROUNDING = 2.0**-46
"""Share of |G| |x| by which G x may be off: 64 units in the last place."""

JAMMED_LOADS = 2e-9
"""Share of its value without friction at which the determinant of what loads do to the contacts counts as none."""

ANGLE_ROUNDING = 1e-15
"""rad: directions of slip are found to it, and components below it are rounding of a cosine."""

EDGES = 16
"""Edges of the pyramid inside a cone that stands for it where contacts wedge."""


class SlidingAnswer(NamedTuple):
    """Impulses or forces (k, 3), what each contact does, and the slip directions (k, 2) of those that slide."""

    p: Array
    status: tuple[int, ...]
    directions: Array


@dataclass(frozen=True, eq=False)
class SlidingProblem:
    """k contacts; ``allowed`` may narrow what a contact can do."""

    G: Array
    """(3k, 3k), symmetric, positive semi-definite."""
    b: Array
    """(3k,)"""
    friction: Array
    """μ ≥ 0, (k,)."""
    directions: Array
    """(k, 2): where a contact slides already, the unit direction of its slip; zeros elsewhere."""
    allowed: tuple[tuple[int, ...], ...]
    terms: float = 0.0
    """Size of what b is the sum of. Where a guard has told that a load vanishes, b is the rounding of its terms, and
    its sign says nothing."""

    @property
    def count(self) -> int:
        """k"""
        return len(self.friction)

    def slides_already(self, i: int) -> bool:
        """Whether the direction of a contact's friction is given, or there is no friction."""
        return self.friction[i] == 0 or bool(np.any(self.directions[i]))

    def sliding_inertia(self, i: int) -> float:
        """∂uₙ/∂pₙ while the contact slides in its direction; zero or below is Painlevé's situation."""
        n = 3 * i
        return float(self.G[n, n] - self.friction[i] * self.G[n, n + 1 : n + 3] @ self.directions[i])


def problem(
    G: Array,
    b: Array,
    friction: Array,
    directions: Array | None = None,
    forced: Sequence[int | None] | None = None,
    terms: float = 0.0,
) -> SlidingProblem:
    """Contacts that may open, stick or slide as they need to, but for those ``forced``.

    Contacts that slide already do not count as loaded where their loads would run away (:func:`_jams`): where they
    could also carry a force there are two answers, and this is the stated rule.
    """
    k = len(friction)
    given = np.zeros((k, 2)) if directions is None else directions
    free = [
        (OPEN, SLIDE) if mu == 0 or np.any(d) else (OPEN, STICK, SLIDE) for mu, d in zip(friction, given, strict=True)
    ]
    allowed = [own if choice is None else (choice,) for own, choice in zip(free, forced or [None] * k, strict=True)]
    return SlidingProblem(G, b, friction, given, tuple(allowed), terms)


def settle(p: SlidingProblem, status: tuple[int, ...], start: Array) -> SlidingAnswer | None:
    """The answer of this combination, if it meets every condition."""
    free = [i for i, s in enumerate(status) if s == SLIDE and not p.slides_already(i)]
    directions = p.directions.copy()
    for i in free:
        directions[i] = _first_direction(p, i, start)
    if free:
        directions = _turn_directions(p, status, free, directions, start)
    x = _linear(p, status, directions, start)
    good = _holds(p, status, directions, x) and not _jams(p, status, directions)
    return SlidingAnswer(x.reshape(-1, 3), status, directions) if good else None


def solve_wedged(p: SlidingProblem, status: tuple[int, ...], start: Array) -> SlidingAnswer | None:
    """The answer for contacts that wedge a body, whose impulses are not unique and far from those of the sweeps.

    Impulses in the cones are sums of pushes along their edges (in space, EDGES of them), so nonnegative least squares
    finds some if there are any.
    """
    from scipy.optimize import nnls

    directions = p.directions.copy()
    rows, pushes = [], []
    for i, s in enumerate(status):
        if s == SLIDE and not p.slides_already(i):
            directions[i] = _first_direction(p, i, start)
        turns = 2 * np.pi * np.arange(EDGES) / EDGES
        edges = np.stack([np.cos(turns), np.sin(turns)], axis=1) if s == STICK else -directions[i : i + 1]
        for edge in edges if s != OPEN else []:
            push = np.zeros(3 * p.count)
            push[3 * i], push[3 * i + 1 : 3 * i + 3] = 1.0, p.friction[i] * edge
            pushes.append(push)
        rows += {OPEN: [], STICK: [3 * i, 3 * i + 1, 3 * i + 2], SLIDE: [3 * i]}[s]
    if len(pushes) < 2:
        return None
    E = np.array(pushes).T
    x = E @ nnls(p.G[rows] @ E, -p.b[rows])[0]
    good = _holds(p, status, directions, x) and not _jams(p, status, directions)
    return SlidingAnswer(x.reshape(-1, 3), status, directions) if good else None


def _first_direction(p: SlidingProblem, i: int, x: Array) -> Array:
    """Against the friction of the sweeps, or along the slip if they have left none."""
    t = slice(3 * i + 1, 3 * i + 3)
    for way in (-x[t], p.G[t] @ x + p.b[t], p.b[t]):
        size = float(np.hypot(*way))
        if size > 0:
            return np.asarray(way / size)
    return np.array([1.0, 0.0])


def _turn_directions(
    p: SlidingProblem, status: tuple[int, ...], free: list[int], directions: Array, near: Array
) -> Array:
    """Slip directions along which the contacts then slide; a planar one only has its sign to find."""
    angles = np.arctan2(directions[free, 1], directions[free, 0])
    twist = _misalignment(p, status, free, directions, angles, near)
    for _ in range(3):  # a slip that turns out to be backwards
        if np.all(twist[1] >= 0):
            break
        angles = np.where(twist[1] < 0, angles + np.pi, angles)
        twist = _misalignment(p, status, free, directions, angles, near)
    if np.abs(twist[0]).max() > 0:
        from scipy.optimize import root

        found = root(lambda x: _misalignment(p, status, free, directions, x, near)[0], angles, tol=ANGLE_ROUNDING)
        angles = found.x
    return _with_angles(free, directions, angles)


def _with_angles(free: list[int], directions: Array, angles: Array) -> Array:
    turned = directions.copy()
    turned[free] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # a planar contact's second tangent has no motion: rounding of the cosine must not leave a trace there
    turned[np.abs(turned) < ANGLE_ROUNDING] = 0.0
    return turned


def _misalignment(
    p: SlidingProblem, status: tuple[int, ...], free: list[int], directions: Array, angles: Array, near: Array
) -> tuple[Array, Array]:
    """Sine and cosine of the angle between assumed and resulting slip, times the slip's speed."""
    turned = _with_angles(free, directions, angles)
    u = (p.G @ _linear(p, status, turned, near) + p.b).reshape(-1, 3)[free, 1:]
    d = turned[free]
    return d[:, 0] * u[:, 1] - d[:, 1] * u[:, 0], np.sum(d * u, axis=1)


def _linear(p: SlidingProblem, status: tuple[int, ...], directions: Array, near: Array) -> Array:
    """Impulses (3k,) with which closed contacts neither approach nor part, and those that stick do not slip.

    Where they are not unique (more contacts than the bodies have freedoms) they are the nearest to those of the sweeps,
    which are in their cones.
    """
    rows, E = _active(p, status, directions)
    if not rows:
        return np.zeros(3 * p.count)
    scale = np.sqrt(np.maximum(np.diag(p.G)[rows], 0.0))
    scale[scale == 0] = 1.0
    matrix = (p.G[rows] @ E) / np.outer(scale, scale)
    start = near[rows]
    missing = -(p.b[rows] + p.G[rows] @ (E @ start)) / scale
    x = np.linalg.lstsq(matrix, missing, rcond=RANK_OF_LOADS)[0]
    return np.asarray(E @ (start + x / scale))


def _active(p: SlidingProblem, status: tuple[int, ...], directions: Array) -> tuple[list[int], Array]:
    """Rows that a combination holds, and the impulses E (3k, r) with which it does."""
    rows, columns = [], []
    for i, s in enumerate(status):
        n = 3 * i
        if s == STICK:
            rows += [n, n + 1, n + 2]
            columns += list(np.eye(3 * p.count)[n : n + 3])
        elif s == SLIDE:
            rows.append(n)
            column = np.zeros(3 * p.count)
            column[n], column[n + 1 : n + 3] = 1.0, -p.friction[i] * directions[i]
            columns.append(column)
    return rows, np.array(columns).reshape(-1, 3 * p.count).T


def _jams(p: SlidingProblem, status: tuple[int, ...], directions: Array) -> bool:
    """Whether contacts that slide already press themselves together (Painlevé): G E of the rows that hold, by which
    loads push contacts apart, has a real eigenvalue that is not positive. Of a single contact it is the
    :meth:`Problem.sliding_inertia`. Contacts that jam by themselves may be held apart by others."""
    if not any(s == SLIDE and p.friction[i] and np.any(p.directions[i]) for i, s in enumerate(status)):
        return False
    rows, E = _active(p, status, directions)
    moving = [n for n, row in enumerate(rows) if p.G[row, row] > 0]
    rows, E = [rows[n] for n in moving], E[:, moving]
    scale = np.sqrt(np.diag(p.G)[rows])
    plain = p.G[np.ix_(rows, rows)] / np.outer(scale, scale)
    matrix = (p.G[rows] @ E) / np.outer(scale, scale)
    values = np.linalg.eigvals(matrix)
    lowest = float(np.min(values.real[np.abs(values.imag) <= JAMMED_LOADS * np.abs(values)], initial=np.inf))
    if np.linalg.matrix_rank(plain, RANK_OF_LOADS) < len(rows):
        return lowest < -JAMMED_LOADS  # eigenvalues of zero belong to loads that are not unique
    return lowest <= 0 or float(np.linalg.det(matrix)) <= JAMMED_LOADS * float(np.linalg.det(plain))


def _holds(p: SlidingProblem, status: tuple[int, ...], directions: Array, x: Array) -> bool:
    u = p.G @ x + p.b
    # G of a light foot is large, and so is the rounding of G x
    size = max(float(np.abs(p.b).max()), p.terms)
    small_u = max(CHECKED * size, ROUNDING * float((np.abs(p.G) @ np.abs(x)).max()))
    small_x = CHECKED * max(float(np.abs(x).max()), unit(p))
    for i, s in enumerate(status):
        n, t = 3 * i, slice(3 * i + 1, 3 * i + 3)
        if s == OPEN:
            good = u[n] >= -small_u
        elif s == STICK:
            inside = np.hypot(*x[t]) <= p.friction[i] * x[n] + small_x
            good = inside and x[n] >= -small_x and np.abs(u[n : n + 3]).max() <= small_u
        else:
            good = x[n] >= -small_x and abs(u[n]) <= small_u
            if not p.slides_already(i):
                good = good and float(directions[i] @ u[t]) >= -small_u
        if not good:
            return False
    return True


def unit(p: SlidingProblem) -> float:
    """The size of the impulses that b asks for."""
    inertia = np.diag(p.G)
    return float(np.max(np.abs(p.b) / np.where(inertia > 0, inertia, np.inf), initial=0.0))


# --- The problem of :mod:`whippletree.contact.problem.active_set` for one contact by itself, the others as they are ---


KAPPAS = np.logspace(8, -10, 73)
"""Where the slip of a single contact is looked for: viscosities in units of G."""

SHARES, NARROWINGS = np.linspace(0, 1, 32), 8
"""Where between two of them the slip is looked for next, on a logarithmic scale, and how often."""

RANK_OF_LOADS = 1e-12
"""Singular values below this share of the largest count as zero, after rows are scaled to a unit diagonal of G."""


def alone(G: Array, b: Array, friction: float) -> Array:
    """Impulse (3,) of one contact by itself: the same problem, solved exactly."""
    if b[0] >= 0 or G[0, 0] <= 0:
        return np.zeros(3)
    for still, moving in ((2, 1), (1, 2)):
        if not np.any(G[still]) and b[still] == 0:
            return _planar(G, b, friction, moving)
    stuck = -np.linalg.pinv(G, rcond=RANK_OF_LOADS, hermitian=True) @ b
    if np.hypot(stuck[1], stuck[2]) <= friction * stuck[0]:
        return np.asarray(stuck)
    return _slipping(G, b, friction)


def _planar(G: Array, b: Array, friction: float, moving: int) -> Array:
    """Choices where something moves along one tangent alone: it sticks, or slides one way or the other."""
    gnn, gnt, gtt = float(G[0, 0]), float(G[0, moving]), float(G[moving, moving])
    bn, bt = float(b[0]), float(b[moving])

    def impulse(normal: float, tangent: float) -> Array:
        found = np.zeros(3)
        found[[0, moving]] = normal, tangent
        return found

    det = gnn * gtt - gnt * gnt
    if det > RANK_OF_LOADS * gnn * gtt:
        normal, tangent = (gnt * bt - gtt * bn) / det, (gnt * bn - gnn * bt) / det
        if abs(tangent) <= friction * normal:
            return impulse(normal, tangent)
    elif gtt == 0:
        return impulse(-bn / gnn, 0.0)
    answers = []
    for way in (1.0, -1.0):
        inertia = gnn - way * friction * gnt
        if inertia > 0:
            normal = -bn / inertia
            answers.append((way * (bt + gnt * normal) - friction * gtt * normal, way, normal))
    # of two ways to slide, the faster: that with the larger viscosity
    _, way, normal = max(answers)
    return impulse(normal, -way * friction * normal)


def _slipping(G: Array, b: Array, friction: float) -> Array:
    """Impulse (3,) of one contact that slides: uₙ = 0, uₜ = −κ pₜ and |pₜ| = μ pₙ.

    For κ from infinity downwards p(κ) = −(G + κ diag(0, 1, 1))⁻¹ b starts inside the cone and, as the contact does not
    stick, leaves it: the first crossing is the answer.
    """
    kappas = max(float(np.trace(G[1:, 1:])), float(G[0, 0])) * KAPPAS
    viscous = _viscous(G, b)
    for _ in range(NARROWINGS):
        crossings = np.flatnonzero(_beyond(viscous(kappas), friction) > 0)
        last = int(crossings[0]) if len(crossings) else len(kappas) - 1
        high, low = float(kappas[max(last - 1, 0)]), float(kappas[last])
        kappas = high * (low / high) ** SHARES
    return np.asarray(viscous(kappas[:1])[0])


def _viscous(G: Array, b: Array) -> Callable[[Array], Array]:
    """p(κ) (m, 3) of κ (m,): the normal impulse eliminated, what is left is diagonal along two fixed directions."""
    g = G[1:, 0] / G[0, 0]
    values, vectors = np.linalg.eigh(G[1:, 1:] - G[0, 0] * np.outer(g, g))
    pull, lean, alone = (b[1:] - b[0] * g) @ vectors, g @ vectors, -b[0] / G[0, 0]

    def p(kappas: Array) -> Array:
        along = -pull / (np.maximum(values, 0.0) + kappas[:, None])
        return np.concatenate([(alone - along @ lean)[:, None], along @ vectors.T], axis=1)

    return p


def _beyond(p: Array, friction: float) -> Array:
    """How far impulses (m, 3) are outside the cone."""
    return np.asarray(np.hypot(p[:, 1], p[:, 2]) - friction * p[:, 0])
