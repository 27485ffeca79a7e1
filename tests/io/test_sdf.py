"""SDF: loops as the file has them, poses and axes in all their frames, and Cassie, which no peer's wheel loads."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from lxml import etree

import whippletree as wt
from whippletree.io import rotations
from whippletree.io.rotations import from_rpy

CASSIE = Path(pin.__file__).parents[4] / "share/example-robot-data/robots/cassie_description/robots"
CLOSURES = {
    "cassie.sdf": {"coupling": 10, "slider": 2, "hinge": 2, "point": 2},
    "cassie_v2.sdf": {"point": 4},
    "cassie_reduced.sdf": {"point": 4},
    "cassie_simple.sdf": {"hinge": 2, "point": 2},
    "cassie_wo_gearbox_spring.sdf": {"hinge": 2, "point": 2},
}

HELD = ("cassie_reduced.sdf", "cassie_simple.sdf", "cassie_wo_gearbox_spring.sdf")
"""Files whose own joints hold the robot on the world."""


def load_text(folder: Path, inner: str, version: str = "1.6", **options: object) -> wt.Model:
    path = folder / "robot.sdf"
    path.write_text(f"<sdf version='{version}'><model name='m'>{inner}</model></sdf>", encoding="utf-8")
    return wt.load(path, **options)


def faults(folder: Path, inner: str) -> list[str]:
    with pytest.raises(wt.FileError) as caught:
        load_text(folder, inner)
    return list(caught.value.faults)


def link(name: str, pose: str = "0 0 0 0 0 0") -> str:
    inertia = "<inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz></inertia>"
    return f"<link name='{name}'><pose>{pose}</pose><inertial><mass>2</mass>{inertia}</inertial></link>"


def joint(
    name: str, parent: str, child: str, kind: str = "revolute", inner: str = "<axis><xyz>0 0 1</xyz></axis>"
) -> str:
    return f"<joint name='{name}' type='{kind}'><parent>{parent}</parent><child>{child}</child>{inner}</joint>"


@pytest.mark.parametrize("name", CLOSURES)
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_cassie(name: str, base: str) -> None:
    held = base == "free" and name in HELD
    with pytest.warns(wt.LeftOutWarning, match="base='free' for what joints") if held else nullcontext():
        model = wt.load(CASSIE / name, base=base)
    assert Counter(constraint.kind for constraint in model.constraints) == CLOSURES[name]
    pose = wt.reference(model.tree).pose
    for element in etree.parse(CASSIE / name).getroot().iterfind("model/link"):
        x, y, z, *angles = map(float, element.findtext("pose").split())
        placed = pose(element.get("name"))(model.neutral.q)
        np.testing.assert_allclose(placed[:3, 3], [x, y, z], atol=1e-14)
        np.testing.assert_allclose(placed[:3, :3], from_rpy(*angles), atol=1e-14)
    for constraint in model.constraints:
        if constraint.kind != "coupling":
            first, second = (pose(frame)(model.neutral.q) for frame in constraint.on)
            np.testing.assert_allclose(first, second, atol=1e-14)


def test_a_joint_turns_about_its_own_place(tmp_path: Path) -> None:
    """The joint's pose is in the child; its axis in the joint, or in the model where the file says so."""
    at = "<pose>0 1 0 0 0 0</pose>"
    own = joint("own", "a", "b", inner=f"{at}<axis><xyz>1 0 0</xyz></axis>")
    model = load_text(tmp_path, link("a", "1 0 0 0 0 0") + link("b", "2 0 0 0 0 1.5707963267948966") + own)
    assert [(j.name, j.parent, j.child) for j in model.joints] == [
        ("root_joint", "world", "a"),
        ("own", "a", "b/own"),
        ("b/weld", "b/own", "b"),
    ]
    pose = wt.reference(model).pose
    # b is turned by 90°, so the joint is at (1, 0, 0) in the model and its axis along the model's y
    np.testing.assert_allclose(pose("b/own")([0.3])[:3, 3], [1, 0, 0], atol=1e-15)
    turned = np.array([[np.cos(0.3), 0, np.sin(0.3)], [0, 1, 0], [-np.sin(0.3), 0, np.cos(0.3)]])
    np.testing.assert_allclose(pose("b")([0.3])[:3, :3], turned @ from_rpy(0, 0, np.pi / 2), atol=1e-15)
    np.testing.assert_allclose(pose("b")([0.3])[:3, 3], [1 + np.cos(0.3), 0, -np.sin(0.3)], atol=1e-15)


