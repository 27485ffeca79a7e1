"""One scene with contact, ours beside ``mj_step``: gymnasium's robots, from rest and from random velocities.

    python -m benchmarks.single_scenes [folder with hopper.xml …] [--steps 500] [--starts 5]

The folder is that of gymnasium's MuJoCo environments; without one it is looked for in the installed package. Every
shape of a robot may touch the floor. Ours and MuJoCo's (with ``integrator="Euler"``, of first order as ours) alternate
in one process, at the same step from the same states without controls; times are processor time, the least of some
rounds.

    kernel     steps of the compiled kernel alone, µs each: whole trajectories in calls of 500 steps
    simulate   ``wt.simulate(method="time_stepping")`` as a user calls it, µs per step, output and all
    mj_step    called from Python once per step
    overlap    largest of all shapes with the floor, m, both measured by our closed forms; of starts that do not overlap
    residual   largest natural map of Coulomb's law, m/s: of our impulses in every step; of MuJoCo's contact forces
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from whippletree.contact.problem.cones import natural_map
from whippletree.contact.problem.contact_problem import block_mass
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Contact, Model

Array = np.ndarray[Any, Any]

TOLERANCE, ROUNDS, CALL = 1e-7, 3, 500


class Robot(NamedTuple):
    """A file of gymnasium, its step there, and coordinates at which it is above the floor and within its limits."""

    name: str
    step: float
    start: dict[int, float]
    """Coordinates that are not those of the file."""


ROBOTS = (
    Robot("hopper", 0.002, {}),
    Robot("walker2d", 0.002, {}),
    Robot("half_cheetah", 0.01, {1: 0.1}),
    Robot("ant", 0.01, {2: 0.6, **dict(zip(range(8, 15, 2), (1.0, -1.0, -1.0, 1.0), strict=True))}),
)


def model_with_floor(path: Path) -> tuple[Model, float]:
    """A robot whose shapes may all touch the floor, and the coefficient of friction between them."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    friction = float(peer.geom_friction[:, 0].max())
    floor = next(g.name for g in model.geometries if g.kind == "half_space")
    shapes = [g.name for g in model.geometries if g.kind != "half_space" and g.body != "world"]
    return replace(
        model, contacts=tuple(Contact(f"{s} on floor", s, floor, friction, 0.0, None) for s in shapes)
    ), friction


class Ours:
    """Steps of a model by its compiled kernel."""

    def __init__(self, model: Model, step: float) -> None:
        self.model, self.step = model, step
        self.dyn = wt.compile(model)
        self.blocks = ContactBlocks(model, alone=True).count

    def run(self, q: Array, v: Array, count: int) -> tuple[Array, float, float]:
        """States (count, nq), the largest residual and how many steps the kernel left to Python."""
        found, impulses, worst, left = [], np.zeros((self.blocks, 3)), 0.0, 0.0
        for first in range(0, count, CALL):
            n = min(CALL, count - first)
            tau, dt = np.zeros((n, self.model.nv)), np.full(n, self.step)
            commands = [np.zeros((n, len(self.model.actuators)))] * bool(self.model.actuators)
            with np.errstate(all="ignore"):
                made = self.dyn.contact_steps(q, v, impulses, tau, *commands, dt, TOLERANCE, np.inf)
            found.append(made[0])
            q, v, impulses = made[0][-1], made[1][-1], made[2][-1]
            worst, left = max(worst, float(made[3][:, 1].max())), left + float((made[3][:, 1] > TOLERANCE).sum())
        return np.concatenate(found), worst, left

    def overlap(self, states: Array) -> float:
        """The largest in some states, m."""
        return float(max(0.0, -np.min(self.dyn.contact_gaps(np.ascontiguousarray(states)))))


