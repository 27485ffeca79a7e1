"""Scenes with contact of every sort, ours beside ``mj_step``: loops, long chains, grippers, stacks with a robot.

    python -m benchmarks.mixed_scenes [--steps 300] [--tolerance 1e-7] [--folder FOLDER] [--file FILE …] [NAME …]

Every scene is one MJCF text that both read; ``--folder`` adds pusher and humanoid from gymnasium's files there, and
``--file`` any others, such as the hands of gymnasium-robotics. Ours and MuJoCo's steps (Euler's method, elliptic cones,
its other defaults) alternate in one process, from the same start.

    way        ``kernel``, ``scene`` (many free bodies) or ``python`` with the reason why steps are not compiled
    first      s of processor time until the first step has been taken, nothing cached
    ours       µs of processor time per step in the second half of a run, of the kernel or else of ``wt.simulate``
    python     µs per step of the path in Python, which takes whatever is not compiled: of steps 40 to 60; not of scenes
    mj_step    µs per step in the second half
    residual   largest natural map of our steps, m/s; ``left``: steps beyond the tolerance, in the whole run
    overlap    at the end of the run, m, of both
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import whippletree as wt
from benchmarks.peers import steps_of_mujoco
from benchmarks.timing import processor_seconds
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists
from whippletree.contact.time_step import ContactBlocks
from whippletree.simulation.time_stepping.scene_method import is_scene

HEAD = '<mujoco model="{name}"><option timestep="{step}" integrator="Euler" cone="elliptic"/><compiler angle="radian"/>'


@dataclass(frozen=True)
class MixedScene:
    """A scene as MJCF."""

    name: str
    step: float
    body: str
    """What follows the options."""

    @property
    def text(self) -> str:
        """The whole file."""
        return HEAD.format(name=self.name, step=self.step) + self.body + "</mujoco>"


def belt(links: int, step: float = 0.002) -> MixedScene:
    """A closed belt of capsules around two pulleys that stand still, sagging on them."""
    length, thick, gap = 0.05, 0.01, 0.002
    # a stadium: two half circles of radius r and two straight runs, as long as the links together
    radius = links * length / (2 * math.pi + 4)
    straight = 2 * radius
    corners = stadium(links, radius, straight)
    sides = np.roll(corners, -1, axis=0) - corners
    angles = np.arctan2(sides[:, 1], sides[:, 0])
    length = float(np.mean(np.linalg.norm(sides, axis=1)))
    parts = []
    for k in range(links):
        turn = angles[k] - (angles[k - 1] if k else 0.0)
        turn = (turn + math.pi) % (2 * math.pi) - math.pi
        place = f"{corners[0][0]} 0 {corners[0][1]}" if k == 0 else f"{length} 0 0"
        joints = '<joint type="hinge" axis="0 -1 0"/>'
        if k == 0:
            joints = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>' + joints
        tip = f'<site name="tip" pos="{length} 0 0"/>' if k == links - 1 else ""
        parts.append(
            f'<body name="link {k}" pos="{place}" euler="0 {-turn} 0">{joints}{tip}'
            f'<geom name="link {k}" type="capsule" size="{thick}" fromto="{thick} 0 0 {length - thick} 0 0" '
            f'mass="0.02" contype="1" conaffinity="2"/>'
        )
    pulley = radius - thick - gap
    pulleys = "".join(
        f'<geom name="pulley {i}" type="capsule" size="{pulley}" fromto="{x} -0.1 0 {x} 0.1 0" contype="2" '
        f'conaffinity="1"/>'
        for i, x in enumerate((-straight / 2, straight / 2))
    )
    tie = f'<equality><connect body1="link {links - 1}" body2="link 0" anchor="{length} 0 0"/></equality>'
    return MixedScene(
        f"belt of {links} links", step, f"<worldbody>{pulleys}{''.join(parts)}{'</body>' * links}</worldbody>{tie}"
    )


def stadium(count: int, radius: float, straight: float) -> np.ndarray[Any, Any]:
    """Corners (count, 2) of a polygon of equal sides around a stadium, in order; found by moving along its rim."""

    def point(s: float) -> tuple[float, float]:
        arc = math.pi * radius
        s %= 2 * (arc + straight)
        if s < straight:
            return -straight / 2 + s, radius
        if s < straight + arc:
            a = (s - straight) / radius
            return straight / 2 + radius * math.sin(a), radius * math.cos(a)
        if s < 2 * straight + arc:
            return straight / 2 - (s - straight - arc), -radius
        a = (s - 2 * straight - arc) / radius
        return -straight / 2 - radius * math.sin(a), -radius * math.cos(a)

    def walk(side: float) -> tuple[list[tuple[float, float]], float]:
        """Corners at equal chords, and how far along the rim the last one is."""
        places, s = [point(0.0)], 0.0
        for _ in range(count):
            x, y = places[-1]
            low, high = s, s + 2 * side
            for _ in range(60):
                middle = (low + high) / 2
                a, b = point(middle)
                low, high = (middle, high) if math.hypot(a - x, b - y) < side else (low, middle)
            s = low
            places.append(point(s))
        return places[:-1], s

    around = 2 * (math.pi * radius + straight)
    low, high = 0.5 * around / count, around / count
    for _ in range(60):
        side = (low + high) / 2
        low, high = (side, high) if walk(side)[1] < around else (low, side)
    return np.array(walk(low)[0])


def hanging_chain(links: int, step: float = 0.002) -> MixedScene:
    """A chain of capsules laid over a drum, its first half on one side; free to slide off."""
    length, thick, radius = 0.04, 0.008, 0.3
    quarter = (radius + thick) / math.cos(math.asin(length / 2 / (radius + thick)) * 1.02)  # chords touch the drum
    parts, angle, place = [], 0.0, np.array([-quarter, 0.0])
    # up one side, around the upper half, down the other side
    on_drum = math.floor(math.pi / (2 * math.asin(length / 2 / quarter)))
    up = (links - on_drum) // 2
    place = np.array([-quarter, -up * length])
    turn_each = 2 * math.asin(length / 2 / quarter)
    before = 0.0
    for k in range(links):
        if k < up:
            angle = math.pi / 2
        elif k < up + on_drum:
            angle = math.pi / 2 - turn_each * (k - up + 0.5)
        else:
            angle = -math.pi / 2
        turn, before = angle - before, angle
        pos = f"{place[0]} 0 {place[1]}" if k == 0 else f"{length} 0 0"
        joints = '<joint type="hinge" axis="0 -1 0" damping="1e-4"/>'
        if k == 0:
            joints = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>' + joints
        parts.append(
            f'<body name="link {k}" pos="{pos}" euler="0 {-turn} 0">{joints}'
            f'<geom name="link {k}" type="capsule" size="{thick}" fromto="0 0 0 {length} 0 0" mass="0.02" contype="1" '
            f'conaffinity="2"/>'
        )
    drum = (
        f'<geom name="drum" type="cylinder" size="{radius}" fromto="0 -0.1 0 0 0.1 0" contype="2" conaffinity="1" '
        f'friction="0.2"/>'
    )
    return MixedScene(
        f"chain of {links} links on a drum", step, f"<worldbody>{drum}{''.join(parts)}{'</body>' * links}</worldbody>"
    )


def four_bar(step: float = 0.002) -> MixedScene:
    """A four-bar that falls until its coupler's ball lies on a floor."""
    return MixedScene(
        "four-bar over a floor",
        step,
        """<worldbody><geom name="floor" type="plane" size="0 0 1" pos="0 0 -0.2"/>
        <body pos="0 0 0" euler="0 -1.2 0"><joint type="hinge" axis="0 -1 0"/><geom type="capsule" size="0.02"
          fromto="0 0 0 0.5 0 0" mass="1" contype="0" conaffinity="0"/>
          <body name="coupler" pos="0.5 0 0" euler="0 1.2 0"><joint type="hinge" axis="0 -1 0"/>
            <geom type="capsule" size="0.02" fromto="0 0 0 0.8 0 0" mass="1" contype="0" conaffinity="0"/>
            <geom name="ball" type="sphere" size="0.05" pos="0.4 0 -0.2" mass="0.3"/></body></body>
        <body name="rocker" pos="0.8 0 0" euler="0 -1.2 0"><joint type="hinge" axis="0 -1 0"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0.5 0 0" mass="0.7" contype="0" conaffinity="0"/></body>
        </worldbody><equality><connect body1="coupler" body2="rocker" anchor="0.8 0 0"/></equality>""",
    )


