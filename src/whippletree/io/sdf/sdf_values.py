"""Values of SDF elements: numbers, poses, axes, inertias, shapes and joint data, with every fault noted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.draft import Draft
from whippletree.io.xml import Reader, parse_number

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

KEPT = {
    "link": ("pose", "inertial", "visual", "collision", "gravity", "kinematic", "enable_wind", "velocity_decay"),
    "joint": (
        *("pose", "parent", "child", "axis", "axis2", "gearbox_ratio", "gearbox_reference_body"),
        *("thread_pitch", "screw_thread_pitch"),
    ),
}
"""Children of links and joints that are read, or left out with a warning; the others are counted as not used."""

ENDLESS = 1e16
"""SDF writes an infinite limit as ±1e16."""


AXIS_WORDS = {
    "limit/lower": ("lower", -math.inf),
    "limit/upper": ("upper", math.inf),
    "limit/effort": ("effort_limit", math.inf),
    "limit/velocity": ("velocity_limit", math.inf),
    "dynamics/damping": ("damping", 0.0),
    "dynamics/friction": ("friction", 0.0),
    "dynamics/spring_stiffness": ("stiffness", 0.0),
    "dynamics/spring_reference": ("rest", 0.0),
}
"""Children of an axis, what they are called here, and what holds where they are not given."""


def is_on(text: str | None) -> bool:
    """Whether a truth value or a number is given, and is not 0."""
    given = (text or "").strip().lower()
    return given not in ("", "false") and bool(given.strip("0.+-"))


class Values(Reader):
    """Reads values that SDF keeps in the text of children; a fault gives a harmless value."""

    def __init__(self, draft: Draft, version: str) -> None:
        super().__init__(draft, ("link", "joint"))
        try:
            major, minor = (int(part) for part in version.split(".")[:2])
        except ValueError:
            draft.fault(f"the version {version!r} is not one of SDF, such as 1.6")
            major, minor = 1, 6
        self.axes_in_model = (major, minor) < (1, 5)
        """Before 1.5, joint axes were given in the model's frame."""

    def child_text(self, element: Element, tag: str) -> str:
        """The text of a child that must be there."""
        found = self.child(element, tag, required=True)
        return "" if found is None else (found.text or "").strip()

    def numbers_in(
        self, element: Element, path: str, default: tuple[float, ...], *, infinite: bool = False
    ) -> tuple[float, ...]:
        """Numbers from the text of a child, as many as the default has; finite unless ``infinite`` allows ±inf."""
        found = element.find(path)
        if found is None:
            return default
        words = (found.text or "").split()
        if len(words) != len(default):
            self.fault(found, f"has {len(words)} numbers, expected {len(default)}")
            return default
        try:
            return tuple(parse_number(word, infinite=infinite) for word in words)
        except ValueError:
            self.fault(found, f"{found.text!r} holds something that is not a finite number")
            return default

    def number_in(self, element: Element, path: str, default: float, *, infinite: bool = False) -> float:
        """One number from the text of a child."""
        return self.numbers_in(element, path, (default,), infinite=infinite)[0]

    def pose(self, element: Element) -> Array:
        """The pose (4, 4) of an element, in the frame that it is given in."""
        matrix = np.eye(4)
        found = self.child(element, "pose")
        if found is None:
            return matrix
        form = found.get("rotation_format", "euler_rpy")
        placed = element.tag in ("link", "joint", "frame") or found.get("relative_to") == "world"
        if found.get("frame") or (found.get("relative_to") and not placed) or form not in ("euler_rpy", "quat_xyzw"):
            self.fault(
                found, "with frame, with relative_to inside a link, or in another rotation_format is not supported"
            )
            return matrix
        if not (found.text or "").strip():
            return matrix  # where it is said to be
        if form == "quat_xyzw":
            x, y, z, qx, qy, qz, qw = self.numbers_in(element, "pose", (0.0,) * 6 + (1.0,))
            if not any((qx, qy, qz, qw)):
                self.fault(found, "has a quaternion of zeros, which is no rotation")
                return matrix
            matrix[:3, :3] = rotations.from_quaternion((qw, qx, qy, qz))
        else:
            x, y, z, *angles = self.numbers_in(element, "pose", (0.0,) * 6)
            turned = [math.radians(angle) for angle in angles] if found.get("degrees") == "true" else angles
            matrix[:3, :3] = rotations.from_rpy(*turned)
        matrix[:3, 3] = x, y, z
        return matrix

    def axis(self, joint: Element, tag: str, pose: Array, place: Array, turn_to: Callable[..., Array]) -> Array:
        """A unit axis in the child link's frame, given the joint's pose in that link and the link's in the model.

        ``turn_to(element, name)`` is the rotation of a frame in the model's.
        """
        found = self.child(joint, tag)
        if found is None:
            return pose[:3, 2]
        axis = np.array(self.numbers_in(found, "xyz", (0.0, 0.0, 1.0)))
        axis /= np.abs(axis).max() or 1  # squares must not overflow
        length = np.linalg.norm(axis)
        given = found.find("xyz")
        frame = "" if given is None else str(given.get("expressed_in", ""))
        in_model = self.axes_in_model or frame == "__model__"
        in_model = in_model or (found.findtext("use_parent_model_frame") or "").strip() in ("1", "true")
        if frame not in ("", "__model__"):
            axis, in_model = rotations.product(turn_to(found, frame), axis), True
        if length == 0 and joint.get("type") not in ("ball", "fixed"):
            self.fault(found, "has no direction")
        if length == 0:
            return pose[:3, 2]
        turned = rotations.product(place[:3, :3].T if in_model else pose[:3, :3], axis)
        return rotations.snap(turned / length)

    def _axis_data(self, joint: Element, tag: str) -> dict[str, Any]:
        """Limits of one axis of a joint, and the forces along it."""
        data: dict[str, Any] = {}
        for path, (word, _) in AXIS_WORDS.items():
            if joint.find(f"{tag}/{path}") is not None:
                value = self.number_in(joint, f"{tag}/{path}", 0.0, infinite=path.startswith("limit/"))
                unlimited = word.endswith("_limit") and value < 0  # SDF's word for no limit
                data[word] = (
                    math.inf if unlimited else math.copysign(math.inf, value) if abs(value) >= ENDLESS else value
                )
        return data

    def _tell_of_unlike_axes(self, joint: Element, data: dict[str, Any]) -> None:
        """Leave out of a universal joint's data, which belong to both of its axes, what the file says of one only."""
        second = self._axis_data(joint, "axis2")
        for word, usual in AXIS_WORDS.values():
            if data.get(word, usual) != second.get(word, usual):
                data.pop(word, None)
                self.draft.leave_out(
                    "numbers of universal joints that differ between their two axes (two revolute joints and a link "
                    "between them may have them)",
                    f"{joint.get('name')}: {word}",
                )

    def joint_data(self, joint: Element) -> dict[str, Any]:
        """Forces along a joint, where the file says so."""
        data = self._axis_data(joint, "axis")
        if joint.get("type") == "universal":
            self._tell_of_unlike_axes(joint, data)
        if joint.get("type") == "ball" and data.pop("stiffness", 0):  # it has no axis that a spring could turn about
            self.draft.leave_out("springs of ball joints", str(joint.get("name")))
        if any(is_on(joint.findtext(f"{tag}/initial_position")) for tag in ("axis", "axis2")):
            self.draft.leave_out("initial positions of joints (q0= of wt.simulate)", str(joint.get("name")))
        if joint.get("type") == "screw":
            data["pitch"] = self.number_in(joint, "screw_thread_pitch", 0.0) / (2 * math.pi)
            if joint.find("thread_pitch") is not None:
                self.fault(
                    joint, "has <thread_pitch>, whose meaning changed between versions: use <screw_thread_pitch>"
                )
        return data


