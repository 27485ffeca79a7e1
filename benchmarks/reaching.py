"""Inverse kinematics: problems solved per second to 1e-8, and TRAC-IK's protocol with its success rates.

Peers are a plain Levenberg and Marquardt's method on Pinocchio, one problem after the other, with limits by clamping
and loops as further rows, and ``mink`` on MuJoCo where it is installed. (``pyroki``, the batched one, is on no package
index that this was measured with.) All have the same goals, the same start and the same accuracy.

TRAC-IK's protocol (Beeson and Ames 2015, and the table of its repository): random reachable poses, the start in the
middle of the limits, 1e-5 in all six, at most 5 ms each. Processor time is counted, so that a busy machine does not
decide; problems are posed one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.peers import Pinocchio, mujoco_model
from benchmarks.robots import ROBOTS, model_of
from benchmarks.row import Row

GOALS = 1000
"""Of the contests for speed."""

PEERS_GOALS = 50

ACCURACY = 1e-8
"""rad and m."""

POSES = 10_000
PROTOCOL_ACCURACY = 1e-5
PROTOCOL_TIME = 5e-3
"""TRAC-IK's, s for each problem."""

PUBLISHED = {
    "Panda": "KDL 61.77 %, KDL with restarts 92.67 %, TRAC-IK 99.70 %",
    "iiwa14": "KDL 37.64 %, KDL with restarts 93.70 %, TRAC-IK 99.84 %",
}

STARTS = 60

IIWA_LENGTHS = (0.36, 0.42, 0.4, 0.126)
"""m: base to shoulder, to elbow, to wrist, to flange (KUKA, LBR iiwa 14 R820, data sheet)."""

IIWA_LIMITS = (170, 120, 170, 120, 170, 120, 175)
"""Degrees, to both sides (the same sheet)."""


def iiwa14() -> wt.Model:
    """The arm's kinematics; masses do not matter here."""
    shoulder, elbow, wrist, flange = IIWA_LENGTHS
    offsets = (shoulder, 0.0, elbow, 0.0, wrist, 0.0, flange)
    b, parent, height = wt.Builder("iiwa14"), "world", 0.0
    for k, (length, limit) in enumerate(zip(offsets, IIWA_LIMITS, strict=True), 1):
        # joints turn about z and y by turns; pairs of them meet in shoulder, elbow and wrist
        axis, bound = ((0, 0, 1) if k % 2 else (0, 1, 0)), np.deg2rad(limit)
        b.body(f"link {k}", 1.0, inertia=(0.01, 0.01, 0.01))
        place = (0, 0, height)
        b.joint(f"joint {k}", "revolute", parent, f"link {k}", axis=axis, position=place, lower=-bound, upper=bound)
        parent, height = f"link {k}", length
    return b.frame("flange", parent, position=(0, 0, height)).build()


