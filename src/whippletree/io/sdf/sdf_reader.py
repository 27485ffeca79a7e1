"""SDF: Gazebo's models, in which a link may be held by several joints. Versions 1.4 to 1.11.

Each link is carried by the first joint that names it as child, gearboxes apart; every other joint closes a loop and
becomes a constraint of the same kind between two frames, ``JOINT/1`` on the parent and ``JOINT/2`` on the child; what
acts along it is listed, and has no effect. Where the user chooses the joints to cut, or where a link that no joint
carries has to be reached from its children (the platform of a file whose legs hang from the world and from it), the
rules of :mod:`whippletree.model.closing_joints` hold for all joints: some are turned round, and what acts along one
that is cut is kept. A gearbox becomes a coupling of the two joints that it gears, and so does a mimic. Other links that
no joint carries, one of all that joints connect, hang from the world by a weld, or float with ``base="free"``. At q = 0
every link is where the file puts it.

SDF's own rule for a link without ``<inertial>`` is 1 kg and 1 kg m²; it is followed, and the report says so.

A pose is given in the frame that ``relative_to`` names; without it, a link's in the model, a joint's in its child, a
frame's in what it is attached to. Everything is worked out in the model's frame.

A file with several models (a world of Gazebo) becomes one model, in which a link is called ``MODEL::LINK``, as SDF
itself calls it from outside. A link called ``world`` gets another name: ``world`` is what never moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import route
from whippletree.graph.spanning import Components
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.sdf.sdf_values import KEPT, Values, is_on, read_inertia, read_shapes
from whippletree.io.xml import line_of, tag_of
from whippletree.model import EARTH_GRAVITY, WORLD, Model

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


CARRIED = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "screw": "helical",
    "universal": "universal",
    "ball": "spherical",
    "fixed": "weld",
}
"""SDF's joint types, and this library's joints."""

CLOSING = {
    "revolute": "hinge",
    "continuous": "hinge",
    "prismatic": "slider",
    "universal": "universal",
    "ball": "point",
    "fixed": "weld",
}
"""SDF's joint types, and the constraints that close a loop."""


@dataclass(eq=False)
class _SdfJoint:
    """A joint as the file gives it; its axes are in the frame of the child link."""

    name: str
    line: int | None
    type: str
    parent: str
    child: str
    pose: Array
    """Pose of the joint in the child link, (4, 4)."""
    axis: Array
    second_axis: Array
    data: dict[str, Any]
    ratio: float
    reference: str
    mimic: tuple[str, float, float] | None
    """The joint that it follows, with c₀ and c₁ in q = c₀ + c₁ q_leader."""

    @property
    def anchor(self) -> Array:
        """The point of the child link that the joint acts at; a slide has none."""
        return np.zeros(3) if CARRIED.get(self.type) in ("prismatic", "weld") else self.pose[:3, 3]


_WORLD = ("model", "gravity", "include", "light", "scene", "gui", "spherical_coordinates", "magnetic_field")
"""Children of a world that are read, named as left out, or say nothing of mechanics."""


_LEFT_OUT_OF_LINKS = {
    "kinematic": "kinematic links, which no force moves",
    "enable_wind": "wind",
    "velocity_decay/*": "decay of velocities",
    "inertial/fluid_added_mass/*": "mass of fluid that links carry along",
}
"""What of a link acts in SDF and not here, by where it is found."""


def read(path: Path, root: Element, *, base: str, folder: Path | None = None, cut: Sequence[str] = ()) -> Model:
    """A model from the ``<sdf>`` element of a file.

    Raises:
        FileError: listing every fault with its line.
    """
    found = [*root.findall("model"), *root.findall("world/model")]
    whole = found[0] if len(found) == 1 else root.find("world")
    draft = Draft(path, (None if whole is None else whole.get("name")) or path.stem, folder=folder, cut=cut)
    models = prepare_models(draft, root)
    draft.stop_if_faulty()
    values = Values(draft, root.get("version", "1.6"))
    for child in root.iterfind("world/*"):
        if str(child.tag) not in _WORLD:
            draft.unused[f"<world/{child.tag}>"] += 1
    draft.builder.gravity = values.numbers_in(root, "world/gravity", EARTH_GRAVITY)
    for model in models:
        static = len(models) > 1 and (model.findtext("static") or "").strip() in ("1", "true")
        root_joint = "root_joint" if len(models) == 1 else f"{model.get('name')}::root_joint"
        _read_model(values, model, "fixed" if static else base, root_joint)
    return draft.finish("SDF")