def gripper(step: float = 0.002) -> MixedScene:
    """Two fingers on a lift that close on a box and raise it, as their servos are told."""
    finger = (
        '<body name="{name}" pos="0 {y} 0"><joint name="{name}" type="slide" axis="0 {side} 0" range="-0.02 0.1" '
        'limited="true"/><geom name="{name}" type="box" size="0.02 0.01 0.04" mass="0.1" friction="1"/></body>'
    )
    fingers = finger.format(name="left", y=0.06, side=-1) + finger.format(name="right", y=-0.06, side=1)
    return MixedScene(
        "gripper picks a box",
        step,
        f"""<worldbody><geom name="table" type="plane" size="0 0 1"/>
        <body name="hand" pos="0 0 0.06"><joint name="lift" type="slide" axis="0 0 1"/>
          <geom type="sphere" size="0.02" pos="0 0 0.2" mass="0.5" contype="0" conaffinity="0"/>{fingers}</body>
        <body name="box" pos="0 0 0.03"><freejoint/><geom name="box" type="box" size="0.03 0.03 0.03" mass="0.2"
          friction="1"/></body></worldbody>
        <actuator><position joint="lift" kp="2000" kv="100"/><position joint="left" kp="400" kv="20"/>
        <position joint="right" kp="400" kv="20"/></actuator>""",
    )