@pytest.mark.parametrize(
    ("version", "axis"),
    [
        ("1.4", "<xyz>0 1 0</xyz>"),
        ("1.6", "<xyz>0 1 0</xyz><use_parent_model_frame>1</use_parent_model_frame>"),
        ("1.9", "<xyz expressed_in='__model__'>0 1 0</xyz>"),
        ("1.6", "<xyz>1 0 0</xyz>"),
    ],
)
def test_frames_of_an_axis(tmp_path: Path, version: str, axis: str) -> None:
    turned = link("b", "0 0 0 0 0 1.5707963267948966")
    hinge = joint("j", "a", "b", inner=f"<axis>{axis}</axis>")
    model = load_text(tmp_path, link("a") + turned + hinge, version)
    assert model.joints[1].axis.tolist() == [1, 0, 0]


def test_a_second_joint_closes_a_loop(tmp_path: Path) -> None:
    data = "<axis><xyz>0 0 1</xyz><dynamics><damping>2</damping></dynamics></axis>"
    loop = [
        joint("ab", "a", "b"),
        joint("ac", "a", "c"),
        joint("bc", "b", "c", inner=f"<pose>0 1 0 0 0 0</pose>{data}"),
    ]
    model = load_text(tmp_path, link("a") + link("b", "1 0 0 0 0 0") + link("c", "0 1 0 0 0 0") + "".join(loop))
    (closing,) = model.constraints
    assert (closing.name, closing.kind, closing.on) == ("bc", "hinge", ("bc/1", "bc/2"))
    assert dict(closing.parameters) == {"axis": (0, 0, 1), "damping": 2}
    assert [(f.body, f.pose[:3, 3].tolist()) for f in model.frames] == [("b", [-1, 2, 0]), ("c", [0, 1, 0])]
    assert "joint 'bc' closes a loop: what acts along it (damping) is kept, without effect" in model.source
    assert "loop cut at joint 'bc' (revolute, 'b' to 'c'): constraint 'bc' of kind 'hinge'" in model.source


def test_the_user_chooses_where_a_loop_is_cut(tmp_path: Path) -> None:
    """At another joint, or at the same one with what acts along it; a screw that closes a loop is cut like this."""
    data = "<axis><xyz>0 0 1</xyz><dynamics><damping>2</damping></dynamics></axis>"
    places = link("a") + link("b", "1 0 0 0 0 0") + link("c", "0 1 0 0 0 0")
    loop = (
        joint("ab", "a", "b") + joint("ac", "a", "c") + joint("bc", "b", "c", inner=f"<pose>0 1 0 0 0 0</pose>{data}")
    )
    model = load_text(tmp_path, places + loop, cut=["ac"])
    assert [(c.name, c.kind) for c in model.constraints] == [("ac", "hinge")]
    assert model.joints[model.joint_index("bc")].damping == 2
    model = load_text(tmp_path, places + loop, cut=["bc"])
    assert [(c.name, c.kind, c.joint) for c in model.constraints] == [("bc", "weld", "revolute")]
    screw = load_text(tmp_path, places + joint("ab", "a", "b") + joint("ac", "a", "c") + joint("s", "b", "c", "screw"))
    assert [(c.name, c.kind, c.joint) for c in screw.constraints] == [("s", "weld", "helical")]
    for found in (model, screw):
        np.testing.assert_allclose(wt.reference(found).constraint_residual(found.neutral.q), 0, atol=1e-15)


def platform(base: str) -> str:
    """The plate of a parallelogram whose legs, which stand on a base, name it as their second parent."""
    top = "<pose>0 1 0 0 0 0</pose><axis><xyz>0 0 1</xyz></axis>"
    legs = link("left", "-0.5 0 0 0 0 0") + link("right", "0.5 0 0 0 0 0")
    feet = joint("a", base, "left") + joint("b", base, "right")
    return legs + feet + joint("c", "plate", "left", inner=top) + joint("d", "plate", "right", inner=top)


def test_a_link_that_is_nobodys_child_is_reached_from_its_children(tmp_path: Path) -> None:
    model = load_text(tmp_path, link("plate", "0 1 0 0 0 0") + platform("world"))
    assert [(j.name, j.parent) for j in model.joints if j.kind != "weld"] == [
        ("a", "world"),
        ("c", "left"),
        ("b", "world"),
    ]
    assert "joint 'c' is turned round: 'left' carries 'plate'" in model.source
    assert (wt.diagnose(model).freedoms, [c.name for c in model.constraints]) == (1, ["d"])


