"""Every robot of example-robot-data, fixed and free base, against Pinocchio and MuJoCo on the tree of its bodies.

The terminal summary tells which robots a peer refused and why, and the worst error of every quantity.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import whippletree as wt
from peers.agreement import TOLERANCE, answers, errors, random_motion
from peers.conversion import MuJoCo, Pinocchio, Refused
from whippletree.model import Model

BASES = ("fixed", "free")
PEERS = (Pinocchio, MuJoCo)
FILES = {
    f"{path.parts[-3].removesuffix('_description')}/{path.stem}": path
    for path in sorted(
        Path(str(file.locate()))
        for file in importlib.metadata.files("example-robot-data") or ()
        if file.name.endswith(".urdf")
    )
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*transmissions that are not simple or differential:whippletree.errors.LeftOutWarning"
)
"""Hands and wrists of Talos and Tiago."""

UNUSABLE = ("falcon/falcon", "ur/ur3")
"""Broken as published: a joint with an unknown child, and a file without a single link."""
ROBOTS = [name for name in FILES if name not in UNUSABLE]


class Evaluator(NamedTuple):
    """One of our ways to evaluate a model, and how much of the comparison it is put through."""

    make: Callable[[Model], Any]
    robots: Iterable[str] = ROBOTS
    bodies: Callable[[Model], list[str]] = lambda model: [body.name for body in model.bodies]


FEW = ("ur/ur5_robot", "panda/panda", "kinova/kinova", "solo/solo12")
"""What compiled functions are compared on, unless WHIPPLETREE_PEERS=all asks for every robot (many minutes)."""

EVALUATORS = {
    "reference": Evaluator(wt.reference),
    "compiled": Evaluator(
        wt.compile,
        robots=ROBOTS if os.environ.get("WHIPPLETREE_PEERS") == "all" else FEW,
        bodies=lambda model: [model.bodies[-1].name],
    ),
}
CASES = [(robot, base, name) for name, evaluator in EVALUATORS.items() for robot in evaluator.robots for base in BASES]


def test_all_the_robots_are_here():
    assert len(ROBOTS) >= 75


@pytest.mark.parametrize(("robot", "base", "evaluator"), CASES)
def test_robot_agrees_with_its_peers(robot, base, evaluator, record_property):
    model = wt.load(FILES[robot], base=base).tree
    evaluator = EVALUATORS[evaluator]
    motion = random_motion(model, robot)
    ours = answers(evaluator.make(model), motion, evaluator.bodies(model))
    found = {}
    for kind in PEERS:
        try:
            peer = kind.from_urdf(model, FILES[robot], base)
        except Refused as refusal:
            record_property("note", f"{kind.__name__} refused {robot}: {refusal}")
            continue
        assert peer.nv == model.nv
        found |= {(kind.__name__, quantity): error for quantity, error in errors(ours, peer, motion).items()}
    record_property("errors", {f"{kind}: {what}": (error, f"{robot}, {base}") for (kind, what), error in found.items()})
    assert found
    assert {key: error for key, error in found.items() if not error <= TOLERANCE} == {}


@pytest.mark.parametrize("robot", UNUSABLE)
def test_what_we_refuse_no_peer_can_use(robot, record_property):
    with pytest.raises(wt.FileError) as refusal:
        wt.load(FILES[robot])
    record_property("note", f"Whippletree refused {robot}: {'; '.join(refusal.value.faults)}")
    nothing = wt.Builder(robot).build()
    for kind in PEERS:
        try:
            peer = kind.from_urdf(nothing, FILES[robot], "fixed")
        except Refused as reason:
            record_property("note", f"{kind.__name__} refused {robot}: {reason}")
        else:
            assert peer.links == 0


def test_every_joint_type_of_urdf(tmp_path):
    """Floating and planar joints inside the tree, slanted axes that are not of unit length, turned inertias."""
    path = tmp_path / "every_joint.urdf"
    path.write_text(every_joint())
    model = wt.load(path)
    motion = random_motion(model, "every joint")
    ours = answers(wt.reference(model), motion, [body.name for body in model.bodies])
    found = errors(ours, Pinocchio.from_urdf(model, path, "fixed"), motion)
    assert {key: error for key, error in found.items() if not error <= TOLERANCE} == {}


def every_joint() -> str:
    joints = [
        ("floating", "base", "1 0 0"),
        ("planar", "floating", "0 0 1"),  # Pinocchio has no other plane
        ("continuous", "planar", "1 -2 0.5"),
        ("prismatic", "planar", "0 3 4"),
        ("revolute", "prismatic", "-1 0 0"),
        ("fixed", "revolute", "1 0 0"),
    ]
    inertial = """<inertial><origin xyz="0.1 0 -0.2" rpy="1 2 3"/><mass value="2"/>
        <inertia ixx="0.05" iyy="0.06" izz="0.07" ixy="0.001" ixz="0.002" iyz="-0.003"/></inertial>"""
    links = "".join(f'<link name="{name}">{inertial}</link>' for name in ("base", *(kind for kind, *_ in joints)))
    carried = "".join(
        f"""<joint name="{kind} joint" type="{kind}"><parent link="{parent}"/><child link="{kind}"/>
        <origin xyz="0.3 -0.2 0.1" rpy="0.3 0.2 -1"/><axis xyz="{axis}"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>"""
        for kind, parent, axis in joints
    )
    return f'<robot name="every joint">{links}{carried}</robot>'
