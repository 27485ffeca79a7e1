"""Actuators and key frames of an MJCF model.

Taken over are actuators whose gain and bias are constant or linear in length and velocity: motors, position and
velocity servos, dampers, and general ones of that kind; and muscles. They may have activations (integrator, filter,
filterexact, muscle). They drive a joint of one freedom, a tendon, or a site. Others are left out, and named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.draft import Draft
from whippletree.io.mjcf.spec import MUSCLE, Parts, line_of, switched_off
from whippletree.model import Activation, Muscle
from whippletree.model.activations import ACTIVATIONS

_FREE, _BALL = 0, 1
_LINEAR = 3
"""Numbers of gain and bias that are taken: constant, times length, times velocity."""


def add_actuators(draft: Draft, parts: Parts) -> None:
    """Every actuator that was kept for compiling (:func:`whippletree.io.mjcf.spec.unsupported_actuator`)."""
    if switched_off(parts.spec, "ACTUATION"):
        draft.notes.append("actuators are switched off by a <flag> of the file")
        parts.driven.clear()
    for part in parts.spec.actuators:
        if part.name not in parts.driven:
            continue
        draft.declare("actuator", part.name, line_of(part))
        number = parts.masses.actuator(part.name).id
        joints, target, gear = _target(parts, number)
        draft.builder.actuator(part.name, *joints, gear=gear, **target, **_law(parts, number))
    _note_one_sided_efforts(draft, parts)


def _law(parts: Parts, number: int) -> dict[str, Any]:
    from mujoco import mjtBias, mjtGain

    compiled = parts.masses
    if compiled.actuator_gaintype[number] == mjtGain.mjGAIN_MUSCLE:
        return {"muscle": _muscle(compiled, number, parts.mass_scale)} | _limits(parts, number)
    gain = [float(x) for x in compiled.actuator_gainprm[number][:_LINEAR]]
    if compiled.actuator_gaintype[number] == mjtGain.mjGAIN_FIXED:
        gain[1:] = [0.0, 0.0]
    affine = compiled.actuator_biastype[number] == mjtBias.mjBIAS_AFFINE
    law: dict[str, Any] = {"gain": gain}
    law["bias"] = [float(x) for x in compiled.actuator_biasprm[number][:_LINEAR]] if affine else [0.0] * _LINEAR
    return law | _limits(parts, number)


def _limits(parts: Parts, number: int) -> dict[str, Any]:
    """Ranges of the command and the force, and the activation, where there are any."""
    from mujoco import mjtDyn

    compiled = parts.masses
    law: dict[str, Any] = {}
    if compiled.actuator_ctrllimited[number] and not switched_off(parts.spec, "CLAMPCTRL"):
        law["command_range"] = tuple(map(float, compiled.actuator_ctrlrange[number]))
    if compiled.actuator_forcelimited[number]:
        law["force_range"] = tuple(map(float, compiled.actuator_forcerange[number]))
    dynamics = mjtDyn(int(compiled.actuator_dyntype[number]))
    if dynamics != mjtDyn.mjDYN_NONE:
        kind = dynamics.name.removeprefix("mjDYN_").lower()
        times = tuple(map(float, compiled.actuator_dynprm[number][: ACTIVATIONS[kind]]))
        limited = compiled.actuator_actlimited[number]
        low, high = map(float, compiled.actuator_actrange[number]) if limited else (-np.inf, np.inf)
        law["activation"] = Activation(kind, times, (low, high), bool(compiled.actuator_actearly[number]))
    return law


def _muscle(compiled: Any, number: int, mass_scale: float) -> Muscle:
    """A muscle's numbers; its range of lengths is the file's, or what MuJoCo's compiler has found."""
    from mujoco import mjtBias

    r_0, r_1, peak, scale, shortest, longest, fastest, passive, lengthening = (
        float(x) for x in compiled.actuator_gainprm[number][:MUSCLE]
    )
    low, high = map(float, compiled.actuator_lengthrange[number])
    if peak < 0:  # as strong as it must be to accelerate what it moves
        peak = scale * mass_scale / float(compiled.actuator_acc0[number])
    if compiled.actuator_biastype[number] == mjtBias.mjBIAS_NONE:
        passive = 0.0
    return Muscle((low, high), peak, (r_0, r_1), shortest, longest, fastest, passive, lengthening)


