"""MJCF: each conversion against MuJoCo's own compiled model, and what MuJoCo's compiler would refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt


def load_text(folder: Path, text: str, **options: str) -> wt.Model:
    path = folder / "robot.xml"
    path.write_text(text, encoding="utf-8")
    return wt.load(path, **options)


def faults(folder: Path, text: str, **options: str) -> list[str]:
    with pytest.raises(wt.FileError) as caught:
        load_text(folder, text, **options)
    return list(caught.value.faults)


def random_qpos(compiled: mujoco.MjModel, seed: int) -> np.ndarray:
    qpos = compiled.qpos0.copy()
    mujoco.mj_integratePos(compiled, qpos, np.random.default_rng(seed).normal(size=compiled.nv), 1.0)
    return qpos


def velocity_map(compiled: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """T with v_mujoco = T v: a free joint has its linear velocity in world axes, and first."""
    T = np.eye(compiled.nv)
    for joint in np.flatnonzero(compiled.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        k = compiled.jnt_dofadr[joint]
        T[k : k + 6, k : k + 6] = 0
        T[k : k + 3, k + 3 : k + 6] = data.xmat[compiled.jnt_bodyid[joint]].reshape(3, 3)
        T[k + 3 : k + 6, k : k + 3] = np.eye(3)
    return T


def assert_same_mechanics(model: wt.Model, compiled: mujoco.MjModel) -> None:
    """Poses of bodies and sites and the mass matrix, at random coordinates; q is qpos as it stands."""
    assert (model.nq, model.nv) == (compiled.nq, compiled.nv)
    np.testing.assert_allclose(model.home.q, compiled.qpos0, atol=1e-15)
    assert model.gravity.tolist() == compiled.opt.gravity.tolist()
    reference, data = wt.reference(model.tree), mujoco.MjData(compiled)
    for seed in range(3):
        data.qpos[:] = random_qpos(compiled, seed)
        mujoco.mj_forward(compiled, data)
        places = {compiled.body(k).name: (data.xpos[k], data.xmat[k]) for k in range(1, compiled.nbody)}
        places |= {compiled.site(k).name: (data.site_xpos[k], data.site_xmat[k]) for k in range(compiled.nsite)}
        for name, (position, rotation) in places.items():
            pose = reference.pose(name)(data.qpos)
            np.testing.assert_allclose(pose[:3, 3], position, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(pose[:3, :3].ravel(), rotation, atol=1e-13, err_msg=name)
        M = np.zeros((compiled.nv, compiled.nv))
        mujoco.mj_fullM(compiled, data, M)
        T = velocity_map(compiled, data)
        np.testing.assert_allclose(reference.mass_matrix(data.qpos), T.T @ M @ T, rtol=1e-12, atol=1e-13)


BODY = "<geom type='box' size='.1 .2 .3' pos='.1 0 0' euler='10 20 30'/>"
MODELS = {
    "defaults, degrees, euler angles, frames": f"""
        <compiler angle="degree" eulerseq="zyx"/><option gravity="1 2 -3"/>
        <default><joint damping="3" armature=".2"/>
          <default class="soft"><joint stiffness="4" type="slide"/></default></default>
        <worldbody><frame pos="1 0 0" euler="0 90 0"><body name="a" euler="30 0 0" pos="0 0 1">
          <joint name="h" axis="1 2 0" range="-30 40"/>{BODY}
          <frame pos="0 1 0"><body name="b" axisangle="0 1 0 45" childclass="soft">
            <joint name="s" axis="0 1 1"/>{BODY}<site name="tip" pos="0 0 1" quat="1 1 0 0"/></body></frame>
          </body></frame>
        </worldbody>""",
    "three joints in one body, anchors and references": f"""
        <compiler angle="radian"/><worldbody><body name="a" pos="0 0 1" quat="1 .2 .3 .4">
          <joint name="x" type="slide" axis="1 0 0" ref=".3" pos="5 5 5"/><joint name="y" type="slide" axis="0 1 0"/>
          <joint name="turn" axis="1 1 1" ref="-.4" pos=".1 .2 .3"/>
          <joint name="again" axis="0 1 0" pos="-.1 0 .2"/>{BODY}
          <body name="b" pos="1 0 0"><joint name="off" pos="0 .5 0" axis="0 0 1"/>{BODY}</body></body></worldbody>""",
    "free and ball joints": f"""
        <worldbody><body name="a" pos="1 2 3" quat="1 1 0 0"><freejoint name="f"/>{BODY}
          <body name="b" pos="0 0 1"><joint name="ball" type="ball" pos="0 0 .1" armature=".3"/>{BODY}
            <body name="c" pos="1 0 0">{BODY}</body></body></body></worldbody>""",
    "a hinge before a ball in one body": f"""
        <worldbody><body name="a">
          <joint name="h" axis="0 1 0" pos=".2 0 0"/><joint name="ball" type="ball"/>{BODY}</body></worldbody>""",
    "full inertia": """<worldbody><body name="a"><joint name="j"/>
          <inertial pos=".1 .2 .3" mass="2" fullinertia="1 1.1 1.2 .1 -.05 .02"/></body></worldbody>""",
    "total mass, and groups without weight": """<compiler inertiagrouprange="0 1"/>
        <worldbody><body name="a"><joint name="j"/><geom size=".1"/><geom size=".5" group="2"/>
          <body name="b" pos="1 0 0"><joint name="k" axis="0 1 0"/>
            <geom type="capsule" fromto="0 0 0 1 0 0" size=".05"/></body>
        </body></worldbody>""",
    "inertia from geoms in spite of an inertial": """<compiler inertiafromgeom="true"/>
        <worldbody><body name="a"><joint name="j"/><inertial pos="0 0 0" mass="7" diaginertia="1 1 1"/>
          <geom type="ellipsoid" size=".1 .2 .3" pos="1 0 0"/></body></worldbody>""",
    "a mesh that is given as vertices": """
        <asset><mesh name="t" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
        <worldbody><body name="a"><joint name="j"/>
          <geom type="mesh" mesh="t" pos="0 0 1" euler="0 0 90"/></body></worldbody>""",
}


@pytest.mark.parametrize("case", MODELS)
def test_same_mechanics_as_mujoco(tmp_path: Path, case: str) -> None:
    text = f"<mujoco model='m'>{MODELS[case]}</mujoco>"
    assert_same_mechanics(load_text(tmp_path, text), mujoco.MjModel.from_xml_string(text))


def test_a_spring_of_a_ball_joint_is_not_dropped_in_silence(tmp_path: Path) -> None:
    body = '<body name="a"><joint name="j" type="ball" stiffness="4" damping="3"/><geom size=".1"/></body>'
    with pytest.warns(wt.LeftOutWarning, match="springs of ball and free joints: 'j'"):
        model = load_text(tmp_path, f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    assert (model.joints[0].stiffness, model.joints[0].damping) == (0, 3)
    assert "- left out: springs of ball and free joints: 'j'" in model.source


def test_joint_data(tmp_path: Path) -> None:
    model = load_text(
        tmp_path,
        """<mujoco><compiler angle="degree"/><worldbody><body name="a">
        <joint name="j" range="-90 180" armature="2" damping="3" stiffness="4" springref="90" frictionloss="5"
               actuatorfrcrange="-7 7"/><geom size=".1"/></body></worldbody></mujoco>""",
    )
    (joint,) = model.joints
    assert (joint.rotor_inertia, joint.damping, joint.stiffness, joint.friction) == (2, 3, 4, 5)
    assert (joint.rest, joint.lower, joint.upper) == (np.pi / 2, -np.pi / 2, np.pi)
    assert joint.effort_limit == 7


def test_several_joints_pass_through_massless_bodies(tmp_path: Path) -> None:
    model = load_text(tmp_path, f"<mujoco>{MODELS['three joints in one body, anchors and references']}</mujoco>")
    assert [(j.name, j.kind, j.parent, j.child) for j in model.joints] == [
        ("x", "prismatic", "world", "a/x"),
        ("y", "prismatic", "a/x", "a/y"),
        ("turn", "revolute", "a/y", "a/turn"),
        ("again", "revolute", "a/turn", "a/again"),
        ("a/weld", "weld", "a/again", "a"),
        ("off", "revolute", "a", "b/off"),
        ("b/weld", "weld", "b/off", "b"),
    ]
    assert [body.name for body in model.bodies if not body.massless] == ["a", "b"]


# --- what MuJoCo's compiler refuses ---


def test_massless_bodies_stay_massless(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body name="a"><joint name="j"/>
      <body name="point"><joint/><inertial pos="1 0 0" mass="1"/></body>
      <body name="rod"><joint/><inertial pos="0 0 0" mass="2" diaginertia="3 3 0"/></body>
      <body name="zero"><joint/><inertial pos="0 0 0" mass="0" diaginertia="0 0 0"/></body>
      <body name="hollow"><joint/><geom size=".1" mass="0"/></body></body></worldbody></mujoco>"""
    with pytest.raises(ValueError, match="mass and inertia of moving bodies"):
        mujoco.MjModel.from_xml_string(text)
    model = load_text(tmp_path, text)
    bodies = {body.name: body for body in model.bodies}
    assert [name for name, body in bodies.items() if body.massless] == ["a", "zero", "hollow"]
    assert (bodies["point"].mass, bodies["point"].inertia.any()) == (1, False)
    assert np.diag(bodies["rod"].inertia).tolist() == [3, 3, 0]


