"""The mechanisms of a scene that nothing ties together: each a small model of its own, and where it is in the scene.

Trees that stand on the world side by side, and loops of constraints that join some of them, make mechanisms that feel
nothing of each other: the mass matrix of the scene has blocks, one for each. Those that differ in their numbers alone
(in where they stand, in lengths, in masses) are of one *kind*: what was written for one does for all, with the numbers
of each in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.clusters.cluster_structure import submodel
from whippletree.constraints.constraint_set import RELAXING, ConstraintSet, constraint_set
from whippletree.constraints.rows import Prepared
from whippletree.constraints.ties import PLACEMENT_DECIMALS, demand_content
from whippletree.model import WORLD, Model, State
from whippletree.model.frozen import frozen_array
from whippletree.tree.skeleton import skeleton

BODY_NUMBERS = {"mass": (), "center": (3,), "inertia": (3, 3)}
JOINT_NUMBERS = {
    "pose": (4, 4),
    "pitch": (),
    "rotor_inertia": (),
    "gear_ratio": (),
    "stiffness": (),
    "rest": (),
    "damping": (),
}
FRAME_NUMBERS = {"pose": (4, 4)}
"""Numbers in which mechanisms of one kind may differ, with their shapes: of bodies, joints and frames."""


@dataclass(frozen=True, eq=False)
class SeparateMechanism:
    """One mechanism of a scene."""

    model: Model
    """Itself, alone in the world."""
    nodes: tuple[int, ...]
    """Its moving parts among those of the scene."""
    places: Mapping[str, tuple[int, ...]]
    """By the name of a size (nq, nv, rows, positions, switches): which entries of the scene's vectors are its own."""

    @cached_property
    def numbers(self) -> Array:
        """All numbers in which it may differ from others of its kind, one after the other."""
        found = [np.ravel(np.asarray(value, dtype=float)) for value in _numbers(self.model)]
        return np.concatenate(found) if found else np.zeros(0)

    @cached_property
    def kind(self) -> tuple[Any, ...]:
        """Equal for mechanisms that are built alike, with numbers of their own."""
        model = self.model
        number = {WORLD: -1} | {body.name: k for k, body in enumerate(model.bodies)}
        named = {
            "body": number,
            "frame": {frame.name: k for k, frame in enumerate(model.frames)},
            "joint": {joint.name: k for k, joint in enumerate(model.joints)},
        }
        arrays = [(j.kind, number[j.parent], j.axis.tobytes(), j.second_axis.tobytes()) for j in model.joints]
        layout = tuple((word, tuple(k - own[0] for k in own)) for word, own in self.places.items() if own)
        tied = [
            tuple((word, own[name]) for name in c.on for word, own in named.items() if name in own)
            for c in model.constraints
        ]
        demands = [demand_content(c) for c in constraint_set(model).demands] if model.constraints else []
        nodes = tuple(k - self.nodes[0] for k in self.nodes)
        on = tuple(number[frame.body] for frame in model.frames)
        return tuple(arrays), layout, nodes, on, tuple(tied), tuple(demands)

    @cached_property
    def numbers_at_home(self) -> bytes:
        """Numbers of the mechanism as seen from where it stands: equal for the same mechanism elsewhere."""
        model = self.model
        on_world = [k for k, joint in enumerate(model.joints) if joint.parent == WORLD]
        origin = np.asarray(model.joints[on_world[0]].pose[:3, 3], dtype=float)

        def moved(pose: Array) -> Array:
            seen = np.array(pose, dtype=float)
            seen[:3, 3] -= origin
            return seen

        joints = [replace(j, pose=moved(j.pose)) if j.parent == WORLD else j for j in model.joints]
        frames = [replace(f, pose=moved(f.pose)) if f.body == WORLD else f for f in model.frames]
        own = _numbers(replace(model, joints=tuple(joints), frames=tuple(frames)))
        flat = np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in own])
        return np.asarray(np.round(flat, PLACEMENT_DECIMALS) + 0.0).tobytes()

    @cached_property
    def decisions(self) -> tuple[Any, ...]:
        """Choices that its numbers lead to: joints that may lack inertia, factored rows, light loops."""
        doubtful = skeleton(self.model).doubtful
        if not self.model.constraints:
            return (doubtful,)
        system = constraint_set(self.model)
        return doubtful, system.structure.independent, system.structure.conditional, system.light

    def with_numbers(self, numbers: Sequence[Any]) -> Model:
        """The mechanism's model with other numbers, of any scalar type, in the order of :attr:`numbers`."""
        left = iter(numbers)

        def with_arrays(part: Any, fields: Mapping[str, tuple[int, ...]]) -> Any:
            return replace(part, **{word: _array(left, shape) for word, shape in fields.items()})

        model = self.model
        bodies = tuple(with_arrays(body, BODY_NUMBERS) for body in model.bodies)
        joints = tuple(with_arrays(joint, JOINT_NUMBERS) for joint in model.joints)
        frames = tuple(with_arrays(frame, FRAME_NUMBERS) for frame in model.frames)
        return replace(model, bodies=bodies, joints=joints, frames=frames, origin=model)