def limits(model: wt.Model) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of all coordinates."""
    joints = [joint for joint in model.joints if joint.kind != "weld"]
    return tuple(np.array([getattr(joint, word) for joint in joints]) for word in ("lower", "upper"))  # type: ignore[return-value]


def arms() -> dict[str, tuple[wt.Model, str]]:
    """Model and frame of each arm."""
    panda = model_of(next(robot for robot in ROBOTS if robot.name == "Panda"))
    return {"Panda": (panda, "panda_link8"), "iiwa14": (iiwa14(), "flange")}


def reachable(model: wt.Model, frame: str, count: int) -> np.ndarray:
    """Poses of random configurations within limits."""
    q = np.random.default_rng(0).uniform(*limits(model), (count, model.nq))
    return np.asarray(wt.compile(model).pose(frame)(q))


def reaching_rows() -> Iterator[Row]:
    """Speed and protocol."""
    for name, (model, frame) in arms().items():
        yield from _speed_rows(name, model, frame)
    yield from _delta_rows()
    for name, (model, frame) in arms().items():
        yield protocol_row(name, model, frame)


def _processor_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """The best of three, s, and the last result."""
    times = []
    for _ in range(3):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return min(times), result


def _speed_rows(name: str, model: wt.Model, frame: str) -> Iterator[Row]:
    goals, (lower, upper) = reachable(model, frame, GOALS), limits(model)
    middle = (lower + upper) / 2
    reach = partial(wt.inverse_kinematics, model, guess=middle, tolerance=ACCURACY)
    reach(goals={frame: goals[:32]}, starts=4)  # compiled before the clock runs
    peers: dict[str, Any] = {"Levenberg-Marquardt on pin": _on_pinocchio(name, model, frame)}
    if (mink := _on_mink(name, model)) is not None:
        peers["mink"] = mink
    once, first = _processor_time(lambda: reach(goals={frame: goals}))
    often, all_ = _processor_time(lambda: reach(goals={frame: goals}, starts=STARTS))
    for word, peer in peers.items():
        used, solved = _processor_time(lambda peer=peer: [peer(g, middle) for g in goals[:PEERS_GOALS]])  # type: ignore[misc]
        rate = _note(first.reached, once) + f"; the peer {_note(np.array(solved), used)}"
        yield Row(name, "inverse kinematics, one start", once / GOALS * 1e6, used / PEERS_GOALS * 1e6, word, rate)
    note = _note(all_.reached, often)
    yield Row(name, f"inverse kinematics, up to {STARTS + 1} starts", often / GOALS * 1e6, None, "", note)


def _note(solved: np.ndarray, seconds: float) -> str:
    return f"{np.mean(solved):.1%} solved, {np.sum(solved) / seconds:,.0f} a second"


def _delta_rows() -> Iterator[Row]:
    model = wt.mechanisms.delta_robot()
    home = wt.compile(model).pose("platform")(model.home.q)[:3, 3]
    goals = home + np.random.default_rng(0).uniform(-0.15, 0.15, (GOALS, 3))
    reach = partial(wt.inverse_kinematics, model, tolerance=ACCURACY)
    reach({"platform": goals[:32]})
    ours, found = _processor_time(lambda: reach({"platform": goals}))
    peer = _DeltaOnPinocchio(model)
    used, solved = _processor_time(lambda: [peer(goal) for goal in goals[:PEERS_GOALS]])
    note = _note(found.reached, ours) + f"; the peer {_note(np.array(solved), used)}"
    yield Row(
        "delta robot", "inverse kinematics, six loops", ours / GOALS * 1e6, used / PEERS_GOALS * 1e6,
        "Levenberg-Marquardt on pin", note,
    )  # fmt: skip


def protocol_row(name: str, model: wt.Model, frame: str, poses: int = POSES) -> Row:
    """TRAC-IK's protocol, one problem after the other; an answer after its time counts as none."""
    lower, upper = limits(model)
    middle, solved, used = (lower + upper) / 2, 0, []
    reach = partial(wt.inverse_kinematics, model, guess=middle, tolerance=PROTOCOL_ACCURACY, starts=STARTS)
    goals = reachable(model, frame, poses)
    for goal in goals[:30]:
        reach(goals={frame: goal})  # compiled before the clock runs
    for goal in goals:
        start = time.process_time()
        found = reach(goals={frame: goal})
        used.append(time.process_time() - start)
        solved += bool(found.reached) and used[-1] <= PROTOCOL_TIME
    note = f"{solved / poses:.2%} of {poses} solved; published: {PUBLISHED[name]}"
    return Row(name, "TRAC-IK's protocol, a problem", float(np.mean(used)) * 1e6, None, "", note)


