"""The catalogue's functions about reactions: what every joint and every closure of a model carries.

``wt.reaction_names(model)`` names the entries: all joints in the model's order, welds included, then all closures. Each
reaction is a moment and a force, (6,), N m and N:

* of a joint: from the parent on the child, about the origin and in the axes of the child's body frame, which lies at
  the joint. Along the joint's freedoms it is the joint force, with what couplings add and less what turns the rotor.
* of a closure: from the first frame on the second, about the origin and in the axes of the second frame.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import dynamics, reactions
from whippletree.functions.registry import function
from whippletree.functions.tree_functions import forward_dynamics
from whippletree.tree.mechanism import Mechanism


@function(reactions=("reactions", 6), determined=("reactions", 6), may_fail=True, constraints="honours")
def joint_reactions(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """Moment and force (reactions, 6) in every joint and closure, also inside loops, and which of them statics
    determines (reactions, 6): 1 or 0.

    On the child, about the origin and in the axes of its body frame; of a closure, on its second frame, in that frame.
    ``wt.reaction_names(model)`` names the entries. Redundant constraints leave some components open (of a planar
    four-bar with hinges 12 of 20): of these the least Σ r² is returned, 1 N m counted as 1 N;
    ``joint_reactions_with_weights`` takes other weights. ``tau`` is the whole joint force: add ``passive_forces`` for
    springs and dampers.
    """
    return _reactions(m, q, v, tau, None, t, active)


@function(reactions=("reactions", 6), determined=("reactions", 6), may_fail=True, constraints="honours")
def joint_reactions_with_weights(
    m: Mechanism, q: Array, v: Array, tau: Array, reaction_weights: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """``joint_reactions`` where those with the least Σ wᵢ rᵢ² are taken of what statics leaves open.

    The weights (reactions, 6) are positive: a small one where a joint is stiff and takes more than its share, 1/L² for
    moments that count as forces on an arm L.
    """
    return _reactions(m, q, v, tau, reaction_weights, t, active)


@function(reactions=("reactions", 6), determined=("reactions", 6), may_fail=True, constraints="honours")
def joint_reactions_of_motion(
    m: Mechanism, q: Array, v: Array, a: Array, f: Array, wrenches: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """``joint_reactions`` of a motion whose accelerations a, constraint forces f (rows,) and external loads are known.

    The wrenches (bodies, 6) act on the bodies from outside: contacts, a payload, wind; gravity is the model's. They are
    moments and forces about the origin and in the axes of each body's frame.
    """
    found = reactions.joint_reactions(m, q, v, a, f, None, t, active, wrenches)
    return found.wrenches, found.determined


def _reactions(
    m: Mechanism, q: Array, v: Array, tau: Array, weights: Array | None, t: Any, active: Any
) -> tuple[Array, Array]:
    if m.tree.model.constraints:
        a, f = dynamics.solve(m, q, v, tau, t, active)
    else:
        a, f = forward_dynamics(m, q, v, tau), zeros(0)
    found = reactions.joint_reactions(m, q, v, a, f, weights, t, active)
    return found.wrenches, found.determined