def _read_model(values: Values, model: Element, base: str, root_joint: str) -> None:
    draft = values.draft
    _count_unused(draft, model)
    frames = Frames(values, model)
    named = [str(link.get("name")) for link in model.findall("link") if values.text(link, "name")]
    places = {name: frames.pose(name) for name in named}
    for link in model.findall("link"):
        if link.get("name"):
            draft.body(str(link.get("name")), *read_inertia(values, link), line_of(link))
            read_shapes(values, link)
            _read_forces(draft, link)
    if is_on(model.findtext("enable_wind")):
        draft.leave_out("wind", str(model.get("name")))
    _add_frames(draft, frames, model, places)
    joints = [_joint(values, element, places, frames) for element in model.findall("joint")]
    joints = [joint for joint in joints if _is_known(draft, joint, places)]
    # places are in the model's frame, which has a pose in the world itself
    _assemble(draft, joints, places | {WORLD: _relative(values.pose(model), np.eye(4))}, base, root_joint)


def _read_forces(draft: Draft, link: Element) -> None:
    """What acts on a link beside its joints: weight that the file takes off it; a warning tells of the rest."""
    name = str(link.get("name"))
    if link.find("gravity") is not None and not is_on(link.findtext("gravity")):
        draft.builder.lift(f"{name}/gravity", name)
    for tags, word in _LEFT_OUT_OF_LINKS.items():
        if any(is_on(part.text) for part in link.iterfind(tags)):
            draft.leave_out(word, name)


def _count_unused(draft: Draft, model: Element) -> None:
    for child in model:
        if child.tag not in ("link", "joint", "frame", "pose", "static"):
            draft.unused[f"<model/{tag_of(child)}>"] += 1
        for part in child:
            if child.tag in ("link", "joint") and part.tag not in KEPT[str(child.tag)]:
                draft.unused[f"<{child.tag!s}/{tag_of(part)}>"] += 1


def _add_frames(draft: Draft, frames: Frames, model: Element, places: dict[str, Array]) -> None:
    """``<frame>``s as frames of the links that they are fixed to."""
    for element in model.findall("frame"):
        name = str(element.get("name") or "")
        link = frames.link_of(name)
        if link in places:
            pose = _relative(places[link], frames.pose(name))
            draft.declare("frame", name, line_of(element))
            draft.builder.frame(name, link, position=pose[:3, 3], rotation=draft.rotation(pose[:3, :3]))
        elif element.get("attached_to") == WORLD:
            draft.unused["<frame> of the world"] += 1
        elif not name:
            draft.fault("a frame has no name", line_of(element))
        else:
            frames.pose(name)  # says so if it is a circle
            draft.fault(f"frame {name!r} is not attached to a link of the model", line_of(element))


def _joint(values: Values, element: Element, places: dict[str, Array], frames: Frames) -> _SdfJoint:
    name, child = values.text(element, "name"), frames.link_of(values.child_text(element, "child"))
    place = places.get(child, np.eye(4))
    pose = values.pose(element) if frames.base(element) == child else _relative(place, frames.pose(name))
    return _SdfJoint(
        name=name,
        line=line_of(element),
        type=values.text(element, "type"),
        parent=frames.link_of(values.child_text(element, "parent")),
        child=child,
        pose=pose,
        axis=values.axis(element, "axis", pose, place, frames.turn_to),
        second_axis=values.axis(element, "axis2", pose, place, frames.turn_to),
        data=values.joint_data(element),
        ratio=values.number_in(element, "gearbox_ratio", 1.0),
        reference=(element.findtext("gearbox_reference_body") or "").strip(),
        mimic=_mimic(values, element),
    )


def _mimic(values: Values, joint: Element) -> tuple[str, float, float] | None:
    """q − offset = multiplier · (q_leader − reference)."""
    found = joint.find("axis/mimic")
    if found is None:
        return None
    multiplier = values.number_in(found, "multiplier", 1.0)
    offset = values.number_in(found, "offset", 0.0) - multiplier * values.number_in(found, "reference", 0.0)
    return values.text(found, "joint"), offset, multiplier


def _is_known(draft: Draft, joint: _SdfJoint, places: dict[str, Array]) -> bool:
    """Whether a joint can be used; what is wrong with it becomes faults."""
    faults = []
    if joint.type not in (*CARRIED, "gearbox"):
        known = [*CARRIED, "gearbox"]
        faults.append(f"has type {joint.type!r}; known: {', '.join(known)}{draft.hint(joint.type, known)}")
    for role, name in (("parent", joint.parent), ("child", joint.child)):
        if name not in places and not (role == "parent" and name == WORLD):
            faults.append(f"names the unknown {role} {name!r}{draft.hint(name, places)}")
    for fault in faults:
        draft.fault(f"joint {joint.name!r} {fault}", joint.line)
    return not faults


