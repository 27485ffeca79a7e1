"""MJCF as a robot: who may touch whom and how, limits, actuators, key frames and options, against MuJoCo itself."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt


def load_text(folder: Path, text: str, **options) -> wt.Model:
    path = folder / "robot.xml"
    path.write_text(text, encoding="utf-8")
    return wt.load(path, **options)


# --- who may touch whom ---

CROWD = """<mujoco>{head}<default><geom size="1"/></default><worldbody>
  <geom name="floor" type="plane" size="1 1 1" friction=".2" margin=".03"/><geom name="post" pos=".1 0 0"/>
  <body name="plinth" pos="0 .1 0"><geom name="stone" friction=".4" margin=".01"/></body>
  <body name="cart"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
    <joint axis="0 1 0" pos="0 .2 0"/><geom name="bed" friction=".7" priority="1"/>
    <body name="bolted" pos="0 0 .1"><geom name="mast" margin=".02"/>
      <body name="arm"><joint axis="0 1 0"/><joint axis="1 0 0"/><geom name="elbow" condim="1"/>
        <body name="frame"><body name="hand"><joint type="ball"/><geom name="palm" contype="2" conaffinity="1"/>
          <body name="tip"><joint/><geom name="nail" contype="2" conaffinity="2"/></body></body></body></body></body>
  </body>
  <body name="loose" pos="0 0 .2"><freejoint/><geom name="ball" contype="3" conaffinity="0" priority="1" friction=".1"/>
    <geom name="ghost" contype="0" conaffinity="0"/></body>
</worldbody>
<contact><exclude body1="cart" body2="loose"/><pair geom1="nail" geom2="floor" friction=".9 .9 0 0 0" margin=".04"/>
  <pair geom1="floor" geom2="nail"/><pair geom1="bed" geom2="mast"/></contact></mujoco>"""


@pytest.mark.parametrize(
    "head",
    ["", '<option><flag filterparent="disable"/></option>', '<option><flag contact="disable"/></option>'],
    ids=["as it is", "parents too", "none"],
)
def test_the_same_geoms_touch_as_in_mujoco(tmp_path: Path, head: str) -> None:
    """Everything overlaps here, so that MuJoCo makes a contact for every pair that it lets touch."""
    text = CROWD.format(head=head).replace('<pair geom1="bed" geom2="mast"/>', "")
    model = load_text(tmp_path, text)
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    theirs: dict[frozenset[str], tuple[float, float]] = {}
    for contact in data.contact:
        pair = frozenset(compiled.geom(k).name for k in contact.geom)
        friction = 0.0 if contact.dim == 1 else float(contact.friction[0])
        theirs.setdefault(pair, (friction, float(contact.includemargin)))
    ours = {frozenset((c.first, c.second)): (c.friction, float(c.margin)) for c in model.contacts}
    assert ours.keys() == theirs.keys()
    for pair, numbers in ours.items():
        if pair != {"nail", "floor"}:  # declared twice, and MuJoCo has both
            assert numbers == pytest.approx(theirs[pair], abs=1e-15), pair
    assert len(ours) == len(model.contacts) == (0 if "contact=" in head else len(theirs))
    if not head:
        assert "the pair of 'floor' and 'nail' is declared again" in model.source
        assert ours[frozenset(("nail", "floor"))] == (0.9, 0.04)


def test_a_pair_of_one_rigid_part_has_no_effect(tmp_path: Path) -> None:
    model = load_text(tmp_path, CROWD.format(head=""))
    assert "the pair of 'bed' and 'mast' has no effect: they are one rigid part" in model.source
    assert {"bed", "mast"} not in [{c.first, c.second} for c in model.contacts]


def test_bodies_rest_at_the_sum_of_their_margins(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1" margin=".01"/>
      <body pos="0 0 .2"><freejoint/><geom size=".1" margin=".01"/></body></worldbody></mujoco>"""
    model = load_text(tmp_path, text)
    run = wt.simulate(model, duration=1.0)
    assert run.q.values[-1][2] == pytest.approx(0.12, abs=1e-9)
    assert run.contact_gap.values[-1] == pytest.approx([0.0], abs=1e-9)


