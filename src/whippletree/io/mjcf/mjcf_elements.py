"""Actuators, key frames, sensors, tendons, fluids and gravity compensation of an MJCF model.

Taken over are actuators whose gain and bias are constant or linear in length and velocity: motors, position and
velocity servos, dampers, and general ones of that kind; and muscles. They may have activations (integrator, filter,
filterexact, muscle). They drive a joint of one freedom, a tendon, or a site. Others are left out, and named.

A tendon that sums up joints, or goes from site to site, straight or around spheres and cylinders, is taken with its
spring, its damper and its pulleys. The fluid of ``<option>`` drags on every body as on the box that has its inertia.
Left out, and named: friction and inertia of tendons, and bodies whose geoms ask for the fluid model of
ellipsoids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.spec import MUSCLE, Parts, line_of, primitive, remove_padding, switched_off
from whippletree.model import Activation, Muscle
from whippletree.model.activations import ACTIVATIONS
from whippletree.model.sensors import SENSOR_KINDS

_FREE, _BALL = 0, 1
EVERY = (-np.inf, np.inf)
"""Range of a force that nothing bounds."""

_LINEAR = 3
"""Numbers of gain and bias that are taken: constant, times length, times velocity."""


def add_actuators(draft: Draft, parts: Parts) -> None:
    """Every actuator that was kept for compiling (:mod:`whippletree.io.mjcf.spec`)."""
    if switched_off(parts.spec, "ACTUATION"):
        draft.notes.append("actuators are switched off by a <flag> of the file")
        parts.driven.clear()
    for part in parts.spec.actuators:
        if part.name not in parts.driven:
            continue
        draft.declare("actuator", part.name, line_of(part))
        number = parts.masses.actuator(part.name).id
        if _is_without_measure(parts.masses, number):
            draft.leave_out(
                "actuators that are as strong as what they move needs, and move nothing at the start", part.name
            )
            parts.driven.discard(part.name)
            continue
        joints, target, gear = _target(parts, number)
        draft.builder.actuator(part.name, *joints, gear=gear, **target, **_law(parts, number))
    _note_one_sided_efforts(draft, parts)
    _note_shared_efforts(draft, parts)


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


def _is_without_measure(compiled: Any, number: int) -> bool:
    """Whether a muscle's strength is to follow from the acceleration that it causes, which is none."""
    from mujoco import mjtGain

    muscle = compiled.actuator_gaintype[number] == mjtGain.mjGAIN_MUSCLE
    return bool(muscle and compiled.actuator_gainprm[number][2] < 0 and compiled.actuator_acc0[number] == 0)


def _limits(parts: Parts, number: int) -> dict[str, Any]:
    """Ranges of the command and the force, and the activation, where there are any."""
    from mujoco import mjtDyn

    compiled = parts.masses
    law: dict[str, Any] = {}
    if compiled.actuator_ctrllimited[number] and not switched_off(parts.spec, "CLAMPCTRL"):
        law["command_range"] = tuple(map(float, compiled.actuator_ctrlrange[number]))
    low, high = _force_range(compiled, number)
    if (low, high) != (-np.inf, np.inf):
        law["force_range"] = low, high
    dynamics = mjtDyn(int(compiled.actuator_dyntype[number]))
    if dynamics != mjtDyn.mjDYN_NONE:
        kind = dynamics.name.removeprefix("mjDYN_").lower()
        times = tuple(map(float, compiled.actuator_dynprm[number][: ACTIVATIONS[kind]]))
        limited = compiled.actuator_actlimited[number]
        low, high = map(float, compiled.actuator_actrange[number]) if limited else (-np.inf, np.inf)
        law["activation"] = Activation(kind, times, (low, high), bool(compiled.actuator_actearly[number]))
    return law


def _force_range(compiled: Any, number: int) -> tuple[float, float]:
    """Between which an actuator's force stays: its own range, and its tendon's ``actuatorfrcrange`` if it has that
    alone."""
    low, high = map(float, compiled.actuator_forcerange[number]) if compiled.actuator_forcelimited[number] else EVERY
    pulling = _pulling(compiled)
    tendon = pulling.get(number)
    if tendon is not None and compiled.tendon_actfrclimited[tendon] and list(pulling.values()).count(tendon) == 1:
        least, most = map(float, compiled.tendon_actfrcrange[tendon])
        low, high = min(max(low, least), most), max(min(high, most), least)
    return low, high


def _pulling(compiled: Any) -> dict[int, int]:
    """The tendon of every actuator that has one."""
    from mujoco import mjtTrn

    found = np.flatnonzero(compiled.actuator_trntype == mjtTrn.mjTRN_TENDON)
    return {int(k): int(compiled.actuator_trnid[k][0]) for k in found}


def _note_shared_efforts(draft: Draft, parts: Parts) -> None:
    """A limit of the force of several actuators on one tendon together."""
    compiled = parts.masses
    of_tendons = list(_pulling(compiled).values())
    for k in sorted({*of_tendons}):
        if compiled.tendon_actfrclimited[k] and of_tendons.count(k) > 1:
            draft.leave_out("actuatorfrcrange of tendons that several actuators pull", compiled.tendon(k).name)


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
    """Coordinates with quaternions of unit length; one of zeros, which MuJoCo takes for no turn, is noted."""
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
        v[along : along + 6] = [*qvel[along + 3 : along + 6], *rotations.product(R.T, qvel[along : along + 3])]
    return v


