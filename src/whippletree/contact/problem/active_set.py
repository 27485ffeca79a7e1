"""Contact with Coulomb friction as a complementarity problem of a few contacts, solved exactly by its active set.

Block Gauss–Seidel sweeps guess which contacts are open, stick or slide; the equations of that guess are solved and
every condition is checked (:mod:`whippletree.contact.problem.sliding_combinations`), so no tolerance of an iteration is
left in an answer. Where the guess keeps failing, Newton's method and the loads of a body that does not slide make
others, and then all combinations are tried, the most similar first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.problem import contact_problem
from whippletree.contact.problem.cone_newton import newton
from whippletree.contact.problem.delassus import islands
from whippletree.contact.problem.sliding_combinations import (
    CHECKED,
    EDGES,
    OPEN,
    RANK_OF_LOADS,
    SLIDE,
    STICK,
    SlidingAnswer,
    SlidingProblem,
    alone,
    problem,
    settle,
    solve_wedged,
    unit,
)

__all__ = ["EDGES", "OPEN", "SLIDE", "STICK", "SlidingAnswer", "SlidingProblem", "problem", "solve"]

SWEEPS = ((5, False), (3, True), (12, True))
"""Gauss–Seidel sweeps, rough or exact, after each of which the guess is checked."""

SHARED_STEPS = 30
"""Steps of all contacts at once, where impulses are not unique, before the guess is checked."""

AT_CONE = 1e-9
"""Share of the friction cone within which an impulse counts as on its surface. It only guesses a state: the solution
for that state is checked."""

ACTIVE_SET_TURNS = 3
"""Times that Newton's method and sweeps take turns."""

LATE_SWEEPS = 300
"""More of them, where no combination holds near the guess: wedged bodies, and more contacts than freedoms."""

DIVERGED = 1e15
"""Multiple of the impulses that b asks for beyond which sweeps have no answer to come to."""

COMBINATIONS = 2187
"""Combinations up to which all are tried when no guess holds: seven contacts of three choices each."""


def solve(p: SlidingProblem, first: tuple[int, ...] | None = None) -> SlidingAnswer | None:
    """Impulses that meet every condition; None if there are none, or none was found.

    Contacts that do not act on each other are solved apart. ``first``: a combination that is asked before all others
    whether it holds, with any impulses where these are not unique.
    """
    if not p.count:
        return SlidingAnswer(np.zeros((0, 3)), (), np.zeros((0, 2)))
    size = max(p.terms, float(np.abs(p.b).max()))
    status, x, directions = [OPEN] * p.count, np.zeros((p.count, 3)), np.zeros((p.count, 2))
    for island in islands(p.G) if p.count > 1 else [np.arange(1)]:
        rows = (3 * island[:, None] + np.arange(3)).reshape(-1)
        allowed = tuple(p.allowed[i] for i in island)
        own = SlidingProblem(
            p.G[np.ix_(rows, rows)], p.b[rows], p.friction[island], p.directions[island], allowed, size
        )
        answer = None if first is None else _stay(own, tuple(first[int(i)] for i in island))
        answer = _solve_combinations(own) if answer is None else answer
        if answer is None:
            return None
        x[island], directions[island] = answer.p, answer.directions
        for i, choice in zip(island, answer.status, strict=True):
            status[i] = choice
    return SlidingAnswer(x, tuple(status), directions)


def _stay(p: SlidingProblem, status: tuple[int, ...]) -> SlidingAnswer | None:
    """The answer of a combination that held a moment ago, if it still does."""
    if any(own not in choices for own, choices in zip(status, p.allowed, strict=True)):
        return None
    inside = solve_wedged(p, status, np.zeros(3 * p.count))
    # what is left of their equations is put right, or a mode would outlive its forces by that
    return None if inside is None else settle(p, status, inside.p.reshape(-1))


