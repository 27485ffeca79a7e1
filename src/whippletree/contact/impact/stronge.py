"""One contact struck by Stronge's energetic law: the path of its velocity as the normal impulse grows (Routh).

With s the normal impulse, du/ds = G (1, friction): while the contact slips its friction is μ against the slip; when the
slip has stopped it sticks if a friction within the cone can hold it, else it slips on in another direction. Along a
straight piece of the path u is linear and the work of the normal force quadratic in s, so pieces end at exact roots; in
space the slip may turn, and then the piece is integrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array

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
        if path.work >= target * (1 + 1e-15) or restitution == 0:
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
    if det > 1e-12 * a * d:
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
    lowest = 1e-16 * most
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
"""Of the series."""

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