# --- tendons, fluid forces and gravity compensation, as elements of force ---------------------------------------------


SMALLEST_MASS = 1e-15
"""kg and kg m²: MuJoCo's fluid drags on no body with less mass, and its box has at least such moments (mjMINVAL)."""


def add_elements(draft: Draft, parts: Parts) -> None:
    """Every element of the file to the draft's builder."""
    _add_tendons(draft, parts)
    _add_fluid(draft, parts)
    _add_lifts(draft, parts)


def _without_passive_forces(spec: Any) -> bool:
    """Whether the file switches off all passive forces, fluids and gravity compensation too: MuJoCo does where neither
    springs nor dampers are left."""
    return switched_off(spec, "PASSIVE") or (switched_off(spec, "SPRING") and switched_off(spec, "DAMPER"))


def _add_lifts(draft: Draft, parts: Parts) -> None:
    if switched_off(parts.spec, "GRAVITY") or _without_passive_forces(parts.spec):
        return
    for body in parts.spec.bodies:
        if body.gravcomp:
            draft.builder.lift(f"{body.name}/gravcomp", body.name, share=float(body.gravcomp))
    idle = switched_off(parts.spec, "ACTUATION") or not list(parts.spec.actuators)
    for joint in parts.spec.joints:
        if not joint.actgravcomp:
            continue
        told = "; MuJoCo has none in a model without acting actuators" if idle else ""
        draft.notes.append(
            f"joint {joint.name!r}: gravity compensation acts beside the actuators, and not as one{told}"
        )
        if parts.poses.jnt_actfrclimited[parts.poses.joint(joint.name).id]:
            draft.leave_out("actuatorfrcrange for gravity compensation (actuatorgravcomp)", joint.name)


def _add_tendons(draft: Draft, parts: Parts) -> None:
    compiled, pulled = parts.poses, {part.target for part in parts.spec.actuators if part.name in parts.driven}
    sprung, damped = (not switched_off(parts.spec, word, "PASSIVE") for word in ("SPRING", "DAMPER"))
    limited = not switched_off(parts.spec, "LIMIT", "CONSTRAINT")
    for part in parts.spec.tendons:
        number = compiled.tendon(part.name).id
        _tell_what_is_left_out(draft, compiled, number, part.name)
        stiffness = float(np.ravel(compiled.tendon_stiffness[number])[0]) if sprung else 0.0
        damping = float(np.ravel(compiled.tendon_damping[number])[0]) if damped else 0.0
        limits = -np.inf, np.inf
        if limited and compiled.tendon_limited[number]:
            ends = compiled.tendon_range[number], compiled.tendon_margin[number]
            limits = held_ends(draft, f"tendon {part.name!r}", *ends)
        if stiffness or damping or limits != (-np.inf, np.inf) or part.name in pulled:
            rest = tuple(map(float, compiled.tendon_lengthspring[number]))
            path = path_of_tendon(draft, parts, number)
            draft.builder.tendon(part.name, stiffness=stiffness, damping=damping, rest=rest, limits=limits, **path)


def held_ends(draft: Draft, where: str, ends: Any, margin: Any) -> tuple[float, float]:
    """Ends between which a limit holds a joint or a tendon: at its margin from those of its range, as contacts do."""
    lower, upper = float(ends[0] + margin), float(ends[1] - margin)
    if lower <= upper:
        return lower, upper
    middle = float(ends[0] + ends[1]) / 2
    draft.notes.append(
        f"{where}: its margin of {float(margin):g} is more than half of its range, and both ends push at once: it is "
        f"held in the middle, at {middle:g}"
    )
    return middle, middle


def _tell_what_is_left_out(draft: Draft, compiled: Any, number: int, name: str) -> None:
    for word, found in (
        ("dry friction of tendons", compiled.tendon_frictionloss[number]),
        ("inertia of tendons (armature)", compiled.tendon_armature[number]),
        ("non-linear springs and dampers of tendons", _is_curved(compiled, number)),
    ):
        if np.any(found):
            draft.leave_out(word, name)


def _is_curved(compiled: Any, number: int) -> bool:
    found = (getattr(compiled, word, None) for word in ("tendon_stiffnesspoly", "tendon_dampingpoly"))
    return any(numbers is not None and bool(np.any(numbers[number])) for numbers in found)


