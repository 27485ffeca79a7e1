"""Joints that close loops: which of them are cut, and what takes the place of a cut joint.

Bodies are nodes and joints are edges; where the edges close loops, a spanning tree keeps as many joints as there are
bodies and the others are *cut* (002, "multiple graph options for loop systems"). By default that is the joint declared
last in each loop; the user may name others. A tree is directed away from the world, so a joint that was declared
towards it is turned round.

A cut joint becomes a constraint with its name, of the kind that leaves it the same freedom (a revolute joint becomes a
hinge). Its coordinate is gone with it. Where something acts along the joint (a spring, a damper, friction, a rotor, a
limit), where a motor, a gear or a prescribed motion needs its coordinate, or where no kind of constraint has its
freedom (a screw), the *body* is cut instead: the joint stays in the tree and carries a massless copy of its child's
frame, ``CHILD/JOINT``, which is welded to the child. So nothing that was said of a joint is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError, did_you_mean, list_items
from whippletree.model.constraint_syntax import KINDS
from whippletree.model.faults import depth_first, end_faults, naming_faults
from whippletree.model.frozen import frozen_array
from whippletree.model.input_checks import as_names
from whippletree.model.model import WORLD, Actuator, Body, Constraint, Frame, Joint, Model, State
from whippletree.spatial import Pose, rotation_quaternion
from whippletree.spatial import joints as joint_types

if TYPE_CHECKING:
    from whippletree.graph.spanning import SpanningTree

CLOSING = {
    "revolute": "hinge",
    "prismatic": "slider",
    "cylindrical": "cylindrical",
    "universal": "universal",
    "planar": "plane",
    "spherical": "point",
    "weld": "weld",
}
"""Kinds of joints, and the constraints that leave the same freedom."""

SQUARE = 1e-15
"""How far the product of the two unit axes of a universal joint may be from 0 and count as square: rounding of them.
The constraint ``universal`` keeps two axes at a right angle; a joint may have another."""

ACTING = ("rotor_inertia", "stiffness", "damping", "friction")
ENDS = ("lower", "upper")
RATINGS = ("velocity_limit", "effort_limit")
"""Numbers that no equation of motion has: a constraint in the joint's place keeps them as data."""

FITTING_STEPS = 20
"""Gauss-Newton steps for the coordinate of a joint between two given frames; one that has its freedom needs two."""


@dataclass(frozen=True)
class Opened:
    """The parts of a model whose loops have been cut. Made by :func:`open_loops`."""

    bodies: tuple[Body, ...]
    """Those declared, and the massless ones that take a joint's place in its child."""
    joints: tuple[Joint, ...]
    """A tree, in order of declaration."""
    frames: tuple[Frame, ...] = ()
    """Two for each cut: where the loop is closed."""
    constraints: tuple[Constraint, ...] = ()
    """One for each cut, with the name of its joint."""
    turned: Mapping[str, str] = field(default_factory=dict)
    """Joints that were turned round, with their kinds."""
    parted: Mapping[str, str] = field(default_factory=dict)
    """Joints that kept their coordinates though they close a loop, with the child that was cut."""
    notes: tuple[str, ...] = ()
    """A description of the cut, in words."""

    def in_tree_order(self) -> dict[str, Any]:
        """``bodies`` and ``joints`` of the model: parents first, depth first."""
        carried = {joint.child: joint for joint in self.joints}
        named = {body.name: body for body in self.bodies}
        # the modes of a flexible body come right behind the joint that carries it, whatever else hangs there
        order = depth_first(sorted(self.joints, key=lambda joint: joint.flexible is None))
        return {"bodies": tuple(named[x] for x in order), "joints": tuple(carried[x] for x in order)}


@dataclass(frozen=True)
class Cut:
    """A choice of joints to cut, and the faults that were found on the way to it."""

    tree: SpanningTree | None
    faults: tuple[str, ...] = ()


