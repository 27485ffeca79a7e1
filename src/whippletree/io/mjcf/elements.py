"""Tendons, fluid forces and gravity compensation of an MJCF model, as elements of force.

A tendon that sums up joints, or goes from site to site, straight or around spheres and cylinders, is taken with its
spring, its damper and its pulleys. The fluid of ``<option>`` drags on every body as on the box that has its inertia.
Left out, and named: limits, friction and inertia of tendons, and bodies whose geoms ask for the fluid model of
ellipsoids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.io import rotations
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.spec import Parts, switched_off

SMALLEST_MASS = 1e-15
"""kg and kg m²: MuJoCo's fluid drags on no body with less mass, and its box has at least such moments (mjMINVAL)."""


def add_elements(draft: Draft, parts: Parts) -> None:
    """Every element of the file to the draft's builder."""
    _add_tendons(draft, parts)
    _add_fluid(draft, parts)
    if switched_off(parts.spec, "GRAVITY"):
        return
    for body in parts.spec.bodies:
        if body.gravcomp:
            draft.builder.lift(f"{body.name}/gravcomp", body.name, float(body.gravcomp))
    for joint in parts.spec.joints:
        if joint.actgravcomp:
            draft.notes.append(f"joint {joint.name!r}: gravity compensation acts beside the actuators, and not as one")


def _add_tendons(draft: Draft, parts: Parts) -> None:
    compiled, pulled = parts.poses, {part.target for part in parts.spec.actuators if part.name in parts.driven}
    sprung, damped = (not switched_off(parts.spec, word, "PASSIVE") for word in ("SPRING", "DAMPER"))
    for part in parts.spec.tendons:
        number = compiled.tendon(part.name).id
        _tell_what_is_left_out(draft, compiled, number, part.name)
        stiffness = float(np.ravel(compiled.tendon_stiffness[number])[0]) if sprung else 0.0
        damping = float(np.ravel(compiled.tendon_damping[number])[0]) if damped else 0.0
        if stiffness or damping or part.name in pulled:
            rest = tuple(map(float, compiled.tendon_lengthspring[number]))
            path = _path(draft, parts, number)
            draft.builder.tendon(part.name, stiffness=stiffness, damping=damping, rest=rest, **path)


def _tell_what_is_left_out(draft: Draft, compiled: Any, number: int, name: str) -> None:
    for word, found in (
        ("limits of tendons", compiled.tendon_limited[number]),
        ("dry friction of tendons", compiled.tendon_frictionloss[number]),
        ("inertia of tendons (armature)", compiled.tendon_armature[number]),
        ("non-linear springs and dampers of tendons", _curved(compiled, number)),
    ):
        if np.any(found):
            draft.leave_out(word, name)


def _curved(compiled: Any, number: int) -> bool:
    found = (getattr(compiled, word, None) for word in ("tendon_stiffnesspoly", "tendon_dampingpoly"))
    return any(numbers is not None and bool(np.any(numbers[number])) for numbers in found)


def _path(draft: Draft, parts: Parts, number: int) -> dict[str, Any]:
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
    if not (density or viscosity) or switched_off(parts.spec, "PASSIVE"):
        return
    shaped = {geom.parent.name for geom in parts.spec.geoms if geom.fluid_ellipsoid > 0}
    for number in range(1, compiled.nbody):
        name, mass = compiled.body(number).name, float(compiled.body_mass[number])
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
