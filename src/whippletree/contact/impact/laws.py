"""Impact laws: what a collision does to the velocities at the points that touch.

A law sees the collision in the space of its contacts: G = J M† Jᵀ (what an impulse does to the contact velocities,
bilateral constraints and massless links included), the velocities u⁻ = J v⁻, and every contact's friction and
restitution. It answers with impulses p; u⁺ = u⁻ + G p. Each law states what it conserves or bounds. The kinetic energy
changes by pᵀ (u⁻ + u⁺) / 2.

    Plastic      contacts end at rest along the normal, or separate; Coulomb's law for the impulses. Energy never grows.
    Newton       uₙ⁺ = −e uₙ⁻ without friction, all contacts at once. Energy never grows; e = 1 conserves it.
    Energetic    Stronge: of the work done in compression, e² is given back; friction along the whole slip path.
                 Energy never grows, with any friction.
    Sequential   contacts one after another, the fastest first, each by the energetic law: impulses travel along a
                 chain. Energy never grows.

Of a contact struck by Stronge's law the path of its velocity is followed as the normal impulse grows (Routh). With s
the normal impulse, du/ds = G (1, friction): while the contact slips its friction is μ against the slip; when the slip
has stopped it sticks if a friction within the cone can hold it, else it slips on in another direction. Along a straight
piece of the path u is linear and the work of the normal force quadratic in s, so pieces end at exact roots; in space
the slip may turn, and then the piece is integrated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.problem import active_set
from whippletree.contact.problem.sliding_combinations import RANK_OF_LOADS
from whippletree.errors import NameLookupError

APPROACHING = 1e-12
"""Share of the largest contact velocity below which a contact no longer counts as approaching."""

RESTING = 1e-8
"""Share for a contact that its friction may drive together although it does not approach."""

LAST_STROKES = 500
"""Strokes of the plastic law where contacts wedge."""


class Law(ABC):
    """An impact law."""

    name: ClassVar[str]

    @abstractmethod
    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        """Impulses (k, 3) of k contacts that touch.

        Args:
            G: (3k, 3k), 1/kg; symmetric, positive semi-definite.
            u: contact velocities before, (3k,), rows normal, tangent 1, tangent 2 of each contact, m/s.
            friction, restitution: (k,).
        """

    def coefficients(self, restitution: Array) -> Array:
        """The restitution (k,) with which the law treats contacts that have this one."""
        own: float | None = getattr(self, "restitution", 0.0)
        return restitution if own is None else np.full(len(restitution), own)


@dataclass(frozen=True)
class Plastic(Law):
    """0 ≤ pₙ ⟂ uₙ⁺ ≥ 0 with Coulomb's law for the impulses, all contacts at once; restitution is not asked.

    Bounds: pᵀ u⁺ ≤ 0, so the energy falls by at least pᵀ G p / 2. Without friction, or where all contacts stick, the
    loss is that of the velocities that were stopped, ½ (A v⁻)ᵀ (A M⁻¹ Aᵀ)⁻¹ (A v⁻). Where contacts wedge a body so that
    the exact solver finds no answer, they are struck one after another until none approaches, which bounds the same; if
    that does not end, friction is associated (pᵀ u⁺ = 0: what slides also separates), which always has an answer.
    """

    name: ClassVar[str] = "plastic"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        answer = active_set.solve(active_set.problem(G, u, friction))
        if answer is not None:
            return answer.p
        p, finished = _strike_in_turn(G, u, friction, np.zeros(len(friction)), LAST_STROKES)
        return (p if finished else _associated_impulses(G, u, friction)).reshape(-1, 3)


@dataclass(frozen=True)
class Newton(Law):
    """0 ≤ pₙ ⟂ uₙ⁺ + e uₙ⁻ ≥ 0 without friction, all approaching contacts at once.

    Bounds: the energy falls by (1 − e) pᵀ G p / (2 (1 + e)), so it never grows and e = 1 conserves it. That holds for
    one common e; where coefficients differ, the smallest of the approaching contacts is taken for this impact.
    Contacts that were separating take part only if the impact makes them approach, in a further round.
    """

    restitution: float | None = None
    """e of every contact; None for the contacts' own."""
    rounds: int = 100
    """After these the rest is plastic."""
    name: ClassVar[str] = "newton"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        e = self.coefficients(restitution)
        normal = G[::3, ::3]
        p, small = np.zeros(len(e)), _small(u)
        for _ in range(self.rounds):
            now = u[::3] + normal @ p
            if not np.any(now < -small):
                return _along_normals(p)
            p = p + self._round(normal, now, float(e[now < -small].min()), np.flatnonzero(now <= small))
        return _along_normals(p + self._round(normal, u[::3] + normal @ p, 0.0, np.arange(len(e))))

    def _round(self, G: Array, u: Array, e: float, near: Array) -> Array:
        rows = np.zeros((3 * len(near), 3 * len(near)))
        rows[::3, ::3] = G[np.ix_(near, near)]
        asked = np.zeros(3 * len(near))
        asked[::3] = (1 + e) * u[near]
        answer = active_set.solve(active_set.problem(rows, asked, np.zeros(len(near))))
        p = np.zeros(len(u))
        p[near] = _pushed_apart(rows[::3, ::3], asked[::3]) if answer is None else answer.p[:, 0]
        return p


