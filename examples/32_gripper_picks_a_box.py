"""A gripper picks up a box.

Two fingers on a lift close around a box, raise it by 20 cm and hold it, by the commands of their servos alone. What to
learn: a grip is friction between faces. Servos are implicit in a step, so their gains do not limit it; the cones are
exact, so the box does not creep out of the fingers; and nothing overlaps by more than 1e-8 m, so the fingers stand
where the box ends. (Needs the package mujoco, which reads the file.)
"""

import numpy as np
from picture import BLUE, ORANGE, read_mjcf, save, subplots

import whippletree as wt

FINGER = """
<body name="{name}" pos="0 {y} 0"><joint name="{name}" type="slide" axis="0 {side} 0" range="-0.02 0.1"/>
  <geom name="{name}" type="box" size="0.02 0.01 0.04" mass="0.1" rgba="0 0.45 0.7 1"/></body>"""
SCENE = """<mujoco model="gripper"><compiler autolimits="true"/><default><geom friction="0.8"/></default><worldbody>
<geom name="table" type="plane" size="0.3 0.3 0.01" rgba="0.8 0.8 0.8 1"/>
<body name="hand" pos="0 0 0.06"><joint name="lift" type="slide" axis="0 0 1"/>
  <geom type="box" size="0.02 0.08 0.01" pos="0 0 0.06" mass="0.5" contype="0" conaffinity="0"/>{fingers}</body>
<body name="box" pos="0 0 0.03"><freejoint/>
  <geom name="box" type="box" size="0.03 0.03 0.03" mass="0.2" rgba="0.9 0.62 0 1"/></body></worldbody>
<actuator><position name="lift" joint="lift" kp="4000" kv="200"/><position name="left" joint="left" kp="400" kv="20"/>
<position name="right" joint="right" kp="400" kv="20"/></actuator></mujoco>"""
CLOSED, RAISED, SECONDS, HEIGHT = 0.3, 1.3, 2.0, 0.2

fingers = [FINGER.format(name=name, y=y, side=side) for name, y, side in (("left", 0.06, -1), ("right", -0.06, 1))]
model = read_mjcf(SCENE.format(fingers="".join(fingers)))

# fingers are told to close 2 cm beyond the faces of the box; the lift is told to go as much higher as it yields
moments = np.arange(0, SECONDS, 0.01)
raised = HEIGHT * np.clip((moments - CLOSED) / (RAISED - CLOSED), 0, 1)
commands = np.stack([raised + 0.9 * 9.81 / 4000, *[np.full(len(moments), 0.04)] * 2], axis=1)
run = wt.simulate(model, duration=SECONDS, step=2e-3, output_dt=0.01, method="time_stepping", ctrl=commands)

box = run.q.values[:, model.q_slice(next(j.name for j in model.joints if j.child == "box"))]
hand = run.q.values[:, model.q_slice("lift")][:, 0]
held = run.time.values > CLOSED
slip = np.ptp((box[:, 2] - hand)[held])
print(f"the box is raised by {100 * (box[-1, 2] - box[0, 2]):.2f} cm, and slips by {slip:.0e} m on the way")
print(f"overlap at most {run.penetration.values.max():.0e} m, {run.attrs['unconverged_steps']} steps not solved")
assert run.attrs["path"] == "compiled"
assert run.attrs["unconverged_steps"] == 0
assert abs(box[-1, 2] - box[0, 2] - HEIGHT) < 1e-3
assert slip < 1e-6
assert run.penetration.values.max() < 1e-8

figure, (left, right) = subplots(1, 2, width=9.0, height=4.2)
wt.plot(run.isel(time=[0, 30, -1]), "strobe", model=model, count=3, ax=left, layers=("bodies", "massless links"))
left.set_title("open, closed, raised")
right.plot(run.time, 100 * box[:, 2], color=ORANGE, label="middle of the box")
right.plot(run.time, 100 * (hand + box[0, 2]), color=BLUE, linestyle="--", label="middle of the box + way of the hand")
right.axvspan(0, CLOSED, color="0.93")
right.set(title="height", xlabel="time, s", ylabel="cm")
right.legend()
save(figure, model, run)
