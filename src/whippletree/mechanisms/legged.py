"""Ready-made machines that walk, roll and hop; :mod:`whippletree.mechanisms` offers them all.

The planar ones live in the x–y plane with y up and go towards +x, downhill where there is a slope: their coordinates
x and y run along the ground and off it. The quadruped is spatial, with z up.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.errors import ModelError
from whippletree.mechanisms.contact_textbook import about_z, flat_ground
from whippletree.mechanisms.linkages import moving
from whippletree.mechanisms.trees import PLANAR_GRAVITY
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder

GAIT = (0.200310900544, -0.199832473005)
"""Stance angle and rate of the simplest walker's period-one gait on a slope of 0.009 (lengths and gravity 1)."""


def rimless_wheel(
    spokes: int = 8,
    *,
    slope: float = 0.08,
    hub_inertia: Any = 0.1,
    mass: Any = 1.0,
    length: float = 1.0,
    rate: float = -1.0,
    friction: Any = 1.0,
) -> Model:
    """A rimless wheel: a mass at the hub of massless spokes that rolls down a slope, spoke by spoke.

    Joint ``hub`` (planar) holds x along the slope, y off it, and the turn; it rolls downhill at negative rates. Starts
    on spoke 0, which stands across the slope, at ``rate``. With 2α = 2π / spokes, each plastic touchdown takes
    ω⁺ = ω⁻ (m l² cos 2α + I) / (m l² + I), and ω⁻ cos 2α for a point mass, whose turn has no inertia of its own.
    """
    if spokes < 3 or not length > 0:
        raise ModelError("rimless_wheel", [f"needs 3 spokes or more of a length above 0, got {spokes} of {length}"])
    builder = flat_ground(Builder(f"rimless wheel of {spokes} spokes", PLANAR_GRAVITY), slope)
    builder.body("wheel", mass, inertia=(hub_inertia, hub_inertia, hub_inertia))
    builder.joint("hub", "planar", WORLD, "wheel", rotation=about_z(-slope), start=(0.0, length, 0.0))
    for k in range(spokes):
        angle = 2 * math.pi * k / spokes
        builder.geometry(
            f"spoke {k}", "wheel", "point", position=(length * math.sin(angle), -length * math.cos(angle), 0)
        )
        builder.contact(f"spoke {k} on ground", f"spoke {k}", "ground", friction=friction)
    return moving(builder.build(), {"hub": (-rate * length, 0.0, rate)})


def simplest_walker(
    slope: float = 0.009,
    *,
    foot_mass_ratio: float = 1e-7,
    angle: float = GAIT[0],
    rate: float = GAIT[1],
    gravity: float = 1.0,
    friction: Any = 1.0,
) -> Model:
    """Garcia's simplest walker: a mass of 1 kg at the hip, two legs of 1 m and point feet of ``foot_mass_ratio`` kg.

    Joints ``x`` and ``y`` move the hip along the slope and off it; ``stance`` and ``swing`` are the legs' angles from
    the normal of the slope, positive with the foot in front. Starts just after a heel strike, at the stance ``angle``
    and ``rate``, on the foot ``stance``; the numbers are those of the period-one gait for slope 0.009 and gravity 1,
    the limit of small feet. The swing foot is below ground at mid-swing: what becomes of that is a simulation's choice.
    """
    x, y = -math.sin(angle), math.cos(angle)
    vx, vy = -y * rate, x * rate
    builder = flat_ground(Builder("simplest walker", (0, -gravity, 0)), slope)
    builder.body("carriage").body("hip", 1.0)
    builder.joint("x", "prismatic", WORLD, "carriage", rotation=about_z(-slope), axis=(1, 0, 0), start=x)
    builder.joint("y", "prismatic", "carriage", "hip", axis=(0, 1, 0), start=y)
    for leg, start in (("stance", angle), ("swing", -angle)):
        builder.body(f"{leg} leg", foot_mass_ratio, (0, -1, 0))
        builder.joint(leg, "revolute", "hip", f"{leg} leg", start=start)
        builder.geometry(f"{leg} foot", f"{leg} leg", "point", position=(0, -1, 0))
        builder.contact(f"{leg} foot on ground", f"{leg} foot", "ground", friction=friction)
    # after the strike the swing leg's rate is that of the stance leg less (1 − cos 2θ) of it
    swing = rate * math.cos(2 * angle)
    return moving(builder.build(), {"x": vx, "y": vy, "stance": rate, "swing": swing})


