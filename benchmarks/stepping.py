"""Time stepping with contact: batches of quadrupeds against ``mujoco.rollout``, the solver against Pinocchio's.

What is compared with MuJoCo: the same robot, the same four feet (balls on a plane, friction 0.8), the same joint
torques and step, one thread each. Ours solves Coulomb's law with rigid contact, exact to the residual that is printed;
MuJoCo solves its own soft contact model, whose feet sink in and creep, so that forces agree only roughly.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.peers import FrictionProblem
from benchmarks.robots import ROBOTS, Robot, model_of
from benchmarks.row import BATCH, Row
from benchmarks.timing import alternating
from whippletree.contact.complementarity import Problem
from whippletree.contact.solver import solve
from whippletree.simulation.impulse_step import sweeps

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
RADIUS, FRICTION, STEP, STEPS = 0.017, 0.8, 1e-3, 50
SWEEPS = (4, 10)
"""Enough for feet that stand, and the default of ``contact_rollout``."""
PEERS_BATCH = 64
"""Scenes that MuJoCo is timed on: its time is proportional to their number."""


@dataclass
class Standing:
    """solo12 on its feet, knees bent, with the torques that carry its weight and small differences between scenes."""

    model: wt.Model
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def standing(batch: int, steps: int = STEPS) -> Standing:
    robot = next(r for r in ROBOTS if r.name == "solo12")
    model = wt.on_ground(model_of(robot), frames=FEET, radius=RADIUS, friction=FRICTION)
    q = np.array(model.neutral.q)
    for leg in range(4):
        bend = 1.0 if leg < 2 else -1.0
        q[7 + 3 * leg + 1 : 7 + 3 * leg + 3] = 0.8 * bend, -1.6 * bend
    dyn = wt.compile(model, threads=1)
    q[2] -= dyn.contact_gaps(q).min()
    torque = _carrying(dyn, q)
    rng = np.random.default_rng(0)
    wave = 0.05 * np.sin(2 * np.pi * (np.arange(steps)[:, None] / steps + rng.uniform(size=12)))
    tau = np.zeros((batch, steps, model.nv))
    tau[:, :, 6:] = torque[6:] + wave + rng.uniform(-0.02, 0.02, (batch, 1, 12))
    return Standing(model, np.tile(q, (batch, 1)), np.zeros((batch, model.nv)), tau)


def _carrying(dyn: Any, q: np.ndarray) -> np.ndarray:
    """Joint torques in equilibrium with equal vertical forces at the feet."""
    weight = dyn.gravity(q)
    J = dyn.contact_jacobian(q)
    forces, *_ = np.linalg.lstsq(J[:, :6].T, weight[:6], rcond=None)
    return weight - J.T @ forces


class SoftQuadruped:
    """The same robot in MuJoCo, its feet balls on a plane."""

    def __init__(self, robot: Robot) -> None:
        import mujoco

        mujoco.set_mju_user_warning(lambda text: None)
        text = re.sub(r"<(visual|collision)\b.*?</\1>", "", robot.path.read_text(), flags=re.DOTALL)
        options = '<mujoco><compiler fusestatic="false" balanceinertia="true" boundmass="0"/></mujoco></robot>'
        spec = mujoco.MjSpec.from_string(text.replace("</robot>", options))
        spec.worldbody.first_body().add_freejoint(name="root_joint")
        spec.option.timestep, spec.option.cone = STEP, mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[FRICTION, 0, 0])
        for foot in FEET:
            ball = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [RADIUS, 0, 0], "mass": 0.0}
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


def quadruped_rows() -> Iterator[Row]:
    """Steps of a batch on four feet; the note says how exact ours are, and how far MuJoCo's feet have sunk in."""
    robot = next(r for r in ROBOTS if r.name == "solo12")
    scene, peer = standing(BATCH), SoftQuadruped(robot)
    dyn = wt.compile(scene.model, threads=1)

    memory = dyn.contact_rollout(scene.q, scene.v, scene.tau, STEP)

    def ours(count: int) -> Any:
        return dyn.contact_rollout(scene.q, scene.v, scene.tau, STEP, sweeps=count, out=memory)

    theirs = peer.rollout(scene, PEERS_BATCH)[:, -1, 1 : 1 + scene.model.nq]
    sunk = -dyn.contact_gaps(theirs).min()
    contestants = {str(count): partial(ours, count) for count in SWEEPS}
    t = alternating(contestants | {"peer": lambda: peer.rollout(scene, PEERS_BATCH)}, rounds=5, seconds=0.5)
    for count in SWEEPS:
        found = ours(count)
        residual, depth = found.measure[:, :, 1].max(), -dyn.contact_gaps(found.q[:, -1]).min()
        yield Row(
            robot.name,
            f"steps on four feet, {count} sweeps",
            t[str(count)] / (BATCH * STEPS) * 1e6,
            t["peer"] / (PEERS_BATCH * STEPS) * 1e6,
            "MuJoCo",
            f"residual {residual:.0e} m/s, overlap {depth:.0e} m; peer's contact is soft, overlap {sunk:.0e} m",
        )


class Collector:
    """Contact problems of a simulation, with the impulses that each step began with."""

    def __init__(self, model: wt.Model, step: float, steps: int) -> None:
        from whippletree.simulation import impulse_step

        self.found: list[tuple[Problem, np.ndarray]] = []
        solve = impulse_step.solve

        def noting(problem: Problem, start: np.ndarray, *rest: Any, **more: Any) -> Any:
            self.found.append((problem, start))
            return solve(problem, start, *rest, **more)

        impulse_step.solve = noting  # type: ignore[assignment]
        try:
            wt.simulate(model, duration=steps * step, method="time_stepping", step=step, tolerance=RESIDUAL)
        finally:
            impulse_step.solve = solve


RESIDUAL = 1e-6
"""m/s: the natural map that every solver must reach, from impulses of zero, measured by the same function."""


def peers_time(problem: Problem, kind: str) -> tuple[float, float]:
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
        problem, _ = Collector(make(), step, steps).found[-1]
        nothing = np.zeros((problem.blocks, 3))

        def ours(problem: Problem = problem, nothing: np.ndarray = nothing) -> Any:
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
    yield from quadruped_rows()
    yield from solver_rows()


if __name__ == "__main__":
    for row in stepping_rows():
        print(row, row.ratio)
