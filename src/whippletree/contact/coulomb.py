"""Contact with Coulomb friction as a complementarity problem of a few contacts, solved exactly by its active set.

For k contacts with three rows each (normal, tangent 1, tangent 2)

    u = G p + b,    0 ≤ pₙ ⟂ uₙ ≥ 0,    |pₜ| ≤ μ pₙ,    pₜ = −μ pₙ uₜ/|uₜ| where uₜ ≠ 0

u is a velocity and p an impulse at an impact, or u an acceleration and p a force during motion: the same problem. A
contact that slides already has its friction along a given direction.

Block Gauss–Seidel sweeps guess which contacts are open, stick or slide; the equations of that guess are solved and
every condition is checked. An answer is returned only if all hold, so no tolerance of an iteration is left in it.
Where the guess keeps failing, all combinations are tried, the most similar first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from whippletree.contact.islands import islands
from whippletree.contact.single import RANK, alone

Array = np.ndarray[Any, Any]

OPEN, STICK, SLIDE = 0, 1, 2
"""What a contact does: it carries nothing, it moves with its partner, it slides (or has no friction)."""

CHECKED = 1e-10
"""How far a condition may be missed, relative to the largest entries (or terms) of b and of the impulses that b asks
for."""

ROUNDING = 2.0**-46
"""Share of |G| |x| by which G x may be off: 64 units in the last place."""

SWEEPS = ((5, False), (3, True), (12, True))
"""Gauss–Seidel sweeps, rough or exact, after each of which the guess is checked."""

LATE_SWEEPS = 300
"""More of them, where no combination holds near the guess: wedged bodies, and more contacts than freedoms."""

DIVERGED = 1e15
"""Multiple of the impulses that b asks for beyond which sweeps have no answer to come to."""

COMBINATIONS = 2187
"""Combinations up to which all are tried when no guess holds: seven contacts of three choices each."""

EDGES = 16
"""Of the pyramid inside a cone that stands for it where contacts wedge."""


class Answer(NamedTuple):
    """Impulses or forces (k, 3), what each contact does, and the slip directions (k, 2) of those that slide."""

    p: Array
    status: tuple[int, ...]
    directions: Array


@dataclass(frozen=True, eq=False)
class Problem:
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
) -> Problem:
    """Contacts that may open, stick or slide as they need to, but for those ``forced``.

    A contact that slides already with :meth:`Problem.sliding_inertia` ≤ 0 may only open: where it could also carry a
    force there are two answers, and this one is the stated rule.
    """
    k = len(friction)
    given = np.zeros((k, 2)) if directions is None else directions
    plain = Problem(G, b, friction, given, ((OPEN,),) * k)
    allowed = [(choice,) if choice is not None else _choices(plain, i) for i, choice in enumerate(forced or [None] * k)]
    return Problem(G, b, friction, given, tuple(allowed), terms)


def _choices(p: Problem, i: int) -> tuple[int, ...]:
    if not p.slides_already(i):
        return (OPEN, STICK, SLIDE)
    return (OPEN, SLIDE) if p.sliding_inertia(i) > 0 else (OPEN,)


def solve(p: Problem) -> Answer | None:
    """Impulses that meet every condition; None if there are none, or none was found.

    Contacts that do not act on each other are solved apart.
    """
    if not p.count:
        return Answer(np.zeros((0, 3)), (), np.zeros((0, 2)))
    size = max(p.terms, float(np.abs(p.b).max()))
    status, x, directions = [OPEN] * p.count, np.zeros((p.count, 3)), np.zeros((p.count, 2))
    for island in islands(p.G):
        rows = (3 * island[:, None] + np.arange(3)).reshape(-1)
        allowed = tuple(p.allowed[i] for i in island)
        own = Problem(p.G[np.ix_(rows, rows)], p.b[rows], p.friction[island], p.directions[island], allowed, size)
        answer = _solved(own)
        if answer is None:
            return None
        x[island], directions[island] = answer.p, answer.directions
        for i, choice in zip(island, answer.status, strict=True):
            status[i] = choice
    return Answer(x, tuple(status), directions)


def _solved(p: Problem) -> Answer | None:
    resting = _at_rest(p)
    if resting is not None:
        return resting
    x, tried = np.zeros(3 * p.count), set[tuple[int, ...]]()
    # rough sweeps first: they cost little, and often are enough to tell what the contacts do
    for sweeps, exact in SWEEPS:
        x = _swept(p, x, sweeps, exact)
        answer = _tried(p, [_guess(p, x)], x, tried)
        if answer is not None:
            return answer
    combinations = _nearest(p, _guess(p, x))
    answer = _tried(p, combinations, x, tried)
    if answer is not None:
        return answer
    for way in (_wedged, _settled):
        for status in combinations:
            answer = way(p, status, x)
            if answer is not None:
                return answer
        x = _swept(p, x, LATE_SWEEPS, True)
    return _settled(p, _guess(p, x), x)


def _at_rest(p: Problem) -> Answer | None:
    """Everything sticks, with impulses of least norm, where impulses are not unique: a slip may be an answer there as
    well, and what can stay at rest does."""
    if not all(STICK in choices for choices in p.allowed):
        return None
    moving = np.flatnonzero(np.diag(p.G) > 0)
    scale = np.sqrt(np.diag(p.G)[moving])
    if np.linalg.matrix_rank(p.G[np.ix_(moving, moving)] / np.outer(scale, scale), RANK) == len(moving):
        return None
    status = (STICK,) * p.count
    answer = _settled(p, status, np.zeros(3 * p.count))
    return answer if answer is not None and np.all(answer.p[:, 0] > 0) else None


def _tried(p: Problem, combinations: Sequence[tuple[int, ...]], x: Array, tried: set[tuple[int, ...]]) -> Answer | None:
    """The first of these combinations that holds, of those not tried before."""
    for status in combinations:
        if status not in tried:
            tried.add(status)
            answer = _settled(p, status, x)
            if answer is not None:
                return answer
    return None


def _nearest(p: Problem, guess: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All combinations, the most similar to a guess first; none if they are too many."""
    if np.prod([float(len(choices)) for choices in p.allowed]) > COMBINATIONS:
        return []
    return sorted(product(*p.allowed), key=lambda status: sum(a != b for a, b in zip(status, guess, strict=True)))


