"""Slip that turns during an impact, integrated by Taylor series.

With σ such that the normal impulse grows by ds = |uₜ| dσ, and uₜ = S (cos θ, sin θ), the path of Routh's method is

    θ' = t·g − μ t·B d,   S' = S (d·g − μ d·B d),   uₙ' = S (Gₙₙ − μ g·d),   pₙ' = S,   pₜ' = −μ S d,   W' = S uₙ

with d = (cos θ, sin θ), t at a right angle to it, g = Gₜₙ and B = Gₜₜ. All of it is products of series, so each step
takes its coefficients by recurrence to a high order. Towards a stop S falls exponentially in σ and nothing is singular.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

ORDER = 24
"""Of the series."""

TRUNCATION = 1e-16
"""Share of a quantity that the last coefficients of a step may reach."""

STEPS = 2000
"""After these the slip counts as stopped."""

LOOKS = np.linspace(0.125, 1.0, 8)
"""Shares of a step at which it is looked at for its end."""

THETA, SPEED, NORMAL, IMPULSE, WORK = 0, 1, 2, slice(3, 6), 6


class Turned(NamedTuple):
    """Where a turning piece ended."""

    u: Array
    p: Array
    work: float
    finished: bool
    """Whether the phase of the impact is over; else the slip has stopped."""


def turning(G: Array, friction: float, start: tuple[Array, Array, float], target: float | None, slow: float) -> Turned:
    """From velocity, impulse and work on, until uₙ = 0 (or the work is ``target``) or the slip is below ``slow``."""
    u, p, work = start
    x = np.array([np.arctan2(u[2], u[1]), np.hypot(u[1], u[2]), u[0], *p, work])
    finished = False
    for _ in range(STEPS):
        series = _series(G, friction, x)
        length = _length(series)
        end, finished = _end(series, length, target, slow)
        x = _at(series, end)
        if finished or end < length:
            break
    slip = x[SPEED] * np.array([np.cos(x[THETA]), np.sin(x[THETA])])
    return Turned(np.array([x[NORMAL], *slip]), x[IMPULSE].copy(), float(x[WORK]), finished)


def _series(G: Array, mu: float, x: Array) -> Array:
    """Coefficients (ORDER + 1, 7) of θ, S, uₙ, p and W about σ = 0."""
    (_, g1, g2), (b11, b12), b22 = G[:, 0].tolist(), G[1, 1:].tolist(), float(G[2, 2])
    push = float(G[0, 0])
    a = np.zeros((ORDER + 1, 7))
    a[0] = x
    c, s, h, k = np.zeros((4, ORDER + 1))
    c[0], s[0] = np.cos(x[THETA]), np.sin(x[THETA])
    for n in range(ORDER):
        back = slice(n, None, -1)
        cc, ss, sc = c[: n + 1] @ c[back], s[: n + 1] @ s[back], s[: n + 1] @ c[back]
        h[n] = g2 * c[n] - g1 * s[n] - mu * ((b22 - b11) * sc + b12 * (cc - ss))
        k[n] = g1 * c[n] + g2 * s[n] - mu * (b11 * cc + 2 * b12 * sc + b22 * ss)
        S = a[: n + 1, SPEED]
        Sc, Ss = S @ c[back], S @ s[back]
        rates = (h[n], S @ k[back], push * S[n] - mu * (g1 * Sc + g2 * Ss), S[n], -mu * Sc, -mu * Ss)
        a[n + 1] = np.array([*rates, S @ a[back, NORMAL]]) / (n + 1)
        c[n + 1], s[n + 1] = -(s[: n + 1] @ h[back]) / (n + 1), c[: n + 1] @ h[back] / (n + 1)
    return a


def _length(series: Array) -> float:
    """A step after which what the series leaves out is rounding."""
    size = np.abs(series[0, [SPEED, NORMAL]]).max()
    last = np.abs(series[-2:][:, [THETA, SPEED, NORMAL]] / np.array([1.0, series[0, SPEED], size])).max(axis=1)
    lengths = [(TRUNCATION / value) ** (1 / n) for value, n in zip(last, (ORDER - 1, ORDER), strict=True) if value > 0]
    return float(min(lengths, default=1.0))


def _end(series: Array, length: float, target: float | None, slow: float) -> tuple[float, bool]:
    """Where a step ends, and whether the phase of the impact ends there."""
    from scipy.optimize import brentq

    def over(sigma: float) -> float:
        x = _at(series, sigma)
        return float(x[NORMAL]) if target is None else float(x[WORK]) - target

    def stops(sigma: float) -> float:
        return slow - float(_at(series, sigma)[SPEED])

    before = 0.0
    for sigma in (length * LOOKS).tolist():
        hits = [
            (float(brentq(f, before, sigma, xtol=1e-300, rtol=1e-15)), f is over)
            for f in (over, stops)
            if f(before) < 0 <= f(sigma)
        ]
        if hits:
            return min(hits)
        before = sigma
    return length, False


def _at(series: Array, sigma: float) -> Array:
    return np.asarray(sigma ** np.arange(ORDER + 1) @ series)
