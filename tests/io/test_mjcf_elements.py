"""Tendons, fluids and gravity compensation of MJCF files, beside MuJoCo's own numbers."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt

ARMS = """<mujoco>
  <option density="{density}" viscosity="{viscosity}" wind="{wind}" integrator="Euler"><flag {flags}/></option>
  <worldbody><site name="nail" pos=".3 .1 .8"/>
    <body name="upper" pos="0 0 1" gravcomp="{comp}"><joint name="ja" type="hinge" axis="0 1 0" />
      <geom type="capsule" fromto="0 0 0 .1 0 -.4" size=".05" density="300"/><site name="elbow" pos=".12 .02 -.4"/>
      <body name="fore" pos=".1 0 -.4"><joint name="jb" type="hinge" axis="1 .3 0"/>
        <joint name="jc" type="slide" axis="0 0 1" stiffness="30"/>
        <geom type="box" size=".05 .04 .2" pos="0 .03 -.2" density="300"/>
        <site name="hand" pos="0 0 -.45"/></body></body>
    <body name="ball" pos=".5 .5 .5"><freejoint/><geom type="ellipsoid" size=".1 .05 .2" density="400"/>
      <site name="top" pos="0 0 .2"/></body>
  </worldbody>
  <tendon>
    <spatial name="rope" stiffness="40" damping="3" springlength=".2 .6"><site site="nail"/><site site="elbow"/>
      <site site="hand"/><pulley divisor="2"/><site site="hand"/><site site="top"/></spatial>
    <fixed name="sum" stiffness="7" damping=".3" springlength=".1"><joint joint="ja" coef="2"/>
      <joint joint="jb" coef="-.5"/></fixed>
    <spatial name="idle"><site site="nail"/><site site="hand"/></spatial>
  </tendon>
  <actuator><motor name="winch" tendon="rope" gear="3"/><position name="servo" tendon="idle" kp="20" kv="2" gear=".5"/>
    <motor name="both" tendon="sum" gear="2"/></actuator>
