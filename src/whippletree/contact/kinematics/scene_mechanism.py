"""The bodies of a scene that joints hold together, apart from those that move freely: a model of their own.

Robots, doors and pendulums among many free bodies. Their dynamics know nothing of the free bodies but by contacts, so
that a compiled step (:mod:`whippletree.compiler.rollout.scenes.scene_trees`) has code for them alone, whatever lies
around. Constraints hold bodies together as joints do: two bodies that would be free but for a weld are a mechanism, and
so is a body that flies where an actuator, a tendon or held-up weight acts on it. Trees that stand on the world, or
float, are a *group* with those that constraints, servos or stops of tendons tie them to: the velocities of a group feel
no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.clusters.cluster_structure import submodel
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.rows import Prepared
from whippletree.constraints.ties import tied_bodies
from whippletree.contact.kinematics.joint_contacts import limited_axes, rubbing_axes
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
        """The group that each of its moving parts belongs to, counted from 0 in the order of their first ones."""
        tree = skeleton(self.model)
        root: list[int] = []
        for k, parent in enumerate(tree.parents):
            root.append(root[parent] if parent >= 0 else k)
        for tied in (*self._ties, *_driven_together(self.model, tree)):
            together = {root[k] for k in tied}
            root = [min(together) if own in together else own for own in root]
        numbers = {own: k for k, own in enumerate(dict.fromkeys(root))}
        return [numbers[own] for own in root]

    @property
    def is_tied(self) -> bool:
        """Whether constraints hold some of it."""
        return bool(self.model.constraints) and bool(constraint_set(self.model).structure.independent)

    @cached_property
    def groups_of_rows(self) -> list[int]:
        """The group that each row of its constraints holds together; −1 of rows that feel no moving part."""
        counts = [len(c.demand.rows) for c in _demands(self.model)]
        owners = [self.groups[tied[0]] if tied else -1 for tied in self._ties]
        return [group for group, count in zip(owners, counts, strict=True) for _ in range(count)]

    @cached_property
    def groups_of_impulses(self) -> list[int]:
        """The group of each row of one number that has an impulse: limits and dry friction of joints, stops of tendons,
        servos with a range."""
        model, tree, servos = self.model, skeleton(self.model), Servos(self.model)
        of_velocity = [self.groups[k] for k, part in enumerate(tree.v_slices) for _ in range(part.start, part.stop)]
        moved = [axis.v for axis in (*limited_axes(model), *rubbing_axes(model))]
        taut = [tendon for tendon in model.tendons if tendon.is_limited]
        moved += [model.slice(min(joints_of_tendon(tree, tendon))).start for tendon in taut]
        moved += [min(servos.moved_velocities(servo)) for servo in servos.bounded]
        return [of_velocity[v] for v in moved]

    @cached_property
    def _ties(self) -> list[list[int]]:
        tree = skeleton(self.model)
        return [tied_nodes_of(tree, c) for c in _demands(self.model)]


def _demands(model: Model) -> list[Prepared]:
    return list(constraint_set(model).demands) if model.constraints else []


def tied_nodes_of(tree: Skeleton, c: Prepared) -> list[int]:
    """Moving parts that a demand of a constraint relates."""
    return [k for k in tied_bodies(tree, c) if k >= 0]


def _driven_together(model: Model, tree: Skeleton) -> list[set[int]]:
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
    tied = {k for c in _demands(tree.model) for k in tied_nodes_of(tree, c)}
    held = {*tree.parents, *tied, *_driven_nodes(tree)}
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
    own = replace(submodel(model, tree, set(nodes), -1, _demands(model)), start=state)
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

    known = {frame.name for frame in own.frames}  # those that constraints are on
    frames = [model.frame(name) for name in sorted(names - known)]
    frames = [frame if frame.body in inside else on_world(frame) for frame in frames]
    return replace(own, frames=(*own.frames, *frames), actuators=model.actuators, elements=tuple(elements))
