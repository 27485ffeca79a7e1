"""One scene with contact, ours beside ``mj_step``: robots from rest and from random velocities.

    python -m benchmarks.single_scenes [folder with hopper.xml …] [--steps 500] [--starts 5] [--robots ant …]
    python -m benchmarks.single_scenes --files some.xml … [--steps 200] [--starts 3]

The folder is that of gymnasium's MuJoCo environments; without one it is looked for in the installed package. Every
shape of hopper, walker, half cheetah and ant may touch the floor; pusher and humanoid have the contacts of their files.
The humanoid falls from its home; *rolling humanoid* begins 6 s after that, *lying humanoid* 15 s after it. The
quadruped, solo12, trots by the servos of :mod:`benchmarks.step_calls`. With ``--files``, any MJCF files instead: their
own contacts and steps, no commands, from home, lifted off the floor where the root is free. Ours and MuJoCo's steps
(with ``integrator="Euler"``, of first order as ours) alternate in one process, at the same step from the same states;
times are processor time, the least of some rounds.

    kernel     steps of the compiled kernel alone, µs each: whole trajectories in calls of 500 steps
    simulate   ``wt.simulate(method="time_stepping")`` as a user calls it, µs per step, output and all
    mj_step    called from Python once per step
    overlap    largest of all pairs, m, both measured by our narrow phase; what a start has already does not count
    residual   largest natural map of Coulomb's law, m/s: of our impulses in every step; of MuJoCo's contact forces
    cone       largest violation of a friction cone, N s, of both
    energy     what a run has gained, J, of both; of the random starts, the mean
    left       steps beyond the tolerance, which ``wt.simulate`` leaves to Python
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import whippletree as wt
from benchmarks.robot_files import velocity_map
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import reason_against_lists
from whippletree.contact.problem.cones import natural_map
from whippletree.contact.problem.contact_problem import block_mass
from whippletree.contact.time_step import ContactBlocks
from whippletree.model import Contact, Model

Array = np.ndarray[Any, Any]

TOLERANCE, ROUNDS, CALL, FALL, ROLL = 1e-7, 5, 500, 5000, 2000


class Robot(NamedTuple):
    """A file of gymnasium, its step there, and coordinates at which it is above the floor and within its limits."""

    name: str
    step: float
    start: dict[int, float]
    """Coordinates that are not those of the file."""
    own: bool = False
    """Whether the contacts are those of the file."""
    height: int | None = 1
    """Which coordinate lifts it."""


ROBOTS = (
    Robot("hopper", 0.002, {}),
    Robot("walker2d", 0.002, {}),
    Robot("half_cheetah", 0.01, {1: 0.1}),
    Robot("ant", 0.01, {2: 0.6, **dict(zip(range(8, 15, 2), (1.0, -1.0, -1.0, 1.0), strict=True))}, height=2),
    Robot("humanoid", 0.003, {}, own=True, height=2),
    Robot("pusher", 0.01, {}, own=True, height=None),
)


@dataclass
class Scene:
    """What both sides step, and from where."""

    name: str
    model: Model
    peer: Any
    rest: Array
    height: int | None
    commands: Array
    """Of step after step, again and again, (n, actuators)."""
    speed: Array | None = None
    """Velocities of the line "from rest", where they are not zero."""
    step: float = field(init=False)

    def __post_init__(self) -> None:
        self.step = float(self.peer.opt.timestep)

    def told(self, count: int) -> Array:
        """Commands of so many steps."""
        return np.resize(self.commands, (count, self.commands.shape[1])) if self.commands.size else np.zeros((count, 0))


def scene_of(robot: Robot, path: Path) -> Scene:
    """A robot of gymnasium, without commands."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path) if robot.own else model_with_floor(path)[0]
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.integrator, peer.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, robot.step
    if not robot.own:
        floor = peer.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        peer.geom_contype[:], peer.geom_conaffinity[:] = np.where(floor, 2, 1), np.where(floor, 1, 0)
    rest = np.array(model.home.q, dtype=float)
    for place, value in robot.start.items():
        rest[place] = value
    return Scene(robot.name, model, peer, rest, robot.height, np.zeros((1, len(model.actuators))))


