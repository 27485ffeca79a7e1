"""Whether MuJoCo's soft contacts come to ours as they stiffen: gymnasium's robots at rest, on a slope, and rolling.

    python -m benchmarks.softness [PACKAGE OR FOLDER]

Each robot is simulated here from its file's start, without commands, until it rests: contacts, limits and dry friction
then hold it, sticking. Where along the floor it lies depends on how it fell, so MuJoCo begins in that very state, with
the time constant of its contacts and limits (``solref``) at 20, 10, 5 and 2.5 ms, steps of a quarter of it (at most the
file's own), elliptic cones and its usual ``solimp``, and goes on for SETTLING seconds. Told is how far it moves, the
largest of all coordinates, m or rad: MuJoCo's robots sink in and creep, the less the stiffer they are.

Then the floor is tilted by SLOPE (gravity is), and what lies there comes to rest again: friction carries a tenth of the
weight, without sliding. The last rows are a ball, a capsule across the slope and a cylinder that roll down it, ours
beside MuJoCo's.

A robot that nothing touches (the swimmer in its fluid, the reacher in its plane, the pusher's arm) is set in motion,
and both go on by steps of the same length: the difference of the two motions is told.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

import whippletree as wt
from benchmarks.robot_files import folder_of, velocity_map

ROBOTS = ("ant", "half_cheetah", "hopper", "walker2d", "humanoid", "swimmer", "pusher", "reacher")
ROLLERS = {
    "ball": 'type="sphere" size=".1"',
    "capsule": 'type="capsule" size=".1 .2" euler="90 0 0"',
    "cylinder": 'type="cylinder" size=".1 .2" euler="90 0 0"',
}
STIFFNESSES = (0.02, 0.01, 0.005, 0.0025)
USUAL = (0.9, 0.95, 0.001, 0.5, 2)
"""MuJoCo's default of ``solimp``: some files have contacts without any stiffness at the surface."""

FALLING, SETTLING, PATIENCE = 2.0, 0.5, 6
"""s, s, and how many times FALLING a robot may take to come to rest."""

SLOPE = 0.1
"""rad: less than what friction holds on any of the robots."""

REST = 1e-3
"""rad/s or m/s: speed below which it does."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", default="gymnasium")
    parser.add_argument("--only", default="", help="only robots with this text in their names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = folder_of(options.package)
    print(f"{'':26}{'speed':>9}{'touching':>9}" + "".join(f"{1000 * s:>8g} ms" for s in STIFFNESSES))
    for name in ROBOTS:
        if options.only in name:
            (path,) = folder.rglob(f"{name}.xml")
            for place, text in _rows(path):
                print(f"{name + place:26}" + text, flush=True)
    for name, geom in ROLLERS.items():
        if options.only in name:
            print(f"{name + ', rolling':26}" + _rolling(geom), flush=True)


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """Of a robot on a level floor, and on a slope where something touches it."""
    model = wt.load(path)
    q, v, touching = _at_rest(model, model.home.q, model.home.v)
    if not touching:
        yield "", _row(model, path, q, _away_from_limits(model, q), touching)
        return
    yield "", _row(model, path, q, v, touching)
    tilted = _tilted(model)
    yield ", on a slope", _row(tilted, path, *_at_rest(tilted, q, v))


def _at_rest(model: wt.Model, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """A state of rest, or the last one that was waited for, and how many contacts press."""
    for _ in range(PATIENCE):
        run = wt.simulate(model, q, v, duration=FALLING, output_dt=FALLING / 4, progress=False)
        q, v = run.q.values[-1], run.v.values[-1]
        if np.abs(v).max(initial=0.0) < REST:
            break
    return q, v, 0 if "contact_force" not in run else int((run.contact_force.values[-1, :, 0] > 0).sum())


def _row(model: wt.Model, path: Path, q: np.ndarray, v: np.ndarray, touching: int) -> str:
    speed = float(np.abs(v).max(initial=0.0))
    ways = [_difference(model, path, q, v, s) for s in STIFFNESSES]
    return f"{speed:9.0e}{touching:9}" + "".join(f"{way:11.1e}" for way in ways)


def _tilted(model: wt.Model) -> wt.Model:
    g = float(np.linalg.norm(model.gravity))
    return replace(model, gravity=np.array([g * np.sin(SLOPE), 0.0, -g * np.cos(SLOPE)]))


def _rolling(geom: str) -> str:
    """A body that rolls down the slope from rest, along x."""
    text = f"""<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="9 9 1"/>
      <body pos="0 0 .1"><freejoint/><geom {geom}/></body></worldbody></mujoco>"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "roller.xml"
        path.write_text(text)
        model = _tilted(wt.load(path))
        return _row(model, path, np.asarray(model.home.q, dtype=float), np.zeros(6), 1)


def _away_from_limits(model: wt.Model, q: np.ndarray) -> np.ndarray:
    """Velocities of which none leads into a joint's limit: what bounces there is no state of rest."""
    v = np.abs(np.random.default_rng(0).normal(size=model.nv)) / 2
    for joint in model.joints:
        if (
            joint.type.nv == 1
            and joint.upper - q[model.q_slice(joint.name)][0] < q[model.q_slice(joint.name)][0] - joint.lower
        ):
            v[model.slice(joint.name)] *= -1
    return v


def _difference(model: wt.Model, path: Path, q: np.ndarray, v: np.ndarray, stiffness: float) -> float:
    """How far MuJoCo's coordinates are from ours SETTLING seconds after a state of ours."""
    compiled = mujoco.MjModel.from_xml_path(str(path))
    for softness in (compiled.geom_solref, compiled.jnt_solref, compiled.dof_solref):
        softness[:] = (stiffness, 1)
    for impedance in (compiled.geom_solimp, compiled.jnt_solimp, compiled.dof_solimp):
        impedance[:] = USUAL
    compiled.opt.gravity[:] = model.gravity
    compiled.opt.timestep = min(compiled.opt.timestep, stiffness / 4)
    compiled.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    compiled.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    data = mujoco.MjData(compiled)
    data.qpos[:] = q
    mujoco.mj_kinematics(compiled, data)
    T, _ = velocity_map(compiled, data)
    data.qvel[:] = T @ v
    for _ in range(round(SETTLING / compiled.opt.timestep)):
        mujoco.mj_step(compiled, data)
    step = float(compiled.opt.timestep)
    ours = wt.simulate(
        model, q, v, duration=SETTLING, output_dt=SETTLING, step=step, method="time_stepping", progress=False
    )
    return float(np.abs(data.qpos - ours.q.values[-1]).max())


if __name__ == "__main__":
    main()