def test_the_total_mass_is_shared_by_real_masses(tmp_path: Path) -> None:
    text = """<mujoco><compiler settotalmass="5"/><worldbody><body name="a"><joint/><geom size=".1"/>
      <body name="b"><joint/></body></body></worldbody></mujoco>"""
    model = load_text(tmp_path, text)
    assert [body.mass for body in model.bodies] == [5, 0]


# --- equalities ---

PAIR = """<worldbody>
  <body name="a" pos="0 0 1"><joint name="ja" ref=".1"/><geom size=".1"/><site name="s1" pos="0 1 0"/></body>
  <body name="b" pos="1 0 0" euler="0 0 45"><joint name="jb" axis="0 1 0" ref=".2"/><geom size=".1"/>
    <site name="s2"/></body></worldbody>"""


ROPED = """<compiler angle='radian'/><worldbody><site name="nail" pos=".3 0 0"/>
<body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0" ref=".1"/><geom size=".1"/><site name="middle" pos="0 .4 0"/>
  <body name="b" pos="1 0 0"><joint name="jb" axis="1 1 0" ref=".2"/><geom size=".1"/><site name="tip" pos="0 .5 .2"/>
  </body></body></worldbody>"""


def equality(folder: Path, inner: str) -> tuple[wt.Model, object]:
    text = f"<mujoco><compiler angle='radian'/>{PAIR}<equality>{inner}</equality></mujoco>"
    model = load_text(folder, text)
    return model, model.constraints[0]