def stack_and_arm(boxes: int = 4, step: float = 0.002) -> MixedScene:
    """A stack of boxes, and an arm of three capsules that falls onto it."""
    stack = "".join(
        f'<body name="box {k}" pos="0 0 {0.1 + 0.2 * k}"><freejoint/><geom name="box {k}" type="box" '
        f'size="0.1 0.1 0.1" mass="1"/></body>'
        for k in range(boxes)
    )
    arm = ""
    for k, place in enumerate((f"-0.9 0 {0.2 * boxes + 0.15}", "0.4 0 0", "0.3 0 0")):
        arm += (
            f'<body name="arm {k}" pos="{place}"><joint type="hinge" axis="0 1 0" damping="0.1"/>'
            f'<geom name="arm {k}" type="capsule" size="0.03" fromto="0 0 0 {0.4 if k == 0 else 0.3} 0 0" mass="0.5"/>'
        )
    return MixedScene(
        f"{boxes} boxes and an arm",
        step,
        f'<worldbody><geom name="floor" type="plane" size="0 0 1"/>{stack}{arm}{"</body>" * 3}</worldbody>',
    )


def things_on_a_table(kind: str, step: float = 0.002) -> MixedScene:
    """Three things of a kind that fall onto a table, a box, and onto each other."""
    corners = np.random.default_rng(1).normal(size=(60, 3))
    corners *= 0.08 / np.linalg.norm(corners, axis=1, keepdims=True)
    text = " ".join(f"{x:.6f}" for x in corners.ravel())
    assets = f'<asset><mesh name="stone" vertex="{text}"/></asset>' if kind == "mesh" else ""
    form = {
        "cylinder": 'type="cylinder" size="0.06 0.05"',
        "ellipsoid": 'type="ellipsoid" size="0.09 0.06 0.05"',
        "mesh": 'type="mesh" mesh="stone"',
    }[kind]
    things = "".join(
        f'<body name="thing {k}" pos="{0.02 * k} {0.01 * k} {0.12 + 0.18 * k}" euler="{0.3 * k} 0.2 0"><freejoint/>'
        f'<geom name="thing {k}" {form} mass="1"/></body>'
        for k in range(3)
    )
    table = '<geom name="table" type="box" size="0.5 0.5 0.05" pos="0 0 -0.05"/>'
    return MixedScene(f"{kind}s on a table", step, f"{assets}<worldbody>{table}{things}</worldbody>")


