"""Analysis: inverse dynamics in contact, and equilibria and vibrations of many designs.

Pinocchio has the pieces of inverse dynamics under constraints, not the function: here it is ``rnea`` and the frames'
Jacobians, with least-norm motor and contact forces by NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.contacts import STANCES, standing
from benchmarks.peers import Pinocchio
from benchmarks.robots import ROBOTS, Robot, states
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating

DESIGNS = 100_000


def analysis_rows() -> Iterator[Row]:
    """All of it, on one thread."""
    for robot in ROBOTS:
        if robot.name in STANCES:
            yield from _motor_rows(robot)
    yield from _design_rows()


def _motor_rows(robot: Robot) -> Iterator[Row]:
    model = standing(robot)
    motors = tuple(joint.name for joint in model.joints if joint.kind not in ("free", "weld"))
    function = wt.compile(model, threads=1).inverse_dynamics_with_motors(motors)
    q, v, a = states(model.tree, BATCH)
    # near the state in which the feet were tied: half a turn away, rows of a weld grow without bound
    q = wt.compile(model).integrate(q[0], 0.1 * v)
    costs = np.ones(model.nv)
    one = tuple(x[0].copy() for x in (q, v, a))
    found = alternating(
        {
            "batch": partial(function, q, v, a, costs),
            "single": partial(function, *one, costs),
            "peer": _peers_motors(robot),
        }
    )
    count = 6 if STANCES[robot.name][0] == "weld" else 3
    note = f"{count * len(STANCES[robot.name][1])} contact rows, {len(motors)} motors"
    for measure, seconds in (("batch", found["batch"] / BATCH), ("single call", found["single"])):
        subject = f"inverse dynamics in contact, {measure}"
        yield Row(robot.name, subject, seconds * 1e6, found["peer"] * 1e6, "pin and NumPy, single call", note)


def _peers_motors(robot: Robot) -> Callable[[], Any]:
    kind, feet = STANCES[robot.name]
    peer = Pinocchio(robot, 1)
    pin, model, data = peer.pin, peer.model, peer.data
    frames = [model.getFrameId(foot) for foot in feet]
    rows = slice(0, 6) if kind == "weld" else slice(0, 3)
    B = np.eye(model.nv)[:, 6:]

    def solved() -> Any:
        q, v, a = peer.one
        h = pin.rnea(model, data, q, v, a)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        J = np.concatenate([pin.getFrameJacobian(model, data, f, pin.ReferenceFrame.LOCAL)[rows] for f in frames])
        # motors share with the least norm, feet carry what is left: [B Bᵀ Jᵀ; J 0] [y; f] = [h; 0]
        m = len(J)
        block = np.block([[B @ B.T, J.T], [J, np.zeros((m, m))]])
        return np.linalg.solve(block, np.concatenate([h, np.zeros(m)]))

    return solved


def _design_rows() -> Iterator[Row]:
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    rng = np.random.default_rng(0)
    opened = {f"bodies.{name} rod.mass": rng.uniform(0.5, 3.0, DESIGNS) for name in ("coupler", "rocker")}

    few = {path: values[:10] for path, values in opened.items()}
    wt.eigenmodes(model, wt.equilibrium(model, parameters=few).q, parameters=few)  # compiled before the clock runs
    start = time.process_time()
    rest = wt.equilibrium(model, parameters=opened)
    middle = time.process_time()
    wt.eigenmodes(model, rest.q, parameters=opened)
    end = time.process_time()
    note = f"{DESIGNS / (middle - start):,.0f} a second, {np.mean(rest.stable):.1%} stable"
    yield Row("four-bar", f"equilibrium of {DESIGNS} designs", (middle - start) / DESIGNS * 1e6, None, "", note)
    note = f"{DESIGNS / (end - middle):,.0f} a second"
    yield Row("four-bar", f"eigenvalues of {DESIGNS} designs", (end - middle) / DESIGNS * 1e6, None, "", note)