def test_of_links_that_are_nobodys_children_the_first_is_the_base(tmp_path: Path) -> None:
    model = load_text(tmp_path, link("ground") + link("plate", "0 1 0 0 0 0") + platform("ground"))
    assert [(j.name, j.child) for j in model.joints if j.parent == "world"] == [("root_joint", "ground")]
    assert wt.diagnose(model).freedoms == 1


@pytest.mark.parametrize(("first", "second", "ratio"), [("0 0 1", "0 0 1", -0.5), ("0 0 -1", "0 0 1", 0.5)])
def test_a_gearbox_couples_two_joints(tmp_path: Path, first: str, second: str, ratio: float) -> None:
    gear = joint(
        "gear", "b", "c", "gearbox",
        f"<gearbox_ratio>.5</gearbox_ratio><gearbox_reference_body>a</gearbox_reference_body>"
        f"<axis><xyz>{first}</xyz></axis><axis2><xyz>{second}</xyz></axis2>",
    )  # fmt: skip
    model = load_text(
        tmp_path, link("a") + link("b") + link("c") + joint("in", "a", "b") + joint("out", "a", "c") + gear
    )
    (coupling,) = model.constraints
    assert (coupling.kind, coupling.on) == ("coupling", ("out", "in"))
    assert coupling.parameters["coefficients"] == (0, ratio)


def test_limits_may_be_endless(tmp_path: Path) -> None:
    """SDFormat writes its defaults so from 1.9 on; the file was refused."""
    axis = """<axis><xyz>0 0 1</xyz><limit><lower>-inf</lower><upper>inf</upper><effort>inf</effort>
      <velocity>inf</velocity></limit></axis>"""
    model = load_text(tmp_path, link("a") + joint("j", "world", "a", "revolute", axis))
    (j,) = (own for own in model.joints if own.name == "j")
    assert (j.lower, j.upper, j.effort_limit, j.velocity_limit) == (-np.inf, np.inf, np.inf, np.inf)


def test_a_universal_joint_with_unlike_axes_is_told(tmp_path: Path) -> None:
    """The limits of the first axis held for both, and what the file said of the second went without a word."""
    first = "<axis><xyz>0 1 0</xyz><limit><lower>-1</lower><upper>2</upper></limit></axis>"
    second = (
        "<axis2><xyz>1 0 0</xyz><limit><lower>-1</lower><upper>3</upper></limit>"
        "<dynamics><damping>0.3</damping></dynamics></axis2>"
    )
    with pytest.warns(wt.LeftOutWarning, match="differ between their two axes .*'j: upper', 'j: damping'"):
        model = load_text(tmp_path, link("a") + joint("j", "world", "a", "universal", first + second))
    (j,) = (own for own in model.joints if own.name == "j")
    assert (j.lower, j.upper, j.damping) == (-1, np.inf, 0)


def test_masses_that_collisions_decide_are_told(tmp_path: Path) -> None:
    with pytest.warns(wt.LeftOutWarning, match="masses that follow from collisions .*'a'"):
        load_text(tmp_path, '<link name="a"><inertial auto="true"/></link>' + joint("j", "world", "a"))


def test_joint_types_and_data(tmp_path: Path) -> None:
    axis = """<axis><xyz>0 0 2</xyz>
      <limit><lower>-1e16</lower><upper>1</upper><effort>-1</effort><velocity>3</velocity></limit>
      <dynamics><damping>1</damping><friction>2</friction><spring_stiffness>3</spring_stiffness>
      <spring_reference>4</spring_reference></dynamics></axis>"""
    kinds = {"revolute": "revolute", "prismatic": "prismatic", "ball": "spherical", "fixed": "weld", "screw": "helical"}
    names = list(kinds)
    text = "".join(link(name) for name in names) + joint(
        "u", "world", "screw", "universal", "<axis2><xyz>1 0 0</xyz></axis2>"
    )
    text += "".join(joint(f"j{k}", names[k - 1], name, name, axis) for k, name in enumerate(names[:4]) if k)
    with pytest.warns(wt.LeftOutWarning, match="springs of ball joints: 'j2'"):
        model = load_text(tmp_path, text + joint("j0", "screw", "revolute", "revolute", axis))
    found = {j.name: j for j in model.joints}
    assert [found[name].kind for name in ("u", "j0", "j1", "j2", "j3")] == [
        "universal", "revolute", "prismatic", "spherical", "weld",
    ]  # fmt: skip
    j = found["j0"]
    assert (j.damping, j.friction, j.stiffness, j.rest) == (1, 2, 3, 4)
    assert (j.lower, j.upper, j.effort_limit, j.velocity_limit) == (-np.inf, 1, np.inf, 3)
    assert found["j2"].stiffness == 0


