"""Loads of every joint of a model, welds included: the wrenches of Newton and Euler, body by body.

The other recursions see nodes, into which bodies that are welded together are lumped (:mod:`.skeleton`). A weld carries
a load like any other joint, also one to the world, so here each body balances by itself:

    f(k) = M α + V × M V − w + Σ f(child)        w: what acts on body k from outside, beside gravity

Bodies are indexed, and these functions are always unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.spatial import RigidInertia, cross_force
from whippletree.spatial.modal import DeformedInertia
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.sweeps import Field


def inertial_wrenches(m: Mechanism, links: Field, alpha: Field) -> list[Array]:
    """M α + V × M V of every body, in its frame and about its origin, (6,) each.

    ``links`` are in motion; ``alpha`` are the accelerations of the nodes, the world's −g among them, so that a body's
    weight is part of the wrench.
    """
    found = []
    for body in m.tree.model.bodies:
        node, at = m.tree.bodies[body.name]
        if node >= 0 and isinstance(links[node].M, DeformedInertia):
            found.append((links[node].M @ alpha[node] + links[node].b)[:6])
            continue
        M = RigidInertia.about_center(body.mass, body.center, body.inertia)
        V = at.motion(links[node].V) if node >= 0 else zeros(6)
        found.append(M @ at.motion(alpha[node] if node >= 0 else m.base) + cross_force(V, M @ V))
    return found


def body_loads(m: Mechanism, links: Field, needed: Sequence[Array]) -> list[Array]:
    """f (6,) of every joint: from its parent on each body, about the origin and in the axes of the body's frame.

    ``needed`` (6,) of every body, in the same axes: the wrench that its joints and those of its children must give it.
    """
    tree, model = m.tree, m.tree.model
    places = [tree.bodies[body.name] for body in model.bodies]
    # in the frames of the nodes, where a weld changes nothing
    carried = [place.pose.force(wrench) for place, wrench in zip(places, needed, strict=True)]
    for k in reversed(range(len(model.bodies))):
        parent = model.parents[k]
        if parent >= 0:
            node = places[k].node
            welded = node == places[parent].node
            carried[parent] = carried[parent] + (carried[k] if welded else links[node].X.force(carried[k])[:6])
    return [place.pose.inverse().force(f) for place, f in zip(places, carried, strict=True)]
