"""The robots that are measured, as models of every contestant. Files come from the wheel ``example-robot-data``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import numpy as np

import whippletree as wt


@dataclass(frozen=True)
class Robot:
    """A robot: where its file is, and whether its base floats."""

    name: str
    file: str
    base: str
    kind: str

    @property
    def path(self) -> Path:
        return data_folder() / self.file


ROBOTS = (
    Robot("UR5", "ur_description/urdf/ur5_robot.urdf", "fixed", "arm"),
    Robot("Panda", "panda_description/urdf/panda.urdf", "fixed", "arm"),
    Robot("Kinova", "kinova_description/robots/kinova.urdf", "fixed", "arm"),
    Robot("solo12", "solo_description/robots/solo12.urdf", "free", "quadruped"),
    Robot("G1", "g1_description/urdf/g1_29dof_rev_1_0.urdf", "free", "humanoid"),
    Robot("Talos", "talos_data/robots/talos_reduced.urdf", "free", "humanoid"),
)


@cache
def data_folder() -> Path:
    """The folder of the robots' files; WHIPPLETREE_ROBOTS names another one, for machines without the wheel."""
    if place := os.environ.get("WHIPPLETREE_ROBOTS"):
        return Path(place)
    return Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


class States(NamedTuple):
    """Random states of one robot, in our convention and in Pinocchio's."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def model_of(robot: Robot) -> wt.Model:
    """Our model: the tree, since the peers ignore a robot's mimic joints too."""
    return wt.load(robot.path, base=robot.base, actuators=False).tree


def states(model: wt.Model, count: int, seed: int = 0) -> States:
    """Random states with unit quaternions."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-1, 1, (count, model.nq))
    for joint, part in zip(model.joints, model.q_slices, strict=True):
        if joint.kind in ("free", "spherical"):
            quaternion = q[:, part.stop - 4 : part.stop]
            quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return States(q, rng.uniform(-1, 1, (count, model.nv)), rng.uniform(-1, 1, (count, model.nv)))
