"""URDF: what each element becomes, every real robot, and every fault of a broken file at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import whippletree as wt
from whippletree.io.rotations import from_rpy

ROBOTS = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
BROKEN = {
    "falcon_description/urdf/falcon.urdf": "unknown child 'Z_propeller'",
    "ur_description/urdf/ur3.urdf": "the robot has no links",
}
"""Files of example-robot-data that describe no robot, and why: a joint to a link that is not there; an empty file."""


def robot_files() -> list[str]:
    return sorted(str(path.relative_to(ROBOTS)) for path in ROBOTS.rglob("*.urdf"))


def load_text(folder: Path, text: str, **options: str) -> wt.Model:
    path = folder / "robot.urdf"
    path.write_text(text, encoding="utf-8")
    return wt.load(path, **options)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(wt.FileError) as caught:
        load_text(folder, text)
    return list(caught.value.faults)


# --- real robots ---


def test_there_are_robots_to_load() -> None:
    assert len(robot_files()) >= 75


@pytest.mark.filterwarnings("ignore:.*that are not simple or differential ones:whippletree.errors.LeftOutWarning")
@pytest.mark.parametrize("name", robot_files())
def test_every_real_robot_loads(name: str) -> None:
    path = ROBOTS / name
    if name in BROKEN:
        with pytest.raises(wt.FileError, match=BROKEN[name]):
            wt.load(path)
        return
    fixed, free = wt.load(path), wt.load(path, base="free")
    peer = pin.buildModelFromUrdf(str(path))
    assert (fixed.nv, free.nv) == (peer.nv, peer.nv + 6)
    masses = {body.name: body.mass for body in fixed.bodies}
    # Pinocchio keeps the root link's inertia of a fixed base out of the model: compare the floating one
    floating = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    assert sum(masses.values()) == pytest.approx(pin.computeTotalMass(floating), rel=1e-12)
    moving = {joint.name for joint in fixed.joints if joint.kind != "weld"}
    assert moving == set(peer.names) - {"universe"}


# --- what an element becomes ---

ARM = """<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0.2 0 0" rpy="0 0 1.5707963267948966"/><mass value="2"/>
      <inertia ixx="0.01" iyy="0.03" izz="0.035" ixy="0.001" ixz="0" iyz="0"/></inertial>
    <visual name="skin"><origin xyz="0 0 1"/><geometry><mesh filename="package://arm/meshes/upper.stl"/></geometry>
      <material name="red"/></visual>
    <collision><geometry><cylinder radius="0.1" length="0.5"/></geometry></collision>
  </link>
  <link name="fore"/>
  <material name="red"><color rgba="1 0 0 1"/></material>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.5" rpy="1.5708 0 0"/><axis xyz="0 3 4"/>
    <limit lower="-2" upper="1.5" effort="9" velocity="inf"/><dynamics damping="0.1" friction="0.2"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/>
    <limit effort="5" velocity="3"/><mimic joint="shoulder" multiplier="-2" offset="0.1"/></joint>
  <gazebo reference="base"/><gazebo/>