@dataclass(frozen=True)
class Energetic(Law):
    """Stronge's law: the normal impulse grows from zero; slip may stop, stick or turn back on the way.

    The impact ends when the work of the normal force in restitution is e² of that absorbed in compression. Bounds: the
    normal work is −(1 − e²) of compression's and friction only takes, so the energy never grows. A contact at rest
    along the normal that friction drives together (Painlevé) is struck too: an impact without collision. Several
    contacts are struck one after another as by :class:`Sequential`.
    """

    restitution: float | None = None
    """e of every contact; None for the contacts' own."""
    strokes: int = 60
    """After these the rest is plastic."""
    name: ClassVar[str] = "energetic"

    def impulses(self, G: Array, u: Array, friction: Array, restitution: Array) -> Array:
        e = self.coefficients(restitution)
        if not np.any(u[::3] < -_small(u)):
            return self._drive_by_friction(G, u, friction, e)
        p, finished = _strike_in_turn(G, u, friction, e, self.strokes)
        rest = np.zeros((len(friction), 3)) if finished else Plastic().impulses(G, u + G @ p, friction, restitution)
        return p.reshape(-1, 3) + rest

    def _drive_by_friction(self, G: Array, u: Array, friction: Array, e: Array) -> Array:
        """Nothing approaches: the first contact that its own friction drives together, if there is one."""
        p = np.zeros((len(friction), 3))
        for i in range(len(friction)):
            rows = slice(3 * i, 3 * i + 3)
            if u[3 * i] > RESTING * np.abs(u).max(initial=0.0):
                continue
            resting = np.array([0.0, *u[rows][1:]])
            p[i] = stroke(G[rows, rows], resting, float(friction[i]), float(e[i]))
            if np.any(p[i]):
                break
        return p


@dataclass(frozen=True)
class Sequential(Energetic):
    """One contact after another, the fastest first, each by the energetic law: impulses travel along a chain.

    A Newton's cradle passes the motion to its last ball. Bounds: the energy never grows.
    """

    name: ClassVar[str] = "sequential"


LAWS: dict[str, type[Law]] = {law.name: law for law in (Plastic, Newton, Energetic, Sequential)}


def law_named(law: str | Law) -> Law:
    """A law by name, or as it is.

    Raises:
        NameLookupError: if there is no such law.
    """
    if isinstance(law, Law):
        return law
    if law not in LAWS:
        raise NameLookupError("impact law", law, LAWS, where="simulate")
    return LAWS[law]()


def default_law(friction: Array, restitution: Array) -> Law:
    """Plastic without restitution; with it, Newton's law where no contact has friction, else the energetic one."""
    if not np.any(restitution):
        return Plastic()
    return Energetic() if np.any(friction) else Newton()