def _swept(p: Problem, x: Array, sweeps: int, exact: bool) -> Array:
    x = x.copy()
    largest = DIVERGED * _unit(p)
    for _ in range(sweeps):
        if np.abs(x).max() > largest:
            break
        for i in range(p.count):
            _relax(p, x, i, exact)
    return x


def _relax(p: Problem, x: Array, i: int, exact: bool) -> None:
    """One contact brought to its own equilibrium, or towards it, the others as they are."""
    n, t = 3 * i, slice(3 * i + 1, 3 * i + 3)
    if p.allowed[i] == (OPEN,):
        return
    if p.slides_already(i):
        own = p.sliding_inertia(i)
        if own > 0:
            x[n] = max(0.0, x[n] - (p.G[n] @ x + p.b[n]) / own)
            x[t] = -p.friction[i] * x[n] * p.directions[i]
        return
    G = p.G[n : n + 3, n : n + 3]
    if not exact:
        x[n] = max(0.0, x[n] - (p.G[n] @ x + p.b[n]) / G[0, 0]) if G[0, 0] > 0 else 0.0
        weight = float(G[1, 1] + G[2, 2])
        pull = x[t] - (p.G[t] @ x + p.b[t]) / weight if weight > 0 else np.zeros(2)
        x[t] = pull * min(1.0, p.friction[i] * x[n] / max(float(np.hypot(*pull)), 1e-300))
        return
    x[n : n + 3] = alone(G, p.G[n : n + 3] @ x + p.b[n : n + 3] - G @ x[n : n + 3], float(p.friction[i]))


def _guess(p: Problem, x: Array) -> tuple[int, ...]:
    """What the contacts seem to do at these impulses."""
    status = []
    for i, choices in enumerate(p.allowed):
        n, t = 3 * i, slice(3 * i + 1, 3 * i + 3)
        on_cone = np.hypot(*x[t]) >= p.friction[i] * x[n] * (1 - 1e-9)
        wish = OPEN if x[n] <= 0 else SLIDE if on_cone or p.slides_already(i) else STICK
        status.append(wish if wish in choices else choices[-1])
    return tuple(status)


