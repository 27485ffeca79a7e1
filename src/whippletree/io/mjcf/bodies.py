"""From compiled MuJoCo models to a model of this library: bodies, chains of joints, frames, geometry, constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.actuators import add_actuators, add_key_frames, unit_quaternions
from whippletree.io.mjcf.collisions import add_contacts
from whippletree.io.mjcf.elements import add_elements
from whippletree.io.mjcf.equalities import add_equalities
from whippletree.io.mjcf.mjcf_sensors import add_sensors
from whippletree.io.mjcf.spec import Parts, line_of, primitive, switched_off, unpadded

# MuJoCo's numbers of joint types (mjtJoint); a body's joints act in this library in the same order
_FREE, _BALL, _SLIDE, _HINGE = range(4)
_KINDS = {_FREE: "free", _BALL: "spherical", _SLIDE: "prismatic", _HINGE: "revolute"}


@dataclass
class _Pose:
    """Where the next joint frame is in the body that carries it."""

    position: Array
    rotation: Array

    def shifted(self, offset: Array) -> _Pose:
        return _Pose(self.position + self.rotation @ offset, self.rotation)

    def turned(self, rotation: Array) -> _Pose:
        return _Pose(self.position, self.rotation @ rotation)


def convert(draft: Draft, parts: Parts, base: str, contacts: bool) -> None:
    """Fill the draft's builder, with or without contacts."""
    compiled = parts.poses
    gravity_off = switched_off(parts.spec, "GRAVITY")
    draft.builder.gravity = (0.0, 0.0, 0.0) if gravity_off else tuple(map(float, compiled.opt.gravity))
    draft.builder.time_step = float(compiled.opt.timestep)
    lines = {body.name: line_of(body) for body in parts.spec.bodies}
    floating = _floating_root(draft, compiled, base)
    scale = parts.mass_scale
    qpos = _home(draft, parts)
    for number in range(1, compiled.nbody):
        name = compiled.body(number).name
        draft.body(name, *_inertia(draft, parts, number, scale), lines.get(name))
        _carry(draft, parts, number, qpos, floats=number == floating)
    _frames(draft, parts)
    _shapes(draft, parts)
    if contacts:
        add_contacts(draft, parts, draft.builder.shapes, floating)
    if switched_off(parts.spec, "EQUALITY", "CONSTRAINT"):
        draft.notes.append("equalities are switched off by a <flag> of the file")
    else:
        add_equalities(draft, parts)
    add_elements(draft, parts)
    add_actuators(draft, parts)
    add_sensors(draft, parts)
    if floating and parts.keys:
        draft.leave_out("key frames (the base is free, and has coordinates of its own)", *parts.keys)
    if not floating:
        add_key_frames(draft, parts)
    _report_left_out(draft, parts)


def _report_left_out(draft: Draft, parts: Parts) -> None:
    """Properties that joints of the file have and joints of the model do not."""
    compiled = parts.poses
    names = [compiled.jnt(k).name for k in range(compiled.njnt)]
    quaternions = compiled.jnt_type <= _BALL
    for word, which in (
        ("springs of ball and free joints", quaternions & np.any(np.atleast_2d(compiled.jnt_stiffness.T), axis=0)),
        ("limits of ball joints", quaternions & compiled.jnt_limited.astype(bool)),
        ("dry friction of ball and free joints", quaternions & (compiled.dof_frictionloss[compiled.jnt_dofadr] != 0)),
    ):
        if told := [name for name, has in zip(names, which, strict=True) if has]:
            draft.leave_out(word, *told)
    for word, curved in (
        ("non-linear stiffness", "jnt_stiffnesspoly"),
        ("non-linear damping", "dof_dampingpoly"),
        ("yielding springs", "jnt_springyield"),
    ):
        if np.any(getattr(compiled, curved, 0)):  # MuJoCo 4 has these
            draft.leave_out(f"{word} of joints")
    draft.notes.append(
        "contacts, limits and equalities are rigid: MuJoCo's softness (solref, solimp) is not taken over"
    )


def _floating_root(draft: Draft, compiled: Any, base: str) -> int:
    """The body that gets a free joint because the caller asked for a free base; 0 for none."""
    if base == "fixed":
        return 0
    roots = [k for k in range(1, compiled.nbody) if compiled.body_parentid[k] == 0]
    joints = [int(compiled.jnt_type[compiled.body_jntadr[k]]) for k in roots if compiled.body_jntnum[k]]
    if len(roots) == 1 and not joints:
        draft.notes.append(
            f"base='free': body {compiled.body(roots[0]).name!r} floats, which the file fixes to the world"
        )
        return roots[0]
    if joints != [_FREE] or len(roots) != 1:
        draft.fault(
            "base='free' needs one body below <worldbody>, without joints or with a free one: "
            "write <freejoint/> into the file instead"
        )
    return 0


