"""MJCF: MuJoCo's files, through MuJoCo's own parser (extra ``mjcf``).

MuJoCo resolves defaults, angle units, frames, orientations and inertias from geoms; nothing of that is written again
here. Its compiler refuses massless bodies, though. So a copy of the parsed model is compiled with a lower bound on
mass that only massless bodies meet, and wherever a compiled number *is* that bound, the model gets the 0 that the file
meant.

What becomes of it: each joint of a body is a joint, through massless bodies in between where a body has several; q is
MuJoCo's qpos, joint by joint (``ref`` included). Equalities are constraints, sites are frames, geoms that may touch are
contacts (:mod:`~whippletree.io.mjcf.collisions`), actuators are actuators and key frames key frames, of which ``home``
is the start state; sensors, tendons and fluids follow (:mod:`~whippletree.io.mjcf.mjcf_elements`). The softness of
contacts, limits and equalities (solref, solimp) is left out, as is what the other modules say they leave out; the names
are in ``model.source`` and in one warning. ``contacts``, ``limits`` and ``actuators`` of ``wt.load`` say what is wanted
at all.

Files are opened only near the model: included ones in its own folder, and meshes, where a body takes its inertia from
one, and height fields in that folder or the one above it.

A fixed tendon is a weighted sum of joint coordinates, so an equality that is linear in such sums is a ``gear``; a
tendon straight from one site to another is a ``distance``, over several sites and pulleys a ``cable``. Others (tendons
around geoms, higher polynomials of tendons) are kept as ``mjcf_…``, which evaluating the model refuses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, MissingExtraError
from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf import spec as mjcf_spec
from whippletree.io.mjcf.collisions import add_contacts
from whippletree.io.mjcf.included_files import other_files
from whippletree.io.mjcf.mjcf_elements import (
    add_actuators,
    add_elements,
    add_key_frames,
    add_sensors,
    held_ends,
    path_of_tendon,
    unit_quaternions,
)
from whippletree.io.mjcf.spec import Parts, line_of, primitive, remove_padding, switched_off
from whippletree.model import WORLD, Model

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


_LINE = re.compile(r"[Ll]ine (?:number=)?(\d+)")


def read(
    path: Path,
    data: bytes,
    root: Element,
    *,
    base: str,
    folder: Path | None = None,
    contacts: bool = True,
    actuators: bool = True,
    cut: Sequence[str] = (),
) -> Model:
    """A model from an MJCF file, with its contacts and actuators or without.

    Raises:
        FileError: listing every fault found before MuJoCo's parser, or its first one, with its line.
        MissingExtraError: MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("reading MJCF", "mujoco", "mjcf") from None
    draft = Draft(path, root.get("model") or path.stem, folder=folder, cut=cut)
    others = other_files(draft, root, folder)
    draft.stop_if_faulty()
    draft.included = tuple(others)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not UTF-8 text (byte {error.start})"]) from None
    spec = _ask(draft, lambda: mujoco.MjSpec.from_string(text, include=others))
    parts = mjcf_spec.prepare(draft, spec, actuators)
    draft.stop_if_faulty()
    parts.masses = _ask(draft, parts.mass_spec.compile)
    parts.poses = _ask(draft, parts.pose_spec.compile)
    convert(draft, parts, base, contacts)
    return draft.finish("MJCF")


def _ask(draft: Draft, question: Callable[[], Any]) -> Any:
    """MuJoCo's answer; its errors become ours, and its warnings notes instead of a log file in the current folder."""
    import mujoco

    heard: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(heard.append)
    try:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            answer = question()
        heard += [str(warning.message) for warning in shown]
    except (ValueError, RuntimeError) as error:
        lines = _LINE.findall(str(error))
        said = "; ".join(part.strip() for part in str(error).strip().splitlines() if part.strip())
        draft.fault(f"MuJoCo says: {said}", int(lines[-1]) if lines else None)
    finally:
        mujoco.set_mju_user_warning(before)
    draft.notes.extend(f"MuJoCo says: {' '.join(text.split())}" for text in dict.fromkeys(heard))
    draft.stop_if_faulty()
    return answer


# --- bodies, chains of joints, frames, geometry, constraints ----------------------------------------------------------


# MuJoCo's numbers of joint types (mjtJoint); a body's joints act in this library in the same order
_FREE, _BALL, _SLIDE, _HINGE = range(4)
_KINDS = {_FREE: "free", _BALL: "spherical", _SLIDE: "prismatic", _HINGE: "revolute"}


