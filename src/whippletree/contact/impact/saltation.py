"""Saltation matrices: how a small change of the state goes through an event.

A state that is a little off reaches the event a little earlier or later, and spends that time under the other mode's
equations. With the reset y⁺ = R(y⁻) at the event γ(y) = 0,

    δy⁺ = S δy⁻,    S = D + (f⁺ − D f⁻ − ∂R/∂t) ∇γᵀ / γ̇⁻,    D = ∂R/∂y,   f = ẏ before and after

in the tangent space, y = (q, v) with δq (nv,) and δv (nv,). Where nothing jumps, neither state nor acceleration, S = 1.
D, ∇γ and f are exact (:mod:`whippletree.contact.impact.impact_derivatives`,
:mod:`whippletree.simulation.events.sensitivity.event_sensitivity`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whippletree.arithmetic.arrays import Array

DIFFERENCE_STEP = 1e-5
"""Of the differences that stand in where no formula is at hand (a controller): rad, m and per second."""


def saltation_matrix(D: Array, jump: Array, gradient: Array, rate: float) -> Array:
    """S (2nv, 2nv).

    Args:
        D: derivative of the reset, (2nv, 2nv).
        jump: f⁺ − D f⁻ − ∂R/∂t (2nv,), with f = (v, a) on either side.
        gradient: ∇γ (2nv,).
        rate: γ̇ before the event; not zero, or the event is grazed and S does not exist.
    """
    return np.asarray(D + np.outer(jump, gradient) / rate)


def derivative(function: Callable[[Array], Array], size: int, step: float = DIFFERENCE_STEP) -> Array:
    """∂f/∂d at d = 0, (m, size), by central differences of fourth order."""
    columns = []
    for e in np.eye(size) * step:
        near, far = function(e) - function(-e), function(2 * e) - function(-2 * e)
        columns.append((8 * near - far) / (12 * step))
    return np.array(columns).T
