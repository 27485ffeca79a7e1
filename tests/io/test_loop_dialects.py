"""Closed loops as other people write them: <constraint> and <loop_joint> in a URDF, and YAML beside one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.io.loops_file import parse_yaml

LINK = (
    '<link name="{0}"><inertial><origin xyz="{1} 0 0"/><mass value="1"/>'
    '<inertia ixx="0.0001" iyy="{2}" izz="{2}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{0}" type="{4}"><parent link="{1}"/><child link="{2}"/><origin xyz="{3}"/><axis xyz="0 1 0"/></joint>'
)
TREE = "".join(
    [
        '<link name="base"/>',
        *(LINK.format(n, x / 2, x**2 / 12) for n, x in (("arm", 0.4), ("bar", 1.2), ("lever", 0.9))),
        JOINT.format("crank mot", "base", "arm", "0 0 0", "continuous"),
        JOINT.format("coupler", "arm", "bar", "0.4 0 0", "continuous"),
        JOINT.format("rocker", "base", "lever", "1 0 0", "continuous"),
    ]
)
ENDS = (
    '<link name="bar_end"/><link name="lever_end"/>'
    + JOINT.format("bar tip", "bar", "bar_end", "1.2 0 0", "fixed")
    + JOINT.format("lever tip", "lever", "lever_end", "0.9 0 0", "fixed")
)


def written(folder: Path, inner: str) -> Path:
    (folder / "robot.urdf").write_text(f"<robot name='linkage'>{TREE}{inner}</robot>")
    return folder / "robot.urdf"


def meeting(model: wt.Model, q: np.ndarray) -> float:
    """How far the two ends are apart, m."""
    pose = wt.reference(model.tree).pose
    first, second = (pose(name)(q)[:3, 3] for name in model.constraints[0].on)
    return float(np.linalg.norm(first - second))


@pytest.mark.parametrize(
    ("kind", "expected"), [("revolute", "hinge"), ("continuous", "hinge"), ("spherical", "point"), ("fixed", "weld")]
)
def test_constraints_of_a_urdf(tmp_path: Path, kind: str, expected: str) -> None:
    text = f"""<constraint name="pin" type="{kind}"><parent link="bar"/><parent_origin xyz="1.2 0 0"/>
      <parent_axis xyz="0 2 0"/><child link="lever"/><child_origin xyz="0.9 0 0" rpy="0 0 1.5707963267948966"/>
      <child_axis xyz="1 0 0"/></constraint>"""
    model = wt.load(written(tmp_path, text))
    (constraint,) = model.constraints
    assert (constraint.kind, constraint.on) == (expected, ("pin/1", "pin/2"))
    if expected != "weld":  # a weld would need the bars to be in line
        assert wt.diagnose(model).freedoms == 1
        assert meeting(model, model.home.q) < 1e-11


def test_a_universal_joint_that_was_cut(tmp_path: Path) -> None:
    text = """<constraint name="cross" type="universal"><parent link="bar"/><parent_origin xyz="1.2 0 0"/>
      <parent_axis xyz="0 1 0"/><child link="lever"/><child_origin xyz="0.9 0 0"/><child_axis xyz="0 0 1"/>
      </constraint>"""
    (constraint,) = wt.load(written(tmp_path, text)).constraints
    assert (constraint.parameters["axis"], constraint.parameters["second_axis"]) == ((0, 1, 0), (0, 0, 1))


def test_loop_joints_of_a_urdf(tmp_path: Path) -> None:
    text = """<loop_joint name="pin" type="continuous"><link1 link="bar" xyz="1.2 0 0" rpy="0 0 0"/>
      <link2 link="lever" xyz="0.9 0 0" rpy="0 0 0"/><axis xyz="0 1 0"/></loop_joint>"""
    model = wt.load(written(tmp_path, text))
    assert model.constraints[0].kind == "hinge"
    assert meeting(model, model.home.q) < 1e-11


def test_faults_of_loops_are_told_with_their_line(tmp_path: Path) -> None:
    text = '\n<constraint name="a" type="hing"><parent link="bar"/><child link="lever"/></constraint>'
    text += '\n<constraint name="b" type="revolute"><parent link="bra"/><child link="lever"/></constraint>'
    with pytest.raises(wt.FileError) as caught:
        wt.load(written(tmp_path, text))
    assert list(caught.value.faults) == [
        "line 2: constraint 'a' has type 'hing'; known: revolute, continuous, prismatic, cylindrical, universal, "
        "cardan, spherical, ball, fixed",
        "line 3: constraint 'b' names the unknown link 'bra'. Did you mean 'bar'?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "closed_loop:\n  - [bar_end, lever_end]\ntype:\n  - 3d\nname_mot: mot\njoint_name: []\njoint_type: []\n",
        "closed_loop:\n- - bar_end\n  - lever_end\ntype: [3d]\nname_mot: mot  # motors\n",
        "closed_loop: [[bar tip,\n  lever tip]]\ntype: ['3d']\nname_mot: 'mot'\nviewer: meshcat\n",
    ],
)
def test_loops_of_a_yaml_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "robot.yaml").write_text(text)
    model = wt.load(written(tmp_path, ENDS), loops=tmp_path / "robot.yaml")
    (constraint,) = model.constraints
    assert (constraint.kind, constraint.on) == ("point", ("bar_end", "lever_end"))
    assert [actuator.joints for actuator in model.actuators] == [("crank mot",)]
    assert meeting(model, model.home.q) < 1e-11
    assert "1 loops from" in model.source
    assert ("not used: 'viewer'" in model.source) == ("viewer" in text)


def test_joints_of_other_types_by_name(tmp_path: Path) -> None:
    (tmp_path / "robot.yaml").write_text(
        "closed_loop:\n  - [bar_end, lever_end]\ntype: 3d\n"
        "joint_name: [coupler, rocker]\njoint_type: [SPHERICAL, CARDAN]\n"
    )
    model = wt.load(written(tmp_path, ENDS), loops=tmp_path / "robot.yaml")
    kinds = {joint.name: joint.kind for joint in model.joints}
    assert (kinds["coupler"], kinds["rocker"], kinds["crank mot"]) == ("spherical", "universal", "revolute")
    assert model.constraints[0].kind == "point"
    assert meeting(model, model.home.q) < 1e-11


def test_faults_of_a_yaml_file(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text("closed_loop:\n  - [bar_ned, lever_end]\ntype: [2d]\njoint_name: [crank]\njoint_type: [GEAR]\n")
    with pytest.raises(wt.FileError) as caught:
        wt.load(written(tmp_path, ENDS), loops=path)
    assert len(caught.value.faults) == 3
    path.write_text("a: 1")
    with pytest.raises(wt.FileError, match="the file has no 'closed_loop'"):
        wt.load(written(tmp_path, ENDS), loops=path)
    for text, fault in (("- " * 10_000 + "a", "lists of depth"), ("a: [1, 2", "brackets"), ("a:\n\t- b", "a tab")):
        with pytest.raises(wt.FileError, match=fault):
            parse_yaml(path, text)