@pytest.mark.parametrize(
    ("inner", "kind", "on"),
    [
        ("<connect name='c' body1='a' body2='b' anchor='1 2 3'/>", "point", ("c/1", "c/2")),
        ("<connect name='c' body1='a' anchor='0 .5 0'/>", "point", ("c/1", "c/2")),
        ("<connect name='c' site1='s1' site2='s2'/>", "point", ("s1", "s2")),
        ("<weld name='c' body1='a' body2='b'/>", "weld", ("c/1", "b")),
        ("<weld name='c' body1='a' body2='b' anchor='1 2 3'/>", "weld", ("c/1", "c/2")),
        ("<weld name='c' body1='a' body2='b' anchor='0 1 0' relpose='1 2 3 1 0 2 1'/>", "weld", ("c/1", "c/2")),
        ("<weld name='c' site1='s1' site2='s2'/>", "weld", ("s1", "s2")),
    ],
)
def test_connect_and_weld_tie_two_frames(tmp_path: Path, inner: str, kind: str, on: tuple[str, str]) -> None:
    """The gap between the two frames is MuJoCo's own residual."""
    model, constraint = equality(tmp_path, inner)
    assert (constraint.kind, constraint.on) == (kind, on)
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    data = mujoco.MjData(compiled)
    data.qpos[:] = random_qpos(compiled, 5)
    mujoco.mj_forward(compiled, data)
    first, second = (wt.reference(model.tree).pose(name)(data.qpos) for name in on)
    np.testing.assert_allclose(first[:3, 3] - second[:3, 3], data.efc_pos[:3], atol=1e-14)
    if kind == "weld":
        cosine = (np.trace(first[:3, :3].T @ second[:3, :3]) - 1) / 2
        # MuJoCo's is the vector part of a quaternion
        assert np.linalg.norm(data.efc_pos[3:6]) == pytest.approx(np.sqrt((1 - cosine) / 2), rel=1e-12)


