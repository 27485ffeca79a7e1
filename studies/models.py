"""What the studies look at: chains whose masses grow or shrink, random states, and robots if they are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whippletree.io import load
from whippletree.mechanisms.trees import PLANAR_GRAVITY, rod_inertia
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder

Array = np.ndarray[Any, Any]

ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "Panda": ("panda_description/urdf/panda.urdf", "fixed"),
    "Kinova": ("kinova_description/robots/kinova.urdf", "fixed"),
    "solo12": ("solo_description/robots/solo12.urdf", "free"),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
}
"""Arms, a quadruped and a humanoid, from the wheel ``example-robot-data``: file and base."""


class State(NamedTuple):
    """One state of a model, and forces."""

    q: Array
    v: Array
    tau: Array


def graded_chain(n: int, ratio: float, mass: float = 1.0) -> Model:
    """A planar chain of n uniform rods of 1 m, each ``ratio`` times as heavy as the one before."""
    builder = Builder(f"chain of {n} rods, each {ratio:g} times the one before", PLANAR_GRAVITY)
    for k in range(1, n + 1):
        own = mass * ratio ** (k - 1)
        builder.body(f"rod_{k}", own, (0.5, 0, 0), rod_inertia(own, 1.0))
        parent = f"rod_{k - 1}" if k > 1 else WORLD
        builder.joint(f"joint_{k}", "revolute", parent, f"rod_{k}", position=(1.0 if k > 1 else 0.0, 0, 0))
    return builder.build()


def robots() -> dict[str, Model]:
    """The robots' trees by name; none if the wheel is not installed."""
    try:
        folder = Path(
            str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots"))
        )
    except PackageNotFoundError:
        return {}
    return {name: load(folder / file, base=base).tree for name, (file, base) in ROBOTS.items()}


def at_rest(model: Model) -> State:
    """The model at zero coordinates, without forces: a straight chain."""
    return State(np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv))


def random_state(model: Model, rng: np.random.Generator, spread: float = 1.0) -> State:
    """Coordinates within ``spread``, unit quaternions, velocities and forces within 1."""
    q = rng.uniform(-spread, spread, model.nq)
    for kind, part in zip(model.joint_types, model.q_slices, strict=True):
        if kind.nq > kind.nv:
            q[part.stop - 4 : part.stop] /= np.linalg.norm(q[part.stop - 4 : part.stop])
    return State(q, rng.uniform(-1, 1, model.nv), rng.uniform(-1, 1, model.nv))


def planar_mass_matrix(angles: Array) -> Array:
    """M / (m l²) (n, n) of a chain of equal rods with relative angles, in closed form: also for very long chains.

    In absolute angles θ the entry is (n − max(i, j) − 1/2) cos(θᵢ − θⱼ) off the diagonal and n − i − 2/3 on it.
    """
    n = len(angles)
    theta = np.cumsum(angles)
    i = np.arange(n)
    absolute = (n - np.maximum.outer(i, i) - 0.5) * np.cos(np.subtract.outer(theta, theta))
    absolute[i, i] = n - i - 2 / 3
    # a relative rate turns every rod beyond it: sums over rows and columns from the tip
    rows = np.cumsum(absolute[::-1], axis=0)[::-1]
    return np.asarray(np.cumsum(rows[:, ::-1], axis=1)[:, ::-1])