def _pushed_apart(G: Array, b: Array) -> Array:
    """Impulses p ≥ 0 (k,) of least pᵀ G p / 2 + bᵀ p, where more contacts touch than the bodies have freedoms.

    With G = Fᵀ F and b = Fᵀ c, which velocities always are, it is the p ≥ 0 of least |F p + c|.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(G)
    roots = np.sqrt(np.maximum(values, 0.0))
    kept = roots > np.sqrt(RANK_OF_LOADS) * roots.max(initial=0.0)
    F = roots[kept, None] * vectors[:, kept].T
    return np.asarray(nnls(F, -(vectors[:, kept].T @ b) / roots[kept])[0])


def _associated_impulses(G: Array, u: Array, friction: Array) -> Array:
    """Impulses (3k,) in the cones (by their EDGES edges) of least pᵀ G p / 2 + uᵀ p."""
    turns = 2 * np.pi * np.arange(active_set.EDGES) / active_set.EDGES
    edges = np.zeros((len(u), len(friction) * len(turns)))
    for i, mu in enumerate(friction):
        own = slice(i * len(turns), (i + 1) * len(turns))
        edges[3 * i : 3 * i + 3, own] = [np.ones(len(turns)), mu * np.cos(turns), mu * np.sin(turns)]
    return np.asarray(edges @ _pushed_apart(edges.T @ G @ edges, edges.T @ u))


def _strike_in_turn(G: Array, u: Array, friction: Array, e: Array, strokes: int) -> tuple[Array, bool]:
    """Impulses (3k,) of contacts struck one after another, the fastest first, and whether none approaches any more."""
    p, small, fastest = np.zeros(len(u)), _small(u), float(np.abs(u).max(initial=0.0))
    for _ in range(strokes):
        now = u + G @ p
        i = int(np.argmin(now[::3]))
        if now[3 * i] >= -small:
            return p, True
        rows = slice(3 * i, 3 * i + 3)
        p[rows] += stroke(G[rows, rows], now[rows], float(friction[i]), float(e[i]), fastest)
    return p, False


def _small(u: Array) -> float:
    return APPROACHING * float(np.abs(u).max(initial=0.0))


def _along_normals(p: Array) -> Array:
    result = np.zeros((len(p), 3))
    result[:, 0] = p
    return result


# --- Stronge's law: the path of a contact's velocity as the normal impulse grows (Routh) ------------------------------


GIVEN_BACK = 1e-15
"""Share of the work that a contact gives back by which rounding may miss it: another piece would add nothing."""

ONE_TANGENT = 1e-12
"""Determinant of the tangential block, relative to the product of its diagonal, below which both tangents are moved as
one: their difference has no inertia of its own to be held with."""

SLOWEST_ONSET = 1e-16
"""Share of the largest rate κ at which slip can begin that the search for it starts from; below it κ is zero."""

PIECES = 60
"""Straight or turning pieces that a path may have."""

STOPPED = 1e-12
"""Share of the impact's speed below which a slip counts as stopped."""

NEARLY_STOPPED = 1e3
"""Multiple of that at which a turning slip, which only creeps to its stop, is taken as stopped."""


@dataclass
class _ImpulsePath:
    """Where the impulse has led."""

    u: Array
    p: Array
    work: float = 0.0


def stroke(G: Array, u: Array, friction: float, restitution: float, fastest: float = 0.0) -> Array:
    """Impulse (3,) on one contact, rows normal, tangent 1, tangent 2.

    Args:
        G: (3, 3), 1/kg. u: velocity before, (3,), m/s. friction: μ. restitution: e in [0, 1].
        fastest: speed of the impact as a whole, m/s, against which a slip counts as stopped.

    Returns:
        Zero if the contact neither approaches nor is driven together by its own friction.
    """
    path = _ImpulsePath(np.array(u, dtype=float), np.zeros(3))
    if G[0, 0] <= 0 or not _compresses(G, path.u, friction):
        return path.p
    stopped = STOPPED * max(float(np.linalg.norm(u)), fastest)
    for _ in range(PIECES):  # compression, to uₙ = 0
        if path.u[0] >= 0 and np.any(path.u != u):
            break
        _advance(G, path, friction, None, stopped)
    target = (1 - restitution**2) * path.work
    for _ in range(PIECES):  # restitution, to the work that is given back
        if path.work >= target * (1 + GIVEN_BACK) or restitution == 0:
            break
        _advance(G, path, friction, target, stopped)
    return path.p


