"""Contacts as time steps see them, for many states: candidates, by the narrow phase of a step, and their loads as joint
forces; gaps of tendons' limits.

Pairs that have a form for time steps only (:mod:`whippletree.contact.geometry.step_forms`) are unknown to the compiled
functions of contacts; in Python a look at the gaps of one state takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.node_wrenches import SCREW, NodeWrenches, origin_of, pushed_at
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Address, Buffer, Index, Lookup, Loop, Program, Statement
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.rollout.contact_kinds import TOUCH, Told, narrow_phase
from whippletree.compiler.rollout.contact_lists.contact_list_trees import tree_in_step
from whippletree.compiler.rollout.motion_space import screw_count
from whippletree.compiler.rollout.step_space import BLOCK, Driven, StepSpace
from whippletree.contact.geometry.shape_numbers import POSE
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Model
from whippletree.tree.element_forces import tendon_wrenches
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

if TYPE_CHECKING:
    from whippletree.compiler.compiled import Compiled


NUMBERS_TOGETHER = 1 << 19
"""Numbers of candidates that are found before the next ones are: 4 MB, which memory takes again and again. Those of 200
states of a kitchen with 23 158 candidates were 480 MB, and took 2 ms a state instead of 1."""


def rows_of_touches(candidates: int, states: int) -> list[slice]:
    """Parts of some states, whose candidates are found one part after the other."""
    together = max(1, NUMBERS_TOGETHER // max(1, candidates * TOUCH))
    return [slice(first, first + together) for first in range(0, max(1, states), together)]


def contact_list_touches_program(model: Model) -> Program:
    """(q (nq,), reach, wanted (candidates,)) → touches (candidates, 13) of a model whose steps are compiled over lists:
    gap, point and axes.

    Solids that are farther apart than ``reach`` (m), seen by the boxes around them, have infinite gaps; so have pairs
    whose first candidate is not ``wanted`` (1 or 0).
    """
    space = StepSpace(model, Driven(), single=True)
    told = Told(Buffer("reach", "input", ()), Buffer("wanted", "input", (space.contacts,)))
    touches = Buffer("touches", "output", (space.contacts, TOUCH))
    space.add(Buffer("q", "input", (model.nq,)), *told, touches)
    placed = _placed_tree(space)
    narrow = narrow_phase(space.blocks.contacts.pairs, space.tree, space.buffers["pose"], touches, None, told)
    space.add(*narrow.buffers)
    return space.program("contact_list_touches", [*placed, *narrow.look])


def contact_list_loads_program(model: Model) -> Program:
    """(q (nq,), touches (candidates, 13), forces (candidates, 3), moments (candidates, 3)) → tau (nv,): the joint
    forces of forces along the axes of candidates, N, and of moments about them, N m."""
    space = StepSpace(model, Driven(), single=True)
    k = space.contacts
    shapes = {"q": (model.nq,), "touches": (k, TOUCH), "forces": (k, 3), "moments": (k, 3)}
    space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()], Buffer("tau", "output", (model.nv,)))
    wrenches, world = NodeWrenches(space, space.tree), len(space.tree.nodes)
    placed = _placed_tree(space)
    for side in (0, 1):
        bodies = [(c.first_body, c.second_body)[side] for c in space.blocks.contacts.candidates]
        nodes = [space.tree.bodies[body].node for body in bodies]
        space.index(f"node {side}", [world if node < 0 else node for node in nodes])

    def push(touch: Array, force: Array, moment: Array, X: Array, Y: Array, *loads: Array) -> list[Any]:
        axes = touch[4:].reshape(3, 3)
        own = [pushed_at(force @ axes, touch[1:4], origin, moment @ axes) for origin in (X, Y)]
        return [loads[0] + own[0], loads[1] - own[1]]

    sides = ("node 0", "node 1")
    both = [space.at("load", node) for node in sides]
    reads = [*space.each(("touches", "forces", "moments"), BLOCK), *map(origin_of, sides), *both]
    found = [Lookup(node, space.address(node, BLOCK)) for node in sides]
    add = Loop(BLOCK, k, (*found, traced_block(push, reads, both)))
    return space.program("contact_list_loads", [*placed, wrenches.clear(), add, *wrenches.gather("tau")])


def _placed_tree(space: StepSpace) -> list[Statement]:
    """``pose`` and ``screw`` at the argument ``q`` of a program, the world's pose among them."""
    model, nodes = space.model, len(space.tree.nodes)
    space.work(now_q=(model.nq,), pose=(nodes + 1, POSE), screw=(screw_count(space.tree), SCREW))
    identity = [*np.eye(3, dtype=int).ravel().tolist(), 0, 0, 0]
    world = Piece((POSE,), tuple(Address("pose", (Index(None, nodes), Index(None, i))) for i in range(POSE)))
    begin = traced_block(lambda q: [q, identity], [space.at("q")], [space.at("now q"), world])
    return [begin, *tree_in_step(space).poses()]


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
