"""The price of a call: ``dyn.step`` in a loop, beside ``mj_step`` and beside our own kernel called once for all steps.

    python -m benchmarks.step_calls [folder with hopper.xml …] [--calls 100000] [--batch 1024]

Hopper and ant are gymnasium's, as their files describe them (floor, limits, motors) and with ``integrator="Euler"`` for
MuJoCo; the Panda is the arm of example-robot-data with a position servo on every joint, the same one for both. All
start at rest; µs of processor time per step, the least of three rounds.

    step      ``q, v, … = dyn.step(q, v, ctrl, h, impulses=…)`` in a Python loop
    kernel    the same steps in calls of 500
    mj_step   in a Python loop
    batch     µs per step and scene: ``wt.simulate``'s kernel on that many scenes from random velocities, and
              ``mujoco.rollout`` on one thread
    first     seconds of processor time of the first ``dyn.step``, nothing cached
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.robots import ROBOTS, model_of
from benchmarks.single_scenes import ROBOTS as RESTING
from benchmarks.single_scenes import assets_folder
from whippletree.model import Actuator

STIFFNESS, DAMPING, TOGETHER, TOLERANCE = 100.0, 20.0, 500, 1e-7


def peer_of(path: Path) -> Any:
    """MuJoCo's model of a file, stepped by Euler's method."""
    import mujoco

    peer = mujoco.MjModel.from_xml_path(str(path))
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    return peer


def panda() -> tuple[wt.Model, Any]:
    """The arm with a servo on every joint, ours and MuJoCo's."""
    import mujoco

    model = model_of(next(robot for robot in ROBOTS if robot.name == "Panda"))
    bias, gain = np.array([0.0, -STIFFNESS, -DAMPING]), np.array([STIFFNESS, 0.0, 0.0])
    servos = tuple(Actuator(j.name, (j.name,), gain=gain, bias=bias) for j in model.joints if j.type.nv)
    text = (next(r for r in ROBOTS if r.name == "Panda").path).read_text()
    spec = mujoco.MjSpec.from_string(_without_meshes(text))
    for joint in spec.joints:
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=STIFFNESS, kv=DAMPING)
    peer = spec.compile()
    peer.opt.integrator, peer.opt.timestep = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, 0.002
    return replace(model, actuators=servos, contacts=(), time_step=0.002), peer


def _without_meshes(text: str) -> str:
    """A URDF without its shapes, whose files MuJoCo would look for."""
    import xml.etree.ElementTree as ElementTree

    root = ElementTree.fromstring(text)
    for link in root.iter("link"):
        for part in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(part)
    return ElementTree.tostring(root, encoding="unicode")


def start_of(name: str, model: wt.Model) -> np.ndarray[Any, Any]:
    """Coordinates at which nothing overlaps and no joint is beyond its range."""
    start = np.array(model.home.q, dtype=float)
    for place, value in next((dict(r.start) for r in RESTING if r.name == name), {}).items():
        start[place] = value
    if name == "panda":
        low, high = np.array([(j.lower, j.upper) for j in model.joints if j.type.nv]).T
        start = np.clip(start, low + 0.1 * (high - low), high - 0.1 * (high - low))
    return start


def least(function: Callable[[], Any], rounds: int = 3) -> float:
    """Processor time, s."""
    best = np.inf
    for _ in range(rounds):
        begun = time.process_time()
        function()
        best = min(best, time.process_time() - begun)
    return best


