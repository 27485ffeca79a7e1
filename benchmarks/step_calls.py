"""The price of a call: ``dyn.step`` in a loop, beside ``mj_step`` and beside our own kernel called once for all steps.

    python -m benchmarks.step_calls [folder with hopper.xml …] [--calls 100000] [--batch 1024]

Hopper and ant are gymnasium's, as their files describe them (floor, limits, motors) and with ``integrator="Euler"`` for
MuJoCo; the Panda is the arm of example-robot-data with a position servo on every joint, the same one for both, and
solo12 a quadruped on four balls that trots on the spot by such servos. All start at rest; µs of processor time per
step, the least of three rounds.

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
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt
from benchmarks.robots import ROBOTS, model_of
from benchmarks.single_scenes import ROBOTS as RESTING
from benchmarks.single_scenes import assets_folder
from benchmarks.stepping import SOLO12, SoftContact, standing
from whippletree.model import Actuator

STIFFNESS, DAMPING, TOGETHER, TOLERANCE = 100.0, 20.0, 500, 1e-7
GAIT = 500
"""Steps of a period of the trot."""
TROT = {"FL": 0.0, "HR": 0.0, "FR": 0.5, "HL": 0.5}
"""Phases of the legs."""


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


def solo12() -> tuple[wt.Model, Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A quadruped with servos, ours and MuJoCo's, its start, and the commands of a trot, (steps, actuators)."""
    import mujoco

    scene, peer = standing(SOLO12, 1), SoftContact(SOLO12).model
    names = [peer.actuator(k).name for k in range(peer.nu)]
    kp, kv = 20.0, 0.5
    bias, gain = np.array([0.0, -kp, -kv]), np.array([kp, 0.0, 0.0])
    servos = tuple(Actuator(name, (name,), gain=gain, bias=bias) for name in names)
    peer.actuator_gainprm[:, 0], peer.actuator_biasprm[:, :3] = kp, bias
    peer.actuator_biastype[:] = mujoco.mjtBias.mjBIAS_AFFINE
    peer.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    t = np.arange(GAIT) / GAIT
    lift = {leg: 0.1 * np.maximum(np.sin(2 * np.pi * (t + phase)), 0) for leg, phase in TROT.items()}
    model = replace(scene.model, actuators=servos, time_step=float(peer.opt.timestep))
    places = {name: model.q_slice(name).start for name in names}
    rows = [scene.q[0, places[name]] + _bend(name) * lift[name[:2]] for name in names]
    return model, peer, scene.q[0], np.stack(np.broadcast_arrays(*rows), axis=1)


def _bend(joint: str) -> float:
    """How much of a lift a joint of solo12 takes: hip and knee bend against each other, hind legs the other way."""
    side = 1.0 if joint[0] == "F" else -1.0
    return side * {"HFE": 1.0, "KFE": -2.0}.get(joint[3:], 0.0)


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

    def __init__(
        self, model: wt.Model, peer: Any, start: np.ndarray[Any, Any], gait: np.ndarray[Any, Any] | None = None
    ) -> None:
        """``gait``: commands step by step, (TOGETHER, actuators), again and again; default: those that hold it."""
        self.model, self.peer, self.q = model, peer, start
        self.h = float(model.time_step or 0.002)
        held = self.q.copy() if len(model.actuators) == model.nq else np.zeros(len(model.actuators))
        self.gait = np.tile(held, (TOGETHER, 1)) if gait is None else gait
        self.ctrl = self.gait[0]
        begun = time.process_time()
        self.dyn = wt.compile(model)
        found = self.dyn.step(self.q, np.zeros(model.nv), self.ctrl, self.h)
        self.first, self.blocks = time.process_time() - begun, len(found.impulses)

    def steps(self, calls: int) -> None:
        """One call each."""
        step, h = self.dyn.step, self.h
        q, v, impulses = self.q, np.zeros(self.model.nv), None
        for ctrl in islice(cycle(list(self.gait)), calls):
            q, v, _, impulses, _, _ = step(q, v, ctrl, h, impulses=impulses)

    def kernel(self, calls: int) -> None:
        """``TOGETHER`` steps in a call."""
        q, v, impulses = self.q, np.zeros(self.model.nv), np.zeros((self.blocks, 3))
        tau, ctrl = np.zeros((TOGETHER, self.model.nv)), self.gait
        for _ in range(max(1, calls // TOGETHER)):
            made = self.dyn.contact_steps(q, v, impulses, tau, ctrl, np.full(TOGETHER, self.h), TOLERANCE, np.inf)
            q, v, impulses = made[0][-1], made[1][-1], made[2][-1]

    def theirs(self, calls: int) -> None:
        """``mj_step``, one call each."""
        import mujoco

        data = mujoco.MjData(self.peer)
        data.qpos[:], data.ctrl[:] = self.q, self.ctrl
        for ctrl in islice(cycle(list(self.gait)), calls):
            data.ctrl = ctrl
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
    every = ("hopper", "walker2d", "half_cheetah", "ant", "humanoid", "solo12", "panda")
    parser.add_argument("--robots", nargs="*", default=every, help=", ".join(every))
    given = parser.parse_args()
    folder = given.folder or assets_folder()
    print(f"{'robot':14}{'step':>8}{'kernel':>8}{'mj_step':>9}{'batch':>9}{'MuJoCo':>8}{'first s':>9}")
    with tempfile.TemporaryDirectory() as cache, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["WHIPPLETREE_CACHE"] = cache
        for name in given.robots:
            if name == "solo12":
                scene = Scene(*solo12())
            elif name == "panda":
                model, peer = panda()
                scene = Scene(model, peer, start_of(name, model))
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