class Peer:
    """MuJoCo with the same floor contacts, Euler's method, and no controls."""

    def __init__(self, path: Path, step: float) -> None:
        import mujoco

        self.mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.model.opt.integrator, self.model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, step
        floor = self.model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        self.model.geom_contype[:], self.model.geom_conaffinity[:] = np.where(floor, 2, 1), np.where(floor, 1, 0)
        self.data = mujoco.MjData(self.model)

    def place(self, q: Array, v: Array) -> None:
        """Begin at a state, ours: the velocity of a free body is told in its own axes, angular first."""
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = q, v
        if self.model.nq > self.model.nv:
            turn = np.zeros(9)
            self.mujoco.mju_quat2Mat(turn, q[3:7])
            self.data.qvel[:3], self.data.qvel[3:6] = turn.reshape(3, 3) @ v[3:6], v[:3]

    def run(self, count: int) -> None:
        """Steps that are timed."""
        step, model, data = self.mujoco.mj_step, self.model, self.data
        for _ in range(count):
            step(model, data)

    def watched(self, count: int) -> tuple[Array, float]:
        """States (count, nq) and the largest residual of its contact forces, m/s."""
        states, worst = np.zeros((count, self.model.nq)), 0.0
        for i in range(count):
            self.run(1)
            states[i] = self.data.qpos
            worst = max([worst, *[self._residual(k) for k in range(self.data.ncon)]])
        return states, worst

    def _residual(self, number: int) -> float:
        """The natural map of a contact: the force of the step, and the velocity at its end."""
        mujoco, m, d = self.mujoco, self.model, self.data
        contact, force = d.contact[number], np.zeros(6)
        mujoco.mj_contactForce(m, d, number, force)
        J = np.zeros((2, 3, m.nv))
        for side in (0, 1):
            mujoco.mj_jac(m, d, J[side], None, contact.pos, m.geom_bodyid[contact.geom[side]])
        rows = contact.frame.reshape(3, 3) @ (J[1] - J[0])
        response = np.zeros_like(rows)
        mujoco.mj_solveM(m, d, response, rows)
        mass, _ = block_mass(rows @ response.T)
        impulse = force[:3] * m.opt.timestep
        mu = contact.friction[0] if contact.dim > 1 else 0.0
        found = natural_map(impulse, rows @ d.qvel, mu, 0, mass)
        return float(np.sqrt(sum(float(x) ** 2 for x in found)) / mass)


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """Processor time of each, s: the least of some rounds in which they take turns."""
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            begun = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - begun)
    return best


def contest(robot: Robot, path: Path, steps: int, starts: int) -> None:
    """Print both lines of a robot."""
    model, _ = model_with_floor(path)
    begun = time.perf_counter()
    ours, peer = Ours(model, robot.step), Peer(path, robot.step)
    rest = np.array(model.home.q, dtype=float)
    for place, value in robot.start.items():
        rest[place] = value
    ours.run(rest, np.zeros(model.nv), 1)
    first = time.perf_counter() - begun
    rng = np.random.default_rng(0)
    random = [(_scattered(ours, rest, rng), rng.normal(size=model.nv)) for _ in range(starts)]
    for word, states in (("rest", [(rest, np.zeros(model.nv))]), ("random", random)):
        seconds, overlaps, residuals, left = np.zeros(3), np.zeros(2), np.zeros(2), 0.0
        for q, v in states:
            seconds += least([
                lambda q=q, v=v: ours.run(q, v, steps),
                lambda q=q, v=v: _simulated(model, q, v, robot.step, steps),
                lambda q=q, v=v: (peer.place(q, v), peer.run(steps)),
            ])  # fmt: skip
            mine, residual, missed = ours.run(q, v, steps)
            peer.place(q, v)
            theirs, other = peer.watched(steps)
            overlaps = np.maximum(overlaps, [ours.overlap(mine), ours.overlap(theirs)])
            residuals, left = np.maximum(residuals, [residual, other]), left + missed
        kernel, simulate, other = seconds / (len(states) * steps) * 1e6
        print(
            f"{robot.name:13}{word:8}{kernel:8.2f}{simulate:10.2f}{other:9.2f}{kernel / other:8.2f}"
            f"{overlaps[0]:12.1e}{overlaps[1]:9.1e}{residuals[0]:12.1e}{residuals[1]:9.1e}{left:7.0f}{first:9.2f}"
        )


def _simulated(model: Model, q: Array, v: Array, step: float, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wt.simulate(model, q, v, duration=step * steps, step=step, method="time_stepping")


def _scattered(ours: Ours, rest: Array, rng: np.random.Generator) -> Array:
    """A state near rest, lifted until nothing overlaps."""
    q = np.asarray(ours.dyn.integrate(rest, 0.1 * rng.normal(size=ours.model.nv)))
    height = 2 if ours.model.nq > ours.model.nv else 1
    q[height] += ours.overlap(q)
    return q


def assets_folder() -> Path:
    """Where gymnasium's files of robots are."""
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise SystemExit("single_scenes: give the folder with gymnasium's files, or install gymnasium")
    return Path(found.origin).parent / "envs" / "mujoco" / "assets"


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--starts", type=int, default=5)
    given = parser.parse_args()
    folder = given.folder or assets_folder()
    print(
        f"{'robot':13}{'from':8}{'kernel':>8}{'simulate':>10}{'mj_step':>9}{'ratio':>8}{'overlap':>12}{'MuJoCo':>9}"
        f"{'residual':>12}{'MuJoCo':>9}{'left':>7}{'first s':>9}"
    )
    for robot in ROBOTS:
        contest(robot, folder / f"{robot.name}.xml", given.steps, given.starts)


if __name__ == "__main__":
    main()
