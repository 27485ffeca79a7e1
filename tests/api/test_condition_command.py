"""``whippletree condition FILE``: the report, the figure, and mistakes in one line."""

import pytest

from whippletree import cli

ARM = """<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.2 0 0"/><mass value="2"/>
    <inertia ixx="0.01" iyy="0.03" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="fore"><inertial><origin xyz="0.15 0 0"/><mass value="1.5"/>
    <inertia ixx="0.004" iyy="0.01" izz="0.012" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/>
    <axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM, encoding="utf-8")
    return path


def test_report(arm, capsys):
    assert cli.main(["condition", str(arm), "--q", "0.1", "0.5"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("arm: conditioning, nv = 2\n  mass matrix: κ₂ ")
    assert "largest inertia at joint 'shoulder' (body 'upper')" in out


def test_mixed_units_are_pointed_out(arm, capsys):
    assert cli.main(["condition", str(arm), "--base", "free"]) == 0
    assert "(depends on units: angles and lengths mix)" in capsys.readouterr().out


@pytest.mark.slow
def test_figure_of_a_run(arm, tmp_path, capsys):
    picture = tmp_path / "pictures" / "run.png"
    assert cli.main(["condition", str(arm), "--figure", str(picture), "--duration", "0.1"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
    assert f"figure: {picture}" in capsys.readouterr().out


def test_wrong_number_of_coordinates_is_one_line(arm, capsys):
    assert cli.main(["condition", str(arm), "--q", "0.1"]) == 2
    assert capsys.readouterr().err == "whippletree: conditioning: q has shape (1,), expected (..., 2).\n"
