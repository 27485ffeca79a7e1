"""Slip that turns during an impact, integrated by Taylor series.

With σ such that the normal impulse grows by ds = |uₜ| dσ, and the slip as a complex number U = u₁ + i u₂ = S/w, S = |U|
and w = e^(−iθ), the path of Routh's method is

    F = g w − μ (β w² + tr B / 2),   w' = −i Im F w,   S' = Re F S,   uₙ' = Gₙₙ S − μ Re(ḡ U),   pₙ' = S,   pₜ' = −μ U

with g = Gₜₙ and B = Gₜₜ as complex numbers, g = g₁ + i g₂ and β = (B₁₁ − B₂₂) / 2 + i B₁₂, and W' = S uₙ the work. All
of it is products of series, so each step takes its coefficients by recurrence to a high order. Towards a stop S falls
exponentially in σ and nothing is singular.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

ORDER = 32
"""Of the series."""

TRUNCATION = 1e-16
"""Share of a quantity that the last coefficients of a step may reach."""

STRAIGHT = 1e-13
"""Sine between slip and its change below which a slip goes straight on."""

STEPS = 2000
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
    return bool(across <= STRAIGHT * np.abs(du).max())


def turning(G: Array, friction: float, start: tuple[Array, Array, float], target: float | None, slow: float) -> Turned:
    """From velocity, impulse and work on, until uₙ = 0 (or the work is ``target``), or the slip is below ``slow``, or
    has found the direction in which it goes on."""
    u, p, work = start
    x = np.array([u[1], u[2], np.hypot(u[1], u[2]), u[0], *p, work])
    finished = False
    for _ in range(STEPS):
        series = _series(G, friction, x)
        length = _length(series)
        end, finished = _end(series, length, target, slow)
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


def _end(series: Array, length: float, target: float | None, slow: float) -> tuple[float, bool]:
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