# --- the tree and what closes it ---


def _assemble(draft: Draft, joints: list[_SdfJoint], places: dict[str, Array], base: str, root_joint: str) -> None:
    carriers: dict[str, _SdfJoint] = {}
    for joint in joints:
        if joint.type != "gearbox":
            carriers.setdefault(joint.child, joint)
    root_joint = fresh(root_joint, [joint.name for joint in joints])
    uncarried = [name for name in places if name != WORLD and name not in carriers]
    roots = _roots(joints, places, uncarried)
    any_way = bool(draft.cut) or len(roots) < len(uncarried)
    if base == "free" and (held := [j for j in carriers.values() if j.parent == WORLD]):
        names = (f"{joint.name} of {joint.child}" for joint in held)
        draft.leave_out("base='free' for what joints of the file hold on the world", *names)
    for name in roots:
        place = _relative(places[WORLD], places[name])
        pose = {"position": place[:3, 3], "rotation": draft.rotation(place[:3, :3])}
        own_name = root_joint if len(roots) == 1 else f"{root_joint} of {name}"
        draft.builder.joint(own_name, "free" if base == "free" else "weld", WORLD, name, **pose)
    for joint in joints:
        draft.declare("joint", joint.name, joint.line)
        if joint.type == "gearbox":
            _gear(draft, joint, carriers, places)
        elif any_way or carriers[joint.child] is joint or joint.type not in CLOSING:
            _carry(draft, joint, places)
        else:
            _close(draft, joint, places)
    _add_mimics(draft, joints, carriers)


def _roots(joints: list[_SdfJoint], places: dict[str, Array], uncarried: list[str]) -> list[str]:
    """The links that hang from the world by a joint that the file does not have: of links that no joint carries the
    first of each connected piece, and none where joints lead to the world."""
    pieces = Components([WORLD, *(name for name in places if name != WORLD)])
    for joint in joints:
        if joint.type != "gearbox":
            pieces.join(joint.parent, joint.child)
    found = {pieces.find(WORLD): ""}
    for name in uncarried:
        found.setdefault(pieces.find(name), name)
    return [name for name in found.values() if name]


def _relative(first: Array, second: Array) -> Array:
    """The pose of the second frame in the first, (4, 4)."""
    pose = np.eye(4)
    pose[:3, :3] = rotations.product(first[:3, :3].T, second[:3, :3])
    pose[:3, 3] = rotations.product(first[:3, :3].T, second[:3, 3] - first[:3, 3])
    return pose


def _carry(draft: Draft, joint: _SdfJoint, places: dict[str, Array]) -> None:
    """A joint as the model's builder takes it: its frame has the axes of the child."""
    relative = _relative(places[joint.parent], places[joint.child])
    rotation = draft.rotation(relative[:3, :3])
    position = relative[:3, 3] + rotations.product(rotation, joint.anchor)
    kind = CARRIED[joint.type]
    axes: dict[str, Any] = {"axis": joint.axis}
    if kind == "universal":
        axes["second_axis"] = joint.second_axis
    draft.builder.joint(
        joint.name,
        kind,
        joint.parent,
        joint.child,
        position=position,
        rotation=rotation,
        child_position=joint.anchor,
        **axes,
        **joint.data,
    )


def _close(draft: Draft, joint: _SdfJoint, places: dict[str, Array]) -> None:
    """A joint that closes a loop: the same freedom as a constraint; what acts along it is kept as data, with a note."""
    relative = _relative(places[joint.parent], places[joint.child])
    frames = ((joint.parent, rotations.product(relative, joint.pose)), (joint.child, joint.pose))
    for number, (body, pose) in enumerate(frames, start=1):
        rotation = draft.rotation(pose[:3, :3])
        draft.builder.frame(f"{joint.name}/{number}", body, position=pose[:3, 3], rotation=rotation)
    parameters = dict(joint.data)
    if joint.type in ("revolute", "continuous", "prismatic", "universal"):
        parameters["axis"] = _in_joint(joint, joint.axis)
    if joint.type == "universal":
        parameters["second_axis"] = _in_joint(joint, joint.second_axis)
    acting = [word for word, value in joint.data.items() if value and np.isfinite(value) and word != "rest"]
    if acting:
        draft.notes.append(
            f"joint {joint.name!r} closes a loop: what acts along it ({', '.join(acting)}) is kept, without effect"
        )
    draft.notes.append(
        f"loop cut at joint {joint.name!r} ({joint.type}, {joint.parent!r} to {joint.child!r}): constraint "
        f"{joint.name!r} of kind {CLOSING[joint.type]!r}"
    )
    on = (f"{joint.name}/1", f"{joint.name}/2")
    draft.builder.closing_constraint(joint.name, CLOSING[joint.type], on, CARRIED[joint.type], parameters)


