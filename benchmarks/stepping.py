"""Time stepping with contact: robots on their feet against ``mujoco.rollout``, the solver against Pinocchio's.

What is compared with MuJoCo: the same robot, the same feet (balls on a plane, friction 0.8; four of solo12, four under
each foot of the G1), the same joint limits, torques and step, one thread each. Ours solves Coulomb's law with rigid
contact, exact to the residual that is printed; MuJoCo solves its own soft contact model, whose feet sink in and creep,
so that forces agree only roughly.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from benchmarks.peers import FrictionProblem
from benchmarks.robots import ROBOTS, Robot, model_of
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating
from whippletree.contact.problem.contact_problem import ContactProblem
from whippletree.contact.problem.solver import solve
from whippletree.model import Frame
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping import impulse_step
from whippletree.simulation.time_stepping.impulse_step import sweeps

FRICTION, STEP, STEPS = 0.8, 1e-3, 50
PEERS_BATCH = 64
"""Scenes that MuJoCo is timed on: its time is proportional to their number."""


class Footing(NamedTuple):
    """How a robot stands."""

    name: str
    feet: tuple[tuple[str, tuple[float, float, float]], ...]
    """The body of each ball, and its centre there, m."""
    radius: float
    bend: dict[str, float]
    """Joint angles that are not zero, rad."""
    sweeps: tuple[int, ...]
    """Enough while standing, and the default of ``contact_rollout``."""

    @property
    def robot(self) -> Robot:
        return next(robot for robot in ROBOTS if robot.name == self.name)


SOLO12 = Footing(
    "solo12",
    tuple((f"{leg}_FOOT", (0.0, 0.0, 0.0)) for leg in ("FL", "FR", "HL", "HR")),
    0.017,
    {f"{leg}_{joint}": sign * angle for leg, sign in (("FL", 1), ("FR", 1), ("HL", -1), ("HR", -1))
     for joint, angle in (("HFE", 0.8), ("KFE", -1.6))},
    (4, 10),
)  # fmt: skip
G1 = Footing(
    "G1",
    tuple((f"{side}_ankle_roll_link", place) for side in ("left", "right")
          for place in ((-0.05, 0.025, -0.03), (-0.05, -0.025, -0.03), (0.12, 0.03, -0.03), (0.12, -0.03, -0.03))),
    0.005,
    {f"{side}_{joint}_joint": angle for side in ("left", "right")
     for joint, angle in (("hip_pitch", -0.35), ("knee", 0.7), ("ankle_pitch", -0.35))},
    (10, 20),
)  # fmt: skip


@dataclass
class Standing:
    """A robot on its feet, knees bent, with the torques that carry its weight and small differences between scenes."""

    model: wt.Model
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def standing(footing: Footing, batch: int, steps: int = STEPS) -> Standing:
    model = _on_balls(footing)
    q = np.array(model.neutral.q)
    for joint, angle in footing.bend.items():
        q[model.q_slices[[j.name for j in model.joints].index(joint)]] = angle
    dyn = wt.compile(model, threads=1)
    q[2] -= dyn.contact_gaps(q).min()
    torque = _carrying(dyn, q)
    rng = np.random.default_rng(0)
    motors = model.nv - 6
    wave = 0.05 * np.sin(2 * np.pi * (np.arange(steps)[:, None] / steps + rng.uniform(size=motors)))
    tau = np.zeros((batch, steps, model.nv))
    tau[:, :, 6:] = torque[6:] + wave + rng.uniform(-0.02, 0.02, (batch, 1, motors))
    return Standing(model, np.tile(q, (batch, 1)), np.zeros((batch, model.nv)), tau)


def _on_balls(footing: Footing) -> wt.Model:
    """The robot with balls for feet, and the ground below them."""
    model = model_of(footing.robot)
    names = [f"ball {k}" for k in range(len(footing.feet))]
    frames = []
    for name, (body, place) in zip(names, footing.feet, strict=True):
        at = model.frame(body)
        pose = at.pose.astype(float) @ np.block([[np.eye(3), np.reshape(place, (3, 1))], [np.zeros((1, 3)), 1.0]])
        frames.append(Frame(name, at.body, pose))
    return wt.on_ground(
        replace(model, frames=(*model.frames, *frames)), frames=names, radius=footing.radius, friction=FRICTION
    )


def _carrying(dyn: Any, q: np.ndarray) -> np.ndarray:
    """Joint torques in equilibrium with equal vertical forces at the feet."""
    weight = dyn.gravity(q)
    J = dyn.contact_jacobian(q)
    forces, *_ = np.linalg.lstsq(J[:, :6].T, weight[:6], rcond=None)
    return weight - J.T @ forces


class SoftContact:
    """The same robot in MuJoCo, its feet balls on a plane."""

    def __init__(self, footing: Footing) -> None:
        import mujoco

        mujoco.set_mju_user_warning(lambda text: None)
        text = re.sub(r"<(visual|collision)\b.*?</\1>", "", footing.robot.path.read_text(), flags=re.DOTALL)
        options = '<mujoco><compiler fusestatic="false" balanceinertia="true" boundmass="0"/></mujoco></robot>'
        spec = mujoco.MjSpec.from_string(text.replace("</robot>", options))
        root = spec.worldbody.first_body()
        for joint in root.joints:  # the G1's file has a floating joint of its own
            spec.delete(joint)
        root.add_freejoint(name="root_joint")
        spec.option.timestep, spec.option.cone = STEP, mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[FRICTION, 0, 0])
        for foot, place in footing.feet:
            ball = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [footing.radius, 0, 0], "mass": 0.0, "pos": place}
            spec.body(foot).add_geom(friction=[FRICTION, 0, 0], contype=2, conaffinity=1, condim=3, **ball)
        for joint in spec.joints:
            if joint.type != mujoco.mjtJoint.mjJNT_FREE:
                spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)

    def rollout(self, scene: Standing, count: int) -> np.ndarray:
        """States (count, steps, 1 + nq + nv) after each step, one thread."""
        from mujoco import rollout

        start = np.concatenate([np.zeros((count, 1)), scene.q[:count], scene.v[:count]], axis=1)
        torques = np.ascontiguousarray(scene.tau[:count, :, 6:])
        states, _ = rollout.rollout(self.model, self.data, start, torques)
        return states


def standing_rows(footing: Footing) -> Iterator[Row]:
    """Steps of a batch on its feet; the note says how exact ours are, and how far MuJoCo's feet have sunk in."""
    scene, peer = standing(footing, BATCH), SoftContact(footing)
    dyn = wt.compile(scene.model, threads=1)

    memory = dyn.contact_rollout(scene.q, scene.v, scene.tau, STEP)

    def ours(count: int) -> Any:
        return dyn.contact_rollout(scene.q, scene.v, scene.tau, STEP, sweeps=count, out=memory)

    theirs = peer.rollout(scene, PEERS_BATCH)[:, -1, 1 : 1 + scene.model.nq]
    sunk = -dyn.contact_gaps(theirs).min()
    contestants = {str(count): partial(ours, count) for count in footing.sweeps}
    t = alternating(contestants | {"peer": lambda: peer.rollout(scene, PEERS_BATCH)}, rounds=5, seconds=0.5)
    for count in footing.sweeps:
        found = ours(count)
        first, last = found.measure[:, [0, -1], 1].max(axis=0)
        depth = -dyn.contact_gaps(found.q[:, -1]).min()
        yield Row(
            footing.name,
            f"steps on {len(footing.feet)} contacts, {count} sweeps",
            t[str(count)] / (BATCH * STEPS) * 1e6,
            t["peer"] / (PEERS_BATCH * STEPS) * 1e6,
            "MuJoCo",
            f"residual {first:.0e} m/s in the first step, {last:.0e} in the last, overlap {depth:.0e} m; "
            f"peer's contact is soft, overlap {sunk:.0e} m",
        )


