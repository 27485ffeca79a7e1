"""Derivatives of impacts and events: what they make of small changes of configuration and velocity.

The impact solves, one after the other (:mod:`whippletree.contact.impact.impact`),

    K x₀ = (0, −J_w v)    weightless contacts w stop,      K = [M −Bᵀ; B 0]
    K X  = (Jᵀ, 0)        G = J X,   u = J (v + x₀),   p = law(G, u)
    v⁺   = v + x₀ + X p

and K x = b gives K δx = δb − δK x. With the contacts that take part and what they do given, this is exact.

Saltation matrices tell how such a change goes through an event. A state that is a little off reaches the event a little
earlier or later, and spends that time under the other mode's equations. With the reset y⁺ = R(y⁻) at the event γ(y) =
0,

    δy⁺ = S δy⁻,    S = D + (f⁺ − D f⁻ − ∂R/∂t) ∇γᵀ / γ̇⁻,    D = ∂R/∂y,   f = ẏ before and after

in the tangent space, y = (q, v) with δq (nv,) and δv (nv,). Where nothing jumps, neither state nor acceleration, S = 1.
D, ∇γ and f are exact (:mod:`whippletree.simulation.events.sensitivity.run_sensitivity`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.impact.impact import LEAVES_CONE, Impact, block_inverse, block_matrix, holding_rows
from whippletree.contact.impact.laws import Law, Newton, Plastic
from whippletree.contact.problem import active_set
from whippletree.contact.problem.active_set import SLIDE, STICK, SlidingAnswer
from whippletree.contact.problem.sliding_combinations import RANK_OF_LOADS


class Changes(NamedTuple):
    """m changes of an impact's data."""

    M: Array
    """(m, n, n)"""
    A: Array
    """(m, a, n)"""
    J: Array
    """(m, 3k, n)"""
    v: Array
    """(m, n)"""


class ImpactSlopes(NamedTuple):
    """Velocities after (n,), their derivatives (m, n), and the relative error of the law's part."""

    v: Array
    dv: Array
    error: float


def impact_derivative(impact: Impact, law: Law, change: Changes) -> ImpactSlopes:
    """Effect of an impact on m changes."""
    n, m = len(impact.v), len(change.v)
    outcome = impact.resolve(law)
    light = impact.weightless()
    slow = LEAVES_CONE * float(np.abs(impact.J @ impact.v).max(initial=0.0))
    stuck = [i for i in light if impact.J[3 * i] @ outcome.v <= slow]
    own = [3 * i + j for i in stuck for j in range(3) if np.any(impact.J[3 * i + j])]
    heavy = [i for i in range(len(impact.friction)) if i not in light]
    rows = [3 * i + j for i in heavy for j in range(3)]
    kept = np.concatenate([impact.A, impact.J[own]])
    holds = holding_rows(impact.M, kept)
    B = np.concatenate([kept, holds])
    dB = np.concatenate([change.A, change.J[:, own], np.zeros((m, *holds.shape))], axis=1)
    r = len(B)
    inverse, dK = block_inverse(block_matrix(impact.M, B), n), block_matrix(change.M, dB)

    def push(x: Array, db: Array) -> Array:
        """δx (m, n + r, …) of K x = b."""
        return np.asarray(inverse @ (db - dK @ x))

    stopping, d_stopping = np.zeros(n + r), np.zeros((m, n + r))
    places = slice(n + len(impact.A), n + len(kept))
    stopping[places] = -impact.J[own] @ impact.v
    d_stopping[:, places] = -(change.J[:, own] @ impact.v + change.v @ impact.J[own].T)
    x = inverse @ stopping
    dx = push(x[:, None], d_stopping[..., None])[..., 0]
    start, d_start = impact.v + x[:n], change.v + dx[:, :n]
    if not heavy:
        return ImpactSlopes(start, d_start, 0.0)
    J, dJ = impact.J[rows], change.J[:, rows]
    X = inverse[:, :n] @ J.T
    dX = push(X, np.concatenate([np.swapaxes(dJ, 1, 2), np.zeros((m, r, len(rows)))], axis=1))
    G, dG = J @ X[:n], dJ @ X[:n] + J @ dX[:, :n]
    u, du = J @ start, dJ @ start + d_start @ J.T
    G, dG = (G + G.T) / 2, (dG + np.swapaxes(dG, 1, 2)) / 2
    friction, restitution = impact.friction[heavy], impact.restitution[heavy]
    p, dp, error = differentiate_law(law, G, u, friction, restitution, outcome.impulses[heavy], dG, du)
    flat = p.reshape(-1)
    return ImpactSlopes(start + X[:n] @ flat, d_start + dX[:, :n] @ flat + dp.reshape(m, -1) @ X[:n].T, error)


# --- How the impulses of an impact law change with the collision: dp of changes dG and du -----------------------------
# The plastic law and Newton's, as long as their contacts do what they do, solve linear equations, and these are
# differentiated. The path of Stronge's law is not written twice: its impulses are differentiated by differences in the
# space of the contacts, at several steps, of which the two that agree best tell value and error.


STEPS = (3e-3, 3e-4, 3e-5)
"""Of differences, relative to G and u."""

SAME_RESTITUTION = 1e-9
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