def _compresses(G: Array, u: Array, friction: float) -> bool:
    if u[0] < 0:
        return True
    return u[0] == 0 and float(G[0] @ _direction(G, u, friction, 0.0)) < 0


def _direction(G: Array, u: Array, friction: float, stopped: float) -> Array:
    """dp/ds (3,): 1 along the normal, and the friction that goes with it."""
    speed = float(np.hypot(u[1], u[2]))
    if speed > stopped:
        return np.array([1.0, *(-friction * u[1:] / speed)])
    holding = _holding(G)
    if np.hypot(*holding) <= friction:
        return np.array([1.0, *holding])
    return np.array([1.0, *(-friction * _onset(G, friction))])


def _holding(G: Array) -> Array:
    """The friction (2,) per normal impulse with which the contact does not begin to slip."""
    (a, b), (_, d) = G[1:, 1:].tolist()
    x, y = -G[1, 0], -G[2, 0]
    det = a * d - b * b
    if det > ONE_TANGENT * a * d:
        return np.array([(d * x - b * y) / det, (a * y - b * x) / det])
    if b == 0:  # planar: nothing moves along one of the tangents
        return np.array([x / a if a else 0.0, y / d if d else 0.0])
    return np.asarray(np.linalg.pinv(G[1:, 1:], hermitian=True) @ np.array([x, y]))


def _onset(G: Array, friction: float) -> Array:
    """The direction d in which slip starts from rest: along its own change, Gₜₙ − μ Gₜₜ d = κ d with κ > 0.

    |d(κ)| = |(μ Gₜₜ + κ)⁻¹ Gₜₙ| falls with κ, from above 1 where friction cannot hold the contact: there is one answer.
    """
    from scipy.optimize import brentq

    values, vectors = np.linalg.eigh(friction * G[1:, 1:])
    pushed = vectors.T @ G[1:, 0]

    def excess(kappa: float) -> float:
        return float(np.hypot(*(pushed / (np.maximum(values, 0.0) + kappa)))) - 1

    most = float(np.hypot(*pushed))
    lowest = SLOWEST_ONSET * most
    kappa = float(brentq(excess, lowest, most, xtol=1e-300, rtol=1e-15)) if excess(lowest) > 0 else lowest
    d = vectors @ (pushed / (np.maximum(values, 0.0) + kappa))
    return np.asarray(d / np.hypot(*d))


def _advance(G: Array, path: _ImpulsePath, friction: float, target: float | None, stopped: float) -> None:
    """One piece further: to the end of this phase of the impact, or to where slip stops."""
    slip = path.u[1:].copy()
    speed = float(np.hypot(*slip))
    dp = _direction(G, path.u, friction, stopped)
    du = G @ dp
    if speed > stopped and not straight(slip, du):
        _turning(G, path, friction, target, stopped)
        return
    length = _end_of_stroke(path, float(du[0]), target)
    slowing = float(slip @ du[1:]) / speed if speed > stopped else 0.0
    stops = speed / -slowing if slowing < 0 else np.inf
    step = min(length, stops)
    if not np.isfinite(step):
        # the contact is held so that no impulse moves it along the normal: what is left of uₙ is rounding
        path.u[0], path.work = 0.0, path.work if target is None else target
        return
    path.work += step * float(path.u[0]) + step * step * float(du[0]) / 2
    path.u, path.p = path.u + step * du, path.p + step * dp
    if stops <= length:
        path.u[1:] = 0.0
    if step == length:
        path.u[0], path.work = (0.0, path.work) if target is None else (path.u[0], target)


