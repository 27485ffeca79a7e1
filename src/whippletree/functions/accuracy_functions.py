"""Functions about conditioning (document 004); reports with words are in :mod:`whippletree.accuracy`."""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic import condition
from whippletree.arithmetic.arrays import Array
from whippletree.constraints import dynamics
from whippletree.functions.registry import function
from whippletree.functions.tree_functions import forward_dynamics
from whippletree.tree import diagonal, inertia
from whippletree.tree.mechanism import Mechanism


@function(diagonal=("nv",), loops=True, constraints="tree")
def diagonal_of_mass_matrix(m: Mechanism, q: Array) -> Array:
    """diag M (nv,), by composite inertias alone, O(N)."""
    return m.join(diagonal.mass_diagonal(m.sweep, m.still(q)))


@function(ratio=(), constraints="tree")
def diagonal_ratio(m: Mechanism, q: Array) -> Any:
    """δ: the largest entry of diag M over the smallest (004 §4)."""
    return diagonal.ratio(m.join(diagonal.mass_diagonal(m.sweep, m.still(q))))


@function(base_first=(), tips_first=(), constraints="tree")
def pivot_ratios(m: Mechanism, q: Array) -> tuple[Any, Any]:
    """Largest over smallest pivot of M in both orders of elimination: base first as in 004, tips first as in D."""
    M = inertia.mass_matrix(m.tree, m.sweep, m.still(q))
    return diagonal.pivot_ratios(M, m.tree.velocity_parents)


@function(kappa=(), constraints="tree")
def condition_number(m: Mechanism, q: Array) -> Any:
    """κ₂ of M; its value depends on units where they mix. Infinite where some motion has no inertia.

    Eigenvalues below n ε λ_max are rounding: ``wt.conditioning`` has more digits for badly scaled matrices.
    """
    return condition.condition_number(inertia.mass_matrix(m.tree, m.sweep, m.still(q)), definite=True)


@function(kappa=(), constraints="tree")
def equilibrated_condition_number(m: Mechanism, q: Array) -> Any:
    """κ₂ of M at unit diagonal, which is free of units and governs the rounding of factorisations."""
    M = inertia.mass_matrix(m.tree, m.sweep, m.still(q))
    return condition.condition_number(condition.equilibrated(M), definite=True)


@function(a=("nv",), amplification=("nv",), may_fail=True, constraints="honours")
def force_sensitivity(m: Mechanism, q: Array, b: Array, t: Any = 0, active: Any = None) -> tuple[Array, Array]:
    """a = M⁻¹ b (nv,) of forces b, and (|M⁻¹| |b|)ᵢ / |aᵢ| (nv,): how much relative errors of the forces grow (004
    eq. 3–4).

    Entry i is the largest relative change of acceleration i per relative change of every force; infinite where aᵢ is
    zero. With constraints M† takes the place of M⁻¹.
    """
    if m.tree.model.constraints:
        inverted = dynamics.dagger(m, q, t, active).M
    else:
        links = m.still(q)
        m.require_invertible(links)
        inverted = inertia.mass_matrix_inverse(m.tree, m.sweep, links)
    return diagonal.amplification(inverted, b)


@function(a=("nv",), diagonal=("nv",), loops=True, may_fail=True, constraints="honours")
def forward_dynamics_with_diagonal(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """a (nv,) as by ``forward_dynamics``, and diag M (nv,), from which δ is the ratio of two entries."""
    return forward_dynamics(m, q, v, tau, t, active), dynamics.mass_diagonal(m, q)


@function(a=("nv",), ratio=(), may_fail=True, constraints="honours")
def forward_dynamics_with_diagonal_ratio(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Any]:
    """a (nv,) as by ``forward_dynamics``, and the diagonal ratio δ of M, for little more."""
    own = m.join(diagonal.mass_diagonal(m.sweep, m.still(q)))
    return forward_dynamics(m, q, v, tau, t, active), diagonal.ratio(own)