@dataclass
class _Pose:
    """Where the next joint frame is in the body that carries it."""

    position: Array
    rotation: Array

    def shift(self, offset: Array) -> _Pose:
        return _Pose(self.position + rotations.product(self.rotation, offset), self.rotation)

    def turn(self, rotation: Array) -> _Pose:
        return _Pose(self.position, rotations.product(self.rotation, rotation))


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
        if unread := [name for name, has in zip(names, which, strict=True) if has]:
            draft.leave_out(word, *unread)
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
    mass = remove_padding(compiled.body_mass[number]) * scale
    moments = np.diag([remove_padding(moment) * scale for moment in compiled.body_inertia[number]])
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
        kind, data = _KINDS[int(compiled.jnt_type[joint])], _joint_data(draft, parts, joint)
        if kind == "free":
            pose = _Pose(np.zeros(3), np.eye(3))  # qpos of a free joint is the pose in the world
        elif kind != "prismatic":
            pose, anchor = pose.shift(compiled.jnt_pos[joint] - anchor), np.array(compiled.jnt_pos[joint])
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
        _add_joint(draft, f"{name}/weld", "weld", parent, name, pose.shift(-anchor), {})


def _at_reference(draft: Draft, compiled: Any, joint: int, kind: str, pose: _Pose) -> _Pose:
    """The joint frame for q = 0, where MuJoCo's body pose belongs to q = ref."""
    reference = float(compiled.qpos0[compiled.jnt_qposadr[joint]])
    axis = np.array(compiled.jnt_axis[joint])
    if kind == "prismatic" and reference:
        return pose.shift(-reference * axis)
    if kind == "revolute" and reference:
        turned = pose.turn(rotations.about(axis, -reference))
        return _Pose(turned.position, draft.rotation(turned.rotation))
    return pose


def _add_joint(draft: Draft, name: str, kind: str, parent: str, child: str, pose: _Pose, data: dict[str, Any]) -> None:
    draft.builder.joint(name, kind, parent, child, position=pose.position, rotation=pose.rotation, **data)


def _joint_data(draft: Draft, parts: Parts, joint: int) -> dict[str, Any]:
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
        ends = compiled.jnt_range[joint], compiled.jnt_margin[joint]
        lower, upper = held_ends(draft, f"joint {compiled.jnt(joint).name!r}", *ends)
        data |= {"upper": float(ends[0][1])} if kind == _BALL else {"lower": lower, "upper": upper}
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
            **_excluded_bodies(parts, compiled.body(int(compiled.geom_bodyid[k])).name),
            **shape,
        )


def _filter(contype: int, conaffinity: int) -> dict[str, int]:
    """MuJoCo's collision bits, where they are not the usual ones; ``with_contacts`` heeds them."""
    return {} if (contype, conaffinity) == (1, 1) else {"contype": contype, "conaffinity": conaffinity}


def _excluded_bodies(parts: Parts, body: str) -> dict[str, tuple[str, ...]]:
    """The bodies that the file excludes from contact with one body."""
    pairs = [(part.bodyname1, part.bodyname2) for part in parts.spec.excludes]
    others = tuple(b if a == body else a for a, b in pairs if body in (a, b))
    return {"excludes": others} if others else {}


# --- equalities as constraints: connect and weld, joint polynomials, lengths of tendons -------------------------------


Tied = tuple[str, tuple[str, ...], dict[str, Any]]
"""Kind, what it ties, and its numbers."""


def add_equalities(draft: Draft, parts: Parts) -> None:
    """Every equality of the file to the draft's builder."""
    from mujoco import mjtEq

    bodies = (mjtEq.mjEQ_CONNECT, mjtEq.mjEQ_WELD)
    mocap = {body.name for body in parts.spec.bodies if body.mocap}
    for part in parts.spec.equalities:
        if not mocap.isdisjoint((part.name1, part.name2)):
            # rigid, it would tie the mechanism to a body that stands still here
            draft.leave_out("equalities with mocap bodies", part.name)
            continue
        if part.type in bodies and part.name1 == WORLD and part.name2 in ("", WORLD):
            draft.leave_out("equalities of the world with itself", part.name)
            continue
        draft.declare("constraint", part.name, line_of(part))
        if part.type == mjtEq.mjEQ_JOINT:
            on = tuple(name for name in (part.name1, part.name2) if name)
            tied: Tied | None = "coupling", on, {"coefficients": _coupling(parts, part)}
        elif part.type in bodies:
            kind = "point" if part.type == mjtEq.mjEQ_CONNECT else "weld"
            tied = kind, _tied_frames(draft, parts, part, kind), {}
        else:
            tied = _tendons(draft, parts, part) if part.type == mjtEq.mjEQ_TENDON else None
        kind, on, numbers = tied or _only_mujocos(draft, part)
        draft.builder.constraint(part.name, kind, *on, **numbers, **({} if part.active else {"active": False}))