</robot>"""


@pytest.fixture
def arm(tmp_path: Path) -> wt.Model:
    return load_text(tmp_path, ARM)


def test_root_is_welded_or_free(tmp_path: Path, arm: wt.Model) -> None:
    assert [(j.name, j.kind, j.parent, j.child) for j in arm.joints] == [
        ("root_joint", "weld", "world", "base"),
        ("shoulder", "revolute", "base", "upper"),
        ("elbow", "revolute", "upper", "fore"),
    ]
    assert load_text(tmp_path, ARM, base="free").joints[0].kind == "free"


def test_inertia_is_turned_into_body_axes(arm: wt.Model) -> None:
    upper = arm.bodies[arm.body_index("upper")]
    assert upper.mass == 2
    assert upper.center.tolist() == [0.2, 0, 0]
    # a quarter turn about z, exact after cleaning: x and y change places, xy changes sign
    assert upper.inertia.tolist() == [[0.03, -0.001, 0], [-0.001, 0.01, 0], [0, 0, 0.035]]


def test_links_without_inertial_are_massless(arm: wt.Model) -> None:
    assert [body.massless for body in arm.bodies] == [True, False, True]


def test_joint_data(arm: wt.Model) -> None:
    shoulder, elbow = arm.joints[1:]
    np.testing.assert_allclose(shoulder.axis, [0, 0.6, 0.8], rtol=1e-15)
    assert elbow.axis.tolist() == [1, 0, 0]
    assert (shoulder.lower, shoulder.upper, shoulder.effort_limit, shoulder.velocity_limit) == (-2, 1.5, 9, np.inf)
    assert (elbow.lower, elbow.upper, elbow.effort_limit, elbow.velocity_limit) == (-np.inf, np.inf, 5, 3)
    assert (shoulder.damping, shoulder.friction) == (0.1, 0.2)


def test_an_angle_of_1_5708_is_data(arm: wt.Model) -> None:
    rotation = arm.joints[1].pose[:3, :3]
    assert rotation[1, 1] == np.cos(1.5708)
    assert rotation[1, 1] != 0


def test_mimic_is_a_coupling(arm: wt.Model) -> None:
    (coupling,) = arm.constraints
    assert (coupling.kind, coupling.on) == ("coupling", ("elbow", "shoulder"))
    assert dict(coupling.parameters) == {"coefficients": (0.1, -2.0)}
    assert arm.tree.constraints == ()


def test_a_fourth_factor_of_a_mesh_is_told(tmp_path: Path) -> None:
    text = """<robot name="r"><link name="a"><visual><geometry><mesh filename="a.stl" scale="2 2 2 {w}"/></geometry>
      </visual></link></robot>"""
    (tmp_path / "a.urdf").write_text(text.format(w=1))
    model = wt.load(tmp_path / "a.urdf")
    assert model.geometries[0].parameters["scale"] == (2, 2, 2)
    assert "scale='2 2 2 1': its fourth number has no use" in model.source
    (tmp_path / "a.urdf").write_text(text.format(w=3))
    with pytest.raises(wt.FileError, match="has 4 numbers, expected 3"):
        wt.load(tmp_path / "a.urdf")


def test_geometry_is_kept(arm: wt.Model) -> None:
    skin, shell = arm.geometries
    assert (skin.name, skin.kind, skin.visible, skin.collides) == ("upper/visual/0", "mesh", True, False)
    assert dict(skin.parameters) == {
        "file": "package://arm/meshes/upper.stl",
        "scale": (1.0, 1.0, 1.0),
        "label": "skin",
        "color": (1.0, 0.0, 0.0, 1.0),
    }
    assert skin.pose[:3, 3].tolist() == [0, 0, 1]
    assert (shell.name, shell.kind, shell.visible, shell.collides) == ("upper/collision/0", "cylinder", False, True)
    assert dict(shell.parameters) == {"radius": 0.1, "length": 0.5}


def test_the_report_says_what_was_done(tmp_path: Path, arm: wt.Model) -> None:
    assert arm.source.splitlines() == [
        f"URDF file '{tmp_path}/robot.urdf'",
        "- freed 1 rotation of rounding noise: entries within 4e-16 of 0 or ±1 are exactly that",
        "- not there: the mesh files 'package://arm/meshes/upper.stl' of 'upper/visual/0'",
        "- not used: 2 × <robot/gazebo>",
    ]


def test_fixed_axis_angles_are_roll_then_pitch_then_yaw() -> None:
    x, y, z = (from_rpy(*angles) for angles in ((0.3, 0, 0), (0, -0.5, 0), (0, 0, 0.7)))
    np.testing.assert_allclose(from_rpy(0.3, -0.5, 0.7), z @ y @ x, atol=1e-15)


@pytest.mark.parametrize(("urdf", "kind"), [("floating", "free"), ("planar", "planar"), ("prismatic", "prismatic")])
def test_joint_types(tmp_path: Path, urdf: str, kind: str) -> None:
    model = load_text(tmp_path, f"<robot name='r'><link name='a'/><link name='b'/>{joint('j', 'a', 'b', urdf)}</robot>")
    assert model.joints[1].kind == kind


def joint(name: str, parent: str, child: str, kind: str = "fixed", inner: str = "") -> str:
    return f"<joint name='{name}' type='{kind}'><parent link='{parent}'/><child link='{child}'/>{inner}</joint>"


def test_a_quaternion_may_replace_the_angles(tmp_path: Path) -> None:
    origin = "<origin quat_xyzw='0 0 1 1'/>"
    model = load_text(
        tmp_path, f"<robot><link name='a'/><link name='b'/>{joint('j', 'a', 'b', 'fixed', origin)}</robot>"
    )
    assert model.joints[1].pose[:3, :3].tolist() == [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    assert model.name == "robot"


# --- a link called world ---


def test_a_root_link_called_world_is_the_world(tmp_path: Path) -> None:
    text = f"<robot name='r'><link name='world'/><link name='a'/>{joint('j', 'world', 'a', 'revolute')}</robot>"
    model = load_text(tmp_path, text)
    assert [(j.name, j.parent, j.child) for j in model.joints] == [("j", "world", "a")]
    assert "the root link 'world' is the world itself" in model.source
    afloat = load_text(tmp_path, text, base="free")
    assert [(j.name, j.kind, j.parent, j.child) for j in afloat.joints] == [
        ("root_joint", "free", "world", "world_link"),
        ("j", "revolute", "world_link", "a"),
    ]
    assert "the link 'world' is the body 'world_link'" in afloat.source


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_a_world_that_already_lets_its_robot_float_stays(tmp_path: Path, base: str) -> None:
    text = f"<robot name='r'><link name='world'/><link name='a'/>{joint('j', 'world', 'a', 'floating')}</robot>"
    model = load_text(tmp_path, text, base=base)
    assert [(j.name, j.kind, j.parent) for j in model.joints] == [("j", "free", "world")]


def test_a_world_with_mass_is_a_body(tmp_path: Path) -> None:
    heavy = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
    model = load_text(tmp_path, f"<robot name='r'><link name='world'>{heavy}</link></robot>")
    assert [(b.name, b.mass) for b in model.bodies] == [("world_link", 1)]


def test_a_joint_called_root_joint_keeps_its_name(tmp_path: Path) -> None:
    text = f"<robot name='r'><link name='a'/><link name='b'/>{joint('root_joint', 'a', 'b')}</robot>"
    assert [j.name for j in load_text(tmp_path, text).joints] == ["root_joint_2", "root_joint"]


# --- mimic, meshes, inertias that do not fit ---


def test_a_mimic_without_leader_is_kept_and_cannot_be_evaluated(tmp_path: Path) -> None:
    inner = "<mimic joint='lost' multiplier='2'/>"
    text = f"<robot name='r'><link name='a'/><link name='b'/>{joint('j', 'a', 'b', 'continuous', inner)}</robot>"
    model = load_text(tmp_path, text)
    assert [(c.kind, c.on) for c in model.constraints] == [("unresolved_coupling", ("j",))]
    with pytest.raises(wt.ModelError, match=r"'mimic j': its file lacks the joint '\w+' that 'j' mimics: correct the"):
        wt.diagnose(model)
    assert "joint 'j': <mimic> names the unknown joint 'lost'" in model.source


def test_a_mesh_is_found_only_inside_the_package(tmp_path: Path) -> None:
    package = tmp_path / "arm"
    for folder in ("urdf", "meshes"):
        (package / folder).mkdir(parents=True)
    (package / "package.xml").write_text("<package/>")
    (package / "meshes" / "in.stl").write_text("")
    (tmp_path / "out.stl").write_text("")
    (package / "meshes" / "link.stl").symlink_to(tmp_path / "out.stl")
    names = ["package://arm/meshes/in.stl", "../meshes/in.stl", "../../out.stl", "package://arm/../out.stl"]
    names += [
        "../meshes/link.stl",
        f"file://{tmp_path}/out.stl",
        "/etc/passwd",
        "x" * 5000,
        "package://arm",
        "http://a/b.stl",
    ]
    shapes = "".join(f"<visual><geometry><mesh filename='{name}'/></geometry></visual>" for name in names)
    model = load_text(package / "urdf", f"<robot name='r'><link name='a'>{shapes}</link></robot>")
    found = [geometry.parameters.get("path") for geometry in model.geometries]
    assert [geometry.parameters["file"] for geometry in model.geometries] == names
    assert found[:2] == [str((package / "meshes" / "in.stl").resolve())] * 2
    assert found[2:] == [None] * (len(names) - 2)


def test_an_impossible_inertia_is_kept_and_told(tmp_path: Path) -> None:
    impossible = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='3' ixy='0' ixz='0' iyz='0'/></inertial>"
    model = load_text(tmp_path, f"<robot name='r'>\n<link name='a'>{impossible}</link></robot>")
    assert np.diag(model.bodies[0].inertia).tolist() == [1, 1, 3]
    assert "kept, though no distribution of mass has such inertias (triangle inequality): 'a' (line 2)" in model.source


# --- broken files: every fault at once, with its line ---

BAD = """<robot name="bad">
  <link name="base"/>
  <link name="base"/>
  <link/>
  <link name="upper">
    <inertial><origin xyz="0 0" rpy="0 0 abc"/><mass value="-2"/><inertia ixx="1" iyy="1" ixy="0" ixz="0" iyz="NaN"/>
    </inertial>
    <visual><geometry><box size="1 1 -1"/></geometry></visual>
    <visual><geometry><sphere/></geometry></visual>
  </link>
  <link name="fore"><inertial/></link>
  <joint name="shoulder" type="revolut"><parent link="base"/><child link="uper"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><axis xyz="0 0 0"/>
    <limit lower="2" upper="1" effort="-1" velocity="fast"/></joint>
  <joint name="wrist" type="fixed"><parent link="base"/><child link="fore"/></joint>
  <joint name="tool" type="prismatic"><parent/></joint>
  <joint type="fixed"><parent link="base"/><child link="upper"/></joint>
  <joint name="rotor" type="fixed"><parent link="base"/><child link="upper"/><mimic joint="rotor"/></joint>