def _numbers(model: Model) -> list[Any]:
    groups = ((model.bodies, BODY_NUMBERS), (model.joints, JOINT_NUMBERS), (model.frames, FRAME_NUMBERS))
    return [getattr(part, word) for parts, fields in groups for part in parts for word in fields]


def _array(left: Any, shape: tuple[int, ...]) -> Any:
    if not shape:
        return next(left)
    flat = np.empty(int(np.prod(shape)), dtype=object)
    flat[:] = [next(left) for _ in range(flat.size)]
    return flat.reshape(shape)


def separate_mechanisms(model: Model) -> tuple[SeparateMechanism, ...]:
    """The mechanisms of a scene, in the order of their first bodies; none where they cannot be told apart.

    That is so for a single mechanism, where bodies have modes, tendons or a fluid act, and where rows belong to no
    mechanism or depend on the whole.
    """
    if model.is_flexible or model.elements or not model.joints:
        return ()
    system = constraint_set(model)
    ties = system.ties
    if -1 in ties.of_demand or any(c.constraint.kind in RELAXING for c in system.demands):
        return ()
    root = list(range(len(ties.members)))
    for own, parent in enumerate(ties.parents):  # parents come first
        root[own] = root[parent] if parent >= 0 else own
    nodes: dict[int, list[int]] = {}
    for own, top in enumerate(root):
        nodes.setdefault(top, []).extend(ties.members[own])
    if len(nodes) < 2:
        return ()
    demands: dict[int, list[Prepared]] = {top: [] for top in nodes}
    for c, own in zip(system.demands, ties.of_demand, strict=True):
        demands[root[own]].append(c)
    found = [_alone(system, sorted(nodes[top]), demands[top]) for top in nodes]
    return tuple(sorted(found, key=lambda one: one.nodes[0]))


def _alone(system: ConstraintSet, nodes: list[int], demands: list[Prepared]) -> SeparateMechanism:
    """The mechanism of some nodes of a scene, and of the demands on them."""
    model, tree = system.model, skeleton(system.model)
    number = {name: k for k, name in enumerate(system.row_names)}
    position = {row: k for k, row in enumerate(system.position_rows)}
    rows = tuple(number[name] for c in demands for name in c.row_names)
    names = {c.constraint.name for c in demands}
    nq, nv = (
        tuple(i for k in nodes for i in range(slices[k].start, slices[k].stop))
        for slices in (tree.q_slices, tree.v_slices)
    )
    places = {
        "nq": nq,
        "nv": nv,
        "rows": rows,
        "positions": tuple(position[row] for row in rows if row in position),
        "switches": tuple(k for k, name in enumerate(system.switches) if name in names),
    }
    start = model.start if model.start is not None else model.neutral
    state = State(
        frozen_array(np.asarray(start.q)[list(nq)], (len(nq),)), frozen_array(np.asarray(start.v)[list(nv)], (len(nv),))
    )
    alone = replace(submodel(model, tree, set(nodes), -1, demands), start=state)
    return SeparateMechanism(alone, tuple(nodes), places)


def by_kind(mechanisms: Sequence[SeparateMechanism]) -> list[list[SeparateMechanism]]:
    """Mechanisms of one kind together."""
    known: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    kinds: dict[tuple[Any, ...], list[SeparateMechanism]] = {}
    for one in mechanisms:
        content = (one.kind, one.numbers_at_home)
        if content not in known:
            known[content] = one.decisions
        kinds.setdefault((one.kind, known[content]), []).append(one)
    return list(kinds.values())