def last_problem(model: wt.Model, step: float, steps: int) -> ContactProblem:
    """The contact problem of the last of some steps from the start, which Python takes: machine code keeps its own."""
    found: list[ContactProblem] = []
    solve = impulse_step.solve

    def noting(problem: ContactProblem, *rest: Any, **more: Any) -> Any:
        found.append(problem)
        return solve(problem, *rest, **more)

    stepper = impulse_step.ImpulseStep(Motion(wt.compile(model)), RESIDUAL)
    y, impulses = np.concatenate([model.home.q, model.home.v]), np.zeros((len(stepper.blocks.friction), 3))
    impulse_step.solve = noting  # type: ignore[assignment]
    try:
        for _ in range(steps):
            made = stepper.step(0.0, y, impulses, np.zeros(model.nv), step)
            y, impulses = made.state, made.impulses
    finally:
        impulse_step.solve = solve
    return found[-1]


RESIDUAL = 1e-6
"""m/s: the natural map that every solver must reach, from impulses of zero, measured by the same function."""


def peers_time(problem: ContactProblem, kind: str) -> tuple[float, float]:
    """Seconds that Pinocchio's solver needs, with its loosest tolerance that does, and the residual reached."""
    import pinocchio as pin

    k, peer = problem.blocks, FrictionProblem(problem)
    settings = getattr(pin, f"{kind}SolverSettings")()
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    settings.max_iterations = 5000
    spent, residual = np.inf, np.inf
    for tolerance in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
        settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = tolerance
        solver, result = getattr(pin, f"{kind}ConstraintSolver")(3 * k), getattr(pin, f"{kind}SolverResult")()
        start = time.perf_counter()
        solver.solve(pin.DelassusOperatorDense(peer.G), peer.g, peer.constraints, peer.memory, settings, result)
        spent = time.perf_counter() - start
        residual = float(sweeps(problem, peer.impulses(result), np.zeros(k), 0)[2].velocity)
        if residual <= RESIDUAL:
            break
    return spent, residual