def scene_of_file(path: Path) -> Scene:
    """Any file, as it is."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = wt.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    if reason := reason_against_lists(model):
        raise wt.WhippletreeError(f"its steps are not compiled: {reason}")
    free = peer.njnt > 0 and peer.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    rest = np.array(model.home.q, dtype=float)
    if free:
        rest[2] -= float(np.min(gaps_at(wt.compile(model), rest), initial=0.0))
    return Scene(path.stem, model, peer, rest, 2 if free else None, np.zeros((1, len(model.actuators))))


def trotting() -> Scene:
    """solo12 on its servos."""
    import mujoco

    from benchmarks.step_calls import solo12

    model, peer, start, gait = solo12()
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    return Scene("quadruped", model, peer, start, 2, gait)


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


def gaps_at(dyn: Any, q: Array) -> Array:
    """Of all candidates (..., candidates) at coordinates q (..., nq), m."""
    if not dyn.model.pairs:
        return np.zeros((*q.shape[:-1], 0))
    return np.asarray(dyn.contact_list_touches(q))[..., 0]


class Ours:
    """Steps of a scene by its compiled kernel."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.model, self.step = scene, scene.model, scene.step
        self.dyn = wt.compile(scene.model)
        self.blocks = ContactBlocks(scene.model, alone=True).count

    def calls(self, q: Array, v: Array, count: int) -> Callable[[], list[Any]]:
        """So many steps from a state, in calls of the kernel whose arguments lie ready: their results."""
        commands, still = self.scene.told(count), np.zeros((self.blocks, 3))
        given = []
        for first in range(0, count, CALL):
            n = min(CALL, count - first)
            told = [commands[first : first + n]] * bool(self.model.actuators)
            given.append((np.zeros((n, self.model.nv)), *told, np.full(n, self.step), TOLERANCE, np.inf))

        def run() -> list[Any]:
            found, state = [], (q, v, still)
            with np.errstate(all="ignore"):
                for rest in given:
                    found.append(self.dyn.contact_steps(*state, *rest))
                    state = tuple(part[-1] for part in found[-1][:3])
            return found

        return run

    def run(self, q: Array, v: Array, count: int) -> tuple[Array, Array, Array]:
        """States (count, nq), the last velocity, and the measures of all steps (count, 3)."""
        found = self.calls(q, v, count)()
        return np.concatenate([made[0] for made in found]), found[-1][1][-1], np.concatenate([m[3] for m in found])

    def overlap(self, states: Array, start: Array) -> float:
        """The largest in some states, beyond what there is at the start, m."""
        before = np.minimum(gaps_at(self.dyn, start), 0)
        return abs(float(np.min(gaps_at(self.dyn, np.ascontiguousarray(states)) - before, initial=0.0)))

    def energy(self, q: Array, v: Array) -> float:
        """Mechanical energy, J."""
        return float(self.dyn.kinetic_energy(q, v) + self.dyn.potential_energy(q))


class Peer:
    """MuJoCo's steps of a scene."""

    def __init__(self, scene: Scene) -> None:
        import mujoco

        self.mujoco, self.scene, self.model = mujoco, scene, scene.peer
        self.data = mujoco.MjData(self.model)

    def place(self, q: Array, v: Array) -> None:
        """Begin at a state, ours: the velocity of a free body is told in its own axes, angular first."""
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = q
        self.data.qvel[:] = self._turn() @ v

    def velocity(self) -> Array:
        """The present one, as ours."""
        return np.asarray(np.linalg.solve(self._turn(), self.data.qvel))

    def _turn(self) -> Array:
        """MuJoCo's velocities from ours, (nv, nv), at the present coordinates."""
        self.mujoco.mj_kinematics(self.model, self.data)
        return velocity_map(self.model, self.data)[0]

    def run(self, count: int) -> None:
        """Steps that are timed."""
        step, model, data, ctrl = self.mujoco.mj_step, self.model, self.data, self.data.ctrl
        if not self.scene.commands.any():
            for _ in range(count):
                step(model, data)
            return
        for told in self.scene.told(count):
            ctrl[:] = told
            step(model, data)

    def watched(self, count: int) -> tuple[Array, float, float]:
        """States (count, nq), the largest residual of its contact forces, m/s, and violation of a cone, N s."""
        states, residual, cone = np.zeros((count, self.model.nq)), 0.0, 0.0
        for i, told in enumerate(self.scene.told(count)):
            self.data.ctrl[:] = told
            self.mujoco.mj_step(self.model, self.data)
            states[i] = self.data.qpos
            for number in range(self.data.ncon):
                worst, beyond = self._judge(number)
                residual, cone = max(residual, worst), max(cone, beyond)
        return states, residual, cone

    def _judge(self, number: int) -> tuple[float, float]:
        """The natural map of a contact (the force of the step, the velocity at its end), and what leaves its cone."""
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
        beyond = max(0.0, float(np.hypot(*impulse[1:]) - mu * impulse[0]))
        if not mass:
            return 0.0, beyond
        found = natural_map(impulse, rows @ d.qvel, mu, 0, mass)
        return float(np.sqrt(sum(float(x) ** 2 for x in found)) / mass), beyond


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """Processor time of each, s: the least of some rounds in which they take turns."""
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            begun = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - begun)
    return best


COLUMNS = ("kernel", "simulate", "mj_step", "ratio", "overlap", "MuJoCo", "residual", "MuJoCo", "cone", "MuJoCo")
MORE = ("energy", "MuJoCo", "left", "first s")