</mujoco>"""


def states(compiled: mujoco.MjModel):
    """Random states of MuJoCo, with T for which its velocities are T v."""
    data, random = mujoco.MjData(compiled), np.random.default_rng(1)
    for _ in range(5):
        mujoco.mj_resetData(compiled, data)
        mujoco.mj_integratePos(compiled, data.qpos, random.normal(size=compiled.nv), 0.5)
        data.qvel[:], data.ctrl[:] = random.normal(size=compiled.nv), random.normal(size=compiled.nu)
        mujoco.mj_forward(compiled, data)
        T = np.eye(compiled.nv)
        for joint in np.flatnonzero(compiled.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
            k, R = compiled.jnt_dofadr[joint], data.xmat[compiled.jnt_bodyid[joint]].reshape(3, 3)
            T[k : k + 6, k : k + 6] = np.block([[np.zeros((3, 3)), R], [np.eye(3), np.zeros((3, 3))]])
        yield data, T


def written(folder: Path, **numbers: str) -> Path:
    usual = {"density": "0", "viscosity": "0", "wind": "0 0 0", "comp": "0", "flags": ""}
    (folder / "arms.xml").write_text(ARMS.format(**usual | numbers))
    return folder / "arms.xml"


@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"density": "1000"},
        {"viscosity": ".3"},
        {"density": "50", "viscosity": ".1", "wind": "1 -2 .5"},
        {"comp": ".7"},
        {"comp": ".7", "density": "50", "viscosity": ".1", "flags": "damper='disable'"},
        # without springs and dampers MuJoCo has no passive forces at all
        {"comp": ".7", "density": "50", "viscosity": ".1", "flags": "spring='disable' damper='disable'"},
    ],
)
def test_passive_and_actuator_forces_are_mujocos(tmp_path: Path, numbers: dict[str, str]) -> None:
    path = written(tmp_path, **numbers)
    model, compiled = wt.load(path), mujoco.MjModel.from_xml_path(str(path))
    wt.save(model, tmp_path / "arms.toml")
    for same in (model, wt.load(tmp_path / "arms.toml")):
        ref, dyn = wt.reference(same), wt.compile(same)
        for data, T in states(compiled):
            q, v = data.qpos.copy(), np.linalg.solve(T, data.qvel)
            passive, driven = T.T @ data.qfrc_passive, T.T @ data.qfrc_actuator
            np.testing.assert_allclose(ref.passive_forces(q, v), passive, atol=1e-11 * np.abs(passive).max())
            np.testing.assert_allclose(dyn.passive_forces(q, v), passive, atol=1e-11 * np.abs(passive).max())
            np.testing.assert_allclose(ref.actuator_forces(q, v, data.ctrl), driven, atol=1e-11)


def test_energy_of_tendons_and_held_up_weight(tmp_path: Path) -> None:
    """Forces at rest are the gradient of the potential energy: of gravity, springs of joints and of tendons."""
    model = wt.load(written(tmp_path, comp=".7"))
    dyn, random = wt.compile(model), np.random.default_rng(0)
    q = dyn.integrate(model.home.q, random.normal(size=model.nv) / 2)
    h, v = 1e-5, np.zeros(model.nv)
    ends = [dyn.potential_energy(dyn.integrate(q, s * h * np.eye(model.nv))) for s in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(dyn.gravity(q) - dyn.passive_forces(q, v), slope, atol=1e-6)


@pytest.mark.slow
def test_time_stepping_applies_elements_and_counts_their_work(tmp_path: Path) -> None:
    """Steps converge to the smooth motion, and energy is what motors and dampers leave of it."""
    model = wt.load(written(tmp_path, density="30", viscosity=".1"), contacts=False)
    told = {"duration": 0.25, "ctrl": {"winch": -2.0}, "progress": False}
    fine = wt.simulate(model, method="adaptive", **told)
    errors, balances = [], []
    for step in (2e-3, 1e-3):
        run = wt.simulate(model, method="time_stepping", step=step, **told)
        errors.append(float(np.abs(run.q[-1] - fine.q[-1]).max()))
        balances.append(float(np.abs(run.energy_balance).max()))
    assert errors[1] < 0.6 * errors[0] < 0.01
    assert balances[1] < 0.6 * balances[0]


def test_a_spring_between_two_points_of_moving_bodies() -> None:
    """Two carts tied by a spring swing against each other with √(k / m_reduced)."""
    builder = wt.Builder("carts", gravity=(0, 0, 0))
    for name, mass in (("left", 1.0), ("right", 3.0)):
        builder.body(name, mass).joint(f"{name} rail", "prismatic", "world", name, axis=(1, 0, 0))
    model = builder.tendon("spring", "left", "right", stiffness=12.0, rest=0.5).build()
    start = np.array([0.0, 0.6])
    period = 2 * np.pi / np.sqrt(12.0 / 0.75)
    run = wt.simulate(model, start, np.zeros(2), duration=2 * period, progress=False)
    assert float(run.q[-1, 1] - run.q[-1, 0]) == pytest.approx(0.6, abs=1e-6)
    half = wt.simulate(model, start, np.zeros(2), duration=period / 2, progress=False)
    assert float(half.q[-1, 1] - half.q[-1, 0]) == pytest.approx(0.4, abs=1e-6)


def test_what_of_tendons_and_fluids_is_left_out_is_named(tmp_path: Path) -> None:
    text = """<mujoco><option density="1"/><worldbody><site name="nail"/>
      <body name="a" pos="0 0 -1"><joint name="j"/><geom size=".1" pos=".1 0 0" fluidshape="ellipsoid"/>
      <site name="hook"/></body></worldbody><tendon>
      <spatial name="leash" limited="true" range="0 1"><site site="nail"/><site site="hook"/></spatial>
      <fixed name="dry" frictionloss="1"><joint joint="j" coef="1"/></fixed></tendon></mujoco>"""
    (tmp_path / "a.xml").write_text(text)
    with pytest.warns(wt.LeftOutWarning) as warned:
        wt.load(tmp_path / "a.xml")
    for told in (
        "dry friction of tendons: 'dry'",
        "fluid forces on ellipsoids (fluidshape): 'a'",
    ):
        assert told in str(warned[0].message)


WRAPPED = """<mujoco><worldbody><site name="nail" pos=".3 .1 .9"/><site name="hook" pos="-.2 -.3 .7"/>
    <body name="drum" pos="0 0 .4"><joint name="swing" axis="1 .2 0"/><joint name="lift" type="slide" axis="0 0 1"/>
      <geom name="drum" type="{kind}" size=".15 .4" euler="80 10 0" contype="0" conaffinity="0"/>
      <site name="edge" pos="{edge}"/></body>
    <body name="ball" pos=".1 .05 -.2"><freejoint/><geom size=".1"/><site name="eye" pos="0 .05 .1"/></body>
  </worldbody><tendon>
    <spatial name="rope" stiffness="40" damping="3" springlength=".5"><site site="nail"/><geom geom="drum" {side}/>
      <site site="eye"/><pulley divisor="3"/><site site="hook"/><geom geom="drum"/><site site="eye"/></spatial>
  </tendon><actuator><muscle name="winch" tendon="rope" lengthrange=".5 2" force="100"/></actuator></mujoco>"""

BESIDE, THROUGH = ".1 -.2 .15", ".02 .05 .03"


@pytest.mark.parametrize("edge", [BESIDE, THROUGH, ""], ids=["beside", "through", "the shorter way"])
@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
def test_tendons_wrap_around_geoms_as_mujocos_do(tmp_path: Path, kind: str, edge: str) -> None:
    """Where they pass through a geom, MuJoCo's search for the corner ends early, at an angle of up to 2e-5 rad."""
    text = WRAPPED.format(kind=kind, edge=edge or BESIDE, side='sidesite="edge"' if edge else "")
    (tmp_path / "drum.xml").write_text(text)
    model, compiled = wt.load(tmp_path / "drum.xml"), mujoco.MjModel.from_xml_string(text)
    wt.save(model, tmp_path / "drum.toml")
    ref, dyn, again = wt.reference(model), wt.compile(model), wt.reference(wt.load(tmp_path / "drum.toml"))
    rtol, lengths = 1e-4 if edge == THROUGH else 1e-11, []
    for data, T in states(compiled):
        q, v, act = data.qpos.copy(), np.linalg.solve(T, data.qvel), data.act.copy()
        straight = np.linalg.norm(data.site("nail").xpos - data.site("eye").xpos)
        straight += np.linalg.norm(data.site("hook").xpos - data.site("eye").xpos) / 3
        lengths.append(float(data.ten_length[0] - straight))
        for expected, ours in (
            (data.qfrc_passive, [each.passive_forces(q, v) for each in (ref, dyn, again)]),
            (data.qfrc_actuator, [each.actuator_forces(q, v, data.ctrl, act) for each in (ref, dyn, again)]),
        ):
            for found in ours:
                np.testing.assert_allclose(found, T.T @ expected, atol=rtol * max(1.0, np.abs(expected).max()))
    assert max(lengths) > 1e-3  # it does wrap