def _target(parts: Parts, number: int) -> tuple[tuple[str, ...], dict[str, Any], list[float]]:
    """The joints, or the frame or tendon by that word, that an actuator drives, and its gear."""
    from mujoco import mjtTrn, mjtWrap

    compiled = parts.masses
    gear, target = [float(x) for x in compiled.actuator_gear[number]], int(compiled.actuator_trnid[number][0])
    kind = compiled.actuator_trntype[number]
    if kind == mjtTrn.mjTRN_SITE:
        frame = parts.site_frames[compiled.site(target).name]
        return (), {"frame": frame}, [*gear[3:], *gear[:3]]  # moments first
    if kind != mjtTrn.mjTRN_TENDON:
        return (compiled.jnt(target).name,), {}, gear[:1]
    if compiled.wrap_type[compiled.tendon_adr[target]] != mjtWrap.mjWRAP_JOINT:
        return (), {"tendon": compiled.tendon(target).name}, gear[:1]
    first = int(compiled.tendon_adr[target])
    wraps = range(first, first + int(compiled.tendon_num[target]))
    weights: dict[str, float] = {}
    for wrap in wraps:
        joint = compiled.jnt(int(compiled.wrap_objid[wrap])).name
        weights[joint] = weights.get(joint, 0.0) + gear[0] * float(compiled.wrap_prm[wrap])
    return tuple(weights), {}, list(weights.values())


def _note_one_sided_efforts(draft: Draft, parts: Parts) -> None:
    """A joint's ``actuatorfrcrange`` is its effort limit, which is the same in both directions."""
    compiled = parts.poses
    for k in range(compiled.njnt):
        low, high = compiled.jnt_actfrcrange[k]
        if compiled.jnt_actfrclimited[k] and low != -high:
            draft.leave_out("actuatorfrcrange that differs by direction (the larger end counts)", compiled.jnt(k).name)


# --- key frames ---


def add_key_frames(draft: Draft, parts: Parts) -> None:
    """Every key frame of the file, unless the model has other coordinates than the file."""
    from mujoco import mjtDyn

    compiled = parts.poses
    kept = [k for k, part in enumerate(parts.spec.actuators) if part.name in parts.driven]
    held = [part.name in parts.driven for part in parts.spec.actuators if part.dyntype != mjtDyn.mjDYN_NONE]
    for key in parts.spec.keys:
        qpos, qvel, ctrl, act = (np.array(numbers, dtype=float) for numbers in (key.qpos, key.qvel, key.ctrl, key.act))
        if len(qpos) not in (0, compiled.nq) or len(qvel) not in (0, compiled.nv):
            draft.leave_out("key frames of another size than the model", key.name)
            continue
        q = unit_quaternions(draft, compiled, qpos if len(qpos) else compiled.qpos0, key.name)
        v = body_velocities(compiled, q, qvel) if len(qvel) else None
        commands = ctrl[kept] if len(ctrl) == len(parts.spec.actuators) else None
        own = act[held] if len(act) == len(held) else None
        if len(act) not in (0, len(held)):
            draft.leave_out("activations of key frames, beside actuators that have several", key.name)
        draft.builder.key_frame(key.name, q=q, v=v, commands=commands, act=own)


def unit_quaternions(draft: Draft, compiled: Any, qpos: Array, where: str) -> Array:
    """Coordinates with quaternions of unit length; one of zeros, which MuJoCo takes for no turn, is told."""
    q = np.array(qpos, dtype=float)
    for joint in range(compiled.njnt):
        kind, first = int(compiled.jnt_type[joint]), int(compiled.jnt_qposadr[joint])
        if kind not in (_FREE, _BALL):
            continue
        part = q[first + 3 * (kind == _FREE) : first + 3 * (kind == _FREE) + 4]
        length = float(np.linalg.norm(part))
        if length == 0:
            name = compiled.jnt(joint).name
            note = f"key frame {where!r}: the quaternion of joint {name!r} is zero, and taken for no turn"
            if note not in draft.notes:  # of ``home``, which is the start state too
                draft.notes.append(note)
            part[:] = (1.0, 0.0, 0.0, 0.0)
        elif length != 1:
            part /= length
    return q


def body_velocities(compiled: Any, q: Array, qvel: Array) -> Array:
    """Velocities (nv,) from MuJoCo's: a free joint's are angular and linear ones in its own axes, in this order."""
    v = np.array(qvel, dtype=float)
    for joint in np.flatnonzero(compiled.jnt_type == _FREE):
        at, along = int(compiled.jnt_qposadr[joint]), int(compiled.jnt_dofadr[joint])
        R = rotations.from_quaternion(q[at + 3 : at + 7])
        v[along : along + 6] = [*qvel[along + 3 : along + 6], *(R.T @ qvel[along : along + 3])]
    return v
