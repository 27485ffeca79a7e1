"""Derivatives of a tree's dynamics column by column, on dual numbers: for bodies that the tangents do not know.

The recursions of :mod:`whippletree.tree.tangents` use that a displacement of q moves rigid parts rigidly; one of a
modal coordinate bends a body and changes its inertia. Here each displacement goes through inverse dynamics itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.scalars import duals, slopes
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.mechanism import Mechanism


def state_derivatives(
    m: Mechanism, function: Callable[[Array, Array], Array], q: Array, v: Array
) -> tuple[Array, Array]:
    """∂y/∂q and ∂y/∂v (rows, nv) of a function y(q, v) (rows,); q moves in the tangent space."""
    n = m.tree.model.nv
    manifold = m.manifold()
    by_q = [slopes(function(duals(q, manifold.rate(q, e)), duals(v, zeros(n)))) for e in identity(n)]
    by_v = [slopes(function(duals(q, zeros(len(q))), duals(v, e))) for e in identity(n)]
    rows = len(by_q[0]) if by_q else 0
    return _columns(by_q, rows), _columns(by_v, rows)


def joint_forces(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """M a + c (nv,)."""
    return m.join(inverse_dynamics(m.sweep, m.moving(q, v), m.velocities(a), m.base))


def _columns(found: list[Any], rows: int) -> Array:
    return np.array(found, dtype=object).reshape(len(found), rows).T