def hopper(
    height: float = 1.2,
    *,
    speed: float = 0.0,
    attack: float = 0.0,
    stiffness: float = 1000.0,
    mass: float = 1.0,
    length: float = 1.0,
    friction: Any = 1.0,
) -> Model:
    """A spring-mass hopper: a point mass on a massless leg with a spring and a massless foot.

    Joints ``x`` and ``y`` move the mass, ``swing`` is the leg's angle (positive with the foot in front), ``leg`` its
    length, whose spring rests at ``length``. Starts at the apex, with the mass at ``height``, the forward ``speed`` and
    the leg at ``attack``. In flight nothing moves the massless leg: it is held. Touchdown, at the height
    length · cos(attack), and lift-off, at the spring's rest length, take no energy. Straight hopping spends
    √(8 (height − length) / g) in flight and (2π − 2 atan(v ω / g)) / ω in stance, ω² = stiffness / mass, where v is the
    speed at touchdown.
    """
    builder = flat_ground(Builder("hopper", PLANAR_GRAVITY))
    builder.body("carriage").body("hip", mass).body("leg").body("foot")
    builder.joint("x", "prismatic", WORLD, "carriage", axis=(1, 0, 0), start=0.0)
    builder.joint("y", "prismatic", "carriage", "hip", axis=(0, 1, 0), start=height)
    builder.joint("swing", "revolute", "hip", "leg", start=attack)
    builder.joint("leg", "prismatic", "leg", "foot", axis=(0, -1, 0), start=length, stiffness=stiffness, rest=length)
    builder.geometry("foot", "foot", "point")
    builder.contact("foot on ground", "foot", "ground", friction=friction)
    return moving(builder.build(), {"x": speed})


def planar_biped(
    friction: Any = 0.8, *, bend: float = 0.3, stiffness: float = 300.0, damping: float = 10.0, height: float = 0.0
) -> Model:
    """A planar biped: a trunk and two legs of thigh and shank with point feet, standing with bent knees.

    Joint ``trunk`` (planar) holds the hip, ``left_hip``, ``left_knee``, ``right_hip`` and ``right_knee`` the legs,
    straight down at 0. Springs and dampers hold the joints near the starting pose: hips at ±``bend`` (one foot in
    front, one behind), knees straight. Starts ``height`` above the ground.
    """
    thigh, shank = 0.4, 0.4
    hip = (thigh + shank) * math.cos(bend) + height
    builder = flat_ground(Builder("planar biped", PLANAR_GRAVITY))
    builder.body("trunk", 10.0, (0, 0.3, 0), (0.3, 0.1, 0.3))
    builder.joint("trunk", "planar", WORLD, "trunk", start=(0.0, hip, 0.0))
    held: dict[str, Any] = {"stiffness": stiffness, "damping": damping}
    for side, angle in (("left", bend), ("right", -bend)):
        builder.body(f"{side} thigh", 2.0, (0, -thigh / 2, 0), (0.03, 0.003, 0.03))
        builder.body(f"{side} shank", 1.0, (0, -shank / 2, 0), (0.014, 0.001, 0.014))
        builder.joint(f"{side}_hip", "revolute", "trunk", f"{side} thigh", start=angle, rest=angle, **held)
        builder.joint(
            f"{side}_knee", "revolute", f"{side} thigh", f"{side} shank", position=(0, -thigh, 0), start=0.0, **held
        )
        builder.geometry(f"{side} foot", f"{side} shank", "point", position=(0, -shank, 0))
        builder.contact(f"{side} foot on ground", f"{side} foot", "ground", friction=friction)
    return builder.build()


def quadruped(
    friction: Any = 0.8, *, bend: float = 0.7, stiffness: float = 200.0, damping: float = 2.0, height: float = 0.0
) -> Model:
    """A quadruped of 12 joints on a free trunk, z up, forward x, standing on four spherical feet.

    Joint ``trunk`` (free); each leg has ``…_abduction`` about x, ``…_hip`` and ``…_knee`` about y, for front_left,
    front_right, hind_left and hind_right. Springs and dampers hold the joints near the starting pose: hips at ``bend``,
    knees at −2 ``bend``, feet below the hips. Starts ``height`` above the ground. The four feet are a hyperstatic
    support: twelve contact rows for the six freedoms of a stiff stance.
    """
    thigh = shank = 0.2
    radius = 0.02
    hip = (thigh + shank) * math.cos(bend) + radius + height
    builder = Builder("quadruped").geometry("ground", WORLD, "half_space")
    builder.body("trunk", 12.0, (0, 0, 0), (0.1, 0.4, 0.45))
    builder.joint("trunk", "free", WORLD, "trunk", start=(0.0, 0.0, hip, 1.0, 0.0, 0.0, 0.0))
    held: dict[str, Any] = {"stiffness": stiffness, "damping": damping}
    for end, x in (("front", 0.2), ("hind", -0.2)):
        for side, y in (("left", 0.1), ("right", -0.1)):
            leg, out = f"{end}_{side}", math.copysign(0.05, y)
            builder.body(f"{leg} shoulder", 0.6, (0, out / 2, 0), (5e-4, 5e-4, 5e-4))
            builder.body(f"{leg} thigh", 1.0, (0, 0, -thigh / 2), (4e-3, 4e-3, 5e-4))
            builder.body(f"{leg} shank", 0.2, (0, 0, -shank / 2), (8e-4, 8e-4, 5e-5))
            builder.joint(
                f"{leg}_abduction", "revolute", "trunk", f"{leg} shoulder", position=(x, y, 0), axis=(1, 0, 0), **held
            )
            builder.joint(
                f"{leg}_hip", "revolute", f"{leg} shoulder", f"{leg} thigh", position=(0, out, 0), axis=(0, 1, 0),
                start=bend, rest=bend, **held,
            )  # fmt: skip
            builder.joint(
                f"{leg}_knee", "revolute", f"{leg} thigh", f"{leg} shank", position=(0, 0, -thigh), axis=(0, 1, 0),
                start=-2 * bend, rest=-2 * bend, **held,
            )  # fmt: skip
            builder.geometry(f"{leg} foot", f"{leg} shank", "sphere", position=(0, 0, -shank), radius=radius)
            builder.contact(f"{leg} foot on ground", f"{leg} foot", "ground", friction=friction)
    return builder.build()


