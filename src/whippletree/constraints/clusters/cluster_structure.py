"""The structure of a mechanism from those of its loop clusters, each looked at as a mechanism of its own.

Rows of a cluster feel none but its own joints, wherever the rest of the mechanism is. So redundancy, freedoms and
generic configurations are those of each cluster by itself: a small model whose world is the body that carries the
cluster. Clusters with the same numbers are looked at once: a chain of a thousand equal cells costs what one cell costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints.redundancy import Structure, find_structure, is_long
from whippletree.constraints.rows import Prepared, frame_places, tied_nodes
from whippletree.constraints.ties import Ties, demand_content, kinematic_content
from whippletree.errors import AssemblyError
from whippletree.model import WORLD, Frame, Model, State
from whippletree.model.frozen import frozen_array
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from whippletree.constraints.constraint_set import ConstraintSet


def structure_by_clusters(system: ConstraintSet) -> Structure:
    """The structure of a model's constraints, cluster by cluster where they are local.

    Raises:
        AssemblyError: if no configuration near the model's start closes the loops.
    """
    tree = skeleton(system.model)
    whole = any(c.demand.on == "massless" and c.constraint.kind != "hold" for c in system.demands)
    if whole or not system.demands or system.model.is_flexible:
        return find_structure(system)
    ties = system.ties
    looped = sorted({own for own in ties.of_demand if own >= 0})
    if -1 in ties.of_demand or (len(looped) == 1 and len(ties.members) == 1):
        return find_structure(system)
    try:
        return _join_clusters(system, tree, ties, looped)
    except AssemblyError:
        return find_structure(system)  # fails too, and says so of the whole model


def _join_clusters(system: ConstraintSet, tree: Skeleton, ties: Ties, looped: list[int]) -> Structure:
    model = system.model
    # many loops are closed together, not each anew
    start = np.array((model.home if is_long(system) else model.start or model.neutral).q, dtype=float)
    number = {name: i for i, name in enumerate(system.row_names)}
    demands: dict[int, list[int]] = {own: [] for own in looped}
    for i, own in enumerate(ties.of_demand):
        demands[own].append(i)
    known: dict[tuple[Any, ...], Structure] = {}
    moves: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    parts: list[tuple[list[int], Structure]] = []
    q = start.copy()
    for own in looped:
        prepared = [system.demands[i] for i in demands[own]]
        key = _content(tree, ties.members[own], ties.tops[own], prepared, start, moves)
        if key not in known:
            known[key] = find_structure(_subsystem(system, tree, ties, own, prepared, start))
        rows = [number[name] for c in prepared for name in c.row_names]
        parts.append((rows, known[key]))
        place = 0
        for k in ties.members[own]:
            size = tree.nodes[k].joint.nq
            q[tree.q_slices[k]] = known[key].configuration[place : place + size]
            place += size
    return _unite_structures(system, parts, q)


def _unite_structures(system: ConstraintSet, parts: list[tuple[list[int], Structure]], q: Array) -> Structure:
    """One structure of the structures of clusters, with their rows by number."""
    squares = {rows[i]: square for rows, s in parts for i, square in zip(s.independent, s.squares, strict=True)}
    tied = sum(len(rows) for rows, _ in parts)
    assert tied == len(system.row_names)
    independent = sorted(squares)
    held = sum(s.nv - s.mobility for _, s in parts)
    idle = [s for _, s in parts if not s.mobility]
    stuck = any(s.stuck for _, s in parts) and len(idle) + sum(s.stuck for _, s in parts) == len(parts)
    return Structure(
        independent=tuple(independent),
        redundant=tuple(sorted(rows[i] for rows, s in parts for i in s.redundant)),
        conditional=tuple(sorted(rows[i] for rows, s in parts for i in s.conditional)),
        faint={rows[i]: sine for rows, s in parts for i, sine in s.faint.items()},
        mobility=system.model.nv - held,
        branches=tuple(sorted(_sums(system.model.nv - sum(s.nv for _, s in parts), [s.branches for _, s in parts]))),
        configuration=q,
        squares=tuple(squares[i] for i in independent),
        stuck=stuck and sum(s.nv for _, s in parts) == system.model.nv,
        nv=system.model.nv,
    )


def _sums(start: int, choices: list[tuple[int, ...]]) -> set[int]:
    """Every number that is the start plus one number of each choice."""
    sums = {start}
    for own in choices:
        sums = {total + x for total in sums for x in own}
    return sums


def _content(
    tree: Skeleton,
    members: list[int],
    top: int,
    prepared: list[Prepared],
    start: Array,
    known: dict[tuple[Any, ...], tuple[Any, ...]],
) -> tuple[Any, ...]:
    """Equal for clusters that are the same mechanism at the same start.

    ``known``: what was found of clusters before, by the objects that they are made of: cells of a chain share these.
    """
    position = {k: i for i, k in enumerate(members)} | {top: -1}
    nodes = [tree.nodes[k] for k in members]
    parents = [position[tree.parents[k]] for k in members]
    places = [[(position[node], pose) for node, pose in frame_places(tree, c)] for c in prepared]
    same = (
        *map(id, nodes),
        *parents,
        *[
            (c.demand.in_world, c.demand.carried, *[(at, id(pose)) for at, pose in own])
            for c, own in zip(prepared, places, strict=True)
        ],
    )
    moves = known.get(same)
    if moves is None:
        holds = [(c.demand, own) for c, own in zip(prepared, places, strict=True)]
        moves = known[same] = kinematic_content(nodes, parents, holds)
    joints = tuple(position[node] for c in prepared for node in tied_nodes(tree, c))
    coordinates = tuple(start[tree.q_slices[k]].tobytes() for k in members)
    return (moves, joints, tuple(demand_content(c) for c in prepared), coordinates)


def _subsystem(
    system: ConstraintSet, tree: Skeleton, ties: Ties, own: int, prepared: list[Prepared], start: Array
) -> ConstraintSet:
    """The constraints of one cluster as those of a model in which the body that carries it is the world."""
    from whippletree.constraints.constraint_set import constraint_set  # which asks this module for its structure

    members, top = ties.members[own], ties.tops[own]
    model = submodel(system.model, tree, set(members), top, prepared)
    q = np.concatenate([start[tree.q_slices[k]] for k in members])
    return constraint_set(replace(model, start=State(q, np.zeros(model.nv))))


def submodel(model: Model, tree: Skeleton, members: set[int], top: int, prepared: list[Prepared]) -> Model:
    """Some nodes of a model, and demands on them, as a model of its own on a world that stands for what carries them.

    Its axes are those of the world at zero coordinates, so that what is said in world axes keeps its meaning.
    """
    turn = Pose(tree.neutral_rotations[top], zeros(3)) if top >= 0 else Pose.identity()
    inside = {name for name, place in tree.bodies.items() if place.node in members}

    def on_world(body: str, pose: Array) -> Array:
        X = turn @ tree.bodies[body].pose @ Pose.from_matrix(pose)
        return frozen_array(X.matrix(), (4, 4))

    kept = [(body, joint) for body, joint in zip(model.bodies, model.joints, strict=True) if body.name in inside]
    joints = [
        joint if joint.parent in inside else replace(joint, parent=WORLD, pose=on_world(joint.parent, joint.pose))
        for _, joint in kept
    ]
    on_frames = {name for c in prepared if c.demand.on == "frames" for name in c.constraint.on}
    frames = []
    for frame in [model.frame(name) for name in sorted(on_frames - inside - {WORLD})]:
        own = frame.body in inside
        frames.append(frame if own else Frame(frame.name, WORLD, on_world(frame.body, frame.pose)))
    chosen = {c.constraint.name: c.constraint for c in prepared}
    return Model(
        name=model.name,
        bodies=tuple(body for body, _ in kept),
        joints=tuple(joints),
        frames=tuple(frames),
        constraints=tuple(chosen.values()),
        gravity=model.gravity,
    )