def choose_cut(bodies: Sequence[Body], joints: Sequence[Joint], cut: Iterable[str] = ()) -> Cut:
    """The spanning tree of the joints (edges by their number), None where the joints make a tree as they are.

    The joints named are cut; of every loop that is left, the one declared last.
    """
    if faults := end_faults(bodies, joints):
        return Cut(None, tuple(faults))
    chosen = dict.fromkeys(as_names(cut))
    names = [joint.name for joint in joints]
    faults = [
        f"cut: there is no joint {name!r}; known: {list_items(map(repr, names))}{did_you_mean(str(name), names)}"
        for name in chosen
        if name not in names
    ]
    faults += [
        f"cut: joint {joint.name!r} is part of a flexible body and cannot be cut"
        for joint in joints
        if joint.name in chosen and joint.flexible is not None
    ]
    carriers = Counter(joint.child for joint in joints)
    if not chosen and len(carriers) == len(bodies) and not any(n > 1 for n in carriers.values()):
        return Cut(None, tuple(faults))
    # imported here: a plain tree, which most models are, starts without graph theory
    from whippletree.graph.spanning import spanning_tree

    edges = {k: (joint.parent, joint.child) for k, joint in enumerate(joints)}
    selfish = [joint.name for joint in joints if joint.parent == joint.child]
    faults += [f"joint {name!r} joins a body to itself: correct its parent or its child" for name in selfish]
    if faults:
        return Cut(None, tuple(faults))
    # those that are to be cut come last, so that they are cut wherever the others connect their bodies
    # and what a flexible body is made of first: it cannot be cut
    ordered = sorted(edges, key=lambda k: (joints[k].name in chosen, joints[k].flexible is None))
    nodes = dict.fromkeys((WORLD, *(body.name for body in bodies)))
    tree = spanning_tree(nodes, {k: edges[k] for k in ordered})
    kept = [joint for k, joint in enumerate(joints) if k in tree.tree_edges and joint.name in chosen]
    faults += [
        f"cut: joint {joint.name!r} cannot be cut: no other joint leads from {joint.parent!r} to {joint.child!r}, so "
        f"it closes no loop. Leave it out of the cut, or cut fewer joints of the same loop"
        for joint in kept
    ]
    return Cut(tree, tuple(faults))


def open_loops(
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    child_poses: Mapping[int, Array],
    tree: SpanningTree | None,
    needed: Collection[str] = (),
) -> Opened:
    """Make a tree of the joints: cut the closing ones, turn round those that lead towards the world.

    Args:
        bodies: as declared.
        joints: as declared, connected to the world.
        child_poses: number of a joint -> pose of its frame in the child, where that is not the child's own frame.
        tree: which joints are kept, and which way they lead; None if all are, as declared.
        needed: names of joints whose coordinates something else uses.
    """
    made = _Made(list(bodies))
    for k, joint in enumerate(joints):
        inner = child_poses.get(k)
        if tree is not None and k in tree.cut_edges:
            made.close(joint, inner, needed)
        elif tree is not None and k in tree.reversed_edges:
            made.turn_round(joint, inner)
        else:
            made.hang(joint, inner)
    return made.as_opened()


def turning_faults(joints: Sequence[Joint], tree: SpanningTree | None, needed: Collection[str]) -> list[str]:
    """Joints that would have to be turned round, and whose coordinates cannot be kept by doing so."""
    turned = [] if tree is None else [joint for k, joint in enumerate(joints) if k in tree.reversed_edges]
    bent = {joint.name: joint.name.rpartition("/")[0] for joint in turned if joint.flexible is not None}
    return [
        *(
            f"flexible body {body!r} hangs on nothing but its frame {name!r}: its reference frame {body!r} needs a "
            f"carrier of its own, such as a joint of kind 'free' from 'world' to {body!r}; the joint at {name!r} then "
            f"closes a loop. Or make the body with its reference frame there"
            for name, body in bent.items()
        )
    ] + [
        f"joint {joint.name!r} of kind {joint.kind!r} leads from {joint.parent!r} to {joint.child!r}, and the tree "
        f"from {joint.child!r} to {joint.parent!r}: its coordinates, which {_users(joint, needed)}, would change their "
        f"meaning. Declare it the other way round, or cut another joint of the loop"
        for joint in turned
        if joint.kind in ("planar", "free") and (acting(joint) or joint.name in needed)
    ]


def _users(joint: Joint, needed: Collection[str]) -> str:
    return "something else names" if joint.name in needed else f"{list_items(acting(joint))} act along"


def acting(joint: Joint) -> list[str]:
    """Properties of a joint that need its coordinate or rate: springs, dampers, friction, rotor, limits."""
    found = [word for word in ACTING if np.any(np.asarray(getattr(joint, word)) != 0)]
    return found + [word for word in ENDS if np.isfinite(getattr(joint, word))]


