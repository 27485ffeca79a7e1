"""A robot from an MJCF file walks.

Six legs, eighteen position servos, a floor with friction: all of that, and the step, is in the file. What to learn:
``wt.load`` takes over collisions, actuators and the step of an MJCF file, and ``ctrl=`` commands its servos. Three feet
swing while three stand, so that the robot never has to balance. The run tells how well it is solved: overlap of the
feet with the floor, and the residual of the contact problem. (Needs the package mujoco, which reads the file.)
"""

import numpy as np
from picture import PALETTE, read_mjcf, save, subplots

import whippletree as wt

SIDES = {"left": 1, "right": -1}
PLACES = {"front": 0.16, "middle": 0.0, "rear": -0.16}
LEGS = [f"{side} {place}" for side in SIDES for place in PLACES]


def leg(name):
    """One leg: hip about the vertical, then lift and knee about the leg's own axis; the foot is a ball."""
    side, place = name.split()
    y, turn = 0.09 * SIDES[side], 90 * SIDES[side]
    return f"""
    <body name="{name} hip" pos="{PLACES[place]} {y} 0" euler="0 0 {turn}">
      <joint name="{name} yaw" axis="0 0 1" range="-50 50"/>
      <geom type="capsule" fromto="0 0 0 0.05 0 0" size="0.016" mass="0.08" rgba="0.20 0.22 0.25 1"/>
      <body name="{name} thigh" pos="0.05 0 0">
        <joint name="{name} lift" axis="0 -1 0" range="-70 90"/>
        <geom type="capsule" fromto="0 0 0 0.10 0 0" size="0.013" mass="0.06" rgba="0.00 0.45 0.70 1"/>
        <body name="{name} shin" pos="0.10 0 0">
          <joint name="{name} knee" axis="0 -1 0" range="-150 0"/>
          <geom type="capsule" fromto="0 0 0 0.14 0 0" size="0.009" mass="0.05" rgba="0.90 0.62 0.00 1"/>
          <geom name="{name} foot" type="sphere" pos="0.15 0 0" size="0.014" mass="0.01" rgba="0.2 0.2 0.2 1"
                contype="1" conaffinity="1" friction="0.9"/>
        </body>
      </body>
    </body>"""


MODEL = f"""
<mujoco model="hexapod">
  <compiler angle="degree"/>
  <option timestep="0.002"/>
  <default>
    <joint damping="0.1" armature="0.002"/>
    <geom contype="0" conaffinity="0"/>
    <position kp="14" forcerange="-4 4"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="3 3 0.1" contype="1" conaffinity="1" friction="0.9"/>
    <body name="trunk" pos="0 0 0.115">
      <freejoint name="root"/>
      <geom type="box" size="0.20 0.06 0.022" mass="0.9" rgba="0.84 0.37 0.00 1"/>
      <geom type="ellipsoid" size="0.05 0.045 0.03" pos="0.21 0 0.01" mass="0.1" rgba="0.84 0.37 0.00 1"/>
      {"".join(leg(name) for name in LEGS)}
    </body>
  </worldbody>
  <actuator>
    {"".join(f'<position name="{n} {j}" joint="{n} {j}"/>' for n in LEGS for j in ("yaw", "lift", "knee"))}
  </actuator>
</mujoco>"""

STRIDE, RAISED, RATE = 0.32, 0.45, 1.6  # rad of the hips, rad of the lifted legs, strides per second
TRIPOD = np.array([0.0 if name in ("left front", "left rear", "right middle") else 0.5 for name in LEGS])
SIGN = np.array([SIDES[name.split()[0]] for name in LEGS])
STAND = np.array([0.55, -1.75])  # lift and knee


def gait(t, q, v):
    """Angles of all servos: the hip swings forth while the leg is lifted, and back while it stands."""
    phase = 2 * np.pi * (RATE * t + TRIPOD)
    grown = np.minimum(t / 0.4, 1.0)  # the first stride begins gently
    yaw = SIGN * STRIDE * grown * np.cos(phase)
    lift = STAND[0] + RAISED * grown * np.maximum(np.sin(phase), 0)
    return np.stack([yaw, lift, STAND[1] + 0 * phase], axis=1).reshape(-1)


robot = read_mjcf(MODEL)
q0 = robot.home.q.copy()
for name in LEGS:
    q0[robot.q_slice(f"{name} lift")], q0[robot.q_slice(f"{name} knee")] = STAND
run = wt.simulate(robot, q0, duration=3.0, ctrl=gait, output_dt=0.02)
way = float(run.q[-1, 0] - run.q[0, 0])
print(f"{run.attrs['method']}: {way:.2f} m in 3 s; overlap at most {float(run.penetration.max()):.1e} m")
assert not run.attrs["failure"]
assert way > 0.4

figure, (left, right) = subplots(1, 2, width=10.5, height=4.0, width_ratios=[1.35, 1])
wt.plot(run, "strobe", model=robot, count=4, ax=left, layers=("bodies",))
left.set_axis_off()
left.set_title(f"{way:.2f} m in 3 s")
names = list(wt.contact_set(robot).names)
for k, name in enumerate(LEGS):
    number = next(i for i, contact in enumerate(names) if f"{name} foot" in contact)
    stands = run.contact_force.values[:, number, 0] > 0
    begins = np.flatnonzero(np.diff(np.concatenate([[0], stands, [0]])) == 1)
    ends = np.flatnonzero(np.diff(np.concatenate([[0], stands, [0]])) == -1)
    bars = [(run.time.values[a], 0.02 * (b - a)) for a, b in zip(begins, ends, strict=True)]
    right.broken_barh(bars, (k - 0.35, 0.7), color=PALETTE[0] if TRIPOD[k] else PALETTE[1])
right.set(title="which feet stand", xlabel="time, s", yticks=range(6), yticklabels=LEGS, xlim=(0, 3))
right.invert_yaxis()
save(figure, robot, run)