def test_softness_is_named(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body pos="0 0 1"><freejoint/><geom name="foot" size=".1" condim="6" solref=".01 1"/></body></worldbody>
    </mujoco>"""
    with pytest.warns(wt.LeftOutWarning) as warned:
        load_text(tmp_path, text)
    (warning,) = warned
    assert "softness (solref, solimp): 'foot'" in str(warning.message)


def test_contacts_limits_and_actuators_are_a_choice(tmp_path: Path) -> None:
    text = ARM.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" pos="0 0 -5"/>')
    every = load_text(tmp_path, text)
    assert len(every.contacts) == 4
    assert len(every.actuators) == 7
    assert every.joints[0].upper < np.inf
    none = load_text(tmp_path, text, contacts=False, limits=False, actuators=False)
    assert (none.contacts, none.actuators) == ((), ())
    assert {(joint.lower, joint.upper) for joint in none.joints} == {(-np.inf, np.inf)}
    assert none.key_frame("bent").commands.shape == (0,)


# --- joints ---


def test_limits_hold_at_their_margins(tmp_path: Path) -> None:
    text = """<mujoco><compiler angle="radian"/><worldbody><body>
      <joint name="j" axis="0 1 0" range="-.5 .6" margin=".1"/><geom type="capsule" fromto="0 0 0 1 0 0" size=".1"/>
    </body></worldbody></mujoco>"""
    model = load_text(tmp_path, text)
    assert (model.joints[0].lower, model.joints[0].upper) == (-0.4, 0.5)
    compiled = mujoco.MjModel.from_xml_string(text)
    compiled.jnt_solref[:] = (0.005, 1)
    data = mujoco.MjData(compiled)
    for _ in range(3000):
        mujoco.mj_step(compiled, data)
    assert data.qpos[0] == pytest.approx(0.5, abs=2e-3)
    assert wt.simulate(model, duration=3.0).q.values[-1] == pytest.approx([0.5], abs=1e-9)


FLAGS = {
    "limit": ("upper", np.inf),
    "frictionloss": ("friction", 0.0),
    "spring": ("stiffness", 0.0),
    "damper": ("damping", 0.0),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_what_the_file_switches_off_is_off(tmp_path: Path, flag: str) -> None:
    text = """<mujoco><option><flag {flag}/></option><worldbody><body><joint range="-1 1" frictionloss="1" damping="2"
      stiffness="3"/><geom size=".1"/></body></worldbody></mujoco>"""
    word, off = FLAGS[flag]
    on = load_text(tmp_path, text.format(flag=f"{flag}='enable'")).joints[0]
    assert getattr(on, word) not in (0.0, np.inf)
    assert getattr(load_text(tmp_path, text.format(flag=f"{flag}='disable'")).joints[0], word) == off


def test_the_step_of_the_file(tmp_path: Path) -> None:
    text = "<mujoco><option timestep='.004'/><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    assert load_text(tmp_path, text).time_step == 0.004


# --- actuators ---

ARM = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" range="-2 2" actuatorfrcrange="-3 3"/>
    <geom type="capsule" fromto="0 0 0 .4 0 0" size=".04"/>
    <body name="fore" pos=".4 0 0"><joint name="elbow" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="hand" pos=".3 0 0"><joint name="slide" type="slide" axis="1 0 0" ref=".1"/>
        <geom size=".05"/><site name="palm" pos=".02 0 .03" euler=".3 .2 .1"/></body></body></body></worldbody>
  <tendon><fixed name="both"><joint joint="shoulder" coef="1.5"/><joint joint="elbow" coef="-.5"/></fixed></tendon>
  <actuator>
    <motor name="motor" joint="shoulder" gear="4" ctrllimited="true" ctrlrange="-.5 .5"/>
    <position name="servo" joint="elbow" kp="30" kv="2" forcerange="-5 5"/>
    <position name="damped" joint="slide" kp="40" dampratio=".7" inheritrange="0"/>
    <velocity name="speed" joint="slide" kv="3" gear="2"/>
    <general name="general" joint="elbow" gaintype="affine" gainprm="2 .3 -.1" biastype="affine" biasprm=".5 -.2 -.4"/>
    <general tendon="both" gear="3" gainprm="1.5" biastype="affine" biasprm="0 -1 -.2"/>
    <motor name="jet" site="palm" gear="1 2 3 .1 .2 .3"/>
  </actuator>
  <keyframe><key name="bent" qpos=".1 .2 .3" qvel=".4 .5 .6" ctrl="1 2 3 4 5 6 7"/></keyframe></mujoco>"""


def test_actuator_forces_are_mujocos(tmp_path: Path) -> None:
    model, compiled = load_text(tmp_path, ARM), mujoco.MjModel.from_xml_string(ARM)
    assert [a.name for a in model.actuators] == ["motor", "servo", "damped", "speed", "general", "both", "jet"]
    kinds = [a.kind for a in model.actuators]
    assert kinds == ["motor", "position", "position", "velocity", "general", "general", "motor"]
    data, random = mujoco.MjData(compiled), np.random.default_rng(3)
    dyn, ref = wt.compile(model), wt.reference(model)
    for _ in range(20):
        data.qpos[:], data.qvel[:], data.ctrl[:] = 3 * random.normal(size=(2, 3))[0], random.normal(size=3), 0
        data.ctrl[:] = 2 * random.normal(size=7)
        mujoco.mj_forward(compiled, data)
        np.testing.assert_allclose(ref.actuator_forces(data.qpos, data.qvel, data.ctrl), data.qfrc_actuator, atol=1e-12)
        np.testing.assert_allclose(dyn.actuator_forces(data.qpos, data.qvel, data.ctrl), data.qfrc_actuator, atol=1e-12)
        tau = dyn.actuator_forces(data.qpos, data.qvel, data.ctrl) + dyn.passive_forces(data.qpos, data.qvel)
        np.testing.assert_allclose(dyn.forward_dynamics(data.qpos, data.qvel, tau), data.qacc_smooth, rtol=1e-9)


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_native_files_keep_all_of_it(tmp_path: Path, suffix: str) -> None:
    text = ARM.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" pos="0 0 -5" margin=".2"/>')
    model = load_text(tmp_path, text)
    wt.save(model, tmp_path / f"again.{suffix}")
    again = wt.load(tmp_path / f"again.{suffix}")
    assert again.time_step == model.time_step == 0.002
    assert [repr(a) for a in again.actuators] == [repr(a) for a in model.actuators]
    assert [repr(c) for c in again.contacts] == [repr(c) for c in model.contacts]
    assert [repr(k) for k in again.key_frames] == [repr(k) for k in model.key_frames]


def test_key_frames(tmp_path: Path) -> None:
    """Velocities of a free joint in its own axes; a quaternion of zeros is no turn; commands of what is taken over."""
    text = """<mujoco><worldbody><body><freejoint name="f"/><geom size=".1"/><body><joint name="j"/><geom size=".1"/>
      </body></body></worldbody><actuator><general name="slow" joint="j" dyntype="user" actdim="1"/>
      <intvelocity name="swift" joint="j"/><motor name="m" joint="j"/></actuator>
      <keyframe><key name="thrown" qpos="1 2 3 2 2 0 0 .5" qvel="1 2 3 4 5 6 7" ctrl="8 3 9" act="0 .7"/>
      <key name="zero" qpos="0 0 0 0 0 0 0 0"/></keyframe></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="activation dynamics"):
        model = load_text(tmp_path, text)
    thrown = model.key_frame("thrown")
    np.testing.assert_allclose(thrown.q, [1, 2, 3, 0.5**0.5, 0.5**0.5, 0, 0, 0.5])
    np.testing.assert_allclose(thrown.v, [4, 5, 6, 1, 3, -2, 7], atol=1e-15)  # a quarter turn about x
    assert thrown.commands.tolist() == [3, 9]
    assert thrown.act.tolist() == [0.7]
    assert model.key_frame("zero").q.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert "the quaternion of joint 'f' is zero, and taken for no turn" in model.source
    with pytest.raises(wt.NameLookupError, match="Did you mean 'thrown'"):
        model.key_frame("throwm")


def test_a_quaternion_of_zeros_at_home_is_told_once(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body><freejoint name="f"/><geom size=".1"/></body></worldbody>
      <keyframe><key name="home" qpos="0 0 1 0 0 0 0"/></keyframe></mujoco>"""
    model = load_text(tmp_path, text)
    assert np.asarray(model.home.q).tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert model.source.count("is zero, and taken for no turn") == 1


def test_a_hard_weld_does_not_tie_the_arm_to_a_mocap_body(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body name="goal" mocap="true"><geom size=".1" contype="0" conaffinity="0"/></body>
      <body name="arm"><joint/><geom size=".1"/></body></worldbody>
      <equality><weld name="tie" body1="goal" body2="arm"/></equality></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="equalities with mocap bodies: 'tie'"):
        model = load_text(tmp_path, text)
    assert not model.constraints


def test_an_equality_of_the_world_with_itself_is_left_out_by_name(tmp_path: Path) -> None:
    inner = "<body name='rod'><joint axis='0 1 0'/><geom size='.1' pos='0 0 .1'/></body>"
    tie = "<equality><connect name='nothing' body1='world' anchor='0 0 0'/></equality>"
    (tmp_path / "tied.xml").write_text(f"<mujoco><worldbody>{inner}</worldbody>{tie}</mujoco>")
    with pytest.warns(wt.LeftOutWarning, match="equalities of the world with itself: 'nothing'"):
        assert wt.load(tmp_path / "tied.xml").constraints == ()


def test_a_mocap_body_follows_a_given_motion(tmp_path: Path) -> None:
    """It pushes a ball without friction along, through a collision and at any mass; the file alone lets it stand."""
    text = """<mujoco><option timestep=".002"/><worldbody><geom name="floor" type="plane" size="0 0 1" friction="0"/>
      <body name="paddle" mocap="true" pos="0 0 .11" euler="0 0 90">
        <geom type="box" size=".2 .05 .1" friction="0"/></body>
      <body name="ball" pos=".2 0 .1"><freejoint/><geom size=".1" friction="0"/></body></worldbody></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="mocap .the body stands still: wt.with_motion moves it.: 'paddle'"):
        model = load_text(tmp_path, text)
    moved = wt.with_motion(model, "paddle", lambda t: (t, 0, 0.11))
    run = wt.simulate(moved, duration=0.4, points=["paddle", "ball"], progress=False)
    np.testing.assert_allclose(run.points[-1], [[0.4, 0, 0.11], [0.55, 0, 0.1]], atol=1e-6)
    np.testing.assert_allclose(
        wt.compile(moved).pose("paddle")(run.q[-1])[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9
    )
    assert not run.attrs["failure"]
    with pytest.raises(wt.UnsupportedError, match="body 'ball' hangs on joint"):
        wt.with_motion(model, "ball", lambda t: (0, 0, 0))
    with pytest.raises(wt.UnsupportedError, match="has 2 numbers"):
        wt.with_motion(model, "paddle", lambda t: (0, 0))


def led_ball(tmp_path: Path, friction: float) -> wt.Model:
    """A ball on a floor, and a wall that is led towards it at 1 m/s."""
    text = f"""<mujoco><option timestep=".002"/><worldbody>
      <geom name="floor" type="plane" size="0 0 1" friction="{friction}"/>
      <body name="wall" mocap="true" pos="0 0 .11"><geom type="box" size=".05 .2 .1" friction="{friction}"/></body>
      <body name="ball" pos=".2 0 .1"><freejoint/><geom mass="1" size=".1" friction="{friction}"/></body>
      </worldbody></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="mocap"):
        return wt.with_motion(load_text(tmp_path, text), "wall", lambda t: (t, 0, 0.11))