class _Made:
    """The parts of the tree while it grows."""

    def __init__(self, bodies: list[Body]) -> None:
        self.bodies = bodies
        self.joints: list[Joint] = []
        self.frames: list[Frame] = []
        self.constraints: list[Constraint] = []
        self.turned: dict[str, str] = {}
        self.parted: dict[str, str] = {}
        self.notes: list[str] = []

    def as_opened(self) -> Opened:
        return Opened(
            tuple(self.bodies), tuple(self.joints), tuple(self.frames), tuple(self.constraints), self.turned,
            self.parted, tuple(self.notes),
        )  # fmt: skip

    def hang(self, joint: Joint, inner: Array | None) -> None:
        """A joint of the tree; where it acts beside the child's frame, a massless body and a weld lead to that."""
        if inner is None:
            self.joints.append(joint)
            return
        between = f"{joint.child}/{joint.name}"
        self.bodies.append(Body(between))
        self.joints.append(replace(joint, child=between))
        self.joints.append(Joint(f"{joint.child}/weld", "weld", between, joint.child, _inverse(inner)))

    def turn_round(self, joint: Joint, inner: Array | None) -> None:
        """X T(q) Y⁻¹ is the child in the parent, so Y T(q)⁻¹ X⁻¹ is the parent in the child."""
        axes: dict[str, Any] = {"axis": _opposite(joint.axis)}
        if joint.kind == "universal":
            axes = {"axis": _opposite(joint.second_axis), "second_axis": _opposite(joint.axis)}
        if joint.kind in ("planar", "free"):
            axes = {}
        outer = None if np.array_equal(joint.pose, np.eye(4)) else joint.pose
        pose = Joint(joint.name, joint.kind, joint.child, joint.parent).pose if inner is None else inner
        self.hang(replace(joint, parent=joint.child, child=joint.parent, pose=pose, **axes), outer)
        self.turned[joint.name] = joint.kind
        meaning = {"universal": ", its two coordinates in the other order", "spherical": ", its turn inverted"}
        other = ", with other coordinates" if joint.kind in ("planar", "free") else ""
        self.notes.append(
            f"joint {joint.name!r} is turned round: {joint.child!r} carries {joint.parent!r}"
            f"{meaning.get(joint.kind, other)}"
        )

    def close(self, joint: Joint, inner: Array | None, needed: Collection[str]) -> None:
        """A joint that closes a loop, as a constraint; or kept, with a massless copy of its child welded to that."""
        reasons = acting(joint) + ["its coordinate is used"] * (joint.name in needed)
        kind = _closing_kind(joint)
        where = f"loop cut at joint {joint.name!r} ({joint.kind}, {joint.parent!r} to {joint.child!r})"
        if joint.kind == "free" and not reasons:
            self.notes.append(f"{where}: it binds nothing, and is left out")
            return
        if kind is not None and not reasons:
            self._tie(joint, kind, (joint.parent, joint.pose), (joint.child, inner), _numbers_of(joint, kind))
            self.notes.append(f"{where}: constraint {joint.name!r} of kind {kind!r}")
            return
        copy = f"{joint.child}/{joint.name}"
        self.bodies.append(Body(copy))
        self.joints.append(replace(joint, child=copy))
        self._tie(joint, "weld", (copy, None), (joint.child, inner), {})
        self.parted[joint.name] = joint.child
        why = ", ".join(reasons) if reasons else f"no constraint has the freedom of a {joint.kind} joint"
        self.notes.append(f"{where}: the joint stays and carries {copy!r}, welded to {joint.child!r}, because: {why}")

    def _tie(
        self,
        joint: Joint,
        kind: str,
        first: tuple[str, Array | None],
        second: tuple[str, Array | None],
        numbers: dict[str, Any],
    ) -> None:
        on = []
        for number, (body, pose) in enumerate((first, second), start=1):
            name = f"{joint.name}/{number}"
            self.frames.append(Frame(name, body) if pose is None else Frame(name, body, pose))
            on.append(name)
        self.constraints.append(Constraint(joint.name, kind, tuple(on), numbers, joint.kind))


def _closing_kind(joint: Joint) -> str | None:
    """The kind of constraint with the joint's freedom; None if there is none."""
    if joint.kind == "universal" and not abs(joint.axis @ joint.second_axis) <= SQUARE:
        return None
    return CLOSING.get(joint.kind)