def test_a_link_without_inertia_weighs_a_kilogram(tmp_path: Path) -> None:
    model = load_text(tmp_path, "<link name='a'/>")
    assert (model.bodies[0].mass, np.diag(model.bodies[0].inertia).tolist()) == (1, [1, 1, 1])
    assert "link 'a' has no <inertial>: 1 kg and 1 kg m², SDF's own rule" in model.source


def test_a_model_in_a_world(tmp_path: Path) -> None:
    path = tmp_path / "world.sdf"
    inner = f"<model name='m'><pose>0 0 5 0 0 0</pose>{link('a', '1 0 0 0 0 0')}{joint('j', 'world', 'a')}</model>"
    path.write_text(f"<sdf version='1.6'><world name='w'><gravity>0 0 -1.6</gravity>{inner}</world></sdf>")
    model = wt.load(path)
    assert model.gravity.tolist() == [0, 0, -1.6]
    assert model.joints[0].pose[:3, 3].tolist() == [1, 0, 5]


def test_every_fault_is_listed_with_its_line(tmp_path: Path) -> None:
    bad = "\n".join(
        [
            "<link name='a'><pose>0 0 x 0 0 0</pose></link>",
            "<link><inertial><mass>-1</mass></inertial></link>",
            "<link name='b'><pose relative_to='aa'>0 0 0 0 0 0</pose><inertial><mass>-1</mass></inertial></link>",
            joint("j", "a", "c"),
            joint("k", "a", "b", "revolut"),
            joint("l", "a", "b", inner="<axis><xyz>0 0 0</xyz></axis>"),
            joint("g", "a", "b", "gearbox", "<gearbox_reference_body>a</gearbox_reference_body>"),
        ]
    )
    assert faults(tmp_path, f"\n{bad}") == [
        "line 2: link 'a': <pose> '0 0 x 0 0 0' holds something that is not a finite number",
        "line 3: a link has no name",
        "line 4: link 'b' is placed relative to 'aa', which the model does not have. Did you mean 'a'?",
        "line 4: body 'b': mass -1.0 is negative",
        "line 5: joint 'j' names the unknown child 'c'",
        "line 6: joint 'k' has type 'revolut'; known: revolute, continuous, prismatic, screw, universal, ball, fixed, "
        "gearbox. Did you mean 'revolute'?",
        "line 7: joint 'l': <axis> has no direction",
        "line 8: joint 'g': the gearbox needs 'a' to hang from its reference body 'a' by a revolute joint",
    ]


def test_a_file_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.sdf").write_text("<sdf version='1.6'/>")
    with pytest.raises(wt.FileError, match="the file holds no model"):
        wt.load(tmp_path / "a.sdf")


def test_several_models_of_a_world_are_one_with_names_of_their_own(tmp_path: Path) -> None:
    arm = f"<pose>0 0 {{}} 0 0 0</pose>{link('a')}{link('b', '1 0 0 0 0 0')}{joint('j', 'a', 'b')}"
    text = f"<model name='arm'>{arm.format(1)}</model><model name='arm'><static>true</static>{arm.format(2)}</model>"
    (tmp_path / "w.sdf").write_text(
        f"<sdf version='1.6'><world name='hall'><include><uri>model://sun</uri></include>{text}</world></sdf>"
    )
    with pytest.warns(wt.LeftOutWarning, match="included models, which are not opened: 'model://sun'"):
        model = wt.load(tmp_path / "w.sdf", base="free")
    assert model.name == "hall"
    assert [body.name for body in model.bodies if "/" not in body.name] == ["arm::a", "arm::b", "arm_2::a", "arm_2::b"]
    carried = {joint.child: (joint.name, joint.kind) for joint in model.joints}
    assert carried["arm::a"] == ("arm::root_joint", "free")
    assert carried["arm_2::a"] == ("arm_2::root_joint", "weld")  # static
    heights = [wt.reference(model.tree).pose(name)(model.home.q)[2, 3] for name in ("arm::b", "arm_2::b")]
    assert heights == [1, 2]