def wall_and_ball(bricks: int, step: float = 0.002) -> MixedScene:
    """A wall of bricks, and a ball on a rod that swings into its middle."""
    columns = round(math.sqrt(bricks))
    wall = "".join(
        f'<body name="brick {k}" pos="{0.205 * (k % columns - columns / 2) + 0.1 * (k // columns % 2)} 0 '
        f'{0.05 + 0.1 * (k // columns)}"><freejoint/><geom name="brick {k}" type="box" size="0.1 0.05 0.05" mass="1"/>'
        f"</body>"
        for k in range(bricks)
    )
    height = 0.05 * columns
    ball = (
        f'<body name="ball" pos="0 -0.16 {height + 1.5}" euler="-0.5 0 0"><joint name="hinge" type="hinge" '
        f'axis="1 0 0"/><geom name="ball" type="sphere" size="0.1" pos="0 0 -1.5" mass="20"/></body>'
    )
    floor = '<geom name="floor" type="plane" size="0 0 1"/>'
    return MixedScene(f"wall of {bricks} bricks and a ball", step, f"<worldbody>{floor}{wall}{ball}</worldbody>")


def quadruped_among(count: int, kind: str, step: float = 0.002) -> MixedScene:
    """A trunk on four legs of two limited joints that falls onto a floor, and things that fall on it."""
    form = {"balls": 'type="sphere" size="0.06"', "boxes": 'type="box" size="0.06 0.05 0.04"'}[kind]
    side = math.ceil(math.sqrt(count / 4))
    things = "".join(
        f'<body name="thing {k}" pos="{0.14 * (k % side - side / 2) + 0.01 * (k % 3)} '
        f'{0.14 * (k // side % side - side / 2)} {0.75 + 0.14 * (k // (side * side))}"><freejoint/>'
        f'<geom name="thing {k}" {form} mass="0.3"/></body>'
        for k in range(count)
    )
    legs = "".join(
        f'<body name="thigh {k}" pos="{x} {y} 0"><joint name="hip {k}" type="hinge" axis="0 1 0" range="-0.8 0.8" '
        f'limited="true" damping="1" stiffness="20"/><geom name="thigh {k}" type="capsule" size="0.02" '
        f'fromto="0 0 -0.04 0 0 -0.14" mass="0.3"/><body name="shank {k}" pos="0 0 -0.16"><joint name="knee {k}" '
        f'type="hinge" axis="0 1 0" range="-1.2 1.2" limited="true" damping="1" stiffness="20" frictionloss="0.1"/>'
        f'<geom name="shank {k}" type="capsule" size="0.02" fromto="0 0 -0.03 0 0 -0.16" mass="0.2"/></body></body>'
        for k, (x, y) in enumerate(((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12)))
    )
    trunk = (
        f'<body name="trunk" pos="0 0 0.45"><freejoint/><geom name="trunk" type="box" size="0.25 0.1 0.05" mass="5"/>'
        f"{legs}</body>"
    )
    floor = '<geom name="floor" type="plane" size="0 0 1"/>'
    return MixedScene(f"quadruped among {count} {kind}", step, f"<worldbody>{floor}{trunk}{things}</worldbody>")


