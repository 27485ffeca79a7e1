"""Functions of the contact candidates: where they are, how they move, and what they carry in a motion.

Candidates are in the order of ``wt.contact_set(model).candidates``, three rows each: along the
normal, tangent 1 and tangent 2. They say where bodies could touch, not what happens: that is for simulations with
contact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, vector
from whippletree.constraints import forces_of_motion
from whippletree.functions.registry import function
from whippletree.tree.mechanism import Mechanism

if TYPE_CHECKING:
    from whippletree.contact.kinematics.contact_set import ContactSet


def _contacts(m: Mechanism) -> ContactSet:
    # the first call of a model without contacts does not wait for their geometry
    from whippletree.contact.kinematics.contact_set import contact_set

    return contact_set(m.tree.model)


@function(gaps=("contacts",), constraints="tree", contacts=True, linear="few contacts")
def contact_gaps(m: Mechanism, q: Array) -> Array:
    """Gap (contacts,) of every candidate, m: positive while apart."""
    return _contacts(m).points(m, q).gap


@function(points=("contacts", 3), constraints="tree", contacts=True, linear="few contacts")
def contact_points(m: Mechanism, q: Array) -> Array:
    """Point (contacts, 3) of every candidate on the surface of its first geometry, in the world, m."""
    return _contacts(m).points(m, q).point


@function(axes=("contacts", 3, 3), constraints="tree", contacts=True, linear="few contacts")
def contact_axes(m: Mechanism, q: Array) -> Array:
    """Axes (contacts, 3, 3) of every candidate, in the world: rows normal (from second to first), tangents 1 and 2."""
    return _contacts(m).points(m, q).axes


@function(jacobian=("contact_rows", "nv"), constraints="tree", contacts=True, linear="few contacts")
def contact_jacobian(m: Mechanism, q: Array) -> Array:
    """J (3 contacts, nv): J v is the velocity of the first body's point against the second's, along the axes."""
    return _contacts(m).jacobian(m, q)


@function(velocity=("contact_rows",), constraints="tree", contacts=True, linear="few contacts")
def contact_velocity(m: Mechanism, q: Array, v: Array) -> Array:
    """J v (3 contacts,), m/s; the normal entries are the rates of the gaps."""
    return _contacts(m).velocity(m, q, v)


@function(bias=("contact_rows",), constraints="tree", contacts=True, linear="few contacts")
def contact_bias(m: Mechanism, q: Array, v: Array) -> Array:
    """J̇ v (3 contacts,): the rate of J v is J a + bias; for the normal entries, the second derivative of the gap."""
    return _contacts(m).bias(m, q, v)


@function(
    tau=("nv",),
    f=("rows",),
    contact_forces=("contact_rows",),
    residual=("nv",),
    may_fail=True,
    constraints="honours",
    contacts=True,
)
def inverse_dynamics_in_contact(
    m: Mechanism,
    joints: tuple[str, ...],
    q: Array,
    v: Array,
    a: Array,
    costs: Array,
    contact_costs: Array,
    touching: Array,
    t: Any = 0,
    active: Any = None,
) -> tuple[Array, Array, Array, Array]:
    """tau, f and contact forces p (3 contacts,) for a motion while contacts carry: M a + c = tau + Aᵀ f + Jᵀ p +
    residual.

    As ``inverse_dynamics_with_motors``, with the least Σ costᵢ tauᵢ² + Σ contact_costᵢ pᵢ². Contacts may pull and leave
    their friction cone here: look at p, whose rows are normal, tangent 1 and tangent 2 of each candidate.
    """
    J = _contacts(m).jacobian(m, q)
    on = [scalars.select(scalars.less(0, x), 1, 0) for x in touching]
    pushers = forces_of_motion.Pushers(J, contact_costs, vector(*[on[k // 3] for k in range(len(J))]))
    found = forces_of_motion.actuate(m, joints, q, v, a, np.diag(costs), t, active, pushers)
    return found.tau, found.f, found.contacts, found.residual
