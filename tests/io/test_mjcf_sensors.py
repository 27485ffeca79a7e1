"""Sensors of MJCF files, beside MuJoCo's readings."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt

TEXT = """<mujoco><option gravity="0.5 0 -9.81"/><worldbody><site name="nail" pos=".3 .1 .8" euler="10 20 30"/>
    <body name="base" pos=".5 .5 1.5"><freejoint name="root"/>
      <geom name="hull" type="box" size=".1 .2 .3" pos=".1 0 0"/>
      <site name="imu" pos="0 .1 .2" euler="30 40 50"/>
      <body name="arm" pos="0 0 .3"><joint name="hinge" axis="0 1 .5"/><joint name="ball" type="ball"/>
        <geom type="capsule" fromto="0 0 0 .1 0 .4" size=".05"/><site name="hand" pos=".1 0 .45" euler="0 20 0"/></body>
    </body></worldbody>
  <tendon><spatial name="rope"><site site="nail"/><site site="hand"/></spatial></tendon>
  <actuator><motor name="turn" joint="hinge" gear="3"/><motor name="winch" tendon="rope" gear="2"/></actuator>
  <sensor><jointpos joint="hinge"/><jointvel name="rate" joint="hinge"/><ballquat joint="ball"/>
    <ballangvel joint="ball"/><actuatorpos actuator="turn"/><actuatorvel actuator="winch"/>
    <framepos objtype="site" objname="hand"/><framepos objtype="site" objname="hand" reftype="site" refname="imu"/>
    <framequat objtype="xbody" objname="arm" reftype="body" refname="base"/><framexaxis objtype="geom" objname="hull"/>
    <frameyaxis objtype="body" objname="arm"/><framezaxis objtype="site" objname="imu"/>
    <framelinvel objtype="site" objname="hand"/>
    <framelinvel objtype="site" objname="hand" reftype="xbody" refname="base"/>
    <frameangvel objtype="body" objname="arm" reftype="site" refname="imu"/><frameangvel objtype="xbody" objname="arm"/>
    <framelinacc objtype="site" objname="hand"/><frameangacc objtype="site" objname="hand"/>
    <accelerometer site="imu"/><gyro site="imu"/><velocimeter site="hand"/><gyro name="cut" site="imu" cutoff=".2"/>
  </sensor></mujoco>"""


def test_readings_are_mujocos(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(TEXT)
    model, compiled = wt.load(tmp_path / "robot.xml"), mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    wt.save(model, tmp_path / "robot.toml")
    assert len(model.sensors) == compiled.nsensor
    data, random = mujoco.MjData(compiled), np.random.default_rng(2)
    for same in (model, wt.load(tmp_path / "robot.toml")):
        mujoco.mj_resetData(compiled, data)
        mujoco.mj_integratePos(compiled, data.qpos, random.normal(size=compiled.nv), 0.5)
        data.qvel[:] = random.normal(size=compiled.nv)
        mujoco.mj_forward(compiled, data)
        # velocities and accelerations of a free joint: in its own axes here
        R, w = data.xmat[1].reshape(3, 3), data.qvel[3:6]
        v = np.concatenate([w, R.T @ data.qvel[:3], data.qvel[6:]])
        turned = R.T @ data.qacc[:3] - np.cross(w, R.T @ data.qvel[:3])
        a = np.concatenate([data.qacc[3:6], turned, data.qacc[6:]])
        readings = wt.read_sensors(same, q=data.qpos.copy(), v=v, a=a)
        for k, (sensor, found) in enumerate(zip(same.sensors, readings.values(), strict=True)):
            first = compiled.sensor_adr[k]
            theirs = data.sensordata[first : first + compiled.sensor_dim[k]]
            own = np.atleast_1d(found)
            if sensor.kind == "frame_quaternion":
                own = own * np.sign(own @ theirs)
            np.testing.assert_allclose(own, theirs, atol=1e-10 * max(1, np.abs(theirs).max()), err_msg=sensor.kind)


def test_readings_of_a_run(tmp_path: Path) -> None:
    """An accelerometer at rest feels gravity upwards; in free fall nothing."""
    builder = wt.Builder("box").body("box", 1, (0, 0, 0), (1, 1, 1)).joint("root", "free", "world", "box")
    model = builder.sensor("imu", "accelerometer", "box").sensor("height", "frame_position", "box").build()
    run = wt.simulate(model, duration=0.2, progress=False)
    found = wt.read_sensors(model, run)
    np.testing.assert_allclose(found.imu, 0, atol=1e-9)
    np.testing.assert_allclose(found.height[:, 2], -9.81 / 2 * run.time**2, atol=1e-9)
    assert wt.read_sensors(model, q=model.home.q)["imu"].tolist() == pytest.approx([0, 0, 9.81])


def test_what_cannot_be_measured_is_told(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError, match="has no sensors"):
        wt.read_sensors(wt.mechanisms.double_pendulum(), q=[0.0, 0.0])
    builder = wt.Builder("m").body("a", 1, (0, 0, 0), (1, 1, 1)).joint("j", "free", "world", "a")
    with pytest.raises(wt.ModelError, match="sensor 's': unknown joint 'k'"):
        builder.sensor("s", "joint_position", "k").build()


FELT = """<mujoco><option timestep=".001"/><worldbody><geom name="floor" type="plane" size="0 0 1"/>
    <geom type="box" size=".2 .2 .1" pos="2 0 .5"/><geom type="cylinder" size=".1 .3" pos="0 2 .5" euler="20 10 0"/>
    <geom type="ellipsoid" size=".3 .2 .1" pos="-2 0 .5" euler="0 30 40"/>
    <geom type="capsule" size=".1 .3" pos="0 -2 .5"/>
    <geom type="sphere" size=".2" pos="1.5 1.5 .5"/>
    <body name="box" pos="0 0 {height}"><freejoint/><geom type="box" size=".1 .1 .1"/>
      <site name="foot" type="box" size=".11 .11 .02" pos="0 0 -.1"/>
      <site name="off" type="sphere" size=".02" pos="0 0 .1"/>
      {rays}
      <body name="arm" pos="0 0 .15"><joint name="j" axis="0 1 0" damping=".3"/><geom type="capsule" size=".03 .1"/>
        <site name="wrist" pos=".02 .03 .05" euler="20 30 40"/>
        <body name="tip" pos="0 .1 .2" euler="10 0 0"><geom type="sphere" size=".05"/>
          <site name="end" euler="0 50 0"/></body>
      </body></body></worldbody>
  <sensor><force site="wrist"/><torque site="wrist"/><force site="end"/><torque site="end"/>
    <touch name="sole" site="foot"/><touch name="nothing" site="off"/>{ranges}</sensor></mujoco>"""


def test_forces_and_ranges_are_mujocos(tmp_path: Path) -> None:
    aims = [(0, angle) for angle in range(0, 360, 15)] + [(30, 45), (-60, 10), (90, 0)]
    rays = "".join(f'<site name="r{k}" euler="0 {90 + up} {turn}"/>' for k, (up, turn) in enumerate(aims))
    ranges = "".join(f'<rangefinder site="r{k}"/>' for k in range(len(aims)))
    text = FELT.format(height=0.57, rays=rays, ranges=ranges).replace("<mujoco>", '<mujoco><compiler eulerseq="XYZ"/>')
    (tmp_path / "felt.xml").write_text(text)
    model, compiled = wt.load(tmp_path / "felt.xml"), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    data.qvel[:] = np.arange(7) / 5
    mujoco.mj_forward(compiled, data)
    w, u = data.qvel[3:6], data.qvel[:3]
    v = np.concatenate([w, u, data.qvel[6:]])
    a = np.concatenate([data.qacc[3:6], data.qacc[:3] - np.cross(w, u), data.qacc[6:]])
    readings = wt.read_sensors(model, q=data.qpos.copy(), v=v, a=a)
    found = np.concatenate([np.atleast_1d(x) for x in readings.values()])
    np.testing.assert_allclose(found, data.sensordata, atol=1e-9)
    assert (data.sensordata[14:] > 0).sum() > 6


@pytest.mark.slow
def test_touch_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "felt.xml").write_text(FELT.format(height=0.1, rays="", ranges=""))
    model = wt.load(tmp_path / "felt.xml", limits=False)
    run = wt.simulate(model, duration=0.02, reactions=True, progress=False)
    found, weight = wt.read_sensors(model, run), 9.81 * sum(float(body.mass) for body in model.bodies)
    assert float(found.sole[-1]) == pytest.approx(weight, rel=0.02)
    assert float(np.abs(found.nothing).max()) == 0.0
    with pytest.raises(wt.UnsupportedError, match="simulate with reactions=True"):
        wt.read_sensors(model, run.drop_vars("joint_reactions"))


def test_touch_sensors_read_nothing_where_nothing_can_touch(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(
        """<mujoco><worldbody><body><joint axis="0 1 0" range="-60 60" limited="true"/><geom name="g" size=".1"/>
        <site name="pad" size=".2"/></body></worldbody><sensor><touch name="touch" site="pad"/></sensor></mujoco>"""
    )
    model = wt.load(tmp_path / "arm.xml")
    readings = wt.read_sensors(model, wt.simulate(model, duration=0.01))
    assert not readings["touch"].values.any()
