"""Sensors of an MJCF model: of joints, actuators, tendons, frames, forces, touch and ranges. Others are named."""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.spec import Parts, line_of, primitive
from whippletree.model.sensors import REFERRING

KINDS = {
    "JOINTPOS": "joint_position",
    "JOINTVEL": "joint_velocity",
    "BALLQUAT": "joint_position",
    "BALLANGVEL": "joint_velocity",
    "ACTUATORPOS": "actuator_position",
    "ACTUATORVEL": "actuator_velocity",
    "TENDONPOS": "tendon_position",
    "TENDONVEL": "tendon_velocity",
    "FRAMEPOS": "frame_position",
    "FRAMEQUAT": "frame_quaternion",
    "FRAMEXAXIS": "frame_x_axis",
    "FRAMEYAXIS": "frame_y_axis",
    "FRAMEZAXIS": "frame_z_axis",
    "FRAMELINVEL": "frame_linear_velocity",
    "FRAMEANGVEL": "frame_angular_velocity",
    "FRAMELINACC": "frame_linear_acceleration",
    "FRAMEANGACC": "frame_angular_acceleration",
    "ACCELEROMETER": "accelerometer",
    "GYRO": "gyro",
    "VELOCIMETER": "velocimeter",
    "FORCE": "force",
    "TORQUE": "torque",
    "TOUCH": "touch",
    "RANGEFINDER": "rangefinder",
}
"""MuJoCo's types of sensors, and this library's kinds."""


def add_sensors(draft: Draft, parts: Parts) -> None:
    """Every sensor of the file that is known; the others are left out by type."""
    taken: set[str] = set()
    for part in parts.spec.sensors:
        word = part.type.name.removeprefix("mjSENS_")
        name = fresh(part.name or f"{word.lower()} {part.objname}".strip(), taken)
        kind = KINDS.get(word)
        on = None if kind is None else _target(draft, parts, kind, part.objtype, part.objname)
        reference = None
        if on is not None and part.refname:
            reference = _target(draft, parts, "frame_position", part.reftype, part.refname)
        if kind is None or on is None or (part.refname and (reference is None or kind not in REFERRING)):
            draft.leave_out(f"sensors ({word.lower()})", name)
            continue
        taken.add(name)
        draft.declare("sensor", name, line_of(part))
        cutoff = float(part.cutoff) if part.cutoff > 0 and kind != "frame_quaternion" else np.inf
        draft.builder.sensor(name, kind, on, reference=reference, cutoff=cutoff)


def _target(draft: Draft, parts: Parts, kind: str, objtype: Any, name: str) -> str | None:
    """The quantity of a sensor, by this library's name; None for what the model does not have."""
    from mujoco import mjtObj

    if kind.startswith("joint"):
        return name
    if kind.startswith("actuator"):
        return name if name in parts.driven else None
    if kind.startswith("tendon"):
        return name if name in {tendon.name for tendon in draft.builder.tendons} else None
    if kind == "touch":
        return _zone(draft, parts, name)
    if objtype == mjtObj.mjOBJ_SITE:
        return parts.site_frames.get(name)
    if objtype == mjtObj.mjOBJ_XBODY:
        return name
    compiled = parts.masses
    if objtype == mjtObj.mjOBJ_BODY:
        number = compiled.body(name).id
        return _frame(draft, f"{name}/inertial", name, compiled.body_ipos[number], compiled.body_iquat[number])
    if objtype == mjtObj.mjOBJ_GEOM and name not in parts.shapes:
        number = parts.poses.geom(name).id
        body = parts.poses.body(int(parts.poses.geom_bodyid[number])).name
        return _frame(draft, f"{name}/geom", body, parts.poses.geom_pos[number], parts.poses.geom_quat[number])
    return None


def _zone(draft: Draft, parts: Parts, site: str) -> str:
    """The volume of a site as a geometry that touches nothing, made once."""
    compiled, number, name = parts.poses, parts.poses.site(site).id, f"{site}/zone"
    if name not in draft.builder.shapes:
        shape = primitive(int(compiled.site_type[number]), compiled.site_size[number])
        draft.builder.geometry(
            name,
            compiled.body(int(compiled.site_bodyid[number])).name,
            shape.pop("kind"),
            position=np.array(compiled.site_pos[number]),
            rotation=draft.rotation(rotations.from_quaternion(compiled.site_quat[number])),
            collides=False,
            visible=False,
            **shape,
        )
    return name


def _frame(draft: Draft, name: str, body: str, position: Any, quaternion: Any) -> str:
    """A frame fixed to a body, made once."""
    if name not in {frame.name for frame in draft.builder.frames}:
        rotation = draft.rotation(rotations.from_quaternion(quaternion))
        draft.builder.frame(name, body, position=np.array(position), rotation=rotation)
    return name