def read_inertia(values: Values, link: Element) -> tuple[float, Array, Array]:
    """Mass, centre (3,) and inertia about it in link axes (3, 3)."""
    inertial = values.child(link, "inertial")
    if inertial is None:
        values.draft.notes.append(f"link {link.get('name')!r} has no <inertial>: 1 kg and 1 kg m², SDF's own rule")
        return 1.0, np.zeros(3), np.eye(3)
    if (inertial.get("auto") or "").strip() in ("1", "true"):
        values.draft.leave_out(
            "masses that follow from collisions (<inertial auto>): 1 kg and 1 kg m² unless the file says more",
            str(link.get("name")),
        )
    pose = values.pose(inertial)
    keys = {"ixx": 1.0, "iyy": 1.0, "izz": 1.0, "ixy": 0.0, "ixz": 0.0, "iyz": 0.0}
    xx, yy, zz, xy, xz, yz = (values.number_in(inertial, f"inertia/{key}", usual) for key, usual in keys.items())
    rotation = values.draft.rotation(pose[:3, :3])
    about_center = rotations.rotate_inertia(rotation, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return values.number_in(inertial, "mass", 1.0), pose[:3, 3], about_center


def read_shapes(values: Values, link: Element) -> None:
    """Add every shape of a link; one is called ``LINK/visual/0``, ``LINK/collision/1``, …"""
    for use in ("visual", "collision"):
        for number, holder in enumerate(link.findall(use)):
            shape, name = holder.find("geometry/*"), f"{link.get('name')}/{use}/{number}"
            if holder.find("surface") is not None:
                values.draft.unused[f"<{use}/surface>"] += 1
            parameters = None if shape is None else _parameters(values, shape, name)
            if shape is None or parameters is None or (use == "visual" and shape.tag == "plane"):
                if use == "collision":
                    values.draft.leave_out("collisions without a known shape", name)
                else:
                    values.draft.unused["<visual> without a known shape"] += 1
                continue
            if holder.get("name"):
                parameters["label"] = str(holder.get("name"))
            pose, turn = values.pose(holder), parameters.pop("turn", np.eye(3))
            values.draft.builder.geometry(
                name,
                str(link.get("name")),
                "half_space" if shape.tag == "plane" else str(shape.tag),
                position=pose[:3, 3],
                rotation=values.draft.rotation(rotations.product(pose[:3, :3], turn)),
                collides=use == "collision",
                visible=use == "visual",
                **parameters,
            )


def _parameters(values: Values, shape: Element, name: str) -> dict[str, Any] | None:
    """The numbers of a shape in m, and how a plane is turned from z; None for a shape that is not known."""
    match shape.tag:
        case "box":
            return {"size": values.numbers_in(shape, "size", (1.0, 1.0, 1.0))}
        case "sphere":
            return {"radius": values.number_in(shape, "radius", 1.0)}
        case "cylinder" | "capsule":
            return {word: values.number_in(shape, word, 1.0) for word in ("radius", "length")}
        case "ellipsoid":
            return {"radii": values.numbers_in(shape, "radii", (1.0, 1.0, 1.0))}
        case "plane":
            normal = values.numbers_in(shape, "normal", (0.0, 0.0, 1.0))
            if not any(normal):
                values.fault(shape, "has a normal without direction")
                return {}
            return {"turn": rotations.z_towards(normal)}
        case "mesh":
            file = values.child_text(shape, "uri")
            file_name, touches = file.replace("model://", "package://", 1), "/collision/" in name
            found = values.draft.mesh_file(file_name, name, touches) if file else None
            parameters = {"file": file, "scale": values.numbers_in(shape, "scale", (1.0, 1.0, 1.0))}
            return parameters if found is None else parameters | {"path": str(found)}
        case _:
            return None
