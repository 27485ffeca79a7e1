"""The bodies of a scene that joints hold together, apart from those that move freely: a model of their own.

Robots, doors and pendulums among many free bodies. Their dynamics know nothing of the free bodies but by contacts, so
that a compiled step (:mod:`whippletree.compiler.rollout.scenes.scene_trees`) has code for them alone, whatever lies
around. Constraints hold bodies together as joints do: two bodies that would be free but for a weld are a mechanism.
Trees that stand on the world, or float, are a *group* with those that constraints tie them to: the velocities of a
group feel no others.
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

    @cached_property
    def groups(self) -> list[int]:
        """The group that each of its moving parts belongs to, counted from 0 in the order of their first ones."""
        tree = skeleton(self.model)
        root: list[int] = []
        for k, parent in enumerate(tree.parents):
            root.append(root[parent] if parent >= 0 else k)
        for tied in self._tied:
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
        owners = [self.groups[tied[0]] if tied else -1 for tied in self._tied]
        return [group for group, count in zip(owners, counts, strict=True) for _ in range(count)]

    @cached_property
    def _tied(self) -> list[list[int]]:
        tree = skeleton(self.model)
        return [tied_nodes_of(tree, c) for c in _demands(self.model)]


def _demands(model: Model) -> list[Prepared]:
    return list(constraint_set(model).demands) if model.constraints else []


def tied_nodes_of(tree: Skeleton, c: Prepared) -> list[int]:
    """Moving parts that a demand of a constraint relates."""
    return [k for k in tied_bodies(tree, c) if k >= 0]


def free_nodes(tree: Skeleton) -> list[int]:
    """Moving parts of a tree that nothing but contacts and gravity acts on."""
    carried = {*tree.parents, *(k for c in _demands(tree.model) for k in tied_nodes_of(tree, c))}
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
    own = replace(submodel(model, tree, set(nodes), -1, _demands(model)), start=state)
    return SceneMechanism(own, tuple(nodes), q, v)