def _end_of_stroke(path: _ImpulsePath, slope: float, target: float | None) -> float:
    """How much more normal impulse this phase needs if the piece goes on; infinite if it never ends so."""
    u, needed = float(path.u[0]), 0.0 if target is None else target - path.work
    if target is None:
        return -u / slope if slope > 0 else np.inf
    # needed = u s + slope s² / 2
    root = u * u + 2 * slope * needed
    if root < 0:
        return np.inf
    return float(2 * needed / (u + np.sqrt(root)))


def _turning(G: Array, path: _ImpulsePath, friction: float, target: float | None, stopped: float) -> None:
    """A piece whose slip turns."""
    if np.hypot(*path.u[1:]) <= NEARLY_STOPPED * stopped:
        _stop(G, path)
        return
    end = turning(G, friction, (path.u, path.p, path.work), target, NEARLY_STOPPED * stopped)
    path.u, path.p, path.work = end.u, end.p, end.work
    if not end.finished:
        if np.hypot(*path.u[1:]) <= 2 * NEARLY_STOPPED * stopped:  # at the bound, but for rounding
            _stop(G, path)
    elif target is None:
        path.u[0] = 0.0
    else:
        path.work = target


def _stop(G: Array, path: _ImpulsePath) -> None:
    """The rest of a slip, taken by friction."""
    friction = -np.linalg.pinv(G[1:, 1:], hermitian=True) @ path.u[1:]
    path.p[1:] += friction
    path.u = path.u + G[:, 1:] @ friction
    path.u[1:] = 0.0


# --- Slip that turns during an impact, integrated by Taylor series ----------------------------------------------------
# With σ such that the normal impulse grows by ds = |uₜ| dσ, and the slip as a complex number U = u₁ + i u₂ = S/w, S =
# |U| and w = e^(−iθ), the path of Routh's method is
#
#     F = g w − μ (β w² + tr B / 2),   w' = −i Im F w,   S' = Re F S,   uₙ' = Gₙₙ S − μ Re(ḡ U),   pₙ' = S,   pₜ' = −μ U
#
# with g = Gₜₙ and B = Gₜₜ as complex numbers, g = g₁ + i g₂ and β = (B₁₁ − B₂₂) / 2 + i B₁₂, and W' = S uₙ the work.
# All of it is products of series, so each step takes its coefficients by recurrence to a high order. Towards a stop S
# falls exponentially in σ and nothing is singular.


ORDER = 32
"""Order of the series."""

TRUNCATION = 1e-16
"""Share of a quantity that the last coefficients of a step may reach."""

STRAIGHT_IMPACT = 1e-13
"""Sine between slip and its change below which a slip goes straight on."""

SLIP_STEPS = 2000
"""After these the slip counts as stopped."""

LOOKS = np.linspace(0.125, 1.0, 8)
"""Shares of a step at which it is looked at for its end."""

POWERS = np.arange(ORDER + 1)

SLIP, SPEED, NORMAL, IMPULSE, WORK = slice(0, 2), 2, 3, slice(4, 7), 7
"""Columns of the state: u₁, u₂, S, uₙ, p, W."""


class Turned(NamedTuple):
    """Where a turning piece ended."""

    u: Array
    p: Array
    work: float
    finished: bool
    """Whether the phase of the impact is over; else the slip is below ``slow``, or goes straight on."""


def straight(slip: Array, du: Array) -> bool:
    """Whether a slip (2,) does not turn under the rate du (3,) of the contact's velocity."""
    across = abs(slip[0] * du[2] - slip[1] * du[1]) / np.hypot(*slip)
    return bool(across <= STRAIGHT_IMPACT * np.abs(du).max())