def arm_among(boxes: int, step: float = 0.002) -> MixedScene:
    """An arm of four joints, position servos with a force range, and a paddle that sweeps boxes aside on a table.

    Its commands are part of the servos, so that no one has to give them.
    """
    side = math.ceil(math.sqrt(boxes))
    things = "".join(
        f'<body name="box {k}" pos="{0.45 + 0.06 * (k % side)} {0.06 * (k // side) - 0.15} 0.02"><freejoint/>'
        f'<geom name="box {k}" type="box" size="0.02 0.02 0.02" mass="0.1"/></body>'
        for k in range(boxes)
    )
    links = "".join(
        f'<body name="link {k}" pos="{place}" euler="0 {turn} 0"><joint name="joint {k}" type="hinge" axis="{axis}" '
        f'range="-2.5 2.5" limited="true" damping="1" armature="0.1"/><geom name="link {k}" type="capsule" size="0.03" '
        f'fromto="0 0 0 {reach}" mass="2" contype="0" conaffinity="0"/>'
        for k, (place, turn, axis, reach) in enumerate(
            (
                ("0 0 0.11", 0, "0 0 1", "0 0 0.3"),
                ("0 0 0.3", 0.2, "0 1 0", "0.35 0 0"),
                ("0.35 0 0", 0.089, "0 1 0", "0.3 0 0"),
            )
        )
    )
    hand = (
        '<body name="hand" pos="0.3 0 0" euler="0 1.282 0"><joint name="joint 3" type="hinge" axis="0 1 0" damping="1" '
        'armature="0.1"/><geom name="paddle" type="box" size="0.12 0.01 0.06" pos="0.12 0 0" mass="0.3"/></body>'
    )
    # f = k (target − q) − d v
    servos = "".join(
        f'<general joint="joint {k}" gainprm="2000" biastype="affine" biasprm="{2000 * target} -2000 -100" '
        f'forcerange="-60 60"/>'
        for k, target in enumerate((1.2, 0, 0, 0))
    )
    arm = f'<body name="base" pos="0 0 0" euler="0 0 -0.5">{links}{hand}{"</body>" * 4}'
    table = '<geom name="table" type="box" size="2 2 0.05" pos="0.5 0 -0.05"/>'
    return MixedScene(
        f"arm among {boxes} boxes", step, f"<worldbody>{table}{arm}{things}</worldbody><actuator>{servos}</actuator>"
    )


def linked_legs_among(count: int, step: float = 0.002) -> MixedScene:
    """A trunk on four legs, each a parallelogram of two links, a shank and a pin, that falls among boxes."""
    side = math.ceil(math.sqrt(count / 4))
    boxes = "".join(
        f'<body name="box {k}" pos="{0.14 * (k % side - side / 2) + 0.01 * (k % 3)} '
        f'{0.14 * (k // side % side - side / 2)} {0.75 + 0.14 * (k // (side * side))}"><freejoint/>'
        f'<geom name="box {k}" type="box" size="0.06 0.05 0.04" mass="0.3"/></body>'
        for k in range(count)
    )
    link = (
        '<body name="{name}" pos="{x} {y} 0"><joint name="{name}" type="hinge" axis="0 1 0" range="-0.8 0.8" '
        'limited="{limited}" damping="1" stiffness="20"/><geom name="{name}" type="capsule" size="0.015" '
        'fromto="0 0 -0.04 0 0 -0.12" mass="0.2"/>'
    )
    shank = (
        '<body name="shank {k}" pos="0 0 -0.16"><joint type="hinge" axis="0 1 0"/><geom name="shank {k}" '
        'type="capsule" size="0.02" fromto="0.03 0 -0.03 0.03 0 -0.16" mass="0.2"/></body>'
    )
    legs = pins = ""
    for k, (x, y) in enumerate(((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12))):
        legs += link.format(name=f"thigh {k}", x=x, y=y, limited="true") + shank.format(k=k) + "</body>"
        legs += link.format(name=f"rod {k}", x=x + 0.06, y=y, limited="false") + "</body>"
        pins += f'<connect body1="shank {k}" body2="rod {k}" anchor="0.06 0 0"/>'
    trunk = (
        f'<body name="trunk" pos="0 0 0.45"><freejoint/><geom name="trunk" type="box" size="0.3 0.1 0.05" mass="5"/>'
        f"{legs}</body>"
    )
    floor = '<geom name="floor" type="plane" size="0 0 1"/>'
    text = f"<worldbody>{floor}{trunk}{boxes}</worldbody><equality>{pins}</equality>"
    return MixedScene(f"linked legs among {count} boxes", step, text)


