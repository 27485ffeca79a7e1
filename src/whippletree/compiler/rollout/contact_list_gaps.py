"""Gaps as time steps see them, for many states: of all candidates, by the narrow phase of a step; of tendons' limits.

Pairs that have a form for time steps only (:mod:`whippletree.contact.geometry.step_forms`) are unknown to the compiled
functions of contacts; in Python a look at the gaps of one state takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Address, Buffer, Index, Loop, Program, Statement
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.rollout.contact_kinds import TOUCH, narrow_phase
from whippletree.compiler.rollout.contact_list_trees import SCREW, tree_in_step
from whippletree.compiler.rollout.step_space import BLOCK, Driven, StepSpace
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Model
from whippletree.tree.element_forces import tendon_wrenches
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.compiler.compiled import Compiled


def contact_list_gaps_program(model: Model) -> Program:
    """q (nq,) → gaps (candidates,), m, of a model whose steps are compiled over lists."""
    space = StepSpace(model, Driven(), single=True)
    nodes = len(space.tree.nodes)
    space.add(Buffer("q", "input", (model.nq,)), Buffer("gaps", "output", (space.contacts,)))
    space.work(now_q=(model.nq,), pose=(nodes + 1, POSE), screw=(model.nv, SCREW), touch=(space.contacts, TOUCH))
    tree = tree_in_step(space)
    narrow, _, tables = narrow_phase(
        space.blocks.contacts.pairs, space.tree, space.buffers["pose"], space.buffers["touch"], None
    )
    space.add(*tables)
    identity = [*np.eye(3, dtype=int).ravel().tolist(), 0, 0, 0]
    world = Piece((POSE,), tuple(Address("pose", (Index(None, nodes), Index(None, i))) for i in range(POSE)))
    begin = traced_block(lambda q: [q, identity], [space.at("q")], [space.at("now q"), world])
    first = Piece((), (Address("touch", (Index(BLOCK), Index(None, 0))),))
    copy = traced_block(lambda gap: [gap], [first], [space.at("gaps", BLOCK)])
    body: list[Statement] = [begin, *tree.poses(), *narrow, Loop(BLOCK, space.contacts, (copy,))]
    return space.program("contact_list_gaps", body)


def tendon_limits(dyn: Compiled) -> NamedFunction:
    """The function of :func:`tendon_limits_program`, compiled once for a model."""
    return dyn.program(("tendon_limits",), lambda: tendon_limits_program(dyn.model))


def tendon_limits_program(model: Model) -> Program:
    """q (nq,) → distances (tendons,) to the nearer ends of the ranges of limited tendons, m, signs of the rates that
    lead away from them, and the derivatives (tendons, nv) of these distances."""
    blocks, tree = ContactBlocks(model, alone=True), skeleton(model)
    count = len(blocks.taut)
    shapes = {"distances": (count,), "signs": (count,), "rows": (count, model.nv)}
    buffers = [Buffer("q", "input", (model.nq,)), *[Buffer(n, "output", shape) for n, shape in shapes.items()]]
    stretch = traced_block(
        lambda q: list(blocks.tendon_limits(Mechanism(tree), q)), [piece(buffers[0])], [piece(b) for b in buffers[1:]]
    )
    return Program("tendon_limits", tuple(buffers), (stretch,))


def limited_tendon_wrenches(dyn: Compiled) -> NamedFunction:
    """The function of :func:`limited_tendon_wrenches_program`, compiled once for a model."""
    return dyn.program(("limited_tendon_wrenches",), lambda: limited_tendon_wrenches_program(dyn.model))


def limited_tendon_wrenches_program(model: Model) -> Program:
    """q (nq,) and forces (tendons,) that make limited tendons longer → wrenches on all bodies (bodies, 6)."""
    blocks, tree = ContactBlocks(model, alone=True), skeleton(model)
    buffers = [
        Buffer("q", "input", (model.nq,)),
        Buffer("forces", "input", (len(blocks.taut),)),
        Buffer("wrenches", "output", (len(model.bodies), 6)),
    ]
    pull = traced_block(
        lambda q, forces: [tendon_wrenches(Mechanism(tree), q, blocks.taut, forces)],
        [piece(buffer) for buffer in buffers[:2]],
        [piece(buffers[2])],
    )
    return Program("limited_tendon_wrenches", tuple(buffers), (pull,))
