"""Analysis: inverse dynamics in contact, inverse kinematics, and equilibria of many designs.

Pinocchio has the pieces of inverse dynamics under constraints, not the function: here it is ``rnea`` and the frames'
Jacobians, with least-norm motor and contact forces by NumPy. For inverse kinematics the peer is a plain Levenberg and
Marquardt's method on Pinocchio, one problem after the other, with limits by clamping, to the same accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.contacts import STANCES, standing
from benchmarks.peers import Pinocchio
from benchmarks.robots import ROBOTS, Robot, model_of, states
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating

GOALS = 1000
ACCURACY = 1e-8
"""rad and m."""

DESIGNS = 10_000


def analysis_rows() -> Iterator[Row]:
    """All of it, on one thread."""
    for robot in ROBOTS:
        if robot.name in STANCES:
            yield from _motor_rows(robot)
    yield from _reaching_rows(next(robot for robot in ROBOTS if robot.name == "Panda"))
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
    for measure, time in (("batch", found["batch"] / BATCH), ("single call", found["single"])):
        subject = f"inverse dynamics in contact, {measure}"
        yield Row(robot.name, subject, time * 1e6, found["peer"] * 1e6, "pin and NumPy, single call", note)


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


def _reaching_rows(robot: Robot) -> Iterator[Row]:
    model = model_of(robot)
    joints = [joint for joint in model.joints if joint.kind != "weld"]
    lower, upper = (np.array([getattr(joint, word) for joint in joints]) for word in ("lower", "upper"))
    q = np.random.default_rng(0).uniform(lower, upper, (GOALS, model.nq))
    goals = wt.compile(model).pose("panda_link8")(q)
    middle = (lower + upper) / 2
    reach = partial(wt.inverse_kinematics, model, guess=middle, tolerance=ACCURACY)
    peer = _PeersReach(robot, lower, upper)
    few = goals[: GOALS // 20]
    found = alternating(
        {
            "ours": lambda: reach(goals={"panda_link8": goals}),
            "starts": lambda: reach(goals={"panda_link8": goals}, starts=60),
            "single": lambda: reach(goals={"panda_link8": goals[0]}),
            "peer": lambda: [peer.solve(goal, middle) for goal in few],
        },
        rounds=3,
    )
    once = float(np.mean(reach(goals={"panda_link8": goals}).reached))
    often = float(np.mean(reach(goals={"panda_link8": goals}, starts=60).reached))
    theirs = float(np.mean([peer.solve(goal, middle) for goal in few]))
    per_peer, name = found["peer"] / len(few) * 1e6, "Levenberg-Marquardt on pin"
    note = f"{once:.1%} solved to {ACCURACY:g}, the peer {theirs:.1%}"
    yield Row("Panda", "inverse kinematics, one start", found["ours"] / GOALS * 1e6, per_peer, name, note)
    yield Row("Panda", "inverse kinematics, up to 61 starts", found["starts"] / GOALS * 1e6, None, "", f"{often:.1%}")
    yield Row("Panda", "inverse kinematics, a single problem", found["single"] * 1e6, per_peer, name)


class _PeersReach:
    """A plain Levenberg and Marquardt's method on Pinocchio."""

    def __init__(self, robot: Robot, lower: np.ndarray, upper: np.ndarray) -> None:
        self.peer = Pinocchio(robot, 1)
        self.frame = self.peer.model.getFrameId("panda_link8")
        self.lower, self.upper = lower, upper

    def _error(self, q: np.ndarray, goal: Any) -> np.ndarray:
        pin, model, data = self.peer.pin, self.peer.model, self.peer.data
        pin.forwardKinematics(model, data, q)
        pin.updateFramePlacement(model, data, self.frame)
        return np.asarray(pin.log6(data.oMf[self.frame].actInv(goal)).vector)

    def solve(self, matrix: np.ndarray, q: np.ndarray) -> bool:
        pin, model, data = self.peer.pin, self.peer.model, self.peer.data
        goal, damping = pin.SE3(matrix), 1.0
        e = self._error(q, goal)
        for _ in range(100):
            if np.abs(e).max() <= ACCURACY:
                return True
            J = pin.computeFrameJacobian(model, data, q, self.frame, pin.ReferenceFrame.LOCAL)
            cost = e @ e / 2
            H = J.T @ J + (damping * cost + 1e-12) * np.eye(model.nv)
            trial = np.clip(q + np.linalg.solve(H, J.T @ e), self.lower, self.upper)
            after = self._error(trial, goal)
            if after @ after / 2 < cost:
                q, e, damping = trial, after, damping / 8
            else:
                damping *= 6
        return False


def _design_rows() -> Iterator[Row]:
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    rng = np.random.default_rng(0)
    opened = {f"bodies.{name} rod.mass": rng.uniform(0.5, 3.0, DESIGNS) for name in ("coupler", "rocker")}

    def analysed() -> Any:
        rest = wt.equilibrium(model, parameters=opened)
        return wt.eigenmodes(model, rest.q, parameters=opened)

    found = alternating({"ours": analysed}, rounds=1)
    yield Row("four-bar", "equilibrium and modes of a design", found["ours"] / DESIGNS * 1e6, None, "")
