"""The diagonal of the mass matrix without the matrix, and numbers that tell of its conditioning (document 004).

    I(i, i) = pᵢᵀ M̃ᵢ pᵢ        M̃ the composite inertia of everything that joint i carries        (004 eq. 11–12)

A sweep of composite inertias beside the articulated recursion is all that the diagonal costs. Ratios are formed by
selection, not by comparison, so they can be traced and compiled; of no numbers at all the ratio is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array
from whippletree.spatial import RigidInertia
from whippletree.tree.inertia import composite_inertias
from whippletree.tree.links import Link
from whippletree.tree.sweeps import Field, Sweeper

NO_INERTIA = 1e-40
"""kg m² or kg: a pivot below it is zero, or negative by rounding; in both precisions a number."""


def mass_diagonal(sweep: Sweeper, links: Field) -> Field:
    """diag M joint by joint, rotors included."""

    def own(R: RigidInertia, link: Link) -> Array:
        H = link.H
        return np.array([H[:, i] @ (R @ H[:, i]) + link.J for i in range(H.shape[1])], dtype=object)

    return sweep.map(own, composite_inertias(sweep, links), links)


def ratio(values: Sequence[Any] | Array) -> Any:
    """Largest over smallest of numbers with a positive sum: infinite where the smallest is zero, NaN with any NaN."""
    if not len(values):
        return 1
    largest = smallest = total = values[0]
    for x in values[1:]:
        largest = scalars.select(scalars.less(largest, x), x, largest)
        smallest = scalars.select(scalars.less(x, smallest), x, smallest)
        total = total + x
    # a selection may step over a NaN, a sum does not; pivots of a singular matrix are not positive
    return scalars.select(scalars.less(0, total), scalars.quotient(largest, smallest), total)


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
    found = []
    for size, reach in zip(abs(a), most, strict=True):
        there = scalars.less(0, size)
        found.append(scalars.select(there, reach / scalars.select(there, size, 1), math.inf + size))
    return np.asarray(a), np.array(found, dtype=object)
