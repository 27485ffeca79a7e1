"""A quadruped that trots by a controller written in Python, ours beside ``mj_step``, each with the same Python.

    python -m benchmarks.python_controller [--steps 2000]

One MJCF text for both. The controller, a PD law about a gait, is a plain function of (t, q, v) that cannot be compiled;
it is asked before every step. µs of processor time per step: what a longer run costs more than a short one, so that
neither side's beginning counts; and the controller alone.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whippletree as wt

LEG = """<body name="{name} hip" pos="{x} {y} 0"><joint name="{name} roll" axis="1 0 0" damping="0.1"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0 {out} 0" mass="0.3"/>
  <body name="{name} thigh" pos="0 {out} 0"><joint name="{name} hip" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2" mass="0.3"/>
    <body name="{name} shin" pos="0 0 -0.2"><joint name="{name} knee" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.015" fromto="0 0 0 0 0 -0.2" mass="0.1"/>
      <geom name="{name} foot" type="sphere" size="0.02" pos="0 0 -0.2" mass="0.05" contype="1" conaffinity="1"/>
    </body></body></body>"""
STAND = np.tile([0.0, 0.7, -1.4], 4)
STEP = 1e-3


def quadruped() -> str:
    """As MJCF; only feet touch the ground."""
    places = (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("hl", -0.2, 0.1), ("hr", -0.2, -0.1))
    legs = "".join(LEG.format(name=n, x=x, y=y, out=math.copysign(0.04, y)) for n, x, y in places)
    return (
        f'<mujoco model="quadruped"><option timestep="{STEP}" integrator="Euler" cone="elliptic"/>'
        '<compiler angle="radian"/><default><geom contype="0" conaffinity="0" friction="0.8"/></default><worldbody>'
        '<geom name="ground" type="plane" size="0 0 1" contype="1" conaffinity="1"/>'
        '<body name="trunk" pos="0 0 0.33"><freejoint/><geom type="box" size="0.22 0.08 0.04" mass="6"/>'
        f"{legs}</body></worldbody></mujoco>"
    )


def pd_gait(t: float, q: Any, v: Any) -> Any:
    """Joint forces (18,) of a trot on the spot; a symbol for t is refused, so it stays Python."""
    swing = 0.15 * math.sin(4 * math.pi * float(t))
    aim = STAND + np.array([0, 1, -2] * 4) * np.repeat([swing, -swing, -swing, swing], 3)
    tau = np.zeros(18)
    tau[6:] = 60.0 * (aim - q[7:]) - 2.0 * v[6:]
    return tau


def _ours(model: wt.Model, start: Any, steps: int) -> Any:
    return wt.simulate(
        model, start, duration=steps * STEP, step=STEP, output_dt=0.1, method="time_stepping", controller=pd_gait,
        progress=False,
    )  # fmt: skip


def _peer(model: Any, start: Any, steps: int) -> Any:
    import mujoco

    data = mujoco.MjData(model)
    data.qpos[:] = start
    for _ in range(steps):
        data.qfrc_applied[:] = pd_gait(data.time, data.qpos, data.qvel)
        mujoco.mj_step(model, data)
    return data


def per_step(run: Callable[[int], Any], steps: int) -> float:
    """µs of processor time that a step costs: of a run, less one of a quarter of its steps."""
    times = []
    for count in (steps // 4, steps):
        best = math.inf
        for _ in range(3):
            begun = time.process_time()
            run(count)
            best = min(best, time.process_time() - begun)
        times.append(best)
    return (times[1] - times[0]) / (steps - steps // 4) * 1e6


def main() -> None:
    """Print the line."""
    import mujoco

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "quadruped.xml"
        path.write_text(quadruped())
        model, peer = wt.load(path), mujoco.MjModel.from_xml_path(str(path))
    start = np.array(model.home.q, dtype=float)
    start[7:] = STAND
    run = _ours(model, start, steps)
    mine, other = per_step(lambda n: _ours(model, start, n), steps), per_step(lambda n: _peer(peer, start, n), steps)
    zeros = np.zeros(18)
    alone = per_step(lambda n: [pd_gait(0.1, start, zeros) for _ in range(n)], steps)
    overlap = float(run["penetration"].max())
    print(f"ours {mine:.1f} µs, mj_step {other:.1f}, ratio {mine / other:.2f}; the controller alone {alone:.1f}")
    left = run.attrs["unconverged_steps"]
    print(f"{run.attrs['path']}, {left} steps beyond {run.attrs['contact_tolerance']:.0e} m/s, overlap {overlap:.0e} m")


if __name__ == "__main__":
    main()
