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

from whippletree.contact.turning import turning

Array = np.ndarray[Any, Any]

PIECES = 60
"""Straight or turning pieces that a path may have."""

STRAIGHT = 1e-13
"""Sine between slip and its change below which a piece counts as straight."""

STOPPED = 1e-12
"""Share of the first speed below which a slip counts as stopped."""

NEARLY = 1e3
"""Multiple of that at which a turning slip, which only creeps to its stop, is taken as stopped."""


@dataclass
class _Path:
    """Where the impulse has led."""

    u: Array
    p: Array
    work: float = 0.0


def stroke(G: Array, u: Array, friction: float, restitution: float) -> Array:
    """Impulse (3,) on one contact, rows normal, tangent 1, tangent 2.

    Args:
        G: (3, 3), 1/kg. u: velocity before, (3,), m/s. friction: μ. restitution: e in [0, 1].

    Returns:
        Zero if the contact neither approaches nor is driven together by its own friction.
    """
    path = _Path(np.array(u, dtype=float), np.zeros(3))
    if G[0, 0] <= 0 or not _compresses(G, path.u, friction):
        return path.p
    stopped = STOPPED * float(np.linalg.norm(u))
    for _ in range(PIECES):  # compression, to uₙ = 0
        if path.u[0] >= 0 and path.p[0] > 0:
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
        return np.array([d * x - b * y, a * y - b * x]) / det
    if b == 0:  # planar: nothing moves along one of the tangents
        return np.array([x / a if a else 0.0, y / d if d else 0.0])
    return np.asarray(np.linalg.pinv(G[1:, 1:], hermitian=True) @ np.array([x, y]))


def _onset(G: Array, friction: float) -> Array:
    """The direction d in which slip starts from rest: along its own change, Gₜₙ − μ Gₜₜ d = κ d with κ > 0."""
    from scipy.optimize import brentq

    def turning(angle: float) -> float:
        d = np.array([np.cos(angle), np.sin(angle)])
        change = G[1:, 0] - friction * G[1:, 1:] @ d
        return float(d[0] * change[1] - d[1] * change[0])

    start = float(np.arctan2(G[2, 0], G[1, 0]))
    if turning(start) == 0:
        return np.array([np.cos(start), np.sin(start)])
    # |Gₜₙ| alone would give the start; friction turns it by less than a right angle
    found = brentq(turning, start - np.pi / 2, start + np.pi / 2, xtol=1e-15)
    return np.array([np.cos(found), np.sin(found)])


def _advance(G: Array, path: _Path, friction: float, target: float | None, stopped: float) -> None:
    """One piece further: to the end of this phase of the impact, or to where slip stops."""
    slip = path.u[1:].copy()
    speed = float(np.hypot(*slip))
    dp = _direction(G, path.u, friction, stopped)
    du = G @ dp
    if speed > stopped:
        across = abs(slip[0] * du[2] - slip[1] * du[1]) / speed
        if across > STRAIGHT * float(np.abs(du).max()):
            _turning(G, path, friction, target, stopped)
            return
    length = _end(path, float(du[0]), target)
    slowing = float(slip @ du[1:]) / speed if speed > stopped else 0.0
    stops = speed / -slowing if slowing < 0 else np.inf
    step = min(length, stops)
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
        path.u[1:] = 0.0
        return
    end = turning(G, friction, (path.u, path.p, path.work), target, NEARLY * stopped)
    path.u, path.p, path.work = end.u, end.p, end.work
    if not end.finished:
        path.u[1:] = 0.0
    elif target is None:
        path.u[0] = 0.0
    else:
        path.work = target