@pytest.mark.parametrize("edge", [BESIDE, THROUGH], ids=["beside", "through"])
def test_a_wrapped_tendon_pulls_along_the_gradient_of_its_energy(tmp_path: Path, edge: str) -> None:
    (tmp_path / "drum.xml").write_text(WRAPPED.format(kind="cylinder", edge=edge, side='sidesite="edge"'))
    model = wt.load(tmp_path / "drum.xml", contacts=False)
    dyn, h, v = wt.compile(model), 1e-6, np.zeros(model.nv)
    q = dyn.integrate(model.home.q, np.random.default_rng(2).normal(size=model.nv) / 5)
    ends = [dyn.potential_energy(dyn.integrate(q, s * h * np.eye(model.nv))) for s in (1, -1)]
    np.testing.assert_allclose(dyn.gravity(q) - dyn.passive_forces(q, v), (ends[0] - ends[1]) / (2 * h), atol=1e-7)


def test_a_tendon_around_a_drum_in_python() -> None:
    """A weight on a rope over a fixed drum: the rope is two tangents and a half turn, and carries its own weight."""
    builder = wt.Builder("hoist").frame("drum", "world", rotation=[[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    builder.frame("nail", "world", position=(-0.1, 0, -1)).frame("top", "world", position=(0, 0, 0.5))
    builder.body("weight", 2.0).joint("rail", "prismatic", "world", "weight", axis=(0, 0, 1), position=(0.1, 0, -1))
    drum = {"frame": "drum", "kind": "cylinder", "radius": 0.1, "side": "top"}
    model = builder.tendon("rope", "nail", "weight", stiffness=100.0, rest=2 + 0.1 * np.pi, around=[drum]).build()
    force = wt.reference(model).passive_forces([-0.2], [0.0])
    assert force == pytest.approx([100 * 0.2], abs=1e-12)


def test_faults_of_obstacles_are_named() -> None:
    builder = wt.Builder("m").body("a", 1, (0, 0, 0), (1, 1, 1)).joint("j", "free", "world", "a")
    drums = [
        {"frame": "drum", "kind": "cone", "radius": 0.1},
        {"frame": "a", "kind": "sphere", "radius": -1, "after": 1},
        {"frame": "a", "kind": "sphere", "radius": 1, "side": "b"},
    ]
    with pytest.raises(wt.ModelError) as caught:
        builder.tendon("t", "world", "a", around=drums).build()
    assert list(caught.value.faults) == [
        "tendon 't': the obstacle 'drum' is a 'cone', expected one of sphere, cylinder",
        "tendon 't': the obstacle 'drum' is not alone between its two frames: put a frame between obstacles",
        "tendon 't': the obstacle 'a' has the radius -1, expected a positive number",
        "tendon 't': the obstacle 'a' comes after frame 1 of branch 0, where no piece begins",
        "tendon 't': the obstacle 'a' is not alone between its two frames: put a frame between obstacles",
        "tendon 't': unknown frame or body 'drum'",
        "tendon 't': unknown frame or body 'b'",
    ]


def test_faults_of_elements_are_named() -> None:
    builder = wt.Builder("m").body("a", 1, (0, 0, 0), (1, 1, 1)).joint("j", "free", "world", "a")
    builder.tendon("t", "a", "b").tendon("u", joints={"j": 1}).lift("l", "c").actuator("m", tendon="s")
    with pytest.raises(wt.ModelError) as caught:
        builder.build()
    assert list(caught.value.faults) == [
        "tendon 't': unknown frame or body 'b'",
        "tendon 'u': 'j' is no joint of one freedom",
        "lift 'l': unknown frame or body 'c'",
        "actuator 'm': unknown tendon 's'",
    ]


def test_the_armature_of_a_free_joint_resists_along_axes_of_the_world(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body name="b"><joint name="float" type="free" armature="2.5"/>
      <geom type="box" size=".1 .2 .3" pos=".1 .05 0" density="300"/>
      <body pos="0 0 .3"><joint axis="0 1 .3" armature=".2"/>
      <geom type="capsule" size=".05 .2"/></body></body></worldbody></mujoco>"""
    (tmp_path / "armed.xml").write_text(text)
    model, compiled = wt.load(tmp_path / "armed.xml"), mujoco.MjModel.from_xml_string(text)
    ref, dyn, tau = wt.reference(model), wt.compile(model), np.arange(7.0)
    for data, T in states(compiled):
        q, v = data.qpos.copy(), np.linalg.solve(T, data.qvel)
        turning = np.concatenate([np.cross(T[:3, 3:6] @ v[:3], data.qvel[:3]), np.zeros(4)])
        expected = np.linalg.solve(T, data.qacc_smooth - turning)
        np.testing.assert_allclose(ref.forward_dynamics(q, v, 0 * v), expected, atol=1e-11)
        np.testing.assert_allclose(dyn.forward_dynamics(q, v, 0 * v), expected, atol=1e-11)
        operators = wt.spatial_operators(model, q, v)
        np.testing.assert_allclose(operators.inverse_dynamics(ref.forward_dynamics(q, v, tau)), tau, atol=1e-11)
        _, by_velocity, _ = dyn.forward_dynamics_derivatives(q, v, tau)
        ends = [dyn.forward_dynamics(q, v + s * 1e-6 * np.eye(7), tau) for s in (1, -1)]
        np.testing.assert_allclose(by_velocity, (ends[0] - ends[1]).T / 2e-6, atol=1e-7)


def test_a_fluid_drags_on_no_body_without_mass(tmp_path: Path) -> None:
    """Frames that files write as empty bodies have no box: MuJoCo's own numbers, with such a body in between."""
    path = tmp_path / "frames.xml"
    path.write_text(
        """<mujoco><option density="2" viscosity="0.1" wind="1 0 0"/><worldbody><body name="base"><freejoint/>
        <geom size="0.1"/><body name="between"><body name="tip" pos="0 0 1"><joint/><geom size="0.05" pos="0.1 0 0"/>
        </body></body></body></worldbody></mujoco>"""
    )
    model, compiled = wt.load(path), mujoco.MjModel.from_xml_path(str(path))
    assert [element.body for element in model.elements] == ["base", "tip"]
    for data, T in states(compiled):
        q, v = data.qpos.copy(), np.linalg.solve(T, data.qvel)
        passive = T.T @ data.qfrc_passive
        np.testing.assert_allclose(wt.reference(model).passive_forces(q, v), passive, atol=1e-13)


def test_tendons_need_no_names(tmp_path):
    """Files without names for them ended in an error of MuJoCo's bindings; their forces are MuJoCo's."""
    path = tmp_path / "tendons.xml"
    path.write_text("""<mujoco><worldbody><site name="w" pos="0 0 2"/>
      <body pos="0 0 1"><joint name="a" axis="0 1 0"/><geom type="box" size=".1 .2 .3"/><site name="s" pos=".2 0 .1"/>
        <body pos="0 0 1"><joint name="b" axis="1 0 0"/><geom type="box" size=".1 .2 .3"/></body></body></worldbody>
      <tendon><spatial stiffness="20" damping="1" springlength=".1"><site site="w"/><site site="s"/></spatial>
        <fixed stiffness="4" damping=".2"><joint joint="a" coef="2"/><joint joint="b" coef="-1"/></fixed></tendon>
      </mujoco>""")
    model = wt.load(path)
    assert [tendon.name for tendon in model.tendons] == ["tendon_0", "tendon_1"]
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = (0.3, -0.2), (0.5, 0.7)
    mujoco.mj_forward(peer, data)
    found = wt.reference(model).passive_forces(data.qpos, data.qvel)
    np.testing.assert_allclose(found, data.qfrc_passive, rtol=1e-12)


@pytest.mark.parametrize(("limit", "own"), [("-1 .5", ""), ("-3 3", ' forcerange="-.4 2"')])
def test_the_actuator_of_a_tendon_keeps_to_the_tendons_limit_of_force(tmp_path: Path, limit: str, own: str) -> None:
    text = f"""<mujoco><worldbody><body><joint name="j"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".05"/></body>
      </worldbody><tendon><fixed name="t" actuatorfrcrange="{limit}"><joint joint="j" coef="2"/></fixed></tendon>
      <actuator><motor tendon="t" gear="3"{own}/></actuator></mujoco>"""
    (tmp_path / "limited.xml").write_text(text)
    model, compiled = wt.load(tmp_path / "limited.xml"), mujoco.MjModel.from_xml_string(text)
    ref, data = wt.reference(model), mujoco.MjData(compiled)
    for command in (-5.0, -0.2, 0.3, 5.0):
        data.ctrl[:] = command
        mujoco.mj_forward(compiled, data)
        found = ref.actuator_forces(model.home.q, model.home.v, [command])
        assert found == pytest.approx(data.qfrc_actuator, abs=1e-14)


def test_a_limit_of_several_actuators_of_a_tendon_is_left_out_by_name(tmp_path: Path) -> None:
    (tmp_path / "shared.xml").write_text("""<mujoco><worldbody>
      <body><joint name="j"/><geom size=".1"/></body></worldbody>
      <tendon><fixed name="t" actuatorfrcrange="-1 1"><joint joint="j" coef="2"/></fixed></tendon>
      <actuator><motor tendon="t"/><motor tendon="t"/></actuator></mujoco>""")
    with pytest.warns(UserWarning, match="actuatorfrcrange of tendons that several actuators pull: 't'"):
        wt.load(tmp_path / "shared.xml")


def test_a_mesh_that_a_plugin_makes_is_refused_by_name(tmp_path: Path) -> None:
    """Its instance was deleted before the shapes that use it, which ended the interpreter."""
    (tmp_path / "torus.xml").write_text("""<mujoco><extension><plugin plugin="mujoco.sdf.torus"><instance name="torus">
      <config key="radius1" value=".15"/><config key="radius2" value=".05"/></instance></plugin></extension>
      <asset><mesh name="ring"><plugin instance="torus"/></mesh></asset>
      <worldbody><body><freejoint/><geom type="sdf" mesh="ring"><plugin instance="torus"/></geom></body></worldbody>
      </mujoco>""")
    with pytest.raises(wt.FileError, match="mesh 'ring': a plugin makes its surface, which is not supported"):
        wt.load(tmp_path / "torus.xml")


def test_what_gravity_compensation_by_actuators_loses_is_told(tmp_path: Path) -> None:
    """It acts, but is not cut to the joint's range; MuJoCo has it only where some actuator acts."""
    text = """<mujoco><worldbody><body gravcomp="1"><joint name="j" axis="0 1 0" actuatorgravcomp="true" {limit}/>
      <geom size=".1" pos=".3 0 0"/></body></worldbody>{motor}</mujoco>"""
    motor, path = '<actuator><motor name="m" joint="j"/></actuator>', tmp_path / "arm.xml"
    path.write_text(text.format(limit="", motor=motor))
    model = wt.load(path)
    assert "joint 'j': gravity compensation acts beside the actuators, and not as one\n" in model.source
    balanced = wt.reference(model).forward_dynamics([0.2], [0.0], wt.reference(model).passive_forces([0.2], [0.0]))
    np.testing.assert_allclose(balanced, 0, atol=1e-14)
    path.write_text(text.format(limit="", motor=""))
    assert "MuJoCo has none in a model without acting actuators" in wt.load(path).source
    path.write_text(text.format(limit='actuatorfrcrange="-1 1"', motor=motor))
    with pytest.warns(wt.LeftOutWarning, match="actuatorfrcrange for gravity compensation"):
        wt.load(path)
