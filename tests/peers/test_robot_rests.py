"""Robots from MJCF files at rest and rolling, beside MuJoCo: its soft contacts, as they stiffen, come to ours.

Sliding is left out: MuJoCo's convex cone lifts what slides.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt

STIFF = (0.02, 0.01, 0.005)
"""Time constants (s) of MuJoCo's contacts and limits."""

CRAWLER = """<mujoco><compiler angle="radian"/><option timestep=".001" cone="elliptic" gravity="0 0 -9.81"/>
  <default><geom density="800" friction="1 .005 .0001" condim="3"/><joint damping=".5" armature=".01"/></default>
  <worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body name="trunk" pos="0 0 .32"><freejoint/><geom name="trunk" type="box" size=".2 .1 .04"/>
    {legs}</body></worldbody><actuator>{servos}</actuator></mujoco>"""
LEG = """<body name="thigh{k}" pos="{x} {y} 0"><joint name="hip{k}" axis="0 1 0" range="-.9 .9"/>
  <geom name="thigh{k}" type="capsule" fromto="0 0 0 0 0 -.15" size=".02"/>
  <body name="shin{k}" pos="0 0 -.15"><joint name="knee{k}" axis="0 1 0" range="-1.4 -.05"/>
    <geom name="shin{k}" type="capsule" fromto="0 0 0 0 0 -.15" size=".015"/></body></body>"""
SERVO = '<position name="{j}" joint="{j}" kp="60" kv="2"/>'
CORNERS = ((0.18, 0.12), (0.18, -0.12), (-0.18, 0.12), (-0.18, -0.12))


def crawler() -> str:
    legs = "".join(LEG.format(k=k, x=x, y=y) for k, (x, y) in enumerate(CORNERS))
    names = [f"{joint}{k}" for k in range(4) for joint in ("hip", "knee")]
    return CRAWLER.format(legs=legs, servos="".join(SERVO.format(j=name) for name in names))


def theirs(text: str, start: np.ndarray, ctrl: np.ndarray, duration: float, stiffness: float) -> np.ndarray:
    compiled = mujoco.MjModel.from_xml_string(text)
    for softness in (compiled.geom_solref, compiled.jnt_solref):
        softness[:] = (stiffness, 1)
    data = mujoco.MjData(compiled)
    data.qpos[:], data.ctrl[:] = start, ctrl
    for _ in range(round(duration / compiled.opt.timestep)):
        mujoco.mj_step(compiled, data)
    return data.qpos.copy()


@pytest.mark.slow
def test_a_robot_stands_on_its_servos_as_mujocos_does(tmp_path: Path) -> None:
    """Height, joints and attitude at rest; where along the floor depends on the way it landed."""
    (tmp_path / "crawler.xml").write_text(crawler())
    model = wt.load(tmp_path / "crawler.xml")
    assert len(model.actuators) == 8
    start, ctrl = model.home.q.copy(), np.tile([0.3, -0.7], 4)
    for k in range(4):
        start[model.q_slice(f"hip{k}")], start[model.q_slice(f"knee{k}")] = 0.3, -0.7
    ours = wt.simulate(model, start, duration=2.0, ctrl=ctrl)
    assert ours.attrs["method"] == "time_stepping"
    assert np.abs(ours.v.values[-1]).max() < 1e-4
    assert float(ours.penetration.values[-1]) < 1e-8
    rest = np.arange(model.nq) != 0
    rest[1] = False
    errors = [np.abs(theirs(crawler(), start, ctrl, 4.0, s) - ours.q.values[-1])[rest].max() for s in STIFF]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 3e-3


def test_a_ball_rolls_as_mujocos_does(tmp_path: Path) -> None:
    """Set spinning and moving so that it rolls: both go on rolling; MuJoCo's sinks by what its softness takes."""
    text = """<mujoco><option timestep=".001" cone="elliptic"/><worldbody><geom type="plane" size="1 1 1"/>
      <body pos="0 0 .1"><freejoint/><geom size=".1" friction=".8 0 0"/></body></worldbody></mujoco>"""
    (tmp_path / "ball.xml").write_text(text)
    model = wt.load(tmp_path / "ball.xml")
    ours = wt.simulate(model, None, [0, 5.0, 0, 0.5, 0, 0], duration=1.0)
    assert ours.q.values[-1, 0] == pytest.approx(0.5, abs=1e-9)
    errors = []
    for stiffness in STIFF:
        compiled = mujoco.MjModel.from_xml_string(text)
        compiled.geom_solref[:] = (stiffness, 1)
        data = mujoco.MjData(compiled)
        data.qvel[:] = (0.5, 0, 0, 0, 5.0, 0)
        for _ in range(1000):
            mujoco.mj_step(compiled, data)
        errors.append(np.abs(data.qpos[:3] - ours.q.values[-1, :3]).max())
    assert errors[2] < errors[1] < errors[0] < 2e-3