def test_a_wall_pushes_a_ball_until_it_rolls(tmp_path: Path) -> None:
    """With friction 1/2 at both, the floor spins it up to v / r while it slips along the wall."""
    run = wt.simulate(led_ball(tmp_path, 0.5), duration=0.25, progress=False)
    assert run.attrs["unconverged_steps"] == 0
    np.testing.assert_allclose(run.v[-1, 6:9], [0, 10, 0], atol=1e-6)
    np.testing.assert_allclose(run.q[-1, 7:10], [0.4, 0, 0.1], atol=1e-6)


def test_a_ball_that_jams_is_told(tmp_path: Path) -> None:
    """With friction 1 no impulses exist: the wall's friction presses the ball down by as much as the wall pushes it, so
    that the floor, which bears that and its weight besides, holds it against any push."""
    with pytest.warns(
        RuntimeWarning, match=r"no impulses were found .* 'ball/geom on floor', 'ball/geom on wall/geom'"
    ):
        wt.simulate(led_ball(tmp_path, 1.0), duration=0.056, progress=False)


def test_a_ball_under_a_led_plate_rolls_at_half_its_speed(tmp_path: Path) -> None:
    text = """<mujoco><option timestep=".002"/><worldbody><geom type="plane" size="0 0 1"/>
      <body name="carriage" mocap="true" pos="0 0 1"><body name="plate" pos="0 0 -.79">
        <joint type="slide" axis="0 0 1"/><geom type="box" size="2 2 .01" mass="3"/></body></body>
      <body name="ball" pos="0 0 .1"><freejoint/><geom size=".1" mass="1"/></body></worldbody></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="mocap"):
        model = wt.with_motion(load_text(tmp_path, text), "carriage", lambda t: (t * t / 2, 0, 1))
    run = wt.simulate(model, duration=0.1, progress=False)
    v = run.v[-1, model.slice("ball/joint")]
    np.testing.assert_allclose([v[1], np.hypot(v[3], v[5])], [0.1 / 2 / 0.1, 0.1 / 2], rtol=1e-6)


# --- files elsewhere ---


def test_other_files_may_be_anywhere_below_a_root_that_is_named(tmp_path: Path) -> None:
    """Included files and meshes beside the model's folder, and a mesh that an included file names from the model's."""
    for name in ("robots", "parts", "meshes"):
        (tmp_path / name).mkdir()
    (tmp_path / "meshes" / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    (tmp_path / "parts" / "arm.xml").write_text(
        """<mujocoinclude><asset><mesh name="t" file="../meshes/t.obj"/></asset></mujocoinclude>"""
    )
    text = """<mujoco><include file="../parts/arm.xml"/><worldbody>
      <body name="a"><joint/><geom type="mesh" mesh="t" density="6"/></body></worldbody></mujoco>"""
    (tmp_path / "robots" / "robot.xml").write_text(text)
    with pytest.raises(wt.FileError, match=r"'../parts/arm.xml', outside the model's folder: it is not opened"):
        wt.load(tmp_path / "robots" / "robot.xml")
    model = wt.load(tmp_path / "robots" / "robot.xml", root=tmp_path)
    assert model.bodies[0].mass == pytest.approx(1)
    assert model.geometries[0].file == (tmp_path / "meshes" / "t.obj").resolve()
    with pytest.raises(wt.FileError, match="outside the model's folder"):
        wt.load(tmp_path / "robots" / "robot.xml", root=tmp_path / "meshes")
    with pytest.raises(FileNotFoundError, match="root is 'nowhere', which is no folder"):
        wt.load(tmp_path / "robots" / "robot.xml", root="nowhere")


def test_a_file_may_name_others_anywhere_in_its_python_package(tmp_path: Path) -> None:
    """The folder of the outermost package around the file is its root, and no folder above that."""
    text = """<mujoco><include file="../parts/arm.xml"/><worldbody><body name="a"><joint/><geom size=".1"/></body>
      </worldbody></mujoco>"""
    for name in ("package/robots", "package/parts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "package/parts/arm.xml").write_text("<mujocoinclude><option timestep='0.01'/></mujocoinclude>")
    (tmp_path / "package/robots/robot.xml").write_text(text)
    with pytest.raises(wt.FileError, match="outside the model's folder"):
        wt.load(tmp_path / "package/robots/robot.xml")
    (tmp_path / "package/__init__.py").write_text("")
    assert wt.load(tmp_path / "package/robots/robot.xml").bodies[0].name == "a"
    (tmp_path / "package/robots/robot.xml").write_text(text.replace("../parts", "../../outside"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/arm.xml").write_text("<mujocoinclude><option timestep='0.01'/></mujocoinclude>")
    with pytest.raises(wt.FileError, match="outside the model's folder"):
        wt.load(tmp_path / "package/robots/robot.xml")


def test_contacts_that_overlap_at_the_start_are_left_out_on_request(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body name="a" pos="0 0 .05"><freejoint/><geom name="low" size=".1"/></body>
      <body name="b" pos="1 0 .3"><freejoint/><geom name="high" size=".1"/></body></worldbody></mujoco>"""
    model = wt.without_overlaps(load_text(tmp_path, text))
    assert [contact.name for contact in model.contacts] == ["high on floor", "low on high"]
    assert "left out: contacts that overlap: 'low on floor'" in model.source
    assert wt.without_overlaps(model) is model


