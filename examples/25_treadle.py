"""A treadle drives a crank through its dead points.

A foot pushes the rocker of a four-bar, as on an old sewing machine; the crank carries a flywheel. Twice in each turn
crank and coupler are in line: there no torque of the treadle, however large, moves the crank, and inverse dynamics
without limits asks for torques that grow without bound. What to learn: as a quadratic program with an effort limit the
question always has an answer. Near a dead point the torque is cut at its limit, at the dead point it changes its sign,
and the flywheel carries the crank through.
"""

import os
from dataclasses import replace

import numpy as np
from picture import BLUE, GREEN, ORANGE, RED, save, subplots

import whippletree as wt

SECONDS = float(os.environ.get("EXAMPLE_SECONDS", 6.0))
SPEED, LIMIT = 6.0, 40.0

bars = wt.mechanisms.four_bar(lengths=(2.0, 0.5, 1.9, 1.2), masses=(1.0, 0.5, 0.8))
changed = {"crank": {"rotor_inertia": 1.5}, "rocker": {"effort_limit": LIMIT}}
bars = replace(bars, joints=tuple(replace(joint, **changed.get(joint.name, {})) for joint in bars.joints))
crank, rocker = bars.slice("crank").start, bars.slice("rocker").start
dyn = wt.compile(bars)

speed = wt.control.task("posture", joints=("crank",), damping=8.0, weight=1.0)
control = wt.control.whole_body(bars, [speed], motors=("rocker",), dyn=dyn)
unlimited = wt.control.whole_body(bars, [speed], motors=("rocker",), limits=False, dyn=dyn)
asked, given = [], []


def treadle(t, q, v):
    wanted = {"posture": np.array([SPEED])}
    found = control(q, v, rates=wanted)
    given.append((t, found.tau[rocker]))
    asked.append(unlimited(q, v, rates=wanted).tau[rocker])
    return found.tau


v0 = dyn.project_velocity(bars.home.q, np.eye(3)[crank] * 2.0)
run = wt.simulate(bars, v0=v0, duration=SECONDS, method="rk4", step=2e-3, output_dt=0.01, controller=treadle)
turns = float(run.q[-1, crank] - run.q[0, crank]) / (2 * np.pi)
speeds = f"crank at {float(run.v[-1, crank]):.2f} rad/s"
print(f"{SECONDS:g} s: {turns:.1f} turns, through {int(2 * turns)} dead points; {speeds}")
print(f"largest torque {max(abs(x) for _, x in given):.1f} N m; without the limit {max(map(abs, asked)):.0f} N m")
assert turns > 0.3 * SECONDS
assert max(abs(x) for _, x in given) <= LIMIT * (1 + 1e-7)
assert max(map(abs, asked)) > 2 * LIMIT
assert np.all(np.isfinite(asked))

figure, (left, right) = subplots(1, 2, width=10.0, height=3.6)
left.plot(run.time, run.v[:, crank], color=BLUE, label="crank, rad/s")
left.axhline(SPEED, color="0.5", linestyle=":", label="wanted")
left.plot(run.time, run.v[:, rocker], color=GREEN, label="treadle, rad/s")
left.set(title="through the dead points", xlabel="time, s")
left.legend()
times, torques = np.array(given).T
right.plot(times, np.clip(asked, -4 * LIMIT, 4 * LIMIT), color=ORANGE, linewidth=0.8, label="asked without a limit")
right.plot(times, torques, color=RED, label="treadle, N m")
right.set(title="torque", xlabel="time, s", xlim=(max(SECONDS - 2, 0), SECONDS))
right.legend()
save(figure, bars, run)