def turning(G: Array, friction: float, start: tuple[Array, Array, float], target: float | None, slow: float) -> Turned:
    """From velocity, impulse and work on, until uₙ = 0 (or the work is ``target``), or the slip is below ``slow``, or
    has found the direction in which it goes on."""
    u, p, work = start
    x = np.array([u[1], u[2], np.hypot(u[1], u[2]), u[0], *p, work])
    finished = False
    for _ in range(SLIP_STEPS):
        series = _series(G, friction, x)
        length = _length(series)
        end, finished = _end_of_turn(series, length, target, slow)
        x = _at(series, end)
        if finished or end < length or straight(x[SLIP], G @ np.array([1.0, *(-friction * x[SLIP] / x[SPEED])])):
            break
    return Turned(np.array([x[NORMAL], *x[SLIP]]), x[IMPULSE].copy(), float(x[WORK]), finished)


def _series(G: Array, mu: float, x: Array) -> Array:
    """Coefficients (ORDER + 1, 8) of the state about σ = 0."""
    (push, g1, g2), (b11, b12), b22 = G[:, 0].tolist(), G[1, 1:].tolist(), float(G[2, 2])
    g, beta, mean = complex(g1, g2), mu * complex((b11 - b22) / 2, b12), mu * (b11 + b22) / 2
    w, S = np.zeros(ORDER + 1, dtype=complex), np.zeros(ORDER + 1)
    growth, turn = np.zeros((2, ORDER))
    S[0] = x[SPEED]
    w[0] = complex(x[0], -x[1]) / x[SPEED]
    for n in range(ORDER):
        back = slice(n, None, -1)
        F = g * complex(w[n]) - beta * complex(w[: n + 1] @ w[back]) - (0.0 if n else mean)
        growth[n], turn[n] = F.real, F.imag
        w[n + 1] = -1j / (n + 1) * complex(turn[: n + 1] @ w[back])
        S[n + 1] = float(growth[: n + 1] @ S[back]) / (n + 1)
    U = np.convolve(S, w.conj())[: ORDER + 1]
    # rates of uₙ and p are linear in the slip and its speed
    rates = np.array([[-mu * g1, 0, -mu, 0], [-mu * g2, 0, 0, -mu], [push, 1, 0, 0]])
    series = np.empty((ORDER + 1, 8))
    series[0], series[:, 0], series[:, 1], series[:, 2] = x, U.real, U.imag, S
    series[1:, 3:7] = series[:-1, :3] @ rates / POWERS[1:, None]
    series[1:, WORK] = np.convolve(S, series[:, NORMAL])[:ORDER] / POWERS[1:]
    return series


def _length(series: Array) -> float:
    """A step after which what the series leaves out is rounding."""
    speed = series[0, SPEED]
    size = max(speed, abs(series[0, NORMAL]))
    last = np.abs(series[-2:, :4] / np.array([speed, speed, speed, size])).max(axis=1).tolist()
    lengths = [(TRUNCATION / value) ** (1 / n) for value, n in zip(last, (ORDER - 1, ORDER), strict=True) if value > 0]
    return float(min(lengths, default=1.0))


def _end_of_turn(series: Array, length: float, target: float | None, slow: float) -> tuple[float, bool]:
    """Where a step ends, and whether the phase of the impact ends there."""
    from scipy.optimize import brentq

    ending, goal = (series[:, NORMAL], 0.0) if target is None else (series[:, WORK], target)
    # both rise through zero where they end the step
    watched = np.stack([ending, -series[:, SPEED]], axis=1)
    watched[0] += -goal, slow
    times = np.concatenate([[0.0], length * LOOKS])
    looks = np.power.outer(times, POWERS) @ watched
    crossed = (looks[:-1] < 0) & (looks[1:] >= 0)
    if not crossed.any():
        return length, False
    n = int(np.argmax(crossed.any(axis=1)))
    hits = []
    for column in np.flatnonzero(crossed[n]).tolist():
        own = watched[:, column]
        root = brentq(lambda x, own=own: x**POWERS @ own, times[n], times[n + 1], xtol=1e-300, rtol=1e-15)
        hits.append((float(root), column == 0))
    return min(hits)


def _at(series: Array, sigma: float) -> Array:
    return np.asarray(sigma**POWERS @ series)
