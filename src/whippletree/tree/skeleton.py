"""The moving parts of a model: welded bodies lumped together, joint axes turned onto z.

The algorithms see *nodes*, one per joint that moves. Two things happen on the way from a model, both exact in algebra:

* bodies that are welded together become one node, with the sum of their inertias;
* a node's frame is the body's frame turned so that a joint's axis is its z axis. Then the motion subspaces are unit
  vectors, zeros fold away, and all revolute joints share one piece of code. Zeros and ones that rounding blurred on
  the way are made exact again.

``Skeleton.place`` finds any frame of the model again: on which node it is, and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.errors import ScalarError, UnsupportedError
from whippletree.model import WORLD, Body, Joint, Model
from whippletree.model.frozen import found_once
from whippletree.spatial import Pose, RigidInertia, joints
from whippletree.spatial.joints import JointType, rotation_to
from whippletree.spatial.modal import Modal, ModalInertia, Port

ALIGNED = ("revolute", "helical", "prismatic", "cylindrical", "universal", "planar")
"""Joint kinds with an axis."""

LONG_CHAIN = 20
"""Joints one behind the other beyond which a tree is a long chain, whose inertial forces steps of first order may not
resolve: planar ones carry momenta, steps of others are watched. Many short trees are no long chain."""

Z = vector(0, 0, 1)


class Node(NamedTuple):
    """One moving part and the joint that carries it: all constants of the model that an algorithm needs.

    A body with modes is a node of its own, with a :class:`ModalInertia` and six numbers more than modes in its vectors;
    each of its frames is one, with a :class:`~whippletree.spatial.modal.Port` as joint.
    """

    joint: JointType
    placement: Pose
    """Pose of the joint frame in the parent node's frame."""
    inertia: Any
    """About the node frame's origin, in its axes: a RigidInertia, or a ModalInertia of a body with modes."""
    armature: Any
    """Inertia that the rotor adds to each freedom."""
    turns: bool = False
    """Whether that inertia resists along axes that turn with the node: of a free joint."""


class Place(NamedTuple):
    """Where a frame is: its node (−1 for the world) and its pose there."""

    node: int
    pose: Pose


