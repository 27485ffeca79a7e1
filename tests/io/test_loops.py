"""A file of loops beside a model whose format has none: what it adds, and what it says of every mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints import kinds
from whippletree.model import constraint_syntax


def urdf() -> str:
    """Three bars of 1 m in a row, in the x–z plane."""
    inertial = (
        "<inertial><origin xyz='0.5 0 0'/><mass value='1'/>"
        "<inertia ixx='0.01' iyy='0.0833' izz='0.0833' ixy='0' ixz='0' iyz='0'/></inertial>"
    )
    links = "".join(f"<link name='{name}'>{inertial}</link>" for name in ("crank", "coupler", "rocker"))
    joints = ""
    for name, parent, child, x in (
        ("a", "base", "crank", 0),
        ("b", "crank", "coupler", 1),
        ("c", "coupler", "rocker", 1),
    ):
        joints += (
            f"<joint name='{name}' type='continuous'><parent link='{parent}'/><child link='{child}'/>"
            f"<origin xyz='{x} 0 0'/><axis xyz='0 -1 0'/></joint>"
        )
    return f"<robot name='four-bar'><link name='base'/>{links}{joints}</robot>"


LOOPS = """
whippletree = 1

[[frames]]
name = "rocker end"
body = "rocker"
position = [1.0, 0.0, 0.0]

[[frames]]
name = "anchor"
body = "base"
position = [1.0, 0.0, 0.0]

[[constraints]]
name = "loop"
kind = "hinge"
on = ["anchor", "rocker end"]
parameters = { axis = [0.0, 1.0, 0.0] }

[start]
a = 1.2
b = -1.3
c = -1.8
"""


def load(folder: Path, loops: str = LOOPS, name: str = "bar.loops.toml") -> wt.Model:
    (folder / "bar.urdf").write_text(urdf())
    (folder / name).write_text(loops)
    return wt.load(folder / "bar.urdf", loops=folder / name)


@pytest.mark.slow
def test_a_urdf_becomes_a_four_bar(tmp_path: Path) -> None:
    model = load(tmp_path)
    assert wt.diagnose(model).freedoms == 1
    np.testing.assert_allclose(wt.reference(model).pose("rocker end")(model.home.q)[:3, 3], [1, 0, 0], atol=1e-11)
    assert "1 constraints and 2 frames from" in model.source
    run = wt.simulate(model, duration=0.5)
    assert run.attrs["failure"] == ""
    assert np.abs(run.constraint_residual.values).max() < 1e-12
    assert run.attrs["energy_drift"] < 1e-8


def test_the_parallelogram_falls_as_it_must(tmp_path: Path) -> None:
    """The parallelogram of equal rods in another plane: (2/3 + 1) θ̈ = −2 g cos θ, here with the inertia of the file."""
    model = load(tmp_path)
    q = wt.assemble(model, np.array([np.pi / 3, -np.pi / 3, -2 * np.pi / 3]))
    a = wt.reference(model).forward_dynamics(q, np.zeros(3), np.zeros(3))
    side = 0.0833 + 0.25
    np.testing.assert_allclose(a[0], -2 * 9.81 * np.cos(np.pi / 3) / (2 * side + 1), rtol=1e-9)


def test_json_and_a_saved_model(tmp_path: Path) -> None:
    text = (
        '{"whippletree": 1, "constraints": [{"name": "g", "kind": "gear", "on": ["a", "b"],'
        ' "parameters": {"ratios": [1, 2]}}]}'
    )
    model = load(tmp_path, text, "bar.json")
    assert model.constraints[0].kind == "gear"
    wt.save(model, tmp_path / "whole.toml")
    assert wt.load(tmp_path / "whole.toml").constraints[0].on == ("a", "b")


def test_nothing_is_added_without_being_asked_but_it_is_said(tmp_path: Path) -> None:
    load(tmp_path)
    model = wt.load(tmp_path / "bar.urdf")
    assert not model.constraints
    assert "bar.loops.toml' lies beside the file; ask for it with loops=" in model.source


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('kind = "hinge"', 'kind = "hingee"', r"line 14: constraint 'loop': there is no kind 'hingee'.*mean 'hinge'"),
        ("axis =", "axes =", r"there is no parameter 'axes'; known: 'axis', .*Did you mean 'axis'"),
        ('"anchor", "r', '"ancor", "r', r"constraint 'loop': there is no frame or body 'ancor'.*Did you mean 'anchor'"),
        ('body = "rocker"', 'body = "roker"', r"line 4: frame 'rocker end': there is no body 'roker'.*mean 'rocker'"),
        ('kind = "hinge"', 'kinnd = "hinge"', r"unknown key 'kinnd'. Did you mean 'kind'"),
        ("[[frames]]", "[[frame]]", r"the file: unknown key 'frame'. Did you mean 'frames'"),
        ("c = -1.8", "d = -1.8", r"line 23: start: there is no joint 'd'; known: .*'a', 'b', 'c'"),
        ("c = -1.8", "c = [1, 2]", r"start: c has 1 coordinates, got \[1, 2\]"),
        ('name = "anchor"', 'name = "rocker"', r"frame 'rocker': the model has this name already"),
        ('kind = "hinge"', 'kind = "custom"', r"kind 'custom' needs a Python function, which a file cannot hold"),
        ("whippletree = 1\n", "", r"the file: the key 'whippletree' is missing"),
        ("[1.0, 0.0, 0.0]", "[1.0, 0.0]", r"frame 'rocker end': position"),
    ],
)
def test_every_mistake_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    with pytest.raises(wt.FileError, match=fault):
        load(tmp_path, LOOPS.replace(old, new))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bar.urdf").write_text(urdf())
    with pytest.raises(FileNotFoundError, match=r"there is no file .*bar\.loops\.toml"):
        wt.load(tmp_path / "bar.urdf", loops=tmp_path / "bar.loops.toml")
    with pytest.raises(wt.FileError, match=r"a loops file is \.toml or \.json, got '\.urdf'"):
        wt.load(tmp_path / "bar.urdf", loops=tmp_path / "bar.urdf")


def test_the_words_are_those_that_have_a_meaning() -> None:
    assert set(constraint_syntax.KINDS) == set(kinds.KINDS) - {"relax", "rest"}


def test_a_misspelt_parameter_is_not_ignored() -> None:
    builder = wt.Builder("m").body("b", 1.0).joint("j", "revolute", "world", "b")
    model = builder.constraint("c", "hinge", "world", "b", axes=(1, 0, 0)).build()
    with pytest.raises(wt.ModelError, match=r"kind 'hinge' has no parameter 'axes'; known: axis, .*mean 'axis'"):
        wt.reference(model).constraint_residual([0.0])