</robot>"""


def test_every_fault_is_listed_with_its_line(tmp_path: Path) -> None:
    assert faults(tmp_path, BAD) == [
        "lines 2, 3: body or frame 'base' is declared 2 times: give each its own name",
        "line 4: a link has no name",
        "line 5: body 'upper': mass -2.0 is negative",
        "line 6: link 'upper': <origin> xyz='0 0' has 2 numbers, expected 3",
        "line 6: link 'upper': <origin> rpy='0 0 abc' holds something that is not a finite number",
        "line 6: link 'upper': <inertia> has no izz",
        "line 6: link 'upper': <inertia> iyz='NaN' is not a finite number",
        "line 8: link 'upper': <box> size='1 1 -1' is negative",
        "line 9: link 'upper': <sphere> has no radius",
        "line 11: link 'fore': <inertial> has no <mass>",
        "line 11: link 'fore': <inertial> has no <inertia>",
        "line 12: joint 'shoulder' has type 'revolut'; known: revolute, continuous, prismatic, fixed, floating, "
        "planar, spherical, ball. Did you mean 'revolute'?",
        "line 12: joint 'shoulder': unknown child 'uper'. Did you mean 'upper'?",
        "line 13: joint 'elbow': <axis> xyz='0 0 0' has no direction",
        "line 14: joint 'elbow': <limit> effort='-1' is negative",
        "line 14: joint 'elbow': <limit> velocity='fast' is not a number",
        "line 16: joint 'tool': <parent> has no link",
        "line 16: joint 'tool' has no <child>",
        "line 17: a joint has no name",
        "line 18: joint 'rotor': <mimic> names the joint itself",
    ]


def test_the_message_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(wt.FileError) as caught:
        load_text(tmp_path, "<robot name='r'>\n<link name='a'/>\n<link name='b'/></robot>")
    assert str(caught.value) == (
        f"{tmp_path}/robot.urdf: "
        "line 3: 2 links have no parent: 'a' (line 2), 'b' (line 3); "
        "a URDF is one tree, so every link but one needs a joint"
    )


def test_a_cycle_is_named(tmp_path: Path) -> None:
    links = "".join(f"<link name='{name}'/>" for name in "abcd")
    ring = "\n".join([joint("ab", "a", "b"), joint("bc", "b", "c"), joint("ca", "c", "a"), joint("cd", "c", "d")])
    assert faults(tmp_path, f"<robot name='r'>{links}\n{ring}</robot>") == [
        "line 2: a cycle of joints 'ab', 'bc', 'ca' ('a' → 'b' → 'c' → 'a'): none of these links hangs from the root"
    ]
    alone = joint("aa", "a", "a")
    assert faults(tmp_path, f"<robot name='r'><link name='a'/>\n{alone}</robot>") == [
        "line 2: a cycle of joints 'aa' ('a' → 'a'): none of these links hangs from the root"
    ]


def test_two_of_what_comes_once(tmp_path: Path) -> None:
    text = "<robot name='r'><link name='a'/><link name='b'/>" + joint(
        "j", "a", "b", "continuous", "<axis xyz='1 0 0'/><axis xyz='{} 0 0'/>"
    )
    text += "</robot>"
    assert faults(tmp_path, text.format("2")) == ["line 1: joint 'j': <axis> comes 2 times, expected once"]
    assert "joint 'j': <axis> comes 2 times, each time the same" in load_text(tmp_path, text.format("1")).source


def test_limits_the_wrong_way_round_are_none_and_told(tmp_path: Path) -> None:
    """Bullet's way of saying that a joint has no limits."""
    limited = joint("j", "a", "b", "revolute", "<limit lower='1' upper='-1' effort='1' velocity='1'/>")
    with pytest.warns(wt.LeftOutWarning, match=r"lower end is above the upper one.*'j \(from 1 to -1\)'"):
        model = load_text(tmp_path, f"<robot name='r'><link name='a'/><link name='b'/>{limited}</robot>")
    assert (model.joints[1].lower, model.joints[1].upper) == (-np.inf, np.inf)