def test_a_mesh_of_a_format_that_is_not_read_does_not_touch_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.msh").write_bytes(b"what only MuJoCo reads")
    text = """<mujoco><asset><mesh name="odd" file="odd.msh"/></asset><worldbody><geom type="plane" size="1 1 1"/>
      <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom name="skin" type="mesh" mesh="odd"/>
      <geom name="foot" size=".1"/></body></worldbody></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match=r"collisions of shapes that are not known.*'skin'"):
        model = load_text(tmp_path, text)
    assert [contact.first for contact in model.contacts] == ["foot"]


def test_heights_in_the_file_itself_beside_an_included_one(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text("<mujocoinclude><option timestep='.005'/></mujocoinclude>")
    text = """<mujoco><include file="part.xml"/>
      <asset><hfield name="hill" nrow="2" ncol="2" size="1 1 1 .1" elevation="0 1 0 1"/></asset>
      <worldbody><geom name="ground" type="hfield" hfield="hill"/>
      <body pos="0 0 3"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>"""
    model = load_text(tmp_path, text)
    assert [(contact.first, contact.second) for contact in model.contacts] == [("ball", "ground")]


# --- spelling, colours, options ---


def test_materials_of_tendons_are_not_missed(tmp_path: Path) -> None:
    text = """<mujoco><asset><material name="gold"/></asset><worldbody><site name="a"/>
      <body><joint axis="0 1 0"/><geom size=".1"/><site name="b" pos=".1 0 .3"/></body></worldbody>
      <tendon><spatial name="rope" material="gold" stiffness="3"><site site="a"/><site site="b"/></spatial></tendon>
    </mujoco>"""
    assert [tendon.name for tendon in load_text(tmp_path, text).tendons] == ["rope"]


def test_attributes_without_a_space_between_them_are_read_and_told(tmp_path: Path) -> None:
    text = """<mujoco><!-- a="b"c -->
      <worldbody><body><freejoint/>
        <geom name="hull"type='sphere'size=".1" pos="0 0 1"/></body></worldbody></mujoco>"""
    model = load_text(tmp_path, text)
    assert [geometry.name for geometry in model.geometries] == ["hull"]
    assert model.source.endswith(
        "- attributes that follow each other without a space are read as if there were one: line 3"
    )
    with pytest.raises(wt.FileError, match="line 3: not well-formed XML"):
        load_text(tmp_path, text.replace("'sphere'", "sphere"))


def test_options_of_the_solver_and_one_law_for_all_contacts_are_told(tmp_path: Path) -> None:
    text = """<mujoco><option integrator="RK4" cone="elliptic" impratio="10" timestep=".004"><flag override="enable"/>
      </option><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""
    with pytest.warns(wt.LeftOutWarning, match="one law for all contacts"):
        model = load_text(tmp_path, text)
    assert model.time_step == 0.004
    assert "options of MuJoCo's solver are not taken over: integrator = rk4, cone = elliptic, impratio = 10.0" in (
        model.source
    )