def contest(scene: Scene, steps: int, starts: int) -> None:
    """Print both lines of a scene."""
    begun = time.process_time()
    ours = Ours(scene)
    ours.run(scene.rest, np.zeros(scene.model.nv), 1)
    first = time.process_time() - begun
    rng, speed = np.random.default_rng(0), np.zeros(scene.model.nv) if scene.speed is None else scene.speed
    random = [_scattered(ours, rng) for _ in range(starts)]
    _print_line(ours, "rest", [(scene.rest, speed)], steps, first)
    _print_line(ours, "random", random, steps, first)


def _print_line(ours: Ours, word: str, states: list[tuple[Array, Array]], steps: int, first: float) -> None:
    scene, peer = ours.scene, Peer(ours.scene)
    seconds, worst, energy, left = np.zeros(3), np.zeros(6), np.zeros(2), 0
    for q, v in states:
        seconds += least([
            ours.calls(q, v, steps),
            lambda q=q, v=v: _simulate(scene, q, v, steps),
            lambda q=q, v=v: (peer.place(q, v), peer.run(steps)),
        ])  # fmt: skip
        mine, last, measures = ours.run(q, v, steps)
        peer.place(q, v)
        theirs, residual, cone = peer.watched(steps)
        found = [
            ours.overlap(mine, q),
            ours.overlap(theirs, q),
            measures[:, 1].max(),
            residual,
            measures[:, 2].max(),
            cone,
        ]
        worst = np.maximum(worst, found)
        before = ours.energy(q, v)
        energy += [ours.energy(mine[-1], last) - before, ours.energy(theirs[-1], peer.velocity()) - before]
        left += int((measures[:, 1] > TOLERANCE).sum())
    kernel, simulate, other = seconds / (len(states) * steps) * 1e6
    times = f"{kernel:8.2f}{simulate:9.1f}{other:8.2f}{kernel / other:7.2f}"
    gained = "".join(f"{x:9.3g}" for x in energy / len(states))
    print(
        f"{scene.name:17}{word:7}{times}{''.join(f'{x:9.0e}' for x in worst)}{gained}{left:6}{first:8.1f}", flush=True
    )


def _simulate(scene: Scene, q: Array, v: Array, steps: int) -> None:
    commands = {"ctrl": scene.told(steps)} if scene.model.actuators else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wt.simulate(
            scene.model, q, v, duration=scene.step * steps, step=scene.step, method="time_stepping", progress=False,
            **commands,
        )  # fmt: skip


def _scattered(ours: Ours, rng: np.random.Generator) -> tuple[Array, Array]:
    """A state near rest, lifted until nothing overlaps (rest itself where nothing lifts), and a random velocity."""
    scene = ours.scene
    q, tied = scene.rest, bool(scene.model.constraints)
    if scene.height is not None and not tied:
        q = np.asarray(ours.dyn.integrate(scene.rest, 0.1 * rng.normal(size=scene.model.nv)))
        q[scene.height] -= float(np.min(gaps_at(ours.dyn, q), initial=0.0))
    v = rng.normal(size=scene.model.nv)
    return q, np.asarray(ours.dyn.project_velocity(q, v)) if tied else v


def lie_down(scene: Scene, word: str, steps: int) -> Scene:
    """The scene some seconds later, during its fall or after it; nothing can lift it from there."""
    states, speed, _ = Ours(scene).run(scene.rest, np.zeros(scene.model.nv), steps)
    return replace(scene, name=f"{word} {scene.name}", rest=states[-1], speed=speed, height=None)


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
    every = [*[robot.name for robot in ROBOTS], "rolling", "lying", "quadruped"]
    parser.add_argument("--robots", nargs="*", default=every, help=", ".join(every))
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="MJCF files, instead of robots")
    given = parser.parse_args()
    widths = (8, 9, 8, 7, *[9] * 8, 6, 8)
    heads = "".join(f"{word:>{width}}" for word, width in zip((*COLUMNS, *MORE), widths, strict=True))
    print(f"{'robot':17}{'from':7}{heads}")
    for path in given.files:
        try:
            contest(scene_of_file(path), given.steps, given.starts)
        except (wt.WhippletreeError, ValueError) as error:
            print(f"{path.stem:17}{' '.join(str(error).split())[:150]}", flush=True)
    if given.files:
        return
    folder = given.folder or assets_folder()
    for robot in ROBOTS:
        if robot.name in given.robots:
            contest(scene_of(robot, folder / f"{robot.name}.xml"), given.steps, given.starts)
    for word, steps in (("rolling", ROLL), ("lying", FALL)):
        if word in given.robots:
            robot = next(robot for robot in ROBOTS if robot.name == "humanoid")
            contest(lie_down(scene_of(robot, folder / "humanoid.xml"), word, steps), given.steps, given.starts)
    if "quadruped" in given.robots:
        contest(trotting(), given.steps, given.starts)


if __name__ == "__main__":
    main()
