"""The rounding error of the articulated recursion: local errors of its steps, carried to the accelerations.

The recursion is not a factorisation of M. An error in the articulated inertia of a body is the exact effect of a
changed inertia of that body, one in a bias wrench that of an external wrench, and one on the way out is answered by
the joints beyond alone. So each local error reaches the accelerations through what the mechanism itself does:

    S(k) = M⁻¹ J(k)ᵀ      accelerations per wrench on body k                (nv, 6)
    T(k)                  accelerations of joint k and beyond per acceleration handed to body k, (nv, 6)

and these responses stay small where products of norms along the chain would grow without bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.accuracy.rounding import STEP_ROUNDING, UNIT, VectorSizes, inverse_dynamics_rounding
from whippletree.arithmetic.arrays import Array
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field


class RecursionPassage(NamedTuple):
    """One body of the recursion, in matrices of floats."""

    X: Array
    """φ(parent, body), (6, 6)."""
    H: Array
    P: Array
    D: Array
    K: Array
    rest: Array
    """P⁺."""


def passages(m: Mechanism, links: Field) -> list[RecursionPassage]:
    """The articulated inertias of every body; D of a massless motion is singular and gives NaN."""
    N = len(links)
    P = [np.array(link.M.dense(), dtype=float) for link in links]
    result: list[RecursionPassage | None] = [None] * N
    for k in reversed(range(N)):
        link = links[k]
        X, H = np.array(link.X.weight(), dtype=float), np.array(link.H, dtype=float)
        U = P[k] @ H
        D = H.T @ U + float(link.J) * np.eye(H.shape[1])
        K = _right_solve(U, D)
        rest = P[k] - K @ U.T
        if m.tree.parents[k] >= 0:
            P[m.tree.parents[k]] = P[m.tree.parents[k]] + X @ rest @ X.T
        result[k] = RecursionPassage(X, H, P[k], D, K, rest)
    return [p for p in result if p is not None]


def _right_solve(U: Array, D: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(D, U.T).T)
    except np.linalg.LinAlgError:
        return np.full(U.shape, np.nan)


class Responses(NamedTuple):
    """How accelerations answer; (nv, bodies, 6)."""

    S: Array
    T: Array
    inverse: Array
    """M⁻¹ (nv, nv), from the same factors."""


def responses(m: Mechanism, steps: list[RecursionPassage]) -> Responses:
    """S and T of every body, and M⁻¹, in two passes over all columns at once."""
    N, nv = len(steps), m.tree.model.nv
    width = 6 * N + nv
    wrench = [np.zeros((6, width)) for _ in range(N)]
    nu: list[Array] = [np.zeros((0, width))] * N
    for k in reversed(range(N)):
        s, part = steps[k], m.tree.v_slices[k]
        z = wrench[k]
        z[:, 6 * k : 6 * k + 6] -= np.eye(6)
        epsilon = -s.H.T @ z
        epsilon[:, 6 * N + part.start : 6 * N + part.stop] += np.eye(part.stop - part.start)
        nu[k] = _left_solve(s.D, epsilon)
        if m.tree.parents[k] >= 0:
            wrench[m.tree.parents[k]] += s.X @ (z + s.K @ epsilon)
    full = _released(m, steps, nu, None, width)
    handed = _released(m, steps, None, np.eye(6), 6 * N)
    return Responses(full[:, : 6 * N].reshape(nv, N, 6), handed.reshape(nv, N, 6), full[:, 6 * N :])


def _left_solve(D: Array, epsilon: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(D, epsilon))
    except np.linalg.LinAlgError:
        return np.full(epsilon.shape, np.nan)


def _released(
    m: Mechanism, steps: list[RecursionPassage], nu: list[Array] | None, injected: Array | None, width: int
) -> Array:
    """Joint accelerations (nv, width) of the pass outwards, with joint terms ν or with α⁺ injected body by body."""
    result = np.zeros((m.tree.model.nv, width))
    alphas: list[Array] = []
    for k, s in enumerate(steps):
        parent = m.tree.parents[k]
        alpha = s.X.T @ alphas[parent] if parent >= 0 else np.zeros((6, width))
        if injected is not None:
            alpha[:, 6 * k : 6 * k + 6] += injected
        qdd = -s.K.T @ alpha if nu is None else nu[k] - s.K.T @ alpha
        result[m.tree.v_slices[k]] = qdd
        alphas.append(alpha + s.H @ qdd)
    return result


def recursion_error(m: Mechanism, links: Field, v: Array, tau: Array, a: Array) -> Array:
    """|Δa| (nv,): what the articulated recursion may be wrong by at a state with accelerations a."""
    steps = passages(m, links)
    answer = responses(m, steps)
    wrenches, handed, direct = _local_errors(m, links, steps, v, a)
    torque = np.abs(answer.inverse) @ (UNIT * np.abs(tau))
    return np.asarray(_reach(answer.S, wrenches) + _reach(answer.T, handed) + torque + direct)


def _local_errors(
    m: Mechanism, links: Field, steps: list[RecursionPassage], v: Array, a: Array
) -> tuple[Array, Array, Array]:
    """Errors of wrenches on bodies (bodies, 6), of accelerations handed to them (bodies, 6), and of joints (nv,).

    Entry by entry, since none is carried further here: a planar chain's large inertias out of its plane disturb
    nothing.
    """
    forces = inverse_dynamics_rounding(m, links, v, a)
    alphas = _accelerations(m, links, steps, a)
    wrenches, handed = np.zeros((len(links), 6)), np.zeros((len(links), 6))
    direct = np.zeros(m.tree.model.nv)
    for k, s in enumerate(steps):
        part, parent = m.tree.v_slices[k], m.tree.parents[k]
        above = np.abs(alphas[parent] if parent >= 0 else np.array(m.base, dtype=float))
        before, X = np.abs(alphas[k] - s.H @ a[part]), np.abs(s.X)
        # errors of V reach the recursion through a and b
        handed[k] += _entries(forces.biases[k][0]) + STEP_ROUNDING * UNIT * (before + X.T @ above)
        wrenches[k] += _entries(forces.biases[k][1])
        # P⁺ as it is formed, and P of the parent as it is summed
        lost = np.abs(s.P) + np.abs(s.K) @ np.abs(s.H.T @ s.P)
        wrenches[k] += STEP_ROUNDING * UNIT * (lost @ before + np.abs(s.P) @ np.abs(alphas[k]))
        if parent >= 0:
            wrenches[parent] += STEP_ROUNDING * UNIT * X @ np.abs(s.rest) @ X.T @ above
        direct[part] += STEP_ROUNDING * UNIT * _joint_solve(s, np.abs(a[part]) + np.abs(s.K.T) @ before)
        for child in (j for j, up in enumerate(m.tree.parents) if up == k):
            # a joint's own error is part of the acceleration that its body hands on
            handed[child] += np.abs(steps[child].X).T @ (np.abs(s.H) @ direct[part])
    return wrenches, handed, direct


def _entries(sizes: VectorSizes) -> Array:
    return np.repeat([sizes.angular, sizes.linear], 3)


def _joint_solve(s: RecursionPassage, nu: Array) -> Array:
    """What solving with D does to numbers of the size of ν: more than one freedom may amplify each other's errors."""
    root = np.sqrt(np.diag(s.D))
    return np.asarray(nu + np.abs(_left_solve(s.D, np.diag(root))) @ (root * nu))


def _accelerations(m: Mechanism, links: Field, steps: list[RecursionPassage], a: Array) -> list[Array]:
    alphas: list[Array] = []
    for k, (link, s) in enumerate(zip(links, steps, strict=True)):
        parent = m.tree.parents[k]
        above = alphas[parent] if parent >= 0 else np.array(m.base, dtype=float)
        own = np.zeros(6) if np.ndim(link.a) == 0 else np.array(link.a, dtype=float)
        alphas.append(s.X.T @ above + own + s.H @ a[m.tree.v_slices[k]])
    return alphas


def _reach(response: Array, sizes: Array) -> Array:
    """Σ over bodies of |response| · size."""
    return np.asarray(np.abs(response).reshape(len(response), -1) @ sizes.reshape(-1))
