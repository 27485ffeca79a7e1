"""Restitution that adds no energy: how much of Newton's bounce the impulses of a step take.

Newton's law asks for a velocity, uₙ⁺ = −e uₙ⁻, whatever impulses that takes. With friction, or where contacts of
different e strike together, these may do work W = Σ λ · (u⁻ + u⁺) / 2 > 0: the kinetic energy grows by more than the
forces' work, at any length of the step (Kane 1984, *A dynamics puzzle*). The impulses of the same step without
restitution, λ₀, cannot: the velocities that they lead to have at most the energy of those without any impulse.

So where Newton's impulses λ₁ gain, the step takes

    λ = λ₀ + s (λ₁ − λ₀)        with the largest share s in 0 … 1 for which W ≤ max(W₀, 0)

Between two impulses that obey the laws lies one inside the friction cones, which are convex; gaps depend on impulses by
way of velocities, which are affine in them, so that nothing overlaps; and W is a parabola in s, whose three
coefficients are those of W at 0, 1/2 and 1. What is given up is Newton's −e, and at the tangents the direction of
friction, by the share 1 − s. Contacts that cannot act on each other have shares of their own, by islands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.independent_parts import parts_of
from whippletree.contact.time_step import ContactBlocks
from whippletree.errors import list_items, warn_caller
from whippletree.model import Model
from whippletree.tree.element_forces import joints_of_tendon
from whippletree.tree.skeleton import skeleton

ROLLOUT_GAIN = 1e-7
"""m/s: speed whose work on the impulses of a step counts as no gain, in roll-outs of a fixed number of sweeps. Steps
that are solved to a tolerance take that tolerance, of which this is the default."""


def warn_of_unheeded_laws(model: Model, where: str) -> None:
    """Warn of contacts that name an impact law under which they would strike otherwise than in a step.

    A step has Newton's law for the normals and Coulomb's for the impulses: ``newton`` without friction and ``plastic``
    without restitution are the same. Groups name no laws.
    """
    alike = {"newton": "friction", "plastic": "restitution"}
    unheeded = [
        f"{contact.name!r} ({contact.law})"
        for contact in model.contacts
        if contact.law is not None and not (contact.law in alike and getattr(contact, alike[contact.law]) == 0)
    ]
    if unheeded:
        warn_caller(
            f"{where} has one law for all impacts, Newton's with Coulomb friction, and leaves out that of contact "
            f"{list_items(unheeded)}: wt.simulate(method='events') obeys it; a contact without law= asks for none",
            RuntimeWarning,
        )


def may_gain(blocks: ContactBlocks) -> bool:
    """Whether Newton's law can add energy to a model: with one e for all and without friction it cannot."""
    e = blocks.restitution
    rough = bool(blocks.rubbing or blocks.moments) or any(mu != 0 for mu in blocks.friction)
    return any(e != 0) and (rough or any(e != e[0]))


def islands_of(blocks: ContactBlocks) -> Array:
    """A number for each block, (blocks,), the same for those that can act on each other, at whatever state."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    parts, tree = parts_of(blocks.model), skeleton(blocks.model)
    first = [part.start for part in tree.v_slices]
    bodies = [(c.first_body, c.second_body) for c in blocks.contacts.candidates]
    touched = [{tree.bodies[body].node for body in pair} - {-1} for pair in bodies]
    moved = [[first[node] for node in nodes if tree.v_slices[node].stop > first[node]] for nodes in touched]
    moved += [[axis.v] for axis in blocks.limited]
    for tendon in blocks.taut:
        moved.append([blocks.model.slice(joint).start for joint in sorted(joints_of_tendon(tree, tendon))])
    moved += [[axis.v] for axis in blocks.rubbing]
    moved += [moved[moment.candidate] for moment in blocks.moments]
    moved += [list(blocks.actuators.moved_velocities(servo)) for servo in blocks.servos]
    count, edges = len(moved), [(i, len(moved) + parts[v]) for i, some in enumerate(moved) for v in some]
    at = np.array(edges, dtype=int).reshape(-1, 2).T
    size = count + int(parts.max(initial=-1)) + 1
    found = connected_components(coo_array((np.ones(at.shape[1]), tuple(at)), shape=(size, size)), directed=False)[1]
    return np.unique(found[:count], return_inverse=True)[1]


def gains(work: Any, bounce: Any, load: Any, tolerance: Any) -> Any:
    """Whether impulses add energy by a bounce, and not by what the solver has left.

    Args:
        work: W, J.
        bounce: Σ λₙ e |uₙ⁻| over the contacts that bounce, J.
        load: Σ λₙ, N s.
        tolerance: of the contact problem, m/s.
    """
    return both(less(0, bounce), less(tolerance * load, work))


def restitution_share(plastic: Any, newton: Any, middle: Any) -> Any:
    """The largest s in 0 … 1 with W(s) ≤ max(W(0), 0), of the parabola through W at 0 (plastic), 1 (Newton) and 1/2."""
    bound = largest([plastic, 0])
    below = plastic - bound
    a = 2 * (plastic + newton) - 4 * middle
    b = newton - plastic - a
    root = sqrt(largest([b * b - 4 * a * below, 0]))
    falls = less(b, 0)
    # the same root twice, each where its denominator does not cancel
    above, under = select(falls, root - b, -2 * below), select(falls, 2 * a, b + root)
    some = less(0, under)
    share = select(some, above / select(some, under, 1), 0)
    return select(less(bound, newton), select(less(share, 1), share, 1), 1)


def mixed_impulse(plastic: Any, newton: Any, share: Any) -> Any:
    """λ₀ + s (λ₁ − λ₀) of one number; λ₁ to the bit where s = 1."""
    return select(less(share, 1), plastic + share * (newton - plastic), newton)
