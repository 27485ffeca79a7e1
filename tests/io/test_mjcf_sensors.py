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