def welded_pairs_among(pairs: int, balls: int, step: float = 0.002) -> MixedScene:
    """Capsules that are welded two by two, and balls, all of which fall onto a floor."""
    side = math.ceil(math.sqrt(pairs))
    parts = ties = ""
    for k in range(pairs):
        x, y = 0.4 * (k % side), 0.3 * (k // side)
        for i, shift in enumerate((0.0, 0.12)):
            parts += (
                f'<body name="half {k} {i}" pos="{x + shift} {y} {0.3 + 0.01 * k}" euler="0 {0.6 * i} 0"><freejoint/>'
                f'<geom name="half {k} {i}" type="capsule" size="0.03 0.04" mass="0.4"/></body>'
            )
        ties += f'<weld body1="half {k} 0" body2="half {k} 1"/>'
    for k in range(balls):
        parts += (
            f'<body name="ball {k}" pos="{0.15 * (k % (3 * side))} {0.15 * (k // (3 * side))} 0.8"><freejoint/>'
            f'<geom name="ball {k}" type="sphere" size="0.05" mass="0.3"/></body>'
        )
    floor = '<geom name="floor" type="plane" size="0 0 1"/>'
    text = f"<worldbody>{floor}{parts}</worldbody><equality>{ties}</equality>"
    return MixedScene(f"{pairs} welded pairs and {balls} balls", step, text)


def rolling_balls(count: int, step: float = 0.002) -> MixedScene:
    """Balls with torsional and rolling friction that fall into a box."""
    side = math.ceil(count ** (1 / 3))
    half = 0.06 * side + 0.05
    balls = "".join(
        f'<body name="ball {k}" pos="{0.11 * (k % side - side / 2) + 0.007 * (k % 5)} '
        f'{0.11 * (k // side % side - side / 2) + 0.005 * (k % 7)} {0.1 + 0.12 * (k // (side * side))}"><freejoint/>'
        f'<geom name="ball {k}" size="0.05" mass="0.3"/></body>'
        for k in range(count)
    )
    walls = "".join(
        f'<geom name="wall {i}" type="plane" size="0 0 1" pos="{-half * x} {-half * y} 0" zaxis="{x} {y} 0"/>'
        for i, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1)))
    )
    floor = '<geom name="floor" type="plane" size="0 0 1"/>'
    moments = '<default><geom condim="6" friction="0.5 0.005 0.001"/></default>'
    return MixedScene(f"{count} rolling balls", step, f"{moments}<worldbody>{floor}{walls}{balls}</worldbody>")


SCENES: dict[str, Callable[[], MixedScene]] = {
    "four-bar": four_bar,
    "belt 40": lambda: belt(40),
    "belt 50": lambda: belt(50),
    "belt 100": lambda: belt(100),
    "chain": lambda: hanging_chain(100),
    "gripper": gripper,
    "stack and arm": stack_and_arm,
    "cylinders": lambda: things_on_a_table("cylinder"),
    "ellipsoids": lambda: things_on_a_table("ellipsoid"),
    "meshes": lambda: things_on_a_table("mesh"),
    **{f"wall {n}": lambda n=n: wall_and_ball(n) for n in (25, 100, 400)},  # type: ignore[misc]
    **{
        f"legs {n} {kind}": lambda n=n, kind=kind: quadruped_among(n, kind)
        for kind in ("balls", "boxes")
        for n in (10, 30, 100, 300)
    },  # type: ignore[misc]
    **{f"arm {n} boxes": lambda n=n: arm_among(n) for n in (12, 30, 100)},  # type: ignore[misc]
    **{f"linked {n}": lambda n=n: linked_legs_among(n) for n in (30, 100)},  # type: ignore[misc]
    "welded 20": lambda: welded_pairs_among(20, 20),
    **{f"rolling {n}": lambda n=n: rolling_balls(n) for n in (100, 1000)},  # type: ignore[misc]
}


def way_of(model: wt.Model) -> str:
    """By which way a model is stepped."""
    if is_scene(model):
        return "scene"
    reason = reason_against_lists(model)
    return "kernel" if reason is None else f"python: {reason}"


