"""The implicit midpoint rule of mechanics, on any scalar: one step whose energy error stays bounded.

In coordinates and momenta p = M(q) v, with everything in the middle of the step (index m) and impulses λ, μ of the
constraints at its two ends,

    q⁺ = q ⊕ h vₘ        M(qₘ) vₘ = p + h/2 F + Aᵀ(q) λ        g(q⁺, t⁺) = 0
    p⁺ = p + h F + Aᵀ(q) λ        M(q⁺) v⁺ = p⁺ + Aᵀ(q⁺) μ        A(q⁺) v⁺ + gₜ = 0

where qₘ = q ⊕ h/2 vₘ and F = Ṁ v − c + τ at (qₘ, vₘ): the force ∂L/∂q of the Lagrangian, and what acts beside it.

It is the variational integrator of the midpoint rule (the stationary point of Σ h L(qₘ, vₘ) over paths through the
nodes, with the constraints at the nodes): symplectic, symmetric and of second order, if all joints have q̇ = v. With
spherical and free joints it is symmetric and of second order only; a single body then keeps its energy exactly.
Nothing is inverted but the block matrix, so massless links do not disturb it. Velocity rows hold at qₘ and at q⁺: with
them too the step is symmetric.

The equations for vₘ and λ are solved by a fixed-point iteration that gains a factor O(h) per round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.dual_numbers import duals, slopes
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import bias_forces, closed
from whippletree.tree import forward, inverse
from whippletree.tree.mechanism import Mechanism

Forces: TypeAlias = Callable[[Any, Array, Array], Array]
"""τ(t, q, v) (nv,): all joint forces."""


class MidpointStart(NamedTuple):
    """Where a step starts."""

    q: Array
    p: Array
    """M v (nv,)."""
    A: Array
    """The factored rows, (k, nv); no rows without constraints."""


class Middle(NamedTuple):
    """The unknowns of a step."""

    v: Array
    """In the middle of the step, (nv,)."""
    impulses: Array
    """Of the factored rows, (k,)."""


def begin(m: Mechanism, q: Array, v: Array, t: Any, active: Any) -> MidpointStart:
    """Quantities at the start of a step."""
    return MidpointStart(q, momentum(m, q, v), _rows(m, q, t, active))


def improve_middle(
    m: Mechanism, forces: Forces, start: MidpointStart, now: Middle, t: Any, h: Any, active: Any
) -> Middle:
    """One round of the iteration."""
    q = m.manifold().integrate(start.q, h / 2 * now.v)
    b = start.p + h / 2 * _force(m, forces, t + h / 2, q, now.v)
    if not m.tree.model.constraints:
        return Middle(_velocity(m, q, b), now.impulses)
    still = now.v * 0
    at = closed(m, m.moving(q, still), q, still, t + h / 2, active, fixed_rows=True)
    # position rows are linearised about the end that vₘ leads to; the matrix takes A(qₘ) for A(q) and A(q⁺)
    end = m.manifold().integrate(start.q, h * now.v)
    gamma = at.rows.velocity()
    rows = at.system.rows(m, m.still(end), end, None, t + h)
    gamma[list(at.system.position_rows)] = rows.residual() / h
    gamma = at.right(gamma) - _by_position(m) * (at.A @ now.v)
    found = at.factor.solve(b + (start.A - at.A).T @ now.impulses, gamma)
    return Middle(found.a, found.f)


def end(
    m: Mechanism, forces: Forces, start: MidpointStart, now: Middle, t: Any, h: Any, active: Any
) -> tuple[Array, Array]:
    """The state (q⁺, v⁺) at the end of a step whose middle is known."""
    q = m.manifold().integrate(start.q, h / 2 * now.v)
    p = start.p + h * _force(m, forces, t + h / 2, q, now.v)
    last = m.manifold().integrate(start.q, h * now.v)
    if not m.tree.model.constraints:
        return last, _velocity(m, last, p)
    p, still = p + start.A.T @ now.impulses, now.v * 0
    at = closed(m, m.moving(last, still), last, still, t + h, active, fixed_rows=True)
    return last, at.factor.solve(p, at.right(at.rows.velocity())).a


def momentum(m: Mechanism, q: Array, v: Array) -> Array:
    """M v (nv,), by the recursion of inverse dynamics: no matrix is formed."""
    return m.join(inverse.inverse_dynamics(m.sweep, m.still(q), m.velocities(v), zeros(6)))


def lagrangian_force(m: Mechanism, q: Array, v: Array) -> Array:
    """Ṁ v − c (nv,): ∂L/∂q in plain coordinates; of body velocities, that and their gyroscopic terms."""
    moving = duals(q, m.manifold().rate(q, v))
    return np.asarray(slopes(momentum(m, moving, duals(v, v * 0))) - bias_forces(m, m.moving(q, v)))


def _force(m: Mechanism, forces: Forces, t: Any, q: Array, v: Array) -> Array:
    return lagrangian_force(m, q, v) + forces(t, q, v)


def _velocity(m: Mechanism, q: Array, p: Array) -> Array:
    """M⁻¹ p (nv,), in O(N)."""
    links = m.still(q)
    freedoms = forward.articulate(m.sweep, links, m.velocities(p))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, zeros(6)))


def _rows(m: Mechanism, q: Array, t: Any, active: Any) -> Array:
    """The factored rows of A at a configuration, zeros where switched off, (k, nv)."""
    if not m.tree.model.constraints:
        return zeros(0, m.tree.model.nv)
    system = constraint_set(m.tree.model)
    kept = list(system.structure.independent)
    A = system.rows(m, m.still(q), q, None, t).jacobian()[kept]
    mask = system.mask(active)
    return A if mask is None else (A.T * mask[kept]).T


def _by_position(m: Mechanism) -> Array:
    """1 for factored rows at position level, 0 for those at velocity level, (k,)."""
    system = constraint_set(m.tree.model)
    entries = zeros(len(system.structure.independent))
    for k, i in enumerate(system.structure.independent):
        entries[k] = int(i in system.position_rows)
    return entries