def _in_joint(joint: _SdfJoint, axis: Array) -> tuple[float, ...]:
    """An axis of the child link in the joint's frame."""
    return tuple(float(x) for x in rotations.snap(rotations.product(joint.pose[:3, :3].T, axis)))


def _gear(draft: Draft, gear: _SdfJoint, carriers: dict[str, _SdfJoint], places: dict[str, Array]) -> None:
    """θ₂ = −ratio θ₁: the turns of parent (1) and child (2) against the reference body, about axis and axis2."""
    turns = []
    for link, axis in ((gear.parent, gear.axis), (gear.child, gear.second_axis)):
        own = carriers.get(link)
        if own is None or own.parent != gear.reference or CARRIED[own.type] != "revolute":
            draft.fault(
                f"joint {gear.name!r}: the gearbox needs {link!r} to hang from its reference body {gear.reference!r} "
                f"by a revolute joint",
                gear.line,
            )
            return
        # the gear's axes are given in its child, the joint's in its own: compare them in the model's frame
        ours, theirs = places[gear.child][:3, :3] @ axis, places[link][:3, :3] @ own.axis
        turns.append((own.name, 1.0 if ours @ theirs > 0 else -1.0))
    (first, s1), (second, s2) = turns
    draft.builder.constraint(gear.name, "coupling", second, first, coefficients=(0.0, -gear.ratio * s1 * s2))


def _add_mimics(draft: Draft, joints: list[_SdfJoint], carried: dict[str, _SdfJoint]) -> None:
    """A joint that follows another: a coupling of the two."""
    simple = {joint.name for joint in carried.values() if CARRIED[joint.type] in ("revolute", "prismatic", "helical")}
    for joint in joints:
        if joint.mimic is None:
            continue
        leader, *coefficients = joint.mimic
        if leader == joint.name or not {leader, joint.name} <= simple:
            draft.fault(
                f"joint {joint.name!r}: <mimic> needs two joints with one coordinate each, and names {leader!r}"
                f"{draft.hint(leader, simple)}",
                joint.line,
            )
            continue
        draft.declare("constraint", f"mimic {joint.name}", joint.line)
        draft.builder.constraint(
            f"mimic {joint.name}", "coupling", joint.name, leader, coefficients=tuple(coefficients)
        )


# --- frames by name: links, joints and ``<frame>``s, each where another one says --------------------------------------


MODEL = "__model__"