def test_joint_equalities_are_couplings(tmp_path: Path) -> None:
    _, linear = equality(tmp_path, "<joint joint1='ja' joint2='jb' polycoef='.5 2 0 0 0' active='false'/>")
    assert (linear.kind, linear.on, linear.parameters["active"]) == ("coupling", ("ja", "jb"), False)
    np.testing.assert_allclose(linear.parameters["coefficients"], (0.1 + 0.5 - 2 * 0.2, 2))
    _, curved = equality(tmp_path, "<joint joint1='ja' joint2='jb' polycoef='.5 2 3 4 5'/>")
    at = 0.7
    expected = 0.1 + np.polyval([5, 4, 3, 2, 0.5], at - 0.2)
    np.testing.assert_allclose(np.polyval(curved.parameters["coefficients"][::-1], at), expected, rtol=1e-14)
    _, held = equality(tmp_path, "<joint joint1='ja' polycoef='.5 0 0 0 0'/>")
    assert (held.on, held.parameters["coefficients"]) == (("ja",), (0.6,))


@pytest.mark.parametrize(
    ("tendons", "kind"),
    [
        ("tendon1='t' polycoef='.2 0 0 0 0'", "gear"),
        ("tendon1='t' tendon2='u' polycoef='.1 -.5 0 0 0'", "gear"),
        ("tendon1='rope' polycoef='.3 0 0 0 0'", "distance"),
        ("tendon1='line' polycoef='.3 0 0 0 0'", "cable"),
        ("tendon1='line' tendon2='rope' polycoef='.1 -.7 0 0 0'", "cable"),
    ],
)
def test_equalities_of_tendons_are_gears_rods_and_cables(tmp_path: Path, tendons: str, kind: str) -> None:
    lengths = """<tendon><fixed name='t'><joint joint='ja' coef='2'/><joint joint='jb' coef='-3'/></fixed>
        <fixed name='u'><joint joint='jb' coef='1.5'/></fixed>
        <spatial name='rope'><site site='nail'/><site site='tip'/></spatial>
        <spatial name='line'><site site='nail'/><site site='middle'/><site site='tip'/>
          <pulley divisor='3'/><site site='middle'/><site site='nail'/></spatial></tendon>"""
    text = f"<mujoco>{ROPED}{lengths}<equality><tendon {tendons}/></equality></mujoco>"
    model = load_text(tmp_path, text)
    assert [c.kind for c in model.constraints] == [kind]
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    data.qpos[:] = (0.4, -0.7)
    mujoco.mj_forward(compiled, data)
    ref = wt.reference(model)
    residual = ref.constraint_residual(data.qpos)[0]
    if kind == "distance":  # MuJoCo's residual is |d| − L, ours (|d|² − L²) / 2L
        length = model.constraints[0].parameters["length"]
        residual = np.sqrt(length * (length + 2 * residual)) - length
    np.testing.assert_allclose(residual, data.efc_pos[0], atol=1e-14)
    ours, theirs = ref.constraint_jacobian(data.qpos)[0], data.efc_J.reshape(-1, compiled.nv)[0]
    np.testing.assert_allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs), atol=1e-14)


