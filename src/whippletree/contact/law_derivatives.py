"""How the impulses of an impact law change with the collision: dp of changes dG and du.

The plastic law and Newton's, as long as their contacts do what they do, solve linear equations, and these are
differentiated. The path of Stronge's law is not written twice: its impulses are differentiated by differences in the
space of the contacts, at several steps, of which the two that agree best tell value and error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.contact import coulomb
from whippletree.contact.coulomb import SLIDE, STICK
from whippletree.contact.laws import Law, Newton, Plastic

Array = np.ndarray[Any, Any]

STEPS = (3e-3, 3e-4, 3e-5)
"""Of differences, relative to G and u."""

SAME = 1e-9
"""Share of the largest speed by which contacts may miss one common restitution to count as struck once."""

SURE = 1e-8
"""Relative difference of two steps with which no further one is tried."""

MOVES = 1e-13
"""Share of the largest entry of G below which a contact does not move along a tangent."""


class Impulses(NamedTuple):
    """Impulses p (k, 3), their derivatives dp (m, k, 3) along m changes, and how far these may be off (0 if exact)."""

    p: Array
    dp: Array
    error: float = 0.0


def differentiated(law: Law, G: Array, u: Array, friction: Array, restitution: Array, dG: Array, du: Array) -> Impulses:
    """The law's impulses and their derivatives.

    Args:
        law: any impact law. G, u, friction, restitution: as :meth:`Law.impulses` takes them.
        dG, du: m changes, (m, 3k, 3k) and (m, 3k).
    """
    p = law.impulses(G, u, friction, restitution)
    dp = None
    if isinstance(law, Plastic):
        dp = _plastic(G, u, friction, p, dG, du)
    elif isinstance(law, Newton):
        dp = _struck_once(G, u, p, dG, du)
    if dp is not None:
        return Impulses(p, dp)
    return Impulses(p, *_differences(law, G, u, friction, restitution, dG, du))


def _plastic(G: Array, u: Array, friction: Array, p: Array, dG: Array, du: Array) -> Array | None:
    """Of contacts that stick, slide or part: G p + u is zero along what stops, and slips go against their friction.

    A slip along d = (cos θ, sin θ) ends along w = (G p + u)ₜ, so that e · w = 0 with e at a right angle to d.
    """
    answer = coulomb.solve(coulomb.problem(G, u, friction))
    if answer is None or not np.array_equal(answer.p, p):
        return None  # wedged: the law went another way
    k = len(friction)
    w = (G @ p.reshape(-1) + u).reshape(k, 3)
    columns, rows, turns = [], [], []
    for i, status in enumerate(answer.status):
        unit = np.eye(3 * k)[3 * i : 3 * i + 3]
        if status == STICK:
            columns += list(unit)
            rows += list(unit)
            turns += [0.0] * 3
        elif status == SLIDE:
            d = answer.directions[i] if friction[i] else np.zeros(2)
            e = np.array([-d[1], d[0]])
            columns.append(unit[0] - friction[i] * d @ unit[1:])
            rows.append(unit[0])
            turns.append(0.0)
            if friction[i] and min(G[3 * i + 1, 3 * i + 1], G[3 * i + 2, 3 * i + 2]) > MOVES * np.abs(G).max():
                columns.append(-friction[i] * p[i, 0] * e @ unit[1:])
                rows.append(e @ unit[1:])
                turns.append(float(d @ w[i, 1:]))
    if not rows:
        return np.zeros((len(du), k, 3))
    E, R = np.array(columns).T, np.array(rows)
    missing = -(dG @ p.reshape(-1) + du) @ R.T
    dx = _solved(R @ G @ E - np.diag(turns), missing)
    return np.asarray((dx @ E.T).reshape(len(du), k, 3))


def _struck_once(G: Array, u: Array, p: Array, dG: Array, du: Array) -> Array | None:
    """Of contacts that all part with the same restitution: Gₙₙ pₙ = −(1 + e) uₙ for those that are struck; contacts at
    rest stay so."""
    normal, before = p[:, 0], u[::3]
    struck = np.flatnonzero(normal)
    dp = np.zeros((len(du), *p.shape))
    if not len(struck):
        return dp
    after, small = before + G[::3, ::3] @ normal, SAME * float(np.abs(before).max())
    fastest = struck[int(np.argmin(before[struck]))]
    e = -float(after[fastest] / before[fastest]) if before[fastest] < 0 else np.nan
    if not np.abs(after[struck] + e * before[struck]).max() <= small:
        return None  # several rounds
    rows = 3 * struck
    missing = -((1 + e) * du[:, rows] + dG[:, rows][:, :, rows] @ normal[struck])
    dp[:, struck, 0] = _solved(G[np.ix_(rows, rows)], missing)
    return dp


def _differences(
    law: Law, G: Array, u: Array, friction: Array, restitution: Array, dG: Array, du: Array
) -> tuple[Array, float]:
    """dp, and by how much two steps differ, relative to its largest entry."""
    size = np.maximum(np.abs(dG).max(axis=(1, 2)) / np.abs(G).max(), np.abs(du).max(axis=1) / np.abs(u).max())

    def found(step: float) -> Array:
        slopes = np.zeros((len(du), len(friction), 3))
        for m in np.flatnonzero(size):
            h = step / size[m]
            values = [law.impulses(G + c * h * dG[m], u + c * h * du[m], friction, restitution) for c in (-2, -1, 1, 2)]
            slopes[m] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        return slopes

    last = found(STEPS[0])
    best, error = last, np.inf
    for step in STEPS[1:]:
        dp = found(step)
        apart = float(np.abs(dp - last).max() / max(np.abs(dp).max(), np.finfo(float).tiny))
        best, error, last = (last, apart, dp) if apart < error else (best, error, dp)
        if error < SURE:
            break
    return best, error


def _solved(matrix: Array, right: Array) -> Array:
    """x (m, r) of matrix x = right (m, r), with rows and columns brought to one size; the smallest if not unique."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale[scale == 0] = 1.0
    even = matrix / np.outer(scale, scale)
    return np.asarray(np.linalg.lstsq(even, (right / scale).T, rcond=1e-12)[0].T / scale)