# --- bodies ---


def _inertia(draft: Draft, parts: Parts, number: int, scale: float) -> tuple[float, Array, Array]:
    """Mass, centre and inertia (3, 3) of a body; what only the compiler's lower bound put there is 0 again."""
    compiled = parts.masses
    mass = unpadded(compiled.body_mass[number]) * scale
    moments = np.diag([unpadded(moment) * scale for moment in compiled.body_inertia[number]])
    rotation = draft.rotation(rotations.from_quaternion(compiled.body_iquat[number]))
    return mass, np.array(compiled.body_ipos[number]), rotations.rotate_inertia(rotation, moments)


# --- joints ---


def _carry(draft: Draft, parts: Parts, number: int, qpos: Array, *, floats: bool) -> None:
    """The joints between a body and its parent.

    MuJoCo turns and shifts the body's frame by one joint after the other, each about its own anchor p in that frame:
    X = X₀ Π T(p) J(q − ref) T(−p). So joint k sits at p_k − p_{k−1} in the massless body that joint k − 1 carries, and
    a last anchor that is not the body's origin needs a weld back to it.
    """
    compiled = parts.poses
    name = compiled.body(number).name
    pose = _Pose(
        np.array(compiled.body_pos[number]), draft.rotation(rotations.from_quaternion(compiled.body_quat[number]))
    )
    parent = compiled.body(int(compiled.body_parentid[number])).name
    joints = range(compiled.body_jntadr[number], compiled.body_jntadr[number] + compiled.body_jntnum[number])
    anchor = np.zeros(3)
    for joint in joints:
        kind, data = _KINDS[int(compiled.jnt_type[joint])], _joint_data(parts, joint)
        if kind == "free":
            pose = _Pose(np.zeros(3), np.eye(3))  # qpos of a free joint is the pose in the world
        elif kind != "prismatic":
            pose, anchor = pose.shifted(compiled.jnt_pos[joint] - anchor), np.array(compiled.jnt_pos[joint])
        pose = _at_reference(draft, compiled, joint, kind, pose)
        last = joint == joints[-1] and not np.any(anchor)
        child = name if last else f"{name}/{compiled.jnt(joint).name}"
        if not last:
            draft.body(child, 0.0, (0, 0, 0), (0, 0, 0))
        _add_joint(draft, compiled.jnt(joint).name, kind, parent, child, pose, _start(compiled, joint, qpos) | data)
        parent, pose = child, _Pose(np.zeros(3), np.eye(3))
    if len(joints) == 0:
        root_joint = {"start": (*pose.position, *compiled.body_quat[number])}
        if floats:
            _add_joint(draft, "root_joint", "free", parent, name, _Pose(np.zeros(3), np.eye(3)), root_joint)
        else:
            _add_joint(draft, f"{name}/weld", "weld", parent, name, pose, {})
    elif np.any(anchor):
        _add_joint(draft, f"{name}/weld", "weld", parent, name, pose.shifted(-anchor), {})


def _at_reference(draft: Draft, compiled: Any, joint: int, kind: str, pose: _Pose) -> _Pose:
    """The joint frame for q = 0, where MuJoCo's body pose belongs to q = ref."""
    reference = float(compiled.qpos0[compiled.jnt_qposadr[joint]])
    axis = np.array(compiled.jnt_axis[joint])
    if kind == "prismatic" and reference:
        return pose.shifted(-reference * axis)
    if kind == "revolute" and reference:
        turned = pose.turned(rotations.about(axis, -reference))
        return _Pose(turned.position, draft.rotation(turned.rotation))
    return pose


def _add_joint(draft: Draft, name: str, kind: str, parent: str, child: str, pose: _Pose, data: dict[str, Any]) -> None:
    draft.builder.joint(name, kind, parent, child, position=pose.position, rotation=pose.rotation, **data)