def test_what_only_mujoco_knows_is_kept(tmp_path: Path) -> None:
    fixed = [
        f"<fixed name='{name}'><joint joint='{joint}' coef='1'/></fixed>" for name, joint in (("t", "ja"), ("u", "jb"))
    ]
    tendon = f"<tendon>{''.join(fixed)}</tendon>"
    curved = "<equality><tendon tendon1='t' tendon2='u' polycoef='0 1 1 0 0'/></equality>"
    model = load_text(tmp_path, f"<mujoco>{PAIR}{tendon}{curved}</mujoco>")
    assert [(c.kind, c.on) for c in model.constraints] == [("mjcf_tendon", ("t", "u"))]
    with pytest.raises(wt.ModelError, match="'equality': only MuJoCo knows 'mjcf_tendon'"):
        wt.diagnose(model)


# --- the rest of a file ---


def test_the_key_frame_home_is_the_start(tmp_path: Path) -> None:
    keys = "<keyframe><key name='up' qpos='9 9'/><key name='home' qpos='.3 -.4'/></keyframe>"
    model = load_text(tmp_path, f"<mujoco>{PAIR}{keys}</mujoco>")
    assert model.home.q.tolist() == [0.3, -0.4]
    assert "the key frame 'home' is the start state" in model.source


def test_what_is_not_used_is_named(tmp_path: Path) -> None:
    with pytest.warns(wt.LeftOutWarning) as warned:
        model = load_text(
            tmp_path,
            f"""<mujoco><option density='1.2'/>{PAIR}<tendon><fixed name='t'><joint joint='ja' coef='1'/></fixed>
            <fixed name='spring' stiffness='2'><joint joint='jb' coef='1'/></fixed></tendon>
            <actuator><motor name='m' joint='ja'/><motor joint='jb'/>
              <general name='slow' joint='ja' dyntype='user' actdim='1'/>
              <general name='odd' tendon='t' gaintype='user'/></actuator>
            <sensor><jointpos name='angle' joint='ja'/><magnetometer name='p' site='s'/></sensor>
            <contact><exclude body1='a' body2='b'/></contact></mujoco>""",
        )
    assert [actuator.name for actuator in model.actuators] == ["m", "jb"]
    left_out = [
        "actuators that have activation dynamics (user): 'slow'",
        "actuators that have another law than a linear one or a muscle's: 'odd'",
        "sensors (magnetometer): 'p'",
    ]
    assert model.source.splitlines() == [
        f"MJCF file '{tmp_path}/robot.xml'",
        "- contacts, limits and equalities are rigid: MuJoCo's softness (solref, solimp) is not taken over",
        *[f"- left out: {text}" for text in left_out],
    ]
    (warning,) = warned
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"load: robot.xml: left out of the model: {'; '.join(left_out)}. The model's source tells more"
    )


def test_geometry(tmp_path: Path) -> None:
    with pytest.warns(wt.LeftOutWarning, match="whose file is not there or not read: 'skin'"):
        model = load_text(
            tmp_path,
            """<mujoco><asset><mesh name="hull" file="../none/hull.stl" scale="2 2 2"/>
          <material name="red" rgba="1 0 0 1"/></asset><worldbody>
        <geom name="ground" type="plane" size="1 1 1"/><body name="a"><joint/><geom name="ball" size=".1"/>
        <geom name="bar" type="capsule" fromto="0 0 0 0 0 2" size=".1" material="red" contype="0" conaffinity="0"/>
        <geom name="brick" type="box" size="1 2 3" group="3" friction=".5"/>
        <geom name="skin" type="mesh" mesh="hull" mass="0" pos="1 2 3"/></body></worldbody></mujoco>""",
        )
    shapes = {g.name: g for g in model.geometries}
    assert [(g.body, g.kind) for g in model.geometries] == [
        ("world", "half_space"),
        *(("a", kind) for kind in ("sphere", "capsule", "box", "mesh")),
    ]
    assert shapes["ball"].parameters["radius"] == 0.1
    assert (shapes["bar"].parameters["length"], shapes["bar"].pose[2, 3], shapes["bar"].collides) == (2, 1, False)
    assert shapes["bar"].parameters["color"] == (1, 0, 0, 1)
    assert (shapes["brick"].parameters["size"], shapes["brick"].visible) == ((2, 4, 6), False)
    assert shapes["brick"].parameters["friction"][0] == 0.5
    assert (shapes["skin"].parameters["file"], shapes["skin"].parameters["scale"]) == ("../none/hull.stl", (2, 2, 2))
    assert shapes["skin"].pose[:3, 3].tolist() == [1, 2, 3]