def _numbers_of(joint: Joint, kind: str) -> dict[str, Any]:
    """The parameters of the constraint in a joint's place: axes, and ratings as data."""
    numbers = {word: getattr(joint, word) for word in RATINGS if np.isfinite(getattr(joint, word))}
    if kind == "plane":
        numbers["normal"] = tuple(joint.axis.tolist())
    elif kind not in ("point", "weld"):
        numbers["axis"] = tuple(joint.axis.tolist())
    if kind == "universal":
        numbers["second_axis"] = tuple(joint.second_axis.tolist())
    return numbers


def _opposite(axis: Array) -> Array:
    return frozen_array([-x if x != 0 else x for x in axis.tolist()], (3,))


def _inverse(pose: Array) -> Array:
    """The inverse of a pose (4, 4), exact where its numbers are."""
    found = Pose.from_matrix(pose.astype(object)).inverse()
    return frozen_array(found.matrix(), (4, 4))


# --- joints for a finished model, and its states ------------------------------------------------------------------


def with_closing_joints(
    model: Model, joints: Sequence[Joint], child_poses: Mapping[int, Array], cut: Iterable[str] = ()
) -> Model:
    """A model with more joints between its bodies, each of which closes a loop that is cut at one of its joints.

    Its start and its key frames keep the coordinates of every joint that is still there.

    Raises:
        ModelError: with every fault found, by name.
    """
    every = [*model.joints, *joints]
    chosen = choose_cut(model.bodies, every, cut)
    needed = coordinates_in_use(model.actuators, model.constraints)
    faults = naming_faults("joint", [joint.name for joint in every])
    faults += chosen.faults or turning_faults(every, chosen.tree, needed)
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    first = len(model.joints)
    opened = open_loops(model.bodies, every, {first + k: pose for k, pose in child_poses.items()}, chosen.tree, needed)
    if faults := name_clashes(opened, model.frames, model.constraints):
        raise ModelError(f"model {model.name!r}", faults)
    grown = replace(
        model,
        **opened.in_tree_order(),
        frames=(*model.frames, *opened.frames),
        constraints=(*model.constraints, *opened.constraints),
        source="\n".join([*([model.source] if model.source else []), *(f"- {note}" for note in opened.notes)]),
        start=None,
        key_frames=(),
    )
    keys = [
        replace(key, q=_carried_over(model, grown, opened, key.q), v=_carried_rates(model, grown, opened, key.v))
        for key in model.key_frames
    ]
    start = model.start
    if start is None and not opened.parted:
        return replace(grown, key_frames=tuple(keys))
    q = _carried_over(model, grown, opened, (start or model.neutral).q)
    rates = _carried_rates(model, grown, opened, (start or model.neutral).v)
    return replace(grown, start=State(q, rates), key_frames=tuple(keys))


def name_clashes(opened: Opened, frames: Iterable[Frame], constraints: Iterable[Constraint]) -> list[str]:
    """Names that cutting loops would give twice."""
    places = [WORLD, *(x.name for part in (opened.bodies, frames, opened.frames) for x in part)]
    faults = naming_faults("body or frame", places)
    faults += naming_faults("joint", [joint.name for joint in opened.joints])
    faults += naming_faults("constraint", [c.name for c in (*constraints, *opened.constraints)])
    return [f"{fault} (names are made where a loop is cut: JOINT, JOINT/1, CHILD/JOINT)" for fault in faults]


def coordinates_in_use(actuators: Iterable[Actuator], constraints: Iterable[Constraint]) -> set[str]:
    """Names of the joints whose coordinates a motor or a constraint uses."""
    driven = {joint for actuator in actuators for joint in actuator.joints}
    on_joints = (c for c in constraints if c.kind not in KINDS or KINDS[c.kind].on == "joints")
    return driven.union(*(c.on for c in on_joints))


def _carried_over(model: Model, grown: Model, opened: Opened, q: Array) -> Array:
    """The coordinates of a state of the model for the grown one: all bodies stay as near to their places as joints can
    bring them.
    """
    found = np.array(grown.neutral.q, dtype=object)
    for name, part in _parts(model, grown, "q_slice"):
        found[grown.q_slice(name)] = start_of_turned(opened.turned.get(name, ""), q[part])
    known = {joint.name for joint in model.joints}
    for joint, part in zip(grown.joints, grown.q_slices, strict=True):
        if joint.name not in known and part.stop > part.start:
            start = _known_pose(model, grown, q, joint.parent) @ Pose.from_matrix(joint.pose.astype(object))
            found[part] = fit_coordinates(joint.type, start.inverse() @ _known_pose(model, grown, q, joint.child))
    return frozen_array(found, (grown.nq,))


