"""How wrong each route to the accelerations may be at a state, by its own rounding. Plain floats.

The route is evaluated once with numbers that remember how they were computed
(:mod:`whippletree.arithmetic.rounding_tape`): Σ |∂a/∂xₖ| (u |xₖ| + rₖ) over all operations k is the most that rounding
can do to an acceleration, with rₖ for products of errors. That holds for every route, since nothing is assumed of any:

    recursive   the articulated recursion of a tree
    cholesky    tree-sparse LᵀDL of M: its error follows the equilibrated κ, whatever κ itself is
    schur       cholesky for models with constraints, and the Schur complement
    augmented   the same with M_ρ = M + Aᵀ R A in the place of M
    block       pivoted elimination of the block matrix

and whichever other one of :data:`whippletree.constraints.route_choice.ROUTES` is named. Where something is divided by a
number of which rounding leaves no digit for certain, none is promised (∞). :func:`residual_bound` needs no route: it
bounds the error of a given acceleration by what its equations leave over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.rounding_tape import HALF_UNIT, RoundingTape
from whippletree.constraints import dynamics, kkt, route_choice
from whippletree.constraints.constraint_set import constraint_set
from whippletree.errors import SingularSystemError
from whippletree.model import Model
from whippletree.model.parameters import with_scalars
from whippletree.tree import inertia
from whippletree.tree.forward import forward_dynamics
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

TREE_ROUTES = ("recursive", "cholesky", "block", "augmented")
CLOSED_ROUTES = ("schur", "block", "augmented")


def default_route(model: Model) -> str:
    """The route that forward dynamics takes: the recursion for trees, else what the mechanism calls for."""
    if not model.constraints:
        return "recursive"
    return route_choice.default_route(Mechanism.of(model), constraint_set(model))


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
    """Predicted error ‖Δa‖ of the accelerations relative to true ones, by route.

    Args:
        q, v, tau: one state, (nq,), (nv,), (nv,); v and tau default to zero.
        routes: those asked for; default: ``recursive``, ``cholesky``, ``block`` and ``augmented`` for trees, ``schur``,
            ``block`` and ``augmented`` for models with constraints.
        smallest: length of a, rad/s² or m/s², below which errors are compared with this length; an equilibrium has
            none.

    Returns:
        Each at least one unit of rounding; ∞ where a route cannot work or leaves no digit, NaN for a state with NaN.
    """
    q, v, tau = (_floats(x, n) for x, n in ((q, model.nq), (v, model.nv), (tau, model.nv)))
    chosen = routes or (CLOSED_ROUTES if model.constraints else TREE_ROUTES)
    if not all(np.all(np.isfinite(x)) for x in (q, v, tau)):
        return dict.fromkeys(chosen, np.nan)
    if not model.nv:
        return dict.fromkeys(chosen, HALF_UNIT)
    errors = {route: absolute_error(model, route, q, v, tau, t) for route in chosen}
    return {route: max(HALF_UNIT, _relative(error, a, smallest)) for route, (error, a) in errors.items()}


def absolute_error(model: Model, route: str, q: Array, v: Array, tau: Array, t: float = 0.0) -> tuple[Array, Array]:
    """(|Δa|, a), both (nv,), of one route; an infinite error where the route has no answer."""
    tape = RoundingTape()
    m = Mechanism(skeleton(with_scalars(model, tape.number)), route=route if model.constraints else None)
    state = tape.numbers(q), tape.numbers(v), tape.numbers(tau)
    try:
        with np.errstate(all="ignore"):  # a massless motion makes NaN, which is told as an infinite error
            a = accelerations(m, route, *state, t)
    except (SingularSystemError, ZeroDivisionError):
        return np.full(model.nv, np.inf), np.ones(model.nv)
    if not all(pivot > 0 for _, pivot in m.margins):
        return np.full(model.nv, np.inf), np.ones(model.nv)
    return tape.errors_of(a), np.array([float(x) for x in a])


def accelerations(m: Mechanism, route: str, q: Array, v: Array, tau: Array, t: Any = 0) -> Array:
    """The accelerations (nv,) by one route, on any scalar."""
    tree, model = m.tree, m.tree.model
    if model.constraints:
        return dynamics.solve(m, q, v, tau, t, None)[0]
    links = m.moving(q, v)
    if route == "recursive":
        return m.join(forward_dynamics(m.sweep, links, m.velocities(tau), m.base))
    M, b = inertia.mass_matrix(tree, m.sweep, links), tau - dynamics.bias_forces(m, links)
    if route == "cholesky":
        return linalg.tree_ltdl(M, tree.velocity_parents).solve(b)
    factor: kkt.Factored = (kkt.block if route == "block" else kkt.augmented)(M, zeros(0, model.nv))
    return factor.solve(b, zeros(0)).a


class ResidualBound(NamedTuple):
    """A bound on the error of a given acceleration."""

    error: Array
    """|Δa| (nv,)."""
    relative: float
    """‖Δa‖ relative to the acceleration that is true; ∞ where nothing of it is known."""
    residual: Array
    """tau + Aᵀ f − M a − c, (nv,)."""


def residual_bound(model: Model, q: Any, v: Any, tau: Any, a: Any, f: Any = None, *, t: float = 0.0) -> ResidualBound:
    """How wrong an acceleration can be, from what its equations leave over: ``|M†| (|r| + |Δr|) + |A†|ᵀ (|s| + |Δs|)``.

    Whoever computed a, by whatever route, in whatever precision: r = tau + Aᵀ f − M a − c and s = A a + γ + C f are
    evaluated here, and Δ bounds what that evaluation may be wrong by.

    Args:
        a: (nv,); f: forces of all constraint rows, as ``constraint_forces`` returns them; needed with constraints only.

    Returns:
        The bound; infinite where the equations do not determine an acceleration.
    """
    q, v, tau, a = (_floats(x, n) for x, n in ((q, model.nq), (v, model.nv), (tau, model.nv), (a, model.nv)))
    tape = RoundingTape()
    m = Mechanism(skeleton(with_scalars(model, tape.number)))
    at, speed, load, moved = (tape.numbers(x) for x in (q, v, tau, a))
    links = m.moving(at, speed)
    r = load - m.join(inverse_dynamics(m.sweep, links, m.velocities(moved), m.base))
    A, s, C = zeros(0, model.nv), zeros(0), zeros(0, 0)
    if model.constraints:
        system = constraint_set(model)
        kept = list(system.structure.independent)
        rows = system.rows(m, links, at, speed, t)
        own = tape.numbers(np.asarray(f, dtype=float)[kept])
        soft = np.array([system.compliance[i] for i in kept], dtype=object)
        A, C = rows.jacobian()[kept], np.diag(soft)
        r, s = r + A.T @ own, A @ moved + rows.bias()[kept] + soft * own
    M = inertia.mass_matrix(m.tree, m.sweep, links)
    left, short = r.astype(float), s.astype(float)
    try:
        dagger = _inverse_blocks(M.astype(float), A.astype(float), C.astype(float))
    except np.linalg.LinAlgError:
        return ResidualBound(np.full(model.nv, np.inf), np.inf, left)
    error = np.abs(dagger.M) @ (np.abs(left) + tape.errors_of(r))
    error = error + np.abs(dagger.A).T @ (np.abs(short) + tape.errors_of(s))
    return ResidualBound(error, _relative(error, a), left)


def _inverse_blocks(M: Array, A: Array, C: Array) -> kkt.Dagger:
    """M†, A†, Λ† as floats; numpy's LinAlgError where there are none."""
    K, n = np.block([[M, A.T], [A, -C]]), len(M)
    scale = 1 / np.sqrt(np.maximum(np.abs(K).max(axis=1, initial=0.0), np.finfo(float).tiny))
    inverse = np.linalg.inv(K * np.outer(scale, scale)) * np.outer(scale, scale)
    return kkt.Dagger(inverse[:n, :n], inverse[n:, :n], inverse[n:, n:])


def _relative(error: Array, a: Array, smallest: float = 0.0) -> float:
    """‖Δa‖ / ‖a + Δa‖ at most: relative to what is true, of which at least ‖a‖ − ‖Δa‖ is left."""
    size, whole = float(np.linalg.norm(a)), float(np.linalg.norm(error))
    if not np.isfinite(size + whole):
        return np.inf
    true_size = max(size - whole, smallest)
    return whole / true_size if true_size > 0 else (np.inf if whole > 0 else 0.0)


def _floats(x: Any, n: int) -> Array:
    return np.zeros(n) if x is None else np.asarray(x, dtype=float)
