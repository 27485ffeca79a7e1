"""The bodies of a scene that joints hold together, apart from those that move freely: a model of their own.

Robots, doors and pendulums among many free bodies. Their dynamics know nothing of the free bodies but by contacts, so
that a compiled step (:mod:`whippletree.compiler.rollout.scenes.scene_trees`) has code for them alone, whatever lies
around. Each tree that stands on the world, or floats, is a *group*: its velocities feel no others. Trees that a servo
or the stop of a tendon ties together are one.

A body that flies is a body of the mechanism where an actuator, a tendon or held-up weight acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.clusters.cluster_structure import submodel
from whippletree.contact.servos import Servos
from whippletree.model import WORLD, Frame, Model, State
from whippletree.model.force_elements import Element, FluidBox, Tendon
from whippletree.model.frozen import found_once, frozen_array
from whippletree.spatial import Pose
from whippletree.spatial.joints import Free
from whippletree.tree.element_forces import joints_of_tendon
from whippletree.tree.skeleton import Skeleton, skeleton


@dataclass(frozen=True, eq=False)
class SceneMechanism:
    """See the module's description."""

    model: Model
    """All of them, without the free bodies and without shapes."""
    nodes: tuple[int, ...]
    """Its moving parts among those of the scene."""
    q: Array
    """Which coordinates of the scene are its own, (nq,)."""
    v: Array
    """Which velocities are, (nv,)."""

    @cached_property
    def groups(self) -> list[int]:
        """The group that each of its moving parts belongs to, numbered as they first appear."""
        tree = skeleton(self.model)
        found: list[int] = []
        for k, parent in enumerate(tree.parents):
            found.append(found[parent] if parent >= 0 else k)
        for nodes in _tied_nodes(self.model, tree):
            tied = {found[k] for k in nodes}
            found = [min(tied) if group in tied else group for group in found]
        order = list(dict.fromkeys(found))
        return [order.index(group) for group in found]


def _tied_nodes(model: Model, tree: Skeleton) -> list[set[int]]:
    """Moving parts that one row of a step acts on together: of a servo, or of the stop of a tendon."""
    servos = Servos(model)
    moved = [servos.moved_velocities(servo) for servo in (*servos.coupling, *servos.bounded)]
    names = [joints_of_tendon(tree, tendon) for tendon in model.tendons if tendon.is_limited]
    found = [{k for k, part in enumerate(tree.v_slices) if own & {*range(part.start, part.stop)}} for own in moved]
    return found + [{k for k, joint in enumerate(tree.joints) if joint.name in own} for own in names]


def acting_elements(model: Model) -> list[Element]:
    """Tendons, fluids and lifts of a model, but for tendons that do nothing."""
    pulled = {actuator.tendon for actuator in model.actuators}
    return [
        element
        for element in model.elements
        if not isinstance(element, Tendon) or element.acts or element.is_limited or element.name in pulled
    ]


def _frames_of(element: Element) -> set[str]:
    """Frames and bodies that an element acts on."""
    if not isinstance(element, Tendon):
        return {element.body}
    obstacles = {name for wrap in element.around for name in (wrap.frame, wrap.side) if name}
    return {frame for branch in element.route for frame in branch} | obstacles


def _driven_nodes(tree: Skeleton) -> set[int]:
    """Moving parts that actuators, tendons or held-up weight act on."""
    model = tree.model
    elements = [element for element in acting_elements(model) if not isinstance(element, FluidBox)]
    joints = {joint for actuator in model.actuators for joint in actuator.joints}
    joints |= {joint for tendon in model.tendons for joint in tendon.joints}
    frames = {actuator.frame for actuator in model.actuators if actuator.frame is not None}
    frames = frames.union(*[_frames_of(element) for element in elements])
    on_joints = {k for k, joint in enumerate(tree.joints) if joint.name in joints}
    return on_joints | {tree.place(frame).node for frame in frames}


def free_nodes(tree: Skeleton) -> list[int]:
    """Moving parts of a tree that nothing but contacts and gravity acts on."""
    held = {*tree.parents, *_driven_nodes(tree)}
    return [
        k
        for k, (parent, node, joint) in enumerate(zip(tree.parents, tree.nodes, tree.joints, strict=True))
        if parent < 0
        and k not in held
        and isinstance(node.joint, Free)
        and not joint.has_springs
        and joint.armature == 0
    ]


@found_once
def scene_mechanism(model: Model) -> SceneMechanism | None:
    """The mechanism of a scene; None where all bodies move freely."""
    tree = skeleton(model)
    alone = {*free_nodes(tree)}
    nodes = [k for k in range(len(tree.nodes)) if k not in alone]
    if not nodes:
        return None
    q, v = (
        np.array([i for k in nodes for i in range(part[k].start, part[k].stop)], dtype=np.int64)
        for part in (tree.q_slices, tree.v_slices)
    )
    start = model.home
    state = State(frozen_array(np.asarray(start.q)[q], (len(q),)), frozen_array(np.asarray(start.v)[v], (len(v),)))
    own = replace(submodel(model, tree, set(nodes), -1, []), start=state)
    return SceneMechanism(_with_drives(own, model, tree), tuple(nodes), q, v)


def _with_drives(own: Model, model: Model, tree: Skeleton) -> Model:
    """A part of a model, with its actuators and elements and the frames that these act on."""
    inside = {body.name for body in own.bodies}
    elements = [e for e in acting_elements(model) if isinstance(e, Tendon) or e.body in inside]
    names = {actuator.frame for actuator in model.actuators if actuator.frame is not None}
    names = names.union(*[_frames_of(element) for element in elements]) - inside - {WORLD}

    def on_world(frame: Frame) -> Frame:
        pose = tree.bodies[frame.body].pose @ Pose.from_matrix(frame.pose)
        return Frame(frame.name, WORLD, frozen_array(pose.matrix(), (4, 4)))

    frames = [model.frame(name) for name in sorted(names)]
    frames = [frame if frame.body in inside else on_world(frame) for frame in frames]
    return replace(own, frames=tuple(frames), actuators=model.actuators, elements=tuple(elements))