def test_a_link_called_world_is_a_body(tmp_path: Path) -> None:
    model = load_text(tmp_path, link("world") + link("b") + joint("j", "world", "b"))
    assert [body.name for body in model.bodies] == ["world_link", "b"]
    assert "the link 'world' is the body 'world_link'" in model.source


@pytest.mark.parametrize(
    "part", ["<include><uri>model://x</uri></include>", "<model name='n'><link name='a'/></model>"]
)
def test_models_inside_models_are_refused(tmp_path: Path, part: str) -> None:
    assert "inside a model is not read: write one model with all its links" in faults(tmp_path, part)[0]


def test_frames_name_each_other(tmp_path: Path) -> None:
    """The same arm with every pose in the model's frame, and with every pose in another frame's."""
    plain = f"""<link name='a'><pose>1 2 3 0.1 0.2 0.3</pose></link><link name='b'><pose>2 2 3 0.1 0.2 0.3</pose></link>
        {joint("j", "world", "a", inner="<pose>0 0.5 0 0 0 0</pose><axis><xyz>0 1 0</xyz></axis>")}
        {joint("k", "a", "b", inner="<axis><xyz expressed_in='__model__'>0 0 1</xyz></axis>")}"""
    turned = quaternion(0.1, 0.2, 0.3)
    named = f"""<frame name='corner'><pose>1 2 3 0 0 0</pose></frame>
        <frame name='shoulder' attached_to='a'><pose>0 0.5 0 0 0 0</pose></frame>
        <link name='a'><pose relative_to='corner' degrees='true'>0 0 0 5.729577951308232 11.459155902616464
            17.188733853924695</pose></link>
        <link name='b'><pose relative_to='corner' rotation_format='quat_xyzw'>1 0 0 {turned}</pose></link>
        {joint("j", "world", "a", inner="<pose relative_to='shoulder'/><axis><xyz>0 1 0</xyz></axis>")}
        {joint("k", "shoulder", "b", inner="<axis><xyz expressed_in='corner'>0 0 1</xyz></axis>")}"""
    one, other = load_text(tmp_path, plain, "1.9"), load_text(tmp_path, named, "1.9")
    q = np.array([0.4, -0.7])
    for link in ("a", "b"):
        np.testing.assert_allclose(
            wt.reference(other).pose(link)(q), wt.reference(one).pose(link)(q), rtol=1e-12, atol=1e-15
        )
    shoulder = wt.reference(other).pose("shoulder")(q)
    np.testing.assert_allclose(shoulder[:3, 3], (wt.reference(one).pose("a")(q) @ [0, 0.5, 0, 1])[:3])
    circle = "<link name='a'><pose relative_to='b'/></link><link name='b'><pose relative_to='a'/></link>"
    assert faults(tmp_path, circle) == ["line 1: link 'b' is placed in a circle: 'a' relative to 'b' relative to 'a'"]


def quaternion(roll: float, pitch: float, yaw: float) -> str:
    half = [np.array([np.cos(angle / 2), np.sin(angle / 2)]) for angle in (roll, pitch, yaw)]
    (cr, sr), (cp, sp), (cy, sy) = half
    x, y, z = sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy
    return f"{x} {y} {z} {cr * cp * cy + sr * sp * sy}"


def test_a_mimic_is_a_coupling(tmp_path: Path) -> None:
    numbers = "<multiplier>2</multiplier><offset>.3</offset><reference>.1</reference>"
    follow = f"<axis><xyz>0 0 1</xyz><mimic joint='{{}}'>{numbers}</mimic></axis>"
    text = "<link name='a'/><link name='b'/>" + joint("j", "world", "a")
    model = load_text(tmp_path, text + joint("k", "world", "b", inner=follow.format("j")), "1.11")
    (mimic,) = model.constraints
    assert (mimic.kind, mimic.on) == ("coupling", ("k", "j"))
    np.testing.assert_allclose(mimic.parameters["coefficients"], (0.3 - 2 * 0.1, 2))
    (fault,) = faults(tmp_path, text + joint("k", "world", "b", inner=follow.format("jj")))
    assert fault.endswith("<mimic> needs two joints with one coordinate each, and names 'jj'. Did you mean 'j'?")