def test_limits_that_look_like_degrees_are_told(tmp_path: Path) -> None:
    text = "<robot name='r'><link name='a'/><link name='b'/>{}</robot>"
    limits = "<limit lower='-90' upper='90' effort='1' velocity='1'/>"
    with pytest.warns(UserWarning, match="joint 'j' from -90 to 90 rad: are these degrees?"):
        model = load_text(tmp_path, text.format(joint("j", "a", "b", "revolute", limits)))
    assert model.joints[1].upper == 90
    assert load_text(tmp_path, text.format(joint("j", "a", "b", "prismatic", limits))).joints[1].upper == 90


@pytest.mark.parametrize("version", ["0.0", "1.0", "1.1"])
@pytest.mark.parametrize("space", ["", "\n\n"])
def test_odd_declarations_of_xml_are_read(tmp_path: Path, version: str, space: str) -> None:
    text = f"{space}<?xml version='{version}'?>\n<robot name='r'><link name='a'/></robot>"
    model = load_text(tmp_path, text)
    assert ("declares XML version '0.0', and is read as 1.0" in model.source) == (version == "0.0")
    found = faults(tmp_path, text.replace("<link name='a'/>", "\n<link/>"))
    assert f"line {len(space) + 3}: a link has no name" in found


def test_numbers_that_are_none(tmp_path: Path) -> None:
    for word, reason in {
        "1_0": "is not a number",
        "0x10": "is not a number",
        "1,5": "is not a number",
        "": "is not a number",
        "-inf": "is not a finite number",
        "1e400": "is too large for a float",
    }.items():
        mass = f"<inertial><mass value='{word}'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
        found = faults(tmp_path, f"<robot name='r'><link name='a'>{mass}</link></robot>")
        assert found == [f"line 1: link 'a': <mass> value='{word}' {reason}"]


