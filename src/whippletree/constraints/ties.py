"""Which joints the demands of constraints tie together, before any number of the mechanism is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import zeros
from whippletree.constraints.kinds.demand import Demand
from whippletree.constraints.rows import Prepared, frame_places, tied_nodes
from whippletree.graph import Digraph, loop_clusters
from whippletree.spatial import Pose
from whippletree.spatial.joints import JointType
from whippletree.spatial.modal import Modal, Port
from whippletree.tree.skeleton import Node, Skeleton


class Ties(NamedTuple):
    """Classes of a tree's nodes (each with the edge to its parent); −1 is the world."""

    members: list[list[int]]
    """Nodes of each class, parents first; a node that nothing ties is a class of its own."""
    tops: list[int]
    """The node that carries each class."""
    parents: tuple[int, ...]
    """The class of that node."""
    of_demand: tuple[int, ...]
    """The class that each demand ties; −1 where it feels no joint."""


def find_ties(tree: Skeleton, demands: Sequence[Prepared]) -> Ties:
    """Sort the nodes of a tree into classes that the same loops tie together (:mod:`whippletree.graph.spanning`).

    The modes of a flexible body and its frames are one class at least: between classes twists of six numbers pass.
    """
    graph = Digraph([-1, *range(len(tree.parents))], [(parent, k) for k, parent in enumerate(tree.parents)])
    bodies = [
        [k, tree.parents[parent]]
        for k, (node, parent) in enumerate(zip(tree.nodes, tree.parents, strict=True))
        if isinstance(node.joint, Port)
    ]
    found = loop_clusters(graph, [*[tied_bodies(tree, c) for c in demands], *bodies])
    members: Any = [sorted(own) for own in found.members]
    tops: Any = list(found.tops)
    return Ties(members, tops, found.parents, found.cluster_of_tie[: len(demands)])


def tied_bodies(tree: Skeleton, c: Prepared) -> list[int]:
    """The bodies that a demand relates: those of its frames (and the world), or both sides of its joints."""
    if c.demand.on == "frames":
        nodes = [node for node, _ in frame_places(tree, c)]
        # where frames meet in a flexible body they move against each other: its modes are part of the loop
        bent = [tree.meeting(nodes)] if tree.model.is_flexible else []
        return [*nodes, *bent, *([-1] if c.demand.in_world else [])]
    return [k for node in tied_nodes(tree, c) for k in (node, tree.parents[node])]


PLACEMENT_DECIMALS = 12
"""Decimals, of metres and of direction cosines, in which placements must agree for two clusters to be one mechanism:
all but the rounding that is left where the same linkage stands at another place."""


def kinematic_content(
    nodes: Sequence[Node], parents: Sequence[int], holds: Sequence[tuple[Demand, Sequence[tuple[int, Pose]]]]
) -> tuple[Any, ...]:
    """Equal for clusters that move alike: the same joints at the same places, whatever their masses.

    Args:
        nodes: the members.
        parents: position of each member's parent among them; −1 for the root body.
        holds: demands, each with the position of a member, or −1, and a pose on it, for every pose that it takes.

    Where on the root body a cluster stands does not matter, unless some demand looks at the world.
    """
    on_root = [node.placement.p for node, parent in zip(nodes, parents, strict=True) if parent < 0]
    anywhere = not any(demand.in_world for demand, _ in holds)
    origin = on_root[0] if anywhere and on_root else zeros(3)
    numbers = []
    for node, parent in zip(nodes, parents, strict=True):
        numbers += [*node.placement.R.ravel(), *(node.placement.p - (origin if parent < 0 else 0))]
        numbers += joint_numbers(node.joint)
    for demand, places in holds:
        for i, (at, pose) in enumerate(places):
            numbers += pose.R.ravel().tolist()
            if not (demand.carried and i == 0):  # of the body that carries all frames only the axes are looked at
                numbers += (pose.p - (origin if at < 0 else 0)).tolist()
    rounded = np.round(np.array(numbers, dtype=float), PLACEMENT_DECIMALS) + 0.0  # no negative zeros
    kinds = tuple(type(node.joint).__name__ for node in nodes)
    return kinds, tuple(parents), tuple(at for _, places in holds for at, _ in places), rounded.tobytes()


def joint_numbers(joint: JointType) -> list[Any]:
    """The numbers that a type of joint has: its axes and its pitch; of a flexible body's frame its place and modes."""
    if isinstance(joint, Modal):
        return [joint.nq]  # it moves nothing but its frames
    if isinstance(joint, Port):
        bent = [] if joint.shortening is None else list(joint.shortening.ravel())
        return [*joint.place.R.ravel(), *joint.place.p, *joint.shapes.ravel(), *joint.slopes.ravel(), *bent]
    if not is_dataclass(joint):
        return []
    return [x for part in fields(joint) for x in np.ravel(np.asarray(getattr(joint, part.name), dtype=object))]


def demand_content(c: Prepared) -> tuple[Any, ...]:
    """Equal for demands whose residuals are the same function."""
    own = c.demand
    return (c.constraint.kind, own.level, own.on, own.rows, own.in_world, _freeze(c.constraint.parameters))


def _freeze(value: Any) -> Any:
    """A hashable stand-in for a parameter; functions are equal to themselves only."""
    if hasattr(value, "ravel"):
        return ("array", value.shape, tuple(_freeze(x) for x in value.ravel().tolist()))
    if hasattr(value, "keys"):
        return tuple((name, _freeze(value[name])) for name in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(x) for x in value)
    if isinstance(value, (bool, int, float, str, bytes)) or value is None:
        return (type(value).__name__, value)
    return ("object", id(value))