class _LevenbergMarquardt:
    """Plain: errors and Jacobian of one problem, limits by clamping."""

    rounds = 100

    def solve(self, q: np.ndarray, error: Callable[[np.ndarray], np.ndarray]) -> bool:
        damping = 1.0
        e = error(q)
        for _ in range(self.rounds):
            if np.abs(e).max() <= ACCURACY:
                return True
            J, cost = self.jacobian(q), e @ e / 2
            H = J.T @ J + (damping * cost + 1e-12) * np.eye(J.shape[1])
            trial = self.moved(q, np.linalg.solve(H, J.T @ e))
            after = error(trial)
            if after @ after / 2 < cost:
                q, e, damping = trial, after, damping / 8
            else:
                damping *= 6
        return False

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def moved(self, q: np.ndarray, d: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class _ArmOnPinocchio(_LevenbergMarquardt):
    """A frame of a serial arm to a pose."""

    def __init__(self, pin: Any, model: Any, frame: str, lower: np.ndarray, upper: np.ndarray) -> None:
        self.pin, self.model, self.data = pin, model, model.createData()
        self.frame, self.lower, self.upper = model.getFrameId(frame), lower, upper

    def __call__(self, matrix: np.ndarray, q: np.ndarray) -> bool:
        goal = self.pin.SE3(matrix)

        def error(q: np.ndarray) -> np.ndarray:
            self.pin.forwardKinematics(self.model, self.data, q)
            self.pin.updateFramePlacement(self.model, self.data, self.frame)
            return np.asarray(self.pin.log6(self.data.oMf[self.frame].actInv(goal)).vector)

        return self.solve(q, error)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        local = self.pin.ReferenceFrame.LOCAL
        return np.asarray(self.pin.computeFrameJacobian(self.model, self.data, q, self.frame, local))

    def moved(self, q: np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(q + d, self.lower, self.upper))


def _on_pinocchio(name: str, model: wt.Model, frame: str) -> _ArmOnPinocchio:
    if name == "Panda":
        peer = Pinocchio(next(robot for robot in ROBOTS if robot.name == name), 1)
        return _ArmOnPinocchio(peer.pin, peer.model, frame, *limits(model))
    import pinocchio as pin

    built, number = pin.Model(), 0
    for joint in model.joints:
        kind = pin.JointModelRZ() if joint.axis[2] else pin.JointModelRY()
        number = built.addJoint(number, kind, pin.SE3(np.array(joint.pose, dtype=float)), joint.name)
    place = pin.SE3(np.array(model.frame(frame).pose, dtype=float))
    built.addFrame(pin.Frame(frame, number, 0, place, pin.FrameType.OP_FRAME))
    return _ArmOnPinocchio(pin, built, frame, *limits(model))


class _DeltaOnPinocchio(_LevenbergMarquardt):
    """The platform of the delta robot to a position; the lengths of its forearms are six more rows."""

    def __init__(self, model: wt.Model) -> None:
        import pinocchio as pin

        self.pin, self.start = pin, np.zeros(10)
        built = pin.Model()
        numbers = {"platform": built.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "platform")}
        for joint in model.joints[1:]:
            place = pin.SE3(np.array(joint.pose, dtype=float))
            numbers[joint.child] = built.addJoint(0, pin.JointModelRY(), place, joint.name)
        self.rods = []
        for tie in model.constraints:
            ends = [model.frame(name) for name in tie.on]
            places = [(numbers[end.body], np.array(end.pose, dtype=float)[:3, 3]) for end in ends]
            self.rods.append((places, float(tie.parameters["length"])))
        self.model, self.data = built, built.createData()
        q = model.home.q  # position, quaternion w x y z, arms; Pinocchio has w last
        self.start[:] = [*q[:3], *q[4:7], q[3], *q[7:]]

    def __call__(self, goal: np.ndarray) -> bool:
        def error(q: np.ndarray) -> np.ndarray:
            self.pin.computeJointJacobians(self.model, self.data, q)
            e = [self.data.oMi[1].rotation.T @ (goal - self.data.oMi[1].translation)]
            for ends, length in self.rods:
                a, b = (self.data.oMi[number].act(point) for number, point in ends)
                e.append([length - np.linalg.norm(b - a)])
            return np.concatenate(e)

        return self.solve(self.start, error)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        local, rows = self.pin.ReferenceFrame.LOCAL, []
        own = {k: self.pin.getJointJacobian(self.model, self.data, k, local) for k in range(1, 5)}
        rows.append(own[1][:3])
        for ends, _ in self.rods:
            points = [self.data.oMi[number].act(point) for number, point in ends]
            n = (points[1] - points[0]) / np.linalg.norm(points[1] - points[0])
            velocity = []
            for number, point in ends:
                J = own[number]
                moved = J[:3] - self.pin.skew(point) @ J[3:]
                velocity.append(n @ self.data.oMi[number].rotation @ moved)
            rows.append((velocity[1] - velocity[0])[None])
        return np.concatenate(rows)

    def moved(self, q: np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.asarray(self.pin.integrate(self.model, q, d))


def _on_mink(name: str, ours: wt.Model) -> Callable[[np.ndarray, np.ndarray], bool] | None:
    """mink's differential steps of one second with its limits, repeated until the pose is reached; None without it."""
    try:
        import mink
    except ImportError:
        return None
    if name != "Panda":
        return None
    model = mujoco_model(next(robot for robot in ROBOTS if robot.name == name), 1e-3)
    configuration = mink.Configuration(model)
    # MuJoCo joins bodies that are welded: the flange is a part of the last link
    last, flange = (wt.compile(ours).pose(body)(ours.home.q) for body in ("panda_link7", "panda_link8"))
    back = np.linalg.inv(flange) @ last
    task = mink.FrameTask("panda_link7", "body", position_cost=1.0, orientation_cost=1.0, lm_damping=1.0)
    bounds = [mink.ConfigurationLimit(model)]

    def solved(matrix: np.ndarray, q: np.ndarray) -> bool:
        configuration.update(q)
        task.set_target(mink.SE3.from_matrix(matrix @ back))
        for _ in range(_LevenbergMarquardt.rounds):
            if np.abs(task.compute_error(configuration)).max() <= ACCURACY:
                return True
            v = mink.solve_ik(configuration, [task], 1.0, solver="daqp", limits=bounds)
            configuration.integrate_inplace(v, 1.0)
        return False

    return solved
