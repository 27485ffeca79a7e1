"""How wrong each route to the accelerations may be at a state, by its own rounding. Plain floats.

Each route solves a slightly different problem exactly. With the dagger terms (without constraints M† = M⁻¹)

    |Δa| ≤ |M†| (|ΔM| |a| + |ΔA|ᵀ |f| + |Δc|) + |A†|ᵀ (|ΔA| |a| + |Δγ|)  +  what the route's own solve does

where ΔM and Δc come from forming them (:mod:`whippletree.accuracy.rounding`) and the solve adds

    cholesky    |M⁻¹| · ε |L|ᵀ|D||L| |a| (tree-sparse LᵀDL): its size is the equilibrated κ, whatever κ itself is
    schur       the same for M† and the Schur complement's factor: cholesky for models with constraints
    augmented   the same with M_ρ = M + Aᵀ R A in the place of M
    block       |K⁻¹| · ε |L||U| |x| of the pivoted elimination of the block matrix
    recursive   no matrix is formed: :mod:`whippletree.accuracy.recursion_error`

The products above are sums of many independent roundings, so they are formed by squares (:func:`together`): with sums
of absolute values they are proven, and a hundred times too large. What is predicted here bounds every error that was
measured (docs/conditioning.md); it is no theorem. Nor is :func:`residual_bound`, but it needs no theory of a route: it
bounds the error of a given acceleration by what its equations leave over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from whippletree.accuracy.recursion_error import recursion_error
from whippletree.accuracy.rounding import STEP_ROUNDING, UNIT, inverse_dynamics_rounding, mass_matrix_rounding
from whippletree.arithmetic.arrays import Array
from whippletree.constraints import kkt
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import bias_forces
from whippletree.model import Model
from whippletree.tree import inertia
from whippletree.tree.forward import forward_dynamics
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field

TREE_ROUTES = ("recursive", "cholesky", "block", "augmented")
CLOSED_ROUTES = ("schur", "block", "augmented")


def default_route(model: Model) -> str:
    """The route that forward dynamics takes: the recursion for trees, else what the masses call for."""
    if not model.constraints:
        return "recursive"
    light = bool(Mechanism.of(model).tree.doubtful) or constraint_set(model).light
    return "augmented" if light else "schur"


class System(NamedTuple):
    """The equations of one state, as floats, with bounds on the rounding that formed them."""

    M: Array
    A: Array
    """Of the independent rows, all switches on, (k, nv)."""
    C: Array
    """Compliance, (k, k)."""
    b: Array
    """tau − c, (nv,)."""
    gamma: Array
    a: Array
    f: Array
    dagger: kkt.Dagger
    """Blocks of the inverse, as floats."""
    dM: Array
    dA: Array
    dc: Array
    dgamma: Array

    @property
    def formation(self) -> Array:
        """|Δa| (nv,) from forming M, A, c and γ."""
        forces = np.sqrt(together(self.dM, self.a) ** 2 + together(self.dA.T, self.f) ** 2 + self.dc**2)
        rows = np.sqrt(together(self.dA, self.a) ** 2 + self.dgamma**2)
        return together(np.hstack([self.dagger.M, self.dagger.A.T]), np.concatenate([forces, rows]))


def together(matrix: Array, sizes: Array) -> Array:
    """√Σ (matrix · size)²: independent errors of these sizes through a matrix add up by their squares."""
    return np.asarray(np.sqrt((matrix * matrix) @ (sizes * sizes)))


def predicted_errors(
    model: Model,
    q: Any,
    v: Any = None,
    tau: Any = None,
    *,
    routes: tuple[str, ...] | None = None,
    smallest: float = 0.0,
    t: float = 0.0,
) -> Mapping[str, float]:
    """Predicted relative error ‖Δa‖ / ‖a‖ of the accelerations, by route.

    Args:
        q, v, tau: one state, (nq,), (nv,), (nv,); v and tau default to zero.
        routes: those asked for; default: all that exist for the model. ``recursive``, ``cholesky``, ``block`` and
            ``augmented`` for trees, ``schur``, ``block`` and ``augmented`` for models with constraints.
        smallest: length of a, rad/s² or m/s², below which errors are compared with this length; an equilibrium has
        none.

    Returns:
        Each at least one unit of rounding; ∞ where a route cannot work, NaN for a state with NaN.
    """
    q, v, tau = (_floats(x, n) for x, n in ((q, model.nq), (v, model.nv), (tau, model.nv)))
    chosen = routes or (CLOSED_ROUTES if model.constraints else TREE_ROUTES)
    if not all(np.all(np.isfinite(x)) for x in (q, v, tau)):
        return dict.fromkeys(chosen, np.nan)
    if not model.nv:
        return dict.fromkeys(chosen, UNIT)
    errors = absolute_errors(model, q, v, tau, chosen, t)
    return {route: max(UNIT, _relative(error, a, smallest)) for route, (error, a) in errors.items()}


def absolute_errors(
    model: Model, q: Array, v: Array, tau: Array, routes: tuple[str, ...], t: float = 0.0
) -> Mapping[str, tuple[Array, Array]]:
    """(|Δa|, a), both (nv,), by route."""
    m = Mechanism.of(model)
    links = m.moving(q.astype(object), v.astype(object))
    result: dict[str, tuple[Array, Array]] = {}
    if "recursive" in routes and model.is_flexible:
        # its own bound is written for rigid bodies: that of the factor of M, which loses more, stands for it
        found = absolute_errors(model, q, v, tau, ("cholesky",), t)["cholesky"]
        return {
            **absolute_errors(model, q, v, tau, tuple(r for r in routes if r != "recursive"), t),
            "recursive": found,
        }
    if "recursive" in routes:
        a = _recursive(m, links, tau)
        with np.errstate(all="ignore"):  # a massless motion makes NaN, which is told as an infinite error
            result["recursive"] = recursion_error(m, links, v, tau, a), a
    others = [route for route in routes if route != "recursive"]
    if others:
        never = np.full(model.nv, np.inf), np.ones(model.nv)
        try:
            s = system_at(m, links, q, v, tau, t)
        except np.linalg.LinAlgError:
            return result | dict.fromkeys(others, never)
        for route in others:
            try:
                result[route] = s.formation + SOLVES[route](s), s.a
            except np.linalg.LinAlgError:  # a factor that this route needs and that is not there: a massless link
                result[route] = never
    return result


def system_at(m: Mechanism, links: Field, q: Array, v: Array, tau: Array, t: float) -> System:
    """The equations of one state; numpy's LinAlgError if they are singular."""
    model = m.tree.model
    M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
    b = tau - bias_forces(m, links).astype(float)
    still = inverse_dynamics_rounding(m, links, v, np.zeros(model.nv))
    shaken = max((e.linear + e.angular for e in still.accelerations), default=0.0)
    A, C, gamma, dA, dgamma = _rows(m, links, q, v, t, shaken)
    n = model.nv
    K = np.block([[M, A.T], [A, -C]])
    scale = 1 / np.sqrt(np.maximum(np.abs(K).max(axis=1, initial=0.0), np.finfo(float).tiny))
    inverse = np.linalg.inv(K * np.outer(scale, scale)) * np.outer(scale, scale)
    x = inverse @ np.concatenate([b, -gamma])
    blocks = kkt.Dagger(inverse[:n, :n], inverse[n:, :n], inverse[n:, n:])
    dc = still.efforts + UNIT * np.abs(b)
    return System(M, A, C, b, gamma, x[:n], -x[n:], blocks, mass_matrix_rounding(m, links), dA, dc, dgamma)