def test_a_mesh_file_gives_inertia(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    text = """<mujoco><compiler meshdir="../meshes"/><asset><mesh name="t" file="t.obj"/></asset>
      <worldbody><body name="a"><joint/><geom type="mesh" mesh="t" density="6"/></body></worldbody></mujoco>"""
    (body,) = load_text(tmp_path / "model", text).bodies
    assert body.mass == pytest.approx(1)
    np.testing.assert_allclose(body.center, [0.25] * 3, atol=1e-6)  # MuJoCo keeps vertices in single precision


def test_included_files(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(
        "<mujocoinclude><body name='b'><joint name='j'/><geom size='.1'/></body></mujocoinclude>"
    )
    model = load_text(tmp_path, "<mujoco><worldbody><include file='part.xml'/></worldbody></mujoco>")
    assert [body.name for body in model.bodies] == ["b"]


def test_free_base(tmp_path: Path) -> None:
    welded = "<mujoco><worldbody><body name='a' pos='1 2 3'><geom size='.1'/></body></worldbody></mujoco>"
    model = load_text(tmp_path, welded, base="free")
    assert [(j.name, j.kind) for j in model.joints] == [("root_joint", "free")]
    assert model.home.q.tolist() == [1, 2, 3, 1, 0, 0, 0]
    free = welded.replace("<geom", "<freejoint name='f'/><geom")
    assert [(j.name, j.kind) for j in load_text(tmp_path, free, base="free").joints] == [("f", "free")]
    assert [(j.name, j.kind) for j in load_text(tmp_path, free).joints] == [("f", "free")]
    assert faults(tmp_path, f"<mujoco>{PAIR}</mujoco>", base="free") == [
        "base='free' needs one body below <worldbody>, without joints or with a free one: "
        "write <freejoint/> into the file instead"
    ]


def test_names_are_made_for_what_has_none(tmp_path: Path) -> None:
    model = load_text(tmp_path, "<mujoco><worldbody><body><joint/><geom size='.1'/><site/></body></worldbody></mujoco>")
    assert [model.bodies[0].name, model.joints[0].name] == ["body_1", "body_1/joint"]
    assert [model.geometries[0].name, model.frames[0].name] == ["body_1/geom", "body_1/site"]


# --- errors ---


def test_without_mujoco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(wt.MissingExtraError) as caught:
        load_text(tmp_path, "<mujoco/>")
    assert str(caught.value) == "reading MJCF needs the package 'mujoco': pip install 'whippletree[mjcf]'"


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        (
            "\n<worldbody><bdy/></worldbody>",
            [
                "line 2: MuJoCo says: XML Error: Schema violation: unrecognized element; Element 'bdy', line 2",
            ],
        ),
        (
            "<worldbody>\n<body name='a' pos='nan 0 0'/>\n<body pos='inf 0 0'/></worldbody>",
            [
                "line 2: <body> pos='nan 0 0' holds something that is not a finite number",
                "line 3: <body> pos='inf 0 0' holds something that is not a finite number",
            ],
        ),
        (
            "<worldbody><body name='arm'>\n<geom type='mesh' mesh='m'/></body></worldbody>"
            "<equality>\n<weld body1='amr'/>\n<joint joint1='j'/>\n<connect site1='s' site2='t'/></equality>",
            [
                "line 2: geom 'arm/geom': there is no 'm' among the meshes",
                "line 3: equality 'equality_0': there is no 'amr' among the bodies. Did you mean 'arm'?",
                "line 4: equality 'equality_1': there is no 'j' among the joints",
                "line 5: equality 'equality_2': there is no 's' among the sites",
                "line 5: equality 'equality_2': there is no 't' among the sites",
            ],
        ),
        (
            "<worldbody>\n<body name='a'><joint/><inertial mass='-1' pos='0 0 0' diaginertia='1 1 1'/></body>"
            "</worldbody>",
            ["line 2: body 'a': mass -1 is negative"],
        ),
        (
            "<worldbody>\n<body name='a'><joint/><inertial mass='1' pos='0 0 0' diaginertia='1 1 3'/></body>"
            "</worldbody>",
            [
                "line 2: MuJoCo says: Error: inertia must satisfy A + B >= C; use 'balanceinertia' to fix; "
                "Element name 'a', id 1, line 2"
            ],
        ),
        (
            "<asset>\n<mesh name='m' file='../../far/away.stl'/></asset><worldbody>"
            "<body name='a'><joint/><geom type='mesh' mesh='m'/></body></worldbody>",
            [
                "line 2: mesh 'm' gives a body its inertia, and its file '../../far/away.stl' is outside the model's "
                "folder: it is not opened. wt.load(…, root=FOLDER) names a wider one; or give the body an <inertial>"
            ],
        ),
        (
            "<asset>\n<mesh name='m' file='none.stl'/></asset><worldbody>"
            "<body name='a'><joint/><geom type='mesh' mesh='m'/></body></worldbody>",
            ["line 2: mesh 'm' gives a body its inertia, and its file 'none.stl' does not exist"],
        ),
        (
            "\n<include file='none.xml'/>\n<include file='../other.xml'/>\n<deformable/>",
            [
                "line 2: <include> names the file 'none.xml', which does not exist",
                "line 3: <include> names '../other.xml', outside the model's folder: it is not opened. "
                "wt.load(…, root=FOLDER) names a wider one",
                "line 4: <deformable>: deformable bodies are not supported",
            ],
        ),
    ],
)
def test_faults(tmp_path: Path, inner: str, found: list[str]) -> None:
    folder = tmp_path / "deep" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "other.xml").write_text("<mujocoinclude/>")
    assert faults(folder, f"<mujoco>{inner}</mujoco>") == found


