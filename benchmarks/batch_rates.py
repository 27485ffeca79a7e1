"""Steps per second of gymnasium's robots beside ``mujoco.rollout``: one scene, and many side by side.

    python -m benchmarks.batch_rates [folder with hopper.xml …] [--batch 1024] [--steps 50] [--robots ant pusher]

All robots are as their files describe them, with the files' own steps, contacts, limits and motors. Every scene has its
own start, a little beside rest, and its own commands, uniform within their ranges and new after every fifth step. One
thread each; thousand steps per second of processor time, the best of some rounds that alternate.

    step       ``q, v, … = dyn.step(q, v, ctrl, h, impulses=…)``, once per step for all scenes
    simulate   ``wt.simulate(model, q0, v0, ctrl=…)``, five rows with everything that they tell; in a batch all have the
               commands of the first scene
    MuJoCo     ``mujoco.rollout`` with the file's own integrator; Euler: with the one that has the order of ours
    unsolved   share of our steps whose residual exceeds 1e-7 m/s
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

import whippletree as wt
from benchmarks.single_scenes import assets_folder
from benchmarks.step_calls import start_of

ROBOTS = ("ant", "half_cheetah", "hopper", "walker2d", "humanoid", "swimmer", "pusher", "reacher")
HELD, NUDGE, TOLERANCE, ROUNDS, ALONE, ROWS = 5, 0.1, 1e-7, 3, 1000, 5

Array = np.ndarray[Any, Any]


class Scenes:
    """Starts and commands of some scenes of a robot, and how each side steps them."""

    def __init__(self, path: Path, scenes: int, steps: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = wt.load(path)
        self.peer = mujoco.MjModel.from_xml_path(str(path))
        self.dyn, self.h = wt.compile(self.model, threads=1), float(self.peer.opt.timestep)
        rng = np.random.default_rng(0)
        self.q = np.tile(start_of(path.stem, self.model), (scenes, 1))
        self.v = NUDGE * rng.normal(size=(scenes, self.model.nv))
        low, high = self.peer.actuator_ctrlrange.T
        drawn = rng.uniform(low, high, size=(scenes, -(-steps // HELD), self.peer.nu))
        self.ctrl = np.repeat(drawn, HELD, axis=1)[:, :steps]
        self.count, self.unsolved = scenes * steps, 0

    def step(self) -> None:
        """``dyn.step``, all scenes in a call."""
        q, v, impulses, worst = self.q, self.v, None, []
        commands = np.ascontiguousarray(self.ctrl.swapaxes(0, 1))
        if len(q) == 1:
            q, v, commands = q[0], v[0], commands[:, 0]
        for ctrl in commands:
            q, v, _, impulses, measure, _ = self.dyn.step(q, v, ctrl, self.h, impulses=impulses)
            worst.append(measure[..., 1])
        self.unsolved = int((np.array(worst) > TOLERANCE).sum())

    def simulate(self) -> None:
        """``wt.simulate``; one scene alone is no batch."""
        alone, rows = len(self.q) == 1, self.ctrl[0]
        q, v = (self.q[0], self.v[0]) if alone else (self.q, self.v)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wt.simulate(
                self.model, q, v, duration=self.h * len(rows), step=self.h, output_dt=self.h * len(rows) / ROWS,
                method="time_stepping", progress=False, compiled=self.dyn, ctrl=rows,
            )  # fmt: skip

    def theirs(self, euler: bool) -> Callable[[], None]:
        """``mujoco.rollout``."""
        peer = self.peer
        states = np.zeros((len(self.q), mujoco.mj_stateSize(peer, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        states[:, 1 : 1 + peer.nq] = self.q
        states[:, 1 + peer.nq : 1 + peer.nq + peer.nv] = self.v
        data, own = mujoco.MjData(peer), int(peer.opt.integrator)

        def run() -> None:
            peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER if euler else own
            with rollout.Rollout(nthread=0) as pool:
                pool.rollout(peer, data, states, self.ctrl)
            peer.opt.integrator = own

        return run


def rates(scenes: Scenes, ways: Sequence[Callable[[], None]]) -> list[float]:
    """Thousand steps per second of processor time."""
    best = [np.inf] * len(ways)
    for way in ways:
        way()  # whatever is compiled, is compiled now
    for _ in range(ROUNDS):
        for i, way in enumerate(ways):
            begun = time.process_time()
            way()
            best[i] = min(best[i], time.process_time() - begun)
    return [scenes.count / seconds / 1e3 for seconds in best]


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--robots", nargs="*", default=ROBOTS, help=", ".join(ROBOTS))
    given = parser.parse_args()
    mujoco.set_mju_user_warning(lambda text: None)
    heads = ("step", "simulate", "MuJoCo", "Euler", "ratio", "to Euler", "unsolved")
    print(f"{'robot':14}{'scenes':>7}" + "".join(f"{word:>10}" for word in heads))
    for name in given.robots:
        for count, steps in ((1, ALONE), (given.batch, given.steps)):
            scenes = Scenes((given.folder or assets_folder()) / f"{name}.xml", count, steps)
            found = rates(scenes, (scenes.step, scenes.simulate, scenes.theirs(False), scenes.theirs(True)))
            best = max(found[:2])
            columns = (*found, best / found[2], best / found[3], scenes.unsolved / scenes.count)
            print(f"{name:14}{count:7}" + "".join(f"{x:10.3g}" for x in columns), flush=True)


if __name__ == "__main__":
    main()