def _rows(
    m: Mechanism, links: Field, q: Array, v: Array, t: float, shaken: float
) -> tuple[Array, Array, Array, Array, Array]:
    """A, C, γ and the errors of A and γ; a row's error is that of a path as long as the tree is deep."""
    model = m.tree.model
    if not model.constraints:
        empty = np.zeros((0, model.nv))
        return empty, np.zeros((0, 0)), np.zeros(0), empty, np.zeros(0)
    system = constraint_set(model)
    kept = list(system.structure.independent)
    rows = system.rows(m, links, q.astype(object), v.astype(object), t)
    A, gamma = rows.jacobian()[kept].astype(float), rows.bias()[kept].astype(float)
    depth = max(len(m.tree.path(k)) for k in range(len(links)))
    largest = np.abs(A).max(axis=1, keepdims=True)
    C = np.diag([float(system.compliance[i]) for i in kept]).reshape(len(kept), len(kept))
    return (
        A,
        C,
        gamma,
        STEP_ROUNDING * UNIT * np.sqrt(depth) * largest * (A != 0),
        STEP_ROUNDING * UNIT * np.abs(gamma) + shaken,
    )


def _cholesky(s: System) -> Array:
    return _by_complement(s, s.M, np.zeros(len(s.A)), 0.0)


def _augmented(s: System) -> Array:
    squares = np.einsum("ij,ij->i", s.A, s.A)
    R = kkt.row_scales(s.M, squares).astype(float) if len(s.A) else np.zeros(0)
    heavy = s.M + (s.A.T * R) @ s.A
    return _by_complement(s, heavy, R, UNIT * ((np.abs(s.A).T * R) @ np.abs(s.A) + np.abs(s.M)))