SCENES = {
    "10 boxes": (lambda: wt.mechanisms.box_stack(10), 1e-3, 3),
    "quadruped": (lambda: wt.mechanisms.quadruped(), 1e-3, 3),
    "100 balls": (lambda: wt.mechanisms.spheres_in_box(100), 5e-3, 60),
}
"""Scenes whose last contact problem is solved from nothing: the model, the step in s, and how many."""


def solver_rows() -> Iterator[Row]:
    """Time to the same residual on the same matrices; ∞ where it is not reached in 5000 iterations."""
    for name, (make, step, steps) in SCENES.items():
        problem = last_problem(make(), step, steps)
        nothing = np.zeros((problem.blocks, 3))

        def ours(problem: ContactProblem = problem, nothing: np.ndarray = nothing) -> Any:
            return solve(problem, nothing, sweeps, tolerance=RESIDUAL)

        t = alternating({"ours": ours}, rounds=5)
        reached = f"{problem.blocks} contacts, ours {ours().measure.velocity:.0e} m/s"
        for kind in ("ADMM", "PGS"):
            spent, residual = peers_time(problem, kind)
            note = f"{reached}, peer {residual:.0e} m/s{' (not reached)' * (residual > RESIDUAL)}"
            yield Row(
                name, f"contact solver to {RESIDUAL:.0e} m/s", t["ours"] * 1e6, spent * 1e6, f"Pinocchio {kind}", note
            )


def stepping_rows() -> Iterator[Row]:
    """All of it."""
    yield from standing_rows(SOLO12)
    yield from standing_rows(G1)
    yield from solver_rows()


if __name__ == "__main__":
    for row in stepping_rows():
        print(row, row.ratio)
