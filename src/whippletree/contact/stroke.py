"""One contact struck by Stronge's energetic law: the path of its velocity as the normal impulse grows (Routh).

With s the normal impulse, du/ds = G (1, friction): while the contact slips its friction is μ against the slip; when the
slip has stopped it sticks if a friction within the cone can hold it, else it slips on in another direction. Along a
straight piece of the path u is linear and the work of the normal force quadratic in s, so pieces end at exact roots; in
space the slip may turn, and then the piece is integrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.contact.turning import straight, turning

Array = np.ndarray[Any, Any]

PIECES = 60
"""Straight or turning pieces that a path may have."""

STOPPED = 1e-12
"""Share of the impact's speed below which a slip counts as stopped."""

NEARLY = 1e3
"""Multiple of that at which a turning slip, which only creeps to its stop, is taken as stopped."""


@dataclass
class _Path:
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
    path = _Path(np.array(u, dtype=float), np.zeros(3))
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


def _advance(G: Array, path: _Path, friction: float, target: float | None, stopped: float) -> None:
    """One piece further: to the end of this phase of the impact, or to where slip stops."""
    slip = path.u[1:].copy()
    speed = float(np.hypot(*slip))
    dp = _direction(G, path.u, friction, stopped)
    du = G @ dp
    if speed > stopped and not straight(slip, du):
        _turning(G, path, friction, target, stopped)
        return
    length = _end(path, float(du[0]), target)
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


def _end(path: _Path, slope: float, target: float | None) -> float:
    """How much more normal impulse this phase needs if the piece goes on; infinite if it never ends so."""
    u, needed = float(path.u[0]), 0.0 if target is None else target - path.work
    if target is None:
        return -u / slope if slope > 0 else np.inf
    # needed = u s + slope s² / 2
    root = u * u + 2 * slope * needed
    if root < 0:
        return np.inf
    return float(2 * needed / (u + np.sqrt(root)))


def _turning(G: Array, path: _Path, friction: float, target: float | None, stopped: float) -> None:
    """A piece whose slip turns."""
    if np.hypot(*path.u[1:]) <= NEARLY * stopped:
        _stop(G, path)
        return
    end = turning(G, friction, (path.u, path.p, path.work), target, NEARLY * stopped)
    path.u, path.p, path.work = end.u, end.p, end.work
    if not end.finished:
        if np.hypot(*path.u[1:]) <= 2 * NEARLY * stopped:  # at the bound, but for rounding
            _stop(G, path)
    elif target is None:
        path.u[0] = 0.0
    else:
        path.work = target


def _stop(G: Array, path: _Path) -> None:
    """What is left of a slip, taken by friction."""
    friction = -np.linalg.pinv(G[1:, 1:], hermitian=True) @ path.u[1:]
    path.p[1:] += friction
    path.u = path.u + G[:, 1:] @ friction
    path.u[1:] = 0.0