def contest(name: str, path: Path, steps: int, tolerance: float) -> None:
    """Print the line of a scene."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    step = float(peer.opt.timestep)
    begun = time.process_time()
    _simulated(model, step, 2, tolerance)
    first = time.process_time() - begun
    whole = _simulated(model, step, 2 * steps, tolerance)
    mine = (_kernel_time if way_of(model) == "kernel" else _half_time)(model, step, steps, tolerance)
    other, depth = math.inf, 0.0
    for _ in range(2):
        data = mujoco.MjData(peer)
        mujoco.mj_step(peer, data, steps)
        other = min(other, processor_seconds(lambda data=data: steps_of_mujoco(peer, data, steps)) / steps * 1e6)
        depth = max([depth, *[-c.dist for c in data.contact]])
    slow = math.nan if way_of(model) == "scene" else _in_python(model, step, tolerance)
    overlap = float(whole["penetration"].values.max()) if "penetration" in whole else math.nan
    print(
        f"{name:16}{model.nv:5}{first:7.1f}{mine:10.1f}{slow:10.0f}{other:10.1f}{mine / other:8.2f}"
        f"{whole.attrs['largest_residual_velocity']:10.1e}{whole.attrs['unconverged_steps']:6}"
        f"{overlap:10.1e}{depth:10.1e}"
        f"  {way_of(model)}",
        flush=True,
    )


def _half_time(model: wt.Model, step: float, steps: int, tolerance: float) -> float:
    """µs per step of the second half of a run."""
    short, long = (
        min(processor_seconds(lambda n=n: _simulated(model, step, n * steps, tolerance)) for _ in range(2))
        for n in (1, 2)
    )
    return (long - short) / steps * 1e6


def _kernel_time(model: wt.Model, step: float, steps: int, tolerance: float) -> float:
    """µs per step of the second half of a run, of the kernel that :func:`wt.simulate` calls, without what is told."""
    kernel = wt.compile(model).contact_steps
    blocks = ContactBlocks(model, alone=True).count
    given = [np.zeros((steps, model.nv)), *([np.zeros((steps, len(model.actuators)))] if model.actuators else [])]
    given += [np.full(steps, step), tolerance, math.inf]
    q, v, impulses, *_ = kernel(model.home.q, model.home.v, np.zeros((blocks, 3)), *given)
    return min(processor_seconds(lambda: kernel(q[-1], v[-1], impulses[-1], *given)) for _ in range(3)) / steps * 1e6


def _in_python(model: wt.Model, step: float, tolerance: float) -> float:
    """µs per step without the kernel, of steps 40 to 60."""
    with mock.patch("whippletree.simulation.time_stepping.impulse_step.suits_lists", return_value=False):
        _simulated(model, step, 2, tolerance)
        few, more = (
            processor_seconds(lambda count=count: _simulated(model, step, count, tolerance)) for count in (40, 60)
        )
    return (more - few) / 20 * 1e6


def _simulated(model: wt.Model, step: float, steps: int, tolerance: float) -> Any:
    options = {"duration": step * steps, "step": step, "output_dt": step * steps, "tolerance": tolerance}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wt.simulate(model, method="time_stepping", **options)


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tolerance", type=float, default=1e-7)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--file", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    print(
        f"{'scene':16}{'nv':>5}{'first':>7}{'ours':>10}{'python':>10}{'mj_step':>10}{'ratio':>8}{'residual':>10}{'left':>6}"
        f"{'overlap':>10}{'MuJoCo':>10}  way"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SCENES.items():
            if name in given.names or not (given.names or given.file):
                path = Path(folder) / "scene.xml"
                path.write_text(make().text)
                contest(name, path, given.steps, given.tolerance)
    for path in given.file:
        contest(path.stem[:15], path, given.steps, given.tolerance)
    for robot in ("pusher", "humanoid"):
        if given.folder and (not given.names or robot in given.names):
            contest(robot, given.folder / f"{robot}.xml", given.steps, given.tolerance)


if __name__ == "__main__":
    main()
