"""Activations and muscles against MuJoCo: forces, rates, steps, ranges of lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import Activation

mujoco = pytest.importorskip("mujoco")

ARM = """<mujoco model="arm"><option timestep="0.002"/><worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" range="-90 90" limited="true"/><geom size=".05" pos=".3 0 0"/>
    <site name="origin" pos=".1 0 .05"/>
    <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 1 0"/><geom size=".04" pos=".2 0 0"/>
      <site name="insertion" pos=".1 0 .05"/></body></body></worldbody>
  <tendon><spatial name="string"><site site="origin"/><site site="insertion"/></spatial>
    <fixed name="sum"><joint joint="shoulder" coef=".5"/><joint joint="elbow" coef="-.3"/></fixed></tendon>
  <actuator>
    <muscle name="deltoid" joint="shoulder"/>
    <muscle name="biceps" tendon="string" tausmooth="0.3" lengthrange="0.15 0.35" force="40"/>
    <general name="filtered" joint="shoulder" dyntype="filter" dynprm="0.1" gainprm="3" actrange="-1 1" {early}/>
    <intvelocity name="swift" joint="elbow" kp="5" actrange="-.01 .02"/>
    <general name="exact" tendon="sum" dyntype="filterexact" dynprm="0.03" gainprm="2" ctrlrange="-.5 .5"/>
    <motor name="plain" joint="elbow" gear="2"/>
    <general name="stretched" joint="elbow" gaintype="muscle" gainprm=".8 1.2 3 200 .6 1.4 2 1 1" lengthrange="-1 1"/>
  </actuator></mujoco>"""
MEMORIES = 5


def both(folder: Path, early: str = ""):
    path = folder / "arm.xml"
    path.write_text(ARM.format(early=early))
    peer = mujoco.MjModel.from_xml_path(str(path))
    return wt.load(path), peer, mujoco.MjData(peer)


def test_forces_and_rates_are_those_of_mujoco(tmp_path: Path) -> None:
    """Also beyond the ranges of lengths, speeds and activations, and in machine code."""
    model, peer, data = both(tmp_path)
    assert [model.actuators[k].name for k in model.activations] == ["deltoid", "biceps", "filtered", "swift", "exact"]
    rng = np.random.default_rng(1)
    ways = wt.reference(model), wt.compile(model)
    for _ in range(60):
        q, v = rng.uniform(-1.6, 1.6, 2), 4 * rng.normal(size=2)
        ctrl, act = rng.normal(size=7), rng.uniform(-0.2, 1.2, MEMORIES)
        data.qpos, data.qvel, data.ctrl, data.act = q, v, ctrl, act
        mujoco.mj_forward(peer, data)
        for dyn in ways:
            np.testing.assert_allclose(dyn.actuator_forces(q, v, ctrl, act), data.qfrc_actuator, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(dyn.activation_rates(ctrl, act), data.act_dot, rtol=1e-12, atol=1e-12)


def test_muscles_have_the_lengths_that_mujoco_finds(tmp_path: Path) -> None:
    model, peer, _ = both(tmp_path)
    deltoid, biceps, stretched = (model.actuators[k].muscle for k in (0, 1, 6))
    assert deltoid is not None
    assert biceps is not None
    assert stretched is not None
    np.testing.assert_array_equal(deltoid.length_range, peer.actuator_lengthrange[0])
    assert deltoid.peak == pytest.approx(200 / peer.actuator_acc0[0], rel=1e-14)
    assert biceps.length_range == (0.15, 0.35)
    assert biceps.peak == 40
    assert biceps.passive == 1.3
    assert stretched.passive == 0
    assert model.actuators[6].activation is None
    assert model.actuators[0].kind == "muscle"
    assert model.actuators[0].acts_uncommanded


@pytest.mark.parametrize("early", ["", "actearly='true'"])
def test_steps_move_activations_as_mujoco_does(tmp_path: Path, early: str) -> None:
    """Euler steps but for filterexact; an early activation acts in the step that moves it; roll-outs do the same."""
    model, peer, data = both(tmp_path, early)
    dyn, h, steps = wt.compile(model), 0.002, 150
    commands = np.random.default_rng(2).normal(size=(steps, 7))
    q, v, act, impulses = np.zeros(2), np.zeros(2), np.full(MEMORIES, 0.01), None
    data.act = act
    for ctrl in commands:
        data.qpos, data.qvel, data.ctrl = q, v, ctrl
        mujoco.mj_forward(peer, data)
        drives = data.act.copy()
        if early:
            drives[2] = np.clip(drives[2] + h * data.act_dot[2], -1, 1)
        np.testing.assert_allclose(dyn.actuator_forces(q, v, ctrl, drives), data.qfrc_actuator, rtol=1e-9, atol=1e-11)
        mujoco.mj_step(peer, data)
        q, v, _, impulses, _, act = dyn.step(q, v, ctrl, h, act=act, impulses=impulses)
        np.testing.assert_allclose(act, data.act, rtol=0, atol=1e-14)
    memory = np.full(MEMORIES, 0.01)
    np.testing.assert_array_equal(dyn.activations(commands, h, memory)[-1], act)
    assert set(dyn.activations(commands, h, memory)[:, 3]) >= {-0.01, 0.02}  # the ends of its range
    rolled = dyn.contact_rollout(np.zeros(2), np.zeros(2), None, h, ctrl=commands, act=memory)
    np.testing.assert_allclose(rolled.q[-1], q, rtol=0, atol=1e-9)


def test_roll_outs_without_contacts_have_activations(tmp_path: Path) -> None:
    both(tmp_path)
    model = wt.load(tmp_path / "arm.xml", limits=False)
    dyn, h, memory = wt.compile(model), 1e-3, np.full(MEMORIES, 0.3)
    commands = np.random.default_rng(3).normal(size=(2, 4, 7))
    q, v = dyn.rollout(np.zeros((2, 2)), np.zeros((2, 2)), None, h, ctrl=commands, act=memory)
    tau = dyn.actuator_forces(np.zeros(2), np.zeros(2), commands[:, 0], memory)
    expected = h * np.asarray(dyn.forward_dynamics(np.zeros(2), np.zeros(2), tau))
    np.testing.assert_allclose(v[:, 0], expected, rtol=1e-12)
    again = dyn.rollout(np.zeros(2), np.zeros(2), None, h, ctrl=commands[1], act=memory)
    np.testing.assert_array_equal(again[0], q[1])
    with pytest.raises(wt.UnsupportedError, match="which would stand still in the steps of 'rk4'"):
        dyn.rollout(np.zeros(2), np.zeros(2), None, h, ctrl=commands[0], act=memory, method="rk4")
    with pytest.raises(wt.UnsupportedError, match="act is given without ctrl"):
        dyn.rollout(np.zeros(2), np.zeros(2), np.zeros((3, 2)), h, act=memory)
    with pytest.raises(wt.ShapeError, match="ctrl has shape"):
        dyn.activations(commands[0, 0], h)
    now = dyn.step_derivatives(np.zeros(2), np.zeros(2), commands[0, 0], h, act=memory)
    assert now.state.shape == (4 + MEMORIES, 4 + MEMORIES)
    assert now.ctrl.shape == (4 + MEMORIES, 7)
    exact = np.exp(-h / 0.03)
    np.testing.assert_allclose(now.state[8, 8], exact, rtol=1e-8)
    np.testing.assert_allclose(now.state[6, 6], 1 - h / 0.1, rtol=1e-8)


def test_what_a_muscle_cannot_be_is_named(tmp_path: Path) -> None:
    """``idle`` ends on the axis of its joint: it moves nothing, so that no strength follows from what it moves."""
    path = tmp_path / "wrapped.xml"
    path.write_text("""<mujoco><worldbody><geom name="pulley" type="cylinder" size=".05 .1" contype="0"/>
      <site name="a" pos="0 0 .3"/><body pos=".3 0 0"><joint name="j" axis="0 1 0"/><geom size=".1"/><site name="b"/>
      <site name="c" pos=".1 0 0"/></body></worldbody>
      <tendon><spatial name="s"><site site="a"/><geom geom="pulley"/><site site="b"/></spatial>
        <spatial name="t"><site site="a"/><geom geom="pulley"/><site site="c"/></spatial></tendon>
      <actuator><muscle name="idle" tendon="s" lengthrange="0.1 1"/><muscle name="m" tendon="t" lengthrange="0.1 1"/>
        <general name="odd" joint="j" gaintype="muscle" biastype="muscle" lengthrange="0 1"
          gainprm=".75 1.05 1 200 .5 1.6 1.5 1.3 1.2" biasprm=".75 1.05 2 200 .5 1.6 1.5 1.3 1.2"/>
      </actuator></mujoco>""")
    with pytest.warns(wt.LeftOutWarning) as warned:
        model = wt.load(path)
    assert [actuator.name for actuator in model.actuators] == ["m"]
    assert "as strong as what they move needs, and move nothing at the start: 'idle'" in str(warned[0].message)
    assert "muscles whose passive force has other numbers than the active one: 'odd'" in str(warned[0].message)


@pytest.mark.parametrize("total", ["", "settotalmass='7'"])
def test_numbers_that_follow_from_masses_are_those_of_the_whole_model(tmp_path: Path, total: str) -> None:
    """Springs by ``springdamper`` and forces of muscles, where a mesh has a mass and where all masses are scaled."""
    path = tmp_path / "mesh.xml"
    path.write_text(f"""<mujoco><compiler {total}/><asset><mesh name="t" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .1"/></asset>
      <worldbody><body><joint name="a" springdamper="0.1 1.2"/><geom type="mesh" mesh="t"/>
        <body pos=".3 0 0"><joint name="b" axis="0 1 0" springdamper="0.05 1" range="-90 90"/>
          <geom size=".1" pos=".1 0 0"/></body></body></worldbody>
      <actuator><muscle name="m" joint="b" lengthrange="-1 1"/></actuator></mujoco>""")
    peer, model = mujoco.MjModel.from_xml_path(str(path)), wt.load(path)
    np.testing.assert_allclose([j.stiffness for j in model.joints], np.ravel(peer.jnt_stiffness), rtol=1e-12)
    np.testing.assert_allclose([j.damping for j in model.joints], np.ravel(peer.dof_damping), rtol=1e-12)
    muscle = model.actuators[0].muscle
    assert muscle is not None
    assert muscle.peak == pytest.approx(200 / peer.actuator_acc0[0], rel=1e-12)


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_memories_survive_a_file(tmp_path: Path, suffix: str) -> None:
    model, _, _ = both(tmp_path, "actearly='true'")
    wt.save(model, tmp_path / f"again.{suffix}")
    again = wt.load(tmp_path / f"again.{suffix}")
    assert [repr(a) for a in again.actuators] == [repr(a) for a in model.actuators]


def test_faults_of_activations_and_muscles_are_named() -> None:
    builder = wt.Builder("arm").body("link", 1.0, inertia=(1, 1, 1)).joint("hinge", "revolute", "world", "link")
    builder.actuator("a", "hinge", activation=Activation("filtre", (0.1,)))
    builder.actuator("b", "hinge", activation=Activation("filter"))
    builder.actuator("c", "hinge", activation=Activation("muscle", (0.1, 0.0, 0.0), range=(1.0, 0.0)))
    with pytest.raises(wt.ModelError) as raised:
        builder.build()
    text = str(raised.value)
    assert "actuator 'a': activation kind 'filtre' is not known. Did you mean 'filter'" in text
    assert "actuator 'b': activation times has 0 numbers, expected 1 for 'filter'" in text
    assert "holds a time constant that is not positive and finite" in text
    assert "range [1.0, 0.0] is empty" in text
