"""The mass matrix and its inverse, each by more than one road, and what its entries tell of its conditioning.

mass_matrix                composite inertias R (002: the Lyapunov equation), O(N · depth) mass_matrix_columns
inverse dynamics of unit accelerations: the same matrix, for comparison solve                      M⁻¹ b by the
articulated recursion, O(N), no matrix formed mass_matrix_inverse        M⁻¹ column by column; zeros of a unit force
fold away along other branches operational_inverse        J M⁻¹ Jᵀ of a frame without forming M: unit wrenches on it,
and how it accelerates mass_diagonal              diag M without the matrix, for its conditioning (document 004)

    I(i, i) = pᵢᵀ M̃ᵢ pᵢ        M̃ the composite inertia of everything that joint i carries        (004 eq. 11–12)

A sweep of composite inertias beside the articulated recursion is all that the diagonal costs. Ratios are formed by
selection, not by comparison, so they can be traced and compiled; of no numbers at all the ratio is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.spatial import RigidInertia
from whippletree.tree.forward import forward_dynamics
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.links import Link, add_wrenches, joint_zeros, transform_inertia
from whippletree.tree.skeleton import Place, Skeleton
from whippletree.tree.sweeps import Field, Sweeper


def composite_inertias(sweep: Sweeper, links: Field) -> Field:
    """R = M + Σ φ R φ*: the inertia of each body with everything that it carries, if its joints were frozen."""

    def lump(children: Any, link: Link) -> tuple[Any, Any]:
        R = link.M + children
        return transform_inertia(R, link.X), R

    return sweep.gather(lump, RigidInertia.nothing(), links)


def mass_matrix(tree: Skeleton, sweep: Sweeper, links: Field) -> Array:
    """M (nv, nv) from composite inertias: M(j, k) = H(j) φ(j, k) R(k) H*(k) for k below j, 0 for unrelated pairs."""
    M = zeros(tree.model.nv, tree.model.nv)
    for k, R in enumerate(composite_inertias(sweep, links)):
        own = tree.v_slices[k]
        H = links[k].H
        forces = [R @ H[:, i] for i in range(H.shape[1])]
        for i, f in enumerate(forces):
            for j in range(i, len(forces)):
                M[own.start + i, own.start + j] = M[own.start + j, own.start + i] = H[:, j] @ f
            M[own.start + i, own.start + i] = M[own.start + i, own.start + i] + links[k].J
        below = k
        for j in tree.path(tree.parents[k]):
            forces = [links[below].X.force(f) for f in forces]
            part = tree.v_slices[j]
            for i, f in enumerate(forces):
                M[part, own.start + i] = M[own.start + i, part] = links[j].H.T @ f
            below = j
    return M


def mass_matrix_columns(tree: Skeleton, sweep: Sweeper, links: Field) -> Array:
    """M (nv, nv), each column the joint forces of a unit acceleration at rest without gravity."""
    still = sweep.map(_at_rest, links)
    columns = [
        np.concatenate(inverse_dynamics(sweep, still, [e[part] for part in tree.v_slices], zeros(6)))
        for e in identity(tree.model.nv)
    ]
    return np.array(columns, dtype=object).reshape(tree.model.nv, tree.model.nv).T  # there may be no column


def solve(tree: Skeleton, sweep: Sweeper, links: Field, b: Array) -> Array:
    """M⁻¹ b (nv,) by the articulated recursion."""
    still = sweep.map(_at_rest, links)
    return np.concatenate([zeros(0), *forward_dynamics(sweep, still, [b[part] for part in tree.v_slices], zeros(6))])


def mass_matrix_inverse(tree: Skeleton, sweep: Sweeper, links: Field) -> Array:
    """M⁻¹ (nv, nv): one triangle from the tree-sparse factors of M, L⁻¹ D⁻¹ L⁻ᵀ."""
    factor = linalg.tree_ltdl(mass_matrix(tree, sweep, links), tree.velocity_parents, lenient=True)
    n = tree.model.nv
    inverse = factor.forward(identity(n))  # L⁻¹, with the zeros of unrelated pairs
    return linalg.symmetric_product(inverse, inverse * factor.reciprocals)


def operational_inverse(tree: Skeleton, sweep: Sweeper, links: Field, places: list[Place]) -> Array:
    """J M⁻¹ Jᵀ (6 f, 6 f) of the stacked Jacobians of f frames: column by column, a unit wrench and what it moves."""
    still = sweep.map(_at_rest, links)
    nothing = joint_zeros(sweep, links)
    columns = []
    for place in places:
        for e in identity(6):
            wrenches = [place.pose.force(e) if k == place.node else zeros(6) for k in range(len(links))]
            qdd = forward_dynamics(sweep, add_wrenches(sweep, still, wrenches), nothing, zeros(6))
            moved = _accelerations(tree, still, qdd)
            columns.append(np.concatenate([p.pose.motion(moved[p.node]) if p.node >= 0 else zeros(6) for p in places]))
    return np.stack(columns, axis=1)


def _accelerations(tree: Skeleton, links: Field, qdd: Field) -> list[Any]:
    moved: list[Any] = []
    for parent, link, own in zip(tree.parents, links, qdd, strict=True):
        below = link.X.motion(moved[parent]) if parent >= 0 else zeros(6)
        moved.append(below + link.H @ own)
    return moved


def _at_rest(link: Link) -> Link:
    """The link without its velocity terms, nor its velocity."""
    return link.at_rest()._replace(V=0)


# --- the diagonal without the matrix, and numbers that tell of conditioning -------------------------------------------


NO_INERTIA = 1e-40
"""kg m² or kg: a pivot below it is zero, or negative by rounding; in both precisions a number."""


def mass_diagonal(sweep: Sweeper, links: Field) -> Field:
    """diag M joint by joint, rotors included."""

    def own(R: RigidInertia, link: Link) -> Array:
        H = link.H
        return np.array([H[:, i] @ (R @ H[:, i]) + link.J for i in range(H.shape[1])], dtype=object)

    return sweep.map(own, composite_inertias(sweep, links), links)


class Extremes(NamedTuple):
    """Extremes of numbers looked at one by one."""

    largest: Any
    smallest: Any
    total: Any


def widened(so_far: Extremes, x: Any) -> Extremes:
    """The extremes of some numbers and one more."""
    largest = scalars.select(scalars.less(so_far.largest, x), x, so_far.largest)
    smallest = scalars.select(scalars.less(x, so_far.smallest), x, so_far.smallest)
    return Extremes(largest, smallest, so_far.total + x)


def ratio_of(found: Extremes) -> Any:
    """Largest over smallest of numbers with a positive sum: infinite where the smallest is zero, NaN with any NaN."""
    # a selection may step over a NaN, a sum does not; pivots of a singular matrix are not positive
    return scalars.select(scalars.less(0, found.total), scalars.quotient(found.largest, found.smallest), found.total)


def ratio(values: Sequence[Any] | Array) -> Any:
    """Largest over smallest of some numbers (:func:`ratio_of`); 1 of none."""
    if not len(values):
        return 1
    found = Extremes(*[values[0]] * 3)
    for x in values[1:]:
        found = widened(found, x)
    return ratio_of(found)


def pivot_ratios(M: Array, parents: Sequence[int]) -> tuple[Any, Any]:
    """Largest over smallest pivot when M is eliminated base first, as in 004, and tips first.

    Tips first the pivots are those of the articulated recursion, D; for joints of several freedoms, of D's own factors.
    """
    base_first = linalg.ldlt(M, lenient=True).pivots
    tips_first = linalg.tree_ltdl(M, parents, lenient=True).pivots
    return _of_pivots(base_first), _of_pivots(tips_first)


def _of_pivots(pivots: Array) -> Any:
    """Infinite where elimination meets a motion without inertia: the pivots behind it mean nothing."""
    result = ratio(pivots)
    for pivot in pivots:
        result = scalars.select(scalars.less(pivot, NO_INERTIA), math.inf, result)
    return result


def amplification(inverted: Array, forces: Array) -> tuple[Array, Array]:
    """a = M⁻¹ φ (n,) and (|M⁻¹| |φ|)ᵢ / |aᵢ| (n,), the growth of relative errors entry by entry (004 eq. 3–4)."""
    a = inverted @ forces
    most = abs(inverted) @ abs(forces)
    return np.asarray(a), np.array([growth_of_errors(*own) for own in zip(a, most, strict=True)], dtype=object)


def growth_of_errors(a: Any, reach: Any) -> Any:
    """``reach`` / |a|: infinite where a is 0."""
    size = abs(a)
    there = scalars.less(0, size)
    return scalars.select(there, reach / scalars.select(there, size, 1), math.inf + size)