def _solve_combinations(p: SlidingProblem) -> SlidingAnswer | None:
    x, tried = np.zeros(3 * p.count), set[tuple[int, ...]]()
    if not _has_unique_loads(p):
        resting = _at_rest(p)
        if resting is not None:
            return resting
        x = _shared_loads(p)
        answer = _try_combinations(p, [_guess(p, x)], x, tried)
        if answer is not None:
            return answer
    # rough sweeps first: they cost little, and often are enough to tell what the contacts do
    for sweeps, exact in SWEEPS:
        x = _sweep(p, x, sweeps, exact)
        answer = _try_combinations(p, [_guess(p, x)], x, tried)
        if answer is not None:
            return answer
    found = _by_newton(p, x)
    if found is not None:
        answer = _try_combinations(p, [_guess(p, found)], found, tried)
        if answer is not None:
            return answer
    answer = _try_combinations(p, _sticking_supports(p), np.zeros_like(x), tried)
    if answer is not None:
        return answer
    combinations = _nearest(p, _guess(p, x))
    answer = _try_combinations(p, combinations, x, tried)
    if answer is not None:
        return answer
    for way in (solve_wedged, settle):
        for status in combinations:
            answer = way(p, status, x)
            if answer is not None:
                return answer
        x = _sweep(p, x, LATE_SWEEPS, True)
    return settle(p, _guess(p, x), x)


def _at_rest(p: SlidingProblem) -> SlidingAnswer | None:
    """Nothing slides, where impulses are not unique: a slip may be an answer there as well, and what can stay at rest
    does. Everything sticks, with impulses of least norm; or the contacts open that part when nothing slides."""
    if not all(STICK in choices for choices in p.allowed):
        return None
    nothing = np.zeros(3 * p.count)
    answer = settle(p, (STICK,) * p.count, nothing)
    if answer is not None and np.all(answer.p[:, 0] > 0):
        return answer
    if any(OPEN not in choices for choices in p.allowed):
        return None
    without = _without_slip(p)
    if without is None:
        return None
    held = tuple(OPEN if u > CHECKED * np.abs(p.b).max() else STICK for u in without[1])
    answer = settle(p, held, nothing) if OPEN in held and STICK in held else None
    return answer if answer is not None and np.all(answer.p[np.array(held) == STICK, 0] > 0) else None


def _has_unique_loads(p: SlidingProblem) -> bool:
    """Whether every change of the impulses changes a velocity."""
    moving = np.flatnonzero(np.diag(p.G) > 0)
    scale = np.sqrt(np.diag(p.G)[moving])
    rank = np.linalg.matrix_rank(p.G[np.ix_(moving, moving)] / np.outer(scale, scale), RANK_OF_LOADS)
    return bool(rank == len(moving))


def _shared_loads(p: SlidingProblem) -> Array:
    """Impulses (3k,) near an answer, to which all contacts go together: each step is the same share, that of least
    energy, of what would bring every one of them to rest by itself.

    Sweeps give to the contacts that they visit first whatever these can take: of four points between which a box
    slides down, two would carry it, and turn it.
    """
    x = np.zeros(3 * p.count)
    inertia = np.diag(p.G).reshape(-1, 3).mean(axis=1)
    mobile = inertia > 0
    mass = np.repeat(np.where(mobile, 1 / np.where(mobile, inertia, 1), 0), 3)
    for _ in range(SHARED_STEPS):
        u = p.G @ x + p.b
        way = _into_cones(p, x - mass * u) - x
        down, curve = -float(way @ u), float(way @ p.G @ way)
        if not (down > 0 and curve > 0):
            break
        x = _into_cones(p, x + down / curve * way)
    return x


def _into_cones(p: SlidingProblem, x: Array) -> Array:
    """Impulses (3k,) without pull, their friction shortened to its bound, or at it against a slip that is known."""
    normal, pull = np.maximum(x[::3], 0), x.reshape(-1, 3)[:, 1:]
    normal[[own == (OPEN,) for own in p.allowed]] = 0
    bound, size = p.friction * normal, np.hypot(pull[:, 0], pull[:, 1])
    share = np.where(size > bound, bound / np.where(size > 0, size, 1), 1)
    known = np.array([p.slides_already(i) for i in range(p.count)])
    rubbed = np.where(known[:, None], -bound[:, None] * p.directions, share[:, None] * pull)
    return np.concatenate([normal[:, None], rubbed], axis=1).reshape(-1)


def _try_combinations(
    p: SlidingProblem, combinations: Sequence[tuple[int, ...]], x: Array, tried: set[tuple[int, ...]]
) -> SlidingAnswer | None:
    """The first of these combinations that holds, of those not tried before."""
    for status in combinations:
        if status not in tried:
            tried.add(status)
            answer = settle(p, status, x)
            if answer is not None:
                return answer
    return None


