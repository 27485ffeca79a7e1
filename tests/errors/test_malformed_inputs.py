"""Malformed scenarios, models, states and arguments: each gets one clear message and exit code 2, never a traceback."""

from __future__ import annotations

import re

import pytest

from whippletree import cli

ROBOT = """<robot name="arm"><link name="base"/><link name="upper"><inertial><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="{kind}"><parent link="base"/><child link="{child}"/><axis xyz="{axis}"/></joint></robot>"""

PENDULUM = '[model]\nmechanism = "pendulum"\n'
ONE_SECOND = "[solver]\nduration = 0.1\n"


def scenario(text):
    return {"case.toml": text}, ["run", "case.toml"]


def model(text, name="case.urdf", command="info"):
    return {name: text}, [command, name]


def urdf(kind="revolute", child="upper", axis="0 0 1"):
    return model(ROBOT.format(kind=kind, child=child, axis=axis))


def with_scenario(*lines):
    return scenario(PENDULUM + "\n".join(lines) + "\n" + ONE_SECOND)


def solver(*lines):
    return scenario(PENDULUM + "[solver]\n" + "\n".join(lines))


CASES = {
    # files
    "no such scenario": (({}, ["run", "nowhere.toml"]), "nowhere"),
    "no such model": (({}, ["info", "nowhere.urdf"]), "nowhere"),
    "a folder instead of a file": (({}, ["info", "."]), r"\."),
    "not TOML": (scenario("[model\n"), "not TOML"),
    "not a scenario by its suffix": (({"case.txt": ""}, ["run", "case.txt"]), "a scenario is a .toml file"),
    "a model for a scenario": (({}, ["run", "arm.urdf"]), r"write two lines into one: model\.file = 'arm\.urdf' and"),
    "binary rubbish": (({"case.toml": b"\xff\xfe\x00"}, ["run", "case.toml"]), "not UTF-8"),
    "an empty scenario": (scenario(""), "the file is empty"),
    "another format version": (scenario("whippletree_scenario = 9\n" + PENDULUM + ONE_SECOND), "format 9"),
    # keys and values of scenarios
    "a misspelt table": (scenario(PENDULUM + "[solvr]\nduration = 1.0\n"), "Did you mean 'solver'"),
    "a misspelt key": (solver("duration = 1.0", "rtoll = 1e-6"), "line 5.*Did you mean 'rtol'"),
    "no duration": (solver("rtol = 1e-6"), "'duration' is missing"),
    "a text for a number": (solver('duration = "long"'), "expected float, got str"),
    "a negative duration": (solver("duration = -1.0"), "duration is -1.0"),
    "an endless duration": (solver("duration = inf"), "duration is inf"),
    "a zero output step": (solver("duration = 1.0", "output_dt = 0.0"), "output_dt is 0.0"),
    "too many rows": (solver("duration = 1.0", "output_dt = 1e-12"), "rows of output"),
    "an unknown method": (solver("duration = 1.0", 'method = "rk5"'), "Did you mean 'rk4'"),
    "an unknown option": (solver("duration = 1.0", "options = { stepp = 0.1 }"), "there is no option 'stepp'"),
    "file and mechanism": (
        scenario('[model]\nmechanism = "pendulum"\nfile = "x.urdf"\n' + ONE_SECOND),
        "either file or",
    ),
    "neither file nor mechanism": (scenario("[model]\n" + ONE_SECOND), "either file or mechanism"),
    "a misspelt mechanism": (scenario('[model]\nmechanism = "pendulm"\n' + ONE_SECOND), "Did you mean 'pendulum'"),
    "a misspelt parameter": (
        scenario('[model]\nmechanism = "pendulum"\nparameters = { lenght = 1.0 }\n' + ONE_SECOND),
        "Did you mean 'length'",
    ),
    "a chain of no links": (scenario('[model]\nmechanism = "chain"\nparameters = { n = 0 }\n' + ONE_SECOND), "n is 0"),
    # states
    "too many coordinates": (with_scenario("[start]", "q = [0.0, 1.0]"), "q has 2 numbers, expected 1"),
    "an infinite coordinate": (with_scenario("[start]", "q = [nan]"), "q0 holds nan"),
    "an unknown joint": (with_scenario("[start]", "joints = { hinje = 1.0 }"), "Did you mean 'hinge'"),
    "q and joints": (with_scenario("[start]", "q = [0.0]", "joints = { hinge = 1.0 }"), "not both"),
    "an open loop": (
        scenario('[model]\nmechanism = "four_bar"\n[start]\nq = [1.0, 2.0, 3.0]\n' + ONE_SECOND),
        "violates|residual|loop",
    ),
    # controllers, constraints, outputs
    "an unknown controller": (with_scenario("[[controllers]]", 'kind = "pdd"'), "Did you mean 'pd'"),
    "a controller without its joint": (
        with_scenario("[[controllers]]", 'kind = "damper"', "parameters = { damping = 1.0 }"),
        "'joint' is missing",
    ),
    "a controller's file that is not there": (
        with_scenario("[[controllers]]", 'kind = "python"', 'file = "no.py"', 'function = "f"'),
        "there is no file",
    ),
    "an unknown kind of constraint": (
        with_scenario("[[constraints]]", 'name = "c"', 'kind = "welt"', 'on = ["rod", "world"]'),
        "Did you mean 'weld'",
    ),
    "a constraint on nothing": (
        with_scenario("[[constraints]]", 'name = "c"', 'kind = "weld"', 'on = ["rodd", "world"]'),
        "there is no frame or body 'rodd'",
    ),
    "ground under no foot": (with_scenario("[ground]", 'frames = ["foot"]'), "there is no frame or body 'foot'"),
    "negative friction": (with_scenario("[ground]", 'frames = ["rod"]', "friction = -1.0"), "friction"),
    "a point that is not there": (with_scenario("[outputs]", 'points = ["tool"]'), "there is no frame or body 'tool'"),
    "an unknown plot": (with_scenario("[outputs]", 'plots = ["energy"]'), "Did you mean 'energies'"),
    "a run in an unknown format": (with_scenario("[outputs]", 'run = "run.xls"'), "kept as .nc or .zarr"),
    # models
    "XML that ends too early": (model("<robot name='x'"), "line 1"),
    "an unknown type of joint": (urdf(kind="hinge"), "hinge"),
    "a joint to nowhere": (urdf(child="lower"), "lower"),
    "an axis of no length": (urdf(axis="0 0 0"), "axis"),
    "an axis of words": (urdf(axis="z"), "axis"),
    "JSON that is a list": (model("[]", "case.json"), "expected a table"),
    # arguments
    "no command": (({}, []), "required|command|usage"),
    "an unknown command": (({}, ["simulate", "x"]), "simulate|invalid|unrecognized"),
    "a number that is none": (({}, ["info", "x.urdf", "--depth", "many"]), "depth|many"),
    "a base that is none": (({}, ["info", "x.urdf", "--base", "loose"]), "base|loose"),
    "a run that is none": (({"run.nc": "text"}, ["plot", "run.nc"]), "not a run"),
    "a target of another format": (
        (
            {"case.urdf": ROBOT.format(kind="revolute", child="upper", axis="0 0 1")},
            ["convert", "case.urdf", "case.xml"],
        ),
        "saved as .toml or .json",
    ),
}


def test_there_are_enough_of_them():
    assert len(CASES) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_message_and_exit_code_two(name, tmp_path, monkeypatch, capsys):
    (files, arguments), expected = CASES[name]
    monkeypatch.chdir(tmp_path)
    for path, content in files.items():
        (tmp_path / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert re.search(expected, out + err, re.DOTALL), out + err
    assert "Traceback" not in out + err
    if err.startswith("whippletree: "):  # tyro words its own messages about arguments
        several = "faults\n" in err
        assert several or err.count("\n") == 1, err
