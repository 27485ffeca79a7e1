"""Projectors of document 001, and inverse dynamics under constraints. Given matrices in, matrices out; numbers of
any kind.

    A#    = M⁻¹ Aᵀ (A M⁻¹ Aᵀ)⁻¹      weighted pseudo-inverse; it is A†ᵀ of 000, which exists for massless links too
    1 − A# A                         null-space projector: the part of a velocity that the constraints allow
    P_S   = M M† = 1 − Aᵀ A†         Schur projector: P_S (M a + h) = 0 is the dynamics without reaction forces
    P_QR  = S₂ Qᵀ, Aᵀ = Q [R; 0]     QR projector: the same in n − m equations, with Q₂ᵀ = P_QR orthonormal

(001 prints the Schur complement as Jᵀ H⁻¹ J; it is J H⁻¹ Jᵀ.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree import kkt, linalg
from whippletree.constrained import RANK_TOLERANCE
from whippletree.constraints.system import constraint_set
from whippletree.errors import ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Array, Model
from whippletree.spatial import identity, zeros
from whippletree.tree import inertia, inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton


def weighted_pseudo_inverse(M: Array, A: Array) -> Array:
    """A# (n, m) with A A# = 1: of all right inverses, the one that moves the least kinetic energy."""
    return kkt.dagger(_factor(M, A), len(M), len(A)).A.T


def null_projector(M: Array, A: Array) -> Array:
    """1 − A# A (n, n): removes from a velocity what the constraints forbid."""
    return np.asarray(identity(len(M)) - weighted_pseudo_inverse(M, A) @ A)


def schur_projector(M: Array, A: Array) -> Array:
    """P_S = M M† (n, n): removes constraint forces from a balance of forces; P_S Aᵀ = 0."""
    return np.asarray(np.asarray(M, dtype=object) @ kkt.dagger(_factor(M, A), len(M), len(A)).M)


def qr_projector(A: Array, *, rank_tolerance: float = RANK_TOLERANCE) -> Array:
    """P_QR (n − r, n), rows orthonormal: P_QR Aᵀ = 0, whatever the masses, also for redundant rows."""
    qr = linalg.pivoted_qr(np.asarray(A, dtype=object).T)
    return np.asarray(qr.Q[:, qr.rank(rank_tolerance) :].T)


def _factor(M: Array, A: Array) -> kkt.Augmented:
    return kkt.augmented(np.asarray(M, dtype=object), np.asarray(A, dtype=object))


@dataclass(frozen=True)
class ConstrainedInverse:
    """Joint forces for a desired motion under constraints."""

    tau: Array
    """(nv,), zero for joints that are not actuated."""
    forces: Array
    """f of all rows (m,), M a + c = tau + Aᵀ f; zero for redundant rows."""
    a: Array
    """The motion that results (nv,), which is the desired one where it can be had."""
    free: Array
    """Allowed motions d (nv, k) along which no actuator pushes, so that dᵀ M a cannot be chosen."""
    spare: int
    """How many directions of actuator forces have no effect on the motion; weights settle them."""
    shortfall: float
    """Size of desired − a in the metric of the mass matrix, √(kg) m/s²; 0 where the motion can be had."""