def _settled(p: Problem, status: tuple[int, ...], start: Array) -> Answer | None:
    """The answer of this combination, if it meets every condition."""
    free = [i for i, s in enumerate(status) if s == SLIDE and not p.slides_already(i)]
    directions = p.directions.copy()
    for i in free:
        directions[i] = _first_direction(p, i, start)
    if free:
        directions = _turned(p, status, free, directions, start)
    x = _linear(p, status, directions, start)
    return Answer(x.reshape(-1, 3), status, directions) if _holds(p, status, directions, x) else None


def _wedged(p: Problem, status: tuple[int, ...], start: Array) -> Answer | None:
    """The same for contacts that wedge a body, whose impulses are not unique and far from those of the sweeps.

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
    return Answer(x.reshape(-1, 3), status, directions) if _holds(p, status, directions, x) else None


def _first_direction(p: Problem, i: int, x: Array) -> Array:
    """Against the friction of the sweeps, or along the slip if they have left none."""
    t = slice(3 * i + 1, 3 * i + 3)
    for way in (-x[t], p.G[t] @ x + p.b[t], p.b[t]):
        size = float(np.hypot(*way))
        if size > 0:
            return np.asarray(way / size)
    return np.array([1.0, 0.0])


def _turned(p: Problem, status: tuple[int, ...], free: list[int], directions: Array, near: Array) -> Array:
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

        found = root(lambda x: _misalignment(p, status, free, directions, x, near)[0], angles, tol=1e-15)
        angles = found.x
    return _with_angles(free, directions, angles)


def _with_angles(free: list[int], directions: Array, angles: Array) -> Array:
    turned = directions.copy()
    turned[free] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # a planar contact's second tangent has no motion: rounding of the cosine must not leave a trace there
    turned[np.abs(turned) < 1e-15] = 0.0
    return turned


def _misalignment(
    p: Problem, status: tuple[int, ...], free: list[int], directions: Array, angles: Array, near: Array
) -> tuple[Array, Array]:
    """Sine and cosine of the angle between assumed and resulting slip, times the slip's speed."""
    turned = _with_angles(free, directions, angles)
    u = (p.G @ _linear(p, status, turned, near) + p.b).reshape(-1, 3)[free, 1:]
    d = turned[free]
    return d[:, 0] * u[:, 1] - d[:, 1] * u[:, 0], np.sum(d * u, axis=1)


def _linear(p: Problem, status: tuple[int, ...], directions: Array, near: Array) -> Array:
    """Impulses (3k,) with which closed contacts neither approach nor part, and those that stick do not slip.

    Where they are not unique (more contacts than the bodies have freedoms) they are the nearest to those of the sweeps,
    which are in their cones.
    """
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
    if not rows:
        return np.zeros(3 * p.count)
    E = np.array(columns).T
    scale = np.sqrt(np.maximum(np.diag(p.G)[rows], 0.0))
    scale[scale == 0] = 1.0
    matrix = (p.G[rows] @ E) / np.outer(scale, scale)
    start = near[rows]
    missing = -(p.b[rows] + p.G[rows] @ (E @ start)) / scale
    x = np.linalg.lstsq(matrix, missing, rcond=RANK)[0]
    return np.asarray(E @ (start + x / scale))


def _holds(p: Problem, status: tuple[int, ...], directions: Array, x: Array) -> bool:
    u = p.G @ x + p.b
    # G of a light foot is large, and so is the rounding of G x
    size = max(float(np.abs(p.b).max()), p.terms)
    small_u = max(CHECKED * size, ROUNDING * float((np.abs(p.G) @ np.abs(x)).max()))
    small_x = CHECKED * max(float(np.abs(x).max()), _unit(p))
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


def _unit(p: Problem) -> float:
    """The size of the impulses that b asks for."""
    inertia = np.diag(p.G)
    return float(np.max(np.abs(p.b) / np.where(inertia > 0, inertia, np.inf), initial=0.0))