def _by_complement(s: System, heavy: Array, R: Array, formed: Any) -> Array:
    """Rounding of the solves with M (or M_ρ), tips first, and with the Schur complement."""
    own = _factor_rounding(heavy, flipped=True) + formed
    if not len(s.A):
        return together(s.dagger.M, together(own, s.a))
    W = np.linalg.solve(heavy, s.A.T)
    x = np.linalg.solve(heavy, s.b - s.A.T @ (R * s.gamma))
    S = s.A @ W + s.C
    shaken = _factor_rounding((S + S.T) / 2, flipped=False) + UNIT * STEP_ROUNDING * np.abs(s.A) @ np.abs(W)
    rows = UNIT * STEP_ROUNDING * (np.abs(s.A) @ np.abs(x) + np.abs(s.gamma)) + shaken @ np.abs(s.f)
    sizes = np.abs(x) + np.abs(W) @ np.abs(s.f)
    through = together(s.dagger.M, together(own, sizes)) + together(W @ np.linalg.inv(S), rows)
    return np.asarray(through + UNIT * sizes)


def _factor_rounding(M: Array, *, flipped: bool) -> Array:
    """ε |L||Lᵀ|, summed by squares, (n, n), of the factor that starts at the last row (``flipped``) or at the first."""
    order = slice(None, None, -1 if flipped else 1)
    L = np.linalg.cholesky(M[order, order])
    return np.asarray(GROWTH * UNIT * np.sqrt((L * L) @ (L * L).T)[order, order])


def _block(s: System) -> Array:
    from scipy.linalg import lu

    K = np.block([[s.M, s.A.T], [s.A, -s.C]])
    P, L, U = lu(K)
    own = GROWTH * UNIT * P @ together(np.sqrt((L * L) @ (U * U)), np.concatenate([s.a, s.f]))
    return together(np.concatenate([s.dagger.M, s.dagger.A.T], axis=1), own)


GROWTH = 2.0
"""Units of rounding that each product of a factorisation commits."""

SOLVES = {"cholesky": _cholesky, "schur": _cholesky, "augmented": _augmented, "block": _block}


class ResidualBound(NamedTuple):
    """A bound on the error of a given acceleration."""

    error: Array
    """|Δa| (nv,)."""
    relative: float
    """‖Δa‖ / ‖a‖."""
    residual: Array
    """tau + Aᵀ f − M a − c, (nv,)."""


def residual_bound(model: Model, q: Any, v: Any, tau: Any, a: Any, f: Any = None, *, t: float = 0.0) -> ResidualBound:
    """How wrong an acceleration can be: |M†| (|r| + |Δr|) + |A†|ᵀ (|s| + |Δs|), from what its equations leave over.

    Whoever computed a, by whatever route, in whatever precision: r is evaluated here, by inverse dynamics, and Δr
    bounds what that evaluation may be wrong by.

    Args:
        a: (nv,); f: forces of all constraint rows, as ``constraint_forces`` returns them; needed with constraints only.

    Returns:
        The bound; infinite where the equations do not determine an acceleration.
    """
    q, v, tau, a = (_floats(x, n) for x, n in ((q, model.nq), (v, model.nv), (tau, model.nv), (a, model.nv)))
    m = Mechanism.of(model)
    links = m.moving(q.astype(object), v.astype(object))
    efforts = m.join(inverse_dynamics(m.sweep, links, m.velocities(a.astype(object)), m.base)).astype(float)
    try:
        s = system_at(m, links, q, v, tau, t)
    except np.linalg.LinAlgError:
        return ResidualBound(np.full(model.nv, np.inf), np.inf, tau - efforts)
    own = np.zeros(0)
    if model.constraints:
        own = np.asarray(f, dtype=float)[list(constraint_set(model).structure.independent)]
    r = tau + s.A.T @ own - efforts
    doubt = inverse_dynamics_rounding(m, links, v, a).efforts + s.dA.T @ np.abs(own) + UNIT * np.abs(tau)
    rows = np.abs(s.A @ a + s.gamma + s.C @ own) + s.dA @ np.abs(a) + s.dgamma
    error = np.abs(s.dagger.M) @ (np.abs(r) + doubt) + np.abs(s.dagger.A).T @ rows
    return ResidualBound(error, _relative(error, a), r)


def _recursive(m: Mechanism, links: Field, tau: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return m.join(forward_dynamics(m.sweep, links, m.velocities(tau.astype(object)), m.base)).astype(float)


def _relative(error: Array, a: Array, smallest: float = 0.0) -> float:
    size, whole = max(float(np.linalg.norm(a)), smallest), float(np.linalg.norm(error))
    if not np.isfinite(size + whole):
        return np.inf
    return whole / size if size > 0 else (np.inf if whole > 0 else 0.0)


def _floats(x: Any, n: int) -> Array:
    return np.zeros(n) if x is None else np.asarray(x, dtype=float)
