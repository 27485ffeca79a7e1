"""An arm writes an eight.

A Panda follows a figure of eight with its tool: joint angles by inverse kinematics, forces by gravity compensation and
a PD controller, motors within their limits. What to learn: the controllers are plain functions, they add up
(``together``), and with fixed steps they are compiled into the roll-out, so that control costs next to nothing. A PD
controller alone lags behind; what inverse dynamics foresees takes most of the lag away. (Needs the package
example-robot-data, for the file.)
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt
from whippletree.controllers import gravity_compensation, limited, pd, together

try:
    package = distribution("example-robot-data")
except PackageNotFoundError:
    print("pip install example-robot-data brings the file of the Panda", file=sys.stderr)
    sys.exit(77)
robots = "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf"
arm = wt.load(str(package.locate_file(f"{robots}/panda.urdf")))
dyn = wt.compile(arm)
TOOL, PERIOD = "panda_hand_tcp", 3.0

# an eight, upright in front of the robot, and the joint angles that reach it: all of them in one call
ready = np.array([0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.8, 0.02, 0.02])
phases = 2 * np.pi * np.arange(96) / 96
eight = np.tile(dyn.pose(TOOL)(ready), (len(phases), 1, 1))
eight[:, 1, 3] += 0.25 * np.sin(phases)
eight[:, 2, 3] += 0.15 * np.sin(2 * phases)
reached = wt.inverse_kinematics(arm, {TOOL: eight}, ready)
assert np.all(reached.reached)


def series(samples, harmonics=12):
    """A smooth, periodic function of time through samples of one period, and its derivatives by their order."""
    waves = np.fft.rfft(samples, axis=0)[: harmonics + 1] / len(samples)
    rates = 2j * np.pi / PERIOD * np.arange(harmonics + 1)

    def at(t, order=0):
        found = waves[0].real if order == 0 else np.zeros(arm.nv)
        for rate, wave in zip(rates[1:], waves[1:], strict=True):
            c = 2 * wave * rate**order
            found = found + c.real * np.cos(rate.imag * t) - c.imag * np.sin(rate.imag * t)
        return found

    return at


path = series(reached.q)
along = [np.array([path(t, order) for t in PERIOD / 96 * np.arange(96)]) for order in (0, 1, 2)]
foreseen = series(wt.compile(arm.tree).inverse_dynamics(*along))

hold = pd(
    arm,
    target=path,
    target_velocity=lambda t: path(t, 1),
    stiffness=np.array([300, 300, 200, 200, 60, 60, 30, 100, 100]),
    damping=np.array([30, 30, 20, 20, 4, 4, 2, 10, 10]),
)
ways = {
    "PD and gravity": together(hold, gravity_compensation(arm)),
    "PD and foresight": together(hold, lambda t, q, v: foreseen(t)),
}
runs = {}
for name, controller in ways.items():
    runs[name] = wt.simulate(
        arm, along[0][0], along[1][0], duration=PERIOD, method="rk4", step=1e-3, output_dt=0.01,
        controller=limited(controller, arm), points=TOOL,
    )  # fmt: skip
    assert runs[name].attrs["path"] == "compiled"
wanted = np.array([dyn.pose(TOOL)(path(t))[:3, 3] for t in runs["PD and gravity"].time.values])

figure, (left, upper) = subplots(1, 2, width=10.0, height=4.6, width_ratios=[1.1, 1])
wt.plot(runs["PD and foresight"], "path", model=arm, frame=TOOL, ax=left, layers=("bodies",))
left.set_axis_off()
left.set_title("the arm and its eight")
for color, (name, run) in zip((ORANGE, BLUE), runs.items(), strict=True):
    away = 1e3 * np.linalg.norm(run.points.values[:, 0] - wanted, axis=1)
    upper.semilogy(run.time, np.maximum(away, 1e-4), color=color, label=f"{name}: at most {away.max():.2g} mm")
    print(f"{name}: the tool is off by at most {away.max():.3g} mm")
upper.set(title="how far the tool is from its path", xlabel="time, s", ylabel="mm")
upper.legend()
save(figure, arm, runs["PD and foresight"])