def _nearest(p: SlidingProblem, guess: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All combinations, the most similar to a guess first; none if they are too many."""
    if np.prod([float(len(choices)) for choices in p.allowed]) > COMBINATIONS:
        return []
    return sorted(product(*p.allowed), key=lambda status: sum(a != b for a, b in zip(status, guess, strict=True)))


def _by_newton(p: SlidingProblem, start: Array) -> Array | None:
    """Impulses (3k,) by Newton's method on all contacts at once, if it finds them: where sweeps creep (splayed legs).

    Contacts that slide already have friction in a direction of their own, which that method does not know.
    """
    if any(mu and np.any(d) for mu, d in zip(p.friction, p.directions, strict=True)):
        return None
    shape = (p.count, 3)
    posed = contact_problem.ContactProblem(
        p.G.reshape(*shape, *shape), p.b.reshape(shape), p.friction, np.zeros(p.count)
    )
    x = start
    for _ in range(ACTIVE_SET_TURNS):
        found, _, good = newton(posed, x.reshape(shape), CHECKED * float(np.abs(p.b).max()))
        if good:
            return found.reshape(-1)
        x = _sweep(p, found.reshape(-1), SWEEPS[-1][0], True)
    return None


def _sticking_supports(p: SlidingProblem) -> list[tuple[int, ...]]:
    """The fewest contacts that carry a body if nothing slides, the others open: where a body on many feet begins to
    tip, sweeps leave a little load on feet that have none."""
    if any(STICK not in choices or OPEN not in choices for choices in p.allowed):
        return []
    without = _without_slip(p)
    return [] if without is None else [tuple(STICK if load > 0 else OPEN for load in without[0])]


def _without_slip(p: SlidingProblem) -> tuple[Array, Array] | None:
    """Normal impulses, up to a factor, of the fewest contacts that carry if friction is without bound, and the normal
    velocities, (k,); None where contacts cannot all keep from sliding and overlapping.

    With G = Bᵀ B impulses change the velocities u by Bᵀ z, and z = B p is the least with which uₜ = 0 and uₙ ≥ 0. What
    uₜ = 0 leaves of z is found by least distance programming, that is by nonnegative least squares (Lawson and Hanson,
    Solving Least Squares Problems, chapter 23): so u is right also where b has parts that no impulse changes, as
    between hands that are led.
    """
    from scipy.optimize import nnls

    squares, axes = np.linalg.eigh(p.G)
    real = squares > RANK_OF_LOADS * squares.max(initial=0.0)
    B = np.sqrt(squares[real])[:, None] * axes[:, real].T
    tangents = np.delete(np.arange(3 * p.count), np.s_[::3])
    sides, sizes, axes = np.linalg.svd(B[:, tangents])
    held = int(np.sum(sizes**2 > RANK_OF_LOADS * np.max(sizes, initial=0.0) ** 2))
    still = sides[:, :held] @ (axes[:held] @ -p.b[tangents] / sizes[:held])
    free, parting = sides[:, held:].T @ B[:, ::3], p.b[::3] + B[:, ::3].T @ still
    inertia = np.sum(free**2, axis=0)
    far = float(np.max(-parting / np.sqrt(np.where(inertia > 0, inertia, np.inf)), initial=0.0))
    if far == 0:
        return np.zeros(p.count), parting
    loads = nnls(np.concatenate([free, -parting[None] / far]), np.append(np.zeros(len(free)), 1.0))[0]
    share = 1 + loads @ parting / far
    return None if share <= 0 else (loads, parting + free.T @ (free @ loads) * (far / share))


def _sweep(p: SlidingProblem, x: Array, sweeps: int, exact: bool) -> Array:
    x = x.copy()
    largest = DIVERGED * unit(p)
    for _ in range(sweeps):
        if np.abs(x).max() > largest:
            break
        for i in range(p.count):
            _relax(p, x, i, exact)
    return x


def _relax(p: SlidingProblem, x: Array, i: int, exact: bool) -> None:
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


def _guess(p: SlidingProblem, x: Array) -> tuple[int, ...]:
    """Apparent states of the contacts at these impulses."""
    status = []
    for i, choices in enumerate(p.allowed):
        n, t = 3 * i, slice(3 * i + 1, 3 * i + 3)
        on_cone = np.hypot(*x[t]) >= p.friction[i] * x[n] * (1 - AT_CONE)
        wish = OPEN if x[n] <= 0 else SLIDE if on_cone or p.slides_already(i) else STICK
        status.append(wish if wish in choices else choices[-1])
    return tuple(status)
