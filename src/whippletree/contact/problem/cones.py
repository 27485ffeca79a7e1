"""Coulomb's cone: where a contact impulse may lie, and the correction that makes friction a complementarity problem.

An impulse λ = (λₙ, λ₁, λ₂) lies in K = {|λ_t| ≤ μ λₙ}. Coulomb's law (no pull, no friction beyond μ λₙ, sliding against
the friction) is K ∋ λ ⟂ u + s(u) ∈ K*, with the velocity u = (uₙ, u_t) and De Saxcé's correction s(u) = (μ |u_t|, 0,
0). Without s it would be the associated law, under which a sliding body takes off.

Dry friction of a joint is the same thing with a disc of fixed radius in place of the cone: |λ_t| ≤ ``cap``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array


def length(x: Any, y: Any) -> Any:
    """√(x² + y²)."""
    return scalars.sqrt(x * x + y * y)


def project_on_cone(x: Array, mu: Any) -> Array:
    """The point (3,) of the cone K that is nearest to x (3,)."""
    if scalars.is_zero(mu):
        return np.array([largest([x[0], 0]), 0, 0], dtype=object)
    normal, side = x[0], length(x[1], x[2])
    inside = both(not_less(normal, 0), not_less(mu * normal, side))
    polar = not_less(-normal, mu * side)
    height = (normal + mu * side) / (1 + mu * mu)
    share = mu * height / scalars.select(scalars.less(0, side), side, 1)
    onto = np.array([height, share * x[1], share * x[2]], dtype=object)
    return np.array([scalars.select(inside, a, scalars.select(polar, 0, b)) for a, b in zip(x, onto)], dtype=object)


def project_on_disc(x: Array, radius: Any) -> Array:
    """The point (2,) of the disc of a radius that is nearest to x (2,)."""
    side = length(x[0], x[1])
    outside = scalars.less(radius, side)
    share = radius / scalars.select(outside, side, 1)
    return np.array([scalars.select(outside, share * a, a) for a in x], dtype=object)


def brought_inside(impulse: Array, mu: Any, cap: Any) -> Array:
    """An impulse (3,) with no pull and with its friction shortened to what Coulomb's law, or the disc, allows."""
    normal = scalars.select(scalars.less(0, cap), 0, largest([impulse[0], 0]))
    return np.array([normal, *project_on_disc(impulse[1:], mu * normal + cap)], dtype=object)


def add_correction(u: Array, mu: Any) -> Array:
    """u + s(u) (3,), De Saxcé's correction added to the velocity of a contact."""
    return np.array([u[0] + mu * length(u[1], u[2]), u[1], u[2]], dtype=object)


def natural_map(impulse: Array, velocity: Array, mu: Any, cap: Any, mass: Any) -> Array:
    """λ − Π_K(λ − mass (u + s(u))) (3,), N s: zero exactly where the contact obeys Coulomb's law.

    ``mass`` (kg) makes a velocity comparable with an impulse; divided by it the map is a velocity, m/s.
    """
    disc = scalars.less(0, cap)
    on_cone = impulse - project_on_cone(impulse - mass * add_correction(velocity, mu), mu)
    on_disc = impulse[1:] - project_on_disc(impulse[1:] - mass * velocity[1:], cap)
    flat = [0, *on_disc]
    return np.array([scalars.select(disc, b, a) for a, b in zip(on_cone, flat)], dtype=object)


def cone_violation(impulse: Array, mu: Any, cap: Any) -> Any:
    """How far an impulse is outside its cone or disc: the largest of |λ_t| − μ λₙ − cap, −λₙ and 0, N s."""
    beyond = length(impulse[1], impulse[2]) - mu * impulse[0] - cap
    return largest([beyond, -impulse[0], 0])


def largest(values: Any) -> Any:
    """The largest of some scalars."""
    found = values[0]
    for x in values[1:]:
        found = scalars.select(scalars.less(found, x), x, found)
    return found


def not_less(a: Any, b: Any) -> Any:
    """The condition a ≥ b."""
    return scalars.negated(scalars.less(a, b))


def both(a: Any, b: Any) -> Any:
    """a and b, whether they are known already or not."""
    if isinstance(a, (bool, np.bool_)):
        return b if a else a
    if isinstance(b, (bool, np.bool_)):
        return a if b else b
    return a & b