@dataclass(frozen=True)
class Skeleton:
    """The tree of nodes of a model."""

    model: Model
    parents: tuple[int, ...]
    nodes: tuple[Node, ...]
    joints: tuple[Joint, ...]
    """The model's joint of each node."""
    q_slices: tuple[slice, ...]
    v_slices: tuple[slice, ...]
    bodies: dict[str, Place]
    inputs: tuple[slice, ...]
    """The part of q that each node's pose depends on: its own, and for a frame of a flexible body that of the modes."""

    @property
    def grounded(self) -> bool:
        """A whole tree stands on the world."""
        return True

    def place(self, frame: str) -> Place:
        """Where a frame or body of the model is."""
        known = self._places
        if frame not in known:
            known[frame] = self._find_place(frame)
        return known[frame]

    def places(self, frames: tuple[str, ...], *, carried: bool) -> tuple[Place, ...]:
        """Where several frames or bodies are; before them, with ``carried``, the lowest node that carries them all."""
        known = self._places_together
        found = known.get((frames, carried))
        if found is None:
            found = tuple([self.place(frame) for frame in frames])
            if carried:
                found = (self.carrier([place.node for place in found]), *found)
            known[frames, carried] = found
        return found

    @cached_property
    def _places_together(self) -> dict[tuple[tuple[str, ...], bool], tuple[Place, ...]]:
        """Places that were asked for: analyses of constraints ask for those of each a dozen times."""
        return {}

    @cached_property
    def _places(self) -> dict[str, Place]:
        """Places of single frames."""
        return {}

    @cached_property
    def _poses(self) -> dict[tuple[int, bytes], Pose]:
        """Poses of frames, by the pose of the body and the numbers of the frame: cells of a chain share them."""
        return {}

    def _find_place(self, frame: str) -> Place:
        found = self.model.frame(frame)
        node, pose = self.bodies[found.body]
        if node >= 0 and isinstance(self.nodes[node].joint, Modal):
            raise UnsupportedError(
                f"model {self.model.name!r}: {frame!r} is a flexible body as a whole, which bends and has no pose: "
                f"name one of its frames, or its reference frame {found.body.rpartition('/')[0]!r}"
            )
        own = found.pose
        if own.dtype == object:  # an open parameter
            return Place(node, pose @ Pose.from_matrix(own))
        key = id(pose), own.tobytes()
        if key not in self._poses:
            self._poses[key] = (pose @ Pose.from_matrix(own)).without_noise()
        return Place(node, self._poses[key])

    def nodes_of(self, joints: Sequence[str]) -> tuple[int, ...]:
        """The nodes of some joints, in order."""
        chosen = set(joints)
        return tuple(k for k, joint in enumerate(self.joints) if joint.name in chosen)

    def path(self, node: int, base: int = -1) -> list[int]:
        """The node and its ancestors, tip first, as far as they are below ``base``."""
        return path_below(self.parents, node, base)

    def meeting(self, nodes: Sequence[int]) -> int:
        """The lowest node that carries all of these, as a rigid part; −1 for the world."""
        found = meeting_point(self.parents, nodes)
        # frames of one flexible body move against each other: what carries them both is its reference frame
        while found >= 0 and isinstance(self.nodes[found].joint, Modal):
            found = self.parents[found]
        return found

    @cached_property
    def neutral_rotations(self) -> tuple[Array, ...]:
        """Rotation (3, 3) of every node in the world at neutral coordinates."""
        rotations: list[Array] = []
        turns: dict[int, Array] = {}  # equal bodies on equal joints are one node
        for parent, node in zip(self.parents, self.nodes, strict=True):
            if id(node) not in turns:
                joint = node.joint
                turned = joint.place if isinstance(joint, Port) else joint.pose(vector(*joint.neutral))
                turns[id(node)] = (node.placement @ turned).R
            own = turns[id(node)]
            rotations.append(rotations[parent] @ own if parent >= 0 else own)
        return tuple(rotations)

    def carrier(self, nodes: Sequence[int]) -> Place:
        """The lowest node that carries all of these, turned to world axes at zero coordinates."""
        node = self.meeting(nodes)
        if node not in self._carriers:
            self._carriers[node] = Place(node, self._turned_back(node) if node >= 0 else Pose.identity())
        return self._carriers[node]

    @cached_property
    def _carriers(self) -> dict[int, Place]:
        """Carriers that were asked for, by node."""
        return {}

    def _turned_back(self, node: int) -> Pose:
        """The pose of world axes in a node at zero coordinates; nodes with the same numbers share it."""
        turn = self.neutral_rotations[node].T
        numbers = tuple(turn.ravel().tolist())
        # 1 and 1.0 are equal, but one of them is exact
        return self._turns.setdefault((numbers, tuple(map(type, numbers))), Pose(turn, zeros(3)))

    @cached_property
    def _turns(self) -> dict[Any, Pose]:
        """Turns that were asked for, by their numbers."""
        return {}

    @cached_property
    def doubtful(self) -> tuple[int, ...]:
        """The nodes whose joint may lack inertia in some state: their own body does not give every motion some.

        D = H (M + what the children add) H* + J, and what the children add is never negative; so a body with inertia of
        its own along the joint settles the question for all states.
        """
        settled = {id(node): _has_inertia(node) for node in {id(node): node for node in self.nodes}.values()}
        return tuple(k for k, node in enumerate(self.nodes) if not settled[id(node)])

    @property
    def velocity_parents(self) -> tuple[int, ...]:
        """For each velocity, the one before it on the way to the base: the tree of the mass matrix's entries."""
        last: list[int] = []
        parents: list[int] = []
        for node, part in enumerate(self.v_slices):
            before = next((last[k] for k in self.path(self.parents[node]) if last[k] >= 0), -1)
            for i in range(part.start, part.stop):
                parents.append(before)
                before = i
            last.append(before)
        return tuple(parents)


def path_below(parents: Sequence[int], node: int, base: int) -> list[int]:
    """The node and its ancestors, tip first, down to the last one below ``base``."""
    path = []
    while node != base:
        path.append(node)
        node = parents[node]
    return path


def longest_chain(parents: Sequence[int]) -> int:
    """Joints one behind the other, of a forest whose nodes come after their parents."""
    found: list[int] = []
    for parent in parents:
        found.append(1 + (found[parent] if parent >= 0 else 0))
    return max(found, default=0)


def meeting_point(parents: Sequence[int], nodes: Sequence[int]) -> int:
    """The lowest common ancestor of nodes, themselves included; −1 for the world. Parents have smaller numbers."""
    heads = set(nodes)
    while len(heads) > 1:
        lowest = max(heads)  # no ancestor of another head, so it is not the one that they share
        heads.remove(lowest)
        heads.add(parents[lowest])
    return heads.pop()