TRANSMISSION = """<transmission name="{name}"><type>transmission_interface/{kind}</type><joint name="{joint}">
  <hardwareInterface>EffortJointInterface</hardwareInterface></joint>
  <actuator name="{motor}"><mechanicalReduction>{ratio}</mechanicalReduction></actuator></transmission>"""


def test_simple_transmissions_are_actuators(tmp_path):
    """The joint's effort is that of the actuator times the reduction, cut to the joint's own limit."""
    cases = [
        ("SimpleTransmission", "swing", "m1", "50"),
        ("SimpleTransmission", "swing", "m1", "2"),
        ("DifferentialTransmission", "swing", "m2", "1"),
        ("SimpleTransmission", "rigid", "m3", "1"),
        ("SimpleTransmission", "swing", "m4", "nan"),
    ]
    written = [
        TRANSMISSION.format(name=f"t{k}", kind=kind, joint=joint, motor=motor, ratio=ratio)
        for k, (kind, joint, motor, ratio) in enumerate(cases)
    ]
    (tmp_path / "r.urdf").write_text(f"""<robot name="r"><link name="base"/>
      <link name="arm"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><link name="tip"/>
      <joint name="swing" type="revolute"><parent link="base"/><child link="arm"/>
        <limit effort="60" velocity="1" lower="-1" upper="1"/></joint>
      <joint name="rigid" type="fixed"><parent link="arm"/><child link="tip"/></joint>{"".join(written)}</robot>""")
    with pytest.warns(wt.LeftOutWarning, match="that are not simple or differential ones: 't2', 't4'"):
        model = wt.load(tmp_path / "r.urdf")
    assert [(a.name, a.joints, a.gear.tolist()) for a in model.actuators] == [
        ("m1", ("swing",), [50.0]),
        ("m1_2", ("swing",), [2.0]),
    ]
    assert "not used: <robot/transmission> of joints that do not move" in model.source
    ref = wt.reference(model)
    assert ref.actuator_forces([0.1], [0.2], [1.0, 0.5]).tolist() == [51.0]
    assert ref.actuator_forces([0.1], [0.2], [1.0, 10.0]).tolist() == [60.0]
    assert not wt.load(tmp_path / "r.urdf", actuators=False).actuators