def differentiate_law(
    law: Law, G: Array, u: Array, friction: Array, restitution: Array, p: Array, dG: Array, du: Array
) -> Impulses:
    """The law's impulses and their derivatives.

    Args:
        law: any impact law. G, u, friction, restitution: as :meth:`Law.impulses` takes them.
        p: the impulses that it gives, (k, 3).
        dG, du: m changes, (m, 3k, 3k) and (m, 3k).
    """
    if isinstance(law, Plastic):
        answer = active_set.solve(active_set.problem(G, u, friction))
        if answer is not None:  # else contacts wedge, and the law goes another way
            return Impulses(answer.p, _plastic(G, u, friction, answer, dG, du))
    dp = _struck_once(G, u, p, dG, du) if isinstance(law, Newton) else None
    if dp is not None:
        return Impulses(p, dp)
    return Impulses(p, *_differences(law, G, u, friction, restitution, dG, du))


def _plastic(G: Array, u: Array, friction: Array, answer: SlidingAnswer, dG: Array, du: Array) -> Array:
    """Equations of contacts that stick, slide or part: G p + u is zero along what stops, and slips go against their
    friction.

    A slip along d = (cos θ, sin θ) ends along w = (G p + u)ₜ, so that e · w = 0 with e at a right angle to d.
    """
    p, k = answer.p, len(friction)
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
    dx = _solve_scaled(R @ G @ E - np.diag(turns), missing)
    return np.asarray((dx @ E.T).reshape(len(du), k, 3))


def _struck_once(G: Array, u: Array, p: Array, dG: Array, du: Array) -> Array | None:
    """Equations of contacts that all part with the same restitution: Gₙₙ pₙ = −(1 + e) uₙ for those that are struck;
    contacts at rest stay so."""
    normal, before = p[:, 0], u[::3]
    struck = np.flatnonzero(normal)
    dp = np.zeros((len(du), *p.shape))
    if not len(struck):
        return dp
    after, small = before + G[::3, ::3] @ normal, SAME_RESTITUTION * float(np.abs(before).max())
    fastest = struck[int(np.argmin(before[struck]))]
    e = -float(after[fastest] / before[fastest]) if before[fastest] < 0 else np.nan
    if not np.abs(after[struck] + e * before[struck]).max() <= small:
        return None  # several rounds
    rows = 3 * struck
    missing = -((1 + e) * du[:, rows] + dG[:, rows][:, :, rows] @ normal[struck])
    dp[:, struck, 0] = _solve_scaled(G[np.ix_(rows, rows)], missing)
    return dp


def _differences(
    law: Law, G: Array, u: Array, friction: Array, restitution: Array, dG: Array, du: Array
) -> tuple[Array, float]:
    """dp, and by how much two steps differ, relative to its largest entry."""
    size = np.maximum(np.abs(dG).max(axis=(1, 2)) / np.abs(G).max(), np.abs(du).max(axis=1) / np.abs(u).max())

    def difference_quotients(step: float) -> Array:
        slopes = np.zeros((len(du), len(friction), 3))
        for m in np.flatnonzero(size):
            h = step / size[m]
            values = [law.impulses(G + c * h * dG[m], u + c * h * du[m], friction, restitution) for c in (-2, -1, 1, 2)]
            slopes[m] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        return slopes

    last = difference_quotients(STEPS[0])
    best, error = last, np.inf
    for step in STEPS[1:]:
        dp = difference_quotients(step)
        apart = float(np.abs(dp - last).max() / max(np.abs(dp).max(), np.finfo(float).tiny))
        best, error, last = (last, apart, dp) if apart < error else (best, error, dp)
        if error < SURE:
            break
    return best, error


def _solve_scaled(matrix: Array, right: Array) -> Array:
    """x (m, r) of matrix x = right (m, r), with rows and columns brought to one size; the smallest if not unique."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale[scale == 0] = 1.0
    even = matrix / np.outer(scale, scale)
    return np.asarray(np.linalg.lstsq(even, (right / scale).T, rcond=RANK_OF_LOADS)[0].T / scale)


# --- saltation matrices: how a small change of the state goes through an event ----------------------------------------


DIFFERENCE_STEP = 1e-5
"""Size of the differences that stand in where no formula is at hand (a controller): rad, m and per second."""


def saltation_matrix(D: Array, jump: Array, gradient: Array, rate: float) -> Array:
    """S (2nv, 2nv).

    Args:
        D: derivative of the reset, (2nv, 2nv).
        jump: f⁺ − D f⁻ − ∂R/∂t (2nv,), with f = (v, a) on either side.
        gradient: ∇γ (2nv,).
        rate: γ̇ before the event; not zero, or the event is grazed and S does not exist.
    """
    return np.asarray(D + np.outer(jump, gradient) / rate)


def derivative(function: Callable[[Array], Array], size: int, step: float = DIFFERENCE_STEP) -> Array:
    """∂f/∂d at d = 0, (m, size), by central differences of fourth order."""
    columns = []
    for e in np.eye(size) * step:
        near, far = function(e) - function(-e), function(2 * e) - function(-2 * e)
        columns.append((8 * near - far) / (12 * step))
    return np.array(columns).T
