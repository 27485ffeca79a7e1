"""Commands of actuators in scenario files, in each of the ways that ``[ctrl]`` knows."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree import cli

MODEL = """<mujoco model="cart">
  <option timestep="0.002"/>
  <worldbody><body name="cart"><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/>
    <body name="arm" pos="0 0 0.1"><joint name="elbow" axis="0 1 0" damping="1"/><geom size="0.05" mass="1"/></body>
  </body></worldbody>
  <actuator><motor name="push" joint="rail"/><position name="hold" joint="elbow" kp="20"/></actuator>
  <keyframe><key name="reach" qpos="0 0" ctrl="3 0.5"/></keyframe>
</mujoco>"""

GAIT = """
import numpy as np

def gait(frequency):
    return lambda t, q, v: [np.sin(frequency * t), 0.5]
"""


def scenario(folder, ctrl):
    folder.joinpath("cart.xml").write_text(MODEL)
    folder.joinpath("gait.py").write_text(GAIT)
    text = f'[model]\nfile = "cart.xml"\n{ctrl}\n[solver]\nduration = 0.1\noutput_dt = 0.02\n'
    folder.joinpath("cart.toml").write_text(text)
    return wt.load_scenario(folder / "cart.toml")


@pytest.mark.parametrize(
    ("ctrl", "expected"),
    [
        ("[ctrl]\nactuators = { push = 3.0, hold = 0.5 }", [3.0, 0.5]),
        ("[ctrl]\nactuators = { hold = 0.5 }", [0.0, 0.5]),
        ("[ctrl]\nvalues = [3, 0.5]", [3.0, 0.5]),
        ("[ctrl]\nvalues = [[3.0, 0.5], [-3.0, 0.5]]", [[3.0, 0.5], [-3.0, 0.5]]),
        ('[ctrl]\nkey_frame = "reach"', [3.0, 0.5]),
        ('[ctrl]\nfile = "gait.py"\nfunction = "gait"\nparameters = { frequency = 2.0 }', "gait"),
    ],
)
def test_commands_of_a_scenario_are_those_of_simulate(tmp_path, ctrl, expected):
    found = scenario(tmp_path, ctrl)
    if expected == "gait":
        expected = lambda t, q, v: [np.sin(2 * t), 0.5]  # noqa: E731
    run = found.run(progress=False)
    direct = wt.simulate(found.model, duration=0.1, output_dt=0.02, ctrl=expected)
    assert np.array_equal(run.q, direct.q)
    assert np.abs(run.v[-1]).max() > 0.1


def test_a_scenario_chooses_what_of_its_model_file_is_taken(tmp_path, capsys):
    (tmp_path / "robots").mkdir()
    (tmp_path / "shared.xml").write_text('<mujoco><worldbody><geom type="plane" size="1 1 1"/></worldbody></mujoco>')
    (tmp_path / "robots" / "cart.xml").write_text(
        MODEL.replace("<worldbody>", '<include file="../shared.xml"/><worldbody>', 1)
    )
    (tmp_path / "robots" / "cart.toml").write_text(
        '[model]\nfile = "cart.xml"\nroot = ".."\nactuators = false\ncontacts = false\n[solver]\nduration = 0.1\n'
    )
    model = wt.load_scenario(tmp_path / "robots" / "cart.toml").model
    assert (model.actuators, model.contacts) == ((), ())
    path = str(tmp_path / "robots" / "cart.xml")
    assert cli.main(["info", path]) == 2  # the included file is outside of its folder
    assert cli.main(["info", path, "--root", str(tmp_path)]) == 0
    assert "cart in the world" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ctrl", "told"),
    [
        ("[ctrl]\nactuators = { pull = 3.0 }", "actuator 'pull'"),
        ("[ctrl]\nvalues = [1.0]", r"shape \(1,\)"),
        ('[ctrl]\nkey_frame = "raech"', "Did you mean 'reach'"),
        ("[ctrl]", "give one of actuators, values, key_frame, file; got none"),
        ('[ctrl]\nvalues = [1.0, 2.0]\nkey_frame = "reach"', "got values and key_frame"),
        ('[ctrl]\nfile = "walk.py"\nfunction = "gait"', "ctrl: there is no file"),
        ("[ctrl]\nactuator = { push = 3.0 }", "unknown key 'actuator'. Did you mean 'actuators'"),
    ],
)
def test_what_is_wrong_with_commands_is_a_fault_of_the_file(tmp_path, ctrl, told):
    with pytest.raises(wt.FileError, match=told):
        scenario(tmp_path, ctrl)


def test_reactions_are_kept_on_request(tmp_path):
    run = scenario(tmp_path, "[outputs]\nreactions = true").run(progress=False)
    assert "joint_reactions" in run
