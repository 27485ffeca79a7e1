"""Robots in contact: constrained dynamics and its derivatives against Pinocchio's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.peers import Pinocchio, tied_feet
from benchmarks.robots import ROBOTS, Robot, model_of, states
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating
from whippletree.model import Constraint, Frame

STANCES = {
    "G1": ("weld", ("left_ankle_roll_link", "right_ankle_roll_link")),
    "solo12": ("point", ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")),
}
"""Which feet hold, and how: all six directions, or points."""

SMALL_BATCH = 512
"""Of derivatives, whose results take 30 kB a state."""


def standing(robot: Robot) -> wt.Model:
    """Our model with its feet tied to the ground where they are in the first random state."""
    kind, feet = STANCES[robot.name]
    tree = model_of(robot)
    q = states(tree, 1).q[0]
    ref = wt.reference(tree)
    frames = [Frame(f"ground {foot}", "world", ref.pose(foot)(q)) for foot in feet]
    ties = [Constraint(f"contact {foot}", kind, (f"ground {foot}", foot)) for foot in feet]
    return replace(tree, frames=(*tree.frames, *frames), constraints=tuple(ties))


def peers_steps(robot: Robot) -> tuple[Any, Any]:
    """Calls of Pinocchio with the same contacts: constrained dynamics, and with its derivatives."""
    kind, feet = STANCES[robot.name]
    peer = Pinocchio(robot, 1)
    pin, model = peer.pin, peer.model
    contacts, memory = tied_feet(model, feet, kind)
    pin.initConstraintDynamics(model, peer.data, contacts, memory)
    dynamics = partial(pin.constraintDynamics, model, peer.data, *peer.one, contacts, memory)

    def derivatives() -> None:
        dynamics()
        pin.computeConstraintDynamicsDerivatives(model, peer.data, contacts, memory)

    return dynamics, derivatives


def contact_rows() -> Iterator[Row]:
    """Batches and single calls; Pinocchio has no batch loop for this, so its single call stands for both."""
    for robot in ROBOTS:
        if robot.name in STANCES:
            model = standing(robot)
            dyn, (theirs, theirs_derived) = wt.compile(model, threads=1), peers_steps(robot)
            forward, derived = dyn.forward_dynamics, dyn.forward_dynamics_derivatives
            many = states(model, BATCH)
            out = np.empty_like(many.v)
            t = alternating({"ours": partial(forward, *many, out=out), "peer": theirs}, rounds=9)
            name = f"{STANCES[robot.name][0]} contacts"
            yield Row(
                robot.name, f"{name}, batch", t["ours"] / BATCH * 1e6, t["peer"] * 1e6, "Pinocchio", "peer: single"
            )
            t = alternating({"ours": partial(forward, *[x[0] for x in many]), "peer": theirs})
            yield Row(robot.name, f"{name}, single call", t["ours"] * 1e6, t["peer"] * 1e6, "Pinocchio")
            few = [x[:SMALL_BATCH] for x in many]
            squares = tuple(np.empty((SMALL_BATCH, model.nv, model.nv)) for _ in range(3))
            t = alternating({"ours": partial(derived, *few, out=squares), "peer": theirs_derived}, rounds=9)
            ours = t["ours"] / SMALL_BATCH * 1e6
            yield Row(robot.name, f"{name}, derivatives, batch", ours, t["peer"] * 1e6, "Pinocchio", "peer: single")
            t = alternating({"ours": partial(derived, *[x[0] for x in many]), "peer": theirs_derived})
            yield Row(robot.name, f"{name}, derivatives, single call", t["ours"] * 1e6, t["peer"] * 1e6, "Pinocchio")