def test_warnings_are_notes_and_leave_no_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = mujoco.get_mju_user_warning()
    text = "<mujoco><compiler settotalmass='1'/><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    assert [body.mass for body in load_text(tmp_path, text).bodies] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]
    assert mujoco.get_mju_user_warning() is before


def many_balls(more: str = "") -> str:
    """A row of balls over a floor; ``more`` is said of the third one."""
    bodies = "".join(
        f'<body pos="{0.2 * k} 0 1"><freejoint/>'
        f'<geom name="ball {k}" type="sphere" size="0.05" mass="1" {more if k == 3 else ""}/></body>'
        for k in range(28)
    )
    floor = '<geom name="floor" type="plane" size="1 1 1"/>'
    return f"<mujoco><worldbody>{floor}{bodies}</worldbody></mujoco>"


def test_many_geoms_that_touch_alike_are_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group stands for the pairs that would be written out; where one geom differs, they are."""
    grouped, uneven = load_text(tmp_path, many_balls()), load_text(tmp_path, many_balls('friction="0.5 0 0"'))
    assert len(grouped.contact_groups) == 1
    assert not grouped.contacts
    assert not uneven.contact_groups
    assert len(uneven.contacts) == 28 * 29 // 2
    monkeypatch.setattr("whippletree.io.mjcf.collisions.SINGLY", 100)
    listed = load_text(tmp_path, many_balls())
    assert not listed.contact_groups
    told = [{(c.name, c.first, c.second, c.friction, c.margin) for c in model.pairs} for model in (grouped, listed)]
    assert told[0] == told[1]