def path_of_tendon(draft: Draft, parts: Parts, number: int) -> dict[str, Any]:
    """The joints with their weights, or the branches of frames with their divisors and obstacles, of a tendon."""
    from mujoco import mjtWrap

    compiled = parts.poses
    first = int(compiled.tendon_adr[number])
    weights: dict[str, float] = {}
    branches: list[list[str]] = [[]]
    divisors = [1.0]
    wraps: list[list[dict[str, Any]]] = [[]]
    for wrap in range(first, first + int(compiled.tendon_num[number])):
        kind, target, scale = (getattr(compiled, f"wrap_{word}")[wrap] for word in ("type", "objid", "prm"))
        if kind == mjtWrap.mjWRAP_JOINT:
            joint = compiled.jnt(int(target)).name
            weights[joint] = weights.get(joint, 0.0) + float(scale)
        elif kind == mjtWrap.mjWRAP_SITE:
            branches[-1].append(parts.site_frames[compiled.site(int(target)).name])
        elif kind == mjtWrap.mjWRAP_PULLEY:
            branches.append([])
            divisors.append(float(scale))
            wraps.append([])
        else:
            side = round(float(scale))
            wraps[-1].append(
                {
                    "frame": _obstacle(draft, parts, int(target)),
                    "kind": "sphere" if kind == mjtWrap.mjWRAP_SPHERE else "cylinder",
                    "radius": float(compiled.geom_size[target][0]),
                    "side": parts.site_frames[compiled.site(side).name] if side >= 0 else "",
                    "after": len(branches[-1]) - 1,
                }
            )
    if weights:
        return {"joints": weights}
    kept = [k for k, branch in enumerate(branches) if len(branch) > 1]
    return {
        "branches": [branches[k] for k in kept],
        "divisors": [divisors[k] for k in kept],
        "around": [wrap | {"branch": i} for i, k in enumerate(kept) for wrap in wraps[k]],
    }


def _obstacle(draft: Draft, parts: Parts, geom: int) -> str:
    """The frame of a geom that tendons wrap around, made when the first one does."""
    compiled = parts.poses
    name = compiled.geom(geom).name
    if name not in parts.obstacles:
        taken = {frame.name for frame in draft.builder.frames}
        parts.obstacles[name] = fresh(f"{name}/middle", taken)
        draft.builder.frame(
            parts.obstacles[name],
            compiled.body(int(compiled.geom_bodyid[geom])).name,
            position=np.array(compiled.geom_pos[geom]),
            rotation=draft.rotation(rotations.from_quaternion(compiled.geom_quat[geom])),
        )
    return parts.obstacles[name]


def _add_fluid(draft: Draft, parts: Parts) -> None:
    """A box on every body with mass: the one of the same mass, inertia and axes, as MuJoCo takes it."""
    option, compiled = parts.spec.option, parts.masses
    density, viscosity = float(option.density), float(option.viscosity)
    if not (density or viscosity) or _without_passive_forces(parts.spec):
        return
    shaped = {geom.parent.name for geom in parts.spec.geoms if geom.fluid_ellipsoid > 0}
    for number in range(1, compiled.nbody):
        name, mass = compiled.body(number).name, remove_padding(compiled.body_mass[number])
        if mass < SMALLEST_MASS or name not in _moving(parts):
            continue
        if name in shaped:
            draft.leave_out("fluid forces on ellipsoids (fluidshape)", name)
            continue
        x, y, z = (float(moment) for moment in compiled.body_inertia[number])
        edges = [np.sqrt(max(SMALLEST_MASS, moments) / mass * 6) for moments in (y + z - x, x + z - y, x + y - z)]
        draft.builder.fluid_box(
            f"{name}/fluid",
            name,
            size=[float(edge) for edge in edges],
            position=np.array(compiled.body_ipos[number]),
            rotation=draft.rotation(rotations.from_quaternion(compiled.body_iquat[number])),
            density=density,
            viscosity=viscosity,
            wind=tuple(map(float, option.wind)),
        )


def _moving(parts: Parts) -> set[str]:
    """Names of the bodies that some joint moves."""
    compiled = parts.poses
    found: set[int] = set()
    for number in range(1, compiled.nbody):
        if compiled.body_jntnum[number] or int(compiled.body_parentid[number]) in found:
            found.add(number)
    return {compiled.body(number).name for number in found}


# --- sensors of joints, actuators, tendons, frames, forces, touch and ranges ------------------------------------------


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
        on = None if kind is None else _sensor_quantity(draft, parts, kind, part.objtype, part.objname)
        reference = None
        if on is not None and part.refname:
            reference = _sensor_quantity(draft, parts, "frame_position", part.reftype, part.refname)
        if kind is None or on is None or (part.refname and (reference is None or not SENSOR_KINDS[kind].relative)):
            draft.leave_out(f"sensors ({word.lower()})", name)
            continue
        taken.add(name)
        draft.declare("sensor", name, line_of(part))
        cutoff = float(part.cutoff) if part.cutoff > 0 and kind != "frame_quaternion" else np.inf
        draft.builder.sensor(name, kind, on, reference=reference, cutoff=cutoff)


def _sensor_quantity(draft: Draft, parts: Parts, kind: str, objtype: Any, name: str) -> str | None:
    """The quantity of a sensor, by this library's name; None for what the model does not have."""
    from mujoco import mjtObj

    on = SENSOR_KINDS[kind].on
    if on == "joint":
        return name
    if on == "actuator":
        return name if name in parts.driven else None
    if on == "tendon":
        return name if name in {tendon.name for tendon in draft.builder.tendons} else None
    if on == "geometry":
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