def test_a_plane_is_a_floor(tmp_path: Path) -> None:
    """The ground of most worlds: a static model with a plane, on which the others may rest."""
    (tmp_path / "world.sdf").write_text(
        """<sdf version='1.9'><world name='w'><physics type='ode'/><wind/>
        <model name='ground'><static>true</static><link name='l'><pose>0 0 0.25 0 0 0</pose>
          <collision name='c'><geometry><plane><normal>0 0 2</normal></plane></geometry>
          <surface><friction/></surface></collision>
          <collision name='d'><geometry><heightmap/></geometry></collision></link></model>
        <model name='egg'><link name='l'><pose>0 0 1 0 0 0</pose><inertial><mass>1</mass></inertial>
          <collision name='c'><geometry><ellipsoid><radii>0.1 0.2 0.3</radii></ellipsoid></geometry></collision></link>
        </model></world></sdf>"""
    )
    with pytest.warns(wt.LeftOutWarning, match="collisions without a known shape: 'ground::l/collision/1'"):
        model = wt.load(tmp_path / "world.sdf", base="free", contacts=True)
    gap = wt.reference(model).contact_gaps(model.home.q)
    assert np.asarray(gap, dtype=float) == pytest.approx([1 - 0.25 - 0.3])
    assert "not used: <collision/surface>, <world/physics>, <world/wind>" in model.source


def test_products_of_poses_are_rounded_once():
    """So a file is the same model on every processor, whose linear algebra may sum in any order."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(4, 4)), rng.normal(size=(4, 3))
    found = rotations.product(a, b)
    for i, j in np.ndindex(found.shape):
        assert found[i, j] == float(sum(Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j], strict=True)))
    np.testing.assert_array_equal(rotations.product(np.eye(4), b), b)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isinf(rotations.product(np.full((1, 1), 1e200), np.full((1, 1), 1e200))).all()


@pytest.mark.parametrize("word", ["false", "0"])
def test_a_link_that_feels_no_gravity_floats(tmp_path: Path, word: str) -> None:
    """A link on a slide along z falls with g, less by the share of its mass that has no weight."""
    rail = joint("rail", "world", "a", "prismatic")
    arm = joint("arm", "a", "b", "prismatic", "<axis><xyz>1 0 0</xyz></axis>")
    light = link("b").replace("</link>", f"<gravity>{word}</gravity></link>")
    model = load_text(tmp_path, link("a") + light + rail + arm)
    ref, zero = wt.reference(model), np.zeros(2)
    fall = ref.forward_dynamics(zero, zero, ref.passive_forces(zero, zero))
    np.testing.assert_allclose(fall[model.slice("rail")], [-9.81 / 2], rtol=1e-15)
    heavy = load_text(tmp_path, link("a") + light.replace(f"<gravity>{word}", "<gravity>true") + rail + arm)
    assert not heavy.elements
    assert "not used" not in heavy.source + model.source


def test_what_acts_on_links_and_is_not_read_is_named(tmp_path: Path) -> None:
    quiet = "<kinematic>false</kinematic><velocity_decay><linear>0.0</linear></velocity_decay>"
    assert "left out" not in load_text(tmp_path, link("a").replace("</link>", quiet + "</link>")).source
    loud = """<kinematic>1</kinematic><enable_wind>true</enable_wind>
      <velocity_decay><angular>.1</angular></velocity_decay></link>"""
    added = "</inertia><fluid_added_mass><xx>1</xx></fluid_added_mass>"
    text = link("a").replace("</link>", loud).replace("</inertia>", added) + link("b")
    text += joint("j", "a", "b", "revolute", "<axis><xyz>0 0 1</xyz><initial_position>.4</initial_position></axis>")
    text += link("c") + joint("k", "a", "c", "ball", AXIS_WITH_A_SPRING)
    with pytest.warns(wt.LeftOutWarning) as caught:
        load_text(tmp_path, text)
    for words in (
        *("kinematic links", "wind: 'a'", "decay of velocities: 'a'", "mass of fluid", "initial positions", "'j'"),
        "springs of ball joints: 'k'",
    ):
        assert words in str(caught[0].message), words


AXIS_WITH_A_SPRING = "<axis><xyz>0 0 1</xyz><dynamics><spring_stiffness>3</spring_stiffness></dynamics></axis>"