class Frames:
    """Poses in the model's frame, and the links that frames are fixed to."""

    def __init__(self, values: Values, model: Element) -> None:
        self._values = values
        self._links = {str(link.get("name")): None for link in model.findall("link") if link.get("name")}
        self._elements = {
            str(part.get("name")): part
            for tag in ("frame", "joint", "link")
            for part in model.findall(tag)
            if part.get("name")
        }
        self._canonical = str(model.get("canonical_link") or next(iter(self._links), WORLD))
        self._poses: dict[str, Array] = {MODEL: np.eye(4), "": np.eye(4)}
        self._holders: dict[str, str] = {}
        """The link that each frame or joint is fixed to, as far as it was asked for."""

    def pose(self, name: str) -> Array:
        """The pose (4, 4) of a link, joint or frame in the model's frame."""
        # from the frame to one that is known, and back: chains may be longer than Python's stack
        chain: dict[str, None] = {}
        at = name
        while at not in self._poses and at in self._elements and at not in chain:
            chain[at] = None
            at = self.base(self._elements[at])
        if at not in self._poses:
            self._poses[at] = self._note_misplaced(list(chain), at)
            chain.pop(at, None)
        for part in reversed(chain):
            element = self._elements[part]
            base = self.base(element)
            own = self._values.pose(element)
            self._poses[part] = own if base in ("", MODEL) else rotations.product(self._poses[base], own)
        return self._poses[name]

    def _note_misplaced(self, chain: list[str], base: str) -> Array:
        """Note that a chain of frames leads to nothing, or back into itself; the pose to go on with."""
        element = self._elements[chain[-1]]
        if base in chain:
            circle = route([*chain[chain.index(base) :], base], "relative to")
            self._values.fault(element, f"is placed in a circle: {circle}")
        else:
            known = self._values.draft.hint(base, self._elements)
            self._values.fault(element, f"is placed relative to {base!r}, which the model does not have{known}")
        return np.eye(4)

    def base(self, element: Element) -> str:
        """The name of the frame that an element's pose is given in."""
        given = element.find("pose")
        named = "" if given is None else str(given.get("relative_to") or "")
        if named or element.tag == "link":
            return named
        return str(element.get("attached_to") or "") if element.tag == "frame" else _child(element)

    def turn_to(self, element: Element, frame: str) -> Array:
        """The rotation (3, 3) of a frame that an axis is expressed in."""
        if frame not in self._elements:
            known = self._values.draft.hint(frame, self._elements)
            self._values.fault(element, f"is expressed in {frame!r}, which the model does not have{known}")
            return np.eye(3)
        return self.pose(frame)[:3, :3]

    def link_of(self, name: str) -> str:
        """The link that a frame or joint is fixed to; the name itself if it is none, or leads nowhere."""
        seen: set[str] = set()
        at = name
        while at in self._elements and at not in self._links and at not in seen and at not in self._holders:
            seen.add(at)
            element = self._elements[at]
            at = _child(element) if element.tag == "joint" else str(element.get("attached_to") or MODEL)
        holder = self._canonical if at == MODEL else self._holders.get(at, at)
        if holder in self._links:
            self._holders |= dict.fromkeys(seen, holder)
        elif at != MODEL:  # thousands of frames in a circle are followed once
            self._holders |= {lost: lost for lost in seen}
        return holder if at == MODEL or holder in self._links else name


def _child(joint: Element) -> str:
    return (joint.findtext("child") or "").strip()


# --- several models made ready to be read as one: every name its own --------------------------------------------------


_NAMED = ("link", "joint", "frame")
_NAMING_TEXTS = ("parent", "child", "gearbox_reference_body")
_NAMING_ATTRIBUTES = ("relative_to", "attached_to", "expressed_in", "canonical_link")


def prepare_models(draft: Draft, root: Element) -> list[Element]:
    """The ``<model>`` elements of a file, their links and joints renamed where they would not be told apart."""
    models = [*root.findall("model"), *root.findall("world/model")]
    if not models:
        draft.fault("the file holds no model", line_of(root))
    for part in [*root.iterfind("include"), *root.iterfind("world/include")]:
        draft.leave_out("included models, which are not opened", (part.findtext("uri") or "without uri").strip())
    for part in root.iterfind(".//model/*"):
        if part.tag in ("include", "model"):
            text = f"<{tag_of(part)}> inside a model is not read: write one model with all its links"
            draft.fault(text, line_of(part))
    for model in models:
        _free_the_world(draft, model)
    if len(models) > 1:
        taken: set[str] = set()
        for model in models:
            name = fresh(str(model.get("name") or "model"), taken)
            taken.add(name)
            model.set("name", name)
            _rename(model, lambda part, prefix=name: f"{prefix}::{part}")  # type: ignore[misc]
        draft.notes.append(f"the file holds {len(models)} models: links and joints are called MODEL::NAME")
    return models


def _free_the_world(draft: Draft, model: Element) -> None:
    links = [str(link.get("name")) for link in model.findall("link")]
    if WORLD in links:
        other = fresh("world_link", links)
        _rename(model, lambda part: other if part == WORLD else part)
        draft.notes.append(f"the link {WORLD!r} is the body {other!r}: {WORLD!r} names what never moves")


def _rename(model: Element, renamed: Callable[[str], str]) -> None:
    """Give the named parts of a model other names, wherever they are spoken of."""
    known = {str(part.get("name")) for tag in _NAMED for part in model.findall(tag) if part.get("name")}
    for part in model.iter():
        if (part.getparent() is model and part.tag in _NAMED and part.get("name")) or part.tag == "mimic":
            word = "name" if part.tag in _NAMED else "joint"
            if part.get(word) in known:
                part.set(word, renamed(str(part.get(word))))
        for word in _NAMING_ATTRIBUTES:
            if part.get(word) in known:
                part.set(word, renamed(str(part.get(word))))
        if part.tag in _NAMING_TEXTS and (part.text or "").strip() in known:
            part.text = renamed((part.text or "").strip())
