"""Derivatives of inverse and forward dynamics, by recursions over the tree and not by differentiating their code.

Those of inverse dynamics are what :mod:`whippletree.tree.tangents` finds joint by joint. Forward dynamics follows from
inverse dynamics: ∂a/∂q = −M⁻¹ ∂τ/∂q at the accelerations a, ∂a/∂v likewise, and ∂a/∂τ = M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ with the
tree-sparse factors of M, whose zeros are those of unrelated pairs. Three remarks make it cheaper than it looks. The
bias force is quadratic in v, so it is ½ (∂τ/∂v) v plus gravity: no pass is needed to find a. The columns of a freely
floating root are M times a known motion, since the laws of motion are the same in every inertial frame; only the part
with B needs a solution. And L⁻¹ is multiplied with, not solved by: off the path of a column D⁻¹ L⁻ᵀ ∂τ is exactly zero,
so most of the product vanishes.

The recursions of :mod:`whippletree.tree.tangents` use that a displacement of q moves rigid parts rigidly; one of a
modal coordinate bends a body and changes its inertia. For such trees :func:`state_derivatives` takes each displacement
through the dynamics itself, on dual numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, identity, zeros
from whippletree.arithmetic.dual_numbers import duals, slopes
from whippletree.spatial import symmetric
from whippletree.tree.inverse import inverse_dynamics
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton
from whippletree.tree.sweeps import Field
from whippletree.tree.tangents import Tangents


class InverseDerivatives(NamedTuple):
    """Derivatives of τ(q, v, a), each (nv, nv): rows are forces, columns are tangents."""

    dq: Array
    dv: Array
    da: Array
    """The mass matrix, rotors included."""


class ForwardDerivatives(NamedTuple):
    """Derivatives of a(q, v, τ), each (nv, nv), the accelerations themselves, and the pivots of M."""

    dq: Array
    dv: Array
    dtau: Array
    """M⁻¹."""
    a: Array
    """(nv,)"""
    pivots: Array
    """D of M = Lᵀ D L, all positive exactly when every motion has inertia, (nv,)."""


def inverse_dynamics_derivatives(
    tree: Skeleton, q: Array, v: Array, a: Array, wrenches: Field | None = None
) -> InverseDerivatives:
    """∂τ/∂q, ∂τ/∂v and ∂τ/∂a (nv, nv) of inverse dynamics.

    Args:
        tree: the moving parts of a model.
        q: coordinates, (nq,).
        v: velocities, (nv,).
        a: accelerations, (nv,).
        wrenches: external wrenches (6,) that are fixed to their nodes, one per node in its frame.
    """
    state = Tangents(tree, q, v)
    return InverseDerivatives(state.position_derivatives(state.accelerate(a), wrenches), state.dv, state.M)


def forward_dynamics_derivatives(
    tree: Skeleton, q: Array, v: Array, tau: Array, wrenches: Field | None = None
) -> ForwardDerivatives:
    """∂a/∂q, ∂a/∂v and ∂a/∂τ (nv, nv) of forward dynamics, and a (nv,) itself.

    Args:
        tree, q, v, wrenches: as for inverse dynamics.
        tau: joint forces, (nv,).
    """
    # a floating root takes a motion of the whole tree by itself: leave it out here, add it to the answer below
    state = Tangents(tree, q, v, without_floating=True)
    factor = linalg.tree_ltdl(state.M, tree.velocity_parents, lenient=True)
    a = factor.solve(tau - state.bias(wrenches))
    dq, dv, dtau = _responses(factor, state.position_derivatives(state.accelerate(a), wrenches), state.dv)
    of_root = state.floating()
    return ForwardDerivatives(dq + of_root[0], dv + of_root[1], dtau, a, factor.pivots)


SQUARE, ROW = (4, 3), (1, 8)
"""Rows and columns of a product that grow together: what registers can hold; or, of a sparse product that is a result,
neighbours in a row, which go to memory together and then need no register any more."""

STRIP = 12
"""Columns that are multiplied together, so that they stay in the cache."""


def _responses(factor: linalg.TreeLTDL, *forces: Array) -> list[Array]:
    """−M⁻¹ F for matrices F of joint forces, and M⁻¹ itself (one triangle computed) as the last."""
    n = len(factor.pivots)
    W = factor.forward(identity(n))
    below = identity(n) - W  # −L⁻¹ without its diagonal of ones: the sign of the result costs nothing
    scaled = (W * factor.reciprocals).T
    responses, inverse = [], zeros(n, n)
    for F in forces:
        Y = zeros(n, n)
        for start in range(0, n, STRIP):
            strip = slice(start, start + STRIP)
            Y[:, strip] = (added_product(Y[:, strip], W.T, F[:, strip]).T * factor.reciprocals).T
        responses.append(added_product(-Y, below, Y, ROW))
    for i in range(n):
        inverse[i : i + 1, i:] = added_product(inverse[i : i + 1, i:], W[i : i + 1], scaled[:, i:], ROW)
    return [*responses, symmetric(inverse)]


def added_product(C: Array, A: Array, B: Array, tile: tuple[int, int] = SQUARE) -> Array:
    """C + A B. The entries of a tile grow together, so that each number is fetched once for several products."""
    result = C.copy()
    height, width = tile
    for top in range(0, len(A), height):
        terms = [np.flatnonzero(row != 0) for row in A[top : top + height]]
        needed = sorted({int(k) for row in terms for k in row})
        for left in range(0, B.shape[1], width):
            for k in needed:
                for i in range(top, min(top + height, len(A))):
                    result[i, left : left + width] = (
                        result[i, left : left + width] + A[i, k] * B[k, left : left + width]
                    )
    return result


# --- column by column, on dual numbers --------------------------------------------------------------------------------


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