def test_a_differential_turns_joints_by_sum_and_difference(tmp_path: Path) -> None:
    """What its actuators do in a motion of the joints is what these get: power is the same on both sides."""
    part = "<{0} name='{1}'><role>{0}{2}</role><mechanicalReduction>{3}</mechanicalReduction></{0}>"
    inertia = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
    limit = "<limit lower='-9' upper='9' effort='999' velocity='9'/>"
    written = part.format("joint", "b", 2, 3.0) + part.format("joint", "a", 1, -2.0)
    written += part.format("actuator", "m", 1, 5.0) + part.format("actuator", "n", 2, 7.0)
    model = load_text(
        tmp_path,
        f"""<robot name="r"><link name="l"/><link name="k">{inertia}</link><link name="j">{inertia}</link>
      <joint name="a" type="revolute"><parent link="l"/><child link="k"/>{limit}</joint>
      <joint name="b" type="revolute"><parent link="k"/><child link="j"/>{limit}</joint>
      <transmission name="t"><type>transmission_interface/DifferentialTransmission</type>{written}</transmission>
      </robot>""",
    )
    effort = np.array([0.3, -0.4])
    # speeds of the actuators m and n that belong to those of the joints, for 2 m a = m' + n' and 2 m b = m' − n'
    a, b = rates = np.array([0.6, 1.1])
    speeds = np.array([5.0 * (-2.0 * a + 3.0 * b), 7.0 * (-2.0 * a - 3.0 * b)])
    tau = np.asarray(wt.reference(model).actuator_forces([0, 0], rates, effort), dtype=float)
    assert tau @ rates == pytest.approx(effort @ speeds)
    assert tau.tolist() == pytest.approx([-2 * (5 * 0.3 - 7 * 0.4), 3 * (5 * 0.3 + 7 * 0.4)])


def test_a_plane_is_a_floor_and_unknown_collisions_are_named(tmp_path: Path) -> None:
    """Bullet's ``<plane>``, here a slope of 3-4-5; a shape that nobody knows is told in the warning."""
    shapes = "<collision><geometry><{}/></geometry></collision>"
    inertia = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"
    joint = """<joint name="{0}" type="prismatic"><parent link="{1}"/><child link="{2}"/><axis xyz="{3}"/>
        <limit lower="-9" upper="9" effort="1" velocity="1"/></joint>"""
    floor = shapes.format("plane normal='0 -3 4'") + shapes.format("torus")
    text = f"""<robot name="r"><link name="floor">{floor}</link><link name="cart">{inertia}</link>
      <link name="ball">{inertia}{shapes.format("sphere radius='0.1'")}</link>
      {joint.format("x", "floor", "cart", "1 0 0")}{joint.format("z", "cart", "ball", "0 0 1")}</robot>"""
    with pytest.warns(wt.LeftOutWarning, match="collisions without a known shape: 'floor/collision/1'"):
        model = load_text(tmp_path, text, contacts=True)
    gap = wt.reference(model).contact_gaps([0.3, 0.5])
    assert np.asarray(gap, dtype=float) == pytest.approx([0.5 * 0.8 - 0.1])


def test_joints_and_springs_for_gazebo_alone_are_named(tmp_path: Path) -> None:
    """A URDF is a tree, so files close their loops there; without a word the robot would be another one."""
    link = """<link name="{0}"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
    joint = '<joint name="{0}" type="continuous"><parent link="base"/><child link="{1}"/></joint>'
    tree = "".join(link.format(name) for name in ("base", "left", "right"))
    tree += joint.format("l", "left") + joint.format("r", "right")
    seen = '<gazebo reference="left"><material>Gazebo/Red</material><springStiffness>0.0</springStiffness></gazebo>'
    assert "left out" not in load_text(tmp_path, f"<robot name='r'>{tree}{seen}</robot>").source
    acting = """<gazebo><joint name="bar" type="revolute"><parent>left</parent><child>right</child></joint></gazebo>
      <gazebo reference="l"><springStiffness>40.0</springStiffness></gazebo>"""
    with pytest.warns(wt.LeftOutWarning, match=r"joints in <gazebo>, by which loops may close .*: 'bar'") as caught:
        load_text(tmp_path, f"<robot name='r'>{tree}{seen}{acting}</robot>")
    assert "springs in <gazebo>: 'l'" in str(caught[0].message)