def _known_pose(model: Model, grown: Model, q: Array, body: str) -> Pose:
    """Where a body of the grown model was in the model, or where one that was made on the way would have been."""
    if body == WORLD or any(body == part.name for part in model.bodies):
        return _pose_in_world(model, q, body)
    for joint in grown.joints:
        if joint.parent == body:
            return _pose_in_world(model, q, joint.child) @ Pose.from_matrix(joint.pose.astype(object)).inverse()
    loop = next(c for c in grown.constraints if c.joint and grown.frame(c.on[0]).body == body)
    goal = grown.frame(loop.on[1])
    return _pose_in_world(model, q, goal.body) @ Pose.from_matrix(goal.pose.astype(object))


def _carried_rates(model: Model, grown: Model, opened: Opened, v: Array) -> Array:
    found = np.zeros(grown.nv, dtype=object)
    for name, part in _parts(model, grown, "slice"):
        if name in opened.turned and opened.turned[name] in ("spherical", "planar", "free") and np.any(v[part] != 0):
            raise ModelError(
                f"model {model.name!r}",
                [
                    f"a state of the model has velocities of joint {name!r}, which has to be turned round: they are "
                    f"told in the child's axes. Cut another joint of the loop"
                ],
            )
        found[grown.slice(name)] = v[part][::-1] if opened.turned.get(name) == "universal" else v[part]
    return frozen_array(found, (grown.nv,))


def _parts(model: Model, grown: Model, slice_of: str) -> list[tuple[str, slice]]:
    kept = {joint.name for joint in grown.joints}
    return [(joint.name, getattr(model, slice_of)(joint.name)) for joint in model.joints if joint.name in kept]


def start_of_turned(kind: str, start: Any) -> Any:
    """The coordinates of a joint of a kind that was turned round, from those that it was declared with."""
    if kind == "universal" and np.shape(start) == (2,):
        return start[::-1]
    if kind == "spherical" and np.shape(start) == (4,):
        return [start[0], *(-x for x in start[1:])]
    return start


def closing_coordinates(model: Model, q: Array, name: str) -> Array:
    """The coordinates of a joint that keeps its own while its child was cut: where the weld is closest to closed."""
    loop = next(c for c in model.constraints if c.name == name and c.joint)
    goal = model.frame(loop.on[1])
    joint = model.joints[model.joint_index(name)]
    placed = _pose_in_world(model, q, joint.parent) @ Pose.from_matrix(joint.pose.astype(object))
    wanted = _pose_in_world(model, q, goal.body) @ Pose.from_matrix(goal.pose.astype(object))
    return fit_coordinates(joint.type, placed.inverse() @ wanted)


def _pose_in_world(model: Model, q: Array, body: str) -> Pose:
    pose = Pose.identity()
    k = model.body_index(body)
    while k >= 0:
        own = model.joint_types[k].pose(q[model.q_slices[k]].astype(object))
        pose = Pose.from_matrix(model.joints[k].pose.astype(object)) @ own @ pose
        k = model.parents[k]
    return pose


def fit_coordinates(joint: joint_types.JointType, relative: Pose) -> Array:
    """The coordinates at which a joint comes closest to a pose of its child in the joint frame, floats (nq,).

    Gauss-Newton on the twist that is left, from the joint's neutral position: exact after one or two steps where the
    joint can take the pose at all.
    """
    q = np.asarray(joint.neutral, dtype=object)
    free = joint_types.Free()
    for _ in range(FITTING_STEPS):
        rest = joint.pose(q).inverse() @ relative
        twist = free.difference(np.array(free.neutral, dtype=object), _free_coordinates(rest)).astype(float)
        step = np.linalg.lstsq(joint.subspace(q).astype(float), twist, rcond=None)[0]
        q = joint.integrate(q, step.astype(object))
        if not np.abs(step).max(initial=0) > np.finfo(float).eps:
            break
    return q.astype(float)


def _free_coordinates(pose: Pose) -> Array:
    return np.concatenate([pose.p, rotation_quaternion(pose.R)])
