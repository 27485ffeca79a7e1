"""The bodies of a scene that joints hold together, apart from those that move freely: a model of their own.

Robots, doors and pendulums among many free bodies. Their dynamics know nothing of the free bodies but by contacts, so
that a compiled step (:mod:`whippletree.compiler.rollout.scenes.scene_trees`) has code for them alone, whatever lies
around. Each tree that stands on the world, or floats, is a *group*: its velocities feel no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.clusters.cluster_structure import submodel
from whippletree.model import Model, State
from whippletree.model.frozen import frozen_array
from whippletree.spatial.joints import Free
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

    @property
    def groups(self) -> list[int]:
        """The tree that each of its moving parts belongs to."""
        found: list[int] = []
        for parent in skeleton(self.model).parents:
            found.append(found[parent] if parent >= 0 else max(found, default=-1) + 1)
        return found


def free_nodes(tree: Skeleton) -> list[int]:
    """Moving parts of a tree that nothing but contacts and gravity acts on."""
    carried = {*tree.parents}
    return [
        k
        for k, (parent, node, joint) in enumerate(zip(tree.parents, tree.nodes, tree.joints, strict=True))
        if parent < 0
        and k not in carried
        and isinstance(node.joint, Free)
        and not joint.has_springs
        and joint.armature == 0
    ]


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
    return SceneMechanism(own, tuple(nodes), q, v)