def _only_mujocos(draft: Draft, part: Any) -> Tied:
    kind = f"mjcf_{part.type.name.removeprefix('mjEQ_').lower()}"
    draft.notes.append(f"equality {part.name!r} is kept as {kind!r}, which only MuJoCo knows")
    on = tuple(name for name in (part.name1, part.name2) if name)
    return kind, on, {"data": tuple(float(x) for x in part.data)}


def _coupling(parts: Parts, part: Any) -> tuple[float, ...]:
    """y − y₀ = Σ aₖ (x − x₀)ᵏ as a polynomial in x, where x₀ and y₀ are the joints' reference coordinates."""
    a = [float(x) for x in part.data[:5]]
    y0, x0 = (_reference(parts, name) if name else 0 for name in (part.name1, part.name2))
    if not part.name2:
        return (float(y0 + a[0]),)
    c = [float(sum(a[k] * comb(k, j) * (-x0) ** (k - j) for k in range(j, 5))) for j in range(5)]
    c[0] += float(y0)
    while len(c) > 2 and c[-1] == 0:
        c.pop()
    return tuple(c)


def _reference(parts: Parts, joint: str) -> float:
    """A joint's coordinate where the file puts the bodies."""
    return float(parts.poses.qpos0[parts.poses.jnt(joint).qposadr[0]])


def _tendons(draft: Draft, parts: Parts, part: Any) -> Tied | None:
    """L₁ − L₁₀ = a₀ + a₁ (L₂ − L₂₀) of lengths L and their reference values; None for what is no gear and no rod."""
    from mujoco import mjtWrap

    paths = [list(parts.spec.tendon(name).path) for name in (part.name1, part.name2) if name]
    kinds = {wrap.type for path in paths for wrap in path}
    a = [float(x) for x in part.data[:5]]
    if kinds == {mjtWrap.mjWRAP_JOINT} and not any(a[2:]):
        ratios: dict[str, float] = {}
        for path, factor in zip(paths, (1.0, -a[1]), strict=False):
            for wrap in path:
                ratios[wrap.target.name] = ratios.get(wrap.target.name, 0.0) + factor * wrap.coef
        offset = a[0] + sum(ratio * _reference(parts, joint) for joint, ratio in ratios.items())
        return "gear", tuple(ratios), {"ratios": tuple(ratios.values()), "offset": offset}
    if kinds <= {mjtWrap.mjWRAP_SITE, mjtWrap.mjWRAP_PULLEY} and not any(a[2:]):
        return _cable(draft, parts, part, a)
    return None


def _cable(draft: Draft, parts: Parts, part: Any, a: list[float]) -> Tied:
    """L₁ − L₁₀ = a₀ + a₁ (L₂ − L₂₀) of tendons from site to site: a rod between two, or a cable over several."""
    compiled = parts.poses
    names = [name for name in (part.name1, part.name2) if name]
    lengths = [float(compiled.tendon_length0[compiled.tendon(name).id]) for name in names]
    on: list[str] = []
    sizes, factors, length = [], [], a[0]
    for name, own, scale in zip(names, lengths, (1.0, -a[1]), strict=False):
        path = path_of_tendon(draft, parts, compiled.tendon(name).id)
        on += [frame for branch in path["branches"] for frame in branch]
        sizes += [len(branch) for branch in path["branches"]]
        factors += [scale / divisor for divisor in path["divisors"]]
        length += scale * own
    if sizes == [2] and factors == [1]:
        return "distance", tuple(on), {"length": length}
    return "cable", tuple(on), {"length": length, "branches": tuple(sizes), "factors": tuple(factors)}


def _tied_frames(draft: Draft, parts: Parts, part: Any, kind: str) -> tuple[str, str]:
    """The two frames that an equality holds together: sites, bodies, or new frames at its points in two bodies."""
    from mujoco import mjtObj

    if part.objtype == mjtObj.mjOBJ_SITE:
        return parts.site_frames[part.name1], parts.site_frames[part.name2]
    data = np.array(parts.poses.eq_data[parts.poses.eq(part.name).id])
    # compiled numbers: a weld keeps its point in the second body first, and its orientation in the first body
    points = (data[:3], data[3:6]) if kind == "point" else (data[3:6], data[:3])
    turned = kind == "weld" and np.any(data[6:10])
    rotation = draft.rotation(rotations.from_quaternion(data[6:10])) if turned else np.eye(3)
    tied: list[str] = []
    for body, position, turn in zip((part.name1, part.name2 or WORLD), points, (rotation, np.eye(3)), strict=True):
        if np.any(position) or np.any(turn != np.eye(3)):
            name = f"{part.name}/{len(tied) + 1}"
            draft.builder.frame(name, body, position=position, rotation=turn)
            body = name
        tied.append(body)
    return tied[0], tied[1]
