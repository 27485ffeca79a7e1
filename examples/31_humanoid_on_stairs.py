"""A humanoid lies down on stairs.

A man of capsules and balls, with joints that have stops and dampers but no motors, sinks down on a staircase of boxes
and comes to rest there. What to learn: many contacts at once, of limbs that lie across the edges of steps, need no
tuning. There is no stiffness and no margin: at the end of every step nothing overlaps by more than 1e-8 m, and what
lies still stays where it is. (Needs the package mujoco, which reads the file.)
"""

import numpy as np
from picture import BLUE, ORANGE, read_mjcf, save, subplots

import whippletree as wt

LEG = """
<body name="{side} thigh" pos="0 {y} -0.05">
  <joint name="{side} hip x" axis="1 0 0" range="-0.4 0.4"/><joint name="{side} hip y" axis="0 1 0" range="-1.9 0.4"/>
  <geom name="{side} thigh" type="capsule" size="0.06" fromto="0 0 -0.04 0 0 -0.36" mass="6"/>
  <body name="{side} shin" pos="0 0 -0.4">
    <joint name="{side} knee" axis="0 1 0" range="0 2.4"/>
    <geom name="{side} shin" type="capsule" size="0.045" fromto="0 0 -0.02 0 0 -0.34" mass="3"/>
    <body name="{side} foot" pos="0 0 -0.39">
      <joint name="{side} ankle" axis="0 1 0" range="-0.6 0.6"/>
      <geom name="{side} foot" type="capsule" size="0.035" fromto="-0.05 0 0 0.15 0 0" mass="1"/>
    </body></body></body>"""
ARM = """
<body name="{side} upper arm" pos="0 {y} 0.42">
  <joint name="{side} shoulder x" axis="1 0 0" range="-{inwards} {outwards}"/>
  <joint name="{side} shoulder y" axis="0 1 0" range="-2.6 0.8"/>
  <geom name="{side} upper arm" type="capsule" size="0.04" fromto="0 0 -0.02 0 0 -0.26" mass="2"/>
  <body name="{side} forearm" pos="0 0 -0.28">
    <joint name="{side} elbow" axis="0 1 0" range="-2.2 0"/>
    <geom name="{side} forearm" type="capsule" size="0.035" fromto="0 0 -0.02 0 0 -0.24" mass="1.5"/>
  </body></body>"""
MAN = """
<body name="pelvis" pos="0 0 {height}" euler="0 0.25 0.3"><freejoint/>
  <geom name="pelvis" type="capsule" size="0.09" fromto="0 -0.07 0 0 0.07 0" mass="10"/>
  <body name="chest" pos="0 0 0.1"><joint name="waist x" axis="1 0 0" range="-0.4 0.4"/>
    <joint name="waist y" axis="0 1 0" range="-0.4 1.2"/>
    <geom name="chest" type="capsule" size="0.11" fromto="0 0 0.1 0 0 0.32" mass="18"/>
    <geom name="head" type="sphere" size="0.1" pos="0 0 0.58" mass="5"/>{arms}</body>{legs}</body>"""
STEPS, DEPTH, RISE = 9, 0.3, 0.16


def humanoid_on_stairs():
    """The man above a staircase that goes down along x."""
    stairs = "".join(
        f'<geom name="step {k}" type="box" size="{DEPTH / 2} 0.6 {RISE}" pos="{DEPTH * (k - 1)} 0 {-RISE * (k + 1)}" '
        'contype="2" conaffinity="1" '
        f'rgba="0.8 0.8 0.8 1"/>'
        for k in range(STEPS)
    )
    sides = (("left", 1), ("right", -1))
    legs = "".join(LEG.format(side=side, y=0.1 * s) for side, s in sides)
    arms = "".join(
        ARM.format(side=side, y=0.17 * s, inwards=0.3 if s > 0 else 1.5, outwards=1.5 if s > 0 else 0.3)
        for side, s in sides
    )
    man = MAN.format(height=0.95, legs=legs, arms=arms)
    return read_mjcf(
        '<mujoco model="humanoid on stairs"><compiler angle="radian" autolimits="true"/>'
        '<default><joint damping="1"/><geom contype="1" conaffinity="2" friction="0.8" rgba="0 0.45 0.7 1"/></default>'
        f"<worldbody>{stairs}{man}</worldbody>"
        "</mujoco>"
    )


model = humanoid_on_stairs()
run = wt.simulate(model, duration=4.0, step=2.5e-3, output_dt=0.02, method="time_stepping")
speed, overlap = np.abs(run.v.values).max(axis=1), run.penetration.values
residual = run.attrs["largest_residual_velocity"]
print(f"{run.attrs['path']}: {run.attrs['steps']} steps, residual at most {residual:.0e} m/s")
print(f"at the end: speed {speed[-1]:.0e} m/s or rad/s, overlap {overlap[-1]:.0e} m, at most {overlap.max():.0e} m")
assert run.attrs["path"] == "compiled"
assert run.attrs["unconverged_steps"] == 0
assert overlap.max() < 1e-8
assert speed[-1] < 1e-6
print(f"{(run.contact_force.values[-1, :, 0] > 0).sum()} contacts carry the man")

figure, (left, right) = subplots(1, 2, width=10.0, height=4.8, width_ratios=(3, 2))
wt.plot(run.isel(time=[0, 40, 60, -1]), "strobe", model=model, count=4, ax=left)
left.set_title("standing, falling, lying")
right.semilogy(run.time, np.maximum(speed, 1e-16), color=BLUE, label="largest velocity, m/s and rad/s")
right.semilogy(run.time, np.maximum(overlap, 1e-16), color=ORANGE, label="overlap, m")
right.set(title="coming to rest", xlabel="time, s", ylim=(1e-17, 1e2))
right.legend()
save(figure, model, run)