def _joint_data(parts: Parts, joint: int) -> dict[str, Any]:
    """Forces along a joint, without those that the file switches off."""
    compiled, weighed = parts.poses, parts.masses  # springs and dampers may follow from masses (springdamper)
    first = compiled.jnt_dofadr[joint]
    kind = int(compiled.jnt_type[joint])
    scale = parts.mass_scale if np.any(parts.spec.joint(compiled.jnt(joint).name).springdamper) else 1.0
    data: dict[str, Any] = {
        "rotor_inertia": float(compiled.dof_armature[first]),
        "damping": 0.0 if switched_off(parts.spec, "DAMPER", "PASSIVE") else scale * float(weighed.dof_damping[first]),
    }
    if kind > _BALL and not switched_off(parts.spec, "FRICTIONLOSS", "CONSTRAINT"):
        data["friction"] = float(compiled.dof_frictionloss[first])
    if kind in (_HINGE, _SLIDE):
        data["axis"] = np.array(compiled.jnt_axis[joint])
        sprung = not switched_off(parts.spec, "SPRING", "PASSIVE")
        data["stiffness"] = scale * float(np.ravel(weighed.jnt_stiffness[joint])[0]) if sprung else 0.0
    if data.get("stiffness"):
        data["rest"] = float(compiled.qpos_spring[compiled.jnt_qposadr[joint]])
    if compiled.jnt_limited[joint] and not switched_off(parts.spec, "LIMIT", "CONSTRAINT"):
        (lower, upper), margin = map(float, compiled.jnt_range[joint]), float(compiled.jnt_margin[joint])
        # a limit holds the joint at its margin, as contacts do
        data |= {"upper": upper} if kind == _BALL else {"lower": lower + margin, "upper": upper - margin}
    if compiled.jnt_actfrclimited[joint]:
        data["effort_limit"] = float(np.abs(compiled.jnt_actfrcrange[joint]).max())
    return data


def _home(draft: Draft, parts: Parts) -> Array:
    """qpos of the start state: the key frame ``home``, else where the file puts the bodies."""
    compiled = parts.poses
    home = parts.keys.get("home")
    if home is None or len(home) != compiled.nq:
        return np.array(compiled.qpos0)
    draft.notes.append("the key frame 'home' is the start state")
    return unit_quaternions(draft, compiled, np.array(home), "home")


def _start(compiled: Any, joint: int, qpos: Array) -> dict[str, Any]:
    """A joint's part of the start state, where it is not neutral."""
    first = compiled.jnt_qposadr[joint]
    neutral = {_FREE: (0, 0, 0, 1, 0, 0, 0), _BALL: (1, 0, 0, 0)}.get(int(compiled.jnt_type[joint]), (0,))
    part = tuple(float(x) for x in qpos[first : first + len(neutral)])
    if part == neutral:
        return {}
    return {"start": part if len(part) > 1 else part[0]}


# --- what is fixed to bodies ---


def _frames(draft: Draft, parts: Parts) -> None:
    compiled = parts.poses
    taken = {compiled.body(k).name for k in range(compiled.nbody)}
    for k in range(compiled.nsite):
        name = compiled.site(k).name
        unique = fresh(name, taken)
        if unique != name:
            draft.notes.append(f"the site {name!r} is the frame {unique!r}: a body has that name")
        taken.add(unique)
        parts.site_frames[name] = unique
        rotation = draft.rotation(rotations.from_quaternion(compiled.site_quat[k]))
        body = compiled.body(int(compiled.site_bodyid[k])).name
        draft.builder.frame(unique, body, position=np.array(compiled.site_pos[k]), rotation=rotation)


def _shapes(draft: Draft, parts: Parts) -> None:
    compiled = parts.poses
    for k in range(compiled.ngeom):
        name = compiled.geom(k).name
        shape = dict(parts.shapes.get(name) or primitive(int(compiled.geom_type[k]), compiled.geom_size[k]))
        draft.builder.geometry(
            name,
            compiled.body(int(compiled.geom_bodyid[k])).name,
            shape.pop("kind"),
            position=np.array(compiled.geom_pos[k]),
            rotation=draft.rotation(rotations.from_quaternion(compiled.geom_quat[k])),
            collides=bool(compiled.geom_contype[k] or compiled.geom_conaffinity[k]),
            visible=int(compiled.geom_group[k]) < 3,  # MuJoCo's viewer shows groups 0 to 2
            color=parts.colors[name],
            friction=tuple(float(x) for x in compiled.geom_friction[k]),
            **_filter(int(compiled.geom_contype[k]), int(compiled.geom_conaffinity[k])),
            **_excluded(parts, compiled.body(int(compiled.geom_bodyid[k])).name),
            **shape,
        )


def _filter(contype: int, conaffinity: int) -> dict[str, int]:
    """MuJoCo's collision bits, where they are not the usual ones; ``with_contacts`` heeds them."""
    return {} if (contype, conaffinity) == (1, 1) else {"contype": contype, "conaffinity": conaffinity}


def _excluded(parts: Parts, body: str) -> dict[str, tuple[str, ...]]:
    """The bodies that the file excludes from contact with one body."""
    pairs = [(part.bodyname1, part.bodyname2) for part in parts.spec.excludes]
    others = tuple(b if a == body else a for a, b in pairs if body in (a, b))
    return {"excludes": others} if others else {}
