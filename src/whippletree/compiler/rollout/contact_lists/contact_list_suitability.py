"""Models whose steps can be compiled over lists of what touches, and those for which that pays.

:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_step` writes such steps. A model that cannot have them is
told why, in words that its user understands; its steps are taken in Python.
"""

from __future__ import annotations

from whippletree.compiler.rollout.contact_lists.contact_list_chains import is_unbranched
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import suits_recursion, suits_world_only
from whippletree.compiler.rollout.contact_lists.contact_list_trees import is_written, reason_against_loops
from whippletree.constraints.constraint_set import reason_against_ties
from whippletree.contact.inertia_of_motions import has_inertia, pivots_have_inertia
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Model
from whippletree.tree.skeleton import meeting_point, skeleton

MOST_LISTED_VELOCITIES = 400
"""Velocities of a model up to which its steps are compiled: the solver's code has rows for each of them."""

MOST_RECURSIVE_VELOCITIES = 4000
"""Those of a tree whose contacts are all with the world: code without such rows, that copies coordinates one by one."""

COUPLINGS_PER_VELOCITY = 20
"""Couplings between contacts, for each velocity, from which on lists pay in batches. Measured, µs per step and scene in
a batch of 256, lists and 10 sweeps over all blocks: a quadruped on its four feet, 8 couplings, 2.7 and 1.3; hopper, 96,
0.9 and 3.7; half cheetah, 256, 1.2 and 4.7; walker, 196, 2.0 and 8.9. A humanoid on eight points has 16."""


def reason_against_lists(model: Model) -> str | None:
    """Why steps of a model cannot be compiled this way, in words; None if they can."""
    if not 0 < model.nv <= MOST_RECURSIVE_VELOCITIES:
        return f"it has {model.nv} velocities, and the code is for at most {MOST_RECURSIVE_VELOCITIES}"
    blocks = ContactBlocks(model, alone=True)
    if model.nv > MOST_LISTED_VELOCITIES and not suits_recursion(model, blocks):
        return f"it has {model.nv} velocities, and the code has rows for at most {MOST_LISTED_VELOCITIES}"
    long = not is_written(model, blocks.actuators)
    if long and not blocks.count:
        return "its tree is long, nothing can touch, and no joint has a limit"
    return (
        _reason_against_frames(model, blocks)
        or reason_against_ties(model)
        or (reason_against_loops(model, blocks.actuators) if long else None)
        or (None if (pivots_have_inertia if long else has_inertia)(model) else "a motion has no inertia")
    )


def _reason_against_frames(model: Model, blocks: ContactBlocks) -> str | None:
    """A contact between two frames of one flexible body: its modes move both, each in its own way."""
    if not model.is_flexible:
        return None
    tree = skeleton(model)
    for c in blocks.contacts.candidates:
        nodes = [tree.bodies[body].node for body in (c.first_body, c.second_body)]
        if tree.meeting(nodes) != meeting_point(tree.parents, nodes):
            return f"contact {c.contact!r} is between two frames of one flexible body"
    return None


def suits_lists(model: Model) -> bool:
    """Whether steps of a model can be compiled this way."""
    return reason_against_lists(model) is None


def world_only_pays(model: Model) -> bool:
    """Whether steps of a model in which only the world is touched have a kernel of their own: those of long chains,
    whose links may touch each other and seldom do. µs a step with it and without: a track of 60 links round two drums
    480 and 5500, a rope of 50 links that falls over a box 470 and 4700. Limbs that branch have no elimination from
    contact to contact, and gain less."""
    blocks = ContactBlocks(model, alone=True)
    long = not is_written(model, blocks.actuators) and is_unbranched(skeleton(model))
    return long and suits_world_only(model, blocks)


def lists_pay(model: Model) -> bool:
    """Whether batches are faster this way than with every block written out, where that many blocks rarely matter."""
    return ContactBlocks(model, limits=False).couplings > COUPLINGS_PER_VELOCITY * model.nv
