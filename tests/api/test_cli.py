"""The command line: what it prints, where, and with which exit code."""

import io
import re
import subprocess
import sys

import pytest

import whippletree as wt
from whippletree import cli
from whippletree.cli import demonstration
from whippletree.view.plots import PLOTS

ARM = """<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.2 0 0"/><mass value="2"/>
    <inertia ixx="0.01" iyy="0.03" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="fore [left]"><inertial><origin xyz="0.15 0 0"/><mass value="1.5"/>
    <inertia ixx="0.004" iyy="0.01" izz="0.012" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/></joint>
  <joint name="elbow" type="prismatic"><parent link="upper"/><child link="fore [left]"/><origin xyz="0.4 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
</robot>"""


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM, encoding="utf-8")
    return path


def test_info_draws_the_tree_and_counts(arm, capsys):
    assert cli.main(["info", str(arm)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [" ".join(line.strip("│├└─ ").split()) for line in out.splitlines()]
    assert lines[0] == "arm in the world"
    assert any(line.startswith("base massless") for line in lines)
    assert "upper 2 kg shoulder: revolute, 1 DoF" in lines
    assert "fore [left] 1.5 kg elbow: prismatic, 1 DoF" in lines  # a name is never read as markup
    assert "coordinates nq = 2, nv = 2" in lines
    assert any(line.endswith("total mass 3.5 kg") for line in lines)
    assert "massless 1: base" in lines
    assert "gravity (0, 0, -9.81) m/s²" in lines


def test_info_with_a_free_base(arm, capsys):
    assert cli.main(["info", str(arm), "--base", "free"]) == 0
    assert "nq = 9, nv = 8" in capsys.readouterr().out


def test_info_counts_what_lies_below_the_depth(arm, capsys):
    assert cli.main(["info", str(arm), "--depth", "1"]) == 0
    out = capsys.readouterr().out
    assert "… and 2 deeper (--depth)" in out
    assert "elbow: prismatic" not in out


def test_missing_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "nowhere.urdf"
    assert cli.main(["info", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("whippletree: ")
    assert str(path) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "<robot", "<robot name='x'><joint name='j' type='hinge'/></robot>", "\0\1\2"])
def test_broken_file_is_a_message_and_no_traceback(text, tmp_path, capsys):
    path = tmp_path / "broken.urdf"
    path.write_text(text, encoding="utf-8")
    assert cli.main(["info", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("whippletree: ")
    assert "broken.urdf" in err
    assert "Traceback" not in err


def test_folder_instead_of_a_file(tmp_path, capsys):
    assert cli.main(["info", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("whippletree: ")


@pytest.mark.parametrize("arguments", [[], ["dance"], ["info"], ["info", "a", "--base", "loose"]])
def test_wrong_arguments_exit_with_2(arguments, capsys):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert "whippletree" in out + err


def test_commands_about_models_take_a_scenario_for_its_model(tmp_path, capsys):
    path = tmp_path / "case.toml"
    path.write_text('[model]\nmechanism = "four_bar"\n[solver]\nduration = 1.0\ncheckpoint = 1\n')
    assert cli.main(["info", str(path)]) == 2  # its faults are those of a scenario
    assert "unknown key 'checkpoint'" in capsys.readouterr().err
    path.write_text(
        f'[model]\nmechanism = "four_bar"\n[solver]\nduration = 1.0\n[outputs]\ncheckpoint = "{path.name}"\n'
    )
    assert cli.main(["info", str(path)]) == 0
    assert capsys.readouterr().out.startswith("four-bar in the world")
    with pytest.raises(wt.FileError, match=r"this is a scenario, not a model: wt\.load_scenario"):
        wt.load(path)
    assert cli.main(["run", str(path)]) == 2
    assert "a checkpoint is a folder, and this is a file" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "info" in out
    assert "demo" in out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("whippletree ")


def test_help_lists_every_figure_and_shows_no_type_of_python(capsys):
    assert cli.main(["plot", "--help"]) == 0
    words = set(re.findall(r"[a-z]+", capsys.readouterr().out))
    assert set(PLOTS) | {"overview"} <= words
    for command in cli.COMMANDS:
        assert cli.main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "None" not in shown, command
        assert "default: False" not in shown, command


def test_a_folder_that_cannot_be_made_stops_the_demo_before_it_simulates(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    monkeypatch.setattr(demonstration, "simulate_piece", lambda *_: pytest.fail("simulated"))
    assert cli.main(["demo", "--output", str(tmp_path / "file" / "out")]) == 2
    assert capsys.readouterr().err == f"whippletree: {tmp_path / 'file' / 'out'}: Not a directory\n"


@pytest.mark.slow
def test_demo_fits_on_one_screen_and_leaves_its_files(tmp_path, capsys):
    assert cli.main(["demo", "--output", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "massless" in out
    assert len(out.splitlines()) <= 24
    for name in ("crank-slider", "four-bar", "hopper"):
        for suffix in ("nc", "html", "png"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_the_letters_of_the_tree(encoding, arm, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert cli.main(["info", str(arm)]) == 0
    sys.stdout.flush()
    assert b"gravity" in written.getvalue()


def test_module_runs_as_a_program(arm):
    command = [sys.executable, "-m", "whippletree.cli", "info", str(arm)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "shoulder" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inf", "a.urdf"], "Did you mean 'info'?"),
        (["bench", "{arm}", "--batch", "0"], "--batch 0: expected at least one state"),
        (["view", "{arm}", "--port", "99999"], "port 99999: expected 0 to 65535"),
        (["view", "{arm}", "--output", "{arm}/page.html"], "arm.urdf/page.html: "),
        (["condition", "{arm}", "--loops", "nowhere.toml"], "there is no file 'nowhere.toml'"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(arguments, message, arm, capsys):
    if "--port" in arguments:
        pytest.importorskip("viser", reason="viser is not installed: pip install 'whippletree[view]'")
    assert cli.main([word.format(arm=arm) for word in arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