LEG_JOINTS = (
    ("hip_yaw", (0, 0, 1), 0.5, (0.0, 0.0, 0.0)),
    ("hip_roll", (1, 0, 0), 0.8, (0.0, 0.0, 0.0)),
    ("hip_pitch", (0, 1, 0), 4.0, (0.0, 0.0, 0.0)),
    ("knee", (0, 1, 0), 2.5, (0.0, 0.0, -0.38)),
    ("ankle_pitch", (0, 1, 0), 0.3, (0.0, 0.0, -0.38)),
    ("ankle_roll", (1, 0, 0), 0.8, (0.0, 0.0, 0.0)),
)
"""Of a humanoid's leg: name, axis, mass of the body behind it, and where it is in the body before it."""


def humanoid(friction: Any = 0.7, *, bend: float = 0.4) -> Model:
    """A humanoid of 39 kg on two flat feet, z up, looking along x: six joints in each leg, two in each arm.

    Joint ``pelvis`` (free); ``left_hip_yaw``, ``…_hip_roll``, ``…_hip_pitch``, ``…_knee``, ``…_ankle_pitch``,
    ``…_ankle_roll``, ``…_shoulder``, ``…_elbow`` and their like on the right, with limits of angle, velocity and
    effort. Each foot touches the ground with four corners, 0.2 m by 0.1 m. It starts with hips and knees bent by
    ``bend`` and twice that, soles on the ground.
    """
    angles = {"hip_pitch": -bend, "knee": 2 * bend, "ankle_pitch": -bend, "elbow": -0.5}
    sole = 0.06
    height = 2 * 0.38 * math.cos(bend) + sole
    builder = Builder("humanoid").geometry("ground", WORLD, "half_space")
    builder.body("trunk", 18.0, (0, 0, 0.25), (0.7, 0.6, 0.25))
    builder.geometry("chest", "trunk", "box", size=(0.16, 0.28, 0.45), position=(0, 0, 0.25))
    builder.joint("pelvis", "free", WORLD, "trunk", start=(0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0))
    for side, y in (("left", 0.1), ("right", -0.1)):
        parent, at = "trunk", (0.0, y, 0.0)
        for name, axis, mass, place in LEG_JOINTS:
            body = f"{side} {name}"
            long = name in ("hip_pitch", "knee")
            spread = mass * 0.012 if long else mass * 0.004
            center = (0, 0, -0.17) if long else (0.02, 0, -0.03) if name == "ankle_roll" else (0, 0, 0)
            builder.body(body, mass, center, (spread, spread, mass * 0.002))
            builder.joint(
                f"{side}_{name}", "revolute", parent, body, position=at if name == "hip_yaw" else place, axis=axis,
                start=angles.get(name, 0.0), lower=-2.2, upper=2.4, velocity_limit=12.0, effort_limit=150.0,
            )  # fmt: skip
            if long:
                builder.geometry(f"{body} bone", body, "capsule", radius=0.05, length=0.3, position=(0, 0, -0.19))
            parent = body
        for end, x in (("toe", 0.13), ("heel", -0.07)):
            for edge, out in (("outer", math.copysign(0.05, y)), ("inner", -math.copysign(0.05, y))):
                corner = f"{side} {end} {edge}"
                builder.geometry(corner, parent, "point", position=(x, out, -sole))
                builder.contact(f"{corner} on ground", corner, "ground", friction=friction)
        builder.body(f"{side} upper arm", 1.0, (0, 0, -0.12), (0.008, 0.008, 0.002))
        builder.geometry(
            f"{side} upper bone", f"{side} upper arm", "capsule", radius=0.04, length=0.2, position=(0, 0, -0.12)
        )
        builder.body(f"{side} lower arm", 0.7, (0, 0, -0.12), (0.006, 0.006, 0.001))
        builder.geometry(
            f"{side} lower bone", f"{side} lower arm", "capsule", radius=0.03, length=0.2, position=(0, 0, -0.12)
        )
        limits: dict[str, Any] = {"lower": -2.5, "upper": 2.5, "velocity_limit": 12.0, "effort_limit": 40.0}
        builder.joint(
            f"{side}_shoulder", "revolute", "trunk", f"{side} upper arm", position=(0, 2 * y, 0.45), axis=(0, 1, 0),
            **limits,
        )  # fmt: skip
        builder.joint(
            f"{side}_elbow", "revolute", f"{side} upper arm", f"{side} lower arm", position=(0, 0, -0.25),
            axis=(0, 1, 0), start=angles["elbow"], **limits,
        )  # fmt: skip
    return builder.build()