class Scene:
    """A model, its commands and its start."""

    def __init__(self, model: wt.Model, peer: Any, start: np.ndarray[Any, Any]) -> None:
        self.model, self.peer, self.q = model, peer, start
        self.h = float(model.time_step or 0.002)
        self.ctrl = self.q.copy() if len(model.actuators) == model.nq else np.zeros(len(model.actuators))
        begun = time.process_time()
        self.dyn = wt.compile(model)
        found = self.dyn.step(self.q, np.zeros(model.nv), self.ctrl, self.h)
        self.first, self.blocks = time.process_time() - begun, len(found.impulses)

    def steps(self, calls: int) -> None:
        """One call each."""
        step, ctrl, h = self.dyn.step, self.ctrl, self.h
        q, v, impulses = self.q, np.zeros(self.model.nv), None
        for _ in range(calls):
            q, v, _, impulses, _, _ = step(q, v, ctrl, h, impulses=impulses)

    def kernel(self, calls: int) -> None:
        """``TOGETHER`` steps in a call."""
        q, v, impulses = self.q, np.zeros(self.model.nv), np.zeros((self.blocks, 3))
        tau, ctrl = np.zeros((TOGETHER, self.model.nv)), np.tile(self.ctrl, (TOGETHER, 1))
        for _ in range(max(1, calls // TOGETHER)):
            made = self.dyn.contact_steps(q, v, impulses, tau, ctrl, np.full(TOGETHER, self.h), TOLERANCE, np.inf)
            q, v, impulses = made[0][-1], made[1][-1], made[2][-1]

    def theirs(self, calls: int) -> None:
        """``mj_step``, one call each."""
        import mujoco

        data = mujoco.MjData(self.peer)
        data.qpos[:], data.ctrl[:] = self.q, self.ctrl
        for _ in range(calls):
            mujoco.mj_step(self.peer, data)

    def batch(self, scenes: int, steps: int = 100) -> tuple[float, float]:
        """µs per step and scene, ours and MuJoCo's, from random velocities, one thread each."""
        import mujoco
        from mujoco import rollout

        rng = np.random.default_rng(0)
        v = rng.normal(size=(scenes, self.model.nv))
        q = np.tile(self.q, (scenes, 1))
        shape = (scenes, steps)
        tau, ctrl = np.zeros((*shape, self.model.nv)), np.tile(self.ctrl, (*shape, 1))
        impulses, dt = np.zeros((scenes, self.blocks, 3)), np.full(shape, self.h)
        dyn = wt.compile(self.model, threads=1)
        given = (q, v, impulses, tau, ctrl, dt, TOLERANCE, np.inf)
        data = mujoco.MjData(self.peer)
        states = np.zeros((scenes, mujoco.mj_stateSize(self.peer, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        states[:, 1 : 1 + self.peer.nq] = self.q
        states[:, 1 + self.peer.nq : 1 + self.peer.nq + self.peer.nv] = v
        with np.errstate(all="ignore"), rollout.Rollout(nthread=0) as pool:
            dyn.contact_steps(*given)
            ours = least(lambda: dyn.contact_steps(*given))
            theirs = least(lambda: pool.rollout(self.peer, data, states, ctrl))
        return ours / (scenes * steps) * 1e6, theirs / (scenes * steps) * 1e6


def main() -> None:
    """The whole table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1024)
    given = parser.parse_args()
    folder = given.folder or assets_folder()
    print(f"{'robot':14}{'step':>8}{'kernel':>8}{'mj_step':>9}{'batch':>9}{'MuJoCo':>8}{'first s':>9}")
    with tempfile.TemporaryDirectory() as cache, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["WHIPPLETREE_CACHE"] = cache
        for name in ("hopper", "walker2d", "half_cheetah", "ant", "humanoid", "panda"):
            if name == "panda":
                model, peer = panda()
            else:
                model, peer = wt.load(folder / f"{name}.xml"), peer_of(folder / f"{name}.xml")
            scene = Scene(model, peer, start_of(name, model))
            scene.kernel(TOGETHER)
            ways = (scene.steps, scene.kernel, scene.theirs)
            times = [least(lambda way=way: way(given.calls)) / given.calls * 1e6 for way in ways]
            batch = scene.batch(given.batch)
            columns = (*times, *batch, scene.first)
            print(f"{name:14}" + "".join(f"{x:{w}.2f}" for x, w in zip(columns, (8, 8, 9, 9, 8, 9), strict=True)))


if __name__ == "__main__":
    main()
