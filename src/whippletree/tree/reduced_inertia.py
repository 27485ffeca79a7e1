"""Equal mechanics with simpler parts: joints with constant subspaces, and as little inertia as possible beyond each.

Two changes to a skeleton, both exact in algebra; forces, accelerations and their derivatives stay what they are:

* a joint whose subspace depends on q becomes a chain of joints whose subspace does not (a universal joint two hinges, a
  planar joint two slides and a hinge), with massless parts between them. q and v keep their meaning and order;
* mass that a joint's motion leaves in place may as well belong to the parent: mass on the axis of a hinge, the
  orientation-dependent inertia beyond a slide, a point mass in the centre of a ball joint. After this step all mass
  beyond a hinge is zero and so is its first moment along the axis: seven numbers of ten remain (the minimal parameters
  of identification, Gautier & Khalil 1990). Inertias then grow with the distance from where they are
  measured and no longer with its square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from whippletree.arithmetic.arrays import vector, zeros
from whippletree.spatial import Pose
from whippletree.spatial.joints import JointType, Planar, Prismatic, Screw, Spherical, Universal, plane_directions
from whippletree.tree.moments import Moments
from whippletree.tree.skeleton import Node, Skeleton


class MovingPart(NamedTuple):
    """One moving part; its joint's subspace does not depend on q."""

    parent: int
    """−1 for the world."""
    joint: JointType
    placement: Pose
    """Pose of the joint frame in the parent's frame."""
    moments: Moments
    armature: Any
    q: slice
    v: slice
    node: int
    """The skeleton's node whose frame this is; −1 for a part between."""
    turns: bool = False
    """Whether its rotor resists along axes that turn with it."""


def parts(tree: Skeleton) -> list[MovingPart]:
    """The parts of a skeleton, parents first, their velocities in order."""
    result: list[MovingPart] = []
    last: list[int] = []
    for k, node in enumerate(tree.nodes):
        parent = last[tree.parents[k]] if tree.parents[k] >= 0 else -1
        for part in _lift_joint(node, parent, len(result), tree.q_slices[k], tree.v_slices[k]):
            result.append(part)
        result[-1] = result[-1]._replace(node=k, moments=Moments.of(node.inertia))
        last.append(len(result) - 1)
    return _regroup_masses(result)


def _lift_joint(node: Node, parent: int, number: int, q: slice, v: slice) -> list[MovingPart]:
    """A node's joint as joints of constant subspace; the first part will have the given number."""
    joint = node.joint
    if isinstance(joint, Universal):
        chain: list[JointType] = [Screw(joint.axis), Screw(joint.second_axis)]
    elif isinstance(joint, Planar):
        x, y = plane_directions(joint.axis)
        chain = [Prismatic(x), Prismatic(y), Screw(joint.axis)]
    else:
        return [MovingPart(parent, joint, node.placement, Moments.nothing(), node.armature, q, v, -1, node.turns)]
    placements = [node.placement, *[Pose.identity()] * (len(chain) - 1)]
    parents = [parent, *range(number, number + len(chain) - 1)]
    return [
        MovingPart(parents[i], joint, placements[i], Moments.nothing(), node.armature, _one(q, i), _one(v, i), -1)
        for i, joint in enumerate(chain)
    ]


def _one(part: slice, i: int) -> slice:
    return slice(part.start + i, part.start + i + 1)


def _regroup_masses(given: list[MovingPart]) -> list[MovingPart]:
    """These parts with all mass moved to the parent that does not feel the joint; at the world it is dropped."""
    result = list(given)
    for k in reversed(range(len(result))):
        part = result[k]
        unmoved = _unmoved_mass(part)
        result[k] = part._replace(moments=part.moments.less(unmoved))
        if part.parent >= 0:
            parent = result[part.parent]
            mass, first, second = unmoved.transform(part.placement)
            total = Moments(parent.moments.mass + mass, parent.moments.first + first, parent.moments.second + second)
            result[part.parent] = parent._replace(moments=total)
    return result


def _unmoved_mass(part: MovingPart) -> Moments:
    """The mass whose distribution, seen from the parent, no motion of the joint changes."""
    mass, first, second = part.moments
    match part.joint:
        case Screw(axis=axis, pitch=pitch) if pitch == 0 and axis[0] == 0 and axis[1] == 0:
            along = zeros(3, 3)
            along[2, 2] = second[2, 2]
            return Moments(mass, vector(0, 0, first[2]), along)
        case Prismatic():
            return Moments(0, zeros(3), second)
        case Spherical():
            return Moments(mass, zeros(3), zeros(3, 3))
        case _:
            return Moments.nothing()
