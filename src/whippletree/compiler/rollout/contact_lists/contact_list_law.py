"""Coulomb's law for one block of a kernel's contact problem, in Alart and Curnier's form: F(λ) = λ − P(λ − m u)."""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.contact.problem.cones import both, length


def alart_curnier(impulse: Array, reach: Array, mu: Any, cap: Any) -> tuple[Array, Array]:
    """F = λ − P(λ − m u) (3,) of a block, and P′ (3, 3) there; ``reach`` is m u (3,)."""
    z = impulse - reach
    closed = less(0, z[0])
    height = select(closed, z[0], 0)
    radius, side = mu * height + cap, length(z[1], z[2])
    slides = less(radius, side)
    scale = 1 / select(slides, side, 1)
    share = select(slides, radius * scale, 1)
    e1, e2 = select(slides, z[1] * scale, 0), select(slides, z[2] * scale, 0)
    onto = np.array([height, share * z[1], share * z[2]], dtype=object)
    climb = select(closed, mu, 0)
    slope = [
        [select(closed, 1, 0), 0, 0],
        [climb * e1, share * (1 - e1 * e1), -share * e1 * e2],
        [climb * e2, -share * e1 * e2, share * (1 - e2 * e2)],
    ]
    return impulse - onto, np.array(slope, dtype=object)


def load_slope(impulse: Array, reach: Array, radius: Any, share: Any) -> tuple[Array, Any]:
    """∂P_t (2,) of a moment by the normal impulse of the contact that presses on it, and whether there is one.

    The moment slips where λ_t − m u_t is beyond the ``radius`` of its disc, which grows by ``share`` (m) per impulse.
    """
    z = (impulse - reach)[1:]
    side = length(z[0], z[1])
    slips = both(less(0, share), less(radius, side))
    scale = share / select(slips, side, 1)
    return z * scale, slips


def velocity_of(y: Array, B: Array, g: Array, impulse: Array, soft: Any = 0) -> Array:
    """A block's velocity g + Bᵀ y (3,), and what its first tangent yields to its own impulse."""
    u = g + multiply_in_strands(B, y)
    return u if isinstance(soft, int) else np.array([u[0], u[1] + soft * impulse[1], u[2]], dtype=object)


def inverse_slope(P: Array, damping: Any, soft: Any = 0) -> Array:
    """(1 − (1 − ε) P′ (1 − m C))⁻¹ (3, 3): the normal does not depend on the tangents.

    ``soft``: m times the compliance of the first tangent, the only entry of C.
    """
    kept = 1 - damping
    own = kept * (1 - soft)
    normal = 1 / (1 - kept * P[0, 0])
    a, b, c, d = 1 - own * P[1, 1], -kept * P[1, 2], -own * P[2, 1], 1 - kept * P[2, 2]
    scale = 1 / (a * d - b * c)
    T = np.array([[d * scale, -b * scale], [-c * scale, a * scale]], dtype=object)
    below = T @ (kept * normal * P[1:, 0])
    return np.array([[normal, 0, 0], [below[0], *T[0]], [below[1], *T[1]]], dtype=object)