def inverse_dynamics_under_constraints(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    *,
    actuated: Sequence[str] | None = None,
    weights: Any = None,
    t: float = 0.0,
    rank_tolerance: float = RANK_TOLERANCE,
) -> ConstrainedInverse:
    """Actuator forces and constraint forces for a desired motion, by the QR projector.

    P_QR (M a + c) = P_QR B u has as many equations as there are freedoms, and none of the reaction forces. Fully
    actuated systems have one u; over-actuated ones are given the least Σ wᵢ uᵢ²; under-actuated ones the u whose
    motion is closest to the desired one in the metric of M (Gauss), and the accelerations that no actuator can
    change are returned.

    Args:
        model: with or without constraints, a floating base included; switchable constraints count as on.
        q, v: (nq,), (nv,).
        a: the desired accelerations (nv,); the part that the constraints forbid is projected away.
        actuated: names of joints that have actuators; default: all but free joints.
        weights: of the squares of the actuator forces, one per actuated velocity (k,); default 1. Where newtons meet
            newton metres, say how they compare.
        t: time, for constraints that depend on it.
        rank_tolerance: relative size below which a direction counts as dependent.
    """
    state = _State(model, q, v, t)
    desired = _vector("a", a, model.nv)
    columns = _actuators(model, actuated)
    B = np.eye(model.nv)[:, columns]
    w = np.ones(len(columns)) if weights is None else _vector("weights", weights, len(columns))
    if not np.all(w > 0):
        raise UnsupportedError("inverse_dynamics_under_constraints: every weight must be positive")
    Q2 = np.array(qr_projector(state.A, rank_tolerance=rank_tolerance), dtype=float)
    reach = Q2 @ B
    # accelerations that the constraints allow: a particular one, and what Q₂ᵀ y adds
    particular = _least_norm(state.A, -state.gamma, rank_tolerance)
    reduced = Q2 @ state.M @ Q2.T
    y_wanted = Q2 @ (desired - particular)
    # reduced ÿ + rest = reach u: the part of the wanted ÿ that some u can cause, closest in the metric of the mass
    # matrix
    rest = Q2 @ (state.M @ particular + state.c)
    L = _cholesky(reduced, model)
    caused = np.linalg.solve(L, reach)
    wanted = L.T @ y_wanted + np.linalg.solve(L, rest)
    scaled = caused / np.sqrt(w)
    U, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    rank = int(np.sum(s > rank_tolerance * s[0])) if s.size and s[0] > 0 else 0
    u = Vt[:rank].T @ ((U[:, :rank].T @ wanted) / s[:rank]) / np.sqrt(w)
    y = np.linalg.solve(L.T, caused @ u - np.linalg.solve(L, rest))
    reached = particular + Q2.T @ y
    tau = B @ u
    forces = _least_norm(state.A.T, state.M @ reached + state.c - tau, rank_tolerance)
    every = np.zeros(state.rows)
    every[state.kept] = forces
    idle = Q2.T @ np.linalg.solve(L.T, U[:, rank:])
    shortfall = float(np.linalg.norm(L.T @ (y_wanted - y)))
    return ConstrainedInverse(tau, every, reached, idle, len(columns) - rank, shortfall)


class _State:
    """The matrices of a model at a state, in floats."""

    def __init__(self, model: Model, q: Any, v: Any, t: float) -> None:
        at = np.array(q, dtype=float).astype(object)
        rates = _vector("v", v, model.nv).astype(object)
        m = Mechanism(skeleton(model))
        links = m.moving(at, rates)
        still = m.sweep.map(lambda link: zeros(link.H.shape[1]), links)
        self.M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
        self.c = m.join(inverse.inverse_dynamics(m.sweep, links, still, m.base)).astype(float)
        system = constraint_set(model)
        rows = system.rows(m, links, at, rates, t)
        self.rows = len(system.row_names)
        self.kept = list(system.structure.independent) if self.rows else []
        if any(system.compliance[i] for i in self.kept):
            raise UnsupportedError("inverse_dynamics_under_constraints: compliant constraints are not supported")
        self.A = rows.jacobian().astype(float)[self.kept]
        self.gamma = rows.bias().astype(float)[self.kept]


def _cholesky(reduced: Array, model: Model) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(reduced))
    except np.linalg.LinAlgError:
        raise SingularSystemError(
            f"model {model.name!r}: some motion that the constraints allow has no inertia (condition (32)): "
            f"wt.diagnose(model, q) names it"
        ) from None


def _actuators(model: Model, actuated: Sequence[str] | None) -> list[int]:
    names = [j.name for j in model.joints if j.kind != "free"] if actuated is None else actuated
    return [i for name in names for i in range(model.slice(name).start, model.slice(name).stop)]


def _least_norm(A: Array, b: Array, rank_tolerance: float) -> Array:
    """The least-norm x with A x = b in the least-squares sense."""
    return np.asarray(np.linalg.lstsq(A, b, rcond=rank_tolerance)[0]) if A.size else np.zeros(A.shape[1])


def _vector(name: str, values: Any, size: int) -> Array:
    array = np.array(values, dtype=float)
    if array.shape != (size,):
        raise ShapeError(f"inverse_dynamics_under_constraints: {name} has shape {array.shape}, expected ({size},)")
    return array