@found_once
def skeleton(model: Model) -> Skeleton:
    """The moving parts of a model; the same object for the same model.

    Its numbers may be of any scalar type, also traced (open parameters). This is the tree alone. Whether a function may
    be asked of a model with constraints is the catalogue's business.
    """
    bodies: dict[str, Place] = {WORLD: Place(-1, Pose.identity())}
    parents: list[int] = []
    nodes: list[Node] = []
    carriers: list[int] = []
    made: dict[tuple[Any, ...], tuple[Node, Pose]] = {}
    turns: dict[tuple[Any, ...], Pose] = {}
    for k, (body, joint) in enumerate(zip(model.bodies, model.joints, strict=True)):
        node, at = bodies[joint.parent]
        if joint.kind == "weld":
            placement = at @ Pose.from_matrix(joint.pose)
            bodies[body.name] = Place(node, placement)
            if node >= 0:
                own = RigidInertia.about_center(body.mass, body.center, body.inertia)
                nodes[node] = nodes[node]._replace(inertia=nodes[node].inertia + own.transform(placement))
            continue
        if joint.flexible is not None:
            kind = model.joint_types[k]
            mass = kind.inertia if isinstance(kind, Modal) else RigidInertia.nothing()
            bodies[body.name] = Place(len(nodes), Pose.identity())
            parents.append(node)
            nodes.append(Node(kind, at, mass, 0))
            carriers.append(k)
            continue
        # equal bodies on equal joints share a node: then a chain of a million rods is made once, not a million times
        key = (id(at), *_content(body, joint))
        if key not in made:
            part, back = _moving_part(at, body, joint)
            made[key] = part, turns.setdefault((joint.kind in ALIGNED, joint.axis.tobytes()), back)
        part, back = made[key]
        bodies[body.name] = Place(len(nodes), back)
        parents.append(node)
        nodes.append(part)
        carriers.append(k)
    return Skeleton(
        model,
        tuple(parents),
        tuple(nodes),
        tuple(model.joints[k] for k in carriers),
        tuple(model.q_slices[k] for k in carriers),
        tuple(model.v_slices[k] for k in carriers),
        bodies,
        tuple(model.q_slices[model.parents[k] if model.joints[k].kind == "port" else k] for k in carriers),
    )


def _content(body: Body, joint: Joint) -> tuple[Any, ...]:
    """Equal only for bodies and joints with the same numbers of the same scalar types."""
    arrays = (body.center, body.inertia, joint.pose, joint.axis, joint.second_axis)
    scalars = (body.mass, joint.pitch, joint.rotor_inertia, joint.gear_ratio)
    return (joint.kind, *[a.dtype.char for a in arrays], *[a.tobytes() for a in arrays], *scalars, *map(type, scalars))


def _moving_part(at: Pose, body: Body, joint: Joint) -> tuple[Node, Pose]:
    """The node of a body on a joint, and the pose of the body's frame in it; ``at``: pose of the parent in its node."""
    own = RigidInertia.about_center(body.mass, body.center, body.inertia)
    kind, align = _align_axis(joint)
    back = align.inverse()
    placement = (at @ Pose.from_matrix(joint.pose) @ align).without_noise()
    return Node(kind, placement, own.transform(back), joint.armature, rotor_turns(joint)), back


def rotor_turns(joint: Joint) -> bool:
    """Whether a joint has a rotor that resists along axes which turn: a free one, whose linear velocity has them."""
    return joint.kind == "free" and not is_zero(joint.armature)


def _align_axis(joint: Joint) -> tuple[JointType, Pose]:
    """The joint's type with its axis along z, and the rotation that brings z onto the axis."""
    if joint.kind not in ALIGNED:
        return joint.type, Pose.identity()
    R = rotation_to(joint.axis.astype(object))
    return joints.make(joint.kind, Z, R.T @ _objects(joint.second_axis), joint.pitch), Pose(R, zeros(3))


def _objects(array: Array) -> Array:
    """Plain floats as Python floats, which fold with traced scalars."""
    return array.astype(object)


def _has_inertia(node: Node) -> bool:
    """Whether the node's own inertia (and its rotor) resists every motion of its joint; False where that is unknown."""
    if isinstance(node.inertia, ModalInertia):
        return True  # the modal mass was found to be positive definite when the body was made
    try:
        rotor = float(node.armature)
        own = np.array(node.inertia.dense(), dtype=float)
    except (TypeError, ScalarError):
        return False  # an open parameter: only the values of a call can tell
    if rotor > 0:
        return True
    if isinstance(node.joint, (joints.Universal, joints.Planar)):
        H = np.eye(6)  # their subspace turns with q: ask for inertia in all directions
    else:
        H = np.array(node.joint.subspace(np.array(node.joint.neutral, dtype=object)), dtype=float)
    smallest = np.linalg.eigvalsh(H.T @ own @ H)[0] if H.shape[1] else 1.0
    return bool(smallest > 0)
